//! Tilewright turns tile kernels into specialised PTX text, and runs that PTX on a GPU through the driver alone, or on
//! a CPU in its own emulator.
//!
//! The layers, each using only those after it: [`kernels`] (families and their host API), [`build`] (the interface of
//! a user's `build.rs`), [`generate`] (a kernel and a specialisation to a [`ptx::Module`]), [`template`] (the
//! parameters of each PTX template), [`ttir`] (Triton's IR text to tile IR), [`tile`] (programs over tiles), [`device`] (GPU or
//! emulator behind one trait), [`emulate`] (PTX on the CPU), and [`ptx`] (PTX text).

pub mod aot;
pub mod build;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "llvm")]
pub mod compile;
pub mod device;
pub mod emulate;
pub mod generate;
pub mod kernels;
pub mod ptx;
pub mod template;
pub mod tile;
pub mod ttir;
