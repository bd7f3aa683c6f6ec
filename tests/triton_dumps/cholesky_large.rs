//! The blocked Cholesky kernels: fused panels, trailing updates, Schur complements.
//!
//! Matrices hold numbers only where a kernel has to read, and NaN elsewhere: what it reads besides makes its results NaN.
//! Their last rows are the last of the buffer, so that a tile of rows that is not full and not masked leaves it.

use std::ops::Range;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::harness::{ARCHS, Arg, floats, run};
use crate::matrices::{Expected, Memory};
use crate::products::{Approximate, Precision, WITHIN};

/// The kernels have FIRST = false, but one: their source is not read.
const NO_SOURCE: Arg = Arg::Empty(4);

/// `batch` n × n matrices, of which some parts are numbers.
struct Matrices {
    n: usize,
    batch: usize,
    memory: Vec<f32>,
    random: StdRng,
}

impl Matrices {
    fn new(batch: usize, n: usize, seed: u64) -> Self {
        Self { n, batch, memory: vec![f32::NAN; batch * n * n], random: StdRng::seed_from_u64(seed) }
    }

    fn place(&self, batch: usize, row: usize, column: usize) -> usize {
        (batch * self.n + row) * self.n + column
    }

    /// Random numbers up to `size` in a rectangle of every matrix, where `which` says so.
    fn fill(&mut self, rows: Range<usize>, columns: Range<usize>, size: f32, which: impl Fn(usize, usize) -> bool) {
        for (batch, row) in (0..self.batch).flat_map(|batch| rows.clone().map(move |row| (batch, row))) {
            for column in columns.clone().filter(|&column| which(row, column)) {
                let place = self.place(batch, row, column);
                self.memory[place] = self.random.random_range(-size..size);
            }
        }
    }

    fn at(&self, batch: usize, row: usize, column: usize) -> Approximate {
        Approximate::exactly(self.memory[self.place(batch, row, column)])
    }

    /// A part of a row.
    fn row(&self, batch: usize, row: usize, columns: Range<usize>) -> impl Iterator<Item = Approximate> {
        columns.map(move |column| self.at(batch, row, column))
    }

    /// Rows of a part of one matrix, as a product reads them.
    fn operands(
        &self,
        precision: Precision,
        batch: usize,
        rows: Range<usize>,
        columns: Range<usize>,
    ) -> Vec<Vec<Approximate>> {
        rows.map(|row| precision.operands(self.row(batch, row, columns.clone()))).collect()
    }

    /// Zeros are expected in the mirror of a panel: `rows` above it, `columns` beside.
    fn expect_zeros(&self, expected: &mut Memory, batch: usize, rows: Range<usize>, columns: Range<usize>) {
        for (row, column) in rows.flat_map(|row| columns.clone().map(move |column| (row, column))) {
            expected.set(self.place(batch, row, column), Expected::exactly(0.0));
        }
    }
}

/// 32 × 32 inverses of diagonal blocks, `gap` numbers from one to the next, `count` times those of a batch; all of a block is
/// read. They are near to the identity, lest a chain of products has no bound.
struct Inverses {
    memory: Vec<f32>,
    stride: usize,
}

impl Inverses {
    fn new(count: usize, batch: usize, stride: usize, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut memory = vec![f32::NAN; count * stride];
        for block in memory.chunks_mut(stride).flat_map(|step| step[..batch * 1024].chunks_mut(1024)) {
            for (index, value) in block.iter_mut().enumerate() {
                let on_diagonal = index % 33 == 0;
                *value = if on_diagonal { random.random_range(0.5..1.0) } else { random.random_range(-0.1..0.1) };
            }
        }
        Self { memory, stride }
    }

    /// One of them by rows, as a product reads them.
    fn operands(&self, precision: Precision, step: usize, batch: usize) -> Vec<Vec<Approximate>> {
        let block = &self.memory[step * self.stride + batch * 1024..][..1024];
        block.chunks(32).map(|row| precision.operands(row.iter().map(|&value| Approximate::exactly(value)))).collect()
    }
}

