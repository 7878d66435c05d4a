//! PROXY headers on listeners.

use std::process::Command;

use proxy_protocol::{Header, Origin, Version, write};
use testkit::{Certificates, RawClient, Upstream, Weir, responder, wait};

use super::{DEADLINE, config, curl, gateway, header, logged, metric, program, seen, tls_option, written};

const TRUSTED: &str = "trusted_proxies: [127.0.0.0/8]\n";

fn results(weir: &Weir, result: &str) -> u64 {
    metric(weir, "proxy_protocol_headers_total", &format!("result=\"{result}\""))
}

/// A GET behind a header; the status.
fn get(client: &mut RawClient, path: &str) -> u16 {
    client.get(path).status()
}

#[test]
fn the_client_of_the_header_is_the_client_everywhere() {
    let upstream = Upstream::start(responder::ok("hello"));
    let top = format!("{TRUSTED}limits: {{each: {{key: client_ip, rate: 1/h, burst: 1}}}}\n");
    let weir = gateway(&upstream, ", proxy_protocol: any", &top, ", limits: [each]");
    for (version, addresses) in
        [(Version::V1, ["203.0.113.7", "2001:db8:0:1::7"]), (Version::V2, ["203.0.113.8", "2001:db8:0:2::7"])]
    {
        for address in addresses {
            let source = std::net::SocketAddr::new(address.parse().unwrap(), 1234).to_string();
            let mut client = weir.connect();
            client.send(header(version, &source));
            // It cannot say that it is someone else, and its limit is its own.
            client.request("GET", &format!("/{address}"), &[("X-Forwarded-For", "6.6.6.6")], "");
            assert_eq!(client.read_response().status(), 200, "{version:?} {source}");
            assert_eq!(seen(&upstream, "x-forwarded-for").unwrap(), address);
            assert_eq!(get(&mut client, "/again"), 429);
            let line = logged(&weir, &format!("/{address}"));
            assert_eq!((&line["client"], &line["proxy"]), (&address.into(), &"127.0.0.1".into()), "{line}");
            assert_eq!(line["proxy_protocol"], version.name());
        }
    }
    assert_eq!((results(&weir, "v1"), results(&weir, "v2")), (2, 2));
}

#[test]
fn a_header_is_read_to_its_end_and_no_further_however_it_arrives() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream, ", proxy_protocol: any", TRUSTED, "");
    for (version, long) in [(Version::V1, 0), (Version::V2, 0), (Version::V2, 900)] {
        let authority = vec![b'a'; long];
        let (mut bytes, mut client) = (Vec::new(), weir.connect());
        let source = header(version, "203.0.113.7:1234");
        let origin = proxy_protocol::read(&source, proxy_protocol::Accepts::Any).unwrap().unwrap().0.origin;
        let authority = (long > 0).then_some(&authority[..]);
        write(&mut bytes, &Header { version, origin, authority, alpn: None, unique_id: Some(b"id-1") });
        bytes.extend_from_slice(b"GET /one HTTP/1.1\r\nHost: a\r\n\r\nGET /two HTTP/1.1\r\nHost: a\r\n\r\n");
        // A long one in fewer pieces: on a busy machine a thousand of them take seconds.
        let cuts: Vec<usize> = (1..bytes.len()).step_by(1 + long / 30).collect();
        client.try_send_split(&bytes, &cuts).unwrap();
        assert_eq!((client.read_response().status(), client.read_response().status()), (200, 200));
        let mut client = weir.connect();
        client.send(&bytes);
        assert_eq!((client.read_response().status(), client.read_response().status()), (200, 200));
        if version == Version::V2 {
            let line = weir.wait_for_line("the id", |line| line.contains("id-1").then(|| line.to_owned()));
            assert!(line.contains("\"proxy_unique_id\":\"id-1\""), "{line}");
        }
    }
}

#[test]
fn a_missing_or_bad_header_closes_without_a_response() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream, ", proxy_protocol: v2", TRUSTED, "");
    let mut wrong = header(Version::V2, "203.0.113.7:1");
    *wrong.last_mut().unwrap() ^= 1;
    let mut rule = header(Version::V2, "203.0.113.7:1");
    rule[12] = 0x2f;
    for (bytes, result) in [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), "proxy_missing"),
        (header(Version::V1, "203.0.113.7:1"), "proxy_version"),
        (rule, "proxy_malformed"),
        (wrong, "proxy_checksum"),
    ] {
        let mut client = weir.connect();
        client.send(&bytes);
        assert!(client.read_to_close().is_empty(), "{result}");
        wait::until(DEADLINE, result, || results(&weir, result) == 1);
        weir.wait_for_line("a reason", |line| line.contains(result).then_some(()));
    }
    // Nothing at all: closed when its time is over.
    let mut silent = weir.connect();
    assert!(silent.read_to_close().is_empty());
    assert_eq!(results(&weir, "proxy_timeout"), 1);
    drop(weir.connect());
    wait::until(DEADLINE, "an end to be counted", || results(&weir, "proxy_closed") == 1);
    assert_eq!(upstream.request_count(), 0);
    wait::until(DEADLINE, "no connection left", || metric(&weir, "client_connections_open", "") == 0);
}

