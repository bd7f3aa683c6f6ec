//! The sum of two vectors of any length, as a tile kernel. Prints its IR: `cargo run --example vector_add`.

use tilewright::tile::Scalar::{F32, I32};
use tilewright::tile::build::{BuildError, KernelBuilder, mask};
use tilewright::tile::{Func, simplify};

/// Elements of a program.
const BLOCK: i32 = 1024;

/// out = x + y, `BLOCK` elements a program; the last program may have fewer.
fn vector_add() -> Result<Func, BuildError> {
    let k = KernelBuilder::new("vector_add");
    let (x, y, out) = (k.pointer("x_ptr", F32), k.pointer("y_ptr", F32), k.pointer("out_ptr", F32));
    let n = k.scalar("n", I32);

    let offsets = k.program_id(0) * BLOCK + k.arange(0, BLOCK);
    let inside = mask(offsets.lt(n));
    let sum = k.load_with(x + offsets, inside.clone()) + k.load_with(y + offsets, inside.clone());
    k.store_with(out + offsets, sum, inside);
    k.finish()
}

fn main() -> Result<(), BuildError> {
    let mut func = vector_add()?;
    simplify::simplify(&mut func);
    print!("{func}");
    Ok(())
}
