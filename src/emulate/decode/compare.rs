//! Comparison and selection.

use std::cmp::Ordering;

use half::{bf16, f16};

use super::words::{Ty, Words};
use super::{Decoder, Fault};
use crate::emulate::alu::{Alu, Compare32, Compare64, compare, f};
use crate::emulate::halves::flushed;
use crate::emulate::lanes::flush;
use crate::emulate::program::{
    Bool, CLUSTER_SHARED_LOG2, Compare, Flush, LOCAL_WINDOW, Op, PARAM_WINDOW, PredicateUse, SHARED_WINDOW, Slot,
};
use crate::ptx::model::Operand;

/// A comparison: the function of its bank.
enum CompareFn {
    Narrow(Compare32),
    Wide(Compare64),
}

/// The names of comparisons.
const COMPARISONS: [&str; 18] = [
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
];

macro_rules! ordered {
    ($variant:ident, $name:expr, $rust:ty) => {
        Some(CompareFn::$variant(match $name {
            "eq" => compare!($rust; |a, b| a == b),
            "ne" => compare!($rust; |a, b| a != b),
            "lt" | "lo" => compare!($rust; |a, b| a < b),
            "le" | "ls" => compare!($rust; |a, b| a <= b),
            "gt" | "hi" => compare!($rust; |a, b| a > b),
            "ge" | "hs" => compare!($rust; |a, b| a >= b),
            _ => return None,
        }))
    };
}

/// Comparisons of floats, which `$value` makes of operands of type `$rust`.
macro_rules! floating {
    ($variant:ident, $name:expr, $rust:ty, |$operand:ident| $value:expr) => {
        Some(CompareFn::$variant(match $name {
            "eq" => floating!(@of $rust, |$operand| $value; |a, b| a == b),
            "ne" => floating!(@of $rust, |$operand| $value; |a, b| a.partial_cmp(&b).is_some_and(Ordering::is_ne)),
            "lt" => floating!(@of $rust, |$operand| $value; |a, b| a < b),
            "le" => floating!(@of $rust, |$operand| $value; |a, b| a <= b),
            "gt" => floating!(@of $rust, |$operand| $value; |a, b| a > b),
            "ge" => floating!(@of $rust, |$operand| $value; |a, b| a >= b),
            "equ" => floating!(@of $rust, |$operand| $value; |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_eq)),
            "neu" => floating!(@of $rust, |$operand| $value; |a, b| a != b),
            "ltu" => floating!(@of $rust, |$operand| $value; |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_lt)),
            "leu" => floating!(@of $rust, |$operand| $value; |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_le)),
            "gtu" => floating!(@of $rust, |$operand| $value; |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_gt)),
            "geu" => floating!(@of $rust, |$operand| $value; |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_ge)),
            "num" => floating!(@of $rust, |$operand| $value; |a, b| !a.is_nan() && !b.is_nan()),
            "nan" => floating!(@of $rust, |$operand| $value; |a, b| a.is_nan() || b.is_nan()),
            _ => return None,
        }))
    };
    (@of $rust:ty, |$operand:ident| $value:expr; |$a:ident, $b:ident| $holds:expr) => {
        compare!($rust; |x, y| {
            let value = |$operand: $rust| $value;
            let ($a, $b) = (value(x), value(y));
            $holds
        })
    };
}

