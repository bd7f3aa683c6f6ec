//! `tt.dot`: by `mma.sync`, `wgmma` (`group`) or `tcgen05.mma` (`tensor_memory`), or by fused multiply-adds where each thread makes its part of the product alone.
//!
//! Sums run over k from the first, so the same input gives the same bits. `tf32` gives the bits of the singles to the tensor cores,
//! which drop the low ones; `tf32x3` splits each single in two parts and adds the small products first, in the order of Triton 3.6:
//! lo·hi, hi·lo, then what became NaN is zero (an infinity's low part is NaN; its high product stands), then hi·hi, and c last.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use inkwell::FloatPredicate;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, IntValue};

use super::tensor_memory::{Onto, Scales, Sum};
use super::{Lowering, Registers};
use crate::compile::Error;
use crate::compile::assign::{Landing, SCALES, coordinates, factors, left_bits, product_operands, right_bits};
use crate::compile::layout::{Exchange, Layout, Side, Swizzled};
use crate::compile::tensor::{Engine, Mma, Product, scales};
use crate::tile::{InputPrecision, Op, OpKind, Scalar};

/// An operand of a product on tensor cores.
enum Operand<'c> {
    /// A thread's part of it, in the order of the instructions' fragments.
    Registers(Registers<'c>),
    /// In shared memory, for threads to read.
    Staged(Staged<'c>),
    /// In shared memory from this byte on, for the tensor cores to read.
    Placed(IntValue<'c>, Swizzled),
}

/// An operand in shared memory.
struct Staged<'c> {
    start: IntValue<'c>,
    side: Side,
    scalar: Scalar,
    /// What was read of it.
    read: HashMap<u32, BasicValueEnum<'c>>,
}

/// An operand of a product where it comes from: its registers, and its way through shared memory where it takes that.
struct Source<'c> {
    registers: Registers<'c>,
    way: Option<Way>,
    /// Where a load that ran ahead has put it.
    landed: Option<IntValue<'c>>,
}

/// How an operand goes through shared memory.
struct Way {
    from: Layout,
    store: Side,
    scalar: Scalar,
    to: Place,
}

/// Who reads an operand from shared memory.
enum Place {
    /// Threads: how they read it, and the bytes that it takes.
    Threads(Side, u32),
    TensorCores(Swizzled),
}

/// What of each single goes into a product.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// The nearest TF32.
    High,
    /// What that leaves.
    Low,
}

