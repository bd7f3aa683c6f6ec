//! What a warp knows of the order of things.
//!
//! Every agent that touches memory has a number and a clock: a warp is one, and where a kernel has asynchronous
//! instructions each warp has further ones, which stand for the work that it has issued and that goes on beside it. An access
//! is stamped with its agent's clock. A warp knows, for every agent, up to which clock that agent's accesses come before
//! its own: barriers and mbarriers pass this on, and a wait adds the asynchronous work that it waited for. Two accesses to
//! one cell race if one writes and neither comes before the other: that is how a missing wait is seen, too.

/// The agents of a warp. The first is the warp itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    /// The threads of the warp.
    Warp,
    /// `cp.async`: complete at `cp.async.wait_group` or through an mbarrier.
    Copy,
    /// `wgmma`: complete at `wgmma.wait_group`.
    WarpGroup,
    /// `tcgen05.mma` and `tcgen05.cp`: complete through `tcgen05.commit` and an mbarrier.
    Tensor,
    /// `tcgen05.ld`: complete at `tcgen05.wait::ld`.
    TensorLoad,
    /// `tcgen05.st`: complete at `tcgen05.wait::st`.
    TensorStore,
    /// Bulk copies into shared memory: complete through an mbarrier.
    Bulk,
    /// Bulk copies out of shared memory: complete with a bulk group.
    BulkStore,
}

impl Agent {
    /// Agents of one warp where a kernel has asynchronous instructions.
    pub const KINDS: usize = 8;

    fn of(kind: usize) -> Self {
        use Agent::{Bulk, BulkStore, Copy, Tensor, TensorLoad, TensorStore, Warp, WarpGroup};
        [Warp, Copy, WarpGroup, Tensor, TensorLoad, TensorStore, Bulk, BulkStore][kind]
    }

    fn name(self) -> &'static str {
        match self {
            Agent::Warp => "",
            Agent::Copy => "cp.async of ",
            Agent::WarpGroup => "wgmma of ",
            Agent::Tensor => "tcgen05 work of ",
            Agent::TensorLoad => "tcgen05.ld of ",
            Agent::TensorStore => "tcgen05.st of ",
            Agent::Bulk => "bulk copy of ",
            Agent::BulkStore => "bulk store of ",
        }
    }
}

/// How agents are numbered: those of a CTA follow each other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Agents {
    /// Warps of a CTA.
    pub warps: usize,
    /// Agents of a warp: one, or [`Agent::KINDS`].
    pub kinds: usize,
    /// CTAs of a cluster.
    pub ctas: usize,
}

impl Agents {
    /// How many mbarriers are told apart in the order of bulk copies.
    const BULK_NUMBERS: usize = 32;

    pub fn per_cta(self) -> usize {
        self.warps * self.kinds
    }

    pub fn count(self) -> usize {
        self.per_cta() * self.ctas
    }

    /// The number of an agent of the warp whose own agent is `warp`.
    pub fn of_warp(self, warp: usize, agent: Agent) -> usize {
        warp + if self.kinds > 1 { agent as usize * self.warps } else { 0 }
    }

    /// Agents in all, with those of bulk copies.
    pub fn count_with_bulk(self) -> usize {
        self.count() + if self.kinds > 1 { Self::BULK_NUMBERS * self.warps * self.ctas } else { 0 }
    }

    /// The number of the bulk copies of a warp that complete on the mbarrier at `place`. Those of one mbarrier complete in
    /// order, and say nothing of those of another. (Mbarriers far from each other may share a number: then a wait at one
    /// is taken for a wait at both.)
    pub fn bulk(self, warp: usize, place: (usize, u64)) -> usize {
        let (_, rank, warp) = self.split(warp);
        let number = (place.0 * 7 + (place.1 / 8) as usize) % Self::BULK_NUMBERS;
        self.count() + (number * self.ctas + rank) * self.warps + warp
    }

    /// Whether an agent stands for the bulk copies that complete on an mbarrier.
    fn is_bulk(self, agent: usize) -> bool {
        agent >= self.count()
    }

    /// The number of a warp's own agent.
    pub fn warp(self, rank: usize, warp: usize) -> usize {
        rank * self.per_cta() + warp
    }

