//! Arithmetic, bits, comparisons and choices: Rust's operators between tiles and literals.

use std::ops;

use super::error::{Fault, Made};
use super::operand::Arg;
use super::state::{Mixing, State};
use super::{KernelBuilder, Operand, Tile};
use crate::tile::{Binary, Cast, Elem, FloatCompare, IntCompare, OpKind, Rounding, Scalar, Type, Value};

/// The operation for floats, or `None` where there is none, and that for integers.
type Pair = (Option<Binary>, Binary);

impl State {
    /// A binary operation on numbers.
    fn arithmetic(&mut self, left: Arg, right: Arg, (float, int): Pair, division: bool) -> Made<Value> {
        let (a, b) = self.pair(left, right, Mixing { division, ..Mixing::default() })?;
        let ty = self.ty(a);
        let op = if self.number(a)?.is_float() {
            float.ok_or_else(|| Fault::rule("integers are needed", &[ty, self.ty(b)]))?
        } else {
            int
        };
        Ok(self.make(OpKind::Binary(op), &[a, b], ty))
    }

    pub(super) fn add(&mut self, left: Arg, right: Arg) -> Made<Value> {
        let mixing = Mixing { left_pointer: true, right_pointer: true, division: false };
        let (a, b) = self.pair(left, right, mixing)?;
        match (self.elem(a)?, self.elem(b)?) {
            (Elem::Pointer(_), Elem::Pointer(_)) => {
                Err(Fault::rule("two addresses have no sum", &[self.ty(a), self.ty(b)]))
            }
            (Elem::Pointer(_), _) => Ok(self.make(OpKind::AddPtr, &[a, b], self.ty(a))),
            (_, Elem::Pointer(_)) => Ok(self.make(OpKind::AddPtr, &[b, a], self.ty(b))),
            (Elem::Value(scalar), _) => {
                let op = if scalar.is_float() { Binary::AddF } else { Binary::AddI };
                Ok(self.make(OpKind::Binary(op), &[a, b], self.ty(a)))
            }
        }
    }

    pub(super) fn sub(&mut self, left: Arg, right: Arg) -> Made<Value> {
        let is_pointer = match left.value()? {
            Some(value) => self.elem(value)?.pointee().is_some(),
            None => false,
        };
        if !is_pointer {
            return self.arithmetic(left, right, (Some(Binary::SubF), Binary::SubI), false);
        }
        let offset = self.value(right)?;
        let negative = self.negate(offset)?;
        self.add(left, Arg::Value(negative))
    }

    /// A comparison: a truth value for each element.
    fn compare(&mut self, left: Arg, right: Arg, float: FloatCompare, int: IntCompare) -> Made<Value> {
        let (a, b) = self.pair(left, right, Mixing::default())?;
        let is_float = self.number(a)?.is_float();
        let kind = if is_float { OpKind::CmpF(float) } else { OpKind::CmpI(int) };
        let ty = self.ty(a).with_elem(Scalar::I1);
        Ok(self.make(kind, &[a, b], ty))
    }

    /// The smaller or larger of each pair; `bf16` is compared in singles.
    fn extremum(&mut self, left: Arg, right: Arg, pair: Pair) -> Made<Value> {
        let (left, right) = (self.without_bf16(left)?, self.without_bf16(right)?);
        self.arithmetic(left, right, pair, false)
    }

    /// The operand, as singles where it is of `bf16`.
    pub(super) fn without_bf16(&mut self, arg: Arg) -> Made<Arg> {
        match arg.value()? {
            Some(value) if self.ty(value).number() == Some(Scalar::Bf16) => {
                Ok(Arg::Value(self.cast(value, Scalar::F32)?))
            }
            _ => Ok(arg),
        }
    }

    pub(super) fn select(&mut self, condition: Arg, yes: Arg, no: Arg) -> Made<Value> {
        let condition = self.value(condition)?;
        let mut condition = self.cast(condition, Scalar::I1)?;
        let (mut yes, mut no) =
            self.pair(yes, no, Mixing { left_pointer: true, right_pointer: true, division: false })?;
        (condition, yes) = self.broadcast_pair(condition, yes)?;
        (yes, no) = self.broadcast_pair(yes, no)?;
        let ty = self.ty(yes);
        Ok(self.make(OpKind::Select, &[condition, yes, no], ty))
    }

