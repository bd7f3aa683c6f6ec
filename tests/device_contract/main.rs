//! What holds of every device, held against each: the emulator always, and the GPU where there is one, on a stream of
//! its own and on a stream of the caller.
//!
//! Without a GPU its tests say that they were skipped; with `TILEWRIGHT_DEVICE=gpu` its absence is a failure.

mod kernels;

use std::time::Duration;

use kernels::{PER_CTA, broken, meta, module, reverse_through_shared, scale, vector_add};
use tilewright::device::{
    Arg, Buffer, Device, Element, EmulatedDevice, Error, Kernel, Plan, Scalar, SharedModule, bf16, f16,
};
use tilewright::ptx::{Arch, DType, Extent, GridRule};

/// Declares each case once for each device.
macro_rules! contract {
    ($($case:ident),* $(,)?) => {
        mod emulator {
            $(#[test] fn $case() { super::$case(&super::EmulatedDevice::new()); })*
        }
        mod unchecked_emulator_of_sm_80 {
            use super::{Arch, EmulatedDevice};
            $(#[test] fn $case() {
                super::$case(&EmulatedDevice::builder().arch(Arch::Sm80).checks(false).build());
            })*
        }
        #[cfg(feature = "cuda")]
        mod gpu {
            $(#[test] fn $case() {
                super::on_gpu(stringify!($case), |gpu| super::$case(&gpu));
            })*
        }
        #[cfg(feature = "cuda")]
        mod gpu_on_a_callers_stream {
            $(#[test] fn $case() {
                super::on_gpu(stringify!($case), |owner| {
                    // SAFETY: the stream lives as long as `owner`, which outlives all that the case makes.
                    let gpu = unsafe { tilewright::device::GpuDevice::on_stream(0, owner.stream()) }.unwrap();
                    super::$case(&gpu);
                });
            })*
        }
    };
}

contract!(
    copies_come_back,
    ranges_outside_a_buffer_are_refused,
    fill_sets_bytes,
    copies_on_the_device_are_ordered,
    kernels_compute,
    parameters_of_every_size_are_packed,
    wrong_arguments_are_refused,
    wrong_grids_are_refused,
    a_free_grid_is_the_callers,
    a_zero_grid_launches_nothing,
    work_is_done_in_order,
    buffers_may_be_dropped_while_work_is_queued,
    plans_run_and_show_themselves,
    plans_refuse_wrong_bindings,
    a_capture_replays,
    an_empty_capture_replays,
    a_module_is_loaded_once,
    a_module_for_another_target_is_refused,
    broken_text_is_refused_with_a_log,
    a_kernel_that_is_not_there_is_refused,
    large_dynamic_shared_memory_works,
    too_much_shared_memory_is_refused,
    threads_share_a_device,
    time_is_measured,
    foreign_memory_and_kernels_are_refused,
);

/// Runs `case` on the first GPU; says so where there is none, and fails where one was asked for.
#[cfg(feature = "cuda")]
fn on_gpu(name: &str, case: impl FnOnce(tilewright::device::GpuDevice)) {
    let wanted = std::env::var(tilewright::device::ENVIRONMENT).is_ok_and(|value| value == "gpu");
    match tilewright::device::GpuDevice::open(0) {
        Ok(gpu) => case(gpu),
        Err(error) if wanted => panic!("a GPU was asked for: {error}"),
        Err(error) => println!("skipped {name} on the GPU: {error}"),
    }
}

fn load(device: &dyn Device, module: &SharedModule) -> Kernel {
    let name = module.only_kernel().unwrap().name.clone();
    device.load(module).unwrap().kernel(&name).unwrap()
}

fn upload<T: Element>(device: &dyn Device, values: &[T]) -> Buffer<T> {
    Buffer::from_slice(device, values, "values").unwrap()
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|index| index as f32).collect()
}

fn scale_by(device: &dyn Device, kernel: &Kernel, x: &mut Buffer<f32>, factor: f32, term: f64) {
    let n = i32::try_from(x.len()).unwrap();
    let args = [factor.into(), x.into(), n.into(), term.into()];
    device.launch(kernel, kernel.grid(&args).unwrap(), &args).unwrap();
}

