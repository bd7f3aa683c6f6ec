//! Where a subcommand writes: an output that does not mind being closed, and files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::failure::Failure;

/// A writer that goes on without a word once its reader is gone, as in `tilewright list | head -1`.
#[derive(Debug)]
pub(super) struct Quiet<W> {
    inner: W,
    closed: bool,
}

impl<W: Write> Quiet<W> {
    pub(super) fn new(inner: W) -> Self {
        Self { inner, closed: false }
    }

    fn tolerate<T>(&mut self, result: io::Result<T>, otherwise: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(otherwise)
            }
            other => other,
        }
    }
}

impl<W: Write> Write for Quiet<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed {
            return Ok(bytes.len());
        }
        let result = self.inner.write(bytes);
        self.tolerate(result, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.inner.flush();
        self.tolerate(result, ())
    }
}

/// A file to be written. It is made beside its final place and moved there when it is whole.
#[derive(Debug)]
pub(super) struct Destination {
    /// As the user wrote it, for messages.
    named: PathBuf,
    /// Links resolved.
    path: PathBuf,
}

impl Destination {
    /// Sees to it that `path` can be written, before any work is done for it.
    ///
    /// # Errors
    /// When it is a folder, or its folder is missing or takes no files.
    pub(super) fn new(path: &Path) -> Result<Self, Failure> {
        let resolved = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let destination = Self { named: path.to_owned(), path: resolved };
        if destination.path.is_dir() {
            return Err(destination.failure("it is a folder"));
        }
        if destination.is_special() {
            File::options().append(true).open(&destination.path).map_err(|error| destination.failure(error))?;
        } else {
            destination.temporary()?;
        }
        Ok(destination)
    }

    /// Writes what `fill` gives. On failure the place is as it was before.
    ///
    /// # Errors
    /// When the file cannot be written or moved to its place.
    pub(super) fn write(&self, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        if self.is_special() {
            let file = File::options().append(true).open(&self.path);
            return file.and_then(|mut file| fill(&mut file)).map_err(|error| self.failure(error));
        }
        let temporary = self.temporary()?;
        let mut writer = BufWriter::new(temporary);
        fill(&mut writer).map_err(|error| self.failure(error))?;
        let temporary = writer.into_inner().map_err(|error| self.failure(error.error()))?;
        temporary.persist(&self.path).map_err(|error| self.failure(&error.error))?;
        Ok(())
    }

    /// A device or a pipe, such as `/dev/null`: written to, never replaced.
    fn is_special(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
    }

    fn temporary(&self) -> Result<NamedTempFile, Failure> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".tilewright-");
        // A temporary file is its owner's alone unless told otherwise; the file that it becomes has the usual rights.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        builder.tempfile_in(folder).map_err(|error| {
            let reason = match error.kind() {
                ErrorKind::NotFound => format!("there is no folder {}", folder.display()),
                ErrorKind::NotADirectory => format!("{} is not a folder", folder.display()),
                kind => kind.to_string(),
            };
            self.failure(reason)
        })
    }

    fn failure(&self, reason: impl std::fmt::Display) -> Failure {
        Failure::new(format!("cannot write {}: {reason}", self.named.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        let mut out = Quiet::new(Closed);
        assert_eq!(out.write(b"abc").unwrap(), 3);
        out.write_all(b"more").unwrap();
        out.flush().unwrap();
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "old").unwrap();
        let destination = Destination::new(&path).unwrap();
        let failed = destination.write(|writer| {
            writer.write_all(b"half of the new")?;
            Err(io::Error::other("no more"))
        });
        assert_eq!(failed.unwrap_err().to_string(), format!("cannot write {}: no more", path.display()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        destination.write(|writer| writer.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary files stay");
    }
}
