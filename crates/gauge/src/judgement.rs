//! What follows from a campaign's results: verdicts, figures with intervals, comparisons, scores. [`judge`] makes it, from nothing but
//! [`Results`], and always the same: random numbers are drawn from a fixed seed.
//!
//! Ratios are of costs or rates of one system over those of another in the same round; intervals hold 95 %. What could not be
//! said is `null` or left out, with the reason in [`Row::verdicts`], [`Unranked::why`] or [`Judgement::notes`].

mod age;
mod compare;
mod judge;
mod ranking;
mod rounds;
mod rows;

use serde::{Deserialize, Serialize};

use crate::load::report::Latency;
pub use crate::score::{AgeScores, Part, Weight};
pub use crate::stats::Estimate;
pub use crate::verdict::{Name, Verdict};
pub use judge::judge;
pub(crate) use rounds::direct;
pub(crate) use rows::{cpu_us, percentile};

#[cfg(doc)]
use crate::campaign::Results;

/// Version of the JSON. It changes when a field changes its meaning; a new field does not change it.
pub const FORMAT: u32 = 1;

/// All that follows from a campaign's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of the program that judged.
    pub gauge: String,
    /// The system whose figures are the unit of the score; null when there is none, and then there is no score.
    pub reference: Option<String>,
    /// The weights of the score's parts, as they were used: those of parts that were not measured are 0, and the others add up to 1.
    pub weights: Vec<Weight>,
    /// Gateways that passed the gates, the best first.
    pub ranking: Vec<Place>,
    /// Gateways that did not, or could not be measured.
    pub unranked: Vec<Unranked>,
    /// Who is first when a part of the score counts double or not at all.
    pub sensitivity: Vec<Sensitivity>,
    /// The scores of the paper "automatic gateway evaluator" and of its program; null where fewer than two systems have figures.
    pub age: Option<AgeScores>,
    /// Each system under each workload, all rounds together.
    pub rows: Vec<Row>,
    /// Pairs of systems in the same rounds.
    pub comparisons: Vec<Comparison>,
    /// Systems that were entered twice.
    pub twins: Vec<Twin>,
    /// [`Twin::declared_in_smaller`] of the rounds of all workloads together, mean over the figures but the score, which is made of them.
    pub twins_declared_in_smaller: Option<f64>,
    /// Each run, in the order of [`Results`].
    pub runs: Vec<RunJudgement>,
    /// What a reader must know besides.
    pub notes: Vec<String>,
}

/// A gateway's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// One more than the number of gateways declared better than it. Tied gateways may have different places: where a is better than c, and b is tied
    /// with both, `tied_with` says so.
    pub place: u32,
    /// [`crate::campaign::results::System::name`].
    pub system: String,
    /// 100 means: as costly as the reference. 200: half as costly.
    pub score: Estimate,
    /// How often it came first when the rounds were drawn again, from 0 to 1.
    pub first: f64,
    /// Systems from which no difference could be declared.
    pub tied_with: Vec<String>,
    /// The parts, of all workloads together: the cost as a multiple of the reference's (2: twice as dear).
    pub parts: Vec<PartScore>,
}

/// One part of a system's score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartScore {
    /// Which.
    pub part: Part,
    /// Null: over all workloads.
    pub workload: Option<String>,
    /// Its share of the score, from 0 to 1.
    pub weight: f64,
    /// Cost as a multiple of the reference's.
    pub cost: Estimate,
}

/// A system without a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unranked {
    /// Which.
    pub system: String,
    /// Why, a reason each.
    pub why: Vec<String>,
}

/// The order under other weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// What was changed: `cpu-per-request counts double`.
    pub change: String,
    /// The systems, the best first, with their scores.
    pub order: Vec<(String, f64)>,
    /// Whether the order of systems that are not tied is the same as in the ranking.
    pub same_order: bool,
}

