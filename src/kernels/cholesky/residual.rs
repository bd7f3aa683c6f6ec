//! How far a factor is from its matrix.

use rayon::prelude::*;

use super::{Error, Shape};

/// ε of FP32, as the rule counts it: 2⁻²³.
const EPSILON: f64 = f32::EPSILON as f64;

/// ‖L·Lᵀ − A‖₁ / (n·ε·‖A‖₁) of one contiguous matrix of order `n`, in f64; ‖·‖₁ is the largest sum of a column's
/// absolute values, ε is 2⁻²³, and A's upper triangle is taken from its lower one. All of L counts, so what stands
/// above its diagonal shows.
///
/// 0 for n = 0; NaN where A or L is not finite, or a slice has fewer than n² elements.
///
/// ```
/// use tilewright::kernels::cholesky::residual;
///
/// assert_eq!(residual(&[4.0, 2.0, 2.0, 10.0], &[2.0, 0.0, 1.0, 3.0], 2), 0.0);
/// assert!(residual(&[4.0, 2.0, 2.0, 10.0], &[2.0, 0.0, 1.0, 3.1], 2) > 1000.0);
/// ```
pub fn residual(a: &[f32], l: &[f32], n: usize) -> f64 {
    let Some(elements) = n.checked_mul(n) else { return f64::NAN };
    if a.len() < elements || l.len() < elements {
        return f64::NAN;
    }
    of_matrix(a, n, l, n, n)
}

/// The [`residual`] of every matrix of a batch, in order.
///
/// # Errors
/// When the shape is wrong, or a slice is shorter than the shape spans.
pub fn residuals(a: &[f32], l: &[f32], shape: &Shape) -> Result<Vec<f64>, Error> {
    shape.check()?;
    for (name, found, needed) in [("a", a.len(), shape.elements_a()?), ("l", l.len(), shape.elements_l()?)] {
        if found < needed {
            return Err(Error::Length { name, found, needed });
        }
    }
    if shape.n == 0 {
        return Ok(vec![0.0; shape.batch]);
    }
    let one = |index: usize| {
        of_matrix(&a[index * shape.stride_a..], shape.lda, &l[index * shape.stride_l..], shape.ldl, shape.n)
    };
    Ok((0..shape.batch).into_par_iter().map(one).collect())
}

fn of_matrix(a: &[f32], lda: usize, l: &[f32], ldl: usize, n: usize) -> f64 {
    let (mut norm, mut error) = (vec![0.0f64; n], vec![0.0f64; n]);
    for row in 0..n {
        let left = &l[row * ldl..][..n];
        for column in 0..=row {
            let right = &l[column * ldl..][..n];
            let product: f64 = left.iter().zip(right).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
            let value = f64::from(a[row * lda + column]);
            let difference = (product - value).abs();
            norm[column] += value.abs();
            error[column] += difference;
            if row != column {
                norm[row] += value.abs();
                error[row] += difference;
            }
        }
    }
    let (norm, error) = (largest(&norm), largest(&error));
    if error == 0.0 { 0.0 } else { error / (n as f64 * EPSILON * norm) }
}

/// The largest of `sums`, or NaN if one is.
fn largest(sums: &[f64]) -> f64 {
    sums.iter().fold(0.0, |most, &sum| if sum.is_nan() || sum > most { sum } else { most })
}
