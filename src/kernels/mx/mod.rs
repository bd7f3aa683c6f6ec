//! MX: block-scaled formats of the Open Compute Project. For now, tile programs only ([`tiles`]).

pub mod tiles;
