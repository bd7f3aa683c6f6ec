//! The model back to text, in a normal form: two modules that differ in names, spacing, comments or the spelling of
//! literals alone print the same.
//!
//! Virtual registers are numbered by class in the order of their first use, and declared at the head of the scope that
//! declared them, those that are used only; labels are numbered in the order of their definition. What has a meaning
//! outside the function keeps its name: kernels, parameters, variables, special registers. Comments, `.loc` and `.file`
//! are left out.

use std::collections::HashMap;
use std::fmt::Write;

use indexmap::IndexMap;

use super::model::{
    Function, Immediate, Instruction, Item, Operand, Program, RawDirective, Space, Statement, Variable,
};

/// Writes `program` in the normal form.
pub fn print(program: &Program) -> String {
    let mut printer = Printer { out: String::new(), scopes: Vec::new(), counts: IndexMap::new(), labels: 0 };
    printer.program(program);
    printer.out
}

/// The prefix of the normal names of registers of a type.
fn prefix(ty: &str) -> &'static str {
    match ty {
        "pred" => "%p",
        "b8" | "u8" | "s8" => "%rc",
        "b16" | "u16" | "s16" | "f16" | "bf16" => "%rs",
        "f32" => "%f",
        "b64" | "u64" | "s64" => "%rd",
        "f64" => "%fd",
        "b128" => "%rq",
        _ => "%r",
    }
}

/// What a name stands for in a scope.
#[derive(Clone)]
enum Meaning {
    /// A register of this type, not used yet.
    Declared(String),
    /// Its normal name.
    Named(String),
}

#[derive(Default)]
struct Scope {
    registers: HashMap<String, Meaning>,
    labels: HashMap<String, String>,
    /// Registers by type, in order of first use: how many, with their normal names.
    used: IndexMap<String, Vec<String>>,
}

struct Printer {
    out: String,
    scopes: Vec<Scope>,
    /// Registers of each prefix so far in the function.
    counts: IndexMap<&'static str, u32>,
    labels: u32,
}

impl Printer {
    fn line(&mut self, text: std::fmt::Arguments) {
        // Writing to a string does not fail.
        let _ = self.out.write_fmt(text);
        self.out.push('\n');
    }

    fn program(&mut self, program: &Program) {
        self.line(format_args!(".version {}.{}", program.version.0, program.version.1));
        self.line(format_args!(".target {}", program.target.join(", ")));
        self.line(format_args!(".address_size {}", program.address_size));
        for item in &program.items {
            match item {
                Item::Variable(variable) => {
                    let text = variable_text(variable);
                    self.line(format_args!("{text};"));
                }
                Item::Directive(directive) if is_noise(directive) => {}
                Item::Directive(directive) => self.raw(directive, 0),
                Item::Function(function) => self.function(function),
            }
        }
    }

    fn raw(&mut self, directive: &RawDirective, depth: usize) {
        let words = directive.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let end = if directive.semicolon { ";" } else { "" };
        self.line(format_args!("{:indent$}{words}{end}", "", indent = 4 * depth));
    }

    fn function(&mut self, function: &Function) {
        self.out.push('\n');
        let linkage = function.linkage.as_ref().map_or(String::new(), |linkage| format!(".{linkage} "));
        let kind = if function.is_entry { ".entry" } else { ".func" };
        let list = |variables: &[Variable]| variables.iter().map(variable_text).collect::<Vec<_>>().join(", ");
        let returns =
            if function.returns.is_empty() { String::new() } else { format!(" ({})", list(&function.returns)) };
        if function.params.is_empty() {
            self.line(format_args!("{linkage}{kind}{returns} {}()", function.name));
        } else {
            self.line(format_args!("{linkage}{kind}{returns} {}(", function.name));
            for (place, param) in function.params.iter().enumerate() {
                let comma = if place + 1 == function.params.len() { "" } else { "," };
                let text = variable_text(param);
                self.line(format_args!("    {text}{comma}"));
            }
            self.line(format_args!(")"));
        }
        for (name, values) in &function.directives {
            let values = values.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            let space = if values.is_empty() { "" } else { " " };
            self.line(format_args!(".{name}{space}{values}"));
        }
        match &function.body {
            None => self.line(format_args!(";")),
            Some(body) => {
                self.counts.clear();
                self.labels = 0;
                self.block(body, 0);
            }
        }
    }

