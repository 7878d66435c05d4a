//! A made-up campaign, judged; its reports; and simulated campaigns.

#[path = "judgement/findings.rs"]
mod findings;
mod made_up;
#[path = "judgement/reports.rs"]
mod reports;
#[path = "judgement/simulated.rs"]
mod simulated;

use std::fs;

use gauge::judgement::judge;
use gauge::report;
use gauge::results::report::Histogram;
use gauge::results::{Judgement, Name, Ranked, Results, Row, Trial, TrialState};

fn judged() -> &'static (Results, Judgement) {
    static JUDGED: std::sync::OnceLock<(Results, Judgement)> = std::sync::OnceLock::new();
    JUDGED.get_or_init(|| {
        let results = made_up::campaign();
        let judgement = judge(&results);
        (results, judgement)
    })
}

/// The made-up campaign with a few of its systems.
fn few() -> Results {
    let mut results = judged().0.clone();
    let kept = |system: &str| ["direct", "weir", "weir-control", "nginx", "haproxy"].contains(&system);
    results.systems.retain(|system| kept(&system.name));
    results.trials.retain(|trial| kept(&trial.system));
    results.searches.retain(|search| kept(&search.system));
    // What is judged again and again is judged sooner without the distributions and what searches tried.
    results.searches.iter_mut().for_each(|search| search.points.clear());
    for report in results.trials.iter_mut().filter_map(|trial| trial.report.as_mut()) {
        let parts = report.operations.iter_mut().map(|operation| &mut operation.total);
        for latency in parts.chain([&mut report.total]).filter_map(|total| total.latency.as_mut()) {
            latency.histogram = None;
        }
    }
    results
}

fn without(results: &Results, system: &str) -> Results {
    let mut results = results.clone();
    results.systems.retain(|own| own.name != system);
    results.trials.retain(|trial| trial.system != system);
    results.searches.retain(|search| search.system != system);
    results
}

fn row<'j>(judgement: &'j Judgement, system: &str, workload: &str) -> &'j Row {
    judgement.rows.iter().find(|row| row.system == system && row.workload == workload).expect("a row")
}

fn place<'j>(judgement: &'j Judgement, system: &str) -> &'j Ranked {
    judgement.ranking.iter().find(|place| place.system == system).expect("ranked")
}

fn why<'j>(judgement: &'j Judgement, system: &str) -> &'j [String] {
    judgement.unranked.iter().find(|own| own.system == system).map_or(&[], |own| &own.why)
}

#[test]
fn the_cheapest_is_first_and_gateways_without_a_place_say_why() {
    let (_, judgement) = judged();
    assert!(judgement.decision.decided, "{:?}", judgement.decision);
    let order: Vec<&str> = judgement.ranking.iter().map(|place| place.system.as_str()).collect();
    assert_eq!((order[0], order[1], order.len()), ("weir", "nginx", 6), "{order:?}");
    assert!(judgement.ranking.iter().map(|place| place.place).is_sorted());
    assert_eq!(judgement.ranking[0].tied_with, [""; 0]);
    assert!(place(judgement, "haproxy").tied_with.contains(&"fiber".to_owned()), "they are as good as each other");
    assert_eq!(judgement.reference.as_deref(), Some("direct"));
    assert!(why(judgement, "caddy")[0].contains("unknown path, status: 404 is required, 200 was found"));
    assert!(why(judgement, "kong")[0].starts_with("configured, not run here"));
    assert_eq!(judgement.unranked.len(), 2, "{:?}", judgement.unranked);
    let weights: f64 = judgement.weights.iter().map(|weight| weight.used).sum();
    assert!((weights - 1.0).abs() < 1e-9);
    let used: Vec<&str> =
        judgement.weights.iter().filter(|one| one.used > 0.0).map(|one| one.criterion.as_str()).collect();
    assert_eq!(used, ["slo-rate", "latency", "cpu-per-request"], "memory stands beside the score");
    for place in &judgement.ranking {
        let parts: f64 = place.parts.iter().filter(|part| part.workload.is_none()).map(|part| part.weight).sum();
        assert!((parts - 1.0).abs() < 1e-9);
    }
    let tested = judgement.comparisons.iter().filter(|comparison| comparison.result.p.is_some()).count();
    assert_eq!(judgement.tested as usize, tested);
}

