//! Each pass on small functions, and all of them on random ones.

// The products by zero and remainders by one are what is folded.
#![allow(clippy::erasing_op, clippy::modulo_one)]

mod interpret;
mod random;

use super::*;
use crate::tile::Scalar::{F32, I1, I32, I64};
use crate::tile::build::{Dot, KernelBuilder, Tile, boundary, mask};
use crate::tile::{Binary, OpKind};

/// The names of a function's operations after simplification, constants and the return left out.
fn simplified(make: impl FnOnce(&KernelBuilder)) -> Vec<&'static str> {
    let func = simple(make);
    let names = func.all_ops().into_iter().map(|op| func.op(op).kind.name());
    names.filter(|name| !["arith.constant", "tt.return"].contains(name)).collect()
}

fn simple(make: impl FnOnce(&KernelBuilder)) -> Func {
    let k = KernelBuilder::new("test");
    make(&k);
    let mut func = k.finish().unwrap_or_else(|error| panic!("{error}"));
    simplify(&mut func);
    crate::tile::verify::verify(&func).unwrap_or_else(|errors| panic!("{}", errors[0]));
    func
}

/// Stores an integer or float scalar made of parameters `n` and `m`.
fn stored(make: impl for<'k> FnOnce(&'k KernelBuilder, Tile<'k>, Tile<'k>) -> Tile<'k>) -> Vec<&'static str> {
    simplified(|k| {
        let (n, m, out) = (k.scalar("n", I32), k.scalar("m", I32), k.pointer("out", I64));
        k.store(out, make(k, n, m));
    })
}

#[test]
#[allow(clippy::erasing_op, clippy::modulo_one, clippy::identity_op, reason = "what is to be folded")]
fn integer_identities() {
    // What is left beside the conversion to the type of the memory and the store.
    let rest: &[&str] = &["arith.extsi", "tt.store"];
    assert_eq!(stored(|_, n, _| (n + 0) * 1 / 1 - 0), rest);
    assert_eq!(stored(|_, n, _| (n | 0) ^ 0), rest);
    assert_eq!(stored(|_, n, _| (n & -1) >> 0), rest);
    assert_eq!(stored(|_, n, m| n - n + m), rest);
    assert_eq!(stored(|_, n, m| (n * 0) + m), rest);
    assert_eq!(stored(|_, n, m| n.minimum(n) + (m & m) * 0), rest);
    assert_eq!(stored(|_, n, _| n % 1), ["tt.store"]);
    assert_eq!(stored(|_, n, _| 7 - (3 - n)), ["arith.addi", "arith.extsi", "tt.store"]);
    assert_eq!(stored(|_, n, _| (n + 5) * 4 * 8), ["arith.addi", "arith.muli", "arith.extsi", "tt.store"]);
    assert_eq!(stored(|_, n, _| 5 - (n - 5) + 2 - 12), ["arith.subi", "arith.extsi", "tt.store"]);
    assert_eq!(stored(|_, n, _| n.to(I64).to(I32)), rest);
}

#[test]
fn choices_and_comparisons() {
    let cmp_select: &[&str] = &["arith.cmpi", "arith.select", "arith.extsi", "tt.store"];
    assert_eq!(stored(|k, n, m| k.where_(n.eq(n), n, m)), ["arith.extsi", "tt.store"]);
    assert_eq!(stored(|k, n, m| k.where_(n.lt(m), n, n)), ["arith.extsi", "tt.store"]);
    assert_eq!(stored(|k, n, m| k.where_(!n.lt(m), n, m)), cmp_select);
    assert_eq!(stored(|k, n, m| k.where_(!!n.lt(m), n, m)), cmp_select);
    assert_eq!(stored(|k, n, m| k.where_(n.lt(m), true, false)), ["arith.cmpi", "arith.extui", "tt.store"]);
    assert_eq!(stored(|k, n, m| k.where_(k.constant(true, I1), n, m)), ["arith.extsi", "tt.store"]);
}

