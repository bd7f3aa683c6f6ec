//! What is done below a factored diagonal block: its inverse is applied, and the columns to the right are updated.
//!
//! `inv` holds the inverse of the 32×32 diagonal block of each matrix (1024 elements a matrix), made by [`super::micro`].

use serde::Serialize;

use crate::kernels::program::{ProgramError, TileProgram, check, check_extent};
use crate::tile::Scalar::{F32, I32, I64};
use crate::tile::build::{Dot, KernelBuilder, Tile, mask};
use crate::tile::{Func, InputPrecision};

use super::{check_order, check_precision, inverse_tile, tile_offsets};

/// L[i, k..k+32] = A[i, k..k+32]·D⁻ᵀ for all rows below the diagonal block D, and zeros in the mirror image above the diagonal.
///
/// Entry: `out_ptr`, `inv_ptr`, `src_ptr`, `k`, `remaining` (rows below the block). Grid: row tiles × matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct PanelApply32 {
    /// Order of the matrices.
    pub n: u32,
    /// How the products are made.
    pub precision: InputPrecision,
    /// Rows of a program: a power of two from 16 to 256.
    pub tile_rows: u32,
    /// A is read from `src`.
    pub first: bool,
}

impl TileProgram for PanelApply32 {
    const NAME: &'static str = "_panel_apply32";

    fn num_warps(&self) -> u32 {
        4
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_order(Self::NAME, self.n)?;
        check_precision(Self::NAME, self.precision)?;
        check_extent(Self::NAME, "tile_rows", self.tile_rows, 16, 256)?;
        let (n, tile_rows) = (self.n, self.tile_rows as i32);
        let t = KernelBuilder::new(Self::NAME);
        let (out_ptr, inv_ptr, src_ptr) =
            (t.pointer("out_ptr", F32), t.pointer("inv_ptr", F32), t.pointer("src_ptr", F32));
        let (k, remaining) = (t.scalar_by_16("k", I32), t.scalar_by_16("remaining", I32));

        let batch = t.program_id(1).to(I64);
        let base = batch * n * n;
        let rows = t.program_id(0) * tile_rows + t.arange(0, tile_rows);
        let c = t.arange(0, 32);
        let inside = rows.lt(remaining);
        let offsets = tile_offsets(k + 32 + rows, k + c, n);
        let from = if self.first { src_ptr } else { out_ptr };
        let panel = t.load_with(from + base + offsets, mask(inside.col()).other(0.0));
        let inverse = inverse_tile(&t, inv_ptr, batch);
        let l = t.dot_with(panel, inverse, Dot::precision(self.precision));
        t.store_with(out_ptr + base + offsets, l, mask(inside.col()));
        let mirror = out_ptr + base + (k + c).col() * n + (k + 32 + rows).row();
        t.store_with(mirror, t.zeros(&[32, self.tile_rows], F32), mask(inside.row()));
        Ok(t.finish()?)
    }
}

/// The update of the rest of a panel by its newest 32 columns: what both shapes of it share.
struct InnerUpdate<'k> {
    out_ptr: Tile<'k>,
    src_ptr: Tile<'k>,
    k: Tile<'k>,
    width: Tile<'k>,
    remaining: Tile<'k>,
}

impl<'k> InnerUpdate<'k> {
    fn parameters(t: &'k KernelBuilder) -> Self {
        Self {
            out_ptr: t.pointer("out_ptr", F32),
            src_ptr: t.pointer("src_ptr", F32),
            k: t.scalar_by_16("k", I32),
            width: t.scalar_by_16("width", I32),
            remaining: t.scalar_by_16("remaining", I32),
        }
    }

    /// T[rows, cols] −= L[rows, k..k+32]·L[cols, k..k+32]ᵀ, rows and columns counted from k + 32.
    fn write(&self, rows: Tile<'k>, cols: Tile<'k>, n: u32, precision: InputPrecision, first: bool) {
        let t = rows.builder();
        let Self { out_ptr, src_ptr, k, width, remaining } = *self;
        let base = t.program_id(1).to(I64) * n * n;
        let newest = (k + t.arange(0, 32)).row();
        let (rows_inside, cols_inside) = (rows.lt(remaining), cols.lt(width));
        let columns = |rows: Tile<'k>, inside: Tile<'k>| {
            t.load_with(out_ptr + base + (k + 32 + rows).col() * n + newest, mask(inside.col()).other(0.0))
        };
        let (l_rows, l_cols) = (columns(rows, rows_inside), columns(cols, cols_inside));
        let product = t.dot_with(l_rows, l_cols.trans(), Dot::precision(precision));
        let offsets = tile_offsets(k + 32 + rows, k + 32 + cols, n);
        let inside = rows_inside.col() & cols_inside.row();
        let from = if first { src_ptr } else { out_ptr };
        let old = t.load_with(from + base + offsets, mask(inside).other(0.0));
        t.store_with(out_ptr + base + offsets, old - product, mask(inside));
    }
}

