//! A warp and its CTA's shared memory at one instruction.

use std::fmt::{self, Write};
use std::ops::Range;

use serde::{Serialize, Serializer};

use super::value::{Value, hex_mask};
use crate::emulate::lanes::lanes;

/// Bytes of shared memory in a row of text.
const ROW: usize = 16;
/// Lanes in a row of text.
const LANES_OF_ROW: usize = 8;

/// A register where the launch stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Register {
    /// The line of its declaration: inner blocks may have registers of the same name.
    pub declared: u32,
    /// What it holds.
    #[serde(flatten)]
    pub value: Value,
}

/// The shared memory of a CTA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedMemory {
    /// Its bytes; zero where nothing was written.
    #[serde(serialize_with = "hex_bytes")]
    pub bytes: Vec<u8>,
    /// The ranges of bytes that something wrote; `None` if that was not looked at.
    pub initialised: Option<Vec<Range<usize>>>,
}

/// A warp before it executes an instruction, and the shared memory of its CTA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// The entry.
    pub kernel: String,
    /// 1-based line of the PTX text.
    pub line: u32,
    /// The instruction, which is not executed.
    pub text: String,
    /// Which time the line was come to.
    pub hit: u64,
    /// The CTA.
    pub cta: [u32; 3],
    /// The warp's number in the CTA.
    pub warp: u32,
    /// The lanes that would execute the instruction.
    #[serde(serialize_with = "hex_mask")]
    pub active: u32,
    /// The lanes that have not returned.
    #[serde(serialize_with = "hex_mask")]
    pub alive: u32,
    /// Registers in the order of their declarations, those alone that are defined in some lane; predicates have one bit.
    pub registers: Vec<Register>,
    /// How many registers are defined in no lane.
    pub undefined: usize,
    /// The CTA's shared memory.
    pub shared: SharedMemory,
}

impl Snapshot {
    /// What the register `name` holds; the last declared one, if several have the name.
    pub fn register(&self, name: &str) -> Option<&Value> {
        self.registers.iter().rev().map(|register| &register.value).find(|value| value.register == name)
    }

    /// How a register is called in text: with the line of its declaration where the name alone does not tell.
    fn label(&self, register: &Register) -> String {
        let name = &register.value.register;
        let several = self.registers.iter().filter(|other| other.value.register == *name).count() > 1;
        if several { format!("{name} (line {})", register.declared) } else { name.clone() }
    }
}

/// The snapshot as text, in several lines.
impl fmt::Display for Snapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, line, hit, cta, warp, active, alive, text, .. } = self;
        writeln!(formatter, "stopped before line {line} of {kernel}, hit {hit}: CTA {cta:?}, warp {warp}")?;
        writeln!(formatter, "    {text}")?;
        writeln!(formatter, "lanes: {active:#010x} active, {alive:#010x} alive")?;
        let (predicates, others): (Vec<_>, Vec<_>) =
            self.registers.iter().partition(|register| register.value.bits == 1);
        let labels = self.registers.iter().map(|register| self.label(register).chars().count());
        let width = labels.max().unwrap_or(0);
        if !predicates.is_empty() {
            writeln!(formatter, "predicates")?;
        }
        for register in predicates {
            let value = &register.value;
            write!(formatter, "  {:width$}  holds in {:#010x}", self.label(register), value.holds())?;
            writeln!(formatter, "{}", defined(value.lanes, *alive))?;
        }
        if !others.is_empty() {
            writeln!(formatter, "registers")?;
        }
        for register in others {
            let value = &register.value;
            let label = self.label(register);
            let note = defined(value.lanes, *alive);
            if let Some(shared) = value.shared() {
                writeln!(formatter, "  {label:width$}  {} × {}{note}", value.values.len(), value.digits(shared))?;
                continue;
            }
            let pairs: Vec<_> = lanes(value.lanes).zip(&value.values).collect();
            let rows = pairs.chunk_by(|(lane, _), (next, _)| lane + 1 == *next && next % LANES_OF_ROW != 0);
            for (row, pairs) in rows.enumerate() {
                let label = if row == 0 { label.as_str() } else { "" };
                let values: Vec<_> = pairs.iter().map(|(_, bits)| value.digits(**bits)).collect();
                let note = if row == 0 { note.as_str() } else { "" };
                writeln!(formatter, "  {label:width$}  {:2}: {}{note}", pairs[0].0, values.join(" "))?;
            }
        }
        if self.undefined > 0 {
            writeln!(formatter, "undefined in all lanes: {} more registers", self.undefined)?;
        }
        write!(formatter, "{}", self.shared)
    }
}

