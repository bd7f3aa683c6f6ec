//! `templates/lib/warp_tile.ptx`: one warp's tile, shared by the kernels that give a whole tile to a warp.

use super::{PivotGroup, bank_pitch, pivot_groups};

/// Sizes of an n-by-n tile, n ≤ 32, that one warp factors with one lane a row.
pub(super) struct WarpTile {
    /// Order of the tile.
    pub n: u32,
    /// `n` up to whole vectors of four.
    pub padded: u32,
    /// Pivots of a group.
    pub rank: u32,
    pub rank_log2: u32,
    pub groups: Vec<PivotGroup>,
    /// Register prefixes of the rows that a lane holds.
    pub rows: [&'static str; 1],
    /// Words from row to row of the input in shared memory.
    pub pitch: u32,
    /// Bytes from group to group of the panel in shared memory.
    pub panel_bytes: u32,
    /// Bytes of the tile in shared memory.
    pub bytes: u32,
}

impl WarpTile {
    pub(super) fn new(n: u32, rank: u32) -> Self {
        let groups = pivot_groups(0, n, rank);
        let pitch = bank_pitch(n);
        // 33 rows a group rather than 32: lanes that read one column each of a row then meet different banks.
        let panel_bytes = 4 * 33 * rank;
        let bytes = (4 * pitch * n).max(panel_bytes * groups.len() as u32).next_multiple_of(16);
        let padded = n.next_multiple_of(4);
        Self { n, padded, rank, rank_log2: rank.ilog2(), groups, rows: ["%x"], pitch, panel_bytes, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::WarpTile;

    #[test]
    fn input_and_panel_fit_and_output_columns_meet_different_banks() {
        for n in 1..=32 {
            for rank in [1, 2, 4] {
                let tile = WarpTile::new(n, rank);
                assert!(tile.bytes >= 4 * tile.pitch * n && tile.bytes.is_multiple_of(16));
                assert!(tile.bytes >= tile.panel_bytes * tile.groups.len() as u32);
                // Every group holds a row for each of the 32 lanes.
                assert!(tile.panel_bytes >= 4 * rank * 32);
                let mut banks: Vec<u32> = (0..n).map(|c| (c / rank * tile.panel_bytes / 4 + c % rank) % 32).collect();
                banks.sort_unstable();
                banks.dedup();
                assert_eq!(banks.len() as u32, n, "n = {n}, rank = {rank}");
            }
        }
    }
}
