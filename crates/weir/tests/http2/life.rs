//! The life of a connection: drain, reload, idle, `max_requests`, timeouts, many streams with the neighbouring features.

use testkit::{DEADLINE, Gate, Signal, Upstream, Weir, responder, wait};

use crate::client::*;
use crate::{gateway, gateway_with};

#[test]
fn a_drain_says_goaway_twice_and_serves_what_runs() {
    let gate = Gate::new();
    let upstream = Upstream::start(responder::gated(&gate, responder::ok("hello")));
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    client.responses = false;
    let first = client.get("/");
    upstream.wait_for_requests(1);
    let mut idle = Client::connect(weir.addr());
    idle.until("SETTINGS", |client| !client.settings.is_empty());
    weir.signal(Signal::TERM);
    client.until("the first GOAWAY", |client| !client.goaways.is_empty());
    assert_eq!(client.goaways, [(0x7fff_ffff, NO_ERROR)]);
    // On its way when the GOAWAY was: served.
    let second = client.get("/");
    upstream.wait_for_requests(2);
    let ping = client.pings.pop().unwrap();
    client.send(&frame(PING, 1, 0, &ping));
    client.until("the second GOAWAY", |client| client.goaways.len() == 2);
    assert_eq!(client.goaways[1], (second, NO_ERROR));
    assert_eq!(idle.code_at_end(), Some(NO_ERROR), "an idle connection ends at once");
    gate.open();
    for stream in [first, second] {
        assert_eq!(client.response(stream).text(), "hello");
    }
    assert_eq!(client.code_at_end(), Some(NO_ERROR));
}

#[test]
fn a_reload_holds_for_open_connections_and_removed_listeners_drain() {
    let upstream = Upstream::start(responder::ok("old"));
    let config = |listen: &str, body: &str| {
        format!(
            "listen: {listen}\nadmin: 127.0.0.1:0\nworkers: 1\nroutes: [{{match: {{path: /*}}, respond: {{body: {body}}}}}]\n"
        )
    };
    let both = "[{bind: 127.0.0.1:0, http2: prior_knowledge}, {bind: 127.0.0.2:0, http2: prior_knowledge}]";
    let one = "[{bind: 127.0.0.1:0, http2: prior_knowledge}]";
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(config(both, "old")).start();
    let addresses = weir.addrs(2);
    let mut stays = Client::connect(addresses[0]);
    let mut goes = Client::connect(addresses[1]);
    assert_eq!((stays.fetch("/").text(), goes.fetch("/").text()), ("old".to_owned(), "old".to_owned()));
    weir.rewrite_config(&config(one, "new"));
    weir.signal(Signal::HUP);
    assert_eq!(goes.code_at_end(), Some(NO_ERROR), "its listener is gone");
    wait::until(DEADLINE, "the new configuration", || stays.fetch("/").text() == "new");
    assert!(stays.goaways.is_empty());
    drop(upstream);
}

#[test]
fn a_connection_ends_after_max_requests_and_when_idle() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway_with(&upstream, "server: {http2: {max_requests: 3}}\n", "");
    let mut client = Client::connect(weir.addr());
    for _ in 0..3 {
        assert_eq!(client.fetch("/").text(), "hello");
    }
    assert_eq!(client.code_at_end(), Some(NO_ERROR));
    let weir = gateway_with(&upstream, "server: {keep_alive: 300ms}\n", "");
    let mut idle = Client::connect(weir.addr());
    assert_eq!(idle.fetch("/").text(), "hello");
    assert_eq!(idle.code_at_end(), Some(NO_ERROR));
}

#[test]
fn a_connection_without_settings_or_end_of_head_is_ended() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway_with(&upstream, "server: {head_timeout: 200ms}\n", "");
    let mut silent = Client::raw(weir.addr());
    silent.send(&http2::PREFACE[..10]);
    silent.code_at_end();
    let mut without = Client::raw(weir.addr());
    without.responses = false;
    without.send(http2::PREFACE);
    assert_eq!(without.code_at_end(), Some(4), "SETTINGS_TIMEOUT");
    let mut open = Client::connect(weir.addr());
    open.responses = false;
    open.send(&frame(HEADERS, 0, 1, &block(&request("GET", "/", &[]))));
    assert_eq!(open.code_at_end(), Some(ENHANCE_YOUR_CALM));
    assert_eq!(upstream.request_count(), 0);
}

