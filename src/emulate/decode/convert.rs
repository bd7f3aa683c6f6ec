//! `mov`, `cvt` and `cvta`.

use half::{bf16, f16};

use super::formats::{After, float_to_float, integer_to_float, pair_alu, to_tf32, widen_pair};
use super::words::{Ty, Words};
use super::{Decoder, Fault};
use crate::emulate::alu::{Alu, canonical, f};
use crate::emulate::program::{Flush, LOCAL_WINDOW, Op, PARAM_WINDOW, Reg, SHARED_WINDOW};
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
        if words.take("pack") {
            return self.pack_integers(words, operands);
        }
        let ftz = words.take("ftz");
        let sat = words.take("sat");
        let after = After { sat, satfinite: words.take("satfinite"), relu: words.take("relu") };
        let mode = words.one_of(&["rni", "rzi", "rmi", "rpi", "rn", "rz", "rm", "rp", "rna"]);
        let to = words.ty().map_err(|message| (self.span, message))?;
        let unknown = format!("the emulator does not know `{}`", words.mnemonic());
        let from = match words.ty() {
            Ok(from) => from,
            Err(message) => return self.refuse(message),
        };
        // A narrow integer may lie in a wide register, whose low bits it is.
        let widened = from.bits() < 64
            && operands.len() == 2
            && matches!((from, to), (Ty::U(_) | Ty::S(_), Ty::U(_) | Ty::S(_)))
            && matches!(self.src(&operands[1], from)?, Reg::R64(_));
        // What is cut off need not be defined.
        if let (Ty::U(from_bits @ (32 | 64)), Ty::U(bits @ (16 | 32)), None, [dst, src @ Operand::Name(_)]) =
            (from, to, mode, operands)
            && bits < from_bits
            && after == After::default()
            && !ftz
        {
            let src = self.src(src, from)?;
            let dst = self.dst(dst, to)?;
            return Ok(dst.map_or(Op::Nothing, |dst| Op::Bytes { dst, src, first: 0, count: bits / 8 }));
        }
        let is_pair = matches!(to, Ty::F16x2 | Ty::Bf16x2 | Ty::E4m3x2 | Ty::E5m2x2);
        let alu = match (mode, operands.len()) {
            (Some(mode), 3) if is_pair && from == Ty::F32 => pair_alu(to, from, mode, after),
            (Some(mode), 2) if is_pair && from == Ty::F16x2 => pair_alu(to, from, mode, after),
            (Some("rn"), 2) if to == Ty::F16x2 && matches!(from, Ty::E4m3x2 | Ty::E5m2x2) => {
                (!sat && !after.satfinite).then(|| widen_pair(from, after.relu))
            }
            (Some(mode), 2) if to == Ty::Tf32 && from == Ty::F32 => to_tf32(mode, after),
            (None, 2) if widened => integer_alu(to, from, after.sat, true),
            (_, 2) => convert_alu(to, from, mode, after),
            _ => None,
        };
        let Some(alu) = alu else { return self.refuse(unknown) };
        let mut src = [0; 4];
        for (place, operand) in operands[1..].iter().enumerate() {
            src[place] = match self.src(operand, from)? {
                Reg::R32(slot) => slot,
                Reg::R64(slot) if widened || from.bits() == 64 => slot,
                _ => return self.refuse("the source is wider than its type"),
            };
        }
        let dst =
            if to.bits() == 64 { self.wide_dst(&operands[0])? } else { self.narrow_dst(&operands[0], to.bits())? };
        // A single that is flushed on its way to a double loses its NaN, too.
        let alu = match (ftz, from, to) {
            (true, Ty::F32, Ty::F64) if !sat => Alu::G1(f!(f32 => f64; |a| f64::from(canonical(a)))),
            _ => alu,
        };
        // Flushing concerns f32 sources and results alone; saturation of floats is done on the result.
        let ftz = Flush { operands: ftz && from == Ty::F32, result: ftz && to == Ty::F32 };
        Ok(Op::Alu { alu, dst, src, ftz, sat: sat && to == Ty::F32 })
    }

    /// `cvt.pack.sat`: two integers, saturated, the second lowest; what they push up is the third operand.
    fn pack_integers(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        macro_rules! packed {
            ($bits:expr, $least:expr, $most:expr) => {
                Alu::F3(f!(i32, i32, u32 => u32; |a, b, c| {
                    let part = |value: i32| value.clamp($least, $most) as u32 & ((1 << $bits) - 1);
                    c.unbounded_shl(2 * $bits) | part(a) << $bits | part(b)
                }))
            };
        }
        let names = ["u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"];
        let unknown = format!("the emulator does not know `{}`", words.mnemonic());
        let alu = match (words.take("sat"), words.find(|word| names.into_iter().find(|name| *name == word))) {
            (true, Some("u16")) => packed!(16, 0, 0xffff),
            (true, Some("s16")) => packed!(16, -0x8000, 0x7fff),
            (true, Some("u8")) => packed!(8, 0, 0xff),
            (true, Some("s8")) => packed!(8, -0x80, 0x7f),
            (true, Some("u4")) => packed!(4, 0, 15),
            (true, Some("s4")) => packed!(4, -8, 7),
            (true, Some("u2")) => packed!(2, 0, 3),
            (true, Some("s2")) => packed!(2, -2, 1),
            _ => return self.refuse(unknown),
        };
        let third = words.take("b32");
        if words.ty() != Ok(Ty::S(32)) {
            return self.refuse(unknown);
        }
        let (dst, a, b, c) = match operands {
            [dst, a, b] if !third => (dst, a, b, self.constant32(0)?),
            [dst, a, b, c] if third => (dst, a, b, self.narrow(c, Ty::B(32))?),
            _ => return self.refuse(format!("`{}` has the wrong number of operands", words.mnemonic())),
        };
        let src = [self.narrow(a, Ty::S(32))?, self.narrow(b, Ty::S(32))?, c, 0];
        Ok(Op::Alu { alu, dst: self.narrow_dst(dst, 32)?, src, ftz: Flush::NONE, sat: false })
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

fn convert_alu(to: Ty, from: Ty, mode: Option<&str>, after: After) -> Option<Alu> {
    let is_integer = |ty: Ty| matches!(ty, Ty::U(_) | Ty::S(_));
    let plain = !after.relu && !after.satfinite;
    match (is_integer(from), is_integer(to), mode) {
        (true, true, None) if plain => integer_alu(to, from, after.sat, false),
        // Saturation of singles to [0, 1] is done on the result.
        (true, false, Some(mode)) if plain && (!after.sat || to == Ty::F32) => integer_to_float(to, from, mode),
        (false, true, Some(mode)) if plain => match from {
            Ty::F16 => rounded!(f16, F1, G1, to, |a: f16| a.to_f64(), mode),
            Ty::Bf16 => rounded!(bf16, F1, G1, to, |a: bf16| a.to_f64(), mode),
            Ty::F32 => rounded!(f32, F1, G1, to, |a: f32| f64::from(a), mode),
            Ty::F64 => rounded!(f64, K1, W1, to, |a: f64| a, mode),
            _ => None,
        },
        (false, false, mode) => float_to_float(to, from, mode, after),
        _ => None,
    }
}

/// Between integers; `widened` where a source of less than 64 bits is the low end of a 64-bit register.
fn integer_alu(to: Ty, from: Ty, sat: bool, widened: bool) -> Option<Alu> {
    macro_rules! cell {
        ($held:ty as $from:ty, $to:ty, $variant:ident) => {
            Some(if sat {
                Alu::$variant(f!($held => $to; |a|
                    i128::from(a as $from).clamp(i128::from(<$to>::MIN), i128::from(<$to>::MAX)) as $to))
            } else {
                Alu::$variant(f!($held => $to; |a| a as $from as $to))
            })
        };
    }
    macro_rules! row {
        ($held:ty as $from:ty, $narrow:ident, $wide:ident) => {
            match to {
                Ty::U(8) => cell!($held as $from, u8, $narrow),
                Ty::S(8) => cell!($held as $from, i8, $narrow),
                Ty::U(16) => cell!($held as $from, u16, $narrow),
                Ty::S(16) => cell!($held as $from, i16, $narrow),
                Ty::U(32) => cell!($held as $from, u32, $narrow),
                Ty::S(32) => cell!($held as $from, i32, $narrow),
                Ty::U(64) => cell!($held as $from, u64, $wide),
                Ty::S(64) => cell!($held as $from, i64, $wide),
                _ => None,
            }
        };
    }
    match (from, widened) {
        (Ty::U(8), false) => row!(u8 as u8, F1, G1),
        (Ty::S(8), false) => row!(i8 as i8, F1, G1),
        (Ty::U(16), false) => row!(u16 as u16, F1, G1),
        (Ty::S(16), false) => row!(i16 as i16, F1, G1),
        (Ty::U(32), false) => row!(u32 as u32, F1, G1),
        (Ty::S(32), false) => row!(i32 as i32, F1, G1),
        (Ty::U(8), true) => row!(u64 as u8, K1, W1),
        (Ty::S(8), true) => row!(u64 as i8, K1, W1),
        (Ty::U(16), true) => row!(u64 as u16, K1, W1),
        (Ty::S(16), true) => row!(u64 as i16, K1, W1),
        (Ty::U(32), true) => row!(u64 as u32, K1, W1),
        (Ty::S(32), true) => row!(u64 as i32, K1, W1),
        (Ty::U(64), _) => row!(u64 as u64, K1, W1),
        (Ty::S(64), _) => row!(i64 as i64, K1, W1),
        _ => None,
    }
}
