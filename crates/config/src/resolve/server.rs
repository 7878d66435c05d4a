//! The process itself: listeners, log, what clients may take, Redis.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Resolver, headers, time};
use crate::raw::secrets::SECRET_FIELDS;
use crate::raw::shape::{OrNone, Spanned};
use crate::raw::units::{Size, Time};
use crate::raw::{self, Ambiguous, EncodedSlash, PathPolicy, RepeatedSlash, SOCKET_PATH_BYTES, is_socket_path};
use crate::redact::Redaction;
use crate::redis_address::Address;
use crate::spoofable;
use crate::{
    AccessLog, AccessLogTarget, Bind, Config, ConnectionUse, Console, FieldSet, Http2, LOG_FIELDS, LogFields,
    LogFormat, LogOnly, LoggedHeader, Redis, Server, TcpOptions, UntrustedHeaders, log_template,
};
use message::path::{self, Treatment};

/// Bytes of a request line: enough for any method, `/` and the version; no more than any server reads.
const REQUEST_LINE_BYTES: std::ops::RangeInclusive<u64> = 64..=1 << 20;
/// Bytes of a head.
const HEAD_BYTES: std::ops::RangeInclusive<u64> = 256..=16 << 20;
/// Fields of a head.
const FIELDS: std::ops::RangeInclusive<usize> = 1..=h1::Limits::MAX_FIELDS;
/// Streams of an HTTP/2 connection at once.
pub(super) const STREAMS: std::ops::RangeInclusive<u32> = 1..=10_000;
/// Points of the abuse budget that a connection over HTTP/2 begins with.
const POINTS_OF_A_CONNECTION: f64 = 200.0;
/// Bytes of a window of HTTP/2: a frame, and what RFC 9113 section 6.9.1 allows.
const WINDOW: std::ops::RangeInclusive<u64> = 65_535..=(1 << 31) - 1;
/// Shortest age of a connection: shorter ones would cost more than they distribute.
const SHORTEST_AGE: Duration = Duration::from_secs(1);
/// What the kernel takes for `TCP_KEEPIDLE`, in seconds.
const KEEPALIVE_SECONDS: std::ops::RangeInclusive<u64> = 1..=32_767;
/// `TCP_USER_TIMEOUT` has milliseconds in 31 bits; a day is more than anyone waits.
const USER_TIMEOUT_SECONDS: std::ops::RangeInclusive<u64> = 1..=86_400;
/// Bytes of the console's token: too many to guess.
const TOKEN_BYTES: usize = 16;

fn path_policy(raw: &PathPolicy) -> path::Policy {
    let slash = |which| match which {
        EncodedSlash::Refuse => Treatment::Refuse,
        EncodedSlash::Decode => Treatment::Slash,
        EncodedSlash::Keep => Treatment::Keep,
    };
    path::Policy {
        double_slash: match raw.double_slash {
            RepeatedSlash::Refuse => Treatment::Refuse,
            RepeatedSlash::Merge => Treatment::Slash,
            RepeatedSlash::Keep => Treatment::Keep,
        },
        encoded_slash: slash(raw.encoded_slash),
        semicolon: match raw.semicolon {
            Ambiguous::Refuse => Treatment::Refuse,
            Ambiguous::Keep => Treatment::Keep,
        },
        backslash: slash(raw.backslash),
        keeps_invalid_utf8: raw.invalid_utf8 == Ambiguous::Keep,
    }
}

/// Bytes of the path of a Unix socket (unix(7)).
const LONGEST_SOCKET: usize = 107;

