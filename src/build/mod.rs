//! Kernels at build time: what a user's `build.rs` calls.
//!
//! A [`Builder`] takes kernels by name and settings, or as typed templates, and writes into `OUT_DIR` the PTX of each
//! for each target, its metadata, and one Rust file with a typed launcher per kernel. Nothing is compiled by a vendor's
//! tool, and the machine that builds needs no GPU, driver or toolkit.
//!
//! In `build.rs`:
//!
//! ```no_run
//! use tilewright::{build::Builder, ptx::Arch, template::PotrfRows};
//!
//! Builder::new()
//!     .arch(Arch::Sm90a)
//!     .arch(Arch::Sm80)
//!     .kernel("potrf_warp", &[("n", "32")])
//!     .template(PotrfRows { n: 48, rank: 2 })
//!     .rename("Factor48")
//!     .write_to_out_dir("kernels.rs");
//! ```
//!
//! and in the crate `include!(concat!(env!("OUT_DIR"), "/kernels.rs"));`, which brings `PotrfWarpN32`, `Factor48` and a
//! struct of named, typed arguments for each. `examples/downstream` is a whole crate that does it.
//!
//! The same input gives the same bytes, and a file whose bytes are as they were is left alone.

mod launcher;

use std::io::Write;
use std::path::{Path, PathBuf};

use askama::Template;
use indexmap::IndexMap;

use crate::generate::{self, SettingValue, Specialisation, kernels};
use crate::ptx::{Arch, Module};
use crate::template::{MicroPotrf, PanelSolve, ParamError, PotrfBlock, PotrfDiag, PotrfRows, PotrfWarp, SchurWgmma};
use launcher::{File, Launcher, Target};

