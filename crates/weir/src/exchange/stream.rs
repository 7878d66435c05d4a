//! The one kind of connection towards upstreams, and reads and writes as the exchange needs them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tls::TlsStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::buffer::Buffer;

/// What an exchange needs of a byte stream.
pub trait Io: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// A connection to an upstream.
#[derive(Debug)]
pub enum Stream {
    /// TCP, with `TCP_NODELAY`.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
}

macro_rules! each {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
            Stream::Tls($stream) => $call,
        }
    };
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.get_ref().as_fd(),
        }
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, buf))
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            // Sockets hold nothing back.
            Stream::Tcp(_) | Stream::Unix(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write_vectored(cx, bufs))
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

/// Bytes on their way out: a piece that was put together, then a piece that is forwarded as it lies in a read buffer. Both go out
/// in one system call.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Put together here: heads, chunk framing, small bodies.
    pub bytes: Vec<u8>,
    /// How much of `bytes` and the forwarded piece, in that order, is written.
    written: usize,
}

impl Outgoing {
    /// Nothing yet, with memory to put it together in.
    pub fn with(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Outgoing { bytes, written: 0 }
    }

    /// The memory, to be used again.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.written == 0
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.written = 0;
    }

    /// Writes `bytes` and then `forwarded`, as far as the stream takes them. Ready once all of both is written; the caller passes
    /// the same `forwarded` until then.
    pub fn poll_write<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
        forwarded: &[u8],
    ) -> Poll<io::Result<()>> {
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

    /// What is to be written next of `bytes` and then `forwarded`.
    pub fn next<'a>(&'a self, forwarded: &'a [u8]) -> &'a [u8] {
        match self.written.checked_sub(self.bytes.len()) {
            None => &self.bytes[self.written..],
            Some(at) => forwarded.get(at..).unwrap_or_default(),
        }
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
