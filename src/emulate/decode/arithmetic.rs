//! Integer and bit arithmetic, and the shape that all arithmetic shares.

use super::halves::Modifiers;
use super::words::{Ty, Words};
use super::{Decoder, Fault};
use crate::emulate::alu::{Alu, extract, f, insert, insert_lanes, lop3_lanes, multiply_flushing, pair, permute};
use crate::emulate::program::{Bool, Flush, Op};
use crate::ptx::model::{Immediate, Operand};

/// A two-operand function for each integer type; for the bitwise ones of `.b` types with `bits`.
macro_rules! integers {
    ($ty:expr; |$a:ident, $b:ident| $e:expr) => {
        match $ty {
            Ty::U(16) => Some(Alu::F2(f!(u16, u16 => u16; |$a, $b| $e))),
            Ty::S(16) => Some(Alu::F2(f!(i16, i16 => i16; |$a, $b| $e))),
            Ty::U(32) => Some(Alu::F2(f!(u32, u32 => u32; |$a, $b| $e))),
            Ty::S(32) => Some(Alu::F2(f!(i32, i32 => i32; |$a, $b| $e))),
            Ty::U(64) => Some(Alu::W2(f!(u64, u64 => u64; |$a, $b| $e))),
            Ty::S(64) => Some(Alu::W2(f!(i64, i64 => i64; |$a, $b| $e))),
            _ => None,
        }
    };
    (bits $ty:expr; |$a:ident, $b:ident| $e:expr) => {
        match $ty {
            Ty::B(16) => Some(Alu::F2(f!(u16, u16 => u16; |$a, $b| $e))),
            Ty::B(32) => Some(Alu::F2(f!(u32, u32 => u32; |$a, $b| $e))),
            Ty::B(64) => Some(Alu::W2(f!(u64, u64 => u64; |$a, $b| $e))),
            _ => None,
        }
    };
}

/// How the operands of an instruction lie in the banks.
#[derive(Clone, Copy)]
enum Source {
    /// Of the instruction's type.
    Own,
    /// 32 bits whatever the type: shift counts, field positions.
    Word,
    /// 64 bits: the addend of a widening multiply-add.
    Double,
    /// A half where the result is a single.
    Half,
}

