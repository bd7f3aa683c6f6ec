//! Kimi Delta Attention: the intra-chunk solve of its chunked forward pass.
//!
//! Tokens are worked on in chunks of 64, a chunk in four sub-chunks of 16. For each chunk and value head, with G the gates summed from
//! the chunk's first token on (log₂ of the decay, so that it falls), and i, j rows of the chunk:
//!
//! - Aqk\[i, j\] = scale·Σ_c q\[i, c\]·k\[j, c\]·2^(G\[i, c\] − G\[j, c\]) for j ≤ i,
//! - A\[i, j\] = β\[i\]·Σ_c k\[i, c\]·k\[j, c\]·2^(G\[i, c\] − G\[j, c\]) for j < i,
//! - Akk = (I + A)⁻¹, unit lower triangular: the delta rule's corrections of a chunk in one product.
//!
//! [`IntraSolve`] makes the 16×16 blocks of Aqk *below* the diagonal ones, and the blocks of Akk on and below the diagonal, from q, k, G, β and the
//! diagonal blocks of A, which an earlier kernel has made. Each pair of sub-chunks is scaled about the gate of the row
//! sub-chunk's first token, and the inverse is merged from blocks ([`tiles::inter_solve`] has the algorithm; it is that of
//! flash-linear-attention's kernel of the same name). Nothing else is written: the blocks of Aqk on the diagonal, all blocks above it and
//! rows past a sequence's end stay as they were, so that a caller zeroes Akk once.
//!
//! | array | layout | type |
//! |---|---|---|
//! | q, k | \[tokens, H, K\] | bf16, f16 or f32 |
//! | g | \[tokens, HV, K\] | f32 |
//! | β | \[tokens, HV\] | f32, bf16 or f16 |
//! | diagonal | \[tokens, HV, 16\] | f32 |
//! | Aqk, Akk | \[tokens, HV, 64\] | as q |
//!
//! All are contiguous and begin at multiples of 16 bytes; tokens are batch·T, or those of all sequences where they are packed ([`Shape`]).
//! Offsets have 64 bits.
//!
//! ```
//! use tilewright::device::{Buffer, Device, EmulatedDevice};
//! use tilewright::kernels::kda::{Host, Inputs, IntraSolve, Options, Shape, reference};
//! use tilewright::ptx::DType;
//!
//! let device = EmulatedDevice::new();
//! // One sequence of 20 tokens, one head of 64 channels.
//! let shape = Shape::fixed(1, 20, 1, 64);
//! let k: Vec<_> = (0..20 * 64).map(|at| half::bf16::from_f32((at as f32).sin() / 8.0)).collect();
//! let wide: Vec<f32> = k.iter().map(|k| k.to_f32()).collect();
//! let gates: Vec<f32> = (0..20 * 64).map(|at| -0.1 * (at / 64) as f32).collect();
//! let beta = [0.5; 20];
//! let right = reference(&shape, 0.125, &Host { q: &wide, k: &wide, g: &gates, beta: &beta })?;
//! let diagonal: Vec<f32> = right.diagonal.iter().map(|&a| a as f32).collect();
//!
//! let solve = IntraSolve::plan(shape, &Options { scale: Some(0.125), ..Options::for_device(&device) })?;
//! let k = Buffer::from_slice(&device, &k, "k")?;
//! let g = Buffer::from_slice(&device, &gates, "g")?;
//! let beta = Buffer::from_slice(&device, &beta, "beta")?;
//! let diagonal = Buffer::from_slice(&device, &diagonal, "diagonal")?;
//! let mut aqk = Buffer::zeroed(&device, solve.shape().elements_out(), "Aqk")?;
//! let mut akk = Buffer::zeroed(&device, solve.shape().elements_out(), "Akk")?;
//! let inputs = Inputs { q: &k, k: &k, g: &g, beta: &beta, diagonal: &diagonal, chunks: None };
//! solve.solve(&device, &inputs, &mut aqk, &mut akk)?;
//!
//! // Row 19, column 3: both the product and the inverse.
//! let at = 19 * 64 + 3;
//! assert!((aqk.to_vec()?[at].to_f64() - right.aqk[at]).abs() < 0.01);
//! assert!((akk.to_vec()?[at].to_f64() - right.akk[at]).abs() < 0.01);
//! # Ok::<(), tilewright::kernels::kda::Error>(())
//! ```

