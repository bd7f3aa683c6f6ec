//! mbarriers: arrivals, bytes expected, phases; and the asynchronous work that completes on them.
//!
//! Work that completes on an mbarrier is kept back until a warp waits there and would not get on without: the last moment
//! at which it may complete. What it writes to shared memory is written then.

use std::collections::VecDeque;

use super::budget::{ENTRY, knowledge_bytes};
use super::cluster::Context;
use super::order::{Agents, Knowledge, Order};
use super::shared::{Accessor, Write, unordered};
use super::{FaultKind, Run, trouble};

/// Arrivals of one phase at most.
const MAX_COUNT: u32 = (1 << 20) - 1;
/// Bytes that one phase may wait for at most.
const MAX_BYTES: i64 = (1 << 20) - 1;

/// Bytes of shared memory that asynchronous work writes when it completes.
pub(super) struct Payload {
    pub rank: usize,
    pub address: u64,
    pub bytes: Vec<u8>,
}

/// Asynchronous work that completes on an mbarrier.
pub(super) struct Deferred {
    /// The agents whose accesses are then complete, with their clocks.
    pub completes: Vec<(usize, u32)>,
    pub writes: Vec<Payload>,
    pub arrivals: u32,
    pub bytes: u64,
    /// The number of its instruction.
    pub at: usize,
}

impl Deferred {
    /// Bytes that it takes until it completes.
    fn held(&self) -> u64 {
        let writes = self.writes.iter().map(|payload| ENTRY + payload.bytes.len() as u64);
        2 * ENTRY + 16 * self.completes.len() as u64 + writes.sum::<u64>()
    }
}

/// An mbarrier object.
pub(super) struct MBarrier {
    expected: u32,
    pending: u32,
    bytes: i64,
    /// The number of the current phase, from zero.
    phase: u64,
    /// Its making, which must come before every use.
    made: Write,
    /// What those who arrived in this phase, and the work that completed, pass on.
    joined: Knowledge,
    /// The same of the phases that are complete.
    done: Knowledge,
    deferred: VecDeque<Deferred>,
}

impl MBarrier {
    fn new(count: u32, made: Write) -> Self {
        Self {
            made,
            expected: count,
            pending: count,
            bytes: 0,
            phase: 0,
            joined: Knowledge::default(),
            done: Knowledge::default(),
            deferred: VecDeque::new(),
        }
    }

    /// Its state in words.
    pub fn state(&self) -> String {
        let Self { expected, pending, bytes, phase, .. } = self;
        format!("phase {phase}, {pending} of {expected} arrivals and {bytes} bytes are missing")
    }

    /// The instruction of work that is still kept back.
    pub fn unfinished(&self) -> Option<usize> {
        self.deferred.front().map(|work| work.at)
    }

    /// The word that a wait takes for the current phase.
    fn token(&self) -> u64 {
        self.phase << 32 | u64::from(self.pending)
    }

    /// Bytes that it takes, beside the work that is kept back.
    fn own_bytes(agents: Agents) -> u64 {
        2 * ENTRY + 2 * knowledge_bytes(agents)
    }

    /// Bytes that have come.
    fn complete_bytes(&mut self, bytes: u64, lane: usize) -> Run<()> {
        self.bytes = self.bytes.saturating_sub_unsigned(bytes);
        if self.bytes < -MAX_BYTES {
            let message = format!("{bytes} bytes complete at an mbarrier: {}", self.state());
            return trouble(FaultKind::Sync, lane, message);
        }
        Ok(())
    }

    fn complete_if_due(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.expected;
            self.done = self.joined.clone();
        }
    }

    fn arrive(&mut self, count: u32, lane: usize) -> Run<()> {
        if count > self.pending {
            let message = format!("{count} arrivals at an mbarrier: {}", self.state());
            return trouble(FaultKind::Sync, lane, message);
        }
        self.pending -= count;
        Ok(())
    }
}

/// What an arrival does besides.
#[derive(Clone, Copy, Default)]
pub(super) struct Arrive {
    pub count: u32,
    /// Bytes that the phase is to wait for besides.
    pub bytes: u64,
    /// Takes itself out of the phases to come.
    pub drop: bool,
    /// False where it passes nothing on (`.relaxed`).
    pub release: bool,
}

