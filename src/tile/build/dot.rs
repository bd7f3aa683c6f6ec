//! Products of matrices.

use super::error::{Fault, Made};
use super::operand::Arg;
use super::state::State;
use super::{KernelBuilder, Tile};
use crate::tile::{InputPrecision, OpKind, Scalar, ScaledFormat, Shape, Type, Value};

/// The most products that Hopper sums in its short accumulator where nobody asks for less: all.
const ALL_IMPRECISE: u32 = 1 << 30;

/// How a product is made. The default is Triton's: singles are cut to TF32, and the sum is `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Dot<'k> {
    acc: Option<Tile<'k>>,
    precision: InputPrecision,
    out: Scalar,
    max_imprecise: Option<u32>,
}

impl Default for Dot<'_> {
    fn default() -> Self {
        Self { acc: None, precision: InputPrecision::Tf32, out: Scalar::F32, max_imprecise: None }
    }
}

impl<'k> Dot<'k> {
    /// The default but for how singles are multiplied.
    pub fn precision(precision: InputPrecision) -> Self {
        Self { precision, ..Self::default() }
    }

    /// The default but for what the product is added to.
    pub fn onto(acc: Tile<'k>) -> Self {
        Self::default().acc(acc)
    }

    /// What the product is added to.
    #[must_use]
    pub fn acc(self, acc: Tile<'k>) -> Self {
        Self { acc: Some(acc), ..self }
    }

    /// The type of the result of FP8 and `f16` products: `f32`, or `f16`.
    #[must_use]
    pub fn out(self, out: Scalar) -> Self {
        Self { out, ..self }
    }

    /// The most products of FP8 that Hopper may sum in its short accumulator before adding them in singles.
    #[must_use]
    pub fn max_imprecise(self, most: u32) -> Self {
        Self { max_imprecise: Some(most), ..self }
    }
}

/// One operand of [`KernelBuilder::dot_scaled`].
#[derive(Clone, Copy, Debug)]
pub struct ScaledOperand<'k> {
    tile: Tile<'k>,
    scale: Option<Tile<'k>>,
    format: ScaledFormat,
    k_pack: bool,
}

impl<'k> ScaledOperand<'k> {
    /// Elements of `format`, without scales. FP4 comes two to an `i8`, packed along the inner axis of the product.
    pub fn new(tile: Tile<'k>, format: ScaledFormat) -> Self {
        Self { tile, scale: None, format, k_pack: true }
    }

    /// One scale for 32 elements along the inner axis: e8m0 exponents as `i8`, rows of the operand (columns, for the right one)
    /// × groups. For FP8 e4m3 scales, 16 elements.
    #[must_use]
    pub fn scale(self, scale: Tile<'k>) -> Self {
        Self { scale: Some(scale), ..self }
    }

    /// FP4 packed along the outer axis.
    #[must_use]
    pub fn packed_outer(self) -> Self {
        Self { k_pack: false, ..self }
    }
}

/// The extents of a product: outer, inner, outer, with the batch in front where there is one.
struct Extents {
    batch: Option<u32>,
    m: u32,
    k_left: u32,
    k_right: u32,
    n: u32,
}

impl State {
    fn extents(&self, a: Value, b: Value) -> Made<Extents> {
        let (left, right) = (self.shape(a)?, self.shape(b)?);
        match (left.dims(), right.dims()) {
            (&[m, k_left], &[k_right, n]) => Ok(Extents { batch: None, m, k_left, k_right, n }),
            (&[x, m, k_left], &[y, k_right, n]) if x == y => Ok(Extents { batch: Some(x), m, k_left, k_right, n }),
            _ => Err(Fault::rule("two matrices, or two batches of as many, are needed", &[self.ty(a), self.ty(b)])),
        }
    }

    /// The accumulator, which must have the type `ty`, or zeros of it.
    fn accumulator(&mut self, acc: Option<Arg>, ty: Type) -> Made<Value> {
        let Some(arg) = acc else { return self.int_constant(0, ty) };
        let acc = self.value(arg)?;
        if self.ty(acc) == ty {
            return Ok(acc);
        }
        Err(Fault::rule(format!("the accumulator has the type of the result, {ty}"), &[self.ty(acc)]))
    }

    fn dot(&mut self, a: Value, b: Value, acc: Option<Arg>, options: &Dot<'_>) -> Made<Value> {
        use Scalar::{Bf16, F8E4M3, F8E5M2, F16, F32, F64, I8, I32};
        let types = [self.ty(a), self.ty(b)];
        let (x, y) = (self.number(a)?, self.number(b)?);
        let fp8 = matches!((x, y), (F8E4M3 | F8E5M2, F8E4M3 | F8E5M2));
        if !fp8 && (x != y || !matches!(x, I8 | F16 | Bf16 | F32 | F64)) {
            return Err(Fault::rule("both are of one type: i8, f16, bf16, f32, f64, or both of FP8", &types));
        }
        let Extents { batch, m, k_left, k_right, n } = self.extents(a, b)?;
        if k_left != k_right {
            return Err(Fault::rule(format!("the inner extents {k_left} and {k_right} differ"), &types));
        }
        let least = if x.bits() == 8 { 32 } else { 16 };
        if k_left < least {
            return Err(Fault::rule(format!("the inner extent is {k_left}: {least} is the least for {x}"), &types));
        }
        let out = match x {
            I8 => I32,
            F32 | Bf16 => F32,
            F64 => F64,
            _ if matches!(options.out, F16 | F32) => options.out,
            _ => return Err(Fault::rule(format!("the product of {x} is f32 or f16, not {}", options.out), &types)),
        };
        let dims: Vec<u32> = batch.into_iter().chain([m, n]).collect();
        let ty = Type::Tile(Shape::new(&dims)?, out.into());
        let acc = self.accumulator(acc, ty)?;
        let max_imprecise = match options.max_imprecise {
            Some(most) if fp8 && most > k_left => {
                return Err(Fault::rule(
                    format!("{most} imprecise products are more than {k_left}, the inner extent"),
                    &types,
                ));
            }
            Some(most) => most,
            None if fp8 => ALL_IMPRECISE,
            None => 0,
        };
        Ok(self.make(OpKind::Dot { precision: options.precision, max_imprecise }, &[a, b, acc], ty))
    }

