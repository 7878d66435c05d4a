//! A worker thread's event loop: accept, serve, follow messages, drain.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use proxy_protocol::Addresses;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use super::listen;
use crate::client::identity::{Client, subscriber};
use crate::client::origin::{Accepts, Origin};
use crate::config::Bind;
use crate::config::ClientAddress;
use crate::downstream::http1;
use crate::error::Reason;
use crate::io::listening::Acceptor;
use crate::io::socket::{DetachedSocket, Socket};
use crate::io::stream::Stream;
use crate::io::tcp;
use crate::policy::cache::remote;
use crate::runtime::clock;
use crate::runtime::wakeups;
use crate::worker::Worker;
use crate::worker::handshake;
use crate::worker::proxied;
use crate::worker::shared::{ListenerSocket, Message, Shared, WorkerHandle};
use crate::worker::snapshot::Snapshot;

/// After an accept that failed for want of a descriptor, so long nothing is accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a worker waits for room for another connection before it looks again.
const ROOM_PAUSE: Duration = Duration::from_millis(10);
/// Idle connections that are closed at once to make room.
const CLOSED_FOR_ROOM: usize = 32;
/// While draining, idle connections are left so long for a request that is already on its way: it gets a response and is told that the
/// connection closes.
const IDLE_GRACE: Duration = Duration::from_secs(2);
/// How often idle upstream connections are looked through and the log is flushed.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// Runs a worker until it has drained. Tells `ready` when it is set up, or why it could not be; it accepts from [`Message::Accept`] on.
pub fn run(
    index: usize,
    listeners: Vec<ListenerSocket>,
    shared: Arc<Shared>,
    mailbox: UnboundedReceiver<Message>,
    seed: u64,
    ready: &Sender<std::io::Result<()>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .on_thread_park(|| {
            clock::refresh();
            wakeups::rest();
        })
        .on_thread_unpark(clock::begin_iteration)
        .build_local(tokio::runtime::LocalOptions::default());
    // Older than the runtime, so that it is dropped after it, also by a panic: exchanges that are cut off end there, and have lines for the log.
    let last = Last::default();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error))),
    };
    clock::begin_iteration();
    runtime.block_on(async {
        // Only to see that it can be done. A socket that does not listen yet must not stay registered: it reports the end of the stream, which
        // tokio never forgets.
        let register = |socket: ListenerSocket| -> std::io::Result<ListenerSocket> {
            Ok(ListenerSocket { listener: socket.listener.attach()?.detach()?, ..socket })
        };
        let listeners = match listeners.into_iter().map(register).collect::<Result<Vec<_>, _>>() {
            Ok(listeners) => listeners,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let metrics = shared.metrics().shard(index);
        let snapshot = Snapshot::new(shared.generation(), &metrics, seed, shared.workers().len(), None);
        wakeups::coalesce(snapshot.config().server.coalesce);
        let worker = Worker::new(index, shared, snapshot, metrics, seed);
        let _ = last.0.set(worker.clone());
        let _told = PanicReport(worker.clone());
        worker.deadlines.count_early(worker.metrics.early_deadline_counter());
        spawn_local(worker.deadlines.clone().run());
        let _ = ready.send(Ok(()));
        let mut accepting = Accepting { sockets: listeners, tasks: Vec::new() };
        follow(&worker, mailbox, &mut accepting).await;
        drop(accepting);
        drain(&worker).await;
    });
}

/// The worker, for what is left to do once its runtime has ended.
#[derive(Default)]
struct Last(OnceCell<Rc<Worker>>);

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(worker) = self.0.get() {
            flush(worker);
        }
    }
}

/// Says what the panic of a worker costs, before its connections end.
struct PanicReport(Rc<Worker>);

impl Drop for PanicReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (worker, connections) = (self.0.index, self.0.handle().connections.load(Ordering::Relaxed));
            tracing::error!(worker, connections, "a worker panicked: its connections are cut off");
        }
    }
}

