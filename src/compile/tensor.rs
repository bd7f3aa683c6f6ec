//! Where the operands and the sum of `mma.sync` are.
//!
//! One instruction makes 16×8 of the sum from 16×k and k×8, where k is 256 bits: 8 of TF32, 16 of halves. In each operand a
//! register of 32 bits holds one, two or four neighbours along k. With `g = lane / 4`, `t = lane % 4` and `w` elements to a
//! register (PTX ISA, "Matrix fragments for mma.m16n8k…"):
//!
//! | fragment | row or column | the other |
//! |---|---|---|
//! | a | row `g`, `+8` by register bit 0 | k = `w·t + element`, `+4w` by register bit 1 |
//! | b | column `g` | k = `w·t + element`, `+4w` by register bit 0 |
//! | sum | row `g`, `+8` by register bit 1 | column `2t + register bit 0` |
//!
//! Tiles of more: the sum's warps go along rows and columns so that each has a part as square as can be; what is left is registers.
//!
//! `wgmma` makes 64×n of the sum with four warps, each 16 of the rows, the fragments those of the table; both operands are in shared
//! memory, where matrix descriptors find them. Its operands of 32 bits or 8 must have k contiguous there.
//!
//! `tcgen05.mma` makes 128×n or 64×n of the sum at the order of one thread. Its operands lie as those of `wgmma`; the sum is in tensor
//! memory, 128 lanes of which each warp reaches the quarter that its number modulo 4 says (PTX ISA, "Data path layouts"):
//!
//! | rows | lane | what a thread reads |
//! |---|---|---|
//! | 128 | the row (layout D) | `32x32b`: its lane's row, register = column |
//! | 64 | 32·(row / 16) + row % 16 (layout F) | `16x256b`: the fragment of the table above |

use super::layout::{Layout, Major, Swizzled};
use crate::ptx::Arch;
use crate::tile::{InputPrecision, Scalar, Shape, Type};

/// How a product is made on tensor cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Product {
    /// The instruction's type and depth.
    pub(super) mma: Mma,
    /// What issues it.
    pub(super) engine: Engine,
}

/// What issues the instructions of a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// `mma.sync`: each warp, of operands in its registers, which take k in this order.
    Warps(Order),
    /// `wgmma`: four warps, of operands in these places in shared memory.
    Groups([Swizzled; 2]),
    /// `tcgen05.mma`: one thread, of operands in these places in shared memory.
    TensorMemory([Swizzled; 2]),
}

/// Rows of the sum that one `wgmma` makes.
pub(super) const GROUP_ROWS: u32 = 64;

/// Numbers of the sum in a thread's registers at most: two of 64×128, or one of 64×256, which is the widest that `wgmma` makes.
const GROUP_SUMS: u32 = 128;

/// Which bits of k the places of a fragment have. A sum over k may be made in any order, if both operands agree on it: one in which a
/// thread has what it holds already, or neighbours in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// In a register of 32 bits, its neighbour, and the instructions after it: what bits of the register's number add to k.
    reg: Vec<u32>,
    /// What the lane's two lowest bits add.
    lane: [u32; 2],
}

impl Order {
    /// The instruction's own: from the first k to the last.
    pub(super) fn plain(mma: Mma, k: u32) -> Self {
        let packed = mma.packed;
        let reg = (1..packed).chain(4 * packed..k).filter(|bit| bit.is_power_of_two()).collect();
        Self { reg, lane: [packed, 2 * packed] }
    }

    /// Each thread takes up to `run` neighbours.
    pub(super) fn in_runs(k: u32, run: u32) -> Self {
        let run = run.min(k / 4);
        let reg = (1..run).chain(4 * run..k).filter(|bit| bit.is_power_of_two()).collect();
        Self { reg, lane: [run, 2 * run] }
    }

