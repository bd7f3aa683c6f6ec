//! Functions: arenas of values, operations, blocks and regions, named by typed indices.

use indexmap::IndexMap;

use super::{OpKind, Type};

/// Declares a typed index into an arena of [`Func`].
macro_rules! index {
    ($(#[$outer:meta])* $name:ident) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            /// Its place in the arena.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The one at `index`.
            pub(crate) fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("an arena has fewer than 2^32 items"))
            }
        }
    };
}

index!(
    /// A value: a block's argument or an operation's result.
    Value
);
index!(
    /// An operation.
    Op
);
index!(
    /// A block: arguments, then operations, the last of which ends it.
    Block
);
index!(
    /// A region: blocks, the first of which is entered.
    Region
);

/// Where something was written: 1-based; zeros where nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Loc {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Def {
    /// The n-th result of an operation.
    Result(Op, u32),
    /// The n-th argument of a block.
    Arg(Block, u32),
}

/// A value's type and origin.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// Its origin.
    pub def: Def,
    /// A name for the printer: without `%`; empty where it has none.
    pub name: String,
}

/// An operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OpData {
    /// What it does.
    pub kind: OpKind,
    /// What it reads.
    pub operands: Vec<Value>,
    /// What it makes.
    pub results: Vec<Value>,
    /// Its regions.
    pub regions: Vec<Region>,
    /// Blocks that it may go to.
    pub successors: Vec<Block>,
    /// The block that it is in.
    pub block: Block,
    /// Where it was written.
    pub loc: Loc,
    /// Attributes that no pass reads, kept as text: name → value (`tt.num_stages` → `2 : i32`).
    pub attributes: IndexMap<String, String>,
}

/// A block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockData {
    /// Its arguments.
    pub args: Vec<Value>,
    /// Its operations.
    pub ops: Vec<Op>,
    /// The region that it is in.
    pub region: Region,
}

/// A region.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionData {
    /// Its blocks; none where it is empty.
    pub blocks: Vec<Block>,
    /// The operation that owns it; `None` for a function's body.
    pub parent: Option<Op>,
}

/// A parameter of a function; its value is the entry block's argument of the same place.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// `tt.divisibility`: the value, or the address in bytes, is a multiple of this.
    pub divisibility: Option<u32>,
    /// Other attributes, kept as text.
    pub attributes: IndexMap<String, String>,
}

/// A function: a kernel where it is public.
#[derive(Clone, Debug, PartialEq)]
pub struct Func {
    /// Its name, without `@`.
    pub name: String,
    /// A kernel, or a function that is called.
    pub public: bool,
    /// Its parameters.
    pub params: Vec<Param>,
    /// The types that it returns; none for a kernel.
    pub results: Vec<Type>,
    /// Attributes of the function, kept as text (`noinline` → `false`).
    pub attributes: IndexMap<String, String>,
    values: Vec<ValueData>,
    ops: Vec<OpData>,
    blocks: Vec<BlockData>,
    regions: Vec<RegionData>,
}

/// The functions of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The functions in order.
    pub funcs: Vec<Func>,
    /// Attributes of the module, kept as text.
    pub attributes: IndexMap<String, String>,
}

impl Program {
    /// The function called `name`.
    pub fn func(&self, name: &str) -> Option<&Func> {
        self.funcs.iter().find(|func| func.name == name)
    }

    /// The kernels: the public functions.
    pub fn kernels(&self) -> impl Iterator<Item = &Func> {
        self.funcs.iter().filter(|func| func.public)
    }
}

impl Func {
    /// A function with an empty entry block, whose arguments are its parameters.
    pub fn new(name: impl Into<String>, params: Vec<Param>) -> Self {
        let mut func = Self {
            name: name.into(),
            public: true,
            params,
            results: Vec::new(),
            attributes: IndexMap::new(),
            values: Vec::new(),
            ops: Vec::new(),
            blocks: Vec::new(),
            regions: vec![RegionData { blocks: Vec::new(), parent: None }],
        };
        let types: Vec<Type> = func.params.iter().map(|param| param.ty).collect();
        let entry = func.add_block(func.body(), &types);
        for (index, arg) in func.block(entry).args.clone().into_iter().enumerate() {
            func.values[arg.index()].name = func.params[index].name.clone();
        }
        func
    }

    /// The region of the function itself.
    pub fn body(&self) -> Region {
        Region::new(0)
    }

    /// The block that the function starts in.
    pub fn entry(&self) -> Block {
        self.region(self.body()).blocks[0]
    }

