//! Atomic operations on memory.

use super::error::{Fault, Made};
use super::operand::Arg;
use super::state::State;
use super::{KernelBuilder, Operand, Tile};
use crate::tile::{AtomicOp, Binary, Elem, MemScope, MemSemantic, OpKind, Scalar, Value};

/// How an atomic operation is done; the default is Triton's: every element, acquire and release, for the device.
#[derive(Clone, Copy, Debug)]
pub struct Atomic<'k> {
    mask: Option<Operand<'k>>,
    semantic: MemSemantic,
    scope: MemScope,
}

impl Default for Atomic<'_> {
    fn default() -> Self {
        Self { mask: None, semantic: MemSemantic::AcquireRelease, scope: MemScope::Gpu }
    }
}

impl<'k> Atomic<'k> {
    /// Only the elements where `mask` holds.
    #[must_use]
    pub fn mask(self, mask: impl Into<Operand<'k>>) -> Self {
        Self { mask: Some(mask.into()), ..self }
    }

    /// The order that it keeps.
    #[must_use]
    pub fn semantic(self, semantic: MemSemantic) -> Self {
        Self { semantic, ..self }
    }

    /// Who sees that order.
    #[must_use]
    pub fn scope(self, scope: MemScope) -> Self {
        Self { scope, ..self }
    }
}

/// What an atomic operation reads and the order that it keeps.
struct Rmw {
    pointer: Value,
    value: Value,
    mask: Value,
    semantic: MemSemantic,
    scope: MemScope,
}

impl State {
    fn rmw(&mut self, op: AtomicOp, rmw: &Rmw) -> Value {
        let ty = self.ty(rmw.value);
        let kind = OpKind::AtomicRmw { op, semantic: rmw.semantic, scope: rmw.scope };
        self.make(kind, &[rmw.pointer, rmw.value, rmw.mask], ty)
    }

    /// The operands in the shape of the addresses, the value in the type of the memory.
    fn rmw_operands(&mut self, pointer: Value, value: Arg, mask: Option<Arg>) -> Made<(Value, Value, Scalar)> {
        let ty = self.ty(pointer);
        let Some(Elem::Pointer(scalar)) = ty.elem() else {
            return Err(Fault::rule("addresses are needed", &[ty]));
        };
        let value = self.value(value)?;
        let mask = self.value(mask.unwrap_or(Arg::Bool(true)))?;
        self.check_mask(Some(mask))?;
        let (value, mask) = match ty.shape() {
            Some(shape) => (self.in_shape(value, shape)?, self.in_shape(mask, shape)?),
            None => (value, mask),
        };
        if ty.shape().is_none() && (self.ty(value).shape().is_some() || self.ty(mask).shape().is_some()) {
            return Err(Fault::rule("one address takes a scalar, not a tile", &[ty, self.ty(value)]));
        }
        Ok((self.cast(value, scalar)?, mask, scalar))
    }

    /// Larger and smaller of floats, as those of their bits: signed where the value is not negative, the other way around of
    /// unsigned bits where it is.
    fn float_extremum(&mut self, rmw: &Rmw, scalar: Scalar, larger: bool) -> Made<Value> {
        let int = if scalar == Scalar::F32 { Scalar::I32 } else { Scalar::I64 };
        let bits = self.bitcast(rmw.value, int.into())?;
        let pointer = self.bitcast(rmw.pointer, Elem::Pointer(int))?;
        let ty = self.ty(bits);
        let truth = ty.with_elem(Scalar::I1);
        let shift = self.constant_like(i64::from(scalar.bits()) - 1, ty)?;
        let sign = self.make(OpKind::Binary(Binary::ShrUI), &[bits, shift], ty);
        let negative = self.cast(sign, Scalar::I1)?;
        let ones = self.constant_like(1, truth)?;
        let positive = self.make(OpKind::Binary(Binary::XOrI), &[negative, ones], truth);
        let (signed, unsigned) = if larger { (AtomicOp::Max, AtomicOp::UMin) } else { (AtomicOp::Min, AtomicOp::UMax) };
        let mut parts = Vec::with_capacity(2);
        for (op, which) in [(signed, positive), (unsigned, negative)] {
            let mask = self.make(OpKind::Binary(Binary::AndI), &[rmw.mask, which], truth);
            parts.push(self.rmw(op, &Rmw { pointer, value: bits, mask, ..*rmw }));
        }
        let old = self.make(OpKind::Select, &[positive, parts[0], parts[1]], ty);
        self.bitcast(old, scalar.into())
    }
}

