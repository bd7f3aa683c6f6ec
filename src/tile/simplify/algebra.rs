//! Identities: x + 0, x·1, constants gathered on the right, choices that are none.

use super::evaluate::{self, compare_ints};
use super::fold::constant;
use super::rewrite::{Fate, Rewriter};
use crate::tile::{Binary, Cast, Func, IntCompare, Op, OpKind, Scalar, Type, Value, float_value, int_bits};

/// The operation of `value`, and its operands.
fn made_by(func: &Func, value: Value) -> Option<(&OpKind, &[Value])> {
    let data = func.op(func.def_op(value)?);
    Some((&data.kind, &data.operands))
}

/// Rules for one operation.
pub(super) fn simplify(rewriter: &mut Rewriter<'_>, op: Op) -> Fate {
    let data = rewriter.func.op(op);
    let (kind, operands) = (data.kind.clone(), data.operands.clone());
    let [result] = data.results[..] else { return Fate::Kept };
    let ty = rewriter.func.ty(result);
    match (kind, &operands[..]) {
        (OpKind::Binary(binary), &[a, b]) => self::binary(rewriter, op, binary, a, b, ty),
        (OpKind::CmpI(compare), &[a, b]) => compare_int(rewriter, op, compare, a, b, ty),
        (OpKind::Select, &[condition, yes, no]) => select(rewriter, condition, yes, no, ty),
        (OpKind::Cast(cast), &[a]) => convert(rewriter, cast, a, ty),
        (OpKind::AddPtr, &[pointer, offset]) if rewriter.func.constant(offset) == Some(0) => {
            Fate::Replaced(vec![pointer])
        }
        _ => Fate::Kept,
    }
}

/// Whether the operands may change places.
pub(super) fn commutes(op: Binary) -> bool {
    use Binary::*;
    matches!(
        op,
        AddI | MulI
            | AndI
            | OrI
            | XOrI
            | MinSI
            | MinUI
            | MaxSI
            | MaxUI
            | MulhiUI
            | AddF
            | MulF
            | MinNumF
            | MaxNumF
            | MinimumF
            | MaximumF
    )
}

fn binary(rewriter: &mut Rewriter<'_>, op: Op, binary: Binary, a: Value, b: Value, ty: Type) -> Fate {
    let Some(scalar) = ty.number() else { return Fate::Kept };
    let (left, right) = (rewriter.func.constant(a), rewriter.func.constant(b));
    if left.is_some() && right.is_none() && commutes(binary) {
        rewriter.func.op_mut(op).operands.swap(0, 1);
        return Fate::Changed;
    }
    if a == b
        && let Some(fate) = of_equals(rewriter, binary, a, ty)
    {
        return fate;
    }
    let Some(right) = right else { return from_constant(rewriter, binary, left, b, ty) };
    if scalar.is_float() {
        return if is_neutral_float(binary, scalar, right) { Fate::Replaced(vec![a]) } else { Fate::Kept };
    }
    let ones = int_bits(scalar, -1);
    match (binary, right) {
        (
            Binary::AddI | Binary::SubI | Binary::OrI | Binary::XOrI | Binary::ShlI | Binary::ShrSI | Binary::ShrUI,
            0,
        )
        | (
            Binary::MulI | Binary::DivUI | Binary::CeilDivUI | Binary::DivSI | Binary::CeilDivSI | Binary::FloorDivSI,
            1,
        ) if scalar != Scalar::I1 || right == 0 || binary == Binary::MulI => Fate::Replaced(vec![a]),
        (Binary::MulI | Binary::AndI, 0) => Fate::Replaced(vec![b]),
        (Binary::RemSI | Binary::RemUI, 1) if scalar != Scalar::I1 => Fate::Replaced(vec![constant(rewriter, 0, ty)]),
        (Binary::AndI, bits) if bits == ones => Fate::Replaced(vec![a]),
        (Binary::OrI, bits) if bits == ones => Fate::Replaced(vec![b]),
        (Binary::XOrI, 1) if scalar == Scalar::I1 => inverted(rewriter, a, ty),
        _ => chained(rewriter, binary, a, right, scalar, ty),
    }
}

/// What does not change any float, NaN's payload apart: x + −0, x − +0, x·1, x/1.
fn is_neutral_float(binary: Binary, scalar: Scalar, bits: u64) -> bool {
    let Some(value) = float_value(scalar, bits) else { return false };
    match binary {
        Binary::AddF => value == 0.0 && value.is_sign_negative(),
        Binary::SubF => value == 0.0 && value.is_sign_positive(),
        Binary::MulF | Binary::DivF | Binary::PreciseDivF => value == 1.0,
        _ => false,
    }
}

