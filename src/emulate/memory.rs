//! Global memory: buffers at addresses that are far apart, with a note of which bytes were ever written.
//!
//! A buffer is a vector of atomic words, read and written with relaxed order: CTAs that run in parallel may then touch
//! the same word without undefined behaviour, as on a GPU, and an aligned word costs no more than a plain one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use bytemuck::allocation::try_zeroed_slice_box;

use super::Error;
use super::program::PARAM_WINDOW;

/// Where the first buffer is put.
const FIRST_ADDRESS: u64 = 0x10_0000_0000;
/// Buffers start at multiples of this, with at least as much between them: a stray access meets no neighbour.
const SPACING: u64 = 0x1_0000;

/// One buffer.
#[derive(Debug)]
pub(super) struct Buffer {
    pub label: String,
    pub address: u64,
    pub bytes: u64,
    words: Box<[AtomicU32]>,
    /// Four bits for each word: which of its bytes were written.
    written: Box<[AtomicU8]>,
    /// True once every byte was written, to save looking.
    whole: AtomicBool,
}

impl Buffer {
    fn new(address: u64, bytes: u64, label: &str) -> Result<Self, Error> {
        let words = bytes.div_ceil(4) as usize;
        let refused = |()| Error::Memory(format!("this machine has no {bytes} bytes of memory for `{label}`"));
        Ok(Self {
            label: label.to_owned(),
            address,
            bytes,
            // Zero pages, taken only where they are touched.
            words: try_zeroed_slice_box(words).map_err(refused)?,
            written: try_zeroed_slice_box(words).map_err(refused)?,
            whole: AtomicBool::new(false),
        })
    }

    /// A buffer that holds `bytes`.
    pub fn with_contents(address: u64, bytes: &[u8], label: &str) -> Result<Self, Error> {
        let buffer = Self::new(address, bytes.len() as u64, label)?;
        buffer.copy_in(0, bytes);
        Ok(buffer)
    }

    /// The word at `offset`, a multiple of four.
    pub fn load(&self, offset: u64) -> u32 {
        self.words[(offset / 4) as usize].load(Relaxed)
    }

    /// Writes the word at `offset`, a multiple of four.
    pub fn store(&self, offset: u64, value: u32) {
        let index = (offset / 4) as usize;
        self.words[index].store(value, Relaxed);
        if !self.whole.load(Relaxed) {
            self.written[index].store(0xf, Relaxed);
        }
    }

    /// Reads `size` ≤ 8 bytes at `offset`, a multiple of `size`.
    pub fn load_bytes(&self, offset: u64, size: u64) -> u64 {
        match size {
            8 => u64::from(self.load(offset)) | u64::from(self.load(offset + 4)) << 32,
            4 => self.load(offset).into(),
            _ => u64::from(self.load(offset & !3) >> (8 * (offset & 3))) & ((1 << (8 * size)) - 1),
        }
    }

    /// Writes the low `size` ≤ 8 bytes of `value` at `offset`, a multiple of `size`.
    pub fn store_bytes(&self, offset: u64, size: u64, value: u64) {
        match size {
            8 => {
                self.store(offset, value as u32);
                self.store(offset + 4, (value >> 32) as u32);
            }
            4 => self.store(offset, value as u32),
            _ => {
                let shift = 8 * (offset & 3);
                let mask = ((1_u32 << (8 * size)) - 1) << shift;
                let index = (offset / 4) as usize;
                let merge = |old| Some(old & !mask | ((value as u32) << shift) & mask);
                let _ = self.words[index].fetch_update(Relaxed, Relaxed, merge);
                self.written[index].fetch_or((((1_u32 << size) - 1) << (offset & 3)) as u8, Relaxed);
            }
        }
    }

