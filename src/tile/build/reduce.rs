//! Reductions and scans along an axis.

use super::error::{Fault, Made};
use super::state::State;
use super::{KernelBuilder, Tile};
use crate::tile::{OpKind, Scalar, Shape, Type, Value};

/// What a region started with, to be put back when it ends.
pub(super) type Saved = crate::tile::Block;

impl State {
    /// Opens an operation that combines tiles of one shape: gives it, and the arguments of its region.
    fn begin_combine(
        &mut self,
        kind: OpKind,
        inputs: &[Value],
        axis: usize,
    ) -> Made<(crate::tile::Op, Vec<Value>, Saved)> {
        let shape = self.shape(inputs[0])?;
        let mut scalars = Vec::with_capacity(2 * inputs.len());
        let mut results = Vec::with_capacity(inputs.len());
        for &input in inputs {
            if self.shape(input)? != shape {
                return Err(Fault::rule(
                    "the tiles have one shape",
                    &inputs.iter().map(|&v| self.ty(v)).collect::<Vec<_>>(),
                ));
            }
            let elem = self.number(input)?;
            scalars.push(Type::scalar(elem));
            results.push(match kind {
                OpKind::Reduce { .. } => Type::of(shape.removed(axis), elem),
                _ => Type::Tile(shape, elem.into()),
            });
        }
        if axis >= shape.rank() {
            return Err(Fault::rule(format!("there is no axis {axis}"), &[self.ty(inputs[0])]));
        }
        scalars.extend_from_within(..);
        let op = self.push(kind, inputs, &results);
        let region = self.func.add_region(op);
        let block = self.func.add_block(region, &scalars);
        let saved = std::mem::replace(&mut self.at, block);
        self.depth += 1;
        Ok((op, self.func.block(block).args.clone(), saved))
    }

    /// Ends the region: what it yields must have the types `expected`.
    pub(super) fn end_region(&mut self, saved: Saved, yielded: &[Value], expected: &[Type]) -> Made<()> {
        let types: Vec<Type> = yielded.iter().map(|&value| self.ty(value)).collect();
        self.push(OpKind::Yield, yielded, &[]);
        self.at = saved;
        self.depth -= 1;
        if types == expected {
            return Ok(());
        }
        let list = expected.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
        Err(Fault::rule(format!("the region gives these, and ({list}) is needed"), &types))
    }

    /// All elements as one vector.
    fn flatten(&mut self, value: Value) -> Made<Value> {
        let shape = self.shape(value)?;
        self.reshape(value, &[shape.elements()], true)
    }

    /// Small integers as `i32`: what sums of them are made in.
    fn widen_sum(&mut self, value: Value) -> Made<Value> {
        let scalar = self.number(value)?;
        if scalar.is_int() && scalar.bits() < 32 { self.cast(value, Scalar::I32) } else { Ok(value) }
    }

    /// Small types as `i32` and `f32`: what their extrema are found in.
    fn widen_extremum(&mut self, value: Value) -> Made<Value> {
        match self.number(value)? {
            scalar if scalar.bits() >= 32 => Ok(value),
            scalar if scalar.is_float() => self.cast(value, Scalar::F32),
            _ => self.cast(value, Scalar::I32),
        }
    }

    fn singles_for_bf16(&mut self, value: Value) -> Made<Value> {
        if self.number(value)? == Scalar::Bf16 { self.cast(value, Scalar::F32) } else { Ok(value) }
    }
}

