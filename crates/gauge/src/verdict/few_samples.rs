//! Too few samples for a percentile that is printed, or no percentile at all.

use super::Context;
use super::words::{number, time};
use crate::results::Report;
use crate::results::report::Latency;

/// Samples that a percentile needs: ten beyond it, so that one slow request does not make it.
pub const NEEDED: [(f64, u64); 5] = [(50.0, 20), (90.0, 100), (95.0, 200), (99.0, 1_000), (99.9, 10_000)];

/// Samples that this percentile needs.
pub fn needed(percentile: f64) -> u64 {
    // 1 / (1 - p) x 10, from the table, so that it is a whole number.
    NEEDED.iter().find(|(known, _)| *known >= percentile).map_or(u64::MAX, |(_, needed)| *needed)
}

pub(super) fn look(report: &Report, _context: &Context<'_>) -> Option<String> {
    let latency = report.total.latency.as_ref()?;
    if !has_percentiles(latency) {
        // wrk prints them only with `--latency`; without it the report has none to be wrong about.
        if report.generator.name == "wrk" {
            return None;
        }
        let mean = latency
            .mean_ms
            .map_or(String::new(), |mean| format!("; a mean of {} says nothing of the slowest", time(mean)));
        return Some(format!("the results hold no p90, p95 or p99{mean}"));
    }
    let count = latency.count.or(report.total.requests.responses)?;
    // p99.9 is in every report of Gauge's load generator, but printed only with enough samples; tables show the other percentiles.
    let (percentile, value) =
        [(99.0, latency.p99_ms), (95.0, latency.p95_ms), (90.0, latency.p90_ms), (50.0, latency.p50_ms)]
            .into_iter()
            .find_map(|(percentile, value)| Some((percentile, value?)))?;
    let needed = needed(percentile);
    (count < needed).then(|| {
        format!(
            "p{} = {} is of {} samples; it takes {} to say that",
            number(percentile),
            time(value),
            number(count as f64),
            number(needed as f64)
        )
    })
}

fn has_percentiles(latency: &Latency) -> bool {
    [latency.p90_ms, latency.p95_ms, latency.p99_ms, latency.p999_ms].iter().any(Option::is_some)
}
