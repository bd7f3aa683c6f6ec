//! Block pointers and tensor descriptors.

use super::error::{Fault, Made};
use super::operand::Arg;
use super::state::State;
use super::{KernelBuilder, Operands, Tile};
use crate::tile::{CachePolicy, Cast, Elem, OpKind, Padding, Scalar, Shape, Type, Value};

impl State {
    /// An integer scalar of `to`, widened where it is narrower.
    fn index(&mut self, arg: Arg, to: Scalar) -> Made<Value> {
        let Some(value) = arg.value()? else {
            return match arg {
                Arg::Int(_) => self.constant(arg, Type::scalar(to)),
                _ => Err(Fault::rule("extents, strides and offsets are integers", &[])),
            };
        };
        let ty = self.ty(value);
        match ty {
            Type::Scalar(Elem::Value(scalar)) if scalar.is_int() && scalar.bits() <= to.bits() => self.cast(value, to),
            Type::Scalar(Elem::Value(Scalar::I64)) => {
                Err(Fault::rule("offsets of a block have 32 bits: `.to(I32)`, or add the rest to the base", &[ty]))
            }
            _ => Err(Fault::rule("extents, strides and offsets are scalar integers", &[ty])),
        }
    }

    fn indices(&mut self, args: &[Arg], to: Scalar) -> Made<Vec<Value>> {
        args.iter().map(|&arg| self.index(arg, to)).collect()
    }
}

impl KernelBuilder {
    /// A window of shape `block` on an array of extents `shape` and `strides` (in elements) at `base`, its corner at `offsets`.
    /// `order` lists the axes from the fastest in memory; it is a hint.
    #[track_caller]
    pub fn make_block_ptr<'k>(
        &'k self,
        base: Tile<'k>,
        shape: impl Operands<'k>,
        strides: impl Operands<'k>,
        offsets: impl Operands<'k>,
        block: &[u32],
        order: &[u32],
    ) -> Tile<'k> {
        let base = self.arg(base);
        let (shape, strides, offsets) = (self.args(shape), self.args(strides), self.args(offsets));
        self.run("make_block_ptr", |state| {
            let base = state.value(base)?;
            let ty = state.ty(base);
            let Type::Scalar(Elem::Pointer(_)) = ty else {
                return Err(Fault::rule("the base is one address", &[ty]));
            };
            let block = Shape::new(block)?;
            let rank = block.rank();
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            if [shape.len(), strides.len(), offsets.len(), order.len()] != [rank; 4]
                || !sorted.iter().copied().eq(0..rank as u32)
            {
                let rule = format!("extents, strides, offsets and the order of the axes have {rank} members each");
                return Err(Fault::rule(rule, &[ty]));
            }
            let (base, scalar) = state.byte_pointers(base)?;
            let mut operands = vec![base];
            operands.extend(state.indices(&shape, Scalar::I64)?);
            operands.extend(state.indices(&strides, Scalar::I64)?);
            operands.extend(state.indices(&offsets, Scalar::I32)?);
            Ok(state.make(OpKind::MakeBlockPtr { order: order.to_vec() }, &operands, Type::BlockPtr(block, scalar)))
        })
    }

    /// A descriptor of an array of extents `shape` and `strides` (in elements, the last 1), read and written in boxes of
    /// shape `block` by the copy engine.
    #[track_caller]
    pub fn make_descriptor<'k>(
        &'k self,
        base: Tile<'k>,
        shape: impl Operands<'k>,
        strides: impl Operands<'k>,
        block: &[u32],
        padding: Padding,
    ) -> Tile<'k> {
        let base = self.arg(base);
        let (shape, strides) = (self.args(shape), self.args(strides));
        self.run("make_descriptor", |state| {
            let base = state.value(base)?;
            let ty = state.ty(base);
            let Type::Scalar(Elem::Pointer(scalar)) = ty else {
                return Err(Fault::rule("the base is one address", &[ty]));
            };
            let block = Shape::new(block)?;
            let rank = block.rank();
            if rank > 5 || [shape.len(), strides.len()] != [rank; 2] {
                let rule = format!("extents, strides and the block have one number of members, 1 to 5, not {rank}");
                return Err(Fault::rule(rule, &[ty]));
            }
            if block.dims()[rank - 1] * scalar.bytes() < 16 {
                return Err(Fault::rule("the last axis of the block has 16 bytes or more", &[ty]));
            }
            if !matches!(strides.last(), Some(Arg::Int(1))) {
                return Err(Fault::rule("the last stride is the literal 1", &[ty]));
            }
            if padding == Padding::Nan && scalar.is_int() {
                return Err(Fault::rule("integers have no NaN to pad with", &[ty]));
            }
            let mut operands = vec![base];
            operands.extend(state.indices(&shape, Scalar::I32)?);
            operands.extend(state.indices(&strides, Scalar::I64)?);
            let kind = OpKind::MakeDescriptor { padding: Some(padding) };
            Ok(state.make(kind, &operands, Type::Descriptor(block, scalar)))
        })
    }

    fn args<'k>(&'k self, operands: impl Operands<'k>) -> Vec<Arg> {
        operands.into_operands().into_iter().map(|operand| self.arg(operand)).collect()
    }
}

