//! Who is at fault when an exchange stalls. A target is at fault for the time that it kept the exchange waiting itself; a client that sends or reads
//! slowly must never make it look ill.

use std::time::Duration;

use testkit::{Gate, RawClient, Upstream, Weir, responder};

/// A gateway to `upstream` with these timeouts of the route; clients that stall are let go after a while of their own.
fn gateway(upstream: &Upstream, timeouts: &str) -> Weir {
    gateway_with(upstream, "150ms", timeouts)
}

fn gateway_with(upstream: &Upstream, client_idle: &str, timeouts: &str) -> Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 1\nserver: {{body_idle_timeout: {client_idle}}}\nupstreams:\n  u:\n    targets: [{}]\n    \
         balance: ewma\n    retry: {{extra_attempts: 0}}\nroutes:\n  - match: {{path: /*}}\n    upstream: u\n    timeouts: {{{timeouts}}}\n",
        upstream.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

/// Kinds and numbers of the failures that are booked on the one target.
fn failures(weir: &Weir) -> Vec<(String, u64)> {
    let shown: serde_json::Value = serde_json::from_str(weir.admin_get("/upstreams").text()).unwrap();
    let target = find(&shown, "failures").unwrap_or_else(|| panic!("{shown}"));
    let counts = target.as_object().unwrap().iter().map(|(kind, count)| (kind.clone(), count.as_u64().unwrap()));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn find<'a>(value: &'a serde_json::Value, name: &str) -> Option<&'a serde_json::Value> {
    match value {
        serde_json::Value::Object(members) => {
            members.get(name).or_else(|| members.values().find_map(|member| find(member, name)))
        }
        serde_json::Value::Array(elements) => elements.iter().find_map(|element| find(element, name)),
        _ => None,
    }
}

fn half_an_upload(weir: &Weir) -> RawClient {
    let mut client = weir.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf");
    client
}

#[test]
fn a_client_that_holds_its_body_back_does_not_fail_its_target() {
    for timeouts in ["total: 60ms", "total: 60ms, first_byte: 1s, idle: 1s, try: 20ms", "idle: 20ms, first_byte: 20ms"]
    {
        let upstream = Upstream::start(responder::ok("hello"));
        let weir = gateway(&upstream, timeouts);
        let response = half_an_upload(&weir).read_response();
        assert_eq!(
            (response.status(), response.field("connection")),
            (408, Some("close")),
            "{timeouts}: {}",
            response.text()
        );
        assert_eq!(failures(&weir), [], "{timeouts}");
    }
}

#[test]
fn an_upstream_that_keeps_silent_is_at_fault() {
    for (timeouts, kind) in
        [("total: 60ms", "total_timeout"), ("try: 60ms", "try_timeout"), ("first_byte: 60ms", "first_byte_timeout")]
    {
        let upstream = Upstream::connections(|conn| {
            conn.read_head()?;
            conn.stall()
        });
        let weir = gateway(&upstream, timeouts);
        assert_eq!(weir.request("POST", "/", &[], "whole").status(), 504, "{timeouts}");
        assert_eq!(failures(&weir), [(kind.to_owned(), 1)], "{timeouts}");
    }
}

/// The time of an attempt is the target's: what the client takes to send its body is not counted.
#[test]
fn an_attempt_is_not_late_because_its_client_was() {
    let silence = Upstream::connections(|conn| {
        conn.read_head()?;
        conn.stall()
    });
    let gate = Gate::new();
    let may_respond = gate.clone();
    let upstream = Upstream::start(move |conn, _| {
        conn.pass(&may_respond)?;
        conn.respond(200, &[], "hello")
    });
    let weir = gateway_with(&upstream, "20s", "try: 100ms");
    let clock = gateway(&silence, "first_byte: 110ms");
    let mut client = half_an_upload(&weir);
    upstream.wait_for_requests(1);
    // A clock without a sleep: what began later and has the same timeout has had it.
    assert_eq!(clock.get("/").status(), 504);
    client.send("body");
    gate.release();
    assert_eq!(client.read_response().text(), "hello");
    assert_eq!(failures(&weir), []);
}

/// A body whose last piece lies unsent in the gateway waits for the upstream, not for the client.
#[test]
fn an_upstream_that_does_not_read_is_at_fault() {
    let upstream = Upstream::connections(|conn| {
        conn.read_head()?;
        conn.stall()
    });
    let weir = gateway(&upstream, "idle: 60ms");
    let mut client = weir.connect();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 64 << 20));
    let _ = client.send_until_blocked(64 << 20, Duration::from_millis(20));
    let response = client.read_response();
    assert!(response.status() == 504 && response.text().contains("idle_timeout"), "{}", response.text());
    assert_eq!(failures(&weir), [("idle_timeout".to_owned(), 1)]);
}

#[test]
fn a_client_that_does_not_read_does_not_fail_its_target() {
    for timeouts in ["idle: 40ms", "total: 60ms"] {
        let upstream = Upstream::start(responder::large(64 << 20));
        let weir = gateway(&upstream, timeouts);
        let mut client = weir.connect();
        client.request("GET", "/", &[], "");
        upstream.wait_for_requests(1);
        upstream.wait_for_open(0);
        assert_eq!(failures(&weir), [], "{timeouts}");
        drop(client);
    }
}

/// An upstream may give a slow upload up; that its clients are slow says nothing about it.
#[test]
fn an_upstream_that_gives_a_stalled_upload_up_is_not_at_fault() {
    let (gate, has_head) = (Gate::new(), Gate::new());
    let (may_close, told) = (gate.clone(), has_head.clone());
    let upstream = Upstream::connections(move |conn| {
        conn.read_head()?;
        told.release();
        conn.pass(&may_close)?;
        conn.close()
    });
    let weir = gateway_with(&upstream, "20s", "");
    let mut client = half_an_upload(&weir);
    assert!(has_head.pass(Duration::from_secs(10)));
    // The client keeps the exchange waiting for longer than connecting took.
    assert_eq!(failures(&weir), []);
    gate.release();
    assert_eq!(client.read_response().status(), 502);
    assert_eq!(failures(&weir), []);
}
