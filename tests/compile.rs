//! The tile compiler over Triton's kernels: each compiles for each architecture, to the same bytes each time.
//! That what it makes computes the right thing is shown in `triton_dumps`.
#![cfg(feature = "llvm")]

#[path = "support/corpus.rs"]
mod corpus;

use tilewright::compile::{Options, compile};
use tilewright::ptx::Arch;
use tilewright::ttir;

#[test]
fn every_kernel_compiles_to_the_same_bytes_each_time() {
    let Some(folder) = corpus::triton() else { return };
    for path in corpus::files(&folder.join("sm_90"), "ttir") {
        let kernel = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let meta: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path.with_file_name("kernel.json")).unwrap()).unwrap();
        let made = || {
            let program = ttir::read(&text).unwrap();
            let num_warps = meta["num_warps"].as_u64().unwrap() as u32;
            let options = Options { num_warps, ..Options::new(Arch::Sm90a) };
            compile(program.kernels().next().unwrap(), &options).unwrap_or_else(|error| panic!("{kernel}: {error}"))
        };
        let (first, second) = (made(), made());
        assert_eq!(first.ptx, second.ptx, "{kernel}");
        assert_eq!(meta["name"].as_str(), Some(first.name.as_str()), "{kernel}");
    }
}
