//! A worker's end: which traces are recorded, and how an exchange becomes spans.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use h1::Fields;
use telemetry::{Head, Kind, Parent, Ratio, SpanId, SpanWriter, Spans, Status, TraceId};
use tokio::sync::mpsc;

use super::trace::{Generation, Trace};
use super::{Batch, Shared, Traces};
use crate::config::ClientAddress;
use crate::config::redact::Redaction;
use crate::error::Error;

/// A buffer that holds this much is handed over.
const FULL: usize = 64 * 1024;
/// Age of its first span at which a buffer is handed over, or earlier where the exporter waits for less (`every`).
const OLD: Duration = Duration::from_secs(1);

/// Encodes the spans of one worker.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    to_exporter: mpsc::Sender<Batch>,
    ratio: Ratio,
    respects_parent: bool,
    queue: usize,
    old: Duration,
    spans: Spans,
    /// When the first of them ended.
    oldest: Option<SystemTime>,
    text: String,
    bytes: Vec<u8>,
}

/// An exchange that is over. Text may hold any bytes; texts that are empty are left out.
#[derive(Debug, Clone, Copy)]
pub struct Finished<'a> {
    /// When it ended, by the clock of this process, in nanoseconds since it started.
    pub end_ns: u64,
    /// When it began.
    pub start_ns: u64,
    /// Method as sent.
    pub method: &'a [u8],
    /// Whether that is a method of the registry.
    pub method_is_known: bool,
    /// Path as sent.
    pub path: &'a [u8],
    /// Query as sent, without the question mark.
    pub query: &'a [u8],
    /// Host and port that were requested.
    pub host: &'a [u8],
    /// `https` or `http`.
    pub scheme: &'a str,
    /// Version of HTTP, such as `1.1`.
    pub version: &'a str,
    /// Pattern of the route.
    pub pattern: &'a str,
    /// Name of the route.
    pub route: &'a str,
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Status that was sent.
    pub status: u16,
    /// The status of a gRPC call that was sent.
    pub grpc_status: Option<u8>,
    /// Why the request was not served as requested.
    pub error: Option<Error>,
    /// Who sent the request: the peer, or whom a trusted peer names.
    pub client: ClientAddress,
    /// The other end of the connection.
    pub peer: ClientAddress,
    /// `User-Agent`.
    pub user_agent: &'a [u8],
    /// Id of the request.
    pub request_id: &'a [u8],
    /// Consumer that was authenticated.
    pub consumer: &'a str,
    /// State of the cache.
    pub cache: &'a str,
    /// Parameters whose values are not shown.
    pub redaction: &'a Redaction,
}

impl Recorder {
    pub(super) fn new(traces: &Traces) -> Self {
        Recorder {
            shared: traces.shared.clone(),
            to_exporter: traces.to_exporter.clone(),
            ratio: traces.ratio,
            respects_parent: traces.respects_parent,
            queue: traces.queue,
            old: traces.every.min(OLD),
            spans: Spans::default(),
            oldest: None,
            text: String::new(),
            bytes: Vec::new(),
        }
    }

    /// Decides about a request, and takes the context of its client out of its fields. `random` gives 64 random bits.
    pub fn begin(
        &self,
        trace: &mut Trace,
        fields: &mut Fields,
        buf: &[u8],
        peer_is_trusted: bool,
        mut random: impl FnMut() -> u64,
    ) {
        let context = trace.take_context(fields, buf);
        let adopted = context.filter(|_| self.respects_parent);
        let id = match adopted {
            Some(parent) => parent.trace,
            // Neither number may be zero.
            None => TraceId(u128::from(random()) << 64 | u128::from(random() | 1)),
        };
        let is_sampled = match adopted {
            // Others could have everything recorded.
            Some(parent) if peer_is_trusted => parent.is_sampled,
            _ => self.ratio.admits(id),
        };
        if adopted.is_none() {
            trace.state.clear();
            trace.link = context;
        }
        trace.parent = adopted.map(|parent| parent.span);
        trace.own = Some(Parent { trace: id, span: SpanId(random() | 1), is_sampled });
    }

