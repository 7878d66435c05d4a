//! Clients that open a connection anew whenever the gateway closes it, and count every failure.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use testkit::{Address, RawClient, wait};

use super::{DEADLINE, http2};

/// A request to be sent again and again.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn get(path: &str) -> Self {
        Request { method: "GET".into(), path: path.into(), fields: Vec::new(), body: String::new() }
    }

    pub(crate) fn post(path: &str, body: &str) -> Self {
        Request { method: "POST".into(), body: body.into(), ..Request::get(path) }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }
}

/// How a client reaches the gateway.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) address: Address,
    /// What it sends before its first request.
    preface: Vec<u8>,
    is_http2: bool,
    /// The socket stays open between two processes: nobody is ever refused there.
    outlives: bool,
}

impl From<SocketAddr> for Way {
    fn from(address: SocketAddr) -> Self {
        Way::over(address)
    }
}

impl Way {
    fn over(address: impl Into<Address>) -> Self {
        Way { address: address.into(), preface: Vec::new(), is_http2: false, outlives: false }
    }

    /// A listener that expects a PROXY header.
    pub(crate) fn with_proxy_header(address: SocketAddr) -> Self {
        Way { preface: b"PROXY TCP4 192.0.2.7 192.0.2.80 4711 80\r\n".to_vec(), ..address.into() }
    }

    /// A client that speaks HTTP/2 from the first byte.
    pub(crate) fn over_http2(address: SocketAddr) -> Self {
        Way { is_http2: true, ..address.into() }
    }

    pub(crate) fn over_unix(path: &Path) -> Self {
        Way::over(path)
    }

    /// A listener whose socket is not the gateway's own.
    pub(crate) fn that_outlives(address: SocketAddr) -> Self {
        Way { outlives: true, ..address.into() }
    }
}

/// What the clients are to expect.
#[derive(Default)]
pub(super) struct State {
    stop: AtomicBool,
    /// From now on a new connection may be refused: that is how a load balancer sees the end.
    draining: AtomicBool,
    /// Another process will come after that.
    restarts: AtomicBool,
    good: AtomicUsize,
}

/// What a failure before the first response of a connection means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is a failure.
    Failure,
    /// It tries again.
    Again,
    /// It has seen the end.
    End,
}

impl State {
    pub(super) fn stops(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// What a refusal means at this moment.
    pub(super) fn refused(&self, way: &Way) -> Refused {
        match (self.draining.load(Ordering::SeqCst), self.restarts.load(Ordering::SeqCst)) {
            (true, true) if !way.outlives => Refused::Again,
            (true, false) => Refused::End,
            _ => Refused::Failure,
        }
    }

    /// Counts a response, or says why it is none that was wanted.
    pub(super) fn count(&self, request: &Request, status: u16, is_good: fn(u16) -> bool) -> Option<String> {
        // Readiness ends before anything else does.
        let is_end = status == 503 && request.path.starts_with("/health") && self.draining.load(Ordering::SeqCst);
        if is_good(status) || is_end {
            self.good.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(format!("status {status}: {request:?}"))
    }
}

/// Clients at work.
pub(crate) struct Load {
    state: Arc<State>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    /// One client for each way; each sends all of `requests` in turn. A response is good if `is_good` says so of its status.
    pub(crate) fn start(ways: &[Way], requests: &[Request], is_good: fn(u16) -> bool) -> Self {
        let state = Arc::new(State::default());
        let client = |way: &Way| {
            let (state, way, requests) = (state.clone(), way.clone(), requests.to_vec());
            std::thread::spawn(move || {
                let client = if way.is_http2 { http2::client } else { client };
                client(&state, &way, &requests, is_good)
            })
        };
        let clients = ways.iter().map(client).collect();
        Load { state, clients }
    }

    /// Good responses so far.
    pub(crate) fn good(&self) -> usize {
        self.state.good.load(Ordering::Relaxed)
    }

    /// Waits for so many further good responses.
    pub(crate) fn wait_for(&self, count: usize) {
        let start = self.good();
        let is_over = || self.good() >= start + count || self.clients.iter().any(JoinHandle::is_finished);
        wait::until(DEADLINE, "the load to go on", is_over);
    }

    /// From now on a new connection may be refused.
    pub(crate) fn expect_the_end(&self) {
        self.state.restarts.store(false, Ordering::SeqCst);
        self.state.draining.store(true, Ordering::SeqCst);
    }

    /// Until `restart` is over, a new connection may be refused, and is tried again. No request may fail.
    pub(crate) fn during<T>(&self, restart: impl FnOnce() -> T) -> T {
        self.state.restarts.store(true, Ordering::SeqCst);
        self.state.draining.store(true, Ordering::SeqCst);
        let outcome = restart();
        self.state.draining.store(false, Ordering::SeqCst);
        outcome
    }

    /// Stops the clients; what failed.
    pub(crate) fn stop(self) -> Vec<String> {
        self.state.stop.store(true, Ordering::SeqCst);
        self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    }
}

fn client(state: &State, way: &Way, requests: &[Request], is_good: fn(u16) -> bool) -> Vec<String> {
    let mut failures = Vec::new();
    let mut next = 0;
    while !state.stops() && failures.len() < 10 {
        // Before and after: the end of a restart may lie in between.
        let before = state.refused(way);
        let refused = || if before == Refused::Failure { state.refused(way) } else { before };
        let connected = RawClient::try_connect(way.address.clone(), None);
        let mut client = match connected.and_then(|mut client| client.try_send(&way.preface).map(|()| client)) {
            Ok(client) => client,
            Err(error) => {
                match refused() {
                    Refused::Failure => failures.push(format!("connect to {}: {error}", way.address)),
                    Refused::Again => std::thread::yield_now(),
                    Refused::End => break,
                }
                continue;
            }
        };
        let mut is_first = true;
        while !state.stops() {
            let request = &requests[next % requests.len()];
            next += 1;
            match send(&mut client, request) {
                Ok((status, closes)) => {
                    failures.extend(state.count(request, status, is_good));
                    if closes {
                        break;
                    }
                }
                Err(error) => {
                    // It lay in the queue of a listener that closed.
                    match refused() {
                        Refused::End if is_first => return failures,
                        Refused::Again if is_first => {}
                        _ => failures.push(format!(
                            "{}: {error}: {request:?}, first on its connection: {is_first}",
                            way.address
                        )),
                    }
                    break;
                }
            }
            is_first = false;
        }
    }
    failures
}

fn send(client: &mut RawClient, request: &Request) -> Result<(u16, bool), testkit::WireError> {
    let mut text = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    if !request.fields.iter().any(|(name, _)| name == "Host") {
        text += "Host: localhost\r\n";
    }
    for (name, value) in &request.fields {
        text += &format!("{name}: {value}\r\n");
    }
    if request.method != "GET" {
        text += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", request.body.len());
    }
    client.try_send(text + "\r\n" + &request.body)?;
    let response = client.try_read_response_to(&request.method)?;
    Ok((response.status(), response.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))))
}
