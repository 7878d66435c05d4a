//! Replicas of a provider that are lost: another one serves the call before another candidate does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::Reason;
use http::Response;
use serde_json::json;
use testkit::{BlackHole, DEADLINE, Gate, Upstream, Weir, wait};

use crate::client::{Received, send};

const CHAT: &str = "/v1/chat/completions";

fn completion() -> String {
    json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "served"}}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
    .to_string()
}

/// A replica that serves whole responses and streams; each response waits at the gate, if there is one.
fn replica(gate: Option<Gate>) -> Upstream {
    Upstream::start(move |conn, request| {
        if let Some(gate) = &gate {
            conn.pass(gate)?;
        }
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        if body["stream"] != true {
            return conn.respond(200, &[("Content-Type", "application/json")], completion());
        }
        conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for choice in [
            json!({"index": 0, "delta": {"content": "served"}}),
            json!({"index": 0, "delta": {}, "finish_reason": "stop"}),
        ] {
            conn.write_chunk(format!("data: {}\n\n", json!({"id": "c", "choices": [choice]})))?;
        }
        conn.write_chunk("data: [DONE]\n\n")?;
        conn.write("0\r\n\r\n")
    })
}

fn targets(replicas: &[Upstream]) -> String {
    let urls: Vec<String> = replicas.iter().map(|replica| format!("\"{}\"", replica.url())).collect();
    format!("targets: [{}]", urls.join(", "))
}

