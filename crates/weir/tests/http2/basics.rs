//! What every client needs: requests and responses of all kinds, on one port with HTTP/1.1.

use testkit::{DEADLINE, Upstream, responder, wait};

use crate::client::{Client, request};
use crate::{gateway, gateway_with};

#[test]
fn one_port_speaks_both_protocols_by_the_preface() {
    let upstream = Upstream::start(responder::echo());
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    assert_eq!(client.fetch("/x?y=1").status, 200);
    assert_eq!(weir.get("/x").status(), 200);
    // The preface in pieces, and a method that begins like it.
    let mut pieces = Client::raw(weir.addr());
    let bytes = [&http2::PREFACE[..], &crate::client::frame(crate::client::SETTINGS, 0, 0, &[])].concat();
    for byte in bytes {
        pieces.send(&[byte]);
    }
    assert_eq!(pieces.fetch("/").status, 200);
    let mut similar = weir.connect();
    similar.send("PRINT / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(similar.read_response().status(), 200);
    let heads: Vec<String> = upstream
        .requests()
        .iter()
        .map(|request| format!("{} {} {}", request.head.method(), request.head.target(), request.head.version()))
        .collect();
    assert_eq!(heads, ["GET /x?y=1 HTTP/1.1", "GET /x HTTP/1.1", "GET / HTTP/1.1", "PRINT / HTTP/1.1"]);
}

#[test]
fn a_listener_that_does_not_say_so_speaks_http_1_only() {
    let weir = testkit::Weir::builder(env!("CARGO_BIN_EXE_weir"))
        .config("listen: [127.0.0.1:0]\nroutes: [{match: {path: /*}, respond: {body: one}}]\n")
        .start();
    let mut client = weir.connect();
    client.send(http2::PREFACE);
    assert!(matches!(client.read_response().status(), 400 | 505));
}

#[test]
fn bodies_of_all_sizes_go_both_ways() {
    let upstream = Upstream::start(|conn, request| conn.respond(200, &[], &request.body));
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    for length in [0, 1, 8_191, 16_384, 16_385, 65_536, 300_000] {
        let body: Vec<u8> = (0..length).map(|n: usize| (n / 251) as u8 ^ n as u8).collect();
        for says_length in [true, false] {
            let text = length.to_string();
            let more = [("content-length", &*text)];
            let fields = request("POST", "/echo", if says_length { &more } else { &[] });
            let stream = client.open(&fields, false);
            // No more than the windows allow, which the gateway opens as the upstream takes bytes.
            let mut window: u32 = 65_535;
            for piece in body.chunks(16_384) {
                while window < piece.len() as u32 {
                    let at = client.window_updates.len();
                    client.until("credit", |client| client.window_updates.len() > at);
                    let more = client.window_updates[at..].iter().filter(|update| update.0 == stream);
                    window += more.map(|update| update.1).sum::<u32>();
                }
                window -= piece.len() as u32;
                client.data(stream, piece, false);
            }
            client.data(stream, &[], true);
            let response = client.response(stream);
            assert_eq!((response.status, response.has_ended, response.reset), (200, true, None));
            assert!(response.body == body, "{length}: {} bytes came back", response.body.len());
        }
    }
    let framing = |request: &testkit::Recorded| request.head.field("content-length").is_some();
    assert!(upstream.requests().chunks(2).all(|pair| framing(&pair[0]) && !framing(&pair[1])));
    assert_eq!(upstream.errors(), Vec::<String>::new());
}

#[test]
fn responses_without_a_body_end_with_their_head() {
    let upstream = Upstream::start(|conn, request| {
        match request.head.target() {
        "/204" => conn.write("HTTP/1.1 204 No Content\r\n\r\n"),
        "/304" => conn.write("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 5\r\n\r\n"),
        _ => conn.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nKeep-Alive: timeout=5\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Upper-Case: Yes\r\n\r\n"),
    }
    });
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    for (method, path, status, length) in
        [("GET", "/204", 204, None), ("GET", "/304", 304, Some("5")), ("HEAD", "/", 200, Some("5"))]
    {
        let stream = client.open(&request(method, path, &[]), true);
        let response = client.response(stream);
        assert_eq!((response.status, response.field("content-length")), (status, length), "{path}");
        assert!(response.has_ended && response.body.is_empty() && response.reset.is_none());
        for name in ["connection", "keep-alive", "transfer-encoding", "x-hop", "host"] {
            assert_eq!(response.field(name), None, "rule 14: {name}");
        }
    }
    assert_eq!(client.streams[&5].field("x-upper-case"), Some("Yes"), "rule 14: names are in lower case");
}

#[test]
fn the_log_and_the_metrics_name_the_protocol() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway_with(&upstream, "", "");
    let mut client = Client::connect(weir.addr());
    assert_eq!(client.fetch("/a").text(), "hello");
    weir.get("/b");
    let bad = client.open(&request("GET", "no-slash", &[]), true);
    assert_eq!(client.response(bad).status, 400);
    let log = || std::fs::read_to_string(weir.dir().join("access.log")).unwrap_or_default();
    wait::until(DEADLINE, "three lines in the log", || log().lines().count() >= 3);
    let log = log();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].contains(r#""protocol":"HTTP/2""#) && lines[0].contains(r#""path":"/a""#), "{log}");
    assert!(lines[1].contains(r#""protocol":"HTTP/1.1""#), "{log}");
    assert!(lines[2].contains(r#""protocol":"HTTP/2""#) && lines[2].contains("bad_request"), "{log}");
    let metrics = weir.admin_get("/metrics").text().to_owned();
    for line in [
        r#"http2_connections_total{worker="0"} 1"#,
        r#"http2_connections_open{worker="0"} 1"#,
        r#"http2_streams_total{worker="0"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

/// Added fields of requests are those of each request, on connections that are used again, with bodies that pass meanwhile, through a cache,
/// and where the client resets its stream or its request has no head.
#[test]
fn the_log_has_the_fields_of_each_request() {
    let upstream = Upstream::start(|conn, request| {
        if request.head.start.contains("/stall") {
            return conn.stall();
        }
        conn.respond(200, &[("Cache-Control", "max-age=60")], &request.body)
    });
    let builder = testkit::Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let path = builder.dir().join("access.log");
    let weir = builder
        .config(format!(
            "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nworkers: 1\naccess_log: {{path: {}, fields: {{add: [header:X-Tenant], drop: [time]}}}}\n\
             upstreams: {{u: {{targets: [{}]}}}}\ncaches: {{c: {{mode: http}}}}\nroutes: [{{match: {{path: /*}}, upstream: u, cache: c}}]\n",
            path.display(),
            upstream.url()
        ))
        .start();
    let body = vec![b'x'; 60_000];
    let mut client = Client::connect(weir.addr());
    for (path, tenant) in [("/h2/a", "one"), ("/h2/a", "two")] {
        let stream = client.open(&request("GET", path, &[("x-tenant", tenant)]), true);
        assert_eq!(client.response(stream).status, 200);
    }
    let stream = client.open(&request("POST", "/h2/b", &[("x-tenant", "three")]), false);
    for (at, piece) in body.chunks(16_000).enumerate() {
        client.data(stream, piece, (at + 1) * 16_000 >= body.len());
    }
    assert_eq!(client.response(stream).body.len(), body.len());
    let stalled = client.open(&request("GET", "/h2/stall", &[("x-tenant", "four")]), true);
    upstream.wait_for_requests(3);
    client.reset(stalled, 8);
    assert_eq!(client.fetch("/h2/none").status, 200);
    let mut kept = weir.connect();
    for tenant in ["five", "six"] {
        kept.request("POST", "/h1", &[("Host", "a"), ("X-Tenant", tenant)], std::str::from_utf8(&body).unwrap());
        assert_eq!(kept.read_response().status(), 200);
    }
    kept.send("nonsense\r\n\r\n");
    assert_eq!(kept.read_response().status(), 400);
    let log = || std::fs::read_to_string(&path).unwrap_or_default();
    wait::until(DEADLINE, "eight lines in the log", || log().lines().count() >= 8);
    let log = log();
    let tenants: Vec<Option<&str>> = log
        .lines()
        .map(|line| line.split_once("\"header_x_tenant\":\"").and_then(|(_, rest)| rest.split('"').next()))
        .collect();
    let mut named: Vec<&str> = tenants.iter().flatten().copied().collect();
    named.sort_unstable();
    assert_eq!(named, ["five", "four", "one", "six", "three", "two"], "{log}");
    assert_eq!(tenants.len(), 8, "{log}");
}
