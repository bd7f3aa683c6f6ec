//! One warp: its registers, its stack of diverged paths, and the step that executes an instruction on all active lanes.

use super::barrier::Arrival;
use super::bulk::BulkStores;
use super::cluster::Context;
use super::copies::Copies;
use super::order::Order;
use super::wgmma::Groups;
use super::{FaultKind, Run, trouble};
use crate::emulate::lanes::{FULL, LANES, Lanes32, Lanes64, lanes};
use crate::emulate::program::{Code, LaneMask, Op, PredicateUse, Reduction, Reg, Slot, Special};

/// Lanes that go one way: where they are, and where they meet the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub pc: usize,
    join: usize,
    mask: u32,
}

/// A pc or join that is never reached.
const NEVER: usize = usize::MAX;

/// What a warp asks for again until it has come to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Poll {
    /// A phase of an mbarrier.
    MBarrier { rank: usize, address: u64 },
    /// `barrier.cluster.wait`.
    Cluster,
    /// Columns of tensor memory.
    TensorMemory { columns: u32 },
}

impl Poll {
    /// Whether the instruction may end without success.
    pub fn may_give_up(self) -> bool {
        matches!(self, Poll::MBarrier { .. })
    }
}

/// What a warp waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// At a named barrier.
    Waiting(u32),
    Polling(Poll),
    Done,
}

/// Why a warp stopped stepping. At a barrier and a poll it has not stepped past the instruction.
pub(super) enum Pause {
    Done,
    /// The launch is to end here, without a fault.
    Stopped,
    /// Its turn is over.
    Slice,
    Barrier(Arrival),
    Poll(Poll),
}

/// Steps that a warp may take in one turn: one that spins on what another will write lets that one run.
pub(super) const SLICE: u64 = 1 << 16;

/// The registers and the control state of 32 threads.
#[derive(Default)]
pub(super) struct Warp {
    pub order: Order,
    /// Its number in the CTA.
    pub index: usize,
    /// Lanes that exist.
    pub threads: u32,
    /// Lanes that have not returned.
    pub alive: u32,
    frames: Vec<Frame>,
    /// The last `ret`.
    ended: usize,
    pub(super) bank32: Vec<Lanes32>,
    pub(super) bank64: Vec<Lanes64>,
    pub(super) predicates: Vec<u32>,
    /// For each register, the lanes that something wrote.
    pub(super) ready32: Vec<u32>,
    pub(super) ready64: Vec<u32>,
    pub(super) ready_predicates: Vec<u32>,
    /// Registers that were packed of parts of which some were not defined, with the lanes in which each byte is.
    pub(super) packed: Vec<(Reg, [u32; 8])>,
    /// Local memory, a lane after the other, and which bytes were written.
    pub(super) local: Vec<u8>,
    pub(super) local_written: Vec<bool>,
    /// What the barrier that the warp waits at will write.
    reduction: Option<Reduction>,
    pub(super) check_init: bool,
    /// The wait that the warp is at is to end without success.
    pub told_not_yet: bool,
    /// `cp.async` that is pending.
    pub(super) copies: Copies,
    /// Bulk stores that are pending.
    pub(super) bulk_stores: BulkStores,
    /// `wgmma` that is pending.
    pub(super) groups: Groups,
    /// For each narrow register, whether asynchronous work is to write it; empty where there is none.
    pub(super) in_flight: Vec<bool>,
    /// Registers that `tcgen05.ld` is to write.
    pub(super) tensor_loads: Vec<Slot>,
}

impl Warp {
    /// Makes it new for warp `index` of the CTA of the context's rank.
    pub fn reset(&mut self, context: &Context, index: usize, cta: [u32; 3]) {
        let code = context.environment.code;
        let config = context.environment.config;
        let block = config.block.map(u64::from);
        let threads = block.iter().product::<u64>() - 32 * index as u64;
        self.threads = if threads >= 32 { FULL } else { (1 << threads) - 1 };
        self.alive = self.threads;
        self.index = index;
        self.order.reset(context.agents, context.rank, index);
        self.told_not_yet = false;
        self.copies = Copies::default();
        self.bulk_stores = BulkStores::default();
        self.groups = Groups::default();
        self.in_flight.clear();
        self.in_flight.resize(if code.is_asynchronous { code.bank32.len() } else { 0 }, false);
        self.tensor_loads.clear();
        self.ended = 0;
        self.frames.clear();
        self.frames.push(Frame { pc: 0, join: NEVER, mask: self.threads });
        self.bank32.clone_from(&code.bank32);
        self.bank64.clone_from(&code.bank64);
        self.predicates.clear();
        self.predicates.resize(code.predicates, 0);
        let ready = |ready: &bool| if *ready { FULL } else { 0 };
        self.ready32.clear();
        self.ready32.extend(code.ready32.iter().map(ready));
        self.ready64.clear();
        self.ready64.extend(code.ready64.iter().map(ready));
        self.ready_predicates.clear();
        self.ready_predicates.resize(code.predicates, 0);
        self.packed.clear();
        let local = code.local_bytes as usize * LANES;
        self.local.clear();
        self.local.resize(local, 0);
        self.local_written.clear();
        self.local_written.resize(local, false);
        self.reduction = None;
        self.check_init = context.environment.checks.init;
        for &(slot, special) in &code.specials {
            let value = |lane| special_value(special, context, index, cta, lane);
            self.bank32[slot as usize] = std::array::from_fn(value);
        }
    }

