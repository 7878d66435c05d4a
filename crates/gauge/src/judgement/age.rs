//! The paper's score, from a campaign.

use super::judge::Case;
use super::rows::{Pool, of_operation, pool};
use crate::age::{Metrics, as_coded, paper_endpoint};
use crate::results::Report;
use crate::results::report::Latency;
use crate::results::{AgeEndpoint, AgeScore, AgeScores, Row, SystemState, WorkloadPlan};

/// What all gateways have in common: a workload, or one of its operations.
struct Endpoint {
    workload: String,
    operation: Option<String>,
}

impl Endpoint {
    fn name(&self) -> String {
        match &self.operation {
            Some(operation) => format!("{}: {operation}", self.workload),
            None => self.workload.clone(),
        }
    }
}

/// The scores of the gateways that responded; null for fewer than two.
pub(super) fn age(case: &Case<'_>, rows: &[Row]) -> Option<AgeScores> {
    let used = |name: &str, workload: Option<&str>| {
        let own = |row: &&Row| row.system == name && workload.is_none_or(|workload| row.workload == workload);
        rows.iter().filter(own).any(|row| row.rounds.len() > row.failed.len())
    };
    let gateways: Vec<&str> = case
        .results
        .systems
        .iter()
        .filter(|system| system.role.is_compared() && system.state == SystemState::Ready)
        .map(|system| system.name.as_str())
        .filter(|name| used(name, None))
        .collect();
    // A workload that is only searched has no endpoint.
    let responses = |workload: &&WorkloadPlan| gateways.iter().all(|name| used(name, Some(&workload.name)));
    let workloads: Vec<&WorkloadPlan> = case.results.workloads.iter().filter(responses).collect();
    if gateways.len() < 2 || workloads.is_empty() {
        return None;
    }
    let reports = |gateway: &str, workload: &str| -> Vec<&Report> {
        case.trials.row(gateway, workload).into_iter().filter_map(|judged| judged.report()).collect()
    };
    let mut endpoints = Vec::new();
    for workload in &workloads {
        let all: Vec<Vec<&Report>> = gateways.iter().map(|gateway| reports(gateway, &workload.name)).collect();
        let in_all = |operation: &&String| {
            workload.operations.len() > 1
                && all.iter().all(|own| of_operation(own, operation).any(|total| total.requests.responses > Some(0)))
        };
        let operations: Vec<&String> = workload.operations.iter().filter(in_all).collect();
        if operations.is_empty() {
            endpoints.push(Endpoint { workload: workload.name.clone(), operation: None });
        }
        for operation in operations {
            endpoints.push(Endpoint { workload: workload.name.clone(), operation: Some(operation.clone()) });
        }
    }
    let mut paper: Vec<AgeScore> = gateways
        .iter()
        .map(|system| AgeScore { system: (*system).to_owned(), score: 0.0, endpoints: Vec::new() })
        .collect();
    let mut fewest = 10;
    for endpoint in &endpoints {
        let pools: Vec<Pool> = gateways
            .iter()
            .map(|gateway| {
                let reports = reports(gateway, &endpoint.workload);
                match &endpoint.operation {
                    Some(operation) => pool(of_operation(&reports, operation)),
                    None => pool(reports.iter().map(|report| &report.total)),
                }
            })
            .collect();
        let metrics: Vec<Metrics> = pools.iter().map(|pool| metrics(pool, pool.rate)).collect();
        let (scores, count) = paper_endpoint(&metrics);
        fewest = fewest.min(count);
        for (gateway, (score, pool)) in paper.iter_mut().zip(scores.into_iter().zip(&pools)) {
            gateway.endpoints.push(AgeEndpoint { name: endpoint.name(), score, samples: pool.responses });
        }
    }
    for gateway in &mut paper {
        gateway.score = gateway.endpoints.iter().map(|endpoint| endpoint.score).sum::<f64>() / endpoints.len() as f64;
    }
    let totals: Vec<Metrics> = gateways
        .iter()
        .map(|gateway| {
            let all = workloads.iter().flat_map(|workload| reports(gateway, &workload.name));
            let total = pool(all.map(|report| &report.total));
            // The total row's throughput: everything over all the time.
            let rate = (total.duration_s > 0.0).then(|| total.responses as f64 / total.duration_s);
            metrics(&total, rate)
        })
        .collect();
    let coded = as_coded(&totals);
    let mut coded: Vec<(String, f64)> = gateways.iter().map(|name| (*name).to_owned()).zip(coded).collect();
    coded.sort_by(|(a_name, a), (b_name, b)| b.total_cmp(a).then_with(|| a_name.cmp(b_name)));
    paper.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.system.cmp(&b.system)));
    Some(AgeScores { paper, coded, metrics: u32::try_from(fewest).unwrap_or(0) })
}

fn metrics(pool: &Pool, throughput: Option<f64>) -> Metrics {
    let none = Latency::default();
    let latency = pool.latency.as_ref().unwrap_or(&none);
    Metrics {
        throughput,
        min: latency.min_ms,
        max: latency.max_ms,
        mean: latency.mean_ms,
        stdev: latency.stdev_ms,
        p50: latency.p50_ms,
        p90: latency.p90_ms,
        p95: latency.p95_ms,
        p99: latency.p99_ms,
        error_rate: pool.error_rate(),
    }
}
