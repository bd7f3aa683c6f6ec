//! Which kernels factor which shape: tables, tuned on hardware.

use super::blocked::{Blocked, Engine, Inner};
use super::{Error, Options, Shape};
use crate::generate::Specialisation;
use crate::ptx::Arch;
use crate::template::{Operand, PanelSolve, PotrfBlock, PotrfDiag, PotrfRows, PotrfWarp, SchurWgmma};

/// What factors a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// One launch.
    One(Specialisation),
    /// Block columns.
    Blocked(Blocked),
}

/// Orders up to `largest` that no row before took: one launch, on every target, at full precision.
struct Small {
    largest: usize,
    make: fn(u32) -> Specialisation,
}

/// Searched from the top; the first row that fits is taken.
const SMALL: &[Small] = &[
    Small { largest: 32, make: |n| Specialisation::PotrfWarp(PotrfWarp { n, rank: 2, warps: 4 }) },
    Small { largest: 64, make: |n| Specialisation::PotrfRows(PotrfRows { n, rank: 2 }) },
    Small { largest: 192, make: |n| Specialisation::PotrfBlock(PotrfBlock { n, block: 16, warps: 8 }) },
];

/// The largest order of one launch.
fn largest_small() -> usize {
    SMALL.iter().map(|row| row.largest).max().unwrap_or(0)
}

/// The largest order there are plans for: 16 GiB a matrix.
pub(super) const LARGEST: usize = 1 << 16;

/// The largest order for a target.
pub(super) fn largest(arch: Arch) -> usize {
    if arch == Arch::Sm90a { LARGEST } else { largest_small() }
}

/// What factors `shape`.
pub(super) fn choose(shape: &Shape, options: &Options) -> Result<Choice, Error> {
    let &Shape { n, batch, .. } = shape;
    let limit = largest(options.arch);
    let order = u32::try_from(n).ok().filter(|_| n <= limit).ok_or(Error::Unsupported { n, limit })?;
    if let Some(row) = SMALL.iter().find(|row| n <= row.largest) {
        return Ok(Choice::One((row.make)(order)));
    }
    Ok(Choice::Blocked(hopper(n, batch)))
}

/// Block columns on Hopper, FP32-grade.
fn hopper(n: usize, batch: usize) -> Blocked {
    let engine = Engine::Wgmma(SchurWgmma { operand: Operand::F16x3, columns: 128, stages: 3, promote: 1 });
    // What measured best on an H200 (docs/performance.md). With tiles enough in one column, each entry is read and written once;
    // panels of few rows are solved by small CTAs, so that there are more of them.
    let rows = batch * n;
    let (width, order) = match n {
        _ if rows >= 16_384 && batch > 2 => (4, Inner::Left),
        ..16_385 => (8, Inner::Right),
        _ => (16, Inner::Right),
    };
    let panel = PanelSolve { warps: if rows > 16_384 { 4 } else { 2 }, products: 3, planes: 2 };
    Blocked { diag: PotrfDiag { warps: 8 }, panel, inner: engine, outer: engine, width, order }
}

#[cfg(test)]
mod tests {
    use super::super::Precision;
    use super::*;

    /// Every order, target and precision up to the limit of one launch has a kernel that its template accepts.
    #[test]
    fn every_small_order_has_a_kernel() {
        for arch in Arch::ALL {
            for precision in [Precision::Full, Precision::Fast] {
                let options = Options { arch, precision, ..Options::default() };
                for n in 1..=largest_small() {
                    let Choice::One(specialisation) = choose(&Shape::contiguous(1, n), &options).unwrap() else {
                        panic!("order {n} takes many launches")
                    };
                    let module = specialisation.instantiate(arch).unwrap();
                    let name = &module.meta.kernels[0].name;
                    assert!(name.contains(&format!("_n{n}_")), "order {n} on {arch}: {name}");
                }
                let over = largest(arch) + 1;
                assert!(matches!(
                    choose(&Shape::contiguous(1, over), &options),
                    Err(Error::Unsupported { n, limit }) if n == limit + 1
                ));
            }
        }
    }
}
