//! A client over TLS that is driven step by step.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use testkit::Certificates;
use tls::certificate::read_certificates;
use tls::client::{self, Options, Roots, server_name};
use tls::{Certificate, ClientConfig, Session, TlsStream, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A client that trusts these authorities.
pub(crate) fn trusting(authorities: &[&Certificates]) -> Options {
    let roots = authorities.iter().flat_map(|one| read_certificates(&one.authority()).unwrap()).collect();
    Options { roots: Roots::These(roots), ..Options::default() }
}

/// The same with a certificate to show.
pub(crate) fn showing(certificates: &Certificates, options: Options) -> Options {
    let certificate = Certificate::load(&certificates.certificate(), &certificates.key()).unwrap();
    Options { certificate: Some(certificate), ..options }
}

pub(crate) fn config(options: &Options) -> Arc<ClientConfig> {
    client::config(options).unwrap()
}

pub(crate) fn of_version(version: Version, options: Options) -> Options {
    Options { min_version: version, ..options }
}

fn in_time<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    runtime.block_on(async { tokio::time::timeout(DEADLINE, future).await.expect("it ends in time") })
}

/// A connection.
pub(crate) struct Client {
    runtime: Runtime,
    stream: TlsStream<TcpStream>,
    unread: Vec<u8>,
}

/// A response with a known length.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

impl Client {
    pub(crate) fn connect(to: SocketAddr, config: &Arc<ClientConfig>, name: &str) -> io::Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let connected = in_time(&runtime, async {
            let stream = TcpStream::connect(to).await?;
            stream.set_nodelay(true)?;
            tls::connect(stream, config.clone(), server_name(name).unwrap()).await
        });
        let stream = connected?;
        Ok(Client { runtime, stream, unread: Vec::new() })
    }

    pub(crate) fn session(&self) -> Session {
        self.stream.session()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let Client { runtime, stream, .. } = self;
        in_time(runtime, async {
            stream.write_all(bytes).await?;
            stream.flush().await
        })
        .unwrap();
    }

    pub(crate) fn get(&mut self, host: &str, path: &str) -> Response {
        self.try_get(host, path).unwrap()
    }

    pub(crate) fn try_get(&mut self, host: &str, path: &str) -> io::Result<Response> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        self.read_response()
    }

    pub(crate) fn read_response(&mut self) -> io::Result<Response> {
        let head_end = loop {
            if let Some(end) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            self.read_some()?;
        };
        let head = String::from_utf8(self.unread.drain(..head_end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut response = Response { status, head, body: String::new() };
        let length: usize = response.field("content-length").map_or(0, |length| length.parse().unwrap());
        while self.unread.len() < length {
            self.read_some()?;
        }
        response.body = String::from_utf8(self.unread.drain(..length).collect()).unwrap();
        Ok(response)
    }

    fn read_some(&mut self) -> io::Result<()> {
        let mut piece = vec![0; 64 * 1024];
        let Client { runtime, stream, .. } = self;
        let read = in_time(runtime, stream.read(&mut piece))?;
        if read == 0 {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.unread.extend_from_slice(&piece[..read]);
        Ok(())
    }

    /// What comes until the end. An end without `close_notify` is an error.
    pub(crate) fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let Client { runtime, stream, unread } = self;
        let mut all = std::mem::take(unread);
        in_time(runtime, stream.read_to_end(&mut all)).map(|_| all)
    }
}
