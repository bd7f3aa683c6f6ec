//! Functions that the compiler has of its own (`doubles.ll`, `functions.ll`, `library.ll`, `powers.ll`), on the emulator, beside `libm`: the edges of the type, each with
//! each where there are two operands, random bits, and numbers of ordinary size. Beside Triton's they are in `conformance` (`functions.py`).
#![cfg(feature = "llvm")]

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;
use tilewright::compile::{Options, compile};
use tilewright::emulate::{Kernel, LaunchConfig, Memory, Options as EmulateOptions, launch};
use tilewright::ptx::Arch;
use tilewright::ttir;

/// What a function should be, in doubles.
#[derive(Clone, Copy)]
enum Reference {
    One(fn(f64) -> f64),
    Two(fn(f64, f64) -> f64),
}

use Reference::{One, Two};

/// Elements of a program: one for each thread.
const WIDTH: usize = 128;

/// Doubles: the operation, and how many places ours and `libm`'s may be apart, each being within one or two of the function.
const DOUBLES: &[(&str, u64, Reference)] = &[
    ("math.exp", 2, One(libm::exp)),
    ("math.exp2", 2, One(libm::exp2)),
    ("math.log", 2, One(libm::log)),
    ("math.log2", 2, One(libm::log2)),
    ("math.sin", 2, One(libm::sin)),
    ("math.cos", 2, One(libm::cos)),
    ("math.erf", 2, One(libm::erf)),
];

/// Singles: libdevice's name, and how many places ours may be from the rounded double. 0: exact.
const SINGLES: &[(&str, u64, Reference)] = &[
    ("sinf", 2, One(libm::sin)),
    ("cosf", 2, One(libm::cos)),
    ("tanf", 3, One(libm::tan)),
    ("sinpif", 2, One(sin_pi)),
    ("cospif", 2, One(|x| sin_pi(0.5 - (x % 2.0).abs()))),
    ("asinf", 2, One(libm::asin)),
    ("acosf", 2, One(libm::acos)),
    ("atanf", 2, One(libm::atan)),
    ("atan2f", 2, Two(libm::atan2)),
    ("sinhf", 2, One(libm::sinh)),
    ("coshf", 2, One(libm::cosh)),
    ("tanhf", 2, One(libm::tanh)),
    ("asinhf", 1, One(libm::asinh)),
    // `libm`'s has other values where there is none.
    ("acoshf", 1, One(|x| if x < 1.0 { f64::NAN } else { libm::acosh(x) })),
    ("atanhf", 1, One(libm::atanh)),
    ("expf", 2, One(libm::exp)),
    ("exp10f", 2, One(libm::exp10)),
    ("expm1f", 2, One(libm::expm1)),
    ("logf", 2, One(libm::log)),
    ("log2f", 2, One(libm::log2)),
    ("log10f", 2, One(libm::log10)),
    ("log1pf", 2, One(libm::log1p)),
    ("powf", 1, Two(libm::pow)),
    ("erff", 2, One(libm::erf)),
    ("erfcf", 1, One(libm::erfc)),
    ("normcdff", 1, One(|x| libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) / 2.0)),
    ("cbrtf", 1, One(libm::cbrt)),
    ("rcbrtf", 1, One(|x| 1.0 / libm::cbrt(x))),
    ("hypotf", 1, Two(libm::hypot)),
    ("rhypotf", 1, Two(|x, y| 1.0 / libm::hypot(x, y))),
    ("fmodf", 0, Two(libm::fmod)),
    ("remainderf", 0, Two(libm::remainder)),
    ("fdimf", 0, Two(|x, y| f64::from(libm::fdimf(x as f32, y as f32)))),
    ("nextafterf", 0, Two(|x, y| f64::from(libm::nextafterf(x as f32, y as f32)))),
    ("logbf", 0, One(logb)),
];

fn sin_pi(x: f64) -> f64 {
    let within = x % 2.0;
    // Quarter turns are exact, and so is what is left.
    let turns = (2.0 * within).round();
    let angle = (within - turns / 2.0) * std::f64::consts::PI;
    match turns.rem_euclid(4.0) {
        0.0 => libm::sin(angle),
        1.0 => libm::cos(angle),
        2.0 => -libm::sin(angle),
        3.0 => -libm::cos(angle),
        _ => f64::NAN,
    }
}

fn logb(x: f64) -> f64 {
    match x {
        0.0 => f64::NEG_INFINITY,
        x if x.is_infinite() => f64::INFINITY,
        x if x.is_nan() => x,
        x => f64::from((x.to_bits() >> 52 & 0x7ff) as i32 - 1023),
    }
}

