//! The operations, one to one with Triton's IR.

use super::{Scalar, Type};

/// Declares an enum of operations that differ by name alone, with the table of their MLIR names.
macro_rules! named {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$inner])* $variant,)* }

        impl $name {
            /// Every one, in the order of the table.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The name in Triton's IR text.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// The one of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some($name::$variant),)* _ => None }
            }
        }

        /// By its name.
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}

named! {
    /// Two operands and a result of one type, element by element.
    Binary {
        /// Sum, wrapping.
        AddI = "arith.addi",
        /// Difference, wrapping.
        SubI = "arith.subi",
        /// Product, wrapping.
        MulI = "arith.muli",
        /// Signed quotient, rounded to zero.
        DivSI = "arith.divsi",
        /// Unsigned quotient.
        DivUI = "arith.divui",
        /// Signed quotient, rounded up.
        CeilDivSI = "arith.ceildivsi",
        /// Unsigned quotient, rounded up.
        CeilDivUI = "arith.ceildivui",
        /// Signed quotient, rounded down.
        FloorDivSI = "arith.floordivsi",
        /// Signed remainder: the dividend's sign.
        RemSI = "arith.remsi",
        /// Unsigned remainder.
        RemUI = "arith.remui",
        /// Bitwise and.
        AndI = "arith.andi",
        /// Bitwise or.
        OrI = "arith.ori",
        /// Bitwise exclusive or.
        XOrI = "arith.xori",
        /// Shift left. A count of the width or more has no defined result.
        ShlI = "arith.shli",
        /// Shift right, copies of the sign.
        ShrSI = "arith.shrsi",
        /// Shift right, zeros.
        ShrUI = "arith.shrui",
        /// Smaller, signed.
        MinSI = "arith.minsi",
        /// Smaller, unsigned.
        MinUI = "arith.minui",
        /// Larger, signed.
        MaxSI = "arith.maxsi",
        /// Larger, unsigned.
        MaxUI = "arith.maxui",
        /// Sum.
        AddF = "arith.addf",
        /// Difference.
        SubF = "arith.subf",
        /// Product.
        MulF = "arith.mulf",
        /// Quotient: `div.full.f32` for singles, as Triton's.
        DivF = "arith.divf",
        /// Remainder of the division rounded to zero.
        RemF = "arith.remf",
        /// Smaller; the number where one is NaN.
        MinNumF = "arith.minnumf",
        /// Larger; the number where one is NaN.
        MaxNumF = "arith.maxnumf",
        /// Smaller; NaN where one is NaN.
        MinimumF = "arith.minimumf",
        /// Larger; NaN where one is NaN.
        MaximumF = "arith.maximumf",
        /// Quotient, correctly rounded (singles).
        PreciseDivF = "tt.precise_divf",
        /// High half of the unsigned product.
        MulhiUI = "tt.mulhiui",
    }
}

named! {
    /// One operand and a result of one type, element by element.
    Unary {
        /// Sign changed.
        NegF = "arith.negf",
        /// Magnitude.
        AbsF = "math.absf",
        /// Magnitude of an integer, wrapping.
        AbsI = "math.absi",
        /// Rounded up.
        Ceil = "math.ceil",
        /// Rounded down.
        Floor = "math.floor",
        /// e to the power.
        Exp = "math.exp",
        /// 2 to the power: `ex2.approx.ftz` for singles.
        Exp2 = "math.exp2",
        /// Natural logarithm.
        Log = "math.log",
        /// Logarithm to base 2.
        Log2 = "math.log2",
        /// Sine.
        Sin = "math.sin",
        /// Cosine.
        Cos = "math.cos",
        /// Error function.
        Erf = "math.erf",
        /// Square root: `sqrt.approx.ftz` for singles.
        Sqrt = "math.sqrt",
        /// Reciprocal square root.
        Rsqrt = "math.rsqrt",
        /// Square root, correctly rounded (singles).
        PreciseSqrt = "tt.precise_sqrt",
    }
}

