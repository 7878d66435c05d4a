//! Which certificate a client gets, and which hosts its connection may be used for.

use testkit::{Certificates, Upstream, responder};
use tls::{Failure, Version};

use super::client::{Client, config, of_version, showing, trusting};
use super::{ROUTES, certificate, gateway, listener, metric};

#[test]
fn upstreams_and_the_log_learn_of_tls_and_sessions_are_resumed() {
    let upstream = Upstream::start(responder::ok("hello"));
    let certificates = Certificates::for_names("DNS:a.test");
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let rest = format!(
        "access_log: {{path: {}}}\nupstreams: {{u: {{targets: [{}]}}}}\nroutes:\n  - {{match: {{path: /*}}, upstream: u}}\n",
        log.display(),
        upstream.url()
    );
    let weir = gateway(&[listener(&[certificate(&certificates, "")], "")], &rest);
    assert!(weir.stdout().contains("listening on https://127.0.0.1:"), "{}", weir.stdout());
    for (number, version) in [Version::Tls12, Version::Tls13].into_iter().enumerate() {
        let config = config(&of_version(version, trusting(&[&certificates])));
        for is_resumed in [false, true] {
            let mut client = Client::connect(weir.addr(), &config, "a.test").unwrap();
            assert_eq!(client.get("a.test", "/").body, "hello");
            assert_eq!(client.get("A.test:443", "/").body, "hello");
            // A ticket comes with the first bytes.
            assert_eq!(client.session().is_resumed, is_resumed, "{number}");
        }
    }
    let requests = upstream.requests();
    assert_eq!(requests.len(), 8);
    assert!(requests.iter().all(|request| request.head.field("x-forwarded-proto") == Some("https")));
    assert_eq!(metric(&weir, "tls_handshakes_total", "result=\"full\",version=\"1.3\""), 2);
    assert_eq!(metric(&weir, "tls_handshakes_total", "result=\"resumed\",version=\"1.3\""), 2);
    let left = metric(&weir, "tls_certificate_expiry_seconds", "host=\"a.test\"");
    assert!((86_400..=2 * 86_400).contains(&left), "{left}");
    weir.stop(super::client::DEADLINE);
    let lines = std::fs::read_to_string(&log).unwrap();
    for part in [
        "\"tls_version\":\"TLSv1.3\"",
        "\"tls_group\":\"X25519MLKEM768\"",
        "\"sni\":\"a.test\"",
        "\"tls_resumed\":true",
    ] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
}

#[test]
fn the_name_chooses_the_certificate_and_the_certificate_the_hosts() {
    let exact = Certificates::for_names("DNS:a.test,DNS:b.test");
    let wild = Certificates::for_names("DNS:*.w.test");
    let default = Certificates::for_names("DNS:d.test,IP:127.0.0.1");
    let with_default = [certificate(&exact, ""), certificate(&wild, ""), certificate(&default, ", default: true")];
    let without = [certificate(&exact, ", hosts: [a.test]"), certificate(&wild, "")];
    let weir = gateway(&[listener(&with_default, ""), listener(&without, "")], ROUTES);
    let [with_default, without] = weir.addrs(2)[..] else { unreachable!() };
    let known = config(&trusting(&[&exact, &wild, &default]));
    for (name, same, others) in [
        ("a.test", ["a.test", "b.test:443"], ["x.w.test", "d.test"]),
        ("x.w.test", ["x.w.test", "y.w.test"], ["a.test", "z.y.w.test"]),
        ("127.0.0.1", ["d.test", "127.0.0.1:8443"], ["a.test", "127.0.0.2"]),
    ] {
        let mut client = Client::connect(with_default, &known, name).unwrap();
        for host in same {
            assert_eq!(client.get(host, "/").status, 200, "{name}: {host}");
        }
        for host in others {
            let refused = client.get(host, "/");
            assert_eq!(refused.status, 421, "{name}: {host}");
            assert!(refused.body.contains("misdirected"), "{}", refused.body);
        }
        assert_eq!(client.get(same[0], "/").status, 200, "the connection lives on");
    }
    let refused = |name| Failure::of_io(&Client::connect(without, &known, name).err().unwrap());
    assert_eq!(refused("b.test"), Failure::Name, "unrecognized_name: the certificate is not used for it");
    let mut client = Client::connect(without, &known, "a.test").unwrap();
    assert_eq!(client.get("b.test", "/").status, 421);
    assert_eq!(metric(&weir, "tls_handshakes_total", "result=\"tls_unknown_name\""), 1);
}

