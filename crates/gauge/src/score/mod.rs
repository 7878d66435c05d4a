//! Scores: AGE's, and Gauge's own.

use serde::{Deserialize, Serialize};

/// A part of Gauge's score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Highest rate that met the SLO.
    SloRate,
    /// What the gateway adds to the response time.
    AddedLatency,
    /// CPU time per request.
    CpuPerRequest,
    /// Resident memory.
    Memory,
}

/// A part's weight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Weight {
    /// Which part.
    pub part: Part,
    /// As it is when every part was measured; all together are 1.
    pub planned: f64,
    /// As it was used.
    pub used: f64,
}

/// AGE's scores, in both variants.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgeScores {}
