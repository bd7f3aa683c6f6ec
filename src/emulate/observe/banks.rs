//! What an access of a warp costs: wavefronts of shared memory, sectors of global memory.
//!
//! Shared memory has 32 banks of 4 bytes; in one wavefront each bank gives one word, to any number of lanes. A warp whose
//! lanes access up to 4 bytes is served at once, with 8 bytes by halves, with 16 by quarters. (A card sometimes serves two
//! halves together whose lanes want the same; that is not modelled.) Global memory is moved in sectors of 32 bytes.

/// Banks of shared memory.
const BANKS: usize = 32;
/// Bytes of a bank's word.
const WORD: u64 = 4;
/// Bytes of a sector of global memory.
pub(super) const SECTOR: u64 = 32;

/// The wavefronts that an access of `bytes` for each lane takes, and the fewest for as many lanes: one for each part of
/// the warp that has any. Lanes that want the same word share it, unless `alone`: atomics do their work one by one.
pub(super) fn wavefronts(bytes: u64, lanes: impl Iterator<Item = (usize, u64)>, alone: bool) -> (u64, u64) {
    let lanes_of_part = (BANKS as u64 * WORD / bytes.max(WORD)).max(1) as usize;
    let mut parts: Vec<Vec<u64>> = vec![Vec::new(); BANKS.div_ceil(lanes_of_part)];
    for (lane, address) in lanes {
        let last = address.saturating_add(bytes.max(1) - 1);
        parts[lane / lanes_of_part].extend(address / WORD..=last / WORD);
    }
    let mut taken = (0, 0);
    for mut words in parts.into_iter().filter(|words| !words.is_empty()) {
        if !alone {
            words.sort_unstable();
            words.dedup();
        }
        let mut wanted = [0_u64; BANKS];
        for word in words {
            wanted[(word % BANKS as u64) as usize] += 1;
        }
        taken.0 += wanted.iter().copied().max().unwrap_or(0);
        taken.1 += 1;
    }
    taken
}

/// The sectors that an access of `bytes` for each lane touches.
pub(super) fn sectors(bytes: u64, addresses: impl Iterator<Item = u64>) -> u64 {
    let mut touched: Vec<u64> =
        addresses.flat_map(|address| address / SECTOR..=address.saturating_add(bytes.max(1) - 1) / SECTOR).collect();
    touched.sort_unstable();
    touched.dedup();
    touched.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(bytes: u64, stride: u64) -> (u64, u64) {
        wavefronts(bytes, (0..32).map(|lane| (lane as usize, lane * stride)), false)
    }

    #[test]
    fn strides_of_words() {
        for (stride, expected) in [(0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (32, 32), (33, 1)] {
            assert_eq!(strided(4, 4 * stride), (expected, 1), "stride {stride}");
        }
    }

    #[test]
    fn narrow_accesses_share_words() {
        assert_eq!((strided(1, 1), strided(2, 2), strided(2, 128)), ((1, 1), (1, 1), (32, 1)));
    }

    #[test]
    fn wide_accesses_go_by_parts() {
        assert_eq!((strided(8, 8), strided(16, 16), strided(32, 32)), ((2, 2), (4, 4), (8, 8)));
        // Rows of 128 bytes: every lane of a part in the same banks. Padded by 16 bytes they are apart.
        assert_eq!((strided(8, 128), strided(16, 128), strided(16, 144)), ((32, 2), (32, 4), (4, 4)));
        // Only the second quarter.
        assert_eq!(wavefronts(16, (8..16).map(|lane| (lane, 16 * lane as u64)), false), (1, 1));
    }

    #[test]
    fn atomics_do_not_share() {
        assert_eq!(wavefronts(4, (0..32).map(|lane| (lane, 64)), true), (32, 1));
        assert_eq!(wavefronts(4, (0..32).map(|lane| (lane, 4 * lane as u64)), true), (1, 1));
    }

    #[test]
    fn sectors_of_strides() {
        let strided = |bytes, stride: u64| sectors(bytes, (0..32).map(|lane| 0x1000 + lane * stride));
        assert_eq!((strided(4, 4), strided(4, 0), strided(4, 8), strided(4, 32), strided(16, 16)), (4, 1, 8, 32, 16));
        // Off by one word: the last lane is in a sector more.
        assert_eq!(sectors(4, (0..32).map(|lane| 0x1004 + 4 * lane)), 5);
        assert_eq!(sectors(4, std::iter::empty()), 0);
    }
}
