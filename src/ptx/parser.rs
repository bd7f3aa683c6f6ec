//! PTX text to the model, by recursive descent over the tokens.
//!
//! An instruction is taken as a word, its modifiers and a list of operands, whatever they are: an operand list is never
//! counted or checked here. Nesting is bounded, so hostile text cannot exhaust the stack.

mod operands;
mod variables;

use super::lexer::{LexError, Token, TokenKind, lex};
use super::model::{
    Function, Guard, Immediate, Instruction, Item, Label, Program, RawDirective, RegisterDecl, Space, Span, Statement,
    type_bytes,
};
use super::normalise::join;

/// How deep scopes and operands may nest.
const MAX_DEPTH: u32 = 64;

/// How many dimensions an array may have.
const MAX_DIMENSIONS: usize = 16;

/// How many values an initialiser with zeros left out may stand for.
const MAX_INITIAL_VALUES: u64 = 1 << 20;

/// A fault in PTX text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ParseError {
    /// What was found and what was expected.
    pub message: String,
    /// Where, in bytes.
    pub span: Span,
    /// 1-based line of the fault.
    pub line: usize,
    /// 1-based column of the fault, in bytes.
    pub column: usize,
}

impl ParseError {
    fn new(source: &str, span: Span, message: String) -> Self {
        let (line, column) = span.line_column(source);
        Self { message, span, line, column }
    }
}

/// Reads a PTX module.
///
/// # Errors
/// The first fault, with its line and column: text that is no token, a missing `.version` or `.target`, or a form that
/// PTX does not have.
pub fn parse(source: &str) -> Result<Program, ParseError> {
    let tokens = lex(source).map_err(|LexError { message, span }| ParseError::new(source, span, message))?;
    let mut parser = Parser { source, tokens, at: 0, depth: 0 };
    parser.program().map_err(|(span, message)| ParseError::new(source, span, message))
}

type Fault = (Span, String);
type Parsed<T> = Result<T, Fault>;

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
}

impl<'a> Parser<'a> {
    // Tokens.

    fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    fn text(&self, token: Token) -> &'a str {
        &self.source[token.span.start as usize..token.span.end as usize]
    }

    fn here(&self) -> Span {
        self.peek().map_or_else(
            || {
                let end = self.source.len() as u32;
                Span { start: end, end }
            },
            |token| token.span,
        )
    }

    fn since(&self, start: Span) -> Span {
        let end = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(start.end, |token| token.span.end);
        Span { start: start.start, end: end.max(start.start) }
    }

    fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = self.peek().map_or("the end of the text".to_owned(), |token| format!("`{}`", self.text(token)));
        Err((self.here(), format!("expected {what}, found {found}")))
    }

    fn is(&self, byte: u8) -> bool {
        self.peek().is_some_and(|token| token.kind == TokenKind::Punct(byte))
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.is(byte);
        self.at += usize::from(found);
        found
    }

    fn punct(&mut self, byte: u8) -> Parsed<()> {
        if self.eat(byte) { Ok(()) } else { self.expected(&format!("`{}`", byte as char)) }
    }

    fn peek_dot(&self) -> Option<&'a str> {
        self.peek().filter(|token| token.kind == TokenKind::Dot).map(|token| &self.text(token)[1..])
    }

    fn eat_dot(&mut self, word: &str) -> bool {
        let found = self.peek_dot() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, what: &str) -> Parsed<&'a str> {
        match self.peek() {
            Some(token) if token.kind == TokenKind::Word => {
                self.at += 1;
                Ok(self.text(token))
            }
            _ => self.expected(what),
        }
    }

    fn number(&mut self, what: &str) -> Parsed<u64> {
        let span = self.here();
        match self.immediate()? {
            Some(Immediate::Int(value)) if value >= 0 => Ok(value as u64),
            Some(Immediate::UInt(value)) => Ok(value),
            Some(_) => Err((span, format!("expected {what}, found a negative or floating number"))),
            None => self.expected(what),
        }
    }

    fn number32(&mut self, what: &str) -> Parsed<u32> {
        let span = self.here();
        let value = self.number(what)?;
        u32::try_from(value).map_err(|_| (span, format!("{value} does not fit 32 bits: expected {what}")))
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            return Err((self.here(), format!("nesting deeper than {MAX_DEPTH}")));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    // Module scope.

    fn program(&mut self) -> Parsed<Program> {
        let mut version = None;
        let mut target = Vec::new();
        let mut address_size = 64;
        let mut items = Vec::new();
        while let Some(token) = self.peek() {
            match self.peek_dot() {
                Some("version") => {
                    self.at += 1;
                    version = Some(self.version()?);
                }
                Some("target") => {
                    self.at += 1;
                    target.push(self.word("a target such as sm_90a")?.to_owned());
                    while self.eat(b',') {
                        target.push(self.word("a target option")?.to_owned());
                    }
                }
                Some("address_size") => {
                    self.at += 1;
                    address_size = self.number32("32 or 64")?;
                }
                Some(_) => items.push(self.item()?),
                None => {
                    return Err((
                        token.span,
                        format!("expected a directive at module scope, found `{}`", self.text(token)),
                    ));
                }
            }
        }
        let Some(version) = version else {
            return Err((Span::default(), "the module has no `.version` directive".into()));
        };
        if target.is_empty() {
            return Err((Span::default(), "the module has no `.target` directive".into()));
        }
        Ok(Program { version, target, address_size, items })
    }

    fn version(&mut self) -> Parsed<(u32, u32)> {
        let span = self.here();
        let token = match self.peek() {
            Some(token) if token.kind == TokenKind::Number => token,
            _ => return self.expected("a version such as 8.0"),
        };
        self.at += 1;
        self.text(token)
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .ok_or((span, format!("`{}` is no version: expected one such as 8.0", self.text(token))))
    }

    fn item(&mut self) -> Parsed<Item> {
        let start = self.here();
        let linkage = match self.peek_dot() {
            Some(word @ ("visible" | "extern" | "weak" | "common")) => {
                self.at += 1;
                Some(word.to_owned())
            }
            _ => None,
        };
        match self.peek_dot() {
            Some("entry" | "func") => self.function(linkage, start).map(Item::Function),
            Some(word) if space_of(word).is_some() => {
                let variable = self.variable(linkage)?;
                self.punct(b';')?;
                Ok(Item::Variable(variable))
            }
            Some(_) if linkage.is_none() => self.raw_directive().map(Item::Directive),
            _ => self.expected("`.entry`, `.func` or a variable"),
        }
    }

    fn function(&mut self, linkage: Option<String>, start: Span) -> Parsed<Function> {
        let is_entry = self.peek_dot() == Some("entry");
        self.at += 1;
        let mut attributes = Vec::new();
        while self.eat_dot("attribute") {
            attributes.push(self.attribute()?);
        }
        let returns = if self.is(b'(') { self.parameters()? } else { Vec::new() };
        let name = self.word("a function's name")?.to_owned();
        let params = if self.is(b'(') { self.parameters()? } else { Vec::new() };
        let mut directives = Vec::new();
        let mut pragmas = Vec::new();
        while let Some(word) = self.peek_dot() {
            self.at += 1;
            if word == "pragma" {
                self.pragma(&mut pragmas)?;
                continue;
            }
            let mut values = Vec::new();
            if self.peek().is_some_and(|token| token.kind == TokenKind::Number) {
                values.push(self.number32("a count")?);
                while self.eat(b',') {
                    values.push(self.number32("a count")?);
                }
            }
            directives.push((word.to_owned(), values));
        }
        let span = self.since(start);
        let body = if self.eat(b';') {
            None
        } else {
            self.punct(b'{')?;
            Some(self.nested(Self::statements)?)
        };
        Ok(Function { is_entry, linkage, returns, name, params, directives, attributes, pragmas, body, span })
    }

    /// `"nounroll", "…";`, with `.pragma` just eaten.
    fn pragma(&mut self, pragmas: &mut Vec<String>) -> Parsed<()> {
        loop {
            match self.peek() {
                Some(token) if token.kind == TokenKind::Text => pragmas.push(self.text(token).to_owned()),
                _ => return self.expected("a string after `.pragma`"),
            }
            self.at += 1;
            if !self.eat(b',') {
                return self.punct(b';');
            }
        }
    }

    /// A directive without meaning here: up to its semicolon, its block, or the next line's directive.
    fn raw_directive(&mut self) -> Parsed<RawDirective> {
        let start = self.here();
        let name = self.peek_dot().unwrap_or_default();
        // `.file`, `.loc` and what nobody knows end with their line; the rest has a semicolon or a block.
        let by_line =
            !matches!(name, "pragma" | "branchtargets" | "calltargets" | "callprototype" | "alias" | "section");
        self.at += 1;
        let mut semicolon = false;
        let mut end = start.end;
        while let Some(token) = self.peek() {
            match token.kind {
                _ if by_line && self.source[end as usize..token.span.start as usize].contains('\n') => break,
                TokenKind::Punct(b';') => {
                    self.at += 1;
                    semicolon = true;
                    break;
                }
                TokenKind::Punct(b'{') => {
                    let mut depth = 0_u32;
                    while let Some(inner) = self.peek() {
                        self.at += 1;
                        match inner.kind {
                            TokenKind::Punct(b'{') => depth += 1,
                            TokenKind::Punct(b'}') => depth -= 1,
                            _ => {}
                        }
                        if depth == 0 {
                            break;
                        }
                    }
                    break;
                }
                TokenKind::Punct(b'}') => break,
                _ => self.at += 1,
            }
            end = token.span.end;
        }
        let span = self.since(start);
        let text = self.source[span.start as usize..span.end as usize].trim_end_matches(';').trim_end().to_owned();
        Ok(RawDirective { text, semicolon, span })
    }

    // Bodies.

    /// Statements up to and with the closing brace.
    fn statements(&mut self) -> Parsed<Vec<Statement>> {
        let mut statements = Vec::new();
        while !self.eat(b'}') {
            if self.peek().is_none() {
                return self.expected("`}`");
            }
            if self.eat(b';') {
                continue;
            }
            statements.push(self.statement()?);
        }
        Ok(statements)
    }

    fn statement(&mut self) -> Parsed<Statement> {
        let start = self.here();
        if self.eat(b'{') {
            return self.nested(Self::statements).map(Statement::Block);
        }
        if let Some(word) = self.peek_dot() {
            return match space_of(word) {
                Some(Space::Reg) => {
                    let registers = self.registers()?;
                    Ok(Statement::Registers(registers))
                }
                Some(_) => {
                    let variable = self.variable(None)?;
                    self.punct(b';')?;
                    Ok(Statement::Variable(variable))
                }
                None => self.raw_directive().map(Statement::Directive),
            };
        }
        let guard = if self.eat(b'@') {
            let negated = self.eat(b'!');
            Some(Guard { negated, register: self.word("a predicate register")?.to_owned() })
        } else {
            None
        };
        let opcode = self.word("an instruction, a label or a directive")?.to_owned();
        if guard.is_none() && self.eat(b':') {
            return Ok(Statement::Label(Label { name: opcode, span: start }));
        }
        let mut modifiers = Vec::new();
        while let Some(word) = self.peek_dot() {
            self.at += 1;
            modifiers.push(word.to_owned());
        }
        let mut operands = Vec::new();
        if !self.is(b';') {
            operands.push(self.operand()?);
            while self.eat(b',') {
                operands.push(self.operand()?);
            }
        }
        if !self.eat(b';') {
            return self.expected(&format!("`,` or `;` after an operand of `{opcode}`"));
        }
        let span = self.since(start);
        Ok(Statement::Instruction(Instruction { guard, opcode, modifiers, operands, span }))
    }

    fn registers(&mut self) -> Parsed<RegisterDecl> {
        let start = self.here();
        self.at += 1;
        let mut vector = None;
        let mut ty = String::new();
        while let Some(word) = self.peek_dot() {
            self.at += 1;
            match word {
                "v2" => vector = Some(2),
                "v4" => vector = Some(4),
                word => ty = word.to_owned(),
            }
        }
        if ty.is_empty() {
            return self.expected("a register type such as `.b32`");
        }
        if type_bytes(&ty).is_none() {
            return Err((start, format!("`.{ty}` is no register type: expected one such as `.b32`")));
        }
        let mut names = Vec::new();
        loop {
            let name = self.word("a register's name")?.to_owned();
            let count = if self.eat(b'<') {
                let count = self.number32("a register count")?;
                self.punct(b'>')?;
                Some(count)
            } else {
                None
            };
            names.push((name, count));
            if !self.eat(b',') {
                break;
            }
        }
        self.punct(b';')?;
        Ok(RegisterDecl { vector, ty, names, span: self.since(start) })
    }
}

