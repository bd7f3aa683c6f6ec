"""Functions: exponentials, logarithms, roots, trigonometry."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from cases import BITS, buf, case, out, ulp

N = 512


@triton.jit
def function(a, o, OP: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    if OP == "exp":
        y = tl.exp(x)
    elif OP == "exp2":
        y = tl.exp2(x)
    elif OP == "log":
        y = tl.log(x)
    elif OP == "log2":
        y = tl.log2(x)
    elif OP == "sqrt":
        y = tl.sqrt(x)
    elif OP == "sqrt_rn":
        y = tl.sqrt_rn(x)
    elif OP == "rsqrt":
        y = tl.rsqrt(x)
    elif OP == "sin":
        y = tl.sin(x)
    elif OP == "cos":
        y = tl.cos(x)
    elif OP == "erf":
        y = tl.erf(x)
    elif OP == "sigmoid":
        y = tl.sigmoid(x)
    tl.store(o + at, y)


APPROXIMATE = ulp(2, "an approximate instruction on both sides")
OWN = ulp(2, "two implementations, each within 1-2 ulp of the function; Triton's flushes subnormals, ours keeps them", flush=True)
for name, fill, rule in [
    ("exp", "any", APPROXIMATE), ("exp2", "any", APPROXIMATE), ("log", "any", OWN), ("log2", "any", OWN),
    ("sqrt", "any", APPROXIMATE), ("sqrt_rn", "any", BITS), ("rsqrt", "any", APPROXIMATE), ("sin", "real:-9:9", OWN),
    ("cos", "real:-9:9", OWN), ("erf", "any", OWN), ("sigmoid", "any", APPROXIMATE),
]:
    case(f"{name}_fp32", function, [buf("fp32", N, fill), out("fp32", N, rule)], OP=name, N=N)
for name in ["sin", "cos"]:
    case(f"{name}_large_fp32", function, [buf("fp32", N, "any"), out("fp32", N, OWN)], OP=name, N=N)
for name, fill, rule in [("sqrt", "any", BITS), ("rsqrt", "any", OWN), ("exp", "any", OWN), ("exp2", "any", OWN),
                         ("log", "any", OWN), ("log2", "any", OWN), ("sin", "real:-99:99", OWN), ("cos", "real:-99:99", OWN),
                         ("erf", "any", OWN)]:
    case(f"{name}_fp64", function, [buf("fp64", N, fill), out("fp64", N, rule)], OP=name, N=N)


@triton.jit
def device(a, o, OP: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    if OP == "tanh":
        y = libdevice.tanh(x)
    elif OP == "rint":
        y = libdevice.rint(x)
    elif OP == "trunc":
        y = libdevice.trunc(x)
    elif OP == "round":
        y = libdevice.round(x)
    elif OP == "nearbyint":
        y = libdevice.nearbyint(x)
    elif OP == "log1p":
        y = libdevice.log1p(x)
    elif OP == "expm1":
        y = libdevice.expm1(x)
    elif OP == "log10":
        y = libdevice.log10(x)
    elif OP == "exp10":
        y = libdevice.exp10(x)
    elif OP == "tan":
        y = libdevice.tan(x)
    elif OP == "asin":
        y = libdevice.asin(x)
    elif OP == "acos":
        y = libdevice.acos(x)
    elif OP == "atan":
        y = libdevice.atan(x)
    elif OP == "sinh":
        y = libdevice.sinh(x)
    elif OP == "cosh":
        y = libdevice.cosh(x)
    elif OP == "rcp_rn":
        y = libdevice.rcp_rn(x)
    elif OP == "cbrt":
        y = libdevice.cbrt(x)
    elif OP == "fast_expf":
        y = libdevice.fast_expf(x)
    elif OP == "fast_logf":
        y = libdevice.fast_logf(x)
    elif OP == "isinf":
        y = libdevice.isinf(x).to(tl.float32)
    elif OP == "popc":
        y = libdevice.popc(x)
    elif OP == "clz":
        y = libdevice.clz(x)
    elif OP == "ffs":
        y = libdevice.ffs(x)
    elif OP == "brev":
        y = libdevice.brev(x)
    tl.store(o + at, y)


for name in ["rint", "trunc", "round", "nearbyint", "isinf", "rcp_rn"]:
    case(f"libdevice_{name}", device, [buf("fp32", N, "any"), out("fp32", N)], OP=name, N=N)
for name, fill in [("tanh", "any"), ("log1p", "any"), ("expm1", "any"), ("log10", "any"), ("exp10", "any"), ("fast_expf", "real:-80:80"),
                   ("fast_logf", "real:1:99")]:
    case(f"libdevice_{name}", device, [buf("fp32", N, fill), out("fp32", N, OWN)], OP=name, N=N)
for name in ["popc", "clz", "ffs", "brev"]:
    case(f"libdevice_{name}", device, [buf("i32", N, "any"), out("i32", N)], OP=name, N=N)


@triton.jit
def device_two(a, b, o, OP: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    y = tl.load(b + at)
    if OP == "pow":
        z = libdevice.pow(x, y)
    elif OP == "fmod":
        z = libdevice.fmod(x, y)
    elif OP == "copysign":
        z = libdevice.copysign(x, y)
    elif OP == "div_rz":
        z = libdevice.div_rz(x, y)
    elif OP == "mul_rn":
        z = libdevice.mul_rn(x, y)
    elif OP == "add_rz":
        z = libdevice.add_rz(x, y)
    tl.store(o + at, z)


for name in ["copysign", "div_rz", "mul_rn", "add_rz"]:
    case(f"libdevice_{name}", device_two, [buf("fp32", N, "any"), buf("fp32", N, "any"), out("fp32", N)], OP=name, N=N)


@triton.jit
def assembly(a, b, o, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    y = tl.load(b + at)
    z = tl.inline_asm_elementwise("lop3.b32 $0, $1, $2, 0, 0x3c;", "=r,r,r", [x, y], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(o + at, z)


case("inline_asm", assembly, [buf("i32", N, "any"), buf("i32", N, "any"), out("i32", N)], N=N)


@triton.jit
def packed_assembly(a, o, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    z = tl.inline_asm_elementwise("{ .reg .b32 t; and.b32 t, $1, 0x7f7f7f7f; shl.b32 $0, t, 1; }", "=r,r", [x],
                                  dtype=tl.int8, is_pure=True, pack=4)
    tl.store(o + at, z)


case("inline_asm_packed", packed_assembly, [buf("i8", 1024, "any"), out("i8", 1024)], N=1024)


@triton.jit
def assembly_two(a, o, p, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at)
    u, v = tl.inline_asm_elementwise("{ add.s32 $0, $2, 1; mul.lo.s32 $1, $2, 3; }", "=&r,=&r,r", [x],
                                     dtype=(tl.int32, tl.int32), is_pure=True, pack=1)
    tl.store(o + at, u)
    tl.store(p + at, v)


case("inline_asm_two", assembly_two, [buf("i32", N, "any"), out("i32", N), out("i32", N)], N=N)