#[test]
fn a_cancelled_request_ends_at_the_upstream_but_for_other_readers_of_a_fill() {
    let gate = Gate::new();
    let upstream = Upstream::start(responder::gated(&gate, responder::ok("hello")));
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    let stream = client.get("/");
    upstream.wait_for_requests(1);
    client.reset(stream, CANCEL);
    upstream.wait_for_open(0);
    gate.open();
    assert_eq!(client.fetch("/").text(), "hello");

    let gate = Gate::new();
    let cached = Upstream::start({
        let gate = gate.clone();
        move |conn, _| {
            conn.pass(&gate)?;
            conn.respond(200, &[("Cache-Control", "max-age=60")], "shared")
        }
    });
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nworkers: 1\ncaches: {{c: {{mode: http}}}}\nupstreams: {{u: {{targets: [{}]}}}}\nroutes: [{{match: {{path: /*}}, upstream: u, cache: c}}]\n",
        cached.url()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let mut client = Client::connect(weir.addr());
    let leader = client.get("/");
    cached.wait_for_requests(1);
    let follower = client.get("/");
    // Both are there when a later request gets a response.
    client.send(&frame(PING, 0, 0, &[1; 8]));
    client.until("PONG", |client| !client.pings.is_empty());
    client.reset(leader, CANCEL);
    client.send(&frame(PING, 0, 0, &[2; 8]));
    client.until("PONG", |client| client.pings.len() == 2);
    gate.open();
    assert_eq!(client.response(follower).text(), "shared");
    assert_eq!(client.fetch("/").text(), "shared");
}

#[test]
fn a_hundred_streams_with_limits_a_cache_and_failing_upstreams() {
    let broken = Upstream::start(responder::in_order([
        responder::close(),
        responder::reset(),
        responder::status(503),
        responder::raw_then_close("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
        responder::raw_then_close("HTTP/1.1 200 OK\r\nContent-Le"),
        responder::raw("nonsense\r\n\r\n"),
        responder::chunked(["a", "b", "c"]),
        responder::stall(),
    ]));
    let good = Upstream::start(|conn, request| {
        conn.respond(200, &[("Cache-Control", "max-age=60")], format!("{}!", request.head.target()))
    });
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 2\ncaches: {{c: {{mode: http}}}}\nlimits: {{l: {{key: [header:x-key], rate: 1/h, burst: 5}}}}\nupstreams:\n  good: {{targets: [{}]}}\n  broken: {{targets: [{}], eject: none, retry: {{extra_attempts: 0}}, timeouts: {{first_byte: 300ms}}}}\nroutes:\n  - {{match: {{path: /cached/*}}, upstream: good, cache: c}}\n  - {{match: {{path: /limited/*}}, upstream: good, limits: [l]}}\n  - {{match: {{path: /broken/*}}, upstream: broken}}\n",
        good.url(),
        broken.url()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let mut client = Client::connect(weir.addr());
    let streams: Vec<(u32, String)> = (0..96)
        .map(|n| {
            let path = match n % 4 {
                0 => format!("/cached/{}", n % 3),
                1 => "/limited/x".to_owned(),
                2 => "/broken/x".to_owned(),
                _ => "/nowhere".to_owned(),
            };
            (client.open(&request("GET", &path, &[("x-key", "k")]), true), path)
        })
        .collect();
    let (mut allowed, mut limited) = (0, 0);
    for (stream, path) in &streams {
        let response = client.response(*stream);
        match path.as_str() {
            "/limited/x" => match response.status {
                200 => allowed += 1,
                429 => limited += 1,
                other => panic!("{other}"),
            },
            "/broken/x" => assert!(
                matches!((response.status, response.reset), (502..=504, None) | (200, Some(INTERNAL_ERROR)))
                    || response.text() == "abc",
                "{response:?}"
            ),
            "/nowhere" => assert_eq!(response.status, 404),
            cached => assert_eq!((response.status, response.text()), (200, format!("{cached}!"))),
        }
    }
    assert_eq!((allowed, limited), (5, 19));
    assert_eq!(good.requests().iter().filter(|request| request.head.target().starts_with("/cached")).count(), 3);
    assert!(client.goaways.is_empty());
    assert_eq!(good.errors(), Vec::<String>::new());
    assert_eq!(client.fetch("/cached/0").text(), "/cached/0!");
}

#[test]
fn an_upstream_that_fails_at_any_offset_never_makes_a_complete_response() {
    let whole = b"HTTP/1.1 200 OK\r\nContent-Type: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
    let upstream = Upstream::start(responder::ok(""));
    let weir = gateway_with(&upstream, "", "    timeouts: {first_byte: 200ms, idle: 200ms}\n");
    let mut client = Client::connect(weir.addr());
    for at in (0..whole.len()).step_by(3) {
        for fault in ["close", "reset", "stall"] {
            upstream.set_responder(match fault {
                "close" => responder::raw_then_close(&whole[..at]),
                "reset" => responder::raw_then_reset(&whole[..at]),
                // Slow: only now and then.
                _ if at % 15 != 0 => continue,
                _ => {
                    let part = whole[..at].to_vec();
                    Box::new(move |conn: &mut testkit::Conn, _: &testkit::Message| {
                        conn.write(&part)?;
                        conn.stall()
                    })
                }
            });
            // Refused responses cost points that time gives back: another connection in their place.
            if client.is_closed || !client.goaways.is_empty() {
                client = Client::connect(weir.addr());
            }
            let response = client.fetch("/");
            let is_error = response.has_ended && matches!(response.status, 502 | 504);
            let is_reset = response.reset == Some(INTERNAL_ERROR) && !response.has_ended;
            assert!(is_error || is_reset, "{fault} at {at}: {response:?}");
        }
    }
    upstream.set_responder(responder::raw(&whole[..]));
    assert_eq!(client.fetch("/").text(), "hello world");
}
