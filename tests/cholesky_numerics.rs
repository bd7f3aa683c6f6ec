//! The factors are right: every order from 1 to 192, every family of inputs, every setting of every template, every way to
//! lay a batch out.
//!
//! On the emulator with all checks on, or on the GPU with `TILEWRIGHT_DEVICE=gpu` (the same list; no file of the repository
//! is read).

mod support;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use support::families::Family;
use support::oracle::{check_factor, check_public, factor_f64, fault_of_factor, reference_f32};
use tilewright::device::{Arg, Buffer, Device};
use tilewright::generate::Specialisation;
use tilewright::kernels::cholesky::{Cholesky, Options, Shape};
use tilewright::ptx::Module;
use tilewright::template::{MicroPotrf, PotrfBlock, PotrfRows, PotrfWarp};

/// A batch as it lies in memory: NaN wherever the kernels have no business to read.
fn spread(matrices: &[f32], shape: &Shape) -> Vec<f32> {
    let n = shape.n;
    let mut memory = vec![f32::NAN; shape.elements_a().unwrap()];
    for b in 0..shape.batch {
        for i in 0..n {
            let row = b * shape.stride_a + i * shape.lda;
            memory[row..row + i + 1].copy_from_slice(&matrices[(b * n + i) * n..(b * n + i) * n + i + 1]);
        }
    }
    memory
}

/// One matrix of a batch, contiguous.
fn gather(memory: &[f32], b: usize, n: usize, stride: usize, ld: usize) -> Vec<f32> {
    (0..n).flat_map(|i| memory[b * stride + i * ld..][..n].to_vec()).collect()
}

/// What lies between the rows and matrices of a factor before it is written.
const UNTOUCHED: f32 = -123.5;

/// How a batch is laid out: apart or in place, with or without gaps.
#[derive(Clone, Copy, Debug)]
struct Layout {
    in_place: bool,
    gaps: bool,
}

impl Layout {
    fn number(number: usize) -> Self {
        Self { in_place: number & 1 == 1, gaps: number & 2 == 2 }
    }

    fn shape(self, batch: usize, n: usize) -> Shape {
        match (self.gaps, self.in_place) {
            (false, _) => Shape::contiguous(batch, n),
            (true, true) => Shape::strided(batch, n, n + 3, n * (n + 3) + 5),
            (true, false) => {
                Shape { batch, n, lda: n + 3, ldl: n + 1, stride_a: n * (n + 3) + 5, stride_l: n * (n + 2) + 3 }
            }
        }
    }
}

/// Runs `factor` over a laid-out batch; the factors, contiguous, and `info`. What is not a factor's must be as it was.
fn run(
    device: &dyn Device,
    matrices: &[f32],
    shape: &Shape,
    layout: Layout,
    factor: impl FnOnce(&Buffer<f32>, &mut Buffer<f32>, &mut Buffer<i32>),
) -> (Vec<f32>, Vec<i32>) {
    let Shape { batch, n, .. } = *shape;
    let a = Buffer::from_slice(device, &spread(matrices, shape), "a").unwrap();
    let mut info = Buffer::from_slice(device, &vec![-99; batch], "info").unwrap();
    let (before, after) = if layout.in_place {
        let mut l = a.view(..).unwrap();
        factor(&a, &mut l, &mut info);
        (spread(matrices, shape), l.to_vec().unwrap())
    } else {
        let poison = vec![UNTOUCHED; shape.elements_l().unwrap()];
        let mut l = Buffer::from_slice(device, &poison, "l").unwrap();
        factor(&a, &mut l, &mut info);
        (poison, l.to_vec().unwrap())
    };
    for (index, (before, after)) in before.iter().zip(&after).enumerate() {
        let (b, rest) = (index / shape.stride_l, index % shape.stride_l);
        let inside = b < batch && rest / shape.ldl < n && rest % shape.ldl < n;
        assert!(inside || before.to_bits() == after.to_bits(), "{shape:?}: element {index} is not the factor's");
    }
    let factors = (0..batch).flat_map(|b| gather(&after, b, n, shape.stride_l, shape.ldl)).collect();
    (factors, info.to_vec().unwrap())
}

