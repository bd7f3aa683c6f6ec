//! Real PTX that Triton made (sm_90 and sm_100, tensor cores, asynchronous copies): read, printed, read again, assembled.
//!
//! The files are found through `TILEWRIGHT_TRITON_CORPUS`, or at `../shared/triton/dumps` beside the repository; `ptxas`
//! through `TILEWRIGHT_PTXAS`, or where `cargo xtask` puts it. What is missing is said, and its part left out.

use std::path::{Path, PathBuf};
use std::process::Command;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use tilewright::generate::standard;
use tilewright::ptx::{Arch, Statistics, parse, print};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn corpus() -> Vec<PathBuf> {
    let folder = std::env::var_os("TILEWRIGHT_TRITON_CORPUS")
        .map_or_else(|| root().join("../shared/triton/dumps"), PathBuf::from);
    let list = |folder: &Path| -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let files: Vec<PathBuf> = list(&folder)
        .iter()
        .flat_map(|arch| list(arch))
        .map(|kernel| kernel.join("kernel.ptx"))
        .filter(|path| path.is_file())
        .collect();
    if files.is_empty() {
        println!("skipped: no Triton PTX at {}; set TILEWRIGHT_TRITON_CORPUS", folder.display());
    }
    files
}

fn ptxas() -> Option<PathBuf> {
    let named = std::env::var_os("TILEWRIGHT_PTXAS").map(PathBuf::from);
    let found = named.or_else(|| Some(root().join(".tools/nvcc/nvidia/cu13/bin/ptxas"))).filter(|path| path.is_file());
    if found.is_none() {
        println!("skipped: no ptxas; `cargo xtask test` installs it, or set TILEWRIGHT_PTXAS");
    }
    found
}

#[test]
fn every_file_reads_and_prints_back() {
    for path in corpus() {
        let text = std::fs::read_to_string(&path).unwrap();
        let program = parse(&text).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
        let printed = print(&program);
        let again = parse(&printed).unwrap_or_else(|fault| panic!("{} printed: {fault}", path.display()));
        assert_eq!(print(&again), printed, "{}", path.display());
        // Each instruction of these files stands on a line of its own and ends it.
        let statements = text
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default().trim())
            .filter(|line| line.ends_with(';') && !line.starts_with('.'))
            .count();
        let counted: u64 = Statistics::of(&program).iter().map(|entry| entry.instructions).sum();
        assert_eq!(counted, statements as u64, "{}", path.display());
    }
}

/// The machine code of `text`, as `ptxas` makes it. The name of the file is in the output, so it is always the same.
fn assemble(ptxas: &Path, target: &str, text: &str) -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    std::fs::write(folder.path().join("kernel.ptx"), text).map_err(|error| error.to_string())?;
    let run = Command::new(ptxas)
        .args(["-arch", target, "kernel.ptx", "-o", "kernel.cubin"])
        .current_dir(folder.path())
        .output()
        .map_err(|error| error.to_string())?;
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into_owned());
    }
    std::fs::read(folder.path().join("kernel.cubin")).map_err(|error| error.to_string())
}

fn same_machine_code(ptxas: &Path, target: &str, text: &str) -> Result<(), String> {
    let printed = print(&parse(text).map_err(|fault| fault.to_string())?);
    // ptxas 13.0 gives now one, now another machine code for the same file where it allocates tensor memory (sm_100a): then
    // one that both texts give is looked for.
    let (mut originals, mut normals) = (Vec::new(), Vec::new());
    for _ in 0..24 {
        originals.push(assemble(ptxas, target, text)?);
        normals.push(assemble(ptxas, target, &printed)?);
        if originals.iter().any(|original| normals.contains(original)) {
            return Ok(());
        }
    }
    Err("the machine code differs".to_owned())
}

#[test]
fn the_normal_form_assembles_to_the_same_machine_code() {
    let Some(ptxas) = ptxas() else { return };
    let faults: Vec<String> = corpus()
        .par_iter()
        .filter_map(|path| {
            let text = std::fs::read_to_string(path).ok()?;
            let target = parse(&text).ok()?.target[0].clone();
            same_machine_code(&ptxas, &target, &text).err().map(|fault| format!("{}: {fault}", path.display()))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_normal_form_of_our_own_kernels_assembles_to_the_same_machine_code() {
    let Some(ptxas) = ptxas() else { return };
    let faults: Vec<String> = standard()
        .par_iter()
        .filter_map(|specialisation| {
            let module = specialisation.instantiate(Arch::Sm90a).ok()?;
            let name = &module.meta.kernels[0].name;
            same_machine_code(&ptxas, "sm_90a", &module.ptx).err().map(|fault| format!("{name}: {fault}"))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
