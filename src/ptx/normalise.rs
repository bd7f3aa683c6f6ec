//! Names made normal: registers by class and first appearance, labels by order of definition.
//!
//! A function is walked twice in the same order. The first walk resolves every name against the scopes around it; the
//! second writes the new names. Registers of nested scopes get names of their own and are declared at the function's
//! head: a register's value does not outlive its scope, so widening the scope changes nothing.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;

use super::lexer::{TokenKind, lex};
use super::model::{
    Function, Instruction, Item, Operand, Program, RawDirective, RegisterDecl, Span, Statement, Variable,
};

/// The class of a register of type `ty`: the prefix of its normal name and the type it is declared with.
///
/// Integer and untyped registers of one width are one class: instructions carry their own types.
pub fn register_class(vector: Option<u32>, ty: &str) -> (String, &str) {
    let (stem, declared) = match ty {
        "pred" => ("p", "pred"),
        "b8" | "u8" | "s8" => ("rc", "b8"),
        "b16" | "u16" | "s16" => ("rs", "b16"),
        "b32" | "u32" | "s32" => ("r", "b32"),
        "b64" | "u64" | "s64" => ("rd", "b64"),
        "b128" => ("rq", "b128"),
        "f16" => ("h", "f16"),
        "f16x2" => ("hh", "f16x2"),
        "f32" => ("f", "f32"),
        "f64" => ("fd", "f64"),
        other => (other, other),
    };
    match vector {
        Some(width) => (format!("%v{width}{stem}"), declared),
        None => (format!("%{stem}"), declared),
    }
}

/// The program with normal names, and with its registers declared at the head of each function: exact counts, unused
/// ones gone.
pub fn normalise(program: &Program) -> Program {
    let mut program = program.clone();
    let mut module_names: HashSet<String> = program.variables().map(|variable| variable.name.clone()).collect();
    for item in &program.items {
        if let Item::Function(function) = item {
            module_names.insert(function.name.clone());
        }
    }
    for item in &mut program.items {
        if let Item::Function(function) = item {
            normalise_function(function, &module_names);
        }
    }
    program
}

fn normalise_function(function: &mut Function, module_names: &HashSet<String>) {
    let Some(body) = &mut function.body else { return };
    // Names in what is not printed must not take numbers.
    drop_statements(body, &|statement| !matches!(statement, Statement::Directive(directive) if !is_kept(directive)));
    let mut resolver = Resolver::default();
    resolver.kept.extend(module_names.iter().cloned());
    resolver.kept.extend(function.params.iter().chain(&function.returns).map(|variable| variable.name.clone()));
    walk(body, &mut |event| resolver.take(event));

    let Resolver { names, classes, kept, .. } = resolver;
    let prefixes: Vec<String> =
        classes.keys().map(|(vector, ty)| free_prefix(register_class(*vector, ty).0, &kept)).collect();
    let label_prefix = free_prefix("$L".to_owned(), &kept);
    let mut names = names.into_iter();
    walk(body, &mut |event| {
        if let Event::Name(name) | Event::LabelDefinition(name) = event {
            let member = name.find('.').map_or("", |dot| &name[dot..]);
            match names.next() {
                Some(Resolved::Register { class, number, member: true }) => {
                    *name = format!("{}{number}{member}", prefixes[class]);
                }
                Some(Resolved::Register { class, number, .. }) => *name = format!("{}{number}", prefixes[class]),
                Some(Resolved::Label(number)) => *name = format!("{label_prefix}{number}"),
                Some(Resolved::Kept) | None => {}
            }
        }
    });

    drop_statements(body, &|statement| !matches!(statement, Statement::Registers(_)));
    let mut declarations: Vec<RegisterDecl> = classes
        .iter()
        .zip(prefixes)
        .filter(|((_, count), _)| **count > 0)
        .map(|(((vector, ty), count), prefix)| RegisterDecl {
            vector: *vector,
            ty: ty.clone(),
            names: vec![(prefix, Some(*count))],
            span: Span::default(),
        })
        .collect();
    declarations.sort_by_key(declaration_order);
    body.splice(0..0, declarations.into_iter().map(Statement::Registers));
}

/// Predicates first, then by width, then by name.
fn declaration_order(declaration: &RegisterDecl) -> (u64, u32, String) {
    let bytes =
        if declaration.ty == "pred" { 0 } else { super::model::type_bytes(&declaration.ty).unwrap_or(u64::MAX) };
    (bytes, declaration.vector.unwrap_or(1), declaration.ty.clone())
}

