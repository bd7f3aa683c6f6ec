//! A CTA: its warps take turns, each running until it waits at a barrier or returns.

use super::global::Global;
use super::shared::Shared;
use super::warp::{Pause, State, Warp};
use super::{Counts, Environment, FaultKind, Run, Trouble, trouble};
use crate::emulate::decode::BARRIERS;
use crate::emulate::error::Fault;

/// What the warps of a CTA work on.
pub(super) struct Context<'a> {
    pub environment: &'a Environment<'a>,
    pub shared: Shared,
    pub global: Global<'a>,
    pub steps: u64,
    pub counts: Counts,
}

impl Context<'_> {
    /// The thread index of a lane.
    pub fn thread(&self, warp: usize, lane: usize) -> [u32; 3] {
        let [x, y, _] = self.environment.config.block;
        let linear = (32 * warp + lane) as u32;
        [linear % x, linear / x % y, linear / x / y]
    }
}

/// A named barrier while threads gather at it.
#[derive(Clone, Default)]
struct Barrier {
    expected: Option<u32>,
    /// True where no count is given: the threads that have not returned are waited for.
    everyone: bool,
    arrived: u32,
    /// Warps that wait, and all warps that arrived.
    waiting: Vec<usize>,
    /// The clocks of those who arrived: what the waiters will have seen.
    joined: Vec<u32>,
    votes: u32,
    voters: u32,
}

/// A worker's CTA, made new for each one that it runs.
pub(in crate::emulate) struct Cta<'a> {
    context: Context<'a>,
    warps: Vec<Warp>,
    states: Vec<State>,
    barriers: Vec<Barrier>,
}

impl<'a> Cta<'a> {
    pub fn new(environment: &'a Environment<'a>) -> Self {
        let threads: u32 = environment.config.block.iter().product();
        let warps = threads.div_ceil(32) as usize;
        Self {
            context: Context {
                environment,
                shared: Shared::default(),
                global: Global::new(environment),
                steps: 0,
                counts: Counts::default(),
            },
            warps: (0..warps).map(|_| Warp::default()).collect(),
            states: Vec::new(),
            barriers: Vec::new(),
        }
    }

    /// Runs the CTA number `number`, x fastest.
    pub fn run(&mut self, number: u32) -> Result<Counts, Box<FaultAt>> {
        let [x, y, _] = self.context.environment.config.grid;
        let cta = [number % x, number / x % y, number / x / y];
        let Environment { checks, code, shared_bytes, .. } = *self.context.environment;
        let warps = self.warps.len();
        self.context.shared.reset(shared_bytes, warps, code.narrow_shared, checks.race, checks.init);
        self.context.global.cta = number;
        self.context.steps = 0;
        self.context.counts = Counts::default();
        for (index, warp) in self.warps.iter_mut().enumerate() {
            warp.reset(&self.context, index, warps, cta);
        }
        self.states.clear();
        self.states.resize(warps, State::Ready);
        self.barriers.clear();
        self.barriers.resize(BARRIERS as usize, Barrier::default());
        while self.turn(cta)? {}
        self.context.counts.warp_instructions = self.context.steps;
        Ok(self.context.counts)
    }

    /// Lets every warp that can run do so until it stops; false when all have returned.
    fn turn(&mut self, cta: [u32; 3]) -> Result<bool, Box<FaultAt>> {
        let mut moved = false;
        for warp in 0..self.warps.len() {
            while self.states[warp] == State::Ready {
                moved = true;
                let before = self.warps[warp].at();
                let pause = self.warps[warp].run(&mut self.context);
                let result = pause.and_then(|pause| self.stopped(warp, pause));
                if let Err(trouble) = result {
                    // A barrier has been stepped over when it is looked at.
                    let at = if trouble.kind == FaultKind::Sync && self.states[warp] != State::Done {
                        self.last_instruction(warp, before)
                    } else {
                        self.warps[warp].at()
                    };
                    return Err(self.fault_at(*trouble, warp, at, cta));
                }
            }
        }
        if self.states.iter().all(|&state| state == State::Done) {
            return Ok(false);
        }
        if moved {
            return Ok(true);
        }
        // Nobody can move, and somebody waits.
        for (warp, &state) in self.states.iter().enumerate() {
            if let State::Waiting { id, at } = state {
                let barrier = &self.barriers[id as usize];
                let message = format!(
                    "warp {warp} waits at barrier {id} for ever: {} of {} threads came, and no warp can move",
                    barrier.arrived,
                    barrier.expected.unwrap_or_default()
                );
                let trouble = Trouble { kind: FaultKind::Sync, lane: Some(0), message };
                return Err(self.fault_at(trouble, warp, at, cta));
            }
        }
        Ok(false)
    }