/// The products of a row with all rows of a matrix.
fn products(precision: Precision, row: &[Approximate], rows: &[Vec<Approximate>]) -> Vec<Approximate> {
    rows.iter().map(|other| precision.dot(row, other)).collect()
}

/// The first two rows of tiles of a lower triangle, in the order of the kernels' first program index.
const TWO_ROWS_OF_TILES: u32 = 3;

/// T ← T − L·Lᵀ on and below the diagonal, below a panel of `depth` columns at `j` that ends with the matrix.
fn check_trailing(kernel: &str, n: usize, batch: usize, depth: usize, precision: Precision) {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    // Two tiles of rows, the second not full.
    let remaining = 176;
    let j = n - depth - remaining;
    let (panel, trailing) = (j..j + depth, j + depth..n);
    let mut inputs = Matrices::new(batch, n, 7);
    inputs.fill(trailing.clone(), panel.clone(), 1.0, |_, _| true);
    inputs.fill(trailing.clone(), trailing.clone(), 1.0, |row, column| column <= row);
    let mut expected = Memory::new(&inputs.memory);
    for batch in 0..batch {
        let rows = inputs.operands(precision, batch, trailing.clone(), panel.clone());
        for row in 0..remaining {
            for column in 0..=row {
                let product = precision.dot(&rows[row], &rows[column]);
                let (row, column) = (j + depth + row, j + depth + column);
                let value = inputs.at(batch, row, column).minus(product);
                expected.set(inputs.place(batch, row, column), value.into());
            }
        }
    }
    for arch in ARCHS {
        let mut args = vec![floats(&inputs.memory)];
        if kernel.starts_with("trailing_nb") {
            args.push(NO_SOURCE);
        }
        args.extend([j, remaining].map(|value| Arg::Int(value as i32)));
        let out = run(arch, kernel, &args, [TWO_ROWS_OF_TILES, batch as u32, 1]);
        expected.check(&out.floats(0), WITHIN, &format!("{arch}/{kernel}"));
    }
}

#[test]
fn trailing_updates_of_halves() {
    check_trailing("trailing_nb", 512, 2, 128, Precision::Fp16);
    check_trailing("trailing_nb@fp16_n2048_nb256", 2048, 2, 256, Precision::Fp16);
}

#[test]
fn trailing_updates() {
    check_trailing("trailing_nb@tf32_n1024", 1024, 2, 128, Precision::Tf32);
    check_trailing("trailing_nb@tf32x3_n512", 512, 2, 128, Precision::Tf32x3);
}

#[test]
fn lower_schur() {
    check_trailing("lower_schur_8x2048", 2048, 2, 64, Precision::Tf32);
}

/// T ← T − L·Lᵀ for the `width` columns right of a panel of 32, for rows that end with the matrix.
fn check_inner(kernel: &str, n: usize, tile: usize, precision: Precision) {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    let (batch, width, remaining) = (2, 80, 176);
    let k = n - 32 - remaining;
    let (panel, below) = (k..k + 32, k + 32..n);
    let mut inputs = Matrices::new(batch, n, 9);
    inputs.fill(below.clone(), k..k + 32 + width, 1.0, |_, _| true);
    let mut expected = Memory::new(&inputs.memory);
    for batch in 0..batch {
        let rows = inputs.operands(precision, batch, below.clone(), panel.clone());
        for (row, operand) in below.clone().zip(&rows) {
            let products = products(precision, operand, &rows[..width]);
            for (column, product) in (k + 32..).zip(products) {
                let value = inputs.at(batch, row, column).minus(product);
                expected.set(inputs.place(batch, row, column), value.into());
            }
        }
    }
    // Tiles of 128 cover the width; of those of 64 there are two side by side.
    let tiles = remaining.div_ceil(tile) * (128 / tile);
    for arch in ARCHS {
        let mut args = vec![floats(&inputs.memory), NO_SOURCE];
        args.extend([k, width, remaining].map(|value| Arg::Int(value as i32)));
        let out = run(arch, kernel, &args, [tiles as u32, batch as u32, 1]);
        expected.check(&out.floats(0), WITHIN, &format!("{arch}/{kernel}"));
    }
}

