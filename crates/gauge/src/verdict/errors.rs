//! Requests went wrong. A fast 502 is not speed.

use super::Context;
use super::words::{number, percent};
use crate::results::Report;
use crate::results::report::Measurement;

pub(super) fn look(report: &Report, _context: &Context<'_>) -> Option<String> {
    let total = &report.total;
    let errors = total.errors.total.filter(|errors| *errors > 0)?;
    let share = total.error_rate().map_or(String::new(), |share| format!(" ({})", percent(share)));
    let ended = total.ended().map_or(String::new(), |ended| format!(" of {}", number(ended as f64)));
    let kinds = kinds(total);
    let kinds = if kinds.is_empty() { String::new() } else { format!(": {}", kinds.join(", ")) };
    Some(format!("{}{ended} requests went wrong{share}{kinds}", number(errors as f64)))
}

/// Share of the requests that may go wrong where the objective does not say.
pub const ALLOWED_ERRORS: f64 = 0.001;

/// More than the objective allows: the trial failed.
pub(super) fn too_many(report: &Report, context: &Context<'_>) -> Option<String> {
    let allowed = context.allowed_errors?;
    let rate = report.total.error_rate().filter(|rate| *rate > allowed)?;
    Some(format!("{} of the requests went wrong (at most {} is allowed)", percent(rate), percent(allowed)))
}

/// What went wrong, as far as it was distinguished.
fn kinds(total: &Measurement) -> Vec<String> {
    let errors = &total.errors;
    let mut kinds: Vec<String> = [
        ("not connected", errors.connect),
        ("reset", errors.reset),
        ("timed out", errors.timeout),
        ("unexpected status", errors.status),
        ("bad reply", errors.invalid_response),
        ("of TLS", errors.tls),
        ("closed", errors.closed),
        ("not sent", errors.unsent),
    ]
    .into_iter()
    .filter_map(|(name, count)| Some(format!("{} {name}", number(count.filter(|count| *count > 0)? as f64))))
    .collect();
    if let Some(statuses) = &total.statuses {
        let responses: Vec<String> =
            statuses.iter().map(|(status, count)| format!("{} x {status}", number(*count as f64))).collect();
        if statuses.len() > 1 || statuses.keys().any(|status| !(200..400).contains(status) && *status != 101) {
            kinds.push(format!("responses {}", responses.join(" ")));
        }
    }
    kinds
}