/// T[rows, k+32 ..] −= L[rows, k..k+32]·L[cols, k..k+32]ᵀ for `width` columns, 128 of them a program.
///
/// Entry: `out_ptr`, `src_ptr`, `k`, `width`, `remaining`. Grid: row tiles × matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct PanelInner32 {
    /// Order of the matrices.
    pub n: u32,
    /// How the products are made.
    pub precision: InputPrecision,
    /// Rows of a program: a power of two from 16 to 256.
    pub tile_rows: u32,
    /// The update is of `src`.
    pub first: bool,
}

impl TileProgram for PanelInner32 {
    const NAME: &'static str = "_panel_inner32";

    fn num_warps(&self) -> u32 {
        4
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_order(Self::NAME, self.n)?;
        check_precision(Self::NAME, self.precision)?;
        check_extent(Self::NAME, "tile_rows", self.tile_rows, 16, 256)?;
        let tile_rows = self.tile_rows as i32;
        let t = KernelBuilder::new(Self::NAME);
        let update = InnerUpdate::parameters(&t);
        let rows = t.program_id(0) * tile_rows + t.arange(0, tile_rows);
        update.write(rows, t.arange(0, 128), self.n, self.precision, self.first);
        Ok(t.finish()?)
    }
}

/// [`PanelInner32`] in tiles of 64×64: a quarter of the live accumulator, which then fits the registers.
///
/// Entry as there. Grid: (row tiles · `column_tiles`) × matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct PanelInner32Subtile64 {
    /// Order of the matrices.
    pub n: u32,
    /// How the products are made.
    pub precision: InputPrecision,
    /// Tiles of 64 columns: 1 or 2.
    pub column_tiles: u32,
    /// The update is of `src`.
    pub first: bool,
}

impl TileProgram for PanelInner32Subtile64 {
    const NAME: &'static str = "_panel_inner32_subtile64";

    fn num_warps(&self) -> u32 {
        4
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_order(Self::NAME, self.n)?;
        check_precision(Self::NAME, self.precision)?;
        check_extent(Self::NAME, "column_tiles", self.column_tiles, 1, 2)?;
        let t = KernelBuilder::new(Self::NAME);
        let update = InnerUpdate::parameters(&t);
        let pid = t.program_id(0);
        let row_tile = pid / self.column_tiles;
        let column_tile = pid - row_tile * self.column_tiles;
        let (rows, cols) = (row_tile * 64 + t.arange(0, 64), column_tile * 64 + t.arange(0, 64));
        update.write(rows, cols, self.n, self.precision, self.first);
        Ok(t.finish()?)
    }
}

/// [`PanelApply32`] and [`PanelInner32`] at once for the few rows of a 128-wide diagonal block that lie below the pivot block.
///
/// Entry: `out_ptr`, `dinv_ptr`, `src_ptr`, `k`, `nrows`. Grid: matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct DiagonalBlockStep {
    /// Order of the matrices.
    pub n: u32,
    /// The most rows: a power of two from 16 to 256.
    pub tile: u32,
    /// How the products are made.
    pub precision: InputPrecision,
    /// A is read from `src`.
    pub first: bool,
}

impl TileProgram for DiagonalBlockStep {
    const NAME: &'static str = "_diag_block_step";

    fn num_warps(&self) -> u32 {
        8
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_order(Self::NAME, self.n)?;
        check_precision(Self::NAME, self.precision)?;
        check_extent(Self::NAME, "tile", self.tile, 16, 256)?;
        let (n, dot) = (self.n, Dot::precision(self.precision));
        let t = KernelBuilder::new(Self::NAME);
        let out_ptr = t.pointer("out_ptr", F32);
        let (dinv_ptr, src_ptr) = (t.pointer("dinv_ptr", F32), t.pointer("src_ptr", F32));
        let (k, nrows) = (t.scalar_by_16("k", I32), t.scalar_by_16("nrows", I32));

        let batch = t.program_id(0).to(I64);
        let base = batch * n * n;
        let (r, c) = (t.arange(0, self.tile as i32), t.arange(0, 32));
        let inside = r.lt(nrows);
        let from = if self.first { src_ptr } else { out_ptr };
        // L of the rows below the pivot block.
        let offsets = tile_offsets(k + 32 + r, k + c, n);
        let panel = t.load_with(from + base + offsets, mask(inside.col()).other(0.0));
        let l = t.dot_with(panel, inverse_tile(&t, dinv_ptr, batch), dot);
        t.store_with(out_ptr + base + offsets, l, mask(inside.col()));
        let mirror = out_ptr + base + (k + c).col() * n + (k + 32 + r).row();
        t.store_with(mirror, t.zeros(&[32, self.tile], F32), mask(inside.row()));
        // What those columns leave of the rest of the block.
        let offsets = tile_offsets(k + 32 + r, k + 32 + r, n);
        let both = inside.col() & inside.row();
        let old = t.load_with(from + base + offsets, mask(both).other(0.0));
        let product = t.dot_with(l, l.trans(), dot);
        t.store_with(out_ptr + base + offsets, old - product, mask(both));
        Ok(t.finish()?)
    }
}

