//! Rankings by single figures, beside the score: which systems were declared better in each.

use super::view::{interval, title};
use crate::criterion::{CRITERIA, Criterion};
use crate::results::{Judgement, Results, Row};

/// The criteria that systems are ranked by one by one.
pub(super) const BY: [&str; 6] = ["slo-rate", "rate", "latency", "closed-latency", "cpu-per-request", "memory"];

/// The ranking of a workload: a head and a line for each system with a figure, in the order of the ranking by score and then of the evaluation.
pub(super) fn table(
    results: &Results,
    judgement: &Judgement,
    workload: &str,
) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let compared = results.systems.iter().filter(|system| system.role.is_compared());
    let own = |system: &str| {
        judgement.rows.iter().find(|row| row.system == system && row.workload == workload && row.is_measured())
    };
    let mut rows: Vec<&Row> = compared.filter_map(|system| own(&system.name)).collect();
    let place = |row: &&Row| judgement.ranking.iter().position(|place| place.system == row.system);
    rows.sort_by_key(|row| place(row).unwrap_or(usize::MAX));
    let criteria: Vec<&Criterion> = CRITERIA
        .iter()
        .filter(|criterion| BY.contains(&criterion.name))
        .filter(|criterion| rows.iter().any(|row| row.figure(criterion.name).is_some()))
        .collect();
    if rows.len() < 2 || criteria.is_empty() {
        return None;
    }
    let percentile = rows.iter().find_map(|row| row.percentile);
    let mut head = vec![judgement.subject.one().to_owned(), "by score".to_owned()];
    head.extend(criteria.iter().map(|criterion| format!("by {}", title(criterion, percentile))));
    let line = |row: &Row| {
        let score = judgement.ranking.iter().find(|place| place.system == row.system && judgement.decision.decided);
        let mut cells = vec![row.system.clone(), score.map_or("—".to_owned(), |place| format!("#{}", place.place))];
        for criterion in &criteria {
            let value = interval(row.figure(criterion.name), |value| criterion.words(value));
            let place = by_figure(judgement, workload, criterion.name, &row.system);
            cells.push(match place.filter(|_| row.figure(criterion.name).is_some()) {
                Some(place) => format!("#{place}: {value}"),
                None => value,
            });
        }
        cells
    };
    Some((head, rows.into_iter().map(line).collect()))
}

/// One more than the number of systems that were declared better; none where nothing could be tested.
fn by_figure(judgement: &Judgement, workload: &str, criterion: &str, system: &str) -> Option<usize> {
    let own = judgement.comparisons.iter().filter(|pair| {
        pair.workload.as_deref() == Some(workload)
            && pair.criterion == criterion
            && (pair.a == system || pair.b == system)
            && pair.result.p.is_some()
    });
    let better: Vec<bool> = own.map(|pair| pair.better().is_some_and(|better| better != system)).collect();
    (!better.is_empty()).then(|| 1 + better.into_iter().filter(|better| *better).count())
}

/// Said where the score is one figure alone.
pub(super) fn note(judgement: &Judgement) -> Option<String> {
    let mut used = judgement.weights.iter().filter(|weight| weight.used > 0.0);
    let (only, more) = (used.next()?, used.next());
    let title = Criterion::named(&only.criterion).map_or(only.criterion.as_str(), |criterion| criterion.title);
    (more.is_none()).then(|| {
        format!(
            "The score here is {title} alone: the other figures of a closed loop depend on each other and are not scored. The rankings by single figures below \
             may have another order."
        )
    })
}