#[test]
fn floats_keep_their_zeros_and_nans() {
    let left = |make: for<'k> fn(Tile<'k>) -> Tile<'k>| {
        let names = simplified(|k| {
            let x = k.pointer("x", F32);
            k.store(x, make(k.load(x)));
        });
        names.len() - 2
    };
    assert_eq!(left(|x| x * 1.0), 0);
    assert_eq!(left(|x| x - 0.0), 0);
    assert_eq!(left(|x| x + -0.0), 0);
    assert_eq!(left(|x| x / 1.0), 0);
    // −0 + 0 is +0; ∞·0 and ∞ − ∞ are NaN; 0 − x is not −x.
    assert_eq!(left(|x| x + 0.0), 1);
    assert_eq!(left(|x| x * 0.0), 1);
    assert_eq!(left(|x| x - x), 1);
    assert_eq!(left(|x| -x), 1);
    assert_eq!(left(|x| x + 1.0 + 1.0), 2);
}

#[test]
fn shapes_are_applied_once() {
    let names = simplified(|k| {
        let x = k.pointer("x", F32);
        let a = k.load(x + k.arange(0, 32).reshape(&[4, 8]).trans().trans().reshape(&[32]).reshape(&[4, 8]));
        k.store(x + k.arange(0, 32).reshape(&[4, 8]), a.permute(&[0, 1]).broadcast_to(&[4, 8]));
    });
    assert_eq!(names, ["tt.make_range", "tt.reshape", "tt.splat", "tt.addptr", "tt.load", "tt.store"]);
}

#[test]
fn work_is_done_before_it_is_repeated() {
    let func = simple(|k| {
        let (x, n) = (k.pointer("x", F32), k.scalar("n", I32));
        let n = n.broadcast_to(&[32]);
        let row = k.arange(0, 32).row().broadcast_to(&[8, 32]);
        k.store(x + k.arange(0, 8).col() * 32 + row, (row * 3).to(F32));
        k.store(x + k.arange(0, 32), (n * n + 1).to(F32));
    });
    for op in func.all_ops() {
        if func.op(op).kind == OpKind::Binary(Binary::MulI) {
            let shape = func.ty(func.result(op)).shape();
            assert!(shape.is_none_or(|shape| shape.elements() <= 32), "{shape:?}");
        }
    }
}

#[test]
fn equal_reductions_are_one() {
    let names = simplified(|k| {
        let x = k.pointer("x", F32);
        let tile = k.load(x + k.arange(0, 32));
        k.store(x, tile.sum(0) + tile.sum(0) * tile.max(0));
    });
    assert_eq!(names.iter().filter(|name| **name == "tt.reduce").count(), 2);
}

#[test]
fn one_branch_does_not_see_what_the_other_made() {
    let func = simple(|k| {
        let (out, n) = (k.pointer("out", I32), k.scalar("n", I32));
        k.if_(n.gt(3), || k.store(out, n * n));
        k.if_(n.lt(1), || k.store(out + 1, n * n));
        k.return_if(n.eq(2));
        k.store(out + 2, n * n);
    });
    assert_eq!(func.all_ops().iter().filter(|&&op| func.op(op).kind == OpKind::Binary(Binary::MulI)).count(), 3);
}

#[test]
fn loops_lose_what_they_do_not_need() {
    let func = simple(|k| {
        let (out, n) = (k.pointer("out", I32), k.scalar("n", I32));
        let [sum, _, same, _] = k.range(0, n, 1, [n, n, n, n], |i, [sum, unused, same, also]| {
            [sum + i * same, unused * 3 + also, same, also + 1]
        });
        k.store(out, sum + same);
    });
    let loops: Vec<_> = func.all_ops().into_iter().filter(|&op| func.op(op).kind == OpKind::For).collect();
    let [op] = loops[..] else { panic!("one loop is left") };
    assert_eq!(func.op(op).results.len(), 1);
    assert_eq!(func.op(op).operands.len(), 4);
}

#[test]
fn loops_of_few_turns_are_none() {
    let names = simplified(|k| {
        let (out, n) = (k.pointer("out", I32), k.scalar("n", I32));
        let [once] = k.range(3, 5, 2, [n], |i, [x]| [x * i]);
        let [never] = k.range(5, 5, 1, [once], |i, [x]| [x * i]);
        k.store(out, never);
    });
    assert_eq!(names, ["arith.muli", "tt.store"]);
}