impl Decoder {
    pub(super) fn arithmetic(&mut self, opcode: &str, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        if matches!(opcode, "and" | "or" | "xor" | "not") && words.take("pred") {
            return self.logic(opcode, operands);
        }
        if matches!(opcode, "prmt" | "lop3") {
            return self.bytes_and_tables(opcode, words, operands);
        }
        let with = Modifiers::take(words);
        let (ftz, sat) = (with.ftz, with.sat);
        let part = words.one_of(&["wide", "hi", "lo"]);
        let rounding = words.one_of(&["rn", "rz", "rm", "rp", "approx", "full"]);
        let option = words.one_of(&["shiftamt", "l", "r"]);
        let wrap = words.one_of(&["wrap", "clamp"]);
        let ty = words.ty().map_err(|message| (self.span, message))?;
        // Behind `.f32`: the operands that are halves.
        let mixed = if ty == Ty::F32 && matches!(opcode, "add" | "sub" | "fma") {
            words.find(|word| Ty::parse(word).filter(|ty| matches!(ty, Ty::F16 | Ty::Bf16)))
        } else {
            None
        };
        let unknown = |decoder: &Self| decoder.refuse(format!("the emulator does not know `{}`", words.mnemonic()));
        let is_half = matches!(ty, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2);
        let is_modified_half = is_half && (with != Modifiers::default() || matches!(opcode, "ex2" | "tanh"));
        let integer = matches!(ty, Ty::U(_) | Ty::S(_) | Ty::B(_) | Ty::U16x2 | Ty::S16x2);
        // What has a function of its own for a modifier has it done there; flushing and saturation of singles is the warp's.
        let known = match ty {
            Ty::F32 => !with.relu && (!sat || matches!(opcode, "add" | "sub" | "mul" | "fma" | "mad")),
            Ty::F32x2 => !with.relu && !sat && with.extreme == 0,
            _ if integer => !ftz && with.extreme == 0,
            Ty::F64 if rounding == Some("approx") => with == Modifiers { ftz, ..Modifiers::default() },
            _ => is_half || with == Modifiers::default(),
        };
        if !known {
            return unknown(self);
        }
        let found = if let Some(half) = mixed {
            // Neither flushes nor takes anything but what follows.
            let plain = with == (Modifiers { sat, ..Modifiers::default() }) && part.is_none() && option.is_none();
            let alu = super::float::mixed(opcode, rounding, half).filter(|_| plain);
            alu.map(|alu| match alu {
                Alu::F3(_) => (alu, [Source::Half, Source::Half, Source::Own, Source::Own]),
                _ => (alu, [Source::Half, Source::Own, Source::Own, Source::Own]),
            })
        } else if integer && (sat || with.relu) {
            super::integer::modified(opcode, part, ty, sat, with.relu).map(|alu| (alu, [Source::Own; 4]))
        } else if integer {
            integer_alu(opcode, part, option.or(wrap), ty)
        } else if part.is_some() || option.is_some() {
            None
        } else {
            let alu = match ty {
                _ if is_modified_half => super::halves::alu(opcode, rounding, ty, with),
                Ty::F32 if with.extreme != 0 => super::halves::singles(opcode, with.extreme),
                Ty::F32x2 => super::float::packed(opcode, rounding, ftz),
                _ if let Some(mode @ ("rz" | "rm" | "rp")) = rounding => super::directed::alu(opcode, mode, ty, ftz),
                Ty::F32 if ftz && opcode == "mul" && matches!(rounding, None | Some("rn")) => {
                    Some(Alu::F2(f!(f32, f32 => f32; |a, b| multiply_flushing(a, b))))
                }
                _ => super::float::alu(opcode, rounding, ty, ftz),
            };
            alu.map(|alu| (alu, [Source::Own; 4]))
        };
        let found = match (found, opcode, option) {
            (None, "shf", Some(direction)) => funnel(direction, wrap, ty),
            (found, ..) => found,
        };
        let Some((alu, sources)) = found else { return unknown(self) };
        // Of a pair the half that nothing defined may be shifted away.
        if let ("shr", Ty::B(64) | Ty::U(64), [dst, src @ Operand::Name(_), by]) = (opcode, ty, operands)
            && let Some(bytes) = whole_bytes(by)
        {
            let dst = self.dst(dst, ty)?;
            let src = self.src(src, ty)?;
            return Ok(dst.map_or(Op::Nothing, |dst| Op::Bytes { dst, src, first: bytes, count: 8 - bytes }));
        }
        let count = match alu {
            Alu::F1(_) | Alu::W1(_) | Alu::G1(_) | Alu::K1(_) => 1,
            Alu::F2(_) | Alu::W2(_) | Alu::G2(_) | Alu::S64(_) => 2,
            Alu::F3(_) | Alu::W3(_) | Alu::G3(_) | Alu::B64(_) | Alu::C64(_) => 3,
            Alu::F4(_) | Alu::I64(_) => 4,
        };
        if operands.len() != count + 1 {
            return self.refuse(format!("expected {} operands, found {}", count + 1, operands.len()));
        }
        let mut src = [0; 4];
        for (place, operand) in operands[1..].iter().enumerate() {
            src[place] = match sources[place] {
                Source::Own if ty.bits() == 64 => self.wide(operand, ty)?,
                Source::Own => self.narrow(operand, ty)?,
                Source::Word => self.narrow(operand, Ty::U(32))?,
                Source::Double => self.wide(operand, ty)?,
                Source::Half => self.narrow(operand, mixed.unwrap_or(ty))?,
            };
        }
        let dst = match alu {
            Alu::F1(_) | Alu::F2(_) | Alu::F3(_) | Alu::F4(_) => {
                let doubled = part == Some("wide") && ty.bits() == 16;
                self.narrow_dst(&operands[0], if doubled { 32 } else { ty.bits() })?
            }
            Alu::K1(_) => self.narrow_dst(&operands[0], 32)?,
            _ => self.wide_dst(&operands[0])?,
        };
        // Halves, packed singles and integers do that for themselves.
        let (ftz, sat) = (ftz && ty == Ty::F32, sat && ty == Ty::F32);
        Ok(Op::Alu { alu, dst, src, ftz: Flush { operands: ftz, result: ftz }, sat })
    }

