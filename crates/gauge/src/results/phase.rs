//! Phases: the parts of a load, each planned, observed and judged by itself.

use serde::{Deserialize, Serialize};

use super::{Planned, Usage, Verdict};
use crate::results::report::Latency;

/// A phase that is measured, as it was planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhasePlan {
    /// Unique in the workload.
    pub name: String,
    /// Its load in figures.
    #[serde(flatten)]
    pub planned: Planned,
}

/// A phase of a row: a system in a phase of a workload, all valid rounds together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseRow {
    /// [`PhasePlan::name`].
    pub name: String,
    /// What was planned.
    pub planned: Planned,
    /// Requests that came to an end, good or bad.
    pub requests: u64,
    /// Responses per second, mean over the rounds.
    pub rate: Option<f64>,
    /// Share of requests that went wrong.
    pub error_rate: Option<f64>,
    /// Latency of all rounds together, without the histogram; percentiles only where samples suffice.
    pub latency: Option<Latency>,
    /// CPU time of the system over the time of the phase, mean over the rounds; 100 is one processor.
    pub cpu_percent: Option<f64>,
    /// Memory of the system (PSS, else RSS), mean over samples and rounds.
    pub memory_bytes: Option<f64>,
    /// `cpu_percent` times the seconds of the phase over its requests.
    pub cpu_percent_per_request: Option<f64>,
    /// The same of memory, in megabytes.
    pub memory_mb_per_request: Option<f64>,
    /// Validity findings of the phase in its rounds, the first of each name.
    pub verdicts: Vec<Verdict>,
}

/// What a part used within a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    /// CPU time, seconds.
    pub cpu_s: f64,
    /// Memory (PSS, else RSS), mean over the samples.
    pub memory_bytes: f64,
    /// Seconds.
    pub seconds: f64,
}

/// Share of a stretch that samples must cover for it to be known.
const COVERED: f64 = 0.8;

impl Usage {
    /// What was used between two moments, in seconds since the measuring began, by the samples; none where they do not cover it.
    pub fn within(&self, from: f64, to: f64) -> Option<Stretch> {
        let seconds = to - from;
        let (mut cpu_s, mut covered, mut memory) = (0.0, 0.0_f64, 0.0);
        let mut before: f64 = 0.0;
        for sample in &self.samples {
            // A sample is of the time since the one before.
            let overlap = (sample.at_s.min(to) - before.max(from)).max(0.0);
            before = sample.at_s;
            cpu_s += sample.cpu * overlap;
            covered += overlap;
            memory += sample.pss_bytes.unwrap_or(sample.rss_bytes) as f64 * overlap;
        }
        (seconds > 0.0 && covered >= seconds * COVERED).then(|| Stretch {
            cpu_s: cpu_s * seconds / covered,
            memory_bytes: memory / covered,
            seconds,
        })
    }
}

impl Usage {
    /// Memory (PSS, else RSS), mean over the samples.
    pub fn memory_mean(&self) -> Option<f64> {
        let sampled = || Some(self.within(0.0, self.samples.last()?.at_s)?.memory_bytes);
        sampled().or(self.rss_mean_bytes.map(|bytes| bytes as f64))
    }
}

impl Stretch {
    /// 100 is one processor.
    pub fn cpu_percent(&self) -> f64 {
        self.cpu_s / self.seconds * 100.0
    }

    /// CPU percent and megabytes, times the seconds, over so many requests.
    pub fn per_request(&self, requests: u64) -> Option<(f64, f64)> {
        let each = |value: f64| value * self.seconds / requests as f64;
        (requests > 0).then(|| (each(self.cpu_percent()), each(self.memory_bytes / 1e6)))
    }
}
