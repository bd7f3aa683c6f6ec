//! Operations on constants: the bits of a result from the bits of the operands, or `None` where they are not folded.

use crate::tile::{
    Binary, Cast, FloatCompare, IntCompare, OpKind, Scalar, Unary, float_bits, float_value, int_bits, int_value,
};

/// The result of an elementwise operation: `from` is the type of its last operand, `to` that of its result.
pub(super) fn evaluate(kind: &OpKind, from: Scalar, to: Scalar, operands: &[u64]) -> Option<u64> {
    match (kind, operands) {
        (OpKind::Binary(op), &[a, b]) if to.is_int() => int_binary(*op, to, a, b),
        (OpKind::Binary(op), &[a, b]) => float_binary(*op, to, a, b),
        (OpKind::Unary(op), &[a]) => unary(*op, to, a),
        (OpKind::CmpI(compare), &[a, b]) => Some(compare_ints(*compare, from, a, b).into()),
        (OpKind::CmpF(compare), &[a, b]) => {
            Some(compare_floats(*compare, float_value(from, a)?, float_value(from, b)?).into())
        }
        (OpKind::Select, &[condition, yes, no]) => Some(if condition != 0 { yes } else { no }),
        (OpKind::Cast(cast), &[a]) => convert(*cast, from, to, a),
        _ => None,
    }
}

fn int_binary(op: Binary, scalar: Scalar, a: u64, b: u64) -> Option<u64> {
    // An i1 is its own sign: true is −1 to signed operations.
    let signed = |bits| if scalar == Scalar::I1 { -((bits & 1) as i64) } else { int_value(scalar, bits) };
    let (x, y) = (signed(a), signed(b));
    let least = if scalar.bits() == 64 { i64::MIN } else { -(1 << (scalar.bits() - 1)) };
    let quotient = |f: fn(i64, i64) -> i64| (y != 0 && !(x == least && y == -1)).then(|| f(x, y));
    let unsigned = |f: fn(u64, u64) -> u64| (b != 0).then(|| f(a, b) as i64);
    let shift = |f: fn(i64, u64, i64) -> i64| (b < scalar.bits().into()).then(|| f(a as i64, b, x));
    let value = match op {
        Binary::AddI => x.wrapping_add(y),
        Binary::SubI => x.wrapping_sub(y),
        Binary::MulI => x.wrapping_mul(y),
        Binary::DivSI => quotient(|x, y| x / y)?,
        Binary::RemSI => quotient(|x, y| x % y)?,
        Binary::FloorDivSI => quotient(|x, y| x.div_euclid(y) - i64::from(y < 0 && x.rem_euclid(y) != 0))?,
        Binary::CeilDivSI => quotient(|x, y| x / y + i64::from(x % y != 0 && (x < 0) == (y < 0)))?,
        Binary::DivUI => unsigned(|a, b| a / b)?,
        Binary::CeilDivUI => unsigned(u64::div_ceil)?,
        Binary::RemUI => unsigned(|a, b| a % b)?,
        Binary::AndI => x & y,
        Binary::OrI => x | y,
        Binary::XOrI => x ^ y,
        Binary::ShlI => shift(|a, b, _| a << b)?,
        Binary::ShrUI => shift(|a, b, _| (a as u64 >> b) as i64)?,
        Binary::ShrSI => shift(|_, b, x| x >> b)?,
        Binary::MinSI => x.min(y),
        Binary::MaxSI => x.max(y),
        Binary::MinUI => a.min(b) as i64,
        Binary::MaxUI => a.max(b) as i64,
        Binary::MulhiUI => ((u128::from(a) * u128::from(b)) >> scalar.bits()) as i64,
        _ => return None,
    };
    Some(int_bits(scalar, value))
}

