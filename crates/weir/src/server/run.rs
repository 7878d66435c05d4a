//! A worker thread's event loop: accept, serve, follow messages, drain.

use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::spawn_local;

use super::clock;
use super::listen;
use super::shared::{Message, Shared, WorkerHandle};
use super::snapshot::Snapshot;
use super::wakeups;
use super::worker::Worker;
use crate::error::Reason;
use crate::exchange::connection;
use crate::exchange::identity::{Client, subscriber};
use crate::policy::cache::remote;

/// After an accept that failed for want of a descriptor, so long nothing is accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a worker waits for room for another connection before it looks again.
const ROOM_PAUSE: Duration = Duration::from_millis(10);
/// Idle connections that are closed at once to make room.
const CLOSED_FOR_ROOM: usize = 32;
/// While draining, idle connections are left so long for a request that is already on its way: it is answered, and told that the
/// connection closes.
const IDLE_GRACE: Duration = Duration::from_secs(2);
/// How often idle upstream connections are looked through and the log is flushed.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// Runs a worker until it has drained. Tells `ready` when it is set up, or why it could not be; it accepts from [`Message::Accept`] on.
pub fn run(
    index: usize,
    listeners: Vec<StdListener>,
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
        .on_thread_unpark(clock::turn)
        .build_local(tokio::runtime::LocalOptions::default());
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error))),
    };
    clock::turn();
    runtime.block_on(async move {
        // Only to see that it can be done. A socket that does not listen yet must not stay registered: it reports the end of the stream, which
        // tokio never forgets.
        let register = |listener| TcpListener::from_std(listener)?.into_std();
        let listeners = match listeners.into_iter().map(register).collect() {
            Ok(listeners) => listeners,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let metrics = shared.metrics().shard(index);
        let snapshot = Snapshot::new(shared.generation(), &metrics, seed, shared.workers().len(), None, None);
        wakeups::coalesce(snapshot.config().server.coalesce);
        let worker = Worker::new(index, shared, snapshot, metrics, seed);
        worker.deadlines.count_early(worker.metrics.early_deadline_counter());
        spawn_local(worker.deadlines.clone().run());
        let _ = ready.send(Ok(()));
        let mut accepting = Accepting { listeners, tasks: Vec::new() };
        follow(&worker, mailbox, &mut accepting).await;
        drop(accepting);
        drain(&worker).await;
    });
}

/// The listeners of a worker, and the tasks that accept from them.
struct Accepting {
    listeners: Vec<StdListener>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Accepting {
    fn begin(&mut self, worker: &Rc<Worker>) -> std::io::Result<()> {
        for listener in self.listeners.drain(..) {
            listen::activate(&listener)?;
            self.tasks.push(spawn_local(accept(worker.clone(), TcpListener::from_std(listener)?)));
        }
        Ok(())
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
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
                        let (remote, caches) = (before.limits.remote.clone(), before.cache_client.clone());
                        Snapshot::new(generation, &worker.metrics, worker.random(), workers, remote, caches)
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
                Some(Message::Serve(stream, peer)) => serve_handed_over(worker, stream, peer),
                Some(Message::Run(job)) => job(worker),
                Some(Message::MakeRoom) => {
                    worker.deadlines.fire_idlest(CLOSED_FOR_ROOM);
                }
                Some(Message::FlushLog) => {
                    if let Some(log) = &mut *worker.log.borrow_mut() {
                        log.flush();
                    }
                }
                Some(Message::Drain) | None => {
                    // Another worker may have handed a connection over while this message was on its way. From here on it is told that
                    // nobody listens, and serves its connections itself.
                    mailbox.close();
                    while let Ok(message) = mailbox.try_recv() {
                        if let Message::Serve(stream, peer) = message {
                            serve_handed_over(worker, stream, peer);
                        }
                    }
                    return;
                }
            },
            _ = housekeeping.tick() => {
                worker.pool.sweep(clock::turn_ns());
                follow_purges(worker);
                if let Some(log) = &mut *worker.log.borrow_mut() {
                    log.flush_old();
                }
            }
        }
    }
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

/// Lets what is under way end; the process sets the time limit.
async fn drain(worker: &Rc<Worker>) {
    worker.draining.set(true);
    worker.pool.clear();
    let mut waited = Duration::ZERO;
    let step = Duration::from_millis(10);
    while worker.open.get() > 0 {
        tokio::time::sleep(step).await;
        waited += step;
        if waited >= IDLE_GRACE {
            worker.deadlines.fire_idle();
        }
    }
    if let Some(log) = &mut *worker.log.borrow_mut() {
        log.flush();
    }
}

