//! The model back to text, in one layout.
//!
//! [`print()`] writes a program in its normal form, in which two texts that differ only in the names of registers and
//! labels, in spacing, in comments, in line information or in the spelling of literals are equal:
//! - registers are renamed by class in the order in which they appear (`%p0`, `%rs0`, `%r0`, `%f0`, `%rd0`, `%fd0`) and
//!   declared at the function's head, as many as there are;
//! - labels are renamed `$L0`, `$L1`, … in the order of their definition;
//! - kernels, parameters, variables and special registers keep their names;
//! - `.loc`, `.file` and `.section` are dropped;
//! - integers are decimal, floating literals are their bits.
//!
//! Should a name that is kept look like `%r7` or `$L7`, the whole class takes a longer prefix (`%r_`).

use std::fmt::{self, Write};

use super::lexer::lex;
use super::model::{
    Function, Immediate, Instruction, Item, Operand, Program, RawDirective, RegisterDecl, Space, Statement, Variable,
};
use super::normalise::{is_kept, join, normalise};

/// The normal form of `program`.
pub fn print(program: &Program) -> String {
    print_with_names(&normalise(program))
}

/// `program` in the printer's layout, with every name and register declaration as it is.
pub fn print_with_names(program: &Program) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_program(&mut text, program);
    text
}

fn write_program(out: &mut String, program: &Program) -> fmt::Result {
    let (major, minor) = program.version;
    writeln!(out, ".version {major}.{minor}")?;
    writeln!(out, ".target {}", program.target.join(", "))?;
    writeln!(out, ".address_size {}", program.address_size)?;
    for item in &program.items {
        match item {
            Item::Function(function) => write_function(out, function)?,
            Item::Variable(variable) => {
                writeln!(out)?;
                write_variable(out, variable)?;
                writeln!(out, ";")?;
            }
            Item::Directive(directive) if is_kept(directive) => {
                writeln!(out)?;
                write_directive(out, directive)?;
            }
            Item::Directive(_) => {}
        }
    }
    Ok(())
}

fn write_directive(out: &mut String, directive: &RawDirective) -> fmt::Result {
    match lex(&directive.text) {
        Ok(tokens) => {
            let pieces = tokens
                .iter()
                .map(|token| directive.text[token.span.start as usize..token.span.end as usize].to_owned())
                .collect::<Vec<_>>();
            out.push_str(&join(&pieces));
        }
        Err(_) => out.push_str(&directive.text),
    }
    out.push_str(if directive.semicolon { ";\n" } else { "\n" });
    Ok(())
}

fn write_function(out: &mut String, function: &Function) -> fmt::Result {
    writeln!(out)?;
    if let Some(linkage) = &function.linkage {
        write!(out, ".{linkage} ")?;
    }
    out.push_str(if function.is_entry { ".entry " } else { ".func " });
    for attribute in &function.attributes {
        write!(out, "{attribute} ")?;
    }
    if !function.returns.is_empty() {
        out.push('(');
        for (index, variable) in function.returns.iter().enumerate() {
            out.push_str(if index == 0 { "" } else { ", " });
            write_variable(out, variable)?;
        }
        out.push_str(") ");
    }
    write!(out, "{}(", function.name)?;
    for (index, variable) in function.params.iter().enumerate() {
        out.push_str(if index == 0 { "\n    " } else { ",\n    " });
        write_variable(out, variable)?;
    }
    out.push_str(if function.params.is_empty() { ")" } else { "\n)" });
    for (name, values) in &function.directives {
        write!(out, "\n.{name}")?;
        for (index, value) in values.iter().enumerate() {
            write!(out, "{}{value}", if index == 0 { " " } else { ", " })?;
        }
    }
    for pragma in &function.pragmas {
        write!(out, "\n.pragma {pragma};")?;
    }
    match &function.body {
        None => writeln!(out, ";"),
        Some(body) => {
            out.push_str("\n{\n");
            write_statements(out, body, 1)?;
            writeln!(out, "}}")
        }
    }
}

fn write_variable(out: &mut String, variable: &Variable) -> fmt::Result {
    if let Some(linkage) = &variable.linkage {
        write!(out, ".{linkage} ")?;
    }
    write!(out, ".{}", variable.space.name())?;
    for attribute in &variable.attributes {
        write!(out, " {attribute}")?;
    }
    if let Some(align) = variable.align {
        write!(out, " .align {align}")?;
    }
    if let Some(vector) = variable.vector {
        write!(out, " .v{vector}")?;
    }
    write!(out, " .{}", variable.ty)?;
    if let Some((space, align)) = variable.pointer {
        out.push_str(" .ptr");
        if let Some(space) = space {
            write!(out, " .{}", space.name())?;
        }
        if let Some(align) = align {
            write!(out, " .align {align}")?;
        }
    }
    write!(out, " {}", variable.name)?;
    for dim in &variable.dims {
        match dim {
            Some(dim) => write!(out, "[{dim}]")?,
            None => out.push_str("[]"),
        }
    }
    if !variable.init.is_empty() {
        out.push_str(" = ");
        write_initialiser(out, &variable.init, &variable.extents())?;
    }
    Ok(())
}