/// By way of doubles: their 53 bits are more than twice those of singles and two, so that rounding twice is rounding once.
fn float_binary(op: Binary, scalar: Scalar, a: u64, b: u64) -> Option<u64> {
    if scalar.bits() == 8 {
        return None;
    }
    let (x, y) = (float_value(scalar, a)?, float_value(scalar, b)?);
    if x.is_nan() || y.is_nan() {
        return None;
    }
    let value = match op {
        Binary::AddF => x + y,
        Binary::SubF => x - y,
        Binary::MulF => x * y,
        Binary::DivF | Binary::PreciseDivF if y != 0.0 => x / y,
        // Of two zeros either is right, so that bits are compared where they are equal.
        Binary::MaxNumF | Binary::MaximumF if x != y || a == b => x.max(y),
        Binary::MinNumF | Binary::MinimumF if x != y || a == b => x.min(y),
        _ => return None,
    };
    if value.is_nan() { None } else { float_bits(scalar, value) }
}

fn unary(op: Unary, scalar: Scalar, a: u64) -> Option<u64> {
    let sign = 1_u64 << (scalar.bits() - 1);
    match op {
        Unary::AbsF => Some(a & !sign),
        Unary::NegF => Some(a ^ sign),
        Unary::AbsI if scalar != Scalar::I1 => Some(int_bits(scalar, int_value(scalar, a).wrapping_abs())),
        _ => None,
    }
}

/// Whether a comparison of integers holds.
pub(super) fn compare_ints(compare: IntCompare, scalar: Scalar, a: u64, b: u64) -> bool {
    let signed = |bits| if scalar == Scalar::I1 { -((bits & 1) as i64) } else { int_value(scalar, bits) };
    let (x, y) = (signed(a), signed(b));
    match compare {
        IntCompare::Eq => a == b,
        IntCompare::Ne => a != b,
        IntCompare::Slt => x < y,
        IntCompare::Sle => x <= y,
        IntCompare::Sgt => x > y,
        IntCompare::Sge => x >= y,
        IntCompare::Ult => a < b,
        IntCompare::Ule => a <= b,
        IntCompare::Ugt => a > b,
        IntCompare::Uge => a >= b,
    }
}

fn compare_floats(compare: FloatCompare, x: f64, y: f64) -> bool {
    let unordered = x.is_nan() || y.is_nan();
    match compare {
        FloatCompare::False => false,
        FloatCompare::True => true,
        FloatCompare::Oeq => x == y,
        FloatCompare::Ogt => x > y,
        FloatCompare::Oge => x >= y,
        FloatCompare::Olt => x < y,
        FloatCompare::Ole => x <= y,
        FloatCompare::One => !unordered && x != y,
        FloatCompare::Ord => !unordered,
        FloatCompare::Ueq => unordered || x == y,
        FloatCompare::Ugt => unordered || x > y,
        FloatCompare::Uge => unordered || x >= y,
        FloatCompare::Ult => unordered || x < y,
        FloatCompare::Ule => unordered || x <= y,
        FloatCompare::Une => unordered || x != y,
        FloatCompare::Uno => unordered,
    }
}

/// Conversions. FP8 is left alone, for what is beyond its largest value depends on the conversion.
fn convert(cast: Cast, from: Scalar, to: Scalar, a: u64) -> Option<u64> {
    let value = int_value(from, a);
    match cast {
        Cast::ExtUI => Some(a),
        Cast::ExtSI if from == Scalar::I1 => Some(int_bits(to, -value)),
        Cast::ExtSI | Cast::TruncI => Some(int_bits(to, value)),
        Cast::ArithBitcast | Cast::Bitcast if from.bits() == to.bits() => Some(a),
        Cast::SIToFP if from != Scalar::I1 => int_to_float(value.into(), to),
        Cast::UIToFP => int_to_float(a.into(), to),
        Cast::ExtF | Cast::TruncF if from.bits() > 8 && to.bits() > 8 => {
            let value = float_value(from, a)?;
            if value.is_nan() { None } else { float_bits(to, value) }
        }
        Cast::FPToSI if to != Scalar::I1 && from.bits() > 8 => {
            let value = float_value(from, a)?.trunc();
            let limit = 2_f64.powi(to.bits() as i32 - 1);
            (-limit <= value && value < limit).then(|| int_bits(to, value as i64))
        }
        Cast::FPToUI if from.bits() > 8 => {
            let value = float_value(from, a)?.trunc();
            (0.0 <= value && value < 2_f64.powi(to.bits() as i32)).then_some(value as u64)
        }
        _ => None,
    }
}

