//! The diagonal step of the factorisation of large matrices, `potrf_diag`: the factor of a 128-by-128 block, what the rows below
//! are solved with, and `info`.
//!
//! On the emulator with all checks on, for every target, or on the GPU with `TILEWRIGHT_DEVICE=gpu`.

mod support;

use std::sync::Arc;

use support::batch::UNTOUCHED;
use support::families::Family;
use support::oracle::{check_factor, factor_f64};
use tilewright::device::{self, Arg, Buffer, Device, EmulatedDevice};
use tilewright::ptx;
use tilewright::template::PotrfDiag;

/// Order of the block, and of the blocks on its diagonal that are inverted.
const NB: usize = 128;
const B: usize = 32;

/// How the matrices lie around their blocks, all in elements.
#[derive(Clone, Copy, Debug)]
struct Place {
    n: usize,
    k: usize,
    lda: usize,
    ldl: usize,
    stride_a: usize,
    stride_l: usize,
    /// Elements before the first matrix.
    offset: usize,
    in_place: bool,
}

impl Place {
    /// Blocks of `size` at (k, k), apart, with no gaps.
    fn of(size: usize, k: usize) -> Self {
        let n = if size == NB { k + size + 64 } else { k + size };
        Self { n, k, lda: n, ldl: n, stride_a: n * n, stride_l: n * n, offset: 0, in_place: false }
    }

    /// The same with odd gaps after rows and matrices, and no alignment.
    fn with_gaps(size: usize, k: usize) -> Self {
        let Self { n, .. } = Self::of(size, k);
        Self {
            lda: n + 5,
            ldl: n + 2,
            stride_a: n * (n + 5) + 3,
            stride_l: n * (n + 2) + 1,
            offset: 1,
            ..Self::of(size, k)
        }
    }

    /// In place, with gaps that keep rows on 16 bytes.
    fn in_place(size: usize, k: usize) -> Self {
        let Self { n, .. } = Self::of(size, k);
        let ld = n.next_multiple_of(4) + 4;
        Self { lda: ld, ldl: ld, stride_a: n * ld + 8, stride_l: n * ld + 8, in_place: true, ..Self::of(size, k) }
    }

    /// In place, with odd gaps.
    fn in_place_with_gaps(size: usize, k: usize) -> Self {
        let Self { n, .. } = Self::of(size, k);
        let (ld, stride) = (n + 1, n * (n + 1) + 7);
        Self { lda: ld, ldl: ld, stride_a: stride, stride_l: stride, in_place: true, offset: 3, ..Self::of(size, k) }
    }

    /// One of the four.
    fn number(number: usize, size: usize, k: usize) -> Self {
        [Self::of, Self::with_gaps, Self::in_place, Self::in_place_with_gaps][number % 4](size, k)
    }

    /// Order of the block.
    fn size(&self) -> usize {
        (self.n - self.k).min(NB)
    }

    fn a(&self, b: usize, i: usize, j: usize) -> usize {
        self.offset + b * self.stride_a + (self.k + i) * self.lda + self.k + j
    }

    fn l(&self, b: usize, i: usize, j: usize) -> usize {
        self.offset + b * self.stride_l + (self.k + i) * self.ldl + self.k + j
    }
}

/// What came of a batch: factors of order `size` and blocks for the solve, contiguous.
struct Outcome {
    factors: Vec<f32>,
    solve: Vec<f32>,
    info: Vec<i32>,
}

/// The GPU, or the emulator as each target.
fn devices() -> Vec<Arc<dyn Device>> {
    if std::env::var_os(device::ENVIRONMENT).is_some() {
        return vec![support::device()];
    }
    let emulated = |arch| Arc::new(EmulatedDevice::builder().arch(arch).build()) as Arc<dyn Device>;
    ptx::Arch::ALL.into_iter().map(emulated).collect()
}

/// The entries (matrix, row, column) of blocks of order `size`.
fn entries(batch: usize, size: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..batch * size * size).map(move |index| (index / (size * size), index / size % size, index % size))
}

