//! Small PTX kernels with their inputs and expectations in the same file: `tests/emulate/*.ptx`.
//!
//! Comments at the head of a file say what it is run on:
//!
//! ```text
//! // launch: grid=2 block=64 shared=128      extents may have three parts (`4,2,1`); cluster=2; max_steps=N for the step limit;
//! //                                         fence_copies=true for the check of that name
//! // a: u32 iota 64                          a buffer parameter: iota, zeros, uninit and a count, or values
//! // x: f32 1.5 -0 nan inf 0x7f800001        values: decimal, or bits in hexadecimal
//! // n: value u32 7                          a scalar parameter
//! // expect a: u32 1 2 3                     the first values of a buffer afterwards; `nan` is any NaN, `*` anything
//! // fault: race 14 is wrote at line 12      instead: the kind, the line, and words of the message
//! // refused: not from 1 to 1024             instead: words of the error before anything runs
//! ```

#[path = "support/ptxas.rs"]
mod ptxas;

use std::fmt::Write;
use std::sync::Arc;

use tilewright::device::{self, Arg, Buffer, Device, SharedModule};
use tilewright::emulate::{Error, FaultKind, Kernel, LaunchConfig, Memory, Options, launch};
use tilewright::ptx::{Arch, DType, Extent, GridRule, KernelMeta, Module, ModuleMeta, ParamMeta};

struct Parameter {
    name: String,
    ty: String,
    /// The bits of the elements; `None` for memory that nothing writes.
    values: Vec<Option<u64>>,
    is_buffer: bool,
}

enum Expectation {
    Values { name: String, ty: String, values: Vec<String> },
    Fault { kind: FaultKind, line: usize, words: String },
    Refused(String),
}

fn bytes_of(ty: &str) -> usize {
    match ty {
        "u8" | "s8" => 1,
        "u16" | "s16" | "f16" => 2,
        "u32" | "s32" | "f32" => 4,
        "u64" | "s64" | "f64" => 8,
        other => panic!("unknown type {other}"),
    }
}

fn bits_of(ty: &str, text: &str) -> u64 {
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).unwrap_or_else(|_| panic!("{text} is no number"));
    }
    match ty {
        "f32" => text.parse::<f32>().unwrap_or_else(|_| panic!("{text} is no number")).to_bits().into(),
        "f64" => text.parse::<f64>().unwrap_or_else(|_| panic!("{text} is no number")).to_bits(),
        _ => {
            let value: i128 = text.parse().unwrap_or_else(|_| panic!("{text} is no number"));
            value as u64
        }
    }
}

fn is_nan(ty: &str, bits: u64) -> bool {
    match ty {
        "f32" => f32::from_bits(bits as u32).is_nan(),
        "f64" => f64::from_bits(bits).is_nan(),
        _ => false,
    }
}

fn extents(text: &str) -> [u32; 3] {
    let mut extents = [1; 3];
    for (extent, text) in extents.iter_mut().zip(text.split(',')) {
        *extent = text.parse().unwrap();
    }
    extents
}

fn kind_of(word: &str) -> FaultKind {
    match word {
        "bounds" => FaultKind::Bounds,
        "alignment" => FaultKind::Alignment,
        "race" => FaultKind::Race,
        "init" => FaultKind::Uninitialised,
        "sync" => FaultKind::Sync,
        "steps" => FaultKind::Steps,
        "trap" => FaultKind::Trap,
        other => panic!("unknown kind of fault {other}"),
    }
}

#[derive(Default)]
struct Case {
    config: LaunchConfig,
    max_steps: Option<u64>,
    fence_copies: bool,
    parameters: Vec<Parameter>,
    expectations: Vec<Expectation>,
}

