//! Matrices of order 2048 in place: for each block of columns the diagonal block, the panel below it, the update of the rest.

use serde::Serialize;

use crate::kernels::program::{ProgramError, TileProgram, check, check_extent};
use crate::tile::Scalar::{F32, I32};
use crate::tile::build::{KernelBuilder, mask};
use crate::tile::{Func, InputPrecision};

use super::{check_order, lower_tile};

/// Factors the diagonal block at (k, k) of each matrix, in place. Grid: matrices. Entry: `a_ptr`, `k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct DiagonalFactor {
    /// Order of the matrices.
    pub n: u32,
    /// Order of the block: a power of two from 16 to 128.
    pub block: u32,
}

impl TileProgram for DiagonalFactor {
    const NAME: &'static str = "_diag_factor_8x2048";

    fn num_warps(&self) -> u32 {
        8
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_order(Self::NAME, self.n)?;
        check_extent(Self::NAME, "block", self.block, 16, 128)?;
        let (n, block) = (self.n, self.block as i32);
        let t = KernelBuilder::new(Self::NAME);
        let a_ptr = t.pointer("a_ptr", F32);
        let k = t.scalar_by_16("k", I32);

        let base = t.program_id(0) * n * n;
        let (rows, cols) = (t.arange(0, block).col(), t.arange(0, block).row());
        let ptrs = a_ptr + base + (k + rows) * n + k + cols;
        let [l] = t.range(0, block, 1, [t.load(ptrs)], |p, [tile]| {
            let pivot = t.where_(rows.eq(p) & cols.eq(p), tile, 0.0).sum_all();
            let scale = 1.0 / pivot.sqrt();
            let tile = t.where_(cols.eq(p) & rows.ge(p), tile * scale, tile);
            let column = t.where_(cols.eq(p), tile, 0.0).sum(1).named("column");
            [t.where_(rows.gt(p) & cols.gt(p), tile - column.col() * column.row(), tile)]
        });
        t.store_with(ptrs, l, mask(cols.le(rows)));
        Ok(t.finish()?)
    }
}

/// Solves the rows below a factored diagonal block against it, in place. Grid: row blocks × matrices. Entry: `a_ptr`, `k`,
/// `remaining` (rows below the block).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct PanelSolve {
    /// Order of the matrices.
    pub n: u32,
    /// Order of the block: a power of two from 16 to 128.
    pub block: u32,
}

impl TileProgram for PanelSolve {
    const NAME: &'static str = "_panel_solve_8x2048";

    fn num_warps(&self) -> u32 {
        8
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_order(Self::NAME, self.n)?;
        check_extent(Self::NAME, "block", self.block, 16, 128)?;
        let (n, block) = (self.n, self.block as i32);
        let t = KernelBuilder::new(Self::NAME);
        let a_ptr = t.pointer("a_ptr", F32);
        let (k, remaining) = (t.scalar_by_16("k", I32), t.scalar_by_16("remaining", I32));

        let rows = t.program_id(0) * block + t.arange(0, block);
        let c = t.arange(0, block);
        let base = t.program_id(1) * n * n;
        let inside = rows.lt(remaining).col();
        let diagonal = t.load(a_ptr + base + (k + c.col()) * n + k + c.row());
        let panel_ptrs = a_ptr + base + (k + block + rows.col()) * n + k + c.row();
        let panel = t.load_with(panel_ptrs, mask(inside).other(0.0));
        let [panel] = t.range(0, block, 1, [panel], |p, [panel]| {
            let l_p = t.where_(c.row().eq(p), diagonal, 0.0).sum(1).named("l_p");
            let l_pp = t.where_(c.eq(p), l_p, 0.0).sum(0);
            let x_p = t.where_(c.row().eq(p), panel, 0.0).sum(1) / l_pp;
            let panel = t.where_(c.row().eq(p), x_p.col(), panel);
            [t.where_(c.row().gt(p), panel - x_p.col() * l_p.row(), panel)]
        });
        t.store_with(panel_ptrs, panel, mask(inside));
        Ok(t.finish()?)
    }
}

