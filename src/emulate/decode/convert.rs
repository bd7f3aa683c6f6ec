//! `mov`, `cvt` and `cvta`.

use half::{bf16, f16};

use super::words::{Ty, Words};
use super::{Decoder, Fault};
use crate::emulate::alu::{Alu, bfloat_from_f32, bfloat_from_f64, canonical, f, half_from_f32, half_from_f64, quiet};
use crate::emulate::program::{Flush, LOCAL_WINDOW, Op, PARAM_WINDOW, Reg, SHARED_WINDOW};
use crate::emulate::tensor::Element;
use crate::ptx::model::Operand;

/// Float to integer: rounded as `$round` says, clamped to the type. NaN is zero from at most 32 bits to at most 32, and the
/// highest bit alone otherwise.
macro_rules! to_integer {
    (@of $a:ident, $to:ty, $value:expr, $round:expr) => {{
        let value: f64 = $value($a);
        if value.is_nan() {
            if size_of_val(&$a) == 8 || size_of::<$to>() == 8 { (1_u64 << (<$to>::BITS - 1)) as $to } else { 0 }
        } else {
            $round(value) as $to
        }
    }};
    ($from:ty, $fn1:ident, $grow:ident, $to:expr, $value:expr, $round:expr) => {
        match $to {
            Ty::U(8) => Some(Alu::$fn1(f!($from => u8; |a| to_integer!(@of a, u8, $value, $round)))),
            Ty::S(8) => Some(Alu::$fn1(f!($from => i8; |a| to_integer!(@of a, i8, $value, $round)))),
            Ty::U(16) => Some(Alu::$fn1(f!($from => u16; |a| to_integer!(@of a, u16, $value, $round)))),
            Ty::S(16) => Some(Alu::$fn1(f!($from => i16; |a| to_integer!(@of a, i16, $value, $round)))),
            Ty::U(32) => Some(Alu::$fn1(f!($from => u32; |a| to_integer!(@of a, u32, $value, $round)))),
            Ty::S(32) => Some(Alu::$fn1(f!($from => i32; |a| to_integer!(@of a, i32, $value, $round)))),
            Ty::U(64) => Some(Alu::$grow(f!($from => u64; |a| to_integer!(@of a, u64, $value, $round)))),
            Ty::S(64) => Some(Alu::$grow(f!($from => i64; |a| to_integer!(@of a, i64, $value, $round)))),
            _ => None,
        }
    };
}

/// Every way to round to an integer.
macro_rules! rounded {
    ($from:ty, $fn1:ident, $grow:ident, $to:expr, $value:expr, $mode:expr) => {
        match $mode {
            "rni" => to_integer!($from, $fn1, $grow, $to, $value, f64::round_ties_even),
            "rzi" => to_integer!($from, $fn1, $grow, $to, $value, f64::trunc),
            "rmi" => to_integer!($from, $fn1, $grow, $to, $value, f64::floor),
            "rpi" => to_integer!($from, $fn1, $grow, $to, $value, f64::ceil),
            _ => None,
        }
    };
}

/// Rounds an `f32`'s bits to tf32 (10 bits of significand), to nearest, ties away from zero.
/// Beyond the largest there is infinity; saturated, what the hardware makes of it and of NaN: one step less.
fn round_tf32(value: f32, saturates: bool) -> u32 {
    let bits = value.to_bits();
    let rounded = if value.is_finite() { bits.wrapping_add(0x1000) } else { bits } & !0x1fff;
    if saturates && rounded & 0x7f80_0000 == 0x7f80_0000 { rounded - 0x2000 } else { rounded }
}

/// Cuts a float to a half-width format towards zero: `f` rounds to nearest, and a result that grew is stepped back.
fn f16_towards_zero(value: f32) -> f16 {
    if value.is_nan() {
        return half_from_f32(value);
    }
    let nearest = half_from_f32(value);
    if nearest.to_f32().abs() > value.abs() { f16::from_bits(nearest.to_bits() - 1) } else { nearest }
}

