//! Arithmetic of halves with modifiers (`.ftz`, `.sat`, `.relu`), and extremes that pass NaN on or take the sign of both.

use half::{bf16, f16};

use super::words::{Ty, Words};
use crate::emulate::alu::{Alu, f};
use crate::emulate::halves::{Half, Halves, NAN, PASS_NAN, XOR_SIGN, extreme, flushed, rectified, saturated};
use crate::emulate::lanes::Lanes32;

/// Modifiers, as bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Modifiers {
    pub ftz: bool,
    pub sat: bool,
    pub relu: bool,
    /// [`PASS_NAN`] and [`XOR_SIGN`].
    pub extreme: u8,
}

impl Modifiers {
    pub fn take(words: &mut Words) -> Self {
        let nan = if words.take("NaN") { PASS_NAN } else { 0 };
        let xor_sign = if words.take("xorsign") && words.take("abs") { XOR_SIGN } else { 0 };
        Self { ftz: words.take("ftz"), sat: words.take("sat"), relu: words.take("relu"), extreme: nan | xor_sign }
    }
}

const ADD: u8 = 0;
const SUB: u8 = 1;
const MUL: u8 = 2;
const FMA: u8 = 3;
const MIN: u8 = 4;
const MAX: u8 = 8;
const ABS: u8 = 12;
const NEG: u8 = 13;
const EX2: u8 = 14;
const TANH: u8 = 15;

/// What is done to operands and results.
const PLAIN: u8 = 0;
const FTZ: u8 = 1;
const SAT: u8 = 2;
const RELU: u8 = 4;

#[inline(always)]
fn part<H: Half, const OP: u8, const MODE: u8, const N: usize>(operands: [H; N]) -> H {
    let operands = if MODE & FTZ != 0 { operands.map(flushed) } else { operands };
    let [a, b, c] = [0, 1 % N, 2 % N].map(|place| operands[place]);
    let (x, y) = (a.single(), b.single());
    let result = match OP {
        ADD => H::nearest(x + y),
        SUB => H::nearest(x - y),
        // As with singles: a product that is tiny before rounding is flushed.
        MUL if MODE & FTZ != 0 && (x * y).abs() < H::LEAST_NORMAL => H::nearest(0.0_f32.copysign(x * y)),
        MUL => H::nearest(x * y),
        FMA => H::fused(a, b, c),
        ABS => H::from_code(if a.is_nan() { NAN } else { a.code() & 0x7fff }),
        NEG => H::from_code(if a.is_nan() { NAN } else { a.code() ^ 0x8000 }),
        EX2 => H::nearest_of_double(f64::from(x).exp2()),
        TANH => H::nearest_of_double(f64::from(x).tanh()),
        _ => H::nearest(match OP - MIN {
            0 => extreme::<false, 0>(x, y),
            PASS_NAN => extreme::<false, PASS_NAN>(x, y),
            XOR_SIGN => extreme::<false, XOR_SIGN>(x, y),
            3 => extreme::<false, { PASS_NAN | XOR_SIGN }>(x, y),
            4 => extreme::<true, 0>(x, y),
            5 => extreme::<true, PASS_NAN>(x, y),
            6 => extreme::<true, XOR_SIGN>(x, y),
            _ => extreme::<true, { PASS_NAN | XOR_SIGN }>(x, y),
        }),
    };
    let result = if MODE & FTZ != 0 { flushed(result) } else { result };
    let result = if MODE & SAT != 0 { saturated(result) } else { result };
    if MODE & RELU != 0 { rectified(result) } else { result }
}

fn one<P: Halves, const OP: u8, const MODE: u8>(x: &Lanes32, out: &mut Lanes32) {
    for (x, out) in x.iter().zip(out) {
        *out = P::each([P::get(*x)], part::<P::Part, OP, MODE, 1>).put();
    }
}

fn two<P: Halves, const OP: u8, const MODE: u8>(x: &Lanes32, y: &Lanes32, out: &mut Lanes32) {
    for ((x, y), out) in x.iter().zip(y).zip(out) {
        *out = P::each([P::get(*x), P::get(*y)], part::<P::Part, OP, MODE, 2>).put();
    }
}

