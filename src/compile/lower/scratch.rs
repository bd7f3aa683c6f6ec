//! Shared memory that tiles pass through on their way to other threads: a part of each warp alone, and one of the program.
//!
//! What is kept all the while ([`Scratch::kept`]) comes after both.
//!
//! How much each needs is known when all is lowered: until then calls of functions that nothing defines stand for the sizes.

use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::values::{BasicValue, CallSiteValue, GlobalValue, IntValue};
use inkwell::{AddressSpace, builder::Builder};

use crate::compile::Error;
use crate::compile::layout::Swizzled;

/// What the program's part may grow to before a barrier is the better way to have room.
const ROOM: u32 = 16 * 1024;
/// What buffers of loops begin at a multiple of: what swizzled operands need.
pub(super) const BUFFER_ALIGN: u32 = Swizzled::ALIGN;
/// Where an exchange's memory begins.
pub(super) const ALIGN: u32 = 16;

/// What other threads may still be at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Busy {
    /// What of the program's part they may be reading.
    read: Vec<(u32, u32)>,
    /// Whether they may be waiting for a product in tensor memory, or reading it: the next may not be ordered.
    product: bool,
}

impl Busy {
    /// All of it.
    fn all() -> Self {
        Self { read: vec![(0, u32::MAX)], product: true }
    }

    /// What either says.
    pub(super) fn or(&self, other: &Self) -> Self {
        let read = self.read.iter().chain(&other.read).copied().collect();
        Self { read, product: self.product || other.product }
    }
}

/// The dynamic shared memory of a kernel.
pub(super) struct Scratch<'c> {
    pub(super) memory: GlobalValue<'c>,
    /// The first byte of the program's part.
    pub(super) program: IntValue<'c>,
    /// The bytes of each warp's part.
    warp: IntValue<'c>,
    /// The first byte that is kept.
    kept: IntValue<'c>,
    kept_bytes: u32,
    busy: Busy,
    /// What is taken and not yet behind a barrier.
    writing: Vec<(u32, u32)>,
    /// How often memory was taken, or a product made in tensor memory.
    pub(super) taken: u32,
    /// The first byte of the loops' part: the buffers of loads that run ahead.
    buffers: IntValue<'c>,
    buffer_bytes: u32,
    /// Of these the loops at hand have.
    buffers_taken: u32,
    program_bytes: u32,
    /// What the program's part begins at a multiple of.
    program_align: u32,
    warp_bytes: u32,
}

