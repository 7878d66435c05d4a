//! What policies change in a head.

use crate::{Field, Fields, Known, Limits, Span};

/// Changes of a head: fields removed and added, and other values for its authority, target or status. The head itself and its arena
/// stay as they were received. Reused from message to message; [`Overlay::is_empty`] is the one branch of a message without changes.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    /// One bit for each field of the head.
    removed: [u64; Limits::MAX_FIELDS / 64],
    /// Arena of what was added.
    text: Vec<u8>,
    added: Fields,
    authority: Option<Span>,
    target: Option<Span>,
    status: Option<u16>,
    is_changed: bool,
}

/// A name that is not a token: nothing was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidName;

impl Overlay {
    /// Whether nothing is changed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.is_changed
    }

    /// Forgets all changes; memory stays.
    pub fn clear(&mut self) {
        if !self.is_changed {
            return;
        }
        self.removed = [0; Limits::MAX_FIELDS / 64];
        self.text.clear();
        self.added.clear();
        self.authority = None;
        self.target = None;
        self.status = None;
        self.is_changed = false;
    }

    /// Adds a field line behind those of the head. Bytes that have no place in a value are left out.
    ///
    /// # Errors
    /// The name is not a token.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), InvalidName> {
        if !self.added.append(&mut self.text, name, value) {
            return Err(InvalidName);
        }
        self.is_changed = true;
        Ok(())
    }

    /// Removes the head's field with this index.
    pub fn remove(&mut self, index: usize) {
        if let Some(word) = self.removed.get_mut(index / 64) {
            *word |= 1 << (index % 64);
            self.is_changed = true;
        }
    }

    /// Removes all fields of a name, in the head and among those added. `text` is the arena of `fields`.
    pub fn remove_all(&mut self, fields: &Fields, text: &[u8], name: &[u8]) {
        let known = Known::of(name);
        let is_same = |field: &Field, text: &[u8]| match known {
            Known::Other => text.get(field.name.range()).is_some_and(|other| other.eq_ignore_ascii_case(name)),
            _ => field.known == known,
        };
        if fields.contains(known) {
            for (index, _) in fields.iter().enumerate().filter(|(_, field)| is_same(field, text)) {
                self.remove(index);
            }
        }
        if self.added.contains(known) {
            let added = std::mem::take(&mut self.added);
            for field in added.iter().filter(|field| !is_same(field, &self.text)) {
                self.added.push(*field);
            }
        }
    }

    /// Replaces all fields of a name by one.
    ///
    /// # Errors
    /// The name is not a token; nothing is changed then.
    pub fn set(&mut self, fields: &Fields, text: &[u8], name: &[u8], value: &[u8]) -> Result<(), InvalidName> {
        if !crate::validate::is_token(name) {
            return Err(InvalidName);
        }
        self.remove_all(fields, text, name);
        self.add(name, value)
    }

    /// Replaces the authority. One that is not `host[:port]` is refused.
    pub fn set_authority(&mut self, authority: &[u8]) -> bool {
        let is_valid = crate::validate::is_authority(authority);
        if is_valid {
            self.authority = Some(self.write(authority));
        }
        is_valid
    }

    /// Replaces path and query. A target with other bytes than visible ASCII without `#` is refused.
    pub fn set_target(&mut self, target: &[u8]) -> bool {
        let is_valid =
            target.first() == Some(&b'/') && target.iter().all(|&byte| crate::validate::is_target_byte(byte));
        if is_valid {
            self.target = Some(self.write(target));
        }
        is_valid
    }

    /// Replaces the status of a response.
    pub fn set_status(&mut self, status: u16) {
        self.status = Some(status);
        self.is_changed = true;
    }

    fn write(&mut self, bytes: &[u8]) -> Span {
        let start = self.text.len();
        self.text.extend_from_slice(bytes);
        self.is_changed = true;
        Span::new(start, self.text.len())
    }

    /// Whether the head's field with this index is removed.
    #[inline]
    pub(crate) fn is_removed(&self, index: usize) -> bool {
        self.removed.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    pub(crate) fn added(&self) -> &Fields {
        &self.added
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(crate) fn authority(&self) -> Option<&[u8]> {
        self.authority.map(|span| span.of_buf(&self.text))
    }

    pub(crate) fn target(&self) -> Option<&[u8]> {
        self.target.map(|span| span.of_buf(&self.text))
    }

    pub(crate) fn status(&self) -> Option<u16> {
        self.status
    }
}

#[cfg(test)]
mod tests;
