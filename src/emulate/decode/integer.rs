//! Integer instructions beyond plain arithmetic: saturation, carries, 24-bit products, dot products of bytes, masks.

use super::words::{Ty, Words};
use super::{Decoder, Fault, Width};
use crate::emulate::alu::{Alu, f, pair};
use crate::emulate::program::{CarryFn, Flush, Op};
use crate::ptx::model::Operand;

/// A 24-bit reading of a word.
macro_rules! low24 {
    (u32, $a:expr) => {
        $a & 0xff_ffff
    };
    (i32, $a:expr) => {
        $a << 8 >> 8
    };
}

/// The upper half of a product, in the type that holds it whole.
macro_rules! upper {
    ($ty:ty, $twice:ty, $a:expr, $b:expr) => {
        ((<$twice>::from($a) * <$twice>::from($b)) >> <$ty>::BITS) as $ty
    };
}

/// `mul.hi` and its like with an addend, and 24-bit products.
pub(super) fn multiply(opcode: &str, part: &str, ty: Ty) -> Option<Alu> {
    macro_rules! mad_high {
        ($variant:ident, $ty:ty, $twice:ty) => {
            Alu::$variant(f!($ty, $ty, $ty => $ty; |a, b, c| upper!($ty, $twice, a, b).wrapping_add(c)))
        };
    }
    macro_rules! by_24_bits {
        ($ty:tt, $twice:ty) => {
            match (opcode, part) {
                ("mul24", "lo") => Alu::F2(f!($ty, $ty => $ty; |a, b| (low24!($ty, a)).wrapping_mul(low24!($ty, b)))),
                ("mul24", "hi") => Alu::F2(f!($ty, $ty => $ty; |a, b|
                    ((<$twice>::from(low24!($ty, a)) * <$twice>::from(low24!($ty, b))) >> 16) as $ty)),
                ("mad24", "lo") => Alu::F3(f!($ty, $ty, $ty => $ty; |a, b, c|
                    (low24!($ty, a)).wrapping_mul(low24!($ty, b)).wrapping_add(c))),
                ("mad24", "hi") => Alu::F3(f!($ty, $ty, $ty => $ty; |a, b, c|
                    (((<$twice>::from(low24!($ty, a)) * <$twice>::from(low24!($ty, b))) >> 16) as $ty).wrapping_add(c))),
                _ => return None,
            }
        };
    }
    Some(match (opcode, part, ty) {
        ("mad", "hi", Ty::U(16)) => mad_high!(F3, u16, u32),
        ("mad", "hi", Ty::S(16)) => mad_high!(F3, i16, i32),
        ("mad", "hi", Ty::U(32)) => mad_high!(F3, u32, u64),
        ("mad", "hi", Ty::S(32)) => mad_high!(F3, i32, i64),
        ("mad", "hi", Ty::U(64)) => mad_high!(W3, u64, u128),
        ("mad", "hi", Ty::S(64)) => mad_high!(W3, i64, i128),
        ("mul24" | "mad24", _, Ty::U(32)) => by_24_bits!(u32, u64),
        ("mul24" | "mad24", _, Ty::S(32)) => by_24_bits!(i32, i64),
        _ => return None,
    })
}

/// Forms with `.sat` and `.relu`.
pub(super) fn modified(opcode: &str, part: Option<&str>, ty: Ty, sat: bool, relu: bool) -> Option<Alu> {
    Some(match (opcode, part, ty, sat, relu) {
        ("add", None, Ty::S(32), true, false) => Alu::F2(f!(i32, i32 => i32; |a, b| a.saturating_add(b))),
        ("sub", None, Ty::S(32), true, false) => Alu::F2(f!(i32, i32 => i32; |a, b| a.saturating_sub(b))),
        ("mad", Some("hi"), Ty::S(32), true, false) => {
            Alu::F3(f!(i32, i32, i32 => i32; |a, b, c| upper!(i32, i64, a, b).saturating_add(c)))
        }
        ("mad24", Some("hi"), Ty::S(32), true, false) => Alu::F3(f!(i32, i32, i32 => i32; |a, b, c|
            (((i64::from(low24!(i32, a)) * i64::from(low24!(i32, b))) >> 16) as i32).saturating_add(c))),
        ("min", None, Ty::S(32), false, true) => Alu::F2(f!(i32, i32 => i32; |a, b| a.min(b).max(0))),
        ("max", None, Ty::S(32), false, true) => Alu::F2(f!(i32, i32 => i32; |a, b| a.max(b).max(0))),
        ("min", None, Ty::S16x2, false, true) => {
            Alu::F2(f!([i16; 2], [i16; 2] => [i16; 2]; |a, b| pair(a, b, |a: i16, b: i16| a.min(b).max(0))))
        }
        ("max", None, Ty::S16x2, false, true) => {
            Alu::F2(f!([i16; 2], [i16; 2] => [i16; 2]; |a, b| pair(a, b, |a: i16, b: i16| a.max(b).max(0))))
        }
        _ => return None,
    })
}

