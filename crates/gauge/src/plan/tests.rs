use std::path::Path;
use std::time::Duration;

use super::*;
use crate::load::workload::{Body, Closed, Source, Span};

const API: &str = "openapi: 3.1.0
info: {title: A, version: '1'}
servers: [{url: 'http://127.0.0.1:9001/v1'}]
components: {securitySchemes: {bearer: {type: http, scheme: bearer}}}
paths:
  /items/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
    get:
      operationId: item
      parameters: [{name: view, in: query}, {name: X-Tier, in: header}]
      responses: {}
  /items:
    post:
      operationId: add
      requestBody: {required: true, content: {application/json: {schema: {type: object}, example: {name: a violin}}}}
      responses: {}
  /secret:
    get: {operationId: secret, security: [{bearer: []}], responses: {}}
  /named/{name}:
    parameters: [{name: name, in: path, required: true, example: ada, schema: {type: string}}]
    get: {operationId: named, responses: {}}
";

fn read(text: &str) -> Result<Plan, PlanError> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("api.yaml"), API).expect("a file");
    std::fs::write(folder.path().join("own.conf"), "listen {listen}; up {upstream 1} {host 1} {cpus} {other}")
        .expect("a file");
    let file = folder.path().join("e.yaml");
    std::fs::write(&file, text).expect("a file");
    Plan::read(&file)
}

fn with(workload: &str) -> String {
    format!("name: t\napi: api.yaml\ngateways: [nginx]\nworkloads:\n{workload}")
}

fn simple(operation: &str) -> String {
    with(&format!("  - name: w\n    operations: [{operation}]\n    load: {{closed: {{users: 1, duration: 1s}}}}\n"))
}

/// The problems, each as `line:column: text`.
fn wrong(text: &str) -> Vec<String> {
    match read(text) {
        Err(PlanError::Wrong { problems, .. }) => problems
            .into_iter()
            .map(|problem| match problem.at {
                Some((line, column)) => format!("{line}:{column}: {}", problem.text),
                None => problem.text,
            })
            .collect(),
        Err(error) => panic!("unreadable: {error}"),
        Ok(_) => panic!("it was taken:\n{text}"),
    }
}

fn fails(what: &str) -> String {
    format!("name: t\napi: api.yaml\ngateways: [nginx]\nfail: {{{what}}}\nworkloads: []\n")
}

#[test]
fn a_mistake_is_named_with_its_place_and_what_to_do() {
    for (text, place, says) in [
        ("name: t\nnam: x\n", "2:1", "nam"),
        (&simple("{id: itm}"), "6:23", "the API has no operation `itm`; it has item, add, secret, named"),
        (&simple("{id: item}"), "6:23", "`item` needs `id` in its path; add params: {id: {int: [1, 9]}}"),
        (&simple("{id: secret}"), "6:23", "`secret` is protected and the request has no authorization"),
        (&simple("{id: item, params: {id: 1, no: 2}}"), "5:5", "params has `no`"),
        (&simple("{id: item, params: {id: {in: [1, 2]}}}"), "6:", "in"),
        (
            "name: t\napi: api.yaml\ngateways: [ngnix]\nworkloads: []\n",
            "3:12",
            "unknown gateway `ngnix`; expected one of weir, nginx",
        ),
        ("name: t\napi: api.yaml\ngateways: [nginx, nginx]\nworkloads: []\n", "3:19", "the name `nginx` is taken"),
        (
            "name: t\napi: api.yaml\ngateways: [{name: direct, gateway: nginx}]\nworkloads: []\n",
            "3:12",
            "`direct` always is",
        ),
        ("name: t\napi: api.yaml\ngateways: [nginx]\ncontrol: weir\nworkloads: []\n", "4:10", "`control` names `weir`"),
        ("name: t\napi: api.yaml\ngateways: [nginx]\nrepeats: 0\nworkloads: []\n", "4:10", "0 rounds"),
        (
            "name: t\napi: api.yaml\ngateways: [nginx]\nhardware: {memory: lots}\nworkloads: []\n",
            "4:",
            "`lots` is not a size; write 8GiB",
        ),
        ("name: t\napi: api.yaml\ngateways: [nginx]\nslo: {errors: 3}\nworkloads: []\n", "4:", "`3` is no share"),
        (
            &fails("p98: '>50ms'"),
            "4:",
            "`p98`, an unknown figure; expected one of p50, p90, p95, p99, mean, errors, rate",
        ),
        (&fails("p99: 50ms"), "4:13", "it must begin with >, >=, < or <="),
        (&fails("p99: '>50'"), "4:13", "`50` has no unit; write 50ms"),
        (&fails("errors: '>2'"), "4:16", "`2` is no share"),
        (&fails("rate: '<many/s'"), "4:14", "is not a rate"),
        (
            "name: t\napi: api.yaml\ngateways: [nginx]\ndeploy: cloud\nworkloads: []\n",
            "4:",
            "`cloud` is not a place to run",
        ),
        (
            "name: t\napi: api.yaml\ngateways: [nginx]\nbackend: {command: [x], ports: {a: 'http://127.0.0.1:1'}}\nworkloads: []\n",
            "4:36",
            "no operation of the API is at `http://127.0.0.1:1`; there are: http://127.0.0.1:9001",
        ),
        (
            &with("  - name: w\n    operations: [{id: add}]\n    load: {search: {duration: 1s}}\n"),
            "7:11",
            "a search needs an SLO",
        ),
        (
            &with(
                "  - name: w\n    operations: [{id: add}]\n    generator: vegeta\n    load: {closed: {users: 1, duration: 1s}}\n",
            ),
            "7:16",
            "there is no generator `vegeta`; there are gauge, wrk, hey, k6 and jmeter",
        ),
    ] {
        let problems = wrong(text);
        let text_ = problems.join("\n");
        assert!(text_.contains(says), "{text}\n{text_}");
        let line_and_column = place.split_once(':').expect("both");
        let found = problems.iter().any(|problem| problem.starts_with(place))
            // The parser's own words.
            || text_.contains(&format!("line {} column {}", line_and_column.0, line_and_column.1))
            || text_.contains(&format!("{place}: "));
        assert!(found, "{place} is not in: {text_}");
    }
}