/// Runs the kernel on `blocks`, with `info` as it is before. Only lower triangles are numbers, nothing follows the last of
/// them in memory, and only blocks are written.
fn run(device: &dyn Device, kernel: PotrfDiag, place: Place, blocks: &[f32], before: &[i32]) -> Outcome {
    let (batch, size) = (before.len(), place.size());
    let module = kernel.instantiate(device.properties().arch).unwrap();
    let entry = device.load(&module.clone().into()).unwrap().kernel(&module.meta.kernels[0].name).unwrap();
    let mut memory = vec![f32::NAN; place.a(batch - 1, size - 1, size - 1) + 1];
    for (b, i, j) in entries(batch, size).filter(|entry| entry.2 <= entry.1) {
        memory[place.a(b, i, j)] = blocks[(b * size + i) * size + j];
    }
    let whole = Buffer::from_slice(device, &memory, "a").unwrap();
    let a = whole.view(place.offset..).unwrap();
    let poison = vec![UNTOUCHED; place.l(batch - 1, size - 1, size - 1) + 1];
    let factored =
        if place.in_place { whole.view(..).unwrap() } else { Buffer::from_slice(device, &poison, "l").unwrap() };
    let mut l = factored.view(place.offset..).unwrap();
    let mut info = Buffer::from_slice(device, before, "info").unwrap();
    let mut solve = Buffer::from_slice(device, &vec![f32::NAN; batch * NB * NB], "solve").unwrap();
    let args: [Arg; 11] = [
        (&a).into(),
        (&mut l).into(),
        (&mut info).into(),
        (&mut solve).into(),
        (place.stride_a as i64).into(),
        (place.stride_l as i64).into(),
        (place.lda as i32).into(),
        (place.ldl as i32).into(),
        (place.n as i32).into(),
        (place.k as i32).into(),
        (batch as i32).into(),
    ];
    device.launch(&entry, [batch as u32, 1, 1], &args).unwrap();
    let after = factored.to_vec().unwrap();
    let mut outside = if place.in_place { memory.clone() } else { poison };
    let mut factors = Vec::with_capacity(blocks.len());
    for (b, i, j) in entries(batch, size) {
        let index = place.l(b, i, j);
        factors.push(after[index]);
        outside[index] = after[index];
    }
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert!(bits(&outside) == bits(&after), "{place:?}: written outside the block");
    assert!(place.in_place || bits(&memory) == bits(&whole.to_vec().unwrap()), "{place:?}: the input was written");
    Outcome { factors, solve: solve.to_vec().unwrap(), info: info.to_vec().unwrap() }
}

/// Entry (i, j) of the factor of order `size` padded with an identity.
fn padded(factor: &[f32], size: usize, i: usize, j: usize) -> f32 {
    match (i < size && j < size, i == j) {
        (true, _) => factor[i * size + j],
        (false, true) => 1.0,
        (false, false) => 0.0,
    }
}

/// The largest entry of |X·Y − I| over n·u times that of |X|·|Y| (at least 1), for lower triangles of order `B` given by entry.
fn off_identity(x: impl Fn(usize, usize) -> f64, y: impl Fn(usize, usize) -> f64) -> f64 {
    let mut largest = 0.0_f64;
    for (i, j) in (0..B * B).map(|index| (index / B, index % B)).filter(|entry| entry.1 <= entry.0) {
        let terms = (j..=i).map(|p| x(i, p) * y(p, j));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
        let identity = if i == j { 1.0 } else { 0.0 };
        let bound = B as f64 * 2.0_f64.powi(-24) * f64::max(size, 1.0);
        // `max` would drop a NaN.
        let off = (sum - identity).abs() / bound;
        assert!(!off.is_nan(), "({i}, {j}) is {sum}");
        largest = largest.max(off);
    }
    largest
}

