//! The one kind of byte stream, to clients and to upstreams, and reads and writes as the exchange needs them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tls::TlsStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::audience::Audience;
use super::buffer::Buffer;
use super::socket::Socket;
use crate::error::{Error, Reason};
use crate::streams::client_stream::ClientStream;
use crate::streams::pipe::Pipe;

/// A byte stream to a client or to an upstream. What differs between them is decided here, in one `match` for each operation.
#[derive(Debug)]
pub enum Stream {
    /// TCP, with `TCP_NODELAY`.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS, as either side.
    Tls(Box<TlsStream<Socket>>),
    /// One stream of a client's HTTP/2 connection.
    Http2(Pipe),
    /// One stream of an HTTP/2 connection to a target.
    Http2Upstream(ClientStream),
    /// The client of a request that the gateway makes by itself: takes everything, sends nothing.
    Subrequest,
    /// The same, keeping what it takes.
    Collect(Box<Collected>),
    /// The clients that a request of the gateway's own is for: they are told beside it what comes, and it ends when none of them is left.
    Shared(Arc<dyn Audience>),
}

/// What was sent to the client of a request that the gateway makes by itself.
#[derive(Debug)]
pub struct Collected {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Most bytes that are taken; more end the exchange.
    pub most: usize,
    /// Whether there would have been more.
    pub is_full: bool,
}

impl Collected {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            self.is_full = true;
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }
}

impl From<Socket> for Stream {
    fn from(socket: Socket) -> Self {
        match socket {
            Socket::Tcp(stream) => Stream::Tcp(stream),
            Socket::Unix(stream) => Stream::Unix(stream),
        }
    }
}

/// The operation of a stream that has one. The last argument is what a [`Stream::Subrequest`] does.
macro_rules! each {
    ($self:ident, $stream:ident => $call:expr, $pipe:ident => $http2:expr, $up:ident => $upstream:expr, $subrequest:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
            Stream::Tls($stream) => $call,
            Stream::Http2($pipe) => $http2,
            Stream::Http2Upstream($up) => $upstream,
            Stream::Subrequest | Stream::Collect(_) | Stream::Shared(_) => $subrequest,
        }
    };
}

