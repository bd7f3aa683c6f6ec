//! Registers' values and addresses of lanes, as text and as JSON.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::emulate::lanes::lanes;

/// What a register holds in some lanes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Value {
    /// Its name, or the word `constant`.
    pub register: String,
    /// Its bits; 1 for a predicate.
    pub bits: u32,
    /// The lanes of which `values` are, one bit for each: those in which it is defined.
    #[serde(serialize_with = "hex_mask")]
    pub lanes: u32,
    /// The bits that it holds, by lane.
    #[serde(serialize_with = "hex_each")]
    pub values: Vec<u64>,
}

impl Value {
    /// The lanes in which a predicate holds.
    pub fn holds(&self) -> u32 {
        lanes(self.lanes).zip(&self.values).fold(0, |mask, (lane, &value)| mask | ((value & 1) as u32) << lane)
    }

    /// The value that all lanes share, if they do.
    pub(super) fn shared(&self) -> Option<u64> {
        let first = *self.values.first()?;
        self.values.iter().all(|&value| value == first).then_some(first)
    }

    /// The value in hexadecimal, as wide as the register.
    pub(super) fn digits(&self, value: u64) -> String {
        format!("{value:#0width$x}", width = 2 + self.bits.div_ceil(4) as usize)
    }
}

/// `%r1 = 0x00000000 0x00000001`, `%r1 = 32 × 0x00000010`, `%p holds in 0x0000ffff`.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.register;
        match (self.shared(), self.bits) {
            _ if self.lanes == 0 => write!(formatter, "{name} is undefined"),
            (_, 1) => write!(formatter, "{name} holds in {:#010x}", self.holds()),
            (Some(value), _) if self.values.len() > 1 => {
                write!(formatter, "{name} = {} × {}", self.values.len(), self.digits(value))
            }
            _ => {
                let values: Vec<_> = self.values.iter().map(|&value| self.digits(value)).collect();
                write!(formatter, "{name} = {}", values.join(" "))
            }
        }
    }
}

struct Hex(u64, usize);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#0width$x}", self.0, width = self.1))
    }
}

/// Lanes in hexadecimal: numbers of JSON lose bits in many readers.
pub(super) fn hex_mask<S: Serializer>(mask: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    Hex(u64::from(*mask), 10).serialize(serializer)
}

/// Numbers in hexadecimal.
pub(super) fn hex_each<S: Serializer>(values: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|&value| Hex(value, 0)))
}
