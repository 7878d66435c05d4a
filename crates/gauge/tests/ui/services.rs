//! From a description to a run of services, and what a form cannot start.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use testkit::wait;

use super::server::{Received, Ui};
use crate::database::Database;

const DESCRIPTION: &str = include_str!("../../../../examples/evaluations/demo.openapi.yaml");

/// Two instances of the demonstration, and one that is never chosen.
const SERVICES: &str = r#"name: demos
api: demo.openapi.yaml
systems:
  - name: plain
    command: ["{gauge}", demo, --listen, "{address}:{http}"]
    env: {SHOP_PASSWORD: "do not show: me"}
    ports: &ports {http: "http://127.0.0.1:8090"}
    ready: "http://{address}:{http}/healthz"
  - name: cacheable
    command: ["{gauge}", demo, --listen, "{address}:{http}", --cache-control, max-age=60]
    ports: *ports
    ready: "tcp://{address}:{http}"
  - {name: absent, command: [no-such-program, "do not show: me"], ports: *ports}
before_each:
  - {run: [sh, -c, 'echo "$1" >> before', sh, "{system}"]}
  - {send: addItem}
repeats: 1
warmup: 100ms
workloads:
  - {name: write, operations: [{id: addItem, body: {event: default}}], load: {closed: {users: 2, duration: 500ms}}}
"#;

const FROM: &str = "shop/services.yaml";
const EVALUATION: &str = "drafts/demos/evaluation.yaml";

/// A form that is accepted; `change` replaces all fields of a name.
fn form(csrf: &str, change: &[(&'static str, &'static str)]) -> Vec<(&'static str, String)> {
    let usual = [
        ("from", FROM),
        ("system", "plain"),
        ("system", "cacheable"),
        ("load", "smoke"),
        ("payload", "default"),
        ("payload", "4k"),
        ("bytes", ""),
        ("rounds", "1"),
    ];
    let kept = usual.into_iter().filter(|(name, _)| !change.iter().any(|(other, _)| other == name));
    let all = kept.chain(change.iter().copied()).filter(|(_, value)| *value != "-");
    let mut fields: Vec<_> = all.map(|(name, value)| (name, value.to_owned())).collect();
    fields.push(("csrf", csrf.to_owned()));
    fields
}

fn send(ui: &Ui, path: &str, fields: &[(&'static str, String)]) -> Received {
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    ui.post(path, &fields)
}

fn choose(ui: &Ui, change: &[(&'static str, &'static str)]) -> Received {
    send(ui, "/new/demos/services", &form(&ui.csrf(), change))
}

/// With the evaluation in its folder, and a draft.
fn prepare(ui: &Ui) {
    let shop = ui.folder.path().join("shop");
    fs::create_dir(&shop).expect("a folder");
    fs::write(shop.join("services.yaml"), SERVICES).expect("a file");
    fs::write(shop.join("demo.openapi.yaml"), DESCRIPTION).expect("a file");
    let response = ui.upload("Demos", DESCRIPTION);
    assert_eq!(response.field("location"), Some("/new/demos"), "{}", response.body);
}

#[test]
fn services_of_the_folder_are_chosen_started_and_watched_to_the_end() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[]);
    prepare(&ui);
    assert!(ui.get("/new/demos").body.contains("href=\"/new/demos/services\""));
    let page = ui.get("/new/demos/services").body;
    for shown in
        ["value=\"plain\" checked", "value=\"absent\" checked", "value=\"saturation\"", "value=\"64k\"", "Continue"]
    {
        assert!(page.contains(shown), "no `{shown}` in {page}");
    }
    let response = choose(&ui, &[]);
    let location = response.field("location").unwrap_or_else(|| panic!("{}", response.body)).to_owned();
    assert_eq!(location, "/evaluations/show?file=drafts%2Fdemos%2Fevaluation.yaml");
    let confirm = ui.get(&location).body;
    for shown in [
        "plain, cacheable, plain (control)",
        "addItem default",
        "addItem 4k",
        "6 trials",
        "5 starts of systems",
        "before each trial",
        "Start</button>",
    ] {
        assert!(confirm.contains(shown), "no `{shown}` in {confirm}");
    }
    assert!(!confirm.contains("no-such-program"), "it was not chosen");
    let made = ui.folder.path().join(EVALUATION);
    assert_eq!(fs::metadata(&made).expect("a file").permissions().mode() & 0o777, 0o600, "it may have secrets");
    // The form is as it was sent, when it is opened once more.
    let again = ui.get("/new/demos/services").body;
    assert!(again.contains("value=\"plain\" checked") && !again.contains("value=\"absent\" checked"), "{again}");
    for page in [&page, &confirm, &again] {
        assert!(!page.contains("do not show"), "{page}");
    }

    let csrf = ui.csrf();
    let response = ui.post("/evaluations/show", &[("csrf", &csrf), ("file", EVALUATION)]);
    let started = response.field("location").unwrap_or_else(|| panic!("{}", response.body)).to_owned();
    assert_eq!(started, "/started/demos-1");
    let end = wait::some(Duration::from_secs(120), "its end", || {
        let page = ui.get(&started).body;
        page.contains("Results of this run").then_some(page)
    });
    let (_, rest) = end.split_once("href=\"/runs/").expect("a link");
    let id = rest.split('"').next().unwrap_or_default();
    let results = ui.get(&format!("/runs/{id}")).body;
    for shown in ["Demos", "plain", "cacheable", "addItem 4k"] {
        assert!(results.contains(shown), "no `{shown}` in {results}");
    }
    assert!(!results.contains("absent") && !results.contains("do not show"), "{results}");
    assert_eq!(ui.get(&format!("/compare?a={id}&b={id}")).status, 200);
    assert!(ui.get("/runs?system=cacheable").body.contains("Demos"));
    // Commands ran where the evaluation is that names them.
    let before = fs::read_to_string(ui.folder.path().join("shop/before")).expect("what ran before each trial");
    assert!(before.contains("plain") && before.contains("cacheable"), "{before}");
}

