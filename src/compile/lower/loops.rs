//! `scf.while`.

use inkwell::values::PhiValue;

use super::{Lowering, Registers};
use crate::compile::Error;
use crate::tile::{Op, Value};

impl<'c> Lowering<'_, 'c> {
    pub(super) fn keep(&mut self, targets: &[Value], values: &[Registers<'c>]) -> Result<(), Error> {
        for (&target, value) in targets.iter().zip(values) {
            if self.func.ty(target).shape().is_some() {
                self.set_home(target, value.clone())?;
            } else {
                self.set_scalar(target, value[0]);
            }
        }
        Ok(())
    }

    /// The first region runs and says whether to go on; the values that it passes are the second's arguments, or the results.
    pub(super) fn while_loop(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        let [before, after] = [0, 1].map(|side| self.func.region(data.regions[side]).blocks[0]);
        let (args, passed_to) = (self.func.block(before).args.clone(), self.func.block(after).args.clone());
        let initial = self.carried(&data.operands, &args)?;
        let entry = self.here();
        let [head, turn, done] =
            ["head", "turn", "done"].map(|name| self.context.append_basic_block(self.function, name));
        self.builder.build_unconditional_branch(head)?;
        self.builder.position_at_end(head);
        self.scratch.set_all_busy();
        let phis: Vec<Vec<PhiValue>> = self.phis(op, &args)?;
        Self::incoming(&phis, &initial, entry);
        self.keep_phis(&args, &phis)?;
        self.block(before)?;
        let condition = self.yields(data.regions[0]);
        let more = self.scalar(condition[0])?.into_int_value();
        let passed = self.carried(&condition[1..], &passed_to)?;
        self.builder.build_conditional_branch(more, turn, done)?;

        self.builder.position_at_end(turn);
        self.keep(&passed_to, &passed)?;
        self.block(after)?;
        let ends = self.carried(&self.yields(data.regions[1]), &args)?;
        Self::incoming(&phis, &ends, self.here());
        self.builder.build_unconditional_branch(head)?;

        self.builder.position_at_end(done);
        self.scratch.set_all_busy();
        self.keep(&data.results, &passed)
    }
}