mod error;
mod reference;
mod shape;
pub mod tiles;

use std::sync::Arc;

pub use error::Error;
pub use reference::{Host, Reference, reference};
pub use shape::{Sequences, Shape};

use crate::device::{Arg, Buffer, Device, Element, Plan, PlanArg, Replay, SharedModule};
use crate::kernels::TileProgram;
use crate::ptx::{Arch, DType};
use crate::tile::{InputPrecision, Scalar};
use tiles::AnyInterSolve;

/// Tokens of a chunk.
pub const CHUNK: usize = 64;
/// Tokens of a sub-chunk: the order of the diagonal blocks.
pub const SUB_CHUNK: usize = 16;

/// How the block products of the inverse are made. (The products over the channels are TF32 always, as in the kernel that this stands
/// in for.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// TF32 tensor cores: errors of the order of a bfloat's rounding.
    #[default]
    Tf32,
    /// Three TF32 products: near the precision of singles.
    Tf32x3,
    /// Singles with fused multiply-add.
    Ieee,
}

/// What a plan is made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The gate is bounded: the diagonal blocks that come in are inverses of I + A's already. Else they are of A itself, strictly lower,
    /// and are inverted, in singles' precision whatever that of the block products is.
    pub safe_gate: bool,
    /// How the block products of the inverse are made.
    pub precision: Precision,
    /// The factor of Aqk; 1/√K where it is none.
    pub scale: Option<f32>,
    /// The type of q, k, Aqk and Akk: bf16, fp16 or fp32.
    pub io: DType,
    /// The type of β: fp32, bf16 or fp16.
    pub beta: DType,
    /// The target of the kernel.
    pub arch: Arch,
}

impl Default for Options {
    /// Raw diagonal blocks, TF32, 1/√K, bf16 with β in fp32, for sm_80, which every supported card runs.
    fn default() -> Self {
        Self {
            safe_gate: false,
            precision: Precision::Tf32,
            scale: None,
            io: DType::Bf16,
            beta: DType::Fp32,
            arch: Arch::Sm80,
        }
    }
}

impl Options {
    /// The default for the newest target that `device` runs.
    pub fn for_device<D: Device + ?Sized>(device: &D) -> Self {
        Self { arch: device.properties().arch, ..Self::default() }
    }

    /// The tile program for these options.
    fn program(&self, varlen: bool) -> Result<AnyInterSolve, Error> {
        let precision = match self.precision {
            Precision::Tf32 => InputPrecision::Tf32,
            Precision::Tf32x3 => InputPrecision::Tf32x3,
            Precision::Ieee => InputPrecision::Ieee,
        };
        let (io, beta) = (scalar("io", self.io)?, scalar("beta", self.beta)?);
        Ok(AnyInterSolve { block_k: AnyInterSolve::BLOCK_K, varlen, safe_gate: self.safe_gate, precision, io, beta })
    }
}

fn scalar(field: &str, ty: DType) -> Result<Scalar, Error> {
    match ty {
        DType::Bf16 => Ok(Scalar::Bf16),
        DType::Fp16 => Ok(Scalar::F16),
        DType::Fp32 => Ok(Scalar::F32),
        _ => Err(Error::Shape {
            field: field.to_owned(),
            value: ty.to_string(),
            rule: "it must be bf16, fp16 or fp32".to_owned(),
        }),
    }
}