    /// A scope: its body is written aside first, since which registers it uses is known only then.
    fn block(&mut self, statements: &[Statement], depth: usize) {
        let mut scope = Scope::default();
        for statement in statements {
            match statement {
                Statement::Label(label) => {
                    scope.labels.insert(label.name.clone(), format!("$L{}", self.labels));
                    self.labels += 1;
                }
                Statement::Registers(declaration) => {
                    let ty = match declaration.vector {
                        Some(width) => format!("v{width} .{}", declaration.ty),
                        None => declaration.ty.clone(),
                    };
                    for (name, count) in &declaration.names {
                        match count {
                            None => {
                                scope.registers.insert(name.clone(), Meaning::Declared(ty.clone()));
                            }
                            Some(count) => scope.registers.extend(
                                (0..*count).map(|index| (format!("{name}{index}"), Meaning::Declared(ty.clone()))),
                            ),
                        }
                    }
                }
                _ => {}
            }
        }
        self.scopes.push(scope);
        let before = std::mem::take(&mut self.out);
        for statement in statements {
            self.statement(statement, depth + 1);
        }
        let body = std::mem::replace(&mut self.out, before);
        let indent = 4 * depth;
        self.line(format_args!("{:indent$}{{", ""));
        if let Some(scope) = self.scopes.pop() {
            for (ty, names) in scope.used {
                self.line(format_args!("{:indent$}    .reg .{ty} {};", "", names.join(", ")));
            }
        }
        self.out.push_str(&body);
        self.line(format_args!("{:indent$}}}", ""));
    }

    fn statement(&mut self, statement: &Statement, depth: usize) {
        let indent = 4 * depth;
        match statement {
            Statement::Registers(_) => {}
            Statement::Variable(variable) => {
                let text = variable_text(variable);
                self.line(format_args!("{:indent$}{text};", ""));
            }
            Statement::Label(label) => {
                let name = self.label(&label.name).unwrap_or_else(|| label.name.clone());
                self.line(format_args!("{name}:"));
            }
            Statement::Block(inner) => self.block(inner, depth),
            Statement::Directive(directive) if is_noise(directive) => {}
            Statement::Directive(directive) => match directive.text.strip_prefix(".branchtargets") {
                Some(targets) => {
                    let targets = targets
                        .split(',')
                        .map(|target| self.label(target.trim()).unwrap_or_else(|| target.trim().to_owned()))
                        .collect::<Vec<_>>()
                        .join(", ");
                    self.line(format_args!("{:indent$}.branchtargets {targets};", ""));
                }
                None => self.raw(directive, depth),
            },
            Statement::Instruction(instruction) => {
                let text = self.instruction(instruction);
                self.line(format_args!("{:indent$}{text};", ""));
            }
        }
    }

    fn instruction(&mut self, instruction: &Instruction) -> String {
        let mut text = String::new();
        if let Some(guard) = &instruction.guard {
            let negation = if guard.negated { "!" } else { "" };
            let _ = write!(text, "@{negation}{} ", self.name(&guard.register));
        }
        text.push_str(&instruction.mnemonic());
        for (place, operand) in instruction.operands.iter().enumerate() {
            text.push_str(if place == 0 { " " } else { ", " });
            text.push_str(&self.operand(operand));
        }
        text
    }

    fn operand(&mut self, operand: &Operand) -> String {
        match operand {
            Operand::Name(name) => self.name(name),
            Operand::Not(inner) => format!("!{}", self.operand(inner)),
            Operand::Immediate(value) => literal(*value),
            Operand::Address { base, offset, coordinates } => {
                let mut text = format!("[{}", self.operand(base));
                if *offset != 0 {
                    text.push_str(&format!("+{offset}"));
                }
                for coordinate in coordinates {
                    text.push_str(", ");
                    text.push_str(&self.operand(coordinate));
                }
                text.push(']');
                text
            }
            Operand::Vector(parts) => format!("{{{}}}", self.operands(parts)),
            Operand::List(parts) => format!("({})", self.operands(parts)),
            Operand::Pair(first, second) => format!("{}|{}", self.operand(first), self.operand(second)),
            Operand::Offset(name, offset) => format!("{}+{offset}", self.name(name)),
            Operand::Sink => "_".to_owned(),
        }
    }

    fn operands(&mut self, operands: &[Operand]) -> String {
        operands.iter().map(|operand| self.operand(operand)).collect::<Vec<_>>().join(", ")
    }

    fn label(&self, name: &str) -> Option<String> {
        self.scopes.iter().rev().find_map(|scope| scope.labels.get(name).cloned())
    }

    /// The normal name of a register or label; other names are what they are.
    fn name(&mut self, name: &str) -> String {
        // A member of a vector register: `%v.x`.
        if let Some((base, member)) = name.split_once('.') {
            let is_register = self.scopes.iter().any(|scope| scope.registers.contains_key(base));
            return if is_register { format!("{}.{member}", self.name(base)) } else { name.to_owned() };
        }
        for index in (0..self.scopes.len()).rev() {
            let scope = &mut self.scopes[index];
            match scope.registers.get(name) {
                Some(Meaning::Named(normal)) => return normal.clone(),
                Some(Meaning::Declared(ty)) => {
                    let ty = ty.clone();
                    let prefix = prefix(&ty);
                    let count = self.counts.entry(prefix).or_default();
                    let normal = format!("{prefix}{count}");
                    *count += 1;
                    scope.registers.insert(name.to_owned(), Meaning::Named(normal.clone()));
                    scope.used.entry(ty).or_default().push(normal.clone());
                    return normal;
                }
                None => {
                    if let Some(label) = scope.labels.get(name) {
                        return label.clone();
                    }
                }
            }
        }
        name.to_owned()
    }
}

