//! `templates/potrf_diag.ptx`: the 128-by-128 diagonal block of a larger matrix, one CTA a matrix.

use askama::Template;

use super::{ParamError, bank_pitch, one_of, text};
use crate::ptx::{Arch, DType, GridRule, Module, ParamMeta};

/// The diagonal step of a blocked Cholesky: factors the 128-by-128 block at (k, k) of each matrix of a batch, and makes what the
/// rows below it are solved with.
///
/// Entry parameters: `a` (*fp32, the block's lower triangle read), `l` (*fp32, the block written, zeros above the diagonal; may
/// be `a`), `info` (*i32), `solve` (*fp32, a 128-by-128 row-major block a matrix, contiguous, all of it written), `stride_a`,
/// `stride_l` (i64, elements from matrix to matrix), `lda`, `ldl` (i32, elements from row to row), `n` (i32, order of the
/// matrices), `k` (i32, the block's first row and column, less than n), `batch` (i32). Grid `batch`, block 32 × `warps`, dynamic
/// shared memory for the block.
///
/// Where n − k < 128 the block is smaller: nothing from row or column n on is read or written in `a` and `l`, and `solve` is padded
/// with an identity. `solve` holds in its 32-by-32 blocks on the diagonal the inverses of those of L, with zeros above their
/// diagonals, below them the entries of L, and zeros above them.
///
/// `info[b]` at k = 0 is written as 0 or the 1-based index of the first pivot that is not positive and finite; at k > 0 a
/// failing pivot's index in the whole matrix is written where `info[b]` is still 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PotrfDiag {
    /// Warps of a CTA: 4 or 8.
    pub warps: u32,
}

#[derive(Template)]
#[template(path = "potrf_diag.ptx")]
struct Text<'a> {
    arch: Arch,
    name: &'a str,
    params: &'a [ParamMeta],
    warps: u32,
    pitch: u32,
    tile_bytes: u32,
    rows_a_warp: u32,
    /// Register prefixes of the rows that a lane follows with.
    followed: &'a [&'a str],
}

impl Text<'_> {
    /// log2 of the number of warps.
    fn warps_log2(&self) -> u32 {
        self.warps.ilog2()
    }

    /// The registers of the rows that become the inverse.
    fn inverted(&self) -> &str {
        self.followed[self.followed.len() - 1]
    }

    /// Rows that helpers write while the steps go on.
    fn rows_written(&self) -> u32 {
        if self.warps == 8 { 96 } else { 0 }
    }
}

impl PotrfDiag {
    /// The template's name.
    pub const KERNEL: &'static str = "potrf_diag";

    /// Order of the block.
    pub const BLOCK: u32 = 128;

    /// The module for `arch`.
    ///
    /// # Errors
    /// A parameter out of its range.
    pub fn instantiate(&self, arch: Arch) -> Result<Module, ParamError> {
        let warps = self.warps;
        one_of(Self::KERNEL, "warps", warps, &[4, 8])?;
        let params = vec![
            ParamMeta::input("a", DType::Fp32),
            ParamMeta::output("l", DType::Fp32),
            ParamMeta::output("info", DType::I32),
            ParamMeta::output("solve", DType::Fp32),
            ParamMeta::scalar("stride_a", DType::I64),
            ParamMeta::scalar("stride_l", DType::I64),
            ParamMeta::scalar("lda", DType::I32),
            ParamMeta::scalar("ldl", DType::I32),
            ParamMeta::scalar("n", DType::I32),
            ParamMeta::scalar("k", DType::I32),
            ParamMeta::scalar("batch", DType::I32),
        ];
        let name = format!("potrf_diag_w{warps}");
        let pitch = bank_pitch(Self::BLOCK);
        let tile_bytes = 4 * Self::BLOCK * pitch;
        let rows_a_warp = Self::BLOCK / warps;
        let followed: &[&str] = if warps == 8 { &["%x"] } else { &["%x", "%y"] };
        let template = Text { arch, name: &name, params: &params, warps, pitch, tile_bytes, rows_a_warp, followed };
        let text = text::render(Self::KERNEL, &template)?;
        let launch = text::Launch {
            grid: GridRule::along("batch", 1),
            num_warps: warps,
            // The block, and two words for each pivot.
            shared: tile_bytes + 8 * Self::BLOCK,
            static_shared: 0,
        };
        Ok(text::module(arch, text, name, params, launch))
    }
}
