//! The short forms of control flow: loops, conditions, branches and what ends a block.

use super::super::tree::{AttrValue, BlockNode, Name, Node, RegionNode};
use super::{Parsed, Parser};
use crate::tile::{Scalar, Type};

/// A region's arguments as the head of a loop names them, with the values that they start from among the operands.
type Carried<'a> = Vec<Name<'a>>;

impl<'a> Parser<'a> {
    /// `%i = %lower to %upper step %step iter_args(%a = %init) -> (T) : i32 {…} {attributes}`.
    pub(super) fn for_loop(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        let counter = self.value_name()?;
        self.punct(b'=')?;
        node.operands.push(self.operand()?);
        self.keyword("to")?;
        node.operands.push(self.operand()?);
        self.keyword("step")?;
        node.operands.push(self.operand()?);
        let mut carried = Vec::new();
        let mut types = Vec::new();
        if self.eat_word("iter_args") {
            carried = self.carried(node)?;
            self.arrow()?;
            types = self.result_types()?;
        }
        let colon = self.here();
        if !self.eat(b':') {
            return self.unsupported(colon, "the counter is an `index`; expected its type, such as `: i32`");
        }
        let ty = self.ty()?;
        let operands = [&[ty; 3], &types[..]].concat();
        self.set_types(&mut node.operands, &operands)?;
        let names = [&[counter], &carried[..]].concat();
        let region = self.region_with(names.into_iter().zip(operands.into_iter().skip(2)))?;
        node.regions.push(region);
        node.result_types = types;
        self.dict(node)
    }

    /// `(%a = %init, …)`.
    fn carried(&mut self, node: &mut Node<'a>) -> Parsed<Carried<'a>> {
        self.list(b'(', b')', |parser| {
            let name = parser.value_name()?;
            parser.punct(b'=')?;
            node.operands.push(parser.operand()?);
            Ok(name)
        })
    }

    /// A region whose block's arguments stand in front of it.
    fn region_with(&mut self, args: impl Iterator<Item = (Name<'a>, Type)>) -> Parsed<RegionNode<'a>> {
        let mut region = self.region()?;
        let block = self.first_block(&mut region)?;
        block.args = args.collect();
        Ok(region)
    }

    /// The block of a region that has one at least, as braces of the short form do even where they are empty.
    fn first_block<'r>(&self, region: &'r mut RegionNode<'a>) -> Parsed<&'r mut BlockNode<'a>> {
        if region.blocks.is_empty() {
            region.blocks.push(BlockNode::default());
        }
        match region.blocks[0].label {
            Some(label) => self.fault(label.span, format!("expected an operation, found the block `^{}`", label.text)),
            None => Ok(&mut region.blocks[0]),
        }
    }

    /// `(%a = %init) : (T) -> U {…} do {…} attributes {…}`.
    pub(super) fn while_loop(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        let carried = if self.is(b'(') { self.carried(node)? } else { Vec::new() };
        self.signature(node)?;
        let types: Vec<_> = node.operands.iter().filter_map(|operand| operand.ty).collect();
        let before = self.region_with(carried.into_iter().zip(types))?;
        self.keyword("do")?;
        let mut after = self.region()?;
        // Where nothing is carried the block has no head.
        if after.blocks.is_empty() {
            after.blocks.push(BlockNode::default());
        }
        node.regions = vec![before, after];
        if self.eat_word("attributes") { self.dict(node) } else { Ok(()) }
    }

    /// `%c -> (T) {…} else {…} {attributes}`.
    pub(super) fn if_else(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        let mut condition = self.operand()?;
        condition.ty = Some(Type::scalar(Scalar::I1));
        node.operands.push(condition);
        if self.eat_arrow() {
            node.result_types = self.result_types()?;
        }
        let mut then = self.region()?;
        self.first_block(&mut then)?;
        let mut otherwise = RegionNode::default();
        if self.eat_word("else") {
            otherwise = self.region()?;
            self.first_block(&mut otherwise)?;
        }
        node.regions = vec![then, otherwise];
        self.dict(node)
    }

    /// `scf.yield %a, %b : A, B`, `tt.return`, …
    pub(super) fn values(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.dict(node)?;
        if self.is_value() {
            self.typed_operands(node)?;
        }
        Ok(())
    }

    /// `%a, %b : A, B`.
    fn typed_operands(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        let first = node.operands.len();
        let operands = self.several(Self::operand)?;
        node.operands.extend(operands);
        self.dict(node)?;
        self.punct(b':')?;
        let types = self.types()?;
        self.set_types(&mut node.operands[first..], &types)
    }

    /// `(%c) %a, %b : A, B`.
    pub(super) fn condition(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.punct(b'(')?;
        let mut condition = self.operand()?;
        condition.ty = Some(Type::scalar(Scalar::I1));
        node.operands.push(condition);
        self.punct(b')')?;
        self.dict(node)?;
        if self.is_value() { self.typed_operands(node) } else { Ok(()) }
    }

    /// `^bb1(%a, %b : A, B)`; how many values it takes.
    fn successor(&mut self, node: &mut Node<'a>) -> Parsed<i64> {
        node.successors.push(self.label()?);
        let first = node.operands.len();
        if self.eat(b'(') {
            self.typed_operands(node)?;
            self.punct(b')')?;
        }
        Ok((node.operands.len() - first) as i64)
    }

    /// `^bb1(…)`.
    pub(super) fn branch(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        self.successor(node)?;
        self.dict(node)
    }

    /// `%c, ^bb1(…), ^bb2(…)`.
    pub(super) fn cond_branch(&mut self, node: &mut Node<'a>) -> Parsed<()> {
        let from = self.at;
        let mut condition = self.operand()?;
        condition.ty = Some(Type::scalar(Scalar::I1));
        node.operands.push(condition);
        self.punct(b',')?;
        let then = self.successor(node)?;
        self.punct(b',')?;
        let otherwise = self.successor(node)?;
        self.dict(node)?;
        let attribute = super::super::tree::Attr {
            value: AttrValue::Ints(vec![1, then, otherwise]),
            text: "".into(),
            span: self.since(from),
        };
        node.attributes.insert("operandSegmentSizes".to_owned(), attribute);
        Ok(())
    }
}