    /// Replaces the 32- or 64-bit value at `offset` by what `update` makes of it; the value before.
    ///
    /// A 64-bit update is two words: CTAs that update the same one at once are kept apart by `lock`.
    pub fn update(&self, offset: u64, size: u64, update: &dyn Fn(u64) -> u64) -> u64 {
        if size == 4 {
            let index = (offset / 4) as usize;
            let step = |old: u32| Some(update(old.into()) as u32);
            return self.words[index].fetch_update(Relaxed, Relaxed, step).unwrap_or_default().into();
        }
        static WIDE: RwLock<()> = RwLock::new(());
        let _held = WIDE.write().unwrap_or_else(PoisonError::into_inner);
        let old = self.load_bytes(offset, size);
        self.store_bytes(offset, size, update(old));
        old
    }

    /// True if all of the `size` ≤ 8 bytes at `offset`, a multiple of `size`, were written.
    pub fn is_written(&self, offset: u64, size: u64) -> bool {
        if self.whole.load(Relaxed) {
            return true;
        }
        let index = (offset / 4) as usize;
        match size {
            8 => self.written[index].load(Relaxed) & self.written[index + 1].load(Relaxed) == 0xf,
            4 => self.written[index].load(Relaxed) == 0xf,
            _ => {
                let bits = (((1_u32 << size) - 1) << (offset & 3)) as u8;
                self.written[index].load(Relaxed) & bits == bits
            }
        }
    }

    fn copy_in(&self, offset: u64, bytes: &[u8]) {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            if at.is_multiple_of(4) && rest.len() >= 4 {
                self.store(at, u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]));
                (at, rest) = (at + 4, &rest[4..]);
            } else {
                self.store_bytes(at, 1, rest[0].into());
                (at, rest) = (at + 1, &rest[1..]);
            }
        }
        if offset == 0 && bytes.len() as u64 == self.bytes {
            self.whole.store(true, Relaxed);
        }
    }

    fn copy_out(&self, offset: u64, bytes: &mut [u8]) {
        for (at, byte) in (offset..).zip(bytes) {
            *byte = (self.words[(at / 4) as usize].load(Relaxed) >> (8 * (at & 3))) as u8;
        }
    }
}

/// Global memory of an emulated device.
#[derive(Debug)]
pub struct Memory {
    buffers: RwLock<Heap>,
    limit: u64,
}

#[derive(Debug, Default)]
struct Heap {
    live: BTreeMap<u64, Arc<Buffer>>,
    next: u64,
    used: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// Memory of 16 GiB; what is not allocated takes nothing.
    pub fn new() -> Self {
        Self::with_limit(16 << 30)
    }

    /// Memory of `bytes` bytes.
    pub fn with_limit(bytes: u64) -> Self {
        Self { buffers: RwLock::default(), limit: bytes }
    }

    /// `bytes` bytes that nothing has written; the device address, a multiple of 256. `label` names the buffer in faults.
    ///
    /// # Errors
    /// When the memory's limit would be passed.
    pub fn alloc(&self, bytes: u64, label: &str) -> Result<u64, Error> {
        let mut heap = self.buffers.write().unwrap_or_else(PoisonError::into_inner);
        let used = heap.used.checked_add(bytes).filter(|&used| used <= self.limit).ok_or_else(|| {
            Error::Memory(format!(
                "`{label}` of {bytes} bytes does not fit: {} of {} bytes are in use",
                heap.used, self.limit
            ))
        })?;
        // Addresses are not used twice, so that a stale one meets no newer buffer; they end where the windows of parameters and local memory begin.
        let next = bytes
            .checked_add(2 * SPACING - 1)
            .and_then(|taken| heap.next.checked_add(taken / SPACING * SPACING))
            .filter(|&next| next <= PARAM_WINDOW - FIRST_ADDRESS)
            .ok_or_else(|| {
                Error::Memory(format!("`{label}` of {bytes} bytes does not fit: no addresses are left for it"))
            })?;
        let address = FIRST_ADDRESS + heap.next;
        let buffer = Buffer::new(address, bytes, label)?;
        heap.next = next;
        heap.used = used;
        heap.live.insert(address, Arc::new(buffer));
        Ok(address)
    }

