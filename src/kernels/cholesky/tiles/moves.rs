//! Inverses of diagonal blocks by columns, and block moves: for the orders that do not fit otherwise.

use serde::Serialize;

use crate::kernels::program::{ProgramError, TileProgram, check, check_extent};
use crate::tile::Func;
use crate::tile::Scalar::{F16, F32, I32, I64};
use crate::tile::build::{KernelBuilder, mask};

/// The inverses of the diagonal blocks of one lower triangular matrix, one column of one block a program, by forward
/// substitution. Grid: blocks × `block`. Entry: `lower_ptr`, `inverse_ptr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct TriangularInverseLeaf {
    /// Order of the matrix.
    pub n: u32,
    /// Order of a block: a power of two from 2 to 64 that divides n.
    pub block: u32,
}

impl TileProgram for TriangularInverseLeaf {
    const NAME: &'static str = "_exp057_tri_inv_leaf32_kernel";

    fn num_warps(&self) -> u32 {
        1
    }

    fn program(&self) -> Result<Func, ProgramError> {
        let (n, block) = (self.n, self.block);
        check_extent(Self::NAME, "block", block, 2, 64)?;
        let holds = n.is_multiple_of(block) && (block..=32768).contains(&n);
        check(Self::NAME, "n", n, holds, "it must be a multiple of the block, and 32768 at most")?;
        let t = KernelBuilder::new(Self::NAME);
        let (lower_ptr, inverse_ptr) = (t.pointer("lower_ptr", F32), t.pointer("inverse_ptr", F32));

        let pid = t.program_id(0);
        let (row0, column) = (pid / block * block, pid % block);
        let rows = t.arange(0, block as i32);
        let mut values = t.zeros(&[block], F32);
        for row in 0..block {
            let diagonal = t.load(lower_ptr + (row0 + row) * n + row0 + row);
            let coefficients = t.load_with(lower_ptr + (row0 + row) * n + row0 + rows, mask(rows.lt(row)).other(0.0));
            let unit = t.where_(column.eq(row), 1.0, 0.0);
            let solved = (unit - (coefficients * values).sum(0)) / diagonal;
            values = t.where_(rows.eq(row), solved, values);
        }
        t.store_with(inverse_ptr + (row0 + rows) * n + row0 + column, values, mask(rows.ge(column)));
        Ok(t.finish()?)
    }
}

/// out = src − prod, or a copy, by blocks, with rows that are contiguous and 64-bit offsets.
///
/// Entry: `src_ptr`, `prod_ptr`, `out_ptr`, `rows`, `cols`, `stride_src_m`, `stride_out_m`. Grid: row blocks × column blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct BlockMove {
    /// `prod`, contiguous, is subtracted.
    pub product: bool,
    /// The result is rounded to halves.
    pub halves: bool,
    /// Rows of a program: a power of two from 1 to 1024.
    pub block_rows: u32,
    /// Columns of a program: a power of two from 16 to 4096.
    pub block_cols: u32,
}

impl TileProgram for BlockMove {
    const NAME: &'static str = "_exp061_block_move_kernel";

    fn num_warps(&self) -> u32 {
        8
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_extent(Self::NAME, "block_rows", self.block_rows, 1, 1024)?;
        check_extent(Self::NAME, "block_cols", self.block_cols, 16, 4096)?;
        let elements = self.block_rows * self.block_cols;
        check(Self::NAME, "block_rows × block_cols", elements, elements <= 1 << 16, "it must be 65536 at most")?;
        let (block_rows, block_cols) = (self.block_rows as i32, self.block_cols as i32);
        let t = KernelBuilder::new(Self::NAME);
        let (src_ptr, prod_ptr) = (t.pointer("src_ptr", F32), t.pointer("prod_ptr", F32));
        let out_ptr = t.pointer("out_ptr", if self.halves { F16 } else { F32 });
        let (rows, cols) = (t.scalar_by_16("rows", I32), t.scalar_by_16("cols", I32));
        let (stride_src_m, stride_out_m) = (t.scalar_by_16("stride_src_m", I32), t.scalar_by_16("stride_out_m", I32));

        let row = (t.program_id(0) * block_rows + t.arange(0, block_rows)).col();
        let col = (t.program_id(1) * block_cols + t.arange(0, block_cols)).row();
        let inside = mask(row.lt(rows) & col.lt(cols));
        // 2³⁰ elements and more: offsets are made in 64 bits.
        let (row, col) = (row.to(I64), col.to(I64));
        let mut value = t.load_with(src_ptr + row * stride_src_m + col, inside.clone().other(0.0));
        if self.product {
            value -= t.load_with(prod_ptr + row * cols + col, inside.clone().other(0.0));
        }
        t.store_with(out_ptr + row * stride_out_m + col, value, inside);
        Ok(t.finish()?)
    }
}
