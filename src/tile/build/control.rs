//! What the device repeats and decides.

use super::error::{Fault, Made};
use super::operand::Arg;
use super::state::State;
use super::{KernelBuilder, Operand, Tile};
use crate::tile::{Block, Op, OpKind, Scalar, Type, Value};

/// A region that is open: where to go on after it.
struct Open {
    op: Op,
    saved: Block,
}

impl State {
    fn values(&mut self, args: &[Arg]) -> Made<Vec<Value>> {
        args.iter().map(|&arg| self.value(arg)).collect()
    }

    fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|&value| self.ty(value)).collect()
    }

    /// A scalar truth value.
    fn condition(&mut self, arg: Arg) -> Made<Value> {
        let value = self.value(arg)?;
        let ty = self.ty(value);
        if ty.shape().is_some() || ty.number().is_none() {
            return Err(Fault::rule("a condition is one number: reduce the tile first", &[ty]));
        }
        self.cast(value, Scalar::I1)
    }

    /// Enters a new region of `op`, whose block has arguments of these types.
    fn enter(&mut self, op: Op, args: &[Type]) -> (Block, Vec<Value>) {
        let region = self.func.add_region(op);
        let block = self.func.add_block(region, args);
        let saved = std::mem::replace(&mut self.at, block);
        self.depth += 1;
        (saved, self.func.block(block).args.clone())
    }

    /// Leaves a region; one that yields a mistake is left all the same.
    fn leave(&mut self, saved: Block, yielded: &[Arg], expected: Option<&[Type]>) -> Made<Vec<Type>> {
        match self.values(yielded) {
            Ok(values) => {
                let types = self.types(&values);
                self.end_region(saved, &values, expected.unwrap_or(&types))?;
                Ok(types)
            }
            Err(fault) => {
                self.at = saved;
                self.depth -= 1;
                Err(fault)
            }
        }
    }

    /// Bounds of a loop in one integer type.
    fn bounds(&mut self, args: [Arg; 3]) -> Made<[Value; 3]> {
        let mut scalar = Scalar::I32;
        for arg in args {
            match arg.value()?.map(|value| self.ty(value)) {
                Some(ty @ Type::Scalar(_)) if ty.number().is_some_and(|s| s.is_int() && s.bits() >= 32) => {
                    scalar = if ty.number() == Some(Scalar::I64) { Scalar::I64 } else { scalar };
                }
                None if matches!(arg, Arg::Int(_)) => {}
                ty => {
                    let rule = "the bounds and the step of a loop are scalar integers of 32 or 64 bits";
                    return Err(Fault::rule(rule, ty.as_slice()));
                }
            }
        }
        if let Arg::Int(step) = args[2]
            && step <= 0
        {
            return Err(Fault::rule(format!("the step {step} is not positive"), &[]));
        }
        let mut values = Vec::with_capacity(3);
        for arg in args {
            values.push(match arg.value()? {
                Some(value) => self.cast(value, scalar)?,
                None => self.constant(arg, Type::scalar(scalar))?,
            });
        }
        Ok([values[0], values[1], values[2]])
    }
}

impl KernelBuilder {
    /// A loop of the device: `body` with i = `low`, `low` + `step`, … below `high`, carrying values from turn to turn. Gives what
    /// the last turn gave, or `init` where there was none.
    ///
    /// ```
    /// # use tilewright::tile::build::KernelBuilder;
    /// # use tilewright::tile::Scalar::F32;
    /// # let k = KernelBuilder::new("sum");
    /// # let x = k.pointer("x", F32);
    /// let [sum] = k.range(0, 8, 1, [k.zeros(&[32], F32)], |i, [sum]| {
    ///     [sum + k.load(x + i * 32 + k.arange(0, 32))]
    /// });
    /// # k.store(x + k.arange(0, 32), sum);
    /// # k.finish().unwrap();
    /// ```
    #[track_caller]
    pub fn range<'k, const N: usize>(
        &'k self,
        low: impl Into<Operand<'k>>,
        high: impl Into<Operand<'k>>,
        step: impl Into<Operand<'k>>,
        init: [Tile<'k>; N],
        body: impl FnOnce(Tile<'k>, [Tile<'k>; N]) -> [Tile<'k>; N],
    ) -> [Tile<'k>; N] {
        self.range_staged(None, [low.into(), high.into(), step.into()], init, body)
    }

