//! The host's side of the KDA solve: shapes, options, plans, and runs on a device against a reference in doubles.

#[path = "support/mod.rs"]
mod support;

use half::{bf16, f16};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tilewright::device::{Buffer, Device, Element, EmulatedDevice};
use tilewright::kernels::kda::{
    CHUNK, Error, Host, Inputs, IntraSolve, Options, Precision, Reference, SUB_CHUNK, Shape, reference,
};
use tilewright::ptx::{Arch, DType};

/// A type of q, k, Aqk and Akk, or of β.
trait Number: Element {
    fn of(value: f32) -> Self;
    fn value(self) -> f32;
}

impl Number for bf16 {
    fn of(value: f32) -> Self {
        bf16::from_f32(value)
    }
    fn value(self) -> f32 {
        self.to_f32()
    }
}

#[cfg_attr(not(feature = "llvm"), allow(dead_code, reason = "halves do not come compiled"))]
impl Number for f16 {
    fn of(value: f32) -> Self {
        f16::from_f32(value)
    }
    fn value(self) -> f32 {
        self.to_f32()
    }
}

impl Number for f32 {
    fn of(value: f32) -> Self {
        value
    }
    fn value(self) -> f32 {
        self
    }
}

/// Random arrays of a shape: keys of length one, gates that fall from each chunk's start.
struct Problem<T, B> {
    shape: Shape,
    scale: f32,
    q: Vec<T>,
    k: Vec<T>,
    g: Vec<f32>,
    beta: Vec<B>,
    right: Reference,
}

impl<T: Number, B: Number> Problem<T, B> {
    fn new(shape: Shape, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let amplitude = (3.0 / shape.key_dim as f32).sqrt();
        let mut vectors = |count: usize| -> Vec<T> {
            (0..count).map(|_| T::of(random.random_range(-amplitude..amplitude))).collect()
        };
        let (q, k) = (vectors(shape.elements_qk()), vectors(shape.elements_qk()));
        let beta: Vec<B> = (0..shape.elements_beta()).map(|_| B::of(random.random_range(0.1..1.0))).collect();
        let mut g = vec![0.0; shape.elements_g()];
        let pitch = shape.value_heads * shape.key_dim;
        for (first, tokens) in shape.spans() {
            for (token, at) in (0..tokens).flat_map(|token| (0..pitch).map(move |at| (token, at))) {
                let before = if token % CHUNK == 0 { 0.0 } else { g[(first + token - 1) * pitch + at] };
                g[(first + token) * pitch + at] = before - random.random_range(0.0..0.2_f32);
            }
        }
        Self::of(shape, (q, k), g, beta)
    }

    fn of(shape: Shape, (q, k): (Vec<T>, Vec<T>), g: Vec<f32>, beta: Vec<B>) -> Self {
        let wide = |values: &[T]| -> Vec<f32> { values.iter().map(|value| value.value()).collect() };
        let (wide_q, wide_k) = (wide(&q), wide(&k));
        let wide_beta: Vec<f32> = beta.iter().map(|value| value.value()).collect();
        let scale = (shape.key_dim as f32).sqrt().recip();
        let host = Host { q: &wide_q, k: &wide_k, g: &g, beta: &wide_beta };
        let right = reference(&shape, scale, &host).unwrap();
        Self { shape, scale, q, k, g, beta, right }
    }

    fn solve(&self, options: &Options) -> (Vec<T>, Vec<T>) {
        self.solve_on(&support::device(), options)
    }

