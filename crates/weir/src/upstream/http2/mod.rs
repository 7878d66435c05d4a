//! HTTP/2 connections to targets. One task owns a connection: its socket, its codec, and a slot for each stream. To the exchange a stream is a
//! byte stream like any other ([`ClientStream`]): it writes an HTTP/1.1 request, which the task turns into frames ([`request`]), and reads
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
mod stream;

pub use sessions::{Opened, Sessions};
pub use stream::ClientStream;

use crate::config::{Upstream, UpstreamProtocol};
use crate::server::deadline::nanos;

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