    fn invert(&mut self, value: Value) -> Made<Value> {
        let ty = self.ty(value);
        if self.number(value)?.is_float() {
            return Err(Fault::rule("bits are those of integers", &[ty]));
        }
        let ones = self.constant_like(if ty.number() == Some(Scalar::I1) { 1 } else { -1 }, ty)?;
        Ok(self.make(OpKind::Binary(Binary::XOrI), &[value, ones], ty))
    }
}

/// An operator between tiles, and between a tile and a literal on either side. On the left there is one type for each kind of
/// literal, so that Rust knows which is meant by `2.0 * x`.
macro_rules! operators {
    ($($trait:ident $method:ident $symbol:literal: $make:expr;)*) => {$(
        impl<'k, T: Into<Operand<'k>>> ops::$trait<T> for Tile<'k> {
            type Output = Tile<'k>;

            #[track_caller]
            fn $method(self, other: T) -> Tile<'k> {
                self.with($symbol, other, $make)
            }
        }

        operators! { @left $trait $method $symbol: $make; i32 f64 bool }
    )*};
    (@left $trait:ident $method:ident $symbol:literal: $make:expr; $($literal:ty)*) => {$(
        impl<'k> ops::$trait<Tile<'k>> for $literal {
            type Output = Tile<'k>;

            #[track_caller]
            fn $method(self, other: Tile<'k>) -> Tile<'k> {
                let (left, right) = (other.k.arg(self), other.k.arg(other));
                let make: fn(&mut State, Arg, Arg) -> Made<Value> = $make;
                other.k.run($symbol, |state| make(state, left, right))
            }
        }
    )*};
}

operators! {
    Add add "+": |state, a, b| state.add(a, b);
    Sub sub "-": |state, a, b| state.sub(a, b);
    Mul mul "*": |state, a, b| state.arithmetic(a, b, (Some(Binary::MulF), Binary::MulI), false);
    Div div "/": |state, a, b| state.arithmetic(a, b, (Some(Binary::DivF), Binary::DivSI), true);
    Rem rem "%": |state, a, b| state.arithmetic(a, b, (Some(Binary::RemF), Binary::RemSI), true);
    BitAnd bitand "&": |state, a, b| state.arithmetic(a, b, (None, Binary::AndI), false);
    BitOr bitor "|": |state, a, b| state.arithmetic(a, b, (None, Binary::OrI), false);
    BitXor bitxor "^": |state, a, b| state.arithmetic(a, b, (None, Binary::XOrI), false);
    Shl shl "<<": |state, a, b| state.arithmetic(a, b, (None, Binary::ShlI), false);
    Shr shr ">>": |state, a, b| state.arithmetic(a, b, (None, Binary::ShrSI), false);
}

/// `a += b` and the like: the handle names the new value.
macro_rules! assignments {
    ($($trait:ident $method:ident $operator:tt,)*) => {$(
        impl<'k, T: Into<Operand<'k>>> ops::$trait<T> for Tile<'k> {
            #[track_caller]
            fn $method(&mut self, other: T) {
                *self = *self $operator other;
            }
        }
    )*};
}

assignments! { AddAssign add_assign +, SubAssign sub_assign -, MulAssign mul_assign *, }

impl<'k> ops::Neg for Tile<'k> {
    type Output = Tile<'k>;

    /// 0 − x, as Triton's: +0 for both zeros.
    #[track_caller]
    fn neg(self) -> Tile<'k> {
        self.map("-", State::negate)
    }
}

impl<'k> ops::Not for Tile<'k> {
    type Output = Tile<'k>;

    #[track_caller]
    fn not(self) -> Tile<'k> {
        self.map("!", State::invert)
    }
}

/// Methods of two operands that differ by a rule alone.
macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($state:ident, $a:ident, $b:ident) $make:expr;)*) => {
        impl<'k> Tile<'k> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self, other: impl Into<Operand<'k>>) -> Self {
                self.with(stringify!($name), other, |$state, $a, $b| $make)
            }
        )*}
    };
}

