//! What threads tell each other: other layouts through shared memory, and reductions by shuffles and then shared memory.

use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

use super::{Lowering, Registers, scratch};
use crate::compile::Error;
use crate::compile::layout::{Exchange, Layout, Side};
use crate::tile::{Elem, Op, Region, Scalar, Type, Value};

impl<'c> Lowering<'_, 'c> {
    /// The lanes of a warp wait for each other.
    fn warp_barrier(&self) -> Result<(), Error> {
        self.intrinsic("llvm.nvvm.bar.warp.sync", None, &[self.int(u32::MAX)]).map(drop)
    }

    /// Every thread of the program waits for every other.
    pub(super) fn barrier(&mut self) -> Result<(), Error> {
        self.scratch.passed_by_all();
        if self.options.num_warps == 1 {
            self.warp_barrier()?;
        } else {
            self.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", None, &[self.int(0)])?;
        }
        Ok(())
    }

    /// The address in shared memory of element `index` of `bytes`, from the byte `start`.
    pub(super) fn shared_at(
        &self,
        start: IntValue<'c>,
        index: IntValue<'c>,
        bytes: u32,
    ) -> Result<PointerValue<'c>, Error> {
        let base = self.scratch.memory.as_pointer_value();
        let offset = self.builder.build_int_mul(index, self.int(bytes), "")?;
        let byte = self.context.i8_type();
        // SAFETY: the offset is within what `shared` asks for.
        Ok(unsafe {
            let start = self.builder.build_in_bounds_gep(byte, base, &[start], "")?;
            self.builder.build_in_bounds_gep(byte, start, &[offset], "")?
        })
    }

    /// Where the program's threads may write `bytes` of shared memory now: after a barrier, where all that is free of threads
    /// that may still read is too little.
    pub(super) fn program_scratch(&mut self, bytes: u32) -> Result<IntValue<'c>, Error> {
        self.program_scratch_at(bytes, scratch::ALIGN)
    }

    /// The same, at a multiple of `align` bytes: a power of two.
    pub(super) fn program_scratch_at(&mut self, bytes: u32, align: u32) -> Result<IntValue<'c>, Error> {
        let (start, wait) = self.scratch.take(bytes, align);
        if wait {
            self.barrier()?;
        }
        Ok(self.builder.build_int_add(self.scratch.program, self.int(start), "")?)
    }

    /// Every thread has written; after this the others may read.
    pub(super) fn written(&mut self) -> Result<(), Error> {
        self.scratch.read_by_all();
        self.barrier()
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

    /// The registers of a tile of type `ty` in the layout `to`, given those in `from`.
    pub(super) fn convert(
        &mut self,
        registers: &[BasicValueEnum<'c>],
        from: &Layout,
        to: &Layout,
        ty: Type,
    ) -> Result<Registers<'c>, Error> {
        let scalar = match ty.elem() {
            Some(Elem::Value(scalar)) => scalar,
            _ => Scalar::I64,
        };
        match Exchange::of(from, to, scalar.bytes()) {
            Exchange::Registers(old) => Ok(old.into_iter().map(|old| registers[old as usize]).collect()),
            Exchange::Warp(passage) => {
                let start = self.scratch.of_warp(passage.elements * scalar.bytes());
                let start = self.builder.build_int_mul(self.warp, start, "")?;
                let owns = self.owner(from.repeated().0, 0)?;
                self.warp_barrier()?;
                self.pass_in(registers, &passage.store, start, scalar, owns)?;
                self.warp_barrier()?;
                self.pass_out(to.registers(), &passage.load, start, scalar)
            }
            Exchange::Program(passage) => {
                let start = self.program_scratch(passage.elements * scalar.bytes())?;
                let owns = self.owns(from)?;
                self.pass_in(registers, &passage.store, start, scalar, owns)?;
                self.written()?;
                self.pass_out(to.registers(), &passage.load, start, scalar)
            }
        }
    }

    /// The lane's and the warp's part of places of `side`.
    pub(super) fn thread_place(&self, side: &Side) -> Result<IntValue<'c>, Error> {
        let lane = self.combined(self.lane, &side.lane)?;
        let warp = self.combined(self.warp, &side.warp)?;
        Ok(self.builder.build_xor(lane, warp, "")?)
    }

    pub(super) fn place(&self, thread: IntValue<'c>, side: &Side, access: usize) -> Result<IntValue<'c>, Error> {
        let threads = side.lane.iter().chain(&side.warp).fold(0, |all, basis| all | basis);
        self.sum_of(thread, threads, side.places[access])
    }

    pub(super) fn pass_in(
        &mut self,
        registers: &[BasicValueEnum<'c>],
        side: &Side,
        start: IntValue<'c>,
        scalar: Scalar,
        owns: Option<IntValue<'c>>,
    ) -> Result<(), Error> {
        let thread = self.thread_place(side)?;
        self.when(owns, |this| {
            for (access, members) in side.accesses.iter().enumerate() {
                let at = this.shared_at(start, this.place(thread, side, access)?, scalar.bytes())?;
                let values: Registers = members.iter().map(|&register| registers[register as usize]).collect();
                this.store_shared(&values, at, scalar)?;
            }
            Ok(())
        })
    }

    fn pass_out(
        &mut self,
        count: u32,
        side: &Side,
        start: IntValue<'c>,
        scalar: Scalar,
    ) -> Result<Registers<'c>, Error> {
        let thread = self.thread_place(side)?;
        let mut made = vec![None; count as usize];
        for (access, members) in side.accesses.iter().enumerate() {
            let at = self.shared_at(start, self.place(thread, side, access)?, scalar.bytes())?;
            let values = self.load_shared(members.len() as u32, at, scalar)?;
            for (&register, value) in members.iter().zip(values) {
                made[register as usize] = Some(value);
            }
        }
        let missing = || Error::Llvm("a register is not read back".to_owned());
        made.into_iter().map(|value| value.ok_or_else(missing)).collect()
    }

    /// Writes a tile to the scratch, each element at its row-major place. Returns where it begins and the bytes of an element.
    pub(super) fn publish(
        &mut self,
        registers: &[BasicValueEnum<'c>],
        layout: &Layout,
        ty: Type,
    ) -> Result<(IntValue<'c>, u32), Error> {
        let bytes = ty.elem().map_or(8, |elem| elem.bits().div_ceil(8));
        let start = self.program_scratch(layout.shape.elements() * bytes)?;
        let place = self.thread_index(layout)?;
        let owns = self.owns(layout)?;
        self.when(owns, |this| {
            for (register, &value) in registers.iter().enumerate() {
                let index = this.register_index(place, layout, register as u32)?;
                let at = this.shared_at(start, index, bytes)?;
                let value = this.widened(value)?;
                this.builder.build_store(at, value)?;
            }
            Ok(())
        })?;
        self.written()?;
        Ok((start, bytes))
    }

    /// Tells every thread that has an element what its owner has.
    pub(super) fn told_by_owners(
        &mut self,
        registers: &[BasicValueEnum<'c>],
        layout: &Layout,
        ty: Type,
    ) -> Result<Registers<'c>, Error> {
        let (start, bytes) = self.publish(registers, layout, ty)?;
        let place = self.thread_index(layout)?;
        (0..layout.registers())
            .map(|register| {
                let index = self.register_index(place, layout, register)?;
                self.read(self.shared_at(start, index, bytes)?, registers[0])
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
        let owns = self.owner(lanes, repeated)?;
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
        let start = self.program_scratch(end)?;
        let slot = |this: &Self, register: usize, part: IntValue<'c>, kind: usize| -> Result<PointerValue<'c>, Error> {
            let index = match (&thread, &rest) {
                (Some(thread), Some(rest)) => this.register_index(*thread, rest, register as u32)?,
                _ => this.int(0),
            };
            let index = this.builder.build_int_mul(index, this.int(parts), "")?;
            let index = this.builder.build_int_add(index, part, "")?;
            let (from, bytes) = starts[kind];
            let index = this.builder.build_int_add(index, this.int(from / bytes), "")?;
            this.shared_at(start, index, bytes)
        };
        self.when(owns, |this| {
            for (register, group) in results.iter().enumerate() {
                for (kind, &value) in group.iter().enumerate() {
                    let value = this.widened(value)?;
                    this.builder.build_store(slot(this, register, part, kind)?, value)?;
                }
            }
            Ok(())
        })?;
        self.written()?;
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
