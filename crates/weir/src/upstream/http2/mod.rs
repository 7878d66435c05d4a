//! HTTP/2 connections to targets. One task owns a connection: its socket, its codec, and a slot for each stream. To the exchange a stream is a
//! byte stream like any other ([`ClientStream`](crate::streams::client_stream::ClientStream)): it writes an HTTP/1.1 request, which the task turns into frames ([`request`]), and reads
//! an HTTP/1.1 response, which the task makes of what the codec has validated ([`response`]). So the exchange, its retries, limits, caches and
//! deadlines exist once, and what a mistake in a translation could do is bounded: the bytes of one side are parsed strictly before they
//! become the other's. The price is a copy of each body and a second parse of each head. The life of a connection is described in `LIFECYCLE.md`
//! beside this file.

mod driver;
pub mod probe;
mod request;
mod response;
mod sessions;
mod slot;
mod slots;

use std::rc::Rc;
use std::sync::Arc;

use ::http2::hpack::SensitiveNames;

use crate::config::{Upstream, UpstreamProtocol};
use crate::io::buffer::Buffers;
use crate::runtime::deadline::{Deadlines, nanos};
use crate::streams::registry::Registry;
pub use sessions::{Opened, Sessions};

/// The worker that connections run on, as far as they need it.
pub trait Host: 'static {
    /// The HTTP/2 connections to targets.
    fn sessions(&self) -> &Sessions;
    /// Free read buffers.
    fn buffers(&self) -> &Buffers;
    /// Deadlines of connections.
    fn deadlines(&self) -> &Rc<Deadlines>;
    /// HTTP/2 connections of both sides.
    fn registry(&self) -> &Rc<Registry>;
    /// Whether connections are to end.
    fn is_draining(&self) -> bool;
    /// Fields that hold credentials, by the present configuration.
    fn sensitive(&self) -> Arc<SensitiveNames>;
    /// A random number; no secret.
    fn random(&self) -> u64;
    /// Counts something for the metrics.
    fn count(&self, event: Counted);
}

/// What is counted of connections to targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// A connection was made.
    Opened,
    /// A connection that was made ended.
    Closed,
    /// A request was sent in a stream.
    Stream,
    /// A stream ended before its response did.
    StreamLost,
}

/// Whether a target may be spoken to in HTTP/2.
pub fn is_possible(protocol: UpstreamProtocol, is_tls: bool) -> bool {
    match protocol {
        UpstreamProtocol::Http1 => false,
        UpstreamProtocol::Http2 => true,
        UpstreamProtocol::Auto => is_tls,
    }
}

/// The limits of a connection.
fn codec_config(upstream: &Upstream) -> ::http2::Config {
    let limits = h1::Limits::default();
    ::http2::Config {
        max_concurrent_streams: upstream.http2.max_concurrent_streams,
        stream_window: upstream.http2.stream_window,
        connection_window: upstream.http2.connection_window,
        // What a response of HTTP/1.1 may have; `:status` beside it.
        section: limits.head,
        block: limits.head / 2,
        fields: limits.fields,
        head_timeout_ms: upstream.timeouts.connect.map_or(10_000, |timeout| (nanos(timeout) / 1_000_000).max(1_000)),
        // The driver looks after that: a stream that is not opened yet counts.
        idle_timeout_ms: u64::MAX / 4,
        ..::http2::Config::upstream()
    }
}
