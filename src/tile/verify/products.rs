//! Reductions, scans and products.

use super::types::{Check, float, same, tile};
use super::{Rule, ensure, list};
use crate::tile::{OpKind, Scalar, ScaledFormat, Shape, Type};

pub(super) fn check(check: Check<'_>) -> Rule {
    match &check.data.kind {
        OpKind::Reduce { axis } => {
            let (shape, elems) = combined(check, *axis)?;
            let left = shape.removed(*axis as usize);
            let results: Vec<_> = elems.iter().map(|&elem| elem.shaped(left)).collect();
            let found = check.results();
            ensure!(found == results, "the results are {}, and must be {}", list(&found), list(&results));
            Ok(())
        }
        OpKind::Scan { axis, .. } => {
            combined(check, *axis)?;
            let (operands, results) = (check.operands(), check.results());
            ensure!(operands == results, "the results are {}, and must be {}", list(&results), list(&operands));
            Ok(())
        }
        OpKind::Dot { .. } => dot(check),
        OpKind::DotScaled { .. } => dot_scaled(check),
        _ => Ok(()),
    }
}

/// A scalar's type, to be given a shape.
trait Shaped {
    fn shaped(self, shape: Option<Shape>) -> Type;
}

impl Shaped for Type {
    fn shaped(self, shape: Option<Shape>) -> Type {
        match self {
            Type::Scalar(elem) => Type::of(shape, elem),
            other => other,
        }
    }
}

/// The tiles of a reduction or scan and its region, which takes two groups of their elements and gives one: the shape, and the
/// elements as scalars.
fn combined(check: Check<'_>, axis: u32) -> Result<(Shape, Vec<Type>), String> {
    let operands = check.operands();
    let Some(&first) = operands.first() else { return Err("has no operand, and must have one at least".to_owned()) };
    let (shape, _) = tile("operand 0", first)?;
    ensure!((axis as usize) < shape.rank(), "axis {axis}: {first} has {} axes", shape.rank());
    let mut elems = Vec::new();
    for (index, &operand) in operands.iter().enumerate() {
        let (other, elem) = tile(&format!("operand {index}"), operand)?;
        ensure!(other == shape, "operand {index} is {operand}, and must have the shape of the first, {first}");
        elems.push(Type::Scalar(elem));
    }
    let region = check.func.region(check.data.regions[0]);
    let [block] = region.blocks[..] else { return Err("the region is empty".to_owned()) };
    let block = check.func.block(block);
    let args: Vec<_> = block.args.iter().map(|&arg| check.func.ty(arg)).collect();
    let pairs = [&elems[..], &elems[..]].concat();
    ensure!(args == pairs, "the region takes {}, and must take {}", list(&args), list(&pairs));
    let last = block.ops.last().map(|&op| check.func.op(op));
    let given: Option<Vec<_>> = last
        .filter(|last| last.kind == OpKind::Yield)
        .map(|last| last.operands.iter().map(|&value| check.func.ty(value)).collect());
    match given {
        Some(given) => ensure!(given == elems, "the region gives {}, and must give {}", list(&given), list(&elems)),
        None => return Err("the region must end in a return of its values".to_owned()),
    }
    Ok((shape, elems))
}

/// The extents of a matrix, and those in front of it.
fn matrix(what: &str, shape: Shape) -> Result<(Vec<u32>, u32, u32), String> {
    match shape.dims() {
        [batch @ .., rows, columns] if batch.len() <= 1 => Ok((batch.to_vec(), *rows, *columns)),
        _ => Err(format!("{what} is of shape {shape}, and must be a matrix, or a batch of them")),
    }
}

fn dot(check: Check<'_>) -> Rule {
    let [a, b, c] = check.takes()?;
    let ((sa, ea), (sb, eb), (sc, ec)) = (tile("a", a)?, tile("b", b)?, tile("c", c)?);
    let ((batch_a, m, k), (batch_b, k2, n), (batch_c, m2, n2)) = (matrix("a", sa)?, matrix("b", sb)?, matrix("c", sc)?);
    let shapes = format!("{a} * {b} -> {c}");
    ensure!(k == k2, "{shapes}: a has {k} columns and b has {k2} rows, and they must be as many");
    ensure!(m == m2 && n == n2, "{shapes}: c is {m2}x{n2}, and must be {m}x{n}");
    ensure!(batch_a == batch_b && batch_b == batch_c, "{shapes}: the batches must be of one extent");
    let (Some(ea), Some(eb), Some(ec)) = (ea.scalar(), eb.scalar(), ec.scalar()) else {
        return Err(format!("{shapes}: products are of numbers"));
    };
    ensure!(
        ea.bits() == eb.bits() && ea.is_int() == eb.is_int() && ea.is_int() == ec.is_int(),
        "{shapes}: a and b must be floats or integers of one width, and c of their kind"
    );
    check.makes_one(c)
}