named! {
    /// Conversions between element types; the shape stays.
    Cast {
        /// Sign-extended.
        ExtSI = "arith.extsi",
        /// Zero-extended.
        ExtUI = "arith.extui",
        /// High bits dropped.
        TruncI = "arith.trunci",
        /// To a wider float, exact.
        ExtF = "arith.extf",
        /// To a narrower float, nearest even.
        TruncF = "arith.truncf",
        /// Signed integer to float, nearest even.
        SIToFP = "arith.sitofp",
        /// Unsigned integer to float, nearest even.
        UIToFP = "arith.uitofp",
        /// Float to signed integer, to zero.
        FPToSI = "arith.fptosi",
        /// Float to unsigned integer, to zero.
        FPToUI = "arith.fptoui",
        /// The same bits (numbers).
        ArithBitcast = "arith.bitcast",
        /// The same bits (numbers, or pointers to pointers).
        Bitcast = "tt.bitcast",
        /// An address from an integer of 64 bits.
        IntToPtr = "tt.int_to_ptr",
        /// An integer from an address.
        PtrToInt = "tt.ptr_to_int",
    }
}

named! {
    /// Comparisons of integers.
    IntCompare {
        /// =
        Eq = "eq",
        /// ≠
        Ne = "ne",
        /// <, signed
        Slt = "slt",
        /// ≤, signed
        Sle = "sle",
        /// >, signed
        Sgt = "sgt",
        /// ≥, signed
        Sge = "sge",
        /// <, unsigned
        Ult = "ult",
        /// ≤, unsigned
        Ule = "ule",
        /// >, unsigned
        Ugt = "ugt",
        /// ≥, unsigned
        Uge = "uge",
    }
}

named! {
    /// Comparisons of floats: `o…` false, `u…` true where an operand is NaN.
    FloatCompare {
        /// Never.
        False = "false",
        /// =
        Oeq = "oeq",
        /// >
        Ogt = "ogt",
        /// ≥
        Oge = "oge",
        /// <
        Olt = "olt",
        /// ≤
        Ole = "ole",
        /// ≠
        One = "one",
        /// Neither is NaN.
        Ord = "ord",
        /// = or unordered
        Ueq = "ueq",
        /// > or unordered
        Ugt = "ugt",
        /// ≥ or unordered
        Uge = "uge",
        /// < or unordered
        Ult = "ult",
        /// ≤ or unordered
        Ule = "ule",
        /// ≠ or unordered
        Une = "une",
        /// One is NaN.
        Uno = "uno",
        /// Always.
        True = "true",
    }
}

named! {
    /// How the products of a `tt.dot` of singles are made.
    InputPrecision {
        /// Fused multiply-add in singles, no tensor core.
        Ieee = "ieee",
        /// One product of operands cut to TF32.
        Tf32 = "tf32",
        /// Three TF32 products: near the precision of singles.
        Tf32x3 = "tf32x3",
        /// Three bfloat16 products.
        Bf16x3 = "bf16x3",
        /// Six bfloat16 products.
        Bf16x6 = "bf16x6",
    }
}

named! {
    /// The format of an operand of `tt.dot_scaled`.
    ScaledFormat {
        /// FP8, 4 exponent bits.
        E4M3 = "e4m3",
        /// FP8, 5 exponent bits.
        E5M2 = "e5m2",
        /// FP4, two to a byte, the first in the low half.
        E2M1 = "e2m1",
        /// bfloat16.
        Bf16 = "bf16",
        /// IEEE half.
        Fp16 = "fp16",
    }
}

named! {
    /// What an atomic operation does to memory.
    AtomicOp {
        /// Bitwise and.
        And = "and",
        /// Bitwise or.
        Or = "or",
        /// Bitwise exclusive or.
        Xor = "xor",
        /// Sum of integers.
        Add = "add",
        /// Sum of floats.
        FAdd = "fadd",
        /// Larger, signed.
        Max = "max",
        /// Smaller, signed.
        Min = "min",
        /// Larger, unsigned.
        UMax = "umax",
        /// Smaller, unsigned.
        UMin = "umin",
        /// Exchange.
        Exch = "exch",
    }
}

named! {
    /// The order that an atomic operation keeps.
    MemSemantic {
        /// None.
        Relaxed = "relaxed",
        /// Later accesses stay later.
        Acquire = "acquire",
        /// Earlier accesses stay earlier.
        Release = "release",
        /// Both.
        AcquireRelease = "acq_rel",
    }
}

