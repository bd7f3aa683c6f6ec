//! The text as a tree: what both forms of an operation, the short and the generic, have in common.
//!
//! Names are not yet looked up and attributes not yet understood; an attribute that the short form writes as a word of its
//! own (`slt`, `cacheModifier = cg`) is under the name that the generic form has for it.

use std::borrow::Cow;

use indexmap::IndexMap;

use super::lexer::Span;
use crate::tile::Type;

/// A name and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    /// Without its first character.
    pub(super) text: &'a str,
    pub(super) span: Span,
}

/// `%name`, `%name#1`: a value where it is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use<'a> {
    pub(super) name: Name<'a>,
    /// Which of the values that go by the name.
    pub(super) index: u32,
    /// Its type as the text has it, where it has it.
    pub(super) ty: Option<Type>,
}

/// A number or truth value as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Literal<'a> {
    Bool(bool),
    /// Digits, with the sign apart.
    Number {
        negative: bool,
        text: &'a str,
    },
}

/// What an attribute is, as far as the reader looks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AttrValue<'a> {
    Literal(Literal<'a>),
    /// A string, escapes undone.
    Text(String),
    /// A word: an enumeration's case.
    Word(&'a str),
    /// `@name`.
    Symbol(String),
    /// `array<i32: …>`, `array<i1: …>`.
    Ints(Vec<i64>),
    /// `dense<…>`: the values if there are several, or the one for all.
    Dense(Vec<Literal<'a>>),
    /// Present, and nothing more.
    Unit,
    /// Anything else.
    Other,
}

/// An attribute.
#[derive(Clone, Debug)]
pub(super) struct Attr<'a> {
    pub(super) value: AttrValue<'a>,
    /// Its text, type included.
    pub(super) text: Cow<'a, str>,
    pub(super) span: Span,
}

/// Attributes by name.
pub(super) type Attrs<'a> = IndexMap<String, Attr<'a>>;

/// `%name:3` on the left of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResultName<'a> {
    pub(super) name: Name<'a>,
    pub(super) count: u32,
}

/// An operation.
#[derive(Debug)]
pub(super) struct Node<'a> {
    /// The operation's name.
    pub(super) name: Name<'a>,
    pub(super) results: Vec<ResultName<'a>>,
    pub(super) operands: Vec<Use<'a>>,
    pub(super) result_types: Vec<Type>,
    pub(super) successors: Vec<Name<'a>>,
    pub(super) attributes: Attrs<'a>,
    pub(super) regions: Vec<RegionNode<'a>>,
    /// Whether the generic form was read: operands may be in another order there.
    pub(super) generic: bool,
}

/// A region.
#[derive(Debug, Default)]
pub(super) struct RegionNode<'a> {
    pub(super) blocks: Vec<BlockNode<'a>>,
}

/// A block.
#[derive(Debug, Default)]
pub(super) struct BlockNode<'a> {
    /// `^bb1`; the first block need not have it.
    pub(super) label: Option<Name<'a>>,
    pub(super) args: Vec<(Name<'a>, Type)>,
    pub(super) ops: Vec<Node<'a>>,
}

/// A parameter of a function.
#[derive(Debug)]
pub(super) struct ParamNode<'a> {
    pub(super) name: Name<'a>,
    pub(super) ty: Type,
    pub(super) attributes: Attrs<'a>,
}

/// A function.
#[derive(Debug)]
pub(super) struct FuncNode<'a> {
    pub(super) name: String,
    pub(super) span: Span,
    pub(super) public: bool,
    pub(super) params: Vec<ParamNode<'a>>,
    pub(super) results: Vec<Type>,
    pub(super) attributes: Attrs<'a>,
    pub(super) body: RegionNode<'a>,
}

/// The text.
#[derive(Debug, Default)]
pub(super) struct ModuleNode<'a> {
    pub(super) attributes: Attrs<'a>,
    pub(super) funcs: Vec<FuncNode<'a>>,
}
