//! `generated/`: what [`tilewright::generate::tree`] says, and nothing else but the resource table.

use anyhow::Result;

/// Writes the tree; with `check`, only tells what differs. The tile programs need the tile compiler: LLVM is installed where it is
/// not there, and the task run again in a build that has it.
#[cfg(not(feature = "llvm"))]
pub fn run(check: bool) -> Result<()> {
    use std::process::Command;

    use crate::{root, tools};

    tools::llvm()?;
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(["run", "--quiet", "--package", "xtask", "--features", "llvm", "--", "generate"]);
    if check {
        command.arg("--check");
    }
    tools::run(command.arg("--tree-only"))
}

/// Writes the tree; with `check`, only tells what differs.
#[cfg(feature = "llvm")]
pub fn run(check: bool) -> Result<()> {
    use std::fs;

    use anyhow::bail;
    use tilewright::generate::tree;
    use tilewright::kernels;

    use crate::{assemble, files, root};

    let folder = root().join("generated");
    let tree = tree(&kernels::standard()?)?;
    let mut stale = Vec::new();
    for (name, text) in &tree {
        let path = folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == *text) {
            continue;
        }
        stale.push(format!("{name} is {}", if path.exists() { "stale" } else { "missing" }));
        if !check {
            files::write(&path, text)?;
        }
    }
    for path in files::list(&folder) {
        let name = path.strip_prefix(&folder)?.to_string_lossy().replace('\\', "/");
        if tree.contains_key(&name) || name == assemble::TABLE {
            continue;
        }
        stale.push(format!("{name} is made by nothing"));
        if !check {
            fs::remove_file(&path)?;
        }
    }
    if check && !stale.is_empty() {
        bail!(
            "generated/ is not fresh; `cargo xtask generate` writes it anew (here with LLVM {}; the manifest names the one it was \
             made with):\n  {}",
            tilewright::compile::llvm_version(),
            stale.join("\n  ")
        );
    }
    println!("generated/: {} files, {} {}", tree.len(), stale.len(), if check { "stale" } else { "changed" });
    Ok(())
}
