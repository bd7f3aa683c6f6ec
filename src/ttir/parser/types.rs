//! Types.

use super::{Parsed, Parser, Span, TokenKind};
use crate::tile::{Elem, Scalar, Shape, Type};

/// Element types that MLIR has and tiles have not.
const OTHER_ELEMENTS: &[&str] = &[
    "index",
    "none",
    "tf32",
    "f80",
    "f128",
    "f4E2M1FN",
    "f6E2M3FN",
    "f6E3M2FN",
    "f8E3M4",
    "f8E4M3",
    "f8E4M3FNUZ",
    "f8E4M3B11FNUZ",
    "f8E5M2FNUZ",
    "f8E8M0FNU",
];

impl<'a> Parser<'a> {
    /// A type.
    pub(super) fn ty(&mut self) -> Parsed<Type> {
        let span = self.here();
        match (self.peek_kind(), self.peek().map(|token| self.text(token))) {
            (Some(TokenKind::Word), Some("tensor")) => {
                self.at += 1;
                let (shape, elem) = self.tensor_body(false)?;
                Ok(Type::Tile(shape, elem))
            }
            (Some(TokenKind::Word), Some(name)) => {
                self.at += 1;
                Ok(Type::scalar(self.scalar(name, span)?))
            }
            (Some(TokenKind::Type), Some("!tt.ptr")) => {
                self.at += 1;
                self.pointer_body()
            }
            (Some(TokenKind::Type), Some("!tt.tensordesc")) => {
                self.at += 1;
                self.descriptor_body()
            }
            (Some(TokenKind::Type), Some(name)) => {
                self.unsupported(span, format!("the type `{name}` is not supported"))
            }
            _ => self.expected("a type"),
        }
    }

    /// `!tt.ptr<…>`, whose name may be left out where nothing else can stand.
    pub(super) fn pointer(&mut self) -> Parsed<Type> {
        if self.is(b'<') { self.pointer_body() } else { self.ty() }
    }

    /// `!tt.tensordesc<…>`, whose name may be left out where nothing else can stand.
    pub(super) fn descriptor(&mut self) -> Parsed<Type> {
        if self.is(b'<') { self.descriptor_body() } else { self.ty() }
    }

    /// A type of the generic sort: `()` for the type of nothing is not one.
    pub(super) fn types(&mut self) -> Parsed<Vec<Type>> {
        self.several(Self::ty)
    }

    /// `(types) -> type`, of these operands.
    pub(super) fn signature(&mut self, node: &mut super::Node<'a>) -> Parsed<()> {
        self.punct(b':')?;
        let types = self.list(b'(', b')', Self::ty)?;
        self.set_types(&mut node.operands, &types)?;
        self.arrow()?;
        node.result_types = self.result_types()?;
        Ok(())
    }

    fn pointer_body(&mut self) -> Parsed<Type> {
        self.punct(b'<')?;
        let span = self.here();
        let ty = match self.peek_kind() {
            Some(TokenKind::Type) => return self.unsupported(span, "pointers to pointers are not supported"),
            Some(TokenKind::Word) if self.eat_word("tensor") => {
                let (shape, elem) = self.tensor_body(false)?;
                match elem {
                    Elem::Value(scalar) => Type::BlockPtr(shape, scalar),
                    Elem::Pointer(_) => {
                        return self.unsupported(span, "block pointers to tiles of pointers are not supported");
                    }
                }
            }
            _ => match self.take(TokenKind::Word) {
                Some(name) => Type::pointer(self.scalar(name, span)?),
                None => return self.expected("the type that is pointed to"),
            },
        };
        if self.eat(b',') {
            let span = self.here();
            let space = self.count("an address space")?;
            if space != 1 {
                return self.unsupported(span, format!("address space {space}: tile pointers are to global memory, 1"));
            }
        }
        self.punct(b'>')?;
        Ok(ty)
    }

    fn descriptor_body(&mut self) -> Parsed<Type> {
        self.punct(b'<')?;
        let span = self.here();
        self.keyword("tensor")?;
        let (shape, elem) = self.tensor_body(true)?;
        self.punct(b'>')?;
        match elem {
            Elem::Value(scalar) => Ok(Type::Descriptor(shape, scalar)),
            Elem::Pointer(_) => self.unsupported(span, "descriptors of tiles of pointers are not supported"),
        }
    }

    /// `<16x32xf32>`. The lexer makes `16` and `x32xf32` of the extents. `signs`: the element may be `si8` or `ui8`, which
    /// only descriptors tell apart.
    fn tensor_body(&mut self, signs: bool) -> Parsed<(Shape, Elem)> {
        self.punct(b'<')?;
        let start = self.at;
        let mut extents: Vec<&'a str> = Vec::new();
        let mut elem = "";
        if let Some(first) = self.take(TokenKind::Integer) {
            extents.push(first);
            let Some(mut rest) = self.take(TokenKind::Word) else { return self.expected("`x` and more of the type") };
            loop {
                let Some(behind) = rest.strip_prefix('x') else {
                    return self.fault(self.since(start), "expected extents such as `16x32x` and an element type");
                };
                let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
                if digits == 0 {
                    elem = behind;
                    break;
                }
                extents.push(&behind[..digits]);
                rest = &behind[digits..];
            }
        }
        let shape_span = self.since(start);
        let at = self.here();
        let elem = if elem.is_empty() {
            // A tile in a tile is nothing, and would be read without end.
            if self.peek_word() == Some("tensor") || self.depth == super::MAX_DEPTH {
                return self.expected("an element type");
            }
            self.depth += 1;
            let ty = self.ty()?;
            self.depth -= 1;
            match ty {
                Type::Scalar(elem) => elem,
                other => return self.unsupported(at, format!("tiles of {other} are not supported")),
            }
        } else {
            let unsigned = elem.strip_prefix(['s', 'u']).filter(|name| signs && name.starts_with('i')).unwrap_or(elem);
            self.scalar(unsigned, shape_span)?.into()
        };
        if self.is(b',') {
            return self
                .unsupported(self.here(), "tiles have no layout here: the text is of a later stage than `.ttir`");
        }
        self.punct(b'>')?;
        let mut dims = Vec::new();
        for extent in extents {
            // What starts like a hexadecimal number is an extent of nought.
            match if extent.starts_with("0x") { Ok(0) } else { extent.parse() } {
                Ok(extent) => dims.push(extent),
                Err(_) => return self.fault(shape_span, format!("the extent {extent} is too large")),
            }
        }
        match Shape::new(&dims) {
            Ok(shape) => Ok((shape, elem)),
            Err(error) => Err(super::Fault::new(
                super::ErrorKind::Invalid,
                Span { end: shape_span.end, ..shape_span },
                error.to_string(),
            )),
        }
    }

    fn scalar(&self, name: &str, span: Span) -> Parsed<Scalar> {
        match Scalar::from_name(name) {
            Some(scalar) => Ok(scalar),
            None if OTHER_ELEMENTS.contains(&name) || name.strip_prefix('i').is_some_and(is_number) => {
                self.unsupported(span, format!("the type `{name}` is not supported"))
            }
            None => self.fault(span, format!("expected a type, found `{name}`")),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
