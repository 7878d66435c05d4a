//! The client's side of a connection: what outlives one exchange.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;

use rustix::event::PollFlags;
use rustix::net::{RecvFlags, recv};

use super::identity::Client;
use crate::client::origin::Origin;
use crate::io::buffer::{Buffer, Buffers, TINY};
use crate::io::life::Life;
use crate::io::stream::{COPIED, Outgoing, Stream, poll_read};
use crate::runtime::deadline::Deadline;

/// A client connection.
pub struct Downstream {
    /// The byte stream.
    pub stream: Stream,
    /// What was read and not used up; the head of the current request lies at its front.
    pub buffer: Buffer,
    /// What is on its way to the client.
    pub out: Outgoing,
    /// The one deadline, moved from step to step.
    pub deadline: Deadline,
    /// Who is at the other end.
    pub client: Client,
    /// The listener that it came by.
    pub origin: Arc<Origin>,
    /// What is left of its use.
    pub life: Life,
}

/// What came of waiting for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// Bytes are there.
    Bytes,
    /// The client closed or its connection failed.
    Closed,
    /// The deadline passed.
    Late,
}

impl Downstream {
    /// Reads more into the buffer. Between requests it borrows a buffer for the attempt only.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>, buffers: &Buffers) -> Poll<Waited> {
        let was_idle = !self.buffer.is_held();
        if was_idle {
            self.buffer = match self.stream.only_head() {
                Some(length) if length < TINY => buffers.tiny(),
                _ => buffers.small(),
            };
        } else if !self.buffer.has_space() {
            buffers.grow(&mut self.buffer);
        }
        match poll_read(cx, &mut self.stream, &mut self.buffer) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Waited::Closed),
            Poll::Ready(Ok(_)) => Poll::Ready(Waited::Bytes),
            Poll::Pending => {
                if was_idle {
                    buffers.put_back(std::mem::take(&mut self.buffer));
                }
                let passed = self.deadline.poll_passed_without(cx, self.stream.socket(), PollFlags::IN);
                if passed { Poll::Ready(Waited::Late) } else { Poll::Pending }
            }
        }
    }

    /// Watches a client that has nothing to send: notices when it disconnects, and buffers what it sends early as long as there is
    /// room. Ready when it has disconnected.
    pub fn poll_disconnect(&mut self, cx: &mut Context<'_>, buffers: &Buffers) -> Poll<()> {
        if let Stream::Shared(audience) = &self.stream {
            return audience.poll_disconnect(cx);
        }
        loop {
            if !self.buffer.has_space() {
                if self.buffer.size() != TINY {
                    return Poll::Pending;
                }
                buffers.grow(&mut self.buffer);
            }
            match ready!(poll_read(cx, &mut self.stream, &mut self.buffer)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
            }
        }
    }

    /// Whether the client sent more than was used up: closing now would reset the connection.
    pub fn has_unread(&self) -> bool {
        let waits =
            |socket| recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT).is_ok_and(|(_, count)| count > 0);
        !self.buffer.is_empty() || self.stream.socket().is_some_and(waits)
    }

    /// Whether the deadline has passed and the client took nothing before it, of `out` and then `piece`. If it did take something,
    /// the task is woken, and the caller sets the deadline anew.
    pub fn poll_stalled(&mut self, cx: &Context<'_>, piece: &[u8]) -> Option<bool> {
        if !self.deadline.poll_passed(cx) {
            return None;
        }
        match self.stream.write_now(self.out.next(piece)) {
            Ok(written) => {
                self.out.advance(written.taken);
                cx.waker().wake_by_ref();
                Some(false)
            }
            _ => Some(true),
        }
    }

    /// Writes what waits in `out`, before the deadline.
    ///
    /// # Errors
    /// The stream's own, or `TimedOut` when the deadline passed.
    pub async fn flush(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| match self.out.poll_write(cx, &mut self.stream, &[]) {
            Poll::Pending if self.deadline.poll_passed(cx) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            poll => poll,
        })
        .await
    }

    /// Writes what waits in `out`, then `body` from where it lies if it is large. `idle` is how long the client may take nothing.
    ///
    /// # Errors
    /// The stream's own, or `TimedOut`.
    pub async fn send(&mut self, mut body: &[u8], idle: Option<Duration>) -> io::Result<()> {
        if body.len() <= COPIED {
            self.out.bytes.extend_from_slice(body);
            body = &[];
        }
        self.deadline.set(idle);
        let (mut written, mut sent) = (0, self.stream.sent_later());
        std::future::poll_fn(|cx| match self.out.poll_write(cx, &mut self.stream, body) {
            Poll::Pending => {
                if self.out.written() > written || self.stream.sent_later() > sent {
                    (written, sent) = (self.out.written(), self.stream.sent_later());
                    self.deadline.set(idle);
                }
                match self.poll_stalled(cx, body) {
                    Some(true) => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                    Some(false) => self.deadline.set(idle),
                    None => {}
                }
                Poll::Pending
            }
            poll => poll,
        })
        .await
    }

    /// Ends the writing side and reads until the client has seen it, or the deadline passes, or `most` bytes came: closing at once
    /// with unread bytes would reset the connection and could destroy a response on its way (RFC 9112 section 9.6).
    pub async fn linger(&mut self, buffers: &Buffers, mut most: usize) {
        use std::pin::Pin;
        let _ = std::future::poll_fn(|cx| match Pin::new(&mut self.stream).poll_shutdown(cx) {
            Poll::Pending if self.deadline.poll_passed(cx) => Poll::Ready(Ok(())),
            poll => poll,
        })
        .await;
        buffers.ensure(&mut self.buffer);
        loop {
            let length = self.buffer.filled().len();
            self.buffer.consume(length);
            self.buffer.rewind(0);
            most = most.saturating_sub(length);
            if most == 0 || std::future::poll_fn(|cx| self.poll_fill(cx, buffers)).await != Waited::Bytes {
                return;
            }
        }
    }
}
