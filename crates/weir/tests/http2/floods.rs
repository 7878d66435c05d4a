//! Abuse: each flood ends with the stated code, and costs the upstream no more than the limits say.

use testkit::{DEADLINE, Upstream, responder, wait};

use crate::client::*;
use crate::{gateway, gateway_with};

#[test]
fn rapid_reset_makes_no_room_and_ends_the_connection() {
    // CVE-2023-44487. Exchanges that do not see the reset yet count.
    let upstream = Upstream::start(responder::stall());
    let weir = gateway_with(&upstream, "server: {http2: {max_concurrent_streams: 10}}\n", "");
    let mut client = Client::connect(weir.addr());
    for _ in 0..2000 {
        let stream = client.get("/");
        client.reset(stream, CANCEL);
    }
    assert_eq!(client.code_at_end(), Some(ENHANCE_YOUR_CALM));
    assert!(upstream.request_count() <= 400, "{}", upstream.request_count());
    upstream.wait_for_open(0);
    // Others are served.
    upstream.set_responder(responder::ok("hello"));
    assert_eq!(Client::connect(weir.addr()).fetch("/").text(), "hello");
    wait::until(DEADLINE, "the count of what was paid for", || {
        weir.admin_get("/metrics").text().contains(r#"http2_abuse_total{kind="client_reset"}"#)
    });
}

#[test]
fn made_you_reset_is_paid_for_with_every_trigger() {
    // CVE-2025-8671: the client forces the gateway to reset the stream.
    let upstream = Upstream::start(responder::stall());
    let weir = gateway(&upstream);
    let triggers: [fn(u32) -> Vec<u8>; 3] = [
        |stream| frame(WINDOW_UPDATE, 0, stream, &[0; 4]),
        |stream| frame(WINDOW_UPDATE, 0, stream, &0x7fff_ffff_u32.to_be_bytes()),
        |stream| frame(2, 0, stream, &[&stream.to_be_bytes()[..], &[0]].concat()),
    ];
    for trigger in triggers {
        let mut client = Client::connect(weir.addr());
        for _ in 0..300 {
            let stream = client.open(&request("POST", "/", &[]), false);
            client.send(&trigger(stream));
        }
        assert_eq!(client.code_at_end(), Some(ENHANCE_YOUR_CALM));
        upstream.wait_for_open(0);
    }
}

#[test]
fn floods_of_frames_end_the_connection() {
    let upstream = Upstream::start(responder::ok(""));
    let weir = gateway(&upstream);
    let of = |bytes: Vec<u8>, count: usize| bytes.repeat(count);
    for (what, flood) in [
        ("PING", of(frame(PING, 0, 0, &[0; 8]), 1000)),
        ("SETTINGS", of(frame(SETTINGS, 0, 0, &[]), 300)),
        ("PRIORITY", of(frame(2, 0, 1, &[0, 0, 0, 3, 0]), 1000)),
        ("unknown frames", of(frame(0x77, 0, 0, &[]), 1000)),
        ("WINDOW_UPDATE", of(frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()), 1000)),
    ] {
        let mut client = Client::connect(weir.addr());
        client.send(&flood);
        assert_eq!(client.code_at_end(), Some(ENHANCE_YOUR_CALM), "{what}");
    }
    let mut client = Client::connect(weir.addr());
    let stream = client.open(&request("POST", "/", &[]), false);
    client.send(&of(frame(DATA, 0, stream, &[]), 1000));
    assert_eq!(client.code_at_end(), Some(ENHANCE_YOUR_CALM), "empty DATA");
}

#[test]
fn a_continuation_flood_ends_the_connection_and_reaches_nobody() {
    let upstream = Upstream::start(responder::ok(""));
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    client.send(&frame(HEADERS, 0, 1, &block(&request("GET", "/", &[]))));
    for _ in 0..100 {
        client.send(&frame(CONTINUATION, 0, 1, &block(&[("x", "y")])));
    }
    assert_eq!(client.code_at_end(), Some(ENHANCE_YOUR_CALM));
    assert_eq!(upstream.request_count(), 0);
}

#[test]
fn a_head_above_the_limits_is_431_and_the_connection_goes_on() {
    let upstream = Upstream::start(responder::ok(""));
    let weir = gateway_with(&upstream, "server: {head: 8KiB, fields: 20}\n", "");
    let mut client = Client::connect(weir.addr());
    let large = "x".repeat(6000);
    let stream = client.open(&request("GET", "/", &[("a", &large), ("b", &large)]), true);
    assert_eq!(client.response(stream).status, 431);
    let many: Vec<(&str, &str)> = (0..40).map(|_| ("x", "y")).collect();
    let stream = client.open(&request("GET", "/", &many), true);
    assert_eq!(client.response(stream).status, 431);
    assert_eq!(client.fetch("/").status, 200);
    assert_eq!(upstream.request_count(), 1);
}

