//! What separates one client from another: everything that the provider is told of them, and whatever it says to one of them.

use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};
use testkit::{Gate, Weir};

use super::{CHAT, Rig, Setup, body, is_hit, respond};
use crate::client::{Received, send};

/// The same provider behind another configuration.
fn changed(rig: &Rig, changes: &[(&str, &str)]) -> Weir {
    let yaml = changes.iter().fold(rig.yaml.clone(), |yaml, (from, to)| {
        assert!(yaml.contains(from), "{from} in {yaml}");
        yaml.replace(from, to)
    });
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

fn call(weir: &Weir, fields: &[(&str, &str)], body: &str) -> Received {
    send(weir.addr(), "POST", CHAT, fields, body)
}

fn is_bypass(received: &Received) -> bool {
    received.field("cache-status") == Some("weir; fwd=bypass")
}

/// Two stores of keys that know a consumer by the same name.
#[test]
fn a_name_of_another_authenticator_is_another_name() {
    let rig = Setup { cache: "partition_by: [consumer]", ..Setup::default() }.start();
    let other = tempfile();
    let key = super::keys(&other)[0].clone();
    let more = format!("auth: {{other: {{api_key: {{in: ['header:X-Other'], store: {{file: {other}}}}}}}, keys:");
    let weir = changed(&rig, &[("auth: {keys:", &more), ("auth: keys", "auth: [keys, other]")]);
    let body = body("chat", false, "hello");
    let (first, second) = ([("X-API-Key", rig.one.as_str())], [("X-Other", key.as_str())]);
    assert!(!is_hit(&call(&weir, &first, &body)) && !is_hit(&call(&weir, &second, &body)));
    assert!(is_hit(&call(&weir, &first, &body)) && is_hit(&call(&weir, &second, &body)));
    assert_eq!(rig.calls(), 2);
    let _ = std::fs::remove_file(other);
}

/// A name for a file that no other test has.
fn tempfile() -> String {
    let path = std::env::temp_dir().join(format!("weir-test-{}-keys.yaml", std::process::id()));
    path.display().to_string()
}

/// What the provider is told of the sender may change its response, whatever the partition is.
#[test]
fn what_the_provider_is_told_of_the_sender_belongs_to_the_key() {
    let rig = Setup::default().start();
    let body = body("chat", false, "hello");
    let weir = changed(&rig, &[("{api_key: {store", "{api_key: {headers: {X-User: consumer}, store")]);
    for key in [&rig.one, &rig.one_more] {
        assert!(!is_hit(&call(&weir, &[("X-API-Key", key)], &body)), "the consumers differ");
        assert!(is_hit(&call(&weir, &[("X-API-Key", key)], &body)));
    }
    // What a template writes is not known before.
    let edits = ", headers: {request: {set: {X-From: \"{client_ip}\"}}}}\n";
    let weir = changed(&rig, &[("cache: answers}\n", &format!("cache: answers{edits}"))]);
    for _ in 0..2 {
        assert!(is_bypass(&call(&weir, &[("X-API-Key", &rig.one)], &body)));
    }
}

#[test]
fn hosts_and_fields_separate() {
    let rig = Setup { cache: "shared: true", ..Setup::default() }.start();
    let body = body("chat", false, "hello");
    let routes = "routes:\n  - {name: a, match: {host: a.test, path: /v1/*}, ai: {}, cache: answers}\n  \
                  - {name: b, match: {host: b.test, path: /v1/*}, ai: {}, cache: answers}\n  - {name: ai";
    let weir = changed(&rig, &[("routes:\n  - {name: ai", routes)]);
    let at = |host: &str| {
        let mut client = weir.connect();
        client.set_deadline(testkit::DEADLINE);
        client.request("POST", CHAT, &[("Host", host)], &body);
        let response = client.read_response();
        assert_eq!(response.status(), 200, "{}", response.text());
        response.text().to_owned()
    };
    let (a, b) = (at("a.test"), at("b.test"));
    assert_ne!(a, b, "each host has its own");
    assert_eq!((at("a.test"), at("b.test")), (a, b));

    let weir = changed(&rig, &[("shared: true", "partition_by: [team, 'header:X-Tenant']")]);
    let key = ("X-API-Key", rig.one.as_str());
    assert!(!is_hit(&call(&weir, &[key, ("X-Tenant", "a")], &body)));
    assert!(is_hit(&call(&weir, &[key, ("x-tenant", "a")], &body)));
    for fields in [&[key][..], &[key, ("X-Tenant", "")], &[key, ("X-Tenant", "a"), ("X-Tenant", "a")]] {
        assert!(is_bypass(&call(&weir, fields, &body)), "{fields:?}");
    }
}

/// Members that do not count are no part of what another client gets: neither in an error nor in a response that repeats them.
#[test]
fn what_only_one_client_sent_goes_to_no_other() {
    let gate = Gate::new();
    let held = gate.clone();
    let rig = Setup::default().with(Arc::new(move |conn, message, number| {
        let sent: Value = serde_json::from_slice(&message.body).unwrap();
        if sent["user"] == "alice" {
            conn.pass(&held)?;
            let error = json!({"error": {"message": "the user `alice` is too long", "type": "invalid_request_error"}});
            return conn.respond(400, &[("Content-Type", "application/json")], error.to_string());
        }
        if message.head.target() == "/v1/responses" {
            let response = json!({"id": "r", "status": "completed", "user": sent["user"], "usage": {"input_tokens": 1, "output_tokens": 1},
                "output": [{"type": "message", "content": [{"type": "output_text", "text": "ok"}]}]});
            return conn.respond(200, &[("Content-Type", "application/json")], response.to_string());
        }
        respond(conn, message, number, None)
    }));
    let of = |user: &str| {
        let mut body: Value = serde_json::from_str(&body("chat", false, "hello")).unwrap();
        body["user"] = user.into();
        body.to_string()
    };
    let (alice, bob) = thread::scope(|scope| {
        let alice = scope.spawn(|| rig.call(&rig.one, CHAT, &of("alice")));
        rig.provider.wait_for_requests(1);
        let bob = scope.spawn(|| rig.call(&rig.one, CHAT, &of("bob")));
        rig.wait_for_waiting(2);
        gate.open();
        (alice.join().unwrap(), bob.join().unwrap())
    });
    assert_eq!((alice.status, bob.status), (400, 200), "{alice:?} {bob:?}");
    assert!(alice.text().contains("alice") && !bob.text().contains("alice"), "{bob:?}");
    let response = |user: &str| {
        let body =
            json!({"model": "chat", "store": false, "temperature": 0, "user": user, "input": "hello"}).to_string();
        rig.call(&rig.one, "/v1/responses", &body)
    };
    for user in ["carol", "dave"] {
        assert!(!is_hit(&response(user)));
        let again = response(user);
        assert!(is_hit(&again) && again.json()["user"] == user, "{again:?}");
    }
}

/// A large body whose end is that of its connection has the framing of each client, and is stored without any.
#[test]
fn a_large_body_that_ends_by_close_is_what_it_was() {
    let text = "x".repeat(1_500_000);
    let whole = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "real",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
    .to_string();
    let sent = whole.clone();
    let rig = Setup { cache: "partition_by: [team], max_body: 4MiB", ..Setup::default() }.with(Arc::new(
        move |conn, _, number| {
            conn.write("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n")?;
            // The second one is cut, which only its JSON shows.
            conn.write(if number == 2 { &sent[..1_400_000] } else { &sent })?;
            conn.close()
        },
    ));
    let first = rig.call(&rig.one, CHAT, &body("chat", false, "hello"));
    assert!(!is_hit(&first) && first.text() == whole, "{} bytes", first.body.len());
    let again = rig.call(&rig.one, CHAT, &body("chat", false, "hello"));
    assert!(is_hit(&again) && again.text() == whole);
    let cut = rig.call(&rig.one, CHAT, &body("chat", false, "cut"));
    assert!(!cut.is_whole, "{} bytes", cut.body.len());
    assert!(!is_hit(&rig.call(&rig.one, CHAT, &body("chat", false, "cut"))), "it was not stored");
    assert_eq!(rig.calls(), 3);
}

/// The first candidate fails before content: all who wait get the response of the next one, from one call of each, and so does a hit.
#[test]
fn a_fallback_serves_all_who_wait() {
    let gate = Gate::new();
    let held = gate.clone();
    let rig = Setup::default().with(Arc::new(move |conn, message, number| {
        if message.head.target() == CHAT {
            conn.pass(&held)?;
            return conn.respond(503, &[("Content-Type", "application/json")], "{}");
        }
        respond(conn, message, number, None)
    }));
    let both =
        "chat: {candidates: [{provider: p, model: real}, {provider: a, model: real-claude, max_output: 100, tier: 2}]}";
    let weir = changed(&rig, &[("chat: {candidates: [{provider: p, model: real}], attempts: 1}", both)]);
    let body = body("chat", true, "hello");
    let all: Vec<Received> = thread::scope(|scope| {
        let calls: Vec<_> = (0..20).map(|_| scope.spawn(|| call(&weir, &[("X-API-Key", &rig.one)], &body))).collect();
        rig.provider.wait_for_requests(1);
        let waiting = || weir.admin_get("/metrics").text().contains("cache_waiting{cache=\"answers\"} 20");
        testkit::wait::until(testkit::DEADLINE, "all wait for one call", waiting);
        gate.open();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let again = call(&weir, &[("X-API-Key", &rig.one)], &body);
    assert!(is_hit(&again), "{again:?}");
    for received in &all {
        assert_eq!((received.status, received.field("x-fallback")), (200, Some("a")), "{received:?}");
        assert_eq!(super::lasting(received), super::lasting(&again));
        assert_eq!(received.text(), again.text());
    }
    let at_first = rig.provider.requests().iter().filter(|request| request.head.target() == CHAT).count();
    assert_eq!((at_first, rig.calls() - at_first), (1, 1), "one call of each candidate");
}
