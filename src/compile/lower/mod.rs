//! Tile IR to LLVM IR: one thread's part of every tile, a scalar for each register of its layout.
//!
//! Addresses are 64-bit integers; what touches global memory is inline assembly with a predicate, so that a mask costs no
//! branch. Scalars are uniform over the program, so branches and loops of the IR are branches and loops of LLVM's, and
//! a barrier inside them is met by all.

mod ahead;
mod assembly;
mod atomic;
mod control;
mod elementwise;
mod exchange;
mod fp8;
mod functions;
mod gather;
mod group;
mod library;
mod memory;
mod product;
mod scan;
mod scratch;
mod sides;
mod tensor_memory;

use std::collections::HashMap;

use inkwell::AddressSpace;
use inkwell::attributes::AttributeLoc;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::{Builder, BuilderError};
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::types::{BasicMetadataTypeEnum, BasicType, BasicTypeEnum};
use inkwell::values::{BasicValueEnum, FunctionValue, IntValue, PhiValue};

use super::assign::Assignment;
use super::axis::AxisInfo;
use super::layout::Layout;
use super::{Error, Options};
use crate::tile::{Block, Elem, Func, Op, OpKind, Scalar, Type, Value};

use scratch::Scratch;
use tensor_memory::TensorMemory;

pub(super) use memory::{run_in, run_of};

/// The module that [`lower`] made.
pub(super) struct Lowered<'c> {
    pub(super) module: Module<'c>,
    /// Dynamic shared memory, in bytes.
    pub(super) shared: u32,
}

impl From<BuilderError> for Error {
    fn from(error: BuilderError) -> Self {
        Error::Llvm(error.to_string())
    }
}

/// One value in one layout: a scalar for each register; one for a scalar.
type Registers<'c> = Vec<BasicValueEnum<'c>>;

struct Lowering<'a, 'c> {
    context: &'c Context,
    module: Module<'c>,
    builder: Builder<'c>,
    function: FunctionValue<'c>,
    func: &'a Func,
    axes: &'a AxisInfo,
    layouts: &'a Assignment,
    options: &'a Options,
    /// By value and place in [`Assignment::wanted`]; scalars at place 0.
    values: HashMap<(Value, usize), Registers<'c>>,
    blocks: HashMap<Block, (BasicBlock<'c>, Vec<Vec<PhiValue<'c>>>)>,
    /// How many uses each value has.
    uses: Vec<u32>,
    lane: IntValue<'c>,
    warp: IntValue<'c>,
    scratch: Scratch<'c>,
    /// Where operands of products lie that loads brought there ahead, in the turn at hand.
    landed: HashMap<(Op, usize), IntValue<'c>>,
    /// Where products are made in tensor memory.
    tensor: Option<TensorMemory<'c>>,
}

/// Calling convention of a kernel in LLVM.
const PTX_KERNEL: u32 = 71;

