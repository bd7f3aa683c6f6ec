//! Loads and stores.

use super::error::{Fault, Made};
use super::operand::Arg;
use super::state::State;
use super::{KernelBuilder, Operand, Tile};
use crate::tile::{
    CacheModifier, CachePolicy, Cast, Elem, EvictionPolicy, IntCompare, OpKind, Padding, Scalar, Type, Value,
};

/// How a load or a store is done: which elements, what stands in for the others, which caches.
///
/// Made by [`mask`] for addresses, and by [`boundary`] for block pointers.
#[derive(Clone, Debug, Default)]
pub struct Access<'k> {
    mask: Option<Operand<'k>>,
    other: Option<Operand<'k>>,
    boundary_check: Vec<u32>,
    padding: Option<Padding>,
    cache: CachePolicy,
}

/// Only the elements where `mask` holds. A load gives any value elsewhere, unless [`Access::other`] says which.
pub fn mask<'k>(mask: impl Into<Operand<'k>>) -> Access<'k> {
    Access { mask: Some(mask.into()), ..Access::default() }
}

/// Of a block pointer: only the elements within the array along `axes`.
pub fn boundary<'k>(axes: &[u32]) -> Access<'k> {
    Access { boundary_check: axes.to_vec(), ..Access::default() }
}

impl<'k> Access<'k> {
    /// All elements, to be refined by the other methods.
    pub fn all() -> Self {
        Self::default()
    }

    /// What a load gives where the mask does not hold.
    #[must_use]
    pub fn other(self, value: impl Into<Operand<'k>>) -> Self {
        Self { other: Some(value.into()), ..self }
    }

    /// What a load gives outside the array of a block pointer.
    #[must_use]
    pub fn padding(self, padding: Padding) -> Self {
        Self { padding: Some(padding), ..self }
    }

    /// Which cache it goes through.
    #[must_use]
    pub fn cache(mut self, modifier: CacheModifier) -> Self {
        self.cache.modifier = modifier;
        self
    }

    /// How long the lines stay.
    #[must_use]
    pub fn eviction(mut self, eviction: EvictionPolicy) -> Self {
        self.cache.eviction = eviction;
        self
    }

    /// A load that must happen each time.
    #[must_use]
    pub fn volatile(mut self) -> Self {
        self.cache.volatile = true;
        self
    }
}

/// [`Access`] without its builder.
pub(super) struct Plan {
    mask: Option<Arg>,
    other: Option<Arg>,
    boundary_check: Vec<u32>,
    padding: Option<Padding>,
    cache: CachePolicy,
}

impl State {
    /// Addresses of bytes in the place of addresses of truth values, and what is kept there.
    pub(super) fn byte_pointers(&mut self, pointer: Value) -> Made<(Value, Scalar)> {
        let ty = self.ty(pointer);
        match self.elem(pointer)? {
            Elem::Pointer(Scalar::I1) => {
                let bytes = ty.with_elem(Elem::Pointer(Scalar::I8));
                Ok((self.make(OpKind::Cast(Cast::Bitcast), &[pointer], bytes), Scalar::I8))
            }
            Elem::Pointer(scalar) => Ok((pointer, scalar)),
            Elem::Value(_) => Err(Fault::rule("addresses are needed", &[ty])),
        }
    }

    /// The axes that are checked, in order and each once.
    fn checked_axes(&self, pointer: Value, axes: &[u32]) -> Made<Vec<u32>> {
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let Type::BlockPtr(shape, _) = self.ty(pointer) else { return Ok(sorted) };
        if sorted.len() != axes.len() || sorted.last().is_some_and(|&axis| axis as usize >= shape.rank()) {
            let rule = format!("{axes:?} are no axes of the block, each named once");
            return Err(Fault::rule(rule, &[self.ty(pointer)]));
        }
        Ok(sorted)
    }

