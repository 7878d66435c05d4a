//! TLS handshakes of clients: how many run at once, for how long, and what is counted of them.
//!
//! Reading a ClientHello costs little, but a connection and what the client has sent of it: [`MOST_READING`] are read at once on a worker. One more
//! closes the oldest: a client that means to connect sends its ClientHello right behind the connection.
//!
//! What follows costs a signature and holds memory until the client has done its part: [`MOST`] of those run at once on a worker. When all are taken,
//! the next one waits, and the oldest that has had its time is closed to make room: a client that does its part needs two round trips, one that does
//! not would keep the others out.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::LazyLock;
use std::task::Poll;
use std::time::Duration;

use h1::encode;
use tls::handshake::Hello;
use tls::server::Listener;
use tls::{Failure, TlsStream, handshake};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use super::Worker;
use crate::client::tls::ClientTls;
use crate::config::ClientAddress;
use crate::io::socket::Socket;
use crate::observe::HandshakeResult;
use crate::runtime::clock;
use crate::runtime::deadline::{Deadline, nanos};
use crate::runtime::seldom::Seldom;

/// Connections without a complete ClientHello on one worker.
const MOST_READING: usize = 512;
/// Handshakes behind the ClientHello that run at once on one worker.
const MOST: usize = 256;
/// A handshake that has run for so long is closed when room is needed.
const ITS_TIME: Duration = Duration::from_secs(1);
/// Longest handshake, if `server.head_timeout` is not shorter.
const LONGEST: Duration = Duration::from_secs(10);
/// Handshakes that are signed before other tasks have their turn.
const SIGNED_AT_ONCE: u32 = 4;

/// What a client gets that speaks HTTP without TLS.
static NOT_TLS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let text = b"This port speaks HTTPS: use https:// in place of http://.\n";
    let mut out = Vec::new();
    encode::status_line(&mut out, 400, encode::reason(400).as_bytes());
    encode::plain(&mut out, b"Content-Type", b"text/plain");
    encode::content_length(&mut out, text.len() as u64);
    encode::connection_close(&mut out);
    encode::end_head(&mut out);
    out.extend_from_slice(text);
    out
});

/// The handshakes of one worker.
pub struct Handshakes {
    room: Semaphore,
    /// Those without a complete ClientHello.
    reading: ByAge,
    /// Those behind their ClientHello.
    running: ByAge,
    /// Handshakes that are about to be signed.
    signing: Cell<u32>,
    /// Log lines, by reason.
    lines: [Seldom; Failure::ALL.len()],
    late: Seldom,
}

impl Default for Handshakes {
    fn default() -> Self {
        Handshakes {
            room: Semaphore::new(MOST),
            reading: ByAge::default(),
            running: ByAge::default(),
            signing: Cell::new(0),
            lines: std::array::from_fn(|_| Seldom::default()),
            late: Seldom::default(),
        }
    }
}

/// Why there is no connection.
enum Ended {
    Failed(io::Error),
    Late,
    /// Others needed the room.
    Displaced,
}

/// Makes a client's handshake. `None` when it failed, which is counted and logged.
pub async fn accept(
    worker: &Worker,
    stream: Socket,
    (listener, generation): (&Listener, u64),
    client: ClientAddress,
) -> Option<(TlsStream<Socket>, ClientTls)> {
    let longest = worker.snapshot.borrow().config().server.head_timeout.map_or(LONGEST, |time| time.min(LONGEST));
    let deadline = worker.deadlines.add();
    deadline.set(Some(longest));
    // Boxed, because a handshake's state is large and every connection would carry room for it.
    match Box::pin(run(worker, stream, listener, &deadline)).await {
        Ok(stream) => {
            let session = stream.session();
            let is_tls13 = session.version == "TLSv1.3";
            worker.metrics.tls_handshake(HandshakeResult::Done { is_resumed: session.is_resumed, is_tls13 });
            Some((stream, ClientTls::new(session, listener, generation)))
        }
        Err(ended) => {
            let (reason, text, line, result) = match &ended {
                Ended::Failed(error) => {
                    let failure = Failure::of_io(error);
                    let position = Failure::ALL.iter().position(|one| *one == failure).unwrap_or_default();
                    let line = &worker.handshakes.lines[position];
                    (failure.reason(), failure.text(), line, HandshakeResult::Failed(failure))
                }
                Ended::Late => {
                    let text = "the client did not complete the handshake within the timeout";
                    ("tls_timeout", text, &worker.handshakes.late, HandshakeResult::Late)
                }
                Ended::Displaced => {
                    let text = "too many handshakes at once: the oldest were closed";
                    ("tls_overload", text, &worker.handshakes.late, HandshakeResult::Displaced)
                }
            };
            worker.metrics.tls_handshake(result);
            if let Some(suppressed) = line.pass() {
                let error = if let Ended::Failed(error) = &ended { error.to_string() } else { String::new() };
                tracing::info!(reason, peer = %client, error, suppressed, "TLS handshake failed: {text}");
            }
            None
        }
    }
}

