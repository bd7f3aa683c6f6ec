//! The tile compiler: tile IR to PTX text through LLVM's NVPTX target.
//!
//! The phases, in order ([`compile`]): operations that no instruction does, as others (`decompose`); facts about the numbers
//! in tiles ([`axis`]); the layouts that tiles are needed in (`assign`); LLVM IR of one thread's part of every tile (`lower`);
//! LLVM's optimiser and PTX (`target`).
//!
//! What is here: arithmetic, comparisons, selections and conversions of every element type; functions of singles and doubles, and libdevice's of singles by name; ranges, views, joins and
//! splits; loads and stores with masks; atomics; reductions, scans, gathers and histograms; `scf.for`, `scf.while`, `scf.if`, branches of the function
//! body; inline assembly; FP8 (on Ampere by integer arithmetic); `tt.dot` by fused multiply-adds, `mma.sync`, `wgmma` or `tcgen05.mma` (tf32, tf32x3,
//! halves, and FP8: as halves but for `tcgen05`), `tt.dot_scaled` by `tcgen05.mma` with block scales or as a product of 16-bit floats. What is not is
//! refused by name ([`Error::Unsupported`]): block pointers (the simplifier makes addresses of them), tensor descriptors, assertions and
//! prints, and calls: [`Program::inlined`](crate::tile::Program::inlined) makes one function of a kernel and what it calls.

mod anchor;
mod assign;
pub mod axis;
mod decompose;
pub mod layout;
mod lower;
mod meta;
mod pipeline;
mod placed;
mod resident;
mod target;
mod tensor;

use crate::ptx::{Arch, KernelMeta, Module, ModuleMeta, TritonMeta};
use crate::tile::{Func, Loc};

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The target.
    pub arch: Arch,
    /// Warps of a program (CTA): a power of two, 1 to 32.
    pub num_warps: u32,
    /// Stages of the loads of a loop that only a product reads: these run one turn less ahead of their use, as shared memory has room. At least 1,
    /// which is not ahead. A loop may say another number itself (`tt.num_stages`, of `tl.range`).
    pub num_stages: u32,
}

impl Options {
    /// For `arch`, with Triton's defaults: four warps, three stages.
    pub fn new(arch: Arch) -> Self {
        Self { arch, num_warps: 4, num_stages: 3 }
    }
}

/// Why a kernel cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option out of its range.
    #[error("num_warps = {0}: a program has 1, 2, 4, 8, 16 or 32 warps")]
    NumWarps(u32),
    /// An option out of its range.
    #[error("num_stages = {0}: a loop has at least one stage")]
    NumStages(u32),
    /// An operation, or a form of it, that the compiler does not have.
    #[error("{}{op} of {what} is not supported by the tile compiler", line(*loc))]
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

/// `line 7: `; nothing where the place is not known.
fn line(loc: Loc) -> String {
    if loc.line == 0 { String::new() } else { format!("line {}: ", loc.line) }
}

/// PTX and what a launcher must know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The text.
    pub ptx: String,
    /// What a launcher must know: the entry's name and parameters, warps, shared memory.
    pub meta: KernelMeta,
    /// What it was compiled for.
    pub options: Options,
}

impl Compiled {
    /// The metadata as Triton writes it.
    pub fn triton_meta(&self) -> TritonMeta {
        TritonMeta::new(&self.meta, self.options.arch, self.options.num_stages, meta::hash(self))
    }

    /// The metadata as JSON: Triton's keys, and ours ([`ModuleMeta`]) under `tilewright`.
    pub fn json(&self) -> serde_json::Value {
        let mut json = serde_json::to_value(self.triton_meta()).unwrap_or_default();
        json["tilewright"] = serde_json::to_value(self.clone().into_module().meta).unwrap_or_default();
        json
    }

    /// The text with its metadata, as every way of making a kernel gives it.
    pub fn into_module(self) -> Module {
        Module { ptx: self.ptx, meta: ModuleMeta { arch: self.options.arch, kernels: vec![self.meta] } }
    }
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
    if options.num_stages == 0 {
        return Err(Error::NumStages(0));
    }
    let source = func;
    let most = options.arch.max_shared_bytes();
    let mut func = func.clone();
    decompose::decompose(&mut func, options)?;
    let func = &func;
    let axes = axis::AxisInfo::of(func);
    let context = inkwell::context::Context::create();
    // As many stages of loops' loads as shared memory has room for.
    let mut most_stages = u32::MAX;
    loop {
        let layouts = assign::Assignment::of(func, &axes, options, most_stages)?;
        let lowered = lower::lower(&context, func, &axes, &layouts, options)?;
        if lowered.shared <= most {
            let ptx = target::emit(&lowered.module, options)?;
            return Ok(Compiled { ptx, meta: meta::of(source, options, lowered.shared), options: *options });
        }
        let Some(stages) = layouts.most_stages() else {
            return Err(Error::Shared { needed: lowered.shared, most, arch: options.arch });
        };
        most_stages = stages - 1;
    }
}