methods! {
    /// Whether it is less: false for NaN.
    lt(state, a, b) state.compare(a, b, FloatCompare::Olt, IntCompare::Slt);
    /// Whether it is less or equal: false for NaN.
    le(state, a, b) state.compare(a, b, FloatCompare::Ole, IntCompare::Sle);
    /// Whether it is greater: false for NaN.
    gt(state, a, b) state.compare(a, b, FloatCompare::Ogt, IntCompare::Sgt);
    /// Whether it is greater or equal: false for NaN.
    ge(state, a, b) state.compare(a, b, FloatCompare::Oge, IntCompare::Sge);
    /// Whether they are equal: false for NaN.
    eq(state, a, b) state.compare(a, b, FloatCompare::Oeq, IntCompare::Eq);
    /// Whether they differ: true for NaN.
    ne(state, a, b) state.compare(a, b, FloatCompare::Une, IntCompare::Ne);
    /// Whether it is less, integers taken as unsigned.
    unsigned_lt(state, a, b) state.compare(a, b, FloatCompare::Olt, IntCompare::Ult);
    /// Whether it is greater or equal, integers taken as unsigned.
    unsigned_ge(state, a, b) state.compare(a, b, FloatCompare::Oge, IntCompare::Uge);
    /// The smaller; the number where one is NaN.
    minimum(state, a, b) state.extremum(a, b, (Some(Binary::MinNumF), Binary::MinSI));
    /// The larger; the number where one is NaN.
    maximum(state, a, b) state.extremum(a, b, (Some(Binary::MaxNumF), Binary::MaxSI));
    /// The smaller; NaN where one is NaN.
    minimum_nan(state, a, b) state.extremum(a, b, (Some(Binary::MinimumF), Binary::MinSI));
    /// The larger; NaN where one is NaN.
    maximum_nan(state, a, b) state.extremum(a, b, (Some(Binary::MaximumF), Binary::MaxSI));
    /// The quotient as a float: integers are converted to singles first. Python's `/`.
    true_div(state, a, b) {
        let (mut x, mut y) = state.pair(a, b, Mixing { division: true, ..Mixing::default() })?;
        if state.number(x)?.is_int() {
            (x, y) = (state.cast(x, Scalar::F32)?, state.cast(y, Scalar::F32)?);
        }
        let ty = state.ty(x);
        Ok(state.make(OpKind::Binary(Binary::DivF), &[x, y], ty))
    };
    /// The quotient of unsigned integers.
    unsigned_div(state, a, b) state.arithmetic(a, b, (None, Binary::DivUI), true);
    /// The remainder of unsigned integers.
    unsigned_rem(state, a, b) state.arithmetic(a, b, (None, Binary::RemUI), true);
    /// The bits shifted right, zeros coming in.
    unsigned_shr(state, a, b) state.arithmetic(a, b, (None, Binary::ShrUI), false);
    /// The high half of the product of unsigned integers.
    umulhi(state, a, b) {
        let (x, y) = state.pair(a, b, Mixing::default())?;
        let ty = state.ty(x);
        match ty.number() {
            Some(Scalar::I32 | Scalar::I64) => Ok(state.make(OpKind::Binary(Binary::MulhiUI), &[x, y], ty)),
            _ => Err(Fault::rule("i32 or i64 is needed", &[ty])),
        }
    };
    /// The quotient, correctly rounded, of singles.
    div_rn(state, a, b) {
        let (x, y) = state.pair(a, b, Mixing::default())?;
        let ty = state.ty(x);
        match ty.number() {
            Some(Scalar::F32) => Ok(state.make(OpKind::Binary(Binary::PreciseDivF), &[x, y], ty)),
            _ => Err(Fault::rule("f32 is needed", &[ty])),
        }
    };
    /// The quotient of integers rounded up, for a positive divisor: (x + (d − 1)) / d.
    cdiv(state, a, b) {
        let less = match b {
            Arg::Int(divisor) => Arg::Int(divisor.wrapping_sub(1)),
            _ => Arg::Value(state.sub(b, Arg::Int(1))?),
        };
        let sum = state.add(a, less)?;
        state.arithmetic(Arg::Value(sum), b, (None, Binary::DivSI), true)
    };
}

