//! Whether values are made before they are used.
//!
//! In a block that is a matter of order. A region sees what comes before its operation in the block that the operation is in, and
//! so on outwards. Between the blocks of a body it is a matter of the dominator tree, made by the algorithm of Cooper, Harvey
//! and Kennedy ("A simple, fast dominance algorithm", 2001). What is in a block that no way leads to is not checked, as in MLIR.

use super::{VerifyError, about};
use crate::tile::{Block, Def, Func, Op, Value};

/// The dominator tree of a body.
struct Dominators {
    /// Place in a reverse postorder, by block; `None` where no way leads to it.
    order: Vec<Option<usize>>,
    /// The immediate dominator's place, by place.
    parents: Vec<usize>,
}

impl Dominators {
    fn new(func: &Func) -> Self {
        let blocks = postorder(func);
        let mut order = vec![None; func.block_count()];
        for (place, block) in blocks.iter().rev().enumerate() {
            order[block.index()] = Some(place);
        }
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); blocks.len()];
        for (place, block) in blocks.iter().rev().enumerate() {
            for to in successors(func, *block) {
                before[order[to.index()].unwrap_or(0)].push(place);
            }
        }
        let mut parents: Vec<Option<usize>> = vec![None; blocks.len()];
        if let Some(first) = parents.first_mut() {
            *first = Some(0);
        }
        let mut changed = true;
        while changed {
            changed = false;
            for place in 1..parents.len() {
                let known = before[place].iter().copied().filter(|&other| parents[other].is_some());
                let parent = known.reduce(|a, b| meet(&parents, a, b));
                if parents[place] != parent {
                    parents[place] = parent;
                    changed = true;
                }
            }
        }
        Self { order, parents: parents.into_iter().map(Option::unwrap_or_default).collect() }
    }

    fn is_reachable(&self, block: Block) -> bool {
        self.order[block.index()].is_some()
    }

    /// Whether every way to `block` leads through `by`, another block.
    fn is_dominated(&self, block: Block, by: Block) -> bool {
        let (Some(mut at), Some(by)) = (self.order[block.index()], self.order[by.index()]) else { return false };
        while at > by {
            at = self.parents[at];
        }
        at == by
    }
}

/// The nearest common ancestor.
fn meet(parents: &[Option<usize>], mut a: usize, mut b: usize) -> usize {
    while a != b {
        let far = if a > b { &mut a } else { &mut b };
        // A place whose parent is known is below it; the first is its own.
        *far = parents[*far].unwrap_or(0);
    }
    a
}

fn successors(func: &Func, block: Block) -> impl Iterator<Item = Block> {
    func.block(block).ops.last().into_iter().flat_map(|&op| func.op(op).successors.iter().copied())
}

/// The blocks of the body that some way leads to, each after those that it leads to.
fn postorder(func: &Func) -> Vec<Block> {
    let mut seen = vec![false; func.block_count()];
    let mut blocks = Vec::new();
    seen[func.entry().index()] = true;
    let mut stack = vec![(func.entry(), successors(func, func.entry()).collect::<Vec<_>>())];
    while let Some((block, rest)) = stack.last_mut() {
        match rest.pop() {
            Some(to) if !std::mem::replace(&mut seen[to.index()], true) => {
                let rest = successors(func, to).collect();
                stack.push((to, rest));
            }
            Some(_) => {}
            None => {
                blocks.push(*block);
                stack.pop();
            }
        }
    }
    blocks
}

/// Checks the operands of `ops`, which are all of the function's.
pub(super) fn check(func: &Func, ops: &[Op]) -> Result<(), Vec<VerifyError>> {
    let dominators = Dominators::new(func);
    let mut places = vec![None; func.op_count()];
    for &op in ops {
        let block = func.op(op).block;
        if func.block(block).ops.first() == Some(&op) {
            for (place, op) in func.block(block).ops.iter().enumerate() {
                places[op.index()] = Some(place);
            }
        }
    }
    let mut errors = Vec::new();
    for &op in ops {
        for (index, &value) in func.op(op).operands.iter().enumerate() {
            if let Some(wrong) = visible(func, &dominators, &places, op, value) {
                let name = &func.value(value).name;
                let name = if name.is_empty() { String::new() } else { format!(" (`%{name}`)") };
                errors.push(about(func, op, format!("operand {index}{name} {wrong}")));
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Why `op` does not see `value`; `None` where it does.
fn visible(
    func: &Func,
    dominators: &Dominators,
    places: &[Option<usize>],
    op: Op,
    value: Value,
) -> Option<&'static str> {
    // Who makes it must still say so: an operation that lost a result, a block that lost an argument, makes nothing.
    let (by, index) = match func.value(value).def {
        Def::Arg(block, index) => (&func.block(block).args, index),
        Def::Result(op, index) => (&func.op(op).results, index),
    };
    if by.get(index as usize) != Some(&value) {
        return Some("is made by nothing: what made it has lost it");
    }
    // An argument comes before every operation of its block.
    let (home, made) = match func.value(value).def {
        Def::Arg(block, _) => (block, None),
        Def::Result(op, _) => match places[op.index()] {
            None => return Some("is made by an operation that is in no block"),
            place => (func.op(op).block, place),
        },
    };
    let mut at = op;
    let mut found = None;
    loop {
        let block = func.op(at).block;
        let region = func.block(block).region;
        if found.is_none() && block == home {
            found = Some(made.is_none() || made < places[at.index()]);
        } else if found.is_none() && region == func.block(home).region {
            found = Some(dominators.is_dominated(block, home));
        }
        match func.region(region).parent {
            Some(parent) => at = parent,
            None if !dominators.is_reachable(block) => return None,
            None => break,
        }
    }
    match found {
        Some(true) => None,
        Some(false) => Some("is used before it is made"),
        None => Some("is made in a region that this operation does not see into"),
    }
}
