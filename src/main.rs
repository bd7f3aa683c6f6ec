//! The `tilewright` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    tilewright::cli::main()
}
