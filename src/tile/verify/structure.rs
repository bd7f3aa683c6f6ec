//! Whether the arenas hang together. Nothing is taken on trust here: an index may be of another function.

use super::{VerifyError, about, about_func};
use crate::tile::{Block, Def, Func, Op, OpKind, Region, Value};

/// What is looked at next.
enum Item {
    Region(Region, Option<Op>),
    Block(Block, Region),
    Op(Op, Block),
}

/// The operations in the order of the text.
pub(super) fn check(func: &Func) -> Result<Vec<Op>, Vec<VerifyError>> {
    let mut walk = Walk {
        func,
        regions: vec![false; func.region_count()],
        blocks: vec![false; func.block_count()],
        seen: vec![false; func.op_count()],
        ops: Vec::new(),
        errors: Vec::new(),
    };
    let mut stack = vec![Item::Region(func.body(), None)];
    while let Some(item) = stack.pop() {
        let mut inner = match item {
            Item::Region(region, parent) => walk.region(region, parent),
            Item::Block(block, region) => walk.block(block, region),
            Item::Op(op, block) => walk.op(op, block),
        };
        inner.reverse();
        stack.append(&mut inner);
    }
    if walk.errors.is_empty() {
        params(func, &mut walk.errors);
    }
    if walk.errors.is_empty() { Ok(walk.ops) } else { Err(walk.errors) }
}

fn params(func: &Func, errors: &mut Vec<VerifyError>) {
    let args = &func.block(func.entry()).args;
    if args.len() != func.params.len() {
        let message = format!("{} parameters, and the entry block has {} arguments", func.params.len(), args.len());
        errors.push(about_func(func, message));
        return;
    }
    for (param, &arg) in func.params.iter().zip(args) {
        let ty = func.ty(arg);
        if param.ty != ty {
            let message = format!("the parameter `{}` is {}, and its value is {ty}", param.name, param.ty);
            errors.push(about_func(func, message));
        }
    }
}

struct Walk<'a> {
    func: &'a Func,
    regions: Vec<bool>,
    blocks: Vec<bool>,
    seen: Vec<bool>,
    ops: Vec<Op>,
    errors: Vec<VerifyError>,
}

/// Marks `index`: whether it is in the arena and was not marked.
fn mark(table: &mut [bool], index: usize) -> bool {
    table.get_mut(index).is_some_and(|seen| !std::mem::replace(seen, true))
}

impl Walk<'_> {
    fn fail(&mut self, op: Option<Op>, message: impl Into<String>) {
        self.errors.push(match op {
            Some(op) => about(self.func, op, message.into()),
            None => about_func(self.func, message.into()),
        });
    }

    fn region(&mut self, region: Region, parent: Option<Op>) -> Vec<Item> {
        if !mark(&mut self.regions, region.index()) {
            self.fail(parent, "a region that is in two places, or of another function");
            return Vec::new();
        }
        let data = self.func.region(region);
        if data.parent != parent {
            self.fail(parent, "a region that belongs to another operation");
        }
        if parent.is_some() && data.blocks.len() > 1 {
            self.fail(parent, format!("a region of {} blocks: only a function's body has several", data.blocks.len()));
        }
        if parent.is_none() && data.blocks.is_empty() {
            self.fail(None, "the body has no block");
        }
        data.blocks.iter().map(|&block| Item::Block(block, region)).collect()
    }

    fn block(&mut self, block: Block, region: Region) -> Vec<Item> {
        let parent = self.func.region(region).parent;
        if !mark(&mut self.blocks, block.index()) {
            self.fail(parent, "a block that is in two places, or of another function");
            return Vec::new();
        }
        let data = self.func.block(block);
        if data.region != region {
            self.fail(parent, "a block that belongs to another region");
        }
        for (index, &arg) in data.args.iter().enumerate() {
            if !self.made(arg, Def::Arg(block, index as u32)) {
                self.fail(parent, format!("argument {index} of a block is not a value of its own"));
            }
        }
        let terminates = |op: &Op| op.index() < self.seen.len() && self.func.op(*op).kind.is_terminator();
        match data.ops.iter().position(terminates) {
            None => {
                let last = data.ops.last().copied().filter(|op| op.index() < self.seen.len());
                let what = if parent.is_some() { "a region's block" } else { "a block of the function" };
                self.fail(parent.or(last), format!("{what} does not end in a terminator"));
            }
            Some(at) if at + 1 < data.ops.len() => {
                self.fail(Some(data.ops[at]), "ends a block, and operations follow it");
            }
            Some(_) => {}
        }
        data.ops.iter().map(|&op| Item::Op(op, block)).collect()
    }

    fn op(&mut self, op: Op, block: Block) -> Vec<Item> {
        let func = self.func;
        if !mark(&mut self.seen, op.index()) {
            self.fail(
                func.region(func.block(block).region).parent,
                "an operation in two places, or of another function",
            );
            return Vec::new();
        }
        self.ops.push(op);
        let data = func.op(op);
        if data.block != block {
            self.fail(Some(op), "is in another block than it says");
        }
        if let Some(index) = data.operands.iter().position(|value| value.index() >= func.value_count()) {
            self.fail(Some(op), format!("operand {index} is a value of another function"));
        }
        for (index, &value) in data.results.iter().enumerate() {
            if !self.made(value, Def::Result(op, index as u32)) {
                self.fail(Some(op), format!("result {index} is not a value of its own"));
            }
        }
        self.successors(op, block);
        data.regions.iter().map(|&region| Item::Region(region, Some(op))).collect()
    }

    fn successors(&mut self, op: Op, block: Block) {
        let func = self.func;
        let data = func.op(op);
        let count = match data.kind {
            OpKind::Branch => 1,
            OpKind::CondBranch { .. } => 2,
            _ => 0,
        };
        if data.successors.len() != count {
            self.fail(Some(op), format!("goes to {} blocks, and should to {count}", data.successors.len()));
        }
        let region = func.block(block).region;
        for &to in &data.successors {
            if to.index() >= func.block_count() || func.block(to).region != region {
                self.fail(Some(op), "goes to a block of another region");
            } else if func.region(region).blocks.first() == Some(&to) {
                self.fail(Some(op), "goes to the entry block, which nothing may");
            }
        }
    }

    fn made(&self, value: Value, def: Def) -> bool {
        value.index() < self.func.value_count() && self.func.value(value).def == def
    }
}
