//! The emulator's speed in warp instructions: a kernel that lives in registers and one that lives in shared memory, with
//! all checks and with those alone that always run; and beside other emulators.

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

/// C = A·Bᵀ of 128³ in tf32 by `mma.sync`: 16 CTAs of two warps, each with 16 × 32 of C, operands from global memory.
fn product_source() -> String {
    let mut body = String::new();
    let n = 128;
    let mut line = |text: String| {
        body.push_str("    ");
        body.push_str(&text);
        body.push('\n');
    };
    for tile in 0..4 {
        for register in 0..4 {
            line(format!("mov.f32 %c{tile}{register}, 0f00000000;"));
        }
    }
    line("mov.u32 %k, 0;".into());
    line("$next:".into());
    for register in 0..4 {
        let at = 4 * (8 * n * (register % 2) + 4 * (register / 2));
        line(format!("ld.global.b32 %a{register}, [%x+{at}];"));
    }
    for tile in 0..4 {
        for register in 0..2 {
            line(format!("ld.global.b32 %b{register}, [%y+{}];", 4 * (8 * n * tile + 4 * register)));
        }
        let c: Vec<String> = (0..4).map(|register| format!("%c{tile}{register}")).collect();
        let c = c.join(", ");
        line(format!(
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{{c}}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{{c}}};"
        ));
    }
    line("add.u64 %x, %x, 32; add.u64 %y, %y, 32; add.u32 %k, %k, 8;".into());
    line(format!("setp.lt.u32 %p, %k, {n}; @%p bra $next;"));
    for tile in 0..4 {
        for register in 0..4 {
            let at = 4 * (8 * n * (register / 2) + 8 * tile + register % 2);
            line(format!("st.global.f32 [%z+{at}], %c{tile}{register};"));
        }
    }
    format!(
        ".version 7.0
.target sm_80
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 c) {{
    .reg .pred %p;
    .reg .b64 %x, %y, %z, %o;
    .reg .b32 %t, %g, %i, %w, %k, %r, %u<4>;
    .reg .f32 %c00, %c01, %c02, %c03, %c10, %c11, %c12, %c13, %c20, %c21, %c22, %c23, %c30, %c31, %c32, %c33;
    .reg .b32 %a<4>, %b<2>;
    ld.param.u64 %x, [a]; ld.param.u64 %y, [b]; ld.param.u64 %z, [c];
    mov.u32 %t, %tid.x; and.b32 %i, %t, 3; shr.u32 %g, %t, 2; and.b32 %g, %g, 7; shr.u32 %w, %t, 5;
    mov.u32 %u0, %ctaid.x; shr.u32 %u1, %u0, 2; shl.b32 %u1, %u1, 1; add.u32 %u1, %u1, %w; and.b32 %u2, %u0, 3;
    mad.lo.u32 %r, %u1, 16, %g; mad.lo.u32 %r, %r, {n}, %i; mad.wide.u32 %x, %r, 4, %x;
    mad.lo.u32 %r, %u2, 32, %g; mad.lo.u32 %r, %r, {n}, %i; mad.wide.u32 %y, %r, 4, %y;
    mad.lo.u32 %r, %u1, 16, %g; mul.lo.u32 %r, %r, {n}; mad.lo.u32 %r, %u2, 32, %r; mad.lo.u32 %r, %i, 2, %r;
    mad.wide.u32 %z, %r, 4, %z;
{body}    ret;
}}
"
    )
}

/// The matrix product, first against a plain one.
fn product(criterion: &mut Criterion) {
    let kernel = Kernel::new(&product_source(), None).unwrap_or_else(|error| panic!("{error}"));
    let memory = Memory::new();
    let n = 128_usize;
    // Small integers: sums are exact.
    let values = |step: usize| -> Vec<f32> { (0..n * n).map(|index| (index * step % 13) as f32 - 6.0).collect() };
    let operands = [values(5), values(7)];
    let mut params = Vec::new();
    let mut buffers = Vec::new();
    for index in 0..3 {
        let address = memory.alloc(4 * (n * n) as u64, "matrix").unwrap_or_else(|error| panic!("{error}"));
        if let Some(values) = operands.get(index) {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            memory.write(address, &bytes).unwrap_or_else(|error| panic!("{error}"));
        }
        params.extend(address.to_le_bytes());
        buffers.push(address);
    }
    let config = LaunchConfig { grid: [16, 1, 1], block: [64, 1, 1], ..LaunchConfig::default() };
    let run = |options: &Options| {
        launch(&kernel, &config, &params, &memory, options).unwrap_or_else(|error| panic!("{error}"))
    };
    run(&Options::default());
    let mut bytes = vec![0; 4 * n * n];
    memory.read(buffers[2], &mut bytes).unwrap_or_else(|error| panic!("{error}"));
    for (index, word) in bytes.chunks_exact(4).enumerate() {
        let (row, column) = (index / n, index % n);
        let expected: f32 = (0..n).map(|k| operands[0][row * n + k] * operands[1][column * n + k]).sum();
        assert_eq!(f32::from_le_bytes([word[0], word[1], word[2], word[3]]), expected, "({row}, {column})");
    }
    let mut group = criterion.benchmark_group("mma.sync: 128³ tf32");
    group.throughput(Throughput::Elements((n * n * n) as u64));
    for (checks, options) in [("all checks", Options::default()), ("unchecked", Options::unchecked())] {
        group.bench_function(checks, |bencher| bencher.iter(|| run(&options)));
    }
    group.finish();
}

