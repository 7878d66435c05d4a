//! Whether a campaign's figures pass the thresholds of its evaluation.

use crate::results::{Judgement, Metric, Results, Row, SystemState, Threshold};
use crate::verdict::words::{number, percent, time};

/// What fails a run, a line each: a threshold that is met, and one that could not be checked. What was not measured has not passed.
pub fn failures(results: &Results, judgement: &Judgement) -> Vec<String> {
    let mut lines = Vec::new();
    if results.fail.is_empty() {
        return lines;
    }
    for system in results.systems.iter().filter(|system| system.role.is_compared()) {
        let why = match &system.state {
            SystemState::Ready => None,
            SystemState::NotHere(_) => Some("its program is not here"),
            SystemState::NotSupported(_) => Some("it is not supported"),
            SystemState::Failed(_) => Some("it failed"),
            SystemState::NotConforming => Some("its responses are not those of the upstream"),
        };
        if let Some(why) = why {
            lines.push(format!("{}: not checked: {why}", system.name));
            continue;
        }
        for workload in &results.workloads {
            let own = |row: &&Row| row.system == system.name && row.workload == workload.name;
            let row = judgement.rows.iter().find(own);
            let failed = row.map_or(0, |row| row.failed.len());
            let place = format!("{} under {}", system.name, workload.name);
            if failed > 0 {
                lines.push(format!("{place}: {failed} trials failed"));
            }
            for threshold in &results.fail {
                let name = threshold.metric.name();
                match row.and_then(|row| figure(results, judgement, row, threshold.metric)) {
                    Some(figure) if threshold.is_met_by(figure) => {
                        lines.push(format!(
                            "{place}: {name} is {}, {}",
                            words(threshold.metric, figure),
                            limit(threshold)
                        ));
                    }
                    Some(_) => {}
                    None => lines
                        .push(format!("{place}: {name} not checked: no valid round measured it, or too few responses")),
                }
            }
        }
    }
    lines
}

fn limit(threshold: &Threshold) -> String {
    format!("and {}{} fails", threshold.metric.name(), threshold.written)
}

fn figure(results: &Results, judgement: &Judgement, row: &Row, metric: Metric) -> Option<f64> {
    let latency = row.latency.as_ref();
    match metric {
        Metric::P50 => latency?.p50_ms,
        Metric::P90 => latency?.p90_ms,
        Metric::P95 => latency?.p95_ms,
        Metric::P99 => latency?.p99_ms,
        Metric::Mean => latency?.mean_ms,
        Metric::Errors => row.error_rate,
        Metric::Rate => {
            let own = results.trials.iter().zip(&judgement.trials).filter(|(trial, judged)| {
                judged.used && (&trial.system, &trial.workload) == (&row.system, &row.workload)
            });
            let rates: Vec<f64> = own.filter_map(|(trial, _)| trial.report.as_ref()?.total.rate.achieved).collect();
            (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
        }
    }
}

fn words(metric: Metric, figure: f64) -> String {
    match metric {
        Metric::Errors => percent(figure),
        Metric::Rate => format!("{}/s", number(figure)),
        _ => time(figure),
    }
}
