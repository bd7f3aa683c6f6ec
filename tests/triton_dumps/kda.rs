//! The intra-chunk solve of KDA, in its variants.
//!
//! For a chunk of 64 tokens, with decays exp2(g), A(i, j) = β(i)·Σ k(i)·k(j)·exp2(g(i) − g(j)) for j < i, and the kernel gives the
//! inverse of I + A, and Aqk(i, j) = scale·Σ q(i)·k(j)·exp2(g(i) − g(j)) for blocks of 16 under the diagonal ones. The blocks
//! of A on the diagonal come from an earlier kernel.

use half::bf16;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::harness::{ARCHS, Arg, floats, halves, run};

/// Heads in memory, of which the first few are computed; elements of a head; tokens of a chunk and of a block.
const HEADS: usize = 32;
const K: usize = 128;
const CHUNK: usize = 64;
const BLOCK: usize = 16;
const COMPUTED: usize = 2;

/// The precision of the merged inverse's products.
#[derive(Clone, Copy, PartialEq)]
enum Precision {
    Tf32,
    Full,
}

struct Inputs {
    q: Vec<u16>,
    k: Vec<u16>,
    g: Vec<f32>,
    beta: Vec<f32>,
    /// Blocks on the diagonal: A, or the inverse of I + A.
    diagonal: Vec<f32>,
}

fn value(bits: u16) -> f64 {
    bf16::from_bits(bits).to_f64()
}

/// Sequences of tokens, as first and last but one.
type Sequences = [(usize, usize)];

impl Inputs {
    /// Keys of length one and gates that decay, as the model has them.
    fn new(sequences: &Sequences, inverted: bool, seed: u64) -> Self {
        let tokens = sequences.last().unwrap().1;
        let mut random = StdRng::seed_from_u64(seed);
        let mut vectors = || -> Vec<u16> {
            let values = (0..tokens * HEADS * K).map(|_| random.random_range(-1.0..1.0_f32) * (3.0 / K as f32).sqrt());
            values.map(|value| bf16::from_f32(value).to_bits()).collect()
        };
        let (q, k) = (vectors(), vectors());
        let beta: Vec<f32> = (0..tokens * HEADS).map(|_| random.random_range(0.1..1.0)).collect();
        // Gates are sums of logarithms from the start of each chunk.
        let mut g = vec![0.0; tokens * HEADS * K];
        for &(first, end) in sequences {
            for token in first..end {
                for at in 0..HEADS * K {
                    let step = -random.random_range(0.0..0.2_f32);
                    let before =
                        if (token - first).is_multiple_of(CHUNK) { 0.0 } else { g[(token - 1) * HEADS * K + at] };
                    g[token * HEADS * K + at] = before + step;
                }
            }
        }
        let mut inputs = Self { q, k, g, beta, diagonal: vec![f32::NAN; tokens * HEADS * BLOCK] };
        for (head, &(first, end)) in (0..COMPUTED).flat_map(|head| sequences.iter().map(move |all| (head, all))) {
            for start in (first..end).step_by(BLOCK) {
                let size = BLOCK.min(end - start);
                let block = inputs.block(head, start, size);
                let block = if inverted { inverse(&block, size) } else { block };
                for (row, column) in (0..size).flat_map(|row| (0..BLOCK).map(move |column| (row, column))) {
                    let value = if column < size { block[row * size + column] } else { 0.0 };
                    inputs.diagonal[((start + row) * HEADS + head) * BLOCK + column] = value as f32;
                }
            }
        }
        inputs
    }

    /// Σ x(i)·k(j)·exp2(g(i) − g(j)), and the sum of its terms' magnitudes.
    fn decayed(&self, x: &[u16], head: usize, i: usize, j: usize) -> (f64, f64) {
        let at = |token: usize, p: usize| (token * HEADS + head) * K + p;
        (0..K).fold((0.0, 0.0), |(sum, magnitude), p| {
            let decay = (f64::from(self.g[at(i, p)]) - f64::from(self.g[at(j, p)])).exp2();
            let term = value(x[at(i, p)]) * value(self.k[at(j, p)]) * decay;
            (sum + term, magnitude + term.abs())
        })
    }

    fn a(&self, head: usize, i: usize, j: usize) -> f64 {
        if j < i { f64::from(self.beta[i * HEADS + head]) * self.decayed(&self.k, head, i, j).0 } else { 0.0 }
    }

    /// A of `size` tokens from `start`.
    fn block(&self, head: usize, start: usize, size: usize) -> Vec<f64> {
        (0..size * size).map(|index| self.a(head, start + index / size, start + index % size)).collect()
    }
}

/// (I + A)⁻¹ by forward substitution.
fn inverse(a: &[f64], size: usize) -> Vec<f64> {
    let mut x = vec![0.0; size * size];
    for column in 0..size {
        for row in column..size {
            let known: f64 = (column..row).map(|p| a[row * size + p] * x[p * size + column]).sum();
            x[row * size + column] = f64::from(u8::from(row == column)) - known;
        }
    }
    x
}

/// What nothing wrote: a value that no result has.
const POISON: u16 = 0x7fa5;

