//! The way to a target: a connection of the pool, a stream of an HTTP/2 connection, or a new one.

use std::task::Poll;
use std::time::Duration;

use proxy_protocol::Version;
use tls::Alpn;

use super::Exchange;
use super::proxy::poll_client_disconnect;
use super::stall::Stall;
use super::upstream_exchange::total_timeout;
use crate::config::UpstreamProtocol;
use crate::error::{Error, Reason};
use crate::io::life::Life;
use crate::io::stream::Stream;
use crate::observe::UpstreamMetrics;
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::upstream::connect::{self, ConnectError, Dial};
use crate::upstream::http2::{self, Opened};
use crate::upstream::pool::Carries;
use crate::upstream::{Address, Lease};

/// How a connection to a target is come by.
pub(super) struct Way<'m> {
    pub(super) metrics: &'m UpstreamMetrics,
    /// To establish a connection.
    pub(super) timeout: Option<Duration>,
    /// End of the exchange.
    pub(super) total_due: u64,
}

/// A connection to a target, or a stream of one.
pub(super) struct Reached {
    pub(super) stream: Stream,
    /// What is left of the use of a connection of HTTP/1.1; of HTTP/2 its task knows.
    pub(super) life: Life,
    /// Whose requests it may carry.
    pub(super) carries: Carries,
    /// Whether the connection was used before.
    pub(super) is_reused: bool,
}

impl Reached {
    fn stream_of_http2(stream: Stream, is_reused: bool) -> Self {
        Reached { stream, life: Life::ENDLESS, carries: Carries::All, is_reused }
    }
}

impl Way<'_> {
    /// What is there already and serves any request: a stream of an HTTP/2 connection, or with `may_reuse` an idle connection.
    #[inline]
    pub(super) fn idle(&self, x: &Exchange<'_>, lease: &Lease, may_reuse: bool) -> Option<Reached> {
        let target = lease.target().id();
        let spec = lease.spec();
        if spec.protocol != UpstreamProtocol::Http1
            && http2::is_possible(spec.protocol, is_tls(lease))
            && let Some(stream) = x.worker.sessions.open(target)
        {
            self.metrics.connection_reused();
            return Some(Reached::stream_of_http2(Stream::Http2Upstream(stream), true));
        }
        if !may_reuse || spec.proxy_protocol.is_some() || spec.protocol == UpstreamProtocol::Http2 {
            return None;
        }
        let discarded = || self.metrics.connection_discarded();
        let (stream, mut life) = x.worker.pool.take(target, clock::loop_ns(), discarded)?;
        self.metrics.connection_reused();
        life.take(clock::loop_ns());
        Some(Reached { stream, life, carries: Carries::All, is_reused: true })
    }

    /// A connection to the target of `lease`, or a stream of one, where none was [`idle`](Self::idle).
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn stream_to(
        &self,
        x: &mut Exchange<'_>,
        lease: &Lease,
        may_reuse: bool,
    ) -> Result<Reached, Error> {
        let protocol = lease.spec().protocol;
        if protocol == UpstreamProtocol::Http2 {
            // Boxed: rare, and every request would carry room for it.
            return Box::pin(self.http2_stream_to(x, lease)).await;
        }
        if let Some(version) = lease.spec().proxy_protocol {
            // Boxed, as above.
            return Box::pin(self.stream_of_client(x, lease, version, may_reuse)).await;
        }
        let stream = connect_to(x, lease, self.timeout, self.total_due, &[]).await?;
        self.metrics.connection_opened();
        if protocol == UpstreamProtocol::Auto && speaks_http2(&stream) {
            return Ok(Reached::stream_of_http2(add_session(x, lease, stream), false));
        }
        Ok(Reached { stream, life: new_life(x, lease), carries: Carries::All, is_reused: false })
    }

    /// The same where connections begin with a PROXY header: one that names the request's client.
    async fn stream_of_client(
        &self,
        x: &mut Exchange<'_>,
        lease: &Lease,
        version: Version,
        may_reuse: bool,
    ) -> Result<Reached, Error> {
        let mut header = Vec::new();
        let client = x.down.client.write_header(version, &mut header);
        let carries = Carries::Only(client);
        let discarded = || self.metrics.connection_discarded();
        if may_reuse
            && let Some((stream, mut life)) =
                x.worker.pool.take_named(lease.target().id(), client, clock::loop_ns(), discarded)
        {
            self.metrics.connection_reused();
            life.take(clock::loop_ns());
            return Ok(Reached { stream, life, carries, is_reused: true });
        }
        let stream = connect_to(x, lease, self.timeout, self.total_due, &header).await?;
        self.metrics.connection_opened();
        Ok(Reached { stream, life: new_life(x, lease), carries, is_reused: false })
    }

    /// Waits for a stream, or makes a connection.
    async fn http2_stream_to(&self, x: &mut Exchange<'_>, lease: &Lease) -> Result<Reached, Error> {
        let worker = x.worker;
        let target = lease.target().id();
        let most = lease.spec().http2.max_connections;
        let due = self.timeout.map_or(u64::MAX, |timeout| clock::loop_ns().saturating_add(nanos(timeout)));
        let mut ticket = worker.sessions.ticket(target);
        x.down.deadline.set_at(due.min(self.total_due));
        x.stalls.change(Stall::UpstreamConnects);
        let opened = std::future::poll_fn(|cx| {
            if let Poll::Ready(opened) = worker.sessions.poll_open(&mut ticket, most, cx) {
                return Poll::Ready(Ok(opened));
            }
            if poll_client_disconnect(x, cx).is_ready() {
                return Poll::Ready(Err(Error::from(Reason::ClientDisconnected)));
            }
            if !x.down.deadline.poll_passed(cx) {
                return Poll::Pending;
            }
            Poll::Ready(Err(if due > self.total_due {
                total_timeout(&mut x.stalls, false)
            } else if worker.sessions.is_connected(target) {
                Error::new(Reason::QueueTimeout, "no stream of the target's HTTP/2 connections became free")
            } else {
                Reason::ConnectTimeout.into()
            }))
        })
        .await?;
        let _permit = match opened {
            Opened::Stream(stream) => {
                self.metrics.connection_reused();
                return Ok(Reached::stream_of_http2(Stream::Http2Upstream(stream), true));
            }
            Opened::Connect(permit) => permit,
        };
        let stream = connect_to(x, lease, self.timeout, self.total_due, &[]).await?;
        self.metrics.connection_opened();
        if matches!(stream, Stream::Tls(_)) && !speaks_http2(&stream) {
            return Err(Error::new(Reason::UpstreamTls, "the target does not offer HTTP/2 (ALPN h2)"));
        }
        Ok(Reached::stream_of_http2(add_session(x, lease, stream), false))
    }
}

