//! `tt.gather` and `tt.histogram`: places in shared memory that the data name.

use inkwell::values::{BasicValueEnum, IntValue};
use inkwell::{AtomicOrdering, AtomicRMWBinOp};

use super::{Lowering, Registers};
use crate::compile::Error;
use crate::compile::layout::Layout;
use crate::compile::placed::{Placed, placed};
use crate::tile::{Op, Value};

impl<'c> Lowering<'_, 'c> {
    fn places(&self, op: Op) -> Result<Placed, Error> {
        placed(self.func, op, self.options).ok_or_else(|| self.unsupported(op, "scalars"))
    }

    /// The registers of a tile where an operation of a fixed place reads it, and the layout.
    fn fixed(&self, op: Op, value: Value, layout: Option<&Layout>) -> Result<(Registers<'c>, Layout), Error> {
        let layout = layout.ok_or_else(|| self.unsupported(op, self.func.ty(value).to_string()))?;
        Ok((self.registers(value, layout)?, layout.clone()))
    }

    /// The source lies in shared memory in row-major order; each thread reads at its indices.
    pub(super) fn gather(&mut self, op: Op, axis: usize) -> Result<(), Error> {
        let data = self.func.op(op);
        let (source, indices, result) = (data.operands[0], data.operands[1], data.results[0]);
        let placed = self.places(op)?;
        let (values, from) = self.fixed(op, source, placed.operands[0].as_ref())?;
        let (indices, to) = self.fixed(op, indices, placed.operands[1].as_ref())?;
        let (start, bytes) = self.publish(&values, &from, self.func.ty(source))?;
        let (rows, columns) = (Layout::shifts(from.shape), Layout::shifts(to.shape));
        let thread = self.thread_index(&to)?;
        let mut made = Registers::new();
        for (register, &index) in indices.iter().enumerate() {
            let place = self.register_index(thread, &to, register as u32)?;
            let along = self.builder.build_int_cast(index.into_int_value(), self.context.i32_type(), "")?;
            let mut at = self.builder.build_left_shift(along, self.int(rows[axis]), "")?;
            for other in (0..to.shape.rank()).filter(|&other| other != axis) {
                let coordinate = self.builder.build_right_shift(place, self.int(columns[other]), false, "")?;
                let coordinate = self.builder.build_and(coordinate, self.int(to.shape.dims()[other] - 1), "")?;
                let part = self.builder.build_left_shift(coordinate, self.int(rows[other]), "")?;
                at = self.builder.build_int_add(at, part, "")?;
            }
            made.push(self.read(self.shared_at(start, at, bytes)?, values[0])?);
        }
        self.set_home(result, made)
    }

    /// Bins in shared memory, counted up by every element.
    pub(super) fn histogram(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        let (source, mask, result) = (data.operands[0], data.operands.get(1).copied(), data.results[0]);
        let placed = self.places(op)?;
        let (values, from) = self.fixed(op, source, placed.operands[0].as_ref())?;
        let masks = mask.map(|mask| self.registers(mask, &from)).transpose()?;
        let bins = placed.result.ok_or_else(|| self.unsupported(op, self.func.ty(result).to_string()))?;
        let start = self.program_scratch(bins.shape.elements() * 4)?;
        let zero = self.int(0);
        let thread = self.thread_index(&bins)?;
        let owns = self.owns(&bins)?;
        self.when(owns, |this| {
            for register in 0..bins.registers() {
                let index = this.register_index(thread, &bins, register)?;
                this.builder.build_store(this.shared_at(start, index, 4)?, zero)?;
            }
            Ok(())
        })?;
        self.barrier()?;
        let owns = self.owns(&from)?;
        for (register, &value) in values.iter().enumerate() {
            let counts = self.both(owns, masks.as_ref().map(|masks| masks[register].into_int_value()))?;
            self.when(counts, |this| {
                let index: IntValue = value.into_int_value();
                let index = this.builder.build_int_cast(index, this.context.i32_type(), "")?;
                let at = this.shared_at(start, index, 4)?;
                let one = this.int(1);
                this.builder.build_atomicrmw(AtomicRMWBinOp::Add, at, one, AtomicOrdering::Monotonic)?;
                Ok(())
            })?;
        }
        self.written()?;
        let made = (0..bins.registers())
            .map(|register| {
                let index = self.register_index(thread, &bins, register)?;
                self.read(self.shared_at(start, index, 4)?, BasicValueEnum::IntValue(zero))
            })
            .collect::<Result<Registers, Error>>()?;
        self.set_home(result, made)
    }
}
