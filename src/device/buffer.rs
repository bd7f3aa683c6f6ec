//! Device memory: raw ranges, and the typed buffers over them.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::{Device, DeviceId, Error};
use crate::ptx::DType;

/// A type that a buffer may hold.
pub trait Element: bytemuck::Pod + Send + Sync {
    /// Its name in a kernel's metadata.
    const DTYPE: DType;
}

impl Element for u8 {
    const DTYPE: DType = DType::U8;
}
impl Element for i16 {
    const DTYPE: DType = DType::I16;
}
impl Element for i32 {
    const DTYPE: DType = DType::I32;
}
impl Element for i64 {
    const DTYPE: DType = DType::I64;
}
impl Element for half::f16 {
    const DTYPE: DType = DType::Fp16;
}
impl Element for half::bf16 {
    const DTYPE: DType = DType::Bf16;
}
impl Element for f32 {
    const DTYPE: DType = DType::Fp32;
}
impl Element for f64 {
    const DTYPE: DType = DType::Fp64;
}

/// One allocation on a device; freed when its last owner goes, after the work that was queued before.
///
/// Copies are ordered after the work queued on the device before them, and are finished when they return: the host's
/// slice may be used at once. `fill` and `copy_from` are queued and return at once.
///
/// Offsets and lengths are bytes. A caller has checked them; a device need not.
pub trait Memory: fmt::Debug + Send + Sync {
    /// The device that the memory lies on.
    fn device(&self) -> DeviceId;
    /// The address of its first byte.
    fn address(&self) -> u64;
    /// Its length in bytes.
    fn bytes(&self) -> u64;
    /// What it is called in messages.
    fn label(&self) -> &str;
    /// Copies `bytes` in at `offset`.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error>;
    /// Copies out from `offset` into `bytes`.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Error>;
    /// Sets `length` bytes at `offset` to `value`.
    fn fill(&self, offset: u64, value: u8, length: u64) -> Result<(), Error>;
    /// Copies `length` bytes from `source`, an address on the same device, to `offset`.
    fn copy_from(&self, offset: u64, source: u64, length: u64) -> Result<(), Error>;
}

/// A typed range of device memory.
///
/// A buffer is a handle: its [views](Buffer::view) share its memory, and the memory is freed when the last of them is
/// gone, after the work queued before. Kernels that take a buffer as an output take it by `&mut`.
///
/// ```
/// use tilewright::device::{Buffer, EmulatedDevice};
///
/// let device = EmulatedDevice::new();
/// let buffer = Buffer::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0], "x")?;
/// let tail = buffer.view(2..)?;
/// assert_eq!(tail.to_vec()?, [3.0, 4.0]);
/// # Ok::<(), tilewright::device::Error>(())
/// ```
pub struct Buffer<T: Element> {
    memory: Arc<dyn Memory>,
    /// In bytes from the start of the memory.
    offset: u64,
    /// In elements.
    length: usize,
    element: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    /// `length` elements that nothing has written yet. `label` names the buffer in messages.
    ///
    /// # Errors
    /// When the device has not enough memory.
    pub fn uninit<D: Device + ?Sized>(device: &D, length: usize, label: &str) -> Result<Self, Error> {
        let bytes = (length as u64)
            .checked_mul(size_of::<T>() as u64)
            .filter(|&bytes| bytes <= i64::MAX as u64)
            .ok_or_else(|| Error::TooLarge { label: label.to_owned(), length, ty: T::DTYPE })?;
        Ok(Self { memory: device.allocate(bytes, label)?, offset: 0, length, element: PhantomData })
    }

    /// `length` elements, all bits zero.
    ///
    /// # Errors
    /// When the device has not enough memory, or does not work.
    pub fn zeroed<D: Device + ?Sized>(device: &D, length: usize, label: &str) -> Result<Self, Error> {
        let mut buffer = Self::uninit(device, length, label)?;
        buffer.fill(0)?;
        Ok(buffer)
    }

    /// A copy of `values` on the device.
    ///
    /// # Errors
    /// When the device has not enough memory, or does not work.
    pub fn from_slice<D: Device + ?Sized>(device: &D, values: &[T], label: &str) -> Result<Self, Error> {
        let mut buffer = Self::uninit(device, values.len(), label)?;
        buffer.copy_in(values)?;
        Ok(buffer)
    }

