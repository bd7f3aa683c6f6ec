"""Atomic operations."""

import triton
import triton.language as tl

from cases import buf, case, out, scalar

N = 512


@triton.jit
def rmw(a, m, old, OP: tl.constexpr, SPREAD: tl.constexpr, MASKED: tl.constexpr, OLD: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    mask = (at % 3 != 1) if MASKED else None
    p = m + at % SPREAD
    if OP == "add":
        y = tl.atomic_add(p, x, mask=mask)
    elif OP == "max":
        y = tl.atomic_max(p, x, mask=mask)
    elif OP == "min":
        y = tl.atomic_min(p, x, mask=mask)
    elif OP == "and":
        y = tl.atomic_and(p, x, mask=mask)
    elif OP == "or":
        y = tl.atomic_or(p, x, mask=mask)
    elif OP == "xor":
        y = tl.atomic_xor(p, x, mask=mask)
    elif OP == "xchg":
        y = tl.atomic_xchg(p, x, mask=mask)
    if OLD:
        tl.store(old + at, y, mask=mask)


def atomic(op, dtype, spread, fill, masked=False, start=None):
    # Where several meet at one place, the old values depend on the order: only the sum is compared.
    alone = spread == N
    name = f"atomic_{op}_{dtype}" + ("" if alone else f"_{spread}") + ("_masked" if masked else "")
    args = [buf(dtype, N, fill), out(dtype, spread, fill=start or fill), out(dtype, N)]
    # For newer targets Triton adds vectors of floats at once, which the emulator does not know.
    # (Sums of one bfloat it makes by exchanging four bytes there, more than there are.)
    capability = 80 if dtype in ("fp16", "fp32") or (dtype == "bf16" and spread > 1) else 90
    case(name, rmw, args, capability=capability, OP=op, SPREAD=spread, MASKED=masked, OLD=alone, N=N)


for dtype in ["i32", "u32", "i64", "u64"]:
    for op in ["add", "max", "min", "and", "or", "xor"]:
        atomic(op, dtype, N, "any")
        atomic(op, dtype, 32, "any", masked=True)
    atomic("xchg", dtype, N, "any", masked=True)
# Small whole numbers: their sums are exact in any order.
for dtype in ["fp16", "bf16", "fp32", "fp64"]:
    atomic("add", dtype, N, "normal")
    atomic("add", dtype, 32, "whole:-8:8")
    atomic("add", dtype, 32, "whole:-8:8", masked=True)
    atomic("add", dtype, 1, "whole:-1:1")
for dtype in ["fp32", "fp64"]:
    for op in ["max", "min"]:
        atomic(op, dtype, N, "normal")
        atomic(op, dtype, 32, "normal", masked=True)
    atomic("xchg", dtype, N, "any")


@triton.jit
def rmw_scalar(m, o, value, count, SEM: tl.constexpr, SCOPE: tl.constexpr):
    x = tl.atomic_add(m, value, sem=SEM, scope=SCOPE)
    y = tl.atomic_max(m + 1, value, mask=value > 3)
    z = tl.atomic_add(m + 2, value, mask=value < 3)
    tl.store(o, x)
    tl.store(o + 1, y)
    tl.atomic_add(o + 3, count)


for sem, scope in [("relaxed", "gpu"), ("acq_rel", "gpu"), ("acquire", "cta"), ("release", "sys")]:
    case(f"atomic_scalar_{sem}_{scope}", rmw_scalar, [out("i32", 4, fill="whole:0:9"), out("i32", 4, fill="whole:0:9"), scalar("i32", 7), scalar("i32", 3)],
         SEM=sem, SCOPE=scope)


@triton.jit
def cas(m, a, b, old, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    y = tl.load(b + at)
    tl.store(old + at, tl.atomic_cas(m + at, x, y))


for dtype in ["i32", "i64", "u32", "fp32", "fp64", "i16"]:
    fill = "whole:0:3"
    case(f"atomic_cas_{dtype}", cas, [out(dtype, N, fill=fill), buf(dtype, N, fill), buf(dtype, N, "any"), out(dtype, N)], N=N)


@triton.jit
def cas_scalar(m, o, value):
    x = tl.atomic_cas(m, 0, value)
    y = tl.atomic_cas(m, value, value + 1)
    tl.store(o, x)
    tl.store(o + 1, y)


case("atomic_cas_scalar", cas_scalar, [out("i32", 1, fill="whole:0:0"), out("i32", 2), scalar("i32", 5)])


@triton.jit
def many(m, n):
    tl.atomic_add(m + tl.program_id(0) % n, 1)


case("atomic_programs", many, [out("i32", 4, fill="whole:0:9"), scalar("i32", 4)], grid=(13,))


@triton.jit
def spin(lock, data):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    x = tl.load(data)
    tl.store(data, x + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


case("spin_lock", spin, [out("i32", 1, fill="whole:0:0"), out("i32", 1, fill="whole:0:9")], grid=(1,))


@triton.jit
def rmw_two_axes(a, m, M: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, K)[None, :]
    tl.atomic_add(m + j + 0 * i, tl.load(a + i * K + j))


case("atomic_two_axes", rmw_two_axes, [buf("fp32", 32 * 16, "whole:-9:9"), out("fp32", 16, fill="whole:0:0")], capability=80, M=32, K=16)


@triton.jit
def rmw_few(m, o, N: tl.constexpr):
    at = tl.arange(0, N)
    old = tl.atomic_add(m + at, at + 1)
    tl.store(o + at, old)


# Fewer elements than threads: each is added once.
case("atomic_few", rmw_few, [out("i32", 16, fill="whole:0:9"), out("i32", 16)], N=16)
