//! `tcgen05`: moves between registers and tensor memory, and the products that accumulate there.
//!
//! A product is computed when it is issued; until an mbarrier that `tcgen05.commit` names has been waited for, its accesses
//! count as not done, and neither do those of `tcgen05.ld` and `st` before their `tcgen05.wait`.

use super::budget;
use super::cluster::Context;
use super::mbarrier::Deferred;
use super::order::Agent;
use super::shared::{Accessor, AsyncAccessor};
use super::warp::{Poll, Warp};
use super::wgmma::{PRODUCTS_OF_STEP, SharedTile};
use super::{FaultKind, Run, trouble};
use crate::emulate::lanes::{FULL, LANES, lanes};
use crate::emulate::program::{
    Address, CLUSTER_SHARED_LOG2, Flag, OperandA, SHARED_WINDOW, SharedAddress, Slot, TensorCopy, TensorKind, TensorOp,
    TensorShape,
};
use crate::emulate::tensor::descriptor::Descriptor;
use crate::emulate::tensor::dot::{self, Model};
use crate::emulate::tensor::{Element, scale_e8m0};
use half::f16;

/// The lane (from the warp's first, or the address's half) and column of register `register` of `thread`.
fn place(shape: TensorShape, thread: u32, register: u32) -> (u32, u32) {
    let (l, r) = (thread, register);
    match shape {
        TensorShape::L32B32 => (l, r),
        TensorShape::L16B64 => (l / 4 + 8 * (l % 2), l / 2 % 2 + 2 * r),
        TensorShape::L16B128 => (l / 4 + 8 * (r % 2), l % 4 + 4 * (r / 2)),
        TensorShape::L16B256 => (l / 4 + 8 * (r / 2 % 2), r % 2 + 2 * (l % 4) + 8 * (r / 4)),
        TensorShape::L16B32X2(half) => (l % 16, l / 16 * half + r),
    }
}

/// A decoded instruction descriptor (PTX ISA, "Instruction descriptor").
struct Instruction {
    m: u32,
    n: u32,
    a: Element,
    b: Element,
    half_d: bool,
    saturate: bool,
    negate: [bool; 2],
    transpose: [bool; 2],
    /// Which byte of a word holds the scale of A and of B.
    scale_bytes: [u32; 2],
}

impl Instruction {
    fn decode(bits: u32, kind: TensorKind) -> Result<Self, String> {
        let field = |at: u32, count: u32| bits >> at & ((1 << count) - 1);
        if field(2, 1) == 1 {
            return Err("sparse operands are not known to the emulator".into());
        }
        let element = |code: u32| {
            Ok(match (kind, code) {
                (TensorKind::F16, 0) => Element::F16,
                (TensorKind::F16, 1) => Element::Bf16,
                (TensorKind::Tf32, 2) => Element::Tf32,
                (TensorKind::F8f6f4 | TensorKind::Mxf8f6f4, 0) => Element::E4m3,
                (TensorKind::F8f6f4 | TensorKind::Mxf8f6f4, 1) => Element::E5m2,
                (TensorKind::I8, 0) => Element::U8,
                (TensorKind::I8, 1) => Element::S8,
                (_, code) => {
                    return Err(format!(
                        "the instruction descriptor {bits:#010x} names type {code}, not known to the emulator"
                    ));
                }
            })
        };
        let scaled = kind == TensorKind::Mxf8f6f4;
        let decoded = Self {
            m: field(24, 5) << 4,
            n: field(17, 6) << 3,
            a: element(field(7, 3))?,
            b: element(field(10, 3))?,
            half_d: !scaled && kind != TensorKind::I8 && field(4, 2) == 0,
            saturate: !scaled && field(3, 1) == 1,
            negate: [field(13, 1) == 1, field(14, 1) == 1],
            transpose: [field(15, 1) == 1, field(16, 1) == 1],
            scale_bytes: [field(29, 2), field(4, 2)],
        };
        if scaled && field(23, 1) == 0 {
            return Err("scales of mxf8f6f4 are e8m0: bit 23 of the instruction descriptor must be 1".into());
        }
        let Self { m, n, .. } = decoded;
        let fits = match m {
            64 => !scaled && n.is_multiple_of(8) && (8..=256).contains(&n),
            128 => n.is_multiple_of(16) && (16..=256).contains(&n) || scaled && n == 8,
            _ => false,
        };
        if !fits {
            return Err(format!(
                "the instruction descriptor {bits:#010x} asks for {m} × {n}, which one CTA does not compute"
            ));
        }
        Ok(decoded)
    }
}

