//! Reading and printing PTX: the largest kernel of the Triton corpus, or a template's output where there is none.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tilewright::ptx::{Arch, parse, print};
use tilewright::template::PotrfRows;

fn collect(folder: &Path, files: &mut Vec<(u64, PathBuf)>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            files.push((path.metadata().map_or(0, |data| data.len()), path));
        }
    }
}

fn source() -> String {
    let root = std::env::var_os("TILEWRIGHT_TRITON_CORPUS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/triton/dumps"), PathBuf::from);
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    match files.pop().and_then(|(_, path)| std::fs::read_to_string(path).ok()) {
        Some(source) => source,
        None => {
            let module = PotrfRows { n: 64, rank: 2 }.instantiate(Arch::Sm90a);
            module.unwrap_or_else(|fault| panic!("{fault}")).ptx
        }
    }
}

fn ptx(criterion: &mut Criterion) {
    let source = source();
    let program = parse(&source).unwrap_or_else(|fault| panic!("{fault}"));
    let mut group = criterion.benchmark_group("ptx");
    group.throughput(Throughput::Bytes(source.len() as u64));
    group.bench_function("parse", |bencher| bencher.iter(|| parse(black_box(&source))));
    group.bench_function("print", |bencher| bencher.iter(|| print(black_box(&program))));
    group.finish();
}

criterion_group!(benches, ptx);
criterion_main!(benches);