/// The kernel that puts `operation` of two buffers into a third.
fn kernel(operation: &str, ty: &str, two: bool) -> String {
    let tile = format!("tensor<{WIDTH}x{ty}>");
    let made = if operation.contains('.') {
        format!("{operation} %x : {tile}")
    } else {
        let (operands, types) = if two { ("%x, %y", format!("{tile}, {tile}")) } else { ("%x", tile.clone()) };
        format!(
            "tt.extern_elementwise {operands} {{libname = \"\", libpath = \"\", pure = true, symbol = \"__nv_{operation}\"}} : \
             ({types}) -> {tile}"
        )
    };
    let pointers = format!("tensor<{WIDTH}x!tt.ptr<{ty}>>");
    let at = |name: &str, base: &str| {
        format!(
            "%{name}s = tt.splat %{base} : !tt.ptr<{ty}> -> {pointers}\n\
             %{name} = tt.addptr %{name}s, %at : {pointers}, tensor<{WIDTH}xi32>\n"
        )
    };
    format!(
        "module {{
           tt.func public @k(%a: !tt.ptr<{ty}>, %b: !tt.ptr<{ty}>, %o: !tt.ptr<{ty}>) {{
             %program = tt.get_program_id x : i32
             %width = arith.constant {WIDTH} : i32
             %first = arith.muli %program, %width : i32
             %firsts = tt.splat %first : i32 -> tensor<{WIDTH}xi32>
             %range = tt.make_range {{start = 0 : i32, end = {WIDTH} : i32}} : tensor<{WIDTH}xi32>
             %at = arith.addi %firsts, %range : tensor<{WIDTH}xi32>
             {}{}{}%x = tt.load %pa : {pointers}
             %y = tt.load %pb : {pointers}
             %z = {made}
             tt.store %po, %z : {pointers}
             tt.return
           }}
         }}",
        at("pa", "a"),
        at("pb", "b"),
        at("po", "o")
    )
}

/// A float type: its size in bytes, and its bits as a double and back.
struct Float {
    name: &'static str,
    bytes: usize,
    mantissa: u32,
    value: fn(u64) -> f64,
    bits: fn(f64) -> u64,
}

const F32: Float = Float {
    name: "f32",
    bytes: 4,
    mantissa: 23,
    value: |bits| f32::from_bits(bits as u32).into(),
    bits: |value| (value as f32).to_bits().into(),
};
const F64: Float = Float { name: "f64", bytes: 8, mantissa: 52, value: f64::from_bits, bits: f64::to_bits };

impl Float {
    /// Zero, subnormals, the least normal, one and its neighbours, whole numbers and halves, the largest, infinity and NaN, of each sign; multiples of a
    /// quarter turn; numbers about which the functions overflow or vanish.
    fn edges(&self) -> Vec<u64> {
        let sign = 1 << (8 * self.bytes - 1);
        let infinity = (sign - 1) >> self.mantissa << self.mantissa;
        let least = 1 << self.mantissa;
        let one = (self.bits)(1.0);
        let mut all =
            vec![0, 1, least - 1, least, one - 1, one, one + 1, infinity - 1, infinity, infinity | least >> 1];
        let numbers = [
            0.5, 1.5, 2.0, 3.0, 4.0, 7.0, 10.0, 0.1, 1e-4, 1e-5, 1e-9, 1e4, 1e5, 1e6, 1e7, 1e10, 1e15, 1e20, 1e30,
            38.0, 39.0, 44.9, 45.1, 88.0, 88.7, 88.8, 89.3, 89.5, 103.0, 104.0, 126.0, 127.0, 128.0, 149.0, 150.0,
            5.92, 5.94, 9.3, 10.05, 10.3, 307.0, 308.5, 323.0, 324.0, 709.7, 709.8, 745.0, 746.0, 1023.0, 1024.0,
            1074.0, 1075.0, 105615.0, 105616.0, 1048576.0, 1048577.0, 8388609.0, 16777215.0,
        ];
        all.extend(numbers.map(self.bits));
        all.extend((1..40).map(|turns| (self.bits)(f64::from(turns) * std::f64::consts::FRAC_PI_2)));
        all.iter().flat_map(|&edge| [edge, edge | sign]).collect()
    }

