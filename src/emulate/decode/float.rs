//! Floating arithmetic.

use half::{bf16, f16};

use super::words::Ty;
use crate::emulate::alu::{
    Alu, add_f64, bfloat_from_f32, canonical, f, fma_bf16, fma_f16, fma_f32, fma_f64, half_from_f32, max_f32, max_f64,
    min_f32, min_f64, multiply_f64, pair, quiet, rsqrt_f32, subtract_f64,
};
use crate::emulate::lanes::{F32x2, flush};

/// Two operands in every floating format but f64, computed in f32 or f64 and rounded once: a format's sums and products are exact
/// in one twice as wide, or rounding twice is known to be harmless (24 ≥ 2·11 + 2).
macro_rules! all_floats2 {
    ($ty:expr; |$a:ident, $b:ident| $e:expr, $single:expr) => {
        match $ty {
            Ty::F32 => Some(Alu::F2(f!(f32, f32 => f32; |$a, $b| canonical($e)))),
            Ty::F16 => Some(Alu::F2(f!(f16, f16 => f16; |a, b| half_from_f32($single(a.to_f32(), b.to_f32()))))),
            Ty::Bf16 => Some(Alu::F2(f!(bf16, bf16 => bf16; |a, b| bfloat_from_f32($single(a.to_f32(), b.to_f32()))))),
            Ty::F16x2 => Some(Alu::F2(f!([f16; 2], [f16; 2] => [f16; 2]; |a, b|
                pair(a, b, |a: f16, b: f16| half_from_f32($single(a.to_f32(), b.to_f32())))))),
            Ty::Bf16x2 => Some(Alu::F2(f!([bf16; 2], [bf16; 2] => [bf16; 2]; |a, b|
                pair(a, b, |a: bf16, b: bf16| bfloat_from_f32($single(a.to_f32(), b.to_f32())))))),
            _ => None,
        }
    };
}

/// `changed`, or PTX's NaN of halves where `value` is one.
fn half_with_sign(value: u16, changed: u16) -> u16 {
    if f16::from_bits(value).is_nan() { 0x7fff } else { changed }
}

/// As [`half_with_sign`] for bfloat16.
fn bfloat_with_sign(value: u16, changed: u16) -> u16 {
    if bf16::from_bits(value).is_nan() { 0x7fff } else { changed }
}

/// The function of an instruction on two singles at once.
pub(super) fn packed(opcode: &str, rounding: Option<&str>, ftz: bool) -> Option<Alu> {
    macro_rules! both {
        (|$a:ident, $b:ident| $e:expr) => {{
            if ftz {
                f!(F32x2, F32x2 => F32x2; |x, y| F32x2(std::array::from_fn(|half| {
                    let ($a, $b) = (flushed(x.0[half]), flushed(y.0[half]));
                    flushed(canonical($e))
                })))
            } else {
                f!(F32x2, F32x2 => F32x2; |x, y| F32x2(std::array::from_fn(|half| {
                    let ($a, $b) = (x.0[half], y.0[half]);
                    canonical($e)
                })))
            }
        }};
    }
    match (opcode, rounding) {
        ("add", None | Some("rn")) => Some(Alu::W2(both!(|a, b| a + b))),
        ("sub", None | Some("rn")) => Some(Alu::W2(both!(|a, b| a - b))),
        ("mul", None | Some("rn")) => Some(Alu::W2(both!(|a, b| a * b))),
        ("fma", Some("rn")) => Some(Alu::W3(if ftz {
            f!(F32x2, F32x2, F32x2 => F32x2; |a, b, c| F32x2(std::array::from_fn(|half| {
                flushed(canonical(flushed(a.0[half]).mul_add(flushed(b.0[half]), flushed(c.0[half]))))
            })))
        } else {
            f!(F32x2, F32x2, F32x2 => F32x2; |a, b, c| F32x2(std::array::from_fn(|half| {
                canonical(a.0[half].mul_add(b.0[half], c.0[half]))
            })))
        })),
        _ => None,
    }
}

/// The function of an instruction on singles whose operands, but for the last, are halves: each half is a single exactly.
pub(super) fn mixed(opcode: &str, rounding: Option<&str>, half: Ty) -> Option<Alu> {
    macro_rules! wide {
        ($half:ty) => {
            match opcode {
                "add" => Some(Alu::F2(f!($half, f32 => f32; |a, c| canonical(a.to_f32() + c)))),
                "sub" => Some(Alu::F2(f!($half, f32 => f32; |a, c| canonical(a.to_f32() - c)))),
                "fma" => Some(Alu::F3(f!($half, $half, f32 => f32; |a, b, c| canonical(a.to_f32().mul_add(b.to_f32(), c))))),
                _ => None,
            }
        };
    }
    match (rounding, half) {
        (None | Some("rn"), Ty::F16) => wide!(f16),
        (None | Some("rn"), Ty::Bf16) => wide!(bf16),
        _ => None,
    }
}

