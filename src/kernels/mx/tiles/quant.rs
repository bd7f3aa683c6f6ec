//! FP32 to MXFP8: e4m3 elements, one e8m0 exponent for 32 of them along a row.
//!
//! The exponent is the OCP rule's: floor(log₂ of the largest magnitude) − 8, where 8 is the exponent of e4m3's largest value, read
//! from the bits of the single; a block of zeros gets byte 0. Elements are scaled by an exact power of two and rounded once, to
//! the nearest even, saturating.

use serde::Serialize;

use crate::kernels::program::{ProgramError, TileProgram, check, check_extent};
use crate::tile::Func;
use crate::tile::Scalar::{F8E4M3, F32, I8, I32};
use crate::tile::build::{KernelBuilder, Tile};

/// Elements that share a scale.
const GROUP: u32 = 32;

/// What both layouts of the scales share: elements quantised and stored, the bytes of their scales.
struct Quantised<'k> {
    scale_bytes: Tile<'k>,
    rows: Tile<'k>,
    columns: Tile<'k>,
    s_ptr: Tile<'k>,
    pid_m: Tile<'k>,
    pid_k: Tile<'k>,
}

/// Quantises the tile of this program: the entry's parameters, the elements, the bytes.
fn quantise<'k>(t: &'k KernelBuilder, block_m: u32, block_k: u32) -> Quantised<'k> {
    let (x_ptr, q_ptr, s_ptr) = (t.pointer("x_ptr", F32), t.pointer("q_ptr", F8E4M3), t.pointer("s_ptr", I8));
    let (stride_xm, columns) = (t.scalar_by_16("stride_xm", I32), t.scalar_by_16("columns", I32));

    let (pid_m, pid_k) = (t.program_id(0), t.program_id(1));
    let rows = pid_m * block_m + t.arange(0, block_m as i32);
    let cols = pid_k * block_k + t.arange(0, block_k as i32);
    let x = t.load(x_ptr + rows.col() * stride_xm + cols.row());
    let groups = x.reshape(&[block_m, block_k / GROUP, GROUP]);
    let largest = groups.abs().max(2).named("largest");
    let exponents = (largest.bitcast(I32) >> 23) & 0xff;
    let scale_bytes = (exponents - 8).maximum(0).named("scale_bytes");
    let scales = (127 - scale_bytes).to(F32).exp2();
    let q = groups * scales.expand(2);
    t.store(q_ptr + rows.col() * columns + cols.row(), q.reshape(&[block_m, block_k]).to(F8E4M3));
    Quantised { scale_bytes, rows, columns, s_ptr, pid_m, pid_k }
}

fn check_blocks(kernel: &'static str, block_m: u32, block_k: u32) -> Result<(), ProgramError> {
    check_extent(kernel, "block_m", block_m, 1, 1024)?;
    check_extent(kernel, "block_k", block_k, 32, 4096)?;
    let elements = block_m * block_k;
    check(kernel, "block_m × block_k", elements, elements <= 1 << 16, "it must be 65536 at most")
}

/// The scales in rows, one byte for 32 columns.
///
/// Entry: `x_ptr`, `q_ptr`, `s_ptr`, `stride_xm`, `columns`. Grid: row blocks × column blocks, which tile the matrix exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct MxQuant {
    /// Rows of a program: a power of two.
    pub block_m: u32,
    /// Columns of a program: a power of two, 32 or more.
    pub block_k: u32,
}

impl TileProgram for MxQuant {
    const NAME: &'static str = "_mx_quant_e4m3_kernel";

    fn num_warps(&self) -> u32 {
        4
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_blocks(Self::NAME, self.block_m, self.block_k)?;
        let t = KernelBuilder::new(Self::NAME);
        let Quantised { scale_bytes, rows, columns, s_ptr, pid_k, .. } = quantise(&t, self.block_m, self.block_k);
        let groups = self.block_k / GROUP;
        let scale_cols = pid_k * groups + t.arange(0, groups as i32);
        t.store(s_ptr + rows.col() * (columns / 32) + scale_cols.row(), scale_bytes.to_unsigned(I8));
        Ok(t.finish()?)
    }
}

/// The scales in the blocked layout of block-scaled tensor-core products: tiles of 128 rows × 4 scales, row-major, byte
/// (row mod 32)·16 + (row / 32 mod 4)·4 + scale of each. A program owns a quarter of such a tile.
///
/// Entry and grid as [`MxQuant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct MxQuantBlocked {
    /// Rows of a program: 32, a quarter of a tile of scales.
    pub block_m: u32,
    /// Columns of a program: 128, a tile of scales.
    pub block_k: u32,
}

impl TileProgram for MxQuantBlocked {
    const NAME: &'static str = "_mx_quant_e4m3_blocked_kernel";

    fn num_warps(&self) -> u32 {
        4
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check(Self::NAME, "block_m", self.block_m, self.block_m == 32, "it must be 32")?;
        check(Self::NAME, "block_k", self.block_k, self.block_k == 128, "it must be 128")?;
        let t = KernelBuilder::new(Self::NAME);
        let Quantised { scale_bytes, columns, s_ptr, pid_m, pid_k, .. } = quantise(&t, self.block_m, self.block_k);
        let tile = pid_m / 4 * (columns / 128) + pid_k;
        let row = t.arange(0, 32).col();
        let scale = t.arange(0, 4).row();
        t.store(s_ptr + tile * 512 + row * 16 + pid_m % 4 * 4 + scale, scale_bytes.to_unsigned(I8));
        Ok(t.finish()?)
    }
}
