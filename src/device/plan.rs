//! Plans: the launches of a computation, in order, over named buffers, before any device is known.
//!
//! A family's host API makes plans and leaves the rest to a [`Device`]: the same plan runs on a GPU, is captured as a
//! CUDA graph, and runs on the emulator. All that can be checked without addresses is checked while a plan is built;
//! what is left (devices, lengths, alignment, overlap) when buffers are bound to it.

use std::fmt;

use super::buffer::MemoryRange;
use super::launch::{Arg, LaunchConfig, PreparedLaunch, Scalar, Shape, check_arguments, check_grid, grid_for};
use super::module::SharedModule;
use super::{Device, Error};
use crate::ptx::{DType, KernelMeta};

/// A buffer of one plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferId(usize);

/// What a plan does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Bound by the caller and read.
    Input,
    /// Bound by the caller and written; what it held may be read.
    Output,
    /// Allocated for each run, or once for a capture.
    Temporary,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Input => "input",
            Role::Output => "output",
            Role::Temporary => "temporary",
        }
    }
}

/// A buffer of a plan.
#[derive(Clone, Debug)]
pub struct PlanBuffer {
    /// Its name in the plan.
    pub name: String,
    /// What the plan does with it.
    pub role: Role,
    /// What it holds.
    pub ty: DType,
    /// Elements that the plan touches: the least that a bound buffer must have.
    pub length: usize,
}

impl PlanBuffer {
    fn bytes(&self) -> u64 {
        (self.length as u64).saturating_mul(self.ty.bytes() as u64)
    }
}

/// An argument of a launch in a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PlanArg {
    /// A buffer of the plan from an element on.
    Buffer {
        /// Which.
        id: BufferId,
        /// The element at which the pointer points.
        offset: usize,
    },
    /// A value.
    Scalar(Scalar),
}

impl From<BufferId> for PlanArg {
    fn from(id: BufferId) -> Self {
        PlanArg::Buffer { id, offset: 0 }
    }
}

impl<S: Into<Scalar>> From<S> for PlanArg {
    fn from(scalar: S) -> Self {
        PlanArg::Scalar(scalar.into())
    }
}

/// One launch of a plan.
#[derive(Clone, Debug)]
pub struct PlannedLaunch {
    /// The module that the kernel is in.
    pub module: SharedModule,
    /// The kernel's metadata.
    pub meta: KernelMeta,
    /// The grid and the rest.
    pub config: LaunchConfig,
    /// Arguments in the entry's order.
    pub args: Vec<PlanArg>,
    /// The earlier launches that it must follow: those that write what it touches or touch what it writes, without
    /// those that follow from the others.
    pub after: Vec<usize>,
}

/// A computation as launches over named buffers. `Display` prints it as a table.
#[derive(Clone, Debug)]
pub struct Plan {
    name: String,
    buffers: Vec<PlanBuffer>,
    launches: Vec<PlannedLaunch>,
    /// Pairs that may be bound to the same memory.
    aliases: Vec<(BufferId, BufferId)>,
}

