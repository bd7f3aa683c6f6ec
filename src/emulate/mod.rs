//! PTX on the CPU, with checks.
//!
//! [`Kernel::new`] decodes an entry of a PTX text, ours or anybody's; [`launch`] runs it over a [`Memory`] as a GPU would,
//! and stops with a [`Fault`] at the first rule that it breaks. An instruction that the emulator does not know is an
//! error with its line, never a guess.
//!
//! # What execution means
//!
//! **Lanes.** A warp is 32 threads. An instruction is executed for all active lanes of a warp at once; registers are bits,
//! and a typed instruction reads as many of them as its type has. Results are those of PTX: IEEE where PTX says so, and
//! the correctly rounded value for the approximate functions, which is inside the error that PTX states.
//!
//! **Divergence.** Where lanes of a warp branch to different places, the warp takes one way with some lanes, then the
//! other with the rest, and all go on together at the branch's immediate post-dominator. A lane that returns is gone;
//! the others do not wait for it.
//!
//! **Warps.** A warp runs until it waits (at a barrier, an mbarrier, for tensor memory), returns or has used up its slice;
//! then the next one runs. That is one of the orders that a GPU may choose. What depends on the order is a race, and is
//! found as such (below), so the order itself never matters for a kernel without faults.
//!
//! **CTAs** have no order among themselves, but for those of a cluster, whose warps take turns with each other's. Clusters
//! run in parallel on the CPU's cores. The results are the same for any number of cores, but for floating atomics on one
//! address from several CTAs, as on a GPU.
//!
//! **Asynchronous work** (copies, `wgmma`, `tcgen05`) is done as late as the rules allow: what it writes is there, and what
//! it reads may be written again, when the wait that PTX asks for is over. `docs/emulator.md` has the table.
//!
//! **Memory.** Global memory is the live buffers of a [`Memory`]; shared memory is made for each CTA, local memory for each
//! thread; the parameters are read-only. Generic addresses of shared and local memory have windows of their own.
//! Module variables are made new for each launch. A store is seen by the next load: fences between threads have nothing to do.
//!
//! # What the checks see
//!
//! - **Bounds and alignment**, always: an access outside every live buffer, outside the CTA's shared memory or the
//!   thread's local memory, or at an address that is not a multiple of its size.
//! - **Init**: a byte of shared, local or freshly allocated global memory that nothing wrote, when it is read; a register
//!   that nothing wrote, when an active lane uses it: as an address, a guard, a value that is stored, an operand of a vote
//!   or a barrier. Arithmetic, moves, selections and shuffles carry on what is not defined, lane by lane, as compilers
//!   let lanes compute on nothing whose results nobody takes.
//! - **Race**, shared: two threads of a CTA touch the same word (byte, where the kernel has narrower accesses), one of them
//!   writes, and no barrier orders them: `bar.sync` among the warps that come to it, `bar.arrive` before `bar.sync` of
//!   the same barrier, `bar.warp.sync` among the lanes of a warp, mbarriers, and the cluster's barrier. A shuffle or a vote
//!   orders nothing. Who writes the value that a word has agrees with who wrote it. So with asynchronous work that nobody
//!   waited for, and with a missing `fence.proxy.async` before it. **Race**, global: two CTAs touch the same word and one
//!   writes. Atomics do not race with atomics.
//! - **Sync**: a barrier that some lanes of a warp do not reach, that too many reach, or that is never full; a shuffle, vote
//!   or `bar.warp.sync` that names a lane which is not there, or a shuffle that reads from one; an mbarrier that is never
//!   complete; asynchronous work that is under way, or tensor memory that is held, when the CTA ends.
//! - **Limits**, always: threads of a CTA, the block that the kernel asks for, shared memory of the target, the grid.
//!   A step limit ends what would run for ever, a memory limit what would take all of it ([`Options`]).
//!
//! ```
//! use tilewright::emulate::{Kernel, LaunchConfig, Memory, Options, launch};
//!
//! let ptx = "
//! .version 7.0
//! .target sm_80
//! .address_size 64
//! .visible .entry add_one(.param .u64 add_one_param_0) {
//!     .reg .b64 %p;
//!     .reg .b32 %t, %v;
//!     ld.param.u64 %p, [add_one_param_0];
//!     mov.u32 %t, %tid.x;
//!     mad.wide.u32 %p, %t, 4, %p;
//!     ld.global.u32 %v, [%p];
//!     add.u32 %v, %v, 1;
//!     st.global.u32 [%p], %v;
//!     ret;
//! }";
//! let kernel = Kernel::new(ptx, None)?;
//! let memory = Memory::new();
//! let numbers = memory.alloc(4 * 32, "numbers")?;
//! memory.fill(numbers, 0, 4 * 32)?;
//! let config = LaunchConfig { grid: [1, 1, 1], block: [32, 1, 1], ..LaunchConfig::default() };
//! launch(&kernel, &config, &numbers.to_le_bytes(), &memory, &Options::default())?;
//! let mut first = [0; 4];
//! memory.read(numbers, &mut first)?;
//! assert_eq!(u32::from_le_bytes(first), 1);
//!
//! // One thread too many is a fault that names the buffer.
//! let config = LaunchConfig { block: [33, 1, 1], ..config };
//! let fault = launch(&kernel, &config, &numbers.to_le_bytes(), &memory, &Options::default()).unwrap_err();
//! assert!(fault.to_string().contains("line 11: out of bounds"), "{fault}");
//! assert!(fault.to_string().contains("`numbers`"));
//! # Ok::<(), tilewright::emulate::Error>(())
//! ```

