//! How a judgement is made.

use std::collections::BTreeMap;

use super::trials::Trials;
use super::{decision, ranking, rows, thresholds};
use crate::criterion::{CRITERIA, Criterion, Measured, Reference};
use crate::results::{
    Comparison, JUDGEMENT_FORMAT, Judgement, Results, Role, SystemState, TrialJudgement, WorkloadPlan,
};
use crate::stats::{self, Estimate, WORST};

/// Logarithms of costs by round.
pub(super) type Series = BTreeMap<u32, f64>;

/// All that is known of a campaign while it is judged.
pub(super) struct Case<'r> {
    pub(super) results: &'r Results,
    pub(super) trials: Trials<'r>,
    /// The system whose figures are the unit of the score.
    pub(super) reference: Option<&'r str>,
    /// The percentile that a workload is compared by.
    pub(super) percentiles: BTreeMap<&'r str, f64>,
    /// By workload, criterion and system.
    costs: BTreeMap<(&'r str, &'static str, &'r str), Series>,
    /// What the score divides by, by workload and criterion.
    units: BTreeMap<(&'r str, &'static str), Series>,
    /// In how many rounds the reference was measured, valid or not: what the score is made of does not depend on noise.
    measured: BTreeMap<(&'r str, &'static str), usize>,
}

impl<'r> Case<'r> {
    pub(super) fn of(results: &'r Results) -> Self {
        let trials = Trials::of(results);
        let named =
            results.reference.as_deref().filter(|name| results.systems.iter().any(|system| system.name == **name));
        let reference = named.or(trials.direct).or_else(|| trials.most_measured());
        let mut case = Case {
            results,
            trials,
            reference,
            percentiles: BTreeMap::new(),
            costs: BTreeMap::new(),
            units: BTreeMap::new(),
            measured: BTreeMap::new(),
        };
        for workload in &results.workloads {
            case.workload(workload);
        }
        case
    }

    fn workload(&mut self, workload: &'r WorkloadPlan) {
        let name = workload.name.as_str();
        let systems: Vec<&str> = self.trials.systems().map(|system| system.name.as_str()).collect();
        // Without a reference to go by, the first system with trials is as good as any.
        let measure = self.reference.or(systems.first().copied());
        let percentile =
            measure.and_then(|measure| rows::tail_percentile(&self.trials.row(measure, name), &workload.planned));
        self.percentiles.extend(percentile.map(|percentile| (name, percentile)));
        for system in systems {
            for criterion in CRITERIA {
                let (own, unit) = self.series(workload, criterion, system, percentile);
                if Some(system) == self.reference {
                    self.units.insert((name, criterion.name), unit);
                    self.measured
                        .insert((name, criterion.name), self.measured(workload, criterion, system, percentile));
                }
                if !own.is_empty() {
                    self.costs.insert((name, criterion.name, system), own);
                }
            }
        }
    }

    /// In how many rounds a system has a unit for the score, whether they count or not.
    fn measured(&self, workload: &WorkloadPlan, criterion: &Criterion, system: &str, percentile: Option<f64>) -> usize {
        let trials = self.trials.row(system, &workload.name);
        // Where no round is valid there is no percentile to compare by; any would do.
        let percentile = percentile.or(Some(50.0));
        let trials: Vec<Measured<'_>> = trials
            .iter()
            .map(|judged| Measured { trial: judged.trial, percentile, price: self.results.price })
            .collect();
        let suffices = criterion.suffices(&trials, self.is_upstreams(criterion, system));
        let has = |measured: &&Measured<'_>| suffices && self.unit_of(workload, criterion, measured).is_some();
        let searches = rows::searches(&self.trials, system, &workload.name);
        trials.iter().filter(has).count() + searches.filter(|search| criterion.of_search(search).is_some()).count()
    }

    /// Whether a criterion of a system is its upstream's, as unit of the score.
    fn is_upstreams(&self, criterion: &Criterion, system: &str) -> bool {
        self.trials.direct == Some(system) && matches!(criterion.reference, Reference::Upstream(_))
    }

