//! The command: one module for each subcommand, each a thin layer over the library.
//!
//! A subcommand writes to the output it is given and answers an `Outcome` or a `Failure`; exit codes and the
//! printing of failures are decided here alone.

mod compile;
mod completions;
mod emit;
mod factor;
mod failure;
mod files;
mod inspect;
mod list;
mod npy;
mod output;
mod run;
mod table;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use failure::Failure;
use output::Quiet;

/// Tile kernels as specialised PTX: factor matrices with them, print them, run PTX on the CPU.
#[derive(Debug, Parser)]
#[command(name = "tilewright", version, after_help = EXIT_CODES, arg_required_else_help = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 all went well; 1 a matrix could not be factored; 2 bad input, or the work could \
                          not be done (one line on stderr says why).";

#[derive(Debug, Subcommand)]
enum Command {
    /// Factor the symmetric positive definite matrices of a .npy file: A = L·Lᵀ.
    Factor(factor::Args),
    /// Print the PTX of a kernel.
    Emit(emit::Args),
    /// List the kernels and their settings.
    List,
    /// Summarise a PTX file: its entries, their parameters and what instructions they are made of.
    Inspect(inspect::Args),
    /// Run any PTX file on the CPU, under the emulator's checks.
    Run(run::Args),
    /// Compile a kernel in Triton's IR to PTX, or to C that launches it.
    Compile(compile::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
}

/// How a subcommand ended that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All is well.
    Fine,
    /// At least one matrix could not be factored.
    NotFactored,
}

/// The exit code of bad input and of work that could not be done.
const BAD_INPUT: u8 = 2;

/// Reads the command line, does what it says, and answers the exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let mut out = io::BufWriter::new(Quiet::new(io::stdout().lock()));
    let result = dispatch(cli.command, &mut out).and_then(|outcome| Ok(out.flush().map(|()| outcome)?));
    match result {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::NotFactored) => ExitCode::from(1),
        Err(failure) => {
            // What was printed before the failure comes first; with nobody to tell, there is nothing more to do.
            let _ = out.flush();
            report(&failure.render(io::stderr().is_terminal()))
        }
    }
}

fn dispatch(command: Command, out: &mut dyn Write) -> Result<Outcome, Failure> {
    match command {
        Command::Factor(args) => factor::run(&args, out),
        Command::Emit(args) => emit::run(&args, out),
        Command::List => list::run(out),
        Command::Inspect(args) => inspect::run(&args, out),
        Command::Run(args) => run::run(&args, out),
        Command::Compile(args) => compile::run(&args, out),
        Command::Completions(args) => completions::run(&args, out),
    }
}

/// Help and version as clap prints them; a usage error in one line.
fn usage(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A closed pipe is no fault of the user's.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let said = text.split("\nUsage:").next().unwrap_or(&text).split("\nFor more information").next().unwrap_or(&text);
    let message = said.trim_start_matches("error:");
    report(&Failure::new(format!("{} (see --help)", message.trim())).render(false))
}

fn report(text: &str) -> ExitCode {
    let _ = write!(io::stderr(), "{text}");
    ExitCode::from(BAD_INPUT)
}

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