/// Why the kernels could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An unknown kernel or setting, or a value out of its range.
    #[error(transparent)]
    Generate(#[from] generate::Error),
    /// A parameter that its template or target does not take.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// Two launchers of one name.
    #[error("two kernels would make the launcher `{name}`: give one another name with `rename`")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A name that is no Rust type's.
    #[error("`{name}` cannot name a launcher: it must be letters, digits and underscores, a letter first")]
    BadName {
        /// The name.
        name: String,
    },
    /// `rename` before any kernel.
    #[error("`rename(\"{name}\")` comes before any kernel: it renames the one named last")]
    NothingToRename {
        /// The name.
        name: String,
    },
    /// No kernel was named.
    #[error("no kernel was named: call `kernel` or `template` first")]
    NoKernels,
    /// A file that would leave the directory.
    #[error("`{file}` is not a plain file name")]
    BadFile {
        /// The name.
        file: String,
    },
    /// Called outside a build script.
    #[error("OUT_DIR is not set: this is to be called from build.rs")]
    NoOutDir,
    /// A launcher's text could not be rendered: a fault of ours.
    #[error("the launchers' template failed: {0}")]
    Render(#[from] askama::Error),
    /// Metadata could not be written as JSON: a fault of ours.
    #[error("the metadata failed to serialise: {0}")]
    Json(#[from] serde_json::Error),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Collects kernels and targets, and writes them. What is wrong is told when it writes.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    archs: Vec<Arch>,
    requests: Vec<Request>,
    /// A `rename` that came before any kernel.
    misplaced: Option<String>,
}

/// A kernel that was asked for.
#[derive(Clone, Debug)]
struct Request {
    source: Source,
    name: Option<String>,
}

#[derive(Clone, Debug)]
enum Source {
    Named { kernel: String, settings: IndexMap<String, String> },
    Typed(Specialisation),
}

impl Source {
    fn specialise(&self) -> Result<Specialisation, Error> {
        match self {
            Source::Named { kernel, settings } => Ok(Specialisation::from_settings(kernel, settings)?),
            Source::Typed(specialisation) => Ok(*specialisation),
        }
    }
}

impl Builder {
    /// No kernels yet, for sm_80 unless targets are named.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a target. A launcher loads the newest that its device runs.
    #[must_use]
    pub fn arch(mut self, arch: Arch) -> Self {
        if !self.archs.contains(&arch) {
            self.archs.push(arch);
        }
        self
    }

    /// Adds the kernel of a name with its settings; those not given take their defaults. The launcher is called after
    /// the kernel and the settings given: `PotrfWarpN32`.
    #[must_use]
    pub fn kernel(mut self, kernel: &str, settings: &[(&str, &str)]) -> Self {
        let settings = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        self.requests.push(Request { source: Source::Named { kernel: kernel.to_owned(), settings }, name: None });
        self
    }

    /// Adds a template with its parameters. The launcher is called after the kernel and all of them:
    /// `PotrfWarpN32Rank4Warps4`.
    #[must_use]
    pub fn template(mut self, template: impl Into<Specialisation>) -> Self {
        self.requests.push(Request { source: Source::Typed(template.into()), name: None });
        self
    }

    /// Calls the launcher of the kernel added last `name`.
    #[must_use]
    pub fn rename(mut self, name: &str) -> Self {
        match self.requests.last_mut() {
            Some(request) => request.name = Some(name.to_owned()),
            None => self.misplaced = Some(name.to_owned()),
        }
        self
    }

    /// Writes everything into cargo's `OUT_DIR`, the launchers into `file`, and tells cargo when to run `build.rs`
    /// again. For use in `build.rs`: where something is wrong, the build fails with one line that says what.
    pub fn write_to_out_dir(&self, file: &str) {
        let written =
            std::env::var_os("OUT_DIR").ok_or(Error::NoOutDir).and_then(|dir| self.write(Path::new(&dir), file));
        match written {
            Ok(_) => println!("cargo::rerun-if-changed=build.rs"),
            Err(error) => {
                println!("cargo::error=tilewright: {error}");
                std::process::exit(1);
            }
        }
    }

    /// Writes everything into `directory`: the launchers into `file`, PTX and metadata into a folder beside it, named
    /// after it. Answers the path of the launchers. A file is replaced as a whole or not at all.
    ///
    /// # Errors
    /// When a kernel is unknown or its settings are wrong, a launcher's name is taken or is none, or a file cannot be
    /// written.
    pub fn write(&self, directory: &Path, file: &str) -> Result<PathBuf, Error> {
        let path = directory.join(file);
        for (relative, text) in self.files(file)? {
            write_file(&directory.join(relative), text.as_bytes())?;
        }
        Ok(path)
    }

    /// Every file: path, relative to the directory, to text. The launchers come last, after what they include.
    fn files(&self, file: &str) -> Result<IndexMap<String, String>, Error> {
        let stem = match Path::new(file).file_stem().and_then(|stem| stem.to_str()) {
            Some(stem) if Path::new(file).file_name().is_some_and(|name| name == file) => stem,
            _ => return Err(Error::BadFile { file: file.to_owned() }),
        };
        if let Some(name) = &self.misplaced {
            return Err(Error::NothingToRename { name: name.clone() });
        }
        if self.requests.is_empty() {
            return Err(Error::NoKernels);
        }
        let mut archs = if self.archs.is_empty() { vec![Arch::Sm80] } else { self.archs.clone() };
        archs.sort_unstable_by(|one, other| other.cmp(one));
        let mut files = IndexMap::new();
        let mut launchers: IndexMap<String, Launcher> = IndexMap::new();
        for request in &self.requests {
            let launcher = request.launcher(&archs, stem, &mut files)?;
            if launchers.contains_key(&launcher.name) {
                return Err(Error::NameTaken { name: launcher.name });
            }
            launchers.insert(launcher.name.clone(), launcher);
        }
        let text = File { launchers: launchers.into_values().collect() }.render()?;
        files.insert(file.to_owned(), text + "\n");
        Ok(files)
    }
}

impl Request {
    /// The launcher; its PTX and metadata go to `files`, in the folder `stem`.
    fn launcher(&self, archs: &[Arch], stem: &str, files: &mut IndexMap<String, String>) -> Result<Launcher, Error> {
        let specialisation = self.source.specialise()?;
        let modules =
            archs.iter().map(|&arch| specialisation.instantiate(arch)).collect::<Result<Vec<Module>, ParamError>>()?;
        let mut targets = Vec::new();
        for (arch, module) in archs.iter().zip(&modules) {
            let meta = serde_json::to_string_pretty(&module.meta)? + "\n";
            let base = format!("{stem}/{}.{arch}", entry_name(module));
            let target = Target { arch: arch.name(), ptx: format!("{base}.ptx"), meta: format!("{base}.json") };
            files.insert(target.ptx.clone(), module.ptx.clone());
            files.insert(target.meta.clone(), meta);
            targets.push(target);
        }
        let kernel = specialisation.kernel();
        let settings = specialisation.settings();
        let meta = modules.first().and_then(|module| module.meta.kernels.first());
        let (free_grid, grid_doc) = meta.map_or((false, String::new()), |meta| launcher::grid(&meta.grid));
        Ok(Launcher {
            name: self.launcher_name(kernel, &settings)?,
            kernel,
            summary: kernels().iter().find(|info| info.name == kernel).map_or("a kernel", |info| info.summary),
            settings: settings.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", "),
            targets,
            params: meta.map(launcher::params).unwrap_or_default(),
            free_grid,
            grid_doc,
        })
    }

    fn launcher_name(&self, kernel: &str, settings: &IndexMap<String, SettingValue>) -> Result<String, Error> {
        let name = match (&self.name, &self.source) {
            (Some(name), _) => name.clone(),
            (None, Source::Named { settings: given, .. }) => {
                let given = settings.iter().filter(|(name, _)| given.contains_key(*name));
                default_name(kernel, given)
            }
            (None, Source::Typed(_)) => default_name(kernel, settings.iter()),
        };
        let plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !plain || !name.starts_with(|letter: char| letter.is_ascii_alphabetic()) || name == "Self" {
            return Err(Error::BadName { name });
        }
        Ok(name)
    }
}

fn default_name<'a>(kernel: &str, settings: impl Iterator<Item = (&'a String, &'a SettingValue)>) -> String {
    let parts = settings.map(|(name, value)| format!("_{name}{value}"));
    launcher::camel_case(&(kernel.to_owned() + &parts.collect::<String>()))
}

fn entry_name(module: &Module) -> &str {
    module.meta.kernels.first().map_or("module", |kernel| kernel.name.as_str())
}

/// Writes a file as a whole: into a temporary file beside it, then renamed. A file that has these bytes is left alone,
/// so that nothing that depends on it is built again.
fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if std::fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let write = || {
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.persist(path).map_err(|error| error.error)
    };
    write().map(drop).map_err(|source| Error::Write { path: path.to_owned(), source })
}

macro_rules! specialisations {
    ($($template:ident),*) => {
        $(impl From<$template> for Specialisation {
            fn from(template: $template) -> Self {
                Specialisation::$template(template)
            }
        })*
    };
}
specialisations!(PotrfWarp, PotrfRows, PotrfBlock, PotrfDiag, PanelSolve, SchurWgmma, MicroPotrf);