named! {
    /// Who sees the order of an atomic operation.
    MemScope {
        /// The CTA.
        Cta = "cta",
        /// The device.
        Gpu = "gpu",
        /// Everyone.
        Sys = "sys",
    }
}

named! {
    /// Which cache a load or a store uses.
    CacheModifier {
        /// The default.
        None = "none",
        /// `.ca`: all levels.
        Ca = "ca",
        /// `.cg`: L2 only.
        Cg = "cg",
        /// `.wb`: write back.
        Wb = "wb",
        /// `.cs`: streaming.
        Cs = "cs",
        /// `.wt`: write through.
        Wt = "wt",
        /// `.cv`: fetched again.
        Cv = "cv",
    }
}

named! {
    /// How long a line should stay in the cache.
    EvictionPolicy {
        /// The default.
        Normal = "evict_normal",
        /// First to go.
        First = "evict_first",
        /// Last to go.
        Last = "evict_last",
    }
}

named! {
    /// What a load past the edge of a block pointer gives.
    Padding {
        /// Zero.
        Zero = "zero",
        /// NaN.
        Nan = "nan",
    }
}

named! {
    /// Rounding of `tt.fp_to_fp`.
    Rounding {
        /// Nearest, ties to even.
        Rtne = "rtne",
        /// To zero.
        Rtz = "rtz",
    }
}

/// How a memory operation treats the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CachePolicy {
    /// Which cache.
    pub modifier: CacheModifier,
    /// How long.
    pub eviction: EvictionPolicy,
    /// Whether each access must happen (loads).
    pub volatile: bool,
}

impl Default for CachePolicy {
    fn default() -> Self {
        Self { modifier: CacheModifier::None, eviction: EvictionPolicy::Normal, volatile: false }
    }
}

