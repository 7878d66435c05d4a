//! HTTP/1.1 over epoll: one thread, one request at a time on a connection.
//!
//! A request costs one write and one read; one call of epoll reports all responses that have come. Sockets are registered once,
//! edge-triggered, for both directions: a read that does not fill the buffer has emptied the socket, so no second one is needed to hear that.

mod connection;
mod heads;
mod secure;
mod websocket;

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::TcpStream;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt::set_tcp_nodelay};

use super::clock::{self, Timer};
use super::pacer::Pacer;
use super::recorder::{Failure, Response};
use super::{Transport, TransportError};
use crate::load::prepare::Authority;
pub(super) use connection::Notes;
use connection::{Connection, Progress, Socket};
use heads::Heads;

/// Marks the timer's events.
const TIMER: u64 = u64::MAX;

/// Bytes read at once.
const READ: usize = 64 * 1024;

/// Events taken at once.
const EVENTS: usize = 256;

/// So many responses are read before the next requests of their users are sent. The kernel's receive path and its send path then each run several times in
/// a row, which suits the processor's caches, responses are noticed sooner, and the server finds several requests when it looks. No more, so that no user
/// waits long for the responses of others.
const GROUP: usize = 8;

/// The connections of one thread.
pub(crate) struct Http1 {
    epoll: std::os::fd::OwnedFd,
    timer: Timer,
    /// From so many nanoseconds before a request is due, the thread does not sleep.
    spin: u64,
    events: Vec<epoll::Event>,
    /// Slots whose next request goes out with those of the group.
    next: Vec<u32>,
    /// One for each slot and authority: `slot * authorities + authority`.
    connections: Vec<Connection>,
    authorities: usize,
    buffer: Box<[u8]>,
    heads: Heads,
    /// Connections of WebSocket that wait for the server's close frame, by what marks their events; and since when.
    lingering: HashMap<u64, (u64, Socket)>,
}