/// A factor against f64, and its block for the solve against both.
#[track_caller]
fn check(a: &[f32], factor: &[f32], solve: &[f32], size: usize, what: &str) {
    check_factor(a, factor, size, what);
    for (i, j) in (0..NB * NB).map(|index| (index / NB, index % NB)).filter(|(i, j)| i / B != j / B) {
        let expected = if j < i { padded(factor, size, i, j) } else { 0.0 };
        let found = solve[i * NB + j];
        assert_eq!(found.to_bits(), expected.to_bits(), "{what}: ({i}, {j}) of the solve is {found}, not {expected}");
    }
    let exact = factor_f64(a, size).unwrap();
    for first in (0..NB).step_by(B) {
        let what = format!("{what}, the inverse at {first}");
        let l = |i: usize, j: usize| f64::from(padded(factor, size, first + i, first + j));
        let w = |i: usize, j: usize| f64::from(solve[(first + i) * NB + first + j]);
        for (i, j) in (0..B * B).map(|index| (index / B, index % B)).filter(|(i, j)| j > i) {
            assert_eq!(solve[(first + i) * NB + first + j].to_bits(), 0, "{what}: ({i}, {j}) is above the diagonal");
        }
        // L·W = I to the accuracy of a substitution, which is what a solve by W rests on.
        let residual = off_identity(l, w);
        assert!(residual <= 1.0, "{what}: L·W is {residual} times what it may be from I");
        // W·L = I, and W itself, to the condition number.
        for j in 0..B {
            let mut column = [0.0; B];
            for i in j..B {
                let of = |row: usize, column: usize| match row < size && column < size {
                    true => exact[row * size + column],
                    false => f64::from(padded(factor, size, row, column)),
                };
                let sum: f64 = (j..i).map(|p| of(first + i, first + p) * column[p]).sum();
                column[i] = (if i == j { 1.0 } else { 0.0 } - sum) / of(first + i, first + i);
            }
            let largest = column.iter().fold(0.0_f64, |size, value| size.max(value.abs()));
            for (i, value) in column.iter().enumerate() {
                let off = (w(i, j) - value).abs();
                assert!(off <= 2e-2 * largest, "{what}: W({i}, {j}) is {off} from {value}");
            }
        }
    }
}

const KERNELS: [PotrfDiag; 2] = [PotrfDiag { warps: 8 }, PotrfDiag { warps: 4 }];

/// Orders of the block: the edges of blocks, panels, groups and vectors, and some between.
const SIZES: [usize; 26] =
    [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 61, 63, 64, 65, 90, 95, 96, 97, 125, 127, 128];

#[test]
fn blocks_and_what_solves_with_them() {
    for device in devices() {
        for (number, kernel) in KERNELS.into_iter().enumerate() {
            for (turn, size) in
                SIZES.into_iter().enumerate().filter(|(turn, _)| (turn + number) % 2 == 0 || turn + 1 == SIZES.len())
            {
                let place = Place::number(number + turn / 3, size, [0, 128, 256][(number + turn) / 2 % 3]);
                let family = Family::ALL[(number + turn) % 6];
                let batch = [1, 3, 2][(number + turn / 3) % 3];
                let blocks = family.batch(batch, size, 3, (100 * number + turn) as u64);
                let outcome = run(&*device, kernel, place, &blocks, &vec![0; batch]);
                let what = format!("{kernel:?}, {}, {place:?}, {family:?}", device.properties().arch);
                assert_eq!(outcome.info, vec![0; batch], "{what}");
                let results = outcome.factors.chunks(size * size).zip(outcome.solve.chunks(NB * NB));
                for (b, (a, (factor, solve))) in blocks.chunks(size * size).zip(results).enumerate() {
                    check(a, factor, solve, size, &format!("{what}, matrix {b}"));
                }
            }
        }
    }
}

/// Every place for whole blocks, and for one that ends inside a vector.
#[test]
fn places_in_memory() {
    let device = support::device();
    for kernel in KERNELS {
        for number in 0..4 {
            for (size, k) in [(128, 0), (128, 256), (70, 128)] {
                let place = Place::number(number, size, k);
                let blocks = Family::Dense.batch(2, size, 3, number as u64);
                let outcome = run(&*device, kernel, place, &blocks, &[0; 2]);
                assert_eq!(outcome.info, [0; 2]);
                for b in 0..2 {
                    let range = b * size * size..(b + 1) * size * size;
                    let solve = &outcome.solve[b * NB * NB..(b + 1) * NB * NB];
                    check(
                        &blocks[range.clone()],
                        &outcome.factors[range],
                        solve,
                        size,
                        &format!("{kernel:?}, {place:?}"),
                    );
                }
            }
        }
    }
}