    /// The order in which `held` is an operand (the left one, or the right) of a product with this sum already, if there is one.
    pub(super) fn of_held(mma: Mma, held: &Layout, left: bool, sum: &Layout) -> Option<Self> {
        let [m, n] = [0, 1].map(|axis| sum.shape.dims()[axis]);
        let [rows, columns] = [0, 1].map(|axis| held.shape.dims()[axis]);
        let k = if left { columns } else { rows };
        let single = |basis: &u32| {
            let at = if left { *basis } else { basis / n };
            let is_along = if left { *basis < k } else { basis.is_multiple_of(n) };
            (is_along && at.is_power_of_two()).then_some(at)
        };
        let reg: Vec<u32> = held.reg.iter().filter_map(single).collect();
        let lane = [single(&held.lane[0])?, single(&held.lane[1])?];
        let order = Self { reg, lane };
        let mut all: Vec<u32> = order.reg.iter().chain(&order.lane).copied().collect();
        all.sort_unstable();
        let is_whole =
            all.len() as u32 == k.trailing_zeros() && all.iter().enumerate().all(|(at, &bit)| bit == 1 << at);
        if !is_whole || (1 << order.reg.len()) < 2 * mma.packed {
            return None;
        }
        let shape = |dims: [u32; 2]| Shape::new(&dims).ok();
        let (a, b) = mma.operands(shape([m, k])?, shape([k, n])?, sum, &order);
        let needed = if left { a } else { b };
        let sorted = |layout: &Layout| {
            let mut reg = layout.reg.clone();
            reg.sort_unstable();
            reg
        };
        let is_held = needed.lane == held.lane && needed.warp == held.warp && sorted(&needed) == sorted(held);
        is_held.then_some(order)
    }
}

/// Columns of tensor memory.
pub(super) const TENSOR_COLUMNS: u32 = 512;
/// Columns of the sum that one `tcgen05.mma` makes at most.
const BLOCK_COLUMNS: u32 = 256;

/// The layout in which threads put the scales of rows (rows × groups of 32 along k) into tensor memory: lane = row modulo 32, the same in
/// every warp; in each word four groups, then words of 32 rows each, then more groups (PTX ISA, "Scale factor layout", `scale_vec::1X`).
pub(super) fn scales(shape: Shape, num_warps: u32) -> Layout {
    let (rows, groups) = (shape.dims()[0], shape.dims()[1]);
    let bits = |from: u32, to: u32| (from..to).filter(|bit| bit.is_power_of_two());
    let mut reg: Vec<u32> = bits(1, groups.min(4)).collect();
    reg.extend(bits(32, rows).map(|row| row * groups));
    reg.extend(bits(4, groups));
    let mut lane: Vec<u32> = bits(1, rows.min(32)).map(|row| row * groups).collect();
    lane.resize(5, 0);
    Layout { shape, reg, lane, warp: vec![0; num_warps.trailing_zeros() as usize] }
}

/// Columns of tensor memory that the scales of four groups of k take, of `rows` rows.
pub(super) fn scale_columns(rows: u32) -> u32 {
    (rows / 32).max(4)
}

/// Whether Blackwell makes the product (m×k by k×n) of elements of so many bytes in tensor memory: the sum has its place there, and the
/// operands, each from a multiple of what swizzles ask for, have theirs in shared memory.
fn in_tensor_memory([m, k, n]: [u32; 3], bytes: u32, num_warps: u32) -> bool {
    let room = Arch::Sm100a.max_shared_bytes() - 2 * Swizzled::ALIGN;
    tensor_sum(m, n, num_warps).is_some() && (m + n) * k * bytes <= room
}

/// Whether the product (m×k by k×n) of bytes is made in tensor memory.
pub(super) fn takes_bytes(extents: [u32; 3], arch: Arch, num_warps: u32) -> bool {
    arch == Arch::Sm100a && extents[1] >= 32 && in_tensor_memory(extents, 1, num_warps)
}

/// The same where rows have scales: these need whole blocks of 128 rows, and room for themselves.
pub(super) fn takes_scaled([m, k, n]: [u32; 3], arch: Arch, num_warps: u32) -> bool {
    let columns = m / 128 * n + k.div_ceil(128) * (scale_columns(m) + scale_columns(n));
    takes_bytes([m, k, n], arch, num_warps) && block_rows(m, n) == 128 && columns <= TENSOR_COLUMNS
}