impl Http1 {
    pub(crate) fn new(slots: usize, authorities: usize, spin: u64) -> Result<Self, TransportError> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| TransportError::new("epoll", error))?;
        let timer = Timer::new().map_err(|error| TransportError::new("timerfd", error))?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)
            .map_err(|error| TransportError::new("epoll", error))?;
        Ok(Http1 {
            epoll,
            timer,
            spin,
            events: Vec::with_capacity(EVENTS),
            next: Vec::with_capacity(GROUP),
            connections: (0..slots * authorities).map(|_| Connection::default()).collect(),
            authorities,
            buffer: vec![0; READ].into(),
            heads: Heads::default(),
            lingering: HashMap::new(),
        })
    }

    fn slot_of(&self, connection: usize) -> u32 {
        (connection / self.authorities) as u32
    }

    /// Where a connection leads.
    fn authority<'p>(&self, pacer: &Pacer<'p>, connection: usize) -> &'p Authority {
        &pacer.prepared.authorities[connection % self.authorities]
    }

    /// Begins to open a connection; the request goes out when it is open.
    fn open(&mut self, pacer: &mut Pacer<'_>, index: usize) {
        let slot = self.slot_of(index);
        let address = self.authority(pacer, index).address;
        let begun = clock::now();
        let attempt = || -> io::Result<TcpStream> {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let fd = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
            set_tcp_nodelay(&fd, true)?;
            match connect(&fd, &address) {
                Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(TcpStream::from(fd)),
                Err(error) => Err(error.into()),
            }
        };
        let registered = attempt().and_then(|stream| {
            let data = self.connections[index].next_event_data(index);
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&self.epoll, &stream, EventData::new_u64(data), flags)?;
            Ok(stream)
        });
        match registered {
            Ok(stream) => self.connections[index].opening(stream, begun),
            Err(_) => {
                self.connections[index].close();
                pacer.failed(slot, Failure::Connect);
            }
        }
    }

    /// Sends the slot's request on an open connection.
    fn send(&mut self, pacer: &mut Pacer<'_>, slot: u32, index: usize) {
        let operation = pacer.operation(slot);
        let connection = &mut self.connections[index];
        let bytes = match &pacer.prepared.websocket {
            None => {
                connection.begin(operation, |out| pacer.write_http1(slot, out));
                connection.request_bytes(operation)
            }
            Some(_) if connection.is_broken() => return self.fail(pacer, index, Failure::InvalidResponse),
            Some(messages) => connection.begin_message(messages, &mut pacer.requester.random),
        };
        let at = if pacer.is_paced(slot) { clock::now() } else { pacer.slots[slot as usize].times.due };
        pacer.sent(slot, at, bytes);
        self.write(pacer, slot, index);
    }

    fn write(&mut self, pacer: &mut Pacer<'_>, slot: u32, index: usize) {
        match self.connections[index].write(pacer.operation(slot)) {
            Ok(_) => {}
            // What is sent while nothing is awaited, such as a pong.
            Err(_) if !self.connections[index].is_active() => self.connections[index].close(),
            // The response may have come before the server closed; if not, the read says so. A server that refuses a client certificate sends an alert
            // and resets the connection.
            Err(error)
                if error.kind() == io::ErrorKind::BrokenPipe || self.authority(pacer, index).secure.is_some() =>
            {
                self.read(pacer, index, true);
            }
            Err(_) => self.fail(pacer, index, Failure::Reset),
        }
    }

    fn fail(&mut self, pacer: &mut Pacer<'_>, index: usize, failure: Failure) {
        let slot = self.slot_of(index);
        let connection = &mut self.connections[index];
        let status = connection.status;
        if let Some(notes) = connection.take_notes() {
            pacer.note_websocket(slot, notes);
        }
        // What has run into its timeout is counted as that, whatever came before.
        if let Some(chat) = connection.chat_begun().filter(|_| failure != Failure::Timeout) {
            pacer.chat_ended(slot, status, chat, None);
        }
        connection.close();
        pacer.failed(slot, failure);
    }

    fn ready(&mut self, pacer: &mut Pacer<'_>, data: u64, flags: EventFlags) {
        let index = (data & u64::from(u32::MAX)) as usize;
        if !self.connections[index].is_of(data) {
            // Of a connection that was closed meanwhile.
            if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
                self.lingered(data);
            }
            return;
        }
        let slot = self.slot_of(index);
        let closed = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if self.connections[index].is_opening() {
            if !flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
                return;
            }
            match self.connections[index].opened() {
                Ok(took) => {
                    pacer.connected(slot, took);
                    match &self.authority(pacer, index).secure {
                        None => self.begin_on(pacer, slot, index),
                        Some(secure) => self.secure(pacer, index, secure),
                    }
                }
                Err(_) => return self.fail(pacer, index, Failure::Connect),
            }
        } else if flags.contains(EventFlags::OUT) {
            if self.connections[index].is_writing() {
                self.write(pacer, slot, index);
            } else if self.connections[index].flush().is_err() {
                self.read(pacer, index, true);
            }
        }
        if self.connections[index].is_of(data) && (closed || flags.contains(EventFlags::IN)) {
            self.read(pacer, index, closed);
        }
    }

    /// Reads what there is. `closed`: the server has sent its last byte, or all is lost.
    fn read(&mut self, pacer: &mut Pacer<'_>, index: usize, closed: bool) {
        let slot = self.slot_of(index);
        loop {
            let connection = &mut self.connections[index];
            let stream = match &mut connection.socket {
                Some(Socket::Plain(stream)) => stream,
                Some(Socket::Tls(_)) => return self.read_tls(pacer, index, closed),
                None => return,
            };
            let length = match stream.read(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) if !connection.is_active() => return connection.close(),
                Err(_) => return self.fail(pacer, index, Failure::Reset),
            };
            if !connection.is_active() && connection.is_websocket() {
                if self.idle(pacer, index, length) && (length == READ || closed) {
                    continue;
                }
                return;
            }
            if !connection.is_active() {
                // No request is in flight: the server closes an idle connection, or sends bytes that no request is waiting for.
                return connection.close();
            }
            let operation = pacer.operation(slot);
            let progress = if length == 0 {
                connection.end_of_stream()
            } else {
                connection.feed(&self.buffer[..length], operation, pacer.prepared, &mut self.heads)
            };
            connection.flush_frames(operation);
            match progress {
                Progress::More if length == 0 => return self.fail(pacer, index, Failure::Reset),
                Progress::Upgraded(took) => {
                    self.upgraded(pacer, index, took);
                    if length < READ && !closed {
                        return;
                    }
                }
                Progress::Closed => return self.fail(pacer, index, Failure::Closed),
                Progress::More if length < READ && !closed => return,
                Progress::More => {}
                Progress::Bad => return self.fail(pacer, index, Failure::InvalidResponse),
                Progress::Done => {
                    let done = clock::now();
                    self.finish(pacer, index, done, closed || length == 0);
                    return;
                }
            }
        }
    }

    /// Sends the next requests of the users whose responses were read.
    fn start_next(&mut self, pacer: &mut Pacer<'_>) {
        let mut sent = 0;
        while let Some(slot) = self.next.get(sent).copied() {
            sent += 1;
            self.start(pacer, slot);
        }
        self.next.clear();
    }

    fn finish(&mut self, pacer: &mut Pacer<'_>, index: usize, done: u64, closed: bool) {
        let slot = self.slot_of(index);
        let connection = &mut self.connections[index];
        let response = Response {
            done,
            status: connection.status,
            bytes: connection.received,
            marked: connection.marked,
            stream: connection.stream_seen,
        };
        if !pacer.operation(slot).captures.is_empty() {
            connection.with_response(|header, body| pacer.capture(slot, header, body));
        }
        if let Some(notes) = connection.take_notes() {
            pacer.note_websocket(slot, notes);
        }
        let failure =
            connection.chat_begun().and_then(|chat| pacer.chat_ended(slot, response.status, chat, Some(done)));
        let used_up = pacer.prepared.websocket.as_ref().is_some_and(|all| connection.has_sent(all.per_connection));
        if closed || used_up || pacer.prepared.new_connections || !connection.may_persist() {
            self.end(pacer, index);
        } else {
            connection.rest();
        }
        if let Some(failure) = failure {
            return pacer.failed(slot, failure);
        }
        if pacer.responses(slot, &response) {
            self.next.push(slot);
        }
    }
}

