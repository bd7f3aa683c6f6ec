//! Which loads run ahead of their use, by what their products make of them.

use super::{Assignment, coordinates, product_operands};
use crate::compile::axis::AxisInfo;
use crate::compile::layout::{Exchange, Passage, Side};
use crate::compile::lower::run_in;
use crate::compile::pipeline::{self, Ahead, Pipeline};
use crate::compile::tensor::Engine;
use crate::tile::{Func, InputPrecision, Op, OpKind, Scalar};

impl Assignment {
    /// The loads of the loop `op` that run ahead.
    pub(in crate::compile) fn pipeline(&self, op: Op) -> Option<&Pipeline> {
        self.pipelines.get(&op)
    }

    /// Whether any loop has loads that run ahead.
    pub(in crate::compile) fn is_pipelined(&self) -> bool {
        !self.pipelines.is_empty()
    }

    /// Whether the load that is operand `index` of the product `op` runs ahead.
    pub(super) fn reads_ahead(&self, op: Op, index: usize) -> bool {
        let mut all = self.pipelines.values().flat_map(|pipeline| &pipeline.loads);
        all.any(|ahead| ahead.product == op && ahead.operand == index)
    }

    /// Whether the load `op` runs ahead.
    pub(in crate::compile) fn is_ahead(&self, op: Op) -> bool {
        self.ahead.contains(&op)
    }

    /// The way of an operand of `mma.sync` whose load runs ahead.
    pub(in crate::compile) fn landing(&self, op: Op, index: usize) -> Option<&Passage> {
        self.landings.get(&(op, index))
    }

    pub(super) fn pipelines(&mut self, func: &Func, axes: &AxisInfo) {
        let uses = func.use_counts();
        func.walk(&mut |op| {
            if func.op(op).kind == OpKind::For
                && let Some(found) = pipeline::of_loop(func, op, &uses, |ahead| self.runs_ahead(func, axes, ahead))
            {
                self.ahead.extend(found.loads.iter().map(|ahead| ahead.load));
                for &ahead in &found.loads {
                    if let Some(passage) = self.passage(func, axes, ahead) {
                        self.landings.insert((ahead.product, ahead.operand), passage);
                    }
                }
                self.pipelines.insert(op, found);
            }
        });
    }

    /// Whether threads can copy a load's tile to its operand's place by `cp.async`: 4, 8 or 16 bytes that are neighbours in both.
    fn runs_ahead(&self, func: &Func, axes: &AxisInfo, ahead: Ahead) -> bool {
        let load = func.op(ahead.load);
        let Some(product) = self.product(ahead.product) else { return false };
        let OpKind::Dot { precision, .. } = func.op(ahead.product).kind else { return false };
        let OpKind::Load { cache, .. } = &load.kind else { return false };
        // What is split in parts passes through registers.
        let is_whole = precision != InputPrecision::Tf32x3 || product.mma.packed != 1;
        let operand = func.op(ahead.product).operands[ahead.operand];
        let Some(home) = self.home(load.results[0]) else { return false };
        let Some(store) = self.placing(func, axes, ahead) else { return false };
        let bytes = func.ty(operand).number().map_or(8, Scalar::bytes);
        let members = store.accesses.first().map_or(0, |members| members.len() as u32);
        let run = run_in(func, axes, home, load.operands[0], load.operands.get(1).copied());
        let is_aligned = |members: &Vec<u32>| {
            let first = members[0];
            first.is_multiple_of(members.len() as u32)
                && members.iter().enumerate().all(|(at, &member)| member == first + at as u32)
        };
        is_whole
            && !cache.volatile
            && home.repeated() == (0, 0)
            && [4, 8, 16].contains(&(members.min(run) * bytes))
            && store.accesses.iter().all(is_aligned)
    }

    /// How the operand that a load brings is written to shared memory; `None` where it does not go there by the whole program.
    fn placing(&self, func: &Func, axes: &AxisInfo, ahead: Ahead) -> Option<Side> {
        let operand = func.op(ahead.product).operands[ahead.operand];
        match &self.product(ahead.product)?.engine {
            Engine::Groups(places) | Engine::TensorMemory(places) => {
                let held = self.home(operand)?;
                Some(places[ahead.operand].store(held, |basis| coordinates(held.shape, basis, ahead.operand)))
            }
            Engine::Warps(_) => Some(self.passage(func, axes, ahead)?.store),
        }
    }

    /// The way of an operand that a load brings to the fragments of `mma.sync`.
    fn passage(&self, func: &Func, axes: &AxisInfo, ahead: Ahead) -> Option<Passage> {
        let product = self.product(ahead.product)?;
        matches!(product.engine, Engine::Warps(_)).then_some(())?;
        let load = func.op(ahead.load);
        let data = func.op(ahead.product);
        let operand = data.operands[ahead.operand];
        let (a, b) = product_operands(func, Some(product), ahead.product, self.home(data.results[0])?);
        let (held, to, bytes) = (self.home(operand)?, [&a, &b][ahead.operand], func.ty(operand).number()?.bytes());
        matches!(Exchange::of(held, to, bytes), Exchange::Program(_)).then_some(())?;
        let home = self.home(load.results[0])?;
        let run = run_in(func, axes, home, load.operands[0], load.operands.get(1).copied());
        Passage::copied(held, to, bytes, run)
    }
}
