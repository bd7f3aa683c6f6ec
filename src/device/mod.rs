//! Devices: memory, modules and launches behind one trait, on a GPU or on the emulator.
//!
//! A [`Device`] gives memory ([`Buffer`]), loads a [`Module`](crate::ptx::Module), starts kernels, and runs or captures
//! a [`Plan`]. There are two:
//!
//! - [`GpuDevice`] (feature `cuda`): an NVIDIA card through its driver, which is loaded at run time. Launches are queued
//!   on one stream; nothing waits for them but copies to and from the host and [`Device::synchronize`].
//! - [`EmulatedDevice`]: the CPU, through [`crate::emulate`], with its checks on. A launch is over when it returns, and
//!   a fault is the error of that launch.
//!
//! Every launch is checked against the kernel's metadata before a device sees it: number, kind, type, constness and
//! alignment of its arguments, the device of its buffers, and its grid.
//!
//! What a kernel does with the memory that it can reach is checked by the emulator only: on a GPU a module is trusted, as
//! machine code is. The families under [`crate::kernels`] check their shapes, so that theirs stay inside their buffers.
//!
//! Work that is queued on one device runs in order. Devices are `Send + Sync`: threads may share one, and each call is
//! then placed in the queue as a whole.
//!
//! ```
//! use tilewright::device::{self, Buffer};
//!
//! let (device, why) = device::by_name("emulator")?;
//! println!("running on {} ({why})", device.properties().name);
//! let buffer = Buffer::from_slice(&device, &[1, 2, 3], "numbers")?;
//! assert_eq!(buffer.to_vec()?, [1, 2, 3]);
//! # Ok::<(), tilewright::device::Error>(())
//! ```

mod buffer;
mod emulated;
mod error;
#[cfg(feature = "cuda")]
mod gpu;
mod launch;
mod module;
mod plan;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use buffer::{Buffer, Element, Memory, MemoryRange};
pub use emulated::{EmulatedBuilder, EmulatedDevice};
pub use error::Error;
#[cfg(feature = "cuda")]
pub use gpu::GpuDevice;
/// The 16-bit element types.
pub use half::{bf16, f16};
pub use launch::{Arg, LaunchConfig, ParamBlock, PreparedLaunch, Scalar};
pub use module::{Embedded, Kernel, LoadedModule, SharedModule, load_embedded};
pub use plan::{BufferId, Plan, PlanArg, PlanBuffer, PlanBuilder, PlannedLaunch, Role};

pub use crate::emulate::{TENSOR_MAP_BYTES, TensorMap, TensorMapElement, TensorMapSwizzle};
use crate::ptx::Arch;

/// One opened device of this process. Two handles on the same card have two of them: their queues are not ordered with
/// each other, so that a buffer of one is not taken by the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(u64);

impl DeviceId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "device #{}", self.0)
    }
}

/// What kind of device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A GPU.
    Gpu,
    /// The emulator.
    Emulator,
}

/// What a device is and what it has.
#[derive(Clone, Debug)]
pub struct Properties {
    /// This opened device.
    pub id: DeviceId,
    /// GPU or emulator.
    pub kind: Kind,
    /// Its name, such as `NVIDIA H200`.
    pub name: String,
    /// The newest of our targets that it runs.
    pub arch: Arch,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// The most shared memory that one CTA may have, opted in, in bytes.
    pub max_shared_bytes: u64,
    /// The most threads of a CTA.
    pub max_threads: u32,
    /// Multiprocessors (worker threads of the emulator).
    pub multiprocessors: u32,
    /// All of its memory, in bytes.
    pub memory_bytes: u64,
}

impl Properties {
    /// Whether a module for `arch` runs on it.
    pub fn runs(&self, arch: Arch) -> bool {
        arch.runs_on(self.capability.0, self.capability.1)
    }
}

/// A captured plan: its launches with their arguments, ready to be queued again and again.
pub trait Replay: fmt::Debug + Send {
    /// Queues all launches once more.
    ///
    /// # Errors
    /// When the device does not work; on the emulator also when a kernel faults.
    fn replay(&mut self) -> Result<(), Error>;
}

/// Something that runs kernels. See the [module](self) for what holds of every device.
pub trait Device: fmt::Debug + Send + Sync {
    /// What it is.
    fn properties(&self) -> &Properties;

    /// `bytes` of memory that nothing has written, at least 256-aligned; [`Buffer`] is the typed way to it. An
    /// allocation of no bytes has an address too.
    ///
    /// # Errors
    /// When there is not enough memory.
    fn allocate(&self, bytes: u64, label: &str) -> Result<Arc<dyn Memory>, Error>;

    /// Loads a module, or answers it from the device's cache where the same text was loaded before.
    ///
    /// # Errors
    /// When the device does not run the module's target, has less than its kernels need, or does not take its text.
    fn load(&self, module: &SharedModule) -> Result<LoadedModule, Error>;

    /// A tensor map for tensor copies on this device: bytes that a kernel is given the address of, in a buffer (at a
    /// multiple of 64) or as a parameter. The map names an address of this device's.
    ///
    /// # Errors
    /// When the map breaks a rule, or the device takes none.
    fn tensor_map(&self, map: &TensorMap) -> Result<[u8; TENSOR_MAP_BYTES], Error>;

