//! The instructions under test, as data.
//!
//! `$` in a text stands for each of `types`, `#` for each of `variants`. Among operands and results `T` is that type and `U`
//! that variant; `W` is twice as wide as `T`; `F` is the last word of `$` and `D` the one before it. A text without registers gets `%d` and as many of `%a`, `%b`, `%c`, `%e` as
//! there are operands; one with registers is a whole body. `%t0` to `%t3` (32 bits), `%h0`, `%h1` (16 bits), `%l0` (64 bits),
//! `%p`, `%q`, and `%s`, which is as wide as `%d`, are free for it, `%lane` is the lane, `%r` tells whether the lane is among those of `%a`.

use std::collections::HashMap;

use crate::operands::Kind;

/// What a difference means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Every bit is the same.
    Exact,
    /// An approximation: both are within what PTX promises, so their distance is bounded.
    Within(Promise),
}

/// What PTX promises of an approximation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// The greatest distance from a correctly rounded result, in units of the last place…
    pub ulp: u64,
    /// …or this absolute one.
    pub absolute: f64,
    /// The magnitudes of the last operand (zeros and what is not finite aside) for which it holds.
    pub range: [f64; 2],
    /// Why.
    pub why: &'static str,
}

/// Some instructions alike.
pub struct Group {
    text: &'static str,
    variants: &'static str,
    types: &'static str,
    operands: &'static str,
    result: &'static str,
    /// `.version` and `.target` that have it.
    needs: [&'static str; 2],
    bound: Bound,
}

/// One instruction.
pub struct Row {
    /// Its name in reports: what was written in the table.
    pub name: String,
    /// The body that computes `%d`.
    pub body: String,
    /// Its operands.
    pub operands: Vec<Kind>,
    /// Its result.
    pub result: Kind,
    /// `.version` and `.target` that have it.
    pub needs: [&'static str; 2],
    /// What a difference means.
    pub bound: Bound,
}

const AMPERE: [&str; 2] = ["7.0", "sm_80"];
const HOPPER: [&str; 2] = ["8.0", "sm_90"];
const LATE: [&str; 2] = ["8.6", "sm_90"];

const fn exact(
    text: &'static str,
    variants: &'static str,
    types: &'static str,
    operands: &'static str,
    result: &'static str,
    needs: [&'static str; 2],
) -> Group {
    Group { text, variants, types, operands, result, needs, bound: Bound::Exact }
}

const fn within(text: &'static str, types: &'static str, operands: &'static str, promise: Promise) -> Group {
    let bound = Bound::Within(promise);
    Group { text, variants: "", types, operands, result: "T", needs: HOPPER, bound }
}

const ALL: [f64; 2] = [0.0, f64::INFINITY];
const ROUNDINGS: &str = "rn rz rm rp";
const F32_MODES: &str = "rn rz rm rp rn.ftz rz.ftz rm.ftz rp.ftz rn.sat rz.sat rn.ftz.sat";
const COMPARE: &str = "eq ne lt le gt ge";
const COMPARE_FLOATS: &str = "eq ne lt le gt ge equ neu ltu leu gtu geu num nan";
const SHORT: &str = "eq lt gt neu ltu geu num nan";
const INTEGERS: &str = "u16 u32 u64 s16 s32 s64";
const BYTES_TOO: &str = "u8 s8 u16 s16 u32 s32 u64 s64";

const fn ulp(ulp: u64, why: &'static str) -> Promise {
    Promise { ulp, absolute: 0.0, range: ALL, why }
}

const fn absolute(absolute: f64, most: f64, why: &'static str) -> Promise {
    Promise { ulp: 0, absolute, range: [0.0, most], why }
}

/// Everything but conversions and approximations.
#[rustfmt::skip]
const ARITHMETIC: &[Group] = &[
    // Integers.
    exact("#.$", "add sub mul.lo mul.hi div rem min max", INTEGERS, "T T", "T", AMPERE),
    exact("#.$", "mad.lo mad.hi", INTEGERS, "T T T", "T", AMPERE),
    exact("#.$", "add.sat sub.sat", "s32", "T T", "T", AMPERE),
    exact("mad.hi.sat.s32", "", "", "s32 s32 s32", "s32", AMPERE),
    exact("mul.wide.$", "", "u16 s16 u32 s32", "T T", "W", AMPERE),
    exact("mad.wide.$", "", "u16 s16 u32 s32", "T T W", "W", AMPERE),
    exact("mul24.#.$", "lo hi", "u32 s32", "T T", "T", AMPERE),
    exact("mad24.#.$", "lo hi", "u32 s32", "T T T", "T", AMPERE),
    exact("sad.$", "", INTEGERS, "T T T", "T", AMPERE),
    exact("#.$", "abs neg", "s16 s32 s64", "T", "T", AMPERE),
    exact("#.$", "min max add", "u16x2 s16x2", "T T", "T", HOPPER),
    exact("#.relu.$", "min max", "s16x2 s32", "T T", "T", HOPPER),
    exact("#.$", "dp4a", "u32.u32 u32.s32 s32.u32 s32.s32", "b32 b32 b32", "b32", AMPERE),
    exact("#.$", "dp2a.lo dp2a.hi", "u32.u32 u32.s32 s32.u32 s32.s32", "b32 b32 b32", "b32", AMPERE),
    exact("add.cc.$ %s, %a, %b; addc.$ %d, %c, %a;", "", "u32 u64", "T T T", "T", AMPERE),
    exact("sub.cc.$ %s, %a, %b; subc.$ %d, %c, %a;", "", "u32 u64", "T T T", "T", AMPERE),
    exact("mad.lo.cc.$ %s, %a, %b, %c; madc.hi.$ %d, %a, %b, %c;", "", "u32 u64", "T T T", "T", AMPERE),
    exact("add.cc.$ %s, %a, %b; addc.cc.$ %s, %s, %c; addc.$ %d, %b, %c;", "", "s32 s64", "T T T", "T", AMPERE),
    exact("sub.cc.$ %s, %a, %b; subc.cc.$ %s, %s, %c; subc.$ %d, %b, %c;", "", "s32 s64", "T T T", "T", AMPERE),
    exact("mad.hi.cc.$ %s, %a, %b, %c; madc.lo.$ %d, %a, %b, %c;", "", "s32 s64 u64", "T T T", "T", AMPERE),
    exact("mad24.hi.sat.s32", "", "", "s32 s32 s32", "s32", AMPERE),
    // Video.
    exact("v#.$", "add sub absdiff min max", "u32.u32.u32 s32.s32.s32 u32.s32.u32 s32.s32.s32.sat u32.s32.s32.sat", "b32 b32", "b32", AMPERE),
    exact("v#.$", "shl shr", "u32.u32.u32.clamp s32.s32.u32.clamp s32.s32.u32.wrap", "b32 b32", "b32", AMPERE),
    exact("v#.$ %d, %a.b1, %b.h1, %c;", "add sub absdiff min max", "s32.s32.u32.add u32.u32.u32.sat.min s32.u32.s32.max", "b32 b32 b32", "b32", AMPERE),
    exact("v#.$ %d.b2, %a.h0, %b.b3, %c;", "add sub", "s32.s32.s32 u32.u32.u32", "b32 b32 b32", "b32", AMPERE),
    exact("vset.$.#", "eq lt ge", "u32.u32 s32.u32", "b32 b32", "b32", AMPERE),
    exact("v#.$", "add2 sub2 absdiff2 min2 max2 avrg2 add4 sub4 absdiff4 min4 max4 avrg4", "u32.u32.u32 s32.s32.s32 s32.u32.s32.sat", "b32 b32 b32", "b32", AMPERE),
    exact("v#.$", "add2 absdiff2 add4 absdiff4", "u32.u32.u32.add s32.s32.s32.add", "b32 b32 b32", "b32", AMPERE),
    exact("vadd2.u32.u32.u32 %d.h0, %a, %b, %c;", "", "", "b32 b32 b32", "b32", AMPERE),
    exact("#.s32.s32.s32 %d.b20, %a, %b, %c;", "vsub4 vavrg4", "", "b32 b32 b32", "b32", AMPERE),
    exact("vset#.$", "2 4", "u32.u32.eq s32.s32.lt", "b32 b32 b32", "b32", AMPERE),
    // Bits.
    exact("#.$", "and or xor", "b16 b32 b64", "T T", "T", AMPERE),
    exact("#.$", "not cnot", "b16 b32 b64", "T", "T", AMPERE),
    exact("shl.$", "", "b16 b32 b64", "T count", "T", AMPERE),
    exact("shr.$", "", "b16 b32 b64 u16 u32 u64 s16 s32 s64", "T count", "T", AMPERE),
    exact("shf.#.b32", "l.wrap l.clamp r.wrap r.clamp", "", "b32 b32 count", "b32", AMPERE),
    exact("bfe.$", "", "u32 s32 u64 s64", "T count count", "T", AMPERE),
    exact("bfi.$", "", "b32 b64", "T T count count", "T", AMPERE),
    exact("brev.$", "", "b32 b64", "T", "T", AMPERE),
    exact("#.$", "clz popc", "b32 b64", "T", "b32", AMPERE),
    exact("bfind.$", "", "u32 s32 u64 s64", "T", "b32", AMPERE),
    exact("bfind.shiftamt.$", "", "u32 s32 u64 s64", "T", "b32", AMPERE),
    exact("prmt.b32#", " .f4e .b4e .rc8 .ecl .ecr .rc16", "", "b32 b32 b32", "b32", AMPERE),
    exact("lop3.b32 %d, %a, %b, %c, #;", "0x00 0x80 0xfe 0x96 0xe8 0xca 0xd8 0x1b 0x6a 0xf8 0x3f 0xff", "", "b32 b32 b32", "b32", AMPERE),
    exact("bmsk.#.b32", "clamp wrap", "", "count count", "b32", HOPPER),
    exact("szext.#.$", "clamp wrap", "u32 s32", "T count", "T", HOPPER),
    // Comparing and choosing.
    exact("setp.#.$ %p, %a, %b; selp.b32 %d, 1, 0, %p;", COMPARE, INTEGERS, "T T", "b32", AMPERE),
    exact("setp.#.$ %p, %a, %b; selp.b32 %d, 1, 0, %p;", "lo ls hi hs", "u16 u32 u64", "T T", "b32", AMPERE),
    exact("setp.#.$ %p, %a, %b; selp.b32 %d, 1, 0, %p;", COMPARE_FLOATS, "f32 f64", "T T", "b32", AMPERE),
    exact("setp.#.$ %p, %a, %b; selp.b32 %d, 1, 0, %p;", SHORT, "f16 bf16", "T T", "b32", HOPPER),
    exact("setp.#.ftz.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", COMPARE_FLOATS, "", "f32 f32", "b32", AMPERE),
    exact("setp.#.$ %p|%q, %a, %b; selp.b32 %t0, 1, 0, %p; selp.b32 %d, 2, %t0, %q;", SHORT, "f16x2 bf16x2", "T T", "b32", HOPPER),
    exact("set.#.u32.$", "eq lt geu nan", "f32 f64", "T T", "b32", AMPERE),
    exact("set.#.f32.$", "eq lt geu nan", "f32 f64", "T T", "f32", AMPERE),
    exact("set.#.f16x2.f16x2", "eq lt geu nan", "", "f16x2 f16x2", "f16x2", AMPERE),
    exact("set.#.$.f16", "eq ltu", "u16 u32 f16", "f16 f16", "T", HOPPER),
    exact("set.#.ftz.u32.f16x2", "lt geu", "", "f16x2 f16x2", "b32", HOPPER),
    exact("setp.#.ftz.f16 %p, %a, %b; selp.b32 %d, 1, 0, %p;", SHORT, "", "f16 f16", "b32", HOPPER),
    exact("setp.#.u32 %p, %c, 5; selp.$ %d, %a, %b, %p;", "lt", "b16 b32 b64 f32 f64", "T T count", "T", AMPERE),
    exact("slct.$.s32", "", "b16 b32 b64 f32 f64", "T T s32", "T", AMPERE),
    exact("slct.#.f32", "b32 f32", "", "b32 b32 f32", "b32", AMPERE),
    exact("slct.ftz.b32.f32", "", "", "b32 b32 f32", "b32", AMPERE),
    exact("testp.#.$ %p, %a; selp.b32 %d, 1, 0, %p;", "finite infinite number notanumber normal subnormal", "f32 f64", "T", "b32", AMPERE),
    exact("copysign.$", "", "f32 f64", "T T", "T", AMPERE),
    // Singles and doubles.
    exact("#.f32", "add.rn add.rz add.rm add.rp sub.rn sub.rz sub.rm sub.rp mul.rn mul.rz mul.rm mul.rp", "", "f32 f32", "f32", AMPERE),
    exact("#.f32", "add.rn.ftz add.rz.ftz sub.rn.ftz mul.rn.ftz mul.rz.ftz mul.rm.ftz", "", "f32 f32", "f32", AMPERE),
    exact("#.f32", "add.rn.sat sub.rn.sat mul.rn.sat mul.rz.sat add.rn.ftz.sat mul.rn.ftz.sat", "", "f32 f32", "f32", AMPERE),
    exact("fma.#.f32", F32_MODES, "", "f32 f32 f32", "f32", AMPERE),
    exact("div.#.f32", "rn rz rm rp rn.ftz rz.ftz", "", "f32 f32", "f32", AMPERE),
    exact("#.ftz.f32", "div.rm div.rp sub.rp mul.rp add.rm", "", "f32 f32", "f32", AMPERE),
    exact("#.ftz.f32", "rcp.rz rcp.rm rcp.rp sqrt.rz sqrt.rm sqrt.rp", "", "f32", "f32", AMPERE),
    exact("#.f32", "rcp.rn rcp.rz rcp.rm rcp.rp rcp.rn.ftz sqrt.rn sqrt.rz sqrt.rm sqrt.rp sqrt.rn.ftz", "", "f32", "f32", AMPERE),
    exact("#.$", "abs neg", "f32 f64 ftz.f32", "F", "F", AMPERE),
    exact("#.f32", "min max min.ftz max.ftz min.NaN max.NaN min.ftz.NaN max.ftz.NaN", "", "f32 f32", "f32", AMPERE),
    exact("#.f32", "min.xorsign.abs max.xorsign.abs min.NaN.xorsign.abs max.NaN.xorsign.abs", "", "f32 f32", "f32", ["7.2", "sm_86"]),
    exact("#.f64", "add.rn add.rz add.rm add.rp sub.rn sub.rz mul.rn mul.rz mul.rm mul.rp div.rn div.rz div.rm div.rp min max", "", "f64 f64", "f64", AMPERE),
    exact("fma.#.f64", ROUNDINGS, "", "f64 f64 f64", "f64", AMPERE),
    exact("#.f64", "rcp.rn rcp.rz rcp.rm rcp.rp sqrt.rn sqrt.rz sqrt.rm sqrt.rp", "", "f64", "f64", AMPERE),
    // Halves.
    exact("#.$", "add.rn sub.rn mul.rn", "f16 f16x2 bf16 bf16x2", "T T", "T", HOPPER),
    exact("#.$", "add.rn.ftz add.rn.sat add.rn.ftz.sat sub.rn.ftz sub.rn.sat mul.rn.ftz mul.rn.sat", "f16 f16x2", "T T", "T", HOPPER),
    exact("fma.#.$", "rn rn.relu", "f16 f16x2 bf16 bf16x2", "T T T", "T", HOPPER),
    exact("fma.#.$", "rn.ftz rn.sat rn.ftz.relu", "f16 f16x2", "T T T", "T", HOPPER),
    exact("#.$", "min max min.NaN max.NaN min.xorsign.abs max.NaN.xorsign.abs", "f16 f16x2 bf16 bf16x2", "T T", "T", HOPPER),
    exact("#.$", "min.ftz max.ftz min.ftz.NaN", "f16 f16x2", "T T", "T", HOPPER),
    exact("#.$", "abs neg", "f16 f16x2 bf16 bf16x2", "T", "T", HOPPER),
    exact("#.ftz.$", "abs neg", "f16 f16x2", "T", "T", HOPPER),
    // Lanes.
    exact("shfl.sync.#.b32 %t0|%p, %a, %b, %c, -1; selp.b32 %t1, 1, 0, %p; mov.b64 %d, {%t0, %t1};", "idx up down bfly", "", "b32 count clamp", "b64", AMPERE),
    exact("setp.ne.u32 %p, %b, 0; @%r vote.sync.#.pred %q, %p, %a; selp.b32 %d, 1, 0, %q;", "all any uni", "", "lanes few", "b32", AMPERE),
    exact("setp.ne.u32 %p, %b, 0; @%r vote.sync.ballot.b32 %d, %p, %a;", "", "", "lanes few", "b32", AMPERE),
    exact("@%r match.any.sync.b32 %d, %b, %a;", "", "", "lanes few", "b32", AMPERE),
    exact("mov.b64 %l0, {%b, %b}; @%r match.any.sync.b64 %d, %l0, %a;", "", "", "lanes few", "b32", AMPERE),
    exact("@%r match.all.sync.b32 %d|%p, %b, %a; selp.b32 %t0, 7, 0, %p; xor.b32 %d, %d, %t0;", "", "", "lanes few", "b32", AMPERE),
    exact("@%r redux.sync.#.$ %d, %b, %a;", "add min max", "u32 s32", "lanes T", "b32", AMPERE),
    exact("@%r redux.sync.#.b32 %d, %b, %a;", "and or xor", "", "lanes b32", "b32", AMPERE),
    exact("@%r elect.sync %t0|%q, %a; selp.b32 %t1, 64, 0, %q; add.u32 %d, %t0, %t1;", "", "", "lanes", "b32", HOPPER),
];

/// `cvt`.
#[rustfmt::skip]
const CONVERSIONS: &[Group] = &[
    exact("cvt.#.$", BYTES_TOO, BYTES_TOO, "T", "U", AMPERE),
exact("cvt.sat.#.$", "s8", "u8", "T", "U", AMPERE),
    exact("cvt.sat.#.$", "u8 u16 u32 u64", "s8", "T", "U", AMPERE),
    exact("cvt.sat.#.$", "u8 s8 s16", "u16", "T", "U", AMPERE),
    exact("cvt.sat.#.$", "u8 s8 u16 u32 u64", "s16", "T", "U", AMPERE),
    exact("cvt.sat.#.$", "u8 s8 u16 s16 s32", "u32", "T", "U", AMPERE),
    exact("cvt.sat.#.$", "u8 s8 u16 s16 u32 u64", "s32", "T", "U", AMPERE),
    exact("cvt.sat.#.$", "u8 s8 u16 s16 u32 s32 s64", "u64", "T", "U", AMPERE),
    exact("cvt.sat.#.$", "u8 s8 u16 s16 u32 s32 u64", "s64", "T", "U", AMPERE),
    exact("cvt.rn.#.$", "f16 f32 f64", BYTES_TOO, "T", "U", AMPERE),
    exact("cvt.rz.#.$", "f16 f32 f64", "s16 u32 s32 u64 s64", "T", "U", AMPERE),
    exact("cvt.rm.#.$", "f16 f32 f64", "u32 s32 s64", "T", "U", AMPERE),
    exact("cvt.rp.#.$", "f16 f32 f64", "u32 s32 s64", "T", "U", AMPERE),
    exact("cvt.rn.bf16.$", "", "u16 s16 u32 s32 u64 s64", "T", "bf16", HOPPER),
    exact("cvt.rz.bf16.$", "", "s32 u64", "T", "bf16", HOPPER),
    exact("cvt.rni.#.$", BYTES_TOO, "f16 f32 f64", "T", "U", AMPERE),
    exact("cvt.rzi.#.$", BYTES_TOO, "f16 f32 f64", "T", "U", AMPERE),
    exact("cvt.rmi.#.$", "s16 u32 s32 u64 s64", "f16 f32 f64", "T", "U", AMPERE),
    exact("cvt.rpi.#.$", "s16 u32 s32 u64 s64", "f16 f32 f64", "T", "U", AMPERE),
    exact("cvt.#.ftz.$.f32", "rni rzi rmi rpi", "s32 u32 s64", "f32", "T", AMPERE),
    exact("cvt.#.$.bf16", "rni rzi rmi rpi", "s16 s32 u32 s64", "bf16", "T", HOPPER),
    exact("cvt.#.$.$", "rni rzi rmi rpi", "f16 f32 f64", "T", "T", AMPERE),
    exact("cvt.#.ftz.f32.f32", "rni rzi rmi rpi", "", "f32", "f32", AMPERE),
    exact("cvt.#.f32.f32", "rni.sat ftz ftz.sat sat", "", "f32", "f32", AMPERE),
    exact("cvt.$", "", "f64.f32 ftz.f64.f32 f64.f16 f32.f16 ftz.f32.f16 f64.bf16 f32.bf16 sat.f32.f16 sat.f64.f32", "F", "D", HOPPER),
    exact("cvt.$", "", "rn.f32.f64 rz.f32.f64 rm.f32.f64 rp.f32.f64 rn.ftz.f32.f64 rn.sat.f32.f64", "F", "D", AMPERE),
    exact("cvt.$", "", "rn.f16.f32 rz.f16.f32 rm.f16.f32 rp.f16.f32 rn.sat.f16.f32 rn.relu.f16.f32 rz.relu.f16.f32 rn.ftz.f16.f32", "F", "D", HOPPER),
    exact("cvt.$", "", "rn.f16.f64 rz.f16.f64 rm.f16.f64 rp.f16.f64", "F", "D", AMPERE),
    exact("cvt.$", "", "rn.bf16.f32 rz.bf16.f32 rm.bf16.f32 rp.bf16.f32 rn.relu.bf16.f32 rz.relu.bf16.f32 rn.bf16.f64 rz.bf16.f64 rn.bf16.f16 rz.bf16.f16 rn.f16.bf16 rz.f16.bf16", "F", "D", HOPPER),
    exact("cvt.#.$.f32", "rn rz rn.relu rz.relu", "f16x2 bf16x2", "f32 f32", "T", HOPPER),
    exact("cvt.#.tf32.f32", "rna", "", "f32", "f32", AMPERE),
    exact("cvt.#.tf32.f32", "rn rz rn.relu rz.relu", "", "f32", "f32", HOPPER),
    exact("cvt.#.tf32.f32", "rna.satfinite", "", "f32", "f32", LATE),
    exact("cvt.#.$.f32", "rn.satfinite rn.satfinite.relu", "e4m3x2 e5m2x2", "f32 f32", "T", HOPPER),
    exact("cvt.pack.sat.$.s32", "", "u16 s16", "b32 b32", "b32", AMPERE),
    exact("cvt.pack.sat.$.s32.b32", "", "u8 s8", "b32 b32 b32", "b32", AMPERE),
    exact("cvt.pack.sat.$.s32.b32", "", "u4 s4 u2 s2", "b32 b32 b32", "b32", HOPPER),
    exact("cvt.#.bf16.bf16", "rni rzi rmi rpi", "", "bf16", "bf16", HOPPER),
    exact("cvt.#.$.f16x2", "rn.satfinite rn.satfinite.relu", "e4m3x2 e5m2x2", "f16x2", "T", HOPPER),
    exact("cvt.#.f16x2.$", "rn rn.relu", "e4m3x2 e5m2x2", "T", "f16x2", HOPPER),
];

/// What need not be the same bits.
#[rustfmt::skip]
const APPROXIMATIONS: &[Group] = &[
    within("rcp.approx.$", "f32", "T", ulp(2, "relative error 2^-23")),
    within("rcp.approx.ftz.$", "f32", "T", ulp(2, "relative error 2^-23")),
    within("sqrt.approx.$", "f32", "T", ulp(2, "relative error 2^-23")),
    within("sqrt.approx.ftz.$", "f32", "T", ulp(2, "relative error 2^-23")),
    within("rsqrt.approx.$", "f32", "T", ulp(2, "relative error 2^-22.9")),
    within("rsqrt.approx.ftz.$", "f32", "T", ulp(2, "relative error 2^-22.9")),
    within("rsqrt.approx.$", "f64", "T", ulp(1 << 32, "PTX states no error; 20 bits are expected")),
    within("rsqrt.approx.ftz.$", "f64", "T", ulp(1 << 34, "a gross approximation of the upper 32 bits")),
    within("rcp.approx.ftz.$", "f64", "T", ulp(1 << 34, "a gross approximation of the upper 32 bits")),
    within("div.approx.$", "f32", "T T", Promise { ulp: 2, absolute: 0.0, range: [f32::MIN_POSITIVE as f64, 8.507059173023462e37], why: "2 ulp for divisors from 2^-126 to 2^126" }),
    within("div.approx.ftz.$", "f32", "T T", Promise { ulp: 2, absolute: 0.0, range: [f32::MIN_POSITIVE as f64, 8.507059173023462e37], why: "2 ulp for divisors from 2^-126 to 2^126" }),
    within("div.full.$", "f32", "T T", ulp(2, "2 ulp")),
    within("div.full.ftz.$", "f32", "T T", ulp(2, "2 ulp")),
    within("ex2.approx.$", "f32", "T", ulp(4, "relative error 2^-22")),
    within("ex2.approx.ftz.$", "f32", "T", ulp(4, "relative error 2^-22")),
    within("ex2.approx.$", "f16 f16x2", "T", ulp(2, "relative error 2^-9.9")),
    within("ex2.approx.ftz.$", "bf16 bf16x2", "T", ulp(2, "relative error 2^-7")),
    within("lg2.approx.$", "f32", "T", Promise { ulp: 4, absolute: 2.6e-7, range: ALL, why: "relative error 2^-22, absolute 2^-22 from 0.5 to 2" }),
    within("lg2.approx.ftz.$", "f32", "T", Promise { ulp: 4, absolute: 2.6e-7, range: ALL, why: "relative error 2^-22, absolute 2^-22 from 0.5 to 2" }),
    within("sin.approx.$", "f32", "T", absolute(3.76e-5, 314.159, "absolute error 2^-14.7 to 100 pi")),
    within("sin.approx.ftz.$", "f32", "T", absolute(3.76e-5, 314.159, "absolute error 2^-14.7 to 100 pi")),
    within("cos.approx.$", "f32", "T", absolute(3.76e-5, 314.159, "absolute error 2^-14.7 to 100 pi")),
    within("cos.approx.ftz.$", "f32", "T", absolute(3.76e-5, 314.159, "absolute error 2^-14.7 to 100 pi")),
    within("tanh.approx.$", "f32", "T", ulp(8192, "relative error 2^-11")),
    within("tanh.approx.$", "f16 f16x2", "T", absolute(1.0e-3, f64::INFINITY, "absolute error 2^-10.987")),
    within("tanh.approx.$", "bf16 bf16x2", "T", absolute(8.0e-3, f64::INFINITY, "absolute error 2^-8")),
];

/// Every instruction.
pub fn rows() -> Vec<Row> {
    let groups = [ARITHMETIC, CONVERSIONS, APPROXIMATIONS].into_iter().flatten();
    let mut rows: Vec<Row> = groups.flat_map(Group::rows).collect();
    // Names are what results are recorded by: those that differ in operands alone are numbered.
    let mut seen = HashMap::<String, usize>::new();
    for row in &mut rows {
        let count = seen.entry(row.name.clone()).and_modify(|count| *count += 1).or_insert(1);
        if *count > 1 {
            row.name = format!("{} ({count})", row.name);
        }
    }
    rows
}

impl Group {
    fn rows(&self) -> Vec<Row> {
        let words = |list: &'static str| -> Vec<&'static str> {
            if list.is_empty() { vec![""] } else { list.split(' ').collect() }
        };
        // The empty word among variants stands before their first blank.
        let variants: Vec<&str> =
            if self.variants.starts_with(' ') { self.variants.split(' ').collect() } else { words(self.variants) };
        variants.iter().flat_map(|variant| words(self.types).into_iter().map(|ty| self.row(variant, ty))).collect()
    }

    fn row(&self, variant: &str, ty: &str) -> Row {
        let fill = |text: &str| text.replace('$', ty).replace('#', variant);
        let kind = |name: &str| -> Kind {
            let mut parts = ty.rsplit('.');
            let name = match name {
                "T" => ty,
                "U" => variant,
                "F" => parts.next().unwrap_or_default(),
                "D" => parts.nth(1).unwrap_or_default(),
                "W" => match ty {
                    "u16" => "u32",
                    "s16" => "s32",
                    "u32" => "u64",
                    _ => "s64",
                },
                name => name,
            };
            Kind::named(name).unwrap_or_else(|| panic!("{}: no kind is named `{name}`", self.text))
        };
        let operands: Vec<Kind> = self.operands.split(' ').map(kind).collect();
        let body = if self.text.contains('%') {
            fill(self.text)
        } else {
            let registers = ["%d", "%a", "%b", "%c", "%e"];
            format!("{} {};", fill(self.text), registers[..=operands.len()].join(", "))
        };
        // The opcodes that the table varies, or all where it varies none.
        let opcodes = self
            .text
            .split(';')
            .filter_map(|instruction| instruction.split_whitespace().find(|word| !word.starts_with("@%")));
        let varied: Vec<&str> = opcodes.clone().filter(|opcode| opcode.contains(['$', '#'])).collect();
        let shown = if varied.is_empty() { opcodes.collect() } else { varied };
        let operand = if shown.iter().any(|opcode| opcode.contains('#')) { "" } else { variant };
        let name = format!("{} {operand}", fill(&shown.join("+"))).trim_end().to_owned();
        Row { name, body, result: kind(self.result), operands, needs: self.needs, bound: self.bound }
    }
}

impl Row {
    /// A kernel of four warps a CTA in which each thread loads its operands (8 bytes for each), executes the instruction
    /// once and stores the result in its 8 bytes.
    pub fn kernel(&self) -> String {
        let [version, target] = self.needs;
        let entry = crate::launch::ENTRY;
        let bits = self.result.bits();
        let names = ["a", "b", "c", "e"];
        let (mut registers, mut loads) = (String::new(), String::new());
        for (index, (kind, name)) in self.operands.iter().zip(names).enumerate() {
            registers.push_str(&format!("    .reg .b{} %{name};\n", kind.bits()));
            loads.push_str(&format!("    ld.global.b{} %{name}, [%in+{}];\n", kind.bits(), 8 * index));
        }
        if self.body.contains("@%r ") {
            loads.push_str("    shr.u32 %t3, %a, %lane;\n    and.b32 %t3, %t3, 1;\n    setp.ne.u32 %r, %t3, 0;\n");
            // What lanes outside have.
            loads.push_str("    mov.b32 %t0, 0;\n    setp.ne.u32 %p, %t0, 0;\n    setp.ne.u32 %q, %t0, 0;\n");
        }
        let body = self.body.replace("; ", ";\n    ");
        format!(
            ".version {version}
.target {target}
.address_size 64
.visible .entry {entry}(.param .u64 {entry}_param_0, .param .u64 {entry}_param_1)
.reqntid 128
{{
    .reg .b64 %in, %out, %l0;
    .reg .b32 %lane, %cta, %all, %t<4>;
    .reg .b16 %h<2>;
    .reg .pred %p, %q, %r;
    .reg .b{bits} %d, %s;
{registers}    ld.param.u64 %in, [{entry}_param_0];
    ld.param.u64 %out, [{entry}_param_1];
    mov.u32 %all, %tid.x;
    mov.u32 %cta, %ctaid.x;
    and.b32 %lane, %all, 31;
    mad.lo.u32 %all, %cta, 128, %all;
    mad.wide.u32 %in, %all, {stride}, %in;
    mad.wide.u32 %out, %all, 8, %out;
    mov.b{bits} %d, 0;
{loads}    {body}
    st.global.b{bits} [%out], %d;
    ret;
}}
",
            stride = 8 * self.operands.len(),
        )
    }
}
