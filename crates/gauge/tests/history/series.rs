//! Campaigns after each other: differences and trends.

use std::path::Path;

use gauge::results::{GeneratorMachine, Results};

use super::database::{Database, campaign, later, slower};

const SYSTEMS: [&str; 6] = ["direct", "weir", "nginx", "haproxy", "fiber", "weir (twin)"];

fn compared(before: &Results, after: &Results, more: &[&str]) -> (i32, String) {
    let database = Database::sqlite();
    let history = database.open();
    let (a, b) =
        (history.put(before, Path::new("/a")).expect("stored"), history.put(after, Path::new("/b")).expect("stored"));
    let mut arguments = vec!["compare", a.as_str(), b.as_str()];
    arguments.extend(more);
    database.gauge(&arguments)
}

#[test]
fn a_system_that_became_worse_is_told_from_the_others() {
    let before = campaign();
    let (code, text) = compared(&before, &later(slower(before.clone(), "nginx", 1.3), 1), &[]);
    assert_eq!(code, 1, "{text}");
    let worse: Vec<&str> = text.lines().filter(|line| line.ends_with("  worse")).collect();
    assert!(
        worse.len() == 3 && worse.iter().all(|line| line.starts_with("nginx ") && line.contains("+30.0 %")),
        "{text}"
    );
    let (code, text) = compared(&before, &later(slower(before.clone(), "nginx", 1.3), 1), &["--tolerance", "40%"]);
    assert!(code == 0 && text.contains("worse, within the tolerance"), "{text}");
    let (code, text) = compared(&before, &later(slower(before.clone(), "nginx", 0.7), 1), &[]);
    assert!(code == 0 && text.contains("better") && text.contains("-30.0 %"), "{text}");
}

#[test]
fn a_machine_that_became_slower_is_held_against_nobody() {
    let before = campaign();
    let after = SYSTEMS.iter().fold(later(before.clone(), 1), |results, system| slower(results, system, 1.3));
    let (code, text) = compared(&before, &after, &[]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn what_cannot_be_compared_has_an_exit_code_of_its_own() {
    let before = campaign();
    let mut elsewhere = later(before.clone(), 1);
    elsewhere.environment.processor = Some("another processor".to_owned());
    let mut other_load = later(before.clone(), 1);
    other_load.workloads[0].load = "closed loop: 2 users".to_owned();
    let mut short = later(before.clone(), 1);
    short.trials.retain(|trial| trial.round <= 5);
    let mut others = later(before.clone(), 1);
    others.systems.retain(|system| system.name == "direct");
    for (after, why) in [
        (elsewhere, "`processor` was"),
        (other_load, "the load was"),
        (short, "5 valid rounds in common, and 6 are needed"),
        (others, "no gateway was measured"),
    ] {
        let (code, text) = compared(&before, &after, &[]);
        assert!(code == 2 && text.contains(why) && text.ends_with("not comparable\n"), "{code} {text}");
    }
    let database = Database::sqlite();
    assert_eq!(database.gauge(&["compare", "/nowhere", "ab"]).0, 64);
    assert_eq!(database.gauge(&["compare", "aa", "ab"]).0, 66);
}

#[test]
fn a_trend_names_the_campaign_in_which_the_level_changed() {
    for database in Database::both("trend") {
        let history = database.open();
        let mut ids = Vec::new();
        for day in 0..20_i64 {
            // A little noise, and a jump after the twelfth.
            let level = if day < 12 { 1.0 } else { 1.2 } * (1.0 + 0.01 * ((day * 7) % 5) as f64);
            let results = later(slower(super::database::small(campaign()), "weir", level), day);
            ids.push(history.put(&results, Path::new("/x")).expect("stored"));
        }
        let (code, text) = database.gauge(&["trend", "weir", "p99"]);
        let changed: Vec<&str> = text.lines().filter(|line| line.contains("changed:")).collect();
        assert!(code == 0 && changed.len() == 1 && changed[0].contains(&ids[12]), "{text}");
        let (code, text) = database.gauge(&["trend", "nginx", "p99_ms"]);
        assert!(code == 0 && text.contains("20 campaigns, no change"), "{text}");
        assert!(database.gauge(&["trend", "other", "p99"]).1.contains("no p99_ms of `other`"));
        let (code, text) = database.gauge(&["trend", "weir", "p42"]);
        assert!(code == 64 && text.contains("throughput, mean_ms"), "{code} {text}");
    }
}

#[test]
fn clocks_of_generators_make_no_other_machine() {
    let with = |offset: f64, cpus: u32| {
        let mut results = campaign();
        results.environment.generators = vec![GeneratorMachine {
            name: "generator-1".to_owned(),
            place: "ssh gauge@10.0.0.4".to_owned(),
            cpus,
            clock_offset_ms: Some(offset),
            clock_round_trip_ms: Some(offset / 2.0),
        }];
        results
    };
    let (code, text) = compared(&with(0.5, 4), &later(with(-1.75, 4), 1), &[]);
    assert!(code == 0 && !text.contains("generators"), "{code} {text}");
    let (code, text) = compared(&with(0.5, 4), &later(with(0.5, 8), 1), &[]);
    assert!(code != 0 && text.contains("generators"), "{code} {text}");
}