/// An operation and its attributes; operands, results and regions are in [`super::OpData`].
///
/// Operands are listed in the order of Triton's text; `shape` is that of the (first) result unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// A scalar, or a tile of one value: the bits of the value in its element type, zero-extended.
    Constant(u64),
    /// `arith.*`, `tt.*`: two operands.
    Binary(Binary),
    /// `math.*`, `arith.*`: one operand.
    Unary(Unary),
    /// `arith.cmpi`.
    CmpI(IntCompare),
    /// `arith.cmpf`.
    CmpF(FloatCompare),
    /// `arith.select` condition, true value, false value; the condition is a scalar or a tile of the values' shape.
    Select,
    /// `math.fma` a, b, c: a·b + c, rounded once.
    Fma,
    /// `tt.clampf` x, min, max.
    ClampF {
        /// NaN gives NaN (else the bound).
        propagate_nan: bool,
    },
    /// Conversions without attributes.
    Cast(Cast),
    /// `tt.fp_to_fp`: between float types, with a rounding where bits are lost.
    FpToFp(Option<Rounding>),

    /// `tt.get_program_id`: the CTA's (or cluster's) index along x, y, z = 0, 1, 2.
    ProgramId(u8),
    /// `tt.get_num_programs`.
    NumPrograms(u8),
    /// `tt.make_range`: start, …, end − 1.
    MakeRange {
        /// First value.
        start: i32,
        /// One past the last.
        end: i32,
    },
    /// `tt.splat` scalar.
    Splat,
    /// `tt.unsplat` tile of one element.
    Unsplat,
    /// `tt.broadcast`: axes of extent 1 are repeated.
    Broadcast,
    /// `tt.expand_dims`: an axis of extent 1 put in at `axis`.
    ExpandDims {
        /// Where.
        axis: u32,
    },
    /// `tt.reshape`: the row-major order stays, unless reordering is allowed.
    Reshape {
        /// Any order of the elements will do.
        allow_reorder: bool,
        /// The layout asked for should be kept (a hint).
        efficient_layout: bool,
    },
    /// `tt.trans`: axis i of the result is axis `order[i]` of the operand.
    Trans {
        /// The permutation.
        order: Vec<u32>,
    },
    /// `tt.join` a, b: a new innermost axis of extent 2.
    Join,
    /// `tt.split`: the two halves along an innermost axis of extent 2.
    Split,
    /// `tt.cat` a, b: one after the other along axis 0; the order of the elements is free.
    Cat,
    /// `tt.gather` source, indices.
    Gather {
        /// The axis that the indices count along.
        axis: u32,
        /// A hint.
        efficient_layout: bool,
    },
    /// `tt.histogram` values, optional mask: counts of 0, 1, … in bins.
    Histogram,

    /// `tt.addptr` pointer, offset in elements.
    AddPtr,
    /// `tt.load` pointer, optional mask, optional other. With a block pointer neither, but checks.
    Load {
        /// Caches.
        cache: CachePolicy,
        /// The axes of a block pointer that are held to the array's extents.
        boundary_check: Vec<u32>,
        /// What is read beyond them.
        padding: Option<Padding>,
    },
    /// `tt.store` pointer, value, optional mask.
    Store {
        /// Caches.
        cache: CachePolicy,
        /// The axes of a block pointer that are held to the array's extents.
        boundary_check: Vec<u32>,
    },
    /// `tt.atomic_rmw` pointer, value, optional mask; gives the old value.
    AtomicRmw {
        /// What it does.
        op: AtomicOp,
        /// Its order.
        semantic: MemSemantic,
        /// For whom.
        scope: MemScope,
    },
    /// `tt.atomic_cas` pointer, compare, value; gives the old value.
    AtomicCas {
        /// Its order.
        semantic: MemSemantic,
        /// For whom.
        scope: MemScope,
    },
    /// `tt.make_tensor_ptr` base, shape (i64 × rank), strides (i64 × rank), offsets (i32 × rank).
    MakeBlockPtr {
        /// The order of the axes in memory, fastest first (a hint).
        order: Vec<u32>,
    },
    /// `tt.advance` block pointer, offsets (i32 × rank).
    Advance,
    /// `tt.make_tensor_descriptor` base, shape (i32 × rank), strides (i64 × rank).
    MakeDescriptor {
        /// What is read beyond the extents.
        padding: Option<Padding>,
    },
    /// `tt.descriptor_load` descriptor, indices (i32 × rank).
    DescriptorLoad {
        /// Caches.
        cache: CachePolicy,
    },
    /// `tt.descriptor_store` descriptor, value, indices (i32 × rank).
    DescriptorStore,

    /// `tt.reduce` tiles of one shape: along `axis`, by the region (a pair of accumulators, then of elements).
    Reduce {
        /// The axis that goes.
        axis: u32,
    },
    /// `tt.scan` tiles of one shape: inclusive, along `axis`, by the region.
    Scan {
        /// The axis.
        axis: u32,
        /// From the end.
        reverse: bool,
    },
    /// `tt.dot` a (m×k), b (k×n), c (m×n): a·b + c; also with a batch axis in front.
    Dot {
        /// How singles are multiplied.
        precision: InputPrecision,
        /// The most products of FP8 that Hopper may sum in its short accumulator before adding them in singles.
        max_imprecise: u32,
    },
    /// `tt.dot_scaled` a, optional scales, b, optional scales, c. Scales: m×(k/32) and n×(k/32).
    DotScaled {
        /// Format of a.
        lhs: ScaledFormat,
        /// Format of b.
        rhs: ScaledFormat,
        /// Whether scales of a are there.
        lhs_scale: bool,
        /// Whether scales of b are there.
        rhs_scale: bool,
        /// A scale of NaN need not give NaN.
        fast_math: bool,
        /// FP4 of a is packed along k (else along m).
        lhs_k_pack: bool,
        /// FP4 of b is packed along k (else along n).
        rhs_k_pack: bool,
    },

    /// `tt.assert` condition.
    Assert {
        /// What is said where it fails.
        message: String,
    },
    /// `tt.print` values.
    Print {
        /// What is written before them.
        prefix: String,
        /// In hexadecimal.
        hex: bool,
        /// Whether each operand is signed.
        signed: Vec<bool>,
    },
    /// `tt.elementwise_inline_asm`.
    InlineAsm {
        /// The PTX, `$0`, `$1` … for results and operands.
        asm: String,
        /// LLVM's constraints.
        constraints: String,
        /// No side effects.
        pure: bool,
        /// Elements that one piece takes.
        packed: u32,
    },
    /// `tt.extern_elementwise`: a function of a library, by element.
    ExternElementwise {
        /// The library's name.
        library: String,
        /// The library's path.
        path: String,
        /// The function.
        symbol: String,
        /// No side effects.
        pure: bool,
    },

    /// `scf.for` lower, upper, step, then the values carried; its region's block has the counter and them.
    For,
    /// `scf.while` values; regions: before (ends in [`OpKind::Condition`]), after (ends in [`OpKind::Yield`]).
    While,
    /// `scf.if` condition; regions: then, else (empty where there is none and no result).
    If,
    /// `scf.yield`, `tt.reduce.return`, `tt.scan.return`: the values of a region.
    Yield,
    /// `scf.condition` go on?, values.
    Condition,
    /// `cf.br` to a block with its arguments.
    Branch,
    /// `cf.cond_br` condition, then the arguments of the first block, then those of the second.
    CondBranch {
        /// How many operands after the condition belong to the first.
        then_args: u32,
    },
    /// `tt.return` values.
    Return,
    /// `tt.call` of a function of the module.
    Call {
        /// Its name.
        callee: String,
    },
    /// `ub.poison`: any value at all. Nothing reads it in a program that means something.
    Poison,
    /// `llvm.intr.assume` condition: it holds, and the compiler may count on it.
    Assume,
    /// `gpu.barrier`, from `tl.debug_barrier`: the program's threads wait for each other. The IR has one thread of control, so
    /// it means nothing here; it stays where it is for the sake of a program that is being looked at.
    Barrier,
    /// The value has another layout; the tile stays as it is. Made by the compiler, never read.
    ConvertLayout,
}

