//! WebSocket to targets over HTTP/2 (RFC 8441): rule 18 towards targets, from clients of both protocols.

mod neighbours;
mod refusals;
mod tunnels;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::ext::Protocol;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use testkit::{DEADLINE, RawClient, Weir, wait};

use super::client::*;
use super::upstream::Raw;

/// The key of RFC 6455 section 1.3, and what shows that it was read.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/// SETTINGS_ENABLE_CONNECT_PROTOCOL.
const CONNECT_PROTOCOL: u16 = 8;

/// A request as a target got it.
#[derive(Debug, Clone)]
struct Seen {
    head: Arc<http::request::Parts>,
    /// Its body so far: the client's direction of a tunnel.
    body: Arc<Mutex<Vec<u8>>>,
    /// END_STREAM, or why there was none.
    end: Arc<Mutex<Option<Result<(), Reason>>>>,
}

/// What a target does with a request.
#[derive(Debug, Clone)]
enum Do {
    /// 200, and what comes is sent back, to the end.
    Echo,
    /// 200, these bytes, the end of its direction, and the rest of the other one refused, as Go's net/http does it.
    SayAndLeave(usize),
    /// A response.
    Respond(u16, &'static [u8]),
    /// RST_STREAM.
    Reset(Reason),
    /// Nothing.
    Nothing,
}

struct Target {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
    what: Arc<Mutex<Vec<Do>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Target {
    /// Does these things, one for each request, and the last again and again.
    fn start(what: &[Do]) -> Target {
        Target::start_with(what, |builder| {
            builder.max_concurrent_streams(100).enable_connect_protocol();
        })
    }

    fn start_with(what: &[Do], set: impl Fn(&mut h2::server::Builder) + Send + Sync + 'static) -> Target {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, connections) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
        let what = Arc::new(Mutex::new(what.iter().rev().cloned().collect::<Vec<_>>()));
        let (log, counted, todo): (Arc<Mutex<Vec<Seen>>>, _, _) =
            (Arc::clone(&seen), connections.clone(), what.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let (log, todo) = (log.clone(), todo.clone());
                let mut builder = h2::server::Builder::new();
                set(&mut builder);
                tokio::spawn(async move {
                    let Ok(mut connection) = builder.handshake::<_, Bytes>(socket).await else { return };
                    while let Some(Ok((request, send))) = connection.accept().await {
                        let mut todo = todo.lock().unwrap();
                        let next = if todo.len() > 1 { todo.pop().unwrap() } else { todo[0].clone() };
                        drop(todo);
                        tokio::spawn(serve(request, send, log.clone(), next));
                    }
                });
            }
        });
        Target { address, seen, connections, what, _runtime: runtime }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn last(&self) -> Seen {
        self.seen().pop().unwrap()
    }

