//! Arguments of a launch, and the checks that every launch passes before a device sees it.

use std::fmt;

use super::buffer::{Buffer, Element, MemoryRange};
use super::module::Kernel;
use super::{DeviceId, Error};
use crate::ptx::{DType, Extent, KernelMeta, ParamMeta};

/// The most CTAs along each axis that any of our targets takes.
const MAX_GRID: [u64; 3] = [i32::MAX as u64, 65_535, 65_535];
const AXES: [char; 3] = ['x', 'y', 'z'];

/// A value given to a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// 8-bit unsigned.
    U8(u8),
    /// 16-bit signed.
    I16(i16),
    /// 32-bit signed.
    I32(i32),
    /// 64-bit signed.
    I64(i64),
    /// IEEE half.
    F16(half::f16),
    /// bfloat16.
    Bf16(half::bf16),
    /// IEEE single.
    F32(f32),
    /// IEEE double.
    F64(f64),
}

impl Scalar {
    /// Its type.
    pub fn ty(self) -> DType {
        match self {
            Scalar::U8(_) => DType::U8,
            Scalar::I16(_) => DType::I16,
            Scalar::I32(_) => DType::I32,
            Scalar::I64(_) => DType::I64,
            Scalar::F16(_) => DType::Fp16,
            Scalar::Bf16(_) => DType::Bf16,
            Scalar::F32(_) => DType::Fp32,
            Scalar::F64(_) => DType::Fp64,
        }
    }

    /// The value where it is an integer.
    fn integer(self) -> Option<i64> {
        match self {
            Scalar::U8(value) => Some(value.into()),
            Scalar::I16(value) => Some(value.into()),
            Scalar::I32(value) => Some(value.into()),
            Scalar::I64(value) => Some(value),
            _ => None,
        }
    }

    /// Its bits in the low end of a word.
    fn bits(self) -> u64 {
        match self {
            Scalar::U8(value) => value.into(),
            Scalar::I16(value) => value.cast_unsigned().into(),
            Scalar::I32(value) => u64::from(value.cast_unsigned()),
            Scalar::I64(value) => value.cast_unsigned(),
            Scalar::F16(value) => value.to_bits().into(),
            Scalar::Bf16(value) => value.to_bits().into(),
            Scalar::F32(value) => value.to_bits().into(),
            Scalar::F64(value) => value.to_bits(),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::U8(value) => write!(formatter, "{value}"),
            Scalar::I16(value) => write!(formatter, "{value}"),
            Scalar::I32(value) => write!(formatter, "{value}"),
            Scalar::I64(value) => write!(formatter, "{value}"),
            Scalar::F16(value) => write!(formatter, "{value}"),
            Scalar::Bf16(value) => write!(formatter, "{value}"),
            Scalar::F32(value) => write!(formatter, "{value}"),
            Scalar::F64(value) => write!(formatter, "{value}"),
        }
    }
}

/// An argument of a launch: made with `into()` from `&buffer` (an input), `&mut buffer` (an output) or a value.
#[derive(Clone, Debug)]
pub enum Arg {
    /// Memory that the kernel reads.
    Input(MemoryRange),
    /// Memory that the kernel may write.
    Output(MemoryRange),
    /// A value.
    Scalar(Scalar),
}

impl<T: Element> From<&Buffer<T>> for Arg {
    fn from(buffer: &Buffer<T>) -> Self {
        Arg::Input(buffer.range())
    }
}

impl<T: Element> From<&mut Buffer<T>> for Arg {
    fn from(buffer: &mut Buffer<T>) -> Self {
        Arg::Output(buffer.range())
    }
}

macro_rules! scalars {
    ($($ty:ty => $variant:ident),* $(,)?) => {
        $(impl From<$ty> for Scalar {
            fn from(value: $ty) -> Self {
                Scalar::$variant(value)
            }
        }
        impl From<$ty> for Arg {
            fn from(value: $ty) -> Self {
                Arg::Scalar(Scalar::$variant(value))
            }
        })*
    };
}
scalars!(u8 => U8, i16 => I16, i32 => I32, i64 => I64, half::f16 => F16, half::bf16 => Bf16, f32 => F32, f64 => F64);

/// What the checks need to know of an argument, with or without an address.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// A pointer.
    Pointer {
        /// What it points to.
        ty: DType,
        /// Whether the kernel may write there.
        writable: bool,
    },
    /// A value.
    Scalar(Scalar),
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Pointer { ty, writable: true } => write!(formatter, "an output buffer of {ty}"),
            Shape::Pointer { ty, writable: false } => write!(formatter, "an input buffer of {ty}"),
            Shape::Scalar(scalar) => write!(formatter, "the {} {scalar}", scalar.ty()),
        }
    }
}

