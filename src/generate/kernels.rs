//! The kernels there are, as a table: names, settings, ranges.

use std::fmt;

use indexmap::IndexMap;

use super::{Error, SettingValue};
use crate::ptx::{Arch, Module};
use crate::template::{
    MicroPotrf, Operand, PanelSolve, ParamError, PotrfBlock, PotrfDiag, PotrfRows, PotrfWarp, SchurWgmma,
};

/// A kernel that can be generated.
#[derive(Debug)]
pub struct KernelInfo {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Its settings, in order.
    pub settings: &'static [Setting],
    /// The targets that have its instructions.
    pub targets: &'static [Arch],
    make: fn(&[u32]) -> Specialisation,
}

/// A setting of a kernel.
#[derive(Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// The value it has when none is given, as a number; `None` where one must be.
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
    /// One of these words, which are numbered from 0 on.
    Words(&'static [&'static str]),
}

impl Allowed {
    /// Every value, as numbers.
    pub fn values(&self) -> Vec<u32> {
        match *self {
            Allowed::Range(low, high) => (low..=high).collect(),
            Allowed::OneOf(values) => values.to_vec(),
            Allowed::Words(words) => (0..words.len() as u32).collect(),
        }
    }
}

impl Setting {
    /// What number `value` stands for.
    pub fn value(&self, value: u32) -> SettingValue {
        match self.allowed {
            Allowed::Words(words) => SettingValue::Word(words[value as usize].to_owned()),
            Allowed::Range(..) | Allowed::OneOf(_) => SettingValue::Number(value),
        }
    }

