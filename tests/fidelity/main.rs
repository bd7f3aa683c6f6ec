//! How faithful the emulator is: the same small kernels on it and on a device, bit for bit.

mod accumulate;
mod families;
mod launch;
mod number;
mod random;
mod shapes;
mod tensor;
