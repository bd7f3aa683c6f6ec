//! Operations on shapes, and those that make tiles of nothing.

use super::types::{Check, integer, same, tile};
use super::{Rule, ensure};
use crate::tile::{OpKind, Scalar, Shape, Type, range_type};

pub(super) fn check(check: Check<'_>) -> Rule {
    match &check.data.kind {
        OpKind::ProgramId(axis) | OpKind::NumPrograms(axis) => {
            check.takes::<0>()?;
            ensure!(*axis < 3, "axis {axis}: a grid has axes 0, 1 and 2");
            check.makes_one(Type::scalar(Scalar::I32))
        }
        OpKind::MakeRange { start, end } => make_range(check, *start, *end),
        OpKind::Splat => {
            let [scalar] = check.takes()?;
            let [result] = check.makes()?;
            let (_, elem) = tile("the result", result)?;
            same("the operand", scalar, Type::Scalar(elem), "the element of the result")
        }
        OpKind::Unsplat => {
            let [source] = check.takes()?;
            let (shape, elem) = tile("the operand", source)?;
            ensure!(shape.elements() == 1, "the operand is {source}, and must have one element");
            check.makes_one(Type::Scalar(elem))
        }
        OpKind::Broadcast => broadcast(check),
        OpKind::ExpandDims { axis } => {
            let [source] = check.takes()?;
            let (shape, elem) = tile("the operand", source)?;
            let expanded = shape.inserted(*axis as usize, 1);
            let expanded = expanded.ok_or_else(|| format!("axis {axis} cannot be put into {source}"))?;
            check.makes_one(Type::Tile(expanded, elem))
        }
        OpKind::Reshape { .. } => {
            let ([source], [result]) = (check.takes()?, check.makes()?);
            let ((from, a), (to, b)) = (tile("the operand", source)?, tile("the result", result)?);
            ensure!(a == b, "{source} becomes {result}: the element must stay");
            let (from, to) = (from.elements(), to.elements());
            ensure!(from == to, "{source} becomes {result}: {from} elements cannot become {to}");
            Ok(())
        }
        OpKind::Trans { order } => trans(check, order),
        OpKind::Join => {
            let [a, b] = check.takes()?;
            let (shape, elem) = tile("the operand", a)?;
            ensure!(a == b, "the operands are {a} and {b}, and must be of one type");
            let joined = shape.inserted(shape.rank(), 2);
            let joined = joined.ok_or_else(|| format!("two of {a} are more than a tile can hold"))?;
            check.makes_one(Type::Tile(joined, elem))
        }
        OpKind::Split => {
            let [source] = check.takes()?;
            let (shape, elem) = tile("the operand", source)?;
            let last = shape.rank() - 1;
            ensure!(shape.dims()[last] == 2, "the operand is {source}, and its last extent must be 2");
            let half = shape.removed(last);
            let half = half.ok_or_else(|| format!("the operand is {source}, and must have two axes at least"))?;
            for (index, result) in check.makes::<2>()?.into_iter().enumerate() {
                same(&format!("result {index}"), result, Type::Tile(half, elem), "the operand without its last axis")?;
            }
            Ok(())
        }
        OpKind::Cat => {
            let [a, b] = check.takes()?;
            let (shape, elem) = tile("the operand", a)?;
            ensure!(a == b, "the operands are {a} and {b}, and must be of one type");
            let mut dims = shape.dims().to_vec();
            dims[0] = dims[0].saturating_mul(2);
            let both = Shape::new(&dims).map_err(|_| format!("two of {a} are more than a tile can hold"))?;
            check.makes_one(Type::Tile(both, elem))
        }
        OpKind::Gather { axis, .. } => gather(check, *axis as usize),
        OpKind::Histogram => histogram(check),
        OpKind::Poison => {
            check.takes::<0>()?;
            check.makes::<1>().map(|_| ())
        }
        OpKind::ConvertLayout => {
            let [source] = check.takes()?;
            tile("the operand", source)?;
            check.makes_one(source)
        }
        _ => Ok(()),
    }
}

fn make_range(check: Check<'_>, start: i32, end: i32) -> Rule {
    check.takes::<0>()?;
    ensure!(start < end, "from {start} to {end}: the end must come after the start");
    let length = i64::from(end) - i64::from(start);
    let Some(ty) = range_type(start, end) else {
        return Err(format!("from {start} to {end} there are {length} values, and a tile's extent is a power of two"));
    };
    let [result] = check.makes()?;
    same("the result", result, ty, &format!("{length} values"))
}

fn broadcast(check: Check<'_>) -> Rule {
    let ([source], [result]) = (check.takes()?, check.makes()?);
    let ((from, a), (to, b)) = (tile("the operand", source)?, tile("the result", result)?);
    ensure!(a == b, "{source} becomes {result}: the element must stay");
    ensure!(from.rank() == to.rank(), "{source} becomes {result}: the number of axes must stay");
    for (axis, (a, b)) in from.dims().iter().zip(to.dims()).enumerate() {
        ensure!(
            a == b || *a == 1,
            "{source} becomes {result}: axis {axis} is {a}, and only an extent of 1 becomes another"
        );
    }
    Ok(())
}

fn trans(check: Check<'_>, order: &[u32]) -> Rule {
    let [source] = check.takes()?;
    let (shape, elem) = tile("the operand", source)?;
    ensure!(is_permutation(order, shape.rank()), "the order {order:?} is no permutation of the axes of {source}");
    let dims: Vec<u32> = order.iter().map(|&axis| shape.dims()[axis as usize]).collect();
    let permuted = Shape::new(&dims).map_err(|error| error.to_string())?;
    check.makes_one(Type::Tile(permuted, elem))
}

/// Whether `order` names each of `rank` axes once.
pub(super) fn is_permutation(order: &[u32], rank: usize) -> bool {
    order.len() == rank && (0..rank).all(|axis| order.contains(&(axis as u32)))
}

fn gather(check: Check<'_>, axis: usize) -> Rule {
    let [source, indices] = check.takes()?;
    let ((shape, elem), (to, _)) = (tile("the source", source)?, tile("the indices", indices)?);
    integer("the indices", indices)?;
    ensure!(to.rank() == shape.rank(), "the indices are {indices}, and must have as many axes as the source, {source}");
    ensure!(axis < shape.rank(), "axis {axis}: the source, {source}, has {} axes", shape.rank());
    for (other, (a, b)) in shape.dims().iter().zip(to.dims()).enumerate() {
        ensure!(
            other == axis || a == b,
            "the indices are {indices}, and must have the extents of the source, {source}, but along axis {axis}"
        );
    }
    check.makes_one(Type::Tile(to, elem))
}

fn histogram(check: Check<'_>) -> Rule {
    let operands = check.operands();
    ensure!(matches!(operands.len(), 1 | 2), "takes values and maybe a mask, and has {} operands", operands.len());
    let (shape, _) = tile("the operand", operands[0])?;
    integer("the operand", operands[0])?;
    if let Some(&mask) = operands.get(1) {
        same("the mask", mask, Type::Tile(shape, Scalar::I1.into()), "the shape of the values, of i1")?;
    }
    let [result] = check.makes()?;
    let (bins, _) = tile("the result", result)?;
    integer("the result", result)?;
    ensure!(shape.rank() == 1 && bins.rank() == 1, "{} becomes {result}: both must have one axis", operands[0]);
    Ok(())
}
