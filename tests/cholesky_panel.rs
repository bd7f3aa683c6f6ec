//! The panel step of the factorisation of large matrices, `panel_solve`: X = B·L⁻ᵀ, its shadow, the rows' scales, zeros above.
//!
//! On the emulator with all checks on, for every target, or on the GPU with `TILEWRIGHT_DEVICE=gpu`.

mod support;

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::StandardNormal;
use support::batch::UNTOUCHED;
use tilewright::device::{self, Arg, Buffer, Device, EmulatedDevice, f16};
use tilewright::ptx;
use tilewright::template::PanelSolve;

/// Order of the block, of the blocks on its diagonal that are inverted, and columns of a tile of the shadow.
const NB: usize = 128;
const B: usize = 32;
const TILE_K: usize = 64;

/// What is solved, and how it lies.
#[derive(Clone, Copy, Debug)]
struct Case {
    n: usize,
    k: usize,
    batch: usize,
    k_tiles: usize,
    first_k: usize,
    /// Elements after each row, and before the first.
    gap: usize,
    offset: usize,
    in_place: bool,
}

impl Case {
    fn of(n: usize, k: usize) -> Self {
        Self { n, k, batch: 1, k_tiles: 2, first_k: 0, gap: 0, offset: 0, in_place: false }
    }

    fn ld(&self) -> usize {
        self.n + self.gap
    }

    fn at(&self, matrix: usize, i: usize, j: usize) -> usize {
        self.offset + matrix * (self.n * self.ld() + self.gap) + i * self.ld() + j
    }

    fn row_tiles(&self) -> usize {
        self.n.div_ceil(NB)
    }

    /// The rows below the block.
    fn rows(&self) -> std::ops::Range<usize> {
        self.k + NB..self.n
    }
}

/// The GPU, or the emulator as each target.
fn devices() -> Vec<Arc<dyn Device>> {
    if std::env::var_os(device::ENVIRONMENT).is_some() {
        return vec![support::device()];
    }
    let emulated = |arch| Arc::new(EmulatedDevice::builder().arch(arch).build()) as Arc<dyn Device>;
    ptx::Arch::ALL.into_iter().map(emulated).collect()
}

/// A well-conditioned lower triangle of order 128, and what `potrf_diag` leaves of it: inverses in f64, rounded.
fn triangle(seed: u64) -> (Vec<f64>, Vec<f32>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut l = vec![0.0_f64; NB * NB];
    for i in 0..NB {
        for j in 0..=i {
            let value: f64 = rng.sample(StandardNormal);
            l[i * NB + j] = f64::from(if i == j { 1.0 + value.abs() as f32 } else { 0.06 * value as f32 });
        }
    }
    let mut solve: Vec<f32> = l.iter().map(|&value| value as f32).collect();
    for first in (0..NB).step_by(B) {
        for j in 0..B {
            let mut column = [0.0_f64; B];
            for i in j..B {
                let known: f64 = (j..i).map(|p| l[(first + i) * NB + first + p] * column[p]).sum();
                column[i] = (f64::from(u8::from(i == j)) - known) / l[(first + i) * NB + first + i];
            }
            for i in 0..B {
                solve[(first + i) * NB + first + j] = column[i] as f32;
            }
        }
    }
    (l, solve)
}

/// Where entry (row, column) of the panel lies in a plane of the shadow, in halves.
fn place(case: &Case, planes: usize, matrix: usize, row: usize, column: usize, plane: usize) -> usize {
    let tile = (matrix * case.row_tiles() + row / NB) * case.k_tiles + case.first_k + column / TILE_K;
    let (row, byte) = (row % NB, 2 * (column % TILE_K));
    ((tile * planes + plane) * NB * NB + row * NB + ((byte / 16) ^ (row % 8)) * 16 + byte % 16) / 2
}

