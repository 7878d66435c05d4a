//! A client of raw frames: it sends whatever a test wants, and keeps what comes by stream.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use http2::hpack::{Decoder, FieldKind, Sink};
use testkit::DEADLINE;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const PROTOCOL_ERROR: u32 = 1;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

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
            match text.len() {
                length @ 0..127 => out.push(length as u8),
                length => {
                    out.push(127);
                    let mut rest = length - 127;
                    while rest >= 128 {
                        out.push((rest % 128) as u8 | 128);
                        rest /= 128;
                    }
                    out.push(rest as u8);
                }
            }
            out.extend(text.as_bytes());
        }
    }
    out
}

/// The pseudo-fields of a request, and more.
pub(crate) fn request<'a>(method: &'a str, path: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut fields = vec![(":method", method), (":scheme", "http"), (":path", path), (":authority", "a.example")];
    fields.extend(more);
    fields
}

/// What came on a stream.
#[derive(Debug, Default, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) interim: Vec<u16>,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) trailers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) has_ended: bool,
    pub(crate) reset: Option<u32>,
}

impl Response {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|field| field.0 == name).map(|field| &*field.1)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    lines: Vec<(String, String)>,
}

impl Sink for Lines {
    fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    fn line(&mut self, start: usize, name_len: usize, _: message::Known, _: FieldKind) {
        let line = String::from_utf8_lossy(&self.text[start..]).into_owned();
        let (name, value) = line.split_at(name_len);
        self.lines.push((name.to_owned(), value[2..].trim_end_matches("\r\n").to_owned()));
    }
}

pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    input: Vec<u8>,
    decoder: Decoder,
    pub(crate) streams: BTreeMap<u32, Response>,
    /// Last stream and code of each GOAWAY.
    pub(crate) goaways: Vec<(u32, u32)>,
    pub(crate) pings: Vec<Vec<u8>>,
    pub(crate) window_updates: Vec<(u32, u32)>,
    pub(crate) settings: BTreeMap<u16, u32>,
    pub(crate) is_closed: bool,
    /// Whether credit is given back for what comes.
    pub(crate) gives_credit: bool,
    /// A stream that gets none all the same.
    pub(crate) stalled: Option<u32>,
    /// Whether PING and SETTINGS are acknowledged.
    pub(crate) responses: bool,
    next: u32,
}

impl Client {
    /// Connects, with the preface and empty SETTINGS.
    #[track_caller]
    pub(crate) fn connect(address: SocketAddr) -> Client {
        Client::connect_with(address, &[])
    }

    #[track_caller]
    pub(crate) fn connect_with(address: SocketAddr, settings: &[(u16, u32)]) -> Client {
        let payload: Vec<u8> =
            settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
        let mut client = Client::raw(address);
        client.send(&[&http2::PREFACE[..], &frame(SETTINGS, 0, 0, &payload)].concat());
        client
    }

    /// Connects and sends nothing.
    #[track_caller]
    pub(crate) fn raw(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        Client {
            socket,
            input: Vec::new(),
            decoder: Decoder::default(),
            streams: BTreeMap::new(),
            goaways: Vec::new(),
            pings: Vec::new(),
            window_updates: Vec::new(),
            settings: BTreeMap::new(),
            is_closed: false,
            gives_credit: true,
            stalled: None,
            responses: true,
            next: 1,
        }
    }

    /// Writes bytes; a gateway that has closed is no error here.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// Begins a request; returns its stream.
    pub(crate) fn open(&mut self, fields: &[(&str, &str)], end: bool) -> u32 {
        let stream = self.next;
        self.next += 2;
        let flags = END_HEADERS | if end { END_STREAM } else { 0 };
        self.send(&frame(HEADERS, flags, stream, &block(fields)));
        stream
    }

    pub(crate) fn get(&mut self, path: &str) -> u32 {
        self.open(&request("GET", path, &[]), true)
    }

    pub(crate) fn data(&mut self, stream: u32, data: &[u8], end: bool) {
        self.send(&frame(DATA, u8::from(end), stream, data));
    }

    pub(crate) fn reset(&mut self, stream: u32, code: u32) {
        self.send(&frame(RST_STREAM, 0, stream, &code.to_be_bytes()));
    }