/// The message of a result that should be an error, which must hold each of `parts`.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, parts: &[&str]) {
    let message = result.expect_err("this should be refused").to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

fn round_trip<T: Element + PartialEq + std::fmt::Debug>(device: &dyn Device, values: &[T]) {
    assert_eq!(upload(device, values).to_vec().unwrap(), values);
}

fn copies_come_back(device: &dyn Device) {
    round_trip(device, &[1u8, 2, 255]);
    round_trip(device, &[i32::MIN, -1, 7]);
    round_trip(device, &[i64::MIN, -1, 7]);
    round_trip(device, &[f16::from_f32(1.5), f16::NEG_ONE]);
    round_trip(device, &[bf16::from_f32(1.5), bf16::NEG_ONE]);
    round_trip(device, &[1.0f32, -0.5, f32::MAX]);
    round_trip(device, &[1.0f64, -0.5, f64::MAX]);
    round_trip::<f32>(device, &[]);
    // More than the driver's staging buffers take at once.
    round_trip(device, &(0..1 << 20).collect::<Vec<i32>>());

    let mut buffer = upload(device, &numbers(8));
    buffer.view(2..5).unwrap().copy_in(&[20.0, 30.0, 40.0]).unwrap();
    buffer.copy_in(&[-1.0]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [-1.0, 1.0, 20.0, 30.0, 40.0, 5.0, 6.0, 7.0]);
    let inner = buffer.view(1..).unwrap().view(1..=2).unwrap();
    assert_eq!(inner.address(), buffer.address() + 8);
    assert_eq!(inner.to_vec().unwrap(), [20.0, 30.0]);
    let mut first = [0.0; 2];
    buffer.copy_out(&mut first).unwrap();
    assert_eq!(first, [-1.0, 1.0]);
}

fn ranges_outside_a_buffer_are_refused(device: &dyn Device) {
    let mut buffer = upload(device, &numbers(4));
    refused(buffer.view(2..5), &["`values` (4 × fp32)", "a view of 2..5"]);
    refused(buffer.view(6..), &["6..4"]);
    refused(buffer.copy_in(&[0.0; 5]), &["a copy in of 0..5"]);
    refused(buffer.copy_out(&mut [0.0; 5]), &["a copy out of 0..5"]);
    let longer = upload(device, &numbers(5));
    refused(buffer.copy_from(&longer), &["a copy of 0..5"]);
    refused(Buffer::<f64>::uninit(device, usize::MAX, "huge"), &["`huge`", "more than an address"]);
    // More than any card or emulator has.
    assert!(Buffer::<f64>::uninit(device, 1 << 50, "huge").is_err());
    assert_eq!(buffer.to_vec().unwrap(), numbers(4));
}

fn fill_sets_bytes(device: &dyn Device) {
    let mut buffer = Buffer::<i32>::uninit(device, 6, "bytes").unwrap();
    buffer.fill(0xff).unwrap();
    buffer.view(1..3).unwrap().fill(0).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [-1, 0, 0, -1, -1, -1]);
    Buffer::<i32>::uninit(device, 0, "nothing").unwrap().fill(1).unwrap();
    assert_eq!(Buffer::<f32>::zeroed(device, 3, "zeros").unwrap().to_vec().unwrap(), [0.0; 3]);
}

fn copies_on_the_device_are_ordered(device: &dyn Device) {
    let kernel = load(device, &scale());
    let mut x = upload(device, &numbers(100));
    let mut y = Buffer::<f32>::uninit(device, 100, "y").unwrap();
    scale_by(device, &kernel, &mut x, 2.0, 0.0);
    y.copy_from(&x).unwrap();
    scale_by(device, &kernel, &mut x, 0.0, -1.0);
    assert_eq!(y.to_vec().unwrap(), numbers(100).iter().map(|x| 2.0 * x).collect::<Vec<_>>());
    assert_eq!(x.to_vec().unwrap(), [-1.0; 100]);
}

