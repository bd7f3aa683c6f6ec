//! The programs, with the parameters that the corpus was made with.

#![allow(dead_code, reason = "each test binary takes what it needs")]

use tilewright::generate::TileKernel;
use tilewright::kernels::cholesky::tiles::{batch2048, micro, moves, panel, trailing, whole};
use tilewright::kernels::kda::tiles::InterSolve;
use tilewright::kernels::mx::tiles::{per_tensor, quant, update};
use tilewright::kernels::{ProgramError, TileProgram};
use tilewright::tile::InputPrecision::{self, Ieee, Tf32, Tf32x3};
use tilewright::tile::{Func, Scalar};

/// A program, and where Triton's text of it is.
pub struct Program {
    pub folder: &'static str,
    pub func: Result<Func, ProgramError>,
    pub kernel: Result<TileKernel, ProgramError>,
}

fn trailing(n: u32, depth: u32, precision: InputPrecision, halves: bool) -> trailing::Trailing {
    trailing::Trailing { n, depth, precision, halves, tile: 128, first: false }
}

fn apply(n: u32, precision: InputPrecision, first: bool) -> panel::PanelApply32 {
    panel::PanelApply32 { n, precision, tile_rows: 128, first }
}

fn inner(n: u32, precision: InputPrecision) -> panel::PanelInner32 {
    panel::PanelInner32 { n, precision, tile_rows: 128, first: false }
}

fn subtile(n: u32, precision: InputPrecision) -> panel::PanelInner32Subtile64 {
    panel::PanelInner32Subtile64 { n, precision, column_tiles: 2, first: false }
}

fn diagonal_step(n: u32, precision: InputPrecision) -> panel::DiagonalBlockStep {
    panel::DiagonalBlockStep { n, tile: 128, precision, first: false }
}

fn fused(n: u32, precision: InputPrecision, transposed_load: bool) -> panel::PanelFused128 {
    panel::PanelFused128 { n, tile_rows: 128, precision, first: false, transposed_load, mirror: true }
}

fn block_move(product: bool, halves: bool) -> moves::BlockMove {
    moves::BlockMove { product, halves, block_rows: 16, block_cols: 512 }
}

fn micro(n: u32, first: bool, reciprocal_solve: bool) -> micro::MicroPotrf32 {
    micro::MicroPotrf32 { n, first, reciprocal_solve }
}

pub fn kda(precision: InputPrecision, safe_gate: bool, varlen: bool) -> InterSolve {
    InterSolve {
        heads: 32,
        value_heads: 32,
        key_dim: 128,
        block_k: 64,
        sub_chunk: 16,
        varlen,
        safe_gate,
        precision,
        io: Scalar::Bf16,
        beta: Scalar::F32,
    }
}

