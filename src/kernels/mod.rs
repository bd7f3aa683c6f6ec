//! The kernel families and their host API. Each makes [plans](crate::device::Plan) from generated kernels, and leaves
//! the device to [`crate::device`].

pub mod cholesky;
