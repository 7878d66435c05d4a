//! Which route a request belongs to.

use h1::RequestHead;

use super::Exchange;
use crate::config::{Condition, RouteId};
use crate::error::Reason;
use crate::policy::cors;
use crate::route::path::Target;
use crate::route::{Lookup, RouteMatch};

impl Exchange<'_> {
    /// Finds the route, which decides about all that follows. Also notes whether the request is a preflight of it.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find_route(&mut self) -> Result<RouteId, Reason> {
        self.look_up().map(|found| self.enter_route(found))
    }

    /// Whether the request is a preflight: the client wants to know what a cross-origin request to its route would be allowed to do.
    pub fn is_preflight(&self) -> bool {
        self.is_preflight
    }

    fn look_up(&mut self) -> Result<RouteMatch, Reason> {
        let buf = self.down.buffer.whole();
        let head = &self.scratch.request;
        let host = head.authority.map_or(&b""[..], |authority| authority.of_buf(buf));
        let table = self.snapshot.generation.table_of(&self.down.origin);
        let target = Target { path: &self.scratch.path, query: head.query.map(|query| query.of_buf(buf)) };
        // A preflight is about a route of another method. If that route has no cross-origin rules, it is an ordinary OPTIONS.
        if let Some(method) = cors::requested_method(head, buf)
            && let Some(found) = table.lookup_preflight(host, target, method)
        {
            self.is_preflight = true;
            return Ok(found);
        }
        table.check_lengths(target, |name| values(head, buf, name).map(<[u8]>::len).max().unwrap_or(0))?;
        let field_holds = |name: &str, condition: &Condition| condition.holds(values(head, buf, name));
        match table.lookup(host, target, head.method_name.of_buf(buf), field_holds) {
            Lookup::RouteMatch(found) => Ok(found),
            Lookup::NotFound => Err(Reason::NotFound),
            Lookup::MethodNotAllowed(allow) => {
                let mut methods = Vec::new();
                allow.write(&mut methods);
                self.allow = Some(methods);
                Err(Reason::MethodNotAllowed)
            }
        }
    }
}

/// The values of a field.
pub(super) fn values<'v>(head: &'v RequestHead, buf: &'v [u8], name: &'v str) -> impl Iterator<Item = &'v [u8]> {
    let is_named = move |found: &[u8]| found.eq_ignore_ascii_case(name.as_bytes());
    let named = head.fields.iter().filter(move |field| is_named(field.name.of_buf(buf)));
    named.map(|field| field.value.of_buf(buf))
}