/// Through the host API.
fn factor(device: &dyn Device, matrices: &[f32], batch: usize, n: usize, layout: Layout) -> (Vec<f32>, Vec<i32>) {
    let shape = layout.shape(batch, n);
    let cholesky = Cholesky::plan(shape, &Options::for_device(device)).unwrap();
    run(device, matrices, &shape, layout, |a, l, info| cholesky.factor(device, a, l, info).unwrap())
}

/// Through a module of a chosen specialisation.
fn factor_with(
    device: &dyn Device,
    module: &Module,
    matrices: &[f32],
    batch: usize,
    n: usize,
    layout: Layout,
) -> (Vec<f32>, Vec<i32>) {
    let shape = layout.shape(batch, n);
    let per_cta = match &module.meta.kernels[0].grid.x {
        tilewright::ptx::Extent::Ceil { by, .. } => *by as usize,
        other => panic!("{other:?}"),
    };
    let kernel = device.load(&module.clone().into()).unwrap().kernel(&module.meta.kernels[0].name).unwrap();
    run(device, matrices, &shape, layout, |a, l, info| {
        let args: [Arg; 8] = [
            a.into(),
            l.into(),
            info.into(),
            (shape.stride_a as i64).into(),
            (shape.stride_l as i64).into(),
            (shape.lda as i32).into(),
            (shape.ldl as i32).into(),
            (batch as i32).into(),
        ];
        device.launch(&kernel, [batch.div_ceil(per_cta) as u32, 1, 1], &args).unwrap();
    })
}

#[track_caller]
fn check_batch(matrices: &[f32], factors: &[f32], info: &[i32], n: usize, what: &str) {
    assert!(info.iter().all(|&info| info == 0), "{what}: info {info:?}");
    for (b, (a, l)) in matrices.chunks(n * n).zip(factors.chunks(n * n)).enumerate() {
        check_factor(a, l, n, &format!("{what}, matrix {b}"));
    }
}

/// Condition exponents at which a family stays positive definite in f32 at every order here.
fn condition(family: Family, number: usize) -> i32 {
    match family {
        Family::Spectrum | Family::Diagonal => [1, 2, 5][number % 3],
        Family::LowRank => 4,
        _ => 2,
    }
}

/// The rules hold for FP32 factors, whoever makes them, and not for ones that are a little off.
#[test]
fn the_rules_tell_right_from_nearly_right() {
    (1..=192_usize).into_par_iter().for_each(|n| {
        for (number, family) in Family::ALL.into_iter().enumerate() {
            let a = family.matrix(n, condition(family, n + number), (n * 17 + number) as u64);
            let reference = reference_f32(&a, n);
            check_factor(&a, &reference, n, &format!("the reference of {n}, {family:?}"));
            let rounded: Vec<f32> = factor_f64(&a, n).unwrap().iter().map(|&value| value as f32).collect();
            check_factor(&a, &rounded, n, &format!("the rounded factor of {n}, {family:?}"));
            // Each entry off by 16·ε, which is a residual of 32·ε·‖A‖₁.
            let off: Vec<f32> = reference.iter().map(|value| value * (1.0 + 16.0 * f32::EPSILON)).collect();
            assert!(fault_of_factor(&a, &off, n).is_err(), "{n}, {family:?}");
            // One entry below the diagonal lost, or one above it left.
            if n > 1 && family == Family::Dense {
                for (i, j) in [(n - 1, 0), (0, n - 1), (n / 2, n / 2 - 1)] {
                    let mut wrong = reference.clone();
                    wrong[i * n + j] = if i > j { 0.0 } else { f32::MIN_POSITIVE };
                    assert!(fault_of_factor(&a, &wrong, n).is_err(), "{n}, {family:?}, ({i}, {j})");
                }
            }
        }
    });
}