/// A directive that says nothing about the machine code.
fn is_noise(directive: &RawDirective) -> bool {
    [".loc", ".file", ".section"].iter().any(|noise| {
        directive.text.strip_prefix(noise).is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
    })
}

/// The one spelling of a literal's value.
fn literal(value: Immediate) -> String {
    match value {
        Immediate::Int(value) => value.to_string(),
        Immediate::UInt(value) if i64::try_from(value).is_ok() => value.to_string(),
        Immediate::UInt(value) => format!("{value:#x}"),
        Immediate::F32(bits) => format!("0f{bits:08X}"),
        Immediate::F64(bits) => format!("0d{bits:016X}"),
    }
}

fn variable_text(variable: &Variable) -> String {
    let mut text = String::new();
    if let Some(linkage) = &variable.linkage {
        let _ = write!(text, ".{linkage} ");
    }
    let _ = write!(text, ".{}", variable.space.name());
    let is_param = variable.space == Space::Param;
    if let (Some(align), false) = (variable.align, is_param && variable.pointer.is_some()) {
        let _ = write!(text, " .align {align}");
    }
    if let Some(width) = variable.vector {
        let _ = write!(text, " .v{width}");
    }
    let _ = write!(text, " .{}", variable.ty);
    if let Some((space, align)) = &variable.pointer {
        text.push_str(" .ptr");
        if let Some(space) = space {
            let _ = write!(text, " .{}", space.name());
        }
        if let Some(align) = align {
            let _ = write!(text, " .align {align}");
        }
    }
    let _ = write!(text, " {}", variable.name);
    for dim in &variable.dims {
        match dim {
            Some(dim) => {
                let _ = write!(text, "[{dim}]");
            }
            None => text.push_str("[]"),
        }
    }
    match variable.init.as_slice() {
        [] => {}
        [single] if variable.dims.is_empty() => {
            let _ = write!(text, " = {}", initial(single));
        }
        values => {
            let _ = write!(text, " = {{{}}}", values.iter().map(initial).collect::<Vec<_>>().join(", "));
        }
    }
    text
}

fn initial(operand: &Operand) -> String {
    match operand {
        Operand::Immediate(value) => literal(*value),
        Operand::Name(name) => name.clone(),
        Operand::Offset(name, offset) => format!("{name}+{offset}"),
        Operand::List(parts) | Operand::Vector(parts) => {
            format!("({})", parts.iter().map(initial).collect::<Vec<_>>().join(", "))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::print;
    use crate::ptx::parse;

    fn normal(body: &str) -> String {
        let text =
            format!(".version 8.0 .target sm_90a .address_size 64 .visible .entry k(.param .u64 k_0) {{ {body} }}");
        let printed = print(&parse(&text).unwrap());
        assert_eq!(print(&parse(&printed).unwrap()), printed, "printing again changes it");
        printed
    }

    #[test]
    fn names_spacing_and_spelling_do_not_matter() {
        let one = normal(
            ".reg .b32 %x, %unused, %y; .reg .pred %q; // first\nAGAIN: add.s32 %y, %x, 0x10; setp.lt.s32 %q, %y, -1; \
             @!%q bra AGAIN; ld.shared.b32 %x, [%y+-4]; ret;",
        );
        let two = normal(
            ".reg .pred %p<3>;\n.reg .b32 %r<9>;\n$L__BB0_1:\n add.s32 %r5, %r3, 16;\n setp.lt.s32 %p2, %r5, -0x1;\n \
             .loc 1 2 3\n @!%p2 bra $L__BB0_1;\n ld.shared.b32 %r3, [%r5-4];\n ret;",
        );
        assert_eq!(one, two);
        assert!(
            one.contains("    .reg .b32 %r0, %r1;\n    .reg .pred %p0;\n$L0:\n    add.s32 %r0, %r1, 16;\n"),
            "{one}"
        );
    }

    #[test]
    fn what_matters_shows() {
        let base = normal(".reg .f32 %a, %b; add.f32 %a, %b, %b;");
        assert_ne!(base, normal(".reg .f32 %a, %b; add.f32 %a, %a, %b;"));
        assert_ne!(base, normal(".reg .f32 %a, %b; add.f32 %a, %b, 0f3F800000;"));
        assert_ne!(normal("mov.b32 %x, 0f00000000;"), normal("mov.b32 %x, 0f80000000;"));
    }

    #[test]
    fn inner_scopes_keep_their_own_registers() {
        let text = normal(".reg .b32 %a; mov.b32 %a, 1; { .reg .b32 %a; mov.b32 %a, 2; } mov.b32 %a, 3;");
        assert!(
            text.contains("mov.b32 %r0, 1;") && text.contains("mov.b32 %r1, 2;") && text.contains("mov.b32 %r0, 3;")
        );
    }
}
