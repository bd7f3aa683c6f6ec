//! How a tile gets from one layout to another: what the algebra of the two says that it takes.
//!
//! Where each thread has already what it is to have, registers are renamed. Otherwise the tile goes through shared memory: of
//! one warp alone, where no warp needs what another holds, else of the program. Where in shared memory an element lies is a
//! linear map again, chosen for both sides ("Linear Layouts", arXiv 2505.23819, section 5): elements that are neighbours in the
//! registers of both sides lie side by side, so that an access takes up to 16 bytes; and the lanes that the hardware serves in
//! one turn are on different banks, in writing and in reading.

use super::Layout;
use super::gf2::{Span, apply, extension, intersection};

/// Bytes that all banks of shared memory give in one turn.
const ROW_BYTES: u32 = 128;
/// Bytes of the widest access of a thread.
const ACCESS_BYTES: u32 = 16;

/// How a tile gets from one layout to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// Register i is the old register of this number.
    Registers(Vec<u32>),
    /// Each warp writes and reads its own part of shared memory.
    Warp(Passage),
    /// All warps write and read.
    Program(Passage),
}

/// A way through shared memory. Places are counted in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The writing.
    pub store: Side,
    /// The reading.
    pub load: Side,
    /// Elements that it takes: of each warp, or of the program.
    pub elements: u32,
}

/// One side: linear maps to places. The place of an access is the XOR of its register's, the lane's and the warp's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Each access's registers, in the order of their places.
    pub accesses: Vec<Vec<u32>>,
    /// The first place of each access.
    pub places: Vec<u32>,
    /// What each bit of the lane adds.
    pub lane: Vec<u32>,
    /// What each bit of the warp adds.
    pub warp: Vec<u32>,
}

impl Exchange {
    /// From `from` to `to`, layouts of one tile, of elements of `bytes` (1, 2, 4 or 8).
    pub fn of(from: &Layout, to: &Layout, bytes: u32) -> Self {
        debug_assert_eq!(from.shape, to.shape);
        if let Some(renamed) = renamed(from, to) {
            return Self::Registers(renamed);
        }
        let held: Vec<u32> = from.reg.iter().chain(&from.lane).copied().collect();
        let inside = Span::of(&held);
        let apart: Vec<u32> = from.warp.iter().zip(&to.warp).map(|(from, to)| from ^ to).collect();
        let is_local = to.reg.iter().chain(&to.lane).chain(&apart).all(|&basis| inside.contains(basis));
        if is_local {
            // Within a warp its own elements are the tile: the warp's part of the index is left out of both sides.
            let from = Layout { warp: vec![0; from.warp.len()], ..from.clone() };
            let to = Layout { warp: apart, ..to.clone() };
            Self::Warp(Passage::of(&from, &to, bytes))
        } else {
            Self::Program(Passage::of(from, to, bytes))
        }
    }
}

/// For each register of `to` the register of `from` that has its element in every thread.
fn renamed(from: &Layout, to: &Layout) -> Option<Vec<u32>> {
    let span = Span::of(&from.reg);
    let apart = from.lane.iter().zip(&to.lane).chain(from.warp.iter().zip(&to.warp));
    // A bit of the thread that changed nothing may stand for anything that all threads have.
    if !apart.into_iter().all(|(from, to)| from == to) {
        return None;
    }
    (0..to.registers()).map(|register| span.solve(to.index(register, 0, 0)).map(|sum| sum as u32)).collect()
}

impl Passage {
    /// What the places begin at a multiple of, in bytes.
    pub const ALIGN: u32 = ACCESS_BYTES;

    fn of(from: &Layout, to: &Layout, bytes: u32) -> Self {
        // An access must start at a place of its width in every thread; single elements always do.
        let widest = (ACCESS_BYTES / bytes).ilog2() as usize;
        let mut tries = (0..=widest).rev().map(|most| Self::within(from, to, bytes, most));
        let found = tries.find(|passage| passage.store.is_aligned() && passage.load.is_aligned());
        found.expect("single elements are aligned")
    }

