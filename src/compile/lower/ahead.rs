//! Loops whose loads run ahead (`pipeline`): `cp.async` into buffers that the turns use one after the other.
//!
//! With s stages, loads for turn i + s − 1 are issued in turn i, into the buffer that turn i − 1 read. One barrier a turn says both that everyone's
//! copies for turn i have landed and that everyone is through with turn i − 1.

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{BasicValue, BasicValueEnum, IntValue, PhiValue};

use super::scratch::BUFFER_ALIGN;
use super::{Lowering, Registers};
use crate::compile::Error;
use crate::compile::assign::Landing;
use crate::compile::pipeline::Ahead;
use crate::tile::{Op, Scalar, Value};

/// One load's part of a buffer.
struct Slot {
    ahead: Ahead,
    /// The first byte, from the buffer's.
    offset: u32,
    landing: Landing,
}

/// What a loop keeps of the turns to come.
pub(super) struct Running<'c> {
    slots: Vec<Slot>,
    /// Whether tensor cores read one of the slots.
    is_placed: bool,
    /// Where the first buffer begins, and the bytes of each.
    start: IntValue<'c>,
    bytes: u32,
    stages: u32,
    /// Values that the loop carries and the slice needs, and where they come from at a turn's end.
    args: Vec<Value>,
    ends: Vec<Value>,
    /// The loop's counter and these values, for the next turn whose loads are not issued.
    next: IntValue<'c>,
    values: Vec<Registers<'c>>,
    /// The same in the loop, and the buffer that the turn at hand reads.
    next_phi: Option<PhiValue<'c>>,
    value_phis: Vec<Vec<PhiValue<'c>>>,
    buffer_phi: Option<PhiValue<'c>>,
    buffer: IntValue<'c>,
}