/// The conditions of a trial are no property of its system: the round is left out for all alike.
#[test]
fn a_round_that_the_machine_spoiled_counts_for_no_system() {
    let (results, judgement) = judged();
    let of = |round: u32| judgement.left_out.iter().filter(move |left_out| left_out.round == round);
    assert!(
        of(7).count() == 2 && of(7).all(|left_out| left_out.name == Name::NoisyControl),
        "{:?}",
        judgement.left_out
    );
    assert!(of(9).all(|left_out| left_out.name == Name::Steal && left_out.system == "envoy"));
    for system in ["weir", "nginx", "envoy", "direct"] {
        assert_eq!(row(judgement, system, "browse").rounds, [1, 2, 3, 4, 5, 6, 8, 10, 11, 12], "{system}");
    }
    assert!(judgement.ranking.iter().all(|place| place.score.rounds == 10));
    assert_eq!(judgement.trials.len(), results.trials.len());
}

/// One rule: a trial that failed is worse than any value in its round, and enough of them leave a gateway without a place.
#[test]
fn a_failed_trial_counts_against_its_gateway() {
    let (_, judgement) = judged();
    let traefik = row(judgement, "traefik", "browse");
    assert_eq!(traefik.failed.iter().map(|failed| failed.round).collect::<Vec<_>>(), [4]);
    assert!(traefik.failed[0].why.starts_with("too-many-errors: "), "{traefik:?}");
    assert!(row(judgement, "fiber", "retrieve").failed[0].why.contains("exit code 2"));
    assert_eq!((place(judgement, "traefik").failed, place(judgement, "fiber").failed), (1, 1));
    assert_eq!(place(judgement, "traefik").score.low, None, "no score is worse than a failed trial");
    let failing = |rounds: u32| {
        let mut failing = few();
        for trial in failing.trials.iter_mut().filter(|trial| trial.system == "weir" && trial.round <= rounds) {
            trial.state = TrialState::Failed("it ended under load".to_owned());
        }
        judge(&failing)
    };
    let score = |judgement: &Judgement| place(judgement, "weir").score.value;
    assert!(score(&failing(1)) <= score(&failing(0)) && score(&failing(2)) <= score(&failing(1)));
    assert_eq!(why(&failing(6), "weir")[0], "browse: 6 of 11 trials failed, first: it ended under load");
    assert!(failing(6).ranking.iter().all(|place| place.place <= 2), "the others are compared without it");
}

#[test]
fn a_search_that_fails_counts_as_a_trial_does() {
    let failing = |rounds: u32, of_gateway: bool| {
        let mut failing = few();
        for search in failing.searches.iter_mut().filter(|search| search.system == "weir" && search.round <= rounds) {
            search.highest = None;
            let why = Some("the SLO was met at no rate down to 100.0/s".to_owned());
            *(if of_gateway { &mut search.failed } else { &mut search.invalid }) = why;
        }
        judge(&failing)
    };
    let judgement = failing(6, true);
    assert_eq!(
        why(&judgement, "weir")[0],
        "browse: 6 of 11 searches failed, first: the SLO was met at no rate down to 100.0/s"
    );
    let noisy = failing(3, false);
    assert_eq!(why(&noisy, "weir"), [""; 0], "the machine is not a property of a gateway");
    assert_eq!(row(&noisy, "nginx", "browse").rounds.len(), 8, "four rounds less for all");
}

