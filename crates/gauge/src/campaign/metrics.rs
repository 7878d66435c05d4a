//! A campaign's metrics while it runs, for a scrape by Prometheus (text format 0.0.4).
//!
//! Counters count from the start of the program, warm-up included, by system and workload. Gauges are of the running trial and are left out while none runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use admin_http::Bounds;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;

use super::progress::{Moment, PartMoment};
use crate::results::report::Errors;
use crate::results::{Planned, Results, Trial, TrialState, WorkloadPlan};

const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A scraper or two, and somebody who looks.
const BOUNDS: Bounds = Bounds { connections: 16, head_or_idle: Duration::from_secs(30) };

/// System and workload.
type Key = (String, String);

/// What is scraped.
#[derive(Debug, Default)]
pub struct RunMetrics {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    campaign: Option<(String, String, String)>,
    systems: Vec<String>,
    workloads: Vec<WorkloadPlan>,
    rounds: u32,
    runs: (usize, usize),
    counts: BTreeMap<Key, Counts>,
    errors: BTreeMap<(Key, &'static str), u64>,
    trials: BTreeMap<(String, &'static str), u64>,
    running: Option<Running>,
}

/// Responses, errors and dropped requests.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    responses: u64,
    failed: u64,
    dropped: u64,
}

/// The trial that runs, or a step of a search.
#[derive(Debug, Clone, Default)]
struct Running {
    id: String,
    key: Key,
    round: u32,
    state: &'static str,
    /// The rate that a search tries.
    searched: Option<f64>,
    /// What its generator has counted so far; already in the counters.
    seen: Counts,
    moment: Moment,
}

impl RunMetrics {
    /// Serves them at `/metrics` on a thread of its own until the program ends; where.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn serve(address: SocketAddr) -> io::Result<(SocketAddr, Arc<Self>)> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let metrics = Arc::new(RunMetrics::default());
        let shared = Arc::clone(&metrics);
        let page = move || {
            let text = shared.text();
            async move { ([(CONTENT_TYPE, CONTENT)], text) }
        };
        let router = Router::new().route("/metrics", get(page));
        std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            runtime.block_on(async {
                if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                    admin_http::serve(listener, router, BOUNDS, std::future::pending()).await;
                }
            });
        })?;
        Ok((address, metrics))
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The campaign begins, or goes on.
    pub fn begun(&self, results: &Results) {
        self.with(|state| {
            state.campaign = Some((super::id(results), results.name.clone(), results.gauge.clone()));
            state.systems = results.systems.iter().map(|system| system.name.clone()).collect();
            state.workloads = results.workloads.clone();
            state.rounds = results.rounds;
        });
    }

    /// So many rounds of systems are planned and done.
    pub fn planned(&self, runs: usize, done: usize) {
        self.with(|state| state.runs = (runs, done));
    }

    /// A trial is in another state.
    pub fn trial(&self, trial: &Trial) {
        self.with(|state| state.trial(trial));
    }

    /// A rate is tried.
    pub fn searching(&self, id: &str, rate: f64) {
        self.with(|state| {
            let key = state.key_of(id);
            let searched = Some(rate);
            state.running =
                Some(Running { id: id.to_owned(), key, state: "searching", searched, ..Running::default() });
        });
    }

    /// A second of a load.
    pub fn moment(&self, moment: &Moment) {
        self.with(|state| state.moment(moment));
    }

    /// The campaign has ended.
    pub fn ended(&self) {
        self.with(|state| state.running = None);
    }

    /// The page.
    pub fn text(&self) -> String {
        self.with(|state| state.text())
    }
}

