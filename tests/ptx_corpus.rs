//! The printer over real PTX: 80 kernels that Triton compiled for sm_90 and sm_100.

#[path = "support/corpus.rs"]
mod corpus;
#[path = "support/ptxas.rs"]
mod ptxas;

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Command;

use rayon::prelude::*;
use tilewright::ptx::model::Statement;
use tilewright::ptx::{Program, Statistics, parse, print};

/// Triton's kernels, in order of name; none where there is no corpus.
fn corpus() -> Vec<(PathBuf, String)> {
    let Some(root) = corpus::triton() else { return Vec::new() };
    let files = corpus::ptx_files(&root);
    assert_eq!(files.len(), 80, "the corpus at {} is not whole", root.display());
    files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// Two threads: `ptxas` takes much memory on the largest kernels.
fn two_at_a_time() -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap()
}

fn instructions(statements: &[Statement]) -> usize {
    statements
        .iter()
        .map(|statement| match statement {
            Statement::Instruction(_) => 1,
            Statement::Block(inner) => instructions(inner),
            _ => 0,
        })
        .sum()
}

fn instructions_of(program: &Program) -> usize {
    program.entries().filter_map(|entry| entry.body.as_deref()).map(instructions).sum()
}

/// Instructions counted without the parser: pieces between semicolons, braces and labels that start with a guard or a
/// lower-case letter.
fn count_pieces(source: &str) -> usize {
    let text: String = source.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n");
    let Some(body) = text.find("\n{") else { return 0 };
    text[body..]
        .split(';')
        .filter(|piece| {
            let piece = piece.trim_start_matches(|byte: char| byte.is_whitespace() || byte == '{' || byte == '}');
            // What follows the last label of the piece.
            let piece = piece.lines().filter(|line| !line.trim_end().ends_with(':')).collect::<Vec<_>>().join("\n");
            piece
                .trim_start_matches(['{', '}', ' ', '\t', '\n'])
                .starts_with(|byte: char| byte == '@' || byte.is_ascii_lowercase())
        })
        .count()
}

#[test]
fn printing_is_a_fixed_point_and_loses_no_instruction() {
    two_at_a_time().install(|| {
        corpus().par_iter().for_each(|(path, source)| {
            let program = parse(source).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
            let printed = print(&program);
            let again = parse(&printed).unwrap_or_else(|fault| panic!("{} printed: {fault}", path.display()));
            assert!(print(&again) == printed, "{}: printing twice differs", path.display());
            assert_eq!(instructions_of(&program), count_pieces(source), "{}", path.display());
            assert_eq!(instructions_of(&again), instructions_of(&program), "{}", path.display());
            let counted: u64 = Statistics::of(&program).iter().map(|entry| entry.instructions).sum();
            assert_eq!(counted, count_pieces(source) as u64, "{}", path.display());
            for entry in Statistics::of(&program) {
                assert_eq!(entry.mix.values().sum::<u64>(), entry.instructions, "{}: {}", path.display(), entry.name);
            }
        });
    });
}

/// `ptxas` 13 is not a function of its input: of some sm_100 kernels it makes, run to run and from the very same file,
/// one of two cubins that differ in the registers of a few instructions. The text is the same machine code if some
/// cubin of the one equals, byte for byte, some cubin of the other; that many rounds are made to meet.
const ROUNDS: u32 = 16;

#[test]
fn ptxas_makes_the_same_machine_code_of_the_printed_text() {
    let Some(ptxas) = ptxas::ptxas() else { return };
    let folder = tempfile::tempdir().unwrap();
    let assemble = |name: &str, target: &str, text: &str| {
        let (ptx, cubin) = (folder.path().join(format!("{name}.ptx")), folder.path().join(format!("{name}.cubin")));
        std::fs::write(&ptx, text).unwrap();
        let output =
            Command::new(&ptxas).arg(format!("-arch={target}")).arg(&ptx).arg("-o").arg(&cubin).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(cubin).unwrap()
    };
    let differing: Vec<String> = two_at_a_time().install(|| {
        corpus()
            .par_iter()
            .enumerate()
            .filter_map(|(index, (path, source))| {
                let program = parse(source).unwrap();
                let target = &program.target[0];
                let printed = print(&program);
                let (mut before, mut after) = (HashSet::new(), HashSet::new());
                let met = (0..ROUNDS).any(|_| {
                    before.insert(assemble(&format!("{index}_before"), target, source));
                    after.insert(assemble(&format!("{index}_after"), target, &printed));
                    !before.is_disjoint(&after)
                });
                (!met).then(|| path.display().to_string())
            })
            .collect()
    });
    assert!(differing.is_empty(), "{} differ: {differing:#?}", differing.len());
}