    /// The operand in the type that its format has.
    fn scaled_operand(&mut self, value: Value, format: ScaledFormat) -> Made<Value> {
        let scalar = match format {
            ScaledFormat::E4M3 => Scalar::F8E4M3,
            ScaledFormat::E5M2 => Scalar::F8E5M2,
            ScaledFormat::E2M1 => Scalar::I8,
            ScaledFormat::Bf16 => Scalar::Bf16,
            ScaledFormat::Fp16 => Scalar::F16,
        };
        self.bitcast(value, scalar.into())
    }

    fn check_scale(&self, scale: Option<Value>, outer: u32, inner: u32) -> Made<()> {
        let Some(scale) = scale else { return Ok(()) };
        let group = if self.number(scale)? == Scalar::F8E4M3 { 16 } else { 32 };
        if self.shape(scale)?.dims().ends_with(&[outer, inner / group]) {
            return Ok(());
        }
        Err(Fault::rule(format!("the scales have {outer} × {} elements", inner / group), &[self.ty(scale)]))
    }
}

impl KernelBuilder {
    /// The product of two matrices, or of two batches of them.
    #[track_caller]
    pub fn dot<'k>(&'k self, a: Tile<'k>, b: Tile<'k>) -> Tile<'k> {
        self.dot_with(a, b, Dot::default())
    }

    /// [`KernelBuilder::dot`] as asked: `k.dot_with(a, b, Dot::precision(InputPrecision::Tf32x3).acc(c))`.
    #[track_caller]
    pub fn dot_with<'k>(&'k self, a: Tile<'k>, b: Tile<'k>, options: Dot<'k>) -> Tile<'k> {
        let (a, b, acc) = (self.arg(a), self.arg(b), options.acc.map(|acc| self.arg(acc)));
        self.run("dot", |state| {
            let (a, b) = (state.value(a)?, state.value(b)?);
            state.dot(a, b, acc, &options)
        })
    }

    /// The product of block-scaled matrices, in `f32`, added to `acc` where there is one.
    #[track_caller]
    pub fn dot_scaled<'k>(&'k self, a: ScaledOperand<'k>, b: ScaledOperand<'k>, acc: Option<Tile<'k>>) -> Tile<'k> {
        let [left, right] = [a, b].map(|operand| (self.arg(operand.tile), operand.scale.map(|scale| self.arg(scale))));
        let acc = acc.map(|acc| self.arg(acc));
        self.run("dot_scaled", |state| {
            let (x, y) = (state.value(left.0)?, state.value(right.0)?);
            let (x, y) = (state.scaled_operand(x, a.format)?, state.scaled_operand(y, b.format)?);
            let types = [state.ty(x), state.ty(y)];
            if [a, b].iter().any(|operand| !operand.k_pack && operand.format != ScaledFormat::E2M1) {
                return Err(Fault::rule("only e2m1 is packed", &types));
            }
            let Extents { batch, mut m, mut k_left, mut k_right, mut n } = state.extents(x, y)?;
            // Two elements of FP4 to a byte, along one axis or the other.
            for (operand, inner, outer) in [(a, &mut k_left, &mut m), (b, &mut k_right, &mut n)] {
                if operand.format == ScaledFormat::E2M1 {
                    *(if operand.k_pack { inner } else { outer }) *= 2;
                }
            }
            if k_left != k_right {
                return Err(Fault::rule(format!("the inner extents {k_left} and {k_right} differ"), &types));
            }
            let scale = |state: &mut State, arg: Option<Arg>| arg.map(|arg| state.value(arg)).transpose();
            let (left_scale, right_scale) = (scale(state, left.1)?, scale(state, right.1)?);
            state.check_scale(left_scale, m, k_left)?;
            state.check_scale(right_scale, n, k_left)?;
            let dims: Vec<u32> = batch.into_iter().chain([m, n]).collect();
            let ty = Type::Tile(Shape::new(&dims)?, Scalar::F32.into());
            let acc = state.accumulator(acc, ty)?;
            let mut operands = vec![x];
            operands.extend(left_scale);
            operands.push(y);
            operands.extend(right_scale);
            operands.push(acc);
            let kind = OpKind::DotScaled {
                lhs: a.format,
                rhs: b.format,
                lhs_scale: left_scale.is_some(),
                rhs_scale: right_scale.is_some(),
                fast_math: false,
                lhs_k_pack: a.k_pack,
                rhs_k_pack: b.k_pack,
            };
            Ok(state.make(kind, &operands, ty))
        })
    }
}
