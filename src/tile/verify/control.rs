//! Control flow: loops, conditions, branches, what ends a block, and what only has an effect.

use super::types::{Check, integer, same};
use super::{Rule, ensure, list};
use crate::tile::{Block, OpData, OpKind, Region, Scalar, Type};

pub(super) fn check(check: Check<'_>) -> Rule {
    match &check.data.kind {
        OpKind::Assert { .. } => {
            let [condition] = check.takes()?;
            let truth = condition.number() == Some(Scalar::I1);
            ensure!(truth, "the condition is {condition}, and must be an i1 or a tile of them");
            check.makes_nothing()
        }
        OpKind::Print { signed, .. } => {
            let operands = check.operands();
            ensure!(operands.len() == signed.len(), "{} operands, and signs of {}", operands.len(), signed.len());
            if let Some(other) = operands.iter().find(|ty| ty.elem().is_none()) {
                return Err(format!("{other} cannot be printed: scalars and tiles can"));
            }
            check.makes_nothing()
        }
        OpKind::Assume => {
            let [condition] = check.takes()?;
            same("the condition", condition, TRUTH, "a scalar condition")?;
            check.makes_nothing()
        }
        OpKind::Barrier => {
            check.takes::<0>()?;
            check.makes_nothing()
        }
        OpKind::For => for_loop(check),
        OpKind::While => while_loop(check),
        OpKind::If => if_else(check),
        OpKind::Yield => {
            check.makes_nothing()?;
            let inside = check.parent().is_some_and(|(parent, region)| match parent.kind {
                OpKind::While => parent.regions.get(1) == Some(&region),
                OpKind::For | OpKind::If | OpKind::Reduce { .. } | OpKind::Scan { .. } => true,
                _ => false,
            });
            ensure!(inside, "ends a region of a loop, a condition, a reduction or a scan, and is elsewhere");
            Ok(())
        }
        OpKind::Condition => {
            check.makes_nothing()?;
            let inside = check.parent().is_some_and(|(parent, region)| {
                parent.kind == OpKind::While && parent.regions.first() == Some(&region)
            });
            ensure!(inside, "ends the first region of `scf.while`, and is elsewhere");
            Ok(())
        }
        OpKind::Branch => {
            check.makes_nothing()?;
            goes_to(check, check.data.successors[0], &check.operands())
        }
        OpKind::CondBranch { then_args } => cond_branch(check, *then_args as usize),
        OpKind::Return => {
            check.makes_nothing()?;
            ensure!(check.parent().is_none(), "ends a function, and is in a region of another operation");
            let (found, results) = (check.operands(), &check.func.results);
            ensure!(found == *results, "returns {}, and the function returns {}", list(&found), list(results));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The type of a condition.
const TRUTH: Type = Type::scalar(Scalar::I1);

impl<'a> Check<'a> {
    /// The operation whose region this one is in, and the region.
    fn parent(self) -> Option<(&'a OpData, Region)> {
        let region = self.func.block(self.data.block).region;
        Some((self.func.op(self.func.region(region).parent?), region))
    }

    /// The block of the region at `index`, if it has one.
    fn block(self, index: usize) -> Option<Block> {
        self.func.region(self.data.regions[index]).blocks.first().copied()
    }

    /// What the arguments of a block are.
    fn args(self, block: Block) -> Vec<Type> {
        self.func.block(block).args.iter().map(|&arg| self.func.ty(arg)).collect()
    }

    /// What a block ends in.
    fn last(self, block: Block) -> Option<&'a OpData> {
        self.func.block(block).ops.last().map(|&op| self.func.op(op))
    }

    /// A block must end in a yield of these types.
    fn yields(self, block: Block, what: &str, expected: &[Type]) -> Rule {
        match self.last(block) {
            Some(last) if last.kind == OpKind::Yield => {
                let given: Vec<_> = last.operands.iter().map(|&value| self.func.ty(value)).collect();
                ensure!(given == expected, "{what} yields {}, and must yield {}", list(&given), list(expected));
                Ok(())
            }
            _ => Err(format!("{what} must end in `scf.yield`")),
        }
    }
}

fn for_loop(check: Check<'_>) -> Rule {
    let operands = check.operands();
    ensure!(operands.len() >= 3, "takes bounds, a step and values, and has {} operands", operands.len());
    let counter = operands[0];
    integer("the lower bound", counter)?;
    ensure!(matches!(counter, Type::Scalar(_)), "the lower bound is {counter}, and must be a scalar");
    for (what, ty) in [("the upper bound", operands[1]), ("the step", operands[2])] {
        same(what, ty, counter, "the type of the lower bound")?;
    }
    let carried = &operands[3..];
    let results = check.results();
    ensure!(results == carried, "carries {}, and its results are {}", list(carried), list(&results));
    let Some(block) = check.block(0) else { return Err("the body is empty".to_owned()) };
    let (found, args) = (check.args(block), [&[counter], carried].concat());
    ensure!(
        found == args,
        "the body takes {}, and must take {}: the counter and what is carried",
        list(&found),
        list(&args)
    );
    check.yields(block, "the body", carried)
}

fn while_loop(check: Check<'_>) -> Rule {
    let (operands, results) = (check.operands(), check.results());
    let (Some(before), Some(after)) = (check.block(0), check.block(1)) else {
        return Err("both regions must have a block".to_owned());
    };
    let found = check.args(before);
    ensure!(found == operands, "the first region takes {}, and must take {}", list(&found), list(&operands));
    let found = check.args(after);
    ensure!(found == results, "the second region takes {}, and must take {}", list(&found), list(&results));
    match check.last(before) {
        Some(last) if last.kind == OpKind::Condition => {
            let given: Vec<_> = last.operands.iter().map(|&value| check.func.ty(value)).collect();
            let expected = [&[TRUTH], &results[..]].concat();
            ensure!(given == expected, "`scf.condition` has {}, and must have {}", list(&given), list(&expected));
        }
        _ => return Err("the first region must end in `scf.condition`".to_owned()),
    }
    check.yields(after, "the second region", &operands)
}

fn if_else(check: Check<'_>) -> Rule {
    let [condition] = check.takes()?;
    same("the condition", condition, TRUTH, "a scalar condition")?;
    let results = check.results();
    let Some(then) = check.block(0) else { return Err("the first region is empty".to_owned()) };
    let otherwise = check.block(1);
    ensure!(results.is_empty() || otherwise.is_some(), "has results, and needs an `else` to give them");
    for (what, block) in [("the first region", Some(then)), ("the `else`", otherwise)] {
        let Some(block) = block else { continue };
        let args = check.args(block);
        ensure!(args.is_empty(), "{what} takes {}, and must take nothing", list(&args));
        check.yields(block, what, &results)?;
    }
    Ok(())
}

/// The block's arguments must be of the types of what is given.
fn goes_to(check: Check<'_>, block: Block, given: &[Type]) -> Rule {
    let args = check.args(block);
    ensure!(given == args, "gives a block {}, and it takes {}", list(given), list(&args));
    Ok(())
}

fn cond_branch(check: Check<'_>, then_args: usize) -> Rule {
    check.makes_nothing()?;
    let operands = check.operands();
    let Some((&condition, args)) = operands.split_first() else { return Err("has no condition".to_owned()) };
    same("the condition", condition, TRUTH, "a scalar condition")?;
    ensure!(then_args <= args.len(), "{then_args} arguments of the first block, and there are {}", args.len());
    let (then, otherwise) = args.split_at(then_args);
    goes_to(check, check.data.successors[0], then)?;
    goes_to(check, check.data.successors[1], otherwise)
}
