//! The byte stream behind a handshake.
//!
//! rustls asks a reader for 4 KiB at a time, which would be five reads for one record of 16 KiB. Here one read of the socket goes into
//! memory of the thread, and rustls is fed from there. As no more is read than the caller has room for, what rustls must keep is never
//! more than one record.

use std::cell::RefCell;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::Connection;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::certificate::Facts;
use crate::client_stream::Negotiated;
use crate::failure::io_error;
use crate::provider::Alpn;

/// Most bytes that one read of the socket takes: two records.
const READ: usize = 32 * 1024;

thread_local! {
    /// Where ciphertext lies between the socket and rustls; empty between calls.
    static CIPHERTEXT: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into_boxed_slice());
}

/// What was negotiated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// Cipher suite by its registered name.
    pub cipher: &'static str,
    /// Key exchange group; none when a TLS 1.2 session was resumed.
    pub group: Option<&'static str>,
    /// Name that the client asked for.
    pub sni: Option<Box<str>>,
    /// Application protocol.
    pub alpn: Option<Alpn>,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
    /// The peer's certificate, verified.
    pub peer: Option<Arc<Facts>>,
    /// A client's certificate and those that lead to its authority, as it sent them.
    pub client_chain: Vec<CertificateDer<'static>>,
}

/// A TLS connection over `S`. A read at its end is `Ok` only after the peer's `close_notify`; an end without one is
/// [`io::ErrorKind::UnexpectedEof`], because anyone on the path can close a TCP connection (RFC 8446 section 6.1).
///
/// A write is `Ready` when rustls has taken the bytes: only [`AsyncWrite::poll_flush`] says that they left.
#[derive(Debug)]
pub struct TlsStream<S> {
    io: S,
    tls: Connection,
    sent_close: bool,
    /// Bytes of ciphertext that the stream beneath took.
    sent: u64,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    pub(crate) fn new(io: S, tls: Connection) -> Self {
        TlsStream { io, tls, sent_close: false, sent: 0 }
    }

    /// The stream beneath.
    pub fn get_ref(&self) -> &S {
        &self.io
    }

    /// The application protocol that was agreed on.
    pub fn alpn(&self) -> Option<Alpn> {
        self.tls.alpn_protocol().and_then(Alpn::of_id)
    }

    /// What the handshake agreed on, without what the certificates say.
    pub fn negotiated(&self) -> Negotiated {
        Negotiated::of(&self.tls)
    }

    /// What was negotiated. A peer's certificate that was verified but cannot be read any further counts as none.
    pub fn session(&self) -> Session {
        let Negotiated { version, cipher, alpn, is_resumed } = self.negotiated();
        let peer = self.tls.peer_certificates().and_then(<[_]>::first);
        Session {
            version,
            cipher,
            group: self.tls.negotiated_key_exchange_group().and_then(|group| group.name().as_str()),
            sni: match &self.tls {
                Connection::Server(server) => server.server_name().map(Box::from),
                Connection::Client(_) => None,
            },
            alpn,
            is_resumed,
            peer: peer.and_then(|der| Facts::of_der(der).ok()).map(Arc::new),
            client_chain: match &self.tls {
                Connection::Server(server) => server.peer_certificates().unwrap_or_default().to_vec(),
                Connection::Client(_) => Vec::new(),
            },
        }
    }

    /// Bytes of ciphertext that left so far: the only sign of progress while rustls holds what it took.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Hands ciphertext that waits to `write`, which writes to the stream beneath in a way of its own. Returns how much it took.
    ///
    /// # Errors
    /// Those of `write`; none when nothing waits.
    pub fn send_by(&mut self, write: impl FnMut(&S, &[u8]) -> io::Result<usize>) -> io::Result<usize> {
        if !self.tls.wants_write() {
            return Ok(0);
        }
        let count = self.tls.write_tls(&mut By { io: &self.io, write })?;
        self.sent += count as u64;
        Ok(count)
    }