async fn run(
    worker: &Worker,
    stream: Socket,
    listener: &Listener,
    deadline: &Deadline,
) -> Result<TlsStream<Socket>, Ended> {
    let handshakes = &worker.handshakes;
    let hello = read_hello(worker, stream, deadline).await?;
    let _room = before(deadline, handshakes.wait_for_room()).await?;
    let running = handshakes.running.add();
    let signing = before(deadline, handshakes.wait_to_sign()).await?;
    // Boxed, so that a connection without its ClientHello carries no room for it.
    let mut finishing = Box::pin(hello.finish(listener));
    // The signature is made by the first poll.
    let first = poll_fn(|cx| Poll::Ready(finishing.as_mut().poll(cx))).await;
    drop(signing);
    if let Poll::Ready(result) = first {
        return result.map_err(Ended::Failed);
    }
    unless_displaced(&running, deadline, finishing).await
}

/// Until its ClientHello is there it is a connection like any other that is idle: closed first when room is needed, or on draining.
async fn read_hello(worker: &Worker, stream: Socket, deadline: &Deadline) -> Result<Hello<Socket>, Ended> {
    let reading = worker.handshakes.reading.add();
    let _counted = worker.metrics.tls_hello_awaited();
    if worker.handshakes.reading.len() > MOST_READING {
        worker.handshakes.reading.close_oldest();
    }
    deadline.set_idle(true);
    let hello = unless_displaced(&reading, deadline, Box::pin(handshake::hello(stream, &NOT_TLS))).await;
    deadline.set_idle(false);
    hello
}

/// What `future` comes to, unless the deadline passes or others need the room.
async fn unless_displaced<T>(
    entry: &Entry<'_>,
    deadline: &Deadline,
    mut future: Pin<Box<impl Future<Output = io::Result<T>>>>,
) -> Result<T, Ended> {
    let mut displaced = pin!(entry.displaced.notified());
    poll_fn(|cx| {
        if let Poll::Ready(result) = future.as_mut().poll(cx) {
            return Poll::Ready(result.map_err(Ended::Failed));
        }
        if displaced.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(Ended::Displaced));
        }
        if deadline.poll_passed(cx) { Poll::Ready(Err(Ended::Late)) } else { Poll::Pending }
    })
    .await
}

/// What comes before the deadline.
async fn before<T>(deadline: &Deadline, future: impl Future<Output = T>) -> Result<T, Ended> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Ok(value)),
        Poll::Pending if deadline.poll_passed(cx) => Poll::Ready(Err(Ended::Late)),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Handshakes, oldest first, with the time at which they began.
#[derive(Default)]
struct ByAge {
    next: Cell<u64>,
    entries: RefCell<BTreeMap<u64, (u64, Rc<Notify>)>>,
}

impl ByAge {
    fn add(&self) -> Entry<'_> {
        let number = self.next.get();
        self.next.set(number + 1);
        let displaced = Rc::new(Notify::new());
        self.entries.borrow_mut().insert(number, (clock::loop_ns(), displaced.clone()));
        Entry { all: self, number, displaced }
    }

    fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    fn oldest_began(&self) -> Option<u64> {
        self.entries.borrow().first_key_value().map(|(_, (began, _))| *began)
    }

    fn close_oldest(&self) {
        if let Some((_, (_, oldest))) = self.entries.borrow_mut().pop_first() {
            oldest.notify_one();
        }
    }
}

/// One of them.
struct Entry<'a> {
    all: &'a ByAge,
    number: u64,
    displaced: Rc<Notify>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.all.entries.borrow_mut().remove(&self.number);
    }
}

/// A handshake that is about to be signed.
struct Signing<'a>(&'a Cell<u32>);

impl Drop for Signing<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl Handshakes {
    async fn wait_for_room(&self) -> Option<SemaphorePermit<'_>> {
        loop {
            if let Ok(permit) = self.room.try_acquire() {
                return Some(permit);
            }
            tokio::select! {
                // It is never closed.
                permit = self.room.acquire() => return permit.ok(),
                () = tokio::time::sleep(self.until_one_had_its_time()) => self.close_oldest(),
            }
        }
    }

    fn until_one_had_its_time(&self) -> Duration {
        let due = self.running.oldest_began().map_or(0, due_of);
        Duration::from_nanos(due.saturating_sub(clock::loop_ns())).max(Duration::from_millis(1))
    }

    /// Closes the oldest handshake that has had its time.
    fn close_oldest(&self) {
        if self.running.oldest_began().is_some_and(|began| due_of(began) <= clock::loop_ns()) {
            self.running.close_oldest();
        }
    }

    /// Lets other tasks have their turn between every few signatures.
    async fn wait_to_sign(&self) -> Signing<'_> {
        let before_me = self.signing.get();
        self.signing.set(before_me + 1);
        let signing = Signing(&self.signing);
        for _ in 0..before_me / SIGNED_AT_ONCE {
            tokio::task::yield_now().await;
        }
        signing
    }
}

/// When a handshake that began then has had its time.
fn due_of(began: u64) -> u64 {
    began.saturating_add(nanos(ITS_TIME))
}
