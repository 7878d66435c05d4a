//! What is stored comes back, in both databases alike.

use std::path::Path;

use gauge::history::{Cleanup, Filter};
use gauge::results::{Results, TrialState};

use super::database::{Database, campaign, directory, later, small};

#[test]
fn a_result_directory_comes_back_as_it_was() {
    let expected = campaign();
    let mut listed = Vec::new();
    for database in Database::both("comes_back") {
        let dir = directory();
        let import = ["import", dir.to_str().expect("UTF-8")];
        let (code, text) = database.gauge(&import);
        assert_eq!((code, text.contains("48 trials")), (0, true), "{text}");
        // Once more is the same campaign.
        assert_eq!(database.gauge(&import), (code, text.clone()));
        let id = text.split_whitespace().next().expect("an id").to_owned();
        let stored = database.open().load(&id[..6]).expect("stored");
        assert_eq!((&stored.id, stored.status.as_str()), (&id, "done"));
        assert!(stored.results == expected, "another campaign");
        let (code, list) = database.gauge(&["list"]);
        assert_eq!((code, list.lines().count()), (0, 7), "{list}");
        assert_eq!(database.gauge(&["list", "--limit", "2"]).1.lines().count(), 3);
        assert_eq!(database.gauge(&["list", "--api", "weir"]).1.lines().count(), 2);
        for nothing in [["--api", "other"], ["--mode", "other"], ["--payload", "4k"]] {
            assert!(database.gauge(&["list", nothing[0], nothing[1]]).1.contains("no such runs"), "{nothing:?}");
        }
        let (code, shown) = database.gauge(&["show", &id]);
        let said =
            ["Intel(R) Xeon(R)", "haproxy 2.6.12", "NO DECISION: 8 of 8"].iter().all(|text| shown.contains(text));
        assert!(code == 0 && said, "{shown}");
        let (_, summary) = database.gauge(&["summary", "--comparison"]);
        listed.push((list, shown, summary, exported(&database, &id)));
        let (code, text) = database.gauge(&["show", "ffff"]);
        assert!(code == 66 && text.contains("no campaign `ffff`"), "{code} {text}");
    }
    assert!(listed[0] == listed[1], "{listed:?}");
}

fn exported(database: &Database, id: &str) -> [String; 2] {
    [["json", "-"], ["csv", "-"]].map(|[format, file]| {
        let (code, text) = database.gauge(&["export", id, file, "--format", format]);
        assert_eq!(code, 0, "{text}");
        text
    })
}

#[test]
fn an_export_is_what_gauge_run_writes_and_can_be_imported() {
    let database = Database::sqlite();
    let dir = directory();
    assert_eq!(database.gauge(&["import", dir.to_str().expect("UTF-8")]).0, 0);
    let folder = tempfile::tempdir().expect("a folder");
    let (json, csv) = (folder.path().join("results.json"), folder.path().join("results.csv"));
    let id = database.query("SELECT id FROM campaigns").concat();
    for file in [&json, &csv] {
        let (code, text) = database.gauge(&["export", &id, file.to_str().expect("UTF-8")]);
        assert_eq!((code, text.as_str()), (0, ""));
    }
    let lines = std::fs::read_to_string(csv).expect("a file");
    assert_eq!((lines.lines().count(), lines.starts_with("id,round,")), (49, true));
    let other = Database::sqlite();
    let (code, text) = other.gauge(&["import", folder.path().to_str().expect("UTF-8"), "/nowhere"]);
    assert!(code == 66 && text.contains("/nowhere") && text.contains(&id), "{code} {text}");
    assert!(other.open().load(&id).expect("stored").results == campaign());
}

/// The columns that users of the ingestion services' history query.
#[test]
fn the_tables_have_what_was_measured() {
    for database in Database::both("tables") {
        database.open().put(&campaign(), &directory()).expect("stored");
        let count = |sql: &str| database.query(sql).concat();
        let complete = "SELECT COUNT(*) FROM test_runs r JOIN performance_metrics m ON m.run_id = r.id WHERE r.api <> '' AND r.workload <> '' AND r.mode = '-' \
             AND r.payload IS NULL AND r.protocol = 'HTTP/1.1' AND r.status = 'done' AND r.ended_unix_ms > r.started_unix_ms + 3000 \
             AND m.total_requests = m.successful_requests + m.failed_requests AND m.throughput > 0 AND m.min_ms < m.p50_ms AND m.p50_ms < m.p90_ms \
             AND m.p90_ms < m.p95_ms AND m.p95_ms < m.p99_ms AND m.p99_ms < m.max_ms AND m.mean_ms > 0 AND m.error_rate = 0 AND m.histogram LIKE 'HISTF%'";
        assert_eq!(count(complete), "48");
        assert_eq!(
            count("SELECT COUNT(*) FROM performance_metrics WHERE cpu_us_per_request > 0 AND memory_bytes > 0"),
            "40"
        );
        let resources = "SELECT COUNT(DISTINCT run_id) FROM resource_metrics WHERE part = 'system' AND cpu_percent > 0 AND memory_bytes > 0";
        assert_eq!(count(resources), "40", "all but the baseline");
        assert_eq!(
            count("SELECT COUNT(*) FROM test_phases WHERE name = 'warm-up' AND target_users = 8 AND requests > 0"),
            "48"
        );
        let phases = "SELECT COUNT(*) FROM test_phases WHERE position = 1 AND ABS(cpu_percent_per_request - cpu_percent * duration_s / requests) < 1e-9 \
             AND ABS(memory_mb_per_request - memory_bytes / 1e6 * duration_s / requests) < 1e-9";
        assert_eq!(count(phases), "40");
        let environment = "SELECT COUNT(*) FROM campaigns WHERE environment LIKE '%Xeon%' AND host <> ''";
        assert_eq!(count(environment), "1");
    }
}

