//! A server that does what the test says, also what no server should.

mod conn;
mod record;
pub mod responder;

use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fs, io};

use rustix::io::Errno;

pub use conn::Conn;
pub use record::Recorded;
use responder::Responder;

use crate::http::Message;
use crate::ports::Port;
use crate::wire::Socket;
use crate::{Address, DEADLINE, WireError, wait};
use record::Record;

/// A misbehaving server with a thread for every connection. Dropped, it closes its port and all connections, and fails the test if
/// one of its handlers panicked.
///
/// [`Upstream::start`] takes a function for each request, and reads and keeps connections alive by itself;
/// [`Upstream::connections`] takes one for each connection, which then does everything. The ready-made ones are in [`responder`].
#[derive(Debug)]
pub struct Upstream {
    shared: Arc<Shared>,
    address: Address,
    /// Keeps the port while the server is stopped.
    _port: Option<Port>,
    acceptor: Mutex<Option<Acceptor>>,
}

#[derive(Debug)]
struct Acceptor {
    listener: Arc<Listener>,
    thread: JoinHandle<()>,
}

/// What the acceptor, the connections' threads and the test share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    record_limit: usize,
}

#[derive(Debug)]
struct State {
    behaviour: Behaviour,
    paused: bool,
    accepted: usize,
    /// The number of the next connection; `accepted` may be set back.
    next: usize,
    handler_panicked: bool,
    /// Connections that are open now, by number.
    open: Vec<(usize, Socket)>,
    record: Record,
}

#[derive(Clone)]
enum Behaviour {
    Requests(Arc<Responder>),
    Connections(Arc<Handler>),
}

type Handler = dyn Fn(&mut Conn) -> Result<(), WireError> + Send + Sync;

impl std::fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Requests(_) => "Requests",
            Self::Connections(_) => "Connections",
        })
    }
}

/// Where an [`Upstream`] listens and how much it records.
#[derive(Debug)]
pub struct UpstreamBuilder {
    place: Listening,
    record_limit: usize,
}

#[derive(Debug)]
enum Listening {
    Ipv4,
    Ipv6,
    Unix(PathBuf),
}

impl UpstreamBuilder {
    /// Listens on \[::1\].
    pub fn ipv6(mut self) -> Self {
        self.place = Listening::Ipv6;
        self
    }

    /// Listens on a Unix socket; a file that is there already is replaced.
    pub fn unix(mut self, path: impl Into<PathBuf>) -> Self {
        self.place = Listening::Unix(path.into());
        self
    }

    /// Bytes kept of each body and of each request's raw bytes (default 1 MiB); the lengths are always exact.
    pub fn record_limit(mut self, bytes: usize) -> Self {
        self.record_limit = bytes;
        self
    }

    /// Starts it; `responder` is called for every request, after its body was read.
    pub fn start(
        self,
        responder: impl Fn(&mut Conn, &Message) -> Result<(), WireError> + Send + Sync + 'static,
    ) -> Upstream {
        self.launch(Behaviour::Requests(Arc::new(Box::new(responder))))
    }

    /// Starts it; `handler` is called for every connection.
    pub fn connections(self, handler: impl Fn(&mut Conn) -> Result<(), WireError> + Send + Sync + 'static) -> Upstream {
        self.launch(Behaviour::Connections(Arc::new(handler)))
    }

    fn launch(self, behaviour: Behaviour) -> Upstream {
        let (address, port) = match self.place {
            Listening::Ipv4 => {
                let port = Port::free();
                (Address::Tcp(port.address()), Some(port))
            }
            Listening::Ipv6 => {
                let port = Port::free_v6();
                (Address::Tcp(port.address()), Some(port))
            }
            Listening::Unix(path) => (Address::Unix(path), None),
        };
        let state = State {
            behaviour,
            paused: false,
            accepted: 0,
            next: 0,
            handler_panicked: false,
            open: Vec::new(),
            record: Record::default(),
        };
        let shared = Shared { state: Mutex::new(state), changed: Condvar::new(), record_limit: self.record_limit };
        let upstream = Upstream { shared: Arc::new(shared), address, _port: port, acceptor: Mutex::new(None) };
        upstream.restart();
        upstream
    }
}