/// The families are what they say.
#[test]
fn families_have_their_spectra() {
    let (n, condition) = (40, 5);
    for family in Family::ALL {
        let a = family.matrix(n, condition, 3);
        assert!((0..n * n).all(|index| a[index].to_bits() == a[index % n * n + index / n].to_bits()), "{family:?}");
        assert_eq!(a, family.matrix(n, condition, 3), "{family:?}: the same seed gives the same matrix");
        assert!(family == Family::Diagonal || a != family.matrix(n, condition, 4), "{family:?}");
        let matrix = faer::Mat::from_fn(n, n, |i, j| f64::from(a[i * n + j]));
        let values = matrix.self_adjoint_eigenvalues(faer::Side::Lower).unwrap();
        let (least, most) = (values[0], values[n - 1]);
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 0.05;
        match family {
            // The ridge is the least of it, and for a family of low rank n - rank times.
            Family::Dense => assert!((1e-5..1e-2).contains(&least) && (2.0..8.0).contains(&most), "{least} {most}"),
            Family::LowRank => assert!((0..35).all(|i| near(values[i], 1e-5)) && values[35] > 0.1, "{values:?}"),
            Family::Diagonal | Family::Spectrum => {
                assert!((0..n).all(|i| near(values[i], 10.0_f64.powf(5.0 * (i as f64 / 39.0 - 1.0)))), "{values:?}");
            }
            Family::RowScale => assert!(least >= 1e-6 && least < 1e-4 && a[0] > 100.0 * a[n * n - 1], "{least}"),
            Family::Tridiagonal => {
                let beside = (0..n * n).filter(|index| index / n != index % n && a[*index] != 0.0).count();
                assert!(beside == 2 * (n - 1) && least > 1.0 && most < 3.0, "{least} {most}");
            }
        }
    }
}

/// Every order. The cross product of families, batches and layouts is thinned: at each order every family runs once, with
/// the batches 1, 3 and 33 and the four layouts in turn, so that each pair of them meets at many orders.
#[test]
fn every_order_and_every_family() {
    let device = support::device();
    (1..=192_usize).into_par_iter().for_each(|n| {
        for (number, family) in Family::ALL.into_iter().enumerate() {
            // One family in six has the large batch.
            let batch = if (n + number) % 6 == 0 { 33 } else { [1, 3][(n / 6 + number) % 2] };
            let layout = Layout::number(n / 3 + number);
            let matrices = family.batch(batch, n, condition(family, n + number), (n * 31 + number) as u64);
            let (factors, info) = factor(&*device, &matrices, batch, n, layout);
            check_batch(&matrices, &factors, &info, n, &format!("{batch} × {n} {family:?} {layout:?}"));
        }
    });
}

/// Every setting of every template, at the ends of its ranges and of what it rounds up to.
#[test]
fn every_setting_of_every_template() {
    let device = support::device();
    let mut list = Vec::new();
    for n in [1, 2, 3, 4, 5, 8, 12, 13, 20, 21, 28, 29, 31, 32] {
        for rank in [1, 2, 4] {
            list.extend([1, 2, 4].map(|warps| (n, Specialisation::PotrfWarp(PotrfWarp { n, rank, warps }))));
        }
    }
    for n in [33, 34, 35, 36, 37, 44, 45, 48, 60, 61, 63, 64] {
        list.extend([1, 2, 4].map(|rank| (n, Specialisation::PotrfRows(PotrfRows { n, rank }))));
    }
    for n in [65, 72, 73, 80, 81, 96, 97, 127, 128, 129, 144, 160, 161, 176, 191, 192] {
        for block in [8, 16, 32] {
            list.extend([4, 8].map(|warps| (n, Specialisation::PotrfBlock(PotrfBlock { n, block, warps }))));
        }
    }
    let arch = device.properties().arch;
    list.into_par_iter().for_each(|(n, specialisation)| {
        let module = specialisation.instantiate(arch).unwrap();
        let n = n as usize;
        for (number, batch) in [1, 3, 9].into_iter().enumerate() {
            let layout = Layout::number(n + number);
            let matrices = Family::Dense.batch(batch, n, 2, (n + number) as u64);
            let (factors, info) = factor_with(&*device, &module, &matrices, batch, n, layout);
            check_batch(&matrices, &factors, &info, n, &format!("{specialisation:?}, {batch} × {n} {layout:?}"));
        }
    });
}

