//! What is in a kernel: instruction mix, memory accesses, synchronisation, shared bytes, registers.

use std::collections::HashSet;
use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::model::{Function, Instruction, Operand, Program, Space, Statement, Variable};
use super::normalise::register_class;

/// Opcodes whose first modifier says what they do: `cp.async`, `tcgen05.mma`.
const TWO_WORD_OPCODES: [&str; 10] =
    ["bar", "barrier", "cp", "fence", "griddepcontrol", "mbarrier", "setmaxnreg", "tcgen05", "tensormap", "wgmma"];

/// Families that synchronise threads.
const BARRIERS: [&str; 8] = [
    "bar.sync",
    "bar.red",
    "bar.arrive",
    "bar.warp",
    "barrier.sync",
    "barrier.red",
    "barrier.arrive",
    "barrier.cluster",
];

/// Families that multiply matrices.
const MATRIX: [&str; 4] = ["mma", "wmma", "wgmma.mma_async", "tcgen05.mma"];

/// The state spaces that a load or store names.
const SPACES: [&str; 5] = ["global", "shared", "local", "param", "const"];

/// A parameter's name, type and bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type, without the dot.
    pub ty: String,
    /// Its bytes.
    pub bytes: u64,
}

/// Instructions that read, and that write, one state space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accesses {
    /// `ld`, `ldu`, `ldmatrix`.
    pub loads: u64,
    /// `st`, `stmatrix`.
    pub stores: u64,
    /// `atom`, `red`.
    pub atomics: u64,
}

/// What one kernel is made of, counted in its text: loops count once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryStatistics {
    /// The kernel.
    pub name: String,
    /// Its parameters in order.
    pub parameters: Vec<Parameter>,
    /// Its performance directives in order, and their values.
    pub directives: IndexMap<String, Vec<u32>>,
    /// Bytes of the shared variables that the body declares, or that it names at module scope.
    pub shared_bytes: u64,
    /// Declared registers by class (`p`, `r`, `rd`, `f`, …), in order of declaration.
    pub registers: IndexMap<String, u64>,
    /// Instructions in all.
    pub instructions: u64,
    /// Instructions by family: the opcode, and the word after it where that says what the opcode does. The most
    /// frequent first, then by name.
    pub mix: IndexMap<String, u64>,
    /// Memory instructions by state space, `generic` where none is named, in the order in which they appear.
    pub memory: IndexMap<String, Accesses>,
    /// Instructions at which threads wait for each other.
    pub barriers: u64,
    /// `shfl`.
    pub shuffles: u64,
    /// Matrix multiplications.
    pub matrix: u64,
    /// `bra`, `brx`.
    pub branches: u64,
}

/// Statistics of PTX programs.
#[derive(Clone, Copy, Debug)]
pub struct Statistics;

impl Statistics {
    /// The statistics of each kernel of `program`, in order.
    pub fn of(program: &Program) -> Vec<EntryStatistics> {
        program.entries().map(|entry| of_entry(program, entry)).collect()
    }
}

fn of_entry(program: &Program, entry: &Function) -> EntryStatistics {
    let mut statistics = EntryStatistics {
        name: entry.name.clone(),
        parameters: entry
            .params
            .iter()
            .map(|param| Parameter { name: param.name.clone(), ty: param.ty.clone(), bytes: param.bytes() })
            .collect(),
        directives: entry.directives.iter().cloned().collect(),
        ..EntryStatistics::default()
    };
    let mut named = HashSet::new();
    statistics.statements(entry.body.as_deref().unwrap_or_default(), &mut named);
    let shared = |variable: &&Variable| variable.space == Space::Shared && named.contains(variable.name.as_str());
    let at_module_scope = program.variables().filter(shared).map(Variable::bytes);
    statistics.shared_bytes = at_module_scope.fold(statistics.shared_bytes, u64::saturating_add);
    statistics.mix.sort_by(|family, count, other, other_count| other_count.cmp(count).then(family.cmp(other)));
    statistics
}

