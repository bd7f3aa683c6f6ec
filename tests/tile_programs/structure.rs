//! What a function computes, whatever the order and the places of its pure operations: its effects in order, each with the
//! whole expression of every operand.

use std::collections::HashMap;

use tilewright::tile::{Binary, Def, Func, Op, OpKind, Region, Type, Value};

/// An expression, or an effect: what it is, what it is made of by number, and its types.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Node {
    kind: OpKind,
    operands: Vec<usize>,
    types: Vec<Type>,
    /// Regions of the operation; for a load, how many writes there were before it.
    inner: Vec<usize>,
    /// Which result, or which argument of how deep a region.
    place: (usize, u32),
}

/// The numbers of expressions, shared between the functions that are compared.
#[derive(Default)]
pub struct Numbers(HashMap<Node, usize>);

/// The effects of a function, by number, in order.
pub fn effects(func: &Func, numbers: &mut Numbers) -> Vec<usize> {
    Structure { func, numbers, values: HashMap::new(), ops: HashMap::new(), writes: 0 }.region(func.body(), 0)
}

struct Structure<'a> {
    func: &'a Func,
    numbers: &'a mut Numbers,
    values: HashMap<Value, usize>,
    ops: HashMap<Op, usize>,
    writes: usize,
}

impl Structure<'_> {
    fn number(&mut self, node: Node) -> usize {
        let next = self.numbers.0.len();
        *self.numbers.0.entry(node).or_insert(next)
    }

    /// The effects of a region, its terminators among them; blocks in the order that they have in the text.
    fn region(&mut self, region: Region, depth: usize) -> Vec<usize> {
        let mut effects = Vec::new();
        for &block in &self.func.region(region).blocks {
            for (index, &arg) in self.func.block(block).args.iter().enumerate() {
                let types = vec![self.func.ty(arg)];
                let place = (depth, index as u32);
                let node = Node { kind: OpKind::While, operands: vec![], types, inner: vec![], place };
                let number = self.number(node);
                self.values.insert(arg, number);
            }
            for &op in &self.func.block(block).ops {
                let number = self.op(op, depth);
                let kind = &self.func.op(op).kind;
                if writes(kind) || matches!(kind, OpKind::For | OpKind::If | OpKind::While) || kind.is_terminator() {
                    effects.push(number);
                }
            }
        }
        effects
    }

    fn op(&mut self, op: Op, depth: usize) -> usize {
        let data = self.func.op(op);
        let mut operands: Vec<usize> = data.operands.iter().map(|operand| self.value(*operand)).collect();
        if matches!(
            data.kind,
            OpKind::Binary(
                Binary::AddI
                    | Binary::MulI
                    | Binary::AndI
                    | Binary::OrI
                    | Binary::AddF
                    | Binary::MulF
                    | Binary::MinSI
                    | Binary::MaxSI
                    | Binary::MaxNumF
                    | Binary::XOrI
            )
        ) {
            operands.sort_unstable();
        }
        let mut inner = Vec::new();
        for &region in &data.regions {
            inner.extend(self.region(region, depth + 1));
            inner.push(usize::MAX);
        }
        match data.kind {
            OpKind::Load { .. } => inner.push(self.writes),
            ref kind if writes(kind) => self.writes += 1,
            _ => {}
        }
        let types = data.results.iter().map(|&result| self.func.ty(result)).collect();
        let number = self.number(Node { kind: data.kind.clone(), operands, types, inner, place: (0, 0) });
        self.ops.insert(op, number);
        number
    }

    fn value(&mut self, value: Value) -> usize {
        if let Some(&number) = self.values.get(&value) {
            return number;
        }
        let Def::Result(op, index) = self.func.value(value).def else { panic!("an argument before its block") };
        let types = vec![self.func.ty(value)];
        let operands = vec![self.ops[&op]];
        let number = self.number(Node { kind: OpKind::Yield, operands, types, inner: vec![], place: (0, index) });
        self.values.insert(value, number);
        number
    }
}

fn writes(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Store { .. } | OpKind::AtomicRmw { .. } | OpKind::AtomicCas { .. })
}
