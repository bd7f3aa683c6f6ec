//! Formats of floating numbers by their parameters, rounding to them, and exact sums.

/// A binary format with subnormals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the stored significand.
    pub significand: u32,
    /// Bits of the exponent.
    pub exponent: u32,
    /// What the highest exponent means.
    pub top: Top,
}

/// What codes with the highest exponent are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Top {
    /// Infinity and NaN.
    Ieee,
    /// Numbers, but for the last code, which is NaN.
    Numbers,
}

/// IEEE single.
pub const F32: Format = Format { significand: 23, exponent: 8, top: Top::Ieee };
/// IEEE half.
pub const F16: Format = Format { significand: 10, exponent: 5, top: Top::Ieee };
/// bfloat16.
pub const BF16: Format = Format { significand: 7, exponent: 8, top: Top::Ieee };
/// fp8 with 4 bits of exponent.
pub const E4M3: Format = Format { significand: 3, exponent: 4, top: Top::Numbers };
/// fp8 with 5 bits of exponent.
pub const E5M2: Format = Format { significand: 2, exponent: 5, top: Top::Ieee };

/// A number: ± `significand` · 2^`lsb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// Zero, finite and not zero, infinite, or no number.
    pub class: Class,
    /// The sign bit.
    pub negative: bool,
    /// Zero but for finite numbers.
    pub significand: u64,
    /// The weight of the significand's last bit.
    pub lsb: i32,
    /// The exponent as the format holds it: for zero and subnormals the least.
    pub exponent: i32,
}

/// Kinds of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// ±0.
    Zero,
    /// Finite and not zero.
    Finite,
    /// ±∞.
    Infinite,
    /// NaN.
    Nan,
}

/// Which way to round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    /// Towards zero, and to infinity beyond the largest.
    TowardsZero,
    /// Towards zero, and to the largest beyond it, as IEEE has it.
    TowardsZeroFinite,
}

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// The exponent of the smallest normal number.
    pub fn least(self) -> i32 {
        1 - self.bias()
    }

    /// The canonical NaN of PTX.
    pub fn nan(self) -> u32 {
        (1 << (self.significand + self.exponent)) - 1
    }

    fn sign(self) -> u32 {
        1 << (self.significand + self.exponent)
    }

    /// The code of +∞, or of the NaN where there is none.
    pub fn infinity(self) -> u32 {
        match self.top {
            Top::Ieee => ((1 << self.exponent) - 1) << self.significand,
            Top::Numbers => self.nan(),
        }
    }

    /// What a code means.
    pub fn decode(self, bits: u32) -> Number {
        let negative = bits & self.sign() != 0;
        let magnitude = bits & (self.sign() - 1);
        let fraction = u64::from(magnitude & ((1 << self.significand) - 1));
        let field = (magnitude >> self.significand) as i32;
        let class = match (magnitude, self.top) {
            (0, _) => Class::Zero,
            (code, _) if code < self.infinity() => Class::Finite,
            (code, Top::Ieee) if code == self.infinity() => Class::Infinite,
            _ => Class::Nan,
        };
        let exponent = field.max(1) - self.bias();
        let significand = match class {
            Class::Finite if field == 0 => fraction,
            Class::Finite => fraction | 1 << self.significand,
            _ => 0,
        };
        Number { class, negative, significand, lsb: exponent - self.significand as i32, exponent }
    }

    /// ± `magnitude` · 2^`lsb` as a code.
    pub fn encode(self, negative: bool, magnitude: u128, lsb: i32, rounding: Rounding) -> u32 {
        let sign = if negative { self.sign() } else { 0 };
        if magnitude == 0 {
            return sign;
        }
        let leading = lsb + 127 - magnitude.leading_zeros() as i32;
        let mut exponent = leading.max(self.least());
        let shift = exponent - self.significand as i32 - lsb;
        let mut kept = if shift <= 0 {
            (magnitude << -shift) as u64
        } else {
            let shift = shift as u32;
            let kept = magnitude.checked_shr(shift).unwrap_or(0);
            let rest = magnitude - kept.checked_shl(shift).unwrap_or(0);
            let half = 1_u128.checked_shl(shift - 1).unwrap_or(u128::MAX);
            let up = rounding == Rounding::Nearest && (rest > half || rest == half && kept & 1 == 1);
            kept as u64 + u64::from(up)
        };
        if kept >> (self.significand + 1) != 0 {
            kept >>= 1;
            exponent += 1;
        }
        let hidden = 1 << self.significand;
        let field = if kept < hidden { 0 } else { u64::from((exponent + self.bias()).unsigned_abs()) };
        let code = (field << self.significand) + (kept & (hidden - 1));
        if code < u64::from(self.infinity()) {
            return sign | code as u32;
        }
        match rounding {
            Rounding::TowardsZeroFinite => sign | (self.infinity() - 1),
            _ => sign | self.infinity(),
        }
    }

    /// The code nearest to `value`, within the format's range.
    pub fn nearest(self, value: f64) -> u32 {
        let bits = value.to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as i32;
        let fraction = bits & ((1 << 52) - 1);
        let significand = if exponent == 0 { fraction } else { fraction | 1 << 52 };
        let code = self.encode(value.is_sign_negative(), significand.into(), exponent.max(1) - 1075, Rounding::Nearest);
        let magnitude = (code & (self.sign() - 1)).min(self.infinity() - 1);
        code & self.sign() | magnitude
    }
}

