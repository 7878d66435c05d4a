//! One stream as the exchange has it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::ReadBuf;

use super::pipe::Pipe;
use super::ready::Ready;
use crate::error::Reason;

/// The exchange's end of a stream: it writes a request of HTTP/1.1 and reads the response. Dropping it gives the stream up.
#[derive(Debug)]
pub struct ClientStream {
    pipe: Pipe,
    link: Arc<Link>,
}

/// What the two ends tell each other beside the bytes.
#[derive(Debug)]
pub struct Link {
    /// The streams of the connection that something has come for.
    ready: Arc<Ready>,
    /// Which of them this is; [`UNKNOWN`] until the connection's task has seen it.
    index: AtomicUsize,
    /// The task of the exchange.
    exchange: Mutex<Option<Waker>>,
    is_dropped: AtomicBool,
    is_unprocessed: AtomicBool,
    is_reset: AtomicBool,
}

const UNKNOWN: usize = usize::MAX;

impl Link {
    fn wake_connection(&self) {
        self.ready.insert(self.index.load(Ordering::Relaxed));
        self.ready.wake();
    }

    fn register(&self, cx: &Context<'_>) {
        let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        if !exchange.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *exchange = Some(cx.waker().clone());
        }
    }

    /// Wakes the task of the exchange.
    pub fn wake_exchange(&self) {
        let exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = &*exchange {
            waker.wake_by_ref();
        }
    }

    /// Whether the exchange gave the stream up.
    pub fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Relaxed)
    }

    /// The connection's task calls the stream so.
    pub fn set_index(&self, index: usize) {
        self.index.store(index, Ordering::Relaxed);
    }

    /// The target did not process the request (RFC 9113 section 8.7).
    pub fn set_unprocessed(&self) {
        self.is_unprocessed.store(true, Ordering::Relaxed);
    }

    /// The target reset this stream, and goes on with others.
    pub fn set_reset(&self) {
        self.is_reset.store(true, Ordering::Relaxed);
    }
}

/// Both ends of a new stream.
pub fn pair(ready: &Arc<Ready>) -> (ClientStream, Pipe, Arc<Link>) {
    let pipe = Pipe::default();
    let link = Arc::new(Link {
        ready: ready.clone(),
        index: AtomicUsize::new(UNKNOWN),
        exchange: Mutex::new(None),
        is_dropped: AtomicBool::new(false),
        is_unprocessed: AtomicBool::new(false),
        is_reset: AtomicBool::new(false),
    });
    (ClientStream { pipe: pipe.clone(), link: link.clone() }, pipe, link)
}

impl ClientStream {
    /// Whether the target is known not to have processed the request: it may be repeated, whatever its method.
    pub fn is_unprocessed(&self) -> bool {
        self.link.is_unprocessed.load(Ordering::Relaxed)
    }

    /// Whether the target reset this stream and goes on with others: it was not the connection that was stale, so repeating the request is a retry like
    /// any other.
    pub fn is_reset(&self) -> bool {
        self.link.is_reset.load(Ordering::Relaxed)
    }

    /// Why there will be no response, where that is known better than that the stream was reset.
    pub fn failure(&self) -> Option<Reason> {
        self.pipe.failure()
    }

    /// Reads a part of the response.
    pub fn poll_read(&self, cx: &Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let poll = self.pipe.poll_read(buf);
        if poll.is_pending() {
            self.link.register(cx);
        } else if self.pipe.owes_credit() {
            self.link.wake_connection();
        }
        poll
    }

    /// Writes a part of the request.
    pub fn poll_write(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = self.pipe.poll_write(bytes);
        if poll.is_pending() {
            self.link.register(cx);
        } else {
            self.link.wake_connection();
        }
        poll
    }

    /// Ends the direction to the target, of a tunnel. Ready when the end has gone out.
    pub fn poll_shut_down(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let poll = self.pipe.poll_shut_down();
        if poll.is_pending() {
            self.link.register(cx);
            self.link.wake_connection();
        }
        poll
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        self.link.is_dropped.store(true, Ordering::Relaxed);
        self.link.wake_connection();
    }
}
