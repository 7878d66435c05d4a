//! The generator over HTTP/2, against a server on the `h2` crate.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use bytes::Bytes;
use gauge::load::{Generator, Options, Prepared, Workload};
use gauge::results::Report;

/// What a server does with a request: its path and the length of its body give status and body.
type Handler = fn(&str, usize) -> Option<(u16, String)>;

/// A server on a thread of its own until the test process ends.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Server {
    fn start(response: Handler) -> Self {
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
                tell.send(listener.local_addr().expect("an address")).expect("the test waits");
                loop {
                    let (socket, _) = listener.accept().await.expect("a connection");
                    counted.fetch_add(1, Ordering::SeqCst);
                    tokio::task::spawn_local(serve(socket, response));
                }
            });
        });
        Server { address: told.recv().expect("a server"), connections }
    }

    fn run(&self, rest: &str, streams: u32) -> Report {
        let yaml = format!("base: http://{}\nprotocol: {{http2: {{streams: {streams}}}}}\n{rest}", self.address);
        let workload: Workload = serde_saphyr::from_str(&yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}"));
        let prepared = Prepared::new(&workload).expect("it makes sense");
        Generator::new(prepared, Options { threads: Some(2), ..Options::default() }).run().expect("a report")
    }
}

async fn serve(socket: tokio::net::TcpStream, response: Handler) {
    let Ok(mut connection) = h2::server::handshake(socket).await else { return };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        tokio::task::spawn_local(async move {
            let path = request.uri().path().to_owned();
            let mut body = request.into_body();
            let mut length = 0;
            while let Some(Ok(data)) = body.data().await {
                length += data.len();
                let _ = body.flow_control().release_capacity(data.len());
            }
            let Some((status, text)) = response(&path, length) else {
                respond.send_reset(h2::Reason::INTERNAL_ERROR);
                return;
            };
            let head = http::Response::builder().status(status).header("x-length", length).body(()).expect("a head");
            if let Ok(mut stream) = respond.send_response(head, false) {
                let _ = stream.send_data(Bytes::from(text), true);
            }
        });
    }
}

#[test]
fn streams_share_connections() {
    let server = Server::start(|_, _| Some((200, "hello".to_owned())));
    let report = server.run("operations: [{id: get, path: /x}]\nload: {closed: {users: 32, iterations: 640}}\n", 8);
    let total = &report.total;
    assert_eq!(report.generator.protocol.as_deref(), Some("HTTP/2"));
    assert_eq!((total.requests.responses, total.errors.total), (Some(640), Some(0)));
    assert_eq!(total.connections_opened, Some(4));
    assert_eq!(server.connections.load(Ordering::SeqCst), 4);
    assert_eq!(total.statuses, Some(BTreeMap::from([(200, 640)])));
}

#[test]
fn an_open_loop_is_paced() {
    let server = Server::start(|_, _| Some((200, String::new())));
    let report = server
        .run("operations: [{id: get, path: /x}]\nload: {open: {rate: 300/s, duration: 1s, connections: 16}}\n", 16);
    assert_eq!((report.total.requests.scheduled, report.total.requests.responses), (Some(300), Some(300)));
    assert_eq!(report.total.lag.as_ref().and_then(|lag| lag.count), Some(300));
}

#[test]
fn bodies_and_captures_travel() {
    let server = Server::start(|path, length| match (path, length) {
        ("/upload", length) => Some((201, format!("{{\"id\":{length}}}"))),
        ("/3000000", 0) => Some((200, String::new())),
        _ => Some((404, String::new())),
    });
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("body");
    std::fs::write(&file, vec![7; 3_000_000]).expect("a file");
    let report = server.run(
        &format!(
            "order: sequence\nload: {{closed: {{users: 2, iterations: 8}}}}\noperations:\n  - {{id: put, method: PUT, path: /upload, body: {{file: {}}}, \
             capture: [{{name: id, json: /id}}]}}\n  - {{id: get, path: '/{{id}}', params: {{id: {{captured: id}}}}}}\n",
            file.display()
        ),
        2,
    );
    assert_eq!(report.total.statuses, Some(BTreeMap::from([(200, 4), (201, 4)])), "{:?}", report.total.errors);
}

#[test]
fn a_reset_stream_and_a_dead_server_are_errors() {
    let server = Server::start(|_, _| None);
    let report = server.run("operations: [{id: get, path: /x}]\nload: {closed: {users: 4, iterations: 12}}\n", 2);
    assert_eq!((report.total.errors.reset, report.total.errors.total), (Some(12), Some(12)));

    let port = testkit::ports::Port::free();
    let dead = Server { address: port.address(), connections: Arc::default() };
    let report = dead.run("operations: [{id: get, path: /x}]\nload: {closed: {users: 4, iterations: 12}}\n", 2);
    assert_eq!((report.total.errors.connect, report.total.errors.total), (Some(12), Some(12)));
}

#[test]
fn a_server_that_never_responds_is_a_time_out() {
    let upstream = testkit::Upstream::connections(|conn| conn.stall());
    let dead = Server { address: upstream.socket_addr(), connections: Arc::default() };
    let report =
        dead.run("timeout: 200ms\noperations: [{id: get, path: /x}]\nload: {closed: {users: 2, iterations: 4}}\n", 1);
    assert_eq!(report.total.errors.timeout, Some(4), "{:?}", report.total.errors);
}
