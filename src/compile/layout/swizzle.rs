//! Operands of products in shared memory, as the matrix descriptors of `wgmma` and `tcgen05` describe them.
//!
//! An operand has rows (along M or N) and a depth (along K). The axis that is contiguous in memory is its *major*. Atoms are eight
//! lines of 32, 64 or 128 bytes along the major; within an atom the 16-byte pieces of a line are exchanged by the line's number,
//! so that eight lines at one place of the major are on different banks (PTX ISA, "Shared memory matrix layout"; CUTLASS's `mma_traits`
//! name the same layouts). The atoms lie one after the other along the other axis, and then along the major:
//!
//! | | byte |
//! |---|---|
//! | line `l`, byte `b` of the major, lines of `w` bytes, `L` lines | `b / w · L·w + l·w + (b % w ^ 16·(l·w / 128 % (w / 16)))` |
//!
//! The map is linear over the bits of the coordinates, like every other layout here.

use super::{Layout, Side};

/// The axis that is contiguous in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Major {
    /// K.
    Depth,
    /// M or N.
    Rows,
}

/// The place of an operand in shared memory. It begins at a multiple of [`Swizzled::ALIGN`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swizzled {
    /// Extent along M or N, a power of two.
    pub rows: u32,
    /// Extent along K, a power of two.
    pub depth: u32,
    /// Bytes of an element.
    pub bytes: u32,
    /// What is contiguous.
    pub major: Major,
    /// Bytes of a line of an atom: 32, 64 or 128.
    pub width: u32,
}

impl Swizzled {
    /// The swizzle goes by bits of the address: atoms begin where those are 0.
    pub const ALIGN: u32 = 1024;

    /// The widest lines that the operand fills; `None` where it has no 32 bytes along its major, or no eight lines.
    pub fn new(rows: u32, depth: u32, bytes: u32, major: Major) -> Option<Self> {
        let (along, lines) = match major {
            Major::Depth => (depth, rows),
            Major::Rows => (rows, depth),
        };
        let width = (along * bytes).min(128);
        (width >= 32 && lines >= 8).then_some(Self { rows, depth, bytes, major, width })
    }

    fn lines(&self) -> u32 {
        match self.major {
            Major::Depth => self.rows,
            Major::Rows => self.depth,
        }
    }

    /// Bytes of the operand.
    pub fn size(&self) -> u32 {
        self.rows * self.depth * self.bytes
    }

    /// From the first byte, where element (`row`, `k`) lies.
    pub fn byte(&self, row: u32, k: u32) -> u32 {
        let (along, line) = match self.major {
            Major::Depth => (k, row),
            Major::Rows => (row, k),
        };
        let along = along * self.bytes;
        let plain = along / self.width * self.lines() * self.width + line * self.width + along % self.width;
        plain ^ (plain >> 3 & (self.width - 16))
    }

    /// Bytes from eight lines to the next: the descriptor's stride.
    pub fn stride(&self) -> u32 {
        8 * self.width
    }

    /// Bytes from a line's worth of the major to the next: the descriptor's leading offset, which matters where rows are the major.
    pub fn leading(&self) -> u32 {
        self.lines() * self.width
    }

    /// The matrix descriptor for `wgmma` of the operand at byte 0: bits 62 and 63 name the swizzle (PTX ISA, "Matrix descriptor").
    pub fn wgmma_descriptor(&self) -> u64 {
        self.offsets() | self.by_width([1, 2, 3]) << 62
    }

    /// The same for `tcgen05`: bits 61 to 63 name the swizzle, bits 46 to 48 are 1 (PTX ISA, "Shared memory descriptor").
    pub fn tcgen05_descriptor(&self) -> u64 {
        self.offsets() | 1 << 46 | self.by_width([2, 4, 6]) << 61
    }

    /// The fields that both have, in units of 16 bytes.
    fn offsets(&self) -> u64 {
        let field = |bytes: u32, at: u32| u64::from(bytes >> 4 & 0x3fff) << at;
        field(self.leading(), 16) | field(self.stride(), 32)
    }

    /// The number for lines of 128, 64 and 32 bytes.
    fn by_width(&self, [whole, half, quarter]: [u64; 3]) -> u64 {
        match self.width {
            128 => whole,
            64 => half,
            _ => quarter,
        }
    }

