//! What is known of the numbers in a tile along each axis: the facts that decide how wide a load may be.
//!
//! For each axis: *contiguity*, the length of aligned runs in which each number is one more than the one before; *constancy*,
//! the length of aligned runs of one number; *divisibility*, a power of two that divides the first number of each run
//! (bytes, for addresses). All three are powers of two. Loops start from what their initial values give and go round until
//! nothing changes, each round only losing facts. After Triton's analysis of the same name.

use crate::tile::{Binary, Cast, Def, Elem, Func, IntCompare, Op, OpKind, Region, Shape, Type, Value};

/// The largest divisor that is told apart.
const MOST: u32 = 1 << 16;

/// The facts about one value; scalars have one axis of extent 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Length of runs that count up, by axis.
    pub contiguity: Vec<u32>,
    /// A divisor of the first number of each run, by axis.
    pub divisibility: Vec<u32>,
    /// Length of runs of one number, by axis.
    pub constancy: Vec<u32>,
}

impl Axis {
    fn unknown(rank: usize) -> Self {
        Self { contiguity: vec![1; rank], divisibility: vec![1; rank], constancy: vec![1; rank] }
    }

    fn uniform(shape: &[u32], divisibility: u32) -> Self {
        Self {
            contiguity: vec![1; shape.len()],
            divisibility: vec![divisibility; shape.len()],
            constancy: shape.to_vec(),
        }
    }

    /// What holds of both.
    fn meet(&self, other: &Self) -> Self {
        let least = |a: &[u32], b: &[u32]| a.iter().zip(b).map(|(&a, &b)| a.min(b)).collect();
        Self {
            contiguity: least(&self.contiguity, &other.contiguity),
            divisibility: least(&self.divisibility, &other.divisibility),
            constancy: least(&self.constancy, &other.constancy),
        }
    }
}

/// The facts about every value of a function.
pub struct AxisInfo {
    table: Vec<Option<Axis>>,
}

fn extents(ty: Type) -> Vec<u32> {
    ty.shape().map_or(vec![1], |shape: Shape| shape.dims().to_vec())
}

/// The largest power of two that divides `value`, at most [`MOST`].
fn divisor(value: u64) -> u32 {
    if value == 0 { MOST } else { (value & value.wrapping_neg()).min(MOST.into()) as u32 }
}

impl AxisInfo {
    /// Analyses `func`.
    pub fn of(func: &Func) -> Self {
        let mut info = Self { table: vec![None; func.value_count()] };
        for (index, param) in func.params.iter().enumerate() {
            let value = func.param_value(index);
            let rank = extents(param.ty).len();
            info.table[value.index()] = Some(match param.ty {
                Type::Scalar(_) => Axis::uniform(&[1], param.divisibility.map_or(1, |by| divisor(by.into()))),
                _ => Axis::unknown(rank),
            });
        }
        info.region(func, func.body());
        info
    }

    /// The facts about `value`.
    pub fn get(&self, func: &Func, value: Value) -> Axis {
        self.table[value.index()].clone().unwrap_or_else(|| Axis::unknown(extents(func.ty(value)).len()))
    }

    fn region(&mut self, func: &Func, region: Region) {
        for &block in &func.region(region).blocks {
            for &op in &func.block(block).ops {
                self.op(func, op);
            }
        }
    }

    fn set(&mut self, value: Value, axis: Axis) {
        self.table[value.index()] = Some(axis);
    }

    fn op(&mut self, func: &Func, op: Op) {
        let data = func.op(op);
        match data.kind {
            OpKind::For => return self.for_loop(func, op),
            OpKind::If => {
                for &region in &data.regions {
                    self.region(func, region);
                }
                return self.join_yields(func, op);
            }
            _ => {}
        }
        for &region in &data.regions {
            self.region(func, region);
        }
        if let [result] = data.results[..] {
            let axis = self.transfer(func, op, func.ty(result));
            self.set(result, axis);
        }
    }

    fn yielded(func: &Func, region: Region) -> Vec<Value> {
        let last = func.region(region).blocks.last().and_then(|&block| func.block(block).ops.last());
        last.map(|&op| func.op(op).operands.clone()).unwrap_or_default()
    }

