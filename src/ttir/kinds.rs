//! What an operation is: its name and attributes to an [`OpKind`].

use super::error::{ErrorKind, Fault, Parsed};
use super::lexer::Span;
use super::numbers;
use super::tree::{Attr, AttrValue, Literal, Name, Node};
use crate::tile::{
    AtomicOp, Binary, CacheModifier, CachePolicy, Cast, EvictionPolicy, FloatCompare, InputPrecision, IntCompare,
    MemScope, MemSemantic, OpKind, Padding, Rounding, ScaledFormat, Type, Unary,
};

/// Every name that is read, but for those of [`Binary`], [`Unary`] and [`Cast`].
const NAMES: &[&str] = &[
    "arith.constant",
    "arith.cmpi",
    "arith.cmpf",
    "arith.select",
    "math.fma",
    "tt.clampf",
    "tt.fp_to_fp",
    "tt.get_program_id",
    "tt.get_num_programs",
    "tt.make_range",
    "tt.splat",
    "tt.unsplat",
    "tt.broadcast",
    "tt.expand_dims",
    "tt.reshape",
    "tt.trans",
    "tt.join",
    "tt.split",
    "tt.cat",
    "tt.gather",
    "tt.histogram",
    "tt.addptr",
    "tt.load",
    "tt.store",
    "tt.atomic_rmw",
    "tt.atomic_cas",
    "tt.make_tensor_ptr",
    "tt.advance",
    "tt.make_tensor_descriptor",
    "tt.descriptor_load",
    "tt.descriptor_store",
    "tt.reduce",
    "tt.scan",
    "tt.dot",
    "tt.dot_scaled",
    "tt.assert",
    "tt.print",
    "tt.elementwise_inline_asm",
    "tt.extern_elementwise",
    "scf.for",
    "scf.while",
    "scf.if",
    "scf.yield",
    "tt.reduce.return",
    "tt.scan.return",
    "scf.condition",
    "cf.br",
    "cf.cond_br",
    "tt.return",
    "tt.call",
    "ub.poison",
    "llvm.intr.assume",
    "gpu.barrier",
];

/// Names that Triton's text may have and the tile IR has no operation for.
const UNSUPPORTED: &[&str] = &[
    "arith.addui_extended",
    "arith.index_cast",
    "arith.mulsi_extended",
    "arith.mului_extended",
    "cf.switch",
    "scf.index_switch",
    "tt.descriptor_gather",
    "tt.descriptor_reduce",
    "tt.descriptor_scatter",
    "tt.map_elementwise",
    "tt.map_elementwise.return",
    "tt.reinterpret_tensor_descriptor",
];

/// Dialects of the stages after `.ttir`.
const LATER_DIALECTS: &[&str] = &["ttg.", "ttng.", "nvg.", "nvvm.", "amdg.", "gluon."];

/// Whether an operation of this name is read.
///
/// # Errors
/// Whether it is another of Triton's, or nobody's.
pub(super) fn known(name: Name<'_>) -> Parsed<()> {
    let text = name.text;
    if NAMES.contains(&text)
        || Binary::from_name(text).is_some()
        || Unary::from_name(text).is_some()
        || Cast::from_name(text).is_some()
    {
        return Ok(());
    }
    let (kind, what) = if UNSUPPORTED.contains(&text) {
        (ErrorKind::Unsupported, "is an operation of Triton's that is not supported".to_owned())
    } else if LATER_DIALECTS.iter().any(|dialect| text.starts_with(dialect)) {
        (ErrorKind::Unsupported, "belongs to a later stage than `.ttir`, which is what is read here".to_owned())
    } else {
        (ErrorKind::UnknownOperation, "is an unknown operation".to_owned())
    };
    Err(Fault::new(kind, name.span, format!("`{text}` {what}")).of(text))
}

/// An enumeration whose cases the short form names and the generic form counts.
trait Cases: Copy + 'static {
    /// The number and the case.
    const TABLE: &'static [(i64, Self)];

    fn word(self) -> &'static str;
}

macro_rules! cases {
    ($($name:ident: $($number:literal = $case:ident),*;)*) => {
        $(impl Cases for $name {
            const TABLE: &'static [(i64, Self)] = &[$(($number, $name::$case)),*];

            fn word(self) -> &'static str {
                self.name()
            }
        })*
    };
}

