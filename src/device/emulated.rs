//! The emulator as a device.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::buffer::Memory;
use super::launch::PreparedLaunch;
use super::module::{Cache, LoadedModule, SharedModule};
use super::{Device, DeviceId, Error, Kind, Properties, Replay, TENSOR_MAP_BYTES, TensorMap};
use crate::emulate;
use crate::ptx::Arch;

/// A device that runs PTX on the CPU, with the emulator's checks on. Cheap to clone: clones are the same device.
///
/// A launch is over when it returns; what a kernel does wrong is the error of its launch, with the line of PTX, the
/// thread and the address. The limits are those of the target that it poses as.
///
/// ```
/// use tilewright::device::{Buffer, Device, EmulatedDevice, SharedModule};
/// use tilewright::ptx::Arch;
/// use tilewright::template::PotrfWarp;
///
/// let device = EmulatedDevice::builder().arch(Arch::Sm80).build();
/// let module = SharedModule::new(PotrfWarp { n: 2, rank: 1, warps: 1 }.instantiate(Arch::Sm80)?);
/// let name = module.module().meta.kernels[0].name.clone();
/// let kernel = device.load(&module)?.kernel(&name)?;
///
/// let a = Buffer::from_slice(&device, &[4.0f32, 0.0, 2.0, 10.0], "a")?;
/// let mut l = Buffer::<f32>::uninit(&device, 4, "l")?;
/// let mut info = Buffer::<i32>::uninit(&device, 1, "info")?;
/// let (stride, leading, batch) = (4i64, 2i32, 1i32);
/// let args = [
///     (&a).into(), (&mut l).into(), (&mut info).into(),
///     stride.into(), stride.into(), leading.into(), leading.into(), batch.into(),
/// ];
/// device.launch(&kernel, [1, 1, 1], &args)?;
/// assert_eq!(l.to_vec()?, [2.0, 0.0, 1.0, 3.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct EmulatedDevice {
    inner: Arc<Inner>,
}

struct Inner {
    properties: Properties,
    memory: Arc<emulate::Memory>,
    options: emulate::Options,
    cache: Cache,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EmulatedDevice").field("properties", &self.properties).finish_non_exhaustive()
    }
}

/// Sets an [`EmulatedDevice`] up.
#[derive(Clone, Debug)]
pub struct EmulatedBuilder {
    arch: Arch,
    checks: bool,
    memory_bytes: u64,
    max_steps: Option<u64>,
}

impl EmulatedBuilder {
    /// The target that it poses as: sm_90a unless set.
    #[must_use]
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }

    /// Whether races, uninitialised reads and barriers are checked; on unless set. Bounds and limits always are.
    #[must_use]
    pub fn checks(mut self, checks: bool) -> Self {
        self.checks = checks;
        self
    }

    /// Bytes of memory that it has: 16 GiB unless set. The host gives only what is allocated.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// The warp instructions of one CTA after which a launch is stopped as one that does not end; the emulator's own
    /// limit unless set.
    #[must_use]
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.max_steps = Some(steps);
        self
    }

    /// The device.
    pub fn build(self) -> EmulatedDevice {
        let capability = self.arch.capability();
        let defaults = if self.checks { emulate::Options::default() } else { emulate::Options::unchecked() };
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u32);
        let properties = Properties {
            id: DeviceId::next(),
            kind: Kind::Emulator,
            name: format!("emulator of {}", self.arch),
            arch: self.arch,
            capability: (capability / 10, capability % 10),
            max_shared_bytes: self.arch.max_shared_bytes().into(),
            max_threads: 1024,
            multiprocessors: threads,
            memory_bytes: self.memory_bytes,
        };
        let inner = Inner {
            properties,
            memory: Arc::new(emulate::Memory::with_limit(self.memory_bytes)),
            options: emulate::Options {
                max_steps: self.max_steps.or(defaults.max_steps),
                max_shared: Some(self.arch.max_shared_bytes().into()),
                ..defaults
            },
            cache: Cache::default(),
        };
        EmulatedDevice { inner: Arc::new(inner) }
    }
}

impl Default for EmulatedDevice {
    fn default() -> Self {
        Self::new()
    }
}

