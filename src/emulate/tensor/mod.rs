//! Tensor cores: the formats of their operands, the products, and where an operand's elements lie in shared memory.

pub(super) mod descriptor;
pub(super) mod dot;
#[cfg(target_arch = "x86_64")]
mod wide;

use half::{bf16, f16};

use super::lanes::Lanes32;

/// A format of matrix elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F64,
    Tf32,
    F16,
    Bf16,
    E4m3,
    E5m2,
    S8,
    U8,
}

impl Element {
    /// By the name that PTX has for it.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "f64" => Element::F64,
            "tf32" => Element::Tf32,
            "f16" => Element::F16,
            "bf16" => Element::Bf16,
            "e4m3" => Element::E4m3,
            "e5m2" => Element::E5m2,
            "s8" => Element::S8,
            "u8" => Element::U8,
            _ => return None,
        })
    }

    /// Bits that an element takes.
    pub fn bits(self) -> usize {
        match self {
            Element::F64 => 64,
            Element::Tf32 => 32,
            Element::F16 | Element::Bf16 => 16,
            Element::E4m3 | Element::E5m2 | Element::S8 | Element::U8 => 8,
        }
    }

    /// Elements of a 32-bit word.
    pub fn per_word(self) -> usize {
        32 / self.bits().min(32)
    }

    /// True for integers.
    pub fn is_integer(self) -> bool {
        matches!(self, Element::S8 | Element::U8)
    }

    /// Gives `put` the values of a register's elements: of which lane, at which place of its word.
    #[inline]
    pub fn unpack(self, words: &Lanes32, mut put: impl FnMut(usize, usize, f32)) {
        // The format that matters most for time is chosen once.
        if self == Element::Tf32 {
            words.iter().enumerate().for_each(|(lane, &word)| put(lane, 0, Element::Tf32.value(word, 0)));
            return;
        }
        for (lane, &word) in words.iter().enumerate() {
            (0..self.per_word()).for_each(|place| put(lane, place, self.value(word, place)));
        }
    }

    /// The value of element `place` of a word. Every format's values are those of an `f32`; of tf32 the hardware reads the
    /// upper 19 bits of a word and ignores the rest.
    #[inline]
    pub fn value(self, word: u32, place: usize) -> f32 {
        let bits = word >> (place * self.bits() % 32);
        match self {
            Element::F64 => f32::NAN,
            Element::Tf32 => f32::from_bits(word & 0xffff_e000),
            Element::F16 => f16::from_bits(bits as u16).to_f32(),
            Element::Bf16 => bf16::from_bits(bits as u16).to_f32(),
            Element::E4m3 => E4M3[(bits & 0xff) as usize],
            Element::E5m2 => f16::from_bits((bits as u16) << 8).to_f32(),
            Element::S8 => f32::from(bits as i8),
            Element::U8 => f32::from(bits as u8),
        }
    }
}

/// The values of e4m3: four bits of exponent biased by 7, three of fraction, no infinities, NaN at 0x7f and 0xff.
static E4M3: [f32; 256] = {
    let mut table = [0.0; 256];
    let mut bits = 0;
    while bits < 256 {
        let (exponent, fraction) = (bits >> 3 & 0xf, (bits & 7) as f32);
        let magnitude = if bits & 0x7f == 0x7f {
            f32::NAN
        } else if exponent == 0 {
            fraction / 512.0
        } else {
            // 2^(exponent − 10), exactly.
            f32::from_bits(((exponent + 117) as u32) << 23) * (8.0 + fraction)
        };
        table[bits] = if bits & 0x80 == 0 { magnitude } else { -magnitude };
        bits += 1;
    }
    table
};

/// The value of a scale factor of eight bits: a power of two from 2⁻¹²⁷ to 2¹²⁷, NaN at 0xff.
pub(super) fn scale_e8m0(bits: u8) -> f32 {
    match bits {
        0xff => f32::NAN,
        0 => f32::from_bits(1 << 22),
        exponent => f32::from_bits(u32::from(exponent) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_by_known_values() {
        let e4m3 = |bits: u32| Element::E4m3.value(bits, 0);
        assert_eq!(
            [e4m3(0x38), e4m3(0x7e), e4m3(0x01), e4m3(0x08), e4m3(0xb8)],
            [1.0, 448.0, 1.0 / 512.0, 1.0 / 64.0, -1.0]
        );
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan());
        let e5m2 = |bits: u32| Element::E5m2.value(bits, 0);
        assert_eq!([e5m2(0x3c), e5m2(0x7b), e5m2(0x01), e5m2(0x7c)], [1.0, 57344.0, 2.0_f32.powi(-16), f32::INFINITY]);
        assert_eq!(Element::E4m3.value(0x38_00_00_00, 3), 1.0);
        assert_eq!(Element::F16.value(0x3c00_0000, 1), 1.0);
        assert_eq!(Element::Tf32.value(0x3f80_1fff, 0), 1.0);
        assert_eq!(Element::S8.value(0x0000_80ff, 1), -128.0);
        assert_eq!([scale_e8m0(127), scale_e8m0(0), scale_e8m0(254)], [1.0, 2.0_f32.powi(-127), 2.0_f32.powi(127)]);
    }
}
