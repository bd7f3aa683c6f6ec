//! What Triton combines: sums with products of matrices, offsets of offsets, and elementwise work that can be done before its
//! operands are repeated.
//!
//! A product of matrices onto zeros, added to another tile, is the product onto that tile: Triton does so, and the last sum is
//! then rounded together with the product's own. Nothing else here changes any bit.

use super::fold::constant;
use super::rewrite::{Fate, Rewriter, rewrite};
use crate::tile::{Binary, Elem, Func, Op, OpKind, Shape, Type, Value, int_value};

/// Combines what can be, in one walk. Whether anything changed.
pub(super) fn combine(func: &mut Func) -> bool {
    let uses = func.use_counts();
    rewrite(func, &mut |rewriter, op| {
        for rule in [offsets, before_splat, before_broadcast] {
            match rule(rewriter, op) {
                Fate::Kept => {}
                fate => return fate,
            }
        }
        products(rewriter, op, &uses)
    })
}

/// a·b onto zeros, plus c: a·b onto c. The product must have no other use, and be in the same block.
fn products(rewriter: &mut Rewriter<'_>, op: Op, uses: &[u32]) -> Fate {
    let func = &rewriter.func;
    let data = func.op(op);
    let (OpKind::Binary(Binary::AddF | Binary::AddI), &[a, b]) = (&data.kind, &data.operands[..]) else {
        return Fate::Kept;
    };
    let ty = func.ty(data.results[0]);
    // Of two products the second is made onto the first, as Triton does.
    for (product, other) in [(b, a), (a, b)] {
        let Some(dot) = func.def_op(product) else { continue };
        let dot = func.op(dot);
        let OpKind::Dot { max_imprecise: 0, .. } = dot.kind else { continue };
        let onto_zeros = func.constant(dot.operands[2]) == Some(0);
        if onto_zeros && dot.block == data.block && uses.get(product.index()) == Some(&1) {
            let (kind, operands) = (dot.kind.clone(), [dot.operands[0], dot.operands[1], other]);
            return rewriter.replaced_by(kind, &operands, ty);
        }
    }
    Fate::Kept
}

/// (pointer + c₀) + c₁ is pointer + (c₀ + c₁), where that does not wrap: offsets are extended with their sign.
fn offsets(rewriter: &mut Rewriter<'_>, op: Op) -> Fate {
    let func = &rewriter.func;
    let data = func.op(op);
    let (OpKind::AddPtr, &[pointer, outer]) = (&data.kind, &data.operands[..]) else { return Fate::Kept };
    let ty = func.ty(data.results[0]);
    let Some(inner) = func.def_op(pointer).map(|op| func.op(op)) else { return Fate::Kept };
    let (OpKind::AddPtr, &[base, first]) = (&inner.kind, &inner.operands[..]) else { return Fate::Kept };
    let offset = func.ty(outer);
    let (Some(scalar), Some(c0), Some(c1)) = (offset.number(), func.constant(first), func.constant(outer)) else {
        return Fate::Kept;
    };
    let sum = i128::from(int_value(scalar, c0)) + i128::from(int_value(scalar, c1));
    let limit = 1_i128 << (scalar.bits() - 1);
    if func.ty(first) != offset || !(-limit..limit).contains(&sum) {
        return Fate::Kept;
    }
    let sum = constant(rewriter, crate::tile::int_bits(scalar, sum as i64), offset);
    rewriter.replaced_by(OpKind::AddPtr, &[base, sum], ty)
}

/// Where the value of a tile's elements comes from, as far as it can be computed in a smaller shape.
enum Source {
    /// All elements are this scalar.
    Splat(Value),
    /// All elements are this constant.
    Constant(u64),
    /// It repeats this tile.
    Broadcast(Value),
}

fn source(func: &Func, value: Value) -> Option<Source> {
    let data = func.op(func.def_op(value)?);
    match data.kind {
        OpKind::Constant(bits) => Some(Source::Constant(bits)),
        OpKind::Splat => Some(Source::Splat(data.operands[0])),
        OpKind::Broadcast => Some(Source::Broadcast(data.operands[0])),
        _ => None,
    }
}

/// The sources of all operands of an elementwise operation on tiles of one shape, with its result's type.
fn sources(func: &Func, op: Op) -> Option<(Vec<Source>, Type)> {
    let data = func.op(op);
    let [result] = data.results[..] else { return None };
    let ty = func.ty(result);
    let shape = ty.shape()?;
    if !data.kind.is_elementwise() || !data.kind.is_pure() || data.operands.is_empty() {
        return None;
    }
    let same = data.operands.iter().all(|&operand| func.ty(operand).shape() == Some(shape));
    let sources = data.operands.iter().map(|&operand| source(func, operand)).collect::<Option<Vec<_>>>()?;
    same.then_some((sources, ty))
}

/// An operation on tiles of one value each is done on the values, and its result repeated.
fn before_splat(rewriter: &mut Rewriter<'_>, op: Op) -> Fate {
    let Some((sources, ty)) = sources(rewriter.func, op) else { return Fate::Kept };
    let has_splat = sources.iter().any(|source| matches!(source, Source::Splat(_)));
    if !has_splat || sources.iter().any(|source| matches!(source, Source::Broadcast(_))) {
        return Fate::Kept;
    }
    narrowed(rewriter, op, &sources, None, OpKind::Splat, ty)
}

/// An operation on tiles that repeat smaller tiles of one shape is done on those, and its result repeated.
fn before_broadcast(rewriter: &mut Rewriter<'_>, op: Op) -> Fate {
    let Some((sources, ty)) = sources(rewriter.func, op) else { return Fate::Kept };
    let mut shape: Option<Shape> = None;
    for source in &sources {
        let Source::Broadcast(narrow) = source else { continue };
        let narrow = rewriter.func.ty(*narrow).shape();
        if shape.is_some() && shape != narrow {
            return Fate::Kept;
        }
        shape = narrow;
    }
    match shape {
        Some(shape) => narrowed(rewriter, op, &sources, Some(shape), OpKind::Broadcast, ty),
        None => Fate::Kept,
    }
}

/// The operation in another shape, then `repeat` to the type that it had.
fn narrowed(
    rewriter: &mut Rewriter<'_>,
    op: Op,
    sources: &[Source],
    shape: Option<Shape>,
    repeat: OpKind,
    ty: Type,
) -> Fate {
    let data = rewriter.func.op(op);
    let kind = data.kind.clone();
    let elems: Vec<Option<Elem>> = data.operands.iter().map(|&operand| rewriter.func.ty(operand).elem()).collect();
    let mut operands = Vec::with_capacity(sources.len());
    for (source, elem) in sources.iter().zip(elems) {
        let Some(elem) = elem else { return Fate::Kept };
        let narrow = Type::of(shape, elem);
        operands.push(match *source {
            Source::Constant(bits) => constant(rewriter, bits, narrow),
            Source::Splat(value) if shape.is_some() => rewriter.make(OpKind::Splat, &[value], narrow),
            Source::Splat(value) | Source::Broadcast(value) => value,
        });
    }
    let Some(elem) = ty.elem() else { return Fate::Kept };
    let result = rewriter.make(kind, &operands, Type::of(shape, elem));
    rewriter.replaced_by(repeat, &[result], ty)
}
