//! What reached the upstream is not what was sent: a gateway that responds by itself, drops, doubles or shortens requests is not compared with one that
//! passes them on.

use super::Context;
use super::words::{number, percent};
use crate::results::Report;

/// Share of the requests with a response that may be missing at the upstream.
const MISSING: f64 = 0.001;
/// Share of the sent requests that may come twice: a gateway sends a request again when an idle connection was closed just then.
const TWICE: f64 = 0.01;
/// So few requests more are no matter of share.
const FEW: u64 = 10;

pub(super) fn look(report: &Report, context: &Context<'_>) -> Option<String> {
    let reached = context.observed?.reached?;
    let total = &report.total;
    // Others' generators are cut off with requests in flight.
    let exact = report.generator.name == "gauge";
    if let Some(sent) = total.requests.sent.filter(|_| exact)
        && reached.requests > sent + FEW.max((sent as f64 * TWICE) as u64)
    {
        let (reached, sent) = (number(reached.requests as f64), number(sent as f64));
        return Some(format!("{reached} requests reached the upstream, and {sent} were sent"));
    }
    // A cache responds by itself, and is compared as one.
    if context.treatment.is_some() {
        return None;
    }
    // So does a limit, and errors are judged as such.
    let limited = total.statuses.as_ref().and_then(|statuses| statuses.get(&429)).copied().unwrap_or(0);
    let errors = total.errors.status.unwrap_or(0);
    let received = total.requests.responses?.saturating_sub(limited + errors);
    let missing = received.saturating_sub(reached.requests);
    if missing as f64 > received as f64 * MISSING {
        let share = percent(missing as f64 / received as f64);
        let (missing, responses) = (number(missing as f64), number(received as f64));
        return Some(format!("{missing} of {responses} requests with a response ({share}) did not reach the upstream"));
    }
    // Bodies can be compared where each request is known to have come once.
    let sent = total.bytes.sent_bodies.filter(|_| exact && limited + errors == 0)?;
    (total.requests.sent == Some(reached.requests) && sent != reached.body_bytes).then(|| {
        let (reached, sent) = (number(reached.body_bytes as f64), number(sent as f64));
        format!("request bodies of {sent} bytes were sent, and {reached} bytes reached the upstream")
    })
}
