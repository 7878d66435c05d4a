//! What one load run measured: the model that the generator writes and that verdicts, scores and reports read. Results of other
//! generators (wrk, hey, k6, JMeter, ...) are read into it too.
//!
//! # The JSON
//!
//! [`Report`] is the document; each struct is an object with the field names as they are here. Rules that hold everywhere:
//!
//! - What was not measured is `null`, never 0. A tool that does not say how many connections it opened leaves
//!   `connections_opened` null.
//! - Times of requests are in milliseconds (`_ms`), times of a run in seconds (`_s`), rates in requests per second, sizes in bytes.
//! - A latency runs from the moment the request *should* have been sent to the last byte of its response. In an open loop that moment
//!   comes from the schedule, so a server that stalls is charged for everybody who would have waited (no coordinated omission). In
//!   a closed loop it is the end of the user's previous response plus think time; what that hides is put back in
//!   [`Measurement::corrected`].
//! - Percentiles are never averaged: to combine measurements, merge their histograms ([`Measurement::merge`]).
//! - A percentile is always written beside its sample count; who prints it decides whether the count suffices
//!   ([`Latency::p99_suffices`] and friends: 1,000 samples for p99, 10,000 for p99.9).
//!
//! ```json
//! {
//!   "format": 1,
//!   "generator": {"name": "gauge", "version": "0.1.0", "protocol": "HTTP/1.1", "threads": 2, "latency_from": "due",
//!                 "cpu": {"user_s": 3.1, "system_s": 6.2}},
//!   "started_unix_ms": 1790000000000,
//!   "truncated": null,
//!   "total": {
//!     "duration_s": 10.0, "concurrency": 64.0,
//!     "requests": {"scheduled": 50000, "sent": 50000, "responses": 50000, "late_responses": 3, "dropped": 0, "no_response": 0},
//!     "rate": {"requested": 5000.0, "achieved": 4999.7},
//!     "statuses": {"200": 50000},
//!     "errors": {"connect": 0, "reset": 0, "timeout": 0, "status": 0, "invalid_response": 0, "total": 0},
//!     "bytes": {"sent": 2500000, "received": 9000000},
//!     "connections_opened": 64,
//!     "latency": {"count": 50000, "min_ms": 0.05, "mean_ms": 0.09, "stdev_ms": 0.02, "max_ms": 1.2, "p50_ms": 0.09, "p75_ms": 0.09,
//!                 "p90_ms": 0.1, "p95_ms": 0.1, "p99_ms": 0.2, "p999_ms": 0.6, "histogram": "HISTFAAA...", "samples_ns": null},
//!     "corrected": null, "lag": {...}, "generator_lag": {...}, "connect": {...}
//!   },
//!   "operations": [{"name": "getAuction", "total": {...}}],
//!   "phases": [{"name": "steady", "start_s": 0.0, "measured": true, "total": {...}, "operations": [{"name": "getAuction", "total": {...}}]}],
//!   "seconds": [{"at_s": 0, "sent": 5000, "responses": 5000, "errors": 0, "dropped": 0, "received_bytes": 900000, "latency": {...}}]
//! }
//! ```

mod histogram;
mod latency;
mod merge;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use histogram::Histogram;
pub use latency::{Latency, SAMPLES};

/// Version of the JSON. It changes when a field changes its meaning; a new field does not change it.
pub const FORMAT: u32 = 1;

/// One run of a load generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// Who made the load.
    pub generator: Generator,
    /// When the first phase began, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: Option<u64>,
    /// Why the run ended before its plan did (`interrupted`, ...); null when it ran to its end. Percentiles of a truncated run are
    /// of the part that ran.
    pub truncated: Option<String>,
    /// All phases that are measured (not warm-up), all operations.
    pub total: Measurement,
    /// The same, operation by operation, in the order of the workload. Empty when the tool does not tell them apart.
    pub operations: Vec<Operation>,
    /// The phases in order, warm-up included.
    pub phases: Vec<Phase>,
    /// One element for each second of the run, all phases and operations together; empty when the tool has no time series.
    pub seconds: Vec<Second>,
}

/// Who made the load, how, and what it cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// `gauge`, `wrk`, `hey`, `k6`, `jmeter`, `vegeta`, `oha`, `ab`.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// `HTTP/1.1`, `HTTP/2`, `gRPC` or `WebSocket`.
    pub protocol: Option<String>,
    /// Threads that send.
    pub threads: Option<u32>,
    /// From when its latencies count; null when the tool's output does not say and it could be either.
    pub latency_from: Option<LatencyFrom>,
    /// CPU time of the generator's process, from the first request to the last response.
    pub cpu: Option<Cpu>,
}

