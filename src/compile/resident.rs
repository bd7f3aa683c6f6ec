//! Which sums stay in tensor memory, and who has which of its columns.
//!
//! A sum that a loop carries from one product to the same in the next turn, and nothing else looks at, stays where it is, in columns of its
//! own, as long as there are enough. All other sums, and the scales of operands, have the first columns in turn: a product is made and read
//! before the next is ordered.

use std::collections::HashMap;

use super::assign::{ends, factors};
use super::layout::Layout;
use super::tensor::{Engine, Product, TENSOR_COLUMNS};
use crate::tile::{Func, InputPrecision, Op, OpKind, Value};

/// The first column of every sum that stays, and the columns that all of `products` take.
pub(super) fn residents<'a>(
    func: &Func,
    products: &HashMap<Op, Product>,
    home: &dyn Fn(Value) -> Option<&'a Layout>,
) -> (HashMap<Op, u32>, u32) {
    let columns = |op: Op| {
        let data = func.op(op);
        let [a, b] = factors(&data.kind).map(|index| func.ty(data.operands[index]).shape());
        let (a, b) = (a.expect("a product reads tiles"), b.expect("a product reads tiles"));
        let [m, k, n] = [a.dims()[0], a.dims()[1], b.dims()[1]];
        (products[&op].columns(m, n), products[&op].scale_columns([m, k, n]))
    };
    let passing = |stay: &[Op]| {
        let of_each = products.keys().map(|&op| {
            let (sum, scales) = columns(op);
            if stay.contains(&op) { scales } else { sum + scales }
        });
        of_each.max().unwrap_or(0)
    };
    let all = |stay: &[Op]| passing(stay) + stay.iter().map(|&op| columns(op).0).sum::<u32>();
    let mut stay = carried_sums(func, products, home);
    // Without any that stays each product has room: it was chosen so.
    while all(&stay) > TENSOR_COLUMNS && stay.pop().is_some() {}
    let mut next = passing(&stay);
    let mut resident = HashMap::new();
    for op in stay {
        resident.insert(op, next);
        next += columns(op).0;
    }
    (resident, next)
}

/// The products in tensor memory that a loop carries the sum of, which nothing else uses.
fn carried_sums<'a>(
    func: &Func,
    products: &HashMap<Op, Product>,
    home: &dyn Fn(Value) -> Option<&'a Layout>,
) -> Vec<Op> {
    let uses = func.use_counts();
    let mut found = Vec::new();
    for op in func.all_ops().into_iter().filter(|&op| func.op(op).kind == OpKind::For) {
        let region = func.op(op).regions[0];
        let body = func.region(region).blocks[0];
        for (&arg, end) in func.block(body).args[1..].iter().zip(ends(func, region)) {
            let product = func.def_op(end).filter(|&product| func.op(product).block == body);
            let Some((product, made)) = product.and_then(|product| Some((product, products.get(&product)?))) else {
                continue;
            };
            // In three products c comes last, in singles.
            let is_thrice = matches!(func.op(product).kind, OpKind::Dot { precision: InputPrecision::Tf32x3, .. })
                && made.mma.packed == 1;
            let is_alone = func.op(product).operands.last() == Some(&arg)
                && uses[arg.index()] == 1
                && uses[end.index()] == 1
                && home(arg) == home(end);
            if matches!(made.engine, Engine::TensorMemory(_)) && !is_thrice && is_alone {
                found.push(product);
            }
        }
    }
    found
}