/// The device's arrays that a solve reads. `T` is the type of q and k, `B` that of β, as the plan's options say.
#[derive(Debug)]
pub struct Inputs<'a, T: Element, B: Element> {
    /// Queries \[tokens, H, K\].
    pub q: &'a Buffer<T>,
    /// Keys \[tokens, H, K\].
    pub k: &'a Buffer<T>,
    /// Gates \[tokens, HV, K\]: log₂ of the decays, summed from each chunk's first token on. (Sums of natural logarithms times 1/ln 2.)
    pub g: &'a Buffer<f32>,
    /// β \[tokens, HV\].
    pub beta: &'a Buffer<B>,
    /// The diagonal blocks \[tokens, HV, 16\]: of A, or the inverses of I + A's ([`Options::safe_gate`]).
    pub diagonal: &'a Buffer<f32>,
    /// Where sequences are packed: [`IntraSolve::chunk_list`].
    pub chunks: Option<&'a ChunkList>,
}

/// The sequences and chunks of a plan of packed sequences, on a device.
#[derive(Debug)]
pub struct ChunkList {
    /// What the list was made from.
    list: Arc<Packed>,
    cu_seqlens: Buffer<i64>,
    chunk_indices: Buffer<i64>,
}

/// Packed sequences on the host.
#[derive(Debug, PartialEq, Eq)]
struct Packed {
    cu_seqlens: Vec<i64>,
    /// \[chunks, 2\]: sequence, and chunk inside it.
    chunk_indices: Vec<i64>,
}

/// A planned solve: made once, run many times, on any device that runs its target, from any thread.
#[derive(Clone, Debug)]
pub struct IntraSolve {
    shape: Shape,
    options: Options,
    plan: Plan,
    packed: Option<Arc<Packed>>,
}

impl IntraSolve {
    /// Chooses the kernel for `shape` and `options`: one that comes compiled, else (feature `llvm`) one that is compiled now.
    ///
    /// # Errors
    /// When a field of the shape or of the options breaks a rule (the message names it), or there is no kernel for the options in
    /// this build.
    pub fn plan(shape: Shape, options: &Options) -> Result<Self, Error> {
        shape.check()?;
        let packed = match &shape.sequences {
            Sequences::Fixed { .. } => None,
            Sequences::Packed { cu_seqlens } => {
                let pairs = shape.chunks().into_iter().flat_map(|(sequence, chunk)| [sequence as i64, chunk as i64]);
                Some(Arc::new(Packed { cu_seqlens: cu_seqlens.clone(), chunk_indices: pairs.collect() }))
            }
        };
        let program = options.program(packed.is_some())?;
        let mut plan = Plan::builder(&format!(
            "intra-chunk solve of {} tokens × {} heads × {} channels",
            shape.tokens(),
            shape.value_heads,
            shape.key_dim
        ));
        let q = plan.input("q", options.io, shape.elements_qk());
        let k = plan.input("k", options.io, shape.elements_qk());
        let g = plan.input("g", DType::Fp32, shape.elements_g());
        let beta = plan.input("beta", options.beta, shape.elements_beta());
        let diagonal = plan.input("diagonal", DType::Fp32, shape.elements_diagonal());
        let aqk = plan.output("Aqk", options.io, shape.elements_out());
        let akk = plan.output("Akk", options.io, shape.elements_out());
        let lists = packed.as_deref().map(|packed| {
            [("cu_seqlens", &packed.cu_seqlens), ("chunk_indices", &packed.chunk_indices)]
                .map(|(name, list)| plan.input(name, DType::I64, list.len()))
        });
        // What is checked above fits: tokens, heads and chunks have 31 bits.
        let (chunks, batch, tokens) = match &shape.sequences {
            Sequences::Fixed { batch, tokens } => (tokens.div_ceil(CHUNK), *batch, *tokens as i32),
            // The kernel finds each sequence's own length.
            Sequences::Packed { .. } => (packed.as_deref().map_or(0, |packed| packed.chunk_indices.len() / 2), 1, 0),
        };
        if chunks > 0 && batch > 0 {
            let module: SharedModule = program.kernel()?.module(options.arch)?.into();
            let name = module.only_kernel()?.name.clone();
            let scale = options.scale.unwrap_or((shape.key_dim as f32).sqrt().recip());
            let mut args: Vec<PlanArg> =
                vec![q.into(), k.into(), g.into(), beta.into(), aqk.into(), diagonal.into(), akk.into(), scale.into()];
            args.extend(lists.into_iter().flatten().map(PlanArg::from));
            let numbers = [tokens, shape.heads as i32, shape.value_heads as i32, shape.key_dim as i32];
            args.extend(numbers.map(PlanArg::from));
            plan.launch_over(&module, &name, [chunks as u32, (batch * shape.value_heads) as u32, 1], &args)?;
        }
        Ok(Self { shape, options: *options, plan: plan.build(), packed })
    }

