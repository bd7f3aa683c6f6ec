//! What the numerical tests share: the input families of the public Cholesky problem, batches in
//! memory, an oracle, and the rules.

#![allow(dead_code, reason = "each test binary takes what it needs")]

pub mod batch;
pub mod corpus;
pub mod families;
pub mod oracle;
pub mod shadow;

use std::sync::Arc;

use tilewright::device::{self, Device};

/// The device that the numerical tests run on: the emulator, or the GPU with `TILEWRIGHT_DEVICE=gpu`.
pub fn device() -> Arc<dyn Device> {
    let name = std::env::var(device::ENVIRONMENT).unwrap_or_else(|_| "emulator".to_owned());
    let (device, why) = device::by_name(&name).unwrap_or_else(|error| panic!("{error}"));
    println!("{} ({why})", device.properties().name);
    device
}
