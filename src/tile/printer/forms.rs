//! The form of each operation: the short one where Triton has one.

use std::fmt::{self, Formatter};

use super::text::{number, quoted, symbol};
use super::{Func, Head, OpKind, Printer, Type, Value, dictionary, joined, results};
use crate::tile::{Block, CacheModifier, CachePolicy, EvictionPolicy, InputPrecision, OpData, Padding};

/// Attributes that the short form writes as a word of its own: `fastmath<fast>`.
const CLAUSES: [&str; 2] = ["fastmath", "overflowFlags"];

/// An operation that is printed.
#[derive(Clone, Copy)]
pub(super) struct Form<'a> {
    pub(super) printer: &'a Printer<'a>,
    pub(super) func: &'a Func,
    pub(super) data: &'a OpData,
    pub(super) depth: usize,
}

/// An attribute that only the operation itself knows.
type Own = (&'static str, String);

fn i32_attribute(value: impl fmt::Display) -> String {
    format!("{value} : i32")
}

fn array(values: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let values = joined(values);
    format!("array<i32{}{values}>", if values.is_empty() { "" } else { ": " })
}

impl<'a> Form<'a> {
    /// The operand at `index`.
    fn v(&self, index: usize) -> &str {
        self.data.operands.get(index).map_or("%?", |&value| self.printer.value(value))
    }

    /// The operands from `from` up to `to`, as far as there are any.
    fn some(&self, from: usize, to: usize) -> String {
        let operands = &self.data.operands;
        let to = to.min(operands.len());
        self.printer.values(&operands[from.min(to)..to])
    }

    fn all(&self) -> String {
        self.printer.values(&self.data.operands)
    }

    fn type_of(&self, value: Option<&Value>) -> String {
        value
            .filter(|value| value.index() < self.func.value_count())
            .map_or("?".to_owned(), |&value| self.func.ty(value).to_string())
    }

    /// The type of the operand at `index`.
    fn t(&self, index: usize) -> String {
        self.type_of(self.data.operands.get(index))
    }

    /// The type of the first result.
    fn r(&self) -> String {
        self.type_of(self.data.results.first())
    }

    fn types(&self) -> Vec<Type> {
        self.printer.types(&self.data.operands)
    }

    fn result_types(&self) -> Vec<Type> {
        self.printer.types(&self.data.results)
    }

    /// `(operands) -> results`.
    fn signature(&self) -> String {
        format!("({}) -> {}", joined(self.types()), results(&self.result_types()))
    }

    fn dict(&self, f: &mut Formatter<'_>, own: impl IntoIterator<Item = Own>) -> fmt::Result {
        self.dict_without(f, own, &[])
    }

    fn dict_without(&self, f: &mut Formatter<'_>, own: impl IntoIterator<Item = Own>, left: &[&str]) -> fmt::Result {
        let others = self.data.attributes.iter().filter(|(name, _)| !left.contains(&&***name));
        let others = others.map(|(name, value)| (&**name, value.clone()));
        dictionary(f, own.into_iter().map(|(name, value)| (name as &str, value)).chain(others).collect())
    }

    /// The clauses of `arith` and `math`, then the attributes. What Triton's own casts (`tt.bitcast`) have of such a kind is an
    /// attribute like any other: their form has no clauses.
    fn clauses(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut done = Vec::new();
        let has_clauses = !(matches!(self.data.kind, OpKind::Cast(_)) && self.data.kind.name().starts_with("tt."));
        for name in CLAUSES.into_iter().filter(|_| has_clauses) {
            if let Some(text) = self.data.attributes.get(name).and_then(|text| text.strip_prefix("#arith.")) {
                write!(f, " {text}")?;
                done.push(name);
            }
        }
        self.dict_without(f, [], &done)
    }

    pub(super) fn print(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = self.data.kind.name();
        match &self.data.kind {
            OpKind::Reduce { axis } => self.generic(f, &[("axis", i32_attribute(axis))]),
            OpKind::Scan { axis, reverse } => {
                self.generic(f, &[("axis", i32_attribute(axis)), ("reverse", reverse.to_string())])
            }
            OpKind::Yield => self.yielded(f),
            _ => {
                f.write_str(name)?;
                self.rest(f)
            }
        }
    }

    /// What stands behind the name.
    fn rest(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.data.kind {
            OpKind::Constant(bits) => self.constant(f, *bits),
            OpKind::Binary(_) | OpKind::Unary(_) | OpKind::Fma => {
                write!(f, " {}", self.all())?;
                self.clauses(f)?;
                write!(f, " : {}", self.r())
            }
            OpKind::CmpI(predicate) => self.compare(f, predicate.name()),
            OpKind::CmpF(predicate) => self.compare(f, predicate.name()),
            OpKind::ClampF { propagate_nan } => {
                write!(f, " {}, propagateNan = {}", self.all(), if *propagate_nan { "all" } else { "none" })?;
                self.dict(f, [])?;
                write!(f, " : {}", self.r())
            }
            OpKind::Select => {
                write!(f, " {}", self.all())?;
                self.dict(f, [])?;
                match self.types().first() {
                    Some(Type::Scalar(_)) => write!(f, " : {}", self.r()),
                    _ => write!(f, " : {}, {}", self.t(0), self.r()),
                }
            }
            OpKind::Cast(cast) => {
                write!(f, " {}", self.v(0))?;
                self.clauses(f)?;
                let to = if cast.name().starts_with("arith.") { "to" } else { "->" };
                write!(f, " : {} {to} {}", self.t(0), self.r())
            }
            OpKind::FpToFp(rounding) => {
                write!(f, " {}", self.v(0))?;
                self.dict(f, [])?;
                if let Some(rounding) = rounding {
                    write!(f, ", rounding = {}", rounding.name())?;
                }
                write!(f, " : {} -> {}", self.t(0), self.r())
            }
            OpKind::ProgramId(axis) | OpKind::NumPrograms(axis) => {
                write!(f, " {}", ["x", "y", "z"].get(usize::from(*axis)).unwrap_or(&"?"))?;
                self.no_operands(f, [])
            }
            OpKind::MakeRange { start, end } => {
                self.no_operands(f, [("end", i32_attribute(end)), ("start", i32_attribute(start))])
            }
            OpKind::Poison => self.no_operands(f, []),
            OpKind::Splat
            | OpKind::Broadcast
            | OpKind::Join
            | OpKind::Split
            | OpKind::Cat
            | OpKind::Histogram
            | OpKind::ConvertLayout => self.arrow(f, "", []),
            OpKind::ExpandDims { axis } => self.arrow(f, "", [("axis", i32_attribute(axis))]),
            OpKind::Trans { order } => self.arrow(f, "", [("order", array(order))]),
            OpKind::Reshape { allow_reorder, efficient_layout } => {
                let reorder = if *allow_reorder { " allow_reorder" } else { "" };
                let layout = if *efficient_layout { " efficient_layout" } else { "" };
                self.arrow(f, &format!("{reorder}{layout}"), [])
            }
            OpKind::Unsplat => {
                write!(f, " {}", self.v(0))?;
                self.dict(f, [])?;
                write!(f, " : {}", self.t(0))
            }
            OpKind::Gather { axis, efficient_layout } => {
                write!(f, " {}[{}]", self.v(0), self.v(1))?;
                let layout = efficient_layout.then(|| ("efficient_layout", String::new()));
                self.dict(f, [("axis", i32_attribute(axis))].into_iter().chain(layout))?;
                write!(f, " : {}", self.signature())
            }
            OpKind::AddPtr => {
                write!(f, " {}", self.all())?;
                self.dict(f, [])?;
                write!(f, " : {}, {}", self.t(0), self.t(1))
            }
            OpKind::Load { .. }
            | OpKind::Store { .. }
            | OpKind::AtomicRmw { .. }
            | OpKind::AtomicCas { .. }
            | OpKind::MakeBlockPtr { .. }
            | OpKind::Advance
            | OpKind::MakeDescriptor { .. }
            | OpKind::DescriptorLoad { .. }
            | OpKind::DescriptorStore => self.memory(f),
            OpKind::Dot { precision, max_imprecise } => {
                write!(f, " {}", self.all())?;
                if *precision != InputPrecision::Ieee {
                    write!(f, ", inputPrecision = {}", precision.name())?;
                }
                self.dict(f, (*max_imprecise > 0).then(|| ("maxNumImpreciseAcc", i32_attribute(max_imprecise))))?;
                write!(f, " : {} * {} -> {}", self.t(0), self.t(1), self.r())
            }
            OpKind::DotScaled { .. } => self.dot_scaled(f),
            OpKind::Assert { message } => {
                write!(f, " {}, {}", self.v(0), quoted(message))?;
                self.dict(f, [])?;
                write!(f, " : {}", self.t(0))
            }
            OpKind::Print { prefix, hex, signed } => {
                write!(f, " {}", quoted(prefix))?;
                let signed = array(signed.iter().map(|&signed| i32::from(signed)));
                self.dict(f, [("hex", hex.to_string()), ("isSigned", signed)])?;
                self.operands_if_any(f, " : ")
            }
            OpKind::InlineAsm { asm, constraints, pure, packed } => {
                write!(f, " {}", quoted(asm))?;
                let own = [
                    ("constraints", quoted(constraints)),
                    ("packed_element", i32_attribute(packed)),
                    ("pure", pure.to_string()),
                ];
                self.dict(f, own)?;
                self.operands_if_any(f, " ")?;
                write!(f, " -> {}", joined(self.result_types()))
            }
            OpKind::ExternElementwise { library, path, symbol, pure } => {
                if !self.data.operands.is_empty() {
                    write!(f, " {}", self.all())?;
                }
                let own = [
                    ("libname", quoted(library)),
                    ("libpath", quoted(path)),
                    ("pure", pure.to_string()),
                    ("symbol", quoted(symbol)),
                ];
                self.dict(f, own)?;
                write!(f, " : {}", self.signature())
            }
            OpKind::Assume => {
                write!(f, " {}", self.v(0))?;
                self.dict(f, [])?;
                write!(f, " : {}", self.t(0))
            }
            OpKind::Barrier => self.dict(f, []),
            OpKind::Call { callee } => {
                write!(f, " {}({})", symbol(callee), self.all())?;
                self.dict(f, [])?;
                write!(f, " : {}", self.signature())
            }
            OpKind::For => self.for_loop(f),
            OpKind::While => self.while_loop(f),
            OpKind::If => self.if_else(f),
            OpKind::Condition => {
                write!(f, "({})", self.v(0))?;
                self.dict(f, [])?;
                match self.data.operands.len() {
                    0 | 1 => Ok(()),
                    count => write!(f, " {} : {}", self.some(1, count), joined(self.types().iter().skip(1))),
                }
            }
            OpKind::Branch => {
                write!(f, " {}", self.successor(0, 0, self.data.operands.len()))?;
                self.dict(f, [])
            }
            OpKind::CondBranch { then_args } => {
                let middle = (*then_args as usize).saturating_add(1);
                let (then, otherwise) =
                    (self.successor(0, 1, middle), self.successor(1, middle, self.data.operands.len()));
                write!(f, " {}, {then}, {otherwise}", self.v(0))?;
                self.dict(f, [])
            }
            OpKind::Return => {
                self.dict(f, [])?;
                self.operands_if_any(f, " ")
            }
            // Their names are not their kinds': see `print`.
            OpKind::Reduce { .. } | OpKind::Scan { .. } | OpKind::Yield => Ok(()),
        }
    }

    /// `%a, %b : A, B`, in front of it `before`.
    fn operands_if_any(&self, f: &mut Formatter<'_>, before: &str) -> fmt::Result {
        if self.data.operands.is_empty() {
            return Ok(());
        }
        write!(f, "{before}{} : {}", self.all(), joined(self.types()))
    }

    fn no_operands(&self, f: &mut Formatter<'_>, own: impl IntoIterator<Item = Own>) -> fmt::Result {
        self.dict(f, own)?;
        write!(f, " : {}", self.r())
    }

    /// `%a, … : A -> R`.
    fn arrow(&self, f: &mut Formatter<'_>, flags: &str, own: impl IntoIterator<Item = Own>) -> fmt::Result {
        write!(f, " {}{flags}", self.all())?;
        self.dict(f, own)?;
        write!(f, " : {} -> {}", self.t(0), self.r())
    }

    fn compare(&self, f: &mut Formatter<'_>, predicate: &str) -> fmt::Result {
        write!(f, " {predicate}, {}", self.all())?;
        self.clauses(f)?;
        write!(f, " : {}", self.t(0))
    }

    fn constant(&self, f: &mut Formatter<'_>, bits: u64) -> fmt::Result {
        self.dict(f, [])?;
        let ty = self.result_types().first().copied();
        match (ty, ty.and_then(Type::number)) {
            (Some(Type::Tile(..)), Some(scalar)) => write!(f, " dense<{}> : {}", number(scalar, bits), self.r()),
            (_, Some(scalar)) if scalar.bits() == 1 => write!(f, " {}", number(scalar, bits)),
            (_, Some(scalar)) => write!(f, " {} : {}", number(scalar, bits), self.r()),
            (_, None) => write!(f, " {bits:#x} : {}", self.r()),
        }
    }

    fn cache(&self, f: &mut Formatter<'_>, cache: CachePolicy) -> fmt::Result {
        if cache.modifier != CacheModifier::None {
            write!(f, " cacheModifier = {}", cache.modifier.name())?;
        }
        if cache.eviction != EvictionPolicy::Normal {
            write!(f, " evictionPolicy = {}", cache.eviction.name())?;
        }
        Ok(())
    }

    fn memory(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let checks = |axes: &[u32]| (!axes.is_empty()).then(|| ("boundaryCheck", array(axes)));
        let padding = |padding: Option<Padding>| {
            padding.map(|padding| ("padding", i32_attribute(if padding == Padding::Zero { 1 } else { 2 })))
        };
        let count = self.data.operands.len();
        match &self.data.kind {
            OpKind::Load { cache, boundary_check, padding: beyond } => {
                write!(f, " {}", self.all())?;
                self.cache(f, *cache)?;
                let volatile = cache.volatile.then(|| ("isVolatile", "true".to_owned()));
                self.dict(f, checks(boundary_check).into_iter().chain(volatile).chain(padding(*beyond)))?;
                write!(f, " : {}", self.t(0))
            }
            OpKind::Store { cache, boundary_check } => {
                write!(f, " {}", self.all())?;
                self.cache(f, *cache)?;
                self.dict(f, checks(boundary_check))?;
                write!(f, " : {}", self.t(0))
            }
            OpKind::AtomicRmw { op, semantic, scope } => {
                write!(f, " {}, {}, {}, {}", op.name(), semantic.name(), scope.name(), self.all())?;
                self.dict(f, [])?;
                write!(f, " : {}", self.signature())
            }
            OpKind::AtomicCas { semantic, scope } => {
                write!(f, " {}, {}, {}", semantic.name(), scope.name(), self.all())?;
                self.dict(f, [])?;
                write!(f, " : {}", self.signature())
            }
            OpKind::MakeBlockPtr { order } => {
                let rank = count.saturating_sub(1) / 3;
                let (shape, strides) = (self.some(1, 1 + rank), self.some(1 + rank, 1 + 2 * rank));
                write!(f, " {}, [{shape}], [{strides}], [{}]", self.v(0), self.some(1 + 2 * rank, count))?;
                self.dict(f, [("order", array(order))])?;
                write!(f, " : {}", self.r().trim_start_matches("!tt.ptr"))
            }
            OpKind::Advance => {
                write!(f, " {}, [{}]", self.v(0), self.some(1, count))?;
                self.dict(f, [])?;
                write!(f, " : {}", self.r().trim_start_matches("!tt.ptr"))
            }
            OpKind::MakeDescriptor { padding: beyond } => {
                let rank = count.saturating_sub(1) / 2;
                write!(f, " {}, [{}], [{}]", self.v(0), self.some(1, 1 + rank), self.some(1 + rank, count))?;
                self.dict(f, padding(*beyond))?;
                let (base, result) = (self.t(0), self.r());
                write!(f, " : {}, {}", base.trim_start_matches("!tt.ptr"), result.trim_start_matches("!tt.tensordesc"))
            }
            OpKind::DescriptorLoad { cache } => {
                write!(f, " {}[{}]", self.v(0), self.some(1, count))?;
                self.cache(f, *cache)?;
                self.dict(f, [])?;
                write!(f, " : {} -> {}", self.t(0), self.r())
            }
            OpKind::DescriptorStore => {
                write!(f, " {}[{}], {}", self.v(0), self.some(2, count), self.v(1))?;
                self.dict(f, [])?;
                write!(f, " : {}, {}", self.t(0), self.t(1))
            }
            _ => Ok(()),
        }
    }

    fn dot_scaled(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let OpKind::DotScaled { lhs, rhs, lhs_scale, rhs_scale, fast_math, lhs_k_pack, rhs_k_pack } = self.data.kind
        else {
            return Ok(());
        };
        let (mut values, mut types) = (String::new(), String::new());
        let mut at = 0;
        for (index, scaled) in [lhs_scale, rhs_scale].into_iter().enumerate() {
            types += if index > 0 { " * " } else { "" };
            types += &self.t(at);
            values += self.v(at);
            at += 1;
            if scaled {
                types += &format!(", {}", self.t(at));
                values += &format!(" scale {}", self.v(at));
                at += 1;
            }
            values += ", ";
        }
        write!(f, " {values}{} lhs = {} rhs = {}", self.v(at), lhs.name(), rhs.name())?;
        let packs = [("lhs_k_pack", lhs_k_pack), ("rhs_k_pack", rhs_k_pack)];
        let packs = packs.into_iter().filter(|(_, pack)| !pack).map(|(name, pack)| (name, pack.to_string()));
        self.dict(f, [("fastMath", fast_math.to_string())].into_iter().chain(packs))?;
        write!(f, " : {types} -> {}", self.r())
    }

    /// `"name"(operands) <{own}> ({region}) {attributes} : signature`.
    fn generic(&self, f: &mut Formatter<'_>, own: &[Own]) -> fmt::Result {
        write!(f, "\"{}\"({}) <", self.data.kind.name(), self.all())?;
        let own = own.iter().map(|(name, value)| format!("{name} = {value}"));
        write!(f, "{{{}}}> (", joined(own))?;
        for (index, &region) in self.data.regions.iter().enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            self.printer.region(f, region, self.depth, Head::Block, true)?;
        }
        f.write_str(")")?;
        self.dict(f, [])?;
        write!(f, " : {}", self.signature())
    }

    /// The end of a region is named for what the region belongs to.
    fn yielded(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let region = self.func.block(self.data.block).region;
        f.write_str(match self.func.region(region).parent.map(|parent| &self.func.op(parent).kind) {
            Some(OpKind::Reduce { .. }) => "tt.reduce.return",
            Some(OpKind::Scan { .. }) => "tt.scan.return",
            _ => "scf.yield",
        })?;
        self.dict(f, [])?;
        self.operands_if_any(f, " ")
    }

    /// The arguments of the first block of the region at `index`.
    fn args(&self, index: usize) -> &'a [Value] {
        self.block(index).map_or(&[], |block| &self.func.block(block).args)
    }

    fn block(&self, index: usize) -> Option<Block> {
        let region = self.data.regions.get(index).filter(|region| region.index() < self.func.region_count())?;
        self.func.region(*region).blocks.first().copied()
    }

    fn region(&self, f: &mut Formatter<'_>, index: usize, head: Head, ends: bool) -> fmt::Result {
        match self.data.regions.get(index) {
            Some(&region) => self.printer.region(f, region, self.depth, head, ends),
            None => f.write_str("{\n}"),
        }
    }

    /// `(%a = %init, …)`.
    fn carried(&self, args: &[Value], from: usize) -> String {
        let inits = (from..self.data.operands.len().max(from)).map(|index| self.v(index));
        let pairs = args.iter().zip(inits).map(|(&arg, init)| format!("{} = {init}", self.printer.value(arg)));
        format!("({})", joined(pairs))
    }

    fn for_loop(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let args = self.args(0);
        let counter = args.first().map_or("%?", |&arg| self.printer.value(arg));
        write!(f, " {counter} = {} to {} step {}", self.v(0), self.v(1), self.v(2))?;
        let carries = !self.data.results.is_empty();
        if carries {
            let carried = self.carried(args.get(1..).unwrap_or_default(), 3);
            write!(f, " iter_args{carried} -> ({})", joined(self.result_types()))?;
        }
        write!(f, "  : {} ", self.t(0))?;
        self.region(f, 0, Head::Elsewhere, carries)?;
        self.dict(f, [])
    }

    fn while_loop(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let args = self.args(0);
        if !args.is_empty() {
            write!(f, " {}", self.carried(args, 0))?;
        }
        write!(f, " : {} ", self.signature())?;
        self.region(f, 0, Head::Elsewhere, true)?;
        f.write_str(" do ")?;
        self.region(f, 1, Head::Block, true)?;
        if !self.data.attributes.is_empty() {
            f.write_str(" attributes")?;
        }
        self.dict(f, [])
    }

    fn if_else(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, " {} ", self.v(0))?;
        let gives = !self.data.results.is_empty();
        if gives {
            write!(f, "-> ({}) ", joined(self.result_types()))?;
        }
        self.region(f, 0, Head::Elsewhere, gives)?;
        if self.block(1).is_some() {
            f.write_str(" else ")?;
            self.region(f, 1, Head::Elsewhere, gives)?;
        }
        self.dict(f, [])
    }

    /// `^bb1(%a, %b : A, B)`, with the operands from `from` up to `to`.
    fn successor(&self, index: usize, from: usize, to: usize) -> String {
        let block = self.data.successors.get(index).map_or("^?", |&block| self.printer.names.block(block));
        let operands = &self.data.operands;
        let to = to.min(operands.len());
        match &operands[from.min(to)..to] {
            [] => block.to_owned(),
            given => format!("{block}({} : {})", self.printer.values(given), joined(self.printer.types(given))),
        }
    }
}