impl Number {
    /// The exponent of the leading bit of a finite number.
    pub fn leading(&self) -> i32 {
        self.lsb + 63 - self.significand.leading_zeros() as i32
    }
}

const LIMBS: usize = 12;
/// The weight of an exact sum's last bit: under that of the product of two subnormal singles.
const BOTTOM: i32 = -320;

/// An exact sum of products of singles: a fixed-point number in two's complement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exact([u64; LIMBS]);

impl Exact {
    /// Adds ± `significand` · 2^`lsb`.
    pub fn add(&mut self, negative: bool, significand: u64, lsb: i32) {
        let at = (lsb - BOTTOM).unsigned_abs() as usize;
        let wide = u128::from(significand) << (at % 64);
        let mut term = [0; LIMBS];
        term[at / 64] = wide as u64;
        term[at / 64 + 1] = (wide >> 64) as u64;
        let mut carry = u64::from(negative);
        for (limb, term) in self.0.iter_mut().zip(term) {
            let sum = u128::from(*limb) + u128::from(if negative { !term } else { term }) + u128::from(carry);
            *limb = sum as u64;
            carry = (sum >> 64) as u64;
        }
    }

    /// Adds what `number` is.
    pub fn add_number(&mut self, number: &Number, negate: bool) {
        if number.class == Class::Finite {
            self.add(number.negative != negate, number.significand, number.lsb);
        }
    }

    /// The sign, and the magnitude's upper 65 bits or more (the last of them set where anything below is) with their
    /// weight.
    pub fn parts(&self) -> (bool, u128, i32) {
        let negative = self.0[LIMBS - 1] >> 63 == 1;
        let mut magnitude = Self::default();
        let mut carry = u64::from(negative);
        for (to, from) in magnitude.0.iter_mut().zip(self.0) {
            let (sum, over) = (if negative { !from } else { from }).overflowing_add(carry);
            *to = sum;
            carry = u64::from(over);
        }
        let Some(top) = magnitude.0.iter().rposition(|&limb| limb != 0) else { return (false, 0, BOTTOM) };
        let bottom = top.saturating_sub(1);
        let mut value = u128::from(magnitude.0[top]) << 64 | u128::from(if top > 0 { magnitude.0[bottom] } else { 0 });
        if top == 0 {
            value >>= 64;
        }
        if magnitude.0[..bottom].iter().any(|&limb| limb != 0) {
            value |= 1;
        }
        (negative, value, BOTTOM + 64 * bottom as i32)
    }

    /// The magnitude's base-2 logarithm, about.
    pub fn log2(&self) -> f64 {
        let (_, magnitude, lsb) = self.parts();
        (magnitude as f64).log2() + f64::from(lsb)
    }
}