/// Triton's kernel for KDA's intra-chunk solve, one CTA: 64 tokens of one head of 128.
fn intra_chunk(criterion: &mut Criterion) {
    let folder = std::env::var_os("TILEWRIGHT_TRITON_CORPUS").map_or_else(
        || std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/triton/dumps"),
        std::path::PathBuf::from,
    );
    let mut group = criterion.benchmark_group("KDA intra-chunk, one CTA");
    for arch in ["sm_90", "sm_100"] {
        let path = folder.join(arch).join("chunk_kda_fwd_kernel_inter_solve_fused/kernel.ptx");
        let Ok(source) = std::fs::read_to_string(&path) else {
            println!("skipped: no {}; set TILEWRIGHT_TRITON_CORPUS", path.display());
            continue;
        };
        let kernel = Kernel::new(&source, None).unwrap_or_else(|error| panic!("{error}"));
        let memory = Memory::new();
        let (tokens, heads, depth) = (64_u64, 32_u64, 128_u64);
        let mut params = Vec::new();
        // q, k (bf16), g, beta, Aqk (bf16), the diagonal blocks, the inverse (bf16).
        let sizes = [2 * depth, 2 * depth, 4 * depth, 4, 2 * 64, 4 * 16, 2 * 64].map(|size| size * tokens * heads);
        for (index, bytes) in sizes.into_iter().enumerate() {
            let address = memory.alloc(bytes, "argument").unwrap_or_else(|error| panic!("{error}"));
            // bf16 0x3c3c and f32 0x3c3c3c3c: about 0.0115.
            if ![4, 6].contains(&index) {
                memory.fill(address, 0x3c, bytes).unwrap_or_else(|error| panic!("{error}"));
            }
            params.extend(address.to_le_bytes());
        }
        params.extend(0.088_f32.to_le_bytes());
        params.extend(64_u32.to_le_bytes());
        params.extend([0; 16]);
        let block = kernel.required_block().unwrap_or([128, 1, 1]);
        let config = LaunchConfig { grid: [1, 1, 1], block, dynamic_shared: 8192, ..LaunchConfig::default() };
        for (checks, options) in [("all checks", Options::default()), ("unchecked", Options::unchecked())] {
            let run = || launch(&kernel, &config, &params, &memory, &options).unwrap_or_else(|error| panic!("{error}"));
            group.throughput(Throughput::Elements(run().warp_instructions));
            group.bench_function(format!("{arch}, {checks}"), |bencher| bencher.iter(run));
        }
    }
    group.finish();
}

/// The kernels that older emulators of PTX run as well (docs/emulator.md, "Beside other emulators").
fn beside(criterion: &mut Criterion) {
    let kernels = [
        ("fma_chains", include_str!("beside/fma_chains.ptx"), [128, 1, 1], [128, 1, 1]),
        ("tile_product", include_str!("beside/tile_product.ptx"), [8, 8, 1], [16, 16, 1]),
    ];
    for (name, source, grid, block) in kernels {
        let kernel = Kernel::new(source, None).unwrap_or_else(|error| panic!("{error}"));
        let memory = Memory::new();
        let mut params = Vec::new();
        for step in [5, 7, 0] {
            let values: Vec<u8> = (0..128 * 128).flat_map(|i| ((i * step % 13) as f32 / 8.0).to_le_bytes()).collect();
            let address = memory.alloc(values.len() as u64, "matrix").unwrap_or_else(|error| panic!("{error}"));
            memory.write(address, &values).unwrap_or_else(|error| panic!("{error}"));
            params.extend(address.to_le_bytes());
        }
        let config = LaunchConfig { grid, block, ..LaunchConfig::default() };
        let mut group = criterion.benchmark_group(name);
        for (checks, options) in [("all checks", Options::default()), ("unchecked", Options::unchecked())] {
            let run = || launch(&kernel, &config, &params, &memory, &options).unwrap_or_else(|error| panic!("{error}"));
            group.throughput(Throughput::Elements(run().warp_instructions));
            group.bench_function(checks, |bencher| bencher.iter(run));
        }
        group.finish();
    }
}

criterion_group!(benches, emulate, product, intra_chunk, beside);
criterion_main!(benches);
