//! An NVIDIA card through its driver: [`driver`] holds the handles, [`memory`] the allocations, [`graph`] launches and
//! captures.
//!
//! One stream per opened device carries everything, so that order needs no events: memory is freed in stream order,
//! and a copy to or from the host waits for what was queued before it. The card's primary context is used, so that
//! memory is shared with other libraries in the process, and is made current for each call and put back after it: the
//! caller's current context is never changed.

mod driver;
mod graph;
mod memory;
mod tensor_map;

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use super::buffer::{Buffer, Element, Memory};
use super::launch::PreparedLaunch;
use super::module::{Cache, LoadedModule, SharedModule};
use super::{Device, DeviceId, Error, Kind, Properties, Replay, TENSOR_MAP_BYTES, TensorMap};
use crate::ptx::Arch;
use driver::{Context, DriverModule, Event, Stream};
use graph::Graph;
use memory::GpuMemory;

/// An NVIDIA card. Cheap to clone: clones are the same device, with the same queue.
///
/// ```no_run
/// use tilewright::device::{Buffer, Device, GpuDevice};
///
/// let gpu = GpuDevice::open(0)?;
/// let x = Buffer::from_slice(&gpu, &[1.0f32, 2.0], "x")?;
/// println!("{} holds {:?}", gpu.properties().name, x.to_vec()?);
/// # Ok::<(), tilewright::device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GpuDevice {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    properties: Properties,
    stream: Arc<Stream>,
    /// Whether the card has stream-ordered memory.
    pools: bool,
    cache: Cache,
}

impl GpuDevice {
    /// How many cards there are: ordinals count from 0 to one less.
    ///
    /// # Errors
    /// When there is no driver, or it is too old.
    pub fn count() -> Result<usize, Error> {
        driver::count()
    }

    /// The card `ordinal`, with a stream of its own.
    ///
    /// # Errors
    /// When there is no driver, it is too old, it has no such card, or the card is older than any of our targets.
    pub fn open(ordinal: usize) -> Result<Self, Error> {
        let context = Context::open(ordinal)?;
        Self::with(&context, Stream::new(&context)?)
    }

    /// The card `ordinal`, on a stream of the caller: everything is queued there.
    ///
    /// # Errors
    /// As [`GpuDevice::open`], and when the stream belongs to another context than the card's primary one.
    ///
    /// # Safety
    /// `stream` is a live `CUstream` of that card, or null for the legacy default stream, and stays so until this
    /// device, and all buffers, kernels and captures made with it, are gone.
    pub unsafe fn on_stream(ordinal: usize, stream: *mut c_void) -> Result<Self, Error> {
        let context = Context::open(ordinal)?;
        // SAFETY: as the caller says.
        let stream = unsafe { Stream::borrow(&context, stream)? };
        Self::with(&context, stream)
    }

    fn with(context: &Arc<Context>, stream: Stream) -> Result<Self, Error> {
        let name = context.name()?;
        let major = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let Some(arch) = Arch::for_capability(major, minor) else {
            return Err(Error::CardTooOld { device: name, major, minor });
        };
        let max_shared = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let properties = Properties {
            id: DeviceId::next(),
            kind: Kind::Gpu,
            name,
            arch,
            capability: (major, minor),
            max_shared_bytes: max_shared.into(),
            max_threads: context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            multiprocessors: context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            memory_bytes: context.memory_bytes()?,
        };
        let pools = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0;
        let inner = Inner { properties, stream: Arc::new(stream), pools, cache: Cache::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A buffer over `length` elements of a caller's device memory, which is not freed with it.
    ///
    /// # Errors
    /// When the address is not aligned for the type.
    ///
    /// # Safety
    /// `length` elements at `address` are memory of this card, and stay so until the buffer, its views and the captures
    /// that name it are gone. What others queue on other streams for the same memory, the caller keeps in order.
    pub unsafe fn borrow<T: Element>(&self, address: u64, length: usize, label: &str) -> Result<Buffer<T>, Error> {
        let align = align_of::<T>() as u64;
        if address == 0 || !address.is_multiple_of(align) {
            let rule = format!("a buffer of {} needs an address that is a multiple of {align}, not 0", T::DTYPE);
            return Err(Error::Borrow { address, rule });
        }
        let bytes = (length as u64)
            .checked_mul(size_of::<T>() as u64)
            .filter(|bytes| address.checked_add(*bytes).is_some())
            .ok_or_else(|| Error::TooLarge { label: label.to_owned(), length, ty: T::DTYPE })?;
        // SAFETY: as the caller says.
        let memory = unsafe { GpuMemory::borrow(&self.inner.stream, self.inner.properties.id, address, bytes, label) };
        Ok(Buffer::from_memory(Arc::new(memory), length))
    }

    /// The stream that everything is queued on, a `CUstream`, for other libraries to order their work by. It lives as
    /// long as the device.
    pub fn stream(&self) -> *mut c_void {
        self.inner.stream.raw().cast()
    }
}

impl Device for GpuDevice {
    fn properties(&self) -> &Properties {
        &self.inner.properties
    }

    fn allocate(&self, bytes: u64, label: &str) -> Result<Arc<dyn Memory>, Error> {
        let Inner { stream, properties, pools, .. } = &*self.inner;
        Ok(Arc::new(GpuMemory::allocate(stream, properties.id, *pools, bytes, label)?))
    }

    fn tensor_map(&self, map: &TensorMap) -> Result<[u8; TENSOR_MAP_BYTES], Error> {
        map.check()?;
        let _entered = self.inner.stream.context().enter()?;
        tensor_map::encode(map)
    }

    fn load(&self, module: &SharedModule) -> Result<LoadedModule, Error> {
        let Inner { stream, properties, cache, .. } = &*self.inner;
        cache.get(module, properties, || {
            let kernels = &module.module().meta.kernels;
            let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            let loaded = Arc::new(DriverModule::load(stream, &module.module().ptx, &names.join(", "))?);
            kernels
                .iter()
                .map(|meta| -> Result<Arc<dyn Any + Send + Sync>, Error> {
                    Ok(Arc::new(loaded.function(&meta.name, meta.shared)?))
                })
                .collect()
        })
    }

    fn start(&self, launch: &PreparedLaunch) -> Result<(), Error> {
        if launch.kernel.device != self.inner.properties.id {
            let name = &launch.kernel.meta().name;
            return Err(Error::Internal(format!("kernel {name} was loaded on another device")));
        }
        graph::start(&self.inner.stream, launch)
    }

    fn record(&self, launches: Vec<PreparedLaunch>) -> Result<Box<dyn Replay>, Error> {
        Ok(Box::new(Graph::capture(&self.inner.stream, launches)?))
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.inner.stream.synchronize()
    }

    fn time(&self, work: &mut dyn FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
        let stream = &self.inner.stream;
        let (start, end) = (Event::new(stream.context())?, Event::new(stream.context())?);
        start.record(stream)?;
        work()?;
        end.record(stream)?;
        end.synchronize()?;
        Ok(Duration::from_secs_f64(f64::from(end.milliseconds_since(&start)?.max(0.0)) / 1e3))
    }
}
