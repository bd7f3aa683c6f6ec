//! Shared memory of a CTA: its words, which of them were written, and who touched each last.
//!
//! Order is kept by clocks. A warp's clock starts at one and goes up at each barrier and `bar.warp.sync`; an access is
//! stamped with it. A warp also knows, for every other warp, up to which clock that warp's accesses come before its own
//! (a barrier passes this on). Two accesses to one cell race if one writes and neither comes before the other: in one
//! warp, if they are by different lanes at the same clock; between warps, if the earlier's clock is not known yet.
//!
//! A cell is a word; a byte where the kernel has narrower accesses.

use super::{FaultKind, Run, trouble};

/// What a warp knows of order.
#[derive(Debug, Default)]
pub(super) struct Order {
    pub warp: usize,
    pub clock: u32,
    /// For each warp, the clock up to which its accesses come before this warp's next one.
    pub seen: Vec<u32>,
}

/// Who makes an access: the warp's order, the lane (the first of several), and the line of its instruction.
#[derive(Clone, Copy)]
pub(super) struct Accessor<'a> {
    pub order: &'a Order,
    pub lane: usize,
    pub line: u32,
}

/// The last write of a cell. `clock` zero: none.
#[derive(Clone, Copy, Default)]
struct Write {
    clock: u32,
    line: u32,
    warp: u8,
    lane: u8,
    atomic: bool,
}

/// One warp's last reads of a cell: the lanes that read it at that clock.
#[derive(Clone, Copy, Default)]
struct Read {
    clock: u32,
    lanes: u32,
}

#[derive(Default)]
pub(super) struct Shared {
    bytes: u32,
    words: Vec<u32>,
    /// Four bits for each word: which of its bytes were written.
    written: Vec<u8>,
    warps: usize,
    /// log2 of a cell's bytes.
    cell_log2: u32,
    writes: Vec<Write>,
    /// `warps` marks for each cell.
    reads: Vec<Read>,
    check_race: bool,
    check_init: bool,
}

impl Shared {
    /// Makes it new for a CTA.
    pub fn reset(&mut self, bytes: u32, warps: usize, narrow: bool, check_race: bool, check_init: bool) {
        let words = bytes.div_ceil(4) as usize;
        self.bytes = bytes;
        self.warps = warps;
        self.cell_log2 = if narrow { 0 } else { 2 };
        self.check_race = check_race;
        self.check_init = check_init;
        refill(&mut self.words, words);
        refill(&mut self.written, if check_init { words } else { 0 });
        let cells = if check_race { (bytes as usize).div_ceil(1 << self.cell_log2) } else { 0 };
        refill(&mut self.writes, cells);
        refill(&mut self.reads, cells * warps);
    }

    /// Checks that `length` bytes at `address` are shared memory, aligned to `length`.
    pub fn check(&self, address: u64, length: u64, lane: usize) -> Run<()> {
        if address.saturating_add(length) > u64::from(self.bytes) {
            let bytes = self.bytes;
            let message =
                format!("{length} bytes at shared address {address:#x} are not inside the CTA's {bytes} bytes");
            return trouble(FaultKind::Bounds, lane, message);
        }
        if !address.is_multiple_of(length) {
            let message = format!("shared address {address:#x} is not a multiple of the access's {length} bytes");
            return trouble(FaultKind::Alignment, lane, message);
        }
        Ok(())
    }

    /// Reads `size` ≤ 8 bytes at a checked address; `lanes` all read it.
    pub fn load(&mut self, address: u64, size: u64, by: Accessor, lanes: u32) -> Run<u64> {
        self.expect_written(address, size, by.lane, "read")?;
        if self.check_race {
            let order = by.order;
            for cell in self.cells(address, size) {
                let write = self.writes[cell];
                if write.clock != 0
                    && let Some(lane) = unordered(&write, order, lanes)
                {
                    return race(address, lane, "read", &write, order.warp);
                }
                let read = &mut self.reads[cell * self.warps + order.warp];
                if read.clock == order.clock {
                    read.lanes |= lanes;
                } else {
                    *read = Read { clock: order.clock, lanes };
                }
            }
        }
        Ok(self.get(address, size))
    }

    /// Writes `size` ≤ 8 bytes at a checked address.
    pub fn store(&mut self, address: u64, size: u64, value: u64, by: Accessor) -> Run<()> {
        if self.check_race {
            let same = self.get(address, size) == value;
            self.mark_write(address, size, by, false, same)?;
        }
        self.put(address, size, value);
        Ok(())
    }

    /// Replaces the value at a checked address; the value before.
    pub fn update(&mut self, address: u64, size: u64, by: Accessor, update: &dyn Fn(u64) -> u64) -> Run<u64> {
        self.expect_written(address, size, by.lane, "updated")?;
        if self.check_race {
            self.mark_write(address, size, by, true, false)?;
        }
        let old = self.get(address, size);
        self.put(address, size, update(old));
        Ok(old)
    }