impl Resolver<'_> {
    pub(super) fn admin(&mut self) -> Option<SocketAddr> {
        let file = self.file;
        let admin = file.admin.as_option()?;
        if admin.0.port() != 0 && file.listen.iter().any(|listener| listener.bind.0 == Bind::Tcp(admin.0)) {
            let message = "the admin listener needs an address of its own; a public listener has this one";
            self.problem(admin.origin, message);
        }
        Some(admin.0)
    }

    pub(super) fn console(&mut self) -> Console {
        let file = self.file;
        let Some(console) = &file.console else { return Console::default() };
        match file.admin.as_option() {
            None => {
                let message = "the console is part of the admin listener; set `admin` to an address";
                self.problem(console.origin, message);
            }
            Some(admin) if console.token.is_none() && !admin.0.ip().to_canonical().is_loopback() => {
                let message = format!(
                    "`console.token` is missing: `admin` ({}) can be reached from other machines; `openssl rand -hex 16` makes one",
                    admin.0
                );
                self.problem(console.origin, message);
            }
            Some(_) => {}
        }
        if let Some(token) = console.token.as_ref().filter(|token| token.len() < TOKEN_BYTES) {
            let message = format!("`token` has at least {TOKEN_BYTES} bytes; `openssl rand -hex 16` makes one");
            self.problem(token.origin, message);
        }
        Console { token: console.token.as_ref().map(|token| token.as_str().into()), read_only: console.read_only }
    }

    pub(super) fn takeover(&mut self) -> Option<PathBuf> {
        let file = self.file;
        let path = file.takeover.as_option()?;
        if !is_socket_path(path) {
            let message = format!(
                "`takeover` is the whole path of a Unix socket, such as `/run/weir.sock`, of at most {SOCKET_PATH_BYTES} bytes"
            );
            self.problem(path.origin, message);
        }
        Some(PathBuf::from(&path.value))
    }

    pub(super) fn untrusted_headers(&mut self) -> UntrustedHeaders {
        let raw = &self.file.untrusted_headers;
        for name in &raw.keep {
            self.check(name.origin, headers::may_edit(&name.0));
            if spoofable::find(name.0.as_bytes()).is_none() {
                let message =
                    format!("`{}` is not one of the fields that are removed (docs/safety.md lists them)", name.0);
                self.problem(name.origin, message);
            }
        }
        UntrustedHeaders { strip: raw.strip, keep: raw.keep.iter().map(|name| name.0.as_str().into()).collect() }
    }

    pub(super) fn request_id(&mut self) -> Arc<str> {
        let name = &self.file.request_id;
        self.check(name.origin, headers::may_edit(&name.0));
        name.0.as_str().into()
    }

    pub(super) fn access_log(&mut self) -> Option<AccessLog> {
        let file = self.file;
        let log = file.access_log.as_option()?;
        let to = match log.path.as_str() {
            "stdout" => AccessLogTarget::Stdout,
            "" => {
                self.problem(log.path.origin, "`path` is empty; write `stdout` or a file's path");
                AccessLogTarget::Stdout
            }
            path => match path.strip_prefix("syslog+unix:") {
                Some(socket) if socket.starts_with('/') && socket.len() <= LONGEST_SOCKET => {
                    AccessLogTarget::Syslog(PathBuf::from(socket))
                }
                Some(_) => {
                    self.problem(
                        log.path.origin,
                        "`syslog+unix:` needs the absolute path of a socket, of 107 bytes at most, such as `syslog+unix:/dev/log`",
                    );
                    AccessLogTarget::Stdout
                }
                None if path.starts_with("syslog+") => {
                    self.problem(
                        log.path.origin,
                        "syslog is reached over a socket of this machine only: `syslog+unix:/dev/log`",
                    );
                    AccessLogTarget::Stdout
                }
                None => AccessLogTarget::File(PathBuf::from(path)),
            },
        };
        let format = match &log.format.value {
            raw::LogFormat::Json => LogFormat::Json,
            raw::LogFormat::Combined => LogFormat::Combined,
            raw::LogFormat::Logfmt => LogFormat::Logfmt,
            raw::LogFormat::Template(text) => match log_template(text) {
                Ok(parts) => LogFormat::Template(parts.into()),
                Err(why) => {
                    self.problem(log.format.origin, why);
                    LogFormat::Json
                }
            },
        };
        let only = log.only.as_option().map(|only| {
            if only.status.is_empty() && only.grpc_status.is_empty() && only.slower.is_none() {
                self.problem(
                    only.origin,
                    "`only` is empty, so that nothing would be logged; write `status`, `grpc_status` or `slower`",
                );
            }
            LogOnly {
                statuses: only.status.iter().map(|range| (range.0, range.1)).collect(),
                grpc: only.grpc_status.iter().flat_map(|range| range.0..=range.1).collect(),
                slower_ns: only.slower.as_option().map(|time| u64::try_from(time.0.as_nanos()).unwrap_or(u64::MAX)),
            }
        });
        let fields = self.log_fields(&log.fields, &format);
        Some(AccessLog { to, format, fields, only, sample: log.sample.fraction() })
    }

    fn log_fields(&mut self, file: &Spanned<raw::LogFields>, format: &LogFormat) -> LogFields {
        let mut fields = LogFields::default();
        let has_names = matches!(format, LogFormat::Json | LogFormat::Logfmt);
        if !has_names && **file != raw::LogFields::default() {
            self.problem(file.origin, "`fields` needs `format: json` or `format: logfmt`; the other formats say themselves which fields they have");
        }
        for name in &file.drop {
            match FieldSet::index(name) {
                Some(index) => fields.dropped.insert(index),
                None => self.problem(
                    name.origin,
                    format!("there is no field `{}` to leave out; there are {}", **name, LOG_FIELDS.join(", ")),
                ),
            }
        }
        let mut added = Vec::new();
        for text in &file.add {
            let name = text.strip_prefix("header:").filter(|name| !name.is_empty() && crate::raw::text::is_token(name));
            match name.filter(|name| name.len() <= LogFields::LONGEST_NAME) {
                Some(name) => added.push((text.origin, LoggedHeader::new(name))),
                None => self.problem(
                    text.origin,
                    format!(
                        "expected `header:NAME`, with a name of at most {} bytes, found `{}`",
                        LogFields::LONGEST_NAME,
                        **text
                    ),
                ),
            }
        }
        for (at, (origin, header)) in added.iter().enumerate() {
            if added[..at].iter().any(|(_, earlier)| earlier.field == header.field) {
                self.problem(*origin, format!("lines have `{}` already", header.field));
            }
        }
        if let Some((origin, _)) = added.get(LogFields::MOST_ADDED) {
            self.problem(*origin, format!("lines can have {} fields of requests at most", LogFields::MOST_ADDED));
        }
        fields.added = added.into_iter().map(|(_, header)| header).collect();
        fields
    }

    /// Refuses fields of requests in the access log that carry credentials, in all configurations or in this one.
    pub(super) fn logged_credentials(&mut self, config: &Config) {
        let own = config.credential_fields();
        for text in self.file.access_log.as_option().iter().flat_map(|log| &log.fields.add) {
            let name = text.strip_prefix("header:").unwrap_or(text);
            let common = SECRET_FIELDS.into_iter().chain(message::credentials::FIELDS);
            let mut secrets = common.chain(own.iter().map(|name| &**name));
            if secrets.any(|secret| secret.eq_ignore_ascii_case(name)) {
                self.problem(text.origin, format!("`{name}` carries credentials, which are not logged"));
            }
        }
    }

    pub(super) fn redaction(&mut self) -> Redaction {
        for name in &self.file.redact {
            let fits = |byte: u8| byte.is_ascii_graphic() && !b"%&+=?#".contains(&byte);
            if !(1..=Redaction::LONGEST).contains(&name.len()) || !name.bytes().all(fits) {
                let message = format!(
                    "expected the name of a query parameter or a header field, of at most {} visible ASCII letters without `%&+=?#`, found `{}`",
                    Redaction::LONGEST,
                    **name
                );
                self.problem(name.origin, message);
            }
        }
        if let Some(name) = self.file.redact.get(Redaction::MOST) {
            self.problem(name.origin, format!("`redact` has {} names at most", Redaction::MOST));
        }
        self.file.redaction()
    }

    pub(super) fn server(&mut self) -> Server {
        let server = &self.file.server;
        if *server.max_connections == 0 {
            self.problem(server.max_connections.origin, "0 connections would serve nobody");
        }
        let per_client = server.max_connections_per_client.as_option();
        if let Some(zero) = per_client.filter(|number| number.value == 0) {
            self.problem(zero.origin, "with 0 connections no client is served; `none` means no limit");
        }
        if !FIELDS.contains(&*server.fields) {
            let message = format!("`fields` is from {} to {}", FIELDS.start(), FIELDS.end());
            self.problem(server.fields.origin, message);
        }
        let head = self.bytes(&server.head, "head", &HEAD_BYTES);
        let line = self.bytes(&server.request_line, "request_line", &REQUEST_LINE_BYTES);
        if line > head && server.request_line.origin != Default::default() {
            let message = format!(
                "`request_line` is larger than `head` ({}); the request line is a part of the head",
                server.head.value
            );
            self.problem(server.request_line.origin, message);
        }
        Server {
            max_connections: *server.max_connections,
            max_connections_per_client: per_client.map(|number| number.value),
            request_line_bytes: line.min(head),
            head_bytes: head,
            fields: *server.fields,
            body_bytes: server.body.as_option().map(|size| size.0),
            head_timeout: time(&server.head_timeout),
            body_idle_timeout: time(&server.body_idle_timeout),
            keep_alive: time(&server.keep_alive),
            drain: time(&server.drain),
            drain_delay: time(&server.drain_delay).unwrap_or_default(),
            connection: self.connection_use(&server.connection.max_requests, &server.connection.max_age),
            raises_files: server.files == raw::Files::Raise,
            http2: self.http2(),
            path: path_policy(&server.path),
            is_content_length_strict: server.strict_content_length,
            returns_request_id: server.return_request_id,
            coalesce: server.coalesce,
            auth_failures: self.events(&self.file.server.auth_failures),
        }
    }

    fn http2(&mut self) -> Http2 {
        let http2 = &self.file.server.http2;
        let streams = &http2.max_concurrent_streams;
        if !STREAMS.contains(&streams.value) {
            let message = format!("`max_concurrent_streams` is from {} to {}", STREAMS.start(), STREAMS.end());
            self.problem(streams.origin, message);
        }
        let max_requests = http2.max_requests.as_option();
        if let Some(zero) = max_requests.filter(|number| number.value == 0) {
            self.problem(zero.origin, "0 requests would serve nobody; `none` sets no bound");
        }
        if let Some(few) = http2.abuse_per_client.as_option().filter(|rate| rate.count < POINTS_OF_A_CONNECTION) {
            self.problem(
                few.origin,
                "`abuse_per_client` is at least 200 points, those of one connection; `none` sets no bound",
            );
        }
        Http2 {
            max_concurrent_streams: streams.value,
            max_requests: max_requests.map(|number| number.value),
            stream_window: self.window(&http2.stream_window, "stream_window"),
            connection_window: self.window(&http2.connection_window, "connection_window"),
            abuse_per_client: self.events(&http2.abuse_per_client),
        }
    }

    /// How long connections are used.
    pub(super) fn connection_use(
        &mut self,
        max_requests: &OrNone<Spanned<u32>>,
        max_age: &OrNone<Spanned<Time>>,
    ) -> ConnectionUse {
        if let Some(zero) = max_requests.as_option().filter(|number| number.value == 0) {
            self.problem(zero.origin, "0 requests would serve nobody; `none` sets no bound");
        }
        if let Some(short) = max_age.as_option().filter(|age| age.0 < SHORTEST_AGE) {
            self.problem(short.origin, "`max_age` is at least `1s`; `none` sets no bound");
        }
        ConnectionUse {
            max_requests: max_requests.as_option().map(|number| number.value),
            max_age: max_age.as_option().map(|age| age.0),
        }
    }

    /// Options of TCP connections.
    pub(super) fn tcp(&mut self, tcp: &raw::Tcp) -> TcpOptions {
        let mut option = |time: &OrNone<Spanned<Time>>, key: &str, range: std::ops::RangeInclusive<u64>| {
            let time = time.as_option()?;
            if !range.contains(&time.0.as_secs()) {
                let message = format!("`{key}` is from `{}s` to `{}s`", range.start(), range.end());
                self.problem(time.origin, message);
            }
            Some(time.0)
        };
        TcpOptions {
            keepalive: option(&tcp.keepalive, "keepalive", KEEPALIVE_SECONDS),
            user_timeout: option(&tcp.user_timeout, "user_timeout", USER_TIMEOUT_SECONDS),
        }
    }

    /// A window of HTTP/2.
    pub(super) fn window(&mut self, size: &Spanned<Size>, key: &str) -> u32 {
        u32::try_from(self.bytes(size, key, &WINDOW)).unwrap_or(u32::MAX / 2)
    }

    /// A size that is held in memory.
    fn bytes(&mut self, size: &Spanned<Size>, key: &str, range: &std::ops::RangeInclusive<u64>) -> usize {
        if !range.contains(&size.0) {
            let (least, most) = (Size(*range.start()), Size(*range.end()));
            self.problem(size.origin, format!("`{key}` is from {least} to {most}"));
        }
        usize::try_from(size.0).unwrap_or(usize::MAX)
    }

    pub(super) fn redis(&mut self) -> Option<Redis> {
        let redis = self.file.redis.as_ref()?;
        if let Err(bad) = Address::parse(&redis.url) {
            self.problem(redis.url.origin, format!("`url`: {bad}"));
        }
        let namespace = &redis.namespace;
        if !Redis::is_namespace(namespace) {
            self.problem(namespace.origin, Redis::NAMESPACE);
        }
        if let Some(secret) = redis.secret.as_ref().filter(|secret| secret.len() < 16) {
            self.problem(secret.origin, "`secret` has at least 16 bytes; `openssl rand -base64 32` makes one");
        }
        Some(Redis {
            url: redis.url.value.clone(),
            timeout: redis.timeout.0,
            namespace: namespace.value.clone(),
            secret: redis.secret.as_ref().map(|secret| secret.value.clone()),
        })
    }
}
