//! The thread that sends spans to the collector (OTLP over HTTP, `opentelemetry-proto` specification, section "OTLP/HTTP").

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderMap, RETRY_AFTER, USER_AGENT};
use telemetry::export::{Envelope, rejected};
use tls::client::Options;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{Batch, Shared};
use crate::config;
use crate::upstream::{Resolver, client};

/// Calls for one batch, repeated ones included.
const ATTEMPTS: u32 = 5;
/// Wait before the first repetition; each further one waits twice as long.
const BACKOFF: Duration = Duration::from_secs(1);
/// Longest wait, whatever the collector asks for.
const LONGEST: Duration = Duration::from_secs(30);
/// What the last call may take when the process ends.
const LAST: Duration = Duration::from_secs(2);
/// Bytes of a response.
const RESPONSE: usize = 64 * 1024;

pub(super) struct Exporter {
    envelope: Envelope,
    traces: config::Traces,
    shared: Arc<Shared>,
    resolver: Resolver,
    /// The last call failed, which was said in the log.
    is_failing: bool,
    is_closing: bool,
}

/// Why a call failed.
struct Failure {
    why: String,
    /// Whether the same may be sent again, and after what wait if the collector says so.
    retry: Option<Option<Duration>>,
}

impl Exporter {
    pub(super) fn new(
        telemetry: &config::Telemetry,
        traces: config::Traces,
        shared: Arc<Shared>,
        resolver: Resolver,
    ) -> Self {
        let resource = telemetry.resource.iter().map(|(key, value)| (&**key, &**value));
        let envelope = Envelope::new(resource, "weir", env!("CARGO_PKG_VERSION"));
        Exporter { envelope, traces, shared, resolver, is_failing: false, is_closing: false }
    }

    /// Sends what comes until the process ends.
    pub(super) async fn run(mut self, mut batches: Receiver<Batch>) {
        let shared = self.shared.clone();
        loop {
            let mut waiting = Vec::new();
            tokio::select! {
                biased;
                first = batches.recv() => match first {
                    Some(first) => waiting.push(first),
                    None => return,
                },
                () = shared.closing.notified(), if !self.is_closing => self.is_closing = true,
            }
            let due = Instant::now() + self.traces.every;
            let mut spans: usize = waiting.iter().map(|batch| batch.spans).sum();
            while spans < self.traces.batch {
                let next = if self.is_closing {
                    batches.try_recv().ok()
                } else {
                    tokio::select! {
                        biased;
                        next = timeout_at(due, batches.recv()) => next.ok().flatten(),
                        () = shared.closing.notified() => { self.is_closing = true; continue }
                    }
                };
                let Some(next) = next else { break };
                spans += next.spans;
                waiting.push(next);
            }
            if spans > 0 {
                self.send(&waiting, spans as u64).await;
                shared.waiting.fetch_sub(spans, AcqRel);
            } else if self.is_closing {
                return;
            }
        }
    }

    async fn send(&mut self, batches: &[Batch], spans: u64) {
        let body = Bytes::from(self.envelope.request(batches.iter().map(|batch| &*batch.encoded)));
        let shared = self.shared.clone();
        let stats = &shared.stats;
        let mut backoff = BACKOFF;
        for attempt in 1..=ATTEMPTS {
            let failure = match self.call(body.clone()).await {
                Ok(refused) => {
                    let refused = refused.min(spans);
                    stats.exported.fetch_add(spans - refused, Relaxed);
                    stats.dropped_refused.fetch_add(refused, Relaxed);
                    if std::mem::take(&mut self.is_failing) {
                        tracing::info!("the collector takes spans again");
                    }
                    return;
                }
                Err(failure) => failure,
            };
            stats.failed_calls.fetch_add(1, Relaxed);
            if !std::mem::replace(&mut self.is_failing, true) {
                tracing::warn!(error = %failure.why, "cannot send spans to the collector");
            }
            let Some(wait) = failure.retry.filter(|_| attempt < ATTEMPTS && !self.is_closing) else { break };
            tokio::select! {
                () = sleep(wait.unwrap_or(backoff).min(LONGEST)) => {}
                // Once more, then the process ends.
                () = shared.closing.notified() => self.is_closing = true,
            }
            backoff *= 2;
        }
        stats.dropped_failed.fetch_add(spans, Relaxed);
    }

    /// The endpoint as logs show it: a query may hold a credential.
    fn endpoint_shown(&self) -> &str {
        self.traces.endpoint.split('?').next().unwrap_or_default()
    }

    /// One call; how many spans the collector refused.
    async fn call(&self, body: Bytes) -> Result<u64, Failure> {
        let mut request = Request::post(&self.traces.endpoint)
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(USER_AGENT, concat!("weir/", env!("CARGO_PKG_VERSION")))
            .header(CONNECTION, "close");
        for (name, value) in &self.traces.headers {
            request = request.header(name, value);
        }
        let fatal = |why: String| Failure { why, retry: None };
        let request = request.body(Full::new(body)).map_err(|error| fatal(error.to_string()))?;
        let options = Options::default();
        let sent = client::send(request, &options, &self.resolver, RESPONSE);
        let limit = if self.is_closing { LAST.min(self.traces.timeout) } else { self.traces.timeout };
        let reply = match timeout(limit, sent).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(why)) => return Err(Failure { why, retry: Some(None) }),
            Err(_) => {
                let why = format!("{}: no response within {limit:?}", self.endpoint_shown());
                return Err(Failure { why, retry: Some(None) });
            }
        };
        let status = reply.head.status;
        if status.is_success() {
            return Ok(rejected(&reply.body));
        }
        let why = format!("{}: status {}", self.endpoint_shown(), status.as_u16());
        // These may be repeated, others not (OTLP/HTTP, "Retryable response codes").
        let retry = matches!(status.as_u16(), 429 | 502 | 503 | 504).then(|| retry_after(&reply.head.headers));
        Err(Failure { why, retry })
    }
}

/// `Retry-After` in seconds; a date is not read, the backoff does.
fn retry_after(fields: &HeaderMap) -> Option<Duration> {
    fields.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