impl KernelBuilder {
    /// Tiles of one shape combined along `axis`, which goes: `combine` makes one group of scalars of two. It must be
    /// associative and commutative, for the order in which elements meet is free.
    #[track_caller]
    pub fn reduce<'k, const N: usize>(
        &'k self,
        inputs: [Tile<'k>; N],
        axis: usize,
        combine: impl FnOnce([Tile<'k>; N], [Tile<'k>; N]) -> [Tile<'k>; N],
    ) -> [Tile<'k>; N] {
        self.combine("reduce", OpKind::Reduce { axis: axis as u32 }, inputs, axis, combine)
    }

    /// The combination of each element with all before it along `axis` (after it, where `reverse`). `combine` must be
    /// associative.
    #[track_caller]
    pub fn associative_scan<'k, const N: usize>(
        &'k self,
        inputs: [Tile<'k>; N],
        axis: usize,
        reverse: bool,
        combine: impl FnOnce([Tile<'k>; N], [Tile<'k>; N]) -> [Tile<'k>; N],
    ) -> [Tile<'k>; N] {
        self.combine("associative_scan", OpKind::Scan { axis: axis as u32, reverse }, inputs, axis, combine)
    }

    #[track_caller]
    fn combine<'k, const N: usize>(
        &'k self,
        operation: &'static str,
        kind: OpKind,
        inputs: [Tile<'k>; N],
        axis: usize,
        combine: impl FnOnce([Tile<'k>; N], [Tile<'k>; N]) -> [Tile<'k>; N],
    ) -> [Tile<'k>; N] {
        let args = inputs.map(|input| self.arg(input));
        let mistake = inputs.map(|_| self.tile(None));
        let opened = self.attempt(operation, |state| {
            let values = args.iter().map(|&arg| state.value(arg)).collect::<Made<Vec<_>>>()?;
            if values.is_empty() {
                return Err(Fault::rule("a tile is needed", &[]));
            }
            state.begin_combine(kind, &values, axis)
        });
        let Some((op, scalars, saved)) = opened else { return mistake };
        let part = |from: usize| std::array::from_fn(|index| self.tile(Some(scalars[from + index])));
        let yielded: [Tile<'k>; N] = combine(part(0), part(N));
        let args = yielded.map(|tile| self.arg(tile));
        let done = self.attempt(operation, |state| {
            let values = args.iter().map(|&arg| state.value(arg)).collect::<Made<Vec<_>>>();
            let expected: Vec<Type> = scalars[..N].iter().map(|&value| state.ty(value)).collect();
            match values {
                Ok(values) => state.end_region(saved, &values, &expected),
                Err(fault) => {
                    state.at = saved;
                    state.depth -= 1;
                    Err(fault)
                }
            }
        });
        if done.is_none() {
            return mistake;
        }
        let state = self.state.borrow();
        let results = &state.func.op(op).results;
        std::array::from_fn(|index| self.tile(Some(results[index])))
    }
}

/// Which of two candidates an index stands for where the values tie.
#[derive(Clone, Copy)]
enum Extremum {
    Max,
    Min,
}

impl<'k> Tile<'k> {
    /// Combined along `axis`, which goes. `combine` must be associative and commutative.
    #[track_caller]
    pub fn reduce(self, axis: usize, combine: impl FnOnce(Tile<'k>, Tile<'k>) -> Tile<'k>) -> Self {
        let [result] = self.k.reduce([self], axis, |[a], [b]| [combine(a, b)]);
        result
    }

    /// The sum along `axis`. Integers of fewer than 32 bits are summed as `i32`; halves stay halves.
    #[track_caller]
    pub fn sum(self, axis: usize) -> Self {
        self.map("sum", State::widen_sum).reduce(axis, |a, b| a + b)
    }

    /// The sum of all elements.
    #[track_caller]
    pub fn sum_all(self) -> Self {
        let wide = self.map("sum_all", State::widen_sum);
        wide.map("sum_all", State::flatten).reduce(0, |a, b| a + b)
    }

    /// The largest along `axis`, passing over NaN; types of fewer than 32 bits are widened to 32.
    #[track_caller]
    pub fn max(self, axis: usize) -> Self {
        self.map("max", State::widen_extremum).reduce(axis, Tile::maximum)
    }

    /// The largest of all elements.
    #[track_caller]
    pub fn max_all(self) -> Self {
        let wide = self.map("max_all", State::widen_extremum);
        wide.map("max_all", State::flatten).reduce(0, Tile::maximum)
    }

    /// The smallest along `axis`, passing over NaN; types of fewer than 32 bits are widened to 32.
    #[track_caller]
    pub fn min(self, axis: usize) -> Self {
        self.map("min", State::widen_extremum).reduce(axis, Tile::minimum)
    }

    /// The smallest of all elements.
    #[track_caller]
    pub fn min_all(self) -> Self {
        let wide = self.map("min_all", State::widen_extremum);
        wide.map("min_all", State::flatten).reduce(0, Tile::minimum)
    }

    /// The bitwise exclusive or along `axis`, of integers.
    #[track_caller]
    pub fn xor_sum(self, axis: usize) -> Self {
        self.reduce(axis, |a, b| a ^ b)
    }

    /// The largest along `axis` and its index; the first of equals.
    #[track_caller]
    pub fn max_with_index(self, axis: usize) -> [Self; 2] {
        self.with_index(axis, Extremum::Max)
    }

    /// The smallest along `axis` and its index; the first of equals.
    #[track_caller]
    pub fn min_with_index(self, axis: usize) -> [Self; 2] {
        self.with_index(axis, Extremum::Min)
    }

    /// The index of the largest along `axis`; the first of equals.
    #[track_caller]
    pub fn argmax(self, axis: usize) -> Self {
        self.max_with_index(axis)[1]
    }

    /// The index of the smallest along `axis`; the first of equals.
    #[track_caller]
    pub fn argmin(self, axis: usize) -> Self {
        self.min_with_index(axis)[1]
    }

    #[track_caller]
    fn with_index(self, axis: usize, extremum: Extremum) -> [Self; 2] {
        let k = self.k;
        let values = self.map("max_with_index", State::singles_for_bf16);
        let indices = values.map("max_with_index", |state, value| {
            let ty = state.ty(value);
            let shape = state.shape(value)?;
            let extent =
                *shape.dims().get(axis).ok_or_else(|| Fault::rule(format!("there is no axis {axis}"), &[ty]))?;
            let range = Type::Tile(Shape::new(&[extent])?, Scalar::I32.into());
            let mut index = state.make(OpKind::MakeRange { start: 0, end: extent as i32 }, &[], range);
            for other in (0..shape.rank()).filter(|&other| other != axis) {
                index = state.expand(index, other)?;
            }
            state.in_shape(index, shape)
        });
        k.reduce([values, indices], axis, |[value1, index1], [value2, index2]| {
            let tie = value1.eq(value2) & index1.lt(index2);
            let first = match extremum {
                Extremum::Max => value1.gt(value2),
                Extremum::Min => value1.lt(value2),
            } | tie;
            [k.where_(first, value1, value2), k.where_(first, index1, index2)]
        })
    }

    /// The sum of each element and those before it along `axis`; small integers as `i32`, `bf16` as `f32`.
    #[track_caller]
    pub fn cumsum(self, axis: usize) -> Self {
        let wide = self.map("cumsum", State::singles_for_bf16).map("cumsum", State::widen_sum);
        wide.associative_scan(axis, false, |a, b| a + b)
    }

    /// The product of each element and those before it along `axis`; `bf16` as `f32`.
    #[track_caller]
    pub fn cumprod(self, axis: usize) -> Self {
        self.map("cumprod", State::singles_for_bf16).associative_scan(axis, false, |a, b| a * b)
    }

    /// [`KernelBuilder::associative_scan`] of one tile.
    #[track_caller]
    pub fn associative_scan(
        self,
        axis: usize,
        reverse: bool,
        combine: impl FnOnce(Tile<'k>, Tile<'k>) -> Tile<'k>,
    ) -> Self {
        let [result] = self.k.associative_scan([self], axis, reverse, |[a], [b]| [combine(a, b)]);
        result
    }
}
