//! Control flow: branches of the function's body, `scf.for`, `scf.if`, `scf.while`, and what they carry.

use inkwell::basic_block::BasicBlock;
use inkwell::values::{BasicValue, BasicValueEnum, PhiValue};

use super::{Lowering, Registers};
use crate::compile::Error;
use crate::compile::layout::Layout;
use crate::tile::{Op, Region, Value};

impl<'c> Lowering<'_, 'c> {
    pub(super) fn branch(&mut self, op: Op, successor: usize, args: &[Value]) -> Result<(), Error> {
        let target = self.func.op(op).successors[successor];
        let (to, phis) = self.blocks[&target].clone();
        let here = self.here();
        for (phi, &arg) in phis.iter().zip(args) {
            let value = self.scalar(arg)?;
            phi[0].add_incoming(&[(&value as &dyn BasicValue, here)]);
        }
        self.builder.build_unconditional_branch(to)?;
        Ok(())
    }

    pub(super) fn cond_branch(&mut self, op: Op, then_args: usize) -> Result<(), Error> {
        let data = self.func.op(op);
        let condition = self.scalar(data.operands[0])?.into_int_value();
        let sides = [
            self.context.append_basic_block(self.function, "to"),
            self.context.append_basic_block(self.function, "to"),
        ];
        self.builder.build_conditional_branch(condition, sides[0], sides[1])?;
        let (first, second) = data.operands[1..].split_at(then_args);
        for (side, args) in [first, second].into_iter().enumerate() {
            self.builder.position_at_end(sides[side]);
            self.branch(op, side, args)?;
        }
        Ok(())
    }

    pub(super) fn here(&self) -> BasicBlock<'c> {
        self.builder.get_insert_block().expect("the builder always stands in a block")
    }

    /// The registers of each value, in the home of the `target` that it becomes.
    pub(super) fn carried(&self, values: &[Value], targets: &[Value]) -> Result<Vec<Registers<'c>>, Error> {
        let pairs = values.iter().zip(targets);
        pairs
            .map(|(&value, &target)| match self.layouts.home(target) {
                Some(home) => self.registers(value, home),
                None => Ok(vec![self.scalar(value)?]),
            })
            .collect()
    }

    pub(super) fn phis(&self, op: Op, targets: &[Value]) -> Result<Vec<Vec<PhiValue<'c>>>, Error> {
        let mut all = Vec::new();
        for &target in targets {
            let ty = self.register_type(op, target)?;
            let count = self.layouts.home(target).map_or(1, Layout::registers);
            all.push((0..count).map(|_| self.builder.build_phi(ty, "")).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(all)
    }

    pub(super) fn incoming(phis: &[Vec<PhiValue<'c>>], values: &[Registers<'c>], from: BasicBlock<'c>) {
        for (phi, value) in phis.iter().flatten().zip(values.iter().flatten()) {
            phi.add_incoming(&[(value as &dyn BasicValue, from)]);
        }
    }

    pub(super) fn keep_phis(&mut self, targets: &[Value], phis: &[Vec<PhiValue<'c>>]) -> Result<(), Error> {
        for (&target, phis) in targets.iter().zip(phis) {
            let made: Registers = phis.iter().map(|phi| phi.as_basic_value()).collect();
            if self.func.ty(target).shape().is_some() {
                self.set_home(target, made)?;
            } else {
                self.values.insert((target, 0), made);
            }
        }
        Ok(())
    }

    pub(super) fn yields(&self, region: Region) -> Vec<Value> {
        let block = self.func.region(region).blocks.last();
        let last = block.and_then(|&block| self.func.block(block).ops.last());
        last.map(|&op| self.func.op(op).operands.clone()).unwrap_or_default()
    }

    pub(super) fn for_loop(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        let body = self.func.region(data.regions[0]).blocks[0];
        let args = self.func.block(body).args.clone();
        let (lower, upper, step) =
            (self.scalar(data.operands[0])?, self.scalar(data.operands[1])?, self.scalar(data.operands[2])?);
        let initial = self.carried(&data.operands[3..], &args[1..])?;
        let resident: Vec<Option<u32>> =
            (0..initial.len()).map(|index| self.layouts.carried_resident(self.func, op, index)).collect();
        for (index, column) in resident.iter().enumerate() {
            if let Some(column) = column {
                self.settle_in_tensor_memory(*column, args[1 + index], &initial[index])?;
            }
        }
        let bounds = [lower, upper, step].map(BasicValueEnum::into_int_value);
        let mut ahead = self.start_ahead(op, bounds, &initial)?;
        let before = self.here();
        let [head, turn, after] =
            ["head", "turn", "after"].map(|name| self.context.append_basic_block(self.function, name));
        self.builder.build_unconditional_branch(head)?;
        self.builder.position_at_end(head);
        let counter = self.builder.build_phi(lower.get_type(), "")?;
        counter.add_incoming(&[(&lower as &dyn BasicValue, before)]);
        let phis = self.phis(op, &args[1..])?;
        Self::incoming(&phis, &initial, before);
        if let Some(running) = &mut ahead {
            self.ahead_phis(op, running, before)?;
        }
        let now = counter.as_basic_value().into_int_value();
        let more = self.builder.build_int_compare(inkwell::IntPredicate::SLT, now, upper.into_int_value(), "")?;
        self.builder.build_conditional_branch(more, turn, after)?;

        self.builder.position_at_end(turn);
        let (busy, taken) = (self.scratch.busy(), self.scratch.taken);
        // Others may still be in the turn before.
        self.scratch.set_all_busy();
        if let Some(running) = &mut ahead {
            self.ahead_turn(op, running, bounds[1], bounds[2])?;
        }
        self.set_scalar(args[0], now.into());
        self.keep_phis(&args[1..], &phis)?;
        self.block(body)?;
        let ends = self.carried(&self.yields(data.regions[0]), &args[1..])?;
        if let Some(running) = &ahead {
            self.ahead_end(running)?;
        }
        let next = self.builder.build_int_add(now, step.into_int_value(), "")?;
        let last = self.here();
        counter.add_incoming(&[(&next as &dyn BasicValue, last)]);
        Self::incoming(&phis, &ends, last);
        self.builder.build_unconditional_branch(head)?;

        self.builder.position_at_end(after);
        if let Some(running) = &ahead {
            self.ahead_done(running)?;
        }
        if self.scratch.taken == taken {
            self.scratch.set_busy(busy);
        } else {
            self.scratch.set_all_busy();
        }
        self.keep_phis(&data.results, &phis)?;
        for (&result, column) in data.results.iter().zip(resident) {
            if let Some(column) = column {
                let made = self.fetch_from_tensor_memory(column, result)?;
                self.set_home(result, made)?;
            }
        }
        Ok(())
    }

    pub(super) fn if_else(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        let condition = self.scalar(data.operands[0])?.into_int_value();
        let [yes, no, after] =
            ["then", "else", "after"].map(|name| self.context.append_basic_block(self.function, name));
        self.builder.build_conditional_branch(condition, yes, no)?;
        let mut ends = Vec::new();
        let before = self.scratch.busy();
        let mut busy = before.clone();
        for (side, start) in [yes, no].into_iter().enumerate() {
            self.builder.position_at_end(start);
            self.scratch.set_busy(before.clone());
            let region = data.regions.get(side).copied();
            if let Some(&block) = region.and_then(|region| self.func.region(region).blocks.first()) {
                self.block(block)?;
            }
            let values = region.map(|region| self.yields(region)).unwrap_or_default();
            ends.push((self.carried(&values, &data.results)?, self.here()));
            self.builder.build_unconditional_branch(after)?;
            busy = busy.or(&self.scratch.busy());
        }
        self.scratch.set_busy(busy);
        self.builder.position_at_end(after);
        let phis = self.phis(op, &data.results)?;
        for (values, from) in &ends {
            Self::incoming(&phis, values, *from);
        }
        self.keep_phis(&data.results, &phis)
    }

    /// `values` are the `targets` from here on.
    pub(super) fn keep(&mut self, targets: &[Value], values: &[Registers<'c>]) -> Result<(), Error> {
        for (&target, value) in targets.iter().zip(values) {
            if self.func.ty(target).shape().is_some() {
                self.set_home(target, value.clone())?;
            } else {
                self.set_scalar(target, value[0]);
            }
        }
        Ok(())
    }

    /// The first region runs and says whether to go on; the values that it passes are the second's arguments, or the results.
    pub(super) fn while_loop(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        let [before, after] = [0, 1].map(|side| self.func.region(data.regions[side]).blocks[0]);
        let (args, passed_to) = (self.func.block(before).args.clone(), self.func.block(after).args.clone());
        let initial = self.carried(&data.operands, &args)?;
        let entry = self.here();
        let [head, turn, done] =
            ["head", "turn", "done"].map(|name| self.context.append_basic_block(self.function, name));
        self.builder.build_unconditional_branch(head)?;
        self.builder.position_at_end(head);
        self.scratch.set_all_busy();
        let phis: Vec<Vec<PhiValue>> = self.phis(op, &args)?;
        Self::incoming(&phis, &initial, entry);
        self.keep_phis(&args, &phis)?;
        self.block(before)?;
        let condition = self.yields(data.regions[0]);
        let more = self.scalar(condition[0])?.into_int_value();
        let passed = self.carried(&condition[1..], &passed_to)?;
        self.builder.build_conditional_branch(more, turn, done)?;

        self.builder.position_at_end(turn);
        self.keep(&passed_to, &passed)?;
        self.block(after)?;
        let ends = self.carried(&self.yields(data.regions[1]), &args)?;
        Self::incoming(&phis, &ends, self.here());
        self.builder.build_unconditional_branch(head)?;

        self.builder.position_at_end(done);
        self.scratch.set_all_busy();
        self.keep(&data.results, &passed)
    }
}