/// A gateway whose upstream `replicas` serves the model `m`, and after it `spare`, if there is one.
fn gateway(replicas: &str, spare: Option<&Upstream>) -> Weir {
    let (mut upstreams, mut providers, mut candidates) = (
        format!("  replicas: {{{replicas}}}\n"),
        "  local: {api: openai, upstream: replicas}\n".to_owned(),
        "{provider: local, model: m}".to_owned(),
    );
    if let Some(spare) = spare {
        upstreams.push_str(&format!("  spare: {{targets: [\"{}\"]}}\n", spare.url()));
        providers.push_str("  other: {api: openai, upstream: spare}\n");
        candidates.push_str(", {provider: other, model: m, tier: 2}");
    }
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\nupstreams:\n{upstreams}providers:\n{providers}\
         models:\n  m: {{candidates: [{candidates}]}}\nroutes: [{{name: ai, match: {{path: /v1/*}}, ai: {{}}}}]\n"
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

fn call(weir: &Weir, streams: bool) -> Received {
    call_of_session(weir, streams, 0)
}

fn call_of_session(weir: &Weir, streams: bool, session: u64) -> Received {
    let body = json!({"model": "m", "stream": streams, "messages": [{"role": "user", "content": "hi"}]});
    send(weir.addr(), "POST", CHAT, &[("X-Session", &session.to_string())], &body.to_string())
}

/// Sum of the samples of a family whose labels have all of `parts`.
fn sum(metrics: &str, family: &str, parts: &[&str]) -> u64 {
    let is_wanted =
        |line: &&str| line.starts_with(&format!("{family}{{")) && parts.iter().all(|part| line.contains(part));
    metrics.lines().filter(is_wanted).map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn no_call_fails_while_one_replica_is_left() {
    for balance in ["round_robin", "least_request", "ewma", "{hash: header:X-Session}"] {
        let replicas: Vec<Upstream> = (0..4).map(|_| replica(None)).collect();
        // Nothing takes lost replicas out, so that calls meet them again and again.
        let weir = gateway(&format!("{}, balance: {balance}, eject: none", targets(&replicas)), None);
        let mut calls = 0;
        let mut serves = |count: usize, what: &str| {
            for n in 0..count {
                let received = call_of_session(&weir, n % 2 == 1, calls);
                let is_complete = received.status == 200 && received.is_whole && received.text().contains("served");
                assert!(is_complete, "{balance}, {what}, call {n}: {received:?}");
                assert_eq!(received.field("x-fallback"), None, "{balance}, {what}, call {n}");
                calls += 1;
            }
        };
        serves(8, "all replicas");
        replicas[1].stop();
        serves(20, "without one");
        replicas[0].stop();
        replicas[3].stop();
        serves(20, "with one");
        assert!(replicas[2].request_count() >= 20, "{balance}");
        for lost in [0, 1, 3] {
            replicas[lost].restart();
        }
        serves(8, "all again");

        let metrics = weir.admin_get("/metrics").text().to_owned();
        let attempts = |fault: &str| sum(&metrics, "weir_ai_attempts_total", &[&format!("fault=\"{fault}\"")]);
        assert_eq!(attempts("none"), calls, "{balance}\n{metrics}");
        assert_eq!(sum(&metrics, "weir_ai_requests_total", &["end=\"complete\""]), calls, "{balance}");
        let unreached = sum(&metrics, "upstream_target_failures_total", &["kind=\"connect\""]);
        assert_eq!(attempts("F1"), unreached, "{balance}: each connection that failed is an attempt");
        assert!(unreached > 0, "{balance}: no call met a lost replica");
        assert!(sum(&metrics, "upstream_retries_total", &[]) >= unreached, "{balance}");
        let sent: usize = replicas.iter().map(Upstream::request_count).sum();
        assert_eq!(sent as u64, calls, "{balance}: no call was sent twice");
    }
}

#[test]
fn the_next_candidate_comes_after_the_last_replica() {
    let replicas: Vec<Upstream> = (0..3).map(|_| replica(None)).collect();
    let spare = replica(None);
    let weir = gateway(&format!("{}, balance: round_robin, eject: none", targets(&replicas)), Some(&spare));
    replicas[0].stop();
    replicas[1].stop();
    for _ in 0..6 {
        let received = call(&weir, false);
        assert_eq!((received.status, received.field("x-fallback")), (200, None), "{received:?}");
    }
    assert_eq!(spare.request_count(), 0);
    replicas[2].stop();
    for _ in 0..6 {
        let received = call(&weir, false);
        assert_eq!((received.status, received.field("x-fallback")), (200, Some("other")), "{received:?}");
    }
    spare.stop();
    let received = call(&weir, false);
    assert_eq!((received.status, &received.json()["error"]["code"]), (502, &json!("upstream_unreachable")));
}

#[test]
fn an_ejected_replica_is_tried_before_a_call_fails() {
    let replicas: Vec<Upstream> = (0..2).map(|_| replica(None)).collect();
    let eject = "eject: {after: 1, for: 1h, max: 50%}";
    let weir = gateway(&format!("{}, balance: round_robin, {eject}", targets(&replicas)), None);
    replicas[0].stop();
    for _ in 0..2 {
        assert_eq!(call(&weir, false).status, 200);
    }
    let ejected = || sum(weir.admin_get("/metrics").text(), "upstream_target_ejections_total", &[]);
    assert_eq!(ejected(), 1);
    // The ejected one is back, and the other is lost.
    replicas[0].restart();
    replicas[1].stop();
    for _ in 0..3 {
        let received = call(&weir, false);
        assert_eq!(received.status, 200, "{received:?}");
    }
}

#[test]
fn a_call_waits_for_a_busy_replica_and_not_at_a_lost_one() {
    let gate = Gate::new();
    let replicas = [replica(None), replica(Some(gate.clone()))];
    replicas[0].stop();
    let bounds = "eject: none, max_in_flight: 1, queue: {size: 10, timeout: 30s}";
    let weir = gateway(&format!("{}, balance: least_request, {bounds}", targets(&replicas)), None);
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| call(&weir, false))).collect();
        let waiting = || sum(weir.admin_get("/metrics").text(), "upstream_queue_waiting", &[]);
        wait::until(DEADLINE, "three calls wait for the replica that is left", || waiting() == 3);
        gate.open();
        for call in calls {
            let received = call.join().unwrap();
            assert_eq!(received.status, 200, "{received:?}");
        }
    });
    assert_eq!(replicas[1].request_count(), 4);
}

/// Connections that neither succeed nor fail: each costs the timeout of connecting, and together they end with the time to the first token.
#[test]
fn unreachable_replicas_do_not_hold_a_call_longer_than_its_first_token_may_take() {
    let holes: Vec<BlackHole> = (0..6).map(|_| BlackHole::open()).collect();
    let urls: Vec<String> = holes.iter().map(|hole| format!("\"http://{}\"", hole.address())).collect();
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\n\
         upstreams: {{replicas: {{targets: [{}], balance: round_robin, timeouts: {{connect: 500ms}}}}}}\n\
         providers: {{local: {{api: openai, upstream: replicas}}}}\n\
         models: {{m: {{candidates: [{{provider: local, model: m}}], timeouts: {{first_token: 700ms}}}}}}\n\
         routes: [{{name: ai, match: {{path: /v1/*}}, ai: {{}}}}]\n",
        urls.join(", ")
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let received = call(&weir, false);
    assert_eq!((received.status, &received.json()["error"]["code"]), (502, &json!("upstream_unreachable")));
    // The second connection begins before 700 ms have passed, a third one could not.
    let failures = sum(weir.admin_get("/metrics").text(), "upstream_target_failures_total", &["kind=\"connect\""]);
    assert!((1..=2).contains(&failures), "{failures} of {}", holes.len());
}

/// What may have been processed does not go from replica to replica.
#[test]
fn a_call_that_was_sent_is_not_sent_to_every_replica() {
    let replicas: Vec<Upstream> = (0..4).map(|_| Upstream::start(|conn, _| conn.reset())).collect();
    let weir = gateway(&format!("{}, balance: round_robin, eject: none", targets(&replicas)), None);
    let received = call(&weir, false);
    assert_eq!((received.status, &received.json()["error"]["code"]), (502, &json!("upstream_reset")));
    assert_eq!(replicas.iter().map(Upstream::request_count).sum::<usize>(), 2);
}

#[test]
fn a_retry_budget_of_nothing_tries_no_other_replica() {
    let replicas: Vec<Upstream> = (0..2).map(|_| replica(None)).collect();
    replicas[0].stop();
    let weir = gateway(&format!("{}, balance: round_robin, eject: none, retry: none", targets(&replicas)), None);
    let statuses: Vec<u16> = (0..4).map(|_| call(&weir, false).status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 502).count(), 2, "{statuses:?}");
    assert!(sum(weir.admin_get("/metrics").text(), "upstream_retries_denied_total", &[]) >= 2);
}

/// A target of HTTP/2 that refuses a stream has not processed it (RFC 9113 section 8.7).
#[test]
fn a_refused_stream_goes_to_another_replica() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let mut urls = Vec::new();
    for number in 0..4 {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        urls.push(format!("\"http://{}\"", listener.local_addr().unwrap()));
        let served = served.clone();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let served = served.clone();
                tokio::spawn(async move {
                    let mut connection = h2::server::handshake(socket).await.unwrap();
                    while let Some(Ok((request, mut send))) = connection.accept().await {
                        if number > 0 {
                            send.send_reset(Reason::REFUSED_STREAM);
                            continue;
                        }
                        let served = served.clone();
                        tokio::spawn(async move {
                            let mut body = request.into_body();
                            while body.data().await.is_some() {}
                            served.fetch_add(1, Ordering::Relaxed);
                            let head = Response::builder().header("content-type", "application/json");
                            let mut stream = send.send_response(head.body(()).unwrap(), false).unwrap();
                            stream.send_data(Bytes::from(completion()), true).unwrap();
                        });
                    }
                });
            }
        });
    }
    let replicas = format!("targets: [{}], protocol: http2, balance: round_robin, eject: none", urls.join(", "));
    let weir = gateway(&replicas, None);
    for n in 0..8 {
        let received = call(&weir, false);
        assert_eq!(received.status, 200, "call {n}: {received:?}");
    }
    assert_eq!(served.load(Ordering::Relaxed), 8);
    let metrics = weir.admin_get("/metrics").text().to_owned();
    assert!(sum(&metrics, "weir_ai_attempts_total", &["fault=\"F7\""]) > 0, "{metrics}");
}
