//! WebSocket to targets over HTTP/2 (RFC 8441): rule 18 towards targets, from clients of both protocols.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::ext::Protocol;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use testkit::{DEADLINE, RawClient, Weir, wait};

use super::client::*;
use super::upstream::Raw;

/// The key of RFC 6455 section 1.3, and what shows that it was read.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/// SETTINGS_ENABLE_CONNECT_PROTOCOL.
const CONNECT_PROTOCOL: u16 = 8;

/// A request as a target got it.
#[derive(Debug, Clone)]
struct Seen {
    head: Arc<http::request::Parts>,
    /// Its body so far: the client's direction of a tunnel.
    body: Arc<Mutex<Vec<u8>>>,
    /// END_STREAM, or why there was none.
    end: Arc<Mutex<Option<Result<(), Reason>>>>,
}

/// What a target does with a request.
#[derive(Debug, Clone)]
enum Do {
    /// 200, and what comes is sent back, to the end.
    Echo,
    /// 200, these bytes, the end of its direction, and the rest of the other one refused, as Go's net/http does it.
    SayAndLeave(usize),
    /// A response.
    Respond(u16, &'static [u8]),
    /// RST_STREAM.
    Reset(Reason),
    /// Nothing.
    Nothing,
}

struct Target {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
    what: Arc<Mutex<Vec<Do>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Target {
    /// Does these things, one for each request, and the last again and again.
    fn start(what: &[Do]) -> Target {
        Target::start_with(what, |builder| {
            builder.max_concurrent_streams(100).enable_connect_protocol();
        })
    }

    fn start_with(what: &[Do], set: impl Fn(&mut h2::server::Builder) + Send + Sync + 'static) -> Target {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, connections) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
        let what = Arc::new(Mutex::new(what.iter().rev().cloned().collect::<Vec<_>>()));
        let (log, counted, todo): (Arc<Mutex<Vec<Seen>>>, _, _) =
            (Arc::clone(&seen), connections.clone(), what.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let (log, todo) = (log.clone(), todo.clone());
                let mut builder = h2::server::Builder::new();
                set(&mut builder);
                tokio::spawn(async move {
                    let Ok(mut connection) = builder.handshake::<_, Bytes>(socket).await else { return };
                    while let Some(Ok((request, send))) = connection.accept().await {
                        let mut todo = todo.lock().unwrap();
                        let next = if todo.len() > 1 { todo.pop().unwrap() } else { todo[0].clone() };
                        drop(todo);
                        tokio::spawn(serve(request, send, log.clone(), next));
                    }
                });
            }
        });
        Target { address, seen, connections, what, _runtime: runtime }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn last(&self) -> Seen {
        self.seen().pop().unwrap()
    }

