//! Malformed PTX: the diagnostic of each file in `tests/ptx`, and no panic whatever the bytes.

use std::path::Path;

use proptest::prelude::*;
use tilewright::ptx::{Arch, Statistics, parse, print};
use tilewright::template::PotrfWarp;

/// Each file starts with `// expect LINE:COLUMN: MESSAGE`, the start of its diagnostic's message.
#[test]
fn each_malformed_file_has_its_diagnostic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ptx");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 20);
    let mut wrong = Vec::new();
    for path in files {
        let source = std::fs::read_to_string(&path).unwrap();
        let expected = source.lines().next().and_then(|line| line.strip_prefix("// expect ")).unwrap();
        let found = match parse(&source) {
            Ok(_) => "nothing".to_owned(),
            Err(fault) => format!("{}:{}: {}", fault.line, fault.column, fault.message),
        };
        if !found.starts_with(expected) {
            wrong.push(format!("{}: expected {expected}, found {found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn template() -> String {
    PotrfWarp { n: 3, rank: 1, warps: 1 }.instantiate(Arch::Sm90a).unwrap().ptx
}

/// Forms that the templates do not have.
const RARE: &str = ".version 8.6\n.target sm_100a, debug\n.address_size 64\n.file 1 \"a\"\n\
    .extern .func (.param .b32 r) f(.param .align 8 .b8 a[16]) .noreturn;\n\
    .global .attribute(.managed) .align 4 .v2 .b32 t[2][2] = {{{1, 2}, {3}}, {{4U, 0x5}}};\n\
    .visible .entry k(.param .u64 .ptr .global .align 16 a) .reqntid 32, 1, 1 .pragma \"x\"; {\n\
    .reg .v4 .f32 %v; .reg .pred p; .reg .b32 %r<8>;\n$L7: ts: .branchtargets $L7,\n $L7;\n\
    @!p bra.uni $L7; brx.idx %r1, ts;\n.loc 1 2 3\n{ .reg .b32 %r<2>; waitLoop: @p bra waitLoop; mov.f32 %v.x, 0f3F800000; }\n\
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r0+-16], [a, {%r1, %r2}], [%r3];\n\
    shfl.sync.idx.b32 %r1|p, %r2, _, 0x1f, -1;\ncall.uni (r), f, (a, 1.5); }\n";

/// Replaces, removes and inserts bytes; what is no text any more is made so.
fn mutate(source: &str, edits: &[(usize, u8, u8)]) -> String {
    let mut bytes = source.as_bytes().to_vec();
    for &(at, kind, byte) in edits {
        let at = at % bytes.len().max(1);
        match kind % 4 {
            0 if at < bytes.len() => bytes[at] = byte,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            // A piece of the text, once more: structure survives more often than with single bytes.
            2 => {
                let piece = bytes[at..(at + usize::from(byte)).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.insert(at, b".;,{}[]()<>%|+-\"0x:@!"[usize::from(byte) % 21]),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What parses prints, its print is a fixed point, and both count the same.
fn check(source: &str) -> Result<(), TestCaseError> {
    let Ok(program) = parse(source) else { return Ok(()) };
    let printed = print(&program);
    let again = parse(&printed).map_err(|fault| TestCaseError::fail(format!("{fault} in:\n{printed}")))?;
    prop_assert_eq!(print(&again), printed);
    let instructions =
        |statistics: Vec<Statistics>| -> Vec<u64> { statistics.iter().map(|entry| entry.instructions).collect() };
    prop_assert_eq!(instructions(Statistics::of(&again)), instructions(Statistics::of(&program)));
    Ok(())
}

/// Sizes that no machine has saturate; they neither wrap nor panic.
#[test]
fn absurd_shared_sizes_saturate() {
    let source = ".version 8.0\n.target sm_90a\n.entry k() { .shared .b8 a[18446744073709551615]; \
                  .shared .b64 b[18446744073709551615]; ret; }";
    let program = parse(source).unwrap();
    assert_eq!(Statistics::of(&program)[0].shared_bytes, u64::MAX);
    check(source).unwrap();
}

#[test]
fn the_sources_of_mutation_parse() {
    for source in [template().as_str(), RARE] {
        parse(source).unwrap();
        check(source).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_templates_never_panic(edits in proptest::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..4)) {
        check(&mutate(&template(), &edits))?;
    }

    #[test]
    fn mutated_rare_forms_never_panic(edits in proptest::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..4)) {
        check(&mutate(RARE, &edits))?;
    }

    #[test]
    fn random_text_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        check(&text)?;
        check(&format!(".version 8.0\n.target sm_90a\n.entry k() {{ {text} }}"))?;
    }

    /// Another spelling of the same registers and labels prints the same.
    #[test]
    fn names_do_not_show(seed in any::<u32>()) {
        let source = template();
        let renamed = rename(&source, seed);
        prop_assert_ne!(&renamed, &source);
        prop_assert_eq!(print(&parse(&renamed).unwrap()), print(&parse(&source).unwrap()));
    }
}

/// The text with another name for every register and label that it declares.
fn rename(source: &str, seed: u32) -> String {
    use tilewright::ptx::lexer::{TokenKind, lex};
    use tilewright::ptx::model::Statement;
    let program = parse(source).unwrap();
    let mut declared = std::collections::HashSet::new();
    for statement in program.entries().flat_map(|entry| entry.body.iter().flatten()) {
        match statement {
            Statement::Registers(registers) => {
                declared.extend(registers.names.iter().map(|(name, _)| name.as_str()));
            }
            Statement::Label(label) => {
                declared.insert(label.name.as_str());
            }
            _ => {}
        }
    }
    let mut text = String::new();
    let mut end = 0;
    for token in lex(source).unwrap() {
        let (from, to) = (token.span.start as usize, token.span.end as usize);
        text.push_str(&source[end..from]);
        let word = &source[from..to];
        let stem = word.trim_end_matches(|byte: char| byte.is_ascii_digit());
        if token.kind == TokenKind::Word && declared.contains(word) {
            text.push_str(&format!("%{}_{seed}x", word.trim_start_matches(['%', '$'])));
        } else if token.kind == TokenKind::Word && declared.contains(stem) {
            text.push_str(&format!("%{}_{seed}x{}", stem.trim_start_matches(['%', '$']), &word[stem.len()..]));
        } else {
            text.push_str(word);
        }
        end = to;
    }
    text.push_str(&source[end..]);
    text
}
