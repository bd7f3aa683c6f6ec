//! The factors are right: every order from 1 to 192, every family of inputs, every setting of every template, every way to
//! lay a batch out.
//!
//! On the emulator with all checks on, or on the GPU with `TILEWRIGHT_DEVICE=gpu` (the same list; no file of the repository
//! is read).

mod support;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use support::batch::{Layout, factor, factor_shape, factor_with};
use support::families::Family;
use support::oracle::{check_factor, check_public, factor_f64, fault_of_factor, reference_f32};
use tilewright::generate::Specialisation;
use tilewright::kernels::cholesky::Shape;
use tilewright::template::{PotrfBlock, PotrfRows, PotrfWarp};

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
            Family::RowScale => assert!((1e-6..1e-4).contains(&least) && a[0] > 100.0 * a[n * n - 1], "{least}"),
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

/// Near the ends of FP32's range what is lost below it does not show: the rules hold.
#[test]
fn the_ends_of_the_range_do_not_matter() {
    let device = support::device();
    for n in [1, 2, 7, 32, 33, 64, 65, 128, 192] {
        for (number, family) in [Family::Dense, Family::Tridiagonal, Family::LowRank].into_iter().enumerate() {
            for exponent in [-120, -101, 99, 122] {
                let scale = 2.0_f32.powi(exponent);
                let mut matrices = family.batch(2, n, condition(family, number), 15);
                matrices.iter_mut().for_each(|value| *value *= scale);
                let (factors, info) = factor(&*device, &matrices, 2, n, Layout::number(number));
                check_batch(&matrices, &factors, &info, n, &format!("{n} {family:?} · 2^{exponent}"));
            }
        }
    }
}

/// Many factors of one matrix: its batch stride is 0.
#[test]
fn an_input_may_be_shared() {
    let device = support::device();
    for n in [5, 32, 40, 64, 70, 128] {
        let matrices = Family::Dense.matrix(n, 2, 8).repeat(5);
        let shape = Shape { stride_a: 0, lda: n + 1, ..Shape::contiguous(5, n) };
        let (factors, info) = factor_shape(&*device, &matrices, shape, false);
        check_batch(&matrices, &factors, &info, n, &format!("{n}"));
        assert!(factors.chunks(n * n).all(|factor| factor == &factors[..n * n]), "{n}");
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
