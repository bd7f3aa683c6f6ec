//! `run FILE.ptx`: any PTX on the emulator.

mod args;
mod value;
mod view;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::npy::{self, NpyFile};
use super::output::Destination;
use super::table::Table;
use super::{Failure, Outcome, files};
use crate::emulate::observe::launch_observed;
use crate::emulate::{self, Kernel, LaunchConfig, Memory, Options};
use crate::ptx::Program;
use crate::ptx::model::Function;
use args::{Arg, Fill};
use value::{Element, Value, Visitor};
use view::View;

/// Elements of each buffer that are printed.
const SHOWN: usize = 8;

/// What to run and with what.
#[derive(Debug, clap::Args)]
#[command(after_help = args::GRAMMAR)]
pub(super) struct Args {
    /// The PTX file.
    #[arg(value_name = "FILE.ptx")]
    file: PathBuf,
    /// The entry; may be left out where the file has one.
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// CTAs of the grid.
    #[arg(long, value_name = "X[,Y,Z]", value_parser = extents)]
    grid: [u32; 3],
    /// Threads of a CTA; may be left out where the entry states them with `.reqntid`.
    #[arg(long, value_name = "X[,Y,Z]", value_parser = extents)]
    block: Option<[u32; 3]>,
    /// Dynamic shared memory of a CTA.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    shared: u32,
    /// An argument, in the order of the entry's parameters; the forms stand below.
    #[arg(long = "arg", value_name = "ARG")]
    args: Vec<Arg>,
    /// Write the buffer that is argument INDEX (from 0) to a file after the launch.
    #[arg(long = "out", value_name = "INDEX=FILE.npy", value_parser = index_and_file)]
    outputs: Vec<(usize, PathBuf)>,
    /// Warp instructions that one CTA may take before it counts as endless (2³⁰ if not given).
    #[arg(long, value_name = "COUNT")]
    max_steps: Option<u64>,
    /// Ask for fence.proxy.async also between cp.async and an asynchronous reader, as PTX has it (Triton leaves it out).
    #[arg(long)]
    fence_copies: bool,
    #[command(flatten)]
    view: View,
}

fn extents(text: &str) -> Result<[u32; 3], String> {
    let parts: Result<Vec<u32>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    let mut extents = [1; 3];
    match parts {
        Ok(parts) if parts.len() <= 3 => {
            extents[..parts.len()].copy_from_slice(&parts);
            Ok(extents)
        }
        _ => Err("expected one to three whole numbers, such as 128 or 16,8,1".to_owned()),
    }
}

fn index_and_file(text: &str) -> Result<(usize, PathBuf), String> {
    text.split_once('=')
        .filter(|(_, file)| !file.is_empty())
        .and_then(|(index, file)| Some((index.parse().ok()?, PathBuf::from(file))))
        .ok_or_else(|| "expected INDEX=FILE.npy, such as 1=y.npy".to_owned())
}

/// An argument's buffer in the emulator's memory.
struct Buffer {
    argument: usize,
    element: Element,
    count: usize,
    address: u64,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let (source, program) = files::read_ptx(&args.file)?;
    let entry = find_entry(&args.file, &program, args.entry.as_deref())?;
    let emulator = |error: emulate::Error| Failure::emulator(&args.file, &source, &error);
    let kernel = Kernel::new(&source, Some(&entry.name)).map_err(emulator)?;
    args::check(entry, &args.args).map_err(|reason| Failure::in_file(&args.file, reason))?;
    let config = LaunchConfig {
        grid: args.grid,
        block: block(&args.file, entry, args.block)?,
        cluster: three(entry.directive("reqnctapercluster").unwrap_or_default()),
        dynamic_shared: args.shared,
    };
    let outputs = args
        .outputs
        .iter()
        .map(|(index, path)| match args.args.get(*index) {
            Some(Arg::Buffer { .. }) => Ok((*index, Destination::new(path)?)),
            _ => Err(Failure::new(format!("--out {index}={}: argument {index} is no buffer", path.display()))),
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let request = args.view.request()?;

    let memory = Memory::new();
    let mut buffers = Vec::new();
    let mut values = Vec::new();
    for (index, arg) in args.args.iter().enumerate() {
        values.push(match arg {
            Arg::Scalar { bytes, .. } => bytes.clone(),
            Arg::Buffer { element, count, fill } => {
                let buffer = allocate(&memory, index, *element, *count, fill)?;
                let address = buffer.address.to_le_bytes().to_vec();
                buffers.push(buffer);
                address
            }
        });
    }
    let mut options = Options { max_steps: args.max_steps.or(Options::default().max_steps), ..Options::default() };
    options.checks.fence_copies = args.fence_copies;
    let start = Instant::now();
    let params = args::pack(entry, &values);
    let (outcome, seen) = match &request {
        None => (emulate::launch(&kernel, &config, &params, &memory, &options), None),
        Some((observe, to)) => {
            let (outcome, seen) =
                launch_observed(&kernel, &config, &params, &memory, &options, observe).map_err(emulator)?;
            (outcome, Some((seen, to)))
        }
    };
    let time = start.elapsed();
    if let Some((seen, to)) = seen {
        // What led to a fault is worth seeing.
        args.view.write(&seen, to.as_ref(), out)?;
    }
    let statistics = outcome.map_err(emulator)?;

    for (index, destination) in &outputs {
        if let Some(buffer) = buffers.iter().find(|buffer| buffer.argument == *index) {
            buffer.element.visit(Save { memory: &memory, buffer, destination })?;
        }
    }
    if args.view.summary(&entry.name, &statistics, time.as_secs_f64(), out)? {
        return Ok(Outcome::Fine);
    }
    let mut table = Table::new(0);
    table.row(["entry", &entry.name]);
    table.row(["CTAs", &statistics.ctas.to_string()]);
    table.row(["warp instructions", &statistics.warp_instructions.to_string()]);
    table.row(["thread instructions", &statistics.thread_instructions.to_string()]);
    table.row(["time", &format!("{time:.3?}")]);
    for buffer in &buffers {
        table.row([format!("argument {}", buffer.argument), buffer.show(&memory)?]);
    }
    write!(out, "{table}")?;
    Ok(Outcome::Fine)
}

fn find_entry<'a>(path: &Path, program: &'a Program, name: Option<&str>) -> Result<&'a Function, Failure> {
    let entries: Vec<_> = program.entries().collect();
    let known = entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>().join(", ");
    match (name, entries.as_slice()) {
        (_, []) => Err(Failure::in_file(path, "it has no entry")),
        (Some(name), all) => all
            .iter()
            .copied()
            .find(|entry| entry.name == name)
            .ok_or_else(|| Failure::in_file(path, format!("it has no entry `{name}`: expected one of {known}"))),
        (None, &[entry]) => Ok(entry),
        (None, _) => Err(Failure::in_file(path, format!("--entry must name one of its entries: {known}"))),
    }
}