/// The public problem's tests up to order 192, by its own checks.
#[test]
fn public_tests() {
    let device = support::device();
    let tests = [
        (16, 32, 2, Family::Dense),
        (16, 64, 2, Family::Dense),
        (16, 128, 2, Family::Dense),
        (8, 128, 5, Family::Spectrum),
        (8, 128, 5, Family::Diagonal),
        (32, 32, 5, Family::Spectrum),
        (32, 32, 5, Family::Diagonal),
        (16, 64, 5, Family::Spectrum),
        (16, 64, 5, Family::Diagonal),
    ];
    for (batch, n, condition, family) in tests {
        let matrices = family.batch(batch, n, condition, 926);
        let (factors, info) = factor(&*device, &matrices, batch, n, Layout::number(0));
        let what = format!("{batch} × {n}, condition {condition}, {family:?}");
        assert!(info.iter().all(|&info| info == 0), "{what}: {info:?}");
        for (a, l) in matrices.chunks(n * n).zip(factors.chunks(n * n)) {
            check_public(a, l, n, &what);
        }
    }
}

/// Far from 1 the arithmetic is the same: scaling by a power of four scales the factor by its root, bit for bit.
#[test]
fn scales_do_not_matter() {
    let device = support::device();
    for n in [1, 5, 32, 33, 64, 65, 100] {
        let matrices = Family::Dense.batch(3, n, 2, 5);
        let (factors, _) = factor(&*device, &matrices, 3, n, Layout::number(0));
        for exponent in [-40, -20, 20, 60] {
            let scaled: Vec<f32> = matrices.iter().map(|value| value * 4.0_f32.powi(exponent / 2)).collect();
            let (scaled, info) = factor(&*device, &scaled, 3, n, Layout::number(0));
            assert_eq!(info, [0; 3], "n = {n}, 2^{exponent}");
            let root = 2.0_f32.powi(exponent / 2);
            assert!(
                factors.iter().zip(&scaled).all(|(one, other)| (one * root).to_bits() == other.to_bits()),
                "n = {n}, 2^{exponent}"
            );
        }
    }
}

/// Pivots below the normal range are positive: they factor. Only a diagonal matrix can be checked closely there.
#[test]
fn denormal_pivots_factor() {
    let device = support::device();
    for n in [1, 32, 64, 65] {
        let tiny = 1.0e-40_f32;
        let matrix: Vec<f32> = (0..n * n).map(|index| if index / n == index % n { tiny } else { 0.0 }).collect();
        let (factors, info) = factor(&*device, &matrix, 1, n, Layout::number(0));
        assert_eq!(info, [0], "n = {n}");
        for i in 0..n {
            let root = factors[i * n + i];
            assert!((f64::from(root) / f64::from(tiny).sqrt() - 1.0).abs() < 1e-6, "n = {n}: {root}");
        }
    }
}

/// A matrix that fails at `pivot` (0-based): the good one with its diagonal entry there replaced.
fn failing(good: &[f32], n: usize, pivot: usize, value: f32) -> Vec<f32> {
    let mut bad = good.to_vec();
    bad[pivot * n + pivot] = value;
    bad
}

