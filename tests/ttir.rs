//! Triton's IR text: what is read, what it means, and what is said of texts that are wrong.

#[path = "support/corpus.rs"]
mod corpus;

use tilewright::ttir;

#[test]
fn every_dump_is_read() {
    let Some(folder) = corpus::triton() else { return };
    let files = corpus::files(&folder, "ttir");
    assert!(files.len() >= 80, "{} dumps", files.len());
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let program = ttir::read(&text).unwrap_or_else(|error| panic!("{}:{error}", path.display()));
        assert_eq!(program.kernels().count(), 1, "{}", path.display());
    }
}
