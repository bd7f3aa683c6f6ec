//! What ends a subcommand: one line, and an excerpt of the source where there is one.

use std::fmt;
use std::path::Path;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode, SourceSpan};

use crate::ptx::{ParseError, Span};
use crate::{device, emulate, generate, kernels};

/// Columns of an excerpt; its lines are not wrapped.
const WIDTH: usize = 120;

/// Bad input, or work that could not be done.
#[derive(Debug)]
pub(super) struct Failure {
    message: String,
    excerpt: Option<Box<Excerpt>>,
}

#[derive(Debug)]
struct Excerpt {
    source: NamedSource<String>,
    span: SourceSpan,
    label: String,
}

impl Failure {
    /// A failure with this message, in one line: what stood on a line of its own follows a semicolon or its colon.
    pub(super) fn new(message: impl fmt::Display) -> Self {
        let mut line = String::new();
        for part in message.to_string().lines().map(str::trim).filter(|part| !part.is_empty()) {
            let joint = if line.is_empty() {
                ""
            } else if line.ends_with(':') {
                " "
            } else {
                "; "
            };
            line.push_str(joint);
            line.push_str(part);
        }
        Self { message: line, excerpt: None }
    }

    /// A failure about the file at `path`, which heads the message.
    pub(super) fn in_file(path: &Path, message: impl fmt::Display) -> Self {
        Self::new(format!("{}: {message}", path.display()))
    }

    /// PTX text that does not parse.
    pub(super) fn parse(path: &Path, source: &str, error: &ParseError) -> Self {
        Self::in_file(path, error).with_excerpt(path, source, error.span, &error.message)
    }

    /// Text of Triton's IR that does not read.
    #[cfg(feature = "llvm")]
    pub(super) fn ttir(path: &Path, source: &str, error: &crate::ttir::Error) -> Self {
        let span = Span { start: error.span.start as u32, end: error.span.end as u32 };
        Self::in_file(path, error).with_excerpt(path, source, span, &error.message)
    }

    /// A failure about a 1-based line of the text at `path`.
    #[cfg(feature = "llvm")]
    pub(super) fn at_line(path: &Path, source: &str, line: usize, message: impl fmt::Display) -> Self {
        Self::in_file(path, message).with_excerpt(path, source, line_span(source, line), "here")
    }

    /// What the emulator says of the PTX at `path`.
    pub(super) fn emulator(path: &Path, source: &str, error: &emulate::Error) -> Self {
        use emulate::Error;
        match error {
            Error::Parse(error) => Self::parse(path, source, error),
            Error::Decode { kernel, line, span, message, .. } => {
                Self::in_file(path, format!("{kernel}, line {line}: {message}"))
                    .with_excerpt(path, source, *span, message)
            }
            Error::Fault(fault) => {
                let text = fault.to_string();
                let said = text.lines().next().unwrap_or_default();
                Self::in_file(path, said).with_excerpt(path, source, line_span(source, fault.line), "here")
            }
            Error::NoEntry { .. }
            | Error::Limit { .. }
            | Error::Observe { .. }
            | Error::Memory(_)
            | Error::TensorMap(_) => Self::in_file(path, error),
        }
    }

    fn with_excerpt(mut self, path: &Path, source: &str, span: Span, label: &str) -> Self {
        if source.trim().is_empty() {
            return self;
        }
        let start = (span.start as usize).min(source.len());
        let length = (span.end.saturating_sub(span.start) as usize).min(source.len() - start);
        self.excerpt = Some(Box::new(Excerpt {
            source: NamedSource::new(path.display().to_string(), source.to_owned()),
            span: (start, length).into(),
            label: label.to_owned(),
        }));
        self
    }

    /// `error: …` and the excerpt, as text that ends in a line break.
    pub(super) fn render(&self, colour: bool) -> String {
        let colour = colour && std::env::var_os("NO_COLOR").is_none();
        let mut theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        theme.characters.error = "error:".to_owned();
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_links(false)
            .with_width(WIDTH)
            .with_wrap_lines(false)
            .with_context_lines(1);
        let mut text = String::new();
        match handler.render_report(&mut text, self) {
            Ok(()) => text.trim_start().to_owned(),
            Err(_) => format!("error: {}\n", self.message),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl Diagnostic for Failure {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.excerpt.as_ref().map(|excerpt| &excerpt.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let excerpt = self.excerpt.as_ref()?;
        let label = LabeledSpan::new_primary_with_span(Some(excerpt.label.clone()), excerpt.span);
        Some(Box::new(std::iter::once(label)))
    }
}

/// The text of a 1-based line without its leading blanks.
fn line_span(source: &str, line: usize) -> Span {
    let start = source.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum::<usize>();
    let text = source[start..].lines().next().unwrap_or_default();
    let blanks = text.len() - text.trim_start().len();
    Span { start: (start + blanks) as u32, end: (start + text.trim_end().len()) as u32 }
}

/// Of a write to standard output: files and their errors are named where they are used.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(format!("cannot write to standard output: {error}"))
    }
}

/// Errors of the library that say all there is to say.
macro_rules! plain {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error)
            }
        })*
    };
}

plain!(serde_json::Error, device::Error, generate::Error, kernels::cholesky::Error);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_and_an_excerpt() {
        let plain = Failure::in_file(Path::new("a.npy"), "first\n    second\n");
        assert_eq!(plain.render(false), "error: a.npy: first; second\n");

        let source = ".version 8.0\n.target sm_80\nfrob;\n";
        let error = crate::ptx::parse(source).unwrap_err();
        let text = Failure::parse(Path::new("k.ptx"), source, &error).render(false);
        assert!(text.starts_with("error: k.ptx: line 3, column "), "{text}");
        assert!(text.contains("k.ptx:3:") && text.contains("│ frob;"), "{text}");
        assert_eq!(text.matches("error:").count(), 1, "{text}");
    }
}
