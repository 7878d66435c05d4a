//! wrk, and wrk2, which prints a longer list of percentiles.

use super::text::{after, bytes, finite, leading, set_percentile, time_ms};
use super::{Format, ReadError};
use crate::results::report::{Errors, Latency, LatencyFrom, Report};

pub(super) fn read(text: &str) -> Result<Report, ReadError> {
    let missing = |what: &str| Format::Wrk.broken(format!("the line with {what} is missing"));
    let mut report = Report::of("wrk");
    let threads = text.lines().find(|line| line.contains(" threads and ") && line.contains(" connections"));
    if let Some((threads, connections)) = threads.and_then(|line| line.split_once(" threads and ")) {
        report.generator.threads = leading(threads);
        report.total.concurrency = leading(connections);
    }
    report.generator.protocol = Some("HTTP/1.1".to_owned());
    // Only wrk2 counts from when a request was due.
    let is_wrk2 = text.contains("Thread calibration") || text.contains("Detailed Percentile spectrum");
    report.generator.latency_from = Some(if is_wrk2 { LatencyFrom::Due } else { LatencyFrom::Sent });

    let totals =
        text.lines().find(|line| line.contains(" requests in ")).ok_or_else(|| missing("`N requests in T`"))?;
    let (responses, rest) = totals.split_once(" requests in ").ok_or_else(|| missing("`N requests in T`"))?;
    let (duration, read) = rest.split_once(',').unwrap_or((rest, ""));
    let responses: u64 = leading(responses).ok_or_else(|| missing("the number of requests"))?;
    let total = &mut report.total;
    total.duration_s = time_ms(duration).map(|ms| ms / 1e3);
    total.requests.responses = Some(responses);
    total.bytes.received = bytes(read.trim().trim_end_matches("read").trim());
    total.rate.achieved = after(text, "Requests/sec:").and_then(leading);

    // Lines about errors are there only when there were some.
    let socket = after(text, "Socket errors:").unwrap_or_default();
    let count = |kind: &str| -> u64 {
        socket.split(',').find_map(|part| part.trim().strip_prefix(kind)).and_then(leading).unwrap_or(0)
    };
    let status = after(text, "Non-2xx or 3xx responses:").and_then(leading).unwrap_or(0);
    let (connect, reset, timeout) = (count("connect "), count("read ") + count("write "), count("timeout "));
    total.errors = Errors {
        connect: Some(connect),
        reset: Some(reset),
        timeout: Some(timeout),
        status: Some(status),
        invalid_response: None,
        tls: None,
        closed: None,
        unsent: None,
        total: Some(connect + reset + timeout + status),
    };

    let mut latency = Latency { count: Some(responses), ..Latency::default() };
    let stats = text.lines().find_map(|line| line.trim_start().strip_prefix("Latency ")).unwrap_or_default();
    let mut stats = stats.split_ascii_whitespace().map(time_ms);
    if let (Some(mean), Some(deviation), Some(max)) = (stats.next(), stats.next(), stats.next()) {
        (latency.mean_ms, latency.stdev_ms, latency.max_ms) = (mean, deviation, max);
    }
    for line in text.lines().filter(|line| line.contains('%')) {
        if let Some((percentile, value)) = line.trim().split_once('%')
            && let (Ok(percentile), Some(ms)) = (percentile.parse::<f64>(), time_ms(value))
            && finite(percentile).is_some()
        {
            set_percentile(&mut latency, percentile, ms);
        }
    }
    if latency.mean_ms.is_some() {
        total.latency = Some(latency);
    }
    Ok(report)
}