impl<'c> Scratch<'c> {
    pub(super) fn new(context: &'c Context, module: &Module<'c>, builder: &Builder<'c>) -> Result<Self, Error> {
        let memory = module.add_global(context.i8_type().array_type(0), Some(AddressSpace::from(3)), "global_smem");
        memory.set_alignment(ALIGN);
        let size = |name: &str| -> Result<IntValue<'c>, Error> {
            let function = module.add_function(name, context.i32_type().fn_type(&[], false), None);
            let call: CallSiteValue = builder.build_call(function, &[], "")?;
            Ok(call.try_as_basic_value().unwrap_basic().into_int_value())
        };
        Ok(Self {
            memory,
            program: size("tilewright.program")?,
            warp: size("tilewright.warp")?,
            buffers: size("tilewright.buffers")?,
            buffer_bytes: 0,
            buffers_taken: 0,
            kept: size("tilewright.kept")?,
            kept_bytes: 0,
            busy: Busy { read: Vec::new(), product: false },
            writing: Vec::new(),
            taken: 0,
            program_bytes: 0,
            program_align: ALIGN,
            warp_bytes: 0,
        })
    }

    /// Takes `bytes` that no exchange ever uses: the first of them.
    pub(super) fn keep(&mut self, bytes: u32) -> (IntValue<'c>, u32) {
        let start = self.kept_bytes;
        self.kept_bytes += bytes.next_multiple_of(ALIGN);
        (self.kept, start)
    }

    /// Takes `bytes` of each warp's part: the bytes that a warp has.
    pub(super) fn of_warp(&mut self, bytes: u32) -> IntValue<'c> {
        self.warp_bytes = self.warp_bytes.max(bytes.next_multiple_of(ALIGN));
        self.warp
    }

    /// Takes `bytes` of the program's part, from a multiple of `align`: the first of them, and whether a barrier must come before they
    /// are written.
    pub(super) fn take(&mut self, bytes: u32, align: u32) -> (u32, bool) {
        let bytes = bytes.next_multiple_of(ALIGN);
        let most = self.program_bytes.max(ROOM);
        let first = |taken: &[(u32, u32)], most: u32| {
            let is_free = |start: u32| {
                let end = start.checked_add(bytes).filter(|&end| end <= most);
                end.is_some_and(|end| taken.iter().all(|&(from, to)| start >= to || end <= from))
            };
            std::iter::once(0)
                .chain(taken.iter().filter_map(|&(_, to)| to.checked_next_multiple_of(align)))
                .filter(|&start| is_free(start))
                .min()
        };
        let all: Vec<(u32, u32)> = self.busy.read.iter().chain(&self.writing).copied().collect();
        let free = first(&all, most);
        let start = free.or_else(|| first(&self.writing, u32::MAX)).unwrap_or(0);
        if free.is_none() {
            self.busy.read = Vec::new();
        }
        self.program_align = self.program_align.max(align);
        self.writing.push((start, start + bytes));
        self.program_bytes = self.program_bytes.max(start + bytes);
        self.taken += 1;
        (start, free.is_none())
    }

    /// Takes `bytes` (a multiple of [`BUFFER_ALIGN`]) for the buffers of a loop, apart from those of the loops around it: where they begin.
    pub(super) fn enter_loop(&mut self, bytes: u32) -> (IntValue<'c>, u32) {
        let start = self.buffers_taken;
        self.program_align = BUFFER_ALIGN;
        self.buffers_taken += bytes;
        self.buffer_bytes = self.buffer_bytes.max(self.buffers_taken);
        (self.buffers, start)
    }

    /// Gives back what a loop took last.
    pub(super) fn leave_loop(&mut self, bytes: u32) {
        self.buffers_taken -= bytes;
    }

    /// What was taken since the last time is behind a barrier: it may be read from now on, and nothing else still is.
    pub(super) fn read_by_all(&mut self) {
        self.busy.read = std::mem::take(&mut self.writing);
    }

    /// All threads have passed a barrier.
    pub(super) fn passed_by_all(&mut self) {
        self.busy.product = false;
    }

    /// Threads wait for a product in tensor memory from here on, and read it.
    pub(super) fn product_made(&mut self) {
        self.busy.product = true;
        self.taken += 1;
    }

    /// Whether some thread may not be through with the product before.
    pub(super) fn is_product_busy(&self) -> bool {
        self.busy.product
    }

    pub(super) fn busy(&self) -> Busy {
        self.busy.clone()
    }

    pub(super) fn set_busy(&mut self, busy: Busy) {
        self.busy = busy;
    }

    /// Where control may come from elsewhere any of it may still be read.
    pub(super) fn set_all_busy(&mut self) {
        self.busy = Busy::all();
    }

    /// Puts the sizes in, and tells the sum.
    pub(super) fn finish(self, context: &'c Context, module: &Module<'c>, num_warps: u32) -> u32 {
        let start = (self.warp_bytes * num_warps).next_multiple_of(self.program_align);
        self.memory.set_alignment(self.program_align);
        let kept = start + self.program_bytes;
        let end = kept + self.kept_bytes;
        let buffers = if self.buffer_bytes > 0 { end.next_multiple_of(BUFFER_ALIGN) } else { 0 };
        for (value, name, bytes) in [
            (self.program, "tilewright.program", start),
            (self.warp, "tilewright.warp", self.warp_bytes),
            (self.kept, "tilewright.kept", kept),
            (self.buffers, "tilewright.buffers", buffers),
        ] {
            value.replace_all_uses_with(context.i32_type().const_int(bytes.into(), false));
            if let Some(call) = value.as_instruction_value() {
                call.erase_from_basic_block();
            }
            if let Some(function) = module.get_function(name) {
                // SAFETY: its one call is gone.
                unsafe { function.delete() };
            }
        }
        end.max(buffers + self.buffer_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_scratch(check: impl FnOnce(&mut Scratch<'_>)) {
        let context = Context::create();
        let module = context.create_module("m");
        let function = module.add_function("f", context.void_type().fn_type(&[], false), None);
        let builder = context.create_builder();
        builder.position_at_end(context.append_basic_block(function, "entry"));
        check(&mut Scratch::new(&context, &module, &builder).unwrap());
    }

    #[test]
    fn two_exchanges_in_turn_need_one_barrier_each() {
        with_scratch(|scratch| {
            assert_eq!(scratch.take(100, ALIGN), (0, false));
            scratch.read_by_all();
            // The first may still be read: beside it. After the second's barrier nobody reads the first.
            assert_eq!(scratch.take(100, ALIGN), (112, false));
            scratch.read_by_all();
            assert_eq!(scratch.take(100, ALIGN), (0, false));
        });
    }

    #[test]
    fn what_does_not_fit_beside_waits() {
        with_scratch(|scratch| {
            assert_eq!(scratch.take(ROOM, ALIGN), (0, false));
            scratch.read_by_all();
            assert_eq!(scratch.take(16, ALIGN), (0, true));
        });
    }

    #[test]
    fn what_is_written_together_lies_apart() {
        with_scratch(|scratch| {
            assert_eq!(scratch.take(ROOM, ALIGN), (0, false));
            scratch.read_by_all();
            // Two operands of one product, of which neither fits beside what is read.
            assert_eq!(scratch.take(ROOM, ALIGN), (0, true));
            assert_eq!(scratch.take(ROOM, ALIGN).0, ROOM);
        });
    }

    #[test]
    fn what_must_be_aligned_begins_there() {
        with_scratch(|scratch| {
            assert_eq!(scratch.take(16, ALIGN), (0, false));
            assert_eq!(scratch.take(16, 1024), (1024, false));
        });
    }

    #[test]
    fn buffers_of_loops_within_each_other_lie_apart() {
        with_scratch(|scratch| {
            assert_eq!(scratch.enter_loop(2048).1, 0);
            assert_eq!(scratch.enter_loop(1024).1, 2048);
            scratch.leave_loop(1024);
            scratch.leave_loop(2048);
            assert_eq!((scratch.enter_loop(1024).1, scratch.buffer_bytes), (0, 3072));
        });
    }

    #[test]
    fn where_control_comes_from_elsewhere_nothing_is_free() {
        with_scratch(|scratch| {
            scratch.set_all_busy();
            assert_eq!(scratch.take(16, ALIGN), (0, true));
            assert_eq!(scratch.take(16, ALIGN), (16, false));
        });
    }
}