impl OpKind {
    /// The name in Triton's IR text.
    pub fn name(&self) -> &'static str {
        match self {
            OpKind::Constant(_) => "arith.constant",
            OpKind::Binary(op) => op.name(),
            OpKind::Unary(op) => op.name(),
            OpKind::CmpI(_) => "arith.cmpi",
            OpKind::CmpF(_) => "arith.cmpf",
            OpKind::Select => "arith.select",
            OpKind::Fma => "math.fma",
            OpKind::ClampF { .. } => "tt.clampf",
            OpKind::Cast(op) => op.name(),
            OpKind::FpToFp(_) => "tt.fp_to_fp",
            OpKind::ProgramId(_) => "tt.get_program_id",
            OpKind::NumPrograms(_) => "tt.get_num_programs",
            OpKind::MakeRange { .. } => "tt.make_range",
            OpKind::Splat => "tt.splat",
            OpKind::Unsplat => "tt.unsplat",
            OpKind::Broadcast => "tt.broadcast",
            OpKind::ExpandDims { .. } => "tt.expand_dims",
            OpKind::Reshape { .. } => "tt.reshape",
            OpKind::Trans { .. } => "tt.trans",
            OpKind::Join => "tt.join",
            OpKind::Split => "tt.split",
            OpKind::Cat => "tt.cat",
            OpKind::Gather { .. } => "tt.gather",
            OpKind::Histogram => "tt.histogram",
            OpKind::AddPtr => "tt.addptr",
            OpKind::Load { .. } => "tt.load",
            OpKind::Store { .. } => "tt.store",
            OpKind::AtomicRmw { .. } => "tt.atomic_rmw",
            OpKind::AtomicCas { .. } => "tt.atomic_cas",
            OpKind::MakeBlockPtr { .. } => "tt.make_tensor_ptr",
            OpKind::Advance => "tt.advance",
            OpKind::MakeDescriptor { .. } => "tt.make_tensor_descriptor",
            OpKind::DescriptorLoad { .. } => "tt.descriptor_load",
            OpKind::DescriptorStore => "tt.descriptor_store",
            OpKind::Reduce { .. } => "tt.reduce",
            OpKind::Scan { .. } => "tt.scan",
            OpKind::Dot { .. } => "tt.dot",
            OpKind::DotScaled { .. } => "tt.dot_scaled",
            OpKind::Assert { .. } => "tt.assert",
            OpKind::Print { .. } => "tt.print",
            OpKind::InlineAsm { .. } => "tt.elementwise_inline_asm",
            OpKind::ExternElementwise { .. } => "tt.extern_elementwise",
            OpKind::For => "scf.for",
            OpKind::While => "scf.while",
            OpKind::If => "scf.if",
            OpKind::Yield => "scf.yield",
            OpKind::Condition => "scf.condition",
            OpKind::Branch => "cf.br",
            OpKind::CondBranch { .. } => "cf.cond_br",
            OpKind::Return => "tt.return",
            OpKind::Call { .. } => "tt.call",
            OpKind::Poison => "ub.poison",
            OpKind::Assume => "llvm.intr.assume",
            OpKind::Barrier => "gpu.barrier",
            OpKind::ConvertLayout => "convert_layout",
        }
    }

    /// Whether it ends a block.
    pub fn is_terminator(&self) -> bool {
        matches!(self, OpKind::Yield | OpKind::Condition | OpKind::Branch | OpKind::CondBranch { .. } | OpKind::Return)
    }

    /// Whether it may go where nothing uses its results, and may be made twice or once for two of the same. A load is not:
    /// memory may change.
    pub fn is_pure(&self) -> bool {
        match self {
            OpKind::Load { .. }
            | OpKind::Store { .. }
            | OpKind::AtomicRmw { .. }
            | OpKind::AtomicCas { .. }
            | OpKind::MakeDescriptor { .. }
            | OpKind::DescriptorLoad { .. }
            | OpKind::DescriptorStore
            | OpKind::Assert { .. }
            | OpKind::Print { .. }
            | OpKind::For
            | OpKind::While
            | OpKind::If
            | OpKind::Assume
            | OpKind::Barrier
            | OpKind::Call { .. } => false,
            OpKind::InlineAsm { pure, .. } | OpKind::ExternElementwise { pure, .. } => *pure,
            kind => !kind.is_terminator(),
        }
    }

    /// Whether each element of the results is made of the same element of each operand (scalars apart).
    pub fn is_elementwise(&self) -> bool {
        matches!(
            self,
            OpKind::Binary(_)
                | OpKind::Unary(_)
                | OpKind::CmpI(_)
                | OpKind::CmpF(_)
                | OpKind::Select
                | OpKind::Fma
                | OpKind::ClampF { .. }
                | OpKind::Cast(_)
                | OpKind::FpToFp(_)
                | OpKind::AddPtr
                | OpKind::InlineAsm { packed: 1, .. }
                | OpKind::ExternElementwise { .. }
        )
    }
}

