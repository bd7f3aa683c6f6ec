//! Products of tiles, with the accumulation of the hardware.
//!
//! A tensor core multiplies exactly, puts the products of a chunk and the accumulator on one grid, whose finest bit lies 25
//! places under the largest exponent among them, cuts what is below it, adds without loss, and rounds once: towards zero to
//! an `f32`, to nearest to an `f16`. (fp8 in `wgmma` has 13 places and 13 bits of fraction.) An exponent is that of the product's operands as their formats hold them, so a product
//! is from 0 to 4 times its power; zeros have none; what rounds to zero is +0. The widths and chunks were found by a search
//! over models against an H200 (`tests/fidelity`); `docs/emulator.md` has the table.

use super::Element;

/// Bits of the grid under the largest exponent.
const GRID: i32 = 25;
/// The same for fp8 in `wgmma`, whose results have no more bits than that either.
const SHORT_GRID: i32 = 13;
/// The exponent of a zero: under all others, and far from overflowing.
const NO_EXPONENT: i32 = -4096;

/// How an instruction accumulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::emulate) struct Model {
    /// Bits of the grid under the largest exponent.
    bits: i32,
    /// Products summed at once.
    chunk: usize,
    /// The first two of every four come first: fp8 unpacked to pairs of halves.
    pairs: bool,
    /// The accumulator is added at the end, to nearest, and not on the grid.
    last: bool,
    /// Results are halves, rounded to nearest.
    half: bool,
    /// Singles keep 13 bits of their fraction.
    short: bool,
}

impl Model {
    /// Of `mma.sync` of depth `k` on Hopper.
    pub fn of_warp(element: Element, k: usize, half: bool) -> Self {
        match element {
            // fp8 is unpacked and goes through the units for halves, half of k at a time.
            Element::E4m3 | Element::E5m2 => {
                let bits = if half { 22 } else { GRID };
                Self { bits, chunk: k / 2, pairs: true, last: true, half, short: false }
            }
            _ => Self::whole(k, half),
        }
    }

    /// Of `wgmma` of depth `k`.
    pub fn of_group(element: Element, k: usize, half: bool) -> Self {
        match element {
            Element::E4m3 | Element::E5m2 => Self { bits: SHORT_GRID, short: !half, ..Self::whole(k, half) },
            _ => Self::whole(k, half),
        }
    }

    /// Of `tcgen05.mma` of depth `k`: taken to be as Hopper's wide formats, since no such card was measured.
    pub fn of_blackwell(k: usize, half: bool) -> Self {
        Self::whole(k, half)
    }

    fn whole(k: usize, half: bool) -> Self {
        Self { bits: GRID, chunk: k, pairs: false, last: false, half, short: false }
    }
}

/// A row of significands, signed, and of exponents.
#[derive(Default)]
struct Split {
    significands: Vec<i32>,
    exponents: Vec<i32>,
    /// Whether something is infinite or not a number.
    special: bool,
}

impl Split {
    /// Splits values whose format has `bits` bits of fraction and `least` as its smallest exponent. `order` gives the place of
    /// each value.
    fn new(values: &[f32], (bits, least): (i32, i32), order: impl Fn(usize) -> usize) -> Self {
        let mut split =
            Self { significands: vec![0; values.len()], exponents: vec![NO_EXPONENT; values.len()], special: false };
        for (index, &value) in values.iter().enumerate() {
            split.special |= !value.is_finite();
            let (significand, exponent) = split_f32(value, bits, least);
            let place = order(index);
            split.significands[place] = significand;
            split.exponents[place] = exponent;
        }
        split
    }
}

/// A finite value as a signed significand with `bits` bits of fraction, and its exponent, at least `least`.
#[inline(always)]
fn split_f32(value: f32, bits: i32, least: i32) -> (i32, i32) {
    let word = value.to_bits();
    let magnitude = word & 0x7fff_ffff;
    if magnitude == 0 || magnitude >= 0x7f80_0000 {
        return (0, NO_EXPONENT);
    }
    let field = (magnitude >> 23) as i32;
    let exponent = field.max(1) - 127;
    let fraction = (magnitude & 0x7f_ffff) | if field > 0 { 0x80_0000 } else { 0 };
    let held = exponent.max(least);
    let significand = (fraction >> (23 - bits + held - exponent).min(31)) as i32;
    (if word >> 31 == 1 { -significand } else { significand }, held)
}

