//! Findings in words, the noun of reports, and pass, warn and fail.

use gauge::judgement::{failures, judge};
use gauge::report;
use gauge::results::{Outcome, Results, Role, Subject};

use super::{few, judged, without};

/// The made-up campaign as one of services: without a baseline, in two languages and protocols.
fn services() -> Results {
    let mut results = without(&few(), "direct");
    for system in &mut results.systems {
        if system.role == Role::Gateway {
            system.role = Role::Service;
        }
        system.gateway = None;
        system.language = Some(if system.name == "nginx" { "Go" } else { "Rust" }.to_owned());
    }
    results.description = None;
    results.environment.congestion_control = Some("bbr".to_owned());
    results.command = "gauge run services.yaml".to_owned();
    results.evaluation = "name: services\n".to_owned();
    results.name = "services".to_owned();
    results
}

/// The cells of the row with an anchor.
fn cells<'h>(html: &'h str, anchor: &str) -> Vec<&'h str> {
    let id = format!("<tr id=\"{anchor}\">");
    assert_eq!(html.matches(&id).count(), 1, "{anchor}");
    let row = html.split(&id).nth(1).and_then(|rest| rest.split("</tr>").next()).expect("a row");
    row.split("</td>").collect()
}

/// `value<small>range</small>` of a cell as `value (range)`.
fn figure(cell: &str) -> Option<String> {
    let (value, range) = cell.strip_suffix("</small>")?.split_once("<small>")?;
    Some(format!("{} ({range})", value.rsplit_once('>').map_or(value, |(_, value)| value)))
}

#[test]
fn every_finding_has_the_numbers_of_its_rows_and_links_to_them() {
    for results in [judged().0.clone(), services()] {
        let judgement = judge(&results);
        let findings = report::findings(&results, &judgement);
        let html = report::to_html(&results, &judgement);
        let declared = judgement.comparisons.iter().filter(|pair| pair.result.declared).count();
        assert!(declared >= 3, "{declared}");
        assert_eq!(findings.declared.len(), declared, "a sentence for each");
        for finding in &findings.declared {
            let pair = &judgement.comparisons[finding.comparison];
            assert!(html.contains(&finding.text), "{}", finding.text);
            assert_eq!(finding.rows.len(), 3);
            let better = pair.better().expect("declared");
            assert!(finding.text.starts_with(&format!("{better} is better than ")), "{}", finding.text);
            let own = cells(&html, &finding.rows[0].1);
            let ratio = own.iter().find_map(|cell| figure(cell)).expect("a ratio");
            let words = format!(
                "the cost of {} over that of {} is {ratio} in {} rounds.",
                pair.a, pair.b, pair.result.ratio.rounds
            );
            assert!(finding.text.ends_with(&words), "{words} in {}", finding.text);
            for ((system, anchor), sign) in finding.rows[1..].iter().zip([" against ", "; "]) {
                let own = cells(&html, anchor);
                assert!(own[0].contains(&format!(">{system}<")), "{system}: {}", own[0]);
                let said = |cell: &&str| figure(cell).is_some_and(|figure| finding.text.contains(&(figure + sign)));
                assert!(own.iter().any(said), "{own:?} do not have the numbers of {}", finding.text);
            }
        }
        let links = html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next());
        for link in links {
            assert_eq!(html.matches(&format!(" id=\"{link}\"")).count(), 1, "{link}");
        }
        let all = judgement.comparisons.len();
        let undecided = findings.undecided.as_deref().unwrap_or_default();
        if declared < all {
            assert!(
                undecided.starts_with(&format!("No decision in {} of {all} comparisons: ", all - declared)),
                "{undecided}"
            );
            assert!(html.contains(undecided));
        }
        let lines = report::finding_lines(&results, &judgement, 2);
        assert_eq!(
            lines[2],
            format!("{} more declared differences are in report.md and report.html#findings.", declared - 2)
        );
    }
}