/// What happened in a round that counts for no system counts against none.
#[test]
fn a_search_that_failed_in_a_round_left_out_does_not_count() {
    let mut stolen = few();
    for search in stolen.searches.iter_mut().filter(|search| search.system == "weir" && search.round <= 5) {
        search.highest = None;
        search.failed = Some("the SLO was met at no rate down to 100.0/s".to_owned());
    }
    let weir = |results: &Results| why(&judge(results), "weir").to_owned();
    assert!(weir(&stolen)[0].contains("5 of 11 searches failed"), "{:?}", weir(&stolen));
    for trial in stolen.trials.iter_mut().filter(|trial| trial.round <= 4) {
        trial.observed.as_mut().expect("observed").machine.steal = Some(0.05);
    }
    let judgement = judge(&stolen);
    assert_eq!(why(&judgement, "weir"), [""; 0]);
    let searched = row(&judgement, "weir", "browse").figure("slo-rate").expect("a rate");
    assert_eq!(searched.rounds, row(&judgement, "nginx", "browse").figure("slo-rate").expect("a rate").rounds);
    assert!(row(&judgement, "weir", "browse").search_failed.is_some(), "round 5 counts");
}

/// CPU time is compared in all rounds or in none: rounds that are dropped for their low value would leave the dear ones.
#[test]
fn too_little_cpu_time_is_void_for_the_workload_and_never_for_single_rounds() {
    let with_cpu = |of_round: fn(u32) -> f64| {
        let mut little = few();
        for trial in &mut little.trials {
            if trial.system == "weir" && trial.workload == "browse" {
                let usage = trial.observed.as_mut().and_then(|observed| observed.system.as_mut()).expect("observed");
                (usage.user_s, usage.system_s) = (Some(of_round(trial.round)), Some(0.0));
            }
        }
        judge(&little)
    };
    let rounds = |judgement: &Judgement| {
        row(judgement, "weir", "browse").figure("cpu-per-request").map(|estimate| estimate.rounds)
    };
    let compared = |judgement: &Judgement| {
        judgement.comparisons.iter().any(|one| {
            one.workload.as_deref() == Some("browse") && one.criterion == "cpu-per-request" && one.b == "weir"
                || one.workload.as_deref() == Some("browse") && one.criterion == "cpu-per-request" && one.a == "weir"
        })
    };
    let some = with_cpu(|round| if round % 3 == 0 { 0.09 } else { 0.12 });
    assert_eq!((rounds(&some), compared(&some)), (Some(11), true), "a few rounds below count too");
    let most = with_cpu(|round| if round % 3 == 0 { 0.12 } else { 0.09 });
    assert_eq!((rounds(&most), compared(&most)), (None, false));
}

/// With so few rounds that not even the clearest difference could be declared among so many pairs, nothing is decided.
#[test]
fn a_decision_takes_the_rounds_that_its_comparisons_need() {
    let of = |rounds: u32, gateways: &[&str]| {
        let mut results = few();
        results.systems.retain(|system| system.name == "direct" || gateways.contains(&system.name.as_str()));
        results.trials.retain(|trial| results.systems.iter().any(|system| system.name == trial.system));
        results.searches.retain(|search| results.systems.iter().any(|system| system.name == search.system));
        // The seventh is left out.
        let kept = |round: u32| round <= rounds + u32::from(rounds > 6);
        results.trials.retain(|trial| kept(trial.round));
        results.searches.retain(|search| kept(search.round));
        judge(&results)
    };
    let pair = of(6, &["weir", "nginx"]).decision;
    assert!(pair.decided && pair.needed == 6, "{pair:?}");
    let three = of(6, &["weir", "nginx", "haproxy"]);
    assert!(!three.decision.decided && three.decision.needed == 8, "{:?}", three.decision);
    assert!(three.comparisons.iter().all(|one| one.criterion != "score" || !one.result.declared));
    assert!(three.ranking.iter().all(|place| place.place == 1));
    let enough = of(8, &["weir", "nginx", "haproxy"]).decision;
    assert!(enough.decided, "{enough:?}");
}

