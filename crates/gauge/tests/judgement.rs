//! A made-up campaign, judged and reported.

mod made_up;
#[path = "judgement/worst.rs"]
mod worst;

use std::fs;
use std::path::Path;
use std::process::Command;

use gauge::campaign::Results;
use gauge::campaign::results::{Role, RunState};
use gauge::judgement::{Figure, Judgement, judge};
use gauge::load::report::Histogram;
use gauge::report;
use gauge::verdict::Name;

const FILES: [&str; 4] = ["report.html", "report.md", "results.csv", "results.json"];

fn judged() -> &'static (Results, Judgement) {
    static JUDGED: std::sync::OnceLock<(Results, Judgement)> = std::sync::OnceLock::new();
    JUDGED.get_or_init(|| {
        let results = made_up::campaign();
        let judgement = judge(&results);
        (results, judgement)
    })
}

fn without(results: &Results, system: &str) -> Results {
    let mut results = results.clone();
    results.systems.retain(|own| own.name != system);
    results.runs.retain(|run| run.system != system);
    results.searches.retain(|search| search.system != system);
    results
}

#[test]
fn the_cheapest_is_first_and_gates_keep_others_out() {
    let (_, judgement) = judged();
    let order: Vec<&str> = judgement.ranking.iter().map(|place| place.system.as_str()).collect();
    assert_eq!((order[0], order[1], order[4], order.len()), ("weir", "nginx", "envoy", 5));
    let places: Vec<u32> = judgement.ranking.iter().map(|place| place.place).collect();
    assert_eq!(places, [1, 2, 3, 3, 5], "haproxy and fiber are as good as each other");
    assert_eq!(judgement.ranking[2].tied_with, [order[3]]);
    assert_eq!(judgement.reference.as_deref(), Some("direct"));
    let unranked: Vec<(&str, &str)> =
        judgement.unranked.iter().map(|system| (system.system.as_str(), system.why[0].as_str())).collect();
    assert_eq!(unranked.len(), 3, "{unranked:?}");
    assert!(unranked.iter().any(|(system, why)| *system == "traefik" && why.contains("errors: ")), "{unranked:?}");
    assert!(
        unranked.iter().any(|(system, why)| *system == "caddy" && why.contains("does not do what")),
        "{unranked:?}"
    );
    assert!(
        unranked.iter().any(|(system, why)| *system == "kong" && why.starts_with("configured, not run here")),
        "{unranked:?}"
    );
    let first: f64 = judgement.ranking.iter().map(|place| place.first).sum();
    assert!((first - 1.0).abs() < 1e-9);
    let weights: f64 = judgement.weights.iter().map(|weight| weight.used).sum();
    assert!((weights - 1.0).abs() < 1e-9);
    for place in &judgement.ranking {
        let parts: f64 = place.parts.iter().filter(|part| part.workload.is_none()).map(|part| part.weight).sum();
        assert!((parts - 1.0).abs() < 1e-9);
    }
}

#[test]
fn a_noisy_round_a_stolen_run_and_a_failed_one_are_left_out() {
    let (results, judgement) = judged();
    let row = |system: &str, workload: &str| {
        judgement.rows.iter().find(|row| row.system == system && row.workload == workload).expect("a row")
    };
    let browse = row("weir", "browse");
    assert!(!browse.rounds.contains(&7), "the machine was slower in round 7");
    assert!(browse.verdicts.iter().any(|verdict| verdict.name == Name::NoisyControl));
    assert!(row("envoy", "browse").left_out.iter().any(|out| out.round == 9 && out.why.starts_with("steal: ")));
    assert!(row("fiber", "retrieve").left_out.iter().any(|out| out.round == 2 && out.why.starts_with("it failed: ")));
    assert_eq!(judgement.runs.len(), results.runs.len());
}

#[test]
fn small_samples_give_smaller_percentiles() {
    let (_, judgement) = judged();
    let tail = |workload: &str| {
        judgement
            .rows
            .iter()
            .find(|row| row.system == "weir" && row.workload == workload)
            .and_then(|row| row.tail)
            .expect("a tail")
    };
    assert_eq!(tail("browse").percentile, 99.0, "4,000 requests a round");
    assert_eq!(tail("retrieve").percentile, 95.0, "400 requests a round");
    let added = tail("browse").added_ms.expect("something is added").median;
    assert!(added > 0.0, "{added}");
}

