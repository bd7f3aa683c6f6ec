//! What the solve means, in doubles and by the definition: slow, and right.

use super::{CHUNK, Error, SUB_CHUNK, Shape};

/// The arrays of a solve on the host, in the layouts of the device's; halves and bfloats widened.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// Queries \[tokens, H, K\].
    pub q: &'a [f32],
    /// Keys \[tokens, H, K\].
    pub k: &'a [f32],
    /// Gates \[tokens, HV, K\]: cumulative from each chunk's start, log₂.
    pub g: &'a [f32],
    /// β \[tokens, HV\].
    pub beta: &'a [f32],
}

/// What [`reference()`] gives.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Aqk \[tokens, HV, 64\]: on and below the diagonal of each chunk, zero elsewhere. (The kernel writes the blocks of 16 below
    /// the diagonal ones only.)
    pub aqk: Vec<f64>,
    /// (I + A)⁻¹ \[tokens, HV, 64\] of each chunk; zero above the diagonal.
    pub akk: Vec<f64>,
    /// The diagonal blocks of A \[tokens, HV, 16\]: strictly lower.
    pub diagonal: Vec<f64>,
    /// The inverses of I + the diagonal blocks \[tokens, HV, 16\].
    pub diagonal_inverses: Vec<f64>,
}

/// Makes Aqk, A and (I + A)⁻¹ of each chunk by their definition (the [module](super) has it), the inverse by forward substitution.
///
/// # Errors
/// When the shape breaks a rule, or a slice does not have the shape's length.
pub fn reference(shape: &Shape, scale: f32, host: &Host) -> Result<Reference, Error> {
    shape.check()?;
    for (name, found, needed) in [
        ("q", host.q.len(), shape.elements_qk()),
        ("k", host.k.len(), shape.elements_qk()),
        ("g", host.g.len(), shape.elements_g()),
        ("beta", host.beta.len(), shape.elements_beta()),
    ] {
        if found != needed {
            return Err(Error::Length { name, found, needed });
        }
    }
    let mut out = Reference {
        aqk: vec![0.0; shape.elements_out()],
        akk: vec![0.0; shape.elements_out()],
        diagonal: vec![0.0; shape.elements_diagonal()],
        diagonal_inverses: vec![0.0; shape.elements_diagonal()],
    };
    let spans = shape.spans();
    for (sequence, chunk) in shape.chunks() {
        let (first, tokens) = spans[sequence];
        let size = CHUNK.min(tokens - chunk * CHUNK);
        for head in 0..shape.value_heads {
            solve_chunk(shape, f64::from(scale), host, first + chunk * CHUNK, size, head, &mut out);
        }
    }
    Ok(out)
}

/// The `size` tokens from `start` on, for one value head.
fn solve_chunk(shape: &Shape, scale: f64, host: &Host, start: usize, size: usize, head: usize, out: &mut Reference) {
    let (heads, value_heads, key_dim) = (shape.heads, shape.value_heads, shape.key_dim);
    let key_head = head / (value_heads / heads);
    let keys = |token: usize| &host.k[(token * heads + key_head) * key_dim..][..key_dim];
    let queries = |token: usize| &host.q[(token * heads + key_head) * key_dim..][..key_dim];
    let gates = |token: usize| &host.g[(token * value_heads + head) * key_dim..][..key_dim];
    let decayed = |row: &[f32], i: usize, j: usize| -> f64 {
        let decays = gates(i).iter().zip(gates(j)).map(|(&i, &j)| (f64::from(i) - f64::from(j)).exp2());
        row.iter().zip(keys(j)).zip(decays).map(|((&x, &k), decay)| f64::from(x) * f64::from(k) * decay).sum()
    };
    let mut a = vec![0.0; size * size];
    for row in 0..size {
        let i = start + row;
        let beta = f64::from(host.beta[i * value_heads + head]);
        for column in 0..=row {
            let j = start + column;
            out.aqk[(i * value_heads + head) * CHUNK + column] = scale * decayed(queries(i), i, j);
            if column < row {
                a[row * size + column] = beta * decayed(keys(i), i, j);
            }
        }
    }
    let whole = inverse(&a, size, 0, size);
    for row in 0..size {
        let at = ((start + row) * value_heads + head) * CHUNK;
        out.akk[at..at + size].copy_from_slice(&whole[row * size..][..size]);
    }
    for block in (0..size).step_by(SUB_CHUNK) {
        let length = SUB_CHUNK.min(size - block);
        let inverse = inverse(&a, size, block, length);
        for row in 0..length {
            let at = ((start + block + row) * value_heads + head) * SUB_CHUNK;
            out.diagonal[at..at + length].copy_from_slice(&a[(block + row) * size + block..][..length]);
            out.diagonal_inverses[at..at + length].copy_from_slice(&inverse[row * length..][..length]);
        }
    }
}

/// (I + A)⁻¹ of the `length` rows and columns from `first` on of A, whose rows are `pitch` apart: row by row, X = I − A·X.
fn inverse(a: &[f64], pitch: usize, first: usize, length: usize) -> Vec<f64> {
    let mut x = vec![0.0; length * length];
    for row in 0..length {
        for column in 0..=row {
            let known: f64 = (column..row).map(|u| a[(first + row) * pitch + first + u] * x[u * length + column]).sum();
            x[row * length + column] = f64::from(u8::from(row == column)) - known;
        }
    }
    x
}