fn is_tls(lease: &Lease) -> bool {
    matches!(lease.target().address(), Address::Tls(..))
}

/// What is left of the use of a new connection behind its first request.
fn new_life(x: &Exchange<'_>, lease: &Lease) -> Life {
    let now = clock::loop_ns();
    let mut life = Life::new(lease.spec().keep_alive.used_for, now, || x.worker.random());
    life.take(now);
    life
}

/// Whether a handshake agreed on HTTP/2.
fn speaks_http2(stream: &Stream) -> bool {
    matches!(stream, Stream::Tls(tls) if tls.alpn() == Some(Alpn::Http2))
}

/// Begins to speak HTTP/2 on a new connection.
fn add_session(x: &Exchange<'_>, lease: &Lease, stream: Stream) -> Stream {
    match x.worker.rc() {
        Some(worker) => {
            let first = worker.sessions.add(&worker, lease.target().id(), stream, lease.spec());
            Stream::Http2Upstream(first)
        }
        // It is used here, so it is there.
        None => stream,
    }
}

/// Makes a connection to a target, before the timeout and the end of the exchange.
///
/// # Errors
/// Why there is none.
async fn connect_to(
    x: &mut Exchange<'_>,
    lease: &Lease,
    timeout: Option<Duration>,
    total_due: u64,
    header: &[u8],
) -> Result<Stream, Error> {
    let due = timeout.map_or(u64::MAX, |timeout| clock::loop_ns().saturating_add(nanos(timeout)));
    x.down.deadline.set_at(due.min(total_due));
    x.stalls.change(Stall::UpstreamConnects);
    let worker = x.worker;
    let dial = Dial { tls: &worker.tls_configs, tcp: lease.spec().tcp, header };
    let mut connecting = std::pin::pin!(connect::connect(lease.target().address(), &dial));
    let result = std::future::poll_fn(|cx| {
        if let Poll::Ready(result) = connecting.as_mut().poll(cx) {
            return Poll::Ready(Ok(result));
        }
        if poll_client_disconnect(x, cx).is_ready() {
            return Poll::Ready(Err(Error::from(Reason::ClientDisconnected)));
        }
        if x.down.deadline.poll_passed(cx) {
            return Poll::Ready(Err(if due <= total_due {
                Reason::ConnectTimeout.into()
            } else {
                total_timeout(&mut x.stalls, false)
            }));
        }
        Poll::Pending
    })
    .await;
    match result {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(ConnectError::Tls(failure, error))) => {
            tracing::warn!(%error, reason = failure.reason(), target = %lease.target().address(), "TLS handshake failed");
            Err(Error::new(Reason::UpstreamTls, failure.text()))
        }
        Ok(Err(ConnectError::Io(error))) if connect::is_local_shortage(&error) => {
            if let Some(suppressed) = x.worker.shortages.pass() {
                tracing::warn!(%error, target = %lease.target().address(), suppressed, "cannot connect");
            }
            // Idle connections to other targets hold what is missing.
            x.worker.pool.clear();
            Err(Error::new(Reason::Resources, "no descriptor, memory or local port is left"))
        }
        Ok(Err(ConnectError::Io(_))) => Err(Reason::ConnectFailed.into()),
        Err(error) => Err(error),
    }
}
