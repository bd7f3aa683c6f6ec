//! Operands: their registers, their edge values, and random ones.

use crate::number::{BF16, E4M3, E5M2, F16, F32, Format};
use crate::random::Random;

/// What an operand or a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer of 8, 16, 32 or 64 bits; bytes lie in registers of 32 bits, whose other bits are noise.
    Int(u32),
    /// A float.
    Float(Format),
    /// A double.
    Double,
    /// A pair of floats.
    Pair(Format),
    /// A shift count, a position, a length: about the widths of registers, and anything.
    Count,
    /// The third operand of a shuffle: a clamp, and a mask of segments.
    Clamp,
    /// Lanes of a warp, never none, the same in all of its threads.
    Lanes,
    /// Few values, so that lanes agree.
    Few,
}

impl Kind {
    /// By the name that the table has.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "u8" | "s8" => Kind::Int(8),
            "u16" | "s16" | "b16" => Kind::Int(16),
            "u32" | "s32" | "b32" | "u16x2" | "s16x2" => Kind::Int(32),
            "u64" | "s64" | "b64" => Kind::Int(64),
            "f16" => Kind::Float(F16),
            "bf16" => Kind::Float(BF16),
            "f32" | "tf32" => Kind::Float(F32),
            "f64" => Kind::Double,
            "f16x2" => Kind::Pair(F16),
            "bf16x2" => Kind::Pair(BF16),
            "e4m3x2" => Kind::Pair(E4M3),
            "e5m2x2" => Kind::Pair(E5M2),
            "count" => Kind::Count,
            "clamp" => Kind::Clamp,
            "lanes" => Kind::Lanes,
            "few" => Kind::Few,
            _ => return None,
        })
    }

    /// Bits of its register.
    pub fn bits(self) -> u32 {
        match self {
            Kind::Int(bits) => bits.max(16).max(if bits == 8 { 32 } else { 0 }),
            Kind::Float(format) => 1 + format.significand + format.exponent,
            Kind::Double => 64,
            Kind::Pair(format) => 2 * (1 + format.significand + format.exponent),
            Kind::Count | Kind::Clamp | Kind::Lanes | Kind::Few => 32,
        }
    }

    /// Bits of what varies: all values of up to 16 are tried.
    pub fn exhaustive(self) -> Option<u64> {
        match self {
            Kind::Int(bits @ ..=16) => Some(1 << bits),
            kind if kind.bits() == 16 => Some(1 << 16),
            _ => None,
        }
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// The values that matter most, most important first.
    pub fn edges(self) -> Vec<u64> {
        let values = match self {
            Kind::Int(bits) => integer_edges(bits),
            Kind::Float(format) => float_edges(format),
            Kind::Double => double_edges(),
            Kind::Pair(format) => {
                let singles = float_edges(format);
                let width = self.bits() / 2;
                // Each edge in each half, with another edge beside it.
                let beside = |index: usize| singles[(index * 7 + 3) % singles.len()];
                singles.iter().enumerate().map(|(index, value)| value << width | beside(index)).collect()
            }
            Kind::Count => {
                vec![0, 1, 31, 32, 33, 63, 64, 65, 15, 16, 17, 255, 256, 257, u64::from(u32::MAX), 1 << 31, 7, 8, 24]
            }
            Kind::Clamp => vec![0x1f, 0, 0x1c03, 0x181f, 0x0f1f, 0x1f1f],
            Kind::Lanes => vec![u64::from(u32::MAX)],
            Kind::Few => vec![0, 1, u64::from(u32::MAX)],
        };
        values.into_iter().map(|value| value & self.mask()).collect()
    }

    /// A random value; `warp` is what lanes of a warp share.
    pub fn random(self, random: &mut Random, warp: u64) -> u64 {
        let bits = random.bits();
        let value = match self {
            Kind::Int(width) => match random.range(0, 3) {
                // As many bits as chance has it, of either sign.
                0 => bits >> random.range(64 - width as i32, 63),
                1 => !(bits >> random.range(64 - width as i32, 63)),
                _ => bits,
            },
            Kind::Float(format) => float_random(format, random),
            Kind::Double => match random.range(0, 3) {
                0 => bits,
                1 => (f64::from(random.range(-100_000, 100_000)) * 0.5).to_bits(),
                _ => random.scaled(-8, 8).to_bits(),
            },
            Kind::Pair(format) => float_random(format, random) << (self.bits() / 2) | float_random(format, random),
            Kind::Count if random.one_in(4) => bits,
            Kind::Count => bits % 70,
            Kind::Clamp => bits & 0x1f1f,
            Kind::Lanes => {
                (Random::new("lanes", warp).bits() & Random::new("fewer", warp % 5).bits()) | 1 << (warp % 32)
            }
            Kind::Few => bits % 3,
        };
        value & self.mask()
    }
}

