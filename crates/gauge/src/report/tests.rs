use super::view;
use crate::results::{Decision, Judgement, Ranked, Subject, Unranked};
use crate::stats::Estimate;

/// Gateways with their places and those they are tied with.
pub(super) fn ranked(all: &[(&str, u32, &[&str])]) -> Judgement {
    let place = |(system, place, tied): &(&str, u32, &[&str])| Ranked {
        place: *place,
        system: (*system).to_owned(),
        score: Estimate::default(),
        failed: 0,
        tied_with: tied.iter().map(|system| (*system).to_owned()).collect(),
        parts: Vec::new(),
    };
    Judgement {
        format: 2,
        decision: Decision { decided: true, ..Decision::default() },
        left_out: Vec::new(),
        tested: 0,
        gauge: String::new(),
        subject: Subject::default(),
        reference: None,
        weights: Vec::new(),
        ranking: all.iter().map(place).collect(),
        unranked: Vec::new(),
        sensitivity: Vec::new(),
        age: None,
        rows: Vec::new(),
        comparisons: Vec::new(),
        controls: Vec::new(),
        trials: Vec::new(),
        outcomes: Vec::new(),
        notes: Vec::new(),
    }
}

/// A place of one's own is not yet a difference to everybody: a is better than b, b than c, and a and c are tied.
#[test]
fn the_headline_claims_no_more_than_was_declared() {
    let headline = |all: &[(&str, u32, &[&str])]| view::headline(&ranked(all));
    assert_eq!(
        headline(&[("a", 1, &[]), ("b", 2, &[])]),
        "a is first, and the difference to every other gateway is more than chance."
    );
    assert_eq!(
        headline(&[("a", 1, &["c"]), ("b", 2, &[]), ("c", 2, &["a"])]),
        "a is first: no gateway was declared better. No difference to c could be declared."
    );
    assert_eq!(
        headline(&[("a", 1, &["b"]), ("b", 1, &["a"]), ("c", 3, &[])]),
        "a and b cannot be distinguished: no difference between them could be declared. a has the best estimate of them."
    );
    assert_eq!(
        headline(&[("a", 2, &[]), ("b", 2, &[]), ("c", 2, &[])]),
        "None of the gateways is first: for each another one was declared better."
    );
    assert_eq!(headline(&[("a", 1, &[])]), "a is the only gateway here.");
    let services = Judgement { subject: Subject::Services, ..ranked(&[("a", 1, &[]), ("b", 2, &[])]) };
    assert_eq!(view::headline(&services), "a is first, and the difference to every other service is more than chance.");
    let mut alone = ranked(&[("a", 1, &[])]);
    alone.unranked = vec![Unranked { system: "b".to_owned(), why: vec!["bids: 6 of 10 trials failed".to_owned()] }];
    assert_eq!(
        view::headline(&alone),
        "a is the only gateway with a place; without one: b (bids: 6 of 10 trials failed)."
    );
}

#[test]
fn no_decision_is_said_before_all_else() {
    let mut judgement = ranked(&[("a", 1, &["b"]), ("b", 1, &["a"])]);
    judgement.decision = Decision {
        decided: false,
        rounds: 4,
        needed: 6,
        why: vec!["4 of 10 rounds are valid".to_owned()],
        help: vec!["an idle machine".to_owned(), "more rounds".to_owned()],
    };
    assert_eq!(
        view::headline(&judgement),
        "NO DECISION: 4 of 10 rounds are valid. What would help: an idle machine; more rounds."
    );
}

#[test]
fn dates() {
    assert_eq!(view::date(0), "1970-01-01 00:00 UTC");
    assert_eq!(view::date(951_782_400_000), "2000-02-29 00:00 UTC");
    assert_eq!(view::date(1_795_000_000_000), "2026-11-18 11:06 UTC");
}

#[test]
fn lists() {
    assert_eq!(view::list(&[]), "");
    assert_eq!(view::list(&["a"]), "a");
    assert_eq!(view::list(&["a", "b", "c"]), "a, b and c");
}