    /// Solves on the device; outputs hold `T::of(POISON)` first.
    fn solve_on<D: Device + ?Sized>(&self, device: &D, options: &Options) -> (Vec<T>, Vec<T>) {
        let solve = IntraSolve::plan(self.shape.clone(), options).unwrap();
        let blocks = if options.safe_gate { &self.right.diagonal_inverses } else { &self.right.diagonal };
        let mut diagonal: Vec<f32> = blocks.iter().map(|&value| value as f32).collect();
        if !options.safe_gate {
            // Only what is below the diagonal is read.
            for (at, value) in diagonal.iter_mut().enumerate().filter(|(_, value)| **value == 0.0) {
                *value = if at % 2 == 0 { 1e30 } else { -3.0 };
            }
        }
        let q = Buffer::from_slice(device, &self.q, "q").unwrap();
        let k = Buffer::from_slice(device, &self.k, "k").unwrap();
        let g = Buffer::from_slice(device, &self.g, "g").unwrap();
        let beta = Buffer::from_slice(device, &self.beta, "beta").unwrap();
        let diagonal = Buffer::from_slice(device, &diagonal, "diagonal").unwrap();
        let poison = vec![T::of(POISON); self.shape.elements_out()];
        let mut aqk = Buffer::from_slice(device, &poison, "Aqk").unwrap();
        let mut akk = Buffer::from_slice(device, &poison, "Akk").unwrap();
        let chunks = solve.chunk_list(device).unwrap();
        let inputs = Inputs { q: &q, k: &k, g: &g, beta: &beta, diagonal: &diagonal, chunks: chunks.as_ref() };
        solve.solve(device, &inputs, &mut aqk, &mut akk).unwrap();
        (aqk.to_vec().unwrap(), akk.to_vec().unwrap())
    }

    /// Holds what is written to the reference, and what must not be written to the poison.
    #[track_caller]
    fn check(&self, options: &Options) {
        self.check_on(&support::device(), options);
    }

    #[track_caller]
    fn check_on<D: Device + ?Sized>(&self, device: &D, options: &Options) {
        let (aqk, akk) = self.solve_on(device, options);
        let poison = T::of(POISON).value();
        let (mut products, mut inverses) = (Relative::default(), Relative::default());
        let mut checked = 0;
        for (first, tokens) in self.shape.spans() {
            for (token, head) in
                (0..tokens).flat_map(|token| (0..self.shape.value_heads).map(move |head| (token, head)))
            {
                let block = token % CHUNK / SUB_CHUNK;
                for column in 0..CHUNK {
                    let at = ((first + token) * self.shape.value_heads + head) * CHUNK + column;
                    let column = column / SUB_CHUNK;
                    if column < block {
                        products.add(aqk[at].value(), self.right.aqk[at]);
                    } else {
                        assert_eq!(aqk[at].value(), poison, "Aqk, element {at}, is not to be written");
                    }
                    if column <= block {
                        inverses.add(akk[at].value(), self.right.akk[at]);
                    } else {
                        assert_eq!(akk[at].value(), poison, "Akk, element {at}, is not to be written");
                    }
                    checked += 1;
                }
            }
        }
        assert_eq!(checked, aqk.len());
        products.check("Aqk", &self.shape, options);
        inverses.check("Akk", &self.shape, options);
    }
}

/// A number that no result is, and that every type has.
const POISON: f32 = -12288.0;

/// An error relative to the root of mean squares.
#[derive(Default)]
struct Relative {
    error: f64,
    size: f64,
}

impl Relative {
    fn add(&mut self, found: f32, right: f64) {
        self.error += (f64::from(found) - right).powi(2);
        self.size += right.powi(2);
    }

    #[track_caller]
    fn check(&self, what: &str, shape: &Shape, options: &Options) {
        let relative = if self.error == 0.0 { 0.0 } else { (self.error / self.size).sqrt() };
        println!("{what}: {relative:.2e}");
        assert!(relative <= 0.005, "{what} of {shape:?} with {options:?} has a relative error of {relative}");
    }
}

fn bf16_problem(shape: Shape, seed: u64) -> Problem<bf16, f32> {
    Problem::new(shape, seed)
}

/// Lengths at and around the ends of sub-chunks and chunks.
#[test]
fn fixed_lengths() {
    for (seed, tokens) in [1, 2, 15, 16, 17, 63, 64, 65, 130].into_iter().enumerate() {
        bf16_problem(Shape::fixed(2, tokens, 2, 64), seed as u64).check(&Options::default());
    }
}

#[test]
fn every_target() {
    let problem = bf16_problem(Shape::fixed(1, 100, 1, 128), 20);
    for arch in Arch::ALL {
        let device = EmulatedDevice::builder().arch(arch).build();
        for safe_gate in [false, true] {
            problem.check_on(&device, &Options { safe_gate, ..Options::for_device(&device) });
        }
    }
}

