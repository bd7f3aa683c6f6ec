//! `generated/` is what the generator makes now, and its metadata is true.

use std::path::Path;

use tilewright::generate::{Manifest, ManifestEntry, Specialisation, TileKernel};
use tilewright::kernels;
use tilewright::ptx::{Arch, Module, ModuleMeta};

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/generated"))
}

fn manifest() -> Manifest {
    let manifest = std::fs::read_to_string(folder().join("manifest.json")).unwrap();
    serde_json::from_str(&manifest).unwrap()
}

/// Needs the tile compiler, of the LLVM that the manifest names.
#[cfg(feature = "llvm")]
#[test]
fn files_are_fresh() {
    let stale: Vec<String> = tilewright::generate::tree(&kernels::standard().unwrap())
        .unwrap()
        .into_iter()
        .filter(|(name, text)| std::fs::read_to_string(folder().join(name)).ok().as_ref() != Some(text))
        .map(|(name, _)| name)
        .collect();
    assert!(
        stale.is_empty(),
        "stale or missing, `cargo xtask generate` writes them anew (made with LLVM {}, here is {}): {}",
        manifest().llvm,
        tilewright::compile::llvm_version(),
        stale.join(", ")
    );
}

/// The tile program of an entry, by its file's name.
fn tile_kernel<'a>(kernels: &'a [TileKernel], entry: &ManifestEntry) -> &'a TileKernel {
    let made = |kernel: &&TileKernel| format!("{}/{}.ptx", entry.meta.arch, kernel.stem()) == entry.file;
    kernels.iter().find(made).unwrap_or_else(|| panic!("nothing makes {}", entry.file))
}

#[test]
fn the_manifest_names_what_made_each_file() {
    let manifest = manifest();
    let tiles = kernels::standard().unwrap();
    assert!(
        manifest.kernels.iter().any(|entry| entry.compiled) && manifest.kernels.iter().any(|entry| !entry.compiled)
    );
    for entry in manifest.kernels {
        let module = if entry.compiled {
            let kernel = tile_kernel(&tiles, &entry);
            assert_eq!((kernel.name(), kernel.settings()), (entry.kernel.as_str(), &entry.settings));
            // What the library links.
            kernel.checked_in(entry.meta.arch).unwrap_or_else(|| panic!("{} is not linked", entry.file))
        } else {
            let settings = entry.settings.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
            Specialisation::from_settings(&entry.kernel, &settings).unwrap().instantiate(entry.meta.arch).unwrap()
        };
        assert_eq!(module.meta, entry.meta, "{}", entry.file);
        assert_eq!(std::fs::read_to_string(folder().join(&entry.file)).unwrap(), module.ptx, "{}", entry.file);
    }
}

/// Every standard tile program is there for every target that has what it needs, in the printer's normal form, with parameters and
/// shared memory as its metadata says.
#[test]
fn every_tile_program_is_there_and_is_what_its_metadata_says() {
    let tiles = kernels::standard().unwrap();
    let mut refused = 0;
    for (kernel, arch) in tiles.iter().flat_map(|kernel| Arch::ALL.map(|arch| (kernel, arch))) {
        if let Err(error) = kernel.check_target(arch) {
            let expected = format!(
                "{} needs FP8 conversions, which sm_80 does not have: the least target is sm_90a",
                kernel.name()
            );
            assert_eq!(error.to_string(), expected);
            assert!(kernel.checked_in(arch).is_none());
            refused += 1;
            continue;
        }
        let Module { ptx, meta } =
            kernel.checked_in(arch).unwrap_or_else(|| panic!("{} is not there for {arch}", kernel.stem()));
        let program = tilewright::ptx::parse(&ptx).unwrap();
        assert_eq!(tilewright::ptx::print(&program), ptx, "{}", kernel.stem());
        let entry = program.entries().next().unwrap();
        let meta = &meta.kernels[0];
        assert_eq!(entry.name, meta.name);
        let scratch = if meta.scratch_pointers { 2 } else { 0 };
        assert_eq!(entry.params.len(), meta.params.len() + scratch, "{}", kernel.stem());
        for (declared, param) in entry.params.iter().zip(&meta.params) {
            assert_eq!(declared.bytes(), param.bytes() as u64, "{}: {}", kernel.stem(), param.name);
        }
    }
    // Three quantise to FP8, one multiplies it.
    assert_eq!(refused, 4);
}

/// The JSON beside a compiled kernel has all keys that Triton 3.6's launcher reads.
#[test]
fn metadata_has_the_form_of_tritons() {
    for entry in manifest().kernels.into_iter().filter(|entry| entry.compiled) {
        let text = std::fs::read_to_string(folder().join(&entry.file).with_extension("json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::from_value::<ModuleMeta>(json["tilewright"].clone()).unwrap(), entry.meta);
        let meta = &entry.meta.kernels[0];
        for key in
            ["name", "shared", "num_warps", "num_ctas", "num_stages", "warp_size", "tmem_size", "tensordesc_meta"]
        {
            assert!(!json[key].is_null(), "{}: {key}", entry.file);
        }
        for key in ["global_scratch_size", "profile_scratch_size"] {
            assert_eq!(json[key], 0, "{}: {key}", entry.file);
        }
        for key in ["launch_pdl", "launch_cooperative_grid"] {
            assert_eq!(json[key], false, "{}: {key}", entry.file);
        }
        let target = serde_json::json!({ "backend": "cuda", "arch": entry.meta.arch.capability(), "warp_size": 32 });
        assert_eq!(json["target"], target, "{}", entry.file);
        assert!(meta.scratch_pointers, "{}", entry.file);
    }
}

#[test]
fn the_resource_table_has_a_row_for_each_file() {
    let table = std::fs::read_to_string(folder().join("resources.md")).unwrap();
    let manifest = manifest();
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| kernel")).count();
    assert_eq!(rows, manifest.kernels.len());
    for entry in manifest.kernels {
        let stem = Path::new(&entry.file).file_stem().unwrap().to_str().unwrap();
        let row = format!("| {stem} | {} |", entry.meta.arch);
        assert!(table.contains(&row), "{row}");
    }
}
