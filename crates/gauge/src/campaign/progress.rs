//! What a campaign tells while it runs.

use serde::{Deserialize, Serialize};

use crate::results::{Results, Sample, Trial};

/// A second of a load, while it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Id of the trial, or of a step of a search.
    pub trial: String,
    /// What the generator counts; none while it says nothing (generators of others never do).
    #[serde(flatten)]
    pub load: Option<LoadMoment>,
    /// CPU and memory of the system in the last half second; none in a warm-up, and for the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<PartMoment>,
    /// The same of the upstreams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<PartMoment>,
    /// The same of the generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<PartMoment>,
}

/// What the generator counts. It prints this as a line of JSON behind [`LoadMoment::MARK`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadMoment {
    /// Seconds since the generator began, warm-up included.
    pub at_s: f64,
    /// The phase that runs.
    #[serde(default)]
    pub phase: Option<String>,
    /// Responses, errors and dropped requests since the generator began.
    pub responses: u64,
    /// See `responses`.
    pub errors: u64,
    /// See `responses`.
    pub dropped: u64,
    /// Responses per second since the moment before.
    pub rate: f64,
    /// Percentiles of the last full second; none without responses.
    pub p50_ms: Option<f64>,
    /// See `p50_ms`.
    pub p99_ms: Option<f64>,
}

impl LoadMoment {
    /// What the generator's line begins with.
    pub const MARK: &str = "moment ";
}

/// What a part uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PartMoment {
    /// 100 is one processor.
    pub cpu_percent: f64,
    /// PSS where the kernel says it, else RSS.
    pub memory_bytes: u64,
}

impl From<Sample> for PartMoment {
    fn from(sample: Sample) -> Self {
        PartMoment { cpu_percent: sample.cpu * 100.0, memory_bytes: sample.pss_bytes.unwrap_or(sample.rss_bytes) }
    }
}

/// Somebody who is told how far a campaign is. Nothing that it does changes what is measured.
pub trait Progress {
    /// It begins, or goes on with what an earlier run left.
    fn begun(&mut self, results: &Results) {
        let _ = results;
    }

    /// It has ended, or was stopped; what was measured is in the directory.
    fn ended(&mut self, results: &Results) {
        let _ = results;
    }

    /// So many rounds of systems (one system in one round) are planned, and so many are done already.
    fn planned(&mut self, runs: usize, done: usize) {
        let _ = (runs, done);
    }

    /// A command runs that makes a program.
    fn building(&mut self, command: &str) {
        let _ = command;
    }

    /// What happens to machines that are made for the campaign.
    fn machines(&mut self, text: &str) {
        let _ = text;
    }

    /// Something is wrong that the campaign can do without.
    fn warning(&mut self, text: &str) {
        let _ = text;
    }

    /// The conformance check of a system begins.
    fn checking(&mut self, system: &str) {
        let _ = system;
    }

    /// A scenario of the profile `life` begins.
    fn scenario(&mut self, system: &str, scenario: &str, round: u32) {
        let _ = (system, scenario, round);
    }

    /// A run is in another state.
    fn state(&mut self, run: &Trial) {
        let _ = run;
    }

    /// What was seen of a load in the last second.
    fn moment(&mut self, moment: &Moment) {
        let _ = moment;
    }

    /// A rate is tried.
    fn searching(&mut self, run: &str, rate: f64) {
        let _ = (run, rate);
    }

    /// The trials of a system in a round are done.
    fn system_done(&mut self) {}
}
