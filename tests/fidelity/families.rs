//! Operands of tensor-core instructions, in families that each bring out something of the accumulation.

use crate::number::{Class, Exact, F32, Format, Rounding};
use crate::random::Random;
use crate::shapes::{Accumulator, Element, M, Matrices, N, Shape};

/// Warps of each family.
pub const WARPS: usize = 16;

/// How operands are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Small integers, whose sums are exact everywhere: wrong results mean wrong fragments.
    Integers,
    /// From −1 to 1.
    Uniform,
    /// Full significands with exponents close together.
    Narrow,
    /// Exponents far apart.
    Wide,
    /// Any finite code.
    Codes,
    /// Any code, one in eight of them zero, infinite or NaN.
    Special,
    /// Products that cancel nearly, and an accumulator that takes most of the rest.
    Cancelling,
    /// One large product and many just above and below the last bit of its grid.
    Huge,
    /// An accumulator far above, close to and below the products' grid.
    LargeAccumulator,
    /// Products and accumulators among the subnormals, and zeros.
    Subnormal,
    /// Sums about the largest number.
    Overflow,
    /// Positive products and a negative accumulator of like size, and the other way about.
    Opposed,
    /// Little but zeros of both signs.
    Zeros,
}

impl Family {
    /// Those that an instruction is given.
    pub fn of(shape: &Shape) -> &'static [Family] {
        use Family::{
            Cancelling, Codes, Huge, Integers, LargeAccumulator, Narrow, Opposed, Overflow, Special, Subnormal,
            Uniform, Wide, Zeros,
        };
        match shape.accumulator {
            Accumulator::Float(_) => &[
                Integers,
                Uniform,
                Narrow,
                Wide,
                Codes,
                Special,
                Cancelling,
                Huge,
                LargeAccumulator,
                Subnormal,
                Overflow,
                Opposed,
                Zeros,
            ],
            Accumulator::S32(_) => &[Integers, Codes, Overflow],
        }
    }

    /// The matrices of one warp.
    pub fn matrices(self, shape: &Shape, warp: usize) -> Matrices {
        let mut random = Random::new(&format!("{} {self:?}", shape.name()), warp as u64);
        match shape.accumulator {
            Accumulator::Float(format) => self.floats(shape, format, &mut random),
            Accumulator::S32(_) => self.words(shape, &mut random),
        }
    }

    fn words(self, shape: &Shape, random: &mut Random) -> Matrices {
        let small = self == Family::Integers;
        let extreme = self == Family::Overflow;
        let mut bytes = |count: usize| -> Vec<u32> {
            let code = |random: &mut Random| match (small, extreme) {
                (true, _) => (random.range(0, 7) as u8).into(),
                (_, true) => [0x80, 0x7f, 0xff][random.range(0, 2) as usize],
                _ => random.bits() as u8 as u32,
            };
            (0..count).map(|_| code(random)).collect()
        };
        let (a, b) = (bytes(M * shape.k), bytes(N * shape.k));
        let c = (0..M * N).map(|_| match (small, extreme) {
            (true, _) => random.range(-9, 9).cast_unsigned(),
            (_, true) => [i32::MAX, i32::MIN][random.range(0, 1) as usize].cast_unsigned() ^ random.bits() as u32 >> 12,
            _ => random.bits() as u32,
        });
        let c = c.collect();
        Matrices { a, b, c }
    }

    fn floats(self, shape: &Shape, format: Format, random: &mut Random) -> Matrices {
        let element = |element: Element, random: &mut Random, k: usize| self.element(element, random, k);
        let mut a: Vec<u32> = (0..M * shape.k).map(|at| element(shape.a, random, at % shape.k)).collect();
        let mut b: Vec<u32> = (0..N * shape.k).map(|at| element(shape.b, random, at % shape.k)).collect();
        if self == Family::Cancelling {
            // Neighbours along k are each other's negative, but for some.
            for at in (1..a.len()).step_by(2) {
                if !random.one_in(8) {
                    a[at] = a[at - 1] ^ 1 << (shape.a.bits() - 1);
                }
            }
            for at in (1..b.len()).step_by(2) {
                if !random.one_in(4) {
                    b[at] = b[at - 1];
                }
            }
        }
        let clear = |codes: &mut Vec<u32>, bits: usize| codes.iter_mut().for_each(|code| *code &= !(1 << (bits - 1)));
        if self == Family::Opposed {
            clear(&mut a, shape.a.bits());
        }
        if matches!(self, Family::Opposed | Family::Zeros) {
            clear(&mut b, shape.b.bits());
        }
        let mut matrices = Matrices { a, b, c: vec![0; M * N] };
        for at in 0..M * N {
            matrices.c[at] = self.accumulator(shape, format, &matrices, at, random);
        }
        matrices
    }

    fn element(self, element: Element, random: &mut Random, k: usize) -> u32 {
        let format = element.format();
        // The exponents of normal numbers.
        let (least, most) = (format.least(), F32.least().abs().min(-format.least()));
        let any = |random: &mut Random| random.bits() as u32 & (u32::MAX >> (32 - element.bits()));
        let value = match self {
            Family::Integers => f64::from(random.range(-4, 4)),
            Family::Zeros if random.one_in(80) => random.scaled(-1, 1),
            Family::Zeros if random.one_in(20) => 0.0,
            Family::Zeros => -0.0,
            Family::Uniform => random.unit(),
            Family::Narrow | Family::Opposed => random.scaled(-1, 1),
            Family::Wide => random.scaled((least / 2).max(-12), (most / 2).min(12)),
            Family::Cancelling => random.scaled(-3, 3),
            Family::Huge if k == 0 => random.scaled(most - 1, most - 1).abs().min(2.0_f64.powi(8)),
            Family::Huge if random.one_in(6) => 0.0,
            Family::Huge => random.scaled((least - 1).max(-11), 0),
            Family::LargeAccumulator => random.scaled(-2, 1),
            Family::Subnormal if random.one_in(6) => 0.0_f64.copysign(random.unit()),
            Family::Subnormal => random.scaled(least - format.significand as i32 + 1, least / 2 + 1),
            Family::Overflow => random.scaled(most / 2 - 2, most / 2),
            Family::Codes | Family::Special => {
                let mut code = any(random);
                if self == Family::Special && random.one_in(8) {
                    let sign = code & 1 << (element.bits() - 1);
                    let specials = [0, element.code(format.infinity()), element.code(format.nan()), 1];
                    return sign | specials[random.range(0, 3) as usize];
                }
                while !matches!(element.number(code, true, true).class, Class::Finite | Class::Zero) {
                    code = any(random);
                }
                return code;
            }
        };
        let code = element.nearest(value);
        // The bits of tf32 that do not count.
        if element == Element::Tf32
            && !matches!(self, Family::Integers | Family::Zeros)
            && code & 0x7f80_0000 != 0x7f80_0000
        {
            return code & !0x1fff | random.bits() as u32 & 0x1fff;
        }
        code
    }

    fn accumulator(self, shape: &Shape, format: Format, matrices: &Matrices, at: usize, random: &mut Random) -> u32 {
        let sum = |negate: bool| {
            let mut sum = Exact::default();
            let mut top = i32::MIN;
            for k in 0..shape.k {
                let a = shape.a.number(matrices.a[at / N * shape.k + k], false, true);
                let b = shape.b.number(matrices.b[at % N * shape.k + k], false, true);
                if a.class == Class::Finite && b.class == Class::Finite {
                    sum.add(a.negative ^ b.negative ^ negate, a.significand * b.significand, a.lsb + b.lsb);
                    top = top.max(a.exponent + b.exponent);
                }
            }
            (sum, top.max(format.least()))
        };
        let value = match self {
            Family::Integers => f64::from(random.range(-9, 9)),
            Family::Zeros if random.one_in(8) => random.scaled(-1, 1),
            Family::Zeros => 0.0_f64.copysign(random.unit()),
            Family::Uniform => random.unit() * 2.0,
            Family::Narrow => random.scaled(-2, 3),
            Family::Wide => random.scaled((format.least() + 2).max(-20), (-format.least() - 1).min(20)),
            Family::Huge if random.one_in(3) => 0.0_f64.copysign(random.unit()),
            Family::Huge => random.scaled((format.least() - 9).max(-22), 2),
            Family::LargeAccumulator => {
                let (_, top) = sum(false);
                random.scaled((top - 4).max(format.least() - 9), (top + 28).min(-format.least()))
            }
            Family::Subnormal if random.one_in(4) => 0.0_f64.copysign(random.unit()),
            Family::Subnormal => random.scaled(format.least() - format.significand as i32 + 1, format.least() + 4),
            Family::Overflow => random.scaled(-format.least() - 2, -format.least()),
            Family::Cancelling | Family::Opposed => {
                // The negated sum, with its last bits changed.
                let (negative, magnitude, lsb) = sum(true).0.parts();
                let code = format.encode(negative, magnitude, lsb, Rounding::TowardsZeroFinite);
                return if random.one_in(3) { code } else { code ^ random.bits() as u32 & 0x3f };
            }
            Family::Codes | Family::Special => {
                let mask = u32::MAX >> (31 - format.significand - format.exponent);
                let mut code = random.bits() as u32 & mask;
                if self == Family::Special && random.one_in(8) {
                    return [0, format.infinity(), format.nan(), 1][random.range(0, 3) as usize];
                }
                while matches!(format.decode(code).class, Class::Infinite | Class::Nan) {
                    code = random.bits() as u32 & mask;
                }
                return code;
            }
        };
        format.nearest(value)
    }
}
