//! The verifier and the printer of the tile IR on functions that no reader would give: broken by hand, and at random.

#[path = "support/corpus.rs"]
mod corpus;

use std::path::Path;

use proptest::prelude::*;
use tilewright::tile::verify::{verify, verify_program};
use tilewright::tile::{Binary, Block, Func, Loc, Op, OpKind, Param, Program, Region, Scalar, Shape, Type, Value};
use tilewright::ttir;

fn param(name: &str, ty: Type) -> Param {
    Param { name: name.to_owned(), ty, divisibility: None, attributes: Default::default() }
}

/// `n + n`, and a return.
fn sum() -> (Func, Op) {
    let i32 = Type::scalar(Scalar::I32);
    let mut func = Func::new("sum", vec![param("n", i32)]);
    let n = func.param_value(0);
    let op = func.push_op(func.entry(), OpKind::Binary(Binary::AddI), &[n, n], &[i32], Loc::default());
    func.push_op(func.entry(), OpKind::Return, &[], &[], Loc::default());
    (func, op)
}

/// What is wrong with a function: one fault.
fn fault(func: &Func) -> String {
    let errors = verify(func).unwrap_err();
    // It can be shown all the same.
    assert!(func.to_string().starts_with("tt.func"));
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].to_string()
}

#[test]
fn what_is_right_is_found_right() {
    assert_eq!(verify(&sum().0), Ok(()));
}

#[test]
fn faults_name_the_operation() {
    let (mut func, op) = sum();
    func.op_mut(op).operands.pop();
    assert_eq!(fault(&func), "@sum: `arith.addi`: takes 2 operands, and has 1");
    let (mut func, op) = sum();
    func.op_mut(op).loc = Loc { line: 3, column: 5 };
    func.set_type(func.result(op), Type::scalar(Scalar::I64));
    assert_eq!(fault(&func), "@sum, line 3, column 5: `arith.addi`: the result is i64, and must be i32");
}

#[test]
fn arenas_must_hang_together() {
    let (other, _) = sum();
    let (mut func, op) = sum();
    let mut larger = Func::new("larger", vec![param("n", Type::scalar(Scalar::I32)); 9]);
    func.op_mut(op).operands[0] = larger.param_value(8);
    assert!(fault(&func).contains("operand 0 is a value of another function"), "{}", fault(&func));
    larger.push_op(larger.entry(), OpKind::Return, &[], &[], Loc::default());

    let (mut func, op) = sum();
    let value = func.result(op);
    func.op_mut(op).operands[0] = value;
    assert!(fault(&func).contains("is used before it is made"));

    let (mut func, op) = sum();
    func.op_mut(op).results.clear();
    func.params.push(param("m", Type::scalar(Scalar::F32)));
    assert!(fault(&func).contains("2 parameters, and the entry block has 1 arguments"));

    let (mut func, op) = sum();
    let entry = func.entry();
    func.block_ops_mut(entry).push(op);
    assert!(verify(&func).is_err() && !func.to_string().is_empty());

    let (mut func, op) = sum();
    let body = func.body();
    func.op_mut(op).regions.push(body);
    assert!(fault(&func).contains("a region that is in two places"));

    let (mut func, op) = sum();
    let value = func.result(op);
    let entry = func.entry();
    func.block_ops_mut(entry).remove(0);
    func.insert_op(
        entry,
        0,
        OpKind::Binary(Binary::AddI),
        &[value, value],
        &[Type::scalar(Scalar::I32)],
        Loc::default(),
    );
    assert!(fault_count(&func) == 2 && other.op_count() == 2);
}

fn fault_count(func: &Func) -> usize {
    verify(func).map_or_else(|errors| errors.len(), |()| 0)
}

#[test]
fn calls_are_checked_in_programs() {
    let (mut caller, _) = sum();
    let (callee, _) = sum();
    caller.name = "caller".into();
    let n = caller.param_value(0);
    let op = caller.insert_op(caller.entry(), 0, OpKind::Call { callee: "sum".into() }, &[n], &[], Loc::default());
    let mut program = Program { funcs: vec![caller, callee], ..Program::default() };
    assert_eq!(verify_program(&program), Ok(()));
    program.funcs[0].op_mut(op).kind = OpKind::Call { callee: "product".into() };
    let errors = verify_program(&program).unwrap_err();
    assert_eq!(errors[0].to_string(), "@caller: `tt.call`: there is no function `@product`");
    program.funcs[0].name = "sum".into();
    let errors = verify_program(&program).unwrap_err();
    assert!(errors.iter().any(|error| error.message.contains("another function has this name")), "{errors:?}");
}

