//! Which layouts each tile is needed in.
//!
//! A tile whose making is dear (a load, a product, a reduction, what a loop carries, arithmetic on any of these) has a *home*: the
//! one layout that it is made in, from which it is converted to whatever else its users want. A tile that is cheap (arithmetic
//! on ranges, constants and scalars: addresses and masks) is made again in every layout that is wanted. Views (broadcasts, transposes,
//! reshapes, new axes of extent 1) make nothing: they pass what is wanted of them on to their operand.
//!
//! First, forwards, the homes; then, backwards, what is wanted.

mod ahead;
mod product;

use std::collections::HashMap;

use super::anchor::anchors;
use super::axis::{AxisInfo, is_argument};
use super::layout::{Exchange, Layout, Major};
use super::pipeline::{Pipeline, Stages};
use super::placed::{doubled, half, placed, plain, side_bit};
use super::resident::residents;
use super::tensor::{Engine, Mma, Order, Product, scales};
use super::{Error, Options};
use crate::tile::{Func, Op, OpKind, Region, Scalar, Shape, Type, Value};

pub(super) use ahead::Landing;
pub(super) use product::{SCALES, coordinates, factors, left_bits, product_operands, right_bits, tensor_product};
use product::{in_runs, product};

/// The layouts of every tile of a function.
pub(super) struct Assignment {
    /// The layout that a dear tile is made in.
    home: Vec<Option<Layout>>,
    dear: Vec<bool>,
    /// The layouts in which a tile must be had; its home first where it is made there.
    wanted: Vec<Vec<Layout>>,
    /// The layout that each store is made in.
    stores: HashMap<Op, Layout>,
    /// The layout of each operand (by its number) that a product reads from shared memory.
    staged: HashMap<(Op, usize), Layout>,
    /// How each product on tensor cores is made.
    products: HashMap<Op, Product>,
    /// The layouts of loads that products decide.
    anchors: HashMap<Value, Layout>,
    /// What runs ahead in each loop.
    pipelines: HashMap<Op, Pipeline>,
    /// How the loads of these bring the operands of products.
    landings: HashMap<(Op, usize), Landing>,
    /// Columns of tensor memory that products take.
    tensor_columns: u32,
    /// Products whose sum stays in tensor memory while a loop turns, and its first column there.
    resident: HashMap<Op, u32>,
}

/// Words of an operand of a product that a thread may have in registers at once.
const STAGED_WORDS: u32 = 32;

impl Assignment {
    /// Loads of loops have no more stages than `most_stages`.
    pub(super) fn of(func: &Func, axes: &AxisInfo, options: &Options, most_stages: u32) -> Result<Self, Error> {
        let stages = Stages { usual: options.num_stages, most: most_stages };
        let count = func.value_count();
        let mut this = Self {
            home: vec![None; count],
            dear: vec![false; count],
            wanted: vec![Vec::new(); count],
            stores: HashMap::new(),
            staged: HashMap::new(),
            products: HashMap::new(),
            anchors: anchors(func, axes, options, stages),
            pipelines: HashMap::new(),
            landings: HashMap::new(),
            tensor_columns: 0,
            resident: HashMap::new(),
        };
        // A loop's values have the layout of what it yields, which is known after its body: another round settles them.
        for _ in 0..3 {
            this.homes(func, axes, options, func.body())?;
        }
        let resident = residents(func, &this.products, &|value| this.home(value));
        (this.resident, this.tensor_columns) = resident;
        this.pipelines(func, axes, stages);
        this.wants(func, axes, options, func.body())?;
        Ok(this)
    }

    /// The layouts of `value`.
    pub(super) fn wanted(&self, value: Value) -> &[Layout] {
        &self.wanted[value.index()]
    }

    /// The layout that `value` is made in, where its making is dear.
    pub(super) fn home(&self, value: Value) -> Option<&Layout> {
        self.home[value.index()].as_ref()
    }

    /// The layout that the store `op` of a tile is made in.
    pub(super) fn stored(&self, op: Op) -> Option<&Layout> {
        self.stores.get(&op)
    }

    /// The layout that an operand of `op` is read in, by what `op` is made in.
    pub(super) fn operand_layout(&self, func: &Func, op: Op, operand: Value, made: &Layout) -> Option<Layout> {
        let shape = func.ty(operand).shape()?;
        Some(match &func.op(op).kind {
            OpKind::Broadcast => made.before_broadcast(shape),
            OpKind::ExpandDims { .. } | OpKind::Reshape { .. } => made.reshaped(shape),
            OpKind::Trans { order } => {
                let mut back = vec![0; order.len()];
                for (axis, &old) in order.iter().enumerate() {
                    back[old as usize] = axis as u32;
                }
                made.transposed(&back)
            }
            kind @ (OpKind::Join | OpKind::Cat) => half(made, side_bit(kind, made.shape)?, shape),
            OpKind::Split => doubled(made, shape),
            _ => made.clone(),
        })
    }

