//! How faithful the emulator is: the same small kernels on it and on a device, bit for bit.

#[path = "../support/ptxas.rs"]
mod ptxas;

mod accumulate;
mod assemble;
mod families;
mod instructions;
mod known;
mod launch;
mod number;
mod operands;
mod random;
mod recorded;
mod report;
mod shapes;
mod table;
mod tensor;
