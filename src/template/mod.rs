//! The PTX templates: one parameter struct for each file in `templates/`, checked before any text is made.
//!
//! A template loops and names; what needs arithmetic (pitches, offsets, groups of pivots) is computed here and tested
//! here. Every struct has `instantiate`, which gives the same bytes for the same parameters on every machine.
//!
//! ```
//! use tilewright::{ptx::Arch, template::PotrfWarp};
//!
//! let module = PotrfWarp { n: 32, rank: 4, warps: 4 }.instantiate(Arch::Sm90a)?;
//! assert!(module.ptx.starts_with(".version 8.0\n.target sm_90a\n"));
//! # Ok::<(), tilewright::template::ParamError>(())
//! ```

mod layout;
mod micro_potrf;
mod panel_solve;
mod potrf_block;
mod potrf_diag;
mod potrf_rows;
mod potrf_warp;
mod schur_wgmma;
mod text;
mod warp_tile;

pub use layout::{PivotGroup, bank_pitch, pivot_groups};
pub use micro_potrf::MicroPotrf;
pub use panel_solve::PanelSolve;
pub use potrf_block::PotrfBlock;
pub use potrf_diag::PotrfDiag;
pub use potrf_rows::PotrfRows;
pub use potrf_warp::PotrfWarp;
pub use schur_wgmma::{Operand, SchurWgmma};

use crate::ptx::{Arch, DType, ParamMeta};

/// A parameter that breaks a rule of its template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// A value that the template does not take.
    #[error("{kernel}: {parameter} = {value} is not allowed: {rule}")]
    Value {
        /// The template's name.
        kernel: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// The value given.
        value: u64,
        /// The rule that it breaks.
        rule: String,
    },
    /// The parameters together need more than the target has.
    #[error("{kernel}: {what} needs {needed} bytes of shared memory, and {arch} has {available} for a CTA")]
    Shared {
        /// The template's name.
        kernel: &'static str,
        /// The parameters that set the size.
        what: String,
        /// Bytes needed.
        needed: u32,
        /// The target.
        arch: Arch,
        /// Bytes that the target has.
        available: u32,
    },
    /// The target lacks an instruction that the template is made of.
    #[error("{kernel} needs {what}, which {arch} does not have: it is for {targets}")]
    Target {
        /// The template's name.
        kernel: &'static str,
        /// What it needs.
        what: &'static str,
        /// The target asked for.
        arch: Arch,
        /// The targets that have it.
        targets: &'static str,
    },
    /// The template's text could not be written out; a fault of ours.
    #[error("{kernel}: the template failed to render: {message}")]
    Render {
        /// The template's name.
        kernel: &'static str,
        /// The engine's message.
        message: String,
    },
}

/// Checks that `value` is one of `allowed`.
fn one_of(kernel: &'static str, parameter: &'static str, value: u32, allowed: &[u32]) -> Result<(), ParamError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let list = allowed.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    Err(ParamError::Value { kernel, parameter, value: value.into(), rule: format!("it must be one of {list}") })
}

/// Checks that `low <= value <= high`.
fn within(kernel: &'static str, parameter: &'static str, value: u32, low: u32, high: u32) -> Result<(), ParamError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(ParamError::Value { kernel, parameter, value: value.into(), rule: format!("it must be from {low} to {high}") })
}

/// The parameters of the kernels that factor whole matrices, in the order of their entries.
fn whole_matrix_params() -> Vec<ParamMeta> {
    vec![
        ParamMeta::input("a", DType::Fp32),
        ParamMeta::output("l", DType::Fp32),
        ParamMeta::output("info", DType::I32),
        ParamMeta::scalar("stride_a", DType::I64),
        ParamMeta::scalar("stride_l", DType::I64),
        ParamMeta::scalar("lda", DType::I32),
        ParamMeta::scalar("ldl", DType::I32),
        ParamMeta::scalar("batch", DType::I32),
    ]
}