impl State {
    fn trial(&mut self, trial: &Trial) {
        let key = (trial.system.clone(), trial.workload.clone());
        match trial.state {
            TrialState::Planned | TrialState::Starting | TrialState::Warming | TrialState::Measuring => {
                let known = self.running.take().filter(|running| running.id == trial.id && running.searched.is_none());
                let running = known.unwrap_or_else(|| Running { id: trial.id.clone(), key, ..Running::default() });
                self.running = Some(Running { round: trial.round, state: trial.state.name(), ..running });
            }
            TrialState::Done | TrialState::Failed(_) | TrialState::Void(_) | TrialState::Aborted(_) => {
                self.running = None;
                *self.trials.entry((trial.system.clone(), trial.state.name())).or_default() += 1;
                if let Some(report) = &trial.report {
                    for (kind, count) in kinds(&report.total.errors) {
                        *self.errors.entry((key.clone(), kind)).or_default() += count;
                    }
                }
            }
        }
    }

    fn moment(&mut self, moment: &Moment) {
        let key = self.key_of(&moment.trial);
        let running =
            self.running.get_or_insert_with(|| Running { id: moment.trial.clone(), key, ..Running::default() });
        running.moment = moment.clone();
        let Some(load) = &moment.load else { return };
        let now = Counts { responses: load.responses, failed: load.errors, dropped: load.dropped };
        // A generator that counts from the beginning is another one: a trial was repeated, or a search goes on.
        let before = if now.responses < running.seen.responses { Counts::default() } else { running.seen };
        running.seen = now;
        let counts = self.counts.entry(running.key.clone()).or_default();
        counts.responses += now.responses.saturating_sub(before.responses);
        counts.failed += now.failed.saturating_sub(before.failed);
        counts.dropped += now.dropped.saturating_sub(before.dropped);
    }

    /// The system and the workload in the name of a trial or a step: `r03-weir.retrieve`.
    fn key_of(&self, id: &str) -> Key {
        let mut best = Key::default();
        for system in &self.systems {
            for workload in self.workloads.iter().map(|workload| &workload.name) {
                let longer = system.len() + workload.len() > best.0.len() + best.1.len();
                if longer && id.contains(&format!("-{system}.{workload}")) {
                    best = (system.clone(), workload.clone());
                }
            }
        }
        best
    }

    fn text(&self) -> String {
        let mut page = Page::default();
        if let Some((id, name, version)) = &self.campaign {
            page.family("gauge_campaign_info", "gauge", "The campaign that runs; always 1.");
            page.sample("gauge_campaign_info", &[("campaign", id), ("name", name), ("version", version)], 1.0);
            page.family("gauge_rounds", "gauge", "Rounds that are planned.");
            page.sample("gauge_rounds", &[], f64::from(self.rounds));
            page.family(
                "gauge_system_rounds",
                "gauge",
                "Rounds of systems (one system in one round) that are planned.",
            );
            page.sample("gauge_system_rounds", &[], self.runs.0 as f64);
            page.family("gauge_system_rounds_done", "gauge", "Rounds of systems that are done.");
            page.sample("gauge_system_rounds_done", &[], self.runs.1 as f64);
        }
        for (name, help, of) in [
            (
                "gauge_responses_total",
                "Complete responses, warm-up included.",
                (|counts| counts.responses) as fn(&Counts) -> u64,
            ),
            ("gauge_failures_total", "Requests that went wrong, of any kind, warm-up included.", |counts| {
                counts.failed
            }),
            ("gauge_dropped_total", "Requests of an open loop that were due and could not be sent.", |counts| {
                counts.dropped
            }),
        ] {
            if !self.counts.is_empty() {
                page.family(name, "counter", help);
            }
            for ((system, workload), counts) in &self.counts {
                page.sample(name, &[("system", system), ("workload", workload)], of(counts) as f64);
            }
        }
        if !self.errors.is_empty() {
            page.family(
                "gauge_errors_total",
                "counter",
                "Requests that went wrong in trials that have ended, by kind, without warm-ups.",
            );
        }
        for (((system, workload), kind), count) in &self.errors {
            let labels = [("system", system.as_str()), ("workload", workload), ("kind", kind)];
            page.sample("gauge_errors_total", &labels, *count as f64);
        }
        if !self.trials.is_empty() {
            page.family("gauge_trials_total", "counter", "Trials that have ended, by their state.");
        }
        for ((system, state), count) in &self.trials {
            page.sample("gauge_trials_total", &[("system", system), ("state", state)], *count as f64);
        }
        if let Some(running) = &self.running {
            self.running(running, &mut page);
        }
        page.text
    }

