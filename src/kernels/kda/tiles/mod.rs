//! Tile programs of KDA, written with [`crate::tile::build`].
//!
//! - [`inter_solve`]: the off-diagonal blocks of Aqk, and (I + A)⁻¹ of each chunk from its diagonal blocks.

pub mod inter_solve;

pub use inter_solve::{AnyInterSolve, InterSolve};
