//! What is stored, and what takes it away.

use std::sync::Arc;

use serde_json::json;
use testkit::Gate;

use super::{CHAT, MESSAGES, Setup, body, chat_events, is_hit, respond, wants_events};

/// The provider does this once; then all is well. Nothing of it may be stored.
#[test]
fn only_complete_responses_with_a_good_end_are_stored() {
    for fault in ["length", "content_filter", "unknown", "cut", "error event", "no end", "two ends", "500", "400"] {
        for streams in [true, false] {
            let rig = Setup::default().with(Arc::new(move |conn, message, number| {
                if number > 1 {
                    return respond(conn, message, number, None);
                }
                let events = match fault {
                    "length" | "content_filter" | "unknown" => chat_events(number, fault),
                    "cut" => chat_events(number, "stop")[..3].to_vec(),
                    "no end" => chat_events(number, "stop")[..3].to_vec(),
                    "two ends" => [chat_events(number, "stop"), chat_events(number, "stop")].concat(),
                    "error event" => {
                        let mut events = chat_events(number, "stop")[..3].to_vec();
                        events.push("data: {\"error\":{\"message\":\"broken\",\"code\":500}}\n\n".to_owned());
                        events.push("data: [DONE]\n\n".to_owned());
                        events
                    }
                    _ => return conn.respond(fault.parse().unwrap(), &[("Content-Type", "application/json")], r#"{"error":{"message":"no"}}"#),
                };
                if wants_events(message) {
                    // In one piece: what comes after `[DONE]` in a later one is not waited for, and then the response is good as it was sent.
                    let events = events.concat();
                    conn.write(format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{events}\r\n",
                        events.len()
                    ))?;
                    return if fault == "cut" { conn.close() } else { conn.write("0\r\n\r\n") };
                }
                let reason = if fault == "two ends" { "length" } else { fault };
                let body = json!({"id": "c1", "object": "chat.completion", "created": 1, "model": "real",
                    "choices": [{"index": 0, "message": {"role": "assistant", "content": "half"}, "finish_reason": reason}]});
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";
                match fault {
                    "cut" => {
                        conn.write(format!("{head}1000\r\n\r\n{body}"))?;
                        conn.close()
                    }
                    "no end" => conn.respond(200, &[("Content-Type", "application/json")], r#"{"choices":[]}"#),
                    "error event" => conn.respond(200, &[("Content-Type", "application/json")], r#"{"error":{"message":"broken"}}"#),
                    _ => conn.respond(200, &[("Content-Type", "application/json")], body.to_string()),
                }
            }));
            let body = body("chat", streams, "hello");
            let first = rig.call(&rig.one, CHAT, &body);
            assert_eq!(rig.calls(), 1, "{fault} {streams} {first:?}");
            let second = rig.call(&rig.one, CHAT, &body);
            assert!(!is_hit(&second), "{fault} {streams}: {first:?} was stored");
            assert_eq!(rig.calls(), 2, "{fault} {streams} {first:?}");
            assert!(is_hit(&rig.call(&rig.one, CHAT, &body)), "{fault} {streams}: a good one is");
        }
    }
}

/// A provider without `[DONE]` is complete: the client got it, and so does who gets the hit.
#[test]
fn a_last_event_that_was_added_is_in_the_hit() {
    let rig = Setup::default().with(Arc::new(|conn, _, number| {
        conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for event in &chat_events(number, "stop")[..4] {
            conn.write_chunk(event)?;
        }
        conn.write("0\r\n\r\n")
    }));
    let body = body("chat", true, "hello");
    let (miss, hit) = (rig.call(&rig.one, CHAT, &body), rig.call(&rig.one, CHAT, &body));
    assert!(!is_hit(&miss) && is_hit(&hit) && hit.text() == miss.text());
    assert!(hit.text().ends_with("data: [DONE]\n\n"));
}

#[test]
fn what_is_larger_than_max_body_is_passed_on_and_not_stored() {
    let rig = Setup { cache: "partition_by: [team], max_body: 1KiB", ..Setup::default() }.with(Arc::new(|conn, message, number| {
        if !wants_events(message) {
            let text = "x".repeat(5_000_000);
            let body = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}], "id": number});
            return conn.respond(200, &[("Content-Type", "application/json")], body.to_string());
        }
        conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        let events = chat_events(number, "stop");
        conn.write_chunk(&events[0])?;
        for _ in 0..2000 {
            conn.write_chunk(&events[1])?;
        }
        for event in &events[2..] {
            conn.write_chunk(event)?;
        }
        conn.write("0\r\n\r\n")
    }));
    for streams in [true, false] {
        let body = body("chat", streams, "hello");
        let before = rig.calls();
        let (first, second) = (rig.call(&rig.one, CHAT, &body), rig.call(&rig.one, CHAT, &body));
        assert!(!is_hit(&first) && !is_hit(&second), "{streams}");
        assert_eq!((rig.calls() - before, first.body.len()), (2, second.body.len()), "{streams}");
    }
}

#[test]
fn purges_take_out_all_or_one_model() {
    let rig = Setup::default().start();
    let (chat, claude) = (body("chat", true, "hello"), body("claude", false, "hello"));
    let fill = || {
        rig.call(&rig.one, CHAT, &chat);
        rig.call(&rig.two, CHAT, &chat);
        rig.call(&rig.one, MESSAGES, &claude);
    };
    for (purge, count, chat_stays, claude_stays) in [
        (r#"{"tag": "chat"}"#, 2, false, true),
        (r#"{"tag": "claude", "cache": "answers"}"#, 1, true, false),
        (r#"{"tag": "chat", "soft": true}"#, 2, false, true),
        (r#"{"all": true}"#, 3, false, false),
        (r#"{"tag": "real"}"#, 0, true, true),
    ] {
        rig.purge(r#"{"all": true}"#);
        fill();
        assert_eq!(rig.purge(purge)["purged"], count, "{purge}");
        assert_eq!(is_hit(&rig.call(&rig.one, CHAT, &chat)), chat_stays, "{purge}");
        assert_eq!(is_hit(&rig.call(&rig.one, MESSAGES, &claude)), claude_stays, "{purge}");
    }
}

/// The call began before the purge: its clients get it, and nobody else; who comes after the purge does not join it.
#[test]
fn a_purge_in_a_call_is_not_undone_by_it() {
    for (purge, has_second) in [(r#"{"all": true}"#, true), (r#"{"all": true}"#, false), (r#"{"tag": "chat"}"#, false)]
    {
        let gate = Gate::new();
        let rig = Setup::default().gated(&gate);
        let body = body("chat", true, "hello");
        let mut first = rig.begin(&rig.one, CHAT, &body);
        gate.release();
        gate.release();
        assert_eq!(first.read_head().status(), 200);
        rig.purge(purge);
        let second = has_second.then(|| rig.begin(&rig.one, CHAT, &body));
        if has_second {
            rig.provider.wait_for_requests(2);
        }
        gate.open();
        assert!(String::from_utf8(first.read_body()).unwrap().contains("\"c1\""));
        if let Some(mut second) = second {
            assert_eq!(second.read_response().status(), 200);
        }
        rig.wait_for_waiting(0);
        let text = rig.call(&rig.one, CHAT, &body).text();
        assert!(!text.contains("\"c1\""), "{purge}: what was purged is back: {text}");
        assert_eq!(rig.calls(), 2, "{purge}");
    }
}