/// The form of `tt.bitcast` has no clauses: an attribute that is a clause elsewhere stays an attribute.
#[test]
fn a_clause_where_the_form_has_none_is_an_attribute() {
    let text = "module {\n  tt.func public @turn(%i: i32) {\n    %0 = tt.bitcast %i {fastmath = #arith.fastmath<fast>} : i32 -> f32\n    tt.return\n  }\n}\n";
    let program = ttir::read(text).unwrap();
    assert_eq!(verify(&program.funcs[0]), Ok(()));
    assert_eq!(program.to_string(), text);
}

/// Inline assembly may have any number of results, so no rule of its own finds that one is missing.
#[test]
fn a_lost_result_is_missed_where_it_is_used() {
    let text = r#"module {
  tt.func public @pair(%i: i32) {
    %0:2 = tt.elementwise_inline_asm "mov.b32 $0, $2; mov.b32 $1, $2;" {constraints = "=r,=r,r", packed_element = 1 : i32, pure = true} %i : i32 -> i32, i32
    tt.print "second" {hex = false, isSigned = array<i32: 1>} : %0#1 : i32
    tt.return
  }
}
"#;
    let mut program = ttir::read(text).unwrap();
    let func = &mut program.funcs[0];
    assert_eq!(verify(func), Ok(()));
    let op = func.all_ops()[0];
    func.op_mut(op).results.pop();
    assert_eq!(
        fault(func),
        "@pair, line 4, column 5: `tt.print`: operand 0 is made by nothing: what made it has lost it"
    );
}

/// Deeper than any stack: the verifier does not recurse.
#[test]
fn depth_does_no_harm() {
    let mut func = Func::new("deep", vec![param("c", Type::scalar(Scalar::I1))]);
    let c = func.param_value(0);
    let mut block = func.entry();
    let mut blocks = vec![(block, OpKind::Return)];
    for _ in 0..100_000 {
        let op = func.push_op(block, OpKind::If, &[c], &[], Loc::default());
        let then = func.add_region(op);
        func.add_region(op);
        block = func.add_block(then, &[]);
        blocks.push((block, OpKind::Yield));
    }
    for (block, end) in blocks {
        func.push_op(block, end, &[], &[], Loc::default());
    }
    assert_eq!(verify(&func), Ok(()));
    assert!(func.to_string().contains("..."));
}

#[test]
fn long_chains_of_blocks_are_quick() {
    let mut func = Func::new("long", vec![param("c", Type::scalar(Scalar::I1))]);
    let c = func.param_value(0);
    let blocks: Vec<Block> = (0..5000).map(|_| func.add_block(func.body(), &[])).collect();
    let first = func.push_op(func.entry(), OpKind::Branch, &[], &[], Loc::default());
    func.op_mut(first).successors = vec![blocks[0]];
    for (index, &block) in blocks.iter().enumerate() {
        // Forwards, and back to any block before.
        let back = blocks[(index * 7919) % (index + 1)];
        let next = blocks.get(index + 1).copied().unwrap_or(back);
        let op = func.push_op(block, OpKind::CondBranch { then_args: 0 }, &[c], &[], Loc::default());
        func.op_mut(op).successors = vec![next, back];
    }
    assert_eq!(verify(&func), Ok(()));
}

fn programs() -> Vec<Program> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ttir");
    let mut files = corpus::files(&folder, "ttir");
    files.retain(|path| path.parent() == Some(&folder));
    files.iter().map(|path| ttir::read(&std::fs::read_to_string(path).unwrap()).unwrap()).collect()
}

/// What a function has, to pick from.
struct Parts {
    ops: Vec<Op>,
    values: Vec<Value>,
    blocks: Vec<Block>,
    regions: Vec<Region>,
    types: Vec<Type>,
}

