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
pub(super) const NO_EXPONENT: i32 = -4096;

/// How an instruction accumulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::emulate) struct Model {
    /// Bits of the grid under the largest exponent.
    pub(super) bits: i32,
    /// Products summed at once.
    chunk: usize,
    /// The first two of every four come first: fp8 unpacked to pairs of halves.
    pairs: bool,
    /// The accumulator is added at the end, to nearest, and not on the grid.
    last: bool,
    /// Results are halves, rounded to nearest.
    pub(super) half: bool,
    /// Singles keep 13 bits of their fraction.
    pub(super) short: bool,
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

    /// Bits of fraction and the smallest exponent of C.
    pub(super) fn of_accumulator(self) -> (i32, i32) {
        if self.half { format(Element::F16) } else { (23, -126) }
    }

    fn whole(k: usize, half: bool) -> Self {
        Self { bits: GRID, chunk: k, pairs: false, last: false, half, short: false }
    }
}

/// Columns of C that are computed at once.
pub(super) const BLOCK: usize = 8;
/// Products that are added in 32 bits: each is less than 2²⁷, and so is the accumulator.
pub(super) const RUN: usize = 8;

/// A finite value as a signed significand with `bits` bits of fraction, and its exponent, at least `least`. What is not
/// finite counts as nothing here.
#[inline(always)]
fn split_f32(value: f32, (bits, least): (i32, i32)) -> (i32, i32) {
    let word = value.to_bits();
    let magnitude = word & 0x7fff_ffff;
    let field = (magnitude >> 23) as i32;
    let exponent = field.max(1) - 127;
    let fraction = (magnitude & 0x7f_ffff) | if field > 0 { 0x80_0000 } else { 0 };
    let held = exponent.max(least);
    let significand = (fraction >> (23 - bits + held - exponent).min(31)) as i32;
    let nothing = magnitude == 0 || magnitude >= 0x7f80_0000;
    let signed = if word >> 31 == 1 { -significand } else { significand };
    if nothing { (0, NO_EXPONENT) } else { (signed, held) }
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

/// An `f64` as an `f32`, towards zero; +0 for what is under the smallest.
#[inline(always)]
fn towards_zero(value: f64) -> f32 {
    let bits = value.to_bits();
    // Down to −126 the lowest 29 bits are what an f32 has no room for; under that more of them.
    let field = (bits >> 52 & 0x7ff) as i32;
    let cut = (29 + (1023 - 126 - field).max(0)).min(53);
    // A hidden bit that is cut leaves nothing.
    let kept = if cut > 52 { 0 } else { bits >> cut << cut };
    f64::from_bits(kept) as f32
}

/// The value of a sum, exact as an `f64`, as an accumulator holds it.
pub(super) fn finish(model: Model, value: f64) -> f32 {
    let kept = match (model.half, model.short) {
        (true, _) => crate::emulate::alu::half_from_f64(value).to_f32(),
        (false, true) => f32::from_bits(towards_zero(value).to_bits() & !0x3ff),
        (false, false) => towards_zero(value),
    };
    if kept == 0.0 { 0.0 } else { kept }
}

/// The factors of a chunk: of a row of A along K, and of eight columns of B.
pub(super) struct Chunk<'a> {
    pub significands: &'a [i32],
    pub exponents: &'a [i32],
    pub across_significands: &'a [[i32; BLOCK]],
    pub across_exponents: &'a [[i32; BLOCK]],
    /// Places by which a product of the largest exponent is above the grid.
    pub left: u32,
}

/// Splits singles into significands and exponents.
fn split(
    values: &[[f32; BLOCK]],
    format: (i32, i32),
    significands: &mut [[i32; BLOCK]],
    exponents: &mut [[i32; BLOCK]],
) {
    let to = significands.as_flattened_mut().iter_mut().zip(exponents.as_flattened_mut());
    for (&value, (significand, exponent)) in values.as_flattened().iter().zip(to) {
        (*significand, *exponent) = split_f32(value, format);
    }
}

