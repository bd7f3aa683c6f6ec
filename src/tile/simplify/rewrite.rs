//! One walk over a function in which operations are kept, replaced by values, or preceded by new ones.

use crate::tile::{Block, Func, Loc, Op, OpKind, Region, Type, Value};

/// The function in the course of a walk. New operations go to the place that the walk is at.
pub(super) struct Rewriter<'f> {
    pub(super) func: &'f mut Func,
    /// What stands for a value that is gone, by [`Value::index`].
    instead: Vec<Option<Value>>,
    at: Block,
    loc: Loc,
    changed: bool,
}

/// What becomes of an operation.
pub(super) enum Fate {
    /// It stays as it is, or as the rule changed it in place.
    Kept,
    /// Changed in place.
    Changed,
    /// These values stand for its results.
    Replaced(Vec<Value>),
}

/// Walks over `func`, asking `rule` of each operation, whose operands are up to date. Whether anything changed.
pub(super) fn rewrite(func: &mut Func, rule: &mut impl FnMut(&mut Rewriter<'_>, Op) -> Fate) -> bool {
    let at = func.entry();
    let mut rewriter = Rewriter { instead: Vec::new(), at, loc: Loc::default(), changed: false, func };
    let body = rewriter.func.body();
    rewriter.region(body, rule);
    rewriter.settle();
    rewriter.changed
}

impl Rewriter<'_> {
    /// What stands for `value`.
    pub(super) fn resolve(&self, mut value: Value) -> Value {
        while let Some(next) = self.instead.get(value.index()).copied().flatten() {
            value = next;
        }
        value
    }

    /// A new operation with one result, before the one at hand.
    pub(super) fn make(&mut self, kind: OpKind, operands: &[Value], ty: Type) -> Value {
        let op = self.func.push_op(self.at, kind, operands, &[ty], self.loc);
        self.func.result(op)
    }

    /// [`Fate::Replaced`] by a new operation with one result.
    pub(super) fn replaced_by(&mut self, kind: OpKind, operands: &[Value], ty: Type) -> Fate {
        Fate::Replaced(vec![self.make(kind, operands, ty)])
    }

    fn region(&mut self, region: Region, rule: &mut impl FnMut(&mut Rewriter<'_>, Op) -> Fate) {
        for block in self.func.region(region).blocks.clone() {
            let ops = std::mem::take(self.func.block_ops_mut(block));
            for op in ops {
                (self.at, self.loc) = (block, self.func.op(op).loc);
                self.update(op);
                match rule(self, op) {
                    Fate::Replaced(values) => {
                        self.changed = true;
                        self.replace(op, &values);
                        continue;
                    }
                    Fate::Changed => self.changed = true,
                    Fate::Kept => {}
                }
                self.func.block_ops_mut(block).push(op);
                for inner in self.func.op(op).regions.clone() {
                    self.region(inner, rule);
                }
                self.at = block;
            }
        }
    }

    fn replace(&mut self, op: Op, values: &[Value]) {
        self.instead.resize(self.func.value_count(), None);
        for (result, &value) in self.func.op(op).results.clone().into_iter().zip(values) {
            // The name goes on where the new value has none.
            let name = &self.func.value(result).name;
            if !name.is_empty() && self.func.value(value).name.is_empty() && self.func.def_op(value).is_some() {
                let name = name.clone();
                self.func.set_name(value, name);
            }
            self.instead[result.index()] = Some(value);
        }
    }

    fn update(&mut self, op: Op) {
        for index in 0..self.func.op(op).operands.len() {
            let value = self.resolve(self.func.op(op).operands[index]);
            self.func.op_mut(op).operands[index] = value;
        }
    }

    /// What the walk met before its operand was replaced: the yields of loops, the arguments of blocks.
    fn settle(&mut self) {
        if self.instead.is_empty() {
            return;
        }
        for op in self.func.all_ops() {
            self.update(op);
        }
    }
}
