//! `wgmma`: products of four warps with operands in shared memory. Each warp does its 16 rows of D.
//!
//! The product is computed when it is issued; until `wgmma.wait_group` its registers count as not defined and its reads of
//! shared memory as not done.

use std::collections::VecDeque;

use super::budget::ENTRY;
use super::cluster::Context;
use super::matrix::accumulate_fragment;
use super::order::Agent;
use super::shared::AsyncAccessor;
use super::warp::{Poll, Warp};
use super::{FaultKind, Run, trouble};
use crate::emulate::lanes::{FULL, LANES, Lanes32};
use crate::emulate::program::{Accumulator, Flag, OperandA, Product, Slot, TensorOp};
use crate::emulate::tensor::Element;
use crate::emulate::tensor::descriptor::Descriptor;
use crate::emulate::tensor::dot::Model;

/// Products of elements that take about as long as a plain instruction.
pub(super) const PRODUCTS_OF_STEP: u64 = 1 << 10;

/// Products that are not complete.
#[derive(Default)]
struct Group {
    clock: u32,
    registers: Vec<Slot>,
}

impl Group {
    /// Bytes that it takes until it is complete.
    fn held(&self) -> u64 {
        ENTRY + 2 * self.registers.len() as u64
    }
}

/// The `wgmma` work of a warp.
#[derive(Default)]
pub(super) struct Groups {
    /// Whether a `wgmma.fence` came after the last wait.
    fenced: bool,
    open: Group,
    pending: VecDeque<Group>,
}

/// An operand in shared memory.
#[derive(Clone, Copy)]
pub(super) struct SharedTile {
    pub descriptor: Descriptor,
    pub element: Element,
    /// True where M or N is contiguous, false where K is.
    pub transposed: bool,
    /// The first row (of M or N) that is wanted, and their number.
    pub first: usize,
    pub rows: usize,
    pub k: usize,
}

impl SharedTile {
    /// Reads the elements, row-major along K.
    pub fn gather(&self, rank: usize, context: &mut Context, by: AsyncAccessor) -> Run<Vec<f32>> {
        let Self { descriptor, element, transposed, first, rows, k } = *self;
        let bytes = element.bits() / 8;
        let per_chunk = 16 / bytes;
        let (outer, inner) = if transposed { (k, rows) } else { (rows, k) };
        let mut out = vec![0.0; rows * k];
        for line in 0..outer {
            for chunk in (0..inner).step_by(per_chunk) {
                let address = if transposed {
                    descriptor.mn_major(line as u64, ((first + chunk) * bytes) as u64)
                } else {
                    descriptor.k_major((first + line) as u64, (chunk * bytes) as u64)
                };
                let shared = &mut context.shared[rank];
                shared.check(address, 16, by.lane)?;
                shared.read_async(address, 16, by)?;
                for word in 0..4 {
                    let bits = shared.get(address + 4 * word as u64, 4) as u32;
                    for place in 0..element.per_word() {
                        let along = chunk + word * element.per_word() + place;
                        if along < inner {
                            let (row, column) = if transposed { (along, line) } else { (line, along) };
                            out[row * k + column] = element.value(bits, place);
                        }
                    }
                }
            }
        }
        Ok(out)
    }
}

impl Warp {
    /// The warp-wide instructions of `wgmma` and `tcgen05`.
    pub(super) fn tensor_collective(&mut self, op: &TensorOp, line: u32, context: &mut Context) -> Run<Option<Poll>> {
        match op {
            TensorOp::GroupFence => self.groups.fenced = true,
            TensorOp::GroupCommit => {
                let mut group = std::mem::take(&mut self.groups.open);
                context.take(group.held(), 0)?;
                group.clock = self.order.issued[Agent::WarpGroup as usize];
                self.groups.pending.push_back(group);
            }
            TensorOp::GroupWait { left } => self.wait_groups(*left, context),
            TensorOp::GroupMultiply { product, d, a, b, accumulate, negate, transpose } => {
                let accumulate = match accumulate {
                    Flag::Constant(value) => *value,
                    Flag::Predicate(by) => self.uniform_predicate(*by)?,
                };
                let operands = GroupOperands { d, a, b: *b, accumulate, negate: *negate, transpose: *transpose };
                self.multiply_group(product, &operands, line, context)?;
            }
            op => return self.tensor_memory(op, line, context),
        }
        Ok(None)
    }

