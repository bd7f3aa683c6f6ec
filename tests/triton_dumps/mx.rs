//! MXFP8: quantisers, scales, casts, the block-scaled panel update.
