//! Kimi Delta Attention: the intra-chunk solve of its chunked forward pass. For now, tile programs only ([`tiles`]).

pub mod tiles;
