//! It ended before its plan did.

use super::Context;
use super::words::{number, percent};
use crate::results::Report;

/// Share of the planned length or number that must be there: tools end a run up to a few percent early or late.
const COMPLETE: f64 = 0.95;

pub(super) fn look(report: &Report, context: &Context<'_>) -> Option<String> {
    if let Some(reason) = &report.truncated {
        let ran = report.total.duration_s.map_or(String::new(), |seconds| format!(" after {} s", number(seconds)));
        return Some(format!("it ended early{ran}: {reason}"));
    }
    if let (Some(planned), Some(ran)) = (context.planned.duration_s, report.total.duration_s)
        && ran < planned * COMPLETE
    {
        return Some(format!(
            "it ran {} s of the {} s that were planned ({}); its throughput is over the shorter time",
            number(ran),
            number(planned),
            percent(ran / planned)
        ));
    }
    if let (Some(planned), Some(ended)) = (context.planned.requests, report.total.ended())
        && (ended as f64) < planned as f64 * COMPLETE
    {
        return Some(format!("{} of the {} planned requests were made", number(ended as f64), number(planned as f64)));
    }
    None
}
