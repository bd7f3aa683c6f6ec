//! Triton's own PTX for the seeds' kernels, unchanged, on the emulator with all checks on, against plain Rust oracles of
//! what each kernel computes.

#[path = "../support/mod.rs"]
mod support;

mod bounded;
mod cholesky_large;
mod cholesky_small;
mod harness;
mod kda;
mod matrices;
mod moves;
mod mx;
