//! Connections with TLS. What differs from plain ones: a handshake before the first request, ciphertext where the others read plaintext, and an end of
//! the stream that counts only after `close_notify`.

use std::io;

use tls::Failure as TlsFailure;

use super::{Http1, Progress, READ};
use crate::load::engine::clock;
use crate::load::engine::pacer::Pacer;
use crate::load::engine::recorder::Failure;
use crate::load::prepare::Secure;

impl Http1 {
    /// Begins the handshake on a connection that has been opened.
    pub(super) fn secure(&mut self, pacer: &mut Pacer<'_>, index: usize, secure: &Secure) {
        if let Err(error) = self.connections[index].secure(secure) {
            self.fail_tls(pacer, index, || secure.reason(&error));
        }
    }

    fn fail_tls(&mut self, pacer: &mut Pacer<'_>, index: usize, reason: impl FnOnce() -> String) {
        pacer.note_tls_error(self.slot_of(index), reason);
        self.fail(pacer, index, Failure::Tls);
    }

    /// An error of the socket or of TLS.
    fn broken(&mut self, pacer: &mut Pacer<'_>, index: usize, secure: &Secure, error: &io::Error) {
        let connection = &self.connections[index];
        if !connection.is_active() {
            return self.connections[index].close();
        }
        let of_socket = matches!(TlsFailure::of_io(error), TlsFailure::Io | TlsFailure::Closed);
        if of_socket && !connection.is_handshaking() {
            return self.fail(pacer, index, Failure::Reset);
        }
        self.fail_tls(pacer, index, || secure.reason(error));
    }

    /// The handshake is complete: the request goes out, in one write with the handshake's last flight.
    fn secured(&mut self, pacer: &mut Pacer<'_>, index: usize, secure: &Secure) {
        let (slot, connection) = (self.slot_of(index), &mut self.connections[index]);
        let Some(negotiated) = connection.negotiated() else { return };
        let took = connection.secured();
        pacer.handshaken(slot, took, &negotiated);
        match secure.mismatch(&negotiated) {
            Some(mismatch) => self.fail_tls(pacer, index, || mismatch),
            None => self.begin_on(pacer, slot, index),
        }
    }

    /// [`Http1::read`] of a connection with TLS.
    pub(super) fn read_tls(&mut self, pacer: &mut Pacer<'_>, index: usize, closed: bool) {
        let slot = self.slot_of(index);
        let Some(secure) = &self.authority(pacer, index).secure else { return };
        let (operation, prepared) = (pacer.operation(slot), pacer.prepared);
        loop {
            let connection = &mut self.connections[index];
            let Some(mut tls) = connection.take_tls() else { return };
            // Plaintext may come only in response to a request.
            let awaited = connection.is_active() && !connection.is_handshaking();
            let (mut progress, mut unasked) = (Progress::More, false);
            let heads = &mut self.heads;
            let received = tls.receive(&mut self.buffer, |plain| match progress {
                // Frames may come at any time.
                _ if connection.is_websocket() => match connection.feed(plain, operation, prepared, heads) {
                    Progress::More => {}
                    further => progress = further,
                },
                Progress::More if awaited => progress = connection.feed(plain, operation, prepared, heads),
                // Behind the end of the response, the next one would begin in the wrong place.
                Progress::Done => progress = Progress::Bad,
                Progress::More | Progress::Bad | Progress::Upgraded(_) | Progress::Closed => unasked = true,
            });
            let (is_handshaking, is_closed) = (tls.is_handshaking(), tls.received_close());
            connection.put_tls(tls);
            let length = match received {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Its response had come.
                Err(_) if progress == Progress::Done => return self.finish(pacer, index, clock::now(), true),
                Err(error) => return self.broken(pacer, index, secure, &error),
            };
            let ended = length == 0 || is_closed;
            if self.connections[index].is_handshaking() {
                if is_handshaking && ended {
                    return self.fail_tls(pacer, index, || secure.closed());
                }
                if !is_handshaking {
                    self.secured(pacer, index, secure);
                } else if let Err(error) = self.connections[index].flush() {
                    return self.broken(pacer, index, secure, &error);
                }
            } else if let Err(error) = self.connections[index].flush() {
                // What TLS itself has to say, such as the response to a key update. Where the response has come, that counts.
                if progress != Progress::Done {
                    return self.broken(pacer, index, secure, &error);
                }
            }
            let connection = &mut self.connections[index];
            if !connection.is_active() && connection.is_websocket() && (!ended || connection.is_broken()) {
                // The next message fails, and says so.
                if connection.is_broken() {
                    return;
                }
                if self.after_idle(pacer, index, operation) && (length == READ || closed) {
                    continue;
                }
                return;
            }
            connection.flush_frames(operation);
            if !connection.is_active() {
                // The server closes an idle connection, or sends what was not requested. Tickets may come at any time.
                if unasked || ended {
                    return connection.close();
                }
            } else if unasked {
                return self.fail(pacer, index, Failure::InvalidResponse);
            }
            match progress {
                Progress::Done => return self.finish(pacer, index, clock::now(), closed || ended),
                Progress::Bad => return self.fail(pacer, index, Failure::InvalidResponse),
                Progress::Closed => return self.fail(pacer, index, Failure::Closed),
                Progress::Upgraded(took) => {
                    self.upgraded(pacer, index, took);
                    if length < READ && !closed {
                        return;
                    }
                }
                Progress::More if ended && connection.is_active() => match connection.end_of_stream() {
                    Progress::Done if is_closed => return self.finish(pacer, index, clock::now(), true),
                    Progress::Done => return self.fail_tls(pacer, index, || secure.truncated()),
                    Progress::Closed => return self.fail(pacer, index, Failure::Closed),
                    _ => return self.fail(pacer, index, Failure::Reset),
                },
                Progress::More if length < READ && !closed => return,
                Progress::More => {}
            }
        }
    }
}
