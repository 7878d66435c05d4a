//! Trailers of HTTP/1.1: dropped, or forwarded where the route says so, and never more than may pass.

use testkit::{DEADLINE, Upstream, Weir, wait};

fn gateway(upstream: &Upstream, more: &str, route: &str) -> Weir {
    let yaml = format!(
        "listen: 127.0.0.1:0\nworkers: 1\n{more}caches: {{c: {{mode: ttl, ttl: 1h}}}}\nupstreams: {{u: {{targets: [{}], retry: none}}}}\nroutes:\n  - match: {{path: /*}}\n    upstream: u\n{route}",
        upstream.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

/// An upstream whose response has these trailers, and which keeps the bytes that it gets behind the head.
fn upstream(trailers: &'static str) -> Upstream {
    Upstream::start(move |conn, _| {
        conn.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n4\r\nbody\r\n0\r\n")?;
        conn.write(trailers)?;
        conn.write("\r\n")
    })
}

const REQUEST: &str = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Up\r\n";

/// What comes back on a connection that is closed behind the response.
fn exchange(weir: &Weir, fields: &str, trailers: &str) -> String {
    let mut client = weir.connect();
    client.send(format!("{REQUEST}{fields}Connection: close\r\n\r\n2\r\nup\r\n0\r\n{trailers}\r\n"));
    String::from_utf8(client.read_to_close()).unwrap()
}

fn end(response: &str) -> &str {
    response.split_once("4\r\nbody\r\n").or_else(|| response.split_once("body\r\n")).map_or("", |parts| parts.1)
}

#[test]
fn trailers_are_dropped_unless_the_route_forwards_them_and_the_client_takes_them() {
    for (route, te, expected) in [
        ("", "TE: trailers\r\n", "0\r\n\r\n"),
        ("    trailers: drop\n", "TE: trailers\r\n", "0\r\n\r\n"),
        ("    trailers: forward\n", "", "0\r\n\r\n"),
        ("    trailers: forward\n", "TE: gzip\r\n", "0\r\n\r\n"),
        ("    trailers: forward\n", "TE: gzip;q=0.5, Trailers\r\n", "0\r\nX-Sum: 42\r\nx-late: a b\r\n\r\n"),
    ] {
        let upstream = upstream("X-Sum:42\r\nx-late: \t a b \t\r\n");
        let weir = gateway(&upstream, "", route);
        let response = exchange(&weir, te, "X-Up: 1\r\n");
        assert_eq!(end(&response), expected, "{route:?} {te:?}: {response}");
        let seen = &upstream.requests()[0];
        assert!(seen.complete);
        // Who drops trailers that were not announced gets the field that announces them, and nobody else.
        assert_eq!(seen.head.field("trailer"), route.contains("forward").then_some("X-Up"), "{route:?} {te:?}");
        assert_eq!(response.contains("\r\nTrailer: X-Sum\r\n"), expected.len() > 5, "{response}");
        let says = seen.head.field("te").map(str::to_owned);
        assert_eq!(says.as_deref(), (expected.len() > 5).then_some("trailers"), "the upstream is told the same");
        assert_eq!((seen.head.field("x-up"), seen.head.field("connection").is_some()), (None, says.is_some()));
    }
}

#[test]
fn what_decides_anything_does_not_pass() {
    let upstream = upstream(
        "Content-Length: 0\r\nSet-Cookie: a=b\r\nX-Ok: 1\r\nTransfer-Encoding: x\r\nX-Gone: 1\r\nX_Gone: 1\r\nX-Request-Id: evil\r\nCache-Control: public\r\n",
    );
    let route = "    trailers: forward\n    headers: {response: {remove: [X-Gone]}, request: {set: {X-Mine: \"1\"}}}\n";
    let weir = gateway(&upstream, "", route);
    let sent = "X-Up: 1\r\nX-Mine: 2\r\nAuthorization: Basic x\r\nHost: evil\r\nX-Real-Ip: 1.2.3.4\r\nX-Forwarded-For: 1.2.3.4\r\nX_Forwarded_For: 1.2.3.4\r\n";
    let response = exchange(&weir, "TE: trailers\r\n", sent);
    assert_eq!(end(&response), "0\r\nX-Ok: 1\r\n\r\n");
    assert_eq!(raw_trailers(&weir, &upstream, sent), "X-Up: 1\r\n");
}

/// Go's net/http refuses a message whose `Trailer` names a field of framing; others read it.
#[test]
fn only_names_that_may_be_trailers_are_announced() {
    let upstream = Upstream::start(|conn, _| {
        conn.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length,,x-sum\r\nTrailer: host, a b\r\n\r\n0\r\n\r\n")
    });
    let weir = gateway(&upstream, "", "    trailers: forward\n");
    let response = exchange(&weir, "TE: trailers\r\nTrailer: Transfer-Encoding, x-late, content_length\r\n", "");
    assert!(response.contains("\r\nTrailer: x-sum\r\n"), "{response}");
    assert!(!response.contains("Content-Length") && !response.contains("host"), "{response}");
    assert_eq!(upstream.requests()[0].head.all("trailer"), ["X-Up, x-late"]);
    let mut client = weir.connect();
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Transfer-Encoding\r\n\r\n0\r\n\r\n",
    );
    assert_eq!(client.read_response().status(), 200);
    assert_eq!(upstream.requests()[1].head.field("trailer"), None);
}

/// The trailers that an upstream gets, byte by byte.
fn raw_trailers(weir: &Weir, old: &Upstream, sent: &str) -> String {
    let (tell, told) = std::sync::mpsc::channel();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut socket, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        while !bytes.windows(5).any(|window| window == b"\n0\r\nX") || !bytes.ends_with(b"\r\n\r\n") {
            let mut piece = [0; 4096];
            let count = socket.read(&mut piece).unwrap();
            assert!(count > 0);
            bytes.extend(&piece[..count]);
        }
        socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        tell.send(String::from_utf8(bytes).unwrap()).unwrap();
    });
    let yaml = std::fs::read_to_string(weir.config_path())
        .unwrap()
        .replace(&old.socket_addr().to_string(), &address.to_string());
    let other = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    exchange(&other, "TE: trailers\r\n", sent);
    let bytes = told.recv_timeout(DEADLINE).unwrap();
    thread.join().unwrap();
    let (_, trailers) = bytes.split_once("\r\n0\r\n").unwrap();
    trailers.strip_suffix("\r\n").unwrap().to_owned()
}

