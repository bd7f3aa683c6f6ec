//! The bits of numbers as the text has them.

use super::tree::Literal;
use crate::tile::{Scalar, float_bits};

/// An integer of 64 bits, signed.
pub(super) fn integer(negative: bool, text: &str) -> Option<i64> {
    let magnitude = magnitude(text)?;
    match negative {
        true if magnitude <= 1 << 63 => Some(magnitude.wrapping_neg() as i64),
        true => None,
        false => i64::try_from(magnitude).ok(),
    }
}

/// Decimal or hexadecimal digits.
fn magnitude(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The bits of a constant of `scalar`.
///
/// # Errors
/// What does not fit: a number of another kind, or one that is too large.
pub(super) fn bits(literal: Literal<'_>, scalar: Scalar) -> Result<u64, String> {
    let (negative, text) = match literal {
        Literal::Bool(value) if scalar == Scalar::I1 => return Ok(value.into()),
        Literal::Bool(value) => return Err(format!("`{value}` is no {scalar}")),
        Literal::Number { negative, text } => (negative, text),
    };
    let sign = if negative { "-" } else { "" };
    let fits = |bits: u64| scalar.bits() == 64 || bits >> scalar.bits() == 0;
    let no_fit = || format!("`{sign}{text}` does not fit {scalar}");
    if scalar.is_int() {
        if text.contains('.') {
            return Err(format!("`{sign}{text}` is no integer, and the type is {scalar}"));
        }
        let magnitude = magnitude(text).ok_or_else(no_fit)?;
        if negative {
            let lowest = 1 << (scalar.bits() - 1);
            let mask = u64::MAX >> (64 - scalar.bits());
            return if magnitude <= lowest { Ok(magnitude.wrapping_neg() & mask) } else { Err(no_fit()) };
        }
        return if fits(magnitude) { Ok(magnitude) } else { Err(no_fit()) };
    }
    // Bits as they are: infinities, NaNs, and what no short decimal gives.
    if text.starts_with("0x") {
        return match magnitude(text) {
            Some(_) if negative => Err(format!("`-{text}`: the bits of a float have no sign")),
            Some(bits) if fits(bits) => Ok(bits),
            _ => Err(no_fit()),
        };
    }
    if !text.contains('.') {
        return Err(format!("`{sign}{text}` is an integer, and the type is {scalar}: write `{sign}{text}.0`"));
    }
    let magnitude = match scalar {
        // Through a double it might be rounded twice.
        Scalar::F32 => text.parse::<f32>().ok().map(|value| value.to_bits().into()),
        _ => text.parse::<f64>().ok().and_then(|value| float_bits(scalar, value)),
    };
    let magnitude = magnitude.ok_or_else(no_fit)?;
    Ok(if negative { magnitude | 1 << (scalar.bits() - 1) } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, scalar: Scalar) -> Result<u64, String> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text),
        };
        bits(Literal::Number { negative, text }, scalar)
    }

    #[test]
    fn integers_fit_or_fail() {
        assert_eq!(of("-1", Scalar::I8), Ok(0xff));
        assert_eq!(of("255", Scalar::I8), Ok(0xff));
        assert!(of("256", Scalar::I8).is_err());
        assert_eq!(of("-128", Scalar::I8), Ok(0x80));
        assert!(of("-129", Scalar::I8).is_err());
        assert_eq!(of("-9223372036854775808", Scalar::I64), Ok(1 << 63));
        assert_eq!(of("18446744073709551615", Scalar::I64), Ok(u64::MAX));
        assert!(of("18446744073709551616", Scalar::I64).is_err());
        assert_eq!(of("-1", Scalar::I1), Ok(1));
        assert!(of("1.0", Scalar::I32).unwrap_err().contains("no integer"));
        assert_eq!(integer(true, "9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer(false, "9223372036854775808"), None);
    }

    #[test]
    fn floats_are_rounded_once() {
        assert_eq!(of("1.000000e+00", Scalar::F32), Ok(0x3f80_0000));
        assert_eq!(of("-0.000000e+00", Scalar::F16), Ok(0x8000));
        assert_eq!(of("0x7F800000", Scalar::F32), Ok(0x7f80_0000));
        assert_eq!(of("0x7C00", Scalar::F16), Ok(0x7c00));
        assert!(of("0x7F800000", Scalar::F16).is_err());
        assert_eq!(of("0x7FF0000000000000", Scalar::F64), Ok(0x7ff0_0000_0000_0000));
        assert_eq!(of("4.6566126E-10", Scalar::F32), Ok(0x2fff_ffff));
        // Between two singles, above the middle by less than a double can tell.
        assert_eq!(of("1.00000005960464477540", Scalar::F32), Ok(0x3f80_0001));
        assert_eq!(of("4.375000e-01", Scalar::F8E4M3), Ok(0x2e));
        assert_eq!(of("1.", Scalar::Bf16), Ok(0x3f80));
        assert!(of("1", Scalar::F32).unwrap_err().contains("write `1.0`"));
    }
}
