//! The rule of each operation, by group, and what the rules have in common.

use super::{Rule, control, elementwise, ensure, memory, products, shapes};
use crate::tile::{Elem, Func, Op, OpData, OpKind, Scalar, Shape, Type};

/// An operation whose rule is checked.
#[derive(Clone, Copy)]
pub(super) struct Check<'a> {
    pub(super) func: &'a Func,
    pub(super) data: &'a OpData,
}

/// Checks one operation.
pub(super) fn check(func: &Func, op: Op) -> Rule {
    let check = Check { func, data: func.op(op) };
    let regions = match check.data.kind {
        OpKind::Reduce { .. } | OpKind::Scan { .. } | OpKind::For => 1,
        OpKind::While | OpKind::If => 2,
        _ => 0,
    };
    let found = check.data.regions.len();
    ensure!(found == regions, "has {found} regions, and must have {regions}");
    match &check.data.kind {
        OpKind::Constant(_)
        | OpKind::Binary(_)
        | OpKind::Unary(_)
        | OpKind::CmpI(_)
        | OpKind::CmpF(_)
        | OpKind::Select
        | OpKind::Fma
        | OpKind::ClampF { .. }
        | OpKind::Cast(_)
        | OpKind::FpToFp(_)
        | OpKind::InlineAsm { .. }
        | OpKind::ExternElementwise { .. } => elementwise::check(check),
        OpKind::ProgramId(_)
        | OpKind::NumPrograms(_)
        | OpKind::MakeRange { .. }
        | OpKind::Splat
        | OpKind::Unsplat
        | OpKind::Broadcast
        | OpKind::ExpandDims { .. }
        | OpKind::Reshape { .. }
        | OpKind::Trans { .. }
        | OpKind::Join
        | OpKind::Split
        | OpKind::Cat
        | OpKind::Gather { .. }
        | OpKind::Histogram
        | OpKind::Poison
        | OpKind::ConvertLayout => shapes::check(check),
        OpKind::AddPtr
        | OpKind::Load { .. }
        | OpKind::Store { .. }
        | OpKind::AtomicRmw { .. }
        | OpKind::AtomicCas { .. }
        | OpKind::MakeBlockPtr { .. }
        | OpKind::Advance
        | OpKind::MakeDescriptor { .. }
        | OpKind::DescriptorLoad { .. }
        | OpKind::DescriptorStore => memory::check(check),
        OpKind::Reduce { .. } | OpKind::Scan { .. } | OpKind::Dot { .. } | OpKind::DotScaled { .. } => {
            products::check(check)
        }
        OpKind::Assert { .. }
        | OpKind::Print { .. }
        | OpKind::Assume
        | OpKind::Barrier
        | OpKind::For
        | OpKind::While
        | OpKind::If
        | OpKind::Yield
        | OpKind::Condition
        | OpKind::Branch
        | OpKind::CondBranch { .. }
        | OpKind::Return
        | OpKind::Call { .. } => control::check(check),
    }
}

impl<'a> Check<'a> {
    /// The types of the operands.
    pub(super) fn operands(self) -> Vec<Type> {
        self.data.operands.iter().map(|&value| self.func.ty(value)).collect()
    }

    /// The types of the results.
    pub(super) fn results(self) -> Vec<Type> {
        self.data.results.iter().map(|&value| self.func.ty(value)).collect()
    }

    /// The types of exactly `N` operands.
    pub(super) fn takes<const N: usize>(self) -> Result<[Type; N], String> {
        <[Type; N]>::try_from(self.operands()).map_err(|found| format!("takes {N} operands, and has {}", found.len()))
    }

    /// The types of exactly `N` results.
    pub(super) fn makes<const N: usize>(self) -> Result<[Type; N], String> {
        <[Type; N]>::try_from(self.results()).map_err(|found| format!("has {N} results, and makes {}", found.len()))
    }

    /// The one result must be of this type.
    pub(super) fn makes_one(self, ty: Type) -> Rule {
        let [result] = self.makes()?;
        ensure!(result == ty, "the result is {result}, and must be {ty}");
        Ok(())
    }

    /// There must be no result.
    pub(super) fn makes_nothing(self) -> Rule {
        self.makes::<0>().map(|_| ())
    }
}

/// `what` must be a tile of numbers or addresses.
pub(super) fn tile(what: &str, ty: Type) -> Result<(Shape, Elem), String> {
    match ty {
        Type::Tile(shape, elem) => Ok((shape, elem)),
        _ => Err(format!("{what} is {ty}, and must be a tile")),
    }
}

/// `what` must be a number or a tile of numbers.
pub(super) fn number(what: &str, ty: Type) -> Result<Scalar, String> {
    ty.number().ok_or_else(|| format!("{what} is {ty}, and must be a number or a tile of numbers"))
}

/// `what` must be an integer or a tile of integers.
pub(super) fn integer(what: &str, ty: Type) -> Result<Scalar, String> {
    ty.number()
        .filter(|scalar| scalar.is_int())
        .ok_or_else(|| format!("{what} is {ty}, and must be an integer or a tile of integers"))
}

/// `what` must be a float or a tile of floats.
pub(super) fn float(what: &str, ty: Type) -> Result<Scalar, String> {
    ty.number()
        .filter(|scalar| scalar.is_float())
        .ok_or_else(|| format!("{what} is {ty}, and must be a float or a tile of floats"))
}

/// `what` must be an address or a tile of addresses.
pub(super) fn pointer(what: &str, ty: Type) -> Result<Scalar, String> {
    ty.elem()
        .and_then(Elem::pointee)
        .ok_or_else(|| format!("{what} is {ty}, and must be a pointer or a tile of pointers"))
}

/// `what` must be of type `expected`, because of `why`.
pub(super) fn same(what: &str, found: Type, expected: Type, why: &str) -> Rule {
    ensure!(found == expected, "{what} is {found}, and must be {expected}: {why}");
    Ok(())
}
