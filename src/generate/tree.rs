//! The standard specialisations: what `generated/` holds.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{Error, Specialisation};
use crate::ptx::{Arch, ModuleMeta, Statistics, parse};
use crate::template::{MicroPotrf, PotrfBlock, PotrfRows, PotrfWarp};

/// `generated/manifest.json`: every file with what made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
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
    pub settings: IndexMap<String, u32>,
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
    list.push(Specialisation::MicroPotrf(MicroPotrf { rank: 4, warps: 4 }));
    list
}

/// Every file of `generated/`: path, relative to it, to text. `<arch>/<entry>.ptx` for each specialisation and target,
/// `<arch>/summary.txt` with what is in each (entry, parameters, instruction mix), and `manifest.json`.
///
/// # Errors
/// A standard specialisation that its template refuses, or text that is not PTX: faults of ours, which a test would find.
pub fn tree() -> Result<IndexMap<String, String>, Error> {
    let mut files = IndexMap::new();
    let mut manifest = Manifest { kernels: Vec::new() };
    for arch in Arch::ALL {
        let mut summary = String::new();
        for specialisation in standard() {
            let module = specialisation.instantiate(arch)?;
            let file = format!("{arch}/{}.ptx", module.meta.kernels[0].name);
            manifest.kernels.push(ManifestEntry {
                file: file.clone(),
                kernel: specialisation.kernel().to_owned(),
                settings: specialisation.settings(),
                meta: module.meta,
            });
            let program = parse(&module.ptx).map_err(|fault| Error::Unreadable { file: file.clone(), fault })?;
            for entry in Statistics::of(&program) {
                summary.push_str(&entry.to_string());
            }
            files.insert(file, module.ptx);
        }
        files.insert(format!("{arch}/summary.txt"), summary);
    }
    let mut json = serde_json::to_string_pretty(&manifest).map_err(|error| Error::Manifest(error.to_string()))?;
    json.push('\n');
    files.insert("manifest.json".to_owned(), json);
    Ok(files)
}
