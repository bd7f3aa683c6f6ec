//! The debugger's view of a launch: what is asked for, and how it is written.

use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::Serialize;

use super::super::Failure;
use super::super::output::Destination;
use crate::emulate::Statistics;
use crate::emulate::observe::{Observe, Seen, Stop};

/// Instructions that a trace keeps unless told otherwise.
const TRACED: &str = "10000";

/// What to look at.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "A debugger's view")]
pub(super) struct View {
    /// Print what each warp instruction did: lanes, addresses, values written; the first COUNT (10000) of them.
    #[arg(long, value_name = "COUNT", num_args = 0..=1, require_equals = true, default_missing_value = TRACED)]
    trace: Option<u64>,
    /// The CTA to trace and to stop; every one if not given.
    #[arg(long, value_name = "X[,Y,Z]", value_parser = coordinates)]
    trace_cta: Option<[u32; 3]>,
    /// The warp of a CTA to trace and to stop; every one if not given.
    #[arg(long, value_name = "WARP")]
    trace_warp: Option<u32>,
    /// Lines of the file to trace, both ends included.
    #[arg(long, value_name = "A..B", value_parser = lines)]
    lines: Option<RangeInclusive<u32>>,
    /// End the launch where a warp comes to LINE for the HIT-th time (the first), before it executes what stands there, and
    /// print its registers and the shared memory. Buffers are shown and saved as they are then.
    #[arg(long, value_name = "LINE[:HIT]", value_parser = stop)]
    stop: Option<Stop>,
    /// Count instructions, bank conflicts and memory traffic by line.
    #[arg(long)]
    profile: bool,
    /// How results are written: as text, or as JSON with an object on each line.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the trace, the stop and the profile to a file; to standard output if not given.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// To be read.
    Text,
    /// JSON lines: objects `trace`, `stop`, `profile`, `seen`, `run`.
    Json,
}

fn coordinates(text: &str) -> Result<[u32; 3], String> {
    let parts: Result<Vec<u32>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    match parts {
        Ok(parts) if parts.len() <= 3 => Ok([0, 1, 2].map(|axis| parts.get(axis).copied().unwrap_or(0))),
        _ => Err("expected one to three whole numbers, such as 7 or 1,0,2".to_owned()),
    }
}

fn lines(text: &str) -> Result<RangeInclusive<u32>, String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    match (from.trim().parse(), to.trim().parse()) {
        (Ok(from), Ok(to)) if 1 <= from && from <= to => Ok(from..=to),
        _ => Err("expected the first and the last line, such as 12..20".to_owned()),
    }
}

fn stop(text: &str) -> Result<Stop, String> {
    let (line, hit) = text.split_once(':').unwrap_or((text, "1"));
    match (line.trim().parse(), hit.trim().parse()) {
        (Ok(line), Ok(hit)) if line > 0 && hit > 0 => Ok(Stop { line, hit }),
        _ => Err("expected a line and perhaps which time it is come to, such as 17 or 17:3".to_owned()),
    }
}

/// A line of JSON output.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Line<'a, T> {
    Trace(&'a T),
    Stop(&'a T),
    Profile(&'a T),
    Seen(&'a T),
    Run(&'a T),
}

/// How much there was to see.
#[derive(Serialize)]
struct Extent {
    events: usize,
    left_out: u64,
    hits: u64,
}

/// The launch as a whole.
#[derive(Serialize)]
struct Summary<'a> {
    entry: &'a str,
    ctas: u64,
    warp_instructions: u64,
    thread_instructions: u64,
    seconds: f64,
}

fn json<T: Serialize>(out: &mut dyn Write, line: &Line<T>) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    writeln!(out)
}

impl View {
    /// What the library is to look at, and the file for it; `None` if nothing is asked for.
    ///
    /// # Errors
    /// Options that ask for nothing, and a file that cannot be written.
    pub(super) fn request(&self) -> Result<Option<(Observe, Option<Destination>)>, Failure> {
        let follows = self.trace.is_some() || self.stop.is_some();
        let any = follows || self.profile;
        for (given, needed, option, of) in [
            (self.trace_cta.is_some(), follows, "--trace-cta", "--trace or --stop"),
            (self.trace_warp.is_some(), follows, "--trace-warp", "--trace or --stop"),
            (self.lines.is_some(), self.trace.is_some(), "--lines", "--trace"),
            (self.output.is_some(), any, "--output", "--trace, --stop or --profile"),
        ] {
            if given && !needed {
                return Err(Failure::new(format!("{option} goes with {of}")));
            }
        }
        if !any {
            return Ok(None);
        }
        let destination = self.output.as_deref().map(Destination::new).transpose()?;
        let observe = Observe {
            trace: self.trace,
            lines: self.lines.clone(),
            stop: self.stop,
            cta: self.trace_cta,
            warp: self.trace_warp,
            profile: self.profile,
        };
        Ok(Some((observe, destination)))
    }

    /// Writes what was seen.
    pub(super) fn write(&self, seen: &Seen, to: Option<&Destination>, out: &mut dyn Write) -> Result<(), Failure> {
        let fill = |out: &mut dyn Write| match self.format {
            Format::Text => self.text(seen, out),
            Format::Json => Self::json(seen, out),
        };
        match to {
            Some(destination) => destination.write(fill),
            None => {
                fill(out)?;
                // The summary stands apart.
                if self.format == Format::Text {
                    writeln!(out)?;
                }
                Ok(())
            }
        }
    }

    fn text(&self, seen: &Seen, out: &mut dyn Write) -> io::Result<()> {
        for event in &seen.events {
            write!(out, "{event}")?;
        }
        if seen.left_out > 0 {
            writeln!(out, "{} more instructions are left out (--trace=COUNT)", seen.left_out)?;
        }
        match (&seen.stop, self.stop) {
            (Some(snapshot), _) => write!(out, "{snapshot}")?,
            (None, Some(Stop { line, hit })) => {
                writeln!(out, "not stopped: warps came to line {line} {} times, not {hit}", seen.hits)?;
            }
            (None, None) => {}
        }
        seen.profile.as_ref().map_or(Ok(()), |profile| write!(out, "{profile}"))
    }

    fn json(seen: &Seen, out: &mut dyn Write) -> io::Result<()> {
        seen.events.iter().try_for_each(|event| json(out, &Line::Trace(event)))?;
        seen.stop.iter().try_for_each(|snapshot| json(out, &Line::Stop(snapshot)))?;
        seen.profile.iter().try_for_each(|profile| json(out, &Line::Profile(profile)))?;
        let extent = Extent { events: seen.events.len(), left_out: seen.left_out, hits: seen.hits };
        json(out, &Line::Seen(&extent))
    }

    /// Writes the summary as JSON, if that is the format; whether it did.
    pub(super) fn summary(
        &self,
        entry: &str,
        statistics: &Statistics,
        seconds: f64,
        out: &mut dyn Write,
    ) -> Result<bool, Failure> {
        if self.format == Format::Text {
            return Ok(false);
        }
        let Statistics { ctas, warp_instructions, thread_instructions } = *statistics;
        json(out, &Line::Run(&Summary { entry, ctas, warp_instructions, thread_instructions, seconds }))?;
        Ok(true)
    }
}
