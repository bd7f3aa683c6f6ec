//! A kernel and a specialisation to a [`Module`]: by name and settings for the command line and `build.rs`, and the standard
//! specialisations that are checked in under `generated/`.
//!
//! ```
//! use tilewright::{generate, ptx::Arch};
//!
//! let settings = [("n".to_owned(), "32".to_owned())].into_iter().collect();
//! let module = generate::emit("potrf_warp", &settings, Arch::Sm90a)?;
//! assert_eq!(module.meta.kernels[0].num_warps, 4);
//! # Ok::<(), generate::Error>(())
//! ```

mod kernels;
mod tiles;
mod tree;

use indexmap::IndexMap;

pub use kernels::{Allowed, KernelInfo, Setting, Specialisation, kernels};
pub use tiles::{SettingValue, TileKernel};
pub use tree::{Manifest, ManifestEntry, standard, tree};

use crate::ptx::{Arch, Module, ParseError};
use crate::template::ParamError;

/// Why a kernel could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No kernel has this name.
    #[error("unknown kernel `{name}`: expected one of {known}")]
    UnknownKernel {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The kernel has no such setting.
    #[error("{kernel} has no setting `{setting}`: expected one of {known}")]
    UnknownSetting {
        /// The kernel.
        kernel: &'static str,
        /// The setting given.
        setting: String,
        /// The settings that it has.
        known: String,
    },
    /// A setting's value is no number.
    #[error("{kernel}: {setting} = `{value}` is not a whole number")]
    NotANumber {
        /// The kernel.
        kernel: &'static str,
        /// The setting.
        setting: String,
        /// The text given.
        value: String,
    },
    /// A setting's value is none of its words.
    #[error("{kernel}: {setting} = `{value}` is not allowed: it must be {known}")]
    UnknownWord {
        /// The kernel.
        kernel: &'static str,
        /// The setting.
        setting: String,
        /// The text given.
        value: String,
        /// The words there are.
        known: String,
    },
    /// A setting without a default is missing.
    #[error("{kernel} needs the setting `{setting}`: {meaning}, {allowed}")]
    Missing {
        /// The kernel.
        kernel: &'static str,
        /// The setting.
        setting: &'static str,
        /// What it means.
        meaning: &'static str,
        /// What it may be.
        allowed: Allowed,
    },
    /// A parameter breaks a rule of its template.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// The target lacks what a tile program needs.
    #[error("{kernel} needs {what}, which {arch} does not have: the least target is {least}")]
    Target {
        /// The entry.
        kernel: String,
        /// What it needs.
        what: &'static str,
        /// The target asked for.
        arch: Arch,
        /// The least that has it.
        least: Arch,
    },
    /// A tile program that is not checked in, in a build without the tile compiler.
    #[error(
        "{kernel} for {arch} is not among the kernels that come compiled, and this build has no tile compiler: build with \
         feature `llvm`"
    )]
    NoCompiler {
        /// The entry with its settings.
        kernel: String,
        /// The target asked for.
        arch: Arch,
    },
    /// The tile compiler refuses a program.
    #[error("{kernel} for {arch}: {message}")]
    Compile {
        /// The entry.
        kernel: String,
        /// The target.
        arch: Arch,
        /// What the compiler says.
        message: String,
    },
    /// Settings of a tile program that are no struct of numbers, switches and words.
    #[error("{kernel}: its settings are not numbers, switches and words by name: {message}")]
    Settings {
        /// The entry.
        kernel: String,
        /// What serde says.
        message: String,
    },
    /// Two standard specialisations of one file name: a fault of ours.
    #[error("two kernels would be written to {file}")]
    FileTaken {
        /// The file.
        file: String,
    },
    /// A kernel's text is not PTX; a fault of ours.
    #[error("{file}: {fault}")]
    Unreadable {
        /// The file that it would be.
        file: String,
        /// What the parser says.
        fault: ParseError,
    },
    /// The metadata could not be written as JSON; a fault of ours.
    #[error("the manifest could not be written: {0}")]
    Manifest(String),
}

/// Makes the kernel `kernel` for `arch`; settings that are not given take their defaults.
///
/// # Errors
/// An unknown kernel or setting, a value that is no number or out of its range, a missing setting that has no default.
pub fn emit(kernel: &str, settings: &IndexMap<String, String>, arch: Arch) -> Result<Module, Error> {
    Ok(Specialisation::from_settings(kernel, settings)?.instantiate(arch)?)
}
