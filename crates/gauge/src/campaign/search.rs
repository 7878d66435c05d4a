//! The highest rate that meets the SLO: doubled until it does not, bisected, and confirmed with a second look, since one lucky
//! measurement is no capacity. Then the latency at shares of it, for a curve.

use super::generate::Failure;
use super::start::Running;
use super::{Campaign, CampaignError};
use crate::plan::{SearchPlan, System, Workload};
use crate::results::report::Measurement;
use crate::results::{Effect, Name};
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

/// How often a rate was measured, and how often it met the SLO.
#[derive(Debug, Clone, Copy)]
struct Looks {
    rate: f64,
    met: u32,
    missed: u32,
}

impl Looks {
    /// What most of the measurements say; null where they contradict each other.
    fn verdict(&self) -> Option<bool> {
        (self.met != self.missed).then_some(self.met > self.missed)
    }

    /// Said twice at least.
    fn is_confirmed(&self) -> bool {
        self.met.max(self.missed) >= CONFIRMED
    }
}

/// What to do next in a search; apart from the measuring, so that it can be tried with any server. One measurement settles nothing: both ends of what is
/// found are measured twice with the same result, and a rate whose results contradict each other, or those of lower rates, is measured again.
#[derive(Debug, Clone)]
pub(super) struct Bisection {
    from: f64,
    to: f64,
    precision: f64,
    /// Ascending.
    looks: Vec<Looks>,
    /// By how much the next rate is lower while none has met the SLO.
    down: f64,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    Try(f64),
    /// Measure a rate again.
    Confirm(f64),
    Found(f64),
    /// Not even the lowest rate.
    Nothing,
}

/// Measurements with the same result that settle a rate.
const CONFIRMED: u32 = 2;
/// Below this a rate says nothing of a server.
const LEAST_RATE: f64 = 1.0;
/// The first rate may have been far too bold.
const BOLD: f64 = 4.0;

impl Bisection {
    pub(super) fn new(from: f64, to: f64, precision: f64) -> Self {
        Bisection { from, to, precision, looks: Vec::new(), down: BOLD }
    }

    /// The highest rate that met the SLO below the lowest that did not, and that one. `Err` is a rate whose results must be settled first.
    fn bracket(&self) -> Result<(Option<Looks>, Option<Looks>), f64> {
        if let Some(open) = self.looks.iter().find(|looks| looks.verdict().is_none()) {
            return Err(open.rate);
        }
        let first = self.looks.iter().position(|looks| looks.verdict() == Some(false));
        let below = &self.looks[..first.unwrap_or(self.looks.len())];
        let high = first.map(|first| self.looks[first]);
        // What met the SLO above a rate that did not contradicts it.
        let above = first.map_or(&[][..], |first| &self.looks[first + 1..]);
        match high.filter(|high| !high.is_confirmed() && above.iter().any(|looks| looks.verdict() == Some(true))) {
            Some(high) => Err(high.rate),
            None => Ok((below.last().copied(), high)),
        }
    }

    pub(super) fn next(&self) -> Step {
        let (low, high) = match self.bracket() {
            Ok(bracket) => bracket,
            Err(rate) => return Step::Confirm(rate),
        };
        let open = [low, high].into_iter().flatten().find(|looks| !looks.is_confirmed());
        match (low.map(|low| low.rate), high.map(|high| high.rate)) {
            (None, None) => Step::Try(self.from),
            (None, Some(high)) if high > LEAST_RATE => Step::Try((high / self.down).max(LEAST_RATE)),
            (Some(low), None) if low < self.to => Step::Try((low * 2.0).min(self.to)),
            (Some(low), Some(high)) if high / low > 1.0 + self.precision => Step::Try((low * high).sqrt()),
            (low, _) => match (open, low) {
                (Some(open), _) => Step::Confirm(open.rate),
                (None, Some(low)) => Step::Found(low),
                (None, None) => Step::Nothing,
            },
        }
    }

    pub(super) fn tried(&mut self, step: Step, met: bool) {
        let (Step::Try(rate) | Step::Confirm(rate)) = step else { return };
        let at = self.looks.partition_point(|looks| looks.rate < rate);
        if self.looks.get(at).is_none_or(|looks| looks.rate > rate) {
            self.looks.insert(at, Looks { rate, met: 0, missed: 0 });
        }
        let looks = &mut self.looks[at];
        *(if met { &mut looks.met } else { &mut looks.missed }) += 1;
        if !met && at == 0 {
            // A rate that met the SLO once is too high by little; from one that never did it may be far.
            self.down = if looks.met > 0 { 1.0 + self.precision } else { (self.down * self.down).min(BOLD) };
        }
    }
}

/// A search that has not begun.
pub(super) fn nothing(round: u32, system: &System, workload: &Workload) -> Search {
    let (system, workload) = (system.name.clone(), workload.name.clone());
    Search { system, workload, round, points: Vec::new(), highest: None, failed: None, invalid: None }
}

/// That there are no figures, and why, as finding.
pub(super) fn not_measured(why: &str) -> String {
    format!("{}: {why}", Name::NotMeasured)
}

/// Why a search is repeated with its turn. (What spoils a measurement of it is repeated at once, without its turn.)
pub(super) fn to_repeat(search: &Search) -> Option<String> {
    search.invalid.clone().filter(|why| why.starts_with(Name::NotMeasured.as_str()))
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
    let name = super::system_round::id(round, system, workload);
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
            found.failed = Some(format!("no rate was confirmed within {MOST_POINTS} measurements"));
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
            Err(Failure::Condition(why)) => {
                found.invalid = Some(not_measured(&why));
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
            Err(Failure::Trial(_) | Failure::Condition(_)) => break,
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
        let (report, mut observed) = campaign.measure(name, round, workload, &plan.load(rate), None, running)?;
        // What a treatment shows is not counted here, and so neither are the responses of a cache.
        let treated = campaign.plan.systems.iter().any(|system| system.treatment.is_some());
        observed.reached = observed.reached.filter(|_| !treated && workload.treatment.is_none());
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
        let responses = report.total.requests.responses.filter(|responses| *responses > 0);
        let met = invalid.is_none() && of(Effect::Failure).is_none() && meets(&plan.slo, &report.total);
        let cpu_per_request_s = cpu.zip(responses).map(|(cpu, responses)| cpu / responses as f64);
        return Ok(Point { rate, met, confirmation, invalid, report, cpu_per_request_s });
    }
}

/// Too few responses for the percentile that the objective names, where nothing else says that it was not met.
fn too_few(slo: &Slo, total: &Measurement) -> Option<String> {
    let percentile = highest(slo)?;
    let (count, needed) = (total.latency.as_ref()?.count?, verdict::needed(percentile));
    let kept = total.drop_rate().is_none_or(|dropped| dropped <= verdict::DROPPED)
        && total.error_rate().is_none_or(|rate| rate <= slo.errors.unwrap_or(ALLOWED_ERRORS));
    (kept && count < needed).then(|| {
        format!("few-samples: p{percentile} takes {needed} responses, and there are {count}; use a longer `duration`")
    })
}

/// The highest percentile that an objective names.
fn highest(slo: &Slo) -> Option<f64> {
    let named = [(99.0, slo.p99_ms), (95.0, slo.p95_ms), (50.0, slo.p50_ms)];
    named.into_iter().find_map(|(percentile, limit)| limit.map(|_| percentile))
}

#[cfg(test)]
mod tests;