    fn logic(&mut self, opcode: &str, operands: &[Operand]) -> Result<Op, Fault> {
        let (op, dst, a, b) = match (opcode, operands) {
            ("not", [dst, a]) => {
                let a = self.predicate(&Operand::Not(Box::new(a.clone())))?;
                (Bool::And, dst, a, a)
            }
            (_, [dst, a, b]) => {
                let op = match opcode {
                    "and" => Bool::And,
                    "or" => Bool::Or,
                    _ => Bool::Xor,
                };
                (op, dst, self.predicate(a)?, self.predicate(b)?)
            }
            _ => return self.refuse("expected a destination and its operands"),
        };
        match self.predicate_dst(dst)? {
            Some(dst) => Ok(Op::Logic { op, dst, a, b }),
            None => Ok(Op::Nothing),
        }
    }

    fn bytes_and_tables(&mut self, opcode: &str, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        words.take("b32");
        let ty = Ty::B(32);
        if opcode == "prmt" {
            let mode = words.one_of(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]);
            let [dst, a, b, c] = self.exactly::<4>(operands)?;
            let alu = Alu::F3(match mode {
                None => f!(u32, u32, u32 => u32; |a, b, c| permute(a, b, c)),
                Some("f4e") => {
                    f!(u32, u32, u32 => u32; |a, b, c| permute(a, b, [0x3210, 0x4321, 0x5432, 0x6543][(c & 3) as usize]))
                }
                Some("b4e") => {
                    f!(u32, u32, u32 => u32; |a, b, c| permute(a, b, [0x5670, 0x6701, 0x7012, 0x0123][(c & 3) as usize]))
                }
                Some("rc8") => {
                    f!(u32, u32, u32 => u32; |a, b, c| permute(a, b, [0x0000, 0x1111, 0x2222, 0x3333][(c & 3) as usize]))
                }
                Some("ecl") => {
                    f!(u32, u32, u32 => u32; |a, b, c| permute(a, b, [0x3210, 0x3211, 0x3222, 0x3333][(c & 3) as usize]))
                }
                Some("ecr") => {
                    f!(u32, u32, u32 => u32; |a, b, c| permute(a, b, [0x0000, 0x1110, 0x2210, 0x3210][(c & 3) as usize]))
                }
                Some(_) => {
                    f!(u32, u32, u32 => u32; |a, b, c| permute(a, b, [0x1010, 0x3232, 0x1010, 0x3232][(c & 3) as usize]))
                }
            });
            // What no selector names need not be defined: LLVM leaves there whatever is at hand.
            let (a, b) = match (mode, c) {
                (None, &Operand::Immediate(Immediate::Int(selectors))) => selected(selectors as u64, a, b),
                (None, &Operand::Immediate(Immediate::UInt(selectors))) => selected(selectors, a, b),
                _ => (a, b),
            };
            let src = [self.narrow(a, ty)?, self.narrow(b, ty)?, self.narrow(c, ty)?, 0];
            return Ok(Op::Alu { alu, dst: self.narrow_dst(dst, 32)?, src, ftz: Flush::NONE, sat: false });
        }
        let [dst, a, b, c, Operand::Immediate(Immediate::Int(table))] = operands else {
            return self.refuse("expected a destination, three operands and a table as a literal");
        };
        if !(0..256).contains(table) {
            return self.refuse(format!("the table {table} is not from 0 to 255"));
        }
        // The table is folded in as a fourth operand's constant: a function for each of 256 would be no faster to run.
        let (a, b, c) = (self.narrow(a, ty)?, self.narrow(b, ty)?, self.narrow(c, ty)?);
        let table = self.constant32(*table as u32)?;
        let dst = self.narrow_dst(dst, 32)?;
        Ok(Op::Alu { alu: Alu::F4(lop3_lanes), dst, src: [a, b, c, table], ftz: Flush::NONE, sat: false })
    }
}

