//! Every kernel of this target is PTX: `ptxas`, where it is, takes them all for Hopper.

use std::process::Command;

use indexmap::IndexMap;

use crate::launch::ENTRY;
use crate::{ptxas, shapes, table};

#[test]
fn every_kernel_is_ptx() {
    let Some(ptxas) = ptxas::ptxas() else { return };
    let kernels = table::rows().into_iter().map(|row| (row.needs, row.kernel()));
    let kernels = kernels.chain(shapes::SHAPES.iter().map(|shape| ([shape.version, shape.target], shape.kernel())));
    // One text for each version and target, with entries of many names.
    let mut texts: IndexMap<[&str; 2], String> = IndexMap::new();
    let mut count = 0;
    for (needs, kernel) in kernels {
        let at = kernel.find(".visible").expect("an entry");
        let text = texts.entry(needs).or_insert_with(|| kernel[..at].to_owned());
        text.push_str(&kernel[at..].replace(ENTRY, &format!("{ENTRY}_{count}")));
        count += 1;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut complaints = Vec::new();
    for ([version, target], text) in texts {
        let ptx = folder.path().join(format!("{version}_{target}.ptx"));
        std::fs::write(&ptx, text).expect("the folder takes files");
        let output = Command::new(&ptxas)
            .args(["-arch=sm_90a", "-O0", "-o"])
            .arg(folder.path().join("out.cubin"))
            .arg(&ptx)
            .output()
            .expect("ptxas runs");
        if !output.status.success() {
            complaints.push(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(count > 900, "{count} kernels");
}