fn block(path: &Path, entry: &Function, asked: Option<[u32; 3]>) -> Result<[u32; 3], Failure> {
    asked.or_else(|| entry.directive("reqntid").map(three)).ok_or_else(|| {
        Failure::in_file(path, format!("--block must be given: entry {} does not state it with .reqntid", entry.name))
    })
}

/// Up to three extents, the missing ones 1.
fn three(given: &[u32]) -> [u32; 3] {
    let extent = |axis: usize| given.get(axis).copied().unwrap_or(1);
    [extent(0), extent(1), extent(2)]
}

fn allocate(memory: &Memory, argument: usize, element: Element, count: usize, fill: &Fill) -> Result<Buffer, Failure> {
    let bytes = (count * element.bytes()) as u64;
    // One byte at least, so that an empty buffer has an address.
    let address = memory.alloc(bytes.max(1), &format!("argument {argument}")).map_err(Failure::new)?;
    let content = match fill {
        Fill::Nothing => None,
        Fill::Zeros => {
            memory.fill(address, 0, bytes).map_err(Failure::new)?;
            None
        }
        Fill::Iota => Some(element.iota(count)),
        // Buffers differ from each other.
        Fill::Random => Some(element.random(count, argument as u64)),
        Fill::File(path) => Some(element.visit(Load { path, element, count })?),
    };
    if let Some(content) = content {
        memory.write(address, &content).map_err(Failure::new)?;
    }
    Ok(Buffer { argument, element, count, address })
}

impl Buffer {
    fn read(&self, memory: &Memory, count: usize) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; count * self.element.bytes()];
        memory.read(self.address, &mut bytes).map_err(Failure::new)?;
        Ok(bytes)
    }

    fn show(&self, memory: &Memory) -> Result<String, Failure> {
        let shown = self.count.min(SHOWN);
        let values = self.element.show(&self.read(memory, shown)?).join(" ");
        let more = if shown < self.count { " …" } else { "" };
        Ok(format!("{} × {}: {values}{more}", self.element.name(), self.count))
    }
}

/// Reads a file's elements as those of a buffer.
struct Load<'a> {
    path: &'a Path,
    element: Element,
    count: usize,
}

impl Visitor for Load<'_> {
    type Output = Result<Vec<u8>, Failure>;

    fn visit<T: Value>(self) -> Self::Output {
        let file = NpyFile::read(self.path)?;
        let array = file.array::<T::File>()?.ok_or_else(|| file.wrong_type(self.element.file()))?;
        if array.len() != self.count {
            return Err(file.failure(format!("it has {} elements, and the buffer has {}", array.len(), self.count)));
        }
        Ok(value::bytes_of(array.iter().map(|&value| T::from_file(value))))
    }
}

/// Writes a buffer's elements to a file.
struct Save<'a> {
    memory: &'a Memory,
    buffer: &'a Buffer,
    destination: &'a Destination,
}

impl Visitor for Save<'_> {
    type Output = Result<(), Failure>;

    fn visit<T: Value>(self) -> Self::Output {
        let bytes = self.buffer.read(self.memory, self.buffer.count)?;
        let values: Vec<T::File> =
            bytes.chunks_exact(size_of::<T>()).map(|one| bytemuck::pod_read_unaligned::<T>(one).to_file()).collect();
        npy::write(self.destination, &[values.len()], &values)
    }
}