/// From when a latency counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyFrom {
    /// From when the request should have been sent: a stall is charged for all who would have waited.
    Due,
    /// From when it was sent: at a stated rate, a stall hides the requests that it held up (coordinated omission).
    Sent,
}

/// CPU time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// In user mode, seconds.
    pub user_s: f64,
    /// In the kernel, seconds.
    pub system_s: f64,
}

/// An operation's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its name in the workload.
    pub name: String,
    /// What was measured of it.
    pub total: Measurement,
}

/// A phase's part. A request belongs to the phase in which it should have been sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name in the workload.
    pub name: String,
    /// When it began, seconds from the start of the run.
    pub start_s: f64,
    /// Whether it counts for [`Report::total`]; false for warm-up and for what users do to get ready, such as a login.
    pub measured: bool,
    /// All operations.
    pub total: Measurement,
    /// Operation by operation.
    pub operations: Vec<Operation>,
}

/// What was measured of a set of requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// How long requests were due to be sent, seconds: the planned length of the phases, or until the last response where a number of
    /// requests was planned, or until the run was cut short.
    pub duration_s: Option<f64>,
    /// Users of a closed loop, or connections (HTTP/2: streams) that an open loop could use at once; the mean over the duration where it
    /// changes. With throughput and mean latency it must satisfy Little's law.
    pub concurrency: Option<f64>,
    /// Counts of requests.
    pub requests: Requests,
    /// Rates of requests.
    pub rate: Rate,
    /// How many responses had which status; null when the tool does not say. Of gRPC: 200 is `OK`, 1 to 16 are its other codes, and 0 is `OK` with a message
    /// that says `success: false`. Of WebSocket: 101 is a message that came back, others are those of upgrades that were refused.
    pub statuses: Option<BTreeMap<u16, u64>>,
    /// Requests that went wrong, by kind.
    pub errors: Errors,
    /// Bytes on the wire above TCP, and above TLS where that is spoken: heads and bodies.
    pub bytes: Bytes,
    /// TCP connections opened, failed attempts not counted; whether a handshake of TLS then failed is not considered. More than the concurrency means that
    /// connections were closed on us, or that each request had a new one.
    pub connections_opened: Option<u64>,
    /// From the intended send to the last byte of the response; complete responses only, whatever their status.
    pub latency: Option<Latency>,
    /// Closed loop only: `latency` with what stalls hid put back. While a server does not respond, users who wait send nothing, so one
    /// second of silence leaves one slow request per user where an open loop at the same mean rate would have had thousands. For each gap
    /// between two responses (of the users of one thread) this holds the requests that the mean rate would have had in it, beyond
    /// those of the users who waited, each waiting until the gap's end. A single slow request among others adds nothing. Null in an open
    /// loop, which needs no correction.
    pub corrected: Option<Latency>,
    /// Actual minus intended send time. It holds waiting for a free connection, which is the server's doing, and
    /// `generator_lag`, which is the load generator's.
    pub lag: Option<Latency>,
    /// Actual minus intended send time of the requests for which a connection was free when they were due: how late the generator
    /// itself was. A p99 above 1 ms makes a trial invalid.
    pub generator_lag: Option<Latency>,
    /// From the start of a connection attempt until it was open, without the handshake of TLS.
    pub connect: Option<Latency>,
    /// Handshakes of TLS; null without TLS, and for single operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Handshakes and connections of WebSocket; null for other requests, and for single operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub websocket: Option<WebSocket>,
    /// Responses that showed what the workload counts apart (its `mark`); null when it counts nothing apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked: Option<u64>,
    /// Of event streams: from the intended send to the first byte of the body; null for other responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<Latency>,
    /// Of event streams: the events of the complete responses; null for other responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Events>,
    /// Of chat calls to a model; null for other requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<Chat>,
    /// Of calls of gRPC; null where none was a stream and none failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Grpc>,
}

/// Calls of gRPC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Grpc {
    /// Of methods that take or return a stream; null without one.
    pub streams: Option<Streams>,
    /// Why the first call failed that did: its code and the server's message, or what was wrong with its messages. Null for single operations.
    pub first_error: Option<String>,
}

/// Streams of gRPC, each of which is a request of the measurement: its latency is that of the whole call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Streams {
    /// Messages sent in calls that ended with OK.
    pub sent: u64,
    /// Messages received in these.
    pub received: u64,
    /// Calls that ended with OK before all messages were sent, or with fewer messages of the server than the workload says: each an `invalid_response` among the
    /// errors.
    pub short: u64,
    /// Of methods that return a stream: from the intended send to the end of the first message.
    pub first_message: Option<Latency>,
    /// Of methods with streams in both directions: from the send of a message until as many have come back.
    pub round_trip: Option<Latency>,
}

