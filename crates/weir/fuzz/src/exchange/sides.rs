//! The two ends: what they send and what they see.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use super::script::End;

/// One end of a connection.
pub(super) struct Peer {
    stream: Option<TcpStream>,
    queue: Vec<u8>,
    /// What was written, and after which byte of what was received each piece of it began.
    pub(super) sent: Vec<u8>,
    pub(super) pieces: Vec<Piece>,
    pub(super) received: Vec<u8>,
    pub(super) reads: bool,
    /// The gateway ended its writing side: orderly, not by a reset.
    pub(super) saw_end: bool,
    /// The connection failed.
    pub(super) saw_reset: bool,
    /// This end closed, orderly.
    pub(super) closed: bool,
    /// This end reset, without an orderly close before.
    pub(super) was_reset: bool,
}

/// A piece that was sent at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Where it begins in what was sent.
    pub(super) at: usize,
    /// How much had been received by then.
    pub(super) received: usize,
    /// Whether this end read: one that does not cannot tell what had reached it.
    pub(super) reads: bool,
}

impl Peer {
    pub(super) fn new(stream: TcpStream) -> Self {
        stream.set_nonblocking(true).expect("non-blocking");
        stream.set_nodelay(true).expect("no delay");
        Peer {
            stream: Some(stream),
            queue: Vec::new(),
            sent: Vec::new(),
            pieces: Vec::new(),
            received: Vec::new(),
            reads: true,
            saw_end: false,
            saw_reset: false,
            closed: false,
            was_reset: false,
        }
    }

    pub(super) fn queue(&mut self, bytes: &[u8]) {
        self.queue.extend_from_slice(bytes);
    }

    /// Writes this share of what is queued.
    pub(super) fn write(&mut self, share: u8) {
        let Some(stream) = self.stream.as_mut().filter(|_| !self.closed) else { return };
        let most = (self.queue.len() * usize::from(share)).div_ceil(255);
        if most == 0 {
            return;
        }
        match stream.write(&self.queue[..most]) {
            Ok(count) => {
                self.pieces.push(Piece { at: self.sent.len(), received: self.received.len(), reads: self.reads });
                self.sent.extend(self.queue.drain(..count));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.queue.clear(),
        }
    }

    pub(super) fn end(&mut self, how: End) {
        let Some(stream) = &self.stream else { return };
        match how {
            End::HalfClose => {
                let _ = stream.shutdown(Shutdown::Write);
                self.closed = true;
            }
            End::Close => {
                self.closed = true;
                self.stream = None;
            }
            End::Reset => {
                // What ended in order before is whole.
                self.was_reset |= !self.closed;
                let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
                self.stream = None;
            }
        }
    }

    /// Reads what is there; says whether there was anything.
    pub(super) fn poll(&mut self) -> bool {
        if !self.reads || self.saw_end || self.saw_reset {
            return false;
        }
        let Some(stream) = &mut self.stream else { return false };
        let mut bytes = [0; 16 * 1024];
        match stream.read(&mut bytes) {
            Ok(0) => self.saw_end = true,
            Ok(count) => self.received.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(_) => self.saw_reset = true,
        }
        true
    }

    /// Whether the other end may still think that the connection lives.
    fn is_open(&self) -> bool {
        self.stream.is_some() && !self.saw_end && !self.saw_reset
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Peer { sent, received, pieces, saw_end, saw_reset, closed, was_reset, .. } = self;
        writeln!(f, "sent: {}", cut(sent))?;
        writeln!(f, "    received: {}", cut(received))?;
        writeln!(f, "    {pieces:?} saw_end {saw_end} saw_reset {saw_reset} closed {closed} was_reset {was_reset}")
    }
}

fn cut(bytes: &[u8]) -> String {
    let shown = bytes.len().min(3000);
    format!("({} bytes) {}", bytes.len(), bytes[..shown].escape_ascii())
}

/// The upstream's end of all connections, in the order in which they were made.
#[derive(Debug)]
pub(super) struct Upstreams {
    listener: TcpListener,
    pub(super) connections: Vec<Peer>,
}

impl Upstreams {
    pub(super) fn new(listener: TcpListener) -> Self {
        Upstreams { listener, connections: Vec::new() }
    }

    /// Accepts and reads; says whether anything happened.
    pub(super) fn poll(&mut self) -> bool {
        let mut moved = false;
        while let Ok((stream, _)) = self.listener.accept() {
            self.connections.push(Peer::new(stream));
            moved = true;
        }
        for connection in &mut self.connections {
            moved |= connection.poll();
        }
        moved
    }

    pub(super) fn newest(&mut self, act: impl FnOnce(&mut Peer)) {
        if let Some(newest) = self.connections.last_mut() {
            act(newest);
        }
    }

    pub(super) fn each(&mut self, act: impl FnMut(&mut Peer)) {
        self.connections.iter_mut().for_each(act);
    }

    pub(super) fn count_open(&self) -> usize {
        self.connections.iter().filter(|connection| connection.is_open()).count()
    }
}
