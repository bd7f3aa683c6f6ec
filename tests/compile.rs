//! The tile compiler over Triton's kernels: what a launcher sees of ours is what it sees of Triton's, `ptxas` takes all of them,
//! and the same function gives the same bytes. What they compute is tested in `triton_dumps`.
#![cfg(feature = "llvm")]

#[path = "support/corpus.rs"]
mod corpus;
#[path = "support/ptxas.rs"]
mod ptxas;

use std::path::{Path, PathBuf};
use std::process::Command;

use rayon::prelude::*;
use serde_json::Value;
use tilewright::compile::{Compiled, Error, Options, compile};
use tilewright::ptx::{Arch, parse};
use tilewright::ttir;

/// A kernel of the corpus as Triton compiled it for one target.
#[derive(Clone)]
struct Dump {
    /// `sm_90/trailing_nb@tf32_n1024`.
    name: String,
    ttir: String,
    ptx: String,
    meta: Value,
}

impl Dump {
    fn read(path: &Path) -> Self {
        let folder = path.parent().unwrap();
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let names: Vec<_> = folder.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
        Self {
            name: format!("{}/{}", names[1], names[0]),
            ttir: text("kernel.ttir"),
            ptx: text("kernel.ptx"),
            meta: serde_json::from_str(&text("kernel.json")).unwrap(),
        }
    }

    /// Ours for the same target, with the same options.
    fn options(&self) -> Options {
        let number = |key: &str| u32::try_from(self.meta[key].as_u64().unwrap()).unwrap();
        let arch = match self.meta["arch"].as_str().unwrap() {
            "sm90" => Arch::Sm90a,
            "sm100" => Arch::Sm100a,
            other => panic!("no target of ours: {other}"),
        };
        Options { num_warps: number("num_warps"), num_stages: number("num_stages"), ..Options::new(arch) }
    }

    fn compile(&self, options: &Options) -> Result<Compiled, Error> {
        let program = ttir::read(&self.ttir).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        compile(program.kernels().next().unwrap(), options)
    }

    fn ours(&self, options: &Options) -> Compiled {
        self.compile(options).unwrap_or_else(|error| panic!("{} for {}: {error}", self.name, options.arch))
    }
}

/// The 80 kernels, or none where there is no corpus.
fn dumps() -> Vec<Dump> {
    let Some(root) = corpus::triton() else { return Vec::new() };
    let files: Vec<PathBuf> = corpus::files(&root, "ttir");
    assert_eq!(files.len(), 80, "the corpus at {} is not whole", root.display());
    files.iter().map(|path| Dump::read(path)).collect()
}

/// An entry's name, its parameters in order, its directives.
type Interface = (String, Vec<String>, Vec<(String, Vec<u32>)>);

/// What a launcher sees of an entry.
fn interface(source: &str) -> Interface {
    let program = parse(source).unwrap();
    let entries: Vec<_> = program.entries().collect();
    let [entry] = &entries[..] else { panic!("{} entries", entries.len()) };
    let text = |param: &tilewright::ptx::model::Variable| {
        let (from, to) = (param.span.start as usize, param.span.end as usize);
        source[from..to].split_whitespace().collect::<Vec<_>>().join(" ")
    };
    (entry.name.clone(), entry.params.iter().map(text).collect(), entry.directives.clone())
}

#[test]
fn a_launcher_sees_what_it_sees_of_triton() {
    dumps().par_iter().for_each(|dump| {
        let made = dump.ours(&dump.options());
        let ours = interface(&made.ptx);
        assert_eq!(ours, interface(&dump.ptx), "{}", dump.name);
        assert_eq!(made.meta.name, ours.0);
        assert_eq!(made.meta.params.len() + 2, ours.1.len(), "the two scratch pointers are not the caller's");
        assert!(made.meta.params.iter().any(|param| param.pointer && !param.constant), "{} writes nothing", dump.name);
    });
}

/// The arguments that Triton specialised a kernel for are what ours relies on.
#[test]
fn what_is_relied_on_is_what_triton_was_told() {
    for dump in dumps() {
        let meta = dump.ours(&dump.options()).meta;
        for param in &meta.params {
            let said = dump.meta["_args"][param.name.as_str()].as_str().unwrap_or_else(|| panic!("{}", param.name));
            let relied = if param.pointer { param.align == 16 } else { param.divisible == 16 };
            assert_eq!(relied, said.starts_with('*') || said.ends_with(":16"), "{}: {} {said}", dump.name, param.name);
        }
    }
}