    pub(crate) fn window_update(&mut self, stream: u32, more: u32) {
        self.send(&frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes()));
    }

    /// Reads until `stream` is over.
    #[track_caller]
    pub(crate) fn response(&mut self, stream: u32) -> Response {
        self.until("the end of the stream", |client| client.is_over(stream));
        self.streams.get(&stream).cloned().unwrap_or_default()
    }

    /// A whole exchange without body.
    #[track_caller]
    pub(crate) fn fetch(&mut self, path: &str) -> Response {
        let stream = self.get(path);
        self.response(stream)
    }

    pub(crate) fn is_over(&self, stream: u32) -> bool {
        self.streams.get(&stream).is_some_and(|response| response.has_ended || response.reset.is_some())
    }

    /// Reads until the connection ends; returns the code of the last GOAWAY.
    #[track_caller]
    pub(crate) fn code_at_end(&mut self) -> Option<u32> {
        self.until("the end of the connection", |client| client.is_closed);
        self.goaways.last().map(|goaway| goaway.1)
    }

    /// Reads until `condition` holds, or the connection ends and it still does not: then it panics.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, condition: impl Fn(&Client) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            assert!(!self.is_closed, "the connection ended before {what}: {:?} {:?}", self.goaways, self.streams);
            assert!(start.elapsed() < DEADLINE, "no {what}: {:?} {:?}", self.goaways, self.streams);
            self.read(Duration::from_millis(200));
        }
    }

    /// Reads what comes within a time, once.
    pub(crate) fn read(&mut self, time: Duration) {
        self.read_at_most(65_536, time);
    }

    /// Reads so many bytes at most, once.
    pub(crate) fn read_at_most(&mut self, most: usize, time: Duration) {
        self.socket.set_read_timeout(Some(time)).unwrap();
        let mut buffer = [0; 65_536];
        match self.socket.read(&mut buffer[..most]) {
            Ok(0) => self.is_closed = true,
            Ok(count) => self.input.extend(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => self.is_closed = true,
        }
        while self.input.len() >= 9 {
            let length = u32::from_be_bytes([0, self.input[0], self.input[1], self.input[2]]) as usize;
            if self.input.len() < 9 + length {
                return;
            }
            let bytes: Vec<u8> = self.input.drain(..9 + length).collect();
            let stream = u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]);
            self.frame(bytes[3], bytes[4], stream, &bytes[9..]);
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        match kind {
            DATA => {
                let response = self.streams.entry(stream).or_default();
                assert!(response.status >= 200, "DATA before a head");
                assert!(!response.has_ended, "DATA behind the end");
                response.body.extend(payload);
                response.has_ended |= flags & END_STREAM != 0;
                if self.gives_credit && !payload.is_empty() {
                    self.window_update(0, payload.len() as u32);
                    if self.stalled != Some(stream) {
                        self.window_update(stream, payload.len() as u32);
                    }
                }
            }
            HEADERS => {
                assert!(flags & END_HEADERS != 0, "no test has so large a head");
                let mut lines = Lines::default();
                self.decoder.decode(payload, &mut lines).unwrap();
                let response = self.streams.entry(stream).or_default();
                assert!(!response.has_ended, "HEADERS behind the end");
                let end = flags & END_STREAM != 0;
                let status = lines.lines.iter().find(|line| line.0 == ":status").map(|line| line.1.parse().unwrap());
                match status {
                    Some(status @ 100..200) => {
                        assert!(!end, "an interim response ends the stream");
                        response.interim.push(status);
                    }
                    Some(status) => {
                        assert_eq!(response.status, 0, "a second head");
                        response.status = status;
                        response.fields = lines.lines;
                    }
                    None => {
                        assert!(end, "trailers without END_STREAM");
                        response.trailers = lines.lines;
                    }
                }
                response.has_ended |= end;
            }
            RST_STREAM => self.streams.entry(stream).or_default().reset = Some(number(0)),
            SETTINGS if flags & 1 == 0 => {
                for parameter in payload.chunks(6) {
                    let id = u16::from_be_bytes([parameter[0], parameter[1]]);
                    self.settings.insert(id, u32::from_be_bytes(parameter[2..6].try_into().unwrap()));
                }
                if self.responses {
                    self.send(&frame(SETTINGS, 1, 0, &[]));
                }
            }
            SETTINGS => {}
            PING if flags & 1 == 0 => {
                self.pings.push(payload.to_vec());
                if self.responses {
                    self.send(&frame(PING, 1, 0, payload));
                }
            }
            PING => self.pings.push(payload.to_vec()),
            GOAWAY => self.goaways.push((number(0), number(4))),
            WINDOW_UPDATE => self.window_updates.push((stream, number(0))),
            kind => panic!("the gateway sent a frame of type {kind}"),
        }
    }
}
