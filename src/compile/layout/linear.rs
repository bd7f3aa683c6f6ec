//! Layouts as linear maps over bits.

use crate::tile::Shape;

/// Where the elements of a tile are: a linear map over GF(2) from the bits of (register, lane, warp) to the bits of the
/// element's row-major index. Every extent is a power of two, so the index's bits are the coordinates' bits side by side, the
/// last axis lowest. A basis of 0 means that the bit changes nothing: several places hold the same element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The tile.
    pub shape: Shape,
    /// What each bit of the register's number adds, lowest bit first.
    pub reg: Vec<u32>,
    /// What each of the five bits of the lane adds.
    pub lane: Vec<u32>,
    /// What each bit of the warp's number adds.
    pub warp: Vec<u32>,
}

fn combined(bases: &[u32], index: u32) -> u32 {
    bases.iter().enumerate().filter(|(bit, _)| index >> bit & 1 == 1).fold(0, |sum, (_, basis)| sum ^ basis)
}

impl Layout {
    /// The row-major index of the element in register `reg` of `lane` of `warp`.
    pub fn index(&self, reg: u32, lane: u32, warp: u32) -> u32 {
        combined(&self.reg, reg) ^ combined(&self.lane, lane) ^ combined(&self.warp, warp)
    }

    /// Registers that a thread holds.
    pub fn registers(&self) -> u32 {
        1 << self.reg.len()
    }

    /// For each axis, the place of its lowest bit in the index.
    pub fn shifts(shape: Shape) -> Vec<u32> {
        let mut shifts = vec![0; shape.rank()];
        for axis in (0..shape.rank() - 1).rev() {
            shifts[axis] = shifts[axis + 1] + shape.dims()[axis + 1].trailing_zeros();
        }
        shifts
    }

    /// Registers along the fastest axis of `order` first (at most `per_thread`), then lanes and warps, then registers again:
    /// each thread's run in memory is next to its neighbour's.
    pub fn blocked(shape: Shape, per_thread: u32, order: &[usize], num_warps: u32) -> Self {
        let shifts = Self::shifts(shape);
        let mut bits = order
            .iter()
            .flat_map(|&axis| (0..shape.dims()[axis].trailing_zeros()).map(move |bit| (axis, bit)))
            .map(|(axis, bit)| 1_u32 << (shifts[axis] + bit));
        let in_run = per_thread.min(shape.dims()[order[0]]).trailing_zeros() as usize;
        let mut take = |count: usize| -> Vec<u32> { bits.by_ref().take(count).collect() };
        let mut reg = take(in_run);
        let mut lane = take(5);
        let mut warp = take(num_warps.trailing_zeros() as usize);
        reg.extend(bits);
        lane.resize(5, 0);
        warp.resize(num_warps.trailing_zeros() as usize, 0);
        Self { shape, reg, lane, warp }
    }

    /// The layout with every basis changed by `change`, for the tile `shape`; registers that then hold what another holds
    /// are dropped.
    fn mapped(&self, shape: Shape, change: impl Fn(u32) -> u32) -> Self {
        let all = |bases: &[u32]| bases.iter().map(|&basis| change(basis)).collect::<Vec<_>>();
        let mut reg = all(&self.reg);
        reg.retain(|&basis| basis != 0);
        Self { shape, reg, lane: all(&self.lane), warp: all(&self.warp) }
    }

    /// Of a tile with an axis of extent 1 put in or taken out, or reshaped: the row-major index is the same.
    pub fn reshaped(&self, shape: Shape) -> Self {
        self.mapped(shape, |basis| basis)
    }

    /// Where the elements of a tile of `narrow` extents must be, so that repeating them along the axes of extent 1 gives this
    /// layout: the bits of those axes drop out.
    pub fn before_broadcast(&self, narrow: Shape) -> Self {
        let (from, to) = (Self::shifts(self.shape), Self::shifts(narrow));
        self.mapped(narrow, |basis| {
            (0..narrow.rank()).fold(0, |sum, axis| {
                let coordinate = basis >> from[axis] & (self.shape.dims()[axis] - 1);
                sum | (coordinate & (narrow.dims()[axis] - 1)) << to[axis]
            })
        })
    }

