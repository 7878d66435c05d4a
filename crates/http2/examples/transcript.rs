//! The gate of the codec: decode and encode of a ten-field exchange, many on one connection, by this crate or by the `h2` crate, for
//! counting instructions: `transcript ours|h2 EXCHANGES`. Both sides of each run speak the same codec, so that an exchange is one request
//! encoded and decoded and one response encoded and decoded; `benches/http2/run.sh` subtracts two counts to leave the start out.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http2::{Config, Connection, Event, Head, RequestLine};
use message::Known;

const REQUEST: [(&str, &str); 10] = [
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
    ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("accept-language", "en-GB,en;q=0.5"),
    ("accept-encoding", "gzip, deflate, br"),
    ("referer", "https://www.example.com/catalogue"),
    ("cookie", "session=7f3a9c1e5b2d4f60; theme=dark"),
    ("x-request-id", "0192d3a4-5b6c-7d8e-9fa0-b1c2d3e4f5a6"),
    ("cache-control", "max-age=0"),
    ("priority", "u=1, i"),
    ("te", "trailers"),
];
const RESPONSE: [(&str, &str); 10] = [
    ("date", "Sun, 22 Nov 2026 20:13:21 GMT"),
    ("server", "weir"),
    ("content-type", "application/json"),
    ("content-length", "512"),
    ("cache-control", "private, max-age=60"),
    ("etag", "\"5f3c-1a2b3c4d\""),
    ("vary", "accept-encoding"),
    ("x-request-id", "0192d3a4-5b6c-7d8e-9fa0-b1c2d3e4f5a6"),
    ("strict-transport-security", "max-age=31536000"),
    ("x-content-type-options", "nosniff"),
];
static BODY: [u8; 512] = [b'x'; 512];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let codec = arguments.next().unwrap_or_default();
    let exchanges = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1000);
    match codec.as_str() {
        "ours" => own(exchanges),
        "h2" => crate_h2(exchanges),
        _ => panic!("usage: transcript CODEC EXCHANGES, where CODEC is `ours` or `h2`"),
    }
}

fn path(number: u32) -> String {
    format!("/v1/items/{}?view=full", 1000 + number % 500)
}

fn own(exchanges: u32) {
    let (mut client, mut server) = (Connection::client(Config::default(), 0), Connection::server(Config::default(), 0));
    let (mut at_client, mut at_server) = (Head::default(), Head::default());
    for number in 0..=exchanges {
        if number > 0 {
            let path = path(number);
            let line = RequestLine {
                method: b"GET",
                scheme: b"https",
                authority: b"www.example.com",
                path: path.as_bytes(),
                protocol: None,
            };
            let fields =
                REQUEST.iter().map(|(name, value)| (Known::of(name.as_bytes()), name.as_bytes(), value.as_bytes()));
            client.send_request(line, fields, true).expect("a stream is free");
        }
        let mut at = 0;
        server.begin_iteration();
        loop {
            let (used, event) = server.decode(&client.output()[at..], &mut at_server, 0).expect("valid");
            at += used;
            match event {
                Event::NeedMore => break,
                Event::Request { stream, .. } => {
                    assert!(at_server.request.fields.len() == 10);
                    let fields = RESPONSE
                        .iter()
                        .map(|(name, value)| (Known::of(name.as_bytes()), name.as_bytes(), value.as_bytes()));
                    server.send_response(stream, 200, fields, false).expect("open");
                    assert_eq!(server.send_data(stream, &BODY, true), Ok(512));
                    server.release(stream);
                }
                _ => {}
            }
        }
        client.advance(at);
        let mut at = 0;
        loop {
            let (used, event) = client.decode(&server.output()[at..], &mut at_client, 0).expect("valid");
            at += used;
            match event {
                Event::NeedMore => break,
                Event::Data { stream, range, end } => {
                    client.consume(stream, range.len());
                    if end {
                        client.release(stream);
                    }
                }
                _ => {}
            }
        }
        server.advance(at);
    }
}

/// Polls both ends in turn until the exchange is complete: no runtime, no sockets.
fn crate_h2(exchanges: u32) {
    let (own, other) = tokio::io::duplex(1 << 20);
    let work = async {
        let server = async {
            let mut connection = h2::server::handshake(other).await.expect("handshake");
            while let Some(request) = connection.accept().await {
                let Ok((request, mut respond)) = request else { return };
                assert!(request.headers().len() == 10);
                let mut response = http::Response::new(());
                for (name, value) in RESPONSE {
                    let name = http::HeaderName::from_static(name);
                    response.headers_mut().append(name, http::HeaderValue::from_static(value));
                }
                let mut send = respond.send_response(response, false).expect("open");
                send.send_data(Bytes::from_static(&BODY), true).expect("open");
            }
        };
        let client = async {
            let (send, connection) = h2::client::handshake(own).await.expect("handshake");
            let calls = async {
                let mut send = send;
                for number in 1..=exchanges {
                    send = send.ready().await.expect("ready");
                    let uri: http::Uri = format!("https://www.example.com{}", path(number)).parse().expect("valid");
                    let mut request = http::Request::new(());
                    *request.uri_mut() = uri;
                    for (name, value) in REQUEST {
                        let name = http::HeaderName::from_static(name);
                        request.headers_mut().append(name, http::HeaderValue::from_static(value));
                    }
                    let (response, _) = send.send_request(request, true).expect("open");
                    let mut body = response.await.expect("a response").into_body();
                    while let Some(data) = body.data().await {
                        let data = data.expect("data");
                        body.flow_control().release_capacity(data.len()).expect("credit");
                    }
                }
            };
            tokio::select! { _ = connection => {}, () = calls => {} }
        };
        tokio::select! { () = server => {}, () = client => {} }
    };
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    while work.as_mut().poll(&mut context) == Poll::Pending {}
}
