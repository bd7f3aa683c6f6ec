#!/usr/bin/env python3
"""Times the tile compiler's PTX on a GPU beside Triton's PTX of the same kernels, in one process.

    python3 benches/gpu/tile_kernels.py OURS TRITON [--only TEXT] > table.md

OURS holds NAME.ptx and NAME.json for each kernel, TRITON the same as NAME/kernel.ptx and NAME/kernel.json: the metadata
say the entry's name, its warps and its dynamic shared memory. Needs PyTorch for memory and the driver for the rest.

Method: each kernel at the shape that its seed runs it at; random inputs, the same for both; a 256 MB write flushes L2 before
each launch; CUDA events round one launch, the two taking turns; the median. An empty kernel's time is in the last row: what
of a figure is the launch. Registers and local bytes (spills) are what the driver's assembler reports. `difference` is the
largest between the two results over the largest magnitude of Triton's, from the same inputs into poisoned outputs.
"""

import argparse
import ctypes
import json
import math
import pathlib
import statistics
import sys

import torch

CUDA = ctypes.CDLL("libcuda.so.1")
EMPTY = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry empty() { ret; }\n"
FLUSH = None


def check(code, what):
    if code != 0:
        text = ctypes.c_char_p()
        CUDA.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{what}: {text.value.decode() if text.value else code}")


class Kernel:
    def __init__(self, ptx, name, warps, shared):
        self.threads, self.shared = 32 * warps, shared
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(5, 6)  # the error log and its size
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 8192)
        module = ctypes.c_void_p()
        code = CUDA.cuModuleLoadDataEx(ctypes.byref(module), ptx.encode() + b"\0", 2, options, values)
        if code != 0:
            raise RuntimeError(f"{name} is refused: {log.value.decode()}")
        self.function = ctypes.c_void_p()
        check(CUDA.cuModuleGetFunction(ctypes.byref(self.function), module, name.encode()), name)
        if shared > 48 * 1024:
            check(CUDA.cuFuncSetAttribute(self.function, 8, shared), f"{name}: {shared} bytes of shared memory")
        self.registers, self.local, self.static = (self.attribute(which) for which in (4, 3, 1))

    def attribute(self, which):
        value = ctypes.c_int()
        check(CUDA.cuFuncGetAttribute(ctypes.byref(value), which, self.function), "an attribute")
        return value.value

    def launch(self, grid, arguments):
        values = []
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                values.append(ctypes.c_uint64(argument.data_ptr()))
            elif isinstance(argument, float):
                values.append(ctypes.c_float(argument))
            else:
                values.append(ctypes.c_int32(argument))
        values += [ctypes.c_uint64(0), ctypes.c_uint64(0)]  # Triton's scratch pointers
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        code = CUDA.cuLaunchKernel(
            self.function, *grid, self.threads, 1, 1, self.shared, stream, pointers, None)
        check(code, "a launch")


def uniform(*shape, low=-1.0, high=1.0, dtype=torch.float32):
    return (torch.rand(*shape, device="cuda") * (high - low) + low).to(dtype)


def positive(batch, n):
    """Well-conditioned: a few steps of any factorisation stay in range."""
    a = uniform(batch, n, n) * 0.1 / math.sqrt(n)
    a.diagonal(dim1=1, dim2=2).add_(2.0)
    return a


def triangles(*shape):
    blocks = uniform(*shape, 32, 32) * 0.05
    blocks.diagonal(dim1=-2, dim2=-1).add_(1.0)
    return blocks


