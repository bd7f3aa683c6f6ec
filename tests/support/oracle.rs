//! The oracle and the rules: what a right factor is.
//!
//! Residuals are ‖A − L·Lᵀ‖₁ / (n·ε·‖A‖₁), ε = 2⁻²³, induced 1-norms, computed in f64.

use faer::Side;
use faer::linalg::solvers::Llt;
use tilewright::kernels::cholesky::residual;

/// The FP32 factor that LAPACK's unblocked algorithm gives, root and quotient correctly rounded: the stand-in for a vendor's
/// routine where there is none. Row-major, zeros above the diagonal.
pub fn reference_f32(a: &[f32], n: usize) -> Vec<f32> {
    let mut l = vec![0.0_f32; n * n];
    for j in 0..n {
        let mut pivot = a[j * n + j];
        for k in 0..j {
            pivot -= l[j * n + k] * l[j * n + k];
        }
        let root = pivot.sqrt();
        l[j * n + j] = root;
        for i in j + 1..n {
            let mut value = a[i * n + j];
            for k in 0..j {
                value -= l[i * n + k] * l[j * n + k];
            }
            l[i * n + j] = value / root;
        }
    }
    l
}

/// The f64 factor by faer, row-major; `None` where the matrix is not positive definite.
pub fn factor_f64(a: &[f32], n: usize) -> Option<Vec<f64>> {
    let matrix = faer::Mat::<f64>::from_fn(n, n, |i, j| f64::from(a[i.max(j) * n + i.min(j)]));
    let llt = Llt::new(matrix.as_ref(), Side::Lower).ok()?;
    let l = llt.L();
    Some((0..n * n).map(|index| if index % n <= index / n { l[(index / n, index % n)] } else { 0.0 }).collect())
}

/// The largest residual that a factor may have whose reference has `reference`.
///
/// The design's rules are 4·reference and 0.1. For small n both can be below what rounding costs, so each has a floor. With
/// u = ε/2, the error of one rounding:
///
/// - The reference may be lucky (at n = 1 it is often exact). Storing the exact factor in FP32 moves each l by up to u, hence
///   each l·l, and a column of A that its diagonal dominates, by up to 2u = ε: ε·‖A‖₁, or 1/n in these units, is what any FP32
///   factor may have. Worst of 200 000 matrices of n ≤ 48 where four references were less: 0.96·ε·‖A‖₁.
/// - Arithmetic adds to storing. At n = 2, l21·l11 is off by three roundings (of the reciprocal, of the product with it, of l11) and
///   the last diagonal entry by three (its update; its root, which counts twice): 3u·‖A‖₁. Larger n have more roundings,
///   of ever smaller parts of a column, most of which cancel; one more is allowed for them all: 4u·‖A‖₁ = 2·ε·‖A‖₁, or 2/n.
///   From n = 20 on 0.1 is larger and holds alone. Worst of 200 000 matrices: 1.43·ε·‖A‖₁, at n = 13.
pub fn largest_residual(n: usize, reference: f64) -> f64 {
    let epsilon = 1.0 / n as f64;
    f64::min(f64::max(4.0 * reference, epsilon), f64::max(0.1, 2.0 * epsilon))
}

/// The same for factors whose products the tensor cores have summed.
///
/// They cut addends and sums towards zero (docs/emulator.md) where FP32 rounds: of a sum of 64 products of one sign, each of the four steps of 16
/// cuts up to 17 addends at 2⁻²⁵ and the sum at 2⁻²³, 21·ε in all; on average a quarter of it. FP32's references do not show that
/// where their errors are as small as those of storing, as they are for matrices of low rank, where few products are not zero. So the
/// floor is 5·ε·‖A‖₁, or 5/n. The rule of 0.1 stands.
pub fn largest_residual_of_tensor_cores(n: usize, reference: f64) -> f64 {
    f64::max(largest_residual(n, reference), f64::min(0.1, 5.0 / n as f64))
}

/// What is wrong with a factor of `a`: something above the diagonal, a diagonal that is not positive, the residual, or the
/// distance from the f64 factor.
pub fn fault_of_factor(a: &[f32], l: &[f32], n: usize) -> Result<(), String> {
    fault_within(a, l, n, largest_residual)
}

/// The same with another rule for the residual: the largest for an order and the residual of the reference.
pub fn fault_within(a: &[f32], l: &[f32], n: usize, largest: fn(usize, f64) -> f64) -> Result<(), String> {
    for i in 0..n {
        let diagonal = l[i * n + i];
        if diagonal.is_nan() || diagonal <= 0.0 {
            return Err(format!("L({i}, {i}) = {diagonal}"));
        }
        if let Some(j) = (i + 1..n).find(|&j| l[i * n + j].to_bits() != 0) {
            return Err(format!("L({i}, {j}) = {} above the diagonal", l[i * n + j]));
        }
    }
    let (ours, reference) = (residual(a, l, n), residual(a, &reference_f32(a, n), n));
    let largest = largest(n, reference);
    if ours.is_nan() || ours > largest {
        return Err(format!("residual {ours}, reference {reference}, allowed {largest}"));
    }
    let Some(exact) = factor_f64(a, n) else { return Err("the f64 oracle finds the matrix indefinite".to_owned()) };
    // Forward errors grow with the condition number; a wrong algorithm is off by the size of the factor.
    let distance = l.iter().zip(&exact).map(|(&ours, &exact)| (f64::from(ours) - exact).abs()).fold(0.0, f64::max);
    let size = exact.iter().fold(0.0_f64, |size, value| size.max(value.abs()));
    if distance > 2e-2 * size {
        return Err(format!("{distance} from the f64 factor of size {size}"));
    }
    Ok(())
}

/// Checks a factor.
#[track_caller]
pub fn check_factor(a: &[f32], l: &[f32], n: usize, what: &str) {
    if let Err(fault) = fault_of_factor(a, l, n) {
        panic!("{what}: {fault}");
    }
}

/// The public problem's checks.
#[track_caller]
pub fn check_public(a: &[f32], l: &[f32], n: usize, what: &str) {
    assert!(l.iter().all(|value| value.is_finite()), "{what}: not finite");
    assert!((0..n).all(|i| l[i * n + i] > 0.0), "{what}: a diagonal entry is not positive");
    let above: f64 = (0..n).map(|j| (0..j).map(|i| f64::from(l[i * n + j].abs())).sum::<f64>()).fold(0.0, f64::max);
    let norm: f64 = (0..n).map(|j| (0..n).map(|i| f64::from(a[i * n + j].abs())).sum::<f64>()).fold(0.0, f64::max);
    assert!(above <= 8.0 * n as f64 * 2.0_f64.powi(-23) * norm, "{what}: {above} above the diagonal");
    let ours = residual(a, l, n);
    assert!(ours <= 20.0, "{what}: residual {ours}");
}
