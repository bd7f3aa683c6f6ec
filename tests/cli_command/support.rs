//! Runs the command and looks at what came of it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command with the environment of a fresh shell: no device named.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    command.env_remove("TILEWRIGHT_DEVICE").env_remove("NO_COLOR").env_remove("RUST_BACKTRACE");
    command
}

/// What a run of the command gave.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        Self {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The work was done and nothing was said on stderr.
    #[track_caller]
    pub fn ended_with(self, code: i32) -> Self {
        assert_eq!((self.code, self.stderr.as_str()), (code, ""), "{self:#?}");
        self
    }

    /// Refused with one line that has `said` in it, and nothing else.
    #[track_caller]
    pub fn refused(self, said: &str) -> Self {
        self.refused_with_excerpt(said, &[])
    }

    /// Refused with one line, then an excerpt of the source that shows each of `shown`.
    #[track_caller]
    pub fn refused_with_excerpt(self, said: &str, shown: &[&str]) -> Self {
        assert_eq!((self.code, self.stdout.as_str()), (2, ""), "{self:#?}");
        let (line, excerpt) = self.stderr.split_once('\n').unwrap();
        assert!(line.starts_with("error: ") && line.contains(said), "expected `{said}`: {self:#?}");
        assert!(!excerpt.contains("error"), "{self:#?}");
        assert_eq!(excerpt.is_empty(), shown.is_empty(), "{self:#?}");
        assert!(shown.iter().all(|part| excerpt.contains(part)), "expected {shown:?}: {self:#?}");
        self
    }

    /// The value of a row of the printed table.
    #[track_caller]
    pub fn row(&self, name: &str) -> &str {
        let row = self.stdout.lines().find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with("  ")));
        row.unwrap_or_else(|| panic!("no row `{name}`: {self:#?}")).trim()
    }
}

/// Runs `tilewright ARGS`.
pub fn tilewright<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    Run::of(command().args(args))
}

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A folder for one test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The path of `name` in it, as an argument.
    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file; answers its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes an array; answers its path.
    pub fn array<T, D>(&self, name: &str, array: &ndarray::Array<T, D>) -> String
    where
        T: ndarray_npy::WritableElement,
        D: ndarray::Dimension,
    {
        let path = self.path(name);
        ndarray_npy::write_npy(&path, array).unwrap();
        path
    }

    /// The names of what is in it, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}
