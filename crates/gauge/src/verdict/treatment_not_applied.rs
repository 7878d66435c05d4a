//! What was to be compared did not differ: responses of a system with "cache off" came from the cache.

use super::Context;
use super::words::percent;
use crate::results::Report;

pub(super) fn look(_report: &Report, context: &Context<'_>) -> Option<String> {
    let (treatment, seen) = context.treatment?;
    let mark = match (&treatment.header, &treatment.value) {
        (Some(header), Some(value)) => format!("`{header}: {value}`"),
        (Some(header), None) => format!("`{header}`"),
        (None, _) => "its mark".to_owned(),
    };
    let name = &treatment.name;
    let Some(seen) = seen else {
        return Some(format!(
            "{name}: {mark} was not counted in the responses, so it is not known whether it was applied"
        ));
    };
    if let Some(least) = treatment.at_least.filter(|least| seen < *least) {
        return Some(format!(
            "{name}: {} of the responses show {mark}, and at least {} must",
            percent(seen),
            percent(least)
        ));
    }
    if let Some(most) = treatment.at_most.filter(|most| seen > *most) {
        return Some(format!(
            "{name}: {} of the responses show {mark}, and at most {} may",
            percent(seen),
            percent(most)
        ));
    }
    None
}