#[test]
fn streams_above_the_limit_are_refused_and_the_others_served() {
    let gate = testkit::Gate::new();
    let upstream = Upstream::start(responder::gated(&gate, responder::ok("hello")));
    let weir = gateway_with(&upstream, "server: {http2: {max_concurrent_streams: 3}}\n", "");
    let mut client = Client::connect(weir.addr());
    let streams: Vec<u32> = (0..5).map(|_| client.get("/")).collect();
    for &refused in &streams[3..] {
        assert_eq!(client.response(refused).reset, Some(REFUSED_STREAM));
    }
    assert_eq!(client.settings.get(&3), Some(&3));
    gate.open();
    for &served in &streams[..3] {
        assert_eq!(client.response(served).text(), "hello");
    }
    assert_eq!(client.fetch("/").text(), "hello");
    assert_eq!(upstream.request_count(), 4);
}

/// What one address may lose on all its connections together. Addresses of 127.0.0.0/8 are each a client of their own.
#[test]
fn an_address_that_floods_again_and_again_gets_no_further_connection() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway_with(&upstream, "server: {http2: {abuse_per_client: 1000/h}}\n", "");
    let flood = frame(PING, 0, 0, &[0; 8]).repeat(400);
    for round in 0..5 {
        let mut client = Client::connect(weir.addr());
        client.send(&flood);
        assert_eq!(client.code_at_end(), Some(ENHANCE_YOUR_CALM), "{round}");
    }
    // Closed before anything is read: neither protocol gets an octet.
    for _ in 0..3 {
        let mut client = Client::connect(weir.addr());
        assert_eq!(client.code_at_end(), None);
        assert!(client.settings.is_empty());
        let mut client = weir.connect();
        let _ = client.try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.expect_closed();
    }
    let refused = "http2_connections_refused_total{worker=\"0\"} 6";
    let metrics = weir.admin_get("/metrics");
    assert!(metrics.text().lines().any(|line| line == refused), "{}", metrics.text());
    // Other addresses are other clients.
    let mut other = testkit::RawClient::connect_from("127.0.0.2".parse().unwrap(), weir.addr());
    assert_eq!(other.get("/").text(), "hello");
}

/// Points that a connection has lost count also when it ended in peace; honest ones lose none.
#[test]
fn floods_that_stop_in_time_are_paid_for_and_honest_work_is_not() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway_with(&upstream, "server: {http2: {abuse_per_client: 1000/h}}\n", "");
    for _ in 0..50 {
        let mut client = Client::connect(weir.addr());
        for _ in 0..10 {
            assert_eq!(client.fetch("/").text(), "hello");
        }
    }
    // 140 points each time: above the mark at which a connection is told to end.
    let mut served = 0;
    wait::until(DEADLINE, "a refusal", || {
        let mut client = Client::connect(weir.addr());
        client.send(&frame(PING, 0, 0, &[0; 8]).repeat(141));
        let is_served = wait::try_some(DEADLINE, || {
            client.read(std::time::Duration::from_millis(50));
            (client.is_closed || client.pings.len() >= 141).then_some(!client.is_closed)
        });
        served += usize::from(is_served == Some(true));
        is_served == Some(false)
    });
    // The last one begins with at least 200 points; those of a connection are counted when it has ended, which is a moment later.
    assert!((6..=12).contains(&served), "{served}");
}

/// A load balancer that is trusted has the connections of all its clients; an address in its header is one of a client.
#[test]
fn trusted_proxies_pay_for_nobody() {
    let upstream = Upstream::start(responder::ok("hello"));
    let top = "trusted_proxies: [127.0.0.1]\nserver: {http2: {abuse_per_client: 200/h}}\n";
    let weir = gateway_with(&upstream, top, "");
    for _ in 0..4 {
        let mut client = Client::connect(weir.addr());
        client.send(&frame(PING, 0, 0, &[0; 8]).repeat(400));
        assert_eq!(client.code_at_end(), Some(ENHANCE_YOUR_CALM));
    }
    assert_eq!(Client::connect(weir.addr()).fetch("/").text(), "hello");
}
