//! What is checked before a request goes anywhere, apart from who sends it.

use auth::Identity;
use h1::{BodyKind, Expect, Method, RequestHead};

use super::Exchange;
use crate::client::downstream::Downstream;
use crate::config::RouteId;
use crate::error::{Error, Reason};
use crate::http::websocket;
use crate::observe::metrics::NONE;
use crate::policy::limit::{self, LimitInput, Refusal, Stage, Verdict};
use crate::worker::snapshot::Snapshot;

/// What limits, and queues that are fair, look at. Of parts of an exchange, so that its working memory can be used beside it.
pub(super) fn input<'a>(
    head: &'a RequestHead,
    down: &'a Downstream,
    identity: Option<&'a Identity>,
    route: &'a str,
    model: Option<&'a str>,
) -> LimitInput<'a> {
    let client = &down.client;
    LimitInput {
        head,
        buf: down.buffer.whole(),
        client: client.address,
        peer_is_trusted: client.peer_is_trusted,
        route,
        identity,
        model,
    }
}

impl Exchange<'_> {
    /// Refuses a request for a host that the connection's handshake was not made for (RFC 9110 section 15.5.20), and of a client whose handshake
    /// would fail by now.
    ///
    /// # Errors
    /// 421.
    pub fn check_host(&mut self) -> Result<(), Error> {
        let Some(tls) = &self.down.client.tls else { return Ok(()) };
        if !tls.is_still_accepted(&self.down.origin) {
            self.close = true;
            return Err(Error::new(
                Reason::Misdirected,
                "the certificate of this client, or the lack of one, is not accepted any more; connect again",
            ));
        }
        match self.scratch.request.authority.map(|authority| authority.of_buf(self.down.buffer.whole())) {
            Some(authority) if !tls.may_carry(authority) => Err(Error::new(
                Reason::Misdirected,
                "the certificate of this connection is not for this host; connect again for it",
            )),
            _ => Ok(()),
        }
    }

    /// Refuses TRACE with content (RFC 9110 section 9.3.8), and TRACE where the route does not name it: its response shows the client what the
    /// gateway and others added to the request.
    ///
    /// # Errors
    /// 400 or 405.
    pub fn check_trace(&mut self, route: RouteId) -> Result<(), Error> {
        if self.scratch.request.method != Method::Trace {
            return Ok(());
        }
        if self.snapshot.config().routes[route.0].matcher.methods.is_empty() {
            self.allow = Some(b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS".to_vec());
            return Err(Error::new(Reason::MethodNotAllowed, "the route does not name TRACE"));
        }
        if self.scratch.request.body != BodyKind::None {
            return Err(Error::new(Reason::BadRequest, "TRACE with content (RFC 9110 9.3.8)"));
        }
        Ok(())
    }

    /// Refuses a WebSocket of HTTP/2 where the route lets none through.
    ///
    /// # Errors
    /// Where the route has no `upgrade: [websocket]`.
    #[inline]
    pub fn check_tunnel(&self, route: RouteId) -> Result<(), Error> {
        let allows = || self.snapshot.config().routes[route.0].action.allows_upgrade(websocket::NAME);
        if self.down.stream.is_tunnel() && !allows() {
            return Err(Error::new(Reason::NoTunnel, "the route has no `upgrade: [websocket]`"));
        }
        Ok(())
    }

    /// Refuses expectations that nobody can meet (RFC 9110 section 10.1.1).
    ///
    /// # Errors
    /// 417.
    pub fn check_expectation(&self) -> Result<(), Error> {
        if self.scratch.request.expect == Expect::Unknown { Err(Reason::ExpectationFailed.into()) } else { Ok(()) }
    }

    /// Refuses a body that says that it is too large.
    ///
    /// # Errors
    /// 413.
    pub fn check_body_length(&self) -> Result<(), Error> {
        match (self.scratch.request.body, self.body_limit()) {
            (BodyKind::Length(length), Some(limit)) if length > limit => Err(Reason::BodyTooLarge.into()),
            _ => Ok(()),
        }
    }

    /// Most bytes that the body may have.
    pub fn body_limit(&self) -> Option<u64> {
        let config = self.snapshot.config();
        self.route.and_then(|route| config.routes[route.0].body_bytes).or(config.server.body_bytes)
    }

    /// Whether the route, or the gateway when there is none, has rate limits.
    #[inline]
    pub fn has_limits(&self, snapshot: &Snapshot) -> bool {
        !self.route.map_or(&snapshot.unmatched_limits, |route| &snapshot.routes[route.0].limits).is_empty()
    }

    /// Checks the rate limits of the route, or of the gateway when there is none; `Some` is the response to send instead.
    ///
    /// # Errors
    /// When a limit cannot be checked and says that the request must not pass then.
    pub async fn check_limits<'s>(
        &mut self,
        snapshot: &'s Snapshot,
        stage: Stage,
    ) -> Result<Option<Refusal<'s>>, Error> {
        let (limits, name) = match self.route {
            Some(route) => (&snapshot.routes[route.0].limits, &*snapshot.config().routes[route.0].name),
            None => (&snapshot.unmatched_limits, NONE),
        };
        if limits.is_empty() {
            return Ok(None);
        }
        let input = input(&self.scratch.request, self.down, self.identity.as_deref(), name, None);
        let verdict = limit::check(&mut self.scratch.limits, &snapshot.limits, limits, stage, &input).await?;
        if verdict == Verdict::Allowed && stage != Stage::Early {
            self.scratch.limits.write_fields(&mut self.scratch.response_lines, &snapshot.limits, limits);
        }
        Ok(Refusal::of(verdict, &snapshot.limits))
    }

    /// Whether the address may use the route.
    ///
    /// # Errors
    /// 403.
    pub fn check_address(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let Some(route) = self.route else { return Ok(()) };
        let allow = &snapshot.config().routes[route.0].allow;
        if allow.has_addresses() && allow.rules.admits_address(self.down.client.address.ip()).is_err() {
            return Err(Reason::IpDenied.into());
        }
        Ok(())
    }
}
