//! What is written of a judgement, and read back: reports, raw data, `gauge recompute`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gauge::judgement::judge;
use gauge::report;
use gauge::results::report::Histogram;
use gauge::results::{Judgement, Results};

use super::{judged, made_up};

const FILES: [&str; 5] = ["report.html", "report.md", "results.csv", "samples.csv", "results.json"];

/// Campaigns of earlier versions are still read, judged and reported.
#[test]
fn stored_campaigns_can_be_judged() {
    fn campaigns(folder: &Path, found: &mut Vec<PathBuf>) {
        if folder.join("raw/campaign.json").is_file() {
            return found.push(folder.to_owned());
        }
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| path.is_dir()).for_each(|folder| campaigns(&folder, found));
    }
    let mut stored = Vec::new();
    campaigns(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/runs"), &mut stored);
    assert!(!stored.is_empty(), "benches/runs has no campaign with its raw data");
    for campaign in stored {
        let results = report::read_raw(&campaign).unwrap_or_else(|error| panic!("{error}"));
        let judgement = judge(&results);
        println!("{}: {}", campaign.display(), report::headline(&judgement));
        let dir = tempfile::tempdir().expect("a directory");
        report::write(dir.path(), &results, &judgement).expect("a report");
        assert!(!results.trials.is_empty() || !results.searches.is_empty());
    }
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
    shuffled.trials.sort_by(|a, b| a.id.chars().rev().cmp(b.id.chars().rev()));
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
    assert_eq!(left.len(), 6, "{left:?}");
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
    assert!(error.contains("r99.json: not a trial of a campaign"), "{error}");
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
    assert_eq!(csv.lines().count(), results.trials.len() + 1);
    let markdown = fs::read_to_string(dir.path().join("report.md")).expect("written");
    assert!(markdown.contains("| 1 | weir | "));
}
