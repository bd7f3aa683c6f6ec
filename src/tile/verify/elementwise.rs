//! Operations on elements: arithmetic, comparisons, casts.

use super::types::{Check, float, integer, number, same};
use super::{Rule, ensure};
use crate::tile::{Binary, Cast, Elem, OpKind, Rounding, Scalar, Shape, Type, Unary};

/// Whether a binary operation is one of floats.
fn is_of_floats(op: Binary) -> bool {
    matches!(
        op,
        Binary::AddF
            | Binary::SubF
            | Binary::MulF
            | Binary::DivF
            | Binary::RemF
            | Binary::MinNumF
            | Binary::MaxNumF
            | Binary::MinimumF
            | Binary::MaximumF
            | Binary::PreciseDivF
    )
}

pub(super) fn check(check: Check<'_>) -> Rule {
    match &check.data.kind {
        OpKind::Constant(bits) => constant(check, *bits),
        OpKind::Binary(op) => {
            let [a, b] = check.takes()?;
            same_operands(&[a, b])?;
            if is_of_floats(*op) {
                float("the operand", a)?
            } else {
                integer("the operand", a)?
            };
            check.makes_one(a)
        }
        OpKind::Unary(op) => {
            let [a] = check.takes()?;
            if *op == Unary::AbsI {
                integer("the operand", a)?
            } else {
                float("the operand", a)?
            };
            check.makes_one(a)
        }
        OpKind::CmpI(_) => {
            let [a, b] = check.takes()?;
            same_operands(&[a, b])?;
            integer("the operand", a)?;
            check.makes_one(a.with_elem(Scalar::I1))
        }
        OpKind::CmpF(_) => {
            let [a, b] = check.takes()?;
            same_operands(&[a, b])?;
            float("the operand", a)?;
            check.makes_one(a.with_elem(Scalar::I1))
        }
        OpKind::Select => {
            let [condition, a, b] = check.takes()?;
            ensure!(a == b, "the values are {a} and {b}, and must be of one type");
            if condition != Type::scalar(Scalar::I1) {
                let tile = Type::of(a.shape(), Scalar::I1);
                same("the condition", condition, tile, "i1, or a tile of i1 of the values' shape")?;
            }
            check.makes_one(a)
        }
        OpKind::Fma | OpKind::ClampF { .. } => {
            let [a, b, c] = check.takes()?;
            same_operands(&[a, b, c])?;
            float("the operand", a)?;
            check.makes_one(a)
        }
        OpKind::Cast(op) => cast(check, *op),
        OpKind::FpToFp(rounding) => fp_to_fp(check, *rounding),
        OpKind::InlineAsm { packed, .. } => {
            ensure!(packed.is_power_of_two(), "{packed} elements at a time: a power of two is needed");
            ensure!(!check.results().is_empty(), "has no result, and must have one at least");
            one_shape(check)
        }
        OpKind::ExternElementwise { .. } => {
            check.makes::<1>()?;
            one_shape(check)
        }
        _ => Ok(()),
    }
}

fn same_operands(types: &[Type]) -> Rule {
    match types.iter().find(|&&ty| ty != types[0]) {
        Some(other) => Err(format!("operands of types {} and {other}: they must be of one type", types[0])),
        None => Ok(()),
    }
}

fn constant(check: Check<'_>, bits: u64) -> Rule {
    check.takes::<0>()?;
    let [ty] = check.makes()?;
    let width = number("the constant", ty)?.bits();
    ensure!(width == 64 || bits >> width == 0, "the bits {bits:#x} do not fit {ty}");
    Ok(())
}

/// Scalars may stand beside tiles; tiles are of one shape.
fn one_shape(check: Check<'_>) -> Rule {
    let types = [check.operands(), check.results()].concat();
    if let Some(other) = types.iter().find(|ty| ty.elem().is_none()) {
        return Err(format!("{other} has no elements: operands and results are scalars and tiles"));
    }
    let shapes: Vec<Shape> = types.iter().filter_map(|ty| ty.shape()).collect();
    match shapes.iter().find(|&&shape| shape != shapes[0]) {
        Some(other) => Err(format!("tiles of {} and {other}: they must be of one shape", shapes[0])),
        None => Ok(()),
    }
}

/// Operand and result of one shape; their elements.
fn elements(check: Check<'_>) -> Result<(Type, Type, Elem, Elem), String> {
    let [from] = check.takes()?;
    let [to] = check.makes()?;
    let (Some(a), Some(b)) = (from.elem(), to.elem()) else {
        return Err(format!("casts {from} to {to}: only scalars and tiles can be cast"));
    };
    ensure!(from.with_elem(b) == to, "casts {from} to {to}: the shape must stay");
    Ok((from, to, a, b))
}

fn cast(check: Check<'_>, op: Cast) -> Rule {
    let (from, to, a, b) = elements(check)?;
    let ints = |wider: bool| match (a, b) {
        (Elem::Value(a), Elem::Value(b)) if a.is_int() && b.is_int() => (a.bits() < b.bits()) == wider && a != b,
        _ => false,
    };
    let floats = |wider: bool| match (a, b) {
        (Elem::Value(a), Elem::Value(b)) if a.is_float() && b.is_float() => {
            a.bits() != b.bits() && (a.bits() < b.bits()) == wider
        }
        _ => false,
    };
    let between = |from_int: bool| match (a, b) {
        (Elem::Value(a), Elem::Value(b)) => a.is_int() == from_int && b.is_float() == from_int,
        _ => false,
    };
    let numbers = a.scalar().is_some() && b.scalar().is_some();
    let (fits, rule) = match op {
        Cast::ExtSI | Cast::ExtUI => (ints(true), "an integer must become a wider one"),
        Cast::TruncI => (ints(false), "an integer must become a narrower one"),
        Cast::ExtF => (floats(true), "a float must become a wider one"),
        Cast::TruncF => (floats(false), "a float must become a narrower one"),
        Cast::SIToFP | Cast::UIToFP => (between(true), "an integer must become a float"),
        Cast::FPToSI | Cast::FPToUI => (between(false), "a float must become an integer"),
        Cast::ArithBitcast => (numbers && a.bits() == b.bits(), "a number must become another of as many bits"),
        Cast::Bitcast => {
            let addresses = a.pointee().is_some() && b.pointee().is_some();
            let rule = "a number must become another of as many bits, or a pointer another pointer";
            (addresses || numbers && a.bits() == b.bits(), rule)
        }
        Cast::IntToPtr => (a == Scalar::I64.into() && b.pointee().is_some(), "an i64 must become a pointer"),
        Cast::PtrToInt => (a.pointee().is_some() && b == Scalar::I64.into(), "a pointer must become an i64"),
    };
    ensure!(fits, "casts {from} to {to}, where {rule}");
    Ok(())
}

fn fp_to_fp(check: Check<'_>, rounding: Option<Rounding>) -> Rule {
    let (from, to, ..) = elements(check)?;
    let (a, b) = (float("the operand", from)?, float("the result", to)?);
    ensure!(b.bits() >= a.bits() || rounding.is_some(), "casts {from} to {to}, and a narrower float needs a rounding");
    Ok(())
}