/// Adds a chunk of products to eight columns of a row of C.
fn sum_chunk(model: Model, chunk: &Chunk, c: &mut [f32; BLOCK]) {
    let (fraction, least) = model.of_accumulator();
    for (column, c) in c.iter_mut().enumerate() {
        let (start, at) = split_f32(*c, (fraction, least));
        let products = chunk.exponents.iter().zip(chunk.across_exponents).map(|(&a, b)| a + b[column]);
        let top = products.fold(at, i32::max);
        let place = |significand: i32, left: i32, exponent: i32| {
            let (up, down) = (left.max(0), (-left).max(0));
            let magnitude = u64::from(significand.unsigned_abs()) << up >> (top - exponent + down).min(63);
            if significand < 0 { -(magnitude as i64) } else { magnitude as i64 }
        };
        let mut sum = place(start, model.bits - fraction, at);
        let across = chunk.across_significands.iter().zip(chunk.across_exponents);
        for ((&a, &exponent), (b, other)) in chunk.significands.iter().zip(chunk.exponents).zip(across) {
            sum += place(a * b[column], chunk.left as i32, exponent + other[column]);
        }
        // At most 36 bits, and a grid from −302 up, or far below where there is nothing but zeros: exact.
        let grid = (top - model.bits).clamp(-1022, 1023);
        *c = finish(model, sum as f64 * f64::from_bits(((grid + 1023) as u64) << 52));
    }
}

/// c ← c + a·bᵀ: `a` is m × k, `b` n × k, `c` m × n, all row-major, in formats whose values are those of `f32`. `n` is a multiple
/// of eight, and so is m · k.
pub(in crate::emulate) fn multiply(model: Model, k: usize, a: (&[f32], Element), b: (&[f32], Element), c: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        use super::wide;
        #[target_feature(enable = "avx2")]
        fn with_avx2(model: Model, k: usize, a: Operand, b: Operand, c: &mut [f32]) {
            multiply_with(
                (model, k),
                (a, b, c),
                |values, format, significands, exponents| wide::split(values, format, significands, exponents),
                |model, chunk, c| wide::sum_chunk(model, chunk, c),
            );
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature.
            return unsafe { with_avx2(model, k, a, b, c) };
        }
    }
    multiply_with((model, k), (a, b, c), split, sum_chunk);
}

/// Values, row-major along K, and their format.
type Operand<'a> = (&'a [f32], Element);

