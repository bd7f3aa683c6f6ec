//! What goes on beside a warp and is waited for: `cp.async`, and the instructions of mbarriers, proxies and clusters.
//!
//! A copy reads global memory when it is issued and writes shared memory when it is waited for: the last moment at which
//! it may. Until then its destination is marked as written by the warp's copy agent, which nobody's accesses follow.

use std::collections::VecDeque;

use super::access::resolve;
use super::budget::ENTRY;
use super::bulk::waited;
use super::cluster::Context;
use super::mbarrier::{Arrive, Deferred, Payload, PhaseOf};
use super::order::Agent;
use super::shared::{Accessor, AsyncAccessor};
use super::warp::{Poll, Warp};
use super::{FaultKind, Run, trouble};
use crate::emulate::lanes::{FULL, LANES, lanes};
use crate::emulate::program::{Address, AsyncOp, MemorySpace, Phase, PredicateUse, SharedAddress, Slot};

/// One lane's copy that is not complete.
struct Item {
    lane: usize,
    line: u32,
    address: u64,
    bytes: Vec<u8>,
}

impl Item {
    /// Bytes that it takes until it is complete.
    fn held(&self) -> u64 {
        ENTRY + self.bytes.len() as u64
    }
}

/// Copies that lanes committed together. Each waits for its own.
struct CopyGroup {
    /// The lanes that have not waited for it.
    pending: u32,
    items: Vec<Item>,
}

/// The copies of a warp that are not complete.
#[derive(Default)]
pub(super) struct Copies {
    /// Those since the last commit.
    open: Vec<Item>,
    /// Those of each group, oldest first.
    groups: VecDeque<CopyGroup>,
}

