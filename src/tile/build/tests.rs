//! The builder's rules, seen in the operations that it makes.

use super::*;
use crate::tile::{Elem, InputPrecision, MemScope, MemSemantic, Padding, Scalar::*, ScaledFormat, Shape};

/// The operations of a function: their names, in order.
fn names(func: &Func) -> Vec<&'static str> {
    func.all_ops().into_iter().map(|op| func.op(op).kind.name()).collect()
}

fn built(make: impl FnOnce(&KernelBuilder)) -> Func {
    let k = KernelBuilder::new("test");
    make(&k);
    let func = k.finish().unwrap_or_else(|error| panic!("{error}"));
    crate::tile::verify::verify(&func).unwrap_or_else(|errors| panic!("{}", errors[0]));
    func
}

fn rule(make: impl FnOnce(&KernelBuilder)) -> String {
    let k = KernelBuilder::new("test");
    make(&k);
    k.finish().expect_err("a mistake").to_string()
}

fn unused<T>(_: T) {}

fn tile(dims: &[u32], scalar: Scalar) -> Option<Type> {
    Some(Type::Tile(Shape::new(dims).unwrap(), scalar.into()))
}

#[test]
fn literals_take_the_type_of_the_tile() {
    built(|k| {
        let halves = k.zeros(&[32], F16);
        assert_eq!((halves * 2.0).ty(), tile(&[32], F16));
        assert_eq!((2.0 * halves).ty(), tile(&[32], F16));
        assert_eq!((halves / 2.0).ty(), tile(&[32], F32));
        assert_eq!((k.arange(0, 32) * 2).ty(), tile(&[32], I32));
        assert_eq!((k.arange(0, 32) * 2.0).ty(), tile(&[32], F32));
        assert_eq!((k.arange(0, 32) + k.constant(1, I64)).ty(), tile(&[32], I64));
        assert_eq!(k.arange(0, 32).lt(7).ty(), tile(&[32], I1));
        assert_eq!(k.where_(k.arange(0, 32).lt(7), 1.0, 0.0).ty(), tile(&[32], F32));
    });
}

#[test]
fn tiles_are_repeated() {
    let func = built(|k| {
        let r = k.arange(0, 32);
        assert_eq!((r.col() * 4 + r.row()).ty(), tile(&[32, 32], I32));
        // A missing outer axis.
        assert_eq!((k.zeros(&[8, 32], F32) + r.to(F32)).ty(), tile(&[8, 32], F32));
    });
    assert_eq!(names(&func).iter().filter(|name| **name == "tt.broadcast").count(), 3);
}

#[test]
fn addresses_are_counted_in_elements() {
    let func = built(|k| {
        let x = k.pointer("x", F32);
        let at = x + k.arange(0, 64) * 2;
        assert_eq!(at.ty(), Some(Type::Tile(Shape::new(&[64]).unwrap(), Elem::Pointer(F32))));
        let value = k.load_with(at, mask(k.arange(0, 64).lt(9)).other(0));
        assert_eq!(value.ty(), tile(&[64], F32));
        k.store(at - 1, value.to(F16));
    });
    let names = names(&func);
    // `other` is converted, and the value back to the type of the memory.
    assert!(names.contains(&"arith.sitofp") && names.contains(&"arith.extf"), "{names:?}");
    assert_eq!(names.last(), Some(&"tt.return"));
}

#[test]
fn conversions_follow_triton() {
    for (from, to, expected) in [
        (F32, F16, &["arith.truncf"][..]),
        (F16, Bf16, &["arith.extf", "arith.truncf"]),
        (F32, F8E4M3, &["tt.fp_to_fp"]),
        (F8E5M2, F16, &["tt.fp_to_fp"]),
        (I1, F32, &["arith.uitofp"]),
        (I1, I32, &["arith.extui"]),
        (I32, I64, &["arith.extsi"]),
        (I64, I8, &["arith.trunci"]),
        (I32, I1, &["arith.constant", "arith.cmpi"]),
        (F32, I1, &["arith.constant", "arith.cmpf"]),
        (F16, I32, &["arith.extf", "arith.fptosi"]),
        (I32, F16, &["arith.sitofp"]),
    ] {
        let func = built(|k| assert_eq!(k.zeros(&[16], from).to(to).ty(), tile(&[16], to)));
        let made = names(&func);
        assert_eq!(made[1..made.len() - 1], *expected, "{from} to {to}");
    }
}

#[test]
fn truth_values_live_in_bytes() {
    let func = built(|k| {
        let flags = k.pointer("flags", I1);
        let flag = k.load(flags);
        assert_eq!(flag.ty(), Some(Type::scalar(I1)));
        k.store(flags, !flag);
    });
    assert_eq!(
        names(&func),
        [
            "tt.bitcast",
            "tt.load",
            "arith.constant",
            "arith.cmpi",
            "arith.constant",
            "arith.xori",
            "tt.bitcast",
            "arith.extui",
            "tt.store",
            "tt.return"
        ]
    );
}

