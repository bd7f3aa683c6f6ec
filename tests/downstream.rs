//! The crate under `examples/downstream`: its `build.rs` names kernels, its `main` launches them.

use std::path::{Path, PathBuf};
use std::process::Command;

use tilewright::build::Builder;
use tilewright::ptx::{Arch, Module, ModuleMeta};
use tilewright::template::{PotrfRows, PotrfWarp};

/// Built and run as a user would, from its own manifest.
#[test]
fn the_downstream_crate_builds_and_runs() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/downstream/Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline", "--manifest-path"])
        .arg(manifest)
        .env("TILEWRIGHT_DEVICE", "emulator")
        .output()
        .expect("cargo runs");
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
    assert!(out.contains("emulator of sm_90a: TILEWRIGHT_DEVICE is `emulator`"), "{out}");
    assert!(out.contains("PotrfWarpN24: 6 matrices of order 24, largest residual 0.0"), "{out}");
    assert!(out.contains("Factor48: 6 matrices of order 48, largest residual 0.0"), "{out}");
    // The generated code made no warning.
    assert_eq!(error, "");
}

fn builder() -> Builder {
    Builder::new()
        .arch(Arch::Sm80)
        .arch(Arch::Sm90a)
        .kernel("potrf_warp", &[("n", "24")])
        .template(PotrfRows { n: 48, rank: 2 })
        .rename("Factor48")
        .kernel("micro_potrf", &[])
}

/// Every file under `folder` with its bytes and the time of its last change, by path.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let changed = path.metadata().unwrap().modified().unwrap();
            found.push((path.clone(), std::fs::read(&path).unwrap(), changed));
        }
    }
    found.sort();
    found
}

/// The same input gives the same bytes, and a second build touches nothing.
#[test]
fn generated_files_are_stable() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    builder().write(first.path(), "kernels.rs").unwrap();
    let before = files(first.path());
    // Three kernels, two targets, text and metadata of each, and the launchers.
    assert_eq!(before.len(), 13);
    builder().write(first.path(), "kernels.rs").unwrap();
    assert_eq!(files(first.path()), before);
    builder().write(second.path(), "kernels.rs").unwrap();
    let names_and_bytes = |root: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        files(root).into_iter().map(|(path, bytes, _)| (path.strip_prefix(root).unwrap().to_owned(), bytes)).collect()
    };
    assert_eq!(names_and_bytes(first.path()), names_and_bytes(second.path()));
}

/// What a launcher loads is what the library makes: text and metadata come back whole.
#[test]
fn generated_files_hold_the_module() {
    let folder = tempfile::tempdir().unwrap();
    let path = builder().write(folder.path(), "kernels.rs").unwrap();
    let launchers = std::fs::read_to_string(path).unwrap();
    for part in ["pub struct PotrfWarpN24 {", "pub struct Factor48Args<'a> {", "pub struct MicroPotrf {", "pub k: i32,"]
    {
        assert!(launchers.contains(part), "{launchers}");
    }
    // The newest target comes first.
    let place = |target: &str| launchers.find(&format!("kernels/potrf_rows_n48_r2.{target}.ptx")).unwrap();
    assert!(place("sm_90a") < place("sm_80"));
    let expected = PotrfWarp { n: 24, rank: 4, warps: 4 }.instantiate(Arch::Sm80).unwrap();
    let base = folder.path().join("kernels/potrf_warp_n24_r4_w4.sm_80");
    let ptx = std::fs::read_to_string(base.with_extension("sm_80.ptx")).unwrap();
    let meta = std::fs::read_to_string(base.with_extension("sm_80.json")).unwrap();
    let meta: ModuleMeta = serde_json::from_str(&meta).unwrap();
    assert_eq!(Module { ptx, meta }, expected);
}

/// Each mistake is told in one line that says what would be right.
#[test]
fn mistakes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let told = |builder: Builder, file: &str, parts: &[&str]| {
        let message = builder.write(folder.path(), file).unwrap_err().to_string();
        assert!(!message.contains('\n'), "{message}");
        for part in parts {
            assert!(message.contains(part), "{message:?} does not say {part:?}");
        }
    };
    let warp = |n: &str| Builder::new().kernel("potrf_warp", &[("n", n)]);
    told(Builder::new(), "kernels.rs", &["no kernel was named"]);
    told(Builder::new().kernel("potrf", &[]), "kernels.rs", &["unknown kernel `potrf`", "potrf_warp"]);
    told(warp("33"), "kernels.rs", &["potrf_warp: n = 33", "from 1 to 32"]);
    told(warp("x"), "kernels.rs", &["n = `x`", "whole number"]);
    told(Builder::new().kernel("potrf_warp", &[]), "kernels.rs", &["needs the setting `n`"]);
    told(warp("8").kernel("potrf_warp", &[("n", "8")]), "kernels.rs", &["`PotrfWarpN8`", "rename"]);
    told(warp("8").rename("8th"), "kernels.rs", &["`8th` cannot name a launcher"]);
    told(Builder::new().rename("Early").kernel("micro_potrf", &[]), "kernels.rs", &["rename(\"Early\")"]);
    told(warp("8"), "../kernels.rs", &["`../kernels.rs` is not a plain file name"]);
    let blocked = folder.path().join("blocked");
    std::fs::write(&blocked, "").unwrap();
    let message = warp("8").write(&blocked, "kernels.rs").unwrap_err().to_string();
    assert!(message.starts_with("cannot write ") && message.contains("blocked"), "{message}");
    assert_eq!(files(folder.path()).len(), 1, "a mistake writes nothing");
}

/// What cargo sees of a mistake: one line, and a build script that fails. The script is this test, run again.
#[test]
fn a_mistake_fails_the_build() {
    const SCRIPT: &str = "TILEWRIGHT_TEST_IS_BUILD_SCRIPT";
    if std::env::var_os(SCRIPT).is_some() {
        Builder::new().kernel("potrf", &[]).write_to_out_dir("kernels.rs");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_mistake_fails_the_build", "--nocapture"])
        .env(SCRIPT, "1")
        .env("OUT_DIR", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let out = String::from_utf8_lossy(&output.stdout);
    let told: Vec<&str> = out.lines().filter(|line| line.contains("cargo::")).collect();
    assert_eq!(told.len(), 1, "{out}");
    assert!(told[0].contains("cargo::error=tilewright: unknown kernel `potrf`"), "{out}");
}
