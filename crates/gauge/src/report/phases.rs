//! The phases of a workload: what each system did in each of them.

use super::view::{number, or_dash, percent, shown, time};
use crate::results::{Judgement, Planned, Results};
use crate::verdict::words::size;

pub(super) const HEAD: [&str; 16] = [
    "phase",
    "system",
    "planned",
    "requests",
    "requests/s",
    "min",
    "mean",
    "p50",
    "p90",
    "p95",
    "p99",
    "errors",
    "CPU",
    "memory",
    "CPU % · s/request",
    "MB · s/request",
];

/// One line for each phase and system, with the names of the validity findings; empty where no load has phases.
pub(super) fn rows(results: &Results, judgement: &Judgement, workload: &str) -> Vec<(Vec<String>, Vec<&'static str>)> {
    let systems: Vec<&str> = shown(results, judgement).iter().map(|system| system.name.as_str()).collect();
    let own = |system: &&str| judgement.rows.iter().find(|row| row.system == **system && row.workload == workload);
    let all: Vec<_> = systems.iter().filter_map(own).collect();
    let phases = all.iter().map(|row| row.phases.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for index in 0..phases {
        for (system, phase) in all.iter().filter_map(|row| Some((&row.system, row.phases.get(index)?))) {
            let latency = |figure: fn(&crate::results::report::Latency) -> Option<f64>| {
                or_dash(phase.latency.as_ref().and_then(figure), time)
            };
            let cells = vec![
                phase.name.clone(),
                system.clone(),
                planned(&phase.planned),
                phase.requests.to_string(),
                or_dash(phase.rate, number),
                latency(|latency| latency.min_ms),
                latency(|latency| latency.mean_ms),
                latency(|latency| latency.p50_ms),
                latency(|latency| latency.p90_ms),
                latency(|latency| latency.p95_ms),
                latency(|latency| latency.p99_ms),
                or_dash(phase.error_rate, percent),
                or_dash(phase.cpu_percent, |cpu| format!("{} %", number(cpu))),
                or_dash(phase.memory_bytes, size),
                or_dash(phase.cpu_percent_per_request, |value| format!("{value:.4}")),
                or_dash(phase.memory_mb_per_request, |value| format!("{value:.4}")),
            ];
            lines.push((cells, phase.verdicts.iter().map(|verdict| verdict.name.as_str()).collect()));
        }
    }
    lines
}

/// `50 users, 120 s`.
fn planned(planned: &Planned) -> String {
    let users = planned.concurrency.map(|users| format!("{} users", number(users)));
    let rate = planned.rate.map(|rate| format!("{}/s", number(rate)));
    let requests = planned.requests.map(|requests| format!("{requests} requests"));
    let seconds = planned.duration_s.map(|seconds| format!("{} s", number(seconds)));
    let words: Vec<String> = rate.or(users).into_iter().chain(requests).chain(seconds).collect();
    words.join(", ")
}
