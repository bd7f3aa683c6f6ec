//! The verifier: what every pass may count on.
//!
//! It checks, in this order, each step only where those before it found nothing:
//! 1. *Structure* (`structure`): every index is in its arena; regions, blocks, operations and values name each other truly; each
//!    operation, block and region is in one place; a block ends in its one terminator; only a function's body has several
//!    blocks, and nothing branches to its first; its arguments are the parameters.
//! 2. *Types* (`types`): the operands, results, regions and attributes of each operation fit its rule.
//! 3. *Dominance* (`dominance`): an operand is made before it is used, on every way that leads to the use.
//! 4. *Calls* ([`verify_program`] only): the function is there and has the types of the call, and no name is taken twice.
//!
//! Not checked: what depends on a target (the least extents of a `tt.dot`), recursion ([`Program::inlined`] finds it), and the layouts that the compiler adds. The
//! verifier takes any [`Func`] that can be built, and never panics; it does not recurse.

mod control;
mod dominance;
mod elementwise;
mod memory;
mod products;
mod shapes;
mod structure;
mod types;

use std::fmt;

use super::{Func, Loc, Op, OpKind, Program, Type};

/// A rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct VerifyError {
    /// The function's name.
    pub func: String,
    /// The operation, or `None` where it is the function itself.
    pub op: Option<Op>,
    /// The operation's name.
    pub operation: &'static str,
    /// Where it was written.
    pub loc: Loc,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// `@kernel, line 3, column 5: `tt.load`: …`.
impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.func)?;
        if self.loc.line > 0 {
            write!(f, ", line {}, column {}", self.loc.line, self.loc.column)?;
        }
        write!(f, ": `{}`: {}", self.operation, self.message)
    }
}

/// What a rule gives: what is wrong, where something is.
type Rule = Result<(), String>;

/// Ends a rule with a message where a condition does not hold.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
use ensure;

/// Checks a function, as far as it can be checked by itself.
///
/// # Errors
/// Every broken rule of the first step that found one, in the order of the text.
pub fn verify(func: &Func) -> Result<(), Vec<VerifyError>> {
    checked(func).map(|_| ())
}

/// The operations of a function that keeps every rule.
fn checked(func: &Func) -> Result<Vec<Op>, Vec<VerifyError>> {
    let ops = structure::check(func)?;
    let errors: Vec<_> =
        ops.iter().filter_map(|&op| types::check(func, op).err().map(|message| about(func, op, message))).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    dominance::check(func, &ops)?;
    Ok(ops)
}

/// Checks every function, and the calls between them.
///
/// # Errors
/// Every broken rule, as [`verify`] finds them, the functions in order.
pub fn verify_program(program: &Program) -> Result<(), Vec<VerifyError>> {
    let mut errors = Vec::new();
    for (index, func) in program.funcs.iter().enumerate() {
        if program.funcs[..index].iter().any(|other| other.name == func.name) {
            errors.push(about_func(func, "another function has this name".to_owned()));
        }
        let ops = checked(func).unwrap_or_else(|found| {
            errors.extend(found);
            Vec::new()
        });
        for op in ops {
            if let OpKind::Call { callee } = &func.op(op).kind
                && let Err(message) = check_call(program, func, op, callee)
            {
                errors.push(about(func, op, message));
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Whether what `op` calls is there and has the call's types.
pub(super) fn check_call(program: &Program, func: &Func, op: Op, callee: &str) -> Rule {
    let Some(called) = program.func(callee) else { return Err(format!("there is no function `@{callee}`")) };
    let data = func.op(op);
    let params: Vec<Type> = called.params.iter().map(|param| param.ty).collect();
    let given: Vec<Type> = data.operands.iter().map(|&value| func.ty(value)).collect();
    ensure!(given == params, "`@{callee}` takes {}, and is given {}", list(&params), list(&given));
    let results: Vec<Type> = data.results.iter().map(|&value| func.ty(value)).collect();
    let returned = &called.results;
    ensure!(
        results == *returned,
        "`@{callee}` returns {}, and the call's results are {}",
        list(returned),
        list(&results)
    );
    Ok(())
}

pub(super) fn about(func: &Func, op: Op, message: String) -> VerifyError {
    let data = func.op(op);
    VerifyError { func: func.name.clone(), op: Some(op), operation: data.kind.name(), loc: data.loc, message }
}

pub(super) fn about_func(func: &Func, message: String) -> VerifyError {
    VerifyError { func: func.name.clone(), op: None, operation: "tt.func", loc: Loc::default(), message }
}

/// `(f32, tensor<16xi32>)`.
fn list(types: &[Type]) -> String {
    let types: Vec<_> = types.iter().map(Type::to_string).collect();
    format!("({})", types.join(", "))
}
