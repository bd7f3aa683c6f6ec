//! Functions of one number.

use super::error::{Fault, Made};
use super::state::{Mixing, State};
use super::{Operand, Tile};
use crate::tile::{OpKind, Scalar, Unary, Value};

impl State {
    /// A function of singles and doubles, as Triton's are.
    fn function(&mut self, op: Unary, value: Value, allowed: &[Scalar]) -> Made<Value> {
        let ty = self.ty(value);
        if ty.number().is_some_and(|scalar| allowed.contains(&scalar)) {
            return Ok(self.make(OpKind::Unary(op), &[value], ty));
        }
        let list = allowed.iter().map(|scalar| scalar.name()).collect::<Vec<_>>().join(" or ");
        Err(Fault::rule(format!("{list} is needed: convert with `.to(..)`"), &[ty]))
    }
}

const WIDE: &[Scalar] = &[Scalar::F32, Scalar::F64];

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $op:ident, $allowed:expr;)*) => {
        impl<'k> Tile<'k> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self) -> Self {
                self.map(stringify!($name), |state, value| state.function(Unary::$op, value, $allowed))
            }
        )*}
    };
}

functions! {
    /// e to the power.
    exp: Exp, WIDE;
    /// 2 to the power: `ex2.approx.ftz` for singles.
    exp2: Exp2, WIDE;
    /// Natural logarithm.
    log: Log, WIDE;
    /// Logarithm to base 2.
    log2: Log2, WIDE;
    /// Square root: `sqrt.approx.ftz` for singles.
    sqrt: Sqrt, WIDE;
    /// Reciprocal square root: `rsqrt.approx.ftz` for singles.
    rsqrt: Rsqrt, WIDE;
    /// Square root of singles, correctly rounded.
    sqrt_rn: PreciseSqrt, &[Scalar::F32];
    /// Sine.
    sin: Sin, WIDE;
    /// Cosine.
    cos: Cos, WIDE;
    /// Error function.
    erf: Erf, WIDE;
    /// Rounded down.
    floor: Floor, WIDE;
    /// Rounded up.
    ceil: Ceil, WIDE;
}

impl<'k> Tile<'k> {
    /// Magnitude, of floats or of signed integers.
    #[track_caller]
    pub fn abs(self) -> Self {
        self.map("abs", |state, value| {
            let ty = state.ty(value);
            match state.number(value)? {
                Scalar::I1 => Ok(value),
                Scalar::F8E4M3 | Scalar::F8E5M2 => Err(Fault::rule("FP8 has no magnitude: go by way of f32", &[ty])),
                scalar => {
                    let op = if scalar.is_float() { Unary::AbsF } else { Unary::AbsI };
                    Ok(state.make(OpKind::Unary(op), &[value], ty))
                }
            }
        })
    }

    /// Held between two floats; the lower bound where it is NaN.
    #[track_caller]
    pub fn clamp(self, low: impl Into<Operand<'k>>, high: impl Into<Operand<'k>>) -> Self {
        self.clamped("clamp", low, high, false)
    }

    /// Held between two floats; NaN where it is NaN.
    #[track_caller]
    pub fn clamp_nan(self, low: impl Into<Operand<'k>>, high: impl Into<Operand<'k>>) -> Self {
        self.clamped("clamp_nan", low, high, true)
    }

    #[track_caller]
    fn clamped(
        self,
        operation: &'static str,
        low: impl Into<Operand<'k>>,
        high: impl Into<Operand<'k>>,
        propagate_nan: bool,
    ) -> Self {
        let (x, low, high) = (self.k.arg(self), self.k.arg(low), self.k.arg(high));
        self.k.run(operation, |state| {
            use super::operand::Arg::Value;
            let [x, low, high] = [state.without_bf16(x)?, state.without_bf16(low)?, state.without_bf16(high)?];
            let (low, high) = state.pair(low, high, Mixing::default())?;
            let (x, low) = state.pair(x, Value(low), Mixing::default())?;
            let (x, high) = state.pair(Value(x), Value(high), Mixing::default())?;
            // The bounds may have met a wider tile than the first of them did.
            let (x, low) = state.pair(Value(x), Value(low), Mixing::default())?;
            let ty = state.ty(x);
            if !state.number(x)?.is_float() {
                return Err(Fault::rule("floats are needed", &[ty]));
            }
            Ok(state.make(OpKind::ClampF { propagate_nan }, &[x, low, high], ty))
        })
    }
}
