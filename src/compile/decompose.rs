//! Products that no instruction does as arithmetic and products that one does, as Triton does them.
//!
//! `tt.dot` of FP8 is one of halves, where the tensor cores do not take it from tensor memory: they hold FP8 exactly. In precision `bf16x3` or `bf16x6` singles are sums of two or three bfloats, whose products
//! are added from the smallest; what became NaN before the largest (an infinity less itself) counts as zero, and c comes last.
//!
//! `tt.dot_scaled` with both scales of FP8, or FP4 as FP8 (which holds it exactly), is left to the tensor cores where they take it from tensor
//! memory: a scale's byte is then 2 to it less 127, also byte 0, and 0xFF is NaN. Elsewhere it is arithmetic and a product of bfloats, or of
//! halves where a format is `fp16`.
//!
//! Each operand becomes bfloat16 (exact for FP8) and is multiplied by its scale, 2 to the byte less 127, whose bits as a bfloat are the
//! byte shifted by 7; so byte 0 gives 0.0 and not 2⁻¹²⁷, as in Triton. A scale of 0xFF gives NaN unless the operation says `fastMath`.

use super::tensor::{takes_bytes, takes_scaled};
use super::{Error, Options};
use crate::tile::{
    Binary, Cast, FloatCompare, Func, InputPrecision, IntCompare, Op, OpKind, Rounding, Scalar, ScaledFormat, Shape,
    Type, Value, float_bits,
};

/// Rewrites every such product of `func`.
pub(super) fn decompose(func: &mut Func, options: &Options) -> Result<(), Error> {
    for op in func.all_ops() {
        let rewrite = Rewrite { func, op, options };
        match rewrite.func.op(op).kind {
            OpKind::DotScaled { .. } => rewrite.run()?,
            OpKind::Dot { precision, .. } => rewrite.plain(precision)?,
            _ => {}
        }
    }
    Ok(())
}

fn is_fp8(ty: Type) -> bool {
    matches!(ty.number(), Some(Scalar::F8E4M3 | Scalar::F8E5M2))
}

