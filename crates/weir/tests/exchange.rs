//! The exchange, end to end: a real gateway between a client that sends raw bytes and upstreams that respond with raw bytes.

use std::time::{Duration, Instant};

use testkit::{Gate, RawClient, Upstream, Weir, responder, wait};

const DEADLINE: Duration = Duration::from_secs(10);

/// A gateway whose every path goes to `upstream`; `more` is appended to the file.
fn gateway(upstream: &Upstream, more: &str) -> Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]\nworkers: 1\nupstreams:\n  u:\n    targets: [{}]\n    retry: {{extra_attempts: 0}}\nroutes:\n  - match: {{path: /*}}\n    upstream: u\n{more}",
        upstream.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

#[test]
fn a_request_is_forwarded_with_own_framing_and_identity() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream, "");
    let mut client = weir.connect();
    client.send(
        "GET /a?b=c HTTP/1.1\r\nHost: api.example\r\nAccept: */*\r\nX-Forwarded-For: 6.6.6.6\r\nX_Forwarded_For: 7.7.7.7\r\n\
         Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nKeep-Alive: 5\r\nX-Request-Id: mine\r\n\r\n",
    );
    let response = client.read_response();
    assert_eq!((response.status(), response.text()), (200, "hello"));
    let request = &upstream.requests()[0];
    assert_eq!(request.head.start, "GET /a?b=c HTTP/1.1");
    assert_eq!(request.head.field("host"), Some("api.example"));
    assert_eq!(request.head.all("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(request.head.field("x-forwarded-proto"), Some("http"));
    assert_eq!(request.head.field("x-forwarded-host"), Some("api.example"));
    for gone in ["x_forwarded_for", "x-hop", "te", "keep-alive", "connection"] {
        assert_eq!(request.head.field(gone), None, "{gone}");
    }
    let id = request.head.field("x-request-id").unwrap();
    assert!(id.len() == 32 && id != "mine", "{id}");
}

#[test]
fn connections_are_kept_on_both_sides() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream, "");
    let mut client = weir.connect();
    for _ in 0..20 {
        assert_eq!(client.get("/").status(), 200);
    }
    assert_eq!(upstream.accepted(), 1);
    assert_eq!(upstream.request_count(), 20);
    assert_eq!(upstream.errors(), Vec::<String>::new());
}

#[test]
fn pipelined_requests_get_responses_in_order() {
    let upstream = Upstream::start(responder::echo());
    let weir = gateway(&upstream, "");
    let mut client = weir.connect();
    let post = "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nfirst";
    let chunked = "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nsec\r\n3;x=y\r\nond\r\n0\r\nT: 1\r\n\r\n";
    let get = "GET /g HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(format!("{post}{chunked}{get}\r\n{post}"));
    for start in ["POST /p ", "POST /c ", "GET /g ", "POST /p "] {
        let response = client.read_response();
        assert!(response.text().starts_with(start), "{}", response.text());
    }
    let bodies: Vec<Vec<u8>> = upstream.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies, [&b"first"[..], b"second", b"", b"first"]);
    assert!(upstream.requests()[1].trailers.is_empty());
    assert_eq!(upstream.errors(), Vec::<String>::new());
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let upstream = Upstream::start(responder::echo());
    let weir = gateway(&upstream, "");
    let mut client = weir.connect();
    client.send_bytewise(
        b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nsec\r\n3\r\nond\r\n0\r\n\r\n",
    );
    assert_eq!(client.read_response().status(), 200);
    assert_eq!(upstream.requests()[0].body, b"second");
    assert_eq!(client.get("/again").status(), 200);
}

#[test]
fn a_chunked_response_reaches_an_old_client_until_close() {
    let upstream = Upstream::start(responder::chunked(["one", "two", "three"]));
    let weir = gateway(&upstream, "");
    let mut client = weir.connect();
    assert_eq!(client.get("/").body, b"onetwothree");
    let mut old = weir.connect();
    old.send("GET / HTTP/1.0\r\n\r\n");
    let bytes = old.read_to_close();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\nonetwothree"), "{text}");
    assert!(text.contains("Connection: close\r\n") && !text.to_lowercase().contains("transfer-encoding"), "{text}");
}

#[test]
fn an_old_client_may_keep_its_connection() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream, "");
    let mut client = weir.connect();
    for _ in 0..2 {
        client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let response = client.read_response();
        assert_eq!(response.field("connection"), Some("keep-alive"));
    }
}

