//! What is wrong with a measurement, each with its evidence in words and figures.

use std::fmt;

use serde::{Deserialize, Serialize};

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