/// [`multiply`] by the innermost loops that are given.
#[inline(always)]
fn multiply_with(
    (model, k): (Model, usize),
    ((a, of_a), (b, of_b), c): (Operand, Operand, &mut [f32]),
    split: impl Fn(&[[f32; BLOCK]], (i32, i32), &mut [[i32; BLOCK]], &mut [[i32; BLOCK]]),
    sum_chunk: impl Fn(Model, &Chunk, &mut [f32; BLOCK]),
) {
    let n = b.len() / k;
    // The place of each element along K in the order of summation.
    let place = |at: usize| if model.pairs { at / 4 * 2 + at % 2 + at % 4 / 2 * (k / 2) } else { at };
    let mut rows = vec![[0.0; BLOCK]; a.len() / BLOCK];
    for (values, to) in a.chunks_exact(k).zip(rows.as_flattened_mut().chunks_exact_mut(k)) {
        values.iter().enumerate().for_each(|(at, &value)| to[place(at)] = value);
    }
    // B by blocks of columns, each along K.
    let mut columns = vec![[0.0; BLOCK]; n / BLOCK * k];
    for (column, values) in b.chunks_exact(k).enumerate() {
        let (block, inside) = (column / BLOCK * k, column % BLOCK);
        values.iter().enumerate().for_each(|(at, &value)| columns[block + place(at)][inside] = value);
    }
    let [mut significands, mut exponents] = [(); 2].map(|()| vec![[0; BLOCK]; rows.len()]);
    split(&rows, format(of_a), &mut significands, &mut exponents);
    let (significands, exponents) = (significands.as_flattened(), exponents.as_flattened());
    let [mut across_significands, mut across_exponents] = [(); 2].map(|()| vec![[0; BLOCK]; columns.len()]);
    split(&columns, format(of_b), &mut across_significands, &mut across_exponents);
    let is_special = |values: &[f32]| values.iter().fold(false, |any, value| any | !value.is_finite());
    let special = is_special(a) | is_special(b) | is_special(c);
    let before = if special { c.to_vec() } else { Vec::new() };
    let left = (model.bits - format(of_a).0 - format(of_b).0) as u32;
    for (row, c) in c.chunks_exact_mut(n).enumerate() {
        for (block, c) in c.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
            let mut sums = if model.last { [0.0; BLOCK] } else { *c };
            for chunk in (0..k).step_by(model.chunk) {
                let along = row * k + chunk..row * k + chunk + model.chunk;
                let across = block * k + chunk..block * k + chunk + model.chunk;
                let terms = Chunk {
                    significands: &significands[along.clone()],
                    exponents: &exponents[along],
                    across_significands: &across_significands[across.clone()],
                    across_exponents: &across_exponents[across],
                    left,
                };
                let earlier = sums;
                sum_chunk(model, &terms, &mut sums);
                if model.last && model.half {
                    // A chunk of halves may overflow; the next ones then add to an infinity.
                    for (sum, earlier) in sums.iter_mut().zip(earlier).filter(|(_, earlier)| !earlier.is_finite()) {
                        *sum = earlier;
                    }
                }
            }
            if model.last {
                let half = |value: f32| crate::emulate::alu::half_from_f32(value).to_f32();
                for (c, sum) in c.iter_mut().zip(sums) {
                    let sum = crate::emulate::alu::canonical(sum + *c);
                    *c = if model.half { half(sum) } else { sum };
                }
            } else {
                *c = sums;
            }
        }
    }
    if special {
        for (at, c) in c.iter_mut().enumerate() {
            let (row, column) = (at / n, at % n);
            let products = a[row * k..(row + 1) * k].iter().zip(&b[column * k..(column + 1) * k]);
            let total = products.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>() + f64::from(before[at]);
            if !total.is_finite() {
                *c = if total.is_nan() { f32::from_bits(0x7fff_ffff) } else { total as f32 };
            }
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
        let mut out = [c; BLOCK];
        multiply(model, a.len(), (a, element), (&b.repeat(BLOCK), element), &mut out);
        assert!(out.iter().all(|value| value.to_bits() == out[0].to_bits()));
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

    /// Both innermost loops give the same bits, for all models and values of all exponents.
    #[test]
    fn loops_agree() {
        let mut state = 1_u64;
        let mut word = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        let k = 32;
        for (element, mask) in [
            (Element::Tf32, 0xffff_e000),
            (Element::Bf16, 0xffff_0000),
            (Element::F16, 0),
            (Element::E4m3, 0),
            (Element::E5m2, 0),
        ] {
            let models = [
                Model::of_warp(element, k, false),
                Model::of_warp(element, k, true),
                Model::of_group(element, k, false),
                Model::of_group(element, k, true),
            ];
            for (model, narrow) in models.into_iter().flat_map(|model| [(model, false), (model, true)]) {
                let mut value = |of: Element| match of {
                    // Any single.
                    Element::F64 => f32::from_bits(word()),
                    // Exponents close together or anywhere, subnormals, and a few that are not finite.
                    Element::Tf32 | Element::Bf16 if narrow => {
                        f32::from_bits(word() & mask & 0x83ff_ffff | 0x3c00_0000)
                    }
                    Element::Tf32 | Element::Bf16 => f32::from_bits(word() & mask),
                    _ => of.value(word() & if narrow { 0x3f3f_3f3f } else { u32::MAX }, 0),
                };
                let (a, b): (Vec<f32>, Vec<f32>) = (0..16 * k).map(|_| (value(element), value(element))).unzip();
                let c: Vec<f32> =
                    (0..256).map(|_| value(if model.half { Element::F16 } else { Element::F64 })).collect();
                let (mut plain, mut fast) = (c.clone(), c);
                multiply_with((model, k), ((&a, element), (&b, element), &mut plain), split, sum_chunk);
                multiply(model, k, (&a, element), (&b, element), &mut fast);
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&plain), bits(&fast), "{element:?} {model:?}");
            }
        }
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