/// The function of a comparison; of pairs that of the upper half where `upper`. Singles are flushed by the warp, halves here.
fn comparison(name: &str, ty: Ty, ftz: bool, upper: bool) -> Option<CompareFn> {
    match (ty, ftz, upper) {
        (Ty::F32, _, false) => floating!(Narrow, name, f32, |a| a),
        (Ty::F16, true, false) => floating!(Narrow, name, f16, |a| flushed(a).to_f32()),
        (Ty::F16x2, true, false) => floating!(Narrow, name, [f16; 2], |a| flushed(a[0]).to_f32()),
        (Ty::F16x2, true, true) => floating!(Narrow, name, [f16; 2], |a| flushed(a[1]).to_f32()),
        (_, true, _) => None,
        (Ty::F16, _, false) => floating!(Narrow, name, f16, |a| a.to_f32()),
        (Ty::Bf16, _, false) => floating!(Narrow, name, bf16, |a| a.to_f32()),
        (Ty::F16x2, _, false) => floating!(Narrow, name, [f16; 2], |a| a[0].to_f32()),
        (Ty::F16x2, _, true) => floating!(Narrow, name, [f16; 2], |a| a[1].to_f32()),
        (Ty::Bf16x2, _, false) => floating!(Narrow, name, [bf16; 2], |a| a[0].to_f32()),
        (Ty::Bf16x2, _, true) => floating!(Narrow, name, [bf16; 2], |a| a[1].to_f32()),
        (Ty::F64, ..) => floating!(Wide, name, f64, |a| a),
        (Ty::U(16) | Ty::B(16), ..) => ordered!(Narrow, name, u16),
        (Ty::S(16), ..) => ordered!(Narrow, name, i16),
        (Ty::U(32) | Ty::B(32), ..) => ordered!(Narrow, name, u32),
        (Ty::S(32), ..) => ordered!(Narrow, name, i32),
        (Ty::U(64) | Ty::B(64), ..) => ordered!(Wide, name, u64),
        (Ty::S(64), ..) => ordered!(Wide, name, i64),
        _ => None,
    }
}

/// `testp`: what is asked of a float.
fn test(name: &str, ty: Ty) -> Option<CompareFn> {
    macro_rules! tests {
        ($variant:ident, $rust:ty) => {
            CompareFn::$variant(match name {
                "finite" => compare!($rust; |a, _b| a.is_finite()),
                "infinite" => compare!($rust; |a, _b| a.is_infinite()),
                "number" => compare!($rust; |a, _b| !a.is_nan()),
                "notanumber" => compare!($rust; |a, _b| a.is_nan()),
                // Zeros count as normal.
                "normal" => compare!($rust; |a, _b| a.is_normal() || a == 0.0),
                "subnormal" => compare!($rust; |a, _b| a.is_subnormal()),
                _ => return None,
            })
        };
    }
    match ty {
        Ty::F32 => Some(tests!(Narrow, f32)),
        Ty::F64 => Some(tests!(Wide, f64)),
        _ => None,
    }
}

/// The window of a generic address.
fn window(address: u64) -> u64 {
    address & !((1 << 40) - 1)
}

/// `isspacep`: the comparison that an address is put to. Global memory is what is in no window.
fn in_space(space: &str) -> Option<Compare64> {
    Some(match space {
        "global" => {
            compare!(u64; |a, _b| ![SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW].contains(&window(a)))
        }
        "local" => compare!(u64; |a, _b| window(a) == LOCAL_WINDOW),
        "param" | "param::entry" => compare!(u64; |a, _b| window(a) == PARAM_WINDOW),
        "shared::cluster" => compare!(u64; |a, _b| window(a) == SHARED_WINDOW),
        "shared" | "shared::cta" => {
            compare!(u64; |a, _b| window(a) == SHARED_WINDOW && (a - SHARED_WINDOW) >> CLUSTER_SHARED_LOG2 == 0)
        }
        _ => return None,
    })
}

/// Two operands, and what the result of their comparison is combined with.
type Compared<'a> = ([&'a Operand; 2], Option<(Bool, PredicateUse)>);

impl Decoder {
    /// The comparison of `setp` and `set`, with the operands at `a` and `b`: of pairs two.
    fn compare(
        &mut self,
        words: &mut Words,
        name: &str,
        [a, b]: [&Operand; 2],
        ty: Ty,
        ftz: bool,
    ) -> Result<Vec<Compare>, Fault> {
        let is_pair = matches!(ty, Ty::F16x2 | Ty::Bf16x2);
        let mut compares = Vec::with_capacity(2);
        for upper in [false, true].into_iter().take(1 + usize::from(is_pair)) {
            compares.push(match comparison(name, ty, ftz, upper) {
                Some(CompareFn::Narrow(function)) => Compare::C32(function, self.narrow(a, ty)?, self.narrow(b, ty)?),
                Some(CompareFn::Wide(function)) => Compare::C64(function, self.wide(a, ty)?, self.wide(b, ty)?),
                None => return self.unknown_comparison(words),
            });
        }
        Ok(compares)
    }