/// The lane of tensor memory that holds a row of A or D.
fn lane_of_row(row: u32, rows: u32) -> u32 {
    if rows == 64 { 32 * (row / 16) + row % 16 } else { row }
}

impl Warp {
    /// The instructions that a whole warp executes.
    pub(super) fn tensor_memory(&mut self, op: &TensorOp, line: u32, context: &mut Context) -> Run<Option<Poll>> {
        let rank = context.rank;
        match op {
            TensorOp::Alloc { address, generic, columns } => {
                let columns = self.uniform(*columns, FULL)?;
                let (_, (rank, address)) =
                    self.places(&SharedAddress { address: *address, generic: *generic }, 1, context)?[0];
                let maker = (context.agents, rank, context.environment.checks);
                let grown = context.tensor[rank].growth(columns, maker);
                context.environment.budget.take(grown, 0)?;
                context.count_work(budget::steps_of_making(grown));
                let Some(first) = context.tensor[rank].allocate(columns, self.at(), maker)? else {
                    return Ok(Some(Poll::TensorMemory { columns }));
                };
                context.shared[rank].check(address, 4, 0)?;
                context.shared[rank].store(address, 4, first.into(), Accessor { order: &self.order, lane: 0, line })?;
            }
            TensorOp::Dealloc { address, columns } => {
                let (address, columns) = (self.uniform(*address, FULL)?, self.uniform(*columns, FULL)?);
                let by = Accessor { order: &self.order, lane: 0, line };
                context.tensor[rank].free(address & 0xffff, columns, by)?;
                context.progress += 1;
            }
            TensorOp::Relinquish => context.tensor[rank].relinquish(),
            TensorOp::Load { shape, dst, address, pack } => {
                self.load_tensor(*shape, dst, address, *pack, line, context)?
            }
            TensorOp::Store { shape, src, address, pack } => {
                self.store_tensor(*shape, src, address, *pack, line, context)?;
            }
            TensorOp::WaitLoad => {
                self.order.complete(Agent::TensorLoad, self.order.issued[Agent::TensorLoad as usize]);
                for slot in std::mem::take(&mut self.tensor_loads) {
                    self.in_flight[slot as usize] = false;
                    self.ready32[slot as usize] = FULL;
                }
            }
            TensorOp::WaitStore => {
                self.order.complete(Agent::TensorStore, self.order.issued[Agent::TensorStore as usize]);
            }
            _ => {}
        }
        Ok(None)
    }

    /// The cell of each register and thread of a move.
    fn tensor_cell(
        &self,
        shape: TensorShape,
        address: u32,
        (thread, register): (usize, u32),
        context: &Context,
    ) -> Run<u64> {
        let first = 32 * (self.index as u32 % 4);
        let (lane, column) = place(shape, thread as u32, register);
        let lane = (address >> 16) + lane;
        if !(first..first + 32).contains(&lane) {
            let message = format!("lane {lane} of tensor memory: this warp may touch lanes {first} to {}", first + 31);
            return trouble(FaultKind::Bounds, thread, message);
        }
        context.tensor[context.rank].cell(lane, (address & 0xffff) + column, thread)
    }

    fn load_tensor(
        &mut self,
        shape: TensorShape,
        dst: &[Slot],
        address: &Address,
        pack: bool,
        line: u32,
        context: &mut Context,
    ) -> Run<()> {
        let address = self.uniform_address(address)?;
        let (agent, clock) = self.order.issue(Agent::TensorLoad);
        for (register, slot) in dst.iter().enumerate() {
            let mut out = [0; LANES];
            for (thread, out) in out.iter_mut().enumerate() {
                let by = AsyncAccessor { agent, clock, order: &self.order, lane: thread, line, proxied: false };
                // Packed, a register takes the low halves of two columns.
                for half in 0..if pack { 2 } else { 1 } {
                    let register = if pack { 2 * register + half } else { register } as u32;
                    let cell = self.tensor_cell(shape, address, (thread, register), context)?;
                    let cells = context.tensor[context.rank].cells();
                    cells.read_async(cell, 4, by)?;
                    let value = cells.get(cell, 4) as u32;
                    *out |= if pack { (value & 0xffff) << (16 * half) } else { value };
                }
            }
            self.bank32[*slot as usize] = out;
            self.forget_parts(crate::emulate::program::Reg::R32(*slot));
            self.ready32[*slot as usize] = 0;
            self.in_flight[*slot as usize] = true;
            self.tensor_loads.push(*slot);
        }
        Ok(())
    }

