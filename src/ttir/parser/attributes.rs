//! Attributes: those that an operation may look at, and the others as text.

use std::borrow::Cow;

use super::super::tree::{Attr, AttrValue, Attrs, Literal};
use super::{Parsed, Parser, TokenKind};

/// The most values in an array or a dense constant.
const MAX_VALUES: usize = 1 << 20;

impl<'a> Parser<'a> {
    /// `{…}`, where there is one.
    pub(super) fn optional_attributes(&mut self) -> Parsed<Attrs<'a>> {
        if self.is(b'{') { self.attribute_dict() } else { Ok(Attrs::new()) }
    }

    /// `{name = value, unit}`.
    pub(super) fn attribute_dict(&mut self) -> Parsed<Attrs<'a>> {
        let mut attributes = Attrs::new();
        self.list(b'{', b'}', |parser| {
            let span = parser.here();
            let name = if let Some(word) = parser.take(TokenKind::Word) {
                word.to_owned()
            } else if let Some(text) = parser.take(TokenKind::Text) {
                unescape(text)
            } else {
                return parser.expected("an attribute's name");
            };
            let attribute = if parser.eat(b'=') {
                parser.attribute()?
            } else {
                Attr { value: AttrValue::Unit, text: Cow::Borrowed(""), span }
            };
            if attributes.contains_key(&name) {
                return parser.fault(span, format!("the attribute `{name}` is given twice"));
            }
            attributes.insert(name, attribute);
            Ok(())
        })?;
        Ok(attributes)
    }

    /// Adds what the short form says by a word of its own.
    pub(super) fn attribute(&mut self) -> Parsed<Attr<'a>> {
        let from = self.at;
        let value = self.attribute_value()?;
        if self.eat(b':') {
            self.skip_type()?;
        }
        Ok(Attr { value, text: self.slice(from), span: self.since(from) })
    }

    fn attribute_value(&mut self) -> Parsed<AttrValue<'a>> {
        if let Some(literal) = self.literal()? {
            return Ok(AttrValue::Literal(literal));
        }
        match self.peek_kind() {
            Some(TokenKind::Text) => Ok(AttrValue::Text(self.string("a string")?)),
            Some(TokenKind::Symbol) => {
                let (name, _) = self.symbol("a symbol")?;
                Ok(AttrValue::Symbol(name))
            }
            Some(TokenKind::Word) => match self.peek_word() {
                Some("array") => self.int_array(),
                Some("dense") => self.dense(),
                Some(word) => {
                    self.at += 1;
                    if matches!(self.peek_kind(), Some(TokenKind::Punct(b'<' | b'('))) {
                        self.skip_balanced()?;
                        return Ok(AttrValue::Other);
                    }
                    Ok(AttrValue::Word(word))
                }
                None => Ok(AttrValue::Other),
            },
            Some(TokenKind::Hash | TokenKind::Type) => {
                self.at += 1;
                if self.is(b'<') {
                    self.skip_balanced()?;
                }
                Ok(AttrValue::Other)
            }
            Some(TokenKind::Punct(b'[' | b'{' | b'(')) => {
                self.skip_balanced()?;
                if self.eat_arrow() {
                    self.skip_type()?;
                }
                Ok(AttrValue::Other)
            }
            _ => self.expected("an attribute"),
        }
    }

    /// Reads over a type, whatever it is.
    fn skip_type(&mut self) -> Parsed<()> {
        match self.peek_kind() {
            Some(TokenKind::Word | TokenKind::Type) => {
                self.at += 1;
                if self.is(b'<') { self.skip_balanced() } else { Ok(()) }
            }
            Some(TokenKind::Punct(b'(')) => {
                self.skip_balanced()?;
                self.arrow()?;
                if self.is(b'(') { self.skip_balanced() } else { self.skip_type() }
            }
            _ => self.expected("a type"),
        }
    }

    /// A number or a truth value, where there is one.
    pub(super) fn literal(&mut self) -> Parsed<Option<Literal<'a>>> {
        if self.eat_word("true") {
            return Ok(Some(Literal::Bool(true)));
        }
        if self.eat_word("false") {
            return Ok(Some(Literal::Bool(false)));
        }
        let negative = self.eat(b'-');
        match self.take(TokenKind::Integer).or_else(|| self.take(TokenKind::Float)) {
            Some(text) => Ok(Some(Literal::Number { negative, text })),
            None if negative => self.expected("a number"),
            None => Ok(None),
        }
    }

    /// `array<i32: 1, 0>`.
    fn int_array(&mut self) -> Parsed<AttrValue<'a>> {
        self.keyword("array")?;
        self.punct(b'<')?;
        self.skip_type()?;
        let mut values = Vec::new();
        if self.eat(b':') {
            self.several(|parser| {
                let span = parser.here();
                values.push(match parser.literal()? {
                    Some(Literal::Bool(value)) => value.into(),
                    Some(Literal::Number { negative, text }) => match super::super::numbers::integer(negative, text) {
                        Some(value) => value,
                        None => return parser.fault(span, "expected an integer of 64 bits"),
                    },
                    None => return parser.expected("a number"),
                });
                Ok(())
            })?;
        }
        self.punct(b'>')?;
        Ok(AttrValue::Ints(values))
    }

    /// `dense<1.0>`, `dense<[[1, 2], [3, 4]]>`; the type that follows is left.
    pub(super) fn dense(&mut self) -> Parsed<AttrValue<'a>> {
        self.keyword("dense")?;
        self.punct(b'<')?;
        let span = self.here();
        if self.peek_kind() == Some(TokenKind::Text) {
            return self.unsupported(
                span,
                "constants of bytes (`dense<\"0x…\">`) are not supported: a tile constant has one value",
            );
        }
        let mut values = Vec::new();
        // Brackets nest as the shape does; only the values in them matter.
        let mut open = 0_u32;
        loop {
            if self.eat(b'[') {
                open += 1;
            } else if let Some(literal) = self.literal()? {
                if values.len() == MAX_VALUES {
                    return self.unsupported(span, format!("a constant of more than {MAX_VALUES} values"));
                }
                values.push(literal);
                while open > 0 && self.eat(b']') {
                    open -= 1;
                }
                if open == 0 {
                    break;
                }
                self.punct(b',')?;
            } else {
                return self.expected("a number, `true`, `false` or `[`");
            }
        }
        self.punct(b'>')?;
        Ok(AttrValue::Dense(values))
    }

    /// `"…"`, escapes undone.
    pub(super) fn string(&mut self, what: &str) -> Parsed<String> {
        match self.take(TokenKind::Text) {
            Some(text) => Ok(unescape(text)),
            None => self.expected(what),
        }
    }
}

/// The characters of a string in quotes: `\n`, `\t`, `\"`, `\\` and two hexadecimal digits for a byte.
pub(super) fn unescape(quoted: &str) -> String {
    let inner = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(quoted);
    if !inner.contains('\\') {
        return inner.to_owned();
    }
    let bytes = inner.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |at: usize| bytes.get(at).and_then(|&byte| (byte as char).to_digit(16)).map(|digit| digit as u8);
        match (bytes[at], bytes.get(at + 1)) {
            (b'\\', Some(&next)) => match (next, hex(at + 1), hex(at + 2)) {
                (b'n', ..) => {
                    out.push(b'\n');
                    at += 2;
                }
                (b't', ..) => {
                    out.push(b'\t');
                    at += 2;
                }
                (_, Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    at += 3;
                }
                _ => {
                    out.push(next);
                    at += 2;
                }
            },
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
