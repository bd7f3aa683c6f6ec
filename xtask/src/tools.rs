//! Tools that the tests use: found, or installed into `.tools/` of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::root;

/// The wheel that holds `ptxas`.
const PTXAS_WHEEL: &str = "nvidia-cuda-nvcc==13.0.88";
const PTXAS_IN_WHEEL: &str = "nvidia/cu13/bin/ptxas";

/// `ptxas` if it is there: by `TILEWRIGHT_PTXAS`, under `.tools/`, or on the PATH.
pub fn ptxas_present() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("TILEWRIGHT_PTXAS") {
        return Some(PathBuf::from(named)).filter(|path| path.is_file());
    }
    let ours = root().join(".tools/nvcc").join(PTXAS_IN_WHEEL);
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>())
        .map(|folder| folder.join("ptxas"));
    std::iter::once(ours).chain(on_path).find(|path| path.is_file())
}

/// `ptxas`, installed if it is not there.
pub fn ptxas() -> Result<PathBuf> {
    if let Some(found) = ptxas_present() {
        return Ok(found);
    }
    // Another ptxas than the one asked for would be a surprise, and an installed one would not be looked at.
    if let Some(named) = std::env::var_os("TILEWRIGHT_PTXAS") {
        bail!("TILEWRIGHT_PTXAS = {} is no file: name a ptxas, or unset it to have one installed", named.display());
    }
    println!("ptxas is not here: installing {PTXAS_WHEEL} into .tools/");
    let python = python()?;
    let target = root().join(".tools/nvcc");
    // `--upgrade` replaces what an interrupted installation left.
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--upgrade", "--no-deps", "--target"])
        .arg(target)
        .arg(PTXAS_WHEEL))
    .with_context(|| format!("{PTXAS_WHEEL} cannot be installed"))?;
    ptxas_present().context("the wheel holds no ptxas")
}

/// Where Debian and Ubuntu, and LLVM's own packages, put the LLVM that feature `llvm` wants.
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";
/// LLVM's own packages, for where the distribution has none of this version.
const LLVM_PACKAGES: &str = "https://apt.llvm.org";

/// LLVM's prefix if it is there: by `LLVM_SYS_221_PREFIX`, or where the packages put it.
pub fn llvm_present() -> Option<PathBuf> {
    let prefix = std::env::var_os("LLVM_SYS_221_PREFIX").map_or_else(|| PathBuf::from(LLVM_PREFIX), PathBuf::from);
    Some(prefix).filter(|prefix| prefix.join("bin/llvm-config").is_file())
}

/// LLVM 22 with its headers, installed if it is not there.
pub fn llvm() -> Result<PathBuf> {
    if let Some(found) = llvm_present() {
        return Ok(found);
    }
    if let Some(named) = std::env::var_os("LLVM_SYS_221_PREFIX").filter(|named| named != LLVM_PREFIX) {
        bail!("LLVM_SYS_221_PREFIX = {} holds no LLVM: name its prefix, or unset it", named.display());
    }
    if apt(&["llvm-22-dev"]).is_err() {
        println!("the distribution has no llvm-22-dev: adding {LLVM_PACKAGES}");
        llvm_source()?;
        apt(&["llvm-22-dev"]).context("llvm-22-dev cannot be installed")?;
    }
    llvm_present().context("llvm-22-dev holds no llvm-config")
}

/// Adds LLVM's own packages to apt's sources.
fn llvm_source() -> Result<()> {
    let release = std::fs::read_to_string("/etc/os-release").context("this is neither Debian nor Ubuntu")?;
    let codename = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release names no VERSION_CODENAME")?
        .trim_matches('"');
    apt(&["curl", "ca-certificates"])?;
    let folder = root().join(".tools/apt");
    std::fs::create_dir_all(&folder)?;
    let (key, list) = (folder.join("llvm.asc"), folder.join("llvm.list"));
    run(Command::new("curl").arg("-fsSL").arg("-o").arg(&key).arg(format!("{LLVM_PACKAGES}/llvm-snapshot.gpg.key")))?;
    let installed_key = "/etc/apt/keyrings/llvm.asc";
    let source =
        format!("deb [signed-by={installed_key}] {LLVM_PACKAGES}/{codename}/ llvm-toolchain-{codename}-22 main\n");
    std::fs::write(&list, source)?;
    run(as_root("install").args(["-D", "-m", "644"]).arg(&key).arg(installed_key))?;
    run(as_root("install").args(["-D", "-m", "644"]).arg(&list).arg("/etc/apt/sources.list.d/llvm.list"))
}

/// Triton, whose compiler needs no GPU: what the tile compiler is held to.
const TRITON_WHEEL: &str = "triton==3.6.0";

/// The folder to import Triton from if it is there: by `TILEWRIGHT_TRITON`, or under `.tools/`.
pub fn triton_present() -> Option<PathBuf> {
    let named = std::env::var_os("TILEWRIGHT_TRITON").map(PathBuf::from);
    Some(named.unwrap_or_else(|| root().join(".tools/triton"))).filter(|folder| folder.join("triton").is_dir())
}

/// Triton, installed if it is not there.
pub fn triton() -> Result<PathBuf> {
    if let Some(found) = triton_present() {
        return Ok(found);
    }
    if let Some(named) = std::env::var_os("TILEWRIGHT_TRITON") {
        bail!(
            "TILEWRIGHT_TRITON = {} holds no triton: name such a folder, or unset it to have it installed",
            named.display()
        );
    }
    println!("Triton is not here: installing {TRITON_WHEEL} into .tools/");
    let target = root().join(".tools/triton");
    run(Command::new(python()?)
        .args(["-m", "pip", "install", "--quiet", "--upgrade", "--no-deps", "--target"])
        .arg(target)
        .arg(TRITON_WHEEL))
    .with_context(|| format!("{TRITON_WHEEL} cannot be installed"))?;
    triton_present().context("the wheel holds no triton")
}

/// A Python with pip: the system's, or one in a virtual environment of ours where the system's is closed to pip.
fn python() -> Result<PathBuf> {
    let in_venv = root().join(".tools/venv/bin/python3");
    if works(&in_venv) {
        return Ok(in_venv);
    }
    let system = PathBuf::from("python3");
    if !works(&system) || run(Command::new(&system).args(["-c", "import venv, ensurepip"])).is_err() {
        apt(&["python3", "python3-pip", "python3-venv"])?;
    }
    run(Command::new(&system).args(["-m", "venv"]).arg(root().join(".tools/venv")))
        .context("a virtual environment cannot be made")?;
    if works(&in_venv) { Ok(in_venv) } else { bail!("the virtual environment has no pip") }
}

fn works(python: &Path) -> bool {
    Command::new(python).args(["-m", "pip", "--version"]).output().is_ok_and(|run| run.status.success())
}

/// A command with root's rights, through sudo where we are not root.
fn as_root(program: &str) -> Command {
    let root = Command::new("id").arg("-u").output().is_ok_and(|run| run.stdout.trim_ascii() == b"0");
    if root {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    command.arg(program);
    command
}

/// Installs Debian packages.
fn apt(packages: &[&str]) -> Result<()> {
    println!("installing {} with apt-get", packages.join(", "));
    let command = || {
        let mut command = as_root("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    run(command().args(["update", "-qq"]))?;
    run(command().args(["install", "-y", "-qq"]).args(packages))
}

/// Runs a command to its end; its output is shown.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?} cannot be run"))?;
    if status.success() { Ok(()) } else { bail!("{command:?} failed: {status}") }
}
