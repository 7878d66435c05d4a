//! From a description to a run, and what cannot be started.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use testkit::wait;

use super::server::Ui;
use crate::database::Database;

/// A gateway is not needed to see a run: one that is not installed is named, and the baseline is measured.
const CHOICES: [(&str, &str); 9] = [
    ("gateway", "nginx"),
    ("operation", "getItem"),
    ("upstream", "demo"),
    ("load", "closed"),
    ("users", "2"),
    ("seconds", "1"),
    ("rounds", "1"),
    ("place", "local"),
    ("host", ""),
];

fn start(ui: &Ui, seconds: &str) -> String {
    let description = include_str!("../../../../examples/evaluations/demo.openapi.yaml");
    let response = ui.upload("My shop", description);
    assert_eq!((response.status, response.field("location")), (303, Some("/new/my-shop")), "{}", response.body);
    assert!(ui.get("/new/my-shop").body.contains("GET /items/{id}"));
    let csrf = ui.csrf();
    let mut choices = CHOICES.map(|(name, value)| (name, if name == "seconds" { seconds } else { value })).to_vec();
    choices.push(("csrf", &csrf));
    let response = ui.post("/new/my-shop", &choices);
    let location = response.field("location").unwrap_or_else(|| panic!("{}", response.body)).to_owned();
    assert_eq!(location, "/evaluations/show?file=drafts%2Fmy-shop%2Fevaluation.yaml");
    assert!(ui.get(&location).body.contains("Start</button>"));
    let response = ui.post("/evaluations/show", &[("csrf", &csrf), ("file", "drafts/my-shop/evaluation.yaml")]);
    let location = response.field("location").unwrap_or_else(|| panic!("{}", response.body)).to_owned();
    assert_eq!(location, "/started/my-shop-1");
    location
}

#[test]
fn a_description_becomes_a_run_that_can_be_watched_to_its_end() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[]);
    let started = start(&ui, "1");
    let again = ui.post("/evaluations/show", &[("csrf", &ui.csrf()), ("file", "drafts/my-shop/evaluation.yaml")]);
    assert_eq!(again.status, 409, "two runs would measure each other");
    let page = wait::some(Duration::from_secs(120), "its end", || {
        let page = ui.get(&started).body;
        page.contains("Results of this run").then_some(page)
    });
    assert!(page.contains("It has ended"), "{page}");
    assert!(!page.contains("data-live"), "it is not refreshed any more");
    let (_, rest) = page.split_once("href=\"/runs/").expect("a link");
    let id = rest.split('"').next().unwrap_or_default();
    let results = ui.get(&format!("/runs/{id}")).body;
    assert!(results.contains("My shop") && results.contains("direct"), "{results}");
    let events = fs::read_to_string(ui.folder.path().join("results/my-shop-1/events.jsonl")).expect("events");
    for event in ["\"event\":\"begun\"", "\"event\":\"moment\"", "\"state\":\"done\"", "\"complete\":true"] {
        assert!(events.contains(event), "no {event} in {events}");
    }
}

#[test]
fn a_run_is_stopped_in_order_by_its_button_and_by_the_end_of_the_program() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[]);
    let started = start(&ui, "600");
    let events = || fs::read_to_string(ui.folder.path().join("results/my-shop-1/events.jsonl")).unwrap_or_default();
    wait::until(Duration::from_secs(60), "load", || events().contains("\"event\":\"moment\""));
    let live = ui.get(&started).body;
    assert!(live.contains("aria-label=\"Rate: responses/s") && live.contains("data-live"), "{live}");
    let csrf = ui.csrf();
    assert_eq!(ui.post(&format!("{started}/stop"), &[("csrf", &csrf)]).status, 303);
    wait::until(Duration::from_secs(60), "its end", || ui.get(&started).body.contains("It was stopped"));
    assert!(events().contains("\"complete\":false"));

    let response = ui.post("/evaluations/show", &[("csrf", &csrf), ("file", "drafts/my-shop/evaluation.yaml")]);
    assert_eq!(response.field("location"), Some("/started/my-shop-2"));
    let second = ui.folder.path().join("results/my-shop-2/events.jsonl");
    wait::until(Duration::from_secs(60), "load", || {
        fs::read_to_string(&second).unwrap_or_default().contains("\"event\":\"moment\"")
    });
    assert_eq!(ui.interrupt().code(), Some(0));
    assert!(fs::read_to_string(&second).expect("events").contains("\"complete\":false"), "it was told and waited for");
}