def tiles(remaining, tile=128):
    side = -(-remaining // tile)
    return side * (side + 1) // 2


BATCH = {512: 640, 1024: 60, 2048: 8}


def trailing(n, depth, source=True):
    def make():
        a, remaining = uniform(BATCH[n], n, n), n - depth
        arguments = [a] + ([a] if source else []) + [0, remaining]
        return arguments, [0], (tiles(remaining), BATCH[n], 1)
    return make


def inner(n, tile=128):
    def make():
        a, remaining = uniform(BATCH[n], n, n), n - 32
        grid = (-(-remaining // tile) * (128 // tile), BATCH[n], 1)
        return [a, a, 0, 96, remaining], [0], grid
    return make


def apply(n):
    def make():
        a = uniform(BATCH[n], n, n)
        out, remaining = uniform(BATCH[n], n, n), n - 32
        return [out, triangles(BATCH[n]), a, 0, remaining], [0], (-(-remaining // 128), BATCH[n], 1)
    return make


def fused(n):
    def make():
        a, rows = uniform(BATCH[n], n, n) * 0.1, n - 128
        return [a, triangles(4, BATCH[n]), a, 0, rows, BATCH[n] * 1024], [0], (-(-rows // 128), BATCH[n], 1)
    return make


def diagonal(n):
    def make():
        a = uniform(BATCH[n], n, n) * 0.1
        return [a, triangles(BATCH[n]), a, 0, 96], [0], (BATCH[n], 1, 1)
    return make


def micro(n):
    def make():
        a = positive(BATCH[n], n)
        return [a.clone(), uniform(BATCH[n], 32, 32), a, 0], [0, 1], (BATCH[n], 1, 1)
    return make


def moved(product, dtype):
    def make():
        rows = columns = 4096
        out = torch.zeros(rows, columns, device="cuda", dtype=dtype)
        other = uniform(rows, columns) if product else uniform(1)
        grid = (rows // 16, columns // 512, 1)
        return [uniform(rows, columns), other, out, rows, columns, columns, columns], [2], grid
    return make


def factors():
    return [positive(4096, 32), uniform(4096, 32, 32), 1024, 32, 1024, 32], [1], (4096, 1, 1)


def factors_by_pairs():
    return [positive(4096, 32), uniform(4096, 32, 32)], [1], (4096, 1, 1)


def diagonal_factor():
    return [positive(8, 2048), 0], [0], (8, 1, 1)


def panel_solve():
    return [positive(8, 2048), 0, 1984], [0], (31, 8, 1)


def clear(n, grid):
    return lambda: ([uniform(BATCH[n], n, n)], [0], grid)


def leaves():
    return [positive(1, 2048), uniform(2048, 2048)], [1], (2048, 1, 1)


def quantise():
    rows, columns = 4096, 4096
    q = torch.zeros(rows, columns, device="cuda", dtype=torch.uint8)
    scales = torch.zeros(rows, columns // 32, device="cuda", dtype=torch.uint8)
    return [uniform(rows, columns), q, scales, columns, columns], [1, 2], (rows // 32, columns // 128, 1)


def largest():
    # A transposed operand too, as the seed has them.
    rows, depth = 4096, 1024
    lhs, rhs = uniform(rows, depth), uniform(depth, rows)
    parts = [torch.zeros(rows, device="cuda") for _ in range(2)]
    numbers = [rows, depth, rows, depth, depth, rows, 1, 1, rows, rows]
    return [lhs, rhs, *parts, *numbers], [2, 3], (rows, 1, 1)


def cast():
    rows, depth = 4096, 1024
    lhs, rhs = uniform(rows, depth), uniform(depth, rows)
    out = [torch.zeros(rows, depth, device="cuda", dtype=torch.uint8) for _ in range(2)]
    scales = [torch.full((1,), 100.0, device="cuda") for _ in range(2)]
    numbers = [rows * depth, rows * depth, depth, depth, depth, rows]
    return [lhs, rhs, *out, *scales, *numbers], [2, 3], (rows * depth // 1024, 1, 1)


def panel_update():
    m, n, k = 4096, 4096, 512
    codes = [torch.randint(0, 0x70, (rows, k), device="cuda", dtype=torch.uint8) for rows in (m, n)]
    scales = [torch.randint(120, 130, (rows, k // 32), device="cuda", dtype=torch.uint8) for rows in (m, n)]
    return [codes[0], scales[0], codes[1], scales[1], uniform(m, n), m, n, k], [4], (m // 128, n // 128, 1)


def kda(varlen=False, inverted=False):
    def make():
        tokens, heads, depth, chunk = 8192, 32, 128, 64
        unit = lambda: torch.nn.functional.normalize(uniform(tokens, heads, depth), dim=-1).to(torch.bfloat16)
        q, k, beta = unit(), unit(), uniform(tokens, heads, low=0.1)
        steps = -uniform(tokens // chunk, chunk, heads, depth, low=0.0, high=0.2)
        g = steps.cumsum(1).reshape(tokens, heads, depth).contiguous()
        blocks = uniform(tokens // 16, 16, heads, 16) * 0.1
        rows, columns = torch.arange(16, device="cuda")[:, None], torch.arange(16, device="cuda")[None, :]
        blocks = blocks * (columns < rows)[None, :, None, :]
        if inverted:
            blocks = blocks + (columns == rows)[None, :, None, :]
        out = [torch.zeros(tokens, heads, chunk, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        arguments = [q, k, g, beta, out[0], blocks.float().contiguous(), out[1], depth**-0.5]
        if varlen:
            chunks = torch.arange(tokens // chunk, device="cuda")
            arguments.append(torch.tensor([0, tokens], device="cuda"))
            arguments.append(torch.stack([torch.zeros_like(chunks), chunks], 1).contiguous())
        return arguments + [tokens], [4, 6], (tokens // chunk, heads, 1)
    return make


CASES = {
    "chol_batched_kernel": factors,
    "chol32_rank2_kernel": factors_by_pairs,
    "diag_factor_8x2048": diagonal_factor,
    "panel_solve_8x2048": panel_solve,
    "lower_schur_8x2048": trailing(2048, 64, source=False),
    "clear_upper_8x2048": clear(2048, (4096, 1, 1)),
    "clear_upper_tiles": clear(512, (10, 640, 1)),
    "micro_potrf_gj32": micro(512),
    "micro_potrf_gj32@first_div": micro(1024),
    "panel_apply32": apply(512),
    "panel_apply32@tf32_n2048": apply(2048),
    "panel_apply32@tf32x3_first": apply(512),
    "panel_inner32": inner(512),
    "panel_inner32@tf32_n1024": inner(1024),
    "panel_inner32_subtile64": inner(512, 64),
    "panel_inner32_subtile64@tf32_n2048": inner(2048, 64),
    "panel_inner32_subtile64@ieee_n512": inner(512, 64),
    "diag_block_step": diagonal(1024),
    "diag_block_step@tf32x3_n512": diagonal(512),
    "panel_fused128": fused(512),
    "panel_fused128@tf32_n1024": fused(1024),
    "panel_fused128@tf32_n1024_trans": fused(1024),
    "trailing_nb": trailing(512, 128),
    "trailing_nb@tf32_n1024": trailing(1024, 128),
    "trailing_nb@tf32x3_n512": trailing(512, 128),
    "trailing_nb@fp16_n2048_nb256": trailing(2048, 256),
    "exp057_tri_inv_leaf32_kernel": leaves,
    "exp061_block_move_kernel": moved(True, torch.float32),
    "exp061_block_move_kernel@fp16": moved(True, torch.float16),
    "exp061_block_move_kernel@noprod": moved(False, torch.float32),
    "dual_tiled_amax_e4m3_32768": largest,
    "dual_scale_cast_e4m3_32768": cast,
    "mx_quant_e4m3_kernel": quantise,
    "mx_quant_e4m3_blocked_kernel": quantise,
    "mxfp8_panel_update_kernel": panel_update,
    "chunk_kda_fwd_kernel_inter_solve_fused": kda(),
    "chunk_kda_fwd_kernel_inter_solve_fused@tf32x3": kda(),
    "chunk_kda_fwd_kernel_inter_solve_fused@ieee": kda(),
    "chunk_kda_fwd_kernel_inter_solve_fused@safegate": kda(inverted=True),
    "chunk_kda_fwd_kernel_inter_solve_fused@varlen": kda(varlen=True),
}


def results(kernel, make, seed):
    torch.manual_seed(seed)
    arguments, outputs, grid = make()
    kernel.launch(grid, arguments)
    torch.cuda.synchronize()
    return [arguments[place].double() for place in outputs]


def difference(ours, theirs):
    worst = 0.0
    for mine, other in zip(ours, theirs):
        if not torch.equal(mine.isnan(), other.isnan()):
            return math.nan
        mine, other = mine.nan_to_num(), other.nan_to_num()
        worst = max(worst, ((mine - other).abs().max() / other.abs().max().clamp_min(1e-30)).item())
    return worst


def times(kernels, arguments, grid, repeats):
    taken = [[] for _ in kernels]
    for turn in range(repeats + 5):
        for which, kernel in enumerate(kernels):
            FLUSH.zero_()
            start, end = torch.cuda.Event(True), torch.cuda.Event(True)
            start.record()
            kernel.launch(grid, arguments)
            end.record()
            end.synchronize()
            if turn >= 5:
                taken[which].append(start.elapsed_time(end) * 1e3)
    return [statistics.median(each) for each in taken]


def main():
    global FLUSH
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=pathlib.Path)
    parser.add_argument("triton", type=pathlib.Path)
    parser.add_argument("--only", default="", help="kernels whose names hold this text")
    parser.add_argument("--repeats", type=int, default=60)
    options = parser.parse_args()
    FLUSH = torch.empty(64 * 1024 * 1024, device="cuda")
    name = torch.cuda.get_device_name()
    print(f"{name}, PyTorch {torch.__version__}, medians of {options.repeats}, L2 flushed\n")
    print("| kernel | Triton µs | ours µs | speed | registers | local bytes | shared | difference |")
    print("|---|---|---|---|---|---|---|---|")
    speeds = []
    for case, make in CASES.items():
        if options.only not in case:
            continue
        kernels = []
        try:
            for folder, stem in ((options.triton / case, "kernel"), (options.ours, case)):
                meta = json.loads((folder / f"{stem}.json").read_text())
                ptx = (folder / f"{stem}.ptx").read_text()
                kernels.append(Kernel(ptx, meta["name"], meta["num_warps"], meta["shared"]))
            triton, ours = kernels
            apart = difference(results(ours, make, 1), results(triton, make, 1))
            arguments, _, grid = make()
            taken = times(kernels, arguments, grid, options.repeats)
        except (OSError, RuntimeError) as error:
            print(f"| {case} | {str(error).splitlines()[0][:150]} |")
            continue
        speeds.append(taken[0] / taken[1])
        pair = lambda of: f"{of(triton)} / {of(ours)}"
        print(f"| {case} | {taken[0]:.1f} | {taken[1]:.1f} | {speeds[-1]:.2f} | {pair(lambda k: k.registers)} "
              f"| {pair(lambda k: k.local)} | {pair(lambda k: k.shared + k.static)} | {apart:.1e} |")
        sys.stdout.flush()
        del arguments
        torch.cuda.empty_cache()
    empty = Kernel(EMPTY, "empty", 1, 0)
    empty.launch = lambda grid, arguments, launch=empty.launch: launch(grid, [])
    print(f"\nan empty kernel: {times([empty], [], (1, 1, 1), options.repeats)[0]:.1f} µs")
    if speeds:
        mean = math.exp(sum(map(math.log, speeds)) / len(speeds))
        print(f"geometric mean of {len(speeds)} speeds: {mean:.3f}; the least {min(speeds):.2f}")


if __name__ == "__main__":
    main()