    fn then(&self, what: Do) {
        *self.what.lock().unwrap() = vec![what];
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(request: Request<RecvStream>, mut send: SendResponse<Bytes>, log: Arc<Mutex<Vec<Seen>>>, what: Do) {
    let (head, mut receive) = request.into_parts();
    let seen = Seen { head: Arc::new(head), body: Arc::default(), end: Arc::default() };
    log.lock().unwrap().push(seen.clone());
    let mut out = match what {
        Do::Echo => {
            let response = Response::builder().header("sec-websocket-protocol", "chat").header("content-length", "0");
            Some(send.send_response(response.body(()).unwrap(), false).unwrap())
        }
        Do::SayAndLeave(length) => {
            let mut out = send.send_response(Response::new(()), false).unwrap();
            let body: Vec<u8> = (0..length).map(|index| index as u8).collect();
            out.send_data(body.into(), true).unwrap();
            // Dropped: RST_STREAM(NO_ERROR) behind END_STREAM is what the crate sends for a request that is not read.
            return;
        }
        Do::Respond(status, body) => {
            let mut out = send.send_response(Response::builder().status(status).body(()).unwrap(), false).unwrap();
            out.send_data(Bytes::from_static(body), true).unwrap();
            None
        }
        Do::Reset(reason) => {
            send.send_reset(reason);
            None
        }
        Do::Nothing => None,
    };
    loop {
        match receive.data().await {
            Some(Ok(data)) => {
                let _ = receive.flow_control().release_capacity(data.len());
                seen.body.lock().unwrap().extend_from_slice(&data);
                if let Some(out) = &mut out {
                    send_all(out, data).await;
                }
            }
            Some(Err(error)) => {
                *seen.end.lock().unwrap() = Some(Err(error.reason().unwrap_or(Reason::INTERNAL_ERROR)));
                return;
            }
            None => {
                *seen.end.lock().unwrap() = Some(Ok(()));
                if let Some(mut out) = out {
                    let _ = out.send_data(Bytes::new(), true);
                }
                return;
            }
        }
    }
}

/// Sends as the windows allow: otherwise what is queued would be all that came.
async fn send_all(out: &mut SendStream<Bytes>, mut data: Bytes) {
    while !data.is_empty() {
        out.reserve_capacity(data.len());
        let Some(Ok(count)) = std::future::poll_fn(|cx| out.poll_capacity(cx)).await else { return };
        if out.send_data(data.split_to(count.min(data.len())), false).is_err() {
            return;
        }
    }
}

fn gateway_with(target: SocketAddr, top: &str, upstream: &str, route: &str) -> Weir {
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let log = builder.dir().join("access.log");
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: {}}}\n{top}upstreams:\n  u:\n    targets: [http://{target}]\n    protocol: http2\n    eject: none\n{upstream}routes:\n  - match: {{path: /*}}\n    upstream: u\n    upgrade: [websocket, irc]\n{route}",
        log.display()
    );
    builder.config(yaml).start()
}

fn gateway(target: &Target) -> Weir {
    gateway_with(target.address, "", "    retry: {extra_attempts: 0}\n", "")
}

/// A handshake of HTTP/1.1.
fn handshake(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{more}\r\n"
    )
}

/// A client of HTTP/1.1 in a tunnel.
fn open1(weir: &Weir, path: &str) -> RawClient {
    let mut client = weir.connect();
    client.send(handshake(path, ""));
    let head = client.read_head();
    assert_eq!((head.status(), head.field("sec-websocket-accept")), (101, Some(ACCEPT)));
    client
}

/// Opens a tunnel over HTTP/2; its stream, once there is a head.
fn open2(client: &mut Client, path: &str) -> u32 {
    let fields = [(":protocol", "websocket"), ("sec-websocket-version", "13")];
    let stream = client.open(&request("CONNECT", path, &fields), false);
    client.until("a head", |client| client.streams.get(&stream).is_some_and(|response| response.status > 0));
    stream
}

/// What both kinds of clients get in place of a tunnel: status and body.
fn refusals(weir: &Weir) -> [(u16, String); 2] {
    let mut one = weir.connect();
    one.send(handshake("/ws", ""));
    let response = one.read_response();
    let mut two = Client::connect(weir.addr());
    let stream = open2(&mut two, "/ws");
    let other = two.response(stream);
    assert!(other.has_ended, "{other:?}");
    [(response.status(), response.text().to_owned()), (other.status, other.text())]
}

