//! A connection as the kernel has it: what TLS runs over, and what listeners accept.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// TCP, with `TCP_NODELAY`.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
}

/// The same without an event loop, on its way from one thread to another.
#[derive(Debug)]
pub enum DetachedSocket {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// A Unix socket.
    Unix(std::os::unix::net::UnixStream),
}

macro_rules! each {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self {
            Socket::Tcp($stream) => $call,
            Socket::Unix($stream) => $call,
        }
    };
}

impl Socket {
    /// Runs `io` once the socket is ready for it, and again for as long as it would block.
    ///
    /// # Errors
    /// Its own.
    pub async fn async_io<R>(&self, interest: Interest, io: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        each!(self, stream => stream.async_io(interest, io).await)
    }

    /// Takes it from this thread's event loop.
    ///
    /// # Errors
    /// The system's.
    pub fn detach(self) -> io::Result<DetachedSocket> {
        Ok(match self {
            Socket::Tcp(stream) => DetachedSocket::Tcp(stream.into_std()?),
            Socket::Unix(stream) => DetachedSocket::Unix(stream.into_std()?),
        })
    }
}

impl DetachedSocket {
    /// Lets it no longer block.
    ///
    /// # Errors
    /// The system's.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            DetachedSocket::Tcp(stream) => stream.set_nonblocking(true),
            DetachedSocket::Unix(stream) => stream.set_nonblocking(true),
        }
    }

    /// Registers it, which must not block, with this thread's event loop.
    ///
    /// # Errors
    /// The system's.
    pub fn attach(self) -> io::Result<Socket> {
        Ok(match self {
            DetachedSocket::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream)?),
            DetachedSocket::Unix(stream) => Socket::Unix(UnixStream::from_std(stream)?),
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        each!(self, stream => stream.as_fd())
    }
}

impl AsyncRead for Socket {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, buf))
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