/// The bits of an integer as a constant of `scalar`: cut to its width.
pub fn int_bits(scalar: Scalar, value: i64) -> u64 {
    match scalar.bits() {
        64 => value as u64,
        bits => value as u64 & ((1 << bits) - 1),
    }
}

/// The integer that the bits of a constant of `scalar` mean, signed (an `i1` is 0 or 1).
pub fn int_value(scalar: Scalar, bits: u64) -> i64 {
    match scalar.bits() {
        1 => (bits & 1) as i64,
        64 => bits as i64,
        width => ((bits << (64 - width)) as i64) >> (64 - width),
    }
}

/// The bits of a float as a constant of `scalar`, nearest even; `None` where `scalar` is an integer type.
pub fn float_bits(scalar: Scalar, value: f64) -> Option<u64> {
    Some(match scalar {
        Scalar::F64 => value.to_bits(),
        Scalar::F32 => (value as f32).to_bits().into(),
        Scalar::F16 => half::f16::from_f64(value).to_bits().into(),
        Scalar::Bf16 => half::bf16::from_f64(value).to_bits().into(),
        Scalar::F8E4M3 => narrow_float(value, 3, 7, true),
        Scalar::F8E5M2 => narrow_float(value, 2, 15, false),
        _ => return None,
    })
}

/// The float that the bits of a constant of `scalar` mean; `None` where `scalar` is an integer type.
pub fn float_value(scalar: Scalar, bits: u64) -> Option<f64> {
    Some(match scalar {
        Scalar::F64 => f64::from_bits(bits),
        Scalar::F32 => f32::from_bits(bits as u32).into(),
        Scalar::F16 => half::f16::from_bits(bits as u16).to_f64(),
        Scalar::Bf16 => half::bf16::from_bits(bits as u16).to_f64(),
        Scalar::F8E4M3 => wide_float(bits as u8, 3, 7, true),
        Scalar::F8E5M2 => wide_float(bits as u8, 2, 15, false),
        _ => return None,
    })
}