fn log(weir: &Weir) -> Vec<String> {
    let log = std::fs::read_to_string(weir.dir().join("access.log")).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

fn metric(weir: &Weir, name: &str) -> u64 {
    let metrics = weir.admin_get("/metrics");
    let lines = metrics.text().lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect::<Vec<_>>();
    lines.iter().map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}

#[test]
fn a_tunnel_of_http1_carries_bytes_both_ways_and_both_ends_rule_18() {
    let target = Target::start(&[Do::Echo]);
    let weir = gateway(&target);
    let mut client = weir.connect();
    client.send(handshake(
        "/ws?room=1",
        "Origin: http://a.example\r\nSec-WebSocket-Protocol: chat\r\nX-Forwarded-For: 9.9.9.9\r\n",
    ));
    let head = client.read_head();
    assert_eq!((head.status(), head.field("sec-websocket-accept")), (101, Some(ACCEPT)));
    assert_eq!((head.field("upgrade"), head.field("sec-websocket-protocol")), (Some("websocket"), Some("chat")));
    assert_eq!((head.field("content-length"), head.field("transfer-encoding")), (None, None));
    let seen = target.last();
    let (method, uri, fields) = (&seen.head.method, &seen.head.uri, &seen.head.headers);
    assert_eq!((method.as_str(), uri.path_and_query().unwrap().as_str()), ("CONNECT", "/ws?room=1"));
    assert_eq!((uri.scheme_str(), uri.host()), (Some("http"), Some("a.example")));
    assert_eq!(seen.head.extensions.get::<Protocol>().map(Protocol::as_str), Some("websocket"));
    for (name, value) in [
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "chat"),
        ("origin", "http://a.example"),
        ("x-forwarded-for", "127.0.0.1"),
    ] {
        assert_eq!(fields[name], value);
    }
    for name in ["sec-websocket-key", "connection", "upgrade", "host", "content-length", "transfer-encoding"] {
        assert!(!fields.contains_key(name), "{name}");
    }
    // What looks like a request is not one.
    let text = "GET /other HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(text);
    assert_eq!(client.read_raw(text.len()), text.as_bytes());
    // Ordinary requests and other tunnels go beside it, on the same connection.
    let mut beside = open1(&weir, "/beside");
    beside.send("beside");
    assert_eq!(beside.read_raw(6), b"beside");
    assert_eq!((target.seen().len(), target.connections()), (2, 1));
    client.send("last");
    client.half_close();
    assert_eq!(client.read_to_close(), b"last");
    wait::until(DEADLINE, "the end at the target", || *seen.end.lock().unwrap() == Some(Ok(())));
    beside.half_close();
    beside.expect_closed();
    wait::until(DEADLINE, "two lines", || {
        log(&weir).iter().filter(|line| line.contains("\"status\":101")).count() == 2
    });
    assert_eq!(metric(&weir, "http2_upstream_streams_total"), 2);
    assert_eq!(metric(&weir, "http2_upstream_streams_lost_total"), 0);
}

#[test]
fn a_tunnel_of_http2_is_one_of_http2_rule_18() {
    let target = Target::start(&[Do::Echo]);
    let weir = gateway(&target);
    let mut client = Client::connect(weir.addr());
    let stream = open2(&mut client, "/ws");
    let response = &client.streams[&stream];
    assert_eq!((response.status, response.field("sec-websocket-protocol")), (200, Some("chat")));
    for name in ["connection", "upgrade", "sec-websocket-accept", "content-length", "transfer-encoding"] {
        assert_eq!(response.field(name), None, "{name}");
    }
    let seen = target.last();
    assert_eq!(seen.head.extensions.get::<Protocol>().map(Protocol::as_str), Some("websocket"));
    assert!(!seen.head.headers.contains_key("sec-websocket-key"));
    client.data(stream, b"one", false);
    client.until("an echo", |client| client.streams[&stream].body == b"one");
    client.data(stream, b", two", true);
    let response = client.response(stream);
    assert_eq!((response.text(), response.has_ended), ("one, two".to_owned(), true));
    assert!(matches!(response.reset, None | Some(NO_ERROR)), "{response:?}");
    assert_eq!(*seen.end.lock().unwrap(), Some(Ok(())));
    wait::until(DEADLINE, "a line", || log(&weir).iter().any(|line| line.contains("\"status\":101")));
    assert!(log(&weir)[0].contains("HTTP/2"));
}

