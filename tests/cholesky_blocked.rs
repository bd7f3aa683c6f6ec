//! Factors of larger orders, by block columns with the products on tensor cores: every family and layout.
//!
//! On the emulator with all checks on, or on the GPU with `TILEWRIGHT_DEVICE=gpu`.

mod support;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use support::batch::{Layout, factor_planned};
use support::families::Family;
use support::oracle::{check_public, fault_within, largest_residual_of_tensor_cores};
use tilewright::kernels::cholesky::{Cholesky, Options, Precision, Shape, failures};

/// Condition exponents at which a family stays positive definite in f32 at these orders.
fn condition(family: Family) -> i32 {
    match family {
        Family::Spectrum | Family::Diagonal => 5,
        Family::LowRank => 4,
        _ => 2,
    }
}

/// Orders round the multiples of a block, and some between.
const ORDERS: [usize; 9] = [193, 224, 255, 256, 257, 300, 384, 385, 512];

#[test]
fn every_order_and_every_family() {
    let device = support::device();
    ORDERS.into_par_iter().for_each(|n| {
        for (number, family) in Family::ALL.into_iter().enumerate() {
            let batch = 1 + (n + number) % 3;
            let layout = Layout::number(n / 3 + number);
            let matrices = family.batch(batch, n, condition(family), (n * 31 + number) as u64);
            let options = Options::for_device(&*device);
            let (factors, info) =
                factor_planned(&*device, &matrices, layout.shape(batch, n), layout.in_place, &options);
            let what = format!("{batch} × {n} {family:?} {layout:?}");
            assert!(info.iter().all(|&info| info == 0), "{what}: info {info:?}");
            for (b, (a, l)) in matrices.chunks(n * n).zip(factors.chunks(n * n)).enumerate() {
                if let Err(fault) = fault_within(a, l, n, largest_residual_of_tensor_cores) {
                    panic!("{what}, matrix {b}: {fault}");
                }
            }
        }
    });
}

/// The public problem's tests of orders 256 and 512, by its own checks.
#[test]
fn public_tests() {
    let device = support::device();
    let tests = [
        (8, 256, 2, Family::Dense),
        (4, 512, 2, Family::Dense),
        (4, 256, 4, Family::LowRank),
        (4, 512, 4, Family::RowScale),
        (4, 512, 1, Family::Tridiagonal),
    ];
    for (batch, n, condition, family) in tests {
        let matrices = family.batch(batch, n, condition, 926);
        let options = Options::for_device(&*device);
        let (factors, info) = factor_planned(&*device, &matrices, Shape::contiguous(batch, n), false, &options);
        let what = format!("{batch} × {n}, condition {condition}, {family:?}");
        assert!(info.iter().all(|&info| info == 0), "{what}: {info:?}");
        for (a, l) in matrices.chunks(n * n).zip(factors.chunks(n * n)) {
            check_public(a, l, n, &what);
        }
    }
}

/// A matrix that fails is told by its first bad pivot, in whatever block that is, and the others have the bits they have alone.
#[test]
fn failed_matrices_are_told_and_disturb_no_other() {
    let device = support::device();
    let n = 300;
    let options = Options::for_device(&*device);
    let mut matrices = Family::Dense.batch(6, n, 2, 4);
    let run =
        |matrices: &[f32], batch| factor_planned(&*device, matrices, Shape::contiguous(batch, n), false, &options);
    let (good, _) = run(&matrices, 6);
    for (matrix, pivot, value) in [(0, 5, -1.0), (2, 130, f32::NAN), (3, 299, f32::INFINITY), (5, 256, -3.0)] {
        matrices[(matrix * n + pivot) * n + pivot] = value;
    }
    // A second failure behind the first.
    matrices[(5 * n + 270) * n + 270] = -1.0;
    let (factors, info) = run(&matrices, 6);
    assert_eq!(failures(&info).collect::<Vec<_>>(), [(0, 6), (2, 131), (3, 300), (5, 257)]);
    for matrix in [1, 4] {
        let range = matrix * n * n..(matrix + 1) * n * n;
        assert!(factors[range.clone()] == good[range.clone()], "matrix {matrix}");
        let (alone, _) = run(&matrices[range.clone()], 1);
        assert!(alone == good[range], "matrix {matrix} alone");
    }
}

/// Rows of very different sizes, and sizes near the ends of FP32's range, where halves alone would not reach.
#[test]
fn sizes_do_not_matter() {
    let device = support::device();
    let n = 260;
    let options = Options::for_device(&*device);
    let matrix = Family::Dense.batch(1, n, 2, 15);
    let shape = Shape::contiguous(1, n);
    let (factor, _) = factor_planned(&*device, &matrix, shape, false, &options);
    for exponent in [-90, -40, 40, 90] {
        let scaled: Vec<f32> = matrix.iter().map(|value| value * 2.0_f32.powi(exponent)).collect();
        let (scaled, info) = factor_planned(&*device, &scaled, shape, false, &options);
        assert_eq!(info, [0], "2^{exponent}");
        let root = 2.0_f32.powi(exponent / 2);
        let differ = factor.iter().zip(&scaled).filter(|(one, other)| (*one * root).to_bits() != other.to_bits());
        assert_eq!(differ.count(), 0, "2^{exponent}");
    }
    // D·A·D with powers of two has the factor D·L.
    let power = |i: usize| 2.0_f32.powi((i * 7 % 60) as i32 - 30);
    let rows: Vec<f32> = (0..n * n).map(|at| power(at / n) * matrix[at] * power(at % n)).collect();
    let (rows, info) = factor_planned(&*device, &rows, shape, false, &options);
    assert_eq!(info, [0]);
    for (at, (one, other)) in factor.iter().zip(&rows).enumerate() {
        let (expected, largest) = (one * power(at / n), power(at / n) * matrix[at / n * (n + 1)].sqrt());
        assert!((expected - other).abs() <= 1e-4 * largest, "{at}: {other} and not {expected}");
    }
}

/// The same bits each time, with any number of multiprocessors, and by a captured plan.
#[test]
fn factors_are_the_same_each_time() {
    let device = support::device();
    let (batch, n) = (2, 400);
    let shape = Shape::contiguous(batch, n);
    let matrices = Family::Dense.batch(batch, n, 2, 5);
    for precision in [Precision::Full, Precision::Fast] {
        let with = |multiprocessors| Options { precision, multiprocessors, ..Options::for_device(&*device) };
        let (first, _) = factor_planned(&*device, &matrices, shape, false, &with(1));
        for multiprocessors in [1, 3, 200] {
            let (again, _) = factor_planned(&*device, &matrices, shape, false, &with(multiprocessors));
            assert!(first == again, "{precision:?} on {multiprocessors}");
        }
        let cholesky = Cholesky::plan(shape, &with(7)).unwrap();
        let (replayed, _) = support::batch::run(&*device, &matrices, &shape, false, |a, l, info| {
            let mut replay = cholesky.capture(&*device, a, l, info).unwrap();
            replay.replay().unwrap();
            replay.replay().unwrap();
        });
        assert!(first == replayed, "{precision:?}: by replay");
    }
}
