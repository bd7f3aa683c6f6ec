//! Variables and parameters, from their state space to the end of their initial values.

use super::{MAX_DIMENSIONS, MAX_INITIAL_VALUES, Parsed, Parser, join, space_of};
use crate::ptx::lexer::TokenKind;
use crate::ptx::model::{Immediate, Operand, Variable};

impl Parser<'_> {
    pub(super) fn parameters(&mut self) -> Parsed<Vec<Variable>> {
        self.punct(b'(')?;
        let mut params = Vec::new();
        while !self.eat(b')') {
            if !params.is_empty() {
                self.punct(b',')?;
            }
            params.push(self.variable(None)?);
        }
        Ok(params)
    }

    /// A variable or parameter, from its state space to the end of its initialiser.
    pub(super) fn variable(&mut self, linkage: Option<String>) -> Parsed<Variable> {
        let start = self.here();
        let Some(space) = self.peek_dot().and_then(space_of) else {
            return self.expected("a state space such as `.param`");
        };
        self.at += 1;
        let mut variable = Variable {
            linkage,
            space,
            align: None,
            vector: None,
            ty: String::new(),
            pointer: None,
            name: String::new(),
            dims: Vec::new(),
            attributes: Vec::new(),
            init: Vec::new(),
            span: start,
        };
        while let Some(word) = self.peek_dot() {
            self.at += 1;
            match word {
                "align" => variable.align = Some(self.number32("an alignment")?),
                "v2" => variable.vector = Some(2),
                "v4" => variable.vector = Some(4),
                "v8" => variable.vector = Some(8),
                "ptr" => {
                    let pointee = self.peek_dot().and_then(space_of);
                    self.at += usize::from(pointee.is_some());
                    let align = if self.eat_dot("align") { Some(self.number32("an alignment")?) } else { None };
                    variable.pointer = Some((pointee, align));
                }
                "attribute" => variable.attributes.push(self.attribute()?),
                ty => variable.ty = ty.to_owned(),
            }
        }
        if variable.ty.is_empty() {
            return self.expected("a type such as `.b32`");
        }
        variable.name = self.word("a name")?.to_owned();
        while self.eat(b'[') {
            let dim = if self.is(b']') { None } else { Some(self.number("an array size")?) };
            self.punct(b']')?;
            variable.dims.push(dim);
            if variable.dims.len() > MAX_DIMENSIONS {
                return Err((start, format!("more than {MAX_DIMENSIONS} array dimensions")));
            }
        }
        if self.eat(b'=') {
            let extents = variable.extents();
            self.initialiser(&mut variable.init, &extents)?;
            // Whole rows, whatever braces were left out.
            let row = extents.iter().skip(1).fold(1_u64, |row, &extent| row.saturating_mul(extent)).max(1);
            let filled = (variable.init.len() as u64).div_ceil(row).saturating_mul(row);
            fill(&mut variable.init, filled).map_err(|message| (start, message))?;
        }
        variable.span = self.since(start);
        Ok(variable)
    }

    /// `(.managed)`, with `.attribute` just eaten: the whole attribute as text.
    pub(super) fn attribute(&mut self) -> Parsed<String> {
        if !self.is(b'(') {
            return self.expected("`(` after `.attribute`");
        }
        let mut pieces = vec![".attribute".to_owned()];
        let mut depth = 0_u32;
        while let Some(token) = self.peek() {
            self.at += 1;
            pieces.push(self.text(token).to_owned());
            match token.kind {
                TokenKind::Punct(b'(') => depth += 1,
                TokenKind::Punct(b')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(join(&pieces));
            }
        }
        self.expected("`)`")
    }

    /// A value, or values in braces; `extents` are those of what the braces hold, outermost first. An inner brace that
    /// holds fewer values than its extents ask for is filled with zeros, so that the flattened values stay in place.
    pub(super) fn initialiser(&mut self, values: &mut Vec<Operand>, extents: &[u64]) -> Parsed<()> {
        let start = self.here();
        if !self.eat(b'{') {
            values.push(self.operand()?);
            return Ok(());
        }
        let inner = extents.get(1..).unwrap_or_default();
        let size = inner.iter().fold(1_u64, |size, &extent| size.saturating_mul(extent));
        let mut first = true;
        while !self.eat(b'}') {
            if !first {
                self.punct(b',')?;
            }
            first = false;
            let braced = self.is(b'{').then_some(values.len() as u64);
            self.nested(|parser| parser.initialiser(values, inner))?;
            let Some(from) = braced else { continue };
            fill(values, from.saturating_add(size)).map_err(|message| (start, message))?;
        }
        Ok(())
    }
}

/// Lengthens `values` with zeros up to `length`.
fn fill(values: &mut Vec<Operand>, length: u64) -> Result<(), String> {
    if length > MAX_INITIAL_VALUES {
        return Err(format!("an initialiser of more than {MAX_INITIAL_VALUES} values"));
    }
    values.resize(values.len().max(length as usize), Operand::Immediate(Immediate::Int(0)));
    Ok(())
}