#[test]
fn megabytes_pass_whatever_the_windows() {
    let target = Target::start_with(&[Do::Echo], |builder| {
        builder.initial_window_size(10_000).initial_connection_window_size(70_000).enable_connect_protocol();
    });
    let weir = gateway_with(target.address, "", "    http2: {stream_window: 64KiB, connection_window: 128KiB}\n", "");
    let sent: Vec<u8> = (0..4_194_304u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    // Several at once, which share the windows of the connection.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = open1(&weir, "/ws");
            let sent = &sent;
            scope.spawn(move || {
                // Never more on the way than all buffers hold: nobody reads what this thread does not.
                let mut got = Vec::new();
                for piece in sent.chunks(32_768) {
                    client.send(piece);
                    got.extend(client.read_raw(piece.len()));
                }
                assert!(got == *sent, "byte by byte");
                client.half_close();
                client.expect_closed();
            });
        }
    });
    assert_eq!(target.connections(), 1);
    let ends: Vec<_> =
        target.seen().iter().map(|seen| (seen.body.lock().unwrap().len(), *seen.end.lock().unwrap())).collect();
    assert_eq!(ends, [(sent.len(), Some(Ok(()))); 4]);
}

#[test]
fn a_target_that_does_not_offer_it_gets_nothing_and_the_client_501_rule_18() {
    let target = Target::start_with(&[Do::Respond(200, b"page")], |_| ());
    let weir = gateway_with(target.address, "", "    retry: {extra_attempts: 2}\n", "");
    // On a new connection, whose SETTINGS have to come first, and on one that is there.
    for _ in 0..2 {
        for (status, body) in refusals(&weir) {
            assert_eq!(status, 501, "{body}");
            assert!(body.contains("no_tunnel") && body.contains("RFC 8441"), "{body}");
        }
    }
    assert_eq!(target.seen().len(), 0);
    let mut client = weir.connect();
    assert_eq!(client.get("/page").text(), "page");
    // What is no WebSocket is an ordinary request, as it is everywhere in HTTP/2.
    client.send("GET /irc HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: irc\r\n\r\n");
    assert_eq!(client.read_response().text(), "page");
    assert_eq!((target.seen().len(), target.connections()), (2, 1));
    assert_eq!(target.last().head.method.as_str(), "GET");
    assert_eq!(metric(&weir, "upstream_errors_total"), 0, "not the target's fault");
}

#[test]
fn the_settings_of_the_target_are_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for offers in [true, false] {
        let weir = gateway_with(listener.local_addr().unwrap(), "", "", "");
        let mut client = weir.connect();
        client.send(handshake("/ws", ""));
        let mut target = Raw::accept_without_settings(&listener);
        target.until(SETTINGS);
        // It is the gateway's turn, and it has nothing to say before it knows.
        let setting = [&CONNECT_PROTOCOL.to_be_bytes()[..], &u32::from(offers).to_be_bytes()].concat();
        target.send(&frame(SETTINGS, 0, 0, &setting));
        if !offers {
            assert_eq!(client.read_response().status(), 501);
            continue;
        }
        let (flags, stream, _) = target.until(HEADERS);
        assert_eq!((flags & END_STREAM, stream), (0, 1));
        target.send(&frame(HEADERS, END_HEADERS, stream, &block(&[(":status", "200")])));
        assert_eq!(client.read_head().status(), 101);
    }
    // A target that never says what it offers.
    let upstream = "    retry: none\n    timeouts: {first_byte: 300ms}\n";
    let weir = gateway_with(listener.local_addr().unwrap(), "", upstream, "");
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    let mut target = Raw::accept_without_settings(&listener);
    assert_eq!(client.read_response().status(), 504);
    drop(client);
    drop(weir);
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut target.socket, &mut rest).unwrap();
    let mut kinds = Vec::new();
    while rest.len() >= 9 {
        let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
        kinds.push(rest[3]);
        rest.drain(..9 + length);
    }
    assert!(!kinds.contains(&HEADERS), "{kinds:?}");
}

#[test]
fn refusals_pass_and_open_nothing_rule_18() {
    let target = Target::start(&[Do::Respond(403, b"not you")]);
    let weir = gateway(&target);
    assert_eq!(refusals(&weir), [(403, "not you".to_owned()), (403, "not you".to_owned())]);
    // This side of a refused tunnel ends in order.
    wait::until(DEADLINE, "the ends", || target.seen().iter().all(|seen| *seen.end.lock().unwrap() == Some(Ok(()))));
    target.then(Do::Respond(302, b""));
    assert_eq!(refusals(&weir).map(|refusal| refusal.0), [302, 302]);
    target.then(Do::Reset(Reason::INTERNAL_ERROR));
    for (status, body) in refusals(&weir) {
        assert!(status == 502 && body.contains("upstream_reset"), "{status} {body}");
    }
    // Every success opens the tunnel, also one whose direction has ended at once.
    target.then(Do::SayAndLeave(0));
    let mut client = open1(&weir, "/ws");
    client.expect_closed();
    assert_eq!(target.connections(), 1);
}

