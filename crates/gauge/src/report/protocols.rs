//! Protocols and languages beside each other, where the systems of an evaluation differ in them: figures, pairs, and what was declared.

use std::collections::BTreeMap;

use super::measures::{self, Measure};
use super::rankings::BY;
use super::view::{interval, shown, times, title};
use crate::criterion::{CRITERIA, Criterion};
use crate::results::{Comparison, Judgement, Results};

const COUNTS: [&str; 6] = [
    "criterion",
    "between",
    "pairs of systems",
    "first declared better",
    "second declared better",
    "no difference declared",
];

const PAIRS: [&str; 6] = ["between", "criterion", "pair", "ratio of costs", "n", "difference"];

/// A table of a workload.
pub(super) struct Table {
    pub(super) caption: &'static str,
    pub(super) head: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

/// The tables of a workload: figures, pairs that differ in one of the two only, and what was declared between all.
pub(super) fn tables(results: &Results, judgement: &Judgement, workload: &str) -> impl Iterator<Item = Table> {
    let (spoken, written) = (spoken(results, workload), written(results));
    // Across two protocols the difference between languages would be that of the protocols, and the other way round.
    let same_language = |a: &str, b: &str| written.contains_key(a) && written.get(a) == written.get(b);
    let same_protocol = |a: &str, b: &str| spoken.get(a) == spoken.get(b);
    let tables = [
        Table {
            caption: "Figures by protocol and language: estimates over the valid rounds with 95 % confidence intervals.",
            head: [&["protocol", "language", "system"][..], &FIGURES.map(|measure| measure.title)].concat(),
            rows: figures(results, judgement, workload, &spoken, &written),
        },
        Table {
            caption: "Protocols beside each other in one language. Ratios are of costs: below 1, the first of the pair is better.",
            head: PAIRS.to_vec(),
            rows: pairs(judgement, workload, &spoken, same_language),
        },
        Table {
            caption: "Languages beside each other over one protocol. Ratios are of costs: below 1, the first of the pair is better.",
            head: PAIRS.to_vec(),
            rows: pairs(judgement, workload, &written, same_protocol),
        },
        Table {
            caption: "Protocols: what was declared between systems of one and of another.",
            head: COUNTS.to_vec(),
            rows: between(judgement, workload, &spoken, |_, _| true),
        },
        Table {
            caption: "Languages: what was declared between systems of one and of another that speak the same protocol.",
            head: COUNTS.to_vec(),
            rows: between(judgement, workload, &written, same_protocol),
        },
    ];
    tables.into_iter().filter(|table| !table.rows.is_empty())
}

/// The figures that protocols and languages are shown by.
const FIGURES: [Measure; 4] = [measures::RATE, measures::P99, measures::CPU, measures::MEMORY];

/// One line for each system, by protocol and language; empty where the systems differ in neither.
fn figures(
    results: &Results,
    judgement: &Judgement,
    workload: &str,
    spoken: &BTreeMap<&str, &str>,
    written: &BTreeMap<&str, &str>,
) -> Vec<Vec<String>> {
    let mut systems: Vec<(&str, &str, &str)> = shown(results, judgement)
        .into_iter()
        .filter(|system| system.role.is_compared())
        .filter_map(|system| {
            let name = system.name.as_str();
            Some((*spoken.get(name)?, written.get(name).copied().unwrap_or("—"), name))
        })
        .collect();
    systems.sort_unstable();
    let differ = systems.windows(2).any(|two| (two[0].0, two[0].1) != (two[1].0, two[1].1));
    if !differ {
        return Vec::new();
    }
    let line = |(protocol, language, system): (&str, &str, &str)| {
        let figure = |measure: &Measure| {
            let estimate = measure.estimate(results, judgement, system, workload);
            interval(estimate.as_ref(), measure.words)
        };
        [protocol, language, system].map(str::to_owned).into_iter().chain(FIGURES.iter().map(figure)).collect()
    };
    systems.into_iter().map(line).collect()
}

/// One line for each pair of systems with different labels and each criterion that systems are ranked by.
fn pairs(
    judgement: &Judgement,
    workload: &str,
    labels: &BTreeMap<&str, &str>,
    comparable: impl Fn(&str, &str) -> bool,
) -> Vec<Vec<String>> {
    let percentile = judgement.rows.iter().find(|row| row.workload == workload).and_then(|row| row.percentile);
    let mut lines = Vec::new();
    for criterion in CRITERIA.iter().filter(|criterion| BY.contains(&criterion.name)) {
        for (pair, a, b) in unlike(judgement, workload, criterion, labels, &comparable) {
            lines.push(vec![
                format!("{a}, {b}"),
                title(criterion, percentile),
                format!("{} / {}", pair.a, pair.b),
                interval(Some(&pair.result.ratio), times),
                pair.result.ratio.rounds.to_string(),
                match (pair.result.p, pair.better()) {
                    (None, _) => "not enough rounds".to_owned(),
                    (_, Some(better)) => format!("{better} is better"),
                    (_, None) => "not declared".to_owned(),
                },
            ]);
        }
    }
    lines
}

/// The comparisons by a criterion of systems with different labels, with the label of each.
fn unlike<'j, 'l>(
    judgement: &'j Judgement,
    workload: &'j str,
    criterion: &'j Criterion,
    labels: &'j BTreeMap<&str, &'l str>,
    comparable: &'j impl Fn(&str, &str) -> bool,
) -> impl Iterator<Item = (&'j Comparison, &'l str, &'l str)> {
    let own = judgement
        .comparisons
        .iter()
        .filter(move |pair| pair.workload.as_deref() == Some(workload) && pair.criterion == criterion.name);
    own.filter_map(|pair| Some((pair, *labels.get(pair.a.as_str())?, *labels.get(pair.b.as_str())?)))
        .filter(|(pair, a, b)| a != b && comparable(&pair.a, &pair.b))
}

/// The language of each system, where the evaluation says it.
fn written(results: &Results) -> BTreeMap<&str, &str> {
    let systems = results.systems.iter();
    systems.filter_map(|system| Some((system.name.as_str(), system.language.as_deref()?))).collect()
}

/// The protocol of each system.
fn spoken<'r>(results: &'r Results, workload: &str) -> BTreeMap<&'r str, &'r str> {
    let trials = results.trials.iter().filter(|trial| trial.workload == workload);
    trials
        .filter_map(|trial| Some((trial.system.as_str(), trial.report.as_ref()?.generator.protocol.as_deref()?)))
        .collect()
}