    fn running(&self, running: &Running, page: &mut Page) {
        let (system, workload) = (running.key.0.as_str(), running.key.1.as_str());
        let load = running.moment.load.clone().unwrap_or_default();
        let phase = load.phase.clone().unwrap_or_default();
        let round = running.round.to_string();
        let labels = [
            ("trial", running.id.as_str()),
            ("system", system),
            ("workload", workload),
            ("phase", &phase),
            ("round", &round),
            ("state", running.state),
        ];
        page.family("gauge_trial_info", "gauge", "The trial that runs, or the step of a search; always 1.");
        page.sample("gauge_trial_info", &labels, 1.0);
        let own = [("system", system), ("workload", workload), ("phase", phase.as_str())];
        let planned = self.planned_of(workload, &phase);
        let rate = running.searched.or(planned.rate);
        page.one(
            "gauge_planned_requests_per_second",
            "Rate that the plan of the phase requests of an open loop.",
            &own,
            rate,
        );
        page.one(
            "gauge_planned_users",
            "Users of a closed loop, or connections of an open one, in the phase.",
            &own,
            planned.concurrency,
        );
        if running.moment.load.is_some() {
            page.one(
                "gauge_achieved_requests_per_second",
                "Responses per second since the moment before.",
                &own,
                Some(load.rate),
            );
        }
        let percentiles = [("50", load.p50_ms), ("99", load.p99_ms)];
        if percentiles.iter().any(|(_, ms)| ms.is_some()) {
            page.family("gauge_latency_seconds", "gauge", "Percentiles of the latency in the last full second.");
        }
        for (percentile, ms) in percentiles {
            if let Some(ms) = ms {
                let labels =
                    [("system", system), ("workload", workload), ("phase", &phase), ("percentile", percentile)];
                page.sample("gauge_latency_seconds", &labels, ms / 1e3);
            }
        }
        let parts = [
            ("system", running.moment.system),
            ("upstream", running.moment.upstream),
            ("generator", running.moment.generator),
        ];
        let parts: Vec<(&str, PartMoment)> = parts.into_iter().filter_map(|(name, part)| Some((name, part?))).collect();
        for (name, help, of) in [
            (
                "gauge_processors_used",
                "CPU time over time of a part of the trial in the last half second: 1 is one processor.",
                (|part| part.cpu_percent / 100.0) as fn(&PartMoment) -> f64,
            ),
            ("gauge_memory_bytes", "Memory of a part of the trial (PSS, else RSS).", |part| part.memory_bytes as f64),
        ] {
            if !parts.is_empty() {
                page.family(name, "gauge", help);
            }
            for (part, use_) in &parts {
                page.sample(name, &[("system", system), ("workload", workload), ("part", part)], of(use_));
            }
        }
    }

    fn planned_of(&self, workload: &str, phase: &str) -> Planned {
        let Some(plan) = self.workloads.iter().find(|plan| plan.name == workload) else { return Planned::default() };
        plan.phases.iter().find(|own| own.name == phase).map_or(plan.planned, |own| own.planned)
    }
}

/// The kinds that were counted.
fn kinds(errors: &Errors) -> impl Iterator<Item = (&'static str, u64)> {
    [
        ("connect", errors.connect),
        ("reset", errors.reset),
        ("timeout", errors.timeout),
        ("status", errors.status),
        ("invalid_response", errors.invalid_response),
        ("tls", errors.tls),
        ("closed", errors.closed),
        ("unsent", errors.unsent),
    ]
    .into_iter()
    .filter_map(|(kind, count)| Some((kind, count?)))
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let pair = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escape(value));
        let labels: Vec<String> = labels.iter().map(pair).collect();
        let braces = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{name}{braces} {value}");
    }

    /// A gauge with one sample, where it has a value.
    fn one(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: Option<f64>) {
        if let Some(value) = value {
            self.family(name, "gauge", help);
            self.sample(name, labels, value);
        }
    }
}

/// A value of a label.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests;
