//! The text of programs: Triton 3.6's own, which [`crate::ttir::read`] and Triton itself read.
//!
//! `Display` of a [`Program`] is a module, and that of a [`Func`] is one `tt.func`. Locations are left out. Values keep their names,
//! made unique where two are seen at once; those without get what MLIR gives them: `%0`, `%arg2`, `%c16_i32`, `%cst`. Attributes come
//! in the order of their names. So the text depends on the program alone, and text → program → text is the same text from
//! the second time on.
//!
//! What is printed need not be right: a pass that breaks a function can still show it. What is missing there comes out as `%?`.

mod forms;
mod names;
mod text;

use std::cell::RefCell;
use std::fmt::{self, Formatter, Write};

use super::{Func, Op, OpKind, Program, Region, Type, Value};
use names::Names;
use text::{attribute_name, symbol};

/// How deep regions are printed; deeper ones come out as dots, as do those that were printed before.
const MAX_DEPTH: usize = 64;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("module")?;
        if !self.attributes.is_empty() {
            f.write_str(" attributes")?;
            dictionary(f, self.attributes.iter().map(|(name, value)| (&**name, value.clone())).collect())?;
        }
        f.write_str(" {\n")?;
        for func in &self.funcs {
            Printer::new(func).func(f, 1)?;
        }
        f.write_str("}\n")
    }
}

impl fmt::Display for Func {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Printer::new(self).func(f, 0)
    }
}

/// ` {a = 1 : i32, unit}`, in the order of the names; nothing where there is nothing.
fn dictionary(f: &mut Formatter<'_>, mut attributes: Vec<(&str, String)>) -> fmt::Result {
    if attributes.is_empty() {
        return Ok(());
    }
    attributes.sort();
    f.write_str(" {")?;
    for (index, (name, value)) in attributes.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        let equals = if value.is_empty() { "" } else { " = " };
        write!(f, "{comma}{}{equals}{value}", attribute_name(name))?;
    }
    f.write_str("}")
}

/// Items with commas between them.
fn joined<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut out = String::new();
    for (index, item) in items.into_iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        // Writing to a string does not fail.
        let _ = write!(out, "{comma}{item}");
    }
    out
}

/// A type by itself, several in parentheses.
fn results(types: &[Type]) -> String {
    match types {
        [one] => one.to_string(),
        several => format!("({})", joined(several)),
    }
}

struct Printer<'a> {
    func: &'a Func,
    names: Names,
    /// The regions that are printed, or about to be: in a broken function one may be in two places, or within itself.
    printed: RefCell<Vec<bool>>,
}

impl<'a> Printer<'a> {
    fn new(func: &'a Func) -> Self {
        Self { func, names: Names::new(func), printed: RefCell::new(vec![false; func.region_count()]) }
    }

    fn value(&self, value: Value) -> &str {
        self.names.values.get(value.index()).filter(|name| !name.is_empty()).map_or("%?", |name| name)
    }

    fn values(&self, values: &[Value]) -> String {
        joined(values.iter().map(|&value| self.value(value)))
    }

    fn types(&self, values: &[Value]) -> Vec<Type> {
        values
            .iter()
            .filter(|value| value.index() < self.func.value_count())
            .map(|&value| self.func.ty(value))
            .collect()
    }

    fn func(&self, f: &mut Formatter<'_>, depth: usize) -> fmt::Result {
        let func = self.func;
        indent(f, depth)?;
        write!(f, "tt.func {} {}(", if func.public { "public" } else { "private" }, symbol(&func.name))?;
        let args = &func.block(func.entry()).args;
        for (index, param) in func.params.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{}: {}", args.get(index).map_or("%?", |&arg| self.value(arg)), param.ty)?;
            let mut attributes: Vec<_> =
                param.attributes.iter().map(|(name, value)| (&**name, value.clone())).collect();
            attributes.extend(param.divisibility.map(|value| ("tt.divisibility", format!("{value} : i32"))));
            dictionary(f, attributes)?;
        }
        f.write_str(")")?;
        if !func.results.is_empty() {
            write!(f, " -> {}", results(&func.results))?;
        }
        if !func.attributes.is_empty() {
            f.write_str(" attributes")?;
            dictionary(f, func.attributes.iter().map(|(name, value)| (&**name, value.clone())).collect())?;
        }
        f.write_str(" ")?;
        self.region(f, func.body(), depth, Head::Elsewhere, true)?;
        f.write_str("\n")
    }

    /// `{ … }`, the closing brace at `depth`. `ends`: with the terminators.
    fn region(&self, f: &mut Formatter<'_>, region: Region, depth: usize, head: Head, ends: bool) -> fmt::Result {
        f.write_str("{\n")?;
        let first =
            self.printed.borrow_mut().get_mut(region.index()).is_some_and(|seen| !std::mem::replace(seen, true));
        let known = first && depth < MAX_DEPTH;
        let blocks = if known { &self.func.region(region).blocks[..] } else { &[] };
        if !known {
            indent(f, depth + 1)?;
            f.write_str("...\n")?;
        }
        for (index, &block) in blocks.iter().enumerate() {
            let data = self.func.block(block);
            if index > 0 || (head == Head::Block && !data.args.is_empty()) {
                indent(f, depth)?;
                f.write_str(self.names.block(block))?;
                if !data.args.is_empty() {
                    let args = data.args.iter().map(|&arg| format!("{}: {}", self.value(arg), self.func.ty(arg)));
                    write!(f, "({})", joined(args))?;
                }
                f.write_str(":\n")?;
            }
            for (place, &op) in data.ops.iter().enumerate() {
                let last = place + 1 == data.ops.len();
                if op.index() < self.func.op_count() && (ends || !(last && self.is_implied(op))) {
                    self.op(f, op, depth + 1)?;
                }
            }
        }
        indent(f, depth)?;
        f.write_str("}")
    }

    /// Whether a terminator says nothing.
    fn is_implied(&self, op: Op) -> bool {
        let data = self.func.op(op);
        data.kind == OpKind::Yield && data.operands.is_empty() && data.attributes.is_empty()
    }

    fn op(&self, f: &mut Formatter<'_>, op: Op, depth: usize) -> fmt::Result {
        indent(f, depth)?;
        let data = self.func.op(op);
        if !data.results.is_empty() {
            write!(f, "{} = ", self.names.left(self.func, op))?;
        }
        forms::Form { printer: self, func: self.func, data, depth }.print(f)?;
        f.write_str("\n")
    }
}

/// Where the arguments of a region's first block stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// In the head of the block.
    Block,
    /// In front of the region.
    Elsewhere,
}

fn indent(f: &mut Formatter<'_>, depth: usize) -> fmt::Result {
    write!(f, "{:1$}", "", 2 * depth)
}