/// Pairs of systems with different labels.
fn between(
    judgement: &Judgement,
    workload: &str,
    labels: &BTreeMap<&str, &str>,
    comparable: impl Fn(&str, &str) -> bool,
) -> Vec<Vec<String>> {
    let percentile = judgement.rows.iter().find(|row| row.workload == workload).and_then(|row| row.percentile);
    let mut lines = Vec::new();
    for criterion in CRITERIA {
        // Pairs, and how often the first and the second was better, by the labels in the order of their names.
        let mut counts: BTreeMap<(&str, &str), [u32; 3]> = BTreeMap::new();
        for (pair, a, b) in unlike(judgement, workload, criterion, labels, &comparable) {
            let both = (a.min(b), a.max(b));
            let [pairs, first, second] = counts.entry(both).or_default();
            *pairs += 1;
            match pair.better().and_then(|better| labels.get(better).copied()) {
                Some(better) if better == both.0 => *first += 1,
                Some(_) => *second += 1,
                None => {}
            }
        }
        lines.extend(counts.into_iter().map(|((one, other), [pairs, first, second])| {
            let labels = format!("{one}, {other}");
            let counts = [pairs, first, second, pairs - first - second].map(|count| count.to_string());
            [title(criterion, percentile), labels].into_iter().chain(counts).collect()
        }));
    }
    lines
}

#[cfg(test)]
mod tests;
