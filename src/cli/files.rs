//! Reading files, with the file's name in every failure.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::failure::Failure;
use crate::ptx::{self, Program};

/// All bytes of a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| {
        let reason = match error.kind() {
            ErrorKind::NotFound => "there is no such file".to_owned(),
            ErrorKind::IsADirectory => "it is a folder".to_owned(),
            kind => kind.to_string(),
        };
        Failure::new(format!("cannot read {}: {reason}", path.display()))
    })
}

/// The bytes of the file at `path` as text.
pub(super) fn text(path: &Path, bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| {
        Failure::in_file(path, format!("not text: byte {} is not UTF-8", error.utf8_error().valid_up_to()))
    })
}

/// A PTX file: its text, and the text read.
pub(super) fn read_ptx(path: &Path) -> Result<(String, Program), Failure> {
    let text = text(path, read(path)?)?;
    let program = ptx::parse(&text).map_err(|error| Failure::parse(path, &text, &error))?;
    Ok((text, program))
}