fn space_of(word: &str) -> Option<Space> {
    Some(match word {
        "reg" => Space::Reg,
        "param" => Space::Param,
        "global" => Space::Global,
        "shared" | "shared::cta" | "shared::cluster" => Space::Shared,
        "local" => Space::Local,
        "const" => Space::Const,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::model::Operand;

    const HEADER: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n";

    fn body(text: &str) -> Vec<Statement> {
        let program = parse(&format!("{HEADER}.visible .entry k(.param .u64 k_0) {{\n{text}\n}}")).unwrap();
        program.entries().next().unwrap().body.clone().unwrap()
    }

    fn instruction(text: &str) -> Instruction {
        match body(text).remove(0) {
            Statement::Instruction(instruction) => instruction,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn instructions_keep_their_parts() {
        let load = instruction("@!%p1 ld.shared::cta.v2.b32 {%r1,_}, [%rd1+-8];");
        assert_eq!(load.mnemonic(), "ld.shared::cta.v2.b32");
        assert_eq!(load.guard, Some(Guard { negated: true, register: "%p1".into() }));
        assert_eq!(load.operands[0], Operand::Vector(vec![Operand::Name("%r1".into()), Operand::Sink]));
        assert_eq!(
            load.operands[1],
            Operand::Address { base: Box::new(Operand::Name("%rd1".into())), offset: -8, coordinates: vec![] }
        );
        let setp = instruction("setp.lt.and.s32 %p1|%p2, %r1, -3, !%p3;");
        assert_eq!(
            setp.operands[0],
            Operand::Pair(Box::new(Operand::Name("%p1".into())), Box::new(Operand::Name("%p2".into())))
        );
        assert_eq!(setp.operands[2], Operand::Immediate(Immediate::Int(-3)));
        assert_eq!(setp.operands[3], Operand::Not(Box::new(Operand::Name("%p3".into()))));
        let copy = instruction("cp.async.bulk.tensor.2d.shared::cluster.global [%r1], [%rd2, {%r3, %r4}], [%r5];");
        assert!(matches!(&copy.operands[1], Operand::Address { coordinates, .. } if coordinates.len() == 1));
        assert_eq!(instruction("mov.u32 %r1, %tid.x;").operands[1], Operand::Name("%tid.x".into()));
    }

    #[test]
    fn literals() {
        let value = |text: &str| match &instruction(&format!("mov.b64 %x, {text};")).operands[1] {
            Operand::Immediate(value) => *value,
            other => panic!("{other:?}"),
        };
        assert_eq!(value("0x1F"), Immediate::Int(31));
        assert_eq!(value("017"), Immediate::Int(15));
        assert_eq!(value("0b101"), Immediate::Int(5));
        assert_eq!(value("7U"), Immediate::UInt(7));
        assert_eq!(value("0xFFFFFFFFFFFFFFFF"), Immediate::UInt(u64::MAX));
        assert_eq!(value("-9223372036854775808"), Immediate::Int(i64::MIN));
        assert_eq!(value("-0f3F800000"), Immediate::F32(0xBF80_0000));
        assert_eq!(value("1.5e-3"), Immediate::F64(1.5e-3_f64.to_bits()));
    }

    #[test]
    fn faults_name_the_place() {
        let fault = parse(&format!("{HEADER}.visible .entry k() {{ add.s32 %r1 %r2; }}")).unwrap_err();
        assert_eq!((fault.line, fault.column), (4, 35));
        assert!(fault.message.contains("expected `,` or `;`"), "{fault}");
        assert!(parse("").unwrap_err().message.contains(".version"));
        assert!(parse(&format!("{HEADER}.entry k() {{ ")).unwrap_err().message.contains("expected `}`"));
    }
}