cases! {
    IntCompare: 0 = Eq, 1 = Ne, 2 = Slt, 3 = Sle, 4 = Sgt, 5 = Sge, 6 = Ult, 7 = Ule, 8 = Ugt, 9 = Uge;
    FloatCompare: 0 = False, 1 = Oeq, 2 = Ogt, 3 = Oge, 4 = Olt, 5 = Ole, 6 = One, 7 = Ord, 8 = Ueq, 9 = Ugt, 10 = Uge,
        11 = Ult, 12 = Ule, 13 = Une, 14 = Uno, 15 = True;
    InputPrecision: 0 = Tf32, 1 = Tf32x3, 2 = Ieee, 3 = Bf16x3, 4 = Bf16x6;
    ScaledFormat: 0 = E4M3, 1 = E5M2, 4 = E2M1, 5 = Bf16, 6 = Fp16;
    AtomicOp: 1 = And, 2 = Or, 3 = Xor, 4 = Add, 5 = FAdd, 6 = Max, 7 = Min, 8 = UMax, 9 = UMin, 10 = Exch;
    MemSemantic: 1 = Relaxed, 2 = Acquire, 3 = Release, 4 = AcquireRelease;
    MemScope: 1 = Gpu, 2 = Cta, 3 = Sys;
    CacheModifier: 1 = None, 2 = Ca, 3 = Cg, 4 = Wb, 5 = Cs, 6 = Wt, 7 = Cv;
    EvictionPolicy: 1 = Normal, 2 = First, 3 = Last;
    Padding: 1 = Zero, 2 = Nan;
    Rounding: 0 = Rtz, 1 = Rtne;
}

/// Along x, y, z.
#[derive(Clone, Copy)]
struct Axis(u8);

impl Cases for Axis {
    const TABLE: &'static [(i64, Self)] = &[(0, Axis(0)), (1, Axis(1)), (2, Axis(2))];

    fn word(self) -> &'static str {
        ["x", "y", "z"][usize::from(self.0)]
    }
}

#[derive(Clone, Copy)]
struct PropagateNan(bool);

impl Cases for PropagateNan {
    const TABLE: &'static [(i64, Self)] = &[(0, PropagateNan(false)), (0xffff, PropagateNan(true))];

    fn word(self) -> &'static str {
        if self.0 { "all" } else { "none" }
    }
}

/// The attributes of an operation; those that are taken are gone.
struct Attributes<'n, 'a>(&'n mut Node<'a>);

