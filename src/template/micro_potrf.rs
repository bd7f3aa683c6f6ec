//! `templates/micro_potrf.ptx`: the 32-by-32 diagonal block of a larger matrix, with its inverse.

use askama::Template;

use super::warp_tile::WarpTile;
use super::{ParamError, one_of, text};
use crate::ptx::{Arch, DType, GridRule, Module, ParamMeta};

/// The diagonal step of a blocked Cholesky: factors the 32-by-32 block at (k, k) of each matrix and inverts the factor.
///
/// Entry parameters: `a` (*fp32, the block's lower triangle read), `l` (*fp32, the block written, zeros above the diagonal; may
/// be `a`), `inverse` (*fp32, L⁻¹ of the block, 32-by-32 row-major a matrix, contiguous), `info` (*i32), `stride_a`, `stride_l`
/// (i64, elements from matrix to matrix), `lda`, `ldl` (i32, elements from row to row), `k` (i32, the block's first row and
/// column), `batch` (i32). Grid ⌈batch / warps⌉, block 32 × `warps`.
///
/// `info[b]` at k = 0 is written as 0 or the 1-based index of the first pivot that is not positive and finite; at k > 0 a
/// failing pivot's index in the whole matrix is written where `info[b]` is still 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MicroPotrf {
    /// Pivots done as one group: 2 or 4. (Single pivots would make the inverse's loads as many as its arithmetic.)
    pub rank: u32,
    /// Warps, and so matrices, of a CTA: 1, 2 or 4.
    pub warps: u32,
}

#[derive(Template)]
#[template(path = "micro_potrf.ptx")]
struct Text<'a> {
    arch: Arch,
    name: &'a str,
    params: &'a [ParamMeta],
    tile: &'a WarpTile,
    warps: u32,
}

impl MicroPotrf {
    /// The template's name.
    pub const KERNEL: &'static str = "micro_potrf";

    /// Order of the block.
    pub const BLOCK: u32 = 32;

    /// The module for `arch`.
    ///
    /// # Errors
    /// A parameter out of its range.
    pub fn instantiate(&self, arch: Arch) -> Result<Module, ParamError> {
        one_of(Self::KERNEL, "rank", self.rank, &[2, 4])?;
        one_of(Self::KERNEL, "warps", self.warps, &[1, 2, 4])?;
        let Self { rank, warps } = *self;
        let tile = WarpTile::new(Self::BLOCK, rank);
        let params = vec![
            ParamMeta::input("a", DType::Fp32),
            ParamMeta::output("l", DType::Fp32),
            ParamMeta::output("inverse", DType::Fp32),
            ParamMeta::output("info", DType::I32),
            ParamMeta::scalar("stride_a", DType::I64),
            ParamMeta::scalar("stride_l", DType::I64),
            ParamMeta::scalar("lda", DType::I32),
            ParamMeta::scalar("ldl", DType::I32),
            ParamMeta::scalar("k", DType::I32),
            ParamMeta::scalar("batch", DType::I32),
        ];
        let name = format!("micro_potrf_r{rank}_w{warps}");
        let template = Text { arch, name: &name, params: &params, tile: &tile, warps };
        let text = text::render(Self::KERNEL, &template)?;
        let launch = text::Launch {
            grid: GridRule::along("batch", warps),
            num_warps: warps,
            shared: 0,
            static_shared: warps * (tile.bytes + 128),
        };
        Ok(text::module(arch, text, name, params, launch))
    }
}