    /// The layout in which operand `index` of the product `op` is put into shared memory, to be read from there step by step.
    pub(super) fn staged(&self, op: Op, index: usize) -> Option<&Layout> {
        self.staged.get(&(op, index))
    }

    /// How the product `op` is made on tensor cores; `None` where each thread makes its part alone.
    pub(super) fn product(&self, op: Op) -> Option<&Product> {
        self.products.get(&op)
    }

    /// Columns of tensor memory that the products take.
    pub(super) fn tensor_columns(&self) -> u32 {
        self.tensor_columns
    }

    /// The first column of the sum of the product `op`, where it stays in tensor memory while the loop around it turns.
    pub(super) fn resident(&self, op: Op) -> Option<u32> {
        self.resident.get(&op).copied()
    }

    /// The same for what the loop `op` carries at `index`.
    pub(super) fn carried_resident(&self, func: &Func, op: Op, index: usize) -> Option<u32> {
        let data = func.op(op);
        let &end = ends(func, data.regions[0]).get(index)?;
        func.def_op(end).and_then(|product| self.resident(product))
    }

    /// Which axis of an operand lies in a thread's registers, of those that may be contiguous in shared memory.
    fn major(&self, func: &Func, operand: Value, left: bool) -> Major {
        let last = match (self.home(operand), func.ty(operand).shape()) {
            (Some(home), Some(shape)) => home.reg.first().is_some_and(|&basis| basis < shape.dims()[1]),
            // It is made where it is wanted.
            _ => return Major::Depth,
        };
        if last == left { Major::Depth } else { Major::Rows }
    }

    /// Where an operand goes through shared memory anyway and a thread's part of it is large, the product reads it piece by
    /// piece: all of it in registers would leave none for the sum.
    fn staged_from(&self, func: &Func, operand: Value, layout: &Layout, packed: u32) -> Option<Layout> {
        if layout.registers() / packed <= STAGED_WORDS {
            return None;
        }
        let home = self.home(operand)?;
        let bytes = func.ty(operand).number().map_or(8, Scalar::bytes);
        matches!(Exchange::of(home, layout, bytes), Exchange::Program(_)).then(|| home.clone())
    }

    fn is_view(kind: &OpKind) -> bool {
        matches!(
            kind,
            OpKind::Broadcast
                | OpKind::ExpandDims { .. }
                | OpKind::Reshape { .. }
                | OpKind::Trans { .. }
                | OpKind::Join
                | OpKind::Cat
                | OpKind::Split
        )
    }

    fn homes(&mut self, func: &Func, axes: &AxisInfo, options: &Options, region: Region) -> Result<(), Error> {
        for &block in &func.region(region).blocks {
            for &op in &func.block(block).ops {
                let data = func.op(op);
                if data.kind == OpKind::While {
                    self.homes_of_while(func, axes, options, op)?;
                    continue;
                }
                if data.kind == OpKind::For {
                    let args = func.block(func.region(data.regions[0]).blocks[0]).args.clone();
                    let ends = ends(func, data.regions[0]);
                    for (index, &arg) in args[1..].iter().enumerate() {
                        let Some(shape) = func.ty(arg).shape() else { continue };
                        let home = [ends[index], data.operands[3 + index]]
                            .into_iter()
                            .find_map(|value| self.home(value).cloned())
                            .or_else(|| self.home(arg).cloned())
                            .or_else(|| self.addressed(func, axes, options, data.regions[0], arg));
                        self.make_dear(arg, home.unwrap_or_else(|| plain(shape, options)));
                    }
                }
                for &inner in &data.regions {
                    self.homes(func, axes, options, inner)?;
                }
                match data.kind {
                    OpKind::For => {
                        let args = func.block(func.region(data.regions[0]).blocks[0]).args.clone();
                        for (&result, &arg) in data.results.iter().zip(&args[1..]) {
                            if let Some(home) = self.home(arg).cloned() {
                                self.make_dear(result, home);
                            }
                        }
                    }
                    OpKind::If => {
                        let sides: Vec<Vec<Value>> = data.regions.iter().map(|&inner| ends(func, inner)).collect();
                        for (index, &result) in data.results.iter().enumerate() {
                            let Some(shape) = func.ty(result).shape() else { continue };
                            let home = sides.iter().find_map(|side| self.home(*side.get(index)?).cloned());
                            self.make_dear(result, home.unwrap_or_else(|| plain(shape, options)));
                        }
                    }
                    _ => self.home_of_op(func, axes, options, op)?,
                }
            }
        }
        Ok(())
    }

