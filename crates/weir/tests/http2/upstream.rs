//! HTTP/2 towards targets: servers of the `h2` crate, and of raw frames where a target breaks a rule.

mod security;
mod sharing;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};
use http2::hpack::{Encoder, SensitiveNames};
use message::Known;
use testkit::tls::TlsRelay;
use testkit::{Certificates, DEADLINE, Weir, wait};
use tls::certificate::read_certificates;
use tls::names::Entry;
use tls::server::{ClientAuth, Listener, Tickets};
use tls::{Certificate, Names};

use crate::client::*;

/// What a target was sent, whole.
#[derive(Debug, Clone)]
struct Seen {
    head: http::request::Parts,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
}

type Log = Arc<std::sync::Mutex<Vec<Seen>>>;

/// A server that reads each request to its end and then calls `respond`.
struct Target {
    address: SocketAddr,
    seen: Log,
    connections: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

impl Target {
    fn start(respond: impl Fn(&Seen, SendResponse<Bytes>) + Send + Sync + 'static) -> Target {
        Target::start_with(100, respond)
    }

    fn start_with(streams: u32, respond: impl Fn(&Seen, SendResponse<Bytes>) + Send + Sync + 'static) -> Target {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, connections) = (Log::default(), Arc::new(AtomicUsize::new(0)));
        let (log, counted, respond) = (seen.clone(), connections.clone(), Arc::new(respond));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let (log, respond) = (log.clone(), respond.clone());
                tokio::spawn(async move {
                    let mut builder = h2::server::Builder::new();
                    builder.max_concurrent_streams(streams);
                    let Ok(mut connection) = builder.handshake::<_, Bytes>(socket).await else { return };
                    while let Some(Ok((request, send))) = connection.accept().await {
                        tokio::spawn(serve(request, send, log.clone(), respond.clone()));
                    }
                });
            }
        });
        Target { address, seen, connections, _runtime: runtime }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(
    request: Request<h2::RecvStream>,
    send: SendResponse<Bytes>,
    log: Log,
    respond: Arc<impl Fn(&Seen, SendResponse<Bytes>)>,
) {
    let (head, mut stream) = request.into_parts();
    let mut body = Vec::new();
    while let Some(Ok(data)) = stream.data().await {
        let _ = stream.flow_control().release_capacity(data.len());
        body.extend_from_slice(&data);
    }
    let trailers = stream.trailers().await.ok().flatten();
    let seen = Seen { head, body, trailers };
    log.lock().unwrap().push(seen.clone());
    respond(&seen, send);
}

/// Responds with a body, which may be larger than any window.
fn respond_with(mut send: SendResponse<Bytes>, head: Response<()>, body: Vec<u8>, trailers: Option<HeaderMap>) {
    let mut stream = send.send_response(head, body.is_empty() && trailers.is_none()).unwrap();
    if !body.is_empty() {
        stream.send_data(body.into(), trailers.is_none()).unwrap();
    }
    if let Some(trailers) = trailers {
        stream.send_trailers(trailers).unwrap();
    }
}

fn ok(send: SendResponse<Bytes>, body: &[u8]) {
    respond_with(send, Response::new(()), body.to_vec(), None);
}

