//! Kernels ahead of time: the generated C compiles without a warning, and asks a driver for the right things.

use std::path::{Path, PathBuf};
use std::process::Command;

use tilewright::aot::{self, Error};
use tilewright::ptx::{Arch, DType, Extent, GridRule, KernelMeta, Module, ModuleMeta, ParamMeta};

/// A kernel whose text nobody reads, with every sort of parameter.
fn module(arch: Arch, align: u32, divisible: u32, shared: u32) -> Module {
    let name = format!("{arch} align {align} divisible {divisible}");
    let kernel = KernelMeta {
        name: "axpy_kernel".to_owned(),
        params: vec![
            ParamMeta { align, ..ParamMeta::output("x", DType::Fp32) },
            ParamMeta { divisible, ..ParamMeta::scalar("n", DType::I32) },
            ParamMeta::scalar("a", DType::Fp32),
            ParamMeta::scalar("stream", DType::I64),
            ParamMeta::scalar("int", DType::Bf16),
            ParamMeta::scalar("tw_flag", DType::U8),
        ],
        grid: GridRule { x: Extent::Any, y: Extent::Any, z: Extent::Any },
        num_warps: 4,
        num_ctas: 1,
        shared,
        static_shared: 0,
        tmem_size: 0,
        global_scratch_size: 0,
        global_scratch_align: 1,
        profile_scratch_size: 0,
        profile_scratch_align: 1,
        scratch_pointers: true,
    };
    let ptx = format!("// {name}\n\tbra \"what??\" \\ é;\n");
    Module { ptx, meta: ModuleMeta { arch, kernels: vec![kernel] } }
}

/// The least special first, so that an order is seen to be made.
fn modules() -> Vec<Module> {
    vec![
        module(Arch::Sm80, 4, 1, 0),
        module(Arch::Sm80, 16, 16, 49152),
        module(Arch::Sm90a, 8, 1, 1024),
        module(Arch::Sm90a, 16, 16, 65536),
    ]
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/aot").join(name)
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// What `main.c` does, and what each of its calls asks the driver for.
const EXPECTED: &str = r#"AXPY_DRIVER 1 201 axpy: no context is current: CUDA_ERROR_INVALID_CONTEXT (a description)
context 0: 9.0
load // sm_90a align 16 divisible 16 (52 bytes)
function axpy_kernel
attribute 8 of // sm_90a align 16 divisible 16 = 65536
launch // sm_90a align 16 divisible 16 grid 3 1 1 block 128 1 1 shared 65536 stream 77 args 1000 32 0.5 -5000000000 3f80 1 scratch 0 0
AXPY_OK
launch // sm_90a align 16 divisible 16 grid 3 2 1 block 128 1 1 shared 65536 stream 77 args 1000 32 0.5 -5000000000 3f80 1 scratch 0 0
AXPY_OK
load // sm_90a align 8 divisible 1 (50 bytes)
function axpy_kernel
launch // sm_90a align 8 divisible 1 grid 3 1 1 block 128 1 1 shared 1024 stream 77 args 1000 33 0.5 -5000000000 3f80 1 scratch 0 0
AXPY_OK
launch // sm_90a align 8 divisible 1 grid 3 1 1 block 128 1 1 shared 1024 stream 77 args 1008 32 0.5 -5000000000 3f80 1 scratch 0 0
AXPY_OK
AXPY_NO_SPECIALISATION 1 0 axpy: no specialisation takes these arguments; each needs: (sm_90a; x aligned to 16, n a multiple of 16) (sm_90a; x aligned to 8) (sm_80; x aligned to 16, n a multiple of 16) (sm_80; x aligned to 4)
AXPY_OK
context 1: 8.6
load // sm_80 align 16 divisible 16 (51 bytes)
function axpy_kernel
launch // sm_80 align 16 divisible 16 grid 3 1 1 block 128 1 1 shared 49152 stream 77 args 1000 32 0.5 -5000000000 3f80 1 scratch 0 0
AXPY_OK
load // sm_80 align 4 divisible 1 (49 bytes)
function axpy_kernel
launch // sm_80 align 4 divisible 1 grid 3 1 1 block 128 1 1 shared 0 stream 77 args 1000 33 0.5 -5000000000 3f80 1 scratch 0 0
AXPY_OK
context 0: 9.0
launch // sm_90a align 16 divisible 16 grid 3 1 1 block 128 1 1 shared 65536 stream 77 args 1000 32 0.5 -5000000000 3f80 1 scratch 0 0
AXPY_OK
context 2: 7.5
AXPY_NO_TARGET 1 0 axpy: no specialisation runs on the current device
AXPY_NO_TARGET
context 3: 12.0
AXPY_DRIVER 1 218 axpy: cuModuleLoadData: CUDA_ERROR_INVALID_PTX (a description)
load // sm_80 align 16 divisible 16 (51 bytes)
unload // sm_80 align 16 divisible 16
AXPY_DRIVER 1 500 axpy: cuModuleGetFunction: CUDA_ERROR_OTHER (a description)
load // sm_80 align 16 divisible 16 (51 bytes)
function axpy_kernel
AXPY_DRIVER 1 701 axpy: cuLaunchKernel: CUDA_ERROR_OTHER (a description)
launch // sm_80 align 16 divisible 16 grid 3 1 1 block 128 1 1 shared 49152 stream 77 args 1000 32 0.5 -5000000000 3f80 1 scratch 0 0
AXPY_OK
unload // sm_80 align 16 divisible 16
AXPY_OK
load // sm_80 align 16 divisible 16 (51 bytes)
function axpy_kernel
load // sm_80 align 4 divisible 1 (49 bytes)
function axpy_kernel
context 0: 9.0
launch // sm_90a align 16 divisible 16 grid 3 1 1 block 128 1 1 shared 65536 stream 77 args 1000 32 0.5 -5000000000 3f80 1 scratch 0 0
AXPY_OK
unload // sm_90a align 16 divisible 16
unload // sm_90a align 8 divisible 1
AXPY_OK
load // sm_90a align 16 divisible 16 (52 bytes)
function axpy_kernel
unload // sm_90a align 16 divisible 16
AXPY_DRIVER 1 701 axpy: cuFuncSetAttribute: CUDA_ERROR_OTHER (a description)
AXPY_DRIVER
"#;

#[test]
fn the_generated_launcher_asks_the_driver_for_the_right_things() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let files = aot::c_files("axpy", &modules()).unwrap();
    std::fs::write(at("axpy.h"), files.header).unwrap();
    std::fs::write(at("axpy.c"), files.source).unwrap();
    let object = at("axpy.o");
    // The generated files alone under all warnings, as C99.
    run(Command::new("cc")
        .args(["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-c", "-I"])
        .arg(data(""))
        .arg(at("axpy.c"))
        .arg("-o")
        .arg(&object));
    let program = at("test");
    run(Command::new("cc")
        .args(["-Wall", "-Werror", "-pthread", "-I"])
        .arg(folder.path())
        .arg("-I")
        .arg(data(""))
        .args([data("main.c"), data("driver.c"), object])
        .arg("-o")
        .arg(&program));
    let log = run(&mut Command::new(program));
    for (number, (found, expected)) in log.lines().zip(EXPECTED.lines()).enumerate() {
        assert_eq!(found, expected, "line {} of:\n{log}", number + 1);
    }
    assert_eq!(log.lines().count(), EXPECTED.lines().count(), "{log}");
}

