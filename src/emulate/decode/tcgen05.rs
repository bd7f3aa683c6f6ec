//! `tcgen05`: tensor memory, and the products that accumulate in it.

use super::words::{Ty, Words};
use super::{Decoder, Fault};
use crate::emulate::program::{Address, MemorySpace, Op, OperandA, TensorCopy, TensorKind, TensorOp, TensorShape};
use crate::ptx::model::{Immediate, Operand};

impl Decoder {
    pub(super) fn tcgen05(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        self.is_asynchronous = true;
        let what = words.one_of(&[
            "alloc",
            "dealloc",
            "relinquish_alloc_permit",
            "ld",
            "st",
            "wait::ld",
            "wait::st",
            "mma",
            "cp",
            "commit",
            "fence::before_thread_sync",
            "fence::after_thread_sync",
        ]);
        words.take("sync");
        words.take("aligned");
        words.take("cta_group::1");
        let op = match what {
            Some("alloc") => {
                words.take("b32");
                let [address, columns] = self.exactly::<2>(operands)?;
                let (address, generic) = self.shared_operand(words, address)?;
                TensorOp::Alloc { address, generic, columns: self.narrow(columns, Ty::U(32))? }
            }
            Some("dealloc") => {
                words.take("b32");
                let [address, columns] = self.exactly::<2>(operands)?;
                TensorOp::Dealloc {
                    address: self.narrow(address, Ty::U(32))?,
                    columns: self.narrow(columns, Ty::U(32))?,
                }
            }
            Some("relinquish_alloc_permit") => TensorOp::Relinquish,
            Some("ld") => self.tensor_move(true, words, operands)?,
            Some("st") => self.tensor_move(false, words, operands)?,
            Some("wait::ld") => TensorOp::WaitLoad,
            Some("wait::st") => TensorOp::WaitStore,
            Some("mma") => self.tensor_multiply(words, operands)?,
            Some("cp") => self.tensor_copy(words, operands)?,
            Some("commit") => {
                words.take("mbarrier::arrive::one");
                words.take("shared::cluster");
                words.take("b64");
                let [address] = self.exactly::<1>(operands)?;
                TensorOp::Commit { address: self.address(address, MemorySpace::Shared)? }
            }
            // Triton orders by barriers alone, and so do the checks.
            Some(_) => return Ok(Op::Nothing),
            None => return self.refuse(format!("the emulator does not know `{}`", words.mnemonic())),
        };
        Ok(Op::Tensor(Box::new(op)))
    }

    /// An address of tensor memory: lane in the upper half, column in the lower.
    fn tensor_address(&mut self, operand: &Operand) -> Result<Address, Fault> {
        self.address(operand, MemorySpace::Shared)
    }

    fn tensor_move(&mut self, load: bool, words: &mut Words, operands: &[Operand]) -> Result<TensorOp, Fault> {
        let shape = words.one_of(&["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"]);
        let count: Option<usize> = words.find(|word| word.strip_prefix('x')?.parse().ok());
        let pack = words.one_of(&["pack::16b", "unpack::16b"]).is_some();
        words.take("b32");
        let (Some(shape), Some(count)) = (shape, count) else {
            return self.refuse(format!("the emulator does not know `{}`", words.mnemonic()));
        };
        let (registers, address, half) = match (load, operands) {
            (true, [registers, address]) | (false, [address, registers]) => (registers, address, None),
            (true, [registers, address, half]) | (false, [address, half, registers]) => {
                (registers, address, Some(half))
            }
            _ => return self.refuse("expected registers and an address"),
        };
        let (shape, per) = match (shape, half) {
            ("32x32b", None) => (TensorShape::L32B32, 1),
            ("16x64b", None) => (TensorShape::L16B64, 1),
            ("16x128b", None) => (TensorShape::L16B128, 2),
            ("16x256b", None) => (TensorShape::L16B256, 4),
            ("16x32bx2", Some(Operand::Immediate(Immediate::Int(half)))) => (TensorShape::L16B32X2(*half as u32), 1),
            _ => return self.refuse("the offset of the second half belongs to .16x32bx2 alone"),
        };
        if !count.is_power_of_two() || count * per > 128 {
            return self.refuse(format!("x{count} is not a count of this shape"));
        }
        let address = self.tensor_address(address)?;
        let slots = if load { self.fragment_dst(registers)? } else { self.fragment(registers)? };
        if slots.len() != count * per {
            return self.refuse(format!("expected {} registers, found {}", count * per, slots.len()));
        }
        Ok(if load {
            TensorOp::Load { shape, dst: slots, address, pack }
        } else {
            TensorOp::Store { shape, src: slots, address, pack }
        })
    }

