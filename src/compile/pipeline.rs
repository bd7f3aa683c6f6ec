//! Loads of a loop that run ahead of their use by stages (`num_stages`).
//!
//! Such a load is one whose tile only a product reads. It goes by `cp.async` straight to where the product finds its operand, in one of several
//! buffers that the turns of the loop use one after the other. What its addresses and mask are computed of runs ahead with it: the
//! *slice* of the loop's body, and of the values that the loop carries those that the slice needs.
//!
//! Loads do not run ahead in a loop that writes memory: what they read might be what a turn before them wrote.

use std::collections::HashSet;

use crate::tile::{Func, Op, OpKind, Value};

/// The loads of one loop that run ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pipeline {
    /// The loads.
    pub(super) loads: Vec<Ahead>,
    /// Operations of the body that their addresses and masks need, in the body's order.
    pub(super) slice: Vec<Op>,
    /// The places, among what the loop carries, of the values that the slice needs.
    pub(super) carried: Vec<usize>,
    /// Buffers that the turns use one after the other: loads are a turn less ahead.
    pub(super) stages: u32,
}

/// A load that runs ahead, and who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    pub(super) load: Op,
    pub(super) product: Op,
    /// Which operand of the product it is.
    pub(super) operand: usize,
}

/// How many stages the loads of loops have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stages {
    /// Where the loop itself does not say.
    pub(super) usual: u32,
    /// What there is room for.
    pub(super) most: u32,
}

impl Stages {
    /// Of the loop `op`: `tt.num_stages` is what `tl.range` was told.
    fn of(self, func: &Func, op: Op) -> u32 {
        let own = func.op(op).attributes.get("tt.num_stages");
        let own = own.and_then(|text| text.split_whitespace().next()?.parse().ok());
        own.unwrap_or(self.usual).min(self.most)
    }
}

/// The loads of the loop `op` that may run ahead, if `serves` says so too, with what they need. `None` for what is no loop.
pub(super) fn of_loop(
    func: &Func,
    op: Op,
    uses: &[u32],
    stages: Stages,
    serves: impl Fn(Ahead) -> bool,
) -> Option<Pipeline> {
    let data = func.op(op);
    let stages = stages.of(func, op);
    if data.kind != OpKind::For || stages < 2 {
        return None;
    }
    let body = func.region(data.regions[0]).blocks[0];
    let mut writes = false;
    func.walk_region(data.regions[0], &mut |op| writes |= has_effect(&func.op(op).kind));
    if writes {
        return None;
    }
    let body = func.block(body);
    let ends = body.ops.last().map(|&last| func.op(last).operands.clone()).unwrap_or_default();
    let mut slice =
        Slice { func, ops: &body.ops, args: &body.args[1..], ends: &ends, needed: HashSet::new(), carried: Vec::new() };
    let mut loads = Vec::new();
    for &product in &body.ops {
        if !matches!(func.op(product).kind, OpKind::Dot { .. }) {
            continue;
        }
        for operand in 0..2 {
            let Some(load) = only_load(func, func.op(product).operands[operand], uses) else { continue };
            let ahead = Ahead { load, product, operand };
            if !body.ops.contains(&load) || !zero_elsewhere(func, load) || !serves(ahead) {
                continue;
            }
            let before = (slice.needed.clone(), slice.carried.clone());
            let address = &func.op(load).operands;
            if address[..address.len().min(2)].iter().all(|&value| slice.takes(value)) {
                loads.push(ahead);
            } else {
                (slice.needed, slice.carried) = before;
            }
        }
    }
    if loads.is_empty() {
        return None;
    }
    let ops = body.ops.iter().copied().filter(|op| slice.needed.contains(op)).collect();
    slice.carried.sort_unstable();
    Some(Pipeline { loads, slice: ops, carried: slice.carried, stages })
}

/// Whether others see what it does.
fn has_effect(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Store { .. }
            | OpKind::AtomicRmw { .. }
            | OpKind::AtomicCas { .. }
            | OpKind::Barrier
            | OpKind::Call { .. }
            | OpKind::Print { .. }
            | OpKind::Assert { .. }
            | OpKind::InlineAsm { pure: false, .. }
    )
}

/// The load that `value` is, turned or not, where nothing else uses it.
fn only_load(func: &Func, value: Value, uses: &[u32]) -> Option<Op> {
    let op = func.def_op(value).filter(|_| uses[value.index()] == 1)?;
    match &func.op(op).kind {
        OpKind::Trans { .. } => only_load(func, func.op(op).operands[0], uses),
        OpKind::Load { boundary_check, .. } if boundary_check.is_empty() => Some(op),
        _ => None,
    }
}

/// Whether the load gives zeros, or whatever, where its mask is false.
fn zero_elsewhere(func: &Func, load: Op) -> bool {
    func.op(load).operands.get(2).is_none_or(|&other| func.constant(other) == Some(0))
}

/// What of a loop's body has to run ahead.
struct Slice<'a> {
    func: &'a Func,
    ops: &'a [Op],
    /// What the loop carries, and what becomes of it.
    args: &'a [Value],
    ends: &'a [Value],
    needed: HashSet<Op>,
    carried: Vec<usize>,
}

impl Slice<'_> {
    /// Adds what `value` is computed of; false where that is not arithmetic alone.
    fn takes(&mut self, value: Value) -> bool {
        if let Some(place) = self.args.iter().position(|&arg| arg == value) {
            if self.carried.contains(&place) {
                return true;
            }
            self.carried.push(place);
            return self.takes(self.ends[place]);
        }
        let Some(op) = self.func.def_op(value).filter(|op| self.ops.contains(op)) else { return true };
        let data = self.func.op(op);
        let is_pure = data.kind.is_elementwise()
            || matches!(
                data.kind,
                OpKind::Constant(_)
                    | OpKind::Splat
                    | OpKind::MakeRange { .. }
                    | OpKind::Broadcast
                    | OpKind::ExpandDims { .. }
                    | OpKind::Reshape { .. }
                    | OpKind::Trans { .. }
            );
        is_pure && (!self.needed.insert(op) || data.operands.clone().into_iter().all(|operand| self.takes(operand)))
    }
}
