//! The cases as Triton left them: `compile.py` runs once, and what it wrote is read.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde::Deserialize;
use tilewright::tile::Scalar;

use crate::rules::Rule;

/// A kernel with its types and extents fixed.
#[derive(Debug, Deserialize)]
pub struct Case {
    pub name: String,
    /// The file of kernels that it is in.
    pub group: String,
    pub args: Vec<Arg>,
    pub grid: [u32; 3],
    pub seed: u64,
    pub num_warps: u32,
    /// Bytes of shared memory that Triton's PTX needs.
    pub shared: u32,
}

/// An argument of a launch.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Arg {
    /// A buffer; an output where it has a rule.
    Buffer { buffer: String, count: usize, fill: String, rule: Option<Rule> },
    /// A number.
    Number { scalar: String, value: f64 },
}

/// Triton's name of a type: ours, and whether it is unsigned.
pub fn scalar(name: &str) -> (Scalar, bool) {
    let scalar = match name {
        "i1" => Scalar::I1,
        "i8" | "u8" => Scalar::I8,
        "i16" | "u16" => Scalar::I16,
        "i32" | "u32" => Scalar::I32,
        "i64" | "u64" => Scalar::I64,
        "fp16" => Scalar::F16,
        "bf16" => Scalar::Bf16,
        "fp32" => Scalar::F32,
        "fp64" => Scalar::F64,
        "fp8e4nv" => Scalar::F8E4M3,
        "fp8e5" => Scalar::F8E5M2,
        _ => panic!("a case has the type {name}"),
    };
    (scalar, name.starts_with('u'))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the files of the cases are.
pub fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("conformance")
}

/// Runs `compile.py`, which keeps what is fresh.
fn compile() -> Result<(), String> {
    let named = std::env::var_os("TILEWRIGHT_TRITON");
    let asked = named.is_some();
    let triton = named.map_or_else(|| root().join(".tools/triton"), PathBuf::from);
    if !triton.join("triton").is_dir() {
        let message =
            format!("no Triton at {}; `cargo xtask test` installs it, TILEWRIGHT_TRITON names it", triton.display());
        assert!(!asked, "{message}");
        return Err(message);
    }
    let run = Command::new("python3")
        .arg(root().join("tests/conformance/compile.py"))
        .arg(folder())
        .env("PYTHONPATH", &triton)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output();
    let output = match run {
        Ok(output) => output,
        Err(error) => {
            assert!(!asked, "python3: {error}");
            return Err(format!("python3 does not run: {error}"));
        }
    };
    assert!(output.status.success(), "Triton refuses a kernel:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Every case, or `None` where Triton is not there: then it says so.
pub fn all() -> Option<&'static [Case]> {
    static ALL: OnceLock<Option<Vec<Case>>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        if let Err(why) = compile() {
            println!("not run: {why}");
            return None;
        }
        let read = |name: &str| {
            let path = folder().join(format!("{name}.json"));
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let names: Vec<String> = serde_json::from_str(&read("names")).unwrap();
        Some(
            names
                .iter()
                .map(|name| serde_json::from_str(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}")))
                .collect(),
        )
    });
    if all.is_none() {
        println!("skipped: Triton is not there");
    }
    all.as_deref()
}
