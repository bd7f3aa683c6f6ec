//! Compiling a tile kernel, from Triton's IR text to PTX text, beside Triton's own stages on the same kernel
//! (`_stage_us` in the corpus: ttir, ttgir, llir and ptx, on the machine that made it; its Python in front is not counted).
//!
//! Prints a table (kernel, Triton's ms, ours, ratio) with the geometric mean, then lets Criterion time a few kernels well.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};

#[path = "../tests/support/corpus.rs"]
mod corpus;

use tilewright::compile::{Options, compile};
use tilewright::ptx::Arch;
use tilewright::ttir;

/// Each kernel is compiled this often for the table; its fastest time is shown.
const ROUNDS: u32 = 3;

/// Kernels that Criterion times: a small one, one with a product, the largest.
const TIMED: [&str; 3] = ["chol32_rank2_kernel", "trailing_nb@tf32_n1024", "chunk_kda_fwd_kernel_inter_solve_fused"];

struct Job {
    name: String,
    text: String,
    options: Options,
    /// Triton's stages together.
    triton: Duration,
}

fn job(path: &Path) -> Job {
    let text = std::fs::read_to_string(path).unwrap();
    let meta = std::fs::read_to_string(path.with_file_name("kernel.json")).unwrap();
    let meta: serde_json::Value = serde_json::from_str(&meta).unwrap();
    let number = |key: &str| u32::try_from(meta[key].as_u64().unwrap()).unwrap();
    let arch = if meta["target"]["arch"] == 90 { Arch::Sm90a } else { Arch::Sm100a };
    let stages = ["ttir", "ttgir", "llir", "ptx"].map(|stage| meta["_stage_us"][stage].as_u64().unwrap());
    Job {
        name: path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned(),
        text,
        options: Options { num_warps: number("num_warps"), num_stages: number("num_stages"), ..Options::new(arch) },
        triton: Duration::from_micros(stages.iter().sum()),
    }
}

/// Text to text.
fn whole(job: &Job) -> usize {
    let program = ttir::read(&job.text).unwrap();
    compile(program.kernels().next().unwrap(), &job.options).unwrap().ptx.len()
}

fn table(jobs: &[Job]) {
    println!("{:<48} {:<8} {:>10} {:>9} {:>7}", "kernel", "target", "Triton ms", "ours ms", "ratio");
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let mut logarithms = 0.0;
    for job in jobs {
        let once = || {
            let start = Instant::now();
            black_box(whole(job));
            start.elapsed()
        };
        let ours = (0..ROUNDS).map(|_| once()).min().unwrap();
        let ratio = job.triton.as_secs_f64() / ours.as_secs_f64();
        logarithms += ratio.ln();
        let arch = job.options.arch;
        println!(
            "{:<48} {arch:<8} {:>10.1} {:>9.1} {ratio:>7.2}",
            job.name,
            milliseconds(job.triton),
            milliseconds(ours)
        );
    }
    println!("geometric mean of the ratios: {:.2}", (logarithms / jobs.len() as f64).exp());
}

fn compiling(criterion: &mut Criterion) {
    let Some(root) = corpus::triton() else { return };
    let jobs: Vec<Job> = corpus::files(&root, "ttir").iter().map(|path: &PathBuf| job(path)).collect();
    table(&jobs);
    let mut group = criterion.benchmark_group("compile");
    group.sample_size(10);
    for job in jobs.iter().filter(|job| TIMED.contains(&job.name.as_str())) {
        group.bench_function(format!("{}/{}", job.options.arch, job.name), |bencher| bencher.iter(|| whole(job)));
    }
    group.finish();
}

criterion_group!(benches, compiling);
criterion_main!(benches);