/// Runs the kernel and checks all that it writes; returns the largest error of X over the bound of FP32 arithmetic.
fn check(device: &dyn Device, kernel: PanelSolve, case: Case, seed: u64) -> f64 {
    let what = format!("{kernel:?}, {}, {case:?}", device.properties().arch);
    let Case { n, k, batch, .. } = case;
    let mut rng = StdRng::seed_from_u64(seed);
    let (row_tiles, planes) = (case.row_tiles(), kernel.planes as usize);
    let module = kernel.instantiate(device.properties().arch).unwrap();
    let entry = device.load(&module.clone().into()).unwrap().kernel(&module.meta.kernels[0].name).unwrap();

    // Rows of very different sizes; on the diagonal, where the scales are made from it, more than the square of a row's largest.
    let mut memory = vec![f32::NAN; case.at(batch - 1, n - 1, n - 1) + 1];
    let (mut b, mut scales) = (vec![0.0_f32; batch * n * NB], vec![f32::NAN; batch * row_tiles * NB]);
    for matrix in 0..batch {
        for i in case.rows() {
            let size = 2.0_f32.powi(rng.random_range(-50..50));
            for j in 0..NB {
                let value = size * rng.sample::<f32, _>(StandardNormal).clamp(-4.0, 4.0);
                b[(matrix * n + i) * NB + j] = value;
                memory[case.at(matrix, i, k + j)] = value;
            }
            if k == 0 {
                memory[case.at(matrix, i, i)] = size * size * rng.random_range(2000.0..9000.0);
            } else {
                scales[matrix * row_tiles * NB + i] = 2.0_f32.powi(size.log2() as i32 - 7);
            }
        }
        if k > 0 {
            scales[(matrix * row_tiles) * NB + n..(matrix + 1) * row_tiles * NB].fill(1.0);
        }
    }
    let triangles: Vec<_> = (0..batch as u64).map(|matrix| triangle(seed + matrix)).collect();
    let solve: Vec<f32> = triangles.iter().flat_map(|(_, solve)| solve.iter().copied()).collect();

    let a = Buffer::from_slice(device, &memory, "a").unwrap();
    let poison = vec![UNTOUCHED; memory.len()];
    let l = if case.in_place { a.view(..).unwrap() } else { Buffer::from_slice(device, &poison, "l").unwrap() };
    let solve = Buffer::from_slice(device, &solve, "solve").unwrap();
    let mut scale = Buffer::from_slice(device, &scales, "scale").unwrap();
    let halves = batch * row_tiles * case.k_tiles * planes * NB * TILE_K;
    let untouched = f16::from_f32(UNTOUCHED);
    let mut shadow = Buffer::from_slice(device, &vec![untouched; halves], "shadow").unwrap();
    let groups = (NB * row_tiles - k - NB).div_ceil(16 * kernel.warps as usize);
    let (from, mut to) = (a.view(case.offset..).unwrap(), l.view(case.offset..).unwrap());
    let number = |value: usize| Arg::from(value as i32);
    let stride = Arg::from((n * case.ld() + case.gap) as i64);
    let args = [
        (&from).into(),
        (&mut to).into(),
        (&solve).into(),
        (&mut scale).into(),
        (&mut shadow).into(),
        stride.clone(),
        stride,
        number(case.ld()),
        number(case.ld()),
        number(n),
        number(k),
        number(groups),
        number(row_tiles),
        number(case.k_tiles),
        number(case.first_k),
    ];
    device.launch(&entry, [(groups * batch) as u32, 1, 1], &args).unwrap_or_else(|error| panic!("{what}: {error}"));

    let (after, scale, shadow) = (l.to_vec().unwrap(), scale.to_vec().unwrap(), shadow.to_vec().unwrap());
    let mut expected = if case.in_place { memory.clone() } else { poison };
    let mut planned = vec![untouched; halves];
    let mut worst = 0.0_f64;
    for matrix in 0..batch {
        let factor = &triangles[matrix].0;
        for i in k + NB..NB * row_tiles {
            let held = scale[matrix * row_tiles * NB + i];
            assert_eq!(held.to_bits() & 0x807f_ffff, 0, "{what}: the scale {held} of row {i} is no power of two");
            let mut x = [0.0_f64; NB];
            for j in 0..NB {
                let mut ours = 0.0;
                if i < n {
                    let terms = (0..j).map(|p| x[p] * factor[j * NB + p]);
                    let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + f64::abs(term)));
                    let right = f64::from(b[(matrix * n + i) * NB + j]);
                    x[j] = (right - sum) / factor[j * NB + j];
                    let at = case.at(matrix, i, k + j);
                    (ours, expected[at]) = (after[at], after[at]);
                    // The error of a substitution; a fourth of a row's largest, so that a sum that vanishes has room.
                    let largest = x[..=j].iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
                    let bound = 2.0_f64.powi(-24) * (size + right.abs() + largest);
                    let error = (f64::from(ours) - x[j]).abs();
                    assert!(!error.is_nan(), "{what}: ({i}, {j})");
                    worst = worst.max(error / bound);
                }
                // The planes: to nearest, and what that leaves.
                let high = f16::from_f32(ours / held);
                let low = f16::from_f32(ours / held - high.to_f32());
                assert!(high.to_f32().abs() <= 16384.0, "{what}: ({i}, {j}) is {ours}, its row's scale {held}");
                planned[place(&case, planes, matrix, i, j, 0)] = high;
                if planes == 2 {
                    planned[place(&case, planes, matrix, i, j, 1)] = low;
                }
            }
        }
        for i in k..(k + NB).min(n) {
            (k + NB..n).for_each(|j| expected[case.at(matrix, i, j)] = 0.0);
        }
    }
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert!(bits(&expected) == bits(&after), "{what}: the mirror is not zeros, or something else was written");
    let differ = planned.iter().zip(&shadow).position(|(planned, found)| planned.to_bits() != found.to_bits());
    assert_eq!(differ.map(|at| (at, planned[at], shadow[at])), None, "{what}: the shadow");
    assert!(case.in_place || bits(&memory) == bits(&a.to_vec().unwrap()), "{what}: the input was written");
    worst
}

