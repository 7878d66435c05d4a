//! Both ends of one client connection: the client and the upstream.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::oracle::{self, Reading};
use crate::schedule::{Client, End, Fault, FaultPoint, Framing, Messages, Schedule};

/// Nothing may take so long: the gateway's own deadlines are fractions of a second.
const HANGS: Duration = Duration::from_secs(30);

/// What an upstream says that is not HTTP.
const GARBAGE: &[u8] = b"\x16\x03\x01 HTTP/9 \r\n\n\0\r\n\r\n";

/// A client and an upstream of their own.
pub(crate) struct Rig {
    pub(crate) number: usize,
    pub(crate) listener: Rc<TcpListener>,
    pub(crate) gateway: SocketAddr,
}

/// What one upstream connection was sent and sent itself.
#[derive(Default, Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) received: Vec<u8>,
    /// What was sent in response to the first request.
    pub(crate) first_response: Vec<u8>,
    /// The connection was closed, not reset, behind it.
    pub(crate) closed: bool,
}

/// What both ends saw.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub(crate) connections: Vec<Connection>,
    pub(crate) responses: Vec<u8>,
    pub(crate) hangs: bool,
}

impl Seen {
    pub(crate) fn describe(&self) -> String {
        let mut text = format!("the client got: {}\n", self.responses.escape_ascii());
        for connection in &self.connections {
            let Connection { received, first_response, closed } = connection;
            writeln!(text, "an upstream got: {}", received.escape_ascii()).unwrap();
            writeln!(text, "  and said first: {} (closed: {closed})", first_response.escape_ascii()).unwrap();
        }
        text
    }
}

/// What the two ends tell each other.
#[derive(Default)]
struct Shared {
    seen: RefCell<Seen>,
    /// The client got something, or the connection ended.
    heard: Cell<bool>,
    /// The upstream did what it does.
    fault_done: Cell<bool>,
    changed: Notify,
}

impl Shared {
    fn set(&self, flag: &Cell<bool>) {
        flag.set(true);
        self.changed.notify_waiters();
    }

    async fn wait(&self, is_over: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            if is_over(self) {
                return;
            }
            changed.await;
        }
    }
}

impl Rig {
    /// Runs one schedule to the end of the client's connection.
    pub(crate) async fn play(&self, schedule: &Schedule, messages: &Messages) -> Seen {
        let shared = Rc::new(Shared::default());
        let upstream = tokio::task::spawn_local(accept(
            self.listener.clone(),
            shared.clone(),
            schedule.fault.filter(|_| schedule.place == FaultPoint::Upstream),
            messages.response.clone(),
            schedule.response,
        ));
        let hangs =
            timeout(HANGS, play_client(self.gateway, &shared, schedule.client, &messages.requests)).await.is_err();
        upstream.abort();
        let _ = upstream.await;
        let mut seen = shared.seen.take();
        seen.hangs = hangs;
        seen
    }

    /// Length of the first request and of its head as it arrives at the upstream, with either framing.
    pub(crate) async fn forwarded_lengths(&self) -> [(usize, usize); 2] {
        let mut lengths = [(0, 0); 2];
        for (request, lengths) in [Framing::Length, Framing::Chunked].into_iter().zip(&mut lengths) {
            let schedule = Schedule {
                family: "",
                place: FaultPoint::Upstream,
                request,
                response: Framing::Length,
                client: Client::AtOnce,
                fault: None,
            };
            let messages = schedule.messages(self.number, 0);
            let seen = self.play(&schedule, &messages).await;
            let received = &seen.connections[0].received;
            let Reading::Message(first) = oracle::request(received) else { panic!("{}", seen.describe()) };
            let head = received.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
            *lengths = (first.length, head);
        }
        lengths
    }
}

