//! The kernels of the Cholesky seed that only move and clear.

use half::f16;

use crate::harness::{ARCHS, Arg, floats, halves, run};
use crate::matrices::random;
use crate::support::batch::UNTOUCHED;

/// Values of all the sizes that halves have, and some beyond at both ends.
fn of_all_sizes(count: usize, seed: u64) -> Vec<f32> {
    let exponents = random(count, seed + 1);
    random(count, seed).iter().zip(exponents).map(|(value, exponent)| value * (26.0 * exponent).exp2()).collect()
}

/// out = src − prod, with strides and a mask, 16 × 512 entries a CTA. The difference and the rounding to a half are each
/// correctly rounded: nothing is tolerated.
#[test]
fn block_moves() {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    let (rows, cols, stride_src, stride_out) = (80, 1040, 1056, 1072);
    let source = of_all_sizes((rows - 1) * stride_src + cols, 90);
    let product = of_all_sizes(rows * cols, 92);
    let size = (rows - 1) * stride_out + cols;
    for (kernel, with_product, to_halves) in [
        ("exp061_block_move_kernel", true, false),
        ("exp061_block_move_kernel@fp16", true, true),
        ("exp061_block_move_kernel@noprod", false, false),
    ] {
        let expected: Vec<f32> = (0..size)
            .map(|index| match (index / stride_out, index % stride_out) {
                (_, j) if j >= cols => UNTOUCHED,
                (i, j) if with_product => source[i * stride_src + j] - product[i * cols + j],
                (i, j) => source[i * stride_src + j],
            })
            .collect();
        let expected: Vec<u32> = if to_halves {
            expected.iter().map(|&value| f16::from_f32(value).to_bits().into()).collect()
        } else {
            expected.iter().map(|value| value.to_bits()).collect()
        };
        let before = if to_halves {
            halves(&vec![f16::from_f32(UNTOUCHED).to_bits(); size])
        } else {
            floats(&vec![UNTOUCHED; size])
        };
        let mut args = vec![floats(&source), floats(if with_product { &product } else { &[0.0] }), before];
        args.extend([rows, cols, stride_src, stride_out].map(|value| Arg::Int(value as i32)));
        for arch in ARCHS {
            let out = run(arch, kernel, &args, [rows.div_ceil(16) as u32, cols.div_ceil(512) as u32, 1]);
            let found: Vec<u32> = if to_halves {
                out.halves(2).into_iter().map(u32::from).collect()
            } else {
                out.floats(2).into_iter().map(f32::to_bits).collect()
            };
            let wrong = (0..size).find(|&index| found[index] != expected[index]);
            let places = wrong.map(|index| (index / stride_out, index % stride_out, found[index], expected[index]));
            assert_eq!(places, None, "{arch}/{kernel}: row, column, found, expected");
            assert!(out.floats(0) == source, "{arch}/{kernel}: the source is touched");
        }
    }
}

/// Clears above the diagonals of n × n matrices that hold `UNTOUCHED`.
fn check_cleared(kernel: &str, n: usize, matrices: usize, grid: [u32; 3]) {
    let args = [floats(&vec![UNTOUCHED; matrices * n * n])];
    for arch in ARCHS {
        let out = run(arch, kernel, &args, grid).floats(0);
        let expected = |index: usize| if index % n > index / n % n { 0.0 } else { UNTOUCHED };
        let wrong = out.iter().enumerate().find(|&(index, value)| value.to_bits() != expected(index).to_bits());
        let place = wrong.map(|(index, value)| (index / n / n, index / n % n, index % n, value));
        assert_eq!(place, None, "{arch}/{kernel}: matrix, row, column, found");
    }
}

/// By tiles of 128.
#[test]
fn clears_by_tiles() {
    if crate::support::corpus::triton().is_some() {
        check_cleared("clear_upper_tiles", 512, 2, [10, 2, 1]);
    }
}

/// A loop over all the matrices, with the whole grid that it was specialised for.
#[test]
fn clears_by_strides() {
    if crate::support::corpus::triton().is_some() {
        check_cleared("clear_upper_8x2048", 2048, 8, [4096, 1, 1]);
    }
}