impl<'c> Lowering<'_, 'c> {
    pub(super) fn product(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        let precision = match data.kind {
            OpKind::Dot { precision, .. } => precision,
            _ => InputPrecision::Ieee,
        };
        let Some(home) = self.layouts.home(data.results[0]).cloned() else {
            return Err(self.unsupported(op, "this form"));
        };
        let c = self.registers(data.operands[data.operands.len() - 1], &home)?;
        let made = match self.layouts.product(op).cloned() {
            Some(product) => {
                let thrice = precision == InputPrecision::Tf32x3 && product.mma.packed == 1;
                let [a, b] = self.sources(&product, op, &home)?;
                if thrice {
                    self.in_three(product.mma, op, &home, [&a, &b], &c)?
                } else {
                    let operands = self.operands([(&a, Part::Whole), (&b, Part::Whole)])?;
                    let resident = self.layouts.resident(op);
                    let scales = if product.mma.scaled {
                        let (m, n) = (home.shape.dims()[0], home.shape.dims()[1]);
                        let column = if resident.is_some() { 0 } else { product.columns(m, n) };
                        Some(Scales {
                            column,
                            words: [self.scale_words(op, SCALES[0])?, self.scale_words(op, SCALES[1])?],
                        })
                    } else {
                        None
                    };
                    match resident {
                        // The registers stand for the sum; the loop puts it there before, and reads it after.
                        Some(column) => {
                            let sum = Sum { onto: Onto::There, column, stays: true, scales: scales.as_ref() };
                            self.on_tensor_cores(product.mma, op, &home, operands, sum)?;
                            c
                        }
                        None => {
                            let sum = Sum { scales: scales.as_ref(), ..Sum::of(&c) };
                            self.on_tensor_cores(product.mma, op, &home, operands, sum)?
                        }
                    }
                }
            }
            None => {
                let (a_layout, b_layout) = product_operands(self.func, None, op, &home);
                let a = self.registers(data.operands[0], &a_layout)?;
                let b = self.registers(data.operands[1], &b_layout)?;
                self.alone(op, precision, &home, &a, &b, &c)?
            }
        };
        self.set_home(data.results[0], made)
    }

    /// The scales of a thread's rows as words of four groups of k each: for each four the words of all its rows.
    fn scale_words(&self, op: Op, index: usize) -> Result<Vec<Registers<'c>>, Error> {
        let value = self.func.op(op).operands[index];
        let shape = self.func.ty(value).shape().ok_or_else(|| self.unsupported(op, "a scalar"))?;
        let groups = shape.dims()[1].min(4) as usize;
        let words = (shape.dims()[0] / 32).max(1) as usize;
        let registers = self.registers(value, &scales(shape, self.options.num_warps))?;
        let i32_type = self.context.i32_type();
        // As text: LLVM would join bytes by words of which nothing defines a half, which is no fault but looks like one.
        let pair = |low, high, selectors: &str| {
            self.instruction(&format!("prmt.b32 $0, $1, $2, {selectors};"), "=r,r,r", i32_type.into(), &[low, high])
        };
        let word = |own: &[BasicValueEnum<'c>]| -> Result<BasicValueEnum<'c>, Error> {
            let wide = |byte: &BasicValueEnum<'c>| self.builder.build_int_z_extend(byte.into_int_value(), i32_type, "");
            let bytes = own.iter().map(|byte| Ok(wide(byte)?.into())).collect::<Result<Registers, Error>>()?;
            Ok(match bytes[..] {
                [a, b] => pair(a, b, "0x1140")?,
                [a, b, c, d] => pair(pair(a, b, "0x1140")?, pair(c, d, "0x1140")?, "0x5410")?,
                _ => bytes[0],
            })
        };
        registers.chunks(words * groups).map(|part| part.chunks(groups).map(word).collect()).collect()
    }

    fn depth(&self, op: Op) -> u32 {
        self.func.ty(self.func.op(op).operands[0]).shape().map_or(0, |shape| shape.dims()[shape.rank() - 1])
    }

    fn alone(
        &self,
        op: Op,
        precision: InputPrecision,
        home: &Layout,
        a: &[BasicValueEnum<'c>],
        b: &[BasicValueEnum<'c>],
        c: &[BasicValueEnum<'c>],
    ) -> Result<Registers<'c>, Error> {
        let data = self.func.op(op);
        let types = data.operands.iter().map(|&value| self.func.ty(value)).collect::<Vec<_>>();
        let (from, to) = (types[0].number(), types[2].number());
        let unsupported = || {
            let what = format!("{} by {} in precision {}", types[0], types[1], precision.name());
            self.unsupported(op, what)
        };
        let (Some(from), Some(to)) = (from, to) else { return Err(unsupported()) };
        let fits = from == to || (to == Scalar::F32 && from.bits() == 16) || (to == Scalar::I32 && from == Scalar::I8);
        let precise = matches!(precision, InputPrecision::Ieee | InputPrecision::Tf32);
        if types[1].number() != Some(from) || !fits || (from == Scalar::F32 && !precise) {
            return Err(unsupported());
        }
        let widened = |all: &[BasicValueEnum<'c>]| {
            all.iter().map(|&value| self.widened_factor(value, to)).collect::<Result<Registers<'c>, Error>>()
        };
        let (a, b) = (widened(a)?, widened(b)?);
        let k = self.depth(op) as usize;
        // After the bits of k, the operands' registers follow the bits of the product's registers that they depend on.
        let (rows, cols) = (left_bits(home), right_bits(home));
        let mut made = Registers::new();
        for (register, &start) in c.iter().enumerate() {
            let row = picked(register as u32, &home.reg, |basis| basis & rows != 0) as usize;
            let col = picked(register as u32, &home.reg, |basis| basis & cols != 0) as usize;
            let mut sum = start;
            for at in 0..k {
                sum = match (a[row * k + at], b[col * k + at], sum) {
                    (BasicValueEnum::FloatValue(x), BasicValueEnum::FloatValue(y), BasicValueEnum::FloatValue(z)) => {
                        self.fma(x, y, z)?
                    }
                    (BasicValueEnum::IntValue(x), BasicValueEnum::IntValue(y), BasicValueEnum::IntValue(z)) => {
                        let product = self.builder.build_int_mul(x, y, "")?;
                        self.builder.build_int_add(z, product, "")?.into()
                    }
                    _ => return Err(unsupported()),
                };
            }
            made.push(sum);
        }
        Ok(made)
    }

    /// A factor in the type of the sum, exact.
    fn widened_factor(&self, value: BasicValueEnum<'c>, to: Scalar) -> Result<BasicValueEnum<'c>, Error> {
        Ok(match (value, super::number(self.context, to)) {
            (value, ty) if value.get_type() == ty => value,
            (BasicValueEnum::IntValue(value), BasicTypeEnum::IntType(ty)) => {
                self.builder.build_int_s_extend(value, ty, "")?.into()
            }
            (BasicValueEnum::FloatValue(value), BasicTypeEnum::FloatType(ty)) => {
                self.builder.build_float_ext(value, ty, "")?.into()
            }
            (value, _) => value,
        })
    }

    /// The operands of a product on tensor cores.
    fn sources(&mut self, product: &Product, op: Op, home: &Layout) -> Result<[Source<'c>; 2], Error> {
        match &product.engine {
            Engine::Groups(places) | Engine::TensorMemory(places) => {
                let [a, b] = [0, 1].map(|index| self.placed_source(op, index, places[index]));
                Ok([a?, b?])
            }
            Engine::Warps(_) => {
                let (a, b) = product_operands(self.func, Some(product), op, home);
                Ok([self.source(op, 0, &a)?, self.source(op, 1, &b)?])
            }
        }
    }

    /// An operand that threads have in `layout`, or read in it from shared memory.
    fn source(&self, op: Op, index: usize, layout: &Layout) -> Result<Source<'c>, Error> {
        let value = self.func.op(op).operands[index];
        let Some(from) = self.layouts.staged(op, index).cloned() else {
            return Ok(Source { registers: self.registers(value, layout)?, way: None, landed: None });
        };
        let scalar = self.func.ty(value).number().unwrap_or(Scalar::I64);
        if let Some(Landing { store, read: Some(read), bytes, .. }) = self.layouts.landing(op, index) {
            let to = Place::Threads(read.clone(), *bytes);
            return self.on_its_way(op, index, Way { from, store: store.clone(), scalar, to });
        }
        let Exchange::Program(passage) = Exchange::of(&from, layout, scalar.bytes()) else {
            return Err(Error::Llvm("a staged operand does not go through shared memory".to_owned()));
        };
        let to = Place::Threads(passage.load, passage.elements * scalar.bytes());
        self.on_its_way(op, index, Way { from, store: passage.store, scalar, to })
    }

    /// An operand that goes through shared memory, or is there.
    fn on_its_way(&self, op: Op, index: usize, way: Way) -> Result<Source<'c>, Error> {
        let landed = self.landed.get(&(op, index)).copied();
        let registers = match landed {
            Some(_) => Registers::new(),
            None => self.registers(self.func.op(op).operands[factors(&self.func.op(op).kind)[index]], &way.from)?,
        };
        Ok(Source { registers, way: Some(way), landed })
    }

    /// An operand that the tensor cores read from `place`.
    fn placed_source(&self, op: Op, index: usize, place: Swizzled) -> Result<Source<'c>, Error> {
        let value = self.func.op(op).operands[factors(&self.func.op(op).kind)[index]];
        let from = self.layouts.staged(op, index).cloned();
        let from = from.ok_or_else(|| Error::Llvm("an operand of a product has no layout".to_owned()))?;
        let store = place.store(&from, |basis| coordinates(from.shape, basis, index));
        let scalar = self.func.ty(value).number().unwrap_or(Scalar::I64);
        self.on_its_way(op, index, Way { from, store, scalar, to: Place::TensorCores(place) })
    }

    /// Parts of the operands of one product, in registers or in shared memory.
    fn operands(&mut self, sources: [(&Source<'c>, Part); 2]) -> Result<[Operand<'c>; 2], Error> {
        let mut made = Vec::new();
        let (mut is_staged, mut is_placed) = (false, false);
        for (source, part) in sources {
            let registers = match part {
                Part::Whole => source.registers.clone(),
                Part::High => self.parts(&source.registers)?.0,
                Part::Low => self.parts(&source.registers)?.1,
            };
            let Some(Way { from, store, scalar, to }) = &source.way else {
                made.push(Operand::Registers(registers));
                continue;
            };
            let start = match (source.landed, to) {
                (Some(start), _) => start,
                (None, Place::Threads(_, bytes)) => self.program_scratch(*bytes)?,
                (None, Place::TensorCores(place)) => self.program_scratch_at(place.size(), Swizzled::ALIGN)?,
            };
            if source.landed.is_none() {
                let owns = self.owns(from)?;
                self.pass_in(&registers, store, start, *scalar, owns)?;
                is_staged = true;
                is_placed |= matches!(to, Place::TensorCores(_));
            }
            made.push(match to {
                Place::Threads(side, _) => {
                    Operand::Staged(Staged { start, side: side.clone(), scalar: *scalar, read: HashMap::new() })
                }
                Place::TensorCores(place) => Operand::Placed(start, *place),
            });
        }
        if is_placed {
            self.seen_by_tensor_cores()?;
        }
        if is_staged {
            self.written()?;
        }
        made.try_into().map_err(|_| Error::Llvm("a product has two operands".to_owned()))
    }

    /// `count` words of an operand from the word `first`.
    fn words_of(
        &self,
        operand: &mut Operand<'c>,
        packed: usize,
        first: usize,
        count: usize,
    ) -> Result<Registers<'c>, Error> {
        let elements = match operand {
            Operand::Registers(all) => all[first * packed..(first + count) * packed].to_vec(),
            Operand::Staged(staged) => {
                let members = first * packed..(first + count) * packed;
                members.map(|register| self.staged_register(staged, register as u32)).collect::<Result<_, _>>()?
            }
            Operand::Placed(..) => return Err(Error::Llvm("mma.sync of an operand that is placed".to_owned())),
        };
        self.words(&elements, packed)
    }

    fn staged_register(&self, staged: &mut Staged<'c>, register: u32) -> Result<BasicValueEnum<'c>, Error> {
        if let Some(&value) = staged.read.get(&register) {
            return Ok(value);
        }
        let side = &staged.side;
        let access = side.accesses.iter().position(|members| members.contains(&register));
        let access = access.ok_or_else(|| Error::Llvm("a register is not read back".to_owned()))?;
        let thread = self.thread_place(side)?;
        let at = self.shared_at(staged.start, self.place(thread, side, access)?, staged.scalar.bytes())?;
        let members = side.accesses[access].clone();
        let values = self.load_shared_here(members.len() as u32, at, staged.scalar)?;
        staged.read.extend(members.into_iter().zip(values));
        Ok(staged.read[&register])
    }

    /// a·b + c.
    fn on_tensor_cores(
        &mut self,
        mma: Mma,
        op: Op,
        home: &Layout,
        operands: [Operand<'c>; 2],
        sum: Sum<'_, 'c>,
    ) -> Result<Registers<'c>, Error> {
        match (operands, self.tensor, sum.onto) {
            ([Operand::Placed(a, a_place), Operand::Placed(b, b_place)], Some(tensor), _) => {
                self.in_tensor_memory(tensor, mma, home, [(a, a_place), (b, b_place)], sum)
            }
            ([Operand::Placed(a, a_place), Operand::Placed(b, b_place)], None, Onto::Registers(c)) => {
                self.by_groups(mma, home, [(a, a_place), (b, b_place)], c)
            }
            (operands, _, Onto::Registers(c)) => self.by_warps(mma, op, home, operands, c),
            (_, _, Onto::There) => Err(Error::Llvm("a sum is not in registers".to_owned())),
        }
    }

    /// a·b + c by `mma.sync`: all tiles of the sum at one step along k, then the next.
    fn by_warps(
        &self,
        mma: Mma,
        op: Op,
        home: &Layout,
        [mut a, mut b]: [Operand<'c>; 2],
        c: &[BasicValueEnum<'c>],
    ) -> Result<Registers<'c>, Error> {
        let packed = mma.packed as usize;
        let n = home.shape.dims()[1];
        let steps = (self.depth(op) / mma.depth()) as usize;
        let float: BasicTypeEnum = self.context.f32_type().into();
        let result: BasicTypeEnum = self.context.struct_type(&[float; 4], false).into();
        let depth = mma.depth();
        let text = format!(
            "mma.sync.aligned.m16n8k{depth}.row.col.f32.{name}.{name}.f32 {{ $0, $1, $2, $3 }}, {{ $4, $5, $6, $7 }}, \
             {{ $8, $9 }}, {{ $10, $11, $12, $13 }};",
            name = mma.name
        );
        let mut sum = c.to_vec();
        for step in 0..steps {
            let (mut rows, mut cols) = (HashMap::new(), HashMap::new());
            for tile in 0..c.len() / 4 {
                // The tile's bits are those of the sum's registers above the fragment's two.
                let row = picked(tile as u32, &home.reg[2..], |basis| basis / n != 0) as usize;
                let col = picked(tile as u32, &home.reg[2..], |basis| basis % n != 0) as usize;
                if let Entry::Vacant(free) = rows.entry(row) {
                    free.insert(self.words_of(&mut a, packed, 4 * (row * steps + step), 4)?);
                }
                if let Entry::Vacant(free) = cols.entry(col) {
                    free.insert(self.words_of(&mut b, packed, 2 * (col * steps + step), 2)?);
                }
                let part = &mut sum[4 * tile..4 * tile + 4];
                let args = [&rows[&row][..], &cols[&col][..], part].concat();
                let made = self.together(&text, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", result, &args, false)?;
                for (index, part) in part.iter_mut().enumerate() {
                    *part = self.builder.build_extract_value(made.into_struct_value(), index as u32, "")?;
                }
            }
        }
        Ok(sum)
    }

    /// Elements as registers of 32 bits.
    fn words(&self, elements: &[BasicValueEnum<'c>], packed: usize) -> Result<Registers<'c>, Error> {
        let word = self.context.i32_type();
        elements
            .chunks(packed)
            .map(|part| {
                let raw_type = self.bits_type(32 / packed as u32);
                let mut all = raw_type.vec_type(packed as u32).get_undef();
                for (index, &element) in part.iter().enumerate() {
                    let raw = self.builder.build_bit_cast(element, raw_type, "")?.into_int_value();
                    all = self.builder.build_insert_element(all, raw, self.int(index as u32), "")?;
                }
                Ok(self.builder.build_bit_cast(all, word, "")?)
            })
            .collect()
    }

    /// Singles in three products of TF32.
    fn in_three(
        &mut self,
        mma: Mma,
        op: Op,
        home: &Layout,
        [a, b]: [&Source<'c>; 2],
        c: &[BasicValueEnum<'c>],
    ) -> Result<Registers<'c>, Error> {
        let zero = self.context.f32_type().const_zero();
        let in_tensor_memory =
            matches!(self.layouts.product(op), Some(Product { engine: Engine::TensorMemory(_), .. }));
        // What goes through shared memory is put there anew for each product: both parts at once would not fit.
        let mut product = |parts: [Part; 2], sum: Sum<'_, 'c>| {
            let operands = self.operands([(a, parts[0]), (b, parts[1])])?;
            self.on_tensor_cores(mma, op, home, operands, sum)
        };
        let none = vec![zero.into(); c.len()];
        let first = Sum { stays: in_tensor_memory, ..Sum::of(&none) };
        let small = product([Part::Low, Part::High], first)?;
        let second = Sum { onto: if in_tensor_memory { Onto::There } else { Onto::Registers(&small) }, ..Sum::of(&[]) };
        let small = product([Part::High, Part::Low], second)?;
        let small = small
            .into_iter()
            .map(|value| {
                let value = value.into_float_value();
                let is_nan = self.builder.build_float_compare(FloatPredicate::UNO, value, value, "")?;
                Ok(self.builder.build_select(is_nan, zero, value, "")?)
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let operands = self.operands([(a, Part::High), (b, Part::High)])?;
        let all = self.on_tensor_cores(mma, op, home, operands, Sum::of(&small))?;
        all.into_iter()
            .zip(c)
            .map(|(value, &c)| {
                Ok(self.builder.build_float_add(value.into_float_value(), c.into_float_value(), "")?.into())
            })
            .collect()
    }

    /// Each single as the nearest TF32 (ties away from zero) and the rest.
    fn parts(&self, values: &[BasicValueEnum<'c>]) -> Result<(Registers<'c>, Registers<'c>), Error> {
        let (mut high, mut low) = (Registers::new(), Registers::new());
        for &value in values {
            let word = self.context.i32_type().into();
            let near = self.instruction("cvt.rna.tf32.f32 $0, $1;", "=r,f", word, &[value])?;
            let near = self.builder.build_bit_cast(near, self.context.f32_type(), "")?;
            let rest = self.builder.build_float_sub(value.into_float_value(), near.into_float_value(), "")?;
            high.push(near);
            low.push(rest.into());
        }
        Ok((high, low))
    }
}

/// The bits of `register` whose basis is among those that `belongs` names, side by side.
fn picked(register: u32, bases: &[u32], belongs: impl Fn(u32) -> bool) -> u32 {
    let bits = (0..bases.len()).filter(|&bit| belongs(bases[bit]));
    bits.enumerate().fold(0, |place, (to, from)| place | (register >> from & 1) << to)
}
