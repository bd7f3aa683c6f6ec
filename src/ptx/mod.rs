//! PTX text: [`lexer`] and [`parser`] make a [`Program`] (the model) from text; [`printer`] writes it back in a
//! normal form; [`statistics`] counts what is in it.
//!
//! The model keeps an instruction as PTX spells it: opcode, modifiers in order, operands. It knows PTX's *syntax* only;
//! what an instruction means is the emulator's business ([`crate::emulate`]), so a form that nobody knows yet still
//! parses and prints. Every node carries a byte [`Span`] into the text it came from.
//!
//! ```
//! let program = tilewright::ptx::parse(
//!     ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry nop() { ret; }",
//! )?;
//! assert_eq!(program.entries().next().unwrap().name, "nop");
//! # Ok::<(), tilewright::ptx::ParseError>(())
//! ```

mod arch;
pub mod lexer;
mod meta;
pub mod model;
mod normalise;
pub mod parser;
pub mod printer;
pub mod statistics;
mod triton;

pub use arch::{Arch, DType, UnknownArch};
pub use meta::{Extent, GridRule, KernelMeta, Module, ModuleMeta, ParamMeta};
pub use model::{Program, Span};
pub use parser::{ParseError, parse};
pub use printer::{print, print_with_names};
pub use statistics::Statistics;
pub use triton::{TritonMeta, TritonTarget};