    fn load(&mut self, pointer: Value, plan: &Plan) -> Made<Value> {
        let pointer_ty = self.ty(pointer);
        if plan.cache.modifier != CacheModifier::None
            && !matches!(plan.cache.modifier, CacheModifier::Ca | CacheModifier::Cg | CacheModifier::Cv)
        {
            return Err(Fault::rule(format!("a load has no cache modifier `{}`", plan.cache.modifier.name()), &[]));
        }
        if let Type::BlockPtr(shape, scalar) = pointer_ty {
            if plan.mask.is_some() || plan.other.is_some() {
                return Err(Fault::rule("a block pointer takes a boundary, not a mask", &[pointer_ty]));
            }
            if plan.padding == Some(Padding::Nan) && scalar.is_int() {
                return Err(Fault::rule("integers have no NaN to pad with", &[pointer_ty]));
            }
            let boundary_check = self.checked_axes(pointer, &plan.boundary_check)?;
            let kind = OpKind::Load { cache: plan.cache, boundary_check, padding: plan.padding };
            return Ok(self.make(kind, &[pointer], Type::Tile(shape, scalar.into())));
        }
        if !plan.boundary_check.is_empty() || plan.padding.is_some() {
            return Err(Fault::rule("boundaries belong to block pointers: use a mask", &[pointer_ty]));
        }
        if plan.other.is_some() && plan.mask.is_none() {
            return Err(Fault::rule("`other` needs a mask", &[pointer_ty]));
        }
        let mut pointer = pointer;
        let (mut mask, mut other) = (None, None);
        if let Some(arg) = plan.mask {
            (pointer, mask) = self.beside(pointer, arg).map(|(pointer, mask)| (pointer, Some(mask)))?;
            self.check_mask(mask)?;
        }
        if let Some(arg) = plan.other {
            (pointer, other) = self.beside(pointer, arg).map(|(pointer, other)| (pointer, Some(other)))?;
        }
        // The fill value may have widened the addresses.
        if let Some(value) = mask {
            (pointer, mask) = self.beside(pointer, Arg::Value(value)).map(|(pointer, mask)| (pointer, Some(mask)))?;
        }
        let is_bool = self.elem(pointer)? == Elem::Pointer(Scalar::I1);
        let (pointer, scalar) = self.byte_pointers(pointer)?;
        let mut operands = vec![pointer];
        operands.extend(mask);
        if let Some(value) = other {
            operands.push(self.cast(value, scalar)?);
        }
        let kind = OpKind::Load { cache: plan.cache, boundary_check: Vec::new(), padding: None };
        let result = self.ty(pointer).with_elem(scalar);
        let value = self.make(kind, &operands, result);
        if !is_bool {
            return Ok(value);
        }
        let zero = self.constant_like(0, result)?;
        Ok(self.make(OpKind::CmpI(IntCompare::Ne), &[value, zero], result.with_elem(Scalar::I1)))
    }

    fn store(&mut self, pointer: Value, value: Value, plan: &Plan) -> Made<()> {
        let pointer_ty = self.ty(pointer);
        if plan.other.is_some() || plan.padding.is_some() || plan.cache.volatile {
            return Err(Fault::rule("`other`, `padding` and `volatile` belong to loads", &[pointer_ty]));
        }
        if matches!(plan.cache.modifier, CacheModifier::Ca | CacheModifier::Cv) {
            return Err(Fault::rule(format!("a store has no cache modifier `{}`", plan.cache.modifier.name()), &[]));
        }
        if let Type::BlockPtr(shape, scalar) = pointer_ty {
            if plan.mask.is_some() {
                return Err(Fault::rule("a block pointer takes a boundary, not a mask", &[pointer_ty]));
            }
            let value = if self.ty(value).shape().is_some() { value } else { self.in_shape(value, shape)? };
            if self.ty(value) != Type::Tile(shape, scalar.into()) {
                let rule = "the value has the block's shape and type: convert it with `.to(..)`";
                return Err(Fault::rule(rule, &[pointer_ty, self.ty(value)]));
            }
            let boundary_check = self.checked_axes(pointer, &plan.boundary_check)?;
            self.push(OpKind::Store { cache: plan.cache, boundary_check }, &[pointer, value], &[]);
            return Ok(());
        }
        if !plan.boundary_check.is_empty() {
            return Err(Fault::rule("boundaries belong to block pointers: use a mask", &[pointer_ty]));
        }
        let (to, mut value) = self.beside(pointer, Arg::Value(value))?;
        let mut mask = None;
        let mut shaped = to;
        if let Some(arg) = plan.mask {
            (shaped, mask) = self.beside(to, arg).map(|(to, mask)| (to, Some(mask)))?;
            self.check_mask(mask)?;
        }
        if self.ty(shaped) != pointer_ty {
            let mut types = vec![pointer_ty, self.ty(value)];
            types.extend(mask.map(|mask| self.ty(mask)));
            return Err(Fault::rule("the addresses have fewer elements than the value or the mask", &types));
        }
        let (pointer, scalar) = self.byte_pointers(shaped)?;
        value = self.cast(value, scalar)?;
        let mut operands = vec![pointer, value];
        operands.extend(mask);
        self.push(OpKind::Store { cache: plan.cache, boundary_check: Vec::new() }, &operands, &[]);
        Ok(())
    }