    /// Drives the handshake to its end, the last flight included.
    pub(crate) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_send(cx))?;
            if !self.tls.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            // Half of what is read otherwise: rustls keeps the plaintext that may follow the last flight, up to one record.
            let count = ready!(self.poll_receive(cx, READ / 2, &mut ReadBuf::new(&mut [])))?;
            if count == 0 && self.tls.is_handshaking() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Feeds ciphertext that was read before the connection existed.
    pub(crate) fn feed(&mut self, ciphertext: &[u8]) -> io::Result<()> {
        decrypt(&mut self.tls, ciphertext, &mut ReadBuf::new(&mut []))
    }

    /// Sends what rustls has to send. Ready when nothing is left.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Socket { io: &mut self.io, cx }) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => self.sent += count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads the socket once, at most `most` bytes, and decrypts them; plaintext goes into `plain` as far as it has room, the rest stays
    /// with rustls. Gives the number of bytes read: 0 is the end of the stream.
    fn poll_receive(&mut self, cx: &mut Context<'_>, most: usize, plain: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        CIPHERTEXT.with_borrow_mut(|memory| {
            let mut space = ReadBuf::new(&mut memory[..most.clamp(1, READ)]);
            ready!(Pin::new(&mut self.io).poll_read(cx, &mut space))?;
            let ciphertext = space.filled();
            if let Err(error) = decrypt(&mut self.tls, ciphertext, plain) {
                // The alert that says why; if it cannot leave at once the peer has to do without.
                let _ = self.poll_send(cx);
                return Poll::Ready(Err(error));
            }
            Poll::Ready(Ok(ciphertext.len()))
        })
    }

    /// Plaintext that is at hand. `None` when there is none yet.
    fn take_plaintext(&mut self, plain: &mut ReadBuf<'_>) -> io::Result<Option<usize>> {
        match self.tls.reader().read(plain.initialize_unfilled()) {
            Ok(count) => {
                plain.advance(count);
                Ok(Some(count))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Gives `ciphertext` to rustls, all of it; none at all is the end of the stream. What follows a `close_notify` is not read
/// (RFC 8446 section 6.1): rustls takes none of it, and it is dropped.
fn decrypt(tls: &mut Connection, mut ciphertext: &[u8], plain: &mut ReadBuf<'_>) -> io::Result<()> {
    loop {
        let is_end = ciphertext.is_empty();
        let taken = tls.read_tls(&mut ciphertext)?;
        let state = tls.process_new_packets().map_err(io_error)?;
        if state.plaintext_bytes_to_read() > 0 && plain.remaining() > 0 {
            let count = tls.reader().read(plain.initialize_unfilled())?;
            plain.advance(count);
        }
        if is_end || taken == 0 || ciphertext.is_empty() {
            return Ok(());
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        loop {
            // Also the way to learn of `close_notify` (`Some(0)`) and of an end without one (an error).
            if this.take_plaintext(buf)?.is_some() {
                return Poll::Ready(Ok(()));
            }
            ready!(this.poll_receive(cx, buf.remaining(), buf))?;
            // What rustls wants to say to what it read, such as the response to a key update. A full socket is for the next write to
            // wait for, and a broken one for it to report: what was read, an early response perhaps, must not be lost with it.
            let _ = this.poll_send(cx);
            if buf.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        // Back-pressure: nothing is encrypted while ciphertext waits.
        ready!(this.poll_send(cx))?;
        let taken = match bufs {
            [one] => this.tls.writer().write(one)?,
            many => this.tls.writer().write_vectored(many)?,
        };
        let _ = this.poll_send(cx)?;
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.io).poll_flush(cx)
    }

    /// Sends `close_notify`, then ends the writing side.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.sent_close {
            this.sent_close = true;
            this.tls.send_close_notify();
        }
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.io).poll_shutdown(cx)
    }
}

/// A socket as rustls writes to it.
struct Socket<'a, 'b, S> {
    io: &'a mut S,
    cx: &'a mut Context<'b>,
}

impl<S: AsyncWrite + Unpin> Write for Socket<'_, '_, S> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        ready_or_block(Pin::new(&mut *self.io).poll_write(self.cx, buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        ready_or_block(Pin::new(&mut *self.io).poll_write_vectored(self.cx, bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream that is written to by a function.
struct By<'a, S, W> {
    io: &'a S,
    write: W,
}

impl<S, W: FnMut(&S, &[u8]) -> io::Result<usize>> Write for By<'_, S, W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (self.write)(self.io, buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn ready_or_block<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}
