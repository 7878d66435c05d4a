//! HTTP/2 and gRPC over TLS.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;
use tokio_rustls::TlsAcceptor;

use super::refused::refused;
use super::server::{Authority, config};
use super::{get, good, prepared, tls};

const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../services/producer/proto/event_service.proto");

/// `success: true`, as a message of gRPC.
const STORED: &[u8] = &[0, 0, 0, 0, 2, 0x08, 0x01];

struct Http2 {
    address: SocketAddr,
    /// Schemes of the requests.
    schemes: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
}

impl Http2 {
    /// A server on a thread of its own that selects HTTP/2 and responds to each request with `body`.
    fn start(mut config: rustls::ServerConfig, body: &'static [u8]) -> Self {
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (schemes, connections) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<usize>>::default());
        let (seen, opened) = (schemes.clone(), connections.clone());
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
                tell.send(listener.local_addr().expect("an address")).expect("the test waits");
                while let Ok((socket, _)) = listener.accept().await {
                    *opened.lock().expect("no panic") += 1;
                    let (acceptor, seen) = (acceptor.clone(), seen.clone());
                    tokio::spawn(async move {
                        let Ok(socket) = acceptor.accept(socket).await else { return };
                        let Ok(mut connection) = h2::server::handshake(socket).await else { return };
                        while let Some(Ok((request, respond))) = connection.accept().await {
                            let scheme = request.uri().scheme_str().unwrap_or_default().to_owned();
                            seen.lock().expect("no panic").push(scheme);
                            tokio::spawn(response(request.into_body(), respond, body));
                        }
                    });
                }
            });
        });
        Http2 { address: told.recv().expect("a server"), schemes, connections }
    }

    fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}

async fn response(mut request: h2::RecvStream, mut respond: h2::server::SendResponse<Bytes>, body: &'static [u8]) {
    while let Some(Ok(data)) = request.data().await {
        let _ = request.flow_control().release_capacity(data.len());
    }
    let head = http::Response::builder().header("content-type", "application/grpc").body(()).expect("a head");
    let Ok(mut stream) = respond.send_response(head, false) else { return };
    let _ = stream.send_data(Bytes::from_static(body), false);
    let trailers = http::HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        http::HeaderValue::from_static("0"),
    )]);
    let _ = stream.send_trailers(trailers);
}

#[test]
fn streams_share_connections() {
    let authority = Authority::new();
    let server = Http2::start(config(authority.leaf(&["127.0.0.1"], |_| {}), None), b"hello");
    let more = format!("protocol: {{http2: {{streams: 8}}}}\ntls: {{ca: {}}}", authority.pem());
    let report = get(&server.url(), "{closed: {users: 32, iterations: 640}}", &more);
    let total = &report.total;
    assert_eq!((total.requests.responses, total.errors.total), (Some(640), Some(0)), "{:?}", tls(&report));
    assert_eq!((total.connections_opened, tls(&report).full), (Some(4), 4));
    assert_eq!(*server.connections.lock().expect("no panic"), 4);
    assert_eq!(tls(&report).handshake.as_ref().and_then(|one| one.count), Some(4));
    let schemes = server.schemes.lock().expect("no panic");
    assert!(schemes.len() == 640 && schemes.iter().all(|scheme| scheme == "https"));
}

#[test]
fn large_bodies_and_single_exchanges() {
    let authority = Authority::new();
    let server = Http2::start(config(authority.leaf(&["127.0.0.1"], |_| {}), None), &[7; 500_000]);
    let body = authority.file("body", &"x".repeat(300_000));
    let yaml = format!(
        "base: {}\nprotocol: {{http2: {{streams: 2}}}}\nload: {{closed: {{users: 2, iterations: 4}}}}\ntls: {{ca: {}}}\n\
         operations: [{{id: put, method: PUT, path: /x, body: {{file: {body}}}}}]\n",
        server.url(),
        authority.pem()
    );
    let report = super::run(&yaml);
    assert_eq!((report.total.requests.responses, report.total.errors.total), (Some(4), Some(0)), "{:?}", tls(&report));
    assert!(report.total.bytes.received > Some(2_000_000));
    let response = prepared(&yaml).once().remove(0).response.expect("a response");
    assert_eq!((response.status, response.body.len()), (200, 500_000));
    let refused = prepared(&yaml.replace("tls: {", "tls: {server_name: other.test, "));
    let reason = refused.once().remove(0).response.expect_err("another name");
    assert!(reason.contains("not for this name"), "{reason}");
}

