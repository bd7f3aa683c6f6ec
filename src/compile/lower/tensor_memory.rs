//! Products in tensor memory: `tcgen05.mma`, both operands in shared memory (PTX ISA, "Tensorcore 5th generation family instructions").
//!
//! The kernel takes its columns of tensor memory when it begins, one warp for all, and gives them back before every return. One
//! thread orders a product and has its end told to an mbarrier, which all threads wait for; they then read their part of the sum.
//! Products come one after the other, so they share one mbarrier and, but for sums that stay there, the columns.
//!
//! The parity that is waited for lies in a variable of the thread: control flow is the same in all of them, and LLVM makes a
//! register of it.

use std::fmt::Write;

use inkwell::IntPredicate;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

use super::group::is_zero;
use super::{Lowering, Registers};
use crate::compile::Error;
use crate::compile::layout::{Layout, Major, Swizzled};
use crate::compile::tensor::{Mma, block_rows, scale_columns};
use crate::tile::Value;

/// Columns of an allocation at least.
const LEAST_COLUMNS: u32 = 32;
/// Registers of one move at most.
const MOVED: usize = 128;

/// What a kernel has of tensor memory.
#[derive(Clone, Copy)]
pub(super) struct TensorMemory<'c> {
    /// The address of its first column.
    first: IntValue<'c>,
    /// Columns: a power of two.
    columns: u32,
    /// The address in shared memory of the mbarrier that products complete on.
    barrier: IntValue<'c>,
    /// Where the parity of the mbarrier's phase is.
    parity: PointerValue<'c>,
}

/// What a product in tensor memory adds to, and where.
#[derive(Clone, Copy)]
pub(super) struct Sum<'a, 'c> {
    pub(super) onto: Onto<'a, 'c>,
    /// The first of its columns.
    pub(super) column: u32,
    /// Whether nobody reads it before the next product.
    pub(super) stays: bool,
    /// The scales of its operands, where they have them.
    pub(super) scales: Option<&'a Scales<'c>>,
}

/// Scales of a and of b.
pub(super) struct Scales<'c> {
    /// The first of their columns: a's for every four groups of k, then b's.
    pub(super) column: u32,
    /// For every four groups of k, a word for each 32 rows.
    pub(super) words: [Vec<Registers<'c>>; 2],
}

impl Scales<'_> {
    /// Where those of a (b) for the groups from `k` on are, from the first of their columns.
    fn column_of(&self, [m, n]: [u32; 2], right: bool, k: u32) -> u32 {
        let (a, b) = (scale_columns(m), scale_columns(n));
        if right { self.words[0].len() as u32 * a + k / 128 * b } else { k / 128 * a }
    }
}

impl<'a, 'c> Sum<'a, 'c> {
    /// Onto `c`, for threads to read.
    pub(super) fn of(c: &'a [BasicValueEnum<'c>]) -> Self {
        Self { onto: Onto::Registers(c), column: 0, stays: false, scales: None }
    }
}

/// Where a sum is before the product.
#[derive(Clone, Copy)]
pub(super) enum Onto<'a, 'c> {
    Registers(&'a [BasicValueEnum<'c>]),
    /// In its columns: it stayed there.
    There,
}

/// The instruction descriptor of a product of `rows` by `columns` in singles (PTX ISA, "Instruction descriptor"). With scales bit 23
/// says that they are powers of two, and bits 4, 5, 29 and 30 which byte of a word is those of `k`.
fn instruction(mma: Mma, [a, b]: [&Swizzled; 2], [rows, columns]: [u32; 2], k: u32) -> u32 {
    let element = |name: &str| match name {
        "f16" | "e4m3" => 0,
        "bf16" | "e5m2" => 1,
        _ => 2,
    };
    let turned = |place: &Swizzled| u32::from(place.major == Major::Rows);
    let byte = k / 32 % 4;
    let own = if mma.scaled { 1 << 23 | byte << 4 | byte << 29 } else { 1 << 4 };
    let types = element(mma.name) << 7 | element(mma.right) << 10;
    own | types | turned(a) << 15 | turned(b) << 16 | columns >> 3 << 17 | rows >> 4 << 24
}

