//! A decoded kernel: typed instructions over numbered registers, ready to run.

mod tiles;

use super::alu::{Alu, Compare32, Compare64};
use super::lanes::{Lanes32, Lanes64};
use super::observe::Listing;
use super::video::Video;
use crate::ptx::Span;
pub(super) use tiles::*;

/// The number of a register in its bank.
pub(super) type Slot = u16;

/// Generic addresses of shared memory start here.
pub(super) const SHARED_WINDOW: u64 = 0x7f00_0000_0000;
/// Addresses of shared memory in a cluster have the rank of the CTA plus one above this bit; without it the CTA's own is meant.
pub(super) const CLUSTER_SHARED_LOG2: u32 = 24;
/// Generic addresses of kernel parameters start here.
pub(super) const PARAM_WINDOW: u64 = 0x7d00_0000_0000;
/// Generic addresses of local memory start here.
pub(super) const LOCAL_WINDOW: u64 = 0x7e00_0000_0000;
/// Module variables (`.global`, `.const`) are put here for a launch.
pub(super) const MODULE_WINDOW: u64 = 0x8_0000_0000;

/// A kernel as the warps run it.
#[derive(Debug)]
pub(super) struct Code {
    pub instructions: Vec<Instruction>,
    /// For each instruction that may diverge, where its paths meet again; `usize::MAX` where they never do.
    pub joins: Vec<usize>,
    /// Registers as a warp starts with them: constants filled in, everything else zero.
    pub bank32: Vec<Lanes32>,
    pub bank64: Vec<Lanes64>,
    /// For each register, whether a warp starts with a value in it.
    pub ready32: Vec<bool>,
    pub ready64: Vec<bool>,
    pub predicates: usize,
    pub specials: Vec<(Slot, Special)>,
    pub param_bytes: u32,
    pub static_shared: u32,
    pub local_bytes: u32,
    /// True if some shared access is narrower than a word: races are then looked for byte by byte.
    pub narrow_shared: bool,
    /// True if some instruction works beside its warp: copies, wgmma, tcgen05.
    pub is_asynchronous: bool,
    /// The initial image of module variables.
    pub module_bytes: Vec<u8>,
    pub listing: Listing,
}

/// One instruction.
#[derive(Debug)]
pub(super) struct Instruction {
    pub op: Op,
    pub guard: Option<PredicateUse>,
    pub line: u32,
    pub span: Span,
}

/// A predicate that is read, as it is or negated.
#[derive(Clone, Copy, Debug)]
pub(super) struct PredicateUse {
    pub slot: Slot,
    pub negated: bool,
}

/// A register of any bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reg {
    R32(Slot),
    R64(Slot),
    Pred(Slot),
}

/// State spaces of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemorySpace {
    Generic,
    Global,
    Shared,
    Local,
    Param,
}

