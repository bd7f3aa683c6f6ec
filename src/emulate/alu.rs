//! Arithmetic on 32 lanes: one function for each instruction and type, chosen once at decode.
//!
//! Approximate functions (`rsqrt.approx` and its like) give the correctly rounded result, which is within the error that
//! PTX states for each; hardware may differ in the last places.

use half::{bf16, f16};

use super::lanes::{LANES, Lanes32, Lanes64};

pub(super) type Fn1 = fn(&Lanes32, &mut Lanes32);
pub(super) type Fn2 = fn(&Lanes32, &Lanes32, &mut Lanes32);
pub(super) type Fn3 = fn(&Lanes32, &Lanes32, &Lanes32, &mut Lanes32);
pub(super) type Fn4 = fn(&Lanes32, &Lanes32, &Lanes32, &Lanes32, &mut Lanes32);
pub(super) type Wide1 = fn(&Lanes64, &mut Lanes64);
pub(super) type Wide2 = fn(&Lanes64, &Lanes64, &mut Lanes64);
pub(super) type Wide3 = fn(&Lanes64, &Lanes64, &Lanes64, &mut Lanes64);
pub(super) type Grow1 = fn(&Lanes32, &mut Lanes64);
pub(super) type Grow2 = fn(&Lanes32, &Lanes32, &mut Lanes64);
pub(super) type Grow3 = fn(&Lanes32, &Lanes32, &Lanes64, &mut Lanes64);
pub(super) type Choose64 = fn(&Lanes64, &Lanes64, &Lanes32, &mut Lanes64);
pub(super) type Shift64 = fn(&Lanes64, &Lanes32, &mut Lanes64);
pub(super) type Field64 = fn(&Lanes64, &Lanes32, &Lanes32, &mut Lanes64);
pub(super) type Insert64 = fn(&Lanes64, &Lanes64, &Lanes32, &Lanes32, &mut Lanes64);
pub(super) type Shrink1 = fn(&Lanes64, &mut Lanes32);
pub(super) type Compare32 = fn(&Lanes32, &Lanes32) -> u32;
pub(super) type Compare64 = fn(&Lanes64, &Lanes64) -> u32;

/// What an arithmetic instruction does, by the banks of its operands.
#[derive(Clone, Copy)]
pub(super) enum Alu {
    F1(Fn1),
    F2(Fn2),
    F3(Fn3),
    F4(Fn4),
    W1(Wide1),
    W2(Wide2),
    W3(Wide3),
    G1(Grow1),
    G2(Grow2),
    G3(Grow3),
    C64(Choose64),
    S64(Shift64),
    B64(Field64),
    I64(Insert64),
    K1(Shrink1),
}