    /// What a trial of the reference is as unit of the score.
    fn unit_of(&self, workload: &WorkloadPlan, criterion: &Criterion, measured: &Measured<'_>) -> Option<f64> {
        match criterion.reference {
            Reference::Upstream(of_upstream) if self.is_upstreams(criterion, &measured.trial.system) => {
                of_upstream(measured).filter(|value| *value > 0.0)
            }
            _ => criterion.of_trial(workload, measured),
        }
    }

    /// In how many rounds the reference was measured in a criterion.
    pub(super) fn rounds_measured(&self, workload: &str, criterion: &Criterion) -> usize {
        self.measured.get(&(workload, criterion.name)).copied().unwrap_or(0)
    }

    /// The costs of a system, and what they are as units of the score; a trial that failed is worse than any value, and no unit.
    fn series(
        &self,
        workload: &WorkloadPlan,
        criterion: &Criterion,
        system: &str,
        percentile: Option<f64>,
    ) -> (Series, Series) {
        let baseline = self.trials.direct == Some(system);
        let (mut own, mut units, mut failed) = (Series::new(), Series::new(), Vec::new());
        let (mut measured_in, mut counted) = (0, Vec::new());
        for judged in self.trials.row(system, &workload.name).into_iter().filter(|judged| judged.used) {
            let round = judged.trial.round;
            let measured = Measured { trial: judged.trial, percentile, price: self.results.price };
            if judged.failed.is_some() {
                failed.push(round);
                continue;
            }
            counted.push(measured);
            let value = criterion.of_trial(workload, &measured);
            measured_in += usize::from(value.is_some());
            own.extend(value.map(|value| (round, criterion.cost(value))));
            units.extend(self.unit_of(workload, criterion, &measured).map(|value| (round, criterion.cost(value))));
        }
        // Slow rounds have the fewest samples: without them a system would look better than it is.
        if criterion.is_percentile() && measured_in < counted.len() && self.reference != Some(system) {
            own.clear();
        }
        // All rounds or none: without those below a limit the others would look dearer than they are.
        if !criterion.suffices(&counted, false) {
            own.clear();
        }
        if !criterion.suffices(&counted, self.is_upstreams(criterion, system)) {
            units.clear();
        }
        for search in rows::counted_searches(&self.trials, system, &workload.name) {
            let value = criterion.of_search(search).map(|value| criterion.cost(value));
            if let Some(cost) = value {
                own.insert(search.round, cost);
                units.insert(search.round, cost);
            } else if criterion.is_searched() && search.failed.is_some() {
                failed.push(search.round);
            }
        }
        // A system that never did anything has no cost of anything.
        let applies = !own.is_empty() || criterion.is_searched();
        if applies && !baseline {
            failed.into_iter().for_each(|round| _ = own.insert(round, WORST));
        }
        (own, units)
    }

    /// The costs of a system.
    pub(super) fn costs<'s>(&'s self, workload: &'s str, criterion: &Criterion, system: &'s str) -> Option<&'s Series> {
        self.costs.get(&(workload, criterion.name, system))
    }

    /// The same where the reference is the baseline.
    pub(super) fn baseline_unit<'s>(&'s self, workload: &'s str, criterion: &Criterion) -> Option<&'s Series> {
        self.reference.filter(|reference| Some(*reference) == self.trials.direct)?;
        self.unit(workload, criterion).filter(|unit| !unit.is_empty())
    }

    /// What the score divides the costs by.
    pub(super) fn unit<'s>(&'s self, workload: &'s str, criterion: &Criterion) -> Option<&'s Series> {
        self.units.get(&(workload, criterion.name))
    }

    /// Milliseconds that a system adds to the latency of the baseline.
    pub(super) fn added(&self, workload: &str, system: &str) -> Option<Estimate> {
        let direct = self.trials.direct.filter(|direct| *direct != system)?;
        CRITERIA.iter().filter(|criterion| criterion.name.ends_with("latency")).find_map(|criterion| {
            let (own, baseline) = (self.costs(workload, criterion, system)?, self.costs(workload, criterion, direct)?);
            let added = |(round, cost): (&u32, &f64)| {
                Some(if *cost >= WORST { WORST } else { cost.exp() - baseline.get(round)?.exp() })
            };
            Estimate::of(&own.iter().filter_map(added).collect::<Vec<_>>())
        })
    }

    /// Two systems in every criterion of every workload, in the rounds that both have.
    fn compare(&self, a: &str, b: &str) -> Vec<Comparison> {
        let mut all = Vec::new();
        for workload in &self.results.workloads {
            for criterion in CRITERIA {
                let (own, other) = (self.costs(&workload.name, criterion, a), self.costs(&workload.name, criterion, b));
                let result = own.zip(other).and_then(|(a, b)| stats::Comparison::of(&differences(a, b)));
                all.extend(result.map(|result| Comparison {
                    workload: Some(workload.name.clone()),
                    criterion: criterion.name.to_owned(),
                    a: a.to_owned(),
                    b: b.to_owned(),
                    result,
                }));
            }
        }
        all
    }
}

