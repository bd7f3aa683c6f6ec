//! Tensor maps: what a tensor copy (`cp.async.bulk.tensor`) has to know of a tensor in global memory.
//!
//! On a card the driver makes 128 opaque bytes of it; on the emulator this module does, in a form of its own. A kernel gets
//! the address of the bytes, in global memory or among its parameters.

use super::Error;

/// Bytes of an encoded map.
pub const TENSOR_MAP_BYTES: usize = 128;
/// The first bytes of a map that was made for the emulator.
const MAGIC: [u8; 4] = *b"TwTM";

/// The elements of a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorMapElement {
    /// 8 bits.
    U8,
    /// 16 bits.
    U16,
    /// 32 bits.
    U32,
    /// 64 bits.
    U64,
    /// Halves.
    F16,
    /// bfloat16.
    Bf16,
    /// Singles.
    F32,
    /// Doubles.
    F64,
}

impl TensorMapElement {
    const ALL: [Self; 8] = [Self::U8, Self::U16, Self::U32, Self::U64, Self::F16, Self::Bf16, Self::F32, Self::F64];

    /// Bytes of an element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::F32 => 4,
            Self::U64 | Self::F64 => 8,
        }
    }

    /// The bits of a NaN; zero for integers.
    pub(super) fn nan(self) -> u64 {
        match self {
            Self::F16 => 0x7e00,
            Self::Bf16 => 0x7fc0,
            Self::F32 => 0x7fc0_0000,
            Self::F64 => 0x7ff8_0000_0000_0000,
            _ => 0,
        }
    }
}

/// How a box's rows are exchanged in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TensorMapSwizzle {
    /// Rows as they come.
    #[default]
    None,
    /// 16-byte pieces of rows of 32 bytes.
    B32,
    /// 16-byte pieces of rows of 64 bytes.
    B64,
    /// 16-byte pieces of rows of 128 bytes.
    B128,
}

impl TensorMapSwizzle {
    const ALL: [Self; 4] = [Self::None, Self::B32, Self::B64, Self::B128];

    /// The most bytes of a box's innermost dimension; `None` where any number will do.
    fn span(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::B32 => Some(32),
            Self::B64 => Some(64),
            Self::B128 => Some(128),
        }
    }
}

/// A tensor in global memory and the box that one copy moves. Dimensions are innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// What it is made of.
    pub element: TensorMapElement,
    /// The device address of the first element, a multiple of 16.
    pub address: u64,
    /// Elements along each dimension, one to five of them.
    pub dims: Vec<u64>,
    /// Bytes from one index to the next along each dimension but the first, whose elements are contiguous; multiples of 16.
    pub strides: Vec<u64>,
    /// Elements of a box along each dimension, 1 to 256.
    pub box_dims: Vec<u32>,
    /// How the box lies in shared memory.
    pub swizzle: TensorMapSwizzle,
    /// Elements outside the tensor read as NaN rather than zero.
    pub fill_nan: bool,
}

impl TensorMap {
    /// A contiguous, row-major matrix of `rows` × `columns` with boxes of `box_rows` × `box_columns`.
    pub fn matrix(
        element: TensorMapElement,
        address: u64,
        [rows, columns]: [u64; 2],
        [box_rows, box_columns]: [u32; 2],
        swizzle: TensorMapSwizzle,
    ) -> Self {
        Self {
            element,
            address,
            dims: vec![columns, rows],
            strides: vec![columns * element.bytes()],
            box_dims: vec![box_columns, box_rows],
            swizzle,
            fill_nan: false,
        }
    }

    /// Bytes of a box in shared memory.
    pub fn box_bytes(&self) -> u64 {
        self.box_dims.iter().map(|&dim| u64::from(dim)).product::<u64>() * self.element.bytes()
    }

