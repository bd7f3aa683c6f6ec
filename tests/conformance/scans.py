"""Scans along an axis."""

import triton
import triton.language as tl

from cases import BITS, buf, case, near, out


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def linear(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def scan(a, o, OP: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, K)[None, :]
    x = tl.load(a + i * K + j)
    if OP == "sum":
        y = tl.cumsum(x, AXIS, reverse=REVERSE)
    elif OP == "prod":
        y = tl.cumprod(x, AXIS, reverse=REVERSE)
    elif OP == "max":
        y = tl.associative_scan(x, AXIS, larger, reverse=REVERSE)
    elif OP == "linear":
        _, y = tl.associative_scan((x | 1, x), AXIS, linear, reverse=REVERSE)
    tl.store(o + i * K + j, y)


def scanned(op, dtype, axis, fill, rule=BITS, reverse=False, warps=4, m=32, k=64, result=None, tag=""):
    name = f"scan_{op}_{dtype}_axis{axis}" + ("_reverse" if reverse else "") + (f"_{warps}warps" if warps != 4 else "") + tag
    args = [buf(dtype, m * k, fill), out(result or dtype, m * k, rule)]
    case(name, scan, args, warps=warps, OP=op, AXIS=axis, REVERSE=reverse, M=m, K=k)


SUM = near(64 * 64 * 2**-24, 0, "up to 64 terms below 4 in singles, in any order")
for axis in [0, 1]:
    for reverse in [False, True]:
        for dtype in ["i32", "i64", "fp32"]:
            scanned("sum", dtype, axis, "whole:-9:9", reverse=reverse)
        scanned("prod", "i32", axis, "any", reverse=reverse)
        scanned("max", "fp32", axis, "normal", reverse=reverse)
        scanned("max", "i16", axis, "any", reverse=reverse)
        scanned("linear", "i32", axis, "any", reverse=reverse)
        for warps in [1, 2, 8]:
            scanned("sum", "i32", axis, "any", reverse=reverse, warps=warps)
    scanned("sum", "fp32", axis, "normal", SUM, tag="_inexact")
    scanned("sum", "fp16", axis, "whole:-2:2")
    scanned("sum", "bf16", axis, "whole:-1:1")
    scanned("sum", "i8", axis, "any", result="i32")
    scanned("sum", "fp64", axis, "whole:-9:9")
    scanned("sum", "i32", axis, "any", m=2, k=1024, tag="_wide")
    scanned("sum", "i32", axis, "any", m=512, k=4, tag="_tall")
    scanned("linear", "i32", axis, "any", m=4, k=4, tag="_small")


@triton.jit
def scan_one(a, o, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o + at, tl.cumsum(tl.load(a + at), 0))


for n, warps in [(16, 1), (32, 4), (1024, 4), (2048, 8), (4096, 4)]:
    case(f"scan_one_{n}_{warps}", scan_one, [buf("i32", n, "any"), out("i32", n)], warps=warps, N=n)
