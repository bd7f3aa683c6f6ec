//! The blocked Cholesky kernels: fused panels, trailing updates, Schur complements.

use crate::harness::{ARCHS, Arg, corpus, floats, run};
use crate::matrices::{Expected, FP16, FP32, Memory, TF32, dot, random};

const BATCH: usize = 2;

/// The tiles of a lower triangle in the order of the kernels' first program index.
fn triangle(tiles: usize) -> u32 {
    (tiles * (tiles + 1) / 2) as u32
}

/// T ← T − L·Lᵀ below the panel of `depth` columns at `j`, on and below the diagonal alone.
fn trailing(n: usize, j: usize, remaining: usize, depth: usize, before: &[f32], batches: &[usize]) -> Memory {
    let mut memory = Memory::new(before);
    for &batch in batches {
        let at = |row: usize, column: usize| batch * n * n + (j + depth + row) * n + column;
        for row in 0..remaining {
            // Within a tile on the diagonal only the lower half; tiles above it are not visited.
            for column in 0..=row {
                let product = dot(depth, |p| memory.before(at(row, j + p)), |p| memory.before(at(column, j + p)));
                let target = at(row, j + depth + column);
                memory.set(target, memory.before(target).minus(product));
            }
        }
    }
    memory
}

#[test]
fn trailing_updates() {
    if corpus().is_none() {
        return;
    }
    for (kernel, n, depth, tolerance) in [
        ("trailing_nb", 512, 128, FP16),
        ("trailing_nb@fp16_n2048_nb256", 2048, 256, FP16),
        ("trailing_nb@tf32_n1024", 1024, 128, TF32),
        ("trailing_nb@tf32x3_n512", 512, 128, FP32),
    ] {
        // Two tiles of rows, the second not full.
        let (j, remaining) = (64, 208);
        let before = random(BATCH * n * n, 7);
        let expected = trailing(n, j, remaining, depth, &before, &[0, 1]);
        for arch in ARCHS {
            let args = [floats(&before), floats(&[0.0]), Arg::Int(j as i32), Arg::Int(remaining as i32)];
            let out = run(arch, kernel, &args, [triangle(2), BATCH as u32, 1]);
            expected.check(&out.floats(0), tolerance, &format!("{arch}/{kernel}"));
        }
    }
}

#[test]
fn lower_schur() {
    if corpus().is_none() {
        return;
    }
    let (n, k, remaining) = (2048, 128, 176);
    let before = random(n * n, 8);
    let expected = trailing(n, k, remaining, 64, &before, &[0]);
    for arch in ARCHS {
        let args = [floats(&before), Arg::Int(k as i32), Arg::Int(remaining as i32)];
        let out = run(arch, "lower_schur_8x2048", &args, [triangle(2), 1, 1]);
        expected.check(&out.floats(0), TF32, &format!("{arch}/lower_schur_8x2048"));
    }
}

#[test]
fn panel_inner_updates() {
    if corpus().is_none() {
        return;
    }
    for (kernel, n, tile, column_tiles, tolerance) in [
        ("panel_inner32", 512, 128, 1, FP32),
        ("panel_inner32@tf32_n1024", 1024, 128, 1, TF32),
        ("panel_inner32_subtile64", 512, 64, 2, FP32),
        ("panel_inner32_subtile64@ieee_n512", 512, 64, 2, FP32),
        ("panel_inner32_subtile64@tf32_n2048", 2048, 64, 2, TF32),
    ] {
        let (k, width, remaining) = (32, 96, 176);
        let before = random(BATCH * n * n, 9);
        let mut expected = Memory::new(&before);
        for batch in 0..BATCH {
            let at = |row: usize, column: usize| batch * n * n + (k + 32 + row) * n + column;
            for (row, column) in (0..remaining).flat_map(|row| (0..width).map(move |column| (row, column))) {
                let product = dot(32, |p| expected.before(at(row, k + p)), |p| expected.before(at(column, k + p)));
                let target = at(row, k + 32 + column);
                expected.set(target, expected.before(target).minus(product));
            }
        }
        for arch in ARCHS {
            let args = [
                floats(&before),
                floats(&[0.0]),
                Arg::Int(k as i32),
                Arg::Int(width as i32),
                Arg::Int(remaining as i32),
            ];
            let grid = [(remaining as u32).div_ceil(tile) * column_tiles, BATCH as u32, 1];
            let out = run(arch, kernel, &args, grid);
            expected.check(&out.floats(0), tolerance, &format!("{arch}/{kernel}"));
        }
    }
}