/// Whatever the machine or the generator does to one gateway's trials, it never leaves it without a place, nor another as the only one.
#[test]
fn a_generator_that_was_late_bars_nobody() {
    let late = |rounds: std::ops::RangeInclusive<u32>| {
        let mut results = few();
        for trial in &mut results.trials {
            if trial.system == "nginx" && trial.workload == "browse" && rounds.contains(&trial.round) {
                let mut lag = Histogram::default();
                lag.record_n(5_000_000, 2_000);
                trial.report.as_mut().expect("a report").total.generator_lag = gauge::results::report::Latency::of(lag);
            }
        }
        judge(&results)
    };
    let some = late(1..=2);
    assert!(some.decision.decided && some.decision.rounds == 9, "{:?}", some.decision);
    let most = late(1..=11);
    assert!(!most.decision.decided);
    assert!(most.unranked.is_empty(), "{:?}", most.unranked);
    let headline = report::headline(&most);
    assert!(headline.starts_with("NO DECISION: 1 of 12 rounds are valid, and 8 are needed"), "{headline}");
    assert!(
        headline.contains("generator-lag")
            && headline.contains("What would help: a processor of its own for the generator")
    );
    assert!(!headline.contains("only gateway"));
    assert!(most.comparisons.iter().all(|one| one.workload.as_deref() != Some("browse") || !one.result.declared));
}

/// More rounds that are left out never decide more.
#[test]
fn no_decision_comes_first_in_every_report() {
    let mut decided = true;
    for stolen in 0..=12 {
        let mut restless = few();
        for trial in restless.trials.iter_mut().filter(|trial| trial.round <= stolen) {
            trial.observed.as_mut().expect("observed").machine.steal = Some(0.05);
        }
        let judgement = judge(&restless);
        assert!(decided || !judgement.decision.decided, "{stolen} rounds");
        decided = judgement.decision.decided;
        if stolen < 12 {
            continue;
        }
        assert!(!decided && judgement.ranking.is_empty() && judgement.unranked.is_empty());
        let dir = tempfile::tempdir().expect("a directory");
        report::write(dir.path(), &restless, &judgement).expect("a report");
        let text = |file: &str| fs::read_to_string(dir.path().join(file)).expect("written");
        assert!(text("report.md").lines().nth(2).is_some_and(|line| line.starts_with("**NO DECISION: ")));
        assert!(text("report.html").contains("class=\"headline undecided\">NO DECISION: "));
        let json: serde_json::Value = serde_json::from_str(&text("results.json")).expect("JSON");
        assert_eq!(json["judgement"]["decision"]["decided"], false);
    }
}

#[test]
fn controls_are_not_ranked_and_not_different() {
    let (_, judgement) = judged();
    assert!(judgement.ranking.iter().all(|place| place.system != "weir-control"));
    assert!(judgement.controls.len() >= 5 && judgement.controls.iter().all(|control| !control.result.declared));
    let different = |criterion: &str, a: &str, b: &str| {
        let own = |one: &&gauge::results::Comparison| one.criterion == criterion && one.a == a && one.b == b;
        judgement.comparisons.iter().find(own).and_then(|one| one.better().map(str::to_owned))
    };
    assert_eq!(different("cpu-per-request", "weir", "nginx").as_deref(), Some("weir"), "10.4 against 12.1 us");
    assert_eq!(different("score", "weir", "envoy").as_deref(), Some("weir"));
    // A control that is not treated alike is a false positive, and said.
    let mut favoured = few();
    for trial in favoured.trials.iter_mut().filter(|trial| trial.system == "weir-control") {
        let usage = trial.observed.as_mut().and_then(|observed| observed.system.as_mut()).expect("observed");
        usage.user_s = usage.user_s.map(|seconds| seconds * 1.5);
        usage.system_s = usage.system_s.map(|seconds| seconds * 1.5);
    }
    let notes = judge(&favoured).notes;
    assert!(
        notes.iter().any(|note| note.contains("its A/A control were declared different in cpu-per-request")),
        "{notes:?}"
    );
}

/// First axiom: with the same valid rounds, the score of a gateway, its interval and its parts do not depend on which others are there.
#[test]
fn adding_or_removing_a_gateway_changes_no_score() {
    let mut results = few();
    results.systems.retain(|system| system.name != "weir-control");
    let judgement = judge(&results);
    for removed in ["weir", "nginx", "haproxy"] {
        let fewer = judge(&without(&results, removed));
        assert_eq!(fewer.ranking.len(), 2);
        for place in &fewer.ranking {
            let before = self::place(&judgement, &place.system);
            assert_eq!(
                (before.score, &before.parts),
                (place.score, &place.parts),
                "{} without {removed}",
                place.system
            );
        }
    }
}

