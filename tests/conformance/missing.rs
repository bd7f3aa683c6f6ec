//! The cases that the compiler refuses, and what it says of each.

/// A case's name, and a part of the error.
pub const MISSING: &[(&str, &str)] = &[
    ("exp_fp64", "math.exp of tensor<512xf64>"),
    ("exp2_fp64", "math.exp2 of tensor<512xf64>"),
    ("log_fp64", "math.log of tensor<512xf64>"),
    ("log2_fp64", "math.log2 of tensor<512xf64>"),
    ("sin_fp64", "math.sin of tensor<512xf64>"),
    ("cos_fp64", "math.cos of tensor<512xf64>"),
    ("erf_fp64", "math.erf of tensor<512xf64>"),
];
