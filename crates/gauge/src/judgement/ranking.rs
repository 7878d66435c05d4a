//! Who is better by how much: gates first, then the score, places by declared differences.

use std::collections::BTreeMap;

use super::compare::{guard, in_pairs};
use super::judge::Case;
use super::rows::{self, Figures, Series};
use super::{Comparison, Figure, PartScore, Place, Sensitivity, Unranked};
use crate::campaign::results::{Role, System, SystemState};
use crate::score::gauge::probability_of_first;
use crate::score::{Cell, Costs, Part, Weight};
use crate::stats::Estimate;
use crate::verdict::words::number;

/// Share of a row's rounds that must count, and of its searches that must find a rate.
const ROUNDS_USED: f64 = 0.5;

/// What came of it.
pub(super) struct Scored {
    pub(super) ranking: Vec<Place>,
    pub(super) unranked: Vec<Unranked>,
    pub(super) weights: Vec<Weight>,
    pub(super) sensitivity: Vec<Sensitivity>,
    pub(super) notes: Vec<String>,
    /// Of every system with runs, twins included, by name.
    pub(super) costs: BTreeMap<String, Costs>,
    /// Those with a place in pairs, by their costs.
    pub(super) compared: Vec<Comparison>,
}

/// A part's weight, as the evaluation or the default says.
fn weight_of(case: &Case<'_>, part: Part) -> f64 {
    case.results.weights.get(part.as_str()).copied().unwrap_or_else(|| part.weight())
}

/// The shares of the cells, by workload and part: the parts that the reference has figures for, each workload's adding up to its weight.
fn weights(case: &Case<'_>) -> BTreeMap<(String, Part), f64> {
    let mut weights = BTreeMap::new();
    let Some(reference) = case.reference else {
        return weights;
    };
    let mut sum = 0.0;
    for workload in &case.results.workloads {
        let Some(figures) = case.figures.get(&(workload.name.as_str(), reference)) else { continue };
        // A part without weight is none: it may keep nobody out of the ranking.
        let counts = |part: &Part| weight_of(case, *part) > 0.0 && !of_reference(case, figures, *part).is_empty();
        let measured: Vec<Part> = Part::ALL.into_iter().filter(counts).collect();
        let parts: f64 = measured.iter().map(|part| weight_of(case, *part)).sum();
        let weight = if workload.weight.is_finite() { workload.weight.max(0.0) } else { 0.0 };
        if parts > 0.0 && weight > 0.0 {
            sum += weight;
            for part in measured {
                weights.insert((workload.name.clone(), part), weight * weight_of(case, part) / parts);
            }
        }
    }
    weights.values_mut().for_each(|weight| *weight /= sum);
    weights
}

/// What a part is a multiple of.
fn of_reference<'f>(case: &Case<'_>, figures: &'f Figures, part: Part) -> &'f Series {
    let without_gateway = case.without_gateway();
    match part {
        Part::SloRate => &figures.highest_rate,
        Part::AddedLatency => &figures.tail_ms,
        Part::CpuPerRequest if without_gateway => &figures.upstream_cpu_us,
        Part::CpuPerRequest => &figures.cpu_us,
        Part::Memory if without_gateway => &figures.upstream_rss,
        Part::Memory => &figures.rss,
    }
}

fn of_system(figures: &Figures, part: Part) -> &Series {
    match part {
        Part::SloRate => &figures.highest_rate,
        Part::AddedLatency => &figures.tail_ms,
        Part::CpuPerRequest => &figures.cpu_us,
        Part::Memory => &figures.rss,
    }
}

/// All parts of a system, round by round.
fn costs(case: &Case<'_>, weights: &BTreeMap<(String, Part), f64>, system: &str) -> Costs {
    let Some(reference) = case.reference else {
        return Costs::default();
    };
    let cells = weights
        .iter()
        .map(|((workload, part), weight)| {
            let unit =
                case.figures.get(&(workload.as_str(), reference)).map(|figures| of_reference(case, figures, *part));
            let own = case.figures.get(&(workload.as_str(), system)).map(|figures| of_system(figures, *part));
            let mut logs = BTreeMap::new();
            if let (Some(unit), Some(own)) = (unit, own) {
                for (round, value) in own {
                    if let Some(unit) = unit.get(round) {
                        let ratio = if *part == Part::SloRate { unit / value } else { value / unit };
                        logs.insert(*round, ratio.ln());
                    }
                }
            }
            Cell { workload: workload.clone(), part: *part, weight: *weight, logs }
        })
        .collect();
    Costs { cells }
}

