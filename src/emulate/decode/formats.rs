//! The functions of `cvt` between formats of floats, and from integers to floats.

use half::{bf16, f16};

use super::words::Ty;
use crate::emulate::alu::{Alu, bfloat_from_f64, canonical, f, half_from_f32, half_from_f64, quiet, saturated_f64};
use crate::emulate::halves::{Half, finite, half_of, rectified, same, saturated};
use crate::emulate::rounding::{Rounding, convert, convert_integer, modes};
use crate::emulate::tensor::Element;

/// What `cvt` does to a result.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct After {
    pub relu: bool,
    pub sat: bool,
    pub satfinite: bool,
}

impl After {
    pub const NOTHING: After = After { relu: false, sat: false, satfinite: false };
}

/// `afters!(after, H; A => expression)`: the expression with `A` as a constant function of halves.
macro_rules! afters {
    ($after:expr, $H:ty; $A:ident => $make:expr) => {
        match ($after.relu, $after.sat, $after.satfinite) {
            (false, false, false) => {
                const $A: fn($H) -> $H = same::<$H>;
                $make
            }
            (true, false, false) => {
                const $A: fn($H) -> $H = rectified::<$H>;
                $make
            }
            (false, true, false) => {
                const $A: fn($H) -> $H = saturated::<$H>;
                $make
            }
            (false, false, true) => {
                const $A: fn($H) -> $H = finite::<$H>;
                $make
            }
            (true, false, true) => {
                const $A: fn($H) -> $H = |half| rectified(finite(half));
                $make
            }
            _ => None,
        }
    };
}

/// Rounds an `f32`'s bits to tf32 (10 bits of significand) to nearest, ties away from zero.
/// Beyond the largest there is infinity; saturated, what the hardware makes of it and of NaN: one step less.
fn tf32_away(value: f32, saturates: bool) -> u32 {
    let bits = value.to_bits();
    let rounded = if value.is_finite() { bits.wrapping_add(0x1000) } else { bits } & !0x1fff;
    if saturates && rounded & 0x7f80_0000 == 0x7f80_0000 { rounded - 0x2000 } else { rounded }
}

/// As [`tf32_away`] to the nearest even or towards zero. NaN is PTX's.
fn tf32(value: f32, mode: Rounding, relu: bool, saturates: bool) -> u32 {
    if value.is_nan() {
        return 0x7fff_ffff & !0x1fff;
    }
    if relu && value.is_sign_negative() {
        return 0;
    }
    let bits = value.to_bits();
    let up = if mode == Rounding::Nearest && value.is_finite() { 0xfff + (bits >> 13 & 1) } else { 0 };
    let rounded = (bits + up) & !0x1fff;
    if saturates && rounded & 0x7f80_0000 == 0x7f80_0000 { rounded - 0x2000 } else { rounded }
}

/// `f32` to a narrow float by its exponent bits, significand bits and largest value, to nearest even, saturating; NaN is
/// all ones.
fn narrow_float(value: f32, exponent_bits: u32, significand_bits: u32, largest: f64) -> u8 {
    let sign = if value.is_sign_negative() { 1 << (exponent_bits + significand_bits) } else { 0 };
    if value.is_nan() {
        return (1 << (exponent_bits + significand_bits)) - 1;
    }
    let magnitude = f64::from(value).abs().min(largest);
    let bias = (1_i32 << (exponent_bits - 1)) - 1;
    if magnitude == 0.0 {
        return sign;
    }
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(1 - bias);
    let step = 2.0_f64.powi(exponent - significand_bits as i32);
    let rounded = ((magnitude / step).round_ties_even() * step).min(largest);
    let exponent = ((rounded.to_bits() >> 52) as i32 - 1023).max(1 - bias);
    let scaled = (rounded / 2.0_f64.powi(exponent - significand_bits as i32)) as u32;
    let hidden = 1 << significand_bits;
    let code =
        if scaled < hidden { scaled } else { ((exponent + bias) as u32) << significand_bits | (scaled - hidden) };
    sign | code as u8
}

/// `e4m3`: 4 exponent bits, largest 448.
fn e4m3(value: f32) -> u8 {
    narrow_float(value, 4, 3, 448.0)
}

/// `e5m2`: 5 exponent bits, largest 57344.
fn e5m2(value: f32) -> u8 {
    narrow_float(value, 5, 2, 57344.0)
}

/// A single without what `.relu` takes away.
fn not_negative(value: f32) -> f32 {
    if value.is_sign_negative() && !value.is_nan() { 0.0 } else { value }
}

