//! From parsed PTX to a [`Code`]: names become numbers, and every instruction is known or refused.
//!
//! Two passes: [`flatten`](Decoder::flatten) walks the scopes, declares registers, variables and labels, and lists the
//! instructions; then each instruction is decoded by the table of `Decoder::instruction` in the scope where it stands.

mod arithmetic;
mod asynchrony;
mod bulk;
mod compare;
mod control;
mod convert;
mod data;
mod directed;
mod float;
mod formats;
mod halves;
mod integer;
mod matrix;
mod operands;
mod tcgen05;
mod video;
mod words;

use std::cell::RefCell;
use std::collections::HashMap;

use super::Error;
use super::flow;
use super::lanes::{LANES, Lanes32, Lanes64};
use super::observe::Listing;
use super::program::{Code, Instruction, MODULE_WINDOW, Op, PredicateUse, Reg, Slot, Special};
use crate::ptx::model::{self, Function, Immediate, Operand, RegisterDecl, Space, Statement, Variable, type_bytes};
use crate::ptx::{Program, Span};
pub(super) use control::BARRIERS;
use words::Words;

/// Local memory of a thread at most, in bytes, as CUDA has it.
const MAX_LOCAL: u64 = 512 << 10;
/// Module variables at most, in bytes.
const MAX_MODULE: u64 = 64 << 20;

/// Registers of one kernel at most, constants included.
const MAX_REGISTERS: usize = 60_000;

/// A fault while decoding: where and what.
pub(super) type Fault = (Span, String);

/// The width class of a declared register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Predicate,
    /// At most 32 bits, with their number.
    Narrow(u32),
    Wide,
}