/// FP8's value: `mantissa` bits, exponent bias, and whether the format is finite (all ones is NaN, no infinity).
fn wide_float(bits: u8, mantissa: u32, bias: i32, finite: bool) -> f64 {
    let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits & 0x7f) >> mantissa;
    let fraction = f64::from(bits & ((1 << mantissa) - 1)) / f64::from(1 << mantissa);
    let top = (1 << (7 - mantissa)) - 1;
    if exponent == top && (!finite || bits & ((1 << mantissa) - 1) == (1 << mantissa) - 1) {
        return if !finite && fraction == 0.0 { sign * f64::INFINITY } else { f64::NAN };
    }
    match exponent {
        0 => sign * fraction * 2_f64.powi(1 - bias),
        _ => sign * (1.0 + fraction) * 2_f64.powi(exponent - bias),
    }
}

/// FP8's nearest even: by search, since there are 127 magnitudes. Beyond the largest: NaN (finite formats) or infinity.
fn narrow_float(value: f64, mantissa: u32, bias: i32, finite: bool) -> u64 {
    let sign = u64::from(value.is_sign_negative()) << 7;
    if value.is_nan() {
        return sign | 0x7f;
    }
    let magnitude = value.abs();
    let overflow: u8 = if finite { 0x7f } else { 0x7c };
    let wide = |bits: u8| wide_float(bits, mantissa, bias, finite);
    let largest = overflow - 1;
    let step = wide(largest) - wide(largest - 1);
    // Halfway to the next step is a tie: to the even code, which is the overflow's only where the largest is odd.
    let edge = wide(largest) + step / 2.0;
    if magnitude > edge || (magnitude == edge && largest & 1 == 1) {
        return sign | u64::from(overflow);
    }
    let above = (0..=largest).find(|&bits| wide(bits) >= magnitude).unwrap_or(largest);
    let nearest = if above == 0 || wide(above) == magnitude || magnitude > wide(largest) {
        above
    } else {
        let (low, high) = (magnitude - wide(above - 1), wide(above) - magnitude);
        if low < high || (low == high && (above - 1) & 1 == 0) { above - 1 } else { above }
    };
    sign | u64::from(nearest)
}

/// The type of a `tt.make_range` from `start` to `end`, or `None` where its length is no extent of a tile.
pub fn range_type(start: i32, end: i32) -> Option<Type> {
    let length = u32::try_from(i64::from(end) - i64::from(start)).ok()?;
    Some(Type::Tile(super::Shape::new(&[length]).ok()?, Scalar::I32.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_floats_round_trip_and_round_to_even() {
        for scalar in [Scalar::F8E4M3, Scalar::F8E5M2] {
            for bits in 0..=255_u64 {
                let value = float_value(scalar, bits).unwrap();
                if !value.is_nan() {
                    assert_eq!(float_bits(scalar, value), Some(bits), "{scalar} {bits:02x}");
                }
            }
        }
        assert_eq!(float_bits(Scalar::F8E4M3, 448.0), Some(0x7e));
        assert_eq!(float_bits(Scalar::F8E4M3, 17.0), Some(0x58));
        assert_eq!(float_bits(Scalar::F8E4M3, 19.0), Some(0x5a));
        assert_eq!(float_bits(Scalar::F8E4M3, 464.0), Some(0x7e));
        assert_eq!(float_bits(Scalar::F8E4M3, 465.0), Some(0x7f));
        assert_eq!(float_bits(Scalar::F8E5M2, 61440.0), Some(0x7c));
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Binary::ALL.iter().map(|op| op.name()).collect();
        names.extend(Unary::ALL.iter().map(|op| op.name()));
        names.extend(Cast::ALL.iter().map(|op| op.name()));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| Binary::from_name(name).is_some()
            || Unary::from_name(name).is_some()
            || Cast::from_name(name).is_some()));
    }

    #[test]
    fn integers_are_cut_and_extended() {
        assert_eq!(int_bits(Scalar::I8, -1), 0xff);
        assert_eq!(int_value(Scalar::I8, 0xff), -1);
        assert_eq!(int_value(Scalar::I1, 1), 1);
        assert_eq!(int_value(Scalar::I64, u64::MAX), -1);
    }
}
