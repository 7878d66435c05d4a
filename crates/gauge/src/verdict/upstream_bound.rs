//! The upstream was the limit: behind the gateway it used its processors up, or the baseline is hardly faster because of it.

use super::generator_bound::{BUSY, HEADROOM, Limit, headroom, limit};
use super::words::{number, percent};
use super::{Context, processors_used, requested_rate};
use crate::results::Report;

pub(super) fn look(report: &Report, context: &Context<'_>) -> Option<String> {
    busy(context).or_else(|| no_headroom(report, context))
}

/// Its processors, while the gateway had time left.
fn busy(context: &Context<'_>) -> Option<String> {
    let observed = context.observed?;
    // Null for the baseline, where the upstream is what is measured.
    let system = observed.system.as_ref()?;
    let cpus = f64::from(observed.upstream.as_ref()?.cpus?);
    let used = processors_used(observed.upstream.as_ref(), observed)?;
    let gateway = processors_used(Some(system), observed)? / f64::from(system.cpus?);
    (cpus > 0.0 && used >= BUSY * cpus && gateway < BUSY).then(|| {
        format!(
            "the upstream used {} of its {} processors ({}) while the system used {} of its own",
            number(used),
            number(cpus),
            percent(used / cpus),
            percent(gateway),
        )
    })
}

fn no_headroom(report: &Report, context: &Context<'_>) -> Option<String> {
    let (rate, direct) = (report.total.rate.achieved?, context.direct?.rate.achieved?);
    if requested_rate(report, context).is_some() || rate <= 0.0 || direct >= rate * HEADROOM {
        return None;
    }
    match limit(context.direct_observed?, context) {
        Limit::Upstream(words) => Some(format!("{}; {words}", headroom(rate, direct))),
        Limit::Generator(_) | Limit::Nobody | Limit::Unknown => None,
    }
}
