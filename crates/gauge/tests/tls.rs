//! `gauge load https://...` against servers of rustls, good and bad ones.

#[path = "tls/http2.rs"]
mod http2;
#[path = "tls/program.rs"]
mod program;
#[path = "tls/refused.rs"]
mod refused;
#[path = "tls/server.rs"]
#[allow(unreachable_pub)]
mod server;

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, SystemTime};

use gauge::load::{Generator, Options, Prepared, Workload};
use gauge::results::Report;
use gauge::results::report::Tls;
use server::{Authority, Bytewise, Canned, Server, config, config_of};

/// What the most tests have: an authority and a server that responds with so many bytes.
fn good(size: usize) -> (Authority, Server) {
    let authority = Authority::new();
    let server = Server::start(config(authority.leaf(&["127.0.0.1", "localhost"], |_| {}), None), Canned::Sized(size));
    (authority, server)
}

fn prepared(yaml: &str) -> Prepared {
    let workload: Workload = serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}"));
    Prepared::new(&workload).expect("a workload that makes sense")
}

fn run(yaml: &str) -> Report {
    let generator = Generator::new(prepared(yaml), Options { threads: Some(2), ..Options::default() });
    let watch = generator.watch();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| (generator.run(), drop(done)).0);
        if is_done.recv_timeout(testkit::DEADLINE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            watch.stop();
        }
        let report = running.join().expect("no panic").expect("a report");
        assert_eq!(report.truncated, None, "it ended before the deadline: {:?}", report.total);
        report
    })
}

/// GET with this load, and more keys.
fn get(url: &str, load: &str, more: &str) -> Report {
    run(&format!("base: {url}\noperations: [{{id: get, path: /x}}]\nload: {load}\n{more}\n"))
}

fn tls(report: &Report) -> &Tls {
    report.total.tls.as_ref().expect("TLS was spoken")
}

#[test]
fn connections_are_kept_and_each_has_one_handshake() {
    let (authority, server) = good(5);
    let report =
        get(&server.url(), "{closed: {users: 3, iterations: 300}}", &format!("tls: {{ca: {}}}", authority.pem()));
    let total = &report.total;
    assert_eq!((total.requests.responses, total.errors.total), (Some(300), Some(0)), "{total:?}");
    assert_eq!((total.connections_opened, total.errors.tls), (Some(3), Some(0)));
    let tls = tls(&report);
    assert_eq!((tls.full, tls.resumed, tls.verified), (3, 0, true));
    assert_eq!(tls.versions.get("TLSv1.3"), Some(&3), "{tls:?}");
    assert_eq!(tls.ciphers.values().sum::<u64>(), 3);
    assert_eq!((tls.handshake.as_ref().and_then(|one| one.count), &tls.first_error), (Some(3), &None));
    assert_eq!(total.connect.as_ref().and_then(|one| one.count), Some(3));
    let seen = server.seen.lock().expect("no panic");
    assert_eq!((seen.connections, seen.full, seen.resumed, seen.requests.len()), (3, 3, 0, 300));
    assert_eq!(seen.heads_in_records.len(), 300, "a request is one record");
}

#[test]
fn bodies_of_many_records_go_both_ways() {
    let (authority, server) = good(300_000);
    let size = 5 << 20;
    std::fs::write(authority.folder.path().join("body"), testkit::pattern::bytes(size)).expect("a file");
    let yaml = format!(
        "base: {}\nload: {{closed: {{users: 2, iterations: 6}}}}\ntls: {{ca: {}}}\n\
         operations: [{{id: put, method: POST, path: /x, body: {{file: {}/body}}}}]\n",
        server.url(),
        authority.pem(),
        authority.folder.path().display()
    );
    let report = run(&yaml);
    let total = &report.total;
    assert_eq!((total.requests.responses, total.errors.total), (Some(6), Some(0)), "{total:?}");
    assert_eq!(total.bytes.sent_bodies, Some(6 * size as u64));
    assert!((6 * 300_000..6 * 301_000).contains(&total.bytes.received.expect("counted")), "{:?}", total.bytes);
    let seen = server.seen.lock().expect("no panic");
    assert_eq!(seen.requests.iter().filter(|(_, length)| *length == size).count(), 6);
    assert_eq!(seen.connections, 2);
    assert!(seen.heads_in_records.iter().all(|length| *length > 1000), "the body begins in the record of the head");
}