    /// How the threads that hold the operand in `layout` write it. `place` gives the row and the k of an index of the tile.
    pub fn store(&self, layout: &Layout, place: impl Fn(u32) -> (u32, u32)) -> Side {
        let element = |basis: u32| {
            let (row, k) = place(basis);
            self.byte(row, k) / self.bytes
        };
        let widest = (16 / self.bytes).ilog2() as usize;
        let bases: Vec<u32> = layout.reg.iter().map(|&basis| element(basis)).collect();
        let width = (0..widest).take_while(|&bit| bases.contains(&(1 << bit))).count();
        let mut sides = (0..=width).rev().map(|width| Side::of(layout, width, element));
        sides.find(|side| side.is_whole()).expect("single elements are aligned")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::layout::gf2::apply;
    use crate::tile::Shape;

    fn all() -> impl Iterator<Item = Swizzled> {
        [(64, 32, 4), (128, 8, 4), (16, 64, 2), (256, 16, 2), (64, 128, 1)].into_iter().flat_map(
            |(rows, depth, bytes)| {
                [Major::Depth, Major::Rows]
                    .into_iter()
                    .filter_map(move |major| Swizzled::new(rows, depth, bytes, major))
            },
        )
    }

    #[test]
    fn every_element_has_a_place_of_its_own_by_a_linear_map() {
        for swizzled in all() {
            let mut seen = std::collections::HashSet::new();
            for row in 0..swizzled.rows {
                for k in 0..swizzled.depth {
                    let byte = swizzled.byte(row, k);
                    assert!(byte + swizzled.bytes <= swizzled.size() && seen.insert(byte), "{swizzled:?} {row} {k}");
                    assert_eq!(byte, swizzled.byte(row, 0) ^ swizzled.byte(0, k));
                    let low = row & row.wrapping_neg();
                    assert_eq!(swizzled.byte(row, k), swizzled.byte(row ^ low, k) ^ swizzled.byte(low, 0));
                }
            }
        }
    }

    /// What the emulator, and the hardware, read by the descriptor.
    #[test]
    fn descriptors_find_what_is_there() {
        for swizzled in all() {
            let Swizzled { rows, depth, bytes, major, width } = swizzled;
            for row in 0..rows {
                for k in 0..depth {
                    let (along, line) = if major == Major::Depth { (k * bytes, row) } else { (row * bytes, k) };
                    let plain = along / width * swizzled.leading()
                        + along % width
                        + line / 8 * swizzled.stride()
                        + line % 8 * width;
                    let lines = plain >> 7;
                    let pieces = match width {
                        128 => lines % 8,
                        64 => lines % 4,
                        _ => lines % 2,
                    };
                    assert_eq!(plain ^ pieces << 4, swizzled.byte(row, k), "{swizzled:?}");
                }
            }
        }
    }

    /// Less the leading offset, which means nothing where k is contiguous and which Triton leaves 0: what Triton 3.6 has for halves in lines of
    /// 128 bytes, for sm_90 and for sm_100.
    #[test]
    fn descriptors_are_those_of_triton() {
        let without_leading = |bits: u64| bits & !(0x3fff << 16);
        let place = |bytes: u32| Swizzled::new(128, bytes / 2, 2, Major::Depth).unwrap();
        assert_eq!(without_leading(place(128).wgmma_descriptor()), 4_611_686_293_305_294_848);
        assert_eq!(without_leading(place(128).tcgen05_descriptor()), 4_611_756_662_049_472_512);
        for (bytes, hopper, blackwell) in [(64, 2, 4), (32, 3, 6)] {
            assert_eq!(place(bytes).wgmma_descriptor() >> 62, hopper);
            assert_eq!(place(bytes).tcgen05_descriptor() >> 61, blackwell);
            assert_eq!(place(bytes).wgmma_descriptor() >> 32 & 0x3fff, u64::from(8 * bytes / 16));
        }
    }

    #[test]
    fn writers_put_each_element_at_its_place() {
        for swizzled in all() {
            let Swizzled { rows, depth, bytes, .. } = swizzled;
            let shape = Shape::new(&[rows, depth]).unwrap();
            for order in [[0, 1], [1, 0]] {
                let layout = Layout::blocked(shape, 16 / bytes, &order, 4);
                let side = swizzled.store(&layout, |index| (index / depth, index % depth));
                for (lane, warp) in [(0, 0), (5, 1), (31, 3), (18, 2)] {
                    for (access, registers) in side.accesses.iter().enumerate() {
                        let first = side.places[access] ^ apply(&side.lane, lane) ^ apply(&side.warp, warp);
                        for (offset, &register) in registers.iter().enumerate() {
                            let index = layout.index(register, lane, warp);
                            let place = (first + offset as u32) * bytes;
                            assert_eq!(place, swizzled.byte(index / depth, index % depth));
                        }
                    }
                }
            }
        }
    }
}
