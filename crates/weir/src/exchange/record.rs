//! The record of an exchange, and where it goes at the end: metrics, a span, a line of the access log.

use std::ops::{Deref, DerefMut};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use h1::{Known, Method};

use super::{Exchange, Next, SendState, ai};
use crate::client::downstream::Downstream;
use crate::config::AuthId;
use crate::error::{Error, Reason};
use crate::observe::traces::Finished;
use crate::observe::{ClientSeries, Line, Record, ServerSeries};
use crate::policy::ai::metrics::End;
use crate::runtime::clock;
use crate::upstream::Lease;
use crate::worker::{Scratch, Worker};

/// What metrics and the log need to know.
#[derive(Default)]
pub(super) struct Journal {
    /// When the event loop saw the request: the wait for its turn counts.
    pub(super) started_ns: u64,
    /// When its response was complete, if that is known.
    pub(super) ended_ns: u64,
    pub(super) status: u16,
    /// The status of a gRPC call, where the client got one.
    pub(super) grpc_status: Option<u8>,
    pub(super) error: Option<Error>,
    /// 0: the gateway itself, else 1 + position in the route's choices.
    pub(super) slot: usize,
    /// A fallback responds, in place of the first choice.
    pub(super) fell_back: bool,
    pub(super) attempts: u32,
    /// Bytes from the client after a switch of protocols.
    pub(super) tunnelled_bytes: u64,
    pub(super) response_bytes: u64,
    pub(super) upstream_ns: Option<u64>,
    /// Version of HTTP on the connection to the upstream; none before there is one.
    pub(super) upstream_version: Option<&'static str>,
    /// In queues of upstreams.
    pub(super) queue_ns: u64,
    pub(super) overhead_ns: Option<u64>,
    /// What the cache did: `hit`, `miss`, ...
    pub(super) cache: Option<&'static str>,
    /// What came of authentication.
    pub(super) auth: Option<&'static str>,
    /// Why a credential does not hold.
    pub(super) auth_detail: Option<&'static str>,
    /// The authenticator that was the last to decide.
    pub(super) authenticator: Option<AuthId>,
    /// The limit that refused the request.
    pub(super) limit: Option<Arc<str>>,
    /// What the gateway sent by itself, or in place of the upstream's response.
    pub(super) own: Option<&'static str>,
}

/// An exchange with a client: it is recorded also where it is cut off, which is where its future is dropped.
pub struct Recorded<'w> {
    exchange: Exchange<'w>,
    is_over: bool,
}

impl<'w> Recorded<'w> {
    /// An exchange for the request whose head is in `scratch`.
    #[inline(always)]
    pub fn begin(worker: &'w Worker, down: &'w mut Downstream, scratch: &'w mut Scratch) -> Self {
        Recorded { exchange: Exchange::begin(worker, down, scratch), is_over: false }
    }

    /// Records the exchange and says what happens to the connection.
    pub fn finish(&mut self) -> Next {
        self.is_over = true;
        self.exchange.finish()
    }
}

impl<'w> Deref for Recorded<'w> {
    type Target = Exchange<'w>;
    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.exchange
    }
}

impl DerefMut for Recorded<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.exchange
    }
}

impl Drop for Recorded<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if std::thread::panicking() {
            // What it meets may be half done. A second panic must not end the process, which serves others.
            let record = AssertUnwindSafe(|| self.exchange.record_broken_off(Reason::Panic));
            let _ = std::panic::catch_unwind(record);
        } else if self.exchange.worker.shared.is_cut_off() {
            self.exchange.record_broken_off(Reason::Shutdown);
        }
    }
}