    /// Checks the rules that a card has for maps.
    ///
    /// # Errors
    /// The value that breaks a rule, and the rule.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::TensorMap(message));
        let rank = self.dims.len();
        if !(1..=5).contains(&rank) || self.box_dims.len() != rank || self.strides.len() + 1 != rank {
            return refuse(format!(
                "{rank} dimensions, {} strides and {} dimensions of the box: one to five dimensions take as many of the \
                 box and one stride less",
                self.strides.len(),
                self.box_dims.len()
            ));
        }
        if !self.address.is_multiple_of(16) {
            return refuse(format!("the address {:#x} is not a multiple of 16", self.address));
        }
        if let Some(dim) = self.dims.iter().find(|&&dim| dim == 0 || dim > 1 << 32) {
            return refuse(format!("a dimension of {dim}: from 1 to 2³² are allowed"));
        }
        if let Some(stride) = self.strides.iter().find(|&&stride| !stride.is_multiple_of(16) || stride >= 1 << 40) {
            return refuse(format!("a stride of {stride} bytes: multiples of 16 under 2⁴⁰ are allowed"));
        }
        if let Some(dim) = self.box_dims.iter().find(|dim| !(1..=256).contains(*dim)) {
            return refuse(format!("a box dimension of {dim}: from 1 to 256 are allowed"));
        }
        let inner = u64::from(self.box_dims[0]) * self.element.bytes();
        if !inner.is_multiple_of(16) {
            return refuse(format!("the box's innermost dimension has {inner} bytes, not a multiple of 16"));
        }
        if let Some(span) = self.swizzle.span()
            && inner > span
        {
            return refuse(format!("the box's innermost dimension has {inner} bytes, more than the swizzle's {span}"));
        }
        if self.fill_nan && self.element.nan() == 0 {
            return refuse("integers have no NaN to fill with".into());
        }
        Ok(())
    }

    /// The map for the emulator, as bytes to be put where a kernel finds it.
    ///
    /// # Errors
    /// As [`TensorMap::check`].
    pub fn encode(&self) -> Result<[u8; TENSOR_MAP_BYTES], Error> {
        self.check()?;
        let position =
            |all: &[TensorMapElement]| all.iter().position(|&other| other == self.element).unwrap_or(0) as u8;
        let swizzle = TensorMapSwizzle::ALL.iter().position(|&other| other == self.swizzle).unwrap_or(0) as u8;
        let mut bytes = MAGIC.to_vec();
        bytes.extend([position(&TensorMapElement::ALL), self.dims.len() as u8, swizzle, u8::from(self.fill_nan)]);
        bytes.extend(self.address.to_le_bytes());
        bytes.extend(self.dims.iter().flat_map(|dim| dim.to_le_bytes()));
        bytes.extend(self.strides.iter().flat_map(|stride| stride.to_le_bytes()));
        bytes.extend(self.box_dims.iter().flat_map(|dim| (*dim as u16).to_le_bytes()));
        let mut map = [0; TENSOR_MAP_BYTES];
        map[..bytes.len()].copy_from_slice(&bytes);
        Ok(map)
    }

    /// The map that [`TensorMap::encode`] made these bytes of.
    pub(super) fn decode(bytes: &[u8; TENSOR_MAP_BYTES]) -> Option<Self> {
        let rank = usize::from(bytes[5]);
        if bytes[..4] != MAGIC || !(1..=5).contains(&rank) {
            return None;
        }
        let word = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let (dims, strides) = (16, 16 + 8 * rank);
        let boxes = strides + 8 * (rank - 1);
        let map = Self {
            element: *TensorMapElement::ALL.get(usize::from(bytes[4]))?,
            address: word(8),
            dims: (0..rank).map(|index| word(dims + 8 * index)).collect(),
            strides: (0..rank - 1).map(|index| word(strides + 8 * index)).collect(),
            box_dims: (0..rank)
                .map(|index| u32::from(u16::from_le_bytes([bytes[boxes + 2 * index], bytes[boxes + 2 * index + 1]])))
                .collect(),
            swizzle: *TensorMapSwizzle::ALL.get(usize::from(bytes[6]))?,
            fill_nan: bytes[7] == 1,
        };
        map.check().ok().map(|()| map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_come_back_from_their_bytes() {
        let matrix = TensorMap::matrix(TensorMapElement::F32, 0x1000, [100, 64], [64, 32], TensorMapSwizzle::B128);
        assert_eq!(TensorMap::decode(&matrix.encode().unwrap()), Some(matrix));
        let five = TensorMap {
            element: TensorMapElement::Bf16,
            address: 0x10_0000_0010,
            dims: vec![8, 1 << 32, 3, 4, 5],
            strides: vec![16, 32, 64, 1 << 39],
            box_dims: vec![8, 256, 1, 2, 3],
            swizzle: TensorMapSwizzle::None,
            fill_nan: true,
        };
        assert_eq!(TensorMap::decode(&five.encode().unwrap()), Some(five));
        assert_eq!(TensorMap::decode(&[0; TENSOR_MAP_BYTES]), None);
    }

    #[test]
    fn rules() {
        let good = TensorMap::matrix(TensorMapElement::F32, 0x1000, [100, 64], [64, 32], TensorMapSwizzle::B128);
        type Spoil = fn(&mut TensorMap);
        let broken: [(Spoil, &str); 7] = [
            (|map| map.address = 8, "not a multiple of 16"),
            (|map| map.dims = vec![], "one to five"),
            (|map| map.dims[0] = 0, "from 1 to 2³²"),
            (|map| map.strides[0] = 20, "multiples of 16"),
            (|map| map.box_dims[1] = 257, "from 1 to 256"),
            (|map| map.box_dims[0] = 3, "12 bytes"),
            (|map| map.box_dims[0] = 64, "more than the swizzle's 128"),
        ];
        for (spoil, words) in broken {
            let mut map = good.clone();
            spoil(&mut map);
            let message = map.check().unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }
}
