//! `generated/`: what [`tilewright::generate::tree`] says, and nothing else but the resource table.

use std::fs;

use anyhow::{Result, bail};

use crate::{assemble, files, root};

/// Writes the tree; with `check`, only tells what differs.
pub fn run(check: bool) -> Result<()> {
    let folder = root().join("generated");
    let tree = tilewright::generate::tree()?;
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
        bail!("generated/ is not fresh; `cargo xtask generate` writes it anew:\n  {}", stale.join("\n  "));
    }
    println!("generated/: {} files, {} {}", tree.len(), stale.len(), if check { "stale" } else { "changed" });
    Ok(())
}
