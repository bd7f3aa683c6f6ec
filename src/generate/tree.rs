//! The standard specialisations: what `generated/` holds.

use indexmap::IndexMap;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde::{Deserialize, Serialize};

use super::tiles::table;
use super::{Error, SettingValue, Specialisation, TileKernel};
use crate::ptx::{Arch, Module, ModuleMeta, Statistics, parse};
use crate::template::{MicroPotrf, Operand, PanelSolve, PotrfBlock, PotrfDiag, PotrfRows, PotrfWarp, SchurWgmma};

/// `generated/manifest.json`: every file with what made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The LLVM that compiled the tile programs.
    pub llvm: String,
    /// The files, by target and then in the order of [`standard`].
    pub kernels: Vec<ManifestEntry>,
}

/// One file of `generated/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// The PTX file, relative to `generated/`.
    pub file: String,
    /// The kernel that it specialises.
    pub kernel: String,
    /// The settings.
    pub settings: IndexMap<String, SettingValue>,
    /// Whether the tile compiler made it; else a template did.
    pub compiled: bool,
    /// The metadata of the module.
    #[serde(flatten)]
    pub meta: ModuleMeta,
}

/// The specialisations that are checked in: the orders that users ask for most and the ends of each template's range, with
/// the parameters that measured best on an H200.
pub fn standard() -> Vec<Specialisation> {
    let mut list = Vec::new();
    list.extend([1, 8, 16, 32].map(|n| Specialisation::PotrfWarp(PotrfWarp { n, rank: 2, warps: 4 })));
    list.push(Specialisation::PotrfWarp(PotrfWarp { n: 32, rank: 4, warps: 4 }));
    list.extend([33, 48, 64].map(|n| Specialisation::PotrfRows(PotrfRows { n, rank: 2 })));
    list.extend([65, 96, 128, 192].map(|n| Specialisation::PotrfBlock(PotrfBlock { n, block: 16, warps: 8 })));
    list.push(Specialisation::PotrfDiag(PotrfDiag { warps: 8 }));
    for (products, planes) in [(3, 2), (1, 1)] {
        list.push(Specialisation::PanelSolve(PanelSolve { warps: 4, products, planes }));
    }
    for (operand, columns, stages, promote) in [(Operand::F16x3, 128, 3, 1), (Operand::F16, 256, 4, 0)] {
        list.push(Specialisation::SchurWgmma(SchurWgmma { operand, columns, stages, promote }));
    }
    list.push(Specialisation::MicroPotrf(MicroPotrf { rank: 4, warps: 4 }));
    list
}

/// Every file of `generated/`: path, relative to it, to text. `<arch>/<entry>.ptx` for each specialisation and target,
/// `<arch>/summary.txt` with what is in each (entry, parameters, instruction mix), and `manifest.json`.
///
/// For each of `tiles` and each target that has what it needs: `<arch>/<entry and settings>.ptx`, beside it the metadata as `.json` in
/// Triton's form, and for all of them `tiles.rs`, the table that the library links.
///
/// # Errors
/// A standard specialisation that its template or the tile compiler refuses, two of one name, or text that is not PTX: faults of
/// ours, which a test would find. [`Error::NoCompiler`] where there are `tiles` and no feature `llvm`.
pub fn tree(tiles: &[TileKernel]) -> Result<IndexMap<String, String>, Error> {
    let mut tree = Tree {
        files: IndexMap::new(),
        manifest: Manifest { llvm: llvm_version(), kernels: Vec::new() },
        summary: String::new(),
    };
    let mut linked = Vec::new();
    for arch in Arch::ALL {
        for specialisation in standard().into_iter().filter(|made| made.info().targets.contains(&arch)) {
            let module = specialisation.instantiate(arch)?;
            let stem = module.meta.kernels[0].name.clone();
            tree.add(stem, specialisation.kernel(), specialisation.settings(), false, module)?;
        }
        for (kernel, module, json) in compile_all(tiles, arch)? {
            let json = serde_json::to_string_pretty(&json).map_err(unwritable)? + "\n";
            tree.add(kernel.stem(), kernel.name(), kernel.settings().clone(), true, module)?;
            tree.files.insert(format!("{arch}/{}.json", kernel.stem()), json);
            linked.push((kernel, arch));
        }
        tree.files.insert(format!("{arch}/summary.txt"), std::mem::take(&mut tree.summary));
    }
    tree.files.insert("tiles.rs".to_owned(), table(linked.into_iter())?);
    let json = serde_json::to_string_pretty(&tree.manifest).map_err(unwritable)?;
    tree.files.insert("manifest.json".to_owned(), json + "\n");
    Ok(tree.files)
}

/// The modules of those of `tiles` that `arch` can have, in their order, with their metadata as JSON.
fn compile_all(tiles: &[TileKernel], arch: Arch) -> Result<Vec<(&TileKernel, Module, serde_json::Value)>, Error> {
    tiles
        .par_iter()
        .filter(|kernel| kernel.check_target(arch).is_ok())
        .map(|kernel| made(kernel, arch).map(|(module, json)| (kernel, module, json)))
        .collect()
}

#[cfg(feature = "llvm")]
fn made(kernel: &TileKernel, arch: Arch) -> Result<(Module, serde_json::Value), Error> {
    let compiled = kernel.compiled(arch)?;
    let json = compiled.json();
    Ok((compiled.into_module(), json))
}

#[cfg(not(feature = "llvm"))]
fn made(kernel: &TileKernel, arch: Arch) -> Result<(Module, serde_json::Value), Error> {
    kernel.compile(arch).map(|module| (module, serde_json::Value::Null))
}

#[cfg(feature = "llvm")]
fn llvm_version() -> String {
    crate::compile::llvm_version()
}

#[cfg(not(feature = "llvm"))]
fn llvm_version() -> String {
    "none".to_owned()
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::Manifest(error.to_string())
}

/// The tree as it grows.
struct Tree {
    files: IndexMap<String, String>,
    manifest: Manifest,
    /// Of the target at hand.
    summary: String,
}

impl Tree {
    fn add(
        &mut self,
        stem: String,
        kernel: &str,
        settings: IndexMap<String, SettingValue>,
        compiled: bool,
        module: Module,
    ) -> Result<(), Error> {
        let Module { ptx, meta } = module;
        let file = format!("{}/{stem}.ptx", meta.arch);
        self.manifest.kernels.push(ManifestEntry {
            file: file.clone(),
            kernel: kernel.to_owned(),
            settings,
            compiled,
            meta,
        });
        let program = parse(&ptx).map_err(|fault| Error::Unreadable { file: file.clone(), fault })?;
        if compiled {
            // Variants share the entry's name.
            self.summary.push_str(&format!("file {stem}\n"));
        }
        for entry in Statistics::of(&program) {
            self.summary.push_str(&entry.to_string());
        }
        match self.files.insert(file.clone(), ptx) {
            None => Ok(()),
            Some(_) => Err(Error::FileTaken { file }),
        }
    }
}