impl Stream {
    /// The socket beneath, if there is one.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Stream::Tcp(stream) => Some(stream.as_fd()),
            Stream::Unix(stream) => Some(stream.as_fd()),
            Stream::Tls(stream) => Some(stream.get_ref().as_fd()),
            Stream::Http2(_)
            | Stream::Http2Upstream(_)
            | Stream::Subrequest
            | Stream::Collect(_)
            | Stream::Shared(_) => None,
        }
    }

    /// Whether the client is known to have disconnected, without reading from it: an HTTP/2 client says so beside its stream.
    #[inline]
    pub fn is_reset(&self) -> bool {
        matches!(self, Stream::Http2(pipe) if pipe.is_reset())
    }

    /// Whether the request is an extended CONNECT of HTTP/2 (RFC 8441): every response but a switch of protocols is a refusal.
    pub fn is_tunnel(&self) -> bool {
        matches!(self, Stream::Http2(pipe) if pipe.is_tunnel())
    }

    /// Bytes of the request that can be read, where it is known that no more will come.
    pub fn only_head(&self) -> Option<usize> {
        match self {
            Stream::Http2(pipe) => pipe.only_head(),
            _ => None,
        }
    }

    /// Why the client's connection refused the request, and responded to it, while the exchange was in flight.
    pub fn refusal(&self) -> Option<Error> {
        match self {
            Stream::Http2(pipe) => pipe.refusal(),
            _ => None,
        }
    }

    /// Notes why a response is given up, for the code that the client gets.
    pub fn note_failure(&self, reason: Reason) {
        if let Stream::Http2(pipe) = self {
            pipe.fail(reason);
        }
    }

    /// The stream to a target over HTTP/2, if it is one.
    #[inline]
    pub fn http2_upstream(&self) -> Option<&ClientStream> {
        match self {
            Stream::Http2Upstream(stream) => Some(stream),
            _ => None,
        }
    }

    /// Version of HTTP that a target gets.
    pub fn http_version(&self) -> &'static str {
        if self.http2_upstream().is_some() { "2" } else { "1.1" }
    }

    /// Protocol of the client, where that is not HTTP/1.
    pub fn protocol(&self) -> Option<&'static str> {
        matches!(self, Stream::Http2(_)).then_some("HTTP/2")
    }

    /// From now on closing means a reset, so that a response that broke off cannot pass for a complete one.
    pub fn abort(&self) {
        match self {
            Stream::Tcp(_) | Stream::Tls(_) => {
                if let Some(socket) = self.socket() {
                    // Failure leaves an ordinary close, which all framings but "until close" reveal too.
                    let _ = socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO));
                }
            }
            // Only TCP has resets; a stream that ends before its response does is reset by its connection.
            Stream::Unix(_)
            | Stream::Http2(_)
            | Stream::Http2Upstream(_)
            | Stream::Subrequest
            | Stream::Collect(_)
            | Stream::Shared(_) => {}
        }
    }

    /// Takes [`abort`](Self::abort) back: closing is an ordinary end again.
    pub fn end_in_order(&self) {
        if let Stream::Tcp(_) | Stream::Tls(_) = self
            && let Some(socket) = self.socket()
        {
            // A failure leaves a reset of a response that is complete, which no client takes for another response.
            let _ = socket2::SockRef::from(&socket).set_linger(None);
        }
    }

    /// Writes what the kernel takes at once, whether or not it has announced that there is space: it does so only when a third of
    /// its buffer is free, which a slow reader may take minutes to read.
    ///
    /// # Errors
    /// `WouldBlock` when it takes nothing, or where this cannot be done.
    pub fn write_now(&mut self, bytes: &[u8]) -> io::Result<WrittenNow> {
        let taken = match self {
            Stream::Tcp(stream) => socket2::SockRef::from(&*stream).send(bytes)?,
            Stream::Unix(stream) => socket2::SockRef::from(&*stream).send(bytes)?,
            // What TLS holds comes first; it was taken from the caller before.
            Stream::Tls(stream) => {
                let sent = stream.send_by(|socket, bytes| socket2::SockRef::from(socket).send(bytes))?;
                return if sent > 0 { Ok(WrittenNow { taken: 0 }) } else { Err(io::ErrorKind::WouldBlock.into()) };
            }
            // Its connection writes.
            Stream::Http2(pipe) if pipe.take_moved() => return Ok(WrittenNow { taken: 0 }),
            Stream::Http2(_)
            | Stream::Http2Upstream(_)
            | Stream::Subrequest
            | Stream::Collect(_)
            | Stream::Shared(_) => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        };
        if taken > 0 { Ok(WrittenNow { taken }) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    /// Bytes that left behind the back of who wrote them: TLS takes more than the socket does. A change is progress.
    #[inline]
    pub fn sent_later(&self) -> u64 {
        match self {
            Stream::Tls(stream) => stream.sent(),
            _ => 0,
        }
    }

    /// Says that this is the end of what is sent, where closing alone does not say it: over TLS an end without `close_notify` may be the work of
    /// anyone on the way (RFC 8446 section 6.1). Waits for nothing.
    pub fn say_end(&mut self) {
        if let Stream::Tls(stream) = self {
            let _ = Pin::new(stream).poll_shutdown(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// The first piece that is not empty.
fn first<'b>(bufs: &'b [io::IoSlice<'_>]) -> &'b [u8] {
    bufs.iter().find(|buf| !buf.is_empty()).map_or(&[], |buf| &**buf)
}

/// What the kernel took at once; it took something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenNow {
    /// How much of the bytes that were passed: none where others had to leave first.
    pub taken: usize,
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(
            self,
            stream => Pin::new(stream).poll_read(cx, buf),
            pipe => pipe.poll_read(buf),
            up => up.poll_read(cx, buf),
            Poll::Pending
        )
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Stream::Collect(collected) = this {
            return Poll::Ready(collected.write(buf));
        }
        let this = Pin::new(this);
        each!(
            this,
            stream => Pin::new(stream).poll_write(cx, buf),
            pipe => pipe.poll_write(buf),
            up => up.poll_write(cx, buf),
            Poll::Ready(Ok(buf.len()))
        )
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            // Sockets hold nothing back.
            Stream::Tcp(_) | Stream::Unix(_) | Stream::Subrequest | Stream::Collect(_) | Stream::Shared(_) => {
                Poll::Ready(Ok(()))
            }
            // What it took is bounded, and goes out as the target's windows allow.
            Stream::Http2Upstream(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Http2(pipe) => pipe.poll_flush(),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(
            self,
            stream => Pin::new(stream).poll_shutdown(cx),
            pipe => {
                pipe.shut_down();
                Poll::Ready(Ok(()))
            },
            up => up.poll_shut_down(cx),
            Poll::Ready(Ok(()))
        )
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Stream::Collect(collected) = this {
            return Poll::Ready(bufs.iter().try_fold(0, |sum, buf| Ok(sum + collected.write(buf)?)));
        }
        let this = Pin::new(this);
        each!(
            this,
            stream => Pin::new(stream).poll_write_vectored(cx, bufs),
            pipe => pipe.poll_write(first(bufs)),
            up => up.poll_write(cx, first(bufs)),
            Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()))
        )
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

/// Reads once into the space of `buffer`, which must not be full. `Ok(0)` is the end of the stream.
#[inline]
pub fn poll_read<S: AsyncRead + Unpin>(
    cx: &mut Context<'_>,
    stream: &mut S,
    buffer: &mut Buffer,
) -> Poll<io::Result<usize>> {
    debug_assert!(buffer.has_space(), "a read into no space would look like the end of the stream");
    let mut space = ReadBuf::new(buffer.space());
    match Pin::new(stream).poll_read(cx, &mut space) {
        Poll::Ready(Ok(())) => {
            let count = space.filled().len();
            buffer.fill(count);
            Poll::Ready(Ok(count))
        }
        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        Poll::Pending => Poll::Pending,
    }
}

/// Pieces up to this size are copied behind what waits, so that one plain write takes all; larger ones are written from where they lie, with `writev`.
pub const COPIED: usize = 8 * 1024;

/// Bytes on their way out: a piece that was put together, then perhaps one that is shared, then a piece that is forwarded as it lies in a
/// read buffer. Two of them that lie behind one another go out in one system call.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Put together here: heads, chunk framing, small bodies.
    pub bytes: Vec<u8>,
    /// Behind `bytes`: what others hold too, such as a request body that further attempts may need.
    shared: Option<Shared>,
    /// How much of `bytes`, the shared piece and the forwarded piece, in that order, is written.
    written: usize,
}

#[derive(Debug)]
struct Shared {
    bytes: Arc<Vec<u8>>,
    from: usize,
}

impl Outgoing {
    /// Nothing yet, with memory to put it together in.
    pub fn with(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Outgoing { bytes, ..Outgoing::default() }
    }

    /// The memory, to be used again.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.written == 0 && self.shared.is_none()
    }

    /// Puts what lies from `from` on behind `bytes`, where it stays the last: small pieces are copied, large ones written from where they lie.
    pub fn share(&mut self, bytes: &Arc<Vec<u8>>, from: usize) {
        let piece = bytes.get(from..).unwrap_or_default();
        if piece.len() <= COPIED {
            self.bytes.extend_from_slice(piece);
        } else {
            self.shared = Some(Shared { bytes: bytes.clone(), from });
        }
    }

    fn shared(&self) -> &[u8] {
        self.shared.as_ref().map_or(&[], |shared| &shared.bytes[shared.from..])
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.shared = None;
        self.written = 0;
    }

    /// Writes what waits and then `forwarded`, as far as the stream takes them. Ready once all of both is written; the caller passes
    /// the same `forwarded` until then.
    pub fn poll_write<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
        forwarded: &[u8],
    ) -> Poll<io::Result<()>> {
        if self.shared.is_some() {
            ready!(self.poll_write_shared(cx, stream))?;
        }
        let total = self.bytes.len() + forwarded.len();
        while self.written < total {
            let stream = Pin::new(&mut *stream);
            let result = if self.written >= self.bytes.len() {
                stream.poll_write(cx, &forwarded[self.written - self.bytes.len()..])
            } else if forwarded.is_empty() {
                stream.poll_write(cx, &self.bytes[self.written..])
            } else {
                let slices = [io::IoSlice::new(&self.bytes[self.written..]), io::IoSlice::new(forwarded)];
                stream.poll_write_vectored(cx, &slices)
            };
            match result {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        // TLS may have taken bytes that have not left: they count as written once they have.
        ready!(Pin::new(stream).poll_flush(cx))?;
        self.clear();
        Poll::Ready(Ok(()))
    }

    /// Writes `bytes` and the shared piece; afterwards there is neither.
    // Apart, because most of what is written has no such piece.
    #[inline(never)]
    fn poll_write_shared<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<io::Result<()>> {
        while self.written < self.bytes.len() + self.shared().len() {
            let stream = Pin::new(&mut *stream);
            let result = match self.written.checked_sub(self.bytes.len()) {
                Some(at) => stream.poll_write(cx, &self.shared()[at..]),
                None => {
                    let slices = [io::IoSlice::new(&self.bytes[self.written..]), io::IoSlice::new(self.shared())];
                    stream.poll_write_vectored(cx, &slices)
                }
            };
            match ready!(result)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        self.clear();
        Poll::Ready(Ok(()))
    }

    /// What is to be written next of what waits and then `forwarded`.
    pub fn next<'a>(&'a self, forwarded: &'a [u8]) -> &'a [u8] {
        let mut at = self.written;
        for piece in [&self.bytes[..], self.shared()] {
            match piece.get(at..) {
                Some(rest @ [_, ..]) => return rest,
                _ => at -= piece.len().min(at),
            }
        }
        forwarded.get(at..).unwrap_or_default()
    }

    /// So many bytes were written by other means than [`poll_write`](Self::poll_write).
    pub fn advance(&mut self, count: usize) {
        self.written += count;
    }

    /// How much of what waits is written.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Whether part of what waits is written already: it must be finished, or the connection given up.
    pub fn is_begun(&self) -> bool {
        self.written > 0
    }
}

#[cfg(test)]
mod tests;