    /// Frees the buffer at `address`; an access to it is then out of bounds.
    ///
    /// # Errors
    /// When no live buffer starts there.
    pub fn free(&self, address: u64) -> Result<(), Error> {
        let mut heap = self.buffers.write().unwrap_or_else(PoisonError::into_inner);
        let Some(buffer) = heap.live.remove(&address) else {
            return Err(Error::Memory(format!("no live buffer starts at {address:#x}")));
        };
        heap.used -= buffer.bytes;
        Ok(())
    }

    /// Copies `bytes` to `address`, which may lie inside a buffer.
    ///
    /// # Errors
    /// When the range is not inside one live buffer.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let buffer = self.range(address, bytes.len() as u64)?;
        buffer.copy_in(address - buffer.address, bytes);
        Ok(())
    }

    /// Copies from `address` to `bytes`. Bytes that nothing wrote read as zero.
    ///
    /// # Errors
    /// When the range is not inside one live buffer.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let buffer = self.range(address, bytes.len() as u64)?;
        buffer.copy_out(address - buffer.address, bytes);
        Ok(())
    }

    /// Sets `length` bytes at `address` to `byte`.
    ///
    /// # Errors
    /// When the range is not inside one live buffer.
    pub fn fill(&self, address: u64, byte: u8, length: u64) -> Result<(), Error> {
        let buffer = self.range(address, length)?;
        let chunk = vec![byte; length.min(1 << 16) as usize];
        let offset = address - buffer.address;
        let mut at = 0;
        while at < length {
            let part = (length - at).min(chunk.len() as u64);
            buffer.copy_in(offset + at, &chunk[..part as usize]);
            at += part;
        }
        if length == buffer.bytes {
            buffer.whole.store(true, Relaxed);
        }
        Ok(())
    }

    fn range(&self, address: u64, length: u64) -> Result<Arc<Buffer>, Error> {
        let heap = self.buffers.read().unwrap_or_else(PoisonError::into_inner);
        heap.live
            .range(..=address)
            .next_back()
            .map(|(_, buffer)| buffer)
            .filter(|buffer| address - buffer.address <= buffer.bytes)
            .filter(|buffer| length <= buffer.bytes - (address - buffer.address))
            .cloned()
            .ok_or_else(|| Error::Memory(format!("{length} bytes at {address:#x} are not inside one live buffer")))
    }

    /// The buffers that are alive now, by address: what a launch sees.
    pub(super) fn snapshot(&self) -> Vec<Arc<Buffer>> {
        let heap = self.buffers.read().unwrap_or_else(PoisonError::into_inner);
        heap.live.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_and_bytes_come_back() {
        let memory = Memory::with_limit(100);
        let address = memory.alloc(10, "ten").unwrap();
        assert_eq!(address % 256, 0);
        memory.write(address + 1, &[1, 2, 3, 4, 5, 6, 7]).unwrap();
        let mut back = [9; 10];
        memory.read(address, &mut back).unwrap();
        assert_eq!(back, [0, 1, 2, 3, 4, 5, 6, 7, 0, 0]);
        assert!(memory.write(address + 8, &[0; 3]).is_err());
        assert!(memory.alloc(91, "more").is_err());
        memory.free(address).unwrap();
        assert!(memory.free(address).is_err() && memory.read(address, &mut back).is_err());
        memory.alloc(91, "more").unwrap();
    }

    #[test]
    fn written_bytes_are_known() {
        let memory = Memory::new();
        let address = memory.alloc(16, "b").unwrap();
        let buffer = memory.snapshot().remove(0);
        memory.write(address + 4, &[1, 2, 3, 4, 5]).unwrap();
        assert!(!buffer.is_written(0, 4) && buffer.is_written(4, 4) && !buffer.is_written(8, 4));
        assert!(buffer.is_written(8, 1) && !buffer.is_written(8, 2) && !buffer.is_written(8, 8));
        buffer.store_bytes(10, 2, 0xffff);
        assert!(buffer.is_written(10, 2) && !buffer.is_written(8, 4));
        memory.fill(address, 3, 16).unwrap();
        assert!(buffer.is_written(8, 8));
        assert_eq!(buffer.load_bytes(14, 2), 0x0303);
    }
}