#[test]
fn the_description_of_an_evaluation_can_be_chosen_instead_of_a_file() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[]);
    prepare(&ui);
    assert!(ui.get("/new").body.contains("<option value=\"shop/services.yaml\">"));
    let csrf = ui.csrf();
    let upload = |name: &str, from: &str| ui.post("/new", &[("csrf", &csrf), ("name", name), ("evaluation", from)]);
    let response = upload("Own", FROM);
    assert_eq!(response.field("location"), Some("/new/own/services?from=shop%2Fservices.yaml"), "{}", response.body);
    assert!(ui.get("/new/own/services?from=shop%2Fservices.yaml").body.contains("Continue"));
    assert_eq!(fs::read_to_string(ui.folder.path().join("drafts/own/description")).expect("a file"), DESCRIPTION);
    for from in ["../services.yaml", "/etc/passwd", "shop/demo.openapi.yaml", "no.yaml"] {
        assert_eq!(upload("Other", from).status, 404, "{from}");
    }
    let both = ui.post("/new", &[("csrf", &csrf), ("name", "Other"), ("evaluation", FROM), ("demo", "yes")]);
    assert_eq!(both.status, 422);
    assert!(!ui.folder.path().join("drafts/other").exists());
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[]);
    prepare(&ui);
    let made = ui.folder.path().join(EVALUATION);
    for (change, expected) in [
        (&[("system", "-")][..], "Choose at least one system"),
        (&[("system", "other")], "is not a system of"),
        (&[("system", "plain (control)")], "is not a system of"),
        (&[("system", "plain\n  - {command: [touch, x]}")], "is not a system of"),
        (&[("load", "huge")], "is not a load"),
        (&[("load", "smoke\nrepeats: 3")], "is not a load"),
        (&[("load", "-")], "is not a load"),
        (&[("payload", "5k")], "is not a payload"),
        (&[("payload", "4k}, command: [touch, x]")], "is not a payload"),
        (&[("bytes", "319")], "from 320 to 1048576"),
        (&[("bytes", "4e3")], "from 320 to 1048576"),
        (&[("rounds", "0")], "from 1 to 100"),
        (&[("rounds", "101")], "from 1 to 100"),
        (&[("rounds", "-")], "from 1 to 100"),
    ] {
        let response = choose(&ui, change);
        assert_eq!(response.status, 422, "{change:?}");
        let (_, alert) = response.body.split_once("role=\"alert\">").expect("a reason");
        assert!(alert.split("</p>").next().is_some_and(|why| why.contains(expected)), "{expected}: {alert}");
        assert!(response.body.contains("Continue"), "the form is shown with what was sent");
    }
    assert!(!made.exists());
    assert_eq!(choose(&ui, &[]).status, 303);
    let before = fs::read_to_string(&made).expect("an evaluation");
    assert_eq!(choose(&ui, &[("rounds", "0")]).status, 422);
    assert_eq!(fs::read_to_string(&made).expect("an evaluation"), before);
    let left = fs::read_dir(ui.folder.path().join("drafts/demos")).expect("a folder").count();
    assert_eq!(left, 3, "a description, what was chosen, and the evaluation");
}