fn gateway(target: SocketAddr, upstream: &str, route: &str) -> Weir {
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 1\ncaches: {{c: {{mode: ttl, ttl: 1h}}}}\nupstreams:\n  u:\n    targets: [http://{target}]\n    protocol: http2\n    eject: none\n{upstream}routes:\n  - match: {{path: /*}}\n    upstream: u\n{route}"
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

#[test]
fn clients_of_both_protocols_share_a_connection_to_a_target() {
    let target = Target::start(|seen, send| respond_with(send, Response::new(()), seen.body.clone(), None));
    let weir = gateway(target.address, "", "");
    let (mut one, mut two) = (weir.connect(), Client::connect(weir.addr()));
    for length in [0, 1, 16_384, 16_385, 300_000, 3_000_000] {
        let body: Vec<u8> = (0..length).map(|n: usize| (n / 251) as u8 ^ n as u8).collect();
        one.request("POST", "/a?b=c", &[("Connection", "X-Hop"), ("X-Hop", "1"), ("X-Kept", "Yes")], &body);
        let response = one.read_response();
        assert_eq!(response.status(), 200, "{length}");
        assert!(response.body == body, "{length}: {} bytes came back", response.body.len());
        if length < 60_000 {
            let stream = two.open(&request("POST", "/a?b=c", &[]), false);
            body.chunks(16_384).for_each(|piece| two.data(stream, piece, false));
            two.data(stream, &[], true);
            let response = two.response(stream);
            assert!(response.has_ended && response.body == body, "{length}: {response:?}");
        }
    }
    assert_eq!(target.connections(), 1);
    let seen = &target.seen()[0];
    assert_eq!((seen.head.method.as_str(), seen.head.uri.path_and_query().unwrap().as_str()), ("POST", "/a?b=c"));
    assert_eq!(seen.head.uri.scheme_str(), Some("http"));
    assert_eq!(seen.head.uri.host(), Some("test"), "the authority is the client's");
    for name in ["host", "connection", "x-hop", "transfer-encoding", "te", "upgrade"] {
        assert!(!seen.head.headers.contains_key(name), "{name}");
    }
    assert_eq!(seen.head.headers["x-kept"], "Yes");
    assert_eq!(seen.head.headers["x-forwarded-for"], "127.0.0.1");
}

#[test]
fn heads_without_bodies_keep_what_they_say() {
    let target = Target::start(|seen, send| {
        let status = seen.head.uri.path()[1..].parse::<u16>().unwrap();
        let response = Response::builder().status(status).header("etag", "\"x\"");
        let response = if status == 204 { response } else { response.header("content-length", "5") };
        let body = if status == 200 && seen.head.method == "GET" { b"hello".to_vec() } else { Vec::new() };
        respond_with(send, response.body(()).unwrap(), body, None);
    });
    let weir = gateway(target.address, "", "");
    let mut client = weir.connect();
    for (method, path, length, body) in [
        ("GET", "/200", Some("5"), "hello"),
        ("HEAD", "/200", Some("5"), ""),
        ("GET", "/304", Some("5"), ""),
        ("GET", "/204", None, ""),
        ("GET", "/200", Some("5"), "hello"),
    ] {
        client.request(method, path, &[], "");
        let response = client.read_response_to(method);
        assert_eq!((response.field("content-length"), response.text()), (length, body), "{method} {path}");
        assert_eq!(response.field("etag"), Some("\"x\""));
    }
}

#[test]
fn what_a_target_did_not_process_is_sent_again_whatever_the_method() {
    let refusals = AtomicUsize::new(2);
    let target = Target::start(move |seen, mut send| {
        if seen.head.uri.path() == "/never" {
            return send.send_reset(Reason::REFUSED_STREAM);
        }
        match refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => send.send_reset(Reason::REFUSED_STREAM),
            Err(_) => ok(send, b"served"),
        }
    });
    let weir = gateway(target.address, "    retry: {extra_attempts: 2}\n", "");
    let response = weir.request("POST", "/once", &[], "the body");
    assert_eq!((response.status(), response.text()), (200, "served"));
    assert!(target.seen().iter().all(|seen| seen.body == b"the body"), "{:?}", target.seen());
    assert_eq!(target.seen().len(), 3);
    // Not without limit.
    assert_eq!(weir.request("POST", "/never", &[], "the body").status(), 502);
    assert!(target.seen().len() <= 3 + 4, "{}", target.seen().len());
}

#[test]
fn a_post_that_a_target_may_have_processed_is_not_sent_again() {
    let target = Target::start(|_, mut send| send.send_reset(Reason::INTERNAL_ERROR));
    let weir = gateway(target.address, "    retry: {extra_attempts: 2}\n", "");
    assert_eq!(weir.get("/warm").status(), 502);
    let before = target.seen().len();
    assert!(before > 1, "GET is repeated");
    let response = weir.request("POST", "/", &[], "x");
    assert_eq!(response.status(), 502);
    assert!(response.text().contains("upstream_reset"), "{}", response.text());
    assert_eq!(target.seen().len(), before + 1);
}

/// A stream that is reset says nothing about the connection: the connection is not stale, and a repeat is an extra attempt.
#[test]
fn a_reset_stream_of_a_reused_connection_is_not_repeated_for_nothing() {
    for (extra, expected) in [(0, 1), (1, 2)] {
        let target = Target::start(|seen, mut send| match seen.head.uri.path() {
            "/" => ok(send, b"served"),
            _ => send.send_reset(Reason::INTERNAL_ERROR),
        });
        let weir = gateway(target.address, &format!("    retry: {{extra_attempts: {extra}}}\n"), "");
        assert_eq!(weir.get("/").status(), 200);
        assert_eq!(weir.get("/fails").status(), 502);
        assert_eq!((target.seen().len() - 1, target.connections()), (expected, 1), "extra_attempts: {extra}");
    }
}

/// Rule 11 from the upstream's side.
#[test]
fn a_response_that_is_reset_never_passes_for_complete_rule_11() {
    let target = Target::start(|_, mut send| {
        let mut stream = send.send_response(Response::new(()), false).unwrap();
        stream.send_data(Bytes::from_static(b"part"), false).unwrap();
        tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            stream.send_reset(Reason::INTERNAL_ERROR);
        });
    });
    let weir = gateway(target.address, "", "    cache: c\n");
    for _ in 0..2 {
        let mut client = weir.connect();
        client.request("GET", "/", &[], "");
        assert!(client.try_read_response().is_err());
    }
    assert!(target.seen().len() >= 2, "nothing was stored");
    let mut client = Client::connect(weir.addr());
    let stream = client.get("/");
    assert!(client.response(stream).reset.is_some());
}