#[test]
fn the_metadata_has_the_keys_and_the_values_of_triton() {
    // What our compiler decides itself, and what `compile.py` of the corpus adds.
    let own = ["shared", "tmem_size"];
    let added = |key: &str| key.starts_with('_') || key.starts_with("TRITON_");
    for dump in dumps() {
        let made = dump.ours(&dump.options());
        let ours = serde_json::to_value(made.triton_meta()).unwrap();
        let (ours, theirs) = (ours.as_object().unwrap(), dump.meta.as_object().unwrap());
        for (key, value) in theirs.iter().filter(|(key, _)| !added(key)) {
            let found = ours.get(key).unwrap_or_else(|| panic!("{}: no key `{key}`", dump.name));
            assert!(own.contains(&key.as_str()) || found == value, "{}: {key} is {found}, not {value}", dump.name);
        }
        let more: Vec<_> = ours.keys().filter(|key| !theirs.contains_key(*key)).collect();
        assert_eq!(more, ["hash", "cluster_dims", "extern_libs"], "{}", dump.name);
        assert_eq!(made.triton_meta().hash.len(), 64);
    }
}

#[test]
fn the_same_function_gives_the_same_bytes() {
    let mut hashes = std::collections::HashSet::new();
    for dump in dumps() {
        let options = dump.options();
        let (once, again) = (dump.ours(&options), dump.ours(&options));
        assert!(once == again, "{}: two texts of one function", dump.name);
        assert_eq!(once.triton_meta().hash, again.triton_meta().hash);
        hashes.insert((once.triton_meta().hash, once.ptx));
        let other = Options { num_stages: options.num_stages + 1, ..options };
        assert_ne!(dump.ours(&other).triton_meta().hash, again.triton_meta().hash, "{}", dump.name);
    }
    let texts: std::collections::HashSet<_> = hashes.iter().map(|(_, ptx)| ptx).collect();
    assert_eq!(hashes.len(), texts.len(), "one hash for each text");
}

/// Registers of a thread and bytes that it spills, as `ptxas -v` says.
#[derive(Clone, Copy, Debug)]
struct Resources {
    registers: u32,
    spilled: u32,
}

fn assemble(ptxas: &Path, target: &str, text: &str) -> Result<Resources, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kernel.ptx");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(ptxas);
    command.args(["-v", &format!("-arch={target}"), "-o"]).arg(folder.path().join("kernel.cubin")).arg(&file);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(said);
    }
    let before = |what: &str| {
        let words = said.split(what).next().and_then(|text| text.split_whitespace().last());
        words.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no `{what}` in: {said}"))
    };
    Ok(Resources { registers: before(" registers"), spilled: before(" bytes spill stores") })
}

/// Every kernel for every target is code that NVIDIA's assembler takes; what it costs stands beside Triton's own.
#[test]
fn ptxas_takes_every_kernel_for_every_target() {
    let Some(ptxas) = ptxas::ptxas() else { return };
    // Triton's IR of a kernel is the same for every target: the other half of the corpus gives no new text for sm_80.
    let jobs: Vec<(Dump, Arch)> = dumps()
        .into_iter()
        .flat_map(|dump| {
            let older = (dump.options().arch == Arch::Sm90a).then(|| (dump.clone(), Arch::Sm80));
            let own = dump.options().arch;
            older.into_iter().chain([(dump, own)])
        })
        .collect();
    let rows: Vec<Result<String, String>> = jobs
        .par_iter()
        .map(|(dump, arch)| {
            let kernel = dump.name.split('/').next_back().unwrap();
            let made = match dump.compile(&Options { arch: *arch, ..dump.options() }) {
                Ok(made) => made,
                // Ampere has no FP8.
                Err(Error::Unsupported { what, .. }) if *arch == Arch::Sm80 && dump.ttir.contains("f8E4M3FN") => {
                    return Ok(format!("{kernel:<48} {arch:<8} none: {what}"));
                }
                Err(error) => return Err(format!("{kernel} for {arch}: {error}")),
            };
            let ours =
                assemble(&ptxas, arch.name(), &made.ptx).map_err(|said| format!("{kernel} for {arch}: {said}"))?;
            let mut row =
                format!("{kernel:<48} {arch:<8} {:>4} {:>6} {:>7}", ours.registers, ours.spilled, made.meta.shared);
            if *arch == dump.options().arch {
                let theirs = assemble(&ptxas, arch.name(), &dump.ptx)?;
                row += &format!("   {:>4} {:>6} {:>7}", theirs.registers, theirs.spilled, dump.meta["shared"]);
            }
            Ok(row)
        })
        .collect();
    println!("{:<48} {:<8} ours: registers, bytes spilled, shared bytes; then Triton's", "kernel", "target");
    let mut faults = Vec::new();
    for row in rows {
        match row {
            Ok(row) => println!("{row}"),
            Err(fault) => faults.push(fault),
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
