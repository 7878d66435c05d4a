//! A socket that listens, at an IP address or as a file, with and without an event loop.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::socket::{DetachedSocket, Socket};

/// A listening socket on its way to its worker, or to another process.
#[derive(Debug)]
pub enum ListeningSocket {
    /// Of an IP address.
    Tcp(std::net::TcpListener),
    /// Of a path.
    Unix(std::os::unix::net::UnixListener),
}

/// A listening socket in the event loop of its worker.
#[derive(Debug)]
pub enum Acceptor {
    /// Of an IP address.
    Tcp(tokio::net::TcpListener),
    /// Of a path.
    Unix(tokio::net::UnixListener),
}

impl ListeningSocket {
    /// One that another process opened.
    pub fn of(descriptor: OwnedFd, is_unix: bool) -> Self {
        if is_unix { ListeningSocket::Unix(descriptor.into()) } else { ListeningSocket::Tcp(descriptor.into()) }
    }

    /// The same socket under another descriptor.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            ListeningSocket::Tcp(listener) => ListeningSocket::Tcp(listener.try_clone()?),
            ListeningSocket::Unix(listener) => ListeningSocket::Unix(listener.try_clone()?),
        })
    }

    /// Registers it with this thread's event loop.
    ///
    /// # Errors
    /// The system's.
    pub fn attach(self) -> io::Result<Acceptor> {
        Ok(match self {
            ListeningSocket::Tcp(listener) => Acceptor::Tcp(tokio::net::TcpListener::from_std(listener)?),
            ListeningSocket::Unix(listener) => Acceptor::Unix(tokio::net::UnixListener::from_std(listener)?),
        })
    }

    /// Accepts a connection that waits, with the address of its other end if it has one.
    ///
    /// # Errors
    /// The system's; `WouldBlock` when none waits.
    pub fn accept(&self) -> io::Result<(DetachedSocket, Option<SocketAddr>)> {
        Ok(match self {
            ListeningSocket::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                let _ = stream.set_nodelay(true);
                (DetachedSocket::Tcp(stream), Some(peer))
            }
            ListeningSocket::Unix(listener) => (DetachedSocket::Unix(listener.accept()?.0), None),
        })
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ListeningSocket::Tcp(listener) => listener.as_fd(),
            ListeningSocket::Unix(listener) => listener.as_fd(),
        }
    }
}

impl Acceptor {
    /// Waits for a connection; with the address of its other end if it has one.
    ///
    /// # Errors
    /// The system's.
    pub async fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        Ok(match self {
            Acceptor::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                (Socket::Tcp(stream), Some(peer))
            }
            Acceptor::Unix(listener) => (Socket::Unix(listener.accept().await?.0), None),
        })
    }

    /// Takes it from this thread's event loop.
    ///
    /// # Errors
    /// The system's.
    pub fn detach(self) -> io::Result<ListeningSocket> {
        Ok(match self {
            Acceptor::Tcp(listener) => ListeningSocket::Tcp(listener.into_std()?),
            Acceptor::Unix(listener) => ListeningSocket::Unix(listener.into_std()?),
        })
    }
}
