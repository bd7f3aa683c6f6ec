//! Tasks of the project: tests with their set-up, generation of `generated/`, assembly with `ptxas`.

fn main() {}