#[test]
fn loops_without_effect_go_and_those_with_one_stay() {
    let names = simplified(|k| {
        let (out, n) = (k.pointer("out", I32), k.scalar("n", I32));
        k.range(0, n, 1, [n], |i, [x]| [x + k.load(out + i)]);
        k.for_each(0, n, 1, |i| k.if_(i.gt(2), || k.store(out + i, i)));
        k.if_(n.gt(9), || {});
    });
    assert_eq!(names.iter().filter(|name| **name == "scf.for").count(), 1);
    assert_eq!(names.iter().filter(|name| **name == "scf.if").count(), 1);
}

#[test]
fn invariants_leave_loops_but_divisions_that_may_fail() {
    let func = simple(|k| {
        let (out, n, m) = (k.pointer("out", I32), k.scalar("n", I32), k.scalar("m", I32));
        k.for_each(0, n, 1, |i| k.store(out + i, (n * m + n / 3) + n / m));
    });
    let inside = |kind: OpKind| {
        let all: Vec<_> = func.all_ops().into_iter().filter(|&op| func.op(op).kind == kind).collect();
        all.iter().filter(|&&op| func.parent_op(func.op(op).block).is_some()).count()
    };
    assert_eq!(inside(OpKind::Binary(Binary::MulI)), 0);
    assert_eq!(inside(OpKind::Binary(Binary::DivSI)), 1);
}

#[test]
fn constant_branches_are_taken() {
    let names = simplified(|k| {
        let (out, n) = (k.pointer("out", I32), k.scalar("n", I32));
        k.return_if(n.ne(n));
        let [x] = k.if_else(n.eq(n), || [n * 2], || [n * 3]);
        k.store(out, x);
    });
    assert_eq!(names, ["arith.muli", "tt.store"]);
    let func = simple(|k| {
        k.return_if(true);
        k.store(k.pointer("out", I32), 1);
    });
    assert_eq!(func.region(func.body()).blocks.len(), 1);
    assert_eq!(func.all_ops().len(), 1);
}

#[test]
fn constant_masks_are_settled() {
    let names = simplified(|k| {
        let x = k.pointer("x", F32) + k.arange(0, 8);
        let all = k.load_with(x, mask(true).other(1.0));
        let none = k.load_with(x, mask(false).other(2.0));
        k.store_with(x, all * none, mask(k.arange(0, 8).ge(k.arange(0, 8))));
        k.store_with(x, all, mask(false));
    });
    assert_eq!(names, ["tt.make_range", "tt.splat", "tt.addptr", "tt.load", "arith.mulf", "tt.store"]);
}

#[test]
fn sums_of_products_are_made_onto_each_other() {
    let func = simple(|k| {
        let x = k.pointer("x", F32) + k.arange(0, 16).col() * 16 + k.arange(0, 16).row();
        let (a, b) = (k.load(x), k.load(x + 256));
        let onto = k.dot_with(b, a, Dot::onto(a));
        k.store(x, b + k.dot(a, b) + k.dot(b, b) + onto);
    });
    let names: Vec<_> = func.all_ops().into_iter().map(|op| func.op(op).kind.name()).collect();
    // The last product has a summand already.
    assert_eq!(names.iter().filter(|name| **name == "arith.addf").count(), 1);
    assert_eq!(names.iter().filter(|name| **name == "tt.dot").count(), 3);
}

#[test]
fn block_pointers_become_addresses() {
    let func = simple(|k| {
        let (x, n) = (k.pointer("x", F32), k.scalar("n", I32));
        let window = k.make_block_ptr(x, (n, 64), (64, 1), (0, 0), &[16, 32], &[1, 0]);
        let [_, sum] = k.range(0, n, 16, [window, k.zeros(&[16, 32], F32)], |_, [window, sum]| {
            [window.advance((16, 0)), sum + k.load_with(window, boundary(&[0]))]
        });
        k.store_with(window, sum, boundary(&[0, 1]));
    });
    let op = func.all_ops().into_iter().find(|&op| func.op(op).kind == OpKind::For).unwrap();
    // The offset along the rows and the sum: all else stays as it was.
    assert_eq!(func.op(op).results.len(), 2);
    assert!(
        !func.all_ops().iter().any(|&op| matches!(func.op(op).kind, OpKind::MakeBlockPtr { .. } | OpKind::Advance))
    );
}