impl<'a> Attributes<'_, 'a> {
    fn take(&mut self, name: &str) -> Option<Attr<'a>> {
        self.0.attributes.shift_remove(name)
    }

    fn missing<T>(&self, name: &str) -> Parsed<T> {
        self.wrong(self.0.name.span, format!("the attribute `{name}` is missing"))
    }

    fn wrong<T>(&self, span: Span, message: String) -> Parsed<T> {
        Err(Fault::new(ErrorKind::Syntax, span, message))
    }

    /// An integer that fits `T`.
    fn int<T: TryFrom<i64>>(&mut self, name: &str) -> Parsed<Option<T>> {
        let Some(attr) = self.take(name) else { return Ok(None) };
        let value = match attr.value {
            AttrValue::Literal(Literal::Number { negative, text }) => numbers::integer(negative, text),
            _ => None,
        };
        match value.and_then(|value| T::try_from(value).ok()) {
            Some(value) => Ok(Some(value)),
            None => self.wrong(attr.span, format!("`{name}` is `{}`, and must be an integer in range", attr.text)),
        }
    }

    fn required_int<T: TryFrom<i64>>(&mut self, name: &str) -> Parsed<T> {
        match self.int(name)? {
            Some(value) => Ok(value),
            None => self.missing(name),
        }
    }

    /// A truth value; a unit attribute is true.
    fn flag(&mut self, name: &str) -> Parsed<Option<bool>> {
        let Some(attr) = self.take(name) else { return Ok(None) };
        match attr.value {
            AttrValue::Literal(Literal::Bool(value)) => Ok(Some(value)),
            AttrValue::Unit | AttrValue::Word("unit") => Ok(Some(true)),
            _ => self.wrong(attr.span, format!("`{name}` is `{}`, and must be `true` or `false`", attr.text)),
        }
    }

    fn ints<T: TryFrom<i64>>(&mut self, name: &str) -> Parsed<Option<Vec<T>>> {
        let Some(attr) = self.take(name) else { return Ok(None) };
        let values = match &attr.value {
            AttrValue::Ints(values) => values.iter().map(|&value| T::try_from(value).ok()).collect(),
            _ => None,
        };
        match values {
            Some(values) => Ok(Some(values)),
            None => self.wrong(attr.span, format!("`{name}` is `{}`, and must be an array of integers", attr.text)),
        }
    }

    fn string(&mut self, name: &str) -> Parsed<Option<String>> {
        let Some(attr) = self.take(name) else { return Ok(None) };
        match attr.value {
            AttrValue::Text(text) | AttrValue::Symbol(text) => Ok(Some(text)),
            _ => self.wrong(attr.span, format!("`{name}` is `{}`, and must be a string", attr.text)),
        }
    }

    fn required_string(&mut self, name: &str) -> Parsed<String> {
        match self.string(name)? {
            Some(text) => Ok(text),
            None => self.missing(name),
        }
    }

    fn case<T: Cases>(&mut self, name: &str) -> Parsed<Option<T>> {
        let Some(attr) = self.take(name) else { return Ok(None) };
        let found = match attr.value {
            AttrValue::Word(word) => T::TABLE.iter().find(|(_, case)| case.word() == word),
            // `true` and `false` are comparisons of floats, too.
            AttrValue::Literal(Literal::Bool(_)) => T::TABLE.iter().find(|(_, case)| case.word() == attr.text),
            AttrValue::Literal(Literal::Number { negative, text }) => {
                let value = numbers::integer(negative, text);
                T::TABLE.iter().find(|(number, _)| Some(*number) == value)
            }
            _ => None,
        };
        match found {
            Some(&(_, case)) => Ok(Some(case)),
            None => {
                let words: Vec<_> = T::TABLE.iter().map(|(_, case)| case.word()).collect();
                let message = format!("`{name}` is `{}`, and must be one of {}", attr.text, words.join(", "));
                self.wrong(attr.span, message)
            }
        }
    }

    fn required_case<T: Cases>(&mut self, name: &str) -> Parsed<T> {
        match self.case(name)? {
            Some(case) => Ok(case),
            None => self.missing(name),
        }
    }

    fn cache(&mut self) -> Parsed<CachePolicy> {
        Ok(CachePolicy {
            modifier: self.case("cache")?.unwrap_or(CacheModifier::None),
            eviction: self.case("evict")?.unwrap_or(EvictionPolicy::Normal),
            volatile: self.flag("isVolatile")?.unwrap_or(false),
        })
    }

    /// The constant's bits in the element type of the result.
    fn constant(&mut self) -> Parsed<OpKind> {
        let Some(attr) = self.take("value") else { return self.missing("value") };
        let Some(&ty) = self.0.result_types.first() else {
            return self.wrong(self.0.name.span, "a constant has a result".to_owned());
        };
        let Some(scalar) = ty.number() else {
            return self.wrong(attr.span, format!("a constant of {ty}: constants are numbers and tiles of them"));
        };
        let tile = matches!(ty, Type::Tile(..));
        let literals = match &attr.value {
            AttrValue::Literal(literal) if !tile => std::slice::from_ref(literal),
            AttrValue::Dense(literals) if tile => &literals[..],
            _ => {
                let form = if tile { "`dense<…>`" } else { "a number" };
                return self.wrong(attr.span, format!("`{}` is no constant of {ty}: expected {form}", attr.text));
            }
        };
        let mut all = None;
        for &literal in literals {
            match numbers::bits(literal, scalar) {
                Err(message) => return self.wrong(attr.span, message),
                Ok(bits) if all.is_none_or(|other| other == bits) => all = Some(bits),
                Ok(_) => {
                    let message = "a tile constant of several values is not supported: a tile constant has one value";
                    return Err(Fault::new(ErrorKind::Unsupported, attr.span, message));
                }
            }
        }
        match all {
            Some(bits) => Ok(OpKind::Constant(bits)),
            None => self.wrong(attr.span, "a constant has a value".to_owned()),
        }
    }

    /// Which operands are there, of those that may be left out; `None` where nothing says it.
    fn segments(&mut self) -> Parsed<Option<Vec<u32>>> {
        let span = self.0.attributes.get("operandSegmentSizes").map(|attr| attr.span);
        let Some(segments) = self.ints::<u32>("operandSegmentSizes")? else { return Ok(None) };
        let total = segments.iter().try_fold(0_u32, |total, &segment| total.checked_add(segment));
        if total != u32::try_from(self.0.operands.len()).ok() {
            let message =
                format!("operandSegmentSizes {segments:?} do not add up to {} operands", self.0.operands.len());
            return self.wrong(span.unwrap_or_default(), message);
        }
        Ok(Some(segments))
    }

    fn dot_scaled(&mut self) -> Parsed<OpKind> {
        let (lhs_scale, rhs_scale) = match self.segments()?.as_deref() {
            Some(&[1, 1, 1, a @ (0 | 1), b @ (0 | 1)]) => (a == 1, b == 1),
            _ => return self.missing("operandSegmentSizes"),
        };
        if self.0.generic {
            // a, b, c, scale of a, scale of b there: each scale goes behind its operand.
            let scales = self.0.operands.split_off(3);
            if lhs_scale {
                self.0.operands.insert(1, scales[0]);
            }
            if rhs_scale {
                let at = self.0.operands.len() - 1;
                self.0.operands.insert(at, scales[scales.len() - 1]);
            }
        }
        Ok(OpKind::DotScaled {
            lhs: self.required_case("a_elem_type")?,
            rhs: self.required_case("b_elem_type")?,
            lhs_scale,
            rhs_scale,
            fast_math: self.flag("fastMath")?.unwrap_or(false),
            lhs_k_pack: self.flag("lhs_k_pack")?.unwrap_or(true),
            rhs_k_pack: self.flag("rhs_k_pack")?.unwrap_or(true),
        })
    }

    fn cond_branch(&mut self) -> Parsed<OpKind> {
        match self.segments()?.as_deref() {
            Some(&[1, then_args, _]) => Ok(OpKind::CondBranch { then_args }),
            _ => self.missing("operandSegmentSizes"),
        }
    }

    /// `arith.truncf` may name its rounding, and only one is ours.
    fn cast(&mut self, cast: Cast) -> Parsed<OpKind> {
        let Some(attr) = self.take("roundingmode") else { return Ok(OpKind::Cast(cast)) };
        match attr.value {
            AttrValue::Word("to_nearest_even") => Ok(OpKind::Cast(cast)),
            AttrValue::Literal(Literal::Number { negative: false, text: "0" }) => Ok(OpKind::Cast(cast)),
            _ => {
                let message = format!("rounding `{}` is not supported: expected to_nearest_even", attr.text);
                Err(Fault::new(ErrorKind::Unsupported, attr.span, message))
            }
        }
    }
}

