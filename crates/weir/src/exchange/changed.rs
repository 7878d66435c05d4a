//! A request as an authorizer changed it: what comes after authentication and limits sees the changed one, the access log what the client sent.

use h1::RequestHead;

use super::Exchange;
use crate::policy::auth::Changes;

/// Changes that are in force.
#[derive(Debug, Clone, Default)]
pub(super) struct Changed {
    pub(super) changes: Changes,
    /// The query in place of the client's; none inside where there is none any more.
    query: Option<Option<Vec<u8>>>,
}

/// The query of a request, as it is after changes.
#[inline]
pub(super) fn query<'a>(changed: Option<&'a Changed>, head: &RequestHead, buf: &'a [u8]) -> Option<&'a [u8]> {
    match changed.and_then(|changed| changed.query.as_ref()) {
        Some(query) => query.as_deref(),
        None => head.query.map(|query| query.of_buf(buf)),
    }
}

impl Exchange<'_> {
    /// Makes the changes that authorizers want of the request.
    #[inline]
    pub fn apply_changes(&mut self) {
        if self.changed.is_some() {
            self.change_request();
        }
    }

    #[cold]
    fn change_request(&mut self) {
        let Some(changed) = &mut self.changed else { return };
        let buf = self.down.buffer.whole();
        let request = &mut self.scratch.request;
        if !changed.changes.removes.is_empty() {
            request.fields.retain(|field| !changed.changes.removes_field(field.known, field.name.of_buf(buf)));
        }
        changed.query = changed.changes.query(request.query.map(|query| query.of_buf(buf)));
    }

    /// Makes the changes that authorizers want of the response, whose head is written.
    #[cold]
    pub(super) fn change_response(&mut self) {
        if let Some(changed) = &self.changed {
            changed.changes.edit_response(&mut self.down.out.bytes);
        }
    }
}
