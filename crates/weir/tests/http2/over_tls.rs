//! HTTP/2 over TLS: ALPN chooses the protocol, and requests of one connection keep to the hosts that its handshake covers.

use std::io::{Read, Write};
use std::process::Command;
use std::sync::Arc;

use testkit::{Certificates, Upstream, Weir};
use tls::Alpn;
use tls::certificate::read_certificates;
use tls::client::{self, Options, Roots, server_name};
use tokio::net::TcpStream;

fn gateway(tls: &str, upstream: &Upstream) -> Weir {
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let log = builder.dir().join("access.log");
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, tls: {tls}}}]\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: {}}}\nupstreams: {{u: {{targets: [{}]}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
        log.display(),
        upstream.url()
    );
    builder.config(yaml).start()
}

fn body_of(upstream_sees: &Upstream) -> String {
    upstream_sees.requests()[0].head.field("x-forwarded-proto").unwrap_or_default().to_owned()
}

#[test]
fn alpn_chooses_the_protocol() {
    let certificates = Certificates::localhost();
    let upstream = Upstream::start(|conn, _| conn.respond(200, &[], vec![b'x'; 100_000]));
    let entry = format!(
        "{{certificates: [{{cert: {}, key: {}}}]}}",
        certificates.certificate().display(),
        certificates.key().display()
    );
    let weir = gateway(&entry, &upstream);
    let url = format!("https://localhost:{}/", weir.addr().port());
    let authority = certificates.authority();
    for (option, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let output = Command::new("curl")
            .args(["-sS", "-m", "20", option, "--cacert", authority.to_str().unwrap(), "-o", "/dev/null"])
            .args(["--resolve", &format!("localhost:{}:127.0.0.1", weir.addr().port())])
            .args(["-w", "%{http_version} %{http_code} %{size_download}", &url])
            .output();
        let Ok(output) = output else {
            eprintln!("skipped: curl is not installed");
            return;
        };
        let got = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(got, format!("{version} 200 100000"));
    }
    assert_eq!(body_of(&upstream), "https", "the connection's scheme, whatever `:scheme` says");
}

/// Rule 19, RFC 9113 section 9.1.1: clients coalesce connections by certificates.
#[tokio::test]
async fn an_authority_that_the_handshake_does_not_cover_is_421_rule_19() {
    let servers = Certificates::for_names("DNS:open.test,DNS:closed.test");
    let clients = Certificates::for_names("DNS:client.test");
    let entry =
        |more: &str| format!("{{cert: {}, key: {}{more}}}", servers.certificate().display(), servers.key().display());
    let upstream = Upstream::start(|conn, request| conn.respond(200, &[], request.head.target()));
    let closed = entry(&format!(", hosts: [closed.test], client_auth: {{ca: {}}}", clients.authority().display()));
    let weir = gateway(&format!("{{certificates: [{}, {closed}]}}", entry(", hosts: [open.test]")), &upstream);

    let roots = Roots::These(read_certificates(&servers.authority()).unwrap());
    let config = client::config(&Options { roots, alpn: vec![Alpn::Http2], ..Options::default() }).unwrap();
    let socket = TcpStream::connect(weir.addr()).await.unwrap();
    let stream = tls::connect(socket, Arc::clone(&config), server_name("open.test").unwrap()).await.unwrap();
    assert_eq!(stream.session().alpn, Some(Alpn::Http2));
    let (mut send, connection) = h2::client::handshake(stream).await.unwrap();
    let driving = tokio::spawn(connection);
    for (host, status) in [("open.test", 200), ("closed.test", 421), ("elsewhere.test", 421), ("open.test", 200)] {
        send = send.ready().await.unwrap();
        let request = http::Request::get(format!("https://{host}/x")).body(()).unwrap();
        let (response, _) = send.send_request(request, true).unwrap();
        assert_eq!(response.await.unwrap().status(), status, "{host}");
    }
    assert_eq!(upstream.request_count(), 2);
    drop(send);
    driving.await.unwrap().unwrap();
}

/// Rule 20: early data can be replayed, so no ticket allows it. A client that would use it sends its request behind the handshake.
#[test]
fn a_resumed_session_carries_no_early_data_rule_20() {
    let certificates = Certificates::for_names("DNS:a.test");
    let upstream = Upstream::start(|conn, _| conn.respond(200, &[], "x"));
    let (cert, key) = (certificates.certificate(), certificates.key());
    let weir = gateway(&format!("{{certificates: [{{cert: {}, key: {}}}]}}", cert.display(), key.display()), &upstream);
    let roots = Roots::These(read_certificates(&certificates.authority()).unwrap());
    let options = Options { roots, alpn: vec![Alpn::Http11], ..Options::default() };
    let mut config = tls::ClientConfig::clone(&client::config(&options).unwrap());
    config.enable_early_data = true;
    let config = Arc::new(config);
    for expected in [rustls::HandshakeKind::Full, rustls::HandshakeKind::Resumed] {
        let mut connection = rustls::ClientConnection::new(config.clone(), server_name("a.test").unwrap()).unwrap();
        assert!(connection.early_data().is_none(), "{expected:?}");
        let mut socket = std::net::TcpStream::connect(weir.addr()).unwrap();
        let mut stream = rustls::Stream::new(&mut connection, &mut socket);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        assert_eq!(connection.handshake_kind(), Some(expected));
        assert!(!connection.is_early_data_accepted());
    }
    assert_eq!(upstream.request_count(), 2);
}