fn kernels_compute(device: &dyn Device) {
    let kernel = load(device, &vector_add());
    for count in [1usize, 63, 64, 65, 1000] {
        let (x, y) = (upload(device, &numbers(count)), upload(device, &vec![0.5f32; count]));
        let mut z = upload(device, &vec![-1.0f32; count + 3]);
        let n = i32::try_from(count).unwrap();
        let grid = [u32::try_from(count).unwrap().div_ceil(PER_CTA), 1, 1];
        let args = [(&x).into(), (&y).into(), (&mut z).into(), n.into()];
        assert_eq!(kernel.grid(&args).unwrap(), grid);
        device.launch(&kernel, grid, &args).unwrap();
        let mut expected: Vec<f32> = numbers(count).iter().map(|x| x + 0.5).collect();
        expected.extend([-1.0; 3]);
        assert_eq!(z.to_vec().unwrap(), expected, "{count} elements");
    }
}

fn parameters_of_every_size_are_packed(device: &dyn Device) {
    let kernel = load(device, &scale());
    let mut x = upload(device, &numbers(70));
    scale_by(device, &kernel, &mut x, 0.5, 3.0);
    assert_eq!(x.to_vec().unwrap(), numbers(70).iter().map(|x| 0.5 * x + 3.0).collect::<Vec<_>>());
}

fn wrong_arguments_are_refused(device: &dyn Device) {
    let kernel = load(device, &vector_add());
    let (x, y) = (upload(device, &numbers(64)), upload(device, &numbers(64)));
    let mut z = upload(device, &[9.0f32; 64]);
    let whole = upload(device, &[1i32; 64]);
    let out = Arg::from(&mut z);
    let launch = |args: &[Arg]| device.launch(&kernel, [1, 1, 1], args);
    let (first, second, n) = (Arg::from(&x), Arg::from(&y), Arg::from(64));

    refused(
        launch(&[first.clone(), second.clone(), out.clone()]),
        &["kernel vector_add", "3 argument(s)", "4 expected", "x, y, z, n"],
    );
    refused(
        launch(&[first.clone(), Arg::from(&whole), out.clone(), n.clone()]),
        &["kernel vector_add", "parameter `y`", "an input buffer of i32", "a buffer of fp32"],
    );
    refused(
        launch(&[first.clone(), second.clone(), Arg::from(&y), n.clone()]),
        &["parameter `z`", "an input buffer of fp32", "`&mut`", "writes it"],
    );
    refused(
        launch(&[first.clone(), second.clone(), out.clone(), Arg::from(64i64)]),
        &["parameter `n`", "the i64 64", "a value of type i32"],
    );
    refused(
        launch(&[first.clone(), Arg::from(1.5f32), out.clone(), n.clone()]),
        &["parameter `y`", "the fp32 1.5", "a buffer of fp32"],
    );
    refused(launch(&[first.clone(), second.clone(), out.clone(), second.clone()]), &["parameter `n`", "a value"]);
    // `x` is declared to be 16-aligned, `y` only to its type.
    let shifted = x.view(1..).unwrap();
    refused(
        launch(&[Arg::from(&shifted), second.clone(), out.clone(), Arg::from(63)]),
        &["parameter `x`", &format!("{:#x}", shifted.address()), "a multiple of 16"],
    );
    assert_eq!(z.to_vec().unwrap(), [9.0; 64], "a refused launch writes nothing");
    // An output where the kernel only reads is fine.
    let mut x = x;
    device.launch(&kernel, [1, 1, 1], &[(&mut x).into(), second, out, n]).unwrap();
    assert_eq!(z.to_vec().unwrap()[63], 126.0);
}

fn wrong_grids_are_refused(device: &dyn Device) {
    let kernel = load(device, &vector_add());
    let (x, y) = (upload(device, &numbers(65)), upload(device, &numbers(65)));
    let mut z = Buffer::<f32>::zeroed(device, 65, "z").unwrap();
    let out = Arg::from(&mut z);
    let args = |n: i32| [Arg::from(&x), Arg::from(&y), out.clone(), Arg::from(n)];
    refused(
        device.launch(&kernel, [1, 1, 1], &args(65)),
        &["kernel vector_add", "grid.x is 1", "needs 2", "⌈n / 64⌉ with n = 65"],
    );
    refused(device.launch(&kernel, [2, 3, 1], &args(65)), &["grid.y is 3", "needs 1", "fixed"]);
    refused(device.launch(&kernel, [2, 1, 1], &args(-1)), &["parameter `n`", "got -1", "not be negative"]);
    refused(kernel.grid(&args(-1)), &["parameter `n`"]);
    assert_eq!(z.to_vec().unwrap(), [0.0; 65]);
}