/// Bits of fraction and the smallest exponent of a format.
fn format(element: Element) -> (i32, i32) {
    match element {
        Element::Tf32 => (10, -126),
        Element::Bf16 => (7, -126),
        Element::F16 => (10, -14),
        Element::E4m3 => (3, -6),
        Element::E5m2 => (2, -14),
        Element::S8 | Element::U8 | Element::F64 => (23, -126),
    }
}

/// s · 2^`grid`, towards zero.
#[inline(always)]
fn to_f32(sum: i64, grid: i32) -> f32 {
    let magnitude = sum.unsigned_abs();
    if magnitude == 0 {
        return 0.0;
    }
    let leading = grid + 63 - magnitude.leading_zeros() as i32;
    if leading > 127 {
        return if sum < 0 { f32::NEG_INFINITY } else { f32::INFINITY };
    }
    let exponent = leading.max(-126);
    let shift = exponent - 23 - grid;
    let kept =
        if shift <= 0 { (magnitude << -shift) as u32 } else { magnitude.checked_shr(shift as u32).unwrap_or(0) as u32 };
    // A hidden bit carries into the field; without one the number is subnormal and the field is zero.
    let bits = (((exponent + 126) as u32) << 23) + kept;
    let sign = if sum < 0 && bits != 0 { 0x8000_0000 } else { 0 };
    f32::from_bits(bits | sign)
}

/// s · 2^`grid` as the value of a half, to nearest.
fn to_half(sum: i64, grid: i32) -> f32 {
    // At most 53 bits are in use, and a half's range is far inside a double's: both steps are exact but the last.
    let value = sum as f64 * 2.0_f64.powi(grid.max(-1000));
    let half = crate::emulate::alu::half_from_f64(value).to_f32();
    if half == 0.0 { 0.0 } else { half }
}

/// c ← c + a·bᵀ: `a` is m × k, `b` n × k, `c` m × n, all row-major, in formats whose values are those of `f32`.
pub(in crate::emulate) fn multiply(
    model: Model,
    k: usize,
    (a, of_a): (&[f32], Element),
    (b, of_b): (&[f32], Element),
    c: &mut [f32],
) {
    let n = b.len() / k;
    // Along k in the order of summation; b is turned round, so that the innermost loop runs along its columns.
    let position = |index: usize| {
        if !model.pairs {
            return index;
        }
        let half = index % 4 / 2;
        index / 4 * 2 + index % 2 + half * (k / 2)
    };
    let (fraction_a, fraction_b) = (format(of_a), format(of_b));
    let split_a = Split::new(a, fraction_a, |index| index / k * k + position(index % k));
    let split_b = Split::new(b, fraction_b, |index| position(index % k) * n + index / k);
    let special = split_a.special || split_b.special || c.iter().any(|value| !value.is_finite());
    let left = model.bits - fraction_a.0 - fraction_b.0;
    let mut row = Row { sums: vec![0; n], tops: vec![0; n], start: vec![0.0; n] };
    for (index, c) in c.chunks_exact_mut(n).enumerate() {
        let from = index * k;
        let before = if special { c.to_vec() } else { Vec::new() };
        if model.last {
            row.start.fill(0.0);
        } else {
            row.start.copy_from_slice(c);
        }
        for chunk in (0..k).step_by(model.chunk) {
            let along = from + chunk..from + chunk + model.chunk;
            let terms = Terms {
                significands: &split_a.significands[along.clone()],
                exponents: &split_a.exponents[along],
                across_significands: &split_b.significands[chunk * n..(chunk + model.chunk) * n],
                across_exponents: &split_b.exponents[chunk * n..(chunk + model.chunk) * n],
                left,
            };
            // A chunk of halves may overflow; the next ones then add to an infinity.
            let infinite = if model.last && model.half { row.start.clone() } else { Vec::new() };
            sum_chunk(&terms, &mut row, model);
            for (sum, before) in row.start.iter_mut().zip(infinite) {
                if !before.is_finite() {
                    *sum = before;
                }
            }
        }
        for (column, (c, &sum)) in c.iter_mut().zip(&row.start).enumerate() {
            *c = if model.last { crate::emulate::alu::canonical(sum + *c) } else { sum };
            if model.last && model.half {
                *c = crate::emulate::alu::half_from_f32(*c).to_f32();
            }
            if special {
                let products = a[from..from + k].iter().zip(&b[column * k..(column + 1) * k]);
                let total: f64 =
                    products.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>() + f64::from(before[column]);
                if !total.is_finite() {
                    *c = if total.is_nan() { f32::from_bits(0x7fff_ffff) } else { total as f32 };
                }
            }
        }
    }
}

