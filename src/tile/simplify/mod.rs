//! Canonical simplification: plain passes over a function, their order in [`simplify`].
//!
//! Every pass keeps what the program means, to the bit: integers wrap, and floats are folded only where IEEE fixes the result
//! (sums, products and quotients of constants, x·1, x − 0; never x + 0, x·0 or x − x). Two things are Triton's own meaning
//! rather than IEEE's, and are done as Triton does: a product of matrices onto zeros and a sum with its result are one product
//! onto the other summand (`combine`), and block pointers become addresses and masks (`block_pointers`).
//!
//! What comes out is in the form of Triton's own `.ttir`: constants at the start of the function and on the right of
//! commutative operations, elementwise work on scalars and narrow tiles before they are repeated, no block pointers.

mod algebra;
mod block_pointers;
mod combine;
mod constants;
mod control;
mod cse;
mod dce;
mod evaluate;
mod fold;
mod licm;
mod order;
mod rewrite;
mod shapes;
#[cfg(test)]
mod tests;

pub use order::order;

use super::Func;

/// The most rounds: each undoes at least one operation of those before it, and a handful is enough for any kernel seen.
const MOST_ROUNDS: usize = 16;

/// Simplifies `func`, and moves what loops do not change before them.
pub fn simplify(func: &mut Func) {
    canonicalise(func);
    if licm::hoist(func) {
        rounds(func);
    }
}

/// [`simplify`] without moving anything out of a loop: the form, operation for operation, of Triton's `.ttir`.
pub fn canonicalise(func: &mut Func) {
    block_pointers::rewrite(func);
    rounds(func);
}

/// What is done over and over: each pass makes work for the others.
fn rounds(func: &mut Func) {
    for _ in 0..MOST_ROUNDS {
        let mut changed = fold::fold(func);
        changed |= control::simplify(func);
        changed |= combine::combine(func);
        changed |= constants::gather(func);
        changed |= cse::eliminate(func);
        changed |= dce::eliminate(func);
        if !changed {
            break;
        }
    }
}