#[test]
fn only_programs_of_the_folder_can_be_chosen() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[]);
    prepare(&ui);
    let outside = tempfile::tempdir().expect("a folder");
    let mark = outside.path().join("ran");
    let evil = SERVICES.replace("[no-such-program, \"do not show: me\"]", &format!("[touch, '{}']", mark.display()));
    fs::write(outside.path().join("evil.yaml"), &evil).expect("a file");
    fs::write(outside.path().join("demo.openapi.yaml"), DESCRIPTION).expect("a file");
    let folder = ui.folder.path();
    symlink(outside.path().join("evil.yaml"), folder.join("link.yaml")).expect("a link");
    symlink(outside.path(), folder.join("linked")).expect("a link");
    let csrf = ui.csrf();
    let absolute = outside.path().join("evil.yaml").to_string_lossy().into_owned();
    for from in [
        "link.yaml",
        &absolute,
        "linked/evil.yaml",
        "../evil.yaml",
        "shop/../../evil.yaml",
        "",
        "-x",
        "shop",
        "no.yaml",
        "\0",
    ] {
        let mut fields = form(&csrf, &[("from", "-")]);
        fields.push(("from", from.to_owned()));
        assert_eq!(send(&ui, "/new/demos/services", &fields).status, 404, "{from}");
        let encoded: String = from.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let status = ui.get(&format!("/new/demos/services?from={encoded}")).status;
        assert_eq!(status, if from.is_empty() { 200 } else { 404 }, "{from}");
    }
    let page = ui.get("/new/demos/services").body;
    assert!(!page.contains("link.yaml") && !page.contains("linked"), "{page}");

    // What a form says of commands is not read.
    let mut fields = form(&csrf, &[]);
    let command = format!("touch {}", mark.display());
    for name in ["command", "systems", "env", "cwd", "build", "folder", "api", "name", "before_each"] {
        fields.push((name, command.clone()));
    }
    assert_eq!(send(&ui, "/new/demos/services", &fields).status, 303);
    let made = fs::read_to_string(folder.join(EVALUATION)).expect("an evaluation");
    assert!(!made.contains("touch"), "{made}");
    // A draft is no source for another one.
    assert_eq!(choose(&ui, &[("from", EVALUATION)]).status, 422);

    // A draft that is a link to somewhere else is none.
    fs::create_dir(outside.path().join("draft")).expect("a folder");
    fs::write(outside.path().join("draft/description"), DESCRIPTION).expect("a file");
    symlink(outside.path().join("draft"), folder.join("drafts/away")).expect("a link");
    for path in ["/new/away", "/new/away/services", "/new/../services", "/new/no/services", "/new/%2e%2e/services"] {
        assert_eq!(ui.get(path).status, 404, "{path}");
    }
    assert_eq!(send(&ui, "/new/away/services", &form(&csrf, &[])).status, 404);
    assert!(!outside.path().join("draft/evaluation.yaml").exists() && !mark.exists());
}

#[test]
fn a_form_of_another_page_is_refused() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[]);
    prepare(&ui);
    for csrf in ["", "0000"] {
        assert_eq!(send(&ui, "/new/demos/services", &form(csrf, &[])).status, 403, "`{csrf}`");
    }
    let fields: Vec<String> = form(&ui.csrf(), &[]).iter().map(|(name, value)| format!("{name}={value}")).collect();
    let body = fields.join("&");
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    for field in [("Origin", "http://evil.example"), ("Sec-Fetch-Site", "cross-site")] {
        assert_eq!(ui.raw("POST", "/new/demos/services", &[kind, field], body.as_bytes()).status, 403, "{field:?}");
    }
    assert!(!ui.folder.path().join(EVALUATION).exists());
    assert_eq!(ui.raw("POST", "/new/demos/services", &[kind], body.as_bytes()).status, 303, "only the fields differ");
}

#[test]
fn an_evaluation_that_does_not_fit_the_description_is_named_with_the_reason() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[]);
    prepare(&ui);
    let shop = ui.folder.path().join("shop");
    let other = DESCRIPTION.replace("  /items:\n", "  /things:\n");
    assert_eq!(ui.upload("Paths", &other).status, 303);
    assert_eq!(ui.upload("Servers", &DESCRIPTION.replace(":8090", ":8091")).status, 303);
    assert_eq!(ui.upload("Fewer", &DESCRIPTION.replace("operationId: addItem", "operationId: put")).status, 303);
    let csrf = ui.csrf();
    for (draft, expected) in [
        ("paths", "is POST http://127.0.0.1:8090/things in the description"),
        ("servers", "is POST http://127.0.0.1:8091/items in the description"),
        ("fewer", "has no operation `addItem`"),
    ] {
        let path = format!("/new/{draft}/services");
        assert!(ui.get(&path).body.contains(expected), "{expected}");
        let response = send(&ui, &path, &form(&csrf, &[]));
        assert!(response.status == 422 && response.body.contains(expected), "{expected}: {}", response.body);
    }
    fs::write(shop.join("broken.yaml"), SERVICES.replace("demo.openapi.yaml", "none.yaml")).expect("a file");
    fs::write(shop.join("gateways.yaml"), "name: g\napi: demo.openapi.yaml\ngateways: [nginx]\nworkloads: []\n")
        .expect("a file");
    let page = ui.get("/new/demos/services").body;
    assert!(page.contains("shop/broken.yaml") && page.contains("none.yaml"), "what is wrong is said: {page}");
    assert!(!page.contains("gateways.yaml"), "{page}");
    assert_eq!(choose(&ui, &[("from", "shop/broken.yaml")]).status, 422);
    assert_eq!(choose(&ui, &[("from", "shop/gateways.yaml")]).status, 422);
    fs::remove_file(shop.join("services.yaml")).expect("a file");
    assert_eq!(choose(&ui, &[]).status, 404, "it was removed since");
}
