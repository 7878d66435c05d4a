//! Values in messages, and values from them.

use serde_json::Value;

use super::gauge;
use super::server::{self, Reflection};

/// Runs a workload of which `BASE` is the server.
fn load(operations: &str, more: &str) -> (Option<i32>, String, Value, std::sync::Arc<server::Seen>) {
    let (address, seen) = server::start(Reflection::V1);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("workload.yaml");
    std::fs::write(folder.path().join("words.csv"), "word,number\n\"a \"\"b\"\"\",1\nÜ,2\n").expect("a file");
    let yaml = format!("base: http://{address}\nprotocol: {{http2: {{streams: 4}}}}\n{operations}\n{more}\n");
    std::fs::write(&file, yaml).expect("a file");
    let (code, said, report) = gauge(&["load", "-t", "1", "--workload", &file.to_string_lossy()]);
    (code, said, report, seen)
}

const ONCE: &str = "load: {closed: {users: 1, iterations: 6}}";

#[test]
fn values_are_of_the_type_of_their_field() {
    let operation = r#"operations:
  - id: one
    grpc: {method: lab.Lab/One}
    body: {text: '{"count":{number},"text":"{word}","large":{large}}'}
    headers: {x-number: "{number}"}
    params:
      number: {csv: words.csv, column: number, order: sequence}
      word: {csv: words.csv, column: word, order: sequence}
      large: {counter: 9000000000}"#;
    let (code, said, report, seen) = load(operation, ONCE);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(report["total"]["statuses"], serde_json::json!({"200": 6}));
    let words = seen.words.lock().expect("no panic");
    let found: Vec<(i32, &str, i64)> = words.iter().map(|word| (word.count, word.text.as_str(), word.large)).collect();
    let expected: Vec<_> =
        (0..6).map(|number| [(1, "a \"b\""), (2, "Ü")][number % 2]).zip(9_000_000_000_i64..).collect();
    assert_eq!(found, expected.into_iter().map(|((count, text), large)| (count, text, large)).collect::<Vec<_>>());
}

#[test]
fn each_message_of_a_stream_has_values_of_its_own() {
    let operation = r#"operations:
  - {id: up, grpc: {method: lab.Lab/Up, messages: 3}, body: {text: '{"count":{n}}'}, params: {n: {counter: 1}}}"#;
    let (code, said, _, seen) = load(operation, "load: {closed: {users: 1, iterations: 2}}");
    assert_eq!(code, Some(0), "{said}");
    let counts: Vec<i32> = seen.words.lock().expect("no panic").iter().map(|word| word.count).collect();
    assert_eq!(counts, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_value_of_a_response_is_sent_in_the_next_message() {
    let operation = r#"operations:
  - id: one
    grpc: {method: lab.Lab/One}
    body: {text: '{"count":{last},"large":{large}}'}
    params: {last: {captured: next, else: 1}, large: {captured: large, else: "9000000000"}}
    capture: [{name: next, json: /count, plus: 1}, {name: large, json: /large}]"#;
    let (code, said, _, seen) = load(operation, ONCE);
    assert_eq!(code, Some(0), "{said}");
    let found: Vec<(i32, i64)> =
        seen.words.lock().expect("no panic").iter().map(|word| (word.count, word.large)).collect();
    assert_eq!(found, (1..=6).map(|count| (count, 9_000_000_000)).collect::<Vec<_>>());
}

#[test]
fn a_value_that_the_message_cannot_have_is_refused_before_the_load() {
    for (params, named) in [
        ("count: {list: [1, seven]}", "seven"),
        ("count: {int: [1, 3000000000]}", "3000000000"),
        ("count: {captured: x}", "nothing captures `x`"),
        ("count: 1, other: 2", "params has `other`"),
    ] {
        let operation = format!(
            "operations:\n  - {{id: one, grpc: {{method: lab.Lab/One}}, body: {{text: '{{\"count\":{{count}}}}'}}, params: {{{params}}}}}"
        );
        let (code, said, _, seen) = load(&operation, ONCE);
        assert!(code == Some(64) && said.contains(named), "{params}: {code:?} {said}");
        assert!(seen.words.lock().expect("no panic").is_empty());
    }
}

#[test]
fn a_value_that_proves_wrong_later_is_counted_and_said() {
    let operation = r#"operations:
  - id: one
    grpc: {method: lab.Lab/One}
    body: {text: '{"count":{last},"text":"seven"}'}
    params: {last: {captured: word, else: 1}}
    capture: [{name: word, json: /text}]"#;
    let (code, said, report, seen) = load(operation, ONCE);
    assert_eq!(code, Some(0), "{said}");
    let total = &report["total"];
    assert_eq!((&total["errors"]["unsent"], &total["errors"]["total"]), (&5.into(), &5.into()), "{total}");
    assert_eq!(total["requests"]["sent"], 1);
    let first = total["grpc"]["first_error"].as_str().unwrap_or_default();
    assert!(first.starts_with("no message of lab.Word"), "{first}");
    assert_eq!(seen.words.lock().expect("no panic").len(), 1);
}
