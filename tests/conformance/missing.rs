//! The cases that the compiler refuses, and what it says of each.

/// A case's name, and a part of the error.
pub const MISSING: &[(&str, &str)] = &[];
