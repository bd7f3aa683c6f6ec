//! Folding: constants, identities, shapes. Each rule looks at one operation and at what makes its operands.

use super::rewrite::{Fate, Rewriter, rewrite};
use super::{algebra, evaluate, shapes};
use crate::tile::{Func, Op, OpKind, Type, Value};

/// Folds what can be folded, in one walk. Whether anything changed.
pub(super) fn fold(func: &mut Func) -> bool {
    rewrite(func, &mut |rewriter, op| {
        for rule in [of_constants, algebra::simplify, shapes::simplify, masks] {
            match rule(rewriter, op) {
                Fate::Kept => {}
                fate => return fate,
            }
        }
        Fate::Kept
    })
}

/// An elementwise operation on constants, and a constant in another shape, are constants.
fn of_constants(rewriter: &mut Rewriter<'_>, op: Op) -> Fate {
    let func = &rewriter.func;
    let data = func.op(op);
    let [result] = data.results[..] else { return Fate::Kept };
    let ty = func.ty(result);
    let Some(to) = ty.number() else { return Fate::Kept };
    let Some(operands) = data.operands.iter().map(|&value| func.constant(value)).collect::<Option<Vec<u64>>>() else {
        return Fate::Kept;
    };
    let bits = match data.kind {
        OpKind::Splat
        | OpKind::Unsplat
        | OpKind::Broadcast
        | OpKind::ExpandDims { .. }
        | OpKind::Reshape { .. }
        | OpKind::Trans { .. } => Some(operands[0]),
        OpKind::Constant(_) => None,
        _ if data.kind.is_elementwise() => data
            .operands
            .last()
            .and_then(|&value| func.ty(value).number())
            .and_then(|from| evaluate::evaluate(&data.kind, from, to, &operands)),
        _ => None,
    };
    match bits {
        Some(bits) => rewriter.replaced_by(OpKind::Constant(bits), &[], ty),
        None => Fate::Kept,
    }
}

/// Loads and stores under a constant mask.
fn masks(rewriter: &mut Rewriter<'_>, op: Op) -> Fate {
    let func = &mut *rewriter.func;
    let data = func.op(op);
    let at = match data.kind {
        OpKind::Load { .. } => 1,
        OpKind::Store { .. } => 2,
        _ => return Fate::Kept,
    };
    let Some(mask) = data.operands.get(at).and_then(|&mask| func.constant(mask)) else { return Fate::Kept };
    if mask != 0 {
        func.op_mut(op).operands.truncate(at);
        return Fate::Changed;
    }
    match (&data.kind, data.operands.get(2)) {
        (OpKind::Store { .. }, _) => Fate::Replaced(Vec::new()),
        // Nothing is read; without `other` any value will do.
        (OpKind::Load { cache, .. }, Some(&other)) if !cache.volatile => Fate::Replaced(vec![other]),
        _ => Fate::Kept,
    }
}

/// The constant of `bits` in the type of `like`.
pub(super) fn constant(rewriter: &mut Rewriter<'_>, bits: u64, ty: Type) -> Value {
    rewriter.make(OpKind::Constant(bits), &[], ty)
}
