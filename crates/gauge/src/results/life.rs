//! What became of requests while something happened to a gateway or its upstream: the profile `life`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One system in one scenario in one round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LifeTrial {
    /// From 1.
    pub round: u32,
    /// [`super::System::name`].
    pub system: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Whether it counts.
    pub state: LifeState,
    /// Requests sent.
    pub sent: u64,
    /// Requests that went wrong, by kind: `status 502`, `reset`, `timeout`, `refused`.
    pub failed: BTreeMap<String, u64>,
    /// From the end of the fault (the event itself where it has no length) to the end of the last request that went wrong; 0 when none did after it.
    pub recovery_ms: Option<f64>,
    /// The longest that a request took which went well.
    pub slowest_ms: Option<f64>,
    /// From the start of the program, or the signal, to when it serves, has its new configuration, or has ended.
    pub took_ms: Option<f64>,
    /// Memory of all processes of the gateway before the event (PSS).
    pub memory_before_bytes: Option<u64>,
    /// The most that was seen.
    pub memory_peak_bytes: Option<u64>,
    /// CPU time for each response; null where too little was used to tell.
    pub cpu_us_per_request: Option<f64>,
}

/// Whether a trial counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LifeState {
    /// It does.
    #[default]
    Counts,
    /// The gateway did not do what the scenario requests; why. It counts against it.
    Failed(String),
    /// The machine, the generator or the upstream was not as required; why. It says nothing of the gateway.
    Void(String),
    /// The gateway, or its adapter, cannot do it; why.
    NotSupported(String),
}
