//! As much HTTP/1.1 as a simulator needs: requests in, bytes out. What it sends is not checked, as faults are its purpose.

use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    pub(crate) query: String,
    /// Names in lower case.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

const LARGEST_HEAD: usize = 64 * 1024;
const LARGEST_BODY: usize = 64 << 20;

/// Reads the next request; `None` if the connection ends before one.
pub(crate) async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Request>> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if buffer.len() > LARGEST_HEAD || stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    buffer.drain(..end + 4);
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let method = first.next().unwrap_or_default().to_owned();
    let target = first.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let fields = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut request = Request { method, path: path.to_owned(), query: query.to_owned(), fields, body: Vec::new() };
    if request.field("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    if request.field("transfer-encoding").is_some() {
        loop {
            let line = line(stream, buffer).await?;
            let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)
                .map_err(|_| io::ErrorKind::InvalidData)?;
            if size == 0 {
                // trailers
                while !self::line(stream, buffer).await?.is_empty() {}
                break;
            }
            let data = exactly(stream, buffer, size.min(LARGEST_BODY) + 2).await?;
            request.body.extend_from_slice(&data[..data.len() - 2]);
        }
    } else if let Some(length) = request.field("content-length").and_then(|text| text.parse::<usize>().ok()) {
        request.body = exactly(stream, buffer, length.min(LARGEST_BODY)).await?;
    }
    Ok(Some(request))
}

async fn line(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<String> {
    loop {
        if let Some(end) = buffer.windows(2).position(|two| two == b"\r\n") {
            let line = String::from_utf8_lossy(&buffer[..end]).into_owned();
            buffer.drain(..end + 2);
            return Ok(line);
        }
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn exactly(stream: &mut TcpStream, buffer: &mut Vec<u8>, length: usize) -> io::Result<Vec<u8>> {
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(buffer.drain(..length).collect())
}

/// A head with the fields that every response has.
pub(crate) fn head(status: u16, content_type: &str, more: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Simulated\r\ncontent-type: {content_type}\r\nx-request-id: req_sim\r\n{more}\r\n")
        .into_bytes()
}

/// A whole response.
pub(crate) fn whole(status: u16, content_type: &str, more: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = head(status, content_type, &format!("content-length: {}\r\n{more}", body.len()));
    bytes.extend_from_slice(body);
    bytes
}

/// A chunk of a chunked body.
pub(crate) fn chunk(data: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}
