//! Loads and stores in global memory: runs of registers that are runs in memory, as words, under a predicate.

use inkwell::InlineAsmDialect;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::types::{BasicMetadataTypeEnum, BasicTypeEnum, IntType};
use inkwell::values::{BasicMetadataValueEnum, BasicValue, BasicValueEnum, CallSiteValue, IntValue, PointerValue};

use super::{Lowering, Registers};
use crate::compile::Error;
use crate::compile::axis::AxisInfo;
use crate::compile::layout::Layout;
use crate::ptx::Arch;
use crate::tile::{CacheModifier, CachePolicy, Elem, EvictionPolicy, Func, Op, OpKind, Scalar, Value};

/// How many elements along `axis` from an aligned place of the tile of addresses `pointer` one access may take: 16 bytes at
/// most, and no more than contiguity and alignment promise.
pub(in crate::compile) fn run_of(func: &Func, axes: &AxisInfo, pointer: Value, axis: usize) -> u32 {
    let facts = axes.get(func, pointer);
    let bytes = func.ty(pointer).elem().and_then(Elem::pointee).map_or(1, Scalar::bytes);
    facts.contiguity[axis].min(facts.divisibility[axis] / bytes).min(16 / bytes).max(1)
}

/// How many registers of `layout` from an aligned one on, one access may take at the tile of addresses `pointer` under `mask`.
pub(in crate::compile) fn run_in(
    func: &Func,
    axes: &AxisInfo,
    layout: &Layout,
    pointer: Value,
    mask: Option<Value>,
) -> u32 {
    let shifts = Layout::shifts(layout.shape);
    let axis = (0..layout.shape.rank())
        .find(|&axis| layout.reg.first() == Some(&(1 << shifts[axis])))
        .unwrap_or(layout.shape.rank() - 1);
    let held = (0..layout.reg.len()).take_while(|&bit| layout.reg[bit] == 1 << (shifts[axis] + bit as u32)).count();
    let held = (1_u32 << held).min(layout.shape.dims()[axis]);
    let masked = mask.map_or(u32::MAX, |mask| match func.ty(mask).shape() {
        Some(_) => axes.get(func, mask).constancy[axis],
        None => u32::MAX,
    });
    run_of(func, axes, pointer, axis).min(held).min(masked)
}

/// One access: `count` words of `bits`.
#[derive(Clone, Copy)]
struct Words {
    count: u32,
    bits: u32,
}

impl Words {
    fn of(bytes: u32) -> Self {
        match bytes {
            1 | 2 => Self { count: 1, bits: 8 * bytes },
            bytes => Self { count: bytes / 4, bits: 32 },
        }
    }

    fn suffix(self) -> String {
        match self.count {
            1 => format!(".b{}", self.bits),
            count => format!(".v{count}.b{}", self.bits),
        }
    }

    /// The letter of LLVM's constraint for a word. A byte goes in a register of 16 bits.
    fn letter(self) -> char {
        if self.bits == 32 { 'r' } else { 'h' }
    }

    /// `{$a, $b}` or `$a`, from operand `first`.
    fn list(self, first: u32) -> String {
        let names: Vec<String> = (first..first + self.count).map(|index| format!("${index}")).collect();
        if self.count == 1 { names.concat() } else { format!("{{ {} }}", names.join(", ")) }
    }
}

fn modifiers(cache: &CachePolicy, load: bool) -> String {
    let mut text = String::new();
    if load && cache.volatile {
        return ".volatile".to_owned();
    }
    if cache.modifier != CacheModifier::None {
        text.push('.');
        text.push_str(cache.modifier.name());
    }
    match cache.eviction {
        EvictionPolicy::Normal => {}
        EvictionPolicy::First => text.push_str(".L1::evict_first"),
        EvictionPolicy::Last => text.push_str(".L1::evict_last"),
    }
    text
}

