//! The symmetric update to the right of a panel, and the zeros above the diagonal.

use serde::Serialize;

use crate::kernels::program::{ProgramError, TileProgram, check, check_extent};
use crate::tile::Scalar::{F16, F32, I32, I64};
use crate::tile::build::{Dot, KernelBuilder, mask};
use crate::tile::{Func, InputPrecision};

use super::{check_order, check_precision, lower_tile, tile_offsets};

/// Subtracts the product of a panel of `depth` columns with its transpose from the lower triangle to the right of it.
///
/// Entry: `out_ptr`, `src_ptr` (what is read in the place of `out` the first time), `j` (the panel's first column),
/// `remaining` (rows below the panel). Grid: tiles of the lower triangle × matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Trailing {
    /// Order of the matrices.
    pub n: u32,
    /// Columns of the panel: a power of two from 16 to 256.
    pub depth: u32,
    /// How the products are made, in singles.
    pub precision: InputPrecision,
    /// The panel is cut to halves, and the products are made of those.
    pub halves: bool,
    /// Extent of a tile: a power of two from 16 to 256.
    pub tile: u32,
    /// The update is of `src`, and goes to `out`.
    pub first: bool,
}

impl TileProgram for Trailing {
    const NAME: &'static str = "_trailing_nb";

    fn num_warps(&self) -> u32 {
        8
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_order(Self::NAME, self.n)?;
        check_precision(Self::NAME, self.precision)?;
        check_extent(Self::NAME, "depth", self.depth, 16, 256)?;
        check_extent(Self::NAME, "tile", self.tile, 16, 256)?;
        check(Self::NAME, "depth", self.depth, self.depth <= self.n, "it must not be more than n")?;
        let (n, depth, tile) = (self.n, self.depth as i32, self.tile as i32);
        let t = KernelBuilder::new(Self::NAME);
        let (out_ptr, src_ptr) = (t.pointer("out_ptr", F32), t.pointer("src_ptr", F32));
        let (j, remaining) = (t.scalar_by_16("j", I32), t.scalar_by_16("remaining", I32));

        let (block_row, block_col) = lower_tile(t.program_id(0));
        let rows = block_row * tile + t.arange(0, tile);
        let cols = block_col * tile + t.arange(0, tile);
        let panel_cols = j + t.arange(0, depth);
        let base = t.program_id(1).to(I64) * n * n;
        let [l_rows, l_cols] = [rows, cols].map(|rows| {
            let ptrs = out_ptr + base + (j + depth + rows).col() * n + panel_cols.row();
            t.load_with(ptrs, mask(rows.col().lt(remaining)).other(0.0))
        });
        let product = if self.halves {
            t.dot(l_rows.to(F16), l_cols.to(F16).trans())
        } else {
            t.dot_with(l_rows, l_cols.trans(), Dot::precision(self.precision))
        };
        let offsets = tile_offsets(j + depth + rows, j + depth + cols, n);
        let inside = rows.col().lt(remaining) & cols.row().lt(remaining);
        let lower = inside & (block_row.ne(block_col) | cols.row().le(rows.col()));
        let from = if self.first { src_ptr } else { out_ptr };
        let old = t.load_with(from + base + offsets, mask(lower).other(0.0));
        t.store_with(out_ptr + base + offsets, old - product, mask(lower));
        Ok(t.finish()?)
    }
}

/// Zeros above the diagonals, tile by tile of the upper triangle. Grid: tiles of a triangle × matrices. Entry: `out_ptr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ClearUpperTiles {
    /// Order of the matrices.
    pub n: u32,
    /// Extent of a tile: a power of two from 16 to 256 that divides n.
    pub tile: u32,
}

impl TileProgram for ClearUpperTiles {
    const NAME: &'static str = "_clear_upper_tiles";

    fn num_warps(&self) -> u32 {
        4
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_order(Self::NAME, self.n)?;
        check_extent(Self::NAME, "tile", self.tile, 16, 256)?;
        check(Self::NAME, "tile", self.tile, self.n.is_multiple_of(self.tile), "it must divide n")?;
        let (n, tile) = (self.n, self.tile as i32);
        let t = KernelBuilder::new(Self::NAME);
        let out_ptr = t.pointer("out_ptr", F32);

        // The mirror image of a tile of the lower triangle.
        let (block_col, block_row) = lower_tile(t.program_id(0));
        let base = t.program_id(1).to(I64) * n * n;
        let rows = (block_row * tile + t.arange(0, tile)).col();
        let cols = (block_col * tile + t.arange(0, tile)).row();
        let ptrs = out_ptr + base + rows * n + cols;
        t.store_with(ptrs, t.zeros(&[self.tile, self.tile], F32), mask(cols.gt(rows)));
        Ok(t.finish()?)
    }
}
