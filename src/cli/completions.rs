//! `completions SHELL`.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Failure, Outcome};

/// What to print a completion script for.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    // Through a buffer: the generator takes a failed write for a fault of its own.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    out.write_all(&script)?;
    Ok(Outcome::Fine)
}