fn int_to_float(value: i128, to: Scalar) -> Option<u64> {
    match to {
        Scalar::F32 => Some((value as f32).to_bits().into()),
        Scalar::F64 => Some((value as f64).to_bits()),
        // Doubles hold it exactly: rounding once.
        Scalar::F16 | Scalar::Bf16 if value.unsigned_abs() < 1 << 53 => float_bits(to, value as f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(op: Binary, x: i64, y: i64) -> Option<i64> {
        let bits = int_binary(op, Scalar::I32, int_bits(Scalar::I32, x), int_bits(Scalar::I32, y));
        bits.map(|bits| int_value(Scalar::I32, bits))
    }

    #[test]
    fn integers_wrap_and_divisions_that_have_no_result_stay() {
        assert_eq!(ints(Binary::AddI, i32::MAX.into(), 1), Some(i32::MIN.into()));
        assert_eq!(ints(Binary::MulI, 1 << 20, 1 << 20), Some(0));
        assert_eq!(ints(Binary::DivSI, -7, 2), Some(-3));
        assert_eq!(ints(Binary::RemSI, -7, 2), Some(-1));
        assert_eq!(ints(Binary::FloorDivSI, -7, 2), Some(-4));
        assert_eq!(ints(Binary::FloorDivSI, 7, -2), Some(-4));
        assert_eq!(ints(Binary::FloorDivSI, -8, -2), Some(4));
        assert_eq!(ints(Binary::CeilDivSI, -7, 2), Some(-3));
        assert_eq!(ints(Binary::CeilDivSI, 7, 2), Some(4));
        assert_eq!(ints(Binary::DivSI, 7, 0), None);
        assert_eq!(ints(Binary::DivSI, i32::MIN.into(), -1), None);
        assert_eq!(ints(Binary::ShlI, 1, 32), None);
        assert_eq!(ints(Binary::ShrUI, -1, 28), Some(15));
        assert_eq!(ints(Binary::ShrSI, -16, 2), Some(-4));
        assert_eq!(ints(Binary::MulhiUI, -1, 2), Some(1));
        assert_eq!(ints(Binary::MinUI, -1, 2), Some(2));
    }

    #[test]
    fn floats_are_rounded_once_and_nan_is_left() {
        let single = |value: f32| u64::from(value.to_bits());
        let add = |x, y| float_binary(Binary::AddF, Scalar::F32, single(x), single(y));
        assert_eq!(add(1.0, f32::EPSILON / 2.0), Some(single(1.0)));
        assert_eq!(add(f32::INFINITY, f32::NEG_INFINITY), None);
        assert_eq!(add(-0.0, -0.0), Some(single(-0.0)));
        assert_eq!(float_binary(Binary::MaxNumF, Scalar::F32, single(0.0), single(-0.0)), None);
        assert_eq!(convert(Cast::SIToFP, Scalar::I32, Scalar::F32, 16_777_217), Some(single(16_777_216.0)));
        assert_eq!(convert(Cast::FPToSI, Scalar::F32, Scalar::I32, single(3e9)), None);
        assert_eq!(convert(Cast::FPToSI, Scalar::F32, Scalar::I32, single(-2.7)), Some(0xffff_fffe));
    }

    #[test]
    fn truth_is_minus_one_to_signed_operations() {
        assert!(compare_ints(IntCompare::Slt, Scalar::I1, 1, 0));
        assert_eq!(convert(Cast::ExtSI, Scalar::I1, Scalar::I32, 1), Some(0xffff_ffff));
        assert_eq!(convert(Cast::ExtUI, Scalar::I1, Scalar::I32, 1), Some(1));
    }
}
