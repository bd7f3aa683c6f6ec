//! Row-major matrices with what a kernel is expected to make of them: for every element a value, or that it is not touched.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

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
