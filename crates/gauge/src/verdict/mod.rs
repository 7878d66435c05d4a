//! What is wrong with a measurement, each with its evidence in words and figures. One file a verdict; each looks at one run with what else is known of it
//! ([`Context`]) and finds at most one thing. A campaign's rounds and rows are looked at in [`crate::judgement`].
//!
//! Limits are named constants beside the verdict that uses them, with their reason.

mod errors;
mod errors_unmeasured;
mod few_samples;
mod generator_bound;
mod littles_law;
mod noisy_control;
mod rate_not_achieved;
mod steal;
mod treatment_not_applied;
mod truncated;
mod upstream_bound;
pub(crate) mod words;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::campaign::results::{Observed, Planned, Treatment, Usage};
use crate::load::Report;
use crate::load::report::Measurement;

pub use few_samples::{NEEDED, needed};
pub use generator_bound::{HEADROOM, late};
pub use noisy_control::{Control, noisy_rounds};

/// The verdicts. Their names are fixed: scripts look for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Users, throughput and mean response time contradict each other.
    LittlesLaw,
    /// The load generator was the limit.
    GeneratorBound,
    /// The upstream was the limit.
    UpstreamBound,
    /// Less was sent or answered than was asked for.
    RateNotAchieved,
    /// It ended before its plan did.
    Truncated,
    /// Requests went wrong.
    Errors,
    /// Nobody counted what went wrong.
    ErrorsUnmeasured,
    /// Too few samples for a percentile.
    FewSamples,
    /// What was to be compared did not differ.
    TreatmentNotApplied,
    /// The lane without a gateway moved.
    NoisyControl,
    /// The host gave processor time to others.
    Steal,
}

impl Name {
    /// All of them, in the order in which they are told.
    pub const ALL: [Name; 11] = [
        Name::LittlesLaw,
        Name::GeneratorBound,
        Name::UpstreamBound,
        Name::RateNotAchieved,
        Name::Truncated,
        Name::Errors,
        Name::ErrorsUnmeasured,
        Name::FewSamples,
        Name::TreatmentNotApplied,
        Name::NoisyControl,
        Name::Steal,
    ];

    /// The name as it is printed: `littles-law`.
    pub fn as_str(self) -> &'static str {
        match self {
            Name::LittlesLaw => "littles-law",
            Name::GeneratorBound => "generator-bound",
            Name::UpstreamBound => "upstream-bound",
            Name::RateNotAchieved => "rate-not-achieved",
            Name::Truncated => "truncated",
            Name::Errors => "errors",
            Name::ErrorsUnmeasured => "errors-unmeasured",
            Name::FewSamples => "few-samples",
            Name::TreatmentNotApplied => "treatment-not-applied",
            Name::NoisyControl => "noisy-control",
            Name::Steal => "steal",
        }
    }

    /// Whether a run with this verdict says nothing at all, so that its figures are left out of its row. The others are about the machine, or about the
    /// system (errors, a rate that it does not carry), or spoil a part of the figures only (a percentile, a rate that the generator limits).
    pub fn voids_run(self) -> bool {
        matches!(self, Name::LittlesLaw | Name::Truncated | Name::TreatmentNotApplied)
    }

    /// Whether the times and rates of a run with this verdict are not to be set beside those of other rounds: the machine was not as it was there.
    /// Processor time and memory hardly depend on that.
    pub fn voids_times(self) -> bool {
        matches!(self, Name::NoisyControl | Name::Steal)
    }

    /// Whether a system with this verdict on a row has no place in the ranking.
    pub fn bars_ranking(self) -> bool {
        matches!(self, Name::RateNotAchieved | Name::Errors | Name::ErrorsUnmeasured)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What.
    pub name: Name,
    /// By what that is known: one line of plain words with the figures.
    pub evidence: String,
}

/// What is known of a run besides its report.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// What was planned.
    pub planned: Planned,
    /// The lane without a gateway in the same round.
    pub direct: Option<&'a Measurement>,
    /// What was seen of the processes while this ran.
    pub observed: Option<&'a Observed>,
    /// What was seen of the processes while the lane without a gateway ran.
    pub direct_observed: Option<&'a Observed>,
    /// Which processors each part was given.
    pub pinned: Option<&'a BTreeMap<String, Vec<u32>>>,
    /// What was to be brought about, and the share of the answers that showed it.
    pub treatment: Option<(&'a Treatment, Option<f64>)>,
}

/// Everything that is wrong with a run, in the order of [`Name::ALL`].
pub fn look(report: &Report, context: &Context<'_>) -> Vec<Verdict> {
    type Look = fn(&Report, &Context<'_>) -> Option<String>;
    let all: [(Name, Look); 10] = [
        (Name::LittlesLaw, littles_law::look),
        (Name::GeneratorBound, generator_bound::look),
        (Name::UpstreamBound, upstream_bound::look),
        (Name::RateNotAchieved, rate_not_achieved::look),
        (Name::Truncated, truncated::look),
        (Name::Errors, errors::look),
        (Name::ErrorsUnmeasured, errors_unmeasured::look),
        (Name::FewSamples, few_samples::look),
        (Name::TreatmentNotApplied, treatment_not_applied::look),
        (Name::Steal, steal::look),
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

/// Requests per second asked for, as the report or the plan says.
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
