//! Floating arithmetic, comparison and selection.

use std::cmp::Ordering;

use half::{bf16, f16};

use super::words::{Ty, Words};
use super::{Decoder, Fault};
use crate::emulate::alu::{
    Alu, Compare32, Compare64, bfloat_from_f32, bfloat_from_f64, canonical, compare, f, fma_bf16, fma_f16, fma_f32,
    fma_f64, half_from_f32, half_from_f64, max_f32, max_f64, min_f32, min_f64, pair, quiet, rsqrt_f32, subtract_f64,
};
use crate::emulate::lanes::{F32x2, flush};
use crate::emulate::program::{Bool, Compare, Flush, Op};
use crate::ptx::model::Operand;

/// Two operands in every floating format, computed in f32 or f64 and rounded once: a format's sums and products are exact
/// in one twice as wide, or rounding twice is known to be harmless (24 ≥ 2·11 + 2).
macro_rules! all_floats2 {
    ($ty:expr; |$a:ident, $b:ident| $e:expr, $single:expr) => {
        match $ty {
            Ty::F32 => Some(Alu::F2(f!(f32, f32 => f32; |$a, $b| canonical($e)))),
            Ty::F64 => Some(Alu::W2(f!(f64, f64 => f64; |$a, $b| $e))),
            Ty::F16 => Some(Alu::F2(f!(f16, f16 => f16; |a, b| half_from_f32($single(a.to_f32(), b.to_f32()))))),
            Ty::Bf16 => Some(Alu::F2(f!(bf16, bf16 => bf16; |a, b| bfloat_from_f32($single(a.to_f32(), b.to_f32()))))),
            Ty::F16x2 => Some(Alu::F2(f!([f16; 2], [f16; 2] => [f16; 2]; |a, b|
                pair(a, b, |a: f16, b: f16| half_from_f32($single(a.to_f32(), b.to_f32())))))),
            Ty::Bf16x2 => Some(Alu::F2(f!([bf16; 2], [bf16; 2] => [bf16; 2]; |a, b|
                pair(a, b, |a: bf16, b: bf16| bfloat_from_f32($single(a.to_f32(), b.to_f32())))))),
            _ => None,
        }
    };
}

/// `changed`, or PTX's NaN of halves where `value` is one.
fn half_with_sign(value: u16, changed: u16) -> u16 {
    if f16::from_bits(value).is_nan() { 0x7fff } else { changed }
}

/// As [`half_with_sign`] for bfloat16.
fn bfloat_with_sign(value: u16, changed: u16) -> u16 {
    if bf16::from_bits(value).is_nan() { 0x7fff } else { changed }
}

/// The function of an instruction on two singles at once.
pub(super) fn packed(opcode: &str, rounding: Option<&str>, ftz: bool) -> Option<Alu> {
    macro_rules! both {
        (|$a:ident, $b:ident| $e:expr) => {{
            if ftz {
                f!(F32x2, F32x2 => F32x2; |x, y| F32x2(std::array::from_fn(|half| {
                    let ($a, $b) = (flushed(x.0[half]), flushed(y.0[half]));
                    flushed(canonical($e))
                })))
            } else {
                f!(F32x2, F32x2 => F32x2; |x, y| F32x2(std::array::from_fn(|half| {
                    let ($a, $b) = (x.0[half], y.0[half]);
                    canonical($e)
                })))
            }
        }};
    }
    match (opcode, rounding) {
        ("add", None | Some("rn")) => Some(Alu::W2(both!(|a, b| a + b))),
        ("sub", None | Some("rn")) => Some(Alu::W2(both!(|a, b| a - b))),
        ("mul", None | Some("rn")) => Some(Alu::W2(both!(|a, b| a * b))),
        ("fma", Some("rn")) => Some(Alu::W3(if ftz {
            f!(F32x2, F32x2, F32x2 => F32x2; |a, b, c| F32x2(std::array::from_fn(|half| {
                flushed(canonical(flushed(a.0[half]).mul_add(flushed(b.0[half]), flushed(c.0[half]))))
            })))
        } else {
            f!(F32x2, F32x2, F32x2 => F32x2; |a, b, c| F32x2(std::array::from_fn(|half| {
                canonical(a.0[half].mul_add(b.0[half], c.0[half]))
            })))
        })),
        _ => None,
    }
}

