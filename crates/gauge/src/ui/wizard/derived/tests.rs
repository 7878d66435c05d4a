use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{Plan, ServiceChoices, Source, evaluation, relative, starts_the_same};
use crate::load::workload::Load;
use crate::plan::{PlannedLoad, Restart};

const API: &str = "openapi: 3.1.0\ninfo: {title: A, version: '1'}\nservers: [{url: 'http://127.0.0.1:9000'}]\npaths:\n  \
    /items: {post: {operationId: add, requestBody: {required: true, content: {application/json: {schema: {type: object}}}}, responses: {}}}\n  \
    /other: {get: {operationId: other, responses: {}}}\n";

const SERVICES: &str = r#"name: services
api: ../api.yaml
backend: {name: store, command: [./store, "{db}"], ports: {db: ""}, restart: round}
systems:
  - name: a
    command: [./a, --port, "{http}"]
    env: &env {RATIO: 1.50, PASSWORD: "secret: 1", DATABASE: "{db}"}
    ports: &ports {http: "http://127.0.0.1:9000"}
    build: {command: [make, a], cwd: ../src}
  - {name: b, command: [./b, "{http}"], env: *env, ports: *ports}
  - {name: c, command: [./c, "{http}"], ports: *ports, language: Go}
before_each:
  - {run: [./empty, "{db}"], prints: 0}
control: c
reference: b
repeats: 10
workloads:
  - {name: small, operations: [{id: add, body: {event: default}}], load: {closed: {users: 4, duration: 3s}}}
  - {name: large, operations: [{id: add, body: {event: 8k}}], load: {closed: {users: 4, duration: 3s}}}
  - {name: other, operations: [{id: other}], load: {open: {rate: 100/s, duration: 2s}}}
"#;

struct Folder(TempDir);

impl Folder {
    fn new(services: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("of/shop")).expect("a folder");
        fs::create_dir_all(folder.path().join("drafts/x")).expect("a folder");
        fs::write(folder.path().join("of/api.yaml"), API).expect("a file");
        fs::write(folder.path().join("drafts/x/description"), API).expect("a file");
        fs::write(folder.path().join("of/shop/services.yaml"), services).expect("a file");
        Folder(folder)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().expect("a folder").join(path)
    }

    fn source(&self) -> Source {
        Source::read("of/shop/services.yaml", &self.path("of/shop/services.yaml")).unwrap_or_else(|why| panic!("{why}"))
    }

    fn text(&self, choices: &ServiceChoices) -> Result<String, String> {
        evaluation(&self.source(), choices, "My: name\nx", &self.path("drafts/x"), &self.path("drafts/x/description"))
    }

    fn plan(&self, choices: &ServiceChoices) -> (Plan, String) {
        let text = self.text(choices).unwrap_or_else(|why| panic!("{why}"));
        let file = self.path("drafts/x/evaluation.yaml");
        fs::write(&file, &text).expect("a file");
        (Plan::read(&file).unwrap_or_else(|error| panic!("{error}\n{text}")), text)
    }
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.systems.iter().map(|system| system.name.as_str()).collect()
}

fn choose(folder: &Folder, change: impl FnOnce(&mut ServiceChoices)) -> ServiceChoices {
    let mut choices = ServiceChoices::of(&folder.source());
    change(&mut choices);
    choices
}

#[test]
fn without_a_choice_the_same_is_run() {
    let folder = Folder::new(SERVICES);
    let choices = choose(&folder, |_| {});
    assert_eq!((choices.load.as_str(), choices.rounds.as_str()), ("own", "10"));
    let (plan, source) = (folder.plan(&choices).0, folder.source().plan);
    assert!(starts_the_same(&source, &plan));
    assert_eq!(names(&plan), names(&source));
    assert_eq!(plan.name, "My: name\nx", "a name is a text, whatever it looks like");
    assert_eq!(plan.folder, source.folder);
    let loads = |plan: &Plan| plan.workloads.iter().map(|workload| workload.load.clone()).collect::<Vec<_>>();
    assert_eq!(loads(&plan), loads(&source));
    let service = plan.systems[0].service().expect("a service");
    assert_eq!(service.env["RATIO"], "1.50");
    assert_eq!(plan.backends[0].restart, Restart::Round);
    assert_eq!(plan.reference.as_deref(), Some("b"));
}

#[test]
fn fewer_systems_run_under_another_load_with_other_payloads() {
    let folder = Folder::new(SERVICES);
    let choices = choose(&folder, |choices| {
        choices.systems = vec!["c".to_owned(), "a".to_owned(), "a".to_owned()];
        choices.load = "short".to_owned();
        choices.payloads = vec!["default".to_owned(), "4k".to_owned()];
        choices.bytes = "4096".to_owned();
        choices.rounds = "3".to_owned();
    });
    let (plan, text) = folder.plan(&choices);
    assert!(starts_the_same(&folder.source().plan, &plan));
    assert_eq!(names(&plan), ["a", "c", "c (control)"]);
    assert_eq!(plan.reference, None, "it named a system that was not chosen");
    assert!(text.contains("# Without `reference`, which names \"b\""), "{text}");
    assert_eq!(plan.repeats, 3);
    // Two workloads differed in the size alone.
    let workloads: Vec<_> =
        plan.workloads.iter().map(|workload| (workload.name.as_str(), workload.payload())).collect();
    let some = |size: &str| Some(size.to_owned());
    assert_eq!(workloads, [("add default", some("default")), ("add 4k", some("4k")), ("other", None)]);
    assert!(plan.workloads.iter().all(|workload| workload.mode == Some("short")));
    let four = |load: &PlannedLoad| matches!(load, PlannedLoad::Fixed(Load::Phases(phases)) if phases.len() == 4);
    assert!(plan.workloads.iter().all(|workload| four(&workload.load)));
}