    /// [`KernelBuilder::range`] over `[low, high, step]` whose loads are started `stages` − 1 turns ahead, where there is a number.
    #[track_caller]
    pub fn range_staged<'k, const N: usize>(
        &'k self,
        stages: Option<u32>,
        bounds: [Operand<'k>; 3],
        init: [Tile<'k>; N],
        body: impl FnOnce(Tile<'k>, [Tile<'k>; N]) -> [Tile<'k>; N],
    ) -> [Tile<'k>; N] {
        let bounds = bounds.map(|bound| self.arg(bound));
        let carried = init.map(|tile| self.arg(tile));
        let opened = self.attempt("range", |state| {
            let [low, high, step] = state.bounds(bounds)?;
            let init = state.values(&carried)?;
            let types = state.types(&init);
            let mut operands = vec![low, high, step];
            operands.extend(init);
            let op = state.push(OpKind::For, &operands, &types);
            if let Some(stages) = stages {
                state.func.op_mut(op).attributes.insert("tt.num_stages".to_owned(), format!("{stages} : i32"));
            }
            let mut args = vec![state.ty(low)];
            args.extend(&types);
            let (saved, args) = state.enter(op, &args);
            Ok((Open { op, saved }, args, types))
        });
        let Some((open, args, types)) = opened else { return init.map(|_| self.tile(None)) };
        let next = body(self.tile(Some(args[0])), std::array::from_fn(|index| self.tile(Some(args[index + 1]))));
        let next = next.map(|tile| self.arg(tile));
        let closed = self.attempt("range", |state| state.leave(open.saved, &next, Some(&types)));
        self.results(open.op, closed.is_some())
    }

    /// [`KernelBuilder::range`] that carries nothing.
    #[track_caller]
    pub fn for_each<'k>(
        &'k self,
        low: impl Into<Operand<'k>>,
        high: impl Into<Operand<'k>>,
        step: impl Into<Operand<'k>>,
        body: impl FnOnce(Tile<'k>),
    ) {
        self.range(low, high, step, [], |i, []| {
            body(i);
            []
        });
    }

    /// Does `then` where the scalar `condition` holds.
    #[track_caller]
    pub fn if_<'k>(&'k self, condition: impl Into<Operand<'k>>, then: impl FnOnce()) {
        let condition = self.arg(condition);
        let opened = self.attempt("if_", |state| {
            let condition = state.condition(condition)?;
            let op = state.push(OpKind::If, &[condition], &[]);
            let (saved, _) = state.enter(op, &[]);
            Ok(Open { op, saved })
        });
        let Some(open) = opened else { return };
        then();
        self.attempt("if_", |state| {
            state.leave(open.saved, &[], Some(&[]))?;
            state.func.add_region(open.op);
            Ok(())
        });
    }

