//! Loads that are made where a product on `mma.sync` wants its operand.
//!
//! The fragments of `mma.sync` may take k in any order ([`Order`]). In runs of k a thread's part of an operand is a few vectors of
//! neighbours, so a load can put it where it is needed, and what is computed of it on the way to the product needs no exchange between
//! threads. That is so where no warp needs what another one loads, and memory's lines are used whole.

use std::collections::{HashMap, HashSet};

use super::Options;
use super::assign::tensor_product;
use super::axis::AxisInfo;
use super::layout::{Layout, Major};
use super::lower::run_of;
use super::pipeline::{self, Stages};
use super::tensor::{Engine, Mma, Order, Product};
use crate::tile::{Elem, Func, Op, OpKind, Scalar, Value};

/// Neighbours along k that a thread takes.
const RUN: u32 = 8;
/// Bytes of a row that are read or not read as one.
const SECTOR: u32 = 32;
/// Bytes of the widest access.
const ACCESS: u32 = 16;

/// The layouts of the loads of `func` that products decide.
pub(super) fn anchors(func: &Func, axes: &AxisInfo, options: &Options, stages: Stages) -> HashMap<Value, Layout> {
    let mut made = HashMap::new();
    let ahead = may_run_ahead(func, stages);
    func.walk(&mut |op| {
        let Some([a, b]) = operands(func, options, op) else { return };
        let data = func.op(op);
        for (operand, layout, left) in [(data.operands[0], a, true), (data.operands[1], b, false)] {
            if layout.repeated() == (0, 0) {
                for (load, is_turned) in loads(func, operand) {
                    if !ahead.contains(&load) && is_whole(func, axes, load, usize::from(left != is_turned)) {
                        let layout = if is_turned { layout.transposed(&[1, 0]) } else { layout.clone() };
                        made.entry(load).or_insert(layout);
                    }
                }
            }
        }
    });
    made
}

/// The tiles that `cp.async` brings to their product: those need not be where it wants them.
fn may_run_ahead(func: &Func, stages: Stages) -> HashSet<Value> {
    let mut found = HashSet::new();
    let uses = func.use_counts();
    func.walk(&mut |op| {
        if let Some(pipeline) = pipeline::of_loop(func, op, &uses, stages, |_| true) {
            found.extend(pipeline.loads.iter().map(|ahead| func.result(ahead.load)));
        }
    });
    found
}

/// Where `mma.sync` wants the operands of `op`, if it makes that.
fn operands(func: &Func, options: &Options, op: Op) -> Option<[Layout; 2]> {
    let data = func.op(op);
    matches!(data.kind, OpKind::Dot { .. }).then_some(())?;
    let mma = tensor_product(func, op)?;
    let [a, b] = [func.ty(data.operands[0]).shape()?, func.ty(data.operands[1]).shape()?];
    let product = Product::choose(mma, a, b, [Major::Depth; 2], options.arch, options.num_warps);
    matches!(product.engine, Engine::Warps(_)).then_some(())?;
    let sum = Mma::sum(func.ty(data.results[0]).shape()?, options.num_warps);
    let (k, n) = (a.dims()[1], b.dims()[1]);
    let (mut a, mut b) = mma.operands(a, b, &sum, &Order::in_runs(k, RUN));
    // A run is in neighbouring registers.
    a.reg.sort_by_key(|&basis| basis >= k);
    b.reg.sort_by_key(|&basis| basis < n);
    Some([a, b])
}

/// The loads that `value` is computed of element by element, and whether it is turned on its way.
fn loads(func: &Func, value: Value) -> Vec<(Value, bool)> {
    let mut found = Vec::new();
    let mut seen = vec![(value, false)];
    let mut at = 0;
    while let Some(&(value, is_turned)) = seen.get(at) {
        at += 1;
        let Some(op) = func.def_op(value) else { continue };
        let data = func.op(op);
        let mut next: Vec<(Value, bool)> = Vec::new();
        match &data.kind {
            OpKind::Load { .. } => found.push((value, is_turned)),
            OpKind::Trans { order } if order[..] == [1, 0] => next.push((data.operands[0], !is_turned)),
            kind if kind.is_elementwise() => next.extend(data.operands.iter().map(|&operand| (operand, is_turned))),
            _ => {}
        }
        next.retain(|&(value, is_turned)| func.ty(value).shape().is_some() && !seen.contains(&(value, is_turned)));
        seen.extend(next);
    }
    found
}

/// Whether the load `value` may be made in runs of k with the widest accesses and of whole sectors: `along` is the axis of k.
fn is_whole(func: &Func, axes: &AxisInfo, value: Value, along: usize) -> bool {
    let Some(op) = func.def_op(value) else { return false };
    let pointer = func.op(op).operands[0];
    if func.ty(pointer).shape().is_none_or(|shape| shape.rank() != 2) {
        return false;
    }
    let bytes = func.ty(pointer).elem().and_then(Elem::pointee).map_or(1, Scalar::bytes);
    let run = RUN.min(func.ty(value).shape().map_or(1, |shape| shape.dims()[along]) / 4);
    run_of(func, axes, pointer, along) >= run.min(ACCESS / bytes) && 4 * run * bytes >= SECTOR
}

#[cfg(test)]
mod tests {
    use crate::compile::{Options, compile};
    use crate::ptx::Arch;
    use crate::tile::Scalar::{Bf16, F32};
    use crate::tile::build::KernelBuilder;
    use crate::tile::simplify::simplify;

    /// What one warp makes of 16×k by its transpose, both computed of loads: of two types, one turned.
    fn product(k: u32, num_warps: u32) -> String {
        let t = KernelBuilder::new("product");
        let (a, g, c) = (t.pointer("a", Bf16), t.pointer("g", F32), t.pointer("c", F32));
        let (rows, columns) = (t.arange(0, 16).col(), t.arange(0, k as i32).row());
        let at = rows * k + columns;
        let (x, gate) = (t.load(a + at).to(F32), t.load(g + at));
        let sum = t.dot(x * gate.exp2(), (x * (-gate).exp2()).trans());
        t.store(c + rows * 16 + t.arange(0, 16).row(), sum);
        let mut func = t.finish().unwrap();
        simplify(&mut func);
        compile(&func, &Options { num_warps, ..Options::new(Arch::Sm90a) }).unwrap().ptx
    }

    #[test]
    fn one_warp_multiplies_what_it_loads_without_an_exchange() {
        for k in [16, 32] {
            let ptx = product(k, 1);
            // The sum alone is brought to where it is stored.
            let before = ptx.rfind("mma.sync").unwrap();
            assert!(!ptx[..before].contains("st.shared"), "k = {k}: {ptx}");
        }
        // Wider rows, or more warps of which all need all of it: loads are as memory has it.
        for (k, num_warps) in [(64, 4), (16, 4)] {
            assert!(product(k, num_warps).contains("ld.shared"));
        }
    }
}