/// Multiplies all costs of a system, in some rounds.
fn dearer(results: &Results, system: &str, factor: f64, rounds: std::ops::RangeInclusive<u32>) -> Results {
    let mut results = results.clone();
    for trial in results.trials.iter_mut().filter(|trial| trial.system == system && rounds.contains(&trial.round)) {
        let usage = trial.observed.as_mut().and_then(|observed| observed.system.as_mut()).expect("observed");
        usage.user_s = usage.user_s.map(|seconds| seconds * factor);
        usage.system_s = usage.system_s.map(|seconds| seconds * factor);
        let latency = trial.report.as_mut().and_then(|report| report.total.latency.as_mut()).expect("times");
        latency.p99_ms = latency.p99_ms.map(|ms| ms * factor);
    }
    for search in results.searches.iter_mut().filter(|search| search.system == system && rounds.contains(&search.round))
    {
        search.highest = search.highest.map(|rate| rate / factor);
    }
    results
}

/// Second and third axiom: twice all costs is half the score, exactly; a higher cost in any round never is a higher score.
#[test]
fn scores_scale_with_costs_and_are_monotonic() {
    let results = few();
    let score = |results: &Results| place(&judge(results), "nginx").score.value;
    let before = score(&results);
    for factor in [0.5, 2.0, 3.7] {
        let after = score(&dearer(&results, "nginx", factor, 1..=12));
        assert!((after * factor / before - 1.0).abs() < 1e-9, "{factor}: {before} and {after}");
    }
    let mut last = before;
    for rounds in 1..=12 {
        let after = score(&dearer(&results, "nginx", 1.3, 1..=rounds));
        assert!(after <= last + 1e-9, "{rounds} rounds dearer: {last}, then {after}");
        last = after;
    }
}

#[test]
fn a_named_reference_is_the_unit() {
    let mut named = few();
    let order = |judgement: &Judgement| judgement.ranking.iter().map(|place| place.system.clone()).collect::<Vec<_>>();
    let before = order(&judge(&named));
    named.reference = Some("nginx".to_owned());
    let named = judge(&named);
    assert!((place(&named, "nginx").score.value - 100.0).abs() < 1e-9);
    assert!(place(&named, "weir").score.value > 100.0);
    assert_eq!(order(&named), before);
}

#[test]
fn weights_of_the_evaluation_and_criteria_without_figures() {
    let mut weighed = few();
    weighed.weights = [("memory", 1.0), ("slo-rate", 0.0), ("added-latency", 2.0), ("cpu-per-request", 1.0)]
        .map(|(criterion, weight)| (criterion.to_owned(), weight))
        .into();
    let judgement = judge(&weighed);
    let planned =
        |name: &str| judgement.weights.iter().find(|weight| weight.criterion == name).map(|weight| weight.planned);
    assert_eq!([planned("memory"), planned("latency"), planned("slo-rate")], [Some(0.25), Some(0.5), Some(0.0)]);
    // A search in fewer rounds than can decide stands beside the score and does not take its rounds away.
    let mut few_searches = few();
    few_searches.searches.retain(|search| search.round <= 3);
    let judgement = judge(&few_searches);
    assert!(
        judgement.decision.decided && place(&judgement, "weir").parts.iter().all(|part| part.criterion != "slo-rate")
    );
    assert!(judgement.notes.iter().any(|note| note.starts_with("slo-rate under browse was measured in 3 rounds")));
    // No weight at all is no score.
    weighed.weights.values_mut().for_each(|weight| *weight = 0.0);
    assert!(judge(&weighed).ranking.is_empty());
}

#[test]
fn without_a_baseline_the_score_is_relative_to_the_first_system() {
    let judgement = judge(&without(&few(), "direct"));
    let reference = judgement.reference.clone().expect("a system");
    let value = place(&judgement, &reference).score.value;
    assert!(judgement.decision.decided && (value - 100.0).abs() < 1e-9, "{reference} scores {value}");
    assert!(judgement.notes.iter().any(|note| note.contains("There is no baseline")));
    assert!(row(&judgement, "weir", "browse").figure("cpu-per-request").is_some());
}