/// A system under a workload, all rounds together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which system.
    pub system: String,
    /// Which workload.
    pub workload: String,
    /// Rounds whose times and rates are in the row. CPU time and memory are of every round that ran to its end, as each [`Estimate`] says.
    pub rounds: Vec<u32>,
    /// Those of them in which the machine was not as in other rounds, which count since most rounds are such.
    pub unreadable: Vec<u32>,
    /// Rounds whose times and rates were left out, and why.
    pub left_out: Vec<LeftOut>,
    /// What is wrong with the row; those of its runs are summed up here.
    pub verdicts: Vec<Verdict>,
    /// Complete answers, those of rounds that were left out too.
    pub answered: u64,
    /// Share of all requests that went wrong; null where errors were not counted.
    pub error_rate: Option<f64>,
    /// Answers per second.
    pub rate: Option<Estimate>,
    /// Rate that was asked for, in an open loop.
    pub requested_rate: Option<f64>,
    /// Response times of all rounds together, without the histogram; percentiles only where samples suffice. Of generators that keep no
    /// histogram: the medians over the rounds.
    pub latency: Option<Latency>,
    /// The highest percentile that every round of the reference has the samples for; null when a round of this row does not have them.
    pub tail: Option<Tail>,
    /// CPU time of all processes of the system over its answers, microseconds.
    pub cpu_us_per_request: Option<Estimate>,
    /// The same of the upstream.
    pub upstream_cpu_us_per_request: Option<Estimate>,
    /// Resident memory of all processes of the system at its highest.
    pub rss_peak_bytes: Option<Estimate>,
    /// The highest rate that met the SLO, requests per second.
    pub highest_rate: Option<Estimate>,
    /// Why a search found no such rate.
    pub search_failed: Option<String>,
    /// Operation by operation.
    pub operations: Vec<OperationRow>,
}

/// A percentile near the end of the distribution, round by round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// Which: 99, 95, 90 or 50.
    pub percentile: f64,
    /// Milliseconds.
    pub value_ms: Estimate,
    /// Milliseconds more than the lane without a gateway needed in the same round.
    pub added_ms: Option<Estimate>,
}

/// An operation of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationRow {
    /// Which.
    pub name: String,
    /// Complete answers.
    pub answered: u64,
    /// Share of requests that went wrong.
    pub error_rate: Option<f64>,
    /// Answers per second, mean over the rounds.
    pub rate: Option<f64>,
    /// Response times of all rounds together, without the histogram.
    pub latency: Option<Latency>,
}

/// A round that does not count for a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Which.
    pub round: u32,
    /// Why.
    pub why: String,
}

/// What two systems are compared in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Answers per second.
    Rate,
    /// The percentile of [`Row::tail`].
    Latency,
    /// CPU time per request.
    CpuPerRequest,
    /// Resident memory.
    Memory,
    /// Highest rate that met the SLO.
    SloRate,
    /// The cost that the score is made of, all workloads.
    Score,
}

impl Figure {
    /// As it is printed: `cpu-per-request`.
    pub fn as_str(self) -> &'static str {
        match self {
            Figure::Rate => "rate",
            Figure::Latency => "latency",
            Figure::CpuPerRequest => "cpu-per-request",
            Figure::Memory => "memory",
            Figure::SloRate => "slo-rate",
            Figure::Score => "score",
        }
    }
}

/// Two systems in the same rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Null: all of them.
    pub workload: Option<String>,
    /// In what.
    pub figure: Figure,
    /// One system.
    pub a: String,
    /// The other one.
    pub b: String,
    /// What the rounds say.
    #[serde(flatten)]
    pub result: crate::stats::Comparison,
}

/// A system that was entered twice: the difference that is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Twin {
    /// The system.
    pub system: String,
    /// Its second entry.
    pub twin: String,
    /// In which workload; null: in the score.
    pub workload: Option<String>,
    /// In what.
    pub figure: Figure,
    /// What the rounds say. A declared difference is a fault of the measurement.
    #[serde(flatten)]
    pub result: crate::stats::Comparison,
    /// Share of 1,000 smaller campaigns, made of these rounds, in which a difference was declared ([`crate::stats::declared_in_smaller`]); null for
    /// too few rounds.
    pub declared_in_smaller: Option<f64>,
}

/// What is to be said of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunJudgement {
    /// [`crate::campaign::results::Run::id`].
    pub id: String,
    /// Whether its times and rates are in the row.
    pub used: bool,
    /// Whether its CPU time and memory are.
    pub cpu_used: bool,
    /// What is wrong with it.
    pub verdicts: Vec<Verdict>,
}
