//! Tasks of the project: tests with their set-up, generation of `generated/`, assembly with `ptxas`.

mod assemble;
mod files;
mod generate;
mod suite;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the project")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what the tests need, then run every check and every test.
    Test {
        /// For daily use: leave out the documentation and the clippy runs of the rarer feature sets.
        #[arg(long)]
        fast: bool,
    },
    /// Write the PTX of the standard specialisations under generated/, and its resource table. Installs LLVM if it is not there.
    Generate {
        /// Change nothing; fail if a file is missing, stale or not ours.
        #[arg(long)]
        check: bool,
        /// Leave the resource table, which ptxas makes, as it is.
        #[arg(long)]
        tree_only: bool,
    },
    /// Assemble everything under generated/ with ptxas and write generated/resources.md; a spill is a failure.
    Assemble {
        /// Change nothing; fail if the table is stale.
        #[arg(long)]
        check: bool,
        /// Not generated/ but every order with every setting, for every target: minutes.
        #[arg(long, conflicts_with = "check")]
        every: bool,
    },
}

/// The repository's root.
fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Test { fast } => suite::run(fast),
        Task::Generate { check, tree_only } => generate::run(check)
            .and_then(|()| if !tree_only && tools::ptxas_present().is_some() { assemble::run(check) } else { Ok(()) }),
        Task::Assemble { every: true, .. } => assemble::every(),
        Task::Assemble { check, .. } => assemble::run(check),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
