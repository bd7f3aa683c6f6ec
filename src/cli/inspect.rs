//! `inspect FILE.ptx`: what is in it.

use std::io::Write;
use std::path::PathBuf;

use indexmap::IndexMap;

use super::table::Table;
use super::{Failure, Outcome, files};
use crate::ptx::Statistics;

/// What to look at.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The PTX file.
    #[arg(value_name = "FILE.ptx")]
    file: PathBuf,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let (_, program) = files::read_ptx(&args.file)?;
    let (major, minor) = program.version;
    writeln!(out, "PTX {major}.{minor} for {}", program.target.join(", "))?;
    let mut variables = Table::new(2);
    for variable in program.variables() {
        let size = match variable.bytes() {
            0 => "of open size".to_owned(),
            bytes => format!("{bytes} bytes"),
        };
        variables.row([format!(".{}", variable.space.name()), variable.name.clone(), size]);
    }
    write!(out, "{variables}")?;
    for entry in Statistics::of(&program) {
        describe(&entry, out)?;
    }
    Ok(Outcome::Fine)
}

fn describe(entry: &Statistics, out: &mut dyn Write) -> Result<(), Failure> {
    let mut facts = Table::new(2);
    for (name, values) in &entry.directives {
        let values: Vec<_> = values.iter().map(u32::to_string).collect();
        facts.row([format!(".{name}"), values.join(", ")]);
    }
    facts.row(["static shared", &format!("{} bytes", entry.shared_bytes)]);
    facts.row(["declared registers".to_owned(), counts(&entry.registers)]);
    let mut params = Table::new(4);
    for (index, (ty, name)) in entry.params.iter().enumerate() {
        params.row([index.to_string(), ty.clone(), name.clone()]);
    }
    let mut mix = Table::new(4);
    for (group, count) in &entry.mix {
        // Digits end in one column.
        mix.row([format!("{count:>6}"), group.clone()]);
    }
    writeln!(out, "\nentry {}", entry.name)?;
    write!(out, "{facts}  parameters\n{params}  {} instructions\n{mix}", entry.instructions)?;
    Ok(())
}

fn counts(of: &IndexMap<String, u64>) -> String {
    of.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}