    /// Encodes the spans of an exchange that is recorded. Never blocks.
    pub fn record(&mut self, trace: &Trace, it: &Finished<'_>) {
        let Some(own) = trace.own else { return };
        let now = SystemTime::now();
        let now_unix_ns =
            u64::try_from(now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX);
        // Both clocks are read at the end; what lies before it is counted back.
        let unix_ns = |ns: u64| now_unix_ns.saturating_sub(it.end_ns.saturating_sub(ns));
        let Recorder { spans, text, bytes, .. } = self;
        let method: &[u8] = if it.method_is_known { it.method } else { b"_OTHER" };
        // A name must not have as many values as clients can think of.
        let name: &[u8] = if it.method_is_known { it.method } else { b"HTTP" };
        let (host, port) = split_host(it.host);

        for (number, attempt) in trace.attempts.iter().enumerate() {
            let end_ns = if attempt.end_ns == 0 { it.end_ns } else { attempt.end_ns };
            let mut span = spans.begin(&Head {
                trace: own.trace,
                span: attempt.span,
                parent: Some(own.span),
                parent_is_remote: false,
                state: &trace.state,
                kind: Kind::Client,
                name: match &attempt.generation {
                    Some(generation) => (generation.operation.as_bytes(), generation.model.as_bytes()),
                    None => (name, b""),
                },
                start_ns: unix_ns(attempt.start_ns),
                end_ns: unix_ns(end_ns),
            });
            span.text("http.request.method", method);
            if let Some(target) = attempt.target {
                span.text("server.address", display(text, &target.ip()));
                span.number("server.port", target.port().into());
            }
            if number > 0 {
                span.number("http.request.resend_count", number as u64);
            }
            status(&mut span, attempt.status);
            let failed = attempt.error.is_some() || attempt.status >= 400;
            let failed = failed | call(&mut span, attempt.grpc_status, |status| status > 0);
            let shown = attempt.grpc_status.map_or(attempt.status, u16::from);
            error_type(&mut span, attempt.error, shown, failed, text);
            span.text("weir.upstream", it.upstream.as_bytes());
            if let Some(generation) = &attempt.generation {
                describe(&mut span, generation);
            }
            span.end(if failed { Status::Error } else { Status::Unset });
        }

        let mut span = spans.begin(&Head {
            trace: own.trace,
            span: own.span,
            parent: trace.parent,
            parent_is_remote: trace.parent.is_some(),
            state: &trace.state,
            kind: Kind::Server,
            name: (name, it.pattern.as_bytes()),
            start_ns: unix_ns(it.start_ns),
            end_ns: now_unix_ns,
        });
        span.text("http.request.method", method);
        if !it.method_is_known {
            span.text("http.request.method_original", it.method);
        }
        span.text("url.scheme", it.scheme.as_bytes()).text("url.path", it.path);
        if it.redaction.has_secrets(it.query) {
            bytes.clear();
            it.redaction.query(bytes, it.query);
            span.text("url.query", bytes);
        } else {
            span.text("url.query", it.query);
        }
        span.text("http.route", it.pattern.as_bytes());
        status(&mut span, it.status);
        let failed = it.status >= 500 || it.status == 0;
        let failed = failed | call(&mut span, it.grpc_status, |status| matches!(status, 2 | 4 | 12..=15));
        let shown = it.grpc_status.map_or(it.status, u16::from);
        error_type(&mut span, it.error.map(|error| error.reason.label()), shown, failed, text);
        span.text("server.address", host);
        if let Some(port) = port {
            span.number("server.port", port);
        }
        span.text("client.address", display(text, &it.client)).text("network.peer.address", display(text, &it.peer));
        span.text("network.protocol.version", it.version.as_bytes()).text("user_agent.original", it.user_agent);
        span.text("weir.route", it.route.as_bytes()).text("weir.upstream", it.upstream.as_bytes());
        if let Some(error) = it.error {
            span.text("weir.fault", error.reason.fault().label().as_bytes());
        }
        span.text("weir.cache", it.cache.as_bytes()).text("weir.consumer", it.consumer.as_bytes());
        span.text("weir.request_id", it.request_id);
        if let Some(link) = trace.link {
            span.link(link.trace, link.span);
        }
        span.end(if failed { Status::Error } else { Status::Unset });
        self.oldest.get_or_insert(now);
        // What is handed over at once must not fill the queue by itself.
        if self.spans.bytes().len() >= FULL || self.spans.count() > self.queue / 8 {
            self.flush();
        }
    }

    /// Hands over what is old. A worker calls this about once a second, so that spans do not wait for the next request.
    pub fn flush_old(&mut self) {
        // A clock that was set back makes a span old, so that it is handed over.
        if self
            .oldest
            .is_some_and(|oldest| oldest.elapsed().is_ok_and(|age| age >= self.old) || oldest.elapsed().is_err())
        {
            self.flush();
        }
    }

