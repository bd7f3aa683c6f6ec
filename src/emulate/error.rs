//! What can go wrong: a module that cannot be decoded, a launch that breaks a limit, a kernel that breaks a rule.

use std::fmt;

use crate::ptx::ParseError;

/// An error of the emulator.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The text is not PTX.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The module has no such entry.
    #[error("the module has no entry `{name}`: it has {known}")]
    NoEntry {
        /// The name asked for.
        name: String,
        /// The entries that there are.
        known: String,
    },
    /// An instruction or a declaration that the emulator does not know.
    #[error("{kernel}, line {line}: {message}\n    {text}")]
    Decode {
        /// The entry.
        kernel: String,
        /// 1-based line of the PTX text.
        line: usize,
        /// Where, in bytes of the PTX text.
        span: crate::ptx::Span,
        /// The instruction.
        text: String,
        /// What is wrong with it.
        message: String,
    },
    /// A launch that the target does not allow.
    #[error("{kernel} cannot be launched: {message}")]
    Limit {
        /// The entry.
        kernel: String,
        /// The value and the limit.
        message: String,
    },
    /// A view of a launch that could show nothing.
    #[error("{kernel} cannot be observed so: {message}")]
    Observe {
        /// The entry.
        kernel: String,
        /// What is not there.
        message: String,
    },
    /// A use of memory that is not the kernel's: an allocation that does not fit, an address that is no buffer's.
    #[error("{0}")]
    Memory(String),
    /// A tensor map that no card takes.
    #[error("no tensor map: {0}")]
    TensorMap(String),
    /// A kernel broke a rule while it ran.
    #[error(transparent)]
    Fault(Box<Fault>),
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// An access outside every live buffer, or outside shared, local or parameter memory.
    Bounds,
    /// An address that is not a multiple of the access's size.
    Alignment,
    /// Two accesses without an order between them, one of which writes.
    Race,
    /// A use of a register or of memory that nothing wrote.
    Uninitialised,
    /// A barrier or a warp-wide instruction that not all expected threads reach.
    Sync,
    /// More steps than the limit.
    Steps,
    /// More memory than the limit.
    Memory,
    /// `trap`, or an instruction's own rule (a shuffle from a lane that is not there).
    Trap,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            FaultKind::Bounds => "out of bounds",
            FaultKind::Alignment => "misaligned",
            FaultKind::Race => "race",
            FaultKind::Uninitialised => "uninitialised",
            FaultKind::Sync => "synchronisation",
            FaultKind::Steps => "step limit",
            FaultKind::Memory => "memory limit",
            FaultKind::Trap => "trap",
        })
    }
}

/// A rule that a kernel broke, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of rule.
    pub kind: FaultKind,
    /// The entry.
    pub kernel: String,
    /// 1-based line of the PTX text.
    pub line: usize,
    /// The instruction.
    pub text: String,
    /// The CTA.
    pub cta: [u32; 3],
    /// The thread, where one can be named.
    pub thread: Option<[u32; 3]>,
    /// What happened: addresses, buffers, the other access.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, line {}: {}: {}", self.kernel, self.line, self.kind, self.message)?;
        write!(formatter, " (CTA {:?}", self.cta)?;
        if let Some(thread) = self.thread {
            write!(formatter, ", thread {thread:?}")?;
        }
        write!(formatter, ")\n    {}", self.text)
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Error::Fault(Box::new(fault))
    }
}
