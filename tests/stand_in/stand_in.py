#!/usr/bin/env python3
"""Our PTX in the place of Triton's: real Triton kernels, launched by Triton's own launcher, once with each.

    stand_in.py prepare FOLDER --tilewright target/release/tilewright [--arch sm_90a]
    stand_in.py launch FOLDER

`prepare` needs Triton 3.6 and our command built with feature `llvm`, and no GPU: it writes the `.ttir` that Triton makes of each
kernel, and what `tilewright compile` makes of that. `launch` needs Triton, PyTorch and a GPU of the target, and no Rust. It
puts our PTX in by two doors and our metadata into Triton's cache entry, and compares the results.

Exit code: 0 where every kernel agrees, 1 where one differs, 2 where something is missing.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import triton
    import triton.language as tl
except ImportError:
    sys.exit("stand_in.py needs Triton: pip install 'triton==3.6.*'")


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask, other=0.0) * factor, mask=mask)


@triton.jit
def bits(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    a = tl.load(x + at, mask=mask, other=0)
    b = tl.load(y + at, mask=mask, other=1)
    tl.store(out + at, tl.where(a > b, (a ^ b) * 3, (a & 255) - (b >> 2)), mask=mask)


@triton.jit
def widen(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask).to(tl.float32) + 1.0, mask=mask)


@triton.jit
def transpose(x, out, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + row[:, None] * stride + column[None, :])
    tl.store(out + column[:, None] * stride + row[None, :], tl.trans(tile))


@triton.jit
def softmax(x, out, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    value = tl.load(x + row * stride + at, mask=mask, other=-float("inf"))
    power = tl.exp(value - tl.max(value, axis=0))
    tl.store(out + row * stride + at, power / tl.sum(power, axis=0), mask=mask)


@triton.jit
def normalise(x, out, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    value = tl.load(x + row * stride + at, mask=mask, other=0.0)
    mean = tl.sum(value, axis=0) / columns
    centred = tl.where(mask, value - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    tl.store(out + row * stride + at, centred / tl.sqrt(variance + 1e-5), mask=mask)


@triton.jit
def matmul(a, b, c, size, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, DEPTH)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, size, DEPTH):
        left = tl.load(a + row[:, None] * size + k + inner[None, :])
        right = tl.load(b + (k + inner)[:, None] * size + column[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + row[:, None] * size + column[None, :], total)


class Tensor:
    """A tensor argument: Triton's name of its type, its number of elements, whether the kernel writes it."""

    def __init__(self, ty, count, out=False):
        self.ty, self.count, self.out = ty, count, out


class Case:
    """A kernel with arguments; `tolerance` is relative to the largest number of Triton's result, and 0 means equal bits."""

    def __init__(self, name, kernel, args, constants, grid, num_warps=4, tolerance=0.0):
        self.name, self.kernel, self.args, self.constants = name, kernel, args, constants
        self.grid, self.num_warps, self.tolerance = grid, num_warps, tolerance