/// Handshakes of TLS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tls {
    /// Whether the servers' certificates were verified (not with `--insecure`).
    pub verified: bool,
    /// Complete handshakes with a new key exchange and the server's certificate.
    pub full: u64,
    /// Complete handshakes that resumed an earlier session.
    pub resumed: u64,
    /// Complete handshakes by version, such as `TLSv1.3`.
    pub versions: BTreeMap<String, u64>,
    /// The same by cipher suite, as IANA has it registered (`TLS13_` where IANA has `TLS_`).
    pub ciphers: BTreeMap<String, u64>,
    /// From the open TCP connection until the client could send its request: the handshake alone.
    pub handshake: Option<Latency>,
    /// Why the first of the requests in [`Errors::tls`] failed, and what to do.
    pub first_error: Option<String>,
}

/// Handshakes and connections of WebSocket. A request of the measurement is a message, and its response the same message from the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebSocket {
    /// Complete opening handshakes.
    pub handshakes: u64,
    /// From the open connection (over TLS: from the end of its handshake) until the client could send its message.
    pub handshake: Option<Latency>,
    /// Pings of the server, each of which got its pong.
    pub pings: u64,
    /// Of the requests in [`Errors::closed`]: how many had which close code; 1005 without a code, 1006 without a close frame.
    pub closes: BTreeMap<u16, u64>,
    /// What was wrong with the first upgrade that was refused, or the first invalid handshake or frame.
    pub first_error: Option<String>,
}

/// How chat calls ended, and when their tokens came. A call with an unexpected status is in [`Errors::status`], one that ran into its timeout in
/// [`Errors::timeout`]. An error event is an `invalid_response` among the errors; a cut response is a `reset`, or an `invalid_response` where its framing was broken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chat {
    /// Responses with an end reason for every choice and a body that ended properly.
    pub complete: u64,
    /// Responses with an error event, or with what is not of the API.
    pub error_events: u64,
    /// Responses that began, and ended without an end reason or in the middle of the body.
    pub cut: u64,
    /// Complete calls within the objective (`slo`); null without one.
    pub good: Option<u64>,
    /// Tokens of the complete calls, as the server counts them.
    pub output_tokens: u64,
    /// Complete calls whose tokens the server did not count: `output_tokens` has their events with content.
    pub uncounted: u64,
    /// Complete streams: from the intended send to the first event with content.
    pub ttft: Option<Latency>,
    /// Complete streams: between one event with content and the next. 0 where they came in one read.
    pub inter_token: Option<Latency>,
}

/// Events of event streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// Events that came.
    pub received: u64,
    /// Reads of the generator in which at least one event ended: fewer than `received` where events were merged on their way.
    pub arrivals: u64,
}

/// Counts of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// Requests that the plan held until it ended; equal to sent + dropped, plus those whose connection or message could not be made.
    pub scheduled: Option<u64>,
    /// Requests of which at least the first byte was sent.
    pub sent: Option<u64>,
    /// Complete responses, whatever their status.
    #[serde(alias = "answered")]
    pub responses: Option<u64>,
    /// Those of `responses` that came after the end of the phase; they are in the latency and not in the achieved rate.
    #[serde(alias = "answered_late")]
    pub late_responses: Option<u64>,
    /// Requests that were due and never sent, because no connection was free before the deadline.
    pub dropped: Option<u64>,
    /// Those of `dropped` for which a connection was free when they were due: the generator's own doing. Null where a tool does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_free: Option<u64>,
    /// Requests in flight when the run was cut short. (When it was not, a request without a response is a timeout.)
    #[serde(alias = "unanswered")]
    pub no_response: Option<u64>,
}

/// Requests per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// What the plan requested, the mean over the duration; null in a closed loop.
    pub requested: Option<f64>,
    /// Responses within the duration, over the duration.
    pub achieved: Option<f64>,
}

/// Requests that went wrong, by kind. A request is counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// The connection could not be made.
    pub connect: Option<u64>,
    /// The connection was closed or reset before the response was complete.
    pub reset: Option<u64>,
    /// No complete response before the deadline.
    pub timeout: Option<u64>,
    /// A complete response with a status that the operation does not expect.
    pub status: Option<u64>,
    /// Bytes that are no valid response; of WebSocket also a message that is not the one that was sent, and of gRPC a stream with too few messages.
    #[serde(alias = "bad_reply")]
    pub invalid_response: Option<u64>,
    /// A handshake of TLS failed, the server violated TLS, or a response without a length ended without `close_notify`; null without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<u64>,
    /// A connection of WebSocket was closed, or ended without a close frame, while a message was awaited; null for other requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<u64>,
    /// The values of the request made no message of gRPC, so that it was not sent; null for other requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent: Option<u64>,
    /// All of them; null only when the tool does not count errors. Some tools give nothing but this.
    pub total: Option<u64>,
}

