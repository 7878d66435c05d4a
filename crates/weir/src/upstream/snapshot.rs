//! What people and metrics see of the upstreams: plain values, read without stopping anybody, so that numbers of one response may be of slightly
//! different moments.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::breaker::BreakerState;
use super::inference::{EngineState, MATCH_BOUNDS};
use super::known::file_label;
use super::members::Members;
use super::outcome::FailureKind;
use super::queue::ClassWaits;
use super::set::TargetSet;
use super::sources::Status;
use super::target::{Health, Probe, Target, TargetId};
use super::time::Moment;
use super::{Upstream, Upstreams, lock};
use crate::config;

/// One upstream.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UpstreamSnapshot {
    /// Name in the configuration.
    pub name: String,
    /// Its targets, in the order of the file; several for a name with several addresses, none for one that is not resolved.
    pub targets: Vec<TargetSnapshot>,
    /// The queue, if one is configured.
    pub queue: Option<QueueSnapshot>,
    /// Files, services in DNS and services in registries that name targets.
    pub sources: Vec<SourceSnapshot>,
    /// Host names among its targets.
    pub names: Vec<NameSnapshot>,
    /// Attempts beyond the first, since the start.
    pub retries: u64,
    /// Retries that the budget refused, since the start.
    pub retries_over_budget: u64,
    /// Retries within the budget's window of ten seconds.
    pub retries_in_window: u64,
    /// Picks among the replicas of an inference engine; null for another balance.
    pub replicas: Option<ReplicasSnapshot>,
}

/// One target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetSnapshot {
    /// Identity of its state.
    pub id: TargetId,
    /// `ip:port` or `unix:path`.
    pub address: String,
    /// Authority of the configured URL: tells the name that the address came from.
    pub authority: Option<String>,
    /// What named it, as in `sources`; null for the configuration itself.
    pub source: Option<String>,
    /// Configured weight, or that of the SRV record or of the registry.
    pub weight: u32,
    /// 0 is the first: later ones get requests while no earlier one may be used.
    pub tier: u16,
    /// Whether it gets requests, and if not, why.
    pub state: TargetCondition,
    /// Verdict of the active checks.
    pub health: Health,
    /// Last active check.
    pub last_probe: Option<ProbeSnapshot>,
    /// Requests in flight over the whole process.
    pub in_flight: u32,
    /// Bound of `in_flight`.
    pub max_in_flight: Option<u32>,
    /// Peak EWMA as of the last reply; null unless the balance is `ewma` and a reply came.
    pub ewma_ms: Option<f64>,
    /// Attempts since the start.
    pub requests: u64,
    /// Failed attempts since the start, by kind; every kind is there.
    pub failures: Failures,
    /// Failures since the last success.
    pub consecutive_failures: u32,
    /// Ejections since the start.
    pub ejections: u64,
    /// Until the ejection ends; null when it is not ejected.
    pub ejected_for_ms: Option<u64>,
    /// How long ago an operator drained it; null when nobody did.
    pub drained_ms: Option<u64>,
    /// State of the breaker; null without one.
    pub breaker: Option<BreakerState>,
    /// How often the breaker opened, since the start.
    pub breaker_opened: u64,
    /// What its inference engine tells; null for another balance.
    pub engine: Option<EngineSnapshot>,
}

/// What an inference engine tells.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EngineSnapshot {
    /// Requests that wait in it; null, as the others, when the last scrape is too old.
    pub waiting: Option<f64>,
    /// Requests that it works on.
    pub running: Option<f64>,
    /// Share of its KV cache in use, 0 to 1.
    pub kv: Option<f64>,
    /// Age of the last scrape that succeeded.
    pub age_ms: Option<u64>,
    /// Scrapes that succeeded, since the start.
    pub scraped: u64,
    /// Scrapes that failed, since the start.
    pub failed: u64,
}

/// How replicas of an inference engine were picked, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReplicasSnapshot {
    /// Picks of a replica that had seen the start of the prompt.
    pub by_prefix: u64,
    /// Picks by what engines tell of their load.
    pub by_load: u64,
    /// Picks by requests in flight, as an engine told nothing new.
    pub by_in_flight: u64,
    /// Prompts by the share that their replica had seen; see `MATCH_BOUNDS`.
    #[serde(skip)]
    pub matches: ([u64; MATCH_BOUNDS.len() + 1], f64),
}