#[test]
fn too_many_trailers_break_the_message() {
    let lines = |count: usize| (0..count).map(|number| format!("X-{number}: 1\r\n")).collect::<String>();
    let upstream = upstream("X-Ok: 1\r\n");
    let weir = gateway(&upstream, "", "    trailers: forward\n");
    for (trailers, status) in
        [(lines(32), "200"), (lines(33), "400"), (format!("X-Long: {}\r\n", "x".repeat(9000)), "400")]
    {
        let response = exchange(&weir, "TE: trailers\r\n", &trailers);
        assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {response}");
    }
    wait::until(DEADLINE, "the broken requests", || {
        upstream.requests().iter().filter(|seen| seen.complete).count() == 1
    });
}

#[test]
fn a_cache_keeps_no_trailers() {
    let upstream = upstream("X-Sum: 42\r\n");
    let weir = gateway(&upstream, "", "    trailers: forward\n    cache: c\n");
    for _ in 0..2 {
        let mut client = weir.connect();
        client.send("GET /x HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close\r\n\r\n");
        let response = String::from_utf8(client.read_to_close()).unwrap();
        assert!(response.contains("body") && !response.contains("X-Sum"), "{response}");
    }
    assert_eq!(upstream.request_count(), 1);
}

#[test]
fn many_exchanges_with_trailers_share_connections() {
    let upstream = upstream("X-Sum: 42\r\n");
    let weir = gateway(&upstream, "", "    trailers: forward\n");
    let mut client = weir.connect();
    for _ in 0..20 {
        client.send(format!("{REQUEST}TE: trailers\r\n\r\n2\r\nup\r\n0\r\nX-Up: 1\r\n\r\n"));
        let response = client.read_response();
        assert_eq!((response.status(), response.text()), (200, "body"));
    }
    assert_eq!((upstream.accepted(), upstream.errors()), (1, Vec::<String>::new()));
}