/// Rows of the sum (m×n) that one `tcgen05.mma` makes: 128 where it can, of which n is then a multiple of 16 (PTX ISA, "Matrix shape").
pub(super) fn block_rows(m: u32, n: u32) -> u32 {
    if m >= 128 && n >= 16 { 128 } else { 64 }
}

impl Product {
    /// The best there is on `arch` for a product of `a` (m×k) and `b` (k×n), whose elements lie in registers along `along`.
    pub(super) fn choose(mma: Mma, a: Shape, b: Shape, along: [Major; 2], arch: Arch, num_warps: u32) -> Self {
        let (m, k, n) = (a.dims()[0], a.dims()[1], b.dims()[1]);
        let places = |along: [Major; 2]| {
            let bytes = 4 / mma.packed;
            let place = |rows: u32, along: Major| {
                Swizzled::new(rows, k, bytes, along).or_else(|| Swizzled::new(rows, k, bytes, Major::Depth))
            };
            Some([place(m, along[0])?, place(n, along[1])?])
        };
        let by_depth = [Major::Depth; 2];
        let engine = match arch {
            Arch::Sm90a if mma.group_sum(m, n, num_warps).is_some() && (mma.packed == 2 || along == by_depth) => {
                places(along).map(Engine::Groups)
            }
            // `mma.sync` is so much slower there that writing operands of 32 bits across is worth it.
            Arch::Sm100a if in_tensor_memory([m, k, n], 4 / mma.packed, num_warps) => {
                places(if mma.packed == 2 { along } else { by_depth }).map(Engine::TensorMemory)
            }
            _ => None,
        };
        Self { mma, engine: engine.unwrap_or_else(|| Engine::Warps(Order::plain(mma, k))) }
    }

    /// The sum's layout.
    pub(super) fn sum(&self, shape: Shape, num_warps: u32) -> Layout {
        let (m, n) = (shape.dims()[0], shape.dims()[1]);
        let of_engine = match self.engine {
            Engine::Groups(_) => self.mma.group_sum(m, n, num_warps),
            Engine::TensorMemory(_) => tensor_sum(m, n, num_warps),
            Engine::Warps(_) => None,
        };
        of_engine.map_or_else(|| Mma::sum(shape, num_warps), |bases| Layout { shape, ..bases })
    }

    /// Columns of tensor memory that the sum (m×n) takes: its blocks of rows lie side by side.
    pub(super) fn columns(&self, m: u32, n: u32) -> u32 {
        match self.engine {
            Engine::TensorMemory(_) => m / block_rows(m, n) * n,
            _ => 0,
        }
    }

    /// Columns that its scales take.
    pub(super) fn scale_columns(&self, [m, k, n]: [u32; 3]) -> u32 {
        if self.mma.scaled { k.div_ceil(128) * (scale_columns(m) + scale_columns(n)) } else { 0 }
    }
}

/// The layout in which threads read a sum (m×n) from tensor memory: warps beyond the fourth take other blocks of rows, and then a part of
/// the columns. `None` where it has no place there, or the warps do not come out even.
fn tensor_sum(m: u32, n: u32, num_warps: u32) -> Option<Layout> {
    let shape = Shape::new(&[m, n]).ok()?;
    let rows = block_rows(m, n);
    if num_warps < 4 || m < rows || !(8..=BLOCK_COLUMNS).contains(&n) || m / rows * n > TENSOR_COLUMNS {
        return None;
    }
    let whole = rows == 128;
    let mut blocks = (rows..m).filter(|row| row.is_power_of_two()).map(|row| row * n);
    let mut cols: Vec<u32> = (if whole { 1 } else { 8 }..n).filter(|col| col.is_power_of_two()).collect();
    let mut warp = vec![rows / 4 * n, rows / 2 * n];
    while warp.len() < num_warps.trailing_zeros() as usize {
        warp.push(blocks.next().or_else(|| cols.pop())?);
    }
    let mut reg = if whole { Vec::new() } else { vec![1, 8 * n] };
    reg.extend(cols);
    reg.extend(blocks);
    let lane = if whole { vec![n, 2 * n, 4 * n, 8 * n, 16 * n] } else { vec![2, 4, n, 2 * n, 4 * n] };
    Some(Layout { shape, reg, lane, warp })
}