    fn join_yields(&mut self, func: &Func, op: Op) {
        let data = func.op(op);
        let ends: Vec<Vec<Value>> = data.regions.iter().map(|&region| Self::yielded(func, region)).collect();
        for (index, &result) in data.results.iter().enumerate() {
            let all = ends.iter().filter_map(|values| values.get(index)).map(|&value| self.get(func, value));
            if let Some(axis) = all.reduce(|a, b| a.meet(&b)) {
                self.set(result, axis);
            }
        }
    }

    fn for_loop(&mut self, func: &Func, op: Op) {
        let data = func.op(op);
        let body = data.regions[0];
        let args = func.block(func.region(body).blocks[0]).args.clone();
        let start = self.get(func, data.operands[0]).divisibility[0];
        let step = self.get(func, data.operands[2]).divisibility[0];
        self.set(args[0], Axis::uniform(&[1], start.min(step)));
        for (&arg, &init) in args[1..].iter().zip(&data.operands[3..]) {
            let axis = self.get(func, init);
            self.set(arg, axis);
        }
        // Each round loses facts, of which there are finitely many: sixteen steps of three kinds by axis.
        loop {
            self.region(func, body);
            let mut changed = false;
            for (&arg, end) in args[1..].iter().zip(Self::yielded(func, body)) {
                let before = self.get(func, arg);
                let after = before.meet(&self.get(func, end));
                changed |= after != before;
                self.set(arg, after);
            }
            if !changed {
                break;
            }
        }
        for (&result, &arg) in data.results.iter().zip(&args[1..]) {
            let axis = self.get(func, arg);
            self.set(result, axis);
        }
    }

    fn transfer(&self, func: &Func, op: Op, ty: Type) -> Axis {
        let data = func.op(op);
        let shape = extents(ty);
        let operand = |index: usize| self.get(func, data.operands[index]);
        match &data.kind {
            OpKind::Constant(bits) if ty.number().is_some_and(|scalar| scalar.is_int()) => {
                Axis::uniform(&shape, divisor(*bits))
            }
            OpKind::Constant(_) => Axis::uniform(&shape, 1),
            OpKind::MakeRange { start, .. } => {
                Axis { contiguity: shape.clone(), divisibility: vec![divisor(*start as u64)], constancy: vec![1] }
            }
            OpKind::Splat => Axis::uniform(&shape, operand(0).divisibility[0]),
            OpKind::ExpandDims { axis } => {
                let mut facts = operand(0);
                let inherited = facts.divisibility.iter().copied().max().unwrap_or(1);
                // A run of one number starts at every number, so only what divides each of them is known there.
                let divides = if facts.contiguity.iter().all(|&run| run == 1) { inherited } else { 1 };
                facts.contiguity.insert(*axis as usize, 1);
                facts.divisibility.insert(*axis as usize, divides);
                facts.constancy.insert(*axis as usize, 1);
                facts
            }
            OpKind::Broadcast => {
                let mut facts = operand(0);
                let from = extents(func.ty(data.operands[0]));
                for axis in 0..shape.len() {
                    if from[axis] == 1 && shape[axis] > 1 {
                        facts.constancy[axis] = shape[axis];
                        facts.contiguity[axis] = 1;
                    }
                }
                facts
            }
            OpKind::Trans { order } => {
                let facts = operand(0);
                let pick = |of: &[u32]| order.iter().map(|&axis| of[axis as usize]).collect();
                Axis {
                    contiguity: pick(&facts.contiguity),
                    divisibility: pick(&facts.divisibility),
                    constancy: pick(&facts.constancy),
                }
            }
            OpKind::Cast(Cast::ExtSI | Cast::ExtUI | Cast::TruncI | Cast::IntToPtr | Cast::PtrToInt) => operand(0),
            OpKind::AddPtr => {
                let bytes = match func.ty(data.operands[0]).elem() {
                    Some(Elem::Pointer(scalar)) => scalar.bytes(),
                    _ => 1,
                };
                sum(&operand(0), &operand(1), bytes)
            }
            OpKind::Binary(Binary::AddI) => sum(&operand(0), &operand(1), 1),
            OpKind::Binary(Binary::SubI) => {
                let (a, b) = (operand(0), operand(1));
                let mut facts = sum(&a, &b, 1);
                for axis in 0..shape.len() {
                    facts.contiguity[axis] = a.contiguity[axis].min(b.constancy[axis]);
                }
                facts
            }
            OpKind::Binary(Binary::MulI) => {
                let (a, b) = (operand(0), operand(1));
                let mut facts = Axis::unknown(shape.len());
                for axis in 0..shape.len() {
                    // The divisor of a run's first number is one of every number only where runs are of length 1.
                    let each = |facts: &Axis| if facts.contiguity[axis] == 1 { facts.divisibility[axis] } else { 1 };
                    facts.divisibility[axis] = each(&a).saturating_mul(each(&b)).min(MOST);
                    facts.constancy[axis] = a.constancy[axis].min(b.constancy[axis]);
                }
                if func.constant(data.operands[1]) == Some(1) { a } else { facts }
            }
            OpKind::Binary(Binary::RemSI | Binary::RemUI) => {
                let (a, b) = (operand(0), operand(1));
                let mut facts = Axis::unknown(shape.len());
                for axis in 0..shape.len() {
                    let run = a.contiguity[axis].min(b.divisibility[axis]).min(b.constancy[axis]);
                    let aligned = run.min(a.divisibility[axis]);
                    facts.contiguity[axis] = aligned.max(1);
                    facts.divisibility[axis] = a.divisibility[axis].min(b.divisibility[axis]);
                    facts.constancy[axis] = a.constancy[axis].min(b.constancy[axis]);
                }
                facts
            }
            OpKind::Binary(Binary::DivSI | Binary::DivUI) => {
                let (a, b) = (operand(0), operand(1));
                let mut facts = Axis::unknown(shape.len());
                for axis in 0..shape.len() {
                    let same = a.constancy[axis].min(b.constancy[axis]);
                    let run =
                        a.contiguity[axis].min(a.divisibility[axis]).min(b.divisibility[axis]).min(b.constancy[axis]);
                    facts.constancy[axis] = same.max(run);
                }
                facts
            }
            OpKind::CmpI(relation) => {
                let (a, b) = (operand(0), operand(1));
                let mut facts = Axis::unknown(shape.len());
                for axis in 0..shape.len() {
                    let same = a.constancy[axis].min(b.constancy[axis]);
                    facts.constancy[axis] = same.max(compared(*relation, &a, &b, axis));
                }
                facts
            }
            kind if kind.is_elementwise() && !data.operands.is_empty() => {
                let mut facts = Axis::unknown(shape.len());
                for axis in 0..shape.len() {
                    facts.constancy[axis] = (0..data.operands.len())
                        .map(|index| {
                            let other = operand(index);
                            if other.constancy.len() == shape.len() { other.constancy[axis] } else { shape[axis] }
                        })
                        .min()
                        .unwrap_or(1);
                }
                facts
            }
            _ => Axis::unknown(shape.len()),
        }
    }
}