fn a_free_grid_is_the_callers(device: &dyn Device) {
    let module = reverse_through_shared(device.properties().arch, 256);
    let kernel = load(device, &module);
    let x = upload(device, &(0..32).collect::<Vec<i32>>());
    let mut out = Buffer::<i32>::zeroed(device, 32, "out").unwrap();
    device.launch(&kernel, [1, 1, 1], &[(&x).into(), (&mut out).into()]).unwrap();
    assert_eq!(out.to_vec().unwrap(), (0..32).rev().collect::<Vec<i32>>());
    refused(
        device.launch(&kernel, [1 << 31, 1, 1], &[(&x).into(), (&mut out).into()]),
        &["grid.x is 2147483648", "hardware"],
    );
}

fn a_zero_grid_launches_nothing(device: &dyn Device) {
    let kernel = load(device, &scale());
    let mut x = upload(device, &numbers(4));
    let args = [2.0f32.into(), (&mut x).into(), 0.into(), 0.0f64.into()];
    assert_eq!(kernel.grid(&args).unwrap(), [0, 1, 1]);
    device.launch(&kernel, [0, 1, 1], &args).unwrap();
    device.synchronize().unwrap();
    assert_eq!(x.to_vec().unwrap(), numbers(4));
}

fn work_is_done_in_order(device: &dyn Device) {
    let kernel = load(device, &scale());
    let mut x = upload(device, &vec![0.0f32; 1000]);
    // x ← x/2 + i, whose result depends on the order.
    let mut expected = 0.0f32;
    for step in 0..200 {
        scale_by(device, &kernel, &mut x, 0.5, f64::from(step));
        expected = 0.5 * expected + step as f32;
    }
    assert_eq!(x.to_vec().unwrap(), vec![expected; 1000]);
    // A copy in waits for the launches before it, a launch for the copy.
    scale_by(device, &kernel, &mut x, 2.0, 1.0);
    x.copy_in(&[7.0; 1000]).unwrap();
    scale_by(device, &kernel, &mut x, 2.0, 1.0);
    assert_eq!(x.to_vec().unwrap(), [15.0; 1000]);
}

fn buffers_may_be_dropped_while_work_is_queued(device: &dyn Device) {
    let (add, scale) = (load(device, &vector_add()), load(device, &scale()));
    let count = 1 << 14;
    let mut sum = upload(device, &vec![0.0f32; count]);
    for step in 0..20 {
        let mut x = upload(device, &vec![step as f32; count]);
        scale_by(device, &scale, &mut x, 2.0, 1.0);
        let before = sum;
        sum = Buffer::uninit(device, count, "sum").unwrap();
        let n = i32::try_from(count).unwrap();
        let args = [(&before).into(), (&x).into(), (&mut sum).into(), n.into()];
        device.launch(&add, add.grid(&args).unwrap(), &args).unwrap();
        // `x` and `before` go here, with the launches that read them still queued.
    }
    let expected: f32 = (0..20).map(|step| 2.0 * step as f32 + 1.0).sum();
    assert_eq!(sum.to_vec().unwrap(), vec![expected; count]);
}

/// A buffer keeps what it needs of its device: memory and the work queued on it.
fn buffers_outlive(device: impl Device) {
    let kernel = load(&device, &scale());
    let mut x = upload(&device, &numbers(64));
    scale_by(&device, &kernel, &mut x, 3.0, 0.0);
    drop(device);
    drop(kernel);
    assert_eq!(x.to_vec().unwrap()[63], 189.0);
}

#[test]
fn buffers_outlive_the_emulator() {
    buffers_outlive(EmulatedDevice::new());
}

