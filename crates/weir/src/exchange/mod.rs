//! One HTTP/1.1 exchange: both sides, their bodies and their timeouts. `LIFECYCLE.md` beside this file describes the life of a
//! connection.

mod affinity;
pub mod ahead;
pub mod ai;
mod authenticate;
pub mod cached;
mod changed;
mod checks;
pub mod coded;
pub mod contract;
pub mod delivery;
mod failure;
mod fault;
mod find;
pub mod forged;
pub mod forward;
pub mod grpc;
mod https;
pub mod intake;
mod local;
mod mirror;
mod overtime;
mod pages;
pub mod proxy;
pub mod pump;
mod queue_entry;
mod record;
pub mod refresh;
pub mod request_id;
pub mod server_timing;
mod stall;
pub mod subrequest;
mod trailers;
pub mod tunnel;
pub mod upstream_exchange;
mod variables;
mod way;

use std::rc::Rc;
use std::sync::Arc;

use ::auth::Identity;
use h1::{BodyKind, Expect, Method, TargetForm};

use crate::client::downstream::Downstream;
use crate::client::origin::HttpsHosts;

use crate::config::{RouteAuth, RouteId};
use crate::error::{Error, Reason};
use crate::http::response::{Framing, Prepared};
use crate::policy::auth::Denied;
use crate::policy::cors;
use crate::route::RouteMatch;
use crate::route::path;
use crate::runtime::clock;
use crate::runtime::wakeups::Waiting;
use crate::worker::snapshot::Snapshot;
use crate::worker::{Scratch, Worker};
use cached::CacheSide;
use changed::Changed;
use forged::strip_forged_headers;
use pages::Replaced;
use pump::Pump;
use record::Journal;
pub use record::Recorded;
use stall::Stalls;

/// What happens to a client connection after an exchange.
#[derive(Debug)]
pub enum Next {
    /// The next request may come.
    KeepAlive,
    /// The next request may come after the rest of this one's body, which nobody wants.
    Drain(Box<Pump>),
    /// Close, at once if everything that the client sent was read.
    Close,
    /// Close, but first read what the client is still sending, so that the response reaches it.
    Linger,
    /// Reset: the response broke off and must not pass for a complete one.
    Abort,
}

/// How much of the response to the client was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendState {
    /// Nothing was sent; an error response is still possible.
    None,
    /// Part of it was sent.
    Begun,
    /// All of it was sent.
    Complete,
}

/// A request body that is not read when the response is sent may have so many bytes left for the connection to live on.
const DRAINED_BYTES: u64 = 64 * 1024;

/// One request on its way through the gateway.
pub struct Exchange<'w> {
    /// The worker that it runs on.
    worker: &'w Worker,
    /// The configuration that it began with.
    snapshot: Rc<Snapshot>,
    /// The client's connection; the head lies at the front of its buffer until the exchange ends.
    down: &'w mut Downstream,
    /// Working memory.
    scratch: &'w mut Scratch,
    /// The route, once it is found.
    route: Option<RouteId>,
    /// What the route's pattern matched of the path.
    found: RouteMatch,
    /// `Allow` of a 405.
    allow: Option<Vec<u8>>,
    /// Who sends the request, once that is known.
    identity: Option<Arc<Identity>>,
    /// `WWW-Authenticate` lines of a request that is refused.
    challenges: Vec<u8>,
    /// The response of an authorizer that does not let the request pass.
    denied: Option<Box<Denied>>,
    /// What authorizers change of the request and its response.
    changed: Option<Box<Changed>>,
    /// What remains of an upstream's error that a page takes the place of.
    replaced: Option<Box<Replaced>>,
    /// When a refused request may come again, in seconds.
    retry_after: Option<u64>,
    /// What is wrong with the request by the description of its route, as JSON.
    violations: Vec<u8>,
    /// Whether the request is a CORS preflight.
    is_preflight: bool,
    /// Whether this is the connection's last exchange.
    close: bool,
    send_state: SendState,
    /// Counts as a request that waits, until its response begins.
    waits: Option<Waiting>,
    /// The request's body: the one decoder of it, from its first byte to its last.
    body: Pump,
    /// Who keeps it waiting.
    stalls: Stalls,
    /// The rest of the body is read after the response, and the connection lives on.
    drains: bool,
    /// Whether a 100 (Continue) was sent, so that the client sends its body.
    continued: bool,
    aborts: bool,
    /// The end of the connection says that the response is complete.
    ends_with_connection: bool,
    /// The exchange's part in a cache.
    cache: CacheSide,
    /// The response of a gRPC call that is made again.
    spared: Option<Box<proxy::Spared>>,
    /// The client of a gRPC call waits no longer than the gateway would.
    has_own_deadline: bool,
    /// The response goes out in chunks, to a client that takes trailers.
    may_end_with_trailers: bool,
    /// What is known of a call of an AI model.
    ai: Option<Box<ai::Record>>,
    log: Journal,
}