#[test]
fn a_campaign_of_nothing_is_judged_too() {
    let results = few();
    let mut empty = results.clone();
    empty.trials.clear();
    empty.searches.clear();
    assert!(judge(&empty).ranking.is_empty());
    empty.systems.clear();
    empty.workloads.clear();
    let judgement = judge(&empty);
    let dir = tempfile::tempdir().expect("a directory");
    report::write(dir.path(), &empty, &judgement).expect("a report");
    // A trial that was never finished.
    let mut killed = results;
    killed.ended_unix_ms = None;
    killed.trials[0].state = TrialState::Measuring;
    killed.trials[0].report = None;
    let judgement = judge(&killed);
    assert!(!judgement.trials[0].used);
    assert!(judgement.notes.iter().any(|note| note.contains("is not complete")));
}

#[test]
fn two_rounds_decide_nothing() {
    let mut quick = few();
    quick.quick = true;
    quick.rounds = 2;
    quick.trials.retain(|trial| trial.round <= 2);
    quick.searches.retain(|search| search.round <= 2);
    let judgement = judge(&quick);
    assert_eq!((judgement.ranking.len(), judgement.tested), (3, 0));
    assert!(judgement.ranking.iter().all(|place| place.place == 1 && place.score.low.is_none()));
    let headline = report::headline(&judgement);
    assert!(
        headline.starts_with("NO DECISION: 2 of 2 rounds are valid") && headline.contains("without --quick"),
        "{headline}"
    );
}

/// A round with too few responses for the percentile is a slow one: a gateway may not get rid of it.
#[test]
fn rounds_with_few_responses_are_not_left_out_of_the_latency() {
    let mut slow = few();
    let before = judge(&slow);
    for trial in
        slow.trials.iter_mut().filter(|trial| trial.system == "nginx" && trial.workload == "browse" && trial.round == 3)
    {
        trial.report.as_mut().and_then(|report| report.total.latency.as_mut()).expect("times").count = Some(900);
    }
    let slow = judge(&slow);
    assert_eq!(row(&slow, "nginx", "browse").figure("latency"), None);
    assert_eq!(row(&slow, "weir", "browse").figure("latency"), row(&before, "weir", "browse").figure("latency"));
    // Where trials last so long, and not so many requests, gateways have fewer samples than the baseline.
    let mut short = few();
    for trial in short.trials.iter_mut().filter(|trial| trial.workload == "browse") {
        trial.report.as_mut().and_then(|report| report.total.latency.as_mut()).expect("times").count = Some(1_500);
    }
    assert_eq!(row(&judge(&short), "weir", "browse").percentile, Some(95.0));
    short.workloads[0].planned.requests = Some(1_500);
    assert_eq!(row(&judge(&short), "weir", "browse").percentile, Some(99.0), "all make as many requests");
}

#[test]
fn a_rate_that_a_gateway_does_not_keep_fails_its_trial() {
    let missed = |system: &str| {
        let mut missed = few();
        for trial in &mut missed.trials {
            if trial.system == system && trial.workload == "browse" && trial.round == 3 {
                trial.report.as_mut().expect("a report").total.rate.achieved = Some(19_000.0);
            }
        }
        judge(&missed)
    };
    assert!(row(&missed("nginx"), "nginx", "browse").failed[0].why.starts_with("rate-not-achieved: "));
    // What the baseline does not keep, no gateway can be held to.
    let baseline = missed("direct");
    assert!(baseline.left_out.iter().any(|left_out| left_out.round == 3 && left_out.system == "direct"));
    assert!(!row(&baseline, "nginx", "browse").rounds.contains(&3));
}

