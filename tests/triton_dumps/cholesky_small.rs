//! The small Cholesky kernels: whole matrices in a warp, diagonal blocks, triangular inverses, panel solves.
//!
//! What a kernel has no business to read is NaN, which would reach its results.

use crate::bounded::{Bounded, factor, inverse, solve_row};
use crate::harness::{ARCHS, Arg, Outputs, floats, run};
use crate::matrices::{Memory, random};
use crate::support::batch::UNTOUCHED;
use crate::support::families::Family;

const BATCH: usize = 2;

/// Memory that no kernel may read.
fn poison(count: usize) -> Vec<f32> {
    vec![f32::NAN; count]
}

/// A positive definite matrix, row-major. Its eigenvalues are between 1 and 5, or the bounds would grow with each column.
fn positive(n: usize, seed: u64) -> Vec<f32> {
    let mut matrix = Family::Dense.matrix(n, 2, seed);
    (0..n).for_each(|i| matrix[i * n + i] += 1.0);
    matrix
}

/// A lower triangle as a factor is one, row-major.
fn triangle(n: usize, seed: u64) -> Vec<f32> {
    let matrix = positive(n, seed);
    factor(n, |i, j| matrix[i * n + j]).iter().map(|entry| entry.value as f32).collect()
}

/// Writes the lower half of an n-by-n matrix to `at`.
fn put_lower(memory: &mut [f32], n: usize, matrix: &[f32], at: impl Fn(usize, usize) -> usize) {
    for (i, j) in lower(n) {
        memory[at(i, j)] = matrix[i * n + j];
    }
}

/// The places of a lower half.
fn lower(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(|i| (0..=i).map(move |j| (i, j)))
}

/// Runs a kernel for each architecture.
fn on_each(kernel: &str, args: &[Arg], grid: [u32; 3], check: impl Fn(&Outputs, &str)) {
    for arch in ARCHS {
        check(&run(arch, kernel, args, grid), &format!("{arch}/{kernel}"));
    }
}

/// A batch of 32 × 32 matrices to their factors in another buffer, zeros above the diagonal.
fn check_batched(kernel: &str, from: [usize; 2], to: [usize; 2], strides_given: bool) {
    const N: usize = 32;
    const MATRICES: usize = 3;
    let size = |[batch, row]: [usize; 2]| (MATRICES - 1) * batch + (N - 1) * row + N;
    let place = |[batch, row]: [usize; 2], b: usize, i: usize, j: usize| b * batch + i * row + j;
    let mut source = poison(size(from));
    let mut expected = Memory::new(&vec![UNTOUCHED; size(to)]);
    for b in 0..MATRICES {
        let matrix = positive(N, 20 + b as u64);
        put_lower(&mut source, N, &matrix, |i, j| place(from, b, i, j));
        for (index, entry) in factor(N, |i, j| matrix[i * N + j]).into_iter().enumerate() {
            expected.set(place(to, b, index / N, index % N), entry.into());
        }
    }
    let mut args = vec![floats(&source), floats(&vec![UNTOUCHED; size(to)])];
    if strides_given {
        args.extend(from.iter().chain(&to).map(|&stride| Arg::Int(stride as i32)));
    }
    on_each(kernel, &args, [MATRICES as u32, 1, 1], |out, what| {
        Memory::new(&source).check(&out.floats(0), 0.0, what);
        expected.check(&out.floats(1), 1.0, what);
    });
}

#[test]
fn batched_factors() {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    // With gaps between rows and between matrices.
    check_batched("chol_batched_kernel", [32 * 48 + 16, 48], [32 * 64 + 80, 64], true);
}

#[test]
fn factors_by_pairs_of_columns() {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    check_batched("chol32_rank2_kernel", [1024, 32], [1024, 32], false);
}

/// A 32 × 32 diagonal block and the inverse of its factor.
#[test]
fn micro_factors_with_inverses() {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    for (kernel, n, from_source) in [("micro_potrf_gj32", 512, false), ("micro_potrf_gj32@first_div", 1024, true)] {
        let k = 48;
        let mut input = poison(BATCH * n * n);
        let matrices: Vec<_> = (0..BATCH).map(|b| positive(32, 30 + b as u64)).collect();
        let place = |b: usize, i: usize, j: usize| b * n * n + (k + i) * n + k + j;
        for (b, matrix) in matrices.iter().enumerate() {
            put_lower(&mut input, 32, matrix, |i, j| place(b, i, j));
        }
        // The first launch reads the source; the others have it in the output already.
        let (before, source) = if from_source { (vec![UNTOUCHED; input.len()], input) } else { (input, poison(1)) };
        let mut expected = Memory::new(&before);
        let mut expected_inverses = Memory::new(&poison(BATCH * 1024));
        for (b, matrix) in matrices.iter().enumerate() {
            let l = factor(32, |i, j| matrix[i * 32 + j]);
            for (index, (&entry, inverted)) in l.iter().zip(inverse(32, &l)).enumerate() {
                expected.set(place(b, index / 32, index % 32), entry.into());
                expected_inverses.set(b * 1024 + index, inverted.into());
            }
        }
        let args = [floats(&before), floats(&poison(BATCH * 1024)), floats(&source), Arg::Int(k as i32)];
        on_each(kernel, &args, [BATCH as u32, 1, 1], |out, what| {
            expected.check(&out.floats(0), 1.0, what);
            expected_inverses.check(&out.floats(1), 1.0, &format!("{what}, inverse"));
            Memory::new(&source).check(&out.floats(2), 0.0, &format!("{what}, source"));
        });
    }
}

