//! One HTTP/1.1 exchange: both sides, their bodies and their timeouts. The life of a connection is told in `LIFECYCLE.md` beside
//! this file.

pub mod ahead;
pub mod ai;
mod authenticate;
pub mod buffer;
pub mod cached;
pub mod client_tls;
pub mod connection;
pub mod contract;
pub mod conversation;
pub mod delivery;
pub mod downstream;
pub mod forged;
pub mod forward;
pub mod grpc;
pub mod identity;
pub mod intake;
pub mod proxy;
pub mod pump;
pub mod refresh;
pub mod reply;
pub mod stall;
pub mod stream;
mod subrequest;
mod trailers;
pub mod tunnel;
mod way;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ::auth::Identity;
use h1::{BodyKind, Expect, Known, Method, TargetForm};

use crate::config::{RouteAuth, RouteId};
use crate::error::{Error, Reason};
use crate::observe::metrics::NONE;
use crate::observe::traces::Finished;
use crate::observe::{Line, Record};
use crate::policy::auth::Denied;
use crate::policy::cors;
use crate::policy::limit::{self, Asked, Refusal, Stage, Verdict};
use crate::route::Found;
use crate::route::{host, path};
use crate::server::clock;
use crate::server::listeners::HttpsHosts;
use crate::server::snapshot::Snapshot;
use crate::server::wakeups::Waiting;
use crate::server::worker::{Scratch, Worker};
use cached::CacheSide;
use downstream::Downstream;
use forged::strip_forged_headers;
use pump::Pump;
use reply::{Framing, Members, Prepared};
use stall::Stalls;

/// What becomes of a client connection after an exchange.
#[derive(Debug)]
pub enum Next {
    /// The next request may come.
    KeepAlive,
    /// The next request may come after the rest of this one's body, which nobody wants.
    Drain(Pump),
    /// Close, at once if everything that the client sent was read.
    Close,
    /// Close, but first read what the client is still sending, so that the answer reaches it.
    Linger,
    /// Reset: the answer broke off and must not pass for a complete one.
    Abort,
}

/// How far the answer to the client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Nothing was sent; an error can still be answered.
    None,
    /// Part of it was sent.
    Begun,
    /// All of it was sent.
    Complete,
}

/// A request body that is not read when it is answered may have so many bytes left for the connection to live on.
const DRAINED_BYTES: u64 = 64 * 1024;

/// One request on its way through the gateway.
pub struct Exchange<'w> {
    /// The worker that it runs on.
    pub worker: &'w Worker,
    /// The configuration that it began with.
    pub snapshot: Rc<Snapshot>,
    /// The client's connection; the head lies at the front of its buffer until the exchange ends.
    pub down: &'w mut Downstream,
    /// Working memory.
    pub scratch: &'w mut Scratch,
    /// The route, once it is found.
    pub route: Option<RouteId>,
    /// What the route's pattern matched of the path.
    pub found: Found,
    /// `Allow` of a 405.
    pub allow: Option<Vec<u8>>,
    /// Who sends the request, once that is known.
    identity: Option<Arc<Identity>>,
    /// `WWW-Authenticate` lines of a request that is refused.
    challenges: Vec<u8>,
    /// The response of an authorizer that does not let the request pass.
    denied: Option<Box<Denied>>,
    /// When a refused request may come again, in seconds.
    retry_after: Option<u64>,
    /// What is wrong with the request by the description of its route, as JSON.
    violations: Vec<u8>,
    /// Whether the request asks what a cross-origin request would be allowed to do.
    pub is_preflight: bool,
    /// Whether this is the connection's last exchange.
    pub close: bool,
    answer: Answer,
    /// Counts as a request that waits, until its response begins.
    waits: Option<Waiting>,
    /// The request's body: the one decoder of it, from its first byte to its last.
    pub(crate) body: Pump,
    /// Who keeps it waiting.
    pub(crate) stalls: Stalls,
    /// The rest of the body is read after the response, and the connection lives on.
    drains: bool,
    /// Whether the client was asked for its body (100).
    continued: bool,
    aborts: bool,
    /// The end of the connection says that the response is complete.
    ends_with_connection: bool,
    /// The exchange's part in a cache.
    pub cache: CacheSide,
    /// The client of a gRPC call waits no longer than the gateway would.
    has_own_deadline: bool,
    /// The response goes out in chunks, to a client that takes trailers.
    may_end_with_trailers: bool,
    /// What is known of a call of an AI model.
    pub(crate) ai: Option<Box<ai::Record>>,
    log: Journal,
}

