//! Control flow that is settled: branches on constants, loops of no turn or one, values that a loop hands on unchanged.

use std::collections::HashSet;

use crate::tile::{Block, Func, Op, OpKind, Region, Value, int_value};

/// Simplifies control flow. Whether anything changed.
pub(super) fn simplify(func: &mut Func) -> bool {
    let body = func.body();
    let mut changed = branches(func, body);
    changed |= unreachable(func, body);
    changed |= merge(func, body);
    for op in func.all_ops() {
        changed |= match func.op(op).kind {
            OpKind::For => loop_of_few_turns(func, op) || unchanged_values(func, op),
            OpKind::If => settled_if(func, op) || equal_results(func, op),
            _ => false,
        };
    }
    changed
}

/// Branches on a constant go one way.
fn branches(func: &mut Func, body: Region) -> bool {
    let mut changed = false;
    for block in func.region(body).blocks.clone() {
        let Some(&last) = func.block(block).ops.last() else { continue };
        let data = func.op(last);
        let OpKind::CondBranch { then_args } = data.kind else { continue };
        let Some(bits) = func.constant(data.operands[0]) else { continue };
        let split = 1 + then_args as usize;
        let (taken, args) = if bits != 0 {
            (data.successors[0], data.operands[1..split].to_vec())
        } else {
            (data.successors[1], data.operands[split..].to_vec())
        };
        let data = func.op_mut(last);
        data.kind = OpKind::Branch;
        data.operands = args;
        data.successors = vec![taken];
        changed = true;
    }
    changed
}

fn successors(func: &Func, block: Block) -> Vec<Block> {
    func.block(block).ops.last().map(|&last| func.op(last).successors.clone()).unwrap_or_default()
}

/// Blocks that nothing goes to are taken out.
fn unreachable(func: &mut Func, body: Region) -> bool {
    let mut reached = HashSet::from([func.entry()]);
    let mut open = vec![func.entry()];
    while let Some(block) = open.pop() {
        open.extend(successors(func, block).into_iter().filter(|&next| reached.insert(next)));
    }
    let before = func.region(body).blocks.len();
    func.region_blocks_mut(body).retain(|block| reached.contains(block));
    func.region(body).blocks.len() != before
}

/// A block that only one other goes to, and always, is appended to it.
fn merge(func: &mut Func, body: Region) -> bool {
    let mut changed = false;
    let mut index = 0;
    while let Some(&block) = func.region(body).blocks.get(index) {
        index += 1;
        let Some(&last) = func.block(block).ops.last() else { continue };
        if func.op(last).kind != OpKind::Branch {
            continue;
        }
        let next = func.op(last).successors[0];
        let comers = func.region(body).blocks.iter().flat_map(|&from| successors(func, from));
        if next == func.entry() || next == block || comers.filter(|&to| to == next).count() != 1 {
            continue;
        }
        let values = func.op(last).operands.clone();
        for (arg, value) in func.block(next).args.clone().into_iter().zip(values) {
            func.replace_uses(arg, value);
        }
        func.block_ops_mut(block).pop();
        let moved = std::mem::take(func.block_ops_mut(next));
        for &op in &moved {
            func.op_mut(op).block = block;
        }
        func.block_ops_mut(block).extend(moved);
        func.region_blocks_mut(body).retain(|&other| other != next);
        (changed, index) = (true, 0);
    }
    changed
}

/// The one block of a region of an operation, and what it yields.
pub(super) fn single_block(func: &Func, region: Region) -> Option<(Block, Vec<Value>)> {
    let [block] = func.region(region).blocks[..] else { return None };
    let last = *func.block(block).ops.last()?;
    Some((block, func.op(last).operands.clone()))
}

/// Puts the operations of `region`, which has no arguments in use, in the place of `op`, whose results become what it yields.
fn inline(func: &mut Func, op: Op, region: Option<Region>) {
    let parent = func.op(op).block;
    let Some(at) = func.block(parent).ops.iter().position(|&other| other == op) else { return };
    let mut moved = Vec::new();
    if let Some((block, yielded)) = region.and_then(|region| single_block(func, region)) {
        moved = std::mem::take(func.block_ops_mut(block));
        moved.pop();
        for &inner in &moved {
            func.op_mut(inner).block = parent;
        }
        for (result, value) in func.op(op).results.clone().into_iter().zip(yielded) {
            func.replace_uses(result, value);
        }
    }
    func.block_ops_mut(parent).splice(at..=at, moved);
}

/// A loop that is known to take no turn, or one, is no loop.
fn loop_of_few_turns(func: &mut Func, op: Op) -> bool {
    let operands = func.op(op).operands.clone();
    let scalar = func.ty(operands[0]).number();
    let bound = |value| Some(i128::from(int_value(scalar?, func.constant(value)?)));
    let (Some(low), Some(high)) = (bound(operands[0]), bound(operands[1])) else { return false };
    let step = bound(operands[2]);
    if low >= high {
        for (result, init) in func.op(op).results.clone().into_iter().zip(&operands[3..]) {
            func.replace_uses(result, *init);
        }
        inline(func, op, None);
        return true;
    }
    if !step.is_some_and(|step| step > 0 && low + step >= high) {
        return false;
    }
    let region = func.op(op).regions[0];
    let Some((block, _)) = single_block(func, region) else { return false };
    let values: Vec<Value> = std::iter::once(operands[0]).chain(operands[3..].iter().copied()).collect();
    for (arg, value) in func.block(block).args.clone().into_iter().zip(values) {
        func.replace_uses(arg, value);
    }
    inline(func, op, Some(region));
    true
}

/// A carried value that every turn hands on as it got it, or sets to what it started as, is the initial value.
fn unchanged_values(func: &mut Func, op: Op) -> bool {
    let Some((block, yielded)) = single_block(func, func.op(op).regions[0]) else { return false };
    let uses = func.use_counts();
    let mut changed = false;
    for (index, &next) in yielded.iter().enumerate() {
        let (init, arg, result) =
            (func.op(op).operands[index + 3], func.block(block).args[index + 1], func.op(op).results[index]);
        // The use that is left is the yield's own.
        let own = u32::from(next == arg);
        if (next == arg || next == init) && (uses[arg.index()] > own || uses[result.index()] > 0) {
            func.replace_uses(arg, init);
            func.replace_uses(result, init);
            // The slot goes on, for the removal of unused values to find: it must yield something that it carries.
            let last = func.block(block).ops[func.block(block).ops.len() - 1];
            func.op_mut(last).operands[index] = arg;
            changed = true;
        }
    }
    changed
}

/// A decision on a constant is made.
fn settled_if(func: &mut Func, op: Op) -> bool {
    let Some(bits) = func.constant(func.op(op).operands[0]) else { return false };
    let region = func.op(op).regions.get(usize::from(bits == 0)).copied();
    inline(func, op, region);
    true
}

/// A result that is the same value either way is that value.
fn equal_results(func: &mut Func, op: Op) -> bool {
    let [then, otherwise] = func.op(op).regions[..] else { return false };
    let (Some((_, yes)), Some((_, no))) = (single_block(func, then), single_block(func, otherwise)) else {
        return false;
    };
    let uses = func.use_counts();
    let mut changed = false;
    for (index, result) in func.op(op).results.clone().into_iter().enumerate() {
        if yes[index] == no[index] && uses[result.index()] > 0 {
            func.replace_uses(result, yes[index]);
            changed = true;
        }
    }
    changed
}