/// The element type of an operand in a format.
fn stored(format: ScaledFormat) -> Scalar {
    match format {
        ScaledFormat::E4M3 => Scalar::F8E4M3,
        ScaledFormat::E5M2 => Scalar::F8E5M2,
        ScaledFormat::E2M1 => Scalar::I8,
        ScaledFormat::Bf16 => Scalar::Bf16,
        ScaledFormat::Fp16 => Scalar::F16,
    }
}

/// How many numbers are in one element along k, and along the other axis.
fn packing(format: ScaledFormat, k_pack: bool) -> (u32, u32) {
    match (format, k_pack) {
        (ScaledFormat::E2M1, true) => (2, 1),
        (ScaledFormat::E2M1, false) => (1, 2),
        _ => (1, 1),
    }
}

fn dot_scaled(check: Check<'_>) -> Rule {
    let OpKind::DotScaled { lhs, rhs, lhs_scale, rhs_scale, lhs_k_pack, rhs_k_pack, .. } = check.data.kind else {
        return Ok(());
    };
    let operands = check.operands();
    let count = 3 + usize::from(lhs_scale) + usize::from(rhs_scale);
    ensure!(operands.len() == count, "takes {count} operands, and has {}", operands.len());
    let b_at = 1 + usize::from(lhs_scale);
    let (a, b, c) = (operands[0], operands[b_at], operands[count - 1]);
    let ((sa, ea), (sb, eb), (sc, _)) = (tile("a", a)?, tile("b", b)?, tile("c", c)?);
    for (what, ty, elem, format) in [("a", a, ea, lhs), ("b", b, eb, rhs)] {
        let scalar = stored(format);
        ensure!(elem == scalar.into(), "{what} is {ty}, and in format {} its elements are {scalar}", format.name());
    }
    float("c", c)?;
    let ((batch_a, m, k), (batch_b, k2, n), (batch_c, m2, n2)) = (matrix("a", sa)?, matrix("b", sb)?, matrix("c", sc)?);
    let ((a_k, a_m), (b_k, b_n)) = (packing(lhs, lhs_k_pack), packing(rhs, rhs_k_pack));
    let (m, k, k2, n) = (m * a_m, k * a_k, k2 * b_k, n * b_n);
    let shapes = format!("{a} * {b} -> {c}");
    ensure!(k == k2, "{shapes}: a has {k} numbers along k and b has {k2}, and they must be as many");
    ensure!(m == m2 && n == n2, "{shapes}: c is {m2}x{n2}, and must be {m}x{n}");
    ensure!(batch_a == batch_b && batch_b == batch_c, "{shapes}: the batches must be of one extent");
    let mut groups = Vec::new();
    if lhs_scale {
        groups.push(scales("a", operands[1], &batch_a, m, k)?);
    }
    if rhs_scale {
        groups.push(scales("b", operands[b_at + 1], &batch_b, n, k)?);
    }
    if let [a, b] = groups[..] {
        ensure!(a == b, "a scale of a is for {a} numbers and one of b for {b}: they must be as many");
    }
    same("the result", check.makes::<1>()?[0], c, "the type of c")
}

/// The scales of `what`: one for every 16 or 32 numbers along k, in each of `rows`; how many.
fn scales(what: &str, ty: Type, batch: &[u32], rows: u32, k: u32) -> Result<u32, String> {
    let (shape, elem) = tile(&format!("the scales of {what}"), ty)?;
    ensure!(
        elem == Scalar::I8.into() || elem == Scalar::F8E4M3.into(),
        "the scales of {what} are {ty}, and their elements must be i8 (exponents) or f8E4M3FN"
    );
    let (found, rows_found, columns) = matrix(&format!("the scales of {what}"), shape)?;
    let group = k / columns;
    ensure!(
        found == batch && rows_found == rows && columns * group == k && matches!(group, 16 | 32),
        "the scales of {what} are {ty}, and must be {rows}x{} or {rows}x{}: one for 32 or for 16 of {k} numbers",
        k / 32,
        k / 16
    );
    Ok(group)
}