/// Empty sequences, single tokens, sub-chunks and chunks that end early, and whole ones.
#[test]
fn packed_sequences() {
    for safe_gate in [false, true] {
        let shape = Shape::packed(&[0, 1, 1, 21, 85, 85, 182], 2, 64);
        bf16_problem(shape, 30).check(&Options { safe_gate, ..Options::default() });
    }
}

#[test]
fn grouped_heads() {
    for (heads, value_heads) in [(1, 3), (2, 6)] {
        bf16_problem(Shape::fixed(2, 70, heads, 64).grouped(value_heads), 40).check(&Options::default());
        bf16_problem(Shape::packed(&[0, 50, 70], heads, 64).grouped(value_heads), 41).check(&Options::default());
    }
}

/// Channels that end inside a block of 64 too.
#[test]
fn every_number_of_channels() {
    for key_dim in [16, 48, 80, 128, 256] {
        bf16_problem(Shape::fixed(1, 64, 1, key_dim), key_dim as u64).check(&Options::default());
    }
}

#[test]
fn every_precision_and_gate() {
    let problem = bf16_problem(Shape::fixed(1, 113, 2, 128), 50);
    for precision in [Precision::Ieee, Precision::Tf32, Precision::Tf32x3] {
        for safe_gate in [false, true] {
            problem.check(&Options { precision, safe_gate, ..Options::default() });
        }
    }
}

/// With IEEE products and exact storage nothing but TF32 in the off-diagonal blocks of A is left of the error.
#[cfg(feature = "llvm")]
#[test]
fn other_types_are_compiled() {
    let shape = Shape::fixed(1, 80, 1, 64);
    let options = Options { precision: Precision::Ieee, ..Options::default() };
    Problem::<f16, bf16>::new(shape.clone(), 60).check(&Options { io: DType::Fp16, beta: DType::Bf16, ..options });
    Problem::<f32, f16>::new(shape, 61).check(&Options { io: DType::Fp32, beta: DType::Fp16, ..options });
}

/// One key again and again, which hardly decays: A is 1 everywhere, and its powers, of which a series would be made, reach 6435 and
/// cancel. One sub-chunk of singles, so that what is seen is the error of its inverse alone: a product in three parts drops 2⁻²² of each term,
/// and no entry is the sum of more than 16 terms below 1 in size, six products one after the other.
#[cfg(feature = "llvm")]
#[test]
fn repeated_keys_are_inverted_in_singles_precision() {
    let shape = Shape::fixed(1, 16, 1, 64);
    let key = |at: usize| if (at % 64).is_multiple_of(3) { 0.2 } else { -0.1_f32 };
    let norm = (0..64).map(|at| key(at) * key(at)).sum::<f32>().sqrt();
    let keys: Vec<f32> = (0..shape.elements_qk()).map(|at| key(at) / norm).collect();
    let g: Vec<f32> = (0..shape.elements_g()).map(|at| -1e-3 * (at / 64) as f32).collect();
    let beta = vec![1.0_f32; shape.elements_beta()];
    let problem = Problem::<f32, f32>::of(shape, (keys.clone(), keys), g, beta);
    for precision in [Precision::Tf32, Precision::Tf32x3, Precision::Ieee] {
        let (_, akk) = problem.solve(&Options { precision, io: DType::Fp32, ..Options::default() });
        for (at, &right) in problem.right.akk.iter().enumerate().filter(|(at, _)| at % 64 < 16 && at % 64 <= at / 64) {
            let error = (f64::from(akk[at]) - right).abs();
            assert!(error <= 6.0 * 16.0 * 2_f64.powi(-22), "{precision:?}: off by {error:e} at {at}");
        }
    }
}

#[cfg(not(feature = "llvm"))]
#[test]
fn other_types_need_the_compiler() {
    let error = IntraSolve::plan(Shape::fixed(1, 80, 1, 64), &Options { io: DType::Fp16, ..Options::default() });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("build with feature `llvm`") && error.contains("kda_inter_solve"), "{error}");
}

/// A row depends on no later token: not even by rounding.
#[test]
fn the_future_does_not_leak() {
    let mut problem = bf16_problem(Shape::fixed(1, 64, 1, 64), 70);
    let before = problem.solve(&Options::default());
    // Other gates, keys and queries from row 37 on.
    for at in 37 * 64..64 * 64 {
        problem.g[at] -= 3.0;
        problem.k[at] = bf16::from_f32(0.01);
        problem.q[at] = bf16::from_f32(-0.5);
    }
    let after = problem.solve(&Options::default());
    assert_ne!(before, after);
    for at in 0..37 * CHUNK {
        assert_eq!((before.0[at], before.1[at]), (after.0[at], after.1[at]), "element {at}");
    }
}

