//! The small Cholesky kernels: whole matrices in a warp, diagonal blocks, panel solves, moves.

use half::f16;

use crate::harness::{ARCHS, Arg, Outputs, corpus, floats, halves, run};
use crate::matrices::{Expected, FP32, Memory, random};
use crate::support::families::Family;
use crate::support::oracle::{check_factor, factor_f64};

/// Blocks of a batch, one after the other.
fn blocks(n: usize, count: usize) -> Vec<Vec<f32>> {
    (0..count).map(|index| Family::Dense.matrix(n, 2, 20 + index as u64)).collect()
}

/// Random memory of `batch` n × n matrices with a block of each at (k, k).
fn embedded(n: usize, k: usize, blocks: &[Vec<f32>], seed: u64) -> Vec<f32> {
    let mut memory = random(blocks.len() * n * n, seed);
    for (batch, block) in blocks.iter().enumerate() {
        let size = block.len().isqrt();
        for row in 0..size {
            memory[batch * n * n + (k + row) * n + k..][..size].copy_from_slice(&block[row * size..][..size]);
        }
    }
    memory
}

/// A factor's element with an error of 1e-4 of the largest in the factor allowed: the approximate square roots and
/// quotients of the kernels are good to 2⁻²², and a block of order 64 and condition 100 magnifies that.
fn factored(value: f64) -> Expected {
    Expected { value, magnitude: 1.0 }
}

const FACTOR: f64 = 1e-4;

#[test]
fn whole_matrices_in_a_warp() {
    if corpus().is_none() {
        return;
    }
    let matrices = blocks(32, 5);
    let flat = matrices.concat();
    for arch in ARCHS {
        let mut outputs: Vec<(&str, Outputs)> = Vec::new();
        let args = [floats(&flat), Arg::Empty(4 * flat.len())];
        outputs.push(("chol32_rank2_kernel", run(arch, "chol32_rank2_kernel", &args, [5, 1, 1])));
        let [matrix, row] = [Arg::Int(1024), Arg::Int(32)];
        let args = [floats(&flat), Arg::Empty(4 * flat.len()), matrix, row, Arg::Int(1024), Arg::Int(32)];
        outputs.push(("chol_batched_kernel", run(arch, "chol_batched_kernel", &args, [5, 1, 1])));
        for (kernel, out) in outputs {
            let factors = out.floats(1);
            for (matrix, factor) in matrices.iter().zip(factors.chunks(1024)) {
                for (index, value) in factor.iter().enumerate() {
                    assert!(index % 32 <= index / 32 || *value == 0.0, "{arch}/{kernel}: {index} is {value}");
                }
                check_factor(matrix, factor, 32, &format!("{arch}/{kernel}"));
            }
        }
    }
}

#[test]
fn pivot_blocks_with_their_inverses() {
    if corpus().is_none() {
        return;
    }
    for (kernel, n, from_source) in [("micro_potrf_gj32", 512, false), ("micro_potrf_gj32@first_div", 1024, true)] {
        let k = 64;
        let matrices = blocks(32, 2);
        let memory = embedded(n, k, &matrices, 21);
        let before = if from_source { random(2 * n * n, 22) } else { memory.clone() };
        let mut expected = Memory::new(&before);
        let mut inverses = Memory::new(&vec![0.0; 2048]);
        for (batch, matrix) in matrices.iter().enumerate() {
            let factor = factor_f64(matrix, 32).unwrap();
            for (row, column) in (0..32).flat_map(|row| (0..32).map(move |column| (row, column))) {
                let value = if column <= row { factor[row * 32 + column] } else { 0.0 };
                expected.set(batch * n * n + (k + row) * n + k + column, factored(value));
            }
            // Columns of the inverse by forward substitution; its elements are up to 10 here (a condition of 100).
            for column in 0..32 {
                let mut x = [0.0; 32];
                for row in column..32 {
                    let known: f64 = (column..row).map(|p| factor[row * 32 + p] * x[p]).sum();
                    x[row] = (f64::from(u8::from(row == column)) - known) / factor[row * 32 + row];
                }
                for (row, &value) in x.iter().enumerate() {
                    inverses.set(batch * 1024 + row * 32 + column, Expected { value, magnitude: 100.0 });
                }
            }
        }
        for arch in ARCHS {
            let source = floats(if from_source { &memory } else { &[0.0] });
            let args = [floats(&before), Arg::Empty(4 * 2048), source, Arg::Int(k as i32)];
            let out = run(arch, kernel, &args, [2, 1, 1]);
            expected.check(&out.floats(0), FACTOR, &format!("{arch}/{kernel}"));
            inverses.check(&out.floats(1), FACTOR, &format!("{arch}/{kernel}, inverse"));
        }
    }
}

#[test]
fn diagonal_factors() {
    if corpus().is_none() {
        return;
    }
    let (n, k) = (2048, 128);
    let matrices = blocks(64, 1);
    let before = embedded(n, k, &matrices, 23);
    let factor = factor_f64(&matrices[0], 64).unwrap();
    let mut expected = Memory::new(&before);
    for (row, column) in (0..64).flat_map(|row| (0..=row).map(move |column| (row, column))) {
        expected.set((k + row) * n + k + column, factored(factor[row * 64 + column]));
    }
    for arch in ARCHS {
        let out = run(arch, "diag_factor_8x2048", &[floats(&before), Arg::Int(k as i32)], [1, 1, 1]);
        expected.check(&out.floats(0), FACTOR, &format!("{arch}/diag_factor_8x2048"));
    }
}