impl<'c> Lowering<'_, 'c> {
    fn word_type(&self, words: Words) -> IntType<'c> {
        if words.bits == 32 { self.context.i32_type() } else { self.context.i16_type() }
    }

    /// The axis along which registers run in memory, and how many of them one access takes in `layout`.
    pub(super) fn run_in(&self, layout: &Layout, pointer: Value, mask: Option<Value>) -> u32 {
        run_in(self.func, self.axes, layout, pointer, mask)
    }

    pub(super) fn assembly(
        &self,
        result: Option<BasicTypeEnum<'c>>,
        text: String,
        constraints: String,
        args: &[BasicValueEnum<'c>],
        effects: bool,
    ) -> Result<Option<BasicValueEnum<'c>>, Error> {
        Ok(self.assembly_call(result, text, constraints, args, effects)?.try_as_basic_value().basic())
    }

    fn assembly_call(
        &self,
        result: Option<BasicTypeEnum<'c>>,
        text: String,
        constraints: String,
        args: &[BasicValueEnum<'c>],
        effects: bool,
    ) -> Result<CallSiteValue<'c>, Error> {
        use inkwell::types::BasicType;
        let types: Vec<BasicMetadataTypeEnum> = args.iter().map(|arg| arg.get_type().into()).collect();
        let ty = match result {
            Some(result) => result.fn_type(&types, false),
            None => self.context.void_type().fn_type(&types, false),
        };
        let pointer =
            self.context.create_inline_asm(ty, text, constraints, effects, false, None::<InlineAsmDialect>, false);
        let args: Vec<BasicMetadataValueEnum> = args.iter().map(|&arg| arg.into()).collect();
        Ok(self.builder.build_indirect_call(ty, pointer, &args, "")?)
    }

    /// Text that the threads of a warp run together: the optimiser must not put it where only some of them come.
    pub(super) fn together(
        &self,
        text: &str,
        constraints: &str,
        result: BasicTypeEnum<'c>,
        args: &[BasicValueEnum<'c>],
        effects: bool,
    ) -> Result<BasicValueEnum<'c>, Error> {
        let call = self.assembly_call(Some(result), text.to_owned(), constraints.to_owned(), args, effects)?;
        self.keep_together(call);
        let made = call.try_as_basic_value().basic();
        made.ok_or_else(|| Error::Llvm(format!("`{text}` has no result")))
    }

    /// The same of text that has effects on memory and no result.
    pub(super) fn done_together(
        &self,
        text: &str,
        constraints: &str,
        args: &[BasicValueEnum<'c>],
    ) -> Result<(), Error> {
        let constraints = [constraints, "~{memory}"].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        self.keep_together(self.assembly_call(None, text.to_owned(), constraints.join(","), args, true)?);
        Ok(())
    }

    fn keep_together(&self, call: CallSiteValue<'c>) {
        let convergent = Attribute::get_named_enum_kind_id("convergent");
        call.add_attribute(AttributeLoc::Function, self.context.create_enum_attribute(convergent, 0));
    }

    /// An instruction without effects of one result, as text: `$0` is the result.
    pub(super) fn instruction(
        &self,
        text: &str,
        constraints: &str,
        result: BasicTypeEnum<'c>,
        args: &[BasicValueEnum<'c>],
    ) -> Result<BasicValueEnum<'c>, Error> {
        let made = self.assembly(Some(result), text.to_owned(), constraints.to_owned(), args, false)?;
        made.ok_or_else(|| Error::Llvm(format!("`{text}` has no result")))
    }

    /// The bits of a run of elements, as words.
    fn pack(
        &self,
        elements: &[BasicValueEnum<'c>],
        scalar: Scalar,
        words: Words,
    ) -> Result<Vec<BasicValueEnum<'c>>, Error> {
        let bits = 8 * scalar.bytes();
        let whole = self.bits_type(bits);
        let mut raw: Vec<IntValue> = Vec::new();
        for element in elements {
            let value = match element {
                BasicValueEnum::IntValue(value) => *value,
                other => self.builder.build_bit_cast(*other, whole, "")?.into_int_value(),
            };
            // A truth value takes a byte.
            raw.push(if scalar == Scalar::I1 { self.builder.build_int_z_extend(value, whole, "")? } else { value });
        }
        let word = self.bits_type(words.bits);
        let mut made = Vec::new();
        for group in raw.chunks(self.group(bits, words).0) {
            made.extend(self.recut(group, word, |part| match words.bits {
                8 => Ok(self.builder.build_int_z_extend(part, self.context.i16_type(), "")?.into()),
                _ => Ok(part.into()),
            })?);
        }
        Ok(made)
    }

    /// How many elements of `bits` and how many words are recut at once: all; for Blackwell those whose bits are in common, elements of a word or words of
    /// an element. LLVM has vectors of two words there, and takes a high word for that of a vector whose low word nothing defines.
    fn group(&self, bits: u32, words: Words) -> (usize, usize) {
        let all = match self.options.arch {
            Arch::Sm100a => bits.max(words.bits),
            _ => words.count * words.bits,
        };
        ((all / bits) as usize, (all / words.bits) as usize)
    }

    /// The bits of integers of one size as integers of another, as many as it takes, and what `each` makes of those.
    fn recut(
        &self,
        from: &[IntValue<'c>],
        to: IntType<'c>,
        each: impl Fn(IntValue<'c>) -> Result<BasicValueEnum<'c>, Error>,
    ) -> Result<Registers<'c>, Error> {
        let own = from[0].get_type();
        // As for `group`.
        if self.options.arch == Arch::Sm100a
            && let [low, high] = from
            && own.get_bit_width() == 32
        {
            let both = [BasicValueEnum::from(*low), (*high).into()];
            let whole = self.instruction("mov.b64 $0, {$1, $2};", "=l,r,r", to.into(), &both)?;
            return Ok(vec![each(whole.into_int_value())?]);
        }
        let mut all = own.vec_type(from.len() as u32).get_undef();
        for (index, &part) in from.iter().enumerate() {
            all = self.builder.build_insert_element(all, part, self.int(index as u32), "")?;
        }
        let count = from.len() as u32 * own.get_bit_width() / to.get_bit_width();
        let cast = self.builder.build_bit_cast(all, to.vec_type(count), "")?.into_vector_value();
        (0..count)
            .map(|index| each(self.builder.build_extract_element(cast, self.int(index), "")?.into_int_value()))
            .collect()
    }

    /// The elements in the bits of words.
    fn unpack(&self, parts: &[IntValue<'c>], scalar: Scalar, words: Words) -> Result<Registers<'c>, Error> {
        let word = self.bits_type(words.bits);
        let raw = self.bits_type(8 * scalar.bytes());
        let mut made = Vec::new();
        for group in parts.chunks(self.group(8 * scalar.bytes(), words).1) {
            let group = group.iter().map(|&part| match words.bits {
                8 => self.builder.build_int_truncate(part, word, ""),
                _ => Ok(part),
            });
            let group = group.collect::<Result<Vec<_>, _>>()?;
            made.extend(self.recut(&group, raw, |value| {
                Ok(match scalar {
                    Scalar::I1 => self.builder.build_int_truncate(value, self.context.bool_type(), "")?.into(),
                    scalar if scalar.is_int() || scalar.bits() == 8 => value.into(),
                    scalar => self.builder.build_bit_cast(value, super::number(self.context, scalar), "")?,
                })
            })?);
        }
        Ok(made)
    }

    pub(super) fn bits_type(&self, bits: u32) -> IntType<'c> {
        match bits {
            1 => self.context.bool_type(),
            8 => self.context.i8_type(),
            16 => self.context.i16_type(),
            32 => self.context.i32_type(),
            _ => self.context.i64_type(),
        }
    }

    /// One load of `count` elements at `address`; `other` where `mask` is false.
    fn load_run(
        &self,
        address: BasicValueEnum<'c>,
        scalar: Scalar,
        count: u32,
        mask: Option<BasicValueEnum<'c>>,
        other: Option<&[BasicValueEnum<'c>]>,
        cache: &CachePolicy,
    ) -> Result<Registers<'c>, Error> {
        let words = Words::of(count * scalar.bytes());
        let word = self.word_type(words);
        let letter = words.letter();
        let defaults = match (mask, other) {
            (Some(_), Some(other)) => self.pack(other, scalar, words)?,
            // Without `other` any value will do; zero keeps runs the same from one time to the next.
            (Some(_), None) => vec![word.const_zero().into(); words.count as usize],
            (None, _) => Vec::new(),
        };
        let suffix = words.suffix();
        let moves = if words.bits == 32 { "mov.b32" } else { "mov.b16" };
        let mut text = String::new();
        for index in 0..defaults.len() as u32 {
            text.push_str(&format!("{moves} ${index}, ${};\n", words.count + 2 + index));
        }
        let guard = if mask.is_some() { format!("@${} ", words.count + 1) } else { String::new() };
        let list = words.list(0);
        let cache = modifiers(cache, true);
        let global = if cache == ".volatile" { ".volatile.global".to_owned() } else { format!(".global{cache}") };
        text.push_str(&format!("{guard}ld{global}{suffix} {list}, [${} + 0];", words.count));
        // Early clobber: the defaults are moved in before the address is used.
        let mut constraints: Vec<String> = (0..words.count).map(|_| format!("=&{letter}")).collect();
        constraints.push("l".to_owned());
        let mut args = vec![address];
        if let Some(mask) = mask {
            constraints.push("b".to_owned());
            args.push(mask);
            for default in defaults {
                constraints.push(letter.to_string());
                args.push(default);
            }
        }
        let result: BasicTypeEnum = if words.count == 1 {
            word.into()
        } else {
            self.context.struct_type(&vec![word.into(); words.count as usize], false).into()
        };
        let made = self
            .assembly(Some(result), text, constraints.join(","), &args, true)?
            .ok_or_else(|| Error::Llvm("a load has no result".to_owned()))?;
        let parts = if words.count == 1 {
            vec![made.into_int_value()]
        } else {
            (0..words.count)
                .map(|index| {
                    Ok(self.builder.build_extract_value(made.into_struct_value(), index, "")?.into_int_value())
                })
                .collect::<Result<Vec<_>, Error>>()?
        };
        self.unpack(&parts, scalar, words)
    }

    pub(super) fn load(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        let OpKind::Load { cache, .. } = &data.kind else { return Err(self.unsupported(op, "this form")) };
        let (result, pointer) = (data.results[0], data.operands[0]);
        let Some(scalar) = self.func.ty(pointer).elem().and_then(Elem::pointee) else {
            return Err(self.unsupported(op, self.func.ty(pointer).to_string()));
        };
        let (mask, other) = (data.operands.get(1).copied(), data.operands.get(2).copied());
        if self.func.ty(result).shape().is_none() {
            let address = self.scalar(pointer)?;
            let mask = mask.map(|mask| self.scalar(mask)).transpose()?;
            let other = other.map(|other| self.scalar(other)).transpose()?;
            let other = other.as_ref().map(std::slice::from_ref);
            let made = self.load_run(address, scalar, 1, mask, other, cache)?;
            self.set_scalar(result, made[0]);
            return Ok(());
        }
        let Some(home) = self.layouts.wanted(result).first().cloned() else { return Ok(()) };
        let run = self.run_in(&home, pointer, mask);
        let addresses = self.registers(pointer, &home)?;
        let masks = mask.map(|mask| self.registers(mask, &home)).transpose()?;
        let others = other.map(|other| self.registers(other, &home)).transpose()?;
        let mut made = Registers::new();
        for first in (0..home.registers() as usize).step_by(run as usize) {
            let mask = masks.as_ref().map(|masks| masks[first]);
            let other = others.as_ref().map(|others| &others[first..first + run as usize]);
            made.extend(self.load_run(addresses[first], scalar, run, mask, other, cache)?);
        }
        self.set_home(result, made)
    }

    /// Whether this thread is the one that stores what `layout` has several threads hold; `None` where none is held twice.
    pub(super) fn owns(&self, layout: &Layout) -> Result<Option<IntValue<'c>>, Error> {
        let (lanes, warps) = layout.repeated();
        self.owner(lanes, warps)
    }

    /// Whether none of these bits of the lane and of the warp is set.
    pub(super) fn owner(&self, lanes: u32, warps: u32) -> Result<Option<IntValue<'c>>, Error> {
        let mut owns = None;
        for (place, mask) in [(self.lane, lanes), (self.warp, warps)] {
            if mask != 0 {
                let bits = self.builder.build_and(place, self.int(mask), "")?;
                let zero = self.builder.build_int_compare(inkwell::IntPredicate::EQ, bits, self.int(0), "")?;
                owns = Some(match owns {
                    None => zero,
                    Some(other) => self.builder.build_and(other, zero, "")?,
                });
            }
        }
        Ok(owns)
    }

    /// Neighbours in shared memory from one access.
    pub(super) fn load_shared(&self, count: u32, at: PointerValue<'c>, scalar: Scalar) -> Result<Registers<'c>, Error> {
        let words = Words::of(count * scalar.bytes());
        let word = self.bits_type(words.bits);
        if words.count == 1 {
            let part = self.builder.build_load(word, at, "")?.into_int_value();
            // A byte goes as a word of 16 bits.
            let part = if words.bits == 8 {
                self.builder.build_int_z_extend(part, self.context.i16_type(), "")?
            } else {
                part
            };
            return self.unpack(&[part], scalar, words);
        }
        let all = self.builder.build_load(word.vec_type(words.count), at, "")?;
        if let Some(load) = all.as_instruction_value() {
            load.set_alignment(words.count * words.bits / 8).map_err(|error| Error::Llvm(error.to_string()))?;
        }
        let parts = (0..words.count)
            .map(|index| {
                Ok(self.builder.build_extract_element(all.into_vector_value(), self.int(index), "")?.into_int_value())
            })
            .collect::<Result<Vec<_>, Error>>()?;
        self.unpack(&parts, scalar, words)
    }

    /// [`Lowering::load_shared`] at this place in the program, for what is to be read step by step.
    pub(super) fn load_shared_here(
        &self,
        count: u32,
        at: PointerValue<'c>,
        scalar: Scalar,
    ) -> Result<Registers<'c>, Error> {
        let words = Words::of(count * scalar.bytes());
        let word = self.word_type(words);
        let address = self.builder.build_ptr_to_int(at, self.context.i64_type(), "")?;
        let text = format!("ld.shared{} {}, [${}];", words.suffix(), words.list(0), words.count);
        let mut constraints = vec![format!("={}", words.letter()); words.count as usize];
        constraints.push("l".to_owned());
        let result: BasicTypeEnum = match words.count {
            1 => word.into(),
            count => self.context.struct_type(&vec![word.into(); count as usize], false).into(),
        };
        let made = self
            .assembly(Some(result), text, constraints.join(","), &[address.into()], true)?
            .ok_or_else(|| Error::Llvm("a load has no result".to_owned()))?;
        let parts = match made {
            BasicValueEnum::StructValue(all) => (0..words.count)
                .map(|index| Ok(self.builder.build_extract_value(all, index, "")?.into_int_value()))
                .collect::<Result<Vec<_>, Error>>()?,
            one => vec![one.into_int_value()],
        };
        self.unpack(&parts, scalar, words)
    }

    /// Neighbours to shared memory in one access.
    pub(super) fn store_shared(
        &self,
        values: &[BasicValueEnum<'c>],
        at: PointerValue<'c>,
        scalar: Scalar,
    ) -> Result<(), Error> {
        let words = Words::of(values.len() as u32 * scalar.bytes());
        let parts = self.pack(values, scalar, words)?;
        if let [part] = parts[..] {
            let part = match words.bits {
                8 => self.builder.build_int_truncate(part.into_int_value(), self.context.i8_type(), "")?.into(),
                _ => part,
            };
            self.builder.build_store(at, part)?;
            return Ok(());
        }
        let mut all = self.bits_type(words.bits).vec_type(words.count).get_undef();
        for (index, part) in parts.into_iter().enumerate() {
            all = self.builder.build_insert_element(all, part.into_int_value(), self.int(index as u32), "")?;
        }
        let store = self.builder.build_store(at, all)?;
        store.set_alignment(words.count * words.bits / 8).map_err(|error| Error::Llvm(error.to_string()))?;
        Ok(())
    }

    fn store_run(
        &self,
        address: BasicValueEnum<'c>,
        values: &[BasicValueEnum<'c>],
        scalar: Scalar,
        guard: Option<IntValue<'c>>,
        cache: &CachePolicy,
    ) -> Result<(), Error> {
        let words = Words::of(values.len() as u32 * scalar.bytes());
        let parts = self.pack(values, scalar, words)?;
        let at = words.count;
        let predicate = if guard.is_some() { format!("@${} ", at + 1) } else { String::new() };
        let text = format!(
            "{predicate}st.global{}{} [${at} + 0], {};",
            modifiers(cache, false),
            words.suffix(),
            words.list(0)
        );
        let mut constraints = vec![words.letter().to_string(); words.count as usize];
        constraints.push("l".to_owned());
        let mut args = parts;
        args.push(address);
        if let Some(guard) = guard {
            constraints.push("b".to_owned());
            args.push(guard.into());
        }
        self.assembly(None, text, constraints.join(","), &args, true)?;
        Ok(())
    }

    /// Both conditions, where they are there.
    pub(super) fn both(
        &self,
        guard: Option<IntValue<'c>>,
        mask: Option<IntValue<'c>>,
    ) -> Result<Option<IntValue<'c>>, Error> {
        Ok(match (guard, mask) {
            (Some(a), Some(b)) => Some(self.builder.build_and(a, b, "")?),
            (one, other) => one.or(other),
        })
    }

    /// Whether this is thread 0.
    pub(super) fn is_first(&self) -> Result<IntValue<'c>, Error> {
        let thread = self.builder.build_or(self.lane, self.warp, "")?;
        Ok(self.builder.build_int_compare(inkwell::IntPredicate::EQ, thread, self.int(0), "")?)
    }

    pub(super) fn store(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        let OpKind::Store { cache, .. } = &data.kind else { return Err(self.unsupported(op, "this form")) };
        let (pointer, value, mask) = (data.operands[0], data.operands[1], data.operands.get(2).copied());
        let Some(scalar) = self.func.ty(pointer).elem().and_then(Elem::pointee) else {
            return Err(self.unsupported(op, self.func.ty(pointer).to_string()));
        };
        if self.func.ty(value).shape().is_none() {
            let first = self.is_first()?;
            let mask = mask.map(|mask| self.scalar(mask)).transpose()?.map(BasicValueEnum::into_int_value);
            let guard = self.both(Some(first), mask)?;
            return self.store_run(self.scalar(pointer)?, &[self.scalar(value)?], scalar, guard, cache);
        }
        let Some(layout) = self.layouts.stored(op) else { return Err(self.unsupported(op, "this form")) };
        let layout = layout.clone();
        let run = self.run_in(&layout, pointer, mask) as usize;
        let addresses = self.registers(pointer, &layout)?;
        let values = self.registers(value, &layout)?;
        let masks = mask.map(|mask| self.registers(mask, &layout)).transpose()?;
        let owns = self.owns(&layout)?;
        for first in (0..values.len()).step_by(run) {
            let guard = self.both(owns, masks.as_ref().map(|masks| masks[first].into_int_value()))?;
            self.store_run(addresses[first], &values[first..first + run], scalar, guard, cache)?;
        }
        Ok(())
    }
}
