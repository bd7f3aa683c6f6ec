"""Reductions: sums, extremes, where they are, and functions of ours."""

import triton
import triton.language as tl

from cases import BITS, buf, case, near, out

M, K = 32, 64


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def pair(a, b, c, d):
    return a + c, b * d


@triton.jit
def first(a, b):
    return a


@triton.jit
def reduce(a, o, OP: tl.constexpr, AXIS: tl.constexpr, KEEP: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, K)[None, :]
    x = tl.load(a + i * K + j)
    if OP == "sum":
        y = tl.sum(x, AXIS, keep_dims=KEEP)
    elif OP == "max":
        y = tl.max(x, AXIS, keep_dims=KEEP)
    elif OP == "min":
        y = tl.min(x, AXIS, keep_dims=KEEP)
    elif OP == "xor":
        y = tl.xor_sum(x, AXIS, keep_dims=KEEP)
    elif OP == "argmax":
        y = tl.argmax(x, AXIS, keep_dims=KEEP)
    elif OP == "argmin":
        y = tl.argmin(x, AXIS, keep_dims=KEEP)
    elif OP == "argmax_any":
        y = tl.argmax(x, AXIS, tie_break_left=False, keep_dims=KEEP)
    elif OP == "product":
        y = tl.reduce(x, AXIS, multiply, keep_dims=KEEP)
    if KEEP:
        tl.store(o + (i if AXIS == 1 else j), y)
    else:
        tl.store(o + tl.arange(0, M if AXIS == 1 else K), y)


def reduction(op, dtype, axis, fill, rule=BITS, keep=False, warps=4, result=None, m=M, k=K, tag=""):
    name = f"{op}_{dtype}_axis{axis}" + ("_keep" if keep else "") + (f"_{warps}warps" if warps != 4 else "") + tag
    args = [buf(dtype, m * k, fill), out(result or dtype, m if axis == 1 else k, rule)]
    case("reduce_" + name, reduce, args, warps=warps, OP=op, AXIS=axis, KEEP=keep, M=m, K=k)


SUM = near(64 * 64 * 2**-24, 0, "64 terms below 4 in singles: each of the additions, in any order, is off by half an ulp of a sum below 64 * 4")
for axis in [0, 1]:
    for dtype in ["i32", "i64", "u32", "fp32"]:
        fill = "whole:-9:9" if dtype == "fp32" else "any"
        for op in ["sum", "max", "min"]:
            reduction(op, dtype, axis, fill)
    for dtype in ["i8", "i16", "u8"]:
        reduction("max", dtype, axis, "any")
        reduction("sum", dtype, axis, "any", result="i32" if dtype[0] == "i" else "u32")
    for dtype in ["fp16", "bf16", "fp64"]:
        # Small whole numbers: exact in any order.
        reduction("sum", dtype, axis, "whole:-2:2", result=dtype)
        reduction("max", dtype, axis, "normal", result="fp32" if dtype == "bf16" else dtype)
    reduction("xor", "i32", axis, "any")
    reduction("sum", "fp32", axis, "normal", SUM, tag="_inexact")
    reduction("max", "fp32", axis, "any", tag="_any")
    for dtype in ["fp32", "i32", "fp16", "i64"]:
        for op in ["argmax", "argmin"]:
            reduction(op, dtype, axis, "whole:-9:9", result="i32")
    reduction("argmax_any", "fp32", axis, "normal", result="i32")
    reduction("product", "i32", axis, "any")
    reduction("sum", "i32", axis, "any", keep=True)
    reduction("argmax", "fp32", axis, "whole:-9:9", keep=True, result="i32")
    for warps in [1, 2, 8]:
        reduction("sum", "i32", axis, "any", warps=warps)
        reduction("argmin", "i32", axis, "whole:-9:9", warps=warps, result="i32")
    reduction("sum", "i32", axis, "any", m=2, k=2048, tag="_wide")
    reduction("sum", "i32", axis, "any", m=1024, k=2, tag="_tall")
    reduction("max", "i32", axis, "any", m=4, k=4, tag="_small")


@triton.jit
def reduce_all(a, o, p, q, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    tl.store(o, tl.sum(x, 0))
    value, index = tl.max(x, 0, return_indices=True)
    tl.store(p, index)
    s, t = tl.reduce((x, (x & 1) * 2 + 1), 0, pair)
    tl.store(q, s)
    tl.store(q + 1, t)
    tl.store(q + 2, value)
    tl.store(q + at + 3, x - value)


for n, warps in [(16, 1), (64, 4), (1024, 4), (512, 8), (256, 2)]:
    case(f"reduce_all_{n}_{warps}", reduce_all, [buf("i32", n, "any"), out("i32", 1), out("i32", 1), out("i32", n + 3)], warps=warps, N=n)


@triton.jit
def reduce_three(a, o, D0: tl.constexpr, D1: tl.constexpr, D2: tl.constexpr, AXIS: tl.constexpr):
    i = tl.arange(0, D0)[:, None, None]
    j = tl.arange(0, D1)[None, :, None]
    k = tl.arange(0, D2)[None, None, :]
    y = tl.sum(tl.load(a + (i * D1 + j) * D2 + k), AXIS, keep_dims=True)
    p = o + ((i if AXIS != 0 else 0) * D1 + (j if AXIS != 1 else 0)) * D2 + (k if AXIS != 2 else 0)
    tl.store(p, y)


for axis in [0, 1, 2]:
    case(f"reduce_three_{axis}", reduce_three, [buf("i32", 4 * 8 * 16, "any"), out("i32", 4 * 8 * 16)], D0=4, D1=8, D2=16, AXIS=axis)


@triton.jit
def softmax(a, o, n, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + tl.program_id(0) * n + at, mask=at < n, other=-float("inf"))
    x = x - tl.max(x, 0)
    e = tl.exp(x)
    tl.store(o + tl.program_id(0) * n + at, e / tl.sum(e, 0), mask=at < n)


SOFT = near(0, 1e-5, "a sum of 100 positive terms in any order, then a division")
case("softmax", softmax, [buf("fp32", 300, "normal"), out("fp32", 300, SOFT)] + [{"scalar": "i32", "value": 100}], grid=(3,), N=128)


@triton.jit
def softmax_rows(a, o, M: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, K)[None, :]
    tl.store(o + i * K + j, tl.softmax(tl.load(a + i * K + j)))


case("softmax_rows", softmax_rows, [buf("fp32", 16 * 64, "normal"), out("fp32", 16 * 64, SOFT)], M=16, K=64)


@triton.jit
def welford(m1, s1, n1, m2, s2, n2):
    n = n1 + n2
    d = m2 - m1
    return m1 + d * n2 / n, s1 + s2 + d * d * n1 * n2 / n, n


@triton.jit
def variance(a, o, M: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, K)[None, :]
    x = tl.load(a + i * K + j)
    m, s, n = tl.reduce((x, tl.zeros_like(x), tl.full((M, K), 1.0, tl.float32)), 1, welford)
    at = tl.arange(0, M)
    tl.store(o + at, m)
    tl.store(o + M + at, s / n)


case("reduce_welford", variance, [buf("fp32", 32 * 64, "normal"), out("fp32", 64, near(1e-5, 1e-5, "a tree of another shape, 64 terms"))], M=32, K=64)
