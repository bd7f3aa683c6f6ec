//! The blocked Cholesky kernels: fused panels, trailing updates, Schur complements.