/// Values in braces, nested as the array's dimensions are; `extents` are those of the elements.
fn write_initialiser(out: &mut String, values: &[Operand], extents: &[u64]) -> fmt::Result {
    let Some((_, inner)) = extents.split_first() else {
        return values.first().map_or(Ok(()), |value| write_operand(out, value));
    };
    let step = inner.iter().fold(1_usize, |step, &extent| step.saturating_mul(extent as usize)).max(1);
    out.push('{');
    for (index, chunk) in values.chunks(step).enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        write_initialiser(out, chunk, inner)?;
    }
    out.push('}');
    Ok(())
}

fn write_statements(out: &mut String, statements: &[Statement], depth: usize) -> fmt::Result {
    let indent = |out: &mut String, depth: usize| (0..depth).for_each(|_| out.push_str("    "));
    for statement in statements {
        match statement {
            Statement::Label(label) => {
                indent(out, depth - 1);
                writeln!(out, "{}:", label.name)?;
                continue;
            }
            Statement::Directive(directive) if !is_kept(directive) => continue,
            _ => indent(out, depth),
        }
        match statement {
            Statement::Registers(declaration) => write_registers(out, declaration)?,
            Statement::Variable(variable) => {
                write_variable(out, variable)?;
                writeln!(out, ";")?;
            }
            Statement::Instruction(instruction) => {
                write_instruction(out, instruction)?;
                writeln!(out)?;
            }
            Statement::Block(inner) => {
                out.push_str("{\n");
                write_statements(out, inner, depth + 1)?;
                indent(out, depth);
                writeln!(out, "}}")?;
            }
            Statement::Directive(directive) => write_directive(out, directive)?,
            Statement::Label(_) => {}
        }
    }
    Ok(())
}

fn write_registers(out: &mut String, declaration: &RegisterDecl) -> fmt::Result {
    write!(out, ".{}", Space::Reg.name())?;
    if let Some(vector) = declaration.vector {
        write!(out, " .v{vector}")?;
    }
    write!(out, " .{}", declaration.ty)?;
    for (index, (name, count)) in declaration.names.iter().enumerate() {
        write!(out, "{}{name}", if index == 0 { " " } else { ", " })?;
        if let Some(count) = count {
            write!(out, "<{count}>")?;
        }
    }
    writeln!(out, ";")
}

fn write_instruction(out: &mut String, instruction: &Instruction) -> fmt::Result {
    if let Some(guard) = &instruction.guard {
        write!(out, "@{}{} ", if guard.negated { "!" } else { "" }, guard.register)?;
    }
    out.push_str(&instruction.opcode);
    for modifier in &instruction.modifiers {
        write!(out, ".{modifier}")?;
    }
    if !instruction.operands.is_empty() {
        out.push(' ');
        write_list(out, &instruction.operands)?;
    }
    out.push(';');
    Ok(())
}

fn write_list(out: &mut String, operands: &[Operand]) -> fmt::Result {
    for (index, operand) in operands.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        write_operand(out, operand)?;
    }
    Ok(())
}

fn write_operand(out: &mut String, operand: &Operand) -> fmt::Result {
    match operand {
        Operand::Name(name) => out.push_str(name),
        Operand::Not(inner) => {
            out.push('!');
            write_operand(out, inner)?;
        }
        Operand::Immediate(value) => write_immediate(out, *value)?,
        Operand::Address { base, offset, coordinates } => {
            out.push('[');
            write_operand(out, base)?;
            if *offset != 0 {
                write!(out, "+{offset}")?;
            }
            for coordinate in coordinates {
                out.push_str(", ");
                write_operand(out, coordinate)?;
            }
            out.push(']');
        }
        Operand::Vector(operands) => {
            out.push('{');
            write_list(out, operands)?;
            out.push('}');
        }
        Operand::List(operands) => {
            out.push('(');
            write_list(out, operands)?;
            out.push(')');
        }
        Operand::Pair(first, second) => {
            write_operand(out, first)?;
            out.push('|');
            write_operand(out, second)?;
        }
        Operand::Offset(name, offset) => write!(out, "{name}+{offset}")?,
        Operand::Sink => out.push('_'),
    }
    Ok(())
}