/// A denormal becomes a zero of its sign.
fn flushed(value: f32) -> f32 {
    f32::from_bits(flush(value.to_bits()))
}

/// The function of a floating instruction with round-to-nearest or an approximation.
pub(super) fn alu(opcode: &str, rounding: Option<&str>, ty: Ty) -> Option<Alu> {
    let nearest = matches!(rounding, None | Some("rn"));
    match opcode {
        "add" if nearest => all_floats2!(ty; |a, b| a + b, |a: f32, b: f32| a + b),
        "sub" if nearest && ty == Ty::F64 => Some(Alu::W2(f!(f64, f64 => f64; |a, b| subtract_f64(a, b)))),
        "sub" if nearest => all_floats2!(ty; |a, b| a - b, |a: f32, b: f32| a - b),
        "mul" if nearest => all_floats2!(ty; |a, b| a * b, |a: f32, b: f32| a * b),
        "min" if rounding.is_none() => match ty {
            Ty::F64 => Some(Alu::W2(f!(f64, f64 => f64; |a, b| min_f64(a, b)))),
            Ty::F32 => Some(Alu::F2(f!(f32, f32 => f32; |a, b| min_f32(a, b)))),
            _ => all_floats2!(ty; |a, b| a + b, |a: f32, b: f32| min_f32(a, b)),
        },
        "max" if rounding.is_none() => match ty {
            Ty::F64 => Some(Alu::W2(f!(f64, f64 => f64; |a, b| max_f64(a, b)))),
            Ty::F32 => Some(Alu::F2(f!(f32, f32 => f32; |a, b| max_f32(a, b)))),
            _ => all_floats2!(ty; |a, b| a + b, |a: f32, b: f32| max_f32(a, b)),
        },
        "fma" | "mad" if nearest => match ty {
            Ty::F32 => Some(Alu::F3(fma_f32())),
            Ty::F64 => Some(Alu::W3(f!(f64, f64, f64 => f64; |a, b, c| fma_f64(a, b, c)))),
            Ty::F16 => Some(Alu::F3(f!(f16, f16, f16 => f16; |a, b, c| fma_f16(a, b, c)))),
            Ty::Bf16 => Some(Alu::F3(f!(bf16, bf16, bf16 => bf16; |a, b, c| fma_bf16(a, b, c)))),
            Ty::F16x2 => Some(Alu::F3(f!([f16; 2], [f16; 2], [f16; 2] => [f16; 2]; |a, b, c|
                [fma_f16(a[0], b[0], c[0]), fma_f16(a[1], b[1], c[1])]))),
            Ty::Bf16x2 => Some(Alu::F3(f!([bf16; 2], [bf16; 2], [bf16; 2] => [bf16; 2]; |a, b, c|
                [fma_bf16(a[0], b[0], c[0]), fma_bf16(a[1], b[1], c[1])]))),
            _ => None,
        },
        "div" => match (rounding, ty) {
            (None | Some("rn" | "full" | "approx"), Ty::F32) => {
                Some(Alu::F2(f!(f32, f32 => f32; |a, b| canonical(a / b))))
            }
            (None | Some("rn"), Ty::F64) => Some(Alu::W2(f!(f64, f64 => f64; |a, b| a / b))),
            _ => None,
        },
        "abs" if rounding.is_none() => match ty {
            Ty::F32 => Some(Alu::F1(f!(f32 => f32; |a| canonical(a.abs())))),
            Ty::F64 => Some(Alu::W1(f!(f64 => f64; |a| if a.is_nan() { quiet(a) } else { a.abs() }))),
            Ty::F16 => Some(Alu::F1(f!(u16 => u16; |a| half_with_sign(a, a & 0x7fff)))),
            Ty::Bf16 => Some(Alu::F1(f!(u16 => u16; |a| bfloat_with_sign(a, a & 0x7fff)))),
            Ty::F16x2 => Some(Alu::F1(f!([u16; 2] => [u16; 2]; |a| a.map(|a| half_with_sign(a, a & 0x7fff))))),
            Ty::Bf16x2 => Some(Alu::F1(f!([u16; 2] => [u16; 2]; |a| a.map(|a| bfloat_with_sign(a, a & 0x7fff))))),
            _ => None,
        },
        "neg" if rounding.is_none() => match ty {
            Ty::F32 => Some(Alu::F1(f!(f32 => f32; |a| canonical(-a)))),
            Ty::F64 => Some(Alu::W1(f!(f64 => f64; |a| if a.is_nan() { quiet(a) } else { -a }))),
            Ty::F16 => Some(Alu::F1(f!(u16 => u16; |a| half_with_sign(a, a ^ 0x8000)))),
            Ty::Bf16 => Some(Alu::F1(f!(u16 => u16; |a| bfloat_with_sign(a, a ^ 0x8000)))),
            Ty::F16x2 => Some(Alu::F1(f!([u16; 2] => [u16; 2]; |a| a.map(|a| half_with_sign(a, a ^ 0x8000))))),
            Ty::Bf16x2 => Some(Alu::F1(f!([u16; 2] => [u16; 2]; |a| a.map(|a| bfloat_with_sign(a, a ^ 0x8000))))),
            _ => None,
        },
        "copysign" if rounding.is_none() => match ty {
            Ty::F32 => Some(Alu::F2(f!(u32, u32 => u32; |a, b| b & 0x7fff_ffff | a & 0x8000_0000))),
            Ty::F64 => Some(Alu::W2(f!(u64, u64 => u64; |a, b| b & !(1 << 63) | a & 1 << 63))),
            _ => None,
        },
        "rcp" => match (rounding, ty) {
            (Some("rn" | "approx"), Ty::F32) => Some(Alu::F1(f!(f32 => f32; |a| canonical(1.0 / a)))),
            (Some("rn"), Ty::F64) => Some(Alu::W1(f!(f64 => f64; |a| 1.0 / a))),
            _ => None,
        },
        "sqrt" => match (rounding, ty) {
            (Some("rn" | "approx"), Ty::F32) => Some(Alu::F1(f!(f32 => f32; |a| canonical(a.sqrt())))),
            (Some("rn"), Ty::F64) => Some(Alu::W1(f!(f64 => f64; |a| a.sqrt()))),
            _ => None,
        },
        "rsqrt" if rounding == Some("approx") && ty == Ty::F32 => Some(Alu::F1(f!(f32 => f32; |a| rsqrt_f32(a)))),
        "ex2" if rounding == Some("approx") => match ty {
            Ty::F32 => Some(Alu::F1(f!(f32 => f32; |a| canonical(f64::from(a).exp2() as f32)))),
            Ty::F16 => Some(Alu::F1(f!(f16 => f16; |a| half_from_f64(a.to_f64().exp2())))),
            Ty::Bf16 => Some(Alu::F1(f!(bf16 => bf16; |a| bfloat_from_f64(a.to_f64().exp2())))),
            _ => None,
        },
        "lg2" if rounding == Some("approx") && ty == Ty::F32 => {
            Some(Alu::F1(f!(f32 => f32; |a| canonical(f64::from(a).log2() as f32))))
        }
        "sin" if rounding == Some("approx") && ty == Ty::F32 => {
            Some(Alu::F1(f!(f32 => f32; |a| canonical(f64::from(a).sin() as f32))))
        }
        "cos" if rounding == Some("approx") && ty == Ty::F32 => {
            Some(Alu::F1(f!(f32 => f32; |a| canonical(f64::from(a).cos() as f32))))
        }
        "tanh" if rounding == Some("approx") && ty == Ty::F32 => {
            Some(Alu::F1(f!(f32 => f32; |a| canonical(f64::from(a).tanh() as f32))))
        }
        _ => None,
    }
}

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