    /// The value of the parameter at `index`.
    pub fn param_value(&self, index: usize) -> Value {
        self.block(self.entry()).args[index]
    }

    /// A value's data.
    pub fn value(&self, value: Value) -> &ValueData {
        &self.values[value.index()]
    }

    /// A value's type.
    pub fn ty(&self, value: Value) -> Type {
        self.value(value).ty
    }

    /// The operation that makes `value`, or `None` for a block's argument.
    pub fn def_op(&self, value: Value) -> Option<Op> {
        match self.value(value).def {
            Def::Result(op, _) => Some(op),
            Def::Arg(..) => None,
        }
    }

    /// An operation.
    pub fn op(&self, op: Op) -> &OpData {
        &self.ops[op.index()]
    }

    /// A block.
    pub fn block(&self, block: Block) -> &BlockData {
        &self.blocks[block.index()]
    }

    /// A region.
    pub fn region(&self, region: Region) -> &RegionData {
        &self.regions[region.index()]
    }

    /// How many values were ever made: the length of a table by [`Value::index`].
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// How many operations were ever made, dead ones included: the length of a table by [`Op::index`].
    pub fn op_count(&self) -> usize {
        self.ops.len()
    }

    /// How many blocks were ever made.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// How many regions were ever made.
    pub fn region_count(&self) -> usize {
        self.regions.len()
    }

    /// A new block at the end of `region`, with arguments of these types.
    pub fn add_block(&mut self, region: Region, args: &[Type]) -> Block {
        let block = Block::new(self.blocks.len());
        self.blocks.push(BlockData { args: Vec::new(), ops: Vec::new(), region });
        self.regions[region.index()].blocks.push(block);
        for &ty in args {
            self.add_block_arg(block, ty);
        }
        block
    }

    /// A new argument of `block`, after those that it has.
    pub fn add_block_arg(&mut self, block: Block, ty: Type) -> Value {
        let index = self.block(block).args.len() as u32;
        let value = self.add_value(ty, Def::Arg(block, index));
        self.blocks[block.index()].args.push(value);
        value
    }

    /// A new empty region of `op`, after those that it has.
    pub fn add_region(&mut self, op: Op) -> Region {
        let region = Region::new(self.regions.len());
        self.regions.push(RegionData { blocks: Vec::new(), parent: Some(op) });
        self.ops[op.index()].regions.push(region);
        region
    }

    /// A new result of `op`, after those that it has.
    pub fn add_result(&mut self, op: Op, ty: Type) -> Value {
        let index = self.op(op).results.len() as u32;
        let value = self.add_value(ty, Def::Result(op, index));
        self.ops[op.index()].results.push(value);
        value
    }

    /// Makes `results`, each a result of `op` already, its results in this order. Those left out must have no uses.
    pub fn set_results(&mut self, op: Op, results: Vec<Value>) {
        for (index, value) in results.iter().enumerate() {
            self.values[value.index()].def = Def::Result(op, index as u32);
        }
        self.ops[op.index()].results = results;
    }

    /// Makes `args`, each an argument of `block` already, its arguments in this order. Those left out must have no uses.
    pub fn set_block_args(&mut self, block: Block, args: Vec<Value>) {
        for (index, value) in args.iter().enumerate() {
            self.values[value.index()].def = Def::Arg(block, index as u32);
        }
        self.blocks[block.index()].args = args;
    }

    /// The blocks of a region, to be taken out. What is taken out must not be gone to.
    pub fn region_blocks_mut(&mut self, region: Region) -> &mut Vec<Block> {
        &mut self.regions[region.index()].blocks
    }

    /// The operation that a block is inside, or `None` where it is of the function's body.
    pub fn parent_op(&self, block: Block) -> Option<Op> {
        self.region(self.block(block).region).parent
    }

    /// A new operation at the end of `block`. Its types are not checked here: see [`super::verify`].
    pub fn push_op(&mut self, block: Block, kind: OpKind, operands: &[Value], results: &[Type], loc: Loc) -> Op {
        let at = self.block(block).ops.len();
        self.insert_op(block, at, kind, operands, results, loc)
    }

