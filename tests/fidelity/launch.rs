//! Small kernels on a device: words in, words out, and every failure a sentence.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tilewright::device::{self, Buffer, Device, SharedModule};
use tilewright::ptx::{Arch, DType, Extent, GridRule, KernelMeta, Module, ModuleMeta, ParamMeta};

/// The entry's name in every kernel of this target; it takes the address of its input and that of its output.
pub const ENTRY: &str = "probe";

/// A kernel to run: its text, and the threads that one CTA has.
pub struct Launch<'a> {
    /// PTX with the entry [`ENTRY`].
    pub ptx: &'a str,
    /// Warps of a CTA.
    pub warps: u32,
    /// CTAs.
    pub ctas: u32,
    /// What the first parameter points to.
    pub input: &'a [u32],
    /// Words that the second parameter points to, zero at first.
    pub output_words: usize,
}

/// The device of a name, or why there is none.
pub fn open(name: &str) -> Result<Arc<dyn Device>, String> {
    guarded(|| device::by_name(name).map(|(device, _)| device).map_err(|error| error.to_string()))
}

/// The GPU, if there is one. Where `TILEWRIGHT_DEVICE` asks for it its absence is a failure.
pub fn gpu() -> Option<Arc<dyn Device>> {
    match open("gpu") {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            let wanted = std::env::var(device::ENVIRONMENT).is_ok_and(|name| name == "gpu");
            assert!(!wanted, "a GPU was asked for: {error}");
            println!("no GPU: {error}");
            None
        }
    }
}

/// Runs a kernel and waits for its results.
pub fn run(device: &dyn Device, launch: &Launch) -> Result<Vec<u32>, String> {
    guarded(|| start(device, launch).map_err(|error| one_line(&error.to_string())))
}

/// A panic of what is tested is one more failure to report.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", text.unwrap_or("without a message")))
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(400).collect()
}

fn start(device: &dyn Device, launch: &Launch) -> Result<Vec<u32>, device::Error> {
    let meta = KernelMeta {
        name: ENTRY.to_owned(),
        params: vec![ParamMeta::input("input", DType::I32), ParamMeta::output("output", DType::I32)],
        grid: GridRule { x: Extent::Any, y: Extent::Fixed(1), z: Extent::Fixed(1) },
        num_warps: launch.warps,
        num_ctas: 1,
        shared: 0,
        static_shared: 0,
        tmem_size: 0,
        global_scratch_size: 0,
        global_scratch_align: 1,
        profile_scratch_size: 0,
        profile_scratch_align: 1,
        scratch_pointers: false,
    };
    // Tables name the target that each text needs; what a card or the emulator does not take it refuses itself.
    let meta = ModuleMeta { arch: Arch::Sm80, kernels: vec![meta] };
    let module = SharedModule::new(Module { ptx: launch.ptx.to_owned(), meta });
    let kernel = device.load(&module)?.kernel(ENTRY)?;
    let input = Buffer::from_slice(device, bytemuck::cast_slice::<u32, i32>(launch.input), "input")?;
    let mut output = Buffer::<i32>::zeroed(device, launch.output_words, "output")?;
    device.launch(&kernel, [launch.ctas, 1, 1], &[(&input).into(), (&mut output).into()])?;
    device.synchronize()?;
    Ok(bytemuck::cast_vec(output.to_vec()?))
}
