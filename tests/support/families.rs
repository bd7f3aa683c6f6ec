//! The six input families of the public Cholesky problem, in f64 from a seed, symmetrised and rounded to f32.

use faer::Mat;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::StandardNormal;

/// A family of symmetric positive definite matrices (but for rounding). `conditions` are powers of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// G·Gᵀ/n + 10^(−max(c, 2))·I.
    Dense,
    /// diag(logspace(0, −max(c, 1))).
    Diagonal,
    /// Q·diag(logspace(0, −max(c, 1)))·Qᵀ, Q random orthogonal (the signs of its columns cancel).
    Spectrum,
    /// F·Fᵀ/r + 10^(−max(c, 3))·I, F of rank r = max(1, min(n/8, 64)).
    LowRank,
    /// S·(G·Gᵀ/n + 1e-3·I)·S + 1e-6·I, S = diag(logspace(0, −max(c, 2)/2)).
    RowScale,
    /// Diagonal in [1.5, 2.5], beside it [−0.25, 0.25].
    Tridiagonal,
}

impl Family {
    pub const ALL: [Family; 6] =
        [Family::Dense, Family::Diagonal, Family::Spectrum, Family::LowRank, Family::RowScale, Family::Tridiagonal];

    /// One n-by-n matrix, row-major.
    pub fn matrix(self, n: usize, condition: i32, seed: u64) -> Vec<f32> {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut normal = |rows: usize, columns: usize| -> Mat<f64> {
            Mat::from_fn(rows, columns, |_, _| rng.sample::<f64, _>(StandardNormal))
        };
        let identity = |scale: f64| Mat::<f64>::from_fn(n, n, |i, j| if i == j { scale } else { 0.0 });
        let power = |exponent: i32| 10.0_f64.powi(-exponent);
        // n values from 1 to 10^-exponent, evenly on the logarithm.
        let logspace = |exponent: f64, i: usize| 10.0_f64.powf(-exponent * i as f64 / (n.max(2) - 1) as f64);
        let a = match self {
            Family::Dense => {
                let g = normal(n, n);
                &g * g.transpose() * faer::Scale(1.0 / n as f64) + identity(power(condition.max(2)))
            }
            Family::Diagonal => {
                let exponent = f64::from(condition.max(1));
                Mat::from_fn(n, n, |i, j| if i == j { logspace(exponent, i) } else { 0.0 })
            }
            Family::Spectrum => {
                let exponent = f64::from(condition.max(1));
                let g = normal(n, n);
                let q = g.qr().compute_Q();
                let scaled = Mat::from_fn(n, n, |i, j| q[(i, j)] * logspace(exponent, j));
                scaled * q.transpose()
            }
            Family::LowRank => {
                let rank = (n / 8).clamp(1, 64);
                let f = normal(n, rank);
                &f * f.transpose() * faer::Scale(1.0 / rank as f64) + identity(power(condition.max(3)))
            }
            Family::RowScale => {
                let exponent = 0.5 * f64::from(condition.max(2));
                let g = normal(n, n);
                let inner = &g * g.transpose() * faer::Scale(1.0 / n as f64) + identity(1e-3);
                let scaled = Mat::from_fn(n, n, |i, j| logspace(exponent, i) * inner[(i, j)] * logspace(exponent, j));
                scaled + identity(1e-6)
            }
            Family::Tridiagonal => {
                let diagonal: Vec<f64> = (0..n).map(|_| rng.random_range(1.5..2.5)).collect();
                let beside: Vec<f64> = (0..n).map(|_| rng.random_range(-0.25..0.25)).collect();
                Mat::from_fn(n, n, |i, j| match i.abs_diff(j) {
                    0 => diagonal[i],
                    1 => beside[i.min(j)],
                    _ => 0.0,
                })
            }
        };
        let entry = |i: usize, j: usize| (0.5 * (a[(i, j)] + a[(j, i)])) as f32;
        (0..n * n).map(|index| entry(index / n, index % n)).collect()
    }

    /// A batch of them, contiguous.
    pub fn batch(self, batch: usize, n: usize, condition: i32, seed: u64) -> Vec<f32> {
        (0..batch as u64)
            .flat_map(|matrix| self.matrix(n, condition, seed.wrapping_mul(0x9e37_79b9).wrapping_add(matrix)))
            .collect()
    }
}
