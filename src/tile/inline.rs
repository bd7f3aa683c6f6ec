//! Calls, replaced by what they call.
//!
//! [`Program::inlined`] makes of a kernel one function without calls, as the compiler needs it. The functions that it calls are made
//! so first, each once; then each call gives way to a copy of the callee's operations, in whatever region it is.
//!
//! Several blocks of a callee (Triton makes them of a `return` within an `if`) cannot stand in a region, and block arguments of
//! the compiler's are no tiles. So a conditional branch becomes an `scf.if` that gives the function's results, either region with
//! all that follows on its way: what two ways share is there twice. Triton's loops are `scf`'s, so no way comes back to a block; one that does is
//! refused.

use std::collections::{HashMap, HashSet};

use super::verify::{VerifyError, about, about_func, check_call};
use super::{Block, Func, Loc, Op, OpKind, Program, Region, Type, Value};

/// The most operations that a function may come to have: calls of calls multiply, and a text of a few lines must not fill the memory.
const MOST_OPS: usize = 1 << 17;

/// The most conditions within each other that a callee's branches may become; the reader's own limit is of this size.
const MOST_NESTED: usize = 48;

impl Program {
    /// The function called `name`, with each call replaced by what it calls.
    ///
    /// # Errors
    /// No such function, a call that does not fit its callee, recursion, branches of a callee that go in a circle, or more operations than a
    /// kernel can have; where it is, is said.
    ///
    /// ```
    /// let program = tilewright::ttir::read(
    ///     "module {
    ///        tt.func public @kernel(%out: !tt.ptr<i32>, %n: i32) {
    ///          %m = tt.call @twice(%n) : (i32) -> i32
    ///          tt.store %out, %m : !tt.ptr<i32>
    ///          tt.return
    ///        }
    ///        tt.func private @twice(%n: i32) -> i32 {
    ///          %m = arith.addi %n, %n : i32
    ///          tt.return %m : i32
    ///        }
    ///      }",
    /// )?;
    /// let kernel = program.inlined("kernel")?;
    /// let names: Vec<_> = kernel.all_ops().into_iter().map(|op| kernel.op(op).kind.name()).collect();
    /// assert_eq!(names, ["arith.addi", "tt.store", "tt.return"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inlined(&self, name: &str) -> Result<Func, VerifyError> {
        let Some(root) = self.func(name) else {
            let nowhere = Func::new(name, Vec::new());
            return Err(about_func(&nowhere, "there is no such function".to_owned()));
        };
        let mut ready: HashMap<&str, Func> = HashMap::new();
        for func in self.callees_first(root)? {
            let made = Caller { program: self, ready: &ready, func: func.clone(), renamed: HashMap::new() }.run()?;
            ready.insert(&func.name, made);
        }
        // The last was the root, which the order ends with.
        Ok(ready.remove(name).unwrap_or_else(|| root.clone()))
    }

    /// The functions that `root` calls, by whatever way, each behind those that it calls itself.
    fn callees_first<'p>(&'p self, root: &'p Func) -> Result<Vec<&'p Func>, VerifyError> {
        let mut order = Vec::new();
        let mut done: HashSet<&str> = HashSet::new();
        // The way to here: a function, and its calls that are still to be followed.
        let mut way = vec![(root, calls(root))];
        while let Some((func, todo)) = way.last_mut() {
            let func = *func;
            let Some(op) = todo.pop() else {
                done.insert(&func.name);
                order.push(func);
                way.pop();
                continue;
            };
            let OpKind::Call { callee } = &func.op(op).kind else { continue };
            check_call(self, func, op, callee).map_err(|message| about(func, op, message))?;
            let Some(called) = self.func(callee).filter(|called| !done.contains(&called.name[..])) else { continue };
            if let Some(start) = way.iter().position(|(other, _)| other.name == called.name) {
                let circle: Vec<String> = way[start..].iter().map(|(func, _)| format!("`@{}`", func.name)).collect();
                let message = match &circle[..] {
                    [own] => format!("{own} calls itself: recursion cannot be inlined"),
                    _ => format!("{} call each other in a circle: recursion cannot be inlined", circle.join(", ")),
                };
                return Err(about(func, op, message));
            }
            way.push((called, calls(called)));
        }
        Ok(order)
    }
}

