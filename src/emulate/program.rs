//! A decoded kernel: typed instructions over numbered registers, ready to run.

use super::alu::{Alu, Compare32, Compare64};
use super::lanes::{Lanes32, Lanes64};
use super::observe::Listing;
use super::tensor::Element;
use super::video::Video;
use crate::ptx::Span;

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

/// A predicate operand, or a constant in its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flag {
    Constant(bool),
    Predicate(PredicateUse),
}

/// What a tensor core accumulates in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accumulator {
    F32,
    F16,
    S32,
    F64,
}

/// The shape and formats of a product: D (m × n) ← A (m × k) · B (k × n) + C.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: Element,
    pub b: Element,
    pub accumulator: Accumulator,
    pub saturate: bool,
}

/// Where `wgmma` and `tcgen05.mma` take A from.
pub(super) enum OperandA {
    Registers(Vec<Slot>),
    /// A shared-memory descriptor in a wide register.
    Shared(Slot),
    Tensor(Address),
}

/// The lanes and columns that one `tcgen05.ld` or `st` of one register count moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TensorShape {
    L32B32,
    L16B64,
    L16B128,
    L16B256,
    /// 16 lanes by 32 bits twice; the second half so many columns on.
    L16B32X2(u32),
}

/// The kinds of `tcgen05.mma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TensorKind {
    F16,
    Tf32,
    F8f6f4,
    I8,
    /// With a scale for every 32 elements.
    Mxf8f6f4,
}

/// What `tcgen05.cp` moves: rows, bytes of a row, and where the rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TensorCopy {
    R128B256,
    R128B128,
    R4B256,
    R64B128X2Lanes02,
    R64B128X2Lanes01,
    R32B128X4,
}

pub(super) enum TensorOp {
    LoadMatrix {
        dst: Vec<Slot>,
        address: Address,
        generic: bool,
        transpose: bool,
    },
    StoreMatrix {
        src: Vec<Slot>,
        address: Address,
        generic: bool,
        transpose: bool,
    },
    /// `movmatrix`.
    Transpose {
        dst: Slot,
        src: Slot,
    },
    /// `mma.sync`. The registers of doubles are wide.
    Multiply {
        product: Product,
        d: Vec<Slot>,
        a: Vec<Slot>,
        b: Vec<Slot>,
        c: Vec<Slot>,
    },
    GroupFence,
    GroupCommit,
    GroupWait {
        left: usize,
    },
    GroupMultiply {
        product: Product,
        d: Vec<Slot>,
        a: OperandA,
        b: Slot,
        accumulate: Flag,
        negate: [bool; 2],
        transpose: [bool; 2],
    },
    Alloc {
        address: Address,
        generic: bool,
        columns: Slot,
    },
    Dealloc {
        address: Slot,
        columns: Slot,
    },
    Relinquish,
    Load {
        shape: TensorShape,
        dst: Vec<Slot>,
        address: Address,
        pack: bool,
    },
    Store {
        shape: TensorShape,
        src: Vec<Slot>,
        address: Address,
        pack: bool,
    },
    WaitLoad,
    WaitStore,
    TensorMultiply {
        kind: TensorKind,
        d: Address,
        a: OperandA,
        b: Slot,
        instruction: Slot,
        scales: Option<[Address; 2]>,
        accumulate: Flag,
    },
    TensorCopy {
        what: TensorCopy,
        to: Address,
        from: Slot,
    },
    Commit {
        address: Address,
    },
}

/// How an address of shared memory is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedAddress {
    pub address: Address,
    /// True where it is generic.
    pub generic: bool,
}

/// One end of a bulk copy.
#[derive(Clone, Copy, Debug)]
pub(super) enum BulkPlace {
    Global(Address),
    Shared(SharedAddress),
}

/// How a bulk copy says that it is complete.
#[derive(Clone, Copy, Debug)]
pub(super) enum Completion {
    /// Its bytes count on an mbarrier, in each CTA of a mask where there is one.
    Barrier { barrier: SharedAddress, multicast: Option<Slot> },
    /// With the bulk group that it belongs to.
    Group,
}

/// The phase that a wait on an mbarrier names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    Parity(Slot),
    Token(Slot),
}

pub(super) enum AsyncOp {
    /// `cp.async`: `size` bytes, of which `read` (all, if none) come from global memory and the rest are zero.
    Copy {
        to: SharedAddress,
        from: Address,
        size: u64,
        read: Option<Slot>,
        ignore: Option<PredicateUse>,
    },
    CopyCommit,
    /// Waits until at most so many groups are pending; without a number, for all copies.
    CopyWait {
        left: Option<usize>,
    },
    CopyArrive {
        to: SharedAddress,
        counted: bool,
    },
    Init {
        barrier: SharedAddress,
        count: Slot,
    },
    Invalidate {
        barrier: SharedAddress,
    },
    Arrive {
        barrier: SharedAddress,
        token: Option<Slot>,
        count: Option<Slot>,
        bytes: Option<Slot>,
        drop: bool,
        release: bool,
        /// False for `expect_tx` alone.
        arrives: bool,
    },
    CompleteBytes {
        barrier: SharedAddress,
        bytes: Slot,
    },
    Test {
        done: Slot,
        barrier: SharedAddress,
        phase: Phase,
        acquire: bool,
    },
    PendingCount {
        dst: Slot,
        token: Slot,
    },
    ProxyFence,
    /// `cp.async.bulk`: so many bytes between global and shared memory, or between CTAs.
    Bulk {
        to: BulkPlace,
        from: BulkPlace,
        size: Slot,
        completion: Completion,
    },
    /// `cp.async.bulk.tensor`: a box of a tensor, whose map is at `map`.
    BulkTensor {
        map: Address,
        coordinates: Vec<Slot>,
        shared: SharedAddress,
        completion: Completion,
    },
    BulkCommit,
    BulkWait {
        left: usize,
        /// True where it is enough that the sources have been read.
        read: bool,
    },
    /// `mapa`: the address in another CTA of the cluster.
    MapAddress {
        dst: Reg,
        address: Reg,
        rank: Slot,
    },
    /// `getctarank`.
    RankOf {
        dst: Slot,
        address: Reg,
    },
    ClusterArrive {
        release: bool,
    },
    ClusterWait {
        acquire: bool,
    },
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
