//! What operations take: tiles and Rust literals.

use super::Tile;
use super::error::{Fault, Made};
use crate::tile::Value;

/// A tile, a scalar, or a literal that takes the type of what it meets.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'k> {
    /// A value of the program.
    Tile(Tile<'k>),
    /// An integer literal.
    Int(i64),
    /// A floating-point literal.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

macro_rules! literals {
    ($($ty:ty => $variant:ident,)*) => {
        $(impl From<$ty> for Operand<'_> {
            fn from(value: $ty) -> Self {
                Operand::$variant(value.into())
            }
        })*
    };
}

literals! { i32 => Int, i64 => Int, u32 => Int, f32 => Float, f64 => Float, bool => Bool, }

impl<'k> From<Tile<'k>> for Operand<'k> {
    fn from(tile: Tile<'k>) -> Self {
        Operand::Tile(tile)
    }
}

impl<'k> From<&Tile<'k>> for Operand<'k> {
    fn from(tile: &Tile<'k>) -> Self {
        Operand::Tile(*tile)
    }
}

/// Several operands of different kinds: an array, or a tuple such as `(rows, 128)`.
pub trait Operands<'k> {
    /// Them, in order.
    fn into_operands(self) -> Vec<Operand<'k>>;
}

impl<'k, T: Into<Operand<'k>>, const N: usize> Operands<'k> for [T; N] {
    fn into_operands(self) -> Vec<Operand<'k>> {
        self.into_iter().map(Into::into).collect()
    }
}

macro_rules! tuples {
    ($(($($name:ident),*),)*) => {
        $(impl<'k, $($name: Into<Operand<'k>>),*> Operands<'k> for ($($name,)*) {
            fn into_operands(self) -> Vec<Operand<'k>> {
                #[allow(non_snake_case, reason = "a variable for each type parameter")]
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        })*
    };
}

tuples! { (A), (A, B), (A, B, C), (A, B, C, D), (A, B, C, D, E), }

/// An operand without its builder: what the rules work on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    /// A value of the function.
    Value(Value),
    /// An integer literal.
    Int(i64),
    /// A floating-point literal.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// What a mistake gave.
    Poison,
    /// A value of another builder.
    Foreign,
}

impl Arg {
    /// The value, where it is no literal.
    pub(super) fn value(self) -> Made<Option<Value>> {
        match self {
            Arg::Value(value) => Ok(Some(value)),
            Arg::Poison => Err(Fault::Poison),
            Arg::Foreign => Err(Fault::rule("an operand belongs to another kernel builder", &[])),
            _ => Ok(None),
        }
    }
}