/// How many bytes a literal number of bits is, of those that leave something of 64.
fn whole_bytes(by: &Operand) -> Option<u32> {
    let bits = match by {
        Operand::Immediate(Immediate::Int(bits)) => u32::try_from(*bits).ok()?,
        Operand::Immediate(Immediate::UInt(bits)) => u32::try_from(*bits).ok()?,
        _ => return None,
    };
    (bits.is_multiple_of(8) && (8..64).contains(&bits)).then_some(bits / 8)
}

/// The operands of `prmt` that its selectors name; where they name one alone, it is both.
fn selected<'a>(selectors: u64, a: &'a Operand, b: &'a Operand) -> (&'a Operand, &'a Operand) {
    match selectors & 0x4444 {
        0 => (a, a),
        0x4444 => (b, b),
        _ => (a, b),
    }
}

fn funnel(direction: &str, wrap: Option<&str>, ty: Ty) -> Option<(Alu, [Source; 4])> {
    if ty != Ty::B(32) {
        return None;
    }
    let alu = Alu::F3(match (direction, wrap) {
        ("l", Some("wrap")) => {
            f!(u32, u32, u32 => u32; |a, b, c| ((u64::from(b) << 32 | u64::from(a)) << (c & 31) >> 32) as u32)
        }
        ("l", Some("clamp")) => {
            f!(u32, u32, u32 => u32; |a, b, c| ((u64::from(b) << 32 | u64::from(a)) << c.min(32) >> 32) as u32)
        }
        ("r", Some("wrap")) => {
            f!(u32, u32, u32 => u32; |a, b, c| ((u64::from(b) << 32 | u64::from(a)) >> (c & 31)) as u32)
        }
        ("r", Some("clamp")) => {
            f!(u32, u32, u32 => u32; |a, b, c| ((u64::from(b) << 32 | u64::from(a)) >> c.min(32)) as u32)
        }
        _ => return None,
    });
    Some((alu, [Source::Own; 4]))
}

