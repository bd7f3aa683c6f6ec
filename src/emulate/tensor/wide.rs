//! The innermost loops of products, eight columns at a time by AVX2: what `dot` has in plain Rust, bit for bit.

use std::arch::x86_64::{
    __m256i, _CMP_LT_OQ, _CMP_NEQ_OQ, _mm_cvtsi32_si128, _mm256_abs_epi32, _mm256_add_epi32, _mm256_add_pd,
    _mm256_and_pd, _mm256_and_si256, _mm256_blendv_epi8, _mm256_castpd_si256, _mm256_castsi256_pd,
    _mm256_castsi256_si128, _mm256_cmp_pd, _mm256_cmpeq_epi32, _mm256_cmpgt_epi32, _mm256_cvtepi32_epi64,
    _mm256_cvtepi32_pd, _mm256_cvtpd_ps, _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_max_epi32,
    _mm256_min_epi32, _mm256_movemask_pd, _mm256_mul_pd, _mm256_mullo_epi32, _mm256_or_si256, _mm256_set_m128,
    _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_set1_pd, _mm256_setzero_pd, _mm256_setzero_si256, _mm256_sll_epi32,
    _mm256_slli_epi64, _mm256_srai_epi32, _mm256_srli_epi32, _mm256_srlv_epi32, _mm256_storeu_pd, _mm256_storeu_ps,
    _mm256_storeu_si256, _mm256_sub_epi32, _mm256_xor_si256,
};

use super::dot::{BLOCK, Chunk, Model, NO_EXPONENT, RUN, finish};

