//! Pointers, loads and stores, atomics, block pointers and descriptors.

use super::shapes::is_permutation;
use super::types::{Check, integer, pointer, same, tile};
use super::{Rule, ensure};
use crate::tile::{AtomicOp, OpKind, Padding, Scalar, Shape, Type};

pub(super) fn check(check: Check<'_>) -> Rule {
    match &check.data.kind {
        OpKind::AddPtr => {
            let [base, offset] = check.takes()?;
            pointer("the pointer", base)?;
            integer("the offset", offset)?;
            ensure!(
                base.shape() == offset.shape(),
                "the pointer is {base} and the offset {offset}: they must be of one shape"
            );
            check.makes_one(base)
        }
        OpKind::Load { boundary_check, padding, .. } => load(check, boundary_check, *padding),
        OpKind::Store { boundary_check, .. } => store(check, boundary_check),
        OpKind::AtomicRmw { op, .. } => atomic_rmw(check, *op),
        OpKind::AtomicCas { .. } => {
            let [at, compare, value] = check.takes()?;
            let ty = at.with_elem(pointer("the pointer", at)?);
            same("the compared value", compare, ty, "what the pointer points to")?;
            same("the value", value, ty, "what the pointer points to")?;
            check.makes_one(ty)
        }
        OpKind::MakeBlockPtr { order } => make_block_ptr(check, order),
        OpKind::Advance => {
            let operands = check.operands();
            let Some(&Type::BlockPtr(shape, _)) = operands.first() else {
                return Err(format!("{}: a block pointer is needed", describe(operands.first())));
            };
            indices("the offsets", &operands[1..], shape.rank(), Scalar::I32)?;
            check.makes_one(operands[0])
        }
        OpKind::MakeDescriptor { padding } => make_descriptor(check, *padding),
        OpKind::DescriptorLoad { .. } => {
            let operands = check.operands();
            let (shape, scalar) = descriptor(&operands)?;
            indices("the indices", &operands[1..], shape.rank(), Scalar::I32)?;
            let [result] = check.makes()?;
            box_of("the result", result, shape, scalar)
        }
        OpKind::DescriptorStore => {
            let operands = check.operands();
            let (shape, scalar) = descriptor(&operands)?;
            let value = operands.get(1).copied().ok_or("takes a descriptor, a value and indices, and has 1 operand")?;
            indices("the indices", &operands[2..], shape.rank(), Scalar::I32)?;
            box_of("the value", value, shape, scalar)?;
            check.makes_nothing()
        }
        _ => Ok(()),
    }
}

fn describe(ty: Option<&Type>) -> String {
    ty.map_or("no operand".to_owned(), |ty| format!("the operand is {ty}"))
}

/// `what`: scalars, one for each axis.
fn indices(what: &str, found: &[Type], rank: usize, scalar: Scalar) -> Rule {
    ensure!(found.len() == rank, "{what} are {}, and must be one for each of {rank} axes", found.len());
    match found.iter().find(|&&ty| ty != Type::scalar(scalar)) {
        Some(ty) => Err(format!("{what} have a {ty} among them, and must be {scalar}")),
        None => Ok(()),
    }
}

/// What is at a pointer, or under a block pointer.
fn target(at: Type) -> Result<Type, String> {
    match at {
        Type::BlockPtr(shape, scalar) => Ok(Type::Tile(shape, scalar.into())),
        _ => Ok(at.with_elem(pointer("the pointer", at)?)),
    }
}

fn boundary(at: Type, checks: &[u32]) -> Rule {
    let Type::BlockPtr(shape, _) = at else {
        ensure!(checks.is_empty(), "the pointer is {at}: only a block pointer has boundaries to check");
        return Ok(());
    };
    for (index, axis) in checks.iter().enumerate() {
        ensure!((*axis as usize) < shape.rank(), "boundary check of axis {axis}: {at} has {} axes", shape.rank());
        ensure!(!checks[..index].contains(axis), "boundary check of axis {axis} twice");
    }
    Ok(())
}

fn mask(at: Type, mask: Type) -> Rule {
    same("the mask", mask, Type::of(at.shape(), Scalar::I1), &format!("i1 in the shape of the pointer, {at}"))
}

fn load(check: Check<'_>, checks: &[u32], padding: Option<Padding>) -> Rule {
    let operands = check.operands();
    ensure!(
        matches!(operands.len(), 1..=3),
        "takes a pointer and maybe a mask and another value, and has {} operands",
        operands.len()
    );
    let at = operands[0];
    let result = target(at)?;
    boundary(at, checks)?;
    if matches!(at, Type::BlockPtr(..)) {
        ensure!(operands.len() == 1, "a block pointer is checked by its boundaries, and takes no mask");
        let floats = result.number().is_some_and(Scalar::is_float);
        ensure!(padding != Some(Padding::Nan) || floats, "padding with NaN, and the elements of {result} are integers");
    }
    if let Some(&given) = operands.get(1) {
        mask(at, given)?;
    }
    if let Some(&other) = operands.get(2) {
        same("the other value", other, result, "what the pointer points to")?;
    }
    check.makes_one(result)
}