    fn uniform_predicate(&self, by: crate::emulate::program::PredicateUse) -> Run<bool> {
        match self.predicate(by, FULL)? {
            FULL => Ok(true),
            0 => Ok(false),
            _ => trouble(FaultKind::Sync, 0, "the lanes of the warp do not agree whether D is added to"),
        }
    }

    fn wait_groups(&mut self, left: usize, context: &mut Context) {
        self.groups.fenced = false;
        while self.groups.pending.len() > left {
            let Some(group) = self.groups.pending.pop_front() else { return };
            context.give(group.held());
            self.order.complete(Agent::WarpGroup, group.clock);
            for slot in group.registers {
                let later = self.groups.pending.iter().chain([&self.groups.open]);
                if !later.into_iter().any(|other| other.registers.contains(&slot)) {
                    self.in_flight[slot as usize] = false;
                    self.ready32[slot as usize] = FULL;
                }
            }
        }
    }

    fn multiply_group(
        &mut self,
        product: &Product,
        operands: &GroupOperands,
        line: u32,
        context: &mut Context,
    ) -> Run<()> {
        let Product { n, k, accumulator, .. } = *product;
        context.count_work((16 * n * k) as u64 / PRODUCTS_OF_STEP);
        if !self.groups.fenced && context.environment.checks.sync {
            return trouble(FaultKind::Sync, 0, "wgmma.mma_async without a wgmma.fence before it");
        }
        let mut words: Vec<Lanes32> = Vec::with_capacity(operands.d.len());
        for &slot in operands.d {
            // Sums may follow each other without a wait between.
            words.push(match (operands.accumulate, self.in_flight[slot as usize]) {
                (false, _) => [0; LANES],
                (true, true) => self.bank32[slot as usize],
                (true, false) => *self.read32(slot, FULL)?,
            });
        }
        let quarter = 16 * (self.index % 4);
        let descriptor = |warp: &Self, slot: Slot| -> Run<Descriptor> {
            let values = warp.read64(slot, FULL)?;
            if values.iter().any(|&value| value != values[0]) {
                return trouble(FaultKind::Sync, 0, "the lanes of the warp name different matrix descriptors");
            }
            Descriptor::hopper(values[0]).or_else(|message| trouble(FaultKind::Trap, 0, message))
        };
        let mut a = match operands.a {
            OperandA::Registers(slots) => self.operand(slots, 16, k, product.a)?,
            _ => Vec::new(),
        };
        let shared_a = match operands.a {
            OperandA::Shared(slot) => Some(descriptor(self, *slot)?),
            _ => None,
        };
        let b = descriptor(self, operands.b)?;
        let (agent, clock) = self.order.issue(Agent::WarpGroup);
        let by = AsyncAccessor { agent, clock, order: &self.order, lane: 0, line, proxied: true };
        let [transposed_a, transposed_b] = operands.transpose;
        if let Some(descriptor) = shared_a {
            let tile =
                SharedTile { descriptor, element: product.a, transposed: transposed_a, first: quarter, rows: 16, k };
            a = tile.gather(context.rank, context, by)?;
        }
        let tile = SharedTile { descriptor: b, element: product.b, transposed: transposed_b, first: 0, rows: n, k };
        let mut b = tile.gather(context.rank, context, by)?;
        for (values, negate) in [(&mut a, operands.negate[0]), (&mut b, operands.negate[1])] {
            if negate {
                values.iter_mut().for_each(|value| *value = -*value);
            }
        }
        let model = Model::of_group(product.a, k, accumulator == Accumulator::F16);
        accumulate_fragment(&mut words, product, (16, model), (&a, &b));
        for (&slot, words) in operands.d.iter().zip(&words) {
            self.bank32[slot as usize] = *words;
            self.forget_parts(crate::emulate::program::Reg::R32(slot));
            self.ready32[slot as usize] = 0;
            self.in_flight[slot as usize] = true;
            if !self.groups.open.registers.contains(&slot) {
                self.groups.open.registers.push(slot);
            }
        }
        Ok(())
    }
}

/// The operands of a `wgmma.mma_async`.
struct GroupOperands<'a> {
    d: &'a [Slot],
    a: &'a OperandA,
    b: Slot,
    accumulate: bool,
    negate: [bool; 2],
    transpose: [bool; 2],
}
