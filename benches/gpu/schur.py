#!/usr/bin/env python3
"""Checks and times `schur_wgmma` on a Hopper card beside torch.matmul of the same operands, in one process.

    python3 benches/gpu/schur.py FOLDER [--only TEXT] [--runs N] > table.md

FOLDER holds a .ptx and a .json (the module's metadata) for each specialisation, as `tilewright emit schur_wgmma ...` and the same
with `--meta` write them. Needs PyTorch and the driver (libcuda.so.1, through ctypes).

Check: a batch with ragged edges and an odd leading dimension against f64 products of what the shadow holds, and (two planes) of the FP32
matrices it was made of; everything that is not to be touched is NaN, and must stay so. Times: `square` is the 8192 x 8192 block under the
diagonal tiles of order 16384, depth 8192; `triangle` all lower tiles of order 8192, depth 8192, operations counted as done (128 x 128
tiles); `step` the same with depth 128, which is bound by memory. A 256 MB write flushes L2 before each call; CUDA events round one call;
median. Peer: torch.matmul of 8192^3 with FP32 accumulation in the operand's type. The products of one entry are counted once, so that with two
planes a third of the peer's rate is what the tensor cores allow.
"""

import argparse
import ctypes
import json
import pathlib
import statistics

import torch

DRIVER = ctypes.CDLL("libcuda.so.1")
TILE = 128
F64 = torch.float64
PLANES = {"f16": 1, "f16x3": 2, "bf16": 1, "tf32": 1, "tf32x3": 2, "e4m3": 1}
K_OF_TILE = {"f16": 64, "f16x3": 64, "bf16": 64, "tf32": 32, "tf32x3": 32, "e4m3": 128}


def ok(code, log=None):
    if code != 0:
        text = ctypes.c_char_p()
        DRIVER.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"driver: {text.value} {log.value.decode() if log else ''}")


class Kernel:
    """A specialisation, launched as its metadata says."""

    def __init__(self, path):
        self.meta = json.loads(path.with_suffix(".json").read_text())["kernels"][0]
        self.name = self.meta["name"]
        _, _, self.operand, columns, *_ = self.name.split("_")
        self.columns = int(columns[1:])
        self.planes, self.k_of_tile = PLANES[self.operand], K_OF_TILE[self.operand]
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        log = ctypes.create_string_buffer(8192)
        # CU_JIT_ERROR_LOG_BUFFER and its size.
        options = (ctypes.c_int * 2)(5, 6)
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), ctypes.c_void_p(len(log)))
        ok(DRIVER.cuModuleLoadDataEx(ctypes.byref(module), path.read_bytes() + b"\0", 2, options, values), log)
        ok(DRIVER.cuModuleGetFunction(ctypes.byref(self.function), module, self.name.encode()))
        # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
        ok(DRIVER.cuFuncSetAttribute(self.function, 8, self.meta["shared"]))

    def __call__(self, grid, c_in, c_out, shadow, scale, strides, lds, numbers):
        values = [ctypes.c_uint64(t.data_ptr()) for t in (c_in, c_out, shadow, scale)]
        values += [ctypes.c_int64(x) for x in strides] + [ctypes.c_int32(x) for x in (*lds, *numbers)]
        assert len(values) == len(self.meta["params"])
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        threads = 32 * self.meta["num_warps"]
        ok(DRIVER.cuLaunchKernel(self.function, grid, 1, 1, threads, 1, 1, self.meta["shared"], stream, pointers, None))


def rounded(operand, x):
    """x in the operand's format, as stored."""
    if operand in ("f16", "f16x3"):
        return x.half()
    if operand == "bf16":
        return x.bfloat16()
    if operand == "e4m3":
        return x.to(torch.float8_e4m3fn)
    bits = x.view(torch.int32)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFF).view(torch.float32)


