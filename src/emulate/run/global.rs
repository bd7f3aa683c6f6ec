//! Global memory as a launch sees it: which buffer an address is in, and which CTAs touched each word.
//!
//! CTAs of one launch have no order among themselves, so two of them race on a word if one writes it and they do not
//! both use atomics. Inside a CTA, a word's last write is kept: a read or a write of it by another thread races where no
//! barrier is between (a write after a read is not seen). Accesses narrower than a word are not looked at: their
//! neighbours in the word may be another's by right.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use bytemuck::zeroed_slice_box;

use super::budget::Budget;
use super::shared::{Accessor, Write, unordered};
use super::{Environment, FaultKind, Run, trouble};

/// Marks of a buffer's words: two for each word. The first: in the high half one plus the CTA that wrote it, in the low half
/// one plus the CTA that read it, or `MANY`. The second: the last write inside its CTA. They are made in chunks when the
/// first of a chunk is set: four times the memory that a kernel touches, not that it could.
pub(in crate::emulate) struct Shadow {
    chunks: OnceLock<Box<[Chunk]>>,
    budget: Arc<Budget>,
}

type Chunk = OnceLock<Box<[AtomicU64]>>;

/// log2 of the words of a chunk.
const CHUNK_LOG2: u64 = 16;
const MANY: u32 = u32::MAX;

impl Shadow {
    /// Without marks, which are to be taken from `budget`.
    pub fn new(budget: Arc<Budget>) -> Self {
        Self { chunks: OnceLock::new(), budget }
    }

    fn marks(&self, bytes: u64, offset: u64) -> [&AtomicU64; 2] {
        let word = offset / 4;
        let chunks = self
            .chunks
            .get_or_init(|| (0..bytes.div_ceil(4).div_ceil(1 << CHUNK_LOG2)).map(|_| OnceLock::new()).collect());
        let chunk = chunks[(word >> CHUNK_LOG2) as usize].get_or_init(|| {
            self.budget.note(16 << CHUNK_LOG2);
            zeroed_slice_box(2 << CHUNK_LOG2)
        });
        let index = 2 * (word & ((1 << CHUNK_LOG2) - 1)) as usize;
        [&chunk[index], &chunk[index + 1]]
    }

    fn mark(&self, bytes: u64, offset: u64) -> &AtomicU64 {
        self.marks(bytes, offset)[0]
    }

    /// The last write of a word by `cta` itself, if there was one.
    fn own_write(&self, bytes: u64, offset: u64, cta: u32) -> Option<Write> {
        let [who, last] = self.marks(bytes, offset);
        ((who.load(Relaxed) >> 32) as u32 == cta + 1).then(|| Write::unpack(last.load(Relaxed)))
    }

    fn note_write(&self, bytes: u64, offset: u64, write: Write) {
        self.marks(bytes, offset)[1].store(write.pack(), Relaxed);
    }

    /// Notes a read by `cta`; the CTA that wrote the word, if it was another.
    fn read(&self, bytes: u64, offset: u64, cta: u32) -> Option<u32> {
        let me = cta + 1;
        let mark = self.mark(bytes, offset);
        let next = |mark: u64| {
            let reader = if mark as u32 == 0 || mark as u32 == me { me } else { MANY };
            mark & !u64::from(u32::MAX) | u64::from(reader)
        };
        let seen = mark.load(Relaxed);
        // Most reads repeat one of the same CTA: nothing to write then.
        let old = if next(seen) == seen {
            seen
        } else {
            mark.fetch_update(Relaxed, Relaxed, |mark| Some(next(mark))).unwrap_or(seen)
        };
        let writer = (old >> 32) as u32;
        (writer != 0 && writer != me).then(|| writer - 1)
    }

    /// Notes a write by `cta`; whether another CTA touched the word, and how.
    fn write(&self, bytes: u64, offset: u64, cta: u32) -> Option<String> {
        let me = cta + 1;
        let step = |mark: u64| Some(u64::from(me) << 32 | mark & u64::from(u32::MAX));
        let old = self.mark(bytes, offset).fetch_update(Relaxed, Relaxed, step).unwrap_or_default();
        match ((old >> 32) as u32, old as u32) {
            (writer, _) if writer != 0 && writer != me => Some(format!("CTA number {} wrote", writer - 1)),
            (_, MANY) => Some("several CTAs read".to_owned()),
            (_, reader) if reader != 0 && reader != me => Some(format!("CTA number {} read", reader - 1)),
            _ => None,
        }
    }
}

/// One CTA's view.
pub(super) struct Global<'a> {
    environment: &'a Environment<'a>,
    /// The number of the cluster (of the CTA, where there are none), x fastest.
    pub cta: u32,
    /// The buffer of the last access, where the next one is looked for first.
    last: usize,
}

impl<'a> Global<'a> {
    pub fn new(environment: &'a Environment<'a>) -> Self {
        Self { environment, cta: 0, last: 0 }
    }

    /// Checks that `length` bytes at `address` are inside one buffer, aligned to `length`; the offset in it. The elements
    /// are then read or written at offsets from that.
    pub fn check(&mut self, address: u64, length: u64, lane: usize) -> Run<u64> {
        let offset = self.find(address, length, lane)?;
        if !address.is_multiple_of(length) {
            return self.misaligned(address, length, lane);
        }
        Ok(offset)
    }

    /// As [`Global::check`] for `length` bytes, aligned to `align`.
    pub fn check_bytes(&mut self, address: u64, length: u64, align: u64, lane: usize) -> Run<u64> {
        let offset = self.find(address, length, lane)?;
        if !address.is_multiple_of(align) {
            return self.misaligned(address, align, lane);
        }
        Ok(offset)
    }

