//! Which fields lines of the access log have.

use std::sync::Arc;

use super::LOG_FIELDS;

/// Which fields lines have beside the usual ones, and which they do not have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogFields {
    /// Fields of [`LOG_FIELDS`] that are left out.
    pub dropped: FieldSet,
    /// Fields of requests that are added; at most [`LogFields::MOST_ADDED`].
    pub added: Arc<[LoggedHeader]>,
}

impl LogFields {
    /// How many fields of requests lines can have.
    pub const MOST_ADDED: usize = 8;
    /// The longest name of such a field.
    pub const LONGEST_NAME: usize = 64;
}

/// A field of requests that lines have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedHeader {
    /// Its name, in lower case.
    pub name: Arc<str>,
    /// Name of the field in lines: `header_x_tenant` of `x-tenant`.
    pub field: Arc<str>,
}

impl LoggedHeader {
    /// Of a field of requests. What is neither letter nor digit is `_` in the name of the line's field.
    pub fn new(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let field = format!("header_{}", name.replace(|char: char| !char.is_ascii_alphanumeric(), "_"));
        LoggedHeader { name: name.into(), field: field.into() }
    }
}

/// A set of fields of [`LOG_FIELDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldSet(u128);

impl FieldSet {
    /// Place of a field in [`LOG_FIELDS`]; `None` if there is no such field.
    pub const fn index(name: &str) -> Option<u32> {
        let mut at = 0;
        while at < LOG_FIELDS.len() {
            if is_same(LOG_FIELDS[at].as_bytes(), name.as_bytes()) {
                return Some(at as u32);
            }
            at += 1;
        }
        None
    }

    /// Adds the field with this [index](FieldSet::index).
    pub fn insert(&mut self, index: u32) {
        self.0 |= 1 << index;
    }

    /// Whether the field with this index is in it.
    #[inline]
    pub const fn contains(self, index: u32) -> bool {
        self.0 >> index & 1 != 0
    }
}

const _: () = assert!(LOG_FIELDS.len() <= 128);

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_has_an_index_of_its_own() {
        let mut set = FieldSet::default();
        for (at, name) in LOG_FIELDS.iter().enumerate() {
            let index = FieldSet::index(name).unwrap();
            assert_eq!(index as usize, at);
            assert!(!set.contains(index));
            set.insert(index);
            assert!(set.contains(index));
        }
        assert_eq!(FieldSet::index("ai"), None);
        assert_eq!(&*LoggedHeader::new("X-Tenant.Id").field, "header_x_tenant_id");
    }
}