/// The two operands are one value.
fn of_equals(rewriter: &mut Rewriter<'_>, binary: Binary, a: Value, ty: Type) -> Option<Fate> {
    use Binary::*;
    match binary {
        SubI | XOrI => Some(Fate::Replaced(vec![constant(rewriter, 0, ty)])),
        AndI | OrI | MinSI | MinUI | MaxSI | MaxUI => Some(Fate::Replaced(vec![a])),
        _ => None,
    }
}

/// (x ∘ c₀) ∘ c₁ with integers: one operation with one constant.
fn chained(rewriter: &mut Rewriter<'_>, binary: Binary, a: Value, c1: u64, scalar: Scalar, ty: Type) -> Fate {
    use Binary::{AddI, AndI, MulI, OrI, SubI, XOrI};
    let func = &rewriter.func;
    let Some((&OpKind::Binary(inner), &[x, y])) = made_by(func, a) else { return Fate::Kept };
    let (left, right) = (func.constant(x), func.constant(y));
    let make = |rewriter: &mut Rewriter<'_>, op, first: Option<Value>, bits: Option<u64>, second: Option<Value>| {
        let bits = bits.unwrap_or(0);
        let constant = constant(rewriter, bits, ty);
        rewriter.replaced_by(OpKind::Binary(op), &[first.unwrap_or(constant), second.unwrap_or(constant)], ty)
    };
    let eval = |op, a, b| evaluate::evaluate(&OpKind::Binary(op), scalar, scalar, &[a, b]);
    match (binary, inner, left, right) {
        (AddI | MulI | AndI | OrI | XOrI, _, _, Some(c0)) if inner == binary => {
            make(rewriter, binary, Some(x), eval(binary, c0, c1), None)
        }
        // (x − c₀) + c₁ = x + (c₁ − c₀), (c₀ − x) + c₁ = (c₀ + c₁) − x
        (AddI, SubI, _, Some(c0)) => make(rewriter, AddI, Some(x), eval(SubI, c1, c0), None),
        (AddI, SubI, Some(c0), _) => make(rewriter, SubI, None, eval(AddI, c0, c1), Some(y)),
        // (x + c₀) − c₁ = x + (c₀ − c₁), (x − c₀) − c₁ = x − (c₀ + c₁), (c₀ − x) − c₁ = (c₀ − c₁) − x
        (SubI, AddI, _, Some(c0)) => make(rewriter, AddI, Some(x), eval(SubI, c0, c1), None),
        (SubI, SubI, _, Some(c0)) => make(rewriter, SubI, Some(x), eval(AddI, c0, c1), None),
        (SubI, SubI, Some(c0), _) => make(rewriter, SubI, None, eval(SubI, c0, c1), Some(y)),
        _ => Fate::Kept,
    }
}

/// The right operand is no constant: c₁ − (x ∘ c₀), (x + y) − y, 0 / x.
fn from_constant(rewriter: &mut Rewriter<'_>, binary: Binary, left: Option<u64>, b: Value, ty: Type) -> Fate {
    use Binary::{AddI, SubI};
    let func = &rewriter.func;
    let (Some(c1), SubI) = (left, binary) else { return Fate::Kept };
    let Some(scalar) = ty.number() else { return Fate::Kept };
    let Some((&OpKind::Binary(inner), &[x, y])) = made_by(func, b) else { return Fate::Kept };
    let eval = |op, a, b| evaluate::evaluate(&OpKind::Binary(op), scalar, scalar, &[a, b]).unwrap_or(0);
    let (bits, op, other) = match (inner, func.constant(x), func.constant(y)) {
        // c₁ − (x + c₀) = (c₁ − c₀) − x
        (AddI, _, Some(c0)) => (eval(SubI, c1, c0), SubI, x),
        // c₁ − (x − c₀) = (c₁ + c₀) − x
        (SubI, _, Some(c0)) => (eval(AddI, c1, c0), SubI, x),
        // c₁ − (c₀ − x) = x + (c₁ − c₀)
        (SubI, Some(c0), _) => (eval(SubI, c1, c0), AddI, y),
        _ => return Fate::Kept,
    };
    let bits = constant(rewriter, bits, ty);
    let operands = if op == AddI { [other, bits] } else { [bits, other] };
    rewriter.replaced_by(OpKind::Binary(op), &operands, ty)
}

