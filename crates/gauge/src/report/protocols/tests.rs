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

#[test]
fn pairs_differ_in_one_of_the_two_only_and_say_the_ratio() {
    let written = BTreeMap::from([("go-rest", "Go"), ("go-grpc", "Go"), ("rust-grpc", "Rust")]);
    let spoken = BTreeMap::from([("go-rest", "HTTP/1.1"), ("go-grpc", "gRPC"), ("rust-grpc", "gRPC")]);
    let mut judgement = crate::report::tests::ranked(&[]);
    let mut all = vec![
        comparison("go-rest", "go-grpc", 1.5, true),
        comparison("go-rest", "rust-grpc", 0.5, true),
        comparison("go-grpc", "rust-grpc", 1.1, false),
    ];
    for pair in &mut all {
        (pair.result.p, pair.result.ratio.rounds) = (Some(0.01), 7);
    }
    judgement.comparisons = all;
    let same = |labels: BTreeMap<&'static str, &'static str>| move |a: &str, b: &str| labels.get(a) == labels.get(b);
    let protocols = pairs(&judgement, "w", &spoken, same(written.clone()));
    assert_eq!(protocols.len(), 1, "{protocols:?}");
    assert_eq!(protocols[0][0], "HTTP/1.1, gRPC");
    assert_eq!(protocols[0][2..], ["go-rest / go-grpc", "1.50 × (7 rounds)", "7", "go-grpc is better"]);
    let languages = pairs(&judgement, "w", &written, same(spoken));
    assert_eq!(languages.len(), 1, "{languages:?}");
    assert_eq!(languages[0][5], "not declared");
}
