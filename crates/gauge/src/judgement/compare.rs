//! Pairs of systems, and of a system and its twin, figure by figure.

use super::judge::Case;
use super::ranking::Scored;
use super::rows::{Figures, Series};
use super::{Comparison, Figure, Twin};
use crate::campaign::results::Role;
use crate::stats;

/// Smaller campaigns that are made of a twin's rounds.
const CAMPAIGNS: usize = 1_000;

/// Where a figure stands among those of a row.
type Of = fn(&Figures) -> &Series;

/// The figures of a workload; the score is of all workloads together.
const FIGURES: [(Figure, Of); 5] = [
    (Figure::Rate, |figures| &figures.rate),
    (Figure::Latency, |figures| &figures.tail_ms),
    (Figure::CpuPerRequest, |figures| &figures.cpu_us),
    (Figure::Memory, |figures| &figures.rss),
    (Figure::SloRate, |figures| &figures.highest_rate),
];

/// A figure of two systems under a workload, from the same rounds.
fn pairs(case: &Case<'_>, workload: &str, series: Of, a: &str, b: &str) -> Option<Vec<(f64, f64)>> {
    let of = |system| case.figures.get(&(workload, system)).map(series);
    let (a, b) = (of(a)?, of(b)?);
    Some(a.iter().filter_map(|(round, a)| Some((*a, *b.get(round)?))).collect())
}

/// Systems and their twins.
fn entered_twice<'r>(case: &Case<'r>) -> Vec<(&'r str, &'r str)> {
    let systems = case.results.systems.iter();
    systems
        .filter_map(|system| match &system.role {
            Role::TwinOf(name) => Some((name.as_str(), system.name.as_str())),
            Role::Direct | Role::Gateway => None,
        })
        .collect()
}

/// What the twins say of a figure: how far apart equal systems looked. 1 without twins. `both` has it of two systems, from the same rounds.
pub(super) fn guard(case: &Case<'_>, both: impl Fn(&str, &str) -> Option<Vec<(f64, f64)>>) -> f64 {
    entered_twice(case)
        .into_iter()
        .filter_map(|(own, twin)| stats::compare(&both(own, twin)?, 1.0))
        .map(|result| stats::guard(&result))
        .fold(1.0, f64::max)
}

/// Every pair of these systems that has rounds in common.
pub(super) fn in_pairs(
    workload: Option<&str>,
    figure: Figure,
    systems: &[&str],
    both: impl Fn(&str, &str) -> Option<Vec<(f64, f64)>>,
    guard: f64,
) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (index, a) in systems.iter().enumerate() {
        for b in &systems[index + 1..] {
            if let Some(result) = both(a, b).and_then(|pairs| stats::compare(&pairs, guard)) {
                let (a, b) = ((*a).to_owned(), (*b).to_owned());
                all.push(Comparison { workload: workload.map(str::to_owned), figure, a, b, result });
            }
        }
    }
    all
}

/// Every pair of systems (twins apart) in every figure that both have.
pub(super) fn comparisons(case: &Case<'_>, scored: &Scored) -> Vec<Comparison> {
    let systems = case.results.systems.iter().filter(|system| !matches!(system.role, Role::TwinOf(_)));
    let systems: Vec<&str> = systems.map(|system| system.name.as_str()).collect();
    let mut comparisons = scored.compared.clone();
    for workload in &case.results.workloads {
        for (figure, series) in FIGURES {
            let both = |a: &str, b: &str| pairs(case, &workload.name, series, a, b);
            comparisons.extend(in_pairs(Some(&workload.name), figure, &systems, both, guard(case, both)));
        }
    }
    comparisons
}

/// [`stats::declared_in_smaller`] of the rounds of all workloads together, mean over the figures. The score is left out, which is made of them.
pub(super) fn declared_in_smaller(case: &Case<'_>) -> Option<f64> {
    let twins = entered_twice(case);
    let share = |(_, series): (Figure, Of)| {
        let mut rounds = Vec::new();
        for workload in &case.results.workloads {
            let both = twins.iter().filter_map(|(own, twin)| pairs(case, &workload.name, series, own, twin));
            rounds.extend(both.flatten());
        }
        stats::declared_in_smaller(&rounds, CAMPAIGNS)
    };
    let shares: Vec<f64> = FIGURES.into_iter().filter_map(share).collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

/// Every system that was entered twice, in every figure.
pub(super) fn twins(case: &Case<'_>, scored: &Scored) -> Vec<Twin> {
    let mut twins = Vec::new();
    for (system, twin) in entered_twice(case) {
        let mut look = |workload: Option<&str>, figure: Figure, pairs: Vec<(f64, f64)>| {
            if let Some(result) = stats::compare(&pairs, 1.0) {
                twins.push(Twin {
                    system: system.to_owned(),
                    twin: twin.to_owned(),
                    workload: workload.map(str::to_owned),
                    figure,
                    result,
                    declared_in_smaller: stats::declared_in_smaller(&pairs, CAMPAIGNS),
                });
            }
        };
        if let (Some(own), Some(other)) = (scored.costs.get(system), scored.costs.get(twin)) {
            look(None, Figure::Score, own.in_common(other));
        }
        for workload in &case.results.workloads {
            for (figure, series) in FIGURES {
                if let Some(pairs) = pairs(case, &workload.name, series, system, twin) {
                    look(Some(&workload.name), figure, pairs);
                }
            }
        }
    }
    twins
}
