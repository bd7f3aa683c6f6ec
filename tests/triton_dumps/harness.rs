//! Launches one kernel of the corpus, for both architectures, on the emulator with all checks on.
//!
//! Each test runs once more for each of our architectures with the PTX under `generated/` of the program that stands in for
//! the kernel, and with feature `llvm` again with what our own compiler makes of the kernel's `.ttir`: Triton's kernel and ours
//! have one oracle.
//!
//! The files are found through `TILEWRIGHT_TRITON_CORPUS`, or at `../shared/triton/dumps` beside the repository.

#[path = "../tile_programs/programs.rs"]
mod programs;

use tilewright::emulate::{Kernel, LaunchConfig, Memory, Options, launch};

/// The architectures of the corpus, what our compiler makes of it for ours, and what of our own programs is checked in.
#[cfg(feature = "llvm")]
pub const ARCHS: [&str; 8] = [
    "sm_90",
    "sm_100",
    "ours/sm_80",
    "ours/sm_90a",
    "ours/sm_100a",
    "generated/sm_80",
    "generated/sm_90a",
    "generated/sm_100a",
];
/// The architectures of the corpus, and those for which our own programs are checked in.
#[cfg(not(feature = "llvm"))]
pub const ARCHS: [&str; 5] = ["sm_90", "sm_100", "generated/sm_80", "generated/sm_90a", "generated/sm_100a"];

/// The same without what has no FP8.
#[cfg(feature = "llvm")]
pub const ARCHS_WITH_FP8: [&str; 6] =
    ["sm_90", "sm_100", "ours/sm_90a", "ours/sm_100a", "generated/sm_90a", "generated/sm_100a"];
/// The same without what has no FP8.
#[cfg(not(feature = "llvm"))]
pub const ARCHS_WITH_FP8: [&str; 4] = ["sm_90", "sm_100", "generated/sm_90a", "generated/sm_100a"];

/// A kernel as it is launched.
struct Built {
    ptx: String,
    shared: u32,
}

/// Triton's PTX of `kernel`.
fn triton(arch: &str, kernel: &str) -> Built {
    let folder = crate::support::corpus::triton().expect("the test asked for the corpus first").join(arch).join(kernel);
    let meta: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("kernel.json")).unwrap()).unwrap();
    Built {
        ptx: std::fs::read_to_string(folder.join("kernel.ptx")).unwrap(),
        shared: meta["shared"].as_u64().unwrap() as u32,
    }
}

/// Our PTX of `kernel`'s `.ttir`.
#[cfg(feature = "llvm")]
fn ours(arch: &str, kernel: &str) -> Built {
    use tilewright::generate::TileKernel;
    let arch: tilewright::ptx::Arch = arch.parse().unwrap();
    let corpus = crate::support::corpus::triton().expect("the test asked for the corpus first");
    // Triton's IR is the same for every target.
    let folder = corpus.join("sm_90").join(kernel);
    let text = std::fs::read_to_string(folder.join("kernel.ttir")).unwrap();
    let meta: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("kernel.json")).unwrap()).unwrap();
    let program = tilewright::ttir::read(&text).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    let func = program.kernels().next().unwrap().clone();
    let num_warps = meta["num_warps"].as_u64().unwrap() as u32;
    let made = TileKernel::new(func, num_warps, &serde_json::json!({}))
        .and_then(|kernel| kernel.compiled(arch))
        .unwrap_or_else(|error| panic!("{kernel}: {error}"));
    if let Some(folder) = std::env::var_os("TILEWRIGHT_KEEP_PTX") {
        let folder = std::path::Path::new(&folder).join(arch.name());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{kernel}.ptx")), &made.ptx).unwrap();
        let meta = serde_json::to_string(&made.triton_meta()).unwrap();
        std::fs::write(folder.join(format!("{kernel}.json")), meta).unwrap();
    }
    Built { shared: made.meta.shared, ptx: made.ptx }
}

/// What is checked in of the program that stands in for `kernel`.
fn generated(arch: &str, kernel: &str) -> Built {
    let arch: tilewright::ptx::Arch = arch.parse().unwrap();
    let program = programs::all().into_iter().find(|program| program.folder == kernel);
    let program = program.unwrap_or_else(|| panic!("no program stands in for {kernel}"));
    let made = program.kernel.unwrap().checked_in(arch).unwrap_or_else(|| panic!("{kernel} for {arch} is not there"));
    Built { shared: made.meta.kernels[0].shared, ptx: made.ptx }
}

