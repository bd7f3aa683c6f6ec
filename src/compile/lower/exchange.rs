//! What threads tell each other: other layouts through shared memory, and reductions by shuffles and then shared memory.

use inkwell::AddressSpace;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

use super::{Lowering, Registers};
use crate::compile::Error;
use crate::compile::layout::Layout;
use crate::tile::{Op, Region, Type, Value};

impl<'c> Lowering<'_, 'c> {
    /// Every thread of the program waits for every other.
    pub(super) fn barrier(&self) -> Result<(), Error> {
        if self.options.num_warps == 1 {
            self.intrinsic("llvm.nvvm.bar.warp.sync", None, &[self.int(u32::MAX)])?;
        } else {
            self.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", None, &[self.int(0)])?;
        }
        Ok(())
    }

    /// The address in the scratch of element `index` of `bytes`.
    pub(super) fn scratch_at(&self, index: IntValue<'c>, bytes: u32) -> Result<PointerValue<'c>, Error> {
        let base = self.scratch.as_pointer_value();
        let offset = self.builder.build_int_mul(index, self.int(bytes), "")?;
        // SAFETY: the offset is within what `shared` asks for.
        Ok(unsafe { self.builder.build_in_bounds_gep(self.context.i8_type(), base, &[offset], "")? })
    }

    /// Runs `work` in the threads in which `condition` holds; in all where there is none.
    pub(super) fn when(
        &mut self,
        condition: Option<IntValue<'c>>,
        work: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(condition) = condition else { return work(self) };
        let [inside, after] = ["own", "owned"].map(|name| self.context.append_basic_block(self.function, name));
        self.builder.build_conditional_branch(condition, inside, after)?;
        self.builder.position_at_end(inside);
        work(self)?;
        self.builder.build_unconditional_branch(after)?;
        self.builder.position_at_end(after);
        Ok(())
    }

    /// A register as it lies in shared memory: a truth value takes a byte.
    pub(super) fn widened(&self, value: BasicValueEnum<'c>) -> Result<BasicValueEnum<'c>, Error> {
        Ok(match value {
            BasicValueEnum::IntValue(bit) if bit.get_type().get_bit_width() == 1 => {
                self.builder.build_int_z_extend(bit, self.context.i8_type(), "")?.into()
            }
            other => other,
        })
    }

    pub(super) fn read(&self, at: PointerValue<'c>, like: BasicValueEnum<'c>) -> Result<BasicValueEnum<'c>, Error> {
        Ok(match like {
            BasicValueEnum::IntValue(bit) if bit.get_type().get_bit_width() == 1 => {
                let byte = self.builder.build_load(self.context.i8_type(), at, "")?.into_int_value();
                self.builder.build_int_truncate(byte, self.context.bool_type(), "")?.into()
            }
            other => self.builder.build_load(other.get_type(), at, "")?,
        })
    }

    /// The registers of a tile of type `ty` in the layout `to`, given those in `from`: through shared memory, each element at its
    /// row-major place.
    pub(super) fn convert(
        &mut self,
        registers: &[BasicValueEnum<'c>],
        from: &Layout,
        to: &Layout,
        ty: Type,
    ) -> Result<Registers<'c>, Error> {
        if from == to {
            return Ok(registers.to_vec());
        }
        self.through_shared(registers, from, to, ty)
    }

    /// Writes a tile to the scratch, each element at its row-major place. Returns the bytes of an element.
    pub(super) fn publish(
        &mut self,
        registers: &[BasicValueEnum<'c>],
        layout: &Layout,
        ty: Type,
    ) -> Result<u32, Error> {
        let bytes = ty.elem().map_or(8, |elem| elem.bits().div_ceil(8));
        self.shared = self.shared.max(layout.shape.elements() * bytes);
        debug_assert_eq!(self.scratch.as_pointer_value().get_type().get_address_space(), AddressSpace::from(3));
        let place = self.thread_index(layout)?;
        self.barrier()?;
        let owns = self.owns(layout)?;
        self.when(owns, |this| {
            for (register, &value) in registers.iter().enumerate() {
                let index = this.register_index(place, layout, register as u32)?;
                let at = this.scratch_at(index, bytes)?;
                let value = this.widened(value)?;
                this.builder.build_store(at, value)?;
            }
            Ok(())
        })?;
        self.barrier()?;
        Ok(bytes)
    }

    /// [`Lowering::convert`], of what only the owners of an element know too.
    pub(super) fn through_shared(
        &mut self,
        registers: &[BasicValueEnum<'c>],
        from: &Layout,
        to: &Layout,
        ty: Type,
    ) -> Result<Registers<'c>, Error> {
        let bytes = self.publish(registers, from, ty)?;
        let place = self.thread_index(to)?;
        (0..to.registers())
            .map(|register| {
                let index = self.register_index(place, to, register)?;
                self.read(self.scratch_at(index, bytes)?, registers[0])
            })
            .collect()
    }

    pub(super) fn register_bits(&self, value: BasicValueEnum<'c>) -> Result<u32, Error> {
        match value {
            BasicValueEnum::IntValue(value) => Ok(value.get_type().get_bit_width()),
            BasicValueEnum::FloatValue(value) => Ok(match value.get_type() {
                ty if ty == self.context.f64_type() => 64,
                ty if ty == self.context.f32_type() => 32,
                _ => 16,
            }),
            _ => Err(Error::Llvm("a register is neither integer nor float".to_owned())),
        }
    }

    /// The value in the lane whose number differs by `mask`.
    pub(super) fn shuffled(&self, value: BasicValueEnum<'c>, mask: u32) -> Result<BasicValueEnum<'c>, Error> {
        let i32_type = self.context.i32_type();
        let one = |word: IntValue<'c>| -> Result<IntValue<'c>, Error> {
            let args = [self.int(u32::MAX), word, self.int(mask), self.int(31)];
            let made = self.intrinsic("llvm.nvvm.shfl.sync.bfly.i32", Some(i32_type.into()), &args)?;
            Ok(made.ok_or_else(|| Error::Llvm("a shuffle has no result".to_owned()))?.into_int_value())
        };
        let ty = value.get_type();
        let bits = self.register_bits(value)?;
        let raw_type = self.bits_type(bits);
        let raw = match value {
            BasicValueEnum::IntValue(value) => value,
            other => self.builder.build_bit_cast(other, raw_type, "")?.into_int_value(),
        };
        let moved = match bits {
            32 => one(raw)?,
            64 => {
                let low = one(self.builder.build_int_truncate(raw, i32_type, "")?)?;
                let shift = raw_type.const_int(32, false);
                let high = self.builder.build_right_shift(raw, shift, false, "")?;
                let high = one(self.builder.build_int_truncate(high, i32_type, "")?)?;
                let high = self.builder.build_int_z_extend(high, raw_type, "")?;
                let high = self.builder.build_left_shift(high, shift, "")?;
                let low = self.builder.build_int_z_extend(low, raw_type, "")?;
                self.builder.build_or(low, high, "")?
            }
            _ => {
                let wide = one(self.builder.build_int_z_extend(raw, i32_type, "")?)?;
                self.builder.build_int_truncate(wide, raw_type, "")?
            }
        };
        Ok(match value {
            BasicValueEnum::IntValue(_) => moved.into(),
            _ => self.builder.build_bit_cast(moved, ty, "")?,
        })
    }

    /// What the region of a reduction makes of two groups of values.
    pub(super) fn combine(
        &mut self,
        region: Region,
        a: &[BasicValueEnum<'c>],
        b: &[BasicValueEnum<'c>],
    ) -> Result<Registers<'c>, Error> {
        let func = self.func;
        let block = func.region(region).blocks[0];
        let args = &func.block(block).args;
        for (&arg, &value) in args.iter().zip(a.iter().chain(b)) {
            self.set_scalar(arg, value);
        }
        self.block(block)?;
        self.yields(region).into_iter().map(|value: Value| self.scalar(value)).collect()
    }

    /// A reduction: registers, then lanes by butterflies (every lane ends with the result), then warps through shared memory.
    /// What meets what is fixed by the layout, so the same input gives the same bits.
    pub(super) fn reduce(&mut self, op: Op, axis: usize) -> Result<(), Error> {
        let data = self.func.op(op);
        let region = data.regions[0];
        let layout = self.layouts.reduced(self.func, op, self.options);
        let operands =
            data.operands.iter().map(|&value| self.registers(value, &layout)).collect::<Result<Vec<_>, _>>()?;
        let shift = Layout::shifts(layout.shape)[axis];
        let on_axis = (layout.shape.dims()[axis] - 1) << shift;
        let apart = |basis: u32| basis & !on_axis == 0 && basis != 0;

        // Registers whose elements differ on the axis alone, in the order of the axis.
        let mut groups: Vec<(u32, Vec<u32>)> = Vec::new();
        for register in 0..layout.registers() {
            let index = layout.index(register, 0, 0);
            match groups.iter_mut().find(|(rest, _)| *rest == index & !on_axis) {
                Some((_, members)) => members.push(register),
                None => groups.push((index & !on_axis, vec![register])),
            }
        }
        let mut results: Vec<Registers> = Vec::new();
        for (_, members) in &mut groups {
            members.sort_by_key(|&register| layout.index(register, 0, 0));
            let group = |register: u32| operands.iter().map(|all| all[register as usize]).collect::<Vec<_>>();
            let mut sum = group(members[0]);
            for &register in &members[1..] {
                sum = self.combine(region, &sum, &group(register))?;
            }
            for (bit, _) in layout.lane.iter().enumerate().filter(|(_, basis)| apart(**basis)) {
                let other = sum.iter().map(|&value| self.shuffled(value, 1 << bit)).collect::<Result<Vec<_>, _>>()?;
                sum = self.combine(region, &sum, &other)?;
            }
            results.push(sum);
        }
        let warps: Vec<usize> = (0..layout.warp.len()).filter(|&bit| apart(layout.warp[bit])).collect();
        if !warps.is_empty() {
            results = self.across_warps(region, &layout, axis, &warps, &results)?;
        }
        for (place, &result) in data.results.iter().enumerate() {
            let made: Registers = results.iter().map(|group| group[place]).collect();
            if self.func.ty(result).shape().is_some() {
                self.set_home(result, made)?;
            } else {
                self.set_scalar(result, made[0]);
            }
        }
        Ok(())
    }

    fn across_warps(
        &mut self,
        region: Region,
        layout: &Layout,
        axis: usize,
        warps: &[usize],
        results: &[Registers<'c>],
    ) -> Result<Vec<Registers<'c>>, Error> {
        let parts = 1_u32 << warps.len();
        let rest = layout.without_axis(axis);
        // Lanes and warps that hold what another holds do not write; warps that differ on the axis all do.
        let (lanes, mut repeated) = rest.as_ref().map_or((31, (1 << layout.warp.len()) - 1), Layout::repeated);
        for &bit in warps {
            repeated &= !(1 << bit);
        }
        let mut part = self.int(0);
        for (to, &from) in warps.iter().enumerate() {
            let bit = self.builder.build_right_shift(self.warp, self.int(from as u32), false, "")?;
            let bit = self.builder.build_and(bit, self.int(1), "")?;
            part = self.builder.build_or(part, self.builder.build_left_shift(bit, self.int(to as u32), "")?, "")?;
        }
        let mut owns = None;
        for (place, mask) in [(self.lane, lanes), (self.warp, repeated)] {
            if mask != 0 {
                let bits = self.builder.build_and(place, self.int(mask), "")?;
                let zero = self.builder.build_int_compare(inkwell::IntPredicate::EQ, bits, self.int(0), "")?;
                owns = Some(match owns {
                    None => zero,
                    Some(other) => self.builder.build_and(other, zero, "")?,
                });
            }
        }
        let thread = rest.as_ref().map(|rest| self.thread_index(rest)).transpose()?;
        let elements = rest.as_ref().map_or(1, |rest| rest.shape.elements());
        let mut made: Vec<Registers> = vec![Vec::new(); results.len()];
        // Values of a tuple lie one after the other, each with its parts side by side.
        let kinds = results[0].len();
        let mut starts = Vec::new();
        let mut end = 0_u32;
        for &value in &results[0] {
            let bytes = self.register_bits(value)?.div_ceil(8);
            end = end.next_multiple_of(bytes);
            starts.push((end, bytes));
            end += elements * parts * bytes;
        }
        self.shared = self.shared.max(end);
        let slot = |this: &Self, register: usize, part: IntValue<'c>, kind: usize| -> Result<PointerValue<'c>, Error> {
            let index = match (&thread, &rest) {
                (Some(thread), Some(rest)) => this.register_index(*thread, rest, register as u32)?,
                _ => this.int(0),
            };
            let index = this.builder.build_int_mul(index, this.int(parts), "")?;
            let index = this.builder.build_int_add(index, part, "")?;
            let (start, bytes) = starts[kind];
            let index = this.builder.build_int_add(index, this.int(start / bytes), "")?;
            this.scratch_at(index, bytes)
        };
        self.barrier()?;
        self.when(owns, |this| {
            for (register, group) in results.iter().enumerate() {
                for (kind, &value) in group.iter().enumerate() {
                    let value = this.widened(value)?;
                    this.builder.build_store(slot(this, register, part, kind)?, value)?;
                }
            }
            Ok(())
        })?;
        self.barrier()?;
        for (register, group) in results.iter().enumerate() {
            let mut sum: Registers = Vec::new();
            for which in 0..parts {
                let read = (0..kinds)
                    .map(|kind| self.read(slot(self, register, self.int(which), kind)?, group[kind]))
                    .collect::<Result<Vec<_>, _>>()?;
                sum = if which == 0 { read } else { self.combine(region, &sum, &read)? };
            }
            made[register] = sum;
        }
        Ok(made)
    }
}
