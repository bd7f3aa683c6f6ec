//! A launch that is watched: warps step one instruction at a time, and an [`Observer`] looks before and after each.

use super::access::resolve;
use super::cluster::Context;
use super::warp::{Pause, SLICE, Warp};
use super::{FaultKind, Run};
use crate::emulate::lanes::{FULL, Lanes64, lanes};
use crate::emulate::observe::{
    Access, AccessKind, Counters, Event, Found, Memory, Register, SharedMemory, Snapshot, Stop, Value, Watch, one_line,
};
use crate::emulate::program::{
    Address, AddressBase, AsyncOp, CLUSTER_SHARED_LOG2, Instruction, MemorySpace, Op, Reg, TensorOp,
};

/// Looks at the warps of one cluster.
pub(super) struct Observer<'a> {
    watch: &'a Watch<'a>,
    /// The CTAs of the cluster, by rank.
    ctas: Vec<[u32; 3]>,
    /// For each warp of the cluster, whether it is to ask again for what it waits for.
    asked: Vec<bool>,
    /// What is known of the instruction that is being executed, if it is traced.
    pending: Option<Event>,
    /// Events traced and hits counted so far, in all clusters.
    events: u64,
    hits: u64,
    found: Found,
}

impl<'a> Observer<'a> {
    pub fn new(watch: &'a Watch<'a>) -> Self {
        let (events, hits, found) = (0, 0, Found::default());
        Self { watch, ctas: Vec::new(), asked: Vec::new(), pending: None, events, hits, found }
    }

    /// Makes it ready for a cluster of these CTAs.
    pub fn begin(&mut self, ctas: &[[u32; 3]], warps: usize) {
        self.ctas.clear();
        self.ctas.extend(ctas);
        self.asked.clear();
        self.asked.resize(warps, false);
        if self.watch.observe.profile {
            self.found.counters.resize(self.watch.kernel.code.instructions.len(), Counters::default());
        }
    }

    /// Hands over what was found; an event that is still pending is of the instruction that ended the launch.
    pub fn end(&mut self) {
        if let Some(event) = self.pending.take() {
            self.found.seen.events.push(Event { faulted: true, ..event });
        }
        self.watch.add(std::mem::take(&mut self.found));
    }

    /// Whether a warp of the cluster has stopped.
    pub fn has_stopped(&self) -> bool {
        self.found.seen.stop.is_some()
    }

    /// Looks at a warp that is to execute instruction `at` in the lanes of `mask`. True if it is to stop there.
    fn before(&mut self, warp: &Warp, (at, mask): (usize, u32), context: &Context) -> bool {
        let code = context.environment.code;
        let observe = self.watch.observe;
        let instruction = &code.instructions[at];
        let active = match instruction.guard {
            None => mask,
            Some(guard) => mask & warp.carry_predicate(guard).0,
        };
        let again = std::mem::take(&mut self.asked[context.rank * context.agents.warps + warp.index]);
        let watched = observe.cta.is_none_or(|cta| cta == self.ctas[context.rank])
            && observe.warp.is_none_or(|index| index as usize == warp.index);
        if let Some(Stop { line, hit }) = observe.stop
            && watched
            && !again
            && instruction.line == line
            // Of several instructions in the line the first counts.
            && (at == 0 || code.instructions[at - 1].line != line)
        {
            self.hits += 1;
            self.found.seen.hits += 1;
            if self.hits == hit {
                self.found.seen.stop = Some(self.snapshot(warp, instruction, (active, hit), context));
                return true;
            }
        }
        let mut traced = watched
            && observe.trace.is_some()
            && observe.lines.as_ref().is_none_or(|lines| lines.contains(&instruction.line));
        if traced && Some(self.events) >= observe.trace {
            self.found.seen.left_out += 1;
            traced = false;
        }
        if !traced && !observe.profile {
            return false;
        }
        let accesses = accesses(warp, &instruction.op, active, context);
        if observe.profile {
            let counters = &mut self.found.counters[at];
            counters.warp_instructions += 1;
            counters.thread_instructions += u64::from(active.count_ones());
            counters.splits += u64::from(splits(warp, &instruction.op, mask, active));
            accesses.iter().for_each(|access| counters.add_access(access));
        }
        if traced {
            let stored = match &instruction.op {
                Op::Store { src, .. } => src.iter().map(|&reg| self.value(warp, reg, active)).collect(),
                _ => Vec::new(),
            };
            self.pending = Some(Event {
                cta: self.ctas[context.rank],
                warp: warp.index as u32,
                line: instruction.line,
                text: self.text(instruction),
                active,
                writes: Vec::new(),
                accesses,
                stored,
                faulted: false,
            });
        }
        false
    }

