//! The tile compiler: Triton's IR to PTX that runs on the emulator with all checks on.
#![cfg(feature = "llvm")]

#[path = "support/corpus.rs"]
mod corpus;

use tilewright::compile::{Options, compile};
use tilewright::ptx::Arch;
use tilewright::ttir;

#[test]
fn list() {
    let Some(folder) = corpus::triton() else { return };
    for path in corpus::files(&folder.join("sm_90"), "ttir") {
        let text = std::fs::read_to_string(&path).unwrap();
        let program = ttir::read(&text).unwrap();
        let func = program.kernels().next().unwrap();
        let meta: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path.with_file_name("kernel.json")).unwrap()).unwrap();
        let mut options = Options::new(Arch::Sm90a);
        options.num_warps = meta["num_warps"].as_u64().unwrap() as u32;
        let start = std::time::Instant::now();
        let made = compile(func, &options);
        let name = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        match made {
            Ok(made) => {
                println!("ok {name} {} bytes {:?} shared {}", made.ptx.len(), start.elapsed(), made.shared);
                std::fs::write(format!("/tmp/ours_{name}.ptx"), made.ptx).unwrap();
            }
            Err(error) => println!("no {name}: {error}"),
        }
    }
}
