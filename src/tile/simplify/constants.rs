//! Constants to the start of the function, each once.

use std::collections::HashMap;

use crate::tile::{Func, OpKind};

/// Moves every constant to the start of the entry block, in the order of the text, and keeps one of a kind. Whether anything
/// changed.
pub(super) fn gather(func: &mut Func) -> bool {
    let entry = func.entry();
    let constants: Vec<_> =
        func.all_ops().into_iter().filter(|&op| matches!(func.op(op).kind, OpKind::Constant(_))).collect();
    let in_place = func.block(entry).ops.get(..constants.len()).is_some_and(|first| first == constants);
    let mut first = HashMap::new();
    let mut kept = Vec::with_capacity(constants.len());
    let mut instead = HashMap::new();
    for &op in &constants {
        let value = func.result(op);
        match first.entry((func.op(op).kind.clone(), func.ty(value))) {
            std::collections::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(value);
                kept.push(op);
            }
            std::collections::hash_map::Entry::Occupied(occupied) => {
                instead.insert(value, *occupied.get());
            }
        }
    }
    if in_place && instead.is_empty() {
        return false;
    }
    for &op in &constants {
        let block = func.op(op).block;
        func.op_mut(op).block = entry;
        if block != entry {
            func.block_ops_mut(block).retain(|&other| other != op);
        }
    }
    let gone: std::collections::HashSet<_> = constants.iter().copied().collect();
    let ops = func.block_ops_mut(entry);
    ops.retain(|op| !gone.contains(op));
    ops.splice(0..0, kept);
    for op in func.all_ops() {
        for operand in &mut func.op_mut(op).operands {
            if let Some(&value) = instead.get(operand) {
                *operand = value;
            }
        }
    }
    true
}