/// The terms of a chunk for one row of A: its elements along k, and B's by k and then column.
struct Terms<'a> {
    significands: &'a [i32],
    exponents: &'a [i32],
    across_significands: &'a [i32],
    across_exponents: &'a [i32],
    /// Places by which a product of the largest exponent is above the grid.
    left: i32,
}

/// A row of C while it is summed.
struct Row {
    sums: Vec<i64>,
    tops: Vec<i32>,
    /// The accumulators, before and after.
    start: Vec<f32>,
}

/// Adds a chunk to a row of accumulators.
fn sum_chunk(terms: &Terms, row: &mut Row, model: Model) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn wide(terms: &Terms, row: &mut Row, model: Model) {
            sum_chunk_plain(terms, row, model);
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature.
            return unsafe { wide(terms, row, model) };
        }
    }
    sum_chunk_plain(terms, row, model);
}

#[inline(always)]
fn sum_chunk_plain(terms: &Terms, row: &mut Row, model: Model) {
    let n = row.start.len();
    let (fraction, least) = if model.half { (10, -14) } else { (23, -126) };
    for (top, &c) in row.tops.iter_mut().zip(&row.start) {
        *top = split_f32(c, fraction, least).1;
    }
    for (&exponent, across) in terms.exponents.iter().zip(terms.across_exponents.chunks_exact(n)) {
        for (top, &other) in row.tops.iter_mut().zip(across) {
            *top = (*top).max(exponent + other);
        }
    }
    for ((sum, &top), &c) in row.sums.iter_mut().zip(&row.tops).zip(&row.start) {
        let (significand, exponent) = split_f32(c, fraction, least);
        let left = model.bits - fraction;
        let placed = if left >= 0 {
            (significand.unsigned_abs() << left).checked_shr((top - exponent) as u32).unwrap_or(0)
        } else {
            significand.unsigned_abs().checked_shr((top - exponent - left) as u32).unwrap_or(0)
        };
        *sum = if significand < 0 { -i64::from(placed) } else { i64::from(placed) };
    }
    let across = terms.across_significands.chunks_exact(n).zip(terms.across_exponents.chunks_exact(n));
    for ((&significand, &exponent), (significands, exponents)) in
        terms.significands.iter().zip(terms.exponents).zip(across)
    {
        for (((sum, &top), &other), &other_exponent) in
            row.sums.iter_mut().zip(&row.tops).zip(significands).zip(exponents)
        {
            // Zeros have exponents far below, and shift out.
            let product = significand * other;
            let sign = product >> 31;
            let placed = (product.unsigned_abs() << terms.left) >> (top - exponent - other_exponent).clamp(0, 31);
            *sum += i64::from((placed as i32 ^ sign) - sign);
        }
    }
    for ((c, &sum), &top) in row.start.iter_mut().zip(&row.sums).zip(&row.tops) {
        let grid = top - model.bits;
        *c = if model.half { to_half(sum, grid) } else { to_f32(sum, grid) };
        if model.short {
            let kept = f32::from_bits(c.to_bits() & !0x3ff);
            *c = if kept == 0.0 { 0.0 } else { kept };
        }
    }
}

