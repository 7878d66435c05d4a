//! JSON without a tree: an incremental lexer, and strings.

mod lexer;
mod string;

pub use lexer::{JsonError, Lexer, MAX_DEPTH, Token, TokenKind};
pub use string::{StringError, push_escaped, unescape, unescape_into};

/// Whether the bytes are one JSON value by RFC 8259, nested no deeper than [`MAX_DEPTH`].
pub fn is_valid(bytes: &[u8]) -> bool {
    let mut lexer = Lexer::new();
    let mut at = 0;
    loop {
        match lexer.next(bytes, &mut at) {
            Ok(Some(_)) => {}
            Ok(None) => return lexer.finish().is_ok(),
            Err(_) => return false,
        }
    }
}

/// Whether an object has one of these members, by their names without escapes.
pub fn has_member(object: &[u8], names: &[&str]) -> bool {
    let mut lexer = Lexer::new();
    let mut at = 0;
    while let Ok(Some(token)) = lexer.next(object, &mut at) {
        let is_name = matches!(token.kind, TokenKind::Key(_)) && lexer.depth() == 1;
        if is_name && unescape(&object[token.start..token.end]).is_ok_and(|name| names.contains(&&*name)) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;
