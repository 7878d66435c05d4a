//! A text that the client has, and how much of it another response has repeated.

use super::{Differs, MOST};

/// A text of a response.
#[derive(Debug, Default)]
pub(super) struct Text {
    has: String,
    /// Bytes that the response on its way has repeated.
    at: usize,
}

impl Text {
    /// Takes the next part of the text; returns what of it the client does not have.
    ///
    /// # Errors
    /// It is another text, or a very long one.
    pub(super) fn take<'t>(&mut self, part: &'t str) -> Result<&'t str, Differs> {
        let left = &self.has[self.at..];
        let new = if left.starts_with(part) { "" } else { part.strip_prefix(left).ok_or(Differs)? };
        if self.has.len() + new.len() > MOST {
            return Err(Differs);
        }
        self.at += part.len();
        self.has.push_str(new);
        Ok(new)
    }

    /// Whether all of it was repeated.
    pub(super) fn has_caught_up(&self) -> bool {
        self.at == self.has.len()
    }

    pub(super) fn restart(&mut self) {
        self.at = 0;
    }
}