/// PTX's name of FP8.
fn byte_name(ty: Type) -> Option<&'static str> {
    match ty.number()? {
        Scalar::F8E4M3 => Some("e4m3"),
        Scalar::F8E5M2 => Some("e5m2"),
        _ => None,
    }
}

/// The product of a `tt.dot` on tensor cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mma {
    /// Elements to a register of 32 bits.
    pub(super) packed: u32,
    /// PTX's name of the operands' type: a's, where they are of FP8.
    pub(super) name: &'static str,
    /// Of b's type.
    pub(super) right: &'static str,
    /// Rows of a and columns of b have a scale for every 32 along k.
    pub(super) scaled: bool,
}

impl Mma {
    /// The instruction for `a` times `b` onto `c`, or `None` where there is none.
    pub(super) fn of(a: Type, b: Type, c: Type, precision: InputPrecision) -> Option<Self> {
        let (Type::Tile(left, _), Type::Tile(right, _)) = (a, b) else { return None };
        if left.rank() != 2 || c.number() != Some(Scalar::F32) {
            return None;
        }
        // What of bytes is no product in tensor memory has been made one of halves (`decompose`).
        if let (Some(name), Some(right)) = (byte_name(a), byte_name(b)) {
            return Some(Self { packed: 4, name, right, scaled: false });
        }
        if a.number() != b.number() {
            return None;
        }
        let (packed, name) = match (a.number()?, precision) {
            (Scalar::F32, InputPrecision::Tf32 | InputPrecision::Tf32x3) => (1, "tf32"),
            (Scalar::F16, _) => (2, "f16"),
            (Scalar::Bf16, _) => (2, "bf16"),
            _ => return None,
        };
        let fits = left.dims()[0] >= 16 && right.dims()[1] >= 8 && left.dims()[1] >= 8 * packed;
        fits.then_some(Self { packed, name, right: name, scaled: false })
    }

    /// k of one instruction.
    pub(super) fn depth(self) -> u32 {
        8 * self.packed
    }

    /// The sum's layout over `num_warps` warps.
    pub(super) fn sum(shape: Shape, num_warps: u32) -> Layout {
        let (m, n) = (shape.dims()[0], shape.dims()[1]);
        let mut rows = (16..m).filter(|row| row.is_power_of_two()).map(|row| row * n).peekable();
        let mut cols = (8..n).filter(|col| col.is_power_of_two()).peekable();
        // Each warp's part as square as can be: it reads its rows of a and its columns of b.
        let (mut height, mut width) = (m, n);
        let mut warp = Vec::new();
        for _ in 0..num_warps.trailing_zeros() {
            let by_rows = rows.peek().is_some() && (height >= width || cols.peek().is_none());
            let basis = if by_rows { rows.next() } else { cols.next() };
            *(if by_rows { &mut height } else { &mut width }) /= 2;
            warp.push(basis.unwrap_or(0));
        }
        let mut reg = vec![1, 8 * n];
        reg.extend(cols);
        reg.extend(rows);
        Layout { shape, reg, lane: vec![2, 4, n, 2 * n, 4 * n], warp }
    }

    /// The sum's layout (m×n) over groups of four warps: each 64 rows at a time, and all columns, or a part of them where groups are
    /// more than rows. `None` where the groups do not come out even.
    fn group_sum(self, m: u32, n: u32, num_warps: u32) -> Option<Layout> {
        let shape = Shape::new(&[m, n]).ok()?;
        let mut rows = (GROUP_ROWS..m).filter(|row| row.is_power_of_two()).map(|row| row * n);
        let mut cols: Vec<u32> = (8..n).filter(|col| col.is_power_of_two()).collect();
        if num_warps < 4 || m < GROUP_ROWS {
            return None;
        }
        let mut warp = vec![16 * n, 32 * n];
        while warp.len() < num_warps.trailing_zeros() as usize {
            warp.push(rows.next().or_else(|| cols.pop())?);
        }
        let mut reg = vec![1, 8 * n];
        reg.extend(cols);
        reg.extend(rows);
        // More would not stay in registers while the product is made.
        let fits = 1 << reg.len() <= GROUP_SUMS;
        fits.then_some(Layout { shape, reg, lane: vec![2, 4, n, 2 * n, 4 * n], warp })
    }

