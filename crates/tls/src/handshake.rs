//! Handshakes on a socket. Deadlines, and how many handshakes run at once, are the caller's business.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use rustls::pki_types::ServerName;
use rustls::server::{Accepted, Acceptor};
use rustls::{ClientConfig, ClientConnection, Connection, PeerIncompatible};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::failure::{NotTls, UnknownName, io_error};
use crate::server::Listener;
use crate::stream::TlsStream;

/// Most bytes of a ClientHello. Real ones are below 2 KiB, with a post-quantum key share below 4 KiB.
const MAX_HELLO: usize = 16 * 1024;
/// Most bytes of a record in clear text (RFC 8446 section 5.1).
const MAX_RECORD: usize = 1 << 14;
/// A fatal alert `unrecognized_name` (RFC 6066 section 3) as a whole record.
const UNRECOGNIZED_NAME: [u8; 7] = alert(112);
/// The same for bytes that are not what comes first: `unexpected_message` (RFC 8446 section 6.2).
const UNEXPECTED_MESSAGE: [u8; 7] = alert(10);
/// The same for a ClientHello that is too large: `illegal_parameter`, as of other implementations.
const ILLEGAL_PARAMETER: [u8; 7] = alert(47);

/// Type of a record with an alert.
const ALERT: u8 = 21;

/// A fatal alert in clear text, as a whole record.
const fn alert(description: u8) -> [u8; 7] {
    [ALERT, 3, 3, 0, 2, 2, description]
}

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
    let received = read_hello(&mut io, not_tls).await?;
    let mut acceptor = Acceptor::default();
    let mut ciphertext = &received[..];
    loop {
        if ciphertext.is_empty() {
            // `read_hello` ends with a whole ClientHello, or with bytes that begin none of a size that is taken.
            send_last(&mut io, &ILLEGAL_PARAMETER).await;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the ClientHello is invalid or larger than 16 KiB"));
        }
        acceptor.read_tls(&mut ciphertext)?;
        match acceptor.accept() {
            Ok(Some(accepted)) => return Ok(Hello { io, accepted, rest: ciphertext.to_vec() }),
            Ok(None) => {}
            Err((error, mut alert)) => {
                let mut bytes = Vec::new();
                match protocol_version_alert(&error, &received) {
                    Some(alert) => bytes.extend(alert),
                    None => drop(alert.write_all(&mut bytes)?),
                }
                // rustls has none for bytes that are no ClientHello at all; an alert gets none.
                if bytes.is_empty() && received.first() != Some(&ALERT) {
                    bytes.extend(UNEXPECTED_MESSAGE);
                }
                send_last(&mut io, &bytes).await;
                return Err(io_error(error));
            }
        }
    }
}

/// Bytes up to the end of a ClientHello at least, or up to the point where they can be none. What waits here costs a client nothing, so it costs
/// the gateway little: rustls' buffers come when the ClientHello is complete.
async fn read_hello<S: AsyncRead + AsyncWrite + Unpin>(io: &mut S, not_tls: &[u8]) -> io::Result<Vec<u8>> {
    let mut received = Vec::new();
    loop {
        let is_open = poll_fn(|cx| {
            let mut memory = [MaybeUninit::uninit(); 4096];
            let mut space = ReadBuf::uninit(&mut memory);
            ready!(Pin::new(&mut *io).poll_read(cx, &mut space))?;
            // No more than there is: most clients that stop here have sent some bytes.
            received.reserve_exact(space.filled().len());
            received.extend_from_slice(space.filled());
            Poll::Ready(io::Result::Ok(!space.filled().is_empty()))
        });
        if !is_open.await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if received[0].is_ascii_alphabetic() && !not_tls.is_empty() {
            send_last(io, not_tls).await;
            return Err(NotTls.into());
        }
        if !is_incomplete_hello(&received) {
            return Ok(received);
        }
        if received.len() > MAX_HELLO {
            send_last(io, &ILLEGAL_PARAMETER).await;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the ClientHello is larger than 16 KiB"));
        }
    }
}

/// Whether these bytes begin a ClientHello without its end (RFC 8446 sections 4 and 5.1). It may lie in several records. Bytes that can be none are
/// not: rustls says what is wrong with them.
fn is_incomplete_hello(mut records: &[u8]) -> bool {
    const HANDSHAKE: u8 = 22;
    const CLIENT_HELLO: u8 = 1;
    // What was read of the message, and its header.
    let (mut read, mut header) = (0, [0; 4]);
    loop {
        match records {
            [HANDSHAKE, 3, _, high, low, rest @ ..] => {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                if length == 0 || length > MAX_RECORD {
                    return false;
                }
                let piece = &rest[..length.min(rest.len())];
                if let Some(missing) = header.get_mut(read..) {
                    let size = missing.len().min(piece.len());
                    missing[..size].copy_from_slice(&piece[..size]);
                }
                read += piece.len();
                let [kind, size @ ..] = header;
                let size = size.iter().fold(0, |size, byte| size << 8 | usize::from(*byte));
                if read >= 1 && kind != CLIENT_HELLO
                    || read >= header.len() && (size > MAX_HELLO || read >= header.len() + size)
                {
                    return false;
                }
                if rest.len() < length {
                    return true;
                }
                records = &rest[length..];
            }
            // The start of a record's header.
            [] | [HANDSHAKE] | [HANDSHAKE, 3] | [HANDSHAKE, 3, _] | [HANDSHAKE, 3, _, _] => return true,
            _ => return false,
        }
    }
}

/// A client of TLS 1.1 or older must get `protocol_version` (RFC 5246 appendix E.1), in a record of a version that it knows. rustls sends
/// `handshake_failure`, because it first misses an extension that such clients do not have.
fn protocol_version_alert(error: &rustls::Error, hello: &[u8]) -> Option<[u8; 7]> {
    let &[.., major, minor] = hello.first_chunk::<UP_TO_VERSION>()?;
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

#[cfg(test)]
mod tests {
    use super::{MAX_HELLO, is_incomplete_hello};

    fn record(content: u8, body: &[u8]) -> Vec<u8> {
        [&[content, 3, 1][..], &(body.len() as u16).to_be_bytes(), body].concat()
    }

    fn message(kind: u8, length: usize) -> Vec<u8> {
        [&[kind][..], &(length as u32).to_be_bytes()[1..], &vec![7; length]].concat()
    }

    #[test]
    fn a_client_hello_is_complete_at_its_last_byte_in_any_number_of_records() {
        let hello = message(1, 300);
        for size in [1, 2, 3, 4, 5, 100, 303, 304] {
            let records = hello.chunks(size).map(|piece| record(22, piece)).collect::<Vec<_>>().concat();
            for end in 0..records.len() {
                assert!(is_incomplete_hello(&records[..end]), "{end} bytes, records of {size}");
            }
            assert!(!is_incomplete_hello(&records), "records of {size}");
        }
    }

    #[test]
    fn what_can_be_no_client_hello_is_not_waited_for() {
        let others: [&[u8]; 6] =
            [b"GET", &[21, 3], &[22, 2], &record(22, &[2]), &[22, 3, 1, 0, 0], &[22, 3, 1, 0x40, 1]];
        for bytes in others {
            assert!(!is_incomplete_hello(bytes), "{bytes:?}");
        }
        let too_long = message(1, MAX_HELLO + 1);
        assert!(!is_incomplete_hello(&record(22, &too_long[..4])));
        assert!(is_incomplete_hello(&record(22, &too_long[..3])));
    }
}