#[test]
fn twins_are_not_ranked_and_not_different() {
    let (_, judgement) = judged();
    assert!(judgement.ranking.iter().all(|place| place.system != "weir-twin"));
    assert!(!judgement.twins.is_empty());
    for twin in &judgement.twins {
        twin.declared_in_smaller.expect("enough rounds");
    }
    let share = judgement.twins_declared_in_smaller.expect("twins");
    assert!(share <= 0.06, "{share}");
    let different = |figure, a: &str, b: &str| {
        judgement
            .comparisons
            .iter()
            .find(|one| one.figure == figure && one.a == a && one.b == b)
            .is_some_and(|one| one.result.declared)
    };
    assert!(different(Figure::CpuPerRequest, "weir", "nginx"), "10.4 against 12.1 us");
    assert!(different(Figure::Score, "weir", "envoy"));
}

/// The score of a gateway, its interval and its parts do not depend on which others are there.
#[test]
fn adding_or_removing_a_gateway_changes_no_score() {
    let (results, judgement) = judged();
    let gateways = results.systems.iter().filter(|system| system.role == Role::Gateway);
    for removed in gateways {
        let fewer = judge(&without(results, &removed.name));
        for place in &fewer.ranking {
            let before = judgement.ranking.iter().find(|before| before.system == place.system).expect("it was ranked");
            assert_eq!(before.score, place.score, "{} without {}", place.system, removed.name);
            assert_eq!(before.parts, place.parts, "{} without {}", place.system, removed.name);
        }
        let barred = usize::from(judgement.ranking.iter().any(|place| place.system == removed.name));
        assert_eq!(fewer.ranking.len() + barred, judgement.ranking.len());
    }
}

#[test]
fn a_named_reference_is_the_unit() {
    let (results, judgement) = judged();
    let mut named = results.clone();
    named.reference = Some("nginx".to_owned());
    let named = judge(&named);
    let score = |judgement: &Judgement, system: &str| {
        judgement.ranking.iter().find(|place| place.system == system).map(|place| place.score.median).expect("ranked")
    };
    assert!((score(&named, "nginx") - 100.0).abs() < 1e-9);
    assert!(score(&named, "weir") > 100.0);
    let order = |judgement: &Judgement| judgement.ranking.iter().map(|place| place.system.clone()).collect::<Vec<_>>();
    assert_eq!(order(&named), order(judgement));
}

#[test]
fn without_a_lane_to_go_by_there_are_figures_and_no_score() {
    let (results, _) = judged();
    let judgement = judge(&without(results, "direct"));
    assert!(judgement.ranking.is_empty());
    assert!(judgement.notes.iter().any(|note| note.contains("no lane without a gateway")));
    assert!(judgement.rows.iter().any(|row| row.system == "weir" && row.cpu_us_per_request.is_some()));
}

#[test]
fn a_campaign_of_nothing_is_judged_too() {
    let (results, _) = judged();
    let mut empty = results.clone();
    empty.runs.clear();
    empty.searches.clear();
    assert!(judge(&empty).ranking.is_empty());
    empty.systems.clear();
    empty.workloads.clear();
    let judgement = judge(&empty);
    let dir = tempfile::tempdir().expect("a directory");
    report::write(dir.path(), &empty, &judgement).expect("written");
    // A run that was never finished.
    let mut killed = results.clone();
    killed.ended_unix_ms = None;
    killed.runs[0].state = RunState::Measuring;
    killed.runs[0].report = None;
    let judgement = judge(&killed);
    assert!(!judgement.runs[0].used);
    assert!(judgement.notes.iter().any(|note| note.contains("did not come to its end")));
}

#[test]
fn two_rounds_tie_everybody() {
    let (results, _) = judged();
    let mut quick = results.clone();
    quick.quick = true;
    quick.rounds = 2;
    quick.runs.retain(|run| run.round <= 2 && run.state == RunState::Done);
    quick.searches.retain(|search| search.round <= 2);
    let judgement = judge(&quick);
    assert!(judgement.ranking.len() >= 5);
    assert!(judgement.ranking.iter().all(|place| place.place == 1), "nobody is declared better");
    assert!(judgement.notes.iter().any(|note| note.contains("no difference can be declared")));
}

#[test]
fn a_histogram_is_written_as_it_was_read() {
    let mut histogram = Histogram::default();
    (1..5_000_u64).for_each(|index| histogram.record(index * index * 37));
    let once = histogram.encode().expect("text");
    let twice = Histogram::decode(&once).expect("a histogram").encode().expect("text");
    assert_eq!(once, twice);
}

fn recompute(dir: &Path) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_gauge")).arg("recompute").arg(dir).output().expect("gauge runs")
}