    /// With up to 2 to the power `most` elements to an access.
    fn within(from: &Layout, to: &Layout, bytes: u32, most: usize) -> Self {
        let mut shared = intersection(&Span::of(&from.reg).basis(), &Span::of(&to.reg).basis());
        shared.sort_unstable();
        shared.truncate(most);
        let (stored, loaded) = (vector(&shared, &from.reg, most), vector(&shared, &to.reg, most));
        // The wider access makes the lowest bits; the other takes of it what both have.
        let (stored, loaded) = if stored.len() >= loaded.len() { (stored, shared) } else { (shared, loaded) };
        Self::by(from, to, bytes, &stored, &loaded, 0)
    }

    /// A way for copies from memory, which have up to `run` elements (a power of two) as they lie in the lowest registers of `from`.
    pub fn copied(from: &Layout, to: &Layout, bytes: u32, run: u32) -> Option<Self> {
        let most = run.min(ACCESS_BYTES / bytes).ilog2() as usize;
        let tries = (0..=most.min(from.reg.len())).rev().map(|most| {
            let stored = &from.reg[..most];
            let taken = stored.iter().take_while(|basis| to.reg.contains(basis)).count();
            Self::by(from, to, bytes, stored, &stored[..taken], most)
        });
        let mut whole = tries.filter(|passage| passage.store.is_whole() && passage.load.is_aligned());
        whole.next()
    }

    /// With these accesses, of which one is the beginning of the other. Of what is stored at once the first `kept` vectors stay in
    /// their order in every access.
    fn by(from: &Layout, to: &Layout, bytes: u32, stored: &[u32], loaded: &[u32], kept: usize) -> Self {
        let row = (ROW_BYTES / bytes).ilog2() as usize;
        // What one turn writes, and what one turn reads: these are to be on different banks.
        let (written, read) = (turn(stored, &from.lane, row), turn(loaded, &to.lane, row));
        let all: Vec<u32> = [from, to]
            .iter()
            .flat_map(|layout| layout.reg.iter().chain(&layout.lane).chain(&layout.warp))
            .copied()
            .collect();
        let basis = if stored.len() >= loaded.len() {
            places(&written, &read, &all, row, kept)
        } else {
            places(&read, &written, &all, row, kept)
        };
        let span = Span::of(&basis);
        let place = |basis: u32| span.solve(basis).expect("the basis spans all that is held") as u32;
        Self {
            store: Side::of(from, stored.len(), place),
            load: Side::of(to, loaded.len(), place),
            elements: 1 << basis.len(),
        }
    }
}

/// `first`, and then registers' vectors, those of the lowest numbers first, up to `most`: what one access may take.
fn vector(first: &[u32], reg: &[u32], most: usize) -> Vec<u32> {
    let mut all = first.to_vec();
    all.extend(extension(first, reg.iter().copied()));
    all.truncate(most);
    all
}

/// What is on the banks in one turn: an access, and the lowest lanes that fill the row with it.
fn turn(access: &[u32], lanes: &[u32], row: usize) -> Vec<u32> {
    let mut all = access.to_vec();
    for &lane in lanes {
        if all.len() == row {
            break;
        }
        all.extend(extension(&all, [lane]));
    }
    all
}

/// A basis of the span of `all` in the order of the places' bits: the lowest `row` bits are banks. The turn `one` comes first,
/// and each vector of `other` that is not in `one` goes to the bank of one of `one` that is not in `other`, so that either is
/// alone there; but not to the banks of the first `kept` of one.
fn places(one: &[u32], other: &[u32], all: &[u32], row: usize, kept: usize) -> Vec<u32> {
    let mut low = one.to_vec();
    let both = intersection(one, other);
    let mut free = extension(&both, one.iter().copied());
    free.retain(|vector| !one[..kept].contains(vector));
    let mut high: Vec<u32> = Vec::new();
    for vector in extension(one, other.iter().copied()) {
        // The highest bit first: the lowest are those of an access.
        match free.pop() {
            Some(partner) => high.push(vector ^ partner),
            None if low.len() < row => low.push(vector),
            None => high.push(vector),
        }
    }
    let mut basis = low;
    basis.extend(high);
    let rest = extension(&basis, all.iter().copied());
    basis.extend(rest);
    basis
}

