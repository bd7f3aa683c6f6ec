//! The kernel families and their host API. Each makes [plans](crate::device::Plan) from generated kernels, and leaves
//! the device to [`crate::device`]. Their tile programs ([`TileProgram`]) are written with [`crate::tile::build`].

pub mod cholesky;
pub mod kda;
pub mod mx;
mod program;
mod standard;

pub use program::{ProgramError, TileProgram};
pub use standard::standard;
