//! The tree to functions of the tile IR: names become values and blocks.
//!
//! A name is seen in its region and in those inside. It may be used before it is defined, since blocks may stand in any order:
//! such a use is kept until the region that it is in ends, then until the one around it ends, and so on. Whether the definition
//! comes first *when run* is for the verifier to say.

use std::collections::HashMap;

use indexmap::IndexMap;

use super::error::{ErrorKind, Fault, Parsed};
use super::kinds;
use super::lexer::Span;
use super::tree::{Attrs, FuncNode, Name, Node, RegionNode, ResultName, Use};
use crate::tile::{Block, Func, Loc, Op, OpKind, Param, Region, Type, Value};

/// A function, and where each of its operations stands: a table by [`Op::index`].
pub(super) struct Built {
    pub(super) func: Func,
    pub(super) spans: Vec<Span>,
}

/// The values that go by one name.
struct Group {
    values: Vec<Value>,
    span: Span,
}

/// A use of a name that is not defined yet.
struct Pending<'a> {
    op: Op,
    operand: usize,
    used: Use<'a>,
}

struct Builder<'a> {
    lines: &'a Lines,
    func: Func,
    spans: Vec<Span>,
    /// The names of the regions that are open, the innermost last.
    scopes: Vec<HashMap<&'a str, Group>>,
    /// Uses that are open, of the regions that are open.
    pending: Vec<Vec<Pending<'a>>>,
}

/// Where the lines of a text start.
pub(super) struct Lines(Vec<u32>);

impl Lines {
    pub(super) fn new(source: &str) -> Self {
        let ends = source.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        Self(std::iter::once(0).chain(ends.map(|(at, _)| at as u32 + 1)).collect())
    }

    fn loc(&self, span: Span) -> Loc {
        let line = self.0.partition_point(|&start| start <= span.start);
        Loc { line: line as u32, column: span.start - self.0[line - 1] + 1 }
    }
}

/// The function of a node.
pub(super) fn build<'a>(node: FuncNode<'a>, lines: &'a Lines) -> Parsed<Built> {
    let mut names = Vec::new();
    let mut params = Vec::new();
    for param in node.params {
        let mut attributes = param.attributes;
        let divisibility = match attributes.get("tt.divisibility").and_then(|attr| divisibility(&attr.text)) {
            Some(value) => {
                attributes.shift_remove("tt.divisibility");
                Some(value)
            }
            None => None,
        };
        names.push(param.name);
        params.push(Param {
            name: param.name.text.to_owned(),
            ty: param.ty,
            divisibility,
            attributes: texts(attributes),
        });
    }
    let mut func = Func::new(node.name, params);
    func.public = node.public;
    func.results = node.results;
    func.attributes = texts(node.attributes);
    let body = func.body();
    let mut builder = Builder { lines, func, spans: Vec::new(), scopes: Vec::new(), pending: vec![Vec::new()] };
    builder.region(body, node.body, Some(&names), None)?;
    match builder.pending.pop().and_then(|pending| pending.into_iter().next()) {
        Some(Pending { op, used, .. }) => {
            let name = builder.func.op(op).kind.name();
            let message = format!("the value `%{}` is not defined", used.name.text);
            Err(Fault::new(ErrorKind::Name, used.name.span, message).of(name))
        }
        None => Ok(Built { func: builder.func, spans: builder.spans }),
    }
}

/// `16 : i32`.
fn divisibility(text: &str) -> Option<u32> {
    text.strip_suffix(": i32")?.trim_end().parse().ok().filter(|value| *value > 0)
}

/// Attributes as text.
pub(super) fn texts(attributes: Attrs<'_>) -> IndexMap<String, String> {
    attributes.into_iter().map(|(name, attribute)| (name, attribute.text.into_owned())).collect()
}

/// Whether a name says more than a number.
fn is_telling(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
}