/// Two singles to a pair, the first operand to the high half; or a pair of halves to narrow floats.
pub(super) fn pair_alu(to: Ty, from: Ty, mode: &str, after: After) -> Option<Alu> {
    macro_rules! to_halves {
        ($H:ty) => {
            afters!(after, $H; A => modes!(mode; M => {
                Alu::F2(f!(f32, f32 => [$H; 2]; |a, b| [A(half_of(b, M)), A(half_of(a, M))]))
            }))
        };
    }
    macro_rules! to_bytes {
        ($narrow:ident) => {
            match (from, after.relu) {
                (Ty::F32, false) => {
                    Some(Alu::F2(f!(f32, f32 => u16; |a, b| u16::from_le_bytes([$narrow(b), $narrow(a)]))))
                }
                (Ty::F32, true) => Some(Alu::F2(f!(f32, f32 => u16; |a, b|
                    u16::from_le_bytes([$narrow(not_negative(b)), $narrow(not_negative(a))])))),
                (Ty::F16x2, false) => {
                    Some(Alu::F1(f!([f16; 2] => u16; |a| u16::from_le_bytes(a.map(|half| $narrow(half.to_f32()))))))
                }
                (Ty::F16x2, true) => Some(Alu::F1(f!([f16; 2] => u16; |a|
                    u16::from_le_bytes(a.map(|half| $narrow(not_negative(half.to_f32()))))))),
                _ => None,
            }
        };
    }
    match (to, from, mode, after.satfinite) {
        (Ty::F16x2, Ty::F32, ..) if !after.sat => to_halves!(f16),
        (Ty::Bf16x2, Ty::F32, ..) if !after.sat => to_halves!(bf16),
        (Ty::E4m3x2, _, "rn", true) if !after.sat => to_bytes!(e4m3),
        (Ty::E5m2x2, _, "rn", true) if !after.sat => to_bytes!(e5m2),
        _ => None,
    }
}

/// A double's NaN in a shorter format, with the upper bits of its payload.
fn nan_of<H: Half>(value: f64, significand: u32) -> H {
    let bits = value.to_bits();
    let payload = (bits & ((1 << 52) - 1)) >> (52 - significand);
    H::from_code((bits >> 48) as u16 & 0x8000 | H::INFINITY | 1 << (significand - 1) | payload as u16)
}

/// A double in a half's format; NaN keeps what fits of it.
#[inline(always)]
fn half_of_double<H: Half>(value: f64, significand: u32, mode: Rounding) -> H {
    match mode {
        _ if value.is_nan() => nan_of(value, significand),
        Rounding::Nearest => H::nearest_of_double(value),
        _ => convert(value, H::nearest_of_double(value), mode),
    }
}

/// Two narrow floats to two halves, which hold all their values.
pub(super) fn widen_pair(from: Ty, relu: bool) -> Alu {
    fn halves(word: u16, element: Element) -> [f16; 2] {
        [0, 1].map(|place| half_from_f32(element.value(word.into(), place)))
    }
    Alu::F1(match (from, relu) {
        (Ty::E4m3x2, false) => f!(u16 => [f16; 2]; |a| halves(a, Element::E4m3)),
        (Ty::E4m3x2, true) => f!(u16 => [f16; 2]; |a| halves(a, Element::E4m3).map(rectified)),
        (_, false) => f!(u16 => [f16; 2]; |a| halves(a, Element::E5m2)),
        (_, true) => f!(u16 => [f16; 2]; |a| halves(a, Element::E5m2).map(rectified)),
    })
}

