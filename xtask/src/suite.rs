//! `cargo xtask test`: every check there is, with a summary at the end.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::{assemble, generate, root, tools};

/// Feature sets beside the default one, by the arguments that choose them.
const FEATURE_SETS: [&[&str]; 4] = [
    &["--no-default-features"],
    &["--no-default-features", "--features", "cuda"],
    &["--no-default-features", "--features", "cli"],
    &["--all-features"],
];

struct Suite {
    steps: Vec<(String, Duration, Result<()>)>,
}

impl Suite {
    fn step(&mut self, name: &str, work: impl FnOnce() -> Result<()>) {
        println!("\n== {name}");
        let start = Instant::now();
        let result = work();
        if let Err(error) = &result {
            eprintln!("{name} failed: {error:#}");
        }
        self.steps.push((name.to_owned(), start.elapsed(), result));
    }

    fn cargo(&mut self, name: &str, arguments: &[&str], variables: &[(&str, &str)]) {
        self.step(name, || {
            let mut command = Command::new(env!("CARGO"));
            tools::run(command.current_dir(root()).args(arguments).envs(variables.iter().copied()))
        });
    }

    fn summary(self) -> Result<()> {
        println!("\n{:<50} {:>8}", "step", "seconds");
        for (name, time, result) in &self.steps {
            let verdict = if result.is_ok() { "ok" } else { "FAILED" };
            println!("{name:<50} {:>8.1}  {verdict}", time.as_secs_f64());
        }
        let failed: Vec<&str> =
            self.steps.iter().filter(|(_, _, result)| result.is_err()).map(|(name, ..)| name.as_str()).collect();
        if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
    }
}

/// Runs the suite.
pub fn run(fast: bool) -> Result<()> {
    let mut suite = Suite { steps: Vec::new() };
    // Without LLVM or ptxas the checks that need them cannot run: that is a failure, said here and shown in the summary.
    suite.step("install LLVM", || tools::llvm().map(|prefix| println!("LLVM: {}", prefix.display())));
    suite.step("install ptxas", || tools::ptxas().map(|path| println!("ptxas: {}", path.display())));
    let ptxas = tools::ptxas_present().unwrap_or_default();
    let ptxas = ptxas.to_string_lossy();
    suite.cargo("format", &["fmt", "--all", "--check"], &[]);
    suite.cargo("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[]);
    if !fast {
        for features in FEATURE_SETS {
            let arguments: Vec<&str> = ["clippy", "--package", "tilewright", "--all-targets"]
                .iter()
                .chain(features)
                .chain(&["--", "-D", "warnings"])
                .copied()
                .collect();
            suite.cargo(&format!("clippy {}", features.join(" ")), &arguments, &[]);
        }
        suite.cargo("docs", &["doc", "--no-deps", "--workspace"], &[("RUSTDOCFLAGS", "-D warnings")]);
    }
    suite.step("generated/ is fresh", || generate::run(true));
    suite.step("generated/ assembles", || assemble::run(true));
    // The conformance tests of the tile compiler are held to it.
    suite.step("install Triton", || tools::triton().map(|path| println!("Triton: {}", path.display())));
    let triton = tools::triton_present().unwrap_or_default();
    let triton = triton.to_string_lossy();
    let mut variables = vec![("INSTA_UPDATE", "no")];
    variables.extend(
        [("TILEWRIGHT_PTXAS", &*ptxas), ("TILEWRIGHT_TRITON", &*triton)].iter().filter(|(_, at)| !at.is_empty()),
    );
    let mut tests = vec!["test", "--workspace", "--no-fail-fast"];
    if tools::llvm_present().is_some() {
        tests.extend(["--features", "tilewright/llvm,xtask/llvm"]);
    }
    suite.cargo("tests", &tests, &variables);
    suite.summary()
}
