//! Triton's own PTX on the emulator, all checks on: every file decodes, and a few kernels run here; the rest is in
//! `triton_dumps`.
//!
//! The files are found through `TILEWRIGHT_TRITON_CORPUS`, or at `../shared/triton/dumps` beside the repository.

mod support;

use std::path::PathBuf;

use support::families::Family;
use support::oracle::factor_f64;
use tilewright::emulate::{Kernel, LaunchConfig, Memory, Options, launch};

fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("TILEWRIGHT_TRITON_CORPUS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/triton/dumps"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no Triton PTX at {}; set TILEWRIGHT_TRITON_CORPUS", folder.display());
    None
}

#[test]
fn every_file_decodes() {
    let Some(folder) = corpus() else { return };
    for arch in std::fs::read_dir(folder).unwrap() {
        for kernel in std::fs::read_dir(arch.unwrap().path()).unwrap() {
            let path = kernel.unwrap().path().join("kernel.ptx");
            let source = std::fs::read_to_string(&path).unwrap();
            if let Err(error) = Kernel::new(&source, None) {
                panic!("{}: {error}", path.display());
            }
        }
    }
}

struct Machine {
    memory: Memory,
    params: Vec<u8>,
}

impl Machine {
    fn new() -> Self {
        Self { memory: Memory::new(), params: Vec::new() }
    }

    fn buffer(&mut self, label: &str, values: &[f32]) -> u64 {
        let address = self.memory.alloc(4 * values.len() as u64, label).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.memory.write(address, &bytes).unwrap();
        self.params.extend(address.to_le_bytes());
        address
    }

    fn scalar(&mut self, value: u32) {
        self.params.extend(value.to_le_bytes());
    }

    /// Runs a kernel of the corpus; Triton's two scratch pointers, null here, come last.
    fn run(&mut self, file: &str, grid: [u32; 3], dynamic_shared: u32) {
        self.params.resize(self.params.len().next_multiple_of(8) + 16, 0);
        let path = corpus().unwrap().join(file).join("kernel.ptx");
        let kernel =
            Kernel::new(&std::fs::read_to_string(path).unwrap(), None).unwrap_or_else(|error| panic!("{error}"));
        let config =
            LaunchConfig { grid, block: kernel.required_block().unwrap(), dynamic_shared, ..LaunchConfig::default() };
        launch(&kernel, &config, &self.params, &self.memory, &Options::default())
            .unwrap_or_else(|fault| panic!("{file}: {fault}"));
    }

    fn read(&self, address: u64, count: usize) -> Vec<f32> {
        let mut bytes = vec![0; 4 * count];
        self.memory.read(address, &mut bytes).unwrap();
        bytes.chunks(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
    }
}

/// out = src − prod with strides and a mask (16 × 512 entries a CTA).
#[test]
fn block_move() {
    if corpus().is_none() {
        return;
    }
    let (rows, cols, stride_src, stride_out) = (48_usize, 1040, 1056, 1072);
    for (file, with_product) in [
        ("sm_90/exp061_block_move_kernel", true),
        ("sm_100/exp061_block_move_kernel", true),
        ("sm_90/exp061_block_move_kernel@noprod", false),
    ] {
        let mut machine = Machine::new();
        let source: Vec<f32> = (0..rows * stride_src).map(|index| index as f32).collect();
        let product: Vec<f32> = (0..rows * cols).map(|index| (index % 97) as f32 * 0.5).collect();
        machine.buffer("src", &source);
        machine.buffer("prod", &product);
        let out = machine.buffer("out", &vec![-1.0; rows * stride_out]);
        for value in [rows, cols, stride_src, stride_out] {
            machine.scalar(value as u32);
        }
        machine.run(file, [(rows as u32).div_ceil(16), (cols as u32).div_ceil(512), 1], 0);
        let out = machine.read(out, rows * stride_out);
        for (index, &found) in out.iter().enumerate() {
            let (i, j) = (index / stride_out, index % stride_out);
            let minus = if with_product { product.get(i * cols + j).copied().unwrap_or(0.0) } else { 0.0 };
            let expected = if j < cols { source[i * stride_src + j] - minus } else { -1.0 };
            assert_eq!(found, expected, "{file}: ({i}, {j})");
        }
    }
}

/// Zeros above the diagonal, by tiles of 128 of a 512 × 512 matrix.
#[test]
fn clear_upper_tiles() {
    if corpus().is_none() {
        return;
    }
    let n = 512;
    for file in ["sm_90/clear_upper_tiles", "sm_100/clear_upper_tiles"] {
        let mut machine = Machine::new();
        let out = machine.buffer("out", &vec![7.0; 2 * n * n]);
        machine.run(file, [10, 2, 1], 0);
        for (index, value) in machine.read(out, 2 * n * n).into_iter().enumerate() {
            let (i, j) = (index / n % n, index % n);
            assert_eq!(value, if j > i { 0.0 } else { 7.0 }, "{file}: ({i}, {j})");
        }
    }
}

/// A 64 × 64 diagonal block of a 2048 × 2048 matrix factored in place, with reductions through shared memory.
#[test]
fn diagonal_factor() {
    if corpus().is_none() {
        return;
    }
    let (n, k, block) = (2048_usize, 128_usize, 64_usize);
    let matrix = Family::Dense.matrix(block, 2, 3);
    let mut memory = vec![0.0_f32; n * n];
    for i in 0..block {
        memory[(k + i) * n + k..][..block].copy_from_slice(&matrix[i * block..][..block]);
    }
    let mut machine = Machine::new();
    let a = machine.buffer("a", &memory);
    machine.scalar(k as u32);
    machine.run("sm_90/diag_factor_8x2048", [1, 1, 1], 256);
    let out = machine.read(a, n * n);
    let exact = factor_f64(&matrix, block).unwrap();
    for (i, j) in (0..block).flat_map(|i| (0..=i).map(move |j| (i, j))) {
        let (found, expected) = (f64::from(out[(k + i) * n + k + j]), exact[i * block + j]);
        assert!((found - expected).abs() < 1e-4, "({i}, {j}): {found}, expected {expected}");
    }
}
