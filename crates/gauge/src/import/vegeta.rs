//! vegeta: `vegeta report -type=json`. Durations are nanoseconds.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::text::finite;
use super::{Format, ReadError};
use crate::results::report::{Errors, Latency, LatencyFrom, Report};

#[derive(Deserialize)]
struct Document {
    latencies: Latencies,
    bytes_in: Bytes,
    bytes_out: Bytes,
    duration: f64,
    #[serde(default)]
    wait: f64,
    requests: u64,
    status_codes: BTreeMap<String, u64>,
    #[serde(default)]
    errors: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Latencies {
    mean: f64,
    max: f64,
    #[serde(default)]
    min: Option<f64>,
    #[serde(rename = "50th")]
    p50: f64,
    #[serde(rename = "90th", default)]
    p90: Option<f64>,
    #[serde(rename = "95th")]
    p95: f64,
    #[serde(rename = "99th")]
    p99: f64,
}

#[derive(Deserialize)]
struct Bytes {
    total: u64,
}

pub(super) fn read(text: &str) -> Result<Report, ReadError> {
    let document: Document = serde_json::from_str(text).map_err(|error| Format::Vegeta.broken(error))?;
    let mut report = Report::of("vegeta");
    report.generator.latency_from = Some(LatencyFrom::Sent);
    let total = &mut report.total;
    let seconds = finite((document.duration + document.wait) / 1e9).filter(|seconds| *seconds > 0.0);
    // Status 0: no response.
    let no_response = document.status_codes.get("0").copied().unwrap_or(0);
    let responses = document.requests.saturating_sub(no_response);
    let statuses: BTreeMap<u16, u64> = document
        .status_codes
        .iter()
        .filter_map(|(status, count)| Some((status.parse().ok().filter(|status| *status > 0)?, *count)))
        .collect();
    let unexpected: u64 =
        statuses.iter().filter(|(status, _)| !(200..400).contains(*status)).map(|(_, count)| count).sum();
    total.duration_s = seconds;
    total.requests.sent = Some(document.requests);
    total.requests.responses = Some(responses);
    total.rate.achieved = seconds.map(|seconds| responses as f64 / seconds);
    total.statuses = Some(statuses);
    // Messages of errors are listed once each, without their number: what kind the unanswered were is known only when there is one.
    let messages = document.errors.unwrap_or_default();
    let all = |words: &[&str]| -> Option<u64> {
        let is = |message: &String| words.iter().any(|word| message.contains(word));
        let own: Vec<&String> =
            messages.iter().filter(|message| !message.starts_with(|c: char| c.is_ascii_digit())).collect();
        match own.iter().filter(|message| is(message)).count() {
            0 => Some(0),
            number if number == own.len() => Some(no_response),
            _ => None,
        }
    };
    total.errors = Errors {
        connect: all(&["refused", "dial ", "no such host"]),
        timeout: all(&["deadline", "imeout"]),
        reset: all(&["reset", "EOF", "broken pipe"]),
        invalid_response: all(&["malformed"]),
        tls: None,
        closed: None,
        unsent: None,
        status: Some(unexpected),
        total: Some(no_response + unexpected),
    };
    total.bytes.received = Some(document.bytes_in.total);
    total.bytes.sent = Some(document.bytes_out.total);
    let ms = |ns: f64| finite(ns / 1e6);
    // Failed requests are in vegeta's latencies too.
    total.latency = Some(Latency {
        count: Some(document.requests),
        min_ms: document.latencies.min.and_then(ms),
        mean_ms: ms(document.latencies.mean),
        max_ms: ms(document.latencies.max),
        p50_ms: ms(document.latencies.p50),
        p90_ms: document.latencies.p90.and_then(ms),
        p95_ms: ms(document.latencies.p95),
        p99_ms: ms(document.latencies.p99),
        ..Latency::default()
    });
    Ok(report)
}
