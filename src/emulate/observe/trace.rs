//! What a warp did in one instruction.

use std::fmt;

use serde::Serialize;

use super::value::{Value, hex_each, hex_mask};

/// The memory that an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// Global and constant memory.
    Global,
    /// Shared memory.
    Shared,
    /// A thread's local memory.
    Local,
    /// The parameters.
    Param,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessKind {
    /// It reads.
    Load,
    /// It writes.
    Store,
    /// It reads and writes in one.
    Atomic,
}

/// An access to one memory by lanes of a warp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Access {
    /// Where it goes to.
    pub memory: Memory,
    /// What it does.
    pub kind: AccessKind,
    /// Bytes for each lane.
    pub bytes: u64,
    /// The lanes of which `addresses` are, one bit for each.
    #[serde(serialize_with = "hex_mask")]
    pub lanes: u32,
    /// By lane. Those of shared memory start at 0 in the CTA itself; in another CTA of the cluster they are as `mapa` gives
    /// them.
    #[serde(serialize_with = "hex_each")]
    pub addresses: Vec<u64>,
}

/// One instruction of one warp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The CTA.
    pub cta: [u32; 3],
    /// The warp's number in the CTA.
    pub warp: u32,
    /// 1-based line of the PTX text.
    pub line: u32,
    /// The instruction.
    pub text: String,
    /// The lanes that execute it: there, and not held back by its guard.
    #[serde(serialize_with = "hex_mask")]
    pub active: u32,
    /// The registers that it wrote. What asynchronous work and barriers write later has no lanes yet.
    pub writes: Vec<Value>,
    /// The accesses that it made.
    pub accesses: Vec<Access>,
    /// The registers that it stored.
    pub stored: Vec<Value>,
    /// Whether the launch ended here with a fault.
    pub faulted: bool,
}

/// The text of one event: a line, and one more for each access, each register stored and each register written.
impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.cta;
        let Self { warp, line, text, active, .. } = self;
        write!(formatter, "CTA {x},{y},{z} warp {warp} line {line}, active {active:#010x}: {text}")?;
        writeln!(formatter, "{}", if self.faulted { "  <- fault" } else { "" })?;
        for access in &self.accesses {
            writeln!(formatter, "    {access}")?;
        }
        let stored = self.stored.iter().map(|value| ("stored ", value));
        for (what, value) in stored.chain(self.writes.iter().map(|value| ("", value))) {
            // Not all active lanes may hold something.
            let undefined = active & !value.lanes;
            let note = if undefined == 0 || value.lanes == 0 {
                String::new()
            } else {
                format!(", undefined in {undefined:#010x}")
            };
            writeln!(formatter, "    {what}{value}{note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            AccessKind::Load => "load",
            AccessKind::Store => "store",
            AccessKind::Atomic => "atomic",
        };
        let memory = match self.memory {
            Memory::Global => "global",
            Memory::Shared => "shared",
            Memory::Local => "local",
            Memory::Param => "param",
        };
        write!(formatter, "{kind} {memory}, {} bytes at", self.bytes)?;
        match self.addresses.as_slice() {
            [first, rest @ ..] if !rest.is_empty() && rest.iter().all(|address| address == first) => {
                write!(formatter, " {first:#x}, all lanes")
            }
            addresses => addresses.iter().try_for_each(|address| write!(formatter, " {address:#x}")),
        }
    }
}
