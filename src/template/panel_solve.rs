//! `templates/panel_solve.ptx`: the rows below a factored diagonal block.

use askama::Template;

use super::{ParamError, one_of, text};
use crate::ptx::{Arch, DType, Extent, GridRule, Module, ParamMeta};

/// The panel step of a blocked Cholesky: X = B·L⁻ᵀ for the rows below a factored 128-by-128 diagonal block, tensor cores
/// doing the products.
///
/// Entry parameters: `a` (*fp32, the matrices that hold B), `l` (*fp32, X goes to the same place; may be `a`), `solve` (*fp32,
/// 128 × 128 row-major a matrix, as [`super::PotrfDiag`] leaves it), `scale` (*fp32, `row_tiles`·128 a matrix), `shadow` (*fp16, X
/// again; see below), `stride_a`, `stride_l` (i64, elements from matrix to matrix), `lda`, `ldl` (i32, elements from row to row),
/// `n` (i32, order), `k` (i32, the block's first row and column), `groups` (i32, CTAs a matrix), `row_tiles`, `k_tiles`, `first_k`
/// (i32, of the shadow). Grid `groups` × matrices, `groups` = ⌈(128·`row_tiles` − k − 128) / (16·`warps`)⌉; block 32 × `warps`.
///
/// The shadow holds X for the trailing update in tiles of 128 rows by 64 columns of f16, each as `wgmma` wants it in shared memory
/// (K-major, swizzled by 128 bytes: row r at byte 128·r, its 16-byte chunk c at chunk c xor (r mod 8)), the planes of a tile one
/// behind the other, tile (matrix, row tile, k tile) being number (matrix·`row_tiles` + row tile)·`k_tiles` + k tile. Entry (i, j) is
/// `scale[i]`·(hi + lo), `scale[i]` a power of two with |hi| ≤ 2¹⁴. This panel's columns are the k tiles `first_k` and the next. Rows from
/// n on are zeros. At `k` = 0 the scales are made, from A's diagonal; later they are read.
///
/// The mirror of the panel, above the diagonal of `l`, gets zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PanelSolve {
    /// Warps of a CTA, 16 rows each: 2, 4 or 8.
    pub warps: u32,
    /// TF32 products for one: 3 is FP32-grade, 1 is not.
    pub products: u32,
    /// Planes of the shadow: 2 is FP32-grade, 1 is f16.
    pub planes: u32,
}

#[derive(Template)]
#[template(path = "panel_solve.ptx")]
struct Text<'a> {
    arch: Arch,
    name: &'a str,
    params: &'a [ParamMeta],
    warps: u32,
    products: u32,
    planes: u32,
    /// Bytes of a lane's part of a fragment.
    fragment: u32,
    passes: Vec<Pass>,
}

/// A pass of a CTA's threads over `solve`: 8 rows a warp, four lanes a row.
struct Pass {
    /// The pass's first row.
    row: u32,
    /// The 16 columns that it reads.
    pair: u32,
    /// Whether it goes over the last row.
    partial: bool,
}

impl Text<'_> {
    /// The register of element `e` of the four neighbours that a lane holds of row `g + 8·r` in pair `pair` of tiles.
    fn register(&self, pair: &u32, r: &u32, e: &u32) -> u32 {
        8 * pair + 4 * (e / 2) + 2 * r + e % 2
    }

    /// Those four as an operand.
    fn four(&self, pair: &u32, r: &u32) -> String {
        let registers: Vec<String> = (0..4).map(|e| format!("%x{}", self.register(pair, r, &e))).collect();
        format!("{{{}}}", registers.join(", "))
    }

    /// Where the fragment of rows of tile `j` and columns of tile `i` lies.
    fn fragment_at(&self, j: &u32, i: &u32) -> u32 {
        let (row, column) = (j / 2, i / 2);
        32 * self.fragment * (4 * (row * (row + 1) / 2 + column) + 2 * (j % 2) + i % 2)
    }

    /// Where, in a block row of the operand, the fragment of half `half` of column pair `pair` lies.
    fn slot(&self, pair: &u32, half: &u32) -> u32 {
        32 * self.fragment * (4 * pair + half)
    }
}

impl PanelSolve {
    /// The template's name.
    pub const KERNEL: &'static str = "panel_solve";

    /// The module for `arch`.
    ///
    /// # Errors
    /// A parameter out of its range.
    pub fn instantiate(&self, arch: Arch) -> Result<Module, ParamError> {
        one_of(Self::KERNEL, "warps", self.warps, &[2, 4, 8])?;
        one_of(Self::KERNEL, "products", self.products, &[1, 3])?;
        one_of(Self::KERNEL, "planes", self.planes, &[1, 2])?;
        let Self { warps, products, planes } = *self;
        let rows = 8 * warps;
        let passes: Vec<Pass> = (0..8)
            .flat_map(|pair| {
                let starts = (16 * pair..128).step_by(rows as usize);
                starts.map(move |row| Pass { row, pair, partial: row + rows > 128 })
            })
            .collect();
        let params = vec![
            ParamMeta::input("a", DType::Fp32),
            ParamMeta::output("l", DType::Fp32),
            ParamMeta::input("solve", DType::Fp32),
            ParamMeta::output("scale", DType::Fp32),
            ParamMeta::output("shadow", DType::Fp16),
            ParamMeta::scalar("stride_a", DType::I64),
            ParamMeta::scalar("stride_l", DType::I64),
            ParamMeta::scalar("lda", DType::I32),
            ParamMeta::scalar("ldl", DType::I32),
            ParamMeta::scalar("n", DType::I32),
            ParamMeta::scalar("k", DType::I32),
            ParamMeta::scalar("groups", DType::I32),
            ParamMeta::scalar("row_tiles", DType::I32),
            ParamMeta::scalar("k_tiles", DType::I32),
            ParamMeta::scalar("first_k", DType::I32),
        ];
        let name = format!("panel_solve_w{warps}_x{products}_p{planes}");
        let fragment = if products == 3 { 16 } else { 8 };
        let template = Text { arch, name: &name, params: &params, warps, products, planes, fragment, passes };
        let text = text::render(Self::KERNEL, &template)?;
        let launch = text::Launch {
            grid: GridRule { x: Extent::Any, y: Extent::Fixed(1), z: Extent::Fixed(1) },
            num_warps: warps,
            shared: 36 * 4 * 32 * fragment,
            static_shared: 0,
        };
        Ok(text::module(arch, text, name, params, launch))
    }
}
