//! Text to the tree, by recursive descent over the tokens.
//!
//! Here are the tokens, the module, its functions, regions, blocks, and the generic form, which is the same for every
//! operation. The short forms are in [`forms`] and [`control`], found by the operation's name. Nesting is bounded, so hostile
//! text cannot exhaust the stack.

mod attributes;
mod control;
mod forms;
mod types;

use std::borrow::Cow;

use super::error::{ErrorKind, Fault, Parsed};
use super::kinds;
use super::lexer::{Span, Token, TokenKind, lex};
use super::tree::{Attrs, BlockNode, FuncNode, ModuleNode, Name, Node, ParamNode, RegionNode, ResultName, Use};
use crate::tile::Type;

/// How deep regions may nest.
const MAX_DEPTH: u32 = 64;

/// The most values that one name may stand for: `%x:4`.
const MAX_GROUP: u32 = 1 << 16;

/// Reads a text.
pub(super) fn parse(source: &str) -> Parsed<ModuleNode<'_>> {
    let tokens = lex(source).map_err(|(span, message)| Fault::new(ErrorKind::Syntax, span, message))?;
    let mut parser = Parser { source, tokens, at: 0, depth: 0 };
    parser.module()
}

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

    fn peek_kind(&self) -> Option<TokenKind> {
        self.peek().map(|token| token.kind)
    }

    fn text(&self, token: Token) -> &'a str {
        &self.source[token.span.start as usize..token.span.end as usize]
    }

    fn here(&self) -> Span {
        let end = self.source.len() as u32;
        self.peek().map_or(Span { start: end, end }, |token| token.span)
    }

    /// From the token at `from` to the last one read.
    fn since(&self, from: usize) -> Span {
        let end = self.source.len() as u32;
        let start = self.tokens.get(from).map_or(end, |token| token.span.start);
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(start, |token| token.span.end);
        Span { start, end: last.max(start) }
    }

    fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = self.peek().map_or("the end of the text".to_owned(), |token| format!("`{}`", self.text(token)));
        self.fault(self.here(), format!("expected {what}, found {found}"))
    }

    fn fault<T>(&self, span: Span, message: impl Into<String>) -> Parsed<T> {
        Err(Fault::new(ErrorKind::Syntax, span, message))
    }

    fn unsupported<T>(&self, span: Span, message: impl Into<String>) -> Parsed<T> {
        Err(Fault::new(ErrorKind::Unsupported, span, message))
    }

    fn is(&self, byte: u8) -> bool {
        self.peek_kind() == Some(TokenKind::Punct(byte))
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.is(byte);
        self.at += usize::from(found);
        found
    }

    fn punct(&mut self, byte: u8) -> Parsed<()> {
        if self.eat(byte) { Ok(()) } else { self.expected(&format!("`{}`", byte as char)) }
    }

    fn arrow(&mut self) -> Parsed<()> {
        if self.eat_arrow() { Ok(()) } else { self.expected("`->`") }
    }

    fn eat_arrow(&mut self) -> bool {
        let found = self.peek_kind() == Some(TokenKind::Arrow);
        self.at += usize::from(found);
        found
    }

    /// The next token's text if it is of this kind, and it is read.
    fn take(&mut self, kind: TokenKind) -> Option<&'a str> {
        let token = self.peek().filter(|token| token.kind == kind)?;
        self.at += 1;
        Some(self.text(token))
    }

    fn peek_word(&self) -> Option<&'a str> {
        self.peek().filter(|token| token.kind == TokenKind::Word).map(|token| self.text(token))
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn keyword(&mut self, word: &str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }

    /// Items between `open` and `close`, with commas between them.
    fn list<T>(&mut self, open: u8, close: u8, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.punct(open)?;
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(close) {
                return Ok(items);
            }
            if !self.eat(b',') {
                return self.expected(&format!("`,` or `{}`", close as char));
            }
        }
    }

    /// Items with commas between them; at least one.
    fn several<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(b',') {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Reads over the bracket that comes and everything to its partner.
    fn skip_balanced(&mut self) -> Parsed<()> {
        let start = self.here();
        let mut open = 0_u32;
        loop {
            match self.peek_kind() {
                Some(TokenKind::Punct(b'(' | b'[' | b'{' | b'<')) => open += 1,
                Some(TokenKind::Punct(b')' | b']' | b'}' | b'>')) => open = open.saturating_sub(1),
                Some(_) => {}
                None => return self.fault(start, "the bracket is not closed"),
            }
            self.at += 1;
            if open == 0 {
                return Ok(());
            }
        }
    }

    /// A location, where there is one. What it says is not kept: places are those of this text.
    fn location(&mut self) -> Parsed<()> {
        if self.eat_word("loc") {
            if !self.is(b'(') {
                return self.expected("`(`");
            }
            self.skip_balanced()?;
        }
        Ok(())
    }

    // Names.

    fn is_value(&self) -> bool {
        self.peek_kind() == Some(TokenKind::Value)
    }

    fn named(&mut self, kind: TokenKind, what: &str) -> Parsed<Name<'a>> {
        let span = self.here();
        match self.take(kind) {
            Some(text) => Ok(Name { text: &text[1..], span }),
            None => self.expected(what),
        }
    }

    fn value_name(&mut self) -> Parsed<Name<'a>> {
        self.named(TokenKind::Value, "a value such as `%0`")
    }

    fn label(&mut self) -> Parsed<Name<'a>> {
        self.named(TokenKind::Label, "a block such as `^bb1`")
    }

    /// A use of a value.
    fn operand(&mut self) -> Parsed<Use<'a>> {
        let name = self.value_name()?;
        let index = match self.peek() {
            Some(token) if token.kind == TokenKind::Hash && token.span.start == name.span.end => {
                self.at += 1;
                match self.text(token)[1..].parse() {
                    Ok(index) => index,
                    Err(_) => return self.fault(token.span, "expected the number of a result, such as `#1`"),
                }
            }
            _ => 0,
        };
        Ok(Use { name, index, ty: None })
    }

    /// `@name` or `@"name"`.
    fn symbol(&mut self, what: &str) -> Parsed<(String, Span)> {
        let span = self.here();
        let name = self.named(TokenKind::Symbol, what)?.text;
        Ok((if name.starts_with('"') { attributes::unescape(name) } else { name.to_owned() }, span))
    }

    fn count(&mut self, what: &str) -> Parsed<u32> {
        let span = self.here();
        match self.take(TokenKind::Integer).map(str::parse) {
            Some(Ok(count)) => Ok(count),
            Some(Err(_)) => self.fault(span, format!("the number is too large: expected {what}")),
            None => self.expected(what),
        }
    }

    // The module.

    fn module(&mut self) -> Parsed<ModuleNode<'a>> {
        let mut module = ModuleNode::default();
        self.aliases()?;
        let bracketed = self.eat_word("module");
        if bracketed {
            self.take(TokenKind::Symbol);
            if self.eat_word("attributes") {
                module.attributes = self.attribute_dict()?;
            }
            self.punct(b'{')?;
        }
        while self.peek_word() == Some("tt.func") {
            module.funcs.push(self.func()?);
        }
        if bracketed {
            if !self.eat(b'}') {
                return self.expected("`tt.func` or `}`");
            }
            self.location()?;
        } else if module.funcs.is_empty() {
            return self.expected("`module` or `tt.func`");
        }
        self.aliases()?;
        if self.peek().is_some() { self.expected("the end of the text") } else { Ok(module) }
    }

    /// `#loc3 = loc(…)`, in front of the module and behind it.
    fn aliases(&mut self) -> Parsed<()> {
        while self.peek_kind() == Some(TokenKind::Hash) {
            self.at += 1;
            self.punct(b'=')?;
            self.attribute()?;
        }
        Ok(())
    }

    fn func(&mut self) -> Parsed<FuncNode<'a>> {
        self.keyword("tt.func")?;
        let public = match self.peek_word() {
            Some(word @ ("public" | "private" | "nested")) => {
                self.at += 1;
                word == "public"
            }
            _ => true,
        };
        let (name, span) = self.symbol("a function's name such as `@kernel`")?;
        let of = |fault: Box<Fault>| fault.of("tt.func");
        let params = self.list(b'(', b')', Self::param).map_err(of)?;
        let results = if self.eat_arrow() { self.func_results().map_err(of)? } else { Vec::new() };
        let attributes = if self.eat_word("attributes") { self.attribute_dict().map_err(of)? } else { Attrs::new() };
        if !self.is(b'{') {
            return self.expected("`{`: a function's body").map_err(of);
        }
        let body = self.region()?;
        self.location()?;
        Ok(FuncNode { name, span, public, params, results, attributes, body })
    }

    fn param(&mut self) -> Parsed<ParamNode<'a>> {
        let name = self.value_name()?;
        self.punct(b':')?;
        let ty = self.ty()?;
        let attributes = self.optional_attributes()?;
        self.location()?;
        Ok(ParamNode { name, ty, attributes })
    }

    /// A function's results; their attributes mean nothing to anybody, and are not kept.
    fn func_results(&mut self) -> Parsed<Vec<Type>> {
        if !self.is(b'(') {
            return Ok(vec![self.ty()?]);
        }
        self.list(b'(', b')', |parser| {
            let ty = parser.ty()?;
            parser.optional_attributes()?;
            Ok(ty)
        })
    }

    // Regions.

    fn region(&mut self) -> Parsed<RegionNode<'a>> {
        if self.depth == MAX_DEPTH {
            return self.unsupported(self.here(), format!("regions nest deeper than {MAX_DEPTH}"));
        }
        let opened = self.here();
        self.punct(b'{')?;
        self.depth += 1;
        let mut region = RegionNode::default();
        loop {
            match self.peek_kind() {
                Some(TokenKind::Punct(b'}')) => break,
                Some(TokenKind::Label) => {
                    let block = self.block_head()?;
                    region.blocks.push(block);
                }
                Some(TokenKind::Value | TokenKind::Word | TokenKind::Text) => {
                    let op = self.op()?;
                    if region.blocks.is_empty() {
                        region.blocks.push(BlockNode::default());
                    }
                    if let Some(block) = region.blocks.last_mut() {
                        block.ops.push(op);
                    }
                }
                None => return self.fault(opened, "the `{` is not closed: expected `}`, found the end of the text"),
                Some(_) => return self.expected("an operation, a block or `}`"),
            }
        }
        self.depth -= 1;
        self.at += 1;
        Ok(region)
    }

    fn block_head(&mut self) -> Parsed<BlockNode<'a>> {
        let label = self.label()?;
        let args = if self.is(b'(') {
            self.list(b'(', b')', |parser| {
                let name = parser.value_name()?;
                parser.punct(b':')?;
                let ty = parser.ty()?;
                parser.location()?;
                Ok((name, ty))
            })?
        } else {
            Vec::new()
        };
        self.punct(b':')?;
        Ok(BlockNode { label: Some(label), args, ops: Vec::new() })
    }

    fn op(&mut self) -> Parsed<Node<'a>> {
        let results = if self.is_value() {
            let results = self.several(Self::result_name)?;
            self.punct(b'=')?;
            results
        } else {
            Vec::new()
        };
        let span = self.here();
        let (name, generic) = if let Some(text) = self.take(TokenKind::Text) {
            (&text[1..text.len() - 1], true)
        } else if let Some(word) = self.take(TokenKind::Word) {
            (word, false)
        } else {
            return self.expected("an operation");
        };
        let mut node = Node {
            name: Name { text: name, span },
            results,
            operands: Vec::new(),
            result_types: Vec::new(),
            successors: Vec::new(),
            attributes: Attrs::new(),
            regions: Vec::new(),
            generic,
        };
        let read = match kinds::known(node.name) {
            Err(fault) => Err(fault),
            Ok(()) if generic => self.generic(&mut node),
            Ok(()) => match forms::form(name) {
                Some(form) => form(self, &mut node),
                None => self.fault(span, format!("expected the generic form `\"{name}\"(…)`")),
            },
        };
        read.and_then(|()| self.location()).map_err(|fault| fault.of(name))?;
        Ok(node)
    }

    fn result_name(&mut self) -> Parsed<ResultName<'a>> {
        let name = self.value_name()?;
        let count = if self.eat(b':') { self.count("the number of results")? } else { 1 };
        if count == 0 || count > MAX_GROUP {
            return self.fault(name.span, format!("`%{}` cannot stand for {count} results", name.text));
        }
        Ok(ResultName { name, count })
    }

    /// `"name"(operands)[successors] <{properties}> ({regions}) {attributes} : (types) -> types`, from the operands on.
    fn generic(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        node.operands = self.list(b'(', b')', Self::operand)?;
        if self.is(b'[') {
            node.successors = self.list(b'[', b']', Self::label)?;
        }
        if self.eat(b'<') {
            node.attributes = self.attribute_dict()?;
            self.punct(b'>')?;
        }
        if self.is(b'(') {
            node.regions = self.list(b'(', b')', Self::region)?;
        }
        let others = self.optional_attributes()?;
        node.attributes.extend(others);
        self.punct(b':')?;
        let types = self.list(b'(', b')', Self::ty)?;
        self.set_types(&mut node.operands, &types)?;
        self.arrow()?;
        node.result_types = self.result_types()?;
        Ok(())
    }

    /// The types of operands, as many as there are operands.
    fn set_types(&self, operands: &mut [Use<'a>], types: &[Type]) -> Parsed<()> {
        if operands.len() != types.len() {
            let last = self.since(self.at.saturating_sub(1));
            return self.fault(last, format!("{} operands, and the types of {}", operands.len(), types.len()));
        }
        for (operand, &ty) in operands.iter_mut().zip(types) {
            operand.ty = Some(ty);
        }
        Ok(())
    }

    /// A type, or types in parentheses.
    fn result_types(&mut self) -> Parsed<Vec<Type>> {
        if self.is(b'(') { self.list(b'(', b')', Self::ty) } else { Ok(vec![self.ty()?]) }
    }

    /// The text of some tokens, in one line.
    fn slice(&self, from: usize) -> Cow<'a, str> {
        let span = self.since(from);
        let text = &self.source[span.start as usize..span.end as usize];
        if !text.contains('\n') {
            return Cow::Borrowed(text);
        }
        let mut line = String::new();
        let mut end = span.start;
        for &token in &self.tokens[from..self.at] {
            if token.span.start > end {
                line.push(' ');
            }
            line.push_str(self.text(token));
            end = token.span.end;
        }
        Cow::Owned(line)
    }
}
