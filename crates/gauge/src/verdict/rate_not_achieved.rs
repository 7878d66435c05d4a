//! Fewer responses came than were requested: latencies are then those of another, lower rate.

use super::words::{number, percent};
use super::{Context, requested_rate};
use crate::results::Report;

/// Share of the requested rate that must get a response before the deadline. The requests in flight at the end, and a Poisson pace, take up to 1 % in short runs.
pub(super) const REACHED: f64 = 0.99;

/// A pace drawn at random reaches its rate only so nearly: standard deviations of the number of requests that are allowed where the generator does not say
/// how many were due.
const DEVIATIONS: f64 = 3.0;

/// Requests in flight at the end excuse no more than this.
const SHORT: f64 = 0.05;

/// Share of the due requests that may be dropped.
pub(crate) const DROPPED: f64 = 0.001;

pub(super) fn look(report: &Report, context: &Context<'_>) -> Option<String> {
    let requested = requested_rate(report, context)?;
    let total = &report.total;
    let achieved = total.rate.achieved?;
    let dropped = total.drop_rate().filter(|dropped| *dropped > DROPPED);
    let seconds = total.duration_s.unwrap_or(f64::INFINITY);
    // Those that were due, where that is known; a random pace makes now more, now fewer.
    let due = total.requests.scheduled.map(|scheduled| scheduled as f64 / seconds).filter(|due| *due > 0.0);
    let random = if due.is_some() { 0.0 } else { DEVIATIONS / (requested * seconds).max(1.0).sqrt() };
    // At the end of a run some are in flight.
    let in_flight =
        total.latency.as_ref().and_then(|latency| latency.mean_ms).map_or(0.0, |ms| 2.0 * ms / 1e3 / seconds);
    let slack = (1.0 - REACHED).max(random).max(in_flight.min(SHORT));
    let requested = due.unwrap_or(requested);
    if achieved < requested * (1.0 - slack) {
        let dropped =
            dropped.map_or(String::new(), |dropped| format!("; {} of the requests were never sent", percent(dropped)));
        return Some(format!(
            "{} requests/s were requested and {} responses came, {}{dropped}",
            number(requested),
            number(achieved),
            percent(achieved / requested),
        ));
    }
    dropped.map(|dropped| {
        format!(
            "{} of the requests that were due found no free connection before the timeout and were never sent (at most {} is allowed)",
            percent(dropped),
            percent(DROPPED)
        )
    })
}
