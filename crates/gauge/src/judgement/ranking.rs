//! The score, round by round, and places by declared differences.

use std::collections::BTreeMap;

use super::judge::{Case, Series, differences};
use super::rows;
use crate::criterion::{CRITERIA, Criterion};
use crate::results::{Comparison, PartScore, Ranked, Row, Sensitivity, System, SystemState, Unranked, Weight};
use crate::stats::{self, Estimate, MIN_ROUNDS, WORST};

/// One criterion of one workload in the score.
#[derive(Debug, Clone)]
struct Part {
    workload: String,
    criterion: &'static Criterion,
    /// Its share; all parts together are 1.
    weight: f64,
}

/// What the score is made of, and of every system.
pub(super) struct Scores {
    parts: Vec<Part>,
    /// By system and part: the logarithm of the cost over the unit, by round.
    costs: BTreeMap<String, Vec<Series>>,
    pub(super) notes: Vec<String>,
}

/// The score from the logarithm of a cost.
fn score_of(cost: f64) -> f64 {
    100.0 * (-cost).exp()
}

/// The parts: criteria with a weight that the reference was measured in, in as many rounds as the others, or in enough to decide. A part that is measured in
/// few rounds would leave the score with these.
fn parts(case: &Case<'_>) -> (Vec<Part>, Vec<String>) {
    let rounds = |workload: &str, criterion: &Criterion| case.rounds_measured(workload, criterion);
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for workload in &case.results.workloads {
        let weight = if workload.weight.is_finite() { workload.weight.max(0.0) } else { 0.0 };
        for criterion in CRITERIA {
            let own = criterion.weight_in(case.results);
            if weight > 0.0 && own > 0.0 && rounds(&workload.name, criterion) > 0 {
                all.push(Part { workload: workload.name.clone(), criterion, weight: own });
            }
        }
    }
    let most = all.iter().map(|part| rounds(&part.workload, part.criterion)).max().unwrap_or(0);
    all.retain(|part| {
        let own = rounds(&part.workload, part.criterion);
        let enough = own >= most.min(MIN_ROUNDS);
        if !enough {
            notes.push(format!(
                "{} under {} was measured in {own} rounds, and {MIN_ROUNDS} are needed: it is shown beside the score, not in it.",
                part.criterion.name, part.workload
            ));
        }
        enough
    });
    let mut sum = 0.0;
    for workload in &case.results.workloads {
        let own = || all.iter().filter(|part| part.workload == workload.name);
        let (criteria, any) = (own().map(|part| part.weight).sum::<f64>(), own().next().is_some());
        sum += if any { workload.weight } else { 0.0 };
        for part in all.iter_mut().filter(|part| part.workload == workload.name) {
            part.weight *= workload.weight / criteria;
        }
    }
    all.iter_mut().for_each(|part| part.weight /= sum);
    for criterion in CRITERIA.iter().filter(|criterion| criterion.weight_in(case.results) > 0.0) {
        if !all.is_empty() && !all.iter().any(|part| part.criterion.name == criterion.name) {
            notes.push(format!(
                "The score does not include {}; the other parts have more weight instead.",
                criterion.name
            ));
        }
    }
    (all, notes)
}

/// The costs of every system in the parts.
pub(super) fn scores(case: &Case<'_>) -> Scores {
    let (parts, notes) = parts(case);
    let costs = case.results.systems.iter().map(|system| {
        let of = |part: &Part| {
            let own = case.costs(&part.workload, part.criterion, &system.name);
            let unit = case.unit(&part.workload, part.criterion);
            let Some((own, unit)) = own.zip(unit) else { return Series::new() };
            let ratio = |(round, cost): (&u32, &f64)| {
                let unit = unit.get(round)?;
                Some((*round, if *cost >= WORST { WORST } else { cost - unit }))
            };
            own.iter().filter_map(ratio).collect()
        };
        (system.name.clone(), parts.iter().map(of).collect())
    });
    Scores { costs: costs.collect(), notes, parts }
}

impl Scores {
    /// The weighted sum over parts in each round that has all of them; a round in which one failed has failed.
    fn sums(&self, system: &str, weight: impl Fn(&Part) -> f64) -> Series {
        let Some(costs) = self.costs.get(system) else { return Series::new() };
        let counted: Vec<(f64, &Series)> =
            self.parts.iter().map(weight).zip(costs).filter(|(weight, _)| *weight > 0.0).collect();
        let all: f64 = counted.iter().map(|(weight, _)| weight).sum();
        let Some((_, first)) = counted.first() else { return Series::new() };
        let sum = |round: &u32| {
            counted.iter().try_fold(0.0, |sum: f64, (weight, series)| {
                let cost = *series.get(round)?;
                Some(if cost >= WORST || sum >= WORST { WORST } else { sum + weight / all * cost })
            })
        };
        first.keys().filter_map(|round| Some((*round, sum(round)?))).collect()
    }

