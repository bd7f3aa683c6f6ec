//! Barriers that warps wait at: the named ones of a CTA, and that of a cluster.

use super::order::Knowledge;
use super::warp::{State, Warp};
use super::{FaultKind, Run, trouble};
use crate::emulate::decode::BARRIERS;

/// A warp's arrival at a named barrier.
pub(super) struct Arrival {
    pub id: u32,
    pub threads: Option<u32>,
    pub wait: bool,
    /// The lanes whose predicate held, for a reduction.
    pub vote: u32,
}

/// A named barrier while threads gather at it.
#[derive(Clone, Default)]
struct Barrier {
    expected: Option<u32>,
    /// True where no count is given: the threads that have not returned are waited for.
    everyone: bool,
    arrived: u32,
    /// Warps that wait.
    waiting: Vec<usize>,
    /// What those who arrived know: the waiters will know it.
    joined: Knowledge,
    votes: u32,
    voters: u32,
}

/// The named barriers of a CTA.
#[derive(Default)]
pub(super) struct NamedBarriers {
    barriers: Vec<Barrier>,
    warps: usize,
}

impl NamedBarriers {
    pub fn reset(&mut self, warps: usize) {
        self.warps = warps;
        self.barriers.clear();
        self.barriers.resize(BARRIERS as usize, Barrier::default());
    }

    /// The threads that have come to a barrier, and that it expects.
    pub fn counts(&self, id: u32) -> (u32, u32) {
        let barrier = &self.barriers[id as usize];
        (barrier.arrived, barrier.expected.unwrap_or_default())
    }

    /// Warp `warp` of the CTA comes to a barrier, and steps past it; if it waits there, its state says so.
    pub fn arrive(&mut self, warp: usize, arrival: Arrival, warps: &mut [Warp], states: &mut [State]) -> Run<()> {
        let Arrival { id, threads, wait, vote } = arrival;
        if id >= BARRIERS {
            return trouble(FaultKind::Sync, 0, format!("barrier {id} is not from 0 to {}", BARRIERS - 1));
        }
        // A barrier counts whole warps.
        let all = 32 * self.warps as u32;
        let expected = threads.unwrap_or(all);
        if expected == 0 || !expected.is_multiple_of(32) || expected > all {
            let message =
                format!("{expected} threads at barrier {id}: it takes a multiple of 32, up to the CTA's {all}");
            return trouble(FaultKind::Sync, 0, message);
        }
        let barrier = &mut self.barriers[id as usize];
        if let Some(other) = barrier.expected
            && other != expected
        {
            let message = format!("barrier {id} is used for {expected} threads here and for {other} elsewhere");
            return trouble(FaultKind::Sync, 0, message);
        }
        barrier.expected = Some(expected);
        barrier.everyone |= threads.is_none();
        barrier.arrived += 32;
        barrier.votes += vote.count_ones();
        barrier.voters += warps[warp].alive.count_ones();
        if barrier.arrived > expected {
            let message = format!("{} threads came to barrier {id}, which expects {expected}", barrier.arrived);
            return trouble(FaultKind::Sync, 0, message);
        }
        warps[warp].order.release(&mut barrier.joined);
        if wait {
            barrier.waiting.push(warp);
            states[warp] = State::Waiting(id);
        } else {
            warps[warp].advance();
        }
        self.release_if_full(id as usize, warps, states);
        Ok(())
    }

    /// A warp has returned: it may be the last that a barrier waited for.
    pub fn left(&mut self, warps: &mut [Warp], states: &mut [State]) {
        (0..self.barriers.len()).for_each(|id| self.release_if_full(id, warps, states));
    }

    /// Lets the warps at barrier `id` go if all that it waits for have come.
    fn release_if_full(&mut self, id: usize, warps: &mut [Warp], states: &mut [State]) {
        let Some(expected) = self.barriers[id].expected else { return };
        let returned = 32 * states.iter().filter(|&&state| state == State::Done).count() as u32;
        let barrier = &mut self.barriers[id];
        let expected = if barrier.everyone { expected.saturating_sub(returned) } else { expected };
        if barrier.arrived < expected {
            return;
        }
        let done = std::mem::take(barrier);
        for waiter in done.waiting {
            let warp = &mut warps[waiter];
            // Its own lanes have met too.
            warp.order.synced = warp.order.clock - 1;
            warp.order.known.join(&done.joined);
            warp.release(done.votes, done.voters);
            warp.advance();
            states[waiter] = State::Ready;
        }
    }
}

/// `barrier.cluster`: every warp of the cluster that has not returned arrives, then waits.
#[derive(Default)]
pub(super) struct ClusterBarrier {
    phase: u64,
    /// For each warp of the cluster: the phase that it has arrived for, plus one.
    arrivals: Vec<u64>,
    /// The arrival that each warp has waited for last.
    waited: Vec<u64>,
    left: Vec<bool>,
    joined: Knowledge,
    done: Knowledge,
}

impl ClusterBarrier {
    pub fn reset(&mut self, warps: usize) {
        *self = Self { arrivals: vec![0; warps], waited: vec![0; warps], left: vec![false; warps], ..Self::default() };
    }

    /// Warps that have arrived in this phase.
    pub fn arrived(&self) -> usize {
        self.arrivals.iter().zip(&self.left).filter(|(arrival, left)| **arrival > self.phase && !**left).count()
    }

    /// A warp arrives; with `release`, what it knows goes to those who wait.
    pub fn arrive(&mut self, warp: usize, order: &mut super::order::Order, release: bool) -> Run<()> {
        if self.arrivals[warp] > self.phase {
            return trouble(FaultKind::Sync, 0, "a second barrier.cluster.arrive without a wait between");
        }
        self.arrivals[warp] = self.phase + 1;
        if release {
            order.release(&mut self.joined);
        }
        self.complete();
        Ok(())
    }

    /// A warp has returned.
    pub fn leave(&mut self, warp: usize) {
        self.left[warp] = true;
        self.complete();
    }

    fn complete(&mut self) {
        let all = self.arrivals.iter().zip(&self.left).all(|(arrival, left)| *left || *arrival > self.phase);
        if all && self.left.contains(&false) {
            self.phase += 1;
            self.done = self.joined.clone();
        }
    }

    /// Whether the phase that a warp arrived for is complete: what the warps of the cluster know then.
    pub fn wait(&mut self, warp: usize) -> Run<Option<&Knowledge>> {
        let arrival = self.arrivals[warp];
        if arrival == self.waited[warp] {
            return trouble(FaultKind::Sync, 0, "barrier.cluster.wait without an arrive before it");
        }
        if arrival > self.phase {
            return Ok(None);
        }
        self.waited[warp] = arrival;
        Ok(Some(&self.done))
    }
}