impl<'a> Builder<'a> {
    /// Fills `region` with the blocks of `node`. `params`: the names of the entry block's arguments, of a function's body.
    fn region(
        &mut self,
        region: Region,
        node: RegionNode<'a>,
        params: Option<&[Name<'a>]>,
        parent: Option<&Name<'a>>,
    ) -> Parsed<()> {
        self.scopes.push(HashMap::new());
        self.pending.push(Vec::new());
        let mut labels: HashMap<&'a str, Block> = HashMap::new();
        let mut blocks = Vec::new();
        for (index, block) in node.blocks.iter().enumerate() {
            let made = match params {
                Some(names) if index == 0 => {
                    if let Some(label) = block.label.filter(|_| !block.args.is_empty()) {
                        let message = "the first block's arguments are the function's parameters";
                        return Err(Fault::new(ErrorKind::Syntax, label.span, message).of("tt.func"));
                    }
                    let entry = self.func.entry();
                    for (index, &name) in names.iter().enumerate() {
                        let value = self.func.param_value(index);
                        self.define(name, vec![value])?;
                    }
                    entry
                }
                _ => {
                    let types: Vec<Type> = block.args.iter().map(|&(_, ty)| ty).collect();
                    let made = self.func.add_block(region, &types);
                    for (index, &(name, _)) in block.args.iter().enumerate() {
                        let value = self.func.block(made).args[index];
                        self.define(name, vec![value])?;
                        self.name(value, name);
                    }
                    made
                }
            };
            if let Some(label) = block.label
                && labels.insert(label.text, made).is_some()
            {
                let message = format!("the block `^{}` is defined twice", label.text);
                return Err(Fault::new(ErrorKind::Name, label.span, message));
            }
            blocks.push(made);
        }
        for (block, node) in blocks.into_iter().zip(node.blocks) {
            for op in node.ops {
                let name = op.name.text;
                self.op(block, op, &labels, parent).map_err(|fault| fault.of(name))?;
            }
        }
        self.settle()
    }

    /// Looks up the uses of a region that ends; those of names that it does not have are the business of the one around it.
    fn settle(&mut self) -> Parsed<()> {
        let pending = self.pending.pop().unwrap_or_default();
        let scope = self.scopes.pop().unwrap_or_default();
        for Pending { op, operand, used } in pending {
            match scope.get(used.name.text) {
                Some(group) => {
                    let value = self.pick(group, used).map_err(|fault| fault.of(self.func.op(op).kind.name()))?;
                    self.func.op_mut(op).operands[operand] = value;
                }
                None => {
                    if let Some(outer) = self.pending.last_mut() {
                        outer.push(Pending { op, operand, used });
                    }
                }
            }
        }
        Ok(())
    }

    fn define(&mut self, name: Name<'a>, values: Vec<Value>) -> Parsed<()> {
        if let Some(other) = self.scopes.iter().find_map(|scope| scope.get(name.text)) {
            let message = format!("`%{}` is defined in line {} already", name.text, self.lines.loc(other.span).line);
            return Err(Fault::new(ErrorKind::Name, name.span, message));
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.text, Group { values, span: name.span });
        }
        Ok(())
    }

    fn name(&mut self, value: Value, name: Name<'a>) {
        if is_telling(name.text) {
            self.func.set_name(value, name.text);
        }
    }

    /// The value of a use, if its type is the one that the use says.
    fn pick(&self, group: &Group, used: Use<'a>) -> Parsed<Value> {
        let Use { name, index, ty } = used;
        let Some(&value) = group.values.get(index as usize) else {
            let message = format!("`%{}` stands for {} values, and has no `#{index}`", name.text, group.values.len());
            return Err(Fault::new(ErrorKind::Name, name.span, message));
        };
        let made = self.func.ty(value);
        match ty {
            Some(ty) if ty != made => {
                let line = self.lines.loc(group.span).line;
                let message = format!(
                    "`%{}` is of type {ty} here, and of type {made} where it is defined, in line {line}",
                    name.text
                );
                Err(Fault::new(ErrorKind::Invalid, name.span, message))
            }
            _ => Ok(value),
        }
    }