impl Transport for Http1 {
    fn start(&mut self, pacer: &mut Pacer<'_>, slot: u32) {
        let index = slot as usize * self.authorities + pacer.operation(slot).authority;
        if self.connections[index].is_open() {
            self.send(pacer, slot, index);
        } else {
            self.open(pacer, index);
        }
    }

    fn wait(&mut self, pacer: &mut Pacer<'_>, until: u64) -> Result<(), TransportError> {
        let now = clock::now();
        let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = if until <= now.saturating_add(self.spin) {
            Some(&zero)
        } else {
            self.timer.arm(until - self.spin).map_err(|error| TransportError::new("timerfd", error))?;
            None
        };
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(TransportError::new("epoll", error)),
        }
        let events = std::mem::take(&mut self.events);
        for group in events.chunks(GROUP) {
            for event in group {
                let (data, flags) = (event.data.u64(), event.flags);
                if data != TIMER {
                    self.ready(pacer, data, flags);
                }
            }
            self.start_next(pacer);
        }
        self.events = events;
        Ok(())
    }

    fn sweep(&mut self, pacer: &mut Pacer<'_>, now: u64) {
        self.sweep_lingering(now);
        for slot in 0..pacer.slots.len() as u32 {
            if pacer.has_timed_out(slot, now) {
                let index = slot as usize * self.authorities + pacer.operation(slot).authority;
                self.fail(pacer, index, Failure::Timeout);
            }
        }
    }
}
