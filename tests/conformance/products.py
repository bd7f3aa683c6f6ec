"""Matrix products."""

import triton
import triton.language as tl

from cases import BITS, buf, case, near, out, scalar


@triton.jit
def dot(a, b, c, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr, TO: tl.constexpr):
    m = tl.arange(0, M)[:, None]
    n = tl.arange(0, N)[None, :]
    x = tl.load(a + m * K + tl.arange(0, K)[None, :])
    y = tl.load(b + tl.arange(0, K)[:, None] * N + n)
    if ACC:
        z = tl.dot(x, y, tl.load(c + m * N + n), input_precision=PRECISION, out_dtype=TO)
    else:
        z = tl.dot(x, y, input_precision=PRECISION, out_dtype=TO)
    tl.store(o + m * N + n, z)


# Whole numbers up to 8: every product and sum is exact in any order and in every type, so the bits are equal.
EXACT = "whole:-8:8"
SHAPES = [(16, 16, 16), (32, 64, 32), (64, 32, 64), (128, 64, 32)]


def product(dtype, shape, precision="ieee", acc=True, fill=EXACT, rule=BITS, to="fp32", warps=4, tag=""):
    m, n, k = shape
    kind = dict(fp32=tl.float32, fp16=tl.float16, i32=tl.int32, fp64=tl.float64)[to]
    name = f"dot_{dtype}_{precision}_{m}x{n}x{k}" + ("" if acc else "_fresh") + (f"_{warps}warps" if warps != 4 else "") + tag
    name = name.replace("_ieee", "") if dtype != "fp32" else name
    if to != "fp32" and to != "i32":
        name += f"_{to}"
    case(name, dot, [buf(dtype, m * k, fill), buf(dtype, k * n, fill), buf(to, m * n, fill), out(to, m * n, rule)], warps=warps,
         M=m, N=n, K=k, PRECISION=precision, ACC=acc, TO=kind)


LONG = "at most 64 products below 16, summed in another order: each step is off by an ulp of a partial sum below 512"
HALF = near(64 * 512 * 2**-23, 0, LONG + "; products of halves are exact in singles")
for shape in SHAPES:
    for precision in ["ieee", "tf32", "tf32x3"]:
        product("fp32", shape, precision)
    for dtype in ["fp16", "bf16"]:
        product(dtype, shape)
    if shape[2] >= 32:
        product("i8", shape, to="i32")
        product("fp8e5", shape)
        product("fp8e4nv", shape)
product("fp32", (32, 32, 32), "ieee", fill="normal", rule=near(64 * 512 * 2**-23, 0, LONG), tag="_inexact")
product("fp32", (32, 32, 32), "tf32", fill="normal", rule=HALF, tag="_inexact")
product("fp32", (32, 32, 32), "tf32x3", fill="normal", rule=HALF, tag="_inexact")
product("fp16", (32, 32, 32), fill="normal", rule=HALF, tag="_inexact")
product("bf16", (32, 32, 32), fill="normal", rule=HALF, tag="_inexact")
product("fp16", (64, 64, 64), acc=False)
product("fp32", (64, 64, 64), "tf32", acc=False)
product("fp16", (32, 32, 32), to="fp16", fill="whole:-2:2")
product("fp64", (16, 16, 16), to="fp64")
product("fp64", (32, 32, 32), to="fp64")
product("fp32", (32, 32, 32), "bf16x3")
product("fp32", (32, 32, 32), "bf16x6")
for warps in [1, 2, 8]:
    for dtype in ["fp16", "fp32"]:
        product(dtype, (64, 64, 32), "tf32" if dtype == "fp32" else "ieee", warps=warps)
    product("fp32", (32, 32, 32), "ieee", warps=warps)
    product("i8", (32, 32, 32), to="i32", warps=warps)