/// a + b · scale.
fn sum(a: &Axis, b: &Axis, scale: u32) -> Axis {
    let mut facts = Axis::unknown(a.contiguity.len());
    for axis in 0..a.contiguity.len() {
        facts.constancy[axis] = a.constancy[axis].min(b.constancy[axis]);
        facts.contiguity[axis] =
            a.contiguity[axis].min(b.constancy[axis]).max(a.constancy[axis].min(b.contiguity[axis]));
        facts.divisibility[axis] = a.divisibility[axis].min(b.divisibility[axis].saturating_mul(scale).min(MOST));
    }
    facts
}

/// How long runs of one answer are where a counting side meets a constant one: a comparison changes only at a multiple of
/// both divisors.
fn compared(relation: IntCompare, a: &Axis, b: &Axis, axis: usize) -> u32 {
    let run = |counts: &Axis, stays: &Axis| {
        counts.contiguity[axis].min(stays.constancy[axis]).min(counts.divisibility[axis]).min(stays.divisibility[axis])
    };
    match relation {
        // x < c: false from c on, a multiple of the run.
        IntCompare::Slt | IntCompare::Sge | IntCompare::Ult | IntCompare::Uge => run(a, b),
        // c > x is the same with the sides changed.
        IntCompare::Sgt | IntCompare::Sle | IntCompare::Ugt | IntCompare::Ule => run(b, a),
        IntCompare::Eq | IntCompare::Ne => 1,
    }
}

/// Whether `value` is an argument of a block.
pub(super) fn is_argument(func: &Func, value: Value) -> bool {
    matches!(func.value(value).def, Def::Arg(..))
}
