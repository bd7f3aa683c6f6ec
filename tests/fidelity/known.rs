//! What is known to be missing or different, so that anything else is a failure.

/// Instructions that the emulator does not know: names, where `*` stands for anything.
pub const GAPS: &[&str] = &[
    "*.NaN.*",
    "*.ftz.f16",
    "*.ftz.f16x2",
    "*.relu.*",
    "*.s16x2",
    "*.sat.f16",
    "*.sat.f16x2",
    "*.sat.s32",
    "*.u16x2",
    "*.xorsign.abs.*",
    "add.cc.*",
    "add.rm.*",
    "add.rp.*",
    "add.rz.*",
    "bmsk.*",
    "cvt.*.bf16.f16",
    "cvt.*.f16.bf16",
    "cvt.*.f16x2",
    "cvt.*i.f16.f16",
    "cvt.f64.bf16",
    "cvt.rm.*",
    "cvt.rn.*f16.*64",
    "cvt.rn.f16x2.*",
    "cvt.rn.sat.f16.f32",
    "cvt.rn.tf32.f32",
    "cvt.rp.*",
    "cvt.rz.*.*32",
    "cvt.rz.*.*64",
    "cvt.rz.f*.*16",
    "cvt.sat.f64.f32",
    "div.rm.*",
    "div.rp.*",
    "div.rz.*",
    "dp2a.*",
    "dp4a.*",
    "ex2.approx*16*",
    "fma.rm.*",
    "fma.rp.*",
    "fma.rz.*",
    "mad.hi.*16",
    "mad.hi.*64",
    "mad.lo.cc.*",
    "mad24.*",
    "mul.rm.*",
    "mul.rp.*",
    "mul.rz.*",
    "mul24.hi.*",
    "rcp.*.f64",
    "rcp.rm.*",
    "rcp.rp.*",
    "rcp.rz.*",
    "rsqrt.*.f64",
    "sad.*64",
    "set.*",
    "setp.*16x2",
    "slct.*64.s32",
    "sqrt.rm.*",
    "sqrt.rp.*",
    "sqrt.rz.*",
    "sub.cc.*",
    "sub.rm.*",
    "sub.rp.*",
    "sub.rz.*",
    "szext.*",
    "tanh.approx.*16*",
    "testp.*",
];

/// Instructions whose bits differ, and why that is accepted.
pub const ACCEPTED: &[(&str, &str)] = &[(
    "m16n8k32.f16.e4m3.e4m3.f16",
    "the emulator adds an infinite sum of the first half of k to the other half's after rounding it, which may overflow too",
)];

/// Whether `pattern` names `instruction`.
pub fn names(pattern: &str, instruction: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| instruction.strip_prefix(first)) else { return false };
    let Some(last) = pattern.rsplit('*').next().filter(|_| pattern.contains('*')) else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    instruction.ends_with(last)
}

#[test]
fn patterns_name_instructions() {
    for (pattern, instruction, expected) in [
        ("add.rn.f32", "add.rn.f32", true),
        ("add.rn.f32", "add.rn.f32x2", false),
        ("*.ftz.f16", "add.rn.ftz.f16", true),
        ("*.ftz.f16", "add.rn.ftz.f16x2", false),
        ("cvt.*i.f16.*", "cvt.rni.f16.f16", true),
        ("cvt.*i.f16.*", "cvt.rn.f16.f16", false),
        ("fma.*", "fma.rn.f32", true),
    ] {
        assert_eq!(names(pattern, instruction), expected, "{pattern} {instruction}");
    }
}