/// Why a system has no place; empty when it has one.
fn gates(case: &Case<'_>, system: &System, costs: &Costs) -> Vec<String> {
    let mut why = Vec::new();
    match &system.state {
        SystemState::Ready => {}
        SystemState::NotHere(reason) => return vec![format!("configured, not run here: {reason}")],
        SystemState::Failed(reason) => return vec![format!("it could not be run: {reason}")],
        SystemState::NotAttested => why.push("it does not do what the description asks for".to_owned()),
    }
    match &system.attestation {
        Some(attestation) => why.extend(attestation.differences.iter().map(|difference| {
            format!(
                "{}, {}: {} is required, {} was found",
                difference.operation, difference.what, difference.expected, difference.found
            )
        })),
        None if system.state == SystemState::Ready => {
            why.push("it was never compared with the lane without a gateway".to_owned());
        }
        None => {}
    }
    for workload in &case.results.workloads {
        let Some(row) = case.rows_of(&system.name).find(|row| row.workload == workload.name) else { continue };
        let all = row.rounds.len() + row.left_out.len();
        let searched = row.highest_rate.is_some() || row.search_failed.is_some();
        if all == 0 && !searched {
            why.push(format!("{}: it has no run", workload.name));
        } else if (row.rounds.len() as f64) < all as f64 * ROUNDS_USED {
            let reason = row.left_out.first().map_or("", |left_out| left_out.why.as_str());
            why.push(format!(
                "{}: only {} of {all} rounds count (round {}: {reason})",
                workload.name,
                row.rounds.len(),
                row.left_out.first().map_or(0, |left_out| left_out.round)
            ));
        }
        for verdict in row.verdicts.iter().filter(|verdict| verdict.name.bars_ranking()) {
            why.push(format!("{}: {}: {}", workload.name, verdict.name, verdict.evidence));
        }
        if let Some(failed) = row.search_failed.as_ref().filter(|_| row.highest_rate.is_none()) {
            why.push(format!("{}: no rate met the objective: {failed}", workload.name));
        }
        // The rounds that found none are its worst ones.
        let searches = rows::searches(&case.runs, &system.name, &workload.name);
        let found = searches.iter().filter(|search| search.highest.is_some()).count();
        if found > 0 && (found as f64) < searches.len() as f64 * ROUNDS_USED {
            let reason = searches.iter().find_map(|search| search.failed.as_deref()).unwrap_or("");
            let all = searches.len();
            why.push(format!(
                "{}: a rate met the objective in only {found} of {all} searches: {reason}",
                workload.name
            ));
        }
    }
    if case.rows_of(&system.name).next().is_none() && why.is_empty() {
        why.push("it has no run".to_owned());
    }
    if why.is_empty() {
        for cell in costs.cells.iter().filter(|cell| cell.logs.is_empty()) {
            why.push(format!(
                "{}: there is no figure for {}{}",
                cell.workload,
                cell.part.as_str(),
                too_few(case, system, cell)
            ));
        }
    }
    why
}

/// Why there are no response times, where answers were too few for the percentile.
fn too_few(case: &Case<'_>, system: &System, cell: &Cell) -> String {
    let tail = case.tails.get(cell.workload.as_str()).copied().filter(|_| cell.part == Part::AddedLatency);
    let rounds = rows::too_few(&case.runs.row(&system.name, &cell.workload), tail);
    let (Some((round, count)), Some(tail)) = (rounds.first(), tail) else {
        return String::new();
    };
    format!(
        ": p{} takes {} answers, and round {round} has {}",
        number(tail),
        number(crate::verdict::needed(tail) as f64),
        number(*count as f64)
    )
}

/// Gates, scores, places.
pub(super) fn rank(case: &Case<'_>) -> Scored {
    let weights = weights(case);
    let mut all: BTreeMap<String, Costs> = BTreeMap::new();
    let mut unranked = Vec::new();
    let mut gateways: Vec<(String, Estimate)> = Vec::new();
    for system in &case.results.systems {
        let costs = costs(case, &weights, &system.name);
        if system.role == Role::Gateway {
            let why = gates(case, system, &costs);
            if !why.is_empty() {
                unranked.push(Unranked { system: system.name.clone(), why });
            } else if let Some(score) = costs.score(case.rounds) {
                gateways.push((system.name.clone(), score));
            } else {
                let why = vec!["there is no reference with figures to score it by".to_owned()];
                unranked.push(Unranked { system: system.name.clone(), why });
            }
        }
        all.insert(system.name.clone(), costs);
    }
    let ranked: Vec<&str> = gateways.iter().map(|(name, _)| name.as_str()).collect();
    let both = |a: &str, b: &str| Some(all.get(a)?.in_common(all.get(b)?));
    let compared = in_pairs(None, Figure::Score, &ranked, both, guard(case, both));
    gateways.sort_by(|(a_name, a), (b_name, b)| b.median.total_cmp(&a.median).then_with(|| a_name.cmp(b_name)));
    let ranking = places(case, &all, &gateways, &compared);
    let mut notes = Vec::new();
    for part in Part::ALL {
        if !weights.is_empty() && !weights.keys().any(|(_, measured)| *measured == part) {
            let why = if weight_of(case, part) > 0.0 {
                "was not measured; the other parts weigh more instead"
            } else {
                "has no weight in this evaluation"
            };
            notes.push(format!("The score is without {}, which {why}.", part.as_str()));
        }
    }
    let sum: f64 = Part::ALL.into_iter().map(|part| weight_of(case, part)).sum();
    let planned = |part: Part| if sum > 0.0 { weight_of(case, part) / sum } else { 0.0 };
    let used = |part: Part| {
        weights.iter().filter(|((_, own), _)| *own == part).map(|(_, weight)| weight).sum::<f64>().max(0.0)
    };
    Scored {
        sensitivity: sensitivity(&all, &ranking),
        ranking,
        unranked,
        weights: Part::ALL.into_iter().map(|part| Weight { part, planned: planned(part), used: used(part) }).collect(),
        notes,
        costs: all,
        compared,
    }
}

