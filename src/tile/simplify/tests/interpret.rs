//! A small interpreter of the tile IR, for integers and singles: what simplified functions are held to. It is independent of
//! the folding rules.

use std::collections::{BTreeMap, HashMap};

use crate::tile::{
    Binary, Block, Cast, Elem, FloatCompare, Func, IntCompare, Op, OpKind, Region, Scalar, Type, Value, int_bits,
    int_value,
};

/// What is in memory: bits of the element at a byte address. What nothing wrote is a function of its address.
pub type Memory = BTreeMap<u64, u64>;

/// Runs `func` as program (0, 0, 0) on the given bits of its parameters; gives what it wrote.
pub fn run(func: &Func, params: &[u64]) -> Memory {
    let mut machine = Machine { func, values: HashMap::new(), memory: Memory::new() };
    for (index, &bits) in params.iter().enumerate() {
        machine.values.insert(func.param_value(index), vec![bits]);
    }
    let mut block = Some(func.entry());
    while let Some(at) = block {
        block = machine.block(at).1;
    }
    machine.memory
}

struct Machine<'f> {
    func: &'f Func,
    values: HashMap<Value, Vec<u64>>,
    memory: Memory,
}

fn dims(ty: Type) -> Vec<usize> {
    ty.shape().map_or_else(Vec::new, |shape| shape.dims().iter().map(|&extent| extent as usize).collect())
}

/// The place of a row-major index along each axis.
fn unravel(mut index: usize, dims: &[usize]) -> Vec<usize> {
    let mut place = vec![0; dims.len()];
    for (axis, &extent) in dims.iter().enumerate().rev() {
        (place[axis], index) = (index % extent, index / extent);
    }
    place
}

fn ravel(place: &[usize], dims: &[usize]) -> usize {
    place.iter().zip(dims).fold(0, |index, (&at, &extent)| index * extent + at)
}

impl Machine<'_> {
    fn get(&self, value: Value) -> &Vec<u64> {
        self.values.get(&value).unwrap_or_else(|| panic!("%{} is used before it is made", value.index()))
    }

    /// Runs a block: what it yields or returns, and the block after it.
    fn block(&mut self, block: Block) -> (Vec<Vec<u64>>, Option<Block>) {
        for &op in &self.func.block(block).ops {
            let data = self.func.op(op);
            if !data.kind.is_terminator() {
                self.op(op);
                continue;
            }
            let operands: Vec<Vec<u64>> = data.operands.iter().map(|&value| self.get(value).clone()).collect();
            let (next, args) = match data.kind {
                OpKind::Branch => (data.successors[0], &operands[..]),
                OpKind::CondBranch { then_args } => {
                    let (yes, no) = operands[1..].split_at(then_args as usize);
                    if operands[0][0] & 1 == 1 { (data.successors[0], yes) } else { (data.successors[1], no) }
                }
                _ => return (operands, None),
            };
            for (&arg, value) in self.func.block(next).args.iter().zip(args) {
                self.values.insert(arg, value.clone());
            }
            return (Vec::new(), Some(next));
        }
        panic!("a block without an end")
    }

    /// Runs a region of one block on these arguments.
    fn region(&mut self, region: Region, args: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
        let block = self.func.region(region).blocks[0];
        for (&arg, value) in self.func.block(block).args.iter().zip(args) {
            self.values.insert(arg, value);
        }
        self.block(block).0
    }

    fn op(&mut self, op: Op) {
        let func = self.func;
        let data = func.op(op);
        let operands: Vec<Vec<u64>> = data.operands.iter().map(|&value| self.get(value).clone()).collect();
        let results = match &data.kind {
            OpKind::For => self.run_loop(op, &operands),
            OpKind::If => {
                let region = data.regions[usize::from(operands[0][0] & 1 == 0)];
                if func.region(region).blocks.is_empty() { Vec::new() } else { self.region(region, Vec::new()) }
            }
            OpKind::Store { .. } => {
                for (at, &address) in operands[0].iter().enumerate() {
                    if operands.get(2).is_none_or(|mask| mask[at] & 1 == 1) {
                        self.memory.insert(address, operands[1][at]);
                    }
                }
                Vec::new()
            }
            _ => vec![self.pure(op, &operands)],
        };
        for (&result, value) in data.results.iter().zip(results) {
            self.values.insert(result, value);
        }
    }

    fn run_loop(&mut self, op: Op, operands: &[Vec<u64>]) -> Vec<Vec<u64>> {
        let scalar = self.func.ty(self.func.op(op).operands[0]).number().unwrap();
        let [low, high, step] = [0, 1, 2].map(|index| int_value(scalar, operands[index][0]));
        let mut carried = operands[3..].to_vec();
        let mut i = low;
        while i < high {
            let args = std::iter::once(vec![int_bits(scalar, i)]).chain(carried).collect();
            carried = self.region(self.func.op(op).regions[0], args);
            i += step;
        }
        carried
    }

    fn pure(&mut self, op: Op, operands: &[Vec<u64>]) -> Vec<u64> {
        let func = self.func;
        let data = func.op(op);
        let ty = func.ty(data.results[0]);
        let to = dims(ty);
        let count: usize = to.iter().product();
        let from = data.operands.first().map(|&value| func.ty(value));
        let elements = |make: &dyn Fn(usize) -> u64| (0..count).map(make).collect::<Vec<u64>>();
        match &data.kind {
            OpKind::Constant(bits) => vec![*bits; count],
            OpKind::ProgramId(_) => vec![0],
            OpKind::MakeRange { start, .. } => elements(&|at| int_bits(Scalar::I32, i64::from(*start) + at as i64)),
            OpKind::Splat => vec![operands[0][0]; count],
            OpKind::ExpandDims { .. } | OpKind::Reshape { .. } => operands[0].clone(),
            OpKind::Broadcast => {
                let narrow = dims(from.unwrap());
                elements(&|at| {
                    let place = unravel(at, &to);
                    let place: Vec<usize> = place.iter().zip(&narrow).map(|(&at, &extent)| at % extent).collect();
                    operands[0][ravel(&place, &narrow)]
                })
            }
            OpKind::Trans { order } => {
                let source = dims(from.unwrap());
                elements(&|at| {
                    let place = unravel(at, &to);
                    let mut old = vec![0; place.len()];
                    for (axis, &was) in order.iter().enumerate() {
                        old[was as usize] = place[axis];
                    }
                    operands[0][ravel(&old, &source)]
                })
            }
            OpKind::Load { .. } => (0..count)
                .map(|at| {
                    if operands.get(1).is_some_and(|mask| mask[at] & 1 == 0) {
                        return operands.get(2).map_or(0, |other| other[at]);
                    }
                    let address = operands[0][at];
                    // Small integers and small whole floats, where nothing was written.
                    let fresh = match ty.number() {
                        Some(Scalar::F32) => ((address / 4 % 17) as f32 - 8.0).to_bits().into(),
                        _ => address / 4 % 23,
                    };
                    *self.memory.get(&address).unwrap_or(&fresh)
                })
                .collect(),
            OpKind::Reduce { axis } => self.reduce(op, &operands[0], *axis as usize, count),
            kind => {
                let scalars: Vec<Elem> = data.operands.iter().filter_map(|&value| func.ty(value).elem()).collect();
                elements(&|at| {
                    // A scalar condition goes with every element.
                    let bits: Vec<u64> =
                        operands.iter().map(|operand| operand[if operand.len() == 1 { 0 } else { at }]).collect();
                    element(kind, &scalars, ty.elem().unwrap(), &bits)
                })
            }
        }
    }

    fn reduce(&mut self, op: Op, source: &[u64], axis: usize, count: usize) -> Vec<u64> {
        let data = self.func.op(op);
        let from = dims(self.func.ty(data.operands[0]));
        let mut rest = from.clone();
        rest.remove(axis);
        (0..count)
            .map(|at| {
                let mut place = unravel(at, &rest);
                place.insert(axis, 0);
                (0..from[axis])
                    .map(|index| {
                        place[axis] = index;
                        source[ravel(&place, &from)]
                    })
                    .reduce(|a, b| self.region(data.regions[0], vec![vec![a], vec![b]])[0][0])
                    .unwrap()
            })
            .collect()
    }
}