pub(super) fn integer_to_float(to: Ty, from: Ty, mode: &str) -> Option<Alu> {
    macro_rules! row {
        ($from:ty, $narrow:ident, $wide:ident) => {
            match (to, mode) {
                (Ty::F32, "rn") => Some(Alu::$narrow(f!($from => f32; |a| a as f32))),
                (Ty::F64, "rn") => Some(Alu::$wide(f!($from => f64; |a| a as f64))),
                // Integers of up to 32 bits are exact in f64, from which a half is rounded once.
                (Ty::F16, "rn") if from.bits() <= 32 => {
                    Some(Alu::$narrow(f!($from => f16; |a| half_from_f64(a as f64))))
                }
                (Ty::Bf16, "rn") if from.bits() <= 32 => {
                    Some(Alu::$narrow(f!($from => bf16; |a| bfloat_from_f64(a as f64))))
                }
                (Ty::F16, mode) => modes!(mode; M => {
                    Alu::$narrow(f!($from => f16; |a| convert_integer(i128::from(a), M)))
                }),
                (Ty::Bf16, mode) => modes!(mode; M => {
                    Alu::$narrow(f!($from => bf16; |a| convert_integer(i128::from(a), M)))
                }),
                (Ty::F32, mode) => modes!(mode; M => {
                    Alu::$narrow(f!($from => f32; |a| convert_integer(i128::from(a), M)))
                }),
                (Ty::F64, mode) => modes!(mode; M => {
                    Alu::$wide(f!($from => f64; |a| convert_integer(i128::from(a), M)))
                }),
                _ => None,
            }
        };
    }
    match from {
        Ty::U(8) => row!(u8, F1, G1),
        Ty::S(8) => row!(i8, F1, G1),
        Ty::U(16) => row!(u16, F1, G1),
        Ty::S(16) => row!(i16, F1, G1),
        Ty::U(32) => row!(u32, F1, G1),
        Ty::S(32) => row!(i32, F1, G1),
        Ty::U(64) => row!(u64, K1, W1),
        Ty::S(64) => row!(i64, K1, W1),
        _ => None,
    }
}

/// To tf32, from single precision.
pub(super) fn to_tf32(mode: &str, after: After) -> Option<Alu> {
    macro_rules! form {
        ($mode:ident, $relu:expr, $saturates:expr) => {
            Some(Alu::F1(f!(f32 => u32; |a| tf32(a, Rounding::$mode, $relu, $saturates))))
        };
    }
    match (mode, after.relu, after.satfinite) {
        _ if after.sat => None,
        ("rna", false, false) => Some(Alu::F1(f!(f32 => u32; |a| tf32_away(a, false)))),
        ("rna", false, true) => Some(Alu::F1(f!(f32 => u32; |a| tf32_away(a, true)))),
        ("rn", false, false) => form!(Nearest, false, false),
        ("rn", true, false) => form!(Nearest, true, false),
        ("rn", false, true) => form!(Nearest, false, true),
        ("rn", true, true) => form!(Nearest, true, true),
        ("rz", false, false) => form!(Zero, false, false),
        ("rz", true, false) => form!(Zero, true, false),
        ("rz", false, true) => form!(Zero, false, true),
        ("rz", true, true) => form!(Zero, true, true),
        _ => None,
    }
}

/// To a half's format.
fn to_half(to: Ty, from: Ty, mode: Option<&str>, after: After) -> Option<Alu> {
    macro_rules! integral {
        ($H:ty) => {
            match mode? {
                "rni" => Some(Alu::F1(f!($H => $H; |a| half_of(a.single().round_ties_even(), Rounding::Nearest)))),
                "rzi" => Some(Alu::F1(f!($H => $H; |a| half_of(a.single().trunc(), Rounding::Nearest)))),
                "rmi" => Some(Alu::F1(f!($H => $H; |a| half_of(a.single().floor(), Rounding::Nearest)))),
                "rpi" => Some(Alu::F1(f!($H => $H; |a| half_of(a.single().ceil(), Rounding::Nearest)))),
                _ => None,
            }
        };
    }
    macro_rules! rounded {
        ($H:ty, $variant:ident, $from:ty; |$a:ident, $M:ident| $half:expr) => {
            // Without a rounding: to nearest, as ptxas takes it (Triton writes it where the value fits).
            afters!(after, $H; A => modes!(mode.unwrap_or("rn"); $M => Alu::$variant(f!($from => $H; |$a| A($half)))))
        };
    }
    match (to, from) {
        (Ty::F16, Ty::F16) if after == After::NOTHING => integral!(f16),
        (Ty::Bf16, Ty::Bf16) if after == After::NOTHING => integral!(bf16),
        (Ty::F16, Ty::F32) => rounded!(f16, F1, f32; |a, M| half_of(a, M)),
        (Ty::Bf16, Ty::F32) => rounded!(bf16, F1, f32; |a, M| half_of(a, M)),
        (Ty::F16, Ty::Bf16) => rounded!(f16, F1, bf16; |a, M| half_of(a.to_f32(), M)),
        (Ty::Bf16, Ty::F16) => rounded!(bf16, F1, f16; |a, M| half_of(a.to_f32(), M)),
        (Ty::F16, Ty::F64) => rounded!(f16, K1, f64; |a, M| half_of_double(a, 10, M)),
        (Ty::Bf16, Ty::F64) => rounded!(bf16, K1, f64; |a, M| half_of_double(a, 7, M)),
        _ => None,
    }
}