macro_rules! floating {
    ($variant:ident, $name:expr, $rust:ty) => {
        Some(CompareFn::$variant(match $name {
            "eq" => compare!($rust; |a, b| a == b),
            "ne" => compare!($rust; |a, b| a.partial_cmp(&b).is_some_and(Ordering::is_ne)),
            "lt" => compare!($rust; |a, b| a < b),
            "le" => compare!($rust; |a, b| a <= b),
            "gt" => compare!($rust; |a, b| a > b),
            "ge" => compare!($rust; |a, b| a >= b),
            "equ" => compare!($rust; |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_eq)),
            "neu" => compare!($rust; |a, b| a != b),
            "ltu" => compare!($rust; |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_lt)),
            "leu" => compare!($rust; |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_le)),
            "gtu" => compare!($rust; |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_gt)),
            "geu" => compare!($rust; |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_ge)),
            "num" => compare!($rust; |a, b| !a.is_nan() && !b.is_nan()),
            "nan" => compare!($rust; |a, b| a.is_nan() || b.is_nan()),
            _ => return None,
        }))
    };
}

fn comparison(name: &str, ty: Ty) -> Option<CompareFn> {
    match ty {
        Ty::U(16) | Ty::B(16) => ordered!(Narrow, name, u16),
        Ty::S(16) => ordered!(Narrow, name, i16),
        Ty::U(32) | Ty::B(32) => ordered!(Narrow, name, u32),
        Ty::S(32) => ordered!(Narrow, name, i32),
        Ty::U(64) | Ty::B(64) => ordered!(Wide, name, u64),
        Ty::S(64) => ordered!(Wide, name, i64),
        Ty::F16 => floating!(Narrow, name, f16),
        Ty::Bf16 => floating!(Narrow, name, bf16),
        Ty::F32 => floating!(Narrow, name, f32),
        Ty::F64 => floating!(Wide, name, f64),
        _ => None,
    }
}

