use super::{Failure, Outcome};
use std::io::Write;
#[derive(Debug, clap::Args)]
pub(super) struct Args {}
pub(super) fn run(_: &Args, _: &mut dyn Write) -> Result<Outcome, Failure> {
    Ok(Outcome::Fine)
}