    fn store_tensor(
        &mut self,
        shape: TensorShape,
        src: &[Slot],
        address: &Address,
        unpack: bool,
        line: u32,
        context: &mut Context,
    ) -> Run<()> {
        let address = self.uniform_address(address)?;
        let (agent, clock) = self.order.issue(Agent::TensorStore);
        for (register, slot) in src.iter().enumerate() {
            let values = *self.read32(*slot, FULL)?;
            for (thread, value) in values.into_iter().enumerate() {
                let by = AsyncAccessor { agent, clock, order: &self.order, lane: thread, line, proxied: false };
                for half in 0..if unpack { 2 } else { 1 } {
                    let register = if unpack { 2 * register + half } else { register } as u32;
                    let cell = self.tensor_cell(shape, address, (thread, register), context)?;
                    let cells = context.tensor[context.rank].cells();
                    cells.write_async(cell, 4, by)?;
                    let value = if unpack { value >> (16 * half) & 0xffff } else { value };
                    cells.put(cell, 4, value.into());
                }
            }
        }
        Ok(())
    }

    /// An address of tensor memory, the same in all lanes.
    fn uniform_address(&self, address: &Address) -> Run<u32> {
        let addresses = self.lane_addresses(address, FULL)?;
        if addresses.iter().any(|&other| other != addresses[0]) {
            return trouble(FaultKind::Sync, 0, "the lanes of the warp name different addresses of tensor memory");
        }
        Ok(addresses[0] as u32)
    }

