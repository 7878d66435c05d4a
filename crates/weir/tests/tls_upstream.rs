//! Targets over TLS: who is believed, what is reused, and what happens when a connection is not what it should be.

use std::path::Path;
use std::sync::Arc;

use testkit::tls::TlsRelay;
use testkit::{Certificates, DEADLINE, Nginx, Signal, Upstream, Weir, responder, wait};
use tls::certificate::read_certificates;
use tls::names::Entry;
use tls::server::{ClientAuth, Listener, Options, Tickets};
use tls::{Certificate, Failure, Names};

/// A TLS listener that shows a certificate to everybody.
fn listener(certificates: &Certificates, edit: impl FnOnce(&mut Options)) -> Listener {
    let certificate = Certificate::load(&certificates.certificate(), &certificates.key()).unwrap();
    let entry = Entry { certificate, names: Vec::new(), is_default: true, policy: 0 };
    let mut options = Options::new(Arc::new(Names::new(vec![entry]).unwrap()));
    edit(&mut options);
    Listener::new(&options, &Tickets::default()).unwrap()
}

fn config(targets: &[String], tls: &str, more: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\nupstreams:\n  u:\n    targets: [{}]\n{tls}{more}routes:\n  - {{match: {{path: /*}}, upstream: u, upgrade: [websocket]}}\n",
        targets.join(", ")
    )
}

fn roots(path: &Path) -> String {
    format!("    tls: {{roots: {}}}\n", path.display())
}

fn gateway(targets: &[String], tls: &str, more: &str) -> Weir {
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(config(targets, tls, more)).start()
}

fn plain(relay: &TlsRelay) -> Vec<String> {
    vec![relay.url()]
}

#[test]
fn bodies_of_all_sizes_go_both_ways_over_one_connection() {
    let certificates = Certificates::localhost();
    let upstream = Upstream::start(|conn, request| conn.respond(200, &[], &request.body));
    let relay = TlsRelay::terminate(listener(&certificates, |_| {}), upstream.socket_addr());
    let weir = gateway(&plain(&relay), &roots(&certificates.authority()), "");
    let mut client = weir.connect();
    for length in [0, 1, 8_191, 8_192, 16_384, 16_385, 65_537, 700_000] {
        let body: Vec<u8> = (0..length).map(|n: usize| (n / 251) as u8 ^ n as u8).collect();
        client.request("POST", "/echo", &[], &body);
        let response = client.read_response();
        assert_eq!(response.status(), 200, "{length}");
        assert!(response.body == body, "{length}: {} bytes came back", response.body.len());
    }
    assert_eq!(relay.accepted(), 1, "connections are kept");
    let request = &upstream.requests()[0];
    assert_eq!(request.head.field("x-forwarded-proto"), Some("http"), "the client's scheme, not the target's");
}

#[test]
fn a_target_that_is_not_who_it_should_be_gets_no_byte_and_the_next_one_is_tried() {
    let (certificates, others) = (Certificates::localhost(), Certificates::localhost());
    let wrong_name = Certificates::for_names("DNS:b.test");
    let upstream = Upstream::start(responder::ok("secret"));
    let to = upstream.socket_addr();
    let cases: [(Certificates, &Path, &str); 2] = [
        (others, &certificates.authority(), "not issued by a trusted authority"),
        (wrong_name, Path::new(""), "not for this name"),
    ];
    for (shown, trusted, why) in cases {
        let authority = shown.authority();
        let trusted = if trusted.as_os_str().is_empty() { &authority } else { trusted };
        let relay = TlsRelay::terminate(listener(&shown, |_| {}), to);
        let weir = gateway(&plain(&relay), &roots(trusted), "    eject: none\n");
        let refused = weir.request("POST", "/", &[("Authorization", "Bearer x")], "a body");
        assert_eq!(refused.status(), 502);
        assert!(refused.text().contains(why), "{}", refused.text());
        assert_eq!(upstream.request_count(), 0, "nothing was sent to it");
        wait::until(DEADLINE, "the relay to see the alert", || relay.failures().contains(&Failure::Alert));
    }

    // With a good one beside it every request succeeds: nothing was sent, so even a POST may be tried again.
    let bad = TlsRelay::terminate(listener(&Certificates::localhost(), |_| {}), to);
    let good = TlsRelay::terminate(listener(&certificates, |_| {}), to);
    let weir = gateway(
        &[bad.url(), good.url()],
        &roots(&certificates.authority()),
        "    balance: round_robin\n    eject: none\n    retry: {budget: 100%}\n",
    );
    for _ in 0..10 {
        assert_eq!(weir.request("POST", "/", &[], "a body").status(), 200);
    }
    assert!(bad.accepted() > 0 && bad.sessions().is_empty());
}

#[test]
fn plain_http_behind_an_https_target_is_refused() {
    let upstream = Upstream::start(responder::ok("x"));
    let weir = gateway(&[format!("https://{}", upstream.socket_addr())], "", "");
    let refused = weir.get("/");
    assert_eq!(refused.status(), 502);
    assert!(refused.text().contains("\"upstream_tls\""), "{}", refused.text());
    assert_eq!(upstream.request_count(), 0);
}

#[test]
fn the_gateway_shows_its_certificate_and_a_reload_changes_identity_at_once() {
    let (servers, clients, others) = (Certificates::localhost(), Certificates::localhost(), Certificates::localhost());
    let upstream = Upstream::start(responder::ok("x"));
    let mut authorities = read_certificates(&clients.authority()).unwrap();
    authorities.extend(read_certificates(&others.authority()).unwrap());
    let auth = ClientAuth { name: "clients".into(), authorities, revocations: Vec::new(), is_required: true };
    let relay = TlsRelay::terminate(
        listener(&servers, |options| options.policies[0].client_auth = Some(auth)),
        upstream.socket_addr(),
    );
    let tls = |shown: Option<&Certificates>| {
        let shown = shown.map_or_else(String::new, |shown| {
            let (cert, key) = (shown.certificate(), shown.key());
            format!(", client_cert: {{cert: {}, key: {}}}", cert.display(), key.display())
        });
        format!("    tls: {{roots: {}{shown}}}\n", servers.authority().display())
    };
    let sha256 = |of: &Certificates| Certificate::load(&of.certificate(), &of.key()).unwrap().facts.sha256;
    let seen = || -> Vec<_> { relay.sessions().iter().map(|session| session.peer.as_ref().unwrap().sha256).collect() };

    let weir = gateway(&plain(&relay), &tls(None), "    eject: none\n");
    assert_eq!(weir.get("/").status(), 502, "without a certificate the target refuses");
    let reload = |shown: &Certificates| {
        weir.rewrite_config(&config(&plain(&relay), &tls(Some(shown)), "    eject: none\n"));
        weir.signal(Signal::HUP);
    };
    reload(&clients);
    wait::until(DEADLINE, "the first identity", || weir.get("/").status() == 200);
    assert_eq!(weir.get("/").status(), 200);
    assert_eq!(seen(), [sha256(&clients)], "one connection, kept");
    reload(&others);
    wait::until(DEADLINE, "the second identity", || {
        assert_eq!(weir.get("/").status(), 200);
        seen().len() > 1
    });
    assert_eq!(seen(), [sha256(&clients), sha256(&others)], "no kept connection of the old identity is used");
}

#[test]
fn an_end_without_close_notify_is_no_complete_response() {
    let certificates = Certificates::localhost();
    let upstream = Upstream::start(responder::raw_then_close("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of it"));
    let cut = TlsRelay::terminate_and_cut(listener(&certificates, |_| {}), upstream.socket_addr());
    let whole = TlsRelay::terminate(listener(&certificates, |_| {}), upstream.socket_addr());
    let of = |relay: &TlsRelay| gateway(&plain(relay), &roots(&certificates.authority()), "");
    assert_eq!(of(&whole).get("/").text(), "half of it");
    let weir = of(&cut);
    let mut client = weir.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.try_read_response().is_err(), "a response that was cut must not pass for a complete one");
}

#[test]
fn health_checks_verify_as_requests_do() {
    let (certificates, others) = (Certificates::localhost(), Certificates::localhost());
    let upstream = Upstream::start(responder::ok("x"));
    let good = TlsRelay::terminate(listener(&certificates, |_| {}), upstream.socket_addr());
    let bad = TlsRelay::terminate(listener(&others, |_| {}), upstream.socket_addr());
    let health = "    health: {path: /healthz, interval: 50ms}\n";
    let weir = gateway(&[good.url(), bad.url()], &roots(&certificates.authority()), health);
    wait::until(DEADLINE, "both verdicts", || {
        let shown = weir.admin_get("/upstreams").text().to_owned();
        shown.contains("\"healthy\"") && shown.contains("tls_untrusted")
    });
    for _ in 0..10 {
        assert_eq!(weir.get("/").status(), 200);
    }
}

#[test]
fn a_tunnel_goes_through_tls() {
    let certificates = Certificates::localhost();
    let upstream = Upstream::connections(|conn| {
        conn.read_head()?;
        conn.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello")?;
        let said = conn.read_raw()?;
        conn.write([b"echo ", &said[..]].concat())
    });
    let relay = TlsRelay::terminate(listener(&certificates, |_| {}), upstream.socket_addr());
    let weir = gateway(&plain(&relay), &roots(&certificates.authority()), "");
    let mut client = weir.connect();
    client.send(
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
    );
    assert_eq!(client.read_head().status(), 101);
    assert_eq!(client.read_raw(5), b"hello");
    client.send("ping");
    assert_eq!(client.read_raw(9), b"echo ping");
    client.expect_closed();
}

#[test]
fn nginx_is_reached_over_tls_and_its_sessions_are_resumed() {
    let certificates = Certificates::for_names("DNS:app.test");
    let nginx = Nginx::start("location / { return 200 plain; }");
    std::fs::copy(certificates.certificate(), nginx.dir().join("cert.pem")).unwrap();
    std::fs::copy(certificates.key(), nginx.dir().join("key.pem")).unwrap();
    let port = testkit::ports::Port::free();
    let tls_address = port.address();
    drop(port);
    nginx.configure(&format!(
        "listen {tls_address} ssl; ssl_certificate cert.pem; ssl_certificate_key key.pem; ssl_session_tickets on; ssl_protocols TLSv1.2 TLSv1.3; \
         location / {{ add_header X-Reused $ssl_session_reused; add_header X-Sni $ssl_server_name; return 200 $ssl_protocol; }}"
    ));
    nginx.restart();
    let tls = format!("    tls: {{roots: {}, server_name: app.test}}\n", certificates.authority().display());
    let weir = gateway(&[format!("https://{tls_address}")], &tls, "    keep_alive: none\n");
    let first = weir.get("/");
    assert_eq!((first.status(), first.text()), (200, "TLSv1.3"));
    assert_eq!(first.head.field("x-sni"), Some("app.test"));
    let resumed = wait::some(DEADLINE, "a resumed session", || {
        let response = weir.get("/");
        (response.head.field("x-reused") == Some("r")).then_some(response)
    });
    assert_eq!(resumed.status(), 200);
}

#[test]
fn what_is_wrong_with_certificates_is_said_with_its_place() {
    let (one, two) = (Certificates::localhost(), Certificates::localhost());
    let cases = [
        ("    tls: {roots: /absent.pem}\n".to_owned(), "cannot read /absent.pem"),
        (
            format!(
                "    tls: {{client_cert: {{cert: {}, key: {}}}}}\n",
                one.certificate().display(),
                two.key().display()
            ),
            "does not belong to the certificate",
        ),
        ("    tls: {verify: false}\n".to_owned(), "insecure: true"),
        ("    tls: {server_name: 'a b'}\n".to_owned(), "neither a DNS name nor an IP address"),
    ];
    for (tls, expected) in cases {
        let text = config(&["https://127.0.0.1:1".to_owned()], &tls, "");
        let finished = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(text).run();
        assert_eq!(finished.code, Some(64));
        assert!(finished.stderr.contains(expected), "{}", finished.stderr);
        assert!(finished.stderr.contains(":7:"), "with the line: {}", finished.stderr);
    }
    let text = config(&["http://127.0.0.1:1".to_owned()], "    tls: {}\n", "");
    let finished = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(text).run();
    assert!(finished.stderr.contains("no effect"), "{}", finished.stderr);
}

#[test]
fn a_file_of_targets_may_change_from_clear_text_to_tls() {
    let certificates = Certificates::localhost();
    let upstream = Upstream::start(responder::ok("hello"));
    let relay = TlsRelay::terminate(listener(&certificates, |_| {}), upstream.socket_addr());
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let targets = builder.dir().join("targets.yaml");
    let replace = |url: &str| {
        let new = targets.with_extension("new");
        std::fs::write(&new, format!("- {url}\n")).unwrap();
        std::fs::rename(&new, &targets).unwrap();
    };
    replace(&upstream.url());
    let text =
        config(&[], &roots(&certificates.authority()), "").replace("targets: []", "targets: {file: targets.yaml}");
    let weir = builder.config(text).start();
    assert_eq!((weir.get("/").text(), relay.accepted()), ("hello", 0));
    replace(&relay.url());
    let is_over_tls = || weir.get("/").text() == "hello" && relay.accepted() > 0;
    wait::until(DEADLINE, "requests over TLS", is_over_tls);
    replace(&upstream.url());
    let before = upstream.accepted();
    wait::until(DEADLINE, "requests in clear text", || weir.get("/").status() == 200 && upstream.accepted() > before);
}