#[test]
fn calls_of_grpc() {
    let authority = Authority::new();
    let server = Http2::start(config(authority.leaf(&["127.0.0.1"], |_| {}), None), STORED);
    let report = super::run(&format!(
        "base: {}\nprotocol: {{http2: {{streams: 4}}}}\nload: {{closed: {{users: 4, iterations: 40}}}}\ntls: {{ca: {}}}\noperations:\n  \
         - {{id: store, grpc: {{proto: {PROTO}, method: com.example.grpc.EventService/ProcessEvent}}, body: {{text: '{{}}'}}}}\n",
        server.url(),
        authority.pem()
    ));
    assert_eq!(report.generator.protocol.as_deref(), Some("gRPC"));
    assert_eq!((report.total.requests.responses, report.total.errors.total), (Some(40), Some(0)), "{:?}", report.total);
    assert_eq!((report.total.connections_opened, tls(&report).full), (Some(1), 1));
}

#[test]
fn a_server_that_does_not_select_it_is_refused() {
    // It has no ALPN at all.
    let (authority, server) = good(5);
    let report = get(
        &server.url(),
        "{closed: {users: 2, iterations: 4}}",
        &format!("protocol: {{http2: {{streams: 2}}}}\ntls: {{ca: {}}}", authority.pem()),
    );
    let errors = &report.total.errors;
    assert_eq!((errors.tls, errors.total), (Some(4), Some(4)), "{errors:?}");
    let reason = tls(&report).first_error.clone().expect("a reason");
    assert!(reason.contains("did not select HTTP/2"), "{reason}");

    // And one that has HTTP/2 only, over HTTP/1.1.
    let server = Http2::start(config(authority.leaf(&["127.0.0.1"], |_| {}), None), b"");
    refused(&server.url(), &format!("ca: {}", authority.pem()), &["does not speak HTTP/1.1", "--h2"]);
}

#[test]
fn certificates_are_verified_and_presented() {
    let authority = Authority::new();
    let (cert, key) = authority.client();
    let server = Http2::start(config(authority.leaf(&["127.0.0.1"], |_| {}), Some(&authority)), b"");
    let load = "{closed: {users: 2, iterations: 4}}";
    let get = |tls: &str| get(&server.url(), load, &format!("protocol: {{http2: {{streams: 1}}}}\ntls: {{{tls}}}"));

    let report = get(&format!("ca: {}, cert: {cert}, key: {key}", authority.pem()));
    assert_eq!((report.total.requests.responses, report.total.errors.total), (Some(4), Some(0)), "{:?}", tls(&report));

    // The alert comes when the handshake is complete for the client: it may have been lost behind a reset.
    let report = get(&format!("ca: {}", authority.pem()));
    let errors = &report.total.errors;
    assert_eq!((report.total.requests.responses, errors.total), (Some(0), Some(4)), "{errors:?}");
    let reason = tls(&report).first_error.clone().unwrap_or_else(|| "--cert and --key".to_owned());
    assert!(reason.contains("--cert and --key"), "{reason}");

    let other = Authority::new();
    let report = get(&format!("ca: {}", other.pem()));
    assert_eq!((report.total.errors.tls, report.total.errors.total), (Some(4), Some(4)), "{:?}", report.total.errors);
    let reason = tls(&report).first_error.clone().expect("a reason");
    assert!(reason.contains("--ca FILE"), "{reason}");
}

#[test]
fn a_stall_in_the_handshake_is_a_timeout() {
    let server = super::server::Server::accept(|mut stream, _| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let more = "timeout: 150ms\nprotocol: {http2: {streams: 2}}\ntls: {insecure: true}";
    let report = get(&server.url(), "{closed: {users: 2, iterations: 4}}", more);
    assert_eq!((report.total.errors.timeout, report.total.errors.total), (Some(4), Some(4)));
}
