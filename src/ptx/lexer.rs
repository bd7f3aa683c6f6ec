//! Tokens of PTX text.
//!
//! Comments and white space separate tokens and are dropped. A modifier is a token of its own, dot included
//! (`.shared::cluster`, `.16x256b`), so `ld.global.v4.b32` lexes as one word and three modifiers.

use super::model::Span;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name: `%r1`, `$L__BB0`, `fma`, `_`.
    Word,
    /// A dot and what sticks to it: `.f32`, `.mbarrier::complete_tx::bytes`.
    Dot,
    /// A number as written, without its sign.
    Number,
    /// `"…"`.
    Text,
    /// One of `( ) { } [ ] < > , ; : + - ! | @ = ~ * / %`.
    Punct(u8),
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its kind.
    pub kind: TokenKind,
    /// Its bytes.
    pub span: Span,
}

/// A byte that starts no token, or a comment or string with no end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexError {
    /// What is wrong.
    pub message: String,
    /// Where.
    pub span: Span,
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

/// Splits `source` into tokens.
///
/// # Errors
/// The first byte that starts no token, or a block comment or string that does not end.
pub fn lex(source: &str) -> Result<Vec<Token>, LexError> {
    let bytes = source.as_bytes();
    if u32::try_from(bytes.len()).is_err() {
        return Err(LexError { message: "the text is longer than 4 GiB".into(), span: Span::default() });
    }
    let mut tokens = Vec::with_capacity(bytes.len() / 4);
    let mut at = 0;
    let scan = |from: usize, accept: fn(u8) -> bool| {
        from + bytes[from..].iter().position(|&byte| !accept(byte)).unwrap_or(bytes.len() - from)
    };
    let span = |start: usize, end: usize| Span { start: start as u32, end: end as u32 };
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        let next = bytes.get(at + 1).copied().unwrap_or(0);
        let kind = match byte {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => {
                at += 1;
                continue;
            }
            b'/' if next == b'/' => {
                at = scan(at, |byte| byte != b'\n');
                continue;
            }
            b'/' if next == b'*' => match source[at + 2..].find("*/") {
                Some(length) => {
                    at += length + 4;
                    continue;
                }
                None => {
                    return Err(LexError { message: "a block comment has no end".into(), span: span(at, at + 2) });
                }
            },
            b'.' if is_word(next) => {
                at = scan(at + 1, is_word);
                // `::` continues a modifier, as in `.shared::cta`.
                while bytes[at..].starts_with(b"::") && bytes.get(at + 2).is_some_and(|&byte| is_word(byte)) {
                    at = scan(at + 2, is_word);
                }
                TokenKind::Dot
            }
            b'"' => {
                at = scan(at + 1, |byte| byte != b'"' && byte != b'\n');
                if bytes.get(at) != Some(&b'"') {
                    return Err(LexError { message: "a string has no end".into(), span: span(start, at) });
                }
                at += 1;
                TokenKind::Text
            }
            b'0'..=b'9' => {
                at = lex_number(bytes, at);
                TokenKind::Number
            }
            _ if is_word_start(byte) && (byte != b'%' || is_word(next)) => {
                at = scan(at + 1, is_word);
                TokenKind::Word
            }
            b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'<' | b'>' | b',' | b';' | b':' | b'+' | b'-' | b'!' | b'|'
            | b'@' | b'=' | b'~' | b'*' | b'/' | b'%' => {
                at += 1;
                TokenKind::Punct(byte)
            }
            _ => {
                let character = source[at..].chars().next().unwrap_or('?');
                return Err(LexError {
                    message: format!("the character {character:?} starts nothing in PTX"),
                    span: span(at, at + character.len_utf8()),
                });
            }
        };
        tokens.push(Token { kind, span: span(start, at) });
    }
    Ok(tokens)
}

/// The end of the number that starts at `at`: an integer in any base with an optional `U`, `0f`/`0d` bits, or a decimal
/// fraction with an optional exponent.
fn lex_number(bytes: &[u8], at: usize) -> usize {
    let mut end = at;
    while end < bytes.len() && bytes[end].is_ascii_alphanumeric() {
        end += 1;
    }
    let digits_only = bytes[at..end].iter().all(u8::is_ascii_digit);
    if digits_only && bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end += 1;
        while end < bytes.len() && bytes[end].is_ascii_digit() {
            end += 1;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
                end += 1 + sign;
                while end < bytes.len() && bytes[end].is_ascii_digit() {
                    end += 1;
                }
            }
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        lex(source).unwrap().iter().map(|token| &source[token.span.start as usize..token.span.end as usize]).collect()
    }

    #[test]
    fn modifiers_numbers_and_comments() {
        assert_eq!(
            words("@!%p1 ld.shared::cta.v2.b32 {%r1,_}, [%rd1+-0x10]; // tail\n/* x */ 0f3F800000 1.5e-3 7U"),
            [
                "@",
                "!",
                "%p1",
                "ld",
                ".shared::cta",
                ".v2",
                ".b32",
                "{",
                "%r1",
                ",",
                "_",
                "}",
                ",",
                "[",
                "%rd1",
                "+",
                "-",
                "0x10",
                "]",
                ";",
                "0f3F800000",
                "1.5e-3",
                "7U"
            ]
        );
        assert_eq!(words(".version 8.7"), [".version", "8.7"]);
        assert_eq!(words("%tid.x"), ["%tid", ".x"]);
        assert_eq!(words("tcgen05.ld.16x256b"), ["tcgen05", ".ld", ".16x256b"]);
    }

    #[test]
    fn faults_are_located() {
        assert_eq!(lex("add ^").unwrap_err().span, Span { start: 4, end: 5 });
        assert!(lex("/* ").is_err());
        assert!(lex("\"abc\n").is_err());
    }
}