#[test]
fn a_broken_description_is_refused_with_the_reason_and_leaves_nothing() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[]);
    for (text, expected) in [
        ("openapi: 3.1.0\npaths: [", "cannot be used"),
        ("openapi: 3.1.0\ninfo: {title: a, version: '1'}\npaths: {}\n", "cannot be used"),
        ("\u{0}\u{1}", "cannot be used"),
        ("openapi: 3.1.0\ninfo: {title: a, version: '1'}\npaths: {/a: {$ref: '/etc/passwd'}}\n", "cannot be used"),
    ] {
        let response = ui.upload("Broken", text);
        assert_eq!(response.status, 422, "{}", response.body);
        assert!(response.body.contains(expected) && !response.body.contains("root:x"), "{}", response.body);
    }
    assert_eq!(ui.upload("...", "{}").status, 422, "no name");
    let large = "x".repeat(9 << 20);
    assert_eq!(ui.upload("Large", &large).status, 413);
    let left: Vec<_> = fs::read_dir(ui.folder.path().join("drafts")).into_iter().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    for key in ["..", "%2e%2e", "no", "..%2f..", ".new-x"] {
        assert!(matches!(ui.get(&format!("/new/{key}")).status, 404 | 422), "{key}");
    }
}

#[test]
fn only_evaluations_of_the_folder_start() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[]);
    let outside = tempfile::tempdir().expect("a folder");
    let mark = outside.path().join("ran");
    let text = format!(
        "name: x\napi: api.yaml\ngateways: [nginx]\nbackend: {{command: [touch, '{}'], ports: {{http: ''}}}}\nworkloads: []\n",
        mark.display()
    );
    fs::write(outside.path().join("evil.yaml"), &text).expect("a file");
    symlink(outside.path().join("evil.yaml"), ui.folder.path().join("link.yaml")).expect("a link");
    symlink(outside.path(), ui.folder.path().join("linked")).expect("a link");
    fs::write(ui.folder.path().join("notes.yaml"), "a: 1\n").expect("a file");
    let csrf = ui.csrf();
    let absolute = outside.path().join("evil.yaml").to_string_lossy().into_owned();
    for file in ["../evil.yaml", &absolute, "link.yaml", "linked/evil.yaml", "notes.yaml", "", "-x", ".", "no.yaml"] {
        assert_eq!(ui.post("/evaluations/show", &[("csrf", &csrf), ("file", file)]).status, 404, "{file}");
    }
    let page = ui.get("/evaluations").body;
    assert!(!page.contains("linked") && !page.contains(".yaml"), "{page}");
    assert!(!mark.exists());
}

#[test]
fn a_host_that_could_be_an_option_of_ssh_is_refused() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[]);
    let description = include_str!("../../../../examples/evaluations/demo.openapi.yaml");
    assert_eq!(ui.upload("Ssh", description).status, 303);
    let csrf = ui.csrf();
    for (host, user) in [("-oProxyCommand=touch x", ""), ("", ""), ("host", "-x"), ("a b", "")] {
        let mut choices: Vec<_> =
            CHOICES.iter().copied().filter(|(name, _)| !["host", "place"].contains(name)).collect();
        choices.extend([("place", "ssh"), ("host", host), ("user", user), ("csrf", &csrf)]);
        let response = ui.post("/new/ssh", &choices);
        assert_eq!(response.status, 422, "{host} {user}");
        assert!(response.body.contains("role=\"alert\""), "the form is shown again with the reason");
    }
    assert!(!ui.folder.path().join("drafts/ssh/evaluation.yaml").exists());
}

#[test]
fn configuration_files_of_every_gateway_can_be_downloaded() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[]);
    let description = include_str!("../../../../examples/evaluations/demo.openapi.yaml");
    assert_eq!(ui.upload("Files", description).status, 303);
    let all = ui.get("/new/files/all").body;
    for gateway in gauge::gateway::all() {
        assert!(all.contains(&format!("<h2>{}</h2>", gateway.title())), "{}", gateway.name());
    }
    let file = ui.get("/new/files/nginx/nginx.conf");
    assert_eq!(file.field("content-disposition"), Some("attachment; filename=\"nginx.conf\""));
    assert!(file.body.contains("worker_processes"), "{}", file.body);
    let tar = ui.get("/new/files/all?tar=1");
    assert_eq!(tar.field("content-type"), Some("application/x-tar"));
    assert!(tar.body.contains("haproxy/haproxy.cfg"));
    assert_eq!(ui.get("/new/files/none").status, 404);
    assert_eq!(ui.get("/new/files/nginx/../../x").status, 404);
}
