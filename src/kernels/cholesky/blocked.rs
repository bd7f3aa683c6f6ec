//! Plans of many launches: block columns of 128, the products on tensor cores.
//!
//! A block column k takes three launches: [`PotrfDiag`] factors the block on the diagonal, [`PanelSolve`] solves the rows below it and
//! writes them a second time as the *shadow* that tensor cores read, and the update takes their products off what lies to the right. The
//! block columns are gathered in *outer panels*, and the shadow holds one of them. Within an outer panel a block column is updated
//! either just before it is factored, with all that the panel has so far (left-looking: each entry is read and written once, but only one
//! column of tiles is at work), or all columns to the right after each (right-looking: more tiles at work, more memory traffic). What is right
//! of an outer panel gets its products at once, with the whole panel's depth.
//!
//! The source of the scheme is the blocked factorisation of LAPACK's `potrf`, in two levels as in Toledo's and Gustavson's recursive forms.

use super::{Error, Shape};
use crate::device::{BufferId, PlanArg, PlanBuilder, SharedModule};
use crate::ptx::{Arch, DType};
use crate::template::{PanelSolve, ParamError, PotrfDiag, SchurWgmma};

/// Order of a block.
const BLOCK: usize = PotrfDiag::BLOCK as usize;

/// Tiles of the shadow along k of a block column.
const K_TILES: usize = 2;

/// The most tiles and rows of a batch that the kernels count in 32 bits.
const MAX_COUNT: usize = i32::MAX as usize;

/// When a block column of an outer panel gets the products of those before it in the panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Inner {
    /// Just before it is factored, of all of them.
    Left,
    /// After each of them.
    Right,
}

/// The kernel that takes products off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Engine {
    /// Hopper's.
    Wgmma(SchurWgmma),
}

impl Engine {
    fn instantiate(&self, arch: Arch) -> Result<SharedModule, ParamError> {
        Ok(match self {
            Engine::Wgmma(kernel) => kernel.instantiate(arch)?.into(),
        })
    }

    /// Planes of the shadow.
    fn planes(&self) -> u32 {
        match self {
            Engine::Wgmma(kernel) => kernel.operand.planes(),
        }
    }

    /// Columns of a CTA's tile, in blocks.
    fn wide(&self) -> usize {
        match self {
            Engine::Wgmma(kernel) => kernel.columns as usize / BLOCK,
        }
    }
}

/// How a batch of larger matrices is factored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Blocked {
    /// The kernel for the blocks on the diagonal.
    pub diag: PotrfDiag,
    /// The kernel for the rows below them; its planes are those of the engines.
    pub panel: PanelSolve,
    /// What updates the block columns of an outer panel.
    pub inner: Engine,
    /// What updates all to the right of one.
    pub outer: Engine,
    /// Block columns of an outer panel.
    pub width: usize,
    /// The order of updates within one.
    pub order: Inner,
}

/// The bound buffers of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub a: BufferId,
    pub l: BufferId,
    pub info: BufferId,
}

/// A plan on the way.
struct Planner<'a> {
    plan: &'a mut PlanBuilder,
    shape: Shape,
    bound: Bound,
    blocked: &'a Blocked,
    multiprocessors: usize,
    /// Blocks along the diagonal.
    blocks: usize,
    /// Tiles of the shadow along k.
    k_tiles: usize,
    solve: BufferId,
    scale: BufferId,
    shadow: BufferId,
    diag: SharedModule,
    panel: SharedModule,
    inner: SharedModule,
    outer: SharedModule,
}

/// Columns of blocks that are updated, from those of the current outer panel, with `depth` block columns of it.
struct Update {
    first_col: usize,
    cols: usize,
    /// The first block column, counted from the outer panel's.
    first: usize,
    depth: usize,
    /// Whether nothing has been taken off these columns before.
    untouched: bool,
}

impl Blocked {
    /// Adds the launches that factor `shape` to `plan`.
    pub(super) fn plan(
        &self,
        plan: &mut PlanBuilder,
        shape: Shape,
        bound: Bound,
        arch: Arch,
        multiprocessors: u32,
    ) -> Result<(), Error> {
        let blocks = shape.n.div_ceil(BLOCK);
        let k_tiles = K_TILES * self.width.min(blocks);
        let planes = self.inner.planes() as usize;
        debug_assert!(planes == self.outer.planes() as usize && planes == self.panel.planes as usize);
        // Rows and tiles of the shadow are counted in 32 bits.
        let row_tiles = shape.batch.saturating_mul(blocks);
        let most = MAX_COUNT / BLOCK.max(k_tiles) / blocks;
        if shape.batch > most {
            let rule = format!("matrices of order {} are factored at most {most} at a time", shape.n);
            return Err(Error::Shape { field: "batch", value: shape.batch, rule });
        }
        let solve = plan.temporary("solve", DType::Fp32, shape.batch * BLOCK * BLOCK);
        let scale = plan.temporary("scale", DType::Fp32, row_tiles * BLOCK);
        let shadow = plan.temporary("shadow", DType::Fp16, row_tiles * k_tiles * planes * BLOCK * BLOCK / K_TILES);
        let mut planner = Planner {
            plan,
            shape,
            bound,
            blocked: self,
            multiprocessors: multiprocessors.max(1) as usize,
            blocks,
            k_tiles,
            solve,
            scale,
            shadow,
            diag: self.diag.instantiate(arch)?.into(),
            panel: self.panel.instantiate(arch)?.into(),
            inner: self.inner.instantiate(arch)?,
            outer: self.outer.instantiate(arch)?,
        };
        planner.factor()
    }
}