impl Width {
    /// The register in `slot` of its bank, and its bits.
    fn register(self, slot: Slot) -> (Reg, u32) {
        match self {
            Width::Predicate => (Reg::Pred(slot), 1),
            Width::Narrow(bits) => (Reg::R32(slot), bits),
            Width::Wide => (Reg::R64(slot), 64),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Register {
    slot: Slot,
    width: Width,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    space: Space,
    address: u64,
}

#[derive(Default)]
struct Scope {
    parent: Option<usize>,
    registers: HashMap<String, Register>,
    places: HashMap<String, Place>,
    labels: HashMap<String, usize>,
    /// Lists of labels for indexed branches.
    targets: HashMap<String, Vec<String>>,
}

/// What is known while one kernel is decoded.
struct Decoder {
    scopes: Vec<Scope>,
    /// The scope of the instruction that is being decoded.
    scope: usize,
    span: Span,
    bank32: Vec<Lanes32>,
    bank64: Vec<Lanes64>,
    ready32: Vec<bool>,
    ready64: Vec<bool>,
    predicates: usize,
    constants32: HashMap<u32, Slot>,
    constants64: HashMap<u64, Slot>,
    specials: Vec<(Slot, Special)>,
    param_bytes: u64,
    shared_bytes: u64,
    local_bytes: u64,
    /// Targets of the indexed branches so far.
    targets: usize,
    narrow_shared: bool,
    is_asynchronous: bool,
    module_bytes: Vec<u8>,
    dynamic: Vec<(String, u64)>,
    /// The predicate that holds the carry flag, if an instruction uses it.
    carry_flag: Option<Slot>,
    listing: Listing,
    /// What the instruction that is being decoded writes.
    written: RefCell<Vec<Reg>>,
}

/// Decodes the entry `function` of `program`.
pub(super) fn decode(program: &Program, source: &str, function: &Function) -> Result<Code, Error> {
    let mut decoder = Decoder {
        scopes: vec![Scope::default()],
        scope: 0,
        span: function.span,
        bank32: Vec::new(),
        bank64: Vec::new(),
        ready32: Vec::new(),
        ready64: Vec::new(),
        predicates: 0,
        constants32: HashMap::new(),
        constants64: HashMap::new(),
        specials: Vec::new(),
        param_bytes: 0,
        shared_bytes: 0,
        local_bytes: 0,
        targets: 0,
        narrow_shared: false,
        is_asynchronous: false,
        module_bytes: Vec::new(),
        dynamic: Vec::new(),
        carry_flag: None,
        listing: Listing::default(),
        written: RefCell::default(),
    };
    decoder.kernel(program, source, function).map_err(|(span, message)| Error::Decode {
        kernel: function.name.clone(),
        line: span.line_column(source).0,
        span,
        text: source.get(span.start as usize..span.end as usize).unwrap_or_default().trim().to_owned(),
        message,
    })
}

/// The alignment of a variable or a parameter in bytes: what it asks for, at least that of its elements.
fn alignment(variable: &Variable) -> Result<u64, Fault> {
    let align = variable.align.unwrap_or(1);
    if !align.is_power_of_two() {
        return Err((variable.span, format!("the alignment {align} of {} is not a power of two", variable.name)));
    }
    Ok(u64::from(align).max(variable.element_bytes()).max(1))
}

/// The elements of a variable or a parameter, open dimensions left out; `None` where 64 bits do not hold their number.
fn elements(variable: &Variable) -> Option<u64> {
    variable.dims.iter().flatten().try_fold(1_u64, |all, &dim| all.checked_mul(dim))
}

impl Decoder {
    fn kernel(&mut self, program: &Program, source: &str, function: &Function) -> Result<Code, Fault> {
        for variable in program.variables() {
            self.variable(0, variable)?;
        }
        for param in &function.params {
            let align = alignment(param)?;
            let address = self.param_bytes.next_multiple_of(align);
            self.scopes[0].places.insert(param.name.clone(), Place { space: Space::Param, address });
            let end = elements(param)
                .and_then(|elements| elements.checked_mul(param.element_bytes()))
                .and_then(|bytes| bytes.checked_add(address))
                .filter(|&end| end <= u64::from(u32::MAX));
            let Some(end) = end else {
                return Err((
                    param.span,
                    format!("the parameter {} ends beyond 4 GiB of parameter memory", param.name),
                ));
            };
            self.param_bytes = end;
        }
        let mut listed = Vec::new();
        let body = function.body.as_deref().unwrap_or_default();
        self.flatten(0, body, &mut listed)?;
        // Dynamic shared memory starts after the static, wherever it was declared; all its names are one place, as aligned
        // as the strictest asks for. What lies between counts as static.
        let align = self.dynamic.iter().map(|(_, align)| *align).max().unwrap_or(1);
        self.shared_bytes = self.shared_bytes.next_multiple_of(align);
        let address = self.shared_bytes;
        for (name, _) in std::mem::take(&mut self.dynamic) {
            self.scopes[0].places.insert(name, Place { space: Space::Shared, address });
        }
        let mut lines = Lines { source, at: 0, line: 1 };
        let mut instructions = Vec::with_capacity(listed.len() + 1);
        for (scope, instruction) in &listed {
            self.scope = *scope;
            self.span = instruction.span;
            let guard = match &instruction.guard {
                Some(guard) => {
                    Some(PredicateUse { slot: self.predicate_register(&guard.register)?, negated: guard.negated })
                }
                None => None,
            };
            let op = self.instruction(instruction)?;
            self.listing.note_writes(self.written.take());
            instructions.push(Instruction { op, guard, line: lines.of(instruction.span), span: instruction.span });
        }
        // A kernel that runs off its end returns.
        self.listing.note_writes(Vec::new());
        let line = lines.of(listed.last().map_or(function.span, |(_, last)| last.span));
        instructions.push(Instruction { op: Op::Exit, guard: None, line, span: function.span });
        let joins = flow::joins(&instructions);
        let small = |bytes: u64, what: &str| {
            u32::try_from(bytes).map_err(|_| (function.span, format!("{bytes} bytes of {what} memory are too many")))
        };
        Ok(Code {
            joins,
            instructions,
            param_bytes: small(self.param_bytes, "parameter")?,
            static_shared: small(self.shared_bytes, "shared")?,
            local_bytes: small(self.local_bytes, "local")?,
            bank32: std::mem::take(&mut self.bank32),
            bank64: std::mem::take(&mut self.bank64),
            ready32: std::mem::take(&mut self.ready32),
            ready64: std::mem::take(&mut self.ready64),
            predicates: self.predicates,
            specials: std::mem::take(&mut self.specials),
            narrow_shared: self.narrow_shared,
            is_asynchronous: self.is_asynchronous,
            module_bytes: std::mem::take(&mut self.module_bytes),
            listing: std::mem::take(&mut self.listing),
        })
    }

    /// Declares what a list of statements declares, and lists its instructions with their scopes.
    fn flatten<'a>(
        &mut self,
        scope: usize,
        statements: &'a [Statement],
        listed: &mut Vec<(usize, &'a model::Instruction)>,
    ) -> Result<(), Fault> {
        let mut label = None;
        for statement in statements {
            match statement {
                Statement::Registers(declaration) => self.registers(scope, declaration)?,
                Statement::Variable(variable) => self.variable(scope, variable)?,
                Statement::Label(name) => {
                    if self.scopes[scope].labels.insert(name.name.clone(), listed.len()).is_some() {
                        return Err((name.span, format!("the label `{}` is defined twice", name.name)));
                    }
                    label = Some(name.name.clone());
                }
                Statement::Instruction(instruction) => listed.push((scope, instruction)),
                Statement::Block(inner) => {
                    let child = self.scopes.len();
                    self.scopes.push(Scope { parent: Some(scope), ..Scope::default() });
                    self.flatten(child, inner, listed)?;
                }
                Statement::Directive(directive) => {
                    // `name: .branchtargets a, b;` is the one directive with a meaning here.
                    if let (Some(name), Some(rest)) = (&label, directive.text.strip_prefix(".branchtargets")) {
                        let targets = rest.split(',').map(|target| target.trim().to_owned()).collect();
                        self.scopes[scope].targets.insert(name.clone(), targets);
                    }
                }
            }
        }
        Ok(())
    }

    fn registers(&mut self, scope: usize, declaration: &RegisterDecl) -> Result<(), Fault> {
        let refuse = |message: String| Err((declaration.span, message));
        if declaration.vector.is_some() {
            return refuse("vector registers are not supported: declare scalars".into());
        }
        let width = match (declaration.ty.as_str(), type_bytes(&declaration.ty)) {
            ("pred", _) => Width::Predicate,
            (_, Some(bytes @ (1 | 2 | 4))) => Width::Narrow(8 * bytes as u32),
            (_, Some(8)) => Width::Wide,
            (ty, _) => return refuse(format!("registers of type .{ty} are not supported")),
        };
        for (name, count) in &declaration.names {
            for index in 0..count.unwrap_or(1) {
                let name = if count.is_some() { format!("{name}{index}") } else { name.clone() };
                let Some(slot) = self.new_slot(width) else {
                    return refuse(format!("more than {MAX_REGISTERS} registers"));
                };
                let (reg, bits) = width.register(slot);
                self.listing.declare(name.clone(), reg, bits, declaration.span.start);
                if self.scopes[scope].registers.insert(name.clone(), Register { slot, width }).is_some() {
                    return refuse(format!("the register {name} is declared twice"));
                }
            }
        }
        Ok(())
    }

    fn new_slot(&mut self, width: Width) -> Option<Slot> {
        let slot = match width {
            Width::Predicate => {
                self.predicates += 1;
                self.predicates - 1
            }
            Width::Narrow(_) => {
                self.bank32.push([0; LANES]);
                self.ready32.push(false);
                self.bank32.len() - 1
            }
            Width::Wide => {
                self.bank64.push([0; LANES]);
                self.ready64.push(false);
                self.bank64.len() - 1
            }
        };
        (slot < MAX_REGISTERS).then_some(slot as Slot)
    }

    fn variable(&mut self, scope: usize, variable: &Variable) -> Result<(), Fault> {
        let refuse = |message: String| Err((variable.span, message));
        if type_bytes(&variable.ty).is_none() {
            return refuse(format!("variables of type .{} are not supported", variable.ty));
        }
        let align = alignment(variable)?;
        let dynamic = variable.linkage.as_deref() == Some("extern") || variable.dims.first() == Some(&None);
        if dynamic && variable.space == Space::Shared {
            self.dynamic.push((variable.name.clone(), align));
            return Ok(());
        }
        if dynamic && variable.init.is_empty() {
            return refuse(format!(
                "the variable {} has no size: only shared memory may be sized by the launch",
                variable.name
            ));
        }
        let bytes = elements(variable)
            .and_then(|elements| elements.checked_mul(variable.element_bytes()))
            .filter(|&bytes| bytes <= 1 << 30);
        let Some(bytes) = bytes else {
            return refuse(format!("the variable {} is larger than 1 GiB", variable.name));
        };
        let counter = match variable.space {
            Space::Shared => &mut self.shared_bytes,
            Space::Local => &mut self.local_bytes,
            Space::Global | Space::Const => {
                let address = (self.module_bytes.len() as u64).next_multiple_of(align);
                if address + bytes > MAX_MODULE {
                    return refuse(format!("module variables take more than {MAX_MODULE} bytes"));
                }
                self.module_bytes.resize((address + bytes) as usize, 0);
                self.initialise(variable, address as usize)?;
                let place = Place { space: Space::Global, address: MODULE_WINDOW + address };
                self.scopes[scope].places.insert(variable.name.clone(), place);
                return Ok(());
            }
            Space::Param | Space::Reg => {
                return refuse(format!("`.{}` variables are not supported inside a kernel", variable.space.name()));
            }
        };
        let address = counter.next_multiple_of(align);
        *counter = address + bytes;
        if self.local_bytes > MAX_LOCAL {
            return refuse(format!("a thread's local memory of {} bytes is over {MAX_LOCAL}", self.local_bytes));
        }
        let place = Place { space: variable.space, address };
        self.scopes[scope].places.insert(variable.name.clone(), place);
        Ok(())
    }

    fn initialise(&mut self, variable: &Variable, start: usize) -> Result<(), Fault> {
        let size = type_bytes(&variable.ty).unwrap_or(1) as usize;
        for (index, value) in variable.init.iter().enumerate() {
            let bits = match (value, variable.ty.as_str()) {
                (Operand::Immediate(value), "f32" | "f64") => operands::float_bits(*value, size == 8),
                (Operand::Immediate(Immediate::Int(value)), _) => *value as u64,
                (Operand::Immediate(Immediate::UInt(value)), _) => *value,
                _ => return Err((variable.span, format!("{} has an initial value that is no number", variable.name))),
            };
            let at = start + index * size;
            let Some(target) = self.module_bytes.get_mut(at..at + size) else {
                return Err((variable.span, format!("{} has more initial values than elements", variable.name)));
            };
            target.copy_from_slice(&bits.to_le_bytes()[..size]);
        }
        Ok(())
    }

    /// The first that `find` answers from the current scope outwards.
    fn search<T>(&self, find: impl Fn(&Scope) -> Option<T>) -> Option<T> {
        let mut scope = Some(self.scope);
        while let Some(index) = scope {
            if let Some(found) = find(&self.scopes[index]) {
                return Some(found);
            }
            scope = self.scopes[index].parent;
        }
        None
    }

    fn refuse<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        Err((self.span, message.into()))
    }

    /// Decodes one instruction: the table of opcodes.
    fn instruction(&mut self, instruction: &model::Instruction) -> Result<Op, Fault> {
        let mut words = Words::new(instruction);
        let operands = instruction.operands.as_slice();
        let op = match instruction.opcode.as_str() {
            "addc" | "subc" | "madc" => self.carried(&instruction.opcode, &mut words, operands)?,
            "add" | "sub" | "mad" if instruction.modifiers.iter().any(|word| word == "cc") => {
                self.carried(&instruction.opcode, &mut words, operands)?
            }
            "vadd" | "vsub" | "vabsdiff" | "vmin" | "vmax" | "vshl" | "vshr" | "vset" | "vadd2" | "vsub2"
            | "vavrg2" | "vabsdiff2" | "vmin2" | "vmax2" | "vset2" | "vadd4" | "vsub4" | "vavrg4" | "vabsdiff4"
            | "vmin4" | "vmax4" | "vset4" => self.video(&instruction.opcode, &mut words, operands)?,
            "dp4a" | "dp2a" | "bmsk" | "szext" => self.fields(&instruction.opcode, &mut words, operands)?,
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "rem" | "abs" | "neg" | "min" | "max" | "mul24"
            | "mad24" | "sad" | "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "bfe" | "bfi"
            | "brev" | "clz" | "popc" | "bfind" | "prmt" | "lop3" | "copysign" | "rcp" | "sqrt" | "rsqrt" | "ex2"
            | "lg2" | "sin" | "cos" | "tanh" => self.arithmetic(&instruction.opcode, &mut words, operands)?,
            "setp" => self.setp(&mut words, operands)?,
            "set" => self.set(&mut words, operands)?,
            "testp" => self.testp(&mut words, operands)?,
            "isspacep" => self.is_in_space(&mut words, operands)?,
            "selp" => self.selp(&mut words, operands)?,
            "slct" => self.slct(&mut words, operands)?,
            "mov" => self.mov(&mut words, operands)?,
            "cvt" => self.cvt(&mut words, operands)?,
            "cvta" => self.cvta(&mut words, operands)?,
            "ld" | "ldu" => self.load(&mut words, operands)?,
            "st" => self.store(&mut words, operands)?,
            "atom" | "red" => self.atomic(instruction.opcode == "red", &mut words, operands)?,
            "shfl" => self.shuffle(&mut words, operands)?,
            "vote" => self.vote(&mut words, operands)?,
            "match" => self.match_sync(&mut words, operands)?,
            "redux" => self.redux(&mut words, operands)?,
            "elect" => self.elect(&mut words, operands)?,
            "activemask" => self.active_mask(&mut words, operands)?,
            "bar" | "barrier" => self.barrier(&mut words, operands)?,
            "ldmatrix" => self.move_matrix(true, &mut words, operands)?,
            "stmatrix" => self.move_matrix(false, &mut words, operands)?,
            "movmatrix" => self.transpose_matrix(&mut words, operands)?,
            "mma" => self.mma(&mut words, operands)?,
            "wgmma" => self.wgmma(&mut words, operands)?,
            "tcgen05" => self.tcgen05(&mut words, operands)?,
            "cp" => self.copy_async(&mut words, operands)?,
            "mbarrier" => self.mbarrier(&mut words, operands)?,
            "fence" => self.fence(&mut words),
            "mapa" => self.map_address(&mut words, operands)?,
            "getctarank" => self.cta_rank(&mut words, operands)?,
            "bra" => self.branch(&mut words, operands)?,
            "brx" => self.branch_indexed(&mut words, operands)?,
            "ret" | "exit" => {
                words.take("uni");
                Op::Exit
            }
            // Any value does for a cache policy: it has no effect.
            "createpolicy" => {
                words.take_all(|_| true);
                let [dst, ..] = operands else { return self.refuse("expected a destination") };
                Op::Move64 { src: self.constant64(0)?, dst: self.wide_dst(dst)? }
            }
            "trap" | "brkpt" => Op::Trap,
            // Of no effect on values where one CTA's warps run one after another and every store is seen at once; kernels do
            // not overlap, and warps have all the registers that they ask for.
            "membar" | "prefetch" | "prefetchu" | "nanosleep" | "pmevent" | "applypriority" | "discard"
            | "griddepcontrol" | "setmaxnreg" => {
                return Ok(Op::Nothing);
            }
            opcode => return self.refuse(format!("the emulator does not know the instruction `{opcode}`")),
        };
        words.finish().map_err(|message| (self.span, message))?;
        Ok(op)
    }
}

/// Line numbers of spans that come in order.
struct Lines<'a> {
    source: &'a str,
    at: usize,
    line: u32,
}

impl Lines<'_> {
    fn of(&mut self, span: Span) -> u32 {
        let to = (span.start as usize).clamp(self.at, self.source.len());
        self.line += self.source.as_bytes()[self.at..to].iter().filter(|&&byte| byte == b'\n').count() as u32;
        self.at = to;
        self.line
    }
}
