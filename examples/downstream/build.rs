//! Names the kernels and shapes that this crate launches.

use tilewright::{build::Builder, ptx::Arch, template::PotrfRows};

fn main() {
    Builder::new()
        // The newest target that a card runs is taken; sm_80 runs on every card.
        .arch(Arch::Sm90a)
        .arch(Arch::Sm80)
        // By name, settings that are not given taking their defaults …
        .kernel("potrf_warp", &[("n", "24")])
        // … or as a typed template, under a name of our own.
        .template(PotrfRows { n: 48, rank: 2 })
        .rename("Factor48")
        .write_to_out_dir("kernels.rs");
}