#[test]
fn workloads_that_differ_in_more_than_the_size_stay_and_have_names_of_their_own() {
    let other = SERVICES.replace("{event: 8k}}], load: {closed: {users: 4", "{event: 8k}}], load: {closed: {users: 8");
    let folder = Folder::new(&other);
    let choices = choose(&folder, |choices| choices.payloads = vec!["32k".to_owned()]);
    let plan = folder.plan(&choices).0;
    let names: Vec<&str> = plan.workloads.iter().map(|workload| workload.name.as_str()).collect();
    assert_eq!(names, ["add 32k", "add 32k (2)", "other"]);
}

#[test]
fn a_control_of_a_system_that_was_not_chosen_is_left_out() {
    let folder = Folder::new(SERVICES);
    let choices = choose(&folder, |choices| choices.systems = vec!["b".to_owned()]);
    assert_eq!(names(&folder.plan(&choices).0), ["b", "b (control)"]);
}

/// What is changed, and what the refusal has.
type Case<'c> = (&'c dyn Fn(&mut ServiceChoices), &'c str);

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let folder = Folder::new(SERVICES);
    let cases: [Case<'_>; 14] = [
        (&|choices| choices.systems.clear(), "Choose at least one system"),
        (
            &|choices| choices.systems.push("d".to_owned()),
            "`d` is not a system of `of/shop/services.yaml`, which has a, b, c",
        ),
        (&|choices| choices.systems.push("c (control)".to_owned()), "is not a system"),
        (&|choices| choices.load = "huge".to_owned(), "expected own, smoke, short, full, saturation"),
        (&|choices| choices.load = String::new(), "is not a load"),
        (&|choices| choices.payloads.push("5k".to_owned()), "is not a payload"),
        (&|choices| choices.bytes = "319".to_owned(), "from 320 to 1048576, not `319`"),
        (&|choices| choices.bytes = "1048577".to_owned(), "from 320 to 1048576"),
        (&|choices| choices.bytes = "-1".to_owned(), "from 320 to 1048576"),
        (&|choices| choices.bytes = "99999999999999999999999".to_owned(), "from 320 to 1048576"),
        (&|choices| choices.rounds = "0".to_owned(), "from 1 to 100, not `0`"),
        (&|choices| choices.rounds = "101".to_owned(), "from 1 to 100"),
        (&|choices| choices.rounds = "1e1".to_owned(), "from 1 to 100"),
        (&|choices| choices.rounds = String::new(), "from 1 to 100"),
    ];
    for (change, expected) in cases {
        let why = folder.text(&choose(&folder, change)).expect_err(expected);
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn modes_and_payloads_without_a_meaning_are_refused() {
    let with = |workload: &str| {
        let (head, _) = SERVICES.split_once("workloads:").expect("workloads");
        Folder::new(&format!("{head}workloads:\n  - {{name: w, operations: [{{id: other}}], {workload}}}\n"))
    };
    let load = "load: {closed: {users: 1, iterations: 9}}";
    for (workload, load, payload, expected) in [
        ("load: {closed: {users: 1, duration: 2s}}, generator: wrk".to_owned(), "smoke", "", "wrk sends it"),
        (format!("{load}, warmup: {{iterations: 3}}"), "short", "", "its warm-up is a number of requests"),
        (load.to_owned(), "own", "4k", "A size of payloads has no meaning"),
    ] {
        let folder = with(&workload);
        let choices = choose(&folder, |choices| {
            choices.load = load.to_owned();
            choices.payloads = Some(payload.to_owned()).into_iter().filter(|size| !size.is_empty()).collect();
        });
        let why = folder.text(&choices).expect_err(expected);
        assert!(why.contains(expected), "{why}");
        assert!(folder.text(&choose(&folder, |_| {})).is_ok(), "as it is, it can be run");
    }
    let of_k6 = with(&format!("{load}, generator: k6"));
    let text = of_k6.text(&choose(&of_k6, |choices| choices.load = "short".to_owned()));
    assert!(text.as_ref().is_ok_and(|text| text.contains("mode: short") && text.contains("generator: k6")), "{text:?}");
}

#[test]
fn a_program_that_differs_is_noticed() {
    let folder = Folder::new(SERVICES);
    let source = folder.source().plan;
    let again = |text: &str| {
        fs::write(folder.path("of/shop/services.yaml"), text).expect("a file");
        folder.source().plan
    };
    assert!(starts_the_same(&source, &again(SERVICES)));
    for (from, to) in [
        ("[./a,", "[./evil,"),
        ("1.50", "1.5"),
        ("[./store,", "[./x,"),
        ("[./empty,", "[./x,"),
        ("../src", ".."),
        ("restart: round", "restart: never"),
        ("repeats: 10", "deploy: {ssh: {host: other}}"),
    ] {
        let changed = SERVICES.replace(from, to);
        assert!(!starts_the_same(&source, &again(&changed)), "{from}");
    }
}

#[test]
fn ways_between_folders() {
    for (from, to, expected) in
        [("/a/b/c", "/a/x", "../../x"), ("/a", "/a/b/c", "b/c"), ("/a/b", "/a/b", "."), ("/a/b", "/a", "..")]
    {
        assert_eq!(relative(Path::new(from), Path::new(to)), Path::new(expected));
    }
}
