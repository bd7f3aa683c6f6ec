//! The model of a PTX module: directives, functions, variables, statements, instructions and operands.

/// A range of bytes in the source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The 1-based line and column (in bytes) at which the span starts in `source`.
    pub fn line_column(self, source: &str) -> (usize, usize) {
        let before = &source.as_bytes()[..(self.start as usize).min(source.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
        (line, column)
    }
}

/// A whole PTX module.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// `.version major.minor`.
    pub version: (u32, u32),
    /// The words of `.target`: the architecture first, then options such as `debug`.
    pub target: Vec<String>,
    /// `.address_size`, in bits; 64 where the module is silent.
    pub address_size: u32,
    /// Everything else at module scope, in order.
    pub items: Vec<Item>,
}

impl Program {
    /// The kernels (`.entry` functions) in order.
    pub fn entries(&self) -> impl Iterator<Item = &Function> {
        self.items.iter().filter_map(|item| match item {
            Item::Function(function) if function.is_entry => Some(function),
            _ => None,
        })
    }

    /// Variables declared at module scope.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.items.iter().filter_map(|item| match item {
            Item::Variable(variable) => Some(variable),
            _ => None,
        })
    }
}

/// One thing at module scope.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `.entry` or `.func`.
    Function(Function),
    /// A `.global`, `.const` or `.shared` variable.
    Variable(Variable),
    /// A directive that carries no meaning for execution (`.file`, `.section`, `.pragma`, `.alias`), kept as text.
    Directive(RawDirective),
}

/// A directive kept as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct RawDirective {
    /// The whole text, from the dot to the end, without the closing semicolon.
    pub text: String,
    /// True if a semicolon closed it.
    pub semicolon: bool,
    /// Where it stands.
    pub span: Span,
}

/// State spaces of declared variables and parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.reg`
    Reg,
    /// `.param`
    Param,
    /// `.global`
    Global,
    /// `.shared`
    Shared,
    /// `.local`
    Local,
    /// `.const`
    Const,
}

impl Space {
    /// The directive's name without its dot.
    pub fn name(self) -> &'static str {
        match self {
            Space::Reg => "reg",
            Space::Param => "param",
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Const => "const",
        }
    }
}

/// A function: a kernel (`.entry`) or a device function (`.func`).
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// True for `.entry`.
    pub is_entry: bool,
    /// `.visible`, `.extern` or `.weak`, as written, without the dot.
    pub linkage: Option<String>,
    /// Return parameters of a `.func`.
    pub returns: Vec<Variable>,
    /// The name.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<Variable>,
    /// Performance and cluster directives between the parameters and the body: name and arguments
    /// (`reqntid` `[128]`, `maxnreg` `[64]`, `explicitcluster` `[]`).
    pub directives: Vec<(String, Vec<u32>)>,
    /// `.attribute(…)` before the name, each as written.
    pub attributes: Vec<String>,
    /// The strings of `.pragma` among the directives, quotes included.
    pub pragmas: Vec<String>,
    /// The body; `None` for a declaration.
    pub body: Option<Vec<Statement>>,
    /// Where the header stands.
    pub span: Span,
}

impl Function {
    /// The arguments of the directive `name` (without the dot), if the function has it.
    pub fn directive(&self, name: &str) -> Option<&[u32]> {
        self.directives.iter().find(|(key, _)| key == name).map(|(_, values)| values.as_slice())
    }
}

/// A variable or a parameter: `.shared .align 16 .b8 tile[4224];`.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// `.visible`, `.extern` or `.weak` at module scope.
    pub linkage: Option<String>,
    /// State space.
    pub space: Space,
    /// `.align`, in bytes.
    pub align: Option<u32>,
    /// `.v2` or `.v4` vector width.
    pub vector: Option<u32>,
    /// The fundamental type, without its dot (`f32`, `b8`, `u64`).
    pub ty: String,
    /// For parameters: `.ptr`'s state space and alignment (`.ptr .global .align 1`).
    pub pointer: Option<(Option<Space>, Option<u32>)>,
    /// The name.
    pub name: String,
    /// Array dimensions; `None` for an open one (`tile[]`).
    pub dims: Vec<Option<u64>>,
    /// `.attribute(…)`, each as written.
    pub attributes: Vec<String>,
    /// Initial values in order, flattened; what an inner brace leaves out is zero.
    pub init: Vec<Operand>,
    /// Where it stands.
    pub span: Span,
}

impl Variable {
    /// Bytes of one element: the type's width times the vector's.
    pub fn element_bytes(&self) -> u64 {
        type_bytes(&self.ty).unwrap_or(0) * u64::from(self.vector.unwrap_or(1))
    }

