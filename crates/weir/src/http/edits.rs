//! Fields that routes edit, and what a head says of its connection.

use h1::{Known, Version, encode};

use crate::config::Edits;

/// Appends what the client must know about the connection's life.
#[inline]
pub fn write_connection(out: &mut Vec<u8>, version: Version, close: bool) {
    if close {
        encode::connection_close(out);
    } else if version == Version::Http10 {
        encode::field(out, b"Connection", b"keep-alive");
    }
}

/// Fields that the route sets or removes, also under names that a careless server would take for the same.
pub fn is_edited(edits: &Edits, name: &[u8]) -> bool {
    edits.remove.iter().any(|removed| Known::is_alias(name, removed.as_bytes()))
        || edits.set.iter().any(|(set, _)| Known::is_alias(name, set.as_bytes()))
}

/// Appends the fields that the route sets or adds.
pub fn write_edits(out: &mut Vec<u8>, edits: &Edits) {
    for (name, value) in edits.set.iter().chain(&edits.add) {
        encode::field(out, name.as_bytes(), value.as_bytes());
    }
}
