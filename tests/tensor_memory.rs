//! Products in tensor memory: kernels of every kind, shape and number of warps that the compiler makes with `tcgen05` for sm_100a run on the
//! emulator with all checks on, against the product in f64; and NVIDIA's assembler takes each.
#![cfg(feature = "llvm")]

#[path = "support/ptxas.rs"]
mod ptxas;

use std::process::Command;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;
use tilewright::compile::{Compiled, Options, compile};
use tilewright::emulate::observe::{Observe, launch_observed};
use tilewright::emulate::{Kernel, LaunchConfig, Memory};
use tilewright::ptx::Arch;
use tilewright::tile::InputPrecision::{Ieee, Tf32, Tf32x3};
use tilewright::tile::Scalar::{self, Bf16, F8E4M3, F8E5M2, F16, F32, I8, I32};
use tilewright::tile::build::{Dot, KernelBuilder, ScaledOperand};
use tilewright::tile::{Func, InputPrecision, ScaledFormat, float_value};

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
    /// Two sums in one loop: c + a·b and a·b, each so often, added.
    Pair,
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
            Form::Pair => {
                let zeros = t.zeros(&[m, n], F32);
                let [one, other] = t.range(0, times, 1, [c, zeros], |_, [one, other]| {
                    [t.dot_with(a, b, dot().acc(one)), t.dot_with(a, b, dot().acc(other))]
                });
                one + other
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
            Form::Pair => (6.0, 1.0),
            Form::Nested => (9.0, 1.0),
            Form::Twice => (3.0, 1.0),
        }
    }
}

/// Numbers that operands of `scalar` hold exactly, and their bytes. Singles have ten bits of fraction, all of them for `tf32x3`; FP8 is of
/// middling size.
fn numbers(random: &mut StdRng, scalar: Scalar, precision: InputPrecision, count: usize) -> (Vec<f32>, Vec<u8>) {
    let mut made = (Vec::new(), Vec::new());
    for _ in 0..count {
        let value: f32 = random.random_range(-1.0..1.0);
        let bits = match scalar {
            F16 => half::f16::from_f32(value).to_bits().into(),
            Bf16 => half::bf16::from_f32(value).to_bits().into(),
            F8E4M3 => random.random_range(0x20..0x48) | u64::from(random.random::<bool>()) << 7,
            F8E5M2 => random.random_range(0x30..0x44) | u64::from(random.random::<bool>()) << 7,
            _ if precision == Tf32x3 => value.to_bits().into(),
            _ => u64::from(value.to_bits() & !0x1fff),
        };
        made.0.push(float_value(scalar, bits).unwrap() as f32);
        made.1.extend(&bits.to_le_bytes()[..scalar.bytes() as usize]);
    }
    made
}

/// NVIDIA's assembler takes it. Bytes that it spills, or 0 where there is no assembler.
fn assembled(ptx: &str) -> Result<u32, String> {
    let Some(ptxas) = ptxas::ptxas() else { return Ok(0) };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kernel.ptx");
    std::fs::write(&file, ptx).unwrap();
    let mut command = Command::new(ptxas);
    command.args(["-v", "-arch=sm_100a", "-o"]).arg(folder.path().join("kernel.cubin")).arg(&file);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let spilled = said.split(" bytes spill stores").next().and_then(|text| text.split_whitespace().last());
    match spilled.and_then(|word| word.parse().ok()) {
        Some(bytes) if output.status.success() => Ok(bytes),
        _ => Err(said),
    }
}

/// Buffers, the last of them the result in singles, and what a kernel does with them.
struct Launch<'a> {
    made: &'a Compiled,
    memory: Memory,
    params: Vec<u8>,
    out: (u64, usize),
}

impl<'a> Launch<'a> {
    fn new(made: &'a Compiled, inputs: &[&[u8]], out: usize) -> Self {
        let mut this = Self { made, memory: Memory::new(), params: Vec::new(), out: (0, out) };
        for content in inputs.iter().copied().chain([&vec![0; 4 * out][..]]) {
            this.out.0 = this.memory.alloc(content.len() as u64, "buffer").unwrap();
            this.memory.write(this.out.0, content).unwrap();
            this.params.extend(this.out.0.to_le_bytes());
        }
        this
    }

