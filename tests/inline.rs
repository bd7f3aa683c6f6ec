//! Calls replaced by what they call ([`tilewright::tile::Program::inlined`]): the forms that Triton's compiler does not make, or cannot inline itself (several
//! returns, called in a loop), computed on the emulator beside Rust. What it does make is in `conformance` (`control.py`).
#![cfg(feature = "llvm")]

use tilewright::compile::{Options, compile};
use tilewright::emulate::{Kernel, LaunchConfig, Memory, Options as EmulateOptions, launch};
use tilewright::ptx::Arch;
use tilewright::tile::verify::verify;
use tilewright::tile::{OpKind, Program};
use tilewright::ttir;

const WIDTH: usize = 64;

/// A collatz step that returns in three places, called in a loop, in a condition, and by a function that is called; a tile that comes from either of two
/// blocks; a function without a result.
const TEXT: &str = "module {
  tt.func private @step(%x: i32, %count: i32) -> (i32, i32) attributes {noinline = true} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c3 = arith.constant 3 : i32
    %one = arith.cmpi eq, %x, %c1 : i32
    cf.cond_br %one, ^out(%x, %count : i32, i32), ^next
  ^next:
    %more = arith.addi %count, %c1 : i32
    %low = arith.remsi %x, %c2 : i32
    %even = arith.cmpi eq, %low, %c0 : i32
    cf.cond_br %even, ^half, ^odd
  ^half:
    %h = arith.divsi %x, %c2 : i32
    tt.return %h, %more : i32, i32
  ^odd:
    %t = arith.muli %x, %c3 : i32
    %u = arith.addi %t, %c1 : i32
    cf.br ^out(%u, %more : i32, i32)
  ^out(%v: i32, %n: i32):
    tt.return %v, %n : i32, i32
  ^never:
    %z = tt.call @same(%x) : (i32) -> i32
    tt.return %z, %z : i32, i32
  }
  tt.func private @two(%x: i32, %count: i32) -> (i32, i32) {
    %a:2 = tt.call @step(%x, %count) : (i32, i32) -> (i32, i32)
    %b:2 = tt.call @step(%a#0, %a#1) : (i32, i32) -> (i32, i32)
    tt.return %b#0, %b#1 : i32, i32
  }
  tt.func private @put(%p: !tt.ptr<i32>, %at: i32, %x: i32) {
    %c0 = arith.constant 0 : i32
    %below = arith.cmpi slt, %x, %c0 : i32
    cf.cond_br %below, ^nothing, ^store
  ^store:
    %q = tt.addptr %p, %at : !tt.ptr<i32>, i32
    tt.store %q, %x : !tt.ptr<i32>
    tt.return
  ^nothing:
    tt.return
  }
  tt.func private @chosen(%a: tensor<64xi32>, %b: tensor<64xi32>, %first: i1) -> tensor<64xi32> {
    cf.cond_br %first, ^end(%a : tensor<64xi32>), ^end(%b : tensor<64xi32>)
  ^end(%c: tensor<64xi32>):
    %d = arith.addi %c, %a : tensor<64xi32>
    tt.return %d : tensor<64xi32>
  }
  tt.func private @same(%x: i32) -> i32 {
    tt.return %x : i32
  }
  tt.func public @kernel(%o: !tt.ptr<i32>, %tile: !tt.ptr<i32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c3 = arith.constant 3 : i32
    %range = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
    %last, %all = scf.for %i = %c1 to %n step %c1 iter_args(%x = %n, %t = %range) -> (i32, tensor<64xi32>) : i32 {
      %s:2 = tt.call @two(%i, %c0) : (i32, i32) -> (i32, i32)
      %low = arith.remsi %i, %c3 : i32
      %third = arith.cmpi eq, %low, %c0 : i32
      %r = scf.if %third -> (i32) {
        %in:2 = tt.call @step(%s#0, %s#1) : (i32, i32) -> (i32, i32)
        scf.yield %in#1 : i32
      } else {
        %minus = arith.subi %c0, %s#0 : i32
        scf.yield %minus : i32
      }
      tt.call @put(%o, %i, %r) : (!tt.ptr<i32>, i32, i32) -> ()
      %wide = tt.splat %i : i32 -> tensor<64xi32>
      %y = tt.call @chosen(%t, %wide, %third) : (tensor<64xi32>, tensor<64xi32>, i1) -> tensor<64xi32>
      %kept = tt.call @same(%r) : (i32) -> i32
      %again = tt.call @same(%kept) : (i32) -> i32
      scf.yield %again, %y : i32, tensor<64xi32>
    }
    tt.call @put(%o, %c0, %last) : (!tt.ptr<i32>, i32, i32) -> ()
    %base = tt.splat %tile : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %at = tt.addptr %base, %range : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    tt.store %at, %all : tensor<64x!tt.ptr<i32>>
    tt.return
  }
}";

fn step(x: i32, count: i32) -> (i32, i32) {
    match x {
        1 => (x, count),
        x if x % 2 == 0 => (x / 2, count + 1),
        x => (3 * x + 1, count + 1),
    }
}

/// What the kernel leaves in its two buffers, which were -5.
fn oracle(n: i32) -> (Vec<i32>, Vec<i32>) {
    let mut out = vec![-5; WIDTH];
    let mut put = |at: i32, x: i32| {
        if x >= 0 {
            out[at as usize] = x;
        }
    };
    let mut tile: Vec<i32> = (0..WIDTH as i32).collect();
    let mut last = n;
    for i in 1..n {
        let (x, count) = step(i, 0);
        let (x, count) = step(x, count);
        last = if i % 3 == 0 { step(x, count).1 } else { -x };
        put(i, last);
        tile.iter_mut().for_each(|t| *t = if i % 3 == 0 { *t } else { i } + *t);
    }
    put(0, last);
    (out, tile)
}

fn run(ptx: &str, shared: u32, n: i32) -> (Vec<i32>, Vec<i32>) {
    let kernel = Kernel::new(ptx, None).unwrap();
    let memory = Memory::new();
    let before: Vec<u8> = (0..WIDTH).flat_map(|_| (-5_i32).to_le_bytes()).collect();
    let buffers = ["out", "tile"].map(|name| {
        let address = memory.alloc(before.len() as u64, name).unwrap();
        memory.write(address, &before).unwrap();
        address
    });
    let mut params: Vec<u8> = buffers.iter().flat_map(|address| address.to_le_bytes()).collect();
    params.extend(n.to_le_bytes());
    // Triton's two scratch pointers, null.
    params.resize(24 + 16, 0);
    let block = kernel.required_block().unwrap();
    let config = LaunchConfig { grid: [1, 1, 1], block, dynamic_shared: shared, ..LaunchConfig::default() };
    launch(&kernel, &config, &params, &memory, &EmulateOptions::default()).unwrap();
    let words = |address| {
        let mut data = vec![0; 4 * WIDTH];
        memory.read(address, &mut data).unwrap();
        data.chunks(4).map(|word| i32::from_le_bytes(word.try_into().unwrap())).collect()
    };
    (words(buffers[0]), words(buffers[1]))
}

#[test]
fn calls_compute_what_they_call() {
    let program = ttir::read(TEXT).unwrap();
    let kernel = program.inlined("kernel").unwrap();
    verify(&kernel).unwrap();
    assert!(kernel.all_ops().iter().all(|&op| !matches!(kernel.op(op).kind, OpKind::Call { .. })));
    // It can be printed and read, and is then the same.
    let alone = Program { funcs: vec![kernel.clone()], ..Program::default() };
    let again = ttir::read(&alone.to_string()).unwrap();
    assert_eq!(again.to_string(), alone.to_string());
    let made = compile(&again.funcs[0], &Options::new(Arch::Sm90a)).unwrap();
    for n in [1, 2, 30] {
        assert_eq!(run(&made.ptx, made.meta.shared, n), oracle(n), "{n}");
    }
}

/// Functions stand in a module in any order, and what is not called makes no difference.
#[test]
fn the_order_of_functions_is_free() {
    let program = ttir::read(TEXT).unwrap();
    let there = program.inlined("kernel").unwrap();
    let mut turned = program.clone();
    turned.funcs.reverse();
    let back = turned.inlined("kernel").unwrap();
    let text = |func| Program { funcs: vec![func], ..Program::default() }.to_string();
    assert_eq!(text(there), text(back));
    // A function that is called can be taken by itself too, and one without calls stays as it is.
    assert_eq!(program.inlined("same").unwrap(), *program.func("same").unwrap());
    verify(&program.inlined("two").unwrap()).unwrap();
}

/// A program that was not read, so that nobody has looked at its calls, is looked at.
#[test]
fn calls_that_do_not_fit_are_named() {
    let program = ttir::read(TEXT).unwrap();
    let mut without = program.clone();
    without.funcs.retain(|func| func.name != "put");
    let error = without.inlined("kernel").unwrap_err();
    assert_eq!((error.operation, error.message.as_str()), ("tt.call", "there is no function `@put`"));
    assert_eq!((error.func.as_str(), error.loc.line), ("kernel", 68));
    let mut other = program;
    other.funcs.iter_mut().find(|func| func.name == "same").unwrap().results.clear();
    let error = other.inlined("kernel").unwrap_err();
    assert_eq!(error.message, "`@same` returns (), and the call's results are (i32)");
}
