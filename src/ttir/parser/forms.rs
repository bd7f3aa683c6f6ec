//! The short forms of operations, each found by its operation's name.
//!
//! A form reads what stands behind the name and leaves in the node what the generic form would have said: the attributes under
//! their names, and the types of operands where the text has them.

use std::borrow::Cow;

use super::super::tree::{Attr, AttrValue, Literal, Node};
use super::{Parsed, Parser, TokenKind};
use crate::tile::{Binary, Cast, Scalar, Type, Unary};

/// Reads the short form of an operation.
pub(super) type Form<'a> = fn(&mut Parser<'a>, &mut Node<'a>) -> Parsed<()>;

/// The short form of `name`, where it has one.
pub(super) fn form<'a>(name: &str) -> Option<Form<'a>> {
    Some(match name {
        "arith.constant" => Parser::constant,
        "arith.cmpi" | "arith.cmpf" => Parser::compare,
        "arith.select" => Parser::select,
        "math.fma" => |parser, node| parser.same(node, 3),
        "tt.clampf" => Parser::clamp,
        "tt.bitcast" | "tt.int_to_ptr" | "tt.ptr_to_int" | "tt.splat" | "tt.broadcast" | "tt.expand_dims"
        | "tt.trans" | "tt.cat" | "tt.join" | "tt.histogram" => Parser::arrow_form,
        "tt.split" => Parser::split,
        "tt.fp_to_fp" => Parser::fp_to_fp,
        "tt.reshape" => Parser::reshape,
        "tt.unsplat" => Parser::unsplat,
        "tt.get_program_id" | "tt.get_num_programs" => Parser::program_id,
        "tt.make_range" | "ub.poison" => Parser::no_operands,
        "tt.gather" => Parser::gather,
        "tt.addptr" => Parser::add_ptr,
        "tt.load" | "tt.store" => Parser::access,
        "tt.atomic_rmw" => |parser, node| parser.atomic(node, &["atomic_rmw_op", "sem", "scope"]),
        "tt.atomic_cas" => |parser, node| parser.atomic(node, &["sem", "scope"]),
        "tt.make_tensor_ptr" => Parser::make_block_ptr,
        "tt.advance" => Parser::advance,
        "tt.make_tensor_descriptor" => Parser::make_descriptor,
        "tt.descriptor_load" => Parser::descriptor_load,
        "tt.descriptor_store" => Parser::descriptor_store,
        "tt.dot" => Parser::dot,
        "tt.dot_scaled" => Parser::dot_scaled,
        "tt.assert" => Parser::assert,
        "tt.print" => Parser::print,
        "tt.elementwise_inline_asm" => Parser::inline_asm,
        "tt.extern_elementwise" => Parser::extern_elementwise,
        "llvm.intr.assume" => Parser::assume,
        "gpu.barrier" => Parser::bare,
        "tt.call" => Parser::call,
        "scf.for" => Parser::for_loop,
        "scf.while" => Parser::while_loop,
        "scf.if" => Parser::if_else,
        "scf.condition" => Parser::condition,
        "scf.yield" | "tt.reduce.return" | "tt.scan.return" | "tt.return" => Parser::values,
        "cf.br" => Parser::branch,
        "cf.cond_br" => Parser::cond_branch,
        _ if Binary::from_name(name).is_some() => |parser, node| parser.same(node, 2),
        _ if Unary::from_name(name).is_some() => |parser, node| parser.same(node, 1),
        _ if Cast::from_name(name).is_some() => Parser::cast,
        _ => return None,
    })
}

/// Words behind the operands of an `arith` operation, and the attribute that each is. Those with brackets have flags in them.
const CLAUSES: &[(&str, &str, bool)] = &[
    ("fastmath", "fastmath", true),
    ("overflow", "overflowFlags", true),
    ("to_nearest_even", "roundingmode", false),
    ("to_nearest_away", "roundingmode", false),
    ("downward", "roundingmode", false),
    ("upward", "roundingmode", false),
    ("toward_zero", "roundingmode", false),
];

