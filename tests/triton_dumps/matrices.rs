//! Row-major matrices with what a kernel is expected to make of them: for every element a value, or that it is not touched.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Relative to the sum of the terms' magnitudes: both operands lose up to 2⁻¹⁰ where tf32 cuts them.
pub const TF32: f64 = 1.0 / 512.0;
/// Both operands are rounded to halves, 2⁻¹¹ each.
pub const FP16: f64 = 1.0 / 1024.0;
/// What three tf32 products leave of FP32, and sums of FP32 itself (up to 256 terms, each cut to 2⁻²⁴).
pub const FP32: f64 = 1.0 / 131_072.0;

/// Numbers from −1 to 1.
pub fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..count).map(|_| random.random_range(-1.0..1.0)).collect()
}

/// An expected value and how far a result may be from it.
#[derive(Clone, Copy)]
pub struct Expected {
    pub value: f64,
    /// The sum of the magnitudes of the terms that make the value.
    pub magnitude: f64,
}

impl Expected {
    pub fn exactly(value: f32) -> Self {
        Self { value: value.into(), magnitude: f64::from(value).abs() }
    }

    /// `self` − `other`.
    pub fn minus(self, other: Expected) -> Self {
        Self { value: self.value - other.value, magnitude: self.magnitude + other.magnitude }
    }
}

/// Σ a(p)·b(p).
pub fn dot(depth: usize, a: impl Fn(usize) -> Expected, b: impl Fn(usize) -> Expected) -> Expected {
    let mut sum = Expected { value: 0.0, magnitude: 0.0 };
    for p in 0..depth {
        let (a, b) = (a(p), b(p));
        sum.value += a.value * b.value;
        sum.magnitude += a.magnitude * b.magnitude;
    }
    sum
}

/// What memory is expected to hold.
pub struct Memory {
    before: Vec<f32>,
    expected: Vec<Option<Expected>>,
}

impl Memory {
    pub fn new(before: &[f32]) -> Self {
        Self { before: before.to_vec(), expected: vec![None; before.len()] }
    }

    pub fn before(&self, at: usize) -> Expected {
        Expected::exactly(self.before[at])
    }

    pub fn set(&mut self, at: usize, value: Expected) {
        self.expected[at] = Some(value);
    }

    /// Holds a result against it: what is not expected to change has its old bits.
    ///
    /// # Panics
    /// At the first element that is wrong.
    pub fn check(&self, found: &[f32], tolerance: f64, what: &str) {
        assert_eq!(found.len(), self.before.len());
        for (at, ((&found, &before), expected)) in found.iter().zip(&self.before).zip(&self.expected).enumerate() {
            match expected {
                None => assert_eq!(found.to_bits(), before.to_bits(), "{what}: element {at} is touched"),
                Some(Expected { value, magnitude }) => {
                    let error = (f64::from(found) - value).abs();
                    assert!(
                        error <= tolerance * magnitude,
                        "{what}: element {at} is {found}, expected {value}: off by {error:e}, {:e} are allowed",
                        tolerance * magnitude
                    );
                }
            }
        }
    }
}