impl Warp {
    /// Executes an asynchronous instruction, or says what it waits for.
    pub(super) fn asynchronous(
        &mut self,
        op: &AsyncOp,
        active: u32,
        line: u32,
        context: &mut Context,
    ) -> Run<Option<Poll>> {
        match op {
            AsyncOp::Copy { to, from, size, read, ignore } => {
                self.copy(to, from, *size, (*read, *ignore), active, line, context)?;
            }
            AsyncOp::CopyCommit => {
                context.take(ENTRY, active.trailing_zeros() as usize)?;
                let Copies { open, groups } = &mut self.copies;
                let items = if open.iter().all(|item| active >> item.lane & 1 == 1) {
                    std::mem::take(open)
                } else {
                    open.extract_if(.., |item| active >> item.lane & 1 == 1).collect()
                };
                groups.push_back(CopyGroup { pending: active, items });
            }
            AsyncOp::CopyWait { left } => {
                context.count_work(self.copies.groups.len() as u64 / 4);
                let mut later = [0; LANES];
                let mut landed = Vec::new();
                for group in self.copies.groups.iter_mut().rev() {
                    let done = waited(group.pending & active, left.unwrap_or(0), &mut later);
                    group.pending &= !done;
                    landed.push(if group.pending == 0 {
                        std::mem::take(&mut group.items)
                    } else {
                        group.items.extract_if(.., |item| done >> item.lane & 1 == 1).collect()
                    });
                }
                let before = self.copies.groups.len();
                self.copies.groups.retain(|group| group.pending != 0);
                context.give(ENTRY * (before - self.copies.groups.len()) as u64);
                landed.into_iter().rev().for_each(|items| self.land(items, context));
                if left.is_none() {
                    let open = self.copies.open.extract_if(.., |item| active >> item.lane & 1 == 1).collect();
                    self.land(open, context);
                }
            }
            AsyncOp::CopyArrive { to, counted } => self.copy_arrive(to, *counted, active, line, context)?,
            AsyncOp::Init { barrier, count } => {
                let count = *self.read32(*count, active)?;
                for (lane, place) in self.places(barrier, active, context)? {
                    context.mbarrier_init(place, count[lane], Accessor { order: &self.order, lane, line })?;
                }
            }
            AsyncOp::Invalidate { barrier } => {
                for (lane, place) in self.places(barrier, active, context)? {
                    context.mbarrier_invalidate(place, Accessor { order: &self.order, lane, line })?;
                }
            }
            AsyncOp::Arrive { barrier, token, count, bytes, drop, release, arrives } => {
                let counts = count.map(|count| self.read32(count, active).copied()).transpose()?.unwrap_or([1; LANES]);
                let bytes = bytes.map(|bytes| self.read32(bytes, active).copied()).transpose()?.unwrap_or([0; LANES]);
                let mut tokens = [0; LANES];
                for (lane, place) in self.places(barrier, active, context)? {
                    let arrive = Arrive {
                        count: if *arrives { counts[lane] } else { 0 },
                        bytes: bytes[lane].into(),
                        drop: *drop,
                        release: *release,
                    };
                    tokens[lane] = context.mbarrier_arrive(place, arrive, &mut self.order, (lane, line))?;
                }
                if let Some(token) = token {
                    self.write64(*token, &tokens, active);
                }
            }
            AsyncOp::CompleteBytes { barrier, bytes } => {
                let bytes = *self.read32(*bytes, active)?;
                for (lane, place) in self.places(barrier, active, context)? {
                    let by = Accessor { order: &self.order, lane, line };
                    context.mbarrier_complete_bytes(place, bytes[lane].into(), by)?;
                }
            }
            AsyncOp::Test { done, barrier, phase, acquire } => {
                return self.test_wait(*done, barrier, *phase, *acquire, active, line, context);
            }
            AsyncOp::PendingCount { dst, token } => {
                let values = self.read64(*token, active)?.map(|token| token as u32);
                self.write32(*dst, &values, active);
            }
            AsyncOp::Bulk { .. }
            | AsyncOp::BulkTensor { .. }
            | AsyncOp::BulkCommit
            | AsyncOp::BulkWait { .. }
            | AsyncOp::MapAddress { .. }
            | AsyncOp::RankOf { .. } => self.bulk(op, active, line, context)?,
            AsyncOp::ProxyFence => self.order.fence_proxy(),
            AsyncOp::ClusterArrive { release } => {
                self.expect_whole(active, context)?;
                let warp = self.index + context.rank * context.agents.warps;
                context.cluster_barrier.arrive(warp, &mut self.order, *release)?;
                context.progress += 1;
            }
            AsyncOp::ClusterWait { acquire } => {
                self.expect_whole(active, context)?;
                let warp = self.index + context.rank * context.agents.warps;
                match context.cluster_barrier.wait(warp)? {
                    None => return Ok(Some(Poll::Cluster)),
                    Some(known) if *acquire => {
                        self.order.known.join(known);
                        self.order.synced = self.order.clock - 1;
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(None)
    }

    fn expect_whole(&self, active: u32, context: &Context) -> Run<()> {
        if active != self.alive && context.environment.checks.sync {
            let missing = (self.alive & !active).trailing_zeros() as usize;
            let message = "a barrier that only some lanes of the warp are at: this lane went another way";
            return trouble(FaultKind::Sync, missing, message);
        }
        Ok(())
    }

    /// For each active lane, the CTA and the address in its shared memory.
    pub(super) fn places(
        &self,
        place: &SharedAddress,
        active: u32,
        context: &Context,
    ) -> Run<Vec<(usize, (usize, u64))>> {
        let addresses = self.lane_addresses(&place.address, active)?;
        let space = if place.generic { MemorySpace::Generic } else { MemorySpace::Shared };
        lanes(active)
            .map(|lane| match resolve(space, addresses[lane]) {
                (MemorySpace::Shared, address) => Ok((lane, context.locate(address, lane)?)),
                _ => {
                    let message = format!("the generic address {:#x} is not one of shared memory", addresses[lane]);
                    trouble(FaultKind::Bounds, lane, message)
                }
            })
            .collect()
    }

    #[expect(clippy::too_many_arguments, reason = "the operands of one instruction")]
    fn copy(
        &mut self,
        to: &SharedAddress,
        from: &Address,
        size: u64,
        (read, ignore): (Option<Slot>, Option<PredicateUse>),
        active: u32,
        line: u32,
        context: &mut Context,
    ) -> Run<()> {
        let sources = self.lane_addresses(from, active)?;
        let reads = read.map(|read| self.read32(read, active).copied()).transpose()?.unwrap_or([size as u32; LANES]);
        let ignored = ignore.map(|ignore| self.predicate(ignore, active)).transpose()?.unwrap_or(0);
        let places = self.places(to, active, context)?;
        let (agent, clock) = self.order.issue(Agent::Copy);
        for (lane, (rank, address)) in places {
            let read = if ignored >> lane & 1 == 1 { 0 } else { u64::from(reads[lane]) };
            if read > size {
                let message = format!("{read} bytes are to be read by a copy of {size}");
                return trouble(FaultKind::Bounds, lane, message);
            }
            let mut bytes = vec![0; size as usize];
            if read > 0 {
                let offset = context.global.check_bytes(sources[lane], read, size, lane)?;
                let by = Accessor { order: &self.order, lane, line };
                context.global.load_into(offset, &mut bytes[..read as usize], by)?;
            }
            let shared = &mut context.shared[rank];
            shared.check(address, size, lane)?;
            let by = AsyncAccessor { agent, clock, order: &self.order, lane, line, proxied: false };
            shared.write_async(address, size, by)?;
            let item = Item { lane, line, address, bytes };
            context.take(item.held(), lane)?;
            self.copies.open.push(item);
        }
        Ok(())
    }

    /// Copies that are complete: their bytes are there, and are the issuing lane's.
    fn land(&mut self, group: Vec<Item>, context: &mut Context) {
        context.give(group.iter().map(Item::held).sum());
        let shared = &mut context.shared[context.rank];
        for Item { lane, line, address, bytes } in group {
            for (word, chunk) in (address..).step_by(4).zip(bytes.chunks(4)) {
                let value = chunk.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
                shared.put(word, 4, value);
            }
            shared.adopt(address, bytes.len() as u64, Accessor { order: &self.order, lane, line });
        }
    }

    /// `cp.async.mbarrier.arrive`: an arrival of each lane when its copies so far are complete.
    fn copy_arrive(
        &mut self,
        to: &SharedAddress,
        counted: bool,
        active: u32,
        line: u32,
        context: &mut Context,
    ) -> Run<()> {
        let at = self.at();
        let places = self.places(to, active, context)?;
        let (agent, clock) =
            (self.order.agents.of_warp(self.order.agent, Agent::Copy), self.order.issued[Agent::Copy as usize]);
        // A lane that is not here keeps its copies.
        let Copies { open, groups } = &mut self.copies;
        let all = groups.iter_mut().map(|group| &mut group.items).chain(std::iter::once(open));
        let mine: Vec<Item> = all
            .flat_map(|items| items.extract_if(.., |item| active >> item.lane & 1 == 1).collect::<Vec<_>>())
            .collect();
        let before = groups.len();
        groups.iter_mut().for_each(|group| group.pending &= !active);
        groups.retain(|group| group.pending != 0);
        context.give(ENTRY * (before - groups.len()) as u64);
        context.give(mine.iter().map(Item::held).sum());
        let rank = context.rank;
        let mut mine: Vec<Option<Payload>> =
            mine.into_iter().map(|Item { address, bytes, .. }| Some(Payload { rank, address, bytes })).collect();
        let last = FULL & active;
        for (lane, place) in places {
            let by = Accessor { order: &self.order, lane, line };
            if counted {
                context.mbarrier_expect_more(place, 1, by)?;
            }
            // All lanes' copies land with the first lane's arrival: one that waits waits for them all.
            let writes =
                if lane == last.trailing_zeros() as usize { mine.drain(..).flatten().collect() } else { Vec::new() };
            let work = Deferred { completes: vec![(agent, clock)], writes, arrivals: 1, bytes: 0, at };
            context.mbarrier_defer(place, work, by)?;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the operands of one instruction")]
    fn test_wait(
        &mut self,
        done: Slot,
        barrier: &SharedAddress,
        phase: Phase,
        acquire: bool,
        active: u32,
        line: u32,
        context: &mut Context,
    ) -> Run<Option<Poll>> {
        let phases: Vec<PhaseOf> = match phase {
            Phase::Parity(slot) => self.read32(slot, active)?.iter().map(|&parity| PhaseOf::Parity(parity)).collect(),
            Phase::Token(slot) => self.read64(slot, active)?.iter().map(|&token| PhaseOf::Token(token)).collect(),
        };
        let mut complete = 0;
        let mut waiting = None;
        let mut last = None;
        for (lane, place) in self.places(barrier, active, context)? {
            if place.0 != context.rank && context.environment.checks.sync {
                let message = "a wait at an mbarrier of another CTA: one waits only at those of its own";
                return trouble(FaultKind::Sync, lane, message);
            }
            // Lanes mostly ask the same.
            let question = (
                place,
                match phases[lane] {
                    PhaseOf::Parity(parity) => u64::from(parity),
                    PhaseOf::Token(token) => token,
                },
            );
            let answer = match last {
                Some((same, answer)) if same == question => answer,
                _ => context.mbarrier_test(place, phases[lane], Accessor { order: &self.order, lane, line })?,
            };
            last = Some((question, answer));
            if answer {
                complete |= 1 << lane;
                if acquire {
                    context.mbarrier_acquire(place, &mut self.order.known);
                }
            } else {
                waiting = waiting.or(Some(Poll::MBarrier { rank: place.0, address: place.1 }));
            }
        }
        if let Some(poll) = waiting
            && !std::mem::take(&mut self.told_not_yet)
        {
            return Ok(Some(poll));
        }
        self.write_predicate(done, complete, active);
        Ok(None)
    }
}
