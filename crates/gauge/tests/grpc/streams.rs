//! Calls with streams.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::load_url;
use super::server::{self, Reflection, Seen};

fn load(method: &str, more: &[&str]) -> (Value, String, std::sync::Arc<Seen>) {
    let (address, seen) = server::start(Reflection::V1);
    let (code, said, report) = load_url(&format!("http://{address}"), method, more);
    assert!(report.is_object(), "{code:?} {said}");
    (report["total"].clone(), said, seen)
}

fn streams(total: &Value) -> &Value {
    &total["grpc"]["streams"]
}

#[test]
fn a_stream_of_the_server_is_one_call() {
    let body = r#"{"count":5}"#;
    let (total, said, _) = load("lab.Lab/Down", &["-n", "20", "-c", "4", "--responses", "5", "--body", body]);
    assert_eq!((&total["statuses"], &total["errors"]["total"]), (&json!({"200": 20}), &json!(0)), "{said}");
    assert_eq!((&streams(&total)["sent"], &streams(&total)["received"]), (&json!(20), &json!(100)));
    assert_eq!(streams(&total)["first_message"]["count"], 20);
    assert!(streams(&total)["round_trip"].is_null());
    // One without a message is valid, unless the workload wants some.
    let (total, said, _) = load("lab.Lab/Down", &["-n", "20", "--body", "{}"]);
    assert_eq!((&total["errors"]["total"], &streams(&total)["received"]), (&json!(0), &json!(0)), "{said}");
    let (total, said, _) = load("lab.Lab/Down", &["-n", "20", "--responses", "6", "--body", body]);
    assert_eq!((&total["errors"]["invalid_response"], &streams(&total)["short"]), (&json!(20), &json!(20)), "{said}");
    let why = total["grpc"]["first_error"].as_str().unwrap_or_default();
    assert!(why.contains("5 received") && why.contains("at least 6"), "{why}");
}

#[test]
fn windows_are_given_back_in_both_directions() {
    // 32 MiB a call, of a window of 4; and 256 KiB of the client, of a window of 64.
    let down = r#"{"count":512,"large":65536}"#;
    let (total, said, _) = load("lab.Lab/Down", &["-n", "2", "-c", "2", "--responses", "512", "--body", down]);
    assert_eq!((&total["errors"]["total"], &streams(&total)["received"]), (&json!(0), &json!(1024)), "{said}");
    let text = "y".repeat(1024);
    let up = json!({"text": text}).to_string();
    let (total, said, seen) = load("lab.Lab/Up", &["-n", "4", "-c", "2", "--messages", "256", "--body", &up]);
    assert_eq!((&total["statuses"], &total["errors"]["total"]), (&json!({"200": 4}), &json!(0)), "{said}");
    assert_eq!(seen.messages.load(Ordering::Relaxed), 1024);
    assert_eq!((&streams(&total)["sent"], &streams(&total)["received"]), (&json!(1024), &json!(4)));
}

#[test]
fn lines_are_the_messages_of_a_stream_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("words");
    std::fs::write(&file, "{\"count\":1}\n{\"count\":2}\n{\"count\":3}\n").expect("a file");
    let body = format!("@{}", file.display());
    let (total, said, seen) = load("lab.Lab/Up", &["-n", "2", "-c", "1", "--messages", "3", "--body", &body]);
    assert_eq!(total["errors"]["total"], 0, "{said}");
    let counts: Vec<i32> = seen.words.lock().expect("no panic").iter().map(|word| word.count).collect();
    assert_eq!(counts, [1, 2, 3, 1, 2, 3]);
}