fn check(kernel: &str, sequences: &Sequences, inverted: bool, varlen: bool, precision: Precision) {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    let inputs = Inputs::new(sequences, inverted, 41);
    let tokens = sequences.last().unwrap().1;
    let scale = 0.0884_f32;
    // Chunks of each sequence.
    let chunks: Vec<(usize, usize)> = sequences
        .iter()
        .enumerate()
        .flat_map(|(index, (first, end))| (0..(end - first).div_ceil(CHUNK)).map(move |chunk| (index, chunk)))
        .collect();
    let long =
        |values: Vec<usize>| Arg::Bytes(values.into_iter().flat_map(|value| (value as u64).to_le_bytes()).collect());
    for arch in ARCHS {
        let poison = vec![POISON; tokens * HEADS * CHUNK];
        let mut args = vec![
            halves(&inputs.q),
            halves(&inputs.k),
            floats(&inputs.g),
            floats(&inputs.beta),
            halves(&poison),
            floats(&inputs.diagonal),
            halves(&poison),
            Arg::Float(scale),
        ];
        if varlen {
            args.push(long([0].into_iter().chain(sequences.iter().map(|sequence| sequence.1)).collect()));
            args.push(long(chunks.iter().flat_map(|&(index, chunk)| [index, chunk]).collect()));
        }
        args.push(Arg::Int(tokens as i32));
        let out = run(arch, kernel, &args, [chunks.len() as u32, COMPUTED as u32, 1]);
        let (products, inverses) = (out.halves(4), out.halves(6));
        let mut errors = [Relative::default(), Relative::default()];
        let mut seen = vec![false; products.len()];
        for (&(index, chunk), head) in chunks.iter().flat_map(|chunk| (0..COMPUTED).map(move |head| (chunk, head))) {
            let (first, end) = sequences[index];
            let start = first + chunk * CHUNK;
            let size = CHUNK.min(end - start);
            let exact = inverse(&inputs.block(head, start, size), size);
            for (row, column) in (0..size).flat_map(|row| (0..CHUNK).map(move |column| (row, column))) {
                let at = ((start + row) * HEADS + head) * CHUNK + column;
                let (block_row, block_column) = (row / BLOCK, column / BLOCK);
                seen[at] = block_column <= block_row;
                // On a diagonal block that is not full the kernel writes zeros past the end.
                let expected = if column < size { exact[row * size + column] } else { 0.0 };
                if block_column < block_row {
                    let (sum, magnitude) = inputs.decayed(&inputs.q, head, start + row, start + column);
                    let scale = f64::from(scale);
                    // tf32 operands lose 2⁻¹⁰ each, the result is rounded to 2⁻⁹.
                    errors[0].add(value(products[at]), sum * scale, magnitude * scale / 256.0, at, arch);
                } else {
                    assert_eq!(products[at], POISON, "{arch}/{kernel}: Aqk ({row}, {column}) is touched");
                }
                if block_column <= block_row {
                    // Elements of the inverse are of the order of one. The off-diagonal A is made with tf32 in every variant.
                    let allowed = 0.5_f64.powi(if precision == Precision::Tf32 { 8 } else { 9 });
                    errors[1].add(value(inverses[at]), expected, allowed + expected.abs() / 256.0, at, arch);
                } else {
                    assert_eq!(inverses[at], POISON, "{arch}/{kernel}: Akk ({row}, {column}) is touched");
                }
            }
        }
        for (at, seen) in seen.into_iter().enumerate() {
            assert!(
                seen || (products[at], inverses[at]) == (POISON, POISON),
                "{arch}/{kernel}: element {at} is touched"
            );
        }
        for (error, what) in errors.iter().zip(["Aqk", "the inverse"]) {
            let relative = error.relative();
            assert!(relative <= 0.005, "{arch}/{kernel}: {what} has a relative error of {relative}");
        }
    }
}

/// A relative error in the root of mean squares.
#[derive(Default)]
struct Relative {
    error: f64,
    size: f64,
}

impl Relative {
    fn add(&mut self, found: f64, expected: f64, allowed: f64, at: usize, arch: &str) {
        let error = (found - expected).abs();
        assert!(
            error <= allowed,
            "{arch}: element {at} is {found}, expected {expected}: off by {error}, {allowed} allowed"
        );
        self.error += error * error;
        self.size += expected * expected;
    }

    fn relative(&self) -> f64 {
        (self.error / self.size).sqrt()
    }
}

/// Two chunks, of which the second ends inside its third block.
const FIXED: [(usize, usize); 1] = [(0, 105)];

#[test]
fn tf32() {
    check("chunk_kda_fwd_kernel_inter_solve_fused", &FIXED, false, false, Precision::Tf32);
}

#[test]
fn ieee() {
    check("chunk_kda_fwd_kernel_inter_solve_fused@ieee", &FIXED, false, false, Precision::Full);
}

#[test]
fn tf32x3() {
    check("chunk_kda_fwd_kernel_inter_solve_fused@tf32x3", &FIXED, false, false, Precision::Full);
}

#[test]
fn safe_gate() {
    check("chunk_kda_fwd_kernel_inter_solve_fused@safegate", &FIXED, true, false, Precision::Tf32);
}

#[test]
fn variable_lengths() {
    // A single token, a block and a bit, more than a chunk.
    let sequences = [(0, 1), (1, 20), (20, 117)];
    check("chunk_kda_fwd_kernel_inter_solve_fused@varlen", &sequences, false, true, Precision::Tf32);
}
