#!/usr/bin/env python3
"""Times the checked-in Cholesky PTX on a GPU beside the vendor's routine, in one process.

    python3 benches/gpu/cholesky.py [--arch sm_90a] > table.md

Needs PyTorch (the vendor's routine is torch.linalg.cholesky_ex) and CuPy (which loads PTX through the driver). The PTX
and its metadata come from generated/manifest.json, so what is timed is what is reviewed.

Method: dense inputs as the public problem makes them, four of them in rotation; a 256 MB write flushes L2 before each
call; CUDA events round one call; the median of 200 calls. The residual is the worst over the batch of
|L L^T - A|_1 / (n eps |A|_1), in f64, of the same call's output. `floor` is the lower triangle read and the square written
at 4.27 TB/s. `per pivot` is the slope of the time of one matrix between two orders: the latency of the pivot chain.
"""

import argparse
import json
import pathlib
import sys

import cupy
import numpy
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY_BYTES_PER_SECOND = 4.27e12
EPSILON = 2.0**-23
TIMED = {32: 4096, 64: 1024, 128: 256}


def dense(batch, n, generator, condition=2):
    g = torch.randn(batch, n, n, generator=generator, device="cuda", dtype=torch.float64)
    a = g @ g.mT / n + 10.0 ** -max(condition, 2) * torch.eye(n, device="cuda", dtype=torch.float64)
    return ((a + a.mT) / 2).float()


def residual(a, l):
    a, l = a.double(), l.double()
    difference = (l @ l.mT - a).abs().sum(-2).amax(-1)
    return (difference / (a.shape[-1] * EPSILON * a.abs().sum(-2).amax(-1))).max().item()


class Kernel:
    """A checked-in kernel, launched as its metadata says."""

    def __init__(self, entry):
        self.meta = entry["kernels"][0]
        self.settings = entry["settings"]
        self.name = self.meta["name"]
        module = cupy.RawModule(path=str(ROOT / "generated" / entry["file"]))
        self.function = module.get_function(self.name)
        if self.meta["shared"] > 48 * 1024:
            self.function.max_dynamic_shared_size_bytes = self.meta["shared"]
        self.per_cta = self.meta["grid"]["x"]["ceil"]["by"]

    def __call__(self, a, l, info):
        batch = a.shape[0]
        arguments = (
            *(numpy.uint64(tensor.data_ptr()) for tensor in (a, l, info)),
            *(numpy.int64(tensor.stride(0)) for tensor in (a, l)),
            *(numpy.int32(tensor.stride(1)) for tensor in (a, l)),
            numpy.int32(batch),
        )
        grid = (-(-batch // self.per_cta),)
        self.function(grid, (32 * self.meta["num_warps"],), arguments, shared_mem=self.meta["shared"])


FLUSH = None


def median_us(call, repeats=200, warm_up=10):
    times = []
    for turn in range(warm_up + repeats):
        FLUSH.zero_()
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        call(turn)
        end.record()
        end.synchronize()
        if turn >= warm_up:
            times.append(start.elapsed_time(end) * 1e3)
    return float(numpy.median(times))


def rows(kernels, generator):
    for n, batch in TIMED.items():
        inputs = [dense(batch, n, generator) for _ in range(4)]
        info = torch.zeros(batch, dtype=torch.int32, device="cuda")
        out = torch.empty_like(inputs[0])
        vendor = median_us(lambda turn: torch.linalg.cholesky_ex(inputs[turn % 4]))
        vendor_residual = residual(inputs[0], torch.linalg.cholesky_ex(inputs[0])[0])
        copy = median_us(lambda turn: out.copy_(inputs[turn % 4]))
        floor = batch * 4 * (n * (n + 1) / 2 + n * n) / COPY_BYTES_PER_SECOND * 1e6
        for kernel in kernels:
            if kernel.settings.get("n") != n:
                continue
            ours = median_us(lambda turn: kernel(inputs[turn % 4], out, info))
            out.fill_(float("nan"))
            kernel(inputs[0], out, info)
            torch.cuda.synchronize()
            if info.any().item() or torch.triu(out, 1).any().item():
                sys.exit(f"{kernel.name}: wrong output at {batch}x{n}")
            yield (
                f"| {batch}×{n} | {kernel.name} | {ours:.1f} | {vendor:.1f} | {vendor / ours:.2f}× | {floor:.1f} | "
                f"{copy:.1f} | {residual(inputs[0], out):.4f} | {vendor_residual:.4f} |"
            )


def pivot_latency(kernels, generator):
    """Nanoseconds a pivot: the slope between the two largest orders of the same kernel, one matrix each."""
    by_kernel = {}
    for kernel in kernels:
        family = (kernel.name.split("_n")[0], tuple((k, v) for k, v in kernel.settings.items() if k != "n"))
        by_kernel.setdefault(family, []).append(kernel)
    for (family, settings), members in by_kernel.items():
        members = sorted(members, key=lambda kernel: kernel.settings["n"])[-2:]
        if len(members) < 2:
            continue
        times = []
        for kernel in members:
            a = dense(1, kernel.settings["n"], generator)
            l, info = torch.empty_like(a), torch.zeros(1, dtype=torch.int32, device="cuda")
            times.append(median_us(lambda turn: kernel(a, l, info)))
        orders = [kernel.settings["n"] for kernel in members]
        slope = (times[1] - times[0]) / (orders[1] - orders[0]) * 1e3
        named = ", ".join(f"{key} {value}" for key, value in settings)
        yield f"| {family} ({named}) | {orders[0]}, {orders[1]} | {times[0]:.1f}, {times[1]:.1f} | {slope:.0f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90a", help="the target under generated/ to time")
    parser.add_argument("--seed", type=int, default=None, help="seed of the inputs; a fresh one when left out")
    arguments = parser.parse_args()
    global FLUSH
    FLUSH = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    # CuPy's launches go to PyTorch's stream, so that its events time them.
    stream = torch.cuda.current_stream()
    from_external = getattr(cupy.cuda.Stream, "from_external", None)
    (from_external(stream) if from_external else cupy.cuda.ExternalStream(stream.cuda_stream)).use()
    generator = torch.Generator(device="cuda")
    seed = generator.seed() if arguments.seed is None else generator.manual_seed(arguments.seed).initial_seed()
    manifest = json.loads((ROOT / "generated" / "manifest.json").read_text())
    entries = [entry for entry in manifest["kernels"] if entry["arch"] == arguments.arch and "n" in entry["settings"]]
    kernels = [Kernel(entry) for entry in entries]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {seed}\n")
    print("| batch×n | kernel | µs | vendor µs | faster | floor µs | copy µs | residual | vendor residual |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows(kernels, generator):
        print(row, flush=True)
    print("\n| kernel | orders | µs, one matrix | ns per pivot |\n|---|---|---|---|")
    for row in pivot_latency(kernels, generator):
        print(row, flush=True)


if __name__ == "__main__":
    main()