    /// The shape that it was planned for.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The options that it was planned with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Its buffers and launches, to look at. (`Display` prints them as a table.)
    pub fn launches(&self) -> &Plan {
        &self.plan
    }

    /// Copies the lists of sequences and chunks to `device`: `None` where the sequences are not packed.
    ///
    /// # Errors
    /// When the device has not enough memory, or does not work.
    pub fn chunk_list<D: Device + ?Sized>(&self, device: &D) -> Result<Option<ChunkList>, Error> {
        let Some(packed) = &self.packed else { return Ok(None) };
        Ok(Some(ChunkList {
            list: Arc::clone(packed),
            cu_seqlens: Buffer::from_slice(device, &packed.cu_seqlens, "cu_seqlens")?,
            chunk_indices: Buffer::from_slice(device, &packed.chunk_indices, "chunk_indices")?,
        }))
    }

    /// Queues the solve. Returns without waiting. What is written and what is not: see the [module](self).
    ///
    /// # Errors
    /// When a buffer is too short, of another type than the options say, lies on another device or overlaps an output; when the chunk
    /// list is missing or another plan's; or when the device refuses the kernel.
    pub fn solve<D: Device + ?Sized, T: Element, B: Element>(
        &self,
        device: &D,
        inputs: &Inputs<T, B>,
        aqk: &mut Buffer<T>,
        akk: &mut Buffer<T>,
    ) -> Result<(), Error> {
        Ok(device.run(&self.plan, &self.bind(inputs, aqk, akk)?)?)
    }

    /// Captures the solve with its buffers, to be replayed with the least work for the host: a CUDA graph on a GPU.
    ///
    /// # Errors
    /// As [`IntraSolve::solve`].
    pub fn capture<D: Device + ?Sized, T: Element, B: Element>(
        &self,
        device: &D,
        inputs: &Inputs<T, B>,
        aqk: &mut Buffer<T>,
        akk: &mut Buffer<T>,
    ) -> Result<Box<dyn Replay>, Error> {
        Ok(device.capture(&self.plan, &self.bind(inputs, aqk, akk)?)?)
    }

    /// The buffers in the order of the plan's bindings.
    fn bind<T: Element, B: Element>(
        &self,
        inputs: &Inputs<T, B>,
        aqk: &mut Buffer<T>,
        akk: &mut Buffer<T>,
    ) -> Result<Vec<Arg>, Error> {
        let Inputs { q, k, g, beta, diagonal, chunks } = *inputs;
        let mut args: Vec<Arg> =
            vec![q.into(), k.into(), g.into(), beta.into(), diagonal.into(), aqk.into(), akk.into()];
        if let Some(packed) = &self.packed {
            let chunks = chunks.ok_or(Error::ChunkList { found: "there is no chunk list" })?;
            // The kernel trusts the list: it must be that of these lengths.
            if chunks.list != *packed {
                return Err(Error::ChunkList { found: "the chunk list is of other sequences" });
            }
            args.extend([(&chunks.cu_seqlens).into(), (&chunks.chunk_indices).into()]);
        }
        Ok(args)
    }
}
