//! Common subexpressions: of two equal pure operations, one where the first dominates the second.

use std::collections::HashMap;

use crate::tile::{Block, Func, Op, OpKind, Region, Type, Value};

use super::algebra::commutes;

/// What makes two operations equal.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    kind: OpKind,
    operands: Vec<Value>,
    types: Vec<Type>,
    /// The operations of the regions, of reductions and scans.
    regions: Vec<Inner>,
}

/// An operation of a region.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Inner {
    kind: OpKind,
    /// Values of the region itself by number, others as they are.
    operands: Vec<Result<usize, Value>>,
    types: Vec<Type>,
}

/// Keeps the first of equal operations. Whether there were any.
pub(super) fn eliminate(func: &mut Func) -> bool {
    let mut cse = Cse { instead: vec![None; func.value_count()], known: HashMap::new(), changed: false, func };
    let body = cse.func.body();
    cse.body(body);
    if cse.changed {
        for op in cse.func.all_ops() {
            cse.update(op);
        }
    }
    cse.changed
}

struct Cse<'f> {
    func: &'f mut Func,
    instead: Vec<Option<Value>>,
    /// The operations that dominate the place at hand.
    known: HashMap<Key, Op>,
    changed: bool,
}

impl Cse<'_> {
    /// The function's body, along a tree in which each block stands below one that dominates it: its only predecessor, or
    /// else the entry.
    fn body(&mut self, body: Region) {
        let blocks = self.func.region(body).blocks.clone();
        let mut comers: HashMap<Block, Vec<Block>> = HashMap::new();
        for &block in &blocks {
            for &to in self.func.block(block).ops.last().map_or(&[][..], |&last| &self.func.op(last).successors) {
                comers.entry(to).or_default().push(block);
            }
        }
        let entry = self.func.entry();
        let mut below: HashMap<Block, Vec<Block>> = HashMap::new();
        for &block in blocks.iter().filter(|&&block| block != entry) {
            let parent = match comers.get(&block).map(Vec::as_slice) {
                Some(&[only]) if only != block => only,
                _ => entry,
            };
            below.entry(parent).or_default().push(block);
        }
        self.tree(entry, &below);
    }

    fn tree(&mut self, block: Block, below: &HashMap<Block, Vec<Block>>) {
        let mut added = Vec::new();
        self.block(block, &mut added);
        for &next in below.get(&block).map_or(&[][..], Vec::as_slice) {
            self.tree(next, below);
        }
        self.forget(added);
    }

    fn forget(&mut self, added: Vec<Key>) {
        for key in added {
            self.known.remove(&key);
        }
    }

    fn block(&mut self, block: Block, added: &mut Vec<Key>) {
        for op in self.func.block(block).ops.clone() {
            self.update(op);
            if self.func.op(op).kind.is_pure()
                && let Some(key) = self.key(op)
            {
                if let Some(&first) = self.known.get(&key) {
                    self.replace(block, op, first);
                    continue;
                }
                self.known.insert(key.clone(), op);
                added.push(key);
                // Combining functions are compared, not searched.
                continue;
            }
            for region in self.func.op(op).regions.clone() {
                for inner in self.func.region(region).blocks.clone() {
                    let mut added = Vec::new();
                    self.block(inner, &mut added);
                    self.forget(added);
                }
            }
        }
    }

    fn replace(&mut self, block: Block, op: Op, first: Op) {
        for (index, result) in self.func.op(op).results.clone().into_iter().enumerate() {
            self.instead[result.index()] = Some(self.func.op(first).results[index]);
        }
        self.func.block_ops_mut(block).retain(|&other| other != op);
        self.changed = true;
    }

    fn update(&mut self, op: Op) {
        for index in 0..self.func.op(op).operands.len() {
            let mut value = self.func.op(op).operands[index];
            while let Some(next) = self.instead[value.index()] {
                value = next;
            }
            self.func.op_mut(op).operands[index] = value;
        }
    }

    fn key(&self, op: Op) -> Option<Key> {
        let data = self.func.op(op);
        let mut operands = data.operands.clone();
        if matches!(data.kind, OpKind::Binary(binary) if commutes(binary)) {
            operands.sort_unstable();
        }
        let mut regions = Vec::new();
        for &region in &data.regions {
            let [block] = self.func.region(region).blocks[..] else { return None };
            let mut numbers: HashMap<Value, usize> = HashMap::new();
            for &arg in &self.func.block(block).args {
                numbers.insert(arg, numbers.len());
            }
            for &inner in &self.func.block(block).ops {
                let inner = self.func.op(inner);
                if !inner.regions.is_empty() || !(inner.kind.is_pure() || inner.kind == OpKind::Yield) {
                    return None;
                }
                let resolved = |value: &Value| {
                    let mut value = *value;
                    while let Some(next) = self.instead[value.index()] {
                        value = next;
                    }
                    numbers.get(&value).copied().ok_or(value)
                };
                let operands = inner.operands.iter().map(resolved).collect();
                let types = inner.results.iter().map(|&result| self.func.ty(result)).collect();
                regions.push(Inner { kind: inner.kind.clone(), operands, types });
                for &result in &inner.results {
                    numbers.insert(result, numbers.len());
                }
            }
        }
        let types = data.results.iter().map(|&result| self.func.ty(result)).collect();
        Some(Key { kind: data.kind.clone(), operands, types, regions })
    }
}
