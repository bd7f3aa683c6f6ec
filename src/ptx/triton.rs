//! A kernel's metadata as Triton writes it: the JSON beside a kernel in Triton's cache, which its launcher reads.

use serde::{Deserialize, Serialize};

use super::{Arch, KernelMeta};

/// The version of Triton whose metadata [`TritonMeta`] is.
const TRITON_VERSION: &str = "3.6.0";

/// The target, as Triton names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TritonTarget {
    /// `cuda`.
    pub backend: String,
    /// Compute capability times ten.
    pub arch: u32,
    /// Lanes of a warp.
    pub warp_size: u32,
}

/// Triton 3.6's metadata of a compiled kernel: its keys, in its order, and `cluster_dims`, which launchers before 3.6 read.
///
/// A launcher needs `name`, `shared`, `num_warps`, `num_ctas`, the four scratch fields, `tensordesc_meta`, `launch_pdl` and
/// `launch_cooperative_grid`; the others say what the kernel was compiled with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TritonMeta {
    /// What tells this kernel from every other: lower-case hexadecimal digits.
    pub hash: String,
    /// The target.
    pub target: TritonTarget,
    /// The most register of a thread; `None` for no limit.
    pub maxnreg: Option<u32>,
    /// CTAs of a cluster.
    pub num_ctas: u32,
    /// Stages of software pipelining.
    pub num_stages: u32,
    /// Warps of a CTA.
    pub num_warps: u32,
    /// Lanes of a warp.
    pub warp_size: u32,
    /// The cluster's extents.
    pub cluster_dims: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// Columns of tensor memory.
    pub tmem_size: u32,
    /// Bytes of global scratch of a CTA.
    pub global_scratch_size: u64,
    /// Its alignment.
    pub global_scratch_align: u32,
    /// Bytes of profiling scratch of a CTA.
    pub profile_scratch_size: u64,
    /// Its alignment.
    pub profile_scratch_align: u32,
    /// The entry's name.
    pub name: String,
    /// Tensor descriptors among the arguments: none of ours has any.
    pub tensordesc_meta: Vec<serde_json::Value>,
    /// Whether the launch is cooperative.
    pub launch_cooperative_grid: bool,
    /// Whether the launch may start before the one ahead of it ends.
    pub launch_pdl: bool,
    /// `sm90`.
    pub arch: String,
    /// `cuda`.
    pub backend_name: String,
    /// The precisions that a product may ask for.
    pub allowed_dot_input_precisions: Vec<String>,
    /// The precision of a product that asks for none.
    pub default_dot_input_precision: String,
    /// FP8 types that products should no longer have.
    pub deprecated_fp8_dot_operand_dtypes: Vec<String>,
    /// FP8 types that there are.
    pub supported_fp8_dtypes: Vec<String>,
    /// Products of FP8 summed in fewer bits before they are added to a single.
    pub max_num_imprecise_acc_default: u32,
    /// Whether a product and a sum may become one operation.
    pub enable_fp_fusion: bool,
    /// Whether subnormal numbers may be flushed where CUDA's own library would.
    pub enable_reflect_ftz: bool,
    /// Whether device assertions are kept.
    pub debug: bool,
    /// Whether integer overflow is looked for.
    pub sanitize_overflow: bool,
    /// Instrumentation: none.
    pub instrumentation_mode: String,
    /// A file that takes the place of a stage: none.
    pub ir_override: Option<String>,
    /// Options for the assembler.
    pub ptx_options: Option<String>,
    /// The PTX version asked for; `None` where the compiler chose.
    pub ptx_version: Option<u32>,
    /// Libraries of bitcode that are linked: none.
    pub extern_libs: Vec<(String, String)>,
    /// The version of Triton whose form this is.
    pub triton_version: String,
}

impl TritonMeta {
    /// The metadata of a kernel for `arch`.
    pub fn new(kernel: &KernelMeta, arch: Arch, num_stages: u32, hash: String) -> Self {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let capability = arch.capability();
        Self {
            hash,
            target: TritonTarget { backend: "cuda".to_owned(), arch: capability, warp_size: 32 },
            maxnreg: None,
            num_ctas: kernel.num_ctas,
            num_stages,
            num_warps: kernel.num_warps,
            warp_size: 32,
            cluster_dims: [kernel.num_ctas, 1, 1],
            shared: kernel.shared,
            tmem_size: kernel.tmem_size,
            global_scratch_size: kernel.global_scratch_size,
            global_scratch_align: kernel.global_scratch_align,
            profile_scratch_size: kernel.profile_scratch_size,
            profile_scratch_align: kernel.profile_scratch_align,
            name: kernel.name.clone(),
            tensordesc_meta: Vec::new(),
            launch_cooperative_grid: false,
            launch_pdl: false,
            arch: format!("sm{capability}"),
            backend_name: "cuda".to_owned(),
            allowed_dot_input_precisions: names(&["tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"]),
            default_dot_input_precision: "tf32".to_owned(),
            deprecated_fp8_dot_operand_dtypes: names(if capability >= 90 { &["fp8e4b15"] } else { &[] }),
            supported_fp8_dtypes: names(if capability >= 89 {
                &["fp8e4b15", "fp8e4nv", "fp8e5"]
            } else {
                &["fp8e4b15", "fp8e5"]
            }),
            max_num_imprecise_acc_default: if capability == 90 { 1 << 30 } else { 0 },
            enable_fp_fusion: true,
            enable_reflect_ftz: true,
            debug: false,
            sanitize_overflow: true,
            instrumentation_mode: String::new(),
            ir_override: None,
            ptx_options: None,
            ptx_version: None,
            extern_libs: Vec::new(),
            triton_version: TRITON_VERSION.to_owned(),
        }
    }
}