/// What the caller means, before types are known.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Add,
    Max,
    Min,
    Bits(AtomicOp),
    Exchange,
}

macro_rules! atomics {
    ($($(#[$doc:meta])* $name:ident: $wanted:expr;)*) => {
        impl KernelBuilder {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name<'k>(&'k self, pointer: Tile<'k>, value: impl Into<Operand<'k>>, atomic: Atomic<'k>) -> Tile<'k> {
                self.atomic(stringify!($name), $wanted, pointer, value, atomic)
            }
        )*}
    };
}

atomics! {
    /// Adds `value` in memory; gives what was there before.
    atomic_add: Wanted::Add;
    /// Leaves the larger in memory (integers signed); gives what was there before.
    atomic_max: Wanted::Max;
    /// Leaves the smaller in memory (integers signed); gives what was there before.
    atomic_min: Wanted::Min;
    /// Leaves the bitwise and in memory; gives what was there before.
    atomic_and: Wanted::Bits(AtomicOp::And);
    /// Leaves the bitwise or in memory; gives what was there before.
    atomic_or: Wanted::Bits(AtomicOp::Or);
    /// Leaves the bitwise exclusive or in memory; gives what was there before.
    atomic_xor: Wanted::Bits(AtomicOp::Xor);
    /// Leaves `value` in memory; gives what was there before.
    atomic_xchg: Wanted::Exchange;
}

impl KernelBuilder {
    #[track_caller]
    fn atomic<'k>(
        &'k self,
        operation: &'static str,
        wanted: Wanted,
        pointer: Tile<'k>,
        value: impl Into<Operand<'k>>,
        atomic: Atomic<'k>,
    ) -> Tile<'k> {
        let (pointer, value, mask) = (self.arg(pointer), self.arg(value), atomic.mask.map(|mask| self.arg(mask)));
        self.run(operation, |state| {
            let pointer = state.value(pointer)?;
            let (value, mask, scalar) = state.rmw_operands(pointer, value, mask)?;
            let half = matches!(scalar, Scalar::F16 | Scalar::Bf16);
            if scalar == Scalar::I16 || scalar.bits() < 16 || (half && wanted != Wanted::Add) {
                return Err(Fault::rule(format!("not made for {scalar}"), &[state.ty(pointer)]));
            }
            if matches!(wanted, Wanted::Bits(_)) && scalar.is_float() {
                return Err(Fault::rule("integers are needed", &[state.ty(pointer)]));
            }
            let rmw = Rmw { pointer, value, mask, semantic: atomic.semantic, scope: atomic.scope };
            Ok(match wanted {
                Wanted::Add if scalar.is_float() => state.rmw(AtomicOp::FAdd, &rmw),
                Wanted::Add => state.rmw(AtomicOp::Add, &rmw),
                Wanted::Max | Wanted::Min if scalar.is_float() => {
                    state.float_extremum(&rmw, scalar, wanted == Wanted::Max)?
                }
                Wanted::Max => state.rmw(AtomicOp::Max, &rmw),
                Wanted::Min => state.rmw(AtomicOp::Min, &rmw),
                Wanted::Bits(op) => state.rmw(op, &rmw),
                Wanted::Exchange => state.rmw(AtomicOp::Exch, &rmw),
            })
        })
    }

    /// Leaves `value` in memory where `compare` is there; gives what was there before. For every element: no mask.
    #[track_caller]
    pub fn atomic_cas<'k>(
        &'k self,
        pointer: Tile<'k>,
        compare: impl Into<Operand<'k>>,
        value: impl Into<Operand<'k>>,
        atomic: Atomic<'k>,
    ) -> Tile<'k> {
        let (pointer, compare, value) = (self.arg(pointer), self.arg(compare), self.arg(value));
        self.run("atomic_cas", |state| {
            if atomic.mask.is_some() {
                return Err(Fault::rule("a compare-and-swap takes no mask", &[]));
            }
            let pointer = state.value(pointer)?;
            let (compare, _, scalar) = state.rmw_operands(pointer, compare, None)?;
            let (value, _, _) = state.rmw_operands(pointer, value, None)?;
            if ![16, 32, 64].contains(&scalar.bits()) {
                return Err(Fault::rule("elements of 16, 32 or 64 bits are needed", &[state.ty(pointer)]));
            }
            let ty = state.ty(value);
            let kind = OpKind::AtomicCas { semantic: atomic.semantic, scope: atomic.scope };
            Ok(state.make(kind, &[pointer, compare, value], ty))
        })
    }
}
