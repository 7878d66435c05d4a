//! Protocols beside each other, where the systems of an evaluation do not all speak the same: what was declared between systems of one and of another.

use std::collections::BTreeMap;

use super::view::title;
use crate::criterion::CRITERIA;
use crate::results::{Comparison, Judgement, Results};

pub(super) const HEAD: [&str; 6] = [
    "criterion",
    "protocols",
    "pairs of systems",
    "first declared better",
    "second declared better",
    "no difference declared",
];

/// One line for each criterion and two protocols; empty where all systems of a workload speak one.
pub(super) fn rows(results: &Results, judgement: &Judgement, workload: &str) -> Vec<Vec<String>> {
    let trials = results.trials.iter().filter(|trial| trial.workload == workload);
    let spoken: BTreeMap<&str, &str> = trials
        .filter_map(|trial| Some((trial.system.as_str(), trial.report.as_ref()?.generator.protocol.as_deref()?)))
        .collect();
    between(judgement, workload, &spoken)
}

fn between(judgement: &Judgement, workload: &str, spoken: &BTreeMap<&str, &str>) -> Vec<Vec<String>> {
    let percentile = judgement.rows.iter().find(|row| row.workload == workload).and_then(|row| row.percentile);
    let mut lines = Vec::new();
    for criterion in CRITERIA {
        // Pairs, and how often the first and the second was better, by the protocols in the order of their names.
        let mut counts: BTreeMap<(&str, &str), [u32; 3]> = BTreeMap::new();
        let own = |pair: &&Comparison| pair.workload.as_deref() == Some(workload) && pair.criterion == criterion.name;
        for pair in judgement.comparisons.iter().filter(own) {
            let protocol = |system: &str| spoken.get(system).copied();
            let (Some(a), Some(b)) = (protocol(&pair.a), protocol(&pair.b)) else { continue };
            if a == b {
                continue;
            }
            let both = (a.min(b), a.max(b));
            let [pairs, first, second] = counts.entry(both).or_default();
            *pairs += 1;
            match pair.better().and_then(protocol) {
                Some(better) if better == both.0 => *first += 1,
                Some(_) => *second += 1,
                None => {}
            }
        }
        lines.extend(counts.into_iter().map(|((one, other), [pairs, first, second])| {
            let protocols = format!("{one}, {other}");
            let counts = [pairs, first, second, pairs - first - second].map(|count| count.to_string());
            [title(criterion, percentile), protocols].into_iter().chain(counts).collect()
        }));
    }
    lines
}

#[cfg(test)]
mod tests;