#[test]
fn panel_inner_updates() {
    check_inner("panel_inner32", 512, 128, Precision::Tf32x3);
    check_inner("panel_inner32@tf32_n1024", 1024, 128, Precision::Tf32);
}

#[test]
fn panel_inner_updates_by_small_tiles() {
    check_inner("panel_inner32_subtile64", 512, 64, Precision::Tf32x3);
    check_inner("panel_inner32_subtile64@ieee_n512", 512, 64, Precision::Ieee);
    check_inner("panel_inner32_subtile64@tf32_n2048", 2048, 64, Precision::Tf32);
}

/// Four sub-steps of 32 columns: a solve with the inverse of the diagonal block, then the update of the columns right of it.
fn check_fused(kernel: &str, n: usize, precision: Precision) {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    let (batch, rows) = (2, 176);
    let j = n - 128 - rows;
    let (panel, below) = (j..j + 128, j + 128..n);
    let mut inputs = Matrices::new(batch, n, 10);
    inputs.fill(below.clone(), panel.clone(), 1.0, |_, _| true);
    // Of the factored diagonal block only the blocks below its own diagonal ones are read.
    inputs.fill(panel.clone(), panel.clone(), 0.1, |row, column| (column - j) / 32 < (row - j) / 32);
    let inverses = Inverses::new(4, batch, batch * 1024 + 16, 11);
    let mut expected = Memory::new(&inputs.memory);
    for batch in 0..batch {
        let factors: Vec<_> = (0..4)
            .map(|step| {
                let (first, end) = (j + 32 * step, j + 32 * (step + 1));
                let right = inputs.operands(precision, batch, end..panel.end, first..end);
                (inverses.operands(precision, step, batch), right)
            })
            .collect();
        for row in below.clone() {
            let mut line: Vec<Approximate> = inputs.row(batch, row, panel.clone()).collect();
            for (step, (inverse, right)) in factors.iter().enumerate() {
                let (solved, rest) = line[32 * step..].split_at_mut(32);
                let operand = precision.operands(solved.iter().copied());
                solved.copy_from_slice(&products(precision, &operand, inverse));
                let operand = precision.operands(solved.iter().copied());
                for (value, product) in rest.iter_mut().zip(products(precision, &operand, right)) {
                    *value = value.minus(product);
                }
            }
            for (column, value) in panel.clone().zip(line) {
                expected.set(inputs.place(batch, row, column), value.into());
            }
        }
        inputs.expect_zeros(&mut expected, batch, panel.clone(), below.clone());
    }
    for arch in ARCHS {
        let mut args = vec![floats(&inputs.memory), floats(&inverses.memory), NO_SOURCE];
        args.extend([j, rows, inverses.stride].map(|value| Arg::Int(value as i32)));
        let out = run(arch, kernel, &args, [2, batch as u32, 1]);
        expected.check(&out.floats(0), WITHIN, &format!("{arch}/{kernel}"));
        out.expect_inputs(&args, [1], kernel);
    }
}

#[test]
fn fused_panels() {
    check_fused("panel_fused128", 512, Precision::Tf32x3);
    check_fused("panel_fused128@tf32_n1024", 1024, Precision::Tf32);
    check_fused("panel_fused128@tf32_n1024_trans", 1024, Precision::Tf32);
}

