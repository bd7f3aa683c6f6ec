//! `tt.scan`: by doubling. Along the axis every element knows the scan of its aligned segment up to itself, and the total of the segment;
//! two neighbouring segments become one when the later takes the earlier's total. Segments double from 1 to the axis: their bits are
//! registers first, then lanes (shuffles), then warps (shared memory).

use std::collections::BTreeMap;

use inkwell::values::{BasicValueEnum, IntValue};

use super::{Lowering, Registers};
use crate::compile::Error;
use crate::compile::layout::Layout;
use crate::compile::placed::placed;
use crate::tile::{Op, Region};

/// The scan in the making.
struct Segments<'c> {
    region: Region,
    reverse: bool,
    /// By register, the values of the tuple.
    sums: Vec<Registers<'c>>,
    /// By register without the bits that are done.
    totals: BTreeMap<u32, Registers<'c>>,
    /// Bits of the register's number that are within a segment.
    done: u32,
}

impl<'c> Lowering<'_, 'c> {
    pub(super) fn scan(&mut self, op: Op, axis: usize, reverse: bool) -> Result<(), Error> {
        let data = self.func.op(op);
        let layout = placed(self.func, op, self.options).and_then(|placed| placed.result);
        let layout = layout.ok_or_else(|| self.unsupported(op, "scalars"))?;
        let operands =
            data.operands.iter().map(|&value| self.registers(value, &layout)).collect::<Result<Vec<_>, _>>()?;
        let sums: Vec<Registers> = (0..layout.registers() as usize)
            .map(|register| operands.iter().map(|all| all[register]).collect())
            .collect();
        let totals = (0..).zip(sums.iter().cloned()).collect();
        let mut segments = Segments { region: data.regions[0], reverse, sums, totals, done: 0 };
        let low = Layout::shifts(layout.shape)[axis];
        for bit in 0..layout.shape.dims()[axis].trailing_zeros() {
            let basis = 1 << (low + bit);
            let place = |bases: &[u32]| bases.iter().position(|&other| other == basis);
            if let Some(place) = place(&layout.reg) {
                self.double_in_registers(&mut segments, 1 << place)?;
            } else if let Some(place) = place(&layout.lane) {
                let others = self.totals_of_lanes(&segments, 1 << place)?;
                let upper = self.bit_of(self.lane, place as u32)?;
                self.double_in_threads(&mut segments, &others, upper)?;
            } else if let Some(place) = place(&layout.warp) {
                let others = self.totals_of_warps(&segments, 1 << place)?;
                let upper = self.bit_of(self.warp, place as u32)?;
                self.double_in_threads(&mut segments, &others, upper)?;
            } else {
                return Err(Error::Llvm(format!("the layout {layout:?} has no place for {basis}")));
            }
        }
        for (place, &result) in data.results.iter().enumerate() {
            self.set_home(result, segments.sums.iter().map(|values| values[place]).collect())?;
        }
        Ok(())
    }

    /// Whether bit `place` of `number` is set.
    pub(super) fn bit_of(&self, number: IntValue<'c>, place: u32) -> Result<IntValue<'c>, Error> {
        let bit = self.builder.build_and(number, self.int(1 << place), "")?;
        Ok(self.builder.build_int_compare(inkwell::IntPredicate::NE, bit, self.int(0), "")?)
    }

    fn double_in_registers(&mut self, segments: &mut Segments<'c>, mask: u32) -> Result<(), Error> {
        for register in 0..segments.sums.len() as u32 {
            // The later of the two segments, in the direction of the scan.
            if (register & mask != 0) != segments.reverse {
                let earlier = segments.totals[&((register ^ mask) & !segments.done)].clone();
                let own = segments.sums[register as usize].clone();
                segments.sums[register as usize] = self.combine(segments.region, &earlier, &own)?;
            }
        }
        let mut totals = BTreeMap::new();
        for (&key, total) in segments.totals.iter().filter(|(key, _)| *key & mask == 0) {
            let upper = &segments.totals[&(key | mask)];
            let (first, second) = if segments.reverse { (upper, total) } else { (total, upper) };
            totals.insert(key, self.combine(segments.region, first, second)?);
        }
        segments.totals = totals;
        segments.done |= mask;
        Ok(())
    }

    fn double_in_threads(
        &mut self,
        segments: &mut Segments<'c>,
        others: &BTreeMap<u32, Registers<'c>>,
        upper: IntValue<'c>,
    ) -> Result<(), Error> {
        let later = if segments.reverse { self.builder.build_not(upper, "")? } else { upper };
        let select = |this: &Self, a: &[BasicValueEnum<'c>], b: &[BasicValueEnum<'c>]| {
            let pairs = a.iter().zip(b);
            pairs.map(|(&a, &b)| Ok(this.builder.build_select(later, a, b, "")?)).collect::<Result<Registers, Error>>()
        };
        for register in 0..segments.sums.len() {
            let other = &others[&(register as u32 & !segments.done)];
            let with = self.combine(segments.region, other, &segments.sums[register].clone())?;
            segments.sums[register] = select(self, &with, &segments.sums[register])?;
        }
        for (key, total) in &mut segments.totals {
            let other = &others[key];
            let (first, second) = (select(self, other, total)?, select(self, total, other)?);
            *total = self.combine(segments.region, &first, &second)?;
        }
        Ok(())
    }

    fn totals_of_lanes(&self, segments: &Segments<'c>, mask: u32) -> Result<BTreeMap<u32, Registers<'c>>, Error> {
        let all = segments.totals.iter().map(|(&key, total)| {
            let moved = total.iter().map(|&value| self.shuffled(value, mask)).collect::<Result<Registers, Error>>()?;
            Ok((key, moved))
        });
        all.collect()
    }

    /// The totals that the thread of the same lane has in the warp whose number differs by `mask`.
    fn totals_of_warps(&mut self, segments: &Segments<'c>, mask: u32) -> Result<BTreeMap<u32, Registers<'c>>, Error> {
        let threads = 32 * self.options.num_warps;
        let first = self.builder.build_left_shift(self.warp, self.int(5), "")?;
        let own = self.builder.build_or(first, self.lane, "")?;
        let other = self.builder.build_xor(own, self.int(32 * mask), "")?;
        // One row of all threads for each value.
        let mut rows = Vec::new();
        let mut end = 0_u32;
        for &value in segments.totals.values().flatten() {
            let bytes = self.register_bits(value)?.div_ceil(8);
            end = end.next_multiple_of(bytes);
            rows.push((end / bytes, bytes));
            end += threads * bytes;
        }
        let start = self.program_scratch(end)?;
        let at = |this: &Self, (row, bytes): (u32, u32), thread: IntValue<'c>| {
            let index = this.builder.build_int_add(thread, this.int(row), "")?;
            this.shared_at(start, index, bytes)
        };
        for (&row, &value) in rows.iter().zip(segments.totals.values().flatten()) {
            let value = self.widened(value)?;
            self.builder.build_store(at(self, row, own)?, value)?;
        }
        self.written()?;
        let mut rows = rows.into_iter();
        let mut all = BTreeMap::new();
        for (&key, total) in &segments.totals {
            let read = total.iter().zip(&mut rows).map(|(&like, row)| self.read(at(self, row, other)?, like));
            all.insert(key, read.collect::<Result<Registers, Error>>()?);
        }
        Ok(all)
    }
}