#[test]
fn each_piece_of_a_stream_passes_at_once() {
    let gate = Gate::new();
    let upstream = Upstream::start(responder::sse(["one", "two", "three"], &gate));
    let weir = gateway(&upstream, "");
    let mut client = weir.connect();
    client.request("GET", "/events", &[], "");
    for expected in ["one", "two", "three"] {
        gate.release();
        if expected == "one" {
            assert_eq!(client.read_head().status(), 200);
        }
        let piece = client.read_piece().expect("a piece before the next is released");
        assert!(String::from_utf8_lossy(&piece.data).contains(expected));
    }
}

#[test]
fn head_has_no_body_but_the_length_of_one() {
    let upstream = Upstream::start(responder::raw("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"));
    let weir = gateway(&upstream, "");
    let mut client = weir.connect();
    for _ in 0..2 {
        client.request("HEAD", "/", &[], "");
        let response = client.read_response_to("HEAD");
        assert_eq!(response.field("content-length"), Some("1234"));
    }
    assert_eq!(upstream.accepted(), 1);
}

#[test]
fn interim_responses_are_relayed_and_100_is_not() {
    let upstream = Upstream::start(responder::raw(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ));
    let weir = gateway(&upstream, "");
    let mut client = weir.connect();
    let response = client.get("/");
    assert_eq!(response.interim.len(), 1);
    assert_eq!(response.interim[0].status(), 103);
    assert_eq!(response.interim[0].field("link"), Some("</a>"));
    assert_eq!(response.text(), "ok");
}