/// In one go for the rows below a pivot block, which end with the matrix: the solve, and the update with its result.
fn check_diagonal_step(kernel: &str, n: usize, precision: Precision) {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    let (batch, rows) = (2, 80);
    let k = n - 32 - rows;
    let (panel, below) = (k..k + 32, k + 32..n);
    let mut inputs = Matrices::new(batch, n, 12);
    inputs.fill(below.clone(), k..n, 1.0, |_, _| true);
    let inverses = Inverses::new(1, batch, batch * 1024, 13);
    let mut expected = Memory::new(&inputs.memory);
    for batch in 0..batch {
        let inverse = inverses.operands(precision, 0, batch);
        let mut solved = Vec::new();
        for (row, operand) in below.clone().zip(inputs.operands(precision, batch, below.clone(), panel.clone())) {
            let values = products(precision, &operand, &inverse);
            for (column, &value) in panel.clone().zip(&values) {
                expected.set(inputs.place(batch, row, column), value.into());
            }
            solved.push(precision.operands(values.into_iter()));
        }
        for (row, operand) in below.clone().zip(&solved) {
            for (column, product) in below.clone().zip(products(precision, operand, &solved)) {
                let value = inputs.at(batch, row, column).minus(product);
                expected.set(inputs.place(batch, row, column), value.into());
            }
        }
        inputs.expect_zeros(&mut expected, batch, panel.clone(), below.clone());
    }
    for arch in ARCHS {
        let mut args = vec![floats(&inputs.memory), floats(&inverses.memory), NO_SOURCE];
        args.extend([k, rows].map(|value| Arg::Int(value as i32)));
        let out = run(arch, kernel, &args, [batch as u32, 1, 1]);
        expected.check(&out.floats(0), WITHIN, &format!("{arch}/{kernel}"));
        out.expect_inputs(&args, [1], kernel);
    }
}

#[test]
fn diagonal_block_steps() {
    check_diagonal_step("diag_block_step", 1024, Precision::Tf32);
    check_diagonal_step("diag_block_step@tf32x3_n512", 512, Precision::Tf32x3);
}

/// The solve for the rows below a pivot block, which end with the matrix.
fn check_apply(kernel: &str, n: usize, precision: Precision, from_source: bool) {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    let (batch, remaining) = (2, 176);
    let k = n - 32 - remaining;
    let (panel, below) = (k..k + 32, k + 32..n);
    let mut inputs = Matrices::new(batch, n, 14);
    inputs.fill(below.clone(), panel.clone(), 1.0, |_, _| true);
    let inverses = Inverses::new(1, batch, batch * 1024, 16);
    let before = if from_source { vec![f32::NAN; inputs.memory.len()] } else { inputs.memory.clone() };
    let mut expected = Memory::new(&before);
    for batch in 0..batch {
        let inverse = inverses.operands(precision, 0, batch);
        for (row, operand) in below.clone().zip(inputs.operands(precision, batch, below.clone(), panel.clone())) {
            for (column, value) in panel.clone().zip(products(precision, &operand, &inverse)) {
                expected.set(inputs.place(batch, row, column), value.into());
            }
        }
        inputs.expect_zeros(&mut expected, batch, panel.clone(), below.clone());
    }
    for arch in ARCHS {
        let source = if from_source { floats(&inputs.memory) } else { NO_SOURCE };
        let mut args = vec![floats(&before), floats(&inverses.memory), source];
        args.extend([k, remaining].map(|value| Arg::Int(value as i32)));
        let out = run(arch, kernel, &args, [2, batch as u32, 1]);
        expected.check(&out.floats(0), WITHIN, &format!("{arch}/{kernel}"));
        let inputs = if from_source { 1..3 } else { 1..2 };
        out.expect_inputs(&args, inputs, kernel);
    }
}

#[test]
fn panel_applications() {
    check_apply("panel_apply32", 512, Precision::Tf32x3, false);
    check_apply("panel_apply32@tf32_n2048", 2048, Precision::Tf32, false);
    check_apply("panel_apply32@tf32x3_first", 512, Precision::Tf32x3, true);
}
