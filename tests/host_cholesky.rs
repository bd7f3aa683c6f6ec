//! The host's side of Cholesky: shapes, plans, and runs on the emulator.

use tilewright::device::{Buffer, Device, EmulatedDevice};
use tilewright::kernels::cholesky::{Cholesky, Error, Options, Shape, factor_host, failures, residual, residuals};
use tilewright::ptx::Arch;

/// Well-conditioned matrices with the given strides; what lies between them is NaN, so that a read of it shows.
fn matrices(shape: &Shape) -> Vec<f32> {
    let mut values = vec![f32::NAN; shape.elements_a().unwrap()];
    for matrix in 0..shape.batch {
        for row in 0..shape.n {
            for column in 0..=row {
                let distance = (row - column) as f32;
                let ridge = if row == column { 0.5 } else { 0.0 };
                values[matrix * shape.stride_a + row * shape.lda + column] =
                    (-distance / (1.0 + matrix as f32)).exp() + ridge;
            }
        }
    }
    values
}

/// Orders at the ends of each kernel's range.
const ORDERS: [usize; 8] = [1, 2, 31, 32, 33, 64, 65, 97];

/// 0.1·n·ε·‖A‖₁, and for the smallest orders ε·‖A‖₁, which rounding one square root may cost already. (These matrices are well
/// conditioned: `tests/support/oracle.rs` has the rule for all.)
fn largest_residual(n: usize) -> f64 {
    f64::max(0.1, 1.0 / n as f64)
}

#[track_caller]
fn check(a: &[f32], l: &[f32], shape: &Shape) {
    for (matrix, residual) in residuals(a, l, shape).unwrap().into_iter().enumerate() {
        assert!(residual <= largest_residual(shape.n), "matrix {matrix} of {shape:?}: residual {residual}");
        for row in 0..shape.n {
            for column in row + 1..shape.n {
                let above = l[matrix * shape.stride_l + row * shape.ldl + column];
                assert_eq!(above.to_bits(), 0, "matrix {matrix} of {shape:?}, ({row}, {column})");
            }
        }
    }
}

#[test]
fn contiguous_batches_are_factored() {
    let device = EmulatedDevice::new();
    for n in ORDERS {
        let shape = Shape::contiguous(3, n);
        let a = matrices(&shape);
        let (l, info) = factor_host(&device, &a, shape).unwrap();
        assert_eq!(info, [0; 3], "order {n}");
        check(&a, &l, &shape);
    }
}

#[test]
fn strided_batches_are_factored_and_nothing_else_is_written() {
    let device = EmulatedDevice::new();
    for n in ORDERS {
        let shape = Shape { batch: 3, n, lda: n + 3, ldl: n + 1, stride_a: (n + 3) * n + 5, stride_l: (n + 1) * n + 2 };
        let a = matrices(&shape);
        let cholesky = Cholesky::plan(shape, &Options::for_device(&device)).unwrap();
        let input = Buffer::from_slice(&device, &a, "a").unwrap();
        let untouched = vec![-7.0f32; shape.elements_l().unwrap()];
        let mut l = Buffer::from_slice(&device, &untouched, "l").unwrap();
        let mut info = Buffer::<i32>::uninit(&device, 3, "info").unwrap();
        cholesky.factor(&device, &input, &mut l, &mut info).unwrap();
        let l = l.to_vec().unwrap();
        assert_eq!(info.to_vec().unwrap(), [0; 3]);
        check(&a, &l, &shape);
        for (index, &value) in l.iter().enumerate() {
            let (matrix, rest) = (index / shape.stride_l, index % shape.stride_l);
            let inside = matrix < 3 && rest / shape.ldl < n && rest % shape.ldl < n;
            assert!(inside || value == -7.0, "order {n}: element {index} was written");
        }
    }
}

#[test]
fn factors_may_take_the_place_of_their_matrices() {
    let device = EmulatedDevice::new();
    for n in ORDERS {
        let shape = Shape::strided(5, n, n + 2, n * (n + 2) + 1);
        let a = matrices(&shape);
        let cholesky = Cholesky::plan(shape, &Options::for_device(&device)).unwrap();
        let mut buffer = Buffer::from_slice(&device, &a, "a").unwrap();
        let mut info = Buffer::<i32>::uninit(&device, 5, "info").unwrap();
        cholesky.factor_in_place(&device, &mut buffer, &mut info).unwrap();
        let in_place = buffer.to_vec().unwrap();
        check(&a, &in_place, &shape);
        let (apart, _) = factor_host(&device, &a, shape).unwrap();
        for matrix in 0..5 {
            for row in 0..n {
                let start = matrix * shape.stride_a + row * shape.lda;
                assert_eq!(in_place[start..start + n], apart[start..start + n], "matrix {matrix}, row {row} of {n}");
            }
        }
    }
}