#[test]
fn what_is_no_handshake_reaches_no_target() {
    let target = Target::start(&[Do::Echo]);
    let weir = gateway(&target);
    let upgrade = "Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    for head in [
        format!("GET / HTTP/1.1\r\n{upgrade}\r\n"),
        format!("GET / HTTP/1.1\r\n{upgrade}Sec-WebSocket-Key: x\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{upgrade}Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"),
        format!("PUT / HTTP/1.1\r\n{upgrade}Sec-WebSocket-Key: {KEY}\r\n\r\n"),
    ] {
        let mut client = weir.connect();
        client.send(&head);
        let response = client.read_response();
        assert_eq!(response.status(), 400, "{head}");
        assert!(response.text().contains("bad_request"), "{}", response.text());
    }
    // Without `Connection: upgrade` it is an ordinary request.
    target.then(Do::Respond(200, b"page"));
    assert_eq!(weir.get("/").text(), "page");
    assert_eq!(target.seen().len(), 1);
}

#[test]
fn only_what_was_not_processed_is_sent_again_and_nothing_after_bytes() {
    let target = Target::start(&[Do::Reset(Reason::REFUSED_STREAM), Do::Echo]);
    let weir = gateway_with(target.address, "", "    retry: {extra_attempts: 2}\n", "");
    let mut client = open1(&weir, "/ws");
    client.send("x");
    assert_eq!(client.read_raw(1), b"x");
    assert_eq!(target.seen().len(), 2);
    client.reset();
    wait::until(DEADLINE, "a reset", || *target.last().end.lock().unwrap() == Some(Err(Reason::CANCEL)));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let weir = gateway_with(listener.local_addr().unwrap(), "", "    retry: {extra_attempts: 2}\n", "");
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    let mut target = raw(&listener);
    let (_, stream, _) = target.until(HEADERS);
    target.send(&frame(HEADERS, END_HEADERS, stream, &block(&[(":status", "200")])));
    assert_eq!(client.read_head().status(), 101);
    target.send(&frame(DATA, 0, stream, b"half"));
    assert_eq!(client.read_raw(4), b"half");
    target.send(&frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes()));
    assert_eq!(client.try_read_raw(1).unwrap_or_default(), b"", "the tunnel is over");
    // The next request is the first one behind it.
    let mut client = weir.connect();
    client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_, next, _) = target.until(HEADERS);
    assert_eq!(next, stream + 2);
}

/// A target of raw frames that offers extended CONNECT.
fn raw(listener: &TcpListener) -> Raw {
    let mut target = Raw::accept_without_settings(listener);
    let setting = [&CONNECT_PROTOCOL.to_be_bytes()[..], &1u32.to_be_bytes()].concat();
    target.send(&[frame(SETTINGS, 0, 0, &setting), frame(SETTINGS, 1, 0, &[])].concat());
    target
}

#[test]
fn what_a_target_said_before_it_left_arrives() {
    let target = Target::start(&[Do::SayAndLeave(3_000_000)]);
    let weir = gateway(&target);
    for _ in 0..4 {
        let mut client = open1(&weir, "/ws");
        // Written while the target refuses what comes.
        let _ = client.try_send("more");
        let got = client.read_raw(3_000_000);
        assert!(got.iter().enumerate().all(|(index, byte)| *byte == index as u8));
        let _ = client.try_send("and more");
        client.half_close();
        client.expect_closed();
    }
}

