//! Instantiating a template, from parameters to text: under a millisecond each.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tilewright::generate::standard;
use tilewright::ptx::Arch;

fn instantiate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("instantiate");
    for specialisation in standard() {
        let name = specialisation.instantiate(Arch::Sm90a).map(|module| module.meta.kernels[0].name.clone());
        let name = name.unwrap_or_else(|fault| panic!("{fault}"));
        group.bench_function(name, |bencher| bencher.iter(|| black_box(specialisation).instantiate(Arch::Sm90a)));
    }
    group.finish();
}

criterion_group!(benches, instantiate);
criterion_main!(benches);
