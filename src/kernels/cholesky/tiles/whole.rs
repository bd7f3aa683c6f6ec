//! Whole matrices, one program each, in registers.

use serde::Serialize;

use crate::kernels::program::{ProgramError, TileProgram, check_extent};
use crate::tile::Func;
use crate::tile::Scalar::{F32, I32, I64};
use crate::tile::build::KernelBuilder;

/// L of A = L·Lᵀ, right-looking, one column a step. The upper triangle of L is zero.
///
/// Entry: `A_ptr`, `L_ptr`, strides of the batch and of the rows of A, those of L (columns are contiguous). Grid: matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CholBatched {
    /// Order of the matrices: a power of two from 2 to 128.
    pub n: u32,
}

impl TileProgram for CholBatched {
    const NAME: &'static str = "_chol_batched_kernel";

    fn num_warps(&self) -> u32 {
        1
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_extent(Self::NAME, "n", self.n, 2, 128)?;
        let n = self.n as i32;
        let t = KernelBuilder::new(Self::NAME);
        let (a_ptr, l_ptr) = (t.pointer("A_ptr", F32), t.pointer("L_ptr", F32));
        let (stride_ab, stride_ai) = (t.scalar_by_16("stride_ab", I32), t.scalar_by_16("stride_ai", I32));
        let (stride_lb, stride_li) = (t.scalar_by_16("stride_lb", I32), t.scalar_by_16("stride_li", I32));

        let pid = t.program_id(0);
        let (rows, cols) = (t.arange(0, n).col(), t.arange(0, n).row());
        let a = t.load(a_ptr + pid * stride_ab + rows * stride_ai + cols);
        let [l] = t.range(0, n, 1, [a], |k, [a]| {
            let pivot = t.where_(rows.eq(k) & cols.eq(k), a, 0.0).sum_all();
            let scale = 1.0 / pivot.sqrt();
            let a = t.where_(cols.eq(k) & rows.ge(k), a * scale, a);
            let column = t.where_(cols.eq(k), a, 0.0).sum(1).named("column");
            let a = t.where_(rows.gt(k) & cols.gt(k), a - column.col() * column.row(), a);
            [t.where_(cols.gt(rows), 0.0, a)]
        });
        t.store(l_ptr + pid * stride_lb + rows * stride_li + cols, l);
        Ok(t.finish()?)
    }
}

/// L of A = L·Lᵀ, two columns a step: half as many steps in a row. The upper triangle of L is zero.
///
/// Entry: `A_ptr`, `L_ptr`, contiguous. Grid: matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Chol32Rank2 {
    /// Order of the matrices: a power of two from 2 to 128.
    pub n: u32,
}

impl TileProgram for Chol32Rank2 {
    const NAME: &'static str = "_chol32_rank2_kernel";

    fn num_warps(&self) -> u32 {
        1
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_extent(Self::NAME, "n", self.n, 2, 128)?;
        let n = self.n as i32;
        let t = KernelBuilder::new(Self::NAME);
        let (a_ptr, l_ptr) = (t.pointer("A_ptr", F32), t.pointer("L_ptr", F32));

        let pid = t.program_id(0).to(I64);
        let r = t.arange(0, n);
        let (rows, cols) = (r.col(), r.row());
        let a = t.load(a_ptr + pid * n * n + rows * n + cols);
        let [l] = t.range(0, n / 2, 1, [a], |step, [a]| {
            let (p, q) = (step * 2, step * 2 + 1);
            // Both columns as they are, and their pivots.
            let column_p = t.where_(cols.eq(p), a, 0.0).sum(1);
            let column_q = t.where_(cols.eq(q), a, 0.0).sum(1);
            let d_pp = t.where_(r.eq(p), column_p, 0.0).sum(0);
            let a_qq = t.where_(r.eq(q), column_q, 0.0).sum(0);
            // Column p of L, then column q, which p's part in it leaves first.
            let l_p = t.where_(r.ge(p), column_p * (1.0 / d_pp.sqrt()), 0.0).named("l_p");
            let l_qp = t.where_(r.eq(q), l_p, 0.0).sum(0);
            let d_qq = a_qq - l_qp * l_qp;
            let l_q = t.where_(r.ge(q), (column_q - l_qp * l_p) * (1.0 / d_qq.sqrt()), 0.0).named("l_q");
            let trailing = rows.gt(q) & cols.gt(q);
            let update = a - l_p.col() * l_p.row() - l_q.col() * l_q.row();
            let rest = t.where_(trailing, update, a);
            [t.where_(cols.eq(p), l_p.col(), t.where_(cols.eq(q), l_q.col(), rest))]
        });
        let l = t.where_(cols.le(rows), l, 0.0);
        t.store(l_ptr + pid * n * n + rows * n + cols, l);
        Ok(t.finish()?)
    }
}
