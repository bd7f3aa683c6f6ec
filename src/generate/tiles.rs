//! Tile programs as a source of modules: compiled (feature `llvm`), or taken from `generated/`.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::Error;
use crate::ptx::{Arch, Module, ModuleMeta};
use crate::tile::{Func, Scalar, Type, Value};

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// A number.
    Number(u32),
    /// A switch.
    Flag(bool),
    /// One of some words: a type, a precision.
    Word(String),
}

impl fmt::Display for SettingValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingValue::Number(value) => value.fmt(formatter),
            SettingValue::Flag(value) => value.fmt(formatter),
            SettingValue::Word(value) => value.fmt(formatter),
        }
    }
}

/// A module of `generated/` as it is linked into the library.
#[derive(Clone, Copy, Debug)]
struct CheckedIn {
    arch: Arch,
    entry: &'static str,
    /// The settings as JSON.
    settings: &'static str,
    num_warps: u32,
    ptx: &'static str,
    /// The metadata: Triton's keys, and under `tilewright` [`ModuleMeta`].
    meta: &'static str,
}

/// What is ours of a module's metadata.
#[derive(Deserialize)]
struct Metadata {
    tilewright: ModuleMeta,
}

/// What the generator wrote last.
static CHECKED_IN: &[CheckedIn] = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/generated/tiles.rs"));

/// A kernel as tile IR with the settings that made it.
#[derive(Clone, Debug)]
pub struct TileKernel {
    func: Func,
    num_warps: u32,
    settings: IndexMap<String, SettingValue>,
}

impl TileKernel {
    /// The kernel `func` with programs of `num_warps` warps. `settings`, a struct of numbers, switches and words, says what made it:
    /// it names the file and is kept in the manifest.
    ///
    /// # Errors
    /// [`Error::Settings`] where `settings` is no such struct.
    pub fn new(func: Func, num_warps: u32, settings: &impl Serialize) -> Result<Self, Error> {
        let settings = serde_json::to_value(settings)
            .and_then(serde_json::from_value)
            .map_err(|error| Error::Settings { kernel: func.name.clone(), message: error.to_string() })?;
        Ok(Self { func, num_warps, settings })
    }

    /// The entry's name.
    pub fn name(&self) -> &str {
        &self.func.name
    }

    /// Warps of a program.
    pub fn num_warps(&self) -> u32 {
        self.num_warps
    }

    /// The settings, in their order.
    pub fn settings(&self) -> &IndexMap<String, SettingValue> {
        &self.settings
    }

    /// The name of its file under `generated/<arch>/`, without extension: the entry and its settings, those that are switched off
    /// left out.
    pub fn stem(&self) -> String {
        let mut stem = self.name().trim_start_matches('_').to_owned();
        for (name, value) in &self.settings {
            match value {
                SettingValue::Number(value) => stem.push_str(&format!("_{name}{value}")),
                SettingValue::Flag(true) => stem.push_str(&format!("_{name}")),
                SettingValue::Flag(false) => {}
                SettingValue::Word(value) => stem.push_str(&format!("_{value}")),
            }
        }
        stem
    }

    /// Checks that `arch` has what the kernel needs.
    ///
    /// # Errors
    /// [`Error::Target`]: conversions to and from FP8 came with sm_89.
    pub fn check_target(&self, arch: Arch) -> Result<(), Error> {
        if arch >= Arch::Sm90a || !uses_fp8(&self.func) {
            return Ok(());
        }
        Err(Error::Target { kernel: self.name().to_owned(), what: "FP8 conversions", arch, least: Arch::Sm90a })
    }

    /// The module for `arch`: from `generated/` where it is there, else compiled.
    ///
    /// # Errors
    /// As [`TileKernel::compile`].
    pub fn module(&self, arch: Arch) -> Result<Module, Error> {
        match self.checked_in(arch) {
            Some(module) => Ok(module),
            None => self.compile(arch),
        }
    }