#[test]
fn recompute_writes_the_same_bytes_from_raw_data_alone() {
    let (results, judgement) = judged();
    let dir = tempfile::tempdir().expect("a directory");
    made_up::write_raw(dir.path(), results).expect("raw data");
    // In whatever order they were collected.
    let mut shuffled = results.clone();
    shuffled.runs.sort_by(|a, b| a.id.chars().rev().cmp(b.id.chars().rev()));
    let shuffled_judgement = judge(&shuffled);
    assert_eq!(shuffled_judgement.ranking, judgement.ranking);
    report::write(dir.path(), &shuffled, &shuffled_judgement).expect("a report");
    let before = FILES.map(|name| fs::read(dir.path().join(name)).expect("written"));
    for name in FILES {
        fs::remove_file(dir.path().join(name)).expect("removed");
    }
    // What is still being written, and what is none of its business.
    fs::write(dir.path().join("raw/.half.json"), "{").expect("written");
    fs::write(dir.path().join("raw/weir.log"), "log").expect("written");
    let output = recompute(dir.path());
    assert!(output.status.success(), "{output:?}");
    for (name, before) in FILES.iter().zip(before) {
        let after = fs::read(dir.path().join(name)).expect("written again");
        assert!(before == after, "{name} differs");
    }
    let left: Vec<_> =
        fs::read_dir(dir.path()).expect("a directory").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(left.len(), 5, "{left:?}");
}

#[test]
fn recompute_says_what_it_cannot_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = recompute(dir.path());
    assert_eq!(output.status.code(), Some(66));
    let (results, _) = judged();
    made_up::write_raw(dir.path(), results).expect("raw data");
    fs::write(dir.path().join("raw/r99.json"), "{\"id\": 3}").expect("written");
    let output = recompute(dir.path());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(66));
    assert!(error.contains("r99.json: this is no run of a campaign"), "{error}");
}

#[test]
fn results_json_can_be_read_back_and_linted() {
    let (results, judgement) = judged();
    let json = report::to_json(results, judgement);
    assert_eq!(&report::from_json(&json).expect("results"), results);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let again: Judgement = serde_json::from_value(value["judgement"].clone()).expect("a judgement");
    assert_eq!(&again, judgement);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("results.json");
    fs::write(&path, json).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_gauge")).arg("lint").arg(&path).output().expect("gauge runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(1));
    let prefix = format!("{}: ", path.display());
    for name in ["errors", "noisy-control", "steal"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("{prefix}{name}: "))), "{name} in {text}");
    }
    assert!(text.contains("steal: envoy under browse, round 9: "), "{text}");
    let later = report::to_json(&Results { format: 99, ..results.clone() }, judgement);
    assert!(report::from_json(&later).expect_err("a later format").contains("use a later gauge"));
}

#[test]
fn the_page_loads_nothing_and_escapes_what_it_shows() {
    let (results, _) = judged();
    let mut results = results.clone();
    results.name = "<script>alert(1)</script> & \"co\"".to_owned();
    results.environment.host = Some("<img src=x>".to_owned());
    let judgement = judge(&results);
    let dir = tempfile::tempdir().expect("a directory");
    report::write(dir.path(), &results, &judgement).expect("a report");
    let html = fs::read_to_string(dir.path().join("report.html")).expect("written");
    assert!(!html.contains("<script>alert") && !html.contains("<img"));
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;co&quot;"));
    for attribute in [" src=", " href=", "url(", "@import", " action="] {
        for (at, _) in html.match_indices(attribute) {
            let rest: String = html[at + attribute.len()..].chars().take(12).collect();
            // Text, whose quotes are escaped.
            if attribute.starts_with(' ') && !rest.starts_with('"') {
                continue;
            }
            assert!(rest.starts_with("\"#") || rest.starts_with("\"data:,\""), "{attribute}{rest}");
        }
    }
    assert_eq!(html.matches("<script>").count(), 1);
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    assert_eq!(html.matches("<details").count(), html.matches("</details>").count());
    assert!(html.matches("<svg").count() >= 10);
    assert!(!html.contains("NaN") && !html.contains("inf\""));
    let csv = fs::read_to_string(dir.path().join("results.csv")).expect("written");
    assert_eq!(csv.lines().count(), results.runs.len() + 1);
    let markdown = fs::read_to_string(dir.path().join("report.md")).expect("written");
    assert!(markdown.contains("| 1 | weir | "));
}

/// Where most rounds would have to be left out, they count, and the report says so; a round in which only the host was taken away does not touch CPU time.
#[test]
fn a_restless_machine_is_told_of_and_its_rounds_are_kept() {
    let (results, judgement) = judged();
    let row = |judgement: &Judgement, system: &str| {
        judgement.rows.iter().find(|row| row.system == system && row.workload == "browse").cloned().expect("a row")
    };
    let envoy = row(judgement, "envoy");
    assert_eq!(envoy.rounds.len(), 8, "one noisy, one stolen from");
    assert_eq!(envoy.cpu_us_per_request.map(|estimate| estimate.rounds), Some(10));
    assert!(envoy.unreadable.is_empty());
    let mut restless = results.clone();
    for run in restless.runs.iter_mut().filter(|run| run.round > 3) {
        if let Some(observed) = &mut run.observed {
            observed.machine.steal = Some(0.05);
        }
    }
    let restless = judge(&restless);
    assert_eq!(row(&restless, "weir").rounds.len(), 10);
    assert_eq!(row(&restless, "weir").unreadable.len(), 7);
    assert!(restless.notes.iter().any(|note| note.contains("The machine was restless: of browse, retrieve")));
    assert!(restless.ranking.iter().any(|place| place.system == "weir"));
}