async fn play_client(gateway: SocketAddr, shared: &Shared, client: Client, requests: &[u8]) {
    let mut stream = TcpStream::connect(gateway).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let stops = match client {
        Client::StopsAt(at, end) => Some((at, end)),
        _ => None,
    };
    if let Some((at, end @ (End::Close | End::Reset))) = stops {
        let _ = stream.write_all(&requests[..at]).await;
        if end == End::Reset {
            reset(&stream);
        } else if at % 2 == 0 {
            // Half of them after the gateway has had its time to act.
            let _ = timeout(Duration::from_millis(5), stream.readable()).await;
        }
        return;
    }
    let (mut reader, mut writer) = stream.split();
    let read = async {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut bytes).await {
            shared.seen.borrow_mut().responses.extend_from_slice(&bytes[..count]);
            shared.set(&shared.heard);
        }
        shared.set(&shared.heard);
    };
    let write = async {
        let cut = match client {
            Client::AtOnce => return drop(writer.write_all(requests).await),
            Client::Bytewise => {
                for byte in requests {
                    if writer.write_all(&[*byte]).await.is_err() {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
                return;
            }
            Client::HoldsAt(at) | Client::ContinuesAt(at) | Client::StopsAt(at, _) => at,
        };
        if writer.write_all(&requests[..cut]).await.is_err() {
            return;
        }
        match client {
            Client::StopsAt(_, End::HalfClose) => drop(writer.shutdown().await),
            Client::StopsAt(..) => {}
            Client::HoldsAt(_) => {
                shared.wait(|shared| shared.heard.get()).await;
                let _ = writer.write_all(&requests[cut..]).await;
            }
            _ => {
                shared.wait(|shared| shared.heard.get() || shared.fault_done.get()).await;
                let _ = writer.write_all(&requests[cut..]).await;
            }
        }
    };
    tokio::join!(read, write);
}

fn reset(stream: &TcpStream) {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// Accepts until it is aborted, and then drops all connections.
async fn accept(
    listener: Rc<TcpListener>,
    shared: Rc<Shared>,
    mut fault: Option<Fault>,
    response: Vec<u8>,
    framing: Framing,
) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let _ = stream.set_nodelay(true);
        let number = {
            let mut seen = shared.seen.borrow_mut();
            seen.connections.push(Connection::default());
            seen.connections.len() - 1
        };
        let mut upstream = Upstream { stream, number, shared: shared.clone(), response: response.clone(), framing };
        let fault = fault.take();
        connections.spawn_local(async move { upstream.serve(fault).await });
    }
}

struct Upstream {
    stream: TcpStream,
    number: usize,
    shared: Rc<Shared>,
    response: Vec<u8>,
    framing: Framing,
}

impl Upstream {
    /// Reads at most so many bytes; false at the end of the stream.
    async fn read(&mut self, most: usize) -> bool {
        let mut bytes = [0; 4096];
        let most = most.min(bytes.len());
        match self.stream.read(&mut bytes[..most]).await {
            Ok(count @ 1..) => {
                self.shared.seen.borrow_mut().connections[self.number].received.extend_from_slice(&bytes[..count]);
                true
            }
            _ => false,
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Connection) -> T) -> T {
        f(&mut self.shared.seen.borrow_mut().connections[self.number])
    }

    async fn write_first(&mut self, bytes: &[u8]) {
        self.with(|connection| connection.first_response.extend_from_slice(bytes));
        let _ = self.stream.write_all(bytes).await;
    }

    /// Serves the connection; the first request of it as `fault` says.
    async fn serve(&mut self, fault: Option<Fault>) {
        let mut has_response = false;
        if let Some(Fault { reads, writes, end }) = fault {
            loop {
                let most = self.with(|connection| match reads {
                    Some(reads) => reads - connection.received.len(),
                    None if matches!(oracle::request(&connection.received), Reading::Incomplete) => usize::MAX,
                    None => 0,
                });
                if most == 0 {
                    break;
                }
                if !self.read(most).await {
                    return;
                }
            }
            let response = self.response[..writes].to_vec();
            self.write_first(&response).await;
            let shared = self.shared.clone();
            let done = || shared.set(&shared.fault_done);
            match end {
                End::Close | End::HalfClose => {
                    self.with(|connection| connection.closed = true);
                    let _ = self.stream.shutdown().await;
                    return done();
                }
                End::Reset => {
                    reset(&self.stream);
                    return done();
                }
                End::GoOn => {
                    has_response = true;
                    done();
                }
                End::Silence | End::Garbage => {
                    if end == End::Garbage {
                        self.write_first(GARBAGE).await;
                    }
                    done();
                    while self.read(usize::MAX).await {}
                    return;
                }
            }
        }
        self.serve_well(has_response).await;
    }

    /// responds to each request, but for a first one that gets a response already.
    async fn serve_well(&mut self, mut has_response: bool) {
        let mut at = 0;
        loop {
            let reading = self.with(|connection| oracle::request(&connection.received[at..]));
            let request = match reading {
                Reading::Message(request) => request,
                Reading::Incomplete if self.read(usize::MAX).await => continue,
                _ => return,
            };
            at += request.length;
            if std::mem::take(&mut has_response) {
                continue;
            }
            let target = String::from_utf8_lossy(&request.start[1]).into_owned();
            if target.contains("/one/") {
                let response = self.response.clone();
                self.write_first(&response).await;
                if self.framing == Framing::UntilClose {
                    self.with(|connection| connection.closed = true);
                    return;
                }
            } else if target.contains("/two/") {
                let _ = self.stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo").await;
            } else {
                // The next schedule begins without connections of this one.
                let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nthree";
                let _ = self.stream.write_all(last).await;
                return;
            }
        }
    }
}