/// What is remembered for metrics and the log.
#[derive(Default)]
struct Journal {
    /// When the event loop saw the request: the wait for its turn counts.
    started_ns: u64,
    /// When its answer was complete, if that is known.
    ended_ns: u64,
    status: u16,
    error: Option<Error>,
    /// 0: the gateway itself, else 1 + position in the route's choices.
    slot: usize,
    attempts: u32,
    /// Bytes from the client after a switch of protocols.
    tunnelled_bytes: u64,
    response_bytes: u64,
    upstream_ns: Option<u64>,
    overhead_ns: Option<u64>,
    /// What the cache did: `hit`, `miss`, ...
    cache: Option<&'static str>,
    /// What came of authentication.
    auth: Option<&'static str>,
}

impl<'w> Exchange<'w> {
    /// An exchange for the request whose head is in `scratch`.
    pub fn begin(worker: &'w Worker, down: &'w mut Downstream, scratch: &'w mut Scratch) -> Self {
        let snapshot = worker.snapshot.borrow().clone();
        let close = !scratch.request.keep_alive || worker.draining.get() || down.origin.is_closed();
        let kind = scratch.request.body;
        scratch.request_id.clear();
        scratch.logged_target.clear();
        scratch.answer_lines.clear();
        scratch.identity_lines.clear();
        scratch.trace.clear();
        Exchange {
            worker,
            snapshot,
            down,
            scratch,
            route: None,
            found: Found { route: RouteId(0), fixed_len: 0, rest_at: 0 },
            allow: None,
            identity: None,
            challenges: Vec::new(),
            denied: None,
            retry_after: None,
            violations: Vec::new(),
            is_preflight: false,
            close,
            answer: Answer::None,
            waits: Some(Waiting::begin()),
            body: Pump::new(kind, kind, None),
            stalls: Stalls::new(clock::turn_ns()),
            drains: false,
            continued: false,
            aborts: false,
            ends_with_connection: false,
            cache: CacheSide::default(),
            has_own_deadline: false,
            may_end_with_trailers: false,
            ai: None,
            log: Journal { started_ns: clock::turn_ns(), ..Journal::default() },
        }
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

    /// Finds out who asks, and takes out what this client may not say.
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
        strip_forged_headers(fields, buf, is_trusted, &config.request_id, &config.untrusted_headers, identity);
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

    /// Sees to it that the request has an id: a trusted peer's, or one made here. A request that nobody asks about goes without.
    pub fn ensure_request_id(&mut self) {
        if !self.scratch.request_id.is_empty() {
            return;
        }
        let config = self.snapshot.config();
        let buf = self.down.buffer.whole();
        let fields = &self.scratch.request.fields;
        let given = if !self.down.client.peer_is_trusted {
            None
        } else if config.request_id.eq_ignore_ascii_case(Known::XRequestId.name()) {
            fields.first(Known::XRequestId, buf)
        } else {
            fields.get(config.request_id.as_bytes(), buf)
        };
        match given.filter(|id| is_request_id(id)) {
            Some(id) => self.scratch.request_id.extend_from_slice(id),
            None => new_request_id(self.worker, &mut self.scratch.request_id),
        }
    }

    /// Begins the lines that every response has, whoever makes it: the id of the request.
    pub fn begin_answer_lines(&mut self) {
        self.scratch.answer_lines.clear();
        if self.snapshot.config().server.returns_request_id {
            self.ensure_request_id();
            let name = self.snapshot.config().request_id.as_bytes();
            h1::encode::field(&mut self.scratch.answer_lines, name, &self.scratch.request_id);
        }
    }

    /// Refuses a request for a host that the connection's handshake was not made for (RFC 9110 section 15.5.20).
    ///
    /// # Errors
    /// 421.
    pub fn check_host(&self) -> Result<(), Error> {
        let Some(tls) = &self.down.client.tls else { return Ok(()) };
        match self.scratch.request.authority.map(|authority| authority.of_buf(self.down.buffer.whole())) {
            Some(authority) if !tls.may_carry(authority) => Err(Error::new(
                Reason::Misdirected,
                "the certificate of this connection is not for this host; connect again for it",
            )),
            _ => Ok(()),
        }
    }

    /// Sends the client to the same URL over TLS, if its host is served there: never to a host of the client's choice.
    ///
    /// # Errors
    /// 421, or when the client does not take the response.
    pub async fn redirect_to_https(&mut self, hosts: &HttpsHosts) -> Result<(), Error> {
        let authority = self.scratch.request.authority.map(|authority| authority.of_buf(self.down.buffer.whole()));
        let mut memory = [0; host::MAX_BYTES];
        let host = authority.and_then(|authority| host::normalise(authority, &mut memory));
        let host = host.and_then(|host| std::str::from_utf8(host).ok());
        let Some((host, port)) = host.and_then(|host| Some((host, hosts.port_of(host)?))) else {
            return Err(Error::new(Reason::Misdirected, "this host is not served over TLS"));
        };
        let mut location = format!("https://{host}").into_bytes();
        if port != 443 {
            location.extend_from_slice(format!(":{port}").as_bytes());
        }
        location.extend_from_slice(&self.scratch.path);
        if let Some(query) = self.query() {
            location.push(b'?');
            location.extend_from_slice(query);
        }
        let mut line = Vec::new();
        h1::encode::field(&mut line, b"Location", &location);
        self.answer(&Prepared::new(308, None, &line, b"")).await
    }

    /// The route is found.
    pub fn enter_route(&mut self, found: Found) -> RouteId {
        self.route = Some(found.route);
        self.found = found;
        if let Some(cors) = &self.snapshot.config().routes[found.route.0].cors {
            cors::write_answer_fields(
                &mut self.scratch.answer_lines,
                cors,
                &self.scratch.request,
                self.down.buffer.whole(),
            );
        }
        found.route
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

    /// Query of the request as it came, without `?`.
    pub fn query(&self) -> Option<&[u8]> {
        self.scratch.request.query.map(|query| query.of_buf(self.down.buffer.whole()))
    }

    /// Whether the client waits to be asked for its body (RFC 9110 section 10.1.1). One that has begun to send it does not.
    fn expects_continue(&self) -> bool {
        self.scratch.request.expect == Expect::Continue
            && !self.continued
            && !self.body.has_read_all()
            && self.down.buffer.is_empty()
    }

    /// Sends a fixed answer.
    ///
    /// # Errors
    /// When the client does not take it.
    pub async fn answer(&mut self, prepared: &Prepared) -> Result<(), Error> {
        self.skip_body();
        let framing = self.framing();
        prepared.write(&mut self.down.out.bytes, &self.scratch.answer_lines, framing);
        self.log.status = prepared.status;
        self.send_answer().await
    }

    /// Asks the rate limits of the route, or of the gateway when there is none; `Some` is what to answer instead.
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
        let client = &self.down.client;
        let asked = Asked {
            head: &self.scratch.request,
            buf: self.down.buffer.whole(),
            client: client.address,
            peer_is_trusted: client.peer_is_trusted,
            route: name,
            identity: self.identity.as_deref(),
            model: None,
        };
        let verdict = limit::check(&mut self.scratch.limits, &snapshot.limits, limits, stage, &asked).await?;
        if verdict == Verdict::Allowed && stage != Stage::Early {
            self.scratch.limits.write_fields(&mut self.scratch.answer_lines, &snapshot.limits, limits);
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
        if allow.has_addresses() && allow.rules.admits_address(self.down.client.address).is_err() {
            return Err(Reason::IpDenied.into());
        }
        Ok(())
    }

    /// What the route, or the gateway when there is none, demands of who sends the request.
    pub fn demanded<'s>(&self, snapshot: &'s Snapshot) -> &'s RouteAuth {
        match self.route {
            Some(route) => &snapshot.config().routes[route.0].auth,
            None => &snapshot.config().gateway_auth,
        }
    }

