//! Operands and literals.

use super::{Parsed, Parser};
use crate::ptx::lexer::TokenKind;
use crate::ptx::model::{Immediate, Operand};

impl Parser<'_> {
    pub(super) fn operand(&mut self) -> Parsed<Operand> {
        let first = self.nested(Self::single_operand)?;
        if self.eat(b'|') {
            let second = self.nested(Self::single_operand)?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    pub(super) fn single_operand(&mut self) -> Parsed<Operand> {
        if self.eat(b'!') {
            return Ok(Operand::Not(Box::new(self.nested(Self::single_operand)?)));
        }
        if self.eat(b'[') {
            return self.address();
        }
        if self.eat(b'{') {
            return self.operands_until(b'}').map(Operand::Vector);
        }
        if self.eat(b'(') {
            return self.operands_until(b')').map(Operand::List);
        }
        if let Some(value) = self.immediate()? {
            return Ok(Operand::Immediate(value));
        }
        let name = self.name()?;
        if name == "_" {
            return Ok(Operand::Sink);
        }
        if self.is(b'+') || self.is(b'-') {
            let offset = self.offset()?;
            return Ok(Operand::Offset(name, offset));
        }
        Ok(Operand::Name(name))
    }

    pub(super) fn operands_until(&mut self, close: u8) -> Parsed<Vec<Operand>> {
        let mut operands = Vec::new();
        while !self.eat(close) {
            if !operands.is_empty() {
                self.punct(b',')?;
            }
            operands.push(self.operand()?);
        }
        Ok(operands)
    }

    /// A name with its member: `%r1`, `%tid.x`.
    pub(super) fn name(&mut self) -> Parsed<String> {
        let mut name = self.word("an operand")?.to_owned();
        if let Some(member) = self.peek_dot() {
            self.at += 1;
            name.push('.');
            name.push_str(member);
        }
        Ok(name)
    }

    pub(super) fn address(&mut self) -> Parsed<Operand> {
        let base = match self.immediate()? {
            Some(value) => Operand::Immediate(value),
            None => Operand::Name(self.name()?),
        };
        let offset = if self.is(b'+') || self.is(b'-') { self.offset()? } else { 0 };
        let mut coordinates = Vec::new();
        while self.eat(b',') {
            coordinates.push(self.operand()?);
        }
        self.punct(b']')?;
        Ok(Operand::Address { base: Box::new(base), offset, coordinates })
    }

    /// `+4`, `-4` or `+-4`.
    pub(super) fn offset(&mut self) -> Parsed<i64> {
        let span = self.here();
        let plus = self.eat(b'+');
        let negative = if plus { false } else { self.eat(b'-') };
        match self.immediate()? {
            Some(Immediate::Int(value)) => Ok(if negative { value.wrapping_neg() } else { value }),
            _ => Err((span, "expected an integer offset".into())),
        }
    }

    /// A literal with its sign, or `None` where none stands.
    pub(super) fn immediate(&mut self) -> Parsed<Option<Immediate>> {
        let negative =
            self.is(b'-') && self.tokens.get(self.at + 1).is_some_and(|token| token.kind == TokenKind::Number);
        self.at += usize::from(negative);
        let token = match self.peek() {
            Some(token) if token.kind == TokenKind::Number => token,
            _ => return Ok(None),
        };
        self.at += 1;
        let text = self.text(token);
        let value = read_number(text)
            .ok_or_else(|| (token.span, format!("`{text}` is no number that PTX knows, or is out of range")))?;
        Ok(Some(if negative { negate(value) } else { value }))
    }
}

fn negate(value: Immediate) -> Immediate {
    match value {
        Immediate::Int(value) => Immediate::Int(value.wrapping_neg()),
        Immediate::UInt(value) => match value.wrapping_neg() as i64 {
            negated if negated < 0 => Immediate::Int(negated),
            _ => Immediate::UInt(value.wrapping_neg()),
        },
        Immediate::F32(bits) => Immediate::F32(bits ^ (1 << 31)),
        Immediate::F64(bits) => Immediate::F64(bits ^ (1 << 63)),
    }
}

fn read_number(text: &str) -> Option<Immediate> {
    let lower = text.to_ascii_lowercase();
    if let Some(bits) = lower.strip_prefix("0f") {
        return (bits.len() == 8).then(|| u32::from_str_radix(bits, 16).ok())?.map(Immediate::F32);
    }
    if let Some(bits) = lower.strip_prefix("0d") {
        return (bits.len() == 16).then(|| u64::from_str_radix(bits, 16).ok())?.map(Immediate::F64);
    }
    if lower.contains('.') {
        return lower.parse::<f64>().ok().map(|value| Immediate::F64(value.to_bits()));
    }
    let (digits, unsigned) = match lower.strip_suffix('u') {
        Some(digits) => (digits, true),
        None => (lower.as_str(), false),
    };
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x', ..] => (&digits[2..], 16),
        [b'0', b'b', ..] => (&digits[2..], 2),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    let value = u64::from_str_radix(digits, radix).ok()?;
    match i64::try_from(value) {
        Ok(value) if !unsigned => Some(Immediate::Int(value)),
        _ => Some(Immediate::UInt(value)),
    }
}
