//! What tile programs have in common: a checked parameter struct that builds one kernel.

use std::fmt::Display;

use serde::Serialize;

use crate::generate::{self, TileKernel};
use crate::tile::Func;
use crate::tile::build::BuildError;

/// Why a tile program could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// A parameter that breaks a rule.
    #[error("{kernel}: {parameter} = {value} is not allowed: {rule}")]
    Parameter {
        /// The kernel.
        kernel: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: String,
        /// The rule that it breaks.
        rule: String,
    },
    /// The program itself is wrong: a fault of ours.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The parameters cannot be written down: a fault of ours.
    #[error(transparent)]
    Generate(#[from] generate::Error),
}

/// A kernel written as a tile program, with its parameters: numbers, switches and words, which serde writes down.
pub trait TileProgram: Serialize {
    /// The name of the entry.
    const NAME: &'static str;

    /// The warps of a program, as it was tuned.
    fn num_warps(&self) -> u32;

    /// The kernel.
    ///
    /// # Errors
    /// A parameter that breaks a rule, named with its value.
    fn program(&self) -> Result<Func, ProgramError>;

    /// The kernel with what modules are made from.
    ///
    /// # Errors
    /// As [`TileProgram::program`].
    fn kernel(&self) -> Result<TileKernel, ProgramError>
    where
        Self: Sized,
    {
        Ok(TileKernel::new(self.program()?, self.num_warps(), self)?)
    }
}

/// Refuses a parameter unless `holds`.
pub(crate) fn check(
    kernel: &'static str,
    parameter: &'static str,
    value: impl Display,
    holds: bool,
    rule: &str,
) -> Result<(), ProgramError> {
    if holds {
        return Ok(());
    }
    Err(ProgramError::Parameter { kernel, parameter, value: value.to_string(), rule: rule.to_owned() })
}

/// Checks that an extent of a tile is a power of two from `low` to `high`.
pub(crate) fn check_extent(
    kernel: &'static str,
    parameter: &'static str,
    value: u32,
    low: u32,
    high: u32,
) -> Result<(), ProgramError> {
    let holds = value.is_power_of_two() && (low..=high).contains(&value);
    check(kernel, parameter, value, holds, &format!("it must be a power of two from {low} to {high}"))
}
