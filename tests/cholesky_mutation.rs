//! The tests would notice: each template with one instruction broken is run on the emulator, and must be caught by a check
//! or by its numbers.
//!
//! Mutants are made from the parsed text, systematically: a barrier, a store or a guard taken away, a shuffle from another
//! lane, a sign, a shared offset, a comparison changed. Where a kind has many places in a kernel, a fixed sample of them
//! is taken. What survives must be in the table of equivalents, each with the reason why it changes nothing.

mod support;

use std::ops::Range;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use support::families::Family;
use support::oracle::fault_of_factor;
use tilewright::emulate::{Kernel, LaunchConfig, Memory, Options, launch};
use tilewright::generate::Specialisation;
use tilewright::ptx::model::{Immediate, Instruction, Operand, Statement};
use tilewright::ptx::{Arch, parse};
use tilewright::template::{MicroPotrf, PotrfBlock, PotrfRows, PotrfWarp};

/// Places of one kind that are tried in one kernel; barriers all are.
const SAMPLE: usize = 24;

/// Ways to break an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    DropBarrier,
    DropStore,
    DropGuard,
    FlipGuard,
    OtherLane,
    OtherSign,
    OtherOffset,
    OtherComparison,
    OtherConstant,
}

const KINDS: [Kind; 9] = [
    Kind::DropBarrier,
    Kind::DropStore,
    Kind::DropGuard,
    Kind::FlipGuard,
    Kind::OtherLane,
    Kind::OtherSign,
    Kind::OtherOffset,
    Kind::OtherComparison,
    Kind::OtherConstant,
];

/// Mutants that change nothing.
struct Equivalent {
    /// What the specialisation holds, as `Debug` writes it.
    of: &'static str,
    kinds: &'static [Kind],
    /// What the broken instruction holds.
    text: &'static str,
    why: &'static str,
}

const EQUIVALENTS: &[Equivalent] = &[
    Equivalent {
        of: "",
        kinds: &[Kind::DropGuard, Kind::FlipGuard],
        text: "@%first st.shared",
        why: "every lane holds the same reciprocals: it does not matter which of them writes",
    },
    Equivalent {
        of: "",
        kinds: &[Kind::DropGuard, Kind::FlipGuard],
        text: "@%first st.global.u32 [%infos], %info;",
        why: "every lane of the warp holds the same info, or (micro_potrf) one that only lane 0 may read before",
    },
    Equivalent {
        of: "",
        kinds: &[Kind::OtherComparison],
        text: "setp.eq.u32 %first, %lane, 0;",
        why: "every lane of the warp holds the same reciprocals and info",
    },
    Equivalent {
        of: "MicroPotrf",
        kinds: &[Kind::DropGuard],
        text: "@%later ld.global.u32 %before, [%infos];",
        why: "a lane that does not write info may read it",
    },
    Equivalent {
        of: "PotrfWarp { n: 9,",
        kinds: &[Kind::OtherLane],
        text: "%x8, 8,",
        why: "lanes from n on repeat row n - 1",
    },
    Equivalent {
        of: "PotrfRows { n: 35,",
        kinds: &[Kind::OtherLane],
        text: ", 2, 31,",
        why: "lanes from n on repeat row n - 1",
    },
    Equivalent {
        of: "PotrfWarp { n: 9,",
        kinds: &[Kind::DropGuard],
        text: "@%stage st.shared.f32 [%own+384], %a8;",
        why: "after the last row the tile has room that nobody reads",
    },
    Equivalent {
        of: "PotrfRows { n: 35,",
        kinds: &[Kind::DropGuard],
        text: "34;",
        why: "after the last row the tile has room that nobody reads",
    },
    Equivalent {
        of: "PotrfRows { n: 35,",
        kinds: &[Kind::DropGuard],
        text: "ld.shared.f32 %d34",
        why: "warp 1 reads what it does not store",
    },
    Equivalent {
        of: "PotrfRows { n: 63,",
        kinds: &[Kind::DropGuard],
        text: "@%store ld.shared.f32 %e",
        why: "the last lane reads what it does not store",
    },
    Equivalent {
        of: "",
        kinds: &[Kind::OtherComparison],
        text: "setp.eq.u32 %on, %lane, 31;",
        why: "the last lane has its diagonal from the substitution, which differs by a rounding, and all others are above",
    },
    Equivalent {
        of: "PotrfRows { n: 35,",
        kinds: &[Kind::OtherComparison],
        text: "setp.eq.u32 %on, %lane, 2;",
        why: "the last row has its diagonal from the substitution, which differs by a rounding, and all others are above",
    },
    Equivalent {
        of: "PotrfBlock { n: 65,",
        kinds: &[Kind::OtherConstant],
        text: "add.u32 %u, %r, 8;",
        why: "one entry above the diagonal more is read for the output, inside a diagonal block, where it is zero",
    },
    Equivalent {
        of: "PotrfBlock { n: 90, block: 8,",
        kinds: &[Kind::DropStore],
        text: "[%own+384], %v3;",
        why: "tiles reach the columns past the matrix only in rows from 72 on, and these are rows 0 to 71",
    },
    Equivalent {
        of: "block: 32",
        kinds: &[Kind::DropGuard],
        text: "@!%real selp.f32",
        why: "of the rows that may be padding, the real ones have nothing in these columns below the diagonal",
    },
    Equivalent {
        of: "block: 32",
        kinds: &[Kind::DropGuard],
        text: "@%load ld.shared.f32 %v",
        why: "with blocks of 32 no tile of the trailing update reaches above the diagonal blocks: all is zero there",
    },
    Equivalent {
        of: "block: 32",
        kinds: &[Kind::OtherComparison],
        text: "setp.le.u32 %load, %c, %u;",
        why: "rows of these columns that are above the diagonal are zero in shared memory too",
    },
];