#[test]
fn what_a_client_said_before_it_left_arrives() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let weir = gateway_with(listener.local_addr().unwrap(), "", "", "");
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    let mut target = Raw::accept_without_settings(&listener);
    // A window of 10 bytes, and the target's direction ends first.
    let settings = [(CONNECT_PROTOCOL, 1u32), (4, 10)];
    let settings: Vec<u8> =
        settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
    target.send(&[frame(SETTINGS, 0, 0, &settings), frame(SETTINGS, 1, 0, &[])].concat());
    let (_, stream, _) = target.until(HEADERS);
    let head = frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[(":status", "200")]));
    target.send(&head);
    assert_eq!(client.read_head().status(), 101);
    client.send("0123456789abcdef");
    client.half_close();
    let (flags, _, data) = target.until(DATA);
    assert_eq!((flags & END_STREAM, &*data), (0, &b"0123456789"[..]));
    client.expect_closed();
    // The gateway still owes six bytes and the end.
    target.send(&frame(WINDOW_UPDATE, 0, stream, &100u32.to_be_bytes()));
    let (flags, _, data) = target.until(DATA);
    assert_eq!(&*data, b"abcdef");
    let flags = if flags & END_STREAM == 0 { target.until(DATA).0 } else { flags };
    assert_eq!(flags & END_STREAM, END_STREAM);
}

#[test]
fn frames_that_have_no_place_in_a_tunnel_end_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let weir = gateway_with(listener.local_addr().unwrap(), "", "", "");
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    let mut target = raw(&listener);
    let (_, stream, _) = target.until(HEADERS);
    // A length means nothing here (RFC 9110 section 9.3.6), and what HTTP/1.1 needs is made by the gateway.
    let head = [(":status", "200"), ("content-length", "2"), ("sec-websocket-accept", "forged")];
    target.send(&frame(HEADERS, END_HEADERS, stream, &block(&head)));
    let head = client.read_head();
    assert_eq!((head.status(), head.all("sec-websocket-accept")), (101, vec![ACCEPT]));
    target.send(&frame(DATA, 0, stream, b"longer"));
    assert_eq!(client.read_raw(6), b"longer");
    // RFC 9113 section 8.5: no trailers.
    target.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[("x", "1")])));
    let (_, reset, code) = target.until(RST_STREAM);
    assert_eq!((reset, &*code), (stream, &PROTOCOL_ERROR.to_be_bytes()[..]));
    assert_eq!(client.try_read_raw(1).unwrap_or_default(), b"");

    // The same from a client.
    let mut client = Client::connect(weir.addr());
    let stream = client.open(&request("CONNECT", "/ws", &[(":protocol", "websocket")]), false);
    let (_, up, _) = target.until(HEADERS);
    target.send(&frame(HEADERS, END_HEADERS, up, &block(&[(":status", "200")])));
    client.until("a head", |client| client.streams.get(&stream).is_some_and(|response| response.status == 200));
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[("x", "1")])));
    assert_eq!(client.response(stream).reset, Some(PROTOCOL_ERROR));
    assert_eq!(&*target.until(RST_STREAM).2, &CANCEL.to_be_bytes()[..]);
}

#[test]
fn a_reset_on_either_side_is_one_on_the_other() {
    let target = Target::start(&[Do::Echo]);
    let weir = gateway(&target);
    let mut two = Client::connect(weir.addr());
    let stream = open2(&mut two, "/ws");
    two.data(stream, b"x", false);
    two.until("an echo", |client| client.streams[&stream].body == b"x");
    let seen = target.last();
    two.reset(stream, CANCEL);
    wait::until(DEADLINE, "a reset", || *seen.end.lock().unwrap() == Some(Err(Reason::CANCEL)));
    // The end of a client's connection is the end of its tunnels, and of no other.
    let mut other = open1(&weir, "/other");
    let stream = open2(&mut two, "/ws");
    let seen = target.last();
    two.data(stream, b"x", false);
    two.until("an echo", |client| client.streams[&stream].body == b"x");
    drop(two);
    wait::until(DEADLINE, "a reset", || *seen.end.lock().unwrap() == Some(Err(Reason::CANCEL)));
    other.send("y");
    assert_eq!(other.read_raw(1), b"y");
    // The end of the target's connection is the end of all.
    let mut two = Client::connect(weir.addr());
    let stream = open2(&mut two, "/ws");
    drop(target);
    assert_eq!(two.response(stream).reset, Some(CANCEL));
    assert_eq!(other.try_read_raw(1).unwrap_or_default(), b"");
}

