//! `ptxas` over everything under `generated/`, and the table of what each kernel takes.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use indexmap::IndexMap;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use tilewright::generate::{Error, Manifest, emit, kernels};
use tilewright::template::ParamError;

use crate::{files, root, tools};

/// The table's name under `generated/`.
pub const TABLE: &str = "resources.md";

/// What `ptxas -v` says of one kernel.
struct Resources {
    target: String,
    /// The file's name without its extension.
    kernel: String,
    registers: u32,
    barriers: u32,
    stack: u32,
    spills: u32,
}

/// Assembles every file of `generated/` and writes the table; with `check`, compares it.
pub fn run(check: bool) -> Result<()> {
    let ptxas = tools::ptxas()?;
    let folder = root().join("generated");
    let paths: Vec<PathBuf> =
        files::list(&folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "ptx")).collect();
    let manifest = fs::read_to_string(folder.join("manifest.json")).context("generated/manifest.json")?;
    let manifest: Manifest = serde_json::from_str(&manifest)?;
    let resources = assemble_all(&ptxas, &paths)?;
    // A template that spills is wrong. What the tile compiler makes of a program with much live state may: the table says how much.
    let compiled = |kernel: &&Resources| {
        let file = format!("{}/{}.ptx", kernel.target, kernel.kernel);
        !manifest.kernels.iter().any(|entry| entry.compiled && entry.file == file)
    };
    refuse_spills(resources.iter().filter(compiled))?;
    let table = table(&ptxas, &resources, &manifest)?;
    let path = folder.join(TABLE);
    let fresh = fs::read_to_string(&path).is_ok_and(|old| old == table);
    if check && !fresh {
        bail!("generated/{TABLE} is not fresh; `cargo xtask assemble` writes it anew");
    }
    if !fresh {
        files::write(&path, &table)?;
    }
    let spilling = resources.iter().filter(|kernel| kernel.spills > 0).count();
    println!("ptxas takes all {} kernels of generated/; {spilling} of the compiled ones spill", resources.len());
    Ok(())
}

/// Assembles every order of every kernel with every other setting, for every target.
pub fn every() -> Result<()> {
    let ptxas = tools::ptxas()?;
    let folder = tempfile::tempdir()?;
    let mut paths = Vec::new();
    for info in kernels() {
        // All combinations of the settings' values.
        let mut choices: Vec<IndexMap<String, String>> = vec![IndexMap::new()];
        for setting in info.settings {
            let values = setting.allowed.values();
            choices = choices
                .iter()
                .flat_map(|choice| {
                    values.iter().map(|value| {
                        let mut choice = choice.clone();
                        choice.insert(setting.name.to_owned(), setting.value(*value).to_string());
                        choice
                    })
                })
                .collect();
        }
        for (arch, choice) in info.targets.iter().flat_map(|arch| choices.iter().map(move |choice| (*arch, choice))) {
            let module = match emit(info.name, choice, arch) {
                // Each value is allowed, but not these together.
                Err(Error::Param(ParamError::Shared { .. } | ParamError::Value { .. })) => continue,
                made => made?,
            };
            let path = folder.path().join(arch.name()).join(format!("{}.ptx", module.meta.kernels[0].name));
            files::write(&path, &module.ptx)?;
            paths.push(path);
        }
    }
    println!("{} specialisations", paths.len());
    let resources = assemble_all(&ptxas, &paths)?;
    refuse_spills(resources.iter())?;
    println!("ptxas takes all {} of them, with no spills", resources.len());
    Ok(())
}

/// What each file takes; a refusal is an error.
fn assemble_all(ptxas: &Path, paths: &[PathBuf]) -> Result<Vec<Resources>> {
    let bar = ProgressBar::with_draw_target(Some(paths.len() as u64), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("ptxas {bar:40} {pos}/{len}")?);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build()?;
    let resources: Vec<Resources> = pool.install(|| {
        paths
            .par_iter()
            .map(|path| {
                let result = assemble(ptxas, path);
                bar.inc(1);
                result
            })
            .collect::<Result<_>>()
    })?;
    bar.finish_and_clear();
    Ok(resources)
}