fn read(source: &str) -> Case {
    let mut case = Case::default();
    for line in source.lines().take_while(|line| line.starts_with("//")) {
        let Some((head, tail)) = line[2..].trim().split_once(':') else { continue };
        let tail = tail.split("  ").next().unwrap_or_default().trim();
        let words: Vec<&str> = tail.split_whitespace().collect();
        match (head.trim(), words.as_slice()) {
            ("launch", words) => {
                for word in words {
                    match word.split_once('=').unwrap() {
                        ("grid", value) => case.config.grid = extents(value),
                        ("block", value) => case.config.block = extents(value),
                        ("cluster", value) => case.config.cluster = extents(value),
                        ("shared", value) => case.config.dynamic_shared = value.parse().unwrap(),
                        ("max_steps", value) => case.max_steps = Some(value.parse().unwrap()),
                        ("fence_copies", value) => case.fence_copies = value.parse().unwrap(),
                        (other, _) => panic!("unknown launch setting {other}"),
                    }
                }
            }
            ("fault", [kind, line, ..]) => {
                let words = words[2..].join(" ");
                case.expectations.push(Expectation::Fault { kind: kind_of(kind), line: line.parse().unwrap(), words });
            }
            ("refused", _) => case.expectations.push(Expectation::Refused(tail.to_owned())),
            (head, [ty, values @ ..]) if head.starts_with("expect ") => {
                let name = head["expect ".len()..].to_owned();
                let values = values.iter().map(|value| (*value).to_owned()).collect();
                case.expectations.push(Expectation::Values { name, ty: (*ty).to_owned(), values });
            }
            (name, ["value", ty, value]) => case.parameters.push(Parameter {
                name: name.to_owned(),
                ty: (*ty).to_owned(),
                values: vec![Some(bits_of(ty, value))],
                is_buffer: false,
            }),
            (name, [ty, values @ ..]) if !name.contains(' ') => {
                let values = match values {
                    ["iota", count] => (0..count.parse().unwrap()).map(Some).collect(),
                    ["zeros", count] => vec![Some(0); count.parse().unwrap()],
                    ["uninit", count] => vec![None; count.parse().unwrap()],
                    values => values.iter().map(|value| Some(bits_of(ty, value))).collect(),
                };
                case.parameters.push(Parameter {
                    name: name.to_owned(),
                    ty: (*ty).to_owned(),
                    values,
                    is_buffer: true,
                });
            }
            _ => {}
        }
    }
    case
}

/// Holds the first values of a buffer against those expected.
fn compare(name: &str, ty: &str, values: &[String], bytes: &[u8]) -> Result<(), String> {
    let size = bytes_of(ty);
    for (index, expected) in values.iter().enumerate().filter(|(_, expected)| *expected != "*") {
        let mut word = [0; 8];
        word[..size].copy_from_slice(&bytes[size * index..size * (index + 1)]);
        let found = u64::from_le_bytes(word);
        let wanted = bits_of(ty, expected) & (u64::MAX >> (64 - 8 * size));
        let both_nan = is_nan(ty, found) && is_nan(ty, wanted);
        if found != wanted && !both_nan {
            return Err(format!("{name}[{index}] is {found:#x}, expected {expected} ({wanted:#x})"));
        }
    }
    Ok(())
}

