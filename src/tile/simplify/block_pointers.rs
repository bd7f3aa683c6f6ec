//! Block pointers to addresses and masks, as Triton rewrites them before anything else.
//!
//! A block pointer is its parts: the base, and 64-bit extents, strides and offsets for each axis. A load from it becomes a
//! load from base + Σ index·stride, where index = offset + 0, 1, …; for each axis that is checked, the mask asks 0 ≤ index <
//! extent. Loops and decisions that carry a block pointer carry its parts; those that never change are found later.

use std::collections::HashMap;

use crate::tile::{
    Binary, Block, Cast, Func, IntCompare, Loc, Op, OpKind, Padding, Region, Scalar, Shape, Type, Value, float_bits,
};

/// The parts of a block pointer.
#[derive(Clone)]
struct Parts {
    base: Value,
    extents: Vec<Value>,
    strides: Vec<Value>,
    offsets: Vec<Value>,
}

impl Parts {
    fn values(&self) -> Vec<Value> {
        let axes = self.extents.iter().chain(&self.strides).chain(&self.offsets);
        std::iter::once(self.base).chain(axes.copied()).collect()
    }

    fn from_values(values: &[Value]) -> Self {
        let rank = (values.len() - 1) / 3;
        let axis = |part: usize| values[1 + part * rank..1 + (part + 1) * rank].to_vec();
        Self { base: values[0], extents: axis(0), strides: axis(1), offsets: axis(2) }
    }

    /// The types of the parts of a pointer to blocks of this type.
    fn types(shape: Shape, scalar: Scalar) -> Vec<Type> {
        let axes = std::iter::repeat_n(Type::scalar(Scalar::I64), 3 * shape.rank());
        std::iter::once(Type::pointer(scalar)).chain(axes).collect()
    }
}

/// Rewrites every block pointer of `func`. Whether there were any.
pub(super) fn rewrite(func: &mut Func) -> bool {
    let any = func.all_ops().iter().any(|&op| matches!(func.op(op).kind, OpKind::MakeBlockPtr { .. }));
    if any {
        let at = func.entry();
        let mut rewriter = Rewriter { parts: HashMap::new(), at, loc: Loc::default(), func };
        let body = rewriter.func.body();
        rewriter.region(body);
    }
    any
}

struct Rewriter<'f> {
    func: &'f mut Func,
    parts: HashMap<Value, Parts>,
    at: Block,
    loc: Loc,
}