fn integer_alu(opcode: &str, part: Option<&str>, option: Option<&str>, ty: Ty) -> Option<(Alu, [Source; 4])> {
    let own = |alu: Option<Alu>| alu.map(|alu| (alu, [Source::Own; 4]));
    let shift = |alu: Option<Alu>| alu.map(|alu| (alu, [Source::Own, Source::Word, Source::Word, Source::Word]));
    match (opcode, part, option) {
        (_, None, None) if matches!(ty, Ty::U16x2 | Ty::S16x2) => own(pairs(opcode, ty)),
        ("mul" | "mad" | "mul24" | "mad24", Some(part), None) => multiply(opcode, part, ty),
        (_, Some(_), _) => None,
        ("add", ..) => own(integers!(ty; |a, b| a.wrapping_add(b))),
        ("sub", ..) => own(integers!(ty; |a, b| a.wrapping_sub(b))),
        // Division by zero has all bits set, as the hardware gives it; PTX leaves it open.
        ("div", ..) => own(integers!(ty; |a, b| if b == 0 { !0 } else { a.wrapping_div(b) })),
        ("rem", ..) => own(integers!(ty; |a, b| if b == 0 { !0 } else { a.wrapping_rem(b) })),
        ("min", ..) => own(integers!(ty; |a, b| a.min(b))),
        ("max", ..) => own(integers!(ty; |a, b| a.max(b))),
        ("and", ..) => own(integers!(bits ty; |a, b| a & b)),
        ("or", ..) => own(integers!(bits ty; |a, b| a | b)),
        ("xor", ..) => own(integers!(bits ty; |a, b| a ^ b)),
        ("abs", ..) => own(match ty {
            Ty::S(16) => Some(Alu::F1(f!(i16 => i16; |a| a.wrapping_abs()))),
            Ty::S(32) => Some(Alu::F1(f!(i32 => i32; |a| a.wrapping_abs()))),
            Ty::S(64) => Some(Alu::W1(f!(i64 => i64; |a| a.wrapping_abs()))),
            _ => None,
        }),
        ("neg", ..) => own(match ty {
            Ty::S(16) => Some(Alu::F1(f!(i16 => i16; |a| a.wrapping_neg()))),
            Ty::S(32) => Some(Alu::F1(f!(i32 => i32; |a| a.wrapping_neg()))),
            Ty::S(64) => Some(Alu::W1(f!(i64 => i64; |a| a.wrapping_neg()))),
            _ => None,
        }),
        ("not", ..) => own(match ty {
            Ty::B(16) => Some(Alu::F1(f!(u16 => u16; |a| !a))),
            Ty::B(32) => Some(Alu::F1(f!(u32 => u32; |a| !a))),
            Ty::B(64) => Some(Alu::W1(f!(u64 => u64; |a| !a))),
            _ => None,
        }),
        ("cnot", ..) => own(match ty {
            Ty::B(16) => Some(Alu::F1(f!(u16 => u16; |a| u16::from(a == 0)))),
            Ty::B(32) => Some(Alu::F1(f!(u32 => u32; |a| u32::from(a == 0)))),
            Ty::B(64) => Some(Alu::W1(f!(u64 => u64; |a| u64::from(a == 0)))),
            _ => None,
        }),
        ("sad", ..) => own(match ty {
            Ty::U(16) => Some(Alu::F3(f!(u16, u16, u16 => u16; |a, b, c| c.wrapping_add(a.abs_diff(b))))),
            Ty::S(16) => Some(Alu::F3(f!(i16, i16, i16 => i16; |a, b, c| c.wrapping_add(a.abs_diff(b) as i16)))),
            Ty::U(32) => Some(Alu::F3(f!(u32, u32, u32 => u32; |a, b, c| c.wrapping_add(a.abs_diff(b))))),
            Ty::S(32) => Some(Alu::F3(f!(i32, i32, i32 => i32; |a, b, c| c.wrapping_add(a.abs_diff(b) as i32)))),
            Ty::U(64) => Some(Alu::W3(f!(u64, u64, u64 => u64; |a, b, c| c.wrapping_add(a.abs_diff(b))))),
            Ty::S(64) => Some(Alu::W3(f!(i64, i64, i64 => i64; |a, b, c| c.wrapping_add(a.abs_diff(b) as i64)))),
            _ => None,
        }),
        // Counts beyond the width shift everything out.
        ("shl", ..) => shift(match ty {
            Ty::B(16) => Some(Alu::F2(f!(u16, u32 => u16; |a, n| if n < 16 { a << n } else { 0 }))),
            Ty::B(32) => Some(Alu::F2(f!(u32, u32 => u32; |a, n| if n < 32 { a << n } else { 0 }))),
            Ty::B(64) => Some(Alu::S64(f!(u64, u32 => u64; |a, n| if n < 64 { a << n } else { 0 }))),
            _ => None,
        }),
        ("shr", ..) => shift(match ty {
            Ty::B(16) | Ty::U(16) => Some(Alu::F2(f!(u16, u32 => u16; |a, n| if n < 16 { a >> n } else { 0 }))),
            Ty::S(16) => Some(Alu::F2(f!(i16, u32 => i16; |a, n| a >> n.min(15)))),
            Ty::B(32) | Ty::U(32) => Some(Alu::F2(f!(u32, u32 => u32; |a, n| if n < 32 { a >> n } else { 0 }))),
            Ty::S(32) => Some(Alu::F2(f!(i32, u32 => i32; |a, n| a >> n.min(31)))),
            Ty::B(64) | Ty::U(64) => Some(Alu::S64(f!(u64, u32 => u64; |a, n| if n < 64 { a >> n } else { 0 }))),
            Ty::S(64) => Some(Alu::S64(f!(i64, u32 => i64; |a, n| a >> n.min(63)))),
            _ => None,
        }),
        ("bfe", ..) => shift(match ty {
            Ty::U(32) => Some(Alu::F3(f!(u32, u32, u32 => u32; |a, s, n| extract(a.into(), s, n, 32, false) as u32))),
            Ty::S(32) => Some(Alu::F3(f!(u32, u32, u32 => u32; |a, s, n| extract(a.into(), s, n, 32, true) as u32))),
            Ty::U(64) => Some(Alu::B64(f!(u64, u32, u32 => u64; |a, s, n| extract(a, s, n, 64, false)))),
            Ty::S(64) => Some(Alu::B64(f!(u64, u32, u32 => u64; |a, s, n| extract(a, s, n, 64, true)))),
            _ => None,
        }),
        ("bfi", ..) => match ty {
            Ty::B(32) => Some((Alu::F4(insert_lanes), [Source::Own, Source::Own, Source::Word, Source::Word])),
            Ty::B(64) => {
                fn run(a: &[u64; 32], b: &[u64; 32], s: &[u32; 32], n: &[u32; 32], out: &mut [u64; 32]) {
                    for lane in 0..32 {
                        out[lane] = insert(a[lane], b[lane], s[lane], n[lane], 64);
                    }
                }
                Some((Alu::I64(run), [Source::Own, Source::Own, Source::Word, Source::Word]))
            }
            _ => None,
        },
        ("brev", ..) => own(match ty {
            Ty::B(32) => Some(Alu::F1(f!(u32 => u32; |a| a.reverse_bits()))),
            Ty::B(64) => Some(Alu::W1(f!(u64 => u64; |a| a.reverse_bits()))),
            _ => None,
        }),
        ("clz", ..) => own(match ty {
            Ty::B(32) => Some(Alu::F1(f!(u32 => u32; |a| a.leading_zeros()))),
            Ty::B(64) => Some(Alu::K1(f!(u64 => u32; |a| a.leading_zeros()))),
            _ => None,
        }),
        ("popc", ..) => own(match ty {
            Ty::B(32) => Some(Alu::F1(f!(u32 => u32; |a| a.count_ones()))),
            Ty::B(64) => Some(Alu::K1(f!(u64 => u32; |a| a.count_ones()))),
            _ => None,
        }),
        ("bfind", None, option) => own(find_bit(option == Some("shiftamt"), ty)),
        _ => None,
    }
}