/// Runs a file that expects values on a card; false where it cannot be launched there as it is.
fn run_on_device(device: &Arc<dyn Device>, source: &str) -> Result<bool, String> {
    let case = read(source);
    let LaunchConfig { grid, block, cluster, dynamic_shared } = case.config;
    let runs = case.expectations.iter().all(|expectation| matches!(expectation, Expectation::Values { .. }))
        && !case.expectations.is_empty()
        && block[0].is_multiple_of(32)
        && (block[1], block[2], cluster) == (1, 1, [1; 3]);
    let program = tilewright::ptx::parse(source).map_err(|error| error.to_string())?;
    let arch = match program.target[0].as_str() {
        "sm_90" | "sm_90a" => Arch::Sm90a,
        "sm_100" | "sm_100a" => Arch::Sm100a,
        _ => Arch::Sm80,
    };
    if !runs || !device.properties().runs(arch) {
        return Ok(false);
    }
    let mut params = Vec::new();
    let mut buffers = Vec::new();
    for parameter in &case.parameters {
        let Parameter { name, ty, values, is_buffer } = parameter;
        let size = bytes_of(ty);
        if !is_buffer {
            let dtype = match ty.as_str() {
                "f32" => DType::Fp32,
                "f64" => DType::Fp64,
                _ if size == 8 => DType::I64,
                _ if size == 4 => DType::I32,
                _ => return Ok(false),
            };
            params.push(ParamMeta::scalar(name, dtype));
            continue;
        }
        params.push(ParamMeta { align: 1, ..ParamMeta::output(name, DType::U8) });
        let bytes: Vec<u8> =
            values.iter().flat_map(|value| value.unwrap_or(0).to_le_bytes()[..size].to_vec()).collect();
        let buffer = Buffer::from_slice(device, &bytes, name).map_err(|error| error.to_string())?;
        buffers.push((name.clone(), buffer));
    }
    let fixed = |extent: u32| Extent::Fixed(extent);
    let kernel = KernelMeta {
        name: program.entries().next().ok_or("no entry")?.name.clone(),
        params,
        grid: GridRule { x: fixed(grid[0]), y: fixed(grid[1]), z: fixed(grid[2]) },
        num_warps: block[0] / 32,
        num_ctas: 1,
        shared: dynamic_shared,
        static_shared: 0,
        tmem_size: 0,
        global_scratch_size: 0,
        global_scratch_align: 1,
        profile_scratch_size: 0,
        profile_scratch_align: 1,
        scratch_pointers: false,
    };
    let name = kernel.name.clone();
    let module = Module { ptx: source.to_owned(), meta: ModuleMeta { arch, kernels: vec![kernel] } };
    let loaded = device.load(&SharedModule::new(module)).map_err(|error| error.to_string())?;
    let kernel = loaded.kernel(&name).map_err(|error| error.to_string())?;
    let mut rest = buffers.iter_mut();
    let mut args: Vec<Arg> = Vec::new();
    for parameter in &case.parameters {
        let bits = parameter.values.first().copied().flatten().unwrap_or(0);
        args.push(match (parameter.is_buffer, parameter.ty.as_str(), bytes_of(&parameter.ty)) {
            (true, ..) => (&mut rest.next().ok_or("too few buffers")?.1).into(),
            (false, "f32", _) => f32::from_bits(bits as u32).into(),
            (false, "f64", _) => f64::from_bits(bits).into(),
            (false, _, 8) => (bits as i64).into(),
            _ => (bits as i32).into(),
        });
    }
    device.launch(&kernel, grid, &args).map_err(|error| error.to_string())?;
    drop(args);
    for expectation in &case.expectations {
        if let Expectation::Values { name, ty, values } = expectation {
            let (_, buffer) = buffers.iter().find(|(other, _)| other == name).ok_or("no such buffer")?;
            compare(name, ty, values, &buffer.to_vec().map_err(|error| error.to_string())?)?;
        }
    }
    Ok(true)
}

/// Runs one file; what is wrong with it.
fn run(source: &str) -> Result<(), String> {
    let case = read(source);
    let refused = case.expectations.iter().find_map(|expectation| match expectation {
        Expectation::Refused(words) => Some(words),
        _ => None,
    });
    let kernel = match (Kernel::new(source, None), refused) {
        (Ok(kernel), _) => kernel,
        (Err(error), Some(words)) if error.to_string().contains(words.as_str()) => return Ok(()),
        (Err(error), _) => return Err(error.to_string()),
    };
    let memory = Memory::new();
    let mut params: Vec<u8> = Vec::new();
    let mut addresses = Vec::new();
    for parameter in &case.parameters {
        let size = bytes_of(&parameter.ty);
        let (bits, width) = if parameter.is_buffer {
            let length = (size * parameter.values.len()) as u64;
            let address = memory.alloc(length, &parameter.name).map_err(|error| error.to_string())?;
            for (index, value) in parameter.values.iter().enumerate() {
                if let Some(value) = value {
                    memory
                        .write(address + (size * index) as u64, &value.to_le_bytes()[..size])
                        .map_err(|error| error.to_string())?;
                }
            }
            addresses.push((parameter.name.clone(), address));
            (address, 8)
        } else {
            (parameter.values[0].unwrap_or_default(), size)
        };
        params.resize(params.len().next_multiple_of(width), 0);
        params.extend(&bits.to_le_bytes()[..width]);
    }
    let mut options = Options { max_steps: Some(case.max_steps.unwrap_or(1_000_000)), ..Options::default() };
    options.checks.fence_copies = case.fence_copies;
    let result = launch(&kernel, &case.config, &params, &memory, &options);
    for expectation in &case.expectations {
        match (expectation, &result) {
            (Expectation::Fault { kind, line, words }, Err(Error::Fault(fault))) => {
                if (fault.kind, fault.line) != (*kind, *line) || !fault.to_string().contains(words.as_str()) {
                    return Err(format!("expected {kind:?} at line {line} with `{words}`, got: {fault}"));
                }
                return Ok(());
            }
            (Expectation::Refused(words), Err(error)) if error.to_string().contains(words.as_str()) => return Ok(()),
            (Expectation::Fault { .. } | Expectation::Refused(_), Ok(_)) => {
                return Err("expected a fault, and it ran clean".to_owned());
            }
            (_, Err(error)) => return Err(error.to_string()),
            (Expectation::Values { name, ty, values }, Ok(_)) => {
                let (_, address) = addresses.iter().find(|(other, _)| other == name).ok_or("no such buffer")?;
                let mut bytes = vec![0; bytes_of(ty) * values.len()];
                memory.read(*address, &mut bytes).map_err(|error| error.to_string())?;
                compare(name, ty, values, &bytes)?;
            }
        }
    }
    if case.expectations.is_empty() {
        return result.map(|_| ()).map_err(|error| error.to_string());
    }
    Ok(())
}

