"""Loops, branches, calls, programs."""

import triton
import triton.language as tl

from cases import buf, case, out, scalar

N = 128


@triton.jit
def loops(a, o, n, step, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    total = 0
    for i in range(0, n, step):
        for j in range(i):
            total += j
        if i % 2 == 0:
            x = x + i
        else:
            x = x * 3 + total
    tl.store(o + at, x)
    tl.store(o + N, total)


for n, step in [(10, 1), (0, 1), (11, 3)]:
    case(f"for_{n}_{step}", loops, [buf("i32", N, "any"), out("i32", N + 1), scalar("i32", n), scalar("i32", step)], N=N)


@triton.jit
def down(a, o, n, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    for i in range(n, 0, -1):
        x = x * i + at
    for i in tl.static_range(3):
        x += i
    tl.store(o + at, x)


case("for_down", down, [buf("i32", N, "any"), out("i32", N), scalar("i32", 5)], N=N)


@triton.jit
def long_loop(o, n):
    total = n
    for i in range(n, n + 5):
        total += i
    tl.store(o, total)


case("for_i64", long_loop, [out("i64", 1), scalar("i64", 1 << 33)])


@triton.jit
def collatz(a, o, N: tl.constexpr):
    x = tl.load(a + tl.program_id(0))
    count = 0
    while x > 1:
        x = tl.where(x % 2 == 0, x // 2, 3 * x + 1)
        count += 1
    tl.store(o + tl.program_id(0), count)


case("while", collatz, [buf("i32", 8, "whole:1:40"), out("i32", 8)], grid=(8,), N=N)


@triton.jit
def while_tile(a, o, limit, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    count = 0
    while (tl.max(x, 0) < limit) & (count < 20):
        x = x * 2 + at
        count += 1
        if count % 3 == 0:
            x = x - count
    tl.store(o + at, x)
    tl.store(o + N, count)


case("while_tile", while_tile, [buf("i32", N, "whole:1:9"), out("i32", N + 1), scalar("i32", 9999)], N=N)


@triton.jit
def branches(a, o, n, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    if n > 10:
        if n > 20:
            x = x + tl.sum(x, 0)
        else:
            x = -x
        y = x + 1
    elif n == 3:
        y = tl.flip(x, 0)
    else:
        y = x * 2
    tl.store(o + at, y)
    if n >= 0:
        tl.store(o + N + at, x)


for n in [-1, 3, 15, 25]:
    case(f"if_{n}", branches, [buf("i32", N, "any"), out("i32", 2 * N), scalar("i32", n)], N=N)


@triton.jit
def programs(o):
    x = tl.program_id(0)
    y = tl.program_id(1)
    z = tl.program_id(2)
    at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(o + at, x + 10 * y + 100 * z + 1000 * tl.num_programs(2))


case("programs", programs, [out("i32", 24)], grid=(2, 3, 4))


@triton.jit(noinline=True)
def helper(x, y):
    return x * y + 1


@triton.jit(noinline=True)
def twice(x, n):
    return helper(x, n), x - n


@triton.jit
def calls(a, o, n, N: tl.constexpr):
    at = tl.arange(0, N)
    # Functions that are not inlined take scalars.
    x, y = twice(tl.load(a + 3), n)
    tl.store(o + at, tl.load(a + at) * x - y)
    tl.store(o + N, helper(n, 7))


case("calls", calls, [buf("i32", N, "any"), out("i32", N + 1), scalar("i32", 5)], N=N)


@triton.jit(noinline=True)
def collatz_step(x, count):
    if x == 1:
        return x, count
    if x % 2 == 0:
        return x // 2, count + 1
    return 3 * x + 1, count + 1


@triton.jit
def call_returns(a, o):
    """Several returns, and a tuple of them; where no region is around the call."""
    pid = tl.program_id(0)
    x, count = collatz_step(tl.load(a + pid), 0)
    x, count = collatz_step(x, count)
    x, count = collatz_step(x, count)
    tl.store(o + 2 * pid, x)
    tl.store(o + 2 * pid + 1, count)


case("call_returns", call_returns, [buf("i32", 8, "whole:1:9"), out("i32", 16)], grid=(8,))


@triton.jit
def call_in_loop(a, o, n, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    total = n
    for i in range(n):
        u, v = twice(total, i)
        if u % 3 != 0:
            total = helper(v, u)
        x = x * total + v
    while total % 5 != 0:
        total = helper(total, 3)
    tl.store(o + at, x)
    tl.store(o + N, total)


for n in [0, 7]:
    case(f"call_in_loop_{n}", call_in_loop, [buf("i32", N, "any"), out("i32", N + 1), scalar("i32", n)], N=N)


@triton.jit(noinline=True)
def row_sum(p, i, N: tl.constexpr):
    return tl.sum(tl.load(p + i * N + tl.arange(0, N)), 0)


@triton.jit(noinline=True)
def put(p, i, value):
    tl.store(p + i, helper(value, i))


@triton.jit
def call_pointers(a, o, n, N: tl.constexpr):
    """Pointers go in, a tile is made and summed there, and a function of no result has an effect."""
    for i in range(n):
        put(o, i, row_sum(a, i, N) + row_sum(a, n - 1 - i, N))


case("call_pointers", call_pointers, [buf("i32", 4 * N, "any"), out("i32", 4), scalar("i32", 4)], N=N)


@triton.jit
def scaled(x, y, by):
    return tl.where(x > y, x * by, y - by), tl.max(x + y, 0)


@triton.jit
def gathered(p, at, by):
    x, top = scaled(tl.load(p + at), at, by)
    return x + top, p + at


@triton.jit
def call_tensors(a, o, n, N: tl.constexpr):
    """Tiles of numbers and of pointers go in and out: Triton has that in its source stage only."""
    at = tl.arange(0, N)
    x, p = gathered(a, at, n)
    for i in range(n):
        x, top = scaled(x, tl.load(p), i)
        x += top
    tl.store(o + at, x)


case("call_tensors", call_tensors, [buf("i32", N, "any"), out("i32", N), scalar("i32", 3)], source=True, N=N)


@triton.jit
def carried(a, o, n, M: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, K)[None, :]
    x = tl.load(a + i * K + j)
    y = tl.zeros((M,), tl.int32)
    p = a + i * K + j
    for step in range(n):
        x = x + tl.load(p) * step
        y += tl.sum(x, 1)
        x, z = tl.where(i > j, x, -x), x
        if step == 2:
            y = y + tl.max(z, 1)
    tl.store(o + i * K + j, x)
    tl.store(o + M * K + tl.arange(0, M), y)


for warps in [1, 4, 8]:
    case(f"carried_{warps}", carried, [buf("i32", 16 * 32, "any"), out("i32", 17 * 32), scalar("i32", 4)], warps=warps, M=16, K=32)


@triton.jit
def assumed(a, o, n, N: tl.constexpr):
    tl.assume(n > 0)
    at = tl.arange(0, N)
    at = tl.max_contiguous(tl.multiple_of(at, 1), N)
    tl.store(o + at, tl.load(a + at) // n)
    tl.debug_barrier()


case("assume", assumed, [buf("i32", N, "any"), out("i32", N), scalar("i32", 7)], N=N)


@triton.jit
def early(a, o, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    tl.store(o + pid, tl.load(a + pid) + 1)


case("early_return", early, [buf("i32", 4, "any"), out("i32", 4), scalar("i32", 2)], grid=(4,))
