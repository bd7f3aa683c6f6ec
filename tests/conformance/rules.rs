//! How equal two outputs must be.

use serde::Deserialize;
use tilewright::tile::{Scalar, float_value, int_value};

/// A rule, with the reason where it is not equal bits.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Rule {
    /// Equal bits; of floats any NaN equals any NaN.
    Bits,
    /// At most so many units in the last place apart. With `flush`, singles below 2⁻¹²⁴ are as good as 0.
    Ulp { most: u64, flush: bool, why: String },
    /// |a − b| ≤ absolute + relative·|b|.
    Near { absolute: f64, relative: f64, why: String },
}

/// The place of a float in the order of its type: neighbours differ by one, and −0 is 0.
fn place(scalar: Scalar, bits: u64) -> i128 {
    let sign = 1_u64 << (scalar.bits() - 1);
    if bits & sign == 0 { i128::from(bits) } else { -i128::from(bits & !sign) }
}

/// The bits of an element.
pub fn word(part: &[u8]) -> u64 {
    part.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))
}

/// An element's value and bits.
pub fn show(scalar: Scalar, bits: u64) -> String {
    match float_value(scalar, bits) {
        Some(value) => format!("{value:e} ({bits:#x})"),
        None => format!("{} ({bits:#x})", int_value(scalar, bits)),
    }
}

impl Rule {
    fn holds(&self, scalar: Scalar, a: u64, b: u64) -> bool {
        let (Some(x), Some(y)) = (float_value(scalar, a), float_value(scalar, b)) else { return a == b };
        if a == b || (x.is_nan() && y.is_nan()) {
            return true;
        }
        if x.is_nan() || y.is_nan() {
            return false;
        }
        match self {
            Rule::Bits => false,
            Rule::Ulp { flush: true, .. } if x.abs().max(y.abs()) < (-124_f64).exp2() => true,
            Rule::Ulp { most, .. } => (place(scalar, a) - place(scalar, b)).unsigned_abs() <= u128::from(*most),
            Rule::Near { absolute, relative, .. } => (x - y).abs() <= absolute + relative * y.abs(),
        }
    }

    /// Where `ours` is first not what `triton` is, and what is said of it.
    pub fn check(&self, scalar: Scalar, ours: &[u8], triton: &[u8]) -> Result<(), (usize, String)> {
        let bytes = scalar.bytes() as usize;
        let pairs: Vec<(u64, u64)> =
            ours.chunks(bytes).zip(triton.chunks(bytes)).map(|(a, b)| (word(a), word(b))).collect();
        let wrong: Vec<usize> =
            (0..pairs.len()).filter(|&index| !self.holds(scalar, pairs[index].0, pairs[index].1)).collect();
        let Some(&first) = wrong.first() else { return Ok(()) };
        let (a, b) = pairs[first];
        let rule = match self {
            Rule::Bits => "equal bits".to_owned(),
            Rule::Ulp { most, why, .. } => format!("{most} ulp, {why}"),
            Rule::Near { absolute, relative, why } => format!("within {absolute:e} + {relative:e} of it, {why}"),
        };
        let (ours, triton) = (show(scalar, a), show(scalar, b));
        let (count, all) = (wrong.len(), pairs.len());
        Err((first, format!("{count} of {all} wrong; [{first}] is {ours}, Triton's {triton} ({rule})")))
    }
}