#[test]
fn a_file_that_is_not_there_is_another_thing_than_a_mistake() {
    for text in [
        "name: t\napi: none.yaml\ngateways: [nginx]\nworkloads: []\n".to_owned(),
        "name: t\napi: api.yaml\ngateways: [{gateway: nginx, files: {nginx.conf: none.conf}}]\nworkloads: []\n"
            .to_owned(),
        simple("{id: add, body: {file: none.json}}"),
        simple("{id: item, params: {id: {csv: none.csv, column: id}}}"),
    ] {
        match read(&text) {
            Err(PlanError::Unreadable { file, .. }) => assert!(file.to_string_lossy().contains("none"), "{file:?}"),
            other => panic!("{text}\n{other:?}"),
        }
    }
    assert!(matches!(Plan::read(Path::new("/nowhere/e.yaml")), Err(PlanError::Unreadable { .. })));
}

fn operation(text: &str) -> PlannedOperation {
    let plan = read(&simple(text)).unwrap_or_else(|error| panic!("{error}"));
    plan.workloads[0].operations[0].clone()
}

#[test]
fn an_operation_becomes_a_request_from_what_the_api_says() {
    let item = operation("{id: item, params: {id: 7, view: full, X-Tier: gold}}");
    assert_eq!(item.origin, "http://127.0.0.1:9001");
    assert_eq!(item.operation.path, "/v1/items/{id}?view={view}");
    assert_eq!(item.operation.headers["X-Tier"], "{X-Tier}");
    let add = operation("{id: add}");
    assert_eq!(add.operation.method, "POST");
    assert_eq!(add.operation.body, Some(Body::Text(r#"{"name":"a violin"}"#.to_owned())), "the description's example");
    assert_eq!(add.operation.headers["content-type"], "application/json");
    let own = operation("{id: add, name: other, body: {json: {n: 1}}, headers: {Content-Type: text/x}}");
    assert_eq!((own.operation.id.as_str(), own.described.as_str()), ("other", "add"));
    assert_eq!(own.operation.headers.len(), 1, "a type that is given is not given twice");
    assert_eq!(operation("{id: named}").operation.params["name"], Source::Fixed("ada".to_owned()));
}

#[test]
fn what_is_captured_is_used_by_its_name() {
    let text = with(
        "  - name: w\n    setup: [{id: add, capture: [{name: token, json: /token}]}]\n    \
         operations: [{id: secret, headers: {Authorization: 'Bearer {token}'}}]\n    load: {closed: {users: 1, duration: 1s}}\n",
    );
    let plan = read(&text).unwrap_or_else(|error| panic!("{error}"));
    let params = &plan.workloads[0].operations[0].operation.params;
    assert_eq!(params["token"], Source::Captured { name: "token".to_owned(), or: None });
}

#[test]
fn large_bodies_are_made_and_always_the_same() {
    let text = "{id: add, body: {fill: {text: '{\"image\":\"{image}\"}', with: {image: {jpeg: 1kB}}}}}";
    let fill = operation(text).made.expect("a body to make");
    let made = fill.make();
    assert_eq!(made, fill.make());
    let json: serde_json::Value = serde_json::from_str(&made).expect("JSON");
    let image = json["image"].as_str().expect("a text");
    assert!(image.starts_with("/9j/4AAQSkZJRg"), "a JPEG's first bytes in base64: {image:.20}");
    assert_eq!(image.len(), 1000_usize.div_ceil(3) * 4);
    assert!(
        wrong(&simple("{id: add, body: {fill: {text: x, with: {image: {jpeg: 1kB}}}}}"))[0]
            .contains("does not hold {image}")
    );
    assert!(
        wrong(&simple("{id: add, body: {fill: {text: '{i}', with: {i: {random: 40MB}}}}}"))[0]
            .contains("bodies have up to")
    );
}

#[test]
fn systems_are_direct_the_gateways_and_controls() {
    let of = |more: &str| -> Vec<String> {
        let text = simple("{id: named}").replace("gateways: [nginx]", more);
        let plan = read(&text).unwrap_or_else(|error| panic!("{error}"));
        plan.systems.into_iter().map(|system| system.name).collect()
    };
    assert_eq!(of("gateways: [weir, nginx]"), ["direct", "weir", "nginx", "weir (control)"]);
    assert_eq!(of("gateways: [weir, nginx]\ncontrol: nginx\nbaseline: false"), ["weir", "nginx", "nginx (control)"]);
    assert_eq!(of("gateways: [weir]\ncontrol: false"), ["direct", "weir"]);
    assert_eq!(of("gateways: [weir, nginx]\ncontrol: all")[3..], ["weir (control)", "nginx (control)"]);
    let names = "gateways: [nginx, {name: nginx control, gateway: nginx}]";
    assert_eq!(of(&format!("{names}\ncontrol: false")), ["direct", "nginx", "nginx control"]);
    let problems = wrong(&simple("{id: named}").replace("gateways: [nginx]", names));
    assert!(
        problems.len() == 1 && problems[0].contains("is called as the A/A control of `nginx` will be"),
        "{problems:?}"
    );
}

#[test]
fn a_variant_brings_its_own_file_with_addresses_filled_in() {
    use crate::gateway::{File, Model, Options, Placement, Written};
    let text = simple("{id: named}")
        .replace("[nginx]", "[{name: nginx own, gateway: nginx, files: {nginx.conf: own.conf, more.conf: own.conf}}]");
    let plan = read(&text).unwrap_or_else(|error| panic!("{error}"));
    let variant = plan.systems[1].variant().expect("a gateway").clone();
    let upstreams = [("http://127.0.0.1:9001".to_owned(), "http://127.0.0.1:4444".to_owned())].into();
    let model = Model::new(&plan.api, &Options { upstreams, ..Options::default() }).expect("a model");
    let place = Placement { cpus: 3, ..Placement::new("127.0.0.1:81".parse().expect("an address"), "/tmp/x") };
    let mut written = Written::default();
    written.files.push(File { path: "nginx.conf".to_owned(), text: "of the adapter".to_owned() });
    variant.apply(&mut written, &model, &place);
    assert_eq!(written.files.len(), 2);
    assert_eq!(written.files[0].text, "listen 127.0.0.1:81; up http://127.0.0.1:4444 127.0.0.1:4444 3 {other}");
    assert_eq!(written.files[1].path, "more.conf");
    let outside = simple("{id: named}").replace("[nginx]", "[{gateway: nginx, files: {../x: own.conf}}]");
    assert!(wrong(&outside)[0].contains("not a path below the gateway's directory"));
}

#[test]
fn a_first_look_is_shorter_and_says_so() {
    let text = with(
        "  - {name: a, operations: [{id: add}], load: {closed: {users: 1, duration: 60s}}}\n  \
         - {name: b, operations: [{id: add}], load: {closed: {users: 1, iterations: 400}}}\n",
    );
    let plan = read(&text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((plan.repeats, plan.quick), (10, false));
    let quick = plan.quick();
    assert_eq!((quick.repeats, quick.quick), (3, true));
    let closed = |index: usize| match &quick.workloads[index].load {
        PlannedLoad::Fixed(crate::load::workload::Load::Closed(Closed { duration, iterations, .. })) => {
            (*duration, *iterations)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(closed(0), (Some(Duration::from_secs(2)), None));
    assert_eq!(closed(1), (None, Some(100)));
}

#[test]
fn names_become_parts_of_file_names() {
    for (name, file) in [("weir (control)", "weir-control"), ("At 1,000 /s", "at-1-000-s"), ("--x--", "x"), ("ü", "")]
    {
        assert_eq!(slug(name), file, "{name}");
    }
}

#[test]
fn sizes_are_read_as_people_write_them() {
    for (text, bytes) in
        [("8GiB", 8 << 30), ("8.6MB", 8_600_000), ("512", 512), ("1 kB", 1000), ("2k", 2000), ("64KiB", 65_536)]
    {
        assert_eq!(size::parse(text), Ok(bytes), "{text}");
    }
    for text in ["", "GiB", "-1", "1e30", "8 apples", "nan"] {
        assert!(size::parse(text).is_err(), "{text}");
    }
}

/// ssh would take it for an option, and `ProxyCommand` runs what it names.
#[test]
fn a_host_is_never_an_option_of_ssh() {
    for ssh in ["host: -oProxyCommand=touch", "host: a b", "host: a, user: -l"] {
        let deploy = format!("gateways: [nginx]\ndeploy: {{ssh: {{{ssh}}}}}");
        let problems = wrong(&simple("{id: named}").replace("gateways: [nginx]", &deploy));
        assert!(problems.iter().any(|text| text.contains("does not begin with a dash")), "{ssh}: {problems:?}");
    }
}

#[test]
fn one_place_to_run_is_chosen() {
    let problems = |deploy: &str| {
        let deploy = format!("gateways: [nginx]\ndeploy: {deploy}");
        wrong(&simple("{id: named}").replace("gateways: [nginx]", &deploy)).join("\n")
    };
    for (deploy, why) in [
        ("here", "`here` is not a place to run"),
        ("{}", "one place to run is needed"),
        ("{ssh: {host: a}, terraform: m}", "one place to run is needed"),
        ("{ssh: {host: a}, keep: true}", "go with `terraform`"),
        ("{terraform: nowhere}", "which is not a folder"),
        ("{terraform: m, program: pulumi}", "pulumi"),
        ("{hosts: []}", "no host has the role `gateway`"),
        ("{hosts: [{role: gateway, address: -x}]}", "the address `-x` is neither"),
        (
            format!("{{hosts: [{}{{role: gateway, address: 10.0.0.5}}]}}", "{role: generator, address: g}, ".repeat(2))
                .as_str(),
            "workload `w`: a load of 1 users cannot be spread over 2 generators",
        ),
    ] {
        assert!(problems(deploy).contains(why), "{deploy}: {}", problems(deploy));
    }
}

#[test]
fn secrets_are_not_in_what_is_reported() {
    let secrets = ["hunter22".to_owned(), "x".to_owned()];
    assert_eq!(super::redact("KEY: hunter22 # x", &secrets), "KEY: [redacted] # x");
}

#[test]
fn a_description_refers_to_nothing_outside_of_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("api")).expect("a folder");
    let text = |reference: &str| {
        format!(
            "openapi: 3.0.3\ninfo: {{title: t, version: '1'}}\nservers: [{{url: 'http://h:1'}}]\npaths:\n  /a:\n    get:\n      operationId: a\n      \
             parameters: [{{$ref: '{reference}'}}]\n      responses: {{}}\n"
        )
    };
    let file = folder.path().join("api/api.yaml");
    let parameter = "{name: q, in: query, schema: {type: string}}\n";
    std::fs::write(folder.path().join("other.yaml"), parameter).expect("written");
    std::fs::write(folder.path().join("api/beside.yaml"), parameter).expect("written");
    std::fs::write(&file, text("beside.yaml")).expect("written");
    super::read_description(&file).unwrap_or_else(|problems| panic!("{problems}"));
    std::fs::write(&file, text("../other.yaml")).expect("written");
    let problems = super::read_description(&file).err().map(|problems| problems.to_string()).unwrap_or_default();
    assert!(problems.contains("it lies outside of"), "{problems}");
}

#[test]
fn modes_are_the_phases_that_their_names_promise() {
    let phases = |mode: &str| -> Vec<(u32, u64)> {
        let text = with(&format!("  - {{name: a, operations: [{{id: add}}], load: {{mode: {mode}}}}}"));
        let plan = read(&text).unwrap_or_else(|error| panic!("{error}"));
        let PlannedLoad::Fixed(Load::Phases(phases)) = &plan.workloads[0].load else { panic!("phases") };
        let closed = phases.iter().map(|phase| phase.closed.as_ref().expect("closed"));
        closed
            .map(|closed| match closed.users {
                Span::Constant(users) => (users, closed.duration.map_or(0, |duration| duration.as_secs())),
                Span::Ramp { .. } => panic!("constant"),
            })
            .collect()
    };
    assert_eq!(phases("smoke"), [(1, 0)]);
    assert_eq!(phases("short"), [(10, 2), (50, 2), (100, 2), (200, 5)]);
    assert_eq!(phases("full"), [(10, 120), (50, 120), (100, 120), (200, 300)]);
    let saturation = [10, 50, 100, 200, 500, 1000, 2000].map(|users| (users, 120));
    assert_eq!(phases("saturation"), saturation);
    let endless = wrong(&with("  - {name: a, operations: [{id: add}], load: {mode: endless}}"));
    assert!(endless[0].contains("endless"), "{endless:?}");
}

#[test]
fn mistakes_in_systems_are_named() {
    let workload = "workloads: [{name: w, operations: [{id: add}], load: {mode: smoke}}]\n";
    let with = |more: &str, system: &str| {
        format!("name: t\napi: api.yaml\nsystems:\n  - {{name: a, command: [a], {system}}}\n{more}{workload}")
    };
    let ports = "ports: {http: 'http://127.0.0.1:9001'}";
    assert!(read(&with("", ports)).is_ok());
    for (more, system, named) in [
        ("gateways: [nginx]\n", ports, "`gateways` or `systems`, not both"),
        ("baseline: true\n", ports, "there is none"),
        ("profile: streams\n", ports, "`profile` says what gateways do"),
        ("before_each: [{send: named}]\n", ports, "no operation of the workload `w`"),
        ("before_each: [{send: add, prints: 1}]\n", ports, "a step is"),
        ("before_each: [{}]\n", ports, "a step is"),
        ("", "ports: {}", "no port for operations at `http://127.0.0.1:9001`"),
        ("", &format!("{ports}, restart: never"), "belong to a backend"),
        ("", &format!("{ports}, ready: 'udp://127.0.0.1:1'"), "shows nothing"),
        ("control: b\n", ports, "not one of the gateways or systems"),
    ] {
        let problems = wrong(&with(more, system));
        assert!(problems.iter().any(|problem| problem.contains(named)), "{more}{system}: {problems:?}");
    }
}

/// The same seed makes the same events, and another one others.
#[test]
fn a_seed_of_the_evaluation_makes_its_events() {
    let made = |seed: &str| {
        let text = with("  - {name: a, operations: [{id: add, body: {event: 4k}}], load: {mode: full}}");
        let plan = read(&format!("{text}\n{seed}")).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(plan.workloads[0].mode, Some("full"));
        assert_eq!(plan.clone().quick().workloads[0].mode, None, "a first look at it is another load");
        plan.workloads[0].operations[0].made.as_ref().expect("events").make()
    };
    let first = made("");
    assert_eq!(first, made("seed: 1\n"));
    assert_ne!(first, made("seed: 2\n"));
}

#[test]
fn paths_count_from_the_folder_that_an_evaluation_names() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("made/here")).expect("a folder");
    std::fs::write(folder.path().join("api.yaml"), API).expect("a file");
    let file = folder.path().join("made/here/e.yaml");
    let text = "name: t\napi: api.yaml\nfolder: ../..\nsystems:\n  - {name: a, command: [./a], ports: {http: 'http://127.0.0.1:9001'}}\n\
        workloads:\n  - {name: w, operations: [{id: named}], load: {mode: smoke}}\n";
    std::fs::write(&file, text).expect("a file");
    let plan = Plan::read(&file).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.folder, folder.path());
    assert_eq!(plan.systems[0].service().expect("a service").cwd, folder.path().join(""));
    let problems = wrong("name: t\napi: api.yaml\nfolder: no\ngateways: [nginx]\nworkloads: []\n");
    assert!(
        problems[0].starts_with("3:9: `folder` is ") && problems[0].ends_with("which is not a folder"),
        "{problems:?}"
    );
}
