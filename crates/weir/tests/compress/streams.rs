//! Bodies that come slowly, break off, have trailers, or go to clients of HTTP/1.0.

use testkit::{DEADLINE, Framing, Gate, Upstream, wait};

use super::{coding, decode, gateway, gateway_with, get, text};

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn what_the_upstream_has_sent_is_not_held_until_it_sends_more() {
    let gate = Gate::new();
    let held = gate.clone();
    let upstream = Upstream::start(move |conn, _| {
        conn.write(CHUNKED)?;
        for line in ["one\n", "two\n", "three\n"] {
            conn.write_chunk(line)?;
            conn.pass(&held)?;
        }
        conn.write("0\r\n\r\n")
    });
    let weir = gateway(&upstream);
    for accepted in ["zstd", "br", "gzip"] {
        let mut client = weir.connect();
        client.send(format!("GET /x HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n"));
        assert_eq!(client.read_head().field("content-encoding"), Some(accepted));
        let mut coded = Vec::new();
        for lines in ["one\n", "one\ntwo\n", "one\ntwo\nthree\n"] {
            while decode(Some(accepted), &coded).len() < lines.len() {
                coded.extend(client.read_piece().expect("a line").data);
            }
            assert_eq!(decode(Some(accepted), &coded), lines.as_bytes(), "{accepted}");
            gate.release();
        }
        coded.extend(client.read_body());
        assert_eq!(decode(Some(accepted), &coded), b"one\ntwo\nthree\n");
    }
}

#[test]
fn a_client_of_http_1_0_gets_a_body_that_ends_with_the_connection() {
    let upstream = Upstream::start(|conn, _| conn.respond(200, &[("Content-Type", "text/plain")], text(4096)));
    let weir = gateway(&upstream);
    let mut client = weir.connect();
    client.send("GET /x HTTP/1.0\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n");
    let (head, framing) = client.try_read_head("GET").unwrap();
    assert_eq!((head.field("content-encoding"), framing), (Some("gzip"), Framing::UntilClose));
    assert_eq!(head.field("connection"), Some("close"));
    assert_eq!(decode(Some("gzip"), &client.read_body()), text(4096));
}

#[test]
fn trailers_come_behind_a_coded_body() {
    let upstream = Upstream::start(|conn, _| {
        conn.write(CHUNKED)?;
        conn.write_chunk(text(4096))?;
        conn.write("0\r\nX-Sum: 42\r\n\r\n")
    });
    let weir = gateway_with(&upstream, "", "    compress: [gzip]\n    trailers: forward\n");
    let response = get(&weir, &[("Accept-Encoding", "gzip"), ("TE", "trailers")]);
    assert_eq!(response.trailers, [("X-Sum".to_owned(), "42".to_owned())]);
    assert_eq!(decode(coding(&response), &response.body), text(4096));
}

#[test]
fn a_body_that_breaks_off_does_not_pass_for_a_complete_one() {
    let upstream = Upstream::start(|conn, _| {
        conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n")?;
        conn.write(text(50_000))?;
        conn.close()
    });
    let weir = gateway(&upstream);
    for version in ["1.1", "1.0"] {
        let mut client = weir.connect();
        client.send(format!("GET /x HTTP/{version}\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"));
        assert!(client.try_read_response().is_err(), "HTTP/{version}");
    }
}

#[test]
fn a_client_that_leaves_frees_what_was_held_for_it() {
    let upstream = Upstream::start(|conn, _| {
        conn.write(CHUNKED)?;
        conn.write_chunk(text(4096))?;
        conn.stall()
    });
    let weir = gateway(&upstream);
    // Each holds the 5 MiB of an encoder; the worker has room for 12.
    let clients: Vec<_> = (0..13)
        .map(|number| {
            let mut client = weir.connect();
            client.send("GET /x HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n");
            let head = client.read_head();
            assert_eq!(head.field("content-encoding"), (number < 12).then_some("br"), "{number}");
            assert_eq!(head.field("vary"), Some("Accept-Encoding"));
            client
        })
        .collect();
    let skipped = weir.admin_get("/metrics").text().lines().any(|line| line == "compression_skipped_total 1");
    assert!(skipped);
    drop(clients);
    upstream.wait_for_open(0);
    wait::until(DEADLINE, "room for an encoder", || {
        let mut client = weir.connect();
        client.send("GET /x HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n");
        client.read_head().field("content-encoding") == Some("br")
    });
}

#[test]
fn connections_on_both_sides_live_on_behind_coded_bodies() {
    let upstream = Upstream::start(|conn, _| conn.respond(200, &[("Content-Type", "text/plain")], text(20_000)));
    let weir = gateway(&upstream);
    let mut client = weir.connect();
    for _ in 0..20 {
        client.send("GET /x HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
        let response = client.read_response();
        assert_eq!(decode(coding(&response), &response.body), text(20_000));
    }
    assert_eq!((upstream.accepted(), upstream.errors()), (1, Vec::<String>::new()));
}
