//! The tile programs that are compiled ahead and checked in under `generated/`.

use super::cholesky::tiles::{batch2048, micro, moves, panel, trailing, whole};
use super::kda::tiles::{AnyInterSolve, InterSolve};
use super::mx::tiles::{per_tensor, quant, update};
use super::{ProgramError, TileProgram};
use crate::generate::TileKernel;
use crate::tile::InputPrecision::{Ieee, Tf32, Tf32x3};
use crate::tile::Scalar;

/// The standard specialisations of the tile programs: every kernel of the seeds with the settings that they launch it with, and
/// the solve of KDA for any shape: every combination of its settings for bf16 with β in f32.
///
/// # Errors
/// A parameter that its program refuses: a fault of ours.
pub fn standard() -> Result<Vec<TileKernel>, ProgramError> {
    let mut list = cholesky()?;
    list.extend(mx()?);
    list.extend(kda()?);
    Ok(list)
}

fn cholesky() -> Result<Vec<TileKernel>, ProgramError> {
    let mut list = vec![
        whole::CholBatched { n: 32 }.kernel()?,
        whole::Chol32Rank2 { n: 32 }.kernel()?,
        batch2048::DiagonalFactor { n: 2048, block: 64 }.kernel()?,
        batch2048::PanelSolve { n: 2048, block: 64 }.kernel()?,
        batch2048::LowerSchur { n: 2048, block: 64, tile: 128 }.kernel()?,
        batch2048::ClearUpper { total: 8 * 2048 * 2048, n: 2048, block: 256, grid: 4096 }.kernel()?,
        trailing::ClearUpperTiles { n: 512, tile: 128 }.kernel()?,
        micro::MicroPotrf32 { n: 512, first: false, reciprocal_solve: true }.kernel()?,
        micro::MicroPotrf32 { n: 1024, first: true, reciprocal_solve: false }.kernel()?,
        moves::TriangularInverseLeaf { n: 2048, block: 32 }.kernel()?,
    ];
    for (n, precision, first) in [(512, Tf32x3, false), (2048, Tf32, false), (512, Tf32x3, true)] {
        list.push(panel::PanelApply32 { n, precision, tile_rows: 128, first }.kernel()?);
    }
    for (n, precision) in [(512, Tf32x3), (1024, Tf32)] {
        list.push(panel::PanelInner32 { n, precision, tile_rows: 128, first: false }.kernel()?);
    }
    for (n, precision) in [(512, Tf32x3), (2048, Tf32), (512, Ieee)] {
        list.push(panel::PanelInner32Subtile64 { n, precision, column_tiles: 2, first: false }.kernel()?);
    }
    for (n, precision) in [(1024, Tf32), (512, Tf32x3)] {
        list.push(panel::DiagonalBlockStep { n, tile: 128, precision, first: false }.kernel()?);
    }
    for (n, precision, transposed_load) in [(512, Tf32x3, true), (1024, Tf32, true), (1024, Tf32, false)] {
        let tile_rows = 128;
        let fused = panel::PanelFused128 { n, tile_rows, precision, first: false, transposed_load, mirror: true };
        list.push(fused.kernel()?);
    }
    for (n, depth, precision, halves) in
        [(512, 128, Tf32, true), (1024, 128, Tf32, false), (512, 128, Tf32x3, false), (2048, 256, Tf32, true)]
    {
        list.push(trailing::Trailing { n, depth, precision, halves, tile: 128, first: false }.kernel()?);
    }
    for (product, halves) in [(true, false), (true, true), (false, false)] {
        list.push(moves::BlockMove { product, halves, block_rows: 16, block_cols: 512 }.kernel()?);
    }
    Ok(list)
}

fn mx() -> Result<Vec<TileKernel>, ProgramError> {
    Ok(vec![
        per_tensor::TiledAmax { block: 1024 }.kernel()?,
        per_tensor::ScaleCast { block: 1024 }.kernel()?,
        quant::MxQuant { block_m: 32, block_k: 128 }.kernel()?,
        quant::MxQuantBlocked { block_m: 32, block_k: 128 }.kernel()?,
        update::MxPanelUpdate { block_m: 128, block_n: 128, block_k: 128 }.kernel()?,
    ])
}

fn kda() -> Result<Vec<TileKernel>, ProgramError> {
    let (io, beta) = (Scalar::Bf16, Scalar::F32);
    let mut list = Vec::new();
    for (precision, safe_gate, varlen) in
        [(Tf32, false, false), (Tf32x3, false, false), (Ieee, false, false), (Tf32, true, false), (Tf32, false, true)]
    {
        let (heads, value_heads, key_dim, block_k, sub_chunk) = (32, 32, 128, 64, 16);
        let solve =
            InterSolve { heads, value_heads, key_dim, block_k, sub_chunk, varlen, safe_gate, precision, io, beta };
        list.push(solve.kernel()?);
    }
    for precision in [Tf32, Tf32x3, Ieee] {
        for (varlen, safe_gate) in [(false, false), (false, true), (true, false), (true, true)] {
            let block_k = AnyInterSolve::BLOCK_K;
            list.push(AnyInterSolve { block_k, varlen, safe_gate, precision, io, beta }.kernel()?);
        }
    }
    Ok(list)
}