impl Upstream {
    /// A builder, for anything but the defaults.
    pub fn builder() -> UpstreamBuilder {
        UpstreamBuilder { place: Listening::Ipv4, record_limit: 1 << 20 }
    }

    /// Starts a server on a free port of 127.0.0.1 that calls `responder` for every request.
    pub fn start(responder: impl Fn(&mut Conn, &Message) -> Result<(), WireError> + Send + Sync + 'static) -> Self {
        Self::builder().start(responder)
    }

    /// Starts a server on a free port of 127.0.0.1 that calls `handler` for every connection.
    pub fn connections(handler: impl Fn(&mut Conn) -> Result<(), WireError> + Send + Sync + 'static) -> Self {
        Self::builder().connections(handler)
    }

    /// From the next request on, on connections that are open too, `responder` is called.
    pub fn set_responder(
        &self,
        responder: impl Fn(&mut Conn, &Message) -> Result<(), WireError> + Send + Sync + 'static,
    ) {
        self.shared.lock().behaviour = Behaviour::Requests(Arc::new(Box::new(responder)));
    }

    /// Where it listens, for [`crate::RawClient::connect`].
    pub fn address(&self) -> Address {
        self.address.clone()
    }

    /// Its address and port. Panics for a Unix socket.
    #[track_caller]
    pub fn socket_addr(&self) -> SocketAddr {
        match &self.address {
            Address::Tcp(address) => *address,
            Address::Unix(path) => panic!("{} is a Unix socket", path.display()),
        }
    }

    /// `http://127.0.0.1:PORT`, or `unix:PATH`: a target in the gateway's configuration.
    pub fn url(&self) -> String {
        match &self.address {
            Address::Tcp(address) => format!("http://{address}"),
            Address::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Connections accepted since the start.
    pub fn accepted(&self) -> usize {
        self.shared.lock().accepted
    }

    /// Connections whose handler has not returned. The ready-made responses notice within 20 ms when a peer disconnects.
    pub fn open(&self) -> usize {
        self.shared.lock().open.len()
    }

    /// Requests whose head was read.
    pub fn request_count(&self) -> usize {
        self.shared.lock().record.count
    }

    /// The requests, in the order in which their heads were read; at most the first 10,000.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.lock().record.requests()
    }

    /// What arrived and was not a request: malformed bytes, and requests that broke off. A gateway that keeps its promises
    /// leaves this empty, whatever its clients send.
    pub fn errors(&self) -> Vec<String> {
        self.shared.lock().record.errors.clone()
    }

    /// Forgets the requests, errors and counts so far; connections stay open.
    pub fn forget(&self) {
        let mut state = self.shared.lock();
        state.record = Record::default();
        state.accepted = 0;
    }

    /// Waits until `count` requests have been read (their heads).
    #[track_caller]
    pub fn wait_for_requests(&self, count: usize) {
        wait::until(DEADLINE, &format!("{count} requests at the upstream"), || self.request_count() >= count);
    }

    /// Waits until exactly `count` connections are open.
    #[track_caller]
    pub fn wait_for_open(&self, count: usize) {
        wait::until(DEADLINE, &format!("{count} open connections at the upstream"), || self.open() == count);
    }

    /// Accepts no more connections. The kernel still completes handshakes and takes bytes, as with a server that hangs.
    pub fn pause(&self) {
        self.shared.lock().paused = true;
    }

    /// Ends a pause: the connections that came meanwhile are served.
    pub fn resume(&self) {
        self.shared.lock().paused = false;
        self.shared.changed.notify_all();
    }

    /// Closes the port, so that connections are refused, and closes all connections. The port stays reserved.
    pub fn stop(&self) {
        let acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Acceptor { listener, thread }) = acceptor {
            // Linux: wakes the thread that waits in accept.
            let _ = rustix::net::shutdown(&*listener, rustix::net::Shutdown::Both);
            self.resume();
            let _ = thread.join();
        }
        self.close_connections();
        if let Address::Unix(path) = &self.address {
            let _ = fs::remove_file(path);
        }
    }