/// Bytes on the wire above TCP, and above TLS where that is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bytes {
    /// To the server.
    pub sent: Option<u64>,
    /// From the server.
    pub received: Option<u64>,
    /// To the server, bodies alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bodies: Option<u64>,
}

/// One second of the run. A response belongs to the second in which it came, a sent request to that in which it was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Which: 0 is the first of the run. The last one may be shorter than a second.
    pub at_s: u32,
    /// Requests sent.
    pub sent: Option<u64>,
    /// Complete responses, whatever their status.
    #[serde(alias = "answered")]
    pub responses: Option<u64>,
    /// Of those, the ones with 2xx.
    #[serde(default)]
    pub succeeded: Option<u64>,
    /// Requests that went wrong.
    pub errors: Option<u64>,
    /// Requests given up before they were sent.
    pub dropped: Option<u64>,
    /// Bytes received.
    pub received_bytes: Option<u64>,
    /// Of the responses of this second; with two significant digits, to keep the document small.
    pub latency: Option<Latency>,
}

impl Report {
    /// An empty report of a generator, to be filled by a reader of its results.
    pub fn of(generator: &str) -> Self {
        Report {
            format: FORMAT,
            generator: Generator { name: generator.to_owned(), ..Generator::default() },
            started_unix_ms: None,
            truncated: None,
            total: Measurement::default(),
            operations: Vec::new(),
            phases: Vec::new(),
            seconds: Vec::new(),
        }
    }

    /// Reads a report from JSON.
    ///
    /// # Errors
    /// What is wrong, with line and column; also for a later format.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        let report: Report = serde_json::from_str(text)?;
        if report.format > FORMAT {
            return Err(ReadError::Format(report.format));
        }
        Ok(report)
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// None in practice: a report holds nothing that JSON cannot.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

/// Why a report could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not the JSON of a report.
    #[error("not a report of gauge: {0}")]
    Json(#[from] serde_json::Error),
    /// Written by a later version.
    #[error("the report has format {0}, and this gauge reads formats up to {FORMAT}: use a later gauge")]
    Format(u32),
}

impl Measurement {
    /// Requests that came to an end, good or bad: responses, and requests that went wrong without one. The base of an error rate.
    pub fn ended(&self) -> Option<u64> {
        let without_response = self.errors.total.map(|total| total - self.errors.status.unwrap_or(0).min(total));
        match (self.requests.responses, without_response) {
            (Some(responses), Some(without_response)) => Some(responses + without_response),
            (Some(responses), None) => Some(responses),
            (None, _) => None,
        }
    }

    /// Share of requests that went wrong, from 0 to 1; null where errors were not counted or nothing ended.
    pub fn error_rate(&self) -> Option<f64> {
        match (self.errors.total, self.ended()) {
            (Some(errors), Some(ended)) if ended > 0 => Some(errors as f64 / ended as f64),
            _ => None,
        }
    }

    /// Share of the responses that showed what is counted apart, from 0 to 1.
    pub fn marked_share(&self) -> Option<f64> {
        match (self.marked, self.requests.responses) {
            (Some(marked), Some(responses)) if responses > 0 => Some(marked as f64 / responses as f64),
            _ => None,
        }
    }

    /// Tokens of complete calls per second.
    pub fn tokens_per_second(&self) -> Option<f64> {
        let duration = self.duration_s.filter(|duration| *duration > 0.0)?;
        Some(self.chat.as_ref()?.output_tokens as f64 / duration)
    }

    /// Goodput: complete calls within the objective, per second.
    pub fn goodput(&self) -> Option<f64> {
        let duration = self.duration_s.filter(|duration| *duration > 0.0)?;
        Some(self.chat.as_ref()?.good? as f64 / duration)
    }

    /// Share of the scheduled requests that were dropped, from 0 to 1.
    pub fn drop_rate(&self) -> Option<f64> {
        match (self.requests.dropped, self.requests.scheduled) {
            (Some(dropped), Some(scheduled)) if scheduled > 0 => Some(dropped as f64 / scheduled as f64),
            _ => None,
        }
    }
}

impl Errors {
    /// All kinds counted and none seen.
    pub fn none() -> Self {
        Errors {
            connect: Some(0),
            reset: Some(0),
            timeout: Some(0),
            status: Some(0),
            invalid_response: Some(0),
            tls: None,
            closed: None,
            unsent: None,
            total: Some(0),
        }
    }
}

#[cfg(test)]
mod tests;