    /// The module for `arch` that is checked in under `generated/` and linked into the library, if there is one: it needs no
    /// compiler.
    pub fn checked_in(&self, arch: Arch) -> Option<Module> {
        let settings = serde_json::to_string(&self.settings).ok()?;
        let found = CHECKED_IN.iter().find(|found| {
            (found.arch, found.entry, found.num_warps) == (arch, self.name(), self.num_warps)
                && found.settings == settings
        })?;
        let meta: Metadata = serde_json::from_str(found.meta).ok()?;
        Some(Module { ptx: found.ptx.to_owned(), meta: meta.tilewright })
    }

    /// Compiles the kernel for `arch`; the text is in the printer's normal form. The same kernel gives the same bytes wherever
    /// the same LLVM makes it.
    ///
    /// # Errors
    /// [`Error::Target`] as [`TileKernel::check_target`]; [`Error::NoCompiler`] without feature `llvm`; [`Error::Compile`] where the
    /// compiler refuses the kernel.
    #[cfg(feature = "llvm")]
    pub fn compile(&self, arch: Arch) -> Result<Module, Error> {
        self.compiled(arch).map(crate::compile::Compiled::into_module)
    }

    /// [`TileKernel::compile`], with what the compiler says of it.
    ///
    /// # Errors
    /// As [`TileKernel::compile`].
    #[cfg(feature = "llvm")]
    pub fn compiled(&self, arch: Arch) -> Result<crate::compile::Compiled, Error> {
        use crate::compile::{Options, compile};
        use crate::ptx::{parse, print};
        use crate::tile::simplify;

        self.check_target(arch)?;
        let failed = |message: String| Error::Compile { kernel: self.name().to_owned(), arch, message };
        let mut func = self.func.clone();
        simplify::canonicalise(&mut func);
        let options = Options { num_warps: self.num_warps, ..Options::new(arch) };
        let mut compiled = compile(&func, &options).map_err(|error| failed(error.to_string()))?;
        let program = parse(&compiled.ptx)
            .map_err(|fault| Error::Unreadable { file: format!("{arch}/{}.ptx", self.stem()), fault })?;
        compiled.ptx = print(&program);
        Ok(compiled)
    }

    /// The compiler is not part of this build.
    ///
    /// # Errors
    /// [`Error::Target`] as [`TileKernel::check_target`], else [`Error::NoCompiler`].
    #[cfg(not(feature = "llvm"))]
    pub fn compile(&self, arch: Arch) -> Result<Module, Error> {
        self.check_target(arch)?;
        Err(Error::NoCompiler { kernel: self.stem(), arch })
    }
}

/// Whether a value, or what a pointer points to, is FP8.
fn uses_fp8(func: &Func) -> bool {
    let fp8 = |value: Value| {
        let scalar = match func.ty(value) {
            Type::Scalar(elem) | Type::Tile(_, elem) => elem.scalar().or(elem.pointee()),
            Type::BlockPtr(_, scalar) | Type::Descriptor(_, scalar) => Some(scalar),
        };
        matches!(scalar, Some(Scalar::F8E4M3 | Scalar::F8E5M2))
    };
    let params = (0..func.params.len()).map(|index| func.param_value(index));
    params.chain(func.all_ops().into_iter().flat_map(|op| func.op(op).results.clone())).any(fp8)
}

/// The Rust text of the table that [`CHECKED_IN`] includes.
pub(super) fn table<'a>(entries: impl Iterator<Item = (&'a TileKernel, Arch)>) -> Result<String, Error> {
    let mut text = String::from(
        "// Made by `cargo xtask generate`: the modules of the tile programs, as the library links them.\n&[\n",
    );
    for (kernel, arch) in entries {
        let settings = serde_json::to_string(&kernel.settings).map_err(|error| Error::Manifest(error.to_string()))?;
        let (entry, num_warps, stem) = (kernel.name(), kernel.num_warps, kernel.stem());
        text.push_str(&format!(
            "    CheckedIn {{\n        arch: Arch::{arch:?},\n        entry: \"{entry}\",\n        settings: r#\"{settings}\"#,\n        \
             num_warps: {num_warps},\n        ptx: include_str!(\"{arch}/{stem}.ptx\"),\n        meta: include_str!(\"{arch}/{stem}.json\"),\n    }},\n"
        ));
    }
    text.push_str("]\n");
    Ok(text)
}
