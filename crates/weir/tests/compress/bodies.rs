//! What a client decodes is what the upstream sent: random bodies, chunkings and pauses, over both protocols.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use testkit::{Gate, Upstream};

use super::{client, coding, decode, gateway, text};

#[derive(Debug, Clone)]
struct Body {
    pieces: Vec<Vec<u8>>,
    /// Framed by its length, not in chunks.
    has_length: bool,
    /// Before these pieces the upstream waits until the client has read everything before.
    pauses: u8,
}

impl Body {
    fn waits_before(&self, piece: usize) -> bool {
        piece > 0 && self.pauses & (1 << piece) != 0
    }
}

fn body() -> impl Strategy<Value = Body> {
    let noise = prop::collection::vec(any::<u8>(), 1..3000);
    let words = (1_usize..40_000).prop_map(text);
    let pieces = prop::collection::vec(prop_oneof![noise, words], 1..6);
    (pieces, any::<bool>(), any::<u8>()).prop_map(|(pieces, has_length, pauses)| Body { pieces, has_length, pauses })
}

/// An upstream that sends the body which is set, and waits where it says so.
fn upstream(current: Arc<Mutex<Body>>, gate: Gate) -> Upstream {
    Upstream::start(move |conn, _| {
        let body = current.lock().unwrap().clone();
        let whole: usize = body.pieces.iter().map(Vec::len).sum();
        let framing = match body.has_length {
            true => format!("Content-Length: {whole}"),
            false => "Transfer-Encoding: chunked".to_owned(),
        };
        conn.write(format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{framing}\r\n\r\n"))?;
        for (number, piece) in body.pieces.iter().enumerate() {
            if body.waits_before(number) {
                conn.pass(&gate)?;
            }
            if body.has_length { conn.write(piece)? } else { conn.write_chunk(piece)? }
        }
        if body.has_length { Ok(()) } else { conn.write("0\r\n\r\n") }
    })
}

#[test]
fn every_client_decodes_the_bytes_of_the_upstream() {
    let current = Arc::new(Mutex::new(Body { pieces: Vec::new(), has_length: false, pauses: 0 }));
    let gate = Gate::new();
    let upstream = upstream(current.clone(), gate.clone());
    let weir = gateway(&upstream);
    let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    let strategy = (body(), prop_oneof![Just("zstd"), Just("br"), Just("gzip")]);
    let result = runner.run(&strategy, |(body, accepted)| {
        *current.lock().unwrap() = body.clone();
        let whole = body.pieces.concat();
        // The upstream's parts that are there before each pause.
        let stops: Vec<usize> = (0..body.pieces.len())
            .filter(|&number| body.waits_before(number))
            .map(|number| body.pieces[..number].iter().map(Vec::len).sum())
            .collect();

        let mut one = weir.connect();
        one.send(format!("GET /x HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n"));
        let head = one.read_head();
        let is_coded = head.field("content-encoding");
        prop_assert!(is_coded == Some(accepted) || (body.has_length && whole.len() < 1024));
        let mut coded = Vec::new();
        for stop in &stops {
            while decode(is_coded, &coded).len() < *stop {
                coded.extend(one.read_piece().expect("what the upstream sent before it paused").data);
            }
            gate.release();
        }
        coded.extend(one.read_body());
        prop_assert!(decode(is_coded, &coded) == whole, "HTTP/1.1");

        let mut two = client::Client::connect(weir.addr());
        let stream = two.open(&client::request("GET", "/x", &[("accept-encoding", accepted)]), true);
        for stop in &stops {
            let read = |client: &client::Client| {
                client
                    .streams
                    .get(&stream)
                    .is_some_and(|got| decode(got.field("content-encoding"), &got.body).len() >= *stop)
            };
            two.until("what the upstream sent before it paused", read);
            gate.release();
        }
        let response = two.response(stream);
        prop_assert!(decode(response.field("content-encoding"), &response.body) == whole, "HTTP/2");
        Ok(())
    });
    result.unwrap();
    assert_eq!(upstream.errors(), Vec::<String>::new());
}

#[test]
fn a_large_body_is_whole_and_others_are_served_meanwhile() {
    let whole = text(3 << 20);
    let sent = whole.clone();
    let upstream = Upstream::start(move |conn, request| match request.head.target() {
        "/x" => conn.respond(200, &[("Content-Type", "text/plain")], &sent),
        _ => conn.respond(200, &[], "small"),
    });
    let weir = gateway(&upstream);
    for accepted in ["zstd", "br", "gzip"] {
        let mut client = weir.connect();
        client.send(format!("GET /x HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n"));
        assert_eq!(weir.get("/small").text(), "small", "the one worker serves others");
        let response = client.read_response();
        assert_eq!(coding(&response), Some(accepted));
        assert!(response.body.len() < whole.len() / 10, "{accepted}: {} bytes", response.body.len());
        assert!(decode(Some(accepted), &response.body) == whole, "{accepted}");
    }
}
