//! Balancing between replicas of an inference engine.

use std::sync::Arc;
use std::time::Duration;

use llm::balance::{Engine, MetricNames, Settings};

/// How replicas of an inference engine share requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Inference {
    /// What serves the model.
    pub engine: Engine,
    /// Path of its metrics.
    pub path: Arc<str>,
    /// Names of metrics in place of the engine's.
    pub names: EngineNames,
    /// Time between two scrapes of one replica.
    pub scrape: Duration,
    /// Tenants do not share prefixes.
    pub isolate: bool,
    /// Numbers of the rule.
    pub settings: Settings,
}

/// Names of metrics; absent: those of the engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineNames {
    /// Requests that wait.
    pub waiting: Option<Arc<str>>,
    /// Requests that run.
    pub running: Option<Arc<str>>,
    /// Share of the KV cache in use.
    pub kv: Option<Arc<str>>,
}

impl Inference {
    /// Age from which on a scrape says nothing any more.
    pub fn stale_after(&self) -> Duration {
        self.scrape.saturating_mul(3)
    }

    /// Names of the metrics that are read.
    pub fn metric_names(&self) -> MetricNames<'_> {
        let own = self.engine.names();
        MetricNames {
            waiting: self.names.waiting.as_deref().unwrap_or(own.waiting),
            running: self.names.running.as_deref().unwrap_or(own.running),
            kv: self.names.kv.as_deref().map_or(own.kv, |name| [name, ""]),
            add: own.add,
        }
    }
}