impl Exchange<'_> {
    /// Records an exchange that the end of the process cuts off, or a panic, of its own or of its worker. Of a body that was on its way to the
    /// client the bytes are not known.
    #[cold]
    fn record_broken_off(&mut self, reason: Reason) {
        self.log.error = Some(reason.into());
        if self.send_state == SendState::None {
            self.log.status = reason.status();
        }
        self.worker.metrics.not_served(reason);
        self.record();
    }

    /// Counts the exchange, and writes its span and its line of the log.
    pub(super) fn record(&mut self) {
        let ended_ns = if self.log.ended_ns == 0 { clock::now_ns() } else { self.log.ended_ns };
        let total_ns = ended_ns.saturating_sub(self.log.started_ns);
        let head_bytes = self.scratch.request.end as u64;
        let record = Record {
            upstream_slot: self.log.slot,
            status: self.log.status,
            grpc_status: self.log.grpc_status,
            request_bytes: head_bytes + self.body.bytes + self.log.tunnelled_bytes,
            response_bytes: self.log.response_bytes,
            total_ns,
            upstream_ns: self.log.upstream_ns,
            overhead_ns: self.log.overhead_ns,
        };
        let metrics = match self.route {
            Some(route) => &self.snapshot.routes[route.0].metrics,
            None => &self.snapshot.unmatched,
        };
        metrics.record(&record);
        if let Some(durations) = &self.worker.durations {
            durations.server(self.server_series(), total_ns);
        }
        if let Some(trace) = self.scratch.trace.own().filter(|own| own.is_sampled) {
            metrics.keep_trace(&record, trace);
            self.record_trace(ended_ns);
        }
        let ai_end = ai::end_of(self.log.error);
        if let (Some(ai), Some(route)) = (&self.ai, self.route) {
            let route = &self.snapshot.config().routes[route.0].name;
            let pair = self.snapshot.generation.ai.pair(ai.model_id, ai.candidate);
            pair.request(&ai.counted(route, ai_end));
        }
        let worker = self.worker;
        let mut failures = match self.log.error {
            Some(error) => {
                let mut notes = worker.failures.borrow_mut();
                notes.wants(error.reason.fault(), ended_ns).then_some((notes, error.reason.fault()))
            }
            None => None,
        };
        let mut writer = worker.log.borrow_mut();
        let is_logged =
            writer.as_mut().is_some_and(|writer| writer.wants(self.log.status, self.log.grpc_status, total_ns));
        if failures.is_some() || is_logged {
            self.ensure_request_id();
            let line = self.line(&record, ai_end);
            if let Some(writer) = writer.as_mut().filter(|_| is_logged) {
                writer.line(&line);
            }
            if let Some((notes, fault)) = &mut failures {
                notes.note(*fault, &line);
            }
        }
    }

    /// The line of the access log.
    #[inline(always)]
    fn line(&self, record: &Record, ai_end: End) -> Line<'_> {
        let log = &self.log;
        let config = self.snapshot.config();
        let buf = self.down.buffer.whole();
        let request = &self.scratch.request;
        let route = self.route.map(|route| &config.routes[route.0]);
        let choice = self.route.and_then(|route| self.snapshot.routes[route.0].choices.get(log.slot.wrapping_sub(1)));
        let would_refuse = self.scratch.limits.would_refuse().and_then(|index| self.snapshot.limits.shared.get(index));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Line {
            time_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            protocol: self.down.stream.protocol().unwrap_or(request.version.text()),
            client: self.down.client.address,
            method: request.method_name.of_buf(buf),
            host: request.authority.map(|authority| authority.of_buf(buf)),
            path: request.path.of_buf(buf),
            query: request.query.map(|query| query.of_buf(buf)),
            status: log.status,
            grpc_status: log.grpc_status,
            route: route.map(|route| &*route.name),
            upstream: choice.map(|choice| &*config.upstreams[choice.upstream.0].name),
            target: Some(&*self.scratch.logged_target).filter(|target| !target.is_empty()),
            request_bytes: record.request_bytes,
            response_bytes: record.response_bytes,
            duration_ns: record.total_ns,
            upstream_ns: log.upstream_ns,
            queue_ns: Some(log.queue_ns).filter(|ns| *ns > 0),
            request_id: &self.scratch.request_id,
            user_agent: request.fields.first(Known::UserAgent, buf),
            referer: request.fields.first(Known::Referer, buf),
            error: log.error,
            consumer: self.identity.as_deref().and_then(|who| who.consumer.as_deref()),
            attempts: log.attempts,
            fallback: self.ai.as_ref().map_or(log.fell_back, |ai| ai.fallback),
            cache: log.cache,
            auth: log.auth,
            auth_detail: log.auth_detail,
            authenticator: log.authenticator.and_then(|id| Some(&*config.auth.get(id.0)?.name)),
            limit: log.limit.as_deref(),
            own: log.own,
            would_refuse: would_refuse
                .map(|limit| &*limit.spec.name)
                .or_else(|| self.ai.as_ref()?.would_refuse.as_deref()),
            trace: self.scratch.trace.own(),
            violations: &self.violations,
            ai: self.ai.as_deref().map(|ai| ai.logged(ai_end)),
            tls: self.down.client.tls.as_deref().map(|tls| &tls.session),
            proxied: self.down.client.proxied.as_deref(),
            request_fields: Some((&request.fields, buf)),
            sensitive: Some(&*self.snapshot.sensitive),
            redaction: &config.redaction,
        }
    }

    /// Version of the protocol that the client speaks.
    fn version(&self) -> &'static str {
        let protocol = self.down.stream.protocol().unwrap_or(self.scratch.request.version.text());
        protocol.trim_start_matches("HTTP/")
    }

    fn server_series(&self) -> ServerSeries {
        ServerSeries {
            method: self.scratch.request.method,
            route: self.route.map(|route| self.snapshot.routes[route.0].pattern.clone()),
            status: self.log.status,
            error: self.log.error.map(|error| error.reason.label()),
            version: self.version(),
            scheme: self.down.client.scheme(),
        }
    }

    /// An attempt begins: when, if durations are measured.
    #[inline]
    pub(super) fn begin_measuring(&mut self) -> Option<u64> {
        self.log.upstream_version = None;
        self.worker.durations.is_some().then(clock::loop_ns)
    }

    /// An attempt ended that [began](Self::begin_measuring) then; `status` is 0 without a response.
    #[inline]
    pub(super) fn end_measuring(&self, began_ns: Option<u64>, lease: &Lease, status: u16, error: Option<&'static str>) {
        if let (Some(durations), Some(began_ns)) = (&self.worker.durations, began_ns) {
            let target = lease.target();
            let series = ClientSeries {
                method: self.scratch.request.method,
                server: target.configured_name().clone(),
                status,
                error,
                version: self.log.upstream_version,
                scheme: if target.address().is_tls() { "https" } else { "http" },
            };
            durations.client(series, clock::loop_ns().saturating_sub(began_ns));
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
                version: self.version(),
                pattern: self.route.map_or("", |route| &self.snapshot.routes[route.0].pattern),
                route: route.map_or("", |route| &route.name),
                upstream: choice.map_or("", |choice| &config.upstreams[choice.upstream.0].name),
                status: log.status,
                grpc_status: log.grpc_status,
                error: log.error,
                client: self.down.client.address,
                peer: self.down.client.peer,
                user_agent: request.fields.first(Known::UserAgent, buf).unwrap_or_default(),
                request_id: &self.scratch.request_id,
                consumer: self.identity.as_deref().and_then(|who| who.consumer.as_deref()).unwrap_or_default(),
                cache: log.cache.unwrap_or_default(),
                redaction: &config.redaction,
            },
        );
    }
}
