//! NVIDIA's assembler, where it is.

use std::path::{Path, PathBuf};

/// `ptxas`: `TILEWRIGHT_PTXAS`, or what `cargo xtask test` installs. `None`, with a line that says so, where there is none.
pub fn ptxas() -> Option<PathBuf> {
    let path = std::env::var_os("TILEWRIGHT_PTXAS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools/nvcc/nvidia/cu13/bin/ptxas"), PathBuf::from);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: no ptxas at {}; set TILEWRIGHT_PTXAS", path.display());
    None
}
