//! A client's connection without a runtime, against a server of rustls in the same thread: what one side sends the other gets as the test says.

mod common;

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::sync::{Arc, Mutex};

use common::Authority;
use rustls::{ServerConfig, ServerConnection};
use tls::client::{self, Options, Roots, server_name};
use tls::{ClientStream, Failure, Version};

/// A socket in memory: bytes towards the client, and those that it sent, one piece for each call.
#[derive(Debug, Clone, Default)]
struct Socket(Arc<Mutex<Ends>>);

#[derive(Debug, Default)]
struct Ends {
    to_client: VecDeque<u8>,
    closed: bool,
    sent: Vec<Vec<u8>>,
    /// Most bytes that a write takes; none: all.
    room: Option<usize>,
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut ends = self.0.lock().unwrap();
        match ends.to_client.read(buf)? {
            0 if !ends.closed => Err(io::ErrorKind::WouldBlock.into()),
            length => Ok(length),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut ends = self.0.lock().unwrap();
        let mut bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        if let Some(room) = &mut ends.room {
            bytes.truncate(*room);
            *room -= bytes.len();
        }
        if bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let length = bytes.len();
        ends.sent.push(bytes);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Pair {
    socket: Socket,
    client: ClientStream<Socket>,
    server: ServerConnection,
    memory: Vec<u8>,
}

impl Pair {
    fn new(version: Version) -> Self {
        let authority = Authority::new();
        let (chain, key) = authority.files(&["a.test"], &rcgen::PKCS_ECDSA_P256_SHA256, |_| {});
        use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
        let chain = CertificateDer::pem_file_iter(chain).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        let server = ServerConfig::builder_with_provider(tls::provider::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap())
            .unwrap();
        let options =
            Options { roots: Roots::These(vec![authority.der()]), max_version: version, ..Options::default() };
        let socket = Socket::default();
        let client =
            ClientStream::new(socket.clone(), client::config(&options).unwrap(), server_name("a.test").unwrap());
        let server = ServerConnection::new(Arc::new(server)).unwrap();
        Pair { socket, client: client.unwrap(), server, memory: vec![0; 64 * 1024] }
    }

    /// What the client sent goes to the server, and what the server sends goes to the client's socket.
    fn exchange(&mut self) -> Vec<u8> {
        let mut got = Vec::new();
        let sent = std::mem::take(&mut self.socket.0.lock().unwrap().sent).concat();
        let mut sent = &sent[..];
        while !sent.is_empty() {
            self.server.read_tls(&mut sent).unwrap();
            self.server.process_new_packets().unwrap();
            let _ = self.server.reader().read_to_end(&mut got);
        }
        self.send();
        got
    }

    fn send(&mut self) {
        let mut out = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut out).unwrap();
        }
        self.socket.0.lock().unwrap().to_client.extend(out);
    }

    /// Reads until the socket is empty.
    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        loop {
            match self.client.receive(&mut self.memory, |piece| plain.extend_from_slice(piece)) {
                Ok(0) => return Ok(plain),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(plain),
                Err(error) => return Err(error),
            }
        }
    }

    fn handshake(&mut self) {
        while self.client.is_handshaking() {
            self.client.flush().unwrap();
            self.exchange();
            self.receive().unwrap();
        }
    }
}

#[test]
fn the_last_flight_and_the_first_request_leave_in_one_write() {
    let mut pair = Pair::new(Version::Tls13);
    pair.handshake();
    assert_eq!((pair.client.negotiated().version, pair.client.negotiated().is_resumed), ("TLSv1.3", false));
    assert!(pair.client.wants_write(), "the last flight waits");
    let pieces = [IoSlice::new(b"head "), IoSlice::new(b"body")];
    assert_eq!(pair.client.write(&pieces).unwrap(), 9);
    pair.client.flush().unwrap();
    assert_eq!(pair.socket.0.lock().unwrap().sent.len(), 1);
    assert_eq!(pair.exchange(), b"head body");

    pair.client.write(&pieces).unwrap();
    pair.client.flush().unwrap();
    let sent = pair.socket.0.lock().unwrap().sent.concat();
    assert_eq!(usize::from(u16::from_be_bytes([sent[3], sent[4]])) + 5, sent.len(), "one record: {sent:02x?}");
}

