//! `templates/potrf_warp.ptx`: one warp a matrix, n from 1 to 32.

use askama::Template;

use super::warp_tile::WarpTile;
use super::{ParamError, one_of, text, whole_matrix_params, within};
use crate::ptx::{Arch, GridRule, Module, ParamMeta};

/// Cholesky of n-by-n FP32 matrices, n ≤ 32: one warp a matrix, one lane a row, rows in registers.
///
/// Entry parameters: `a` (*fp32, lower triangle read), `l` (*fp32, zeros written above the diagonal; may be `a`),
/// `info` (*i32), `stride_a`, `stride_l` (i64, elements from matrix to matrix), `lda`, `ldl` (i32, elements from row to
/// row, at least `n`), `batch` (i32). Grid ⌈batch / warps⌉, block 32 × `warps`.
///
/// `info[b]` is 0, or the 1-based index of the first pivot that is not positive and finite; the factor of such a
/// matrix is unspecified on and below the diagonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PotrfWarp {
    /// Order of the matrices, 1 to 32.
    pub n: u32,
    /// Pivots done as one group: 1, 2 or 4.
    pub rank: u32,
    /// Warps, and so matrices, of a CTA: 1, 2 or 4. (With 8, ptxas keeps too few registers at some orders and spills; measured on an
    /// H200, 8 gains nothing.)
    pub warps: u32,
}

#[derive(Template)]
#[template(path = "potrf_warp.ptx")]
struct Text<'a> {
    arch: Arch,
    name: &'a str,
    params: &'a [ParamMeta],
    tile: &'a WarpTile,
    warps: u32,
}

impl PotrfWarp {
    /// The template's name.
    pub const KERNEL: &'static str = "potrf_warp";

    /// The module for `arch`.
    ///
    /// # Errors
    /// A parameter out of its range.
    pub fn instantiate(&self, arch: Arch) -> Result<Module, ParamError> {
        within(Self::KERNEL, "n", self.n, 1, 32)?;
        one_of(Self::KERNEL, "rank", self.rank, &[1, 2, 4])?;
        one_of(Self::KERNEL, "warps", self.warps, &[1, 2, 4])?;
        let Self { n, rank, warps } = *self;
        let tile = WarpTile::new(n, rank);
        let params = whole_matrix_params();
        let name = format!("potrf_warp_n{n}_r{rank}_w{warps}");
        let template = Text { arch, name: &name, params: &params, tile: &tile, warps };
        let text = text::render(Self::KERNEL, &template)?;
        let launch = text::Launch {
            grid: GridRule::along("batch", warps),
            num_warps: warps,
            shared: 0,
            static_shared: warps * tile.bytes,
        };
        Ok(text::module(arch, text, name, params, launch))
    }
}
