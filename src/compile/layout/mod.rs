//! Layouts of tiles over the registers, lanes and warps of a program.
//!
//! Blocked layouts, operands and accumulators of tensor cores, slices, transposes and broadcasts are all linear maps over bits
//! ([`Layout`]); after "Linear Layouts" (arXiv 2505.23819).

mod exchange;
mod gf2;
mod linear;
mod swizzle;

pub use exchange::{Exchange, Passage, Side};
pub use linear::Layout;
pub use swizzle::{Major, Swizzled};
