//! Pass, warn and fail, as every report shows them.

use crate::judgement::threshold_words;
use crate::results::{Judgement, Outcome};

/// Columns of [`checks`].
pub(super) const HEAD: [&str; 6] = ["system", "workload", "figure", "value", "fails at", "outcome"];

/// `2 of 6 services pass, 1 has warnings, 3 fail.`; none where nothing is required.
pub(super) fn sentence(judgement: &Judgement) -> Option<String> {
    let count = |outcome| judgement.outcomes.iter().filter(|one| one.outcome == outcome).count();
    (!judgement.outcomes.is_empty()).then(|| {
        format!(
            "Of {} {}: pass {}, warn {}, fail {}.",
            judgement.outcomes.len(),
            if judgement.outcomes.len() == 1 { judgement.subject.one() } else { judgement.subject.many() },
            count(Outcome::Pass),
            count(Outcome::Warn),
            count(Outcome::Fail)
        )
    })
}

/// Each figure beside its limit.
pub(super) fn checks(judgement: &Judgement) -> Vec<(Vec<String>, Outcome)> {
    let of = |one: &'_ crate::results::SystemOutcome| {
        let cells = |check: &crate::results::Check| {
            let metric = check.threshold.metric;
            let value = check.figure.map_or("not measured".to_owned(), |figure| threshold_words(metric, figure));
            let cells = vec![
                one.system.clone(),
                check.workload.clone(),
                metric.name().to_owned(),
                value,
                check.threshold.written.clone(),
            ];
            (cells, check.outcome)
        };
        one.checks.iter().map(cells).collect::<Vec<_>>()
    };
    judgement.outcomes.iter().flat_map(of).collect()
}
