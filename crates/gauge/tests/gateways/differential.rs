//! Every operation of a description through every gateway that is here, compared byte for byte with what the upstream received, and what
//! each gateway makes of paths, queries and fields that gateways read in different ways. The tables in docs/gauge-gateways.md are what this
//! finds: `UPDATE_GOLDEN=1` writes them. GAUGE_DESCRIPTIONS is the directory of the public descriptions that
//! `scripts/suites/55-gauge-gateways.sh` fetches.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gauge::gateway::{self, Gateway, Program};
use testkit::{RawClient, Recorded};

use crate::running::{Running, path, start_api};
use crate::{api, root};

/// Public descriptions: name in the table, and file.
const PUBLIC: [(&str, &str); 6] = [
    ("GitHub", "github.json"),
    ("Stripe", "stripe.json"),
    ("Kubernetes", "kubernetes.json"),
    ("Blockfrost", "blockfrost.yaml"),
    ("Figma", "figma.yaml"),
    ("Docker", "docker.yaml"),
];

/// A query as clients send it: `deepObject`, lists, escapes of either case, `+`, a name without value.
const QUERY: &str = "created%5Bgte%5D=1&q=a&q=a+b%20c&filter%5Blt%5D=%c3%b6&empty=&flag&slash=a%2Fb/c?d";

