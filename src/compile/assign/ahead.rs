//! Which loads run ahead of their use, by what their products make of them.

use super::{Assignment, coordinates, product_operands};
use crate::compile::axis::AxisInfo;
use crate::compile::layout::{Exchange, Passage, Side, Swizzled};
use crate::compile::lower::run_in;
use crate::compile::pipeline::{self, Ahead, Pipeline, Stages};
use crate::compile::tensor::Engine;
use crate::tile::{CacheModifier, Func, InputPrecision, Op, OpKind};

/// How a load that runs ahead brings an operand to its product.
#[derive(Clone, Debug)]
pub(in crate::compile) struct Landing {
    /// The load.
    load: Op,
    /// How threads write the operand's place, an access of several copies where global memory has shorter runs.
    pub(in crate::compile) store: Side,
    /// Elements of a copy.
    pub(in crate::compile) run: u32,
    /// The bytes of the place, and what it begins at a multiple of.
    pub(in crate::compile) bytes: u32,
    pub(in crate::compile) align: u32,
    /// How threads read it, for `mma.sync`.
    pub(in crate::compile) read: Option<Side>,
}

impl Assignment {
    /// The loads of the loop `op` that run ahead.
    pub(in crate::compile) fn pipeline(&self, op: Op) -> Option<&Pipeline> {
        self.pipelines.get(&op)
    }

    /// The most stages that a loop has; `None` where no load runs ahead.
    pub(in crate::compile) fn most_stages(&self) -> Option<u32> {
        self.pipelines.values().map(|pipeline| pipeline.stages).max()
    }

    /// Whether the load `op` runs ahead.
    pub(super) fn is_ahead(&self, op: Op) -> bool {
        self.landings.values().any(|landing| landing.load == op)
    }

    /// How operand `index` of the product `op` is brought by a load that runs ahead, if one does.
    pub(in crate::compile) fn landing(&self, op: Op, index: usize) -> Option<&Landing> {
        self.landings.get(&(op, index))
    }

    /// Finds what runs ahead.
    pub(super) fn pipelines(&mut self, func: &Func, axes: &AxisInfo, stages: Stages) {
        let uses = func.use_counts();
        func.walk(&mut |op| {
            let serves = |ahead| self.landing_of(func, axes, ahead).is_some();
            if let Some(found) = pipeline::of_loop(func, op, &uses, stages, serves) {
                for &ahead in &found.loads {
                    if let Some(landing) = self.landing_of(func, axes, ahead) {
                        self.landings.insert((ahead.product, ahead.operand), landing);
                    }
                }
                self.pipelines.insert(op, found);
            }
        });
    }

    /// How threads copy a load's tile to its operand's place by `cp.async`: 4, 8 or 16 bytes that are neighbours in both. `None` where
    /// they cannot, or the operand does not go through the program's shared memory as it is.
    fn landing_of(&self, func: &Func, axes: &AxisInfo, ahead: Ahead) -> Option<Landing> {
        let (load, data) = (func.op(ahead.load), func.op(ahead.product));
        let product = self.product(ahead.product)?;
        let (OpKind::Dot { precision, .. }, OpKind::Load { cache, .. }) = (&data.kind, &load.kind) else { return None };
        // What is split in parts passes through registers; what must be read anew each time is read when it is used.
        let passes = *precision == InputPrecision::Tf32x3 && product.mma.packed == 1;
        if passes || cache.volatile || cache.modifier == CacheModifier::Cv {
            return None;
        }
        let operand = data.operands[ahead.operand];
        let (home, held) = (self.home(load.results[0])?, self.home(operand)?);
        let bytes = func.ty(operand).number()?.bytes();
        let run = run_in(func, axes, home, load.operands[0], load.operands.get(1).copied());
        let mut landing = match &product.engine {
            Engine::Groups(places) | Engine::TensorMemory(places) => {
                let place = places[ahead.operand];
                let store = place.store(held, |basis| coordinates(held.shape, basis, ahead.operand));
                Landing { load: ahead.load, store, run, bytes: place.size(), align: Swizzled::ALIGN, read: None }
            }
            Engine::Warps(_) => {
                let (a, b) = product_operands(func, Some(product), ahead.product, self.home(data.results[0])?);
                let to = [&a, &b][ahead.operand];
                matches!(Exchange::of(held, to, bytes), Exchange::Program(_)).then_some(())?;
                let Passage { store, load: read, elements } = Passage::copied(held, to, bytes, run)?;
                let bytes = elements * bytes;
                Landing { load: ahead.load, store, run, bytes, align: Passage::ALIGN, read: Some(read) }
            }
        };
        let in_order = |members: &Vec<u32>| members.iter().zip(members[0]..).all(|(&member, at)| member == at);
        let is_aligned = |members: &Vec<u32>| members[0].is_multiple_of(members.len() as u32) && in_order(members);
        landing.run = landing.run.min(landing.store.accesses.first()?.len() as u32);
        let fits = home.repeated() == (0, 0)
            && [4, 8, 16].contains(&(landing.run * bytes))
            && landing.store.accesses.iter().all(is_aligned);
        fits.then_some(landing)
    }
}
