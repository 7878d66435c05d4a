//! Validity findings, each with its evidence in words and figures. Each check looks at one trial with what else is known of it ([`Context`]) and finds at
//! most one thing. What follows from a finding in a campaign is its [`Effect`]: see [`crate::judgement`].
//!
//! Limits are named constants beside the check that uses them, with their reason.

mod errors;
mod errors_unmeasured;
mod events_lost;
mod few_samples;
mod generator_bound;
mod littles_law;
mod machine;
mod noisy_control;
mod rate_not_achieved;
mod treatment_not_applied;
mod truncated;
mod upstream_bound;
mod upstream_mismatch;
pub(crate) mod words;

use std::collections::BTreeMap;

use crate::results::Report;
use crate::results::report::{Measurement, Operation};
pub use crate::results::{Effect, Name, Verdict};
use crate::results::{Observed, Planned, Treatment, Usage};

pub use errors::ALLOWED_ERRORS;
pub use few_samples::{NEEDED, needed};
pub use generator_bound::HEADROOM;
pub use machine::LEAST_CPU_S;
pub use noisy_control::{Baseline, Moved, moved, noisy_rounds, noisy_together};
pub(crate) use rate_not_achieved::DROPPED;

/// What is known of a run besides its report.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// What was planned.
    pub planned: Planned,
    /// The system without a gateway in the same round.
    pub direct: Option<&'a Measurement>,
    /// The operations of the baseline.
    pub direct_operations: &'a [Operation],
    /// What was seen of the processes while this ran.
    pub observed: Option<&'a Observed>,
    /// What was seen of the processes while the baseline ran.
    pub direct_observed: Option<&'a Observed>,
    /// Which processors each part was given.
    pub pinned: Option<&'a BTreeMap<String, Vec<u32>>>,
    /// What the workload was meant to cause, and the share of the responses that showed it.
    pub treatment: Option<(&'a Treatment, Option<f64>)>,
    /// Share of the requests that may go wrong before the trial fails; not looked at without it.
    pub allowed_errors: Option<f64>,
}

/// Everything that is wrong with a run, in the order of [`Name::ALL`].
pub fn look(report: &Report, context: &Context<'_>) -> Vec<Verdict> {
    type Look = fn(&Report, &Context<'_>) -> Option<String>;
    let all: [(Name, Look); 16] = [
        (Name::LittlesLaw, littles_law::look),
        (Name::GeneratorLag, generator_bound::late),
        (Name::GeneratorBound, generator_bound::look),
        (Name::UpstreamBound, upstream_bound::look),
        (Name::RateNotAchieved, rate_not_achieved::look),
        (Name::Truncated, truncated::look),
        (Name::Errors, errors::look),
        (Name::TooManyErrors, errors::too_many),
        (Name::EventsLost, events_lost::look),
        (Name::ErrorsUnmeasured, errors_unmeasured::look),
        (Name::FewSamples, few_samples::look),
        (Name::LittleCpu, machine::little_cpu),
        (Name::TreatmentNotApplied, treatment_not_applied::look),
        (Name::UpstreamMismatch, upstream_mismatch::look),
        (Name::Steal, machine::steal),
        (Name::Throttled, machine::throttled),
    ];
    all.into_iter().filter_map(|(name, look)| Some(Verdict { name, evidence: look(report, context)? })).collect()
}

/// Users or connections, as the report or the plan says.
fn concurrency(report: &Report, context: &Context<'_>) -> Option<f64> {
    let (seen, planned) = (report.total.concurrency, context.planned.concurrency);
    // k6 says the most users that there were, which is not the mean when their number changes.
    let users = if report.generator.name == "k6" { planned.or(seen) } else { seen.or(planned) };
    users.filter(|users| *users > 0.0)
}

/// Requests per second requested, as the report or the plan says.
fn requested_rate(report: &Report, context: &Context<'_>) -> Option<f64> {
    report.total.rate.requested.or(context.planned.rate).filter(|rate| *rate > 0.0)
}

/// CPU time of a part, in user mode and in the kernel, seconds.
pub(crate) fn cpu_s(usage: &Usage) -> Option<f64> {
    Some(usage.user_s? + usage.system_s?)
}

/// Seconds of CPU time of a part over the seconds observed: 1 is one processor.
fn processors_used(usage: Option<&Usage>, observed: &Observed) -> Option<f64> {
    let used = cpu_s(usage?)?;
    (observed.duration_s > 0.0).then_some(used / observed.duration_s)
}

#[cfg(test)]
mod tests;