    /// Answers in place of the route what a limit says.
    ///
    /// # Errors
    /// When the client does not take it.
    pub async fn refuse(&mut self, refusal: &Refusal<'_>) -> Result<(), Error> {
        let reason = if refusal.is_exceeded() { Reason::RateLimited } else { Reason::MissingKey };
        self.log.error = Some(reason.into());
        self.worker.metrics.not_served(reason);
        self.ensure_request_id();
        self.skip_body();
        let framing = self.framing();
        if self.is_grpc() {
            grpc::write_error(&mut self.down.out.bytes, reason.into(), &self.scratch.answer_lines, framing);
            self.log.status = 200;
            return self.send_answer().await;
        }
        let api = self.ingress_api();
        let Scratch { answer_lines, body, request_id, .. } = &mut *self.scratch;
        if let Some(api) = api {
            self.log.status =
                ai::write_refusal(&mut self.down.out.bytes, api, refusal, request_id, answer_lines, framing);
            return self.send_answer().await;
        }
        self.log.status = refusal.write(&mut self.down.out.bytes, body, answer_lines, request_id, framing);
        self.send_answer().await
    }

    /// Answers a request that is not served as asked; or, when the answer has begun, sees to it that it cannot pass for complete.
    pub async fn fail(&mut self, error: Error) {
        self.ensure_request_id();
        // To the exchange a request that its connection refused looks like one whose client disconnected.
        let refusal = if error.reason == Reason::ClientGone { self.down.stream.refusal() } else { None };
        let error = refusal.unwrap_or(error);
        self.log.error = Some(error);
        self.log.status = if self.answer == Answer::None { error.reason.status() } else { self.log.status };
        self.worker.metrics.not_served(error.reason);
        match error.reason {
            _ if error.reason == Reason::ClientGone || refusal.is_some() => self.aborts = true,
            // What was sent ends with a whole chunk. The call ends with a status, so nobody takes it for complete.
            _ if self.answer == Answer::Begun && self.may_end_with_trailers && self.is_grpc() => {
                let before = self.down.out.bytes.len();
                grpc::write_trailers(&mut self.down.out.bytes, error);
                self.log.response_bytes = self.log.response_bytes.saturating_sub(before as u64);
                self.aborts = self.send_answer().await.is_err();
            }
            _ if self.answer != Answer::None => self.aborts = true,
            Reason::AuthDenied if self.denied.is_some() && !self.is_grpc() => self.send_denial().await,
            _ => {
                // The rest of a broken body cannot be told from a next request.
                if matches!(error.reason, Reason::BadRequest | Reason::BodyTooLarge | Reason::BodyTimeout) {
                    self.close = true;
                } else {
                    self.skip_body();
                }
                let mut fields = Vec::new();
                if let Some(allow) = &self.allow {
                    h1::encode::field(&mut fields, b"Allow", allow);
                }
                fields.extend_from_slice(&self.challenges);
                fields.extend_from_slice(&self.scratch.answer_lines);
                let framing = self.framing();
                self.down.out.clear();
                if self.is_grpc() {
                    let is_unknown = self.denied.as_ref().is_some_and(|denied| denied.status == 401);
                    let error = if is_unknown { Reason::Unauthenticated.into() } else { error };
                    grpc::write_error(&mut self.down.out.bytes, error, &fields, framing);
                    self.log.status = 200;
                    self.aborts = self.send_answer().await.is_err();
                    return;
                }
                if let Some(api) = self.ingress_api() {
                    let out = &mut self.down.out.bytes;
                    self.log.status =
                        ai::write_problem(out, api, error, &self.scratch.request_id, fields, self.retry_after, framing);
                    if self.send_answer().await.is_err() {
                        self.aborts = true;
                    }
                    return;
                }
                let members = Members { request_id: &self.scratch.request_id, errors: &self.violations };
                reply::problem(&mut self.down.out.bytes, error, members, &fields, self.retry_after, framing);
                if self.send_answer().await.is_err() {
                    self.aborts = true;
                }
            }
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
    fn begin_answer(&mut self) {
        self.answer = Answer::Begun;
        self.waits = None;
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

    async fn send_answer(&mut self) -> Result<(), Error> {
        self.begin_answer();
        self.log.response_bytes += self.down.out.bytes.len() as u64;
        let idle = self.snapshot.config().server.body_idle_timeout;
        self.down.send(&[], idle).await.map_err(|_| Error::from(Reason::ClientGone))?;
        self.answer = Answer::Complete;
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

    /// Records the exchange and says what becomes of the connection: it goes on only where the end of the body is known.
    pub fn finish(mut self) -> Next {
        self.record();
        self.scratch.limits.release();
        if self.aborts || self.answer != Answer::Complete {
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
            Ok(false) if self.drains && !self.close => Next::Drain(self.body),
            _ => Next::Linger,
        }
    }

    fn record(&mut self) {
        let ended_ns = if self.log.ended_ns == 0 { clock::now_ns() } else { self.log.ended_ns };
        let total_ns = ended_ns.saturating_sub(self.log.started_ns);
        let head_bytes = self.scratch.request.end as u64;
        let record = Record {
            upstream_slot: self.log.slot,
            status: self.log.status,
            request_bytes: head_bytes + self.body.bytes + self.log.tunnelled_bytes,
            response_bytes: self.log.response_bytes,
            total_ns,
            upstream_ns: self.log.upstream_ns,
            overhead_ns: self.log.overhead_ns,
        };
        match self.route {
            Some(route) => self.snapshot.routes[route.0].metrics.record(&record),
            None => self.snapshot.unmatched.record(&record),
        }
        if self.scratch.trace.is_sampled() {
            self.record_trace(ended_ns);
        }
        let ai_end = ai::end_of(self.log.error);
        if let (Some(ai), Some(route)) = (&self.ai, self.route) {
            let route = self.snapshot.config().routes[route.0].name.clone();
            self.snapshot.generation.ai.counters.request(ai.counted(route, ai_end));
        }
        if let Some(writer) = &mut *self.worker.log.borrow_mut()
            && writer.sampled()
        {
            self.ensure_request_id();
            let log = &self.log;
            let config = self.snapshot.config();
            let buf = self.down.buffer.whole();
            let request = &self.scratch.request;
            let route = self.route.map(|route| &config.routes[route.0]);
            let choice =
                self.route.and_then(|route| self.snapshot.routes[route.0].choices.get(log.slot.wrapping_sub(1)));
            let would_refuse =
                self.scratch.limits.would_refuse().and_then(|index| self.snapshot.limits.shared.get(index));
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            writer.line(&Line {
                time_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
                protocol: self.down.stream.protocol().unwrap_or(request.version.text()),
                client: self.down.client.address,
                method: request.method_name.of_buf(buf),
                host: request.authority.map(|authority| authority.of_buf(buf)),
                path: request.path.of_buf(buf),
                query: request.query.map(|query| query.of_buf(buf)),
                status: log.status,
                route: route.map(|route| &*route.name),
                upstream: choice.map(|choice| &*config.upstreams[choice.upstream.0].name),
                target: Some(&*self.scratch.logged_target).filter(|target| !target.is_empty()),
                request_bytes: record.request_bytes,
                response_bytes: record.response_bytes,
                duration_ns: total_ns,
                upstream_ns: log.upstream_ns,
                request_id: &self.scratch.request_id,
                user_agent: request.fields.first(Known::UserAgent, buf),
                referer: request.fields.first(Known::Referer, buf),
                error: log.error,
                consumer: self.identity.as_deref().and_then(|who| who.consumer.as_deref()),
                attempts: log.attempts,
                fallback: self.ai.as_ref().map_or(log.slot > 1, |ai| ai.fallback),
                cache: log.cache,
                auth: log.auth,
                would_refuse: would_refuse
                    .map(|limit| &*limit.spec.name)
                    .or_else(|| self.ai.as_ref()?.would_refuse.as_deref()),
                trace: self.scratch.trace.own(),
                violations: &self.violations,
                ai: self.ai.as_deref().map(|ai| (ai, ai_end)),
                tls: self.down.client.tls.as_deref().map(|tls| &tls.session),
            });
        }
    }

    #[cold]
    fn record_trace(&mut self, end_ns: u64) {
        self.ensure_request_id();
        let Some(recorder) = &mut *self.worker.traces.borrow_mut() else { return };
        let (log, config, buf) = (&self.log, self.snapshot.config(), self.down.buffer.whole());
        let request = &self.scratch.request;
        let route = self.route.map(|route| &config.routes[route.0]);
        let choice = self.route.and_then(|route| self.snapshot.routes[route.0].choices.get(log.slot.wrapping_sub(1)));
        let pattern = route.map(|route| route.matcher.path.to_string()).unwrap_or_default();
        recorder.record(
            &self.scratch.trace,
            &Finished {
                end_ns,
                start_ns: log.started_ns,
                method: request.method_name.of_buf(buf),
                method_is_known: request.method != Method::Other,
                path: request.path.of_buf(buf),
                query: request.query.map(|query| query.of_buf(buf)).unwrap_or_default(),
                host: request.authority.map(|authority| authority.of_buf(buf)).unwrap_or_default(),
                scheme: self.down.client.scheme(),
                version: self.down.stream.protocol().unwrap_or(request.version.text()).trim_start_matches("HTTP/"),
                pattern: &pattern,
                route: route.map_or("", |route| &route.name),
                upstream: choice.map_or("", |choice| &config.upstreams[choice.upstream.0].name),
                status: log.status,
                error: log.error,
                client: self.down.client.address,
                peer: self.down.client.peer,
                user_agent: request.fields.first(Known::UserAgent, buf).unwrap_or_default(),
                request_id: &self.scratch.request_id,
                consumer: self.identity.as_deref().and_then(|who| who.consumer.as_deref()).unwrap_or_default(),
                cache: log.cache.unwrap_or_default(),
            },
        );
    }
}

/// An id from a trusted peer is kept if it can stand in a field, a log line and a problem document as it is.
fn is_request_id(id: &[u8]) -> bool {
    !id.is_empty() && id.len() <= 128 && id.iter().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}

/// Appends a new id: 128 random bits.
fn new_request_id(worker: &Worker, out: &mut Vec<u8>) {
    let id = (u128::from(worker.random()) << 64) | u128::from(worker.random());
    write_hex(out, id);
}

fn write_hex(out: &mut Vec<u8>, number: u128) {
    let mut digits = [0; 32];
    for (index, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (124 - index * 4)) as usize & 15];
    }
    out.extend_from_slice(&digits);
}