/// Whether a target gets requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetCondition {
    /// It does.
    Ready,
    /// It does not until one ends: `max_in_flight`.
    Full,
    /// An operator drained it: no new requests.
    Drained,
    /// Active checks failed.
    Unhealthy,
    /// The breaker holds requests back.
    BreakerOpen,
    /// Ejected after failures; gets requests only when no other target is left.
    Ejected,
}

/// Counts by kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failures([u64; FailureKind::ALL.len()]);

impl Failures {
    /// Count of one kind.
    pub fn of(&self, kind: FailureKind) -> u64 {
        self.0[kind.index()]
    }

    /// All kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Serialize for Failures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for kind in FailureKind::ALL {
            map.serialize_entry(kind.label(), &self.of(kind))?;
        }
        map.end()
    }
}

/// Last active check of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProbeSnapshot {
    /// How long ago.
    pub ago_ms: u64,
    /// Whether it succeeded.
    pub ok: bool,
    /// Status of the reply when it succeeded.
    pub status: Option<u16>,
    /// What went wrong when it did not.
    pub error: Option<String>,
}

/// A source of targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceSnapshot {
    /// `file:PATH`, `srv:NAME`, `kubernetes:NAMESPACE/SERVICE:PORT` or `consul:NAME`.
    pub source: String,
    /// Targets that it names, with or without an address: lines of the file, records, or endpoints.
    pub targets: usize,
    /// Readings or look-ups that succeeded.
    pub successes: u64,
    /// Readings or look-ups that failed.
    pub failures: u64,
    /// Why the targets are the last good ones; null when the last reading or look-up succeeded.
    pub error: Option<String>,
}

/// A host name of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NameSnapshot {
    /// The name.
    pub host: String,
    /// Addresses that are in use.
    pub addresses: Vec<IpAddr>,
    /// Why there is no newer DNS response; null when the last look-up succeeded.
    pub error: Option<String>,
}

/// The queue of an upstream.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueueSnapshot {
    /// Requests that wait.
    pub waiting: usize,
    /// How many may.
    pub size: usize,
    /// Requests that entered, since the start.
    pub waited: u64,
    /// Requests that found it full, or left it for others when it was, since the start.
    pub refused: u64,
    /// Requests that were refused because they would have been served after `queue.timeout`, since the start.
    pub too_long: u64,
    /// Requests whose wait in the queue timed out, since the start.
    pub timed_out: u64,
    /// How long those that were served have waited, by class.
    #[serde(skip)]
    pub waits: Vec<ClassWaits>,
}

impl Upstreams {
    /// Everything, in the order of the configuration.
    pub fn snapshot(&self) -> Vec<UpstreamSnapshot> {
        self.iter().map(|upstream| upstream.snapshot()).collect()
    }
}

impl Upstreams {
    /// Requests that targets have at the moment.
    pub fn in_flight(&self) -> u64 {
        let of = |upstream: &Arc<Upstream>| {
            upstream.published.load().targets.iter().map(|target| u64::from(target.state.in_flight())).sum::<u64>()
        };
        self.iter().map(of).sum()
    }
}

impl Upstream {
    /// This upstream now.
    pub fn snapshot(&self) -> UpstreamSnapshot {
        let set = self.published.load_full();
        let now = self.common.clock.now();
        let queue = &self.shared.queue;
        let budget = &self.shared.budget;
        let members = lock(&self.members);
        let hosts = members.hosts(&self.common);
        let sources = self.sources(&members);
        drop(members);
        let known = lock(&self.common.names);
        let name = |host: &Arc<str>| NameSnapshot {
            host: host.to_string(),
            addresses: known.get(host).map(|name| name.addresses.clone()).unwrap_or_default(),
            error: known.get(host).and_then(|name| name.error.clone()),
        };
        UpstreamSnapshot {
            sources,
            names: hosts.iter().map(name).collect(),
            name: self.name.to_string(),
            targets: set.targets.iter().map(|target| snapshot(&set, target, now)).collect(),
            queue: set.spec.queue.as_ref().map(|spec| QueueSnapshot {
                waiting: queue.waiting(),
                size: spec.size,
                waited: queue.waited.load(Ordering::Relaxed),
                refused: queue.refused.load(Ordering::Relaxed),
                too_long: queue.too_long.load(Ordering::Relaxed),
                timed_out: queue.timed_out.load(Ordering::Relaxed),
                waits: queue.waits(),
            }),
            retries: budget.taken(),
            retries_over_budget: budget.refused(),
            retries_in_window: budget.retries(now),
            replicas: matches!(set.spec.balance, config::Balance::Inference(_)).then(|| {
                let replicas = self.shared.replicas();
                let [by_prefix, by_load, by_in_flight] = replicas.picks();
                ReplicasSnapshot { by_prefix, by_load, by_in_flight, matches: replicas.matches() }
            }),
        }
    }
}