/// The calls of a function, the last first.
fn calls(func: &Func) -> Vec<Op> {
    let is_call = |op: &Op| matches!(func.op(*op).kind, OpKind::Call { .. });
    func.all_ops().into_iter().filter(is_call).rev().collect()
}

/// A function whose calls are being replaced.
struct Caller<'p> {
    program: &'p Program,
    /// Functions without calls.
    ready: &'p HashMap<&'p str, Func>,
    func: Func,
    /// The results of calls that are gone, and what they are now.
    renamed: HashMap<Value, Value>,
}

impl Caller<'_> {
    fn run(mut self) -> Result<Func, VerifyError> {
        let mut blocks: Vec<Block> = calls(&self.func).into_iter().map(|op| self.func.op(op).block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        for block in blocks {
            for op in std::mem::take(self.func.block_ops_mut(block)) {
                match &self.func.op(op).kind {
                    OpKind::Call { callee } => self.replace(op, &callee.clone(), block)?,
                    _ => self.func.block_ops_mut(block).push(op),
                }
            }
        }
        if !self.renamed.is_empty() {
            for op in self.func.all_ops() {
                for index in 0..self.func.op(op).operands.len() {
                    let now = self.current(self.func.op(op).operands[index]);
                    self.func.op_mut(op).operands[index] = now;
                }
            }
        }
        Ok(self.func)
    }

    /// What `value` is now: a result of a call may have become one of another call.
    fn current(&self, mut value: Value) -> Value {
        while let Some(&now) = self.renamed.get(&value) {
            value = now;
        }
        value
    }

    /// Puts what `op` calls at the end of `block`.
    fn replace(&mut self, op: Op, callee: &str, block: Block) -> Result<(), VerifyError> {
        let ready = self.ready;
        // Every function stands behind those that it calls.
        let Some(called) = ready.get(callee).or_else(|| self.program.func(callee)) else { return Ok(()) };
        let data = self.func.op(op).clone();
        let args = data.operands.iter().map(|&value| self.current(value));
        let names = called.block(called.entry()).args.iter().copied().zip(args).collect();
        let mut copy =
            Copy { to: &mut self.func, from: called, names, way: Vec::new(), on_way: HashSet::new(), call: data.loc };
        let made = copy.way_from(called.entry(), block).map_err(|message| about(&self.func, op, message))?;
        for (&result, value) in data.results.iter().zip(made) {
            let name = self.func.value(result).name.clone();
            if self.func.value(value).name.is_empty() {
                self.func.set_name(value, name);
            }
            self.renamed.insert(result, value);
        }
        Ok(())
    }
}

/// Operations of one function being copied into another.
struct Copy<'a> {
    to: &'a mut Func,
    from: &'a Func,
    /// What each value of `from` is in `to`, on the way that is being copied.
    names: HashMap<Value, Value>,
    /// The blocks of `from` on the way to here.
    way: Vec<Block>,
    /// The same.
    on_way: HashSet<Block>,
    /// Where the call is.
    call: Loc,
}