    /// What `then` gives where the scalar `condition` holds, else what `otherwise` gives; only one of them is done.
    #[track_caller]
    pub fn if_else<'k, const N: usize>(
        &'k self,
        condition: impl Into<Operand<'k>>,
        then: impl FnOnce() -> [Tile<'k>; N],
        otherwise: impl FnOnce() -> [Tile<'k>; N],
    ) -> [Tile<'k>; N] {
        let condition = self.arg(condition);
        let mistake = || std::array::from_fn(|_| self.tile(None));
        let opened = self.attempt("if_else", |state| {
            let condition = state.condition(condition)?;
            let op = state.push(OpKind::If, &[condition], &[]);
            let (saved, _) = state.enter(op, &[]);
            Ok(Open { op, saved })
        });
        let Some(open) = opened else { return mistake() };
        let yielded = then().map(|tile| self.arg(tile));
        let types = self.attempt("if_else", |state| {
            let types = state.leave(open.saved, &yielded, None)?;
            state.enter(open.op, &[]);
            Ok(types)
        });
        let Some(types) = types else { return mistake() };
        let yielded = otherwise().map(|tile| self.arg(tile));
        let closed = self.attempt("if_else", |state| {
            state.leave(open.saved, &yielded, Some(&types))?;
            for &ty in &types {
                state.func.add_result(open.op, ty);
            }
            Ok(())
        });
        self.results(open.op, closed.is_some())
    }

    /// `values`, changed by `then` where the scalar `condition` holds: Python's `if` that assigns to variables from before it.
    #[track_caller]
    pub fn update_if<'k, const N: usize>(
        &'k self,
        condition: impl Into<Operand<'k>>,
        values: [Tile<'k>; N],
        then: impl FnOnce([Tile<'k>; N]) -> [Tile<'k>; N],
    ) -> [Tile<'k>; N] {
        self.if_else(condition, || then(values), || values)
    }

    /// A loop of the device that goes on while `condition`, a scalar made of the carried values, holds.
    #[track_caller]
    pub fn while_<'k, const N: usize>(
        &'k self,
        init: [Tile<'k>; N],
        condition: impl FnOnce([Tile<'k>; N]) -> Tile<'k>,
        body: impl FnOnce([Tile<'k>; N]) -> [Tile<'k>; N],
    ) -> [Tile<'k>; N] {
        let carried = init.map(|tile| self.arg(tile));
        let mistake = || std::array::from_fn(|_| self.tile(None));
        let opened = self.attempt("while_", |state| {
            let init = state.values(&carried)?;
            let types = state.types(&init);
            let op = state.push(OpKind::While, &init, &types);
            let (saved, args) = state.enter(op, &types);
            Ok((Open { op, saved }, args, types))
        });
        let Some((open, args, types)) = opened else { return mistake() };
        let go_on = self.arg(condition(std::array::from_fn(|index| self.tile(Some(args[index])))));
        let entered = self.attempt("while_", |state| {
            let go_on = state.condition(go_on);
            if let Ok(go_on) = go_on {
                let mut operands = vec![go_on];
                operands.extend(&args);
                state.push(OpKind::Condition, &operands, &[]);
            }
            state.at = open.saved;
            state.depth -= 1;
            go_on?;
            Ok(state.enter(open.op, &types).1)
        });
        let Some(args) = entered else { return mistake() };
        let next = body(std::array::from_fn(|index| self.tile(Some(args[index])))).map(|tile| self.arg(tile));
        let closed = self.attempt("while_", |state| state.leave(open.saved, &next, Some(&types)));
        self.results(open.op, closed.is_some())
    }

    /// Ends the program where the scalar `condition` holds. Not inside the body of a loop or of an `if`.
    #[track_caller]
    pub fn return_if<'k>(&'k self, condition: impl Into<Operand<'k>>) {
        let condition = self.arg(condition);
        self.attempt("return_if", |state| {
            if state.depth > 0 {
                return Err(Fault::rule("a program does not return from inside a loop, an `if` or a reduction", &[]));
            }
            let condition = state.condition(condition)?;
            let branch = state.push(OpKind::CondBranch { then_args: 0 }, &[condition], &[]);
            let body = state.func.body();
            let (leave, go_on) = (state.func.add_block(body, &[]), state.func.add_block(body, &[]));
            state.func.op_mut(branch).successors = vec![leave, go_on];
            state.at = leave;
            state.push(OpKind::Return, &[], &[]);
            state.at = go_on;
            Ok(())
        });
    }

    /// The results of an operation, or mistakes.
    fn results<const N: usize>(&self, op: Op, good: bool) -> [Tile<'_>; N] {
        let results = self.state.borrow().func.op(op).results.clone();
        std::array::from_fn(|index| self.tile(results.get(index).copied().filter(|_| good)))
    }
}
