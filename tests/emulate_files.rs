//! Small PTX kernels with their inputs and expectations in the same file: `tests/emulate/*.ptx`.
//!
//! Comments at the head of a file say what it is run on:
//!
//! ```text
//! // launch: grid=2 block=64 shared=128      extents may have three parts (`4,2,1`); cluster=2, and max_steps=N for the step limit
//! // a: u32 iota 64                          a buffer parameter: iota, zeros, uninit and a count, or values
//! // x: f32 1.5 -0 nan inf 0x7f800001        values: decimal, or bits in hexadecimal
//! // n: value u32 7                          a scalar parameter
//! // expect a: u32 1 2 3                     the first values of a buffer afterwards; `nan` is any NaN, `*` anything
//! // fault: race 14 is wrote at line 12      instead: the kind, the line, and words of the message
//! // refused: not from 1 to 1024             instead: words of the error before anything runs
//! ```

use std::fmt::Write;

use tilewright::emulate::{Error, FaultKind, Kernel, LaunchConfig, Memory, Options, launch};

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
    let options = Options { max_steps: Some(case.max_steps.unwrap_or(1_000_000)), ..Options::default() };
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
                let size = bytes_of(ty);
                for (index, expected) in values.iter().enumerate().filter(|(_, expected)| *expected != "*") {
                    let mut bytes = [0; 8];
                    memory
                        .read(address + (size * index) as u64, &mut bytes[..size])
                        .map_err(|error| error.to_string())?;
                    let found = u64::from_le_bytes(bytes);
                    let wanted = bits_of(ty, expected) & (u64::MAX >> (64 - 8 * size));
                    let both_nan = is_nan(ty, found) && is_nan(ty, wanted);
                    if found != wanted && !both_nan {
                        return Err(format!("{name}[{index}] is {found:#x}, expected {expected} ({wanted:#x})"));
                    }
                }
            }
        }
    }
    if case.expectations.is_empty() {
        return result.map(|_| ()).map_err(|error| error.to_string());
    }
    Ok(())
}

#[test]
fn every_file_does_as_it_says() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/emulate");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "ptx"))
        .collect();
    paths.sort();
    assert!(paths.len() > 40, "only {} files", paths.len());
    let mut failures = String::new();
    for path in &paths {
        let source = std::fs::read_to_string(path).unwrap();
        if let Err(fault) = run(&source) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let _ = writeln!(failures, "{name}: {fault}");
        }
    }
    assert!(failures.is_empty(), "of {} files:\n{failures}", paths.len());
}
