//! Errors of the family.

use crate::device;
use crate::template::ParamError;

/// Why a factorisation could not be planned or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A shape that cannot be.
    #[error("Cholesky: {field} is {value}: {rule}")]
    Shape {
        /// The field of the shape.
        field: &'static str,
        /// Its value.
        value: usize,
        /// The rule that it breaks.
        rule: String,
    },
    /// An order that no kernel takes yet.
    #[error("Cholesky: n is {n}, which is not supported: the largest order is {limit}")]
    Unsupported {
        /// The order.
        n: usize,
        /// The largest that there is.
        limit: usize,
    },
    /// A slice of the host that is too short for the shape.
    #[error("Cholesky: `{name}` has {found} elements, and the shape needs {needed}")]
    Length {
        /// The slice.
        name: &'static str,
        /// Its length.
        found: usize,
        /// The least that will do.
        needed: usize,
    },
    /// A template refused its parameters: a fault of the selection table.
    #[error(transparent)]
    Template(#[from] ParamError),
    /// The device refused or failed.
    #[error(transparent)]
    Device(#[from] device::Error),
}
