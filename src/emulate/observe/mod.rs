//! A debugger's view of a launch: what each instruction did, where a warp stands at a line, what all of it costs.
//!
//! [`launch_observed`] runs a kernel as [`launch`](super::launch) does, instruction by instruction under the eyes of an
//! observer; a plain launch has none and pays nothing. With a trace or a stop, CTAs run one after another in the order of
//! their numbers, so that what is seen is the same on every run.

mod banks;
mod listing;
mod profile;
mod snapshot;
mod trace;
mod value;

use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};

use super::{Error, Kernel, LaunchConfig, Options, Statistics};
pub(super) use listing::Listing;
pub(super) use profile::one_line;
pub use profile::{Counters, Profile, ProfileLine};
pub use snapshot::{Register, SharedMemory, Snapshot};
pub use trace::{Access, AccessKind, Event, Memory};
pub use value::Value;

/// What to look at. Nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observe {
    /// Keep what each instruction did, up to so many instructions of warps.
    pub trace: Option<u64>,
    /// Lines of the PTX text that are traced; all, if none are given.
    pub lines: Option<RangeInclusive<u32>>,
    /// Where to end the launch and look around.
    pub stop: Option<Stop>,
    /// The CTA that is traced and may stop; every one, if none is given.
    pub cta: Option<[u32; 3]>,
    /// The warp of a CTA that is traced and may stop; every one, if none is given.
    pub warp: Option<u32>,
    /// Count instructions and the costs of accesses, in all CTAs and warps.
    pub profile: bool,
}

/// A line to stop at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// 1-based line of the PTX text. The launch stops before its first instruction.
    pub line: u32,
    /// Which time that a warp comes to it, from 1.
    pub hit: u64,
}

/// What was seen of a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The instructions traced, in the order in which they ran.
    pub events: Vec<Event>,
    /// How many more the limit left out.
    pub left_out: u64,
    /// How often a warp came to the line to stop at.
    pub hits: u64,
    /// Where the launch stopped, if it did.
    pub stop: Option<Snapshot>,
    /// What was counted. `None` after a fault: other CTAs were in the midst of their work.
    pub profile: Option<Profile>,
}

/// Runs `kernel` as [`launch`](super::launch) does and looks at it. A fault ends the launch, and what was seen before is
/// there; so does the stop, which is no error.
///
/// # Errors
/// A launch that the target does not allow; a line, a CTA or a warp that is not there.
///
/// ```
/// use tilewright::emulate::observe::{Observe, Stop, launch_observed};
/// use tilewright::emulate::{Kernel, LaunchConfig, Memory, Options};
///
/// let ptx = "
/// .version 7.0
/// .target sm_80
/// .address_size 64
/// .visible .entry double() {
///     .reg .b32 %r<3>;
///     mov.u32 %r1, %tid.x;
///     add.u32 %r2, %r1, %r1;
///     ret;
/// }";
/// let kernel = Kernel::new(ptx, None)?;
/// let config = LaunchConfig { block: [4, 1, 1], ..LaunchConfig::default() };
/// let observe = Observe { trace: Some(100), stop: Some(Stop { line: 9, hit: 1 }), ..Observe::default() };
/// let (outcome, seen) = launch_observed(&kernel, &config, &[], &Memory::new(), &Options::default(), &observe)?;
/// assert_eq!(outcome?.warp_instructions, 2);
/// assert_eq!(seen.events[1].writes[0].values, [0, 2, 4, 6]);
/// let stop = seen.stop.unwrap();
/// assert_eq!(stop.register("%r2").unwrap().to_string(), "%r2 = 0x00000000 0x00000002 0x00000004 0x00000006");
/// # Ok::<(), tilewright::emulate::Error>(())
/// ```
pub fn launch_observed(
    kernel: &Kernel,
    config: &LaunchConfig,
    params: &[u8],
    memory: &super::Memory,
    options: &Options,
    observe: &Observe,
) -> Result<(Result<Statistics, Error>, Seen), Error> {
    super::check_limits(kernel, config, params, options)?;
    check(kernel, config, observe)?;
    let watch = Watch { observe, kernel, found: Mutex::default() };
    let outcome = super::launch_watched(kernel, config, params, memory, options, Some(&watch));
    let Found { mut seen, counters } = watch.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let (true, Ok(statistics)) = (observe.profile, &outcome) {
        let lines = kernel.code.instructions.iter().map(|instruction| instruction.line);
        let counted = lines.zip(counters);
        seen.profile = Some(Profile::new(&kernel.name, &kernel.source, statistics.ctas, counted));
    }
    Ok((outcome, seen))
}

/// Refuses what could never be seen.
fn check(kernel: &Kernel, config: &LaunchConfig, observe: &Observe) -> Result<(), Error> {
    let refuse = |message: String| Err(Error::Observe { kernel: kernel.name.clone(), message });
    // The last instruction is the end of the text, not of a line.
    let instructions = kernel.code.instructions.split_last().map_or(&[][..], |(_, listed)| listed);
    let lines = || instructions.iter().map(|instruction| instruction.line);
    if let Some(range) = &observe.lines
        && !lines().any(|line| range.contains(&line))
    {
        return refuse(format!("lines {} to {} have no instruction of it", range.start(), range.end()));
    }
    if let Some(Stop { line, hit }) = observe.stop {
        if !lines().any(|other| other == line) {
            let next = lines().filter(|&other| other > line).min();
            let next = next.map_or_else(String::new, |next| format!("; the next is in line {next}"));
            return refuse(format!("line {line} has no instruction of it{next}"));
        }
        if hit == 0 {
            return refuse("hits are counted from 1".to_owned());
        }
    }
    if let Some(cta) = observe.cta
        && (0..3).any(|axis| cta[axis] >= config.grid[axis])
    {
        return refuse(format!("CTA {cta:?} is not in the grid {:?}", config.grid));
    }
    let warps = config.block.iter().product::<u32>().div_ceil(32);
    if let Some(warp) = observe.warp
        && warp >= warps
    {
        return refuse(format!("warp {warp} is not among the {warps} of a CTA"));
    }
    Ok(())
}

/// What the observers of all workers share.
pub(super) struct Watch<'a> {
    pub observe: &'a Observe,
    pub kernel: &'a Kernel,
    found: Mutex<Found>,
}

/// What observers hand over.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub seen: Seen,
    /// For each instruction.
    pub counters: Vec<Counters>,
}

impl Watch<'_> {
    /// Whether what is seen depends on the order of the CTAs.
    pub fn is_ordered(&self) -> bool {
        self.observe.trace.is_some() || self.observe.stop.is_some()
    }

    /// Whether the launch has stopped.
    pub fn has_stopped(&self) -> bool {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).seen.stop.is_some()
    }

    /// Takes over what one cluster's observer has found.
    pub fn add(&self, found: Found) {
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        all.seen.events.extend(found.seen.events);
        all.seen.left_out += found.seen.left_out;
        all.seen.hits += found.seen.hits;
        all.seen.stop = all.seen.stop.take().or(found.seen.stop);
        let length = all.counters.len().max(found.counters.len());
        all.counters.resize(length, Counters::default());
        for (sum, counters) in all.counters.iter_mut().zip(found.counters) {
            *sum += counters;
        }
    }
}
