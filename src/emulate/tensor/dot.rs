//! Products of tiles, with the accumulation of the hardware.

/// c ← c + a·bᵀ: `a` is m × k, `b` n × k, `c` m × n, all row-major.
pub(in crate::emulate) fn multiply(k: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    let n = b.len() / k;
    for (a, c) in a.chunks_exact(k).zip(c.chunks_exact_mut(n)) {
        for (b, c) in b.chunks_exact(k).zip(c) {
            let sum: f64 = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            let total = f64::from(*c) + sum;
            *c = if total.is_nan() { f32::from_bits(0x7fff_ffff) } else { total as f32 };
        }
    }
}

/// As [`multiply`] in integers of 32 bits, which wrap, or with `saturate` stop at the ends.
pub(in crate::emulate) fn multiply_integers(k: usize, a: &[i32], b: &[i32], c: &mut [i32], saturate: bool) {
    let n = b.len() / k;
    for (a, c) in a.chunks_exact(k).zip(c.chunks_exact_mut(n)) {
        for (b, c) in b.chunks_exact(k).zip(c) {
            let total = i64::from(*c) + a.iter().zip(b).map(|(&a, &b)| i64::from(a) * i64::from(b)).sum::<i64>();
            *c = if saturate { total.clamp(i32::MIN.into(), i32::MAX.into()) as i32 } else { total as i32 };
        }
    }
}

/// As [`multiply`] in doubles, fused, k after k.
pub(in crate::emulate) fn multiply_doubles(k: usize, a: &[f64], b: &[f64], c: &mut [f64]) {
    let n = b.len() / k;
    for (a, c) in a.chunks_exact(k).zip(c.chunks_exact_mut(n)) {
        for (b, c) in b.chunks_exact(k).zip(c) {
            *c = a.iter().zip(b).fold(*c, |sum, (&a, &b)| a.mul_add(b, sum));
        }
    }
}

/// As [`multiply`], each row of `a` and of `b` with a scale.
pub(in crate::emulate) fn multiply_scaled(
    k: usize,
    (a, scales_a): (&[f32], &[f32]),
    (b, scales_b): (&[f32], &[f32]),
    c: &mut [f32],
) {
    let n = b.len() / k;
    for ((a, scale_a), c) in a.chunks_exact(k).zip(scales_a).zip(c.chunks_exact_mut(n)) {
        for ((b, scale_b), c) in b.chunks_exact(k).zip(scales_b).zip(c) {
            let sum: f64 = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            let total = f64::from(*c) + sum * f64::from(*scale_a) * f64::from(*scale_b);
            *c = if total.is_nan() { f32::from_bits(0x7fff_ffff) } else { total as f32 };
        }
    }
}