/// Fields that a client sends of its own accord, described or not.
const FIELDS: [(&str, &str); 10] = [
    ("Authorization", "Bearer a.b.c"),
    ("If-None-Match", "W/\"a\", \"b\""),
    ("Range", "bytes=0-9"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("Accept", "application/json;q=0.9, */*"),
    ("Accept-Encoding", "zstd, br;q=0.5"),
    ("Cookie", "a=1; b=\"2\""),
    ("User-Agent", "gauge differential"),
    ("X-Custom_Name", "a, b"),
    ("Prefer", "wait=1"),
];

/// What a request was, and what became of it.
enum Outcome {
    /// It reached the upstream so.
    Arrived(Box<Recorded>),
    /// The gateway itself responded, with this status.
    Refused(u16),
    /// The connection ended without a response.
    Closed,
}

fn send(running: &Running, client: &mut RawClient, method: &str, target: &str, body: &[u8]) -> Outcome {
    let before = running.seen();
    let mut fields = FIELDS.to_vec();
    if !body.is_empty() {
        fields.push(("Content-Type", "application/json; charset=UTF-8"));
    }
    client.request(method, target, &fields, body);
    match client.try_read_response_to(method) {
        Err(_) => {
            *client = running.client();
            Outcome::Closed
        }
        Ok(response) => {
            let closes = response.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
            if closes || !(200..300).contains(&response.status()) {
                *client = running.client();
            }
            if running.seen() == before {
                return Outcome::Refused(response.status());
            }
            let upstream = running.upstreams.iter().find(|upstream| upstream.request_count() > 0).expect("an upstream");
            let arrived = upstream.requests().last().expect("a request").clone();
            upstream.forget();
            Outcome::Arrived(Box::new(arrived))
        }
    }
}

/// How many operations arrived as they were sent, and what the others became, each with the first operation that did.
#[derive(Default)]
struct Passed {
    right: usize,
    wrong: BTreeMap<String, (String, usize)>,
    /// Fields by what became of them.
    fields: BTreeMap<String, usize>,
}

fn operations(running: &Running) -> Passed {
    let mut passed = Passed::default();
    let mut client = running.client();
    for route in &running.model.routes {
        let method = route.method.as_str();
        let body: &[u8] =
            if ["POST", "PUT", "PATCH"].contains(&method) { b"{\"a\": [1.0, \"\\u00fc\"]}\n" } else { b"" };
        let target = format!("{}?{QUERY}", path(route));
        let wrong = match send(running, &mut client, method, &target, body) {
            Outcome::Closed => Some("no response".to_owned()),
            Outcome::Refused(status) => Some(format!("status {status}")),
            Outcome::Arrived(arrived) => {
                let expected = format!("{}{target}", running.model.upstreams[route.upstream].base);
                fields(&arrived, &mut passed.fields);
                if arrived.head.target() != expected {
                    if !passed.wrong.contains_key("another target") {
                        println!("{target} arrived as {}", arrived.head.target());
                    }
                    Some("another target".to_owned())
                } else if arrived.body != body {
                    Some("another body".to_owned())
                } else {
                    (arrived.head.method() != method).then(|| "another method".to_owned())
                }
            }
        };
        match wrong {
            None => passed.right += 1,
            Some(what) => passed.wrong.entry(what).or_insert_with(|| (format!("{method} {target}"), 0)).1 += 1,
        }
    }
    passed
}

/// What became of the fields of one request.
fn fields(arrived: &Recorded, into: &mut BTreeMap<String, usize>) {
    let own = ["host", "connection", "content-type", "content-length"];
    for (name, value) in FIELDS {
        let got = arrived.head.all(name);
        match got.as_slice() {
            [same] if *same == value => {}
            [] => *into.entry(format!("drops `{}`", name.to_ascii_lowercase())).or_default() += 1,
            _ => *into.entry(format!("changes `{}`", name.to_ascii_lowercase())).or_default() += 1,
        }
    }
    for (name, _) in &arrived.head.fields {
        let name = name.to_ascii_lowercase();
        if !own.contains(&name.as_str()) && !FIELDS.iter().any(|(sent, _)| sent.eq_ignore_ascii_case(&name)) {
            *into.entry(format!("writes `{name}`")).or_default() += 1;
        }
    }
}

/// Paths below `/items/{id}` that gateways read in different ways: column, and what stands for the parameter.
const PROBES: [(&str, &str); 14] = [
    ("`%2F`", "a%2Fb"),
    ("`%2F` and dots", "..%2Fspecial"),
    ("`%7E%41`", "%7E%41"),
    ("`%c3%b6`", "%c3%b6"),
    ("`%20+%2B`", "a%20+%2B"),
    ("`;b=1`", "a;b=1"),
    ("`%25`", "a%25b"),
    ("`%5C`", "a%5Cb"),
    ("sub-delims", "!$&'()*+,=:@"),
    ("`..`", ".."),
    ("`%2e%2e`", "%2e%2e"),
    ("`//`", "/a"),
    ("`?x=1;y=2`", "a?x=1;y=2"),
    ("`?a[b]=%20`", "a?a[b]=%20"),
];

const PROBED: &str = "openapi: 3.1.0
info: {title: Probes, version: '1'}
servers: [{url: 'http://127.0.0.1:7001'}]
paths:
  /items/{id}: {get: {operationId: item, parameters: [{name: id, in: path, required: true}], responses: {}}}
  /items/special: {get: {operationId: special, responses: {}}}
  /special: {get: {operationId: top, responses: {}}}
";

fn probes(running: &Running) -> Vec<String> {
    let mut cells = Vec::new();
    for (_, value) in PROBES {
        let target = format!("/items/{value}");
        let mut client = running.client();
        cells.push(match send(running, &mut client, "GET", &target, b"") {
            Outcome::Closed => "closed".to_owned(),
            Outcome::Refused(status) => status.to_string(),
            Outcome::Arrived(arrived) if arrived.head.target() == target => "as sent".to_owned(),
            Outcome::Arrived(arrived) => format!("`{}`", arrived.head.target()),
        });
    }
    cells
}

/// The descriptions that are here: those of this repository, and the public ones.
fn descriptions() -> Vec<(&'static str, apidoc::Api)> {
    let mut all = vec![
        ("auction", api("services/auction/openapi.yaml")),
        ("corners", api("crates/gauge/tests/gateways/corners.openapi.yaml")),
    ];
    if let Some(folder) = std::env::var_os("GAUGE_DESCRIPTIONS").map(PathBuf::from) {
        for (name, file) in PUBLIC {
            let read = apidoc::read_file(folder.join(file)).unwrap_or_else(|problems| panic!("{file}: {problems}"));
            all.push((name, read.api));
        }
    }
    all
}

/// Operations that did not arrive as they were sent: the adapter has to have notes.
fn explained(running: &Running, passed: &Passed, notes: &[String]) {
    for (what, (first, count)) in &passed.wrong {
        println!("{}: {count} operations with {what}, first {first}", running.gateway.name());
        assert!(!notes.is_empty(), "{}: {what} is not in the notes: {first}", running.gateway.name());
    }
}

fn row(gateway: &'static dyn Gateway, program: &Program, all: &[(&'static str, apidoc::Api)]) -> [Vec<String>; 3] {
    let mut counts = Vec::new();
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for (_, api) in all {
        for base in ["", "/base/v1"] {
            let running = start_api(gateway, program, api, base);
            let passed = operations(&running);
            explained(&running, &passed, &running.notes);
            if base.is_empty() {
                counts.push(format!("{} of {}", passed.right, running.model.routes.len()));
                passed.fields.into_iter().for_each(|(what, count)| *found.entry(what).or_default() += count);
            } else if !running.notes.iter().any(|note| note.contains("base path")) {
                let right = format!("{} of {}", passed.right, running.model.routes.len());
                assert_eq!(counts.last(), Some(&right), "{}: {base}", gateway.name());
            }
            if api.operations.len() > 100 {
                break;
            }
        }
    }
    let api = apidoc::read_bytes("probes.yaml", PROBED.as_bytes()).expect("a description").api;
    let running = start_api(gateway, program, &api, "");
    let fields = found.into_keys().collect::<Vec<_>>().join(", ");
    [counts, probes(&running), vec![if fields.is_empty() { "nothing".to_owned() } else { fields }]]
}