    /// The layout of the loads and stores in `region` whose addresses are computed of the tile `pointer`.
    fn addressed(
        &self,
        func: &Func,
        axes: &AxisInfo,
        options: &Options,
        region: Region,
        pointer: Value,
    ) -> Option<Layout> {
        let mut found = None;
        func.walk_region(region, &mut |op| {
            let data = func.op(op);
            if found.is_some() || !matches!(data.kind, OpKind::Load { .. } | OpKind::Store { .. }) {
                return;
            }
            let mut at = data.operands[0];
            while at != pointer {
                match func.def_op(at).map(|op| func.op(op)) {
                    Some(data) if data.kind == OpKind::AddPtr => at = data.operands[0],
                    _ => return,
                }
            }
            let anchored = data.results.first().and_then(|result| self.anchors.get(result)).cloned();
            let shape = func.ty(pointer).shape();
            found = anchored.or_else(|| Some(coalesced(func, axes, options, data.operands[0], shape?)));
        });
        found
    }

    /// Both blocks of a `scf.while` carry values: the first from before and from the end of the second, the second (and the results)
    /// from the first's condition.
    fn homes_of_while(&mut self, func: &Func, axes: &AxisInfo, options: &Options, op: Op) -> Result<(), Error> {
        let data = func.op(op);
        let [before, after] = [0, 1].map(|side| func.block(func.region(data.regions[side]).blocks[0]).args.clone());
        let home = |this: &Self, sources: &[Value], shape: Shape| {
            let found = sources.iter().find_map(|&value| this.home(value).cloned());
            found.unwrap_or_else(|| plain(shape, options))
        };
        for ((&arg, &first), &end) in before.iter().zip(&data.operands).zip(&ends(func, data.regions[1])) {
            let Some(shape) = func.ty(arg).shape() else { continue };
            let home = home(self, &[end, first, arg], shape);
            self.make_dear(arg, home);
        }
        self.homes(func, axes, options, data.regions[0])?;
        let passed = ends(func, data.regions[0]);
        for ((&arg, &result), &value) in after.iter().zip(&data.results).zip(&passed[1..]) {
            let Some(shape) = func.ty(arg).shape() else { continue };
            let home = home(self, &[value], shape);
            self.make_dear(arg, home.clone());
            self.make_dear(result, home);
        }
        self.homes(func, axes, options, data.regions[1])
    }

    fn home_of_op(&mut self, func: &Func, axes: &AxisInfo, options: &Options, op: Op) -> Result<(), Error> {
        let data = func.op(op);
        let Some(&result) = data.results.first() else { return Ok(()) };
        if let Some(placed) = placed(func, op, options) {
            for &result in &data.results {
                if let Some(home) = &placed.result {
                    self.make_dear(result, home.clone());
                }
            }
            return Ok(());
        }
        match &data.kind {
            OpKind::Load { .. } => {
                if let Type::Tile(shape, _) = func.ty(result) {
                    let anchored = self.anchors.get(&result).cloned();
                    let layout = anchored.unwrap_or_else(|| coalesced(func, axes, options, data.operands[0], shape));
                    self.make_dear(result, layout);
                }
            }
            OpKind::Reduce { axis } => {
                let home = self.reduced(func, op, options);
                for &result in &data.results {
                    if let Some(home) = home.without_axis(*axis as usize) {
                        self.make_dear(result, home);
                    }
                }
            }
            OpKind::Dot { .. } | OpKind::DotScaled { .. } => {
                if let Type::Tile(shape, _) = func.ty(result) {
                    let home = match self.choose(func, options, op) {
                        Some(made) => made.sum(shape, options.num_warps),
                        None => product(shape, options),
                    };
                    self.make_dear(result, home);
                }
            }
            kind if Self::is_view(kind) => {
                let operand = data.operands[0];
                for &result in &data.results {
                    self.dear[result.index()] = data.operands.iter().any(|operand| self.dear[operand.index()]);
                }
                let Type::Tile(shape, _) = func.ty(result) else { return Ok(()) };
                self.home[result.index()] = self.home(operand).and_then(|home| match kind {
                    OpKind::Broadcast | OpKind::Join | OpKind::Cat | OpKind::Split => None,
                    OpKind::Trans { order } => Some(home.transposed(order)),
                    _ => Some(home.reshaped(shape)),
                });
            }
            kind if kind.is_elementwise()
                && func.ty(result).shape().is_some()
                && data.operands.iter().any(|operand| self.dear[operand.index()]) =>
            {
                // Of what is only broadcast (an outer product) nothing is made once and for all: it is made where it is wanted, and
                // the narrow tiles that it is made of are what threads exchange.
                self.dear[result.index()] = true;
                self.home[result.index()] = data.operands.iter().find_map(|&operand| self.home(operand).cloned());
            }
            _ => {}
        }
        Ok(())
    }