#[test]
fn failures_are_told_and_stay_alone() {
    let device = support::device();
    for n in [1, 2, 7, 31, 32, 33, 40, 64, 65, 100, 128, 192] {
        let batch = 9;
        let good = Family::Dense.batch(batch, n, 2, n as u64);
        let (expected, info) = factor(&*device, &good, batch, n, Layout::number(0));
        assert!(info.iter().all(|&info| info == 0));
        let one = |b: usize| &good[b * n * n..(b + 1) * n * n];
        let (first, middle, last) = (0, n / 2, n - 1);
        // (place in the batch, matrix, info).
        let mut bad: Vec<(usize, Vec<f32>, usize)> = vec![
            (0, failing(one(0), n, last, -1.0), last),
            (2, failing(one(2), n, middle, f32::NAN), middle),
            (3, failing(one(3), n, first, 0.0), first),
            (5, failing(one(5), n, middle, f32::INFINITY), middle),
            (7, failing(one(7), n, last, f32::NEG_INFINITY), last),
        ];
        if n >= 2 {
            // An infinity or a NaN below the diagonal ruins the pivot of its row, and none before.
            let mut below = one(8).to_vec();
            below[last * n] = if n % 2 == 0 { f32::INFINITY } else { f32::NAN };
            bad.push((8, below, last));
        }
        let mut matrices = good.clone();
        for (b, matrix, _) in &bad {
            matrices[b * n * n..(b + 1) * n * n].copy_from_slice(matrix);
        }
        for number in 0..4 {
            let layout = Layout::number(number);
            let (factors, info) = factor(&*device, &matrices, batch, n, layout);
            for (b, &info) in info.iter().enumerate() {
                let failed = bad.iter().find(|(place, ..)| *place == b);
                let pivot = failed.map_or(0, |(.., pivot)| pivot + 1);
                assert_eq!(info, pivot as i32, "n = {n}, matrix {b}, {layout:?}");
                let range = b * n * n..(b + 1) * n * n;
                if failed.is_none() {
                    assert!(
                        factors[range.clone()].iter().zip(&expected[range]).all(|(l, e)| l.to_bits() == e.to_bits()),
                        "n = {n}, matrix {b}, {layout:?}: a neighbour disturbed it"
                    );
                } else {
                    let l = &factors[range];
                    let zeros = (0..n).all(|i| (i + 1..n).all(|j| l[i * n + j].to_bits() == 0));
                    assert!(zeros, "n = {n}, matrix {b}: a failed factor is zero above the diagonal too");
                }
            }
        }
    }
}

/// A truly indefinite matrix (not by one entry): the pivot is the one that the f64 oracle's leading blocks say.
#[test]
fn the_first_leading_block_that_is_not_positive_definite_is_named() {
    let device = support::device();
    for n in [3, 32, 50, 64, 90, 150] {
        // A Gram matrix minus a multiple of the identity.
        let mut matrix = Family::Dense.matrix(n, 2, 77);
        for i in 0..n {
            matrix[i * n + i] -= 0.4;
        }
        let block = |m: usize| -> Vec<f32> { (0..m * m).map(|index| matrix[index / m * n + index % m]).collect() };
        let pivot = (1..=n).find(|&m| factor_f64(&block(m), m).is_none()).unwrap_or(0);
        let (_, info) = factor(&*device, &matrix, 1, n, Layout::number(0));
        assert_eq!(info, [pivot as i32], "n = {n}");
    }
}

#[test]
fn nothing_is_fine() {
    let device = support::device();
    let (factors, info) = factor(&*device, &[], 0, 32, Layout::number(0));
    assert!(factors.is_empty() && info.is_empty());
    let (factors, info) = factor(&*device, &[], 3, 0, Layout::number(0));
    assert!(factors.is_empty());
    assert_eq!(info, [0; 3]);
}