/// A run of columns that a thread moves to or from some of its registers.
struct Move {
    /// Its first register.
    register: usize,
    count: usize,
    column: u32,
}

/// How threads move a sum in `home`.
struct Moves {
    /// `32x32b.x` or `16x256b.x` with the count.
    shape: String,
    all: Vec<Move>,
}

impl Moves {
    fn of(home: &Layout) -> Self {
        let (m, n) = (home.shape.dims()[0], home.shape.dims()[1]);
        let rows = block_rows(m, n);
        let above: Vec<u32> = home.reg.iter().map(|&basis| basis / n / rows).filter(|&block| block != 0).collect();
        let blocks = 1_usize << above.len();
        let each = home.registers() as usize / blocks;
        let count = each.min(MOVED);
        // Of 64 rows a thread has two in each column.
        let per_column = if rows == 128 { 1 } else { 2 };
        let mut all = Vec::new();
        for block in 0..blocks {
            let number =
                above.iter().enumerate().fold(0, |row, (bit, &basis)| row | ((block as u32 >> bit & 1) * basis));
            for part in (0..each).step_by(count) {
                // A move of 16x256b takes eight columns with four registers of each of 32 lanes.
                let column = part as u32 / per_column;
                all.push(Move { register: block * each + part, count, column: number * n + column });
            }
        }
        let shape = if rows == 128 { format!("32x32b.x{count}") } else { format!("16x256b.x{}", count / 4) };
        Self { shape, all }
    }
}