#[test]
fn a_capture_gives_what_a_run_gives() {
    let problem = bf16_problem(Shape::packed(&[0, 30, 100], 1, 64), 80);
    let device = support::device();
    let options = Options::for_device(&device);
    let solve = IntraSolve::plan(problem.shape.clone(), &options).unwrap();
    let diagonal: Vec<f32> = problem.right.diagonal.iter().map(|&value| value as f32).collect();
    let q = Buffer::from_slice(&device, &problem.q, "q").unwrap();
    let k = Buffer::from_slice(&device, &problem.k, "k").unwrap();
    let g = Buffer::from_slice(&device, &problem.g, "g").unwrap();
    let beta = Buffer::from_slice(&device, &problem.beta, "beta").unwrap();
    let diagonal = Buffer::from_slice(&device, &diagonal, "diagonal").unwrap();
    let poison = vec![bf16::from_f32(POISON); problem.shape.elements_out()];
    let mut aqk = Buffer::from_slice(&device, &poison, "Aqk").unwrap();
    let mut akk = Buffer::from_slice(&device, &poison, "Akk").unwrap();
    let chunks = solve.chunk_list(&device).unwrap();
    let mut inputs = Inputs { q: &q, k: &k, g: &g, beta: &beta, diagonal: &diagonal, chunks: chunks.as_ref() };
    let mut replay = solve.capture(&device, &inputs, &mut aqk, &mut akk).unwrap();
    assert_eq!(aqk.to_vec().unwrap(), poison, "a capture runs nothing");
    replay.replay().unwrap();
    assert_eq!((aqk.to_vec().unwrap(), akk.to_vec().unwrap()), problem.solve(&options));

    // The list of another plan, and none.
    let other = IntraSolve::plan(Shape::packed(&[0, 31, 100], 1, 64), &options).unwrap().chunk_list(&device).unwrap();
    inputs.chunks = other.as_ref();
    assert!(matches!(solve.solve(&device, &inputs, &mut aqk, &mut akk), Err(Error::ChunkList { .. })));
    inputs.chunks = None;
    let error = solve.solve(&device, &inputs, &mut aqk, &mut akk).unwrap_err().to_string();
    assert!(error.contains("there is no chunk list"), "{error}");
}

#[test]
fn nothing_to_do_is_fine() {
    for shape in [
        Shape::fixed(0, 10, 1, 64),
        Shape::fixed(3, 0, 1, 64),
        Shape::packed(&[0], 1, 64),
        Shape::packed(&[0, 0], 1, 64),
    ] {
        let solve = IntraSolve::plan(shape.clone(), &Options::default()).unwrap();
        assert!(solve.launches().launches().is_empty());
        bf16_problem(shape, 0).check(&Options::default());
    }
}

/// What is wrong is named with its value and the rule, before anything is made.
#[test]
fn shapes_that_break_a_rule_are_refused() {
    let shapes = [
        (Shape::fixed(1, 64, 0, 64), "KDA: heads is 0: it must be from 1 to 4096"),
        (Shape::fixed(1, 64, 2, 64).grouped(3), "KDA: value_heads is 3: it must be a multiple of heads, 2"),
        (Shape::fixed(1, 64, 1, 512), "KDA: key_dim is 512: it must be from 16 to 256"),
        (Shape::fixed(1, 64, 1, 100), "KDA: key_dim is 100: it must be a multiple of 16"),
        (Shape::fixed(1, 1 << 31, 1, 64), "KDA: tokens is 2147483648: it must be from 0 to 2147483583"),
        (Shape::fixed(4096, 64, 32, 64), "KDA: batch is 4096: with value_heads = 32 it must be at most 2047"),
        (Shape::packed(&[], 1, 64), "KDA: cu_seqlens is empty: it must have one number more than there are sequences"),
        (Shape::packed(&[1, 5], 1, 64), "KDA: cu_seqlens[0] is 1: it must be 0"),
        (Shape::packed(&[0, 9, 5], 1, 64), "KDA: cu_seqlens[2] is 5: it must not be less than the number before it, 9"),
        (
            Shape::packed(&[0, 1 << 40], 1, 64),
            "KDA: cu_seqlens[1] is 1099511627776: the sequence has more than 2147483583 tokens",
        ),
    ];
    for (shape, message) in shapes {
        assert_eq!(IntraSolve::plan(shape, &Options::default()).unwrap_err().to_string(), message);
    }
    let options = Options { beta: DType::I64, ..Options::default() };
    let error = IntraSolve::plan(Shape::fixed(1, 64, 1, 64), &options).unwrap_err().to_string();
    assert_eq!(error, "KDA: beta is i64: it must be bf16, fp16 or fp32");
}