impl<'k> Tile<'k> {
    /// A block pointer moved by `offsets` elements along each axis.
    #[track_caller]
    pub fn advance(self, offsets: impl Operands<'k>) -> Self {
        let offsets = self.k.args(offsets);
        self.map("advance", |state, pointer| {
            let ty = state.ty(pointer);
            match ty {
                Type::BlockPtr(shape, _) if shape.rank() == offsets.len() => {
                    let mut operands = vec![pointer];
                    operands.extend(state.indices(&offsets, Scalar::I32)?);
                    Ok(state.make(OpKind::Advance, &operands, ty))
                }
                _ => Err(Fault::rule("a block pointer and an offset for each axis are needed", &[ty])),
            }
        })
    }

    /// The box of a descriptor whose corner is at `indices`.
    #[track_caller]
    pub fn load_box(self, indices: impl Operands<'k>) -> Self {
        let indices = self.k.args(indices);
        self.map("load_box", |state, descriptor| {
            let (shape, scalar) = state.descriptor(descriptor, indices.len())?;
            let mut operands = vec![descriptor];
            operands.extend(state.indices(&indices, Scalar::I32)?);
            let kind = OpKind::DescriptorLoad { cache: CachePolicy::default() };
            Ok(state.make(kind, &operands, Type::Tile(shape, scalar.into())))
        })
    }

    /// Writes `value`, converted to the type of the memory, to the box of a descriptor whose corner is at `indices`.
    #[track_caller]
    pub fn store_box(self, indices: impl Operands<'k>, value: Tile<'k>) {
        let (descriptor, indices, value) = (self.k.arg(self), self.k.args(indices), self.k.arg(value));
        self.k.attempt("store_box", |state| {
            let (descriptor, value) = (state.value(descriptor)?, state.value(value)?);
            let (shape, scalar) = state.descriptor(descriptor, indices.len())?;
            if state.shape(value)? != shape {
                return Err(Fault::rule(
                    "the value has the shape of the box",
                    &[state.ty(descriptor), state.ty(value)],
                ));
            }
            let mut operands = vec![descriptor, state.cast(value, scalar)?];
            operands.extend(state.indices(&indices, Scalar::I32)?);
            state.push(OpKind::DescriptorStore, &operands, &[]);
            Ok(())
        });
    }

    /// The addresses as integers of 64 bits.
    #[track_caller]
    pub fn to_address(self) -> Self {
        self.map("to_address", |state, value| {
            let ty = state.ty(value);
            match state.elem(value)? {
                Elem::Pointer(_) => Ok(state.make(OpKind::Cast(Cast::PtrToInt), &[value], ty.with_elem(Scalar::I64))),
                Elem::Value(_) => Err(Fault::rule("addresses are needed", &[ty])),
            }
        })
    }
}

impl State {
    fn descriptor(&self, value: Value, indices: usize) -> Made<(Shape, Scalar)> {
        match self.ty(value) {
            Type::Descriptor(shape, scalar) if shape.rank() == indices => Ok((shape, scalar)),
            ty => Err(Fault::rule("a descriptor and an index for each axis are needed", &[ty])),
        }
    }
}
