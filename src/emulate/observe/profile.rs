//! Where a launch spends its instructions, and what its accesses cost.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use serde::Serialize;

use super::banks::{SECTOR, sectors, wavefronts};
use super::trace::{Access, AccessKind, Memory};
use crate::emulate::lanes::lanes;

/// What was counted of an instruction, a line or a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Instructions, counted once for each warp. A wait that is asked again counts again.
    pub warp_instructions: u64,
    /// Instructions, counted for each active lane.
    pub thread_instructions: u64,
    /// Branches at which the lanes of a warp went different ways.
    pub splits: u64,
    /// Accesses of warps to shared memory.
    pub shared_accesses: u64,
    /// The wavefronts that they took.
    pub wavefronts: u64,
    /// Those of them that bank conflicts cost.
    pub conflicts: u64,
    /// Accesses of warps to global memory.
    pub global_accesses: u64,
    /// Bytes that their lanes asked for.
    pub global_bytes: u64,
    /// Sectors of 32 bytes that they touched, each access for itself.
    pub sectors: u64,
}

impl Counters {
    /// Lanes that were active in an instruction, on average.
    pub fn active_lanes(&self) -> f64 {
        self.thread_instructions as f64 / self.warp_instructions.max(1) as f64
    }

    /// The bytes asked for, as a part of those in the sectors touched: 1 where every byte that was moved is used, and more
    /// where lanes share bytes. `None` if there were no accesses.
    pub fn coalescing(&self) -> Option<f64> {
        (self.sectors > 0).then(|| self.global_bytes as f64 / (SECTOR * self.sectors) as f64)
    }

    /// Counts one access of a warp.
    pub(in crate::emulate) fn add_access(&mut self, access: &Access) {
        let pairs = || lanes(access.lanes).zip(access.addresses.iter().copied());
        match access.memory {
            Memory::Shared => {
                let (taken, fewest) = wavefronts(access.bytes, pairs(), access.kind == AccessKind::Atomic);
                self.shared_accesses += 1;
                self.wavefronts += taken;
                self.conflicts += taken - fewest;
            }
            Memory::Global => {
                self.global_accesses += 1;
                self.global_bytes += access.bytes * u64::from(access.lanes.count_ones());
                self.sectors += sectors(access.bytes, access.addresses.iter().copied());
            }
            Memory::Local | Memory::Param => {}
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.warp_instructions += other.warp_instructions;
        self.thread_instructions += other.thread_instructions;
        self.splits += other.splits;
        self.shared_accesses += other.shared_accesses;
        self.wavefronts += other.wavefronts;
        self.conflicts += other.conflicts;
        self.global_accesses += other.global_accesses;
        self.global_bytes += other.global_bytes;
        self.sectors += other.sectors;
    }
}

/// A line of the PTX text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProfileLine {
    /// 1-based.
    pub line: u32,
    /// What stands there.
    pub text: String,
    /// Lanes that were active in an instruction, on average.
    pub active_lanes: f64,
    /// What was counted.
    #[serde(flatten)]
    pub counters: Counters,
}

/// What was counted in a launch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// The entry.
    pub kernel: String,
    /// CTAs run.
    pub ctas: u64,
    /// Lanes that were active in an instruction, on average.
    pub active_lanes: f64,
    /// Over all lines.
    pub total: Counters,
    /// The lines that were executed, in order.
    pub lines: Vec<ProfileLine>,
}

impl Profile {
    /// The profile of `counted`: for each instruction its line, and what was counted.
    pub(super) fn new(kernel: &str, source: &str, ctas: u64, counted: impl Iterator<Item = (u32, Counters)>) -> Self {
        let mut by_line: BTreeMap<u32, Counters> = BTreeMap::new();
        let mut total = Counters::default();
        for (line, counters) in counted.filter(|(_, counters)| counters.warp_instructions > 0) {
            *by_line.entry(line).or_default() += counters;
            total += counters;
        }
        let texts: Vec<&str> = source.lines().collect();
        let lines = by_line.into_iter().map(|(line, counters)| ProfileLine {
            line,
            text: one_line(texts.get(line as usize - 1).copied().unwrap_or_default()),
            active_lanes: counters.active_lanes(),
            counters,
        });
        let lines = lines.collect();
        Self { kernel: kernel.to_owned(), ctas, active_lanes: total.active_lanes(), total, lines }
    }

    /// The line numbered `line`, if it was executed.
    pub fn line(&self, line: u32) -> Option<&ProfileLine> {
        self.lines.binary_search_by_key(&line, |found| found.line).ok().map(|at| &self.lines[at])
    }
}

/// The words of `text`, a blank between each two: tabs and line breaks would spoil a table.
pub(in crate::emulate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Columns of PTX in the table: the registers of a matrix product go on for long.
const TEXT: usize = 100;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The heads of the table's columns, as wide as what stands below.
const HEADS: [&str; 10] =
    ["line", "warp", "thread", "lanes", "splits", "waves", "conflicts", "bytes", "sectors", "used"];

/// The cells of a row but the first: empty where there is nothing to count.
fn cells(counters: &Counters) -> [String; 9] {
    let unless = |none: bool, count: u64| if none { String::new() } else { count.to_string() };
    let (shared, global) = (counters.shared_accesses == 0, counters.global_accesses == 0);
    [
        counters.warp_instructions.to_string(),
        counters.thread_instructions.to_string(),
        format!("{:.1}", counters.active_lanes()),
        unless(counters.splits == 0, counters.splits),
        unless(shared, counters.wavefronts),
        unless(shared, counters.conflicts),
        unless(global, counters.global_bytes),
        unless(global, counters.sectors),
        counters.coalescing().map_or_else(String::new, |part| format!("{:.0} %", 100.0 * part)),
    ]
}

/// A table with the PTX beside it; the last row is the total.
impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |head: &str, counters: &Counters, text: &str| {
            let [a, b, c, d, e, f, g, h, i] = cells(counters);
            ([head.to_owned(), a, b, c, d, e, f, g, h, i], text.to_owned())
        };
        let mut rows = vec![(HEADS.map(str::to_owned), String::new())];
        rows.extend(self.lines.iter().map(|line| row(&line.line.to_string(), &line.counters, &shortened(&line.text))));
        rows.push(row("all", &self.total, &format!("{}, {} CTAs", self.kernel, self.ctas)));
        let width = |column: usize| rows.iter().map(|(cells, _)| cells[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
        for (cells, text) in &rows {
            let cells: Vec<_> = cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}")).collect();
            writeln!(formatter, "{}", format!("{}  {text}", cells.join("  ")).trim_end())?;
        }
        Ok(())
    }
}
