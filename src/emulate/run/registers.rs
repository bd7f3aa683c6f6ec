//! A warp's registers: `read` and its like are for values that are used, and fault where nothing defined them; what merely
//! passes through is carried, with the lanes in which it is defined.

use super::warp::Warp;
use super::{FaultKind, Run, trouble};
use crate::emulate::lanes::{FULL, LANES, Lanes32, Lanes64, lanes};
use crate::emulate::program::{PredicateUse, Reg, Slot};

impl Warp {
    pub(super) fn unready<T>(&self, missing: u32) -> Run<T> {
        let lane = missing.trailing_zeros() as usize;
        trouble(FaultKind::Uninitialised, lane, "a register is used whose value nothing defined")
    }

    /// A narrow register's lanes and those of them that are defined.
    pub(super) fn carry32(&self, slot: Slot) -> (&Lanes32, u32) {
        (&self.bank32[slot as usize], self.ready32[slot as usize])
    }

    /// Says that a register just written is defined in the lanes of `defined` alone.
    pub(super) fn define32(&mut self, slot: Slot, defined: u32, active: u32) {
        self.ready32[slot as usize] &= defined | !active;
    }

    pub(super) fn read32(&self, slot: Slot, active: u32) -> Run<&Lanes32> {
        let missing = active & !self.ready32[slot as usize];
        if missing != 0 && self.check_init {
            if self.in_flight.get(slot as usize).copied().unwrap_or(false) {
                let lane = missing.trailing_zeros() as usize;
                let message = "a register is used that asynchronous work is still to write: nothing waited for it";
                return trouble(FaultKind::Uninitialised, lane, message);
            }
            return self.unready(missing);
        }
        Ok(&self.bank32[slot as usize])
    }

    pub(super) fn read64(&self, slot: Slot, active: u32) -> Run<&Lanes64> {
        let missing = active & !self.ready64[slot as usize];
        if missing != 0 && self.check_init {
            return self.unready(missing);
        }
        Ok(&self.bank64[slot as usize])
    }

    /// A register of either bank, widened.
    pub(super) fn read(&self, reg: Reg, active: u32) -> Run<Lanes64> {
        match reg {
            Reg::R32(slot) => self.read32(slot, active).map(|values| values.map(u64::from)),
            Reg::R64(slot) => self.read64(slot, active).copied(),
            Reg::Pred(slot) => {
                let mask = self.predicate(PredicateUse { slot, negated: false }, active)?;
                Ok(std::array::from_fn(|lane| u64::from(mask >> lane & 1)))
            }
        }
    }

    pub(super) fn predicate(&self, by: PredicateUse, active: u32) -> Run<u32> {
        let missing = active & !self.ready_predicates[by.slot as usize];
        if missing != 0 && self.check_init {
            return self.unready(missing);
        }
        let value = self.predicates[by.slot as usize];
        Ok(if by.negated { !value } else { value })
    }

    pub(super) fn write32(&mut self, slot: Slot, values: &Lanes32, mask: u32) {
        let register = &mut self.bank32[slot as usize];
        if mask == FULL {
            *register = *values;
        } else {
            for lane in lanes(mask) {
                register[lane] = values[lane];
            }
        }
        self.ready32[slot as usize] |= mask;
        self.forget_parts(Reg::R32(slot));
    }

    /// What was known of a register's parts no longer holds: it is written as a whole.
    pub(super) fn forget_parts(&mut self, reg: Reg) {
        if !self.packed.is_empty() {
            self.packed.retain(|(packed, _)| *packed != reg);
        }
    }

    pub(super) fn write64(&mut self, slot: Slot, values: &Lanes64, mask: u32) {
        let register = &mut self.bank64[slot as usize];
        if mask == FULL {
            *register = *values;
        } else {
            for lane in lanes(mask) {
                register[lane] = values[lane];
            }
        }
        self.ready64[slot as usize] |= mask;
        self.forget_parts(Reg::R64(slot));
    }

    /// The lanes in which a byte of a packed register is defined: a half may be, where the other is not. LLVM packs
    /// so on purpose, to take out the one half that it wants.
    pub(super) fn part_defined(&self, reg: Reg, byte: usize) -> u32 {
        match self.packed.iter().find(|(packed, _)| *packed == reg) {
            Some((_, parts)) => parts[byte],
            None => self.carry(reg).1,
        }
    }

    pub(super) fn write_predicate(&mut self, slot: Slot, value: u32, mask: u32) {
        let predicate = &mut self.predicates[slot as usize];
        *predicate = *predicate & !mask | value & mask;
        self.ready_predicates[slot as usize] |= mask;
    }

    /// Writes the low bits of `values` to a register of either bank.
    pub(super) fn write(&mut self, reg: Reg, values: &Lanes64, mask: u32) {
        match reg {
            Reg::R32(slot) => self.write32(slot, &values.map(|value| value as u32), mask),
            Reg::R64(slot) => self.write64(slot, values, mask),
            Reg::Pred(slot) => {
                let bits = (0..LANES).fold(0, |bits, lane| bits | ((values[lane] & 1) as u32) << lane);
                self.write_predicate(slot, bits, mask);
            }
        }
    }

    /// The bits of a register of either bank, widened, and the lanes in which they are defined.
    pub(super) fn carry(&self, reg: Reg) -> (Lanes64, u32) {
        match reg {
            Reg::R32(slot) => (self.bank32[slot as usize].map(u64::from), self.ready32[slot as usize]),
            Reg::R64(slot) => (self.bank64[slot as usize], self.ready64[slot as usize]),
            Reg::Pred(slot) => {
                let mask = self.predicates[slot as usize];
                (std::array::from_fn(|lane| u64::from(mask >> lane & 1)), self.ready_predicates[slot as usize])
            }
        }
    }

    /// Writes a register whose value is defined in the lanes of `defined` alone.
    pub(super) fn write_carried(&mut self, reg: Reg, values: &Lanes64, defined: u32, active: u32) {
        self.write(reg, values, active);
        let ready = match reg {
            Reg::R32(slot) => &mut self.ready32[slot as usize],
            Reg::R64(slot) => &mut self.ready64[slot as usize],
            Reg::Pred(slot) => &mut self.ready_predicates[slot as usize],
        };
        *ready &= defined | !active;
    }

    /// Writes a register of which each byte is defined in the lanes of `defined` alone.
    pub(super) fn write_parts(&mut self, reg: Reg, values: &Lanes64, defined: [u32; 8], active: u32) {
        let all = defined.iter().fold(u32::MAX, |all, part| all & part);
        self.write_carried(reg, values, all, active);
        if active & !all != 0 {
            let others = self.carry(reg).1 & !active;
            self.packed.push((reg, defined.map(|part| part & active | others)));
        }
    }

    pub(super) fn write_predicate_carried(&mut self, slot: Slot, value: u32, defined: u32, active: u32) {
        self.write_predicate(slot, value, active);
        self.ready_predicates[slot as usize] &= defined | !active;
    }

    /// A predicate's value and the lanes in which it is defined.
    pub(super) fn carry_predicate(&self, by: PredicateUse) -> (u32, u32) {
        let value = self.predicates[by.slot as usize];
        (if by.negated { !value } else { value }, self.ready_predicates[by.slot as usize])
    }
}