    /// The agent's kind, the CTA's rank in its cluster, and the warp.
    pub fn split(self, agent: usize) -> (Agent, usize, usize) {
        if self.is_bulk(agent) {
            let warp = (agent - self.count()) % (self.warps * self.ctas).max(1);
            return (Agent::Bulk, warp / self.warps.max(1), warp % self.warps.max(1));
        }
        let inside = agent % self.per_cta().max(1);
        (
            Agent::of(inside / self.warps.max(1) % Agent::KINDS),
            agent / self.per_cta().max(1),
            inside % self.warps.max(1),
        )
    }

    /// The agent in words.
    pub fn name(self, agent: usize) -> String {
        let (kind, rank, warp) = self.split(agent);
        let cta = if self.ctas > 1 { format!("CTA {rank} of the cluster, ") } else { String::new() };
        format!("{cta}{}warp {warp}", kind.name())
    }
}

/// For each agent, up to which clock its accesses come before what the holder does next, and up to which its ordinary
/// stores have been made visible to asynchronous readers by `fence.proxy.async`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Knowledge {
    pub seen: Vec<u32>,
    pub fenced: Vec<u32>,
}

impl Knowledge {
    pub fn reset(&mut self, agents: Agents) {
        self.seen.clear();
        self.seen.resize(agents.count(), 0);
        self.fenced.clear();
        self.fenced.resize(if agents.kinds > 1 { agents.count() } else { 0 }, 0);
    }

    /// Up to which clock `agent`'s accesses come before.
    pub fn seen(&self, agent: usize) -> u32 {
        self.seen.get(agent).copied().unwrap_or(0)
    }

    /// Adds what another knows.
    pub fn join(&mut self, other: &Knowledge) {
        for (mine, theirs) in [(&mut self.seen, &other.seen), (&mut self.fenced, &other.fenced)] {
            if mine.len() < theirs.len() {
                mine.resize(theirs.len(), 0);
            }
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine = (*mine).max(*theirs);
            }
        }
    }

    /// Adds that `agent`'s accesses up to `clock` come before.
    pub fn add(&mut self, agent: usize, clock: u32) {
        if self.seen.len() <= agent {
            self.seen.resize(agent + 1, 0);
        }
        self.seen[agent] = self.seen[agent].max(clock);
    }
}

/// What a warp knows of order.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The number of the warp's own agent.
    pub agent: usize,
    pub agents: Agents,
    pub clock: u32,
    /// The clock up to which the accesses of this warp's lanes come before each other's next ones.
    pub synced: u32,
    pub known: Knowledge,
    /// Clocks of the warp's asynchronous agents.
    pub issued: [u32; Agent::KINDS],
}

impl Order {
    pub fn reset(&mut self, agents: Agents, rank: usize, warp: usize) {
        *self = Self { known: std::mem::take(&mut self.known), ..Self::default() };
        self.agents = agents;
        self.agent = agents.warp(rank, warp);
        self.clock = 1;
        self.known.reset(agents);
    }

    /// What another learns that this warp's accesses so far come before; the clock moves on.
    pub fn release(&mut self, to: &mut Knowledge) {
        to.join(&self.known);
        to.add(self.agent, self.clock);
        self.clock = self.clock.saturating_add(1);
    }

    /// `fence.proxy.async`: ordinary stores so far, and those that are known to come before, are visible to asynchronous
    /// readers.
    pub fn fence_proxy(&mut self) {
        let Knowledge { seen, fenced } = &mut self.known;
        for (fenced, seen) in fenced.iter_mut().zip(seen) {
            *fenced = (*fenced).max(*seen);
        }
        if let Some(own) = fenced.get_mut(self.agent) {
            *own = self.clock;
        }
        self.clock = self.clock.saturating_add(1);
    }

    /// Begins an asynchronous operation of `agent`: its number and clock.
    pub fn issue(&mut self, agent: Agent) -> (usize, u32) {
        let clock = &mut self.issued[agent as usize];
        // Past 2³² the order of what follows is not looked at.
        *clock = clock.saturating_add(1);
        (self.agents.of_warp(self.agent, agent), *clock)
    }

    /// Begins a bulk copy that completes on the mbarrier at `place`: its agent and clock.
    pub fn issue_bulk(&mut self, place: (usize, u64)) -> (usize, u32) {
        let (_, clock) = self.issue(Agent::Bulk);
        (self.agents.bulk(self.agent, place), clock)
    }

    /// The work of `agent` up to `clock` is complete for this warp.
    pub fn complete(&mut self, agent: Agent, clock: u32) {
        let agent = self.agents.of_warp(self.agent, agent);
        self.known.add(agent, clock);
    }
}
