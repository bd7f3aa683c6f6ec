//! `sort`, `topk` and `flip` of the builder, compiled and run on the emulator, beside Rust's own.
#![cfg(feature = "llvm")]

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tilewright::compile::{Options, compile};
use tilewright::emulate::{Kernel, LaunchConfig, Memory, Options as EmulateOptions, launch};
use tilewright::ptx::Arch;
use tilewright::tile::build::{KernelBuilder, Tile};
use tilewright::tile::{Scalar, Shape, float_bits, float_value, int_bits, int_value, simplify};

/// What is done to the tile.
#[derive(Clone, Copy, Debug)]
enum Action {
    Sort { descending: bool },
    Topk(u32),
    Flip(usize),
}

impl Action {
    fn build(self, tile: Tile<'_>) -> Tile<'_> {
        match self {
            Action::Sort { descending } => tile.sort(descending),
            Action::Topk(k) => tile.topk(k),
            Action::Flip(axis) => tile.flip(axis),
        }
    }

    /// The same of the elements in row-major order.
    fn oracle(self, data: &[f64], dims: &[u32]) -> Vec<f64> {
        let last = *dims.last().unwrap() as usize;
        match self {
            Action::Sort { descending } => rows(data, last, last, descending),
            Action::Topk(k) => rows(data, last, k as usize, true),
            Action::Flip(axis) => {
                let inner: usize = dims[axis + 1..].iter().map(|&extent| extent as usize).product();
                let extent = dims[axis] as usize;
                let place = |at: usize| {
                    let along = at / inner % extent;
                    at - along * inner + (extent - 1 - along) * inner
                };
                (0..data.len()).map(|at| data[place(at)]).collect()
            }
        }
    }
}

fn rows(data: &[f64], length: usize, kept: usize, descending: bool) -> Vec<f64> {
    data.chunks(length)
        .flat_map(|row| {
            let mut row = row.to_vec();
            row.sort_by(f64::total_cmp);
            if descending {
                row.reverse();
            }
            row.truncate(kept);
            row
        })
        .collect()
}

/// Where each element of a tile of `dims` is in memory, row after row.
fn places<'k>(k: &'k KernelBuilder, dims: &[u32]) -> Tile<'k> {
    k.arange(0, dims.iter().product::<u32>() as i32).reshape(dims)
}