    /// The instruction that the warp is at.
    pub fn at(&self) -> usize {
        self.frames.last().map_or(self.ended, |frame| frame.pc)
    }

    /// Steps until the warp has returned or is at a barrier.
    pub fn run(&mut self, context: &mut Context) -> Run<Pause> {
        if let Some(mut observer) = context.observer.take() {
            let result = self.run_observed(context, &mut observer);
            context.observer = Some(observer);
            return result;
        }
        self.run_until(context, context.steps.saturating_add(SLICE))
    }

    /// The next instruction and the lanes that are there; `None` if all have returned.
    pub(super) fn upcoming(&self) -> Option<(usize, u32)> {
        let live = |frame: &&Frame| frame.pc != frame.join && frame.pc != NEVER && frame.mask & self.alive != 0;
        self.frames.iter().rev().find(live).map(|frame| (frame.pc, frame.mask & self.alive))
    }

    /// As [`Warp::run`], up to step number `last`.
    pub(super) fn run_until(&mut self, context: &mut Context, last: u64) -> Run<Pause> {
        let code = context.environment.code;
        loop {
            let Some(frame) = self.frames.last().copied() else { return Ok(Pause::Done) };
            let mask = frame.mask & self.alive;
            if frame.pc == frame.join || frame.pc == NEVER || mask == 0 {
                self.frames.pop();
                continue;
            }
            if context.steps >= context.last_step {
                return trouble(FaultKind::Steps, None, endless(context));
            }
            if context.steps >= last {
                return Ok(Pause::Slice);
            }
            context.steps += 1;
            let instruction = &code.instructions[frame.pc];
            let active = match instruction.guard {
                None => mask,
                Some(guard) => mask & self.predicate(guard, mask)?,
            };
            context.counts.thread_instructions += u64::from(active.count_ones());
            match &instruction.op {
                Op::Branch { target } => {
                    self.branch(code, frame.pc, mask, &[(active, *target), (mask & !active, frame.pc + 1)]);
                    continue;
                }
                Op::BranchIndexed { index, targets } => {
                    let index = *self.read32(*index, active)?;
                    let mut ways: Vec<(u32, usize)> = Vec::new();
                    for lane in lanes(active) {
                        let Some(&target) = targets.get(index[lane] as usize) else {
                            let count = targets.len();
                            let message = format!("branch index {} with {count} targets", index[lane]);
                            return trouble(FaultKind::Bounds, lane, message);
                        };
                        match ways.iter_mut().find(|(_, other)| *other == target) {
                            Some((lanes, _)) => *lanes |= 1 << lane,
                            None => ways.push((1 << lane, target)),
                        }
                    }
                    ways.push((mask & !active, frame.pc + 1));
                    self.branch(code, frame.pc, mask, &ways);
                    continue;
                }
                Op::Exit => {
                    self.ended = frame.pc;
                    self.alive &= !active;
                }
                Op::Trap if active != 0 => {
                    return trouble(FaultKind::Trap, active.trailing_zeros() as usize, "the kernel trapped");
                }
                Op::Barrier { id, threads, wait, reduce } if active != 0 => {
                    return self.barrier(*id, *threads, *wait, reduce.as_ref(), active, context);
                }
                Op::Async(op) if active != 0 => {
                    if let Some(poll) = self.asynchronous(op, active, instruction.line, context)? {
                        return Ok(Pause::Poll(poll));
                    }
                }
                Op::Tensor(op) if active != 0 => {
                    if let Some(poll) = self.tensor(op, active, instruction.line, context)? {
                        return Ok(Pause::Poll(poll));
                    }
                }
                _ if active == 0 => {}
                op => self.execute(op, active, instruction.line, context)?,
            }
            self.advance();
        }
    }

