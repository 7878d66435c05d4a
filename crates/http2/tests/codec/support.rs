//! Raw frames, and a peer made of them.

use http2::hpack::Encoder;
use http2::{Config, Connection, Error, Event, Head};
use message::Known;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A field block without any table: literals, names as given.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            out.push(text.len() as u8);
            out.extend(text.as_bytes());
        }
    }
    out
}

pub(crate) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a.example")];

pub(crate) struct Peer {
    pub(crate) connection: Connection,
    pub(crate) head: Head,
    pub(crate) error: Option<Error>,
    pub(crate) now_ms: u64,
}

impl Peer {
    pub(crate) fn server(config: Config) -> Self {
        let mut peer =
            Peer { connection: Connection::server(config, 0), head: Head::default(), error: None, now_ms: 0 };
        let start = [&http2::PREFACE[..], &frame(4, 0, 0, &[])].concat();
        assert_eq!(peer.feed(&start), [Event::Settings]);
        peer.drop_output();
        peer
    }

    /// A client with a request on stream 1.
    pub(crate) fn client(method: &[u8]) -> Self {
        let mut peer = Peer {
            connection: Connection::client(Config::default(), 0),
            head: Head::default(),
            error: None,
            now_ms: 0,
        };
        assert_eq!(peer.feed(&frame(4, 0, 0, &[])), [Event::Settings]);
        let line = http2::RequestLine { method, scheme: b"https", authority: b"a.example", path: b"/", protocol: None };
        peer.connection.send_request(line, std::iter::empty(), true).expect("a stream is free");
        peer.drop_output();
        peer
    }

    pub(crate) fn drop_output(&mut self) {
        let length = self.connection.output().len();
        self.connection.advance(length);
    }

    /// Feeds bytes; returns all events. Output stays.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let (mut at, mut events) = (0, Vec::new());
        loop {
            match self.connection.decode(&bytes[at..], &mut self.head, self.now_ms) {
                Ok((used, event)) => {
                    at += used;
                    match event {
                        Event::NeedMore => break,
                        Event::Flush => self.drop_output(),
                        Event::Yield => self.connection.begin_iteration(),
                        event => events.push(event),
                    }
                }
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
        }
        events
    }

    /// Code of the first RST_STREAM in the output, and all kinds of frames in it.
    pub(crate) fn output(&self) -> (Option<u32>, Vec<u8>) {
        let (mut rest, mut reset, mut kinds) = (self.connection.output(), None, Vec::new());
        while rest.len() >= 9 {
            let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
            kinds.push(rest[3]);
            if rest[3] == 3 && reset.is_none() {
                reset = Some(u32::from_be_bytes([rest[9], rest[10], rest[11], rest[12]]));
            }
            rest = &rest[9 + length..];
        }
        (reset, kinds)
    }

    pub(crate) fn field(&self, name: &[u8]) -> Option<&[u8]> {
        self.head.request.fields.get(name, &self.head.text)
    }
}

pub(crate) fn encoded(fields: &[(&str, &str)]) -> Vec<u8> {
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    for (name, value) in fields {
        encoder.field(&mut out, Known::of(name.as_bytes()), name.as_bytes(), value.as_bytes());
    }
    out
}