fn integer_edges(bits: u32) -> Vec<u64> {
    let top = 1_u64 << (bits - 1);
    let all = u64::MAX >> (64 - bits);
    let half = all >> (bits / 2);
    vec![
        0,
        1,
        all,
        top,
        top - 1,
        2,
        all - 1,
        top + 1,
        half,
        half + 1,
        7,
        all - 6,
        0x5555_5555_5555_5555,
        10,
        3,
        top | 1,
    ]
}

/// NaNs quiet and signalling, infinities, zeros, subnormals, ones, the largest, the smallest normal, halves, thirds, large
/// integers and what is next to them.
fn float_edges(format: Format) -> Vec<u64> {
    let Format { significand, exponent, .. } = format;
    let sign = 1_u64 << (significand + exponent);
    let infinity = u64::from(format.infinity());
    let code = |value: f64| u64::from(format.nearest(value));
    let normal = 1_u64 << significand;
    let quiet = infinity | 1 << (significand - 1);
    let positive = [
        0,
        code(1.0),
        infinity,
        quiet,
        1,
        infinity - 1,
        normal,
        infinity | 1,
        code(0.5),
        normal - 1,
        code(1.5),
        code(2.0),
        code(1.0) + 1,
        code(1.0) - 1,
        sign - 1,
        quiet | 5,
        code(2.5),
        code(3.0),
        code(1.0 / 3.0),
        normal + 1,
        normal >> 1,
        normal * 2,
        infinity - 2,
        code(2.0_f64.powi(significand as i32)),
        code(2.0_f64.powi(significand as i32 + 1)) - 1,
        code(127.5),
        code(2.0_f64.powi(31)),
        code(2.0_f64.powi(63)),
        code(255.5),
        code(65504.0),
        code(448.0),
        code(464.0),
        code(57344.0),
        code(61440.0),
        code(3.0 * 2.0_f64.powi(14)),
        code(2.0_f64.powi(-25)),
        code(2.0_f64.powi(-10)),
        code(std::f64::consts::FRAC_PI_2),
        code(100.0),
        code(-format.least() as f64),
    ];
    positive.iter().flat_map(|&value| [value & (sign - 1), value & (sign - 1) | sign]).collect()
}

fn float_random(format: Format, random: &mut Random) -> u64 {
    let mask = u64::MAX >> (63 - format.significand - format.exponent);
    let value = match random.range(0, 3) {
        0 => return random.bits() & mask,
        1 => f64::from(random.range(-70_000, 70_000)) * 0.5,
        _ => random.scaled(-6, 6),
    };
    u64::from(format.nearest(value))
}

fn double_edges() -> Vec<u64> {
    let sign = 1_u64 << 63;
    let positive = [
        0.0_f64.to_bits(),
        1.0_f64.to_bits(),
        f64::INFINITY.to_bits(),
        0x7ff8_0000_0000_0000,
        1,
        f64::MAX.to_bits(),
        f64::MIN_POSITIVE.to_bits(),
        0x7ff0_0000_0000_0001,
        0.5_f64.to_bits(),
        f64::MIN_POSITIVE.to_bits() - 1,
        1.5_f64.to_bits(),
        2.0_f64.to_bits(),
        1.0_f64.to_bits() + 1,
        1.0_f64.to_bits() - 1,
        0x7fff_ffff_ffff_ffff,
        0x7ff8_0000_dead_beef,
        2.5_f64.to_bits(),
        3.0_f64.to_bits(),
        (1.0_f64 / 3.0).to_bits(),
        f64::from(f32::MAX).to_bits(),
        f64::from(f32::MAX).to_bits() + (1 << 28),
        f64::from(f32::MAX).to_bits() + (1 << 28) - 1,
        f64::from(f32::MIN_POSITIVE).to_bits(),
        f64::from(f32::MIN_POSITIVE).to_bits() - 1,
        2.0_f64.powi(-149).to_bits(),
        2.0_f64.powi(-150).to_bits(),
        2.0_f64.powi(-150).to_bits() + 1,
        2.0_f64.powi(31).to_bits(),
        2147483647.5_f64.to_bits(),
        2.0_f64.powi(63).to_bits(),
        2.0_f64.powi(64).to_bits() - 1,
        2.0_f64.powi(52).to_bits(),
        65504.0_f64.to_bits(),
        65520.0_f64.to_bits(),
        65519.999_f64.to_bits(),
        2.0_f64.powi(-25).to_bits(),
        (1.0 + 2.0_f64.powi(-11)).to_bits(),
        (1.0 + 2.0_f64.powi(-24)).to_bits() + 1,
        255.5_f64.to_bits(),
        1e300_f64.to_bits(),
        1e-300_f64.to_bits(),
    ];
    positive.iter().flat_map(|&value| [value, value | sign]).collect()
}

