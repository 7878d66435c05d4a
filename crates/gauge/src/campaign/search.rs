//! The highest rate that meets the SLO: doubled until it does not, bisected, and confirmed with a second look, since one lucky
//! measurement is no capacity. Then the latency at shares of it, for a curve.

use super::generate::Failure;
use super::results::{Point, Search, Slo};
use super::turn::Running;
use super::{Campaign, CampaignError};
use crate::load::report::Measurement;
use crate::plan::{SearchPlan, System, Workload};

/// Rates tried in all, before it is given up: a search that does not settle is one on noise.
const MOST_POINTS: usize = 40;
/// Least share of a requested rate that must be achieved.
const ACHIEVED: f64 = 0.98;
/// Errors that an SLO allows which does not say: 0.1 %.
const ERRORS: f64 = 0.001;

/// Whether a measurement meets an SLO. A percentile that the SLO names and that was not measured is not met.
pub(super) fn meets(slo: &Slo, total: &Measurement) -> bool {
    let latency = total.latency.as_ref();
    let within = |limit: Option<f64>, found: Option<f64>| match (limit, found) {
        (Some(limit), Some(found)) => found <= limit,
        (Some(_), None) => false,
        (None, _) => true,
    };
    let achieved = total.rate.achieved.zip(total.rate.requested).is_some_and(|(got, asked)| got >= asked * ACHIEVED);
    let errors = total.error_rate().is_some_and(|rate| rate <= slo.errors.unwrap_or(ERRORS));
    let dropped = total.drop_rate().is_none_or(|rate| rate <= slo.errors.unwrap_or(ERRORS));
    achieved
        && errors
        && dropped
        && within(slo.p50_ms, latency.and_then(|latency| latency.p50_ms))
        && within(slo.p95_ms, latency.and_then(|latency| latency.p95_ms))
        && within(slo.p99_ms, latency.and_then(|latency| latency.p99_ms))
}

/// What to do next in a search; apart from the measuring, so that it can be tried with any server.
#[derive(Debug, Clone)]
pub(super) struct Bisection {
    from: f64,
    to: f64,
    precision: f64,
    /// Highest rate that met the SLO, and whether it did so twice.
    low: Option<(f64, bool)>,
    /// Lowest rate that did not.
    high: Option<f64>,
    /// By how much the next rate is lower while none has met the SLO.
    down: f64,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    Try(f64),
    Confirm(f64),
    Found(f64),
    /// Not even the lowest rate.
    Nothing,
}

/// Below this a rate says nothing of a server.
const LEAST_RATE: f64 = 1.0;
/// The first rate may have been far too bold.
const BOLD: f64 = 4.0;

impl Bisection {
    pub(super) fn new(from: f64, to: f64, precision: f64) -> Self {
        Bisection { from, to, precision, low: None, high: None, down: BOLD }
    }

    pub(super) fn next(&self) -> Step {
        match (self.low, self.high) {
            (None, None) => Step::Try(self.from),
            (None, Some(high)) if high > LEAST_RATE => Step::Try((high / self.down).max(LEAST_RATE)),
            (None, Some(_)) => Step::Nothing,
            (Some((low, _)), None) if low < self.to => Step::Try((low * 2.0).min(self.to)),
            (Some((low, _)), Some(high)) if high / low > 1.0 + self.precision => Step::Try((low * high).sqrt()),
            (Some((low, false)), _) => Step::Confirm(low),
            (Some((low, true)), _) => Step::Found(low),
        }
    }

    pub(super) fn tried(&mut self, step: Step, met: bool) {
        match (step, met) {
            (Step::Try(rate), true) => self.low = Some((rate, false)),
            (Step::Confirm(rate), true) => self.low = Some((rate, true)),
            (Step::Try(rate), false) => {
                self.high = Some(rate);
                if self.low.is_none() {
                    self.down = (self.down * self.down).min(BOLD);
                }
            }
            (Step::Confirm(rate), false) => {
                // Once it held and once it did not: too high, and by little. What is below must be found again.
                (self.high, self.low) = (Some(rate), None);
                self.down = 1.0 + self.precision;
            }
            (Step::Found(_) | Step::Nothing, _) => {}
        }
    }
}

/// A search that has not begun.
pub(super) fn nothing(round: u32, system: &System, workload: &Workload) -> Search {
    let (system, workload) = (system.name.clone(), workload.name.clone());
    Search { system, workload, round, points: Vec::new(), highest: None, failed: None }
}

/// Searches one system under one workload.
pub(super) fn search(
    campaign: &mut Campaign<'_>,
    round: u32,
    system: &System,
    workload: &Workload,
    plan: &SearchPlan,
    running: &Running,
) -> Result<Search, CampaignError> {
    let mut found = nothing(round, system, workload);
    let mut bisection = Bisection::new(plan.from, plan.to, plan.precision);
    let name = super::turn::id(round, system, workload);
    loop {
        let step = bisection.next();
        let (rate, confirmation) = match step {
            Step::Try(rate) => (rate, false),
            Step::Confirm(rate) => (rate, true),
            Step::Found(rate) => {
                found.highest = Some(rate);
                break;
            }
            Step::Nothing => {
                found.failed = Some(format!("the SLO was met at no rate down to {:.1}/s", lowest(&found)));
                return Ok(found);
            }
        };
        if found.points.len() >= MOST_POINTS {
            found.failed = Some(format!("no rate held twice within {MOST_POINTS} measurements"));
            return Ok(found);
        }
        match point(campaign, &name, workload, plan, running, rate, confirmation) {
            Ok(point) => {
                bisection.tried(step, point.met);
                found.points.push(point);
            }
            Err(Failure::Run(why)) => {
                found.failed = Some(why);
                return Ok(found);
            }
            Err(Failure::Stopped) => return Err(CampaignError::Stopped),
            Err(Failure::Campaign(error)) => return Err(error),
        }
    }
    for share in &plan.curve {
        let rate = found.highest.unwrap_or(plan.from) * share;
        match point(campaign, &name, workload, plan, running, rate, false) {
            Ok(point) => found.points.push(point),
            Err(Failure::Stopped) => return Err(CampaignError::Stopped),
            Err(Failure::Campaign(error)) => return Err(error),
            // The rate that was found stands.
            Err(Failure::Run(_)) => break,
        }
    }
    Ok(found)
}

fn lowest(found: &Search) -> f64 {
    found.points.iter().map(|point| point.rate).fold(f64::INFINITY, f64::min)
}

fn point(
    campaign: &mut Campaign<'_>,
    name: &str,
    workload: &Workload,
    plan: &SearchPlan,
    running: &Running,
    rate: f64,
    confirmation: bool,
) -> Result<Point, Failure> {
    campaign.progress.searching(name, rate);
    let (report, observed) = campaign.measure(name, workload, &plan.load(rate), None, running)?;
    let cpu = observed.system.as_ref().and_then(|usage| Some(usage.user_s? + usage.system_s?));
    let answered = report.total.requests.answered.filter(|answered| *answered > 0);
    let met = meets(&plan.slo, &report.total);
    let cpu_per_request_s = cpu.zip(answered).map(|(cpu, answered)| cpu / answered as f64);
    Ok(Point { rate, met, confirmation, report, cpu_per_request_s })
}

#[cfg(test)]
mod tests;
