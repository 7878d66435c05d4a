//! Several programs, and many runs.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

use gauge::history::Filter;

use super::database::{Database, campaign, directory, later, said, small};

#[test]
fn programs_that_begin_at_once_make_one_schema_and_lose_nothing() {
    const PROGRAMS: usize = 8;
    let dir = directory();
    for database in Database::both("at_once") {
        let folders: Vec<_> = (0..PROGRAMS)
            .map(|day| {
                let folder = tempfile::tempdir().expect("a folder");
                let results = later(small(campaign()), day as i64);
                let json = gauge::report::to_json(&results, &gauge::judgement::judge(&results));
                std::fs::write(folder.path().join("results.json"), json).expect("a file");
                folder
            })
            .collect();
        let start = |folder: &Path| {
            let mut command =
                database.command(&["import", folder.to_str().expect("UTF-8"), dir.to_str().expect("UTF-8")]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("gauge starts")
        };
        let running: Vec<Child> = folders.iter().map(|folder| start(folder.path())).collect();
        for child in running {
            let (code, text) = said(&child.wait_with_output().expect("it ends"));
            assert_eq!(code, 0, "{text}");
        }
        // The first of the folders is the committed campaign with one round: whoever came last stored it.
        assert_eq!(database.query("SELECT COUNT(*) FROM gauge_schema").concat(), "3");
        assert_eq!(database.query("SELECT COUNT(*) FROM campaigns").concat(), PROGRAMS.to_string());
        let others =
            "SELECT COUNT(*) FROM campaigns c WHERE (SELECT COUNT(*) FROM test_runs t WHERE t.campaign_id = c.id) = 6";
        assert!(database.query(others).concat().parse::<usize>().expect("a number") >= PROGRAMS - 1);
    }
}

/// `cargo test -p gauge --test history -- --ignored --nocapture thousand`, in release: times are printed and not asserted.
#[test]
#[ignore = "a measurement"]
fn lists_of_a_thousand_runs() {
    for database in Database::both("thousand") {
        let history = database.open();
        for day in 0..1_008 / 48 {
            history.put(&later(campaign(), day), Path::new("/x")).expect("stored");
        }
        assert_eq!(history.list(&Filter::default()).expect("read").iter().map(|group| group.runs).sum::<u32>(), 1_008);
        let lists: [&[&str]; 6] = [
            &["list"],
            &["list", "--api", "weir", "--limit", "1000"],
            &["list", "--limit", "1000"],
            &["summary"],
            &["summary", "--comparison"],
            &["trend", "weir", "p99"],
        ];
        for arguments in lists {
            let start = Instant::now();
            assert_eq!(database.gauge(arguments).0, 0);
            println!("{}: {arguments:?}: {:?}", database.store, start.elapsed());
        }
    }
}