    /// The extents that braces of an initialiser follow, outermost first: the dimensions, then the vector's width. An
    /// open dimension counts as 1. Empty for a scalar.
    pub fn extents(&self) -> Vec<u64> {
        let dims = self.dims.iter().map(|dim| dim.unwrap_or(1));
        dims.chain(self.vector.map(u64::from)).collect()
    }

    /// Bytes in all; an open dimension counts as zero.
    pub fn bytes(&self) -> u64 {
        self.dims.iter().fold(self.element_bytes(), |bytes, dim| bytes.saturating_mul(dim.unwrap_or(0)))
    }
}

/// Bytes of a fundamental type (`f32` is 4, `pred` is 1), or `None` for a word that is no type.
pub fn type_bytes(ty: &str) -> Option<u64> {
    Some(match ty {
        "b8" | "u8" | "s8" | "pred" | "e4m3" | "e5m2" => 1,
        "b16" | "u16" | "s16" | "f16" | "bf16" | "e4m3x2" | "e5m2x2" => 2,
        "b32" | "u32" | "s32" | "f32" | "tf32" | "f16x2" | "bf16x2" => 4,
        "b64" | "u64" | "s64" | "f64" => 8,
        "b128" => 16,
        _ => return None,
    })
}

/// One statement of a function's body.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `.reg .f32 %f<8>, %x;`
    Registers(RegisterDecl),
    /// `.shared`, `.local`, `.param`, … inside a body.
    Variable(Variable),
    /// `$L_loop:`
    Label(Label),
    /// An instruction.
    Instruction(Instruction),
    /// `{ … }`, a scope of its own for registers, variables and labels.
    Block(Vec<Statement>),
    /// `.loc`, `.pragma`, `.branchtargets`, …
    Directive(RawDirective),
}

/// A label's definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// The name without the colon.
    pub name: String,
    /// Where it stands.
    pub span: Span,
}

/// A register declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterDecl {
    /// `.v2` or `.v4`.
    pub vector: Option<u32>,
    /// Type without its dot.
    pub ty: String,
    /// Names; a count makes `name0 … name(count-1)` of it (`%f<8>`).
    pub names: Vec<(String, Option<u32>)>,
    /// Where it stands.
    pub span: Span,
}

/// The guard of an instruction: `@%p` or `@!%p`.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// `@!`.
    pub negated: bool,
    /// The predicate register.
    pub register: String,
}

/// An instruction as PTX spells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// `@%p` or `@!%p`.
    pub guard: Option<Guard>,
    /// The word before the first dot: `ld`, `mma`, `cp`.
    pub opcode: String,
    /// The words after it, without dots, in order: `["global", "v4", "b32"]`, `["shared::cta"]`.
    pub modifiers: Vec<String>,
    /// Operands in order.
    pub operands: Vec<Operand>,
    /// From the guard or opcode to the semicolon.
    pub span: Span,
}

impl Instruction {
    /// Opcode and modifiers joined as written: `ld.global.v4.b32`.
    pub fn mnemonic(&self) -> String {
        let mut text = self.opcode.clone();
        for modifier in &self.modifiers {
            text.push('.');
            text.push_str(modifier);
        }
        text
    }

    /// True if `modifier` (without its dot) is among the modifiers.
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.iter().any(|word| word == modifier)
    }
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register (`%r1`, `%tid.x`, `%v.y`), a variable, a label or a function: any name. What it names is decided by
    /// the scope.
    Name(String),
    /// `!%p`.
    Not(Box<Operand>),
    /// An integer or floating literal.
    Immediate(Immediate),
    /// `[base+offset]` or `[base, {x, y}]` (tensor coordinates).
    Address {
        /// What the address starts from: a register, a variable, or an integer.
        base: Box<Operand>,
        /// Bytes added to it.
        offset: i64,
        /// Tensor coordinates and what else follows the base after commas.
        coordinates: Vec<Operand>,
    },
    /// `{a, b, c}`.
    Vector(Vec<Operand>),
    /// `(a, b)`, in calls.
    List(Vec<Operand>),
    /// `a|b`: a pair of destinations (`setp`, `shfl`, `elect`).
    Pair(Box<Operand>, Box<Operand>),
    /// `name+offset`: the address of a variable with an offset, outside brackets.
    Offset(String, i64),
    /// `_`: a destination that is not wanted.
    Sink,
}

/// A literal with its value. The value is exact, and the printer writes a literal from its value alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Immediate {
    /// An integer, in two's complement where it is negative.
    Int(i64),
    /// An integer beyond `i64::MAX` or with the suffix `U`.
    UInt(u64),
    /// `0fXXXXXXXX`: the bits of an `f32`.
    F32(u32),
    /// `0dXXXXXXXXXXXXXXXX` or a decimal literal with a point or an exponent: the bits of an `f64`.
    F64(u64),
}
