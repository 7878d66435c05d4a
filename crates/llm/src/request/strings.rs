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
pub struct StringsOf {
    strings: Strings,
    /// The name before is that of free data.
    is_free_next: bool,
    /// Containers that are open of what a tool is given or gives back: whatever their members are called, they are text.
    free: u32,
    /// The string is JSON by itself: the arguments of a call.
    pub is_json: bool,
}

impl Default for StringsOf {
    fn default() -> Self {
        StringsOf { strings: Strings::Text, is_free_next: false, free: 0, is_json: false }
    }
}

impl StringsOf {
    /// Whether a token is a string that people write, or a program in their place: no name, role, id, address or encoded data.
    pub fn is_text(&mut self, kind: TokenKind, raw: &[u8]) -> bool {
        match kind {
            TokenKind::Key(_) if self.free > 0 => {}
            TokenKind::Key(_) => {
                self.strings = Strings::under(raw);
                self.is_free_next = matches!(raw, b"input" | b"args" | b"response");
                self.is_json = raw == b"arguments";
            }
            TokenKind::ObjectStart | TokenKind::ArrayStart => {
                let is_free = self.free > 0 || std::mem::take(&mut self.is_free_next);
                self.free += u32::from(is_free);
            }
            TokenKind::ObjectEnd | TokenKind::ArrayEnd => {
                self.free = self.free.saturating_sub(1);
                self.strings = Strings::Text;
                self.is_json = false;
            }
            TokenKind::String(_) => return self.free > 0 || self.strings == Strings::Text,
            _ => {}
        }
        false
    }
}
