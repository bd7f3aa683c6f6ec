//! Texts of Triton's IR that are wrong (`tests/data/ttir/wrong`): what is said of each, and no panic whatever the bytes.

#[path = "support/corpus.rs"]
mod corpus;

use std::fmt::Write;
use std::path::Path;

use proptest::prelude::*;
use tilewright::tile::verify::verify;
use tilewright::ttir;

fn data() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ttir")
}

/// The line of a fault, carets under what is wrong, and what is said of it.
fn render(text: &str, error: &ttir::Error) -> String {
    let line = text.lines().nth(error.line - 1).unwrap_or_default();
    assert!(error.span.end <= text.len() && error.span.start <= error.span.end);
    let width = error.span.len().clamp(1, (line.len() + 1).saturating_sub(error.column - 1).max(1));
    let head = format!("{:>3} | ", error.line);
    let blank = " ".repeat(head.len() + error.column - 1);
    format!("{head}{line}\n{blank}{} {:?}: {}\n", "^".repeat(width), error.kind, error.message)
}

/// Every file has a fault; all that is said, in one text to be reviewed.
#[test]
fn each_fault_has_its_diagnostic() {
    let files = corpus::files(&data().join("wrong"), "ttir");
    assert!(files.len() > 90);
    let mut all = String::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        match ttir::read(&text) {
            Ok(_) => panic!("{name} is read"),
            Err(error) => {
                assert!(error.to_string().starts_with(&format!("line {}, column {}: ", error.line, error.column)));
                writeln!(all, "{name}\n{}", render(&text, &error)).unwrap();
            }
        }
    }
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!("diagnostics", all) });
}

#[test]
fn deep_texts_end_in_an_error() {
    for (open, close) in [("scf.if %c {", "}"), ("\"scf.if\"(%c) ({", "}, {}) : (i1) -> ()")] {
        let text = format!("module {{ tt.func @k(%c: i1) {{ {} {} }} }}", open.repeat(100_000), close.repeat(100_000));
        let error = ttir::read(&text).unwrap_err();
        assert_eq!((error.kind, error.line), (ttir::ErrorKind::Unsupported, 1));
    }
    for text in ["tensor<".repeat(100_000), "!tt.ptr<".repeat(100_000), "[".repeat(100_000), "1x".repeat(100_000)] {
        assert!(ttir::read(&format!("module {{ tt.func @k(%c: {text}")).is_err());
        assert!(ttir::read(&format!("module attributes {{ a = {text}")).is_err());
        assert!(ttir::read(&format!("module {{ tt.func @k(%c: tensor<1{text}")).is_err());
    }
    let many = format!("module {{ tt.func @k() {{ %0:{} = arith.constant 1 : i32 tt.return }} }}", u32::MAX);
    assert!(ttir::read(&many).is_err());
}

/// Pieces that the texts are made of.
const PIECES: &[&str] = &[
    "%0",
    "%x",
    "^bb1",
    "i32",
    "f32",
    "tensor<16xf32>",
    "!tt.ptr<f32>",
    " : ",
    "->",
    "{",
    "}",
    "({",
    "})",
    "scf.if",
    "tt.load",
    "\"tt.reduce\"",
    "arith.constant",
    "dense<",
    "0x7F",
    "-1",
    "99999999999999999999",
    "loc(",
    "#0",
    "tt.return",
    "scf.yield",
    "else",
    "= ",
    "<{",
    "array<i32: 1>",
    "operandSegmentSizes",
    "\"",
    "é",
];

/// The last place between characters that is not behind `at`.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Replaces, removes, repeats and inserts; cuts fall between characters.
fn mutate(source: &str, edits: &[(usize, u8, u8)]) -> String {
    let mut text = source.to_owned();
    for &(at, kind, byte) in edits {
        let start = boundary(&text, at % (text.len() + 1));
        let end = boundary(&text, start + usize::from(byte));
        let piece = PIECES[usize::from(byte) % PIECES.len()];
        match kind % 4 {
            0 => text.replace_range(start..boundary(&text, start + usize::from(byte % 9)), ""),
            1 => text.insert_str(start, piece),
            2 => {
                let again = text[start..end].to_owned();
                text.insert_str(start, &again);
            }
            _ => {
                // A word for another: the form stays and the meaning goes.
                let from = text[..start].rfind([' ', ',', '(', '<']).map_or(0, |at| at + 1);
                let to = text[start..].find([' ', ',', ')', '>']).map_or(text.len(), |at| start + at);
                text.replace_range(from..to, piece);
            }
        }
    }
    text
}

fn sources() -> Vec<String> {
    let mut files = corpus::files(&data(), "ttir");
    // Small ones of Triton's: a case should be quick.
    if let Some(folder) = corpus::triton() {
        files.extend(corpus::files(&folder, "ttir").into_iter().step_by(9));
    }
    files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Whatever is read is right: it prints, and reads again as what it prints; and without its calls it keeps every rule too.
fn check(text: &str) -> Result<(), TestCaseError> {
    if let Ok(program) = ttir::read(text) {
        let printed = program.to_string();
        match ttir::read(&printed) {
            Ok(again) => prop_assert_eq!(again.to_string(), printed),
            Err(error) => return Err(TestCaseError::fail(format!("{error}\n{text}\n\n{printed}"))),
        }
        for func in &program.funcs {
            if let Ok(inlined) = program.inlined(&func.name) {
                let broken = verify(&inlined).err().map(|errors| errors[0].to_string());
                prop_assert_eq!(broken, None, "{}", text);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_texts_do_not_panic(
        source in 0_usize..1000,
        edits in prop::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..6),
    ) {
        thread_local!(static SOURCES: Vec<String> = sources());
        let text = SOURCES.with(|sources| mutate(&sources[source % sources.len()], &edits));
        check(&text)?;
    }

    #[test]
    fn pieces_do_not_panic(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60)) {
        check(&pieces.join(" "))?;
        check(&format!("module {{ tt.func @k(%x: f32) {{ {} }} }}", pieces.join(" ")))?;
    }
}
