//! MXFP8: quantisers, scales, casts, the block-scaled panel update.

use crate::harness::{ARCHS, ARCHS_WITH_FP8, Arg, floats, run, try_run};
use crate::matrices::{Memory, random};
use crate::products::{Approximate, Precision, WITHIN};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tilewright::emulate::Options;

/// The value of an e4m3 code by its definition.
fn e4m3_value(code: u8) -> f64 {
    let (exponent, fraction) = (i32::from(code >> 3 & 0xf), f64::from(code & 7));
    let magnitude = if exponent == 0 {
        fraction / 8.0 * 2.0_f64.powi(-6)
    } else {
        (1.0 + fraction / 8.0) * 2.0_f64.powi(exponent - 7)
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// The code nearest to a value, ties to the even one, 448 at most: by looking at all of them. NaN has one code.
fn e4m3_code(value: f32) -> u8 {
    if value.is_nan() {
        return 0x7f;
    }
    let sign = u8::from(value.is_sign_negative()) << 7;
    let magnitude = f64::from(value).abs().min(448.0);
    let nearest = (0..=0x7e_u8)
        .min_by(|&a, &b| {
            let far = |code: u8| (e4m3_value(code) - magnitude).abs();
            far(a).total_cmp(&far(b)).then((a & 1).cmp(&(b & 1)))
        })
        .unwrap();
    sign | nearest
}

/// Powers of two, the sizes of blocks of 32: below FP32, where the scale's byte or FP32 ends, and between.
const SIZES: [i32; 9] = [-200, 0, -30, 3, -117, -130, 40, -8, 127];

/// Numbers of many sizes, one for a block of 32, with zeros of both signs, ties between codes, and what is not finite.
fn spread(rows: usize, columns: usize, stride: usize, seed: u64) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(seed);
    // What lies between the rows would be the largest of its block.
    let mut numbers = vec![f32::MAX; rows * stride];
    for (row, block) in (0..rows).flat_map(|row| (0..columns / 32).map(move |block| (row, block))) {
        let size = SIZES[random.random_range(0..SIZES.len())];
        for number in &mut numbers[row * stride + 32 * block..][..32] {
            let fraction = match random.random_range(0..16) {
                0 => 0.0,
                1 => -0.0,
                // Up to six bits, where codes have four: ties.
                2..8 => f64::from(random.random_range(-63..64)) / 64.0,
                _ => random.random_range(-1.0..1.0),
            };
            *number = (fraction * 2.0_f64.powi(size)) as f32;
        }
        let odd = row * stride + 32 * block + random.random_range(0..32);
        match random.random_range(0..24) {
            0 => numbers[odd] = f32::INFINITY,
            1 => numbers[odd] = f32::NEG_INFINITY,
            2 => numbers[odd] = f32::NAN,
            _ => {}
        }
    }
    numbers
}

/// The OCP rule as the kernel has it: the exponent of the largest number, less 8, in the byte; elements by that power, saturated.
fn quantise(block: &[f32]) -> (u8, Vec<u8>) {
    let largest = block.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let byte = ((largest.to_bits() >> 23 & 0xff) as i32 - 8).max(0) as u8;
    let scale = 2.0_f64.powi(127 - i32::from(byte));
    (byte, block.iter().map(|&value| e4m3_code((f64::from(value) * scale) as f32)).collect())
}

#[test]
fn quantisers() {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    let (rows, columns, stride) = (256, 256, 272);
    let x = spread(rows, columns, stride, 31);
    let mut codes = vec![0; rows * columns];
    let mut scales = vec![0; rows * columns / 32];
    let mut blocked = vec![0; rows * columns / 32];
    for (row, group) in (0..rows).flat_map(|row| (0..columns / 32).map(move |group| (row, group))) {
        let (byte, elements) = quantise(&x[row * stride + 32 * group..][..32]);
        codes[row * columns + 32 * group..][..32].copy_from_slice(&elements);
        scales[row * (columns / 32) + group] = byte;
        let tile = row / 128 * (columns / 128) + group / 4;
        blocked[tile * 512 + row % 32 * 16 + row / 32 % 4 * 4 + group % 4] = byte;
    }
    for arch in ARCHS_WITH_FP8 {
        for (kernel, scales) in [("mx_quant_e4m3_kernel", &scales), ("mx_quant_e4m3_blocked_kernel", &blocked)] {
            let args = [
                floats(&x),
                Arg::Empty(rows * columns),
                Arg::Empty(rows * columns / 32),
                Arg::Int(stride as i32),
                Arg::Int(columns as i32),
            ];
            let out = run(arch, kernel, &args, [(rows / 32) as u32, (columns / 128) as u32, 1]);
            for (index, (found, expected)) in out.bytes(2).iter().zip(scales).enumerate() {
                assert_eq!(found, expected, "{arch}/{kernel}: scale {index}");
            }
            for (index, (found, expected)) in out.bytes(1).iter().zip(&codes).enumerate() {
                assert_eq!(found, expected, "{arch}/{kernel}: element {index}");
            }
            out.expect_inputs(&args, [0], kernel);
        }
    }
}

/// An operand of the two kernels that take two in one launch: rows by row, or, transposed, by column.
struct Operand {
    rows: usize,
    columns: usize,
    stride: usize,
    transposed: bool,
    numbers: Vec<f32>,
}

impl Operand {
    /// Numbers from −1 to 1; `between` where there is no element.
    fn new([rows, columns, stride]: [usize; 3], transposed: bool, between: f32, seed: u64) -> Self {
        let inner = if transposed { rows } else { columns };
        let mut numbers = random(if transposed { columns } else { rows } * stride, seed);
        for (index, number) in numbers.iter_mut().enumerate() {
            // Few bits, so that halves of the last bit of a code occur.
            *number = if index % stride < inner { (*number * 64.0).round() / 64.0 } else { between };
        }
        Self { rows, columns, stride, transposed, numbers }
    }

    /// A row.
    fn row(&self, row: usize) -> impl Iterator<Item = f32> {
        let (start, step) = if self.transposed { (row, self.stride) } else { (row * self.stride, 1) };
        (0..self.columns).map(move |column| self.numbers[start + column * step])
    }

    fn elements(&self) -> usize {
        self.rows * self.columns
    }
}

/// The largest magnitudes of pieces of 1024 elements of rows.
#[test]
fn largest_magnitudes() {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    let lhs = Operand::new([16, 1040, 1056], false, f32::INFINITY, 32);
    let rhs = Operand::new([16, 2064, 32], true, f32::INFINITY, 33);
    let operands = [&lhs, &rhs];
    let tiles = operands.map(|operand| operand.columns.div_ceil(1024));
    let programs = [lhs.rows * tiles[0], rhs.rows * tiles[1]];
    let expected = operands.map(|operand| -> Vec<f32> {
        let largest = |piece: &[f32]| piece.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let rows = (0..operand.rows).map(|row| operand.row(row).collect::<Vec<f32>>());
        rows.flat_map(|row| row.chunks(1024).map(largest).collect::<Vec<f32>>()).collect()
    });
    let kernel = "dual_tiled_amax_e4m3_32768";
    for arch in ARCHS {
        let mut args = vec![floats(&lhs.numbers), floats(&rhs.numbers)];
        args.extend(programs.map(|programs| Arg::Empty(4 * programs)));
        let numbers = [lhs.rows, lhs.columns, rhs.rows, rhs.columns, lhs.stride, rhs.stride];
        args.extend(numbers.into_iter().chain(tiles).chain(programs).map(|value| Arg::Int(value as i32)));
        // One program more than the longer of the two has: it must write nothing.
        let out = run(arch, kernel, &args, [programs[0].max(programs[1]) as u32 + 1, 1, 1]);
        assert_eq!([out.floats(2), out.floats(3)], expected, "{arch}/{kernel}");
        out.expect_inputs(&args, [0, 1], kernel);
    }
}

#[test]
fn scaled_casts() {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    let lhs = Operand::new([16, 208, 224], false, f32::NAN, 34);
    let rhs = Operand::new([48, 80, 64], true, f32::NAN, 35);
    // The first scale saturates some of the elements, the second makes some subnormal.
    let scales = [700.0_f32, 0.125_f32];
    let expected = [(&lhs, scales[0]), (&rhs, scales[1])].map(|(operand, scale)| -> Vec<u8> {
        (0..operand.rows).flat_map(|row| operand.row(row).map(|value| e4m3_code(value * scale))).collect()
    });
    let elements = [lhs.elements(), rhs.elements()];
    let kernel = "dual_scale_cast_e4m3_32768";
    for arch in ARCHS_WITH_FP8 {
        let mut args = vec![floats(&lhs.numbers), floats(&rhs.numbers)];
        args.extend(elements.map(Arg::Empty));
        args.extend(scales.map(|scale| floats(&[scale])));
        let numbers = elements.into_iter().chain([lhs.columns, rhs.columns, lhs.stride, rhs.stride]);
        args.extend(numbers.map(|value| Arg::Int(value as i32)));
        let programs = elements[0].max(elements[1]).div_ceil(1024);
        let out = run(arch, kernel, &args, [programs as u32, 1, 1]);
        for (buffer, expected) in [2, 3].into_iter().zip(&expected) {
            for (index, (found, expected)) in out.bytes(buffer).iter().zip(expected).enumerate() {
                assert_eq!(found, expected, "{arch}/{kernel}: buffer {buffer}, element {index}");
            }
        }
        out.expect_inputs(&args, [0, 1, 4, 5], kernel);
    }
}

/// A matrix of random codes and of scales spread around one.
struct Scaled {
    depth: usize,
    codes: Vec<u8>,
    scales: Vec<u8>,
}

impl Scaled {
    fn new(rows: usize, depth: usize, random: &mut StdRng) -> Self {
        // All codes but the two of NaN.
        let code = |random: &mut StdRng| random.random_range(0..0x7f_u8) | u8::from(random.random::<bool>()) << 7;
        let codes = (0..rows * depth).map(|_| code(random)).collect();
        let scales = (0..rows * depth / 32).map(|_| random.random_range(118..137)).collect();
        Self { depth, codes, scales }
    }

    /// The elements by rows, exactly.
    fn rows(&self) -> Vec<Vec<Approximate>> {
        let element = |at: usize| {
            let scale = 2.0_f64.powi(i32::from(self.scales[at / 32]) - 127);
            Approximate { value: e4m3_value(self.codes[at]) * scale, error: 0.0 }
        };
        (0..self.codes.len()).step_by(self.depth).map(|row| (row..row + self.depth).map(element).collect()).collect()
    }
}

/// out ← out − lhs·rhsᵀ over MXFP8 operands: on sm_100 by block-scaled `tcgen05.mma`, on sm_90 by operands scaled to bfloats,
/// which hold them exactly. So all that is not exact is the sum.
#[test]
fn panel_update() {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    let kernel = "mxfp8_panel_update_kernel";
    let mut numbers = StdRng::seed_from_u64(36);
    // One step through the depth, and more than the kernels have in flight.
    for (m, n, depth) in [(128, 128, 128), (256, 128, 384), (128, 256, 512)] {
        let [lhs, rhs] = [m, n].map(|rows| Scaled::new(rows, depth, &mut numbers));
        let before = random(m * n, 37);
        let mut expected = Memory::new(&before);
        let right = rhs.rows();
        for (row, left) in lhs.rows().iter().enumerate() {
            for (at, right) in (row * n..).zip(&right) {
                let value = Approximate::exactly(before[at]).minus(Precision::Ieee.dot(left, right));
                expected.set(at, value.into());
            }
        }
        for arch in ARCHS_WITH_FP8 {
            let mut args: Vec<Arg> =
                [&lhs.codes, &lhs.scales, &rhs.codes, &rhs.scales].map(|bytes| Arg::Bytes(bytes.clone())).into();
            args.push(floats(&before));
            args.extend([m, n, depth].map(|value| Arg::Int(value as i32)));
            let out = run(arch, kernel, &args, [m as u32 / 128, n as u32 / 128, 1]);
            expected.check(&out.floats(4), WITHIN, &format!("{arch}/{kernel}"));
            out.expect_inputs(&args, 0..4, kernel);
        }
    }
}

/// Triton 3.6 waits for `cp.async` and hands shared memory to `tcgen05.mma` without `fence.proxy.async`: by PTX's rules a fault,
/// which the emulator names where it is asked to. The other check of the kernel is above.
#[test]
fn panel_update_has_no_fence_after_its_copies() {
    if crate::support::corpus::triton().is_none() {
        return;
    }
    let mut numbers = StdRng::seed_from_u64(38);
    let [lhs, rhs] = [128, 128].map(|rows| Scaled::new(rows, 128, &mut numbers));
    let mut args: Vec<Arg> = [lhs.codes, lhs.scales, rhs.codes, rhs.scales].into_iter().map(Arg::Bytes).collect();
    args.push(floats(&vec![0.0; 128 * 128]));
    args.extend([128; 3].map(Arg::Int));
    let mut options = Options::default();
    options.checks.fence_copies = true;
    let fault = try_run("sm_100", "mxfp8_panel_update_kernel", &args, [1, 1, 1], &options).err().map(|e| e.to_string());
    let fault = fault.expect("a fault");
    assert!(fault.contains("fence.proxy.async") && fault.contains("tcgen05.mma"), "{fault}");
}