/// A 64 × 64 diagonal block in place; what is above its diagonal stays.
#[test]
fn diagonal_factors() {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    let (n, k) = (2048, 128);
    let mut before = poison(BATCH * n * n);
    let place = |b: usize, i: usize, j: usize| b * n * n + (k + i) * n + k + j;
    let matrices: Vec<_> = (0..BATCH).map(|b| positive(64, 40 + b as u64)).collect();
    for (b, matrix) in matrices.iter().enumerate() {
        put_lower(&mut before, 64, matrix, |i, j| place(b, i, j));
    }
    let mut expected = Memory::new(&before);
    for (b, matrix) in matrices.iter().enumerate() {
        let l = factor(64, |i, j| matrix[i * 64 + j]);
        lower(64).for_each(|(i, j)| expected.set(place(b, i, j), l[i * 64 + j].into()));
    }
    let args = [floats(&before), Arg::Int(k as i32)];
    on_each("diag_factor_8x2048", &args, [BATCH as u32, 1, 1], |out, what| {
        expected.check(&out.floats(0), 1.0, what);
    });
}

/// P ← P·L⁻ᵀ below a 64 × 64 diagonal block, two tiles of rows, the second not full.
#[test]
fn panel_solves() {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    let (n, k, remaining) = (2048, 128, 80);
    let mut before = poison(BATCH * n * n);
    let place = |b: usize, i: usize, j: usize| b * n * n + (k + i) * n + k + j;
    let triangles: Vec<_> = (0..BATCH).map(|b| triangle(64, 50 + b as u64)).collect();
    let panels: Vec<_> = (0..BATCH).map(|b| random(remaining * 64, 60 + b as u64)).collect();
    for b in 0..BATCH {
        put_lower(&mut before, 64, &triangles[b], |i, j| place(b, i, j));
        for (i, row) in panels[b].chunks_exact(64).enumerate() {
            before[place(b, 64 + i, 0)..][..64].copy_from_slice(row);
        }
    }
    let mut expected = Memory::new(&before);
    for b in 0..BATCH {
        let l: Vec<_> = triangles[b].iter().map(|&entry| Bounded::exactly(entry)).collect();
        for (i, row) in panels[b].chunks_exact(64).enumerate() {
            for (j, entry) in solve_row(row, &l).into_iter().enumerate() {
                expected.set(place(b, 64 + i, j), entry.into());
            }
        }
    }
    let args = [floats(&before), Arg::Int(k as i32), Arg::Int(remaining as i32)];
    on_each("panel_solve_8x2048", &args, [2, BATCH as u32, 1], |out, what| {
        expected.check(&out.floats(0), 1.0, what);
    });
}

/// The inverses of 32 × 32 diagonal blocks, one column by each CTA; what is above their diagonals stays.
#[test]
fn inverses_of_leaves() {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    const BLOCKS: usize = 3;
    let n = 2048;
    // The last row that is read is the last block's.
    let size = BLOCKS * 32 * n;
    let place = |block: usize, i: usize, j: usize| (32 * block + i) * n + 32 * block + j;
    let mut source = poison(size);
    let before = vec![UNTOUCHED; size];
    let mut expected = Memory::new(&before);
    for block in 0..BLOCKS {
        let l = triangle(32, 70 + block as u64);
        put_lower(&mut source, 32, &l, |i, j| place(block, i, j));
        let inverted = inverse(32, &l.iter().map(|&entry| Bounded::exactly(entry)).collect::<Vec<_>>());
        lower(32).for_each(|(i, j)| expected.set(place(block, i, j), inverted[i * 32 + j].into()));
    }
    let args = [floats(&source), floats(&before)];
    on_each("exp057_tri_inv_leaf32_kernel", &args, [32 * BLOCKS as u32, 1, 1], |out, what| {
        Memory::new(&source).check(&out.floats(0), 0.0, what);
        expected.check(&out.floats(1), 1.0, what);
    });
}