/// A run-time argument.
pub enum Arg {
    /// A buffer with these bytes.
    Bytes(Vec<u8>),
    /// A buffer of so many bytes that nothing has written.
    Empty(usize),
    Int(i32),
    Float(f32),
}

/// A buffer of floats.
pub fn floats(values: &[f32]) -> Arg {
    Arg::Bytes(values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// A buffer of 16-bit words: halves, bfloats.
pub fn halves(values: &[u16]) -> Arg {
    Arg::Bytes(values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// What a launch left in the buffer arguments, in their order.
pub struct Outputs(pub Vec<Vec<u8>>);

impl Outputs {
    pub fn floats(&self, buffer: usize) -> Vec<f32> {
        self.0[buffer].chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    pub fn halves(&self, buffer: usize) -> Vec<u16> {
        self.0[buffer].chunks_exact(2).map(|word| u16::from_le_bytes(word.try_into().unwrap())).collect()
    }

    pub fn bytes(&self, buffer: usize) -> &[u8] {
        &self.0[buffer]
    }

    /// Holds inputs among the buffers of `args` to what they were.
    ///
    /// # Panics
    /// When one was written.
    pub fn expect_inputs(&self, args: &[Arg], inputs: impl IntoIterator<Item = usize>, what: &str) {
        let buffers: Vec<&Arg> = args.iter().filter(|arg| matches!(arg, Arg::Bytes(_) | Arg::Empty(_))).collect();
        for input in inputs {
            let Arg::Bytes(before) = buffers[input] else { panic!("{what}: buffer {input} is no input") };
            assert!(*before == self.0[input], "{what}: input {input} was written");
        }
    }
}

/// Runs `kernel` (a folder's name) for `arch` on `grid` CTAs. Triton's two scratch pointers, null, are added.
///
/// # Panics
/// When it does not decode, or a check finds a fault: the message names the file.
pub fn run(arch: &str, kernel: &str, args: &[Arg], grid: [u32; 3]) -> Outputs {
    try_run(arch, kernel, args, grid, &Options::default()).unwrap_or_else(|fault| panic!("{arch}/{kernel}: {fault}"))
}

/// As [`run`], with options; what a check finds is the error.
pub fn try_run(
    arch: &str,
    kernel: &str,
    args: &[Arg],
    grid: [u32; 3],
    options: &Options,
) -> Result<Outputs, tilewright::emulate::Error> {
    let built = match arch.split_once('/') {
        #[cfg(feature = "llvm")]
        Some(("ours", arch)) => ours(arch, kernel),
        Some((_, arch)) => generated(arch, kernel),
        None => triton(arch, kernel),
    };
    let decoded = Kernel::new(&built.ptx, None).unwrap_or_else(|error| panic!("{arch}/{kernel}: {error}"));
    let memory = Memory::new();
    let (mut params, mut buffers) = (Vec::new(), Vec::new());
    for (place, arg) in args.iter().enumerate() {
        let label = format!("argument {place}");
        let bytes = match arg {
            Arg::Int(value) => {
                params.extend(value.to_le_bytes());
                continue;
            }
            Arg::Float(value) => {
                params.extend(value.to_le_bytes());
                continue;
            }
            Arg::Bytes(bytes) => bytes.len(),
            Arg::Empty(bytes) => *bytes,
        };
        let address = memory.alloc(bytes as u64, &label).unwrap();
        if let Arg::Bytes(bytes) = arg {
            memory.write(address, bytes).unwrap();
        }
        params.resize(params.len().next_multiple_of(8), 0);
        params.extend(address.to_le_bytes());
        buffers.push((address, bytes));
    }
    params.resize(params.len().next_multiple_of(8) + 16, 0);
    let config = LaunchConfig {
        grid,
        block: decoded.required_block().unwrap(),
        dynamic_shared: built.shared,
        ..LaunchConfig::default()
    };
    launch(&decoded, &config, &params, &memory, options)?;
    let read = |&(address, bytes): &(u64, usize)| {
        let mut out = vec![0; bytes];
        memory.read(address, &mut out).unwrap();
        out
    };
    Ok(Outputs(buffers.iter().map(read).collect()))
}
