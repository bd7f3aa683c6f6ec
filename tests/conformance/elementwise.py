"""Arithmetic, comparisons, selections and conversions, element by element."""

import triton
import triton.language as tl

from cases import buf, case, out, scalar

N = 512
SIGNED = ["i8", "i16", "i32", "i64"]
UNSIGNED = ["u8", "u16", "u32", "u64"]
FLOATS = ["fp16", "bf16", "fp32", "fp64"]


@triton.jit
def binary(a, b, o, OP: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    y = tl.load(b + at)
    if OP == "add":
        z = x + y
    elif OP == "sub":
        z = x - y
    elif OP == "mul":
        z = x * y
    elif OP == "div":
        z = x // y
    elif OP == "rem":
        z = x % y
    elif OP == "truediv":
        z = x / y
    elif OP == "and":
        z = x & y
    elif OP == "or":
        z = x | y
    elif OP == "xor":
        z = x ^ y
    elif OP == "shl":
        z = x << y
    elif OP == "shr":
        z = x >> y
    elif OP == "min":
        z = tl.minimum(x, y)
    elif OP == "max":
        z = tl.maximum(x, y)
    elif OP == "min_nan":
        z = tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "max_nan":
        z = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "lt":
        z = (x < y).to(tl.int8)
    elif OP == "le":
        z = (x <= y).to(tl.int8)
    elif OP == "gt":
        z = (x > y).to(tl.int8)
    elif OP == "ge":
        z = (x >= y).to(tl.int8)
    elif OP == "eq":
        z = (x == y).to(tl.int8)
    elif OP == "ne":
        z = (x != y).to(tl.int8)
    elif OP == "div_rn":
        z = tl.div_rn(x, y)
    elif OP == "fdiv":
        z = tl.fdiv(x, y)
    elif OP == "umulhi":
        z = tl.umulhi(x, y)
    elif OP == "cdiv":
        z = tl.cdiv(x, y)
    tl.store(o + at, z)


def width(dtype):
    return int(dtype.lstrip("iufpb"))


for dtype in SIGNED + UNSIGNED:
    top = width(dtype)
    for op in ["add", "sub", "mul", "and", "or", "xor", "min", "max"]:
        case(f"{op}_{dtype}", binary, [buf(dtype, N, "any"), buf(dtype, N, "any"), out(dtype, N)], OP=op, N=N)
    # No divisor 0, and none of -1 for the least number: the result would not be defined.
    for op in ["div", "rem"]:
        case(f"{op}_{dtype}", binary, [buf(dtype, N, "any"), buf(dtype, N, "whole:1:99"), out(dtype, N)], OP=op, N=N)
    for op in ["shl", "shr"]:
        case(f"{op}_{dtype}", binary, [buf(dtype, N, "any"), buf(dtype, N, f"whole:0:{top - 1}"), out(dtype, N)], OP=op, N=N)
    for op in ["lt", "le", "gt", "ge", "eq", "ne"]:
        case(f"{op}_{dtype}", binary, [buf(dtype, N, "any"), buf(dtype, N, "any"), out("i8", N)], OP=op, N=N)
for dtype in ["i32", "i64"]:
    for op in ["div", "rem"]:
        args = [buf(dtype, N, "any"), buf(dtype, N, "whole:-99:-2"), out(dtype, N)]
        case(f"{op}_negative_{dtype}", binary, args, OP=op, N=N)
case("cdiv_i32", binary, [buf("i32", N, "whole:-999:999"), buf("i32", N, "whole:1:99"), out("i32", N)], OP="cdiv", N=N)
for dtype in ["u32", "u64", "i32", "i64"]:
    case(f"umulhi_{dtype}", binary, [buf(dtype, N, "any"), buf(dtype, N, "any"), out(dtype, N)], OP="umulhi", N=N)
for dtype in FLOATS:
    for op in ["add", "sub", "mul", "min", "max", "min_nan", "max_nan"]:
        case(f"{op}_{dtype}", binary, [buf(dtype, N, "any"), buf(dtype, N, "any"), out(dtype, N)], OP=op, N=N)
    for op in ["lt", "le", "gt", "ge", "eq", "ne"]:
        case(f"{op}_{dtype}", binary, [buf(dtype, N, "any"), buf(dtype, N, "any"), out("i8", N)], OP=op, N=N)
    # Halves are divided as singles; both sides use the same instruction. `fdiv` takes no halves.
    for op in ["truediv", "fdiv"] if dtype in ("fp32", "fp64") else ["truediv"]:
        case(f"{op}_{dtype}", binary, [buf(dtype, N, "any"), buf(dtype, N, "any"), out(dtype, N)], OP=op, N=N)
    args = [buf(dtype, N, "real:-99:99"), buf(dtype, N, "real:1:7"), out(dtype, N)]
    case(f"rem_{dtype}", binary, args, OP="rem", N=N)
case("div_rn_fp32", binary, [buf("fp32", N, "any"), buf("fp32", N, "any"), out("fp32", N)], OP="div_rn", N=N)
case("truediv_i32", binary, [buf("i32", N, "any"), buf("i32", N, "whole:1:99"), out("fp32", N)], OP="truediv", N=N)


@triton.jit
def unary(a, o, OP: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    if OP == "neg":
        y = -x
    elif OP == "not":
        y = ~x
    elif OP == "abs":
        y = tl.abs(x)
    elif OP == "floor":
        y = tl.floor(x)
    elif OP == "ceil":
        y = tl.ceil(x)
    elif OP == "isnan":
        y = (x != x).to(tl.int8)
    tl.store(o + at, y)


for dtype in SIGNED:
    for op in ["neg", "not", "abs"]:
        case(f"{op}_{dtype}", unary, [buf(dtype, N, "any"), out(dtype, N)], OP=op, N=N)
for dtype in FLOATS:
    for op in ["neg", "abs"]:
        case(f"{op}_{dtype}", unary, [buf(dtype, N, "any"), out(dtype, N)], OP=op, N=N)
    case(f"isnan_{dtype}", unary, [buf(dtype, N, "any"), out("i8", N)], OP="isnan", N=N)
for dtype in ["fp32", "fp64"]:
    for op in ["floor", "ceil"]:
        case(f"{op}_{dtype}", unary, [buf(dtype, N, "any"), out(dtype, N)], OP=op, N=N)


@triton.jit
def ternary(a, b, c, o, OP: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    y = tl.load(b + at)
    z = tl.load(c + at)
    if OP == "fma":
        w = tl.fma(x, y, z)
    elif OP == "where":
        w = tl.where(x > z, x, y)
    elif OP == "clamp":
        w = tl.clamp(x, tl.minimum(y, z), tl.maximum(y, z))
    elif OP == "clamp_nan":
        w = tl.clamp(x, tl.minimum(y, z), tl.maximum(y, z), propagate_nan=tl.PropagateNan.ALL)
    elif OP == "muladd":
        w = x * y + z
    tl.store(o + at, w)


for dtype in FLOATS:
    for op in ["fma", "where", "muladd"] + (["clamp", "clamp_nan"] if dtype in ("fp32", "fp64", "fp16") else []):
        fill = "normal" if op.startswith("clamp") else "any"
        first = "any" if op != "clamp" else "normal"
        case(f"{op}_{dtype}", ternary, [buf(dtype, N, first), buf(dtype, N, fill), buf(dtype, N, fill), out(dtype, N)], OP=op, N=N)
for dtype in ["i8", "i64", "u16"]:
    case(f"where_{dtype}", ternary, [buf(dtype, N, "any")] * 3 + [out(dtype, N)], OP="where", N=N)


@triton.jit
def convert(a, o, TO: tl.constexpr, ROUND: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    tl.store(o + at, x.to(TO, fp_downcast_rounding=ROUND))


NAMES = dict(
    i1=tl.int1, i8=tl.int8, i16=tl.int16, i32=tl.int32, i64=tl.int64, u8=tl.uint8, u16=tl.uint16, u32=tl.uint32,
    u64=tl.uint64, fp16=tl.float16, bf16=tl.bfloat16, fp32=tl.float32, fp64=tl.float64, fp8e4nv=tl.float8e4nv,
    fp8e5=tl.float8e5,
)
INTS = SIGNED + UNSIGNED
EIGHTS = ["fp8e4nv", "fp8e5"]


def conversion(source, target, fill="any", rounding=None):
    name = f"convert_{source}_{target}" + (f"_{rounding}" if rounding else "")
    case(name, convert, [buf(source, N, fill), out(target, N)], TO=NAMES[target], ROUND=rounding, N=N)


for source in INTS:
    for target in INTS:
        if source != target and width(source) != width(target):
            conversion(source, target)
    for target in FLOATS:
        conversion(source, target)
for source in FLOATS:
    # Beyond the target's range the result is not defined.
    for target in ["i8", "i16", "i32", "i64"]:
        conversion(source, target, "real:-127:127")
    for target in ["u8", "u16", "u32", "u64"]:
        conversion(source, target, "real:0:255")
    # Triton has no way from doubles to FP8 or back.
    for target in FLOATS + (EIGHTS if source != "fp64" else []):
        if source != target:
            conversion(source, target)
for source in EIGHTS:
    for target in ["fp16", "bf16", "fp32"]:
        # Triton makes numbers of E5M2's infinities and NaN where it goes to bfloats.
        conversion(source, target, "real:-99:99" if (source, target) == ("fp8e5", "bf16") else "any")
conversion("fp32", "fp8e5", rounding="rtz")
for target in ["fp16", "bf16"]:
    conversion("fp32", target, rounding="rtz")
    conversion("fp32", target, rounding="rtne")
for target in ["i32", "fp32", "fp16"]:
    conversion("i1", target, "whole:0:1")
for source in ["i8", "i32", "i64", "fp32", "fp16"]:
    case(f"convert_{source}_i1", convert, [buf(source, N, "any"), out("i1", N)], TO=tl.int1, ROUND=None, N=N)


@triton.jit
def bitcast(a, o, TO: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    tl.store(o + at, x.to(TO, bitcast=True))


for source, target in [("fp32", "i32"), ("i32", "fp32"), ("fp16", "i16"), ("i16", "bf16"), ("i64", "fp64"), ("fp64", "u64"),
                       ("fp8e5", "i8"), ("u8", "fp8e4nv"), ("bf16", "fp16"), ("i32", "u32")]:
    case(f"bitcast_{source}_{target}", bitcast, [buf(source, N, "any"), out(target, N)], TO=NAMES[target], N=N)


@triton.jit
def truth(a, b, o, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at) > 3
    y = tl.load(b + at) < 5
    z = (x & y) | (~x ^ y)
    tl.store(o + at, z)
    tl.store(o + N + at, tl.where(z, x, y))


case("truth", truth, [buf("i32", N, "whole:0:8"), buf("i32", N, "whole:0:8"), out("i1", 2 * N)], N=N)


@triton.jit
def scalars(o, a, b, x, y, h, w, s, l):
    tl.store(o, a + b)
    tl.store(o + 1, (x * y).to(tl.int32))
    tl.store(o + 2, (h.to(tl.float32) * 4).to(tl.int32))
    tl.store(o + 3, (w.to(tl.float32) * 8).to(tl.int32))
    tl.store(o + 4, s.to(tl.int32) * 3)
    tl.store(o + 5, (l >> 32).to(tl.int32))
    tl.store(o + 6, tl.where(a > b, a, b))
    tl.store(o + 7, a // b + a % b)


case("scalars", scalars, [
    out("i32", 8), scalar("i32", -77), scalar("i32", 13), scalar("fp32", 2.5), scalar("fp64", 4.0), scalar("fp16", 1.25),
    scalar("bf16", -3.5), scalar("i16", -9), scalar("i64", 1 << 40),
])
