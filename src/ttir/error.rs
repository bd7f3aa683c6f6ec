//! What is wrong with a text.

use std::ops::Range;

use super::lexer::Span;

/// What sort of fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A form that MLIR's text does not have.
    Syntax,
    /// An operation that nobody knows.
    UnknownOperation,
    /// Something that Triton has and the tile IR has not.
    Unsupported,
    /// A value, block or function that is defined nowhere, or twice.
    Name,
    /// A text that is well formed, and breaks a rule of its operation: see [`crate::tile::verify`].
    Invalid,
}

/// A fault in a text of Triton IR.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct Error {
    /// Its sort.
    pub kind: ErrorKind,
    /// What was found and what was expected, the operation's name in front where it is one's.
    pub message: String,
    /// The operation that it is about.
    pub operation: Option<String>,
    /// Where, in bytes of the text.
    pub span: Range<usize>,
    /// 1-based line of the fault.
    pub line: usize,
    /// 1-based column of the fault, in bytes.
    pub column: usize,
}

/// A fault while its text is at hand: [`Error`] without what the text gives.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: ErrorKind,
    pub(super) span: Span,
    pub(super) message: String,
    pub(super) operation: Option<String>,
}

/// What a step of reading gives. The fault is boxed: it is rare, and large.
pub(super) type Parsed<T> = Result<T, Box<Fault>>;

impl Fault {
    pub(super) fn new(kind: ErrorKind, span: Span, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { kind, span, message: message.into(), operation: None })
    }

    /// The same, about the operation `name`; one that is about an operation already stays.
    pub(super) fn of(mut self: Box<Self>, name: &str) -> Box<Self> {
        if self.operation.is_none() {
            self.operation = Some(name.to_owned());
        }
        self
    }

    pub(super) fn into_error(self, source: &str) -> Error {
        let (line, column) = line_column(source, self.span.start);
        let message = match &self.operation {
            Some(name) if !self.message.starts_with('`') || !self.message[1..].starts_with(name.as_str()) => {
                format!("`{name}`: {}", self.message)
            }
            _ => self.message,
        };
        let span = self.span.start as usize..self.span.end.max(self.span.start) as usize;
        Error { kind: self.kind, message, operation: self.operation, span, line, column }
    }
}

/// The 1-based line and column of a byte.
fn line_column(source: &str, at: u32) -> (usize, usize) {
    let before = &source.as_bytes()[..(at as usize).min(source.len())];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
    (line, column)
}