/// The bytes of a word from byte `first`, `count` of them, read as signed or not.
fn bytes(word: u32, first: usize, signed: bool) -> impl Iterator<Item = i32> {
    word.to_le_bytes().into_iter().skip(first).map(move |byte| if signed { (byte as i8).into() } else { byte.into() })
}

/// The halves of a word.
fn halves(word: u32, signed: bool) -> impl Iterator<Item = i32> {
    [word as u16, (word >> 16) as u16]
        .into_iter()
        .map(move |half| if signed { (half as i16).into() } else { half.into() })
}

/// c and the products of `x` and `y`, place by place.
fn dot(x: impl Iterator<Item = i32>, y: impl Iterator<Item = i32>, c: u32) -> u32 {
    x.zip(y).fold(c, |sum, (x, y)| sum.wrapping_add(x.wrapping_mul(y) as u32))
}

/// `bmsk`: ones from bit `start`, `length` of them.
fn bit_mask(start: u32, length: u32, clamps: bool) -> u32 {
    if clamps && start >= 32 {
        return 0;
    }
    let start = start & 31;
    let length = if clamps { length } else { length & 31 };
    let ones = if length >= 32 { u32::MAX } else { (1 << length) - 1 };
    ones << start
}

/// `szext`: the lowest `length` bits, extended by zeros or by their sign.
fn extend(value: u32, length: u32, signed: bool, clamps: bool) -> u32 {
    let length = match length {
        32.. if clamps => return value,
        length => length & 31,
    };
    let mask = (1 << length) - 1;
    let negative = signed && length > 0 && value >> (length - 1) & 1 == 1;
    if negative { value | !mask } else { value & mask }
}

/// What a carry instruction computes, by opcode, part of the product, and type.
fn carry_function(opcode: &str, part: Option<&str>, ty: Ty) -> Option<CarryFn> {
    macro_rules! of {
        ($ty:ty, $signed:ty, $twice:ty, $signed_twice:ty) => {{
            const BITS: u32 = <$ty>::BITS;
            const MASK: u128 = <$ty>::MAX as u128;
            match (opcode, part) {
                ("add", None) => |[a, b, _], carry| {
                    let sum = (a as $ty as u128) + (b as $ty as u128) + u128::from(carry);
                    ((sum & MASK) as u64, sum >> BITS != 0)
                },
                ("sub", None) => |[a, b, _], borrow| {
                    let difference = (a as $ty as i128) - (b as $ty as i128) - i128::from(borrow);
                    (difference as $ty as u64, difference < 0)
                },
                ("mad", Some("lo")) => |[a, b, c], carry| {
                    let product = (a as $ty).wrapping_mul(b as $ty);
                    let sum = product as u128 + (c as $ty as u128) + u128::from(carry);
                    ((sum & MASK) as u64, sum >> BITS != 0)
                },
                ("mad", Some("hi")) if matches!(ty, Ty::U(_)) => |[a, b, c], carry| {
                    let product = ((a as $ty as $twice) * (b as $ty as $twice)) >> BITS;
                    let sum = product as u128 + (c as $ty as u128) + u128::from(carry);
                    ((sum & MASK) as u64, sum >> BITS != 0)
                },
                ("mad", Some("hi")) => |[a, b, c], carry| {
                    let product = ((a as $signed as $signed_twice) * (b as $signed as $signed_twice)) >> BITS;
                    let sum = product as $ty as u128 + (c as $ty as u128) + u128::from(carry);
                    ((sum & MASK) as u64, sum >> BITS != 0)
                },
                _ => return None,
            }
        }};
    }
    Some(match ty {
        Ty::U(32) | Ty::S(32) => of!(u32, i32, u64, i64),
        Ty::U(64) | Ty::S(64) => of!(u64, i64, u128, i128),
        _ => return None,
    })
}