/// A table in Markdown.
fn table(head: &[&str], rows: &[(&str, Vec<String>)]) -> String {
    let mut text = format!("| gateway | {} |\n|---|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for (name, cells) in rows {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

#[test]
#[ignore = "needs the programs and descriptions that scripts/suites/55-gauge-gateways.sh installs"]
fn differential() {
    let all = descriptions();
    let mut tables: [Vec<(&str, Vec<String>)>; 3] = Default::default();
    // With a thousand routes Spring takes seconds for a request on a small machine: it has the tests of `running` alone.
    for gateway in gateway::all().iter().filter(|gateway| gateway.name() != "spring") {
        let Some(program) = gateway.locate() else {
            println!("{} is not here and was not run", gateway.name());
            continue;
        };
        let rows = row(*gateway, &program, &all);
        println!("{}: {rows:?}", gateway.name());
        for (table, row) in tables.iter_mut().zip(rows) {
            table.push((gateway.title(), row));
        }
    }
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let written = [
        table(&names, &tables[0]),
        table(&PROBES.map(|(name, _)| name), &tables[1]),
        table(&["beside what the client sent"], &tables[2]),
    ]
    .join("\n");
    compare(&root().join("docs/gauge-gateways.md"), &written, all.len() == PUBLIC.len() + 2);
}

/// What is found for the gateways and descriptions that are here has to be in the document.
fn compare(document: &Path, written: &str, whole: bool) {
    const MARKS: [&str; 2] = ["<!-- differential: begin -->\n", "<!-- differential: end -->\n"];
    let text = std::fs::read_to_string(document).expect("the document");
    let (before, rest) = text.split_once(MARKS[0]).expect("the mark");
    let (table, after) = rest.split_once(MARKS[1]).expect("the mark");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let text = format!("{before}{}\n{written}\n{}{after}", MARKS[0], MARKS[1]);
        std::fs::write(document, text).expect("the document is written");
    } else if whole {
        let absent: Vec<&str> = written.lines().filter(|line| !table.lines().any(|other| other == *line)).collect();
        assert!(absent.is_empty(), "docs/gauge-gateways.md should say:\n{}", absent.join("\n"));
    }
}
