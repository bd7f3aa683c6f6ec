//! Other people's PTX.

#![allow(dead_code, reason = "each test binary takes what it needs")]

use std::path::{Path, PathBuf};

/// The folder of Triton's kernels, `<arch>/<kernel>/kernel.ptx`: `TILEWRIGHT_TRITON_CORPUS`, or beside the repository. `None`,
/// with a line that says so, where there is none.
pub fn triton() -> Option<PathBuf> {
    let folder = std::env::var_os("TILEWRIGHT_TRITON_CORPUS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/triton/dumps"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no Triton PTX at {}; set TILEWRIGHT_TRITON_CORPUS", folder.display());
    None
}

/// Every `.ptx` under a folder, in order of name.
pub fn ptx_files(folder: &Path) -> Vec<PathBuf> {
    files(folder, "ptx")
}

/// Every file with this extension under a folder, in order of name.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect(folder, extension, &mut files);
    files.sort();
    files
}

fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            collect(&path, extension, files);
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
}