#[test]
fn reductions_widen_small_types() {
    built(|k| {
        assert_eq!(k.zeros(&[8, 32], F16).sum(1).ty(), tile(&[8], F16));
        assert_eq!(k.zeros(&[8, 32], I8).sum(0).ty(), tile(&[32], I32));
        assert_eq!(k.zeros(&[32], F32).sum(0).ty(), Some(Type::scalar(F32)));
        assert_eq!(k.zeros(&[8, 32], F32).sum_all().ty(), Some(Type::scalar(F32)));
        assert_eq!(k.zeros(&[8, 32], Bf16).max(1).ty(), tile(&[8], F32));
        assert_eq!(k.zeros(&[8, 32], Bf16).argmax(1).ty(), tile(&[8], I32));
        assert_eq!(k.zeros(&[8, 32], Bf16).cumsum(1).ty(), tile(&[8, 32], F32));
        assert_eq!(k.zeros(&[4, 8], F32).interleave(k.zeros(&[4, 8], F32)).ty(), tile(&[4, 16], F32));
    });
}

#[test]
fn control_flow_carries_values() {
    let func = built(|k| {
        let n = k.scalar("n", I32);
        k.return_if(n.le(0));
        let zero = k.zeros(&[16], F32);
        let [sum, count] = k.range(0, n, 1, [zero, k.constant(0, I32)], |i, [sum, count]| {
            let [sum] = k.update_if(i.gt(3), [sum], |[sum]| [sum + i]);
            [sum, count + 1]
        });
        let [left] = k.while_([count], |[left]| left.gt(0), |[left]| [left - 2]);
        k.if_(left.eq(0), || k.device_print("sum", &[sum]));
    });
    let names = names(&func);
    assert_eq!(names.iter().filter(|name| **name == "scf.yield").count(), 5);
    assert!(names.contains(&"scf.condition") && names.contains(&"cf.cond_br"));
    assert_eq!(func.region(func.body()).blocks.len(), 3);
}

#[test]
fn mistakes_name_the_rule_and_the_line() {
    for (expected, message) in [
        ("inner extents 32 and 64 differ", rule(|k| unused(k.dot(k.zeros(&[16, 32], F32), k.zeros(&[64, 16], F32))))),
        ("`other` needs a mask", rule(|k| unused(k.load_with(k.pointer("x", F32), Access::all().other(0))))),
        ("a mask is of i1", rule(|k| k.store_with(k.pointer("x", F32), 1.0, mask(3)))),
        ("300 is out of range for i8", rule(|k| unused(k.zeros(&[4], I8) + 300))),
        ("f32 or f64 is needed", rule(|k| unused(k.zeros(&[4], F16).exp2()))),
        ("extents of a tile are powers of two", rule(|k| unused(k.zeros(&[3], F16)))),
        ("integers are needed", rule(|k| unused(k.zeros(&[4], F32) & 1))),
        ("boundaries belong to block pointers", rule(|k| unused(k.load_with(k.pointer("x", F32), boundary(&[0]))))),
        ("axis 3 of a grid", rule(|k| unused(k.program_id(3)))),
        ("the region gives these", { rule(|k| unused(k.range(0, 4, 1, [k.zeros(&[4], F32)], |i, _| [i]))) }),
        ("from inside a loop", rule(|k| k.for_each(0, 4, 1, |i| k.return_if(i.eq(2))))),
        ("the step 0 is not positive", rule(|k| k.for_each(0, 4, 0, |_| {}))),
        ("one address takes a scalar", rule(|k| k.store(k.pointer("x", F32), k.zeros(&[4], F32)))),
        ("the addresses have fewer elements", {
            rule(|k| k.store(k.pointer("x", F32) + k.arange(0, 4).col(), k.zeros(&[4, 4], F32)))
        }),
    ] {
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("src/tile/build/tests.rs:"), "{message}");
    }
}

#[test]
fn the_first_mistake_is_kept_and_the_rest_is_passed_over() {
    let message = rule(|k| {
        let wrong = k.arange(0, 3);
        let [carried] = k.range(0, wrong, 1, [wrong + 1], |_, [x]| [x * 2]);
        k.store(k.pointer("x", F32), carried.sum(7));
    });
    assert!(message.contains("`arange`") && message.contains("the length of 0..3"), "{message}");
}

#[test]
fn another_builders_value_is_refused() {
    let other = KernelBuilder::new("other");
    let message = rule(|k| unused(k.arange(0, 4) + other.arange(0, 4)));
    assert!(message.contains("belongs to another kernel builder"), "{message}");
}