#[cfg(feature = "cuda")]
#[test]
fn buffers_outlive_the_gpu() {
    on_gpu("buffers_outlive_the_gpu", buffers_outlive);
}

/// `sum ← 2·(x + y)` with a temporary between.
fn two_step_plan(count: usize) -> Plan {
    let mut builder = Plan::builder("double the sum");
    let n = i32::try_from(count).unwrap();
    let x = builder.input("x", DType::Fp32, count);
    let y = builder.input("y", DType::Fp32, count);
    let sum = builder.output("sum", DType::Fp32, count);
    let zero = builder.temporary("between", DType::Fp32, count);
    builder.may_alias(x, sum);
    builder
        .launch(&vector_add(), "vector_add", &[x.into(), y.into(), zero.into(), n.into()])
        .unwrap()
        .launch(&scale(), "scale", &[2.0f32.into(), zero.into(), n.into(), 0.0f64.into()])
        .unwrap()
        .launch(&vector_add(), "vector_add", &[y.into(), y.into(), sum.into(), n.into()])
        .unwrap()
        .launch(&scale(), "scale", &[0.0f32.into(), sum.into(), n.into(), 0.0f64.into()])
        .unwrap()
        .launch(&vector_add(), "vector_add", &[zero.into(), sum.into(), sum.into(), n.into()])
        .unwrap();
    builder.build()
}

fn plans_run_and_show_themselves(device: &dyn Device) {
    let plan = two_step_plan(100);
    let after: Vec<&[usize]> = plan.launches().iter().map(|launch| launch.after.as_slice()).collect();
    // The third writes `sum`, which may be `x`, which the first reads.
    assert_eq!(after, [&[][..], &[0], &[0], &[2], &[1, 3]]);
    let table = plan.to_string();
    for part in ["plan double the sum", "temporary between: 100 × fp32", "vector_add  2×1×1  64×1×1", "1,3"] {
        assert!(table.contains(part), "{table}");
    }
    let (x, y) = (upload(device, &numbers(100)), upload(device, &[1.0f32; 100]));
    let mut sum = Buffer::<f32>::uninit(device, 100, "sum").unwrap();
    let expected: Vec<f32> = numbers(100).iter().map(|x| 2.0 * (x + 1.0)).collect();
    for _ in 0..2 {
        device.run(&plan, &[(&x).into(), (&y).into(), (&mut sum).into()]).unwrap();
        assert_eq!(sum.to_vec().unwrap(), expected);
    }
    // In place, which the plan allows for x and sum.
    let mut x = x;
    device.run(&plan, &[(&x.view(..).unwrap()).into(), (&y).into(), (&mut x).into()]).unwrap();
    assert_eq!(x.to_vec().unwrap(), expected);
}

fn plans_refuse_wrong_bindings(device: &dyn Device) {
    let plan = two_step_plan(100);
    let memory = upload(device, &[0.0f32; 400]);
    let part = |first: usize, count: usize| memory.view(first..first + count).unwrap();
    let (x, y, mut sum) = (part(0, 100), part(100, 100), part(200, 100));
    let run = |args: &[Arg]| device.run(&plan, args);
    let out = Arg::from(&mut sum);
    refused(run(&[(&x).into(), (&y).into()]), &["plan double the sum", "2 buffer(s)", "3 expected", "x, y, sum"]);
    refused(run(&[(&part(0, 99)).into(), (&y).into(), out.clone()]), &["buffer `x`", "99 element(s)", "at least 100"]);
    refused(run(&[(&x).into(), (&y).into(), (&sum).into()]), &["buffer `sum`", "an input", "writes it"]);
    refused(run(&[(&x).into(), 1.5f32.into(), out.clone()]), &["buffer `y`", "the value 1.5"]);
    let whole = upload(device, &[1i32; 100]);
    refused(run(&[(&whole).into(), (&y).into(), out.clone()]), &["buffer `x`", "i32", "fp32 is needed"]);
    refused(run(&[(&x).into(), (&part(150, 100)).into(), out.clone()]), &["`sum`", "overlaps `y`", "apart"]);
    refused(run(&[(&part(104, 100)).into(), (&y).into(), out.clone()]), &["`sum`", "overlaps `x`", "same memory"]);
    // Inputs may share memory.
    run(&[(&x).into(), (&x).into(), out]).unwrap();
    let mut builder = Plan::builder("bad");
    let x = builder.input("x", DType::Fp32, 10);
    let args = [x.into(), x.into(), x.into(), Scalar::I32(10).into()];
    refused(
        builder.launch(&vector_add(), "vector_add", &args).map(drop),
        &["parameter `z`", "an input buffer", "writes it"],
    );
}

