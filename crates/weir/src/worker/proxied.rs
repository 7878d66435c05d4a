//! The PROXY header that a connection begins with, where its listener says so: before TLS, from trusted proxies only.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use proxy_protocol::{Accepts, Malformed, Received};
use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;

use super::Worker;
use crate::client::identity::Client;
use crate::io::socket::Socket;
use crate::observe::HeaderResult;
use crate::runtime::seldom::Seldom;

/// How long a connection may take to send its header.
const TIMEOUT: Duration = Duration::from_secs(5);
/// What is looked at in one system call: more than any header without many values.
const PIECE: usize = 512;

/// Log lines about connections that were closed, by [`HeaderResult::position`].
pub struct HeaderLines([Seldom; HeaderResult::ALL.len()]);

impl Default for HeaderLines {
    fn default() -> Self {
        HeaderLines(std::array::from_fn(|_| Seldom::default()))
    }
}

/// Why there is no header.
enum Refused {
    Untrusted,
    Malformed(Malformed),
    Late,
    Closed,
}

impl Refused {
    fn result(&self) -> HeaderResult {
        match self {
            Refused::Untrusted => HeaderResult::Untrusted,
            Refused::Malformed(malformed) => (*malformed).into(),
            Refused::Late => HeaderResult::Late,
            Refused::Closed => HeaderResult::Closed,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Untrusted => f.write_str("its peer is not in `trusted_proxies`"),
            Refused::Malformed(malformed) => malformed.fmt(f),
            Refused::Late => f.write_str("its PROXY header did not come within 5 s"),
            Refused::Closed => f.write_str("it ended before its PROXY header"),
        }
    }
}

/// Reads the header of a connection from `peer`: the client that it names. `None` when there is none, which is counted and logged; the connection is
/// to be closed without a response.
pub async fn accept(worker: &Worker, stream: &Socket, peer: &Client, accepts: Accepts) -> Option<Client> {
    let received = if peer.peer_is_trusted {
        let deadline = worker.deadlines.add();
        deadline.set(Some(TIMEOUT));
        // Like any other connection that is idle: closed first when room is needed, or on draining.
        deadline.set_idle(true);
        let mut reading = pin!(read(stream, peer.peer.ip(), accepts));
        poll_fn(|cx| match reading.as_mut().poll(cx) {
            Poll::Pending if deadline.poll_passed(cx) => Poll::Ready(Err(Refused::Late)),
            poll => poll,
        })
        .await
    } else {
        Err(Refused::Untrusted)
    };
    match received {
        Ok(received) => {
            let is_local = received.origin == proxy_protocol::Origin::Proxy;
            let result = if is_local { HeaderResult::Local } else { received.version.into() };
            worker.metrics.proxy_header(result);
            Some(Client::of_header(received, &worker.snapshot.borrow().config().trusted_proxies))
        }
        Err(refused) => {
            let result = refused.result();
            worker.metrics.proxy_header(result);
            // A load balancer that only looks whether the port is open closes without a byte, again and again.
            let line = &worker.header_lines.0[result.position()];
            if result != HeaderResult::Closed
                && let Some(suppressed) = line.pass()
            {
                let reason = result.label();
                tracing::info!(reason, peer = %peer.peer, suppressed, "a connection was closed: {refused}");
            }
            None
        }
    }
}

/// Reads a header, and no byte behind it.
async fn read(stream: &Socket, proxy: Option<IpAddr>, accepts: Accepts) -> Result<Received, Refused> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut piece = [0; PIECE];
    loop {
        // Looked at first: what is behind the header belongs to whoever reads next.
        let look = || -> io::Result<usize> { Ok(recv(stream, &mut piece[..], RecvFlags::PEEK)?.1) };
        let count = stream.async_io(Interest::READABLE, look).await.map_err(|_| Refused::Closed)?;
        if count == 0 {
            return Err(Refused::Closed);
        }
        let before = bytes.len();
        bytes.extend_from_slice(&piece[..count]);
        let (received, end) = match proxy_protocol::read(&bytes, accepts).map_err(Refused::Malformed)? {
            Some((header, end)) => (Some(Received::new(proxy, &header)), end),
            // All of them belong to it.
            None => (None, bytes.len()),
        };
        // They are there, so this takes them all.
        let take = &mut piece[..end - before];
        let wanted = take.len();
        let taken = recv(stream, take, RecvFlags::empty()).map_err(|_| Refused::Closed)?.1;
        if taken != wanted {
            return Err(Refused::Closed);
        }
        if let Some(received) = received {
            return Ok(received);
        }
    }
}
