//! What a launcher must know of a compiled kernel, from its function.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::{Compiled, Options};
use crate::ptx::{DType, Extent, GridRule, KernelMeta, ParamMeta};
use crate::tile::{Elem, Func, OpData, OpKind, Scalar, Type, Value};

/// The metadata of `func`, compiled as `options` say with `shared` bytes of dynamic shared memory.
pub(super) fn of(func: &Func, options: &Options, shared: u32) -> KernelMeta {
    let written = written(func);
    let params = func.params.iter().zip(written).map(|(param, written)| {
        let divisor = param.divisibility.unwrap_or(1).max(1);
        let (ty, pointer) = match param.ty.elem() {
            Some(Elem::Pointer(scalar)) => (dtype(scalar), true),
            Some(Elem::Value(scalar)) => (dtype(scalar), false),
            None => unreachable!("the lowering refuses a parameter of type {}", param.ty),
        };
        let natural = ty.bytes() as u32;
        ParamMeta {
            name: param.name.clone(),
            ty,
            pointer,
            constant: !written,
            align: if pointer { natural.max(divisor) } else { natural },
            divisible: if pointer { 1 } else { divisor },
        }
    });
    KernelMeta {
        name: func.name.clone(),
        params: params.collect(),
        grid: GridRule { x: Extent::Any, y: Extent::Any, z: Extent::Any },
        num_warps: options.num_warps,
        num_ctas: 1,
        shared,
        static_shared: 0,
        tmem_size: 0,
        global_scratch_size: 0,
        global_scratch_align: 1,
        profile_scratch_size: 0,
        profile_scratch_align: 1,
        scratch_pointers: true,
    }
}

/// What tells a kernel from every other: of its text and of all that a launcher must know.
pub(super) fn hash(compiled: &Compiled) -> String {
    let mut state = Sha256::new();
    let Options { arch, num_warps, num_stages } = compiled.options;
    state.update(format!("tilewright {}\n{arch} {num_warps} {num_stages}\n", env!("CARGO_PKG_VERSION")));
    state.update(format!("{:?}\n", compiled.meta));
    state.update(&compiled.ptx);
    state.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The type that a host gives: FP8 and truth values are bytes to it.
fn dtype(scalar: Scalar) -> DType {
    match scalar {
        Scalar::I1 | Scalar::I8 | Scalar::F8E4M3 | Scalar::F8E5M2 => DType::U8,
        Scalar::I16 => DType::I16,
        Scalar::I32 => DType::I32,
        Scalar::I64 => DType::I64,
        Scalar::F16 => DType::Fp16,
        Scalar::Bf16 => DType::Bf16,
        Scalar::F32 => DType::Fp32,
        Scalar::F64 => DType::Fp64,
    }
}

/// For each parameter, whether the kernel may write through it.
///
/// From every operation that writes, back along whatever its pointer may come from. An address made of an integer, or
/// passed to a function, may be any parameter's.
fn written(func: &Func) -> Vec<bool> {
    let is_address = |value: &Value| match func.ty(*value) {
        Type::Scalar(elem) | Type::Tile(_, elem) => matches!(elem, Elem::Pointer(_)),
        _ => true,
    };
    let ops = func.all_ops();
    let mut reached = vec![false; func.value_count()];
    let mut anything = false;
    for &op in &ops {
        let data = func.op(op);
        match data.kind {
            OpKind::Store { .. } | OpKind::AtomicRmw { .. } | OpKind::AtomicCas { .. } | OpKind::DescriptorStore => {
                reached[data.operands[0].index()] = true;
            }
            OpKind::Call { .. } | OpKind::InlineAsm { .. } | OpKind::ExternElementwise { .. } => {
                for value in data.operands.iter().filter(|value| is_address(value)) {
                    reached[value.index()] = true;
                }
            }
            _ => {}
        }
    }
    // What an operation makes of addresses, and hands to blocks, may be any address that it has.
    let sources = |data: &OpData| data.operands.iter().copied().filter(is_address).collect::<Vec<_>>();
    loop {
        let mut changed = false;
        for &op in &ops {
            let data = func.op(op);
            let mut targets = data.results.clone();
            for &region in &data.regions {
                targets.extend(func.region(region).blocks.iter().flat_map(|&block| func.block(block).args.clone()));
            }
            targets.extend(data.successors.iter().flat_map(|&block| func.block(block).args.clone()));
            if matches!(data.kind, OpKind::Yield | OpKind::Condition)
                && let Some(parent) = func.parent_op(data.block)
            {
                let parent = func.op(parent);
                targets.extend(parent.results.iter().copied());
                for &region in &parent.regions {
                    targets.extend(func.region(region).blocks.iter().flat_map(|&block| func.block(block).args.clone()));
                }
            }
            if !targets.iter().any(|target| is_address(target) && reached[target.index()]) {
                continue;
            }
            let sources = sources(data);
            anything |= sources.is_empty() && data.regions.is_empty() && !matches!(data.kind, OpKind::Poison);
            for source in sources {
                changed |= !std::mem::replace(&mut reached[source.index()], true);
            }
        }
        if !changed {
            break;
        }
    }
    let of_param = |index: usize| {
        let value = func.param_value(index);
        is_address(&value) && (anything || reached[value.index()])
    };
    (0..func.params.len()).map(of_param).collect()
}