#[test]
fn buffers_that_break_a_rule_are_refused() {
    let device = EmulatedDevice::new();
    let problem = bf16_problem(Shape::fixed(1, 20, 1, 64), 90);
    let solve = IntraSolve::plan(problem.shape.clone(), &Options::default()).unwrap();
    let keys = Buffer::from_slice(&device, &problem.k, "k").unwrap();
    let short = keys.view(..20 * 64 - 1).unwrap();
    let singles = Buffer::<f32>::zeroed(&device, 20 * 64, "g").unwrap();
    let out = || Buffer::<bf16>::zeroed(&device, 20 * 64, "out").unwrap();
    let run = |q: &Buffer<bf16>, k: &Buffer<bf16>, mut aqk: Buffer<bf16>, mut akk: Buffer<bf16>| {
        let inputs = Inputs { q, k, g: &singles, beta: &singles, diagonal: &singles, chunks: None };
        solve.solve(&device, &inputs, &mut aqk, &mut akk)
    };
    run(&keys, &keys, out(), out()).unwrap();
    let error = run(&keys, &short, out(), out()).unwrap_err().to_string();
    assert!(error.contains("`k`") && error.contains("1279") && error.contains("1280"), "{error}");
    let (one, same) = {
        let one = out();
        let same = one.view(..).unwrap();
        (one, same)
    };
    let error = run(&keys, &keys, one, same).unwrap_err().to_string();
    assert!(error.contains("Akk") && error.contains("apart"), "{error}");
    // Another type than the options say.
    let (mut aqk, mut akk) = (singles.view(..).unwrap(), Buffer::<f32>::zeroed(&device, 20 * 64, "out").unwrap());
    let inputs = Inputs { q: &singles, k: &singles, g: &singles, beta: &singles, diagonal: &singles, chunks: None };
    let error = solve.solve(&device, &inputs, &mut aqk, &mut akk).unwrap_err().to_string();
    assert!(error.contains("bf16"), "{error}");
}

/// The reference by a second way: (I + A)·Akk = I with A from its definition, and the diagonal blocks of both.
#[test]
fn the_reference_inverts() {
    let problem = bf16_problem(Shape::fixed(1, 40, 1, 16), 100);
    let value = |at: usize| f64::from(problem.k[at].to_f32());
    let a = |i: usize, j: usize| -> f64 {
        let sum: f64 = (0..16)
            .map(|c| {
                let decay = f64::from(problem.g[i * 16 + c]) - f64::from(problem.g[j * 16 + c]);
                value(i * 16 + c) * value(j * 16 + c) * decay.exp2()
            })
            .sum();
        if j < i { sum * f64::from(problem.beta[i]) } else { 0.0 }
    };
    let x = |i: usize, j: usize| problem.right.akk[i * CHUNK + j];
    for (i, j) in (0..40).flat_map(|i| (0..40).map(move |j| (i, j))) {
        let product = x(i, j) + (0..i).map(|u| a(i, u) * x(u, j)).sum::<f64>();
        let unit = f64::from(u8::from(i == j));
        assert!((product - unit).abs() < 1e-12, "({i}, {j}) is {product}");
        if i / SUB_CHUNK == j / SUB_CHUNK {
            let given = problem.right.diagonal[i * SUB_CHUNK + j % SUB_CHUNK];
            assert!((given - a(i, j)).abs() < 1e-12, "({i}, {j})");
        }
    }
    assert_eq!(problem.scale, 0.25);
}
