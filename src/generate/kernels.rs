//! The kernels there are, as a table: names, settings, ranges.

use std::fmt;

use indexmap::IndexMap;

use super::Error;
use crate::ptx::{Arch, Module};
use crate::template::{MicroPotrf, ParamError, PotrfBlock, PotrfDiag, PotrfRows, PotrfWarp};

/// A kernel that can be generated.
#[derive(Debug)]
pub struct KernelInfo {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Its settings, in order.
    pub settings: &'static [Setting],
    make: fn(&[u32]) -> Specialisation,
}

/// A setting of a kernel.
#[derive(Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// The value it has when none is given; `None` where one must be.
    pub default: Option<u32>,
    /// The values it may have.
    pub allowed: Allowed,
    /// What it means.
    pub meaning: &'static str,
}

/// The values that a setting may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// From the first to the second.
    Range(u32, u32),
    /// One of these.
    OneOf(&'static [u32]),
}

impl fmt::Display for Allowed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::Range(low, high) => write!(formatter, "from {low} to {high}"),
            Allowed::OneOf(values) => {
                let list = values.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
                write!(formatter, "one of {list}")
            }
        }
    }
}

const RANK: Setting = Setting {
    name: "rank",
    default: Some(4),
    allowed: Allowed::OneOf(&[1, 2, 4]),
    meaning: "pivots done as one group",
};

const WARPS: Setting = Setting {
    name: "warps",
    default: Some(4),
    allowed: Allowed::OneOf(&[1, 2, 4]),
    meaning: "warps of a CTA, one matrix each",
};

const fn order(low: u32, high: u32) -> Setting {
    Setting { name: "n", default: None, allowed: Allowed::Range(low, high), meaning: "order of the matrices" }
}

static KERNELS: [KernelInfo; 5] = [
    KernelInfo {
        name: PotrfWarp::KERNEL,
        summary: "Cholesky of a batch, n from 1 to 32: one warp a matrix, rows in registers",
        settings: &[order(1, 32), RANK, WARPS],
        make: |values| Specialisation::PotrfWarp(PotrfWarp { n: values[0], rank: values[1], warps: values[2] }),
    },
    KernelInfo {
        name: PotrfRows::KERNEL,
        summary: "Cholesky of a batch, n from 33 to 64: two warps a matrix, one thread a row",
        settings: &[order(33, 64), RANK],
        make: |values| Specialisation::PotrfRows(PotrfRows { n: values[0], rank: values[1] }),
    },
    KernelInfo {
        name: PotrfBlock::KERNEL,
        summary: "Cholesky of a batch, n from 65 to 192: one CTA a matrix, blocked in shared memory",
        settings: &[
            order(65, 192),
            Setting {
                name: "block",
                default: Some(16),
                allowed: Allowed::OneOf(&[8, 16, 32]),
                meaning: "columns of a panel",
            },
            Setting { name: "warps", default: Some(8), allowed: Allowed::OneOf(&[4, 8]), meaning: "warps of a CTA" },
        ],
        make: |values| Specialisation::PotrfBlock(PotrfBlock { n: values[0], block: values[1], warps: values[2] }),
    },
    KernelInfo {
        name: PotrfDiag::KERNEL,
        summary: "the 128-by-128 diagonal block at (k, k) of larger matrices: its factor, and what rows below are solved with",
        settings: &[Setting { allowed: Allowed::OneOf(&[4, 8]), default: Some(8), meaning: "warps of a CTA", ..WARPS }],
        make: |values| Specialisation::PotrfDiag(PotrfDiag { warps: values[0] }),
    },
    KernelInfo {
        name: MicroPotrf::KERNEL,
        summary: "the 32-by-32 diagonal block at (k, k) of larger matrices: its factor and the factor's inverse",
        settings: &[Setting { allowed: Allowed::OneOf(&[2, 4]), ..RANK }, WARPS],
        make: |values| Specialisation::MicroPotrf(MicroPotrf { rank: values[0], warps: values[1] }),
    },
];

/// Every kernel there is.
pub fn kernels() -> &'static [KernelInfo] {
    &KERNELS
}

/// A kernel with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Specialisation {
    /// n ≤ 32.
    PotrfWarp(PotrfWarp),
    /// 33 ≤ n ≤ 64.
    PotrfRows(PotrfRows),
    /// 65 ≤ n ≤ 192.
    PotrfBlock(PotrfBlock),
    /// The 128-by-128 diagonal block of a larger matrix.
    PotrfDiag(PotrfDiag),
    /// The 32-by-32 diagonal block of a larger matrix.
    MicroPotrf(MicroPotrf),
}

impl Specialisation {
    /// The specialisation of `kernel` that `settings` name; those not given take their defaults.
    ///
    /// # Errors
    /// An unknown kernel or setting, a value that is no number, a missing setting that has no default. Ranges are checked
    /// by [`Specialisation::instantiate`].
    pub fn from_settings(kernel: &str, settings: &IndexMap<String, String>) -> Result<Self, Error> {
        let info = KERNELS.iter().find(|info| info.name == kernel).ok_or_else(|| Error::UnknownKernel {
            name: kernel.to_owned(),
            known: join(KERNELS.iter().map(|info| info.name)),
        })?;
        if let Some(unknown) = settings.keys().find(|key| info.settings.iter().all(|setting| setting.name != **key)) {
            return Err(Error::UnknownSetting {
                kernel: info.name,
                setting: unknown.clone(),
                known: join(info.settings.iter().map(|setting| setting.name)),
            });
        }
        let values = info
            .settings
            .iter()
            .map(|setting| match settings.get(setting.name) {
                Some(text) => text.parse().map_err(|_| Error::NotANumber {
                    kernel: info.name,
                    setting: setting.name.to_owned(),
                    value: text.clone(),
                }),
                None => setting.default.ok_or(Error::Missing {
                    kernel: info.name,
                    setting: setting.name,
                    meaning: setting.meaning,
                    allowed: setting.allowed,
                }),
            })
            .collect::<Result<Vec<u32>, Error>>()?;
        Ok((info.make)(&values))
    }

