//! Products by groups of four warps: `wgmma`, both operands in shared memory (PTX ISA, "Asynchronous warpgroup level matrix
//! instructions").

use std::fmt::Write;

use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, IntValue};

use super::{Lowering, Registers};
use crate::compile::Error;
use crate::compile::layout::{Layout, Major, Swizzled};
use crate::compile::tensor::{GROUP_ROWS, Mma};

/// Whether a sum is 0 before the product, as a constant.
pub(super) fn is_zero(sum: &[BasicValueEnum<'_>]) -> bool {
    sum.iter().all(|value| match value {
        BasicValueEnum::FloatValue(value) => value.is_const() && value.is_null(),
        _ => false,
    })
}

impl<'c> Lowering<'_, 'c> {
    /// What this thread has written to shared memory, the tensor cores may read once it has passed a barrier.
    pub(super) fn seen_by_tensor_cores(&self) -> Result<(), Error> {
        let text = "fence.proxy.async.shared::cta;".to_owned();
        self.assembly(None, text, "~{memory}".to_owned(), &[], true).map(drop)
    }

    /// The descriptor of the operand from the byte `start` on, less what of it the bases of the sum's warps say (`of_group`, in bytes).
    fn placed_descriptor(
        &self,
        start: IntValue<'c>,
        place: &Swizzled,
        of_group: &[u32],
    ) -> Result<BasicValueEnum<'c>, Error> {
        let at = self.shared_address(start)?;
        let at = self.builder.build_int_add(at, self.combined(self.warp, of_group)?, "")?;
        self.with_address(at, place.wgmma_descriptor())
    }

    /// The address in shared memory of the byte `start` of what is dynamic.
    pub(super) fn shared_address(&self, start: IntValue<'c>) -> Result<IntValue<'c>, Error> {
        let base = self.scratch.memory.as_pointer_value();
        let base = self.builder.build_ptr_to_int(base, self.context.i32_type(), "")?;
        Ok(self.builder.build_int_add(base, start, "")?)
    }

    /// A matrix descriptor of what begins at the address `at` in shared memory.
    pub(super) fn with_address(&self, at: IntValue<'c>, bits: u64) -> Result<BasicValueEnum<'c>, Error> {
        let at = self.builder.build_and(at, self.int(0x3fff << 4), "")?;
        let at = self.builder.build_right_shift(at, self.int(4), false, "")?;
        let wide = self.context.i64_type();
        let at = self.builder.build_int_z_extend(at, wide, "")?;
        Ok(self.builder.build_or(at, wide.const_int(bits, false), "")?.into())
    }

    /// a·b + c: 64 rows of the sum at one step along k, then the next 64, then the next step. All of it is one text: nothing
    /// may touch the sum's registers while it is made.
    pub(super) fn by_groups(
        &self,
        mma: Mma,
        home: &Layout,
        [(a, a_place), (b, b_place)]: [(IntValue<'c>, Swizzled); 2],
        c: &[BasicValueEnum<'c>],
    ) -> Result<Registers<'c>, Error> {
        let n = home.shape.dims()[1];
        let (rows, cols) = (|basis: u32| basis / n, |basis: u32| basis % n);
        // Within a group each warp finds its 16 rows itself.
        let of_group = |of: &dyn Fn(u32) -> u32| {
            home.warp.iter().enumerate().map(|(bit, &basis)| if bit < 2 { 0 } else { of(basis) }).collect::<Vec<_>>()
        };
        let descriptors = [
            self.placed_descriptor(a, &a_place, &of_group(&|basis| a_place.byte(rows(basis), 0)))?,
            self.placed_descriptor(b, &b_place, &of_group(&|basis| b_place.byte(cols(basis), 0)))?,
        ];
        let above: Vec<u32> = home.reg[2..].iter().map(|&basis| rows(basis)).filter(|&row| row != 0).collect();
        let blocks = 1_usize << above.len();
        let each = c.len() / blocks;
        let columns = 2 * each;
        let is_new = is_zero(c);
        let first = c.len();
        let (depth, name) = (mma.depth(), mma.name);
        // Operands of 16 bits may lie either way.
        let turned = |place: &Swizzled| u32::from(place.major == Major::Rows);
        let turns =
            if mma.packed == 2 { format!(", {}, {}", turned(&a_place), turned(&b_place)) } else { String::new() };
        let mut text = String::from("{\n\t.reg .b64 a, b;\n\twgmma.fence.sync.aligned;\n");
        for k in (0..a_place.depth).step_by(depth as usize) {
            for block in 0..blocks {
                let row =
                    above.iter().enumerate().fold(0, |row, (bit, &basis)| row + (block as u32 >> bit & 1) * basis);
                debug_assert_eq!(row % GROUP_ROWS, 0);
                let sums: Vec<String> = (block * each..(block + 1) * each).map(|at| format!("${at}")).collect();
                let (a_at, b_at) = (a_place.byte(row, k) >> 4, b_place.byte(0, k) >> 4);
                let add = u32::from(k > 0 || !is_new);
                let _ = write!(
                    text,
                    "\tadd.s64 a, ${first}, {a_at};\n\tadd.s64 b, ${}, {b_at};\n\twgmma.mma_async.sync.aligned.m64n{columns}k{depth}\
                     .f32.{name}.{name} {{{}}}, a, b, {add}, 1, 1{turns};\n",
                    first + 1,
                    sums.join(", "),
                );
            }
        }
        text.push_str("\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n\t}");
        let float: BasicTypeEnum = self.context.f32_type().into();
        let result: BasicTypeEnum = self.context.struct_type(&vec![float; c.len()], false).into();
        let mut constraints = vec!["=f".to_owned(); c.len()];
        constraints.extend(["l".to_owned(), "l".to_owned()]);
        let mut args = descriptors.to_vec();
        if !is_new {
            constraints.extend((0..c.len()).map(|at| at.to_string()));
            args.extend(c);
        }
        constraints.push("~{memory}".to_owned());
        let made = self.together(&text, &constraints.join(","), result, &args, true)?.into_struct_value();
        (0..c.len()).map(|at| Ok(self.builder.build_extract_value(made, at as u32, "")?)).collect()
    }
}