/// A treatment that was not seen fails the trials, and the gateway has no place.
#[test]
fn a_gateway_without_its_treatment_is_not_ranked() {
    let mut cached = few();
    for trial in cached.trials.iter_mut().filter(|trial| trial.system == "nginx") {
        trial.treatment = Some(gauge::results::Treatment {
            name: "cache off".to_owned(),
            header: Some("x-cache".to_owned()),
            value: Some("HIT".to_owned()),
            at_least: None,
            at_most: Some(0.0),
        });
        trial.treated = Some(0.4);
    }
    let judgement = judge(&cached);
    assert!(
        why(&judgement, "nginx")[0].contains("treatment-not-applied: cache off: 40 % of the responses"),
        "{judgement:?}"
    );
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

#[test]
fn thresholds_fail_what_passes_them_and_what_was_not_measured() {
    use gauge::results::{Metric, Operator, Outcome, Threshold};
    let (results, judgement) = judged();
    assert_eq!(gauge::judgement::failures(judgement), [""; 0], "nothing is required");
    let of =
        |metric, operator, limit, written: &str| Threshold { metric, operator, limit, written: written.to_owned() };
    let fail = vec![of(Metric::P99, Operator::Above, 2.0, ">2ms"), of(Metric::Rate, Operator::Below, 10.0, "<10/s")];
    let limited = judge(&Results { fail, ..results.clone() });
    let lines = gauge::judgement::failures(&limited);
    for one in &limited.outcomes {
        let fails = lines
            .iter()
            .any(|line| line.starts_with(&format!("{}:", one.system)) || line.starts_with(&format!("{} ", one.system)));
        assert_eq!(one.outcome == Outcome::Fail, fails, "{one:?}");
    }
    let row = |system: &str| {
        let mut rows = judgement.rows.iter().filter(|row| row.system == system && row.workload == "browse");
        rows.find_map(|row| row.latency.as_ref()?.p99_ms).expect("measured")
    };
    for system in ["weir", "nginx", "haproxy", "envoy", "fiber", "traefik"] {
        let said = lines.iter().any(|line| line.starts_with(&format!("{system} under browse: p99 is ")));
        assert_eq!(said, row(system) > 2.0, "{system}: {lines:?}");
    }
    let has = |text: &str| lines.iter().any(|line| line == text);
    assert!(has("kong: not checked: its program is not here"), "{lines:?}");
    assert!(has("caddy: not checked: its responses are not those of the upstream"), "{lines:?}");
    assert!(has("fiber under retrieve: 1 trials failed"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("rate") || line.contains("control") || line.starts_with("direct")));
    for (operator, met) in [(Operator::Above, [false, false, true]), (Operator::AtLeast, [false, true, true])]
        .into_iter()
        .chain([(Operator::Below, [true, false, false]), (Operator::AtMost, [true, true, false])])
    {
        let threshold = of(Metric::P50, operator, 2.0, "");
        assert_eq!([1.0, 2.0, 3.0].map(|figure| threshold.is_met_by(figure)), met, "{operator:?}");
    }
}

#[test]
fn without_a_baseline_a_round_in_which_all_systems_moved_together_is_noisy() {
    let mut results = without(&few(), "direct");
    let slow = |results: &mut Results, all: bool| {
        let own =
            |trial: &&mut Trial| trial.round == 2 && trial.workload == "browse" && (all || trial.system == "weir");
        for trial in results.trials.iter_mut().filter(own) {
            let report = trial.report.as_mut().expect("a report");
            if let Some(rate) = &mut report.total.rate.achieved {
                *rate *= 0.5;
            }
            if let Some(latency) = &mut report.total.latency {
                latency.p50_ms = latency.p50_ms.map(|p50| p50 * 2.0);
            }
        }
    };
    let noisy = |results: &Results| {
        let judgement = judge(results);
        judgement
            .left_out
            .iter()
            .any(|left| left.round == 2 && left.workload == "browse" && left.name == Name::NoisyControl)
    };
    let before = noisy(&results);
    slow(&mut results, false);
    assert!(!before && !noisy(&results), "one system that moves alone is no noise");
    let mut results = without(&few(), "direct");
    slow(&mut results, true);
    assert!(noisy(&results), "{:?}", judge(&results).left_out);
}