/// The whole solve of 128 columns for the rows below a factored 128-wide diagonal block: each tile of rows is read once, solved
/// in four steps of 32 columns, and written once.
///
/// Entry: `out_ptr`, `dinv_ptr` (the four inverses, `dinv_stride` apart), `src_ptr`, `j`, `nrows`, `dinv_stride`. Grid: row
/// tiles × matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct PanelFused128 {
    /// Order of the matrices.
    pub n: u32,
    /// Rows of a program: a power of two from 16 to 256.
    pub tile_rows: u32,
    /// How the products are made.
    pub precision: InputPrecision,
    /// A is read from `src`.
    pub first: bool,
    /// The right operands are read transposed, by their addresses; else they are transposed once they are there.
    pub transposed_load: bool,
    /// Zeros go to the mirror image above the diagonal.
    pub mirror: bool,
}

impl PanelFused128 {
    /// `x` times the transpose of the 32×32 tile at `right`.
    fn times<'k>(&self, x: Tile<'k>, right: Tile<'k>) -> Tile<'k> {
        let t = x.builder();
        let right = t.load(right);
        t.dot_with(x, if self.transposed_load { right } else { right.trans() }, Dot::precision(self.precision))
    }
}

impl TileProgram for PanelFused128 {
    const NAME: &'static str = "_panel_fused128";

    fn num_warps(&self) -> u32 {
        8
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_order(Self::NAME, self.n)?;
        check_precision(Self::NAME, self.precision)?;
        check_extent(Self::NAME, "tile_rows", self.tile_rows, 16, 256)?;
        check(Self::NAME, "n", self.n, self.n >= 128, "it must be 128 or more")?;
        let (n, tile_rows, transposed) = (self.n, self.tile_rows as i32, self.transposed_load);
        let t = KernelBuilder::new(Self::NAME);
        let out_ptr = t.pointer("out_ptr", F32);
        let (dinv_ptr, src_ptr) = (t.pointer("dinv_ptr", F32), t.pointer("src_ptr", F32));
        let (j, nrows) = (t.scalar_by_16("j", I32), t.scalar_by_16("nrows", I32));
        let dinv_stride = t.scalar_by_16("dinv_stride", I32);

        let batch = t.program_id(1).to(I64);
        let base = batch * n * n;
        let rows = t.program_id(0) * tile_rows + t.arange(0, tile_rows);
        let inside = rows.lt(nrows);
        let c = t.arange(0, 32);
        let offsets = tile_offsets(j + 128 + rows, j + c, n);
        let from = if self.first { src_ptr } else { out_ptr } + base + offsets;
        let [mut x0, mut x1, mut x2, mut x3] =
            [0, 32, 64, 96].map(|column| t.load_with(from + column, mask(inside.col()).other(0.0)));

        // Blocks of the diagonal block, and the inverses on its diagonal, as right operands: transposed.
        let (along, across) = if transposed { (c.row(), c.col()) } else { (c.col(), c.row()) };
        let inverses = dinv_ptr + batch * 1024 + along * 32 + across;
        let (along, across) = if transposed { ((j + c).row(), (j + c).col()) } else { ((j + c).col(), (j + c).row()) };
        let blocks = out_ptr + base + along * n + across;
        let block = |row: u32, column: u32| blocks + row * n + column;

        x0 = self.times(x0, inverses);
        x1 -= self.times(x0, block(32, 0));
        x2 -= self.times(x0, block(64, 0));
        x3 -= self.times(x0, block(96, 0));
        x1 = self.times(x1, inverses + dinv_stride);
        x2 -= self.times(x1, block(64, 32));
        x3 -= self.times(x1, block(96, 32));
        x2 = self.times(x2, inverses + 2 * dinv_stride);
        x3 -= self.times(x2, block(96, 64));
        x3 = self.times(x3, inverses + 3 * dinv_stride);

        let to = out_ptr + base + offsets;
        for (column, x) in [(0, x0), (32, x1), (64, x2), (96, x3)] {
            t.store_with(to + column, x, mask(inside.col()));
        }
        if self.mirror {
            let zeros = t.zeros(&[32, self.tile_rows], F32);
            let mirror = out_ptr + base + (j + c).col() * n + (j + 128 + rows).row();
            for row in [0, 32, 64, 96] {
                t.store_with(mirror + row * n, zeros, mask(inside.row()));
            }
        }
        Ok(t.finish()?)
    }
}
