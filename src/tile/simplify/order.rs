//! One order for the operations that may stand anywhere: two functions that do the same, written in another order, become the
//! same text. It is a form to compare in, not to compile: what uses a load may come far behind it, which costs registers.

use std::collections::HashSet;

use crate::tile::{Block, Func, Op, Region, Value};

/// Puts every pure operation right before the first that needs it, operands in their order. What has an effect, and loads,
/// keep their order; what nothing needs goes.
pub fn order(func: &mut Func) {
    region(func, func.body());
}

fn region(func: &mut Func, region_at: Region) {
    let blocks = func.region(region_at).blocks.clone();
    // From the last: what a block makes for later ones is made in the order in which they ask for it.
    for (index, &block) in blocks.iter().enumerate().rev() {
        let ops = func.block(block).ops.clone();
        for inner in ops.iter().flat_map(|&op| func.op(op).regions.clone()).collect::<Vec<_>>() {
            region(func, inner);
        }
        let mut order = Order { func, block, placed: Vec::with_capacity(ops.len()), seen: HashSet::new() };
        for op in ops {
            let kind = &order.func.op(op).kind;
            if kind.is_terminator() {
                for later in &blocks[index + 1..] {
                    for &op in &order.func.block(*later).ops {
                        order.operands(op);
                    }
                }
            }
            if kind.is_terminator() || !kind.is_pure() {
                order.place(op);
            }
        }
        let placed = order.placed;
        *func.block_ops_mut(block) = placed;
    }
}

struct Order<'f> {
    func: &'f Func,
    block: Block,
    placed: Vec<Op>,
    seen: HashSet<Op>,
}

impl Order<'_> {
    fn place(&mut self, op: Op) {
        if self.seen.insert(op) {
            self.operands(op);
            self.placed.push(op);
        }
    }

    /// What `op`, or an operation inside it, reads and this block makes.
    fn operands(&mut self, op: Op) {
        let func = self.func;
        for &value in &func.op(op).operands {
            self.value(value);
        }
        for &region in &func.op(op).regions {
            func.walk_region(region, &mut |inner| {
                for &value in &func.op(inner).operands {
                    self.value(value);
                }
            });
        }
    }

    fn value(&mut self, value: Value) {
        if let Some(op) = self.func.def_op(value)
            && self.func.op(op).block == self.block
        {
            self.place(op);
        }
    }
}
