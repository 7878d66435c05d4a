//! oha: `--output-format json`. Durations are seconds.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::text::{finite, set_percentile};
use super::{Format, ReadError};
use crate::results::report::{Errors, Latency, LatencyFrom, Report};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    summary: Summary,
    latency_percentiles: BTreeMap<String, Option<f64>>,
    status_code_distribution: BTreeMap<String, u64>,
    #[serde(default)]
    error_distribution: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    total: f64,
    slowest: Option<f64>,
    fastest: Option<f64>,
    average: Option<f64>,
    #[serde(default)]
    total_data: Option<u64>,
}

/// Requests in flight when the time was up: neither completed nor failed.
const AT_THE_END: &str = "aborted due to deadline";

pub(super) fn read(text: &str) -> Result<Report, ReadError> {
    let document: Document = serde_json::from_str(text).map_err(|error| Format::Oha.broken(error))?;
    let mut report = Report::of("oha");
    // With --latency-correction it counts from when a request was due; its output does not say.
    report.generator.latency_from = Some(LatencyFrom::Sent);
    let statuses: BTreeMap<u16, u64> = document
        .status_code_distribution
        .iter()
        .filter_map(|(status, count)| Some((status.parse().ok()?, *count)))
        .collect();
    let responses: u64 = statuses.values().sum();
    let unexpected: u64 =
        statuses.iter().filter(|(status, _)| !(200..400).contains(*status)).map(|(_, count)| count).sum();
    let mut errors = Errors { status: Some(unexpected), total: Some(unexpected), ..Errors::none() };
    let mut no_response = 0;
    for (what, count) in &document.error_distribution {
        if what == AT_THE_END {
            no_response += count;
            continue;
        }
        let what = what.to_ascii_lowercase();
        let kind = if what.contains("refused") || what.contains("connect") && !what.contains("closed") {
            &mut errors.connect
        } else if what.contains("timeout") || what.contains("timed out") {
            &mut errors.timeout
        } else if what.contains("invalid") || what.contains("parse") {
            &mut errors.invalid_response
        } else {
            &mut errors.reset
        };
        *kind = kind.map(|sum| sum + count);
        errors.total = errors.total.map(|sum| sum + count);
    }
    let total = &mut report.total;
    total.duration_s = finite(document.summary.total);
    total.requests.responses = Some(responses);
    total.requests.no_response = Some(no_response);
    total.rate.achieved = finite(responses as f64 / document.summary.total);
    total.statuses = Some(statuses);
    total.errors = errors;
    // Bodies only.
    total.bytes.received = document.summary.total_data;
    if responses > 0 {
        let ms = |seconds: Option<f64>| seconds.and_then(finite).map(|seconds| seconds * 1e3);
        let mut latency = Latency {
            count: Some(responses),
            min_ms: ms(document.summary.fastest),
            mean_ms: ms(document.summary.average),
            max_ms: ms(document.summary.slowest),
            ..Latency::default()
        };
        for (name, seconds) in &document.latency_percentiles {
            if let (Some(Ok(percentile)), Some(ms)) = (name.strip_prefix('p').map(str::parse), ms(*seconds)) {
                set_percentile(&mut latency, percentile, ms);
            }
        }
        total.latency = Some(latency);
    }
    Ok(report)
}
