//! Loads that run ahead of their use (`num_stages`): how far, where they do not, and on the emulator with all checks on that what they bring
//! is right: sums of whole numbers are exact.
#![cfg(feature = "llvm")]

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tilewright::compile::{Compiled, Options, compile};
use tilewright::emulate::{Kernel, LaunchConfig, Memory, Options as EmulateOptions, launch};
use tilewright::ptx::Arch;
use tilewright::tile::Scalar::{self, F16, F32, I32};
use tilewright::tile::build::{Dot, KernelBuilder, Tile, boundary};
use tilewright::tile::{float_bits, simplify::simplify};

/// What a kernel does with a (side×k) and b (side×k) to make c = a·bᵀ, 64 (or fewer) of k a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// By block pointers, which the loop carries.
    Blocks,
    /// The same, and each turn writes the sum.
    Writes,
    /// By addresses without a mask, from the loop's own counter, which runs from an argument to another.
    Counted,
    /// Twice the sum: a loop within a loop, which both have loads ahead.
    Nested,
    /// As `Blocks`; the loop says 2 stages itself.
    Told,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    form: Form,
    scalar: Scalar,
    side: u32,
    step: u32,
    arch: Arch,
    warps: u32,
    stages: u32,
}

/// One turn: what is to be read next, and the sum.
fn turn<'k>(t: &'k KernelBuilder, step: u32, [a, b, sum]: [Tile<'k>; 3]) -> [Tile<'k>; 3] {
    let [x, y] = [a, b].map(|block| t.load_with(block, boundary(&[0, 1])));
    [a.advance((0, step)), b.advance((0, step)), t.dot_with(x, y.trans(), Dot::onto(sum))]
}

impl Case {
    fn new(form: Form, arch: Arch) -> Self {
        Self { form, scalar: F16, side: 64, step: 64, arch, warps: 4, stages: 3 }
    }

    fn compiled(&self) -> Compiled {
        let Self { form, scalar, side, step, .. } = *self;
        let t = KernelBuilder::new("product");
        let (a, b, c) = (t.pointer("a", scalar), t.pointer("b", scalar), t.pointer("c", F32));
        let [k, first, end] = ["k", "first", "end"].map(|name| t.scalar_by_16(name, I32));
        let [x, y] = [a, b].map(|from| t.make_block_ptr(from, (side, k), (k, 1), (0, 0), &[side, step], &[1, 0]));
        let out = t.make_block_ptr(c, (side, side), (side, 1), (0, 0), &[side, side], &[1, 0]);
        let zeros = t.zeros(&[side, side], F32);
        let sum = match form {
            Form::Blocks => t.range(0, k, step, [x, y, zeros], |_, state| turn(&t, step, state))[2],
            Form::Told => {
                let bounds = [0.into(), k.into(), step.into()];
                t.range_staged(Some(2), bounds, [x, y, zeros], |_, state| turn(&t, step, state))[2]
            }
            Form::Writes => {
                let state = t.range(0, k, step, [x, y, zeros], |_, state| {
                    let state = turn(&t, step, state);
                    t.store_with(out, state[2], boundary(&[0, 1]));
                    state
                });
                state[2]
            }
            Form::Counted => {
                let (rows, columns) = (t.arange(0, side as i32), t.arange(0, step as i32));
                let [sum] = t.range(first, end, step, [zeros], |counter, [sum]| {
                    let at = rows.col() * k + (columns + (counter - first)).row();
                    [t.dot_with(t.load(a + at), t.load(b + at).trans(), Dot::onto(sum))]
                });
                sum
            }
            Form::Nested => {
                let state = [x, y, zeros, zeros];
                let [_, _, outer, inner] = t.range(0, k, step, state, |at, [own_x, own_y, outer, inner]| {
                    // All of it in the first turn, nothing in the others; then the outer's own product.
                    let end = t.where_(at.eq(0), k, 0);
                    let [_, _, inner] = t.range(0, end, step, [x, y, inner], |_, state| turn(&t, step, state));
                    let [own_x, own_y, outer] = turn(&t, step, [own_x, own_y, outer]);
                    [own_x, own_y, outer, inner]
                });
                outer + inner
            }
        };
        t.store_with(out, sum, boundary(&[0, 1]));
        let mut func = t.finish().unwrap_or_else(|error| panic!("{self:?}: {error}"));
        simplify(&mut func);
        let options = Options { num_warps: self.warps, num_stages: self.stages, ..Options::new(self.arch) };
        compile(&func, &options).unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }
}