#[test]
fn a_connection_carries_as_many_tunnels_as_it_has_streams_and_a_drain_ends_them() {
    let target = Target::start_with(&[Do::Echo], |builder| {
        builder.max_concurrent_streams(8).enable_connect_protocol();
    });
    let weir = gateway_with(
        target.address,
        "server: {drain: 300ms}\n",
        "    http2: {max_connections: 3}\n    timeouts: {connect: 300ms}\n",
        "",
    );
    let mut clients: Vec<_> = (0..24).map(|_| open1(&weir, "/ws")).collect();
    assert_eq!(target.connections(), 3);
    let mut beyond = weir.connect();
    beyond.send(handshake("/ws", ""));
    assert_eq!(beyond.read_response().status(), 503, "no stream is left");
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("{number:02}"));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.read_raw(2), format!("{number:02}").as_bytes());
    }
    // One that ends makes room for another.
    let last = clients.pop().unwrap();
    last.reset();
    wait::until(DEADLINE, "a free stream", || {
        let mut client = weir.connect();
        client.send(handshake("/ws", ""));
        client.try_read_head("GET").is_ok_and(|(head, _)| head.status() == 101)
    });
    weir.signal(testkit::Signal::TERM);
    clients[0].send("still");
    assert_eq!(clients[0].read_raw(5), b"still");
    assert_eq!(weir.wait_for_exit(DEADLINE).code(), Some(0));
    assert!(clients.iter_mut().all(|client| client.try_read_raw(1).unwrap_or_default().is_empty()));
    wait::until(DEADLINE, "all ends", || target.seen().iter().all(|seen| seen.end.lock().unwrap().is_some()));
}

#[test]
fn limits_identity_and_timeouts_hold_for_tunnels() {
    let target = Target::start(&[Do::Echo]);
    let top = "limits: {few: {algorithm: concurrency, quota: 1}}\n";
    let upstream = "    timeouts: {tunnel_idle: 500ms, first_byte: 300ms}\n    retry: {extra_attempts: 0}\n";
    let route = "    limits: [few]\n    headers: {request: {set: {X-By: weir}}, response: {set: {X-Via: weir}}}\n";
    let weir = gateway_with(target.address, top, upstream, route);
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    assert_eq!(client.read_head().status(), 101);
    assert_eq!(target.last().head.headers["x-by"], "weir");
    assert_eq!(refusals(&weir).map(|refusal| refusal.0), [429, 429], "the tunnel holds its place");
    assert_eq!(target.seen().len(), 1);
    // Nothing moves: it ends, on both sides, and its place is free.
    client.expect_closed();
    wait::until(DEADLINE, "an end", || target.last().end.lock().unwrap().is_some());
    wait::until(DEADLINE, "a place", || {
        let mut client = weir.connect();
        client.send(handshake("/ws", ""));
        client.read_head().status() == 101
    });
    // A target that does not respond.
    target.then(Do::Nothing);
    wait::until(DEADLINE, "504", || {
        let mut client = weir.connect();
        client.send(handshake("/ws", ""));
        client.read_response().status() == 504
    });
    wait::until(DEADLINE, "a reset", || *target.last().end.lock().unwrap() == Some(Err(Reason::CANCEL)));
}

