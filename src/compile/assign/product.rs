//! Where products have their operands and their sums.

use crate::compile::Options;
use crate::compile::layout::Layout;
use crate::compile::tensor::{Engine, Mma, Product};
use crate::tile::{Func, InputPrecision, Op, OpKind, Shape, Type, Value};

/// The row (along M or N) and the k of an index of operand `index` of a product.
pub(in crate::compile) fn coordinates(shape: Shape, at: u32, index: usize) -> (u32, u32) {
    let columns = shape.dims()[1];
    match index {
        0 => (at / columns, at % columns),
        _ => (at % columns, at / columns),
    }
}

/// A layout of an operand of a product in which each thread has 16 bytes of k side by side.
pub(super) fn in_runs(func: &Func, options: &Options, operand: Value, left: bool) -> Option<Layout> {
    let Type::Tile(shape, elem) = func.ty(operand) else { return None };
    let order = if left { [1, 0] } else { [0, 1] };
    Some(Layout::blocked(shape, 128 / elem.bits(), &order, options.num_warps))
}

/// The layout of a product in singles: two or four columns to a thread, so that each operand that it reads serves several.
pub(super) fn product(shape: Shape, options: &Options) -> Layout {
    let order: Vec<usize> = (0..shape.rank()).rev().collect();
    let share = (shape.elements() / (32 * options.num_warps)).clamp(1, 4);
    Layout::blocked(shape, share, &order, options.num_warps)
}

/// The numbers of a product's operands a and b.
pub(in crate::compile) fn factors(kind: &OpKind) -> [usize; 2] {
    // What is still scaled here has scales of both (`decompose`).
    if matches!(kind, OpKind::DotScaled { .. }) { [0, 2] } else { [0, 1] }
}

/// The numbers of the operands of `tt.dot_scaled` that are scales.
pub(in crate::compile) const SCALES: [usize; 2] = [1, 3];

/// The tensor cores' instruction for the product `op`, or `None` where there is none.
pub(in crate::compile) fn tensor_product(func: &Func, op: Op) -> Option<Mma> {
    let data = func.op(op);
    matches!(data.kind, OpKind::Dot { .. } | OpKind::DotScaled { .. }).then_some(())?;
    let [a, b] = factors(&data.kind).map(|index| func.ty(data.operands[index]));
    let c = func.ty(data.operands[data.operands.len() - 1]);
    match data.kind {
        OpKind::Dot { precision, .. } => Mma::of(a, b, c, precision),
        OpKind::DotScaled { .. } => Mma::of(a, b, c, InputPrecision::Ieee).map(|mma| Mma { scaled: true, ..mma }),
        _ => None,
    }
}

/// Where the operands of the product `op` must be for its part in `home`. Without tensor cores each thread makes its part alone: it has
/// every k in its registers, of the rows (columns) of its part.
pub(in crate::compile) fn product_operands(
    func: &Func,
    made: Option<&Product>,
    op: Op,
    home: &Layout,
) -> (Layout, Layout) {
    let data = func.op(op);
    let shape = |index: usize| func.ty(data.operands[index]).shape().expect("a product reads tiles");
    let (a, b) = (shape(0), shape(1));
    if let Some(Product { mma, engine: Engine::Warps(order) }) = made {
        return mma.operands(a, b, home, order);
    }
    // A batch axis in front belongs to both.
    let rank = a.rank();
    let (n_bits, k_bits) = (b.dims()[rank - 1].trailing_zeros(), b.dims()[rank - 2].trailing_zeros());
    let m_bits = a.dims()[rank - 2].trailing_zeros();
    let ks = |shift: u32| (0..k_bits).map(move |bit| 1_u32 << (bit + shift));
    let rows = |basis: u32| basis >> n_bits << k_bits;
    let cols = |basis: u32| basis & ((1 << n_bits) - 1) | basis >> (m_bits + n_bits) << (k_bits + n_bits);
    let some = |bases: &[u32], of: &dyn Fn(u32) -> u32| {
        bases.iter().map(|&basis| of(basis)).filter(|&basis| basis != 0).collect::<Vec<_>>()
    };
    let all = |bases: &[u32], of: &dyn Fn(u32) -> u32| bases.iter().map(|&basis| of(basis)).collect::<Vec<_>>();
    let make = |shape: Shape, shift: u32, of: &dyn Fn(u32) -> u32| Layout {
        shape,
        reg: ks(shift).chain(some(&home.reg, of)).collect(),
        lane: all(&home.lane, of),
        warp: all(&home.warp, of),
    };
    (make(a, 0, &rows), make(b, n_bits, &cols))
}

/// The bits of the product's index that the left operand depends on: all but the columns.
pub(in crate::compile) fn left_bits(home: &Layout) -> u32 {
    let columns = home.shape.dims()[home.shape.rank() - 1];
    !(columns - 1)
}

/// The bits of the product's index that the right operand depends on: the columns, and the batch.
pub(in crate::compile) fn right_bits(home: &Layout) -> u32 {
    let dims = home.shape.dims();
    let columns = dims[dims.len() - 1];
    let rows = dims[dims.len() - 2];
    !((rows - 1) * columns)
}