fn write_immediate(out: &mut String, value: Immediate) -> fmt::Result {
    match value {
        Immediate::Int(value) => write!(out, "{value}"),
        // No suffix: an operand's value is what counts, and its instruction has the type.
        Immediate::UInt(value) => write!(out, "{value}"),
        Immediate::F32(bits) => write!(out, "0f{bits:08X}"),
        Immediate::F64(bits) => write!(out, "0d{bits:016X}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::parse;

    const HEADER: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n";

    fn body(text: &str) -> String {
        let printed = print(&parse(&format!("{HEADER}.entry k(.param .u64 a) {{\n{text}\n}}")).unwrap());
        assert_eq!(print(&parse(&printed).unwrap()), printed);
        printed.split_once("{\n").unwrap().1.to_owned()
    }

    #[test]
    fn registers_are_renamed_by_class_in_order_of_appearance() {
        let printed = body(
            ".reg .u32 %x<9>; .reg .s32 y; .reg .f32 z; .reg .pred q, unused; .reg .b16 h; .reg .b64 w; .reg .f64 d;\n\
             mov.u32 y, %tid.x; // a comment\n@!q add.s32 %x7, y, 0x10;\nmov.b16 h, -1; mov.b64 w, 7U;\n\
             mov.f32 z, 0f3f800000; mov.f64 d, 1.5; ld.param.u64 w, [a+-8];",
        );
        assert_eq!(
            printed,
            "    .reg .pred %p<1>;\n    .reg .b16 %rs<1>;\n    .reg .b32 %r<2>;\n    .reg .f32 %f<1>;\n    \
             .reg .b64 %rd<1>;\n    .reg .f64 %fd<1>;\n    mov.u32 %r0, %tid.x;\n    @!%p0 add.s32 %r1, %r0, 16;\n    \
             mov.b16 %rs0, -1;\n    mov.b64 %rd0, 7;\n    mov.f32 %f0, 0f3F800000;\n    mov.f64 %fd0, \
             0d3FF8000000000000;\n    ld.param.u64 %rd0, [a+-8];\n}\n"
        );
    }

    #[test]
    fn scopes_keep_their_registers_and_labels_apart() {
        let printed = body(
            ".reg .b32 r; .reg .pred p;\nmov.b32 r, 1;\n{ .reg .b32 r; wait: mov.b32 r, 2; @p bra wait; bra out; }\n\
             { .reg .b32 r; wait: mov.b32 r, 3; @p bra wait; }\nout: mov.b32 r, 4; bra.uni out;",
        );
        let lines: Vec<_> = printed.lines().skip(2).map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "mov.b32 %r0, 1;",
                "{",
                "$L0:",
                "mov.b32 %r1, 2;",
                "@%p0 bra $L0;",
                "bra $L2;",
                "}",
                "{",
                "$L1:",
                "mov.b32 %r2, 3;",
                "@%p0 bra $L1;",
                "}",
                "$L2:",
                "mov.b32 %r0, 4;",
                "bra.uni $L2;",
                "}"
            ]
        );
    }

    #[test]
    fn a_name_may_stand_beside_the_same_name_with_a_count() {
        let printed = body(".reg .b32 a; .reg .f16 a<2>; mov.b32 a, 1; mov.b32 {a0, a1}, a; mov.b32 a2, a01;");
        assert!(printed.contains("mov.b32 %r0, 1;\n    mov.b32 {%h0, %h1}, %r0;\n    mov.b32 a2, a01;"), "{printed}");
    }

    #[test]
    fn kept_names_are_never_captured() {
        let printed = body(".reg .b32 x; .shared .b32 %r0; ld.shared.b32 x, [%r0]; $L0: mov.b32 x, $L9;");
        assert!(printed.contains("ld.shared.b32 %r_0, [%r0];"), "{printed}");
        assert!(printed.contains("$L_0:"), "{printed}");
    }

    #[test]
    fn rare_forms_print_and_read_back() {
        let printed = body(
            ".reg .v4 .f32 v; .reg .b64 t; .reg .b32 i;\n.loc 1 2 3\n.pragma \"nounroll\";\nmov.f32 v.x, v.y;\n\
             ts: .branchtargets one,\n two; one: brx.idx i, ts; two:\n\
             proto : .callprototype (.param .b32 _) _ (.param .b64 _);\n\
             { .param .b32 ret; .param .b64 arg[2]; call.uni (ret), t, (arg), proto; }",
        );
        for line in [
            "mov.f32 %v4f0.x, %v4f0.y;",
            ".pragma \"nounroll\";",
            ".branchtargets $L1, $L2;",
            "brx.idx %r0, $L0;",
            ".callprototype (.param .b32 _) _ (.param .b64 _);",
            ".param .b64 arg[2];",
            "call.uni (ret), %rd0, (arg), $L3;",
        ] {
            assert!(printed.contains(line), "{line} in {printed}");
        }
        assert!(!printed.contains(".loc"));
        let source = format!(
            "{HEADER}.file 1 \"a.py\"\n.global .attribute(.managed) .align 0x10 .b32 t[2][2] = {{{{1}}, {{2, 3}}}};\n\
             .section .debug_info\n{{\n.b8 1\n}}\n\
             .visible .func (.reg .b32 %ret) f(.reg .b32 %a) .pragma \"x\"; {{ mov.b32 %ret, %a; ret; }}"
        );
        let printed = print(&parse(&source).unwrap());
        assert!(
            printed.contains(".global .attribute (.managed) .align 16 .b32 t[2][2] = {{1, 0}, {2, 3}};"),
            "{printed}"
        );
        assert!(printed.contains("mov.b32 %ret, %a;") && printed.contains(".pragma \"x\";"), "{printed}");
        assert!(!printed.contains("section") && !printed.contains("a.py"), "{printed}");
        assert_eq!(print(&parse(&printed).unwrap()), printed);
    }
}
