//! Operations whose tiles are in fixed places, whatever is around them: those that threads do together, but for loads, stores,
//! reductions and products.

use super::Options;
use super::layout::Layout;
use crate::tile::{Func, Op, OpKind, Shape};

/// The layouts of an operation's tiles.
pub(super) struct Placed {
    /// By operand; `None` for a scalar.
    pub(super) operands: Vec<Option<Layout>>,
    /// Of every result.
    pub(super) result: Option<Layout>,
}

/// Neighbours in neighbouring lanes.
pub(super) fn plain(shape: Shape, options: &Options) -> Layout {
    let order: Vec<usize> = (0..shape.rank()).rev().collect();
    Layout::blocked(shape, 1, &order, options.num_warps)
}

/// The layout of a scan along `axis`: runs of the axis in a thread first, then in lanes, so that little crosses warps.
fn along(shape: Shape, axis: usize, options: &Options) -> Layout {
    let mut order: Vec<usize> = (0..shape.rank()).rev().filter(|&other| other != axis).collect();
    order.insert(0, axis);
    let share = (shape.elements() / (32 * options.num_warps)).max(1);
    Layout::blocked(shape, share, &order, options.num_warps)
}

/// A layout in which each thread has `count` neighbours, or all there are where there are fewer.
fn in_packs(shape: Shape, count: u32, options: &Options) -> Layout {
    let order: Vec<usize> = (0..shape.rank()).rev().collect();
    Layout::blocked(shape, count, &order, options.num_warps)
}

/// Where the tiles of `op` are, or `None` where that is not fixed (or it is an operation on scalars).
pub(super) fn placed(func: &Func, op: Op, options: &Options) -> Option<Placed> {
    let data = func.op(op);
    let shapes: Vec<Option<Shape>> = data.operands.iter().map(|&value| func.ty(value).shape()).collect();
    let result = data.results.first().and_then(|&result| func.ty(result).shape());
    let everywhere = |layout: Layout| Placed {
        operands: shapes.iter().map(|shape| shape.map(|_| layout.clone())).collect(),
        result: Some(layout),
    };
    let each = || Placed {
        operands: shapes.iter().map(|shape| shape.map(|shape| plain(shape, options))).collect(),
        result: result.map(|shape| plain(shape, options)),
    };
    match &data.kind {
        OpKind::AtomicRmw { .. } | OpKind::AtomicCas { .. } => result.map(|shape| everywhere(plain(shape, options))),
        OpKind::Scan { axis, .. } => result.map(|shape| everywhere(along(shape, *axis as usize, options))),
        OpKind::InlineAsm { packed, .. } => result.map(|shape| everywhere(in_packs(shape, *packed, options))),
        OpKind::Gather { .. } | OpKind::Histogram | OpKind::Unsplat => Some(each()),
        _ => None,
    }
}

/// The bit of the element's index that tells which operand of `tt.join` or `tt.cat` an element of the result (`whole`) comes from.
pub(super) fn side_bit(kind: &OpKind, whole: Shape) -> Option<u32> {
    match kind {
        OpKind::Join | OpKind::Split => Some(0),
        // Along axis 0, which is the highest.
        OpKind::Cat => Some(whole.elements().trailing_zeros() - 1),
        _ => None,
    }
}

/// Where the operands of a `tt.join` or `tt.cat` are, by where the result is: the bit of the side drops out.
pub(super) fn half(made: &Layout, bit: u32, part: Shape) -> Layout {
    let low = (1_u32 << bit) - 1;
    let drop = |basis: u32| basis & low | basis >> (bit + 1) << bit;
    let all = |bases: &[u32]| bases.iter().map(|&basis| drop(basis)).collect::<Vec<_>>();
    let mut reg = all(&made.reg);
    reg.retain(|&basis| basis != 0);
    Layout { shape: part, reg, lane: all(&made.lane), warp: all(&made.warp) }
}

/// Where the operand (`whole`) of a `tt.split` is, by where a result is: both halves in one thread, register by register.
pub(super) fn doubled(made: &Layout, whole: Shape) -> Layout {
    let all = |bases: &[u32]| bases.iter().map(|&basis| basis << 1).collect::<Vec<_>>();
    let mut reg = vec![1];
    reg.extend(all(&made.reg));
    Layout { shape: whole, reg, lane: all(&made.lane), warp: all(&made.warp) }
}