/// Sums and extremes of two 16-bit integers at once.
fn pairs(opcode: &str, ty: Ty) -> Option<Alu> {
    Some(match (opcode, ty) {
        ("add", Ty::U16x2 | Ty::S16x2) => {
            Alu::F2(f!([u16; 2], [u16; 2] => [u16; 2]; |a, b| pair(a, b, u16::wrapping_add)))
        }
        ("min", Ty::U16x2) => Alu::F2(f!([u16; 2], [u16; 2] => [u16; 2]; |a, b| pair(a, b, u16::min))),
        ("max", Ty::U16x2) => Alu::F2(f!([u16; 2], [u16; 2] => [u16; 2]; |a, b| pair(a, b, u16::max))),
        ("min", Ty::S16x2) => Alu::F2(f!([i16; 2], [i16; 2] => [i16; 2]; |a, b| pair(a, b, i16::min))),
        ("max", Ty::S16x2) => Alu::F2(f!([i16; 2], [i16; 2] => [i16; 2]; |a, b| pair(a, b, i16::max))),
        _ => return None,
    })
}

/// `bfind`: the highest bit that differs from the sign; all ones where there is none.
fn find_bit(shift_amount: bool, ty: Ty) -> Option<Alu> {
    // Signed values are looked at without their sign: !a for negative a.
    Some(match (ty, shift_amount) {
        (Ty::U(32), false) => Alu::F1(f!(u32 => u32; |a| 31_u32.wrapping_sub(a.leading_zeros()))),
        (Ty::U(32), true) => Alu::F1(f!(u32 => u32; |a| if a == 0 { u32::MAX } else { a.leading_zeros() })),
        (Ty::S(32), false) => Alu::F1(f!(i32 => u32; |a| 31_u32.wrapping_sub((a ^ a >> 31).leading_zeros()))),
        (Ty::S(32), true) => {
            Alu::F1(f!(i32 => u32; |a| if a ^ a >> 31 == 0 { u32::MAX } else { (a ^ a >> 31).leading_zeros() }))
        }
        (Ty::U(64), false) => Alu::K1(f!(u64 => u32; |a| 63_u32.wrapping_sub(a.leading_zeros()))),
        (Ty::U(64), true) => Alu::K1(f!(u64 => u32; |a| if a == 0 { u32::MAX } else { a.leading_zeros() })),
        (Ty::S(64), false) => Alu::K1(f!(i64 => u32; |a| 63_u32.wrapping_sub((a ^ a >> 63).leading_zeros()))),
        (Ty::S(64), true) => {
            Alu::K1(f!(i64 => u32; |a| if a ^ a >> 63 == 0 { u32::MAX } else { (a ^ a >> 63).leading_zeros() }))
        }
        _ => return None,
    })
}

