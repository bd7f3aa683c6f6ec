//! Shared memory of a CTA: its words, which of them were written, and who touched each last.
//!
//! Order is kept by clocks ([`super::order`]). A warp's clock starts at one and goes up at each barrier and
//! `bar.warp.sync`; an access is stamped with it. `bar.arrive`, which does not wait, moves the clock but not that up to
//! which a warp's own lanes are in order.
//!
//! A cell is a word; a byte where the kernel has narrower accesses.

use std::collections::HashMap;
use std::sync::Arc;

use super::budget::{Budget, ENTRY};
use super::order::{Agent, Agents, Order};
use super::{FaultKind, Run, trouble};
use crate::emulate::Checks;

/// Who makes an access: the warp's order, the lane (the first of several), and the line of its instruction.
#[derive(Clone, Copy)]
pub(super) struct Accessor<'a> {
    pub order: &'a Order,
    pub lane: usize,
    pub line: u32,
}

/// Who makes an asynchronous access: an agent of the warp that issued it.
#[derive(Clone, Copy)]
pub(super) struct AsyncAccessor<'a> {
    pub agent: usize,
    pub clock: u32,
    /// The issuing warp's order when it was issued, and the lane.
    pub order: &'a Order,
    pub lane: usize,
    pub line: u32,
    /// True for the asynchronous proxy, which sees ordinary stores only past a `fence.proxy.async`.
    pub proxied: bool,
}

impl AsyncAccessor<'_> {
    /// Whether an access at `clock` of `agent`, by `lane`, comes before this one.
    fn follows(&self, agent: usize, clock: u32, lanes: u32) -> bool {
        if agent == self.agent {
            return true;
        }
        if agent == self.order.agent {
            return clock <= self.order.synced || lanes & !(1 << self.lane) == 0;
        }
        clock <= self.order.known.seen(agent)
    }
}

/// The last write of a cell. `clock` zero: none.
#[derive(Clone, Copy, Default)]
pub(super) struct Write {
    pub clock: u32,
    pub line: u32,
    pub agent: u16,
    pub lane: u8,
    atomic: bool,
    /// Put there by `cp.async`, which asynchronous readers see without a fence: PTX's text asks for one, but Triton's and
    /// CUTLASS's kernels do without, and the hardware gives them the data.
    copied: bool,
}

impl Write {
    pub fn by(by: Accessor) -> Self {
        let Accessor { order, lane, line } = by;
        Self { clock: order.clock, line, agent: order.agent as u16, lane: lane as u8, atomic: false, copied: false }
    }

    /// In one word, without the atomic mark: 27 bits of clock, 20 of line, 12 of agent, 5 of lane.
    pub fn pack(self) -> u64 {
        let Self { clock, line, agent, lane, .. } = self;
        let clock = u64::from(clock.min((1 << 27) - 1));
        clock << 37 | u64::from(line & 0xf_ffff) << 17 | u64::from(agent & 0xfff) << 5 | u64::from(lane & 31)
    }

    /// The inverse of [`Write::pack`].
    pub fn unpack(word: u64) -> Self {
        let line = (word >> 17) as u32 & 0xf_ffff;
        let (agent, lane) = ((word >> 5) as u16 & 0xfff, word as u8 & 31);
        Self { clock: (word >> 37) as u32, line, agent, lane, atomic: false, copied: false }
    }
}

/// One agent's last reads of a cell: the lanes that read it at that clock.
#[derive(Clone, Copy, Default)]
struct Read {
    clock: u32,
    lanes: u32,
}

/// A memory with checks: the shared memory of a CTA, or its tensor memory.
#[derive(Default)]
pub(super) struct Shared {
    /// What it is called in messages.
    name: &'static str,
    bytes: u32,
    words: Vec<u32>,
    /// Four bits for each word: which of its bytes were written.
    written: Vec<u8>,
    agents: Agents,
    /// The number of the CTA's first agent.
    first: usize,
    /// Reads by agents of other CTAs of the cluster, by cell: rare.
    remote: HashMap<usize, Vec<(usize, Read)>>,
    /// What `remote` has taken from the budget, if there is one.
    remote_bytes: u64,
    budget: Option<Arc<Budget>>,
    /// log2 of a cell's bytes.
    cell_log2: u32,
    writes: Vec<Write>,
    /// A mark for each cell and agent of the CTA.
    reads: Vec<Read>,
    check_race: bool,
    check_init: bool,
    fence_copies: bool,
}

