//! The tile compiler against Triton: small kernels of ours, one for each operation and precision (`*.py` beside this file), are
//! compiled by the real Triton 3.6 to `.ttir` and to PTX; our compiler makes PTX of the same `.ttir`; both run on the emulator, all
//! checks on, with the same random inputs, edges among them; and the outputs are held to each other by the rule that the case names.
//!
//! Triton is asked for through `TILEWRIGHT_TRITON`, a folder to import it from (`cargo xtask test` installs it), or found in `.tools/triton`; it
//! needs no GPU. Without it the tests say so and pass. `TILEWRIGHT_CASES=NAME` runs only the cases whose names hold NAME. Ours is compiled for Hopper,
//! and in one case of eight for the other targets too; in every case where `TILEWRIGHT_ARCHS=all`. What is expected is the same.
#![cfg(feature = "llvm")]

mod cases;
mod inputs;
mod rules;
mod runner;

/// One test for each file of kernels.
macro_rules! groups {
    ($($group:ident),*) => {
        $(#[test]
        fn $group() {
            runner::run_group(stringify!($group));
        })*

        const GROUPS: &[&str] = &[$(stringify!($group)),*];
    };
}

groups![atomics, control, elementwise, exchange, functions, memory, products, reductions, scans, shapes];

/// No kernel is left out.
#[test]
fn every_case_is_in_a_group() {
    let Some(all) = cases::all() else { return };
    assert!(all.len() > 800, "{} cases", all.len());
    for case in all {
        assert!(GROUPS.contains(&&case.group[..]), "{} is in the group {}", case.name, case.group);
    }
}
