//! Products in tensor memory: kernels of every kind, shape and number of warps that the compiler makes with `tcgen05` for sm_100a run on the
//! emulator with all checks on, against the product in f64; and NVIDIA's assembler takes each.
#![cfg(feature = "llvm")]

#[path = "support/ptxas.rs"]
mod ptxas;

use std::process::Command;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;
use tilewright::compile::{Options, compile};
use tilewright::emulate::observe::{Observe, launch_observed};
use tilewright::emulate::{Kernel, LaunchConfig, Memory};
use tilewright::ptx::Arch;
use tilewright::tile::InputPrecision::{Ieee, Tf32, Tf32x3};
use tilewright::tile::Scalar::{self, Bf16, F16, F32, I32};
use tilewright::tile::build::{Dot, KernelBuilder};
use tilewright::tile::{Func, InputPrecision};

/// What is done with a product a·b, where a (m×k) and b (k×n) lie in memory in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    /// b is there as its transpose.
    Turned,
    /// a·b + c.
    Onto,
    /// c + a·b so often as an argument says (3).
    Loop,
    /// As `Loop`, and the sum is also looked at in every turn: each adds its sum to a second one.
    Watched,
    /// c + three sums of three products each, which begin at zero anew.
    Nested,
    /// a·b where an argument is not 0 and c elsewhere; and the same the other way around, added.
    Branch,
    /// (a·b + c) + 2·(a·b), each a product of its own.
    Twice,
    /// As `Onto`, but where an argument is 0 the kernel returns before.
    Return,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    form: Form,
    scalar: Scalar,
    precision: InputPrecision,
    /// m, n, k.
    shape: [u32; 3],
    warps: u32,
}

impl Case {
    fn func(&self) -> Func {
        let [m, n, k] = self.shape;
        let t = KernelBuilder::new("product");
        let (a, b) = (t.pointer("a", self.scalar), t.pointer("b", self.scalar));
        let (c, out, times) = (t.pointer("c", F32), t.pointer("out", F32), t.scalar("times", I32));
        let [rows, cols, inner] = [m, n, k].map(|extent| t.arange(0, extent as i32));
        let a = t.load(a + rows.col() * k as i32 + inner.row());
        let b = if self.form == Form::Turned {
            t.load(b + cols.col() * k as i32 + inner.row()).trans()
        } else {
            t.load(b + inner.col() * n as i32 + cols.row())
        };
        let place = rows.col() * n as i32 + cols.row();
        let c = t.load(c + place);
        let dot = || Dot::precision(self.precision);
        let made = match self.form {
            Form::Plain | Form::Turned => t.dot_with(a, b, dot()),
            Form::Onto => t.dot_with(a, b, dot().acc(c)),
            Form::Loop => {
                let [sum] = t.range(0, times, 1, [c], |_, [sum]| [t.dot_with(a, b, dot().acc(sum))]);
                sum
            }
            Form::Watched => {
                let zeros = t.zeros(&[m, n], F32);
                let [_, all] = t.range(0, times, 1, [c, zeros], |_, [sum, all]| {
                    let sum = t.dot_with(a, b, dot().acc(sum));
                    [sum, all + sum]
                });
                all
            }
            Form::Nested => {
                let zeros = t.zeros(&[m, n], F32);
                let [all] = t.range(0, times, 1, [c], |_, [all]| {
                    let [sum] = t.range(0, times, 1, [zeros], |_, [sum]| [t.dot_with(a, b, dot().acc(sum))]);
                    [all + sum]
                });
                all
            }
            Form::Branch => {
                let [one] = t.if_else(times.ne(0), || [t.dot_with(a, b, dot())], || [c]);
                let [other] = t.if_else(times.eq(0), || [t.dot_with(a, b, dot())], || [c]);
                one + other
            }
            Form::Twice => {
                let first = t.dot_with(a, b, dot().acc(c));
                first + t.dot_with(a, b, dot()) * 2.0
            }
            Form::Return => {
                t.return_if(times.eq(0));
                t.dot_with(a, b, dot().acc(c))
            }
        };
        t.store(out + place, made);
        t.finish().unwrap()
    }