impl Rewriter<'_> {
    fn make(&mut self, kind: OpKind, operands: &[Value], ty: Type) -> Value {
        let op = self.func.push_op(self.at, kind, operands, &[ty], self.loc);
        self.func.result(op)
    }

    fn region(&mut self, region: Region) {
        for block in self.func.region(region).blocks.clone() {
            let ops = std::mem::take(self.func.block_ops_mut(block));
            for op in ops {
                (self.at, self.loc) = (block, self.func.op(op).loc);
                if self.operation(op) {
                    self.func.block_ops_mut(block).push(op);
                    for inner in self.func.op(op).regions.clone() {
                        self.arguments(inner);
                        self.region(inner);
                    }
                    self.results(op);
                }
            }
        }
    }

    /// What becomes of one operation; whether it stays.
    fn operation(&mut self, op: Op) -> bool {
        let data = self.func.op(op).clone();
        match &data.kind {
            OpKind::MakeBlockPtr { .. } => {
                let mut values = data.operands;
                let first_offset = values.len() - (values.len() - 1) / 3;
                for offset in &mut values[first_offset..] {
                    *offset = self.wide(*offset);
                }
                self.parts.insert(data.results[0], Parts::from_values(&values));
                false
            }
            OpKind::Advance => {
                let Some(mut parts) = self.parts.get(&data.operands[0]).cloned() else { return true };
                for (offset, &by) in parts.offsets.iter_mut().zip(&data.operands[1..]) {
                    let by = self.wide(by);
                    *offset = self.make(OpKind::Binary(Binary::AddI), &[*offset, by], Type::scalar(Scalar::I64));
                }
                self.parts.insert(data.results[0], parts);
                false
            }
            OpKind::Load { boundary_check, padding, .. } => {
                let Some(parts) = self.parts.get(&data.operands[0]).cloned() else { return true };
                let ty = self.func.ty(data.results[0]);
                let mut operands = self.access(&parts, ty, boundary_check);
                if let (Some(padding), true) = (padding, operands.len() > 1) {
                    operands.push(self.padding(*padding, ty));
                }
                self.settle(op, operands);
                true
            }
            OpKind::Store { boundary_check, .. } => {
                let Some(parts) = self.parts.get(&data.operands[0]).cloned() else { return true };
                let ty = self.func.ty(data.operands[1]);
                let mut operands = self.access(&parts, ty, boundary_check);
                operands.insert(1, data.operands[1]);
                self.settle(op, operands);
                true
            }
            _ => {
                let expanded = data.operands.iter().flat_map(|operand| match self.parts.get(operand) {
                    Some(parts) => parts.values(),
                    None => vec![*operand],
                });
                self.func.op_mut(op).operands = expanded.collect();
                true
            }
        }
    }

    /// An i32 as an i64.
    fn wide(&mut self, value: Value) -> Value {
        self.make(OpKind::Cast(Cast::ExtSI), &[value], Type::scalar(Scalar::I64))
    }

    /// Gives a memory operation its new operands, and no checks.
    fn settle(&mut self, op: Op, operands: Vec<Value>) {
        let data = self.func.op_mut(op);
        data.operands = operands;
        match &mut data.kind {
            OpKind::Load { boundary_check, padding, .. } => {
                boundary_check.clear();
                *padding = None;
            }
            OpKind::Store { boundary_check, .. } => boundary_check.clear(),
            _ => {}
        }
    }

    /// The addresses of a block of type `ty`, and the mask, where an axis is checked.
    fn access(&mut self, parts: &Parts, ty: Type, checked: &[u32]) -> Vec<Value> {
        let Type::Tile(shape, _) = ty else { return vec![parts.base] };
        let indices: Vec<Value> = (0..shape.rank()).map(|axis| self.index(parts.offsets[axis], shape, axis)).collect();
        let wide = ty.with_elem(Scalar::I64);
        let mut sum: Option<Value> = None;
        for (axis, &index) in indices.iter().enumerate() {
            let narrow = self.func.ty(index);
            let stride = self.make(OpKind::Splat, &[parts.strides[axis]], narrow);
            let scaled = self.make(OpKind::Binary(Binary::MulI), &[index, stride], narrow);
            let scaled = self.make(OpKind::Broadcast, &[scaled], wide);
            sum = Some(match sum {
                Some(sum) => self.make(OpKind::Binary(Binary::AddI), &[sum, scaled], wide),
                None => scaled,
            });
        }
        let pointers = Type::of(Some(shape), self.func.ty(parts.base).elem().unwrap_or(Scalar::I8.into()));
        let mut address = self.make(OpKind::Splat, &[parts.base], pointers);
        if let Some(sum) = sum {
            address = self.make(OpKind::AddPtr, &[address, sum], pointers);
        }
        let truth = ty.with_elem(Scalar::I1);
        let mut mask: Option<Value> = None;
        for &axis in checked {
            let index = indices[axis as usize];
            let narrow = self.func.ty(index);
            let zero = self.make(OpKind::Constant(0), &[], narrow);
            let extent = self.make(OpKind::Splat, &[parts.extents[axis as usize]], narrow);
            let [from, to] = [(IntCompare::Sge, zero), (IntCompare::Slt, extent)].map(|(compare, bound)| {
                self.make(OpKind::CmpI(compare), &[index, bound], narrow.with_elem(Scalar::I1))
            });
            let both = self.make(OpKind::Binary(Binary::AndI), &[from, to], narrow.with_elem(Scalar::I1));
            let both = self.make(OpKind::Broadcast, &[both], truth);
            mask = Some(match mask {
                Some(mask) => self.make(OpKind::Binary(Binary::AndI), &[mask, both], truth),
                None => both,
            });
        }
        std::iter::once(address).chain(mask).collect()
    }

    /// offset + 0, 1, … along `axis`, with the other axes of extent 1.
    fn index(&mut self, offset: Value, shape: Shape, axis: usize) -> Value {
        let extent = shape.dims()[axis];
        let vector = |scalar: Scalar| Shape::new(&[extent]).map(|shape| Type::Tile(shape, scalar.into()));
        let (Ok(narrow), Ok(wide)) = (vector(Scalar::I32), vector(Scalar::I64)) else { return offset };
        let start = self.make(OpKind::Splat, &[offset], wide);
        let range = self.make(OpKind::MakeRange { start: 0, end: extent as i32 }, &[], narrow);
        let range = self.make(OpKind::Cast(Cast::ExtSI), &[range], wide);
        let mut index = self.make(OpKind::Binary(Binary::AddI), &[start, range], wide);
        for other in (0..shape.rank()).filter(|&other| other != axis) {
            let expanded = self.func.ty(index).shape().and_then(|shape| shape.inserted(other, 1));
            let ty = Type::of(expanded, Scalar::I64);
            index = self.make(OpKind::ExpandDims { axis: other as u32 }, &[index], ty);
        }
        index
    }

    fn padding(&mut self, padding: Padding, ty: Type) -> Value {
        let scalar = ty.number().unwrap_or(Scalar::F32);
        let bits = match padding {
            Padding::Zero => 0,
            Padding::Nan => float_bits(scalar, f64::NAN).unwrap_or(0),
        };
        self.make(OpKind::Constant(bits), &[], ty)
    }

    /// The arguments of a region's blocks: parts in the place of pointers.
    fn arguments(&mut self, region: Region) {
        for block in self.func.region(region).blocks.clone() {
            let args = self.func.block(block).args.clone();
            let expanded = self.expand(&args, |func, ty| func.add_block_arg(block, ty));
            self.func.set_block_args(block, expanded);
        }
    }

    /// The results of an operation: parts in the place of pointers.
    fn results(&mut self, op: Op) {
        let results = self.func.op(op).results.clone();
        let expanded = self.expand(&results, |func, ty| func.add_result(op, ty));
        self.func.set_results(op, expanded);
    }

    fn expand(&mut self, values: &[Value], mut add: impl FnMut(&mut Func, Type) -> Value) -> Vec<Value> {
        let mut expanded = Vec::with_capacity(values.len());
        for &value in values {
            let Type::BlockPtr(shape, scalar) = self.func.ty(value) else {
                expanded.push(value);
                continue;
            };
            let parts: Vec<Value> = Parts::types(shape, scalar).into_iter().map(|ty| add(self.func, ty)).collect();
            self.parts.insert(value, Parts::from_values(&parts));
            expanded.extend(parts);
        }
        expanded
    }
}