pub(super) fn lower<'c>(
    context: &'c Context,
    func: &Func,
    axes: &AxisInfo,
    layouts: &Assignment,
    options: &Options,
) -> Result<Lowered<'c>, Error> {
    let module = context.create_module(&func.name);
    let global = context.ptr_type(AddressSpace::from(1));
    let mut params: Vec<BasicMetadataTypeEnum> = Vec::new();
    for param in &func.params {
        params.push(match param.ty {
            Type::Scalar(Elem::Pointer(_)) => global.into(),
            Type::Scalar(Elem::Value(Scalar::I1)) => context.i8_type().into(),
            Type::Scalar(Elem::Value(scalar)) => number(context, scalar).into(),
            other => {
                return Err(Error::Unsupported {
                    op: "tt.func",
                    what: format!("a parameter `{}` of type {other}", param.name),
                    loc: Default::default(),
                });
            }
        });
    }
    params.extend([BasicMetadataTypeEnum::from(global); 2]);
    let function = module.add_function(&func.name, context.void_type().fn_type(&params, false), None);
    function.set_call_conventions(PTX_KERNEL);
    let threads = (32 * options.num_warps).to_string();
    function.add_attribute(AttributeLoc::Function, context.create_string_attribute("nvvm.reqntid", &threads));

    let builder = context.create_builder();
    builder.position_at_end(context.append_basic_block(function, "entry"));
    let i32_type = context.i32_type();
    let tid = module.add_function("llvm.nvvm.read.ptx.sreg.tid.x", i32_type.fn_type(&[], false), None);
    let thread = builder.build_call(tid, &[], "tid")?.try_as_basic_value().unwrap_basic().into_int_value();
    let lane = builder.build_and(thread, i32_type.const_int(31, false), "lane")?;
    let warp = builder.build_right_shift(thread, i32_type.const_int(5, false), false, "warp")?;
    let scratch = Scratch::new(context, &module, &builder)?;
    let mut this = Lowering {
        context,
        module,
        builder,
        function,
        func,
        axes,
        layouts,
        options,
        values: HashMap::new(),
        blocks: HashMap::new(),
        uses: func.use_counts(),
        lane,
        warp,
        scratch,
        landed: HashMap::new(),
        tensor: None,
    };
    this.take_tensor_memory()?;
    this.body()?;
    this.link_functions()?;
    let shared = this.scratch.finish(context, &this.module, options.num_warps);
    Ok(Lowered { module: this.module, shared })
}

/// LLVM's type of a number. FP8 is its byte.
fn number(context: &Context, scalar: Scalar) -> BasicTypeEnum<'_> {
    match scalar {
        Scalar::I1 => context.bool_type().into(),
        Scalar::I8 | Scalar::F8E4M3 | Scalar::F8E5M2 => context.i8_type().into(),
        Scalar::I16 => context.i16_type().into(),
        Scalar::I32 => context.i32_type().into(),
        Scalar::I64 => context.i64_type().into(),
        Scalar::F16 => context.f16_type().into(),
        Scalar::Bf16 => context.bf16_type().into(),
        Scalar::F32 => context.f32_type().into(),
        Scalar::F64 => context.f64_type().into(),
    }
}

