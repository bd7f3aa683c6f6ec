//! Shared-memory matrix descriptors of `wgmma` and `tcgen05`: 64 bits that say where an operand's tile lies and how it is
//! swizzled (PTX ISA, "Matrix descriptor"; the canonical layouts are those of CUTLASS's `mma_traits`).
//!
//! A tile is made of rows of 16, 32, 64 or 128 bytes (no swizzle and the three swizzles), eight to an atom. K-major tiles
//! have K along a row; MN-major tiles have M or N along it. The swizzle exchanges 16-byte pieces by bits of the absolute
//! address, so it is applied last.

/// How 16-byte (or, in one mode, 32-byte) pieces of a row are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::emulate) enum Swizzle {
    None,
    B32,
    B64,
    B128,
    /// 128 bytes in pieces of 32.
    B128Atom32,
}

impl Swizzle {
    /// Bytes of a row of an atom.
    pub fn row_bytes(self) -> u64 {
        match self {
            Swizzle::None => 16,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 | Swizzle::B128Atom32 => 128,
        }
    }

    /// Where the byte of a plain address is.
    pub fn apply(self, address: u64) -> u64 {
        match self {
            Swizzle::None => address,
            Swizzle::B32 => address ^ (address >> 3 & 0x10),
            Swizzle::B64 => address ^ (address >> 3 & 0x30),
            Swizzle::B128 => address ^ (address >> 3 & 0x70),
            Swizzle::B128Atom32 => address ^ (address >> 2 & 0x60),
        }
    }
}

/// A decoded descriptor. Offsets are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::emulate) struct Descriptor {
    pub start: u64,
    pub leading: u64,
    pub stride: u64,
    pub swizzle: Swizzle,
}

impl Descriptor {
    /// Decodes a descriptor of `wgmma` (bits 62 and 63 name the swizzle).
    ///
    /// # Errors
    /// A base offset, which the emulator does not know.
    pub fn hopper(bits: u64) -> Result<Self, String> {
        if bits >> 49 & 7 != 0 {
            return Err(format!("the matrix descriptor {bits:#x} has a base offset, which the emulator does not know"));
        }
        let swizzle = [Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32][(bits >> 62) as usize];
        Ok(Self::with(bits, swizzle))
    }

    /// Decodes a descriptor of `tcgen05` (bits 61 to 63 name the swizzle; bits 46 to 48 are 1).
    ///
    /// # Errors
    /// Bits that no descriptor of this version has.
    pub fn blackwell(bits: u64) -> Result<Self, String> {
        if bits >> 46 & 7 != 1 {
            return Err(format!(
                "bits 46 to 48 of the matrix descriptor {bits:#x} are {} and must be 1",
                bits >> 46 & 7
            ));
        }
        if bits >> 49 & 7 != 0 || bits >> 52 & 1 != 0 {
            return Err(format!(
                "the matrix descriptor {bits:#x} has a base offset or an absolute leading offset, which the emulator does \
                 not know"
            ));
        }
        let swizzle = match bits >> 61 {
            0 => Swizzle::None,
            1 => Swizzle::B128Atom32,
            2 => Swizzle::B128,
            4 => Swizzle::B64,
            6 => Swizzle::B32,
            other => return Err(format!("the matrix descriptor {bits:#x} names swizzle {other}, which there is not")),
        };
        Ok(Self::with(bits, swizzle))
    }

    fn with(bits: u64, swizzle: Swizzle) -> Self {
        let field = |at: u32| (bits >> at & 0x3fff) << 4;
        Self { start: field(0), leading: field(16), stride: field(32), swizzle }
    }

    /// The address of the 16 bytes that hold byte `along` of row `row` of the operand, where K is contiguous: `row` counts
    /// along M or N, `along` is a multiple of 16 in bytes of K.
    pub fn k_major(&self, row: u64, along: u64) -> u64 {
        let width = self.swizzle.row_bytes();
        let plain = self.start + row / 8 * self.stride + row % 8 * width;
        let plain = if self.swizzle == Swizzle::None { plain + along / 16 * self.leading } else { plain + along };
        self.swizzle.apply(plain)
    }

    /// The address of the 16 bytes that hold byte `along` (a multiple of 16, in bytes of M or N) at index `k`, where M or N is
    /// contiguous.
    pub fn mn_major(&self, k: u64, along: u64) -> u64 {
        let width = self.swizzle.row_bytes();
        // Without a swizzle the two offsets have changed places.
        let (across, down) =
            if self.swizzle == Swizzle::None { (self.stride, self.leading) } else { (self.leading, self.stride) };
        let plain = self.start + along / width * across + along % width + k / 8 * down + k % 8 * width;
        self.swizzle.apply(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_of_triton() {
        // 128-byte swizzle, 1024 bytes from one group of eight rows to the next: 4611756662049472512 on sm_100.
        let decoded = Descriptor::blackwell(4_611_756_662_049_472_512 | 0x440).unwrap();
        assert_eq!(decoded, Descriptor { start: 0x4400, leading: 0, stride: 1024, swizzle: Swizzle::B128 });
        assert_eq!(decoded.k_major(0, 0), 0x4400);
        assert_eq!(decoded.k_major(1, 0), 0x4480 ^ 0x10);
        assert_eq!(decoded.k_major(8, 16), 0x4810);
    }

    #[test]
    fn swizzles_permute_their_atom() {
        for swizzle in [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128, Swizzle::B128Atom32] {
            let mut places: Vec<u64> = (0..1024).map(|address| swizzle.apply(address)).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..1024), "{swizzle:?}");
        }
    }

    #[test]
    fn wrong_bits_are_refused() {
        assert!(Descriptor::blackwell(0).unwrap_err().contains("must be 1"));
        assert!(Descriptor::blackwell(1 << 46 | 3 << 61).unwrap_err().contains("swizzle 3"));
        assert!(Descriptor::hopper(1 << 50).unwrap_err().contains("base offset"));
    }
}
