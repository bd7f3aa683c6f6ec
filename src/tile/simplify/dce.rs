//! What nobody needs: operations, and values that loops and decisions carry for nothing.
//!
//! Found from the other end: memory operations and returns are needed; what they read is; a loop's result needs the value
//! carried in its place, and nothing else that the loop carries. Loads need not happen where nothing uses them, unless they are
//! volatile.

use crate::tile::{Block, Def, Func, Op, OpKind, Value};

/// Takes out what is not needed. Whether anything was.
pub(super) fn eliminate(func: &mut Func) -> bool {
    let mut live = Live { func, values: Vec::new(), ops: Vec::new(), open: Vec::new() };
    live.values.resize(live.func.value_count(), false);
    live.ops.resize(live.func.op_count(), false);
    for op in live.func.all_ops() {
        if has_effect(&live.func.op(op).kind) {
            live.need_op(op);
        }
    }
    while let Some(value) = live.open.pop() {
        live.trace(value);
    }
    let Live { values, ops, .. } = live;
    sweep(func, &values, &ops)
}

/// Whether it must stay even where nothing uses its results.
fn has_effect(kind: &OpKind) -> bool {
    match kind {
        OpKind::Load { cache, .. } | OpKind::DescriptorLoad { cache } => cache.volatile,
        // They are as needed as what is in them. Whether a `while` ends is not known: it stays.
        OpKind::For | OpKind::If | OpKind::Yield => false,
        // The body of a `while` stays with it.
        OpKind::Condition => false,
        kind => !kind.is_pure(),
    }
}

struct Live<'f> {
    func: &'f Func,
    values: Vec<bool>,
    ops: Vec<bool>,
    open: Vec<Value>,
}

impl Live<'_> {
    fn need(&mut self, value: Value) {
        if !std::mem::replace(&mut self.values[value.index()], true) {
            self.open.push(value);
        }
    }

    /// The operation stays, and those around it; what it reads is needed.
    fn need_op(&mut self, op: Op) {
        if std::mem::replace(&mut self.ops[op.index()], true) {
            return;
        }
        let func = self.func;
        let data = func.op(op);
        let read = match data.kind {
            OpKind::For => 3,
            // What a yield hands on is needed where its place is.
            OpKind::Yield => 0,
            _ => data.operands.len(),
        };
        for &operand in &data.operands[..read] {
            self.need(operand);
        }
        if !matches!(data.kind, OpKind::For | OpKind::If) {
            // Every value that a region of this operation ends with.
            for &block in data.regions.iter().flat_map(|&region| &func.region(region).blocks) {
                for &inner in &func.block(block).ops {
                    if matches!(func.op(inner).kind, OpKind::Yield | OpKind::Condition) {
                        func.op(inner).operands.iter().for_each(|&operand| self.need(operand));
                    }
                }
            }
        }
        if let Some(parent) = func.parent_op(data.block) {
            self.need_op(parent);
        }
    }

    fn trace(&mut self, value: Value) {
        let func = self.func;
        match func.value(value).def {
            Def::Result(op, index) => {
                self.need_op(op);
                match func.op(op).kind {
                    OpKind::For => self.need_carried(op, index as usize),
                    OpKind::If => {
                        for &block in func.op(op).regions.iter().flat_map(|&region| &func.region(region).blocks) {
                            self.need_yielded(block, index as usize);
                        }
                    }
                    _ => {}
                }
            }
            Def::Arg(block, index) => {
                let Some(parent) = func.parent_op(block) else { return };
                self.need_op(parent);
                if func.op(parent).kind == OpKind::For && index > 0 {
                    self.need_carried(parent, index as usize - 1);
                }
            }
        }
    }

    /// The value that a loop carries at `index`: where it starts, what each turn makes of it.
    fn need_carried(&mut self, op: Op, index: usize) {
        let func = self.func;
        self.need(func.op(op).operands[index + 3]);
        for &block in &func.region(func.op(op).regions[0]).blocks {
            self.need(func.block(block).args[index + 1]);
            self.need_yielded(block, index);
        }
    }

    fn need_yielded(&mut self, block: Block, index: usize) {
        let func = self.func;
        if let Some(&last) = func.block(block).ops.last() {
            self.need(func.op(last).operands[index]);
        }
    }
}

/// Takes out the operations that are not in `ops`, and what loops and decisions carry that is not in `values`.
fn sweep(func: &mut Func, values: &[bool], ops: &[bool]) -> bool {
    let mut changed = false;
    for op in func.all_ops() {
        if !matches!(func.op(op).kind, OpKind::For | OpKind::If) || !ops[op.index()] {
            continue;
        }
        let is_for = func.op(op).kind == OpKind::For;
        let keep: Vec<bool> = (0..func.op(op).results.len())
            .map(|index| {
                let result = func.op(op).results[index];
                let arg = is_for.then(|| func.block(func.region(func.op(op).regions[0]).blocks[0]).args[index + 1]);
                values[result.index()] || arg.is_some_and(|arg| values[arg.index()])
            })
            .collect();
        if keep.iter().all(|&keep| keep) {
            continue;
        }
        changed = true;
        let results = kept(&func.op(op).results, &keep, 0);
        func.set_results(op, results);
        if is_for {
            func.op_mut(op).operands = kept(&func.op(op).operands, &keep, 3);
        }
        for region in func.op(op).regions.clone() {
            for block in func.region(region).blocks.clone() {
                if is_for {
                    let args = kept(&func.block(block).args, &keep, 1);
                    func.set_block_args(block, args);
                }
                if let Some(&last) = func.block(block).ops.last() {
                    func.op_mut(last).operands = kept(&func.op(last).operands, &keep, 0);
                }
            }
        }
    }
    for op in func.all_ops() {
        let data = func.op(op);
        if ops[op.index()] || data.kind.is_terminator() {
            continue;
        }
        let block = data.block;
        func.block_ops_mut(block).retain(|&other| other != op);
        changed = true;
    }
    changed
}

/// Those of `values` that are kept, after the first `always`.
fn kept(values: &[Value], keep: &[bool], always: usize) -> Vec<Value> {
    let rest = values[always..].iter().zip(keep).filter(|(_, keep)| **keep).map(|(value, _)| *value);
    values[..always].iter().copied().chain(rest).collect()
}