    /// An operand in the shape of the addresses; a scalar address takes scalars alone.
    pub(super) fn beside(&mut self, pointer: Value, arg: Arg) -> Made<(Value, Value)> {
        let value = self.value(arg)?;
        let (pointer_ty, ty) = (self.ty(pointer), self.ty(value));
        if pointer_ty.shape().is_none() && ty.shape().is_some() {
            return Err(Fault::rule("one address takes a scalar, not a tile", &[pointer_ty, ty]));
        }
        self.broadcast_pair(pointer, value)
    }

    /// Masks are truth values.
    pub(super) fn check_mask(&self, mask: Option<Value>) -> Made<()> {
        match mask.map(|mask| self.ty(mask)) {
            Some(ty) if ty.number() != Some(Scalar::I1) => Err(Fault::rule("a mask is of i1", &[ty])),
            _ => Ok(()),
        }
    }
}

impl KernelBuilder {
    /// What is at an address, at a tile of addresses, or in a block.
    #[track_caller]
    pub fn load<'k>(&'k self, pointer: Tile<'k>) -> Tile<'k> {
        self.load_with(pointer, Access::all())
    }

    /// [`KernelBuilder::load`] of some elements: `k.load_with(ptrs, mask(inside).other(0.0))`.
    #[track_caller]
    pub fn load_with<'k>(&'k self, pointer: Tile<'k>, access: Access<'k>) -> Tile<'k> {
        let (pointer, plan) = (self.arg(pointer), self.plan(access));
        self.run("load", |state| {
            let pointer = state.value(pointer)?;
            state.load(pointer, &plan)
        })
    }

    /// Writes a value, converted to the type of the memory, to an address, to a tile of addresses, or to a block.
    #[track_caller]
    pub fn store<'k>(&'k self, pointer: Tile<'k>, value: impl Into<Operand<'k>>) {
        self.store_with(pointer, value, Access::all());
    }

    /// [`KernelBuilder::store`] of some elements: `k.store_with(ptrs, value, mask(inside))`.
    #[track_caller]
    pub fn store_with<'k>(&'k self, pointer: Tile<'k>, value: impl Into<Operand<'k>>, access: Access<'k>) {
        let (pointer, value, plan) = (self.arg(pointer), self.arg(value), self.plan(access));
        self.attempt("store", |state| {
            let pointer = state.value(pointer)?;
            let value = state.value(value)?;
            state.store(pointer, value, &plan)
        });
    }

    fn plan<'k>(&'k self, access: Access<'k>) -> Plan {
        Plan {
            mask: access.mask.map(|operand| self.arg(operand)),
            other: access.other.map(|operand| self.arg(operand)),
            boundary_check: access.boundary_check,
            padding: access.padding,
            cache: access.cache,
        }
    }
}
