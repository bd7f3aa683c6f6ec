//! The families' tile programs beside Triton's own `.ttir` of the kernels that they stand in for: after simplification the same
//! parameters and the same operations on the same types.

#[path = "../support/corpus.rs"]
mod corpus;

mod histogram;
mod programs;

use histogram::{difference, of_func, of_text, parameters_of_func, parameters_of_text};
use programs::all;
use tilewright::tile::simplify;

#[test]
fn every_kernel_of_the_corpus_has_a_program() {
    let Some(root) = corpus::triton() else { return };
    let mut folders: Vec<String> = std::fs::read_dir(root.join("sm_90"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let mut named: Vec<_> = all().into_iter().map(|program| program.folder).collect();
    named.sort_unstable();
    assert_eq!(folders, named);
}

#[test]
fn programs_do_what_triton_does() {
    let Some(root) = corpus::triton() else { return };
    let mut wrong = Vec::new();
    for program in all() {
        let text = std::fs::read_to_string(root.join("sm_90").join(program.folder).join("kernel.ttir")).unwrap();
        let mut func = program.func.unwrap();
        simplify::canonicalise(&mut func);
        assert_eq!(parameters_of_func(&func), parameters_of_text(&text), "{}", program.folder);
        let difference = difference(&of_func(&func), &of_text(&text));
        if !difference.is_empty() {
            wrong.push(format!("{} (ours, Triton's):\n{}", program.folder, difference.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn parameters_that_break_a_rule_are_named() {
    for (message, error) in programs::refused() {
        let error = error.unwrap_err().to_string();
        assert_eq!(error, message);
    }
}
