//! What a script that gauge made says at the end: the metrics of each scenario as a phase.

use std::collections::BTreeMap;
use std::process::ExitStatus;

use serde_json::Value;

use super::super::Single;
use super::scenarios::{self, Scenario};
use super::{GRPC_STATUSES, HTTP_STATUSES, is_grpc, trend};
use crate::import::{Format, ReadError, set_percentile};
use crate::load::add_phases;
use crate::load::workload::Workload;
use crate::results::report::{Bytes, Errors, Latency, LatencyFrom, Measurement, Phase, Rate, Report, Requests};

/// Reads the summary of the script of a workload. `status` is how k6 ended.
pub(in super::super) fn read(text: &str, workload: &Workload, status: ExitStatus) -> Result<Report, ReadError> {
    let broken = |problem: String| ReadError::Broken { format: Format::K6, problem };
    let summary: Value = serde_json::from_str(text).map_err(|error| broken(error.to_string()))?;
    let grpc = is_grpc(workload).unwrap_or(false);
    let scenarios = scenarios::all(workload).map_err(|error| broken(error.to_string()))?;
    let metrics = Metrics { summary: &summary, grpc, is_complete: status.success() };
    let began = |number: usize| metrics.number("gauge_began", number, "min").filter(|ms| *ms > 0.0);
    let first = (0..scenarios.len()).find_map(began).ok_or_else(|| broken("no iteration has begun".to_owned()))?;
    let mut report = Report::of("k6");
    report.generator.protocol = Some(if grpc { "gRPC" } else { "HTTP/1.1" }.to_owned());
    report.generator.latency_from = Some(LatencyFrom::Sent);
    report.started_unix_ms = Some(first as u64);
    if !status.success() {
        report.truncated = Some(format!("k6 ended with {status}"));
    }
    for (number, scenario) in scenarios.iter().enumerate() {
        // One that was never reached is not part of the report.
        let Some(began) = began(number) else { continue };
        report.phases.push(Phase {
            name: scenario.name.to_owned(),
            start_s: (began - first) / 1e3,
            measured: scenario.measured,
            total: metrics.phase(number, scenario, began),
            operations: Vec::new(),
        });
    }
    let measured: Vec<&Phase> = report.phases.iter().filter(|phase| phase.measured).collect();
    if let Some((total, _)) = add_phases(&measured) {
        let latency = if measured.len() > 1 { metrics.latency("measured:yes") } else { total.latency.clone() };
        report.total = Measurement { latency, ..total };
    }
    Ok(report)
}

struct Metrics<'s> {
    summary: &'s Value,
    grpc: bool,
    /// k6 ran to the end of its plan.
    is_complete: bool,
}

impl Metrics<'_> {
    fn values(&self, metric: &str, tag: &str) -> Option<&Value> {
        self.summary.get("metrics")?.get(format!("{metric}{{{tag}}}"))?.get("values")
    }

    fn number(&self, metric: &str, scenario: usize, key: &str) -> Option<f64> {
        let number = self.values(metric, &format!("scenario:p{scenario}"))?.get(key)?.as_f64()?;
        (number.is_finite() && number >= 0.0).then_some(number)
    }

    /// A metric that nothing was added to is not in the summary.
    fn count(&self, metric: &str, scenario: usize) -> u64 {
        self.number(metric, scenario, "count").unwrap_or(0.0) as u64
    }

    fn phase(&self, number: usize, scenario: &Scenario<'_>, began: f64) -> Measurement {
        let own = |name: &str| self.count(&format!("gauge_{name}"), number);
        let known = if self.grpc { GRPC_STATUSES } else { HTTP_STATUSES };
        let statuses: BTreeMap<u16, u64> = known
            .iter()
            .map(|status| (*status, own(&format!("status_{status}"))))
            .filter(|(_, count)| *count > 0)
            .collect();
        let others = own("status_other");
        let responses = statuses.values().sum::<u64>() + others;
        let [connect, reset, timeout, invalid, unsent, status, late] =
            ["connect", "reset", "timeout", "invalid", "unsent", "unexpected", "late"].map(own);
        let dropped = self.count("dropped_iterations", number);
        let sent = responses + reset + timeout + invalid;
        let duration_s = self.duration_s(number, scenario, began);
        let (concurrency, requested) = match scenario.load {
            Single::Closed(closed) => (closed.users.mean(), None),
            Single::Open(open) => (f64::from(open.connections), Some(open.rate.mean())),
        };
        Measurement {
            duration_s: Some(duration_s),
            concurrency: Some(concurrency),
            requests: Requests {
                scheduled: Some(sent + connect + unsent + dropped),
                sent: Some(sent),
                responses: Some(responses),
                late_responses: Some(late.min(responses)),
                dropped: Some(dropped),
                ..Requests::default()
            },
            rate: Rate {
                requested,
                achieved: (duration_s > 0.0).then(|| responses.saturating_sub(late) as f64 / duration_s),
            },
            statuses: (others == 0).then_some(statuses),
            errors: Errors {
                connect: Some(connect),
                reset: Some(reset),
                timeout: Some(timeout),
                status: Some(status),
                invalid_response: Some(invalid),
                unsent: self.grpc.then_some(unsent),
                total: Some(connect + reset + timeout + status + invalid + unsent),
                ..Errors::default()
            },
            bytes: Bytes {
                sent: Some(self.count("data_sent", number)),
                received: Some(self.count("data_received", number)),
                sent_bodies: None,
            },
            latency: self.latency(&format!("scenario:p{number}")),
            ..Measurement::default()
        }
    }

    /// As planned, or until the last response.
    fn duration_s(&self, number: usize, scenario: &Scenario<'_>, began: f64) -> f64 {
        let ran_s = self.number("gauge_ended", number, "max").map_or(0.0, |ended| (ended - began).max(0.0) / 1e3);
        match (scenario.planned(), &scenario.load) {
            (Some(planned), _) if self.is_complete => planned.as_secs_f64(),
            (Some(planned), _) => ran_s.min(planned.as_secs_f64()),
            (None, Single::Closed(closed)) => {
                // Its clock has milliseconds: what a user was at work on the average is a finer bound.
                let figure = |key| self.number("iteration_duration", number, key).unwrap_or(0.0);
                let busy_s = figure("avg") * figure("count") / 1e3 / closed.users.mean().max(1.0);
                let most = closed.duration.map_or(f64::INFINITY, |most| most.as_secs_f64());
                ran_s.max(busy_s).min(most)
            }
            (None, Single::Open(_)) => ran_s,
        }
    }

    fn latency(&self, tag: &str) -> Option<Latency> {
        let values = self.values(trend(self.grpc), tag)?.as_object()?;
        let ms = |key: &str| values.get(key).and_then(Value::as_f64).filter(|ms| ms.is_finite() && *ms >= 0.0);
        let count = ms("count").map(|count| count as u64).filter(|count| *count > 0)?;
        let mut latency = Latency {
            count: Some(count),
            min_ms: ms("min"),
            mean_ms: ms("avg"),
            max_ms: ms("max"),
            p50_ms: ms("med"),
            ..Latency::default()
        };
        for percentile in [75.0, 90.0, 95.0, 99.0, 99.9] {
            if let Some(ms) = ms(&format!("p({percentile})")) {
                set_percentile(&mut latency, percentile, ms);
            }
        }
        Some(latency)
    }
}
