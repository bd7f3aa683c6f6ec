//! A diagonal block of 32, and its inverse, by one warp a matrix.
//!
//! Four columns a step, eight steps. The 4×4 pivot block is a chain of scalars, fed by ten extractions that do not wait for one
//! another; the trailing update is one sum of four outer products. Row p of L is final after its step, so the inverse X grows
//! with it: X[p, :] = (I[p, :] − L[p, :p]·X[:p, :]) / l_pp, four rows a step, the terms inside the pivot block from the scalars.

use serde::Serialize;

use crate::kernels::program::{ProgramError, TileProgram};
use crate::tile::Func;
use crate::tile::Scalar::{F32, I32, I64};
use crate::tile::build::{KernelBuilder, Tile};

use super::{check_order, tile_offsets};

/// L of the 32×32 block at (k, k) of each matrix, and X = L⁻¹ to `inv`.
///
/// Entry: `out_ptr`, `inv_ptr`, `src_ptr`, `k`. Grid: matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct MicroPotrf32 {
    /// Order of the matrices.
    pub n: u32,
    /// A is read from `src`.
    pub first: bool,
    /// Rows of the inverse are scaled by the pivots' reciprocals; else divided by the pivots.
    pub reciprocal_solve: bool,
}

/// The 4×4 pivot block: `l[i][j]` for j < i is L's element (i, j); `inv[i]` is 1/l_ii, `d[i]` is l_ii².
struct Pivots<'k> {
    l: [Vec<Tile<'k>>; 4],
    d: Vec<Tile<'k>>,
    inv: Vec<Tile<'k>>,
}

impl<'k> Pivots<'k> {
    /// Cholesky of the block whose element (i, j) is the scalar `m(i, j)`.
    fn factor(m: impl Fn(usize, usize) -> Tile<'k>) -> Self {
        let mut pivots = Self { l: Default::default(), d: Vec::new(), inv: Vec::new() };
        for j in 0..4 {
            for i in j..4 {
                let l = &mut pivots.l;
                let left = (0..j).fold(m(i, j), |left, u| left - l[j][u] * l[i][u]);
                if i == j {
                    pivots.d.push(left);
                    pivots.inv.push(left.rsqrt());
                } else {
                    l[i].push(left * pivots.inv[j]);
                }
            }
        }
        pivots
    }

    /// `x` less the part that `found`, what is solved of the rows above, has in row i.
    fn less(&self, i: usize, x: Tile<'k>, found: &[Tile<'k>]) -> Tile<'k> {
        self.l[i].iter().zip(found).fold(x, |x, (&l, &found)| x - l * found)
    }
}

impl TileProgram for MicroPotrf32 {
    const NAME: &'static str = "_micro_potrf_gj32";

    fn num_warps(&self) -> u32 {
        1
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_order(Self::NAME, self.n)?;
        let n = self.n;
        let t = KernelBuilder::new(Self::NAME);
        let (out_ptr, inv_ptr) = (t.pointer("out_ptr", F32), t.pointer("inv_ptr", F32));
        let src_ptr = t.pointer("src_ptr", F32);
        let k = t.scalar_by_16("k", I32);

        let batch = t.program_id(0).to(I64);
        let r = t.arange(0, 32);
        let (rows, cols) = (r.col(), r.row());
        let offsets = tile_offsets(k + r, k + r, n);
        let from = if self.first { src_ptr } else { out_ptr };
        let a = t.load(from + batch * n * n + offsets);
        let x = t.where_(rows.eq(cols), 1.0, 0.0);

        let [a, x] = t.range(0, 8, 1, [a, x], |step, [a, x]| {
            let p0 = step * 4;
            let p = [p0, p0 + 1, p0 + 2, p0 + 3];
            let column = p.map(|p| t.where_(cols.eq(p), a, 0.0).sum(1));
            // The lower triangle of the pivot block, column by column.
            let m: Vec<Vec<Tile<'_>>> =
                (0..4).map(|j| (j..4).map(|i| t.where_(r.eq(p[i]), column[j], 0.0).sum(0)).collect()).collect();
            let pivots = Pivots::factor(|i, j| m[j][i - j]);
            // Four columns of L.
            let mut l: Vec<Tile<'_>> = Vec::with_capacity(4);
            for i in 0..4 {
                let left = pivots.less(i, column[i], &l) * pivots.inv[i];
                l.push(t.where_(r.ge(p[i]), left, 0.0));
            }
            let update = l.iter().fold(a, |a, l| a - l.col() * l.row());
            let rest = t.where_(rows.gt(p[3]) & cols.gt(p[3]), update, a);
            let a = (0..4).rev().fold(rest, |rest, i| t.where_(cols.eq(p[i]), l[i].col(), rest));

            // Four rows of the inverse: what the rows above hold of each, then the block itself.
            let row = p.map(|p| t.where_(rows.eq(p), a, 0.0).sum(0));
            let above = row.map(|row| t.where_(r.lt(p0), row, 0.0));
            let known = above.map(|above| (above.col() * x).sum(0));
            let unit = p.map(|p| t.where_(r.eq(p), 1.0, 0.0));
            let mut solved: Vec<Tile<'_>> = Vec::with_capacity(4);
            for i in 0..4 {
                let left = pivots.less(i, unit[i] - known[i], &solved);
                solved.push(if self.reciprocal_solve {
                    left * pivots.inv[i]
                } else {
                    left / (pivots.d[i] * pivots.inv[i])
                });
            }
            let x = (0..4).rev().fold(x, |x, i| t.where_(rows.eq(p[i]), solved[i].row(), x));
            [a, x]
        });
        t.store(out_ptr + batch * n * n + offsets, t.where_(cols.le(rows), a, 0.0));
        t.store(inv_ptr + batch * 1024 + rows * 32 + cols, x);
        Ok(t.finish()?)
    }
}