#[test]
fn bytes_that_come_one_by_one_and_many_records_at_once_are_the_same() {
    for version in [Version::Tls12, Version::Tls13] {
        let mut pair = Pair::new(version);
        pair.handshake();
        pair.client.flush().unwrap();
        pair.exchange();
        let text: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
        pair.server.set_buffer_limit(None);
        pair.server.writer().write_all(&text).unwrap();
        pair.send();
        assert_eq!(pair.receive().unwrap(), text, "{version:?}");
        pair.server.writer().write_all(&text[..40_000]).unwrap();
        pair.send();
        pair.memory.truncate(1);
        assert_eq!(pair.receive().unwrap(), &text[..40_000], "{version:?}");
    }
}

#[test]
fn an_end_is_clean_only_after_close_notify() {
    let mut pair = Pair::new(Version::Tls13);
    pair.handshake();
    pair.client.flush().unwrap();
    pair.exchange();
    pair.server.writer().write_all(b"last").unwrap();
    pair.send();
    pair.socket.0.lock().unwrap().closed = true;
    assert_eq!(pair.receive().unwrap(), b"last");
    assert!(!pair.client.received_close());
    pair.socket.0.lock().unwrap().closed = false;
    pair.server.send_close_notify();
    pair.send();
    pair.socket.0.lock().unwrap().to_client.extend(b"what follows is not read");
    pair.receive().unwrap();
    assert!(pair.client.received_close());
}

#[test]
fn what_the_socket_does_not_take_waits() {
    let mut pair = Pair::new(Version::Tls13);
    pair.handshake();
    pair.client.flush().unwrap();
    pair.exchange();
    let body = vec![7; 1 << 20];
    let mut taken = pair.client.write(&[IoSlice::new(&body)]).unwrap();
    assert!((1..128 * 1024).contains(&taken), "bounded: {taken}");
    pair.socket.0.lock().unwrap().room = Some(1000);
    assert_eq!(pair.client.flush().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    pair.socket.0.lock().unwrap().room = None;
    pair.client.flush().unwrap();
    while taken < body.len() {
        taken += pair.client.write(&[IoSlice::new(&body[taken..])]).unwrap();
        pair.client.flush().unwrap();
    }
    assert_eq!(pair.exchange(), body);
}

#[test]
fn what_came_before_a_broken_record_is_shown_and_the_peer_gets_an_alert() {
    let mut pair = Pair::new(Version::Tls13);
    pair.handshake();
    pair.client.flush().unwrap();
    pair.exchange();
    pair.receive().unwrap();
    pair.server.writer().write_all(b"whole").unwrap();
    pair.send();
    pair.socket.0.lock().unwrap().to_client.extend([23, 3, 3, 0, 20].iter().chain(&[0; 20]));
    let mut plain = Vec::new();
    let error = pair.client.receive(&mut pair.memory, |piece| plain.extend_from_slice(piece)).unwrap_err();
    assert_eq!((&plain[..], Failure::of_io(&error)), (&b"whole"[..], Failure::Protocol));
    assert!(!pair.socket.0.lock().unwrap().sent.is_empty());

    let mut pair = Pair::new(Version::Tls13);
    pair.client.flush().unwrap();
    pair.socket.0.lock().unwrap().to_client.extend(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert_eq!(Failure::of_io(&pair.receive().unwrap_err()), Failure::NotTls);
}

#[test]
fn versions_have_both_ends() {
    let mut pair = Pair::new(Version::Tls12);
    pair.handshake();
    assert_eq!(pair.client.negotiated().version, "TLSv1.2");
    let none = Options { min_version: Version::Tls13, max_version: Version::Tls12, ..Options::default() };
    assert!(client::config(&Options { verify: false, ..none }).is_err());
}
