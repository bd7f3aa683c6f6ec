//! `tt.elementwise_inline_asm`: a text for so many elements at once, which it takes and gives in registers of 32 bits (or of the element's
//! own size where that is larger).

use inkwell::types::BasicTypeEnum;
use inkwell::values::BasicValueEnum;

use super::{Lowering, Registers};
use crate::compile::Error;
use crate::compile::placed::placed;
use crate::tile::{Op, OpKind};

impl<'c> Lowering<'_, 'c> {
    pub(super) fn inline_assembly(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        let OpKind::InlineAsm { asm, constraints, pure, packed } = &data.kind else {
            return Err(self.unsupported(op, "this form"));
        };
        let layout = placed(self.func, op, self.options).and_then(|placed| placed.result);
        let operands: Vec<Registers> = data
            .operands
            .iter()
            .map(|&value| match &layout {
                Some(layout) => self.registers(value, layout),
                None => Ok(vec![self.scalar(value)?]),
            })
            .collect::<Result<_, _>>()?;
        let mut results = Vec::new();
        for &result in &data.results {
            results.push((result, self.register_type(op, result)?, Registers::new()));
        }
        let count = layout.as_ref().map_or(1, |layout| layout.registers() as usize);
        let packed = *packed as usize;
        for first in (0..count).step_by(packed) {
            let mut args = Vec::new();
            for all in &operands {
                // A tile of fewer elements than one piece takes: the last is repeated.
                let part: Vec<_> = (first..first + packed).map(|at| all[at.min(count - 1)]).collect();
                args.extend(self.packs(&part)?);
            }
            let mut types: Vec<BasicTypeEnum> = Vec::new();
            for (_, ty, _) in &results {
                let per_word = self.per_word(*ty, packed);
                let word = if per_word == 1 { *ty } else { self.context.i32_type().into() };
                types.extend(vec![word; packed.div_ceil(per_word)]);
            }
            let whole = match types[..] {
                [one] => one,
                _ => self.context.struct_type(&types, false).into(),
            };
            let made = self.assembly(Some(whole), asm.clone(), constraints.clone(), &args, !pure)?;
            let made = made.ok_or_else(|| self.unsupported(op, "no result"))?;
            let mut words = Vec::new();
            for index in 0..types.len() {
                words.push(match made {
                    BasicValueEnum::StructValue(all) if types.len() > 1 => {
                        self.builder.build_extract_value(all, index as u32, "")?
                    }
                    one => one,
                });
            }
            let mut words = words.into_iter();
            for (_, ty, registers) in &mut results {
                let per_word = self.per_word(*ty, packed);
                let parts: Vec<_> = words.by_ref().take(packed.div_ceil(per_word)).collect();
                registers.extend(self.unpacks(&parts, *ty, per_word)?.into_iter().take(packed));
            }
        }
        for (result, _, mut registers) in results {
            registers.truncate(count);
            match layout {
                Some(_) => self.set_home(result, registers)?,
                None => self.set_scalar(result, registers[0]),
            }
        }
        Ok(())
    }

    /// Elements to a word, where `packed` are taken at once.
    fn per_word(&self, ty: BasicTypeEnum<'c>, packed: usize) -> usize {
        let bits = match ty {
            BasicTypeEnum::IntType(ty) => ty.get_bit_width().max(8) as usize,
            ty if ty == self.context.f64_type().into() => 64,
            ty if ty == self.context.f32_type().into() => 32,
            _ => 16,
        };
        (32 / bits).clamp(1, packed)
    }

    fn packs(&self, elements: &[BasicValueEnum<'c>]) -> Result<Registers<'c>, Error> {
        let per_word = self.per_word(elements[0].get_type(), elements.len());
        if per_word == 1 {
            return Ok(elements.to_vec());
        }
        let ty = self.bits_type(32 / per_word as u32);
        elements
            .chunks(per_word)
            .map(|part| {
                let mut all = ty.vec_type(per_word as u32).get_undef();
                for (index, &element) in part.iter().enumerate() {
                    let raw = self.builder.build_bit_cast(self.widened(element)?, ty, "")?.into_int_value();
                    all = self.builder.build_insert_element(all, raw, self.int(index as u32), "")?;
                }
                Ok(self.builder.build_bit_cast(all, self.context.i32_type(), "")?)
            })
            .collect()
    }

    fn unpacks(
        &self,
        words: &[BasicValueEnum<'c>],
        ty: BasicTypeEnum<'c>,
        per_word: usize,
    ) -> Result<Registers<'c>, Error> {
        if per_word == 1 {
            return Ok(words.to_vec());
        }
        let raw = self.bits_type(32 / per_word as u32);
        let mut made = Registers::new();
        for &word in words {
            let all = self.builder.build_bit_cast(word, raw.vec_type(per_word as u32), "")?.into_vector_value();
            for index in 0..per_word as u32 {
                let part = self.builder.build_extract_element(all, self.int(index), "")?;
                made.push(match ty {
                    BasicTypeEnum::IntType(ty) if ty.get_bit_width() == 1 => {
                        self.builder.build_int_truncate(part.into_int_value(), ty, "")?.into()
                    }
                    ty => self.builder.build_bit_cast(part, ty, "")?,
                });
            }
        }
        Ok(made)
    }
}
