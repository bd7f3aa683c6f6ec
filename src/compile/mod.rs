//! The tile compiler: tile IR to PTX text through LLVM's NVPTX target.
//!
//! The phases, in order ([`compile`]): operations that no instruction does, as others (`decompose`); facts about the numbers
//! in tiles ([`axis`]); the layouts that tiles are needed in (`assign`); LLVM IR of one thread's part of every tile (`lower`);
//! LLVM's optimiser and PTX (`target`).
//!
//! What is here: arithmetic, comparisons, selections and conversions of integers and of f16, bf16, f32, f64 and FP8; ranges,
//! views, loads and stores with masks, reductions, `scf.for`, `scf.if`, branches of the function body, `tt.dot` in IEEE
//! singles or by `mma.sync` (tf32, tf32x3, halves), and `tt.dot_scaled` of FP8 as a product of bfloats. What is not is refused
//! by name ([`Error::Unsupported`]).

mod assign;
pub mod axis;
mod decompose;
pub mod layout;
mod lower;
mod target;
mod tensor;

use crate::ptx::Arch;
use crate::tile::{Func, Loc};

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The target.
    pub arch: Arch,
    /// Warps of a program (CTA): a power of two, 1 to 32.
    pub num_warps: u32,
}

impl Options {
    /// For `arch`, with Triton's default of four warps.
    pub fn new(arch: Arch) -> Self {
        Self { arch, num_warps: 4 }
    }
}

/// Why a kernel cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option out of its range.
    #[error("num_warps = {0}: a program has 1, 2, 4, 8, 16 or 32 warps")]
    NumWarps(u32),
    /// An operation, or a form of it, that the compiler does not have.
    #[error("line {line}: {op} of {what} is not supported by the tile compiler", line = loc.line)]
    Unsupported {
        /// The operation's name.
        op: &'static str,
        /// Its types or attributes.
        what: String,
        /// Where it is.
        loc: Loc,
    },
    /// More shared memory than the target has.
    #[error("the kernel needs {needed} bytes of shared memory; {arch} has {most} for a CTA", arch = arch.name())]
    Shared {
        /// Bytes needed.
        needed: u32,
        /// Bytes that there are.
        most: u32,
        /// The target.
        arch: Arch,
    },
    /// LLVM refused what the compiler made: a fault of the compiler.
    #[error("internal: LLVM: {0}")]
    Llvm(String),
}

/// PTX and what a launcher must know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The text.
    pub ptx: String,
    /// The entry's name.
    pub name: String,
    /// Warps of a CTA.
    pub num_warps: u32,
    /// Dynamic shared memory, in bytes.
    pub shared: u32,
}

/// The version of the LLVM that is linked: `22.1.8`. Another may compile a kernel to other text.
pub fn llvm_version() -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    format!("{major}.{minor}.{patch}")
}

/// Compiles one kernel. The entry has the function's parameters in their order, then Triton's two scratch pointers.
///
/// # Errors
/// [`Error`], which names the operation and its line.
pub fn compile(func: &Func, options: &Options) -> Result<Compiled, Error> {
    if !(1..=32).contains(&options.num_warps) || !options.num_warps.is_power_of_two() {
        return Err(Error::NumWarps(options.num_warps));
    }
    let mut func = func.clone();
    decompose::decompose(&mut func)?;
    let func = &func;
    let axes = axis::AxisInfo::of(func);
    let layouts = assign::Assignment::of(func, &axes, options)?;
    let context = inkwell::context::Context::create();
    let lowered = lower::lower(&context, func, &axes, &layouts, options)?;
    let most = options.arch.max_shared_bytes();
    if lowered.shared > most {
        return Err(Error::Shared { needed: lowered.shared, most, arch: options.arch });
    }
    let ptx = target::emit(&lowered.module, options)?;
    Ok(Compiled { ptx, name: func.name.clone(), num_warps: options.num_warps, shared: lowered.shared })
}