/// `f!(A, R; |a| expression)`, with one to three operands: a function over all lanes.
macro_rules! f {
    ($A:ty => $R:ty; |$a:ident| $e:expr) => {{
        fn run(
            x: &[<$A as $crate::emulate::lanes::Lane>::Word; $crate::emulate::lanes::LANES],
            out: &mut [<$R as $crate::emulate::lanes::Lane>::Word; $crate::emulate::lanes::LANES],
        ) {
            for (x, out) in x.iter().zip(out) {
                let $a = <$A as $crate::emulate::lanes::Lane>::get(*x);
                let result: $R = $e;
                *out = $crate::emulate::lanes::Lane::put(result);
            }
        }
        run
    }};
    ($A:ty, $B:ty => $R:ty; |$a:ident, $b:ident| $e:expr) => {{
        fn run(
            x: &[<$A as $crate::emulate::lanes::Lane>::Word; $crate::emulate::lanes::LANES],
            y: &[<$B as $crate::emulate::lanes::Lane>::Word; $crate::emulate::lanes::LANES],
            out: &mut [<$R as $crate::emulate::lanes::Lane>::Word; $crate::emulate::lanes::LANES],
        ) {
            for ((x, y), out) in x.iter().zip(y).zip(out) {
                let $a = <$A as $crate::emulate::lanes::Lane>::get(*x);
                let $b = <$B as $crate::emulate::lanes::Lane>::get(*y);
                let result: $R = $e;
                *out = $crate::emulate::lanes::Lane::put(result);
            }
        }
        run
    }};
    ($A:ty, $B:ty, $C:ty => $R:ty; |$a:ident, $b:ident, $c:ident| $e:expr) => {{
        fn run(
            x: &[<$A as $crate::emulate::lanes::Lane>::Word; $crate::emulate::lanes::LANES],
            y: &[<$B as $crate::emulate::lanes::Lane>::Word; $crate::emulate::lanes::LANES],
            z: &[<$C as $crate::emulate::lanes::Lane>::Word; $crate::emulate::lanes::LANES],
            out: &mut [<$R as $crate::emulate::lanes::Lane>::Word; $crate::emulate::lanes::LANES],
        ) {
            for (((x, y), z), out) in x.iter().zip(y).zip(z).zip(out) {
                let $a = <$A as $crate::emulate::lanes::Lane>::get(*x);
                let $b = <$B as $crate::emulate::lanes::Lane>::get(*y);
                let $c = <$C as $crate::emulate::lanes::Lane>::get(*z);
                let result: $R = $e;
                *out = $crate::emulate::lanes::Lane::put(result);
            }
        }
        run
    }};
}
pub(super) use f;

/// A comparison over all lanes: a mask.
macro_rules! compare {
    ($A:ty; |$a:ident, $b:ident| $e:expr) => {{
        fn run(
            x: &[<$A as $crate::emulate::lanes::Lane>::Word; $crate::emulate::lanes::LANES],
            y: &[<$A as $crate::emulate::lanes::Lane>::Word; $crate::emulate::lanes::LANES],
        ) -> u32 {
            let mut mask = 0;
            for lane in 0..$crate::emulate::lanes::LANES {
                let $a = <$A as $crate::emulate::lanes::Lane>::get(x[lane]);
                let $b = <$A as $crate::emulate::lanes::Lane>::get(y[lane]);
                let holds: bool = $e;
                mask |= u32::from(holds) << lane;
            }
            mask
        }
        run
    }};
}
pub(super) use compare;

/// `fma.rn.f32` with the machine's instruction where it has one: the library's software form is exact too, and slow.
pub(super) fn fma_f32() -> Fn3 {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn fused(x: &Lanes32, y: &Lanes32, z: &Lanes32, out: &mut Lanes32) {
            for lane in 0..LANES {
                let (a, b, c) = (f32::from_bits(x[lane]), f32::from_bits(y[lane]), f32::from_bits(z[lane]));
                out[lane] = canonical(a.mul_add(b, c)).to_bits();
            }
        }
        fn run(x: &Lanes32, y: &Lanes32, z: &Lanes32, out: &mut Lanes32) {
            // SAFETY: chosen only where the processor has both features.
            unsafe { fused(x, y, z, out) }
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return run;
        }
    }
    f!(f32, f32, f32 => f32; |a, b, c| canonical(a.mul_add(b, c)))
}

/// Canonical NaN of PTX's float instructions.
pub(super) const NAN: f32 = f32::from_bits(0x7fff_ffff);

/// NaN results are canonical, whatever NaN went in.
#[inline(always)]
pub(super) fn canonical(value: f32) -> f32 {
    if value.is_nan() { NAN } else { value }
}

/// `min`: the number where one operand is NaN; −0 below +0.
#[inline(always)]
pub(super) fn min_f32(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => NAN,
        (true, false) => b,
        (false, true) => a,
        _ if a == b => f32::from_bits(a.to_bits() | b.to_bits() & 0x8000_0000),
        _ => a.min(b),
    }
}