    fn tensor_multiply(&mut self, words: &mut Words, operands: &[Operand]) -> Result<TensorOp, Fault> {
        let kind = words.one_of(&["kind::f16", "kind::tf32", "kind::f8f6f4", "kind::i8", "kind::mxf8f6f4"]);
        let scaled = words.take("block_scale");
        words.one_of(&["scale_vec::1X", "block32"]);
        let kind = match kind {
            Some("kind::f16") => TensorKind::F16,
            Some("kind::tf32") => TensorKind::Tf32,
            Some("kind::f8f6f4") => TensorKind::F8f6f4,
            Some("kind::i8") => TensorKind::I8,
            Some("kind::mxf8f6f4") => TensorKind::Mxf8f6f4,
            _ => return self.refuse(format!("the emulator does not know `{}`", words.mnemonic())),
        };
        if scaled != (kind == TensorKind::Mxf8f6f4) {
            return self.refuse("block scales belong to the mx kinds, which need them");
        }
        let (d, a, b, instruction, scales, accumulate) = match operands {
            [d, a, b, instruction, accumulate] => (d, a, b, instruction, None, accumulate),
            [d, a, b, instruction, scale_a, scale_b, accumulate] if scaled => {
                let scales = [self.tensor_address(scale_a)?, self.tensor_address(scale_b)?];
                (d, a, b, instruction, Some(scales), accumulate)
            }
            _ => return self.refuse("expected D, A, B, an instruction descriptor, and whether D is added to"),
        };
        if scaled != scales.is_some() {
            return self.refuse("expected the addresses of the scales of A and B");
        }
        Ok(TensorOp::TensorMultiply {
            kind,
            d: self.tensor_address(d)?,
            a: match a {
                Operand::Address { .. } => OperandA::Tensor(self.tensor_address(a)?),
                a => OperandA::Shared(self.wide(a, Ty::B(64))?),
            },
            b: self.wide(b, Ty::B(64))?,
            instruction: self.narrow(instruction, Ty::U(32))?,
            scales,
            accumulate: self.flag(accumulate)?,
        })
    }

    fn tensor_copy(&mut self, words: &mut Words, operands: &[Operand]) -> Result<TensorOp, Fault> {
        let shape = words.one_of(&["128x256b", "128x128b", "4x256b", "64x128b", "32x128b"]);
        let spread = words.one_of(&["warpx2::02_13", "warpx2::01_23", "warpx4"]);
        let what = match (shape, spread) {
            (Some("128x256b"), None) => TensorCopy::R128B256,
            (Some("128x128b"), None) => TensorCopy::R128B128,
            (Some("4x256b"), None) => TensorCopy::R4B256,
            (Some("64x128b"), Some("warpx2::02_13")) => TensorCopy::R64B128X2Lanes02,
            (Some("64x128b"), Some("warpx2::01_23")) => TensorCopy::R64B128X2Lanes01,
            (Some("32x128b"), Some("warpx4")) => TensorCopy::R32B128X4,
            _ => return self.refuse(format!("the emulator does not know `{}`", words.mnemonic())),
        };
        let [to, from] = self.exactly::<2>(operands)?;
        Ok(TensorOp::TensorCopy { what, to: self.tensor_address(to)?, from: self.wide(from, Ty::B(64))? })
    }
}
