//! Arithmetic that templates share: groups of pivots and conflict-free pitches.

/// A group of consecutive pivots that is done as one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PivotGroup {
    /// Position among the groups.
    pub index: u32,
    /// First column.
    pub first: u32,
    /// Columns in it: the rank, or less in the last group.
    pub size: u32,
}

impl PivotGroup {
    /// One past the last column.
    pub fn end(&self) -> u32 {
        self.first + self.size
    }
}

/// The columns `first..end` in groups of `rank`.
pub fn pivot_groups(first: u32, end: u32, rank: u32) -> Vec<PivotGroup> {
    (first..end)
        .step_by(rank as usize)
        .map(|start| PivotGroup { index: start / rank, first: start, size: rank.min(end - start) })
        .collect()
}

/// The smallest pitch in words, at least `columns`, at which 16-byte loads of one column by consecutive rows meet every
/// bank once per eight lanes: an odd multiple of four.
pub fn bank_pitch(columns: u32) -> u32 {
    let quads = columns.div_ceil(4);
    4 * (quads + u32::from(quads.is_multiple_of(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_the_columns_once() {
        for rank in [1, 2, 4] {
            for end in 1..70 {
                let groups = pivot_groups(0, end, rank);
                assert_eq!(groups.iter().map(|group| group.size).sum::<u32>(), end);
                assert!(groups.windows(2).all(|pair| pair[0].end() == pair[1].first));
                assert!(groups.iter().enumerate().all(|(index, group)| group.index == index as u32));
            }
        }
        assert_eq!(pivot_groups(32, 35, 2)[1], PivotGroup { index: 17, first: 34, size: 1 });
    }

    #[test]
    fn pitch_spreads_rows_over_the_banks() {
        for columns in 1..200 {
            let pitch = bank_pitch(columns);
            assert!(pitch >= columns && pitch < columns + 8);
            let mut banks: Vec<u32> =
                (0..8).flat_map(|row| (0..4).map(move |word| (row * pitch + word) % 32)).collect();
            banks.sort_unstable();
            banks.dedup();
            assert_eq!(banks.len(), 32, "{columns} columns");
        }
    }
}
