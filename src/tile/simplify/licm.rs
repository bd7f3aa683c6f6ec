//! Loop-invariant code: pure operations on values from before a loop go before it.

use std::collections::HashSet;

use crate::tile::{Binary, Func, Op, OpKind, Region, Scalar, Value, int_value};

/// Hoists out of every `scf.for`, inner loops first, so that what leaves one may leave the next.
pub(super) fn hoist(func: &mut Func) -> bool {
    let loops: Vec<Op> = func.all_ops().into_iter().filter(|&op| func.op(op).kind == OpKind::For).collect();
    let mut changed = false;
    for op in loops.into_iter().rev() {
        changed |= hoist_from(func, op);
    }
    changed
}

fn hoist_from(func: &mut Func, op: Op) -> bool {
    let region = func.op(op).regions[0];
    let [body] = func.region(region).blocks[..] else { return false };
    let mut inside = HashSet::new();
    collect(func, region, &mut inside);
    let mut moved = Vec::new();
    for inner in func.block(body).ops.clone() {
        if is_hoistable(func, inner) && reads(func, inner).iter().all(|value| !inside.contains(value)) {
            func.op(inner).results.iter().for_each(|result| {
                inside.remove(result);
            });
            moved.push(inner);
        }
    }
    let parent = func.op(op).block;
    for &inner in &moved {
        let at = func.block(parent).ops.iter().position(|&other| other == op).unwrap_or(0);
        func.move_op(inner, parent, at);
    }
    !moved.is_empty()
}

/// Every value that is made in a region.
fn collect(func: &Func, region: Region, inside: &mut HashSet<Value>) {
    for &block in &func.region(region).blocks {
        inside.extend(&func.block(block).args);
        for &op in &func.block(block).ops {
            inside.extend(&func.op(op).results);
            func.op(op).regions.iter().for_each(|&inner| collect(func, inner, inside));
        }
    }
}

/// What an operation reads, its regions' own values apart.
fn reads(func: &Func, op: Op) -> Vec<Value> {
    let mut values = func.op(op).operands.clone();
    let mut own = HashSet::new();
    for &region in &func.op(op).regions {
        collect(func, region, &mut own);
        func.walk_region(region, &mut |inner| values.extend(&func.op(inner).operands));
    }
    values.retain(|value| !own.contains(value));
    values
}

/// Whether it may be done where the loop takes no turn: not a division by what may be zero, whose result is not defined.
fn is_hoistable(func: &Func, op: Op) -> bool {
    let data = func.op(op);
    if !data.kind.is_pure() {
        return false;
    }
    match data.kind {
        OpKind::Binary(
            Binary::DivSI
            | Binary::DivUI
            | Binary::CeilDivSI
            | Binary::CeilDivUI
            | Binary::FloorDivSI
            | Binary::RemSI
            | Binary::RemUI,
        ) => {
            let divisor = data.operands[1];
            let scalar = func.ty(divisor).number().unwrap_or(Scalar::I32);
            func.constant(divisor).is_some_and(|bits| !matches!(int_value(scalar, bits), 0 | -1))
        }
        _ => true,
    }
}
