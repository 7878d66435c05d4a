//! Programs that are killed while they write.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use gauge::history::{Filter, Recorder};
use gauge::results::{Results, Trial, TrialState};

use super::database::{Database, campaign, later, small};

const STORE: &str = "GAUGE_TEST_STORE";
const DAY: &str = "GAUGE_TEST_DAY";
const CAMPAIGN: &str = "GAUGE_TEST_CAMPAIGN";

/// Not a test by itself: the program that is killed. Stores campaigns as `gauge run` does, without end.
#[test]
#[ignore = "runs until it is killed; started by the test below"]
fn store_campaigns_until_killed() {
    let (Ok(store), Ok(day), Ok(path)) = (std::env::var(STORE), std::env::var(DAY), std::env::var(CAMPAIGN)) else {
        return;
    };
    let target = gauge::history::Target::find(Some(&store)).expect("a store").expect("not none");
    let all = gauge::report::from_json(&std::fs::read_to_string(path).expect("a file")).expect("a campaign");
    for day in day.parse::<i64>().expect("a number").. {
        let all = later(all.clone(), day);
        let history = gauge::history::History::open(&target).unwrap_or_else(|error| panic!("{error}"));
        let mut recorder = Recorder::new(history, Path::new("/killed"));
        recorder.begin(&Results { trials: Vec::new(), ended_unix_ms: None, ..all.clone() });
        println!("stored");
        for trial in &all.trials {
            recorder.trial(&Trial { state: TrialState::Warming, report: None, observed: None, ..trial.clone() });
            recorder.trial(trial);
        }
        assert!(recorder.failed().is_none(), "{:?}", recorder.failed());
        recorder.end(&all).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Kills it at a random moment, which is somewhere in the second campaign or near it.
fn kill(database: &Database, file: &Path, day: usize) {
    let program = std::env::current_exe().expect("this program");
    let name = "history::killed::store_campaigns_until_killed";
    let mut command = Command::new(program);
    command
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env(STORE, &database.store)
        .env(DAY, day.to_string())
        .env(CAMPAIGN, file);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let stored = lines.by_ref().map_while(Result::ok).find(|line| line.contains("stored"));
    assert!(stored.is_some(), "it ended by itself");
    // This is what is tested: any moment.
    std::thread::sleep(Duration::from_micros(fastrand::u64(0..60_000)));
    process.kill().expect("killed");
    process.wait().expect("ended");
}

fn is_consistent(database: &Database) -> usize {
    let history = database.open();
    let none = |sql: &str| assert_eq!(database.query(sql), [""; 0], "{sql}");
    none("SELECT id FROM campaigns WHERE status NOT IN ('done', 'aborted') OR writer IS NOT NULL");
    none("SELECT id FROM test_runs WHERE status NOT IN ('done', 'aborted')");
    none(
        "SELECT id FROM test_runs WHERE status = 'done' AND (document IS NULL OR id NOT IN (SELECT run_id FROM performance_metrics))",
    );
    none(
        "SELECT id FROM campaigns c WHERE status = 'done' AND (SELECT COUNT(*) FROM test_runs WHERE campaign_id = c.id) <> 6",
    );
    let mut aborted = 0;
    let groups = history.list(&Filter::default()).expect("read");
    let mut ids: Vec<String> = groups.into_iter().map(|group| group.campaign).collect();
    ids.dedup();
    for id in ids {
        let stored = history.load(&id).unwrap_or_else(|error| panic!("{error}"));
        let whole = stored.results.trials.len() == 6;
        assert!(stored.status == "aborted" || whole, "{id}");
        aborted += usize::from(stored.status == "aborted");
    }
    aborted
}

#[test]
fn a_killed_program_leaves_a_consistent_history_that_says_so() {
    let (folder, all) = (tempfile::tempdir().expect("a folder"), small(campaign()));
    let file = folder.path().join("results.json");
    std::fs::write(&file, gauge::report::to_json(&all, &gauge::judgement::judge(&all))).expect("a file");
    for (database, times) in [(Database::sqlite(), 50), (Database::postgres("killed"), 10)] {
        for round in 0..times {
            kill(&database, &file, round * 1000);
            if database.store.contains("://") {
                // The server notices that a client has disconnected when it next reads from it, and takes back what was not committed.
                let waiting = || database.query("SELECT pid FROM pg_stat_activity WHERE state LIKE '%transaction%'");
                testkit::wait::until(testkit::DEADLINE, "transactions of the killed program", || waiting().is_empty());
            } else {
                assert_eq!(database.query("PRAGMA integrity_check"), ["ok"]);
                assert_eq!(database.query("PRAGMA foreign_key_check"), [""; 0]);
            }
        }
        // It is somewhere in a campaign most of the time.
        let aborted = is_consistent(&database);
        assert!(aborted > times / 4, "{aborted} of {times}");
        assert!(database.gauge(&["list", "--limit", "1000"]).1.contains("aborted"));
        assert!(database.gauge(&["summary"]).0 == 0);
    }
}

#[test]
fn what_runs_is_not_taken_for_killed_and_the_same_command_completes_it() {
    for database in Database::both("goes_on") {
        let all = small(campaign());
        let half = Results { trials: all.trials[..3].to_vec(), ended_unix_ms: None, ..all.clone() };
        let mut recorder = Recorder::new(database.open(), Path::new("/x"));
        recorder.begin(&half);
        let status = || database.query("SELECT status FROM campaigns").concat();
        let (code, list) = database.gauge(&["list"]);
        assert!(code == 0 && list.contains("running") && status() == "running", "{list}");
        assert!(database.gauge(&["cleanup", "--days", "0", "--execute"]).1.starts_with("0 runs"), "what runs is kept");
        // Stopped in order.
        recorder.end(&half).expect("stored");
        assert_eq!(status(), "aborted");
        // The same campaign goes on with what its files have.
        let mut recorder = Recorder::new(database.open(), Path::new("/x"));
        recorder.begin(&half);
        assert_eq!(status(), "running");
        all.trials[3..].iter().for_each(|trial| recorder.trial(trial));
        recorder.end(&all).expect("stored");
        assert_eq!(
            (status().as_str(), database.query("SELECT COUNT(*) FROM test_runs").concat().as_str()),
            ("done", "6")
        );
    }
}
