//! Floats of 16 bits and what modifiers do to them.

use half::{bf16, f16};

use super::alu::{bfloat_from_f32, bfloat_from_f64, fma_bf16, fma_f16, half_from_f32, half_from_f64, max_f32, min_f32};
use super::lanes::Lane;
use super::rounding::{Real, Rounding, convert};

/// A float of 16 bits.
pub(super) trait Half: Lane<Word = u32> + Real {
    /// The code of infinity.
    const INFINITY: u16;
    const LEAST_NORMAL: f32;
    fn code(self) -> u16;
    fn single(self) -> f32;
    fn nearest(value: f32) -> Self;
    fn nearest_of_double(value: f64) -> Self;
    fn fused(a: Self, b: Self, c: Self) -> Self;

    fn from_code(code: u16) -> Self {
        Self::of_code(code.into())
    }

    fn is_nan(self) -> bool {
        self.code() & 0x7fff > Self::INFINITY
    }
}

impl Half for f16 {
    const INFINITY: u16 = 0x7c00;
    const LEAST_NORMAL: f32 = f16::MIN_POSITIVE.to_f32_const();
    fn code(self) -> u16 {
        self.to_bits()
    }
    fn single(self) -> f32 {
        self.to_f32()
    }
    fn nearest(value: f32) -> Self {
        half_from_f32(value)
    }
    fn nearest_of_double(value: f64) -> Self {
        half_from_f64(value)
    }
    fn fused(a: Self, b: Self, c: Self) -> Self {
        fma_f16(a, b, c)
    }
}

impl Half for bf16 {
    const INFINITY: u16 = 0x7f80;
    const LEAST_NORMAL: f32 = f32::MIN_POSITIVE;
    fn code(self) -> u16 {
        self.to_bits()
    }
    fn single(self) -> f32 {
        self.to_f32()
    }
    fn nearest(value: f32) -> Self {
        bfloat_from_f32(value)
    }
    fn nearest_of_double(value: f64) -> Self {
        bfloat_from_f64(value)
    }
    fn fused(a: Self, b: Self, c: Self) -> Self {
        fma_bf16(a, b, c)
    }
}

/// PTX's NaN of both formats.
pub(super) const NAN: u16 = 0x7fff;

/// A single in a half's format; NaN is PTX's.
#[inline(always)]
pub(super) fn half_of<H: Half>(value: f32, mode: Rounding) -> H {
    match mode {
        Rounding::Nearest => H::nearest(value),
        _ => convert(value.into(), H::nearest(value), mode),
    }
}

/// As it is.
#[inline(always)]
pub(super) fn same<H>(value: H) -> H {
    value
}

/// `.relu`: nothing below zero; NaN is PTX's.
#[inline(always)]
pub(super) fn rectified<H: Half>(value: H) -> H {
    H::from_code(match value.code() {
        _ if value.is_nan() => NAN,
        code if code & 0x8000 != 0 => 0,
        code => code,
    })
}

/// `.sat`: from 0 to 1; NaN is zero.
#[inline(always)]
pub(super) fn saturated<H: Half>(value: H) -> H {
    match value.single() {
        single if single >= 1.0 => H::nearest(1.0),
        single if single > 0.0 => value,
        _ => H::from_code(0),
    }
}

/// `.satfinite`: the largest number instead of infinity; NaN is PTX's.
#[inline(always)]
pub(super) fn finite<H: Half>(value: H) -> H {
    let code = value.code();
    H::from_code(if value.is_nan() { NAN } else { code - u16::from(code & 0x7fff == H::INFINITY) })
}

/// `.ftz`: a subnormal is a zero of its sign.
#[inline(always)]
pub(super) fn flushed<H: Half>(value: H) -> H {
    let code = value.code();
    H::from_code(if code & H::INFINITY == 0 { code & 0x8000 } else { code })
}

/// One half or two in a word.
pub(super) trait Halves: Lane<Word = u32> {
    type Part: Half;
    fn each<const N: usize>(operands: [Self; N], function: impl Fn([Self::Part; N]) -> Self::Part) -> Self;
}

impl<H: Half> Halves for H {
    type Part = H;
    #[inline(always)]
    fn each<const N: usize>(operands: [Self; N], function: impl Fn([H; N]) -> H) -> Self {
        function(operands)
    }
}

impl<H: Half> Halves for [H; 2] {
    type Part = H;
    #[inline(always)]
    fn each<const N: usize>(operands: [Self; N], function: impl Fn([H; N]) -> H) -> Self {
        [function(operands.map(|operand| operand[0])), function(operands.map(|operand| operand[1]))]
    }
}

/// `.NaN` of `min` and `max`: one NaN makes the result NaN.
pub(super) const PASS_NAN: u8 = 1;
/// `.xorsign.abs`: the extreme of the magnitudes, with the product's sign.
pub(super) const XOR_SIGN: u8 = 2;

/// `min` or `max` with the modifiers `MODE`.
#[inline(always)]
pub(super) fn extreme<const MAX: bool, const MODE: u8>(a: f32, b: f32) -> f32 {
    let of = if MAX { max_f32 } else { min_f32 };
    let chosen = match MODE & XOR_SIGN {
        0 => of(a, b),
        _ => of(a.abs(), b.abs()),
    };
    if MODE & PASS_NAN != 0 && (a.is_nan() || b.is_nan()) || chosen.is_nan() {
        return f32::from_bits(0x7fff_ffff);
    }
    if MODE & XOR_SIGN == 0 { chosen } else { chosen.copysign(f32::from_bits(a.to_bits() ^ b.to_bits())) }
}
