//! MXFP8: quantisers, scales, casts, the block-scaled panel update.

use crate::harness::{ARCHS, Arg, corpus, floats, run};
use crate::matrices::{Expected, Memory, random};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

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

/// The code nearest to a value, ties to the even one, 448 at most: by looking at all of them.
fn e4m3_code(value: f32) -> u8 {
    let sign = u8::from(value.is_sign_negative()) << 7;
    let magnitude = f64::from(value).abs();
    let nearest = (0..=0x7e_u8)
        .min_by(|&a, &b| {
            let far = |code: u8| (e4m3_value(code) - magnitude).abs();
            far(a).total_cmp(&far(b)).then((a & 1).cmp(&(b & 1)))
        })
        .unwrap();
    sign | nearest
}

/// Numbers of many sizes, with zeros.
fn spread(count: usize, seed: u64) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..count)
        .map(|index| {
            // A block of 32 has one size; some are all zero, some tiny.
            let size = [0, -30, 3, -130, 40, -8, 12, 1][index / 32 % 8];
            let value: f32 = random.random_range(-1.0..1.0);
            if index / 32 % 8 == 0 || random.random_bool(0.02) { 0.0 } else { value * 2.0_f32.powi(size) }
        })
        .collect()
}

/// The OCP rule as the kernel has it: the exponent of the largest, less 8, in the byte; elements by that power, saturated.
fn quantise(block: &[f32]) -> (u8, Vec<u8>) {
    let largest = block.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let byte = ((largest.to_bits() >> 23 & 0xff) as i32 - 8).max(0) as u8;
    let scale = 2.0_f64.powi(127 - i32::from(byte));
    (byte, block.iter().map(|&value| e4m3_code((f64::from(value) * scale) as f32)).collect())
}

#[test]
fn quantisers() {
    if corpus().is_none() {
        return;
    }
    let (rows, columns, stride) = (128, 256, 272);
    let x = spread(rows * stride, 31);
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
    for arch in ARCHS {
        for (kernel, scales) in [("mx_quant_e4m3_kernel", &scales), ("mx_quant_e4m3_blocked_kernel", &blocked)] {
            let args = [
                floats(&x),
                Arg::Empty(rows * columns),
                Arg::Empty(rows * columns / 32),
                Arg::Int(stride as i32),
                Arg::Int(columns as i32),
            ];
            let out = run(arch, kernel, &args, [(rows / 32) as u32, (columns / 128) as u32, 1]);
            assert!(out.bytes(2) == scales.as_slice(), "{arch}/{kernel}: scales");
            for (index, (found, expected)) in out.bytes(1).iter().zip(&codes).enumerate() {
                assert_eq!(found, expected, "{arch}/{kernel}: element {index}");
            }
        }
    }
}

/// The largest magnitudes of pieces of 1024 elements of rows, of two operands in one launch; the second is transposed.
#[test]
fn largest_magnitudes() {
    if corpus().is_none() {
        return;
    }
    let (rows, columns, stride) = (16, 1536, 1552);
    let (lhs, rhs) = (random(rows * stride, 32), random(columns * stride, 33));
    let tiles = 2;
    let programs = rows * tiles;
    let largest = |value: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
        (0..programs)
            .map(|program| {
                let (row, first) = (program / tiles, program % tiles * 1024);
                (first..(first + 1024).min(columns))
                    .fold(0.0_f32, |largest, column| largest.max(value(row, column).abs()))
            })
            .collect()
    };
    let of_lhs = largest(&|row, column| lhs[row * stride + column]);
    let of_rhs = largest(&|row, column| rhs[row + column * stride]);
    for arch in ARCHS {
        let mut args = vec![floats(&lhs), floats(&rhs), Arg::Empty(4 * programs), Arg::Empty(4 * programs)];
        let numbers = [rows, columns, rows, columns, stride, stride, tiles, tiles, programs, programs];
        args.extend(numbers.map(|value| Arg::Int(value as i32)));
        // One program too many: it must write nothing.
        let out = run(arch, "dual_tiled_amax_e4m3_32768", &args, [programs as u32 + 1, 1, 1]);
        assert_eq!(out.floats(2), of_lhs, "{arch}");
        assert_eq!(out.floats(3), of_rhs, "{arch}");
    }
}

