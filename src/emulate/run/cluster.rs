//! The CTAs that run together (a cluster; one CTA where there are none): their warps take turns, each running until it
//! waits, returns or has used up its slice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::barrier::{ClusterBarrier, NamedBarriers};
use super::budget;
use super::global::Global;
use super::mbarrier::MBarrier;
use super::observed::Observer;
use super::order::Agents;
use super::shared::Shared;
use super::tensor_memory::TensorMemory;
use super::warp::{Pause, Poll, State, Warp};
use super::{Counts, Environment, FaultKind, Run, Trouble, trouble};
use crate::emulate::error::Fault;
use crate::emulate::program::CLUSTER_SHARED_LOG2;

/// Rounds in which warps that poll are told "not yet" without anything coming of it, before they count as stuck.
const PATIENCE: u32 = 4;

/// What the warps work on.
pub(super) struct Context<'a> {
    pub environment: &'a Environment<'a>,
    pub agents: Agents,
    /// The rank of the CTA whose warp runs.
    pub rank: usize,
    /// Shared memory and tensor memory of each CTA.
    pub shared: Vec<Shared>,
    pub tensor: Vec<TensorMemory>,
    /// By rank and address.
    pub mbarriers: HashMap<(usize, u64), MBarrier>,
    pub cluster_barrier: ClusterBarrier,
    pub global: Global<'a>,
    pub steps: u64,
    /// The step at which the cluster counts as endless. Heavy instructions bring it nearer.
    pub last_step: u64,
    /// Bytes taken from the launch's budget: for work that is pending, and mbarriers.
    held: u64,
    /// Goes up with whatever another warp may wait for.
    pub progress: u64,
    pub counts: Counts,
    pub observer: Option<Box<Observer<'a>>>,
}

impl Context<'_> {
    /// The thread index of a lane.
    pub fn thread(&self, warp: usize, lane: usize) -> [u32; 3] {
        let [x, y, _] = self.environment.config.block;
        let linear = (32 * warp + lane) as u32;
        [linear % x, linear / x % y, linear / x / y]
    }

    /// Counts `work`, of which a plain instruction does about one, as steps.
    pub fn count_work(&mut self, work: u64) {
        self.last_step = self.last_step.saturating_sub(work);
    }

    /// Takes memory for something that may be had without end.
    pub fn take(&mut self, bytes: u64, lane: usize) -> Run<()> {
        self.held += bytes;
        self.environment.budget.take(bytes, lane)
    }

    /// Gives back what was taken.
    pub fn give(&mut self, bytes: u64) {
        let bytes = bytes.min(self.held);
        self.held -= bytes;
        self.environment.budget.give(bytes);
    }

    /// The CTA's rank and the address in its shared memory, of an address of `.shared::cta` or `.shared::cluster`.
    pub fn locate(&self, address: u64, lane: usize) -> Run<(usize, u64)> {
        let window = address >> CLUSTER_SHARED_LOG2;
        if window == 0 {
            return Ok((self.rank, address));
        }
        self.environment.budget.expect_within(lane)?;
        let rank = window as usize - 1;
        if rank >= self.shared.len() {
            let message = format!("shared address {address:#x} is in no CTA of the cluster");
            return trouble(FaultKind::Bounds, lane, message);
        }
        Ok((rank, address & ((1 << CLUSTER_SHARED_LOG2) - 1)))
    }
}

/// A worker's cluster, made new for each one that it runs.
pub(in crate::emulate) struct Cluster<'a> {
    context: Context<'a>,
    /// The warps of the first CTA, then of the next.
    warps: Vec<Warp>,
    states: Vec<State>,
    barriers: Vec<NamedBarriers>,
    /// The CTAs, by rank.
    ctas: Vec<[u32; 3]>,
    /// Rounds of patience used up, and the progress there was then.
    waited: (u32, u64),
}

impl<'a> Cluster<'a> {
    pub fn new(environment: &'a Environment<'a>) -> Self {
        let agents = budget::agents(environment.code, environment.config);
        let Agents { warps, ctas, .. } = agents;
        Self {
            context: Context {
                environment,
                agents,
                rank: 0,
                shared: (0..ctas).map(|_| Shared::new(Arc::clone(&environment.budget))).collect(),
                tensor: (0..ctas).map(|_| TensorMemory::default()).collect(),
                mbarriers: HashMap::new(),
                cluster_barrier: ClusterBarrier::default(),
                global: Global::new(environment),
                steps: 0,
                last_step: 0,
                held: 0,
                progress: 0,
                counts: Counts::default(),
                observer: environment.watch.map(|watch| Box::new(Observer::new(watch))),
            },
            warps: (0..warps * ctas).map(|_| Warp::default()).collect(),
            states: Vec::new(),
            barriers: (0..ctas).map(|_| NamedBarriers::default()).collect(),
            ctas: Vec::new(),
            waited: (0, 0),
        }
    }