/// The diagonal step of a larger factorisation: factor, inverse and `info`, at several places of a matrix.
#[test]
fn diagonal_blocks_and_their_inverses() {
    let device = support::device();
    const B: usize = 32;
    let arch = device.properties().arch;
    for (rank, warps, batch, n, k) in
        [(4, 4, 5, 32, 0), (4, 1, 3, 96, 64), (2, 4, 9, 64, 32), (2, 2, 1, 40, 8), (4, 2, 33, 48, 16)]
    {
        let module = MicroPotrf { rank, warps }.instantiate(arch).unwrap();
        let kernel = device.load(&module.clone().into()).unwrap().kernel(&module.meta.kernels[0].name).unwrap();
        let blocks = Family::Dense.batch(batch, B, 2, (n + k) as u64);
        // NaN wherever the block's lower triangle is not.
        let mut memory = vec![f32::NAN; batch * n * n];
        for b in 0..batch {
            for i in 0..B {
                let row = b * n * n + (k + i) * n + k;
                memory[row..row + i + 1].copy_from_slice(&blocks[(b * B + i) * B..(b * B + i) * B + i + 1]);
            }
        }
        // Matrix 0 fails at its pivot 11; the last one failed long ago.
        memory[(k + 11) * n + k + 11] = -1.0;
        let before: Vec<i32> = (0..batch).map(|b| if b > 0 && b + 1 == batch && k > 0 { 5 } else { 0 }).collect();
        let a = Buffer::from_slice(&device, &memory, "a").unwrap();
        let poison = vec![UNTOUCHED; batch * n * n];
        let mut l = Buffer::from_slice(&device, &poison, "l").unwrap();
        let mut inverse = Buffer::from_slice(&device, &vec![f32::NAN; batch * B * B], "inverse").unwrap();
        let mut info = Buffer::from_slice(&device, &before, "info").unwrap();
        let args: [Arg; 10] = [
            (&a).into(),
            (&mut l).into(),
            (&mut inverse).into(),
            (&mut info).into(),
            ((n * n) as i64).into(),
            ((n * n) as i64).into(),
            (n as i32).into(),
            (n as i32).into(),
            (k as i32).into(),
            (batch as i32).into(),
        ];
        device.launch(&kernel, [batch.div_ceil(warps as usize) as u32, 1, 1], &args).unwrap();
        let (l, inverse, info) = (l.to_vec().unwrap(), inverse.to_vec().unwrap(), info.to_vec().unwrap());
        let what = format!("rank {rank}, {warps} warps, {batch} × {n} at {k}");
        let mut expected = before.clone();
        expected[0] = (k + 12) as i32;
        assert_eq!(info, expected, "{what}");
        for b in 1..batch {
            let factor: Vec<f32> = gather(&l[b * n * n..], 0, n, 0, n)
                .chunks(n)
                .skip(k)
                .take(B)
                .flat_map(|row| row[k..k + B].to_vec())
                .collect();
            check_factor(&blocks[b * B * B..(b + 1) * B * B], &factor, B, &format!("{what}, matrix {b}"));
            // L·X = I to the accuracy of a triangular inverse: n·ε·|L|·|X|.
            let x = &inverse[b * B * B..(b + 1) * B * B];
            for i in 0..B {
                for j in 0..B {
                    let terms = (0..B).map(|p| f64::from(factor[i * B + p]) * f64::from(x[p * B + j]));
                    let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                    let identity = if i == j { 1.0 } else { 0.0 };
                    let bound = B as f64 * 2.0_f64.powi(-24) * f64::max(size, 1.0);
                    assert!((sum - identity).abs() <= bound, "{what}, matrix {b}: (L·X)({i}, {j}) = {sum}");
                    assert!(j <= i || x[i * B + j] == 0.0, "{what}: X({i}, {j}) above the diagonal");
                }
            }
        }
        // Nothing outside the block is written.
        for (index, &value) in l.iter().enumerate() {
            let (i, j) = (index / n % n, index % n);
            let inside = (k..k + B).contains(&i) && (k..k + B).contains(&j);
            assert!(inside || value == UNTOUCHED, "{what}: element {index} was written");
        }
    }
}