#[test]
fn without_a_decision_no_sentence_declares_anything_and_one_says_why() {
    let mut results = services();
    results.trials.retain(|trial| trial.round <= 3);
    results.searches.retain(|search| search.round <= 3);
    let judgement = judge(&results);
    let findings = report::findings(&results, &judgement);
    assert_eq!(findings.declared, []);
    let all = judgement.comparisons.len();
    let expected = format!(
        "No decision in {all} of {all} comparisons: {all} have fewer than the 6 valid rounds in common that a test needs."
    );
    assert_eq!(findings.undecided.as_deref(), Some(expected.as_str()));
    assert!(report::to_html(&results, &judgement).contains(&expected));
}

#[test]
fn a_report_of_services_does_not_speak_of_gateways() {
    let results = services();
    let judgement = judge(&results);
    assert_eq!(judgement.subject, Subject::Services);
    let dir = tempfile::tempdir().expect("a directory");
    report::write(dir.path(), &results, &judgement).expect("a report");
    for name in ["report.html", "report.md", "results.csv"] {
        let text = std::fs::read_to_string(dir.path().join(name)).expect("written");
        // The name of a paper.
        let text = text.to_lowercase().replace("automatic gateway evaluator", "");
        let at = text.find("gateway").map(|at| text[..at].chars().rev().take(80).collect::<Vec<_>>());
        let at: Option<String> = at.map(|around| around.into_iter().rev().collect());
        assert_eq!(at, None, "{name} speaks of gateways");
        assert!(!text.contains("baseline did not move"), "{name}: there is none");
    }
    let gateways = judged().1.subject;
    assert_eq!((gateways.one(), gateways.many()), ("gateway", "gateways"));
}

#[test]
fn services_have_limits_and_every_report_shows_what_the_exit_code_says() {
    let results = services();
    let judgement = judge(&results);
    assert_eq!(failures(&judgement), [""; 0]);
    assert_eq!(judgement.outcomes.len(), 3);
    for one in &judgement.outcomes {
        assert_eq!(one.checks.len(), 6, "p95, p99 and errors under two workloads: {one:?}");
        assert!(one.checks.iter().all(|check| check.outcome == Outcome::Pass && check.figure.is_some()), "{one:?}");
        assert!(one.outcome < Outcome::Fail);
    }
    assert!(judged().1.outcomes.is_empty(), "of gateways nothing is required by default");
    let mut slow = results;
    for trial in slow.trials.iter_mut().filter(|trial| trial.system == "nginx" && trial.workload == "browse") {
        let latency = trial.report.as_mut().and_then(|report| report.total.latency.as_mut()).expect("measured");
        (latency.p95_ms, latency.p99_ms) = (Some(2_500.0), Some(2_600.0));
    }
    let judgement = judge(&slow);
    let lines = failures(&judgement);
    assert_eq!(lines, ["nginx under browse: p95 is 2.50 s, and p95>2s fails"]);
    let dir = tempfile::tempdir().expect("a directory");
    report::write(dir.path(), &slow, &judgement).expect("a report");
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("written");
    let (html, markdown, json) = (read("report.html"), read("report.md"), read("results.json"));
    let fails = judgement.outcomes.iter().filter(|one| one.outcome == Outcome::Fail).count();
    assert_eq!(fails, 1);
    assert!(html.contains("✕ fail</span>") && html.contains(", fail 1.</strong>"));
    assert!(
        markdown.contains("| nginx | fail | under browse: p95 is 2.50 s, and p95&gt;2s fails")
            || markdown.contains("| nginx | fail | under browse: p95 is 2.50 s, and p95>2s fails")
    );
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let outcomes = json["judgement"]["outcomes"].as_array().expect("outcomes");
    let of = |system: &str| outcomes.iter().find(|one| one["system"] == system).map(|one| one["outcome"].clone());
    assert_eq!(of("nginx"), Some("fail".into()));
}