impl Shared {
    /// One of no bytes, whose growing marks are to be taken from `budget`.
    pub fn new(budget: Arc<Budget>) -> Self {
        Self { budget: Some(budget), ..Self::default() }
    }

    /// Makes it new for the CTA of `rank`.
    pub fn reset(&mut self, name: &'static str, bytes: u32, agents: Agents, rank: usize, narrow: bool, checks: Checks) {
        let words = bytes.div_ceil(4) as usize;
        self.name = name;
        self.bytes = bytes;
        self.agents = agents;
        self.first = rank * agents.per_cta();
        self.remote = HashMap::new();
        if let Some(budget) = &self.budget {
            budget.give(std::mem::take(&mut self.remote_bytes));
        }
        self.cell_log2 = if narrow { 0 } else { 2 };
        self.check_race = checks.race;
        self.check_init = checks.init;
        self.fence_copies = checks.fence_copies;
        refill(&mut self.words, words);
        refill(&mut self.written, if checks.init { words } else { 0 });
        let cells = if checks.race { (bytes as usize).div_ceil(1 << self.cell_log2) } else { 0 };
        refill(&mut self.writes, cells);
        refill(&mut self.reads, cells * agents.per_cta());
    }

    /// Takes over all that a smaller memory of the same CTA holds.
    pub fn take_over(&mut self, old: &Shared) {
        self.words[..old.words.len()].copy_from_slice(&old.words);
        self.written[..old.written.len()].copy_from_slice(&old.written);
        self.writes[..old.writes.len()].copy_from_slice(&old.writes);
        self.reads[..old.reads.len()].copy_from_slice(&old.reads);
    }

    /// Forgets what was written to a range of words.
    pub fn forget(&mut self, range: std::ops::Range<u64>) {
        if self.check_init {
            self.written[(range.start / 4) as usize..(range.end / 4) as usize].fill(0);
        }
    }

    /// Checks that `length` bytes at `address` are shared memory, aligned to `length`.
    pub fn check(&self, address: u64, length: u64, lane: usize) -> Run<()> {
        self.check_inside(address, length, lane)?;
        if !address.is_multiple_of(length) {
            let name = self.name;
            let message = format!("{name} address {address:#x} is not a multiple of the access's {length} bytes");
            return trouble(FaultKind::Alignment, lane, message);
        }
        Ok(())
    }

    fn check_inside(&self, address: u64, length: u64, lane: usize) -> Run<()> {
        if address.saturating_add(length) > u64::from(self.bytes) {
            let (name, bytes) = (self.name, self.bytes);
            let message =
                format!("{length} bytes at {name} address {address:#x} are not inside the CTA's {bytes} bytes");
            return trouble(FaultKind::Bounds, lane, message);
        }
        Ok(())
    }

    /// Checks that `length` bytes at `address` are in it, aligned to `align`.
    pub fn check_range(&self, address: u64, length: u64, align: u64, lane: usize) -> Run<()> {
        if !address.is_multiple_of(align) {
            let name = self.name;
            let message = format!("{name} address {address:#x} is not a multiple of {align}");
            return trouble(FaultKind::Alignment, lane, message);
        }
        self.check_inside(address, length, lane)
    }

    /// Reads `size` ≤ 8 bytes at a checked address; `lanes` all read it.
    pub fn load(&mut self, address: u64, size: u64, by: Accessor, lanes: u32) -> Run<u64> {
        // First the race: what is still on its way has not been written either.
        if self.check_race {
            let order = by.order;
            for cell in self.cells(address, size) {
                let write = self.writes[cell];
                if write.clock != 0
                    && let Some(lane) = unordered(&write, order, lanes)
                {
                    return self.race(address, lane, "read", &write, order.agent);
                }
                let (synced, clock) = (order.synced, order.clock);
                let read = self.read_mark(cell, order.agent);
                // Reads since the lanes last met still count.
                let others = if read.clock > synced { read.lanes } else { 0 };
                *read = Read { clock, lanes: lanes | others };
            }
        }
        self.expect_written(address, size, by.lane, "read")?;
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
        let name = self.name;
        let message = format!("{size} bytes at {name} address {address:#x} are {what} and nothing wrote them");
        trouble(FaultKind::Uninitialised, lane, message)
    }