/// X·Lᵀ = A for the rows under a diagonal block of 64.
#[test]
fn panel_solves() {
    if corpus().is_none() {
        return;
    }
    let (n, k, remaining) = (2048, 64, 112);
    let mut lower = random(64 * 64, 24);
    (0..64).for_each(|row| lower[row * 65] += 8.0);
    let before = embedded(n, k, &[lower.clone()], 25);
    let mut expected = Memory::new(&before);
    for row in 0..remaining {
        let from = (k + 64 + row) * n + k;
        let mut x = [0.0; 64];
        for column in 0..64 {
            let known: f64 = (0..column).map(|p| x[p] * f64::from(lower[column * 64 + p])).sum();
            x[column] = (f64::from(before[from + column]) - known) / f64::from(lower[column * 65]);
            expected.set(from + column, Expected { value: x[column], magnitude: 1.0 });
        }
    }
    for arch in ARCHS {
        let args = [floats(&before), Arg::Int(k as i32), Arg::Int(remaining as i32)];
        let out = run(arch, "panel_solve_8x2048", &args, [2, 1, 1]);
        expected.check(&out.floats(0), FP32, &format!("{arch}/panel_solve_8x2048"));
    }
}

#[test]
fn inverses_of_leaves() {
    if corpus().is_none() {
        return;
    }
    let (n, blocks) = (2048, 3);
    let mut lower = random(n * n, 26);
    (0..n).for_each(|row| lower[row * (n + 1)] += 4.0);
    let before = random(n * n, 27);
    let mut expected = Memory::new(&before);
    for (block, column) in (0..blocks).flat_map(|block| (0..32).map(move |column| (32 * block, column))) {
        let element = |row: usize, column: usize| f64::from(lower[(block + row) * n + block + column]);
        let mut x = [0.0; 32];
        for row in column..32 {
            let known: f64 = (column..row).map(|p| element(row, p) * x[p]).sum();
            x[row] = (f64::from(u8::from(row == column)) - known) / element(row, row);
            let target = (block + row) * n + block + column;
            expected.set(target, Expected { value: x[row], magnitude: 1.0 });
        }
    }
    for arch in ARCHS {
        let args = [floats(&lower), floats(&before)];
        let out = run(arch, "exp057_tri_inv_leaf32_kernel", &args, [32 * blocks as u32, 1, 1]);
        expected.check(&out.floats(1), FP32, &format!("{arch}/exp057_tri_inv_leaf32_kernel"));
    }
}

/// out = src − prod with strides and a mask (16 × 512 elements a CTA).
#[test]
fn block_moves() {
    if corpus().is_none() {
        return;
    }
    let (rows, columns, stride_source, stride_out) = (48_usize, 1040, 1056, 1072);
    let (source, product) = (random(rows * stride_source, 28), random(rows * columns, 29));
    let grid = [(rows as u32).div_ceil(16), (columns as u32).div_ceil(512), 1];
    let value = |row: usize, column: usize, with_product: bool| {
        source[row * stride_source + column] - if with_product { product[row * columns + column] } else { 0.0 }
    };
    let strides = || [rows, columns, stride_source, stride_out].map(|value| Arg::Int(value as i32));
    for arch in ARCHS {
        for (kernel, with_product) in [("exp061_block_move_kernel", true), ("exp061_block_move_kernel@noprod", false)] {
            let mut expected = Memory::new(&random(rows * stride_out, 30));
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                let value = Expected::exactly(value(row, column, with_product));
                expected.set(row * stride_out + column, value);
            }
            let mut args = vec![floats(&source), floats(&product), floats(&random(rows * stride_out, 30))];
            args.extend(strides());
            expected.check(&run(arch, kernel, &args, grid).floats(2), 0.0, &format!("{arch}/{kernel}"));
        }
        let mut args = vec![floats(&source), floats(&product), halves(&vec![0x1234; rows * stride_out])];
        args.extend(strides());
        let out = run(arch, "exp061_block_move_kernel@fp16", &args, grid).halves(2);
        for (index, &found) in out.iter().enumerate() {
            let (row, column) = (index / stride_out, index % stride_out);
            let expected = if column < columns { f16::from_f32(value(row, column, true)).to_bits() } else { 0x1234 };
            assert_eq!(found, expected, "{arch}/exp061_block_move_kernel@fp16: ({row}, {column})");
        }
    }
}

#[test]
fn upper_triangles_are_cleared() {
    if corpus().is_none() {
        return;
    }
    for arch in ARCHS {
        let n = 512;
        let out = run(arch, "clear_upper_tiles", &[floats(&vec![7.0; 2 * n * n])], [10, 2, 1]).floats(0);
        for (index, value) in out.into_iter().enumerate() {
            let (row, column) = (index / n % n, index % n);
            assert_eq!(value, if column > row { 0.0 } else { 7.0 }, "{arch}/clear_upper_tiles: ({row}, {column})");
        }
        // The grid is 4096 CTAs of 256 threads, which go on by 2²⁰ elements: the first 64 do all steps of their share.
        let n = 2048;
        let ctas = 64;
        let out = run(arch, "clear_upper_8x2048", &[floats(&vec![7.0; 8 * n * n])], [ctas, 1, 1]).floats(0);
        for (index, value) in out.into_iter().enumerate() {
            let (row, column) = (index / n % n, index % n);
            let mine = index % (4096 * 256) < ctas as usize * 256;
            let expected = if column > row && mine { 0.0 } else { 7.0 };
            assert_eq!(value, expected, "{arch}/clear_upper_8x2048: element {index}");
        }
    }
}
