//! What follows from a campaign: validity, figures with intervals, comparisons, scores, and whether anything is decided.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{PhaseRow, Subject, SystemOutcome};
use crate::results::report::Latency;
use crate::stats::{Comparison as Ratio, Estimate};

/// Version of the judgement's JSON. It changes when a field changes its name or meaning; a new field does not change it.
pub const JUDGEMENT_FORMAT: u32 = 2;

/// All that follows from a campaign's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// [`JUDGEMENT_FORMAT`].
    pub format: u32,
    /// Version of the program that judged.
    pub gauge: String,
    /// What is compared: the noun of reports.
    #[serde(default)]
    pub subject: Subject,
    /// Whether differences between systems could be decided, and why not.
    pub decision: Decision,
    /// The system whose figures are the unit of the score; null when there is none, and then there is no score.
    pub reference: Option<String>,
    /// The weights of the score's parts, as they were used: the others are 0, and these add up to 1.
    pub weights: Vec<Weight>,
    /// Systems with a score, the best first.
    pub ranking: Vec<Ranked>,
    /// Systems without a place for reasons of their own.
    pub unranked: Vec<Unranked>,
    /// Scores under other weights.
    pub sensitivity: Vec<Sensitivity>,
    /// The scores of the paper "automatic gateway evaluator" and of its program; null where fewer than two systems have figures.
    pub age: Option<AgeScores>,
    /// Each system under each workload, all rounds together.
    pub rows: Vec<Row>,
    /// Rounds of a workload that are left out for all systems alike.
    pub left_out: Vec<LeftOut>,
    /// Pairs of systems in the same rounds.
    pub comparisons: Vec<Comparison>,
    /// How many comparisons were tested together (Benjamini-Hochberg).
    pub tested: u32,
    /// Systems and their A/A controls; what is declared here is a false positive.
    pub controls: Vec<Comparison>,
    /// Each trial, in the order of [`super::Results`].
    pub trials: Vec<TrialJudgement>,
    /// What each system comes to beside the thresholds, in the order of the evaluation; empty where nothing is required. The exit code of `gauge run` goes by
    /// it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<SystemOutcome>,
    /// What a reader must know besides.
    pub notes: Vec<String>,
}

/// Whether differences could be decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Whether there were enough valid rounds to declare a difference.
    pub decided: bool,
    /// Valid rounds behind the score, the fewest of all systems.
    pub rounds: u32,
    /// Rounds that it takes.
    pub needed: u32,
    /// Why nothing is decided.
    pub why: Vec<String>,
    /// What would help.
    pub help: Vec<String>,
}

/// A gateway's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// One more than the number of gateways declared better than it. Tied gateways may have different places: where a is better than c, and b is tied
    /// with both, `tied_with` says so.
    pub place: u32,
    /// [`super::System::name`].
    pub system: String,
    /// 100: at the units of the reference in every part. 200: half as costly.
    pub score: Estimate,
    /// Trials that failed, of all that were valid.
    pub failed: u32,
    /// Systems from which no difference was declared.
    pub tied_with: Vec<String>,
    /// The parts, of all workloads together and of each: the cost as a multiple of the reference's (2: twice as costly).
    pub parts: Vec<PartScore>,
}

/// One part of a system's score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartScore {
    /// Name of the criterion.
    pub criterion: String,
    /// Null: over all workloads.
    pub workload: Option<String>,
    /// Its share of the score, from 0 to 1.
    pub weight: f64,
    /// Cost as a multiple of the reference's.
    pub cost: Estimate,
}

/// A part's weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Weight {
    /// Name of the criterion.
    pub criterion: String,
    /// As the evaluation or the table of criteria says; all together are 1.
    pub planned: f64,
    /// As it was used, all workloads together.
    pub used: f64,
}

/// A system without a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unranked {
    /// Which.
    pub system: String,
    /// Why, a reason each.
    pub why: Vec<String>,
}

/// The scores under other weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// What was changed: `cpu-per-request counts double`.
    pub change: String,
    /// The systems, the best first, with their scores.
    pub order: Vec<(String, f64)>,
    /// Whether gateways that are not tied keep their order.
    pub same_order: bool,
}

/// A system under a workload, all valid rounds together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which system.
    pub system: String,
    /// Which workload.
    pub workload: String,
    /// Valid rounds.
    pub rounds: Vec<u32>,
    /// Those of them in which its trial failed, with the reason.
    pub failed: Vec<FailedTrial>,
    /// Validity findings of its trials, summed up.
    pub verdicts: Vec<Verdict>,
    /// Complete responses, those of rounds that were left out too.
    #[serde(alias = "answered")]
    pub responses: u64,
    /// Share of all requests that went wrong; null where errors were not counted.
    pub error_rate: Option<f64>,
    /// The criteria that were measured.
    pub figures: Vec<Figure>,
    /// The percentile that latency is compared by.
    pub percentile: Option<f64>,
    /// Milliseconds at that percentile more than the baseline in the same round.
    pub added_ms: Option<Estimate>,
    /// Rate that was requested, in an open loop.
    pub requested_rate: Option<f64>,
    /// Latency of all valid rounds together, without the histogram; percentiles only where samples suffice. Of generators that keep no
    /// histogram: the medians over the rounds.
    pub latency: Option<Latency>,
    /// Why a search found no rate.
    pub search_failed: Option<String>,
    /// Operation by operation.
    pub operations: Vec<OperationRow>,
    /// Phase by phase, where the load has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseRow>,
}

impl Row {
    /// The estimate of a criterion.
    pub fn figure(&self, criterion: &str) -> Option<&Estimate> {
        self.figures.iter().find(|figure| figure.criterion == criterion).map(|figure| &figure.estimate)
    }