    /// What single threads issue: products, copies into tensor memory, commits.
    pub(super) fn issue_tensor(&mut self, op: &TensorOp, active: u32, line: u32, context: &mut Context) -> Run<()> {
        for lane in lanes(active) {
            match op {
                TensorOp::Commit { address } => {
                    let address = self.lane_addresses(address, active)?[lane];
                    // Without a state space the address is generic by the rules; Triton gives that of shared memory.
                    let address = if address >= SHARED_WINDOW { address - SHARED_WINDOW } else { address };
                    if address >> 32 != 0 || address >> CLUSTER_SHARED_LOG2 > 16 {
                        return trouble(
                            FaultKind::Bounds,
                            lane,
                            format!("{address:#x} is no address of shared memory"),
                        );
                    }
                    let place = context.locate(address, lane)?;
                    let agent = self.order.agents.of_warp(self.order.agent, Agent::Tensor);
                    // With the products go the copies that they waited for: who fills a stage again comes after both.
                    let first = self.order.agents.count();
                    let copies = (first..).zip(self.order.known.seen.get(first..).unwrap_or_default());
                    let copies = copies.filter(|(_, clock)| **clock > 0).map(|(agent, clock)| (agent, *clock));
                    let own = (agent, self.order.issued[Agent::Tensor as usize]);
                    let completes = std::iter::once(own).chain(copies).collect();
                    let work = Deferred { completes, writes: Vec::new(), arrivals: 1, bytes: 0, at: self.at() };
                    context.mbarrier_defer(place, work, Accessor { order: &self.order, lane, line })?;
                }
                TensorOp::TensorMultiply { kind, d, a, b, instruction, scales, accumulate } => {
                    let accumulate = match accumulate {
                        Flag::Constant(value) => *value,
                        Flag::Predicate(by) => self.predicate(*by, 1 << lane)? >> lane & 1 == 1,
                    };
                    let bits = self.read32(*instruction, 1 << lane)?[lane];
                    let instruction =
                        Instruction::decode(bits, *kind).or_else(|message| trouble(FaultKind::Trap, lane, message))?;
                    let operands = Operands { d, a, b: *b, scales: scales.as_ref(), accumulate };
                    self.multiply_tensor(&instruction, &operands, (lane, line), context)?;
                }
                TensorOp::TensorCopy { what, to, from } => {
                    let to = self.lane_addresses(to, 1 << lane)?[lane] as u32;
                    let from = self.read64(*from, 1 << lane)?[lane];
                    let from =
                        Descriptor::blackwell(from).or_else(|message| trouble(FaultKind::Trap, lane, message))?;
                    self.copy_tensor(*what, to, &from, (lane, line), context)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn multiply_tensor(
        &mut self,
        instruction: &Instruction,
        operands: &Operands,
        (lane, line): (usize, u32),
        context: &mut Context,
    ) -> Run<()> {
        let rank = context.rank;
        let Instruction { m, n, a, b, .. } = *instruction;
        let k = 8 * a.per_word();
        context.count_work(u64::from(m * n) * k as u64 / PRODUCTS_OF_STEP);
        let one = 1 << lane;
        let address =
            |warp: &Self, address: &Address| -> Run<u32> { Ok(warp.lane_addresses(address, one)?[lane] as u32) };
        let descriptor = |warp: &Self, slot: Slot| -> Run<Descriptor> {
            Descriptor::blackwell(warp.read64(slot, one)?[lane])
                .or_else(|message| trouble(FaultKind::Trap, lane, message))
        };
        let d_address = address(self, operands.d)?;
        let b_descriptor = descriptor(self, operands.b)?;
        let a_place = match operands.a {
            OperandA::Shared(slot) => Ok(descriptor(self, *slot)?),
            OperandA::Tensor(at) => Err(address(self, at)?),
            OperandA::Registers(_) => return trouble(FaultKind::Trap, lane, "A is in shared or tensor memory"),
        };
        let scales = match operands.scales {
            Some([a, b]) => Some([address(self, a)?, address(self, b)?]),
            None => None,
        };
        let (agent, clock) = self.order.issue(Agent::Tensor);
        let by = AsyncAccessor { agent, clock, order: &self.order, lane, line, proxied: true };
        let in_tensor = AsyncAccessor { proxied: false, ..by };
        let [transposed_a, transposed_b] = instruction.transpose;
        let rows = m as usize;
        let mut x = match a_place {
            Ok(descriptor) => SharedTile { descriptor, element: a, transposed: transposed_a, first: 0, rows, k }
                .gather(rank, context, by)?,
            Err(address) => {
                let mut out = vec![0.0; rows * k];
                for row in 0..m {
                    for word in 0..8 {
                        let bits = read_cell(context, address, lane_of_row(row, m), word, in_tensor)?;
                        for place in 0..a.per_word() {
                            out[row as usize * k + word as usize * a.per_word() + place] = a.value(bits, place);
                        }
                    }
                }
                out
            }
        };
        let tile = SharedTile {
            descriptor: b_descriptor,
            element: b,
            transposed: transposed_b,
            first: 0,
            rows: n as usize,
            k,
        };
        let mut y = tile.gather(rank, context, by)?;
        for (values, negate) in [(&mut x, instruction.negate[0]), (&mut y, instruction.negate[1])] {
            if negate {
                values.iter_mut().for_each(|value| *value = -*value);
            }
        }
        let width = n as usize;
        let mut words = vec![0; rows * width];
        if operands.accumulate {
            for row in 0..m {
                for column in 0..n {
                    words[row as usize * width + column as usize] =
                        read_cell(context, d_address, lane_of_row(row, m), column, in_tensor)?;
                }
            }
        }
        if a.is_integer() {
            let integers = |values: &[f32]| values.iter().map(|&value| value as i32).collect::<Vec<_>>();
            let mut c: Vec<i32> = words.iter().map(|&word| word as i32).collect();
            dot::multiply_integers(k, &integers(&x), &integers(&y), &mut c, instruction.saturate);
            words = c.into_iter().map(|value| value as u32).collect();
        } else {
            let half = instruction.half_d;
            let mut c: Vec<f32> = words
                .iter()
                .map(|&word| if half { f16::from_bits(word as u16).to_f32() } else { f32::from_bits(word) })
                .collect();
            match scales {
                None => dot::multiply(Model::of_blackwell(k, half), k, (&x, a), (&y, b), &mut c),
                Some(scales) => {
                    let bytes = instruction.scale_bytes;
                    self.multiply_scaled((&x, &y, &mut c), (m, n, k), (scales, bytes), in_tensor, context)?;
                }
            }
            let bits = |value: f32| {
                if half { crate::emulate::alu::half_from_f32(value).to_bits().into() } else { value.to_bits() }
            };
            words = c.into_iter().map(bits).collect();
        }
        for row in 0..m {
            for column in 0..n {
                let cell = context.tensor[rank].cell(
                    (d_address >> 16) + lane_of_row(row, m),
                    (d_address & 0xffff) + column,
                    lane,
                )?;
                let cells = context.tensor[rank].cells();
                cells.write_async(cell, 4, in_tensor)?;
                cells.put(cell, 4, words[row as usize * width + column as usize].into());
            }
        }
        Ok(())
    }

    /// A product whose rows of A and of B each have a scale for their 32 elements: the word of row r is in column r / 32 and
    /// lane r mod 32 of each of the four quarters of tensor memory; a row of D takes those of its own quarter.
    fn multiply_scaled(
        &self,
        (x, y, c): (&[f32], &[f32], &mut [f32]),
        (m, n, k): (u32, u32, usize),
        ([a, b], bytes): ([u32; 2], [u32; 2]),
        by: AsyncAccessor,
        context: &mut Context,
    ) -> Run<()> {
        let width = n as usize;
        for quarter in 0..m / 32 {
            let mut scale = |address: u32, row: u32, byte: u32| -> Run<f32> {
                let word = read_cell(context, address & 0xffff, 32 * quarter + row % 32, row / 32, by)?;
                Ok(scale_e8m0((word >> (8 * byte)) as u8))
            };
            let rows = 32 * quarter..32 * (quarter + 1);
            let of_a: Vec<f32> = rows.clone().map(|row| scale(a, row, bytes[0])).collect::<Run<_>>()?;
            let of_b: Vec<f32> = (0..n).map(|column| scale(b, column, bytes[1])).collect::<Run<_>>()?;
            let x = &x[rows.start as usize * k..rows.end as usize * k];
            let c = &mut c[rows.start as usize * width..rows.end as usize * width];
            dot::multiply_scaled(k, (x, &of_a), (y, &of_b), c);
        }
        Ok(())
    }

    fn copy_tensor(
        &mut self,
        what: TensorCopy,
        to: u32,
        from: &Descriptor,
        (lane, line): (usize, u32),
        context: &mut Context,
    ) -> Run<()> {
        let rank = context.rank;
        // Rows, 16-byte pieces of a row, and the lanes of a row's copies.
        let (rows, pieces, lanes_of): (u32, u64, fn(u32) -> Vec<u32>) = match what {
            TensorCopy::R128B256 => (128, 2, |row| vec![row]),
            TensorCopy::R128B128 => (128, 1, |row| vec![row]),
            TensorCopy::R4B256 => (4, 2, |row| vec![32 * row]),
            TensorCopy::R64B128X2Lanes02 => (64, 1, |row| vec![row, row + 64]),
            TensorCopy::R64B128X2Lanes01 => (64, 1, |row| {
                let lane = 64 * (row / 32) + row % 32;
                vec![lane, lane + 32]
            }),
            TensorCopy::R32B128X4 => (32, 1, |row| vec![row, row + 32, row + 64, row + 96]),
        };
        let (agent, clock) = self.order.issue(Agent::Tensor);
        let by = AsyncAccessor { agent, clock, order: &self.order, lane, line, proxied: true };
        let in_tensor = AsyncAccessor { proxied: false, ..by };
        for row in 0..rows {
            for piece in 0..pieces {
                let address = from.k_major(row.into(), 16 * piece);
                context.shared[rank].check(address, 16, lane)?;
                context.shared[rank].read_async(address, 16, by)?;
                for word in 0..4 {
                    let value = context.shared[rank].get(address + 4 * word, 4);
                    for tensor_lane in lanes_of(row) {
                        let column = (to & 0xffff) + (4 * piece + word) as u32;
                        let cell = context.tensor[rank].cell((to >> 16) + tensor_lane, column, lane)?;
                        let cells = context.tensor[rank].cells();
                        cells.write_async(cell, 4, in_tensor)?;
                        cells.put(cell, 4, value);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads a word of tensor memory at a lane and a column from `address`.
fn read_cell(context: &mut Context, address: u32, lane: u32, column: u32, by: AsyncAccessor) -> Run<u32> {
    let lane = (address >> 16) + lane;
    let tensor = &mut context.tensor[context.rank];
    let cell = tensor.cell(lane, (address & 0xffff) + column, by.lane)?;
    tensor.cells().read_async(cell, 4, by)?;
    Ok(tensor.cells().get(cell, 4) as u32)
}

/// The operands of a `tcgen05.mma`.
struct Operands<'a> {
    d: &'a Address,
    a: &'a OperandA,
    b: Slot,
    scales: Option<&'a [Address; 2]>,
    accumulate: bool,
}
