//! `tt.dot_scaled` as arithmetic and a product of bfloats: what Triton does where no instruction takes the scales.
//!
//! Each operand becomes bfloat16 (exact for FP8) and is multiplied by its scale, 2 to the byte less 127, whose bits as a bfloat are the
//! byte shifted by 7; so byte 0 gives 0.0 and not 2⁻¹²⁷, as in Triton. A scale of 0xFF gives NaN unless the operation says `fastMath`.

use super::Error;
use crate::tile::{
    Binary, Cast, Func, InputPrecision, IntCompare, Op, OpKind, Scalar, ScaledFormat, Shape, Type, Value,
};

/// Rewrites every `tt.dot_scaled` of `func`.
pub(super) fn decompose(func: &mut Func) -> Result<(), Error> {
    for op in func.all_ops() {
        if matches!(func.op(op).kind, OpKind::DotScaled { .. }) {
            Rewrite { func, op }.run()?;
        }
    }
    Ok(())
}

/// Operations put in before the one that they replace.
struct Rewrite<'f> {
    func: &'f mut Func,
    op: Op,
}

impl Rewrite<'_> {
    fn unsupported(&self, what: impl Into<String>) -> Error {
        let data = self.func.op(self.op);
        Error::Unsupported { op: data.kind.name(), what: what.into(), loc: data.loc }
    }

    fn add(&mut self, kind: OpKind, operands: &[Value], ty: Type) -> Value {
        let (block, loc) = (self.func.op(self.op).block, self.func.op(self.op).loc);
        let at = self.func.block(block).ops.iter().position(|&other| other == self.op);
        let at = at.expect("an operation is in its block");
        let made = self.func.insert_op(block, at, kind, operands, &[ty], loc);
        self.func.result(made)
    }

    fn shape(&self, value: Value) -> Result<Shape, Error> {
        self.func.ty(value).shape().ok_or_else(|| self.unsupported(self.func.ty(value).to_string()))
    }

    fn shaped(&self, dims: &[u32]) -> Result<Shape, Error> {
        Shape::new(dims).map_err(|error| self.unsupported(error.to_string()))
    }

    fn run(mut self) -> Result<(), Error> {
        let data = self.func.op(self.op).clone();
        let OpKind::DotScaled { lhs, rhs, lhs_scale, rhs_scale, fast_math, .. } = data.kind else { return Ok(()) };
        let mut operands = data.operands.into_iter();
        let mut next = || operands.next().ok_or_else(|| self.unsupported("too few operands"));
        let a = next()?;
        let a_scale = if lhs_scale { Some(next()?) } else { None };
        let b = next()?;
        let b_scale = if rhs_scale { Some(next()?) } else { None };
        let c = next()?;
        for format in [lhs, rhs] {
            if !matches!(format, ScaledFormat::E4M3 | ScaledFormat::E5M2 | ScaledFormat::Bf16) {
                return Err(self.unsupported(format!("format {}", format.name())));
            }
        }
        let a = self.scaled(a, a_scale, fast_math, false)?;
        let b = self.scaled(b, b_scale, fast_math, true)?;
        let op = self.func.op_mut(self.op);
        op.kind = OpKind::Dot { precision: InputPrecision::Ieee, max_imprecise: 0 };
        op.operands = vec![a, b, c];
        Ok(())
    }

    /// An operand as bfloats, times its scales. Those of the right operand (k×n) are n×(k/group).
    fn scaled(&mut self, value: Value, scale: Option<Value>, fast_math: bool, right: bool) -> Result<Value, Error> {
        let shape = self.shape(value)?;
        let whole = Type::Tile(shape, Scalar::Bf16.into());
        let wide = match self.func.ty(value).number() {
            Some(Scalar::Bf16) => value,
            // FP8 may come as bytes.
            Some(Scalar::I8) => return Err(self.unsupported("an operand of bytes")),
            _ => self.add(OpKind::FpToFp(None), &[value], whole),
        };
        let Some(scale) = scale else { return Ok(wide) };
        if self.func.ty(scale).number() != Some(Scalar::I8) {
            return Err(self.unsupported(format!("scales of type {}", self.func.ty(scale))));
        }
        let groups = self.shape(scale)?;
        let tile = |scalar: Scalar| Type::Tile(groups, scalar.into());
        let bits = self.add(OpKind::Cast(Cast::ExtUI), &[scale], tile(Scalar::I16));
        let seven = self.add(OpKind::Constant(7), &[], tile(Scalar::I16));
        let bits = self.add(OpKind::Binary(Binary::ShlI), &[bits, seven], tile(Scalar::I16));
        let factor = self.add(OpKind::Cast(Cast::ArithBitcast), &[bits], tile(Scalar::Bf16));
        let factor = self.spread(factor, shape, right)?;
        let product = self.add(OpKind::Binary(Binary::MulF), &[wide, factor], whole);
        if fast_math {
            return Ok(product);
        }
        let all_ones = self.add(OpKind::Constant(0xff), &[], tile(Scalar::I8));
        let is_nan = self.add(OpKind::CmpI(IntCompare::Eq), &[scale, all_ones], tile(Scalar::I1));
        let is_nan = self.spread(is_nan, shape, right)?;
        let nan = self.add(OpKind::Constant(0x7fc0), &[], whole);
        Ok(self.add(OpKind::Select, &[is_nan, nan, product], whole))
    }

    /// One number for each group of k, repeated over the group.
    fn spread(&mut self, value: Value, shape: Shape, right: bool) -> Result<Value, Error> {
        let ty = self.func.ty(value);
        let elem = ty.elem().ok_or_else(|| self.unsupported(ty.to_string()))?;
        let groups = self.shape(value)?;
        let (count, axis) = (groups.dims()[1], if right { 0 } else { 1 });
        let group = shape.dims()[axis] / count;
        let value = if right {
            let turned = self.shaped(&[count, groups.dims()[0]])?;
            self.add(OpKind::Trans { order: vec![1, 0] }, &[value], Type::Tile(turned, elem))
        } else {
            value
        };
        let at = if right { 1 } else { 2 };
        let mut dims = self.shape(value)?.dims().to_vec();
        dims.insert(at, 1);
        let one = self.shaped(&dims)?;
        dims[at] = group;
        let many = self.shaped(&dims)?;
        let value = self.add(OpKind::ExpandDims { axis: at as u32 }, &[value], Type::Tile(one, elem));
        let value = self.add(OpKind::Broadcast, &[value], Type::Tile(many, elem));
        let reshape = OpKind::Reshape { allow_reorder: false, efficient_layout: false };
        Ok(self.add(reshape, &[value], Type::Tile(shape, elem)))
    }
}