fn parts(func: &Func) -> Parts {
    let ops = func.all_ops();
    let regions: Vec<Region> =
        ops.iter().flat_map(|&op| func.op(op).regions.iter().copied()).chain([func.body()]).collect();
    let blocks: Vec<Block> = regions.iter().flat_map(|&region| func.region(region).blocks.iter().copied()).collect();
    let args = blocks.iter().flat_map(|&block| func.block(block).args.iter().copied());
    let values: Vec<Value> = ops.iter().flat_map(|&op| func.op(op).results.iter().copied()).chain(args).collect();
    let mut types: Vec<Type> = values.iter().map(|&value| func.ty(value)).collect();
    types.push(Type::Tile(Shape::new(&[1]).unwrap(), Scalar::I8.into()));
    Parts { ops, values, blocks, regions, types }
}

fn pick<T: Copy>(items: &[T], at: usize) -> T {
    items[at % items.len()]
}

/// Breaks something.
fn damage(func: &mut Func, own: &Parts, other: &Parts, (kind, a, b): (u8, usize, usize)) {
    if own.ops.is_empty() || own.values.is_empty() {
        return;
    }
    let (op, from) = (pick(&own.ops, a), pick(&own.ops, b));
    match kind % 16 {
        0 => {
            let data = func.op_mut(op);
            if !data.operands.is_empty() {
                let at = b % data.operands.len();
                data.operands[at] = pick(&own.values, b);
            }
        }
        1 => func.op_mut(op).kind = func.op(from).kind.clone(),
        2 => drop(func.op_mut(op).operands.pop()),
        3 => func.op_mut(op).operands.push(pick(&own.values, b)),
        4 => drop(func.op_mut(op).results.pop()),
        5 => func.op_mut(op).regions.push(pick(&own.regions, b)),
        6 => drop(func.op_mut(op).regions.pop()),
        7 => func.op_mut(op).successors.push(pick(&own.blocks, b)),
        8 => drop(func.op_mut(op).successors.pop()),
        9 => func.set_type(pick(&own.values, a), pick(&own.types, b)),
        10 => {
            let block = pick(&own.blocks, a);
            let ops = func.block_ops_mut(block);
            if !ops.is_empty() {
                ops.remove(b % ops.len());
            }
        }
        11 => func.block_ops_mut(pick(&own.blocks, a)).push(from),
        12 => {
            let block = pick(&own.blocks, b);
            let at = if func.op(op).block == block { 0 } else { b % (func.block(block).ops.len() + 1) };
            func.move_op(op, block, at);
        }
        13 => func.op_mut(op).block = pick(&own.blocks, b),
        14 => drop(func.params.pop()),
        _ => {
            // Of another function: in range or not.
            let data = func.op_mut(op);
            match a % 4 {
                0 => data.operands.push(pick(&other.values, b)),
                1 => data.regions.push(pick(&other.regions, b)),
                2 => data.successors.push(pick(&other.blocks, b)),
                _ => func.block_ops_mut(pick(&own.blocks, a)).push(pick(&other.ops, b)),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Neither the verifier nor the printer panics, and what the verifier finds right can be printed and read.
    #[test]
    fn damaged_functions_do_not_panic(
        source in any::<usize>(),
        edits in prop::collection::vec((any::<u8>(), any::<usize>(), any::<usize>()), 1..5),
    ) {
        thread_local!(static PROGRAMS: Vec<Program> = programs());
        let (mut program, other) = PROGRAMS.with(|programs| {
            let other = &programs[(source / 7) % programs.len()];
            (programs[source % programs.len()].clone(), parts(&other.funcs[0]))
        });
        // Of the functions as they were: a broken one cannot be walked.
        let own: Vec<Parts> = program.funcs.iter().map(parts).collect();
        for &edit in &edits {
            let index = edit.1 % own.len();
            damage(&mut program.funcs[index], &own[index], &other, edit);
        }
        let printed = program.to_string();
        if verify_program(&program).is_ok() {
            match ttir::read(&printed) {
                Ok(again) => prop_assert_eq!(again.to_string(), printed),
                Err(error) => return Err(TestCaseError::fail(format!("{error}\n{printed}"))),
            }
        }
    }
}