/// The listeners of a worker, and the tasks that accept from them.
struct Accepting {
    /// Those that nothing is accepted from yet.
    sockets: Vec<ListenerSocket>,
    tasks: Vec<AcceptTask>,
}

struct AcceptTask {
    bind: Bind,
    task: tokio::task::JoinHandle<()>,
    /// Ends the task after it has emptied the queue.
    close: Option<oneshot::Sender<()>>,
}

impl Accepting {
    fn begin(&mut self, worker: &Rc<Worker>) -> std::io::Result<()> {
        for ListenerSocket { bind, origin, listener } in self.sockets.drain(..) {
            listen::activate(&listener)?;
            let (close, closed) = oneshot::channel();
            let task = spawn_local(accept(worker.clone(), listener.attach()?, origin, closed));
            self.tasks.push(AcceptTask { bind, task, close: Some(close) });
        }
        Ok(())
    }

    /// Ends listening there.
    fn end(&mut self, binds: &[Bind]) {
        for task in self.tasks.iter_mut().filter(|task| binds.contains(&task.bind)) {
            if let Some(close) = task.close.take() {
                // A task that has ended accepts nothing.
                let _ = close.send(());
            }
        }
        self.tasks.retain(|task| !task.task.is_finished());
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|task| task.task.abort());
    }
}

/// Follows messages until the worker is told to drain.
async fn follow(worker: &Rc<Worker>, mut mailbox: UnboundedReceiver<Message>, accepting: &mut Accepting) {
    let mut housekeeping = tokio::time::interval(HOUSEKEEPING);
    housekeeping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = mailbox.recv() => match message {
                Some(Message::Reload(generation)) => {
                    let workers = worker.shared.workers().len();
                    let snapshot = {
                        let before = worker.snapshot.borrow();
                        Snapshot::new(generation, &worker.metrics, worker.random(), workers, Some(&before))
                    };
                    wakeups::coalesce(snapshot.config().server.coalesce);
                    *worker.snapshot.borrow_mut() = Rc::new(snapshot);
                }
                Some(Message::Accept) => {
                    if let Err(error) = accepting.begin(worker) {
                        tracing::error!(%error, "cannot listen");
                        return;
                    }
                }
                Some(Message::Listen(sockets)) => {
                    accepting.sockets.extend(sockets);
                    if let Err(error) = accepting.begin(worker) {
                        // It listens already, so this is a shortage of memory: the other workers have sockets of the same listeners.
                        tracing::error!(%error, "cannot accept from a new listener");
                    }
                }
                Some(Message::Unlisten(binds)) => {
                    accepting.end(&binds);
                    worker.http2.wake_all();
                }
                Some(Message::Serve(stream, peer, origin)) => serve_handed_over(worker, stream, peer, origin),
                Some(Message::Run(job)) => job(worker),
                Some(Message::MakeRoom) => {
                    worker.deadlines.fire_idlest(CLOSED_FOR_ROOM);
                }
                Some(Message::FlushLog) => flush(worker),
                Some(Message::Drain) | None => {
                    // Another worker may have handed a connection over while this message was on its way. From here on it is told that
                    // nobody listens, and serves its connections itself.
                    mailbox.close();
                    while let Ok(message) = mailbox.try_recv() {
                        if let Message::Serve(stream, peer, origin) = message {
                            serve_handed_over(worker, stream, peer, origin);
                        }
                    }
                    return;
                }
            },
            _ = housekeeping.tick() => {
                #[cfg(debug_assertions)]
                panic_on_request(worker.index);
                worker.pool.sweep(clock::loop_ns());
                follow_purges(worker);
                if let Some(traces) = &mut *worker.traces.borrow_mut() {
                    traces.flush_old();
                }
                if let Some(log) = &mut *worker.log.borrow_mut() {
                    log.flush_old();
                }
            }
        }
    }
}