#[test]
fn a_target_that_goes_away_keeps_its_tunnels() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let weir = gateway_with(listener.local_addr().unwrap(), "", "", "");
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    let mut target = raw(&listener);
    let (_, stream, _) = target.until(HEADERS);
    target.send(&frame(HEADERS, END_HEADERS, stream, &block(&[(":status", "200")])));
    assert_eq!(client.read_head().status(), 101);
    let mut second = weir.connect();
    second.send(handshake("/ws", ""));
    let (_, beyond, _) = target.until(HEADERS);
    target.send(&frame(GOAWAY, 0, 0, &[stream.to_be_bytes(), NO_ERROR.to_be_bytes()].concat()));
    // The second one was not processed: it goes elsewhere.
    let mut other = raw(&listener);
    let (_, again, _) = other.until(HEADERS);
    assert_eq!((beyond, again), (stream + 2, 1));
    other.send(&frame(HEADERS, END_HEADERS, again, &block(&[(":status", "200")])));
    assert_eq!(second.read_head().status(), 101);
    client.send("still");
    assert_eq!(target.until(DATA).2, b"still");
    target.send(&frame(DATA, END_STREAM, stream, b"here"));
    assert_eq!(client.read_raw(4), b"here");
    client.half_close();
    client.expect_closed();
    target.until(GOAWAY);
}

/// Clients of both kinds that come, speak and leave at random, with a target that resets, refuses and serves: each gets its own bytes, or the end.
#[test]
fn many_at_once_with_faults_at_every_step() {
    let what: Vec<Do> = (0..600)
        .map(|number| match number % 7 {
            0 => Do::Respond(403, b"no"),
            1 => Do::Reset(Reason::INTERNAL_ERROR),
            2 => Do::SayAndLeave(70_000),
            _ => Do::Echo,
        })
        .chain([Do::Echo])
        .collect();
    let target = Target::start(&what);
    let weir = gateway_with(
        target.address,
        "",
        "    retry: {extra_attempts: 0}\n    http2: {max_concurrent_streams: 5, max_connections: 2}\n    timeouts: {connect: 10s}\n",
        "",
    );
    let (tunnels, refused, lost) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..12usize {
            let (weir, tunnels, refused, lost) = (&weir, &tunnels, &refused, &lost);
            scope.spawn(move || {
                for round in 0..40usize {
                    let said = format!("{thread:02}-{round:02}-").repeat(1 + (thread * 7 + round * 13) % 900);
                    let status = if thread % 2 == 0 {
                        one_of_http1(weir, said.as_bytes(), round % 5 == 4)
                    } else {
                        one_of_http2(weir, said.as_bytes(), round % 5 == 4)
                    };
                    let count = match status {
                        101 => tunnels,
                        403 => refused,
                        502 => lost,
                        other => panic!("{other}"),
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let counts = [&tunnels, &refused, &lost].map(|count| count.load(Ordering::Relaxed));
    assert_eq!((counts.iter().sum::<usize>(), target.seen().len()), (480, 480), "each request once");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    wait::until(DEADLINE, "nothing in flight", || metric(&weir, "upstream_target_in_flight") == 0);
    assert!(target.connections() <= 2, "{}", target.connections());
}

/// One tunnel; its status, 101 where it is one.
fn one_of_http1(weir: &Weir, said: &[u8], leaves: bool) -> u16 {
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    let (head, _) = client.try_read_head("GET").unwrap();
    if head.status() != 101 {
        return head.status();
    }
    let _ = client.try_send(said);
    if leaves {
        client.reset();
        return 101;
    }
    client.half_close();
    check(said, &client.read_to_close());
    101
}

fn one_of_http2(weir: &Weir, said: &[u8], leaves: bool) -> u16 {
    let mut client = Client::connect(weir.addr());
    let stream = open2(&mut client, "/ws");
    let status = client.streams[&stream].status;
    if status != 200 {
        return status;
    }
    client.data(stream, said, true);
    if leaves {
        client.reset(stream, CANCEL);
        client.read(Duration::from_millis(1));
        return 101;
    }
    let response = client.response(stream);
    assert!(response.has_ended, "{:?} {}", response.reset, response.body.len());
    check(said, &response.body);
    101
}

/// Either an echo, or what a target says by itself.
fn check(said: &[u8], got: &[u8]) {
    let is_pattern = got.len() == 70_000 && got.iter().enumerate().all(|(index, byte)| *byte == index as u8);
    assert!(got == said || is_pattern, "{} of {} bytes", got.len(), said.len());
}
