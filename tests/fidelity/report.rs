//! Files of a run.

/// The environment variable that names the main file of a run; others lie beside it with other endings.
pub const OUT: &str = "TILEWRIGHT_FIDELITY_OUT";

/// Writes a file of this run, if a name was given.
pub fn write(extension: &str, bytes: &[u8]) {
    if let Some(path) = std::env::var_os(OUT) {
        let path = std::path::PathBuf::from(path).with_extension(extension);
        if let Err(error) = std::fs::write(&path, bytes) {
            println!("{} cannot be written: {error}", path.display());
        }
    }
}
