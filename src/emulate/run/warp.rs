//! One warp: its registers, its stack of diverged paths, and the step that executes an instruction on all active lanes.

use super::cta::Context;
use super::shared::Order;
use super::{FaultKind, Run, trouble};
use crate::emulate::alu::Alu;
use crate::emulate::lanes::{FULL, LANES, Lanes32, Lanes64, flush, lanes};
use crate::emulate::program::{Bool, Code, Compare, LaneMask, Op, PredicateUse, Reduction, Reg, Slot, Special};

/// Lanes that go one way: where they are, and where they meet the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub pc: usize,
    join: usize,
    mask: u32,
}

/// A pc or join that is never reached.
const NEVER: usize = usize::MAX;

/// What a warp waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// At barrier `id`; the instruction's number, for messages.
    Waiting {
        id: u32,
        at: usize,
    },
    Done,
}

/// Why a warp stopped stepping.
pub(super) enum Pause {
    Done,
    Barrier { id: u32, threads: Option<u32>, wait: bool, vote: u32 },
}

/// The registers and the control state of 32 threads.
#[derive(Default)]
pub(super) struct Warp {
    pub order: Order,
    /// Lanes that exist.
    pub threads: u32,
    /// Lanes that have not returned.
    pub alive: u32,
    frames: Vec<Frame>,
    bank32: Vec<Lanes32>,
    bank64: Vec<Lanes64>,
    predicates: Vec<u32>,
    /// For each register, the lanes that something wrote.
    ready32: Vec<u32>,
    ready64: Vec<u32>,
    ready_predicates: Vec<u32>,
    /// Local memory, a lane after the other, and which bytes were written.
    pub(super) local: Vec<u8>,
    pub(super) local_written: Vec<bool>,
    /// What the barrier that the warp waits at will write.
    reduction: Option<Reduction>,
    check_init: bool,
}

impl Warp {
    /// Makes it new for warp `index` of a CTA.
    pub fn reset(&mut self, context: &Context, index: usize, warps: usize, cta: [u32; 3]) {
        let code = context.environment.code;
        let config = context.environment.config;
        let block = config.block.map(u64::from);
        let threads = block.iter().product::<u64>() - 32 * index as u64;
        self.threads = if threads >= 32 { FULL } else { (1 << threads) - 1 };
        self.alive = self.threads;
        self.order.warp = index;
        self.order.clock = 1;
        self.order.synced = 0;
        self.order.seen.clear();
        self.order.seen.resize(warps, 0);
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
        let local = code.local_bytes as usize * LANES;
        self.local.clear();
        self.local.resize(local, 0);
        self.local_written.clear();
        self.local_written.resize(local, false);
        self.reduction = None;
        self.check_init = context.environment.checks.init;
        for &(slot, special) in &code.specials {
            let value = |lane| special_value(special, context, index, warps, cta, lane);
            self.bank32[slot as usize] = std::array::from_fn(value);
        }
    }

    /// The instruction that the warp is at.
    pub fn at(&self) -> usize {
        self.frames.last().map_or(0, |frame| frame.pc)
    }

