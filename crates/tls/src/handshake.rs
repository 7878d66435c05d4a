//! Handshakes on a socket. Deadlines, and how many handshakes run at once, are the caller's business.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use rustls::pki_types::ServerName;
use rustls::server::{Accepted, Acceptor};
use rustls::{ClientConfig, ClientConnection, Connection, PeerIncompatible};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::failure::{NotTls, UnknownName, io_error};
use crate::server::Listener;
use crate::stream::TlsStream;

/// Most bytes of a ClientHello. Real ones are below 2 KiB, with a post-quantum key share below 4 KiB.
const MAX_HELLO: usize = 16 * 1024;
/// A fatal alert `unrecognized_name` (RFC 6066 section 3) as a whole record.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Bytes of a ClientHello up to the end of its `client_version`: record header, handshake header, version (RFC 5246 sections 6.2.1 and 7.4).
const UP_TO_VERSION: usize = 5 + 4 + 2;

/// A client that said what it wants. Reading this far costs little; [`Hello::finish`] makes a signature.
pub struct Hello<S> {
    io: S,
    accepted: Accepted,
    /// What came behind the ClientHello.
    rest: Vec<u8>,
}

/// Reads a ClientHello. A client whose first byte is a letter speaks another protocol, HTTP without TLS most likely: it is sent `not_tls`.
///
/// # Errors
/// Bytes that are none; [`crate::Failure::of_io`] says what they were.
pub async fn hello<S: AsyncRead + AsyncWrite + Unpin>(mut io: S, not_tls: &[u8]) -> io::Result<Hello<S>> {
    let mut acceptor = Acceptor::default();
    let mut memory = [0; 4096];
    let mut total = 0;
    let mut start = [0; UP_TO_VERSION];
    loop {
        let mut space = ReadBuf::new(&mut memory);
        poll_fn(|cx| Pin::new(&mut io).poll_read(cx, &mut space)).await?;
        let mut ciphertext = space.filled();
        if ciphertext.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if total == 0 && ciphertext[0].is_ascii_alphabetic() && !not_tls.is_empty() {
            send_last(&mut io, not_tls).await;
            return Err(NotTls.into());
        }
        if let Some(missing) = start.get_mut(total..) {
            let size = missing.len().min(ciphertext.len());
            missing[..size].copy_from_slice(&ciphertext[..size]);
        }
        total += ciphertext.len();
        while !ciphertext.is_empty() {
            acceptor.read_tls(&mut ciphertext)?;
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(Hello { io, accepted, rest: ciphertext.to_vec() }),
                Ok(None) => {}
                Err((error, mut alert)) => {
                    let mut bytes = Vec::new();
                    match protocol_version_alert(&error, start) {
                        Some(alert) => bytes.extend(alert),
                        None => drop(alert.write_all(&mut bytes)?),
                    }
                    send_last(&mut io, &bytes).await;
                    return Err(io_error(error));
                }
            }
        }
        if total > MAX_HELLO {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the ClientHello is larger than 16 KiB"));
        }
    }
}

/// A client of TLS 1.1 or older must get `protocol_version` (RFC 5246 appendix E.1), in a record of a version that it knows. rustls sends
/// `handshake_failure`, because it first misses an extension that such clients do not have.
fn protocol_version_alert(error: &rustls::Error, hello: [u8; UP_TO_VERSION]) -> Option<[u8; 7]> {
    let [.., major, minor] = hello;
    let is_old =
        matches!(error, rustls::Error::PeerIncompatible(PeerIncompatible::SignatureAlgorithmsExtensionRequired))
            && (major, minor) < (3, 3);
    is_old.then_some([21, 3, minor, 0, 2, 2, 70])
}

impl<S: AsyncRead + AsyncWrite + Unpin> Hello<S> {
    /// The name that the client asks for.
    pub fn server_name(&self) -> Option<String> {
        self.accepted.client_hello().server_name().map(str::to_owned)
    }

    /// Completes the handshake as `listener` has it.
    ///
    /// # Errors
    /// Why there is no connection. The client has been sent the alert for it.
    pub async fn finish(mut self, listener: &Listener) -> io::Result<TlsStream<S>> {
        let Some(config) = listener.config_for(self.accepted.client_hello().server_name()) else {
            send_last(&mut self.io, &UNRECOGNIZED_NAME).await;
            return Err(UnknownName.into());
        };
        let server = match self.accepted.into_connection(config) {
            Ok(server) => server,
            Err((error, mut alert)) => {
                let mut bytes = Vec::new();
                alert.write_all(&mut bytes)?;
                send_last(&mut self.io, &bytes).await;
                return Err(io_error(error));
            }
        };
        let mut stream = TlsStream::new(self.io, Connection::Server(server));
        if !self.rest.is_empty()
            && let Err(error) = stream.feed(&self.rest)
        {
            // The alert, if it can leave at once.
            poll_fn(|cx| Poll::Ready(stream.poll_send(cx).is_ready())).await;
            return Err(error);
        }
        poll_fn(|cx| stream.poll_handshake(cx)).await?;
        Ok(stream)
    }
}

/// Both halves of accepting a connection.
///
/// # Errors
/// Why there is none.
pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(io: S, listener: &Listener) -> io::Result<TlsStream<S>> {
    hello(io, b"").await?.finish(listener).await
}

/// Connects as a client: the peer's certificate must be valid for `name`.
///
/// # Errors
/// Why there is no connection; [`crate::Failure::of_io`] names it.
pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    io: S,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
) -> io::Result<TlsStream<S>> {
    let client = ClientConnection::new(config, name).map_err(io_error)?;
    let mut stream = TlsStream::new(io, Connection::Client(client));
    poll_fn(|cx| stream.poll_handshake(cx)).await?;
    Ok(stream)
}

/// An alert and the end of the stream, for a peer that takes it at once; it is closed anyway.
async fn send_last<S: AsyncWrite + Unpin>(io: &mut S, bytes: &[u8]) {
    if io.write_all(bytes).await.is_ok() {
        let _ = io.shutdown().await;
    }
}