/// RFC 9113 section 8.1: a target may respond before it has the whole request, and reset the rest of it.
#[test]
fn a_response_before_the_end_of_its_request_is_complete() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let weir = gateway(listener.local_addr().unwrap(), "", "");
    let mut client = weir.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nbegin");
    let mut target = Raw::accept(&listener);
    target.until(HEADERS);
    let got = [
        frame(HEADERS, END_HEADERS, 1, &block(&[(":status", "413"), ("content-length", "3")])),
        frame(DATA, END_STREAM, 1, b"big"),
        frame(RST_STREAM, 0, 1, &NO_ERROR.to_be_bytes()),
    ];
    target.send(&got.concat());
    let response = client.read_response();
    assert_eq!((response.status(), response.text()), (413, "big"));
}

/// Rule 15.
#[test]
fn a_malformed_response_is_502_and_never_stored_rule_15() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let weir = gateway(listener.local_addr().unwrap(), "    retry: none\n", "    cache: c\n");
    let heads: [&[(&str, &str)]; 11] = [
        &[("x", "1")],
        &[(":status", "200"), (":status", "200")],
        &[(":status", "20")],
        &[(":status", "101")],
        &[(":status", "200"), (":path", "/")],
        &[("x", "1"), (":status", "200")],
        &[(":status", "200"), ("Upper", "1")],
        &[(":status", "200"), ("x", "a\r\nSet-Cookie: b")],
        &[(":status", "200"), ("transfer-encoding", "chunked")],
        &[(":status", "200"), ("connection", "close")],
        &[(":status", "200"), ("content-length", "1"), ("content-length", "2")],
    ];
    let mut client = weir.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut target = Raw::accept(&listener);
    for (number, head) in heads.iter().enumerate() {
        if number > 0 {
            client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        let (_, stream, _) = target.until(HEADERS);
        target.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(head)));
        let response = client.read_response();
        assert_eq!(response.status(), 502, "{head:?}");
        assert!(response.text().contains("bad_response"), "{head:?}: {}", response.text());
        let (_, reset, _) = target.until(RST_STREAM);
        assert_eq!(reset, stream, "{head:?}");
    }
    // The connection goes on.
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_, stream, _) = target.until(HEADERS);
    target.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[(":status", "200")])));
    assert_eq!(client.read_response().status(), 200);
    // A body that is not as long as it should be.
    client.send("GET /y HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_, stream, _) = target.until(HEADERS);
    let short = [
        frame(HEADERS, END_HEADERS, stream, &block(&[(":status", "200"), ("content-length", "9")])),
        frame(DATA, END_STREAM, stream, b"short"),
    ];
    target.send(&short.concat());
    // As early as it is seen: before the head has passed, or by the end of the connection.
    assert!(client.try_read_response().map_or(true, |response| response.status() == 502));
}