impl Side {
    /// True when each access begins at a multiple of its width in every thread.
    fn is_aligned(&self) -> bool {
        let width = self.accesses.first().map_or(1, Vec::len) as u32;
        self.lane.iter().chain(&self.warp).all(|place| place % width == 0)
    }

    /// True when each access begins at a multiple of its width, and takes as much.
    pub(super) fn is_whole(&self) -> bool {
        self.is_aligned() && self.accesses.iter().all(|members| members.len() == self.accesses[0].len())
    }

    pub(super) fn of(layout: &Layout, width: usize, place: impl Fn(u32) -> u32) -> Self {
        let registers: Vec<u32> = layout.reg.iter().map(|&basis| place(basis)).collect();
        let count = 1_u32 << width;
        let mut accesses: Vec<(u32, Vec<u32>)> = Vec::new();
        for register in 0..layout.registers() {
            let at = apply(&registers, register);
            let first = at & !(count - 1);
            match accesses.iter_mut().find(|(place, _)| *place == first) {
                Some((_, members)) => members.push(register),
                None => accesses.push((first, vec![register])),
            }
        }
        for (_, members) in &mut accesses {
            members.sort_by_key(|&register| apply(&registers, register));
            members.dedup_by_key(|register| apply(&registers, *register));
        }
        let (places, accesses) = accesses.into_iter().unzip();
        Self {
            accesses,
            places,
            lane: layout.lane.iter().map(|&basis| place(basis)).collect(),
            warp: layout.warp.iter().map(|&basis| place(basis)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::tensor::{Mma, Order};
    use crate::tile::Shape;

    fn shape(dims: &[u32]) -> Shape {
        Shape::new(dims).unwrap()
    }

    fn blocked(dims: &[u32], per_thread: u32, order: &[usize], warps: u32) -> Layout {
        Layout::blocked(shape(dims), per_thread, order, warps)
    }

    /// Pairs of layouts of one tile, with the bytes of an element.
    fn pairs() -> Vec<(Layout, Layout, u32)> {
        let mut all = Vec::new();
        for warps in [1, 4, 8] {
            for dims in [[16, 16], [16, 64], [128, 32], [128, 128], [32, 32]] {
                let [rows, columns] = [blocked(&dims, 4, &[1, 0], warps), blocked(&dims, 4, &[0, 1], warps)];
                let scalar = blocked(&dims, 1, &[1, 0], warps);
                let sum = Mma::sum(shape(&dims), warps);
                for (from, to) in [(&rows, &columns), (&columns, &rows), (&rows, &sum), (&sum, &rows), (&scalar, &rows)]
                {
                    all.extend([1, 2, 4, 8].map(|bytes| (from.clone(), to.clone(), bytes)));
                }
                for (packed, bytes) in [(1, 4), (2, 2)] {
                    let mma = Mma { packed, name: "", right: "", scaled: false };
                    if dims[1] >= mma.depth() {
                        let columns = shape(&[dims[1], dims[0].max(8)]);
                        let sum = Mma::sum(shape(&[dims[0], columns.dims()[1]]), warps);
                        let order = Order::plain(mma, dims[1]);
                        let (a, _) = mma.operands(shape(&dims), columns, &sum, &order);
                        all.push((rows.clone(), a.clone(), bytes));
                    }
                }
            }
        }
        all
    }

    /// Memory after one side has written its elements' indices, and what the other reads.
    fn check(from: &Layout, to: &Layout, passage: &Passage, local: bool) {
        let mut memory = std::collections::HashMap::new();
        let warps = 1 << from.warp.len();
        let place = |side: &Side, at: usize, lane: u32, warp: u32| {
            side.places[at] ^ apply(&side.lane, lane) ^ apply(&side.warp, warp)
        };
        for warp in 0..warps {
            for lane in 0..32 {
                for (at, registers) in passage.store.accesses.iter().enumerate() {
                    let first = place(&passage.store, at, lane, warp);
                    assert_eq!(first % registers.len() as u32, 0);
                    for (offset, &register) in registers.iter().enumerate() {
                        let place = first + offset as u32;
                        assert!(place < passage.elements);
                        let index = from.index(register, lane, warp);
                        let before = memory.insert((if local { warp } else { 0 }, place), index);
                        assert!(before.is_none_or(|before| before == index));
                    }
                }
            }
        }
        for warp in 0..warps {
            for lane in 0..32 {
                let mut seen = 0;
                for (at, registers) in passage.load.accesses.iter().enumerate() {
                    let first = place(&passage.load, at, lane, warp);
                    for (offset, &register) in registers.iter().enumerate() {
                        let found = memory[&(if local { warp } else { 0 }, first + offset as u32)];
                        assert_eq!(found, to.index(register, lane, warp));
                        seen += 1;
                    }
                }
                assert_eq!(seen, to.registers());
            }
        }
    }

    #[test]
    fn every_element_arrives() {
        for (from, to, bytes) in pairs() {
            match Exchange::of(&from, &to, bytes) {
                Exchange::Registers(renamed) => {
                    for (register, &old) in renamed.iter().enumerate() {
                        assert_eq!(from.index(old, 5, 0), to.index(register as u32, 5, 0));
                    }
                }
                Exchange::Warp(passage) => check(&from, &to, &passage, true),
                Exchange::Program(passage) => check(&from, &to, &passage, false),
            }
        }
    }

    #[test]
    fn copies_arrive_in_runs_as_they_lie_in_registers() {
        for (from, to, bytes) in pairs() {
            let Some(passage) = Passage::copied(&from, &to, bytes, 8) else { continue };
            check(&from, &to, &passage, false);
            for members in &passage.store.accesses {
                assert!(members.iter().zip(members[0]..).all(|(&member, at)| member == at), "{members:?}");
            }
        }
    }

    /// The most different words of one bank that the lanes of a turn touch.
    fn conflicts(side: &Side, bytes: u32) -> usize {
        let width = side.accesses[0].len() as u32 * bytes;
        let lanes = (ROW_BYTES / width).min(32);
        let mut banks = vec![std::collections::HashSet::new(); 32];
        for lane in 0..lanes {
            let first = (side.places[0] ^ apply(&side.lane, lane)) * bytes;
            for word in first / 4..=(first + width - 1) / 4 {
                banks[word as usize % 32].insert(word);
            }
        }
        banks.iter().map(|words| words.len()).max().unwrap()
    }

    #[test]
    fn no_bank_serves_two_lanes_in_a_turn() {
        for (from, to, bytes) in pairs() {
            if let Exchange::Warp(passage) | Exchange::Program(passage) = Exchange::of(&from, &to, bytes) {
                assert_eq!(conflicts(&passage.store, bytes), 1, "writing {from:?}, to {to:?}, {bytes} bytes");
                assert_eq!(conflicts(&passage.load, bytes), 1, "reading {to:?}, from {from:?}, {bytes} bytes");
            }
        }
    }

    #[test]
    fn what_threads_have_is_renamed() {
        let layout = blocked(&[16, 64], 4, &[1, 0], 4);
        let mut turned = layout.clone();
        turned.reg.reverse();
        assert!(matches!(Exchange::of(&layout, &turned, 4), Exchange::Registers(_)));
        assert_eq!(Exchange::of(&layout, &layout, 4), Exchange::Registers((0..layout.registers()).collect()));
    }
}