impl<'c> Lowering<'_, 'c> {
    fn is_first_warp(&self) -> Result<IntValue<'c>, Error> {
        Ok(self.builder.build_int_compare(IntPredicate::EQ, self.warp, self.int(0), "")?)
    }

    /// Takes what the products need of tensor memory, and makes their mbarrier.
    pub(super) fn take_tensor_memory(&mut self) -> Result<(), Error> {
        let needed = self.layouts.tensor_columns();
        if needed == 0 {
            return Ok(());
        }
        let columns = needed.next_power_of_two().max(LEAST_COLUMNS);
        let (kept, offset) = self.scratch.keep(16);
        let barrier = self.shared_address(kept)?;
        let barrier = self.builder.build_int_add(barrier, self.int(offset), "")?;
        let place = self.builder.build_int_add(barrier, self.int(8), "")?;
        let parity = self.builder.build_alloca(self.context.i32_type(), "parity")?;
        self.builder.build_store(parity, self.int(0))?;

        let by_warp = self.is_first_warp()?;
        let text = format!(
            "@$0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [$1], {columns};\n\t\
             @$0 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
        );
        self.done_together(&text, "b,r", &[by_warp.into(), place.into()])?;
        let first_lane = self.builder.build_int_compare(IntPredicate::EQ, self.lane, self.int(0), "")?;
        let by_thread = self.builder.build_and(by_warp, first_lane, "")?;
        // The fence lets the tensor cores' arrivals, which are asynchronous, find the mbarrier (PTX ISA, "fence").
        let text = "@$0 mbarrier.init.shared::cta.b64 [$1], 1;\n\t@$0 fence.mbarrier_init.release.cluster;\n\t\
                    tcgen05.fence::before_thread_sync;";
        self.done_together(text, "b,r", &[by_thread.into(), barrier.into()])?;
        self.barrier()?;
        let text = "tcgen05.fence::after_thread_sync;\n\tld.shared.b32 $0, [$1];";
        let word: BasicTypeEnum = self.context.i32_type().into();
        let first = self.together(text, "=r,r,~{memory}", word, &[place.into()], true)?.into_int_value();
        self.tensor = Some(TensorMemory { first, columns, barrier, parity });
        Ok(())
    }

    /// Gives tensor memory back, before a return.
    pub(super) fn give_tensor_memory_back(&mut self) -> Result<(), Error> {
        let Some(TensorMemory { first, columns, .. }) = self.tensor else { return Ok(()) };
        // Other warps may still read there.
        self.barrier()?;
        let text = format!(
            "tcgen05.fence::after_thread_sync;\n\t@$0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 $1, {columns};"
        );
        self.done_together(&text, "b,r", &[self.is_first_warp()?.into(), first.into()])
    }

    /// The address of this thread's part of a sum in `home`, from its column 0 on: lanes in the upper half, columns in the lower.
    fn tensor_address(&self, tensor: TensorMemory<'c>, home: &Layout) -> Result<BasicValueEnum<'c>, Error> {
        let (m, n) = (home.shape.dims()[0], home.shape.dims()[1]);
        let rows = block_rows(m, n);
        let of_warp: Vec<u32> = home
            .warp
            .iter()
            .enumerate()
            .map(|(bit, &basis)| if bit < 2 { 32 << (16 + bit) } else { basis / n / rows * n + basis % n })
            .collect();
        Ok(self.builder.build_int_add(tensor.first, self.combined(self.warp, &of_warp)?, "")?.into())
    }

    /// Puts a sum into tensor memory.
    fn put_in_tensor_memory(
        &self,
        tensor: TensorMemory<'c>,
        home: &Layout,
        c: &[BasicValueEnum<'c>],
    ) -> Result<(), Error> {
        let at = self.tensor_address(tensor, home)?;
        let Moves { shape, all } = Moves::of(home);
        for Move { register, count, column } in all {
            let names: Vec<String> = (1..=count).map(|index| format!("${index}")).collect();
            let text = format!("tcgen05.st.sync.aligned.{shape}.b32 [$0 + {column}], {{{}}};", names.join(", "));
            let mut args = vec![at];
            args.extend(&c[register..register + count]);
            self.done_together(&text, &["r"].into_iter().chain(vec!["f"; count]).collect::<Vec<_>>().join(","), &args)?;
        }
        self.done_together("tcgen05.wait::st.sync.aligned;\n\ttcgen05.fence::before_thread_sync;", "", &[])
    }

    /// Reads a sum from tensor memory. What is read counts only after the wait: both are one text.
    fn get_from_tensor_memory(&self, tensor: TensorMemory<'c>, home: &Layout) -> Result<Registers<'c>, Error> {
        let at = self.tensor_address(tensor, home)?;
        let Moves { shape, all } = Moves::of(home);
        let float: BasicTypeEnum = self.context.f32_type().into();
        let mut made = Registers::new();
        for Move { register, count, column } in all {
            debug_assert_eq!(register, made.len());
            let names: Vec<String> = (0..count).map(|index| format!("${index}")).collect();
            let text = format!(
                "tcgen05.ld.sync.aligned.{shape}.b32 {{{}}}, [${count} + {column}];\n\ttcgen05.wait::ld.sync.aligned;\n\t\
                 tcgen05.fence::before_thread_sync;",
                names.join(", ")
            );
            let constraints = vec!["=f"; count].into_iter().chain(["r", "~{memory}"]).collect::<Vec<_>>().join(",");
            if count == 1 {
                made.push(self.together(&text, &constraints, float, &[at], true)?);
                continue;
            }
            let result: BasicTypeEnum = self.context.struct_type(&vec![float; count], false).into();
            let all = self.together(&text, &constraints, result, &[at], true)?.into_struct_value();
            for index in 0..count as u32 {
                made.push(self.builder.build_extract_value(all, index, "")?);
            }
        }
        Ok(made)
    }

    /// a·b onto `sum`, of operands that every thread has written and fenced, behind a barrier. Where the sum is to stay in tensor memory
    /// no thread reads it, and what is returned stands for it alone.
    pub(super) fn in_tensor_memory(
        &mut self,
        tensor: TensorMemory<'c>,
        mma: Mma,
        home: &Layout,
        operands: [(IntValue<'c>, Swizzled); 2],
        sum: Sum<'_, 'c>,
    ) -> Result<Registers<'c>, Error> {
        let is_new = match sum.onto {
            Onto::Registers(c) => is_zero(c),
            Onto::There => false,
        };
        let whole = tensor;
        let tensor = self.at_column(tensor, sum.column)?;
        let is_put = matches!(sum.onto, Onto::Registers(_)) && !is_new;
        if let Onto::Registers(c) = sum.onto
            && is_put
        {
            self.put_in_tensor_memory(tensor, home, c)?;
        }
        if let Some(scales) = sum.scales {
            self.put_scales(whole, home, scales)?;
        }
        // Operands that loads brought ahead come with no barrier of their own. A thread that has not seen the end of the product before
        // would take that of this one for it, and wait for ever.
        if is_put || sum.scales.is_some() || self.scratch.is_product_busy() {
            self.barrier()?;
        }
        self.order_product([whole, tensor], mma, home, operands, (is_new, sum.scales))?;
        self.wait_for_product(tensor)?;
        if sum.stays { Ok(Registers::new()) } else { self.get_from_tensor_memory(tensor, home) }
    }

    fn at_column(&self, tensor: TensorMemory<'c>, column: u32) -> Result<TensorMemory<'c>, Error> {
        Ok(TensorMemory { first: self.builder.build_int_add(tensor.first, self.int(column), "")?, ..tensor })
    }

    fn resident_place(&self, column: u32, value: Value) -> Result<(TensorMemory<'c>, Layout), Error> {
        let (Some(tensor), Some(home)) = (self.tensor, self.layouts.home(value)) else {
            return Err(Error::Llvm("a sum has no place in tensor memory".to_owned()));
        };
        Ok((self.at_column(tensor, column)?, home.clone()))
    }

    /// Before a loop: what it is to carry in tensor memory, from `column` on. A thread writes what it alone reads, and the first
    /// product comes after a barrier.
    pub(super) fn settle_in_tensor_memory(
        &self,
        column: u32,
        value: Value,
        registers: &[BasicValueEnum<'c>],
    ) -> Result<(), Error> {
        let (tensor, home) = self.resident_place(column, value)?;
        self.put_in_tensor_memory(tensor, &home, registers)
    }

    /// After a loop: what it carried.
    pub(super) fn fetch_from_tensor_memory(&self, column: u32, value: Value) -> Result<Registers<'c>, Error> {
        let (tensor, home) = self.resident_place(column, value)?;
        self.get_from_tensor_memory(tensor, &home)
    }

    /// Puts scales into tensor memory: each of the first four warps fills its quarter, all of them alike.
    fn put_scales(&mut self, tensor: TensorMemory<'c>, home: &Layout, scales: &Scales<'c>) -> Result<(), Error> {
        let extents = [home.shape.dims()[0], home.shape.dims()[1]];
        let mut of_warp = vec![32 << 16, 64 << 16];
        of_warp.resize(home.warp.len(), 0);
        let at = self.builder.build_int_add(tensor.first, self.combined(self.warp, &of_warp)?, "")?;
        let is_first = self.builder.build_int_compare(IntPredicate::ULT, self.warp, self.int(4), "")?;
        self.when((home.warp.len() > 2).then_some(is_first), |this| {
            for right in [false, true] {
                for (set, words) in scales.words[usize::from(right)].iter().enumerate() {
                    let column = scales.column + scales.column_of(extents, right, 128 * set as u32);
                    let count = words.len();
                    let names: Vec<String> = (1..=count).map(|index| format!("${index}")).collect();
                    let names = names.join(", ");
                    let text = format!("tcgen05.st.sync.aligned.32x32b.x{count}.b32 [$0 + {column}], {{{names}}};");
                    let mut args = vec![at.into()];
                    args.extend(words);
                    this.done_together(&text, &vec!["r"; count + 1].join(","), &args)?;
                }
            }
            this.done_together("tcgen05.wait::st.sync.aligned;\n\ttcgen05.fence::before_thread_sync;", "", &[])
        })
    }

    /// One thread orders the product: all blocks of the sum at one step along k, then the next.
    fn order_product(
        &mut self,
        [whole, tensor]: [TensorMemory<'c>; 2],
        mma: Mma,
        home: &Layout,
        [(a, a_place), (b, b_place)]: [(IntValue<'c>, Swizzled); 2],
        (is_new, scales): (bool, Option<&Scales<'c>>),
    ) -> Result<(), Error> {
        let (m, n) = (home.shape.dims()[0], home.shape.dims()[1]);
        let rows = block_rows(m, n);
        let kind = match (mma.packed, mma.scaled) {
            (1, _) => "tf32",
            (2, _) => "f16",
            (_, false) => "f8f6f4",
            (_, true) => "mxf8f6f4.block_scale.scale_vec::1X",
        };
        let instruction = |k: u32| instruction(mma, [&a_place, &b_place], [rows, n], k);
        let mut text = format!(
            "{{\n\t.reg .pred one, more;\n\t.reg .b64 a, b;\n\t.reg .b32 kind;\n\ttcgen05.fence::after_thread_sync;\n\t\
             elect.sync _|one, -1;\n\tmov.b32 kind, {};\n",
            instruction(0)
        );
        let mut adds = None;
        for k in (0..a_place.depth).step_by(mma.depth() as usize) {
            if scales.is_some() && k > 0 {
                let _ = writeln!(text, "\tmov.b32 kind, {};", instruction(k));
            }
            for row in (0..m).step_by(rows as usize) {
                let add = u32::from(k > 0 || !is_new);
                if adds.replace(add) != Some(add) {
                    let _ = writeln!(text, "\tsetp.ne.b32 more, {add}, 0;");
                }
                let (a_at, b_at) = (a_place.byte(row, k) >> 4, b_place.byte(0, k) >> 4);
                let of_scales = scales.map_or(String::new(), |scales| {
                    let [a, b] = [false, true].map(|right| scales.column + scales.column_of([m, n], right, k));
                    format!(" [$4 + {}], [$4 + {b}],", a + row / 32)
                });
                let _ = writeln!(
                    text,
                    "\tadd.s64 a, $1, {a_at};\n\tadd.s64 b, $2, {b_at};\n\t@one tcgen05.mma.cta_group::1.kind::{kind} \
                     [$0 + {}], a, b, kind,{of_scales} more;",
                    row / rows * n
                );
            }
        }
        text.push_str("\t@one tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [$3];\n\t}");
        let condition = self.is_first_warp()?;
        self.when(Some(condition), |this| {
            let mut args = vec![tensor.first.into()];
            for (start, place) in [(a, a_place), (b, b_place)] {
                args.push(this.with_address(this.shared_address(start)?, place.tcgen05_descriptor())?);
            }
            args.push(tensor.barrier.into());
            args.push(whole.first.into());
            this.done_together(&text, "r,l,l,r,r", &args)
        })
    }

    /// Every thread waits until the products that were ordered are made.
    fn wait_for_product(&mut self, tensor: TensorMemory<'c>) -> Result<(), Error> {
        let word = self.context.i32_type();
        let parity = self.builder.build_load(word, tensor.parity, "")?.into_int_value();
        let text = "{\n\t.reg .pred done;\nwait:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n\t@!done bra wait;\n\t}\n\t\
                    tcgen05.fence::after_thread_sync;";
        self.done_together(text, "r,r", &[tensor.barrier.into(), parity.into()])?;
        let next = self.builder.build_xor(parity, self.int(1), "")?;
        self.builder.build_store(tensor.parity, next)?;
        self.scratch.product_made();
        Ok(())
    }
}
