//! Is anybody there?

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::load::Prepared;
use crate::load::workload::{Body, Operation, Protocol, Workload};
use crate::profile::Clients;

const TIMEOUT: Duration = Duration::from_secs(2);

/// Whether an address accepts connections.
pub(super) fn accepts(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, TIMEOUT).is_ok()
}

/// Whether the health service of gRPC says that the whole server is SERVING (github.com/grpc/grpc, doc/health-checking.md).
pub(super) fn serves_grpc(address: SocketAddr) -> bool {
    // The prefix of an empty message, and a message whose field 1 is 1.
    const ANY: &str = "AAAAAAA=";
    const SERVING: [u8; 7] = [0, 0, 0, 0, 2, 8, 1];
    let fields = [("content-type", "application/grpc"), ("te", "trailers")];
    let operation = Operation {
        method: "POST".to_owned(),
        base: Some(format!("http://{address}")),
        headers: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        body: Some(Body::Base64(ANY.to_owned())),
        ..Operation::get("health", "/grpc.health.v1.Health/Check")
    };
    let workload = Workload::single(operation, Protocol::Http2 { streams: 1 }, TIMEOUT);
    let response = Prepared::new(&workload).ok().and_then(|prepared| prepared.once().pop()?.response.ok());
    response.is_some_and(|response| response.body == SERVING)
}

/// Whether there is a response, whatever its status, in HTTP/1.1 without TLS or as clients reach it: whether it has to be so, the checks say.
pub(super) fn responds(address: SocketAddr, clients: &Clients) -> bool {
    responses(address, "/").is_some() || status_of(clients, address, "/").is_some()
}

/// Whether `GET path` gets a status, in HTTP/1.1 without TLS or as clients reach it.
pub(super) fn has_status(address: SocketAddr, path: &str, status: u16, clients: &Clients) -> bool {
    responses(address, path) == Some(status) || status_of(clients, address, path) == Some(status)
}

/// The status of `GET path` for clients that differ from the plain ones.
fn status_of(clients: &Clients, address: SocketAddr, path: &str) -> Option<u16> {
    if *clients == Clients::default() {
        return None;
    }
    let operation = Operation { base: Some(clients.base(address)), ..Operation::get("ready", path) };
    let prepared = Prepared::new(&clients.single(operation, TIMEOUT)).ok()?;
    Some(prepared.once().pop()?.response.ok()?.status)
}

/// The status of the response to `GET path`; `None` when there is no response.
pub(super) fn responses(address: SocketAddr, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let path = if path.is_empty() { "/" } else { path };
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut buffer = [0; 512];
    let mut length = 0;
    while !buffer[..length].contains(&b'\n') && length < buffer.len() {
        match stream.read(&mut buffer[length..]).ok()? {
            0 => return None,
            more => length += more,
        }
    }
    let line = std::str::from_utf8(&buffer[..length]).ok()?.lines().next()?;
    line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()
}
