//! Pages over both databases.

use std::path::Path;
use std::time::Instant;

use super::server::Ui;
use crate::database::{Database, campaign, later, slower, small};

#[test]
fn every_page_shows_what_is_stored_and_nothing_else() {
    for database in Database::both("ui_pages") {
        let mut marked = campaign();
        marked.description = Some("<script>alert(1)</script>".to_owned());
        let history = database.open();
        let first = history.put(&marked, Path::new("/nowhere")).expect("stored");
        let second = history.put(&later(slower(campaign(), "weir", 1.5), 1), Path::new("/nowhere")).expect("stored");
        let ui = Ui::start(&database.store, &[]);
        for (path, expected) in [
            ("/".to_owned(), "Latest runs"),
            ("/runs".to_owned(), "1 to 2 of 2"),
            ("/runs?system=weir&state=done&name=BOD".to_owned(), "1 to 2 of 2"),
            ("/runs?name=%25".to_owned(), "No run is as the filter wants it"),
            ("/runs?state=running".to_owned(), "No run is as the filter wants it"),
            (format!("/runs/{first}"), "&lt;script&gt;alert(1)&lt;/script&gt;"),
            (format!("/runs/{}", &first[..6]), "Scores"),
            (format!("/runs/{first}/configurations"), "Download all (tar)"),
            (format!("/runs/{first}/results.csv"), "system,"),
            (format!("/runs/{first}/results.json"), "\"judgement\""),
            (format!("/compare?a={first}&b={second}"), "Worse"),
            (format!("/compare?a={first}&b={first}"), "Same or better"),
            ("/trends?system=weir&metric=p99".to_owned(), "p99_ms under"),
            ("/evaluations".to_owned(), "There is none yet"),
            ("/new".to_owned(), "API description"),
        ] {
            let response = ui.get(&path);
            assert_eq!(response.status, 200, "{path}: {}", response.body);
            assert!(response.body.contains(expected), "{path} has no `{expected}`: {}", response.body);
            let is_page = response.field("content-type").is_some_and(|kind| kind.starts_with("text/html"));
            assert!(!is_page || !response.body.contains("<script>alert"), "{path}");
        }
        let report = ui.get(&format!("/runs/{first}/report"));
        assert!(report.body.contains("&lt;script&gt;alert(1)"), "the report escapes it too");
        let policy = report.field("content-security-policy").expect("a policy");
        assert!(policy.starts_with("sandbox allow-scripts") && !policy.contains("allow-same-origin"), "{policy}");
        for path in [
            "/runs/ffffffffffff",
            "/runs/%27",
            "/trends?metric=no",
            "/no",
            "/compare?a=x&b=y",
            "/started/x",
            "/web/../ui.css",
        ] {
            assert_eq!(ui.get(path).status, 404, "{path}");
        }
    }
}

#[test]
fn long_lists_have_pages() {
    let database = Database::sqlite();
    let history = database.open();
    for day in 0..53 {
        history.put(&later(small(campaign()), day), Path::new("/x")).expect("stored");
    }
    let ui = Ui::start(&database.store, &[]);
    let rows = |path: &str| ui.get(path).body.matches("<th scope=\"row\">").count();
    assert_eq!((rows("/runs"), rows("/runs?page=2"), rows("/runs?page=3")), (50, 3, 0));
    assert!(ui.get("/runs?name=bod").body.contains("/runs?name=bod&amp;page=2"));
}

/// `cargo test -p gauge --test ui -- --ignored --nocapture thousand`: times are printed and not asserted.
#[test]
#[ignore = "a measurement"]
fn pages_over_a_thousand_runs() {
    for database in Database::both("ui_thousand") {
        let history = database.open();
        let mut last = String::new();
        for day in 0..1_000 {
            last = history.put(&later(small(campaign()), day), Path::new("/x")).expect("stored");
        }
        let ui = Ui::start(&database.store, &[]);
        for path in [
            "/",
            "/runs",
            "/runs?page=20",
            "/runs?system=weir",
            "/runs?name=bod",
            "/compare",
            "/trends?system=weir",
            "/evaluations",
        ] {
            ui.get(path);
            let start = Instant::now();
            assert_eq!(ui.get(path).status, 200);
            println!("{}: {path}: {:?}", database.store, start.elapsed());
        }
        let start = Instant::now();
        assert_eq!(ui.get(&format!("/runs/{last}")).status, 200);
        println!("{}: a run: {:?}", database.store, start.elapsed());
    }
}
