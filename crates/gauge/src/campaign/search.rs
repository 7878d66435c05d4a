//! The highest rate that meets the SLO: doubled until it does not, bisected, and confirmed with a second look, since one lucky
//! measurement is no capacity. Then the latency at shares of it, for a curve.

use super::generate::Failure;
use super::turn::Running;
use super::{Campaign, CampaignError};
use crate::load::report::Measurement;
use crate::plan::{SearchPlan, System, Workload};
use crate::results::Effect;
use crate::results::{Point, Search, Slo};
use crate::verdict::{self, ALLOWED_ERRORS, Context};

/// Rates tried in all, before it is given up: a search that does not settle is one on noise.
const MOST_POINTS: usize = 40;
/// How often a probe is repeated when the machine or the generator did not meet its conditions.
const REPEATS: usize = 2;

/// Whether a measurement meets the errors and percentiles of an SLO. A percentile that the SLO names and that was not measured is not met.
pub(super) fn meets(slo: &Slo, total: &Measurement) -> bool {
    let latency = total.latency.as_ref();
    let within = |limit: Option<f64>, found: Option<f64>| match (limit, found) {
        (Some(limit), Some(found)) => found <= limit,
        (Some(_), None) => false,
        (None, _) => true,
    };
    total.error_rate().is_some_and(|rate| rate <= slo.errors.unwrap_or(ALLOWED_ERRORS))
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
    Search { system, workload, round, points: Vec::new(), highest: None, failed: None, invalid: None }
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
        match point(campaign, &name, round, workload, plan, running, rate, confirmation) {
            Ok(point) if point.invalid.is_some() => {
                found.invalid.clone_from(&point.invalid);
                found.points.push(point);
                return Ok(found);
            }
            Ok(point) => {
                bisection.tried(step, point.met);
                found.points.push(point);
            }
            Err(Failure::Trial(why)) => {
                found.failed = Some(why);
                return Ok(found);
            }
            Err(Failure::Stopped) => return Err(CampaignError::Stopped),
            Err(Failure::Campaign(error)) => return Err(error),
        }
    }
    for share in &plan.curve {
        let rate = found.highest.unwrap_or(plan.from) * share;
        match point(campaign, &name, round, workload, plan, running, rate, false) {
            Ok(point) => found.points.push(point),
            Err(Failure::Stopped) => return Err(CampaignError::Stopped),
            Err(Failure::Campaign(error)) => return Err(error),
            // The rate that was found stands.
            Err(Failure::Trial(_)) => break,
        }
    }
    Ok(found)
}

fn lowest(found: &Search) -> f64 {
    found.points.iter().map(|point| point.rate).fold(f64::INFINITY, f64::min)
}

/// One rate, judged as a trial is: what its conditions spoil is repeated, what the gateway fails in is not met.
#[expect(clippy::too_many_arguments, reason = "what a probe is made of")]
fn point(
    campaign: &mut Campaign<'_>,
    name: &str,
    round: u32,
    workload: &Workload,
    plan: &SearchPlan,
    running: &Running,
    rate: f64,
    confirmation: bool,
) -> Result<Point, Failure> {
    campaign.progress.searching(name, rate);
    let mut repeats = 0;
    loop {
        let (report, observed) = campaign.measure(name, round, workload, &plan.load(rate), None, running)?;
        let context = Context {
            observed: Some(&observed),
            pinned: Some(&campaign.results.environment.pinned),
            allowed_errors: Some(plan.slo.errors.unwrap_or(ALLOWED_ERRORS)),
            ..Context::default()
        };
        let verdicts = verdict::look(&report, &context);
        let of = |effect: Effect| verdicts.iter().find(move |verdict| verdict.name.effect() == effect);
        let unmet = of(Effect::Condition).map(|verdict| format!("{}: {}", verdict.name, verdict.evidence));
        let invalid = unmet.or_else(|| too_few(&plan.slo, &report.total));
        if invalid.is_some() && repeats < REPEATS {
            repeats += 1;
            continue;
        }
        let cpu = observed.system.as_ref().and_then(verdict::cpu_s);
        let answered = report.total.requests.answered.filter(|answered| *answered > 0);
        let met = invalid.is_none() && of(Effect::Failure).is_none() && meets(&plan.slo, &report.total);
        let cpu_per_request_s = cpu.zip(answered).map(|(cpu, answered)| cpu / answered as f64);
        return Ok(Point { rate, met, confirmation, invalid, report, cpu_per_request_s });
    }
}

/// Too few responses for the percentile that the objective names, though the rate was kept.
fn too_few(slo: &Slo, total: &Measurement) -> Option<String> {
    let percentile = highest(slo)?;
    let (count, needed) = (total.latency.as_ref()?.count?, verdict::needed(percentile));
    let kept =
        total.drop_rate().is_none_or(|dropped| dropped == 0.0) && total.errors.total.is_none_or(|errors| errors == 0);
    (kept && count < needed).then(|| {
        format!("few-samples: p{percentile} takes {needed} responses, and {count} came; a longer `duration` would do")
    })
}

/// The highest percentile that an objective names.
fn highest(slo: &Slo) -> Option<f64> {
    let named = [(99.0, slo.p99_ms), (95.0, slo.p95_ms), (50.0, slo.p50_ms)];
    named.into_iter().find_map(|(percentile, limit)| limit.map(|_| percentile))
}

#[cfg(test)]
mod tests;