    /// Looks at a warp that has executed instruction `at`.
    fn after(&mut self, warp: &Warp, at: usize, context: &Context) {
        let Some(mut event) = self.pending.take() else { return };
        let code = context.environment.code;
        // What a barrier writes, it writes when it lets the warp go.
        if event.active != 0 && !matches!(code.instructions[at].op, Op::Barrier { .. }) {
            let written = code.listing.writes[at].iter();
            event.writes = written.map(|&reg| self.value(warp, reg, event.active)).collect();
        }
        self.events += 1;
        self.found.seen.events.push(event);
    }

    /// The instruction is not over: the warp will come to it again.
    fn waits(&mut self, warp: &Warp, context: &Context) {
        self.pending = None;
        self.asked[context.rank * context.agents.warps + warp.index] = true;
    }

    fn text(&self, instruction: &Instruction) -> String {
        let span = instruction.span;
        let source = &self.watch.kernel.source;
        one_line(source.get(span.start as usize..span.end as usize).unwrap_or_default())
    }

    /// What a register holds in the lanes of `active`.
    fn value(&self, warp: &Warp, reg: Reg, active: u32) -> Value {
        let declared = self.watch.kernel.code.listing.declared(reg);
        let bits = match (declared, reg) {
            (Some(declared), _) => declared.bits,
            (None, Reg::R32(_)) => 32,
            (None, Reg::R64(_)) => 64,
            (None, Reg::Pred(_)) => 1,
        };
        let (values, defined) = warp.carry(reg);
        let mask = active & defined;
        let register = declared.map_or_else(|| "constant".to_owned(), |declared| declared.name.clone());
        let values = lanes(mask).map(|lane| values[lane] & (u64::MAX >> (64 - bits))).collect();
        Value { register, bits, lanes: mask, values }
    }

    fn snapshot(
        &self,
        warp: &Warp,
        instruction: &Instruction,
        (active, hit): (u32, u64),
        context: &Context,
    ) -> Snapshot {
        let kernel = self.watch.kernel;
        let breaks: Vec<u32> = kernel.source.match_indices('\n').map(|(at, _)| at as u32).collect();
        let registers = kernel.code.listing.registers.iter().map(|declared| Register {
            declared: breaks.partition_point(|&at| at < declared.start) as u32 + 1,
            value: self.value(warp, declared.reg, warp.threads),
        });
        let registers: Vec<_> = registers.filter(|register| register.value.lanes != 0).collect();
        let (bytes, written) = context.shared[context.rank].contents();
        Snapshot {
            kernel: kernel.name.clone(),
            line: instruction.line,
            text: self.text(instruction),
            hit,
            cta: self.ctas[context.rank],
            warp: warp.index as u32,
            active,
            alive: warp.alive,
            undefined: kernel.code.listing.registers.len() - registers.len(),
            registers,
            shared: SharedMemory::new(bytes, written),
        }
    }
}

impl Warp {
    /// As [`Warp::run`], with an observer.
    pub(super) fn run_observed(&mut self, context: &mut Context, observer: &mut Observer) -> Run<Pause> {
        let last = context.steps.saturating_add(SLICE);
        loop {
            let next = self.upcoming().filter(|_| context.steps < context.last_step);
            // Nothing to execute: it has returned, or has taken all the steps that it may.
            let Some((at, mask)) = next else { return self.run_until(context, last) };
            if observer.before(self, (at, mask), context) {
                return Ok(Pause::Stopped);
            }
            let result = self.run_until(context, context.steps + 1);
            match &result {
                Ok(Pause::Poll(_)) => observer.waits(self, context),
                Ok(_) => observer.after(self, at, context),
                // It was the last step that the warp may take, and it is over.
                Err(trouble) if trouble.kind == FaultKind::Steps => observer.after(self, at, context),
                Err(_) => {}
            }
            match result {
                Ok(Pause::Slice) if context.steps < last => {}
                result => return result,
            }
        }
    }