def cases():
    n, odd, wide = 4096, 4001, 300
    square = 256

    def elementwise(name, kernel, types, count, extra=(), **more):
        tensors = [Tensor(ty, n, out=i == len(types) - 1) for i, ty in enumerate(types)]
        return Case(name, kernel, [*tensors, count, *extra], dict(BLOCK=512), (n // 512, 1, 1), **more)

    def rows(name, kernel, columns, **more):
        tensors = [Tensor("fp32", 64 * 512), Tensor("fp32", 64 * 512, out=True)]
        return Case(name, kernel, [*tensors, 512, columns], dict(BLOCK=512), (64, 1, 1), **more)

    def product(name, ty, **more):
        tensors = [Tensor(ty, square**2), Tensor(ty, square**2), Tensor("fp32", square**2, out=True)]
        return Case(name, matmul, [*tensors, square], dict(BLOCK=64, DEPTH=32), (square // 64, square // 64, 1), **more)

    return [
        elementwise("add", add, ["fp32"] * 3, n),
        elementwise("add_odd", add, ["fp32"] * 3, odd),
        elementwise("add_fp16", add, ["fp16"] * 3, odd, num_warps=8),
        elementwise("scale", scale, ["fp32"] * 2, odd, extra=(0.7,), num_warps=1),
        elementwise("bits", bits, ["i32"] * 3, odd),
        elementwise("widen", widen, ["bf16", "fp32"], odd, num_warps=2),
        Case("transpose", transpose, [Tensor("fp32", square**2), Tensor("fp32", square**2, out=True), square],
             dict(BLOCK=32), (square // 32, square // 32, 1)),
        rows("softmax", softmax, wide, tolerance=1e-5),
        rows("normalise", normalise, wide, num_warps=2, tolerance=1e-5),
        product("matmul_fp16", "fp16", tolerance=1e-5),
        product("matmul_bf16", "bf16", num_warps=8, tolerance=1e-5),
        product("matmul_tf32", "fp32", tolerance=1e-3),
    ]


def without_places(ttir):
    """The text without what says where in the Python source something stands."""
    text = re.sub(r"\s*loc\((?:[^()\"]|\"[^\"]*\"|\([^()]*\))*\)", "", ttir)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith("#loc"))


def source(case):
    """The kernel specialised as Triton's own launch would specialise it for the case's arguments."""
    from triton.compiler import ASTSource
    signature, constants, attributes = {}, {}, {}
    for place, (name, arg) in enumerate(zip(case.kernel.arg_names, [*case.args, *case.constants.values()])):
        if place >= len(case.args) or (isinstance(arg, int) and arg == 1):
            signature[name], constants[(place,)] = "constexpr", arg
            continue
        if isinstance(arg, Tensor):
            signature[name] = "*" + arg.ty
        else:
            signature[name] = "fp32" if isinstance(arg, float) else "i32"
        if isinstance(arg, Tensor) or (isinstance(arg, int) and arg % 16 == 0):
            attributes[(place,)] = [["tt.divisibility", 16]]
    return ASTSource(fn=case.kernel, signature=signature, constexprs=constants, attrs=attributes)


def taken(case, target, ptx, meta):
    """Whether Triton assembles our PTX in the place of its own, and reads our metadata back from its cache: None, or why not."""
    with tempfile.TemporaryDirectory() as cache, triton.knobs.cache.scope():
        triton.knobs.cache.dir = cache
        options = dict(num_warps=case.num_warps, ir_override=str(ptx))
        try:
            made = triton.compile(source(case), target=target, options=options)
            metadata_entry(made).write_text(meta.read_text())
            made = triton.compile(source(case), target=target, options=options)
        except Exception as error:  # Told and counted by the caller.
            return f"{type(error).__name__}: {error}"
        return why_not_ours(made, ptx, meta)


def metadata_entry(made):
    """Where Triton's cache keeps the metadata of a compiled kernel."""
    return pathlib.Path(next(path for name, path in made.metadata_group.items() if name.endswith(".json")))


def why_not_ours(kernel, ptx, meta):
    """None where a compiled kernel of Triton's holds our PTX and our metadata."""
    ours = json.loads(meta.read_text())
    if kernel.asm["ptx"] != ptx.read_text():
        return "Triton did not take our PTX"
    if kernel.metadata.hash != ours["hash"] or kernel.metadata.shared != ours["shared"]:
        return "Triton did not take our metadata"
    return None


def prepare(args):
    from triton.backends.compiler import GPUTarget
    folder = pathlib.Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    capability = int(re.sub(r"\D", "", args.arch))
    failed = 0
    for case in cases():
        target = GPUTarget("cuda", capability, 32)
        made = triton.compile(source(case), target=target, options=dict(num_warps=case.num_warps))
        ttir, ptx, meta = (folder / f"{case.name}.{ending}" for ending in ("ttir", "ptx", "json"))
        ttir.write_text(made.asm["ttir"])
        command = [args.tilewright, "compile", str(ttir), "--arch", args.arch, "--num-warps", str(case.num_warps),
                   "-o", str(ptx), "--meta", str(meta)]
        done = subprocess.run(command, capture_output=True, text=True)
        fault = done.stderr.strip() if done.returncode else taken(case, target, ptx, meta)
        failed += fault is not None
        print(f"{case.name}: {fault or 'ok'}")
    (folder / "stand_in.json").write_text(json.dumps({"arch": args.arch, "triton": triton.__version__}))
    return 1 if failed else 0


def tensors(case, torch):
    """The arguments on the device: the same numbers at every call."""
    generator = torch.Generator(device="cpu").manual_seed(7)
    types = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32}
    made = []
    for arg in case.args:
        if not isinstance(arg, Tensor):
            made.append(arg)
        elif arg.out:
            made.append(torch.full((arg.count,), 77, dtype=types[arg.ty], device="cuda"))
        elif arg.ty == "i32":
            made.append(torch.randint(-(2**31), 2**31, (arg.count,), generator=generator).to(torch.int32).cuda())
        else:
            made.append(torch.randn(arg.count, generator=generator).to(types[arg.ty]).cuda())
    return made


def launched(case, torch, **options):
    """Launches by Triton's launcher; answers what was written and the compiled kernel."""
    args = tensors(case, torch)
    kernel = case.kernel[case.grid](*args, **case.constants, num_warps=case.num_warps, **options)
    torch.cuda.synchronize()
    outputs = [arg for arg, spec in zip(args, case.args) if isinstance(spec, Tensor) and spec.out]
    return outputs, kernel


def forget(case):
    """The next launch looks into Triton's cache on disk again."""
    case.kernel.device_caches.clear()


def with_ours(case, torch, theirs, door, ptx, meta):
    """A launch with our PTX put in by `door` and our metadata in the cache entry."""
    knobs = triton.knobs
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as overrides, knobs.cache.scope(), \
            knobs.compilation.scope():
        knobs.cache.dir = cache
        forget(case)
        options = {}
        if door == "ir_override":
            options["ir_override"] = str(ptx)
        else:
            from triton.runtime.cache import get_override_manager
            knobs.cache.override_dir = overrides
            knobs.compilation.override = True
            place = pathlib.Path(get_override_manager(theirs.src.hash()).cache_dir)
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{theirs.src.name}.ptx").write_text(ptx.read_text())
        # Compiles without loading anything, so that the metadata can be put in before the first launch.
        args = tensors(case, torch)
        made = case.kernel.warmup(*args, **case.constants, num_warps=case.num_warps, grid=case.grid, **options)
        metadata_entry(made).write_text(meta.read_text())
        forget(case)
        outputs, kernel = launched(case, torch, **options)
        forget(case)
    fault = why_not_ours(kernel, ptx, meta)
    if fault:
        raise RuntimeError(fault)
    return outputs


def difference(torch, found, expected):
    """The largest difference, relative to the largest number expected; 0 where the bits are equal."""
    if torch.equal(found.view(torch.uint8), expected.view(torch.uint8)):
        return 0.0
    found, expected = found.double(), expected.double()
    return float((found - expected).abs().max() / expected.abs().max())


def launch(args):
    try:
        import torch
    except ImportError:
        print("launch needs PyTorch")
        return 2
    folder = pathlib.Path(args.folder)
    about = json.loads((folder / "stand_in.json").read_text())
    if not torch.cuda.is_available():
        print("launch needs a GPU")
        return 2
    major, minor = torch.cuda.get_device_capability()
    if f"{major}{minor}" != re.sub(r"\D", "", about["arch"]) or about["triton"] != triton.__version__:
        print(f"prepared for {about['arch']} and Triton {about['triton']}; here: {major}.{minor}, {triton.__version__}")
        return 2
    failed = 0
    for case in cases():
        ttir, ptx, meta = (folder / f"{case.name}.{ending}" for ending in ("ttir", "ptx", "json"))
        if not ptx.exists():
            print(f"{case.name:<14} no PTX was prepared")
            failed += 1
            continue
        expected, theirs = launched(case, torch)
        if without_places(theirs.asm["ttir"]) != without_places(ttir.read_text()):
            print(f"{case.name:<14} Triton specialises it otherwise here than `prepare` did")
            failed += 1
            continue
        shared = json.loads(meta.read_text())["shared"]
        for door in ("ir_override", "directory"):
            try:
                found = with_ours(case, torch, theirs, door, ptx, meta)
                worst = max(difference(torch, a, b) for a, b in zip(found, expected))
                # NaN is never within the tolerance.
                good, said = worst <= case.tolerance, f"difference {worst:.2e}, allowed {case.tolerance:.0e}"
            except Exception as error:  # Each kernel is tried: one that fails says so and is counted.
                good, said = False, f"{type(error).__name__}: {error}"
            failed += not good
            print(f"{case.name:<14} {door:<12} {'ok  ' if good else 'FAIL'} {said}; shared {shared}, Triton's {theirs.metadata.shared}")
    print(f"{'all agree' if not failed else f'{failed} failed'}")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    first = steps.add_parser("prepare")
    first.add_argument("folder")
    first.add_argument("--tilewright", required=True, help="our command, built with feature llvm")
    first.add_argument("--arch", default="sm_90a", choices=["sm_80", "sm_90a", "sm_100a"])
    second = steps.add_parser("launch")
    second.add_argument("folder")
    args = parser.parse_args()
    return prepare(args) if args.step == "prepare" else launch(args)


if __name__ == "__main__":
    sys.exit(main())
