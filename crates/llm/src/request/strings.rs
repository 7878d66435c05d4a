//! What the strings of a prompt are, by the names that they are under.

use crate::json::TokenKind;

/// What the strings under a name are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strings {
    Text,
    /// `type`: says what its object is.
    Kind,
    /// Roles and ids: part of the fixed cost of a message.
    Fixed,
    /// Encoded bytes or addresses, counted as images if at all.
    Data,
}

impl Strings {
    /// Under this name, which may have escapes: of those names only plain ones are known.
    pub(super) fn under(name: &[u8]) -> Self {
        match name {
            b"type" => Strings::Kind,
            b"role" | b"id" | b"tool_call_id" | b"tool_use_id" | b"media_type" | b"mimeType" | b"mime_type" => {
                Strings::Fixed
            }
            b"data" | b"file_data" | b"url" | b"image_url" | b"fileUri" | b"file_uri" | b"signature" => Strings::Data,
            _ => Strings::Text,
        }
    }
}

/// Follows the tokens of a prompt.
#[derive(Debug)]
pub struct StringsOf(Strings);

impl Default for StringsOf {
    fn default() -> Self {
        StringsOf(Strings::Text)
    }
}

impl StringsOf {
    /// Whether a token is a string that people write, or a program in their place: no name, role, id, address or encoded data.
    pub fn is_text(&mut self, kind: TokenKind, raw: &[u8]) -> bool {
        match kind {
            TokenKind::Key(_) => self.0 = Strings::under(raw),
            TokenKind::ObjectEnd | TokenKind::ArrayEnd => self.0 = Strings::Text,
            TokenKind::String(_) => return self.0 == Strings::Text,
            _ => {}
        }
        false
    }
}
