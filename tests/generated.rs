//! `generated/` is what the generator makes now, and its metadata is true.

use std::path::Path;

use tilewright::generate::{Manifest, Specialisation, tree};

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/generated"))
}

#[test]
fn files_are_fresh() {
    let stale: Vec<String> = tree()
        .unwrap()
        .into_iter()
        .filter(|(name, text)| std::fs::read_to_string(folder().join(name)).ok().as_ref() != Some(text))
        .map(|(name, _)| name)
        .collect();
    assert!(stale.is_empty(), "stale or missing, `cargo xtask generate` writes them anew: {}", stale.join(", "));
}

#[test]
fn the_manifest_names_what_made_each_file() {
    let manifest = std::fs::read_to_string(folder().join("manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_str(&manifest).unwrap();
    assert!(!manifest.kernels.is_empty());
    for entry in manifest.kernels {
        let settings = entry.settings.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        let module =
            Specialisation::from_settings(&entry.kernel, &settings).unwrap().instantiate(entry.meta.arch).unwrap();
        assert_eq!(module.meta, entry.meta, "{}", entry.file);
        assert_eq!(std::fs::read_to_string(folder().join(&entry.file)).unwrap(), module.ptx, "{}", entry.file);
    }
}

#[test]
fn the_resource_table_has_a_row_for_each_file() {
    let table = std::fs::read_to_string(folder().join("resources.md")).unwrap();
    let manifest = std::fs::read_to_string(folder().join("manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_str(&manifest).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| kernel")).count();
    assert_eq!(rows, manifest.kernels.len());
    for entry in manifest.kernels {
        let row = format!("| {} | {} |", entry.meta.kernels[0].name, entry.meta.arch);
        assert!(table.contains(&row), "{row}");
    }
}
