//! Tile programs of the Cholesky family, written with [`crate::tile::build`].
//!
//! All work on row-major FP32. Scalars that a program takes at run time (`k`, `remaining`, strides) are multiples of 16, which
//! the host must keep: it lets accesses be wide. Entry names and parameters are those of the Triton kernels that they stand in
//! for, so that the launcher of either runs the other.
//!
//! - [`whole`]: one program a matrix, the matrix in registers.
//! - [`batch2048`]: the blocked factorisation of eight matrices of order 2048, right-looking, blocks of 64.
//! - [`micro`]: a diagonal block of 32 and its inverse, by one warp.
//! - [`panel`]: what is done below a diagonal block, 32 columns at a time or 128 in one kernel.
//! - [`trailing`]: the symmetric update to the right of a panel, and the zeros above the diagonal.
//! - [`moves`]: the inverse of diagonal blocks by columns, and block moves, for the orders that do not fit otherwise.

pub mod batch2048;
pub mod micro;
pub mod moves;
pub mod panel;
pub mod trailing;
pub mod whole;

use crate::kernels::program::{ProgramError, check};
use crate::tile::InputPrecision;
use crate::tile::Scalar::I32;
use crate::tile::build::{KernelBuilder, Tile};

/// Row and column of the `index`-th tile of a lower triangle, counted row by row.
///
/// The row is where 8·index + 1 passes an odd square: exact in singles as long as the square root is, which the grids here
/// are far below.
fn lower_tile<'k>(index: Tile<'k>) -> (Tile<'k>, Tile<'k>) {
    let row = (((8.0 * index + 1.0).sqrt() - 1.0) * 0.5).to(I32);
    (row, index - row * (row + 1) / 2)
}

/// Addresses of a tile of a matrix with `pitch` elements a row, in one addition: `rows` and `cols` are vectors.
fn tile_offsets<'k>(rows: Tile<'k>, cols: Tile<'k>, pitch: u32) -> Tile<'k> {
    rows.col() * pitch + cols.row()
}

/// The transposed 32×32 inverse of diagonal block `batch` of `inverses`, as an operand of a product.
fn inverse_tile<'k>(t: &'k KernelBuilder, inverses: Tile<'k>, batch: Tile<'k>) -> Tile<'k> {
    let c = t.arange(0, 32);
    t.load(inverses + batch * 1024 + c.col() * 32 + c.row()).trans()
}

/// Checks the order of a matrix that is worked on in blocks of 32, whose elements are counted in 31 bits.
fn check_order(kernel: &'static str, n: u32) -> Result<(), ProgramError> {
    let holds = n.is_multiple_of(32) && (32..=32768).contains(&n);
    check(kernel, "n", n, holds, "it must be a multiple of 32 from 32 to 32768")
}

/// Checks a precision of products of singles: those that Triton has on NVIDIA.
fn check_precision(kernel: &'static str, precision: InputPrecision) -> Result<(), ProgramError> {
    use InputPrecision::{Ieee, Tf32, Tf32x3};
    let holds = matches!(precision, Ieee | Tf32 | Tf32x3);
    check(kernel, "precision", precision.name(), holds, "it must be ieee, tf32 or tf32x3")
}