fn a_capture_replays(device: &dyn Device) {
    let plan = two_step_plan(100);
    let (mut x, y) = (upload(device, &numbers(100)), upload(device, &[1.0f32; 100]));
    let mut sum = upload(device, &[5.0f32; 100]);
    let mut capture = device.capture(&plan, &[(&x).into(), (&y).into(), (&mut sum).into()]).unwrap();
    assert_eq!(sum.to_vec().unwrap(), [5.0; 100], "a capture runs nothing");
    // Other work of the same device, between the capture and its replays.
    let kernel = load(device, &scale());
    let mut other = upload(device, &[1.0f32; 100]);
    scale_by(device, &kernel, &mut other, 2.0, 0.0);
    capture.replay().unwrap();
    assert_eq!(sum.to_vec().unwrap(), numbers(100).iter().map(|x| 2.0 * (x + 1.0)).collect::<Vec<_>>());
    // The second replay sees what was written meanwhile; the handles may go, the capture keeps their memory.
    x.copy_in(&[10.0; 100]).unwrap();
    drop((x, y));
    capture.replay().unwrap();
    capture.replay().unwrap();
    drop(capture);
    assert_eq!(sum.to_vec().unwrap(), [22.0; 100]);
    assert_eq!(other.to_vec().unwrap(), [2.0; 100]);
}

fn an_empty_capture_replays(device: &dyn Device) {
    let mut capture = device.capture(&Plan::builder("nothing").build(), &[]).unwrap();
    capture.replay().unwrap();
    device.synchronize().unwrap();
}

fn a_module_is_loaded_once(device: &dyn Device) {
    // Two modules of the same text share what the device loaded: loading again must not cost a compilation.
    let first = device.load(&vector_add()).unwrap();
    let second = device.load(&vector_add()).unwrap();
    assert!(std::ptr::eq(first.kernel("vector_add").unwrap().meta(), second.kernel("vector_add").unwrap().meta()));
}

fn a_module_for_another_target_is_refused(device: &dyn Device) {
    let properties = device.properties();
    let foreign = Arch::ALL.into_iter().rev().find(|arch| !properties.runs(*arch)).unwrap();
    let grid = GridRule { x: Extent::Fixed(1), y: Extent::Fixed(1), z: Extent::Fixed(1) };
    let text = format!(
        ".version {}\n.target {foreign}\n.address_size 64\n.visible .entry nop()\n{{\n    ret;\n}}\n",
        foreign.ptx_version()
    );
    let module = module(foreign, &text, meta("nop", Vec::new(), grid, 1, 0));
    refused(
        device.load(&module),
        &[
            &format!("a module for {foreign} does not run on {}", properties.name),
            "emit it for",
            properties.arch.name(),
        ],
    );
}

fn broken_text_is_refused_with_a_log(device: &dyn Device) {
    // The driver's log names the line; so does the emulator.
    refused(device.load(&broken()), &["frobnicate", "7"]);
    // The device still works.
    round_trip(device, &[1.0f32]);
}

fn a_kernel_that_is_not_there_is_refused(device: &dyn Device) {
    refused(device.load(&vector_add()).unwrap().kernel("vector_sub"), &["`vector_sub`", "it has vector_add"]);
    // Metadata that names what the text has not.
    let mut kernel = vector_add().only_kernel().unwrap().clone();
    kernel.name = "vector_sub".to_owned();
    let module = module(Arch::Sm80, &vector_add().module().ptx, kernel);
    assert!(device.load(&module).is_err());
}

