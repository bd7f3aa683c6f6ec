//! What can go wrong between a host and a device.

use super::DeviceId;
use crate::ptx::{Arch, DType};

/// An error of the device layer. Each message names the thing, its value and the rule it broke.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No driver library on this machine.
    #[error("no GPU: the NVIDIA driver library (libcuda) is not installed on this machine")]
    NoDriver,
    /// The package was built without the feature `cuda`.
    #[error("no GPU: built without the feature `cuda`")]
    NotBuilt,
    /// The driver is there, but it has no such device.
    #[error("no GPU {ordinal}: the driver sees {count} device(s)")]
    NoDevice {
        /// The ordinal asked for.
        ordinal: usize,
        /// How many devices the driver sees.
        count: usize,
    },
    /// The driver is older than what we call.
    #[error("the NVIDIA driver is too old: it supports CUDA {}, and {} is the oldest that will do", cuda(*found), cuda(*needed))]
    DriverTooOld {
        /// What the driver reports (1000 × major + 10 × minor).
        found: i32,
        /// The oldest that will do, in the same form.
        needed: i32,
    },
    /// The card is older than any target.
    #[error("{device} (compute capability {major}.{minor}) runs none of our targets: the oldest is sm_80")]
    CardTooOld {
        /// The card's name.
        device: String,
        /// Compute capability, major.
        major: u32,
        /// Compute capability, minor.
        minor: u32,
    },
    /// A module for a target that the card does not run.
    #[error(
        "a module for {target} does not run on {device} (compute capability {major}.{minor}){}",
        .fit.map_or(String::new(), |fit| format!(": emit it for {fit}"))
    )]
    Target {
        /// The module's target.
        target: Arch,
        /// The device's name.
        device: String,
        /// Compute capability, major.
        major: u32,
        /// Compute capability, minor.
        minor: u32,
        /// The target that fits.
        fit: Option<Arch>,
    },
    /// A call of the driver failed.
    #[error("the driver's {call} failed: {code}: {text}")]
    Driver {
        /// The function of the driver.
        call: &'static str,
        /// The error's name, such as `CUDA_ERROR_OUT_OF_MEMORY`.
        code: String,
        /// The driver's own sentence.
        text: String,
    },
    /// The driver did not take a module.
    #[error("the driver did not load the module with kernel(s) {kernels}: {code}\n{log}")]
    Module {
        /// The kernels in it.
        kernels: String,
        /// The error's name.
        code: String,
        /// The driver's log.
        log: String,
    },
    /// A module whose metadata names no such kernel.
    #[error("no kernel `{kernel}` in the module: it has {known}")]
    NoKernel {
        /// The name asked for.
        kernel: String,
        /// The names that there are.
        known: String,
    },
    /// The wrong number of arguments.
    #[error("kernel {kernel}: {found} argument(s) given, {expected} expected ({names})")]
    ArgumentCount {
        /// The kernel.
        kernel: String,
        /// How many were given.
        found: usize,
        /// How many there are.
        expected: usize,
        /// The parameters' names.
        names: String,
    },
    /// An argument that its parameter does not take.
    #[error("kernel {kernel}, parameter `{parameter}`: got {value}, {rule}")]
    Argument {
        /// The kernel.
        kernel: String,
        /// The parameter.
        parameter: String,
        /// What was given.
        value: String,
        /// What would be right.
        rule: String,
    },
    /// A grid that the kernel's rule or the hardware does not allow.
    #[error("kernel {kernel}: grid.{axis} is {value}, {rule}")]
    Grid {
        /// The kernel.
        kernel: String,
        /// `x`, `y` or `z`.
        axis: char,
        /// What was given.
        value: u64,
        /// What would be right.
        rule: String,
    },
    /// A kernel that needs more of something than the device has.
    #[error("kernel {kernel} needs {value} {what}, {device} has {limit}")]
    Limit {
        /// The kernel.
        kernel: String,
        /// The resource, with its unit.
        what: &'static str,
        /// What it needs.
        value: u64,
        /// What there is.
        limit: u64,
        /// The device's name.
        device: String,
    },
    /// A buffer bound to a plan, against the plan's rule.
    #[error("plan {plan}, buffer `{buffer}`: got {value}, {rule}")]
    Binding {
        /// The plan.
        plan: String,
        /// The buffer of the plan.
        buffer: String,
        /// What was given.
        value: String,
        /// What would be right.
        rule: String,
    },
    /// The wrong number of buffers bound to a plan.
    #[error("plan {plan}: {found} buffer(s) bound, {expected} expected ({names})")]
    BindingCount {
        /// The plan.
        plan: String,
        /// How many were given.
        found: usize,
        /// How many there are.
        expected: usize,
        /// Their names.
        names: String,
    },
    /// A copy or a view outside a buffer.
    #[error("buffer `{label}` ({length} × {ty}): {what} of {start}..{end} is outside it")]
    Range {
        /// The buffer's label.
        label: String,
        /// Its length in elements.
        length: usize,
        /// Its type.
        ty: DType,
        /// Copy or view.
        what: &'static str,
        /// First element.
        start: usize,
        /// One past the last.
        end: usize,
    },
    /// Something of one device used on another.
    #[error("{what} is on {found}, and something on {needed} is needed: copy or load it there")]
    Foreign {
        /// Buffer or kernel.
        what: String,
        /// Where it is.
        found: DeviceId,
        /// Where it should be.
        needed: DeviceId,
    },
    /// A length that does not fit an address.
    #[error("buffer `{label}`: {length} × {ty} is more than an address can hold")]
    TooLarge {
        /// The buffer's label.
        label: String,
        /// Its length in elements.
        length: usize,
        /// Its type.
        ty: DType,
    },
    /// A borrowed address that cannot hold the type.
    #[error("borrowed memory at {address:#x}: {rule}")]
    Borrow {
        /// The address.
        address: u64,
        /// What would be right.
        rule: String,
    },
    /// Something that cannot be recorded, on a caller's stream that is being captured.
    #[error("{what} cannot be part of a capture: the stream that the device was given is being captured")]
    Capturing {
        /// What was asked for.
        what: String,
    },
    /// Metadata that came with a module and does not read.
    #[error("metadata of a module: {0}")]
    Metadata(#[from] serde_json::Error),
    /// None of the targets of an embedded kernel runs on the device.
    #[error("{device} (compute capability {major}.{minor}) runs none of the targets that were embedded: {targets}")]
    NoTarget {
        /// The device's name.
        device: String,
        /// Compute capability, major.
        major: u32,
        /// Compute capability, minor.
        minor: u32,
        /// The targets.
        targets: String,
    },
    /// A name of a device that is none.
    #[error("unknown device `{0}`: expected auto, gpu or emulator")]
    UnknownDevice(String),
    /// The emulator found a fault, or did not take a module.
    #[error(transparent)]
    Emulator(#[from] crate::emulate::Error),
    /// A broken promise inside this library.
    #[error("internal error of the device layer: {0}")]
    Internal(String),
}

/// `12080` as `12.8`.
fn cuda(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