mod alu;
mod decode;
mod error;
mod flow;
mod halves;
mod lanes;
mod memory;
pub mod observe;
mod program;
mod rounding;
mod run;
mod tensor;
mod tensor_map;
mod video;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

pub use error::{Error, Fault, FaultKind};
pub use memory::Memory;
pub use tensor_map::{TENSOR_MAP_BYTES, TensorMap, TensorMapElement, TensorMapSwizzle};

use crate::ptx;
use memory::Buffer;
use program::Code;
use run::budget::{Budget, cluster_bytes, steps_of_making};
use run::cluster::{Cluster, FaultAt};
use run::{Environment, Shadow};

/// A decoded kernel, ready to be launched any number of times.
#[derive(Debug)]
pub struct Kernel {
    name: String,
    source: String,
    code: Code,
    target: String,
    required_block: Option<[u32; 3]>,
    max_threads: Option<u32>,
}

impl Kernel {
    /// Parses `source` and decodes its entry `entry`, or its only one.
    ///
    /// # Errors
    /// Text that is not PTX, an entry that is not there, an instruction that the emulator does not know.
    pub fn new(source: &str, entry: Option<&str>) -> Result<Self, Error> {
        let program = ptx::parse(source)?;
        let entries: Vec<_> = program.entries().collect();
        let found = match (entry, entries.as_slice()) {
            (Some(name), entries) => entries.iter().find(|function| function.name == name),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        let Some(function) = found else {
            let names: Vec<&str> = entries.iter().map(|function| function.name.as_str()).collect();
            return Err(Error::NoEntry { name: entry.unwrap_or("(none named)").to_owned(), known: names.join(", ") });
        };
        let dims = |name: &str| {
            function.directive(name).map(|values| [0, 1, 2].map(|axis| values.get(axis).copied().unwrap_or(1)))
        };
        Ok(Self {
            name: function.name.clone(),
            code: decode::decode(&program, source, function)?,
            target: program.target[0].clone(),
            required_block: dims("reqntid"),
            // A product that 32 bits do not hold is over what any block has: it limits nothing.
            max_threads: dims("maxntid").map(|dims| dims.iter().fold(1, |all: u32, &dim| all.saturating_mul(dim))),
            source: source.to_owned(),
        })
    }

    /// The entry's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the parameter block.
    pub fn param_bytes(&self) -> u32 {
        self.code.param_bytes
    }

    /// Bytes of static shared memory.
    pub fn static_shared(&self) -> u32 {
        self.code.static_shared
    }

    /// The block that the kernel asks for (`.reqntid`), if it does.
    pub fn required_block(&self) -> Option<[u32; 3]> {
        self.required_block
    }
}

/// The shape of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// CTAs along x, y and z. A zero launches nothing.
    pub grid: [u32; 3],
    /// Threads of a CTA along x, y and z.
    pub block: [u32; 3],
    /// CTAs of a cluster along x, y and z; each divides the grid's extent.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
}

impl Default for LaunchConfig {
    fn default() -> Self {
        Self { grid: [1; 3], block: [1; 3], cluster: [1; 3], dynamic_shared: 0 }
    }
}

/// Which checks run. Bounds, alignment and limits always do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Accesses without an order.
    pub race: bool,
    /// Reads of what nothing wrote.
    pub init: bool,
    /// Barriers and warp-wide instructions that not all expected threads reach.
    pub sync: bool,
    /// With `race`: what `cp.async` has brought, too, needs `fence.proxy.async` before an asynchronous reader. So PTX has
    /// it; but Triton 3.6 leaves the fence out, and is not seen to fail for it, so this is off by default.
    pub fence_copies: bool,
}

