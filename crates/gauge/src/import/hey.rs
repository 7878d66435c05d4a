//! hey: its text, and its list of requests.

use std::collections::BTreeMap;

use super::text::{after, finite, latency, leading, set_percentile};
use super::{Format, ReadError};
use crate::results::report::{Errors, Latency, LatencyFrom, Report};

pub(super) fn read(text: &str) -> Result<Report, ReadError> {
    let mut report = Report::of("hey");
    report.generator.latency_from = Some(LatencyFrom::Sent);
    let seconds = |label: &str| after(text, label).and_then(leading::<f64>).and_then(finite);
    let duration = seconds("Total:").ok_or_else(|| Format::Hey.broken("the line `Total:` is missing"))?;
    let total = &mut report.total;
    let (mut statuses, mut errors) = (BTreeMap::new(), Errors::none());
    let mut section = "";
    for line in text.lines().map(str::trim) {
        if line.ends_with("distribution:") {
            section = line;
            continue;
        }
        let counted = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        match (section, counted) {
            ("Status code distribution:", Some((status, count))) => {
                if let (Ok(status), Some(count)) = (status.parse::<u16>(), leading::<u64>(count)) {
                    *statuses.entry(status).or_default() += count;
                }
            }
            ("Error distribution:", Some((count, what))) => {
                if let Ok(count) = count.parse::<u64>() {
                    add_error(&mut errors, what, count);
                }
            }
            _ => {}
        }
    }
    let responses: u64 = statuses.values().sum();
    let unexpected: u64 =
        statuses.iter().filter(|(status, _)| !(200..400).contains(*status)).map(|(_, count)| count).sum();
    errors.status = Some(unexpected);
    errors.total = Some(errors.total.unwrap_or(0) + unexpected);
    total.duration_s = Some(duration);
    total.requests.responses = Some(responses);
    // Its own "Requests/sec" counts failed attempts too.
    total.rate.achieved = finite(responses as f64 / duration);
    total.statuses = Some(statuses);
    total.errors = errors;
    if responses > 0 {
        let ms = |label: &str| seconds(label).map(|seconds| seconds * 1e3);
        let mut latency = Latency {
            count: Some(responses),
            min_ms: ms("Fastest:"),
            mean_ms: ms("Average:"),
            max_ms: ms("Slowest:"),
            ..Latency::default()
        };
        for line in text.lines() {
            if let Some((percentile, value)) = line.trim().split_once("% in ")
                && let (Ok(percentile), Some(seconds)) = (percentile.parse(), leading::<f64>(value))
            {
                set_percentile(&mut latency, percentile, seconds * 1e3);
            }
        }
        total.latency = Some(latency);
    }
    Ok(report)
}

fn add_error(errors: &mut Errors, what: &str, count: u64) {
    let kind = if what.contains("refused") || what.contains("dial ") || what.contains("no such host") {
        &mut errors.connect
    } else if what.contains("deadline") || what.contains("imeout") {
        &mut errors.timeout
    } else if what.contains("malformed") {
        &mut errors.invalid_response
    } else {
        &mut errors.reset
    };
    *kind = kind.map(|sum| sum + count);
    errors.total = errors.total.map(|sum| sum + count);
}

/// Columns by name: `response-time` and `offset` in seconds, `status-code`.
pub(super) fn read_csv(text: &str) -> Result<Report, ReadError> {
    let broken = |problem: String| Format::HeyCsv.broken(problem);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| broken(error.to_string()))?.clone();
    let column = |name: &str| {
        headers.iter().position(|known| known == name).ok_or_else(|| broken(format!("the column {name} is missing")))
    };
    let (time, status, offset) = (column("response-time")?, column("status-code")?, column("offset")?);
    let mut samples = Vec::new();
    let mut statuses = BTreeMap::new();
    let (mut end, mut unexpected) = (0.0_f64, 0);
    for record in reader.records() {
        let record = record.map_err(|error| broken(error.to_string()))?;
        let number = |column: usize| record.get(column).and_then(|text| text.parse::<f64>().ok()).and_then(finite);
        let (Some(seconds), Some(begun), Some(code)) = (number(time), number(offset), number(status)) else {
            return Err(broken(format!("line {} holds no numbers", record.position().map_or(0, |at| at.line()))));
        };
        samples.push((seconds * 1e9) as u64);
        let code = code as u16;
        *statuses.entry(code).or_default() += 1;
        unexpected += u64::from(!(200..400).contains(&code));
        end = end.max(begun + seconds);
    }
    let mut report = Report::of("hey");
    report.generator.latency_from = Some(LatencyFrom::Sent);
    let responses = samples.len() as u64;
    let total = &mut report.total;
    total.requests.responses = Some(responses);
    total.duration_s = finite(end).filter(|end| *end > 0.0);
    total.rate.achieved = total.duration_s.map(|seconds| responses as f64 / seconds);
    total.statuses = Some(statuses);
    // The list leaves out requests that failed without a response.
    total.errors.status = Some(unexpected);
    total.latency = latency(samples);
    Ok(report)
}
