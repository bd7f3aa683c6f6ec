//! Memory of a card.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::sys;

use super::driver::{Stream, driver};
use crate::device::{DeviceId, Error, Memory};

/// Who frees the memory, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// We, in stream order, to the driver's pool.
    Pool,
    /// We, at once: on cards without memory pools.
    Plain,
    /// The caller.
    Caller,
}

/// One allocation, used in the order of one stream.
pub(super) struct GpuMemory {
    stream: Arc<Stream>,
    device: DeviceId,
    address: sys::CUdeviceptr,
    bytes: u64,
    label: String,
    owner: Owner,
}

impl GpuMemory {
    /// New memory, from the driver's pool where `pools` says that there is one.
    pub(super) fn allocate(
        stream: &Arc<Stream>,
        device: DeviceId,
        pools: bool,
        bytes: u64,
        label: &str,
    ) -> Result<Self, Error> {
        stream.refuse_capture("an allocation")?;
        let _entered = stream.context().enter()?;
        // The driver has no empty allocations, and a buffer of nothing still has an address.
        let size = bytes.max(1) as usize;
        let mut address = 0;
        // SAFETY: the context is current and the stream alive; the driver writes one address.
        unsafe {
            if pools {
                driver!(cuMemAllocAsync(&raw mut address, size, stream.raw()))?;
            } else {
                driver!(cuMemAlloc_v2(&raw mut address, size))?;
            }
        }
        let owner = if pools { Owner::Pool } else { Owner::Plain };
        Ok(Self { stream: Arc::clone(stream), device, address, bytes, label: label.to_owned(), owner })
    }

    /// A caller's memory.
    ///
    /// # Safety
    /// `bytes` bytes at `address` are device memory of the stream's card and stay so for as long as this.
    pub(super) unsafe fn borrow(stream: &Arc<Stream>, device: DeviceId, address: u64, bytes: u64, label: &str) -> Self {
        Self { stream: Arc::clone(stream), device, address, bytes, label: label.to_owned(), owner: Owner::Caller }
    }
}

impl fmt::Debug for GpuMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}`, {} bytes at {:#x} on {}", self.label, self.bytes, self.address, self.device)
    }
}

impl Memory for GpuMemory {
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
        self.stream.refuse_capture("a copy from the host")?;
        let _entered = self.stream.context().enter()?;
        // SAFETY: the caller of `Memory` checked the range; the host's slice outlives the copy, for which we wait: were
        // it page-locked by its owner, the driver would still read it after this call.
        unsafe {
            driver!(cuMemcpyHtoDAsync_v2(
                self.address + offset,
                bytes.as_ptr().cast(),
                bytes.len(),
                self.stream.raw(),
            ))?;
        }
        self.stream.synchronize()
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.stream.refuse_capture("a copy to the host")?;
        let _entered = self.stream.context().enter()?;
        // SAFETY: the caller of `Memory` checked the range; the host's slice outlives the copy, for which we wait.
        unsafe {
            driver!(cuMemcpyDtoHAsync_v2(
                bytes.as_mut_ptr().cast(),
                self.address + offset,
                bytes.len(),
                self.stream.raw(),
            ))?;
        }
        self.stream.synchronize()
    }

    fn fill(&self, offset: u64, value: u8, length: u64) -> Result<(), Error> {
        let _entered = self.stream.context().enter()?;
        // SAFETY: the caller of `Memory` checked the range.
        unsafe { driver!(cuMemsetD8Async(self.address + offset, value, length as usize, self.stream.raw())) }
    }

    fn copy_from(&self, offset: u64, source: u64, length: u64) -> Result<(), Error> {
        let _entered = self.stream.context().enter()?;
        // SAFETY: the caller of `Memory` checked both ranges.
        unsafe { driver!(cuMemcpyDtoDAsync_v2(self.address + offset, source, length as usize, self.stream.raw())) }
    }
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        // Nobody is there to hear of a failure: after a fault on the card every call fails, and the memory goes with
        // the context.
        let Ok(_entered) = self.stream.context().enter() else { return };
        match self.owner {
            Owner::Caller => {}
            // SAFETY: allocated by us, freed once, after all that this stream was asked to do with it.
            Owner::Pool => drop(unsafe { driver!(cuMemFreeAsync(self.address, self.stream.raw())) }),
            Owner::Plain => {
                let _ = self.stream.synchronize();
                // SAFETY: allocated by us, freed once; the stream has finished with it.
                let _ = unsafe { driver!(cuMemFree_v2(self.address)) };
            }
        }
    }
}
