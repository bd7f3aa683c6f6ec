//! The functions of libdevice that a kernel may name, and what stands for each.

use crate::tile::Unary;

/// What stands for a function of libdevice.
#[derive(Clone, Copy)]
pub(super) enum Device {
    /// A function of ours, by its name in LLVM IR without its first part.
    Own(&'static str),
    /// An operation of the tile IR.
    Same(Unary),
    /// PTX.
    Text(&'static str),
}

use Device::{Own, Same, Text};

/// By libdevice's name without `__nv_`: the types of the result and of the operands (`f` a single, `d` a double, `r` 32 bits, `l` 64), and what stands for it.
/// Where libdevice flushes subnormals, so does the text.
pub(super) const FUNCTIONS: &[(&str, &str, Device)] = &[
    // Exponentials and logarithms.
    ("expf", "ff", Own("exp.lib")),
    ("exp", "dd", Same(Unary::Exp)),
    ("exp2f", "ff", Same(Unary::Exp2)),
    ("exp2", "dd", Same(Unary::Exp2)),
    ("exp10f", "ff", Own("exp10.f32")),
    ("expm1f", "ff", Own("expm1.f32")),
    ("logf", "ff", Own("log.f32")),
    ("log", "dd", Same(Unary::Log)),
    ("log2f", "ff", Own("log2.f32")),
    ("log2", "dd", Same(Unary::Log2)),
    ("log10f", "ff", Own("log10.f32")),
    ("log1pf", "ff", Own("log1p.f32")),
    ("powf", "fff", Own("pow.lib")),
    ("powif", "ffr", Own("powi.lib")),
    // Circles and hyperbolas.
    ("sinf", "ff", Own("sin.f32")),
    ("sin", "dd", Same(Unary::Sin)),
    ("cosf", "ff", Own("cos.f32")),
    ("cos", "dd", Same(Unary::Cos)),
    ("tanf", "ff", Own("tan.lib")),
    ("sinpif", "ff", Own("sinpi.lib")),
    ("cospif", "ff", Own("cospi.lib")),
    ("asinf", "ff", Own("asin.lib")),
    ("acosf", "ff", Own("acos.lib")),
    ("atanf", "ff", Own("atan.lib")),
    ("atan2f", "fff", Own("atan2.lib")),
    ("sinhf", "ff", Own("sinh.lib")),
    ("coshf", "ff", Own("cosh.lib")),
    ("tanhf", "ff", Own("tanh.f32")),
    ("asinhf", "ff", Own("asinh.lib")),
    ("acoshf", "ff", Own("acosh.lib")),
    ("atanhf", "ff", Own("atanh.lib")),
    // The error function and its kin.
    ("erff", "ff", Own("erf.f32")),
    ("erf", "dd", Same(Unary::Erf)),
    ("erfcf", "ff", Own("erfc.lib")),
    ("normcdff", "ff", Own("normcdf.lib")),
    // Roots and lengths.
    ("sqrtf", "ff", Same(Unary::Sqrt)),
    ("sqrt", "dd", Same(Unary::Sqrt)),
    ("rsqrtf", "ff", Same(Unary::Rsqrt)),
    ("rsqrt", "dd", Same(Unary::Rsqrt)),
    ("frsqrt_rn", "ff", Text("rsqrt.approx.ftz.f32 $0, $1;")),
    ("cbrtf", "ff", Own("cbrt.lib")),
    ("rcbrtf", "ff", Own("rcbrt.lib")),
    ("hypotf", "fff", Own("hypot.lib")),
    ("rhypotf", "fff", Own("rhypot.lib")),
    // Remainders, and the parts of floats.
    ("fmodf", "fff", Own("fmod.lib")),
    ("remainderf", "fff", Own("remainder.lib")),
    ("fdimf", "fff", Own("fdim.lib")),
    ("nextafterf", "fff", Own("nextafter.lib")),
    ("ldexpf", "ffr", Own("ldexp.lib")),
    ("scalbnf", "ffr", Own("ldexp.lib")),
    ("logbf", "ff", Own("logb.lib")),
    ("ilogbf", "rf", Own("ilogb.lib")),
    ("fmaf", "ffff", Text("fma.rn.ftz.f32 $0, $1, $2, $3;")),
    ("fma", "dddd", Text("fma.rn.f64 $0, $1, $2, $3;")),
    ("fabsf", "ff", Text("abs.ftz.f32 $0, $1;")),
    ("fabs", "dd", Same(Unary::AbsF)),
    ("copysignf", "fff", Text("copysign.f32 $0, $2, $1;")),
    ("copysign", "ddd", Text("copysign.f64 $0, $2, $1;")),
    ("saturatef", "ff", Text("cvt.ftz.sat.f32.f32 $0, $1;")),
    // To whole numbers.
    ("floorf", "ff", Same(Unary::Floor)),
    ("floor", "dd", Same(Unary::Floor)),
    ("ceilf", "ff", Same(Unary::Ceil)),
    ("ceil", "dd", Same(Unary::Ceil)),
    ("rintf", "ff", Text("cvt.rni.f32.f32 $0, $1;")),
    ("rint", "dd", Text("cvt.rni.f64.f64 $0, $1;")),
    ("nearbyintf", "ff", Text("cvt.rni.f32.f32 $0, $1;")),
    ("nearbyint", "dd", Text("cvt.rni.f64.f64 $0, $1;")),
    ("truncf", "ff", Text("cvt.rzi.f32.f32 $0, $1;")),
    ("trunc", "dd", Text("cvt.rzi.f64.f64 $0, $1;")),
    (
        "roundf",
        "ff",
        Text(
            "{ .reg .f32 h; mov.f32 h, 0f3F000000; copysign.f32 h, $1, h; add.rz.ftz.f32 h, $1, h; cvt.rzi.f32.f32 $0, h; }",
        ),
    ),
    (
        "round",
        "dd",
        Text(
            "{ .reg .f64 h; mov.f64 h, 0d3FE0000000000000; copysign.f64 h, $1, h; add.rz.f64 h, $1, h; cvt.rzi.f64.f64 $0, h; }",
        ),
    ),
    ("llrintf", "lf", Text("cvt.rni.ftz.s64.f32 $0, $1;")),
    ("llrint", "ld", Text("cvt.rni.s64.f64 $0, $1;")),
    // Questions.
    ("isinff", "rf", Text("{ .reg .pred p; testp.infinite.f32 p, $1; selp.b32 $0, 1, 0, p; }")),
    ("isinfd", "rd", Text("{ .reg .pred p; testp.infinite.f64 p, $1; selp.b32 $0, 1, 0, p; }")),
    ("isnanf", "rf", Text("{ .reg .pred p; testp.notanumber.f32 p, $1; selp.b32 $0, 1, 0, p; }")),
    ("isnand", "rd", Text("{ .reg .pred p; testp.notanumber.f64 p, $1; selp.b32 $0, 1, 0, p; }")),
    ("finitef", "rf", Text("{ .reg .pred p; testp.finite.f32 p, $1; selp.b32 $0, 1, 0, p; }")),
    ("isfinited", "rd", Text("{ .reg .pred p; testp.finite.f64 p, $1; selp.b32 $0, 1, 0, p; }")),
    ("signbitf", "rf", Text("{ .reg .b32 t; mov.b32 t, $1; shr.u32 $0, t, 31; }")),
    ("signbitd", "rd", Text("{ .reg .b64 t; mov.b64 t, $1; shr.u64 t, t, 63; cvt.u32.u64 $0, t; }")),
    // Approximate instructions.
    ("fast_log2f", "ff", Text("lg2.approx.ftz.f32 $0, $1;")),
    ("fast_sinf", "ff", Text("sin.approx.ftz.f32 $0, $1;")),
    ("fast_cosf", "ff", Text("cos.approx.ftz.f32 $0, $1;")),
    (
        "fast_tanf",
        "ff",
        Text("{ .reg .f32 s, c; sin.approx.ftz.f32 s, $1; cos.approx.ftz.f32 c, $1; div.approx.ftz.f32 $0, s, c; }"),
    ),
    ("fast_expf", "ff", Text("{ .reg .f32 t; mul.f32 t, $1, 0f3FB8AA3B; ex2.approx.ftz.f32 $0, t; }")),
    ("fast_exp10f", "ff", Text("{ .reg .f32 t; mul.ftz.f32 t, $1, 0f40549A78; ex2.approx.ftz.f32 $0, t; }")),
    ("fast_logf", "ff", Text("{ .reg .f32 t; lg2.approx.ftz.f32 t, $1; mul.f32 $0, t, 0f3F317218; }")),
    ("fast_log10f", "ff", Text("{ .reg .f32 t; lg2.approx.ftz.f32 t, $1; mul.ftz.f32 $0, t, 0f3E9A209B; }")),
    (
        "fast_powf",
        "fff",
        Text("{ .reg .f32 t; lg2.approx.ftz.f32 t, $1; mul.ftz.f32 t, t, $2; ex2.approx.ftz.f32 $0, t; }"),
    ),
    ("fast_fdividef", "fff", Text("div.approx.ftz.f32 $0, $1, $2;")),
    // Integers.
    ("abs", "rr", Text("abs.s32 $0, $1;")),
    ("llabs", "ll", Text("abs.s64 $0, $1;")),
    ("popc", "rr", Text("popc.b32 $0, $1;")),
    ("popcll", "rl", Text("popc.b64 $0, $1;")),
    ("clz", "rr", Text("clz.b32 $0, $1;")),
    ("clzll", "rl", Text("clz.b64 $0, $1;")),
    ("brev", "rr", Text("brev.b32 $0, $1;")),
    ("brevll", "ll", Text("brev.b64 $0, $1;")),
    ("ffs", "rr", Text("{ .reg .b32 t; brev.b32 t, $1; bfind.shiftamt.u32 t, t; add.s32 $0, t, 1; }")),
    ("ffsll", "rl", Text("{ .reg .b64 t; .reg .b32 u; brev.b64 t, $1; bfind.shiftamt.u64 u, t; add.s32 $0, u, 1; }")),
    ("mulhi", "rrr", Text("mul.hi.s32 $0, $1, $2;")),
    ("umulhi", "rrr", Text("mul.hi.u32 $0, $1, $2;")),
    ("mul64hi", "lll", Text("mul.hi.s64 $0, $1, $2;")),
    ("umul64hi", "lll", Text("mul.hi.u64 $0, $1, $2;")),
    ("mul24", "rrr", Text("mul24.lo.s32 $0, $1, $2;")),
    ("umul24", "rrr", Text("mul24.lo.u32 $0, $1, $2;")),
    ("sad", "rrrr", Text("sad.s32 $0, $1, $2, $3;")),
    ("usad", "rrrr", Text("sad.u32 $0, $1, $2, $3;")),
    ("byte_perm", "rrrr", Text("{ .reg .b32 t; and.b32 t, $3, 0x7777; prmt.b32 $0, $1, $2, t; }")),
    // Halves of sums that overflow: what both have, and half of what one has.
    (
        "hadd",
        "rrr",
        Text("{ .reg .b32 s, t; and.b32 s, $1, $2; xor.b32 t, $1, $2; shr.s32 t, t, 1; add.s32 $0, s, t; }"),
    ),
    (
        "uhadd",
        "rrr",
        Text("{ .reg .b32 s, t; and.b32 s, $1, $2; xor.b32 t, $1, $2; shr.u32 t, t, 1; add.s32 $0, s, t; }"),
    ),
    (
        "rhadd",
        "rrr",
        Text("{ .reg .b32 s, t; or.b32 s, $1, $2; xor.b32 t, $1, $2; shr.s32 t, t, 1; sub.s32 $0, s, t; }"),
    ),
    (
        "urhadd",
        "rrr",
        Text("{ .reg .b32 s, t; or.b32 s, $1, $2; xor.b32 t, $1, $2; shr.u32 t, t, 1; sub.s32 $0, s, t; }"),
    ),
    // Bits as they are.
    ("float_as_int", "rf", Text("mov.b32 $0, $1;")),
    ("float_as_uint", "rf", Text("mov.b32 $0, $1;")),
    ("int_as_float", "fr", Text("mov.b32 $0, $1;")),
    ("uint_as_float", "fr", Text("mov.b32 $0, $1;")),
    ("double_as_longlong", "ld", Text("mov.b64 $0, $1;")),
    ("longlong_as_double", "dl", Text("mov.b64 $0, $1;")),
    ("double2hiint", "rd", Text("{ .reg .b32 t; mov.b64 {t, $0}, $1; }")),
    ("double2loint", "rd", Text("{ .reg .b32 t; mov.b64 {$0, t}, $1; }")),
    ("hiloint2double", "drr", Text("mov.b64 $0, {$2, $1};")),
];

/// Integer types as libdevice and PTX name them, and their letters.
const INTEGERS: [(&str, &str, char); 4] =
    [("int", "s32", 'r'), ("uint", "u32", 'r'), ("ll", "s64", 'l'), ("ull", "u64", 'l')];

/// Float types likewise, and what flushes subnormals.
const FLOATS: [(&str, &str, char, &str); 2] = [("float", "f32", 'f', ".ftz"), ("double", "f64", 'd', "")];

/// Functions with their rounding in the name, as the table has them: `fadd_rz` and its kin, `float2int_rn` and its kin.
pub(super) fn rounded(name: &str) -> Option<(String, String)> {
    let (stem, mode) = name.rsplit_once('_')?;
    let mode = match mode {
        "rn" => "rn",
        "rz" => "rz",
        "rd" => "rm",
        "ru" => "rp",
        _ => return None,
    };
    if let Some((from, to)) = stem.split_once('2') {
        let float = |name: &str| FLOATS.into_iter().find(|float| float.0 == name);
        let integer = |name: &str| INTEGERS.into_iter().find(|integer| integer.0 == name);
        return match (float(from), integer(from), float(to), integer(to)) {
            (Some(from), _, _, Some(to)) => {
                let text = format!("cvt.{mode}i{}.{}.{} $0, $1;", from.3, to.1, from.1);
                Some((format!("{}{}", to.2, from.2), text))
            }
            (_, Some(from), Some(to), _) => {
                Some((format!("{}{}", to.2, from.2), format!("cvt.{mode}.{}.{} $0, $1;", to.1, from.1)))
            }
            (Some(_), _, Some(_), _) if name.starts_with("double2float") => {
                Some(("fd".to_owned(), format!("cvt.{mode}.ftz.f32.f64 $0, $1;")))
            }
            _ => None,
        };
    }
    // The sum of a product is named otherwise than the rest.
    let (letter, operation) = match stem {
        "fmaf" => ("f", "fma"),
        "fma" => ("d", "fma"),
        _ => stem.split_at_checked(1)?,
    };
    let (_, ty, letter, flush) = FLOATS.into_iter().find(|float| letter == String::from(float.2))?;
    let operands = match operation {
        "add" | "sub" | "mul" | "div" => 2,
        "rcp" | "sqrt" => 1,
        "fma" => 3,
        _ => return None,
    };
    let places: Vec<String> = (0..=operands).map(|place| format!("${place}")).collect();
    let text = format!("{operation}.{mode}{flush}.{ty} {};", places.join(", "));
    Some((String::from(letter).repeat(operands + 1), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_rounding_are_instructions() {
        for (name, signature, text) in [
            ("fadd_rz", "fff", "add.rz.ftz.f32 $0, $1, $2;"),
            ("dsqrt_ru", "dd", "sqrt.rp.f64 $0, $1;"),
            ("fmaf_rd", "ffff", "fma.rm.ftz.f32 $0, $1, $2, $3;"),
            ("fma_rn", "dddd", "fma.rn.f64 $0, $1, $2, $3;"),
            ("float2uint_rz", "rf", "cvt.rzi.ftz.u32.f32 $0, $1;"),
            ("double2ll_rd", "ld", "cvt.rmi.s64.f64 $0, $1;"),
            ("ull2float_rn", "fl", "cvt.rn.f32.u64 $0, $1;"),
            ("double2float_rz", "fd", "cvt.rz.ftz.f32.f64 $0, $1;"),
        ] {
            assert_eq!(rounded(name), Some((signature.to_owned(), text.to_owned())), "{name}");
        }
        for name in ["fadd", "fadd_xx", "gadd_rn", "fpow_rn", "float2float_rn", "int2ll_rn", "_rn", "é_rn"] {
            assert_eq!(rounded(name), None, "{name}");
        }
    }

    #[test]
    fn each_function_is_there_once() {
        for (index, (name, signature, device)) in FUNCTIONS.iter().enumerate() {
            assert!(FUNCTIONS[..index].iter().all(|(other, ..)| other != name), "{name}");
            assert!(signature.len() >= 2 && signature.chars().all(|letter| "fdrl".contains(letter)), "{name}");
            // As many operands as the text has.
            if let Text(text) = device {
                let last = signature.len() - 1;
                assert!(text.contains(&format!("${last}")) && !text.contains(&format!("${}", last + 1)), "{name}");
            }
        }
    }
}
