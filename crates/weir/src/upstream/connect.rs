//! New connections to targets: TCP, TLS over it, Unix sockets.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use tls::{ClientConfig, Failure};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};

use super::target::{Address, TlsIdentity};
use crate::config::TcpOptions;
use crate::io::socket::Socket;
use crate::io::stream::Stream;
use crate::io::tcp::set_options;

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// The system's error.
    Io(io::Error),
    /// The connection was made, the handshake failed.
    Tls(Failure, io::Error),
}

/// Configurations of TLS by policy, each with the sessions that it may resume: there is one store for each worker, so that no worker waits for another.
#[derive(Debug, Default)]
pub struct TlsConfigs(Mutex<HashMap<[u8; 32], Arc<ClientConfig>>>);

/// Policies that are stored. More than a file has upstreams; reloads that change certificates leave old ones behind.
const MOST_POLICIES: usize = 1024;

impl TlsConfigs {
    fn of(&self, identity: &TlsIdentity) -> Result<Arc<ClientConfig>, ConnectError> {
        let mut known = super::lock(&self.0);
        if let Some(config) = known.get(&identity.policy.digest) {
            return Ok(config.clone());
        }
        if known.len() >= MOST_POLICIES {
            known.clear();
        }
        // It was made once when the configuration was checked, so it can be made.
        let made = tls::client::config(&identity.policy.options);
        let config = made.map_err(|error| ConnectError::Tls(Failure::Untrusted, io::Error::other(error)))?;
        known.insert(identity.policy.digest, config.clone());
        Ok(config)
    }
}

/// How connections are made.
pub struct Dial<'a> {
    /// Configurations of TLS.
    pub tls: &'a TlsConfigs,
    /// Options of TCP connections.
    pub tcp: TcpOptions,
    /// A PROXY header, which goes out before anything else; empty without one.
    pub header: &'a [u8],
}

/// Connects to a target, handshake included.
///
/// # Errors
/// Why there is no connection.
pub async fn connect(address: &Address, dial: &Dial<'_>) -> Result<Stream, ConnectError> {
    match address {
        Address::Tcp(address) => Ok(Stream::Tcp(tcp(*address, dial).await?)),
        Address::Unix(path) => {
            let mut stream = UnixStream::connect(path).await?;
            stream.write_all(dial.header).await?;
            Ok(Stream::Unix(stream))
        }
        // Boxed, because a handshake's state is large and every request would carry room for it.
        Address::Tls(address, identity) => Box::pin(over_tls(*address, identity, dial)).await,
    }
}

async fn over_tls(address: SocketAddr, identity: &TlsIdentity, dial: &Dial<'_>) -> Result<Stream, ConnectError> {
    let config = dial.tls.of(identity)?;
    let name = tls::client::server_name(&identity.name)
        .map_err(|why| ConnectError::Tls(Failure::Name, io::Error::other(why)))?;
    let stream = tls::connect(Socket::Tcp(tcp(address, dial).await?), config, name).await;
    stream.map(|stream| Stream::Tls(Box::new(stream))).map_err(|error| ConnectError::Tls(Failure::of_io(&error), error))
}

/// Whether a connection failed for want of something of this process or machine: a descriptor, memory, a local port. That says nothing about
/// the target.
pub fn is_local_shortage(error: &io::Error) -> bool {
    const SHORTAGES: [Errno; 5] = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|errno| SHORTAGES.contains(&errno))
}

async fn tcp(address: SocketAddr, dial: &Dial<'_>) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    set_options(&stream, dial.tcp);
    if !dial.header.is_empty() {
        stream.write_all(dial.header).await?;
    }
    Ok(stream)
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        ConnectError::Io(error)
    }
}
