//! What buffers hold before a launch, by the name of a distribution:
//!
//! | name | elements |
//! |---|---|
//! | `any` | random bits; among them every edge of the type: zeros, infinities, NaN, subnormals, extremes |
//! | `normal` | the normal distribution of deviation 1 |
//! | `whole:a:b` | whole numbers from a to b |
//! | `real:a:b` | reals from a to b |
//! | `pattern` | bytes that show what was not written |

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::StandardNormal;
use tilewright::tile::{Scalar, float_bits, int_bits};

/// The edges of a float type of `bits` with `mantissa` bits: zero, least and largest subnormal, least normal, one and its neighbours,
/// largest, infinity, NaN; of each sign.
fn float_edges(bits: u32, mantissa: u32, one: u64) -> Vec<u64> {
    let sign = 1 << (bits - 1);
    let infinity = (sign - 1) >> mantissa << mantissa;
    let least = 1 << mantissa;
    let all = [0, 1, least - 1, least, one - 1, one, one + 1, infinity - 1, infinity, infinity | 1 << (mantissa - 1)];
    all.into_iter().flat_map(|edge| [edge, edge | sign]).collect()
}

fn edges(scalar: Scalar) -> Vec<u64> {
    match scalar {
        Scalar::F16 => float_edges(16, 10, 0x3c00),
        Scalar::Bf16 => float_edges(16, 7, 0x3f80),
        Scalar::F32 => float_edges(32, 23, 0x3f80_0000),
        Scalar::F64 => float_edges(64, 52, 0x3ff0_0000_0000_0000),
        Scalar::F8E4M3 => float_edges(8, 3, 0x38),
        Scalar::F8E5M2 => float_edges(8, 2, 0x3c),
        scalar => {
            let top = 1_u64 << (scalar.bits() - 1);
            [0, 1, 2, u64::MAX, top, top - 1, top + 1].into_iter().map(|bits| int_bits(scalar, bits as i64)).collect()
        }
    }
}

fn number(scalar: Scalar, value: f64) -> u64 {
    float_bits(scalar, value).unwrap_or_else(|| int_bits(scalar, value as i64))
}

/// `count` elements of `scalar`, as bytes.
pub fn fill(name: &str, scalar: Scalar, count: usize, seed: u64) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut parts = name.split(':');
    let kind = parts.next().unwrap_or_default();
    let limits: Vec<f64> = parts.map(|part| part.parse().unwrap()).collect();
    let edges = edges(scalar);
    let mut all = Vec::new();
    for index in 0..count {
        let bits = match kind {
            "pattern" => {
                0xa5a5_a5a5_a5a5_a5a5_u64 >> (64 - 8 * scalar.bytes()) & if scalar == Scalar::I1 { 1 } else { u64::MAX }
            }
            // Edges meet each other: two buffers of one kernel go through them in other orders.
            "any" if index % 3 == 0 => edges[random.random_range(0..edges.len())],
            "any" if index % 3 == 1 && scalar.is_float() => {
                let size: f64 = random.sample(StandardNormal);
                number(scalar, size * random.random_range(-4.0_f64..4.0).exp2())
            }
            "any" => int_bits(Scalar::I64, random.random::<i64>()) & (u64::MAX >> (64 - scalar.bits())),
            "normal" => number(scalar, random.sample(StandardNormal)),
            "whole" => number(scalar, random.random_range(limits[0] as i64..=limits[1] as i64) as f64),
            "real" => number(scalar, random.random_range(limits[0]..=limits[1])),
            _ => panic!("a case asks for `{name}`"),
        };
        all.extend(&bits.to_le_bytes()[..scalar.bytes() as usize]);
    }
    all
}