/// As [`multiply`], each row of `a` and of `b` with a scale: a term of the sum has the scales' exponents too. What the
/// hardware does here is not measured; the sum is exact, and rounded as the other sums are.
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
            let nearest = total as f32;
            *c = if total.is_nan() {
                f32::from_bits(0x7fff_ffff)
            } else if f64::from(nearest).abs() > total.abs() && nearest.is_finite() {
                f32::from_bits(nearest.to_bits() - 1)
            } else {
                nearest
            };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn one(model: Model, element: Element, a: &[f32], b: &[f32], c: f32) -> f32 {
        let mut out = [c];
        multiply(model, a.len(), (a, element), (b, element), &mut out);
        out[0]
    }

    #[test]
    fn small_terms_fall_off_the_grid() {
        let model = Model::of_warp(Element::Tf32, 8, false);
        let mut a = [0.0; 8];
        let b = [1.0; 8];
        a[0] = 1.0;
        // 2⁻²⁵ is the grid's last bit beside 1, but an f32 near 1 ends at 2⁻²³, towards zero.
        a[1] = 2.0_f32.powi(-25);
        assert_eq!(one(model, Element::Tf32, &a, &b, 0.0), 1.0);
        a[2..].fill(2.0_f32.powi(-25));
        assert_eq!(one(model, Element::Tf32, &a, &b, 0.0), 1.0 + 2.0_f32.powi(-23));
        // One bit further down everything is cut.
        a[1..].fill(2.0_f32.powi(-26));
        assert_eq!(one(model, Element::Tf32, &a, &b, 0.0), 1.0);
        // Towards zero, not to nearest: −(1 + 3·2⁻²⁵).
        a = [-1.0, -(2.0_f32.powi(-25)), -(2.0_f32.powi(-25)), -(2.0_f32.powi(-25)), 0.0, 0.0, 0.0, 0.0];
        assert_eq!(one(model, Element::Tf32, &a, &b, 0.0), -1.0);
    }

    #[test]
    fn specials() {
        let model = Model::of_warp(Element::F16, 8, false);
        let mut a = [1.0; 8];
        let b = [1.0; 8];
        a[3] = f32::INFINITY;
        assert_eq!(one(model, Element::F16, &a, &b, 0.0), f32::INFINITY);
        assert_eq!(one(model, Element::F16, &a, &b, f32::NEG_INFINITY).to_bits(), 0x7fff_ffff);
        let mut zero = b;
        zero[3] = 0.0;
        assert_eq!(one(model, Element::F16, &a, &zero, 0.0).to_bits(), 0x7fff_ffff);
        // What rounds to zero, and an exact zero, are +0.
        assert_eq!(one(model, Element::F16, &[0.0; 8], &b, -0.0).to_bits(), 0);
    }

    #[test]
    fn halves_round_to_nearest() {
        let model = Model::of_warp(Element::F16, 8, true);
        let mut a = [0.0; 8];
        (a[0], a[1]) = (1.0, 3.0 * 2.0_f32.powi(-12));
        assert_eq!(one(model, Element::F16, &a, &[1.0; 8], 0.0), 1.0 + 2.0_f32.powi(-10));
    }

    #[test]
    fn exact_sums_are_exact() {
        for element in [Element::Tf32, Element::F16, Element::Bf16, Element::E4m3, Element::E5m2] {
            let k = 8 * element.per_word();
            let a: Vec<f32> = (0..k).map(|index| (index % 7) as f32 - 3.0).collect();
            let b: Vec<f32> = (0..k).map(|index| (index % 5) as f32 - 2.0).collect();
            let expected = a.iter().zip(&b).map(|(a, b)| a * b).sum::<f32>() + 10.5;
            for model in
                [Model::of_warp(element, k, false), Model::of_group(element, k, false), Model::of_blackwell(k, false)]
            {
                assert_eq!(one(model, element, &a, &b, 10.5), expected, "{element:?}");
            }
        }
    }
}
