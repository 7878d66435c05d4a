//! A client that sends exactly the bytes it is told and reads strictly.

use std::net::{IpAddr, Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use crate::http::{BodyReader, Head, Message, Piece, read_response_head};
use crate::pattern::Checker;
use crate::wire::Wire;
use crate::{Address, DEADLINE, Framing, WireError};

/// One connection. Methods panic, with what arrived so far, when what they wait for does not come before the deadline (of each
/// call); those named `try_` return the error instead.
#[derive(Debug)]
pub struct RawClient {
    wire: Wire,
    body: BodyReader,
}

impl RawClient {
    /// Connects over TCP, or to a Unix socket.
    #[track_caller]
    pub fn connect(to: impl Into<Address>) -> Self {
        let to = to.into();
        Self::try_connect(to.clone(), None).unwrap_or_else(|error| panic!("cannot connect to {to}: {error}"))
    }

    /// Connects from another address of this machine: all of 127.0.0.0/8 are.
    #[track_caller]
    pub fn connect_from(local: IpAddr, to: impl Into<Address>) -> Self {
        let to = to.into();
        Self::try_connect(to.clone(), Some(local)).unwrap_or_else(|error| panic!("cannot connect to {to}: {error}"))
    }

    /// Connects, or says why not.
    pub fn try_connect(to: impl Into<Address>, local: Option<IpAddr>) -> Result<Self, WireError> {
        Ok(Self { wire: Wire::connect(&to.into(), local, DEADLINE)?, body: BodyReader::new(Framing::None) })
    }

    /// The address and port of this end; a Unix socket has none. What the gateway takes for the client's.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.wire.local_addr()
    }

    /// Sets how long each of the following calls may take.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.wire.deadline = deadline;
    }

    /// Sends the bytes in one piece.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap_or_else(|error| panic!("cannot send: {error}{}", self.unread()));
    }

    /// Sends the bytes in one piece, or says why that failed: the peer may well have responded and closed.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), WireError> {
        self.wire.write(bytes.as_ref())
    }

    /// Sends the bytes in pieces that end at the given offsets, each piece with a write of its own. The kernel sends each at once
    /// (TCP_NODELAY), but a busy receiver may find several together.
    pub fn try_send_split(&mut self, bytes: &[u8], cuts: &[usize]) -> Result<(), WireError> {
        let mut from = 0;
        for to in cuts.iter().copied().chain([bytes.len()]) {
            self.wire.write(&bytes[from..to])?;
            from = to;
            // Gives the receiver a chance to read this piece alone.
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Sends one byte at a time. A peer that has heard enough may close: that is not a failure here.
    pub fn send_bytewise(&mut self, bytes: &[u8]) {
        let cuts: Vec<usize> = (1..bytes.len()).collect();
        let _ = self.try_send_split(bytes, &cuts);
    }

    /// Sends in pieces whose sizes follow from `seed`: the same seed, the same pieces. A peer that closes is no failure here.
    pub fn send_random_splits(&mut self, bytes: &[u8], seed: u64) {
        let _ = self.try_send_split(bytes, &random_cuts(bytes.len(), seed));
    }

    /// Sends `length` bytes of the [`crate::pattern`], from offset 0.
    pub fn try_send_pattern(&mut self, length: u64) -> Result<(), WireError> {
        self.wire.write_pattern(length)
    }

    /// Sends the pattern until the peer has taken nothing for `quiet`, at most `limit` bytes; returns how many it took: what
    /// the buffers between here and whoever does not read will hold.
    pub fn send_until_blocked(&mut self, limit: u64, quiet: Duration) -> Result<u64, WireError> {
        self.wire.write_until_blocked(limit, quiet)
    }

    /// Sends a request: request line, `Host: test` unless a field says otherwise, the fields, and a body with its
    /// Content-Length when it is not empty.
    #[track_caller]
    pub fn request(&mut self, method: &str, target: &str, fields: &[(&str, &str)], body: impl AsRef<[u8]>) {
        let body = body.as_ref();
        let mut bytes = format!("{method} {target} HTTP/1.1\r\n");
        if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            bytes += "Host: test\r\n";
        }
        for (name, value) in fields {
            bytes += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            bytes += &format!("Content-Length: {}\r\n", body.len());
        }
        self.send([bytes.as_bytes(), b"\r\n", body].concat());
    }

    /// Sends a GET and reads its response.
    #[track_caller]
    pub fn get(&mut self, target: &str) -> Message {
        self.request("GET", target, &[], "");
        self.read_response()
    }

    /// Reads a whole response to anything but HEAD, with the interim (1xx) responses before it. 101 ends the reading of
    /// messages: it is returned as the response.
    #[track_caller]
    pub fn read_response(&mut self) -> Message {
        self.read_response_to("GET")
    }

    /// Reads a whole response to a request with this method (HEAD has no body).
    #[track_caller]
    pub fn read_response_to(&mut self, method: &str) -> Message {
        self.try_read_response_to(method).unwrap_or_else(|error| panic!("no response: {error}{}", self.unread()))
    }

    /// Like [`RawClient::read_response`], with the error.
    pub fn try_read_response(&mut self) -> Result<Message, WireError> {
        self.try_read_response_to("GET")
    }

    /// Like [`RawClient::read_response_to`], with the error.
    pub fn try_read_response_to(&mut self, method: &str) -> Result<Message, WireError> {
        let mut interim = Vec::new();
        let (head, framing) = loop {
            let (head, framing) = self.try_read_head(method)?;
            if head.status() >= 200 || head.status() == 101 {
                break (head, framing);
            }
            interim.push(head);
        };
        let mut response = Message::new(head, framing);
        response.interim = interim;
        let end = self.wire.end();
        while let Some(piece) = self.body.next(&mut self.wire, end)? {
            response.pieces.push((piece.data.len(), piece.at));
            response.body.extend_from_slice(&piece.data);
        }
        response.trailers = std::mem::take(&mut self.body.trailers);
        Ok(response)
    }

    /// Reads the next head alone, interim ones included; then comes its body with [`RawClient::read_piece`],
    /// [`RawClient::read_body`] or [`RawClient::try_read_pattern`].
    #[track_caller]
    pub fn read_head(&mut self) -> Head {
        self.try_read_head("GET").unwrap_or_else(|error| panic!("no head: {error}{}", self.unread())).0
    }

    /// Reads the next head of a response to `method`, with the framing of the body that follows.
    pub fn try_read_head(&mut self, method: &str) -> Result<(Head, Framing), WireError> {
        let end = self.wire.end();
        let (head, framing) = read_response_head(&mut self.wire, method, end)?;
        self.body = BodyReader::new(framing);
        Ok((head, framing))
    }

    /// Waits for the next piece of the body; `None` at its end.
    #[track_caller]
    pub fn read_piece(&mut self) -> Option<Piece> {
        self.try_read_piece().unwrap_or_else(|error| panic!("no piece of the body: {error}{}", self.unread()))
    }

    /// Like [`RawClient::read_piece`], with the error.
    pub fn try_read_piece(&mut self) -> Result<Option<Piece>, WireError> {
        let end = self.wire.end();
        self.body.next(&mut self.wire, end)
    }

    /// Reads pieces until their bytes are `expected`: whoever sat between may have cut or joined them.
    #[track_caller]
    pub fn expect_bytes(&mut self, expected: impl AsRef<[u8]>) {
        let (expected, mut got) = (expected.as_ref(), Vec::new());
        while got.len() < expected.len() && expected.starts_with(&got) {
            match self.try_read_piece() {
                Ok(Some(piece)) => got.extend_from_slice(&piece.data),
                outcome => panic!("expected {}, got {} and {outcome:?}", expected.escape_ascii(), got.escape_ascii()),
            }
        }
        assert_eq!(got.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    /// Reads the rest of the body.
    #[track_caller]
    pub fn read_body(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        while let Some(piece) = self.read_piece() {
            body.extend_from_slice(&piece.data);
        }
        body
    }

    /// Reads the rest of the body as the [`crate::pattern`], without keeping it. The deadline counts for each piece.
    pub fn try_read_pattern(&mut self) -> Result<Checker, WireError> {
        let mut checker = Checker::default();
        while let Some(piece) = self.try_read_piece()? {
            checker.push(&piece.data);
        }
        Ok(checker)
    }

    /// Reads `count` bytes as they come, outside of any message: after an upgrade, or of another protocol.
    #[track_caller]
    pub fn read_raw(&mut self, count: usize) -> Vec<u8> {
        self.try_read_raw(count).unwrap_or_else(|error| panic!("waited for {count} bytes: {error}{}", self.unread()))
    }

    /// Like [`RawClient::read_raw`], with the error; what arrived stays unread.
    pub fn try_read_raw(&mut self, count: usize) -> Result<Vec<u8>, WireError> {
        let end = self.wire.end();
        while self.wire.buffered().len() < count {
            if self.wire.fill(end)? == 0 {
                return Err(WireError::Closed);
            }
        }
        Ok(self.wire.consume(count))
    }

    /// Reads everything up to the end of the connection. A reset is an end too.
    #[track_caller]
    pub fn read_to_close(&mut self) -> Vec<u8> {
        let end = self.wire.end();
        loop {
            match self.wire.fill(end) {
                Ok(0) | Err(WireError::Reset) => {
                    return self.wire.consume(self.wire.buffered().len());
                }
                Ok(_) => {}
                Err(error) => panic!("the connection was not closed: {error}{}", self.unread()),
            }
        }
    }

    /// The peer closes or resets the connection, and sends nothing before that.
    #[track_caller]
    pub fn expect_closed(&mut self) {
        let rest = self.read_to_close();
        assert!(rest.is_empty(), "the connection was to be closed, but first came: {}", rest.escape_ascii());
    }

    /// The peer neither sends nor closes anything for `time`. A test that waits for nothing is slow: use it rarely.
    #[track_caller]
    pub fn expect_silence(&mut self, time: Duration) {
        let outcome = self.wire.fill(Instant::now() + time);
        assert!(
            self.wire.buffered().is_empty() && outcome == Err(WireError::Deadline),
            "expected silence: {outcome:?}{}",
            self.unread()
        );
    }

    /// Says that no more will be sent (FIN), and still reads.
    pub fn half_close(&mut self) {
        let _ = self.wire.socket().shutdown(Shutdown::Write);
    }

    /// Resets the connection (RST).
    pub fn reset(self) {
        self.wire.socket().reset();
    }

    fn unread(&self) -> String {
        let bytes = self.wire.buffered();
        format!("; unread ({} bytes): {}", bytes.len(), bytes[..bytes.len().min(2000)].escape_ascii())
    }
}

/// Offsets that cut `length` bytes into pieces of 1 to about 2, 16 or 128 bytes, chosen by `seed`.
pub(crate) fn random_cuts(length: usize, seed: u64) -> Vec<usize> {
    // SplitMix64 (Steele, Lea, Flood 2014).
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let longest = [2, 16, 128][(next() % 3) as usize];
    let mut cuts = Vec::new();
    let mut at = 0;
    loop {
        at += 1 + (next() % longest) as usize;
        if at >= length {
            return cuts;
        }
        cuts.push(at);
    }
}
