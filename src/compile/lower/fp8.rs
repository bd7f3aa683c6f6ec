//! FP8 beside halves and singles: the instructions that cards have from Hopper on, and for Ampere the same numbers by integer arithmetic.

use inkwell::IntPredicate;
use inkwell::values::{FloatValue, IntValue};

use super::Lowering;
use crate::compile::Error;
use crate::ptx::Arch;
use crate::tile::Scalar;

/// How a format of eight bits lies.
struct Format {
    /// In PTX.
    name: &'static str,
    /// Bits of the fraction.
    mantissa: u32,
    /// What is added to the exponent.
    bias: u32,
    /// The largest number.
    most: f32,
}

fn format(scalar: Scalar) -> Option<Format> {
    match scalar {
        Scalar::F8E4M3 => Some(Format { name: "e4m3", mantissa: 3, bias: 7, most: 448.0 }),
        Scalar::F8E5M2 => Some(Format { name: "e5m2", mantissa: 2, bias: 15, most: 57344.0 }),
        _ => None,
    }
}

impl<'c> Lowering<'_, 'c> {
    /// A byte of FP8 as a half, which holds every number of either format.
    pub(super) fn fp8_to_half(&self, scalar: Scalar, byte: IntValue<'c>) -> Result<FloatValue<'c>, Error> {
        let builder = &self.builder;
        let (i16_type, f16) = (self.context.i16_type(), self.context.f16_type());
        let Some(format) = format(scalar) else { return Err(Error::Llvm(format!("{scalar} is not FP8"))) };
        let word = builder.build_int_z_extend(byte, i16_type, "")?;
        if self.options.arch != Arch::Sm80 {
            let text = format!("cvt.rn.f16x2.{}x2 $0, $1;", format.name);
            let halves = self.instruction(&text, "=r,h", self.context.i32_type().into(), &[word.into()])?;
            let low = builder.build_int_truncate(halves.into_int_value(), i16_type, "")?;
            return Ok(builder.build_bit_cast(low, f16, "")?.into_float_value());
        }
        if scalar == Scalar::F8E5M2 {
            let bits = builder.build_left_shift(word, i16_type.const_int(8, false), "")?;
            return Ok(builder.build_bit_cast(bits, f16, "")?.into_float_value());
        }
        // The fields moved to a half's places are the number, subnormals too, but for the difference of the biases; all ones is NaN.
        let constant = |value: u64| i16_type.const_int(value, false);
        let size = builder.build_and(word, constant(0x7f), "")?;
        let moved = builder.build_left_shift(size, constant(7), "")?;
        let sign = builder.build_and(word, constant(0x80), "")?;
        let sign = builder.build_left_shift(sign, constant(8), "")?;
        let bits = builder.build_or(moved, sign, "")?;
        let small = builder.build_bit_cast(bits, f16, "")?.into_float_value();
        let number = builder.build_float_mul(small, f16.const_float(256.0), "")?;
        let is_nan = builder.build_int_compare(IntPredicate::EQ, size, constant(0x7f), "")?;
        let nan = builder.build_bit_cast(constant(0x7fff), f16, "")?;
        Ok(builder.build_select(is_nan, nan, number.into(), "")?.into_float_value())
    }

    /// A single as the nearest FP8, the even one of two; beyond the largest, the largest.
    pub(super) fn single_to_fp8(&self, scalar: Scalar, single: FloatValue<'c>) -> Result<IntValue<'c>, Error> {
        let builder = &self.builder;
        let (i8_type, i32_type, f32_type) = (self.context.i8_type(), self.context.i32_type(), self.context.f32_type());
        let Some(format) = format(scalar) else { return Err(Error::Llvm(format!("{scalar} is not FP8"))) };
        if self.options.arch != Arch::Sm80 {
            let text = format!("cvt.rn.satfinite.{}x2.f32 $0, $1, $2;", format.name);
            let zero = f32_type.const_zero();
            let word = self.context.i16_type().into();
            let pair = self.instruction(&text, "=h,f,f", word, &[zero.into(), single.into()])?;
            return Ok(builder.build_int_truncate(pair.into_int_value(), i8_type, "")?);
        }
        let constant = |value: u32| i32_type.const_int(value.into(), false);
        let whole = builder.build_bit_cast(single, i32_type, "")?.into_int_value();
        let size = builder.build_and(whole, constant(0x7fff_ffff), "")?;
        // Sizes are in order as integers; NaN is the largest.
        let is_nan = builder.build_int_compare(IntPredicate::UGT, size, constant(f32::INFINITY.to_bits()), "")?;
        let most = constant(format.most.to_bits());
        let is_more = builder.build_int_compare(IntPredicate::UGT, size, most, "")?;
        let size = builder.build_select(is_more, most, size, "")?.into_int_value();
        // Half of the last place that stays, less one where it is even, is carried into it.
        let cut = 23 - format.mantissa;
        let last = builder.build_right_shift(size, constant(cut), false, "")?;
        let odd = builder.build_and(last, constant(1), "")?;
        let half = builder.build_int_add(size, constant((1 << (cut - 1)) - 1), "")?;
        let carried = builder.build_int_add(half, odd, "")?;
        let kept = builder.build_right_shift(carried, constant(cut), false, "")?;
        let ordinary = builder.build_int_sub(kept, constant((127 - format.bias) << format.mantissa), "")?;
        // A subnormal is so many times the least: added to the number whose last place that is, its low bits.
        let anchor = ((127 + 23 + 1) - format.bias - format.mantissa) << 23;
        let value = builder.build_bit_cast(size, f32_type, "")?.into_float_value();
        let base = builder.build_bit_cast(constant(anchor), f32_type, "")?.into_float_value();
        let sum = builder.build_float_add(value, base, "")?;
        let sum = builder.build_bit_cast(sum, i32_type, "")?.into_int_value();
        let subnormal = builder.build_int_sub(sum, constant(anchor), "")?;
        let least = constant((128 - format.bias) << 23);
        let is_small = builder.build_int_compare(IntPredicate::ULT, size, least, "")?;
        let number = builder.build_select(is_small, subnormal, ordinary, "")?.into_int_value();
        let number = builder.build_select(is_nan, constant(0x7f), number, "")?.into_int_value();
        let sign = builder.build_right_shift(whole, constant(24), false, "")?;
        let sign = builder.build_and(sign, constant(0x80), "")?;
        let bits = builder.build_or(number, sign, "")?;
        Ok(builder.build_int_truncate(bits, i8_type, "")?)
    }
}