    fn choose(&mut self, func: &Func, options: &Options, op: Op) -> Option<Product> {
        let mma = tensor_product(func, op)?;
        let [a, b] = factors(&func.op(op).kind).map(|index| func.op(op).operands[index]);
        let along = [self.major(func, a, true), self.major(func, b, false)];
        let shapes = [func.ty(a).shape()?, func.ty(b).shape()?];
        let mut made = Product::choose(mma, shapes[0], shapes[1], along, options.arch, options.num_warps);
        if let Engine::Warps(order) = &mut made.engine {
            // What one operand has already, the other is brought to.
            let sum = Mma::sum(func.ty(func.op(op).results[0]).shape()?, options.num_warps);
            let held = |value: Value, left: bool| Order::of_held(mma, self.home(value)?, left, &sum);
            if let Some(held) = held(a, true).or_else(|| held(b, false)) {
                *order = held;
            }
        }
        self.products.insert(op, made.clone());
        Some(made)
    }

    /// The layout that a reduction reads its operands in.
    pub(super) fn reduced(&self, func: &Func, op: Op, options: &Options) -> Layout {
        let data = func.op(op);
        let home = data.operands.iter().find_map(|&operand| self.home(operand).cloned());
        home.unwrap_or_else(|| {
            plain(func.ty(data.operands[0]).shape().expect("a reduction reads tiles: the verifier saw to it"), options)
        })
    }

    fn make_dear(&mut self, value: Value, home: Layout) {
        self.dear[value.index()] = true;
        self.home[value.index()] = Some(home);
    }

    fn want(&mut self, value: Value, layout: Layout) {
        let all = &mut self.wanted[value.index()];
        if !all.contains(&layout) {
            all.push(layout);
        }
    }

    /// A dear tile that is made by computing is made in its home.
    fn settle(&mut self, value: Value) {
        if let Some(home) = self.home[value.index()].clone() {
            self.wanted[value.index()].retain(|layout| *layout != home);
            self.wanted[value.index()].insert(0, home);
        }
    }

    fn wants(&mut self, func: &Func, axes: &AxisInfo, options: &Options, region: Region) -> Result<(), Error> {
        for &block in func.region(region).blocks.iter().rev() {
            for &op in func.block(block).ops.iter().rev() {
                let data = func.op(op);
                for &result in &data.results {
                    if !Self::is_view(&data.kind) && self.dear[result.index()] && !self.is_ahead(op) {
                        self.settle(result);
                    }
                }
                if data.kind == OpKind::For {
                    let args = func.block(func.region(data.regions[0]).blocks[0]).args.clone();
                    self.carry(&ends(func, data.regions[0]), &args[1..]);
                }
                if data.kind == OpKind::If {
                    for &inner in &data.regions {
                        self.carry(&ends(func, inner), &data.results);
                    }
                }
                if data.kind == OpKind::While {
                    let [before, after] =
                        [0, 1].map(|side| func.block(func.region(data.regions[side]).blocks[0]).args.clone());
                    self.carry(&ends(func, data.regions[1]), &before);
                    self.carry(&ends(func, data.regions[0])[1..], &after);
                }
                if !matches!(data.kind, OpKind::Reduce { .. } | OpKind::Scan { .. }) {
                    // The second region of a `scf.while` comes after the first.
                    for &inner in data.regions.iter().rev() {
                        self.wants(func, axes, options, inner)?;
                    }
                }
                self.operands(func, axes, options, op)?;
            }
            for &arg in &func.block(block).args {
                if is_argument(func, arg) && self.dear[arg.index()] {
                    self.settle(arg);
                }
            }
        }
        Ok(())
    }

    /// `values` become `targets`, in their homes.
    fn carry(&mut self, values: &[Value], targets: &[Value]) {
        for (&value, &target) in values.iter().zip(targets) {
            if let Some(home) = self.home(target).cloned() {
                self.want(value, home);
            }
        }
    }

