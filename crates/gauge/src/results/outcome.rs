//! Whether each system passes: its figures beside the limits of the evaluation, or of the defaults for services.

use serde::{Deserialize, Serialize};

use super::Threshold;

/// What a check, a system or a campaign comes to; the worst of several counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every figure is within its limit.
    #[default]
    Pass,
    /// No limit is crossed, and not all could be checked, or there are validity findings.
    Warn,
    /// A limit is crossed, a trial failed, or a limit of the evaluation could not be checked. `gauge run` ends with exit code 99.
    Fail,
}

impl Outcome {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Pass => "pass",
            Outcome::Warn => "warn",
            Outcome::Fail => "fail",
        }
    }
}

/// A system with its checks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemOutcome {
    /// [`super::System::name`].
    pub system: String,
    /// The worst of its checks and reasons.
    pub outcome: Outcome,
    /// A figure beside a limit each.
    pub checks: Vec<Check>,
    /// Why it does not pass, a reason each, the most serious first; empty when it does.
    pub why: Vec<Reason>,
}

/// A figure beside its limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Under which workload.
    pub workload: String,
    /// The limit.
    pub threshold: Threshold,
    /// The figure, all valid rounds together; null where it was not measured.
    pub figure: Option<f64>,
    /// What it comes to.
    pub outcome: Outcome,
}

/// Why a system does not pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Whether it fails the system, or is a warning.
    pub outcome: Outcome,
    /// In words, without the name of the system where it is about all of it.
    pub text: String,
}
