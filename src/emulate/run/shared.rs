//! Shared memory of a CTA: its words, which of them were written, and who touched each last.
//!
//! Order is kept by clocks. A warp's clock starts at one and goes up at each barrier and `bar.warp.sync`; an access is
//! stamped with it. A warp also knows, for every other warp, up to which clock that warp's accesses come before its own
//! (a barrier passes this on), and up to which its own lanes' accesses come before each other's: `bar.arrive`, which
//! does not wait, moves the clock but not that. Two accesses to one cell race if one writes and neither comes before the
//! other.
//!
//! A cell is a word; a byte where the kernel has narrower accesses.

use super::{FaultKind, Run, trouble};

/// What a warp knows of order.
#[derive(Debug, Default)]
pub(super) struct Order {
    pub warp: usize,
    pub clock: u32,
    /// The clock up to which the accesses of this warp's lanes come before each other's next ones.
    pub synced: u32,
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
pub(super) struct Write {
    pub clock: u32,
    pub line: u32,
    pub warp: u8,
    pub lane: u8,
    atomic: bool,
}

impl Write {
    pub fn by(by: Accessor) -> Self {
        let Accessor { order, lane, line } = by;
        Self { clock: order.clock, line, warp: order.warp as u8, lane: lane as u8, atomic: false }
    }

    /// Whether it was made by another lane of the same warp in the same instruction.
    pub fn is_same_instruction(&self, by: Accessor) -> bool {
        self.line == by.line && self.warp as usize == by.order.warp && self.clock == by.order.clock
    }

    /// In one word, without the atomic mark: 32 bits of clock, 22 of line, 5 of warp, 5 of lane.
    pub fn pack(self) -> u64 {
        let Self { clock, line, warp, lane, .. } = self;
        u64::from(clock) << 32 | u64::from(line & 0x3f_ffff) << 10 | u64::from(warp & 31) << 5 | u64::from(lane & 31)
    }

    /// The inverse of [`Write::pack`].
    pub fn unpack(word: u64) -> Self {
        let line = (word >> 10) as u32 & 0x3f_ffff;
        Self { clock: (word >> 32) as u32, line, warp: (word >> 5) as u8 & 31, lane: word as u8 & 31, atomic: false }
    }
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
                // Reads since the lanes last met still count.
                let others = if read.clock > order.synced { read.lanes } else { 0 };
                *read = Read { clock: order.clock, lanes: lanes | others };
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
        let Accessor { order, lane, .. } = by;
        for cell in self.cells(address, size) {
            let write = self.writes[cell];
            // Lanes that write one value in one instruction agree; atomics are ordered among themselves.
            let agreed = write.is_same_instruction(by) && same_value || atomic && write.atomic;
            if write.clock != 0 && !agreed && unordered(&write, order, 1 << lane).is_some() {
                return race(address, lane, "write", &write, order.warp);
            }
            let marks = &self.reads[cell * self.warps..(cell + 1) * self.warps];
            for (warp, read) in marks.iter().enumerate() {
                let others = if warp != order.warp {
                    if read.clock > order.seen[warp] { read.lanes } else { 0 }
                } else if read.clock > order.synced {
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
            self.writes[cell] = Write { atomic, ..Write::by(by) };
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
pub(super) fn unordered(write: &Write, order: &Order, lanes: u32) -> Option<usize> {
    let others = if write.warp as usize != order.warp {
        if write.clock > order.seen[write.warp as usize] { lanes } else { 0 }
    } else if write.clock > order.synced {
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