#[inline]
#[target_feature(enable = "avx2")]
fn load(from: &[i32; BLOCK]) -> __m256i {
    // SAFETY: the array has the 32 bytes that are read, of any alignment.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(to: &mut [i32; BLOCK], value: __m256i) {
    // SAFETY: the array has the 32 bytes that are written, of any alignment.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

/// Magnitudes of significands, signs as masks, and exponents of eight singles: `split_f32` of `dot`.
#[inline]
#[target_feature(enable = "avx2")]
fn split_bits(words: __m256i, (bits, least): (i32, i32)) -> (__m256i, __m256i, __m256i) {
    let ones = _mm256_set1_epi32;
    let magnitude = _mm256_and_si256(words, ones(0x7fff_ffff));
    let field = _mm256_srli_epi32(magnitude, 23);
    let exponent = _mm256_sub_epi32(_mm256_max_epi32(field, ones(1)), ones(127));
    let hidden = _mm256_and_si256(_mm256_cmpgt_epi32(field, ones(0)), ones(0x80_0000));
    let fraction = _mm256_or_si256(_mm256_and_si256(magnitude, ones(0x7f_ffff)), hidden);
    let held = _mm256_max_epi32(exponent, ones(least));
    let shift = _mm256_add_epi32(_mm256_sub_epi32(held, exponent), ones(23 - bits));
    let significand = _mm256_srlv_epi32(fraction, shift);
    let zero = _mm256_cmpeq_epi32(magnitude, ones(0));
    let nothing = _mm256_or_si256(zero, _mm256_cmpgt_epi32(magnitude, ones(0x7f7f_ffff)));
    let significand = _mm256_blendv_epi8(significand, ones(0), nothing);
    (significand, _mm256_srai_epi32(words, 31), _mm256_blendv_epi8(held, ones(NO_EXPONENT), nothing))
}

/// The value, negative where the mask is all ones.
#[inline]
#[target_feature(enable = "avx2")]
fn signed(magnitude: __m256i, sign: __m256i) -> __m256i {
    _mm256_sub_epi32(_mm256_xor_si256(magnitude, sign), sign)
}

/// Splits singles into significands and exponents.
#[inline]
#[target_feature(enable = "avx2")]
pub fn split(
    values: &[[f32; BLOCK]],
    format: (i32, i32),
    significands: &mut [[i32; BLOCK]],
    exponents: &mut [[i32; BLOCK]],
) {
    for ((values, significands), exponents) in values.iter().zip(significands).zip(exponents) {
        let (magnitude, sign, exponent) = split_bits(load(&values.map(|value| value.to_bits() as i32)), format);
        store(significands, signed(magnitude, sign));
        store(exponents, exponent);
    }
}

/// `sum_chunk` of `dot`.
#[inline]
#[target_feature(enable = "avx2")]
pub fn sum_chunk(model: Model, chunk: &Chunk, c: &mut [f32; BLOCK]) {
    let ones = _mm256_set1_epi32;
    let (fraction, least) = model.of_accumulator();
    let (start, start_sign, at) = split_bits(load(&c.map(|value| value.to_bits() as i32)), (fraction, least));
    let mut top = at;
    for (&exponent, across) in chunk.exponents.iter().zip(chunk.across_exponents) {
        top = _mm256_max_epi32(top, _mm256_add_epi32(ones(exponent), load(across)));
    }
    let (up, down) = ((model.bits - fraction).max(0), (fraction - model.bits).max(0));
    // A shift by 32 or more gives nothing, which is what is wanted.
    let shift = _mm256_add_epi32(_mm256_sub_epi32(top, at), ones(down));
    let start = _mm256_srlv_epi32(_mm256_sll_epi32(start, _mm_cvtsi32_si128(up)), shift);
    let start = signed(start, start_sign);
    let mut low = _mm256_cvtepi32_pd(_mm256_castsi256_si128(start));
    let mut high = _mm256_cvtepi32_pd(_mm256_extracti128_si256(start, 1));
    let left = _mm_cvtsi32_si128(chunk.left as i32);
    let runs = chunk.significands.chunks(RUN).zip(chunk.exponents.chunks(RUN));
    let across = chunk.across_significands.chunks(RUN).zip(chunk.across_exponents.chunks(RUN));
    for ((significands, exponents), (across_significands, across_exponents)) in runs.zip(across) {
        let mut part = _mm256_setzero_si256();
        let along = significands.iter().zip(exponents).zip(across_significands).zip(across_exponents);
        for (((&significand, &exponent), others), other_exponents) in along {
            let product = _mm256_mullo_epi32(ones(significand), load(others));
            let shift = _mm256_sub_epi32(_mm256_sub_epi32(top, ones(exponent)), load(other_exponents));
            let placed = _mm256_srlv_epi32(_mm256_sll_epi32(_mm256_abs_epi32(product), left), shift);
            part = _mm256_add_epi32(part, signed(placed, _mm256_srai_epi32(product, 31)));
        }
        low = _mm256_add_pd(low, _mm256_cvtepi32_pd(_mm256_castsi256_si128(part)));
        high = _mm256_add_pd(high, _mm256_cvtepi32_pd(_mm256_extracti128_si256(part, 1)));
    }
    let grid = _mm256_sub_epi32(top, ones(model.bits));
    let grid = _mm256_max_epi32(_mm256_min_epi32(grid, ones(1023)), ones(-1022));
    let field = _mm256_add_epi32(grid, ones(1023));
    let low_scale = _mm256_slli_epi64(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(field)), 52);
    let high_scale = _mm256_slli_epi64(_mm256_cvtepi32_epi64(_mm256_extracti128_si256(field, 1)), 52);
    let low = _mm256_mul_pd(low, _mm256_castsi256_pd(low_scale));
    let high = _mm256_mul_pd(high, _mm256_castsi256_pd(high_scale));
    // Subnormal singles, which are cut in other places, are rare.
    let mut subnormal = 0;
    for value in [low, high] {
        let magnitude = _mm256_and_pd(value, _mm256_castsi256_pd(_mm256_set1_epi64x(i64::MAX)));
        let small = _mm256_cmp_pd(magnitude, _mm256_set1_pd(f64::from(f32::MIN_POSITIVE)), _CMP_LT_OQ);
        let some = _mm256_cmp_pd(magnitude, _mm256_setzero_pd(), _CMP_NEQ_OQ);
        subnormal |= _mm256_movemask_pd(_mm256_and_pd(small, some));
    }
    if model.half || model.short || subnormal != 0 {
        let mut values = [0.0; BLOCK];
        // SAFETY: each half of the array has the 32 bytes that are written, of any alignment.
        unsafe {
            _mm256_storeu_pd(values.as_mut_ptr(), low);
            _mm256_storeu_pd(values[4..].as_mut_ptr(), high);
        }
        *c = values.map(|value| finish(model, value));
        return;
    }
    let mask = _mm256_set1_epi64x(!0x1fff_ffff);
    let [low, high] = [low, high]
        .map(|value| _mm256_cvtpd_ps(_mm256_castsi256_pd(_mm256_and_si256(_mm256_castpd_si256(value), mask))));
    // SAFETY: the array has the 32 bytes that are written, of any alignment.
    unsafe { _mm256_storeu_ps(c.as_mut_ptr(), _mm256_set_m128(high, low)) }
}