#[test]
fn an_open_loop_is_paced() {
    let (authority, server) = good(5);
    let load = "{open: {rate: 200/s, duration: 1s, connections: 8}}";
    let report = get(&server.url(), load, &format!("tls: {{ca: {}}}", authority.pem()));
    assert_eq!((report.total.requests.scheduled, report.total.errors.total), (Some(200), Some(0)));
    assert_eq!(report.total.requests.responses, Some(200));
}

#[test]
fn a_new_connection_for_each_request_is_a_full_handshake_or_resumes() {
    let versions: [(&str, &[&rustls::SupportedProtocolVersion]); 2] =
        [("TLSv1.2", &[&rustls::version::TLS12]), ("TLSv1.3", &[&rustls::version::TLS13])];
    for (version, versions) in versions {
        let authority = Authority::new();
        let leaf = || authority.leaf(&["127.0.0.1"], |_| {});
        for resumes in [false, true] {
            let server = Server::start(config_of(leaf(), None, versions), Canned::Sized(5));
            let more = format!("new_connections: true\ntls: {{ca: {}, resume: {resumes}}}", authority.pem());
            let report = get(&server.url(), "{closed: {users: 4, iterations: 200}}", &more);
            let (total, tls) = (&report.total, tls(&report));
            assert_eq!((total.requests.responses, total.errors.total), (Some(200), Some(0)), "{tls:?}");
            assert_eq!(total.connections_opened, Some(200));
            // The first of each user has nothing to resume.
            let expected = if resumes { (4, 196) } else { (200, 0) };
            assert_eq!((tls.full, tls.resumed), expected, "{version}");
            assert_eq!(tls.versions.get(version), Some(&200), "{tls:?}");
            assert_eq!(tls.handshake.as_ref().and_then(|one| one.count), Some(200));
            let seen = server.seen.lock().expect("no panic");
            assert_eq!((seen.full as u64, seen.resumed as u64), expected, "{version}");
            assert!(seen.requests.iter().all(|(head, _)| head.contains("\r\nConnection: close\r\n")));
            assert_eq!(seen.unclean, 0, "the client says close_notify");
        }
    }
}

#[test]
fn new_connections_without_tls() {
    let upstream = testkit::Upstream::start(testkit::responder::ok("hello"));
    let report = get(&upstream.url(), "{closed: {users: 4, iterations: 100}}", "new_connections: true");
    assert_eq!((report.total.requests.responses, report.total.errors.total), (Some(100), Some(0)));
    assert_eq!((report.total.connections_opened, &report.total.tls), (Some(100), &None));
    assert_eq!(report.total.errors.tls, None);
    assert!(upstream.requests().iter().all(|request| request.head.field("connection") == Some("close")));
}

