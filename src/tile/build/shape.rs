//! Shapes: axes put in, repeated, permuted; tiles joined, split and gathered.

use super::error::{Fault, Made};
use super::state::State;
use super::{KernelBuilder, Tile};
use crate::tile::{OpKind, Scalar, Shape, Type, Value};

impl State {
    /// The shape of a tile.
    pub(super) fn shape(&self, value: Value) -> Made<Shape> {
        let ty = self.ty(value);
        ty.shape().ok_or_else(|| Fault::rule("a tile is needed", &[ty]))
    }

    pub(super) fn reshape(&mut self, value: Value, dims: &[u32], allow_reorder: bool) -> Made<Value> {
        let ty = self.ty(value);
        let (shape, elem) = (self.shape(value)?, self.elem(value)?);
        let wanted = Shape::new(dims)?;
        if wanted.elements() != shape.elements() {
            return Err(Fault::rule(format!("{shape} and {wanted} have different numbers of elements"), &[ty]));
        }
        if wanted == shape {
            return Ok(value);
        }
        let kind = OpKind::Reshape { allow_reorder, efficient_layout: false };
        Ok(self.make(kind, &[value], Type::Tile(wanted, elem)))
    }

    fn join(&mut self, a: Value, b: Value) -> Made<Value> {
        let (a, b) = self.broadcast_pair(a, b)?;
        if self.ty(a).elem() != self.ty(b).elem() {
            return Err(Fault::rule("the element types differ", &[self.ty(a), self.ty(b)]));
        }
        let scalars = self.ty(a).shape().is_none();
        let (a, b) = if scalars { (self.expand(a, 0)?, self.expand(b, 0)?) } else { (a, b) };
        let (shape, elem) = (self.shape(a)?, self.elem(a)?);
        let joined = shape
            .inserted(shape.rank(), 2)
            .ok_or_else(|| Fault::rule("there is no room for another axis", &[self.ty(a)]))?;
        let value = self.make(OpKind::Join, &[a, b], Type::Tile(joined, elem));
        if scalars { self.reshape(value, &[2], false) } else { Ok(value) }
    }
}

impl<'k> Tile<'k> {
    /// An axis of extent 1 put in at `axis`.
    #[track_caller]
    pub fn expand(self, axis: usize) -> Self {
        self.map("expand", |state, value| state.expand(value, axis))
    }

    /// A vector as a column: Python's `[:, None]`.
    #[track_caller]
    pub fn col(self) -> Self {
        self.vector_as("col", 1)
    }

    /// A vector as a row: Python's `[None, :]`.
    #[track_caller]
    pub fn row(self) -> Self {
        self.vector_as("row", 0)
    }

    #[track_caller]
    fn vector_as(self, operation: &'static str, axis: usize) -> Self {
        self.map(operation, |state, value| match state.shape(value)?.rank() {
            1 => state.expand(value, axis),
            rank => Err(Fault::rule(format!("a vector is needed, not {rank} axes"), &[state.ty(value)])),
        })
    }

    /// Repeated along axes of extent 1 to `shape`; a scalar is repeated everywhere.
    #[track_caller]
    pub fn broadcast_to(self, shape: &[u32]) -> Self {
        self.map("broadcast_to", |state, value| {
            let shape = Shape::new(shape)?;
            state.in_shape(value, shape)
        })
    }

    /// The same elements in row-major order in another shape.
    #[track_caller]
    pub fn reshape(self, shape: &[u32]) -> Self {
        self.map("reshape", |state, value| state.reshape(value, shape, false))
    }

    /// The same elements, in whatever order is cheapest, in another shape.
    #[track_caller]
    pub fn reshape_any_order(self, shape: &[u32]) -> Self {
        self.map("reshape_any_order", |state, value| state.reshape(value, shape, true))
    }

    /// Axis i of the result is axis `order[i]` of this.
    #[track_caller]
    pub fn permute(self, order: &[u32]) -> Self {
        self.map("permute", |state, value| {
            let (shape, elem) = (state.shape(value)?, state.elem(value)?);
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            if sorted.len() != shape.rank() || sorted.iter().enumerate().any(|(axis, &at)| axis as u32 != at) {
                let rule = format!("{order:?} is no order of the axes 0 to {}", shape.rank() - 1);
                return Err(Fault::rule(rule, &[state.ty(value)]));
            }
            let dims: Vec<u32> = order.iter().map(|&axis| shape.dims()[axis as usize]).collect();
            let kind = OpKind::Trans { order: order.to_vec() };
            Ok(state.make(kind, &[value], Type::Tile(Shape::new(&dims)?, elem)))
        })
    }

    /// The transpose of a matrix.
    #[track_caller]
    pub fn trans(self) -> Self {
        self.permute(&[1, 0])
    }

