//! What is known to be missing or different, so that anything else is a failure.

/// Instructions that the emulator does not know: names, where `*` stands for anything.
pub const GAPS: &[&str] = &[];

/// Instructions whose bits differ, and why that is accepted.
pub const ACCEPTED: &[(&str, &str)] = &[];

/// Families of operands of which the model misses a result, and which.
pub const MISSED: &[(&str, &str, &str)] = &[(
    "m16n8k16.f32.bf16.bf16.f32",
    "Subnormal",
    "one result of 2048, a subnormal, is a unit off; none of the models that were tried has it",
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