    fn last_instruction(&self, warp: usize, before: usize) -> usize {
        let at = self.warps[warp].at();
        let code = self.context.environment.code;
        let is_barrier = |at: usize| {
            matches!(code.instructions.get(at).map(|i| &i.op), Some(crate::emulate::program::Op::Barrier { .. }))
        };
        match at.checked_sub(1) {
            Some(previous) if is_barrier(previous) && !is_barrier(at) && previous >= before.min(previous) => previous,
            _ => at,
        }
    }

    fn fault_at(&self, trouble: Trouble, warp: usize, at: usize, cta: [u32; 3]) -> Box<FaultAt> {
        let thread = trouble.lane.map(|lane| self.context.thread(warp, lane));
        Box::new(FaultAt { trouble, at, cta, thread })
    }

    /// What follows from a warp's stop.
    fn stopped(&mut self, warp: usize, pause: Pause) -> Run<()> {
        let (id, threads, wait, vote) = match pause {
            Pause::Done => {
                self.states[warp] = State::Done;
                // A warp that returns may be the last that a barrier waited for.
                (0..self.barriers.len()).for_each(|id| self.release_if_full(id));
                return Ok(());
            }
            Pause::Barrier { id, threads, wait, vote } => (id, threads, wait, vote),
        };
        if id >= BARRIERS {
            return trouble(FaultKind::Sync, 0, format!("barrier {id} is not from 0 to {}", BARRIERS - 1));
        }
        // A barrier counts whole warps.
        let all = 32 * self.warps.len() as u32;
        let expected = threads.unwrap_or(all);
        if expected == 0 || !expected.is_multiple_of(32) || expected > all {
            let message =
                format!("{expected} threads at barrier {id}: it takes a multiple of 32, up to the CTA's {all}");
            return trouble(FaultKind::Sync, 0, message);
        }
        let clock = self.warps[warp].order.clock;
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
        barrier.voters += self.warps[warp].alive.count_ones();
        barrier.joined.resize(self.warps.len(), 0);
        for (joined, seen) in barrier.joined.iter_mut().zip(&self.warps[warp].order.seen) {
            *joined = (*joined).max(*seen);
        }
        barrier.joined[warp] = clock;
        self.warps[warp].order.clock += 1;
        if wait {
            barrier.waiting.push(warp);
            let at = self.warps[warp].at().saturating_sub(1);
            self.states[warp] = State::Waiting { id, at };
        }
        if barrier.arrived > expected {
            let message = format!("{} threads came to barrier {id}, which expects {expected}", barrier.arrived);
            return trouble(FaultKind::Sync, 0, message);
        }
        self.release_if_full(id as usize);
        Ok(())
    }

    /// Lets the warps at barrier `id` go if all that it waits for have come.
    fn release_if_full(&mut self, id: usize) {
        let Some(expected) = self.barriers[id].expected else { return };
        let returned = 32 * self.states.iter().filter(|&&state| state == State::Done).count() as u32;
        let barrier = &mut self.barriers[id];
        let expected = if barrier.everyone { expected.saturating_sub(returned) } else { expected };
        if barrier.arrived < expected {
            return;
        }
        let done = std::mem::take(barrier);
        for waiter in done.waiting {
            let order = &mut self.warps[waiter].order;
            // Its own lanes have met too.
            order.synced = order.clock - 1;
            for (seen, joined) in order.seen.iter_mut().zip(&done.joined) {
                *seen = (*seen).max(*joined);
            }
            self.warps[waiter].release(done.votes, done.voters);
            self.states[waiter] = State::Ready;
        }
    }
}

/// A fault with its instruction's number, CTA and thread.
pub(in crate::emulate) struct FaultAt {
    trouble: Trouble,
    at: usize,
    cta: [u32; 3],
    thread: Option<[u32; 3]>,
}

impl FaultAt {
    /// The fault with its line and text.
    pub fn describe(self, environment: &Environment, kernel: &str, source: &str) -> Fault {
        let code = environment.code;
        let instruction = &code.instructions[self.at.min(code.instructions.len() - 1)];
        let span = instruction.span;
        Fault {
            kind: self.trouble.kind,
            kernel: kernel.to_owned(),
            line: instruction.line as usize,
            text: source.get(span.start as usize..span.end as usize).unwrap_or_default().trim().to_owned(),
            cta: self.cta,
            thread: self.thread,
            message: self.trouble.message,
        }
    }
}