#[test]
fn a_target_that_goes_away_serves_what_it_took_and_the_rest_goes_elsewhere() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let weir = gateway(listener.local_addr().unwrap(), "", "");
    let mut clients: Vec<_> = (0..2).map(|_| weir.connect()).collect();
    clients[0].send("POST /0 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n0");
    let mut target = Raw::accept(&listener);
    target.until(HEADERS);
    clients[1].send("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1");
    let (_, second, _) = target.until(HEADERS);
    assert_eq!(second, 3);
    target.send(&frame(GOAWAY, 0, 0, &[1u32.to_be_bytes(), NO_ERROR.to_be_bytes()].concat()));
    let mut other = Raw::accept(&listener);
    let (_, again, _) = other.until(HEADERS);
    let done = |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[(":status", "200")]));
    other.send(&done(again));
    assert_eq!(clients[1].read_response().status(), 200, "not processed, so it is sent again");
    target.send(&done(1));
    assert_eq!(clients[0].read_response().status(), 200, "processed, so it is waited for");
    target.until(GOAWAY);
    clients[0].send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_, stream, _) = other.until(HEADERS);
    other.send(&done(stream));
    assert_eq!(clients[0].read_response().status(), 200);
}

/// A connection that is dead without saying so takes no further request.
#[test]
fn a_silent_target_is_probed_and_others_do_not_wait_for_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let weir = gateway(listener.local_addr().unwrap(), "    timeouts: {first_byte: 300ms}\n    retry: none\n", "");
    let mut client = weir.connect();
    client.send("GET /0 HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut dead = Raw::accept(&listener);
    dead.until(HEADERS);
    assert_eq!(client.read_response().status(), 504);
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut alive = Raw::accept(&listener);
    let (_, stream, _) = alive.until(HEADERS);
    alive.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[(":status", "200")])));
    assert_eq!(client.read_response().status(), 200);
    dead.until(RST_STREAM);
    dead.until(PING);
    assert!(dead.ends(), "it is closed after five seconds");
}

#[test]
fn an_idle_connection_is_closed_and_a_reload_changes_the_protocol() {
    let target = Target::start(|_, send| ok(send, b"two"));
    let weir = gateway(target.address, "    keep_alive: {idle: 100ms}\n", "");
    assert_eq!(weir.get("/").text(), "two");
    let open = || {
        weir.admin_get("/metrics").text().lines().any(|line| line == "http2_upstream_connections_open{worker=\"0\"} 1")
    };
    wait::until(DEADLINE, "the idle connection to be closed", || !open());
    assert_eq!(weir.get("/").text(), "two");
    assert_eq!(target.connections(), 2);
    let upstream = testkit::Upstream::start(testkit::responder::ok("one"));
    let yaml = std::fs::read_to_string(weir.config_path()).unwrap();
    let yaml = yaml.replace(&target.address.to_string(), &upstream.socket_addr().to_string());
    weir.rewrite_config(&yaml.replace("    protocol: http2\n", ""));
    weir.signal(testkit::Signal::HUP);
    wait::until(DEADLINE, "the new configuration", || weir.get("/").text() == "one");
}

#[test]
fn health_checks_speak_the_protocol_of_their_upstream() {
    let status = Arc::new(AtomicUsize::new(204));
    let told = status.clone();
    let target = Target::start(move |seen, send| {
        let is_check = seen.head.uri.path() == "/healthz";
        let status = if is_check { told.load(Ordering::SeqCst) as u16 } else { 200 };
        respond_with(send, Response::builder().status(status).body(()).unwrap(), Vec::new(), None);
    });
    let health = "    health: {interval: 20ms, healthy_after: 1, unhealthy_after: 1}\n";
    let weir = gateway(target.address, health, "");
    wait::until(DEADLINE, "a check", || target.seen().iter().any(|seen| seen.head.uri.path() == "/healthz"));
    let check = target.seen().remove(0);
    assert_eq!(
        (check.head.method.as_str(), &check.head.headers["user-agent"]),
        ("GET", &"weir-health".parse().unwrap())
    );
    wait::until(DEADLINE, "a healthy target", || weir.get("/x").status() == 200);
    status.store(500, Ordering::SeqCst);
    wait::until(DEADLINE, "an unhealthy target", || weir.get("/x").status() == 503);
    status.store(204, Ordering::SeqCst);
    wait::until(DEADLINE, "a healthy target", || weir.get("/x").status() == 200);
}