    /// The result, and how often each warp waited for a sum to be read.
    fn run(&self, times: i32) -> Result<(Vec<f32>, u64), String> {
        let mut params = self.params.clone();
        params.extend(times.to_le_bytes());
        params.resize(params.len().next_multiple_of(8) + 16, 0);
        let kernel = Kernel::new(&self.made.ptx, None).map_err(|error| error.to_string())?;
        let block = kernel.required_block().unwrap();
        let config =
            LaunchConfig { grid: [1, 1, 1], block, dynamic_shared: self.made.meta.shared, ..LaunchConfig::default() };
        let observe = Observe { profile: true, ..Observe::default() };
        let (outcome, seen) = launch_observed(&kernel, &config, &params, &self.memory, &Default::default(), &observe)
            .map_err(|error| error.to_string())?;
        outcome.map_err(|error| error.to_string())?;
        let lines = seen.profile.unwrap().lines;
        let waits = lines.iter().filter(|line| line.text.contains("tcgen05.wait::ld"));
        let reads = waits.map(|line| line.counters.warp_instructions).sum::<u64>() / u64::from(block[0] / 32);
        let mut out = vec![0; 4 * self.out.1];
        self.memory.read(self.out.0, &mut out).unwrap();
        Ok((out.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect(), reads))
    }
}

/// Each product is cut 25 places under the largest of its instruction, and an instruction's sum is cut to a single: 2⁻²³ of the sum of sizes for
/// every one of `count` products covers both (tests/triton_dumps/products.rs).
fn bound(size: f64, count: f64) -> f64 {
    size * (count + 4.0) * (-23_f64).exp2()
}