impl Arg {
    fn shape(&self) -> Shape {
        match self {
            Arg::Input(range) => Shape::Pointer { ty: range.ty, writable: false },
            Arg::Output(range) => Shape::Pointer { ty: range.ty, writable: true },
            Arg::Scalar(scalar) => Shape::Scalar(*scalar),
        }
    }
}

/// The grid, block, cluster and dynamic shared memory of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// CTAs along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a CTA along x, y, z.
    pub block: [u32; 3],
    /// CTAs of a cluster along x, y, z.
    pub cluster: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared: u32,
}

impl LaunchConfig {
    /// What `meta` asks for, over `grid`.
    pub(super) fn new(meta: &KernelMeta, grid: [u32; 3]) -> Self {
        Self { grid, block: [meta.num_warps * 32, 1, 1], cluster: [meta.num_ctas.max(1), 1, 1], shared: meta.shared }
    }

    /// True where there is nothing to launch.
    pub fn is_empty(&self) -> bool {
        self.grid.contains(&0)
    }
}

/// A kernel's parameters, packed as PTX lays them out: each at its natural alignment, in order.
#[derive(Clone, Debug, Default)]
pub struct ParamBlock {
    /// Words, so that the block is aligned for its largest member.
    words: Vec<u64>,
    bytes: usize,
    offsets: Vec<usize>,
}

impl ParamBlock {
    fn push(&mut self, bits: u64, size: usize) {
        let offset = self.bytes.next_multiple_of(size);
        self.bytes = offset + size;
        self.words.resize(self.bytes.div_ceil(8), 0);
        let block: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        block[offset..offset + size].copy_from_slice(&bits.to_le_bytes()[..size]);
        self.offsets.push(offset);
    }

    /// The block.
    pub fn as_bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }

    /// Where each parameter starts in it.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }
}

/// A launch that has passed every check: what a device starts.
#[derive(Clone, Debug)]
pub struct PreparedLaunch {
    /// The kernel.
    pub kernel: Kernel,
    /// Its grid and the rest.
    pub config: LaunchConfig,
    /// Its parameters.
    pub params: ParamBlock,
    /// The memory that the parameters point to, kept alive for as long as the launch may be repeated.
    pub memory: Vec<MemoryRange>,
}

impl PreparedLaunch {
    /// Checks a launch of `kernel` on `device` over `grid` with `args`, in the entry's order.
    ///
    /// # Errors
    /// When the arguments' number, kind, type, constness, alignment or device, or the grid, break the kernel's rules.
    pub fn new(device: DeviceId, kernel: &Kernel, grid: [u32; 3], args: &[Arg]) -> Result<Self, Error> {
        let meta = kernel.meta();
        if kernel.device() != device {
            return Err(Error::Foreign {
                what: format!("kernel {}", meta.name),
                found: kernel.device(),
                needed: device,
            });
        }
        let shapes: Vec<Shape> = args.iter().map(Arg::shape).collect();
        check_arguments(meta, &shapes)?;
        check_grid(meta, grid, &shapes)?;
        if meta.global_scratch_size > 0 || meta.profile_scratch_size > 0 {
            return Err(Error::Internal(format!(
                "kernel {}: it needs scratch memory, which no device gives",
                meta.name
            )));
        }
        let mut params = ParamBlock::default();
        let mut memory = Vec::new();
        for (param, arg) in meta.params.iter().zip(args) {
            match arg {
                Arg::Scalar(scalar) => params.push(scalar.bits(), param.ty.bytes()),
                Arg::Input(range) | Arg::Output(range) => {
                    check_range(meta, param, range, device)?;
                    params.push(range.address(), 8);
                    memory.push(range.clone());
                }
            }
        }
        if meta.scratch_pointers {
            params.push(0, 8);
            params.push(0, 8);
        }
        Ok(Self { kernel: kernel.clone(), config: LaunchConfig::new(meta, grid), params, memory })
    }
}

impl Kernel {
    /// The grid that the kernel's rule gives for `args`; 1 along an axis that the caller may choose.
    ///
    /// # Errors
    /// When the arguments break the kernel's rules, or the grid is more than the hardware takes.
    pub fn grid(&self, args: &[Arg]) -> Result<[u32; 3], Error> {
        let shapes: Vec<Shape> = args.iter().map(Arg::shape).collect();
        check_arguments(self.meta(), &shapes)?;
        grid_for(self.meta(), &shapes)
    }
}