#[test]
fn sixteen_interim_responses_are_relayed_and_no_more() {
    for (sent, status) in [(16, 200), (17, 502)] {
        let interim = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(sent);
        let upstream = Upstream::start(responder::raw_then_close(format!(
            "{interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        )));
        let weir = gateway(&upstream, "");
        let response = weir.connect().get("/");
        assert_eq!((response.interim.len(), response.status()), (16, status));
    }
}

#[test]
fn a_request_that_got_an_interim_response_is_not_sent_again() {
    for interim in ["103 Early Hints", "100 Continue"] {
        let upstream = Upstream::start(responder::in_order([
            responder::ok("first"),
            responder::raw_then_close(format!("HTTP/1.1 {interim}\r\n\r\n")),
            responder::ok("second"),
        ]));
        let yaml = format!(
            "listen: [127.0.0.1:0]\nworkers: 1\nupstreams: {{u: {{targets: [{}], retry: {{extra_attempts: 3}}}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
            upstream.url()
        );
        let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
        let mut client = weir.connect();
        assert_eq!(client.get("/").text(), "first");
        // On a connection that is used again, where a close before the first byte would be nobody's fault.
        assert_eq!(client.get("/").status(), 502);
        assert_eq!((upstream.request_count(), upstream.accepted()), (2, 1), "{interim}");
        assert_eq!(client.get("/").text(), "second");
    }
}

#[test]
fn the_gateway_requests_a_body_once_and_passes_no_expectation_on() {
    let upstream = Upstream::start(responder::echo());
    let weir = gateway(&upstream, "");
    let mut client = weir.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.read_raw(25), b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send("body");
    let response = client.read_response();
    assert_eq!(response.status(), 200);
    assert!(response.interim.is_empty());
    assert_eq!(upstream.requests()[0].body, b"body");
    assert_eq!(upstream.requests()[0].head.field("expect"), None);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: tea\r\n\r\n");
    assert_eq!(client.read_response().status(), 417);
}

#[test]
fn an_upstream_that_breaks_off_never_passes_for_complete() {
    for broken in [
        responder::close_after(10, 100),
        responder::raw_then_close("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
        responder::raw_then_close("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"),
    ] {
        let upstream = Upstream::start(broken);
        let weir = gateway(&upstream, "");
        let mut client = weir.connect();
        client.request("GET", "/", &[], "");
        assert!(client.try_read_response().is_err(), "a truncated reply must not look whole");
    }
}

#[test]
fn bytes_behind_a_response_are_no_response_to_the_next_client() {
    let upstream = Upstream::start(responder::raw(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    ));
    let weir = gateway(&upstream, "");
    for _ in 0..3 {
        assert_eq!(weir.get("/").text(), "ok");
    }
    assert_eq!(upstream.accepted(), 3, "a connection with bytes left over is never used again");
}

#[test]
fn a_response_that_cannot_be_understood_is_a_502() {
    for bad in [
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok",
        "HTTP/2 200\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nName : x\r\nContent-Length: 2\r\n\r\nok",
    ] {
        let upstream = Upstream::start(responder::raw_then_close(bad));
        let weir = gateway(&upstream, "");
        let response = weir.get("/");
        assert_eq!(response.status(), 502, "{bad:?}");
        assert_eq!(response.field("content-type"), Some("application/problem+json"));
    }
}

#[test]
fn a_client_that_goes_away_takes_its_upstream_request_with_it() {
    let upstream = Upstream::start(responder::stall());
    let weir = gateway(&upstream, "");
    let mut client = weir.connect();
    client.request("GET", "/", &[], "");
    upstream.wait_for_requests(1);
    client.reset();
    wait::until(DEADLINE, "the upstream connection to close", || upstream.open() == 0);
}

#[test]
fn a_large_body_passes_in_either_direction_in_flat_memory() {
    // Many times what the gateway and the sockets may hold of it.
    const LENGTH: u64 = 128 << 20;
    let upstream = Upstream::start(responder::large(LENGTH));
    let weir = gateway(&upstream, "");
    let idle = weir.usage().peak_resident_bytes;
    let mut client = weir.connect();
    client.set_deadline(Duration::from_secs(120));
    client.request("GET", "/", &[], "");
    assert_eq!(client.read_head().status(), 200);
    let seen = client.try_read_pattern().unwrap();
    assert_eq!((seen.bytes, seen.wrong_at), (LENGTH, None));

    let upstream = Upstream::connections(responder::sink);
    let weir_up = gateway(&upstream, "");
    let mut client = weir_up.connect();
    client.set_deadline(Duration::from_secs(120));
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {LENGTH}\r\n\r\n"));
    client.try_send_pattern(LENGTH).unwrap();
    assert_eq!(client.read_response().text(), format!("{LENGTH} ok"));
    for weir in [weir, weir_up] {
        let peak = weir.usage().peak_resident_bytes;
        assert!(peak < idle + (4 << 20), "{peak} bytes, {idle} without a request");
    }
}

#[test]
fn an_early_response_does_not_let_the_body_be_read_as_a_request() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream, "  - match: {path: /local}\n    respond: {status: 200, body: local}\n");
    let smuggled = "GET /evil HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut client = weir.connect();
    client.send(format!("POST /local HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{smuggled}", smuggled.len()));
    assert_eq!(client.read_response().text(), "local");
    assert_eq!(client.get("/after").text(), "hello", "a small body is read and the connection lives on");
    // A body that is not all there yet, and then comes.
    client.send(format!("POST /local HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", smuggled.len()));
    assert_eq!(client.read_response().text(), "local");
    client.send(smuggled);
    assert_eq!(client.get("/after").text(), "hello");
    // A large one: the connection closes instead.
    let mut client = weir.connect();
    client.send("POST /local HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    assert_eq!(client.read_response().field("connection"), Some("close"));
    client.try_send(smuggled).ok();
    client.half_close();
    client.expect_closed();
    assert!(upstream.requests().iter().all(|request| request.head.target() == "/after"));
}

#[test]
fn what_is_refused_never_reaches_the_upstream() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream, "");
    for (bytes, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("GET / HTTP/1.1\nHost: a\n\n", 400),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("GET /a/%2e%2e/%2e%2e/b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /a%2fb HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    ] {
        let mut client = weir.connect();
        client.send(bytes);
        assert_eq!(client.read_response().status(), status, "{bytes:?}");
    }
    let mut client = weir.connect();
    client.send(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9000)));
    assert_eq!(client.read_response().status(), 414);
    let mut client = weir.connect();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(200)));
    assert_eq!(client.read_response().status(), 431);
    assert_eq!(upstream.accepted(), 0);
}

#[test]
fn a_body_above_the_limit_is_refused_with_413() {
    let upstream = Upstream::start(responder::echo());
    let weir = gateway(&upstream, "    body: 1KiB\n");
    let mut client = weir.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n");
    assert_eq!(client.read_response().status(), 413);
    assert_eq!(upstream.accepted(), 0);
    let mut client = weir.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("7d0\r\n{}\r\n0\r\n\r\n", "a".repeat(2000)));
    assert_eq!(client.read_response().status(), 413);
    assert_eq!(upstream.requests().iter().filter(|request| request.complete).count(), 0);
}

