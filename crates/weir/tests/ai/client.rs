//! A client of its own: it says how a body ended, which clients that repair things do not.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A response as it was received.
#[derive(Debug)]
pub(crate) struct Received {
    pub status: u16,
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
    /// Without its framing.
    pub body: Vec<u8>,
    /// The framing says that this is all of it.
    pub is_whole: bool,
    /// Of head and body, with their framing.
    pub bytes: usize,
}

impl Received {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// Sends one request on a connection of its own and reads to its end.
pub(crate) fn send(address: SocketAddr, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Received {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n");
    for (name, value) in fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    parse(&bytes)
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> Received {
    send(address, "POST", path, &[("Content-Type", "application/json"), ("Authorization", "Bearer client")], body)
}

fn parse(bytes: &[u8]) -> Received {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end else {
        return Received { status: 0, fields: Vec::new(), body: bytes.to_vec(), is_whole: false, bytes: bytes.len() };
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let fields: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut received = Received { status, fields, body: Vec::new(), is_whole: false, bytes: bytes.len() };
    let rest = &bytes[end + 4..];
    if received.field("transfer-encoding") == Some("chunked") {
        (received.body, received.is_whole) = dechunk(rest);
    } else if let Some(length) = received.field("content-length").map(|length| length.parse::<usize>().unwrap()) {
        assert!(rest.len() <= length, "bytes behind the response");
        received.is_whole = rest.len() == length;
        received.body = rest.to_vec();
    } else {
        received.body = rest.to_vec();
    }
    received
}

fn dechunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(line) = rest.windows(2).position(|two| two == b"\r\n") else { return (body, false) };
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        rest = &rest[line + 2..];
        if size == 0 {
            assert!(rest.is_empty() || rest == b"\r\n", "bytes behind the last chunk");
            return (body, rest == b"\r\n");
        }
        if rest.len() < size + 2 {
            body.extend_from_slice(&rest[..rest.len().min(size)]);
            return (body, false);
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}