#[test]
fn scaled_casts() {
    if corpus().is_none() {
        return;
    }
    let (rows, columns, stride) = (16, 208, 224);
    let (lhs, rhs) = (random(rows * stride, 34), random(columns * stride, 35));
    // The first scale saturates some of the elements.
    let (scale_lhs, scale_rhs) = (700.0_f32, 3.25_f32);
    let elements = rows * columns;
    for arch in ARCHS {
        let mut args = vec![floats(&lhs), floats(&rhs), Arg::Empty(elements), Arg::Empty(elements)];
        args.extend([floats(&[scale_lhs]), floats(&[scale_rhs])]);
        args.extend([elements, elements, columns, columns, stride, stride].map(|value| Arg::Int(value as i32)));
        let out = run(arch, "dual_scale_cast_e4m3_32768", &args, [(elements as u32).div_ceil(1024), 1, 1]);
        for index in 0..elements {
            let (row, column) = (index / columns, index % columns);
            let expected =
                [lhs[row * stride + column] * scale_lhs, rhs[row + column * stride] * scale_rhs].map(e4m3_code);
            assert_eq!([out.bytes(2)[index], out.bytes(3)[index]], expected, "{arch}: element {index}");
        }
    }
}

/// out ← out − lhs·rhsᵀ over MXFP8 operands: on sm_100 by block-scaled `tcgen05.mma`.
#[test]
fn panel_update() {
    if corpus().is_none() {
        return;
    }
    let (m, n, k) = (128, 256, 384);
    let mut random_bytes = StdRng::seed_from_u64(36);
    let mut operand = |rows: usize| -> (Vec<u8>, Vec<u8>) {
        let code = |random: &mut StdRng| loop {
            let code: u8 = random.random();
            if code & 0x7f != 0x7f {
                return code;
            }
        };
        let codes = (0..rows * k).map(|_| code(&mut random_bytes)).collect();
        let scales = (0..rows * k / 32).map(|_| random_bytes.random_range(118..137)).collect();
        (codes, scales)
    };
    let ((lhs, lhs_scales), (rhs, rhs_scales)) = (operand(m), operand(n));
    let value = |codes: &[u8], scales: &[u8], row: usize, p: usize| {
        e4m3_value(codes[row * k + p]) * 2.0_f64.powi(i32::from(scales[(row * k + p) / 32]) - 127)
    };
    let before = random(m * n, 37);
    let mut expected = Memory::new(&before);
    for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
        let mut product = Expected { value: 0.0, magnitude: 0.0 };
        for p in 0..k {
            let term = value(&lhs, &lhs_scales, row, p) * value(&rhs, &rhs_scales, column, p);
            product.value += term;
            product.magnitude += term.abs();
        }
        expected.set(row * n + column, expected.before(row * n + column).minus(product));
    }
    for arch in ARCHS {
        let bytes = |bytes: &[u8]| Arg::Bytes(bytes.to_vec());
        let mut args = vec![bytes(&lhs), bytes(&lhs_scales), bytes(&rhs), bytes(&rhs_scales), floats(&before)];
        args.extend([m, n, k].map(|value| Arg::Int(value as i32)));
        let out = run(arch, "mxfp8_panel_update_kernel", &args, [1, 2, 1]);
        // Sums of at most 24 instructions, each cut at 2⁻²³ of its accumulator.
        expected.check(&out.floats(4), 24.0 * 2.0_f64.powi(-23), &format!("{arch}/mxfp8_panel_update_kernel"));
    }
}