/// Subtracts the panel's product with its transpose from the lower triangle to the right of it, in place. Grid: tiles of the
/// lower triangle × matrices. Entry: `a_ptr`, `k`, `remaining`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct LowerSchur {
    /// Order of the matrices.
    pub n: u32,
    /// Columns of the panel: a power of two from 16 to 128.
    pub block: u32,
    /// Extent of a tile: a power of two from 16 to 256.
    pub tile: u32,
}

impl TileProgram for LowerSchur {
    const NAME: &'static str = "_lower_schur_8x2048";

    fn num_warps(&self) -> u32 {
        8
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_order(Self::NAME, self.n)?;
        check_extent(Self::NAME, "block", self.block, 16, 128)?;
        check_extent(Self::NAME, "tile", self.tile, 16, 256)?;
        let (n, block, tile) = (self.n, self.block as i32, self.tile as i32);
        let t = KernelBuilder::new(Self::NAME);
        let a_ptr = t.pointer("a_ptr", F32);
        let (k, remaining) = (t.scalar_by_16("k", I32), t.scalar_by_16("remaining", I32));

        let (block_row, block_col) = lower_tile(t.program_id(0));
        let rows = (block_row * tile + t.arange(0, tile)).col();
        let cols_vector = block_col * tile + t.arange(0, tile);
        let cols = cols_vector.row();
        let depth = t.arange(0, block);
        let base = t.program_id(1) * n * n;
        let lhs_ptrs = a_ptr + base + (k + block + rows) * n + k + depth.row();
        let rhs_ptrs = a_ptr + base + (k + block + cols) * n + k + depth.col();
        let lhs = t.load_with(lhs_ptrs, mask(rows.lt(remaining)).other(0.0));
        let rhs = t.load_with(rhs_ptrs, mask(cols.lt(remaining)).other(0.0));
        let product = t.dot_with(lhs, rhs, crate::tile::build::Dot::precision(InputPrecision::Tf32));
        let out_ptrs = a_ptr + base + (k + block + rows) * n + k + block + cols;
        let inside = rows.lt(remaining) & cols.lt(remaining);
        let lower = inside & (block_row.ne(block_col) | cols.le(rows));
        let old = t.load_with(out_ptrs, mask(lower).other(0.0));
        t.store_with(out_ptrs, old - product, mask(lower));
        Ok(t.finish()?)
    }
}

/// Zeros above the diagonals of all matrices. Grid: `grid`. Entry: `a_ptr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ClearUpper {
    /// Elements of all matrices.
    pub total: u32,
    /// Order of the matrices.
    pub n: u32,
    /// Elements that a program takes at a time: a power of two from 32 to 4096.
    pub block: u32,
    /// Programs.
    pub grid: u32,
}

impl TileProgram for ClearUpper {
    const NAME: &'static str = "_clear_upper_8x2048";

    fn num_warps(&self) -> u32 {
        8
    }

    fn program(&self) -> Result<Func, ProgramError> {
        let Self { total, n, block, grid } = *self;
        check_order(Self::NAME, n)?;
        check_extent(Self::NAME, "block", block, 32, 4096)?;
        // Offsets and the step past the last are counted in 31 bits.
        let turn = u64::from(grid) * u64::from(block);
        check(Self::NAME, "grid", grid, grid > 0 && turn <= 1 << 30, "grid × block must be from 1 to 2^30")?;
        let holds = total.is_multiple_of(n * n) && u64::from(total) + turn <= i32::MAX as u64;
        check(Self::NAME, "total", total, holds, "it must be whole matrices, and total + grid × block below 2^31")?;
        let t = KernelBuilder::new(Self::NAME);
        let a_ptr = t.pointer("a_ptr", F32);

        let first = t.program_id(0) * block + t.arange(0, block as i32);
        t.for_each(0, total, turn as i32, |step| {
            let offsets = first + step;
            let in_matrix = offsets % (n * n);
            let row = in_matrix / n;
            let col = in_matrix - row * n;
            t.store_with(a_ptr + offsets, 0.0, mask(offsets.lt(total) & col.gt(row)));
        });
        Ok(t.finish()?)
    }
}