/// Not a comparison: the opposite comparison. Not not x: x.
fn inverted(rewriter: &mut Rewriter<'_>, a: Value, ty: Type) -> Fate {
    match made_by(rewriter.func, a) {
        Some((&OpKind::CmpI(compare), &[x, y])) => rewriter.replaced_by(OpKind::CmpI(opposite(compare)), &[x, y], ty),
        Some((&OpKind::Binary(Binary::XOrI), &[x, y])) if rewriter.func.constant(y) == Some(1) => {
            Fate::Replaced(vec![x])
        }
        _ => Fate::Kept,
    }
}

/// The comparison that holds where this does not.
fn opposite(compare: IntCompare) -> IntCompare {
    use IntCompare::*;
    match compare {
        Eq => Ne,
        Ne => Eq,
        Slt => Sge,
        Sge => Slt,
        Sle => Sgt,
        Sgt => Sle,
        Ult => Uge,
        Uge => Ult,
        Ule => Ugt,
        Ugt => Ule,
    }
}

/// The comparison that holds of (b, a) where this does of (a, b).
fn swapped(compare: IntCompare) -> IntCompare {
    use IntCompare::*;
    match compare {
        Eq | Ne => compare,
        Slt => Sgt,
        Sgt => Slt,
        Sle => Sge,
        Sge => Sle,
        Ult => Ugt,
        Ugt => Ult,
        Ule => Uge,
        Uge => Ule,
    }
}

fn compare_int(rewriter: &mut Rewriter<'_>, op: Op, compare: IntCompare, a: Value, b: Value, ty: Type) -> Fate {
    let func = &mut *rewriter.func;
    if a == b {
        let holds = compare_ints(compare, Scalar::I64, 0, 0);
        return Fate::Replaced(vec![constant(rewriter, holds.into(), ty)]);
    }
    if func.constant(a).is_some() && func.constant(b).is_none() {
        let data = func.op_mut(op);
        data.operands.swap(0, 1);
        data.kind = OpKind::CmpI(swapped(compare));
        return Fate::Changed;
    }
    Fate::Kept
}

fn select(rewriter: &mut Rewriter<'_>, condition: Value, yes: Value, no: Value, ty: Type) -> Fate {
    let func = &rewriter.func;
    if yes == no {
        return Fate::Replaced(vec![yes]);
    }
    if let Some(bits) = func.constant(condition) {
        return Fate::Replaced(vec![if bits != 0 { yes } else { no }]);
    }
    let truth =
        (ty.number() == Some(Scalar::I1) && func.ty(condition) == ty).then(|| (func.constant(yes), func.constant(no)));
    if truth == Some((Some(1), Some(0))) {
        return Fate::Replaced(vec![condition]);
    }
    match made_by(func, condition) {
        Some((&OpKind::Binary(Binary::XOrI), &[x, y])) if func.constant(y) == Some(1) => {
            rewriter.replaced_by(OpKind::Select, &[x, no, yes], ty)
        }
        _ => Fate::Kept,
    }
}

/// Conversions of conversions.
fn convert(rewriter: &mut Rewriter<'_>, cast: Cast, a: Value, ty: Type) -> Fate {
    use Cast::{ArithBitcast, Bitcast, ExtF, ExtSI, ExtUI, TruncF, TruncI};
    let func = &rewriter.func;
    if func.ty(a) == ty {
        return Fate::Replaced(vec![a]);
    }
    let Some((&OpKind::Cast(inner), &[x])) = made_by(func, a) else { return Fate::Kept };
    let (from, to) = (func.ty(x), ty);
    let bits = |ty: Type| ty.number().map_or(0, Scalar::bits);
    match (cast, inner) {
        // The same once more, or back to where it came from.
        (ExtSI, ExtSI) | (ExtUI, ExtUI) | (TruncI, TruncI) => rewriter.replaced_by(OpKind::Cast(cast), &[x], ty),
        (ExtSI, ExtUI) => rewriter.replaced_by(OpKind::Cast(ExtUI), &[x], ty),
        (TruncI, ExtSI | ExtUI) if bits(from) == bits(to) => Fate::Replaced(vec![x]),
        (TruncI, ExtSI | ExtUI) if bits(from) < bits(to) => rewriter.replaced_by(OpKind::Cast(inner), &[x], ty),
        (TruncI, ExtSI | ExtUI) => rewriter.replaced_by(OpKind::Cast(TruncI), &[x], ty),
        (TruncF, ExtF) if from == to => Fate::Replaced(vec![x]),
        (ArithBitcast | Bitcast, ArithBitcast | Bitcast) if from == to => Fate::Replaced(vec![x]),
        _ => Fate::Kept,
    }
}
