//! A connection that one request after the other goes over, plain or with TLS, whose reads and writes block: for what is not load.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tls::ClientStream;

use crate::load::prepare::{Authority, Secure};

/// Bytes read at once.
const READ: usize = 64 * 1024;

/// An open connection.
pub(super) struct Wire<'p> {
    socket: Socket<'p>,
    memory: Box<[u8]>,
}

enum Socket<'p> {
    Plain(TcpStream),
    Tls(Box<ClientStream<TcpStream>>, &'p Secure),
}

impl<'p> Wire<'p> {
    /// Opens a connection, with its handshake.
    pub(super) fn open(authority: &'p Authority, timeout: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + timeout;
        let stream = TcpStream::connect_timeout(&authority.address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(timeout))?;
        let mut memory: Box<[u8]> = vec![0; READ].into();
        let socket = match &authority.secure {
            None => Socket::Plain(stream),
            Some(secure) => {
                let mut tls = Box::new(ClientStream::new(stream, secure.config(&mut None), secure.name.clone())?);
                handshake(&mut tls, &mut memory, deadline).map_err(|error| match error.kind() {
                    io::ErrorKind::TimedOut => error,
                    kind => io::Error::new(kind, secure.reason(&error)),
                })?;
                Socket::Tls(tls, secure)
            }
        };
        Ok(Wire { socket, memory })
    }

    pub(super) fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        match &mut self.socket {
            Socket::Plain(stream) => stream.write_all(bytes),
            Socket::Tls(tls, _) => {
                while !bytes.is_empty() {
                    bytes = &bytes[tls.write(&[IoSlice::new(bytes)])?..];
                    tls.flush()?;
                }
                Ok(())
            }
        }
    }

    /// Appends what comes next, until the deadline. 0: the stream has ended.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>, deadline: Instant) -> io::Result<usize> {
        match &mut self.socket {
            Socket::Plain(stream) => {
                wait_until(stream, deadline)?;
                let length = stream.read(&mut self.memory).map_err(timed_out)?;
                buffer.extend_from_slice(&self.memory[..length]);
                Ok(length)
            }
            Socket::Tls(tls, secure) => loop {
                if tls.received_close() {
                    return Ok(0);
                }
                wait_until(tls.get_ref(), deadline)?;
                let before = buffer.len();
                let received = tls.receive(&mut self.memory, |plain| buffer.extend_from_slice(plain));
                match received.map_err(timed_out) {
                    // What came before it counts.
                    _ if buffer.len() > before => return Ok(buffer.len() - before),
                    Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, secure.truncated())),
                    Ok(_) => tls.flush()?,
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        return Err(io::Error::new(error.kind(), secure.reason(&error)));
                    }
                    Err(error) => return Err(error),
                }
            },
        }
    }

    /// Whether the server has neither closed the connection nor sent what was not requested.
    pub(super) fn is_open(&mut self) -> bool {
        let stream = match &self.socket {
            Socket::Plain(stream) => stream,
            Socket::Tls(tls, _) => tls.get_ref(),
        };
        let _ = stream.set_nonblocking(true);
        let is_open = match &mut self.socket {
            Socket::Plain(stream) => {
                matches!(stream.peek(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
            }
            // Tickets may have come.
            Socket::Tls(tls, _) => loop {
                let mut unasked = false;
                match tls.receive(&mut self.memory, |_| unasked = true) {
                    Ok(1..) if !unasked && !tls.received_close() => {}
                    Err(error) => break error.kind() == io::ErrorKind::WouldBlock,
                    Ok(_) => break false,
                }
            },
        };
        let stream = match &self.socket {
            Socket::Plain(stream) => stream,
            Socket::Tls(tls, _) => tls.get_ref(),
        };
        let _ = stream.set_nonblocking(false);
        is_open
    }
}

impl Drop for Wire<'_> {
    fn drop(&mut self) {
        if let Socket::Tls(tls, _) = &mut self.socket {
            tls.close();
        }
    }
}

fn handshake(tls: &mut ClientStream<TcpStream>, memory: &mut [u8], deadline: Instant) -> io::Result<()> {
    loop {
        tls.flush().map_err(timed_out)?;
        if !tls.is_handshaking() {
            return Ok(());
        }
        wait_until(tls.get_ref(), deadline)?;
        if tls.receive(memory, |_| {}).map_err(timed_out)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The next read waits no longer than this.
fn wait_until(stream: &TcpStream, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(left))
}

fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "no complete response before the timeout"),
        _ => error,
    }
}
