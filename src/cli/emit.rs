//! `emit KERNEL`: the PTX of a specialisation.

use std::io::Write;
use std::path::PathBuf;

use indexmap::IndexMap;

use super::output::Destination;
use super::{Failure, Outcome};
use crate::generate;
use crate::ptx::Arch;

/// Which kernel, for what, and where to.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The kernel; `tilewright list` names them.
    kernel: String,
    /// The target: sm_80 (runs on every card from Ampere on), sm_90a or sm_100a.
    #[arg(long, default_value_t = Arch::Sm80)]
    arch: Arch,
    /// A setting of the kernel, such as n=32; may be given again for another.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// The file to write; standard output if not given.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the metadata that a launcher needs, as JSON, in place of the PTX.
    #[arg(long)]
    meta: bool,
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, such as n=32".to_owned()),
    }
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let mut settings = IndexMap::new();
    for (name, value) in &args.settings {
        if settings.insert(name.clone(), value.clone()).is_some() {
            return Err(Failure::new(format!("the setting `{name}` is given twice")));
        }
    }
    let module = generate::emit(&args.kernel, &settings, args.arch)?;
    let text = if args.meta { serde_json::to_string_pretty(&module.meta)? + "\n" } else { module.ptx };
    match &args.output {
        Some(path) => Destination::new(path)?.write(|file| file.write_all(text.as_bytes()))?,
        None => out.write_all(text.as_bytes())?,
    }
    Ok(Outcome::Fine)
}
