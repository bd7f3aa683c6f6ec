//! Targets and element types.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A target that Tilewright emits PTX for. Ordered from the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arch {
    /// Ampere (A100). Its PTX runs on every later card.
    #[serde(rename = "sm_80")]
    Sm80,
    /// Hopper (H100, H200), with the features that only Hopper has.
    #[serde(rename = "sm_90a")]
    Sm90a,
    /// Blackwell (B200), with the features that only it has.
    #[serde(rename = "sm_100a")]
    Sm100a,
}

/// A name that is no [`Arch`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown target `{0}`: expected one of sm_80, sm_90a, sm_100a")]
pub struct UnknownArch(pub String);

impl Arch {
    /// Every target, oldest first.
    pub const ALL: [Arch; 3] = [Arch::Sm80, Arch::Sm90a, Arch::Sm100a];

    /// PTX's name: `sm_90a`.
    pub fn name(self) -> &'static str {
        match self {
            Arch::Sm80 => "sm_80",
            Arch::Sm90a => "sm_90a",
            Arch::Sm100a => "sm_100a",
        }
    }

    /// Compute capability times ten, as Triton writes it: 80, 90, 100.
    pub fn capability(self) -> u32 {
        match self {
            Arch::Sm80 => 80,
            Arch::Sm90a => 90,
            Arch::Sm100a => 100,
        }
    }

    /// The `.version` that our PTX for this target states: the oldest that has the target, so that old drivers load it.
    pub fn ptx_version(self) -> &'static str {
        match self {
            Arch::Sm80 => "7.0",
            Arch::Sm90a => "8.0",
            Arch::Sm100a => "8.6",
        }
    }

    /// The most shared memory that one CTA may have, opted in, in bytes.
    pub fn max_shared_bytes(self) -> u32 {
        match self {
            Arch::Sm80 => 163 * 1024,
            Arch::Sm90a | Arch::Sm100a => 227 * 1024,
        }
    }

    /// The newest target whose PTX runs on a card of compute capability `major.minor`, or `None` for cards before Ampere.
    ///
    /// Targets with the suffix `a` run on their own capability only; `sm_80` runs on everything from 8.0 up.
    pub fn for_capability(major: u32, minor: u32) -> Option<Arch> {
        match (major, minor) {
            (9, 0) => Some(Arch::Sm90a),
            (10, 0) => Some(Arch::Sm100a),
            (8.., _) => Some(Arch::Sm80),
            _ => None,
        }
    }

    /// Whether PTX for this target may be loaded on a card of compute capability `major.minor`.
    pub fn runs_on(self, major: u32, minor: u32) -> bool {
        match self {
            Arch::Sm80 => major >= 8,
            Arch::Sm90a => (major, minor) == (9, 0),
            Arch::Sm100a => (major, minor) == (10, 0),
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        Arch::ALL.into_iter().find(|arch| arch.name() == text).ok_or_else(|| UnknownArch(text.to_owned()))
    }
}

/// Element types of buffers and parameters, named as Triton names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 8-bit unsigned or untyped.
    U8,
    /// 16-bit signed.
    I16,
    /// 32-bit signed.
    I32,
    /// 64-bit signed.
    I64,
    /// IEEE half.
    Fp16,
    /// bfloat16.
    Bf16,
    /// IEEE single.
    Fp32,
    /// IEEE double.
    Fp64,
}

impl DType {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            DType::U8 => 1,
            DType::I16 | DType::Fp16 | DType::Bf16 => 2,
            DType::I32 | DType::Fp32 => 4,
            DType::I64 | DType::Fp64 => 8,
        }
    }

    /// Triton's name: `fp32`, `i32`.
    pub fn name(self) -> &'static str {
        match self {
            DType::U8 => "u8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::Fp16 => "fp16",
            DType::Bf16 => "bf16",
            DType::Fp32 => "fp32",
            DType::Fp64 => "fp64",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