    /// The kernel's name.
    pub fn kernel(&self) -> &'static str {
        match self {
            Specialisation::PotrfWarp(_) => PotrfWarp::KERNEL,
            Specialisation::PotrfRows(_) => PotrfRows::KERNEL,
            Specialisation::PotrfBlock(_) => PotrfBlock::KERNEL,
            Specialisation::PotrfDiag(_) => PotrfDiag::KERNEL,
            Specialisation::MicroPotrf(_) => MicroPotrf::KERNEL,
        }
    }

    /// The settings with their values, in the kernel's order.
    pub fn settings(&self) -> IndexMap<String, u32> {
        let pairs: &[(&str, u32)] = match self {
            Specialisation::PotrfWarp(p) => &[("n", p.n), ("rank", p.rank), ("warps", p.warps)],
            Specialisation::PotrfRows(p) => &[("n", p.n), ("rank", p.rank)],
            Specialisation::PotrfBlock(p) => &[("n", p.n), ("block", p.block), ("warps", p.warps)],
            Specialisation::PotrfDiag(p) => &[("warps", p.warps)],
            Specialisation::MicroPotrf(p) => &[("rank", p.rank), ("warps", p.warps)],
        };
        pairs.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
    }

    /// The module for `arch`.
    ///
    /// # Errors
    /// A parameter out of its range for the template or the target.
    pub fn instantiate(&self, arch: Arch) -> Result<Module, ParamError> {
        match self {
            Specialisation::PotrfWarp(p) => p.instantiate(arch),
            Specialisation::PotrfRows(p) => p.instantiate(arch),
            Specialisation::PotrfBlock(p) => p.instantiate(arch),
            Specialisation::PotrfDiag(p) => p.instantiate(arch),
            Specialisation::MicroPotrf(p) => p.instantiate(arch),
        }
    }
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> IndexMap<String, String> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn settings_are_read_and_named_back() {
        let made = Specialisation::from_settings("potrf_block", &settings(&[("warps", "4"), ("n", "100")])).unwrap();
        assert_eq!(made, Specialisation::PotrfBlock(PotrfBlock { n: 100, block: 16, warps: 4 }));
        for info in kernels() {
            let values: Vec<u32> = info
                .settings
                .iter()
                .map(|setting| match setting.allowed {
                    Allowed::Range(low, _) => low,
                    Allowed::OneOf(values) => values[0],
                })
                .collect();
            let made = (info.make)(&values);
            assert_eq!(made.kernel(), info.name);
            let named: Vec<_> = made.settings().into_iter().collect();
            let expected: Vec<_> =
                info.settings.iter().zip(&values).map(|(setting, &value)| (setting.name.to_owned(), value)).collect();
            assert_eq!(named, expected);
        }
    }

    /// The table and the templates' own checks agree on what is allowed.
    #[test]
    fn ranges_in_the_table_are_those_of_the_templates() {
        for info in kernels() {
            let edges: Vec<(Vec<u32>, Vec<u32>)> = info
                .settings
                .iter()
                .map(|setting| match setting.allowed {
                    Allowed::Range(low, high) => (vec![low, high], vec![low - 1, high + 1]),
                    Allowed::OneOf(values) => {
                        let bad = (0..=values[values.len() - 1] + 1).filter(|value| !values.contains(value));
                        (values.to_vec(), bad.collect())
                    }
                })
                .collect();
            let good: Vec<u32> = edges.iter().map(|(good, _)| good[0]).collect();
            for (place, (allowed, refused)) in edges.iter().enumerate() {
                let with = |value: u32| {
                    let mut values = good.clone();
                    values[place] = value;
                    (info.make)(&values).instantiate(Arch::Sm90a)
                };
                assert!(allowed.iter().all(|&value| with(value).is_ok()), "{} {place}", info.name);
                for &value in refused {
                    let message = with(value).unwrap_err().to_string();
                    assert!(
                        message.contains(&format!("{}: {} = {value} ", info.name, info.settings[place].name)),
                        "{message}"
                    );
                }
            }
        }
    }

    #[test]
    fn faults_name_the_thing_and_what_is_right() {
        let fault = |kernel: &str, pairs: &[(&str, &str)]| {
            Specialisation::from_settings(kernel, &settings(pairs)).unwrap_err().to_string()
        };
        assert!(fault("potrf", &[]).contains("unknown kernel `potrf`: expected one of potrf_warp, potrf_rows"));
        assert!(fault("potrf_warp", &[("m", "3")]).contains("no setting `m`: expected one of n, rank, warps"));
        assert!(fault("potrf_warp", &[("n", "x")]).contains("n = `x` is not a whole number"));
        assert_eq!(fault("potrf_warp", &[]), "potrf_warp needs the setting `n`: order of the matrices, from 1 to 32");
    }
}
