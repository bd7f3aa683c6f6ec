//! Conversions between types, by Triton's rules.

use super::error::{Fault, Made};
use super::state::State;
use crate::tile::{Binary, Cast, Elem, FloatCompare, IntCompare, OpKind, Rounding, Scalar, Type, Value};

impl State {
    /// `value` as `to`: integers are signed but for `i1`, floats go to the nearest even.
    pub(super) fn cast(&mut self, value: Value, to: Scalar) -> Made<Value> {
        let ty = self.ty(value);
        let from = match self.elem(value)? {
            Elem::Value(scalar) => scalar,
            Elem::Pointer(_) if to == Scalar::I64 => return Ok(self.convert(Cast::PtrToInt, value, to)),
            Elem::Pointer(_) => return Err(Fault::rule(format!("an address becomes an i64, not {to}"), &[ty])),
        };
        if from == to {
            return Ok(value);
        }
        let fp8 = |scalar| matches!(scalar, Scalar::F8E4M3 | Scalar::F8E5M2);
        if from.is_float() && to.is_float() {
            if fp8(from) || fp8(to) {
                let rounding = (to.bits() < from.bits()).then_some(Rounding::Rtne);
                return Ok(self.make(OpKind::FpToFp(rounding), &[value], ty.with_elem(to)));
            }
            // Between the two half types, and to doubles, by way of singles.
            if matches!(from, Scalar::F16 | Scalar::Bf16) && to != Scalar::F32 {
                let single = self.cast(value, Scalar::F32)?;
                return self.cast(single, to);
            }
            let cast = if to.bits() < from.bits() { Cast::TruncF } else { Cast::ExtF };
            return Ok(self.convert(cast, value, to));
        }
        if fp8(from) || fp8(to) {
            return Err(Fault::rule(format!("{from} does not become {to} at once: go by way of f32"), &[ty]));
        }
        if matches!(from, Scalar::F16 | Scalar::Bf16) {
            let single = self.cast(value, Scalar::F32)?;
            return self.cast(single, to);
        }
        if to == Scalar::I1 {
            let zero = self.constant_like(0, ty)?;
            let compare = if from.is_float() { OpKind::CmpF(FloatCompare::Une) } else { OpKind::CmpI(IntCompare::Ne) };
            return Ok(self.make(compare, &[value, zero], ty.with_elem(Scalar::I1)));
        }
        Ok(match (from.is_float(), to.is_float()) {
            (false, false) if to.bits() < from.bits() => self.convert(Cast::TruncI, value, to),
            (false, false) if from == Scalar::I1 => self.convert(Cast::ExtUI, value, to),
            (false, false) => self.convert(Cast::ExtSI, value, to),
            (true, _) => self.convert(Cast::FPToSI, value, to),
            (false, true) if from == Scalar::I1 => self.convert(Cast::UIToFP, value, to),
            (false, true) => self.convert(Cast::SIToFP, value, to),
        })
    }

    /// [`State::cast`] with integers read and made as unsigned.
    pub(super) fn cast_unsigned(&mut self, value: Value, to: Scalar) -> Made<Value> {
        let from = self.number(value)?;
        Ok(match (from.is_int(), to.is_int()) {
            (true, true) if to.bits() > from.bits() => self.convert(Cast::ExtUI, value, to),
            (true, false) if to.bits() >= 16 => self.convert(Cast::UIToFP, value, to),
            (false, true) if to != Scalar::I1 && from.bits() >= 32 => self.convert(Cast::FPToUI, value, to),
            _ => self.cast(value, to)?,
        })
    }

    /// [`State::cast`] of a float to a narrower one, rounded as asked.
    pub(super) fn cast_rounded(&mut self, value: Value, to: Scalar, rounding: Rounding) -> Made<Value> {
        let ty = self.ty(value);
        let from = self.number(value)?;
        if !from.is_float() || !to.is_float() || to.bits() >= from.bits() {
            let rule = format!("a rounding belongs to a conversion of a float to a narrower float, not to {to}");
            return Err(Fault::rule(rule, &[ty]));
        }
        match rounding {
            Rounding::Rtne => self.cast(value, to),
            Rounding::Rtz => Ok(self.make(OpKind::FpToFp(Some(rounding)), &[value], ty.with_elem(to))),
        }
    }

    /// The same bits as another number, or an address of another type.
    pub(super) fn bitcast(&mut self, value: Value, to: Elem) -> Made<Value> {
        let ty = self.ty(value);
        let from = self.elem(value)?;
        if from == to {
            return Ok(value);
        }
        let cast = match (from, to) {
            (Elem::Pointer(_), Elem::Pointer(_)) | (Elem::Value(_), Elem::Value(_)) => Cast::Bitcast,
            (Elem::Value(_), Elem::Pointer(_)) => Cast::IntToPtr,
            (Elem::Pointer(_), Elem::Value(_)) => Cast::PtrToInt,
        };
        let integer = |elem: Elem| elem.scalar().is_none_or(|scalar| scalar == Scalar::I64);
        let pointers = from.pointee().is_some() || to.pointee().is_some();
        if from.bits() != to.bits() || (pointers && !(integer(from) && integer(to))) {
            return Err(Fault::rule(format!("the bits of {from} are not those of a {to}"), &[ty]));
        }
        Ok(self.make(OpKind::Cast(cast), &[value], ty.with_elem(to)))
    }

    /// The constant `value` in the type of another value.
    pub(super) fn constant_like(&mut self, value: i64, ty: Type) -> Made<Value> {
        self.int_constant(value, ty)
    }

    /// 0 − `value`, which is what Triton's minus is: +0 for both zeros.
    pub(super) fn negate(&mut self, value: Value) -> Made<Value> {
        let ty = self.ty(value);
        let scalar = self.number(value)?;
        let zero = self.constant_like(0, ty)?;
        let op = if scalar.is_float() { Binary::SubF } else { Binary::SubI };
        Ok(self.make(OpKind::Binary(op), &[zero, value], ty))
    }

    fn convert(&mut self, cast: Cast, value: Value, to: Scalar) -> Value {
        let ty = self.ty(value).with_elem(to);
        self.make(OpKind::Cast(cast), &[value], ty)
    }
}