fn multiply(opcode: &str, part: &str, ty: Ty) -> Option<(Alu, [Source; 4])> {
    let own = [Source::Own; 4];
    Some(match (opcode, part, ty) {
        ("mul", "lo", _) => (integers!(ty; |a, b| a.wrapping_mul(b))?, own),
        ("mul", "hi", Ty::U(16)) => {
            (Alu::F2(f!(u16, u16 => u16; |a, b| ((u32::from(a) * u32::from(b)) >> 16) as u16)), own)
        }
        ("mul", "hi", Ty::S(16)) => {
            (Alu::F2(f!(i16, i16 => i16; |a, b| ((i32::from(a) * i32::from(b)) >> 16) as i16)), own)
        }
        ("mul", "hi", Ty::U(32)) => {
            (Alu::F2(f!(u32, u32 => u32; |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32)), own)
        }
        ("mul", "hi", Ty::S(32)) => {
            (Alu::F2(f!(i32, i32 => i32; |a, b| ((i64::from(a) * i64::from(b)) >> 32) as i32)), own)
        }
        ("mul", "hi", Ty::U(64)) => {
            (Alu::W2(f!(u64, u64 => u64; |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64)), own)
        }
        ("mul", "hi", Ty::S(64)) => {
            (Alu::W2(f!(i64, i64 => i64; |a, b| ((i128::from(a) * i128::from(b)) >> 64) as i64)), own)
        }
        ("mul", "wide", Ty::U(16)) => (Alu::F2(f!(u16, u16 => u32; |a, b| u32::from(a) * u32::from(b))), own),
        ("mul", "wide", Ty::S(16)) => (Alu::F2(f!(i16, i16 => i32; |a, b| i32::from(a) * i32::from(b))), own),
        ("mul", "wide", Ty::U(32)) => (Alu::G2(f!(u32, u32 => u64; |a, b| u64::from(a) * u64::from(b))), own),
        ("mul", "wide", Ty::S(32)) => (Alu::G2(f!(i32, i32 => i64; |a, b| i64::from(a) * i64::from(b))), own),
        ("mad", "lo", Ty::U(16) | Ty::S(16)) => {
            (Alu::F3(f!(u16, u16, u16 => u16; |a, b, c| a.wrapping_mul(b).wrapping_add(c))), own)
        }
        ("mad", "lo", Ty::U(32) | Ty::S(32)) => {
            (Alu::F3(f!(u32, u32, u32 => u32; |a, b, c| a.wrapping_mul(b).wrapping_add(c))), own)
        }
        ("mad", "lo", Ty::U(64) | Ty::S(64)) => {
            (Alu::W3(f!(u64, u64, u64 => u64; |a, b, c| a.wrapping_mul(b).wrapping_add(c))), own)
        }
        ("mad", "wide", Ty::U(32)) => (
            Alu::G3(f!(u32, u32, u64 => u64; |a, b, c| (u64::from(a) * u64::from(b)).wrapping_add(c))),
            [Source::Own, Source::Own, Source::Double, Source::Own],
        ),
        ("mad", "wide", Ty::S(32)) => (
            Alu::G3(f!(i32, i32, i64 => i64; |a, b, c| (i64::from(a) * i64::from(b)).wrapping_add(c))),
            [Source::Own, Source::Own, Source::Double, Source::Own],
        ),
        ("mad", "wide", Ty::U(16)) => (
            Alu::F3(f!(u16, u16, u32 => u32; |a, b, c| (u32::from(a) * u32::from(b)).wrapping_add(c))),
            [Source::Own, Source::Own, Source::Word, Source::Own],
        ),
        ("mad", "wide", Ty::S(16)) => (
            Alu::F3(f!(i16, i16, i32 => i32; |a, b, c| (i32::from(a) * i32::from(b)).wrapping_add(c))),
            [Source::Own, Source::Own, Source::Word, Source::Own],
        ),
        _ => (super::integer::multiply(opcode, part, ty)?, own),
    })
}
