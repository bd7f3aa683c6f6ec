//! Batched Cholesky factorisation: A = L·Lᵀ for symmetric positive definite matrices, from many small ones to a few large.
//!
//! FP32, row-major. Only the lower triangle of A is read; L gets zeros above its diagonal. Every matrix has an `info`,
//! LAPACK's: 0, or the 1-based index of the first pivot that is not a positive finite number. A matrix that fails
//! leaves its own factor unspecified on and below the diagonal, and disturbs no other.
//!
//! [`Cholesky::plan`] chooses and makes the kernels once; [`Cholesky::factor`] queues it on a device and returns, `info`
//! staying on the device until somebody copies it out.
//!
//! ```
//! use tilewright::device::{self, Buffer};
//! use tilewright::kernels::cholesky::{Cholesky, Options, Shape, residual};
//!
//! // The emulator here; `device::best()` takes the GPU where there is one.
//! let (device, _why) = device::by_name("emulator")?;
//!
//! // Two 3-by-3 matrices; the second is not positive definite from its third pivot on.
//! let matrices: [f32; 18] = [
//!     4.0, 2.0, 2.0,   2.0, 5.0, 3.0,   2.0, 3.0, 6.0,
//!     1.0, 0.0, 0.0,   0.0, 1.0, 0.0,   0.0, 0.0, -1.0,
//! ];
//! let cholesky = Cholesky::plan(Shape::contiguous(2, 3), &Options::for_device(&device))?;
//! let a = Buffer::from_slice(&device, &matrices, "a")?;
//! let mut l = Buffer::uninit(&device, matrices.len(), "l")?;
//! let mut info = Buffer::uninit(&device, 2, "info")?;
//! cholesky.factor(&device, &a, &mut l, &mut info)?;
//!
//! assert_eq!(info.to_vec()?, [0, 3]);
//! let factors = l.to_vec()?;
//! assert_eq!(factors[..9], [2.0, 0.0, 0.0, 1.0, 2.0, 0.0, 1.0, 1.0, 2.0]);
//! assert_eq!(residual(&matrices[..9], &factors[..9], 3), 0.0);
//! # Ok::<(), tilewright::kernels::cholesky::Error>(())
//! ```

mod blocked;
mod error;
mod residual;
mod select;
mod shape;
pub mod tiles;

pub use error::Error;
pub use residual::{residual, residuals};
pub use shape::Shape;

use blocked::Bound;
use select::Choice;

use crate::device::{Arg, Buffer, Device, Plan, Replay, SharedModule};
use crate::ptx::{Arch, DType};

/// How exact the arithmetic is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// FP32-grade: a residual as small as the vendor's. Products on tensor cores are sums of three.
    #[default]
    Full,
    /// May take products at reduced precision where that is faster. No plan does yet: what `Full` runs is run.
    Fast,
}

/// What a plan is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How exact the arithmetic is.
    pub precision: Precision,
    /// The target of the kernels.
    pub arch: Arch,
    /// Multiprocessors of the device, over which the work of larger orders is dealt out. Any number gives the same factors.
    pub multiprocessors: u32,
}

impl Default for Options {
    /// Full precision for sm_80, which every supported card runs, and an A100's 108 multiprocessors.
    fn default() -> Self {
        Self { precision: Precision::Full, arch: Arch::Sm80, multiprocessors: 108 }
    }
}

impl Options {
    /// Full precision for the newest target that `device` runs.
    pub fn for_device<D: Device + ?Sized>(device: &D) -> Self {
        let properties = device.properties();
        Self { arch: properties.arch, multiprocessors: properties.multiprocessors, ..Self::default() }
    }
}

/// A planned factorisation: made once, run many times, on any device that runs its target, from any thread.
#[derive(Clone, Debug)]
pub struct Cholesky {
    shape: Shape,
    options: Options,
    plan: Plan,
}

impl Cholesky {
    /// The largest order that there are kernels for on a target.
    pub fn largest_order(arch: Arch) -> usize {
        select::largest(arch)
    }

