//! Runs a case: Triton's PTX and ours.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rayon::prelude::*;
use tilewright::compile::{Options as CompileOptions, compile};
use tilewright::emulate::{Kernel, LaunchConfig, Memory, Options, launch};
use tilewright::ptx::Arch;
use tilewright::tile::{float_bits, int_bits};

use crate::cases::{self, Arg, Case};
use crate::inputs;
use crate::rules::{show, word};

/// What is in each buffer after the launch.
fn execute(case: &Case, ptx: &str, shared: u32, options: &Options) -> Result<Vec<Vec<u8>>, String> {
    let kernel = Kernel::new(ptx, None).map_err(|error| error.to_string())?;
    let memory = Memory::new();
    let (mut params, mut buffers) = (Vec::new(), Vec::new());
    for (place, arg) in case.args.iter().enumerate() {
        let bytes = match arg {
            Arg::Number { scalar, value } => {
                let (scalar, _) = cases::scalar(scalar);
                let bits = float_bits(scalar, *value).unwrap_or_else(|| int_bits(scalar, *value as i64));
                bits.to_le_bytes()[..scalar.bytes() as usize].to_vec()
            }
            Arg::Buffer { buffer, count, fill, .. } => {
                let (scalar, _) = cases::scalar(buffer);
                let data = inputs::fill(fill, scalar, *count, case.seed + place as u64);
                let address = memory.alloc(data.len() as u64, &format!("argument {place}")).unwrap();
                memory.write(address, &data).unwrap();
                buffers.push((address, data.len()));
                address.to_le_bytes().to_vec()
            }
        };
        params.resize(params.len().next_multiple_of(bytes.len()), 0);
        params.extend(bytes);
    }
    // Triton's two scratch pointers, null.
    params.resize(params.len().next_multiple_of(8) + 16, 0);
    let block = kernel.required_block().ok_or("no .reqntid")?;
    let config = LaunchConfig { grid: case.grid, block, dynamic_shared: shared, ..LaunchConfig::default() };
    launch(&kernel, &config, &params, &memory, options).map_err(|error| error.to_string())?;
    let read = |&(address, bytes): &(u64, usize)| {
        let mut data = vec![0; bytes];
        memory.read(address, &mut data).unwrap();
        data
    };
    Ok(buffers.iter().map(read).collect())
}

/// Our PTX of the case's `.ttir`.
fn ours(case: &Case, arch: Arch) -> Result<(String, u32), String> {
    let text = std::fs::read_to_string(cases::folder().join(format!("{}.ttir", case.name))).unwrap();
    let program = tilewright::ttir::read(&text).map_err(|error| format!("not read: {error}"))?;
    let options = CompileOptions { num_warps: case.num_warps, ..CompileOptions::new(arch) };
    let name = &program.kernels().next().ok_or("no kernel")?.name;
    let kernel = program.inlined(name).map_err(|error| format!("not inlined: {error}"))?;
    let made = compile(&kernel, &options).map_err(|error| format!("not compiled: {error}"))?;
    if std::env::var_os("TILEWRIGHT_KEEP_PTX").is_some() {
        std::fs::write(cases::folder().join(format!("{}.ours.ptx", case.name)), &made.ptx).unwrap();
    }
    Ok((made.ptx, made.meta.shared))
}

/// The elements at `index` of the inputs of which there are several, which is what an elementwise kernel made its output of.
fn operands(case: &Case, inputs: &[Vec<u8>], index: usize) -> String {
    let buffers = case.args.iter().filter(|arg| matches!(arg, Arg::Buffer { .. }));
    let shown: Vec<String> = buffers
        .zip(inputs)
        .filter_map(|(arg, data)| {
            let Arg::Buffer { buffer, rule: None, .. } = arg else { return None };
            let (scalar, _) = cases::scalar(buffer);
            data.chunks(scalar.bytes() as usize).nth(index).map(|element| show(scalar, word(element)))
        })
        .collect();
    if shown.is_empty() { String::new() } else { format!("; [{index}] of the inputs: {}", shown.join(", ")) }
}

/// What the case is compiled for: Hopper always; the others for one case in eight, or for all of them where `TILEWRIGHT_ARCHS=all`.
fn archs(case: &Case) -> Vec<Arch> {
    let all = std::env::var("TILEWRIGHT_ARCHS").is_ok_and(|archs| archs == "all");
    // The seed is the name's checksum.
    let sampled = all || case.seed.is_multiple_of(8);
    Arch::ALL.into_iter().filter(|&arch| sampled || arch == Arch::Sm90a).collect()
}

fn run(case: &Case) -> Result<(), String> {
    // What is refused is so before anything runs.
    let made = archs(case)
        .into_iter()
        .map(|arch| ours(case, arch).map(|made| (arch, made)).map_err(|error| format!("{}: {error}", arch.name())))
        .collect::<Result<Vec<_>, _>>()?;
    let text = std::fs::read_to_string(cases::folder().join(format!("{}.ptx", case.name))).unwrap();
    // Triton's own PTX packs halves and bytes of which some are undefined, and has lanes that hold the same write the same word at once: where a check
    // says so it runs without checks.
    let expected = execute(case, &text, case.shared, &Options::default())
        .or_else(|_| execute(case, &text, case.shared, &Options::unchecked()))
        .map_err(|error| format!("Triton's PTX: {error}"))?;
    for (arch, (ptx, shared)) in made {
        compare(case, &ptx, shared, &expected).map_err(|error| format!("{}: {error}", arch.name()))?;
    }
    Ok(())
}

/// What our PTX leaves in the buffers is what Triton's left there.
fn compare(case: &Case, ptx: &str, shared: u32, expected: &[Vec<u8>]) -> Result<(), String> {
    let made = execute(case, ptx, shared, &Options::default()).map_err(|error| format!("our PTX: {error}"))?;
    let buffers = case.args.iter().filter(|arg| matches!(arg, Arg::Buffer { .. }));
    for (place, (arg, (made, wanted))) in buffers.zip(made.iter().zip(expected)).enumerate() {
        let Arg::Buffer { buffer, rule, .. } = arg else { continue };
        match rule {
            Some(rule) => {
                let (scalar, _) = cases::scalar(buffer);
                rule.check(scalar, made, wanted).map_err(|(index, what)| {
                    format!("buffer {place}: {what}{}", operands(case, &expected[..place], index))
                })?;
            }
            None if made != wanted => return Err(format!("buffer {place}, an input, was written")),
            None => {}
        }
    }
    Ok(())
}

/// Runs the cases of `group`.
///
/// # Panics
/// Where one fails, with all that do.
pub fn run_group(group: &str) {
    let Some(all) = cases::all() else { return };
    let only = std::env::var("TILEWRIGHT_CASES").unwrap_or_default();
    let chosen: Vec<&Case> = all.iter().filter(|case| case.group == group && case.name.contains(&only)).collect();
    let failed: Vec<String> = chosen
        .par_iter()
        .filter_map(|case| {
            let done = catch_unwind(AssertUnwindSafe(|| run(case))).unwrap_or_else(|_| Err("panicked".to_owned()));
            done.err().map(|error| format!("{}: {error}", case.name))
        })
        .collect();
    println!("{group}: {} of {} cases hold", chosen.len() - failed.len(), chosen.len());
    assert!(failed.is_empty(), "{} of {} cases fail:\n{}", failed.len(), chosen.len(), failed.join("\n"));
}