    /// How often a·b is in the result, and c.
    fn counts(&self) -> (f64, f64) {
        match self.form {
            Form::Plain | Form::Turned => (1.0, 0.0),
            Form::Onto | Form::Branch | Form::Return => (1.0, 1.0),
            Form::Loop => (3.0, 1.0),
            // (c + ab) + (c + 2ab) + (c + 3ab)
            Form::Watched => (6.0, 3.0),
            Form::Nested => (9.0, 1.0),
            Form::Twice => (3.0, 1.0),
        }
    }
}

/// A number that every kind of operand holds exactly: seven bits of fraction; in singles for `tf32x3` all of them.
fn number(random: &mut StdRng, precision: InputPrecision) -> f32 {
    let value: f32 = random.random_range(-1.0..1.0);
    if precision == Tf32x3 { value } else { f32::from_bits(value.to_bits() & 0xffff_0000) }
}

fn bytes(scalar: Scalar, values: &[f32]) -> Vec<u8> {
    let each = |value: f32| match scalar {
        F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
        Bf16 => half::bf16::from_f32(value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    };
    values.iter().flat_map(|&value| each(value)).collect()
}

/// Compiles, assembles, runs and compares.
fn check(case: Case) -> Result<(), String> {
    let fail = |what: String| format!("{case:?}: {what}");
    let options = Options { num_warps: case.warps, ..Options::new(Arch::Sm100a) };
    let made = compile(&case.func(), &options).map_err(|error| fail(error.to_string()))?;
    if !made.ptx.contains("tcgen05.mma") {
        return Err(fail("it is not made in tensor memory".to_owned()));
    }
    if let Some(ptxas) = ptxas::ptxas() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kernel.ptx");
        std::fs::write(&file, &made.ptx).unwrap();
        let mut command = Command::new(ptxas);
        command.args(["-v", "-arch=sm_100a", "-o"]).arg(folder.path().join("kernel.cubin")).arg(&file);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // What is live at once fits by far: two sums (of `tf32x3`, the small products and c) and the operands. ptxas 13 confines some
        // kernels of two products to 64 of the 255 registers of its own accord, and spills up to 20 words there.
        let [m, n, k] = case.shape;
        let small = (2 * m * n + m * k + k * n) / (32 * case.warps) <= 96;
        let spilled = said.split(" bytes spill stores").next().and_then(|text| text.split_whitespace().last());
        let spilled: Option<u32> = spilled.and_then(|word| word.parse().ok());
        if !output.status.success() || small && !spilled.is_some_and(|bytes| bytes <= 80) {
            return Err(fail(said));
        }
    }

    let [m, n, k] = case.shape.map(|extent| extent as usize);
    let mut random =
        StdRng::seed_from_u64(u64::from(case.shape.iter().fold(case.warps, |all, extent| 31 * all + extent)));
    let mut numbers = |count: usize| (0..count).map(|_| number(&mut random, case.precision)).collect::<Vec<f32>>();
    let (a, b, c) = (numbers(m * k), numbers(k * n), numbers(m * n));
    let times = 3_i32;
    let memory = Memory::new();
    let mut params = Vec::new();
    for (label, content) in [
        ("a", bytes(case.scalar, &a)),
        ("b", bytes(case.scalar, &b)),
        ("c", bytes(F32, &c)),
        ("out", vec![0; 4 * m * n]),
    ] {
        let address = memory.alloc(content.len() as u64, label).unwrap();
        memory.write(address, &content).unwrap();
        params.extend(address.to_le_bytes());
    }
    let out_at = u64::from_le_bytes(params[24..32].try_into().unwrap());
    let reads = std::cell::RefCell::new(0);
    let run = |times: i32| {
        let mut params = params.clone();
        params.extend(times.to_le_bytes());
        params.resize(40 + 16, 0);
        let kernel = Kernel::new(&made.ptx, None).map_err(|error| fail(error.to_string()))?;
        let config = LaunchConfig {
            grid: [1, 1, 1],
            block: kernel.required_block().unwrap(),
            dynamic_shared: made.meta.shared,
            ..LaunchConfig::default()
        };
        let observe = Observe { profile: true, ..Observe::default() };
        let (outcome, seen) = launch_observed(&kernel, &config, &params, &memory, &Default::default(), &observe)
            .map_err(|error| fail(error.to_string()))?;
        outcome.map_err(|error| fail(error.to_string()))?;
        let lines = seen.profile.unwrap().lines;
        let waits = lines.iter().filter(|line| line.text.contains("tcgen05.wait::ld"));
        *reads.borrow_mut() = waits.map(|line| line.counters.warp_instructions).sum::<u64>() / u64::from(case.warps);
        let mut out = vec![0; 4 * m * n];
        memory.read(out_at, &mut out).unwrap();
        Ok::<_, String>(
            out.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect::<Vec<_>>(),
        )
    };
    if case.form == Form::Return && run(0)?.iter().any(|&value| value != 0.0) {
        return Err(fail("it did not return".to_owned()));
    }
    let found = run(times)?;
    // A sum that only the products of a loop see is read once, after it; one that is looked at, in every turn.
    let reads = *reads.borrow();
    let expected = if case.form == Form::Watched { 3 } else { 1 };
    if matches!(case.form, Form::Loop | Form::Watched) && case.precision != Tf32x3 && reads != expected {
        return Err(fail(format!("the sum is read {reads} times and not {expected}")));
    }
    let (products, starts) = case.counts();
    for row in 0..m {
        for col in 0..n {
            let (mut sum, mut size) = (0.0_f64, 0.0_f64);
            for at in 0..k {
                let b = if case.form == Form::Turned { b[col * k + at] } else { b[at * n + col] };
                let product = f64::from(a[row * k + at]) * f64::from(b);
                sum += product;
                size += product.abs();
            }
            let c = f64::from(c[row * n + col]);
            let (exact, size) = (products * sum + starts * c, products * size + starts * c.abs());
            // Each product is cut 25 places under the largest of its instruction, and an instruction's sum is cut to a single: 2⁻²³ of
            // the sum of sizes for every product covers both (tests/triton_dumps/products.rs). In three, what the parts leave out comes
            // on top: 2⁻²¹ of a product.
            let count = if case.precision == Tf32x3 { 3 * k } else { k } as f64;
            let bound = size
                * ((count * products + 4.0) * (-23_f64).exp2()
                    + if case.precision == Tf32x3 { (-20_f64).exp2() } else { 0.0 });
            let value = f64::from(found[row * n + col]);
            if !((value - exact).abs() <= bound) {
                return Err(fail(format!("[{row}, {col}] is {value}, not {exact}")));
            }
        }
    }
    Ok(())
}