impl<'c> Lowering<'_, 'c> {
    /// Before the loop `op` from `lower` to `upper`: issues the loads of all stages but one.
    pub(super) fn start_ahead(
        &mut self,
        op: Op,
        [lower, upper, step]: [IntValue<'c>; 3],
        initial: &[Registers<'c>],
    ) -> Result<Option<Running<'c>>, Error> {
        let Some(pipeline) = self.layouts.pipeline(op).cloned() else { return Ok(None) };
        let data = self.func.op(op);
        let body = self.func.region(data.regions[0]).blocks[0];
        let args = &self.func.block(body).args;
        let yields = self.yields(data.regions[0]);
        let (mut slots, mut bytes, mut is_placed) = (Vec::new(), 0, false);
        for &ahead in &pipeline.loads {
            let Some(landing) = self.layouts.landing(ahead.product, ahead.operand).cloned() else { continue };
            is_placed |= landing.read.is_none();
            let offset = u32::next_multiple_of(bytes, landing.align);
            bytes = offset + landing.bytes;
            slots.push(Slot { ahead, offset, landing });
        }
        let bytes = bytes.next_multiple_of(BUFFER_ALIGN);
        let stages = pipeline.stages;
        let (buffers, first) = self.scratch.enter_loop(bytes * stages);
        let start = self.builder.build_int_add(buffers, self.int(first), "")?;
        let mut running = Running {
            slots,
            is_placed,
            start,
            bytes,
            stages,
            args: pipeline.carried.iter().map(|&place| args[1 + place]).collect(),
            ends: pipeline.carried.iter().map(|&place| yields[place]).collect(),
            next: lower,
            values: pipeline.carried.iter().map(|&place| initial[place].clone()).collect(),
            next_phi: None,
            value_phis: Vec::new(),
            buffer_phi: None,
            buffer: self.int(0),
        };
        // The buffers may be read still: the loop may have run before.
        self.barrier()?;
        for stage in 0..stages - 1 {
            self.issue(op, &mut running, self.int(stage), upper, step)?;
        }
        Ok(Some(running))
    }

    /// Issues the loads of the next turn into the buffer `stage`, if there is such a turn, and goes on to the turn after it.
    fn issue(
        &mut self,
        op: Op,
        running: &mut Running<'c>,
        stage: IntValue<'c>,
        upper: IntValue<'c>,
        step: IntValue<'c>,
    ) -> Result<(), Error> {
        let body = self.func.region(self.func.op(op).regions[0]).blocks[0];
        let counter = self.func.block(body).args[0];
        let is_turn = self.builder.build_int_compare(IntPredicate::SLT, running.next, upper, "")?;
        self.set_scalar(counter, running.next.into());
        self.keep(&running.args, &running.values)?;
        let slice = self.layouts.pipeline(op).map(|pipeline| pipeline.slice.clone()).unwrap_or_default();
        for inner in slice {
            self.op(inner)?;
        }
        let buffer = self.builder.build_int_mul(stage, self.int(running.bytes), "")?;
        let buffer = self.builder.build_int_add(running.start, buffer, "")?;
        for slot in &running.slots {
            let start = self.builder.build_int_add(buffer, self.int(slot.offset), "")?;
            self.copy(slot, start, is_turn)?;
        }
        self.assembly(None, "cp.async.commit_group;".to_owned(), "~{memory}".to_owned(), &[], true)?;
        // No further than the loop's own counter goes: that may be as far as a number can.
        let following = self.builder.build_int_add(running.next, step, "")?;
        running.next = self.builder.build_select(is_turn, following, running.next, "")?.into_int_value();
        running.values = self.carried(&running.ends, &running.args)?;
        Ok(())
    }

    /// The copies of one load; zeros where its mask is false or `is_turn` is.
    fn copy(&self, slot: &Slot, start: IntValue<'c>, is_turn: IntValue<'c>) -> Result<(), Error> {
        let load = self.func.op(slot.ahead.load);
        let home = self.layouts.home(load.results[0]).cloned();
        let home = home.ok_or_else(|| self.unsupported(slot.ahead.load, "this form"))?;
        let addresses = self.registers(load.operands[0], &home)?;
        let masks = load.operands.get(1).map(|&mask| self.registers(mask, &home)).transpose()?;
        let scalar = self.func.ty(load.results[0]).number().map_or(8, Scalar::bytes);
        let Landing { store, run, .. } = &slot.landing;
        let thread = self.thread_place(store)?;
        let run = *run as usize;
        let pieces = store.accesses.iter().enumerate().flat_map(|(access, members)| {
            members.chunks(run).enumerate().map(move |(piece, members)| (access, piece * run, members))
        });
        for (access, past, members) in pieces {
            let first = members[0] as usize;
            let bytes = members.len() as u32 * scalar;
            let at = self.shared_at(start, self.place(thread, store, access)?, scalar)?;
            let at = self.builder.build_ptr_to_int(at, self.context.i32_type(), "")?;
            let at = self.builder.build_int_add(at, self.int(past as u32 * scalar), "")?;
            let mut taken = is_turn;
            if let Some(masks) = &masks {
                taken = self.builder.build_and(taken, masks[first].into_int_value(), "")?;
            }
            let size = self.builder.build_select(taken, self.int(bytes), self.int(0), "")?;
            let cache = if bytes == 16 { "cg" } else { "ca" };
            let text = format!("cp.async.{cache}.shared.global [$0], [$1], {bytes}, $2;");
            let args: [BasicValueEnum; 3] = [at.into(), addresses[first], size];
            self.assembly(None, text, "r,l,r,~{memory}".to_owned(), &args, true)?;
        }
        Ok(())
    }

    /// At the loop's head: what goes from turn to turn. `before` is where the loop is come to from.
    pub(super) fn ahead_phis(
        &mut self,
        op: Op,
        running: &mut Running<'c>,
        before: BasicBlock<'c>,
    ) -> Result<(), Error> {
        let next = self.builder.build_phi(running.next.get_type(), "")?;
        next.add_incoming(&[(&running.next as &dyn BasicValue, before)]);
        let buffer = self.builder.build_phi(self.context.i32_type(), "")?;
        buffer.add_incoming(&[(&running.buffer as &dyn BasicValue, before)]);
        running.value_phis = self.phis(op, &running.args)?;
        Self::incoming(&running.value_phis, &running.values, before);
        running.next = next.as_basic_value().into_int_value();
        running.buffer = buffer.as_basic_value().into_int_value();
        let values = running.value_phis.iter().map(|phis| phis.iter().map(|phi| phi.as_basic_value()).collect());
        running.values = values.collect();
        (running.next_phi, running.buffer_phi) = (Some(next), Some(buffer));
        Ok(())
    }

    /// At the beginning of a turn: waits for its loads, issues those of a turn to come, and says where the products find theirs.
    pub(super) fn ahead_turn(
        &mut self,
        op: Op,
        running: &mut Running<'c>,
        upper: IntValue<'c>,
        step: IntValue<'c>,
    ) -> Result<(), Error> {
        let text = format!("cp.async.wait_group {};", running.stages - 2);
        self.assembly(None, text, "~{memory}".to_owned(), &[], true)?;
        if running.is_placed {
            self.seen_by_tensor_cores()?;
        }
        self.barrier()?;
        // The buffer before this one: that of the turn before.
        let is_first = self.builder.build_int_compare(IntPredicate::EQ, running.buffer, self.int(0), "")?;
        let before = self.builder.build_int_sub(running.buffer, self.int(1), "")?;
        let last = self.int(running.stages - 1);
        let stage = self.builder.build_select(is_first, last, before, "")?.into_int_value();
        self.issue(op, running, stage, upper, step)?;
        let buffer = self.builder.build_int_mul(running.buffer, self.int(running.bytes), "")?;
        let buffer = self.builder.build_int_add(running.start, buffer, "")?;
        for slot in &running.slots {
            let start = self.builder.build_int_add(buffer, self.int(slot.offset), "")?;
            self.landed.insert((slot.ahead.product, slot.ahead.operand), start);
        }
        Ok(())
    }

    /// At the end of a turn, in the block `from`.
    pub(super) fn ahead_end(&mut self, running: &Running<'c>) -> Result<(), Error> {
        let following = self.builder.build_int_add(running.buffer, self.int(1), "")?;
        let is_last = self.builder.build_int_compare(IntPredicate::EQ, following, self.int(running.stages), "")?;
        let following = self.builder.build_select(is_last, self.int(0), following, "")?.into_int_value();
        let from = self.here();
        if let (Some(next), Some(buffer)) = (running.next_phi, running.buffer_phi) {
            next.add_incoming(&[(&running.next as &dyn BasicValue, from)]);
            buffer.add_incoming(&[(&following as &dyn BasicValue, from)]);
        }
        Self::incoming(&running.value_phis, &running.values, from);
        Ok(())
    }

    /// After the loop: nothing is under way any more.
    pub(super) fn ahead_done(&mut self, running: &Running<'c>) -> Result<(), Error> {
        self.scratch.leave_loop(running.bytes * running.stages);
        self.assembly(None, "cp.async.wait_group 0;".to_owned(), "~{memory}".to_owned(), &[], true).map(drop)
    }
}
