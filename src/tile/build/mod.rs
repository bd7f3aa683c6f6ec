//! Tile kernels written in Rust, nearly as in Triton's Python.
//!
//! A [`KernelBuilder`] holds the function under construction; [`Tile`] is a handle on one of its values, copied freely, with
//! Rust's operators. What Rust itself computes (`for`, `if`, `vec!`) happens while the kernel is built: a Rust loop is
//! unrolled. What the device shall do is written with [`KernelBuilder::range`], [`KernelBuilder::if_`] and their like.
//!
//! ```
//! use tilewright::tile::build::{KernelBuilder, mask};
//! use tilewright::tile::Scalar::{F32, I32};
//!
//! let k = KernelBuilder::new("vector_add");
//! let (x, y, out) = (k.pointer("x_ptr", F32), k.pointer("y_ptr", F32), k.pointer("out_ptr", F32));
//! let n = k.scalar("n", I32);
//!
//! let offsets = k.program_id(0) * 1024 + k.arange(0, 1024);
//! let inside = offsets.lt(n);
//! let sum = k.load_with(x + offsets, mask(inside)) + k.load_with(y + offsets, mask(inside));
//! k.store_with(out + offsets, sum, mask(inside));
//!
//! let func = k.finish()?;
//! assert_eq!(func.params.len(), 4);
//! # Ok::<(), tilewright::tile::build::BuildError>(())
//! ```
//!
//! **Types** mix by Triton's rules: a literal takes the type of the tile that it meets (an integer literal with a tile of
//! floats becomes a float; a float literal makes an integer tile `f32`), the wider type wins otherwise, and tiles are repeated
//! along axes of extent 1 and along missing outer axes. Integers are signed, `i1` apart; where a type of the memory is unsigned,
//! [`Tile::to_unsigned`], [`Tile::unsigned_div`] and the like say so. Unlike Python's, `/` between integers is the quotient
//! rounded to zero (Triton's `//`); between floats it is Triton's `/`.
//!
//! **Mistakes** do not panic: the builder keeps the first, with the Rust line that made it, and [`KernelBuilder::finish`]
//! returns it. Whatever is computed from a mistake is passed over in silence, so that one mistake gives one message.
//!
//! ```
//! use tilewright::tile::build::KernelBuilder;
//!
//! let k = KernelBuilder::new("wrong");
//! let sum = k.arange(0, 32) + k.arange(0, 64);
//! k.device_assert(sum.lt(3), "never made");
//! let message = k.finish().unwrap_err().to_string();
//! // "kernel `wrong`: `+` at src/kernel.rs:12:8: extents 32 and 64 of axis 0 differ …"
//! assert!(message.starts_with("kernel `wrong`: `+` at "));
//! assert!(message.ends_with("extents 32 and 64 of axis 0 differ, and neither is 1 (operands: tensor<32xi32>, tensor<64xi32>)"));
//! ```

mod arith;
mod atomic;
mod block_ptr;
mod cast;
mod control;
mod dot;
mod effects;
mod error;
mod math;
mod memory;
mod operand;
mod reduce;
mod shape;
mod sort;
mod state;
#[cfg(test)]
mod tests;
mod tile;

use std::cell::RefCell;
use std::panic::Location;

pub use atomic::Atomic;
pub use dot::{Dot, ScaledOperand};
pub use effects::InlineAsm;
pub use error::BuildError;
pub use memory::{Access, boundary, mask};
pub use operand::{Operand, Operands};
pub use tile::Tile;

use error::Made;
use operand::Arg;
use state::State;

use super::{Func, OpKind, Param, Scalar, Shape, Type, range_type};

/// A kernel under construction. See [the module](self) for how it reads.
#[derive(Debug)]
pub struct KernelBuilder {
    state: RefCell<State>,
}