fn bf16_towards_zero(value: f32) -> bf16 {
    if value.is_nan() { bfloat_from_f32(value) } else { bf16::from_bits((value.to_bits() >> 16) as u16) }
}

/// `f32` to a narrow float by its exponent bits, significand bits and largest value, to nearest even, saturating; NaN is
/// all ones.
fn narrow_float(value: f32, exponent_bits: u32, significand_bits: u32, largest: f64) -> u8 {
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    if value.is_nan() {
        return 0x7f;
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
pub(super) fn e4m3(value: f32) -> u8 {
    narrow_float(value, 4, 3, 448.0)
}

/// `e5m2`: 5 exponent bits, largest 57344.
pub(super) fn e5m2(value: f32) -> u8 {
    narrow_float(value, 5, 2, 57344.0)
}

impl Decoder {
    pub(super) fn mov(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let ty = words.ty().map_err(|message| (self.span, message))?;
        let [dst, src] = self.exactly::<2>(operands)?;
        match (dst, src) {
            (Operand::Vector(parts), src) => self.unpack(parts, src, ty),
            (dst, Operand::Vector(parts)) => self.pack(dst, parts, ty),
            (dst, src) if ty == Ty::Pred => {
                let Some(dst) = self.predicate_dst(dst)? else { return Ok(Op::Nothing) };
                if let Operand::Immediate(value) = src {
                    let set = !matches!(value, crate::ptx::model::Immediate::Int(0));
                    return Ok(Op::SetConstant { dst, value: if set { u32::MAX } else { 0 } });
                }
                let src = self.predicate(src)?;
                Ok(Op::Logic { op: crate::emulate::program::Bool::And, dst, a: src, b: src })
            }
            (dst, Operand::Name(name))
                if matches!(name.as_str(), "%clock" | "%clock_hi" | "%clock64" | "%globaltimer") =>
            {
                match self.dst(dst, ty)? {
                    Some(dst) => Ok(Op::Clock { dst }),
                    None => Ok(Op::Nothing),
                }
            }
            (dst, src) if ty.bits() == 64 => {
                let src = self.wide(src, ty)?;
                Ok(Op::Move64 { dst: self.wide_dst(dst)?, src })
            }
            (dst, src) => {
                let src = self.narrow(src, ty)?;
                Ok(Op::Move32 { dst: self.narrow_dst(dst, ty.bits())?, src })
            }
        }
    }

    fn part_bits(&self, ty: Ty, parts: usize) -> Result<u32, Fault> {
        match (ty.bits(), parts) {
            (64, 2) => Ok(32),
            (64, 4) | (32, 2) => Ok(16),
            (32, 4) | (16, 2) => Ok(8),
            (64, 8) => Ok(8),
            (bits, parts) => self.refuse(format!("{bits} bits do not split into {parts} parts")),
        }
    }

    fn pack(&mut self, dst: &Operand, parts: &[Operand], ty: Ty) -> Result<Op, Fault> {
        let bits = self.part_bits(ty, parts.len())?;
        let parts = parts.iter().map(|part| self.src(part, Ty::B(bits))).collect::<Result<_, _>>()?;
        match self.dst(dst, ty)? {
            Some(dst) => Ok(Op::Pack { dst, parts, bits }),
            None => Ok(Op::Nothing),
        }
    }

    fn unpack(&mut self, parts: &[Operand], src: &Operand, ty: Ty) -> Result<Op, Fault> {
        let bits = self.part_bits(ty, parts.len())?;
        let src = self.src(src, ty)?;
        let parts = parts.iter().map(|part| self.dst(part, Ty::B(bits))).collect::<Result<_, _>>()?;
        Ok(Op::Unpack { parts, src, bits })
    }

    pub(super) fn cvt(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let ftz = words.take("ftz");
        let sat = words.take("sat");
        let satfinite = words.take("satfinite");
        let relu = words.take("relu");
        let mode = words.one_of(&["rni", "rzi", "rmi", "rpi", "rn", "rz", "rm", "rp", "rna"]);
        let to = words.ty().map_err(|message| (self.span, message))?;
        let unknown = format!("the emulator does not know `{}`", words.mnemonic());
        let from = match words.ty() {
            Ok(from) => from,
            Err(message) => return self.refuse(message),
        };
        // Saturation to [0, 1] is done on f32 results alone.
        if relu || sat && matches!(to, Ty::F16 | Ty::Bf16 | Ty::F64) {
            return self.refuse(unknown);
        }
        let alu = match (to, operands.len()) {
            (Ty::F16x2 | Ty::Bf16x2 | Ty::E4m3x2 | Ty::E5m2x2, 3) if from == Ty::F32 && !sat => {
                pair_alu(to, mode, satfinite)
            }
            (Ty::Tf32, 2) if from == Ty::F32 && mode == Some("rna") => Some(Alu::F1(if satfinite {
                f!(f32 => u32; |a| round_tf32(a, true))
            } else {
                f!(f32 => u32; |a| round_tf32(a, false))
            })),
            (Ty::F16x2, 2) if matches!(from, Ty::E4m3x2 | Ty::E5m2x2) && mode == Some("rn") && !sat => {
                Some(widen_pair(from))
            }
            (_, 2) if !satfinite => convert_alu(to, from, mode, sat),
            _ => None,
        };
        let Some(alu) = alu else { return self.refuse(unknown) };
        let mut src = [0; 4];
        for (place, operand) in operands[1..].iter().enumerate() {
            src[place] = match self.src(operand, from)? {
                Reg::R32(slot) => slot,
                Reg::R64(slot) if from.bits() == 64 => slot,
                _ => return self.refuse("the source is wider than its type"),
            };
        }
        let dst =
            if to.bits() == 64 { self.wide_dst(&operands[0])? } else { self.narrow_dst(&operands[0], to.bits())? };
        // A single that is flushed on its way to a double loses its NaN, too.
        let alu = match (ftz, from, to) {
            (true, Ty::F32, Ty::F64) => Alu::G1(f!(f32 => f64; |a| f64::from(canonical(a)))),
            _ => alu,
        };
        // Flushing concerns f32 sources and results alone; saturation of floats is done on the result.
        let ftz = Flush { operands: ftz && from == Ty::F32, result: ftz && to == Ty::F32 };
        Ok(Op::Alu { alu, dst, src, ftz, sat: sat && to == Ty::F32 })
    }

    /// To and from generic addresses: an offset, since each space has its window.
    pub(super) fn cvta(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let to = words.take("to");
        let Some(space) = words.one_of(&["global", "shared", "shared::cta", "local", "const", "param"]) else {
            return self.refuse(format!("the emulator does not know `{}`", words.mnemonic()));
        };
        let ty = words.ty().map_err(|message| (self.span, message))?;
        if ty != Ty::U(64) {
            return self.refuse("addresses have 64 bits: expected `.u64`");
        }
        let [dst, src] = self.exactly::<2>(operands)?;
        let window = match space {
            "shared" | "shared::cta" => SHARED_WINDOW,
            "local" => LOCAL_WINDOW,
            "param" => PARAM_WINDOW,
            _ => 0,
        };
        let offset = self.constant64(if to { window.wrapping_neg() } else { window })?;
        let src = [self.wide(src, ty)?, offset, 0, 0];
        let alu = Alu::W2(f!(u64, u64 => u64; |a, b| a.wrapping_add(b)));
        Ok(Op::Alu { alu, dst: self.wide_dst(dst)?, src, ftz: Flush::NONE, sat: false })
    }
}

/// Two `f32` to a pair: the first operand goes to the high half.
fn pair_alu(to: Ty, mode: Option<&str>, satfinite: bool) -> Option<Alu> {
    Some(Alu::F2(match (to, mode, satfinite) {
        (Ty::F16x2, Some("rn"), false) => f!(f32, f32 => [f16; 2]; |a, b| [half_from_f32(b), half_from_f32(a)]),
        (Ty::F16x2, Some("rz"), false) => f!(f32, f32 => [f16; 2]; |a, b| [f16_towards_zero(b), f16_towards_zero(a)]),
        (Ty::Bf16x2, Some("rn"), false) => f!(f32, f32 => [bf16; 2]; |a, b| [bfloat_from_f32(b), bfloat_from_f32(a)]),
        (Ty::Bf16x2, Some("rz"), false) => {
            f!(f32, f32 => [bf16; 2]; |a, b| [bf16_towards_zero(b), bf16_towards_zero(a)])
        }
        (Ty::E4m3x2, Some("rn"), true) => f!(f32, f32 => u16; |a, b| u16::from_le_bytes([e4m3(b), e4m3(a)])),
        (Ty::E5m2x2, Some("rn"), true) => f!(f32, f32 => u16; |a, b| u16::from_le_bytes([e5m2(b), e5m2(a)])),
        _ => return None,
    }))
}

/// A double's NaN as a half's, with the upper bits of its payload.
fn nan_half(value: f64) -> f16 {
    let bits = value.to_bits();
    f16::from_bits((bits >> 48) as u16 & 0x8000 | 0x7e00 | (bits >> 42) as u16 & 0x1ff)
}

/// Two narrow floats to two halves, which hold all their values.
fn widen_pair(from: Ty) -> Alu {
    fn halves(word: u16, element: Element) -> [f16; 2] {
        [0, 1].map(|place| half_from_f32(element.value(word.into(), place)))
    }
    Alu::F1(if from == Ty::E4m3x2 {
        f!(u16 => [f16; 2]; |a| halves(a, Element::E4m3))
    } else {
        f!(u16 => [f16; 2]; |a| halves(a, Element::E5m2))
    })
}

fn convert_alu(to: Ty, from: Ty, mode: Option<&str>, sat: bool) -> Option<Alu> {
    let is_integer = |ty: Ty| matches!(ty, Ty::U(_) | Ty::S(_));
    match (is_integer(from), is_integer(to), mode) {
        (true, true, None) => integer_alu(to, from, sat),
        (true, false, Some("rn")) => integer_to_float(to, from),
        (false, true, Some(mode)) => match from {
            Ty::F16 => rounded!(f16, F1, G1, to, |a: f16| a.to_f64(), mode),
            Ty::Bf16 => rounded!(bf16, F1, G1, to, |a: bf16| a.to_f64(), mode),
            Ty::F32 => rounded!(f32, F1, G1, to, |a: f32| f64::from(a), mode),
            Ty::F64 => rounded!(f64, K1, W1, to, |a: f64| a, mode),
            _ => None,
        },
        (false, false, mode) => float_to_float(to, from, mode),
        _ => None,
    }
}

fn integer_alu(to: Ty, from: Ty, sat: bool) -> Option<Alu> {
    macro_rules! cell {
        ($from:ty, $to:ty, $variant:ident) => {
            Some(if sat {
                Alu::$variant(f!($from => $to; |a|
                    i128::from(a).clamp(i128::from(<$to>::MIN), i128::from(<$to>::MAX)) as $to))
            } else {
                Alu::$variant(f!($from => $to; |a| a as $to))
            })
        };
    }
    macro_rules! row {
        ($from:ty, $narrow:ident, $wide:ident) => {
            match to {
                Ty::U(8) => cell!($from, u8, $narrow),
                Ty::S(8) => cell!($from, i8, $narrow),
                Ty::U(16) => cell!($from, u16, $narrow),
                Ty::S(16) => cell!($from, i16, $narrow),
                Ty::U(32) => cell!($from, u32, $narrow),
                Ty::S(32) => cell!($from, i32, $narrow),
                Ty::U(64) => cell!($from, u64, $wide),
                Ty::S(64) => cell!($from, i64, $wide),
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

fn integer_to_float(to: Ty, from: Ty) -> Option<Alu> {
    macro_rules! row {
        ($from:ty, $narrow:ident, $wide:ident) => {
            match to {
                Ty::F32 => Some(Alu::$narrow(f!($from => f32; |a| a as f32))),
                Ty::F64 => Some(Alu::$wide(f!($from => f64; |a| a as f64))),
                // Integers of up to 32 bits are exact in f64, from which a half is rounded once.
                Ty::F16 if from.bits() <= 32 => Some(Alu::$narrow(f!($from => f16; |a| half_from_f64(a as f64)))),
                Ty::Bf16 if from.bits() <= 32 => Some(Alu::$narrow(f!($from => bf16; |a| bfloat_from_f64(a as f64)))),
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

fn float_to_float(to: Ty, from: Ty, mode: Option<&str>) -> Option<Alu> {
    Some(match (from, to, mode) {
        (Ty::F16, Ty::F32, None) => Alu::F1(f!(f16 => f32; |a| canonical(a.to_f32()))),
        // NaN keeps its bits, unlike that of halves.
        (Ty::Bf16, Ty::F32, None) => Alu::F1(f!(u16 => u32; |a| u32::from(a) << 16)),
        (Ty::F16, Ty::F64, None) => Alu::G1(f!(f16 => f64; |a| a.to_f64())),
        (Ty::F32, Ty::F64, None) => Alu::G1(f!(f32 => f64; |a| f64::from(a))),
        (Ty::F64, Ty::F32, Some("rn")) => Alu::K1(f!(f64 => f32; |a| quiet(a) as f32)),
        (Ty::F32, Ty::F16, Some("rn")) => Alu::F1(f!(f32 => f16; |a| half_from_f32(a))),
        (Ty::F32, Ty::F16, Some("rz")) => Alu::F1(f!(f32 => f16; |a| f16_towards_zero(a))),
        (Ty::F32, Ty::Bf16, Some("rn")) => Alu::F1(f!(f32 => bf16; |a| bfloat_from_f32(a))),
        (Ty::F32, Ty::Bf16, Some("rz")) => Alu::F1(f!(f32 => bf16; |a| bf16_towards_zero(a))),
        // Without a rounding: to nearest, as ptxas takes it (Triton writes it where the value fits).
        (Ty::F16, Ty::Bf16, None | Some("rn")) => Alu::F1(f!(f16 => bf16; |a| bfloat_from_f32(a.to_f32()))),
        (Ty::Bf16, Ty::F16, None | Some("rn")) => Alu::F1(f!(bf16 => f16; |a| half_from_f32(a.to_f32()))),
        (Ty::F64, Ty::F16, Some("rn")) => {
            Alu::K1(f!(f64 => f16; |a| if a.is_nan() { nan_half(a) } else { half_from_f64(a) }))
        }
        (Ty::F32, Ty::F32, Some("rni")) => Alu::F1(f!(f32 => f32; |a| canonical(a.round_ties_even()))),
        (Ty::F32, Ty::F32, Some("rzi")) => Alu::F1(f!(f32 => f32; |a| canonical(a.trunc()))),
        (Ty::F32, Ty::F32, Some("rmi")) => Alu::F1(f!(f32 => f32; |a| canonical(a.floor()))),
        (Ty::F32, Ty::F32, Some("rpi")) => Alu::F1(f!(f32 => f32; |a| canonical(a.ceil()))),
        (Ty::F32, Ty::F32, None) => Alu::F1(f!(f32 => f32; |a| canonical(a))),
        (Ty::F64, Ty::F64, Some("rni")) => Alu::W1(f!(f64 => f64; |a| quiet(a.round_ties_even()))),
        (Ty::F64, Ty::F64, Some("rzi")) => Alu::W1(f!(f64 => f64; |a| quiet(a.trunc()))),
        (Ty::F64, Ty::F64, Some("rmi")) => Alu::W1(f!(f64 => f64; |a| quiet(a.floor()))),
        (Ty::F64, Ty::F64, Some("rpi")) => Alu::W1(f!(f64 => f64; |a| quiet(a.ceil()))),
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
    fn tf32_rounds_ties_away() {
        assert_eq!(round_tf32(f32::from_bits(0x3f80_1000), false), 0x3f80_2000);
        assert_eq!(round_tf32(f32::from_bits(0x3f80_0fff), false), 0x3f80_0000);
        assert_eq!(round_tf32(f32::INFINITY, false), f32::INFINITY.to_bits());
        assert_eq!(round_tf32(f32::MAX, true), 0x7f7f_e000);
    }
}
