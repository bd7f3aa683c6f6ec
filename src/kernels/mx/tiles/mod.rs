//! Tile programs of block-scaled and scaled FP8: quantisers, and a product of quantised matrices.
//!
//! - [`quant`]: FP32 to MXFP8 in one pass, the scales in rows or in the layout that Blackwell's tensor cores read.
//! - [`per_tensor`]: the older way, one scale for a matrix: largest magnitudes of tiles, then a scaled cast.
//! - [`update`]: a matrix less the product of two quantised matrices.

pub mod per_tensor;
pub mod quant;
pub mod update;