impl<'k> Tile<'k> {
    /// `yes` where this truth value holds, else `no`.
    #[track_caller]
    pub fn select(self, yes: impl Into<Operand<'k>>, no: impl Into<Operand<'k>>) -> Self {
        self.k.where_(self, yes, no)
    }

    /// Converted by Triton's rules: integers are signed, `i1` apart; a narrower float is the nearest, ties to even; a float
    /// becomes an integer by rounding to zero; `i1` is whether it is not zero.
    #[track_caller]
    pub fn to(self, scalar: Scalar) -> Self {
        self.map("to", |state, value| state.cast(value, scalar))
    }

    /// [`Tile::to`] with the integers read, or made, as unsigned: what Triton does with `tl.uint8` and its like.
    #[track_caller]
    pub fn to_unsigned(self, scalar: Scalar) -> Self {
        self.map("to_unsigned", |state, value| state.cast_unsigned(value, scalar))
    }

    /// A narrower float, rounded as asked.
    #[track_caller]
    pub fn to_rounded(self, scalar: Scalar, rounding: Rounding) -> Self {
        self.map("to_rounded", |state, value| state.cast_rounded(value, scalar, rounding))
    }

    /// The same bits as another type of the same width.
    #[track_caller]
    pub fn bitcast(self, scalar: Scalar) -> Self {
        self.map("bitcast", |state, value| state.bitcast(value, scalar.into()))
    }

    /// The same addresses, of another type of element.
    #[track_caller]
    pub fn bitcast_pointer(self, pointee: Scalar) -> Self {
        self.map("bitcast_pointer", |state, value| state.bitcast(value, Elem::Pointer(pointee)))
    }

    /// Its sign changed in the bits: −0 for +0. (The operator `-` is 0 − x.)
    #[track_caller]
    pub fn flip_sign(self) -> Self {
        self.map("flip_sign", |state, value| {
            let ty = state.ty(value);
            match ty.number().filter(|scalar| scalar.is_float()) {
                Some(_) => Ok(state.make(OpKind::Unary(crate::tile::Unary::NegF), &[value], ty)),
                None => Err(Fault::rule("a float is needed", &[ty])),
            }
        })
    }

    /// The address that these 64-bit integers are.
    #[track_caller]
    pub fn to_pointer(self, pointee: Scalar) -> Self {
        self.map("to_pointer", |state, value| {
            let ty = state.ty(value);
            match ty.number() {
                Some(Scalar::I64) => {
                    Ok(state.make(OpKind::Cast(Cast::IntToPtr), &[value], ty.with_elem(Elem::Pointer(pointee))))
                }
                _ => Err(Fault::rule("i64 is needed", &[ty])),
            }
        })
    }
}

impl KernelBuilder {
    /// `yes` where `condition` holds, else `no`. Both are evaluated.
    #[track_caller]
    pub fn where_<'k>(
        &'k self,
        condition: impl Into<Operand<'k>>,
        yes: impl Into<Operand<'k>>,
        no: impl Into<Operand<'k>>,
    ) -> Tile<'k> {
        let (condition, yes, no) = (self.arg(condition), self.arg(yes), self.arg(no));
        self.run("where", |state| state.select(condition, yes, no))
    }

    /// a·b + c, rounded once.
    #[track_caller]
    pub fn fma<'k>(
        &'k self,
        a: impl Into<Operand<'k>>,
        b: impl Into<Operand<'k>>,
        c: impl Into<Operand<'k>>,
    ) -> Tile<'k> {
        let (a, b, c) = (self.arg(a), self.arg(b), self.arg(c));
        self.run("fma", |state| {
            let (a, b) = state.pair(a, b, Mixing::default())?;
            let (c, a) = state.pair(c, Arg::Value(a), Mixing::default())?;
            let (c, b) = state.pair(Arg::Value(c), Arg::Value(b), Mixing::default())?;
            let ty: Type = state.ty(a);
            if !state.number(a)?.is_float() {
                return Err(Fault::rule("floats are needed", &[ty]));
            }
            Ok(state.make(OpKind::Fma, &[a, b, c], ty))
        })
    }
}
