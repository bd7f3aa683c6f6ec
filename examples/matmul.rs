//! The product of two matrices in halves, summed in singles, as a tile kernel. Prints its IR: `cargo run --example matmul`.

use tilewright::tile::Scalar::{F16, F32, I32};
use tilewright::tile::build::{BuildError, Dot, KernelBuilder, boundary};
use tilewright::tile::{Func, simplify};

/// The tile of a program, and the inner extent of a step.
struct Blocks {
    m: u32,
    n: u32,
    k: u32,
    /// Row tiles that are taken together, so that their operands are found in the cache.
    group: u32,
}

/// C = A·B, row-major, of any shape: block pointers read zeros past the edges, and write nothing there.
fn matmul(blocks: &Blocks) -> Result<Func, BuildError> {
    let t = KernelBuilder::new("matmul");
    let (a, b, c) = (t.pointer("a_ptr", F16), t.pointer("b_ptr", F16), t.pointer("c_ptr", F16));
    let [m, n, k] = ["m", "n", "k"].map(|name| t.scalar(name, I32));
    let [stride_a, stride_b, stride_c] = ["stride_a", "stride_b", "stride_c"].map(|name| t.scalar_by_16(name, I32));

    // Programs in groups of rows: down the rows of a group first, then to the next column.
    let pid = t.program_id(0);
    let (tiles_m, tiles_n) = (m.cdiv(blocks.m), n.cdiv(blocks.n));
    let in_group = tiles_n * blocks.group;
    let first_row = pid / in_group * blocks.group;
    let group_rows = (tiles_m - first_row).minimum(blocks.group);
    let row = (first_row + pid % in_group % group_rows) * blocks.m;
    let column = pid % in_group / group_rows * blocks.n;

    let a = t.make_block_ptr(a, (m, k), (stride_a, 1), (row, 0), &[blocks.m, blocks.k], &[1, 0]);
    let b = t.make_block_ptr(b, (k, n), (stride_b, 1), (0, column), &[blocks.k, blocks.n], &[1, 0]);
    let zeros = t.zeros(&[blocks.m, blocks.n], F32).named("acc");
    let edges = || boundary(&[0, 1]).padding(tilewright::tile::Padding::Zero);
    let [_, _, product] = t.range(0, k, blocks.k, [a, b, zeros], |_, [a, b, acc]| {
        let acc = t.dot_with(t.load_with(a, edges()), t.load_with(b, edges()), Dot::onto(acc));
        [a.advance((0, blocks.k)), b.advance((blocks.k, 0)), acc]
    });
    let c = t.make_block_ptr(c, (m, n), (stride_c, 1), (row, column), &[blocks.m, blocks.n], &[1, 0]);
    t.store_with(c, product.to(F16), boundary(&[0, 1]));
    t.finish()
}

fn main() -> Result<(), BuildError> {
    let mut func = matmul(&Blocks { m: 128, n: 128, k: 64, group: 8 })?;
    simplify::simplify(&mut func);
    print!("{func}");
    Ok(())
}