impl EntryStatistics {
    fn statements<'a>(&mut self, statements: &'a [Statement], named: &mut HashSet<&'a str>) {
        for statement in statements {
            match statement {
                Statement::Registers(declaration) => {
                    let (class, _) = register_class(declaration.vector, &declaration.ty);
                    let count = self.registers.entry(class.trim_start_matches('%').to_owned()).or_default();
                    for (_, many) in &declaration.names {
                        *count = count.saturating_add(many.map_or(1, u64::from));
                    }
                }
                Statement::Variable(variable) if variable.space == Space::Shared => {
                    self.shared_bytes = self.shared_bytes.saturating_add(variable.bytes());
                }
                Statement::Instruction(instruction) => {
                    self.instruction(instruction);
                    instruction.operands.iter().for_each(|operand| names_in(operand, named));
                }
                Statement::Block(inner) => self.statements(inner, named),
                Statement::Variable(_) | Statement::Label(_) | Statement::Directive(_) => {}
            }
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        let opcode = instruction.opcode.as_str();
        let family = match instruction.modifiers.first() {
            Some(word) if TWO_WORD_OPCODES.contains(&opcode) => format!("{opcode}.{word}"),
            _ => opcode.to_owned(),
        };
        self.instructions += 1;
        self.barriers += u64::from(BARRIERS.contains(&family.as_str()));
        self.shuffles += u64::from(opcode == "shfl");
        self.matrix += u64::from(MATRIX.contains(&family.as_str()));
        self.branches += u64::from(matches!(opcode, "bra" | "brx"));
        let access: Option<fn(&mut Accesses) -> &mut u64> = match opcode {
            "ld" | "ldu" | "ldmatrix" => Some(|accesses| &mut accesses.loads),
            "st" | "stmatrix" => Some(|accesses| &mut accesses.stores),
            "atom" | "red" => Some(|accesses| &mut accesses.atomics),
            _ => None,
        };
        if let Some(access) = access {
            let space = instruction.modifiers.iter().find_map(|word| {
                let stem = word.split("::").next()?;
                SPACES.contains(&stem).then_some(stem)
            });
            *access(self.memory.entry(space.unwrap_or("generic").to_owned()).or_default()) += 1;
        }
        *self.mix.entry(family).or_default() += 1;
    }
}

fn names_in<'a>(operand: &'a Operand, named: &mut HashSet<&'a str>) {
    match operand {
        Operand::Name(name) | Operand::Offset(name, _) => {
            named.insert(name);
        }
        Operand::Not(inner) => names_in(inner, named),
        Operand::Address { base, coordinates, .. } => {
            names_in(base, named);
            coordinates.iter().for_each(|operand| names_in(operand, named));
        }
        Operand::Vector(operands) | Operand::List(operands) => {
            operands.iter().for_each(|operand| names_in(operand, named));
        }
        Operand::Pair(first, second) => {
            names_in(first, named);
            names_in(second, named);
        }
        Operand::Immediate(_) | Operand::Sink => {}
    }
}

fn listed<T>(items: impl IntoIterator<Item = T>, show: impl Fn(T) -> String) -> String {
    items.into_iter().map(show).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for EntryStatistics {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        writeln!(
            f,
            "  parameters    {}",
            listed(&self.parameters, |param| format!("{}: {} ({} B)", param.name, param.ty, param.bytes))
        )?;
        let directives = listed(&self.directives, |(name, values)| {
            let values = values.iter().map(u32::to_string).collect::<Vec<_>>().join("×");
            if values.is_empty() { name.clone() } else { format!("{name} {values}") }
        });
        writeln!(f, "  directives    {directives}")?;
        writeln!(f, "  shared        {} B", self.shared_bytes)?;
        writeln!(f, "  registers     {}", listed(&self.registers, |(class, count)| format!("{class} {count}")))?;
        writeln!(
            f,
            "  instructions  {}: {} barriers, {} shuffles, {} matrix, {} branches",
            self.instructions, self.barriers, self.shuffles, self.matrix, self.branches
        )?;
        for (space, accesses) in &self.memory {
            write!(f, "  {space:<13} {} loads, {} stores", accesses.loads, accesses.stores)?;
            if accesses.atomics > 0 {
                write!(f, ", {} atomics", accesses.atomics)?;
            }
            writeln!(f)?;
        }
        writeln!(f, "  mix           {}", listed(&self.mix, |(family, count)| format!("{family} {count}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n\
        .shared .align 4 .b8 tile[64]; .shared .b32 other;\n\
        .visible .entry k(.param .u64 a) .reqntid 32, 1, 1 {\n\
        .reg .b32 %r<4>; .reg .f32 %f<2>, %g;\n.shared .f32 own[2];\n\
        ld.param.u64 %rd1, [a];\n{ ld.shared::cta.v2.f32 {%f0, %f1}, [tile]; }\nst.f32 [%rd1], %f0;\n\
        bar.sync 0;\nadd.f32 %f0, %f0, %f1;\nadd.f32 %f0, %f0, %f1;\nret; }";

    #[test]
    fn counts_are_by_family_and_space() {
        let program = crate::ptx::parse(SOURCE).unwrap();
        let [entry] = <[_; 1]>::try_from(Statistics::of(&program)).unwrap();
        assert_eq!(entry.instructions, 7);
        let mix: Vec<_> = entry.mix.iter().map(|(family, count)| (family.as_str(), *count)).collect();
        assert_eq!(mix, [("add", 2), ("ld", 2), ("bar.sync", 1), ("ret", 1), ("st", 1)]);
        assert_eq!(entry.memory["shared"].loads, 1);
        assert_eq!(entry.memory["param"].loads, 1);
        assert_eq!(entry.memory["generic"].stores, 1);
        // `tile` is named, `own` is the body's, `other` is neither.
        assert_eq!(entry.shared_bytes, 64 + 8);
        assert_eq!((entry.registers["r"], entry.registers["f"]), (4, 3));
        assert_eq!(entry.barriers, 1);
        assert_eq!(entry.directives["reqntid"], [32, 1, 1]);
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<EntryStatistics>(&text).unwrap(), entry);
        assert!(entry.to_string().contains("mix           add 2, ld 2"), "{entry}");
    }
}