/// One broken text.
struct Mutant {
    kind: Kind,
    line: usize,
    before: String,
    text: String,
}

fn instructions(statements: &[Statement]) -> Vec<&Instruction> {
    statements
        .iter()
        .flat_map(|statement| match statement {
            Statement::Instruction(instruction) => vec![instruction],
            Statement::Block(inner) => instructions(inner),
            _ => Vec::new(),
        })
        .collect()
}

/// What the instruction becomes, or `None` where the kind does not apply.
fn broken(kind: Kind, instruction: &Instruction, text: &str) -> Option<String> {
    let opcode = instruction.opcode.as_str();
    let swap = |pairs: &[(&str, &str)]| {
        pairs.iter().find_map(|(from, to)| text.contains(from).then(|| text.replacen(from, to, 1)))
    };
    match kind {
        Kind::DropBarrier => (opcode == "bar").then(String::new),
        Kind::DropStore => (opcode == "st").then(String::new),
        Kind::DropGuard => {
            instruction.guard.as_ref()?;
            Some(text.split_once(' ')?.1.to_owned())
        }
        Kind::FlipGuard => {
            let guard = instruction.guard.as_ref()?;
            Some(if guard.negated { text.replacen("@!", "@", 1) } else { text.replacen('@', "@!", 1) })
        }
        Kind::OtherLane => {
            let Operand::Immediate(Immediate::Int(lane)) = instruction.operands.get(2)? else { return None };
            (opcode == "shfl")
                .then(|| text.replacen(&format!(", {lane}, 31"), &format!(", {}, 31", (lane + 1) % 32), 1))
        }
        Kind::OtherSign => (opcode == "neg").then(|| text.replacen("neg.f32", "mov.f32", 1)),
        Kind::OtherOffset => {
            let shared = instruction.has("shared");
            let place = instruction.operands.iter().find_map(|operand| match operand {
                Operand::Address { offset, .. } if shared => Some(*offset),
                _ => None,
            })?;
            let step = if instruction.has("v4") {
                16
            } else if instruction.has("v2") {
                8
            } else {
                4
            };
            let (head, tail) = text.rsplit_once(']').filter(|_| opcode == "ld").or_else(|| text.split_once(']'))?;
            let head = head.strip_suffix(&format!("+{place}")).unwrap_or(head);
            Some(format!("{head}+{}]{tail}", place + step))
        }
        Kind::OtherComparison => {
            if opcode != "setp" {
                return None;
            }
            swap(&[
                (".lt.", ".ge."),
                (".ge.", ".lt."),
                (".le.", ".gt."),
                (".gt.", ".le."),
                (".eq.", ".ne."),
                (".ne.", ".eq."),
            ])
        }
        Kind::OtherConstant => {
            let Some(Operand::Immediate(Immediate::Int(value))) = instruction.operands.last() else { return None };
            matches!(opcode, "add" | "mad" | "and" | "shr" | "shl" | "min" | "mul")
                .then(|| text.replacen(&format!(", {value};"), &format!(", {};", value + 1), 1))
        }
    }
}