    fn misaligned(&self, address: u64, align: u64, lane: usize) -> Run<u64> {
        let label = &self.environment.buffers[self.last].0.label;
        let message =
            format!("global address {address:#x} in `{label}` is not a multiple of the access's {align} bytes");
        trouble(FaultKind::Alignment, lane, message)
    }

    /// The offset of `length` bytes that are inside one buffer, which is the last from then on.
    fn find(&mut self, address: u64, length: u64, lane: usize) -> Run<u64> {
        // Marks are made where an access needs them, and asked for at the next.
        self.environment.budget.expect_within(lane)?;
        let buffers = &self.environment.buffers;
        let inside = |index: usize| {
            buffers.get(index).is_some_and(|(buffer, _)| {
                let offset = address.wrapping_sub(buffer.address);
                address >= buffer.address && offset < buffer.bytes && length <= buffer.bytes - offset
            })
        };
        if !inside(self.last) {
            let index = buffers.partition_point(|(buffer, _)| buffer.address <= address).wrapping_sub(1);
            if !inside(index) {
                return trouble(FaultKind::Bounds, lane, self.outside(address, length, index));
            }
            self.last = index;
        }
        Ok(address - buffers[self.last].0.address)
    }

    /// Reads bytes at `offset` of the buffer checked last.
    pub fn load_into(&mut self, offset: u64, bytes: &mut [u8], by: Accessor) -> Run<()> {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let size = if at.is_multiple_of(4) && rest.len() >= 4 { 4 } else { 1 };
            let value = self.load(at, size, by)?.to_le_bytes();
            let (now, later) = rest.split_at_mut(size as usize);
            now.copy_from_slice(&value[..size as usize]);
            rest = later;
            at += size;
        }
        Ok(())
    }

    fn outside(&self, address: u64, length: u64, before: usize) -> String {
        let nearest = match self.environment.buffers.get(before) {
            Some((buffer, _)) => {
                let past = address - buffer.address;
                format!("it is {past} bytes after the start of `{}`, which has {} bytes", buffer.label, buffer.bytes)
            }
            None => "there is no buffer below it".to_owned(),
        };
        format!("{length} bytes at global address {address:#x} are not inside a live buffer: {nearest}")
    }

    fn expect_written(&self, offset: u64, size: u64, lane: usize, what: &str) -> Run<()> {
        let buffer = &self.environment.buffers[self.last].0;
        if !self.environment.checks.init || buffer.is_written(offset, size) {
            return Ok(());
        }
        let message =
            format!("{size} bytes at offset {offset} of `{}` are {what} and nothing wrote them", buffer.label);
        trouble(FaultKind::Uninitialised, lane, message)
    }

    /// Reads `size` bytes at `offset` of the buffer checked last.
    pub fn load(&mut self, offset: u64, size: u64, by: Accessor) -> Run<u64> {
        let lane = by.lane;
        self.expect_written(offset, size, lane, "read")?;
        let (buffer, shadow) = &self.environment.buffers[self.last];
        if self.environment.checks.race && size >= 4 {
            for word in (offset..offset + size).step_by(4) {
                if let Some(other) = shadow.read(buffer.bytes, word, self.cta) {
                    let label = &buffer.label;
                    let message =
                        format!("read of offset {word} of `{label}`, which CTA number {other} wrote in this launch");
                    return trouble(FaultKind::Race, lane, message);
                }
                if let Some(write) = shadow.own_write(buffer.bytes, word, self.cta)
                    && unordered(&write, by.order, 1 << lane).is_some()
                {
                    return self.race_inside("read", word, &write, by);
                }
            }
        }
        Ok(buffer.load_bytes(offset, size))
    }

    /// Writes `size` bytes at `offset` of the buffer checked last.
    pub fn store(&mut self, offset: u64, size: u64, value: u64, by: Accessor) -> Run<()> {
        let lane = by.lane;
        let (buffer, shadow) = &self.environment.buffers[self.last];
        if self.environment.checks.race && size >= 4 {
            for word in (offset..offset + size).step_by(4) {
                if let Some(write) = shadow.own_write(buffer.bytes, word, self.cta) {
                    // Who writes the value that is there already agrees with who put it there.
                    let agreed = buffer.load_bytes(offset, size) == value;
                    if !agreed && unordered(&write, by.order, 1 << lane).is_some() {
                        return self.race_inside("write", word, &write, by);
                    }
                }
                if let Some(other) = shadow.write(buffer.bytes, word, self.cta) {
                    let message = format!("write of offset {word} of `{}`, which {other} in this launch", buffer.label);
                    return trouble(FaultKind::Race, lane, message);
                }
                shadow.note_write(buffer.bytes, word, Write::by(by));
            }
        }
        buffer.store_bytes(offset, size, value);
        Ok(())
    }

    fn race_inside<T>(&self, what: &str, offset: u64, write: &Write, by: Accessor) -> Run<T> {
        let label = &self.environment.buffers[self.last].0.label;
        let Write { agent, lane, line, .. } = write;
        let who = by.order.agents.name(usize::from(*agent));
        let message = format!(
            "{what} of offset {offset} of `{label}`, which {who} lane {lane} wrote at line {line} with no barrier between"
        );
        trouble(FaultKind::Race, by.lane, message)
    }

    /// Replaces the value at `offset` of the buffer checked last; the value before.
    pub fn update(&mut self, offset: u64, size: u64, lane: usize, update: &dyn Fn(u64) -> u64) -> Run<u64> {
        self.expect_written(offset, size, lane, "updated")?;
        Ok(self.environment.buffers[self.last].0.update(offset, size, update))
    }
}
