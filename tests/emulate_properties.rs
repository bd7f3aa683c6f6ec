//! Instructions over random and edge operands against models that share nothing with the emulator: exact integers (`i128`)
//! and `f64`. And hostile text: whatever comes in, an error comes out, never a panic.

use proptest::prelude::*;
use tilewright::emulate::{Kernel, LaunchConfig, Memory, Options, launch};

/// Edge values of 32 bits, as integers and as floats.
const EDGES: [u32; 24] = [
    0,
    1,
    2,
    7,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0xffff_ffff,
    0x3f80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x0040_0000,
];

fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        proptest::sample::select(EDGES.to_vec()),
        // Floats of moderate size, and close to integers.
        (-100.0_f32..100.0).prop_map(f32::to_bits),
        (-70000_i32..70000).prop_map(|value| (value as f32 * 0.5).to_bits()),
    ]
}

/// Threads of a test launch.
const THREADS: usize = 64;

fn operands() -> impl Strategy<Value = Vec<[u32; 3]>> {
    proptest::collection::vec([word(), word(), word()], THREADS)
}

/// Runs each instruction on `%a`, `%b`, `%c` (32 bits), `%da`, `%db` (64 bits: a and b pairs), with the result in `%r` or `%d`.
/// The results as 64 bits, by instruction and thread.
fn execute(instructions: &[&str], operands: &[[u32; 3]]) -> Vec<Vec<u64>> {
    let mut body = String::new();
    for (index, instruction) in instructions.iter().enumerate() {
        let (result, width) = if instruction.contains("%d,") { ("%d", "u64") } else { ("%r", "u32") };
        body.push_str(&format!("    mov.u32 %r, 0;\n    mov.u64 %d, 0;\n    {instruction};\n"));
        body.push_str(&format!("    st.global.{width} [%out+{}], {result};\n", 8 * THREADS * index));
    }
    let source = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 in_p, .param .u64 out_p) {{
    .reg .b32 %a, %b, %c, %r, %t;\n    .reg .b64 %in, %out, %d, %da, %db;\n    .reg .pred %p;\n    .reg .b16 %h, %g;
    mov.u32 %t, %tid.x;\n    ld.param.u64 %in, [in_p];\n    ld.param.u64 %out, [out_p];
    mad.wide.u32 %in, %t, 16, %in;\n    mad.wide.u32 %out, %t, 8, %out;
    ld.global.v2.u32 {{%a, %b}}, [%in];\n    ld.global.u32 %c, [%in+8];
    mov.b64 %da, {{%a, %b}};\n    mov.b64 %db, {{%b, %c}};\n{body}    ret;\n}}\n"
    );
    let kernel = Kernel::new(&source, None).unwrap_or_else(|error| panic!("{error}"));
    let memory = Memory::new();
    let input = memory.alloc(16 * THREADS as u64, "in").unwrap();
    for (thread, [a, b, c]) in operands.iter().enumerate() {
        let bytes: Vec<u8> = [*a, *b, *c, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
        memory.write(input + 16 * thread as u64, &bytes).unwrap();
    }
    let length = 8 * THREADS * instructions.len();
    let output = memory.alloc(length as u64, "out").unwrap();
    memory.fill(output, 0, length as u64).unwrap();
    let params: Vec<u8> = [input, output].iter().flat_map(|address| address.to_le_bytes()).collect();
    let config = LaunchConfig { block: [THREADS as u32, 1, 1], ..LaunchConfig::default() };
    launch(&kernel, &config, &params, &memory, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut bytes = vec![0; length];
    memory.read(output, &mut bytes).unwrap();
    let words: Vec<u64> = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    words.chunks(THREADS).map(<[u64]>::to_vec).collect()
}

/// An instruction and what it gives.
type Row<T> = (&'static str, fn(u32, u32, u32) -> T);

fn compare<T: Into<u64> + Copy>(rows: &[Row<T>], operands: &[[u32; 3]]) -> Result<(), TestCaseError> {
    let instructions: Vec<&str> = rows.iter().map(|(instruction, _)| *instruction).collect();
    for ((instruction, model), results) in rows.iter().zip(execute(&instructions, operands)) {
        for (&[a, b, c], &found) in operands.iter().zip(&results) {
            let expected: u64 = model(a, b, c).into();
            prop_assert_eq!(found, expected, "{} of {:#x}, {:#x}, {:#x}", instruction, a, b, c);
        }
    }
    Ok(())
}

/// Signed and unsigned readings as exact integers.
fn s(word: u32) -> i128 {
    (word as i32).into()
}
fn u(word: u32) -> i128 {
    word.into()
}
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
fn low(value: i128) -> u32 {
    value as u32
}

/// `of` the bytes of two words, byte by byte.
fn bytewise(a: u32, b: u32, of: fn(u32, u32) -> u32) -> u32 {
    (0..4).fold(0, |word, byte| word | (of(a >> (8 * byte) & 0xff, b >> (8 * byte) & 0xff) & 0xff) << (8 * byte))
}

const INTEGERS: &[Row<u32>] = &[
    ("add.s32 %r, %a, %b", |a, b, _| low(s(a) + s(b))),
    ("sub.u32 %r, %a, %b", |a, b, _| low(u(a) - u(b))),
    ("mul.lo.s32 %r, %a, %b", |a, b, _| low(s(a) * s(b))),
    ("mul.hi.s32 %r, %a, %b", |a, b, _| low((s(a) * s(b)) >> 32)),
    ("mul.hi.u32 %r, %a, %b", |a, b, _| low((u(a) * u(b)) >> 32)),
    ("mad.lo.u32 %r, %a, %b, %c", |a, b, c| low(u(a) * u(b) + u(c))),
    ("mad.hi.s32 %r, %a, %b, %c", |a, b, c| low(((s(a) * s(b)) >> 32) + s(c))),
    ("min.s32 %r, %a, %b", |a, b, _| low(s(a).min(s(b)))),
    ("max.u32 %r, %a, %b", |a, b, _| low(u(a).max(u(b)))),
    ("abs.s32 %r, %a", |a, _, _| low(s(a).abs())),
    ("neg.s32 %r, %a", |a, _, _| low(-s(a))),
    ("div.u32 %r, %a, %b", |a, b, _| if b == 0 { u32::MAX } else { low(u(a) / u(b)) }),
    ("div.s32 %r, %a, %b", |a, b, _| if b == 0 { u32::MAX } else { low(s(a) / s(b)) }),
    ("rem.s32 %r, %a, %b", |a, b, _| if b == 0 { low(-1) } else { low(s(a) % s(b)) }),
    ("and.b32 %r, %a, %b", |a, b, _| a & b),
    ("or.b32 %r, %a, %b", |a, b, _| a | b),
    ("xor.b32 %r, %a, %b", |a, b, _| a ^ b),
    ("not.b32 %r, %a", |a, _, _| !a),
    ("cnot.b32 %r, %a", |a, _, _| (a == 0).into()),
    ("shl.b32 %r, %a, %b", |a, b, _| if b > 31 { 0 } else { low(u(a) << b) }),
    ("shr.u32 %r, %a, %b", |a, b, _| low(u(a) >> b.min(100))),
    ("shr.s32 %r, %a, %b", |a, b, _| low(s(a) >> b.min(100))),
    ("shf.l.wrap.b32 %r, %a, %b, %c", |a, b, c| (pair(a, b) << (c % 32) >> 32) as u32),
    ("shf.r.clamp.b32 %r, %a, %b, %c", |a, b, c| (pair(a, b) >> c.min(32)) as u32),
    ("popc.b32 %r, %a", |a, _, _| (0..32).map(|bit| a >> bit & 1).sum()),
    ("clz.b32 %r, %a", |a, _, _| (0..32).rev().take_while(|bit| a >> bit & 1 == 0).count() as u32),
    ("brev.b32 %r, %a", |a, _, _| (0..32).fold(0, |word, bit| word | (a >> bit & 1) << (31 - bit))),
    ("bfind.u32 %r, %a", |a, _, _| (0..32).rev().find(|bit| a >> bit & 1 == 1).unwrap_or(u32::MAX)),
    ("bfind.s32 %r, %a", |a, _, _| (0..31).rev().find(|bit| a >> bit & 1 != a >> 31).unwrap_or(u32::MAX)),
    ("sad.s32 %r, %a, %b, %c", |a, b, c| low((s(a) - s(b)).abs() + u(c))),
    ("lop3.b32 %r, %a, %b, %c, 0xCA", |a, b, c| a & b | !a & c),
    ("mad24.hi.u32 %r, %a, %b, %c", |a, b, c| low((((u(a) & 0xff_ffff) * (u(b) & 0xff_ffff)) >> 16) + u(c))),
    ("add.sat.s32 %r, %a, %b", |a, b, _| low((s(a) + s(b)).clamp(i32::MIN.into(), i32::MAX.into()))),
    ("min.relu.s32 %r, %a, %b", |a, b, _| low(s(a).min(s(b)).max(0))),
    ("dp4a.s32.u32 %r, %a, %b, %c", |a, b, c| {
        low((0..4).map(|byte| s(a << (24 - 8 * byte)).div_euclid(1 << 24) * (u(b) >> (8 * byte) & 0xff)).sum::<i128>()
            + u(c))
    }),
    ("bmsk.clamp.b32 %r, %a, %b", |a, b, _| {
        (0..32).filter(|&bit| u(a) <= bit && bit < u(a) + u(b)).fold(0, |word, bit| word | 1 << bit)
    }),
    ("szext.wrap.s32 %r, %a, %b", |a, b, _| {
        low(s(a.wrapping_shl(32 - b % 32)) >> (32 - b % 32) & -i128::from(b % 32 > 0))
    }),
    ("add.cc.u32 %t, %a, %b; addc.u32 %r, %c, 0", |a, b, c| low((u(a) + u(b) + (u(c) << 32)) >> 32)),
    ("sub.cc.u32 %t, %a, %b; subc.u32 %r, %c, 0", |a, b, c| low((u(a) - u(b) + (u(c) << 32)) >> 32)),
    ("mad.lo.cc.u32 %t, %a, %b, %c; madc.hi.u32 %r, %a, %b, 0", |a, b, c| low((u(a) * u(b) + u(c)) >> 32)),
    ("cvt.pack.sat.s8.s32.b32 %r, %a, %b, %c", |a, b, c| {
        let byte = |value: u32| low(s(value).clamp(-128, 127)) & 0xff;
        c << 16 | byte(a) << 8 | byte(b)
    }),
    ("vadd4.u32.u32.u32.sat %r, %a, %b, %c", |a, b, _| bytewise(a, b, |a, b| (a + b).min(255))),
    ("vavrg4.u32.u32.u32 %r, %a, %b, %c", |a, b, _| bytewise(a, b, |a, b| (a + b).div_ceil(2))),
    ("vset4.u32.u32.gt %r, %a, %b, %c", |a, b, _| bytewise(a, b, |a, b| (a > b).into())),
    ("vabsdiff4.u32.u32.u32.add %r, %a, %b, %c", |a, b, c| {
        (0..4).fold(c, |sum, byte| sum.wrapping_add((a >> (8 * byte) & 0xff).abs_diff(b >> (8 * byte) & 0xff)))
    }),
    ("vsub.s32.s32.s32.sat %r, %a, %b", |a, b, _| low((s(a) - s(b)).clamp(i32::MIN.into(), i32::MAX.into()))),
    ("vmax.s32.s32.s32 %r.h1, %a.h0, %b.b3, %c", |a, b, c| {
        let (a, b) = (s(a << 16) >> 16, s(b) >> 24);
        c & 0xffff | low(a.max(b)) << 16
    }),
    ("bfi.b32 %r, %a, %b, 8, 12", |a, b, _| b & !0xf_ff00 | a << 8 & 0xf_ff00),
    ("bfe.u32 %r, %a, 5, 9", |a, _, _| a >> 5 & 0x1ff),
    ("bfe.s32 %r, %a, 20, 20", |a, _, _| low(s(a) >> 20)),
    ("prmt.b32 %r, %a, %b, 0x4321", |a, b, _| a >> 8 | b << 24),
    ("slct.u32.s32 %r, %a, %b, %c", |a, b, c| if s(c) >= 0 { a } else { b }),
    ("cvt.s32.s8 %r, %a", |a, _, _| a as u8 as i8 as i32 as u32),
    ("cvt.sat.s8.s32 %r, %a", |a, _, _| low(s(a).clamp(-128, 127))),
    ("cvt.sat.u16.s32 %r, %a", |a, _, _| low(s(a).clamp(0, 65535))),
    ("{ setp.lt.s32 %p, %a, %b; selp.u32 %r, 1, 0, %p; }", |a, b, _| (s(a) < s(b)).into()),
    ("{ setp.hs.u32 %p, %a, %b; selp.u32 %r, 1, 0, %p; }", |a, b, _| (u(a) >= u(b)).into()),
    ("{ setp.eq.u32 %p, %a, %b; setp.lt.or.s32 %p, %a, %c, !%p; selp.u32 %r, 1, 0, %p; }", |a, b, c| {
        (s(a) < s(c) || a != b).into()
    }),
];

const WIDE: &[Row<u64>] = &[
    ("mul.wide.s32 %d, %a, %b", |a, b, _| (s(a) * s(b)) as u64),
    ("mul.wide.u32 %d, %a, %b", |a, b, _| (u(a) * u(b)) as u64),
    ("mad.wide.s32 %d, %a, %b, %db", |a, b, c| (s(a) * s(b) + i128::from(pair(b, c))) as u64),
    ("add.s64 %d, %da, %db", |a, b, c| pair(a, b).wrapping_add(pair(b, c))),
    ("mul.lo.u64 %d, %da, %db", |a, b, c| {
        (i128::from(pair(a, b)) * i128::from(pair(b, c) as u32)
            + ((i128::from(pair(a, b) as u32) * i128::from(c)) << 32)) as u64
    }),
    ("mul.hi.u64 %d, %da, %db", |a, b, c| {
        let (x, y) = (pair(a, b), pair(b, c));
        // By halves, carries and all.
        let (xl, xh, yl, yh) = (x & 0xffff_ffff, x >> 32, y & 0xffff_ffff, y >> 32);
        let middle = xh * yl + ((xl * yl) >> 32);
        let other = xl * yh + (middle & 0xffff_ffff);
        xh * yh + (middle >> 32) + (other >> 32)
    }),
    ("shl.b64 %d, %da, %c", |a, b, c| if c > 63 { 0 } else { pair(a, b) << c }),
    ("shr.s64 %d, %da, %c", |a, b, c| ((pair(a, b) as i64) >> c.min(63)) as u64),
    ("min.s64 %d, %da, %db", |a, b, c| (pair(a, b) as i64).min(pair(b, c) as i64) as u64),
    ("bfe.u64 %d, %da, 28, 8", |a, b, _| pair(a, b) >> 28 & 0xff),
    ("cvt.s64.s32 %d, %a", |a, _, _| s(a) as u64),
    ("cvt.u64.u32 %d, %a", |a, _, _| a.into()),
    ("cvt.rn.f64.s32 %d, %a", |a, _, _| f64::from(a as i32).to_bits()),
    ("abs.s64 %d, %da", |a, b, _| i128::from(pair(a, b) as i64).unsigned_abs() as u64),
    ("fma.rn.f64 %d, %da, %db, %da", |a, b, c| {
        let (x, y) = (f64::from_bits(pair(a, b)), f64::from_bits(pair(b, c)));
        x.mul_add(y, x).to_bits()
    }),
];

fn f(word: u32) -> f64 {
    f32::from_bits(word).into()
}
/// A double rounded to single, NaN canonical. Sums, differences, products, quotients and roots of singles are rounded
/// once this way, since a double has more than twice a single's digits.
fn single(value: f64) -> u32 {
    if value.is_nan() { 0x7fff_ffff } else { (value as f32).to_bits() }
}
fn flushed(word: u32) -> u32 {
    if word & 0x7f80_0000 == 0 { word & 0x8000_0000 } else { word }
}

const FLOATS: &[Row<u32>] = &[
    ("add.rn.f32 %r, %a, %b", |a, b, _| single(f(a) + f(b))),
    ("add.f32 %r, %a, %b", |a, b, _| single(f(a) + f(b))),
    ("sub.rn.f32 %r, %a, %b", |a, b, _| single(f(a) - f(b))),
    ("mul.rn.f32 %r, %a, %b", |a, b, _| single(f(a) * f(b))),
    ("mul.ftz.f32 %r, %a, %b", |a, b, _| {
        // What is under the smallest normal number before rounding is flushed.
        let product = f(flushed(a)) * f(flushed(b));
        if product.abs() < 2.0_f64.powi(-126) { single(0.0_f64.copysign(product)) } else { single(product) }
    }),
    ("add.sat.f32 %r, %a, %b", |a, b, _| {
        let sum = f(a) + f(b);
        if sum > 0.0 { single(sum.min(1.0)) } else { 0 }
    }),
    ("div.rn.f32 %r, %a, %b", |a, b, _| single(f(a) / f(b))),
    ("sqrt.rn.f32 %r, %a", |a, _, _| single(f(a).sqrt())),
    ("rcp.rn.f32 %r, %a", |a, _, _| single(1.0 / f(a))),
    ("abs.f32 %r, %a", |a, _, _| if f(a).is_nan() { 0x7fff_ffff } else { a & 0x7fff_ffff }),
    ("neg.f32 %r, %a", |a, _, _| if f(a).is_nan() { 0x7fff_ffff } else { a ^ 0x8000_0000 }),
    ("{ setp.ltu.f32 %p, %a, %b; selp.u32 %r, 1, 0, %p; }", |a, b, _| {
        (f(a).is_nan() || f(b).is_nan() || f(a) < f(b)).into()
    }),
    ("{ setp.ne.f32 %p, %a, %b; selp.u32 %r, 1, 0, %p; }", |a, b, _| (f(a) < f(b) || f(a) > f(b)).into()),
    ("{ setp.neu.f32 %p, %a, %b; selp.u32 %r, 1, 0, %p; }", |a, b, _| (f(a) != f(b)).into()),
    ("{ setp.num.f32 %p, %a, %b; selp.u32 %r, 1, 0, %p; }", |a, b, _| (!f(a).is_nan() && !f(b).is_nan()).into()),
    ("cvt.rzi.s32.f32 %r, %a", |a, _, _| f(a) as i32 as u32),
    ("cvt.rni.u32.f32 %r, %a", |a, _, _| f(a).round_ties_even() as u32),
    ("cvt.rmi.s32.f32 %r, %a", |a, _, _| f(a).floor() as i32 as u32),
    ("cvt.rpi.f32.f32 %r, %a", |a, _, _| single(f(a).ceil())),
    ("cvt.rn.f32.s32 %r, %a", |a, _, _| single(f64::from(a as i32))),
    ("cvt.rn.f32.u32 %r, %a", |a, _, _| single(f64::from(a))),
    ("{ cvt.rn.f16.f32 %h, %a; cvt.f32.f16 %r, %h; }", |a, _, _| {
        // To nearest even among halves, by trying the two neighbours.
        let value = f(a);
        if value.is_nan() {
            return 0x7fff_ffff;
        }
        let exponent = ((value.abs().to_bits() >> 52) as i32 - 1023).max(-14);
        let step = 2.0_f64.powi(exponent - 10);
        let rounded = (value / step).round_ties_even() * step;
        single(if rounded.abs() > 65504.0 { f64::INFINITY.copysign(value) } else { rounded.copysign(value) })
    }),
    ("cvt.rn.bf16x2.f32 %r, %a, %b", |a, b, _| {
        let round = |word: u32| {
            if f(word).is_nan() {
                return None;
            }
            // To nearest even at bit 16.
            Some((word + 0x7fff + (word >> 16 & 1)) >> 16)
        };
        match (round(a), round(b)) {
            (Some(a), Some(b)) => a << 16 | b,
            _ => u32::MAX,
        }
    }),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn integer_instructions(operands in operands()) {
        compare(INTEGERS, &operands)?;
    }

    #[test]
    fn wide_instructions(operands in operands()) {
        // NaN results of doubles have the bits of the machine's NaN.
        let (fma, rows) = WIDE.split_last().unwrap();
        compare(rows, &operands)?;
        let results = execute(&[fma.0], &operands);
        for (&[a, b, c], &found) in operands.iter().zip(&results[0]) {
            let expected = fma.1(a, b, c);
            let both_nan = f64::from_bits(found).is_nan() && f64::from_bits(expected).is_nan();
            prop_assert!(found == expected || both_nan, "fma.rn.f64: {:#x}, {:#x}", found, expected);
        }
    }

    #[test]
    fn float_instructions(operands in operands()) {
        let nan_free: Vec<[u32; 3]> = operands
            .iter()
            .map(|words| words.map(|word| if f32::from_bits(word).is_nan() { 0x4000_0000 } else { word }))
            .collect();
        compare(&FLOATS[..FLOATS.len() - 1], &operands)?;
        // The payload of a converted NaN is not fixed by PTX: pairs are compared without.
        compare(&FLOATS[FLOATS.len() - 1..], &nan_free)?;
    }

    /// One rounding of a·b + c: the exact value as a sum of two doubles decides.
    #[test]
    fn fused_multiply_add(operands in operands()) {
        let results = execute(&["fma.rn.f32 %r, %a, %b, %c"], &operands);
        for (&[a, b, c], &found) in operands.iter().zip(&results[0]) {
            let product = f(a) * f(b);
            let sum = product + f(c);
            if !sum.is_finite() {
                continue;
            }
            let found = f64::from(f32::from_bits(found as u32));
            prop_assume!(found.is_finite() || sum.abs() > 3.4e38);
            if found.is_infinite() {
                continue;
            }
            // The error of the double sum (exact), then the distance of the result from the exact value: no neighbour of
            // the result is nearer.
            let virtual_c = sum - product;
            let error = (product - (sum - virtual_c)) + (f(c) - virtual_c);
            let distance = |candidate: f64| ((candidate - sum) - error).abs();
            let next = f64::from(f32::from_bits((found as f32).to_bits().wrapping_add(1)));
            let before = f64::from(f32::from_bits((found as f32).to_bits().wrapping_sub(1)));
            for other in [next, before].into_iter().filter(|other| other.is_finite()) {
                prop_assert!(distance(found) <= distance(other), "fma of {:#x}, {:#x}, {:#x}", a, b, c);
            }
        }
    }
}

/// A kernel with a little of everything, to be broken.
const VICTIM: &str = include_str!("emulate/kernel_reduction_by_shuffles.ptx");

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn broken_kernels_end_in_an_answer(
        cuts in proptest::collection::vec((0..VICTIM.len(), 0..6_usize, "[ -~]{0,3}"), 1..6),
        block in [0..70_u32, 0..3, 0..3],
        shared in prop_oneof![Just(0_u32), any::<u32>()],
    ) {
        let mut text = VICTIM.to_owned();
        for (at, length, insert) in cuts {
            let start = at.min(text.len());
            let end = (start + length).min(text.len());
            if text.is_char_boundary(start) && text.is_char_boundary(end) {
                text.replace_range(start..end, &insert);
            }
        }
        let Ok(kernel) = Kernel::new(&text, None) else { return Ok(()) };
        let memory = Memory::with_limit(1 << 20);
        let a = memory.alloc(512, "a").unwrap();
        let out = memory.alloc(4, "out").unwrap();
        memory.fill(a, 1, 512).unwrap();
        let mut params: Vec<u8> = [a, out].iter().flat_map(|address| address.to_le_bytes()).collect();
        params.resize(params.len().max(kernel.param_bytes().min(4096) as usize), 0xff);
        let config = LaunchConfig { block, dynamic_shared: shared, ..LaunchConfig::default() };
        let options = Options { max_steps: Some(10_000), ..Options::default() };
        // Either way is right; a panic is not.
        let _ = launch(&kernel, &config, &params, &memory, &options);
    }
}

#[test]
fn extremes_are_refused_or_run() {
    let entry =
        |body: &str| format!(".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {{\n{body}\n}}\n");
    let run = |body: &str| {
        let kernel = Kernel::new(&entry(body), None)?;
        launch(&kernel, &LaunchConfig::default(), &[], &Memory::new(), &Options::default()).map(|_| ())
    };
    assert!(run("").is_ok());
    assert!(run(".reg .b32 %r<70000>;").unwrap_err().to_string().contains("more than 60000 registers"));
    assert!(run(".reg .b32 %r<4294967295>;").unwrap_err().to_string().contains("more than 60000 registers"));
    assert!(run(".shared .align 4 .b8 x[18446744073709551615];").unwrap_err().to_string().contains("1 GiB"));
    assert!(
        run(".shared .align 4 .b64 x[4294967295][4294967295][4294967295];").unwrap_err().to_string().contains("1 GiB")
    );
    assert!(run(".local .align 4 .b8 x[1073741824];\n.local .align 4 .b8 y[1073741824];").is_err());
    for address in ["-1", "-4", "9223372036854775804", "0x7f0000000000", "0x7efffffffffc", "0xfffffffffffffffc"] {
        let body = format!(".reg .b64 %a;\n.reg .b32 %x;\nmov.b64 %a, {address};\nld.u32 %x, [%a];");
        assert!(run(&body).unwrap_err().to_string().contains("line 8"), "{address}");
        let body = format!(".reg .b64 %a;\n.reg .b32 %x;\nmov.b64 %a, {address};\nld.shared.u32 %x, [%a];");
        assert!(run(&body).is_err(), "{address}");
        let body = format!(".reg .b64 %a;\nmov.b64 %a, {address};\nst.local.u32 [%a], 1;");
        assert!(run(&body).is_err(), "{address}");
    }
    let kernel = Kernel::new(&entry("ret;"), None).unwrap();
    let config = LaunchConfig { block: [1024, 1, 1], grid: [0, 5, 1], ..LaunchConfig::default() };
    assert_eq!(launch(&kernel, &config, &[], &Memory::new(), &Options::default()).unwrap().ctas, 0);
    let config = LaunchConfig { block: [1024, 1, 1], grid: [3, 5, 2], ..LaunchConfig::default() };
    assert_eq!(launch(&kernel, &config, &[], &Memory::new(), &Options::default()).unwrap().ctas, 30);
    let config = LaunchConfig { grid: [u32::MAX, 1, 1], ..LaunchConfig::default() };
    assert!(launch(&kernel, &config, &[], &Memory::new(), &Options::default()).is_err());
}
