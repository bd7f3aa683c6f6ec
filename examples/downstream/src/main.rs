//! A downstream crate: kernels named in `build.rs`, launched from here.

fn main() {}
