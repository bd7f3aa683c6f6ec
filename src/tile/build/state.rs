//! The function under construction, and the rules that all operations share: literals, promotion, broadcasting.

use std::panic::Location;

use super::error::{BuildError, Fault, Made};
use super::operand::Arg;
use crate::tile::{Block, Elem, Func, Loc, Op, OpKind, Scalar, Shape, Type, Value, float_bits, int_bits};

/// The function, the place where the next operation goes, and the first mistake.
#[derive(Debug)]
pub(super) struct State {
    pub(super) func: Func,
    /// The block that operations are put at the end of.
    pub(super) at: Block,
    pub(super) error: Option<BuildError>,
    /// Where the operation at hand was written.
    pub(super) location: &'static Location<'static>,
    /// How many regions the next operation is inside.
    pub(super) depth: u32,
}

/// How literals and mixed types of a binary operation are treated.
#[derive(Clone, Copy, Default)]
pub(super) struct Mixing {
    /// The left operand may be an address.
    pub(super) left_pointer: bool,
    /// The right operand may be an address.
    pub(super) right_pointer: bool,
    /// A division or a remainder: halves are computed in singles.
    pub(super) division: bool,
}

impl State {
    /// Records a mistake, unless one is recorded already.
    pub(super) fn record(&mut self, operation: &'static str, fault: Fault) {
        let Fault::Rule { rule, types } = fault else { return };
        let (kernel, location) = (self.func.name.clone(), self.location);
        self.error.get_or_insert(BuildError { kernel, operation, types, rule, location });
    }

    /// Puts an operation at the end of the current block.
    pub(super) fn push(&mut self, kind: OpKind, operands: &[Value], results: &[Type]) -> Op {
        let loc = Loc { line: self.location.line(), column: self.location.column() };
        self.func.push_op(self.at, kind, operands, results, loc)
    }

    /// [`State::push`] of an operation with one result.
    pub(super) fn make(&mut self, kind: OpKind, operands: &[Value], result: Type) -> Value {
        let op = self.push(kind, operands, &[result]);
        self.func.result(op)
    }

    pub(super) fn ty(&self, value: Value) -> Type {
        self.func.ty(value)
    }

    /// The element of a scalar or tile.
    pub(super) fn elem(&self, value: Value) -> Made<Elem> {
        let ty = self.ty(value);
        ty.elem().ok_or_else(|| Fault::rule("a block pointer or descriptor is no number and no address", &[ty]))
    }

    /// The number type of a scalar or tile of numbers.
    pub(super) fn number(&self, value: Value) -> Made<Scalar> {
        let ty = self.ty(value);
        ty.number().ok_or_else(|| Fault::rule("a number or a tile of numbers is needed", &[ty]))
    }

    /// A constant of type `ty`, from an integer that must be in its range.
    pub(super) fn int_constant(&mut self, value: i64, ty: Type) -> Made<Value> {
        let scalar = ty.number().ok_or_else(|| Fault::rule("a literal has no address type", &[ty]))?;
        let bits = if let Some(bits) = float_bits(scalar, value as f64) {
            bits
        } else {
            // Either reading of the bits is allowed, as unsigned types share the names of the signed ones.
            let width = scalar.bits();
            if width < 64 && !(-(1_i64 << (width - 1))..1_i64 << width).contains(&value) {
                return Err(Fault::rule(format!("the literal {value} is out of range for {scalar}"), &[ty]));
            }
            int_bits(scalar, value)
        };
        Ok(self.make(OpKind::Constant(bits), &[], ty))
    }

    /// A constant of type `ty`.
    pub(super) fn constant(&mut self, literal: Arg, ty: Type) -> Made<Value> {
        match literal {
            Arg::Int(value) => self.int_constant(value, ty),
            Arg::Bool(value) => self.int_constant(value.into(), ty),
            Arg::Float(value) => match ty.number().and_then(|scalar| float_bits(scalar, value)) {
                Some(bits) => Ok(self.make(OpKind::Constant(bits), &[], ty)),
                None => Err(Fault::rule(format!("the literal {value:?} is no value of this type"), &[ty])),
            },
            other => other.value()?.ok_or(Fault::Poison),
        }
    }