    /// Queues a launch that has been checked.
    ///
    /// # Errors
    /// When the device does not work; on the emulator also when the kernel faults.
    fn start(&self, launch: &PreparedLaunch) -> Result<(), Error>;

    /// Records checked launches, in order, without running them.
    ///
    /// # Errors
    /// When the device does not work.
    fn record(&self, launches: Vec<PreparedLaunch>) -> Result<Box<dyn Replay>, Error>;

    /// Waits for all that was queued.
    ///
    /// # Errors
    /// When something that was queued failed.
    fn synchronize(&self) -> Result<(), Error>;

    /// The time that the device takes for what `work` queues, from the moment that it gets to it until it is done;
    /// waits for it. (On a GPU by events on the queue, so the host's own time does not count unless the queue runs
    /// dry.)
    ///
    /// # Errors
    /// Those of `work`, and when the device does not work.
    fn time(&self, work: &mut dyn FnMut() -> Result<(), Error>) -> Result<Duration, Error>;

    /// Checks and queues one launch. A grid with a zero extent launches nothing.
    ///
    /// # Errors
    /// When an argument or the grid breaks the kernel's rules (see [`PreparedLaunch::new`]), or as [`Device::start`].
    fn launch(&self, kernel: &Kernel, grid: [u32; 3], args: &[Arg]) -> Result<(), Error> {
        let launch = PreparedLaunch::new(self.properties().id, kernel, grid, args)?;
        if launch.config.is_empty() { Ok(()) } else { self.start(&launch) }
    }

    /// Queues the launches of a plan, its inputs and outputs bound to `args` in the order of [`Plan::bindings`].
    ///
    /// # Errors
    /// When a bound buffer breaks the plan's rules, or as [`Device::load`] and [`Device::launch`].
    fn run(&self, plan: &Plan, args: &[Arg]) -> Result<(), Error> {
        plan.prepare(self, args)?.iter().try_for_each(|launch| self.start(launch))
    }

    /// Captures a plan with its buffers, to be replayed: a CUDA graph on a GPU. Runs nothing. The capture keeps the
    /// buffers alive.
    ///
    /// # Errors
    /// As [`Device::run`].
    fn capture(&self, plan: &Plan, args: &[Arg]) -> Result<Box<dyn Replay>, Error> {
        self.record(plan.prepare(self, args)?)
    }
}

impl<D: Device + ?Sized> Device for Arc<D> {
    fn properties(&self) -> &Properties {
        (**self).properties()
    }
    fn allocate(&self, bytes: u64, label: &str) -> Result<Arc<dyn Memory>, Error> {
        (**self).allocate(bytes, label)
    }
    fn load(&self, module: &SharedModule) -> Result<LoadedModule, Error> {
        (**self).load(module)
    }
    fn tensor_map(&self, map: &TensorMap) -> Result<[u8; TENSOR_MAP_BYTES], Error> {
        (**self).tensor_map(map)
    }
    fn start(&self, launch: &PreparedLaunch) -> Result<(), Error> {
        (**self).start(launch)
    }
    fn record(&self, launches: Vec<PreparedLaunch>) -> Result<Box<dyn Replay>, Error> {
        (**self).record(launches)
    }
    fn synchronize(&self) -> Result<(), Error> {
        (**self).synchronize()
    }
    fn time(&self, work: &mut dyn FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
        (**self).time(work)
    }
}

/// The environment variable that [`best`] reads: `auto`, `gpu` or `emulator`.
pub const ENVIRONMENT: &str = "TILEWRIGHT_DEVICE";

/// The device that the environment variable `TILEWRIGHT_DEVICE` names; where it names none, the first GPU if there is
/// one, else the emulator. With it comes a sentence that says why.
///
/// # Errors
/// When the variable names a device that is not there, or none that we know.
pub fn best() -> Result<(Arc<dyn Device>, String), Error> {
    match std::env::var(ENVIRONMENT) {
        Ok(name) if !name.is_empty() => {
            let (device, why) = by_name(&name)?;
            Ok((device, format!("{ENVIRONMENT} is `{name}`: {why}")))
        }
        _ => by_name("auto"),
    }
}

/// The device of a name: `gpu`, `emulator`, or `auto` for the first GPU if there is one, else the emulator. With it
/// comes a sentence that says why.
///
/// # Errors
/// When there is no GPU and `gpu` was asked for, or the name is none of the three.
pub fn by_name(name: &str) -> Result<(Arc<dyn Device>, String), Error> {
    let emulator = || -> Arc<dyn Device> { Arc::new(EmulatedDevice::new()) };
    match name {
        "gpu" => Ok((first_gpu()?, "the first GPU was asked for".to_owned())),
        "emulator" => Ok((emulator(), "the emulator was asked for".to_owned())),
        "auto" => Ok(match first_gpu() {
            Ok(gpu) => {
                let why = format!("found the GPU {}", gpu.properties().name);
                (gpu, why)
            }
            Err(error) => (emulator(), format!("using the emulator: {error}")),
        }),
        other => Err(Error::UnknownDevice(other.to_owned())),
    }
}

#[cfg(feature = "cuda")]
fn first_gpu() -> Result<Arc<dyn Device>, Error> {
    Ok(Arc::new(GpuDevice::open(0)?))
}

#[cfg(not(feature = "cuda"))]
fn first_gpu() -> Result<Arc<dyn Device>, Error> {
    Err(Error::NotBuilt)
}