#[test]
fn trailers_pass_where_the_route_says_so() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "42".parse().unwrap());
    trailers.insert("set-cookie", "evil=1".parse().unwrap());
    let target = Target::start(move |seen, send| {
        let response = Response::builder().header("x-te", seen.head.headers.contains_key("te").to_string());
        let response = response.header("trailer", "x-sum");
        respond_with(send, response.body(()).unwrap(), b"body".to_vec(), Some(trailers.clone()));
    });
    for (route, te, passes) in
        [("    trailers: forward\n", "trailers", true), ("    trailers: forward\n", "", false), ("", "trailers", false)]
    {
        let weir = gateway(target.address, "", route);
        let mut client = Client::connect(weir.addr());
        let fields = [("trailer", "x-up"), ("te", te), ("x-forwarded-host", "evil")];
        let stream = client.open(&request("POST", "/", if te.is_empty() { &fields[..1] } else { &fields }), false);
        client.data(stream, b"up", false);
        let sent =
            block(&[("x-up", "1"), ("x-forwarded-host", "evil"), ("content-length", "9"), ("x-original-url", "/")]);
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &sent));
        let response = client.response(stream);
        assert_eq!((response.status, response.text().as_str()), (200, "body"));
        let expected = if passes { vec![("x-sum".to_owned(), "42".to_owned())] } else { Vec::new() };
        assert_eq!(response.trailers, expected, "{route:?} {te:?}");
        assert_eq!(response.field("x-te"), Some(if passes { "true" } else { "false" }));
        // Go's net/http drops trailers that were not announced.
        assert_eq!(response.field("trailer"), passes.then_some("x-sum"), "{route:?} {te:?}");
        let seen = target.seen().pop().unwrap();
        let announced = seen.head.headers.get("trailer").map(|value| value.to_str().unwrap());
        assert_eq!(announced, (!route.is_empty()).then_some("x-up"), "{route:?} {te:?}");
        let names: Vec<_> = seen.trailers.iter().flat_map(HeaderMap::keys).map(http::HeaderName::as_str).collect();
        let expected: &[&str] = if route.is_empty() { &[] } else { &["x-up"] };
        assert_eq!(names, expected, "{route:?}");
    }
}

/// A target of raw frames.
pub(crate) struct Raw {
    pub(crate) socket: TcpStream,
    input: Vec<u8>,
}

impl Raw {
    /// Accepts a connection, and does what is needed before the first request.
    pub(crate) fn accept(listener: &TcpListener) -> Raw {
        let mut target = Raw::accept_without_settings(listener);
        target.send(&[frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, 1, 0, &[])].concat());
        target
    }

    /// The same, sending nothing.
    pub(crate) fn accept_without_settings(listener: &TcpListener) -> Raw {
        listener.set_nonblocking(true).unwrap();
        let socket = wait::some(DEADLINE, "a connection of the gateway", || listener.accept().ok()).0;
        socket.set_nonblocking(false).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut target = Raw { socket, input: Vec::new() };
        let mut preface = [0; 24];
        target.socket.read_exact(&mut preface).unwrap();
        assert_eq!(&preface, http2::PREFACE);
        target
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Reads until a frame of this type comes: its flags, stream and payload.
    pub(crate) fn until(&mut self, kind: u8) -> (u8, u32, Vec<u8>) {
        loop {
            if self.input.len() >= 9 {
                let length = u32::from_be_bytes([0, self.input[0], self.input[1], self.input[2]]) as usize;
                if self.input.len() >= 9 + length {
                    let bytes: Vec<u8> = self.input.drain(..9 + length).collect();
                    if bytes[3] == kind {
                        let stream = u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]);
                        return (bytes[4], stream, bytes[9..].to_vec());
                    }
                    continue;
                }
            }
            let mut buffer = [0; 4096];
            let count = self.socket.read(&mut buffer).unwrap_or_else(|error| panic!("no frame {kind}: {error}"));
            assert!(count > 0, "the connection ended before a frame {kind}");
            self.input.extend(&buffer[..count]);
        }
    }

    /// Whether the gateway closes the connection.
    fn ends(&mut self) -> bool {
        let mut rest = Vec::new();
        self.socket.read_to_end(&mut rest).is_ok() || self.socket.take_error().is_ok()
    }
}