    fn unknown_comparison<T>(&self, words: &Words) -> Result<T, Fault> {
        self.refuse(format!("the emulator does not know the comparison in `{}`", words.mnemonic()))
    }

    fn combination(words: &mut Words) -> Option<Bool> {
        words.one_of(&["and", "or", "xor"]).map(|word| match word {
            "and" => Bool::And,
            "or" => Bool::Or,
            _ => Bool::Xor,
        })
    }

    /// The operands of a comparison after its destination, the last of which is a predicate where there is `op`.
    fn compared<'a>(&self, operands: &'a [Operand], op: Option<Bool>) -> Result<Compared<'a>, Fault> {
        match (operands, op) {
            ([a, b], None) => Ok(([a, b], None)),
            ([a, b, c], Some(op)) => Ok(([a, b], Some((op, self.predicate(c)?)))),
            _ => self.refuse("expected a destination, two operands, and a predicate where there is and, or, xor"),
        }
    }

    fn predicate_pair(&self, target: &Operand) -> Result<[Option<Slot>; 2], Fault> {
        Ok(match target {
            Operand::Pair(first, second) => [self.predicate_dst(first)?, self.predicate_dst(second)?],
            first => [self.predicate_dst(first)?, None],
        })
    }

    pub(super) fn setp(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let ftz = words.take("ftz");
        let op = Self::combination(words);
        let Some(name) = words.one_of(&COMPARISONS) else { return self.unknown_comparison(words) };
        let ty = words.ty().map_err(|message| (self.span, message))?;
        let [target, rest @ ..] = operands else { return self.refuse("expected operands") };
        let (sources, combine) = self.compared(rest, op)?;
        let [dst, not] = self.predicate_pair(target)?;
        match self.compare(words, name, sources, ty, ftz)?[..] {
            [low, high] => Ok(Op::SetPair { compare: [low, high], combine, dst: [dst, not] }),
            [compare, ..] => Ok(Op::Set { compare, combine, dst, not, ftz: ftz && ty == Ty::F32 }),
            [] => self.unknown_comparison(words),
        }
    }

    /// `set`: all ones or 1.0 where the comparison holds, zero elsewhere.
    pub(super) fn set(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let ftz = words.take("ftz");
        let op = Self::combination(words);
        let Some(name) = words.one_of(&COMPARISONS) else { return self.unknown_comparison(words) };
        let to = words.ty().map_err(|message| (self.span, message))?;
        let ty = words.ty().map_err(|message| (self.span, message))?;
        let halves = matches!(ty, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2);
        let pair = matches!(ty, Ty::F16x2 | Ty::Bf16x2);
        let one = match to {
            Ty::U(32) | Ty::S(32) if pair => 0xffff,
            Ty::U(32) | Ty::S(32) => u32::MAX,
            Ty::F32 if !pair => 1.0_f32.to_bits(),
            Ty::U(16) | Ty::S(16) if halves && !pair => 0xffff,
            Ty::F16 if halves && !pair => f16::ONE.to_bits().into(),
            Ty::Bf16 if halves && !pair => bf16::ONE.to_bits().into(),
            Ty::F16x2 if pair => f16::ONE.to_bits().into(),
            Ty::Bf16x2 if pair => bf16::ONE.to_bits().into(),
            _ => return self.unknown_comparison(words),
        };
        let [dst, rest @ ..] = operands else { return self.refuse("expected operands") };
        let (sources, combine) = self.compared(rest, op)?;
        let compare = self.compare(words, name, sources, ty, ftz)?;
        let dst = self.narrow_dst(dst, to.bits())?;
        Ok(Op::SetValue { compare, combine, dst, one, ftz: ftz && ty == Ty::F32 })
    }

    pub(super) fn testp(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let names = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];
        let name = words.one_of(&names).unwrap_or_default();
        let ty = words.ty().map_err(|message| (self.span, message))?;
        let [dst, a] = self.exactly::<2>(operands)?;
        let compare = match test(name, ty) {
            Some(CompareFn::Narrow(function)) => {
                let a = self.narrow(a, ty)?;
                Compare::C32(function, a, a)
            }
            Some(CompareFn::Wide(function)) => {
                let a = self.wide(a, ty)?;
                Compare::C64(function, a, a)
            }
            None => return self.refuse(format!("the emulator does not know `{}`", words.mnemonic())),
        };
        Ok(Op::Set { compare, combine: None, dst: self.predicate_dst(dst)?, not: None, ftz: false })
    }

    /// Module variables of `.const` lie among those of `.global` here, so that `isspacep.const` is not known.
    pub(super) fn is_in_space(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let space = ["global", "local", "shared", "shared::cta", "shared::cluster", "param", "param::entry"];
        let Some(function) = words.one_of(&space).and_then(in_space) else {
            return self.refuse(format!("the emulator does not know `{}`", words.mnemonic()));
        };
        let [dst, a] = self.exactly::<2>(operands)?;
        let a = self.wide(a, Ty::U(64))?;
        let compare = Compare::C64(function, a, a);
        Ok(Op::Set { compare, combine: None, dst: self.predicate_dst(dst)?, not: None, ftz: false })
    }

    pub(super) fn selp(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let ty = words.ty().map_err(|message| (self.span, message))?;
        let [dst, a, b, by] = self.exactly::<4>(operands)?;
        let by = self.predicate(by)?;
        if ty.bits() == 64 {
            let (a, b) = (self.wide(a, ty)?, self.wide(b, ty)?);
            return Ok(Op::Select64 { dst: self.wide_dst(dst)?, a, b, by });
        }
        let (a, b) = (self.narrow(a, ty)?, self.narrow(b, ty)?);
        Ok(Op::Select32 { dst: self.narrow_dst(dst, ty.bits())?, a, b, by })
    }

    pub(super) fn slct(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let ftz = words.take("ftz");
        let ty = words.ty().map_err(|message| (self.span, message))?;
        let by = words.ty().map_err(|message| (self.span, message))?;
        let [dst, a, b, c] = self.exactly::<4>(operands)?;
        // Flushed, a negative denormal is −0, which is not under zero.
        let alu = match (ty.bits(), by, ftz) {
            (16 | 32, Ty::S(32), false) => Alu::F3(f!(u32, u32, i32 => u32; |a, b, c| if c >= 0 { a } else { b })),
            (16 | 32, Ty::F32, true) => {
                Alu::F3(f!(u32, u32, u32 => u32; |a, b, c| if f32::from_bits(flush(c)) >= 0.0 { a } else { b }))
            }
            (16 | 32, Ty::F32, false) => Alu::F3(f!(u32, u32, f32 => u32; |a, b, c| if c >= 0.0 { a } else { b })),
            (64, Ty::S(32), false) => Alu::C64(f!(u64, u64, i32 => u64; |a, b, c| if c >= 0 { a } else { b })),
            (64, Ty::F32, true) => {
                Alu::C64(f!(u64, u64, u32 => u64; |a, b, c| if f32::from_bits(flush(c)) >= 0.0 { a } else { b }))
            }
            (64, Ty::F32, false) => Alu::C64(f!(u64, u64, f32 => u64; |a, b, c| if c >= 0.0 { a } else { b })),
            _ => return self.refuse(format!("the emulator does not know `{}`", words.mnemonic())),
        };
        let (src, dst) = if ty.bits() == 64 {
            ([self.wide(a, ty)?, self.wide(b, ty)?, self.narrow(c, by)?, 0], self.wide_dst(dst)?)
        } else {
            ([self.narrow(a, ty)?, self.narrow(b, ty)?, self.narrow(c, by)?, 0], self.narrow_dst(dst, ty.bits())?)
        };
        Ok(Op::Alu { alu, dst, src, ftz: Flush::NONE, sat: false })
    }
}
