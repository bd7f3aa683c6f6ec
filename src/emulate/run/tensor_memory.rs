//! Tensor memory of a CTA: 128 lanes × 512 columns of 32 bits, allocated by columns.
//!
//! It is kept column after column, so that what is not allocated takes nothing.

use super::budget::shared_bytes;
use super::order::Agents;
use super::shared::{Accessor, Shared};
use super::{FaultKind, Run, trouble};
use crate::emulate::Checks;

/// Lanes of tensor memory.
pub(super) const TENSOR_LANES: u32 = 128;
/// Columns of tensor memory.
pub(super) const TENSOR_COLUMNS: u32 = 512;

/// Columns that belong to one `tcgen05.alloc`.
#[derive(Clone, Copy)]
struct Allocation {
    first: u32,
    columns: u32,
    /// The number of the instruction.
    at: usize,
}

/// Tensor memory of one CTA.
#[derive(Default)]
pub(super) struct TensorMemory {
    cells: Shared,
    /// Columns that `cells` has.
    columns: u32,
    allocations: Vec<Allocation>,
    relinquished: bool,
    /// Bytes that were ever taken from the launch's budget: the memory is kept from one CTA to the next.
    held: u64,
}

impl TensorMemory {
    pub fn reset(&mut self) {
        self.columns = 0;
        self.allocations.clear();
        self.relinquished = false;
    }

    /// The instruction of an allocation that was not freed, and its columns.
    pub fn leaked(&self) -> Option<(usize, u32)> {
        self.allocations.first().map(|allocation| (allocation.at, allocation.columns))
    }

    /// Bytes that are to be taken from the budget before `columns` more columns are, and count as taken.
    pub fn growth(&mut self, columns: u32, (agents, _, checks): (Agents, usize, Checks)) -> u64 {
        let columns = if self.allocations.is_empty() { columns.min(TENSOR_COLUMNS) } else { TENSOR_COLUMNS };
        let bytes = shared_bytes(u64::from(columns * TENSOR_LANES * 4), agents, false, checks);
        let grown = bytes.saturating_sub(self.held);
        self.held += grown;
        grown
    }

    /// Takes `columns` columns: the first of them, or `None` while others hold them.
    pub fn allocate(
        &mut self,
        columns: u32,
        at: usize,
        (agents, rank, checks): (Agents, usize, Checks),
    ) -> Run<Option<u32>> {
        if !columns.is_power_of_two() || !(32..=TENSOR_COLUMNS).contains(&columns) {
            let message =
                format!("{columns} columns of tensor memory: a power of two from 32 to {TENSOR_COLUMNS} is allowed");
            return trouble(FaultKind::Sync, 0, message);
        }
        if self.relinquished {
            return trouble(FaultKind::Sync, 0, "tcgen05.alloc after tcgen05.relinquish_alloc_permit");
        }
        let is_free = |first: u32| {
            self.allocations.iter().all(|other| first + columns <= other.first || other.first + other.columns <= first)
        };
        let Some(first) = (0..=TENSOR_COLUMNS - columns).step_by(columns as usize).find(|&first| is_free(first)) else {
            return Ok(None);
        };
        self.allocations.push(Allocation { first, columns, at });
        if first + columns > self.columns {
            // A second allocation is rare: the memory is then made once more, as large as it gets.
            let all = if self.columns == 0 { first + columns } else { TENSOR_COLUMNS };
            let old = std::mem::take(&mut self.cells);
            self.cells.reset("tensor memory", all * TENSOR_LANES * 4, agents, rank, false, checks);
            if self.columns > 0 {
                self.cells.take_over(&old);
            }
            self.columns = all;
        }
        Ok(Some(first))
    }

    /// Frees what `allocate` gave.
    pub fn free(&mut self, first: u32, columns: u32, by: Accessor) -> Run<()> {
        let found = self.allocations.iter().position(|other| (other.first, other.columns) == (first, columns));
        let Some(place) = found else {
            let message = format!("tcgen05.dealloc of {columns} columns at {first}, which no tcgen05.alloc gave");
            return trouble(FaultKind::Sync, by.lane, message);
        };
        // Work that is still to touch the columns is found like any write of them.
        let range = u64::from(first * TENSOR_LANES * 4)..u64::from((first + columns) * TENSOR_LANES * 4);
        for address in range.clone().step_by(4) {
            self.cells.store(address, 4, 0, by)?;
        }
        self.cells.forget(range);
        self.allocations.remove(place);
        Ok(())
    }

    pub fn relinquish(&mut self) {
        self.relinquished = true;
    }

    /// The address in [`TensorMemory::cells`] of a lane and a column; both must be there and the column allocated.
    pub fn cell(&self, lane: u32, column: u32, thread: usize) -> Run<u64> {
        let owned = self.allocations.iter().any(|other| (other.first..other.first + other.columns).contains(&column));
        if lane >= TENSOR_LANES || !owned {
            let message = format!("lane {lane}, column {column} of tensor memory is not allocated");
            return trouble(FaultKind::Bounds, thread, message);
        }
        Ok(u64::from(column * TENSOR_LANES + lane) * 4)
    }

    pub fn cells(&mut self) -> &mut Shared {
        &mut self.cells
    }
}
