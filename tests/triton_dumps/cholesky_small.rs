//! The small Cholesky kernels: whole matrices in a warp, diagonal blocks, panel solves, moves.
