//! Pieces of text that several tools write alike.

use crate::results::report::{Histogram, Latency, SAMPLES};

/// `1.23ms` and the like, in milliseconds.
pub(super) fn time_ms(text: &str) -> Option<f64> {
    let text = text.trim();
    let unit = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ')?;
    let number: f64 = text[..unit].parse().ok()?;
    let scale = match &text[unit..] {
        "ns" => 1e-6,
        "us" | "µs" => 1e-3,
        "ms" => 1.0,
        "s" | "secs" => 1e3,
        "m" => 60e3,
        "h" => 3600e3,
        _ => return None,
    };
    finite(number * scale)
}

/// `7.11MB` and the like in bytes (1 KB is 1,024 bytes, as wrk counts).
pub(super) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..unit].parse().ok()?;
    let scale = match &text[unit..] {
        "B" => 1.0,
        "KB" => 1024.0,
        "MB" => 1024.0 * 1024.0,
        "GB" => 1024.0 * 1024.0 * 1024.0,
        "TB" => 1024.0_f64.powi(4),
        _ => return None,
    };
    finite(number * scale).map(|bytes| bytes as u64)
}

/// A number that is one.
pub(super) fn finite(number: f64) -> Option<f64> {
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// The number that `text` begins with, after white space.
pub(super) fn leading<T: std::str::FromStr>(text: &str) -> Option<T> {
    let text = text.trim_start();
    text[..text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len())].parse().ok()
}

/// What follows `label` on its line.
pub(super) fn after<'t>(text: &'t str, label: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.trim_start().strip_prefix(label)).map(str::trim)
}

/// Durations one by one: exact where they are few.
pub(super) fn latency(samples_ns: Vec<u64>) -> Option<Latency> {
    if samples_ns.len() <= SAMPLES {
        return Latency::of_samples(samples_ns);
    }
    let mut histogram = Histogram::default();
    samples_ns.into_iter().for_each(|sample| histogram.record(sample));
    Latency::of(histogram)
}

/// Sets the percentile with this number (50, 99.9), if it is one of those that a report has.
pub(crate) fn set_percentile(latency: &mut Latency, percentile: f64, ms: f64) {
    let is = |known: f64| (percentile - known).abs() < 1e-9;
    let place = match percentile {
        _ if is(50.0) => &mut latency.p50_ms,
        _ if is(75.0) => &mut latency.p75_ms,
        _ if is(90.0) => &mut latency.p90_ms,
        _ if is(95.0) => &mut latency.p95_ms,
        _ if is(99.0) => &mut latency.p99_ms,
        _ if is(99.9) => &mut latency.p999_ms,
        _ => return,
    };
    *place = Some(ms);
}
