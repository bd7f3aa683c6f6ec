//! Running a decoded kernel: [`warp`] steps one warp ([`execute`] does an instruction, over [`registers`]), [`cluster`] the
//! warps of a cluster's CTAs, [`barrier`] and [`mbarrier`] are what they wait at; [`shared`], [`global`] and
//! [`tensor_memory`] are the memories with their checks, [`order`] what the checks know; [`access`] is the way from an
//! instruction to a memory, [`collective`] what the lanes of a warp do together, [`copies`] and [`bulk`] what goes on beside them,
//! [`matrix`], [`wgmma`] and [`tcgen05`] the tensor cores, [`observed`] somebody who looks at all of it,
//! [`budget`] what a launch may take.

mod access;
mod barrier;
pub(super) mod budget;
mod bulk;
pub(super) mod cluster;
mod collective;
mod copies;
mod execute;
mod global;
mod matrix;
mod mbarrier;
mod observed;
mod order;
mod registers;
mod shared;
mod tcgen05;
mod tensor_memory;
mod warp;
mod wgmma;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::error::FaultKind;
use super::memory::Buffer;
use super::observe::Watch;
use super::program::Code;
use super::{Checks, LaunchConfig};
use budget::Budget;
pub(super) use global::Shadow;

/// A fault before it is known where it happened.
#[derive(Debug)]
pub(super) struct Trouble {
    pub kind: FaultKind,
    /// The lane, where one can be named.
    pub lane: Option<usize>,
    pub message: String,
}

/// Boxed: the way without trouble stays short.
pub(super) type Run<T> = Result<T, Box<Trouble>>;

fn trouble<T>(kind: FaultKind, lane: impl Into<Option<usize>>, message: impl Into<String>) -> Run<T> {
    Err(Box::new(Trouble { kind, lane: lane.into(), message: message.into() }))
}

/// What all CTAs of a launch share.
pub(super) struct Environment<'a> {
    pub code: &'a Code,
    pub config: &'a LaunchConfig,
    pub params: &'a [u8],
    pub checks: Checks,
    /// Live buffers by address, the module's variables among them, each with its shadow.
    pub buffers: Vec<(Arc<Buffer>, Shadow)>,
    /// Warp instructions that one CTA may take.
    pub max_steps: u64,
    pub shared_bytes: u32,
    pub budget: Arc<Budget>,
    /// Steps that the launch's clusters have taken and may take. One counts when it has ended.
    pub steps_taken: AtomicU64,
    pub max_launch_steps: u64,
    /// Steps that making a cluster counts for.
    pub steps_of_making: u64,
    /// Who looks at the launch, if somebody does.
    pub watch: Option<&'a Watch<'a>>,
}

/// What a CTA did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub warp_instructions: u64,
    pub thread_instructions: u64,
}