@triton.jit
def batched(a, b, o, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    i = tl.arange(0, B)[:, None, None]
    m = tl.arange(0, M)[None, :, None]
    n = tl.arange(0, N)[None, None, :]
    x = tl.load(a + (i * M + m) * K + tl.arange(0, K)[None, None, :])
    y = tl.load(b + (i * K + tl.arange(0, K)[None, :, None]) * N + n)
    tl.store(o + (i * M + m) * N + n, tl.dot(x, y, input_precision=PRECISION))


for dtype, precision in [("fp16", "ieee"), ("fp32", "tf32"), ("fp32", "ieee")]:
    case(f"dot_batched_{dtype}_{precision}", batched, [buf(dtype, 4 * 16 * 16, EXACT), buf(dtype, 4 * 16 * 32, EXACT), out("fp32", 4 * 16 * 32)],
         B=4, M=16, N=32, K=16, PRECISION=precision)


@triton.jit
def matmul(a, b, o, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.program_id(0) * M + tl.arange(0, M)
    j = tl.program_id(1) * N + tl.arange(0, N)
    at = tl.arange(0, K)
    p = a + i[:, None] * k + at[None, :]
    q = b + at[:, None] * n + j[None, :]
    acc = tl.zeros((M, N), tl.float32)
    for left in range(0, tl.cdiv(k, K)):
        x = tl.load(p, mask=(i[:, None] < m) & (at[None, :] < k - left * K), other=0)
        y = tl.load(q, mask=(at[:, None] < k - left * K) & (j[None, :] < n), other=0)
        acc = tl.dot(x, y, acc)
        p += K
        q += K * n
    tl.store(o + i[:, None] * n + j[None, :], acc.to(o.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


for dtype in ["fp16", "fp32", "bf16"]:
    case(f"matmul_{dtype}", matmul, [buf(dtype, 50 * 100, "whole:-3:3"), buf(dtype, 100 * 40, "whole:-3:3"), out(dtype, 50 * 40)]
         + [scalar("i32", 50), scalar("i32", 40), scalar("i32", 100)], grid=(2, 2), M=32, N=32, K=32)


# Tiles whose operands run ahead of the products: of `wgmma` on Hopper, of `mma.sync` before.
for dtype, (M, N, K), warps in [("fp16", (64, 64, 32), 4), ("bf16", (128, 64, 64), 8), ("fp32", (64, 32, 32), 4), ("fp16", (32, 128, 64), 4),
                                ("fp32", (128, 128, 32), 8)]:
    m, n, k = 2 * M - 14, 2 * N - 8, 4 * K + 16
    case(f"matmul_{dtype}_{M}x{N}x{K}_{warps}warps", matmul,
         [buf(dtype, m * k, "whole:-3:3"), buf(dtype, k * n, "whole:-3:3"), out("fp32", m * n)] + [scalar("i32", x) for x in (m, n, k)],
         grid=(2, 2), warps=warps, M=M, N=N, K=K)


@triton.jit
def blocks(a, b, o, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j = tl.program_id(0) * M, tl.program_id(1) * N
    p = tl.make_block_ptr(a, (m, k), (k, 1), (i, 0), (M, K), (1, 0))
    q = tl.make_block_ptr(b, (n, k), (k, 1), (j, 0), (N, K), (1, 0))
    acc = tl.zeros((M, N), tl.float32)
    for _ in range(0, k, K):
        acc = tl.dot(tl.load(p, boundary_check=(0, 1), padding_option="zero"),
                     tl.trans(tl.load(q, boundary_check=(0, 1), padding_option="zero")), acc)
        p, q = tl.advance(p, (0, K)), tl.advance(q, (0, K))
    r = tl.make_block_ptr(o, (m, n), (n, 1), (i, j), (M, N), (1, 0))
    tl.store(r, acc, boundary_check=(0, 1))


for dtype, (M, N, K) in [("fp16", (64, 64, 64)), ("fp32", (64, 64, 32)), ("bf16", (32, 64, 64))]:
    m, n, k = 2 * M - 16, 2 * N - 16, 3 * K + 16
    case(f"matmul_blocks_{dtype}_{M}x{N}x{K}", blocks,
         [buf(dtype, m * k, "whole:-3:3"), buf(dtype, n * k, "whole:-3:3"), out("fp32", m * n)] + [scalar("i32", x) for x in (m, n, k)],
         grid=(2, 2), M=M, N=N, K=K)


@triton.jit
def transposed(a, b, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    x = tl.load(a + k[:, None] * M + m[None, :])
    y = tl.load(b + n[:, None] * K + k[None, :])
    z = tl.dot(tl.trans(x), tl.trans(y))
    z = tl.dot(z.to(tl.float16), tl.trans(y).to(tl.float16) if N == K else y)
    tl.store(o + m[:, None] * N + n[None, :], z)


case("dot_transposed", transposed, [buf("fp16", 32 * 32, "whole:-2:2"), buf("fp16", 32 * 32, "whole:-2:2"), out("fp32", 32 * 32)], M=32, N=32, K=32)


@triton.jit
def attention(q, k, v, o, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    d = tl.arange(0, D)
    x = tl.load(q + i[:, None] * D + d[None, :])
    most = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for start in range(0, 4):
        y = tl.load(k + (start * N + j)[:, None] * D + d[None, :])
        z = tl.load(v + (start * N + j)[:, None] * D + d[None, :])
        s = tl.dot(x, tl.trans(y)) * 0.125
        now = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        scale = tl.exp2(most - now)
        total = total * scale + tl.sum(p, 1)
        acc = acc * scale[:, None] + tl.dot(p.to(tl.float16), z)
        most = now
    tl.store(o + i[:, None] * D + d[None, :], acc / total[:, None])


case("attention", attention, [buf("fp16", 64 * 64, "normal"), buf("fp16", 128 * 64, "normal"), buf("fp16", 128 * 64, "normal"),
     out("fp32", 64 * 64, near(2e-3, 0, "weights are rounded to halves after a sum in another order: 128 of them below 1, each off by 2**-11 at most where a rounding flips"))],
     M=64, N=32, D=64)


@triton.jit
def scaled(a, sa, b, sb, o, FA: tl.constexpr, FB: tl.constexpr, PA: tl.constexpr, PB: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)[:, None]
    n = tl.arange(0, N)[None, :]
    x = tl.load(a + m * (K // PA) + tl.arange(0, K // PA)[None, :])
    y = tl.load(b + tl.arange(0, K // PB)[:, None] * N + n)
    u = tl.load(sa + m * (K // 32) + tl.arange(0, K // 32)[None, :])
    v = tl.load(sb + tl.arange(0, N)[:, None] * (K // 32) + tl.arange(0, K // 32)[None, :])
    tl.store(o + m * N + n, tl.dot_scaled(x, u, FA, y, v, FB))


TYPES = dict(e4m3=("fp8e4nv", 1), e5m2=("fp8e5", 1), e2m1=("u8", 2), bf16=("bf16", 1), fp16=("fp16", 1))
for left, right in [("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e2m1", "e2m1"), ("e2m1", "e4m3"), ("bf16", "e5m2"), ("fp16", "e2m1")]:
    (a, pa), (b, pb) = TYPES[left], TYPES[right]
    fill = lambda kind: "any" if kind == "u8" else "whole:-4:4"
    case(f"dot_scaled_{left}_{right}", scaled, [buf(a, 32 * 64 // pa, fill(a)), buf("u8", 32 * 2, "whole:125:129"),
         buf(b, 64 * 32 // pb, fill(b)), buf("u8", 32 * 2, "whole:125:129"), out("fp32", 32 * 32)],
         FA=left, FB=right, PA=pa, PB=pb, M=32, N=32, K=64)