/// The cases of an instruction: for each its operands. A multiple of `warp` cases, which is the last repeated.
pub fn cases(name: &str, kinds: &[Kind]) -> Vec<Vec<u64>> {
    let mut random = Random::new(name, 0);
    let collective = kinds.iter().any(|kind| matches!(kind, Kind::Lanes | Kind::Few | Kind::Clamp));
    let mut all: Vec<Vec<u64>> = Vec::new();
    let alone = if let [only] = kinds { only.exhaustive() } else { None };
    if let Some(count) = alone {
        all.extend((0..count).map(|value| {
            // The bits of a register above a byte are not the operand's.
            let noise = if kinds == [Kind::Int(8)] { random.bits() as u32 as u64 & !0xff } else { 0 };
            vec![value | noise]
        }));
    } else if !collective {
        // How many edges of each operand are crossed: all of one, few of many.
        let most = [usize::MAX, 36, 13, 7][kinds.len().clamp(1, 4) - 1];
        all.push(Vec::new());
        for kind in kinds {
            let edges: Vec<u64> = kind.edges().into_iter().take(most).collect();
            all = all.iter().flat_map(|case| edges.iter().map(|&edge| [&case[..], &[edge]].concat())).collect();
        }
    }
    let randoms = match (alone, kinds.len()) {
        (Some(_), _) => 0,
        (None, 1) => 6_000,
        _ => 9_000,
    };
    for index in 0..randoms {
        let warp = (all.len() / 32) as u64;
        let edgy = index % 4 == 3 && !collective;
        all.push(
            kinds
                .iter()
                .map(|kind| {
                    let edges = if edgy && random.one_in(2) { kind.edges() } else { Vec::new() };
                    match edges.len() {
                        0 => kind.random(&mut random, warp),
                        count => edges[(random.bits() % count as u64) as usize],
                    }
                })
                .collect(),
        );
    }
    // Close operands, whose differences cancel.
    if let [first, second, ..] = kinds
        && first == second
        && matches!(first, Kind::Float(_) | Kind::Double)
    {
        for index in (1..all.len()).step_by(9) {
            let sign = 1 << (first.bits() - 1);
            let near = all[index][0].wrapping_add(random.range(-3, 3) as i64 as u64) & first.mask();
            all[index][1] = if random.one_in(2) { near } else { near ^ sign };
        }
    }
    let padded = all.len().next_multiple_of(128);
    if let Some(last) = all.last().cloned() {
        all.resize(padded, last);
    }
    all
}

/// The distance of two results in units of the last place; the greatest where one is no number and the other is.
pub fn distance(kind: Kind, a: u64, b: u64) -> u64 {
    let ordered = |bits: u64, width: u32, infinity: u64| -> Option<i128> {
        let sign = 1_u64 << (width - 1);
        let magnitude = bits & (sign - 1);
        (magnitude <= infinity).then(|| if bits & sign != 0 { -i128::from(magnitude) } else { i128::from(magnitude) })
    };
    let float =
        |a: u64, b: u64, width: u32, infinity: u64| match (ordered(a, width, infinity), ordered(b, width, infinity)) {
            (None, None) => 0,
            (Some(a), Some(b)) => a.abs_diff(b).min(u128::from(u64::MAX)) as u64,
            _ => u64::MAX,
        };
    match kind {
        Kind::Float(format) => float(a, b, kind.bits(), format.infinity().into()),
        Kind::Double => float(a, b, 64, f64::INFINITY.to_bits()),
        Kind::Pair(format) => {
            let width = kind.bits() / 2;
            let part = |value: u64, place: u32| value >> (place * width) & (u64::MAX >> (64 - width));
            (0..2).map(|at| float(part(a, at), part(b, at), width, format.infinity().into())).max().unwrap_or(0)
        }
        _ => a.abs_diff(b),
    }
}

/// The value of a float, for bounds that are absolute; of the first of a pair that `high` chooses.
pub fn value(kind: Kind, bits: u64, high: bool) -> f64 {
    let of = |format: Format, code: u64| {
        let number = format.decode(code as u32);
        let magnitude = number.significand as f64 * 2.0_f64.powi(number.lsb);
        match number.class {
            crate::number::Class::Nan => f64::NAN,
            crate::number::Class::Infinite => f64::INFINITY.copysign(if number.negative { -1.0 } else { 1.0 }),
            _ if number.negative => -magnitude,
            _ => magnitude,
        }
    };
    match kind {
        Kind::Float(format) => of(format, bits),
        Kind::Double => f64::from_bits(bits),
        Kind::Pair(format) => {
            of(format, bits >> if high { kind.bits() / 2 } else { 0 } & (u64::MAX >> (64 - kind.bits() / 2)))
        }
        _ => bits as f64,
    }
}
