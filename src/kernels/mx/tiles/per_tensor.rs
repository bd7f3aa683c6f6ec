//! One scale for a matrix: the largest magnitude of each tile, and, the host having made the scale, a scaled cast. Two
//! matrices a launch; the rows of the left one and the columns of the right one are strided, the other axis is contiguous.

use serde::Serialize;

use crate::kernels::program::{ProgramError, TileProgram, check_extent};
use crate::tile::Func;
use crate::tile::Scalar::{F8E4M3, F32, I32};
use crate::tile::build::{KernelBuilder, Tile, mask};

/// One matrix of the two.
struct Side<'k> {
    ptr: Tile<'k>,
    columns: Tile<'k>,
    stride_row: Option<Tile<'k>>,
    stride_column: Option<Tile<'k>>,
}

impl<'k> Side<'k> {
    /// The elements at `row` and `col` where `inside` holds, else zeros.
    fn load(&self, row: Tile<'k>, col: Tile<'k>, inside: Tile<'k>) -> Tile<'k> {
        let strided = |index: Tile<'k>, stride: Option<Tile<'k>>| stride.map_or(index, |stride| index * stride);
        let ptrs = self.ptr + strided(row, self.stride_row) + strided(col, self.stride_column);
        self.ptr.builder().load_with(ptrs, mask(inside).other(0.0))
    }
}

/// The largest magnitude of each tile of `block` elements of a row, of both matrices.
///
/// Entry: `lhs_ptr`, `rhs_ptr`, `lhs_partial_ptr`, `rhs_partial_ptr`, `lhs_rows`, `lhs_columns`, `rhs_rows`, `rhs_columns`,
/// `lhs_stride_row`, `rhs_stride_column`, tiles in a row and programs of each. Grid: the larger number of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct TiledAmax {
    /// Elements of a program: a power of two from 32 to 8192.
    pub block: u32,
}

impl TileProgram for TiledAmax {
    const NAME: &'static str = "_dual_tiled_amax_e4m3_32768";

    fn num_warps(&self) -> u32 {
        8
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_extent(Self::NAME, "block", self.block, 32, 8192)?;
        let block = self.block as i32;
        let t = KernelBuilder::new(Self::NAME);
        let [lhs_ptr, rhs_ptr, lhs_partial, rhs_partial] =
            ["lhs_ptr", "rhs_ptr", "lhs_partial_ptr", "rhs_partial_ptr"].map(|name| t.pointer(name, F32));
        // The rows are counted by the grid: nothing reads them.
        let [_, lhs_columns, _, rhs_columns, lhs_stride_row, rhs_stride_column] =
            ["lhs_rows", "lhs_columns", "rhs_rows", "rhs_columns", "lhs_stride_row", "rhs_stride_column"]
                .map(|name| t.scalar_by_16(name, I32));
        let [lhs_tiles, rhs_tiles] = ["lhs_tiles", "rhs_tiles"].map(|name| t.scalar(name, I32));
        let [lhs_programs, rhs_programs] = ["lhs_programs", "rhs_programs"].map(|name| t.scalar_by_16(name, I32));
        let lhs = Side { ptr: lhs_ptr, columns: lhs_columns, stride_row: Some(lhs_stride_row), stride_column: None };
        let rhs = Side { ptr: rhs_ptr, columns: rhs_columns, stride_row: None, stride_column: Some(rhs_stride_column) };

        let pid = t.program_id(0);
        for (side, partial, tiles, programs) in
            [(lhs, lhs_partial, lhs_tiles, lhs_programs), (rhs, rhs_partial, rhs_tiles, rhs_programs)]
        {
            let row = pid / tiles;
            let cols = (pid - row * tiles) * block + t.arange(0, block);
            let has_work = pid.lt(programs);
            let values = side.load(row, cols, has_work & cols.lt(side.columns));
            t.store_with(partial + pid, values.abs().max(0), mask(has_work));
        }
        Ok(t.finish()?)
    }
}

/// Both matrices times their scales, to FP8 e4m3, contiguous.
///
/// Entry: `lhs_ptr`, `rhs_ptr`, `quantized_lhs_ptr`, `quantized_rhs_ptr`, `scale_lhs_ptr`, `scale_rhs_ptr`, `lhs_elements`,
/// `rhs_elements`, `lhs_columns`, `rhs_columns`, `lhs_stride_row`, `rhs_stride_column`. Grid: blocks of the larger matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ScaleCast {
    /// Elements of a program: a power of two from 32 to 8192.
    pub block: u32,
}

impl TileProgram for ScaleCast {
    const NAME: &'static str = "_dual_scale_cast_e4m3_32768";

    fn num_warps(&self) -> u32 {
        8
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_extent(Self::NAME, "block", self.block, 32, 8192)?;
        let t = KernelBuilder::new(Self::NAME);
        let (lhs_ptr, rhs_ptr) = (t.pointer("lhs_ptr", F32), t.pointer("rhs_ptr", F32));
        let (q_lhs, q_rhs) = (t.pointer("quantized_lhs_ptr", F8E4M3), t.pointer("quantized_rhs_ptr", F8E4M3));
        let (scale_lhs, scale_rhs) = (t.pointer("scale_lhs_ptr", F32), t.pointer("scale_rhs_ptr", F32));
        let [lhs_elements, rhs_elements, lhs_columns, rhs_columns, lhs_stride_row, rhs_stride_column] =
            ["lhs_elements", "rhs_elements", "lhs_columns", "rhs_columns", "lhs_stride_row", "rhs_stride_column"]
                .map(|name| t.scalar_by_16(name, I32));
        let lhs = Side { ptr: lhs_ptr, columns: lhs_columns, stride_row: Some(lhs_stride_row), stride_column: None };
        let rhs = Side { ptr: rhs_ptr, columns: rhs_columns, stride_row: None, stride_column: Some(rhs_stride_column) };

        let offsets = t.program_id(0) * self.block + t.arange(0, self.block as i32);
        for (side, quantised, scale, elements) in
            [(lhs, q_lhs, scale_lhs, lhs_elements), (rhs, q_rhs, scale_rhs, rhs_elements)]
        {
            let inside = offsets.lt(elements);
            let row = offsets / side.columns;
            let values = side.load(row, offsets - row * side.columns, inside);
            t.store_with(quantised + offsets, values * t.load(scale), mask(inside));
        }
        Ok(t.finish()?)
    }
}
