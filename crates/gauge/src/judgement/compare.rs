//! Pairs of systems, and of a system and its twin, figure by figure.

use std::collections::BTreeMap;

use super::judge::Case;
use super::ranking::{Scored, pairs};
use super::rows::{Figures, Series};
use super::{Comparison, Figure, Twin};
use crate::campaign::results::Role;
use crate::stats;

/// Campaigns that are drawn from a twin's rounds.
const CAMPAIGNS: usize = 1_000;

const FIGURES: [Figure; 5] = [Figure::Rate, Figure::Latency, Figure::CpuPerRequest, Figure::Memory, Figure::SloRate];

fn series(figures: &Figures, figure: Figure) -> &Series {
    match figure {
        Figure::Rate => &figures.rate,
        Figure::Latency => &figures.tail_ms,
        Figure::CpuPerRequest => &figures.cpu_us,
        Figure::Memory | Figure::Score => &figures.rss,
        Figure::SloRate => &figures.highest_rate,
    }
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

/// Every pair of systems (twins apart) in every figure that both have.
pub(super) fn comparisons(case: &Case<'_>, scored: &Scored) -> Vec<Comparison> {
    let systems: Vec<&str> = case
        .results
        .systems
        .iter()
        .filter(|system| !matches!(system.role, Role::TwinOf(_)))
        .map(|system| system.name.as_str())
        .collect();
    let mut comparisons = Vec::new();
    let mut compare = |workload: Option<&str>, figure: Figure, of: &dyn Fn(&str) -> Option<Series>, guard: f64| {
        let all: Vec<(&str, Series)> = systems.iter().filter_map(|system| Some((*system, of(system)?))).collect();
        for (index, (a, a_series)) in all.iter().enumerate() {
            for (b, b_series) in &all[index + 1..] {
                if let Some(result) = stats::compare(&pairs(a_series, b_series), guard) {
                    comparisons.push(Comparison {
                        workload: workload.map(str::to_owned),
                        figure,
                        a: (*a).to_owned(),
                        b: (*b).to_owned(),
                        result,
                    });
                }
            }
        }
    };
    let ranked = |system: &str| scored.ranking.iter().any(|place| place.system == system);
    let costs = |system: &str| Some(scored.costs.get(system).filter(|_| ranked(system))?.by_round());
    compare(None, Figure::Score, &costs, scored.guard);
    for workload in &case.results.workloads {
        for figure in FIGURES {
            let of = |system: &str| {
                case.figures.get(&(workload.name.as_str(), system)).map(|own| series(own, figure).clone())
            };
            compare(Some(&workload.name), figure, &of, guard(case, &workload.name, figure));
        }
    }
    comparisons
}

/// What the twins say of a figure.
fn guard(case: &Case<'_>, workload: &str, figure: Figure) -> f64 {
    let figures = |own, twin| Some((case.figures.get(&(workload, own))?, case.figures.get(&(workload, twin))?));
    entered_twice(case)
        .into_iter()
        .filter_map(|(own, twin)| figures(own, twin))
        .filter_map(|(own, twin)| stats::compare(&pairs(series(own, figure), series(twin, figure)), 1.0))
        .map(|result| stats::guard(&result))
        .fold(1.0, f64::max)
}

/// Every system that was entered twice, in every figure.
pub(super) fn twins(case: &Case<'_>, scored: &Scored) -> Vec<Twin> {
    let mut twins = Vec::new();
    for (system, twin) in entered_twice(case) {
        let mut look = |workload: Option<&str>, figure: Figure, own: &Series, other: &Series| {
            let pairs = pairs(own, other);
            if let Some(result) = stats::compare(&pairs, 1.0) {
                twins.push(Twin {
                    system: system.to_owned(),
                    twin: twin.to_owned(),
                    workload: workload.map(str::to_owned),
                    figure,
                    result,
                    false_declarations: stats::false_declarations(&pairs, CAMPAIGNS),
                });
            }
        };
        let costs: BTreeMap<&str, Series> =
            [system, twin].into_iter().filter_map(|name| Some((name, scored.costs.get(name)?.by_round()))).collect();
        if let (Some(own), Some(other)) = (costs.get(system), costs.get(twin)) {
            look(None, Figure::Score, own, other);
        }
        for workload in &case.results.workloads {
            let name = workload.name.as_str();
            let (Some(own), Some(other)) = (case.figures.get(&(name, system)), case.figures.get(&(name, twin))) else {
                continue;
            };
            for figure in FIGURES {
                look(Some(&workload.name), figure, series(own, figure), series(other, figure));
            }
        }
    }
    twins
}