impl Planner<'_> {
    fn factor(&mut self) -> Result<(), Error> {
        let width = self.blocked.width;
        for first in (0..self.blocks).step_by(width) {
            let end = self.blocks.min(first + width);
            self.outer_panel(first, end)?;
            let right = self.blocks - end;
            let update = Update { first_col: end, cols: right, first: 0, depth: end - first, untouched: first == 0 };
            self.update(&update, true)?;
        }
        Ok(())
    }

    /// The block columns `first` to `end`, all of which have the products of those before `first`.
    fn outer_panel(&mut self, first: usize, end: usize) -> Result<(), Error> {
        for block in first..end {
            let done = block - first;
            if self.blocked.order == Inner::Left && done > 0 {
                let update = Update { first_col: block, cols: 1, first: 0, depth: done, untouched: first == 0 };
                self.update(&update, false)?;
            }
            self.diagonal(block)?;
            self.rows_below(block, done)?;
            if self.blocked.order == Inner::Right {
                let update = Update {
                    first_col: block + 1,
                    cols: end - block - 1,
                    first: done,
                    depth: 1,
                    untouched: block == 0,
                };
                self.update(&update, false)?;
            }
        }
        Ok(())
    }

    /// The matrices as block column `block` finds them.
    fn source(&self, untouched: bool) -> (BufferId, i64, i32) {
        let Shape { stride_a, lda, stride_l, ldl, .. } = self.shape;
        if untouched {
            (self.bound.a, stride_a as i64, lda as i32)
        } else {
            (self.bound.l, stride_l as i64, ldl as i32)
        }
    }

    fn diagonal(&mut self, block: usize) -> Result<(), Error> {
        let (from, stride, ld) = self.source(block == 0);
        let args: [PlanArg; 11] = [
            from.into(),
            self.bound.l.into(),
            self.bound.info.into(),
            self.solve.into(),
            stride.into(),
            (self.shape.stride_l as i64).into(),
            ld.into(),
            (self.shape.ldl as i32).into(),
            (self.shape.n as i32).into(),
            ((block * BLOCK) as i32).into(),
            (self.shape.batch as i32).into(),
        ];
        let name = self.diag.only_kernel()?.name.clone();
        self.plan.launch(&self.diag, &name, &args)?;
        Ok(())
    }

    /// The rows below `block`, which is number `done` of its outer panel.
    fn rows_below(&mut self, block: usize, done: usize) -> Result<(), Error> {
        let rows = (self.blocks - block - 1) * BLOCK;
        if rows == 0 {
            return Ok(());
        }
        let groups = rows.div_ceil(16 * self.blocked.panel.warps as usize);
        let (from, stride, ld) = self.source(block == 0);
        let args: [PlanArg; 15] = [
            from.into(),
            self.bound.l.into(),
            self.solve.into(),
            self.scale.into(),
            self.shadow.into(),
            stride.into(),
            (self.shape.stride_l as i64).into(),
            ld.into(),
            (self.shape.ldl as i32).into(),
            (self.shape.n as i32).into(),
            ((block * BLOCK) as i32).into(),
            (groups as i32).into(),
            (self.blocks as i32).into(),
            (self.k_tiles as i32).into(),
            ((done * K_TILES) as i32).into(),
        ];
        let grid = [(groups * self.shape.batch) as u32, 1, 1];
        let name = self.panel.only_kernel()?.name.clone();
        self.plan.launch_over(&self.panel, &name, grid, &args)?;
        Ok(())
    }

    fn update(&mut self, update: &Update, outer: bool) -> Result<(), Error> {
        let &Update { first_col, cols, first, depth, untouched } = update;
        if cols == 0 {
            return Ok(());
        }
        let (module, engine) =
            if outer { (&self.outer, self.blocked.outer) } else { (&self.inner, self.blocked.inner) };
        // A tile row of column j has rows j on; a CTA's tile may be several columns wide.
        let wide = engine.wide();
        let tiles: usize = (0..cols).step_by(wide).map(|col| self.blocks - first_col - col).sum();
        let ctas = self.multiprocessors.min(tiles.saturating_mul(self.shape.batch));
        let (from, stride, ld) = self.source(untouched);
        let args: [PlanArg; 17] = [
            from.into(),
            self.bound.l.into(),
            self.shadow.into(),
            self.scale.into(),
            stride.into(),
            (self.shape.stride_l as i64).into(),
            ld.into(),
            (self.shape.ldl as i32).into(),
            (self.shape.n as i32).into(),
            (self.shape.batch as i32).into(),
            (self.blocks as i32).into(),
            (self.k_tiles as i32).into(),
            ((first * K_TILES) as i32).into(),
            ((depth * K_TILES) as i32).into(),
            (first_col as i32).into(),
            (first_col as i32).into(),
            (cols as i32).into(),
        ];
        let name = module.only_kernel()?.name.clone();
        self.plan.launch_over(module, &name, [ctas as u32, 1, 1], &args)?;
        Ok(())
    }
}