    fn mark_write(&mut self, address: u64, size: u64, by: Accessor, atomic: bool, same_value: bool) -> Run<()> {
        let Accessor { order, lane, .. } = by;
        for cell in self.cells(address, size) {
            let write = self.writes[cell];
            // Who writes the value that is there already agrees with who put it there, but not with asynchronous work, which
            // may not have put its value yet; atomics are ordered among themselves.
            let is_put = self.agents.split(usize::from(write.agent)).0 == Agent::Warp;
            let agreed = same_value && is_put || atomic && write.atomic;
            if write.clock != 0 && !agreed && unordered(&write, order, 1 << lane).is_some() {
                return self.race(address, lane, "write", &write, order.agent);
            }
            let unordered = |agent: usize, read: &Read| {
                if agent != order.agent {
                    if read.clock > order.known.seen(agent) { read.lanes } else { 0 }
                } else if read.clock > order.synced {
                    read.lanes & !(1 << lane)
                } else {
                    0
                }
            };
            self.expect_reads_ordered(cell, address, lane, unordered)?;
            self.writes[cell] = Write { atomic, ..Write::by(by) };
        }
        Ok(())
    }

    /// The mark of an agent's reads of a cell.
    fn read_mark(&mut self, cell: usize, agent: usize) -> &mut Read {
        let (first, count) = (self.first, self.agents.per_cta());
        if (first..first + count).contains(&agent) {
            return &mut self.reads[cell * count + agent - first];
        }
        let marks = self.remote.entry(cell).or_default();
        let place = marks.iter().position(|(other, _)| *other == agent).unwrap_or_else(|| {
            marks.push((agent, Read::default()));
            if let Some(budget) = &self.budget {
                // The table grows by half and more; the next access from another CTA is refused where it is too much.
                budget.note(ENTRY);
                self.remote_bytes += ENTRY;
            }
            marks.len() - 1
        });
        &mut marks[place].1
    }

    /// A fault if `unordered` finds lanes among the marks of a cell's reads.
    fn expect_reads_ordered(
        &self,
        cell: usize,
        address: u64,
        lane: usize,
        unordered: impl Fn(usize, &Read) -> u32,
    ) -> Run<()> {
        let count = self.agents.per_cta();
        let own = self.reads[cell * count..(cell + 1) * count].iter().enumerate();
        let own = own.filter(|(_, read)| read.clock != 0).map(|(place, read)| (self.first + place, read));
        let remote = self.remote.get(&cell).into_iter().flatten().map(|(agent, read)| (*agent, read));
        for (agent, read) in own.chain(remote) {
            let others = unordered(agent, read);
            if others != 0 {
                let (name, who, reader) = (self.name, self.agents.name(agent), others.trailing_zeros());
                let message = format!(
                    "write of {name} address {address:#x}, which {who} lane {reader} read with no barrier between"
                );
                return trouble(FaultKind::Race, lane, message);
            }
        }
        Ok(())
    }

    /// An asynchronous read of `size` bytes (a multiple of four) at a checked address.
    pub fn read_async(&mut self, address: u64, size: u64, by: AsyncAccessor) -> Run<()> {
        if self.check_race {
            for cell in self.cells(address, size) {
                let write = self.writes[cell];
                self.expect_visible(address, &write, by, "read")?;
                *self.read_mark(cell, by.agent) = Read { clock: by.clock, lanes: 1 << by.lane };
            }
        }
        (address..address + size).step_by(4).try_for_each(|word| self.expect_written(word, 4, by.lane, "read"))
    }