impl EmulatedDevice {
    /// An emulator of sm_90a with all checks on.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// An emulator set up otherwise.
    pub fn builder() -> EmulatedBuilder {
        EmulatedBuilder { arch: Arch::Sm90a, checks: true, memory_bytes: 16 << 30, max_steps: None }
    }
}

impl Device for EmulatedDevice {
    fn properties(&self) -> &Properties {
        &self.inner.properties
    }

    fn allocate(&self, bytes: u64, label: &str) -> Result<Arc<dyn Memory>, Error> {
        // An address of its own for an empty buffer too: one byte, which no check lets a kernel read unwritten.
        let address = self.inner.memory.alloc(bytes.max(1), label)?;
        let memory = Arc::clone(&self.inner.memory);
        Ok(Arc::new(Allocation { memory, device: self.inner.properties.id, address, bytes, label: label.to_owned() }))
    }

    fn tensor_map(&self, map: &TensorMap) -> Result<[u8; TENSOR_MAP_BYTES], Error> {
        Ok(map.encode()?)
    }

    fn load(&self, module: &SharedModule) -> Result<LoadedModule, Error> {
        self.inner.cache.get(module, &self.inner.properties, || {
            let text = &module.module().ptx;
            let kernels = module.module().meta.kernels.iter();
            kernels
                .map(|meta| -> Result<Arc<dyn Any + Send + Sync>, Error> {
                    Ok(Arc::new(emulate::Kernel::new(text, Some(&meta.name))?))
                })
                .collect()
        })
    }

    fn start(&self, launch: &PreparedLaunch) -> Result<(), Error> {
        let meta = launch.kernel.meta();
        let native = launch.kernel.native.downcast_ref::<emulate::Kernel>();
        let kernel = native
            .filter(|_| launch.kernel.device == self.inner.properties.id)
            .ok_or_else(|| Error::Internal(format!("kernel {} was loaded on another device", meta.name)))?;
        let config = emulate::LaunchConfig {
            grid: launch.config.grid,
            block: launch.config.block,
            cluster: launch.config.cluster,
            dynamic_shared: launch.config.shared,
        };
        emulate::launch(kernel, &config, launch.params.as_bytes(), &self.inner.memory, &self.inner.options)?;
        Ok(())
    }

    fn record(&self, launches: Vec<PreparedLaunch>) -> Result<Box<dyn Replay>, Error> {
        Ok(Box::new(LaunchList { device: self.clone(), launches }))
    }

    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }

    fn time(&self, work: &mut dyn FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
        let start = Instant::now();
        work()?;
        Ok(start.elapsed())
    }
}

/// A capture: the launches themselves.
#[derive(Debug)]
struct LaunchList {
    device: EmulatedDevice,
    launches: Vec<PreparedLaunch>,
}

impl Replay for LaunchList {
    fn replay(&mut self) -> Result<(), Error> {
        self.launches.iter().try_for_each(|launch| self.device.start(launch))
    }
}

struct Allocation {
    memory: Arc<emulate::Memory>,
    device: DeviceId,
    address: u64,
    bytes: u64,
    label: String,
}

impl std::fmt::Debug for Allocation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "`{}`, {} bytes at {:#x} on {}", self.label, self.bytes, self.address, self.device)
    }
}

impl Memory for Allocation {
    fn device(&self) -> DeviceId {
        self.device
    }
    fn address(&self) -> u64 {
        self.address
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn label(&self) -> &str {
        &self.label
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.memory.write(self.address + offset, bytes)?)
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        Ok(self.memory.read(self.address + offset, bytes)?)
    }
    fn fill(&self, offset: u64, value: u8, length: u64) -> Result<(), Error> {
        Ok(self.memory.fill(self.address + offset, value, length)?)
    }
    fn copy_from(&self, offset: u64, source: u64, length: u64) -> Result<(), Error> {
        let length = usize::try_from(length).map_err(|error| Error::Internal(error.to_string()))?;
        let mut bytes = vec![0; length];
        self.memory.read(source, &mut bytes)?;
        Ok(self.memory.write(self.address + offset, &bytes)?)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // The allocation is ours and frees once; there is nobody to tell of a failure.
        let _ = self.memory.free(self.address);
    }
}
