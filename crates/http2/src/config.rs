//! Limits of a connection; the defaults are those of the gateway.

/// Settings of this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Streams of the peer at once, advertised; streams whose handler still runs count (CVE-2023-44487).
    pub max_concurrent_streams: u32,
    /// Receive window of a stream, in bytes.
    pub stream_window: u32,
    /// Receive window of the connection, in bytes.
    pub connection_window: u32,
    /// Whether the connection's credit is given back for what was received, and not for what was consumed: streams that nobody reads take nothing of it
    /// from the others. What a connection holds is then bounded by the windows of its streams.
    pub credits_connection_at_once: bool,
    /// Bytes of a compressed field block.
    pub block: usize,
    /// Bytes of a decoded field section, 32 a field added (RFC 9113 section 6.5.2).
    pub section: usize,
    /// Fields of a section, cookie crumbs included; at most `message::Limits::MAX_FIELDS`.
    pub fields: usize,
    /// CONTINUATION frames of a block.
    pub continuations: u32,
    /// Milliseconds for the preface and first SETTINGS, and from HEADERS to END_HEADERS.
    pub head_timeout_ms: u64,
    /// Milliseconds without a stream; control frames do not extend them.
    pub idle_timeout_ms: u64,
    /// Request heads returned per turn.
    pub heads_per_iteration: u32,
    /// Control frames that wait to be sent before nothing more is read.
    pub unsent_control_frames: u32,
    /// Whether extended CONNECT (RFC 8441) is offered, or used where the peer offers it.
    pub extended_connect: bool,
    /// Streams of a connection's life.
    pub max_streams: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            max_concurrent_streams: 100,
            stream_window: 64 * 1024,
            connection_window: 1024 * 1024,
            credits_connection_at_once: false,
            block: 32 * 1024,
            section: 64 * 1024,
            fields: 100,
            continuations: 8,
            head_timeout_ms: 10_000,
            idle_timeout_ms: 75_000,
            heads_per_iteration: 16,
            unsent_control_frames: 64,
            extended_connect: false,
            max_streams: 1 << 30,
        }
    }
}

impl Config {
    /// Defaults towards an upstream, which is trusted with larger windows. Its streams are of many clients, each of which reads at its own pace.
    pub fn upstream() -> Self {
        Config {
            stream_window: 256 * 1024,
            connection_window: 4 * 1024 * 1024,
            credits_connection_at_once: true,
            ..Config::default()
        }
    }
}