    /// Listens again at the same place, after [`Upstream::stop`].
    #[track_caller]
    pub fn restart(&self) {
        self.stop();
        let listener =
            Listener::bind(&self.address).unwrap_or_else(|error| panic!("cannot listen at {}: {error}", self.address));
        let listener = Arc::new(listener);
        let (shared, accepting) = (Arc::clone(&self.shared), Arc::clone(&listener));
        let thread = std::thread::spawn(move || shared.accept(&accepting));
        *self.acceptor.lock().unwrap_or_else(PoisonError::into_inner) = Some(Acceptor { listener, thread });
    }

    /// Closes all open connections (FIN), also in the middle of a response.
    pub fn close_connections(&self) {
        for (_, socket) in &self.shared.lock().open {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Resets all open connections (RST).
    pub fn reset_connections(&self) {
        for (_, socket) in &self.shared.lock().open {
            socket.reset();
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop();
        let panicked = self.shared.lock().handler_panicked;
        assert!(!panicked || std::thread::panicking(), "a handler of the upstream panicked; its message is above");
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The acceptor's thread: ends when the listener is shut down.
    fn accept(self: &Arc<Self>, listener: &Listener) {
        loop {
            let socket = match listener.accept() {
                Ok(socket) => socket,
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => return,
                // A peer that gave up in the queue, or this process has no descriptor left.
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
            };
            // A connection that is accepted during a pause waits here, unserved: its peer cannot tell that from a full queue.
            let state = self.lock();
            let mut state =
                self.changed.wait_while(state, |state| state.paused).unwrap_or_else(PoisonError::into_inner);
            let number = state.next;
            let Ok(copy) = socket.try_clone() else {
                continue;
            };
            state.next += 1;
            state.accepted += 1;
            state.open.push((number, copy));
            drop(state);
            let shared = Arc::clone(self);
            std::thread::spawn(move || {
                let open = OpenConnection { shared: &shared, number };
                if let Ok(mut conn) = Conn::new(socket, number, Arc::clone(&shared)) {
                    serve(&mut conn);
                }
                drop(open);
            });
        }
    }
}

/// Takes the connection off the list when its thread ends, also by a panic.
struct OpenConnection<'a> {
    shared: &'a Shared,
    number: usize,
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.open.retain(|(number, _)| *number != self.number);
        state.handler_panicked |= std::thread::panicking();
    }
}

/// Serves a connection until it ends or the behaviour says so. A response that cannot be written is the peer's business.
fn serve(conn: &mut Conn) {
    if let Behaviour::Connections(handler) = conn.behaviour() {
        let _ = handler(conn);
        return;
    }
    while let Some(request) = conn.read_request() {
        // Requested every request: a test may have changed it meanwhile.
        let Behaviour::Requests(responder) = conn.behaviour() else {
            return;
        };
        if responder(conn, &request).is_err() || conn.is_closing() || !request.head.keeps_alive() {
            return;
        }
    }
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn bind(address: &Address) -> io::Result<Self> {
        Ok(match address {
            // std sets SO_REUSEADDR, which the reserved port needs.
            Address::Tcp(address) => Self::Tcp(TcpListener::bind(address)?),
            Address::Unix(path) => Self::Unix(bind_unix(path)?),
        })
    }

    fn accept(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(listener) => Socket::Tcp(listener.accept()?.0),
            Self::Unix(listener) => Socket::Unix(listener.accept()?.0),
        })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let _ = fs::remove_file(path);
    UnixListener::bind(path)
}
