//! Matrix instructions: `ldmatrix`, `stmatrix`, `mma.sync`, `wgmma`.

use super::words::{Ty, Words};
use super::{Decoder, Fault};
use crate::emulate::program::{Accumulator, Address, Flag, MemorySpace, Op, OperandA, Product, Slot, TensorOp};
use crate::emulate::tensor::Element;
use crate::ptx::model::{Immediate, Operand};

/// `m16n8k8` in three numbers.
fn shape(word: &str) -> Option<[usize; 3]> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

impl Decoder {
    /// The registers of `{a, b, c}`, or of a single one.
    pub(super) fn fragment(&mut self, operand: &Operand) -> Result<Vec<Slot>, Fault> {
        self.listed(operand).iter().map(|register| self.narrow(register, Ty::B(32))).collect()
    }

    pub(super) fn fragment_dst(&mut self, operand: &Operand) -> Result<Vec<Slot>, Fault> {
        self.listed(operand).iter().map(|register| self.narrow_dst(register, 32)).collect()
    }

    pub(super) fn listed<'a>(&self, operand: &'a Operand) -> &'a [Operand] {
        match operand {
            Operand::Vector(registers) => registers,
            single => std::slice::from_ref(single),
        }
    }

    /// The address of shared memory, and whether it is generic.
    pub(super) fn shared_operand(&mut self, words: &mut Words, operand: &Operand) -> Result<(Address, bool), Fault> {
        let explicit = words.one_of(&["shared", "shared::cta", "shared::cluster"]).is_some();
        let space = if explicit { MemorySpace::Shared } else { MemorySpace::Generic };
        Ok((self.address(operand, space)?, !explicit))
    }

    pub(super) fn flag(&mut self, operand: &Operand) -> Result<Flag, Fault> {
        match operand {
            Operand::Immediate(Immediate::Int(value)) => Ok(Flag::Constant(*value != 0)),
            operand => self.predicate(operand).map(Flag::Predicate),
        }
    }

    fn unknown_matrix<T>(&self, words: &Words) -> Result<T, Fault> {
        self.refuse(format!("the emulator does not know `{}`", words.mnemonic()))
    }

    pub(super) fn move_matrix(&mut self, load: bool, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        for word in ["sync", "aligned"] {
            words.take(word);
        }
        let known = words.take("m8n8") && words.take("b16");
        let count = words.one_of(&["x1", "x2", "x4"]);
        let transpose = words.take("trans");
        let (true, Some(count)) = (known, count) else { return self.unknown_matrix(words) };
        let [first, second] = self.exactly::<2>(operands)?;
        let (registers, address) = if load { (first, second) } else { (second, first) };
        let (address, generic) = self.shared_operand(words, address)?;
        let slots = if load { self.fragment_dst(registers)? } else { self.fragment(registers)? };
        let expected = match count {
            "x1" => 1,
            "x2" => 2,
            _ => 4,
        };
        if slots.len() != expected {
            return self.refuse(format!("expected {expected} registers, found {}", slots.len()));
        }
        Ok(Op::Tensor(Box::new(if load {
            TensorOp::LoadMatrix { dst: slots, address, generic, transpose }
        } else {
            TensorOp::StoreMatrix { src: slots, address, generic, transpose }
        })))
    }

    pub(super) fn transpose_matrix(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        for word in ["sync", "aligned", "m8n8", "trans", "b16"] {
            if !words.take(word) {
                return self.unknown_matrix(words);
            }
        }
        let [dst, src] = self.exactly::<2>(operands)?;
        let (dst, src) = (self.narrow_dst(dst, 32)?, self.narrow(src, Ty::B(32))?);
        Ok(Op::Tensor(Box::new(TensorOp::Transpose { dst, src })))
    }

    /// The accumulator and the formats of A and B: modifiers in the order D, A, B, C.
    fn formats(&self, words: &mut Words) -> Option<(Accumulator, Element, Element)> {
        let accumulator = |word: &str| {
            Some(match word {
                "f32" => Accumulator::F32,
                "f16" => Accumulator::F16,
                "s32" => Accumulator::S32,
                "f64" => Accumulator::F64,
                _ => return None,
            })
        };
        let d = words.find(accumulator)?;
        Some((d, words.find(Element::from_name)?, words.find(Element::from_name)?))
    }

    pub(super) fn mma(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let aligned = words.take("sync") && words.take("aligned") && words.take("row") && words.take("col");
        let (shape, saturate) = (words.find(shape), words.take("satfinite"));
        let (true, Some([m, n, k]), Some((accumulator, a, b))) = (aligned, shape, self.formats(words)) else {
            return self.unknown_matrix(words);
        };
        let c = match accumulator {
            Accumulator::F32 => "f32",
            Accumulator::F16 => "f16",
            Accumulator::S32 => "s32",
            Accumulator::F64 => "f64",
        };
        let known = words.take(c)
            && match (accumulator, a, b) {
                (Accumulator::F64, Element::F64, Element::F64) => matches!((m, n, k), (8, 8, 4) | (16, 8, 4 | 8 | 16)),
                (Accumulator::S32, a, b) => a.is_integer() && b.is_integer() && matches!((m, n, k), (16, 8, 16 | 32)),
                (Accumulator::F16, Element::F16, Element::F16) => (m, n) == (16, 8) && matches!(k, 8 | 16),
                (Accumulator::F32 | Accumulator::F16, Element::E4m3 | Element::E5m2, Element::E4m3 | Element::E5m2) => {
                    (m, n) == (16, 8) && matches!(k, 16 | 32)
                }
                (Accumulator::F32, a, b) => {
                    let width = 4 * a.per_word();
                    a == b
                        && !a.is_integer()
                        && a != Element::F64
                        && (m, n) == (16, 8)
                        && (k == width || k == 2 * width)
                }
                _ => false,
            };
        if !known || saturate && accumulator != Accumulator::S32 {
            return self.unknown_matrix(words);
        }
        let [d, x, y, z] = self.exactly::<4>(operands)?;
        let product = Product { m, n, k, a, b, accumulator, saturate };
        let op = if accumulator == Accumulator::F64 {
            let wide = |decoder: &mut Self, operand: &Operand| -> Result<Vec<Slot>, Fault> {
                decoder.listed(operand).iter().map(|register| decoder.wide(register, Ty::F64)).collect()
            };
            let d = self.listed(d).iter().map(|register| self.wide_dst(register)).collect::<Result<_, _>>()?;
            TensorOp::Multiply { product, d, a: wide(self, x)?, b: wide(self, y)?, c: wide(self, z)? }
        } else {
            let (d, c) = (self.fragment_dst(d)?, self.fragment(z)?);
            TensorOp::Multiply { product, d, a: self.fragment(x)?, b: self.fragment(y)?, c }
        };
        if let TensorOp::Multiply { d, a, b, c, .. } = &op {
            let words_of = |rows: usize, columns: usize, bits: usize| (rows * columns * bits / 32 / 32).max(1);
            let bits = match accumulator {
                Accumulator::F16 => 16,
                Accumulator::F64 => 64,
                _ => 32,
            };
            let per = if accumulator == Accumulator::F64 { 2 } else { 1 };
            let expected = [
                words_of(m, n, bits) / per,
                words_of(m, k, product.a.bits()) / per,
                words_of(n, k, product.b.bits()) / per,
                words_of(m, n, bits) / per,
            ];
            if [d.len(), a.len(), b.len(), c.len()] != expected {
                return self.refuse(format!("expected {expected:?} registers of D, A, B and C"));
            }
        }
        Ok(Op::Tensor(Box::new(op)))
    }

    pub(super) fn wgmma(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        self.is_asynchronous = true;
        let what = words.one_of(&["mma_async", "fence", "commit_group", "wait_group"]);
        words.take("sync");
        words.take("aligned");
        let op = match what {
            Some("fence") => TensorOp::GroupFence,
            Some("commit_group") => TensorOp::GroupCommit,
            Some("wait_group") => {
                let [Operand::Immediate(Immediate::Int(left))] = operands else {
                    return self.refuse("expected the number of groups that may be pending");
                };
                TensorOp::GroupWait { left: usize::try_from(*left).unwrap_or(0) }
            }
            Some("mma_async") => return self.wgmma_multiply(words, operands),
            _ => return self.unknown_matrix(words),
        };
        Ok(Op::Tensor(Box::new(op)))
    }

    fn wgmma_multiply(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let saturate = words.take("satfinite");
        let (Some([m, n, k]), Some((accumulator, a, b))) = (words.find(shape), self.formats(words)) else {
            return self.unknown_matrix(words);
        };
        let half = matches!(a, Element::F16 | Element::Bf16);
        let known = m == 64
            && n % 8 == 0
            && (8..=256).contains(&n)
            && k == 8 * a.per_word()
            && a.bits() == b.bits()
            && match accumulator {
                Accumulator::S32 => a.is_integer() && b.is_integer(),
                Accumulator::F16 => matches!(a, Element::F16 | Element::E4m3 | Element::E5m2),
                Accumulator::F32 => !a.is_integer() && a != Element::F64,
                Accumulator::F64 => false,
            };
        if !known {
            return self.unknown_matrix(words);
        }
        let [d, x, y, accumulate, scales @ ..] = operands else {
            return self.refuse("expected D, A, B and what is added to");
        };
        let mut constants = [1, 1, 0, 0];
        // Integers have no scales; only 16-bit formats may be transposed, and A only in shared memory.
        let from_registers = matches!(x, Operand::Vector(_));
        let expected = match (a.is_integer(), half, from_registers) {
            (true, ..) => 0,
            (false, false, _) => 2,
            (false, true, true) => 3,
            (false, true, false) => 4,
        };
        if scales.len() != expected {
            return self.refuse(format!("expected {expected} scales and transpositions, found {}", scales.len()));
        }
        for (place, operand) in scales.iter().enumerate() {
            let Operand::Immediate(Immediate::Int(value)) = operand else {
                return self.refuse("scales and transpositions are constants");
            };
            // With A in registers, the third constant is B's transposition.
            let place = if expected == 3 && place == 2 { 3 } else { place };
            let allowed = if place < 2 { [-1, 1] } else { [0, 1] };
            if !allowed.contains(value) {
                return self.refuse(format!("{value} is not one of {allowed:?}"));
            }
            constants[place] = *value;
        }
        let d = self.fragment_dst(d)?;
        let registers = n / if accumulator == Accumulator::F16 { 4 } else { 2 };
        if d.len() != registers {
            return self.refuse(format!("expected {registers} registers of D, found {}", d.len()));
        }
        let a_operand = if from_registers {
            let slots = self.fragment(x)?;
            if slots.len() != 4 {
                return self.refuse(format!("expected 4 registers of A, found {}", slots.len()));
            }
            OperandA::Registers(slots)
        } else {
            OperandA::Shared(self.wide(x, Ty::B(64))?)
        };
        Ok(Op::Tensor(Box::new(TensorOp::GroupMultiply {
            product: Product { m, n, k, a, b, accumulator, saturate },
            d,
            a: a_operand,
            b: self.wide(y, Ty::B(64))?,
            accumulate: self.flag(accumulate)?,
            negate: [constants[0] == -1, constants[1] == -1],
            transpose: [constants[2] == 1, constants[3] == 1],
        })))
    }
}