impl<'w> Exchange<'w> {
    /// An exchange for the request whose head is in `scratch`. Inlined, as it is large: it is made where it stays.
    #[inline(always)]
    pub fn begin(worker: &'w Worker, down: &'w mut Downstream, scratch: &'w mut Scratch) -> Self {
        let snapshot = worker.snapshot.borrow().clone();
        let is_last = down.life.take(clock::loop_ns());
        let close = !scratch.request.keep_alive || worker.draining.get() || down.origin.is_closed() || is_last;
        let kind = scratch.request.body;
        scratch.request_id.clear();
        scratch.logged_target.clear();
        scratch.response_lines.clear();
        scratch.identity_lines.clear();
        scratch.trace.clear();
        Exchange {
            worker,
            snapshot,
            down,
            scratch,
            route: None,
            found: RouteMatch { route: RouteId(0), fixed_len: 0, rest_at: 0 },
            allow: None,
            identity: None,
            challenges: Vec::new(),
            denied: None,
            changed: None,
            replaced: None,
            retry_after: None,
            violations: Vec::new(),
            is_preflight: false,
            close,
            send_state: SendState::None,
            waits: Some(Waiting::begin()),
            body: Pump::new(kind, kind, None),
            stalls: Stalls::new(clock::loop_ns()),
            drains: false,
            continued: false,
            aborts: false,
            ends_with_connection: false,
            cache: CacheSide::default(),
            spared: None,
            has_own_deadline: false,
            may_end_with_trailers: false,
            ai: None,
            log: Journal { started_ns: clock::loop_ns(), ..Journal::default() },
        }
    }

    /// The configuration that it began with.
    #[inline]
    pub fn snapshot(&self) -> Rc<Snapshot> {
        self.snapshot.clone()
    }

    /// Where requests of the listener are redirected to, if that is all that it does.
    #[inline]
    pub fn https_hosts(&self) -> Option<Arc<HttpsHosts>> {
        self.down.origin.redirects()
    }

    /// Whether it is `OPTIONS *`, or its form for a proxy: a URL without path and query (RFC 9112 section 3.2.4).
    pub fn is_about_the_gateway(&self) -> bool {
        let request = &self.scratch.request;
        match request.form {
            TargetForm::Asterisk => true,
            TargetForm::Absolute => {
                request.method == Method::Options
                    && request.query.is_none()
                    && request.path.of_buf(self.down.buffer.whole()).is_empty()
            }
            _ => false,
        }
    }

    /// Puts the path into its one form.
    ///
    /// # Errors
    /// When it has two readings.
    pub fn normalise_path(&mut self) -> Result<(), Error> {
        let request = &self.scratch.request;
        let path = match (request.form, request.path.of_buf(self.down.buffer.whole())) {
            // RFC 9112 section 3.2.1: no path in an absolute form means the root.
            (TargetForm::Absolute, b"") => b"/",
            (_, path) => path,
        };
        self.scratch.path.clear();
        match path::normalise_by(self.snapshot.config().server.path, path, &mut self.scratch.target) {
            Ok(target) => {
                self.scratch.path.extend_from_slice(target.path);
                Ok(())
            }
            Err(refusal) => Err(Error::new(Reason::BadPath, refusal.text())),
        }
    }

    /// Determines who sends the request, and removes the fields that this client may not set.
    pub fn identify_client(&mut self) {
        let buf = self.down.buffer.whole();
        let config = self.snapshot.config();
        self.down.client.identify(&self.scratch.request.fields, buf, &config.trusted_proxies);
        self.strip_forged_headers();
    }

    /// Takes out what this client may not say.
    fn strip_forged_headers(&mut self) {
        let buf = self.down.buffer.whole();
        let config = self.snapshot.config();
        let is_trusted = self.down.client.peer_is_trusted;
        let fields = &mut self.scratch.request.fields;
        let identity = &self.snapshot.auth.shared().forged;
        let decisive = &self.snapshot.generation.decisive_fields;
        strip_forged_headers(
            fields,
            buf,
            is_trusted,
            &config.request_id,
            &config.untrusted_headers,
            identity,
            decisive,
        );
    }

    /// Decides whether the request is traced, and takes the client's part of its trace context out of it.
    pub fn begin_trace(&mut self) {
        if let Some(recorder) = &*self.worker.traces.borrow() {
            let Scratch { trace, request, .. } = &mut *self.scratch;
            let is_trusted = self.down.client.peer_is_trusted;
            recorder.begin(trace, &mut request.fields, self.down.buffer.whole(), is_trusted, || self.worker.random());
        }
    }

    /// Keeps a request that the gateway makes by itself out of the trace of the client whose request it repeats.
    fn leave_trace(&mut self) {
        if self.worker.traces.borrow().is_some() {
            let Scratch { trace, request, .. } = &mut *self.scratch;
            trace.drop_context(&mut request.fields, self.down.buffer.whole());
        }
    }