    /// A buffer over all of `memory` that holds whole elements.
    #[cfg(feature = "cuda")]
    pub(super) fn from_memory(memory: Arc<dyn Memory>, length: usize) -> Self {
        Self { memory, offset: 0, length, element: PhantomData }
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True for a buffer of no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The device address of the first element.
    pub fn address(&self) -> u64 {
        self.memory.address() + self.offset
    }

    /// The device that it lies on.
    pub fn device(&self) -> DeviceId {
        self.memory.device()
    }

    /// What it is called in messages.
    pub fn label(&self) -> &str {
        self.memory.label()
    }

    /// Another handle on the elements of `range`.
    ///
    /// # Errors
    /// When the range leaves the buffer.
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        let (start, end) = self.resolve(range);
        self.check("a view", start, end)?;
        Ok(Self {
            memory: Arc::clone(&self.memory),
            offset: self.offset + (start * size_of::<T>()) as u64,
            length: end - start,
            element: PhantomData,
        })
    }

    /// Copies `values` to the start of the buffer, after the work queued before; done when it returns.
    ///
    /// # Errors
    /// When there are more values than elements, or the device does not work.
    pub fn copy_in(&mut self, values: &[T]) -> Result<(), Error> {
        self.check("a copy in", 0, values.len())?;
        if values.is_empty() {
            return Ok(());
        }
        self.memory.write(self.offset, bytemuck::cast_slice(values))
    }

    /// Copies the first elements into `values`, after the work queued before; done when it returns.
    ///
    /// # Errors
    /// When `values` is longer than the buffer, or the device (or a kernel that ran on it) failed.
    pub fn copy_out(&self, values: &mut [T]) -> Result<(), Error> {
        self.check("a copy out", 0, values.len())?;
        if values.is_empty() {
            return Ok(());
        }
        self.memory.read(self.offset, bytemuck::cast_slice_mut(values))
    }

    /// All elements, copied out.
    ///
    /// # Errors
    /// As [`Buffer::copy_out`].
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut values = vec![T::zeroed(); self.length];
        self.copy_out(&mut values)?;
        Ok(values)
    }

    /// Queues setting every byte to `value`.
    ///
    /// # Errors
    /// When the device does not work.
    pub fn fill(&mut self, value: u8) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        self.memory.fill(self.offset, value, (self.length * size_of::<T>()) as u64)
    }

    /// Queues a copy of all of `source`, on the same device, to the start of the buffer.
    ///
    /// # Errors
    /// When `source` is longer, lies on another device, or the device does not work.
    pub fn copy_from(&mut self, source: &Self) -> Result<(), Error> {
        self.check("a copy", 0, source.length)?;
        if source.device() != self.device() {
            return Err(Error::Foreign {
                what: format!("buffer `{}`", source.label()),
                found: source.device(),
                needed: self.device(),
            });
        }
        if source.is_empty() {
            return Ok(());
        }
        self.memory.copy_from(self.offset, source.address(), (source.length * size_of::<T>()) as u64)
    }

    /// The range without its type, as launches and plans take it.
    pub(super) fn range(&self) -> MemoryRange {
        MemoryRange {
            memory: Arc::clone(&self.memory),
            offset: self.offset,
            bytes: (self.length * size_of::<T>()) as u64,
            ty: T::DTYPE,
        }
    }

    fn resolve(&self, range: impl RangeBounds<usize>) -> (usize, usize) {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&end) => end.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.length,
        };
        (start, end)
    }

    fn check(&self, what: &'static str, start: usize, end: usize) -> Result<(), Error> {
        if start <= end && end <= self.length {
            return Ok(());
        }
        Err(Error::Range { label: self.label().to_owned(), length: self.length, ty: T::DTYPE, what, start, end })
    }
}

impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Buffer(`{}`, {} × {} at {:#x})", self.label(), self.length, T::DTYPE, self.address())
    }
}

/// A range of device memory and the type of what it holds.
#[derive(Clone, Debug)]
pub struct MemoryRange {
    pub(super) memory: Arc<dyn Memory>,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) ty: DType,
}

impl MemoryRange {
    /// The address of its first byte.
    pub fn address(&self) -> u64 {
        self.memory.address() + self.offset
    }

    /// True if the two share a byte.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let (start, end) = (self.address(), self.address() + self.bytes);
        let (other_start, other_end) = (other.address(), other.address() + other.bytes);
        start.max(other_start) < end.min(other_end)
    }
}
