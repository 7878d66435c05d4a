use super::view;
use crate::judgement::{Judgement, Place};
use crate::stats::Estimate;

/// Gateways with their places and those they are tied with.
fn ranked(all: &[(&str, u32, &[&str])]) -> Judgement {
    let place = |(system, place, tied): &(&str, u32, &[&str])| Place {
        place: *place,
        system: (*system).to_owned(),
        score: Estimate::default(),
        first: 0.0,
        tied_with: tied.iter().map(|system| (*system).to_owned()).collect(),
        parts: Vec::new(),
    };
    Judgement {
        format: 1,
        gauge: String::new(),
        reference: None,
        weights: Vec::new(),
        ranking: all.iter().map(place).collect(),
        unranked: Vec::new(),
        sensitivity: Vec::new(),
        age: None,
        rows: Vec::new(),
        comparisons: Vec::new(),
        twins: Vec::new(),
        twins_declared_in_smaller: None,
        runs: Vec::new(),
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
        "a is first: nobody was declared better. No difference to c could be declared."
    );
    assert_eq!(
        headline(&[("a", 1, &["b"]), ("b", 1, &["a"]), ("c", 3, &[])]),
        "a and b cannot be told apart: no difference between them could be declared. a has the best median of them."
    );
    assert_eq!(
        headline(&[("a", 2, &[]), ("b", 2, &[]), ("c", 2, &[])]),
        "No gateway is first: of each some other one was declared better."
    );
    assert_eq!(headline(&[("a", 1, &[])]), "a is the only gateway that passed the gates.");
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