    fn op(
        &mut self,
        block: Block,
        mut node: Node<'a>,
        labels: &HashMap<&'a str, Block>,
        parent: Option<&Name<'a>>,
    ) -> Parsed<()> {
        let kind = kinds::kind(&mut node)?;
        check_parent(node.name, parent)?;
        let loc = self.lines.loc(node.name.span);
        let implied = matches!(kind, OpKind::For | OpKind::If) && !node.generic;
        let op = self.func.push_op(block, kind, &[], &node.result_types, loc);
        self.spans.push(node.name.span);
        for (index, used) in node.operands.into_iter().enumerate() {
            let value = match self.scopes.iter().rev().find_map(|scope| scope.get(used.name.text)) {
                Some(group) => self.pick(group, used)?,
                None => {
                    if let Some(pending) = self.pending.last_mut() {
                        pending.push(Pending { op, operand: index, used });
                    }
                    // Stands in until the name is looked up; it is looked up, or reading fails.
                    Value::new(u32::MAX as usize)
                }
            };
            self.func.op_mut(op).operands.push(value);
        }
        for label in node.successors {
            let Some(&block) = labels.get(label.text) else {
                let message = format!("the block `^{}` is not defined", label.text);
                return Err(Fault::new(ErrorKind::Name, label.span, message));
            };
            self.func.op_mut(op).successors.push(block);
        }
        self.func.op_mut(op).attributes = texts(node.attributes);
        for region in node.regions {
            let made = self.func.add_region(op);
            self.region(made, region, None, Some(&node.name))?;
            if implied {
                self.imply_yield(made, loc, node.name.span);
            }
        }
        self.results(op, &node.results, node.name)
    }

    /// The short form leaves out a `scf.yield` of nothing.
    fn imply_yield(&mut self, region: Region, loc: Loc, span: Span) {
        if let [block] = self.func.region(region).blocks[..] {
            let ends = self.func.block(block).ops.last().is_some_and(|&op| self.func.op(op).kind.is_terminator());
            if !ends {
                self.func.push_op(block, OpKind::Yield, &[], &[], loc);
                self.spans.push(span);
            }
        }
    }

    fn results(&mut self, op: Op, names: &[ResultName<'a>], of: Name<'a>) -> Parsed<()> {
        let values = self.func.op(op).results.clone();
        let named: u64 = names.iter().map(|name| u64::from(name.count)).sum();
        if !names.is_empty() && named != values.len() as u64 {
            let span = names.first().map_or(of.span, |first| first.name.span);
            let message = format!("{named} results are named, and there are {}", values.len());
            return Err(Fault::new(ErrorKind::Name, span, message));
        }
        let mut rest = &values[..];
        for &ResultName { name, count } in names {
            let (group, others) = rest.split_at(count as usize);
            rest = others;
            self.define(name, group.to_vec())?;
            self.name(group[0], name);
        }
        Ok(())
    }
}

/// The three operations that end regions with values are one in the tile IR; here each has its place.
fn check_parent(name: Name<'_>, parent: Option<&Name<'_>>) -> Parsed<()> {
    let place = match name.text {
        "tt.reduce.return" => "tt.reduce",
        "tt.scan.return" => "tt.scan",
        "scf.yield" => "scf.for, scf.while or scf.if",
        _ => return Ok(()),
    };
    match parent {
        Some(parent) if place == parent.text || (name.text == "scf.yield" && parent.text.starts_with("scf.")) => Ok(()),
        _ => {
            let found = parent.map_or("a function", |parent| parent.text);
            Err(Fault::new(
                ErrorKind::Invalid,
                name.span,
                format!("ends a region of {place}, and is in one of {found}"),
            ))
        }
    }
}