    /// Hands over what there is.
    pub fn flush(&mut self) {
        let spans = self.spans.count();
        if spans == 0 {
            return;
        }
        self.oldest = None;
        let room = self
            .shared
            .waiting
            .fetch_update(AcqRel, Acquire, |waiting| Some(waiting + spans).filter(|waiting| *waiting <= self.queue));
        let encoded = self.spans.swap(Vec::new());
        if room.is_err() || self.to_exporter.try_send(Batch { encoded, spans }).is_err() {
            if room.is_ok() {
                self.shared.waiting.fetch_sub(spans, AcqRel);
            }
            self.shared.stats.dropped_queue.fetch_add(spans as u64, Relaxed);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Attributes of generative AI; never prompts and responses.
fn describe(span: &mut SpanWriter<'_>, generation: &Generation) {
    span.text("gen_ai.operation.name", generation.operation.as_bytes());
    span.text("gen_ai.provider.name", generation.api.as_bytes());
    span.text("gen_ai.request.model", generation.model.as_bytes());
    if let Some([input, output, cached]) = generation.tokens {
        span.number("gen_ai.usage.input_tokens", input).number("gen_ai.usage.output_tokens", output);
        if cached > 0 {
            span.number("gen_ai.usage.cache_read.input_tokens", cached);
        }
    }
    span.text("weir.provider", generation.provider.as_bytes()).text("weir.ai.fault", generation.fault.as_bytes());
}

fn status(span: &mut SpanWriter<'_>, status: u16) {
    if status > 0 {
        span.number("http.response.status_code", status.into());
    }
}

/// Attributes of a gRPC call, in the words of OpenTelemetry's conventions; whether its status is an error.
fn call(span: &mut SpanWriter<'_>, status: Option<u8>, is_error: impl Fn(u8) -> bool) -> bool {
    let Some(status) = status else { return false };
    span.text("rpc.system", b"grpc").number("rpc.grpc.status_code", status.into());
    is_error(status)
}

fn error_type(span: &mut SpanWriter<'_>, reason: Option<&str>, status: u16, failed: bool, text: &mut String) {
    match reason {
        Some(reason) => {
            span.text("error.type", reason.as_bytes());
        }
        None if failed && status > 0 => {
            span.text("error.type", display(text, &status));
        }
        None => {}
    }
}

fn display<'t>(text: &'t mut String, value: &dyn std::fmt::Display) -> &'t [u8] {
    text.clear();
    // Writing to a string cannot fail.
    let _ = write!(text, "{value}");
    text.as_bytes()
}

/// Host without brackets, and the port if there is one.
fn split_host(host: &[u8]) -> (&[u8], Option<u64>) {
    let colon = match host.iter().rposition(|&byte| byte == b':') {
        // Within brackets it is part of the address.
        Some(colon) if !host[colon..].contains(&b']') => colon,
        _ => host.len(),
    };
    let port = host.get(colon + 1..).and_then(|port| std::str::from_utf8(port).ok()?.parse().ok());
    let name = &host[..colon];
    (name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]")).unwrap_or(name), port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    /// A worker looks about once a second: what is younger than that waits for a second look unless `every` is shorter.
    #[test]
    fn a_buffer_is_handed_over_at_the_age_that_every_says() {
        for (every, handed_over) in [(Duration::from_millis(100), 1), (Duration::from_secs(60), 0)] {
            let traces = config::Traces {
                collector: config::Collector {
                    endpoint: "http://127.0.0.1:9/".to_owned(),
                    timeout: Duration::from_secs(1),
                    headers: Vec::new(),
                    is_compressed: false,
                },
                share: 1.0,
                respects_parent: true,
                queue: 512,
                batch: 512,
                every,
            };
            let traces = Traces::start(&config::Telemetry::default(), &traces).unwrap();
            let mut recorder = traces.worker();
            let span = Head {
                trace: TraceId(1),
                span: SpanId(1),
                parent: None,
                parent_is_remote: false,
                state: b"",
                kind: Kind::Server,
                name: (b"GET", b""),
                start_ns: 1,
                end_ns: 2,
            };
            recorder.spans.begin(&span).end(Status::Unset);
            recorder.oldest = Some(SystemTime::now() - Duration::from_millis(200));
            recorder.flush_old();
            assert_eq!(1 - recorder.spans.count(), handed_over, "{every:?}");
        }
    }

    #[test]
    fn hosts_are_split() {
        let of = |host: &'static str| split_host(host.as_bytes());
        assert_eq!(of("a.example"), (&b"a.example"[..], None));
        assert_eq!(of("a.example:8080"), (&b"a.example"[..], Some(8080)));
        assert_eq!(of("[::1]:80"), (&b"::1"[..], Some(80)));
        assert_eq!(of("[::1]"), (&b"::1"[..], None));
        assert_eq!(of(""), (&b""[..], None));
    }
}
