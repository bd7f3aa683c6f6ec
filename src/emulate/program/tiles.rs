//! The instructions of tensor cores, asynchronous copies and mbarriers.

use super::{Address, PredicateUse, Reg, Slot};
use crate::emulate::tensor::Element;

/// A predicate operand, or a constant in its place.
#[derive(Clone, Copy, Debug)]
pub(in crate::emulate) enum Flag {
    Constant(bool),
    Predicate(PredicateUse),
}

/// What a tensor core accumulates in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::emulate) enum Accumulator {
    F32,
    F16,
    S32,
    F64,
}

/// The shape and formats of a product: D (m × n) ← A (m × k) · B (k × n) + C.
#[derive(Clone, Copy, Debug)]
pub(in crate::emulate) struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: Element,
    pub b: Element,
    pub accumulator: Accumulator,
    pub saturate: bool,
}

/// Where `wgmma` and `tcgen05.mma` take A from.
pub(in crate::emulate) enum OperandA {
    Registers(Vec<Slot>),
    /// A shared-memory descriptor in a wide register.
    Shared(Slot),
    Tensor(Address),
}

/// The lanes and columns that one `tcgen05.ld` or `st` of one register count moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::emulate) enum TensorShape {
    L32B32,
    L16B64,
    L16B128,
    L16B256,
    /// 16 lanes by 32 bits twice; the second half so many columns on.
    L16B32X2(u32),
}

/// The kinds of `tcgen05.mma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::emulate) enum TensorKind {
    F16,
    Tf32,
    F8f6f4,
    I8,
    /// With a scale for every 32 elements.
    Mxf8f6f4,
}

/// What `tcgen05.cp` moves: rows, bytes of a row, and where the rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::emulate) enum TensorCopy {
    R128B256,
    R128B128,
    R4B256,
    R64B128X2Lanes02,
    R64B128X2Lanes01,
    R32B128X4,
}

pub(in crate::emulate) enum TensorOp {
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
pub(in crate::emulate) struct SharedAddress {
    pub address: Address,
    /// True where it is generic.
    pub generic: bool,
}

/// One end of a bulk copy.
#[derive(Clone, Copy, Debug)]
pub(in crate::emulate) enum BulkPlace {
    Global(Address),
    Shared(SharedAddress),
}

/// How a bulk copy says that it is complete.
#[derive(Clone, Copy, Debug)]
pub(in crate::emulate) enum Completion {
    /// Its bytes count on an mbarrier, in each CTA of a mask where there is one.
    Barrier { barrier: SharedAddress, multicast: Option<Slot> },
    /// With the bulk group that it belongs to.
    Group,
}

/// The phase that a wait on an mbarrier names.
#[derive(Clone, Copy, Debug)]
pub(in crate::emulate) enum Phase {
    Parity(Slot),
    Token(Slot),
}

pub(in crate::emulate) enum AsyncOp {
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
