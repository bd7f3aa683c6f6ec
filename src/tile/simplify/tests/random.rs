//! Random programs: what they write must not change when they are simplified.

use proptest::prelude::*;

use super::interpret::{Memory, run};
use crate::tile::Scalar::{F32, I32, I64};
use crate::tile::build::{KernelBuilder, Tile, mask};
use crate::tile::verify::verify;
use crate::tile::{Func, simplify};

/// Writes a program from a list of choices.
struct Writer<'k, 'c> {
    k: &'k KernelBuilder,
    choices: std::slice::Iter<'c, u8>,
    out: Tile<'k>,
    stores: i32,
}

/// What there is to choose from: scalars, tiles of 4×8 integers, tiles of 4×8 floats.
#[derive(Clone)]
struct Pools<'k> {
    scalars: Vec<Tile<'k>>,
    ints: Vec<Tile<'k>>,
    floats: Vec<Tile<'k>>,
}

impl<'k> Writer<'k, '_> {
    fn choice(&mut self, of: usize) -> usize {
        self.choices.next().map_or(0, |&choice| choice as usize % of)
    }

    fn pick(&mut self, pool: &[Tile<'k>]) -> Tile<'k> {
        // The newest most often, so that chains grow.
        pool[pool.len() - 1 - self.choice(2) * self.choice(pool.len().min(6))]
    }

    fn literal(&mut self) -> i32 {
        [0, 1, -1, 2, 3, 31, i32::MAX, 8][self.choice(8)]
    }

    fn integer(&mut self, pool: &[Tile<'k>]) -> Tile<'k> {
        let (a, b, c) = (self.pick(pool), self.pick(pool), self.literal());
        let divisor = [1, 2, 3, -5][self.choice(4)];
        match self.choice(20) {
            0 => a + b,
            1 => a - b,
            2 => a * b,
            3 => a + c,
            4 => a - c,
            5 => c - a,
            6 => a * c,
            7 => a & c,
            8 => a | c,
            9 => a ^ c,
            10 => a / divisor,
            11 => a % divisor,
            12 => a.minimum(b),
            13 => a.maximum(c),
            14 => a << (c & 7),
            15 => a >> (c & 7),
            16 => self.k.where_(a.lt(b), a, c),
            17 => self.k.where_(!a.eq(c), b, a),
            18 => a.to(I64).to(I32),
            _ => a.ge(c).to(I32),
        }
    }

    fn float(&mut self, pools: &Pools<'k>) -> Tile<'k> {
        let (a, b) = (self.pick(&pools.floats), self.pick(&pools.floats));
        let c = [0.0, -0.0, 1.0, -1.0, 0.5, f64::INFINITY][self.choice(6)];
        let (int, scalar) = (self.pick(&pools.ints), self.pick(&pools.scalars));
        match self.choice(13) {
            0 => a + b,
            1 => a - b,
            2 => a * b,
            3 => a + c,
            4 => a - c,
            5 => a * c,
            6 => c - a,
            7 => self.k.where_(int.gt(scalar), a, b),
            8 => self.k.where_(a.lt(c), a, b),
            9 => a.trans().reshape(&[4, 8]),
            10 => a.sum(0).row().broadcast_to(&[4, 8]),
            11 => a.sum(1).col() * b,
            _ => int.to(F32) + scalar.to(F32),
        }
    }

    fn store(&mut self, pools: &Pools<'k>) {
        let offsets = self.k.arange(0, 4).col() * 8 + self.k.arange(0, 8).row() + self.stores * 32;
        self.stores += 1;
        let (value, bound, int) = (self.pick(&pools.floats), self.literal(), self.pick(&pools.ints));
        match self.choice(3) {
            0 => self.k.store(self.out + offsets, value),
            1 => self.k.store_with(self.out + offsets, value, mask(int.lt(bound))),
            _ => self.k.store_with(self.out + offsets, value + int, mask(bound > 1)),
        }
    }

    /// Some statements; what is made in them is added to the pools.
    fn body(&mut self, pools: &mut Pools<'k>, depth: u32) {
        for _ in 0..3 + self.choice(6) {
            match self.choice(if depth < 2 { 12 } else { 9 }) {
                0 | 1 => pools.scalars.push(self.integer(&pools.scalars.clone())),
                2..=4 => pools.ints.push(self.integer(&pools.ints.clone())),
                5 | 6 => pools.floats.push(self.float(pools)),
                7 => {
                    let value = self.pick(&pools.scalars);
                    pools.ints.push(value + self.k.arange(0, 8).row() * self.k.arange(0, 4).col());
                }
                8 => self.store(pools),
                9 | 10 => self.repeat(pools, depth),
                _ => self.decide(pools, depth),
            }
        }
    }

    fn repeat(&mut self, pools: &mut Pools<'k>, depth: u32) {
        let (low, turns) = (self.literal() & 7, self.choice(4) as i32);
        let init = [self.pick(&pools.scalars), self.pick(&pools.ints), self.pick(&pools.floats)];
        let carry = self.choice(8);
        let k = self.k;
        let results = k.range(low, low + turns, 1, init, |i, [scalar, int, float]| {
            let mut inner = pools.clone();
            inner.scalars.extend([scalar, i]);
            inner.ints.push(int);
            inner.floats.push(float);
            self.body(&mut inner, depth + 1);
            let next = [self.pick(&inner.scalars), self.pick(&inner.ints), self.pick(&inner.floats)];
            // Sometimes handed on as it came, sometimes as it started.
            match carry {
                0 => [scalar, next[1], float],
                1 => [init[0], int, next[2]],
                _ => next,
            }
        });
        pools.scalars.push(results[0]);
        pools.ints.push(results[1]);
        pools.floats.push(results[2]);
    }

    fn decide(&mut self, pools: &mut Pools<'k>, depth: u32) {
        let (a, c) = (self.pick(&pools.scalars), self.literal());
        let condition = if self.choice(5) == 0 { self.k.constant(c > 0, crate::tile::Scalar::I1) } else { a.lt(c) };
        let old = [self.pick(&pools.ints), self.pick(&pools.floats)];
        let results = self.k.update_if(condition, old, |[_, float]| {
            let mut inner = pools.clone();
            self.body(&mut inner, depth + 1);
            let int = self.pick(&inner.ints);
            [int, if self.choice(3) == 0 { float } else { self.pick(&inner.floats) }]
        });
        pools.ints.push(results[0]);
        pools.floats.push(results[1]);
    }
}

/// The bits of an integer as a float, so that one array takes all.
fn as_float(value: Tile<'_>) -> Tile<'_> {
    value.bitcast(F32)
}

fn program(choices: &[u8]) -> Func {
    let k = KernelBuilder::new("random");
    let (input, out, n) = (k.pointer("input", F32), k.pointer("out", F32), k.scalar("n", I32));
    let offsets = k.arange(0, 4).col() * 8 + k.arange(0, 8).row();
    let mut pools = Pools {
        scalars: vec![n, k.program_id(0)],
        ints: vec![offsets, offsets + n],
        floats: vec![k.load(input + offsets)],
    };
    let mut writer = Writer { k: &k, choices: choices.iter(), out, stores: 0 };
    writer.body(&mut pools, 0);
    if writer.choice(3) == 0 {
        let (a, c) = (writer.pick(&pools.scalars), writer.literal());
        k.return_if(a.gt(c));
        writer.body(&mut pools, 0);
    }
    // All that was made is seen.
    for (index, value) in pools.ints.iter().chain(&pools.floats).enumerate() {
        k.store(out + (1 << 20) + index as i32 * 32 + offsets, as_float(*value));
    }
    for (index, &value) in pools.scalars.iter().enumerate() {
        k.store(out + (1 << 21) + index as i32, as_float(value));
    }
    k.finish().unwrap_or_else(|error| panic!("{error}"))
}

/// Memory with one NaN: which payload a sum of two NaNs has depends on their order.
fn with_one_nan(memory: Memory) -> Memory {
    let canonical = |bits: u64| if f32::from_bits(bits as u32).is_nan() { f32::NAN.to_bits().into() } else { bits };
    memory.into_iter().map(|(address, bits)| (address, canonical(bits))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_does_not_change(choices in prop::collection::vec(any::<u8>(), 20..400), n in -3..40_i32) {
        let func = program(&choices);
        prop_assert!(verify(&func).is_ok());
        let params = [1 << 32, 2 << 32, u64::from(n as u32)];
        let before = with_one_nan(run(&func, &params));
        let mut simple = func.clone();
        simplify::simplify(&mut simple);
        if let Err(errors) = verify(&simple) {
            prop_assert!(false, "{}", errors[0]);
        }
        prop_assert!(simple.all_ops().len() <= func.all_ops().len() + 8);
        prop_assert_eq!(before, with_one_nan(run(&simple, &params)));
    }
}