/// Of two systems in the same rounds.
pub(super) fn differences(a: &Series, b: &Series) -> Vec<f64> {
    let of = |(round, a): (&u32, &f64)| b.get(round).map(|b| a - b);
    a.iter().filter_map(of).collect()
}

/// Declares differences, of the scores by themselves and of the criteria; how many comparisons were tested. Where nothing is decided no score differs.
fn declare(comparisons: &mut [Comparison], decided: bool) -> u32 {
    let (mut scores, mut criteria): (Vec<_>, Vec<_>) =
        comparisons.iter_mut().partition(|comparison| comparison.workload.is_none());
    let share = if decided { stats::SCORES } else { 0.0 };
    stats::declare(scores.iter_mut().map(|comparison| &mut comparison.result), share)
        + stats::declare(criteria.iter_mut().map(|comparison| &mut comparison.result), stats::CRITERIA)
}

/// Judges a campaign. The same results give the same judgement, byte for byte.
pub fn judge(results: &Results) -> Judgement {
    let case = Case::of(results);
    let rows: Vec<_> = results
        .workloads
        .iter()
        .flat_map(|workload| case.trials.systems().map(|system| rows::row(&case, &system.name, &workload.name)))
        .collect();
    let scores = ranking::scores(&case);
    let gateways: Vec<&str> = results
        .systems
        .iter()
        .filter(|system| system.role.is_compared() && system.state == SystemState::Ready)
        .map(|system| system.name.as_str())
        .collect();
    let unranked = ranking::unranked(&case, &rows);
    let decision = decision::decide(&case, &scores, &unranked);
    let mut comparisons = Vec::new();
    for (index, a) in gateways.iter().enumerate() {
        for b in &gateways[index + 1..] {
            comparisons.extend(scores.compare(a, b));
            comparisons.extend(case.compare(a, b));
        }
    }
    let tested = declare(&mut comparisons, decision.decided);
    let mut controls = Vec::new();
    for system in &results.systems {
        if let Role::ControlOf(of) = &system.role {
            controls.extend(scores.compare(of, &system.name));
            controls.extend(case.compare(of, &system.name));
        }
    }
    declare(&mut controls, true);
    let ranking = ranking::rank(&case, &scores, &rows, &comparisons, &unranked);
    let mut notes = decision::notes(&case);
    notes.extend(scores.notes.iter().cloned());
    notes.extend(controls.iter().filter(|control| control.result.declared).map(|control| {
        format!(
            "{} and its A/A control were declared different in {}{}, which is a false positive: do not believe differences of that size there.",
            control.a,
            control.criterion,
            control.workload.as_ref().map_or(String::new(), |workload| format!(" under {workload}")),
        )
    }));
    Judgement {
        format: JUDGEMENT_FORMAT,
        gauge: env!("CARGO_PKG_VERSION").to_owned(),
        subject: results.subject(),
        decision,
        reference: case.reference.map(str::to_owned),
        weights: scores.weights(&case),
        sensitivity: ranking::sensitivity(&scores, &ranking),
        ranking,
        unranked,
        age: super::age::age(&case, &rows),
        left_out: case.trials.left_out().cloned().collect(),
        comparisons,
        tested,
        controls,
        trials: case
            .trials
            .all
            .iter()
            .map(|judged| TrialJudgement {
                id: judged.trial.id.clone(),
                used: judged.used,
                failed: judged.failed.clone(),
                verdicts: judged.verdicts.clone(),
            })
            .collect(),
        outcomes: thresholds::outcomes(results, &case.trials, &rows),
        rows,
        notes,
    }
}
