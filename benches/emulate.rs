//! The emulator's speed in warp instructions: a kernel that lives in registers and one that lives in shared memory, with
//! all checks and with those alone that always run.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tilewright::emulate::{Kernel, LaunchConfig, Memory, Options, launch};
use tilewright::ptx::{Arch, Extent, Module};
use tilewright::template::{PotrfBlock, PotrfWarp};

/// Diagonally dominant matrices, in an emulated memory, with the parameter block that factors them in place.
struct Batch {
    kernel: Kernel,
    config: LaunchConfig,
    memory: Memory,
    params: Vec<u8>,
    input: Vec<u8>,
    address: u64,
}

impl Batch {
    fn new(module: &Module, n: usize, batch: usize) -> Self {
        let meta = &module.meta.kernels[0];
        let fault = |error: tilewright::emulate::Error| -> ! { panic!("{error}") };
        let kernel = Kernel::new(&module.ptx, None).unwrap_or_else(|error| fault(error));
        let entry = |index: usize| {
            let (i, j) = (index / n % n, index % n);
            if i == j { n as f32 } else { 1.0 / (1.0 + i.abs_diff(j) as f32) }
        };
        let input: Vec<u8> = (0..batch * n * n).flat_map(|index| entry(index).to_le_bytes()).collect();
        let memory = Memory::new();
        let address = memory.alloc(input.len() as u64, "a").unwrap_or_else(|error| fault(error));
        let info = memory.alloc(4 * batch as u64, "info").unwrap_or_else(|error| fault(error));
        let mut params = Vec::new();
        for word in [address, address, info, (n * n) as u64, (n * n) as u64] {
            params.extend(word.to_le_bytes());
        }
        for word in [n, n, batch] {
            params.extend((word as u32).to_le_bytes());
        }
        let Extent::Ceil { by, .. } = meta.grid.x else { panic!("the kernel's grid follows its batch") };
        let config = LaunchConfig {
            grid: [(batch as u32).div_ceil(by), 1, 1],
            block: [32 * meta.num_warps, 1, 1],
            dynamic_shared: meta.shared,
            ..LaunchConfig::default()
        };
        Self { kernel, config, memory, params, input, address }
    }

    /// One launch on fresh input; the warp instructions that it took.
    fn run(&self, options: &Options) -> u64 {
        self.memory.write(self.address, &self.input).unwrap_or_else(|error| panic!("{error}"));
        launch(&self.kernel, &self.config, &self.params, &self.memory, options)
            .unwrap_or_else(|error| panic!("{error}"))
            .warp_instructions
    }
}

fn emulate(criterion: &mut Criterion) {
    let warp = PotrfWarp { n: 32, rank: 2, warps: 4 }.instantiate(Arch::Sm90a);
    let block = PotrfBlock { n: 128, block: 16, warps: 8 }.instantiate(Arch::Sm90a);
    let cases = [("registers: 256 of 32×32", warp, 32, 256), ("shared memory: 8 of 128×128", block, 128, 8)];
    for (name, module, n, count) in cases {
        let batch = Batch::new(&module.unwrap_or_else(|error| panic!("{error}")), n, count);
        let mut group = criterion.benchmark_group(name);
        for (checks, options) in [("all checks", Options::default()), ("unchecked", Options::unchecked())] {
            group.throughput(Throughput::Elements(batch.run(&options)));
            group.bench_function(checks, |bencher| bencher.iter(|| batch.run(&options)));
        }
        group.finish();
    }
}

criterion_group!(benches, emulate);
criterion_main!(benches);