fn large_dynamic_shared_memory_works(device: &dyn Device) {
    let most = u32::try_from(device.properties().max_shared_bytes).unwrap();
    // The card's limit holds, whatever the module's target.
    let native = device.properties().arch;
    for (arch, shared) in [(native, 49 * 1024), (Arch::Sm80, 96 * 1024), (native, most), (Arch::Sm80, most)] {
        let kernel = load(device, &reverse_through_shared(arch, shared));
        let x = upload(device, &(0..32).collect::<Vec<i32>>());
        let mut out = Buffer::<i32>::zeroed(device, 32, "out").unwrap();
        device.launch(&kernel, [1, 1, 1], &[(&x).into(), (&mut out).into()]).unwrap();
        assert_eq!(out.to_vec().unwrap(), (0..32).rev().collect::<Vec<i32>>(), "{shared} bytes, {arch}");
    }
}

fn too_much_shared_memory_is_refused(device: &dyn Device) {
    let most = device.properties().max_shared_bytes;
    let module = reverse_through_shared(device.properties().arch, u32::try_from(most).unwrap() + 128);
    refused(
        device.load(&module),
        &["kernel reverse", &(most + 128).to_string(), "bytes of shared memory", &most.to_string()],
    );
    let mut kernel = vector_add().only_kernel().unwrap().clone();
    kernel.num_warps = 33;
    let module = self::module(Arch::Sm80, &vector_add().module().ptx, kernel);
    refused(device.load(&module), &["kernel vector_add", "1056 threads per CTA", "1024"]);
}

fn threads_share_a_device(device: &dyn Device) {
    let kernel = load(device, &scale());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let kernel = &kernel;
            scope.spawn(move || {
                let mut x = upload(device, &vec![thread as f32; 256]);
                for _ in 0..10 {
                    scale_by(device, kernel, &mut x, 2.0, 0.0);
                }
                assert_eq!(x.to_vec().unwrap(), vec![1024.0 * thread as f32; 256]);
            });
        }
    });
}

fn time_is_measured(device: &dyn Device) {
    let kernel = load(device, &scale());
    let mut x = upload(device, &vec![1.0f32; 1 << 12]);
    let time = device
        .time(&mut || {
            scale_by(device, &kernel, &mut x, 2.0, 0.0);
            Ok(())
        })
        .unwrap();
    assert!(time > Duration::ZERO && time < Duration::from_secs(60), "{time:?}");
    assert_eq!(x.to_vec().unwrap(), vec![2.0; 1 << 12]);
    refused(device.time(&mut || Err(Error::UnknownDevice("x".to_owned()))), &["`x`"]);
}

fn foreign_memory_and_kernels_are_refused(device: &dyn Device) {
    let other = EmulatedDevice::new();
    let (kernel, foreign_kernel) = (load(device, &scale()), load(&other, &scale()));
    let (mut x, mut foreign) = (upload(device, &numbers(4)), upload(&other, &numbers(4)));
    let args = |x: &mut Buffer<f32>| [2.0f32.into(), x.into(), 4.into(), 0.0f64.into()];
    let (here, there) = (device.properties().id.to_string(), other.properties().id.to_string());
    refused(device.launch(&kernel, [1, 1, 1], &args(&mut foreign)), &["parameter `x`", &there, &here]);
    refused(device.launch(&foreign_kernel, [1, 1, 1], &args(&mut x)), &["kernel scale", &there, &here]);
    refused(x.copy_from(&foreign), &["buffer `values` is on", &there, &here]);
    let plan = two_step_plan(4);
    let y = upload(device, &numbers(4));
    refused(
        device.run(&plan, &[(&x.view(..).unwrap()).into(), (&y).into(), (&mut foreign).into()]),
        &["`sum`", &there],
    );
    assert_eq!(x.to_vec().unwrap(), numbers(4));
    assert_eq!(foreign.to_vec().unwrap(), numbers(4));
}

