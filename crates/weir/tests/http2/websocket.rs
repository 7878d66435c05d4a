//! WebSocket over HTTP/2 (RFC 8441): rule 18.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use testkit::{DEADLINE, Upstream, Weir, WireError, responder, wait};

use super::client::{CANCEL, Client, Response, request};
use super::{gateway, gateway_with};

const UPGRADE: &str = "    upgrade: [websocket]\n";
/// SETTINGS_ENABLE_CONNECT_PROTOCOL.
const CONNECT_PROTOCOL: u16 = 8;

fn accept(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// A server that switches protocols with `Sec-WebSocket-Accept` as `accept` makes it, and then sends back what it gets, to the end.
fn echo(accept: fn(&str) -> String) -> Upstream {
    Upstream::connections(move |conn| -> Result<(), WireError> {
        let head = conn.read_head()?;
        let accept = accept(head.field("sec-websocket-key").unwrap_or_default());
        conn.write(format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
        ))?;
        loop {
            let bytes = conn.read_raw()?;
            if bytes.is_empty() {
                return Ok(());
            }
            conn.write(bytes)?;
        }
    })
}

/// Opens a tunnel; its stream, once there is a head.
fn open(client: &mut Client, path: &str, more: &[(&str, &str)]) -> u32 {
    let mut fields = vec![(":protocol", "websocket"), ("sec-websocket-version", "13"), ("origin", "http://a.example")];
    fields.extend(more);
    let stream = client.open(&request("CONNECT", path, &fields), false);
    client.until("a head", |client| client.streams.get(&stream).is_some_and(|response| response.status > 0));
    stream
}

fn body(client: &Client, stream: u32) -> &[u8] {
    &client.streams[&stream].body
}

/// What a request for a tunnel gets that is refused.
fn refused(weir: &Weir, more: &[(&str, &str)]) -> Response {
    let mut client = Client::connect(weir.addr());
    let stream = open(&mut client, "/ws", more);
    client.response(stream)
}

fn logged(weir: &Weir, text: &str) {
    let log = weir.dir().join("access.log");
    wait::until(DEADLINE, text, || std::fs::read_to_string(&log).is_ok_and(|log| log.contains(text)));
}

