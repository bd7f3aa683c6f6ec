//! `templates/potrf_block.ptx`: one CTA a matrix in shared memory, n from 65 to 192.

use askama::Template;

use super::{ParamError, PivotGroup, bank_pitch, one_of, pivot_groups, text, whole_matrix_params, within};
use crate::ptx::{Arch, GridRule, Module, ParamMeta};

/// Cholesky of n-by-n FP32 matrices, 65 ≤ n ≤ 192: one CTA a matrix, resident in shared memory, blocked.
///
/// Entry parameters, `info` and failed matrices are as in [`super::PotrfWarp`]. Grid `batch`, block 32 × `warps`,
/// dynamic shared memory for the padded matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PotrfBlock {
    /// Order of the matrices, 65 to 192.
    pub n: u32,
    /// Columns of a panel: 8, 16 or 32.
    pub block: u32,
    /// Warps of a CTA: 4 or 8.
    pub warps: u32,
}

#[derive(Template)]
#[template(path = "potrf_block.ptx")]
struct Text<'a> {
    arch: Arch,
    name: &'a str,
    params: &'a [ParamMeta],
    groups: &'a [PivotGroup],
    /// Register prefixes of every row that a lane holds in a panel step.
    rows: Vec<String>,
    /// Those after the first.
    sets: Vec<String>,
    n: u32,
    padded: u32,
    /// Columns of shared memory that are written before the first step.
    columns: u32,
    block: u32,
    warps: u32,
    pitch: u32,
    unroll: u32,
    chunks: u32,
    tile_bytes: u32,
}

impl Text<'_> {
    /// The guard of what the lanes of the diagonal block do alone: none where all lanes are in it.
    fn diagonal_guard(&self) -> &'static str {
        if self.block < 32 { "@%diagonal_lane " } else { "" }
    }

    /// Whether rows 8·q … 8·q+7 of a tile of the trailing update may lie past the last row: what is left is whole blocks.
    fn may_miss(&self, q: &u32) -> bool {
        8 * q >= self.block
    }

    /// Whether row `u` of the rows that a warp takes at a time is ever one of the padding.
    fn may_pad(&self, u: &u32) -> bool {
        self.padded - (self.unroll - u) * self.warps + self.warps > self.n
    }

    /// Whether columns 32·q … 32·q+31 hold a part of the identity that pads the matrix.
    fn has_unit(&self, q: &u32) -> bool {
        32 * q < self.padded && 32 * q + 32 > self.n && self.padded > self.n
    }

    /// The first row, below a step's first column, of the further set `index`.
    fn set_first(&self, index: &usize) -> u32 {
        self.block + self.warps * (32 - self.block) + 32 * self.warps * *index as u32
    }
}

impl PotrfBlock {
    /// The template's name.
    pub const KERNEL: &'static str = "potrf_block";

    /// The order of the matrix in shared memory: whole blocks, and whole tiles of 16 columns.
    fn padded(&self) -> u32 {
        self.n.next_multiple_of(self.block.max(16))
    }

    /// Columns of shared memory in use: a block of 8 lets the last tile reach 8 columns over the edge.
    fn columns(&self) -> u32 {
        self.padded() + if self.block < 16 { 8 } else { 0 }
    }

    /// Bytes of the matrix in shared memory.
    fn tile_bytes(&self) -> u32 {
        4 * self.padded() * bank_pitch(self.columns())
    }

    /// Dynamic shared memory: the matrix, and two buffers of a group's columns for each warp.
    fn shared_bytes(&self) -> u32 {
        self.tile_bytes() + self.warps * 2 * 16 * self.block
    }

    fn validate(&self, arch: Arch) -> Result<(), ParamError> {
        within(Self::KERNEL, "n", self.n, 65, 192)?;
        one_of(Self::KERNEL, "block", self.block, &[8, 16, 32])?;
        one_of(Self::KERNEL, "warps", self.warps, &[4, 8])?;
        if self.shared_bytes() > arch.max_shared_bytes() {
            return Err(ParamError::Shared {
                kernel: Self::KERNEL,
                what: format!("n = {}, block = {}, warps = {}", self.n, self.block, self.warps),
                needed: self.shared_bytes(),
                arch,
                available: arch.max_shared_bytes(),
            });
        }
        Ok(())
    }

    /// The module for `arch`.
    ///
    /// # Errors
    /// A parameter out of its range, or more shared memory than the target has.
    pub fn instantiate(&self, arch: Arch) -> Result<Module, ParamError> {
        self.validate(arch)?;
        let Self { n, block, warps } = *self;
        let name = format!("potrf_block_n{n}_b{block}_w{warps}");
        let params = whole_matrix_params();
        let padded = self.padded();
        let first_rows = block + warps * (32 - block);
        let sets: Vec<String> =
            (0..padded.saturating_sub(first_rows).div_ceil(32 * warps)).map(|set| format!("%y{set}_")).collect();
        let rows_per_warp = padded / warps;
        let template = Text {
            arch,
            name: &name,
            params: &params,
            groups: &pivot_groups(0, block, 4),
            rows: std::iter::once("%x".to_owned()).chain(sets.iter().cloned()).collect(),
            sets,
            n,
            padded,
            columns: self.columns(),
            block,
            warps,
            pitch: bank_pitch(self.columns()),
            // As many rows in flight as divide the work evenly, for the memory's latency.
            unroll: if rows_per_warp.is_multiple_of(4) { 4 } else { 2 },
            chunks: self.columns().div_ceil(32),
            tile_bytes: self.tile_bytes(),
        };
        let text = text::render(Self::KERNEL, &template)?;
        let launch = text::Launch {
            grid: GridRule::along("batch", 1),
            num_warps: warps,
            shared: self.shared_bytes(),
            static_shared: 0,
        };
        Ok(text::module(arch, text, name, params, launch))
    }
}