impl Copy<'_> {
    /// Puts all that happens from the start of the block `from` to the return at the end of the block `to`. Gives what is returned.
    fn way_from(&mut self, from: Block, to: Block) -> Result<Vec<Value>, String> {
        let (source, depth) = (self.from, self.way.len());
        let mut block = from;
        loop {
            if !self.on_way.insert(block) {
                return Err(format!("the branches of `@{}` go in a circle: they cannot be inlined", source.name));
            }
            self.way.push(block);
            let Some((&last, ops)) = source.block(block).ops.split_last() else { return Ok(Vec::new()) };
            for &op in ops {
                self.op(op, to)?;
            }
            let data = source.op(last);
            let operands = self.values(&data.operands);
            match data.kind {
                OpKind::Branch => {
                    block = data.successors[0];
                    self.bind(block, &operands);
                }
                OpKind::CondBranch { then_args } => {
                    self.room()?;
                    let types = &source.results;
                    let made = self.to.push_op(to, OpKind::If, &operands[..1], types, data.loc);
                    let (then, otherwise) = operands[1..].split_at(then_args as usize);
                    for (&next, given) in data.successors.iter().zip([then, otherwise]) {
                        let region = self.to.add_region(made);
                        let inner = self.to.add_block(region, &[]);
                        self.nest(made)?;
                        self.bind(next, given);
                        let given = self.way_from(next, inner)?;
                        self.to.push_op(inner, OpKind::Yield, &given, &[], data.loc);
                    }
                    self.leave(depth);
                    return Ok(self.to.op(made).results.clone());
                }
                _ => {
                    self.leave(depth);
                    return Ok(operands);
                }
            }
        }
    }

    /// Back to the first `depth` blocks of the way.
    fn leave(&mut self, depth: usize) {
        for block in self.way.drain(depth..) {
            self.on_way.remove(&block);
        }
    }

    /// Fails where there are too many operations.
    fn room(&self) -> Result<(), String> {
        if self.to.op_count() < MOST_OPS {
            return Ok(());
        }
        Err(format!("`@{}` comes to have {MOST_OPS} operations when `@{}` is inlined", self.to.name, self.from.name))
    }

    /// Fails where conditions are too deep within each other.
    fn nest(&self, op: Op) -> Result<(), String> {
        let parents = std::iter::successors(Some(op), |&op| self.to.parent_op(self.to.op(op).block));
        if parents.count() > MOST_NESTED {
            return Err(format!("conditions of `@{}` nest deeper than {MOST_NESTED}", self.from.name));
        }
        Ok(())
    }

    fn bind(&mut self, block: Block, given: &[Value]) {
        let args = &self.from.block(block).args;
        self.names.extend(args.iter().copied().zip(given.iter().copied()));
    }

    fn values(&self, values: &[Value]) -> Vec<Value> {
        // A function that the verifier takes uses what was made before.
        values.iter().map(|value| self.names[value]).collect()
    }

    fn op(&mut self, op: Op, to: Block) -> Result<(), String> {
        self.room()?;
        let data = self.from.op(op);
        let types: Vec<Type> = data.results.iter().map(|&value| self.from.ty(value)).collect();
        // What no line is known of is where it is called.
        let loc = if data.loc.line == 0 { self.call } else { data.loc };
        let operands = self.values(&data.operands);
        let made = self.to.push_op(to, data.kind.clone(), &operands, &types, loc);
        self.to.op_mut(made).attributes.clone_from(&data.attributes);
        let results = self.to.op(made).results.clone();
        self.alias(&data.results, &results);
        for &region in &data.regions {
            let inner = self.to.add_region(made);
            self.region(region, inner)?;
        }
        Ok(())
    }

    fn region(&mut self, from: Region, to: Region) -> Result<(), String> {
        for &block in &self.from.region(from).blocks {
            let data = self.from.block(block);
            let types: Vec<Type> = data.args.iter().map(|&arg| self.from.ty(arg)).collect();
            let made = self.to.add_block(to, &types);
            let args = self.to.block(made).args.clone();
            self.alias(&data.args, &args);
            for &op in &data.ops {
                self.op(op, made)?;
            }
        }
        Ok(())
    }

    /// `made` are `values`, by their names too.
    fn alias(&mut self, values: &[Value], made: &[Value]) {
        for (&value, &copy) in values.iter().zip(made) {
            self.names.insert(value, copy);
            self.to.set_name(copy, self.from.value(value).name.clone());
        }
    }
}