/// Four sub-steps of 32 columns: a solve with the inverse of the diagonal block, then the update of the columns right of it.
#[test]
fn fused_panels() {
    if corpus().is_none() {
        return;
    }
    for (kernel, n, tolerance) in [
        ("panel_fused128", 512, FP32),
        ("panel_fused128@tf32_n1024", 1024, TF32),
        ("panel_fused128@tf32_n1024_trans", 1024, TF32),
    ] {
        let (j, rows, stride) = (64_usize, 176_usize, 4096_usize);
        let before = random(BATCH * n * n, 10);
        let inverses = random(4 * stride, 11);
        let mut expected = Memory::new(&before);
        for batch in 0..BATCH {
            for row in 0..rows {
                let from = batch * n * n + (j + 128 + row) * n + j;
                let mut line: Vec<Expected> = (0..128).map(|column| expected.before(from + column)).collect();
                for step in 0..4 {
                    let inverse =
                        |r: usize, c: usize| Expected::exactly(inverses[step * stride + batch * 1024 + r * 32 + c]);
                    let solved: Vec<Expected> =
                        (0..32).map(|r| dot(32, |c| line[32 * step + c], |c| inverse(r, c))).collect();
                    line[32 * step..32 * step + 32].copy_from_slice(&solved);
                    let rest = 32 * (step + 1);
                    for (column, target) in (rest..).zip(&mut line[rest..]) {
                        let left = |p: usize| expected.before(batch * n * n + (j + column) * n + j + 32 * step + p);
                        *target = target.minus(dot(32, |p| solved[p], left));
                    }
                }
                for (column, &value) in line.iter().enumerate() {
                    expected.set(from + column, value);
                }
            }
            // The mirror of the panel is cleared.
            for (row, column) in (0..128).flat_map(|row| (0..rows).map(move |column| (row, column))) {
                let target = batch * n * n + (j + row) * n + j + 128 + column;
                expected.set(target, Expected::exactly(0.0));
            }
        }
        for arch in ARCHS {
            let args = [
                floats(&before),
                floats(&inverses),
                floats(&[0.0]),
                Arg::Int(j as i32),
                Arg::Int(rows as i32),
                Arg::Int(stride as i32),
            ];
            let out = run(arch, kernel, &args, [2, BATCH as u32, 1]);
            // The last columns have gone through seven products, each with its own error.
            expected.check(&out.floats(0), 7.0 * tolerance, &format!("{arch}/{kernel}"));
        }
    }
}

#[test]
fn diagonal_block_steps() {
    if corpus().is_none() {
        return;
    }
    for (kernel, n, tolerance) in [("diag_block_step", 1024, TF32), ("diag_block_step@tf32x3_n512", 512, FP32)] {
        let (k, rows) = (32, 96);
        let before = random(BATCH * n * n, 12);
        let inverses = random(BATCH * 1024, 13);
        let mut expected = Memory::new(&before);
        for batch in 0..BATCH {
            let at = |row: usize, column: usize| batch * n * n + (k + row) * n + k + column;
            let solved: Vec<Vec<Expected>> = (0..rows)
                .map(|row| {
                    let inverse = |r: usize, c: usize| Expected::exactly(inverses[batch * 1024 + r * 32 + c]);
                    (0..32).map(|r| dot(32, |c| expected.before(at(32 + row, c)), |c| inverse(r, c))).collect()
                })
                .collect();
            for row in 0..rows {
                for (column, &value) in solved[row].iter().enumerate() {
                    expected.set(at(32 + row, column), value);
                    expected.set(at(column, 32 + row), Expected::exactly(0.0));
                }
                for column in 0..rows {
                    let target = at(32 + row, 32 + column);
                    let product = dot(32, |p| solved[row][p], |p| solved[column][p]);
                    expected.set(target, expected.before(target).minus(product));
                }
            }
        }
        for arch in ARCHS {
            let args = [floats(&before), floats(&inverses), floats(&[0.0]), Arg::Int(k as i32), Arg::Int(rows as i32)];
            let out = run(arch, kernel, &args, [BATCH as u32, 1, 1]);
            // Two products, the second of the first's results on both sides.
            expected.check(&out.floats(0), 3.0 * tolerance, &format!("{arch}/{kernel}"));
        }
    }
}

#[test]
fn panel_applications() {
    if corpus().is_none() {
        return;
    }
    for (kernel, n, tolerance, from_source) in [
        ("panel_apply32", 512, FP32, false),
        ("panel_apply32@tf32_n2048", 2048, TF32, false),
        ("panel_apply32@tf32x3_first", 512, FP32, true),
    ] {
        let (k, remaining) = (32, 208);
        let before = random(BATCH * n * n, 14);
        let source = random(if from_source { BATCH * n * n } else { 1 }, 15);
        let inverses = random(BATCH * 1024, 16);
        let mut expected = Memory::new(&before);
        for batch in 0..BATCH {
            let at = |row: usize, column: usize| batch * n * n + (k + row) * n + k + column;
            for row in 0..remaining {
                for r in 0..32 {
                    let panel = |c: usize| {
                        let place = at(32 + row, c);
                        if from_source { Expected::exactly(source[place]) } else { expected.before(place) }
                    };
                    let value = dot(32, panel, |c| Expected::exactly(inverses[batch * 1024 + r * 32 + c]));
                    expected.set(at(32 + row, r), value);
                    expected.set(at(r, 32 + row), Expected::exactly(0.0));
                }
            }
        }
        for arch in ARCHS {
            let args =
                [floats(&before), floats(&inverses), floats(&source), Arg::Int(k as i32), Arg::Int(remaining as i32)];
            let out = run(arch, kernel, &args, [2, BATCH as u32, 1]);
            expected.check(&out.floats(0), tolerance, &format!("{arch}/{kernel}"));
        }
    }
}