/// What a kernel does wrong on the emulator is the error of its launch, in the emulator's words.
#[test]
fn the_emulator_reports_faults() {
    let device = EmulatedDevice::new();
    let kernel = load(&device, &scale());
    let launch = |x: &mut Buffer<f32>, n: i32| {
        let args = [2.0f32.into(), x.into(), n.into(), 0.0f64.into()];
        device.launch(&kernel, kernel.grid(&args)?, &args)
    };
    let mut x = upload(&device, &numbers(40));
    refused(launch(&mut x, 41), &["out of bounds", "scale", "line 30", "`values`"]);
    let mut unwritten = Buffer::uninit(&device, 40, "unwritten").unwrap();
    refused(launch(&mut unwritten, 40), &["scale", "`unwritten`"]);
    let unchecked = EmulatedDevice::builder().checks(false).build();
    let mut unwritten = Buffer::uninit(&unchecked, 40, "unwritten").unwrap();
    scale_by(&unchecked, &load(&unchecked, &scale()), &mut unwritten, 2.0, 0.0);
    // A fault leaves the device usable.
    launch(&mut x, 0).unwrap();
    x.copy_in(&numbers(40)).unwrap();
    launch(&mut x, 40).unwrap();
    assert_eq!(x.to_vec().unwrap()[39], 78.0);
    let small = EmulatedDevice::builder().memory_bytes(1 << 20).max_steps(5).build();
    refused(Buffer::<u8>::uninit(&small, 1 << 21, "large"), &["large"]);
    let mut x = upload(&small, &numbers(4));
    let args = [2.0f32.into(), (&mut x).into(), 4.into(), 0.0f64.into()];
    refused(small.launch(&load(&small, &scale()), [1, 1, 1], &args), &["5"]);
}

/// Memory of another owner, by its address.
#[cfg(feature = "cuda")]
#[test]
fn the_gpu_borrows_memory() {
    on_gpu("the_gpu_borrows_memory", |gpu| {
        let owner = upload(&gpu, &numbers(64));
        // SAFETY: `owner` outlives the borrow, on the same stream.
        let mut borrowed = unsafe { gpu.borrow::<f32>(owner.address() + 128, 32, "borrowed") }.unwrap();
        let kernel = load(&gpu, &scale());
        scale_by(&gpu, &kernel, &mut borrowed, 2.0, 0.0);
        drop(borrowed);
        let expected: Vec<f32> = (0..64).map(|i| if i < 32 { i as f32 } else { 2.0 * i as f32 }).collect();
        assert_eq!(owner.to_vec().unwrap(), expected);
        // SAFETY: refused before anything is done with the address.
        refused(unsafe { gpu.borrow::<f32>(owner.address() + 2, 1, "odd") }, &["a multiple of 4"]);
    });
}

/// The legacy default stream of the driver, which other libraries use.
#[cfg(feature = "cuda")]
#[test]
fn the_gpu_takes_the_default_stream() {
    on_gpu("the_gpu_takes_the_default_stream", |_| {
        // SAFETY: the null stream is always there.
        let gpu = unsafe { tilewright::device::GpuDevice::on_stream(0, std::ptr::null_mut()) }.unwrap();
        work_is_done_in_order(&gpu);
        a_capture_replays(&gpu);
    });
}

#[cfg(feature = "cuda")]
#[test]
fn an_ordinal_that_is_not_there_is_a_plain_error() {
    let message = tilewright::device::GpuDevice::open(4096).unwrap_err().to_string();
    assert!(message.starts_with("no GPU"), "{message}");
    match tilewright::device::GpuDevice::count() {
        Ok(count) => assert!(message.contains(&format!("sees {count} device(s)")), "{message}"),
        Err(error) => assert_eq!(error.to_string(), message),
    }
}

#[test]
fn devices_have_names() {
    let (device, why) = tilewright::device::by_name("emulator").unwrap();
    assert_eq!((device.properties().name.as_str(), why.as_str()), ("emulator of sm_90a", "the emulator was asked for"));
    refused(tilewright::device::by_name("tpu").map(drop), &["`tpu`", "auto, gpu or emulator"]);
    let (device, why) = tilewright::device::by_name("auto").unwrap();
    match device.properties().kind {
        tilewright::device::Kind::Gpu => assert!(why.contains(&device.properties().name), "{why}"),
        tilewright::device::Kind::Emulator => assert!(why.starts_with("using the emulator: no GPU"), "{why}"),
    }
}