/// `max`: the number where one operand is NaN; +0 above −0.
#[inline(always)]
pub(super) fn max_f32(a: f32, b: f32) -> f32 {
    if a.is_nan() && b.is_nan() { NAN } else { -min_f32(-a, -b) }
}

/// `min` of doubles, as [`min_f32`].
#[inline(always)]
pub(super) fn min_f64(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        return if a.is_nan() { quiet(b) } else { a };
    }
    if a == b { f64::from_bits(a.to_bits() | b.to_bits() & (1 << 63)) } else { a.min(b) }
}

/// `max` of doubles.
#[inline(always)]
pub(super) fn max_f64(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { min_f64(a, b) } else { -min_f64(-a, -b) }
}

/// `.sat`: within [0, 1]; NaN and −0 become +0. By comparisons, since `f32::max` may give either of two zeros.
#[inline(always)]
pub(super) fn saturated_f32(value: f32) -> f32 {
    if value >= 1.0 {
        1.0
    } else if value > 0.0 {
        value
    } else {
        0.0
    }
}

/// `.sat` of a double, as [`saturated_f32`].
#[inline(always)]
pub(super) fn saturated_f64(value: f64) -> f64 {
    if value >= 1.0 {
        1.0
    } else if value > 0.0 {
        value
    } else {
        0.0
    }
}

/// A double, a signalling NaN made quiet: doubles keep their NaNs, as singles do not.
#[inline(always)]
pub(super) fn quiet(value: f64) -> f64 {
    if value.is_nan() { f64::from_bits(value.to_bits() | 1 << 51) } else { value }
}

/// a − b of doubles: of two NaNs it is the second.
#[inline(always)]
pub(super) fn subtract_f64(a: f64, b: f64) -> f64 {
    if b.is_nan() { quiet(b) } else { a - b }
}

/// a + b of doubles: of two NaNs it is the second.
#[inline(always)]
pub(super) fn add_f64(a: f64, b: f64) -> f64 {
    if b.is_nan() { quiet(b) } else { a + b }
}

/// a·b of doubles: of two NaNs it is the second.
#[inline(always)]
pub(super) fn multiply_f64(a: f64, b: f64) -> f64 {
    if b.is_nan() { quiet(b) } else { a * b }
}

/// a·b + c of doubles: of NaNs it is the addend, if that is one.
#[inline(always)]
pub(super) fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    if b.is_nan() {
        quiet(b)
    } else if c.is_nan() {
        quiet(c)
    } else {
        a.mul_add(b, c)
    }
}

/// The product of singles that flushes: one whose exact value is under the smallest normal number is zero, though
/// rounding would have made it that.
#[inline(always)]
pub(super) fn multiply_flushing(a: f32, b: f32) -> f32 {
    let exact = f64::from(a) * f64::from(b);
    if exact.abs() < f64::from(f32::MIN_POSITIVE) { 0.0_f32.copysign(exact as f32) } else { canonical(a * b) }
}

/// `rsqrt`: −0 gives −∞, as IEEE's recommendation and the hardware have it.
#[inline(always)]
pub(super) fn rsqrt_f32(a: f32) -> f32 {
    if a == 0.0 { f32::INFINITY.copysign(a) } else { canonical((1.0 / f64::from(a).sqrt()) as f32) }
}

/// Reverses the order of a pair's halves or applies `op` to each.
pub(super) fn pair<T: Copy>(a: [T; 2], b: [T; 2], op: impl Fn(T, T) -> T) -> [T; 2] {
    [op(a[0], b[0]), op(a[1], b[1])]
}

/// One rounding of a fused multiply-add in half precision: exact in f64 (22-bit products, 40-bit exponents apart at most
/// round to odd first).
pub(super) fn fma_f16(a: f16, b: f16, c: f16) -> f16 {
    half_from_f64(round_to_odd_fma(a.to_f64(), b.to_f64(), c.to_f64()))
}