/// The mutants of a text: of each kind, all or an even sample.
fn mutants(source: &str) -> Vec<Mutant> {
    let program = parse(source).unwrap();
    let entry = program.entries().next().unwrap();
    let all = instructions(entry.body.as_deref().unwrap());
    KINDS
        .into_iter()
        .flat_map(|kind| {
            let places: Vec<(Range<usize>, String)> = all
                .iter()
                .filter_map(|instruction| {
                    let range = instruction.span.start as usize..instruction.span.end as usize;
                    let text = &source[range.clone()];
                    let broken = broken(kind, instruction, text)?;
                    assert_ne!(broken, text, "{kind:?} changes nothing");
                    Some((range, broken))
                })
                .collect();
            // Barriers alternate in kind (a warp's own, then an arrival), so that a sample would see one kind only.
            let limit = if kind == Kind::DropBarrier { usize::MAX } else { SAMPLE };
            let step = places.len().div_ceil(limit).max(1);
            places.into_iter().step_by(step).map(move |(range, broken)| Mutant {
                kind,
                line: source[..range.start].matches('\n').count() + 1,
                before: source[range.clone()].to_owned(),
                text: format!("{}{broken}{}", &source[..range.start], &source[range.end..]),
            })
        })
        .collect()
}

/// A kernel with what it is run on.
struct Subject {
    specialisation: Specialisation,
    /// Order of the block that is factored, of the matrix around it, and where in that it is.
    n: usize,
    ld: usize,
    k: usize,
    batch: usize,
}

/// The matrix of the batch that fails, and its pivot.
const FAILING: (usize, usize) = (1, 2);
const UNTOUCHED: f32 = -123.5;