/// For tests of a worker that dies, and in no program that is shipped: the file that the variable names holds the number of the worker.
#[cfg(debug_assertions)]
fn panic_on_request(index: usize) {
    let file = std::env::var_os("WEIR_DEBUG_PANIC").map(std::fs::read_to_string);
    let is_meant = matches!(file, Some(Ok(text)) if text.trim().parse() == Ok(index));
    assert!(!is_meant, "worker {index} panics because WEIR_DEBUG_PANIC says so");
}

/// What other gateways purged concerns this process as a whole: one worker reads of it.
fn follow_purges(worker: &Rc<Worker>) {
    if worker.index == 0 {
        let snapshot = worker.snapshot.borrow().clone();
        for (remote, cache) in snapshot.remotes.iter().zip(&snapshot.generation.caches) {
            if let Some(remote) = remote {
                spawn_local(remote::follow(remote.clone(), cache.clone()));
            }
        }
    }
}

/// Lets what is in progress end, or until it is given up; the process sets the time limit.
async fn drain(worker: &Rc<Worker>) {
    worker.draining.set(true);
    worker.pool.clear();
    worker.http2.wake_all();
    let mut waited = Duration::ZERO;
    let step = Duration::from_millis(10);
    while worker.open.get() > 0 && !worker.shared.is_cut_off() {
        tokio::time::sleep(step).await;
        waited += step;
        if waited >= IDLE_GRACE {
            worker.deadlines.fire_idle();
        }
    }
}

/// Hands over what is buffered of traces and the log.
fn flush(worker: &Worker) {
    if let Some(traces) = &mut *worker.traces.borrow_mut() {
        traces.flush();
    }
    if let Some(log) = &mut *worker.log.borrow_mut() {
        log.flush();
    }
}

