//! A small API of our own, so that an evaluation can be tried where nothing else is installed: items, and an echo that shows what reached it.
//! It costs little, and but for `/slow` it waits for nothing, so what a gateway adds is seen well.

pub(crate) mod grpc;
pub(crate) mod probe;
mod respond;
pub(crate) mod websocket;

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use h1::{BodyDecoder, BodyEvent, HeadScanner, Limits, RequestHead};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::results::Reached;

/// Largest body that is read; what is beyond is refused.
const MOST: u64 = 64 << 20;

/// Pause after a connection that could not be taken.
const FULL: Duration = Duration::from_millis(5);

/// What is served.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `Cache-Control` of what is read.
    pub cache_control: Option<String>,
    /// Instead of the API, the upstream of profile checks: it responds to every path, and does what fields of requests say.
    pub probe: bool,
}

/// Where what has come so far is told, as [`Reached`]; a request for it is not counted.
pub(crate) const COUNTS: &str = "/.gauge/counts";

/// What connections share.
#[derive(Debug)]
struct Served {
    cache_control: Option<String>,
    probe: bool,
    counts: Cell<Reached>,
}

impl Served {
    /// Counts a request whose body had `length` bytes, and appends its response; the events that follow it, if it is a stream.
    fn respond(&self, request: &respond::Request, length: u64, out: &mut Vec<u8>) -> Option<probe::Events> {
        if request.target == COUNTS {
            respond::finish(request, 200, &[], json!(self.counts.get()).to_string().as_bytes(), out);
            return None;
        }
        let number = self.count(length);
        if self.probe {
            probe::write(request, length, number, out)
        } else {
            respond::write(request, length, self.cache_control.as_deref(), out)
        }
    }

    /// Counts a request; its number.
    fn count(&self, length: u64) -> u64 {
        let mut counts = self.counts.get();
        counts.requests += 1;
        counts.body_bytes += length;
        self.counts.set(counts);
        counts.requests
    }
}

/// Serves until the process ends. `ready` is told where.
///
/// # Errors
/// When the address cannot be had.
pub fn serve(address: SocketAddr, options: Options, ready: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let Options { cache_control, probe } = options;
    let served = Rc::new(Served { cache_control, probe, counts: Cell::default() });
    local.block_on(&runtime, async {
        let listener = TcpListener::bind(address).await?;
        ready(listener.local_addr()?);
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // A client that closes the connection early is no failure of this server.
                    let served = Rc::clone(&served);
                    tokio::task::spawn_local(async move { drop(serve_connection(stream, served).await) });
                }
                // Out of descriptors: the open connections will close, and accepting at once would only take their time.
                Err(_) => tokio::time::sleep(FULL).await,
            }
        }
    })
}

/// A connection in the protocol of its first bytes: HTTP/2 begins with `PRI ` (RFC 9113, section 3.4), which is no method of HTTP/1.1 here.
async fn serve_connection(stream: TcpStream, served: Rc<Served>) -> io::Result<()> {
    const PREFACE: &[u8] = b"PRI ";
    let mut first = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut first).await? {
            0 => return Ok(()),
            length if length == first.len() && first == PREFACE => return grpc::serve_connection(stream, served).await,
            // A part of it: the rest follows at once.
            length if length < first.len() && first[..length] == PREFACE[..length] => tokio::task::yield_now().await,
            _ => return serve_http(stream, &served).await,
        }
    }
}

/// A connection, request after request.
async fn serve_http(stream: TcpStream, served: &Served) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (limits, mut scanner, mut head) = (Limits::default(), HeadScanner::new(), RequestHead::default());
    let mut buffer: Vec<u8> = Vec::with_capacity(16 * 1024);
    let mut out = Vec::with_capacity(4 * 1024);
    loop {
        scanner.reset();
        let end = loop {
            match scanner.scan(&buffer, &limits) {
                Ok(Some(end)) => break end,
                Ok(None) if fill(&stream, &mut buffer).await? == 0 => return Ok(()),
                Ok(None) => {}
                Err(error) => return refuse(&stream, error.status()).await,
            }
        };
        if let Err(error) = head.parse(&buffer, scanner.skipped(), end, &limits) {
            return refuse(&stream, error.status()).await;
        }
        let request = respond::Request::of(&head, &buffer, served.probe);
        if request.expects_continue {
            write(&stream, b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let (mut decoder, mut at, mut length) = (BodyDecoder::new(head.body), end, 0_u64);
        loop {
            match decoder.decode(&buffer[at..]) {
                Ok((used, event)) => {
                    at += used;
                    match event {
                        BodyEvent::Data(range) => length += range.len() as u64,
                        BodyEvent::End => break,
                        BodyEvent::NeedMore => {
                            buffer.drain(..at);
                            at = 0;
                            if fill(&stream, &mut buffer).await? == 0 {
                                return Ok(());
                            }
                        }
                    }
                }
                Err(error) => return refuse(&stream, error.status()).await,
            }
            if length > MOST {
                return refuse(&stream, 413).await;
            }
        }
        buffer.drain(..at);
        if let Some(wait) = request.wait() {
            tokio::time::sleep(wait).await;
        }
        out.clear();
        let events = match websocket::upgrade(&request, head.upgrade, served.probe) {
            websocket::Upgrade::None => served.respond(&request, length, &mut out),
            websocket::Upgrade::Accepted(accept) => {
                return websocket::serve_connection(&stream, served, &request, &accept, &mut buffer).await;
            }
            websocket::Upgrade::Refused(status, fields) => {
                websocket::refuse(&request, status, fields, &mut out);
                None
            }
        };
        write(&stream, &out).await?;
        if let Some(events) = events {
            for number in 1..=events.count {
                tokio::time::sleep(events.every).await;
                write(&stream, probe::event(Some(number)).as_bytes()).await?;
            }
            write(&stream, probe::event(None).as_bytes()).await?;
        }
        if !request.keep_alive {
            return Ok(());
        }
        // A client on the same processor may have its next request there already: the others come first.
        tokio::task::yield_now().await;
    }
}

async fn refuse(stream: &TcpStream, status: u16) -> io::Result<()> {
    let mut out = Vec::new();
    respond::refusal(status, &mut out);
    write(stream, &out).await
}

async fn fill(stream: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        match read(stream, buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.readable().await?,
            other => return other,
        }
    }
}

/// Apart, so that the room for what is read is on the stack and not in every connection.
fn read(stream: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut chunk = [0; 32 * 1024];
    let length = stream.try_read(&mut chunk)?;
    buffer.extend_from_slice(&chunk[..length]);
    Ok(length)
}

async fn write(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