fn element(kind: &OpKind, from: &[Elem], to: Elem, bits: &[u64]) -> u64 {
    let float = |index: usize| f32::from_bits(bits[index] as u32);
    let scalar = |index: usize| from[index].scalar().unwrap();
    let int = |index: usize| match scalar(index) {
        Scalar::I1 => -((bits[index] & 1) as i64),
        scalar => int_value(scalar, bits[index]),
    };
    let single = |value: f32| u64::from(value.to_bits());
    match kind {
        OpKind::AddPtr => bits[0].wrapping_add((int(1) * i64::from(from[0].pointee().unwrap().bytes())) as u64),
        OpKind::Select => bits[if bits[0] & 1 == 1 { 1 } else { 2 }],
        OpKind::CmpI(compare) => u64::from(match compare {
            IntCompare::Eq => bits[0] == bits[1],
            IntCompare::Ne => bits[0] != bits[1],
            IntCompare::Slt => int(0) < int(1),
            IntCompare::Sle => int(0) <= int(1),
            IntCompare::Sgt => int(0) > int(1),
            IntCompare::Sge => int(0) >= int(1),
            _ => panic!("{compare:?}"),
        }),
        OpKind::CmpF(FloatCompare::Olt) => u64::from(float(0) < float(1)),
        OpKind::CmpF(FloatCompare::Une) => u64::from(float(0) != float(1)),
        OpKind::Cast(Cast::Bitcast) => bits[0],
        OpKind::Cast(Cast::SIToFP) => single(int(0) as f32),
        OpKind::Cast(Cast::UIToFP | Cast::ExtUI) if to.scalar() == Some(Scalar::F32) => single(bits[0] as f32),
        OpKind::Cast(Cast::ExtUI) => bits[0],
        OpKind::Cast(Cast::ExtSI | Cast::TruncI) => int_bits(to.scalar().unwrap(), int(0)),
        OpKind::Binary(op) => match op {
            Binary::AddF => single(float(0) + float(1)),
            Binary::SubF => single(float(0) - float(1)),
            Binary::MulF => single(float(0) * float(1)),
            op => {
                let (x, y) = (int(0), int(1));
                int_bits(
                    to.scalar().unwrap(),
                    match op {
                        Binary::AddI => x.wrapping_add(y),
                        Binary::SubI => x.wrapping_sub(y),
                        Binary::MulI => x.wrapping_mul(y),
                        Binary::DivSI => x / y,
                        Binary::RemSI => x % y,
                        Binary::AndI => x & y,
                        Binary::OrI => x | y,
                        Binary::XOrI => x ^ y,
                        Binary::ShlI => x << y,
                        Binary::ShrSI => x >> y,
                        Binary::MinSI => x.min(y),
                        Binary::MaxSI => x.max(y),
                        _ => panic!("{op:?}"),
                    },
                )
            }
        },
        _ => panic!("{kind:?}"),
    }
}
