//! A client's connection on a socket that its owner reads and writes itself, without a runtime: from an event loop of its own, or blocking.
//!
//! One read of the socket goes into memory of the caller, and rustls is fed from there: rustls by itself reads 4 KiB at a time. Plaintext is shown to
//! the caller where rustls has it, and not copied.

use std::io::{self, BufRead, IoSlice, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, CommonState, HandshakeKind, ProtocolVersion};

use crate::failure::io_error;
use crate::provider::Alpn;

/// What a handshake agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// Cipher suite by its registered name.
    pub cipher: &'static str,
    /// Application protocol.
    pub alpn: Option<Alpn>,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
}

impl Negotiated {
    pub(crate) fn of(state: &CommonState) -> Self {
        let suite = state.negotiated_cipher_suite();
        Negotiated {
            version: match state.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                _ => "TLSv1.2",
            },
            cipher: suite.and_then(|suite| suite.suite().as_str()).unwrap_or("unknown"),
            alpn: state.alpn_protocol().and_then(Alpn::of_id),
            is_resumed: state.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }
}

/// A client's connection over `S`. The handshake goes on by itself with [`ClientStream::receive`] and [`ClientStream::flush`].
#[derive(Debug)]
pub struct ClientStream<S> {
    io: S,
    tls: ClientConnection,
    received_close: bool,
}

impl<S: Read + Write> ClientStream<S> {
    /// Begins a connection: the ClientHello waits for [`ClientStream::flush`].
    ///
    /// # Errors
    /// What rustls cannot do with the configuration; [`crate::Failure::of_io`] names it.
    pub fn new(io: S, config: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Self> {
        let tls = ClientConnection::new(config, name).map_err(io_error)?;
        Ok(ClientStream { io, tls, received_close: false })
    }

    /// The socket.
    pub fn get_ref(&self) -> &S {
        &self.io
    }

    /// Whether the handshake is not complete. When it is, its last flight may still wait for [`ClientStream::flush`], so that it leaves in one
    /// write with the first request.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// What the handshake agreed on, once it is complete.
    pub fn negotiated(&self) -> Negotiated {
        Negotiated::of(&self.tls)
    }

    /// Whether the peer has sent `close_notify`: an end of the stream without it may be a truncation (RFC 8446 section 6.1).
    pub fn received_close(&self) -> bool {
        self.received_close
    }

    /// Whether bytes wait for [`ClientStream::flush`].
    pub fn wants_write(&self) -> bool {
        self.tls.wants_write()
    }

    /// Reads the socket once, into `memory`, and shows what that decrypts to, in pieces. Gives the number of bytes read, fewer than `memory` has
    /// when the socket is empty; 0 is the end of the stream. What rustls wants to send for it waits for [`ClientStream::flush`].
    ///
    /// # Errors
    /// Those of the socket; or a violation of TLS or an alert, which [`crate::Failure::of_io`] names: the peer has then been sent the alert.
    /// What came before it has been shown.
    pub fn receive(&mut self, memory: &mut [u8], show: impl FnMut(&[u8])) -> io::Result<usize> {
        let length = self.io.read(memory)?;
        if let Err(error) = self.decrypt(&memory[..length], show) {
            // If the alert cannot leave at once the peer has to do without.
            let _ = self.flush();
            return Err(error);
        }
        Ok(length)
    }

    /// Gives all of `ciphertext` to rustls. What follows a `close_notify` is not read: rustls takes none of it, and it is dropped.
    fn decrypt(&mut self, mut ciphertext: &[u8], mut show: impl FnMut(&[u8])) -> io::Result<()> {
        while !ciphertext.is_empty() && !self.received_close {
            let taken = self.tls.read_tls(&mut ciphertext)?;
            let processed = self.tls.process_new_packets();
            let mut reader = self.tls.reader();
            // Records before a broken one are shown. The end and the lack of bytes are told otherwise.
            while let Ok(plain) = reader.fill_buf()
                && !plain.is_empty()
            {
                let length = plain.len();
                show(plain);
                reader.consume(length);
            }
            let state = processed.map_err(io_error)?;
            self.received_close = state.peer_has_closed();
            if taken == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Encrypts as much as rustls has room for (64 KiB), pieces together in as few records as they fit into. Nothing is sent before
    /// [`ClientStream::flush`].
    ///
    /// # Errors
    /// None in practice.
    pub fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.tls.writer().write_vectored(pieces)
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// Those of the socket; [`io::ErrorKind::WouldBlock`] when it took a part only.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.io) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Says that nothing more will be sent (`close_notify`), as far as the socket takes that at once. To be called before the socket is closed.
    pub fn close(&mut self) {
        self.tls.send_close_notify();
        let _ = self.flush();
    }
}
