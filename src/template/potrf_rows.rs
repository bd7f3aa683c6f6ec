//! `templates/potrf_rows.ptx`: one thread a row, n from 33 to 64.

use askama::Template;

use super::{ParamError, PivotGroup, bank_pitch, one_of, pivot_groups, text, whole_matrix_params, within};
use crate::ptx::{Arch, GridRule, Module, ParamMeta};

/// Cholesky of n-by-n FP32 matrices, 33 ≤ n ≤ 64: one CTA of two warps a matrix, one thread a row.
///
/// Entry parameters, `info` and failed matrices are as in [`super::PotrfWarp`]. Grid `batch`, block 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PotrfRows {
    /// Order of the matrices, 33 to 64.
    pub n: u32,
    /// Pivots done as one group: 1, 2 or 4.
    pub rank: u32,
}

#[derive(Template)]
#[template(path = "potrf_rows.ptx")]
struct Text<'a> {
    arch: Arch,
    name: &'a str,
    params: &'a [ParamMeta],
    /// Groups of the first 32 columns, which warp 0 factors.
    upper_groups: &'a [PivotGroup],
    /// Groups of the columns from 32 on, which warp 1 factors.
    lower_groups: &'a [PivotGroup],
    n: u32,
    padded: u32,
    /// Register prefixes of the rows that a lane holds.
    rows: [&'a str; 1],
    rank: u32,
    rank_log2: u32,
    pitch: u32,
    panel_bytes: u32,
    tile_bytes: u32,
    /// What a warp without a failed pivot reports; larger than any `info`.
    none: u32,
}

impl PotrfRows {
    /// The template's name.
    pub const KERNEL: &'static str = "potrf_rows";

    /// The module for `arch`.
    ///
    /// # Errors
    /// A parameter out of its range.
    pub fn instantiate(&self, arch: Arch) -> Result<Module, ParamError> {
        within(Self::KERNEL, "n", self.n, 33, 64)?;
        one_of(Self::KERNEL, "rank", self.rank, &[1, 2, 4])?;
        let Self { n, rank } = *self;
        let name = format!("potrf_rows_n{n}_r{rank}");
        let params = whole_matrix_params();
        let groups = pivot_groups(0, n, rank);
        let (upper_groups, lower_groups) = groups.split_at((32 / rank) as usize);
        let pitch = bank_pitch(n);
        // 65 rows a group rather than 64: lanes that read one column each of a row then meet different banks.
        let panel_bytes = 4 * 65 * rank;
        let tile_bytes = (4 * pitch * n).max(panel_bytes * groups.len() as u32).next_multiple_of(16);
        let template = Text {
            arch,
            name: &name,
            params: &params,
            upper_groups,
            lower_groups,
            n,
            padded: n.next_multiple_of(4),
            rows: ["%x"],
            rank,
            rank_log2: rank.ilog2(),
            pitch,
            panel_bytes,
            tile_bytes,
            none: 0x1000,
        };
        let text = text::render(Self::KERNEL, &template)?;
        let launch = text::Launch {
            grid: GridRule::along("batch", 1),
            num_warps: 2,
            shared: 0,
            static_shared: tile_bytes + 128 + 8,
        };
        Ok(text::module(arch, text, name, params, launch))
    }
}
