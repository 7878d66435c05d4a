//! Event streams ended with fewer events than without the gateway. Streams that break off are errors; these are complete, and still not whole.

use super::Context;
use super::words::{number, percent};
use crate::results::Report;
use crate::results::report::Measurement;

/// Share of the events that may be missing. Streams of one operation are alike, so any loss is one; this is for those whose length varies.
const MISSING: f64 = 0.001;

pub(super) fn look(report: &Report, context: &Context<'_>) -> Option<String> {
    report.operations.iter().find_map(|operation| {
        let direct = context.direct_operations.iter().find(|direct| direct.name == operation.name)?;
        let (own, direct) = (per_stream(&operation.total)?, per_stream(&direct.total)?);
        (own < direct * (1.0 - MISSING)).then(|| {
            format!(
                "`{}` has {} events in a stream, {} of the {} without a gateway",
                operation.name,
                number(own),
                percent(own / direct),
                number(direct),
            )
        })
    })
}

fn per_stream(total: &Measurement) -> Option<f64> {
    let responses = total.requests.responses.filter(|responses| *responses > 0)?;
    Some(total.events?.received as f64 / responses as f64)
}