impl<'a> Parser<'a> {
    /// Puts a word that has just been read under `name`.
    fn put(&self, node: &mut Node<'a>, name: &str, value: AttrValue<'a>, from: usize) {
        let attribute = Attr { value, text: self.slice(from), span: self.since(from) };
        node.attributes.insert(name.to_owned(), attribute);
    }

    /// An enumeration's case.
    fn case(&mut self, node: &mut Node<'a>, name: &str) -> Parsed<()> {
        let from = self.at;
        let Some(word) = self.take(TokenKind::Word) else { return self.expected(&format!("a word: the {name}")) };
        self.put(node, name, AttrValue::Word(word), from);
        Ok(())
    }

    /// `word = case`.
    fn named_case(&mut self, node: &mut Node<'a>, word: &str, name: &str) -> Parsed<()> {
        self.keyword(word)?;
        self.punct(b'=')?;
        self.case(node, name)
    }

    /// Attributes in braces, beside those that are there already.
    pub(super) fn dict(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        for (name, attribute) in self.optional_attributes()? {
            if node.attributes.contains_key(&name) {
                return self.fault(attribute.span, format!("the attribute `{name}` is given twice"));
            }
            node.attributes.insert(name, attribute);
        }
        Ok(())
    }

    /// Operands with commas between them, `most` of them at the most.
    fn operands(&mut self, node: &mut Node<'a>, most: usize) -> Parsed<()> {
        node.operands.push(self.operand()?);
        while node.operands.len() < most && self.eat(b',') {
            node.operands.push(self.operand()?);
        }
        Ok(())
    }

    /// Exactly `count` operands.
    fn exactly(&mut self, node: &mut Node<'a>, count: usize) -> Parsed<()> {
        for index in 0..count {
            if index > 0 {
                self.punct(b',')?;
            }
            node.operands.push(self.operand()?);
        }
        Ok(())
    }

    /// `[%a, %b]`.
    fn bracketed(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        let operands = self.list(b'[', b']', Self::operand)?;
        node.operands.extend(operands);
        Ok(())
    }

    fn clauses(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        while let Some(word) = self.peek_word() {
            let Some(&(_, name, flags)) = CLAUSES.iter().find(|(clause, ..)| *clause == word) else { break };
            let from = self.at;
            self.at += 1;
            if !flags {
                self.put(node, name, AttrValue::Word(word), from);
                continue;
            }
            if !self.is(b'<') {
                return self.expected("`<`");
            }
            self.skip_balanced()?;
            // As the generic form has it: `#arith.fastmath<contract>`.
            let text = Cow::Owned(format!("#arith.{}", self.slice(from)));
            node.attributes.insert(name.to_owned(), Attr { value: AttrValue::Other, text, span: self.since(from) });
        }
        Ok(())
    }

    /// `%a, %b : T`, operands and result of one type.
    fn same(&mut self, node: &mut Node<'a>, count: usize) -> Parsed<()> {
        self.exactly(node, count)?;
        self.clauses(node)?;
        self.dict(node)?;
        self.punct(b':')?;
        let ty = self.ty()?;
        for operand in &mut node.operands {
            operand.ty = Some(ty);
        }
        node.result_types.push(ty);
        Ok(())
    }

    /// `16 : i32`, `true`, `dense<0.0> : tensor<16xf32>`.
    fn constant(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.dict(node)?;
        let from = self.at;
        let value = if self.peek_word() == Some("dense") {
            self.dense()?
        } else if let Some(literal) = self.literal()? {
            AttrValue::Literal(literal)
        } else {
            return self.expected("a number, `true`, `false` or `dense<…>`");
        };
        self.put(node, "value", value.clone(), from);
        let ty = if self.eat(b':') {
            self.ty()?
        } else if matches!(value, AttrValue::Literal(Literal::Bool(_))) {
            Type::scalar(Scalar::I1)
        } else {
            return self.expected("`:` and a type");
        };
        node.result_types.push(ty);
        Ok(())
    }

