//! The safety rules that the exchange keeps: who may reuse a connection, repeat a request or name a field, and what an upstream may do.
//! The rules of parsing and framing are tested with the codec, in `crates/h1/tests`; its README says which rule is tested where.
//! [`invariant`] holds both together: what leaves the gateway is read by a parser that shares no code with it.

#[path = "safety/invariant.rs"]
mod invariant;
// The grammar, read without the codec's help.
#[allow(dead_code, unreachable_pub)]
#[path = "../../h1/tests/codec/support/oracle.rs"]
mod oracle;

use std::time::Duration;

use testkit::{Gate, Upstream, Weir, WireError, responder};

const DEADLINE: Duration = Duration::from_secs(10);

/// A gateway whose every path goes to `upstream`, which gets no request twice; `server` and `route` are more lines of the file.
fn gateway_with(upstream: &Upstream, server: &str, route: &str) -> Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]\nworkers: 1\n{server}upstreams:\n  u:\n    targets: [{}]\n    eject: none\n    retry: {{extra_attempts: 0}}\nroutes:\n  - match: {{path: /*}}\n    upstream: u\n{route}",
        upstream.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

fn gateway(upstream: &Upstream) -> Weir {
    gateway_with(upstream, "", "")
}

/// Rule 6, RFC 9110 section 15.5.9.
#[test]
fn a_head_without_an_end_is_a_408() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway_with(&upstream, "server: {head_timeout: 50ms}\n", "");
    let mut client = weir.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX: y");
    let response = client.read_response();
    assert_eq!((response.status(), response.field("connection")), (408, Some("close")));
    assert_eq!(upstream.accepted(), 0);
}

/// Rule 6, RFC 9110 section 15.5.9.
#[test]
fn a_body_that_stops_coming_is_a_408() {
    let upstream = Upstream::start(responder::echo());
    let weir = gateway_with(&upstream, "server: {body_idle_timeout: 50ms}\n", "");
    for body in ["Content-Length: 10\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"] {
        let mut client = weir.connect();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{body}"));
        let response = client.read_response();
        assert_eq!((response.status(), response.field("connection")), (408, Some("close")));
        client.expect_closed();
    }
    assert!(upstream.requests().iter().all(|request| !request.complete), "half a body is no request");
}

/// Rule 14, RFC 9112 section 6: what the upstream gets has the framing of the parsed body, written by the gateway.
#[test]
fn requests_are_framed_anew() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream);
    let mut client = weir.connect();
    for (request, framing, coded) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "", ""),
        ("GET / HTTP/1.1\r\nHost: a\r\ncontent-length: 0\r\n\r\n", "", ""),
        ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", "Content-Length: 0\r\n", ""),
        ("POST / HTTP/1.1\r\nHost: a\r\ncontent-length:  003 \r\n\r\nabc", "Content-Length: 3\r\n", "abc"),
        ("PUT / HTTP/1.0\r\nConnection: keep-alive\r\ncontent-length: 3\r\n\r\nabc", "Content-Length: 3\r\n", "abc"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: CHUNKED\r\n\r\n1;a=\"b\"\r\na\r\n2\r\nbc\r\n000;x\r\nT: u\r\n\r\n",
            "Transfer-Encoding: chunked\r\n",
            "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
        ),
    ] {
        client.send(request);
        assert_eq!(client.read_response().status(), 200);
        let seen = upstream.requests().pop().unwrap();
        let head = String::from_utf8(seen.head.raw.clone()).unwrap();
        let lines: Vec<&str> = head.split_inclusive("\r\n").collect();
        let of_framing = |line: &&&str| {
            let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
            name == "content-length" || name == "transfer-encoding"
        };
        assert_eq!(lines.iter().filter(of_framing).copied().collect::<String>(), framing, "{request:?}");
        assert_eq!(String::from_utf8_lossy(&seen.raw[head.len()..]), coded, "{request:?}");
    }
    assert_eq!(upstream.errors(), Vec::<String>::new());
}

/// Rules 11, 13 and 14, RFC 9112 section 6: the same towards the client; trailers and extensions end here.
#[test]
fn responses_are_framed_anew() {
    let upstream = Upstream::start(responder::ok(""));
    let weir = gateway(&upstream);
    for (raw, framing, coded) in [
        ("200 OK\r\ncontent-length:  002 \r\n\r\nok", "Content-Length: 2\r\n", "ok"),
        (
            "200 OK\r\ntransfer-encoding: CHUNKED\r\n\r\n2;a=b\r\nok\r\n0\r\nT: u\r\n\r\n",
            "Transfer-Encoding: chunked\r\n",
            "2\r\nok\r\n0\r\n\r\n",
        ),
        ("200 OK\r\n\r\nok", "Transfer-Encoding: chunked\r\n", "2\r\nok\r\n0\r\n\r\n"),
        ("204 No Content\r\n\r\n", "", ""),
        ("204 No Content\r\nContent-Length: 2\r\n\r\nok", "", ""),
        ("304 Not Modified\r\ncontent-length: 2\r\n\r\nok", "Content-Length: 2\r\n", ""),
        ("304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "", ""),
    ] {
        upstream.set_responder(responder::raw_then_close(format!("HTTP/1.1 {raw}")));
        let mut client = weir.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let response = String::from_utf8(client.read_to_close()).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let lines: Vec<String> = head.split("\r\n").map(|line| format!("{line}\r\n")).collect();
        let of_framing = |line: &&String| {
            let line = line.to_ascii_lowercase();
            line.starts_with("content-length") || line.starts_with("transfer-encoding")
        };
        assert_eq!(lines.iter().filter(of_framing).cloned().collect::<String>(), framing, "{raw:?}");
        assert_eq!(body, coded, "{raw:?}");
    }
}

/// Rule 15, RFC 9110 section 7.6.1: nobody can have a field removed that is not their connection's.
#[test]
fn a_connection_option_removes_nothing_that_the_other_side_relies_on() {
    let upstream = Upstream::start(responder::raw(
        "HTTP/1.1 200 OK\r\nConnection: Content-Length, set-cookie, CACHE-CONTROL, Vary, X-Hop\r\nSet-Cookie: a=b\r\nCache-Control: private\r\nVary: Cookie\r\n\
         X-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: x\r\nUpgrade: h2c\r\nTrailer: T\r\nContent-Length: 2\r\n\r\nok",
    ));
    let weir = gateway_with(&upstream, "", "    headers: {request: {set: {X-Tenant: ours}}}\n");
    let mut client = weir.connect();
    client.send(
        "POST / HTTP/1.1\r\nhOST: a\r\nAUTHORIZATION: Bearer x\r\nCookie: c=d\r\nX-Tenant: theirs\r\nX-Hop: 1\r\nTE: trailers\r\nProxy-Connection: y\r\n\
         Content-Length: 3\r\n\
         Connection: host, Authorization, COOKIE, x-forwarded-FOR, X-Forwarded-Proto, x-forwarded-host, X-Request-Id, Content-Length, X-Tenant, \
         X-Hop\r\n\r\nabc",
    );
    let response = client.read_response();
    assert_eq!(response.text(), "ok");
    for (name, value) in [("set-cookie", "a=b"), ("cache-control", "private"), ("vary", "Cookie")] {
        assert_eq!(response.field(name), Some(value));
    }
    for name in ["connection", "keep-alive", "proxy-connection", "upgrade", "trailer", "x-hop"] {
        assert_eq!(response.field(name), None, "{name}");
    }
    let request = &upstream.requests()[0];
    assert_eq!(request.body, b"abc");
    for (name, value) in [
        ("host", "a"),
        ("authorization", "Bearer x"),
        ("cookie", "c=d"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "a"),
        ("x-tenant", "ours"),
        ("content-length", "3"),
    ] {
        assert_eq!(request.head.field(name), Some(value), "{name}");
    }
    assert_eq!(request.head.field("x-request-id").map(str::len), Some(32));
    for name in ["connection", "te", "proxy-connection", "x-hop"] {
        assert_eq!(request.head.field(name), None, "{name}");
    }
}

/// Rule 16, RFC 9112 section 9.3.
#[test]
fn an_upstream_connection_is_used_again_only_after_a_whole_exchange() {
    let upstream = Upstream::start(responder::ok(""));
    for (raw, connections) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 1),
        ("HTTP/1.1 204 No Content\r\n\r\n", 1),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", 1),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 2),
        ("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nok", 2),
        ("HTTP/1.1 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 2\r\n\r\nok", 2),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\r\n", 2),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP", 2),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n", 2),
        ("HTTP/1.1 304 Not Modified\r\n\r\nok", 2),
    ] {
        upstream.set_responder(responder::raw(raw));
        let weir = gateway(&upstream);
        upstream.forget();
        let mut client = weir.connect();
        assert!(client.get("/1").status() < 400 && client.get("/2").status() < 400, "{raw:?}");
        assert_eq!(upstream.accepted(), connections, "{raw:?}");
    }
}

/// Rule 16: a response that comes before the request was read to its end leaves the rest of it on the connection.
#[test]
fn an_upstream_connection_with_half_a_request_on_it_is_not_used_again() {
    let upstream = Upstream::connections(|conn| {
        let head = conn.read_head()?;
        conn.respond(if head.head.method() == "POST" { 401 } else { 200 }, &[], "early")?;
        conn.stall()
    });
    let weir = gateway(&upstream);
    let mut client = weir.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc");
    let response = client.read_response();
    assert_eq!((response.status(), response.field("connection")), (401, Some("close")));
    assert_eq!(weir.get("/").status(), 200);
    assert_eq!(upstream.accepted(), 2);
}

/// Rule 16: what an upstream sends without a request is not a response to anybody.
#[test]
fn a_byte_on_an_idle_upstream_connection_closes_it() {
    let (speak, spoken) = (Gate::new(), Gate::new());
    let (may_speak, has_spoken) = (speak.clone(), spoken.clone());
    let upstream = Upstream::connections(move |conn| {
        conn.read_head()?;
        conn.respond(200, &[], "good")?;
        conn.pass(&may_speak)?;
        conn.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")?;
        has_spoken.release();
        conn.stall()
    });
    let weir = gateway_with(&upstream, "", "  - match: {path: /local}\n    respond: {status: 200, body: local}\n");
    let mut client = weir.connect();
    for connections in 1..5 {
        assert_eq!(client.get("/").text(), "good");
        assert_eq!(upstream.accepted(), connections);
        speak.release();
        assert!(spoken.pass(DEADLINE));
        // The only worker cannot learn of this request without learning of what came before it.
        assert_eq!(client.get("/local").text(), "local");
    }
}

/// Rule 17: behind what was refused nothing is a request.
#[test]
fn what_follows_a_refused_request_is_never_read_as_one() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway_with(&upstream, "", "    body: 1KiB\n");
    let next = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for (refused, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n", 413),
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: x\r\nContent-Length: 1000000\r\n\r\n", 417),
    ] {
        let mut client = weir.connect();
        client.send(format!("{refused}{next}{next}"));
        let response = client.read_response();
        assert_eq!((response.status(), response.field("connection")), (status, Some("close")), "{refused:?}");
        client.half_close();
        client.expect_closed();
    }
    assert!(upstream.requests().iter().all(|request| !request.complete));
}

/// Rules 17 and 25: after a failure in the middle of an upload the gateway knows how much of the body is still to come. A decoder that began
/// anew would take the bytes behind the body for its rest, and read on in the middle of the next request.
#[test]
fn what_follows_a_body_whose_upstream_failed_is_read_from_its_first_byte() {
    const SENT: usize = 5_000;
    let upstream = Upstream::connections(|conn| {
        let head = conn.read_head()?;
        match head.head.target() {
            "/upload" => {
                let mut body = 0;
                while body < SENT {
                    body += conn.read_raw()?.len();
                }
                Ok(())
            }
            _ => {
                conn.respond(200, &[("Connection", "close")], "hello")?;
                conn.stall()
            }
        }
    });
    let weir = gateway(&upstream);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for (framing, start, end) in [
        ("Content-Length: 20000", String::new(), String::new()),
        ("Transfer-Encoding: chunked", "4e20\r\n".to_owned(), "\r\n0\r\n\r\n".to_owned()),
    ] {
        let mut client = weir.connect();
        client.send(format!("POST /upload HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{start}{}", "b".repeat(SENT)));
        let response = client.read_response();
        assert_eq!(response.status(), 502);
        // As far from its own beginning as the part of the first body that was sent: where a decoder that began anew would read on.
        let head = "POST /next HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n";
        let padding = "c".repeat(SENT - head.len());
        let body = format!("{padding}{smuggled}{smuggled}");
        let next = format!("{head}{body}{}", "d".repeat(9000 - body.len()));
        let _ = client.try_send(format!("{}{end}{next}", "b".repeat(20_000 - SENT)));
        if response.field("connection") == Some("close") {
            client.half_close();
            client.expect_closed();
        } else {
            assert_eq!(client.read_response().text(), "hello");
        }
    }
    let targets: Vec<String> = upstream.requests().iter().map(|request| request.head.target().to_owned()).collect();
    assert_eq!(targets, ["/upload", "/next", "/upload"]);
}

/// Rule 18, RFC 9110 section 7.8: until a 101 in response to an upgrade it is all HTTP.
#[test]
fn an_upgrade_that_is_declined_stays_http_and_one_unasked_is_a_502() {
    let get = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let upstream = Upstream::start(responder::ok("declined"));
    let weir = gateway_with(&upstream, "", "    upgrade: [websocket]\n");
    let mut client = weir.connect();
    client.send(format!("{get}GET /a%2fb HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(client.read_response().text(), "declined");
    assert_eq!(client.read_response().status(), 400, "what follows is parsed as a request, by all the rules");
    assert_eq!(upstream.request_count(), 1);

    upstream.set_responder(responder::raw(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    ));
    assert_eq!(weir.get("/").status(), 502, "nobody asked");
    let mut client = weir.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.read_response().status(), 502, "a field without the connection option does not ask");
}

/// Rule 18, RFC 9110 section 7.8: an upstream switches to the requested protocol, and to no other. Otherwise the client's next bytes would reach it as
/// they are, in a protocol that the route does not allow.
#[test]
fn a_101_to_another_protocol_than_the_requested_one_opens_no_tunnel() {
    let get = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let upstream = Upstream::start(responder::ok("unused"));
    let weir = gateway_with(&upstream, "", "    upgrade: [websocket]\n");
    for line in ["Upgrade: h2c\r\n", "Upgrade: websocket, h2c\r\n", "Upgrade: websocket\r\nUpgrade: h2c\r\n", ""] {
        upstream.set_responder(responder::raw_then_close(format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n{line}\r\nbytes"
        )));
        let mut client = weir.connect();
        client.send(format!("{get}GET /a%2fb HTTP/1.1\r\nHost: a\r\n\r\n"));
        let response = client.read_response();
        assert_eq!(response.status(), 502, "{line:?}: {}", response.text());
        assert_eq!(client.read_response().status(), 400, "{line:?}: what follows is parsed as a request");
    }
    upstream.set_responder(responder::raw_then_close(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\nbytes",
    ));
    let mut client = weir.connect();
    client.send(get);
    assert_eq!(client.read_head().status(), 101, "names of protocols have no case");
    assert_eq!(client.read_raw(5), b"bytes");
}

/// Rule 18: what was a tunnel is never an HTTP connection again.
#[test]
fn a_connection_that_was_a_tunnel_is_not_pooled() {
    let upstream = Upstream::connections(|conn| {
        let request = conn.read_head()?;
        if request.field("upgrade").is_some() {
            conn.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nbye")?;
            return conn.half_close();
        }
        conn.respond(200, &[], "plain")
    });
    let weir = gateway_with(&upstream, "", "    upgrade: [websocket]\n");
    let mut client = weir.connect();
    client.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.read_head().status(), 101);
    assert_eq!(client.read_raw(3), b"bye");
    client.half_close();
    client.expect_closed();
    assert_eq!(weir.get("/").text(), "plain");
    assert_eq!(upstream.accepted(), 2);
}

/// Rule 19, RFC 9110 section 15.2.
#[test]
fn interim_responses_are_bounded() {
    let hint = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let last = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let upstream = Upstream::start(responder::raw(hint.repeat(16) + last));
    let weir = gateway(&upstream);
    let response = weir.get("/");
    assert_eq!((response.status(), response.interim.len()), (200, 16));
    upstream.set_responder(responder::raw(hint.repeat(17) + last));
    assert_eq!(weir.get("/").status(), 502);
    upstream.set_responder(responder::raw(hint.repeat(3) + last));
    let mut old = weir.connect();
    old.send("GET / HTTP/1.0\r\n\r\n");
    let response = String::from_utf8(old.read_to_close()).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "HTTP/1.0 knows no interim answers: {response}");
}

/// Rule 20, RFC 9110 section 9.2.2.
#[test]
fn only_what_is_safe_to_send_twice_is_sent_twice() {
    let broken = Upstream::start(responder::reset());
    let sound = Upstream::start(responder::ok("sound"));
    let yaml = format!(
        "listen: [127.0.0.1:0]\nworkers: 1\nupstreams:\n  u:\n    targets: [{}, {}]\n    balance: round_robin\n    eject: none\nroutes:\n  - match: {{path: /*}}\n    upstream: u\n",
        broken.url(),
        sound.url()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    for _ in 0..4 {
        for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
            assert_eq!(weir.request(method, "/", &[], "").text(), "sound", "{method}");
        }
    }
    assert!(broken.request_count() > 0, "the broken target was asked");
    for method in ["POST", "PATCH", "PURGE", "get-it"] {
        broken.forget();
        sound.forget();
        for _ in 0..8 {
            weir.request(method, "/", &[], "abc");
        }
        assert_eq!(broken.request_count() + sound.request_count(), 8, "each {method} was sent once");
        assert!(broken.request_count() > 0);
    }
    // Of what could not be sent nothing is known to the upstream.
    broken.stop();
    for _ in 0..8 {
        assert_eq!(weir.request("POST", "/", &[], "abc").text(), "sound");
    }
}

/// Rule 21, RFC 9112 section 8: a client whose reply ends with the connection must see it break.
#[test]
fn a_response_that_breaks_off_is_a_reset_for_an_old_client() {
    for broken in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n-1\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
    ] {
        let upstream = Upstream::start(responder::raw_then_close(broken));
        let weir = gateway(&upstream);
        let mut old = weir.connect();
        old.send("GET / HTTP/1.0\r\n\r\n");
        assert_eq!(old.try_read_raw(1 << 20), Err(WireError::Reset), "{broken:?}");
    }
}

/// Rule 21: nothing may precede a reply (RFC 9112 section 2.2 allows an empty line before requests only).
#[test]
fn a_response_that_begins_with_an_empty_line_is_a_502() {
    let upstream = Upstream::start(responder::raw_then_close("\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    assert_eq!(gateway(&upstream).get("/").status(), 502);
}

/// Rule 22.
#[test]
fn names_that_alias_what_the_gateway_writes_do_not_arrive() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream);
    let aliases = [
        "X_Forwarded_For",
        "x.forwarded.for",
        "X-Forwarded_Proto",
        "X_FORWARDED-HOST",
        "X_Request_Id",
        "Content_Length",
        "content.length",
        "Transfer_Encoding",
        "transfer.encoding",
        "Proxy_Connection",
        "Keep_Alive",
    ];
    let lines: String = aliases.iter().map(|name| format!("{name}: chunked\r\n")).collect();
    let mut client = weir.connect();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}X_Own: kept\r\n\r\n"));
    assert_eq!(client.read_response().status(), 200);
    let request = &upstream.requests()[0];
    for name in aliases {
        assert_eq!(request.head.field(name), None, "{name}");
    }
    assert_eq!(request.head.field("x_own"), Some("kept"));
}

/// Rule 22: the same for fields that the file names.
#[test]
fn names_that_alias_what_a_route_sets_or_removes_do_not_arrive() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway_with(
        &upstream,
        "request_id: X-Trace\n",
        "    headers: {request: {set: {X-Tenant: ours}, remove: [X-Debug]}}\n",
    );
    let mut client = weir.connect();
    client.send(
        "GET / HTTP/1.1\r\nHost: a\r\nX_Tenant: theirs\r\nx.tenant: theirs\r\nX_Debug: 1\r\nX_TRACE: mine\r\nX_Own: kept\r\n\r\n",
    );
    assert_eq!(client.read_response().status(), 200);
    let head = &upstream.requests()[0].head;
    assert_eq!(head.field("x-tenant"), Some("ours"));
    assert_eq!(head.field("x-trace").map(str::len), Some(32));
    for name in ["x_tenant", "x.tenant", "x_debug", "x_trace"] {
        assert_eq!(head.field(name), None, "{name}");
    }
    assert_eq!(head.field("x_own"), Some("kept"));
}

/// Rule 22: what is taken from a request into a head cannot end a line there.
#[test]
fn a_redirect_cannot_be_split() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway_with(&upstream, "", "  - match: {path: /old/*}\n    redirect: {to: /new/*}\n");
    for path in ["/old/a%0d%0aSet-Cookie:%20x=y", "/old/a%0aX:y", "/old/a%00"] {
        assert_eq!(weir.get(path).status(), 400, "{path}");
    }
    let response = weir.get("/old/a?b=%0d%0aSet-Cookie:%20x=y");
    assert_eq!(response.field("set-cookie"), None);
    assert!(response.status() < 400);
}

/// Rule 23, RFC 3986 section 6.2.2: what is routed is what is forwarded.
#[test]
fn routes_and_upstreams_see_one_form_of_the_path() {
    let upstream = Upstream::start(responder::ok("through"));
    let weir = gateway_with(&upstream, "", "  - match: {path: /admin/*}\n    respond: {status: 403, body: no}\n");
    for path in [
        "/admin/x",
        "/a/../admin/x",
        "/./admin/x",
        "/%61dmin/x",
        "/a/%2e%2e/admin/x",
        "/a/.%2E/admin/x",
        "/a/b/../../admin/./x",
    ] {
        assert_eq!(weir.get(path).status(), 403, "{path}");
    }
    for path in [
        "//admin/x",
        "/a//../admin/x",
        "/admin%2fx",
        "/a/..%2fadmin/x",
        "/a%5cadmin",
        "/a/%c0%ae%c0%ae/admin/x",
        "/admin;a/x",
        "/a\\..\\admin/x",
        "/%00/admin/x",
        "/../admin/x",
    ] {
        assert_eq!(weir.get(path).status(), 400, "{path}");
    }
    assert_eq!(upstream.request_count(), 0);
    for (path, target) in [("/a/%2e%2e/%62/./c%c3%a9?%2e%2e/", "/b/c%C3%A9?%2e%2e/"), ("/x/..", "/"), ("/%7Eu", "/~u")]
    {
        assert_eq!(weir.get(path).text(), "through");
        assert_eq!(upstream.requests().last().unwrap().head.target(), target, "{path}");
    }
}
