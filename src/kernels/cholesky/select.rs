//! Which kernel factors which order: a table, tuned on hardware.

use super::{Error, Precision};
use crate::generate::Specialisation;
use crate::ptx::Arch;
use crate::template::{PotrfBlock, PotrfRows, PotrfWarp};

/// A row of the table: orders up to `largest` that no row before it took.
struct Choice {
    largest: usize,
    targets: &'static [Arch],
    precisions: &'static [Precision],
    make: fn(u32) -> Specialisation,
}

const BOTH: &[Precision] = &[Precision::Full, Precision::Fast];

/// Searched from the top; the first row that fits is taken.
const TABLE: &[Choice] = &[
    Choice {
        largest: 32,
        targets: &Arch::ALL,
        precisions: BOTH,
        make: |n| Specialisation::PotrfWarp(PotrfWarp { n, rank: 2, warps: 4 }),
    },
    Choice {
        largest: 64,
        targets: &Arch::ALL,
        precisions: BOTH,
        make: |n| Specialisation::PotrfRows(PotrfRows { n, rank: 2 }),
    },
    Choice {
        largest: 192,
        targets: &Arch::ALL,
        precisions: BOTH,
        make: |n| Specialisation::PotrfBlock(PotrfBlock { n, block: 16, warps: 8 }),
    },
];

/// The largest order that `choose` has a kernel for, on any target.
pub(super) fn largest() -> usize {
    TABLE.iter().map(|choice| choice.largest).max().unwrap_or(0)
}

/// The kernel for order `n`.
pub(super) fn choose(n: usize, arch: Arch, precision: Precision) -> Result<Specialisation, Error> {
    let fits = |choice: &&Choice| {
        n <= choice.largest && choice.targets.contains(&arch) && choice.precisions.contains(&precision)
    };
    let choice = TABLE.iter().find(fits).ok_or(Error::Unsupported { n, limit: largest() })?;
    let order = u32::try_from(n).map_err(|_| Error::Unsupported { n, limit: largest() })?;
    Ok((choice.make)(order))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every order, target and precision up to the limit has a kernel that its template accepts.
    #[test]
    fn every_order_has_a_kernel() {
        for arch in Arch::ALL {
            for &precision in BOTH {
                for n in 1..=largest() {
                    let module = choose(n, arch, precision).unwrap().instantiate(arch).unwrap();
                    let name = &module.meta.kernels[0].name;
                    assert!(name.contains(&format!("_n{n}_")), "order {n} on {arch}: {name}");
                }
                assert!(matches!(
                    choose(largest() + 1, arch, precision),
                    Err(Error::Unsupported { n, limit }) if n == limit + 1
                ));
            }
        }
    }
}