    /// Runs the cluster number `number`, x fastest.
    pub fn run(&mut self, number: u32) -> Result<Counts, Box<FaultAt>> {
        let config = self.context.environment.config;
        let [x, y, _] = [0, 1, 2].map(|axis| config.grid[axis] / config.cluster[axis]);
        let place = [number % x, number / x % y, number / x / y];
        let [across, down, _] = config.cluster;
        let rank_place = |rank: u32| [rank % across, rank / across % down, rank / across / down];
        let count = self.barriers.len();
        self.ctas.clear();
        self.ctas.extend((0..count as u32).map(|rank| {
            let inside = rank_place(rank);
            [0, 1, 2].map(|axis| place[axis] * config.cluster[axis] + inside[axis])
        }));
        let Environment { checks, code, shared_bytes, .. } = *self.context.environment;
        let agents = self.context.agents;
        self.context.global.cta = number;
        self.context.steps = 0;
        self.context.last_step = self.context.environment.max_steps;
        self.context.give(self.context.held);
        self.context.progress = 0;
        self.context.counts = Counts::default();
        self.context.mbarriers.clear();
        self.context.cluster_barrier.reset(agents.warps * count);
        self.waited = (0, 0);
        for rank in 0..count {
            self.context.rank = rank;
            self.context.shared[rank].reset("shared", shared_bytes, agents, rank, code.narrow_shared, checks);
            self.context.tensor[rank].reset();
            self.barriers[rank].reset(agents.warps);
            for index in 0..agents.warps {
                self.warps[rank * agents.warps + index].reset(&self.context, index, self.ctas[rank]);
            }
        }
        self.states.clear();
        self.states.resize(self.warps.len(), State::Ready);
        if let Some(observer) = &mut self.context.observer {
            observer.begin(&self.ctas, self.warps.len());
        }
        let result = self.expect_steps_left(number).and_then(|()| self.run_warps());
        if let Some(observer) = &mut self.context.observer {
            observer.end();
        }
        let Context { environment, steps, last_step, .. } = self.context;
        let taken = environment.steps_of_making + steps + (environment.max_steps - last_step);
        environment.steps_taken.fetch_add(taken, Relaxed);
        result?;
        self.context.counts.warp_instructions = steps;
        Ok(self.context.counts)
    }

    /// A fault if the launch has taken all steps that it may before this cluster.
    fn expect_steps_left(&self, number: u32) -> Result<(), Box<FaultAt>> {
        let Environment { max_launch_steps, steps_taken, .. } = self.context.environment;
        let taken = steps_taken.load(Relaxed);
        if taken < *max_launch_steps {
            return Ok(());
        }
        let message = format!(
            "the launch has taken {taken} of {max_launch_steps} steps (`Options::max_launch_steps`) before its CTA or \
             cluster number {number}"
        );
        Err(self.fault_at(Trouble { kind: FaultKind::Steps, lane: None, message }, 0, 0))
    }

    fn run_warps(&mut self) -> Result<(), Box<FaultAt>> {
        while self.turn()? {}
        self.ended()
    }

    /// Lets every warp that can run do so until it stops; false when all have returned.
    fn turn(&mut self) -> Result<bool, Box<FaultAt>> {
        let mut moved = false;
        for warp in 0..self.warps.len() {
            if matches!(self.states[warp], State::Polling(_)) {
                self.states[warp] = State::Ready;
            }
            let from = self.context.steps;
            while self.states[warp] == State::Ready {
                self.context.rank = warp / self.context.agents.warps;
                let result = self.warps[warp].run(&mut self.context).and_then(|pause| self.stopped(warp, pause));
                match result {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(trouble) => return Err(self.fault(*trouble, warp)),
                }
            }
            // A warp that polls again without having done anything has not moved: its one step is the poll.
            moved |= match self.states[warp] {
                State::Polling(_) => self.context.steps > from + 1,
                State::Waiting(_) | State::Done => self.context.steps > from,
                State::Ready => true,
            };
        }
        if self.states.iter().all(|&state| state == State::Done) {
            return Ok(false);
        }
        if moved {
            return Ok(true);
        }
        self.stuck()
    }