impl Context<'_> {
    /// Makes an mbarrier.
    pub fn mbarrier_init(&mut self, place: (usize, u64), count: u32, by: Accessor) -> Run<()> {
        if count == 0 || count > MAX_COUNT {
            let message = format!("an mbarrier for {count} arrivals: from 1 to {MAX_COUNT} are allowed");
            return trouble(FaultKind::Sync, by.lane, message);
        }
        self.shared[place.0].check(place.1, 8, by.lane)?;
        self.expect_idle(place, by.lane)?;
        self.shared[place.0].store(place.1, 8, u64::from(count), by)?;
        self.take(MBarrier::own_bytes(self.agents), by.lane)?;
        let old = self.mbarriers.insert(place, MBarrier::new(count, Write::by(by)));
        self.forget(old);
        Ok(())
    }

    /// Ends an mbarrier: its memory may be used for something else.
    pub fn mbarrier_invalidate(&mut self, place: (usize, u64), by: Accessor) -> Run<()> {
        self.mbarrier(place, by)?;
        self.expect_idle(place, by.lane)?;
        self.shared[place.0].store(place.1, 8, u64::MAX, by)?;
        let old = self.mbarriers.remove(&place);
        self.forget(old);
        Ok(())
    }

    /// Gives back what an mbarrier that is gone took.
    fn forget(&mut self, old: Option<MBarrier>) {
        if let Some(old) = old {
            let work: u64 = old.deferred.iter().map(Deferred::held).sum();
            self.give(MBarrier::own_bytes(self.agents) + work);
        }
    }

    fn expect_idle(&self, place: (usize, u64), lane: usize) -> Run<()> {
        if self.environment.checks.sync
            && self.mbarriers.get(&place).is_some_and(|barrier| !barrier.deferred.is_empty())
        {
            let message = "asynchronous work that completes on this mbarrier has not been waited for";
            return trouble(FaultKind::Sync, lane, message);
        }
        Ok(())
    }

    /// The mbarrier at a place; its making must come before.
    pub fn mbarrier(&mut self, place: (usize, u64), by: Accessor) -> Run<&mut MBarrier> {
        let (rank, address) = place;
        self.shared[rank].check(address, 8, by.lane)?;
        let Some(MBarrier { made, .. }) = self.mbarriers.get(&place) else {
            let message = format!("no mbarrier is initialised at shared address {address:#x}");
            return trouble(FaultKind::Sync, by.lane, message);
        };
        if self.environment.checks.race && unordered(made, by.order, 1 << by.lane).is_some() {
            let (who, line) = (self.agents.name(made.agent.into()), made.line);
            let message = format!(
                "use of the mbarrier at shared address {address:#x}, which {who} lane {} initialised at line {line} with no \
                 barrier between",
                made.lane
            );
            return trouble(FaultKind::Race, by.lane, message);
        }
        self.shared[rank].update(address, 8, by, &|old| old)?;
        match self.mbarriers.get_mut(&place) {
            Some(barrier) => Ok(barrier),
            None => trouble(FaultKind::Sync, by.lane, "no mbarrier"),
        }
    }

    /// An arrival; the token of the phase that it arrived in.
    pub fn mbarrier_arrive(
        &mut self,
        place: (usize, u64),
        arrive: Arrive,
        order: &mut Order,
        (lane, line): (usize, u32),
    ) -> Run<u64> {
        let barrier = self.mbarrier(place, Accessor { order, lane, line })?;
        let token = barrier.token();
        barrier.bytes += arrive.bytes as i64;
        if barrier.bytes > MAX_BYTES {
            let message = format!("an mbarrier waits for {} bytes: at most {MAX_BYTES} are allowed", barrier.bytes);
            return trouble(FaultKind::Sync, lane, message);
        }
        barrier.arrive(arrive.count, lane)?;
        if arrive.release {
            order.release(&mut barrier.joined);
        }
        if arrive.drop {
            barrier.expected = barrier.expected.saturating_sub(arrive.count);
        }
        if arrive.count > 0 {
            barrier.complete_if_due();
        }
        self.progress += 1;
        Ok(token)
    }

    /// `complete_tx` by hand.
    pub fn mbarrier_complete_bytes(&mut self, place: (usize, u64), bytes: u64, by: Accessor) -> Run<()> {
        let barrier = self.mbarrier(place, by)?;
        barrier.complete_bytes(bytes, by.lane)?;
        barrier.complete_if_due();
        self.progress += 1;
        Ok(())
    }

    /// Keeps work back until the mbarrier is waited for.
    pub fn mbarrier_defer(&mut self, place: (usize, u64), work: Deferred, by: Accessor) -> Run<()> {
        self.take(work.held(), by.lane)?;
        self.mbarrier(place, by)?.deferred.push_back(work);
        self.progress += 1;
        Ok(())
    }

    /// More arrivals are to come in this phase (`cp.async.mbarrier.arrive` without `.noinc`).
    pub fn mbarrier_expect_more(&mut self, place: (usize, u64), count: u32, by: Accessor) -> Run<()> {
        let barrier = self.mbarrier(place, by)?;
        if barrier.pending + count > MAX_COUNT {
            let message = format!("an mbarrier takes {MAX_COUNT} arrivals at most: {}", barrier.state());
            return trouble(FaultKind::Sync, by.lane, message);
        }
        barrier.pending += count;
        Ok(())
    }

    /// Whether the phase that `is_done` asks for is complete, after as much of the kept-back work as it takes.
    pub fn mbarrier_test(&mut self, place: (usize, u64), phase: PhaseOf, by: Accessor) -> Run<bool> {
        loop {
            let barrier = self.mbarrier(place, by)?;
            let done = match phase {
                PhaseOf::Parity(parity) => barrier.phase & 1 != u64::from(parity & 1),
                PhaseOf::Token(token) => barrier.phase > token >> 32,
            };
            if done {
                return Ok(true);
            }
            let Some(work) = barrier.deferred.pop_front() else { return Ok(false) };
            barrier.complete_bytes(work.bytes, by.lane)?;
            barrier.arrive(work.arrivals, by.lane)?;
            for &(agent, clock) in &work.completes {
                barrier.joined.add(agent, clock);
            }
            barrier.complete_if_due();
            self.give(work.held());
            for Payload { rank, address, bytes } in work.writes {
                for (word, bytes) in (address..).step_by(4).zip(bytes.chunks(4)) {
                    let value = bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
                    self.shared[rank].put(word, bytes.len() as u64, value);
                }
            }
            self.progress += 1;
        }
    }

    /// What a wait that succeeded learns.
    pub fn mbarrier_acquire(&self, place: (usize, u64), known: &mut Knowledge) {
        if let Some(barrier) = self.mbarriers.get(&place) {
            known.join(&barrier.done);
        }
    }
}

/// The phase that a wait names.
#[derive(Clone, Copy)]
pub(super) enum PhaseOf {
    Parity(u32),
    Token(u64),
}
