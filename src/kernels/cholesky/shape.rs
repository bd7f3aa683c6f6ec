//! The shape of a batch, and what holds of it.

use super::Error;

/// The most elements that a buffer may span: byte offsets stay within `i64`.
const MAX_ELEMENTS: usize = (i64::MAX / 4) as usize;

/// A batch of square FP32 matrices, row-major. Strides and leading dimensions count elements.
///
/// Row `i` of matrix `b` of the input starts at element `b·stride_a + i·lda`; of the factor, at `b·stride_l + i·ldl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Matrices.
    pub batch: usize,
    /// Order of each.
    pub n: usize,
    /// From row to row of the input.
    pub lda: usize,
    /// From row to row of the factor.
    pub ldl: usize,
    /// From matrix to matrix of the input. 0 factors the same matrix again.
    pub stride_a: usize,
    /// From matrix to matrix of the factor.
    pub stride_l: usize,
}

impl Shape {
    /// `batch` matrices of order `n`, one after the other without gaps.
    ///
    /// ```
    /// use tilewright::kernels::cholesky::Shape;
    ///
    /// let shape = Shape::contiguous(3, 32);
    /// assert_eq!((shape.ldl, shape.stride_l, shape.elements_l()?), (32, 1024, 3072));
    /// # Ok::<(), tilewright::kernels::cholesky::Error>(())
    /// ```
    pub fn contiguous(batch: usize, n: usize) -> Self {
        Self::strided(batch, n, n, n.saturating_mul(n))
    }

    /// `batch` matrices of order `n` with the same leading dimension and stride for input and factor, as a factorisation
    /// in place has them.
    pub fn strided(batch: usize, n: usize, ld: usize, stride: usize) -> Self {
        Self { batch, n, lda: ld, ldl: ld, stride_a: stride, stride_l: stride }
    }

    /// Elements from the first to the last that the input spans.
    ///
    /// # Errors
    /// When the count overflows.
    pub fn elements_a(&self) -> Result<usize, Error> {
        self.span("stride_a", self.stride_a, "lda", self.lda)
    }

    /// Elements from the first to the last that the factor spans.
    ///
    /// # Errors
    /// When the count overflows.
    pub fn elements_l(&self) -> Result<usize, Error> {
        self.span("stride_l", self.stride_l, "ldl", self.ldl)
    }

    /// Checks all that must hold before a plan is made.
    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong = |field, value, rule: String| Err(Error::Shape { field, value, rule });
        for (field, value) in [("batch", self.batch), ("lda", self.lda), ("ldl", self.ldl)] {
            if i32::try_from(value).is_err() {
                return wrong(field, value, format!("it must be at most {}", i32::MAX));
            }
        }
        for (field, value) in [("stride_a", self.stride_a), ("stride_l", self.stride_l)] {
            if value > MAX_ELEMENTS {
                return wrong(field, value, format!("it must be at most {MAX_ELEMENTS}"));
            }
        }
        for (field, value) in [("lda", self.lda), ("ldl", self.ldl)] {
            if value < self.n {
                return wrong(field, value, format!("it must be at least n, which is {}", self.n));
            }
        }
        self.elements_a()?;
        self.elements_l()?;
        if self.factors_overlap() {
            let least = (self.n - 1) * self.ldl + self.n;
            let rule = format!(
                "the factors would overlap: it must be at least (n - 1)·ldl + n = {least}, or the matrices interleave \
                 with stride_l ≥ n = {} and ldl ≥ (batch - 1)·stride_l + n",
                self.n
            );
            return wrong("stride_l", self.stride_l, rule);
        }
        Ok(())
    }

    /// Checks that input and factor may be the same memory.
    pub(super) fn check_in_place(&self) -> Result<(), Error> {
        for (field, value, other, name) in
            [("lda", self.lda, self.ldl, "ldl"), ("stride_a", self.stride_a, self.stride_l, "stride_l")]
        {
            if value != other && (field == "lda" || self.batch > 1) {
                let rule = format!("in place it must be equal to {name}, which is {other}");
                return Err(Error::Shape { field, value, rule });
            }
        }
        Ok(())
    }

    /// True if there is nothing to factor.
    pub(super) fn is_empty(&self) -> bool {
        self.batch == 0 || self.n == 0
    }

    /// Whether two matrices of the factor share an element: neither does one end before the next starts, nor do the
    /// matrices lie beside each other within the rows.
    fn factors_overlap(&self) -> bool {
        if self.batch < 2 || self.n == 0 {
            return false;
        }
        let apart = self.stride_l >= (self.n - 1) * self.ldl + self.n;
        let beside = self.stride_l >= self.n && self.ldl >= (self.batch - 1) * self.stride_l + self.n;
        !apart && !beside
    }

    fn span(&self, stride_name: &'static str, stride: usize, ld_name: &'static str, ld: usize) -> Result<usize, Error> {
        if self.is_empty() {
            return Ok(0);
        }
        let wrong = |field, value| {
            let rule = format!(
                "with n = {} and batch = {} the matrices span more than {MAX_ELEMENTS} elements",
                self.n, self.batch
            );
            Error::Shape { field, value, rule }
        };
        let fits = |elements: &usize| *elements <= MAX_ELEMENTS;
        let matrix = (self.n - 1)
            .checked_mul(ld)
            .and_then(|elements| elements.checked_add(self.n))
            .filter(fits)
            .ok_or_else(|| wrong(ld_name, ld))?;
        (self.batch - 1)
            .checked_mul(stride)
            .and_then(|elements| elements.checked_add(matrix))
            .filter(fits)
            .ok_or_else(|| wrong(stride_name, stride))
    }
}