fn check_all(cases: impl IntoIterator<Item = Case>) {
    let cases: Vec<Case> = cases.into_iter().collect();
    let faults: Vec<String> = cases.par_iter().filter_map(|&case| check(case).err()).collect();
    assert!(faults.is_empty(), "{} of {}: {}", faults.len(), cases.len(), faults.join("\n"));
}

const KINDS: [(Scalar, InputPrecision); 4] = [(F32, Tf32), (F32, Tf32x3), (F16, Ieee), (Bf16, Ieee)];

#[test]
fn every_kind_and_shape() {
    let shapes = [[64, 8, 16], [64, 64, 32], [64, 256, 16], [128, 8, 32], [128, 16, 64], [128, 64, 128], [256, 32, 32]];
    check_all(KINDS.into_iter().flat_map(|(scalar, precision)| {
        shapes.into_iter().map(move |shape| Case { form: Form::Plain, scalar, precision, shape, warps: 4 })
    }));
}

#[test]
fn every_number_of_warps() {
    let cases = [
        ([64, 16, 32], 8),
        ([64, 256, 32], 16),
        ([128, 128, 32], 8),
        ([128, 256, 16], 8),
        ([128, 32, 16], 32),
        ([256, 64, 16], 8),
        ([512, 32, 16], 16),
        ([256, 128, 16], 16),
    ];
    check_all(KINDS.into_iter().flat_map(|(scalar, precision)| {
        cases.into_iter().map(move |(shape, warps)| Case { form: Form::Onto, scalar, precision, shape, warps })
    }));
}

#[test]
fn every_form() {
    let forms =
        [Form::Turned, Form::Onto, Form::Loop, Form::Watched, Form::Nested, Form::Branch, Form::Twice, Form::Return];
    check_all(KINDS.into_iter().flat_map(|(scalar, precision)| {
        forms.into_iter().flat_map(move |form| {
            [([64, 32, 32], 4), ([128, 32, 32], 4), ([128, 64, 16], 8), ([256, 16, 16], 8)].map(|(shape, warps)| Case {
                form,
                scalar,
                precision,
                shape,
                warps,
            })
        })
    }));
}
