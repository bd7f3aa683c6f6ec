//! The handle of a value.

use std::fmt;

use super::{KernelBuilder, Operand};
use crate::tile::{Scalar, Type, Value};

/// A value of a kernel under construction: a tile, a scalar, an address or tile of addresses, or a block pointer.
///
/// It is a handle: copying it copies nothing on the device.
#[derive(Clone, Copy)]
pub struct Tile<'k> {
    pub(super) k: &'k KernelBuilder,
    /// `None` where it comes from a mistake.
    pub(super) value: Option<Value>,
}

impl fmt::Debug for Tile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.value, self.ty()) {
            (Some(value), Some(ty)) => write!(f, "%{} : {ty}", value.index()),
            _ => f.write_str("(mistake)"),
        }
    }
}

impl<'k> Tile<'k> {
    /// The builder that it belongs to.
    pub fn builder(self) -> &'k KernelBuilder {
        self.k
    }

    /// Its type; `None` where it comes from a mistake.
    pub fn ty(self) -> Option<Type> {
        self.value.map(|value| self.k.state.borrow().ty(value))
    }

    /// Its number type; `None` for addresses, block pointers and mistakes.
    pub fn number(self) -> Option<Scalar> {
        self.ty().and_then(Type::number)
    }

    /// What it points to: of an address, a tile of addresses or a block pointer.
    pub fn pointee(self) -> Option<Scalar> {
        match self.ty()? {
            Type::BlockPtr(_, scalar) | Type::Descriptor(_, scalar) => Some(scalar),
            ty => ty.elem()?.pointee(),
        }
    }

    /// The extents; empty for a scalar.
    pub fn dims(self) -> Vec<u32> {
        match self.ty() {
            Some(Type::Tile(shape, _) | Type::BlockPtr(shape, _) | Type::Descriptor(shape, _)) => shape.dims().to_vec(),
            _ => Vec::new(),
        }
    }

    /// Gives it a name, for those who read the IR.
    pub fn named(self, name: &str) -> Self {
        if let Some(value) = self.value {
            self.k.state.borrow_mut().func.set_name(value, name);
        }
        self
    }

    /// Makes a value from this one and another operand.
    #[track_caller]
    pub(super) fn with(
        self,
        operation: &'static str,
        other: impl Into<Operand<'k>>,
        make: impl FnOnce(&mut super::State, super::Arg, super::Arg) -> super::Made<Value>,
    ) -> Self {
        let (left, right) = (self.k.arg(self), self.k.arg(other));
        self.k.run(operation, |state| make(state, left, right))
    }

    /// Makes a value from this one alone.
    #[track_caller]
    pub(super) fn map(
        self,
        operation: &'static str,
        make: impl FnOnce(&mut super::State, Value) -> super::Made<Value>,
    ) -> Self {
        let arg = self.k.arg(self);
        self.k.run(operation, |state| {
            let value = state.value(arg)?;
            make(state, value)
        })
    }
}