    /// Of the tile without `axis`: what is left when it is reduced. `None` for a tile of one axis.
    pub fn without_axis(&self, axis: usize) -> Option<Self> {
        let narrow = self.shape.removed(axis)?;
        let mut one = self.shape.dims().to_vec();
        one[axis] = 1;
        let one = Shape::new(&one).ok()?;
        Some(self.before_broadcast(one).reshaped(narrow))
    }

    /// Of the transposed tile: axis i of it is axis `order[i]` of this.
    pub fn transposed(&self, order: &[u32]) -> Self {
        let dims: Vec<u32> = order.iter().map(|&axis| self.shape.dims()[axis as usize]).collect();
        let shape = Shape::new(&dims).expect("a permutation of a shape is a shape");
        let (from, to) = (Self::shifts(self.shape), Self::shifts(shape));
        self.mapped(shape, |basis| {
            order.iter().enumerate().fold(0, |sum, (axis, &old)| {
                let old = old as usize;
                sum | (basis >> from[old] & (self.shape.dims()[old] - 1)) << to[axis]
            })
        })
    }

    /// The bits of lane and warp that change nothing: threads in which one of them is set hold what another thread holds.
    pub fn repeated(&self) -> (u32, u32) {
        let mut seen: Vec<u32> = Vec::new();
        let mut known = |basis: u32| {
            let reduced = seen.iter().fold(basis, |rest, &pivot| rest.min(rest ^ pivot));
            if reduced != 0 {
                seen.push(reduced);
            }
            reduced == 0
        };
        self.reg.iter().for_each(|&basis| {
            known(basis);
        });
        let mask = |bases: &[u32], known: &mut dyn FnMut(u32) -> bool| {
            bases.iter().enumerate().fold(0, |mask, (bit, &basis)| mask | u32::from(known(basis)) << bit)
        };
        let lanes = mask(&self.lane, &mut known);
        let warps = mask(&self.warp, &mut known);
        (lanes, warps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: &[u32]) -> Shape {
        Shape::new(dims).unwrap()
    }

    fn elements(layout: &Layout) -> Vec<u32> {
        let mut all: Vec<u32> = (0..1 << layout.warp.len())
            .flat_map(|warp| (0..32).flat_map(move |lane| (0..layout.registers()).map(move |reg| (warp, lane, reg))))
            .map(|(warp, lane, reg)| layout.index(reg, lane, warp))
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn blocked_layouts_hold_every_element() {
        for dims in [&[1][..], &[16], &[4096], &[128, 32], &[2, 4, 8], &[1, 64]] {
            let shape = shape(dims);
            for per_thread in [1, 2, 4, 8] {
                for warps in [1, 4, 8] {
                    let order: Vec<usize> = (0..dims.len()).rev().collect();
                    let layout = Layout::blocked(shape, per_thread, &order, warps);
                    assert_eq!(elements(&layout), (0..shape.elements()).collect::<Vec<_>>(), "{dims:?}");
                }
            }
        }
    }

    #[test]
    fn transposes_and_slices_name_the_same_elements() {
        let layout = Layout::blocked(shape(&[8, 64]), 4, &[1, 0], 2);
        let turned = layout.transposed(&[1, 0]);
        let column = layout.without_axis(1).unwrap();
        for (reg, lane, warp) in [(0, 0, 0), (3, 7, 1), (2, 31, 0)] {
            let index = layout.index(reg, lane, warp);
            let (row, col) = (index / 64, index % 64);
            assert_eq!(turned.index(reg, lane, warp), col * 8 + row);
            assert_eq!(column.index(0, lane, warp), layout.index(0, lane, warp) / 64);
            assert!(row < 8 && col < 64);
        }
        assert_eq!(column.registers(), 2);
    }

    #[test]
    fn threads_that_repeat_others_are_named() {
        let small = Layout::blocked(shape(&[16]), 1, &[0], 4);
        assert_eq!(small.repeated(), (0b10000, 0b11));
        let full = Layout::blocked(shape(&[128]), 1, &[0], 4);
        assert_eq!(full.repeated(), (0, 0));
    }
}
