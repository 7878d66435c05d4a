//! Connections that are upgraded to WebSocket. What differs from those of HTTP: a handshake before the first message, frames of the server that are
//! no response, and an end that both sides say.

use std::io::Read;

use super::connection::Connection;
use super::{Http1, Pacer, Progress, READ, Socket};
use crate::load::engine::clock;

/// How long a connection that was closed waits for the server's close frame.
const LINGER_NS: u64 = 1_000_000_000;
/// Most connections that wait so; further ones are closed at once.
const MOST: usize = 256;

impl Http1 {
    /// Sends what goes first on a connection that is open.
    pub(super) fn begin_on(&mut self, pacer: &mut Pacer<'_>, slot: u32, index: usize) {
        let Some(messages) = &pacer.prepared.websocket else { return self.send(pacer, slot, index) };
        self.connections[index].begin_upgrade(messages, |out| pacer.write_http1(slot, out));
        self.write(pacer, slot, index);
    }

    /// The handshake is complete: the message goes out.
    pub(super) fn upgraded(&mut self, pacer: &mut Pacer<'_>, index: usize, took: u64) {
        let slot = self.slot_of(index);
        pacer.upgraded(slot, took);
        self.send(pacer, slot, index);
    }

    /// The server sends while nothing is awaited. `false`: the connection has ended.
    pub(super) fn idle(&mut self, pacer: &mut Pacer<'_>, index: usize, length: usize) -> bool {
        let operation = pacer.operation(self.slot_of(index));
        let connection = &mut self.connections[index];
        if connection.is_broken() {
            // The next message fails, and says so.
            return length > 0;
        }
        if length == 0 {
            connection.close();
            return false;
        }
        connection.feed_idle(&self.buffer[..length]);
        self.after_idle(pacer, index, operation)
    }

    /// The same once the bytes are taken in.
    pub(super) fn after_idle(
        &mut self,
        pacer: &mut Pacer<'_>,
        index: usize,
        operation: &crate::load::prepare::Operation,
    ) -> bool {
        let connection = &mut self.connections[index];
        connection.flush_frames(operation);
        if connection.is_closed() {
            self.end(pacer, index);
            return false;
        }
        true
    }

    /// Ends a connection in good order.
    pub(super) fn end(&mut self, pacer: &mut Pacer<'_>, index: usize) {
        let slot = self.slot_of(index);
        let connection = &mut self.connections[index];
        let data = connection.event_data(index);
        match connection.end_websocket(pacer.operation(slot)) {
            Some(socket) if self.lingering.len() < MOST => {
                self.lingering.insert(data, (clock::now(), socket));
            }
            Some(_) => {}
            None => connection.end(),
        }
    }

    /// The server has closed a connection that waited for that.
    pub(super) fn lingered(&mut self, data: u64) {
        if let Some((_, socket)) = self.lingering.remove(&data) {
            self.drop_socket(socket);
        }
    }

    /// Closes the connections that have waited for long enough.
    pub(super) fn sweep_lingering(&mut self, now: u64) {
        let is_over = |(_, (since, _)): &(&u64, &(u64, Socket))| now.saturating_sub(*since) > LINGER_NS;
        let over: Vec<u64> = self.lingering.iter().filter(is_over).map(|(data, _)| *data).collect();
        over.into_iter().for_each(|data| self.lingered(data));
    }

    /// Closes a socket: with bytes in it that nobody has read, the kernel would reset it.
    fn drop_socket(&mut self, socket: Socket) {
        match socket {
            Socket::Plain(mut stream) => while matches!(stream.read(&mut self.buffer), Ok(READ)) {},
            Socket::Tls(mut tls) => {
                let _ = tls.receive(&mut self.buffer, |_| ());
                tls.close();
            }
        }
    }
}

impl Connection {
    /// Takes in frames while no message is awaited.
    pub(super) fn feed_idle(&mut self, bytes: &[u8]) {
        // What must not come is found by `is_broken`.
        let _: Progress = self.feed_websocket(bytes);
    }
}
