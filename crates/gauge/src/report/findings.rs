//! Findings in words: a sentence for each declared difference, with the numbers of the rows that it rests on and the anchors of these rows.

use super::view::{interval, place, row, score, times, title};
use crate::criterion::Criterion;
use crate::results::{Comparison, Judgement, Results};
use crate::stats::MIN_ROUNDS;

/// What was declared, and what was not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// In the order of the comparisons.
    pub declared: Vec<Finding>,
    /// How many comparisons have no decision, and why, in a sentence; null where each has one.
    pub undecided: Option<String>,
}

/// A declared difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Its index among the comparisons of the judgement.
    pub comparison: usize,
    /// Under which workload; null for the score.
    pub workload: Option<String>,
    /// The sentence.
    pub text: String,
    /// The rows that it rests on, that of the comparison first: what is there, and its anchor in `report.html`.
    pub rows: Vec<(String, String)>,
}

/// The anchor of a comparison.
pub(super) fn pair_anchor(index: usize) -> String {
    format!("pair-{}", index + 1)
}

/// The anchor of a system in the ranking.
pub(super) fn place_anchor(results: &Results, system: &str) -> String {
    format!("place-{}", number_of(results, system))
}

/// The anchor of a system in the figures of a workload.
pub(super) fn figures_anchor(results: &Results, workload: &str, system: &str) -> String {
    let workload = results.workloads.iter().position(|own| own.name == workload).map_or(0, |index| index + 1);
    format!("figures-{workload}-{}", number_of(results, system))
}

fn number_of(results: &Results, system: &str) -> usize {
    results.systems.iter().position(|own| own.name == system).map_or(0, |index| index + 1)
}

/// The findings of a campaign.
pub fn findings(results: &Results, judgement: &Judgement) -> Findings {
    let declared = judgement.comparisons.iter().enumerate();
    Findings {
        declared: declared.filter_map(|(index, pair)| finding(results, judgement, index, pair)).collect(),
        undecided: undecided(judgement),
    }
}

fn finding(results: &Results, judgement: &Judgement, index: usize, pair: &Comparison) -> Option<Finding> {
    let better = pair.better()?;
    let worse = if better == pair.a { pair.b.as_str() } else { pair.a.as_str() };
    let ratio = interval(Some(&pair.result.ratio), times);
    let workload = pair.workload.as_deref();
    let (what, [figure, other]) = match workload {
        None => {
            let figure = |system: &str| interval(place(judgement, system).map(|place| &place.score), score);
            ("by the score".to_owned(), [better, worse].map(figure))
        }
        Some(workload) => {
            let criterion = Criterion::named(&pair.criterion)?;
            let percentile = row(judgement, better, workload).and_then(|row| row.percentile);
            let figure = |system: &str| {
                let estimate = row(judgement, system, workload).and_then(|row| row.figure(criterion.name));
                interval(estimate, |value| criterion.words(value))
            };
            (format!("in {} under {workload}", title(criterion, percentile)), [better, worse].map(figure))
        }
    };
    let text = format!(
        "{better} is better than {worse} {what}: {figure} against {other}; the cost of {} over that of {} is {ratio} in {} rounds.",
        pair.a, pair.b, pair.result.ratio.rounds
    );
    let anchor = |system: &str| match workload {
        None => place_anchor(results, system),
        Some(workload) => figures_anchor(results, workload, system),
    };
    let rows = vec![
        ("comparison".to_owned(), pair_anchor(index)),
        (better.to_owned(), anchor(better)),
        (worse.to_owned(), anchor(worse)),
    ];
    Some(Finding { comparison: index, workload: pair.workload.clone(), text, rows })
}

/// The comparisons without a decision, by why.
fn undecided(judgement: &Judgement) -> Option<String> {
    let all = judgement.comparisons.len();
    if all == 0 {
        return Some(format!(
            "Nothing is declared: no two {} have a figure in the same rounds.",
            judgement.subject.many()
        ));
    }
    let (mut few, mut scores, mut chance) = (0, 0, 0);
    for pair in judgement.comparisons.iter().filter(|pair| !pair.result.declared) {
        match (pair.result.p, &pair.workload) {
            (None, _) => few += 1,
            (Some(_), None) if !judgement.decision.decided => scores += 1,
            (Some(_), _) => chance += 1,
        }
    }
    let none = few + scores + chance;
    let why = [
        (few, format!("have fewer than the {MIN_ROUNDS} valid rounds in common that a test needs")),
        (
            scores,
            format!(
                "are of scores, for which {} rounds are valid and {} are needed",
                judgement.decision.rounds, judgement.decision.needed
            ),
        ),
        (chance, "were tested, and their difference may be chance".to_owned()),
    ];
    let why: Vec<String> =
        why.into_iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")).collect();
    (none > 0).then(|| format!("No decision in {none} of {all} comparisons: {}.", why.join("; ")))
}

/// The findings as lines of text, those of scores first and so many at most of all; what is left out is counted.
pub fn finding_lines(results: &Results, judgement: &Judgement, most: usize) -> Vec<String> {
    let mut all = findings(results, judgement);
    all.declared.sort_by_key(|finding| finding.workload.is_some());
    let line = |finding: &Finding| format!("{} (report.html#{})", finding.text, finding.rows[0].1);
    let mut lines: Vec<String> = all.declared.iter().take(most).map(line).collect();
    let more = all.declared.len().saturating_sub(most);
    if more > 0 {
        lines.push(format!("{more} more declared differences are in report.md and report.html#findings."));
    }
    lines.extend(all.undecided);
    lines
}