/// As [`fma_f16`] in bfloat16.
pub(super) fn fma_bf16(a: bf16, b: bf16, c: bf16) -> bf16 {
    bfloat_from_f64(round_to_odd_fma(a.to_f64(), b.to_f64(), c.to_f64()))
}

/// `value` to half precision; NaN is PTX's, 0x7fff.
pub(super) fn half_from_f32(value: f32) -> f16 {
    if value.is_nan() { f16::from_bits(0x7fff) } else { f16::from_f32(value) }
}

/// As [`half_from_f32`] to bfloat16.
pub(super) fn bfloat_from_f32(value: f32) -> bf16 {
    if value.is_nan() { bf16::from_bits(0x7fff) } else { bf16::from_f32(value) }
}

/// `value` to half precision, rounded once. (The library goes through `f32`, which rounds twice.)
pub(super) fn half_from_f64(value: f64) -> f16 {
    half_from_f32(round_to_odd(value))
}

/// As [`half_from_f64`] to bfloat16.
pub(super) fn bfloat_from_f64(value: f64) -> bf16 {
    bfloat_from_f32(round_to_odd(value))
}

/// `value` as an `f32` whose last bit tells whether it is exact: rounding that to a shorter format is right.
fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if !nearest.is_finite() || f64::from(nearest) == value {
        return nearest;
    }
    let grew = f64::from(nearest).abs() > value.abs();
    f32::from_bits((nearest.to_bits() - u32::from(grew)) | 1)
}

/// a·b + c in f64, rounded to odd where it is not exact, so that rounding it again to a much shorter format is right.
fn round_to_odd_fma(a: f64, b: f64, c: f64) -> f64 {
    // The product of two 11-bit significands is exact.
    let product = a * b;
    let sum = product + c;
    if !sum.is_finite() || sum == 0.0 {
        return sum;
    }
    // Knuth's two-sum gives the error of the addition.
    let virtual_c = sum - product;
    let error = (product - (sum - virtual_c)) + (c - virtual_c);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // Even and inexact: the neighbour towards the true value is odd.
    let towards_zero = (error < 0.0) == (sum > 0.0);
    f64::from_bits(if towards_zero { sum.to_bits() - 1 } else { sum.to_bits() + 1 })
}

/// Where a field starts and its length: the low eight bits of the operands. The hardware takes those of the 64-bit forms,
/// which it has not and which are made of others, whole.
fn field_bits(start: u32, length: u32, bits: u32) -> (u32, u32) {
    if bits == 64 { (start, length) } else { (start & 0xff, length & 0xff) }
}

/// `bfe`: `length` bits of `value` from bit `start`; `bits` is the width. The sign bit fills where `signed`.
pub(super) fn extract(value: u64, start: u32, length: u32, bits: u32, signed: bool) -> u64 {
    let (start, length) = field_bits(start, length, bits);
    let sign = |at: u32| signed && value >> at.min(bits - 1) & 1 == 1;
    let field = if start >= bits { 0 } else { value >> start };
    if length == 0 {
        return 0;
    }
    let top = start.saturating_add(length - 1).min(bits - 1);
    let taken = length.min(bits.saturating_sub(start));
    let mask = if taken >= 64 { u64::MAX } else { (1 << taken) - 1 };
    let fill = if sign(top) { !mask } else { 0 };
    (field & mask | fill) & if bits == 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// `bfi`: `base` with the low `length` bits of `field` put at bit `start`.
pub(super) fn insert(field: u64, base: u64, start: u32, length: u32, bits: u32) -> u64 {
    let (start, length) = field_bits(start, length, bits);
    if length == 0 || start >= bits {
        return base;
    }
    let taken = length.min(bits - start);
    let mask = if taken >= 64 { u64::MAX } else { (1 << taken) - 1 } << start;
    base & !mask | field << start & mask
}

/// `prmt` in its default mode: four selectors of a byte among eight; bit 3 of a selector replicates the byte's sign.
pub(super) fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(a) | u64::from(b) << 32;
    (0..4).fold(0, |word, place| {
        let select = selector >> (4 * place) & 0xf;
        let byte = (bytes >> (8 * (select & 7))) as u8;
        let byte = if select & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 };
        word | u32::from(byte) << (8 * place)
    })
}