/// The files, by name.
fn files() -> Vec<(String, String)> {
    // A binary that has been carried elsewhere looks where it is.
    let folder = [concat!(env!("CARGO_MANIFEST_DIR"), "/tests/emulate"), "tests/emulate"]
        .into_iter()
        .find(|folder| std::path::Path::new(folder).is_dir())
        .unwrap();
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "ptx"))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(&path).unwrap()))
        .collect();
    files.sort();
    assert!(files.len() > 40, "only {} files", files.len());
    files
}

#[test]
fn every_file_does_as_it_says() {
    let files = files();
    let mut failures = String::new();
    for (name, source) in &files {
        if let Err(fault) = run(source) {
            let _ = writeln!(failures, "{name}: {fault}");
        }
    }
    assert!(failures.is_empty(), "of {} files:\n{failures}", files.len());
}

/// What the emulator is held to, a card gives too: the files that expect values, where `TILEWRIGHT_DEVICE=gpu`.
#[test]
fn a_device_gives_the_same_values() {
    if std::env::var(device::ENVIRONMENT).as_deref() != Ok("gpu") {
        println!("skipped: not asked for a GPU with {}=gpu", device::ENVIRONMENT);
        return;
    }
    let (device, _) = device::by_name("gpu").unwrap_or_else(|error| panic!("{error}"));
    let (mut ran, mut failures) = (0, String::new());
    for (name, source) in files() {
        match run_on_device(&device, &source) {
            Ok(launched) => ran += usize::from(launched),
            Err(fault) => {
                let _ = writeln!(failures, "{name}: {fault}");
            }
        }
    }
    println!("{ran} files ran on {}", device.properties().name);
    assert!(failures.is_empty() && ran > 0, "{failures}");
}

/// The files are PTX and not only what the emulator takes for it: `ptxas`, where it is, takes those that run clean.
#[test]
fn ptxas_takes_the_files() {
    let Some(ptxas) = ptxas::ptxas() else { return };
    // One text for each version and target, with entries of many names: a call of ptxas costs more than a kernel.
    let mut texts = indexmap::IndexMap::<String, String>::new();
    for (number, (_, source)) in files().iter().enumerate() {
        if source.contains("// fault:") || source.contains("// refused:") {
            continue;
        }
        let size = source.find(".address_size").expect("every file says it");
        let head = source.find(".version").map(|from| source[from..size].to_owned()).expect("every file has one");
        let (_, body) = source[size..].split_once('\n').expect("a kernel follows");
        let text = texts.entry(head).or_insert_with_key(|head| format!("{head}.address_size 64\n"));
        text.push_str(&body.replace(".entry k(", &format!(".entry k{number}(")));
    }
    let folder = tempfile::tempdir().unwrap();
    for (head, text) in &texts {
        let target = head.split(".target").nth(1).unwrap().trim();
        let file = folder.path().join("files.ptx");
        std::fs::write(&file, text).unwrap();
        let run = std::process::Command::new(&ptxas)
            .args(["-O0", &format!("-arch={target}"), "-o"])
            .arg(folder.path().join("out.cubin"))
            .arg(&file)
            .output()
            .unwrap();
        assert!(run.status.success(), "{target}: {}", String::from_utf8_lossy(&run.stderr));
    }
}
