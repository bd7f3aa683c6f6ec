//! The kernel of `operations.py` in Rust: an operation of each kind, each result stored.

use tilewright::tile::Scalar::{Bf16, F8E4M3, F16, F32, I1, I8, I32};
use tilewright::tile::build::{Atomic, BuildError, KernelBuilder, mask};
use tilewright::tile::{Func, Rounding};

/// What Triton made of it.
pub const TRITON: &str = include_str!("operations.ttir");

#[allow(clippy::eq_op, reason = "an operand is used twice where one will do")]
pub fn operations() -> Result<Func, BuildError> {
    let k = KernelBuilder::new("operations");
    let (x32, x16, xb, xi, x8, xf8, xb1) = (
        k.pointer("x32", F32),
        k.pointer("x16", F16),
        k.pointer("xb", Bf16),
        k.pointer("xi", I32),
        k.pointer("x8", I8),
        k.pointer("xf8", F8E4M3),
        k.pointer("xb1", I1),
    );
    let n = k.scalar("n", I32);
    let (o32, oi, o16) = (k.pointer("o32", F32), k.pointer("oi", I32), k.pointer("o16", F16));
    let r = k.arange(0, 32);
    let f = k.load(x32 + r);
    let h = k.load(x16 + r);
    let b = k.load(xb + r);
    let i = k.load(xi + r);
    let c = k.load(x8 + r);
    let q = k.load(xf8 + r);
    let t = k.load(xb1 + r);
    k.store(o32 + r, h / h);
    k.store(o32 + r, h / 3);
    k.store(o32 + r, b + i);
    k.store(o32 + r, b * h);
    k.store(o32 + r, i * 1.5);
    k.store(o32 + r, c + i);
    k.store(o32 + r, q.to(F32) + q.to(F16));
    k.store(o32 + r, b.maximum(b));
    k.store(o32 + r, f.minimum(2));
    k.store(o32 + r, k.where_(t, f, 0));
    k.store(o32 + r, k.where_(i.gt(n), h, f));
    k.store(o32, h.max(0));
    k.store(o32, b.max(0));
    k.store(oi, c.max(0));
    k.store(oi, c.sum(0));
    k.store(oi, t.to(I1).sum(0));
    k.store(oi, f.argmax(0));
    k.store(oi, b.argmin(0));
    k.store(oi + r, c.cumsum(0));
    k.store(o32 + r, b.cumsum(0));
    k.store(o32 + r, f.cumprod(0));
    k.store(o32 + r, f.associative_scan(0, true, |a, b| a + b));
    k.store(oi + r, i / 3 % 7);
    k.store(oi + r, !i ^ 5);
    k.store(oi + r, -i << 2 >> 1);
    k.store(o16 + r, f);
    k.store(o16 + r, b);
    k.store(o16 + r, i);
    k.store(o32 + r, f.clamp(0.0, 1.0));
    k.store(o32 + r, k.fma(f, f, 1.0));
    k.store(o32 + r, f.abs() + i.abs());
    k.store(oi, n.cdiv(64));
    k.store(oi + r, f.to(I32));
    k.store(oi + r, b.to(I32));
    k.store(oi + r, i.gt(3).to(I32));
    k.store(oi + r, f.to(I1));
    k.store(o32 + k.arange(0, 64), f.interleave(f));
    k.atomic_add(o32 + r, f, Atomic::default().mask(i.gt(2)));
    k.atomic_max(oi + r, i, Atomic::default());
    k.atomic_max(o32 + r, f, Atomic::default());
    k.atomic_cas(oi, 1, n, Atomic::default());
    k.store(xb1 + r, i.gt(3));
    k.store(o32 + r, k.load_with(x32 + r, mask(i.gt(2)).other(1)));
    let m = f.col() * f.row();
    k.store(o32, m.sum_all());
    k.store(oi + r, m.argmax(1));
    k.store(oi + r, m.argmin(0));
    let [left] = k.while_([n], |[k]| k.gt(3), |[k]| [k - 2]);
    k.store(oi, left);
    k.store(o32 + r, f.div_rn(f) + f.sqrt_rn() + f.rsqrt());
    k.store(o32 + r, f.gather(i, 0));
    k.store(oi + k.arange(0, 16), i.histogram(16));
    k.store(oi + k.arange(0, 64), i.cat(i));
    k.store(o32, m.min_all());
    k.store(oi, i.xor_sum(0));
    k.for_each(n, 0 + n * 2, 3, |j| k.store(oi + j, j));
    k.store(o32 + r, i.true_div(n));
    k.store(oi + r, i.umulhi(i));
    k.store(o16 + r, f.to_rounded(F16, Rounding::Rtz));
    k.store(o32 + r, f % 3.0);
    k.finish()
}
