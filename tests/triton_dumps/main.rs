//! Triton's own PTX for the seeds' kernels, unchanged, on the emulator with all checks on, against plain Rust oracles of
//! what each kernel computes.

#[path = "../support/mod.rs"]
mod support;

mod bounded;
mod cholesky_large;
mod cholesky_small;
mod harness;
mod kda;
mod matrices;
mod moves;
mod mx;
mod products;

/// Every kernel of the corpus, in both architectures, is launched by one of the tests.
#[test]
fn every_kernel_has_a_test() {
    let Some(folder) = support::corpus::triton() else { return };
    let tests = [
        include_str!("cholesky_large.rs"),
        include_str!("cholesky_small.rs"),
        include_str!("kda.rs"),
        include_str!("moves.rs"),
        include_str!("mx.rs"),
    ];
    for arch in ["sm_90", "sm_100"] {
        let mut count = 0;
        for kernel in std::fs::read_dir(folder.join(arch)).unwrap() {
            let name = format!("\"{}\"", kernel.unwrap().file_name().into_string().unwrap());
            assert!(tests.iter().any(|test| test.contains(&name)), "{arch}: no test launches {name}");
            count += 1;
        }
        assert!(count > 0, "{arch} has no kernels");
    }
}
