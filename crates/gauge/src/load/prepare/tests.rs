use super::*;
use crate::load::workload::{Body, Capture, Operation, Source};

fn workload(yaml: &str) -> Workload {
    serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}"))
}

fn refused(yaml: &str) -> String {
    let workload: Workload = match serde_saphyr::from_str(yaml) {
        Ok(workload) => workload,
        Err(error) => return error.to_string(),
    };
    Prepared::new(&workload).expect_err(yaml).to_string()
}

const FULL: &str = r#"
base: http://127.0.0.1:1234/api
order: sequence
timeout: 5s
seed: 7
setup:
  - {id: login, method: POST, path: /login, body: {text: '{"name":"{user}"}'}, params: {user: {counter: 1}},
     capture: [{name: token, json: /accessToken}]}
operations:
  - {id: list, weight: 3, path: "/active/all?page={page}", params: {page: {int: [1, 9]}}}
  - {id: bid, method: POST, path: "/bid/{auction}", headers: {Authorization: "Bearer {token}"}, body: {text: '{"price":{bid}}'},
     params: {auction: {list: [1, b, 3.5]}, token: {captured: token}, bid: {captured: bid, else: 1}}, expect: [2xx, 403],
     capture: [{name: bid, json: /lastValue, plus: 1, scope: run}]}
load:
  phases:
    - {name: warm, warmup: true, closed: {users: 2, duration: 1s}}
    - {name: ramp, open: {rate: {from: 10/s, to: 2k/s}, duration: 10s, arrivals: poisson, connections: 8}}
    - {name: think, closed: {users: {from: 1, to: 20}, duration: 10s, think: {mean: 100ms, vary: exponential}}}
"#;

#[test]
fn a_workload_is_read_as_it_is_written() {
    let read = workload(FULL);
    assert_eq!(read.operations[0].params["page"], Source::Int { from: 1, to: 9, pick: Default::default() });
    assert_eq!(
        read.operations[1].params["auction"],
        Source::List { values: vec!["1".into(), "b".into(), "3.5".into()], pick: Default::default() }
    );
    let capture = &read.operations[1].capture[0];
    assert_eq!((capture.json.as_deref(), capture.plus), (Some("/lastValue"), Some(1.0)));
    let again: Workload = serde_json::from_str(&serde_json::to_string(&read).expect("JSON")).expect("the same");
    assert_eq!(again, read);

    let prepared = Prepared::new(&read).expect("it makes sense");
    assert_eq!(
        prepared.phases.iter().map(|phase| phase.name.as_str()).collect::<Vec<_>>(),
        ["setup", "warm", "ramp", "think"]
    );
    assert_eq!(prepared.slots(), 20);
    assert_eq!(prepared.planned(), Some(Duration::from_secs(21)));
    assert!(prepared.operations[1].expect.contains(403) && !prepared.operations[1].expect.contains(404));
    assert!(!prepared.operations[0].expect.contains(403) && prepared.operations[0].expect.contains(301));
}

