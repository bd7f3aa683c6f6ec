//! `inspect FILE.ptx`: what is in it.

use std::io::Write;
use std::path::PathBuf;

use indexmap::IndexMap;

use super::table::Table;
use super::{Failure, Outcome, files};
use crate::ptx::model::{Function, Statement, Variable};

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
    let variables: Vec<_> = program.variables().collect();
    if !variables.is_empty() {
        let mut table = Table::new(2);
        for variable in variables {
            table.row([format!(".{}", variable.space.name()), size(variable), variable.name.clone()]);
        }
        write!(out, "\nmodule variables\n{table}")?;
    }
    for entry in program.entries() {
        describe(entry, out)?;
    }
    Ok(Outcome::Fine)
}

fn describe(entry: &Function, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "\nentry {}", entry.name)?;
    for (name, values) in &entry.directives {
        let values: Vec<_> = values.iter().map(u32::to_string).collect();
        writeln!(out, "  .{name} {}", values.join(", "))?;
    }
    let mut parameters = Table::new(4);
    for (index, parameter) in entry.params.iter().enumerate() {
        parameters.row([index.to_string(), format!(".{}", parameter.ty), size(parameter), parameter.name.clone()]);
    }
    let mut counts = Counts::default();
    counts.add(entry.body.as_deref().unwrap_or_default());
    let mut declared = Table::new(4);
    for (what, count) in &counts.declared {
        declared.row([count.to_string(), what.clone()]);
    }
    counts.instructions.sort_by(|a, m, b, n| n.cmp(m).then_with(|| a.cmp(b)));
    let mut mix = Table::new(4);
    for (mnemonic, count) in &counts.instructions {
        mix.row([count.to_string(), mnemonic.clone()]);
    }
    let all: u64 = counts.instructions.values().sum();
    write!(out, "  parameters\n{parameters}  declared\n{declared}  {all} instructions\n{mix}")?;
    Ok(())
}

fn size(variable: &Variable) -> String {
    match variable.bytes() {
        0 => "of open size".to_owned(),
        bytes => format!("{bytes} bytes"),
    }
}

/// What a body is made of.
#[derive(Default)]
struct Counts {
    /// Registers by type, bytes by state space.
    declared: IndexMap<String, u64>,
    instructions: IndexMap<String, u64>,
}

impl Counts {
    fn add(&mut self, body: &[Statement]) {
        for statement in body {
            match statement {
                Statement::Registers(registers) => {
                    let count = registers.names.iter().map(|(_, count)| u64::from(count.unwrap_or(1))).sum::<u64>();
                    *self.declared.entry(format!("registers of .{}", registers.ty)).or_default() += count;
                }
                Statement::Variable(variable) => {
                    *self.declared.entry(format!("bytes of .{}", variable.space.name())).or_default() +=
                        variable.bytes();
                }
                Statement::Instruction(instruction) => {
                    *self.instructions.entry(instruction.mnemonic()).or_default() += 1;
                }
                Statement::Block(inner) => self.add(inner),
                Statement::Label(_) | Statement::Directive(_) => {}
            }
        }
    }
}
