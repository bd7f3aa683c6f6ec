//! Triton's IR text, read and printed: Triton's own kernels, and the forms that they do not have (`tests/data/ttir`).

#[path = "support/corpus.rs"]
mod corpus;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tilewright::tile::verify::verify_program;
use tilewright::tile::{OpKind, Program, Scalar, Type, float_value, int_value};
use tilewright::ttir;

fn read(path: &Path) -> (String, Program) {
    let text = std::fs::read_to_string(path).unwrap();
    let program = ttir::read(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (text, program)
}

/// Texts of our own.
fn own() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ttir");
    let mut files = corpus::files(&folder, "ttir");
    files.retain(|path| path.parent() == Some(&folder));
    assert!(files.len() >= 5);
    files
}

/// How many operations of each name a text has, found without the reader: the first word of each line with a dot in it, behind
/// an equals sign if there is one.
fn names_of_text(text: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in text.lines().map(str::trim_start) {
        let results = line.starts_with('%').then(|| line.split_once(" = ")).flatten();
        let word = results.map_or(line, |(_, rest)| rest).trim_start_matches('"');
        let end = word.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(word.len());
        let name = match &word[..end] {
            "tt.func" => continue,
            // One operation in the tile IR.
            "tt.reduce.return" | "tt.scan.return" => "scf.yield",
            name => name,
        };
        if name.contains('.') {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// The same of a program, without the yields of nothing, which the text leaves out.
fn names_of_program(program: &Program) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for func in &program.funcs {
        for op in func.all_ops() {
            let data = func.op(op);
            if data.kind != OpKind::Yield || !data.operands.is_empty() {
                let name = if data.kind == OpKind::Yield { "scf.yield" } else { data.kind.name() };
                *counts.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
    counts
}

/// The text of a program reads as the same program, but for places and names, and prints as the same text.
fn round_trip(path: &Path, program: &Program) {
    verify_program(program).unwrap();
    let printed = program.to_string();
    let again = ttir::read(&printed).unwrap_or_else(|error| panic!("{}, printed: {error}\n{printed}", path.display()));
    assert_eq!(again.to_string(), printed, "{}", path.display());
    assert_eq!(names_of_program(&again), names_of_program(program), "{}", path.display());
    assert_eq!(again.attributes, program.attributes);
    for (a, b) in again.funcs.iter().zip(&program.funcs) {
        assert_eq!(
            (&a.name, a.public, &a.params, &a.results, &a.attributes),
            (&b.name, b.public, &b.params, &b.results, &b.attributes)
        );
        let (ops, others) = (a.all_ops(), b.all_ops());
        assert_eq!(ops.len(), others.len());
        for (&x, &y) in ops.iter().zip(&others) {
            let (x, y) = (a.op(x), b.op(y));
            assert_eq!((&x.kind, &x.attributes), (&y.kind, &y.attributes), "{}: {:?}", path.display(), y.loc);
            // The arenas are filled in the order of the text both times.
            assert_eq!((&x.operands, &x.results, &x.successors), (&y.operands, &y.results, &y.successors));
            assert!(x.results.iter().zip(&y.results).all(|(&x, &y)| a.ty(x) == b.ty(y)));
        }
    }
}

#[test]
fn every_kernel_of_tritons_is_read_and_printed() {
    let Some(folder) = corpus::triton() else { return };
    let files = corpus::files(&folder, "ttir");
    assert!(files.len() >= 80, "{} kernels", files.len());
    for path in files {
        let (text, program) = read(&path);
        assert_eq!(program.kernels().count(), 1, "{}", path.display());
        assert_eq!(names_of_program(&program), names_of_text(&text), "{}", path.display());
        round_trip(&path, &program);
    }
}

/// The printed form of our own texts, to be reviewed; Triton 3.6 reads both and finds them the same.
#[test]
fn every_form_is_read_and_printed() {
    for path in own() {
        let (_, program) = read(&path);
        round_trip(&path, &program);
        let name = path.file_stem().unwrap().to_str().unwrap();
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(format!("printed_{name}"), program) });
    }
}

/// The program of one of our own texts.
fn own_program(name: &str) -> Program {
    read(&own().into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == name)).unwrap()).1
}

#[test]
fn constants_have_their_bits() {
    let program = own_program("arithmetic");
    let func = &program.funcs[0];
    let bits = |name: &str| {
        let constants = func.all_ops().into_iter().filter(|&op| matches!(func.op(op).kind, OpKind::Constant(_)));
        let op = constants.into_iter().find(|&op| func.value(func.result(op)).name == name).unwrap();
        let OpKind::Constant(bits) = func.op(op).kind else { unreachable!() };
        bits
    };
    assert_eq!(int_value(Scalar::I32, bits("c-7_i32")), -7);
    assert_eq!(bits("big"), u64::MAX);
    assert_eq!(bits("low"), 1 << 63);
    assert_eq!(bits("all"), 1);
    assert_eq!(bits("tenth"), u64::from(0.1_f32.to_bits()));
    assert_eq!(bits("infinity"), u64::from(f32::INFINITY.to_bits()));
    assert_eq!(bits("nan"), 0x7e00);
    assert_eq!(bits("zero"), u64::from((-0.0_f32).to_bits()));
    assert_eq!(bits("pi"), std::f64::consts::PI.to_bits());
    assert_eq!(float_value(Scalar::Bf16, bits("brain")), Some(-1.75));
    assert_eq!(float_value(Scalar::F8E4M3, bits("small")), Some(0.4375));
}

#[test]
fn places_are_those_of_the_text() {
    let text = "module {\n  tt.func @k(%n: i32) {\n    %0 = arith.addi %n, %n : i32 loc(\"a.py\":7:8)\n    tt.return\n  }\n}\n";
    let program = ttir::read(text).unwrap();
    let func = &program.funcs[0];
    let places: Vec<_> = func.all_ops().into_iter().map(|op| (func.op(op).loc.line, func.op(op).loc.column)).collect();
    assert_eq!(places, [(3, 10), (4, 5)]);
}

#[test]
fn parameters_and_attributes_are_kept() {
    let program = own_program("control");
    assert_eq!(program.attributes["tt.flag"], "");
    assert_eq!(program.attributes["tt.quoted name"], "3 : i64");
    let kernel = program.kernels().next().unwrap();
    assert_eq!(kernel.params[0].divisibility, Some(16));
    assert_eq!(kernel.params[1].name, "n");
    assert_eq!(kernel.attributes["noinline"], "false");
    let helper = program.func("helper").unwrap();
    assert!(!helper.public && program.func("a b").is_some());
    assert_eq!(helper.results.len(), 2);
    let loops: Vec<_> = kernel.all_ops().into_iter().filter(|&op| kernel.op(op).kind == OpKind::For).collect();
    assert_eq!(kernel.op(loops[0]).attributes["tt.num_stages"], "3 : i32");
    let memory = own_program("memory");
    assert_eq!(memory.funcs[0].params[2].ty, Type::pointer(Scalar::F16));
}

/// Both forms of `tt.dot_scaled` have the scale behind what it scales.
#[test]
fn operands_come_in_the_order_of_the_short_form() {
    let program = own_program("generic");
    let func = &program.funcs[0];
    let counts: Vec<_> = func
        .all_ops()
        .into_iter()
        .filter(|&op| matches!(func.op(op).kind, OpKind::DotScaled { .. }))
        .map(|op| func.op(op).operands.iter().map(|&value| func.ty(value).to_string()).collect::<Vec<_>>())
        .collect();
    let (x, s, c) = ("tensor<64x64xf8E4M3FN>", "tensor<64x2xi8>", "tensor<64x64xf32>");
    assert_eq!(counts, [vec![x, x, s, c], vec![x, s, x, s, c]]);
}
