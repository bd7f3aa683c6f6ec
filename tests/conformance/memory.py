"""Loads, stores, masks, caches, block pointers."""

import triton
import triton.language as tl

from cases import buf, case, out, scalar

N = 1024


@triton.jit
def masked(a, o, n, OTHER: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at, mask=at < n, other=OTHER)
    tl.store(o + at, x)
    tl.store(o + N + at, x, mask=at % 3 != 1)


for dtype in ["i1", "i8", "i16", "i32", "i64", "fp16", "bf16", "fp32", "fp64", "fp8e5"]:
    other = True if dtype == "i1" else -1.5 if dtype.startswith(("fp", "bf")) else -7
    for count in [1024, 77]:
        fill = "whole:0:1" if dtype == "i1" else "any"
        case(f"masked_{dtype}_{count}", masked, [buf(dtype, N, fill), out(dtype, 2 * N), scalar("i32", count)], OTHER=other, N=N)


@triton.jit
def unaligned(a, o, offset, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o + at, tl.load(a + offset + at))


for dtype in ["i8", "fp16", "fp32", "i64"]:
    case(f"unaligned_{dtype}", unaligned, [buf(dtype, N + 8, "any"), out(dtype, N), scalar("i32", 3)], aligned=False, N=N)


@triton.jit
def cached(a, o, LOAD: tl.constexpr, EVICT: tl.constexpr, STORE: tl.constexpr, VOLATILE: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at, cache_modifier=LOAD, eviction_policy=EVICT, volatile=VOLATILE)
    tl.store(o + at, x, cache_modifier=STORE)


for load, evict, store, volatile in [(".ca", "", ".wb", False), (".cg", "", ".cg", False), ("", "evict_last", ".cs", False),
                                     ("", "evict_first", ".wt", False), (".cv", "", "", False), ("", "", "", True)]:
    name = "cached_" + "_".join(part.strip(".") for part in [load, evict, store] if part) + ("volatile" if volatile else "")
    case(name, cached, [buf("fp32", N, "any"), out("fp32", N)], LOAD=load, EVICT=evict, STORE=store, VOLATILE=volatile, N=N)


@triton.jit
def tile(a, o, m, n, stride, M: tl.constexpr, K: tl.constexpr):
    row = tl.arange(0, M)[:, None]
    col = tl.arange(0, K)[None, :]
    mask = (row < m) & (col < n)
    x = tl.load(a + row * stride + col, mask=mask, other=0)
    tl.store(o + col * M + row, x)


for warps in [1, 2, 4, 8]:
    case(f"transpose_{warps}", tile, [buf("fp32", 64 * 40, "any"), out("fp32", 64 * 32), scalar("i32", 50), scalar("i32", 30), scalar("i32", 40)],
         warps=warps, M=64, K=32)
case("transpose_fp16", tile, [buf("fp16", 64 * 40, "any"), out("fp16", 64 * 32), scalar("i32", 50), scalar("i32", 30), scalar("i32", 40)], M=64, K=32)
case("transpose_i8", tile, [buf("i8", 64 * 40, "any"), out("i8", 64 * 32), scalar("i32", 50), scalar("i32", 30), scalar("i32", 40)], M=64, K=32)


@triton.jit
def gathered(a, index, o, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o + at, tl.load(a + tl.load(index + at)))


case("load_gather", gathered, [buf("fp32", 256, "any"), buf("i32", N, "whole:0:255"), out("fp32", N)], N=N)
case("load_gather_i64", gathered, [buf("i16", 256, "any"), buf("i64", N, "whole:0:255"), out("i16", N)], N=N)


@triton.jit
def blocks(a, o, m, n, M: tl.constexpr, K: tl.constexpr, PAD: tl.constexpr):
    p = tl.make_block_ptr(a, (m, n), (n, 1), (0, 0), (M, K), (1, 0))
    q = tl.make_block_ptr(o, (M, 4 * K), (4 * K, 1), (0, 0), (M, K), (1, 0))
    for i in range(4):
        x = tl.load(p, boundary_check=(0, 1), padding_option=PAD)
        tl.store(q, x + 1)
        p = tl.advance(p, (0, K))
        q = tl.advance(q, (0, K))


for dtype in ["fp32", "fp16", "i32"]:
    for pad in ["zero", "nan"] if dtype != "i32" else ["zero"]:
        case(f"block_{dtype}_{pad}", blocks, [buf(dtype, 23 * 50, "normal"), out(dtype, 32 * 64), scalar("i32", 23), scalar("i32", 50)],
             M=32, K=16, PAD=pad)


@triton.jit
def block_store(a, o, m, n, M: tl.constexpr, K: tl.constexpr):
    p = tl.make_block_ptr(a, (K, M), (1, K), (0, 0), (K, M), (0, 1))
    q = tl.make_block_ptr(o, (m, n), (n, 1), (2, 0), (M, K), (1, 0))
    tl.store(q, tl.trans(tl.load(p)), boundary_check=(0, 1))


case("block_store", block_store, [buf("fp32", 32 * 16, "any"), out("fp32", 23 * 11), scalar("i32", 23), scalar("i32", 11)], M=32, K=16)


@triton.jit
def descriptors(a, o, m, n, M: tl.constexpr, K: tl.constexpr):
    p = tl.make_tensor_descriptor(a, [m, n], [n, 1], [M, K])
    q = tl.make_tensor_descriptor(o, [m, n], [n, 1], [M, K])
    q.store([8, 16], p.load([4, 32]) + 1)


@triton.jit
def pointers(a, b, o, flag, N: tl.constexpr):
    p = a
    if flag > 0:
        p = b
    at = tl.arange(0, N)
    base = (p + 16).to(tl.int64)
    tl.store(o + at, tl.load(base.to(tl.pointer_type(tl.float32)) + at))


for flag in [0, 1]:
    case(f"pointers_{flag}", pointers, [buf("fp32", 1040, "any"), buf("fp32", 1040, "any"), out("fp32", N), scalar("i32", flag)], N=N)


@triton.jit
def one(a, o, flag):
    x = tl.load(a + 3)
    tl.store(o + 1, x)
    tl.store(o + 2, tl.load(a + 4, mask=flag > 2, other=5))
    tl.store(o + 3, x, mask=flag > 2)
    tl.store(o + 4, tl.load(a + 5, mask=flag < 2, other=5))


for dtype in ["i8", "fp16", "bf16", "fp32", "fp64"]:
    case(f"one_{dtype}", one, [buf(dtype, 8, "any"), out(dtype, 8), scalar("i32", 1)], warps=2)


@triton.jit
def wide(a, o, D0: tl.constexpr, D1: tl.constexpr, D2: tl.constexpr):
    i = tl.arange(0, D0)[:, None, None]
    j = tl.arange(0, D1)[None, :, None]
    k = tl.arange(0, D2)[None, None, :]
    at = (i * D1 + j) * D2 + k
    tl.store(o + at, tl.load(a + at) * 2)


case("three_axes", wide, [buf("fp32", 4 * 8 * 32, "normal"), out("fp32", 4 * 8 * 32)], D0=4, D1=8, D2=32)
case("one_element", wide, [buf("fp32", 1, "normal"), out("fp32", 1)], D0=1, D1=1, D2=1)
