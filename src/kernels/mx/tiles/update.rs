//! A matrix less the product of two MXFP8 matrices.

use serde::Serialize;

use crate::kernels::program::{ProgramError, TileProgram, check_extent};
use crate::tile::Scalar::{F8E4M3, F32, I8, I32};
use crate::tile::build::{KernelBuilder, ScaledOperand};
use crate::tile::{Func, ScaledFormat};

/// out −= lhs·rhsᵀ, where lhs (M×K) and rhs (N×K) are contiguous MXFP8, and out (M×N) is FP32.
///
/// Entry: `q_lhs_ptr`, `s_lhs_ptr`, `q_rhs_ptr`, `s_rhs_ptr`, `out_ptr`, `M`, `N`, `K`. Grid: tiles of rows × of columns, which
/// tile the matrix exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct MxPanelUpdate {
    /// Rows of a program: a power of two from 16 to 256.
    pub block_m: u32,
    /// Columns of a program: a power of two from 16 to 256.
    pub block_n: u32,
    /// Inner extent of a step: a power of two from 32 to 256.
    pub block_k: u32,
}

impl TileProgram for MxPanelUpdate {
    const NAME: &'static str = "_mxfp8_panel_update_kernel";

    fn num_warps(&self) -> u32 {
        8
    }

    fn program(&self) -> Result<Func, ProgramError> {
        check_extent(Self::NAME, "block_m", self.block_m, 16, 256)?;
        check_extent(Self::NAME, "block_n", self.block_n, 16, 256)?;
        check_extent(Self::NAME, "block_k", self.block_k, 32, 256)?;
        let [block_m, block_n, block_k] = [self.block_m, self.block_n, self.block_k].map(|extent| extent as i32);
        let t = KernelBuilder::new(Self::NAME);
        let (q_lhs, s_lhs) = (t.pointer("q_lhs_ptr", F8E4M3), t.pointer("s_lhs_ptr", I8));
        let (q_rhs, s_rhs) = (t.pointer("q_rhs_ptr", F8E4M3), t.pointer("s_rhs_ptr", I8));
        let out_ptr = t.pointer("out_ptr", F32);
        // M is the grid's: nothing reads it.
        let [_, n, k] = ["M", "N", "K"].map(|name| t.scalar_by_16(name, I32));

        let rows = t.program_id(0) * block_m + t.arange(0, block_m);
        let cols = t.program_id(1) * block_n + t.arange(0, block_n);
        let inner = t.arange(0, block_k).row();
        let groups = t.arange(0, block_k / 32).row();
        let zeros = t.zeros(&[self.block_m, self.block_n], F32);
        let [product] = t.range(0, k, block_k, [zeros], |k0, [acc]| {
            let lhs = t.load(q_lhs + rows.col() * k + k0 + inner);
            let lhs_scale = t.load(s_lhs + rows.col() * (k / 32) + k0 / 32 + groups);
            let rhs = t.load(q_rhs + cols.col() * k + k0 + inner);
            let rhs_scale = t.load(s_rhs + cols.col() * (k / 32) + k0 / 32 + groups);
            let lhs = ScaledOperand::new(lhs, ScaledFormat::E4M3).scale(lhs_scale);
            let rhs = ScaledOperand::new(rhs.trans(), ScaledFormat::E4M3).scale(rhs_scale);
            [t.dot_scaled(lhs, rhs, Some(acc))]
        });
        let out = out_ptr + rows.col() * n + cols.row();
        t.store(out, t.load(out) - product);
        Ok(t.finish()?)
    }
}
