//! What the tile compiler says of the kernels that it refuses (`tests/data/ttir/refused`): each names the operation, the types and
//! the line. Texts that are no kernels at all are refused earlier, by the reader: `ttir_errors.rs`.
#![cfg(feature = "llvm")]

#[path = "support/corpus.rs"]
mod corpus;

use std::fmt::Write;
use std::path::Path;

use tilewright::compile::{Error, Options, compile};
use tilewright::ptx::Arch;
use tilewright::ttir;

/// A file is a kernel that is read and not compiled; all that is said, in one text to be reviewed.
#[test]
fn each_refusal_has_its_message() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ttir/refused");
    let files = corpus::files(&folder, "ttir");
    assert!(files.len() >= 12);
    let mut all = String::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let program = ttir::read(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let kernel = program.inlined(&program.kernels().next().unwrap().name);
        let made = kernel
            .map_err(|error| error.to_string())
            .and_then(|kernel| compile(&kernel, &Options::new(Arch::Sm90a)).map_err(|error| error.to_string()));
        match made {
            Ok(_) => panic!("{name} is compiled"),
            Err(error) => writeln!(all, "{name}: {error}").unwrap(),
        }
    }
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!("refusals", all) });
}

#[test]
fn the_number_of_warps_is_checked() {
    let program = ttir::read("module { tt.func public @k() { tt.return } }").unwrap();
    let kernel = program.kernels().next().unwrap();
    for num_warps in [0, 3, 64] {
        let options = Options { num_warps, ..Options::new(Arch::Sm90a) };
        assert_eq!(compile(kernel, &options), Err(Error::NumWarps(num_warps)));
    }
}

/// The compiler takes one function; calls are for `Program::inlined`, and what it says names them.
#[test]
fn a_call_is_to_be_inlined_before() {
    let text = "module {
        tt.func public @k() {
          tt.call @f() : () -> ()
          tt.return
        }
        tt.func private @f() {
          tt.return
        }
      }";
    let program = ttir::read(text).unwrap();
    let error = compile(program.func("k").unwrap(), &Options::new(Arch::Sm90a)).unwrap_err().to_string();
    assert_eq!(
        error,
        "line 3: tt.call of `@f` (`Program::inlined` takes calls away) is not supported by the tile compiler"
    );
    assert!(compile(&program.inlined("k").unwrap(), &Options::new(Arch::Sm90a)).is_ok());
    assert_eq!(program.inlined("g").unwrap_err().to_string(), "@g: `tt.func`: there is no such function");
}
