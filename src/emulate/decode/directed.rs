//! Arithmetic of singles and doubles that rounds towards zero, down or up.

use super::words::Ty;
use crate::emulate::alu::{Alu, NAN, add_f64, canonical, f, fma_f64, multiply_f64, subtract_f64};
use crate::emulate::rounding::{add, divide, fuse, invert, modes, multiply, root, subtract};

/// The function of `opcode` in the rounding `mode`. Where singles flush, results that are tiny before rounding are zero.
pub(super) fn alu(opcode: &str, mode: &str, ty: Ty, ftz: bool) -> Option<Alu> {
    /// Singles, flushing or not, then doubles; each with what comes where an operand is not finite.
    macro_rules! both {
        ($narrow:ident, $wide:ident; |$($a:ident),+| $function:ident, $single:expr, $double:expr) => {
            match (ty, ftz) {
                (Ty::F32, true) => modes!(mode; M => {
                    Alu::$narrow(f!($(both!(@f32 $a)),+ => f32; |$($a),+| $function($($a),+, $single, M, true)))
                }),
                (Ty::F32, false) => modes!(mode; M => {
                    Alu::$narrow(f!($(both!(@f32 $a)),+ => f32; |$($a),+| $function($($a),+, $single, M, false)))
                }),
                (Ty::F64, false) => modes!(mode; M => {
                    Alu::$wide(f!($(both!(@f64 $a)),+ => f64; |$($a),+| $function($($a),+, $double, M, false)))
                }),
                _ => None,
            }
        };
        (@f32 $a:ident) => { f32 };
        (@f64 $a:ident) => { f64 };
    }
    match opcode {
        "add" => both!(F2, W2; |a, b| add, canonical(a + b), add_f64(a, b)),
        "sub" => both!(F2, W2; |a, b| subtract, canonical(a - b), subtract_f64(a, b)),
        "mul" => both!(F2, W2; |a, b| multiply, canonical(a * b), multiply_f64(a, b)),
        "fma" | "mad" => both!(F3, W3; |a, b, c| fuse, canonical(a.mul_add(b, c)), fma_f64(a, b, c)),
        "div" => both!(F2, W2; |a, b| divide, canonical(a / b), a / b),
        "rcp" => both!(F1, W1; |a| invert, canonical(1.0 / a), 1.0 / a),
        // Zeros and the infinity are their own roots. (The compiler drops a `canonical` of roots that it knows to be NaN.)
        "sqrt" => both!(F1, W1; |a| root, if a >= 0.0 { a } else { NAN }, a.sqrt()),
        _ => None,
    }
}