fn check(action: Action, dims: &[u32], scalar: Scalar, warps: u32) {
    let name = format!("{action:?} of {}x{scalar} by {warps} warps", Shape::new(dims).unwrap());
    let mut random = StdRng::seed_from_u64(3);
    let count = dims.iter().product::<u32>() as usize;
    // Some are equal; all are made exact in the type.
    let mut value = || match random.random_range(0..8) {
        0 if scalar.is_float() => [f64::INFINITY, f64::NEG_INFINITY, 0.5][random.random_range(0..3)],
        _ => f64::from(random.random_range(-100_i32..100)),
    };
    let exact = |value: f64| float_bits(scalar, value).and_then(|bits| float_value(scalar, bits)).unwrap_or(value);
    let data: Vec<f64> = (0..count).map(|_| exact(value())).collect();
    let expected = action.oracle(&data, dims);

    let k = KernelBuilder::new("ordered");
    let (from, to) = (k.pointer("from", scalar), k.pointer("to", scalar));
    let made = action.build(k.load(from + places(&k, dims)));
    let made_dims = made.ty().unwrap().shape().unwrap().dims().to_vec();
    assert_eq!(made.ty().unwrap().number(), Some(scalar), "{name}");
    k.store(to + places(&k, &made_dims), made);
    let mut func = k.finish().unwrap_or_else(|error| panic!("{name}: {error}"));
    simplify::simplify(&mut func);

    let options = Options { num_warps: warps, ..Options::new(Arch::Sm90a) };
    let compiled = compile(&func, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
    let kernel = Kernel::new(&compiled.ptx, None).unwrap();
    let memory = Memory::new();
    let bytes = scalar.bytes() as usize;
    let bits = |value: f64| float_bits(scalar, value).unwrap_or_else(|| int_bits(scalar, value as i64));
    let input: Vec<u8> = data.iter().flat_map(|&value| bits(value).to_le_bytes().into_iter().take(bytes)).collect();
    let source = memory.alloc(input.len() as u64, "from").unwrap();
    memory.write(source, &input).unwrap();
    let target = memory.alloc((expected.len() * bytes) as u64, "to").unwrap();
    let mut params: Vec<u8> = [source, target].iter().flat_map(|address| address.to_le_bytes()).collect();
    // Triton's two scratch pointers, null.
    params.resize(32, 0);
    let config = LaunchConfig {
        grid: [1, 1, 1],
        block: kernel.required_block().unwrap(),
        dynamic_shared: compiled.meta.shared,
        ..LaunchConfig::default()
    };
    launch(&kernel, &config, &params, &memory, &EmulateOptions::default())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut output = vec![0; expected.len() * bytes];
    memory.read(target, &mut output).unwrap();
    let read = |chunk: &[u8]| {
        let bits = chunk.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
        float_value(scalar, bits).unwrap_or_else(|| int_value(scalar, bits) as f64)
    };
    assert_eq!(output.chunks(bytes).map(read).collect::<Vec<_>>(), expected, "{name}");
}

#[test]
fn rows_are_sorted() {
    for descending in [false, true] {
        let sort = Action::Sort { descending };
        for (dims, warps) in [
            (&[1][..], 1),
            (&[2], 1),
            (&[64], 1),
            (&[512], 4),
            (&[8, 32], 4),
            (&[64, 2], 2),
            (&[4, 2, 16], 2),
            (&[8, 1], 1),
        ] {
            check(sort, dims, Scalar::F32, warps);
        }
        for scalar in [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64, Scalar::F16, Scalar::Bf16, Scalar::F64] {
            check(sort, &[4, 64], scalar, 2);
        }
    }
}

#[test]
fn the_largest_are_found() {
    for (dims, k) in
        [(&[64][..], 1), (&[64], 8), (&[64], 64), (&[16, 128], 4), (&[2, 8, 8], 2), (&[2], 1), (&[1], 1), (&[8, 2], 1)]
    {
        check(Action::Topk(k), dims, Scalar::F32, 4);
    }
    for scalar in [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64, Scalar::F16, Scalar::Bf16, Scalar::F64] {
        check(Action::Topk(4), &[4, 64], scalar, 2);
    }
}

#[test]
fn axes_are_turned_round() {
    for (dims, axis) in
        [(&[256][..], 0), (&[16, 8], 0), (&[16, 8], 1), (&[4, 8, 2], 1), (&[1], 0), (&[4, 1], 1), (&[1, 4], 0)]
    {
        check(Action::Flip(axis), dims, Scalar::F32, 2);
    }
    for scalar in [Scalar::I8, Scalar::I16, Scalar::I64, Scalar::F16, Scalar::Bf16, Scalar::F64, Scalar::F8E5M2] {
        check(Action::Flip(1), &[4, 64], scalar, 4);
    }
}

#[test]
fn mistakes_are_named() {
    type Wrong = (fn(Tile<'_>) -> Tile<'_>, &'static str);
    let wrong: [Wrong; 5] = [
        (|tile| tile.topk(3), "3 of 64 elements: a power of two of them"),
        (|tile| tile.topk(128), "128 of 64 elements"),
        (|tile| tile.flip(1), "there is no axis 1"),
        (|tile| tile.to(Scalar::I1).sort(true), "truth values and FP8 have no order here"),
        (|tile| tile.sum(0).sort(true), "a tile is needed"),
    ];
    for (build, message) in wrong {
        let k = KernelBuilder::new("wrong");
        let to = k.pointer("to", Scalar::I32);
        k.store(to + k.arange(0, 64), build(k.arange(0, 64)));
        let error = k.finish().unwrap_err().to_string();
        assert!(error.contains(message) && error.contains("sort.rs:"), "{error}");
    }
}