fn three<P: Halves, const OP: u8, const MODE: u8>(x: &Lanes32, y: &Lanes32, z: &Lanes32, out: &mut Lanes32) {
    for (((x, y), z), out) in x.iter().zip(y).zip(z).zip(out) {
        *out = P::each([P::get(*x), P::get(*y), P::get(*z)], part::<P::Part, OP, MODE, 3>).put();
    }
}

/// The functions that there are: opcodes, each with its modifiers.
macro_rules! table {
    ($P:ty, $op:expr, $mode:expr; $($variant:ident $function:ident: $($OP:ident $([$with:expr])?),+ => $modes:tt;)*) => {
        $($(
            if $op == $OP $(+ $with)? {
                return table!(@modes $P, $mode, $variant $function ($OP $(+ $with)?) $modes);
            }
        )+)*
    };
    (@modes $P:ty, $mode:expr, $variant:ident $function:ident $OP:tt [$($MODE:expr),+]) => {
        match $mode {
            $(mode if mode == $MODE => Some(Alu::$variant($function::<$P, { $OP }, { $MODE }>)),)+
            _ => None,
        }
    };
}

fn functions<P: Halves>(op: u8, mode: u8) -> Option<Alu> {
    table! { P, op, mode;
        F2 two: ADD, SUB, MUL => [FTZ, SAT, FTZ | SAT];
        F3 three: FMA => [FTZ, SAT, FTZ | SAT, RELU, FTZ | RELU];
        F2 two: MIN, MAX => [FTZ];
        F2 two: MIN [1], MIN [2], MIN [3], MAX [1], MAX [2], MAX [3] => [PLAIN, FTZ];
        F1 one: ABS, NEG => [FTZ];
        F1 one: EX2, TANH => [PLAIN, FTZ];
    }
    None
}

/// The function of `opcode` on halves. None where the plain form is meant, which is elsewhere.
pub(super) fn alu(opcode: &str, rounding: Option<&str>, ty: Ty, with: Modifiers) -> Option<Alu> {
    let op = match (opcode, rounding) {
        ("add", None | Some("rn")) => ADD,
        ("sub", None | Some("rn")) => SUB,
        ("mul", None | Some("rn")) => MUL,
        ("fma", Some("rn")) => FMA,
        ("min", None) => MIN + with.extreme,
        ("max", None) => MAX + with.extreme,
        ("abs", None) => ABS,
        ("neg", None) => NEG,
        ("ex2", Some("approx")) => EX2,
        ("tanh", Some("approx")) => TANH,
        _ => return None,
    };
    if with.extreme != 0 && !matches!(opcode, "min" | "max") {
        return None;
    }
    let mode = [(with.ftz, FTZ), (with.sat, SAT), (with.relu, RELU)];
    let mode = mode.iter().filter(|(is_there, _)| *is_there).fold(PLAIN, |mode, (_, bit)| mode | bit);
    match ty {
        Ty::F16 => functions::<f16>(op, mode),
        Ty::F16x2 => functions::<[f16; 2]>(op, mode),
        // Of bfloat16 only `ex2` flushes, and nothing saturates.
        _ if mode & SAT != 0 || mode & FTZ != 0 && op != EX2 => None,
        Ty::Bf16 => functions::<bf16>(op, mode),
        Ty::Bf16x2 => functions::<[bf16; 2]>(op, mode),
        _ => None,
    }
}

/// `min` and `max` of singles with `.NaN` or `.xorsign.abs`.
pub(super) fn singles(opcode: &str, mode: u8) -> Option<Alu> {
    macro_rules! modes {
        ($MAX:expr; $($MODE:expr),+) => {
            match mode {
                $(mode if mode == $MODE => Some(Alu::F2(f!(f32, f32 => f32; |a, b| extreme::<$MAX, { $MODE }>(a, b)))),)+
                _ => None,
            }
        };
    }
    match opcode {
        "min" => modes!(false; PASS_NAN, XOR_SIGN, PASS_NAN | XOR_SIGN),
        "max" => modes!(true; PASS_NAN, XOR_SIGN, PASS_NAN | XOR_SIGN),
        _ => None,
    }
}
