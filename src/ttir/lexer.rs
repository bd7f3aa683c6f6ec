//! Tokens of MLIR's text.
//!
//! Comments and white space separate tokens and are dropped. The signs of numbers are tokens of their own, and so is the
//! `#1` of `%0#1`. The extents of a tensor type come out as numbers and words (`16`, `x32xf32`): see the parser of types.

/// Bytes of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A bare word: `tt.func`, `to`, `f32`, `x32xf32`.
    Word,
    /// `%name`.
    Value,
    /// `^bb1`.
    Label,
    /// `@name`, `@"any name"`.
    Symbol,
    /// `!tt.ptr`.
    Type,
    /// `#loc1`, `#arith.fastmath`, `#1`.
    Hash,
    /// `12`, `0x1F`, without a sign.
    Integer,
    /// `1.5e-3`, without a sign.
    Float,
    /// `"…"`, quotes included.
    Text,
    /// `->`.
    Arrow,
    /// One of `( ) { } [ ] < > , : = - + * ? | /`.
    Punct(u8),
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) span: Span,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}

/// What follows `%`, `^`, `!`, `#` and `@`: a number, or a name (which may hold a `-`, as in `%c-1_i32`).
fn is_suffix(byte: u8) -> bool {
    is_word(byte) || byte == b'-'
}

/// Splits `source` into tokens.
///
/// # Errors
/// The first byte that starts no token, or a string that does not end.
pub(super) fn lex(source: &str) -> Result<Vec<Token>, (Span, String)> {
    let bytes = source.as_bytes();
    if u32::try_from(bytes.len()).is_err() {
        return Err((Span::default(), "the text is longer than 4 GiB".into()));
    }
    let mut tokens = Vec::with_capacity(bytes.len() / 4);
    let mut at = 0;
    while at < bytes.len() {
        let (start, byte) = (at, bytes[at]);
        let next = bytes.get(at + 1).copied().unwrap_or(0);
        let kind = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            b'/' if next == b'/' => {
                at = scan(bytes, at, |byte| byte != b'\n');
                continue;
            }
            b'"' => {
                at = text_end(bytes, at)?;
                TokenKind::Text
            }
            b'@' if next == b'"' => {
                at = text_end(bytes, at + 1)?;
                TokenKind::Symbol
            }
            b'%' | b'^' | b'@' | b'!' | b'#' if is_suffix(next) => {
                // A number ends with its digits: `%0-1` is no name.
                let accept = if next.is_ascii_digit() { |byte: u8| byte.is_ascii_digit() } else { is_suffix };
                at = scan(bytes, at + 1, accept);
                // An arrow may stand right behind a name.
                if bytes[at - 1] == b'-' && bytes.get(at) == Some(&b'>') {
                    at -= 1;
                }
                match byte {
                    b'%' => TokenKind::Value,
                    b'^' => TokenKind::Label,
                    b'@' => TokenKind::Symbol,
                    b'!' => TokenKind::Type,
                    _ => TokenKind::Hash,
                }
            }
            b'-' if next == b'>' => {
                at += 2;
                TokenKind::Arrow
            }
            b'0'..=b'9' => number(bytes, &mut at),
            _ if byte.is_ascii_alphabetic() || byte == b'_' => {
                at = scan(bytes, at, is_word);
                TokenKind::Word
            }
            b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'<' | b'>' | b',' | b':' | b'=' | b'-' | b'+' | b'*' | b'?'
            | b'|' | b'/' => {
                at += 1;
                TokenKind::Punct(byte)
            }
            _ => {
                let character = source[at..].chars().next().unwrap_or('?');
                return Err((
                    span(at, at + character.len_utf8()),
                    format!("the character {character:?} starts nothing"),
                ));
            }
        };
        tokens.push(Token { kind, span: span(start, at) });
    }
    Ok(tokens)
}

fn span(start: usize, end: usize) -> Span {
    Span { start: start as u32, end: end as u32 }
}

fn scan(bytes: &[u8], from: usize, accept: impl Fn(u8) -> bool) -> usize {
    from + bytes[from..].iter().take_while(|&&byte| accept(byte)).count()
}

/// The end of the string whose opening quote is at `at`.
fn text_end(bytes: &[u8], at: usize) -> Result<usize, (Span, String)> {
    let mut end = at + 1;
    loop {
        match bytes.get(end) {
            Some(b'"') => return Ok(end + 1),
            Some(b'\\') if bytes.get(end + 1).is_some_and(u8::is_ascii) => end += 2,
            Some(b'\n' | b'\\') | None => return Err((span(at, end), "a string has no end".into())),
            Some(_) => end += 1,
        }
    }
}

fn number(bytes: &[u8], at: &mut usize) -> TokenKind {
    if bytes[*at] == b'0' && bytes.get(*at + 1) == Some(&b'x') {
        let end = scan(bytes, *at + 2, |byte| byte.is_ascii_hexdigit());
        // `0x` with no digits behind is the start of a tensor's extents.
        if end > *at + 2 {
            *at = end;
            return TokenKind::Integer;
        }
    }
    *at = scan(bytes, *at, |byte| byte.is_ascii_digit());
    if bytes.get(*at) != Some(&b'.') {
        return TokenKind::Integer;
    }
    *at = scan(bytes, *at + 1, |byte| byte.is_ascii_digit());
    if matches!(bytes.get(*at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(*at + 1), Some(b'+' | b'-')));
        if bytes.get(*at + 1 + sign).is_some_and(u8::is_ascii_digit) {
            *at = scan(bytes, *at + 1 + sign, |byte| byte.is_ascii_digit());
        }
    }
    TokenKind::Float
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        lex(source).unwrap().iter().map(|token| &source[token.span.start as usize..token.span.end as usize]).collect()
    }

    #[test]
    fn names_numbers_and_extents() {
        assert_eq!(
            words("%c-1_i32, %5:2 = \"tt.reduce\"(%0#1) -2.5E-10 0x7F // tail\n^bb1 @f @\"a b\" #loc3"),
            [
                "%c-1_i32",
                ",",
                "%5",
                ":",
                "2",
                "=",
                "\"tt.reduce\"",
                "(",
                "%0",
                "#1",
                ")",
                "-",
                "2.5E-10",
                "0x7F",
                "^bb1",
                "@f",
                "@\"a b\"",
                "#loc3"
            ]
        );
        assert_eq!(words("tensor<1x32x!tt.ptr<f32>>"), ["tensor", "<", "1", "x32x", "!tt.ptr", "<", "f32", ">", ">"]);
        assert_eq!(words("%a->%b->"), ["%a", "->", "%b", "->"]);
        assert_eq!(words(r#""a\22\\" x"#), [r#""a\22\\""#, "x"]);
    }

    #[test]
    fn faults_are_located() {
        assert_eq!(lex("tt `").unwrap_err().0, Span { start: 3, end: 4 });
        assert_eq!(lex("x \"abc\n\"").unwrap_err().0, Span { start: 2, end: 6 });
        assert!(lex("\"\\").is_err());
        assert!(lex("%").is_err());
    }
}