    fn expect_written(&self, address: u64, size: u64, lane: usize, what: &str) -> Run<()> {
        if !self.check_init || self.is_written(address, size) {
            return Ok(());
        }
        let message = format!("{size} bytes at shared address {address:#x} are {what} and nothing wrote them");
        trouble(FaultKind::Uninitialised, lane, message)
    }

    fn mark_write(&mut self, address: u64, size: u64, by: Accessor, atomic: bool, same_value: bool) -> Run<()> {
        let Accessor { order, lane, line } = by;
        for cell in self.cells(address, size) {
            let write = self.writes[cell];
            // Lanes that write one value in one instruction agree; atomics are ordered among themselves.
            let one_instruction = write.line == line && write.warp as usize == order.warp && write.clock == order.clock;
            let agreed = one_instruction && same_value || atomic && write.atomic;
            if write.clock != 0 && !agreed && unordered(&write, order, 1 << lane).is_some() {
                return race(address, lane, "write", &write, order.warp);
            }
            let marks = &self.reads[cell * self.warps..(cell + 1) * self.warps];
            for (warp, read) in marks.iter().enumerate() {
                let others = if warp != order.warp {
                    if read.clock > order.seen[warp] { read.lanes } else { 0 }
                } else if read.clock == order.clock {
                    read.lanes & !(1 << lane)
                } else {
                    0
                };
                if others != 0 {
                    let reader = others.trailing_zeros();
                    return trouble(
                        FaultKind::Race,
                        lane,
                        format!(
                            "write of shared address {address:#x}, which warp {warp} lane {reader} read with no barrier \
                             between"
                        ),
                    );
                }
            }
            self.writes[cell] = Write { clock: order.clock, line, warp: order.warp as u8, lane: lane as u8, atomic };
        }
        Ok(())
    }

    fn cells(&self, address: u64, size: u64) -> std::ops::Range<usize> {
        let first = (address >> self.cell_log2) as usize;
        first..first + (size >> self.cell_log2).max(1) as usize
    }

    fn is_written(&self, address: u64, size: u64) -> bool {
        let index = (address / 4) as usize;
        match size {
            8 => self.written[index] & self.written[index + 1] == 0xf,
            4 => self.written[index] == 0xf,
            _ => {
                let bits = (((1_u32 << size) - 1) << (address & 3)) as u8;
                self.written[index] & bits == bits
            }
        }
    }

    fn get(&self, address: u64, size: u64) -> u64 {
        let index = (address / 4) as usize;
        match size {
            8 => u64::from(self.words[index]) | u64::from(self.words[index + 1]) << 32,
            4 => self.words[index].into(),
            _ => u64::from(self.words[index] >> (8 * (address & 3))) & ((1 << (8 * size)) - 1),
        }
    }

    fn put(&mut self, address: u64, size: u64, value: u64) {
        let index = (address / 4) as usize;
        let (mask, shift) = match size {
            8 => {
                self.words[index + 1] = (value >> 32) as u32;
                (u32::MAX, 0)
            }
            4 => (u32::MAX, 0),
            _ => (((1_u32 << (8 * size)) - 1) << (8 * (address & 3)), 8 * (address & 3)),
        };
        self.words[index] = self.words[index] & !mask | ((value as u32) << shift) & mask;
        if self.check_init {
            match size {
                8 => self.written[index..index + 2].fill(0xf),
                4 => self.written[index] = 0xf,
                _ => self.written[index] |= (((1_u32 << size) - 1) << (address & 3)) as u8,
            }
        }
    }
}

/// The first of `lanes` that `write` does not come before.
fn unordered(write: &Write, order: &Order, lanes: u32) -> Option<usize> {
    let others = if write.warp as usize != order.warp {
        if write.clock > order.seen[write.warp as usize] { lanes } else { 0 }
    } else if write.clock == order.clock {
        lanes & !(1 << write.lane)
    } else {
        0
    };
    (others != 0).then_some(others.trailing_zeros() as usize)
}

fn race<T>(address: u64, lane: usize, what: &str, write: &Write, warp: usize) -> Run<T> {
    let Write { line, warp: other, lane: other_lane, .. } = write;
    let between = if usize::from(*other) == warp { "bar.warp.sync or barrier" } else { "barrier" };
    trouble(
        FaultKind::Race,
        lane,
        format!(
            "{what} of shared address {address:#x}, which warp {other} lane {other_lane} wrote at line {line} with no \
             {between} between"
        ),
    )
}

fn refill<T: Clone + Default>(vector: &mut Vec<T>, length: usize) {
    vector.clear();
    vector.resize(length, T::default());
}
