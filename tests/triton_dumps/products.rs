//! Products of tiles in f64, with a bound of what a kernel's may differ by that follows the numbers themselves.
//!
//! Every number has its own bound, and products pass the bounds of their operands on, so a chain of products is held as
//! closely as a single one. What an instruction does to its operands by definition (halves are rounded, tf32 is cut) is done
//! here too and is no error; only the order and the rounding of sums are left open.

use crate::matrices::Expected;

/// A number that a kernel computes: what it is without rounding, and how far from it the kernel's may be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Approximate {
    pub value: f64,
    pub error: f64,
}

impl Approximate {
    /// A number that is stored.
    pub fn exactly(value: f32) -> Self {
        Self { value: value.into(), error: 0.0 }
    }

    /// `self` − `other`, rounded to FP32.
    pub fn minus(self, other: Self) -> Self {
        let value = self.value - other.value;
        let error = self.error + other.error;
        Self { value, error: error + HALF_ULP * (value.abs() + error) }
    }

    /// Through a function that never decreases, such as any rounding: the ends of the interval bound the image.
    fn map(self, monotone: impl Fn(f64) -> f64) -> Self {
        let [low, value, high] = [-self.error, 0.0, self.error].map(|by| monotone(self.value + by));
        Self { value, error: (high - value).max(value - low) }
    }
}

impl From<Approximate> for Expected {
    /// To be checked with a tolerance of [`WITHIN`].
    fn from(Approximate { value, error }: Approximate) -> Self {
        Self { value, magnitude: error }
    }
}

/// The tolerance of numbers that bring their own bound.
pub const WITHIN: f64 = 1.0;

/// Of a rounding to nearest of an FP32 number, relative to it.
const HALF_ULP: f64 = 1.0 / 16_777_216.0;

/// What adding one product to an accumulator costs, relative to the largest of the products and of the sums on the way.
///
/// Tensor cores cut every product, and the accumulator, some 25 bits under the largest of a few (2⁻²⁴ covers 24 bits), and
/// then cut the sum to FP32 (2⁻²³, once for 8 products at least); a fused multiply-add rounds once, by 2⁻²⁴ at most.
const SUM: f64 = 2.0 * HALF_ULP;

/// How a product reads its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Halves, converted to nearest.
    Fp16,
    /// FP32 of which a tensor core sees the first 10 bits of the fraction.
    Tf32,
    /// Three tf32 products: an operand is split in a tf32 number, to nearest, and the rest, of which again 10 bits are seen.
    /// The product of the rests is left out.
    Tf32x3,
    /// FP32 all the way.
    Ieee,
}

impl Precision {
    /// What a product reads of its operands.
    pub fn operands(self, values: impl Iterator<Item = Approximate>) -> Vec<Approximate> {
        values.map(|value| self.operand(value)).collect()
    }

    fn operand(self, operand: Approximate) -> Approximate {
        match self {
            Self::Fp16 => operand.map(|value| half::f16::from_f64(value).to_f64()),
            // 52 bits of fraction, of which 10 stay.
            Self::Tf32 => operand.map(|value| f64::from_bits(value.to_bits() >> 42 << 42)),
            // The rest is up to 2⁻¹¹ of the number, and loses up to 2⁻¹⁰ of itself.
            Self::Tf32x3 => {
                let error = operand.error + 2.0_f64.powi(-21) * (operand.value.abs() + operand.error);
                Approximate { error, ..operand }
            }
            Self::Ieee => operand,
        }
    }

    /// Σ a·b of what [`Self::operands`] gave.
    pub fn dot(self, a: &[Approximate], b: &[Approximate]) -> Approximate {
        assert_eq!(a.len(), b.len());
        let (mut sum, mut error, mut largest) = (0.0_f64, 0.0, 0.0_f64);
        for (a, b) in a.iter().zip(b) {
            let product = a.value * b.value;
            sum += product;
            error += a.error * b.value.abs() + b.error * (a.value.abs() + a.error);
            if self == Self::Tf32x3 {
                error += 2.0_f64.powi(-22) * product.abs();
            }
            largest = largest.max(product.abs()).max(sum.abs());
        }
        let products = a.len() * if self == Self::Tf32x3 { 3 } else { 1 };
        Approximate { value: sum, error: error + SUM * products as f64 * (largest + error) }
    }
}
