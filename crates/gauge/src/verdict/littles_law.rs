//! Little's law: users = throughput x (response time + think time), on the average (Little: A Proof for the Queuing Formula L = lambda W, 1961). It holds for
//! any system whatever happens in it, so figures that break it are not of the same run, or one of them is wrong.

use super::words::{number, percent, time};
use super::{Context, concurrency};
use crate::results::Report;
use crate::results::report::LatencyFrom;

/// How far apart the two sides may be. Tools print three digits and round the number of requests at both ends; more than a tenth is no rounding.
const TOLERANCE: f64 = 0.10;

/// Requests of each user from which on the run's ends no longer matter: a user that has ended its part earlier than others is counted as if it went on.
const REQUESTS_PER_USER: f64 = 20.0;

/// Generators whose users never think; of the others the script or the workload may say so, and the results do not.
const WITHOUT_THINKING: [&str; 4] = ["wrk", "hey", "ab", "oha"];

/// Tools print times rounded; one that is the last digit or two of what they print proves nothing.
const FINEST_OF_HEY_MS: f64 = 0.1;

pub(super) fn look(report: &Report, context: &Context<'_>) -> Option<String> {
    let total = &report.total;
    let users = concurrency(report, context)?;
    let rate = total.rate.achieved.filter(|rate| *rate > 0.0)?;
    let mean_ms = total.latency.as_ref()?.mean_ms?;
    let open = total.rate.requested.or(context.planned.rate).is_some();
    // In an open loop a response time from when the request was due holds the waiting for a connection, which occupies none.
    let waiting_ms = match (open, report.generator.latency_from) {
        (true, Some(LatencyFrom::Due)) => total.lag.as_ref().and_then(|lag| lag.mean_ms)?,
        _ => 0.0,
    };
    let rounding_ms = if report.generator.name == "hey" { FINEST_OF_HEY_MS / 2.0 } else { 0.0 };
    let think_ms = context.planned.think_s.unwrap_or(0.0) * 1e3;
    let needed = |mean_ms: f64| rate * (mean_ms + think_ms - waiting_ms).max(0.0) / 1e3;
    let thinking = if think_ms > 0.0 { format!(" and think {}", time(think_ms)) } else { String::new() };
    if needed(mean_ms - rounding_ms) > users * (1.0 + TOLERANCE) {
        let bound = users / (mean_ms + think_ms - waiting_ms) * 1e3;
        let corrected = if report.generator.name == "wrk" {
            " (wrk adds made-up samples to its times where it takes one for a stall, so its mean is not that of its requests)"
        } else {
            ""
        };
        return Some(format!(
            "{} users that wait {}{thinking} for each response make at most {} requests/s, and {} are claimed: {} more{corrected}",
            number(users),
            time(mean_ms - waiting_ms),
            number(bound),
            number(rate),
            percent(rate / bound - 1.0),
        ));
    }
    // Fewer than there were: only where every user sends its next request at once, and often enough that the run's ends do not matter.
    let requests = total.requests.responses? as f64;
    let known = context.planned.think_s.is_some() || WITHOUT_THINKING.contains(&report.generator.name.as_str());
    // The most users that there were is not their mean.
    let known = known && (report.generator.name != "k6" || context.planned.concurrency.is_some());
    let failed = total.errors.total.is_some_and(|errors| errors as f64 > requests * TOLERANCE / 2.0);
    // The time that a user waited for a response that never came is in no latency.
    let without_response = |count: Option<u64>| count.is_some_and(|count| count > 0);
    let errors = &total.errors;
    let failed = failed
        || [
            errors.connect,
            errors.reset,
            errors.timeout,
            errors.invalid_response,
            errors.tls,
            errors.closed,
            errors.unsent,
            total.requests.no_response,
        ]
        .into_iter()
        .any(without_response);
    if open || !known || failed || requests < users * REQUESTS_PER_USER {
        return None;
    }
    if needed(mean_ms + rounding_ms) < users * (1.0 - TOLERANCE) {
        return Some(format!(
            "{} users that wait {}{thinking} for each response make {} requests/s, and only {} are claimed: for {} of the time they did \
             something that is not in the figures",
            number(users),
            time(mean_ms),
            number(users / (mean_ms + think_ms) * 1e3),
            number(rate),
            percent(1.0 - needed(mean_ms) / users),
        ));
    }
    None
}
