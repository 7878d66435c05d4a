use super::*;
use crate::stats;

fn comparison(a: &str, b: &str, ratio: f64, declared: bool) -> Comparison {
    let ratio = stats::Estimate { value: ratio, ..stats::Estimate::default() };
    let result = stats::Comparison { ratio, p: None, declared };
    Comparison {
        workload: Some("w".to_owned()),
        criterion: CRITERIA[0].name.to_owned(),
        a: a.to_owned(),
        b: b.to_owned(),
        result,
    }
}

#[test]
fn only_pairs_of_two_protocols_count_and_by_what_was_declared() {
    let spoken = BTreeMap::from([("r1", "HTTP/1.1"), ("r2", "HTTP/1.1"), ("g", "gRPC")]);
    let mut judgement = crate::report::tests::ranked(&[]);
    judgement.comparisons =
        vec![comparison("r1", "g", 0.5, true), comparison("g", "r2", 0.9, false), comparison("r1", "r2", 0.5, true)];
    let lines = between(&judgement, "w", &spoken, |_, _| true);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0][1..], ["HTTP/1.1, gRPC", "2", "1", "0", "1"]);
    assert!(between(&judgement, "other", &spoken, |_, _| true).is_empty());
    let one = spoken.into_iter().filter(|(system, _)| *system != "g").collect();
    assert!(between(&judgement, "w", &one, |_, _| true).is_empty(), "one protocol");
}

#[test]
fn languages_are_compared_within_a_protocol() {
    let written = BTreeMap::from([("r1", "Rust"), ("r2", "Go"), ("g", "Go")]);
    let mut judgement = crate::report::tests::ranked(&[]);
    judgement.comparisons = vec![comparison("r1", "g", 0.5, true), comparison("r1", "r2", 0.5, true)];
    let lines = between(&judgement, "w", &written, |a, b| a.starts_with('r') == b.starts_with('r'));
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0][1..], ["Go, Rust", "1", "0", "1", "0"]);
}