impl<'c> Lowering<'_, 'c> {
    fn unsupported(&self, op: Op, what: impl Into<String>) -> Error {
        let data = self.func.op(op);
        Error::Unsupported { op: data.kind.name(), what: what.into(), loc: data.loc }
    }

    fn elem_type(&self, elem: Elem) -> BasicTypeEnum<'c> {
        match elem {
            Elem::Value(scalar) => number(self.context, scalar),
            Elem::Pointer(_) => self.context.i64_type().into(),
        }
    }

    /// LLVM's type of one register of `value`.
    fn register_type(&self, op: Op, value: Value) -> Result<BasicTypeEnum<'c>, Error> {
        let ty = self.func.ty(value);
        ty.elem().map(|elem| self.elem_type(elem)).ok_or_else(|| self.unsupported(op, ty.to_string()))
    }

    fn int(&self, value: u32) -> IntValue<'c> {
        self.context.i32_type().const_int(value.into(), false)
    }

    /// The value of a scalar.
    fn scalar(&self, value: Value) -> Result<BasicValueEnum<'c>, Error> {
        let found = self.values.get(&(value, 0)).and_then(|registers| registers.first().copied());
        found.ok_or_else(|| Error::Llvm(format!("the scalar {value:?} is used before it is made")))
    }

    /// The registers of a tile in `layout`; of a scalar, its value in each.
    fn registers(&self, value: Value, layout: &Layout) -> Result<Registers<'c>, Error> {
        if self.func.ty(value).shape().is_none() {
            return Ok(vec![self.scalar(value)?; layout.registers() as usize]);
        }
        let place = self.layouts.wanted(value).iter().position(|wanted| wanted == layout);
        let found = place.and_then(|place| self.values.get(&(value, place)));
        found.cloned().ok_or_else(|| Error::Llvm(format!("the tile {value:?} is not there in the layout {layout:?}")))
    }

    fn set_scalar(&mut self, value: Value, made: BasicValueEnum<'c>) {
        self.values.insert((value, 0), vec![made]);
    }

    /// Keeps a tile that was made in its home, and converts it to whatever else is wanted.
    fn set_home(&mut self, value: Value, made: Registers<'c>) -> Result<(), Error> {
        let layouts = self.layouts;
        let Some((home, others)) = layouts.wanted(value).split_first() else { return Ok(()) };
        for (index, other) in others.iter().enumerate() {
            let converted = self.convert(&made, home, other, self.func.ty(value))?;
            self.values.insert((value, index + 1), converted);
        }
        self.values.insert((value, 0), made);
        Ok(())
    }

    fn body(&mut self) -> Result<(), Error> {
        let func = self.func;
        let i1 = self.context.bool_type();
        for (index, param) in func.params.iter().enumerate() {
            let raw = self.function.get_nth_param(index as u32).expect("the entry has every parameter");
            let value = match param.ty {
                Type::Scalar(Elem::Pointer(_)) => {
                    self.builder.build_ptr_to_int(raw.into_pointer_value(), self.context.i64_type(), "")?.into()
                }
                Type::Scalar(Elem::Value(Scalar::I1)) => {
                    self.builder.build_int_truncate(raw.into_int_value(), i1, "")?.into()
                }
                _ => raw,
            };
            self.set_scalar(func.param_value(index), value);
        }
        let blocks = func.region(func.body()).blocks.clone();
        for &block in &blocks[1..] {
            let made = self.context.append_basic_block(self.function, "bb");
            let here = self.builder.get_insert_block().expect("the builder stands in the entry");
            self.builder.position_at_end(made);
            let mut phis = Vec::new();
            for &arg in &func.block(block).args {
                let Some(elem) = func.ty(arg).elem().filter(|_| func.ty(arg).shape().is_none()) else {
                    return Err(Error::Unsupported {
                        op: "cf.br",
                        what: format!("a block argument of type {}", func.ty(arg)),
                        loc: Default::default(),
                    });
                };
                let phi = self.builder.build_phi(self.elem_type(elem), "")?;
                self.values.insert((arg, 0), vec![phi.as_basic_value()]);
                phis.push(vec![phi]);
            }
            self.builder.position_at_end(here);
            self.blocks.insert(block, (made, phis));
        }
        for (index, &block) in blocks.iter().enumerate() {
            if index > 0 {
                self.scratch.set_all_busy();
                self.builder.position_at_end(self.blocks[&block].0);
            }
            self.block(block)?;
        }
        Ok(())
    }

    fn block(&mut self, block: Block) -> Result<(), Error> {
        let func = self.func;
        func.block(block).ops.iter().try_for_each(|&op| self.op(op))
    }

    fn op(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        match &data.kind {
            OpKind::Yield | OpKind::Condition => Ok(()),
            OpKind::Return => {
                self.give_tensor_memory_back()?;
                self.builder.build_return(None).map(drop).map_err(Into::into)
            }
            OpKind::Branch => self.branch(op, 0, &data.operands),
            OpKind::CondBranch { then_args } => self.cond_branch(op, *then_args as usize),
            OpKind::For => self.for_loop(op),
            OpKind::If => self.if_else(op),
            OpKind::Load { boundary_check, .. } if boundary_check.is_empty() => self.load(op),
            OpKind::Store { boundary_check, .. } if boundary_check.is_empty() => self.store(op),
            OpKind::Reduce { axis } => self.reduce(op, *axis as usize),
            OpKind::Dot { .. } | OpKind::DotScaled { .. } => self.product(op),
            OpKind::AtomicRmw { .. } | OpKind::AtomicCas { .. } => self.atomic(op),
            OpKind::Scan { axis, reverse } => self.scan(op, *axis as usize, *reverse),
            OpKind::Gather { axis, .. } => self.gather(op, *axis as usize),
            OpKind::Histogram => self.histogram(op),
            OpKind::Split => self.split(op),
            OpKind::Unsplat => self.unsplat(op),
            OpKind::InlineAsm { .. } => self.inline_assembly(op),
            OpKind::While => self.while_loop(op),
            OpKind::Call { .. } | OpKind::Assert { .. } | OpKind::Print { .. } => {
                Err(self.unsupported(op, self.named(op)))
            }
            // A hint.
            OpKind::Assume => Ok(()),
            OpKind::Barrier => self.barrier(),
            _ => self.pure(op),
        }
    }

    /// An operation of one result that is made anew in every layout that is wanted, or in its home.
    fn pure(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        let &[result] = &data.results[..] else { return Err(self.unsupported(op, self.named(op))) };
        let Some(shape) = self.func.ty(result).shape() else {
            let operands = data.operands.iter().map(|&value| self.scalar(value)).collect::<Result<Vec<_>, _>>()?;
            let made = self.element(op, &operands)?;
            self.set_scalar(result, made);
            return Ok(());
        };
        debug_assert!(shape.rank() > 0);
        let layouts = self.layouts;
        let wanted = layouts.wanted(result);
        let is_home = data.kind.is_elementwise() && self.layouts.home(result).is_some();
        let made_in = if is_home { &wanted[..wanted.len().min(1)] } else { wanted };
        for (place, layout) in made_in.iter().enumerate() {
            let made = self.tile(op, layout)?;
            if is_home {
                return self.set_home(result, made);
            }
            self.values.insert((result, place), made);
        }
        Ok(())
    }

    /// What tells an operation without a result of one type from others of its name.
    fn named(&self, op: Op) -> String {
        match &self.func.op(op).kind {
            OpKind::Print { prefix: text, .. } | OpKind::Assert { message: text } => format!("`{text}`"),
            OpKind::Call { callee } => format!("`@{callee}` (`Program::inlined` takes calls away)"),
            _ => "this form".to_owned(),
        }
    }

    /// The registers in `layout` of the result of an operation that needs no exchange between threads.
    fn tile(&mut self, op: Op, layout: &Layout) -> Result<Registers<'c>, Error> {
        let data = self.func.op(op);
        match &data.kind {
            OpKind::Constant(bits) => {
                let elem = self.func.ty(data.results[0]).elem();
                let constant = self.constant(op, elem, *bits)?;
                Ok(vec![constant; layout.registers() as usize])
            }
            // Any value will do.
            OpKind::Poison => {
                let zero = self.register_type(op, data.results[0])?.const_zero();
                Ok(vec![zero; layout.registers() as usize])
            }
            OpKind::Join | OpKind::Cat => self.joined(op, layout),
            OpKind::Splat => Ok(vec![self.scalar(data.operands[0])?; layout.registers() as usize]),
            OpKind::MakeRange { start, .. } => {
                let base = self.thread_index(layout)?;
                (0..layout.registers())
                    .map(|register| {
                        let index = self.register_index(base, layout, register)?;
                        let first = self.int(*start as u32);
                        Ok(self.builder.build_int_add(index, first, "")?.into())
                    })
                    .collect()
            }
            OpKind::Broadcast | OpKind::ExpandDims { .. } | OpKind::Trans { .. } | OpKind::Reshape { .. } => {
                self.view(op, layout)
            }
            kind if kind.is_elementwise() => {
                let operands =
                    data.operands.iter().map(|&value| self.registers(value, layout)).collect::<Result<Vec<_>, _>>()?;
                (0..layout.registers() as usize)
                    .map(|register| {
                        let of_register: Vec<_> = operands.iter().map(|all| all[register]).collect();
                        self.element(op, &of_register)
                    })
                    .collect()
            }
            _ => Err(self.unsupported(op, self.func.ty(data.results[0]).to_string())),
        }
    }

    /// A view takes each register from the operand's that holds the same element: bits of the register's number that the
    /// operand does not have drop out.
    fn view(&mut self, op: Op, layout: &Layout) -> Result<Registers<'c>, Error> {
        let operand = self.func.op(op).operands[0];
        let source = |layout: &Layout| {
            let found = self.layouts.operand_layout(self.func, op, operand, layout);
            found.ok_or_else(|| self.unsupported(op, "a scalar"))
        };
        let registers = self.registers(operand, &source(layout)?)?;
        let mut kept = Vec::new();
        for &basis in &layout.reg {
            let alone = Layout { shape: layout.shape, reg: vec![basis], lane: Vec::new(), warp: Vec::new() };
            kept.push(!source(&alone)?.reg.is_empty());
        }
        let place = |register: u32| {
            let bits = (0..kept.len()).filter(|&bit| kept[bit]);
            bits.enumerate().fold(0, |place, (to, from)| place | (register >> from & 1) << to)
        };
        Ok((0..layout.registers()).map(|register| registers[place(register) as usize]).collect())
    }

    /// The part of an element's index that the thread decides, for register 0.
    fn thread_index(&self, layout: &Layout) -> Result<IntValue<'c>, Error> {
        let lane = self.combined(self.lane, &layout.lane)?;
        let warp = self.combined(self.warp, &layout.warp)?;
        Ok(self.builder.build_xor(lane, warp, "")?)
    }

    /// The sum over GF(2) of the bases of the bits of `place` (a lane or a warp).
    fn combined(&self, place: IntValue<'c>, bases: &[u32]) -> Result<IntValue<'c>, Error> {
        let mut index = self.int(0);
        let mut bit = 0;
        while bit < bases.len() {
            // A run of bits that moves as one is one mask and one shift.
            let mut length = 1;
            let base = bases[bit];
            while base != 0 && base.is_power_of_two() && bases.get(bit + length) == Some(&(base << length)) {
                length += 1;
            }
            if base != 0 {
                let mask = self.int(((1_u32 << length) - 1) << bit);
                let part = self.builder.build_and(place, mask, "")?;
                let part = if base.is_power_of_two() {
                    let to = base.trailing_zeros();
                    if to as usize >= bit {
                        self.builder.build_left_shift(part, self.int(to - bit as u32), "")?
                    } else {
                        self.builder.build_right_shift(part, self.int(bit as u32 - to), false, "")?
                    }
                } else {
                    let one = self.builder.build_right_shift(part, self.int(bit as u32), false, "")?;
                    self.builder.build_int_mul(one, self.int(base), "")?
                };
                index = self.builder.build_xor(index, part, "")?;
            }
            bit += length;
        }
        Ok(index)
    }

    /// The index of the element in `register`, given the thread's part.
    fn register_index(&self, thread: IntValue<'c>, layout: &Layout, register: u32) -> Result<IntValue<'c>, Error> {
        let of_threads = layout.lane.iter().chain(&layout.warp).fold(0, |all, basis| all | basis);
        self.sum_of(thread, of_threads, layout.index(register, 0, 0))
    }

    /// A thread's part, of bits among `of_threads`, and a constant. Where the bits are apart the sum is the exclusive or, and
    /// LLVM folds sums into addresses.
    fn sum_of(&self, thread: IntValue<'c>, of_threads: u32, constant: u32) -> Result<IntValue<'c>, Error> {
        let (apart, shared) = (constant & !of_threads, constant & of_threads);
        let mixed = if shared == 0 { thread } else { self.builder.build_xor(thread, self.int(shared), "")? };
        Ok(if apart == 0 { mixed } else { self.builder.build_int_add(mixed, self.int(apart), "")? })
    }

    /// Calls one of LLVM's intrinsics that makes an integer or nothing.
    fn intrinsic(
        &self,
        name: &str,
        result: Option<BasicTypeEnum<'c>>,
        args: &[IntValue<'c>],
    ) -> Result<Option<BasicValueEnum<'c>>, Error> {
        let types: Vec<BasicMetadataTypeEnum> = args.iter().map(|arg| arg.get_type().into()).collect();
        let function = self.module.get_function(name).unwrap_or_else(|| {
            let ty = match result {
                Some(result) => result.fn_type(&types, false),
                None => self.context.void_type().fn_type(&types, false),
            };
            self.module.add_function(name, ty, None)
        });
        let args: Vec<_> = args.iter().map(|&arg| arg.into()).collect();
        Ok(self.builder.build_call(function, &args, "")?.try_as_basic_value().basic())
    }
}