/// An address: a base and a constant offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub base: AddressBase,
    pub offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressBase {
    Constant,
    R32(Slot),
    R64(Slot),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bool {
    And,
    Or,
    Xor,
}

impl Bool {
    pub fn apply(self, a: u32, b: u32) -> u32 {
        match self {
            Bool::And => a & b,
            Bool::Or => a | b,
            Bool::Xor => a ^ b,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Compare {
    C32(Compare32, Slot, Slot),
    C64(Compare64, Slot, Slot),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot,
}

/// What an atomic operation makes of the old value and its operands.
pub(super) type AtomicFn = fn(old: u64, b: u64, c: u64) -> u64;

/// The result of a carry instruction and the carry out, given its operands and the carry in.
pub(super) type CarryFn = fn([u64; 3], bool) -> (u64, bool);

/// The result of a barrier reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduction {
    Count(Slot),
    And(Slot),
    Or(Slot),
}

pub(super) type ReduceFn = fn(u32, u32) -> u32;

/// What an instruction does.
pub(super) enum Op {
    /// Arithmetic. `ftz` flushes denormal operands and results of f32; `sat` clamps to [0, 1].
    Alu {
        alu: Alu,
        dst: Slot,
        src: [Slot; 4],
        ftz: Flush,
        sat: bool,
    },
    Set {
        compare: Compare,
        combine: Option<(Bool, PredicateUse)>,
        dst: Option<Slot>,
        not: Option<Slot>,
        ftz: bool,
    },
    /// A comparison for each half of a word.
    SetPair {
        compare: [Compare; 2],
        combine: Option<(Bool, PredicateUse)>,
        dst: [Option<Slot>; 2],
    },
    /// `one` where the comparison holds and zero elsewhere; of two comparisons in each half.
    SetValue {
        compare: Vec<Compare>,
        combine: Option<(Bool, PredicateUse)>,
        dst: Slot,
        one: u32,
        ftz: bool,
    },
    /// Arithmetic that reads or writes the carry flag, which is a predicate.
    Carry {
        function: CarryFn,
        dst: Option<Reg>,
        src: Vec<Reg>,
        takes: Option<Slot>,
        gives: Option<Slot>,
    },
    Video {
        video: Box<Video>,
        dst: Slot,
        src: [Slot; 3],
    },
    Logic {
        op: Bool,
        dst: Slot,
        a: PredicateUse,
        b: PredicateUse,
    },
    SetConstant {
        dst: Slot,
        value: u32,
    },
    Select32 {
        dst: Slot,
        a: Slot,
        b: Slot,
        by: PredicateUse,
    },
    Select64 {
        dst: Slot,
        a: Slot,
        b: Slot,
        by: PredicateUse,
    },
    Move32 {
        dst: Slot,
        src: Slot,
    },
    Move64 {
        dst: Slot,
        src: Slot,
    },
    /// Parts of `bits` bits each, low first, into one register of 32 or 64.
    Pack {
        dst: Reg,
        parts: Vec<Reg>,
        bits: u32,
    },
    Unpack {
        parts: Vec<Option<Reg>>,
        src: Reg,
        bits: u32,
    },
    /// `count` bytes of a register from `first` on, as the low ones: a shift to the right, or a conversion to fewer bits.
    Bytes {
        dst: Reg,
        src: Reg,
        first: u32,
        count: u32,
    },
    Load {
        space: MemorySpace,
        size: u8,
        signed: bool,
        dst: Vec<Option<Reg>>,
        address: Address,
    },
    Store {
        space: MemorySpace,
        size: u8,
        src: Vec<Reg>,
        address: Address,
    },
    Atomic {
        space: MemorySpace,
        size: u8,
        apply: AtomicFn,
        dst: Option<Reg>,
        address: Address,
        b: Reg,
        c: Option<Reg>,
    },
    Shuffle {
        mode: ShuffleMode,
        dst: Slot,
        valid: Option<Slot>,
        src: Slot,
        lane: Slot,
        clamp: Slot,
        members: Slot,
    },
    Vote {
        mode: VoteMode,
        dst: Reg,
        src: PredicateUse,
        members: Slot,
    },
    Match {
        all: bool,
        dst: Slot,
        valid: Option<Slot>,
        src: Reg,
        members: Slot,
    },
    Reduce {
        apply: ReduceFn,
        dst: Slot,
        src: Slot,
        members: Slot,
    },
    Elect {
        dst: Option<Slot>,
        chosen: Slot,
        members: Slot,
    },
    ActiveMask {
        dst: Slot,
    },
    WarpSync {
        members: Slot,
    },
    Barrier {
        id: Slot,
        threads: Option<Slot>,
        wait: bool,
        reduce: Option<(Reduction, PredicateUse)>,
    },
    Branch {
        target: usize,
    },
    BranchIndexed {
        index: Slot,
        targets: Vec<usize>,
    },
    Exit,
    Trap,
    Clock {
        dst: Reg,
    },
    /// Matrices and tensor cores.
    Tensor(Box<TensorOp>),
    /// Asynchronous copies, mbarriers, clusters.
    Async(Box<AsyncOp>),
    Nothing,
}

impl std::fmt::Debug for Op {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Op")
    }
}

/// Which f32 values of an instruction flush their denormals to zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flush {
    pub operands: bool,
    pub result: bool,
}

impl Flush {
    pub const NONE: Flush = Flush { operands: false, result: false };
}

/// A special register that has one value for a thread's whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    ClusterId(usize),
    ClusterCount(usize),
    ClusterCtaid(usize),
    ClusterNctaid(usize),
    ClusterRank,
    ClusterSize,
    Lane,
    Warp,
    Warps,
    LaneMask(LaneMask),
    Sm,
    Sms,
    DynamicShared,
    TotalShared,
    GridId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LaneMask {
    Eq,
    Le,
    Lt,
    Ge,
    Gt,
}

impl Special {
    /// The register's name in PTX, or `None` for one that is not known.
    pub fn from_name(name: &str) -> Option<Special> {
        let (base, axis) = match name.rsplit_once('.') {
            Some((base, "x")) => (base, Some(0)),
            Some((base, "y")) => (base, Some(1)),
            Some((base, "z")) => (base, Some(2)),
            Some(_) => return None,
            None => (name, None),
        };
        Some(match (base, axis) {
            ("%tid", Some(axis)) => Special::Tid(axis),
            ("%ntid", Some(axis)) => Special::Ntid(axis),
            ("%ctaid", Some(axis)) => Special::Ctaid(axis),
            ("%nctaid", Some(axis)) => Special::Nctaid(axis),
            ("%clusterid", Some(axis)) => Special::ClusterId(axis),
            ("%nclusterid", Some(axis)) => Special::ClusterCount(axis),
            ("%cluster_ctaid", Some(axis)) => Special::ClusterCtaid(axis),
            ("%cluster_nctaid", Some(axis)) => Special::ClusterNctaid(axis),
            ("%cluster_ctarank", None) => Special::ClusterRank,
            ("%cluster_nctarank", None) => Special::ClusterSize,
            ("%laneid", None) => Special::Lane,
            ("%warpid", None) => Special::Warp,
            ("%nwarpid", None) => Special::Warps,
            ("%lanemask_eq", None) => Special::LaneMask(LaneMask::Eq),
            ("%lanemask_le", None) => Special::LaneMask(LaneMask::Le),
            ("%lanemask_lt", None) => Special::LaneMask(LaneMask::Lt),
            ("%lanemask_ge", None) => Special::LaneMask(LaneMask::Ge),
            ("%lanemask_gt", None) => Special::LaneMask(LaneMask::Gt),
            ("%smid", None) => Special::Sm,
            ("%nsmid", None) => Special::Sms,
            ("%dynamic_smem_size", None) => Special::DynamicShared,
            ("%total_smem_size", None) => Special::TotalShared,
            ("%gridid", None) => Special::GridId,
            _ => return None,
        })
    }
}