#[test]
fn atomics_of_floats_are_those_of_their_bits() {
    let func = built(|k| {
        let (counts, largest) = (k.pointer("counts", I32), k.pointer("largest", F32));
        let at = k.arange(0, 32);
        assert_eq!(k.atomic_add(counts + at, 1, Atomic::default().mask(at.lt(9))).ty(), tile(&[32], I32));
        let old = k.atomic_max(largest + at, at.to(F32), Atomic::default().semantic(MemSemantic::Relaxed));
        assert_eq!(old.ty(), tile(&[32], F32));
        k.atomic_cas(counts, 0, 1, Atomic::default().scope(MemScope::Sys));
        k.atomic_xchg(counts + 1, 7, Atomic::default());
    });
    let atomics: Vec<_> = func
        .all_ops()
        .into_iter()
        .filter_map(|op| match func.op(op).kind {
            OpKind::AtomicRmw { op, .. } => Some(op.name()),
            _ => None,
        })
        .collect();
    assert_eq!(atomics, ["add", "max", "umin", "exch"]);
}

#[test]
fn windows_and_boxes() {
    built(|k| {
        let (x, n) = (k.pointer("x", F16), k.scalar("n", I32));
        let window = k.make_block_ptr(x, (n, 64), (64, 1), (0, n), &[16, 32], &[1, 0]).advance((16, 0));
        let value = k.load_with(window, boundary(&[1, 0]).padding(Padding::Nan));
        assert_eq!(value.ty(), tile(&[16, 32], F16));
        k.store_with(window, value, boundary(&[0]));
        let array = k.make_descriptor(x, (n, 64), (64, 1), &[16, 32], Padding::Zero);
        array.store_box((n, 0), array.load_box((0, n)).to(F32));
    });
}

#[test]
fn tiles_are_joined_split_and_gathered() {
    built(|k| {
        let (a, b) = (k.zeros(&[4, 8], F32), k.full(&[4, 8], 1.0, F32));
        let [low, high] = a.join(b).split();
        assert_eq!((low.ty(), high.ty()), (tile(&[4, 8], F32), tile(&[4, 8], F32)));
        assert_eq!(k.arange(0, 8).cat(k.arange(0, 8)).ty(), tile(&[16], I32));
        assert_eq!(a.gather(k.zeros(&[4, 2], I32), 1).ty(), tile(&[4, 2], F32));
        assert_eq!(k.arange(0, 32).histogram(8).ty(), tile(&[8], I32));
        assert_eq!(k.arange(0, 32).histogram_where(8, k.arange(0, 32).gt(4)).ty(), tile(&[8], I32));
        assert_eq!(k.constant(1, I32).join(k.constant(2, I32)).ty(), tile(&[2], I32));
        let [sum, product] = k.reduce([a, b], 1, |[a, b], [c, d]| [a + c, b * d]);
        assert_eq!((sum.ty(), product.ty()), (tile(&[4], F32), tile(&[4], F32)));
        assert_eq!(a.clamp(-1.0, k.zeros(&[1, 8], F32)).ty(), tile(&[4, 8], F32));
        assert_eq!(k.fma(a, 2.0, b).ty(), tile(&[4, 8], F32));
        assert_eq!(k.unsplat(k.zeros(&[1, 1], I32)).ty(), Some(Type::scalar(I32)));
        let asm = InlineAsm { asm: "ex2.approx.f32 $0, $1;", constraints: "=f,f", result: F32, pure: true, packed: 1 };
        assert_eq!(k.inline_asm(&asm, &[a]).ty(), tile(&[4, 8], F32));
    });
}

#[test]
fn scaled_products_check_their_scales() {
    let operands = |k: &KernelBuilder, groups: u32| {
        let a = ScaledOperand::new(k.zeros(&[128, 64], F8E4M3), ScaledFormat::E4M3).scale(k.zeros(&[128, groups], I8));
        let b = ScaledOperand::new(k.zeros(&[32, 16], I8), ScaledFormat::E2M1).scale(k.zeros(&[16, 2], I8));
        k.dot_scaled(a, b, None).ty()
    };
    built(|k| assert_eq!(operands(k, 2), tile(&[128, 16], F32)));
    let message = rule(|k| unused(operands(k, 4)));
    assert!(message.contains("the scales have 128 × 2 elements"), "{message}");
}

#[test]
fn products_take_their_accumulator() {
    built(|k| {
        let (a, b) = (k.zeros(&[32, 16], F32), k.zeros(&[16, 64], F32));
        let c = k.dot_with(a, b, Dot::precision(InputPrecision::Ieee).acc(k.zeros(&[32, 64], F32)));
        assert_eq!(c.ty(), tile(&[32, 64], F32));
        assert_eq!(k.dot(a.to(F16), b.to(F16)).ty(), tile(&[32, 64], F32));
    });
}
