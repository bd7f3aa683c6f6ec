//! What a launcher must know of a module: the metadata beside the PTX.

use serde::{Deserialize, Serialize};

use super::{Arch, DType};

/// PTX text and its metadata: what every way of making a kernel ends in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The text.
    pub ptx: String,
    /// One entry of metadata for each kernel in it.
    pub meta: ModuleMeta,
}

impl Module {
    /// The metadata of the kernel `name`.
    pub fn kernel(&self, name: &str) -> Option<&KernelMeta> {
        self.meta.kernels.iter().find(|kernel| kernel.name == name)
    }
}

/// The metadata of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleMeta {
    /// The target that the PTX names; checked against the card before it is loaded.
    pub arch: Arch,
    /// The kernels in order of their entries.
    pub kernels: Vec<KernelMeta>,
}

/// The metadata of one kernel. Its JSON has the keys that Triton's launcher reads (`name`, `shared`, `num_warps`,
/// `num_ctas`, the scratch sizes, `tmem_size`), and ours beside them; [`TritonMeta`](super::TritonMeta) is all of Triton's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelMeta {
    /// The entry's name.
    pub name: String,
    /// Parameters in the entry's order, without Triton's two scratch pointers.
    pub params: Vec<ParamMeta>,
    /// How many CTAs a launch needs.
    pub grid: GridRule,
    /// Warps of a CTA; the block is `32 × num_warps` threads.
    pub num_warps: u32,
    /// CTAs of a cluster.
    pub num_ctas: u32,
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// Static shared memory in bytes, declared in the PTX.
    pub static_shared: u32,
    /// Tensor-memory columns.
    pub tmem_size: u32,
    /// Bytes of global scratch for each CTA.
    pub global_scratch_size: u64,
    /// Alignment of the global scratch.
    pub global_scratch_align: u32,
    /// Bytes of profiling scratch.
    pub profile_scratch_size: u64,
    /// Alignment of the profiling scratch.
    pub profile_scratch_align: u32,
    /// Whether the entry has two more parameters after `params`, as every kernel of Triton's has: the pointers of the global
    /// and of the profiling scratch, which the launcher passes (null where the size is 0).
    #[serde(default, skip_serializing_if = "is_false")]
    pub scratch_pointers: bool,
}

/// A parameter of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParamMeta {
    /// Its name in the host API (the PTX name is `<entry>_param_<i>`).
    pub name: String,
    /// The element type: of the pointee where `pointer` is set, of the value otherwise.
    pub ty: DType,
    /// True for a pointer to global memory.
    pub pointer: bool,
    /// True where the kernel does not write through the pointer.
    pub constant: bool,
    /// The alignment that the kernel relies on, in bytes, of the pointer's value.
    pub align: u32,
    /// The kernel relies on the value, of a parameter that is no pointer, being a multiple of this.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub divisible: u32,
}

fn one() -> u32 {
    1
}

fn is_one(value: &u32) -> bool {
    *value == 1
}

fn is_false(value: &bool) -> bool {
    !value
}

impl ParamMeta {
    /// A pointer that the kernel reads only.
    pub fn input(name: &str, ty: DType) -> Self {
        Self { name: name.to_owned(), ty, pointer: true, constant: true, align: ty.bytes() as u32, divisible: 1 }
    }

    /// A pointer that the kernel writes.
    pub fn output(name: &str, ty: DType) -> Self {
        Self { constant: false, ..Self::input(name, ty) }
    }

    /// A value.
    pub fn scalar(name: &str, ty: DType) -> Self {
        Self { name: name.to_owned(), ty, pointer: false, constant: true, align: ty.bytes() as u32, divisible: 1 }
    }

    /// Bytes that the argument takes in the parameter block.
    pub fn bytes(&self) -> usize {
        if self.pointer { 8 } else { self.ty.bytes() }
    }
}

/// The launch grid as data: each extent from the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GridRule {
    /// CTAs along x.
    pub x: Extent,
    /// CTAs along y.
    pub y: Extent,
    /// CTAs along z.
    pub z: Extent,
}

/// One extent of a grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// A constant.
    Fixed(u32),
    /// ⌈argument / by⌉, where `of` names a scalar parameter.
    Ceil {
        /// The parameter's name.
        of: String,
        /// What one CTA takes.
        by: u32,
    },
    /// Chosen by the caller.
    Any,
}

impl GridRule {
    /// ⌈`of` / `by`⌉ CTAs along x.
    pub fn along(of: &str, by: u32) -> Self {
        Self { x: Extent::Ceil { of: of.to_owned(), by }, y: Extent::Fixed(1), z: Extent::Fixed(1) }
    }
}