/// How a launch runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which checks run; all by default.
    pub checks: Checks,
    /// Warp instructions that one CTA, or all CTAs of a cluster together, may take before it counts as endless; 2³⁰ by
    /// default. Asynchronous copies and products of matrices count for their size.
    pub max_steps: Option<u64>,
    /// The same of the launch as a whole, 2³⁶ by default: a grid has so many CTAs that steps of each are no bound. Making a
    /// CTA counts for a step for each KiB. Looked at between CTAs: those that run when it is passed come to their end.
    pub max_launch_steps: Option<u64>,
    /// Bytes that a launch may take beside its buffers; 4 GiB by default. Registers, local memory and shared memory of the
    /// CTAs that run at once, tensor memory, what the checks note of all these and of global memory, module variables, and
    /// asynchronous work that was issued and not waited for. Where all cores at once would pass it, fewer CTAs run at once.
    pub max_memory: Option<u64>,
    /// Shared memory that a CTA may have on the emulated card, in bytes; by default what the module's target has. (A card
    /// compiles PTX of an older target for itself, and has what it has.)
    pub max_shared: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        let checks = Checks { race: true, init: true, sync: true, fence_copies: false };
        Self {
            checks,
            max_steps: Some(1 << 30),
            max_launch_steps: Some(1 << 36),
            max_memory: Some(4 << 30),
            max_shared: None,
        }
    }
}

impl Options {
    /// Only the checks that always run.
    pub fn unchecked() -> Self {
        Self { checks: Checks { race: false, init: false, sync: false, fence_copies: false }, ..Self::default() }
    }
}

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// CTAs run.
    pub ctas: u64,
    /// Instructions executed, counted once for each warp.
    pub warp_instructions: u64,
    /// Instructions executed, counted for each active thread.
    pub thread_instructions: u64,
}

/// Threads of a CTA at most.
const MAX_THREADS: u128 = 1024;
/// CTAs of a cluster at most, beyond the portable eight.
const MAX_CLUSTER: u128 = 16;

/// Runs `kernel`. `params` is the parameter block: each parameter at its natural alignment, in order.
///
/// # Errors
/// A launch that the target does not allow, or the first fault (of the lowest-numbered CTA that has one).
pub fn launch(
    kernel: &Kernel,
    config: &LaunchConfig,
    params: &[u8],
    memory: &Memory,
    options: &Options,
) -> Result<Statistics, Error> {
    check_limits(kernel, config, params, options)?;
    launch_watched(kernel, config, params, memory, options, None)
}

/// A launch whose limits are checked.
fn launch_watched(
    kernel: &Kernel,
    config: &LaunchConfig,
    params: &[u8],
    memory: &Memory,
    options: &Options,
    watch: Option<&observe::Watch>,
) -> Result<Statistics, Error> {
    let ctas = config.grid.iter().map(|&extent| u64::from(extent)).product::<u64>();
    if ctas == 0 {
        return Ok(Statistics::default());
    }
    let mut buffers = memory.snapshot();
    if !kernel.code.module_bytes.is_empty() {
        let variables = Buffer::with_contents(program::MODULE_WINDOW, &kernel.code.module_bytes, "module variables")?;
        buffers.insert(0, Arc::new(variables));
    }
    let ctas_of_cluster = config.cluster.iter().map(|&extent| u64::from(extent)).product::<u64>();
    let clusters = ctas / ctas_of_cluster;
    // As many at once as there are cores, and as fit into memory.
    let limit = options.max_memory.unwrap_or(u64::MAX);
    let (of_cluster, of_module) =
        (cluster_bytes(&kernel.code, config, options.checks).all, module_memory(&kernel.code));
    let fitting = limit.saturating_sub(of_module) / of_cluster.max(1);
    let workers = match watch {
        Some(watch) if watch.is_ordered() => 1,
        _ => (rayon::current_num_threads() as u64).min(fitting).min(clusters).max(1),
    };
    let budget = Arc::new(Budget::new(limit, of_module + workers * of_cluster));
    let shadow = |buffer| (buffer, Shadow::new(Arc::clone(&budget)));
    let environment = Environment {
        code: &kernel.code,
        config,
        params,
        checks: options.checks,
        buffers: buffers.into_iter().map(shadow).collect(),
        max_steps: options.max_steps.unwrap_or(u64::MAX),
        shared_bytes: kernel.code.static_shared + config.dynamic_shared,
        budget: Arc::clone(&budget),
        steps_taken: AtomicU64::new(0),
        max_launch_steps: options.max_launch_steps.unwrap_or(u64::MAX),
        steps_of_making: steps_of_making(of_cluster),
        watch,
    };
    let (ctas_run, warp_instructions, thread_instructions) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    // Clusters are handed out in order. After a fault only those before it go on: theirs comes first if they have one.
    let next = AtomicU64::new(0);
    let faulty = AtomicU64::new(u64::MAX);
    let fault: Mutex<Option<Box<FaultAt>>> = Mutex::new(None);
    let work = |_: usize| {
        let mut cluster = Cluster::new(&environment);
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= clusters.min(faulty.load(Relaxed)) || watch.is_some_and(observe::Watch::has_stopped) {
                return;
            }
            match cluster.run(number as u32) {
                Ok(counts) => {
                    ctas_run.fetch_add(ctas_of_cluster, Relaxed);
                    warp_instructions.fetch_add(counts.warp_instructions, Relaxed);
                    thread_instructions.fetch_add(counts.thread_instructions, Relaxed);
                }
                Err(found) => {
                    let mut fault = fault.lock().unwrap_or_else(PoisonError::into_inner);
                    if faulty.fetch_min(number, Relaxed) > number {
                        *fault = Some(found);
                    }
                }
            }
        }
    };
    if workers == 1 {
        work(0);
    } else {
        (0..workers as usize).into_par_iter().with_max_len(1).for_each(work);
    }
    if let Some(fault) = fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(fault.describe(&environment, &kernel.name, &kernel.source).into());
    }
    Ok(Statistics {
        ctas: ctas_run.into_inner(),
        warp_instructions: warp_instructions.into_inner(),
        thread_instructions: thread_instructions.into_inner(),
    })
}