/// Operations put in before the one that they replace.
struct Rewrite<'f> {
    func: &'f mut Func,
    op: Op,
    options: &'f Options,
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

    /// A `tt.dot`.
    fn plain(mut self, precision: InputPrecision) -> Result<(), Error> {
        let operands = self.func.op(self.op).operands.clone();
        let types: Vec<Type> = operands.iter().map(|&value| self.func.ty(value)).collect();
        if is_fp8(types[0]) && is_fp8(types[1]) {
            if let ([m, k], [_, n]) = (self.shape(operands[0])?.dims(), self.shape(operands[1])?.dims())
                && types[2].number() == Some(Scalar::F32)
                && takes_bytes([*m, *k, *n], self.options.arch, self.options.num_warps)
            {
                return Ok(());
            }
            for side in 0..2 {
                let half = types[side].with_elem(Scalar::F16);
                let widened = self.add(OpKind::FpToFp(None), &[operands[side]], half);
                self.func.op_mut(self.op).operands[side] = widened;
            }
            return Ok(());
        }
        let count = match precision {
            InputPrecision::Bf16x3 => 2,
            InputPrecision::Bf16x6 => 3,
            _ => return Ok(()),
        };
        if types[0].number() != Some(Scalar::F32) {
            return Ok(());
        }
        let (a, b) = (self.bfloats(operands[0], count), self.bfloats(operands[1], count));
        // The parts' numbers, smallest products first. Those of the same size keep Triton's order.
        let order: &[(usize, usize)] = match count {
            2 => &[(1, 0), (0, 1)],
            _ => &[(1, 1), (2, 0), (0, 2), (1, 0), (0, 1)],
        };
        let sum = types[2];
        let zero = self.add(OpKind::Constant(0), &[], sum);
        let product = || OpKind::Dot { precision: InputPrecision::Ieee, max_imprecise: 0 };
        let mut small = zero;
        for &(left, right) in order {
            small = self.add(product(), &[a[left], b[right], small], sum);
        }
        let nan = self.add(OpKind::CmpF(FloatCompare::Uno), &[small, small], sum.with_elem(Scalar::I1));
        let small = self.add(OpKind::Select, &[nan, zero, small], sum);
        let all = self.add(product(), &[a[0], b[0], small], sum);
        let op = self.func.op_mut(self.op);
        op.kind = OpKind::Binary(Binary::AddF);
        op.operands = vec![all, operands[2]];
        Ok(())
    }

    /// A tile of singles as a sum of bfloats, the largest first.
    fn bfloats(&mut self, value: Value, count: usize) -> Vec<Value> {
        let whole = self.func.ty(value);
        let mut rest = value;
        let mut parts = Vec::new();
        for index in 0..count {
            let part = self.add(OpKind::Cast(Cast::TruncF), &[rest], whole.with_elem(Scalar::Bf16));
            parts.push(part);
            if index + 1 < count {
                let back = self.add(OpKind::Cast(Cast::ExtF), &[part], whole);
                rest = self.add(OpKind::Binary(Binary::SubF), &[rest, back], whole);
            }
        }
        parts
    }

    fn run(mut self) -> Result<(), Error> {
        let data = self.func.op(self.op).clone();
        let OpKind::DotScaled { lhs, rhs, lhs_scale, rhs_scale, fast_math, lhs_k_pack, rhs_k_pack } = data.kind else {
            return Ok(());
        };
        let mut operands = data.operands.into_iter();
        let mut next = || operands.next().ok_or_else(|| self.unsupported("too few operands"));
        let a = next()?;
        let a_scale = if lhs_scale { Some(next()?) } else { None };
        let b = next()?;
        let b_scale = if rhs_scale { Some(next()?) } else { None };
        let c = next()?;
        if let (Some(a_scale), Some(b_scale)) = (a_scale, b_scale)
            && self.takes_scaled([lhs, rhs], [a, b, c], [a_scale, b_scale])?
        {
            let a = if lhs == ScaledFormat::E2M1 { self.bytes_of_fp4(a, false)? } else { a };
            let b = if rhs == ScaledFormat::E2M1 { self.bytes_of_fp4(b, true)? } else { b };
            let op = self.func.op_mut(self.op);
            let fp8 = |format| if format == ScaledFormat::E2M1 { ScaledFormat::E4M3 } else { format };
            op.kind = OpKind::DotScaled {
                lhs: fp8(lhs),
                rhs: fp8(rhs),
                lhs_scale,
                rhs_scale,
                fast_math,
                lhs_k_pack,
                rhs_k_pack,
            };
            op.operands = vec![a, a_scale, b, b_scale, c];
            return Ok(());
        }
        if !lhs_k_pack || !rhs_k_pack {
            return Err(self.unsupported("an operand that is not packed along k"));
        }
        let is_half = [lhs, rhs].contains(&ScaledFormat::Fp16);
        let wide = if is_half { Scalar::F16 } else { Scalar::Bf16 };
        let a = if lhs == ScaledFormat::E2M1 { self.unpacked(a, wide, false)? } else { a };
        let b = if rhs == ScaledFormat::E2M1 { self.unpacked(b, wide, true)? } else { b };
        let a = self.scaled(a, a_scale, fast_math, false, wide)?;
        let b = self.scaled(b, b_scale, fast_math, true, wide)?;
        let op = self.func.op_mut(self.op);
        op.kind = OpKind::Dot { precision: InputPrecision::Ieee, max_imprecise: 0 };
        op.operands = vec![a, b, c];
        Ok(())
    }

    /// Whether the tensor cores take the scaled product from tensor memory.
    fn takes_scaled(&self, formats: [ScaledFormat; 2], tiles: [Value; 3], scales: [Value; 2]) -> Result<bool, Error> {
        let OpKind::DotScaled { lhs_k_pack: true, rhs_k_pack: true, .. } = self.func.op(self.op).kind else {
            return Ok(false);
        };
        let [a, b, c] = tiles;
        let types = [a, b].map(|value| self.func.ty(value));
        let fits = formats.into_iter().zip(types).all(|(format, ty)| match format {
            ScaledFormat::E4M3 => ty.number() == Some(Scalar::F8E4M3),
            ScaledFormat::E5M2 => ty.number() == Some(Scalar::F8E5M2),
            ScaledFormat::E2M1 => ty.number() == Some(Scalar::I8),
            _ => false,
        });
        let (&[m, k], &[_, n]) = (self.shape(a)?.dims(), self.shape(b)?.dims()) else { return Ok(false) };
        let k = if formats[0] == ScaledFormat::E2M1 { 2 * k } else { k };
        let by_32 = |scale: Value| -> Result<bool, Error> {
            Ok(self.func.ty(scale).number() == Some(Scalar::I8) && self.shape(scale)?.dims()[1] * 32 == k)
        };
        Ok(fits
            && self.func.ty(c).number() == Some(Scalar::F32)
            && by_32(scales[0])?
            && by_32(scales[1])?
            && takes_scaled([m, k, n], self.options.arch, self.options.num_warps))
    }

    /// FP4, two to a byte along k, as FP8 (e4m3): 0, 0.5, 1, 1.5, 2, 3, 4, 6. From 1 on the fraction's bit and the exponent's two lie as they do
    /// there, the exponent less by 6; below it they do not.
    fn bytes_of_fp4(&mut self, value: Value, right: bool) -> Result<Value, Error> {
        let tile = |this: &Self, scalar: Scalar| Ok::<_, Error>(Type::Tile(this.shape(value)?, scalar.into()));
        let (bytes, bits, fp8) = (tile(self, Scalar::I8)?, tile(self, Scalar::I1)?, tile(self, Scalar::F8E4M3)?);
        let mut halves = Vec::new();
        for low in [0_u64, 4] {
            let with = |this: &mut Self, kind: Binary, of: Value, by: u64| {
                let by = this.add(OpKind::Constant(by), &[], bytes);
                this.add(OpKind::Binary(kind), &[of, by], bytes)
            };
            let code = with(self, Binary::ShrUI, value, low);
            let size = with(self, Binary::AndI, code, 7);
            let sign = with(self, Binary::AndI, code, 8);
            let sign = with(self, Binary::ShlI, sign, 4);
            let moved = with(self, Binary::ShlI, size, 2);
            let mut made = with(self, Binary::AddI, moved, 0x30);
            for (small, byte) in [(1, 0x30), (0, 0)] {
                let small = self.add(OpKind::Constant(small), &[], bytes);
                let is_small = self.add(OpKind::CmpI(IntCompare::Eq), &[size, small], bits);
                let byte = self.add(OpKind::Constant(byte), &[], bytes);
                made = self.add(OpKind::Select, &[is_small, byte, made], bytes);
            }
            let made = self.add(OpKind::Binary(Binary::OrI), &[made, sign], bytes);
            halves.push(self.add(OpKind::Cast(Cast::ArithBitcast), &[made], fp8));
        }
        self.woven([halves[0], halves[1]], right)
    }

    /// FP4, two to a byte along k, the first in the low half. Sign, two bits of exponent, one of fraction: moved to the top of a float of 16
    /// bits (its subnormals included) they are the number but for a power of two.
    fn unpacked(&mut self, value: Value, wide: Scalar, right: bool) -> Result<Value, Error> {
        let shape = self.shape(value)?;
        if self.func.ty(value).number() != Some(Scalar::I8) {
            return Err(self.unsupported(self.func.ty(value).to_string()));
        }
        // The place of the exponent's lowest bit, and 2 to the difference of the biases.
        let (place, power) = if wide == Scalar::F16 { (10, 14.0_f64) } else { (7, 126.0_f64) };
        let tile = |scalar: Scalar| Type::Tile(shape, scalar.into());
        let bits = self.add(OpKind::Cast(Cast::ExtUI), &[value], tile(Scalar::I16));
        let mut halves = Vec::new();
        for low in [0_u32, 4] {
            let part = |this: &mut Self, mask: u64, from: u32, to: u32| {
                let mask = this.add(OpKind::Constant(mask), &[], tile(Scalar::I16));
                let kept = this.add(OpKind::Binary(Binary::AndI), &[bits, mask], tile(Scalar::I16));
                let (kind, by) = if to >= from { (Binary::ShlI, to - from) } else { (Binary::ShrUI, from - to) };
                let by = this.add(OpKind::Constant(by.into()), &[], tile(Scalar::I16));
                this.add(OpKind::Binary(kind), &[kept, by], tile(Scalar::I16))
            };
            let size = part(self, 7 << low, low, place - 1);
            let sign = part(self, 8 << low, low + 3, 15);
            let both = self.add(OpKind::Binary(Binary::OrI), &[size, sign], tile(Scalar::I16));
            let small = self.add(OpKind::Cast(Cast::ArithBitcast), &[both], tile(wide));
            let factor = float_bits(wide, power.exp2()).ok_or_else(|| self.unsupported(wide.name()))?;
            let factor = self.add(OpKind::Constant(factor), &[], tile(wide));
            halves.push(self.add(OpKind::Binary(Binary::MulF), &[small, factor], tile(wide)));
        }
        self.woven([halves[0], halves[1]], right)
    }

    /// The elements of two tiles in turn along k.
    fn woven(&mut self, halves: [Value; 2], right: bool) -> Result<Value, Error> {
        let shape = self.shape(halves[0])?;
        let wide = self.func.ty(halves[0]).number().ok_or_else(|| self.unsupported("addresses"))?;
        let (rows, columns) = (shape.dims()[0], shape.dims()[1]);
        let pairs = self.shaped(&[rows, columns, 2])?;
        let joined = self.add(OpKind::Join, &halves, Type::Tile(pairs, wide.into()));
        let reshape = OpKind::Reshape { allow_reorder: false, efficient_layout: false };
        if !right {
            let whole = self.shaped(&[rows, 2 * columns])?;
            return Ok(self.add(reshape, &[joined], Type::Tile(whole, wide.into())));
        }
        let turned = self.shaped(&[rows, 2, columns])?;
        let turned = self.add(OpKind::Trans { order: vec![0, 2, 1] }, &[joined], Type::Tile(turned, wide.into()));
        let whole = self.shaped(&[2 * rows, columns])?;
        Ok(self.add(reshape, &[turned], Type::Tile(whole, wide.into())))
    }

    /// An operand as bfloats (or halves), times its scales. Those of the right operand (k×n) are n×(k/group).
    fn scaled(
        &mut self,
        value: Value,
        scale: Option<Value>,
        fast_math: bool,
        right: bool,
        wide: Scalar,
    ) -> Result<Value, Error> {
        let shape = self.shape(value)?;
        let whole = Type::Tile(shape, wide.into());
        let kind = wide;
        let wide = match self.func.ty(value).number() {
            Some(found) if found == kind => value,
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
        let factor = if kind == Scalar::Bf16 {
            factor
        } else {
            self.add(OpKind::FpToFp(Some(Rounding::Rtne)), &[factor], tile(kind))
        };
        let factor = self.spread(factor, shape, right)?;
        let product = self.add(OpKind::Binary(Binary::MulF), &[wide, factor], whole);
        if fast_math {
            return Ok(product);
        }
        let all_ones = self.add(OpKind::Constant(0xff), &[], tile(Scalar::I8));
        let is_nan = self.add(OpKind::CmpI(IntCompare::Eq), &[scale, all_ones], tile(Scalar::I1));
        let is_nan = self.spread(is_nan, shape, right)?;
        let nan = self.add(OpKind::Constant(if kind == Scalar::Bf16 { 0x7fc0 } else { 0x7e00 }), &[], whole);
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
