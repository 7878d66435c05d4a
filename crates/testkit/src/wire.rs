//! A byte stream, TCP or Unix, on which every wait has a deadline: what the raw client and the upstreams stand on.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::pattern;

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<&Path> for Address {
    fn from(path: &Path) -> Self {
        Self::Unix(path.to_owned())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Why something could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The deadline passed.
    Deadline,
    /// The peer closed before the first byte of what was waited for, or (writing) no longer reads.
    Closed,
    /// The peer closed in the middle of a head or a body.
    Truncated(String),
    /// The peer reset the connection.
    Reset,
    /// The peer sent what the strict reader refuses.
    Malformed(String),
    /// Anything else that the system says.
    Other(String),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => write!(f, "the deadline passed"),
            Self::Closed => write!(f, "the peer closed the connection"),
            Self::Truncated(what) => write!(f, "the peer closed in the middle of {what}"),
            Self::Reset => write!(f, "the peer reset the connection"),
            Self::Malformed(what) => write!(f, "malformed: {what}"),
            Self::Other(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for WireError {}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset => Self::Reset,
            ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Other(error.to_string()),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        }
    }

    /// Sends RST at once (TCP), whatever was still to be sent or read; a Unix socket is closed both ways.
    pub(crate) fn reset(&self) {
        let _ = match self {
            // Linux: dissolving the association of a connected socket resets the connection, also while other descriptors of it live.
            Self::Tcp(stream) => rustix::net::connect_unspec(stream).map_err(io::Error::from),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// A connection with a read buffer.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: Socket,
    buffer: Vec<u8>,
    /// Where the unread part of `buffer` begins.
    start: usize,
    /// How long one call may take.
    pub(crate) deadline: Duration,
    /// What was taken from the buffer since the last [`Wire::take_tap`], up to `tap_limit` bytes.
    tap: Vec<u8>,
    tap_limit: usize,
}

impl Wire {
    pub(crate) fn new(socket: Socket, deadline: Duration) -> io::Result<Self> {
        match &socket {
            Socket::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                // What is written in pieces shall travel in pieces.
                stream.set_nodelay(true)?;
            }
            Socket::Unix(stream) => stream.set_nonblocking(true)?,
        }
        Ok(Self { socket, buffer: Vec::new(), start: 0, deadline, tap: Vec::new(), tap_limit: 0 })
    }

    /// Connects, from `local` if that is given.
    pub(crate) fn connect(to: &Address, local: Option<IpAddr>, deadline: Duration) -> Result<Self, WireError> {
        let socket = match (to, local) {
            (Address::Unix(path), _) => Socket::Unix(UnixStream::connect(path)?),
            (Address::Tcp(to), None) => Socket::Tcp(TcpStream::connect_timeout(to, deadline)?),
            (Address::Tcp(to), Some(local)) => Socket::Tcp(connect_from(local, to).map_err(io::Error::from)?),
        };
        Ok(Self::new(socket, deadline)?)
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(stream) => stream.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }

    pub(crate) fn set_tap_limit(&mut self, bytes: usize) {
        self.tap_limit = bytes;
    }

    /// What was consumed since the last call.
    pub(crate) fn take_tap(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.tap)
    }

    pub(crate) fn end(&self) -> Instant {
        Instant::now() + self.deadline
    }

    /// Bytes that have arrived and were not consumed.
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    pub(crate) fn consume(&mut self, count: usize) -> Vec<u8> {
        let taken = self.buffer[self.start..self.start + count].to_vec();
        self.start += count;
        let room = self.tap_limit.saturating_sub(self.tap.len());
        self.tap.extend_from_slice(&taken[..count.min(room)]);
        taken
    }

    /// Reads once more into the buffer, waiting until `end`. `Ok(0)` is the end of the stream.
    pub(crate) fn fill(&mut self, end: Instant) -> Result<usize, WireError> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        let old = self.buffer.len();
        self.buffer.resize(old + 64 * 1024, 0);
        let outcome = loop {
            let room = &mut self.buffer[old..];
            let outcome = match &mut self.socket {
                Socket::Tcp(stream) => stream.read(room),
                Socket::Unix(stream) => stream.read(room),
            };
            match outcome {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if let Err(error) = ready(&self.socket, PollFlags::IN, end) {
                        break Err(error);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                outcome => break outcome.map_err(WireError::from),
            }
        };
        self.buffer.truncate(old + outcome.as_ref().unwrap_or(&0));
        outcome
    }

    /// Writes all of `bytes` before the deadline.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        let end = self.end();
        let written = self.write_until(bytes, end)?;
        if written < bytes.len() { Err(WireError::Deadline) } else { Ok(()) }
    }

    /// Writes until `end`; returns how many bytes the kernel took.
    pub(crate) fn write_until(&mut self, bytes: &[u8], end: Instant) -> Result<usize, WireError> {
        let mut written = 0;
        while written < bytes.len() {
            let outcome = match &mut self.socket {
                Socket::Tcp(stream) => stream.write(&bytes[written..]),
                Socket::Unix(stream) => stream.write(&bytes[written..]),
            };
            match outcome {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => match ready(&self.socket, PollFlags::OUT, end) {
                    Err(WireError::Deadline) => break,
                    outcome => outcome?,
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(written)
    }

    /// Writes `length` bytes of the pattern; the deadline counts for each block of it.
    pub(crate) fn write_pattern(&mut self, length: u64) -> Result<(), WireError> {
        let mut sent = 0;
        while sent < length {
            let block = pattern::block(sent, length - sent);
            self.write(block)?;
            sent += block.len() as u64;
        }
        Ok(())
    }

    /// Writes the pattern until nothing was taken for `quiet`, at most `limit` bytes; returns how many were taken.
    pub(crate) fn write_until_blocked(&mut self, limit: u64, quiet: Duration) -> Result<u64, WireError> {
        let mut sent = 0;
        while sent < limit {
            let block = pattern::block(sent, limit - sent);
            let count = self.write_until(block, Instant::now() + quiet)?;
            sent += count as u64;
            if count < block.len() {
                break;
            }
        }
        Ok(sent)
    }

    /// Whether the peer has closed its side or reset the connection, without reading; waits for that at most `timeout`.
    pub(crate) fn peer_disconnected(&self, timeout: Duration) -> bool {
        ready(&self.socket, PollFlags::RDHUP, Instant::now() + timeout).is_ok()
    }
}

/// Waits until the socket is ready for what `interest` says, or in error.
fn ready(socket: &Socket, interest: PollFlags, end: Instant) -> Result<(), WireError> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(socket, interest)], Some(&timeout)) {
            Ok(0) => return Err(WireError::Deadline),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
}

fn connect_from(local: IpAddr, to: &SocketAddr) -> rustix::io::Result<TcpStream> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::new(local, 0))?;
    connect(&socket, to)?;
    Ok(socket.into())
}