    /// Steps until the warp has returned or is at a barrier.
    pub fn run(&mut self, context: &mut Context) -> Run<Pause> {
        let code = context.environment.code;
        loop {
            let Some(frame) = self.frames.last().copied() else { return Ok(Pause::Done) };
            let mask = frame.mask & self.alive;
            if frame.pc == frame.join || frame.pc == NEVER || mask == 0 {
                self.frames.pop();
                continue;
            }
            if context.steps == context.environment.max_steps {
                return trouble(
                    FaultKind::Steps,
                    None,
                    format!("the CTA has taken {} warp instructions without an end", context.steps),
                );
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
                    let mut ways: Vec<(u32, usize)> = targets.iter().map(|&target| (0, target)).collect();
                    for lane in lanes(active) {
                        let Some(way) = ways.get_mut(index[lane] as usize) else {
                            let count = targets.len();
                            let message = format!("branch index {} with {count} targets", index[lane]);
                            return trouble(FaultKind::Bounds, lane, message);
                        };
                        way.0 |= 1 << lane;
                    }
                    ways.push((mask & !active, frame.pc + 1));
                    self.branch(code, frame.pc, mask, &ways);
                    continue;
                }
                Op::Exit => {
                    self.alive &= !active;
                }
                Op::Trap if active != 0 => {
                    return trouble(FaultKind::Trap, active.trailing_zeros() as usize, "the kernel trapped");
                }
                Op::Barrier { id, threads, wait, reduce } if active != 0 => {
                    let pause = self.barrier(*id, *threads, *wait, reduce.as_ref(), active, context)?;
                    self.advance();
                    return Ok(pause);
                }
                _ if active == 0 => {}
                op => self.execute(op, active, instruction.line, context)?,
            }
            self.advance();
        }
    }

    fn advance(&mut self) {
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
        Ok(Pause::Barrier { id, threads, wait, vote })
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
    fn uniform(&self, slot: Slot, active: u32) -> Run<u32> {
        let values = self.read32(slot, active)?;
        let first = values[active.trailing_zeros() as usize % LANES];
        match lanes(active).find(|&lane| values[lane] != first) {
            None => Ok(first),
            Some(lane) => trouble(FaultKind::Sync, lane, "the lanes of the warp name different barriers or counts"),
        }
    }

    // Registers. `read` and its like are for values that are used; what merely passes through is carried.

    fn unready<T>(&self, missing: u32) -> Run<T> {
        let lane = missing.trailing_zeros() as usize;
        trouble(FaultKind::Uninitialised, lane, "a register is used whose value nothing defined")
    }

    /// A narrow register's lanes and those of them that are defined.
    pub fn carry32(&self, slot: Slot) -> (&Lanes32, u32) {
        (&self.bank32[slot as usize], self.ready32[slot as usize])
    }

    /// Says that a register just written is defined in the lanes of `defined` alone.
    pub fn define32(&mut self, slot: Slot, defined: u32, active: u32) {
        self.ready32[slot as usize] &= defined | !active;
    }

    pub fn read32(&self, slot: Slot, active: u32) -> Run<&Lanes32> {
        let missing = active & !self.ready32[slot as usize];
        if missing != 0 && self.check_init {
            return self.unready(missing);
        }
        Ok(&self.bank32[slot as usize])
    }

    pub fn read64(&self, slot: Slot, active: u32) -> Run<&Lanes64> {
        let missing = active & !self.ready64[slot as usize];
        if missing != 0 && self.check_init {
            return self.unready(missing);
        }
        Ok(&self.bank64[slot as usize])
    }

    /// A register of either bank, widened.
    pub fn read(&self, reg: Reg, active: u32) -> Run<Lanes64> {
        match reg {
            Reg::R32(slot) => self.read32(slot, active).map(|values| values.map(u64::from)),
            Reg::R64(slot) => self.read64(slot, active).copied(),
            Reg::Pred(slot) => {
                let mask = self.predicate(PredicateUse { slot, negated: false }, active)?;
                Ok(std::array::from_fn(|lane| u64::from(mask >> lane & 1)))
            }
        }
    }

    pub fn predicate(&self, by: PredicateUse, active: u32) -> Run<u32> {
        let missing = active & !self.ready_predicates[by.slot as usize];
        if missing != 0 && self.check_init {
            return self.unready(missing);
        }
        let value = self.predicates[by.slot as usize];
        Ok(if by.negated { !value } else { value })
    }

    pub fn write32(&mut self, slot: Slot, values: &Lanes32, mask: u32) {
        let register = &mut self.bank32[slot as usize];
        if mask == FULL {
            *register = *values;
        } else {
            for lane in lanes(mask) {
                register[lane] = values[lane];
            }
        }
        self.ready32[slot as usize] |= mask;
    }

    pub fn write64(&mut self, slot: Slot, values: &Lanes64, mask: u32) {
        let register = &mut self.bank64[slot as usize];
        if mask == FULL {
            *register = *values;
        } else {
            for lane in lanes(mask) {
                register[lane] = values[lane];
            }
        }
        self.ready64[slot as usize] |= mask;
    }

    pub fn write_predicate(&mut self, slot: Slot, value: u32, mask: u32) {
        let predicate = &mut self.predicates[slot as usize];
        *predicate = *predicate & !mask | value & mask;
        self.ready_predicates[slot as usize] |= mask;
    }

    /// Writes the low bits of `values` to a register of either bank.
    pub fn write(&mut self, reg: Reg, values: &Lanes64, mask: u32) {
        match reg {
            Reg::R32(slot) => self.write32(slot, &values.map(|value| value as u32), mask),
            Reg::R64(slot) => self.write64(slot, values, mask),
            Reg::Pred(slot) => {
                let bits = (0..LANES).fold(0, |bits, lane| bits | ((values[lane] & 1) as u32) << lane);
                self.write_predicate(slot, bits, mask);
            }
        }
    }

    // Instructions.

    fn execute(&mut self, op: &Op, active: u32, line: u32, context: &mut Context) -> Run<()> {
        match op {
            // Arithmetic, moves and selections carry on what is not defined; it is found where it is used: as an address, a
            // guard, a value that is stored, what lanes or warps agree on.
            Op::Alu { alu, dst, src, ftz, sat } => {
                self.alu(*alu, *dst, src, *ftz, *sat, active);
                Ok(())
            }
            Op::Set { compare, combine, dst, not, ftz } => {
                let (holds, mut defined) = self.compare(*compare, *ftz);
                let (holds, fails) = match combine {
                    None => (holds, !holds),
                    Some((op, by)) => {
                        let (by, by_defined) = self.carry_predicate(*by);
                        defined &= by_defined;
                        (op.apply(holds, by), op.apply(!holds, by))
                    }
                };
                if let Some(dst) = dst {
                    self.write_predicate_carried(*dst, holds, defined, active);
                }
                if let Some(not) = not {
                    self.write_predicate_carried(*not, fails, defined, active);
                }
                Ok(())
            }
            Op::Logic { op, dst, a, b } => {
                let ((a, a_defined), (b, b_defined)) = (self.carry_predicate(*a), self.carry_predicate(*b));
                // A false operand decides `and`, a true one `or`, whatever the other is.
                let decided = match op {
                    Bool::And => a_defined & !a | b_defined & !b,
                    Bool::Or => a_defined & a | b_defined & b,
                    Bool::Xor => 0,
                };
                self.write_predicate_carried(*dst, op.apply(a, b), a_defined & b_defined | decided, active);
                Ok(())
            }
            Op::SetConstant { dst, value } => {
                self.write_predicate(*dst, *value, active);
                Ok(())
            }
            Op::Move32 { dst, src } => {
                let (values, defined) = (self.bank32[*src as usize], self.ready32[*src as usize]);
                self.write32(*dst, &values, active);
                self.ready32[*dst as usize] &= defined | !active;
                Ok(())
            }
            Op::Move64 { dst, src } => {
                let (values, defined) = (self.bank64[*src as usize], self.ready64[*src as usize]);
                self.write64(*dst, &values, active);
                self.ready64[*dst as usize] &= defined | !active;
                Ok(())
            }
            Op::Select32 { dst, a, b, by } => {
                let (by, by_defined) = self.carry_predicate(*by);
                let (a, b) = (*a as usize, *b as usize);
                let values =
                    std::array::from_fn(
                        |lane| {
                            if by >> lane & 1 == 1 { self.bank32[a][lane] } else { self.bank32[b][lane] }
                        },
                    );
                let defined = by_defined & (by & self.ready32[a] | !by & self.ready32[b]);
                self.write32(*dst, &values, active);
                self.ready32[*dst as usize] &= defined | !active;
                Ok(())
            }
            Op::Select64 { dst, a, b, by } => {
                let (by, by_defined) = self.carry_predicate(*by);
                let (a, b) = (*a as usize, *b as usize);
                let values =
                    std::array::from_fn(
                        |lane| {
                            if by >> lane & 1 == 1 { self.bank64[a][lane] } else { self.bank64[b][lane] }
                        },
                    );
                let defined = by_defined & (by & self.ready64[a] | !by & self.ready64[b]);
                self.write64(*dst, &values, active);
                self.ready64[*dst as usize] &= defined | !active;
                Ok(())
            }
            Op::Pack { dst, parts, bits } => {
                let mut values = [0; LANES];
                let mut defined = FULL;
                let mask = u64::MAX >> (64 - bits);
                for (place, part) in parts.iter().enumerate() {
                    let (part, part_defined) = self.carry(*part);
                    defined &= part_defined;
                    for (value, part) in values.iter_mut().zip(&part) {
                        *value |= (part & mask) << (place as u32 * bits);
                    }
                }
                self.write_carried(*dst, &values, defined, active);
                Ok(())
            }
            Op::Unpack { parts, src, bits } => {
                let (values, defined) = self.carry(*src);
                let mask = u64::MAX >> (64 - bits);
                for (place, part) in parts.iter().enumerate() {
                    if let Some(part) = part {
                        let part_values = values.map(|value| value >> (place as u32 * bits) & mask);
                        self.write_carried(*part, &part_values, defined, active);
                    }
                }
                Ok(())
            }
            Op::Load { space, size, signed, dst, address } => {
                let access = super::access::Access { space: *space, size: u64::from(*size), address, active, line };
                self.load(access, *signed, dst, context)
            }
            Op::Store { space, size, src, address } => {
                let access = super::access::Access { space: *space, size: u64::from(*size), address, active, line };
                self.store(access, src, context)
            }
            Op::Atomic { space, size, apply, dst, address, b, c } => {
                let access = super::access::Access { space: *space, size: u64::from(*size), address, active, line };
                self.atomic(access, *apply, *dst, (*b, *c), context)
            }
            Op::Clock { dst } => {
                self.write(*dst, &[context.steps; LANES], active);
                Ok(())
            }
            Op::Nothing => Ok(()),
            op => self.collective(op, active, context.environment.checks.sync),
        }
    }

    /// A comparison, and the lanes in which its operands are defined.
    fn compare(&self, compare: Compare, ftz: bool) -> (u32, u32) {
        match compare {
            Compare::C32(function, a, b) => {
                let (x, y) = (&self.bank32[a as usize], &self.bank32[b as usize]);
                let holds = if ftz { function(&x.map(flush), &y.map(flush)) } else { function(x, y) };
                (holds, self.ready32[a as usize] & self.ready32[b as usize])
            }
            Compare::C64(function, a, b) => {
                let holds = function(&self.bank64[a as usize], &self.bank64[b as usize]);
                (holds, self.ready64[a as usize] & self.ready64[b as usize])
            }
        }
    }

    /// Arithmetic: a lane's result is defined if all its operands are.
    fn alu(&mut self, alu: Alu, dst: Slot, src: &[Slot; 4], ftz: bool, sat: bool, active: u32) {
        let [a, b, c, d] = src.map(usize::from);
        let (r, w) = (&self.bank32, &self.bank64);
        let (ready, wide_ready) = (&self.ready32, &self.ready64);
        let mut narrow = [0; LANES];
        let mut wide = [0; LANES];
        let (is_wide, defined) = match alu {
            Alu::F1(function) => {
                if ftz {
                    function(&r[a].map(flush), &mut narrow)
                } else {
                    function(&r[a], &mut narrow)
                }
                (false, ready[a])
            }
            Alu::F2(function) => {
                if ftz {
                    function(&r[a].map(flush), &r[b].map(flush), &mut narrow);
                } else {
                    function(&r[a], &r[b], &mut narrow);
                }
                (false, ready[a] & ready[b])
            }
            Alu::F3(function) => {
                if ftz {
                    function(&r[a].map(flush), &r[b].map(flush), &r[c].map(flush), &mut narrow);
                } else {
                    function(&r[a], &r[b], &r[c], &mut narrow);
                }
                (false, ready[a] & ready[b] & ready[c])
            }
            Alu::F4(function) => {
                function(&r[a], &r[b], &r[c], &r[d], &mut narrow);
                (false, ready[a] & ready[b] & ready[c] & ready[d])
            }
            Alu::K1(function) => {
                function(&w[a], &mut narrow);
                (false, wide_ready[a])
            }
            Alu::W1(function) => {
                function(&w[a], &mut wide);
                (true, wide_ready[a])
            }
            Alu::W2(function) => {
                function(&w[a], &w[b], &mut wide);
                (true, wide_ready[a] & wide_ready[b])
            }
            Alu::W3(function) => {
                function(&w[a], &w[b], &w[c], &mut wide);
                (true, wide_ready[a] & wide_ready[b] & wide_ready[c])
            }
            Alu::G1(function) => {
                if ftz {
                    function(&r[a].map(flush), &mut wide)
                } else {
                    function(&r[a], &mut wide)
                }
                (true, ready[a])
            }
            Alu::G2(function) => {
                function(&r[a], &r[b], &mut wide);
                (true, ready[a] & ready[b])
            }
            Alu::G3(function) => {
                function(&r[a], &r[b], &w[c], &mut wide);
                (true, ready[a] & ready[b] & wide_ready[c])
            }
            Alu::S64(function) => {
                function(&w[a], &r[b], &mut wide);
                (true, wide_ready[a] & ready[b])
            }
            Alu::B64(function) => {
                function(&w[a], &r[b], &r[c], &mut wide);
                (true, wide_ready[a] & ready[b] & ready[c])
            }
            Alu::I64(function) => {
                function(&w[a], &w[b], &r[c], &r[d], &mut wide);
                (true, wide_ready[a] & wide_ready[b] & ready[c] & ready[d])
            }
        };
        if is_wide {
            self.write64(dst, &wide, active);
            self.ready64[dst as usize] &= defined | !active;
            return;
        }
        if ftz {
            narrow = narrow.map(flush);
        }
        if sat {
            // NaN saturates to zero.
            narrow = narrow.map(|bits| f32::from_bits(bits).clamp(0.0, 1.0).max(0.0).to_bits());
        }
        self.write32(dst, &narrow, active);
        self.ready32[dst as usize] &= defined | !active;
    }

    /// The bits of a register of either bank, widened, and the lanes in which they are defined.
    fn carry(&self, reg: Reg) -> (Lanes64, u32) {
        match reg {
            Reg::R32(slot) => (self.bank32[slot as usize].map(u64::from), self.ready32[slot as usize]),
            Reg::R64(slot) => (self.bank64[slot as usize], self.ready64[slot as usize]),
            Reg::Pred(slot) => {
                let mask = self.predicates[slot as usize];
                (std::array::from_fn(|lane| u64::from(mask >> lane & 1)), self.ready_predicates[slot as usize])
            }
        }
    }

    /// Writes a register whose value is defined in the lanes of `defined` alone.
    fn write_carried(&mut self, reg: Reg, values: &Lanes64, defined: u32, active: u32) {
        self.write(reg, values, active);
        let ready = match reg {
            Reg::R32(slot) => &mut self.ready32[slot as usize],
            Reg::R64(slot) => &mut self.ready64[slot as usize],
            Reg::Pred(slot) => &mut self.ready_predicates[slot as usize],
        };
        *ready &= defined | !active;
    }

    fn write_predicate_carried(&mut self, slot: Slot, value: u32, defined: u32, active: u32) {
        self.write_predicate(slot, value, active);
        self.ready_predicates[slot as usize] &= defined | !active;
    }

    /// A predicate's value and the lanes in which it is defined.
    fn carry_predicate(&self, by: PredicateUse) -> (u32, u32) {
        let value = self.predicates[by.slot as usize];
        (if by.negated { !value } else { value }, self.ready_predicates[by.slot as usize])
    }
}

fn special_value(special: Special, context: &Context, warp: usize, warps: usize, cta: [u32; 3], lane: usize) -> u32 {
    let config = context.environment.config;
    let code = context.environment.code;
    let thread = context.thread(warp, lane);
    let before = |bits: u32| (1_u64 << bits) as u32;
    match special {
        Special::Tid(axis) => thread[axis],
        Special::Ntid(axis) => config.block[axis],
        Special::Ctaid(axis) | Special::ClusterId(axis) => cta[axis],
        Special::Nctaid(axis) | Special::ClusterCount(axis) => config.grid[axis],
        // Clusters are of one CTA.
        Special::ClusterCtaid(_) | Special::ClusterRank | Special::GridId => 0,
        Special::ClusterNctaid(_) | Special::ClusterSize => 1,
        Special::Lane => lane as u32,
        Special::Warp => warp as u32,
        Special::Warps => warps as u32,
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
