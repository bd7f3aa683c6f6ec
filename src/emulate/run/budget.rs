//! What a launch may take: memory beside its buffers, and steps.
//!
//! What the CTAs that run at once need from the start is known before anything runs ([`cluster_bytes`]). The rest is
//! taken as it comes: marks of global memory, mbarriers, and work that is issued and not waited for, of which a kernel may
//! issue without end.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::order::{Agent, Agents};
use super::warp::Warp;
use super::{FaultKind, Run, trouble};
use crate::emulate::decode::BARRIERS;
use crate::emulate::lanes::LANES;
use crate::emulate::program::Code;
use crate::emulate::{Checks, LaunchConfig};

/// What a list takes for each entry beside the entry's own bytes, roughly.
pub(super) const ENTRY: u64 = 96;

/// Memory that a launch takes, and the most that it may.
#[derive(Debug)]
pub(in crate::emulate) struct Budget {
    limit: u64,
    taken: AtomicU64,
}

impl Budget {
    pub fn new(limit: u64, taken: u64) -> Self {
        Self { limit, taken: taken.into() }
    }

    /// Takes `bytes`, or refuses.
    pub(super) fn take(&self, bytes: u64, lane: usize) -> Run<()> {
        self.note(bytes);
        self.expect_within(lane)
    }

    /// Takes `bytes` where nothing can be refused: the next that asks is.
    pub(super) fn note(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Relaxed);
    }

    pub(super) fn give(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Relaxed);
    }

    pub(super) fn expect_within(&self, lane: usize) -> Run<()> {
        let taken = self.taken.load(Relaxed);
        if taken <= self.limit {
            return Ok(());
        }
        let message = format!(
            "the launch takes {taken} bytes beside its buffers, for what it has issued and not waited for among others: its \
             limit is {} (`Options::max_memory`)",
            self.limit
        );
        trouble(FaultKind::Memory, lane, message)
    }
}

/// How the warps of a launch's clusters are numbered.
pub(super) fn agents(code: &Code, config: &LaunchConfig) -> Agents {
    let threads: u32 = config.block.iter().product();
    Agents {
        warps: threads.div_ceil(LANES as u32) as usize,
        kinds: if code.is_asynchronous { Agent::KINDS } else { 1 },
        ctas: config.cluster.iter().product::<u32>() as usize,
    }
}

/// Bytes of what an agent knows of all others.
pub(super) fn knowledge_bytes(agents: Agents) -> u64 {
    let numbers = if agents.kinds > 1 { 2 } else { 1 };
    4 * numbers * agents.count_with_bulk() as u64
}

/// Bytes of a shared memory, or of a tensor memory, of so many bytes.
pub(super) fn shared_bytes(bytes: u64, agents: Agents, is_narrow: bool, checks: Checks) -> u64 {
    let cells = if is_narrow { bytes } else { bytes.div_ceil(4) };
    let marks = if checks.race { cells * (16 + 8 * agents.per_cta() as u64) } else { 0 };
    bytes + if checks.init { bytes.div_ceil(4) } else { 0 } + marks
}

/// Bytes that one cluster takes from its start: registers, local memory, shared memory, each with the checks' marks.
#[derive(Clone, Copy, Debug)]
pub(in crate::emulate) struct ClusterBytes {
    pub registers: u64,
    pub local: u64,
    pub shared: u64,
    /// All of them, and what is small.
    pub all: u64,
}

/// What one cluster of a launch takes from its start.
pub(in crate::emulate) fn cluster_bytes(code: &Code, config: &LaunchConfig, checks: Checks) -> ClusterBytes {
    let agents = agents(code, config);
    let warps = (agents.warps * agents.ctas) as u64;
    let lane_bytes = LANES as u64;
    let (narrow, wide) = (code.bank32.len() as u64, code.bank64.len() as u64);
    let of_warp = narrow * (4 * lane_bytes + 5) + wide * (8 * lane_bytes + 4) + 8 * code.predicates as u64;
    let registers = warps * of_warp;
    let local = warps * 2 * lane_bytes * u64::from(code.local_bytes);
    let bytes = u64::from(code.static_shared) + u64::from(config.dynamic_shared);
    let shared = agents.ctas as u64 * shared_bytes(bytes, agents, code.narrow_shared, checks);
    let barriers = agents.ctas as u64 * u64::from(BARRIERS) + warps + 1;
    let small = barriers * knowledge_bytes(agents) + warps * size_of::<Warp>() as u64;
    ClusterBytes { registers, local, shared, all: registers + local + shared + small }
}

/// Steps that a cluster counts for before its first instruction, so that a launch of CTAs without end ends too.
pub(in crate::emulate) fn steps_of_making(bytes: u64) -> u64 {
    bytes >> 10
}