impl Decoder {
    /// The comparison of `setp` and `set`, with the operands at `a` and `b`.
    fn compare(&mut self, words: &mut Words, a: &Operand, b: &Operand, ty: Ty) -> Result<Compare, Fault> {
        let unknown = format!("the emulator does not know the comparison in `{}`", words.mnemonic());
        let Some(name) = words.one_of(&COMPARISONS) else { return self.refuse(unknown) };
        match comparison(name, ty) {
            Some(CompareFn::Narrow(function)) => Ok(Compare::C32(function, self.narrow(a, ty)?, self.narrow(b, ty)?)),
            Some(CompareFn::Wide(function)) => Ok(Compare::C64(function, self.wide(a, ty)?, self.wide(b, ty)?)),
            None => self.refuse(unknown),
        }
    }

    fn combination(&self, words: &mut Words) -> Option<Bool> {
        words.one_of(&["and", "or", "xor"]).map(|word| match word {
            "and" => Bool::And,
            "or" => Bool::Or,
            _ => Bool::Xor,
        })
    }

    pub(super) fn setp(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let ftz = words.take("ftz");
        let op = self.combination(words);
        let ty = words.ty().map_err(|message| (self.span, message))?;
        let (target, a, b, c) = match (operands, op) {
            ([target, a, b], None) => (target, a, b, None),
            ([target, a, b, c], Some(op)) => (target, a, b, Some((op, self.predicate(c)?))),
            _ => {
                return self
                    .refuse("expected a destination, two operands, and a predicate where there is and, or, xor");
            }
        };
        let (dst, not) = match target {
            Operand::Pair(dst, not) => (self.predicate_dst(dst)?, self.predicate_dst(not)?),
            dst => (self.predicate_dst(dst)?, None),
        };
        let compare = self.compare(words, a, b, ty)?;
        Ok(Op::Set { compare, combine: c, dst, not, ftz })
    }

    /// `set`: all ones or 1.0 where the comparison holds. Made of a comparison and a selection: not in common use.
    pub(super) fn set(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        self.refuse(format!(
            "the emulator does not know `{}` of {} operands: use setp and selp",
            words.mnemonic(),
            operands.len()
        ))
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
        let alu = match (ty.bits(), by) {
            (16, Ty::S(32)) | (32, Ty::S(32)) => {
                Alu::F3(f!(u32, u32, i32 => u32; |a, b, c| if c >= 0 { a } else { b }))
            }
            // Flushed, a negative denormal is −0, which is not under zero.
            (32, Ty::F32) if ftz => {
                Alu::F3(f!(u32, u32, u32 => u32; |a, b, c| if f32::from_bits(flush(c)) >= 0.0 { a } else { b }))
            }
            (32, Ty::F32) => Alu::F3(f!(u32, u32, f32 => u32; |a, b, c| if c >= 0.0 { a } else { b })),
            _ => return self.refuse(format!("the emulator does not know `{}`", words.mnemonic())),
        };
        let src = [self.narrow(a, ty)?, self.narrow(b, ty)?, self.narrow(c, by)?, 0];
        Ok(Op::Alu { alu, dst: self.narrow_dst(dst, ty.bits())?, src, ftz: Flush::NONE, sat: false })
    }
}