    /// Checks and marks an asynchronous write of `size` bytes at a checked address; [`Shared::put`] writes them.
    pub fn write_async(&mut self, address: u64, size: u64, by: AsyncAccessor) -> Run<()> {
        if !self.check_race {
            return Ok(());
        }
        for cell in self.cells(address, size) {
            let write = self.writes[cell];
            self.expect_visible(address, &write, by, "write")?;
            let unordered = |agent: usize, read: &Read| {
                if by.follows(agent, read.clock, read.lanes) { 0 } else { read.lanes }
            };
            self.expect_reads_ordered(cell, address, by.lane, unordered)?;
            let (agent, lane) = (by.agent as u16, by.lane as u8);
            self.writes[cell] = Write { clock: by.clock, line: by.line, agent, lane, atomic: false, copied: false };
        }
        Ok(())
    }

    /// Makes an asynchronous write that has completed one of the issuing lane's own.
    pub fn adopt(&mut self, address: u64, size: u64, by: Accessor) {
        if self.check_race {
            for cell in self.cells(address, size) {
                self.writes[cell] = Write { copied: true, ..Write::by(by) };
            }
        }
    }

    /// A fault if an asynchronous access does not follow `write`, or follows it without the fence between the proxies.
    fn expect_visible(&self, address: u64, write: &Write, by: AsyncAccessor, what: &str) -> Run<()> {
        let agent = usize::from(write.agent);
        if write.clock == 0 {
            return Ok(());
        }
        if !by.follows(agent, write.clock, 1 << write.lane) {
            return self.race(address, by.lane, what, write, by.order.agent);
        }
        let ordinary = match self.agents.split(agent).0 {
            Agent::Warp => self.fence_copies || !write.copied,
            Agent::Copy => self.fence_copies,
            _ => false,
        };
        if by.proxied && ordinary && write.clock > by.order.known.fenced[agent] {
            let (name, who, line) = (self.name, self.agents.name(agent), write.line);
            let message = format!(
                "an asynchronous {what} of {name} address {address:#x}, which {who} lane {} wrote at line {line} with no \
                 fence.proxy.async between",
                write.lane
            );
            return trouble(FaultKind::Race, by.lane, message);
        }
        Ok(())
    }

    fn race<T>(&self, address: u64, lane: usize, what: &str, write: &Write, agent: usize) -> Run<T> {
        let Write { line, agent: other, lane: other_lane, .. } = *write;
        let other = usize::from(other);
        let (name, who) = (self.name, self.agents.name(other));
        let between = match self.agents.split(other).0 {
            Agent::Warp if other == agent => "bar.warp.sync or barrier",
            Agent::Warp => "barrier",
            _ => "wait for it",
        };
        trouble(
            FaultKind::Race,
            lane,
            format!(
                "{what} of {name} address {address:#x}, which {who} lane {other_lane} wrote at line {line} with no {between} \
                 between"
            ),
        )
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

    /// All bytes, and for each whether something wrote it, if that is known.
    pub fn contents(&self) -> (Vec<u8>, Option<Vec<bool>>) {
        let bytes = self.bytes as usize;
        let all = self.words.iter().flat_map(|word| word.to_le_bytes()).take(bytes).collect();
        let written = |at: usize| self.written[at / 4] >> (at % 4) & 1 == 1;
        (all, self.check_init.then(|| (0..bytes).map(written).collect()))
    }

    /// `size` ≤ 8 bytes at a checked address.
    pub fn get(&self, address: u64, size: u64) -> u64 {
        let index = (address / 4) as usize;
        match size {
            8 => u64::from(self.words[index]) | u64::from(self.words[index + 1]) << 32,
            4 => self.words[index].into(),
            _ => u64::from(self.words[index] >> (8 * (address & 3))) & ((1 << (8 * size)) - 1),
        }
    }

    /// Puts `size` ≤ 8 bytes at a checked address, without a check.
    pub fn put(&mut self, address: u64, size: u64, value: u64) {
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
    let agent = usize::from(write.agent);
    let others = if agent != order.agent {
        if write.clock > order.known.seen(agent) { lanes } else { 0 }
    } else if write.clock > order.synced {
        lanes & !(1 << write.lane)
    } else {
        0
    };
    (others != 0).then_some(others.trailing_zeros() as usize)
}

fn refill<T: Clone + Default>(vector: &mut Vec<T>, length: usize) {
    vector.clear();
    vector.resize(length, T::default());
}
