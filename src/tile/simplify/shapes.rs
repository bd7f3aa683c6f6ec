//! Shapes of shapes: what repeats a repetition, permutes a permutation, or does nothing.

use super::rewrite::{Fate, Rewriter};
use crate::tile::{Op, OpKind, Type};

/// Rules for one operation that changes a tile's shape.
pub(super) fn simplify(rewriter: &mut Rewriter<'_>, op: Op) -> Fate {
    let func = &rewriter.func;
    let data = func.op(op);
    let ([result], [a]) = (&data.results[..], &data.operands[..]) else { return Fate::Kept };
    let (ty, a, kind) = (func.ty(*result), *a, data.kind.clone());
    let inner = func.def_op(a).map(|inner| (func.op(inner).kind.clone(), func.op(inner).operands.clone()));
    let same = func.ty(a) == ty;
    match (kind, inner) {
        (OpKind::Broadcast | OpKind::Reshape { allow_reorder: false, .. }, _) if same => Fate::Replaced(vec![a]),
        (OpKind::Trans { order }, _) if order.iter().enumerate().all(|(axis, &from)| axis as u32 == from) => {
            Fate::Replaced(vec![a])
        }
        // One value in every place is one value in every place.
        (
            OpKind::Broadcast | OpKind::ExpandDims { .. } | OpKind::Reshape { .. } | OpKind::Trans { .. },
            Some((OpKind::Splat, operands)),
        ) => rewriter.replaced_by(OpKind::Splat, &operands, ty),
        (OpKind::Unsplat, Some((OpKind::Splat, operands))) => Fate::Replaced(operands),
        (OpKind::Broadcast, Some((OpKind::Broadcast, operands))) => {
            rewriter.replaced_by(OpKind::Broadcast, &operands, ty)
        }
        // The axis is put in before the repetition.
        (kind @ OpKind::ExpandDims { axis }, Some((OpKind::Broadcast, operands))) => {
            let narrow = func.ty(operands[0]);
            let (Some(shape), Some(elem)) = (narrow.shape(), narrow.elem()) else { return Fate::Kept };
            let Some(expanded) = shape.inserted(axis as usize, 1) else { return Fate::Kept };
            let expanded = rewriter.make(kind, &operands, Type::Tile(expanded, elem));
            rewriter.replaced_by(OpKind::Broadcast, &[expanded], ty)
        }
        (
            OpKind::Reshape { allow_reorder, efficient_layout },
            Some((OpKind::Reshape { allow_reorder: inner, .. }, operands)),
        ) => {
            let kind = OpKind::Reshape { allow_reorder: allow_reorder || inner, efficient_layout };
            rewriter.replaced_by(kind, &operands, ty)
        }
        (OpKind::Trans { order: outer }, Some((OpKind::Trans { order: inner }, operands))) => {
            let order = outer.iter().map(|&axis| inner[axis as usize]).collect();
            rewriter.replaced_by(OpKind::Trans { order }, &operands, ty)
        }
        _ => Fate::Kept,
    }
}
