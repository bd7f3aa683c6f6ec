//! The diagonal step of a larger factorisation, `micro_potrf`: the factor of a 32-by-32 block, its inverse, and `info`.
//!
//! On the emulator with all checks on, or on the GPU with `TILEWRIGHT_DEVICE=gpu`.

mod support;

use support::batch::UNTOUCHED;
use support::families::Family;
use support::oracle::{check_factor, factor_f64};
use tilewright::device::{Arg, Buffer, Device};
use tilewright::template::MicroPotrf;

/// Order of the block.
const B: usize = 32;

/// How the matrices lie around their blocks, all in elements.
#[derive(Clone, Copy, Debug)]
struct Place {
    k: usize,
    lda: usize,
    ldl: usize,
    stride_a: usize,
    stride_l: usize,
    in_place: bool,
}

impl Place {
    /// Blocks at (k, k) of matrices of order `n`, apart, with no gaps.
    fn of(n: usize, k: usize) -> Self {
        Self { k, lda: n, ldl: n, stride_a: n * n, stride_l: n * n, in_place: false }
    }

    /// The same with gaps after rows and matrices.
    fn with_gaps(n: usize, k: usize) -> Self {
        Self { lda: n + 5, ldl: n + 2, stride_a: n * (n + 5) + 3, stride_l: n * (n + 2) + 1, ..Self::of(n, k) }
    }

    /// The same in place.
    fn in_place(n: usize, k: usize) -> Self {
        let (ld, stride) = (n + 1, n * (n + 1) + 7);
        Self { lda: ld, ldl: ld, stride_a: stride, stride_l: stride, in_place: true, ..Self::of(n, k) }
    }

    fn index(ld: usize, stride: usize, k: usize, b: usize, i: usize, j: usize) -> usize {
        b * stride + (k + i) * ld + k + j
    }

    fn a(&self, b: usize, i: usize, j: usize) -> usize {
        Self::index(self.lda, self.stride_a, self.k, b, i, j)
    }

    fn l(&self, b: usize, i: usize, j: usize) -> usize {
        Self::index(self.ldl, self.stride_l, self.k, b, i, j)
    }
}

/// What came of a batch: factors and inverses, contiguous.
struct Outcome {
    factors: Vec<f32>,
    inverses: Vec<f32>,
    info: Vec<i32>,
}

/// Runs the kernel on `blocks`, with `info` as it is before. Only lower triangles are numbers, and only blocks are written.
fn run(device: &dyn Device, kernel: MicroPotrf, place: Place, blocks: &[f32], before: &[i32]) -> Outcome {
    let batch = before.len();
    let module = kernel.instantiate(device.properties().arch).unwrap();
    let entry = device.load(&module.clone().into()).unwrap().kernel(&module.meta.kernels[0].name).unwrap();
    let mut memory = vec![f32::NAN; place.a(batch - 1, B - 1, B - 1) + 1];
    for (b, i, j) in (0..batch * B * B).map(|index| (index / (B * B), index / B % B, index % B)).filter(|x| x.2 <= x.1)
    {
        memory[place.a(b, i, j)] = blocks[(b * B + i) * B + j];
    }
    let a = Buffer::from_slice(device, &memory, "a").unwrap();
    let poison = vec![UNTOUCHED; place.l(batch - 1, B - 1, B - 1) + 1];
    let mut l = if place.in_place { a.view(..).unwrap() } else { Buffer::from_slice(device, &poison, "l").unwrap() };
    let mut inverse = Buffer::from_slice(device, &vec![f32::NAN; batch * B * B], "inverse").unwrap();
    let mut info = Buffer::from_slice(device, before, "info").unwrap();
    let args: [Arg; 10] = [
        (&a).into(),
        (&mut l).into(),
        (&mut inverse).into(),
        (&mut info).into(),
        (place.stride_a as i64).into(),
        (place.stride_l as i64).into(),
        (place.lda as i32).into(),
        (place.ldl as i32).into(),
        (place.k as i32).into(),
        (batch as i32).into(),
    ];
    device.launch(&entry, [batch.div_ceil(kernel.warps as usize) as u32, 1, 1], &args).unwrap();
    let after = l.to_vec().unwrap();
    let mut outside = if place.in_place { memory.clone() } else { poison };
    let mut factors = Vec::with_capacity(blocks.len());
    for (b, i, j) in (0..batch * B * B).map(|index| (index / (B * B), index / B % B, index % B)) {
        let index = place.l(b, i, j);
        factors.push(after[index]);
        outside[index] = after[index];
    }
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert!(bits(&outside) == bits(&after), "{place:?}: written outside the block");
    assert!(place.in_place || bits(&memory) == bits(&a.to_vec().unwrap()), "{place:?}: the input was written");
    Outcome { factors, inverses: inverse.to_vec().unwrap(), info: info.to_vec().unwrap() }
}

