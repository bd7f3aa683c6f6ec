//! What a view of a kernel needs beside its code: the names of registers, and those that each instruction writes.

use crate::emulate::program::{Reg, Slot};

/// A register as the text declares it.
#[derive(Debug)]
pub(in crate::emulate) struct Declared {
    pub name: String,
    pub reg: Reg,
    /// 1 for a predicate.
    pub bits: u32,
    /// Where its declaration starts, in bytes of the text.
    pub start: u32,
}

/// The registers of a kernel in the order of their declarations.
#[derive(Debug, Default)]
pub(in crate::emulate) struct Listing {
    pub registers: Vec<Declared>,
    /// For each slot of each bank, its place in `registers`, if it has a name: constants have none.
    places: [Vec<Option<u32>>; 3],
    /// For each instruction, the registers that it writes.
    pub writes: Vec<Vec<Reg>>,
}

impl Listing {
    pub fn declare(&mut self, name: String, reg: Reg, bits: u32, start: u32) {
        let (bank, slot) = bank(reg);
        let places = &mut self.places[bank];
        places.resize(places.len().max(slot as usize + 1), None);
        places[slot as usize] = Some(self.registers.len() as u32);
        self.registers.push(Declared { name, reg, bits, start });
    }

    /// The declaration of a register; `None` for one that holds a constant.
    pub fn declared(&self, reg: Reg) -> Option<&Declared> {
        let (bank, slot) = bank(reg);
        let place = self.places[bank].get(slot as usize).copied().flatten()?;
        self.registers.get(place as usize)
    }

    /// Notes what the next instruction writes.
    pub fn note_writes(&mut self, mut written: Vec<Reg>) {
        let mut seen = Vec::with_capacity(written.len());
        written.retain(|reg| {
            !seen.contains(reg) && {
                seen.push(*reg);
                true
            }
        });
        self.writes.push(written);
    }
}

fn bank(reg: Reg) -> (usize, Slot) {
    match reg {
        Reg::R32(slot) => (0, slot),
        Reg::R64(slot) => (1, slot),
        Reg::Pred(slot) => (2, slot),
    }
}
