//! Tile IR: programs over tiles, with the operations of Triton's IR.
//!
//! A [`Func`] is one kernel, run by many *programs* (CTAs) at a time; each knows its place by [`OpKind::ProgramId`]. Inside a
//! program there is one thread of control: the IR says what is computed on whole tiles, never which thread holds what. That is
//! settled by the compiler, which gives each tile a layout over the registers of the program's warps.
//!
//! **Values** are immutable (SSA). A value is a scalar (a number or an address, uniform over the program), a tile of numbers or
//! of addresses whose extents are powers of two ([`Shape`]), a block pointer or a tensor descriptor ([`Type`]).
//!
//! **Operations** ([`OpKind`]) are pure but for those that touch memory ([`OpKind::is_pure`]). Integers wrap; signedness is the
//! operation's, as in MLIR. Floats follow IEEE but for the approximate functions that Triton uses: division and square root of
//! singles are `div.full` and `sqrt.approx.ftz`, and products may be fused with the sums that use them. A masked load gives
//! `other` where the mask is false, and any value where there is no `other`; a masked store leaves memory as it was. Within a
//! program, memory operations happen in order: a load sees what an earlier store of the same program wrote, in whatever thread
//! the compiler puts either.
//!
//! **Regions** belong to operations: the bodies of `scf.for`, `scf.while` and `scf.if`, and the combining functions of reductions
//! and scans, which take two groups of scalars and give one. A region sees the values that were made before its operation. The
//! body of a function, and it alone, may have several blocks, joined by `cf.br` and `cf.cond_br`; their arguments are the only phis.
//! The result of `scf.for` is what the last turn yielded, or the initial values where there was none. The combining function of a
//! reduction must be associative and commutative; the order in which elements meet is the compiler's.
//!
//! The printed form ([`printer`]) is Triton's own text, which [`crate::ttir`] reads back. [`verify`] checks what this page
//! promises and more; the compiler calls it between passes in debug builds, and it never panics.

pub mod build;
mod func;
mod inline;
mod ops;
pub mod printer;
pub mod simplify;
mod types;
pub mod verify;

pub use func::{Block, BlockData, Def, Func, Loc, Op, OpData, Param, Program, Region, RegionData, Value, ValueData};
pub use ops::{
    AtomicOp, Binary, CacheModifier, CachePolicy, Cast, EvictionPolicy, FloatCompare, InputPrecision, IntCompare,
    MemScope, MemSemantic, OpKind, Padding, Rounding, ScaledFormat, Unary, float_bits, float_value, int_bits,
    int_value, range_type,
};
pub use types::{Elem, Scalar, Shape, ShapeError, Type};
pub use verify::VerifyError;
