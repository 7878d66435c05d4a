//! Calls that k6 makes from the same workloads. `scripts/suites/50-gauge-tools.sh` installs it and runs these tests.

use serde_json::{Value, json};

use super::server::{self, Reflection};
use super::{Canned, METHOD, PROTO, REFUSED, STORED, gauge, load};

const K6: &[&str] = &["--tool", "k6"];

/// Runs a workload of which `BASE` is the server.
fn run(operations: &str, more: &str) -> (Option<i32>, String, Value, std::sync::Arc<server::Seen>) {
    let (address, seen) = server::start(Reflection::V1);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("workload.yaml");
    std::fs::write(folder.path().join("words.csv"), "word,number\n\"a \"\"b\"\"\",1\nÜ,2\n").expect("a file");
    std::fs::write(folder.path().join("lines"), "{\"count\":1}\n{\"count\":2,\"text\":5}\n").expect("a file");
    let yaml = format!("base: http://{address}\nprotocol: {{http2: {{streams: 4}}}}\n{operations}\n{more}\n");
    std::fs::write(&file, yaml.replace("FOLDER", &folder.path().to_string_lossy())).expect("a file");
    let (code, said, report) = gauge(&[&["load", "--workload", &file.to_string_lossy()], K6].concat());
    (code, said, report, seen)
}

const ONCE: &str = "load: {closed: {users: 1, iterations: 6}}";