#[test]
fn the_same_modules_give_the_same_bytes() {
    assert_eq!(aot::c_files("axpy", &modules()), aot::c_files("axpy", &modules()));
}

#[test]
fn what_cannot_be_launched_is_refused() {
    let good = || module(Arch::Sm80, 16, 1, 0);
    let fails = |name: &str, modules: &[Module]| aot::c_files(name, modules).unwrap_err();
    assert_eq!(fails("2x", &[good()]), Error::Name("2x".into()));
    assert_eq!(fails("while", &[good()]), Error::Name("while".into()));
    assert_eq!(fails("f", &[]), Error::Empty("f".into()));
    assert_eq!(
        fails("f", &[good(), module(Arch::Sm90a, 4, 1, 0), good()]),
        Error::Twice { first: 0, second: 2, arch: Arch::Sm80 }
    );
    let mut none = good();
    none.meta.kernels.clear();
    assert_eq!(fails("f", &[none]), Error::Kernels { index: 0, found: 0 });
    let mut other = module(Arch::Sm80, 4, 1, 0);
    other.meta.kernels[0].params[2].ty = DType::Fp64;
    let message = fails("f", &[good(), other]).to_string();
    assert!(message.starts_with("specialisation 1 takes (*fp32 x, i32 n, fp64 a,"), "{message}");
    let mut cluster = good();
    cluster.meta.kernels[0].num_ctas = 2;
    assert_eq!(fails("f", &[cluster]), Error::Launch { index: 0, what: "a cluster of CTAs" });
    let mut scratch = good();
    scratch.meta.kernels[0].global_scratch_size = 128;
    assert_eq!(fails("f", &[scratch]), Error::Launch { index: 0, what: "scratch memory" });
}