/// A note where a value is not defined in all lanes.
fn defined(lanes: u32, alive: u32) -> String {
    if alive & !lanes == 0 { String::new() } else { format!(", undefined in {:#010x}", alive & !lanes) }
}

impl SharedMemory {
    /// Of bytes, and for each whether something wrote it.
    pub(in crate::emulate) fn new(bytes: Vec<u8>, written: Option<Vec<bool>>) -> Self {
        Self { bytes, initialised: written.map(|written| ranges(&written)) }
    }

    /// A row of text: `..` for a byte that nothing wrote.
    fn row(&self, start: usize) -> String {
        let end = self.bytes.len().min(start + ROW);
        let mut text = String::new();
        for at in start..end {
            let gap = if at > start && at.is_multiple_of(4) { " " } else { "" };
            let _ = if self.is_initialised(at) {
                write!(text, "{gap} {:02x}", self.bytes[at])
            } else {
                write!(text, "{gap} ..")
            };
        }
        text
    }

    /// Whether something wrote a byte, as far as is known.
    pub fn is_initialised(&self, at: usize) -> bool {
        let Some(ranges) = &self.initialised else { return true };
        let after = ranges.partition_point(|range| range.start <= at);
        after > 0 && ranges[after - 1].contains(&at)
    }
}

/// Rows that repeat the one before are left out, with a `*` in their place.
impl fmt::Display for SharedMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bytes.is_empty() {
            return writeln!(formatter, "shared memory: none");
        }
        let marks = if self.initialised.is_some() { "; .. was not written" } else { "" };
        writeln!(formatter, "shared memory: {} bytes{marks}", self.bytes.len())?;
        let mut last = String::new();
        let mut repeats = false;
        for start in (0..self.bytes.len()).step_by(ROW) {
            let row = self.row(start);
            if row != last {
                writeln!(formatter, "  {start:#06x} {row}")?;
            } else if !repeats {
                writeln!(formatter, "  *")?;
            }
            repeats = row == last;
            last = row;
        }
        Ok(())
    }
}

fn hex_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    serializer.serialize_str(&text)
}

/// The ranges in which `marks` are true.
fn ranges(marks: &[bool]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (at, _) in marks.iter().enumerate().filter(|(_, mark)| **mark) {
        match ranges.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => ranges.push(at..at + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_marks() {
        assert_eq!(ranges(&[true, true, false, true, false]), [0..2, 3..4]);
        assert!(ranges(&[false]).is_empty());
        let shared = SharedMemory { bytes: vec![7; 5], initialised: Some(vec![0..2, 3..4]) };
        let written: Vec<_> = (0..5).filter(|&at| shared.is_initialised(at)).collect();
        assert_eq!(written, [0, 1, 3]);
        assert_eq!(shared.row(0), " 07 07 .. 07  ..");
    }

    #[test]
    fn rows_that_repeat_are_left_out() {
        let mut bytes = vec![0; 80];
        bytes[79] = 1;
        let text = SharedMemory { bytes, initialised: None }.to_string();
        let starts: Vec<_> = text.lines().map(|line| line.split_whitespace().next().unwrap_or_default()).collect();
        assert_eq!(starts, ["shared", "0x0000", "*", "0x0040"]);
    }
}
