//! Matrices that cannot be factored: the right `info`, and no other matrix disturbed.
//!
//! On the emulator with all checks on, or on the GPU with `TILEWRIGHT_DEVICE=gpu`.

mod support;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use support::batch::{Layout, factor, factor_with};
use support::families::Family;
use support::oracle::{check_factor, factor_f64};
use tilewright::generate::Specialisation;
use tilewright::template::{PotrfBlock, PotrfRows, PotrfWarp};

/// A matrix that fails at `pivot` (0-based): the good one with its diagonal entry there replaced.
fn failing(good: &[f32], n: usize, pivot: usize, value: f32) -> Vec<f32> {
    let mut bad = good.to_vec();
    bad[pivot * n + pivot] = value;
    bad
}

/// One pivot in turn is the first to fail, and the next one fails too.
#[test]
fn every_pivot_can_be_the_first_to_fail() {
    let device = support::device();
    for n in [19, 32, 47, 64, 80] {
        let mut matrices = Family::Dense.matrix(n, 2, n as u64).repeat(n);
        for pivot in 0..n {
            let matrix = &mut matrices[pivot * n * n..(pivot + 1) * n * n];
            matrix[pivot * n + pivot] = -1.0;
            if pivot + 1 < n {
                matrix[(pivot + 1) * (n + 1)] = f32::NAN;
            }
        }
        let (_, info) = factor(&*device, &matrices, n, n, Layout::number(n));
        let expected: Vec<i32> = (1..=n as i32).collect();
        assert_eq!(info, expected, "n = {n}");
    }
}

/// Everything that a pivot may not be, on the diagonal and below it (where it ruins its row's pivot, and none before), by every
/// template and rank.
#[test]
fn every_bad_value_is_told_wherever_it_is() {
    let device = support::device();
    let warp = |n, rank, warps| (n as usize, Specialisation::PotrfWarp(PotrfWarp { n, rank, warps }));
    let rows = |n, rank| (n as usize, Specialisation::PotrfRows(PotrfRows { n, rank }));
    let block = |n, block, warps| (n as usize, Specialisation::PotrfBlock(PotrfBlock { n, block, warps }));
    let list = [
        warp(1, 1, 1),
        warp(2, 2, 4),
        warp(3, 4, 2),
        warp(17, 1, 4),
        warp(31, 4, 1),
        warp(32, 2, 2),
        rows(33, 4),
        rows(50, 2),
        rows(63, 1),
        rows(64, 4),
        block(65, 16, 8),
        block(81, 8, 4),
        block(97, 32, 4),
        block(129, 8, 8),
        block(192, 16, 4),
    ];
    let arch = device.properties().arch;
    list.into_par_iter().for_each(|(n, specialisation)| {
        let good = Family::Dense.matrix(n, 2, 21);
        let (middle, last) = (n / 2, n - 1);
        // (row, column, value): the pivot of the row fails.
        let mut faults = Vec::new();
        for i in [0, middle, last] {
            faults.extend([-1.0, -0.0, 0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(|value| (i, i, value)));
        }
        for (i, j) in [(last, 0), (last, middle), (middle, 0), (last, last.saturating_sub(1))] {
            if i > j {
                faults.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(|value| (i, j, value)));
            }
        }
        // Good ones between them.
        let batch = 2 * faults.len() + 1;
        let mut matrices = good.repeat(batch);
        for (number, &(i, j, value)) in faults.iter().enumerate() {
            matrices[(2 * number + 1) * n * n + i * n + j] = value;
        }
        let module = specialisation.instantiate(arch).unwrap();
        let (factors, info) = factor_with(&*device, &module, &matrices, batch, n, Layout::number(n));
        check_factor(&good, &factors[..n * n], n, &format!("{specialisation:?}"));
        for b in 0..batch {
            if b % 2 == 0 {
                let same = (0..n * n).all(|i| factors[i].to_bits() == factors[b * n * n + i].to_bits());
                assert!(info[b] == 0 && same, "{specialisation:?}: matrix {b}, a good one, has info {}", info[b]);
            } else {
                let fault @ (i, ..) = faults[b / 2];
                assert_eq!(info[b], i as i32 + 1, "{specialisation:?}, {fault:?}");
            }
        }
    });
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