/// Between formats of floats. `.sat` of results that are singles is left to the caller.
pub(super) fn float_to_float(to: Ty, from: Ty, mode: Option<&str>, after: After) -> Option<Alu> {
    if matches!(to, Ty::F16 | Ty::Bf16) {
        return to_half(to, from, mode, after);
    }
    if after.relu || after.satfinite {
        return None;
    }
    macro_rules! saturating {
        ($variant:ident, $from:ty; |$a:ident| $double:expr) => {
            if after.sat {
                Alu::$variant(f!($from => f64; |$a| saturated_f64($double)))
            } else {
                Alu::$variant(f!($from => f64; |$a| $double))
            }
        };
    }
    Some(match (from, to, mode) {
        (Ty::F16, Ty::F32, None) => Alu::F1(f!(f16 => f32; |a| canonical(a.to_f32()))),
        // NaN keeps its bits, unlike that of halves.
        (Ty::Bf16, Ty::F32, None) => Alu::F1(f!(u16 => u32; |a| u32::from(a) << 16)),
        (Ty::F16, Ty::F64, None) => saturating!(G1, f16; |a| a.to_f64()),
        (Ty::Bf16, Ty::F64, None) => saturating!(G1, bf16; |a| a.to_f64()),
        (Ty::F32, Ty::F64, None) => saturating!(G1, f32; |a| f64::from(a)),
        (Ty::F64, Ty::F32, Some("rn")) => Alu::K1(f!(f64 => f32; |a| quiet(a) as f32)),
        (Ty::F64, Ty::F32, Some(mode)) => {
            return modes!(mode; M => Alu::K1(f!(f64 => f32; |a| convert(a, quiet(a) as f32, M))));
        }
        (Ty::F32, Ty::F32, Some("rni")) => Alu::F1(f!(f32 => f32; |a| canonical(a.round_ties_even()))),
        (Ty::F32, Ty::F32, Some("rzi")) => Alu::F1(f!(f32 => f32; |a| canonical(a.trunc()))),
        (Ty::F32, Ty::F32, Some("rmi")) => Alu::F1(f!(f32 => f32; |a| canonical(a.floor()))),
        (Ty::F32, Ty::F32, Some("rpi")) => Alu::F1(f!(f32 => f32; |a| canonical(a.ceil()))),
        (Ty::F32, Ty::F32, None) => Alu::F1(f!(f32 => f32; |a| canonical(a))),
        (Ty::F64, Ty::F64, Some("rni")) => saturating!(W1, f64; |a| quiet(a.round_ties_even())),
        (Ty::F64, Ty::F64, Some("rzi")) => saturating!(W1, f64; |a| quiet(a.trunc())),
        (Ty::F64, Ty::F64, Some("rmi")) => saturating!(W1, f64; |a| quiet(a.floor())),
        (Ty::F64, Ty::F64, Some("rpi")) => saturating!(W1, f64; |a| quiet(a.ceil())),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_floats() {
        assert_eq!(e4m3(1.0), 0x38);
        assert_eq!(e4m3(-448.0), 0xfe);
        assert_eq!(e4m3(1e9), 0x7e);
        assert_eq!(e4m3(2.0_f32.powi(-9)), 0x01);
        assert_eq!(e4m3(2.0_f32.powi(-10)), 0x00);
        assert_eq!(e4m3(1.0625), 0x38);
        assert_eq!(e4m3(1.1875), 0x3a);
        assert_eq!(e4m3(f32::NAN), 0x7f);
        assert_eq!(e5m2(57344.0), 0x7b);
        assert_eq!(e5m2(1.0), 0x3c);
        assert_eq!(e5m2(-0.0), 0x80);
    }

    #[test]
    fn tf32_rounds() {
        assert_eq!(tf32_away(f32::from_bits(0x3f80_1000), false), 0x3f80_2000);
        assert_eq!(tf32_away(f32::from_bits(0x3f80_0fff), false), 0x3f80_0000);
        assert_eq!(tf32_away(f32::INFINITY, false), f32::INFINITY.to_bits());
        assert_eq!(tf32_away(f32::MAX, true), 0x7f7f_e000);
        assert_eq!(tf32(f32::from_bits(0x3f80_1000), Rounding::Nearest, false, false), 0x3f80_0000);
        assert_eq!(tf32(f32::from_bits(0x3f80_3000), Rounding::Nearest, false, false), 0x3f80_4000);
        assert_eq!(tf32(f32::from_bits(0x3f80_3fff), Rounding::Zero, false, false), 0x3f80_2000);
        assert_eq!(tf32(-1.0, Rounding::Zero, true, false), 0);
    }
}