#[test]
#[ignore = "needs k6"]
fn k6_counts_codes_and_refusals_as_errors_over_one_connection() {
    const CANNED: &[Canned] = &[
        Canned::Message(STORED, "0"),
        Canned::Message(REFUSED, "0"),
        Canned::HeadOnly("3"),
        Canned::Message(STORED, "14"),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let events = folder.path().join("events");
    let one = r#"{"eventHeader":{"eventName":"CarCreated"},"eventBody":{"entities":[{"entityType":"Car","entityId":"1","updatedAttributes":{"doors":5}}]}}"#;
    std::fs::write(&events, format!("{one}\n{}\n", one.replace("Car", "Loan"))).expect("a file");
    let body = format!("@{}", events.display());
    // The server takes one connection: a user keeps its own.
    let (address, seen) = super::server(CANNED);
    let more = ["-n", "20", "-c", "1", "--timeout", "20s", "--body", &body, "-H", "X-Case: once"];
    let (code, said, report) = load(address, &[&more[..], K6].concat());
    assert_eq!(code, Some(0), "{said}");
    let total = &report["total"];
    assert_eq!((&report["generator"]["name"], &report["generator"]["protocol"]), (&json!("k6"), &json!("gRPC")));
    assert_eq!(total["statuses"], json!({"0": 5, "14": 5, "200": 5, "3": 5}), "{said}");
    assert_eq!((&total["errors"]["status"], &total["errors"]["total"]), (&json!(15), &json!(15)));
    assert_eq!((&total["requests"]["sent"], &total["latency"]["count"]), (&json!(20), &json!(20)));
    let seen = seen.lock().expect("no panic");
    assert_eq!(seen.len(), 20);
    for (head, body) in seen.iter() {
        let field = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        assert_eq!((head.uri.path(), field("x-case")), (format!("/{METHOD}").as_str(), Some("once")));
        // What is left of the time that the call has, in whatever unit.
        assert!(field("grpc-timeout").is_some_and(|timeout| !timeout.is_empty()), "{head:?}");
        let message = &body[5..];
        // The number is the text of it. Fields come in any order.
        assert!(message.windows(10).any(|part| part == b"\x0a\x05doors\x12\x015"), "{body:?}");
    }
    let loans = seen.iter().filter(|(_, body)| body.windows(4).any(|part| part == b"Loan")).count();
    assert_eq!(loans, 10, "lines in turn");
}

#[test]
#[ignore = "needs k6"]
fn values_of_k6_are_of_the_type_of_their_field() {
    let operation = r#"operations:
  - id: one
    grpc: {method: lab.Lab/One}
    body: {text: '{"count":{number},"text":"{word}","large":{large}}'}
    headers: {x-number: "{number}"}
    params:
      number: {csv: words.csv, column: number, order: sequence}
      word: {csv: words.csv, column: word, order: sequence}
      large: {counter: 9000000000}"#;
    let (code, said, report, seen) = run(operation, ONCE);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(report["total"]["statuses"], json!({"200": 6}), "{said}");
    let found = |seen: &server::Seen| -> Vec<(i32, String, i64)> {
        let words = seen.words.lock().expect("no panic");
        words.iter().map(|word| (word.count, word.text.clone(), word.large)).collect()
    };
    let expected: Vec<_> = (0..6)
        .map(|number| [(1, "a \"b\""), (2, "Ü")][number % 2])
        .zip(9_000_000_000_i64..)
        .map(|((count, text), large)| (count, text.to_owned(), large))
        .collect();
    assert_eq!(found(&seen), expected);
    // A number without quotes is the text of it where the field has a text, and keeps its digits where it is a long one.
    let operation = r#"operations:
  - id: one
    grpc: {method: lab.Lab/One}
    body: {text: '{"count":{n},"text":{n},"large":{long}}'}
    params: {n: {int: [1, 3], order: sequence}, long: {list: [9007199254740993]}}"#;
    let (code, said, _, seen) = run(operation, ONCE);
    assert_eq!(code, Some(0), "{said}");
    let expected: Vec<_> = (0..6).map(|n| (n % 3 + 1, (n % 3 + 1).to_string(), 9_007_199_254_740_993)).collect();
    assert_eq!(found(&seen), expected);
    let operation = "operations: [{id: one, grpc: {method: lab.Lab/One}, body: {lines: lines}}]";
    let (code, said, _, seen) = run(operation, ONCE);
    assert_eq!(code, Some(0), "{said}");
    let expected: Vec<_> = (0..6).map(|n| [(1, String::new(), 0), (2, "5".to_owned(), 0)][n % 2].clone()).collect();
    assert_eq!(found(&seen), expected, "lines in turn");
}

#[test]
#[ignore = "needs k6"]
fn k6_sends_a_value_of_a_response_in_the_next_message() {
    let operation = r#"operations:
  - id: one
    grpc: {method: lab.Lab/One}
    body: {text: '{"count":{last},"large":{large}}'}
    params: {last: {captured: next, else: 1}, large: {captured: large, else: "9000000000"}}
    capture: [{name: next, json: /count, plus: 1}, {name: large, json: /large}]"#;
    let (code, said, _, seen) = run(operation, ONCE);
    assert_eq!(code, Some(0), "{said}");
    let found: Vec<(i32, i64)> =
        seen.words.lock().expect("no panic").iter().map(|word| (word.count, word.large)).collect();
    assert_eq!(found, (1..=6).map(|count| (count, 9_000_000_000)).collect::<Vec<_>>());
}

#[test]
#[ignore = "needs k6"]
fn what_proves_wrong_or_never_ends_with_k6_is_an_error() {
    let operation = r#"operations:
  - id: one
    grpc: {method: lab.Lab/One}
    body: {text: '{"count":{last},"text":"seven"}'}
    params: {last: {captured: word, else: 1}}
    capture: [{name: word, json: /text}]"#;
    let (code, said, report, seen) = run(operation, ONCE);
    assert_eq!(code, Some(0), "{said}");
    let total = &report["total"];
    assert_eq!((&total["errors"]["unsent"], &total["errors"]["total"]), (&json!(5), &json!(5)), "{total}");
    assert_eq!((&total["requests"]["sent"], seen.words.lock().expect("no panic").len()), (&json!(1), 1));
    // A deadline is a status of k6's, whoever notices first that it is over.
    let operation =
        "operations: [{id: one, grpc: {method: lab.Lab/One}, body: {text: '{\"text\":\"hang\"}'}}]\ntimeout: 300ms";
    let (_, said, report, _) = run(operation, "load: {closed: {users: 2, iterations: 4}}");
    assert_eq!(report["total"]["statuses"], json!({"4": 4}), "{said}");
    assert_eq!(report["total"]["errors"]["status"], 4);
}

#[test]
#[ignore = "needs k6"]
fn a_dead_server_or_one_that_dies_is_no_crash_with_k6() {
    let port = testkit::ports::Port::free();
    let (code, said, report) = load(port.address(), &[&["-n", "4", "-c", "2"], K6].concat());
    let errors = &report["total"]["errors"];
    assert_eq!((&errors["connect"], &errors["total"], code), (&json!(4), &json!(4), Some(1)), "{said}");
    // Reflection is requested first, and says that nobody is there.
    let url = format!("http://{}", port.address());
    let (code, said, _) = gauge(&[&["load", &url, "--grpc", METHOD, "-n", "1"], K6].concat());
    assert!(code == Some(69) && said.contains("reflection at"), "{code:?} {said}");
    let none = ["load", &url, "--grpc", "com.example.grpc.EventService/None", "--proto", PROTO, "-n", "1"];
    let (code, said, _) = gauge(&[&none[..], K6].concat());
    assert!(code == Some(64) && said.contains("there is no method"), "{code:?} {said}");
}