impl Case {
    /// Runs it for this k, where `Counted` counts from `first`, and holds c to the sums. Memory ends where a and b do.
    fn check(&self, k: u32, first: i32) {
        let made = self.compiled();
        let name = format!("{self:?}, k = {k}");
        let side = self.side as usize;
        let mut random = StdRng::seed_from_u64(u64::from(k));
        let mut matrix = || -> Vec<i32> { (0..side * k as usize).map(|_| random.random_range(-3..=3)).collect() };
        let (a, b) = (matrix(), matrix());
        let memory = Memory::new();
        let bytes = self.scalar.bytes() as usize;
        let put = |data: &[i32], label: &str| {
            let bits = |&value: &i32| float_bits(self.scalar, f64::from(value)).unwrap();
            let data: Vec<u8> =
                data.iter().flat_map(|value| bits(value).to_le_bytes().into_iter().take(bytes)).collect();
            let at = memory.alloc(data.len().max(16) as u64, label).unwrap();
            memory.write(at, &data).unwrap();
            at
        };
        let (a_at, b_at) = (put(&a, "a"), put(&b, "b"));
        let c_at = memory.alloc((4 * side * side) as u64, "c").unwrap();
        let mut params: Vec<u8> = [a_at, b_at, c_at].iter().flat_map(|address| address.to_le_bytes()).collect();
        params.extend([k as i32, first, first + k as i32].iter().flat_map(|value| value.to_le_bytes()));
        // Triton's two scratch pointers, null, behind padding.
        params.resize(params.len().next_multiple_of(8) + 16, 0);
        let kernel = Kernel::new(&made.ptx, None).unwrap();
        let config = LaunchConfig {
            grid: [1, 1, 1],
            block: kernel.required_block().unwrap(),
            dynamic_shared: made.meta.shared,
            ..LaunchConfig::default()
        };
        launch(&kernel, &config, &params, &memory, &EmulateOptions::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut found = vec![0; 4 * side * side];
        memory.read(c_at, &mut found).unwrap();
        let times = if self.form == Form::Nested { 2 } else { 1 };
        for (place, found) in found.chunks(4).enumerate() {
            let (row, column) = (place / side * k as usize, place % side * k as usize);
            let sum: i32 = (0..k as usize).map(|at| a[row + at] * b[column + at]).sum();
            let found = f32::from_le_bytes(found.try_into().unwrap());
            assert_eq!(found, (times * sum) as f32, "{name}: at {place}");
        }
    }
}

/// How often the text commits copies: before the loop for every stage but one, and once in it.
fn commits(made: &Compiled) -> u32 {
    made.ptx.matches("cp.async.commit_group").count() as u32
}

#[test]
fn loads_are_ahead_by_the_stages_that_are_asked_for() {
    for arch in Arch::ALL {
        let case = Case::new(Form::Blocks, arch);
        assert!(!Case { stages: 1, ..case }.compiled().ptx.contains("cp.async"));
        for stages in [2, 3, 4] {
            let made = Case { stages, ..case }.compiled();
            assert!(made.ptx.contains(&format!("cp.async.wait_group {};", stages - 2)), "{arch:?}, {stages}");
            assert_eq!(commits(&made), stages, "{arch:?}, {stages}");
        }
        for stages in [1, 3] {
            assert_eq!(commits(&Case { form: Form::Told, stages, ..case }.compiled()), 2, "{arch:?}");
        }
    }
}

#[test]
fn no_load_overtakes_a_write() {
    for arch in Arch::ALL {
        let case = Case::new(Form::Writes, arch);
        assert!(!case.compiled().ptx.contains("cp.async"));
        case.check(160, 0);
    }
}

/// 32 KB a stage: 16 do not fit anywhere.
#[test]
fn there_are_as_many_stages_as_have_room() {
    for arch in Arch::ALL {
        let made = Case { side: 128, stages: 16, ..Case::new(Form::Blocks, arch) }.compiled();
        assert!((3..8).contains(&commits(&made)), "{arch:?}: {}", commits(&made));
        assert!(made.meta.shared <= arch.max_shared_bytes());
    }
}

/// No turn, fewer turns than stages, a last turn that k ends in, and many; of singles as well, and with more warps.
#[test]
fn sums_are_right_however_many_turns_there_are() {
    for arch in Arch::ALL {
        let case = Case::new(Form::Blocks, arch);
        for stages in [2, 3, 4] {
            for k in [0, 16, 64, 128, 272, 512] {
                Case { stages, ..case }.check(k, 0);
            }
        }
        Case { scalar: F32, step: 32, ..case }.check(144, 0);
        Case { warps: 8, side: 128, ..case }.check(144, 0);
        Case { side: 32, ..case }.check(144, 0);
        Case { form: Form::Told, ..case }.check(272, 0);
    }
}

/// Each loop has buffers of its own while the one around it has loads on their way.
#[test]
fn loops_within_each_other_keep_their_buffers_apart() {
    for arch in Arch::ALL {
        let case = Case::new(Form::Nested, arch);
        assert_eq!(commits(&case.compiled()), 6, "{arch:?}: both loops have loads ahead");
        case.check(272, 0);
    }
}

/// Turns that there are not must not be loaded for, even where the counter of one would no longer be a number of 32 bits.
#[test]
fn counters_may_end_where_numbers_do() {
    for arch in Arch::ALL {
        let case = Case { stages: 4, ..Case::new(Form::Counted, arch) };
        assert_eq!(commits(&case.compiled()), 4, "{arch:?}");
        case.check(192, 0);
        // The last counter is 64 below the end, the one after it the end itself; another step would pass the largest number.
        case.check(192, i32::MAX - 15 - 192);
    }
}