/// Every setting, at edges, with gaps, in place, in every place of the shadow.
#[test]
fn every_setting() {
    let cases = [
        Case::of(256, 0),
        Case { batch: 2, gap: 3, offset: 1, k_tiles: 5, first_k: 2, ..Case::of(300, 128) },
        Case { batch: 3, in_place: true, gap: 4, ..Case::of(129, 0) },
        Case { in_place: true, gap: 4, k_tiles: 4, first_k: 2, ..Case::of(420, 128) },
        Case { in_place: true, gap: 1, offset: 3, ..Case::of(270, 0) },
    ];
    for device in devices() {
        for (number, case) in cases.into_iter().enumerate() {
            for warps in [2, 4, 8] {
                for (products, planes) in [(3, 2), (1, 1), (1, 2)] {
                    let kernel = PanelSolve { warps, products, planes };
                    let worst = check(&*device, kernel, case, number as u64);
                    println!("{kernel:?} {}: {worst}", device.properties().arch);
                    // Of three products each leaves out 2⁻²² of an operand's product, and sums are cut at 2⁻²³ some 16 times; TF32 has
                    // 2⁻¹² for a rounding, of two operands, in each of four steps.
                    let most = if products == 3 { 24.0 } else { 4.0 * 2.0 * 4096.0 };
                    assert!(worst <= most, "{kernel:?}, {case:?}: {worst} times the bound of FP32");
                }
            }
        }
    }
}

#[test]
fn parameters_are_checked() {
    let good = PanelSolve { warps: 4, products: 3, planes: 2 };
    let message = |kernel: PanelSolve| kernel.instantiate(ptx::Arch::Sm80).unwrap_err().to_string();
    assert_eq!(
        message(PanelSolve { warps: 3, ..good }),
        "panel_solve: warps = 3 is not allowed: it must be one of 2, 4, 8"
    );
    assert_eq!(
        message(PanelSolve { products: 2, ..good }),
        "panel_solve: products = 2 is not allowed: it must be one of 1, 3"
    );
    assert_eq!(
        message(PanelSolve { planes: 0, ..good }),
        "panel_solve: planes = 0 is not allowed: it must be one of 1, 2"
    );
}