#[test]
fn a_fixed_request_is_made_once() {
    let mut operation = Operation::get("x", "/a?b=1");
    operation.method = "POST".to_owned();
    operation.headers.insert("X-A".to_owned(), "1".to_owned());
    operation.body = Some(Body::Text("{\"a\": {}}".to_owned()));
    let mut workload = workload(FULL);
    workload.setup.clear();
    workload.operations = vec![operation];
    let prepared = Prepared::new(&workload).expect("it makes sense");
    let text = String::from_utf8(prepared.operations[0].fixed.as_ref().expect("fixed").to_vec()).expect("text");
    assert_eq!(
        text,
        "POST /api/a?b=1 HTTP/1.1\r\nHost: 127.0.0.1:1234\r\nX-A: 1\r\nContent-Length: 9\r\n\r\n{\"a\": {}}"
    );
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let operations = "base: http://127.0.0.1:1\nload: {closed: {users: 1, iterations: 1}}\noperations:\n";
    let loads = "base: http://127.0.0.1:1\noperations: [{id: x, path: /}]\nload: ";
    for (text, expected) in [
        (format!("{operations}  - {{id: x, path: '/{{a}}'}}"), "params has no `a`"),
        (format!("{operations}  - {{id: x, path: /, params: {{a: 1}}}}"), "neither path, headers nor body holds {a}"),
        (format!("{operations}  - {{id: x, path: x}}"), "must begin with /"),
        (format!("{operations}  - {{id: x, path: /, method: 'A B'}}"), "is not a valid method"),
        (format!("{operations}  - {{id: x, path: /, headers: {{Content-Length: '5'}}}}"), "written by the generator"),
        (format!("{operations}  - {{id: x, path: /, headers: {{'a b': '5'}}}}"), "not the name of a header"),
        (format!("{operations}  - {{id: x, path: '/{{a}}', params: {{a: {{int: [9, 1]}}}}}}"), "empty range"),
        (
            format!("{operations}  - {{id: x, path: '/{{a}}', params: {{a: {{int: [1, 9], list: [1]}}}}}}"),
            "exactly one of",
        ),
        (format!("{operations}  - {{id: x, path: '/{{a}}', params: {{a: {{captured: t}}}}}}"), "nothing captures `t`"),
        (
            format!("{operations}  - {{id: x, path: '/{{a}}', params: {{a: {{csv: /nowhere.csv, column: a}}}}}}"),
            "/nowhere.csv: ",
        ),
        (format!("{operations}  - {{id: x, path: /, body: {{file: /nowhere}}}}"), "/nowhere: "),
        (format!("{operations}  - {{id: x, path: /, capture: [{{name: t, json: token}}]}}"), "not a JSON pointer"),
        (format!("{operations}  - {{id: x, path: /, expect: [20x]}}"), "no status"),
        (format!("{operations}  - {{id: x, path: /, wait: 1}}"), "wait"),
        (format!("{operations}  - {{id: x, path: /, base: 'ftp://a'}}"), "only http:// and https://"),
        (format!("{operations}  - {{id: x, path: /}}\ntls: {{insecure: true}}"), "there is none"),
        (
            format!("{operations}  - {{id: x, path: /, base: 'https://127.0.0.1'}}\ntls: {{ca: /nowhere.pem}}"),
            "/nowhere.pem: ",
        ),
        (
            format!(
                "{operations}  - {{id: x, path: /, base: 'https://127.0.0.1'}}\ntls: {{insecure: true, key: a.key}}"
            ),
            "both `cert` and `key`",
        ),
        (
            format!(
                "{operations}  - {{id: x, path: /, base: 'https://127.0.0.1'}}\ntls: {{insecure: true, ca: a.pem}}"
            ),
            "a.pem",
        ),
        (
            format!(
                "{operations}  - {{id: x, path: /, base: 'https://127.0.0.1'}}\ntls: {{insecure: true, server_name: 'a b'}}"
            ),
            "neither a DNS name nor an IP address",
        ),
        (
            format!("{operations}  - {{id: x, path: /}}\nprotocol: {{http2: {{streams: 2}}}}\nnew_connections: true"),
            "is of HTTP/1.1",
        ),
        (format!("{operations}  - {{id: x, path: /, base: 'ws://127.0.0.1:1'}}"), "a ws:// URL needs messages"),
        (
            format!("{operations}  - {{id: x, path: /}}\nwebsocket: {{}}\nsetup: [{{id: y, path: /}}]"),
            "all operations are upgrades",
        ),
        (
            format!("{operations}  - {{id: x, path: /, capture: [{{name: t, header: a}}]}}\nwebsocket: {{}}"),
            "nothing is captured",
        ),
        (format!("{operations}  - {{id: x, path: /}}\nwebsocket: {{size: 1 km}}"), "is not a size"),
        (format!("{operations}  - {{id: x, path: /, weight: -1}}"), "weight"),
        (format!("{loads}{{closed: {{users: 0, iterations: 1}}}}"), "0 users"),
        (format!("{loads}{{closed: {{users: 1}}}}"), "would never end"),
        (format!("{loads}{{open: {{rate: 0, duration: 1s}}}}"), "rate must be higher than 0"),
        (format!("{loads}{{open: {{rate: fast, duration: 1s}}}}"), "not a rate"),
        (format!("{loads}{{open: {{rate: 5, duration: 1 day}}}}"), "not a duration"),
        (
            format!("{loads}{{phases: [{{name: a, warmup: true, closed: {{users: 1, duration: 1s}}}}]}}"),
            "no phase is measured",
        ),
        (format!("{loads}{{phases: [{{name: a}}]}}"), "either `closed` or `open`"),
    ] {
        let error = refused(&text);
        assert!(error.contains(expected), "{text}\n  says: {error}");
    }
}

