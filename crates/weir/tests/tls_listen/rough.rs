//! Clients that are slow, broken or hostile in the handshake.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use testkit::{Certificates, Weir, wait};

use super::client::{Client, DEADLINE, config, trusting};
use super::{ROUTES, certificate, gateway, listener, metric};

fn weir(certificates: &Certificates, head_timeout: &str) -> Weir {
    let rest = format!("server: {{head_timeout: {head_timeout}}}\n{ROUTES}");
    gateway(&[listener(&[certificate(certificates, "")], "")], &rest)
}

fn raw(weir: &Weir) -> TcpStream {
    let stream = TcpStream::connect(weir.addr()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

fn read_all(mut stream: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset is an end too.
    let _ = stream.read_to_end(&mut all);
    all
}

/// A ClientHello of the client of these tests.
fn client_hello(certificates: &Certificates) -> Vec<u8> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = config(&trusting(&[certificates]));
    std::thread::scope(|scope| {
        scope.spawn(move || Client::connect(address, &config, "a.test").map(drop));
        let (mut stream, _) = listener.accept().unwrap();
        let mut hello = vec![0; 16 * 1024];
        let mut length = 0;
        // A record says how long it is.
        while length < 5 || length < 5 + usize::from(u16::from_be_bytes([hello[3], hello[4]])) {
            length += stream.read(&mut hello[length..]).unwrap();
        }
        hello.truncate(length);
        hello
    })
}

#[test]
fn plain_http_is_told_to_use_https() {
    let certificates = Certificates::for_names("DNS:a.test");
    let weir = weir(&certificates, "10s");
    for request in ["GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "P", "CONNECT a:1 HTTP/1.1\r\n"] {
        let mut client = raw(&weir);
        client.write_all(request.as_bytes()).unwrap();
        let response = String::from_utf8(read_all(client)).unwrap();
        assert!(response.starts_with("HTTP/1.1 400 ") && response.contains("https://"), "{response}");
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{response}");
    }
    let count = || metric(&weir, "tls_handshakes_total", "result=\"tls_not_tls\"");
    wait::until(DEADLINE, "three to be counted", || count() == 3);
}

#[test]
fn garbage_and_partial_hellos_end_and_harm_nobody() {
    let certificates = Certificates::for_names("DNS:a.test");
    let weir = weir(&certificates, "10s");
    let hello = client_hello(&certificates);
    let known = config(&trusting(&[&certificates]));
    let mut broken: Vec<Vec<u8>> =
        vec![vec![0; 100], vec![22, 3, 1, 0xff, 0xff, 1], vec![22, 3, 1, 0, 0], vec![0x80, 0x2e, 1, 3, 1]];
    // Cut anywhere, and with a byte changed anywhere.
    broken.extend((1..hello.len()).step_by(97).map(|cut| hello[..cut].to_vec()));
    broken.extend((0..hello.len()).step_by(61).map(|at| {
        let mut changed = hello.clone();
        changed[at] ^= 0xff;
        changed
    }));
    for bytes in &broken {
        let mut client = raw(&weir);
        let _ = client.write_all(bytes);
        let _ = client.shutdown(Shutdown::Write);
        read_all(client);
    }
    // A record that never ends.
    let mut endless = raw(&weir);
    let mut sent = 0;
    while sent < 64 << 20
        && endless.write_all(&[22, 3, 1, 0x40, 0]).and_then(|()| endless.write_all(&[1; 0x4000])).is_ok()
    {
        sent += 0x4005;
    }
    assert!(sent < 64 << 20, "the gateway takes no hello of a megabyte");
    assert_eq!(Client::connect(weir.addr(), &known, "a.test").unwrap().get("a.test", "/").status, 200);
    wait::until(DEADLINE, "the connections to end", || metric(&weir, "client_connections_open", "") <= 1);
}

/// Silent, trickling and stalled clients are closed at the deadline, whatever they send meanwhile.
#[test]
fn a_handshake_has_one_deadline() {
    let certificates = Certificates::for_names("DNS:a.test");
    let weir = weir(&certificates, "400ms");
    let hello = client_hello(&certificates);
    let began = Instant::now();
    let silent = raw(&weir);
    let mut stalled = raw(&weir);
    stalled.write_all(&hello).unwrap();
    let mut trickling = raw(&weir);
    let mut rest = hello.iter();
    wait::until(DEADLINE, "the trickling client to be closed", || {
        let byte = rest.next().expect("it was closed before it was done");
        trickling.write_all(&[*byte]).is_err()
    });
    assert!(read_all(silent).is_empty());
    // It has the server's part of the handshake.
    assert!(!read_all(stalled).is_empty());
    assert!(began.elapsed() >= Duration::from_millis(400));
    wait::until(DEADLINE, "three to be counted", || metric(&weir, "tls_handshakes_total", "tls_timeout") == 3);
}

/// More clients stall behind their ClientHello than handshakes may run: others are served all the same.
#[test]
fn stalled_handshakes_keep_nobody_out() {
    let certificates = Certificates::for_names("DNS:a.test");
    let text = format!(
        "listen: [{}]\nadmin: 127.0.0.1:0\nworkers: 1\n{ROUTES}",
        listener(&[certificate(&certificates, "")], "")
    );
    let weir = Weir::builder(super::program()).config(text).start();
    let hello = client_hello(&certificates);
    let known = config(&trusting(&[&certificates]));
    let mut stalled = Vec::new();
    for _ in 0..400 {
        let mut client = raw(&weir);
        client.write_all(&hello).unwrap();
        stalled.push(client);
    }
    let began = Instant::now();
    for _ in 0..10 {
        assert_eq!(Client::connect(weir.addr(), &known, "a.test").unwrap().get("a.test", "/").status, 200);
    }
    // Without making room they would have waited for the deadline of 10 s.
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    assert!(metric(&weir, "tls_handshakes_total", "tls_overload") > 0);
    drop(stalled);
    wait::until(DEADLINE, "the connections to end", || metric(&weir, "client_connections_open", "") == 0);
}

/// Clients that never complete their ClientHello: those that a worker waits for are bounded, the oldest make room, and others are served meanwhile.
#[test]
fn half_client_hellos_are_bounded_and_keep_nobody_out() {
    const BOUND: u64 = 512;
    const FLOOD: u64 = 2_000;
    let certificates = Certificates::for_names("DNS:a.test");
    let text = format!(
        "listen: [{}]\nadmin: 127.0.0.1:0\nworkers: 1\n{ROUTES}",
        listener(&[certificate(&certificates, "")], "")
    );
    let weir = Weir::builder(super::program()).config(text).start();
    let hello = client_hello(&certificates);
    let known = config(&trusting(&[&certificates]));
    let overloads = || metric(&weir, "tls_handshakes_total", "tls_overload");
    let mut pending = Vec::new();
    let mut most = 0;
    for number in 1..=FLOOD {
        let mut client = raw(&weir);
        client.write_all(&hello[..hello.len() / 2]).unwrap();
        pending.push(client);
        if number % 200 == 0 {
            assert_eq!(Client::connect(weir.addr(), &known, "a.test").unwrap().get("a.test", "/").status, 200);
            most = most.max(metric(&weir, "tls_hellos_pending", ""));
            assert!(most <= BOUND, "{most} after {number}");
        }
    }
    // The last client that was served took the place of one.
    assert!(most + 1 >= BOUND, "{most}");
    let pending_now = || metric(&weir, "tls_hellos_pending", "");
    wait::until(DEADLINE, "the others to be closed", || {
        pending_now() + 1 >= BOUND && overloads() + pending_now() == FLOOD
    });
    // The oldest were closed; the newest may still go on.
    assert!(read_all(pending.remove(0)).is_empty());
    let mut newest = pending.pop().unwrap();
    newest.write_all(&hello[hello.len() / 2..]).unwrap();
    let mut record = [0];
    newest.read_exact(&mut record).unwrap();
    assert_eq!(record, [22], "a handshake record: the ServerHello");
    drop(pending);
    drop(newest);
    wait::until(DEADLINE, "the connections to end", || metric(&weir, "tls_hellos_pending", "") == 0);
}

/// RFC 8446 section 6.2: an end without an alert looks to a client like a fault of the network.
#[test]
fn what_is_no_client_hello_gets_an_alert() {
    let certificates = Certificates::for_names("DNS:a.test");
    let weir = weir(&certificates, "10s");
    let record = |kind: u8, payload: &[u8]| {
        let length = (payload.len() as u16).to_be_bytes();
        [&[kind, 3, 1][..], &length, payload].concat()
    };
    let unexpected = [21, 3, 3, 0, 2, 2, 10];
    for (what, bytes) in [
        ("data", record(23, b"GET")),
        ("change_cipher_spec", record(20, &[1])),
        ("HelloRequest", record(22, &[0, 0, 0, 0])),
        ("Finished", record(22, &[&[20, 0, 0, 12][..], &[0; 12]].concat())),
    ] {
        let mut client = raw(&weir);
        client.write_all(&bytes).unwrap();
        assert_eq!(read_all(client), unexpected, "{what}");
    }
    // An alert is the end, and gets no response.
    let mut client = raw(&weir);
    client.write_all(&record(21, &[1, 0])).unwrap();
    assert_eq!(read_all(client), b"");
    // A ClientHello that says that it is larger than is read.
    let mut client = raw(&weir);
    client.write_all(&record(22, &[1, 0, 0x50, 0])).unwrap();
    assert_eq!(read_all(client), [21, 3, 3, 0, 2, 2, 47]);
}