/// The three ways to a host that demands certificates: its own connection, another host's connection, and no name at all.
#[test]
fn no_host_with_client_certificates_is_reached_over_a_connection_without() {
    let servers = Certificates::for_names("DNS:open.test,DNS:closed.test,IP:127.0.0.1");
    let clients = Certificates::for_names("URI:spiffe://mesh.test/orders,DNS:client.test");
    let others = Certificates::for_names("DNS:client.test");
    let auth = format!(", client_auth: {{ca: {}}}", clients.authority().display());
    let entries = [
        certificate(&servers, ", hosts: [open.test], default: true"),
        certificate(&servers, &format!(", hosts: [closed.test]{auth}")),
    ];
    let weir = gateway(&[listener(&entries, "")], ROUTES);
    for version in [Version::Tls12, Version::Tls13] {
        let base = of_version(version, trusting(&[&servers]));
        let (without, with) = (config(&base), config(&showing(&clients, base.clone())));
        let mut open = Client::connect(weir.addr(), &without, "open.test").unwrap();
        assert_eq!(open.get("open.test", "/").status, 200);
        assert_eq!(open.get("closed.test", "/").status, 421);
        assert_eq!(open.get("CLOSED.test.:443", "/").status, 421);
        let mut nameless = Client::connect(weir.addr(), &without, "127.0.0.1").unwrap();
        assert_eq!(nameless.get("127.0.0.1", "/").status, 200);
        assert_eq!(nameless.get("closed.test", "/").status, 421);
        // A session of the open host opens nothing.
        for config in [&without, &config(&showing(&others, base.clone()))] {
            // TLS 1.3 tells a client after its part of the handshake is done.
            let refused = Client::connect(weir.addr(), config, "closed.test")
                .and_then(|mut client| client.try_get("closed.test", "/").map(drop));
            assert_eq!(Failure::of_io(&refused.unwrap_err()), Failure::Alert);
        }
        for is_resumed in [false, true] {
            let mut closed = Client::connect(weir.addr(), &with, "closed.test").unwrap();
            assert_eq!(closed.get("closed.test", "/").status, 200);
            assert_eq!(closed.session().is_resumed, is_resumed);
            assert_eq!(closed.get("open.test", "/").status, 421, "another policy");
        }
    }
    assert!(metric(&weir, "tls_handshakes_total", "result=\"tls_no_certificate\"") >= 2);
    assert!(metric(&weir, "tls_handshakes_total", "result=\"tls_untrusted\"") >= 2);
}

#[test]
fn a_redirect_leads_to_hosts_that_are_served_and_to_no_other() {
    let certificates = Certificates::for_names("DNS:a.test,DNS:*.w.test");
    let redirect = "{bind: 127.0.0.1:0, redirect: https}".to_owned();
    let weir = gateway(&[listener(&[certificate(&certificates, "")], ""), redirect], ROUTES);
    let [secure, plain] = weir.addrs(2)[..] else { unreachable!() };
    let mut client = testkit::RawClient::connect(plain);
    for (host, expected) in [
        ("a.test", Some("a.test")),
        ("A.test:80", Some("a.test")),
        ("x.w.test", Some("x.w.test")),
        ("evil.test", None),
        ("w.test", None),
        ("127.0.0.1", None),
    ] {
        client.request("GET", "/p%2Cq?x=1&y", &[("Host", host)], "");
        let response = client.read_response();
        let location = expected.map(|host| format!("https://{host}:{}/p%2Cq?x=1&y", secure.port()));
        assert_eq!(response.head.field("location").map(str::to_owned), location, "{host}");
        assert_eq!(response.status(), if expected.is_some() { 308 } else { 421 }, "{host}");
    }
    client.request("POST", "/", &[("Host", "a.test")], "a body");
    assert_eq!(client.read_response().status(), 308, "308 keeps the method");
    assert_eq!(client.get("/").status(), 421, "no host but the address");
}