    fn estimate(&self, system: &str, weight: impl Fn(&Part) -> f64) -> Option<Estimate> {
        Estimate::of(&self.sums(system, weight).into_values().collect::<Vec<_>>())
    }

    /// Rounds that a system's score is of.
    pub(super) fn rounds(&self, system: &str) -> usize {
        self.sums(system, |part| part.weight).len()
    }

    /// The parts that a system has no figure for.
    pub(super) fn missing(&self, system: &str) -> Vec<String> {
        let costs = self.costs.get(system);
        let parts = self.parts.iter().enumerate();
        parts
            .filter(|(index, _)| costs.is_none_or(|costs| costs[*index].is_empty()))
            .map(|(_, part)| format!("{} under {}", part.criterion.name, part.workload))
            .collect()
    }

    /// Two systems by their scores.
    pub(super) fn compare(&self, a: &str, b: &str) -> Option<Comparison> {
        let of = |system| self.sums(system, |part| part.weight);
        let result = stats::Comparison::of(&differences(&of(a), &of(b)))?;
        Some(Comparison { workload: None, criterion: "score".to_owned(), a: a.to_owned(), b: b.to_owned(), result })
    }

    /// The weights, as planned and as used.
    pub(super) fn weights(&self, case: &Case<'_>) -> Vec<Weight> {
        let planned = |criterion: &Criterion| criterion.weight_in(case.results);
        let sum: f64 = CRITERIA.iter().map(planned).sum();
        let used = |criterion: &Criterion| {
            let own = self.parts.iter().filter(|part| part.criterion.name == criterion.name);
            own.map(|part| part.weight).sum::<f64>().max(0.0)
        };
        CRITERIA
            .iter()
            .map(|criterion| Weight {
                criterion: criterion.name.to_owned(),
                planned: if sum > 0.0 { planned(criterion) / sum } else { 0.0 },
                used: used(criterion),
            })
            .collect()
    }

    /// A system's parts, all workloads together and each.
    fn parts_of(&self, system: &str) -> Vec<PartScore> {
        let mut found = Vec::new();
        for criterion in CRITERIA {
            let own = |part: &&Part| part.criterion.name == criterion.name;
            let workloads = self.parts.iter().filter(own).map(|part| Some(part.workload.as_str()));
            for workload in std::iter::once(None).chain(workloads) {
                let weight = |part: &Part| {
                    let counts = own(&part) && workload.is_none_or(|workload| part.workload == workload);
                    if counts { part.weight } else { 0.0 }
                };
                found.extend(self.estimate(system, weight).map(|cost| PartScore {
                    criterion: criterion.name.to_owned(),
                    workload: workload.map(str::to_owned),
                    weight: self.parts.iter().map(weight).sum(),
                    cost: cost.map(f64::exp),
                }));
            }
        }
        found
    }
}

/// Why a system has no place, where that is its own doing; empty when it has one.
fn reasons(case: &Case<'_>, system: &System, rows: &[Row]) -> Vec<String> {
    match &system.state {
        SystemState::Ready => {}
        SystemState::NotHere(reason) => return vec![format!("configured, not run here: {reason}")],
        SystemState::NotSupported(reason) => return vec![format!("not supported: {reason}")],
        SystemState::Failed(reason) => return vec![format!("it could not be run: {reason}")],
        SystemState::NotConforming => {}
    }
    let mut why = Vec::new();
    match &system.conformance {
        Some(conformance) => why.extend(conformance.differences.iter().map(|difference| {
            format!(
                "{}, {}: {} is required, {} was found",
                difference.operation, difference.what, difference.expected, difference.found
            )
        })),
        None => why.push("its conformance was never checked".to_owned()),
    }
    for row in rows.iter().filter(|row| row.system == system.name) {
        let searches: Vec<_> = rows::counted_searches(&case.trials, &system.name, &row.workload).collect();
        let searched: Vec<&String> = searches.iter().filter_map(|search| search.failed.as_ref()).collect();
        let trials = row.failed.iter().map(|failed| &failed.why);
        for (what, failed, all, first) in [
            ("trials", row.failed.len(), row.rounds.len(), trials.clone().next()),
            ("searches", searched.len(), searches.len(), searched.first().copied()),
        ] {
            // With more, the estimate over the rounds is a failed trial.
            let decides = all > 0 && Estimate::of(&[vec![WORST; failed], vec![0.0; all - failed]].concat()).is_none();
            if let Some(first) = first.filter(|_| decides) {
                why.push(format!("{}: {failed} of {all} {what} failed, first: {first}", row.workload));
            }
        }
    }
    why
}

