"""One kernel with an operation of each kind, for Triton 3.6: what it makes of it is operations.ttir, and operations.rs is the
same kernel in Rust. To make it again (no GPU is needed):

    pip install triton==3.6.0 && python tests/tile_programs/operations.py > tests/tile_programs/operations.ttir
"""
import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

@triton.jit
def add2(a, b):
    return a + b


@triton.jit
def operations(x32, x16, xb, xi, x8, xf8, xb1, n, o32, oi, o16):
    r = tl.arange(0, 32)
    f = tl.load(x32 + r)
    h = tl.load(x16 + r)
    b = tl.load(xb + r)
    i = tl.load(xi + r)
    c = tl.load(x8 + r)
    q = tl.load(xf8 + r)
    t = tl.load(xb1 + r)
    tl.store(o32 + r, h / h)
    tl.store(o32 + r, h / 3)
    tl.store(o32 + r, b + i)
    tl.store(o32 + r, b * h)
    tl.store(o32 + r, i * 1.5)
    tl.store(o32 + r, c + i)
    tl.store(o32 + r, q.to(tl.float32) + q.to(tl.float16))
    tl.store(o32 + r, tl.maximum(b, b))
    tl.store(o32 + r, tl.minimum(f, 2))
    tl.store(o32 + r, tl.where(t, f, 0))
    tl.store(o32 + r, tl.where(i > n, h, f))
    tl.store(o32, tl.max(h, 0))
    tl.store(o32, tl.max(b, 0))
    tl.store(oi, tl.max(c, 0))
    tl.store(oi, tl.sum(c, 0))
    tl.store(oi, tl.sum(t.to(tl.int1), 0))
    tl.store(oi, tl.argmax(f, 0))
    tl.store(oi, tl.argmin(b, 0))
    tl.store(oi + r, tl.cumsum(c, 0))
    tl.store(o32 + r, tl.cumsum(b, 0))
    tl.store(o32 + r, tl.cumprod(f, 0))
    tl.store(o32 + r, tl.associative_scan(f, 0, add2, reverse=True))
    tl.store(oi + r, i // 3 % 7)
    tl.store(oi + r, ~i ^ 5)
    tl.store(oi + r, -i << 2 >> 1)
    tl.store(o16 + r, f)
    tl.store(o16 + r, b)
    tl.store(o16 + r, i)
    tl.store(o32 + r, tl.clamp(f, 0.0, 1.0))
    tl.store(o32 + r, tl.fma(f, f, 1.0))
    tl.store(o32 + r, tl.abs(f) + tl.abs(i))
    tl.store(oi, tl.cdiv(n, 64))
    tl.store(oi + r, f.to(tl.int32))
    tl.store(oi + r, b.to(tl.int32))
    tl.store(oi + r, (i > 3).to(tl.int32))
    tl.store(oi + r, f.to(tl.int1))
    tl.store(o32 + tl.arange(0, 64), tl.interleave(f, f))
    tl.atomic_add(o32 + r, f, mask=i > 2)
    tl.atomic_max(oi + r, i)
    tl.atomic_max(o32 + r, f)
    tl.atomic_cas(oi, 1, n)
    tl.store(xb1 + r, i > 3)
    tl.store(o32 + r, tl.load(x32 + r, mask=i > 2, other=1))
    m = f[:, None] * f[None, :]
    tl.store(o32, tl.sum(m))
    tl.store(oi + r, tl.argmax(m, 1))
    tl.store(oi + r, tl.argmin(m, 0))
    k = n
    while k > 3:
        k = k - 2
    tl.store(oi, k)
    tl.store(o32 + r, tl.div_rn(f, f) + tl.sqrt_rn(f) + tl.math.rsqrt(f))
    tl.store(o32 + r, tl.gather(f, i, 0))
    tl.store(oi + tl.arange(0,16), tl.histogram(i, 16))
    tl.store(oi + tl.arange(0,64), tl.cat(i, i, can_reorder=True))
    tl.store(o32, tl.min(m))
    tl.store(oi, tl.xor_sum(i, 0))
    for j in range(n, 0 + n * 2, 3):
        tl.store(oi + j, j)
    tl.store(o32 + r, i / n)
    tl.store(oi + r, tl.umulhi(i, i))
    tl.store(o16 + r, f.to(tl.float16, fp_downcast_rounding='rtz'))
    tl.store(o32 + r, f % 3.0)


types = dict(
    x32="*fp32", x16="*fp16", xb="*bf16", xi="*i32", x8="*i8", xf8="*fp8e4nv", xb1="*i1", n="i32", o32="*fp32", oi="*i32", o16="*fp16"
)
aligned = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(types.values()) if t.startswith("*")}
source = triton.compiler.ASTSource(fn=operations, signature=types, constexprs={}, attrs=aligned)
text = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ttir"]
lines = [line for line in text.splitlines() if not line.startswith("#loc")]
location = r' loc\((?:#loc\d*|"[^"]*"\(#loc\d*\)|"[^"]*"|unknown|callsite\([^)]*\))\)'
print(re.sub(location, "", "\n".join(lines)))
