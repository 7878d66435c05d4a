//! The host gave processor time to others.

use super::Context;
use super::words::percent;
use crate::load::Report;

/// Share of the processors' time that may be stolen: beyond it a p99 is the host's.
const STOLEN: f64 = 0.01;

pub(super) fn look(_report: &Report, context: &Context<'_>) -> Option<String> {
    let stolen = context.observed?.machine.steal.filter(|stolen| *stolen > STOLEN)?;
    Some(format!(
        "the host gave {} of the processors' time to others meanwhile (at most {} is allowed)",
        percent(stolen),
        percent(STOLEN)
    ))
}