/// Number, kind, type and constness of the arguments.
pub(super) fn check_arguments(meta: &KernelMeta, args: &[Shape]) -> Result<(), Error> {
    let params = &meta.params;
    if args.len() != params.len() {
        let names: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
        return Err(Error::ArgumentCount {
            kernel: meta.name.clone(),
            found: args.len(),
            expected: params.len(),
            names: names.join(", "),
        });
    }
    for (param, arg) in params.iter().zip(args) {
        let wrong = match arg {
            Shape::Pointer { ty, writable } => !param.pointer || *ty != param.ty || (!param.constant && !writable),
            Shape::Scalar(scalar) => param.pointer || scalar.ty() != param.ty,
        };
        if wrong {
            let expected = match (param.pointer, param.constant) {
                (false, _) => format!("a value of type {} is needed", param.ty),
                (true, true) => format!("a buffer of {} is needed", param.ty),
                (true, false) => format!("an output buffer (`&mut`) of {} is needed: the kernel writes it", param.ty),
            };
            return Err(argument(meta, param, arg.to_string(), expected));
        }
        if let Shape::Scalar(scalar) = arg
            && scalar.integer().is_some_and(|value| value % i64::from(param.divisible.max(1)) != 0)
        {
            let rule = format!("a multiple of {} is needed: the kernel is specialised for it", param.divisible);
            return Err(argument(meta, param, scalar.to_string(), rule));
        }
    }
    Ok(())
}

/// The grid against the kernel's rule and the hardware's limits.
pub(super) fn check_grid(meta: &KernelMeta, grid: [u32; 3], args: &[Shape]) -> Result<(), Error> {
    let extents = [&meta.grid.x, &meta.grid.y, &meta.grid.z];
    for (index, extent) in extents.into_iter().enumerate() {
        let value = u64::from(grid[index]);
        let wrong = |rule: String| Err(Error::Grid { kernel: meta.name.clone(), axis: AXES[index], value, rule });
        if let Some((expected, rule)) = extent_of(meta, extent, args)?
            && expected != value
        {
            return wrong(format!("the kernel needs {expected}: {rule}"));
        }
        if value > MAX_GRID[index] {
            return wrong(format!("the hardware takes at most {}", MAX_GRID[index]));
        }
        let cluster = u64::from(LaunchConfig::new(meta, grid).cluster[index]);
        if !value.is_multiple_of(cluster) {
            return wrong(format!("a multiple of the cluster's {cluster} CTAs is needed"));
        }
    }
    Ok(())
}

/// The grid that `meta`'s rule gives for `args`; 1 along an axis that the caller may choose.
pub(super) fn grid_for(meta: &KernelMeta, args: &[Shape]) -> Result<[u32; 3], Error> {
    let mut grid = [1; 3];
    for (index, extent) in [&meta.grid.x, &meta.grid.y, &meta.grid.z].into_iter().enumerate() {
        if let Some((value, rule)) = extent_of(meta, extent, args)? {
            grid[index] = u32::try_from(value).map_err(|_| Error::Grid {
                kernel: meta.name.clone(),
                axis: AXES[index],
                value,
                rule: format!("the hardware takes at most {} (the kernel's rule: {rule})", MAX_GRID[index]),
            })?;
        }
    }
    Ok(grid)
}

/// The value that a rule gives along one axis and the rule in words; `None` where the caller chooses.
fn extent_of(meta: &KernelMeta, extent: &Extent, args: &[Shape]) -> Result<Option<(u64, String)>, Error> {
    let (of, by) = match extent {
        Extent::Any => return Ok(None),
        Extent::Fixed(value) => return Ok(Some((u64::from(*value), "it is fixed".to_owned()))),
        Extent::Ceil { of, by } => (of, u64::from((*by).max(1))),
    };
    let found = meta.params.iter().zip(args).find(|(param, _)| param.name == *of);
    let (param, value) = match found {
        Some((param, Shape::Scalar(scalar))) => (param, scalar.integer()),
        _ => return Err(Error::Internal(format!("kernel {}: its grid rule names `{of}`, no value", meta.name))),
    };
    let value = match value {
        Some(value) => value,
        None => return Err(Error::Internal(format!("kernel {}: its grid rule names `{of}`, no integer", meta.name))),
    };
    let value = u64::try_from(value).map_err(|_| {
        argument(meta, param, value.to_string(), "the grid is made from it: it must not be negative".to_owned())
    })?;
    Ok(Some((value.div_ceil(by), format!("⌈{of} / {by}⌉ with {of} = {value}"))))
}

fn check_range(meta: &KernelMeta, param: &ParamMeta, range: &MemoryRange, device: DeviceId) -> Result<(), Error> {
    let name = range.memory.label();
    if range.memory.device() != device {
        let value = format!("buffer `{name}` on {}", range.memory.device());
        return Err(argument(meta, param, value, format!("a buffer on {device} is needed")));
    }
    let align = u64::from(param.align.max(1));
    if !range.address().is_multiple_of(align) {
        let value = format!("buffer `{name}` at {:#x}", range.address());
        return Err(argument(meta, param, value, format!("an address that is a multiple of {align} is needed")));
    }
    Ok(())
}

fn argument(meta: &KernelMeta, param: &ParamMeta, value: String, rule: String) -> Error {
    Error::Argument { kernel: meta.name.clone(), parameter: param.name.clone(), value, rule }
}