def shadow_of(operand, l):
    """The shadow of l (batch, n, k): bytes in operand order, scales, and the values of its planes in FP32."""
    batch, n, k = l.shape
    per = K_OF_TILE[operand]
    tiles, k_tiles = -(-n // TILE), k // per
    whole = torch.zeros(batch, tiles * TILE, k, device=l.device)
    whole[:, :n] = l
    largest = 8 if operand == "e4m3" else 14
    size = whole.abs().amax(-1)
    scale = torch.where(size > 0, torch.exp2(torch.ceil(torch.log2(size)) - largest), 1.0)
    rest = whole / scale[..., None]
    row, piece = torch.arange(TILE, device=l.device)[:, None], torch.arange(8, device=l.device)[None]
    from_piece = piece ^ (row & 7)
    stored, values = [], []
    for _ in range(PLANES[operand]):
        held = rounded(operand, rest)
        values.append(held.float()[:, :n])
        rest = rest - held.float()
        words = held.view(torch.uint8).view(batch, tiles, TILE, k_tiles, 8, 16).transpose(2, 3)
        stored.append(words[:, :, :, row, from_piece])
    return torch.stack(stored, 3).contiguous(), scale.contiguous(), values


def problem(kernel, batch, n, k, ld, positive=False):
    """Random L and its shadow, and a C of NaN above the diagonal and in gaps."""
    generator = torch.Generator("cuda").manual_seed(1)
    l = torch.randn(batch, n, k, device="cuda", generator=generator)
    l = (l.abs() if positive else l) * torch.exp2(torch.randint(-6, 3, (batch, n, 1), device="cuda").float())
    c = torch.full((batch, n, ld), float("nan"), device="cuda")
    c[:, :, :n] = torch.randn(batch, n, n, device="cuda", generator=generator)
    above = torch.ones(n, ld, device="cuda", dtype=torch.bool).triu(1)
    c[:, above] = float("nan")
    return l, c


def check(kernel, sms, positive):
    batch, n, ld = 2, 1000, 1003
    k = 16 * kernel.k_of_tile
    l, c = problem(kernel, batch, n, k, ld, positive)
    stored, scale, planes = shadow_of(kernel.operand, l)
    before = c.clone()
    tiles, k_tiles = -(-n // TILE), k // kernel.k_of_tile
    first_k, depth, first_row, first_col, cols = 1, k_tiles - 1, 2, 1, 4
    kernel(sms, c, c, stored, scale, (c.stride(0),) * 2, (ld, ld), (n, batch, tiles, k_tiles, first_k, depth, first_row, first_col, cols))
    torch.cuda.synchronize()
    row, col = torch.arange(n, device="cuda")[:, None], torch.arange(ld, device="cuda")[None]
    wanted = (col <= row) & (row >= TILE * first_row) & (col >= TILE * first_col) & (col < TILE * (first_col + cols))
    same = (c == before) | (c.isnan() & before.isnan())
    assert same[:, ~wanted].all(), f"{kernel.name}: written where nothing is to be updated"
    keep = slice(first_k * kernel.k_of_tile, None)
    s = [plane[..., keep].to(F64) * scale[:, :n, None].to(F64) for plane in planes]
    product = s[0] @ s[0].mT if len(s) == 1 else s[0] @ s[0].mT + s[0] @ s[1].mT + s[1] @ s[0].mT
    wanted = wanted[:, :n]
    size = sum(s).abs() @ sum(s).abs().mT
    error = lambda exact: ((c[:, :, :n].to(F64) - before[:, :, :n].to(F64) + exact).abs() / size)[:, wanted]
    of_planes = error(product)
    exact = l[..., keep].to(F64)
    of_l = error(exact @ exact.mT)
    # A step of 32 bytes of k loses a few units of the sum's last place, of which FP8 has 13 bits.
    limit = 8 * 4 * depth * (2 * len(planes) - 1) * 2.0 ** (-13 if kernel.operand == "e4m3" else -23)
    assert of_planes.max() < limit, f"{kernel.name}: {of_planes.max()}"
    return f"{of_planes.max():.1e} / {of_l.square().mean().sqrt():.1e}"


def median(call, runs, flush):
    for _ in range(2):
        call()
    times = []
    for _ in range(runs):
        flush.zero_()
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) * 1e-3)
    return statistics.median(times)


def peer(operand, runs, flush):
    """Seconds of a product of 8192^3."""
    a, b = (torch.randn(8192, 8192, device="cuda") for _ in range(2))
    if operand == "e4m3":
        a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        one = torch.ones((), device="cuda")
        return median(lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16), runs, flush)
    torch.backends.cuda.matmul.allow_tf32 = operand.startswith("tf32")
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    ty = {"f16": torch.half, "f16x3": torch.half, "bf16": torch.bfloat16}.get(operand, torch.float32)
    a, b = a.to(ty), b.to(ty)
    return median(lambda: a @ b.t(), runs, flush)


def wanted_tiles(columns, tiles, first_row, first_col, cols):
    """128 x 128 tiles that are updated."""
    cols = min(cols, tiles - first_col)
    return sum(tiles - max(j, first_row) for j in range(first_col, first_col + cols))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--grid", type=int, default=0, help="CTAs; the card's multiprocessors unless given")
    arguments = parser.parse_args()
    torch.zeros(1, device="cuda")
    device = torch.cuda.get_device_properties(0)
    sms = arguments.grid or device.multi_processor_count
    flush = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
    print(f"{device.name}, {sms} CTAs, PyTorch {torch.__version__}; error: largest of planes / RMS of L, of sum |L L|\n")
    print("| kernel | error | error, one sign | square ms | TFLOP/s | torch TFLOP/s | ratio | triangle ms | TFLOP/s | step ms | GB/s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    peers, shadows = {}, {}
    c = torch.zeros(16384, 16384, device="cuda")
    for path in sorted(arguments.folder.glob("schur_wgmma*.ptx")):
        if arguments.only not in path.stem:
            continue
        kernel = Kernel(path)
        errors = [check(kernel, sms, positive) for positive in (False, True)]
        if kernel.operand not in peers:
            peers[kernel.operand] = 2 * 8192**3 / peer(kernel.operand, arguments.runs, flush) / 1e12
            shadows = {kernel.operand: shadow_of(kernel.operand, torch.randn(1, 16384, 8192, device="cuda"))[:2]}
        stored, scale = shadows[kernel.operand]
        k_tiles = 8192 // kernel.k_of_tile

        def time(n, depth, first_row, cols):
            numbers = (n, 1, n // TILE, k_tiles, 0, depth, first_row, 0, cols)
            call = lambda: kernel(sms, c, c, stored, scale, (n * n, n * n), (n, n), numbers)
            return median(call, arguments.runs, flush), wanted_tiles(kernel.columns, n // TILE, first_row, 0, cols)

        (square, square_tiles), (triangle, tiles) = time(16384, k_tiles, 64, 64), time(8192, k_tiles, 0, 64)
        step, _ = time(8192, 128 // kernel.k_of_tile, 0, 64)
        rate = lambda tiles, seconds: 2 * TILE * TILE * 8192 * tiles / seconds / 1e12
        fast, torch_rate = rate(square_tiles, square), peers[kernel.operand]
        print(
            f"| {path.stem} | {errors[0]} | {errors[1]} | {square * 1e3:.3f} | {fast:.0f} | {torch_rate:.0f} | {fast / torch_rate:.3f} "
            f"| {triangle * 1e3:.3f} | {rate(tiles, triangle):.0f} | {step * 1e3:.4f} | {8 * TILE * TILE * tiles / step / 1e9:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
