//! Clients that open a connection anew whenever the gateway closes it, and count every failure.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use testkit::{RawClient, wait};

use super::DEADLINE;

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
}

/// How a client reaches the gateway.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    address: SocketAddr,
    /// What it sends before its first request.
    preface: Vec<u8>,
}

impl From<SocketAddr> for Way {
    fn from(address: SocketAddr) -> Self {
        Way { address, preface: Vec::new() }
    }
}

impl Way {
    /// A listener that expects a PROXY header.
    pub(crate) fn with_proxy_header(address: SocketAddr) -> Self {
        Way { address, preface: b"PROXY TCP4 192.0.2.7 192.0.2.80 4711 80\r\n".to_vec() }
    }
}

#[derive(Default)]
struct State {
    stop: AtomicBool,
    /// From now on a new connection may be refused: that is how a load balancer sees the end.
    draining: AtomicBool,
    good: AtomicUsize,
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
            std::thread::spawn(move || client(&state, &way, &requests, is_good))
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
        self.state.draining.store(true, Ordering::SeqCst);
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
    while !state.stop.load(Ordering::SeqCst) && failures.len() < 10 {
        let connected = RawClient::try_connect(way.address, None);
        let mut client = match connected.and_then(|mut client| client.try_send(&way.preface).map(|()| client)) {
            Ok(client) => client,
            Err(_) if state.draining.load(Ordering::SeqCst) => break,
            Err(error) => {
                failures.push(format!("connect to {}: {error}", way.address));
                continue;
            }
        };
        let mut is_first = true;
        while !state.stop.load(Ordering::SeqCst) {
            let request = &requests[next % requests.len()];
            next += 1;
            match send(&mut client, request) {
                Ok((status, closes)) => {
                    // Readiness ends before anything else does.
                    let is_end =
                        status == 503 && request.path.starts_with("/health") && state.draining.load(Ordering::SeqCst);
                    if is_good(status) || is_end {
                        state.good.fetch_add(1, Ordering::Relaxed);
                    } else {
                        failures.push(format!("status {status}: {request:?}"));
                    }
                    if closes {
                        break;
                    }
                }
                // It lay in the queue of a listener that closed.
                Err(_) if is_first && state.draining.load(Ordering::SeqCst) => return failures,
                Err(error) => {
                    failures.push(format!("{error}: {request:?}, first on its connection: {is_first}"));
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
