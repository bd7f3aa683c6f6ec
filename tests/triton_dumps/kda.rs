//! The intra-chunk solve of KDA, in its variants.
