//! Equal calls in flight share one: what each of them gets, whatever happens to the others and to the provider.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;
use testkit::{DEADLINE, Gate, RawClient, Signal, wait};

use super::{CHAT, MESSAGES, Rig, Setup, body, chat_events, is_hit, respond};
use crate::client::Received;

/// Calls from as many threads at once.
fn at_once(count: usize, call: impl Fn(usize) -> Received + Sync) -> Vec<Received> {
    thread::scope(|scope| {
        let call = &call;
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || call(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// 50 of one tenant are one call of the provider, 50 of two tenants are two. Both APIs, translated and not, streams and whole responses.
#[test]
fn fifty_equal_calls_are_one_of_each_tenant() {
    for (path, model, streams) in [
        (CHAT, "chat", true),
        (CHAT, "chat", false),
        (CHAT, "claude", true),
        (CHAT, "claude", false),
        (MESSAGES, "claude", true),
        (MESSAGES, "chat", true),
    ] {
        let gate = Gate::new();
        let rig = Setup::default().gated(&gate);
        let body = body(model, streams, "hello");
        let all = thread::scope(|scope| {
            let calls = scope.spawn(|| {
                at_once(50, |number| rig.call(if number % 2 == 0 { &rig.one } else { &rig.two }, path, &body))
            });
            rig.provider.wait_for_requests(2);
            rig.wait_for_waiting(50);
            gate.open();
            calls.join().unwrap()
        });
        assert_eq!(rig.calls(), 2, "{path} {model} {streams}");
        for tenant in 0..2 {
            let of_tenant: Vec<&Received> = all.iter().skip(tenant).step_by(2).collect();
            for received in &of_tenant {
                assert!(!is_hit(received), "{received:?}");
                assert_eq!(received.text(), of_tenant[0].text(), "{path} {model} {streams}");
            }
        }
        assert_ne!(all[0].text(), all[1].text(), "tenants have calls of their own");
        assert_eq!(rig.results(), [0, 2, 48, 0]);
        let lines = rig.lines(50);
        let tokens: Vec<u64> = lines.iter().filter_map(|line| line["ai"]["tokens_out"].as_u64()).collect();
        assert_eq!(tokens, [5, 5], "each call is charged once");
        assert_eq!(lines.iter().filter(|line| line["cache"] == "coalesced").count(), 48);
        assert!(is_hit(&rig.call(&rig.one, path, &body)) && is_hit(&rig.call(&rig.two, path, &body)));
        wait::until(DEADLINE, "nobody waits", || rig.metric("cache_waiting{cache=\"answers\"}") == 0);
    }
}

/// Reads a stream to its end; what came, and whether the end is in order.
fn rest(client: &mut RawClient) -> (String, bool) {
    let mut text = String::new();
    loop {
        match client.try_read_piece() {
            Ok(Some(piece)) => text.push_str(&String::from_utf8_lossy(&piece.data)),
            Ok(None) => return (text, true),
            Err(_) => return (text, false),
        }
    }
}

/// What a stream of this call is.
fn whole(number: usize) -> String {
    let mut events = chat_events(number, "stop");
    // The gateway wanted the usage, not the client.
    events.remove(4);
    events.concat()
}

/// Who comes later gets all from the start, at once; and who caused the call is not needed for it, before its head and after.
#[test]
fn the_client_that_caused_a_call_may_go() {
    for after_head in [false, true] {
        let gate = Gate::new();
        let rig = Setup::default().gated(&gate);
        let body = body("chat", true, "hello");
        let mut first = rig.begin(&rig.one, CHAT, &body);
        rig.provider.wait_for_requests(1);
        if after_head {
            (0..3).for_each(|_| gate.release());
            assert_eq!(first.read_head().status(), 200);
        }
        let mut second = rig.begin(&rig.one_more, CHAT, &body);
        if after_head {
            let head = second.read_head();
            assert!(head.field("cache-status").unwrap().contains("collapsed"), "{head:?}");
            let piece = second.read_piece().expect("what came before is there");
            assert!(String::from_utf8_lossy(&piece.data).starts_with("data: "));
        }
        rig.wait_for_waiting(2);
        drop(first);
        rig.wait_for_waiting(1);
        gate.open();
        let third = rig.begin(&rig.one, CHAT, &body);
        if after_head {
            let (text, is_whole) = rest(&mut second);
            assert!(is_whole && text.ends_with("data: [DONE]\n\n"), "{text}");
        } else {
            let response = second.read_response();
            assert_eq!(response.text(), whole(1));
        }
        let mut third = third;
        assert_eq!(third.read_response().text(), whole(1));
        assert_eq!(rig.calls(), 1);
        let lines = rig.lines(3);
        let of = |what: &str| lines.iter().filter(|line| line["ai"]["end"] == what).count();
        assert_eq!((of("client_disconnected"), of("complete")), (1, 2));
        // The one whose client has disconnected is charged all the same.
        let used =
            || rig.metric("weir_ai_tokens_total{model=\"chat\",provider=\"p\",kind=\"output\",estimated=\"false\"}");
        wait::until(DEADLINE, "the tokens are counted", || used() == 5);
    }
}

/// When nobody is left, the provider is not kept busy, and what it did until then is charged once.
#[test]
fn a_call_that_nobody_waits_for_is_cancelled() {
    let gate = Gate::new();
    let top = "limits:\n  tokens: {unit: tokens, algorithm: fixed_window, quota: 1000, window: month, key: global}\n";
    let rig = Setup { top, route: ", limits: [tokens]", ..Setup::default() }.gated(&gate);
    let body = body("chat", true, "hello");
    let mut clients: Vec<RawClient> = (0..3).map(|_| rig.begin(&rig.one, CHAT, &body)).collect();
    rig.provider.wait_for_requests(1);
    (0..3).for_each(|_| gate.release());
    clients.iter_mut().for_each(|client| assert_eq!(client.read_head().status(), 200));
    assert_eq!(rig.provider.open(), 1);
    drop(clients);
    rig.provider.wait_for_open(0);
    let lines = rig.lines(3);
    assert!(lines.iter().all(|line| line["ai"]["end"] == "client_disconnected"), "{lines:?}");
    let used = || {
        let text = rig.weir.admin_get("/limits?limit=tokens").text().to_owned();
        let state: serde_json::Value = serde_json::from_str(&text).unwrap();
        1000 - state["limits"][0]["state"]["remaining"].as_u64().unwrap()
    };
    wait::until(DEADLINE, "it is settled", || (1..55).contains(&used()));
    gate.open();
    assert!(!is_hit(&rig.call(&rig.one, CHAT, &body)), "half a response is not stored");
    assert_eq!(rig.calls(), 2);
}

/// Each gets the same bytes, with one error event at their end, and a body that ends in order.
#[test]
fn a_cut_after_content_is_told_to_all_alike() {
    for (path, model) in [(CHAT, "chat"), (MESSAGES, "claude"), (MESSAGES, "chat")] {
        let gate = Gate::new();
        let cut = gate.clone();
        let rig = Setup::default().with(Arc::new(move |conn, message, number| {
            if number > 1 {
                return respond(conn, message, number, None);
            }
            let events = if message.head.target() == CHAT { chat_events(1, "stop") } else { super::message_events(1) };
            conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            events[..3].iter().try_for_each(|event| conn.write_chunk(event))?;
            conn.pass(&cut)?;
            conn.reset()
        }));
        let body = body(model, true, "hello");
        let all = thread::scope(|scope| {
            let calls = scope.spawn(|| at_once(10, |_| rig.call(&rig.one, path, &body)));
            rig.wait_for_waiting(10);
            gate.open();
            calls.join().unwrap()
        });
        for received in &all {
            assert_eq!((received.status, received.is_whole), (200, true), "{received:?}");
            assert_eq!(received.text(), all[0].text());
            let error = if path == CHAT { "upstream_cut" } else { "event: error" };
            assert_eq!(received.text().matches(error).count(), 1, "{}", received.text());
            assert!(!received.text().contains("[DONE]") && !received.text().contains("message_stop"));
        }
        assert_eq!(rig.calls(), 1);
        assert!(rig.lines(10).iter().all(|line| line["ai"]["end"] == "error"));
        assert!(!is_hit(&rig.call(&rig.one, path, &body)), "it is not stored");
    }
}

/// Before content: the client of the call gets the error, and one of those who wait makes the next call. If that fails too, all get its error:
/// a provider that fails is not called once for each of them.
#[test]
fn a_failure_before_content_is_met_by_two_at_most() {
    for (failing, streams) in [(1, true), (1, false), (usize::MAX, true), (usize::MAX, false)] {
        let gate = Gate::new();
        let held = gate.clone();
        let rig = Setup::default().with(Arc::new(move |conn, message, number| {
            conn.pass(&held)?;
            if number <= failing {
                return conn.respond(
                    500,
                    &[("Content-Type", "application/json")],
                    r#"{"error":{"message":"of the provider"}}"#,
                );
            }
            respond(conn, message, number, None)
        }));
        let body = body("chat", streams, "hello");
        let all = thread::scope(|scope| {
            let calls = scope.spawn(|| at_once(20, |_| rig.call(&rig.one, CHAT, &body)));
            rig.wait_for_waiting(20);
            gate.release();
            // All but the one whose call failed wait for the next.
            rig.provider.wait_for_requests(2);
            rig.wait_for_waiting(19);
            gate.open();
            calls.join().unwrap()
        });
        let served = all.iter().filter(|received| received.status == 200).count();
        let own =
            all.iter().filter(|received| received.status == 500 && received.text().contains("of the provider")).count();
        if failing == 1 {
            assert_eq!((served, own), (19, 1), "{all:?}");
        } else {
            assert_eq!((served, own), (0, 2), "{all:?}");
            let others = all.iter().filter(|received| received.status == 502);
            assert!(others.clone().all(|received| received.json()["error"]["message"].is_string()), "{all:?}");
            assert_eq!(others.count(), 18, "{all:?}");
        }
        assert_eq!(rig.calls(), 2);
    }
}

/// A refusal of the request is for the client that caused the call: it may quote what only that client sent. The others make calls of their own.
#[test]
fn a_refusal_is_for_the_client_that_caused_the_call() {
    let gate = Gate::new();
    let held = gate.clone();
    let refusal =
        json!({"error": {"message": "no such thing", "type": "invalid_request_error", "param": null, "code": null}})
            .to_string();
    let body_of_it = refusal.clone();
    let rig = Setup::default().with(Arc::new(move |conn, _, number| {
        if number == 1 {
            conn.pass(&held)?;
        }
        conn.respond(400, &[("Content-Type", "application/json")], &body_of_it)
    }));
    let body = body("chat", true, "hello");
    let all = thread::scope(|scope| {
        let calls = scope.spawn(|| at_once(10, |_| rig.call(&rig.one, CHAT, &body)));
        rig.wait_for_waiting(10);
        gate.open();
        calls.join().unwrap()
    });
    assert!(all.iter().all(|received| received.status == 400 && received.text() == refusal), "{all:?}");
    assert_eq!(rig.calls(), 10);
    rig.call(&rig.one, CHAT, &body);
    assert!(!rig.lines(11).iter().any(|line| line["cache"] == "hit"), "it is not stored");
}

/// One key has no tokens left: the call of another key of the team is not refused for that.
#[test]
fn the_limits_of_one_client_are_not_those_of_another() {
    let gate = Gate::new();
    let top =
        "limits:\n  tokens: {unit: tokens, algorithm: fixed_window, quota: 100, window: month, key: virtual_key}\n";
    let rig = Setup { top, route: ", limits: [tokens]", ..Setup::default() }.gated(&gate);
    gate.open();
    for number in 0..3 {
        rig.call(&rig.one, CHAT, &body("chat", false, &format!("other {number}")));
    }
    let large = body("chat", true, "hello").replace("50", "80");
    let all = at_once(20, |number| rig.call(if number % 2 == 0 { &rig.one } else { &rig.one_more }, CHAT, &large));
    for (number, received) in all.iter().enumerate() {
        // One that waited for the call of the other key, or found its response stored, has it too.
        let may_be_refused = number % 2 == 0;
        assert!(received.status == 200 || (may_be_refused && received.status == 429), "{number} {received:?}");
    }
    assert!(is_hit(&rig.call(&rig.one, CHAT, &large)));
}

/// A client that does not read delays nobody for long, and is not told that it has all.
#[test]
fn a_slow_reader_of_what_is_too_large_to_be_kept_is_cut_off() {
    // More than the buffers of sockets hold.
    const EVENTS: usize = 30_000;
    let gate = Gate::new();
    let held = gate.clone();
    let rig = Setup { cache: "partition_by: [team], max_body: 64KiB", ..Setup::default() }.with(Arc::new(
        move |conn, _, number| {
            conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            let events = chat_events(number, "stop");
            events[..2].iter().try_for_each(|event| conn.write_chunk(event))?;
            conn.pass(&held)?;
            let many = events[1].replace("response ", &format!("response {}", "x".repeat(1000))).repeat(100);
            for _ in 0..EVENTS / 100 {
                conn.write_chunk(&many)?;
            }
            events[2..].iter().try_for_each(|event| conn.write_chunk(event))?;
            conn.write("0\r\n\r\n")
        },
    ));
    let body = body("chat", true, "hello");
    // Two that do not read yet, of which one has caused the call, and one that does.
    let mut slow: Vec<RawClient> = (0..2).map(|_| rig.begin(&rig.one, CHAT, &body)).collect();
    rig.provider.wait_for_requests(1);
    let fast = thread::scope(|scope| {
        let fast = scope.spawn(|| rig.call(&rig.one_more, CHAT, &body));
        rig.wait_for_waiting(3);
        gate.open();
        fast.join().unwrap()
    });
    assert!(fast.is_whole && fast.text().ends_with("data: [DONE]\n\n"), "{}", fast.body.len());
    assert_eq!((fast.text().matches("response ").count(), rig.calls()), (EVENTS + 1, 1));
    for client in &mut slow {
        client.set_deadline(Duration::from_secs(60));
        assert_eq!(client.read_head().status(), 200);
        let (text, is_whole) = rest(client);
        assert!(!text.contains("[DONE]"), "a part that looks like the whole: {} bytes", text.len());
        assert!(text.contains("upstream_cut") || !is_whole, "{} bytes", text.len());
        assert!(fast.text().starts_with(text.split("data: {\"error\"").next().unwrap()), "what came is right");
    }
    wait::until(DEADLINE, "nobody waits", || rig.metric("cache_waiting{cache=\"answers\"}") == 0);
}

fn reload(rig: &Rig, yaml: &str) {
    let mark = rig.weir.mark();
    rig.weir.rewrite_config(yaml);
    rig.weir.signal(Signal::HUP);
    let is_reloaded = |line: &str| line.contains("configuration reloaded").then_some(());
    rig.weir.wait_for_line_after(mark, "the reload", DEADLINE, is_reloaded);
}

/// A call goes on through a reload and a drain; who waits for it gets it whole.
#[test]
fn a_reload_and_a_drain_let_a_shared_call_end() {
    for drains in [false, true] {
        let gate = Gate::new();
        let rig = Setup::default().gated(&gate);
        let body = body("chat", true, "hello");
        let mut clients: Vec<RawClient> = (0..8).map(|_| rig.begin(&rig.one, CHAT, &body)).collect();
        rig.provider.wait_for_requests(1);
        rig.wait_for_waiting(8);
        (0..3).for_each(|_| gate.release());
        clients.iter_mut().for_each(|client| assert_eq!(client.read_head().status(), 200));
        // The one that caused it goes: those of other workers wait on.
        drop(clients.remove(0));
        rig.wait_for_waiting(7);
        if drains {
            rig.weir.signal(Signal::TERM);
        } else {
            reload(&rig, &rig.yaml.replace("attempts: 1", "attempts: 2"));
        }
        gate.open();
        for client in &mut clients {
            let (text, is_whole) = rest(client);
            assert!(is_whole, "{text}");
            assert_eq!(text, whole(1));
        }
        assert_eq!(rig.calls(), 1);
        if drains {
            assert_eq!(rig.weir.wait_for_exit(DEADLINE).code(), Some(0));
        } else {
            assert!(is_hit(&rig.call(&rig.one, CHAT, &body)), "the cache goes on");
        }
    }
}

/// The worker of the client that caused the call has no other client: it stays for that of the other worker. Which worker a client comes to is
/// chance, so there are several rounds.
#[test]
fn a_drain_waits_for_a_call_that_another_worker_needs() {
    for _ in 0..8 {
        let gate = Gate::new();
        let rig = Setup::default().gated(&gate);
        let body = body("chat", true, "hello");
        let mut first = rig.begin(&rig.one, CHAT, &body);
        (0..3).for_each(|_| gate.release());
        assert_eq!(first.read_head().status(), 200);
        let mut second = rig.begin(&rig.one, CHAT, &body);
        assert_eq!(second.read_head().status(), 200);
        drop(first);
        rig.wait_for_waiting(1);
        let mark = rig.weir.mark();
        rig.weir.signal(Signal::TERM);
        rig.weir.wait_for_line_after(mark, "the drain", DEADLINE, |line| line.contains("drain").then_some(()));
        let mut text = String::new();
        while !text.contains("\"content\":\"1\"") {
            let piece = second.read_piece().expect("the first three events");
            text.push_str(&String::from_utf8_lossy(&piece.data));
        }
        // A worker that does not wait ends now.
        second.expect_silence(Duration::from_millis(200));
        gate.open();
        let (more, is_whole) = rest(&mut second);
        assert!(is_whole && text.clone() + &more == whole(1), "{text} {more}");
        assert_eq!(rig.weir.wait_for_exit(DEADLINE).code(), Some(0));
    }
}

/// Clients of HTTP/2 and HTTP/1.0 share calls with those of HTTP/1.1.
#[tokio::test]
async fn clients_of_every_protocol_share_a_call() {
    let gate = Gate::new();
    let listen = "[{bind: 127.0.0.1:0, http2: prior_knowledge}]";
    let rig = Setup { listen, ..Setup::default() }.gated(&gate);
    let body = body("chat", true, "hello");
    let socket = tokio::net::TcpStream::connect(rig.weir.addr()).await.unwrap();
    let (send, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(async move { connection.await.unwrap() });
    let mut calls = Vec::new();
    for number in 0..6 {
        let mut send = send.clone().ready().await.unwrap();
        let request =
            http::Request::post(format!("http://gateway{CHAT}")).header("x-api-key", &rig.one).body(()).unwrap();
        let (response, mut stream) = send.send_request(request, false).unwrap();
        stream.send_data(body.clone().into(), true).unwrap();
        if number == 5 {
            stream.send_reset(h2::Reason::CANCEL);
            continue;
        }
        calls.push(tokio::spawn(async move {
            let response = response.await.unwrap();
            assert_eq!(response.status(), 200);
            let mut body = response.into_body();
            let mut text = Vec::new();
            while let Some(data) = body.data().await {
                let data = data.unwrap();
                body.flow_control().release_capacity(data.len()).unwrap();
                text.extend_from_slice(&data);
            }
            String::from_utf8(text).unwrap()
        }));
    }
    let mut old = rig.weir.connect();
    old.set_deadline(DEADLINE);
    old.send(format!("POST {CHAT} HTTP/1.0\r\nX-API-Key: {}\r\nContent-Length: {}\r\n\r\n{body}", rig.one, body.len()));
    let rig = Arc::new(rig);
    let waiting = rig.clone();
    tokio::task::spawn_blocking(move || waiting.wait_for_waiting(6)).await.unwrap();
    gate.open();
    for call in calls {
        assert_eq!(call.await.unwrap(), whole(1));
    }
    let text = tokio::task::spawn_blocking(move || String::from_utf8(old.read_to_close()).unwrap()).await.unwrap();
    assert!(text.ends_with(&whole(1)), "{text}");
    assert_eq!(rig.calls(), 1);
}
