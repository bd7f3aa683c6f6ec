//! Triton's IR text, read into the tile IR.
//!
//! [`read`] takes the text of Triton 3.6's `.ttir` stage, or of its `.source` stage, which has calls and block pointers yet. The
//! short forms of operations are read and the generic ones too. Locations are read over: an operation's [`crate::tile::Loc`] is its
//! place in the text itself, which is what an error should point to. Attributes that the tile IR has no field for are kept
//! as text and printed again. The printer is [`crate::tile::printer`].
//!
//! Reading goes in four steps: tokens, a tree of the text in which names are names (`parser`), functions in which
//! names are values (`build`), and the verifier ([`crate::tile::verify`]), so that what is returned keeps every rule of
//! the IR.
//!
//! ```
//! let program = tilewright::ttir::read(
//!     "module {
//!        tt.func public @one(%out: !tt.ptr<i32> {tt.divisibility = 16 : i32}) {
//!          %range = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32>
//!          %base = tt.splat %out : !tt.ptr<i32> -> tensor<32x!tt.ptr<i32>>
//!          %at = tt.addptr %base, %range : tensor<32x!tt.ptr<i32>>, tensor<32xi32>
//!          tt.store %at, %range : tensor<32x!tt.ptr<i32>>
//!          tt.return
//!        }
//!      }",
//! )?;
//! assert_eq!(program.kernels().next().unwrap().params[0].divisibility, Some(16));
//! # Ok::<(), tilewright::ttir::Error>(())
//! ```

mod build;
mod error;
mod kinds;
mod lexer;
mod numbers;
mod parser;
mod tree;

pub use error::{Error, ErrorKind};

use crate::tile::Program;
use crate::tile::verify::verify_program;
use error::{Fault, Parsed};

/// Reads a text of Triton's IR: a module of functions.
///
/// # Errors
/// The first fault, with its place: text of a form that MLIR's has not, an operation or a name that nobody knows, something that
/// the tile IR cannot say, or a rule of an operation that is broken.
pub fn read(text: &str) -> Result<Program, Error> {
    read_program(text).map_err(|fault| fault.into_error(text))
}

fn read_program(text: &str) -> Parsed<Program> {
    let module = parser::parse(text)?;
    let lines = build::Lines::new(text);
    let mut program = Program { attributes: build::texts(module.attributes), ..Program::default() };
    let mut places = Vec::new();
    for node in module.funcs {
        let span = node.span;
        if program.func(&node.name).is_some() {
            let message = format!("the function `@{}` is defined twice", node.name);
            return Err(Fault::new(ErrorKind::Name, span, message).of("tt.func"));
        }
        let built = build::build(node, &lines)?;
        places.push((span, built.spans));
        program.funcs.push(built.func);
    }
    verify_program(&program).map_err(|errors| {
        let error = &errors[0];
        let at = program.funcs.iter().position(|func| func.name == error.func);
        let span = at.map(|at| &places[at]).map_or_else(Default::default, |(func, ops)| {
            error.op.and_then(|op| ops.get(op.index())).copied().unwrap_or(*func)
        });
        Fault::new(ErrorKind::Invalid, span, error.message.clone()).of(error.operation)
    })?;
    Ok(program)
}
