//! ab (ApacheBench).

use super::text::{after, finite, leading, set_percentile};
use super::{Format, ReadError};
use crate::results::report::{Errors, Latency, LatencyFrom, Report};

pub(super) fn read(text: &str) -> Result<Report, ReadError> {
    let missing = |what: &str| Format::Ab.broken(format!("the line `{what}` is missing"));
    let mut report = Report::of("ab");
    report.generator.latency_from = Some(LatencyFrom::Sent);
    report.generator.protocol = Some("HTTP/1.0".to_owned());
    report.generator.threads = Some(1);
    let count = |label: &str| after(text, label).and_then(leading::<u64>);
    let responses = count("Complete requests:").ok_or_else(|| missing("Complete requests:"))?;
    let total = &mut report.total;
    total.concurrency = after(text, "Concurrency Level:").and_then(leading);
    total.duration_s = after(text, "Time taken for tests:").and_then(leading).and_then(finite);
    total.rate.achieved = after(text, "Requests per second:").and_then(leading).and_then(finite);
    total.requests.responses = Some(responses);
    total.bytes.received = count("Total transferred:");
    total.bytes.sent = count("Total body sent:");

    let failed = count("Failed requests:").unwrap_or(0);
    let status = count("Non-2xx responses:").unwrap_or(0);
    // (Connect: 0, Receive: 0, Length: 3, Exceptions: 0), only when there were some. Length: another length than the first response's,
    // which is no failure of the exchange.
    let kinds = text.lines().find(|line| line.trim_start().starts_with("(Connect:")).unwrap_or_default();
    let kind = |label: &str| -> u64 {
        kinds.split_once(label).and_then(|(_, rest)| leading(rest.trim_start_matches(':'))).unwrap_or(0)
    };
    total.errors = Errors {
        connect: Some(kind("Connect")),
        reset: Some(kind("Receive") + kind("Exceptions")),
        timeout: None,
        status: Some(status),
        invalid_response: None,
        tls: None,
        closed: None,
        unsent: None,
        total: Some(failed.saturating_sub(kind("Length")) + status),
    };

    let mut latency = Latency { count: Some(responses), ..Latency::default() };
    let mut in_times = false;
    for line in text.lines() {
        in_times |= line.starts_with("Connection Times");
        // Min, mean, standard deviation, median, max.
        if let Some(columns) = line.strip_prefix("Total:").filter(|_| in_times) {
            let numbers: Vec<f64> = columns.split_ascii_whitespace().filter_map(|text| text.parse().ok()).collect();
            if let [min, mean, deviation, median, max] = numbers[..] {
                (latency.min_ms, latency.mean_ms, latency.stdev_ms) = (Some(min), Some(mean), Some(deviation));
                (latency.p50_ms, latency.max_ms) = (Some(median), Some(max));
            }
        }
        if let Some((percentile, value)) = line.trim().split_once('%')
            && let (Ok(percentile), Some(ms)) = (percentile.parse(), leading(value))
        {
            set_percentile(&mut latency, percentile, ms);
        }
    }
    if latency.mean_ms.is_some() {
        total.latency = Some(latency);
    }
    Ok(report)
}