fn check_limits(kernel: &Kernel, config: &LaunchConfig, params: &[u8], options: &Options) -> Result<(), Error> {
    let refuse = |message: String| Err(Error::Limit { kernel: kernel.name.clone(), message });
    let threads = config.block.iter().map(|&extent| u128::from(extent)).product::<u128>();
    if threads == 0 || threads > MAX_THREADS {
        return refuse(format!(
            "the block {:?} has {threads} threads: from 1 to {MAX_THREADS} are allowed",
            config.block
        ));
    }
    if let Some(required) = kernel.required_block
        && required != config.block
    {
        return refuse(format!("the block is {:?}, and the kernel requires {required:?} (.reqntid)", config.block));
    }
    if let Some(max) = kernel.max_threads
        && threads > u128::from(max)
    {
        return refuse(format!("the block {:?} has more than the {max} threads of .maxntid", config.block));
    }
    let cluster = config.cluster.iter().map(|&extent| u128::from(extent)).product::<u128>();
    if cluster == 0 || cluster > MAX_CLUSTER {
        return refuse(format!(
            "the cluster {:?} has {cluster} CTAs: from 1 to {MAX_CLUSTER} are allowed",
            config.cluster
        ));
    }
    if (0..3).any(|axis| !config.grid[axis].is_multiple_of(config.cluster[axis])) {
        return refuse(format!("the grid {:?} is not a multiple of the cluster {:?}", config.grid, config.cluster));
    }
    let [x, y, z] = config.grid;
    if x > i32::MAX as u32 || y > 65535 || z > 65535 {
        return refuse(format!("the grid {:?} is over [2147483647, 65535, 65535]", config.grid));
    }
    let ctas = u64::from(x) * u64::from(y) * u64::from(z);
    if ctas > u64::from(u32::MAX - 2) {
        return refuse(format!("the grid {:?} has {ctas} CTAs: the emulator numbers them in 32 bits", config.grid));
    }
    let shared = u64::from(kernel.code.static_shared) + u64::from(config.dynamic_shared);
    // Shared addresses have 24 bits in a CTA, whatever a caller allows.
    let available =
        options.max_shared.unwrap_or_else(|| shared_limit(&kernel.target)).min(1 << program::CLUSTER_SHARED_LOG2);
    if shared > available {
        return refuse(format!("{shared} bytes of shared memory are more than the {available} that a CTA may have"));
    }
    let bytes = cluster_bytes(&kernel.code, config, options.checks);
    let limit = options.max_memory.unwrap_or(u64::MAX);
    let all = bytes.all + module_memory(&kernel.code);
    if all > limit {
        let what = if cluster == 1 { "a CTA".to_owned() } else { format!("a cluster of {cluster} CTAs") };
        return refuse(format!(
            "{what} takes {all} bytes, {} of them for registers, {} for local and {} for shared memory with their checks: \
             the limit is {limit} (`Options::max_memory`)",
            bytes.registers, bytes.local, bytes.shared
        ));
    }
    if params.len() < kernel.code.param_bytes as usize {
        return refuse(format!(
            "{} bytes of parameters were given, and it takes {}",
            params.len(),
            kernel.code.param_bytes
        ));
    }
    Ok(())
}

/// Bytes of the module's variables, with the marks of what is written.
fn module_memory(code: &Code) -> u64 {
    let bytes = code.module_bytes.len() as u64;
    bytes + bytes.div_ceil(4)
}

/// Bytes of shared memory that a CTA may have, opted in, on a target.
fn shared_limit(target: &str) -> u64 {
    let number = target.trim_start_matches("sm_").trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    1024 * match number.parse().unwrap_or(0) {
        70 | 72 => 96,
        75 => 64,
        80 | 87 => 163,
        86 | 89 | 120 | 121 => 99,
        90.. => 227,
        _ => 48,
    }
}
