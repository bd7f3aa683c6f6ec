//! The families' tile programs beside Triton's own `.ttir` of the kernels that they stand in for: after simplification the same
//! parameters and the same operations on the same types.

#[path = "../support/corpus.rs"]
mod corpus;

mod histogram;
mod operations;
mod programs;
mod structure;

use histogram::{difference, of_func, of_text, parameters_of_func, parameters_of_text};
use programs::all;
#[cfg(feature = "llvm")]
use tilewright::generate::TileKernel;
use tilewright::tile::simplify;
use tilewright::tile::verify::verify;

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

/// More than the same operations: the same expressions, for every value that is stored, loaded through or decided on.
#[test]
fn programs_are_tritons_up_to_order() {
    let Some(root) = corpus::triton() else { return };
    for program in all() {
        let path = root.join("sm_90").join(program.folder).join("kernel.ttir");
        let mut theirs = tilewright::ttir::read(&std::fs::read_to_string(path).unwrap()).unwrap();
        let theirs = &mut theirs.funcs[0];
        let mut ours = program.func.unwrap();
        simplify::canonicalise(&mut ours);
        simplify::canonicalise(theirs);
        verify(theirs).unwrap_or_else(|errors| panic!("Triton's {}, simplified: {}", program.folder, errors[0]));
        let mut numbers = structure::Numbers::default();
        let (ours, theirs) = (structure::effects(&ours, &mut numbers), structure::effects(theirs, &mut numbers));
        assert_eq!(ours, theirs, "{}", program.folder);
    }
}

/// Every rule of the builder that the kernels have no use for: promotions, conversions, reductions, scans, atomics.
#[test]
fn operations_are_tritons() {
    let mut ours = operations::operations().unwrap();
    let mut theirs = tilewright::ttir::read(operations::TRITON).unwrap();
    let theirs = &mut theirs.funcs[0];
    assert_eq!(parameters_of_func(&ours), parameters_of_func(theirs));
    simplify::canonicalise(&mut ours);
    simplify::canonicalise(theirs);
    let mut numbers = structure::Numbers::default();
    let (ours, theirs) = (structure::effects(&ours, &mut numbers), structure::effects(theirs, &mut numbers));
    for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours, theirs, "effect {index}, counted in the text");
    }
    assert_eq!(ours.len(), theirs.len());
}

/// The verifier agrees with the builder and with every pass, and nothing is left to simplify.
#[test]
fn programs_are_valid_and_simplified_at_once() {
    for program in all() {
        let mut func = program.func.unwrap();
        verify(&func).unwrap_or_else(|errors| panic!("{}: {}", program.folder, errors[0]));
        simplify::simplify(&mut func);
        verify(&func).unwrap_or_else(|errors| panic!("{}, simplified: {}", program.folder, errors[0]));
        let once = func.op_count();
        simplify::simplify(&mut func);
        assert_eq!(func.op_count(), once, "{} is not simplified at once", program.folder);
    }
}

/// What is checked in under `generated/` are the programs that stand in for the corpus, and few more.
#[test]
fn every_program_of_the_corpus_is_a_standard_specialisation() {
    let standard: Vec<String> =
        tilewright::kernels::standard().unwrap().iter().map(tilewright::generate::TileKernel::stem).collect();
    for program in all() {
        let stem = program.kernel.unwrap().stem();
        assert!(standard.contains(&stem), "{}: {stem}", program.folder);
    }
}

/// The one kernel whose two texts have two instructions of the prologue (a lane's low and high bits) in another order, and so the
/// numbers of two registers: its loop has its operands in another order in the two programs, which asks for layouts in another order.
#[cfg(feature = "llvm")]
const TURNED: [&str; 1] = ["mxfp8_panel_update_kernel"];

/// The instructions without the numbers of registers, sorted.
#[cfg(feature = "llvm")]
fn instructions(ptx: &str) -> Vec<String> {
    let unnumbered = |line: &str| {
        let mut text = String::new();
        let mut in_register = false;
        for letter in line.chars() {
            in_register = letter == '%' || (in_register && letter.is_ascii_alphanumeric());
            if !(in_register && letter.is_ascii_digit()) {
                text.push(letter);
            }
        }
        text
    };
    let mut all: Vec<String> = ptx.lines().map(unnumbered).collect();
    all.sort_unstable();
    all
}

/// To the byte, once operations that may stand anywhere are put in one order.
#[cfg(feature = "llvm")]
#[test]
fn programs_and_tritons_ir_compile_to_the_same_ptx() {
    use tilewright::ptx::Arch;
    let Some(root) = corpus::triton() else { return };
    let mut other = Vec::new();
    for program in all() {
        let path = root.join("sm_90").join(program.folder).join("kernel.ttir");
        let read = tilewright::ttir::read(&std::fs::read_to_string(path).unwrap()).unwrap();
        let kernel = program.kernel.unwrap();
        let [ours, theirs] = [program.func.unwrap(), read.funcs[0].clone()].map(|mut func| {
            simplify::canonicalise(&mut func);
            simplify::order(&mut func);
            verify(&func).unwrap_or_else(|errors| panic!("{}, in order: {}", program.folder, errors[0]));
            TileKernel::new(func, kernel.num_warps(), kernel.settings()).unwrap().compile(Arch::Sm90a).unwrap()
        });
        assert_eq!(ours.meta, theirs.meta, "{}", program.folder);
        if TURNED.contains(&program.folder) {
            assert_eq!(instructions(&ours.ptx), instructions(&theirs.ptx), "{}", program.folder);
        } else if ours.ptx != theirs.ptx {
            let lines = |text: &str| text.lines().count();
            other.push(format!("{}: {} and {} lines", program.folder, lines(&ours.ptx), lines(&theirs.ptx)));
        }
    }
    assert!(other.is_empty(), "{}", other.join("\n"));
}

#[test]
fn parameters_that_break_a_rule_are_named() {
    for (message, error) in programs::refused() {
        let error = error.unwrap_err().to_string();
        assert_eq!(error, message);
    }
}