/// The server with TLS closes its connection while the user's request is at another server, one without TLS.
#[test]
fn the_end_of_a_connection_is_seen_while_a_request_is_elsewhere() {
    let authority = Authority::new();
    let config = Arc::new(config(authority.leaf(&["127.0.0.1"], |_| {}), None));
    let (close, closes) = mpsc::channel::<()>();
    let (tell, is_closed) = mpsc::channel::<()>();
    let (closes, is_closed) = (Mutex::new(closes), Mutex::new(is_closed));
    let server = Server::accept(move |mut stream, _| {
        let mut tls = rustls::ServerConnection::new(config.clone()).expect("a connection");
        let mut stream = rustls::Stream::new(&mut tls, &mut stream);
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let _ = closes.lock().expect("no panic").recv_timeout(testkit::DEADLINE);
        stream.conn.send_close_notify();
        let _ = stream.flush();
        let _ = stream.sock.shutdown(std::net::Shutdown::Both);
        let _ = tell.send(());
    });
    let plain = testkit::Upstream::start(move |conn, _| {
        let _ = close.send(());
        let _ = is_closed.lock().expect("no panic").recv_timeout(testkit::DEADLINE);
        conn.respond(200, &[], "ok")
    });
    let report = run(&format!(
        "base: {}\norder: sequence\noperations: [{{id: tls, path: /x}}, {{id: plain, path: /x, base: {}}}]\ntls: {{ca: {}}}\n\
         load: {{closed: {{users: 1, iterations: 6}}}}\n",
        server.url(),
        plain.url(),
        authority.pem()
    ));
    assert_eq!(
        (report.total.requests.responses, report.total.errors.total),
        (Some(6), Some(0)),
        "{:?}",
        report.total.errors
    );
    assert_eq!((report.total.connections_opened, tls(&report).full), (Some(4), 3));
}

#[test]
fn kept_connections_that_the_server_closes_are_opened_again() {
    let authority = Authority::new();
    let server = Server::start(config(authority.leaf(&["127.0.0.1"], |_| {}), None), Canned::SizedOnce(5));
    let plain = testkit::Upstream::start(testkit::responder::ok("hello"));
    let report = run(&format!(
        "base: {}\norder: sequence\noperations: [{{id: tls, path: /x}}, {{id: plain, path: /x, base: {}}}]\ntls: {{ca: {}}}\n\
         load: {{closed: {{users: 1, iterations: 20, think: {{mean: 20ms}}}}}}\n",
        server.url(),
        plain.url(),
        authority.pem()
    ));
    assert_eq!(
        (report.total.requests.responses, report.total.errors.total),
        (Some(20), Some(0)),
        "{:?}",
        report.total.errors
    );
    assert_eq!((report.total.connections_opened, tls(&report).full), (Some(11), 10));
}

#[test]
fn a_response_until_the_end_counts_only_with_close_notify() {
    let authority = Authority::new();
    let leaf = || authority.leaf(&["127.0.0.1"], |_| {});
    let more = format!("tls: {{ca: {}}}", authority.pem());
    let load = "{closed: {users: 2, iterations: 6}}";

    let server = Server::start(config(leaf(), None), Canned::UntilClosed(100_000));
    let report = get(&server.url(), load, &more);
    assert_eq!((report.total.requests.responses, report.total.errors.total), (Some(6), Some(0)), "{:?}", tls(&report));
    assert_eq!(report.total.connections_opened, Some(6));

    let server = Server::start(config(leaf(), None), Canned::Truncated(100_000));
    let report = get(&server.url(), load, &more);
    assert_eq!((report.total.errors.tls, report.total.errors.total), (Some(6), Some(6)), "{:?}", report.total.errors);
    let reason = tls(&report).first_error.clone().expect("a reason");
    assert!(reason.contains("without close_notify") && reason.starts_with(&server.url()), "{reason}");

    // Where the length says that bytes are missing, that is what it is without TLS.
    let server = Server::start(config(leaf(), None), Canned::Cut(100_000));
    let report = get(&server.url(), load, &more);
    assert_eq!((report.total.errors.reset, report.total.errors.total), (Some(6), Some(6)), "{:?}", report.total.errors);
}

#[test]
fn bytes_that_come_one_at_a_time_are_a_connection_like_another() {
    let authority = Authority::new();
    let leaf = authority.leaf(&["127.0.0.1"], |_| {});
    let server = Server::start_over(config(leaf, None), Canned::Sized(3000), Bytewise);
    let more = format!("tls: {{ca: {}}}", authority.pem());
    let report = get(&server.url(), "{closed: {users: 2, iterations: 6}}", &more);
    assert_eq!((report.total.requests.responses, report.total.errors.total), (Some(6), Some(0)), "{:?}", tls(&report));
    assert_eq!(report.total.connections_opened, Some(2));
}