    fn operands(&mut self, func: &Func, axes: &AxisInfo, options: &Options, op: Op) -> Result<(), Error> {
        let data = func.op(op);
        if self.is_ahead(op) {
            let home = self.home(data.results[0]).cloned().expect("a load has a home");
            for &operand in data.operands.iter().take(2) {
                self.want(operand, home.clone());
            }
            return Ok(());
        }
        if let Some(placed) = placed(func, op, options) {
            for (&operand, layout) in data.operands.iter().zip(placed.operands) {
                if let Some(layout) = layout {
                    self.want(operand, layout);
                }
            }
            return Ok(());
        }
        match &data.kind {
            OpKind::Store { .. } => {
                if let Type::Tile(shape, _) = func.ty(data.operands[0]) {
                    let layout = coalesced(func, axes, options, data.operands[0], shape);
                    for &operand in &data.operands {
                        self.want(operand, layout.clone());
                    }
                    self.stores.insert(op, layout);
                }
            }
            OpKind::Reduce { .. } => {
                let layout = self.reduced(func, op, options);
                for &operand in &data.operands {
                    self.want(operand, layout.clone());
                }
            }
            OpKind::Dot { .. } | OpKind::DotScaled { .. } => {
                let home = self.home(data.results[0]).cloned().expect("a product has a home");
                if let Some(Product { engine: Engine::Groups(_) | Engine::TensorMemory(_), .. }) = self.product(op) {
                    for (side, index) in factors(&data.kind).into_iter().enumerate() {
                        let operand = data.operands[index];
                        let from = self.home(operand).cloned().or_else(|| in_runs(func, options, operand, side == 0));
                        let from = from.expect("a product reads tiles");
                        if self.landing(op, side).is_none() {
                            self.want(operand, from.clone());
                        }
                        self.staged.insert((op, side), from);
                    }
                    if let OpKind::DotScaled { .. } = data.kind {
                        for index in SCALES {
                            let shape = func.ty(data.operands[index]).shape().expect("scales are tiles");
                            self.want(data.operands[index], scales(shape, options.num_warps));
                        }
                    }
                    self.want(data.operands[data.operands.len() - 1], home);
                    return Ok(());
                }
                let (a, b) = product_operands(func, self.product(op), op, &home);
                let packed = self.product(op).map(|made| made.mma.packed);
                for (index, layout) in [a, b].into_iter().enumerate() {
                    let operand = data.operands[index];
                    if self.landing(op, index).is_some() {
                        let from = self.home(operand).cloned().expect("a load has a home");
                        self.staged.insert((op, index), from);
                        continue;
                    }
                    let staged = packed.and_then(|packed| self.staged_from(func, operand, &layout, packed));
                    self.want(operand, staged.clone().unwrap_or(layout));
                    if let Some(from) = staged {
                        self.staged.insert((op, index), from);
                    }
                }
                self.want(data.operands[2], home);
            }
            OpKind::For => {
                let args = func.block(func.region(data.regions[0]).blocks[0]).args.clone();
                self.carry(&data.operands[3..], &args[1..]);
            }
            OpKind::While => {
                let args = func.block(func.region(data.regions[0]).blocks[0]).args.clone();
                self.carry(&data.operands, &args);
            }
            _ => {
                for &result in &data.results {
                    for made in self.wanted[result.index()].clone() {
                        if !Self::is_view(&data.kind) && self.home(result).is_some_and(|home| *home != made) {
                            continue;
                        }
                        for &operand in &data.operands {
                            if let Some(layout) = self.operand_layout(func, op, operand, &made) {
                                self.want(operand, layout);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// The values that a region yields.
pub(super) fn ends(func: &Func, region: Region) -> Vec<Value> {
    let last = func.region(region).blocks.last().and_then(|&block| func.block(block).ops.last());
    last.map(|&op| func.op(op).operands.clone()).unwrap_or_default()
}

/// The layout in which the tile of addresses `pointer` is best read or written: axes by the length of their runs, each thread
/// up to 16 bytes of a run, but no more than its share of the tile.
fn coalesced(func: &Func, axes: &AxisInfo, options: &Options, pointer: Value, shape: Shape) -> Layout {
    let facts = axes.get(func, pointer);
    let mut order: Vec<usize> = (0..shape.rank()).rev().collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(facts.contiguity[axis]));
    let run = super::lower::run_of(func, axes, pointer, order[0]);
    let share = (shape.elements() / (32 * options.num_warps)).max(1);
    Layout::blocked(shape, run.min(share), &order, options.num_warps)
}
