//! Orders along an axis, as Triton's standard library makes them: the tile as a hypercube of extents 2, in which elements are exchanged in pairs (Batcher's
//! bitonic sort). Every exchange is a sum of exclusive ors along one axis, which the compiler makes a shuffle or a move between registers.

use super::Tile;
use super::error::{Fault, Made};
use super::state::State;
use crate::tile::{Scalar, Value};

/// Which way a stage of the sort orders the runs that it makes.
#[derive(Clone, Copy)]
enum Order {
    /// All runs one way.
    Same { descending: bool },
    /// By turns, so that two runs in a row rise and fall, for the next stage.
    Turns,
}

/// What is to be sorted.
struct Sorted {
    dims: Vec<u32>,
    scalar: Scalar,
}

impl State {
    fn sorted(&self, value: Value) -> Made<Sorted> {
        let scalar = self.number(value)?;
        if matches!(scalar, Scalar::I1 | Scalar::F8E4M3 | Scalar::F8E5M2) {
            return Err(Fault::rule(
                "truth values and FP8 have no order here: convert with `.to(..)`",
                &[self.ty(value)],
            ));
        }
        Ok(Sorted { dims: self.shape(value)?.dims().to_vec(), scalar })
    }
}

/// The integers of a type's width.
fn bits_of(scalar: Scalar) -> Scalar {
    match scalar.bits() {
        1 => Scalar::I1,
        8 => Scalar::I8,
        16 => Scalar::I16,
        32 => Scalar::I32,
        _ => Scalar::I64,
    }
}

impl<'k> Tile<'k> {
    /// In ascending order along the last axis, or in descending order; which of equals comes first is not said, and neither is where NaN goes.
    #[track_caller]
    pub fn sort(self, descending: bool) -> Self {
        let Some(Sorted { dims, scalar }) = self.described("sort", State::sorted) else { return self.k.tile(None) };
        let all = dims.last().copied().unwrap_or(1);
        self.ordered(&dims, scalar, all, descending)
    }

    /// The `k` largest along the last axis, in descending order. NaN is passed over, where there is anything else.
    #[track_caller]
    pub fn topk(self, k: u32) -> Self {
        let found = self.described("topk", |state, value| {
            let sorted = state.sorted(value)?;
            let all = sorted.dims.last().copied().unwrap_or(1);
            if !k.is_power_of_two() || k > all {
                let rule =
                    format!("{k} of {all} elements: a power of two of them, and no more than there are, can be kept");
                return Err(Fault::rule(rule, &[state.ty(value)]));
            }
            Ok(sorted)
        });
        let Some(Sorted { dims, scalar }) = found else { return self.k.tile(None) };
        self.ordered(&dims, scalar, k, true)
    }

    /// The elements along `axis` the other way round.
    #[track_caller]
    pub fn flip(self, axis: usize) -> Self {
        let found = self.described("flip", |state, value| {
            let dims = state.shape(value)?.dims().to_vec();
            match dims.get(axis) {
                Some(_) => Ok((dims, state.number(value)?)),
                None => Err(Fault::rule(format!("there is no axis {axis}"), &[state.ty(value)])),
            }
        });
        let Some((dims, scalar)) = found else { return self.k.tile(None) };
        let steps = dims[axis].ilog2() as usize;
        let cube = [&dims[..axis], &vec![2; steps], &dims[axis + 1..]].concat();
        // An axis of one element is gone from the cube, where there is another.
        let cube = if cube.is_empty() { vec![1] } else { cube };
        let mut bits = self.bitcast(bits_of(scalar)).reshape(&cube);
        for step in 0..steps {
            bits = bits.exchanged(axis + step);
        }
        bits.reshape(&dims).bitcast(scalar)
    }

    /// What `of` finds out of this tile; `None` for a mistake.
    #[track_caller]
    fn described<T>(self, operation: &'static str, of: impl FnOnce(&State, Value) -> Made<T>) -> Option<T> {
        let arg = self.k.arg(self);
        self.k.attempt(operation, |state| {
            let value = state.value(arg)?;
            of(state, value)
        })
    }

    /// The first `kept` of the last axis of `dims` in order: sorted runs of that many, and then the better half of each two until one is left.
    #[track_caller]
    fn ordered(self, dims: &[u32], scalar: Scalar, kept: u32, descending: bool) -> Self {
        let axes: u32 = dims.iter().map(|extent| extent.ilog2()).sum();
        let (all, keep) = (dims.last().map_or(0, |extent| extent.ilog2()), kept.ilog2());
        let order = |stage: u32| if stage < all { Order::Turns } else { Order::Same { descending } };
        let mut cube = self.reshape(&if axes == 0 { vec![1] } else { vec![2; axes as usize] });
        for stage in 1..=keep {
            cube = cube.merged(axes, stage, order(stage));
        }
        for stage in keep + 1..=all {
            let axis = axes - (stage - keep) - keep;
            // Extrema of small types are found in wide ones.
            let better = if descending { cube.max(axis as usize) } else { cube.min(axis as usize) };
            cube = better.to(scalar).merged(axes - (stage - keep), keep, order(stage));
        }
        let made = [&dims[..dims.len() - 1], &[kept]].concat();
        // One of one element is no tile any more.
        let whole = if cube.ty().is_some_and(|ty| ty.shape().is_none()) { cube.broadcast_to(&[1]) } else { cube };
        whole.reshape(&made)
    }

    /// Runs of 2^`stage` elements of a hypercube, each of which rises and falls, in order.
    #[track_caller]
    fn merged(self, axes: u32, stage: u32, order: Order) -> Self {
        (0..stage).rev().fold(self, |cube, place| {
            let right = self.half(axes, place);
            let turned = match order {
                Order::Same { descending } => right ^ i64::from(descending),
                Order::Turns => right ^ self.half(axes, stage),
            };
            let scalar = match cube.ty().and_then(|ty| ty.number()) {
                Some(scalar) => scalar,
                None => return self.k.tile(None),
            };
            let other = cube.bitcast(bits_of(scalar)).exchanged((axes - 1 - place) as usize).bitcast(scalar);
            cube.gt(other).ne(turned.ne(0)).select(other, cube)
        })
    }

    /// 0 in the one half and 1 in the other along an axis of a hypercube, counted from the innermost.
    #[track_caller]
    fn half(self, axes: u32, place: u32) -> Self {
        let mut dims = vec![1; axes as usize];
        dims[(axes - 1 - place) as usize] = 2;
        self.k.arange(0, 2).reshape(&dims)
    }

    /// Of integers: each of a pair along an axis of extent 2 where the other was, being the sum of both less itself.
    #[track_caller]
    fn exchanged(self, axis: usize) -> Self {
        self ^ self.xor_sum(axis).expand(axis)
    }
}
