//! What is in an entry, counted: what a reviewer looks at first.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::model::{Function, Instruction, Program, Space, Statement, Variable};

/// Counts of one entry's text. Instructions count once, however often they run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// The entry's name.
    pub name: String,
    /// Parameters: type and name.
    pub params: Vec<(String, String)>,
    /// Directives before the body (`reqntid`, `maxnreg`, …) with their values.
    pub directives: IndexMap<String, Vec<u32>>,
    /// Bytes of static shared memory that the body declares; saturates. Variables of the module are not counted.
    pub shared_bytes: u64,
    /// Declared virtual registers by type.
    pub registers: IndexMap<String, u64>,
    /// All instructions.
    pub instructions: u64,
    /// Instructions by group (see [`group`]), most first.
    pub mix: IndexMap<String, u64>,
}

impl Statistics {
    /// Counts every entry of `program`, in order.
    pub fn of(program: &Program) -> Vec<Statistics> {
        program.entries().map(Self::of_entry).collect()
    }

    fn of_entry(function: &Function) -> Statistics {
        let mut statistics = Statistics {
            name: function.name.clone(),
            params: function.params.iter().map(|param| (param_type(param), param.name.clone())).collect(),
            directives: function.directives.iter().cloned().collect(),
            ..Statistics::default()
        };
        statistics.count(function.body.as_deref().unwrap_or_default());
        // Most first, then by name: the same text gives the same order.
        statistics
            .mix
            .sort_by(|name, count, other_name, other_count| other_count.cmp(count).then_with(|| name.cmp(other_name)));
        statistics.registers.sort_keys();
        statistics
    }

    fn count(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Instruction(instruction) => {
                    self.instructions += 1;
                    *self.mix.entry(group(instruction)).or_default() += 1;
                }
                Statement::Variable(variable) if variable.space == Space::Shared => {
                    // Declared sizes come from the file: they saturate, as `Variable::bytes` does.
                    self.shared_bytes = self.shared_bytes.saturating_add(variable.bytes());
                }
                Statement::Registers(declaration) => {
                    let width = u64::from(declaration.vector.unwrap_or(1));
                    let names: u64 = declaration.names.iter().map(|(_, count)| u64::from(count.unwrap_or(1))).sum();
                    *self.registers.entry(declaration.ty.clone()).or_default() += width * names;
                }
                Statement::Block(inner) => self.count(inner),
                Statement::Variable(_) | Statement::Label(_) | Statement::Directive(_) => {}
            }
        }
    }
}

/// The group that an instruction is counted in: its opcode, with the state space of a memory access and the operand type
/// of arithmetic: `ld.shared`, `fma.f32`, `bar.sync`, `shfl`.
pub fn group(instruction: &Instruction) -> String {
    let opcode = instruction.opcode.as_str();
    let kept = match opcode {
        "ld" | "st" | "atom" | "red" | "ldmatrix" | "stmatrix" => instruction
            .modifiers
            .iter()
            .find(|word| {
                let space = word.split("::").next().unwrap_or_default();
                matches!(space, "global" | "shared" | "local" | "param" | "const")
            })
            .map(String::as_str),
        "bar" | "barrier" | "cp" | "mma" | "wgmma" | "tcgen05" | "mbarrier" | "fence" => {
            instruction.modifiers.first().map(String::as_str)
        }
        "add" | "sub" | "mul" | "mad" | "fma" | "div" | "min" | "max" | "neg" | "abs" | "rcp" | "sqrt" | "rsqrt"
        | "ex2" | "setp" | "selp" | "cvt" => instruction.modifiers.last().map(String::as_str),
        _ => None,
    };
    match kept {
        Some(word) => format!("{opcode}.{word}"),
        None => opcode.to_owned(),
    }
}

fn param_type(param: &Variable) -> String {
    let bytes = if param.dims.is_empty() { String::new() } else { format!("[{}]", param.bytes()) };
    match &param.pointer {
        Some((Some(space), _)) => format!("pointer to {}", space.name()),
        Some((None, _)) => "pointer".to_owned(),
        None => format!("{}{bytes}", param.ty),
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "entry {}", self.name)?;
        for (ty, name) in &self.params {
            writeln!(formatter, "  param {name}: {ty}")?;
        }
        for (name, values) in &self.directives {
            let values = values.iter().map(|value| format!(" {value}")).collect::<String>();
            writeln!(formatter, "  .{name}{values}")?;
        }
        writeln!(formatter, "  static shared: {} bytes", self.shared_bytes)?;
        let list = |counts: &IndexMap<String, u64>| {
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        writeln!(formatter, "  declared registers: {}", list(&self.registers))?;
        writeln!(formatter, "  instructions: {} ({})", self.instructions, list(&self.mix))
    }
}

#[cfg(test)]
mod tests {
    use super::Statistics;
    use crate::ptx::parse;

    #[test]
    fn counts() {
        let program = parse(
            ".version 8.0 .target sm_80 .visible .entry k(.param .u64 .ptr .global .align 4 k_0, .param .u32 k_1)
             .reqntid 64 { .shared .align 16 .b8 tile[96]; .reg .f32 %f<4>; .reg .pred %p;
             ld.shared.v4.f32 {%f0,%f1,%f2,%f3}, [tile]; ld.global.f32 %f0, [k_0]; { .reg .f32 %g; fma.rn.f32 %g, %f0, %f1, %f2; }
             @%p bar.sync 0; fma.rn.f32 %f0, %f1, %f2, %f3; ret; }",
        )
        .unwrap();
        let statistics = &Statistics::of(&program)[0];
        assert_eq!(statistics.shared_bytes, 96);
        assert_eq!(statistics.instructions, 6);
        assert_eq!(statistics.registers["f32"], 5);
        assert_eq!(
            statistics.mix.iter().map(|(name, count)| (name.as_str(), *count)).collect::<Vec<_>>(),
            [("fma.f32", 2), ("bar.sync", 1), ("ld.global", 1), ("ld.shared", 1), ("ret", 1)]
        );
        assert_eq!(statistics.params[0].0, "pointer to global");
        assert_eq!(statistics.directives["reqntid"], [64]);
        let text = statistics.to_string();
        assert!(text.contains("instructions: 6 (fma.f32 2, bar.sync 1"), "{text}");
    }
}
