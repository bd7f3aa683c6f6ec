//! Names, strings and numbers as MLIR writes them.

use std::borrow::Cow;
use std::fmt::Write;

use crate::tile::{Scalar, float_bits, float_value, int_value};

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}

/// Whether a name needs no quotes.
fn is_bare(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') && name.bytes().all(is_word)
}

/// A value's name with nothing in it that a name cannot have.
pub(super) fn sanitised(name: &str) -> Cow<'_, str> {
    let fine = |byte: u8| is_word(byte) || byte == b'-';
    // The lexer would take `x->` for a name and an arrow.
    if name.bytes().all(fine) && !name.starts_with(|first: char| first.is_ascii_digit()) && !name.ends_with('-') {
        return Cow::Borrowed(name);
    }
    let mut out = String::from(if name.starts_with(|first: char| first.is_ascii_digit()) { "_" } else { "" });
    out.extend(name.chars().map(|c| if c.is_ascii() && fine(c as u8) { c } else { '_' }));
    if out.ends_with('-') {
        out.push('_');
    }
    Cow::Owned(out)
}

/// `name`, or `"any name"`.
pub(super) fn attribute_name(name: &str) -> Cow<'_, str> {
    if is_bare(name) { Cow::Borrowed(name) } else { Cow::Owned(quoted(name)) }
}

/// `@name`, or `@"any name"`.
pub(super) fn symbol(name: &str) -> String {
    format!("@{}", attribute_name(name))
}

/// A string in quotes, in ASCII.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' if byte != b'"' => out.push(byte as char),
            // Writing to a string does not fail.
            _ => _ = write!(out, "\\{byte:02X}"),
        }
    }
    out.push('"');
    out
}

/// A constant's number, without its type.
pub(super) fn number(scalar: Scalar, bits: u64) -> String {
    match scalar {
        Scalar::I1 => (bits & 1 == 1).to_string(),
        _ if scalar.is_int() => int_value(scalar, bits).to_string(),
        _ => float_text(scalar, bits),
    }
}

/// A float: six decimals where they are enough, else as many as are needed, else its bits.
fn float_text(scalar: Scalar, bits: u64) -> String {
    let hex = || format!("0x{bits:00$X}", scalar.bits() as usize / 4);
    let Some(value) = float_value(scalar, bits).filter(|value| value.is_finite()) else { return hex() };
    // By way of a double, as MLIR reads it, and straight, as we do.
    let reads_back = |text: &str| {
        let double = text.parse::<f64>().ok().and_then(|value| float_bits(scalar, value));
        let single = text.parse::<f32>().map(|value| u64::from(value.to_bits())).ok();
        double == Some(bits) && (scalar != Scalar::F32 || single == Some(bits))
    };
    let shortest = if scalar == Scalar::F32 { format!("{:e}", value as f32) } else { format!("{value:e}") };
    [format!("{value:.6e}"), shortest].iter().map(|text| in_c(text)).find(|text| reads_back(text)).unwrap_or_else(hex)
}

/// `1e5` as `1.0e+05`.
fn in_c(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}{point}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_read_back() {
        assert_eq!(float_text(Scalar::F32, 0x3f80_0000), "1.000000e+00");
        assert_eq!(float_text(Scalar::F32, 0x8000_0000), "-0.000000e+00");
        assert_eq!(float_text(Scalar::F32, 0x7f80_0000), "0x7F800000");
        assert_eq!(float_text(Scalar::F32, 0x4049_0fdb), "3.1415927e+00");
        assert_eq!(float_text(Scalar::F16, 0x7c00), "0x7C00");
        assert_eq!(float_text(Scalar::F8E4M3, 0x7f), "0x7F");
        assert_eq!(float_text(Scalar::F64, 0x3fd5_5555_5555_5555), "3.333333333333333e-01");
        for scalar in [Scalar::F8E4M3, Scalar::F8E5M2, Scalar::F16, Scalar::Bf16] {
            for bits in 0..1 << scalar.bits() {
                let text = float_text(scalar, bits);
                if !text.starts_with("0x") {
                    assert_eq!(float_bits(scalar, text.parse().unwrap()), Some(bits), "{scalar} {text}");
                }
            }
        }
    }

    #[test]
    fn names_are_made_fit() {
        assert_eq!(sanitised("acc_2"), "acc_2");
        assert_eq!(sanitised("2 x"), "_2_x");
        assert_eq!(sanitised("é-"), "_-_");
        assert_eq!(symbol("a b"), "@\"a b\"");
        assert_eq!(quoted("a\"\\\n"), r#""a\22\\\0A""#);
    }
}