/// `lop3` on all lanes; the table is a constant register.
pub(super) fn lop3_lanes(a: &Lanes32, b: &Lanes32, c: &Lanes32, table: &Lanes32, out: &mut Lanes32) {
    for lane in 0..LANES {
        out[lane] = lop3(a[lane], b[lane], c[lane], table[lane]);
    }
}

/// `bfi.b32` on all lanes.
pub(super) fn insert_lanes(a: &Lanes32, b: &Lanes32, start: &Lanes32, length: &Lanes32, out: &mut Lanes32) {
    for lane in 0..LANES {
        out[lane] = insert(a[lane].into(), b[lane].into(), start[lane], length[lane], 32) as u32;
    }
}

/// `lop3`: any function of three bits, by its table.
fn lop3(a: u32, b: u32, c: u32, table: u32) -> u32 {
    (0..8).filter(|row| table >> row & 1 == 1).fold(0, |word, row| {
        let pick = |value: u32, bit: u32| if row >> bit & 1 == 1 { value } else { !value };
        word | pick(a, 2) & pick(b, 1) & pick(c, 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        assert_eq!(extract(0xabcd, 4, 8, 32, false), 0xbc);
        assert_eq!(extract(0xabcd, 4, 8, 32, true), 0xffff_ffbc);
        assert_eq!(extract(0x8000_0000, 31, 5, 32, true), 0xffff_ffff);
        assert_eq!(extract(0x8000_0000, 40, 5, 32, true), 0xffff_ffff);
        assert_eq!(extract(0x8000_0000, 40, 5, 32, false), 0);
        assert_eq!(extract(u64::MAX, 0, 64, 64, false), u64::MAX);
        assert_eq!(insert(0xff, 0, 4, 4, 32), 0xf0);
        assert_eq!(insert(0xff, 0x1234_5678, 28, 8, 32) & 0xffff_ffff, 0xf234_5678);
        assert_eq!(insert(1, 7, 32, 8, 32), 7);
    }

    #[test]
    fn permutes_and_tables() {
        assert_eq!(permute(0x3322_1100, 0x7766_5544, 0x7410), 0x7744_1100);
        assert_eq!(permute(0x0000_0080, 0, 0x8), 0x8080_80ff);
        assert_eq!(lop3(0xf0, 0xcc, 0xaa, 0x80), 0x80);
        assert_eq!(lop3(1, 2, 4, 0x96), 7);
    }

    #[test]
    fn extremes() {
        assert_eq!(min_f32(f32::NAN, 1.0), 1.0);
        assert!(min_f32(0.0, -0.0).is_sign_negative() && max_f32(-0.0, 0.0).is_sign_positive());
        assert_eq!(rsqrt_f32(-0.0), f32::NEG_INFINITY);
        assert!(rsqrt_f32(-1.0).is_nan());
        assert_eq!(rsqrt_f32(f32::INFINITY), 0.0);
    }

    #[test]
    fn half_fma_rounds_once() {
        // 1 + 2^-11 is halfway between two halves; a tiny addend decides.
        let one = f16::from_f32(1.0);
        let half_step = f16::from_f32(2.0_f32.powi(-11));
        let tiny = f16::from_f32(2.0_f32.powi(-24));
        assert_eq!(fma_f16(one, half_step, one), one);
        let above = half_from_f64(round_to_odd_fma(1.0, 2.0_f64.powi(-11) + 2.0_f64.powi(-24), 1.0));
        assert_eq!(above.to_bits(), one.to_bits() + 1);
        assert_eq!(fma_f16(tiny, tiny, one), one);
    }
}
