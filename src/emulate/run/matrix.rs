//! `ldmatrix`, `stmatrix`, `movmatrix` and `mma.sync`: tiles in the registers of a warp.
//!
//! In a fragment, lane l belongs to group l / 4 and is number l % 4 in it. A holds rows by groups and columns by numbers, in
//! words of 32 bits along K; B holds columns by groups; C and D hold rows by groups and pairs of columns by numbers (PTX
//! ISA, "Matrix fragments for mma").

use super::access::resolve;
use super::cluster::Context;
use super::shared::Accessor;
use super::warp::{Poll, Warp};
use super::{FaultKind, Run, trouble};
use crate::emulate::lanes::{FULL, LANES, Lanes32, Lanes64};
use crate::emulate::program::{Accumulator, Address, MemorySpace, Product, Slot, TensorOp};
use crate::emulate::tensor::Element;
use crate::emulate::tensor::dot::{self, Model};
use half::f16;

/// Rows of a group of eight in a fragment of A or C, and columns in one of B.
const GROUP: usize = 8;

impl Warp {
    /// Executes a matrix instruction, or says what it waits for.
    pub(super) fn tensor(&mut self, op: &TensorOp, active: u32, line: u32, context: &mut Context) -> Run<Option<Poll>> {
        if let TensorOp::Commit { .. } | TensorOp::TensorMultiply { .. } | TensorOp::TensorCopy { .. } = op {
            self.issue_tensor(op, active, line, context)?;
            return Ok(None);
        }
        if active != FULL {
            let missing = (!active).trailing_zeros() as usize;
            return trouble(FaultKind::Sync, missing, "an instruction of the whole warp, and this lane is not there");
        }
        match op {
            TensorOp::LoadMatrix { dst, address, generic, transpose } => {
                self.load_matrix(dst, (address, *generic), *transpose, line, context)?;
            }
            TensorOp::StoreMatrix { src, address, generic, transpose } => {
                self.store_matrix(src, (address, *generic), *transpose, line, context)?;
            }
            TensorOp::Transpose { dst, src } => {
                let values = *self.read32(*src, FULL)?;
                let half = |row: usize, column: usize| values[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff;
                let out = std::array::from_fn(|lane| {
                    let (row, column) = (lane / 4, 2 * (lane % 4));
                    half(column, row) | half(column + 1, row) << 16
                });
                self.write32(*dst, &out, FULL);
            }
            TensorOp::Multiply { product, d, a, b, c } => self.multiply(product, d, [a, b, c])?,
            op => return self.tensor_collective(op, line, context),
        }
        Ok(None)
    }

    /// The CTA and shared address of each row that the lanes name.
    fn row_addresses(
        &self,
        (address, generic): (&Address, bool),
        rows: usize,
        context: &Context,
    ) -> Run<Vec<(usize, u64)>> {
        let space = if generic { MemorySpace::Generic } else { MemorySpace::Shared };
        let active = if rows == LANES { FULL } else { (1 << rows) - 1 };
        let addresses = self.lane_addresses(address, active)?;
        (0..rows)
            .map(|lane| {
                let (space, address) = resolve(space, addresses[lane]);
                if space != MemorySpace::Shared {
                    let message = format!("the generic address {address:#x} is not one of shared memory");
                    return trouble(FaultKind::Bounds, lane, message);
                }
                let (rank, address) = context.locate(address, lane)?;
                context.shared[rank].check(address, 16, lane)?;
                Ok((rank, address))
            })
            .collect()
    }

    fn load_matrix(
        &mut self,
        dst: &[Slot],
        address: (&Address, bool),
        transpose: bool,
        line: u32,
        context: &mut Context,
    ) -> Run<()> {
        let rows = self.row_addresses(address, 8 * dst.len(), context)?;
        for (matrix, dst) in dst.iter().enumerate() {
            let mut words = [[0_u32; 4]; 8];
            for (row, words) in words.iter_mut().enumerate() {
                let lane = 8 * matrix + row;
                let (rank, address) = rows[lane];
                for (column, word) in words.iter_mut().enumerate() {
                    // The lanes that the word goes to.
                    let lanes = if transpose { 0b10001 << (8 * column + row / 2) } else { 1 << (4 * row + column) };
                    let by = Accessor { order: &self.order, lane, line };
                    *word = context.shared[rank].load(address + 4 * column as u64, 4, by, lanes)? as u32;
                }
            }
            let half = |row: usize, column: usize| words[row][column / 2] >> (16 * (column % 2)) & 0xffff;
            let out: Lanes32 = std::array::from_fn(|lane| {
                let (row, column) = (lane / 4, lane % 4);
                if transpose { half(2 * column, row) | half(2 * column + 1, row) << 16 } else { words[row][column] }
            });
            self.write32(*dst, &out, FULL);
        }
        Ok(())
    }

    fn store_matrix(
        &mut self,
        src: &[Slot],
        address: (&Address, bool),
        transpose: bool,
        line: u32,
        context: &mut Context,
    ) -> Run<()> {
        context.progress += 1;
        let rows = self.row_addresses(address, 8 * src.len(), context)?;
        for (matrix, src) in src.iter().enumerate() {
            let values = *self.read32(*src, FULL)?;
            // A half is the finest that a transposed store moves; its owner makes the access.
            for row in 0..8 {
                let (rank, address) = rows[8 * matrix + row];
                for column in 0..8 {
                    let (owner, place) =
                        if transpose { (4 * column + row / 2, row % 2) } else { (4 * row + column / 2, column % 2) };
                    let value = values[owner] >> (16 * place);
                    let by = Accessor { order: &self.order, lane: owner, line };
                    if !transpose {
                        if place == 0 {
                            let at = address + 2 * column as u64;
                            context.shared[rank].store(at, 4, values[owner].into(), by)?;
                        }
                        continue;
                    }
                    // Where cells are words, the two halves of one have two owners in one instruction: the second is put past
                    // the check that the first has passed.
                    let at = address + 2 * column as u64;
                    if column % 2 == 0 {
                        context.shared[rank].store(at, 2, u64::from(value & 0xffff), by)?;
                    } else {
                        context.shared[rank].put(at, 2, u64::from(value & 0xffff));
                    }
                }
            }
        }
        Ok(())
    }

    /// The elements of A or B in registers: `rows` of `k`, row-major. The second register of A is eight rows down, the third is
    /// further along K.
    pub(super) fn operand(&self, registers: &[Slot], rows: usize, k: usize, element: Element) -> Run<Vec<f32>> {
        let per = element.per_word();
        let mut out = vec![0.0; rows * k];
        let groups = rows / GROUP;
        for (register, slot) in registers.iter().enumerate() {
            let values = self.read32(*slot, FULL)?;
            let (down, along) = (GROUP * (register % groups), 4 * per * (register / groups));
            element.unpack(values, |lane, place, value| {
                out[(down + lane / 4) * k + along + per * (lane % 4) + place] = value;
            });
        }
        Ok(out)
    }

    fn multiply(&mut self, product: &Product, d: &[Slot], [a, b, c]: [&[Slot]; 3]) -> Run<()> {
        let Product { m, n, k, accumulator, .. } = *product;
        if accumulator == Accumulator::F64 {
            return self.multiply_doubles(product, d, [a, b, c]);
        }
        let x = self.operand(a, m, k, product.a)?;
        let y = self.operand(b, n, k, product.b)?;
        let mut words: Vec<Lanes32> = Vec::with_capacity(c.len());
        for slot in c {
            words.push(*self.read32(*slot, FULL)?);
        }
        let model = Model::of_warp(product.a, k, accumulator == Accumulator::F16);
        accumulate_fragment(&mut words, product, (m, model), (&x, &y));
        for (slot, words) in d.iter().zip(&words) {
            self.write32(*slot, words, FULL);
        }
        Ok(())
    }

    fn multiply_doubles(&mut self, product: &Product, d: &[Slot], [a, b, c]: [&[Slot]; 3]) -> Run<()> {
        let Product { m, n, k, .. } = *product;
        let gather = |slots: &[Slot], rows: usize| -> Run<Vec<f64>> {
            let mut out = vec![0.0; rows * k];
            let groups = rows / GROUP;
            for (register, slot) in slots.iter().enumerate() {
                for (lane, bits) in self.read64(*slot, FULL)?.iter().enumerate() {
                    let row = GROUP * (register % groups) + lane / 4;
                    out[row * k + 4 * (register / groups) + lane % 4] = f64::from_bits(*bits);
                }
            }
            Ok(out)
        };
        let (x, y) = (gather(a, m)?, gather(b, n)?);
        let place =
            |register: usize, lane: usize| (GROUP * (register / 2) + lane / 4) * n + 2 * (lane % 4) + register % 2;
        let mut z = vec![0.0; m * n];
        for (register, slot) in c.iter().enumerate() {
            for (lane, bits) in self.read64(*slot, FULL)?.iter().enumerate() {
                z[place(register, lane)] = f64::from_bits(*bits);
            }
        }
        dot::multiply_doubles(k, &x, &y, &mut z);
        for (register, slot) in d.iter().enumerate() {
            let out: Lanes64 = std::array::from_fn(|lane| z[place(register, lane)].to_bits());
            self.write64(*slot, &out, FULL);
        }
        Ok(())
    }
}

/// Adds a·bᵀ to a fragment of C of `m` rows: for every eight columns two registers for each group of eight rows, or one
/// where two halves share a register.
pub(super) fn accumulate_fragment(
    words: &mut [Lanes32],
    product: &Product,
    (m, model): (usize, Model),
    (a, b): (&[f32], &[f32]),
) {
    let Product { n, k, accumulator, saturate, .. } = *product;
    let halves = accumulator == Accumulator::F16;
    let groups = m / GROUP;
    let per_tile = groups * if halves { 1 } else { 2 };
    // Where a register's lane lies: its row and first column.
    let place = |register: usize, lane: usize| {
        let (tile, inside) = (register / per_tile, register % per_tile);
        let (group, odd) = if halves { (inside, 0) } else { (inside / 2, inside % 2) };
        (GROUP * group + lane / 4) * n + 8 * tile + 2 * (lane % 4) + odd
    };
    if accumulator == Accumulator::S32 {
        let integers = |values: &[f32]| values.iter().map(|&value| value as i32).collect::<Vec<_>>();
        let mut c = vec![0; m * n];
        for (register, words) in words.iter().enumerate() {
            words.iter().enumerate().for_each(|(lane, &word)| c[place(register, lane)] = word as i32);
        }
        dot::multiply_integers(k, &integers(a), &integers(b), &mut c, saturate);
        for (register, words) in words.iter_mut().enumerate() {
            words.iter_mut().enumerate().for_each(|(lane, word)| *word = c[place(register, lane)] as u32);
        }
        return;
    }
    let mut c = vec![0.0; m * n];
    for (register, words) in words.iter().enumerate() {
        for (lane, &word) in words.iter().enumerate() {
            let at = place(register, lane);
            if halves {
                c[at] = f16::from_bits(word as u16).to_f32();
                c[at + 1] = f16::from_bits((word >> 16) as u16).to_f32();
            } else {
                c[at] = f32::from_bits(word);
            }
        }
    }
    dot::multiply(model, k, (a, product.a), (b, product.b), &mut c);
    for (register, words) in words.iter_mut().enumerate() {
        for (lane, word) in words.iter_mut().enumerate() {
            let at = place(register, lane);
            *word = if halves {
                let half = |value: f32| u32::from(crate::emulate::alu::half_from_f32(value).to_bits());
                half(c[at]) | half(c[at + 1]) << 16
            } else {
                c[at].to_bits()
            };
        }
    }
}
