//! A text that the client has, and how much of it another response has repeated.

use super::{Differs, Room};

/// A text of a response.
#[derive(Debug, Clone, Default)]
pub(super) struct Text {
    has: String,
    /// Bytes that the response on its way has repeated.
    at: usize,
}

impl Text {
    /// Takes the next part of the text; returns what of it the client does not have.
    ///
    /// # Errors
    /// It is another text, or there is no room for it.
    pub(super) fn take<'t>(&mut self, part: &'t str, room: &mut Room) -> Result<&'t str, Differs> {
        let left = &self.has[self.at..];
        let new = if left.starts_with(part) { "" } else { part.strip_prefix(left).ok_or(Differs)? };
        room.take(new.len())?;
        self.at += part.len();
        self.has.push_str(new);
        Ok(new)
    }

    /// All that the client has.
    pub(super) fn as_str(&self) -> &str {
        &self.has
    }

    /// Another response begins, with what comes behind this text.
    pub(super) fn restart_behind(&mut self) {
        self.at = self.has.len();
    }

    /// Whether all of it was repeated.
    pub(super) fn has_caught_up(&self) -> bool {
        self.at == self.has.len()
    }

    /// Another response begins; whether it has something to repeat.
    pub(super) fn restart(&mut self) -> bool {
        self.at = 0;
        !self.has.is_empty()
    }
}
