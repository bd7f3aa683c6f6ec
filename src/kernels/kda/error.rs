//! Errors of the family.

use crate::kernels::ProgramError;
use crate::{device, generate};

/// Why a solve could not be planned or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A shape or an option that cannot be.
    #[error("KDA: {field} is {value}: {rule}")]
    Shape {
        /// The field, with its index where it is a list.
        field: String,
        /// Its value.
        value: String,
        /// The rule that it breaks.
        rule: String,
    },
    /// A slice of the host that is too short for the shape, or too long.
    #[error("KDA: `{name}` has {found} elements, and the shape needs {needed}")]
    Length {
        /// The slice.
        name: &'static str,
        /// Its length.
        found: usize,
        /// The length that it must have.
        needed: usize,
    },
    /// A solve of packed sequences without the list of their chunks, or with another plan's.
    #[error("KDA: {found}: a solve of packed sequences needs what `IntraSolve::chunk_list` of its plan gave")]
    ChunkList {
        /// What was given.
        found: &'static str,
    },
    /// No kernel for these options in this build.
    #[error(transparent)]
    Generate(#[from] generate::Error),
    /// The tile program refused its parameters: a fault of ours.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The device refused or failed.
    #[error(transparent)]
    Device(#[from] device::Error),
}