    /// The type that a literal has where nothing else says it: `i32`, `i64`, `f32`, `f64` or `i1`.
    fn literal_type(literal: Arg) -> Scalar {
        match literal {
            Arg::Int(value) if i32::try_from(value).is_ok() => Scalar::I32,
            Arg::Int(_) => Scalar::I64,
            Arg::Float(value) => {
                let magnitude = value.abs();
                let single = magnitude == 0.0
                    || !magnitude.is_finite()
                    || (f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX)).contains(&magnitude);
                if single { Scalar::F32 } else { Scalar::F64 }
            }
            _ => Scalar::I1,
        }
    }

    /// A value of an operand: a literal becomes a scalar constant.
    pub(super) fn value(&mut self, arg: Arg) -> Made<Value> {
        match arg.value()? {
            Some(value) => Ok(value),
            None => self.constant(arg, Type::scalar(Self::literal_type(arg))),
        }
    }

    /// The element type of an operand, literals by their own.
    fn arg_elem(&self, arg: Arg) -> Made<Elem> {
        match arg.value()? {
            Some(value) => self.elem(value),
            None => Ok(Self::literal_type(arg).into()),
        }
    }

    /// Both operands in the type that they are computed in, in one shape.
    pub(super) fn pair(&mut self, left: Arg, right: Arg, mixing: Mixing) -> Made<(Value, Value)> {
        let (a, b) = (self.arg_elem(left)?, self.arg_elem(right)?);
        let types = self.arg_types(&[left, right]);
        let forbidden =
            (a.pointee().is_some() && !mixing.left_pointer) || (b.pointee().is_some() && !mixing.right_pointer);
        let mixed = match (a, b) {
            (Elem::Pointer(x), Elem::Pointer(y)) => x != y,
            (Elem::Pointer(_), Elem::Value(scalar)) | (Elem::Value(scalar), Elem::Pointer(_)) => scalar.is_float(),
            _ => false,
        };
        if forbidden || mixed {
            return Err(Fault::rule("this operation does not take these operands together with addresses", &types));
        }
        let (x, y) = match (a, b) {
            (Elem::Value(x), Elem::Value(y)) => {
                let (left_literal, right_literal) = (left.value()?.is_none(), right.value()?.is_none());
                let scalar = promote((x, left_literal), (y, right_literal), mixing.division)
                    .ok_or_else(|| Fault::rule(format!("{x} and {y} have no common type"), &types))?;
                (self.typed(left, scalar)?, self.typed(right, scalar)?)
            }
            _ => (self.value(left)?, self.value(right)?),
        };
        self.broadcast_pair(x, y)
    }

    fn typed(&mut self, arg: Arg, scalar: Scalar) -> Made<Value> {
        match arg.value()? {
            Some(value) => self.cast(value, scalar),
            None => self.constant(arg, Type::scalar(scalar)),
        }
    }

    /// The types of those operands that are no literals.
    pub(super) fn arg_types(&self, args: &[Arg]) -> Vec<Type> {
        args.iter().filter_map(|arg| arg.value().ok().flatten()).map(|value| self.ty(value)).collect()
    }

    /// Two values in one shape: scalars are splat, missing outer axes and axes of extent 1 are repeated.
    pub(super) fn broadcast_pair(&mut self, mut a: Value, mut b: Value) -> Made<(Value, Value)> {
        let (Some(mut left), Some(mut right)) = (self.ty(a).shape(), self.ty(b).shape()) else {
            let shape = self.ty(a).shape().or(self.ty(b).shape());
            return match shape {
                Some(shape) => Ok((self.in_shape(a, shape)?, self.in_shape(b, shape)?)),
                None => Ok((a, b)),
            };
        };
        let types = [self.ty(a), self.ty(b)];
        while left.rank() < right.rank() {
            a = self.expand(a, 0)?;
            left = self.ty(a).shape().unwrap_or(left);
        }
        while right.rank() < left.rank() {
            b = self.expand(b, 0)?;
            right = self.ty(b).shape().unwrap_or(right);
        }
        let mut dims = Vec::with_capacity(left.rank());
        for (axis, (&x, &y)) in left.dims().iter().zip(right.dims()).enumerate() {
            if x != y && x != 1 && y != 1 {
                let rule = format!("extents {x} and {y} of axis {axis} differ, and neither is 1");
                return Err(Fault::rule(rule, &types));
            }
            dims.push(x.max(y));
        }
        let shape = Shape::new(&dims)?;
        Ok((self.in_shape(a, shape)?, self.in_shape(b, shape)?))
    }

    /// `value` in `shape`: a scalar is splat, axes of extent 1 are repeated.
    pub(super) fn in_shape(&mut self, value: Value, shape: Shape) -> Made<Value> {
        let ty = self.ty(value);
        let elem = self.elem(value)?;
        let result = Type::Tile(shape, elem);
        let Some(from) = ty.shape() else {
            // A constant is made in the shape at once.
            return Ok(match self.func.def_op(value).map(|op| self.func.op(op).kind.clone()) {
                Some(OpKind::Constant(bits)) => self.make(OpKind::Constant(bits), &[], result),
                _ => self.make(OpKind::Splat, &[value], result),
            });
        };
        if from == shape {
            return Ok(value);
        }
        let fits = from.rank() == shape.rank() && from.dims().iter().zip(shape.dims()).all(|(&x, &y)| x == y || x == 1);
        if !fits {
            return Err(Fault::rule(format!("a tile of {from} elements cannot be repeated to {shape}"), &[ty]));
        }
        Ok(self.make(OpKind::Broadcast, &[value], result))
    }

    /// `value` with an axis of extent 1 at `axis`.
    pub(super) fn expand(&mut self, value: Value, axis: usize) -> Made<Value> {
        let ty = self.ty(value);
        let elem = self.elem(value)?;
        let Some(shape) = ty.shape() else {
            if axis != 0 {
                return Err(Fault::rule("a scalar gets its first axis at 0", &[ty]));
            }
            return self.in_shape(value, Shape::new(&[1])?);
        };
        let Some(expanded) = shape.inserted(axis, 1) else {
            return Err(Fault::rule(format!("no axis can be put in at {axis}"), &[ty]));
        };
        Ok(self.make(OpKind::ExpandDims { axis: axis as u32 }, &[value], Type::Tile(expanded, elem)))
    }
}