    /// Operands, a multiple of a program's width of them.
    fn operands(&self, two: bool) -> Vec<(u64, u64)> {
        let mut random = StdRng::seed_from_u64(7);
        let edges = self.edges();
        let mut all: Vec<(u64, u64)> = match two {
            true => edges.iter().flat_map(|&x| edges.iter().map(move |&y| (x, y))).step_by(3).collect(),
            false => edges.iter().map(|&x| (x, 0)).collect(),
        };
        let ends = all.len() + 3000;
        while all.len() < ends || !all.len().is_multiple_of(WIDTH) {
            let mut number = || match random.random_range(0..3) {
                0 => random.random::<u64>() & (u64::MAX >> (64 - 8 * self.bytes)),
                1 => (self.bits)(random.random_range(-12.0..12.0)),
                _ => (self.bits)(random.random_range(-1.0..1.0) * random.random_range(-60.0_f64..10.0).exp2()),
            };
            all.push((number(), number()));
        }
        all
    }

    /// The place in the order of the type: neighbours differ by one, and −0 is 0.
    fn place(&self, bits: u64) -> i128 {
        let sign = 1 << (8 * self.bytes - 1);
        if bits & sign == 0 { i128::from(bits) } else { -i128::from(bits & !sign) }
    }

    fn run(&self, operation: &str, operands: &[(u64, u64)], two: bool, arch: Arch) -> Vec<u64> {
        let program = ttir::read(&kernel(operation, self.name, two)).unwrap();
        let made =
            compile(&program.funcs[0], &Options::new(arch)).unwrap_or_else(|error| panic!("{operation}: {error}"));
        let kernel = Kernel::new(&made.ptx, None).unwrap_or_else(|error| panic!("{operation}: {error}"));
        let memory = Memory::new();
        let bytes = |bits: u64| bits.to_le_bytes().into_iter().take(self.bytes);
        let data: [Vec<u8>; 3] = [
            operands.iter().flat_map(|pair| bytes(pair.0)).collect(),
            operands.iter().flat_map(|pair| bytes(pair.1)).collect(),
            vec![0xa5; operands.len() * self.bytes],
        ];
        let addresses = data.map(|data| {
            let address = memory.alloc(data.len() as u64, "argument").unwrap();
            memory.write(address, &data).unwrap();
            address
        });
        let mut params: Vec<u8> = addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
        // Triton's two scratch pointers, null.
        params.resize(params.len() + 16, 0);
        let grid = [(operands.len() / WIDTH) as u32, 1, 1];
        let config = LaunchConfig { grid, block: kernel.required_block().unwrap(), ..LaunchConfig::default() };
        launch(&kernel, &config, &params, &memory, &EmulateOptions::default()).unwrap();
        let mut out = vec![0; operands.len() * self.bytes];
        memory.read(addresses[2], &mut out).unwrap();
        out.chunks(self.bytes)
            .map(|chunk| chunk.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte)))
            .collect()
    }

    /// What is wrong with `operation`, the worst of it.
    fn fault(&self, operation: &str, most: u64, reference: Reference, arch: Arch) -> Option<String> {
        let two = matches!(reference, Two(_));
        let operands = self.operands(two);
        let made = self.run(operation, &operands, two, arch);
        let distance = |&(index, bits): &(usize, &u64)| {
            let (x, y) = ((self.value)(operands[index].0), (self.value)(operands[index].1));
            let exact = match reference {
                One(function) => function(x),
                Two(function) => function(x, y),
            };
            let found = (self.value)(*bits);
            let apart = match (found.is_nan(), exact.is_nan()) {
                (true, true) => 0,
                (false, false) => (self.place(*bits) - self.place((self.bits)(exact))).unsigned_abs(),
                _ => u128::MAX,
            };
            (apart, format!("{operation}({x:e}, {y:e}) is {found:e}, and should be {exact:e}"))
        };
        let wrong: Vec<_> =
            made.iter().enumerate().map(|pair| distance(&pair)).filter(|pair| pair.0 > most.into()).collect();
        let count = wrong.len();
        wrong.into_iter().max().map(|(_, text)| format!("{text}; {count} of {} are wrong", made.len()))
    }
}

fn hold(float: &Float, table: &[(&str, u64, Reference)], arch: Arch) {
    let faults: Vec<String> =
        table.par_iter().filter_map(|&(name, most, reference)| float.fault(name, most, reference, arch)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn functions_of_doubles_are_near_the_function() {
    hold(&F64, DOUBLES, Arch::Sm90a);
}

#[test]
fn functions_of_singles_are_near_the_function() {
    hold(&F32, SINGLES, Arch::Sm90a);
}

/// The same code for other targets: the oldest, and the newest.
#[test]
fn functions_are_the_same_for_every_target() {
    for arch in [Arch::Sm80, Arch::Sm100a] {
        hold(&F64, &DOUBLES[..5], arch);
        hold(&F32, &SINGLES[..5], arch);
    }
}
