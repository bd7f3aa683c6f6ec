//! Softmax of the rows of a matrix, as a tile kernel. Prints its IR: `cargo run --example softmax -- 1000`.

use tilewright::tile::Scalar::{F32, I32};
use tilewright::tile::build::{BuildError, KernelBuilder, mask};
use tilewright::tile::{Func, simplify};

/// Each program takes rows `program_id`, `program_id + num_programs`, …, of `columns` elements each, held in registers.
fn softmax(columns: u32) -> Result<Func, BuildError> {
    let k = KernelBuilder::new("softmax");
    let (x, out) = (k.pointer("x_ptr", F32), k.pointer("out_ptr", F32));
    let (rows, x_stride, out_stride) = (k.scalar("rows", I32), k.scalar("x_stride", I32), k.scalar("out_stride", I32));

    let column = k.arange(0, columns.next_power_of_two() as i32);
    let inside = column.lt(columns);
    k.for_each(k.program_id(0), rows, k.num_programs(0), |row| {
        // What is past the row's end is −∞, and adds nothing to the sum.
        let values = k.load_with(x + row * x_stride + column, mask(inside).other(f64::NEG_INFINITY));
        let numerator = (values - values.max(0)).exp().named("numerator");
        k.store_with(out + row * out_stride + column, numerator / numerator.sum(0), mask(inside));
    });
    k.finish()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let columns = std::env::args().nth(1).map_or(Ok(1000), |columns| columns.parse())?;
    let mut func = softmax(columns)?;
    simplify::simplify(&mut func);
    print!("{func}");
    Ok(())
}