/// A campaign of which everything is null that can be.
#[test]
fn what_was_not_measured_is_null() {
    let mut bare = small(campaign());
    for trial in &mut bare.trials {
        (trial.started_unix_ms, trial.observed) = (None, None);
        if trial.system == "weir" {
            (trial.report, trial.state) = (None, TrialState::Failed("it ended".to_owned()));
        } else if let Some(report) = &mut trial.report {
            report.total = gauge::results::report::Measurement::default();
            report.phases.iter_mut().for_each(|phase| phase.total = report.total.clone());
            (report.started_unix_ms, report.generator.protocol) = (None, None);
        }
    }
    for database in Database::both("bare") {
        let history = database.open();
        // Beside one with all of it: the same statements have numbers and nulls in the same places.
        history.put(&later(campaign(), 1), Path::new("/full")).expect("stored");
        let id = history.put(&bare, Path::new("/bare")).expect("stored");
        assert!(history.load(&id).expect("there").results == bare);
        let (code, list) = database.gauge(&["list", "--api", "weir"]);
        assert!(code == 0 && list.contains("failed") && list.contains("0 of 1"), "{list}");
    }
}

#[test]
fn a_campaign_without_trials_is_listed() {
    let life = Results { trials: Vec::new(), ..campaign() };
    for database in Database::both("life") {
        database.open().put(&life, Path::new("/life")).expect("stored");
        let (_, list) = database.gauge(&["list"]);
        assert!(list.lines().count() == 2 && list.contains("bodies"), "{list}");
        assert!(database.gauge(&["list", "--api", "weir"]).1.contains("no such runs"));
    }
}

#[test]
fn a_cleanup_removes_what_it_said_and_all_that_belongs_to_it() {
    for database in Database::both("cleanup") {
        let history = database.open();
        let ids: Vec<String> = (0..4)
            .map(|day| history.put(&later(small(campaign()), day - 30), Path::new("/x")).expect("stored"))
            .collect();
        // A system that only the oldest campaign has keeps its one run.
        let mut rare = later(small(campaign()), -30);
        rare.name = "rare".to_owned();
        rare.trials.retain(|trial| trial.system == "fiber");
        rare.trials.iter_mut().for_each(|trial| trial.system = "rare".to_owned());
        let rare = history.put(&rare, Path::new("/x")).expect("stored");
        let before = database.query("SELECT COUNT(*) FROM test_runs");
        let (code, dry) = database.gauge(&["cleanup", "--keep", "3"]);
        assert!(code == 0 && dry.contains("6 runs would be removed") && dry.contains(&ids[0]), "{dry}");
        assert_eq!(database.query("SELECT COUNT(*) FROM test_runs"), before, "a dry run removes nothing");
        let (code, done) = database.gauge(&["cleanup", "--keep", "3", "--execute"]);
        assert!(code == 0 && done.contains("6 runs removed"), "{done}");
        assert_eq!(database.query("SELECT COUNT(*) FROM campaigns").concat(), "4");
        assert!(history.load(&rare).is_ok() && history.load(&ids[0]).is_err());
        let removed = history.clean_up(Cleanup::Newer(std::time::Duration::ZERO), true).expect("removed");
        assert_eq!(removed.iter().map(|one| one.runs).sum::<u64>(), 19);
        for table in ["campaigns", "test_runs", "performance_metrics", "resource_metrics", "test_phases"] {
            assert_eq!(database.query(&format!("SELECT COUNT(*) FROM {table}")).concat(), "0", "{table}");
        }
        assert_eq!(database.gauge(&["cleanup"]).0, 64, "neither --days nor --keep");
    }
}

#[test]
fn a_later_schema_and_a_foreign_file_are_refused() {
    for database in Database::both("later_schema") {
        database.open();
        database.query("INSERT INTO gauge_schema (version) VALUES (99)");
        let (code, text) = database.gauge(&["list"]);
        assert!(code == 69 && text.contains("use a later gauge"), "{code} {text}");
    }
    let database = Database::sqlite();
    std::fs::write(&database.store, "name: weir\n".repeat(100)).expect("a file");
    let (code, text) = database.gauge(&["list"]);
    assert!(code == 69 && text.contains("not an SQLite database"), "{code} {text}");
    let foreign = Database::postgres("foreign");
    foreign.query("CREATE TABLE test_runs (id BIGINT)");
    let (code, text) = foreign.gauge(&["list"]);
    assert!(code == 69 && text.contains("not gauge's"), "{code} {text}");
    assert_eq!(foreign.open_error(), foreign.open_error());
    assert_eq!(foreign.query("SELECT COUNT(*) FROM pg_tables WHERE tablename = 'campaigns'").concat(), "0");
}

impl Database {
    fn open_error(&self) -> String {
        self.gauge(&["summary"]).1
    }
}

#[test]
fn a_password_is_never_shown() {
    let database = Database::at("postgres://me:hunter2@127.0.0.1:1/x?password=hunter2");
    let (code, text) = database.gauge(&["list"]);
    assert!(code == 69 && text.contains("127.0.0.1:1/x") && !text.contains("hunter2"), "{code} {text}");
}

#[test]
fn nothing_is_listed_of_an_empty_history() {
    let database = Database::sqlite();
    let history = database.open();
    assert!(history.list(&Filter::default()).expect("read").is_empty());
}