impl Upstream {
    fn sources(&self, members: &Members) -> Vec<SourceSnapshot> {
        let snapshot = |source: &str, targets: usize, status: &Status| SourceSnapshot {
            source: source.to_owned(),
            targets,
            successes: status.successes,
            failures: status.failures,
            error: status.error.clone(),
        };
        let spec = &members.spec;
        let file = spec.targets_file.as_deref();
        let of_file = file.map(|path| snapshot(&file_label(path), spec.targets.len(), &members.file));
        let services = lock(&self.common.services);
        let of_service = |name: &Arc<str>| match services.get(name) {
            Some(service) => snapshot(&service.label, service.records.as_ref().map_or(0, Vec::len), &service.status),
            None => snapshot(&format!("srv:{name}"), 0, &Status::default()),
        };
        let registries = lock(&self.common.registries);
        let of_registry = |registry: &Arc<config::Registry>| match registries.get(registry) {
            Some(known) => snapshot(&known.label, known.endpoints.as_ref().map_or(0, Vec::len), &known.status),
            None => snapshot(&registry.label(), 0, &Status::default()),
        };
        let of_services = members.services();
        let of_services = of_services.iter().map(of_service);
        of_file.into_iter().chain(of_services).chain(members.registries().iter().map(of_registry)).collect()
    }
}

fn snapshot(set: &TargetSet, target: &Target, now: Moment) -> TargetSnapshot {
    let state = &target.state;
    let breaker = target.breaker.as_ref();
    TargetSnapshot {
        id: target.id(),
        address: target.address.to_string(),
        authority: target.authority.as_deref().map(str::to_owned),
        source: target.source.as_deref().map(str::to_owned),
        weight: target.weight,
        tier: target.tier,
        state: condition(set, target, now),
        health: state.health(),
        last_probe: state.probe().map(|probe| probe_snapshot(probe, now)),
        in_flight: state.in_flight(),
        max_in_flight: set.max_in_flight,
        ewma_ms: state.load.ewma.last_us().map(|us| f64::from(us) / 1000.0),
        requests: state.requests(),
        failures: Failures(FailureKind::ALL.map(|kind| state.failures(kind))),
        consecutive_failures: state.consecutive_failures(),
        ejections: state.ejections(),
        drained_ms: state.drained_since().map(|since| now.since(since).as_millis() as u64),
        ejected_for_ms: state.ejected(now).then(|| state.ejected_until().since(now).as_millis() as u64),
        breaker: breaker.map(|breaker| breaker.state(now)),
        breaker_opened: state.breaker_opened(),
        engine: match &set.spec.balance {
            config::Balance::Inference(spec) => Some(engine(&state.engine, spec.stale_after(), now)),
            _ => None,
        },
    }
}

/// Whether a target gets requests.
pub(super) fn condition(set: &TargetSet, target: &Target, now: Moment) -> TargetCondition {
    let (state, breaker) = (&target.state, target.breaker.as_ref());
    if state.is_drained() {
        TargetCondition::Drained
    } else if state.health() == Health::Unhealthy {
        TargetCondition::Unhealthy
    } else if breaker.is_some_and(|breaker| !breaker.admits(now)) {
        TargetCondition::BreakerOpen
    } else if state.ejected(now) {
        TargetCondition::Ejected
    } else if !set.has_room(target) {
        TargetCondition::Full
    } else {
        TargetCondition::Ready
    }
}

fn engine(state: &EngineState, stale_after: Duration, now: Moment) -> EngineSnapshot {
    let fresh = state.fresh(now, stale_after).map(|scrape| scrape.metrics);
    let (scraped, failed) = state.scrapes();
    EngineSnapshot {
        waiting: fresh.map(|metrics| metrics.waiting),
        running: fresh.map(|metrics| metrics.running),
        kv: fresh.and_then(|metrics| metrics.kv),
        age_ms: state.last().map(|scrape| now.since(scrape.at).as_millis() as u64),
        scraped,
        failed,
    }
}

fn probe_snapshot(probe: Probe, now: Moment) -> ProbeSnapshot {
    let ago_ms = now.since(probe.at).as_millis() as u64;
    match probe.result {
        Ok(status) => ProbeSnapshot { ago_ms, ok: true, status: Some(status), error: None },
        Err(error) => ProbeSnapshot { ago_ms, ok: false, status: None, error: Some(error) },
    }
}
