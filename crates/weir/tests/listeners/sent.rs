//! PROXY headers to targets.

use testkit::{Certificates, Nginx, RawClient, Upstream, Weir, responder, wait};

use super::{DEADLINE, gateway, header, logged, metric, program, tls_option};
use proxy_protocol::Version;

const TRUSTED: &str = "trusted_proxies: [127.0.0.1]\n";

/// A gateway before `target` that sends headers of this version; `more` are further keys of the upstream.
fn sender(target: &str, version: &str, listen: &str, more: &str) -> Weir {
    let text = format!(
        "listen: [{{bind: 127.0.0.1:0{listen}}}]\nadmin: 127.0.0.1:0\nworkers: 1\n{TRUSTED}\
         upstreams: {{u: {{targets: [{target}], proxy_protocol: {version}{more}}}}}\n\
         routes: [{{match: {{path: /*}}, upstream: u}}]\n"
    );
    Weir::builder(program()).config(text).start()
}

fn from(address: &str, weir: &Weir) -> RawClient {
    RawClient::connect_from(address.parse().unwrap(), weir.addr())
}

#[test]
fn the_target_learns_of_each_client_and_connections_are_kept_for_each() {
    let upstream = Upstream::start(responder::ok("hello"));
    for version in ["v1", "v2"] {
        let target = gateway(&upstream, ", proxy_protocol: any", TRUSTED, "");
        let weir = sender(&target.url(), version, "", "");
        let mut clients: Vec<_> = ["127.0.0.2", "127.0.0.3"].map(|address| (address, from(address, &weir))).into();
        clients.push(("127.0.0.2", from("127.0.0.2", &weir)));
        for round in 0..3 {
            for (number, (address, client)) in clients.iter_mut().enumerate() {
                let path = format!("/{round}/{number}");
                // It names the client that forged nothing, and the field agrees with it.
                client.request("GET", &path, &[("X-Forwarded-For", "6.6.6.6")], "");
                assert_eq!(client.read_response().status(), 200);
                assert_eq!(logged(&target, &path)["client"], *address);
            }
        }
        assert_eq!(metric(&target, "proxy_protocol_headers_total", version), 2, "one connection for each client");
    }
}

#[test]
fn the_client_of_a_header_or_of_a_trusted_field_is_named_with_its_port_where_that_is_known() {
    let nginx_port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _nginx = Nginx::start(&format!(
        "listen 127.0.0.1:{nginx_port} proxy_protocol;\nlocation / {{ return 200 \"$proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_addr $proxy_protocol_server_port\"; }}"
    ));
    for version in ["v1", "v2"] {
        let url = format!("http://127.0.0.1:{nginx_port}");
        let direct = sender(&url, version, "", "");
        let mut client = from("127.0.0.2", &direct);
        let port = client.local_addr().unwrap().port();
        let expected = format!("127.0.0.2 {port} 127.0.0.1 {}", direct.addr().port());
        assert_eq!(client.get("/").text(), expected, "{version}");
        // A proxy that speaks HTTP names the client, and no port of it.
        let mut client = from("127.0.0.1", &direct);
        client.request("GET", "/", &[("X-Forwarded-For", "203.0.113.7")], "");
        // nginx shows port 0 as nothing.
        let shown = client.read_response().text().to_owned();
        assert!(shown.starts_with("203.0.113.7  127.0.0.1 "), "{version}: {shown}");

        let behind = sender(&url, version, ", proxy_protocol: v2", "");
        for source in ["203.0.113.7:1234", "[2001:db8::7]:1234"] {
            let mut client = from("127.0.0.1", &behind);
            client.send(header(Version::V2, source));
            let expected = match source.starts_with('[') {
                true => "2001:db8::7 1234 2001:db8::80 443",
                false => "203.0.113.7 1234 192.0.2.80 443",
            };
            assert_eq!(client.get("/").text(), expected, "{version}");
        }
    }
}

#[test]
fn the_header_comes_before_tls_and_health_checks_send_one_of_their_own() {
    let upstream = Upstream::start(responder::ok("hello"));
    let certificates = Certificates::localhost();
    let tls = tls_option(&certificates.certificate(), &certificates.key());
    let target = gateway(&upstream, &format!("{tls}, proxy_protocol: v2"), TRUSTED, "");
    let ca = certificates.authority();
    let more = format!(", tls: {{roots: {}}}, health: {{path: /health, interval: 100ms}}", ca.display());
    let weir = sender(&format!("https://127.0.0.1:{}", target.addr().port()), "v2", "", &more);
    wait::until(DEADLINE, "probes", || metric(&target, "proxy_protocol_headers_total", "local") >= 2);
    let mut client = from("127.0.0.2", &weir);
    client.request("GET", "/seen", &[("Host", "localhost")], "");
    assert_eq!(client.read_response().text(), "hello");
    let line = logged(&target, "/seen");
    assert_eq!((&line["client"], &line["tls_version"]), (&"127.0.0.2".into(), &"TLSv1.3".into()), "{line}");
    assert_eq!(logged(&target, "/health")["client"], "127.0.0.1");
}

#[test]
fn over_http2_there_is_no_header() {
    let text = "listen: 127.0.0.1:0\nupstreams: {u: {targets: [http://127.0.0.1:1], proxy_protocol: v2, protocol: http2}}\nroutes: []\n";
    let failed = Weir::builder(program()).config(text).run();
    assert_eq!(failed.code, Some(64));
    assert!(failed.stderr.contains("`proxy_protocol` needs `protocol: http1`"), "{}", failed.stderr);
}

#[test]
fn check_says_whose_connections_are_kept() {
    for (keep, said) in [("", "for each client address apart"), (", keep_alive: none", "a connection of its own")] {
        let gateway = Weir::builder(program());
        let path = gateway.dir().join("weir.yaml");
        let text = format!(
            "listen: 127.0.0.1:0\nupstreams: {{u: {{targets: [http://127.0.0.1:1], proxy_protocol: v2{keep}}}}}\nroutes: [{{match: {{path: /}}, upstream: u}}]\n"
        );
        std::fs::write(&path, text).unwrap();
        let checked = gateway.args(["check", path.to_str().unwrap()]).command();
        assert!(
            checked.stdout.contains("upstream u: because of `proxy_protocol`") && checked.stdout.contains(said),
            "{}",
            checked.stdout
        );
    }
}