/// Places of the gateways, which come in the order of their medians; equal places stay in it.
fn places(
    case: &Case<'_>,
    all: &BTreeMap<String, Costs>,
    gateways: &[(String, Estimate)],
    compared: &[Comparison],
) -> Vec<Place> {
    let costs: Vec<&Costs> = gateways.iter().map(|(name, _)| &all[name]).collect();
    let first = probability_of_first(&costs, case.rounds);
    // Of (a, b): whether b is declared dearer.
    let better = |a: usize, b: usize| {
        let (a, b) = (&gateways[a].0, &gateways[b].0);
        compared.iter().filter(|pair| pair.result.declared).any(|pair| {
            let (cheaper, dearer) =
                if pair.result.ratio.median < 1.0 { (&pair.a, &pair.b) } else { (&pair.b, &pair.a) };
            (cheaper, dearer) == (a, b)
        })
    };
    let mut places: Vec<Place> = (0..gateways.len())
        .map(|own| {
            let others = || (0..gateways.len()).filter(|other| *other != own);
            let tied = others().filter(|other| !better(own, *other) && !better(*other, own));
            let mut parts = Vec::new();
            for part in Part::ALL {
                let workloads = case.results.workloads.iter().map(|workload| Some(workload.name.as_str()));
                for workload in std::iter::once(None).chain(workloads) {
                    if let Some((weight, cost)) = costs[own].part(part, workload, case.rounds) {
                        parts.push(PartScore { part, workload: workload.map(str::to_owned), weight, cost });
                    }
                }
            }
            Place {
                place: 1 + others().filter(|other| better(*other, own)).count() as u32,
                system: gateways[own].0.clone(),
                score: gateways[own].1,
                first: first[own],
                tied_with: tied.map(|other| gateways[other].0.clone()).collect(),
                parts,
            }
        })
        .collect();
    // Who has the better median may have been declared dearer nevertheless: the median of the ratios is not the ratio of the medians.
    places.sort_by_key(|place| place.place);
    places
}

/// The order when each part counts double, and when it does not count.
fn sensitivity(all: &BTreeMap<String, Costs>, ranking: &[Place]) -> Vec<Sensitivity> {
    let measured = |part: &Part| ranking.iter().any(|place| place.parts.iter().any(|score| score.part == *part));
    let parts: Vec<Part> = Part::ALL.into_iter().filter(measured).collect();
    let mut changes = Vec::new();
    for part in &parts {
        changes.push((*part, 2.0, format!("{} counts double", part.as_str())));
        if parts.len() > 1 {
            changes.push((*part, 0.0, format!("without {}", part.as_str())));
        }
    }
    changes
        .into_iter()
        .map(|(part, factor, change)| {
            let score = |place: &Place| {
                let weight = |cell: &Cell| cell.weight * if cell.part == part { factor } else { 1.0 };
                Some((place.system.clone(), all.get(&place.system)?.score_with(weight)?))
            };
            let mut order: Vec<(String, f64)> = ranking.iter().filter_map(score).collect();
            order.sort_by(|(a_name, a), (b_name, b)| b.total_cmp(a).then_with(|| a_name.cmp(b_name)));
            let at = |system: &str| order.iter().position(|(name, _)| name == system);
            let same_order = ranking.iter().enumerate().all(|(index, ahead)| {
                ranking[index + 1..]
                    .iter()
                    .filter(|behind| !ahead.tied_with.contains(&behind.system))
                    .all(|behind| at(&ahead.system) < at(&behind.system))
            });
            Sensitivity { change, order, same_order }
        })
        .collect()
}