impl Decoder {
    /// `add`, `sub` and `mad` that read the carry flag, write it, or both.
    pub(super) fn carried(&mut self, opcode: &str, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let writes = words.take("cc");
        let reads = opcode.ends_with('c');
        let part = words.one_of(&["hi", "lo"]);
        let ty = words.ty().map_err(|message| (self.span, message))?;
        let Some(function) = carry_function(opcode.trim_end_matches('c'), part, ty) else {
            return self.refuse(format!("the emulator does not know `{}`", words.mnemonic()));
        };
        let [dst, sources @ ..] = operands else { return self.refuse("expected operands") };
        if sources.len() != if part.is_some() { 3 } else { 2 } {
            return self.refuse(format!("expected a destination and its operands, found {}", operands.len()));
        }
        let mut src = Vec::with_capacity(3);
        for operand in sources {
            src.push(self.src(operand, ty)?);
        }
        // The flag is a predicate that no text can name.
        let flag = match self.carry_flag {
            Some(flag) => flag,
            None => {
                let Some(flag) = self.new_slot(Width::Predicate) else { return self.refuse("too many registers") };
                *self.carry_flag.insert(flag)
            }
        };
        let dst = self.dst(dst, ty)?;
        Ok(Op::Carry { function, dst, src, takes: reads.then_some(flag), gives: writes.then_some(flag) })
    }

    /// `dp4a`, `dp2a`, `bmsk` and `szext`.
    pub(super) fn fields(&mut self, opcode: &str, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let option = words.one_of(&["lo", "hi", "clamp", "wrap"]);
        let ty = words.ty().map_err(|message| (self.span, message))?;
        let second = words.ty().ok();
        macro_rules! three {
            (|$a:ident, $b:ident, $c:ident| $e:expr) => {
                Some(Alu::F3(f!(u32, u32, u32 => u32; |$a, $b, $c| $e)))
            };
        }
        macro_rules! two {
            (|$a:ident, $b:ident| $e:expr) => {
                Some(Alu::F2(f!(u32, u32 => u32; |$a, $b| $e)))
            };
        }
        macro_rules! signs {
            ($x:ident, $y:ident, $first:expr) => {
                match (ty, second) {
                    (Ty::U(32), Some(Ty::U(32))) => three!(|a, b, c| dot($x!(a, false), $y(b, $first, false), c)),
                    (Ty::U(32), Some(Ty::S(32))) => three!(|a, b, c| dot($x!(a, false), $y(b, $first, true), c)),
                    (Ty::S(32), Some(Ty::U(32))) => three!(|a, b, c| dot($x!(a, true), $y(b, $first, false), c)),
                    (Ty::S(32), Some(Ty::S(32))) => three!(|a, b, c| dot($x!(a, true), $y(b, $first, true), c)),
                    _ => None,
                }
            };
        }
        macro_rules! all_bytes {
            ($a:ident, $signed:expr) => {
                bytes($a, 0, $signed)
            };
        }
        macro_rules! both_halves {
            ($a:ident, $signed:expr) => {
                halves($a, $signed)
            };
        }
        let alu = match (opcode, option, ty) {
            ("dp4a", None, _) => signs!(all_bytes, bytes, 0),
            ("dp2a", Some("lo"), _) => signs!(both_halves, bytes, 0),
            ("dp2a", Some("hi"), _) => signs!(both_halves, bytes, 2),
            ("bmsk", Some("clamp"), Ty::B(32)) => two!(|a, b| bit_mask(a, b, true)),
            ("bmsk", Some("wrap"), Ty::B(32)) => two!(|a, b| bit_mask(a, b, false)),
            ("szext", Some("clamp"), Ty::U(32)) => two!(|a, b| extend(a, b, false, true)),
            ("szext", Some("wrap"), Ty::U(32)) => two!(|a, b| extend(a, b, false, false)),
            ("szext", Some("clamp"), Ty::S(32)) => two!(|a, b| extend(a, b, true, true)),
            ("szext", Some("wrap"), Ty::S(32)) => two!(|a, b| extend(a, b, true, false)),
            _ => None,
        };
        let Some(alu) = alu else { return self.refuse(format!("the emulator does not know `{}`", words.mnemonic())) };
        let count = if matches!(alu, Alu::F2(_)) { 2 } else { 3 };
        if operands.len() != count + 1 {
            return self.refuse(format!("expected {} operands, found {}", count + 1, operands.len()));
        }
        let mut src = [0; 4];
        for (slot, operand) in src.iter_mut().zip(&operands[1..]) {
            *slot = self.narrow(operand, Ty::U(32))?;
        }
        Ok(Op::Alu { alu, dst: self.narrow_dst(&operands[0], 32)?, src, ftz: Flush::NONE, sat: false })
    }
}