/// Every kernel of the corpus.
pub fn all() -> Vec<Program> {
    fn made(folder: &'static str, program: impl TileProgram) -> Program {
        Program { folder, func: program.program(), kernel: program.kernel() }
    }
    vec![
        made("chol_batched_kernel", whole::CholBatched { n: 32 }),
        made("chol32_rank2_kernel", whole::Chol32Rank2 { n: 32 }),
        made("diag_factor_8x2048", batch2048::DiagonalFactor { n: 2048, block: 64 }),
        made("panel_solve_8x2048", batch2048::PanelSolve { n: 2048, block: 64 }),
        made("lower_schur_8x2048", batch2048::LowerSchur { n: 2048, block: 64, tile: 128 }),
        made("clear_upper_8x2048", batch2048::ClearUpper { total: 8 * 2048 * 2048, n: 2048, block: 256, grid: 4096 }),
        made("dual_tiled_amax_e4m3_32768", per_tensor::TiledAmax { block: 1024 }),
        made("dual_scale_cast_e4m3_32768", per_tensor::ScaleCast { block: 1024 }),
        made("mx_quant_e4m3_kernel", quant::MxQuant { block_m: 32, block_k: 128 }),
        made("mx_quant_e4m3_blocked_kernel", quant::MxQuantBlocked { block_m: 32, block_k: 128 }),
        made("mxfp8_panel_update_kernel", update::MxPanelUpdate { block_m: 128, block_n: 128, block_k: 128 }),
        made("clear_upper_tiles", trailing::ClearUpperTiles { n: 512, tile: 128 }),
        made("micro_potrf_gj32", micro(512, false, true)),
        made("micro_potrf_gj32@first_div", micro(1024, true, false)),
        made("panel_apply32", apply(512, Tf32x3, false)),
        made("panel_apply32@tf32_n2048", apply(2048, Tf32, false)),
        made("panel_apply32@tf32x3_first", apply(512, Tf32x3, true)),
        made("panel_inner32", inner(512, Tf32x3)),
        made("panel_inner32@tf32_n1024", inner(1024, Tf32)),
        made("panel_inner32_subtile64", subtile(512, Tf32x3)),
        made("panel_inner32_subtile64@tf32_n2048", subtile(2048, Tf32)),
        made("panel_inner32_subtile64@ieee_n512", subtile(512, Ieee)),
        made("diag_block_step", diagonal_step(1024, Tf32)),
        made("diag_block_step@tf32x3_n512", diagonal_step(512, Tf32x3)),
        made("panel_fused128", fused(512, Tf32x3, true)),
        made("panel_fused128@tf32_n1024", fused(1024, Tf32, true)),
        made("panel_fused128@tf32_n1024_trans", fused(1024, Tf32, false)),
        made("trailing_nb", trailing(512, 128, Tf32, true)),
        made("trailing_nb@tf32_n1024", trailing(1024, 128, Tf32, false)),
        made("trailing_nb@tf32x3_n512", trailing(512, 128, Tf32x3, false)),
        made("trailing_nb@fp16_n2048_nb256", trailing(2048, 256, Tf32, true)),
        made("exp057_tri_inv_leaf32_kernel", moves::TriangularInverseLeaf { n: 2048, block: 32 }),
        made("exp061_block_move_kernel", block_move(true, false)),
        made("exp061_block_move_kernel@fp16", block_move(true, true)),
        made("exp061_block_move_kernel@noprod", block_move(false, false)),
        made("chunk_kda_fwd_kernel_inter_solve_fused", kda(Tf32, false, false)),
        made("chunk_kda_fwd_kernel_inter_solve_fused@tf32x3", kda(Tf32x3, false, false)),
        made("chunk_kda_fwd_kernel_inter_solve_fused@ieee", kda(Ieee, false, false)),
        made("chunk_kda_fwd_kernel_inter_solve_fused@safegate", kda(Tf32, true, false)),
        made("chunk_kda_fwd_kernel_inter_solve_fused@varlen", kda(Tf32, false, true)),
    ]
}

/// Programs with a parameter that breaks a rule, and what is said of it.
pub fn refused() -> Vec<(&'static str, Result<Func, ProgramError>)> {
    vec![
        (
            "_chol32_rank2_kernel: n = 33 is not allowed: it must be a power of two from 2 to 128",
            whole::Chol32Rank2 { n: 33 }.program(),
        ),
        (
            "_trailing_nb: precision = bf16x3 is not allowed: it must be ieee, tf32 or tf32x3",
            trailing(512, 128, InputPrecision::Bf16x3, false).program(),
        ),
        (
            "_panel_apply32: n = 48 is not allowed: it must be a multiple of 32 from 32 to 32768",
            apply(48, Tf32, false).program(),
        ),
        (
            "chunk_kda_fwd_kernel_inter_solve_fused: value_heads = 33 is not allowed: it must be a multiple of heads, and 4096 at most",
            InterSolve { value_heads: 33, ..kda(Tf32, false, false) }.program(),
        ),
    ]
}