    /// The number that `text` gives.
    fn read(&self, kernel: &'static str, text: &str) -> Result<u32, Error> {
        let setting = || self.name.to_owned();
        match self.allowed {
            Allowed::Words(words) => match words.iter().position(|word| *word == text) {
                Some(index) => Ok(index as u32),
                None => {
                    let known = self.allowed.to_string();
                    Err(Error::UnknownWord { kernel, setting: setting(), value: text.to_owned(), known })
                }
            },
            Allowed::Range(..) | Allowed::OneOf(_) => {
                text.parse().map_err(|_| Error::NotANumber { kernel, setting: setting(), value: text.to_owned() })
            }
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::Range(low, high) => write!(formatter, "from {low} to {high}"),
            Allowed::OneOf(values) => {
                let list = values.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
                write!(formatter, "one of {list}")
            }
            Allowed::Words(words) => write!(formatter, "one of {}", words.join(", ")),
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

const OPERAND: Setting = Setting {
    name: "operand",
    default: Some(Operand::F16x3 as u32),
    allowed: Allowed::Words(&Operand::NAMES),
    meaning: "what the shadow holds; x3 is two planes, FP32-grade",
};

const fn order(low: u32, high: u32) -> Setting {
    Setting { name: "n", default: None, allowed: Allowed::Range(low, high), meaning: "order of the matrices" }
}

static KERNELS: [KernelInfo; 7] = [
    KernelInfo {
        name: PotrfWarp::KERNEL,
        summary: "Cholesky of a batch, n from 1 to 32: one warp a matrix, rows in registers",
        settings: &[order(1, 32), RANK, WARPS],
        targets: &Arch::ALL,
        make: |values| Specialisation::PotrfWarp(PotrfWarp { n: values[0], rank: values[1], warps: values[2] }),
    },
    KernelInfo {
        name: PotrfRows::KERNEL,
        summary: "Cholesky of a batch, n from 33 to 64: two warps a matrix, one thread a row",
        settings: &[order(33, 64), RANK],
        targets: &Arch::ALL,
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
        targets: &Arch::ALL,
        make: |values| Specialisation::PotrfBlock(PotrfBlock { n: values[0], block: values[1], warps: values[2] }),
    },
    KernelInfo {
        name: PotrfDiag::KERNEL,
        summary: "the 128-by-128 diagonal block at (k, k) of larger matrices: its factor, and what rows below are solved with",
        settings: &[Setting { allowed: Allowed::OneOf(&[4, 8]), default: Some(8), meaning: "warps of a CTA", ..WARPS }],
        targets: &Arch::ALL,
        make: |values| Specialisation::PotrfDiag(PotrfDiag { warps: values[0] }),
    },
    KernelInfo {
        name: PanelSolve::KERNEL,
        summary: "the rows below a factored 128-by-128 diagonal block, and their shadow for the update",
        settings: &[
            Setting { allowed: Allowed::OneOf(&[2, 4, 8]), meaning: "warps of a CTA, 16 rows each", ..WARPS },
            Setting {
                name: "products",
                default: Some(3),
                allowed: Allowed::OneOf(&[1, 3]),
                meaning: "TF32 products for one: 3 is FP32-grade",
            },
            Setting {
                name: "planes",
                default: Some(2),
                allowed: Allowed::OneOf(&[1, 2]),
                meaning: "halves that an entry of the shadow is the sum of",
            },
        ],
        targets: &Arch::ALL,
        make: |values| {
            Specialisation::PanelSolve(PanelSolve { warps: values[0], products: values[1], planes: values[2] })
        },
    },
    KernelInfo {
        name: SchurWgmma::KERNEL,
        summary: "the products of a panel's shadow off the lower tiles, by wgmma",
        settings: &[
            OPERAND,
            Setting {
                name: "columns",
                default: Some(128),
                allowed: Allowed::OneOf(&[128, 256]),
                meaning: "columns of a CTA's tile; its rows are 128",
            },
            Setting {
                name: "stages",
                default: Some(3),
                allowed: Allowed::Range(2, 7),
                meaning: "k tiles on their way at a time",
            },
            Setting {
                name: "promote",
                default: Some(0),
                allowed: Allowed::OneOf(&[0, 1, 2, 4, 8]),
                meaning: "k tiles after which the sum is added to a second one; 0 for never",
            },
        ],
        targets: &[Arch::Sm90a],
        make: |values| {
            let operand = Operand::ALL[values[0] as usize];
            let [columns, stages, promote] = [values[1], values[2], values[3]];
            Specialisation::SchurWgmma(SchurWgmma { operand, columns, stages, promote })
        },
    },
    KernelInfo {
        name: MicroPotrf::KERNEL,
        summary: "the 32-by-32 diagonal block at (k, k) of larger matrices: its factor and the factor's inverse",
        settings: &[Setting { allowed: Allowed::OneOf(&[2, 4]), ..RANK }, WARPS],
        targets: &Arch::ALL,
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
    /// The rows below it.
    PanelSolve(PanelSolve),
    /// The update of what is right of them, on Hopper.
    SchurWgmma(SchurWgmma),
    /// The 32-by-32 diagonal block of a larger matrix.
    MicroPotrf(MicroPotrf),
}

impl Specialisation {
    /// The specialisation of `kernel` that `settings` name; those not given take their defaults.
    ///
    /// # Errors
    /// An unknown kernel or setting, a value that is no number or none of the words, a missing setting that has no default. Ranges are checked
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
                Some(text) => setting.read(info.name, text),
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
            Specialisation::PanelSolve(_) => PanelSolve::KERNEL,
            Specialisation::SchurWgmma(_) => SchurWgmma::KERNEL,
            Specialisation::MicroPotrf(_) => MicroPotrf::KERNEL,
        }
    }

    /// The kernel's row of the table.
    ///
    /// # Panics
    /// Never: every kernel has one.
    pub fn info(&self) -> &'static KernelInfo {
        let found = KERNELS.iter().find(|info| info.name == self.kernel());
        #[expect(clippy::expect_used, reason = "a test sees that every kernel is in the table")]
        found.expect("every kernel is in the table")
    }

    /// The settings with their values, in the kernel's order.
    pub fn settings(&self) -> IndexMap<String, SettingValue> {
        let values: &[u32] = match self {
            Specialisation::PotrfWarp(p) => &[p.n, p.rank, p.warps],
            Specialisation::PotrfRows(p) => &[p.n, p.rank],
            Specialisation::PotrfBlock(p) => &[p.n, p.block, p.warps],
            Specialisation::PotrfDiag(p) => &[p.warps],
            Specialisation::PanelSolve(p) => &[p.warps, p.products, p.planes],
            Specialisation::SchurWgmma(p) => &[p.operand as u32, p.columns, p.stages, p.promote],
            Specialisation::MicroPotrf(p) => &[p.rank, p.warps],
        };
        let named = self.info().settings.iter().zip(values);
        named.map(|(setting, &value)| (setting.name.to_owned(), setting.value(value))).collect()
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
            Specialisation::PanelSolve(p) => p.instantiate(arch),
            Specialisation::SchurWgmma(p) => p.instantiate(arch),
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
            let values: Vec<u32> = info.settings.iter().map(|setting| setting.allowed.values()[0]).collect();
            let made = (info.make)(&values);
            assert_eq!(made.kernel(), info.name);
            let named: Vec<_> = made.settings().into_iter().collect();
            let expected: Vec<_> =
                values.iter().zip(info.settings).map(|(&value, s)| (s.name.to_owned(), s.value(value))).collect();
            assert_eq!(named, expected);
            assert!(std::ptr::eq(made.info(), info));
            for setting in info.settings {
                let read = |value| setting.read(info.name, &setting.value(value).to_string());
                assert!(setting.allowed.values().into_iter().all(|value| read(value) == Ok(value)));
            }
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
                    Allowed::Words(_) => (setting.allowed.values(), Vec::new()),
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
        assert_eq!(
            fault("schur_wgmma", &[("operand", "f32")]),
            "schur_wgmma: operand = `f32` is not allowed: it must be one of f16, f16x3, bf16, tf32, tf32x3, e4m3"
        );
        assert_eq!(fault("potrf_warp", &[]), "potrf_warp needs the setting `n`: order of the matrices, from 1 to 32");
    }
}