    /// The layouts of a (m×k) and b (k×n) that go with the sum's, k taken in `order`.
    pub(super) fn operands(self, a: Shape, b: Shape, sum: &Layout, order: &Order) -> (Layout, Layout) {
        let (k, n) = (a.dims()[1], b.dims()[1]);
        let (inside, outside) = order.reg.split_at(self.packed.trailing_zeros() as usize);
        let rows = |basis: u32| basis / n * k;
        let cols = |basis: u32| basis % n;
        let others = |of: &dyn Fn(u32) -> u32| {
            sum.reg[2..].iter().map(|&basis| of(basis)).filter(|&basis| basis != 0).collect::<Vec<_>>()
        };
        let mut left = inside.to_vec();
        left.push(8 * k);
        left.extend(outside);
        left.extend(others(&rows));
        let mut right: Vec<u32> = order.reg.iter().map(|bit| bit * n).collect();
        right.extend(others(&cols));
        let warp = |of: &dyn Fn(u32) -> u32| sum.warp.iter().map(|&basis| of(basis)).collect::<Vec<_>>();
        let [first, second] = order.lane;
        (
            Layout { shape: a, reg: left, lane: vec![first, second, k, 2 * k, 4 * k], warp: warp(&rows) },
            Layout { shape: b, reg: right, lane: vec![first * n, second * n, 1, 2, 4], warp: warp(&cols) },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: [u32; 2]) -> Shape {
        Shape::new(&dims).unwrap()
    }

    #[test]
    fn fragments_are_those_of_the_isa() {
        for (packed, name) in [(1, "tf32"), (2, "f16")] {
            let mma = Mma { packed, name, right: name, scaled: false };
            let (m, n, k) = (32, 16, 4 * mma.depth());
            let sum = Mma::sum(shape([m, n]), 2);
            let (a, b) = mma.operands(shape([m, k]), shape([k, n]), &sum, &Order::plain(mma, k));
            for lane in 0..32 {
                let (g, t) = (lane / 4, lane % 4);
                for reg in 0..4 {
                    assert_eq!(sum.index(reg, lane, 1), (16 + g + 8 * (reg / 2)) * n + 2 * t + reg % 2);
                }
                for reg in 0..4 * packed {
                    let (element, word) = (reg % packed, reg / packed);
                    let (row, at) = (g + 8 * (word % 2), packed * t + element + 4 * packed * (word / 2));
                    assert_eq!(a.index(reg, lane, 1), (16 + row) * k + at);
                }
                for reg in 0..2 * packed {
                    let at = packed * t + reg % packed + 4 * packed * (reg / packed);
                    assert_eq!(b.index(reg, lane, 1), at * n + g);
                }
            }
        }
    }

    /// Every element is in one place, in the quarter of tensor memory that its warp reaches.
    #[test]
    fn sums_in_tensor_memory_are_where_their_warps_reach() {
        for (m, n, warps) in [(64, 8, 4), (64, 64, 8), (128, 8, 4), (128, 16, 16), (128, 256, 4), (256, 64, 8)] {
            let layout = tensor_sum(m, n, warps).unwrap();
            let rows = block_rows(m, n);
            let mut seen = vec![false; (m * n) as usize];
            for warp in 0..warps {
                for (lane, reg) in (0..32).flat_map(|lane| (0..layout.registers()).map(move |reg| (lane, reg))) {
                    let index = layout.index(reg, lane, warp);
                    assert!(!std::mem::replace(&mut seen[index as usize], true), "{m}x{n}, {warps} warps: {index}");
                    assert_eq!(index / n % rows / (rows / 4), warp % 4);
                }
            }
            assert!(seen.into_iter().all(|seen| seen));
        }
        assert_eq!(tensor_sum(32, 64, 4), None);
        assert_eq!(tensor_sum(64, 64, 2), None);
        assert_eq!(tensor_sum(512, 256, 4), None);
    }

    /// Every element is in one place, and each group of four warps has whole blocks of 64 rows, 16 to a warp.
    #[test]
    fn sums_of_groups_are_where_wgmma_puts_them() {
        let mma = Mma { packed: 2, name: "f16", right: "f16", scaled: false };
        for (m, n, warps) in [(64, 8, 4), (64, 64, 8), (128, 128, 4), (128, 128, 8), (128, 16, 16), (64, 256, 4)] {
            let layout = mma.group_sum(m, n, warps).unwrap();
            let mut seen = vec![false; (m * n) as usize];
            for warp in 0..warps {
                for (lane, reg) in (0..32).flat_map(|lane| (0..layout.registers()).map(move |reg| (lane, reg))) {
                    let index = layout.index(reg, lane, warp);
                    assert!(!std::mem::replace(&mut seen[index as usize], true), "{m}x{n}, {warps} warps: {index}");
                    assert_eq!(index / n % GROUP_ROWS, 16 * (warp % 4) + lane / 4 + 8 * (reg / 2 % 2));
                }
            }
            assert!(seen.into_iter().all(|seen| seen));
        }
        // Too few rows; too few warps; no column for the last group; more than stays in registers.
        for (m, n, warps) in [(32, 64, 4), (64, 64, 2), (64, 8, 8), (128, 256, 4), (64, 512, 4)] {
            assert_eq!(mma.group_sum(m, n, warps), None, "{m}x{n}, {warps} warps");
        }
    }

    #[test]
    fn products_without_room_are_made_by_warps() {
        let mma = Mma { packed: 2, name: "f16", right: "f16", scaled: false };
        let engine = |[m, k, n]: [u32; 3], arch| {
            Product::choose(mma, shape([m, k]), shape([k, n]), [Major::Depth; 2], arch, 4).engine
        };
        assert!(matches!(engine([128, 256, 128], Arch::Sm100a), Engine::TensorMemory(_)));
        // 256 KiB of operands; half a kilobyte of columns; a few rows; another architecture.
        assert!(matches!(engine([128, 512, 128], Arch::Sm100a), Engine::Warps(_)));
        assert!(matches!(engine([512, 16, 256], Arch::Sm100a), Engine::Warps(_)));
        assert!(matches!(engine([32, 64, 64], Arch::Sm100a), Engine::Warps(_)));
        assert!(matches!(engine([128, 256, 128], Arch::Sm80), Engine::Warps(_)));
        assert!(!takes_scaled([64, 64, 64], Arch::Sm100a, 4) && takes_scaled([128, 64, 64], Arch::Sm100a, 4));
        assert!(!takes_scaled([256, 64, 256], Arch::Sm100a, 8), "no column is left for scales");
    }

    #[test]
    fn what_is_held_is_found_to_be_an_operand() {
        let mma = Mma { packed: 1, name: "tf32", right: "tf32", scaled: false };
        let sum = Mma::sum(shape([16, 16]), 1);
        // The sum itself is a left operand, if k is taken as its columns lie; not a right one, whose rows are in other lanes.
        let order = Order::of_held(mma, &sum, true, &sum).unwrap();
        assert_eq!(order, Order { reg: vec![1, 8], lane: [2, 4] });
        assert_eq!(Order::of_held(mma, &sum, false, &sum), None);
        for packed in [1, 2] {
            let mma = Mma { packed, ..mma };
            for (order, k) in [(Order::plain(mma, 32), 32), (Order::in_runs(64, 8), 64), (Order::in_runs(16, 8), 16)] {
                let (a, b) = mma.operands(shape([16, k]), shape([k, 16]), &sum, &order);
                assert_eq!(Order::of_held(mma, &a, true, &sum), Some(order.clone()));
                assert_eq!(Order::of_held(mma, &b, false, &sum), Some(order));
                assert_eq!(Order::of_held(mma, &b, true, &sum), None);
            }
        }
    }

    #[test]
    fn few_rows_leave_warps_to_columns_and_then_to_nothing() {
        let sum = Mma::sum(shape([16, 16]), 4);
        assert_eq!(sum.warp, [8, 0]);
        assert_eq!(sum.registers(), 4);
    }
}