    fn compare(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.case(node, "predicate")?;
        self.punct(b',')?;
        self.same(node, 2)?;
        node.result_types = node.result_types.iter().map(|ty| ty.with_elem(Scalar::I1)).collect();
        Ok(())
    }

    fn clamp(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 3)?;
        self.punct(b',')?;
        self.named_case(node, "propagateNan", "propagateNan")?;
        self.dict(node)?;
        self.punct(b':')?;
        let ty = self.ty()?;
        node.operands.iter_mut().for_each(|operand| operand.ty = Some(ty));
        node.result_types.push(ty);
        Ok(())
    }

    /// `%c, %a, %b : T` where the condition is an `i1`, or `%c, %a, %b : C, T`.
    fn select(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 3)?;
        self.dict(node)?;
        self.punct(b':')?;
        let first = self.ty()?;
        let (condition, ty) = if self.eat(b',') { (first, self.ty()?) } else { (Type::scalar(Scalar::I1), first) };
        self.set_types(&mut node.operands, &[condition, ty, ty])?;
        node.result_types.push(ty);
        Ok(())
    }

    /// `%a : T to U`.
    fn cast(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 1)?;
        self.clauses(node)?;
        self.dict(node)?;
        self.punct(b':')?;
        let ty = self.ty()?;
        self.set_types(&mut node.operands, &[ty])?;
        self.keyword("to")?;
        node.result_types.push(self.ty()?);
        Ok(())
    }

    /// `%a, … : T -> U`: the type of the first operand, and of a second that must have the same (`tt.cat`, `tt.join`).
    fn arrow_form(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        let two = matches!(node.name.text, "tt.cat" | "tt.join");
        self.operands(node, if two || node.name.text == "tt.histogram" { 2 } else { 1 })?;
        self.dict(node)?;
        self.punct(b':')?;
        let ty = self.ty()?;
        for operand in node.operands.iter_mut().take(if two { 2 } else { 1 }) {
            operand.ty = Some(ty);
        }
        self.arrow()?;
        node.result_types.push(self.ty()?);
        Ok(())
    }

    fn split(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.arrow_form(node)?;
        node.result_types.extend_from_within(..);
        Ok(())
    }

    fn fp_to_fp(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 1)?;
        self.dict(node)?;
        if self.eat(b',') {
            self.named_case(node, "rounding", "rounding")?;
        }
        self.punct(b':')?;
        let ty = self.ty()?;
        self.set_types(&mut node.operands, &[ty])?;
        self.arrow()?;
        node.result_types.push(self.ty()?);
        Ok(())
    }

    fn reshape(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 1)?;
        while let Some(word @ ("allow_reorder" | "efficient_layout")) = self.peek_word() {
            self.at += 1;
            self.put(node, word, AttrValue::Unit, self.at);
        }
        self.dict(node)?;
        self.punct(b':')?;
        let ty = self.ty()?;
        self.set_types(&mut node.operands, &[ty])?;
        self.arrow()?;
        node.result_types.push(self.ty()?);
        Ok(())
    }

    fn unsplat(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 1)?;
        self.dict(node)?;
        self.punct(b':')?;
        let ty = self.ty()?;
        self.set_types(&mut node.operands, &[ty])?;
        node.result_types.extend(ty.elem().map(Type::Scalar));
        Ok(())
    }

    fn program_id(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.case(node, "axis")?;
        self.no_operands(node)
    }

    /// `{…} : T`.
    fn no_operands(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.dict(node)?;
        self.punct(b':')?;
        node.result_types.push(self.ty()?);
        Ok(())
    }

    /// `%source[%indices] : (…) -> T`.
    fn gather(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 1)?;
        self.punct(b'[')?;
        node.operands.push(self.operand()?);
        self.punct(b']')?;
        self.dict(node)?;
        self.signature(node)
    }

    /// `%p, %i : P, I`.
    fn add_ptr(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 2)?;
        self.dict(node)?;
        self.punct(b':')?;
        let types = self.types()?;
        self.set_types(&mut node.operands, &types)?;
        node.result_types.push(types[0]);
        Ok(())
    }

    /// The words of an access: caches, in any order.
    fn cache_clauses(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        loop {
            match self.peek_word() {
                Some("cacheModifier") => self.named_case(node, "cacheModifier", "cache")?,
                Some("evictionPolicy") => self.named_case(node, "evictionPolicy", "evict")?,
                _ => return Ok(()),
            }
        }
    }

    /// `tt.load`, `tt.store`: `%p, … : P`.
    fn access(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        let load = node.name.text == "tt.load";
        if load {
            self.operands(node, 3)?
        } else {
            self.exactly(node, 2)?
        }
        if !load && self.eat(b',') {
            node.operands.push(self.operand()?);
        }
        self.cache_clauses(node)?;
        self.dict(node)?;
        self.punct(b':')?;
        let span = self.here();
        let ty = self.pointer()?;
        node.operands[0].ty = Some(ty);
        let pointee = match ty {
            Type::BlockPtr(shape, scalar) => Some(Type::Tile(shape, scalar.into())),
            _ => ty.elem().and_then(|elem| elem.pointee()).map(|scalar| ty.with_elem(scalar)),
        };
        match pointee {
            Some(pointee) if load => node.result_types.push(pointee),
            Some(_) => {}
            None => return self.fault(span, format!("expected a pointer's type, found {ty}")),
        }
        Ok(())
    }

    /// Words, then operands, then their types.
    fn atomic(&mut self, node: &mut Node<'a>, words: &[&str]) -> Parsed<()> {
        for word in words {
            self.case(node, word)?;
            self.punct(b',')?;
        }
        self.operands(node, 3)?;
        self.dict(node)?;
        self.signature(node)
    }

    /// `%base, [shape], [strides], [offsets] : <tensor<…>>`.
    fn make_block_ptr(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 1)?;
        for _ in 0..3 {
            self.punct(b',')?;
            self.bracketed(node)?;
        }
        self.dict(node)?;
        self.punct(b':')?;
        node.result_types.push(self.pointer()?);
        Ok(())
    }

    fn advance(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 1)?;
        self.punct(b',')?;
        self.bracketed(node)?;
        self.dict(node)?;
        self.punct(b':')?;
        let ty = self.pointer()?;
        node.operands[0].ty = Some(ty);
        node.result_types.push(ty);
        Ok(())
    }

    /// `%base, [shape], [strides] : <f32>, <tensor<…>>`.
    fn make_descriptor(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 1)?;
        for _ in 0..2 {
            self.punct(b',')?;
            self.bracketed(node)?;
        }
        self.dict(node)?;
        self.punct(b':')?;
        node.operands[0].ty = Some(self.pointer()?);
        self.punct(b',')?;
        node.result_types.push(self.descriptor()?);
        Ok(())
    }

    fn descriptor_load(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 1)?;
        self.bracketed(node)?;
        self.cache_clauses(node)?;
        self.dict(node)?;
        self.punct(b':')?;
        node.operands[0].ty = Some(self.descriptor()?);
        self.arrow()?;
        node.result_types.push(self.ty()?);
        Ok(())
    }

    /// `%d[indices], %value : D, T`; the value comes before the indices among the operands.
    fn descriptor_store(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 1)?;
        self.bracketed(node)?;
        self.punct(b',')?;
        let value = self.operand()?;
        node.operands.insert(1, value);
        self.dict(node)?;
        self.punct(b':')?;
        node.operands[0].ty = Some(self.descriptor()?);
        self.punct(b',')?;
        node.operands[1].ty = Some(self.ty()?);
        Ok(())
    }

    /// `%a, %b, %c, inputPrecision = tf32 : A * B -> C`.
    fn dot(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 3)?;
        if self.eat(b',') {
            self.named_case(node, "inputPrecision", "inputPrecision")?;
        }
        self.dict(node)?;
        self.punct(b':')?;
        let a = self.ty()?;
        self.punct(b'*')?;
        let b = self.ty()?;
        self.arrow()?;
        let c = self.ty()?;
        self.set_types(&mut node.operands, &[a, b, c])?;
        node.result_types.push(c);
        Ok(())
    }

    /// `%a scale %sa, %b scale %sb, %c lhs = e4m3 rhs = e4m3 : A, SA * B, SB -> C`, either scale left out.
    fn dot_scaled(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        let mut scales = [false; 2];
        for scale in &mut scales {
            node.operands.push(self.operand()?);
            if self.eat_word("scale") {
                node.operands.push(self.operand()?);
                *scale = true;
            }
            self.punct(b',')?;
        }
        node.operands.push(self.operand()?);
        self.named_case(node, "lhs", "a_elem_type")?;
        self.named_case(node, "rhs", "b_elem_type")?;
        self.dict(node)?;
        self.punct(b':')?;
        let mut types = vec![self.ty()?];
        if scales[0] {
            self.punct(b',')?;
            types.push(self.ty()?);
        }
        self.punct(b'*')?;
        types.push(self.ty()?);
        if scales[1] {
            self.punct(b',')?;
            types.push(self.ty()?);
        }
        self.arrow()?;
        types.push(self.ty()?);
        self.set_types(&mut node.operands, &types)?;
        node.result_types.extend(types.last());
        // Which scales are there, the way that the generic form says it.
        let segments = [1, 1, 1, i64::from(scales[0]), i64::from(scales[1])];
        self.put(node, "operandSegmentSizes", AttrValue::Ints(segments.to_vec()), self.at);
        Ok(())
    }

    /// A string that the form has apart from the attributes in braces.
    fn text_attribute(&mut self, node: &mut Node<'a>, name: &str, what: &str) -> Parsed<()> {
        let from = self.at;
        let text = self.string(what)?;
        self.put(node, name, AttrValue::Text(text), from);
        Ok(())
    }

    fn assert(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 1)?;
        self.punct(b',')?;
        self.text_attribute(node, "message", "a string: the message")?;
        self.dict(node)?;
        self.punct(b':')?;
        node.operands[0].ty = Some(self.ty()?);
        Ok(())
    }

    /// `"prefix" {…} : %a, %b : A, B`.
    fn print(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.text_attribute(node, "prefix", "a string: the prefix")?;
        self.dict(node)?;
        if self.eat(b':') {
            node.operands = self.several(Self::operand)?;
            self.punct(b':')?;
            let types = self.types()?;
            self.set_types(&mut node.operands, &types)?;
        }
        Ok(())
    }

    /// `"asm" {…} %a, %b : A, B -> T, U`.
    fn inline_asm(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.text_attribute(node, "asm_string", "a string: the assembly")?;
        self.dict(node)?;
        if self.is_value() {
            node.operands = self.several(Self::operand)?;
            self.punct(b':')?;
            let types = self.types()?;
            self.set_types(&mut node.operands, &types)?;
        }
        self.arrow()?;
        node.result_types = self.types()?;
        Ok(())
    }

    fn extern_elementwise(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        if self.is_value() {
            node.operands = self.several(Self::operand)?;
        }
        self.dict(node)?;
        self.signature(node)
    }

    fn assume(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.exactly(node, 1)?;
        self.dict(node)?;
        self.punct(b':')?;
        node.operands[0].ty = Some(self.ty()?);
        Ok(())
    }

    fn bare(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.dict(node)
    }

    /// `@f(%a, %b) : (A, B) -> T`.
    fn call(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        let from = self.at;
        let (callee, _) = self.symbol("a function's name such as `@f`")?;
        self.put(node, "callee", AttrValue::Symbol(callee), from);
        node.operands = self.list(b'(', b')', Self::operand)?;
        self.dict(node)?;
        self.signature(node)
    }
}