    /// A new operation at place `at` of `block`.
    pub fn insert_op(
        &mut self,
        block: Block,
        at: usize,
        kind: OpKind,
        operands: &[Value],
        results: &[Type],
        loc: Loc,
    ) -> Op {
        let op = Op::new(self.ops.len());
        self.ops.push(OpData {
            kind,
            operands: operands.to_vec(),
            results: Vec::new(),
            regions: Vec::new(),
            successors: Vec::new(),
            block,
            loc,
            attributes: IndexMap::new(),
        });
        for (index, &ty) in results.iter().enumerate() {
            let value = self.add_value(ty, Def::Result(op, index as u32));
            self.ops[op.index()].results.push(value);
        }
        self.blocks[block.index()].ops.insert(at, op);
        op
    }

    /// The one result of `op`.
    ///
    /// # Panics
    /// Where it has none or several.
    pub fn result(&self, op: Op) -> Value {
        let [value] = self.op(op).results[..] else { panic!("{} has not one result", self.op(op).kind.name()) };
        value
    }

    /// Changes an operation in place.
    pub fn op_mut(&mut self, op: Op) -> &mut OpData {
        &mut self.ops[op.index()]
    }

    /// The operations of a block, to be put in another order or taken out. What is taken out must have no uses.
    pub fn block_ops_mut(&mut self, block: Block) -> &mut Vec<Op> {
        &mut self.blocks[block.index()].ops
    }

    /// Names a value for the printer.
    pub fn set_name(&mut self, value: Value, name: impl Into<String>) {
        self.values[value.index()].name = name.into();
    }

    /// Changes a value's type.
    pub fn set_type(&mut self, value: Value, ty: Type) {
        self.values[value.index()].ty = ty;
    }

    /// Moves `op` to the end of `block` (another than its own, or its own).
    pub fn move_op(&mut self, op: Op, block: Block, at: usize) {
        let from = self.op(op).block;
        self.blocks[from.index()].ops.retain(|&other| other != op);
        self.blocks[block.index()].ops.insert(at, op);
        self.ops[op.index()].block = block;
    }

    /// Every use of `old` becomes one of `new`.
    pub fn replace_uses(&mut self, old: Value, new: Value) {
        for op in &mut self.ops {
            for operand in &mut op.operands {
                if *operand == old {
                    *operand = new;
                }
            }
        }
    }

    /// Calls `visit` for every operation that is in a block, in the order of the text: an operation before those in its regions.
    pub fn walk(&self, visit: &mut impl FnMut(Op)) {
        self.walk_region(self.body(), visit);
    }

    /// [`Func::walk`] of one region. In a broken function, where a region may be within itself, each is walked once.
    pub fn walk_region(&self, region: Region, visit: &mut impl FnMut(Op)) {
        enum Item {
            Region(Region),
            Op(Op),
        }
        let mut seen = vec![false; self.regions.len()];
        let mut todo = vec![Item::Region(region)];
        while let Some(item) = todo.pop() {
            match item {
                Item::Region(region) => {
                    if seen.get_mut(region.index()).is_none_or(|seen| std::mem::replace(seen, true)) {
                        continue;
                    }
                    let blocks = self.region(region).blocks.iter().filter(|block| block.index() < self.blocks.len());
                    let ops = blocks.flat_map(|&block| &self.block(block).ops).copied();
                    let first = todo.len();
                    todo.extend(ops.filter(|op| op.index() < self.ops.len()).map(Item::Op));
                    todo[first..].reverse();
                }
                Item::Op(op) => {
                    visit(op);
                    todo.extend(self.op(op).regions.iter().rev().map(|&inner| Item::Region(inner)));
                }
            }
        }
    }

    /// Every operation in the order of [`Func::walk`].
    pub fn all_ops(&self) -> Vec<Op> {
        let mut ops = Vec::new();
        self.walk(&mut |op| ops.push(op));
        ops
    }

    /// How many operands of operations in blocks each value has: a table by [`Value::index`].
    pub fn use_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.values.len()];
        self.walk(&mut |op| {
            for operand in &self.op(op).operands {
                counts[operand.index()] += 1;
            }
        });
        counts
    }

    /// The bits of the constant that `value` is, or `None` where it is none. A splat of a constant is one too.
    pub fn constant(&self, value: Value) -> Option<u64> {
        let op = self.op(self.def_op(value)?);
        match op.kind {
            OpKind::Constant(bits) => Some(bits),
            OpKind::Splat | OpKind::Broadcast | OpKind::ExpandDims { .. } => self.constant(op.operands[0]),
            _ => None,
        }
    }

    fn add_value(&mut self, ty: Type, def: Def) -> Value {
        let value = Value::new(self.values.len());
        self.values.push(ValueData { ty, def, name: String::new() });
        value
    }
}
