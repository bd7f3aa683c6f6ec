//! Names of values and blocks.
//!
//! A region's values are named before those of the regions inside it, so that what is seen from inside keeps its name; regions side
//! by side may use a name twice. This is MLIR's way.

use std::collections::HashSet;

use super::text::sanitised;
use super::{Func, MAX_DEPTH, Op, OpKind, Region, Type, Value};
use crate::tile::{Block, Scalar, int_value};

/// The names in one function.
pub(super) struct Names {
    /// By [`Value::index`], `%` included; empty where a value is in no block.
    pub(super) values: Vec<String>,
    blocks: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Counters {
    value: usize,
    arg: usize,
    conflict: usize,
}

struct Namer<'a> {
    func: &'a Func,
    names: Names,
    used: HashSet<String>,
    /// The names that each region that is open has added.
    added: Vec<String>,
    next: Counters,
    /// Regions that are done: one that is in two places is named once.
    seen: Vec<bool>,
}

impl Names {
    pub(super) fn new(func: &Func) -> Self {
        let mut namer = Namer {
            func,
            names: Names {
                values: vec![String::new(); func.value_count()],
                blocks: vec![String::new(); func.block_count()],
            },
            used: HashSet::new(),
            added: Vec::new(),
            next: Counters::default(),
            seen: vec![false; func.region_count()],
        };
        namer.region(func.body(), 0);
        namer.names
    }

    pub(super) fn block(&self, block: Block) -> &str {
        self.blocks.get(block.index()).map_or("^?", |name| name)
    }

    /// The left side of an operation: `%0`, `%acc:2`, `%a, %b`.
    pub(super) fn left(&self, func: &Func, op: Op) -> String {
        let results = &func.op(op).results;
        let name = |value: &Value| self.values.get(value.index()).map_or("%?", |name| name);
        if results.len() > 1 && is_group(func, results) {
            let first = name(&results[0]);
            return format!("{}:{}", first.strip_suffix("#0").unwrap_or(first), results.len());
        }
        super::joined(results.iter().map(name))
    }
}

/// Whether several results go by one name: where only the first has one of its own.
fn is_group(func: &Func, results: &[Value]) -> bool {
    results.iter().skip(1).all(|&value| value.index() >= func.value_count() || func.value(value).name.is_empty())
}

impl Namer<'_> {
    fn region(&mut self, region: Region, depth: usize) {
        if depth > MAX_DEPTH || self.seen.get(region.index()).is_none_or(|seen| *seen) {
            return;
        }
        self.seen[region.index()] = true;
        let func = self.func;
        for (index, &block) in func.region(region).blocks.iter().enumerate() {
            self.names.blocks[block.index()] = format!("^bb{index}");
            for &arg in &func.block(block).args {
                let name = match &func.value(arg).name[..] {
                    "" if index == 0 => {
                        self.next.arg += 1;
                        self.unique(&format!("arg{}", self.next.arg - 1))
                    }
                    "" => self.number(),
                    name => self.unique(&sanitised(name)),
                };
                self.names.values[arg.index()] = name;
            }
            for &op in &func.block(block).ops {
                self.results(op);
            }
        }
        for &block in &func.region(region).blocks {
            for &op in &func.block(block).ops {
                if op.index() >= func.op_count() {
                    continue;
                }
                for &inner in &func.op(op).regions {
                    let (next, added) = (self.next, self.added.len());
                    self.region(inner, depth + 1);
                    self.next = next;
                    for name in self.added.drain(added..) {
                        self.used.remove(&name);
                    }
                }
            }
        }
    }

    fn results(&mut self, op: Op) {
        let func = self.func;
        if op.index() >= func.op_count() {
            return;
        }
        let results = &func.op(op).results;
        let group = results.len() > 1 && is_group(func, results);
        let mut shared = String::new();
        for (index, &value) in results.iter().enumerate().filter(|(_, value)| value.index() < func.value_count()) {
            if !group || index == 0 {
                shared = match &func.value(value).name[..] {
                    "" => match constant_name(func, op) {
                        Some(name) => self.unique(&name),
                        None => self.number(),
                    },
                    name => self.unique(&sanitised(name)),
                };
            }
            self.names.values[value.index()] = if group { format!("{shared}#{index}") } else { shared.clone() };
        }
    }

    fn number(&mut self) -> String {
        self.next.value += 1;
        format!("%{}", self.next.value - 1)
    }

    fn unique(&mut self, name: &str) -> String {
        let mut found = name.to_owned();
        while self.used.contains(&found) {
            found = format!("{name}_{}", self.next.conflict);
            self.next.conflict += 1;
        }
        self.used.insert(found.clone());
        self.added.push(found.clone());
        format!("%{found}")
    }
}

/// What MLIR calls a constant: `c16_i32`, `true`, `cst`.
fn constant_name(func: &Func, op: Op) -> Option<String> {
    let data = func.op(op);
    let OpKind::Constant(bits) = data.kind else { return None };
    Some(match data.results.first().map(|&value| func.ty(value)) {
        Some(Type::Scalar(elem)) => match elem.scalar() {
            Some(Scalar::I1) => if bits & 1 == 1 { "true" } else { "false" }.to_owned(),
            Some(scalar) if scalar.is_int() => format!("c{}_{scalar}", int_value(scalar, bits)),
            _ => "cst".to_owned(),
        },
        _ => "cst".to_owned(),
    })
}