fn refuse_spills<'a>(resources: impl Iterator<Item = &'a Resources>) -> Result<()> {
    let spilling: Vec<String> = resources
        .filter(|kernel| kernel.spills > 0 || kernel.stack > 0)
        .map(|kernel| format!("{} for {}: {} bytes", kernel.kernel, kernel.target, kernel.spills.max(kernel.stack)))
        .collect();
    if !spilling.is_empty() {
        bail!("kernels spill registers:\n  {}", spilling.join("\n  "));
    }
    Ok(())
}

fn assemble(ptxas: &Path, path: &Path) -> Result<Resources> {
    let name = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let target = name(path.parent().and_then(Path::file_name));
    let output = tempfile::NamedTempFile::new()?;
    let run = Command::new(ptxas)
        .args(["-v", "-arch", &target, "-o"])
        .arg(output.path())
        .arg(path)
        .output()
        .with_context(|| format!("{} cannot be run", ptxas.display()))?;
    let log = String::from_utf8_lossy(&run.stderr).into_owned() + &String::from_utf8_lossy(&run.stdout);
    if !run.status.success() {
        bail!("ptxas refuses {} for {target}:\n{log}", path.display());
    }
    let before = |words: &str| -> Result<u32> {
        let at = log.find(words).with_context(|| format!("ptxas -v says nothing of `{}`:\n{log}", words.trim()))?;
        let number = log[..at].rsplit(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
        number.parse().with_context(|| format!("no number before `{}`", words.trim()))
    };
    let barriers = log
        .split("used ")
        .skip(1)
        .find_map(|rest| rest.split_once(" barriers").and_then(|(number, _)| number.parse().ok()))
        .unwrap_or(0);
    Ok(Resources {
        kernel: name(path.file_stem()),
        registers: before(" registers")?,
        stack: before(" bytes stack frame")?,
        spills: before(" bytes spill stores")? + before(" bytes spill loads")?,
        target,
        barriers,
    })
}

fn table(ptxas: &Path, resources: &[Resources], manifest: &Manifest) -> Result<String> {
    let version = Command::new(ptxas).arg("--version").output()?;
    let version = String::from_utf8_lossy(&version.stdout);
    let version = version.lines().find(|line| line.contains("release")).unwrap_or("an unknown ptxas").trim();
    let mut text = format!(
        "# Resources\n\nWhat `ptxas -v` says of every kernel here ({version}); `cargo xtask assemble` writes it. Warps are those \
         that registers and\nshared memory let one multiprocessor of the target hold.\n\n\
         | kernel | target | instructions | registers | shared bytes | barriers | spills | warps |\n|---|---|---|---|---|---|---|---|\n"
    );
    for entry in &manifest.kernels {
        let meta = entry.meta.kernels.first().context("a module without a kernel")?;
        let found = resources
            .iter()
            .find(|kernel| format!("{}/{}.ptx", kernel.target, kernel.kernel) == entry.file)
            .with_context(|| format!("{} was not assembled", entry.file))?;
        let source = fs::read_to_string(root().join("generated").join(&entry.file))?;
        let statistics = tilewright::ptx::Statistics::of(&tilewright::ptx::parse(&source)?);
        let shared = meta.shared + meta.static_shared;
        let warps = resident_warps(found.registers, shared, meta.num_warps, entry.meta.arch.max_shared_bytes());
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            found.kernel,
            found.target,
            statistics.first().map_or(0, |entry| entry.instructions),
            found.registers,
            shared,
            found.barriers,
            found.spills,
            warps
        )?;
    }
    Ok(text)
}

/// Warps that one multiprocessor holds: 64 Ki registers given out by eights a thread, shared memory with 1 KiB a CTA on
/// top, 64 warps and 32 CTAs at most.
fn resident_warps(registers: u32, shared: u32, warps: u32, shared_limit: u32) -> u32 {
    let by_registers = 65536 / (registers.next_multiple_of(8).max(8) * 32 * warps);
    let by_shared = (shared_limit + 1024) / (shared + 1024);
    by_registers.min(by_shared).min(64 / warps).min(32) * warps
}
