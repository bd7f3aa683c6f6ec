//! Numbers in f64 with a bound on how far FP32 arithmetic that computes them may be, whatever the order of its sums.

use crate::matrices::Expected;

/// A rounding to nearest errs by 2⁻²⁴; twice that leaves room for the products of errors.
const ROUNDING: f64 = 1.0 / 8_388_608.0;
/// PTX's bounds, summed over what a kernel may take instead of a correct quotient or root: `sqrt.approx` 2⁻²³, `rsqrt.approx`
/// 2⁻²²·⁹, `div.full` 2 ulp (2⁻²²), and a product with the reciprocal, 2⁻²⁴. The largest sum, a quotient by such a
/// root, is under 2⁻²¹.
const APPROXIMATE: f64 = 1.0 / 2_097_152.0;

#[derive(Clone, Copy)]
pub struct Bounded {
    pub value: f64,
    pub error: f64,
}

impl Bounded {
    pub fn exactly(value: f32) -> Self {
        Self { value: value.into(), error: 0.0 }
    }

    /// `self` − Σ a·b.
    pub fn minus_products(self, terms: impl Iterator<Item = (Bounded, Bounded)>) -> Self {
        let (mut value, mut error) = (self.value, self.error);
        let (mut magnitude, mut roundings) = (self.value.abs(), 1.0);
        for (a, b) in terms {
            value -= a.value * b.value;
            error += a.value.abs() * b.error + a.error * b.value.abs() + a.error * b.error;
            magnitude += (a.value * b.value).abs();
            roundings += 1.0;
        }
        Self { value, error: error + roundings * ROUNDING * magnitude }
    }

    /// `self` / `other`.
    pub fn over(self, other: Bounded) -> Self {
        let value = self.value / other.value;
        let least = other.value.abs() - other.error;
        assert!(least > 0.0, "a divisor that may be zero");
        Self { value, error: (self.error + value.abs() * other.error) / least + APPROXIMATE * value.abs() }
    }

    /// √`self`.
    pub fn root(self) -> Self {
        let least = self.value - self.error;
        assert!(least > 0.0, "a pivot that may be zero");
        let value = self.value.sqrt();
        Self { value, error: self.error / (value + least.sqrt()) + APPROXIMATE * value }
    }
}

/// To be checked with tolerance 1: the bound takes the place of the magnitude.
impl From<Bounded> for Expected {
    fn from(Bounded { value, error }: Bounded) -> Self {
        Self { value, magnitude: error }
    }
}

/// The lower Cholesky factor of `a`, of which the lower half is read; row-major, zeros above the diagonal.
pub fn factor(n: usize, a: impl Fn(usize, usize) -> f32) -> Vec<Bounded> {
    let mut l = vec![Bounded::exactly(0.0); n * n];
    for j in 0..n {
        for i in j..n {
            let rest = Bounded::exactly(a(i, j)).minus_products((0..j).map(|p| (l[i * n + p], l[j * n + p])));
            l[i * n + j] = if i == j { rest.root() } else { rest.over(l[j * n + j]) };
        }
    }
    l
}

/// The inverse of a lower triangle; row-major, zeros above the diagonal.
pub fn inverse(n: usize, l: &[Bounded]) -> Vec<Bounded> {
    let mut x = vec![Bounded::exactly(0.0); n * n];
    for j in 0..n {
        for i in j..n {
            let one = Bounded::exactly(if i == j { 1.0 } else { 0.0 });
            let rest = one.minus_products((j..i).map(|p| (l[i * n + p], x[p * n + j])));
            x[i * n + j] = rest.over(l[i * n + i]);
        }
    }
    x
}

/// One row of X with X·Lᵀ = `row`, L a lower triangle.
pub fn solve_row(row: &[f32], l: &[Bounded]) -> Vec<Bounded> {
    let n = row.len();
    let mut x: Vec<Bounded> = Vec::with_capacity(n);
    for (j, &value) in row.iter().enumerate() {
        let rest = Bounded::exactly(value).minus_products((0..j).map(|p| (x[p], l[j * n + p])));
        x.push(rest.over(l[j * n + j]));
    }
    x
}
