#!/usr/bin/env python3
"""Times KDA's intra-chunk solve on a GPU: our kernels beside Triton's PTX of the seed's, in one process, with both errors.

    python3 benches/gpu/kda.py OURS TRITON [--shape B,T,H,K] [--repeats N] > table.md

OURS holds NAME.ptx and NAME.json of `kda_inter_solve` kernels for bf16 (generated/sm_90a does; those of variable length and
of other types are left out), TRITON the seed's kernels as NAME/kernel.ptx and NAME/kernel.json. Triton's are compiled for B, T, H, K = 1, 8192,
32, 128; other shapes time ours alone. Needs PyTorch for memory and the oracle, and the driver for the rest.

Method as tile_kernels.py: random inputs, a 256 MB write flushes L2 before each launch, CUDA events round one launch, kernels taking
turns, the median. Errors are ‖x − ref‖ / ‖ref‖ of Aqk and of Akk, from poisoned outputs, against the definition in doubles (the
diagonal blocks as they are given).
"""

import argparse
import json
import pathlib

import torch

import tile_kernels
from tile_kernels import Kernel, times, uniform

CHUNK, SUB = 64, 16


def inputs(batch, tokens, heads, depth, inverted):
    unit = lambda: torch.nn.functional.normalize(uniform(batch, tokens, heads, depth), dim=-1).to(torch.bfloat16)
    q, k, beta = unit(), unit(), uniform(batch, tokens, heads, low=0.1, high=1.0)
    steps = -uniform(batch, tokens // CHUNK, CHUNK, heads, depth, low=0.0, high=0.2)
    g = steps.cumsum(2).reshape(batch, tokens, heads, depth).contiguous()
    a = torch.empty(batch, tokens, heads, SUB, device="cuda")
    for b in range(batch):
        of = lambda x: x[b].double().reshape(-1, SUB, heads, x.shape[-1]).transpose(1, 2)
        K, G, B = of(k), of(g), beta[b].double().reshape(-1, SUB, heads).transpose(1, 2)
        middle = G[:, :, :1]
        block = B[..., None] * ((K * (G - middle).exp2()) @ (K * (middle - G).exp2()).transpose(-1, -2))
        block = block.tril(-1)
        if inverted:
            eye = torch.eye(SUB, device="cuda", dtype=torch.float64)
            block = torch.linalg.solve_triangular(eye + block, eye.expand_as(block), upper=False)
        a[b] = block.transpose(1, 2).reshape(tokens, heads, SUB).float()
    return q, k, g, beta, a


def oracle(q, k, g, beta, akkd, scale, inverted):
    """Aqk below the diagonal blocks, and Akk, in doubles; of the first 16 chunks of the first sequence."""
    count = min(16, q.shape[1] // CHUNK)
    of = lambda x: x[0, :count * CHUNK].double().reshape(count, CHUNK, x.shape[2], -1).transpose(1, 2)
    Q, K, G, B, D = of(q), of(k), of(g), of(beta[..., None]), of(akkd)
    decay = lambda left: torch.einsum("cnik,cnjk,cnijk->cnij", left, K, (G[:, :, :, None] - G[:, :, None]).clamp(max=0).exp2())
    rows = torch.arange(CHUNK, device="cuda") // SUB
    below = rows[:, None] > rows[None, :]
    aqk, a = decay(Q) * scale * below, decay(K) * B * below
    eye = torch.eye(CHUNK, device="cuda", dtype=torch.float64)
    blocks = torch.zeros_like(a)
    for sub in range(CHUNK // SUB):
        at = slice(sub * SUB, (sub + 1) * SUB)
        block = D[:, :, at]
        blocks[:, :, at, at] = torch.linalg.inv(block) - torch.eye(SUB, device="cuda") if inverted else block
    return aqk, torch.linalg.inv(eye + a + blocks), below


def error(found, wanted, where=None):
    count = wanted.shape[0]
    found = found[0, :count * CHUNK].double().reshape(count, CHUNK, -1, CHUNK).transpose(1, 2)
    if where is not None:
        found, wanted = found * where, wanted * where
    return ((found - wanted).norm() / wanted.norm()).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=pathlib.Path)
    parser.add_argument("triton", type=pathlib.Path)
    parser.add_argument("--shape", default="1,8192,32,128", help="B,T,H,K")
    parser.add_argument("--repeats", type=int, default=60)
    options = parser.parse_args()
    shape = tuple(int(part) for part in options.shape.split(","))
    batch, tokens, heads, depth = shape
    tile_kernels.FLUSH = torch.empty(64 * 1024 * 1024, device="cuda")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, B, T, H, K = {shape}, medians of {options.repeats}\n")
    print("| kernel | µs | warps | registers | local bytes | error of Aqk | error of Akk |\n|---|---|---|---|---|---|---|")
    seed = "chunk_kda_fwd_kernel_inter_solve_fused"
    for inverted in (False, True):
        torch.manual_seed(1)
        q, k, g, beta, akkd = inputs(*shape, inverted)
        aqk, akk = (torch.zeros(batch, tokens, heads, CHUNK, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        arguments = [q, k, g, beta, aqk, akkd, akk, depth**-0.5, tokens]
        found = []
        names = [f"{seed}@safegate"] if inverted else [seed, f"{seed}@tf32x3"]
        if shape == (1, 8192, 32, 128):
            found += [("Triton " + name, options.triton / name / "kernel", []) for name in names]
        for path in sorted(options.ours.glob("*.json")):
            meta = json.loads(path.read_text())
            if meta.get("name") == "kda_inter_solve" and "varlen" not in path.stem and ("safe" in path.stem) == inverted:
                found.append((path.stem, path.with_suffix(""), [heads, heads, depth]))
        kernels, rows = [], []
        want = oracle(q, k, g, beta, akkd, depth**-0.5, inverted)
        for name, path, more in found:
            meta = json.loads(path.with_suffix(".json").read_text())
            kernel = Kernel(path.with_suffix(".ptx").read_text(), meta["name"], meta["num_warps"], meta["shared"])
            aqk.fill_(torch.nan)
            akk.fill_(torch.nan)
            kernel.launch((tokens // CHUNK, batch * heads, 1), arguments + more)
            torch.cuda.synchronize()
            # What is above the blocks is the caller's.
            rows_, columns_ = torch.arange(CHUNK, device="cuda") // SUB, torch.arange(CHUNK, device="cuda") // SUB
            written = rows_[:, None] >= columns_[None, :]
            errors = (error(aqk.nan_to_num(7.0), want[0], want[2]), error(akk.nan_to_num(7.0), want[1], written))
            kernels.append(kernel)
            kernel.more = more
            rows.append((name, kernel, meta["num_warps"], errors))
        launches = [Bound(kernel) for kernel in kernels]
        taken = times(launches, arguments, (tokens // CHUNK, batch * heads, 1), options.repeats)
        for (name, kernel, warps, errors), time in zip(rows, taken):
            print(f"| {name} | {time:.1f} | {warps} | {kernel.registers} | {kernel.local} | {errors[0]:.2e} | {errors[1]:.2e} |")


class Bound:
    """A kernel whose last arguments are its own."""

    def __init__(self, kernel):
        self.kernel = kernel

    def launch(self, grid, arguments):
        self.kernel.launch(grid, arguments + self.kernel.more)


if __name__ == "__main__":
    main()
