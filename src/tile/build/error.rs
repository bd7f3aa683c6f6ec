//! What is wrong with a program, and where it was written.

use std::fmt;
use std::panic::Location;

use crate::tile::Type;

/// The first mistake in a tile program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The kernel.
    pub kernel: String,
    /// The operation, by its name in this builder.
    pub operation: &'static str,
    /// The types of its operands, as far as they matter.
    pub types: Vec<Type>,
    /// The rule that was broken.
    pub rule: String,
    /// Where the operation is in the Rust source.
    pub location: &'static Location<'static>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`: `{}` at {}: {}", self.kernel, self.operation, self.location, self.rule)?;
        for (index, ty) in self.types.iter().enumerate() {
            write!(f, "{}{ty}", if index == 0 { " (operands: " } else { ", " })?;
        }
        f.write_str(if self.types.is_empty() { "" } else { ")" })
    }
}

impl std::error::Error for BuildError {}

/// Why an operation was not made.
#[derive(Debug)]
pub(super) enum Fault {
    /// An operand came from a mistake that is recorded already.
    Poison,
    /// A rule is broken.
    Rule {
        /// The rule.
        rule: String,
        /// The types of the operands that break it.
        types: Vec<Type>,
    },
}

impl Fault {
    /// A broken rule.
    pub(super) fn rule(rule: impl Into<String>, types: &[Type]) -> Self {
        Fault::Rule { rule: rule.into(), types: types.to_vec() }
    }
}

impl From<crate::tile::ShapeError> for Fault {
    fn from(error: crate::tile::ShapeError) -> Self {
        Fault::rule(error.to_string(), &[])
    }
}

/// What an operation gives, or why it gives nothing.
pub(super) type Made<T> = Result<T, Fault>;