    fn then(&self, what: Do) {
        *self.what.lock().unwrap() = vec![what];
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(request: Request<RecvStream>, mut send: SendResponse<Bytes>, log: Arc<Mutex<Vec<Seen>>>, what: Do) {
    let (head, mut receive) = request.into_parts();
    let seen = Seen { head: Arc::new(head), body: Arc::default(), end: Arc::default() };
    log.lock().unwrap().push(seen.clone());
    let mut out = match what {
        Do::Echo => {
            let response = Response::builder().header("sec-websocket-protocol", "chat").header("content-length", "0");
            Some(send.send_response(response.body(()).unwrap(), false).unwrap())
        }
        Do::SayAndLeave(length) => {
            let mut out = send.send_response(Response::new(()), false).unwrap();
            let body: Vec<u8> = (0..length).map(|index| index as u8).collect();
            out.send_data(body.into(), true).unwrap();
            // Dropped: RST_STREAM(NO_ERROR) behind END_STREAM is what the crate sends for a request that is not read.
            return;
        }
        Do::Respond(status, body) => {
            let mut out = send.send_response(Response::builder().status(status).body(()).unwrap(), false).unwrap();
            out.send_data(Bytes::from_static(body), true).unwrap();
            None
        }
        Do::Reset(reason) => {
            send.send_reset(reason);
            None
        }
        Do::Nothing => None,
    };
    loop {
        match receive.data().await {
            Some(Ok(data)) => {
                let _ = receive.flow_control().release_capacity(data.len());
                seen.body.lock().unwrap().extend_from_slice(&data);
                if let Some(out) = &mut out {
                    send_all(out, data).await;
                }
            }
            Some(Err(error)) => {
                *seen.end.lock().unwrap() = Some(Err(error.reason().unwrap_or(Reason::INTERNAL_ERROR)));
                return;
            }
            None => {
                *seen.end.lock().unwrap() = Some(Ok(()));
                if let Some(mut out) = out {
                    let _ = out.send_data(Bytes::new(), true);
                }
                return;
            }
        }
    }
}

/// Sends as the windows allow: otherwise what is queued would be all that came.
async fn send_all(out: &mut SendStream<Bytes>, mut data: Bytes) {
    while !data.is_empty() {
        out.reserve_capacity(data.len());
        let Some(Ok(count)) = std::future::poll_fn(|cx| out.poll_capacity(cx)).await else { return };
        if out.send_data(data.split_to(count.min(data.len())), false).is_err() {
            return;
        }
    }
}

fn gateway_with(target: SocketAddr, top: &str, upstream: &str, route: &str) -> Weir {
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let log = builder.dir().join("access.log");
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: {}}}\n{top}upstreams:\n  u:\n    targets: [http://{target}]\n    protocol: http2\n    eject: none\n{upstream}routes:\n  - match: {{path: /*}}\n    upstream: u\n    upgrade: [websocket, irc]\n{route}",
        log.display()
    );
    builder.config(yaml).start()
}

fn gateway(target: &Target) -> Weir {
    gateway_with(target.address, "", "    retry: {extra_attempts: 0}\n", "")
}

/// A handshake of HTTP/1.1.
fn handshake(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{more}\r\n"
    )
}

/// A client of HTTP/1.1 in a tunnel.
fn open1(weir: &Weir, path: &str) -> RawClient {
    let mut client = weir.connect();
    client.send(handshake(path, ""));
    let head = client.read_head();
    assert_eq!((head.status(), head.field("sec-websocket-accept")), (101, Some(ACCEPT)));
    client
}

/// Opens a tunnel over HTTP/2; its stream, once there is a head.
fn open2(client: &mut Client, path: &str) -> u32 {
    let fields = [(":protocol", "websocket"), ("sec-websocket-version", "13")];
    let stream = client.open(&request("CONNECT", path, &fields), false);
    client.until("a head", |client| client.streams.get(&stream).is_some_and(|response| response.status > 0));
    stream
}

/// What both kinds of clients get in place of a tunnel: status and body.
fn refusals(weir: &Weir) -> [(u16, String); 2] {
    let mut one = weir.connect();
    one.send(handshake("/ws", ""));
    let response = one.read_response();
    let mut two = Client::connect(weir.addr());
    let stream = open2(&mut two, "/ws");
    let other = two.response(stream);
    assert!(other.has_ended, "{other:?}");
    [(response.status(), response.text().to_owned()), (other.status, other.text())]
}

fn log(weir: &Weir) -> Vec<String> {
    let log = std::fs::read_to_string(weir.dir().join("access.log")).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

fn metric(weir: &Weir, name: &str) -> u64 {
    let metrics = weir.admin_get("/metrics");
    let lines = metrics.text().lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect::<Vec<_>>();
    lines.iter().map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}

/// A target of raw frames that offers extended CONNECT.
fn raw(listener: &TcpListener) -> Raw {
    let mut target = Raw::accept_without_settings(listener);
    let setting = [&CONNECT_PROTOCOL.to_be_bytes()[..], &1u32.to_be_bytes()].concat();
    target.send(&[frame(SETTINGS, 0, 0, &setting), frame(SETTINGS, 1, 0, &[])].concat());
    target
}
