//! Nobody counted what went wrong: a rate without errors beside it may be one of refusals.

use super::Context;
use crate::results::Report;

pub(super) fn look(report: &Report, _context: &Context<'_>) -> Option<String> {
    let errors = &report.total.errors;
    if errors.total.is_some() {
        return None;
    }
    let partly: Vec<&str> = [
        ("refused connections", errors.connect),
        ("resets", errors.reset),
        ("time-outs", errors.timeout),
        ("unexpected statuses", errors.status),
        ("bad replies", errors.invalid_response),
    ]
    .into_iter()
    .filter_map(|(name, count)| count.map(|_| name))
    .collect();
    Some(if partly.is_empty() {
        format!(
            "the results of {} do not say how many requests went wrong: that is unknown, and not none",
            report.generator.name
        )
    } else {
        format!(
            "the results of {} count {} and leave out what went wrong otherwise",
            report.generator.name,
            partly.join(" and ")
        )
    })
}
