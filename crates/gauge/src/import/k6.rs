//! k6: the summary in both of its forms. `--summary-export` writes `{"metrics": {"http_reqs": {"count": 1, ...}}}`; `handleSummary`
//! gets `{"metrics": {"http_reqs": {"type": "counter", "values": {"count": 1, ...}}}, "state": {...}}`.

use serde_json::Value;

use super::text::{finite, set_percentile};
use super::{Format, ReadError};
use crate::results::report::{Latency, LatencyFrom, Report};

pub(super) fn read(text: &str) -> Result<Report, ReadError> {
    let summary: Value = serde_json::from_str(text).map_err(|error| Format::K6.broken(error))?;
    let metric = |name: &str| {
        let metric = summary.get("metrics")?.get(name)?;
        Some(metric.get("values").unwrap_or(metric))
    };
    let number = |name: &str, key: &str| metric(name)?.get(key)?.as_f64().and_then(finite);
    let count = |name: &str, key: &str| number(name, key).map(|number| number as u64);
    let mut report = Report::of("k6");
    report.generator.latency_from = Some(LatencyFrom::Sent);
    // A gRPC script has no http_* metrics: its calls are counted by nobody but its iterations, and what failed by nobody at all.
    let grpc = metric("http_reqs").is_none() && metric("grpc_req_duration").is_some();
    let (requests, durations) =
        if grpc { ("iterations", "grpc_req_duration") } else { ("http_reqs", "http_req_duration") };
    let ended = count(requests, "count").ok_or_else(|| Format::K6.broken(format!("it has no metric {requests}")))?;
    let rate = number(requests, "rate");
    let total = &mut report.total;
    let state = summary.pointer("/state/testRunDurationMs").and_then(Value::as_f64).and_then(finite);
    total.duration_s = match (state, rate) {
        (Some(ms), _) => Some(ms / 1e3),
        (None, Some(rate)) if rate > 0.0 => finite(ended as f64 / rate),
        _ => None,
    };
    total.concurrency = number("vus", "max").or_else(|| number("vus_max", "max"));
    total.requests.dropped = count("dropped_iterations", "count");
    total.rate.achieved = rate;
    // http_reqs holds requests that failed without a response; the summary does not tell them apart.
    total.requests.responses = Some(ended);
    // A rate metric counts how often it was true as "passes": here, requests that failed.
    let failed = count("http_req_failed", "passes").or_else(|| {
        let share = number("http_req_failed", "value").or_else(|| number("http_req_failed", "rate"))?;
        Some((share * ended as f64).round() as u64)
    });
    total.errors.total = failed;
    // So that nothing is counted twice: see `Measurement::ended`.
    total.errors.status = failed;
    total.bytes.sent = count("data_sent", "count");
    total.bytes.received = count("data_received", "count");
    if let Some(trend) = metric(durations) {
        let ms = |key: &str| trend.get(key).and_then(Value::as_f64).and_then(finite);
        let mut latency = Latency {
            count: count(durations, "count").or(Some(ended)),
            min_ms: ms("min"),
            mean_ms: ms("avg"),
            max_ms: ms("max"),
            p50_ms: ms("med"),
            ..Latency::default()
        };
        for (key, value) in trend.as_object().into_iter().flatten() {
            let percentile = key.strip_prefix("p(").and_then(|rest| rest.strip_suffix(')'));
            if let (Some(Ok(percentile)), Some(ms)) = (percentile.map(str::parse), value.as_f64()) {
                set_percentile(&mut latency, percentile, ms);
            }
        }
        total.latency = Some(latency);
    }
    Ok(report)
}
