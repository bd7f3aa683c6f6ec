//! The `tilewright` command, run as a user runs it: output, files, exit codes, and one line for each thing that is wrong.

#![cfg(feature = "cli")]

mod compile;
mod emit;
mod factor;
mod run;
mod support;