async fn accept(worker: Rc<Worker>, listener: TcpListener) {
    loop {
        wait_for_room(&worker).await;
        match listener.accept().await {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                place(&worker, stream, peer);
            }
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

/// Decides which worker serves a fresh connection: this one, unless it has well above its share. The kernel deals by hash, which a few
/// long connections can make very uneven.
fn place(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr) {
    let workers = worker.shared.workers();
    let own = worker.handle();
    let mine = own.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let mut stream = Some(stream);
    if workers.len() > 1 {
        let mean = worker.shared.connections().div_ceil(workers.len());
        if mine > mean + mean / 8 {
            let least = workers.iter().min_by_key(|other| other.connections.load(Ordering::Relaxed));
            if let Some(least) = least.filter(|least| least.connections.load(Ordering::Relaxed) + 1 < mine) {
                stream = stream.and_then(|stream| hand_over(least, stream, peer));
            }
        }
    }
    match stream {
        Some(stream) => serve(worker, stream, peer),
        None => {
            own.connections.fetch_sub(1, Ordering::Relaxed);
            worker.metrics.connection_handed_over();
        }
    }
}

/// Serves a connection that another worker handed over and counted for this one.
fn serve_handed_over(worker: &Rc<Worker>, stream: std::net::TcpStream, peer: SocketAddr) {
    match TcpStream::from_std(stream) {
        Ok(stream) => serve(worker, stream, peer),
        Err(error) => {
            worker.handle().connections.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!(%error, "a connection handed over was lost");
        }
    }
}

/// Hands a connection to another worker; returns it when that one has ended.
fn hand_over(to: &WorkerHandle, stream: TcpStream, peer: SocketAddr) -> Option<TcpStream> {
    let stream = match stream.into_std() {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(%error, "cannot hand a connection over");
            return None;
        }
    };
    to.connections.fetch_add(1, Ordering::Relaxed);
    let Err(Message::Serve(stream, _)) = to.tell(Message::Serve(stream, peer)) else { return None };
    to.connections.fetch_sub(1, Ordering::Relaxed);
    TcpStream::from_std(stream).inspect_err(|error| tracing::warn!(%error, "a connection was lost")).ok()
}

/// Serves a connection that this worker's count of connections holds already, if its client may have one more. One that is turned
/// away gets no response: writing one to each of many would be work that an attacker chooses.
fn serve(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr) {
    let snapshot = worker.snapshot.borrow().clone();
    let client = Client::of_peer(peer.ip(), &snapshot.config().trusted_proxies);
    let mut open = Open::new(worker.clone());
    // A trusted proxy has the connections of all its clients.
    let most = snapshot.config().server.max_connections_per_client.filter(|_| !client.peer_is_trusted);
    if most.is_some_and(|most| !open.count_client(subscriber(client.peer), most)) {
        worker.metrics.not_served(Reason::TooManyConnections);
        return;
    }
    spawn_local(async move {
        let mut serving = std::pin::pin!(connection::serve(open.worker.clone(), stream, client));
        std::future::poll_fn(|cx| {
            clock::count_work();
            serving.as_mut().poll(cx)
        })
        .await;
        drop(open);
    });
}

/// A connection under way; undoes the counts however it ends.
struct Open {
    worker: Rc<Worker>,
    counted: Option<IpAddr>,
}

impl Open {
    fn new(worker: Rc<Worker>) -> Self {
        worker.open.set(worker.open.get() + 1);
        worker.metrics.connection_opened();
        Open { worker, counted: None }
    }

    fn count_client(&mut self, client: IpAddr, most: usize) -> bool {
        let admitted = self.worker.shared.admit_client(client, most);
        self.counted = admitted.then_some(client);
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
    use super::*;

    #[tokio::test]
    async fn a_connection_that_an_ended_worker_cannot_have_comes_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mailbox, messages) = tokio::sync::mpsc::unbounded_channel();
        let other = WorkerHandle::new(mailbox);
        let _client = TcpStream::connect(address).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        assert!(hand_over(&other, stream, peer).is_none());
        assert_eq!(other.connections.load(Ordering::Relaxed), 1);
        drop(messages);
        let _client = TcpStream::connect(address).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        assert!(hand_over(&other, stream, peer).is_some());
        assert_eq!(other.connections.load(Ordering::Relaxed), 1);
    }
}