    /// Nobody can move, and somebody waits. Polls that may end without success do; what is left is a fault.
    fn stuck(&mut self) -> Result<bool, Box<FaultAt>> {
        if self.waited.1 != self.context.progress {
            self.waited = (0, self.context.progress);
        }
        if self.waited.0 < PATIENCE {
            self.waited.0 += 1;
            let mut told = false;
            for (warp, state) in self.states.iter().enumerate() {
                if let State::Polling(poll) = state
                    && poll.may_give_up()
                {
                    self.warps[warp].told_not_yet = true;
                    told = true;
                }
            }
            if told {
                return Ok(true);
            }
        }
        for (warp, &state) in self.states.iter().enumerate() {
            let rank = warp / self.context.agents.warps;
            let index = warp % self.context.agents.warps;
            let message = match state {
                State::Waiting(id) => {
                    let (arrived, expected) = self.barriers[rank].counts(id);
                    format!(
                        "warp {index} waits at barrier {id} for ever: {arrived} of {expected} threads came, and no warp \
                         can move"
                    )
                }
                State::Polling(Poll::MBarrier { rank, address, .. }) => {
                    let state = match self.context.mbarriers.get(&(rank, address)) {
                        Some(barrier) => barrier.state(),
                        None => "it is not initialised".to_owned(),
                    };
                    format!(
                        "warp {index} waits for ever for the mbarrier at shared address {address:#x}: {state}, and no \
                         warp can move"
                    )
                }
                State::Polling(Poll::Cluster) => {
                    let (arrived, alive) = self.cluster_counts();
                    format!(
                        "warp {index} waits at barrier.cluster for ever: {arrived} of {alive} warps came, and no warp \
                         can move"
                    )
                }
                State::Polling(Poll::TensorMemory { columns }) => {
                    format!("warp {index} waits for ever for {columns} columns of tensor memory that nobody frees")
                }
                State::Ready | State::Done => continue,
            };
            let trouble = Trouble { kind: FaultKind::Sync, lane: Some(0), message };
            return Err(self.fault(trouble, warp));
        }
        Ok(false)
    }

    fn cluster_counts(&self) -> (usize, usize) {
        let alive = self.states.iter().filter(|&&state| state != State::Done).count();
        (self.context.cluster_barrier.arrived(), alive)
    }

    fn fault(&self, trouble: Trouble, warp: usize) -> Box<FaultAt> {
        let at = self.warps[warp].at();
        self.fault_at(trouble, warp, at)
    }

    fn fault_at(&self, trouble: Trouble, warp: usize, at: usize) -> Box<FaultAt> {
        let warps = self.context.agents.warps;
        let thread = trouble.lane.map(|lane| self.context.thread(warp % warps, lane));
        Box::new(FaultAt { trouble, at, cta: self.ctas[warp / warps], thread })
    }

    /// What follows from a warp's stop; whether it may go on at once.
    fn stopped(&mut self, warp: usize, pause: Pause) -> Run<bool> {
        let warps = self.context.agents.warps;
        let (rank, index) = (warp / warps, warp % warps);
        let of_cta = rank * warps..(rank + 1) * warps;
        let arrival = match pause {
            Pause::Slice => return Ok(false),
            Pause::Stopped => {
                self.states.fill(State::Done);
                return Ok(false);
            }
            Pause::Poll(poll) => {
                self.states[warp] = State::Polling(poll);
                return Ok(false);
            }
            Pause::Done => {
                self.warps[warp].end_bulk(&mut self.context)?;
                self.context.progress += 1;
                self.states[warp] = State::Done;
                self.context.cluster_barrier.leave(warp);
                None
            }
            Pause::Barrier(arrival) => {
                self.context.progress += 1;
                Some(arrival)
            }
        };
        let states = &mut self.states[of_cta.clone()];
        let members = &mut self.warps[of_cta];
        match arrival {
            // A warp that returns may be the last that a barrier waited for.
            None => self.barriers[rank].left(members, states),
            Some(arrival) => self.barriers[rank].arrive(index, arrival, members, states)?,
        }
        Ok(true)
    }

    /// What must not be left when all warps have returned.
    fn ended(&self) -> Result<(), Box<FaultAt>> {
        let stopped = self.context.observer.as_deref().is_some_and(Observer::has_stopped);
        if stopped || !self.context.environment.checks.sync {
            return Ok(());
        }
        for (rank, tensor) in self.context.tensor.iter().enumerate() {
            if let Some((at, columns)) = tensor.leaked() {
                let message = format!("{columns} columns of tensor memory are not freed when the CTA ends");
                let trouble = Trouble { kind: FaultKind::Sync, lane: None, message };
                return Err(self.fault_at(trouble, rank * self.context.agents.warps, at));
            }
        }
        let mut late: Vec<_> =
            self.context.mbarriers.iter().filter_map(|(place, barrier)| Some((place, barrier.unfinished()?))).collect();
        late.sort_by_key(|(place, _)| **place);
        if let Some(((rank, address), at)) = late.first() {
            let message = format!(
                "asynchronous work that completes on the mbarrier at shared address {address:#x} is not waited for when \
                 the CTA ends"
            );
            let trouble = Trouble { kind: FaultKind::Sync, lane: None, message };
            return Err(self.fault_at(trouble, rank * self.context.agents.warps, *at));
        }
        Ok(())
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