#[test]
fn columns_of_one_file_come_from_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("users.csv");
    std::fs::write(&file, "name,password\na,1\n\"b,c\",2\n").expect("a file");
    let text = format!(
        "base: http://127.0.0.1:1\nload: {{closed: {{users: 1, iterations: 1}}}}\noperations:\n  - {{id: x, path: '/{{n}}/{{p}}', \
         params: {{n: {{csv: {0}, column: name}}, p: {{csv: {0}, column: password}}}}}}",
        file.display()
    );
    let prepared = Prepared::new(&workload(&text)).expect("it makes sense");
    assert_eq!(prepared.tables.len(), 1);
    assert_eq!(prepared.tables[0].lines.len(), 2);
    let error = refused(&text.replace("column: name", "column: nme"));
    assert!(error.contains("no column `nme`; it has name, password"), "{error}");
}

#[test]
fn urls_are_cut_into_their_parts() {
    for (url, authority, port, path) in [
        ("https://a", "a", 443, "/"),
        ("HTTPS://[::1]/x", "[::1]", 443, "/x"),
        ("https://a:80/x", "a:80", 80, "/x"),
        ("http://a", "a", 80, "/"),
        ("HTTP://a:8080/x?y#z", "a:8080", 8080, "/x?y"),
        ("http://[::1]:9/x", "[::1]:9", 9, "/x"),
        ("http://[::1]", "[::1]", 80, "/"),
        ("http://a?x=1", "a", 80, "/?x=1"),
        ("ws://a/chat", "a", 80, "/chat"),
        ("WSS://a", "a", 443, "/"),
    ] {
        let parsed = Url::parse(url).expect(url);
        assert_eq!((parsed.authority.as_str(), parsed.port, parsed.path.as_str()), (authority, port, path), "{url}");
        let scheme = url.split(':').next().unwrap_or_default().to_ascii_lowercase();
        assert_eq!(parsed.https, ["https", "wss"].contains(&scheme.as_str()), "{url}");
        assert_eq!(parsed.websocket, scheme.starts_with("ws"), "{url}");
        assert_eq!(Url::parse(&(parsed.origin() + path)).expect(url), parsed, "{url}");
    }
    for url in [
        "",
        "a",
        "ftp://a",
        "https://",
        "http://",
        "http://a:0",
        "http://a:99999",
        "http://u:p@a/",
        "http://a/ b",
        "http:///x",
    ] {
        assert!(Url::parse(url).is_err(), "{url}");
    }
}

#[test]
fn captures_need_exactly_one_place() {
    let mut workload = workload(FULL);
    workload.operations[0].capture =
        vec![Capture { name: "x".into(), json: None, header: None, plus: None, scope: Default::default() }];
    let error = Prepared::new(&workload).expect_err("no place").to_string();
    assert!(error.contains("either json or header"), "{error}");
}

#[test]
fn one_address_with_and_without_tls_are_two_authorities() {
    let yaml = "base: http://127.0.0.1:1\noperations: [{id: a, path: /}, {id: b, path: /, base: 'https://127.0.0.1:1'}]\n\
                load: {closed: {users: 1, iterations: 1}}\ntls: {insecure: true}\n";
    let prepared = Prepared::new(&workload(yaml)).expect("a workload");
    let secure: Vec<bool> = prepared.authorities.iter().map(|authority| authority.secure.is_some()).collect();
    assert_eq!((secure, prepared.has_tls()), (vec![false, true], true));
}

#[test]
fn a_connection_for_one_request_says_so() {
    for (more, says) in [("", false), ("new_connections: true\n", true)] {
        let yaml = format!(
            "base: http://127.0.0.1:1\noperations: [{{id: a, method: POST, path: /}}]\nload: {{closed: {{users: 1, iterations: 1}}}}\n{more}"
        );
        let prepared = Prepared::new(&workload(&yaml)).expect("a workload");
        let text = String::from_utf8_lossy(prepared.operations[0].fixed.as_deref().expect("fixed")).into_owned();
        assert_eq!(text.contains("\r\nConnection: close\r\n"), says, "{text}");
    }
}

#[test]
fn files_of_a_workload_are_in_its_folder() {
    let yaml = "base: https://127.0.0.1:1\nload: {closed: {users: 1, iterations: 1}}\ntls: {ca: ca.pem, cert: /c.pem, key: c.key}\noperations:\n  \
                - {id: a, path: '/{x}', body: {file: body}, params: {x: {csv: x.csv, column: a}}}\n  \
                - {id: b, grpc: {proto: p.proto, method: a.B/C}, body: {lines: lines}}\n";
    let mut workload = workload(yaml);
    workload.files_from("there".as_ref());
    let written = serde_json::to_string(&workload).expect("JSON");
    for file in ["there/ca.pem", "\"/c.pem", "there/c.key", "there/body", "there/x.csv", "there/p.proto", "there/lines"]
    {
        assert!(written.contains(file), "{file}: {written}");
    }
}
