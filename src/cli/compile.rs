//! `compile FILE.ttir`: Triton's IR to PTX, or to C that launches it.

use std::io::Write;
use std::path::PathBuf;

use super::{Failure, Outcome};
use crate::ptx::Arch;

/// What to compile, for what, and where to.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
#[cfg_attr(not(feature = "llvm"), allow(dead_code, reason = "read by the tile compiler alone"))]
pub(super) struct Args {
    /// Triton's IR (a `.ttir` file); `-` reads standard input. Several with --c, each a specialisation of the one kernel.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The target: sm_80 (runs on every card from Ampere on), sm_90a or sm_100a. May be given again with --c.
    #[arg(long = "arch", value_name = "ARCH", default_values_t = [Arch::Sm80])]
    archs: Vec<Arch>,
    /// Warps of a program.
    #[arg(long, default_value_t = 4)]
    num_warps: u32,
    /// Stages that a loop's loads may be ahead of their use.
    #[arg(long, default_value_t = 3)]
    num_stages: u32,
    /// The kernel, where a file has several.
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// The PTX file to write; standard output if not given.
    #[arg(short, long, value_name = "FILE", conflicts_with = "c")]
    output: Option<PathBuf>,
    /// A JSON file to write: the metadata as Triton writes it, and ours under the key `tilewright`.
    #[arg(long, value_name = "FILE", conflicts_with = "c")]
    meta: Option<PathBuf>,
    /// A folder for NAME.h and NAME.c: C that embeds the PTX and launches it through the CUDA driver.
    #[arg(long, value_name = "FOLDER")]
    c: Option<PathBuf>,
    /// With --c: the name of the C function; the kernel's own if not given.
    #[arg(long, requires = "c")]
    name: Option<String>,
    /// With --c: one specialisation more for each, which takes arguments of any alignment and any multiple.
    #[arg(long, requires = "c")]
    also_general: bool,
}

const EXAMPLE: &str = "Examples:\n  tilewright compile add.ttir --arch sm_90a --num-warps 4 -o add.ptx --meta add.json\n  \
                       tilewright compile add.ttir --arch sm_90a --arch sm_80 --also-general --c out/";

/// Says how to get a tile compiler.
#[cfg(not(feature = "llvm"))]
pub(super) fn run(_: &Args, _: &mut dyn Write) -> Result<Outcome, Failure> {
    Err(Failure::new(
        "this build has no tile compiler: build it where LLVM 22 is installed with `cargo install tilewright --features llvm`",
    ))
}

#[cfg(feature = "llvm")]
pub(super) use with_llvm::run;

#[cfg(feature = "llvm")]
mod with_llvm {
    use std::fs;
    use std::io::Read;
    use std::path::Path;

    use super::super::files;
    use super::super::output::Destination;
    use super::*;
    use crate::aot;
    use crate::compile::{Compiled, Error, Options, compile};
    use crate::ptx::Module;
    use crate::tile::Func;
    use crate::ttir;

    /// A file and the kernel in it that is meant.
    struct Source<'a> {
        path: &'a Path,
        text: String,
        func: Func,
    }

    pub(in super::super) fn run(args: &Args, out: &mut dyn Write) -> Result<Outcome, Failure> {
        match &args.c {
            Some(folder) => to_c(args, folder),
            None => to_ptx(args, out),
        }
    }

    fn to_ptx(args: &Args, out: &mut dyn Write) -> Result<Outcome, Failure> {
        let ([path], [arch]) = (&args.files[..], &args.archs[..]) else {
            return Err(Failure::new(
                "several files or targets make one kernel only with --c: compile them one by one",
            ));
        };
        // Where nothing can be written nothing need be compiled.
        let destination = |path: &Option<PathBuf>| path.as_deref().map(Destination::new).transpose();
        let (output, meta) = (destination(&args.output)?, destination(&args.meta)?);
        let made = make(&read(path, args)?, args, *arch)?;
        if let Some(meta) = meta {
            let text = serde_json::to_string_pretty(&made.json())? + "\n";
            meta.write(|file| file.write_all(text.as_bytes()))?;
        }
        match output {
            Some(output) => output.write(|file| file.write_all(made.ptx.as_bytes()))?,
            None => out.write_all(made.ptx.as_bytes())?,
        }
        Ok(Outcome::Fine)
    }

    fn to_c(args: &Args, folder: &Path) -> Result<Outcome, Failure> {
        let mut modules: Vec<Module> = Vec::new();
        for path in &args.files {
            let mut source = read(path, args)?;
            for &arch in &args.archs {
                modules.push(make(&source, args, arch)?.into_module());
            }
            if args.also_general && source.func.params.iter().any(|param| param.divisibility.is_some()) {
                for param in &mut source.func.params {
                    param.divisibility = None;
                }
                for &arch in &args.archs {
                    modules.push(make(&source, args, arch)?.into_module());
                }
            }
        }
        let own = modules[0].meta.kernels[0].name.as_str();
        let name = args.name.as_deref().unwrap_or(own);
        let made = aot::c_files(name, &modules).map_err(Failure::new)?;
        fs::create_dir_all(folder)
            .map_err(|error| Failure::new(format!("cannot make the folder {}: {error}", folder.display())))?;
        for (ending, text) in [("h", made.header), ("c", made.source)] {
            let file = Destination::new(&folder.join(format!("{name}.{ending}")))?;
            file.write(|file| file.write_all(text.as_bytes()))?;
        }
        Ok(Outcome::Fine)
    }

    fn read<'a>(path: &'a Path, args: &Args) -> Result<Source<'a>, Failure> {
        let bytes = if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut bytes);
            read.map_err(|error| Failure::new(format!("cannot read standard input: {error}")))?;
            bytes
        } else {
            files::read(path)?
        };
        let text = files::text(path, bytes)?;
        let program = ttir::read(&text).map_err(|error| Failure::ttir(path, &text, &error))?;
        let kernels: Vec<&Func> = program.kernels().collect();
        let names = || kernels.iter().map(|func| func.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = match (&args.kernel, &kernels[..]) {
            (_, []) => Err("it has no kernel: no public function".to_owned()),
            (Some(name), all) => {
                let named = all.iter().find(|func| func.name == *name);
                named.copied().ok_or_else(|| format!("it has no kernel `{name}`: it has {}", names()))
            }
            (None, [only]) => Ok(*only),
            (None, _) => Err(format!("it has several kernels: name one of {} with --kernel", names())),
        };
        let name = &found.map_err(|message| Failure::in_file(path, message))?.name;
        let func = program.inlined(name).map_err(|error| match error.loc.line {
            0 => Failure::in_file(path, &error),
            line => Failure::at_line(path, &text, line as usize, &error),
        })?;
        Ok(Source { path, text, func })
    }

    fn make(source: &Source, args: &Args, arch: Arch) -> Result<Compiled, Failure> {
        let options = Options { num_warps: args.num_warps, num_stages: args.num_stages, ..Options::new(arch) };
        compile(&source.func, &options).map_err(|error| match &error {
            Error::Unsupported { loc, .. } if loc.line > 0 => {
                Failure::at_line(source.path, &source.text, loc.line as usize, &error)
            }
            _ => Failure::in_file(source.path, error),
        })
    }
}