#[test]
fn interleaved_factors_do_not_overlap() {
    let device = EmulatedDevice::new();
    // Three matrices side by side in rows of 3·n.
    let n = 4;
    let shape = Shape { batch: 3, n, lda: n, ldl: 3 * n, stride_a: n * n, stride_l: n };
    let a = matrices(&shape);
    let (l, info) = factor_host(&device, &a, shape).unwrap();
    assert_eq!(info, [0; 3]);
    check(&a, &l, &shape);
}

#[test]
fn one_plan_runs_on_many_devices_and_threads() {
    let shape = Shape::contiguous(4, 16);
    let a = matrices(&shape);
    let cholesky = Cholesky::plan(shape, &Options::default()).unwrap();
    let results: Vec<Vec<f32>> = std::thread::scope(|scope| {
        let run = |arch: Arch| {
            let device = EmulatedDevice::builder().arch(arch).build();
            let input = Buffer::from_slice(&device, &a, "a").unwrap();
            let mut l = Buffer::uninit(&device, a.len(), "l").unwrap();
            let mut info = Buffer::uninit(&device, 4, "info").unwrap();
            cholesky.factor(&device, &input, &mut l, &mut info).unwrap();
            l.to_vec().unwrap()
        };
        let threads: Vec<_> = Arch::ALL.into_iter().map(|arch| scope.spawn(move || run(arch))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    check(&a, &results[0], &shape);
    assert!(results.iter().all(|result| *result == results[0]));
}

#[test]
fn a_capture_factors_what_the_buffer_holds_then() {
    let device = EmulatedDevice::new();
    let shape = Shape::contiguous(2, 8);
    let a = matrices(&shape);
    let cholesky = Cholesky::plan(shape, &Options::for_device(&device)).unwrap();
    let mut input = Buffer::<f32>::zeroed(&device, a.len(), "a").unwrap();
    let mut l = Buffer::uninit(&device, a.len(), "l").unwrap();
    let mut info = Buffer::uninit(&device, 2, "info").unwrap();
    let mut capture = cholesky.capture(&device, &input, &mut l, &mut info).unwrap();
    capture.replay().unwrap();
    assert_eq!(info.to_vec().unwrap(), [1, 1]);
    input.copy_in(&a).unwrap();
    capture.replay().unwrap();
    assert_eq!(info.to_vec().unwrap(), [0, 0]);
    check(&a, &l.to_vec().unwrap(), &shape);
}

#[test]
fn failed_matrices_are_told_and_disturb_no_other() {
    let device = EmulatedDevice::new();
    for n in [3, 20, 40, 70] {
        let shape = Shape::contiguous(6, n);
        let mut a = matrices(&shape);
        let (good, _) = factor_host(&device, &a, shape).unwrap();
        let bad = [(1, -1.0), (3, f32::NAN), (4, f32::INFINITY)];
        for (matrix, value) in bad {
            a[matrix * n * n + 2 * (n + 1)] = value;
        }
        let (l, info) = factor_host(&device, &a, shape).unwrap();
        assert_eq!(failures(&info).collect::<Vec<_>>(), [(1, 3), (3, 3), (4, 3)], "order {n}");
        for matrix in [0, 2, 5] {
            let range = matrix * n * n..(matrix + 1) * n * n;
            assert_eq!(l[range.clone()], good[range], "matrix {matrix} of order {n}");
        }
    }
}

#[test]
fn nothing_to_factor_is_fine() {
    let device = EmulatedDevice::new();
    let (l, info) = factor_host(&device, &[], Shape::contiguous(3, 0)).unwrap();
    assert_eq!((l.len(), info), (0, vec![0; 3]));
    let (l, info) = factor_host(&device, &[], Shape::contiguous(0, 32)).unwrap();
    assert_eq!((l.len(), info.len()), (0, 0));
    let cholesky = Cholesky::plan(Shape::contiguous(0, 32), &Options::default()).unwrap();
    assert!(cholesky.launches().launches().is_empty());
}

#[test]
fn wrong_shapes_name_the_field_the_value_and_the_rule() {
    let good = Shape::contiguous(4, 8);
    let told = |shape: Shape, parts: &[&str]| {
        let message = Cholesky::plan(shape, &Options::default()).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{message:?} does not say {part:?}");
        }
    };
    told(Shape::contiguous(1, 193), &["n is 193", "not supported", "192"]);
    told(Shape::contiguous(1, usize::MAX), &["not supported"]);
    told(Shape { lda: 7, ..good }, &["lda is 7", "at least n, which is 8"]);
    told(Shape { ldl: 0, ..good }, &["ldl is 0", "at least n, which is 8"]);
    told(Shape { lda: 1 << 31, ..good }, &["lda is 2147483648", "at most 2147483647"]);
    told(Shape { batch: 1 << 31, ..good }, &["batch is 2147483648", "at most 2147483647"]);
    told(Shape { stride_l: 63, ..good }, &["stride_l is 63", "overlap", "= 64"]);
    told(Shape { stride_l: 0, ..good }, &["stride_l is 0", "overlap"]);
    told(Shape { stride_a: usize::MAX, ..good }, &["stride_a is", "at most"]);
    told(Shape { stride_a: 1 << 60, batch: 1 << 20, ..good }, &["stride_a is", "span more than"]);
    // The input may share matrices.
    assert!(Cholesky::plan(Shape { stride_a: 0, ..good }, &Options::default()).is_ok());
    // One matrix has no stride to check.
    assert!(Cholesky::plan(Shape { batch: 1, stride_a: 0, stride_l: 0, ..good }, &Options::default()).is_ok());
}

#[test]
fn wrong_buffers_are_refused() {
    let device = EmulatedDevice::new();
    let shape = Shape { lda: 9, ..Shape::strided(2, 8, 8, 80) };
    let cholesky = Cholesky::plan(shape, &Options::for_device(&device)).unwrap();
    let mut a = Buffer::<f32>::zeroed(&device, 160, "a").unwrap();
    let mut info = Buffer::<i32>::zeroed(&device, 2, "info").unwrap();
    let told = |result: Result<(), Error>, parts: &[&str]| {
        let message = result.unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{message:?} does not say {part:?}");
        }
    };
    told(cholesky.factor_in_place(&device, &mut a, &mut info), &["lda is 9", "equal to ldl, which is 8"]);
    let mut same = a.view(..).unwrap();
    told(cholesky.factor(&device, &a, &mut same, &mut info), &["lda is 9", "equal to ldl"]);
    let mut short = Buffer::<f32>::zeroed(&device, 100, "l").unwrap();
    told(cholesky.factor(&device, &a, &mut short, &mut info), &["buffer `l`", "100 element(s)", "144"]);
    let mut shifted = a.view(8..).unwrap();
    told(cholesky.factor(&device, &a, &mut shifted, &mut info), &["buffer `l`", "overlaps `a`"]);
    let mut l = Buffer::<f32>::zeroed(&device, 160, "l").unwrap();
    let mut few = Buffer::<i32>::zeroed(&device, 1, "info").unwrap();
    told(cholesky.factor(&device, &a, &mut l, &mut few), &["buffer `info`", "1 element(s)", "at least 2"]);
    told(factor_host(&device, &[0.0; 10], shape).map(drop), &["`a` has 10 elements", "151"]);
    let hopper = Options { arch: Arch::Sm90a, ..Options::default() };
    let cholesky = Cholesky::plan(Shape::contiguous(2, 8), &hopper).unwrap();
    let ampere = EmulatedDevice::builder().arch(Arch::Sm80).build();
    let a = Buffer::<f32>::zeroed(&ampere, 128, "a").unwrap();
    let mut l = Buffer::<f32>::zeroed(&ampere, 128, "l").unwrap();
    let mut info = Buffer::<i32>::zeroed(&ampere, 2, "info").unwrap();
    told(
        cholesky.factor(&ampere, &a, &mut l, &mut info),
        &["a module for sm_90a does not run on emulator of sm_80", "emit it for sm_80"],
    );
}

#[test]
fn the_residual_is_the_rules() {
    // L·Lᵀ − A = [[0, 0], [0, 0.5]] and ‖A‖₁ = 2 + 9.5; A's upper triangle does not count.
    let expected = 0.5 / (2.0 * f64::from(f32::EPSILON) * 11.5);
    assert_eq!(residual(&[4.0, 99.0, 2.0, 9.5], &[2.0, 0.0, 1.0, 3.0], 2), expected);
    assert_eq!(residual(&[4.0, 99.0, 2.0, 10.0], &[2.0, 0.0, 1.0, 3.0], 2), 0.0);
    // What stands above the diagonal counts.
    assert!(residual(&[4.0, 2.0, 2.0, 10.0], &[2.0, 0.1, 1.0, 3.0], 2) > 1e5);
    assert!(residual(&[4.0, 2.0, 2.0, 10.0], &[2.0, 0.0, f32::NAN, 3.0], 2).is_nan());
    assert!(residual(&[4.0, 2.0], &[2.0, 0.0, 1.0, 3.0], 2).is_nan());
    assert_eq!(residual(&[], &[], 0), 0.0);
    assert!(residuals(&[0.0; 3], &[0.0; 4], &Shape::contiguous(1, 2)).is_err());
    assert_eq!(residuals(&[], &[], &Shape::contiguous(2, 0)).unwrap(), [0.0; 2]);
}

#[test]
fn the_plan_shows_its_launch() {
    let plan = Cholesky::plan(Shape::contiguous(10, 100), &Options::default()).unwrap();
    let table = plan.launches().to_string();
    for part in
        ["plan cholesky of 10 × 100", "input     a: 100000 × fp32", "output    info: 10 × i32", "10×1×1", "256×1×1"]
    {
        assert!(table.contains(part), "{table}");
    }
    let device = EmulatedDevice::new();
    assert_eq!(Options::for_device(&device).arch, device.properties().arch);
}