/// The type that numbers of types `a` and `b` are computed in (the flags: they are literals). Triton's rules: a literal of
/// no higher kind takes the other's type; else the wider float, `bf16` with another type giving `f32`, and the wider integer.
fn promote(a: (Scalar, bool), b: (Scalar, bool), division: bool) -> Option<Scalar> {
    let kind = |scalar: Scalar| match scalar {
        Scalar::I1 => 0,
        _ if scalar.is_int() => 1,
        _ => 2,
    };
    let half = |scalar| matches!(scalar, Scalar::F16 | Scalar::Bf16);
    if a.1 != b.1 {
        let (literal, value) = if a.1 { (a.0, b.0) } else { (b.0, a.0) };
        if kind(literal) <= kind(value) {
            return Some(if division && half(value) { Scalar::F32 } else { value });
        }
    }
    let (a, b) = (a.0, b.0);
    let one_is = |scalar| a == scalar || b == scalar;
    let fp8 = |scalar| matches!(scalar, Scalar::F8E4M3 | Scalar::F8E5M2);
    Some(if one_is(Scalar::F64) {
        Scalar::F64
    } else if one_is(Scalar::F32) {
        Scalar::F32
    } else if one_is(Scalar::F16) {
        if division { Scalar::F32 } else { Scalar::F16 }
    } else if one_is(Scalar::Bf16) {
        if a == b && !division { Scalar::Bf16 } else { Scalar::F32 }
    } else if fp8(a) && fp8(b) {
        if a == b { a } else { Scalar::F16 }
    } else if a.is_int() && b.is_int() {
        if a.bits() > b.bits() { a } else { b }
    } else {
        return None;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_promoted_as_triton_does() {
        use Scalar::{Bf16, F8E4M3, F8E5M2, F16, F32, F64, I1, I8, I32, I64};
        // (a, is a literal, b, is a literal, division, expected)
        for (a, la, b, lb, division, expected) in [
            (I32, false, I64, false, false, Some(I64)),
            (I1, false, I8, false, false, Some(I8)),
            (I32, true, I8, false, false, Some(I8)),
            (F32, true, I32, false, false, Some(F32)),
            (F32, true, F16, false, false, Some(F16)),
            (F32, true, F16, false, true, Some(F32)),
            (F16, false, F16, false, true, Some(F32)),
            (Bf16, false, Bf16, false, false, Some(Bf16)),
            (Bf16, false, I32, false, false, Some(F32)),
            (Bf16, false, F16, false, false, Some(F16)),
            (F8E4M3, false, F8E5M2, false, false, Some(F16)),
            (F8E4M3, false, F8E4M3, false, false, Some(F8E4M3)),
            (F8E4M3, false, I32, false, false, None),
            (F64, false, F32, false, false, Some(F64)),
            (I32, true, F32, false, false, Some(F32)),
        ] {
            assert_eq!(promote((a, la), (b, lb), division), expected, "{a} {b}");
        }
    }
}
