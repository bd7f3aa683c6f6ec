//! Values of a warp: 32 lanes of one register, and the types that are read from and written to them.
//!
//! Registers are bits. Those of up to 32 bits are kept in `[u32; 32]`, those of 64 in `[u64; 32]`; narrow values sit in
//! the low bits, and what is above them is not defined: a typed read takes only what it needs.

use half::{bf16, f16};

/// Lanes of a warp.
pub(super) const LANES: usize = 32;
/// A mask with every lane.
pub(super) const FULL: u32 = u32::MAX;

/// A register of up to 32 bits.
pub(super) type Lanes32 = [u32; LANES];
/// A register of 64 bits.
pub(super) type Lanes64 = [u64; LANES];

/// A type that an instruction reads from a register or writes to one.
pub(super) trait Lane: Copy {
    /// The lane of the register bank that holds it.
    type Word: Copy + Default;
    fn get(word: Self::Word) -> Self;
    fn put(self) -> Self::Word;
}

macro_rules! lane {
    ($($ty:ty, $word:ty, |$in:ident| $get:expr, |$out:ident| $put:expr;)*) => {
        $(impl Lane for $ty {
            type Word = $word;
            #[inline(always)]
            fn get($in: $word) -> Self { $get }
            #[inline(always)]
            fn put(self) -> $word { let $out = self; $put }
        })*
    };
}

lane! {
    u8, u32, |w| w as u8, |v| v.into();
    i8, u32, |w| w as i8, |v| v as i32 as u32;
    u16, u32, |w| w as u16, |v| v.into();
    i16, u32, |w| w as i16, |v| v as i32 as u32;
    u32, u32, |w| w, |v| v;
    i32, u32, |w| w as i32, |v| v as u32;
    f32, u32, |w| f32::from_bits(w), |v| v.to_bits();
    f16, u32, |w| f16::from_bits(w as u16), |v| v.to_bits().into();
    bf16, u32, |w| bf16::from_bits(w as u16), |v| v.to_bits().into();
    u64, u64, |w| w, |v| v;
    i64, u64, |w| w as i64, |v| v as u64;
    f64, u64, |w| f64::from_bits(w), |v| v.to_bits();
}

/// Two halves in one word, the first in the low half.
impl<T: Lane<Word = u32>> Lane for [T; 2] {
    type Word = u32;
    #[inline(always)]
    fn get(word: u32) -> Self {
        [T::get(word & 0xffff), T::get(word >> 16)]
    }
    #[inline(always)]
    fn put(self) -> u32 {
        self[0].put() & 0xffff | self[1].put() << 16
    }
}

/// Two singles in a wide register, the first in the low half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct F32x2(pub [f32; 2]);

impl Lane for F32x2 {
    type Word = u64;
    #[inline(always)]
    fn get(word: u64) -> Self {
        F32x2([f32::from_bits(word as u32), f32::from_bits((word >> 32) as u32)])
    }
    #[inline(always)]
    fn put(self) -> u64 {
        u64::from(self.0[0].to_bits()) | u64::from(self.0[1].to_bits()) << 32
    }
}

/// The lanes of `mask`, in order.
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

/// A denormal becomes a zero of its sign.
#[inline(always)]
pub(super) fn flush(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_a_mask() {
        assert_eq!(lanes(0x8000_0011).collect::<Vec<_>>(), [0, 4, 31]);
        assert_eq!(lanes(0).count(), 0);
        assert_eq!(lanes(FULL).count(), 32);
    }

    #[test]
    fn pairs_keep_their_order() {
        let word = [f16::from_f32(1.0), f16::from_f32(-2.0)].put();
        assert_eq!(word, 0xc000_3c00);
        assert_eq!(<[f16; 2]>::get(word)[1], f16::from_f32(-2.0));
    }
}