    /// Steps past the instruction that the warp is at.
    pub fn advance(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.pc += 1;
        }
    }

    /// Sends lanes their ways; where there are several, they meet at the branch's join.
    fn branch(&mut self, code: &Code, at: usize, mask: u32, ways: &[(u32, usize)]) {
        let Some(top) = self.frames.last_mut() else { return };
        if let Some(&(_, target)) = ways.iter().find(|(lanes, _)| *lanes == mask) {
            top.pc = target;
            return;
        }
        let join = code.joins[at];
        // `join` is where these lanes go on together, if they do; with no join each way runs to its end.
        top.pc = join;
        if join == top.join {
            self.frames.pop();
        }
        for &(lanes, pc) in ways.iter().rev().filter(|(lanes, _)| *lanes != 0) {
            self.frames.push(Frame { pc, join, mask: lanes });
        }
    }

    fn barrier(
        &mut self,
        id: Slot,
        threads: Option<Slot>,
        wait: bool,
        reduce: Option<&(Reduction, PredicateUse)>,
        active: u32,
        context: &Context,
    ) -> Run<Pause> {
        if active != self.alive && context.environment.checks.sync {
            let missing = (self.alive & !active).trailing_zeros() as usize;
            return trouble(
                FaultKind::Sync,
                missing,
                "a barrier that only some lanes of the warp are at: this lane went another way",
            );
        }
        let id = self.uniform(id, active)?;
        let threads = threads.map(|threads| self.uniform(threads, active)).transpose()?;
        let vote = match reduce {
            Some((reduction, src)) => {
                self.reduction = Some(*reduction);
                self.predicate(*src, active)? & active
            }
            None => 0,
        };
        Ok(Pause::Barrier(Arrival { id, threads, wait, vote }))
    }

    /// Ends the wait at a barrier, with the number of threads whose predicate held and of all of them.
    pub fn release(&mut self, held: u32, all: u32) {
        let mask = self.alive;
        match self.reduction.take() {
            None => {}
            Some(Reduction::Count(dst)) => self.write32(dst, &[held; LANES], mask),
            Some(Reduction::And(dst)) => self.write_predicate(dst, if held == all { FULL } else { 0 }, mask),
            Some(Reduction::Or(dst)) => self.write_predicate(dst, if held > 0 { FULL } else { 0 }, mask),
        }
    }

    /// A register that must hold one value in all active lanes.
    pub(super) fn uniform(&self, slot: Slot, active: u32) -> Run<u32> {
        let values = self.read32(slot, active)?;
        let first = values[active.trailing_zeros() as usize % LANES];
        match lanes(active).find(|&lane| values[lane] != first) {
            None => Ok(first),
            Some(lane) => trouble(FaultKind::Sync, lane, "the lanes of the warp name different barriers or counts"),
        }
    }
}

/// What is said of a CTA at the step limit.
fn endless(context: &Context) -> String {
    let work = context.environment.max_steps - context.last_step;
    let copies = if work > 0 { format!(", and copies and products that count for {work},") } else { String::new() };
    format!("the CTA has taken {} warp instructions{copies} without an end", context.steps)
}

fn special_value(special: Special, context: &Context, warp: usize, cta: [u32; 3], lane: usize) -> u32 {
    let config = context.environment.config;
    let code = context.environment.code;
    let thread = context.thread(warp, lane);
    let before = |bits: u32| (1_u64 << bits) as u32;
    match special {
        Special::Tid(axis) => thread[axis],
        Special::Ntid(axis) => config.block[axis],
        Special::Ctaid(axis) => cta[axis],
        Special::Nctaid(axis) => config.grid[axis],
        Special::ClusterId(axis) => cta[axis] / config.cluster[axis],
        Special::ClusterCount(axis) => config.grid[axis] / config.cluster[axis],
        Special::ClusterCtaid(axis) => cta[axis] % config.cluster[axis],
        Special::ClusterNctaid(axis) => config.cluster[axis],
        Special::ClusterRank => context.rank as u32,
        Special::ClusterSize => context.agents.ctas as u32,
        Special::GridId => 0,
        Special::Lane => lane as u32,
        Special::Warp => warp as u32,
        Special::Warps => context.agents.warps as u32,
        Special::LaneMask(mask) => {
            let (eq, lt) = (1 << lane, before(lane as u32).wrapping_sub(1));
            match mask {
                LaneMask::Eq => eq,
                LaneMask::Lt => lt,
                LaneMask::Le => lt | eq,
                LaneMask::Gt => !(lt | eq),
                LaneMask::Ge => !lt,
            }
        }
        // One multiprocessor for each CTA of the first 128.
        Special::Sm => context.global.cta % 128,
        Special::Sms => 128,
        Special::DynamicShared => config.dynamic_shared,
        Special::TotalShared => code.static_shared + config.dynamic_shared,
    }
}