#[test]
fn in_both_directions_one_message_is_in_flight() {
    let body = r#"{"count":1}"#;
    // The server ends with another status where a message came before the last had its response.
    let (total, said, seen) = load("lab.Lab/Both", &["-n", "10", "-c", "2", "--messages", "8", "--body", body]);
    assert_eq!((&total["statuses"], &total["errors"]["total"]), (&json!({"200": 10}), &json!(0)), "{said}");
    assert_eq!(seen.messages.load(Ordering::Relaxed), 80);
    assert_eq!((&streams(&total)["sent"], &streams(&total)["received"]), (&json!(80), &json!(80)));
    assert_eq!(
        (&streams(&total)["round_trip"]["count"], &streams(&total)["first_message"]["count"]),
        (&json!(80), &json!(10))
    );
    let (total, said, _) =
        load("lab.Lab/Both", &["-n", "4", "--messages", "8", "--body", r#"{"count":3,"text":"early"}"#]);
    assert_eq!((&total["errors"]["invalid_response"], &streams(&total)["short"]), (&json!(4), &json!(4)), "{said}");
}

/// The text that makes the server fail so, the statuses, the kind of error, and the message of the first one.
type Fault<'f> = (&'f str, Value, &'f str, &'f str);

#[test]
fn a_stream_that_does_not_end_well_is_an_error() {
    let faults: [Fault<'_>; 9] = [
        ("no status", json!({"2": 3}), "status", "ended without a status"),
        ("data loss", json!({"15": 3}), "status", "DATA_LOSS: as%20it%20was%20told"),
        ("unavailable", json!({"14": 3}), "status", "UNAVAILABLE: try again"),
        ("http 503", json!({"503": 3}), "status", "HTTP status 503"),
        ("cut", json!({}), "invalid_response", "in the middle of a message"),
        ("compressed", json!({}), "invalid_response", "compressed"),
        ("garbage", json!({}), "invalid_response", "not one that the method returns"),
        ("reset", json!({}), "reset", ""),
        ("hang", json!({}), "timeout", ""),
    ];
    for (fault, statuses, kind, why) in faults {
        let body = json!({"count": 2, "text": fault}).to_string();
        let timeout = if fault == "hang" { "300ms" } else { "20s" };
        for method in ["lab.Lab/Down", "lab.Lab/Both"] {
            let (total, said, seen) = load(method, &["-n", "3", "-c", "1", "--timeout", timeout, "--body", &body]);
            assert_eq!(
                (&total["statuses"], &total["errors"][kind]),
                (&statuses, &json!(3)),
                "{method} {fault}: {said}"
            );
            assert_eq!(total["errors"]["total"], 3, "{method} {fault}");
            let first = total["grpc"]["first_error"].as_str().unwrap_or_default();
            assert!(first.contains(why), "{method} {fault}: {first}");
            assert_eq!(seen.messages.load(Ordering::Relaxed), 3, "{method} {fault}");
        }
    }
}

#[test]
fn a_server_that_has_enough_before_all_was_sent_is_an_error() {
    // More than its windows take, so that the client is still sending.
    let body = json!({"text": "early", "count": 1}).to_string();
    let (total, said, _) = load("lab.Lab/Up", &["-n", "2", "-c", "1", "--messages", "100000", "--body", &body]);
    assert_eq!(total["errors"]["total"], 2, "{said} {total}");
    assert_eq!(total["requests"]["sent"], 2);
}

#[test]
fn a_response_is_read_while_a_message_waits_for_room() {
    // Larger than the window that the server gives.
    let body = json!({"text": "y".repeat(100_000)}).to_string();
    for method in ["lab.Lab/Both", "lab.Lab/Up", "lab.Lab/One", "lab.Lab/Down"] {
        let (total, said, _) =
            load(method, &["-n", "2", "-c", "1", "--timeout", "20s", "-H", "x-refused: 1", "--body", &body]);
        assert_eq!(
            (&total["statuses"], &total["errors"]["timeout"]),
            (&json!({"16": 2}), &json!(0)),
            "{method}: {said} {total}"
        );
    }
}

#[test]
fn a_single_message_may_be_as_long_as_one_of_a_stream() {
    let body = json!({"large": 20 << 20}).to_string();
    for method in ["lab.Lab/One", "lab.Lab/Down"] {
        let body = if method.ends_with("One") { body.clone() } else { body.replace('{', "{\"count\":1,") };
        let (total, said, _) = load(method, &["-n", "1", "-c", "1", "--timeout", "60s", "--body", &body]);
        assert_eq!(
            (&total["statuses"], &total["errors"]["total"]),
            (&json!({"200": 1}), &json!(0)),
            "{method}: {said}"
        );
    }
}

#[test]
fn making_messages_is_lag_of_the_generator_and_no_latency() {
    // Each is a frame of its own, and the server's library ends a connection with many small ones (`too_many_data_frames`).
    let more = ["-n", "4", "-c", "1", "--messages", "50", "--body", r#"{"count":1}"#];
    let (total, said, _) = load("lab.Lab/Up", &more);
    assert_eq!(total["errors"]["total"], 0, "{said} {total}");
    assert_eq!(total["generator_lag"]["count"], 4, "{total}");
}

#[test]
fn what_a_method_does_not_have_is_refused() {
    let (address, _) = server::start(Reflection::V1);
    let url = format!("http://{address}");
    for (method, more, named) in [
        ("lab.Lab/One", ["--messages", "2"], "takes one message"),
        ("lab.Lab/Up", ["--responses", "2"], "returns one message"),
        ("lab.Lab/Up", ["--messages", "0"], "between 1 and"),
        ("lab.Lab/Up", ["--messages", "2000000"], "between 1 and"),
    ] {
        let (code, said, _) = load_url(&url, method, &more);
        assert!(code == Some(64) && said.contains(named), "{method} {more:?}: {code:?} {said}");
    }
}