#[test]
fn a_websocket_is_a_tunnel_after_101() {
    let upstream = Upstream::connections(|conn| {
        let request = conn.read_head()?;
        assert_eq!(request.field("upgrade"), Some("websocket"));
        conn.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello")?;
        loop {
            let bytes = conn.read_raw()?;
            if bytes.is_empty() {
                return Ok(());
            }
            conn.write(bytes)?;
        }
    });
    let weir = gateway(&upstream, "    upgrade: [websocket]\n");
    let mut client = weir.connect();
    client.send(
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
    );
    let head = client.read_head();
    assert_eq!(head.status(), 101);
    assert_eq!(client.read_raw(5), b"hello");
    client.send("ping");
    assert_eq!(client.read_raw(4), b"ping");
    client.half_close();
    client.expect_closed();
}

/// See `a_client_that_reads_slowly_gets_all_of_a_stored_response`: the same of a tunnel, which is not silent while its client takes something.
#[test]
fn a_tunnel_lasts_as_long_as_its_client_reads_slowly() {
    const LARGE: usize = 32 << 20;
    let upstream = Upstream::connections(|conn| {
        conn.read_head()?;
        conn.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")?;
        conn.write(vec![b'x'; LARGE])?;
        conn.read_raw().map(drop)
    });
    let weir = gateway(&upstream, "    upgrade: [websocket]\n    timeouts: {tunnel_idle: 500ms}\n");
    let mut client = weir.connect();
    client.send(
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
    );
    assert_eq!(client.read_head().status(), 101);
    let (mut next, mut count) = (Instant::now(), 0);
    wait::until(DEADLINE, "three seconds of slow reading", || {
        if next <= Instant::now() {
            next += Duration::from_millis(100);
            count += client.read_raw(32_768).len();
        }
        count >= 30 * 32_768
    });
    assert_eq!(count + client.read_raw(LARGE - count).len(), LARGE);
}

#[test]
fn an_upgrade_that_the_route_does_not_allow_stays_http() {
    let upstream = Upstream::start(responder::ok("plain"));
    let weir = gateway(&upstream, "");
    let mut client = weir.connect();
    client.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.read_response().text(), "plain");
    assert_eq!(upstream.requests()[0].head.field("upgrade"), None);
}

#[test]
fn a_dead_upstream_is_a_502_and_a_silent_one_a_504() {
    let upstream = Upstream::start(responder::ok("x"));
    let weir = gateway(&upstream, "    timeouts: {first_byte: 50ms}\n");
    assert_eq!(weir.get("/").status(), 200);
    upstream.stop();
    assert_eq!(weir.get("/").status(), 502);
    upstream.restart();
    upstream.set_responder(responder::stall());
    let response = weir.get("/");
    assert_eq!(response.status(), 504);
    assert!(response.text().contains("first_byte_timeout"), "{}", response.text());
}

#[test]
fn a_stale_pooled_connection_costs_an_idempotent_request_nothing() {
    let upstream = Upstream::start(responder::ok("x"));
    let weir = gateway(&upstream, "");
    let mut client: RawClient = weir.connect();
    for round in 0..5 {
        assert_eq!(client.get("/").status(), 200, "round {round}");
        upstream.close_connections();
        wait::until(DEADLINE, "closed", || upstream.open() == 0);
    }
}

/// A connection that its upstream closed without a response may have been stale, or the request is what the upstream fails by. The budget of
/// retries bounds how many get the second chance.
#[test]
fn repeats_on_a_reused_connection_are_bounded_by_the_budget() {
    for (budget, most) in [("0%", 1), ("20%", 2)] {
        let upstream = Upstream::start(responder::ok("x"));
        let yaml = format!(
            "listen: [127.0.0.1:0]\nworkers: 1\naccess_log: {{path: stdout}}\nupstreams:\n  u:\n    targets: [{}]\n    eject: none\n    \
             retry: {{extra_attempts: 0, budget: {budget}}}\nroutes:\n  - match: {{path: /*}}\n    upstream: u\n",
            upstream.url()
        );
        let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
        assert_eq!(weir.get("/").status(), 200);
        upstream.set_responder(responder::close());
        assert_eq!(weir.get("/fails").status(), 502);
        assert_eq!(upstream.request_count(), 1 + most, "{budget}");
        let attempts = weir.wait_for_line("the line of the log", |line| {
            let entry: serde_json::Value = serde_json::from_str(line).ok()?;
            if entry["path"] == "/fails" { entry["attempts"].as_u64() } else { None }
        });
        assert_eq!(attempts, most as u64, "{budget}");
    }
}