impl Subject {
    /// Runs `source` in this kernel's place; what a test would find wrong.
    fn fault(&self, source: &str) -> Result<(), String> {
        let module = self.specialisation.instantiate(Arch::Sm90a).map_err(|error| error.to_string())?;
        let meta = &module.meta.kernels[0];
        let Self { n, ld, k, batch, .. } = *self;
        let stride = ld * (k + n) + 2;
        let place = |b: usize, i: usize, j: usize| b * stride + (k + i) * ld + k + j;
        let elements = stride * batch;
        let blocks = Family::Dense.batch(batch, n, 2, 41);
        let device = Memory::new();
        let upload = |values: &[f32], label: &str| -> Result<u64, String> {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let address = device.alloc(bytes.len() as u64, label).map_err(|error| error.to_string())?;
            device.write(address, &bytes).map_err(|error| error.to_string())?;
            Ok(address)
        };
        let download = |address: u64, length: usize| -> Result<Vec<f32>, String> {
            let mut bytes = vec![0; 4 * length];
            device.read(address, &mut bytes).map_err(|error| error.to_string())?;
            Ok(bytes.chunks(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
        };
        // Nothing but the lower triangles is written: a read of anything else is a fault.
        let a = device.alloc(4 * elements as u64, "a").map_err(|error| error.to_string())?;
        for (b, i) in (0..batch).flat_map(|b| (0..n).map(move |i| (b, i))) {
            let mut row = blocks[(b * n + i) * n..(b * n + i) * n + i + 1].to_vec();
            if (b, i) == FAILING {
                row[i] = -1.0;
            }
            let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
            device.write(a + 4 * place(b, i, 0) as u64, &bytes).map_err(|error| error.to_string())?;
        }
        let l = upload(&vec![UNTOUCHED; elements], "l")?;
        // Below the first block a matrix may have failed before.
        let before = |b: usize| match (k, b) {
            (0, _) => 99,
            (_, 2) => 5,
            _ => 0,
        };
        let info = upload(&(0..batch).map(|b| f32::from_bits(before(b))).collect::<Vec<_>>(), "info")?;
        let inverse = upload(&vec![f32::NAN; batch * n * n], "inverse")?;
        let with_inverse = meta.params.iter().any(|param| param.name == "inverse");
        let mut params = Vec::new();
        for pointer in if with_inverse { vec![a, l, inverse, info] } else { vec![a, l, info] } {
            params.extend(pointer.to_le_bytes());
        }
        params.extend([stride as u64, stride as u64].iter().flat_map(|value| value.to_le_bytes()));
        params.extend([ld as u32, ld as u32].iter().flat_map(|value| value.to_le_bytes()));
        if with_inverse {
            params.extend((k as u32).to_le_bytes());
        }
        params.extend((batch as u32).to_le_bytes());
        let tilewright::ptx::Extent::Ceil { by, .. } = meta.grid.x else { return Err("no grid rule".to_owned()) };
        let config = LaunchConfig {
            grid: [(batch as u32).div_ceil(by), 1, 1],
            block: [32 * meta.num_warps, 1, 1],
            dynamic_shared: meta.shared,
            ..LaunchConfig::default()
        };
        let kernel = Kernel::new(source, None).map_err(|error| error.to_string())?;
        let options = Options { max_steps: Some(1_000_000), ..Options::default() };
        launch(&kernel, &config, &params, &device, &options).map_err(|error| error.to_string())?;

        let factors = download(l, elements)?;
        let infos: Vec<u32> = download(info, batch)?.iter().map(|value| value.to_bits()).collect();
        let inverses = download(inverse, batch * n * n)?;
        for b in 0..batch {
            let failed_before = if k > 0 { before(b) } else { 0 };
            let expected = if b == FAILING.0 { (k + FAILING.1 + 1) as u32 } else { failed_before };
            if infos[b] != expected {
                return Err(format!("info of matrix {b} is {}, not {expected}", infos[b]));
            }
            if b == FAILING.0 {
                continue;
            }
            let factor: Vec<f32> = (0..n * n).map(|index| factors[place(b, index / n, index % n)]).collect();
            fault_of_factor(&blocks[b * n * n..(b + 1) * n * n], &factor, n)?;
            if with_inverse {
                let x = &inverses[b * n * n..(b + 1) * n * n];
                for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let sum: f64 = (0..n).map(|p| f64::from(factor[i * n + p]) * f64::from(x[p * n + j])).sum();
                    let off = (sum - if i == j { 1.0 } else { 0.0 }).abs();
                    if off.is_nan() || off > 1e-4 {
                        return Err(format!("(L·X)({i}, {j}) = {sum}"));
                    }
                }
            }
        }
        for (index, value) in factors.iter().enumerate() {
            let (b, i, j) = (index / stride, index % stride / ld, index % stride % ld);
            let inside = (k..k + n).contains(&i) && (k..k + n).contains(&j);
            if !inside && *value != UNTOUCHED {
                return Err(format!("element ({i}, {j}) of matrix {b} is not the factor's and was written"));
            }
        }
        Ok(())
    }
}

fn subjects() -> Vec<Subject> {
    let warp = |n: u32, rank, warps| Subject {
        specialisation: Specialisation::PotrfWarp(PotrfWarp { n, rank, warps }),
        n: n as usize,
        ld: n as usize + 3,
        k: 0,
        batch: 3,
    };
    let rows = |n: u32, rank| Subject {
        specialisation: Specialisation::PotrfRows(PotrfRows { n, rank }),
        n: n as usize,
        ld: n as usize + 3,
        k: 0,
        batch: 3,
    };
    let block = |n: u32, block, warps| Subject {
        specialisation: Specialisation::PotrfBlock(PotrfBlock { n, block, warps }),
        n: n as usize,
        ld: n as usize + 3,
        k: 0,
        batch: 3,
    };
    let micro = |rank, warps| Subject {
        specialisation: Specialisation::MicroPotrf(MicroPotrf { rank, warps }),
        n: 32,
        ld: 50,
        k: 16,
        batch: 3,
    };
    vec![
        warp(9, 4, 2),
        warp(32, 2, 1),
        rows(35, 4),
        rows(63, 1),
        block(65, 16, 4),
        block(90, 8, 8),
        block(70, 32, 4),
        micro(4, 2),
    ]
}

#[test]
fn the_kernels_themselves_pass() {
    for subject in subjects() {
        let module = subject.specialisation.instantiate(Arch::Sm90a).unwrap();
        subject.fault(&module.ptx).unwrap_or_else(|fault| panic!("{:?}: {fault}", subject.specialisation));
    }
}

#[test]
fn every_mutant_is_caught() {
    let mut survivors = Vec::new();
    let mut count = 0;
    for subject in subjects() {
        let module = subject.specialisation.instantiate(Arch::Sm90a).unwrap();
        let mutants = mutants(&module.ptx);
        count += mutants.len();
        let found: Vec<&Mutant> = mutants.par_iter().filter(|mutant| subject.fault(&mutant.text).is_ok()).collect();
        for Mutant { kind, line, before, .. } in found {
            let of = format!("{:?}", subject.specialisation);
            let known = EQUIVALENTS.iter().find(|equivalent| {
                of.contains(equivalent.of) && equivalent.kinds.contains(kind) && before.contains(equivalent.text)
            });
            if let Some(Equivalent { why, .. }) = known {
                println!("survives, as it may: {of}, line {line}, {kind:?}: {before} ({why})");
            } else {
                survivors.push(format!("{:?}, line {line}, {kind:?}: {before}", subject.specialisation));
            }
        }
    }
    println!("{count} mutants");
    assert!(count > 500, "only {count} mutants were made");
    assert!(survivors.is_empty(), "{} of {count} mutants survive:\n{}", survivors.len(), survivors.join("\n"));
}