/// Compiles, assembles, runs and compares.
fn check(case: Case) -> Result<(), String> {
    let fail = |what: String| format!("{case:?}: {what}");
    let options = Options { num_warps: case.warps, ..Options::new(Arch::Sm100a) };
    let made = compile(&case.func(), &options).map_err(|error| fail(error.to_string()))?;
    if !made.ptx.contains("tcgen05.mma") {
        return Err(fail("it is not made in tensor memory".to_owned()));
    }
    let spilled = assembled(&made.ptx).map_err(fail)?;
    // What is live at once fits by far: two sums (of `tf32x3`, the small products and c) and the operands. ptxas 13 confines some
    // kernels of two products to 64 of the 255 registers of its own accord, and spills up to 20 words there.
    let [m, n, k] = case.shape;
    if (2 * m * n + m * k + k * n) / (32 * case.warps) <= 96 && spilled > 80 {
        return Err(fail(format!("{spilled} bytes are spilled")));
    }

    let [m, n, k] = case.shape.map(|extent| extent as usize);
    let seed = case.shape.iter().fold(case.warps, |all, extent| 31 * all + extent);
    let mut random = StdRng::seed_from_u64(seed.into());
    let (a, a_bytes) = numbers(&mut random, case.scalar, case.precision, m * k);
    let (b, b_bytes) = numbers(&mut random, case.scalar, case.precision, k * n);
    let (c, c_bytes) = numbers(&mut random, F32, case.precision, m * n);
    let launch = Launch::new(&made, &[&a_bytes, &b_bytes, &c_bytes], m * n);
    if case.form == Form::Return && launch.run(0).map_err(fail)?.0.iter().any(|&value| value != 0.0) {
        return Err(fail("it did not return".to_owned()));
    }
    let (found, reads) = launch.run(3).map_err(fail)?;
    // A sum that only the products of a loop see is read once, after it; one that is looked at, in every turn.
    let expected = match case.form {
        Form::Loop => Some(1),
        Form::Pair => Some(2),
        Form::Watched => Some(3),
        _ => None,
    };
    if case.precision != Tf32x3 && expected.is_some_and(|expected| reads != expected) {
        return Err(fail(format!("the sum is read {reads} times and not {expected:?}")));
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
            // In three, what the parts leave out comes on top: up to 2⁻²⁰ of a product.
            let thrice = case.precision == Tf32x3;
            let count = if thrice { 3 * k } else { k } as f64;
            let bound = bound(size, count * products) + if thrice { size * (-20_f64).exp2() } else { 0.0 };
            let value = f64::from(found[row * n + col]);
            let holds = (value - exact).abs() <= bound;
            if !holds {
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

const KINDS: [(Scalar, InputPrecision); 6] =
    [(F32, Tf32), (F32, Tf32x3), (F16, Ieee), (Bf16, Ieee), (F8E4M3, Tf32), (F8E5M2, Tf32)];

#[test]
fn every_kind_and_shape() {
    let shapes = [[64, 8, 32], [64, 64, 32], [64, 256, 32], [128, 8, 32], [128, 16, 64], [128, 64, 128], [256, 32, 32]];
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
        ([128, 256, 32], 8),
        ([128, 32, 32], 32),
        ([256, 64, 32], 8),
        ([512, 32, 32], 16),
        ([256, 128, 32], 16),
    ];
    check_all(KINDS.into_iter().flat_map(|(scalar, precision)| {
        cases.into_iter().map(move |(shape, warps)| Case { form: Form::Onto, scalar, precision, shape, warps })
    }));
}

#[test]
fn every_form() {
    let forms = [
        Form::Turned,
        Form::Onto,
        Form::Loop,
        Form::Watched,
        Form::Nested,
        Form::Pair,
        Form::Branch,
        Form::Twice,
        Form::Return,
    ];
    check_all(KINDS.into_iter().flat_map(|(scalar, precision)| {
        forms.into_iter().flat_map(move |form| {
            [([64, 32, 32], 4), ([128, 32, 32], 4), ([128, 64, 32], 8), ([256, 16, 64], 8)].map(|(shape, warps)| Case {
                form,
                scalar,
                precision,
                shape,
                warps,
            })
        })
    }));
}

/// The shallowest products of each kind.
#[test]
fn shallow_products() {
    let kinds = [(F32, Tf32, 16), (F32, Tf32x3, 16), (F16, Ieee, 16), (Bf16, Ieee, 16), (F8E4M3, Tf32, 32)];
    check_all(kinds.into_iter().flat_map(|(scalar, precision, k)| {
        [[64, 16, k], [128, 32, k]].map(|shape| Case { form: Form::Onto, scalar, precision, shape, warps: 4 })
    }));
}

/// A product with scales for every 32 along k.
#[derive(Clone, Copy, Debug)]
struct Scaled {
    formats: [ScaledFormat; 2],
    /// m, n, k.
    shape: [u32; 3],
    warps: u32,
    /// c + a·b so often (3), else once.
    in_loop: bool,
}

/// The formats' elements: how they lie in memory, and how many are in one.
fn stored(format: ScaledFormat) -> (Scalar, u32) {
    match format {
        ScaledFormat::E4M3 => (F8E4M3, 1),
        ScaledFormat::E5M2 => (F8E5M2, 1),
        _ => (I8, 2),
    }
}

/// FP4, from the code's definition.
const FP4: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Rows of `format` along k: bytes and values, and the scales' bytes.
fn rows(random: &mut StdRng, format: ScaledFormat, rows: usize, k: usize) -> (Vec<u8>, Vec<f64>, Vec<u8>) {
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    let scales: Vec<u8> = (0..rows * k / 32).map(|_| random.random_range(118..137)).collect();
    let (scalar, packed) = stored(format);
    for at in (0..rows * k).step_by(packed as usize) {
        let sign = u8::from(random.random::<bool>()) << 7;
        let code = match format {
            ScaledFormat::E4M3 => random.random_range(0..0x7f) | sign,
            ScaledFormat::E5M2 => random.random_range(0..0x7c) | sign,
            _ => random.random(),
        };
        bytes.push(code);
        let scale = 2.0_f64.powi(i32::from(scales[at / 32]) - 127);
        match packed {
            1 => values.push(float_value(scalar, code.into()).unwrap() * scale),
            _ => values.extend([code & 15, code >> 4].map(|code| {
                let size = f64::from(FP4[usize::from(code & 7)]) * scale;
                if code & 8 == 0 { size } else { -size }
            })),
        }
    }
    (bytes, values, scales)
}

fn check_scaled(case: Scaled) -> Result<(), String> {
    let fail = |what: String| format!("{case:?}: {what}");
    let [m, n, k] = case.shape;
    let t = KernelBuilder::new("scaled");
    let [(a_scalar, a_packed), (b_scalar, b_packed)] = case.formats.map(stored);
    let (a, a_scale) = (t.pointer("a", a_scalar), t.pointer("a_scale", I8));
    let (b, b_scale) = (t.pointer("b", b_scalar), t.pointer("b_scale", I8));
    let (c, out, times) = (t.pointer("c", F32), t.pointer("out", F32), t.scalar("times", I32));
    let load = |pointer, rows: u32, columns: u32| {
        t.load(pointer + t.arange(0, rows as i32).col() * columns as i32 + t.arange(0, columns as i32).row())
    };
    let left = ScaledOperand::new(load(a, m, k / a_packed), case.formats[0]).scale(load(a_scale, m, k / 32));
    let right = ScaledOperand::new(load(b, n, k / b_packed).trans(), case.formats[1]).scale(load(b_scale, n, k / 32));
    let start = load(c, m, n);
    let made = if case.in_loop {
        let [sum] = t.range(0, times, 1, [start], |_, [sum]| [t.dot_scaled(left, right, Some(sum))]);
        sum
    } else {
        t.dot_scaled(left, right, Some(start))
    };
    t.store(out + t.arange(0, m as i32).col() * n as i32 + t.arange(0, n as i32).row(), made);
    let func = t.finish().unwrap();
    let options = Options { num_warps: case.warps, ..Options::new(Arch::Sm100a) };
    let made = compile(&func, &options).map_err(|error| fail(error.to_string()))?;
    if !made.ptx.contains("kind::mxf8f6f4.block_scale") {
        return Err(fail("it is not made with scales".to_owned()));
    }
    assembled(&made.ptx).map_err(fail)?;

    let [m, n, k] = case.shape.map(|extent| extent as usize);
    let mut random = StdRng::seed_from_u64((m * n + k) as u64);
    let (a, left, mut a_scales) = rows(&mut random, case.formats[0], m, k);
    let (b, right, b_scales) = rows(&mut random, case.formats[1], n, k);
    let (c, c_bytes) = numbers(&mut random, F32, Ieee, m * n);
    // A row whose last scale is NaN is NaN.
    let spoiled = m - 3;
    a_scales[(spoiled + 1) * (k / 32) - 1] = 0xff;
    let launch = Launch::new(&made, &[&a, &a_scales, &b, &b_scales, &c_bytes], m * n);
    let (found, reads) = launch.run(3).map_err(fail)?;
    if case.in_loop && reads != 1 {
        return Err(fail(format!("the sum is read {reads} times")));
    }
    let turns = if case.in_loop { 3.0 } else { 1.0 };
    for (at, &value) in found.iter().enumerate() {
        let (row, col) = (at / n, at % n);
        let products = left[row * k..][..k].iter().zip(&right[col * k..][..k]).map(|(a, b)| a * b);
        let (sum, size) = products.fold((0.0, 0.0), |(sum, size), product| (sum + product, size + product.abs()));
        let (exact, size) = (turns * sum + f64::from(c[at]), turns * size + f64::from(c[at].abs()));
        let value = f64::from(value);
        let holds =
            if row == spoiled { value.is_nan() } else { (value - exact).abs() <= bound(size, turns * k as f64) };
        if !holds {
            return Err(fail(format!("[{row}, {col}] is {value}, not {exact}")));
        }
    }
    Ok(())
}

#[test]
fn scaled_products() {
    use ScaledFormat::{E2M1, E4M3, E5M2};
    let formats = [[E4M3, E4M3], [E5M2, E4M3], [E2M1, E2M1], [E4M3, E2M1]];
    let shapes = [
        ([128, 16, 32], 4),
        ([128, 64, 64], 4),
        ([128, 128, 128], 8),
        ([128, 32, 256], 4),
        ([256, 64, 128], 8),
        ([128, 256, 128], 8),
        ([512, 32, 64], 16),
    ];
    let cases: Vec<Scaled> = formats
        .into_iter()
        .flat_map(|formats| {
            shapes
                .into_iter()
                .flat_map(move |(shape, warps)| [false, true].map(|in_loop| Scaled { formats, shape, warps, in_loop }))
        })
        .collect();
    let faults: Vec<String> = cases.par_iter().filter_map(|&case| check_scaled(case).err()).collect();
    assert!(faults.is_empty(), "{} of {}: {}", faults.len(), cases.len(), faults.join("\n"));
}