/// What the operation is. The attributes that say so are taken from the node.
pub(super) fn kind(node: &mut Node<'_>) -> Parsed<OpKind> {
    let name = node.name;
    let mut attrs = Attributes(node);
    Ok(match name.text {
        "arith.constant" => attrs.constant()?,
        "arith.cmpi" => OpKind::CmpI(attrs.required_case("predicate")?),
        "arith.cmpf" => OpKind::CmpF(attrs.required_case("predicate")?),
        "arith.select" => OpKind::Select,
        "math.fma" => OpKind::Fma,
        "tt.clampf" => OpKind::ClampF { propagate_nan: attrs.required_case::<PropagateNan>("propagateNan")?.0 },
        "tt.fp_to_fp" => OpKind::FpToFp(attrs.case("rounding")?),
        "tt.get_program_id" => OpKind::ProgramId(attrs.required_case::<Axis>("axis")?.0),
        "tt.get_num_programs" => OpKind::NumPrograms(attrs.required_case::<Axis>("axis")?.0),
        "tt.make_range" => OpKind::MakeRange { start: attrs.required_int("start")?, end: attrs.required_int("end")? },
        "tt.splat" => OpKind::Splat,
        "tt.unsplat" => OpKind::Unsplat,
        "tt.broadcast" => OpKind::Broadcast,
        "tt.expand_dims" => OpKind::ExpandDims { axis: attrs.required_int("axis")? },
        "tt.reshape" => OpKind::Reshape {
            allow_reorder: attrs.flag("allow_reorder")?.unwrap_or(false),
            efficient_layout: attrs.flag("efficient_layout")?.unwrap_or(false),
        },
        "tt.trans" => match attrs.ints("order")? {
            Some(order) => OpKind::Trans { order },
            None => return attrs.missing("order"),
        },
        "tt.join" => OpKind::Join,
        "tt.split" => OpKind::Split,
        "tt.cat" => OpKind::Cat,
        "tt.gather" => OpKind::Gather {
            axis: attrs.required_int("axis")?,
            efficient_layout: attrs.flag("efficient_layout")?.unwrap_or(false),
        },
        "tt.histogram" => OpKind::Histogram,
        "tt.addptr" => OpKind::AddPtr,
        "tt.load" => {
            attrs.segments()?;
            OpKind::Load {
                cache: attrs.cache()?,
                boundary_check: attrs.ints("boundaryCheck")?.unwrap_or_default(),
                padding: attrs.case("padding")?,
            }
        }
        "tt.store" => {
            OpKind::Store { cache: attrs.cache()?, boundary_check: attrs.ints("boundaryCheck")?.unwrap_or_default() }
        }
        "tt.atomic_rmw" => OpKind::AtomicRmw {
            op: attrs.required_case("atomic_rmw_op")?,
            semantic: attrs.required_case("sem")?,
            scope: attrs.required_case("scope")?,
        },
        "tt.atomic_cas" => {
            OpKind::AtomicCas { semantic: attrs.required_case("sem")?, scope: attrs.required_case("scope")? }
        }
        "tt.make_tensor_ptr" => match attrs.ints("order")? {
            Some(order) => OpKind::MakeBlockPtr { order },
            None => return attrs.missing("order"),
        },
        "tt.advance" => OpKind::Advance,
        "tt.make_tensor_descriptor" => OpKind::MakeDescriptor { padding: attrs.case("padding")? },
        "tt.descriptor_load" => OpKind::DescriptorLoad { cache: attrs.cache()? },
        "tt.descriptor_store" => OpKind::DescriptorStore,
        "tt.reduce" => OpKind::Reduce { axis: attrs.required_int("axis")? },
        "tt.scan" => {
            OpKind::Scan { axis: attrs.required_int("axis")?, reverse: attrs.flag("reverse")?.unwrap_or(false) }
        }
        "tt.dot" => OpKind::Dot {
            precision: attrs.case("inputPrecision")?.unwrap_or(InputPrecision::Ieee),
            max_imprecise: attrs.int("maxNumImpreciseAcc")?.unwrap_or(0),
        },
        "tt.dot_scaled" => attrs.dot_scaled()?,
        "tt.assert" => OpKind::Assert { message: attrs.required_string("message")? },
        "tt.print" => OpKind::Print {
            prefix: attrs.required_string("prefix")?,
            hex: attrs.flag("hex")?.unwrap_or(false),
            signed: attrs.ints::<i64>("isSigned")?.unwrap_or_default().into_iter().map(|value| value != 0).collect(),
        },
        "tt.elementwise_inline_asm" => OpKind::InlineAsm {
            asm: attrs.required_string("asm_string")?,
            constraints: attrs.required_string("constraints")?,
            pure: attrs.flag("pure")?.unwrap_or(false),
            packed: attrs.required_int("packed_element")?,
        },
        "tt.extern_elementwise" => OpKind::ExternElementwise {
            library: attrs.required_string("libname")?,
            path: attrs.required_string("libpath")?,
            symbol: attrs.required_string("symbol")?,
            pure: attrs.flag("pure")?.unwrap_or(false),
        },
        "scf.for" => OpKind::For,
        "scf.while" => OpKind::While,
        "scf.if" => OpKind::If,
        "scf.yield" | "tt.reduce.return" | "tt.scan.return" => OpKind::Yield,
        "scf.condition" => OpKind::Condition,
        "cf.br" => OpKind::Branch,
        "cf.cond_br" => attrs.cond_branch()?,
        "tt.return" => OpKind::Return,
        "tt.call" => OpKind::Call { callee: attrs.required_string("callee")? },
        "ub.poison" => OpKind::Poison,
        "llvm.intr.assume" => OpKind::Assume,
        "gpu.barrier" => OpKind::Barrier,
        text => match (Binary::from_name(text), Unary::from_name(text), Cast::from_name(text)) {
            (Some(op), ..) => OpKind::Binary(op),
            (_, Some(op), _) => OpKind::Unary(op),
            (.., Some(op)) => attrs.cast(op)?,
            _ => {
                let unknown = || Fault::new(ErrorKind::UnknownOperation, name.span, "is an unknown operation");
                return Err(known(name).err().unwrap_or_else(unknown));
            }
        },
    })
}