#[test]
fn a_tunnel_carries_bytes_both_ways_and_both_ends_rule_18() {
    let upstream = echo(accept);
    let weir = gateway_with(&upstream, "", UPGRADE);
    let mut client = Client::connect(weir.addr());
    let stream = open(&mut client, "/ws?room=1", &[("sec-websocket-key", "forged")]);
    assert_eq!(client.settings.get(&CONNECT_PROTOCOL), Some(&1));
    let response = &client.streams[&stream];
    assert_eq!((response.status, response.field("sec-websocket-protocol")), (200, Some("chat")));
    for name in ["connection", "upgrade", "sec-websocket-accept", "content-length", "transfer-encoding"] {
        assert_eq!(response.field(name), None);
    }
    let head = &upstream.requests()[0].head;
    assert_eq!((head.method(), head.target()), ("GET", "/ws?room=1"));
    assert_eq!((head.field("upgrade"), head.field("sec-websocket-version")), (Some("websocket"), Some("13")));
    assert_eq!(head.all("sec-websocket-key").len(), 1);
    assert_ne!(head.field("sec-websocket-key"), Some("forged"));
    assert_eq!((head.field("content-length"), head.field("transfer-encoding")), (None, None));
    // What looks like a request is not one.
    client.data(stream, b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n", false);
    client.until("an echo", |client| body(client, stream).ends_with(b"\r\n\r\n"));
    assert_eq!(upstream.request_count(), 1);
    // Other streams go on beside it.
    let beside = client.open(&request("CONNECT", "/ws", &[(":protocol", "websocket")]), false);
    client.data(beside, b"beside", true);
    let response = client.response(beside);
    assert_eq!(response.text(), "beside", "{response:?}");
    client.data(stream, b"last", true);
    let response = client.response(stream);
    assert!(response.text().ends_with("last"), "{}", response.text());
    assert!(response.has_ended, "the end of the target's direction is an end of the stream");
    assert!(matches!(response.reset, None | Some(0)));
    logged(&weir, "\"status\":101");
}

#[test]
fn a_megabyte_passes_whatever_the_windows() {
    let upstream = echo(accept);
    let weir = gateway_with(&upstream, "server: {http2: {stream_window: 64KiB}}\n", UPGRADE);
    let mut client = Client::connect_with(weir.addr(), &[(4, 10_000)]);
    let stream = open(&mut client, "/ws", &[]);
    let sent: Vec<u8> = (0..1_048_576u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut credit = 65_536u64;
    for piece in sent.chunks(8_192) {
        // The echo comes while this is sent.
        while credit < 8_192 {
            client.read(std::time::Duration::from_millis(200));
            let more = |update: &(u32, u32)| if update.0 == stream { u64::from(update.1) } else { 0 };
            credit += client.window_updates.drain(..).map(|update| more(&update)).sum::<u64>();
        }
        credit -= piece.len() as u64;
        client.data(stream, piece, false);
    }
    client.until("all of it", |client| body(client, stream).len() >= sent.len());
    assert!(body(&client, stream) == sent, "byte by byte");
    client.data(stream, b"", true);
    assert!(client.response(stream).has_ended);
}

#[test]
fn only_routes_with_websocket_have_tunnels_and_only_then_they_are_offered_rule_18() {
    let upstream = Upstream::start(responder::ok("page"));
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    assert_eq!(client.fetch("/").status, 200);
    assert_eq!(client.settings.get(&CONNECT_PROTOCOL), None);
    let stream = client.open(&request("CONNECT", "/ws", &[(":protocol", "websocket")]), false);
    client.until("a refusal", |client| client.is_over(stream));
    assert_ne!(client.streams[&stream].status, 200);

    let other = "  - match: {path: /ws}\n    upstream: u\n    upgrade: [websocket]\n";
    let both = gateway_with(&upstream, "", other);
    let mut client = Client::connect(both.addr());
    for protocol in ["websocket", "connect-udp"] {
        let path = if protocol == "websocket" { "/page" } else { "/ws" };
        let stream = client.open(&request("CONNECT", path, &[(":protocol", protocol)]), false);
        let response = client.response(stream);
        assert_eq!(response.status, 501, "{protocol} {path}");
    }
    assert_eq!(upstream.request_count(), 1, "nothing of this was forwarded");
    assert_eq!(client.fetch("/page").text(), "page", "the connection goes on");
}

#[test]
fn nothing_but_a_right_101_opens_a_tunnel_rule_18() {
    let upstream = Upstream::start(responder::ok("a page"));
    let weir = gateway_with(&upstream, "", UPGRADE);
    let response = refused(&weir, &[]);
    assert_eq!(response.status, 502, "a success would pass for a tunnel");
    assert!(response.has_ended && response.text().contains("bad_response"), "{}", response.text());
    upstream.set_responder(responder::status(403));
    let response = refused(&weir, &[]);
    assert!(response.status == 403 && response.has_ended, "{response:?}");
    upstream.set_responder(responder::close());
    assert_eq!(refused(&weir, &[]).status, 502);

    let wrong = echo(|_| accept("another key"));
    let weir = gateway_with(&wrong, "", UPGRADE);
    let response = refused(&weir, &[]);
    assert_eq!(response.status, 502, "{}", response.text());
    assert!(response.has_ended);
    let none = echo(|_| String::new());
    assert_eq!(refused(&gateway_with(&none, "", UPGRADE), &[]).status, 502);
}

#[test]
fn a_reset_on_either_side_is_one_on_the_other() {
    let upstream = echo(accept);
    let weir = gateway_with(&upstream, "", UPGRADE);
    let mut client = Client::connect(weir.addr());
    let stream = open(&mut client, "/ws", &[]);
    client.data(stream, b"x", false);
    client.until("an echo", |client| body(client, stream) == b"x");
    client.reset(stream, CANCEL);
    wait::until(DEADLINE, "the target's connection closed", || upstream.open() == 0);

    let stream = open(&mut client, "/ws", &[]);
    client.data(stream, b"x", false);
    client.until("an echo", |client| body(client, stream) == b"x");
    upstream.close_connections();
    let response = client.response(stream);
    assert!(response.has_ended || response.reset == Some(CANCEL), "{response:?}");

    // The connection's end is the end of all.
    let stream = open(&mut client, "/ws", &[]);
    client.data(stream, b"x", false);
    client.until("an echo", |client| body(client, stream) == b"x");
    drop(client);
    wait::until(DEADLINE, "the target's connection closed", || upstream.open() == 0);
}

#[test]
fn limits_and_identity_hold_for_tunnels() {
    let upstream = echo(accept);
    let top = "limits: {few: {algorithm: concurrency, quota: 1}}\n";
    let weir = gateway_with(
        &upstream,
        top,
        "    upgrade: [websocket]\n    limits: [few]\n    headers: {request: {set: {X-By: weir}}}\n",
    );
    let mut client = Client::connect(weir.addr());
    let stream = open(&mut client, "/ws", &[]);
    assert_eq!(client.streams[&stream].status, 200);
    assert_eq!(upstream.requests()[0].head.field("x-by"), Some("weir"));
    assert_eq!(refused(&weir, &[]).status, 429, "the tunnel holds its place");
    client.data(stream, b"", true);
    assert!(client.response(stream).has_ended);
    wait::until(DEADLINE, "the place is free", || {
        let mut client = Client::connect(weir.addr());
        let stream = open(&mut client, "/ws", &[]);
        client.streams[&stream].status == 200
    });
}

#[test]
fn what_is_for_responses_leaves_tunnels_alone() {
    let (upstream, shadow) = (echo(accept), Upstream::start(responder::ok("")));
    let text = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 1\n\
         caches: {{c: {{mode: ttl}}}}\n\
         upstreams:\n  u: {{targets: [{}], balance: {{cookie: target}}}}\n  shadow: {{targets: [{}]}}\n\
         routes:\n  - match: {{path: /*}}\n    upstream: u\n    upgrade: [websocket]\n    cache: c\n    compress: [gzip]\n    \
         errors: {{5xx: {{upstream: shadow}}}}\n    mirror: {{upstream: shadow}}\n    cors: {{origins: [\"http://a.example\"]}}\n",
        upstream.url(),
        shadow.url()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(text).start();
    // Twice: a stored response would be the second one's.
    for _ in 0..2 {
        let mut client = Client::connect(weir.addr());
        let stream = open(&mut client, "/ws", &[("accept-encoding", "gzip")]);
        let response = &client.streams[&stream];
        assert_eq!((response.status, response.field("content-encoding")), (200, None));
        let sent = "a".repeat(4096);
        client.data(stream, sent.as_bytes(), true);
        let response = client.response(stream);
        assert!(response.has_ended);
        assert_eq!(response.text(), sent);
    }
    assert_eq!((upstream.request_count(), shadow.request_count()), (2, 0), "no tunnel is stored or copied");
}

#[test]
fn a_connection_carries_as_many_tunnels_as_streams_and_they_end_with_the_drain() {
    let upstream = echo(accept);
    let weir = gateway_with(&upstream, "server: {drain: 300ms}\n", UPGRADE);
    let mut client = Client::connect(weir.addr());
    let streams: Vec<u32> = (0..100).map(|_| open(&mut client, "/ws", &[])).collect();
    assert!(streams.iter().all(|stream| client.streams[stream].status == 200));
    let beyond = client.open(&request("CONNECT", "/ws", &[(":protocol", "websocket")]), false);
    client.until("a refusal", |client| client.streams.get(&beyond).is_some_and(|response| response.reset.is_some()));
    for (index, stream) in streams.iter().enumerate() {
        client.data(*stream, format!("of {index}").as_bytes(), false);
    }
    for (index, stream) in streams.iter().enumerate() {
        let expected = format!("of {index}");
        client.until("an echo", |client| body(client, *stream) == expected.as_bytes());
    }
    weir.signal(testkit::Signal::TERM);
    client.data(streams[0], b", still", false);
    client.until("an echo", |client| body(client, streams[0]).ends_with(b"still"));
    assert_eq!(weir.wait_for_exit(DEADLINE).code(), Some(0));
    while !client.is_closed {
        client.read(std::time::Duration::from_millis(200));
    }
    assert!(streams.iter().all(|stream| !client.streams[stream].has_ended), "none was said to be complete");
}