impl Plan {
    /// Starts a plan; `name` names it in messages.
    pub fn builder(name: &str) -> PlanBuilder {
        PlanBuilder {
            plan: Plan { name: name.to_owned(), buffers: Vec::new(), launches: Vec::new(), aliases: Vec::new() },
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All buffers, temporaries too, in the order of their declaration.
    pub fn buffers(&self) -> &[PlanBuffer] {
        &self.buffers
    }

    /// The inputs and outputs, in the order in which a run takes them.
    pub fn bindings(&self) -> impl Iterator<Item = &PlanBuffer> {
        self.buffers.iter().filter(|buffer| buffer.role != Role::Temporary)
    }

    /// The launches in order.
    pub fn launches(&self) -> &[PlannedLaunch] {
        &self.launches
    }

    /// Binds buffers, allocates temporaries, loads modules: the launches as `device` takes them, empty ones left out.
    ///
    /// # Errors
    /// When a buffer breaks the plan's rules, the device has not enough memory or does not take a module.
    pub fn prepare<D: Device + ?Sized>(&self, device: &D, args: &[Arg]) -> Result<Vec<PreparedLaunch>, Error> {
        let memory = self.bind(device, args)?;
        let id = device.properties().id;
        let mut prepared = Vec::with_capacity(self.launches.len());
        for launch in self.launches.iter().filter(|launch| !launch.config.is_empty()) {
            let kernel = device.load(&launch.module)?.kernel(&launch.meta.name)?;
            let args: Vec<Arg> = launch.args.iter().map(|arg| self.resolve(*arg, &memory)).collect();
            prepared.push(PreparedLaunch::new(id, &kernel, launch.config.grid, &args)?);
        }
        Ok(prepared)
    }

    /// The memory of every buffer.
    fn bind<D: Device + ?Sized>(&self, device: &D, args: &[Arg]) -> Result<Vec<MemoryRange>, Error> {
        if args.len() != self.bindings().count() {
            let names: Vec<&str> = self.bindings().map(|buffer| buffer.name.as_str()).collect();
            return Err(Error::BindingCount {
                plan: self.name.clone(),
                found: args.len(),
                expected: names.len(),
                names: names.join(", "),
            });
        }
        let mut given = args.iter();
        let mut memory: Vec<MemoryRange> = Vec::with_capacity(self.buffers.len());
        for buffer in &self.buffers {
            let range = match buffer.role {
                Role::Temporary => MemoryRange {
                    memory: device.allocate(buffer.bytes(), &buffer.name)?,
                    offset: 0,
                    bytes: buffer.bytes(),
                    ty: buffer.ty,
                },
                Role::Input | Role::Output => self.bound(device, buffer, given.next())?,
            };
            memory.push(range);
        }
        self.check_overlap(&memory)?;
        Ok(memory)
    }

    /// The part of a bound buffer that the plan touches.
    fn bound<D: Device + ?Sized>(
        &self,
        device: &D,
        buffer: &PlanBuffer,
        arg: Option<&Arg>,
    ) -> Result<MemoryRange, Error> {
        let wrong = |value: String, rule: String| Error::Binding {
            plan: self.name.clone(),
            buffer: buffer.name.clone(),
            value,
            rule,
        };
        let (range, writable) = match arg {
            Some(Arg::Input(range)) => (range, false),
            Some(Arg::Output(range)) => (range, true),
            Some(Arg::Scalar(scalar)) => {
                return Err(wrong(format!("the value {scalar}"), format!("a buffer of {} is needed", buffer.ty)));
            }
            None => return Err(wrong("nothing".to_owned(), "a buffer is needed".to_owned())),
        };
        let id = device.properties().id;
        if range.memory.device() != id {
            return Err(wrong(format!("memory on {}", range.memory.device()), format!("memory on {id} is needed")));
        }
        if range.ty != buffer.ty {
            return Err(wrong(format!("a buffer of {}", range.ty), format!("one of {} is needed", buffer.ty)));
        }
        if buffer.role == Role::Output && !writable {
            return Err(wrong("an input".to_owned(), "an output (`&mut`) is needed: the plan writes it".to_owned()));
        }
        if range.bytes < buffer.bytes() {
            let found = range.bytes / buffer.ty.bytes() as u64;
            return Err(wrong(format!("{found} element(s)"), format!("at least {} are needed", buffer.length)));
        }
        Ok(MemoryRange { bytes: buffer.bytes(), ..range.clone() })
    }

    /// No buffer that the plan writes may share memory with another, unless the plan says so and they start together.
    fn check_overlap(&self, memory: &[MemoryRange]) -> Result<(), Error> {
        for (second, range) in memory.iter().enumerate() {
            for (first, other) in memory[..second].iter().enumerate() {
                let written = self.buffers[first].role == Role::Output || self.buffers[second].role == Role::Output;
                if !written || !range.overlaps(other) {
                    continue;
                }
                let allowed = self.may_alias(BufferId(first), BufferId(second));
                if allowed && range.address() == other.address() {
                    continue;
                }
                return Err(Error::Binding {
                    plan: self.name.clone(),
                    buffer: self.buffers[second].name.clone(),
                    value: format!("memory at {:#x} that overlaps `{}`", range.address(), self.buffers[first].name),
                    rule: if allowed {
                        format!("the two must be the same memory ({:#x}) or apart", other.address())
                    } else {
                        "the two must be apart".to_owned()
                    },
                });
            }
        }
        Ok(())
    }

    fn may_alias(&self, first: BufferId, second: BufferId) -> bool {
        self.aliases.iter().any(|&pair| pair == (first, second) || pair == (second, first))
    }

    fn resolve(&self, arg: PlanArg, memory: &[MemoryRange]) -> Arg {
        match arg {
            PlanArg::Scalar(scalar) => Arg::Scalar(scalar),
            PlanArg::Buffer { id, offset } => {
                let skipped = (offset * self.buffers[id.0].ty.bytes()) as u64;
                let whole = &memory[id.0];
                let range =
                    MemoryRange { offset: whole.offset + skipped, bytes: whole.bytes - skipped, ..whole.clone() };
                if self.buffers[id.0].role == Role::Input { Arg::Input(range) } else { Arg::Output(range) }
            }
        }
    }

    /// The buffers that a launch touches, and whether it writes them.
    fn touches(launch: &PlannedLaunch) -> impl Iterator<Item = (BufferId, bool)> {
        launch.args.iter().zip(&launch.meta.params).filter_map(|(arg, param)| match arg {
            PlanArg::Buffer { id, .. } => Some((*id, !param.constant)),
            PlanArg::Scalar(_) => None,
        })
    }

    fn conflict(&self, earlier: &PlannedLaunch, later: &PlannedLaunch) -> bool {
        Self::touches(earlier).any(|(first, first_writes)| {
            Self::touches(later).any(|(second, second_writes)| {
                (first_writes || second_writes) && (first == second || self.may_alias(first, second))
            })
        })
    }
}

/// Builds a [`Plan`].
#[derive(Clone, Debug)]
pub struct PlanBuilder {
    plan: Plan,
}

impl PlanBuilder {
    /// Declares a buffer that the caller binds and the plan reads: `length` elements of `ty`.
    pub fn input(&mut self, name: &str, ty: DType, length: usize) -> BufferId {
        self.buffer(name, Role::Input, ty, length)
    }

    /// Declares a buffer that the caller binds and the plan writes.
    pub fn output(&mut self, name: &str, ty: DType, length: usize) -> BufferId {
        self.buffer(name, Role::Output, ty, length)
    }

    /// Declares a buffer that lives for one run, or for as long as a capture.
    pub fn temporary(&mut self, name: &str, ty: DType, length: usize) -> BufferId {
        self.buffer(name, Role::Temporary, ty, length)
    }

    /// Allows the two buffers to be the same memory, from their first element on.
    pub fn may_alias(&mut self, first: BufferId, second: BufferId) -> &mut Self {
        self.plan.aliases.push((first, second));
        self
    }

    /// Adds a launch over the grid that the kernel's own rule gives.
    ///
    /// # Errors
    /// When the module has no such kernel, or an argument breaks its rules.
    pub fn launch(&mut self, module: &SharedModule, kernel: &str, args: &[PlanArg]) -> Result<&mut Self, Error> {
        let shapes = self.shapes(kernel, args)?;
        let meta = module.kernel(kernel)?;
        check_arguments(meta, &shapes)?;
        let grid = grid_for(meta, &shapes)?;
        self.launch_over(module, kernel, grid, args)
    }

    /// Adds a launch over `grid`.
    ///
    /// # Errors
    /// When the module has no such kernel, or an argument or the grid breaks its rules.
    pub fn launch_over(
        &mut self,
        module: &SharedModule,
        kernel: &str,
        grid: [u32; 3],
        args: &[PlanArg],
    ) -> Result<&mut Self, Error> {
        let shapes = self.shapes(kernel, args)?;
        let meta = module.kernel(kernel)?;
        check_arguments(meta, &shapes)?;
        check_grid(meta, grid, &shapes)?;
        let mut launch = PlannedLaunch {
            module: module.clone(),
            meta: meta.clone(),
            config: LaunchConfig::new(meta, grid),
            args: args.to_vec(),
            after: Vec::new(),
        };
        launch.after = self.dependencies(&launch);
        self.plan.launches.push(launch);
        Ok(self)
    }

    /// The finished plan.
    pub fn build(self) -> Plan {
        self.plan
    }

    fn buffer(&mut self, name: &str, role: Role, ty: DType, length: usize) -> BufferId {
        self.plan.buffers.push(PlanBuffer { name: name.to_owned(), role, ty, length });
        BufferId(self.plan.buffers.len() - 1)
    }

    fn shapes(&self, kernel: &str, args: &[PlanArg]) -> Result<Vec<Shape>, Error> {
        let shape = |arg: &PlanArg| match arg {
            PlanArg::Scalar(scalar) => Ok(Shape::Scalar(*scalar)),
            PlanArg::Buffer { id, offset } => {
                let buffer = self.plan.buffers.get(id.0).ok_or_else(|| {
                    Error::Internal(format!("kernel {kernel}: {id:?} is no buffer of plan {}", self.plan.name))
                })?;
                if *offset > buffer.length {
                    return Err(Error::Binding {
                        plan: self.plan.name.clone(),
                        buffer: buffer.name.clone(),
                        value: format!("offset {offset}"),
                        rule: format!("it has {} elements", buffer.length),
                    });
                }
                Ok(Shape::Pointer { ty: buffer.ty, writable: buffer.role != Role::Input })
            }
        };
        args.iter().map(shape).collect()
    }

    /// The latest launches that `launch` must follow, those that follow from others left out.
    fn dependencies(&self, launch: &PlannedLaunch) -> Vec<usize> {
        let launches = &self.plan.launches;
        let mut implied = vec![false; launches.len()];
        let mut after = Vec::new();
        for index in (0..launches.len()).rev() {
            let needed = !implied[index] && self.plan.conflict(&launches[index], launch);
            if needed {
                after.push(index);
            }
            if needed || implied[index] {
                launches[index].after.iter().for_each(|&earlier| implied[earlier] = true);
            }
        }
        after.reverse();
        after
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "plan {}", self.name)?;
        for buffer in &self.buffers {
            let PlanBuffer { name, role, ty, length } = buffer;
            writeln!(formatter, "  {:<9} {name}: {length} × {ty}", role.name())?;
        }
        let rows = self.launches.iter().enumerate().map(|(index, launch)| {
            let extents = |[x, y, z]: [u32; 3]| format!("{x}×{y}×{z}");
            let args = launch.args.iter().map(|arg| match arg {
                PlanArg::Scalar(scalar) => scalar.to_string(),
                PlanArg::Buffer { id, offset: 0 } => self.buffers[id.0].name.clone(),
                PlanArg::Buffer { id, offset } => format!("{}+{offset}", self.buffers[id.0].name),
            });
            let shared = launch.config.shared + launch.meta.static_shared;
            let after: Vec<String> = launch.after.iter().map(usize::to_string).collect();
            [
                index.to_string(),
                launch.meta.name.clone(),
                extents(launch.config.grid),
                extents(launch.config.block),
                shared.to_string(),
                if after.is_empty() { "-".to_owned() } else { after.join(",") },
                args.collect::<Vec<_>>().join(", "),
            ]
        });
        let header = ["#", "kernel", "grid", "block", "shared bytes", "after", "arguments"].map(str::to_owned);
        let table: Vec<[String; 7]> = std::iter::once(header).chain(rows).collect();
        let widths: [usize; 7] =
            std::array::from_fn(|column| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
        for row in &table {
            let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            writeln!(formatter, "  {}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}
