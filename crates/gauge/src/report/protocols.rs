//! Protocols and languages beside each other, where the systems of an evaluation differ in them: what was declared between systems of one and of another.

use std::collections::BTreeMap;

use super::view::title;
use crate::criterion::CRITERIA;
use crate::results::{Comparison, Judgement, Results};

pub(super) const HEAD: [&str; 6] = [
    "criterion",
    "between",
    "pairs of systems",
    "first declared better",
    "second declared better",
    "no difference declared",
];

/// The tables of a workload: a caption and lines.
pub(super) fn tables(
    results: &Results,
    judgement: &Judgement,
    workload: &str,
) -> impl Iterator<Item = (&'static str, Vec<Vec<String>>)> {
    let protocols =
        ("Protocols: what was declared between systems of one and of another.", rows(results, judgement, workload));
    let languages = (
        "Languages: what was declared between systems of one and of another that speak the same protocol.",
        languages(results, judgement, workload),
    );
    [protocols, languages].into_iter().filter(|(_, rows)| !rows.is_empty())
}

/// One line for each criterion and two protocols; empty where all systems of a workload speak one.
fn rows(results: &Results, judgement: &Judgement, workload: &str) -> Vec<Vec<String>> {
    between(judgement, workload, &spoken(results, workload), |_, _| true)
}

/// The same of languages, which are compared within a protocol: across two the difference would be that of the protocols.
fn languages(results: &Results, judgement: &Judgement, workload: &str) -> Vec<Vec<String>> {
    let spoken = spoken(results, workload);
    let written = results.systems.iter().filter_map(|system| Some((system.name.as_str(), system.language.as_deref()?)));
    between(judgement, workload, &written.collect(), |a, b| spoken.get(a) == spoken.get(b))
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
        let own = |pair: &&Comparison| pair.workload.as_deref() == Some(workload) && pair.criterion == criterion.name;
        for pair in judgement.comparisons.iter().filter(own) {
            let label = |system: &str| labels.get(system).copied();
            let (Some(a), Some(b)) = (label(&pair.a), label(&pair.b)) else { continue };
            if a == b || !comparable(&pair.a, &pair.b) {
                continue;
            }
            let both = (a.min(b), a.max(b));
            let [pairs, first, second] = counts.entry(both).or_default();
            *pairs += 1;
            match pair.better().and_then(label) {
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