#[test]
fn only_trusted_proxies_may_name_a_client() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream, ", proxy_protocol: any", "trusted_proxies: [127.0.0.2]\n", "");
    let mut stranger = weir.connect();
    // It may be closed before it has written.
    let _ = stranger.try_send(header(Version::V2, "203.0.113.7:1"));
    assert!(stranger.try_read_response().is_err());
    wait::until(DEADLINE, "it to be counted", || results(&weir, "proxy_untrusted") == 1);
    let mut proxy = RawClient::connect_from("127.0.0.2".parse().unwrap(), weir.addr());
    proxy.send(header(Version::V2, "203.0.113.7:1"));
    assert_eq!(get(&mut proxy, "/"), 200);
    assert_eq!(seen(&upstream, "x-forwarded-for").unwrap(), "203.0.113.7");
}

#[test]
fn connections_without_a_client_are_the_proxys_and_only_its_own_are_believed() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream, ", proxy_protocol: any", TRUSTED, "");
    for (version, origin, address) in [
        // A health check of the proxy, and what it forwards without knowing from whom.
        (Version::V2, Origin::Proxy, "6.6.6.6, 127.0.0.1"),
        (Version::V2, Origin::Unknown, "127.0.0.1"),
        (Version::V1, Origin::Unknown, "127.0.0.1"),
    ] {
        let mut client = weir.connect();
        client.send(written(version, origin));
        client.request("GET", "/", &[("X-Forwarded-For", "6.6.6.6")], "");
        assert_eq!(client.read_response().status(), 200);
        assert_eq!(seen(&upstream, "x-forwarded-for").unwrap(), address, "{version:?} {origin:?}");
    }
    assert_eq!(results(&weir, "local"), 1);
}

#[test]
fn connections_are_counted_for_the_client_that_the_header_names() {
    let upstream = Upstream::start(responder::ok("hello"));
    let top = format!("{TRUSTED}server: {{max_connections_per_client: 1}}\n");
    let weir = gateway(&upstream, ", proxy_protocol: v2", &top, "");
    let open = |source: &str| {
        let mut client = weir.connect();
        client.send(header(Version::V2, source));
        let _ = client.try_send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let status = client.try_read_response().map(|response| response.status());
        (client, status.ok())
    };
    let (first, status) = open("203.0.113.7:1");
    assert_eq!(status, Some(200));
    assert_eq!(open("203.0.113.7:2").1, None, "a second connection of one client");
    assert_eq!(open("203.0.113.8:1").1, Some(200), "the first of another one");
    drop(first);
    wait::until(DEADLINE, "its place to be free", || open("203.0.113.7:3").1 == Some(200));
}

#[test]
fn the_header_comes_before_tls_and_before_http2() {
    let upstream = Upstream::start(responder::ok("hello"));
    let certificates = Certificates::localhost();
    let tls = tls_option(&certificates.certificate(), &certificates.key());
    for (option, scheme, protocol) in [
        (&*tls, "https", "--http1.1"),
        (&*tls, "https", "--http2"),
        (", http2: prior_knowledge", "http", "--http2-prior-knowledge"),
    ] {
        let weir = gateway(&upstream, &format!("{option}, proxy_protocol: v1"), TRUSTED, "");
        let url = format!("{scheme}://127.0.0.1:{}/curl", weir.addr().port());
        let ca = certificates.authority();
        let body = curl(&["--haproxy-protocol", protocol, "--cacert", ca.to_str().unwrap(), &url]);
        assert_eq!(body, "hello", "{protocol}");
        let line = logged(&weir, "/curl");
        assert_eq!((&line["proxy_protocol"], &line["status"]), (&"v1".into(), &200.into()), "{line}");
        assert_eq!(line["protocol"] == "HTTP/2", protocol != "--http1.1", "{line}");
        // Without a header nothing is said, also not in TLS.
        let failed = Command::new("curl").args(["-sSk", "-m", "20", protocol, &url]).output().unwrap();
        assert!(!failed.status.success(), "{protocol}");
        assert_eq!(results(&weir, "proxy_missing"), 1);
    }
}

#[test]
fn a_reload_decides_for_the_connections_that_come_after_it() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream, "", TRUSTED, "");
    let mut before = weir.connect();
    assert_eq!(get(&mut before, "/"), 200);
    weir.rewrite_config(&config(&upstream, ", proxy_protocol: v2", TRUSTED, ""));
    weir.wait_for_line("the reload", |line| line.contains("changed").then_some(()));
    assert_eq!(get(&mut before, "/"), 200);
    let mut after = weir.connect();
    after.send(header(Version::V2, "203.0.113.7:1"));
    assert_eq!(get(&mut after, "/"), 200);
    assert_eq!(seen(&upstream, "x-forwarded-for").unwrap(), "203.0.113.7");
    let mark = weir.mark();
    weir.rewrite_config(&config(&upstream, "", TRUSTED, ""));
    weir.wait_for_line_after(mark, "the reload", DEADLINE, |line| line.contains("changed").then_some(()));
    assert_eq!(get(&mut after, "/"), 200);
    assert_eq!(get(&mut weir.connect(), "/"), 200);
}

#[test]
fn draining_does_not_wait_for_headers() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream, ", proxy_protocol: v2", TRUSTED, "");
    let silent = weir.connect();
    wait::until(DEADLINE, "it to be accepted", || metric(&weir, "client_connections_open", "") == 1);
    weir.signal(testkit::Signal::TERM);
    assert_eq!(weir.wait_for_exit(DEADLINE).code(), Some(0));
    drop(silent);
}

#[test]
fn a_listener_that_nobody_could_use_is_refused() {
    let text = "listen: {bind: 127.0.0.1:0, proxy_protocol: v2}\nroutes: []\n";
    let failed = Weir::builder(program()).config(text).run();
    assert_eq!(failed.code, Some(64));
    assert!(failed.stderr.contains("`proxy_protocol` takes headers from `trusted_proxies` only"), "{}", failed.stderr);
}