/// `info` is written at k = 0; further on a failure is written where none stands yet. Others are not disturbed.
#[test]
fn the_first_failure_of_a_matrix_stands() {
    /// (row, column, value, info before); a value of 1 leaves the block good.
    type Case = (usize, usize, f32, i32);
    let cases: [Case; 14] = [
        (0, 0, -1.0, 0),
        (0, 0, 1.0, 0),
        (11, 11, f32::NAN, 0),
        (11, 11, 0.0, 5),
        (0, 0, 1.0, 7),
        (31, 31, f32::INFINITY, 0),
        (32, 32, f32::NEG_INFINITY, 0),
        (90, 3, f32::NAN, 0),
        (77, 76, f32::INFINITY, 0),
        (64, 64, -0.0, 2),
        (99, 99, -3.0, 0),
        (33, 31, f32::NEG_INFINITY, 0),
        (127, 127, f32::NAN, 0),
        (127, 0, f32::NAN, 0),
    ];
    for (turn, device) in devices().into_iter().enumerate() {
        for (number, kernel) in KERNELS.into_iter().enumerate() {
            let (size, k) = [(128, 0), (128, 128), (100, 384), (100, 0)][(number + turn) % 4];
            let place = Place::number(number + turn, size, k);
            let good = Family::Dense.matrix(size, 2, 12);
            let cases: Vec<Case> = cases.into_iter().filter(|case| case.0 < size).collect();
            let mut blocks = good.repeat(cases.len());
            for (b, &(i, j, value, _)) in cases.iter().enumerate() {
                // A diagonal of 1 more is as good as the one that it was.
                let entry = &mut blocks[(b * size + i) * size + j];
                *entry = if value == 1.0 { *entry + 1.0 } else { value };
            }
            // What stands at k = 0 is of no other block.
            let before: Vec<i32> = cases.iter().map(|case| if k == 0 { -99 } else { case.3 }).collect();
            let outcome = run(&*device, kernel, place, &blocks, &before);
            for (b, &(i, _, value, earlier)) in cases.iter().enumerate() {
                let what = format!("{kernel:?}, {place:?}, {:?}", cases[b]);
                let here = if value == 1.0 { 0 } else { (k + i + 1) as i32 };
                let expected = if k > 0 && earlier != 0 { earlier } else { here };
                assert_eq!(outcome.info[b], expected, "{what}");
                if here == 0 {
                    let range = b * size * size..(b + 1) * size * size;
                    let solve = &outcome.solve[b * NB * NB..(b + 1) * NB * NB];
                    check(&blocks[range.clone()], &outcome.factors[range], solve, size, &what);
                }
            }
        }
    }
}

/// Pivots far from 1: what is subnormal or near the ends of the range is a number like any other.
#[test]
fn pivots_of_any_size() {
    let device = support::device();
    for kernel in KERNELS {
        for scale in [1e-38, 1e-41, 1e36] {
            let size = 40;
            let mut block = vec![0.0; size * size];
            for i in 0..size {
                block[i * size + i] = scale * (1 + i % 7) as f32;
            }
            let outcome = run(&*device, kernel, Place::of(size, 0), &block, &[0]);
            assert_eq!(outcome.info, [0], "{kernel:?}, {scale}");
            for i in 0..size {
                let (found, root) = (outcome.factors[i * size + i], block[i * size + i].sqrt());
                // Remainders of subnormal pivots are not exact: a unit in the last place.
                assert!(found.to_bits().abs_diff(root.to_bits()) <= 1, "{kernel:?}: {found} is not the root {root}");
            }
        }
    }
}

/// A matrix of nothing but failures ends, and leaves `info` at the first.
#[test]
fn nothing_but_failures() {
    let device = support::device();
    for kernel in KERNELS {
        for value in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let blocks = vec![value; 2 * NB * NB];
            let outcome = run(&*device, kernel, Place::of(NB, 0), &blocks, &[-99, 3]);
            assert_eq!(outcome.info, [1, 1], "{kernel:?}, {value}");
        }
    }
}