    /// The two halves along an innermost axis of extent 2.
    #[track_caller]
    pub fn split(self) -> [Self; 2] {
        let k = self.k;
        let arg = k.arg(self);
        let halves = k.attempt("split", |state| {
            let value = state.value(arg)?;
            let (shape, elem) = (state.shape(value)?, state.elem(value)?);
            let fault = || Fault::rule("an innermost axis of extent 2 beside another is needed", &[state.ty(value)]);
            let last = shape.dims()[shape.rank() - 1];
            let half = shape.removed(shape.rank() - 1).filter(|_| last == 2).ok_or_else(fault)?;
            let half = Type::Tile(half, elem);
            let op = state.push(OpKind::Split, &[value], &[half, half]);
            Ok([state.func.op(op).results[0], state.func.op(op).results[1]])
        });
        [k.tile(halves.map(|h| h[0])), k.tile(halves.map(|h| h[1]))]
    }

    /// This and `other` as the two halves of a new innermost axis.
    #[track_caller]
    pub fn join(self, other: Self) -> Self {
        self.with("join", other, |state, a, b| {
            let (a, b) = (state.value(a)?, state.value(b)?);
            state.join(a, b)
        })
    }

    /// The elements of this and `other` in turn, along the innermost axis.
    #[track_caller]
    pub fn interleave(self, other: Self) -> Self {
        self.with("interleave", other, |state, a, b| {
            let (a, b) = (state.value(a)?, state.value(b)?);
            let joined = state.join(a, b)?;
            let shape = state.shape(joined)?;
            let rank = shape.rank();
            if rank == 1 {
                return Ok(joined);
            }
            let mut dims = shape.dims()[..rank - 1].to_vec();
            dims[rank - 2] *= 2;
            state.reshape(joined, &dims, false)
        })
    }

    /// This vector and `other`, of the same length, one after the other; the order of the elements is free.
    #[track_caller]
    pub fn cat(self, other: Self) -> Self {
        self.with("cat", other, |state, a, b| {
            let (a, b) = (state.value(a)?, state.value(b)?);
            let (shape, elem) = (state.shape(a)?, state.elem(a)?);
            if state.ty(a) != state.ty(b) || shape.rank() != 1 {
                return Err(Fault::rule("two vectors of one type are needed", &[state.ty(a), state.ty(b)]));
            }
            let both = Shape::new(&[2 * shape.dims()[0]])?;
            Ok(state.make(OpKind::Cat, &[a, b], Type::Tile(both, elem)))
        })
    }

    /// The elements at `indices` along `axis`.
    #[track_caller]
    pub fn gather(self, indices: Self, axis: usize) -> Self {
        self.with("gather", indices, |state, source, indices| {
            let (source, indices) = (state.value(source)?, state.value(indices)?);
            let (from, to, elem) = (state.shape(source)?, state.shape(indices)?, state.elem(source)?);
            let types = [state.ty(source), state.ty(indices)];
            if !state.number(indices)?.is_int() {
                return Err(Fault::rule("the indices are integers", &types));
            }
            let alike = from.dims().iter().zip(to.dims()).enumerate().all(|(at, (x, y))| at == axis || x == y);
            if from.rank() != to.rank() || axis >= from.rank() || !alike {
                return Err(Fault::rule(format!("the extents are the same but for axis {axis}"), &types));
            }
            let kind = OpKind::Gather { axis: axis as u32, efficient_layout: false };
            Ok(state.make(kind, &[source, indices], Type::Tile(to, elem)))
        })
    }

    /// How many of these integers are 0, 1, …, `bins` − 1.
    #[track_caller]
    pub fn histogram(self, bins: u32) -> Self {
        self.map("histogram", |state, value| {
            let result = state.histogram_type(value, bins)?;
            Ok(state.make(OpKind::Histogram, &[value], result))
        })
    }

    /// [`Tile::histogram`] of those elements where `mask` holds.
    #[track_caller]
    pub fn histogram_where(self, bins: u32, mask: Self) -> Self {
        self.with("histogram_where", mask, |state, value, mask| {
            let (value, mask) = (state.value(value)?, state.value(mask)?);
            let result = state.histogram_type(value, bins)?;
            let shape = state.shape(value)?;
            let mask = state.in_shape(mask, shape)?;
            if state.ty(mask).number() != Some(Scalar::I1) {
                return Err(Fault::rule("a mask is of i1", &[state.ty(mask)]));
            }
            Ok(state.make(OpKind::Histogram, &[value, mask], result))
        })
    }
}

impl State {
    fn histogram_type(&self, value: Value, bins: u32) -> Made<Type> {
        if self.shape(value)?.rank() != 1 || !self.number(value)?.is_int() {
            return Err(Fault::rule("a vector of integers is needed", &[self.ty(value)]));
        }
        Ok(Type::Tile(Shape::new(&[bins])?, Scalar::I32.into()))
    }
}

impl KernelBuilder {
    /// The one element of a tile of one element.
    #[track_caller]
    pub fn unsplat<'k>(&'k self, tile: Tile<'k>) -> Tile<'k> {
        tile.map("unsplat", |state, value| {
            let (shape, elem) = (state.shape(value)?, state.elem(value)?);
            if shape.elements() != 1 {
                return Err(Fault::rule("a tile of one element is needed", &[state.ty(value)]));
            }
            Ok(state.make(OpKind::Unsplat, &[value], Type::Scalar(elem)))
        })
    }
}