#[test]
fn a_client_certificate_is_presented() {
    let authority = Authority::new();
    let (cert, key) = authority.client();
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let leaf = authority.leaf(&["127.0.0.1"], |_| {});
        let server = Server::start(config_of(leaf, Some(&authority), versions), Canned::Sized(5));
        let ca = authority.pem();
        let load = "{closed: {users: 2, iterations: 20}}";
        let report = get(&server.url(), load, &format!("tls: {{ca: {ca}, cert: {cert}, key: {key}}}"));
        assert_eq!(
            (report.total.requests.responses, report.total.errors.total),
            (Some(20), Some(0)),
            "{:?}",
            tls(&report)
        );

        let report = get(&server.url(), "{closed: {users: 2, iterations: 4}}", &format!("tls: {{ca: {ca}}}"));
        assert_eq!(
            (report.total.errors.tls, report.total.errors.total),
            (Some(4), Some(4)),
            "{:?}",
            report.total.errors
        );
        let reason = tls(&report).first_error.clone().expect("a reason");
        assert!(reason.contains("alert") && reason.contains("--cert and --key"), "{reason}");
    }
}

#[test]
fn the_newest_version_can_be_chosen() {
    let (authority, server) = good(5);
    for (version, seen) in [("1.2", "TLSv1.2"), ("1.3", "TLSv1.3")] {
        let more = format!("tls: {{ca: {}, version: {version}}}", authority.pem());
        let report = get(&server.url(), "{closed: {users: 1, iterations: 2}}", &more);
        assert_eq!(tls(&report).versions.get(seen), Some(&1), "{:?}", tls(&report));
    }
    let leaf = authority.leaf(&["127.0.0.1"], |_| {});
    let old = Server::start(config_of(leaf, None, &[&rustls::version::TLS12]), Canned::Sized(5));
    let report = get(&old.url(), "{closed: {users: 1, iterations: 2}}", &format!("tls: {{ca: {}}}", authority.pem()));
    assert_eq!((report.total.requests.responses, tls(&report).versions.get("TLSv1.2")), (Some(2), Some(&1)));
}

#[test]
fn single_exchanges_go_over_tls() {
    let (authority, server) = good(100_000);
    let yaml = |tls: &str| {
        format!(
            "base: {}\noperations: [{{id: get, path: /x}}]\nload: {{closed: {{users: 1, iterations: 1}}}}\ntls: {tls}\n",
            server.url()
        )
    };
    let response =
        prepared(&yaml(&format!("{{ca: {}}}", authority.pem()))).once().remove(0).response.expect("a response");
    assert_eq!((response.status, response.body), (200, testkit::pattern::bytes(100_000)));
    let other = Authority::new();
    let refused = prepared(&yaml(&format!("{{ca: {}}}", other.pem()))).once().remove(0).response.expect_err("refused");
    assert!(refused.contains("--ca FILE"), "{refused}");

    let truncated = Server::start(config(authority.leaf(&["127.0.0.1"], |_| {}), None), Canned::Truncated(10));
    let yaml = yaml(&format!("{{ca: {}}}", authority.pem())).replace(&server.url(), &truncated.url());
    let refused = prepared(&yaml).once().remove(0).response.expect_err("truncated");
    assert!(refused.contains("without close_notify"), "{refused}");
}

#[test]
fn an_expired_certificate_is_refused_and_insecure_accepts_it() {
    let authority = Authority::new();
    let day = Duration::from_secs(86_400);
    let leaf = authority.leaf(&["127.0.0.1"], |params| {
        params.not_before = (SystemTime::now() - 20 * day).into();
        params.not_after = (SystemTime::now() - day).into();
    });
    let server = Server::start(config(leaf, None), Canned::Sized(5));
    refused::refused(&server.url(), &format!("ca: {}", authority.pem()), &["expired", "--insecure"]);
    let report = get(&server.url(), "{closed: {users: 1, iterations: 2}}", "tls: {insecure: true}");
    assert_eq!((report.total.requests.responses, tls(&report).verified), (Some(2), false));
}