    /// Whether anything was measured.
    pub fn is_measured(&self) -> bool {
        self.responses > 0 || !self.figures.is_empty() || self.search_failed.is_some()
    }
}

/// A criterion of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name of the criterion, which says the unit.
    pub criterion: String,
    /// Over the rounds; a trial that failed counts as worse than any value.
    pub estimate: Estimate,
}

/// A trial that counts against its system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTrial {
    /// In which round.
    pub round: u32,
    /// Why.
    pub why: String,
}

/// An operation of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationRow {
    /// Which.
    pub name: String,
    /// Complete responses.
    #[serde(alias = "answered")]
    pub responses: u64,
    /// Share of requests that went wrong.
    pub error_rate: Option<f64>,
    /// Responses per second, mean over the rounds.
    pub rate: Option<f64>,
    /// Latency of all rounds together, without the histogram.
    pub latency: Option<Latency>,
}

/// A round of a workload that counts for no system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Of which workload.
    pub workload: String,
    /// Which.
    pub round: u32,
    /// The system whose trial did not meet its conditions.
    pub system: String,
    /// The condition.
    pub name: Name,
    /// Why.
    pub why: String,
}

/// Two systems in the same rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Null: all of them.
    pub workload: Option<String>,
    /// Name of the criterion, or `score`.
    pub criterion: String,
    /// One system.
    pub a: String,
    /// The other one.
    pub b: String,
    /// What the rounds say.
    #[serde(flatten)]
    pub result: Ratio,
}

impl Comparison {
    /// The system that is declared better.
    pub fn better(&self) -> Option<&str> {
        self.result.declared.then_some(if self.result.ratio.value < 1.0 { self.a.as_str() } else { self.b.as_str() })
    }
}

/// What is to be said of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialJudgement {
    /// [`super::Trial::id`].
    pub id: String,
    /// Whether its round counts.
    pub used: bool,
    /// Why it failed, and so counts against its system.
    pub failed: Option<String>,
    /// Validity findings.
    pub verdicts: Vec<Verdict>,
}

/// A validity finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What.
    pub name: Name,
    /// By what that is known: one line of plain words with the figures.
    pub evidence: String,
}

/// What follows from a validity finding in a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// A condition of the machine or the generator was not met: the round is left out for all systems.
    Condition,
    /// The trial failed: it counts against its system.
    Failure,
    /// A limit of what the figures say.
    Remark,
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident, $text:literal, $effect:ident;)*) => {
        /// The validity findings. Their names are fixed: scripts look for them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Name { $($(#[$doc])* $name,)* }

        impl Name {
            /// All of them, in the order in which they are reported.
            pub const ALL: &[Name] = &[$(Name::$name,)*];

            /// The name as it is printed: `littles-law`.
            pub fn as_str(self) -> &'static str {
                match self { $(Name::$name => $text,)* }
            }

            /// What follows from it.
            pub fn effect(self) -> Effect {
                match self { $(Name::$name => Effect::$effect,)* }
            }
        }
    };
}

names! {
    /// Users, throughput and mean latency contradict each other.
    LittlesLaw, "littles-law", Condition;
    /// The generator sent late by itself.
    GeneratorLag, "generator-lag", Condition;
    /// The load generator was the limit.
    GeneratorBound, "generator-bound", Remark;
    /// The upstream was the limit.
    UpstreamBound, "upstream-bound", Remark;
    /// Fewer requests were sent or completed than requested.
    RateNotAchieved, "rate-not-achieved", Failure;
    /// It ended before its plan did.
    Truncated, "truncated", Condition;
    /// The upstream or the generator ended, or no port was free: there are no figures.
    NotMeasured, "not-measured", Condition;
    /// Requests went wrong.
    Errors, "errors", Remark;
    /// More requests went wrong than are allowed.
    TooManyErrors, "too-many-errors", Failure;
    /// Events of event streams did not arrive.
    EventsLost, "events-lost", Failure;
    /// Errors were not counted.
    ErrorsUnmeasured, "errors-unmeasured", Remark;
    /// Too few samples for a percentile.
    FewSamples, "few-samples", Remark;
    /// Too little CPU time to measure it.
    LittleCpu, "little-cpu", Remark;
    /// The treatment was not seen in the responses.
    TreatmentNotApplied, "treatment-not-applied", Failure;
    /// What reached the upstream is not what was sent.
    UpstreamMismatch, "upstream-mismatch", Failure;
    /// The baseline moved.
    NoisyControl, "noisy-control", Condition;
    /// The host gave processor time to others.
    Steal, "steal", Condition;
    /// A processor was throttled.
    Throttled, "throttled", Condition;
    /// The processors' frequency was another one than in other rounds.
    Frequency, "frequency", Condition;
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// AGE's scores, in both variants. The baseline is not a gateway and takes no part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgeScores {
    /// As in the paper, the best first.
    pub paper: Vec<AgeScore>,
    /// As coded, the best first: system and score.
    pub coded: Vec<(String, f64)>,
    /// Metrics that every gateway has, of ten (the fewest over the endpoints).
    pub metrics: u32,
}

/// A gateway's score as in the paper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgeScore {
    /// Which gateway.
    pub system: String,
    /// Mean over the endpoints, 0 to 100.
    pub score: f64,
    /// Endpoint by endpoint.
    pub endpoints: Vec<AgeEndpoint>,
}

/// A gateway's score at one endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgeEndpoint {
    /// `WORKLOAD`, or `WORKLOAD: OPERATION` where a workload has several.
    pub name: String,
    /// 0 to 100.
    pub score: f64,
    /// Samples behind its percentiles.
    pub samples: u64,
}