fn store(check: Check<'_>, checks: &[u32]) -> Rule {
    let operands = check.operands();
    ensure!(
        matches!(operands.len(), 2 | 3),
        "takes a pointer, a value and maybe a mask, and has {} operands",
        operands.len()
    );
    let at = operands[0];
    same("the value", operands[1], target(at)?, "what the pointer points to")?;
    boundary(at, checks)?;
    if let Some(&given) = operands.get(2) {
        ensure!(!matches!(at, Type::BlockPtr(..)), "a block pointer is checked by its boundaries, and takes no mask");
        mask(at, given)?;
    }
    check.makes_nothing()
}

fn atomic_rmw(check: Check<'_>, op: AtomicOp) -> Rule {
    let operands = check.operands();
    ensure!(
        matches!(operands.len(), 2 | 3),
        "takes a pointer, a value and maybe a mask, and has {} operands",
        operands.len()
    );
    let at = operands[0];
    let scalar = pointer("the pointer", at)?;
    let ty = at.with_elem(scalar);
    same("the value", operands[1], ty, "what the pointer points to")?;
    let (fits, kind) = match op {
        AtomicOp::Exch => (true, "numbers"),
        AtomicOp::FAdd => (scalar.is_float(), "floats"),
        _ => (scalar.is_int(), "integers"),
    };
    ensure!(fits, "`{}` is for {kind}, and the pointer is {at}", op.name());
    if let Some(&given) = operands.get(2) {
        mask(at, given)?;
    }
    check.makes_one(ty)
}

fn make_block_ptr(check: Check<'_>, order: &[u32]) -> Rule {
    let operands = check.operands();
    let [result] = check.makes()?;
    let Type::BlockPtr(shape, scalar) = result else {
        return Err(format!("the result is {result}, and must be a block pointer"));
    };
    let rank = shape.rank();
    ensure!(
        operands.len() == 1 + 3 * rank,
        "takes a base and a shape, strides and offsets of {rank} axes, and has {} operands",
        operands.len()
    );
    same("the base", operands[0], Type::pointer(scalar), "the element of the block")?;
    indices("the extents", &operands[1..=rank], rank, Scalar::I64)?;
    indices("the strides", &operands[1 + rank..=2 * rank], rank, Scalar::I64)?;
    indices("the offsets", &operands[1 + 2 * rank..], rank, Scalar::I32)?;
    ensure!(is_permutation(order, rank), "the order {order:?} is no permutation of {rank} axes");
    Ok(())
}

fn make_descriptor(check: Check<'_>, padding: Option<Padding>) -> Rule {
    let operands = check.operands();
    let [result] = check.makes()?;
    let Type::Descriptor(shape, scalar) = result else {
        return Err(format!("the result is {result}, and must be a tensor descriptor"));
    };
    let rank = shape.rank();
    ensure!(
        operands.len() == 1 + 2 * rank,
        "takes a base, and a shape and strides of {rank} axes, and has {} operands",
        operands.len()
    );
    same("the base", operands[0], Type::pointer(scalar), "the element of the box")?;
    indices("the extents", &operands[1..=rank], rank, Scalar::I32)?;
    indices("the strides", &operands[1 + rank..], rank, Scalar::I64)?;
    ensure!(
        padding != Some(Padding::Nan) || scalar.is_float(),
        "padding with NaN, and the elements of {result} are integers"
    );
    Ok(())
}

fn descriptor(operands: &[Type]) -> Result<(Shape, Scalar), String> {
    match operands.first() {
        Some(&Type::Descriptor(shape, scalar)) => Ok((shape, scalar)),
        other => Err(format!("{}: a tensor descriptor is needed", describe(other))),
    }
}

/// `what` is a box of this shape, or one without some of the 1s in front.
fn box_of(what: &str, ty: Type, shape: Shape, scalar: Scalar) -> Rule {
    let (found, elem) = tile(what, ty)?;
    let extra = shape.rank().saturating_sub(found.rank());
    let (front, back) = shape.dims().split_at(extra);
    let fits = elem == scalar.into() && back == found.dims() && front.iter().all(|&extent| extent == 1);
    ensure!(fits, "{what} is {ty}, and must be the descriptor's box, {}", Type::Tile(shape, scalar.into()));
    Ok(())
}
