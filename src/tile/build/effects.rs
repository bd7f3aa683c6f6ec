//! What is said to the outside: assertions, prints, inline assembly.

use super::error::{Fault, Made};
use super::{KernelBuilder, Tile};
use crate::tile::{OpKind, Scalar};

/// A piece of PTX that is applied to each element.
#[derive(Clone, Debug)]
pub struct InlineAsm<'a> {
    /// The PTX: `$0`, `$1`, … for results and operands.
    pub asm: &'a str,
    /// LLVM's constraints: `=f,f`.
    pub constraints: &'a str,
    /// The element type of the result.
    pub result: Scalar,
    /// Whether it has no side effects.
    pub pure: bool,
    /// How many elements one piece takes.
    pub packed: u32,
}

impl KernelBuilder {
    /// Stops the launch with `message` where a truth value does not hold.
    #[track_caller]
    pub fn device_assert<'k>(&'k self, condition: Tile<'k>, message: &str) {
        let condition = self.arg(condition);
        self.attempt("device_assert", |state| {
            let condition = state.value(condition)?;
            state.check_mask(Some(condition))?;
            state.push(OpKind::Assert { message: message.to_owned() }, &[condition], &[]);
            Ok(())
        });
    }

    /// Prints values, each after `prefix`.
    #[track_caller]
    pub fn device_print<'k>(&'k self, prefix: &str, values: &[Tile<'k>]) {
        let args: Vec<_> = values.iter().map(|&value| self.arg(value)).collect();
        self.attempt("device_print", |state| {
            let values = args.iter().map(|&arg| state.value(arg)).collect::<Made<Vec<_>>>()?;
            let signed = values.iter().map(|&v| state.ty(v).number().is_some_and(|s| s.is_int() && s != Scalar::I1));
            let signed = signed.collect();
            state.push(OpKind::Print { prefix: format!(" {prefix}: "), hex: false, signed }, &values, &[]);
            Ok(())
        });
    }

    /// Inline assembly on the elements of tiles, which are repeated to one shape.
    #[track_caller]
    pub fn inline_asm<'k>(&'k self, asm: &InlineAsm<'_>, operands: &[Tile<'k>]) -> Tile<'k> {
        let args: Vec<_> = operands.iter().map(|&operand| self.arg(operand)).collect();
        self.run("inline_asm", |state| {
            let mut values = args.iter().map(|&arg| state.value(arg)).collect::<Made<Vec<_>>>()?;
            let Some(&first) = values.first() else {
                return Err(Fault::rule("an operand is needed", &[]));
            };
            // Twice, so that what the last one adds reaches the first.
            let mut shaped = first;
            for _ in 0..2 {
                for value in &mut values {
                    (shaped, *value) = state.broadcast_pair(shaped, *value)?;
                }
            }
            let kind = OpKind::InlineAsm {
                asm: asm.asm.to_owned(),
                constraints: asm.constraints.to_owned(),
                pure: asm.pure,
                packed: asm.packed,
            };
            let ty = state.ty(shaped).with_elem(asm.result);
            Ok(state.make(kind, &values, ty))
        })
    }
}
