//! Responses that the gateway makes by itself: fixed ones, redirects, its own documents, preflights.

use h1::encode;

use super::Exchange;
use crate::config::{Builtin, Redirect, RouteId};
use crate::error::{Error, Reason};
use crate::http::response::Prepared;
use crate::policy::cors;
use crate::route::path::Target;
use crate::route::rewrite::{RequestOrigin, changed_location, location as location_of};
use crate::worker::healthz::write_cachez;

/// Methods that routes may take by their own names; others pass too where a route names them, or none.
const METHODS: &[u8] = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

impl Exchange<'_> {
    /// Says which methods there are.
    ///
    /// # Errors
    /// When the client does not take it.
    pub async fn serve_methods(&mut self) -> Result<(), Error> {
        self.log.own = Some("The gateway says which methods it takes");
        let mut fields = Vec::new();
        encode::field(&mut fields, b"Allow", METHODS);
        self.response(&Prepared::new(204, None, &fields, b"")).await
    }

    /// Says what a cross-origin request to the route is allowed to do.
    ///
    /// # Errors
    /// When the client does not take it.
    pub async fn serve_preflight(&mut self, route: RouteId) -> Result<(), Error> {
        self.log.own = Some("The request is the preflight of a cross-origin request");
        let snapshot = self.snapshot.clone();
        let fields = match &snapshot.config().routes[route.0].cors {
            Some(cors) => cors::preflight_fields(cors, &self.scratch.request, self.down.buffer.whole()),
            None => Vec::new(),
        };
        // A preflight has nothing of what the responses of its route have, but for the id.
        self.begin_response_lines();
        self.response(&Prepared::new(204, None, &fields, b"")).await
    }

    /// Sends the fixed response of the route.
    ///
    /// # Errors
    /// When the client does not take it.
    pub async fn serve_fixed(&mut self, route: RouteId) -> Result<(), Error> {
        self.log.own = Some("The route has a fixed response");
        let snapshot = self.snapshot.clone();
        match &snapshot.routes[route.0].prepared {
            Some(prepared) => self.response(prepared).await,
            None => Err(Reason::Panic.into()),
        }
    }

    /// Sends the client where the route leads.
    ///
    /// # Errors
    /// When the client does not take it.
    pub async fn redirect(&mut self, redirect: &Redirect, route: RouteId) -> Result<(), Error> {
        self.log.own = Some("The route redirects");
        let mut location = Vec::new();
        let target = Target { path: &self.scratch.path, query: self.query() };
        match &redirect.parts {
            None => location_of(&mut location, redirect, self.found, target),
            Some(parts) => {
                let authority = self.scratch.request.authority.map(|one| one.of_buf(self.down.buffer.whole()));
                let origin =
                    RequestOrigin { scheme: self.down.client.scheme(), authority: authority.unwrap_or_default() };
                changed_location(&mut location, parts, origin, self.found, target);
            }
        }
        let snapshot = self.snapshot.clone();
        let edits = &snapshot.config().routes[route.0].headers.response;
        let fields = [("Location", &*location)];
        self.response(&Prepared::edited(redirect.status, None, &fields, b"", edits)).await
    }

    /// Sends a document about the gateway itself.
    ///
    /// # Errors
    /// When there is none, or the client does not take it.
    pub async fn serve_builtin(&mut self, builtin: Builtin, route: RouteId) -> Result<(), Error> {
        self.log.own = Some("The route has a document of the gateway");
        let shared = &self.worker.shared;
        let (status, body) = match builtin {
            Builtin::Healthz => (if shared.is_ready() { 200 } else { 503 }, shared.healthz()),
            Builtin::Cachez => match shared.cachez() {
                Some(counts) => {
                    let mut document = Vec::new();
                    write_cachez(&mut document, &counts);
                    (200, document)
                }
                None => return Err(Error::new(Reason::NotFound, "no cache is configured")),
            },
        };
        let snapshot = self.snapshot.clone();
        let edits = &snapshot.config().routes[route.0].headers.response;
        self.response(&Prepared::edited(status, Some("application/json"), &[], &body, edits)).await
    }
}