    /// Chooses and makes the kernels for `shape`.
    ///
    /// # Errors
    /// When a field of the shape breaks a rule (the message names it), or n is over the largest order.
    pub fn plan(shape: Shape, options: &Options) -> Result<Self, Error> {
        let limit = Self::largest_order(options.arch);
        if shape.n > limit {
            return Err(Error::Unsupported { n: shape.n, limit });
        }
        shape.check()?;
        let mut plan = Plan::builder(&format!("cholesky of {} × {}", shape.batch, shape.n));
        let a = plan.input("a", DType::Fp32, shape.elements_a()?);
        let l = plan.output("l", DType::Fp32, shape.elements_l()?);
        let info = plan.output("info", DType::I32, shape.batch);
        plan.may_alias(a, l);
        if !shape.is_empty() {
            match select::choose(&shape, options)? {
                Choice::One(specialisation) => {
                    let module: SharedModule = specialisation.instantiate(options.arch)?.into();
                    // `Shape::check` has seen that all of these fit.
                    let args = [
                        a.into(),
                        l.into(),
                        info.into(),
                        (shape.stride_a as i64).into(),
                        (shape.stride_l as i64).into(),
                        (shape.lda as i32).into(),
                        (shape.ldl as i32).into(),
                        (shape.batch as i32).into(),
                    ];
                    let name = module.only_kernel()?.name.clone();
                    plan.launch(&module, &name, &args)?;
                }
                Choice::Blocked(blocked) => {
                    let bound = Bound { a, l, info };
                    blocked.plan(&mut plan, shape, bound, options.arch, options.multiprocessors)?;
                }
            }
        }
        Ok(Self { shape, options: *options, plan: plan.build() })
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

    /// Queues the factorisation of `a` into `l`, with one `info` a matrix. Returns without waiting.
    ///
    /// # Errors
    /// When a buffer is too short, lies on another device or overlaps another, or the device refuses the kernel.
    pub fn factor<D: Device + ?Sized>(
        &self,
        device: &D,
        a: &Buffer<f32>,
        l: &mut Buffer<f32>,
        info: &mut Buffer<i32>,
    ) -> Result<(), Error> {
        if a.address() == l.address() {
            self.shape.check_in_place()?;
        }
        self.run(device, &[a.into(), l.into(), (&mut *info).into()])?;
        self.clear_without_launch(info)
    }

    /// As [`Cholesky::factor`], the factor taking the place of the matrix.
    ///
    /// # Errors
    /// As [`Cholesky::factor`], and when input and factor have different strides or leading dimensions.
    pub fn factor_in_place<D: Device + ?Sized>(
        &self,
        device: &D,
        a: &mut Buffer<f32>,
        info: &mut Buffer<i32>,
    ) -> Result<(), Error> {
        self.shape.check_in_place()?;
        self.run(device, &[(&*a).into(), a.into(), (&mut *info).into()])?;
        self.clear_without_launch(info)
    }

    /// Captures the factorisation of `a` into `l`, to be replayed with the least work for the host: a CUDA graph on a
    /// GPU. `l` and `a` may be views of the same memory where [`Cholesky::factor_in_place`] would take it.
    ///
    /// # Errors
    /// As [`Cholesky::factor`].
    pub fn capture<D: Device + ?Sized>(
        &self,
        device: &D,
        a: &Buffer<f32>,
        l: &mut Buffer<f32>,
        info: &mut Buffer<i32>,
    ) -> Result<Box<dyn Replay>, Error> {
        if a.address() == l.address() {
            self.shape.check_in_place()?;
        }
        let replay = device.capture(&self.plan, &[a.into(), l.into(), (&mut *info).into()])?;
        self.clear_without_launch(info)?;
        Ok(replay)
    }

    fn run<D: Device + ?Sized>(&self, device: &D, args: &[Arg]) -> Result<(), Error> {
        Ok(device.run(&self.plan, args)?)
    }

    /// Matrices of order 0 are factored without a kernel: their `info` is 0.
    fn clear_without_launch(&self, info: &Buffer<i32>) -> Result<(), Error> {
        if self.plan.launches().is_empty() {
            info.view(..self.shape.batch)?.fill(0)?;
        }
        Ok(())
    }
}

/// Factors a batch that lies in host memory: plans, copies in, factors, copies out. Elements of the factor's rows and
/// matrices that belong to no matrix are zero.
///
/// # Errors
/// When the shape is wrong, `a` is shorter than it spans, or the device fails.
///
/// ```
/// use tilewright::device::EmulatedDevice;
/// use tilewright::kernels::cholesky::{Shape, factor_host};
///
/// let device = EmulatedDevice::new();
/// let (l, info) = factor_host(&device, &[4.0, 2.0, 2.0, 10.0], Shape::contiguous(1, 2))?;
/// assert_eq!((l.as_slice(), info.as_slice()), ([2.0, 0.0, 1.0, 3.0].as_slice(), [0].as_slice()));
/// # Ok::<(), tilewright::kernels::cholesky::Error>(())
/// ```
pub fn factor_host<D: Device + ?Sized>(device: &D, a: &[f32], shape: Shape) -> Result<(Vec<f32>, Vec<i32>), Error> {
    let cholesky = Cholesky::plan(shape, &Options::for_device(device))?;
    let needed = shape.elements_a()?;
    if a.len() < needed {
        return Err(Error::Length { name: "a", found: a.len(), needed });
    }
    let input = Buffer::from_slice(device, &a[..needed], "a")?;
    let mut l = Buffer::zeroed(device, shape.elements_l()?, "l")?;
    let mut info = Buffer::uninit(device, shape.batch, "info")?;
    cholesky.factor(device, &input, &mut l, &mut info)?;
    Ok((l.to_vec()?, info.to_vec()?))
}

/// The matrices that failed: their place in the batch and their `info`.
///
/// ```
/// let failed: Vec<_> = tilewright::kernels::cholesky::failures(&[0, 3, 0, 1]).collect();
/// assert_eq!(failed, [(1, 3), (3, 1)]);
/// ```
pub fn failures(info: &[i32]) -> impl Iterator<Item = (usize, i32)> + '_ {
    info.iter().copied().enumerate().filter(|&(_, info)| info != 0)
}