    /// Begins the lines that every response has, whoever makes it: the id of the request.
    pub fn begin_response_lines(&mut self) {
        self.scratch.response_lines.clear();
        if self.snapshot.config().server.returns_request_id {
            self.ensure_request_id();
            let Scratch { response_lines, request_id, .. } = &mut *self.scratch;
            forward::write_request_id(response_lines, (&self.snapshot.config().request_id, request_id));
        }
    }

    /// The route is found.
    fn enter_route(&mut self, found: RouteMatch) -> RouteId {
        self.route = Some(found.route);
        self.found = found;
        if let Some(cors) = &self.snapshot.config().routes[found.route.0].cors {
            cors::write_response_fields(
                &mut self.scratch.response_lines,
                cors,
                &self.scratch.request,
                self.down.buffer.whole(),
            );
        }
        if !self.snapshot.config().routes[found.route.0].headers.response.templates.is_empty() {
            self.write_variable_response_lines(found.route);
        }
        found.route
    }

    /// Query of the request, without `?`.
    pub fn query(&self) -> Option<&[u8]> {
        changed::query(self.changed.as_deref(), &self.scratch.request, self.down.buffer.whole())
    }

    /// Whether the client waits for a 100 (Continue) before it sends its body (RFC 9110 section 10.1.1). One that has begun to send it does not.
    fn expects_continue(&self) -> bool {
        self.scratch.request.expect == Expect::Continue
            && !self.continued
            && !self.body.has_read_all()
            && self.down.buffer.is_empty()
    }

    /// Sends a fixed response.
    ///
    /// # Errors
    /// When the client does not take it.
    async fn response(&mut self, prepared: &Prepared) -> Result<(), Error> {
        self.skip_body();
        let framing = self.framing();
        prepared.write(&mut self.down.out.bytes, &self.scratch.response_lines, framing);
        self.log.status = prepared.status;
        self.flush_response().await
    }

    /// What the route, or the gateway when there is none, demands of who sends the request.
    pub fn demanded<'s>(&self, snapshot: &'s Snapshot) -> &'s RouteAuth {
        match self.route {
            Some(route) => &snapshot.config().routes[route.0].auth,
            None => &snapshot.config().gateway_auth,
        }
    }

    /// Whether the request is a gRPC call, whose errors are a status of its own.
    fn is_grpc(&self) -> bool {
        grpc::is_call(&self.scratch.request, self.down.buffer.whole())
    }

    fn framing(&self) -> Framing {
        let request = &self.scratch.request;
        Framing { head_only: request.method == Method::Head, version: request.version, close: self.close }
    }

    /// From now on the client gets a response: no other can be given, and streams and tunnels wait for nothing any more.
    fn start_response(&mut self) {
        self.send_state = SendState::Begun;
        self.waits = None;
        if self.changed.is_some() {
            self.change_response();
        }
    }

    /// Closes the connection behind a response whose body has no framing of its own. Until it is complete, any end of the connection is a reset,
    /// whatever the cause: the end of a drain, of the process, or a panic must not make a part look like the whole.
    fn frame_by_close(&mut self, framing: BodyKind) {
        if framing == BodyKind::UntilClose {
            self.close = true;
            self.ends_with_connection = true;
            self.down.stream.abort();
        }
    }

    async fn flush_response(&mut self) -> Result<(), Error> {
        self.start_response();
        self.log.response_bytes += self.down.out.bytes.len() as u64;
        let idle = self.snapshot.config().server.body_idle_timeout;
        self.down.send(&[], idle).await.map_err(|_| Error::from(Reason::ClientDisconnected))?;
        self.send_state = SendState::Complete;
        Ok(())
    }

    /// Drops a body that the gateway has no use for, as far as it is here already. If the rest is small it is read after the response;
    /// else the connection closes (rule 17 of the safety rules: it is never parsed as a request).
    fn skip_body(&mut self) {
        match (self.body.skip(&mut self.down.buffer), self.body.remaining()) {
            (Ok(true), _) => {}
            // Whoever waits for a 100 will not send it now.
            (Ok(false), Some(rest)) if rest <= DRAINED_BYTES && !self.expects_continue() => self.drains = true,
            _ => self.close = true,
        }
    }

    /// Records the exchange and says what happens to the connection: it goes on only where the end of the body is known.
    pub fn finish(&mut self) -> Next {
        self.record();
        self.scratch.limits.release();
        if self.aborts || self.send_state != SendState::Complete {
            if let Some(error) = self.log.error {
                self.down.stream.note_failure(error.reason);
            }
            return Next::Abort;
        }
        if self.ends_with_connection {
            self.down.stream.end_in_order();
        }
        match self.body.skip(&mut self.down.buffer) {
            Ok(true) if self.close => Next::Close,
            Ok(true) => Next::KeepAlive,
            Ok(false) if self.drains && !self.close => Next::Drain(Box::new(std::mem::replace(
                &mut self.body,
                Pump::new(BodyKind::None, BodyKind::None, None),
            ))),
            _ => Next::Linger,
        }
    }
}