/// A denormal becomes a zero of its sign.
fn flushed(value: f32) -> f32 {
    f32::from_bits(flush(value.to_bits()))
}

/// The reciprocal square root of a double: −0 gives −∞.
fn rsqrt_f64(value: f64) -> f64 {
    if value == 0.0 { f64::INFINITY.copysign(value) } else { quiet(1.0 / value.sqrt()) }
}

/// A gross approximation, as the hardware has it of doubles: of the upper word of the operand, to the upper word of the
/// result, both without subnormals.
fn gross(value: f64, function: fn(f64) -> f64) -> f64 {
    let upper = |value: f64| {
        let bits = value.to_bits() & !0xffff_ffff;
        f64::from_bits(if value.is_subnormal() { bits & 1 << 63 } else { bits })
    };
    upper(function(upper(value)))
}

/// The function of a floating instruction with round-to-nearest or an approximation.
pub(super) fn alu(opcode: &str, rounding: Option<&str>, ty: Ty, ftz: bool) -> Option<Alu> {
    let nearest = matches!(rounding, None | Some("rn"));
    match opcode {
        // Which of two NaNs comes out must not be the compiler's choice.
        "add" if nearest && ty == Ty::F64 => Some(Alu::W2(f!(f64, f64 => f64; |a, b| add_f64(a, b)))),
        "mul" if nearest && ty == Ty::F64 => Some(Alu::W2(f!(f64, f64 => f64; |a, b| multiply_f64(a, b)))),
        "add" if nearest => all_floats2!(ty; |a, b| a + b, |a: f32, b: f32| a + b),
        "sub" if nearest && ty == Ty::F64 => Some(Alu::W2(f!(f64, f64 => f64; |a, b| subtract_f64(a, b)))),
        "sub" if nearest => all_floats2!(ty; |a, b| a - b, |a: f32, b: f32| a - b),
        "mul" if nearest => all_floats2!(ty; |a, b| a * b, |a: f32, b: f32| a * b),
        "min" if rounding.is_none() => match ty {
            Ty::F64 => Some(Alu::W2(f!(f64, f64 => f64; |a, b| min_f64(a, b)))),
            Ty::F32 => Some(Alu::F2(f!(f32, f32 => f32; |a, b| min_f32(a, b)))),
            _ => all_floats2!(ty; |a, b| a + b, |a: f32, b: f32| min_f32(a, b)),
        },
        "max" if rounding.is_none() => match ty {
            Ty::F64 => Some(Alu::W2(f!(f64, f64 => f64; |a, b| max_f64(a, b)))),
            Ty::F32 => Some(Alu::F2(f!(f32, f32 => f32; |a, b| max_f32(a, b)))),
            _ => all_floats2!(ty; |a, b| a + b, |a: f32, b: f32| max_f32(a, b)),
        },
        "fma" | "mad" if nearest => match ty {
            Ty::F32 => Some(Alu::F3(fma_f32())),
            Ty::F64 => Some(Alu::W3(f!(f64, f64, f64 => f64; |a, b, c| fma_f64(a, b, c)))),
            Ty::F16 => Some(Alu::F3(f!(f16, f16, f16 => f16; |a, b, c| fma_f16(a, b, c)))),
            Ty::Bf16 => Some(Alu::F3(f!(bf16, bf16, bf16 => bf16; |a, b, c| fma_bf16(a, b, c)))),
            Ty::F16x2 => Some(Alu::F3(f!([f16; 2], [f16; 2], [f16; 2] => [f16; 2]; |a, b, c|
                [fma_f16(a[0], b[0], c[0]), fma_f16(a[1], b[1], c[1])]))),
            Ty::Bf16x2 => Some(Alu::F3(f!([bf16; 2], [bf16; 2], [bf16; 2] => [bf16; 2]; |a, b, c|
                [fma_bf16(a[0], b[0], c[0]), fma_bf16(a[1], b[1], c[1])]))),
            _ => None,
        },
        "div" => match (rounding, ty) {
            (None | Some("rn" | "full" | "approx"), Ty::F32) => {
                Some(Alu::F2(f!(f32, f32 => f32; |a, b| canonical(a / b))))
            }
            (None | Some("rn"), Ty::F64) => Some(Alu::W2(f!(f64, f64 => f64; |a, b| a / b))),
            _ => None,
        },
        "abs" if rounding.is_none() => match ty {
            Ty::F32 => Some(Alu::F1(f!(f32 => f32; |a| canonical(a.abs())))),
            Ty::F64 => Some(Alu::W1(f!(f64 => f64; |a| if a.is_nan() { quiet(a) } else { a.abs() }))),
            Ty::F16 => Some(Alu::F1(f!(u16 => u16; |a| half_with_sign(a, a & 0x7fff)))),
            Ty::Bf16 => Some(Alu::F1(f!(u16 => u16; |a| bfloat_with_sign(a, a & 0x7fff)))),
            Ty::F16x2 => Some(Alu::F1(f!([u16; 2] => [u16; 2]; |a| a.map(|a| half_with_sign(a, a & 0x7fff))))),
            Ty::Bf16x2 => Some(Alu::F1(f!([u16; 2] => [u16; 2]; |a| a.map(|a| bfloat_with_sign(a, a & 0x7fff))))),
            _ => None,
        },
        "neg" if rounding.is_none() => match ty {
            Ty::F32 => Some(Alu::F1(f!(f32 => f32; |a| canonical(-a)))),
            Ty::F64 => Some(Alu::W1(f!(f64 => f64; |a| if a.is_nan() { quiet(a) } else { -a }))),
            Ty::F16 => Some(Alu::F1(f!(u16 => u16; |a| half_with_sign(a, a ^ 0x8000)))),
            Ty::Bf16 => Some(Alu::F1(f!(u16 => u16; |a| bfloat_with_sign(a, a ^ 0x8000)))),
            Ty::F16x2 => Some(Alu::F1(f!([u16; 2] => [u16; 2]; |a| a.map(|a| half_with_sign(a, a ^ 0x8000))))),
            Ty::Bf16x2 => Some(Alu::F1(f!([u16; 2] => [u16; 2]; |a| a.map(|a| bfloat_with_sign(a, a ^ 0x8000))))),
            _ => None,
        },
        "copysign" if rounding.is_none() => match ty {
            Ty::F32 => Some(Alu::F2(f!(u32, u32 => u32; |a, b| b & 0x7fff_ffff | a & 0x8000_0000))),
            Ty::F64 => Some(Alu::W2(f!(u64, u64 => u64; |a, b| b & !(1 << 63) | a & 1 << 63))),
            _ => None,
        },
        "rcp" => match (rounding, ty) {
            (Some("rn" | "approx"), Ty::F32) => Some(Alu::F1(f!(f32 => f32; |a| canonical(1.0 / a)))),
            (Some("rn"), Ty::F64) => Some(Alu::W1(f!(f64 => f64; |a| 1.0 / a))),
            (Some("approx"), Ty::F64) => Some(Alu::W1(f!(f64 => f64; |a| gross(a, |a| 1.0 / a)))),
            _ => None,
        },
        "sqrt" => match (rounding, ty) {
            (Some("rn" | "approx"), Ty::F32) => Some(Alu::F1(f!(f32 => f32; |a| canonical(a.sqrt())))),
            (Some("rn"), Ty::F64) => Some(Alu::W1(f!(f64 => f64; |a| a.sqrt()))),
            _ => None,
        },
        "rsqrt" if rounding == Some("approx") && ty == Ty::F64 => {
            Some(Alu::W1(if ftz { f!(f64 => f64; |a| gross(a, rsqrt_f64)) } else { f!(f64 => f64; |a| rsqrt_f64(a)) }))
        }
        "rsqrt" if rounding == Some("approx") && ty == Ty::F32 => Some(Alu::F1(f!(f32 => f32; |a| rsqrt_f32(a)))),
        "ex2" if rounding == Some("approx") => match ty {
            Ty::F32 => Some(Alu::F1(f!(f32 => f32; |a| canonical(f64::from(a).exp2() as f32)))),
            _ => None,
        },
        "lg2" if rounding == Some("approx") && ty == Ty::F32 => {
            Some(Alu::F1(f!(f32 => f32; |a| canonical(f64::from(a).log2() as f32))))
        }
        "sin" if rounding == Some("approx") && ty == Ty::F32 => {
            Some(Alu::F1(f!(f32 => f32; |a| canonical(f64::from(a).sin() as f32))))
        }
        "cos" if rounding == Some("approx") && ty == Ty::F32 => {
            Some(Alu::F1(f!(f32 => f32; |a| canonical(f64::from(a).cos() as f32))))
        }
        "tanh" if rounding == Some("approx") && ty == Ty::F32 => {
            Some(Alu::F1(f!(f32 => f32; |a| canonical(f64::from(a).tanh() as f32))))
        }
        _ => None,
    }
}