/// Gateways without a place.
pub(super) fn unranked(case: &Case<'_>, rows: &[Row]) -> Vec<Unranked> {
    let gateways = case.results.systems.iter().filter(|system| system.role.is_compared());
    let with_reasons =
        gateways.map(|system| Unranked { system: system.name.clone(), why: reasons(case, system, rows) });
    with_reasons.filter(|unranked| !unranked.why.is_empty()).collect()
}

/// The places of the others.
pub(super) fn rank(
    case: &Case<'_>,
    scores: &Scores,
    rows: &[Row],
    comparisons: &[Comparison],
    unranked: &[Unranked],
) -> Vec<Ranked> {
    let gateways =
        case.results.systems.iter().filter(|system| {
            system.role.is_compared() && !unranked.iter().any(|unranked| unranked.system == system.name)
        });
    let score = |system: &'_ System| scores.estimate(&system.name, |part| part.weight).map(|cost| cost.map(score_of));
    let ranked: Vec<(&str, Estimate)> =
        gateways.filter_map(|system| Some((system.name.as_str(), score(system)?))).collect();
    let better = |a: &str, b: &str| {
        comparisons.iter().any(|one| {
            let pair = (one.a == a && one.b == b) || (one.a == b && one.b == a);
            one.criterion == "score" && pair && one.better() == Some(a)
        })
    };
    let mut places: Vec<Ranked> = ranked
        .iter()
        .map(|(own, score)| {
            let others = || ranked.iter().map(|(other, _)| *other).filter(|other| other != own);
            let of_system = || rows.iter().filter(|row| row.system == **own);
            Ranked {
                place: 1 + others().filter(|other| better(other, own)).count() as u32,
                system: (*own).to_owned(),
                score: *score,
                failed: of_system().map(|row| row.failed.len() as u32).sum(),
                tied_with: others()
                    .filter(|other| !better(own, other) && !better(other, own))
                    .map(str::to_owned)
                    .collect(),
                parts: scores.parts_of(own),
            }
        })
        .collect();
    places.sort_by(|a, b| {
        a.place.cmp(&b.place).then(b.score.value.total_cmp(&a.score.value)).then_with(|| a.system.cmp(&b.system))
    });
    places
}

/// The scores when each part counts double, and when it does not count.
pub(super) fn sensitivity(scores: &Scores, ranking: &[Ranked]) -> Vec<Sensitivity> {
    let used = |criterion: &&Criterion| scores.parts.iter().any(|part| part.criterion.name == criterion.name);
    let criteria: Vec<&Criterion> = CRITERIA.iter().filter(used).collect();
    let mut changes = Vec::new();
    for criterion in &criteria {
        changes.push((criterion.name, 2.0, format!("{} counts double", criterion.name)));
        if criteria.len() > 1 {
            changes.push((criterion.name, 0.0, format!("without {}", criterion.name)));
        }
    }
    changes
        .into_iter()
        .map(|(changed, factor, change)| {
            let weight = |part: &Part| part.weight * if part.criterion.name == changed { factor } else { 1.0 };
            let score =
                |place: &Ranked| Some((place.system.clone(), score_of(scores.estimate(&place.system, weight)?.value)));
            let mut order: Vec<(String, f64)> = ranking.iter().filter_map(score).collect();
            order.sort_by(|(a_name, a), (b_name, b)| b.total_cmp(a).then_with(|| a_name.cmp(b_name)));
            let at = |system: &str| order.iter().position(|(name, _)| name == system);
            let same_order = ranking.iter().enumerate().all(|(index, ahead)| {
                let behind = ranking[index + 1..].iter();
                let mut separate = behind.filter(|behind| !ahead.tied_with.contains(&behind.system));
                separate.all(|behind| at(&ahead.system) < at(&behind.system))
            });
            Sensitivity { change, order, same_order }
        })
        .collect()
}
