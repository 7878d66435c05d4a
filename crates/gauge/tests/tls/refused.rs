//! Handshakes that fail: each is an error of its kind, with a reason that says what to do.

use std::io::{Read, Write};

use super::server::{Authority, Canned, Server, config};
use super::{get, good, tls};

/// All requests to `url` fail with TLS, for a reason that has these words.
pub(crate) fn refused(url: &str, options: &str, words: &[&str]) {
    let report = get(url, "{closed: {users: 2, iterations: 6}}", &format!("tls: {{{options}}}"));
    let errors = &report.total.errors;
    assert_eq!((errors.tls, errors.total), (Some(6), Some(6)), "{errors:?} {:?}", tls(&report));
    assert_eq!(report.total.requests.responses, Some(0));
    let reason = tls(&report).first_error.clone().expect("a reason");
    assert!(reason.starts_with(&format!("{url}: ")), "{reason}");
    for word in words {
        assert!(reason.contains(word), "`{word}` in: {reason}");
    }
}

#[test]
fn an_unknown_authority() {
    let (_, server) = good(5);
    let other = Authority::new();
    refused(
        &server.url(),
        &format!("ca: {}", other.pem()),
        &["not issued by a trusted authority", "--ca FILE", "--insecure"],
    );
    let report = get(&server.url(), "{closed: {users: 1, iterations: 1}}", "tls: {insecure: true}");
    assert_eq!((report.total.requests.responses, tls(&report).verified), (Some(1), false));
}

/// What `openssl req -x509` makes by default.
#[test]
fn an_authority_that_is_used_as_a_server_certificate() {
    let authority = Authority::new();
    let leaf = authority.leaf(&["127.0.0.1"], |params| {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    });
    let server = Server::start(config(leaf, None), Canned::Sized(5));
    refused(&server.url(), &format!("ca: {}", authority.pem()), &["CA:TRUE", "--insecure"]);
}

#[test]
fn another_name_and_the_one_that_is_given() {
    let authority = Authority::new();
    let server = Server::start(config(authority.leaf(&["a.test"], |_| {}), None), Canned::Sized(5));
    refused(&server.url(), &format!("ca: {}", authority.pem()), &["not for this name", "--server-name"]);
    let more = format!("tls: {{ca: {}, server_name: a.test}}", authority.pem());
    let report = get(&server.url(), "{closed: {users: 1, iterations: 1}}", &more);
    assert_eq!(report.total.requests.responses, Some(1), "{:?}", tls(&report));
    assert_eq!(server.seen.lock().expect("no panic").names, [Some("a.test".to_owned())], "SNI");
}

#[test]
fn a_server_that_closes_in_the_handshake() {
    let server = Server::accept(|mut stream, _| {
        // Some of the ClientHello is read: the end is no reset.
        let _ = stream.read(&mut [0; 16 * 1024]);
    });
    refused(&server.url(), "insecure: true", &["closed the connection in the handshake"]);
}

#[test]
fn a_server_that_resets_in_the_handshake() {
    let server = Server::accept(|stream, _| {
        let mut one = [0];
        let _ = (&stream).read(&mut one);
        // Closed with bytes unread, a socket sends a reset.
    });
    refused(&server.url(), "insecure: true", &["failed in the handshake"]);
}

#[test]
fn a_server_that_speaks_http_without_tls() {
    let server = Server::accept(|mut stream, _| {
        let _ = stream.read(&mut [0; 16 * 1024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.read(&mut [0; 1024]);
    });
    refused(&server.url(), "insecure: true", &["does not speak TLS", "http://"]);
}

#[test]
fn a_server_that_breaks_a_record_after_the_handshake() {
    use rustls::ServerConnection;
    use std::sync::Arc;
    let authority = Authority::new();
    let config = Arc::new(config(authority.leaf(&["127.0.0.1"], |_| {}), None));
    let server = Server::accept(move |mut stream, _| {
        let mut tls = ServerConnection::new(config.clone()).expect("a connection");
        while tls.is_handshaking() && tls.complete_io(&mut stream).is_ok() {}
        let _ = stream.write_all(&[23, 3, 3, 0, 32]).and_then(|()| stream.write_all(&[0; 32]));
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    refused(&server.url(), &format!("ca: {}", authority.pem()), &["violated the protocol"]);
}

#[test]
fn a_server_that_stalls_in_the_handshake_is_a_timeout() {
    let server = Server::accept(|mut stream, _| {
        // Until the client closes.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let report = get(&server.url(), "{closed: {users: 2, iterations: 4}}", "timeout: 150ms\ntls: {insecure: true}");
    let errors = &report.total.errors;
    assert_eq!((errors.timeout, errors.tls, errors.total), (Some(4), Some(0), Some(4)), "{errors:?}");
    assert_eq!(tls(&report).first_error, None);
    assert_eq!(report.total.connections_opened, Some(4));
}

#[test]
fn a_server_that_responds_without_a_request_is_a_bad_response() {
    use rustls::ServerConnection;
    use std::sync::Arc;
    let authority = Authority::new();
    let config = Arc::new(config(authority.leaf(&["127.0.0.1"], |_| {}), None));
    let server = Server::accept(move |mut stream, _| {
        let mut tls = ServerConnection::new(config.clone()).expect("a connection");
        while tls.is_handshaking() && tls.complete_io(&mut stream).is_ok() {}
        let mut request = [0; 1024];
        let _ = rustls::Stream::new(&mut tls, &mut stream).read(&mut request);
        // Two responses in two records that arrive together.
        for _ in 0..2 {
            let _ = tls.writer().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
        let mut both = Vec::new();
        while tls.wants_write() && tls.write_tls(&mut both).is_ok() {}
        let _ = stream.write_all(&both);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let more = format!("tls: {{ca: {}}}", authority.pem());
    let report = get(&server.url(), "{closed: {users: 2, iterations: 4}}", &more);
    assert_eq!(report.total.errors.invalid_response, Some(4), "{:?}", report.total.errors);
}