    /// The lanes' addresses, defined or not.
    fn peek(&self, address: &Address) -> Lanes64 {
        let offset = address.offset;
        match address.base {
            AddressBase::Constant => [offset as u64; 32],
            AddressBase::R32(slot) => {
                self.bank32[slot as usize].map(|base| u64::from(base.wrapping_add(offset as u32)))
            }
            AddressBase::R64(slot) => self.bank64[slot as usize].map(|base| base.wrapping_add_signed(offset)),
        }
    }
}

/// Whether a branch sends the lanes of `mask` different ways; those of `active` take it.
fn splits(warp: &Warp, op: &Op, mask: u32, active: u32) -> bool {
    match op {
        Op::Branch { .. } => active != 0 && active != mask,
        Op::BranchIndexed { index, .. } => {
            let index = &warp.bank32[*index as usize];
            let first = index[active.trailing_zeros() as usize % 32];
            active != 0 && (active != mask || lanes(active).any(|lane| index[lane] != first))
        }
        _ => false,
    }
}

/// The accesses that an instruction makes itself. Those of the tensor cores' and copy engines' own are not among them.
fn accesses(warp: &Warp, op: &Op, active: u32, context: &Context) -> Vec<Access> {
    let mut list = Vec::new();
    let mut add = |kind, space, bytes, address: &Address, active| {
        add_access(&mut list, (kind, space, bytes), &warp.peek(address), active, context);
    };
    let space = |generic: bool| if generic { MemorySpace::Generic } else { MemorySpace::Shared };
    match op {
        Op::Load { space, size, dst, address, .. } => {
            add(AccessKind::Load, *space, u64::from(*size) * dst.len() as u64, address, active);
        }
        Op::Store { space, size, src, address } => {
            add(AccessKind::Store, *space, u64::from(*size) * src.len() as u64, address, active);
        }
        Op::Atomic { space, size, address, .. } => {
            add(AccessKind::Atomic, *space, u64::from(*size), address, active);
        }
        Op::Tensor(op) => match op.as_ref() {
            // The lanes name rows of 16 bytes, as many as there are.
            TensorOp::LoadMatrix { dst, address, generic, .. } => {
                add(AccessKind::Load, space(*generic), 16, address, active & rows(dst.len()));
            }
            TensorOp::StoreMatrix { src, address, generic, .. } => {
                add(AccessKind::Store, space(*generic), 16, address, active & rows(src.len()));
            }
            _ => {}
        },
        Op::Async(op) => {
            if let AsyncOp::Copy { to, from, size, read, ignore } = op.as_ref() {
                let ignored = ignore.map_or(0, |ignore| warp.carry_predicate(ignore).0);
                let none = read.map_or(0, |read| {
                    let bytes = &warp.bank32[read as usize];
                    lanes(FULL).filter(|&lane| bytes[lane] == 0).fold(0, |mask, lane| mask | 1 << lane)
                });
                add(AccessKind::Load, MemorySpace::Global, *size, from, active & !ignored & !none);
                add(AccessKind::Store, space(to.generic), *size, &to.address, active);
            }
        }
        _ => {}
    }
    list
}

/// The lanes that name the rows of so many matrices.
fn rows(matrices: usize) -> u32 {
    FULL >> (32 - (8 * matrices).clamp(1, 32))
}

/// Adds an access for each memory that the lanes' addresses are in.
fn add_access(
    list: &mut Vec<Access>,
    (kind, space, bytes): (AccessKind, MemorySpace, u64),
    addresses: &Lanes64,
    active: u32,
    context: &Context,
) {
    let first = list.len();
    for lane in lanes(active) {
        let (space, address) = resolve(space, addresses[lane]);
        let (memory, address) = match space {
            MemorySpace::Global | MemorySpace::Generic => (Memory::Global, address),
            MemorySpace::Local => (Memory::Local, address),
            MemorySpace::Param => (Memory::Param, address),
            // The CTA's own memory has one name.
            MemorySpace::Shared => match context.locate(address, lane) {
                Ok((rank, inside)) if rank == context.rank => (Memory::Shared, inside),
                Ok((rank, inside)) => (Memory::Shared, (rank as u64 + 1) << CLUSTER_SHARED_LOG2 | inside),
                Err(_) => (Memory::Shared, address),
            },
        };
        match list[first..].iter_mut().find(|access| access.memory == memory) {
            Some(access) => {
                access.lanes |= 1 << lane;
                access.addresses.push(address);
            }
            None => list.push(Access { memory, kind, bytes, lanes: 1 << lane, addresses: vec![address] }),
        }
    }
}
