//! Atomic operations on global memory: one for each element, by the thread that owns it; the others hear of the old value through
//! shared memory where it is used.

use inkwell::values::{BasicValueEnum, IntValue};

use super::{Lowering, Registers};
use crate::compile::Error;
use crate::compile::placed::placed;
use crate::tile::{AtomicOp, Elem, MemScope, MemSemantic, Op, OpKind, Scalar};

/// PTX's operation and type, or `None` where the hardware has none.
fn instruction(op: AtomicOp, scalar: Scalar) -> Option<String> {
    let bits = scalar.bits();
    if scalar.is_int() && bits < 32 {
        return None;
    }
    let float = scalar.is_float() && bits >= 16;
    Some(match op {
        AtomicOp::And => format!("and.b{bits}"),
        AtomicOp::Or => format!("or.b{bits}"),
        AtomicOp::Xor => format!("xor.b{bits}"),
        AtomicOp::Exch if bits >= 32 => format!("exch.b{bits}"),
        AtomicOp::Add if scalar.is_int() => format!("add.u{bits}"),
        AtomicOp::Max if scalar.is_int() => format!("max.s{bits}"),
        AtomicOp::Min if scalar.is_int() => format!("min.s{bits}"),
        AtomicOp::UMax if scalar.is_int() => format!("max.u{bits}"),
        AtomicOp::UMin if scalar.is_int() => format!("min.u{bits}"),
        AtomicOp::FAdd if float && bits == 16 => format!("add.noftz.{}", scalar.name()),
        AtomicOp::FAdd if float => format!("add.f{bits}"),
        _ => return None,
    })
}

/// `.acq_rel.gpu`.
fn order(semantic: MemSemantic, scope: MemScope) -> String {
    format!(".{}.{}", semantic.name(), scope.name())
}

impl<'c> Lowering<'_, 'c> {
    /// `text` on one element: `operands` follow the address. Where `guard` is false nothing happens and the result is 0.
    fn atomic_one(
        &self,
        text: &str,
        scalar: Scalar,
        address: BasicValueEnum<'c>,
        operands: &[BasicValueEnum<'c>],
        guard: Option<IntValue<'c>>,
    ) -> Result<BasicValueEnum<'c>, Error> {
        let bits = scalar.bits();
        let raw = self.bits_type(bits);
        let letter = match bits {
            16 => 'h',
            32 => 'r',
            _ => 'l',
        };
        let mut args = vec![address];
        for &operand in operands {
            args.push(match operand {
                BasicValueEnum::FloatValue(value) => self.builder.build_bit_cast(value, raw, "")?,
                other => other,
            });
        }
        let list: String = (0..operands.len()).map(|index| format!(", ${}", index + 2)).collect();
        // Early clobber: the result is cleared before the operands are read.
        let mut constraints = format!("=&{letter},l{}", format!(",{letter}").repeat(operands.len()));
        let mut assembly = format!("mov.b{bits} $0, 0;\n");
        if let Some(guard) = guard {
            constraints.push_str(",b");
            args.push(guard.into());
            assembly.push_str(&format!("@${} ", args.len()));
        }
        assembly.push_str(&format!("atom.global{text} $0, [$1 + 0]{list};"));
        let made = self.assembly(Some(raw.into()), assembly, constraints, &args, true)?;
        let made = made.ok_or_else(|| Error::Llvm(format!("`{text}` has no result")))?;
        if scalar.is_int() {
            return Ok(made);
        }
        Ok(self.builder.build_bit_cast(made, super::number(self.context, scalar), "")?)
    }

    /// The same value for every thread: thread 0's.
    fn told_by_first(
        &mut self,
        first: IntValue<'c>,
        value: BasicValueEnum<'c>,
        bytes: u32,
    ) -> Result<BasicValueEnum<'c>, Error> {
        let start = self.program_scratch(bytes)?;
        let at = self.shared_at(start, self.int(0), bytes)?;
        self.when(Some(first), |this| {
            this.builder.build_store(at, value)?;
            Ok(())
        })?;
        self.written()?;
        self.read(at, value)
    }

    /// `tt.atomic_rmw` and `tt.atomic_cas`.
    pub(super) fn atomic(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        let (result, pointer) = (data.results[0], data.operands[0]);
        let what = self.func.ty(pointer);
        let unsupported = || self.unsupported(op, what.to_string());
        let scalar = what.elem().and_then(Elem::pointee).ok_or_else(unsupported)?;
        let (text, count) = match data.kind {
            OpKind::AtomicRmw { op: kind, semantic, scope } => {
                let named = || self.unsupported(op, format!("{} on {what}", kind.name()));
                let text = instruction(kind, scalar).ok_or_else(named)?;
                (format!("{}.{text}", order(semantic, scope)), 1)
            }
            OpKind::AtomicCas { semantic, scope } if scalar.bits() >= 16 => {
                (format!("{}.cas.b{}", order(semantic, scope), scalar.bits()), 2)
            }
            _ => return Err(unsupported()),
        };
        let mask = data.operands.get(1 + count).copied();
        let is_used = self.uses[result.index()] > 0;
        let Some(layout) = placed(self.func, op, self.options).and_then(|placed| placed.result) else {
            // A scalar: what every thread did before comes before it, for whoever it tells.
            let operands =
                data.operands[1..=count].iter().map(|&value| self.scalar(value)).collect::<Result<Vec<_>, _>>()?;
            let address = self.scalar(pointer)?;
            let mask = mask.map(|mask| self.scalar(mask)).transpose()?.map(BasicValueEnum::into_int_value);
            self.barrier()?;
            let first = self.is_first()?;
            let guard = self.both(Some(first), mask)?;
            let old = self.atomic_one(&text, scalar, address, &operands, guard)?;
            let old = if is_used { self.told_by_first(first, old, scalar.bytes())? } else { old };
            self.set_scalar(result, old);
            return Ok(());
        };
        let addresses = self.registers(pointer, &layout)?;
        let operands = data.operands[1..=count]
            .iter()
            .map(|&value| self.registers(value, &layout))
            .collect::<Result<Vec<_>, _>>()?;
        let masks = mask.map(|mask| self.registers(mask, &layout)).transpose()?;
        let owns = self.owns(&layout)?;
        let mut made = Registers::new();
        for (register, &address) in addresses.iter().enumerate() {
            let guard = self.both(owns, masks.as_ref().map(|masks| masks[register].into_int_value()))?;
            let of_register: Vec<_> = operands.iter().map(|all| all[register]).collect();
            made.push(self.atomic_one(&text, scalar, address, &of_register, guard)?);
        }
        if is_used && owns.is_some() {
            made = self.told_by_owners(&made, &layout, self.func.ty(result))?;
        }
        if is_used { self.set_home(result, made) } else { Ok(()) }
    }
}
