"""Gathers and histograms."""

import triton
import triton.language as tl

from cases import buf, case, out


@triton.jit
def gather(a, index, o, AXIS: tl.constexpr, M: tl.constexpr, K: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    x = tl.load(a + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(o + at, tl.gather(x, tl.load(index + at), AXIS))


for dtype in ["fp32", "i8", "fp16", "i64"]:
    for axis, (r, c) in [(0, (64, 32)), (1, (16, 64))]:
        most = 15 if axis == 0 else 31
        case(f"gather_{dtype}_axis{axis}", gather, [buf(dtype, 16 * 32, "any"), buf("i32", r * c, f"whole:0:{most}"), out(dtype, r * c)], AXIS=axis, M=16, K=32,
             R=r, C=c)
for warps in [1, 2, 8]:
    case(f"gather_{warps}warps", gather, [buf("fp32", 16 * 32, "any"), buf("i64", 16 * 32, "whole:0:31"), out("fp32", 16 * 32)], warps=warps, AXIS=1, M=16, K=32,
         R=16, C=32)


@triton.jit
def gather_one(a, index, o, N: tl.constexpr, R: tl.constexpr):
    x = tl.load(a + tl.arange(0, N))
    tl.store(o + tl.arange(0, R), tl.gather(x, tl.load(index + tl.arange(0, R)), 0))


case("gather_one", gather_one, [buf("fp32", 64, "any"), buf("i32", 512, "whole:0:63"), out("fp32", 512)], N=64, R=512)


@triton.jit
def counted(a, o, BINS: tl.constexpr, MASKED: tl.constexpr, N: tl.constexpr):
    x = tl.load(a + tl.arange(0, N))
    if MASKED:
        h = tl.histogram(x, BINS, mask=x % 3 != 1)
    else:
        h = tl.histogram(x, BINS)
    tl.store(o + tl.arange(0, BINS), h)


for n, bins, warps in [(1024, 16, 4), (256, 128, 4), (64, 8, 1), (2048, 256, 8), (32, 2, 4)]:
    for masked in [False, True]:
        case(f"histogram_{n}_{bins}" + ("_masked" if masked else ""), counted, [buf("i32", n, f"whole:0:{bins - 1}"), out("i32", bins)], warps=warps, BINS=bins,
             MASKED=masked, N=n)
