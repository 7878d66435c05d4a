//! The machine while a trial was measured.

use super::words::{number, percent, time};
use super::{Context, cpu_s};
use crate::results::Report;

/// Share of a processor's time that may be stolen: beyond it a p99 is the host's.
const STOLEN: f64 = 0.01;

/// The host gave processor time to others: of each processor that a part was pinned to, else of all together.
/// Less CPU time than this in half of the trials is a few ticks and a matter of chance.
pub const LEAST_CPU_S: f64 = 0.1;

pub(super) fn steal(_report: &Report, context: &Context<'_>) -> Option<String> {
    let machine = &context.observed?.machine;
    let pinned = context.pinned.into_iter().flat_map(|pinned| pinned.values().flatten());
    let worst = pinned
        .filter_map(|cpu| Some((*machine.steal_by_cpu.get(cpu)?, format!("of processor {cpu}"))))
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    let (stolen, whose) = worst.or_else(|| Some((machine.steal?, "of the processors'".to_owned())))?;
    (stolen > STOLEN).then(|| {
        format!(
            "the host gave {} {whose} time to others meanwhile (at most {} is allowed)",
            percent(stolen),
            percent(STOLEN)
        )
    })
}

/// A quota or the heat of a processor held something up.
pub(super) fn throttled(_report: &Report, context: &Context<'_>) -> Option<String> {
    let times = context.observed?.machine.throttled.filter(|times| *times > 0)?;
    Some(format!(
        "a quota of processor time or the heat of a processor held processes up {} times",
        number(times as f64)
    ))
}

/// Too little CPU time to measure it: the criterion has no figure in this trial.
pub(super) fn little_cpu(_report: &Report, context: &Context<'_>) -> Option<String> {
    let used = cpu_s(context.observed?.system.as_ref()?).filter(|used| *used < LEAST_CPU_S)?;
    Some(format!(
        "the system used {} of CPU time; {} are needed to compare it: make the load longer",
        time(used * 1e3),
        time(LEAST_CPU_S * 1e3)
    ))
}