/// A factor and its inverse against f64.
#[track_caller]
fn check(a: &[f32], factor: &[f32], inverse: &[f32], what: &str) {
    check_factor(a, factor, B, what);
    // L·X = I to the accuracy of a triangular inverse: n·ε/2·|L|·|X|.
    for (i, j) in (0..B * B).map(|index| (index / B, index % B)) {
        let terms = (0..B).map(|p| f64::from(factor[i * B + p]) * f64::from(inverse[p * B + j]));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
        let identity = if i == j { 1.0 } else { 0.0 };
        let bound = B as f64 * 2.0_f64.powi(-24) * f64::max(size, 1.0);
        assert!((sum - identity).abs() <= bound, "{what}: (L·X)({i}, {j}) = {sum}");
        assert!(j <= i || inverse[i * B + j].to_bits() == 0, "{what}: X({i}, {j}) above the diagonal");
    }
    // X itself against the inverse of the exact factor, column by column: forward errors grow with the condition number.
    let exact = factor_f64(a, B).unwrap();
    for j in 0..B {
        let mut column = [0.0; B];
        for i in j..B {
            let sum: f64 = (j..i).map(|p| exact[i * B + p] * column[p]).sum();
            column[i] = (if i == j { 1.0 } else { 0.0 } - sum) / exact[i * B + i];
        }
        let size = column.iter().fold(0.0_f64, |size, value| size.max(value.abs()));
        for (i, value) in column.iter().enumerate() {
            let off = (f64::from(inverse[i * B + j]) - value).abs();
            assert!(off <= 2e-2 * size, "{what}: X({i}, {j}) is {off} from {value}");
        }
    }
}

const KERNELS: [MicroPotrf; 6] = [
    MicroPotrf { rank: 4, warps: 4 },
    MicroPotrf { rank: 4, warps: 2 },
    MicroPotrf { rank: 4, warps: 1 },
    MicroPotrf { rank: 2, warps: 4 },
    MicroPotrf { rank: 2, warps: 2 },
    MicroPotrf { rank: 2, warps: 1 },
];

/// Blocks at the corner, inside and at the end of larger matrices; k need be no multiple of anything.
fn places() -> [Place; 7] {
    [
        Place::of(32, 0),
        Place::of(96, 64),
        Place::of(64, 32),
        Place::of(39, 7),
        Place::with_gaps(48, 16),
        Place::with_gaps(33, 1),
        Place::in_place(64, 32),
    ]
}

#[test]
fn blocks_and_their_inverses() {
    let device = support::device();
    for (number, kernel) in KERNELS.into_iter().enumerate() {
        for (turn, place) in places().into_iter().enumerate() {
            let family = Family::ALL[(number + turn) % 6];
            let batch = if number == turn { 33 } else { [1, 3, 5][(number + turn) % 3] };
            let blocks = family.batch(batch, B, 3, (10 * number + turn) as u64);
            let outcome = run(&*device, kernel, place, &blocks, &vec![0; batch]);
            let what = format!("{kernel:?}, {place:?}, {family:?}");
            assert_eq!(outcome.info, vec![0; batch], "{what}");
            let results = outcome.factors.chunks(B * B).zip(outcome.inverses.chunks(B * B));
            for (b, (a, (factor, inverse))) in blocks.chunks(B * B).zip(results).enumerate() {
                check(a, factor, inverse, &format!("{what}, matrix {b}"));
            }
        }
    }
}

/// `info` is written at k = 0; further on a failure is written where none stands yet. Others are not disturbed.
#[test]
fn the_first_failure_of_a_matrix_stands() {
    let device = support::device();
    let good = Family::Dense.matrix(B, 2, 12);
    // (row, column, value, info before).
    let cases = [
        (0, 0, -1.0, 0),
        (0, 0, 1.0, 0),
        (11, 11, f32::NAN, 0),
        (11, 11, 0.0, 5),
        (0, 0, 1.0, 7),
        (31, 31, f32::INFINITY, 0),
        (31, 31, f32::NEG_INFINITY, 0),
        (30, 3, f32::NAN, 0),
        (17, 16, f32::INFINITY, 0),
        (4, 4, -0.0, 2),
    ];
    let batch = cases.len();
    let mut blocks = good.repeat(batch);
    for (b, &(i, j, value, _)) in cases.iter().enumerate() {
        // A diagonal of 1 more is as good as the one that it was.
        let entry = &mut blocks[(b * B + i) * B + j];
        *entry = if value == 1.0 { *entry + 1.0 } else { value };
    }
    for kernel in KERNELS {
        for place in places() {
            // What stands at k = 0 is of no other block.
            let before: Vec<i32> = cases.iter().map(|case| if place.k == 0 { -99 } else { case.3 }).collect();
            let outcome = run(&*device, kernel, place, &blocks, &before);
            for (b, &(i, _, value, earlier)) in cases.iter().enumerate() {
                let what = format!("{kernel:?}, {place:?}, {:?}", cases[b]);
                let here = if value == 1.0 { 0 } else { (place.k + i + 1) as i32 };
                let expected = if place.k > 0 && earlier != 0 { earlier } else { here };
                assert_eq!(outcome.info[b], expected, "{what}");
                if here == 0 {
                    let range = b * B * B..(b + 1) * B * B;
                    check(&blocks[range.clone()], &outcome.factors[range.clone()], &outcome.inverses[range], &what);
                }
            }
        }
    }
}