/// Accepts until the task is aborted, or until `closed`: then what waits in the queue is accepted too, because closing the socket would reset it.
async fn accept(worker: Rc<Worker>, listener: Acceptor, origin: Arc<Origin>, mut closed: oneshot::Receiver<()>) {
    loop {
        wait_for_room(&worker).await;
        let accepted = tokio::select! {
            biased;
            _ = &mut closed => return accept_rest(&worker, listener, &origin),
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => place(&worker, stream, peer, &origin),
            Err(error) => {
                // ECONNABORTED and the like concern one connection; a shortage of descriptors lasts.
                if !matches!(error.kind(), std::io::ErrorKind::ConnectionAborted | std::io::ErrorKind::ConnectionReset)
                {
                    if let Some(suppressed) = worker.shortages.pass() {
                        tracing::warn!(%error, suppressed, "cannot accept");
                    }
                    make_room(&worker);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Empties the queue of a listener that is being removed. By the system's own call: the readiness that the event loop knows may be older.
fn accept_rest(worker: &Rc<Worker>, listener: Acceptor, origin: &Arc<Origin>) {
    let Ok(listener) = listener.detach() else { return };
    while let Ok((stream, peer)) = listener.accept() {
        match stream.set_nonblocking().and_then(|()| stream.attach()) {
            Ok(stream) => place(worker, stream, peer, origin),
            Err(error) => tracing::warn!(%error, "a connection was lost"),
        }
    }
}

/// Waits until the process may have another connection: those that have been idle for the longest time are closed, and further clients
/// wait in the kernel's queue.
async fn wait_for_room(worker: &Rc<Worker>) {
    loop {
        let max_connections = worker.snapshot.borrow().config().server.max_connections;
        if worker.shared.has_room(max_connections) {
            return;
        }
        if let Some(suppressed) = worker.shortages.pass() {
            let connections = worker.shared.connections();
            tracing::warn!(connections, suppressed, "no room for further client connections: closing idle ones first");
        }
        make_room(worker);
        tokio::time::sleep(ROOM_PAUSE).await;
    }
}

/// Closes idle connections of this worker, or of the others when it has none.
fn make_room(worker: &Rc<Worker>) {
    if worker.deadlines.fire_idlest(CLOSED_FOR_ROOM) == 0 {
        worker.shared.tell_all(|| Message::MakeRoom);
    }
}

/// Decides which worker serves a fresh connection: this one, unless it has well above its share. The kernel distributes by hash, which a few
/// long connections can make very uneven.
fn place(worker: &Rc<Worker>, stream: Socket, peer: Option<SocketAddr>, origin: &Arc<Origin>) {
    let workers = worker.shared.workers();
    let own = worker.handle();
    let mine = own.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let mut stream = Some(stream);
    if workers.len() > 1 {
        let mean = worker.shared.connections().div_ceil(workers.len());
        if mine > mean + mean / 8 {
            let least = workers.iter().min_by_key(|other| other.connections.load(Ordering::Relaxed));
            if let Some(least) = least.filter(|least| least.connections.load(Ordering::Relaxed) + 1 < mine) {
                stream = stream.and_then(|stream| hand_over(least, stream, peer, origin));
            }
        }
    }
    match stream {
        Some(stream) => serve(worker, stream, peer, origin.clone()),
        None => {
            own.connections.fetch_sub(1, Ordering::Relaxed);
            worker.metrics.connection_handed_over();
        }
    }
}

/// Serves a connection that another worker handed over and counted for this one.
fn serve_handed_over(worker: &Rc<Worker>, stream: DetachedSocket, peer: Option<SocketAddr>, origin: Arc<Origin>) {
    match stream.attach() {
        Ok(stream) => serve(worker, stream, peer, origin),
        Err(error) => {
            worker.handle().connections.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!(%error, "a connection handed over was lost");
        }
    }
}

/// Hands a connection to another worker; returns it when that one has ended.
fn hand_over(to: &WorkerHandle, stream: Socket, peer: Option<SocketAddr>, origin: &Arc<Origin>) -> Option<Socket> {
    let stream = match stream.detach() {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(%error, "cannot hand a connection over");
            return None;
        }
    };
    to.connections.fetch_add(1, Ordering::Relaxed);
    let Err(Message::Serve(stream, ..)) = to.tell(Message::Serve(stream, peer, origin.clone())) else { return None };
    to.connections.fetch_sub(1, Ordering::Relaxed);
    stream.attach().inspect_err(|error| tracing::warn!(%error, "a connection was lost")).ok()
}

/// Serves a connection that this worker's count of connections holds already, if its client may have one more. One that is turned
/// away gets no response: writing one to each of many would be work that an attacker chooses.
fn serve(worker: &Rc<Worker>, stream: Socket, peer: Option<SocketAddr>, origin: Arc<Origin>) {
    let snapshot = worker.snapshot.borrow().clone();
    let address = peer.map_or(ClientAddress::Unix, |peer| peer.ip().into());
    let mut client = Client::of_peer(address, &snapshot.config().trusted_proxies);
    let mut open = Open::new(worker.clone());
    let settings = origin.settings();
    if let (Socket::Tcp(stream), Some(source)) = (&stream, peer) {
        if snapshot.sends_proxy_headers
            && let Ok(destination) = stream.local_addr()
        {
            client.ends = Some(Rc::new(Addresses { source, destination }));
        }
        tcp::set_options(stream, settings.tcp);
    }
    let header = settings.proxy_protocol;
    // Whose connection it is decides a PROXY header, where there is one.
    if header.is_none() && !open.admit(&client, &snapshot) {
        return;
    }
    // Before the policy: a change in between is seen by the first request.
    let generation = origin.generation();
    let accepts = origin.accepts();
    spawn_local(async move {
        if let Some(header) = header {
            // Boxed, because other connections would carry room for it.
            match Box::pin(proxied::accept(&open.worker, &stream, &client, header)).await {
                Some(proxied) => client = proxied,
                None => return,
            }
            let snapshot = open.worker.snapshot.borrow().clone();
            if !open.admit(&client, &snapshot) {
                return;
            }
        }
        let stream = match &*accepts {
            Accepts::Http => stream.into(),
            Accepts::Https(listener) => {
                match handshake::accept(&open.worker, stream, (listener, generation), client.peer).await {
                    Some((stream, tls)) => {
                        client.tls = Some(Rc::new(tls));
                        Stream::Tls(Box::new(stream))
                    }
                    None => return,
                }
            }
        };
        drop(accepts);
        let mut serving = std::pin::pin!(http1::serve(open.worker.clone(), stream, client, origin));
        std::future::poll_fn(|cx| {
            clock::count_work();
            serving.as_mut().poll(cx)
        })
        .await;
        drop(open);
    });
}

/// A connection in progress; undoes the counts however it ends.
struct Open {
    worker: Rc<Worker>,
    counted: Option<ClientAddress>,
}

impl Open {
    fn new(worker: Rc<Worker>) -> Self {
        worker.open.set(worker.open.get() + 1);
        worker.metrics.connection_opened();
        Open { worker, counted: None }
    }

    /// Counts the connection for its client, if that one may have one more.
    fn admit(&mut self, client: &Client, snapshot: &Snapshot) -> bool {
        let config = snapshot.config();
        // A trusted proxy has the connections of all its clients.
        let is_proxy = || client.is_behind(&config.trusted_proxies);
        if snapshot.limits.shared.abuse_refuses(client.peer) && !is_proxy() {
            self.worker.metrics.http2_connection_refused();
            return false;
        }
        let Some(most) = config.server.max_connections_per_client.filter(|_| !is_proxy()) else { return true };
        let address = subscriber(client.peer);
        let admitted = self.worker.shared.admit_client(address, most);
        self.counted = admitted.then_some(address);
        if !admitted {
            self.worker.metrics.not_served(Reason::TooManyConnections);
        }
        admitted
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.worker.handle().connections.fetch_sub(1, Ordering::Relaxed);
        self.worker.open.set(self.worker.open.get() - 1);
        self.worker.metrics.connection_closed();
        if std::thread::panicking() {
            self.worker.metrics.panicked();
        }
        if let Some(client) = self.counted {
            self.worker.shared.release_client(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::streams::visits;

    /// A worker that is not running, and its mailbox.
    fn worker(yaml: &str) -> (Rc<Worker>, tokio::sync::mpsc::UnboundedReceiver<Message>) {
        let environment = |_: &str| None;
        let loaded = crate::config::load_text("test", yaml, &environment).unwrap();
        let generation = Arc::new(crate::server::reload::generation(loaded.config, None));
        let (mailbox, messages) = tokio::sync::mpsc::unbounded_channel();
        let metrics = crate::observe::Metrics::new();
        let shard = metrics.shard(0);
        let shared = Shared::new(generation.clone(), vec![mailbox], metrics, None, None, None, 1000);
        let snapshot = Snapshot::new(generation, &shard, 1, 1, None);
        (Worker::new(0, shared, snapshot, shard, 1), messages)
    }

    #[test]
    fn a_connection_handed_over_while_its_worker_begins_to_drain_is_served() {
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build_local(tokio::runtime::LocalOptions::default()).unwrap();
        clock::begin_iteration();
        runtime.block_on(async {
            let (worker, messages) =
                worker("listen: [127.0.0.1:0]\nroutes: [{match: {path: /*}, respond: {body: one}}]\n");
            spawn_local(worker.deadlines.clone().run());
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, peer) = listener.accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            // The order of the race: told to drain, then handed a connection before it has read that.
            worker.shared.drain();
            worker.handle().connections.fetch_add(1, Ordering::Relaxed);
            assert!(
                worker.handle().tell(Message::Serve(DetachedSocket::Tcp(stream), Some(peer), Arc::default())).is_ok()
            );
            let mut accepting = Accepting { sockets: Vec::new(), tasks: Vec::new() };
            follow(&worker, messages, &mut accepting).await;
            assert_eq!(worker.open.get(), 1, "the connection is being served");
            let late = worker.handle().tell(Message::FlushLog);
            assert!(late.is_err(), "who comes later keeps the connection");
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
            let (mut response, _) = tokio::join!(read(&mut client), drain(&worker));
            response.make_ascii_lowercase();
            assert!(response.starts_with("http/1.1 200") && response.contains("connection: close"), "{response}");
            assert!(response.ends_with("one"), "{response}");
            assert_eq!(worker.handle().connections.load(Ordering::Relaxed), 0);
        });
    }

    /// An HTTP/2 frame.
    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        [&(payload.len() as u32).to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// Reads frames until one of this type comes with this flag.
    async fn frame_of(client: &mut TcpStream, kind: u8, flag: u8) {
        loop {
            let mut header = [0; 9];
            client.read_exact(&mut header).await.unwrap();
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
            client.read_exact(&mut vec![0; length]).await.unwrap();
            if header[3] == kind && header[4] & flag != 0 {
                return;
            }
        }
    }

    /// How often the connection looks at its streams for each of a few requests, beside `stalled` streams whose client takes nothing.
    fn visits_beside(stalled: u32) -> usize {
        const REQUESTS: u32 = 5;
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build_local(tokio::runtime::LocalOptions::default()).unwrap();
        clock::begin_iteration();
        runtime.block_on(async {
            let (worker, _messages) = worker(
                "listen: [{bind: 127.0.0.1:0, http2: prior_knowledge}]\nroutes: [{match: {path: /*}, respond: {body: one}}]\n",
            );
            spawn_local(worker.deadlines.clone().run());
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, peer) = listener.accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            let origin = Arc::new(Origin::default());
            origin.follow(&worker.snapshot.borrow().config().listen[0]);
            worker.handle().connections.fetch_add(1, Ordering::Relaxed);
            serve_handed_over(&worker, DetachedSocket::Tcp(stream), Some(peer), origin);
            // GET / with `:authority: a`; SETTINGS_INITIAL_WINDOW_SIZE is 0.
            let get = |number: u32| frame(1, 5, number * 2 + 1, &[0x82, 0x86, 0x84, 0x01, 1, b'a']);
            let settings = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
            client.write_all(&[&::http2::PREFACE[..], &settings].concat()).await.unwrap();
            for number in 0..stalled {
                client.write_all(&get(number)).await.unwrap();
                frame_of(&mut client, 1, 4).await;
            }
            let before = visits::count();
            for number in stalled..stalled + REQUESTS {
                let credit = frame(8, 0, number * 2 + 1, &100_u32.to_be_bytes());
                client.write_all(&[get(number), credit].concat()).await.unwrap();
                frame_of(&mut client, 0, 1).await;
            }
            (visits::count() - before) / REQUESTS as usize
        })
    }

    #[test]
    fn streams_that_take_nothing_cost_the_others_nothing() {
        let (few, many) = (visits_beside(2), visits_beside(90));
        assert!(few > 0);
        assert_eq!(many, few);
    }

    async fn read(client: &mut TcpStream) -> String {
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn a_connection_that_an_ended_worker_cannot_have_comes_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mailbox, messages) = tokio::sync::mpsc::unbounded_channel();
        let other = WorkerHandle::new(mailbox);
        let _client = TcpStream::connect(address).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        assert!(hand_over(&other, Socket::Tcp(stream), Some(peer), &Arc::default()).is_none());
        assert_eq!(other.connections.load(Ordering::Relaxed), 1);
        drop(messages);
        let _client = TcpStream::connect(address).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        assert!(hand_over(&other, Socket::Tcp(stream), Some(peer), &Arc::default()).is_some());
        assert_eq!(other.connections.load(Ordering::Relaxed), 1);
    }
}