/// A generator that was late has measured itself; no other round makes that good.
#[test]
fn runs_of_a_late_generator_never_count() {
    let (results, _) = judged();
    let mut late = results.clone();
    let mut lag = Histogram::default();
    (0..1_000).for_each(|index| lag.record(if index < 950 { 10_000 } else { 5_000_000 }));
    let lag = gauge::load::report::Latency::of(lag);
    for run in late.runs.iter_mut().filter(|run| run.system == "nginx" && run.workload == "browse" && run.round > 2) {
        run.report.as_mut().expect("a report").total.generator_lag.clone_from(&lag);
    }
    let judgement = judge(&late);
    let row = judgement.rows.iter().find(|row| row.system == "nginx" && row.workload == "browse").expect("a row");
    assert_eq!(row.rounds, [1, 2]);
    let nginx = judgement.unranked.iter().find(|system| system.system == "nginx").expect("not ranked");
    assert!(nginx.why[0].contains("only 2 of 10 rounds count (round 3: generator-bound: "), "{:?}", nginx.why);
}

/// A workload that is only searched has no runs, and still a part in the score.
#[test]
fn a_search_needs_no_runs() {
    let (results, _) = judged();
    let mut searched = results.clone();
    searched.runs.retain(|run| run.workload != "browse");
    let judgement = judge(&searched);
    let weir = judgement.ranking.iter().find(|place| place.system == "weir").expect("ranked");
    assert!(
        weir.parts
            .iter()
            .any(|part| part.workload.as_deref() == Some("browse") && part.part == gauge::judgement::Part::SloRate)
    );
    let row = judgement.rows.iter().find(|row| row.system == "weir" && row.workload == "browse").expect("a row");
    assert!(row.highest_rate.is_some() && row.rounds.is_empty());
    let of_browse = |judgement: &Judgement, results: &Results| {
        let dir = tempfile::tempdir().expect("a directory");
        report::write(dir.path(), results, judgement).expect("a report");
        let text = fs::read_to_string(dir.path().join("report.md")).expect("written");
        let table = text.split("## browse").nth(1).expect("a section").split("\n## ").next().expect("text").to_owned();
        assert!(table.contains("| highest rate |"), "{table}");
        table.lines().find(|line| line.starts_with("| weir |")).expect("a line").to_owned()
    };
    assert!(of_browse(&judgement, &searched).ends_with(") |"), "a rate with its interval");
    let mut none = searched.clone();
    for search in none.searches.iter_mut().filter(|search| search.system == "weir") {
        search.highest = None;
        search.failed = Some("not even 100/s met the objective".to_owned());
    }
    let judgement = judge(&none);
    let weir = judgement.unranked.iter().find(|system| system.system == "weir").expect("not ranked");
    assert!(weir.why[0].contains("no rate met the objective: not even 100/s"), "{:?}", weir.why);
    assert!(of_browse(&judgement, &none).ends_with("| none |"));
}

/// Under bbr the order of gateways that pass large bodies can be another one than under cubic.
#[test]
fn the_congestion_control_is_told_of_where_it_matters() {
    let (results, judgement) = judged();
    let told = |judgement: &Judgement| judgement.notes.iter().any(|note| note.contains("bbr"));
    assert!(!told(judgement));
    let mut paced = results.clone();
    paced.environment.congestion_control = Some("bbr".to_owned());
    assert!(told(&judge(&paced)));
}

/// A treatment that was not seen in one lane voids its runs, and the lane has no place.
#[test]
fn a_lane_without_its_treatment_is_not_ranked() {
    let (results, _) = judged();
    let mut cached = results.clone();
    for run in cached.runs.iter_mut().filter(|run| run.system == "nginx") {
        run.treatment = Some(gauge::campaign::results::Treatment {
            name: "cache off".to_owned(),
            header: Some("x-cache".to_owned()),
            value: Some("HIT".to_owned()),
            at_least: None,
            at_most: Some(0.0),
        });
        run.treated = Some(0.4);
    }
    let judgement = judge(&cached);
    let nginx = judgement.unranked.iter().find(|system| system.system == "nginx").expect("not ranked");
    assert!(nginx.why[0].contains("treatment-not-applied: cache off: 40 % of the answers"), "{:?}", nginx.why);
}