/// `prefix`, lengthened until no kept name is the prefix and a number.
fn free_prefix(mut prefix: String, kept: &HashSet<String>) -> String {
    let taken = |prefix: &str| {
        kept.iter().any(|name| {
            name.strip_prefix(prefix)
                .is_some_and(|tail| !tail.is_empty() && tail.bytes().all(|byte| byte.is_ascii_digit()))
        })
    };
    while taken(&prefix) {
        prefix.push('_');
    }
    prefix
}

/// False for line and debug information, which the printer drops.
pub(super) fn is_kept(directive: &RawDirective) -> bool {
    let name = directive.text.get(1..).unwrap_or_default();
    let name = name.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next();
    !matches!(name, Some("loc" | "file" | "section"))
}

/// Drops the statements, in all scopes, that `keep` refuses.
fn drop_statements(statements: &mut Vec<Statement>, keep: &impl Fn(&Statement) -> bool) {
    statements.retain_mut(|statement| {
        if let Statement::Block(inner) = statement {
            drop_statements(inner, keep);
        }
        keep(statement)
    });
}

/// What the walk over a body meets, in the order of the text.
enum Event<'a> {
    /// A scope opens; its statements are known in advance for the labels in it.
    Enter(&'a [Statement]),
    Leave,
    Registers(&'a RegisterDecl),
    Variable(&'a Variable),
    LabelDefinition(&'a mut String),
    Name(&'a mut String),
}

fn walk(statements: &mut [Statement], visit: &mut impl FnMut(Event)) {
    visit(Event::Enter(statements));
    for statement in statements {
        match statement {
            Statement::Registers(declaration) => visit(Event::Registers(declaration)),
            Statement::Variable(variable) => {
                visit(Event::Variable(variable));
                variable.init.iter_mut().for_each(|operand| walk_operand(operand, visit));
            }
            Statement::Label(label) => visit(Event::LabelDefinition(&mut label.name)),
            Statement::Instruction(instruction) => walk_instruction(instruction, visit),
            Statement::Block(inner) => walk(inner, visit),
            Statement::Directive(directive) => walk_directive(directive, visit),
        }
    }
    visit(Event::Leave);
}

fn walk_instruction(instruction: &mut Instruction, visit: &mut impl FnMut(Event)) {
    if let Some(guard) = &mut instruction.guard {
        visit(Event::Name(&mut guard.register));
    }
    instruction.operands.iter_mut().for_each(|operand| walk_operand(operand, visit));
}

fn walk_operand(operand: &mut Operand, visit: &mut impl FnMut(Event)) {
    match operand {
        Operand::Name(name) | Operand::Offset(name, _) => visit(Event::Name(name)),
        Operand::Not(inner) => walk_operand(inner, visit),
        Operand::Address { base, coordinates, .. } => {
            walk_operand(base, visit);
            coordinates.iter_mut().for_each(|operand| walk_operand(operand, visit));
        }
        Operand::Vector(operands) | Operand::List(operands) => {
            operands.iter_mut().for_each(|operand| walk_operand(operand, visit));
        }
        Operand::Pair(first, second) => {
            walk_operand(first, visit);
            walk_operand(second, visit);
        }
        Operand::Immediate(_) | Operand::Sink => {}
    }
}

/// The names in a directive kept as text (`.branchtargets $L1, $L2`), and its spacing.
fn walk_directive(directive: &mut RawDirective, visit: &mut impl FnMut(Event)) {
    let Ok(tokens) = lex(&directive.text) else { return };
    let pieces = tokens
        .iter()
        .map(|token| {
            let mut piece = directive.text[token.span.start as usize..token.span.end as usize].to_owned();
            if token.kind == TokenKind::Word {
                visit(Event::Name(&mut piece));
            }
            piece
        })
        .collect::<Vec<_>>();
    directive.text = join(&pieces);
}

/// Tokens with one space between them, but none inside brackets and before commas.
pub(super) fn join(pieces: &[String]) -> String {
    let mut text = String::new();
    for piece in pieces {
        let tight = matches!(piece.as_str(), "," | ")" | "]" | ";") || text.ends_with(['(', '[']) || text.is_empty();
        if !tight {
            text.push(' ');
        }
        text.push_str(piece);
    }
    text
}

#[derive(Clone, Copy)]
enum Resolved {
    Kept,
    Label(u32),
    Register {
        class: usize,
        number: u32,
        /// True for `%v.x`: the name ends in a member, which stays.
        member: bool,
    },
}

#[derive(Default)]
struct Scope {
    /// Class by name. `a` and `a<2>` may stand side by side, so those with a count are kept apart.
    single: HashMap<String, usize>,
    /// Class and count by the name before the number.
    counted: HashMap<String, (usize, u32)>,
    labels: HashMap<String, u32>,
    variables: HashSet<String>,
    /// The number of each register of this scope that has appeared.
    seen: HashMap<String, u32>,
}

#[derive(Default)]
struct Resolver {
    scopes: Vec<Scope>,
    /// Declared types, as (vector, declared type), and how many registers of each have appeared.
    classes: IndexMap<(Option<u32>, String), u32>,
    labels: u32,
    /// One for each name event.
    names: Vec<Resolved>,
    /// Names that stay as they are.
    kept: HashSet<String>,
}

impl Resolver {
    fn take(&mut self, event: Event) {
        match event {
            Event::Enter(statements) => {
                let mut scope = Scope::default();
                // A branch may come before the label: numbers are given here for the scope's own labels, in the
                // order of the whole text, which inner scopes share.
                let mut next = self.labels;
                number_labels(statements, &mut next, &mut scope.labels);
                self.scopes.push(scope);
            }
            Event::Leave => {
                self.scopes.pop();
            }
            Event::Registers(declaration) => {
                let (_, ty) = register_class(declaration.vector, &declaration.ty);
                let entry = self.classes.entry((declaration.vector, ty.to_owned()));
                let class = entry.index();
                entry.or_insert(0);
                if let Some(scope) = self.scopes.last_mut() {
                    for (name, count) in &declaration.names {
                        match count {
                            Some(count) => drop(scope.counted.insert(name.clone(), (class, *count))),
                            None => drop(scope.single.insert(name.clone(), class)),
                        }
                    }
                }
            }
            Event::Variable(variable) => {
                self.kept.insert(variable.name.clone());
                if let Some(scope) = self.scopes.last_mut() {
                    scope.variables.insert(variable.name.clone());
                }
            }
            Event::LabelDefinition(name) => {
                let number = self.scopes.last().and_then(|scope| scope.labels.get(name.as_str())).copied();
                self.labels += 1;
                self.names.push(number.map_or(Resolved::Kept, Resolved::Label));
            }
            Event::Name(name) => {
                let resolved = self.resolve(name);
                if let Resolved::Kept = resolved {
                    self.kept.insert(name.clone());
                }
                self.names.push(resolved);
            }
        }
    }

    fn resolve(&mut self, name: &str) -> Resolved {
        let base = name.split('.').next().unwrap_or(name);
        for scope in self.scopes.iter_mut().rev() {
            if let Some(class) = scope.class_of(base) {
                let count = &mut self.classes[class];
                let number = *scope.seen.entry(base.to_owned()).or_insert_with(|| {
                    *count += 1;
                    *count - 1
                });
                return Resolved::Register { class, number, member: base.len() < name.len() };
            }
            if let Some(&number) = scope.labels.get(name) {
                return Resolved::Label(number);
            }
            if scope.variables.contains(base) {
                return Resolved::Kept;
            }
        }
        Resolved::Kept
    }
}

impl Scope {
    /// The class of the register `name`, declared by itself or as one of `prefix<count>`.
    fn class_of(&self, name: &str) -> Option<usize> {
        if let Some(&class) = self.single.get(name) {
            return Some(class);
        }
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        (1..=digits).find_map(|length| {
            let (prefix, number) = name.split_at(name.len() - length);
            // `%r01` is not one of `%r<8>`.
            if length > 1 && number.starts_with('0') {
                return None;
            }
            match self.counted.get(prefix) {
                Some(&(class, count)) if number.parse::<u32>().is_ok_and(|number| number < count) => Some(class),
                _ => None,
            }
        })
    }
}

/// Numbers the labels of `statements` in the order of the text, from `next` on, counting those of inner scopes.
/// `own` gets those of this scope alone.
fn number_labels(statements: &[Statement], next: &mut u32, own: &mut HashMap<String, u32>) {
    for statement in statements {
        match statement {
            Statement::Label(label) => {
                own.insert(label.name.clone(), *next);
                *next += 1;
            }
            Statement::Block(inner) => number_labels(inner, next, &mut HashMap::new()),
            _ => {}
        }
    }
}