impl KernelBuilder {
    /// An empty kernel called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        let mut func = Func::new(name, Vec::new());
        // As Triton has it: a function that calls may be merged into.
        func.attributes.insert("noinline".to_owned(), "false".to_owned());
        let at = func.entry();
        let state = State { func, at, error: None, location: Location::caller(), depth: 0 };
        Self { state: RefCell::new(state) }
    }

    /// The kernel, ended by a return.
    ///
    /// # Errors
    /// The first mistake that was made.
    pub fn finish(self) -> Result<Func, BuildError> {
        let mut state = self.state.into_inner();
        if let Some(error) = state.error {
            return Err(error);
        }
        state.push(OpKind::Return, &[], &[]);
        Ok(state.func)
    }

    /// A parameter: an address that is a multiple of 16, as those of all allocations are.
    #[track_caller]
    pub fn pointer(&self, name: &str, pointee: Scalar) -> Tile<'_> {
        self.parameter(name, Type::pointer(pointee), Some(16))
    }

    /// A parameter: an address of any alignment that suits its element.
    #[track_caller]
    pub fn unaligned_pointer(&self, name: &str, pointee: Scalar) -> Tile<'_> {
        self.parameter(name, Type::pointer(pointee), None)
    }

    /// A parameter: a number.
    #[track_caller]
    pub fn scalar(&self, name: &str, scalar: Scalar) -> Tile<'_> {
        self.parameter(name, Type::scalar(scalar), None)
    }

    /// A parameter: an integer that every launch gives as a multiple of 16, which lets accesses be wide.
    #[track_caller]
    pub fn scalar_by_16(&self, name: &str, scalar: Scalar) -> Tile<'_> {
        self.parameter(name, Type::scalar(scalar), Some(16))
    }

    #[track_caller]
    fn parameter(&self, name: &str, ty: Type, divisibility: Option<u32>) -> Tile<'_> {
        self.run("parameter", |state| {
            let entry = state.func.entry();
            let value = state.func.add_block_arg(entry, ty);
            state.func.set_name(value, name);
            let attributes = indexmap::IndexMap::new();
            state.func.params.push(Param { name: name.to_owned(), ty, divisibility, attributes });
            Ok(value)
        })
    }

    /// The index of this program along `axis`: 0, 1 or 2.
    #[track_caller]
    pub fn program_id(&self, axis: u8) -> Tile<'_> {
        self.run("program_id", |state| {
            Ok(state.make(OpKind::ProgramId(grid_axis(axis)?), &[], Type::scalar(Scalar::I32)))
        })
    }

    /// How many programs there are along `axis`.
    #[track_caller]
    pub fn num_programs(&self, axis: u8) -> Tile<'_> {
        self.run("num_programs", |state| {
            Ok(state.make(OpKind::NumPrograms(grid_axis(axis)?), &[], Type::scalar(Scalar::I32)))
        })
    }

    /// The integers from `start` to `end` − 1, of which there must be a power of two.
    #[track_caller]
    pub fn arange(&self, start: i32, end: i32) -> Tile<'_> {
        self.run("arange", |state| {
            let ty = range_type(start, end).ok_or_else(|| {
                error::Fault::rule(format!("the length of {start}..{end} is no positive power of two"), &[])
            })?;
            Ok(state.make(OpKind::MakeRange { start, end }, &[], ty))
        })
    }

    /// A tile of zeros.
    #[track_caller]
    pub fn zeros(&self, shape: &[u32], scalar: Scalar) -> Tile<'_> {
        self.run("zeros", |state| state.int_constant(0, Type::Tile(Shape::new(shape)?, scalar.into())))
    }

    /// A tile of one value: a literal, or a scalar that is converted to `scalar`.
    #[track_caller]
    pub fn full<'k>(&'k self, shape: &[u32], value: impl Into<Operand<'k>>, scalar: Scalar) -> Tile<'k> {
        let arg = self.arg(value);
        self.run("full", |state| {
            let shape = Shape::new(shape)?;
            match arg.value()? {
                None => state.constant(arg, Type::Tile(shape, scalar.into())),
                Some(value) if state.ty(value).shape().is_some() => {
                    Err(error::Fault::rule("the value is a tile: a scalar is needed", &[state.ty(value)]))
                }
                Some(value) => {
                    let value = state.cast(value, scalar)?;
                    state.in_shape(value, shape)
                }
            }
        })
    }

    /// A scalar constant of a given type.
    #[track_caller]
    pub fn constant<'k>(&'k self, value: impl Into<Operand<'k>>, scalar: Scalar) -> Tile<'k> {
        let arg = self.arg(value);
        self.run("constant", |state| match arg.value()? {
            None => state.constant(arg, Type::scalar(scalar)),
            Some(value) => state.cast(value, scalar),
        })
    }

    /// An operand as the rules see it.
    fn arg<'k>(&'k self, operand: impl Into<Operand<'k>>) -> Arg {
        match operand.into() {
            Operand::Int(value) => Arg::Int(value),
            Operand::Float(value) => Arg::Float(value),
            Operand::Bool(value) => Arg::Bool(value),
            Operand::Tile(tile) if !std::ptr::eq(tile.k, self) => Arg::Foreign,
            Operand::Tile(tile) => tile.value.map_or(Arg::Poison, Arg::Value),
        }
    }

    /// Makes a value at the caller's line, or records why it cannot be made.
    #[track_caller]
    fn run(&self, operation: &'static str, make: impl FnOnce(&mut State) -> Made<super::Value>) -> Tile<'_> {
        Tile { k: self, value: self.attempt(operation, make) }
    }

    /// [`KernelBuilder::run`] for what gives no tile.
    #[track_caller]
    fn attempt<T>(&self, operation: &'static str, make: impl FnOnce(&mut State) -> Made<T>) -> Option<T> {
        let mut state = self.state.borrow_mut();
        state.location = Location::caller();
        match make(&mut state) {
            Ok(value) => Some(value),
            Err(fault) => {
                state.record(operation, fault);
                None
            }
        }
    }

    /// The handle of a value, or of a mistake.
    fn tile(&self, value: Option<super::Value>) -> Tile<'_> {
        Tile { k: self, value }
    }
}

fn grid_axis(axis: u8) -> Made<u8> {
    if axis < 3 {
        return Ok(axis);
    }
    Err(error::Fault::rule(format!("axis {axis} of a grid: there are 0, 1 and 2"), &[]))
}
