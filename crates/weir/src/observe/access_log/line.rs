//! One line: which fields it has and how long each may become.

use std::fmt::{self, Arguments};
use std::io::Write;

use ::http2::hpack::SensitiveNames;
use h1::encode;
use message::Known;
use proxy_protocol::Received;

use super::form::{Form, Json, Logfmt, Name, name};
use super::template::Fields;
use super::why::Sentence;
use super::{combined, json};
use crate::config::ClientAddress;
use crate::config::redact::{self, Redaction};
use crate::config::{FieldSet, LogFields, LogFormat, LoggedHeader};
use crate::error::Error;
use crate::observe::clock::Rfc3339;

/// Bytes after which a field is cut; see [`LONGEST`].
pub(super) const METHOD: usize = 32;
const HOST: usize = 256;
pub(super) const PATH: usize = 2048;
pub(super) const FIELD: usize = 512;
pub(super) const NAME: usize = 256;
const ID: usize = 128;
/// Of the sentence that says what decided.
pub(super) const WHY: usize = 512;
/// The longest list of violations: ten, with a pointer of 256 bytes each that may be escaped.
pub(super) const VIOLATIONS: usize = 10 * (6 * 256 + 128);

/// No line is longer: every byte of every field escaped as `\u00XX`, and 4 KiB for keys and numbers.
pub(super) const LONGEST: usize =
    6 * (METHOD + HOST + 2 * PATH + 3 * FIELD + WHY + (21 + LogFields::MOST_ADDED) * NAME + ID) + VIOLATIONS + 4096;

/// A finished request, as it is logged. Text may hold any bytes: it is escaped, and cut where it is too long.
///
/// Fields that are `None` do not appear in the line.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// End of the exchange in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// Who sent the request: the peer, or whom a trusted peer names.
    pub client: ClientAddress,
    /// Protocol of the request: `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub protocol: &'static str,
    /// Method as sent.
    pub method: &'a [u8],
    /// Host that the request names, port included.
    pub host: Option<&'a [u8]>,
    /// Path as sent, without the query; cut after 2 KiB.
    pub path: &'a [u8],
    /// Query as sent, without the question mark; values that carry credentials are blanked, then it is cut after 2 KiB.
    pub query: Option<&'a [u8]>,
    /// Status that was sent, or that would have been when the exchange broke off before one could.
    pub status: u16,
    /// Status of the gRPC call, 0 to 16; none of other requests, and of calls that broke off without one.
    pub grpc_status: Option<u8>,
    /// Name of the route; none when no route matched.
    pub route: Option<&'a str>,
    /// Name of the upstream that responded or failed to; none when the gateway responded by itself.
    pub upstream: Option<&'a str>,
    /// Address of its target.
    pub target: Option<&'a str>,
    /// Bytes of the request, head included.
    pub request_bytes: u64,
    /// Bytes of the response, head included.
    pub response_bytes: u64,
    /// Of the whole exchange, in nanoseconds; logged in milliseconds.
    pub duration_ns: u64,
    /// Of the last attempt at the upstream, in nanoseconds; logged in milliseconds.
    pub upstream_ns: Option<u64>,
    /// In queues of upstreams, in nanoseconds; logged in milliseconds.
    pub queue_ns: Option<u64>,
    /// Id of the request.
    pub request_id: &'a [u8],
    /// `User-Agent`; cut after 512 bytes.
    pub user_agent: Option<&'a [u8]>,
    /// `Referer`, without user information and with its query as `query` is; cut after 512 bytes.
    pub referer: Option<&'a [u8]>,
    /// Why the request could not be served; logged as `reason`, `fault` and `detail`.
    pub error: Option<Error>,
    /// Consumer that was authenticated; none on open routes.
    pub consumer: Option<&'a str>,
    /// Attempts at upstreams; 0 when no upstream was called.
    pub attempts: u32,
    /// A fallback upstream was used instead of the one that the route names first.
    pub fallback: bool,
    /// State of the cache (`hit`, `miss`, ...); none when the route has no cache.
    pub cache: Option<&'static str>,
    /// What came of authentication (`ok`, `missing`, `expired`, ...); none on open routes.
    pub auth: Option<&'static str>,
    /// Why a credential does not hold; clients are not told.
    pub auth_detail: Option<&'static str>,
    /// Authenticator whose verdict counted.
    pub authenticator: Option<&'a str>,
    /// Limit that refused the request.
    pub limit: Option<&'a str>,
    /// What the gateway sent by itself, or in place of the upstream's response, in a sentence for `why`.
    pub own: Option<&'static str>,
    /// Limit with `enforce: false` that would have refused the request.
    pub would_refuse: Option<&'a str>,
    /// Its span; none when no traces are configured.
    pub trace: Option<telemetry::Parent>,
    /// What is wrong with the request by the description of its route, as a JSON array; empty when nothing is.
    pub violations: &'a [u8],
    /// The call of an AI model.
    pub ai: Option<Call<'a>>,
    /// What the client's connection negotiated; none in clear text.
    pub tls: Option<&'a tls::Session>,
    /// The PROXY header that the client's connection began with.
    pub proxied: Option<&'a Received>,
    /// All fields of the request, and what they are spans of, for those that the configuration adds.
    pub request_fields: Option<(&'a message::Fields, &'a [u8])>,
    /// Fields with credentials in the configuration of the request. The log may be older, and one of its fields a credential by now.
    pub sensitive: Option<&'a SensitiveNames>,
    /// Parameters of queries whose values are blanked.
    pub redaction: &'a Redaction,
}

/// A line in which nothing is known.
impl Default for Line<'_> {
    fn default() -> Self {
        Line {
            time_ms: 0,
            client: ClientAddress::Unix,
            protocol: "",
            method: b"",
            host: None,
            path: b"",
            query: None,
            status: 0,
            grpc_status: None,
            route: None,
            upstream: None,
            target: None,
            request_bytes: 0,
            response_bytes: 0,
            duration_ns: 0,
            upstream_ns: None,
            queue_ns: None,
            request_id: b"",
            user_agent: None,
            referer: None,
            error: None,
            consumer: None,
            attempts: 0,
            fallback: false,
            cache: None,
            auth: None,
            auth_detail: None,
            authenticator: None,
            limit: None,
            own: None,
            would_refuse: None,
            trace: None,
            violations: b"",
            ai: None,
            tls: None,
            proxied: None,
            request_fields: None,
            sensitive: None,
            redaction: &redact::BUILT_IN,
        }
    }
}

/// A call of an AI model.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Name of the ingress API.
    pub api: &'static str,
    /// Model of the configuration.
    pub model: &'a str,
    /// Provider of the last attempt.
    pub provider: Option<&'a str>,
    /// Name of the model at that provider.
    pub served_model: &'a str,
    /// End of the key of the last attempt.
    pub key: Option<&'a str>,
    /// Whether the client wants events.
    pub streams: bool,
    /// From sending the request to the first content, in nanoseconds.
    pub first_token_ns: Option<u64>,
    /// Tokens in, out and read from a cache of the provider.
    pub tokens: Option<[u64; 3]>,
    /// Whether the tokens are an estimate.
    pub estimated: bool,
    /// What the call has cost, in millionths.
    pub cost: Option<u64>,
    /// Tokens that were reserved, where limits count them.
    pub reserved: Option<u64>,
    /// What was replaced in the prompt.
    pub redacted: u64,
    /// What came of a stream that broke off, where another attempt was to go on.
    pub recovered: Option<&'static str>,
    /// Attempts, in order: `provider/model:F5>other/model:ok`.
    pub tried: &'a str,
    /// How it ended.
    pub end: &'static str,
}

impl Line<'_> {
    /// Appends the line and its line feed. `memory`: for a template.
    pub(super) fn render(
        &self,
        out: &mut Vec<u8>,
        clock: &mut Rfc3339,
        (format, fields): (&LogFormat, &LogFields),
        memory: &mut Fields,
    ) {
        match format {
            LogFormat::Json => self.fields::<Json>(out, clock, fields.dropped, &fields.added),
            LogFormat::Logfmt => self.fields::<Logfmt>(out, clock, fields.dropped, &fields.added),
            LogFormat::Combined => combined::render(self, out, clock),
            LogFormat::Template(parts) => memory.render(self, parts, out, clock),
        }
    }

    /// Appends all fields but the `dropped` ones, and the `added` ones of the request.
    pub(super) fn fields<F: Form>(
        &self,
        out: &mut Vec<u8>,
        clock: &mut Rfc3339,
        dropped: FieldSet,
        added: &[LoggedHeader],
    ) {
        let out = &mut Out { bytes: out, dropped };
        out.bytes.extend_from_slice(F::OPEN);
        plain::<F>(out, name!("time"), |out| out.extend_from_slice(clock.render(self.time_ms).as_bytes()));
        plain::<F>(out, name!("client"), |out| json::address(out, self.client));
        plain::<F>(out, name!("protocol"), |out| out.extend_from_slice(self.protocol.as_bytes()));
        text::<F>(out, name!("method"), Some(self.method), METHOD);
        text::<F>(out, name!("host"), self.host, HOST);
        // The target of a request that cannot be parsed may be a URL with a user.
        value::<F>(out, name!("path"), |out| shown_url(self.redaction, self.path, |shown| F::text(out, shown, PATH)));
        if let Some(query) = self.query {
            value::<F>(out, name!("query"), |out| {
                shown_query(self.redaction, query, |shown| F::text(out, shown, PATH));
            });
        }
        count::<F>(out, name!("status"), u64::from(self.status));
        if let Some(status) = self.grpc_status {
            count::<F>(out, name!("grpc_status"), u64::from(status));
        }
        text::<F>(out, name!("route"), self.route.map(str::as_bytes), NAME);
        text::<F>(out, name!("upstream"), self.upstream.map(str::as_bytes), NAME);
        text::<F>(out, name!("target"), self.target.map(str::as_bytes), NAME);
        count::<F>(out, name!("bytes_in"), self.request_bytes);
        count::<F>(out, name!("bytes_out"), self.response_bytes);
        value::<F>(out, name!("duration_ms"), |out| json::milliseconds(out, self.duration_ns));
        if let Some(ns) = self.upstream_ns {
            value::<F>(out, name!("upstream_ms"), |out| json::milliseconds(out, ns));
        }
        if let Some(ns) = self.queue_ns {
            value::<F>(out, name!("queue_ms"), |out| json::milliseconds(out, ns));
        }
        if self.attempts > 0 {
            count::<F>(out, name!("attempts"), u64::from(self.attempts));
        }
        text::<F>(out, name!("request_id"), Some(self.request_id), ID);
        if let Some(trace) = self.trace {
            plain::<F>(out, name!("trace_id"), |out| display(out, format_args!("{:032x}", trace.trace.0)));
            plain::<F>(out, name!("span_id"), |out| display(out, format_args!("{:016x}", trace.span.0)));
        }
        text::<F>(out, name!("user_agent"), self.user_agent, FIELD);
        if let Some(referer) = self.referer {
            value::<F>(out, name!("referer"), |out| {
                shown_url(self.redaction, referer, |shown| F::text(out, shown, FIELD));
            });
        }
        if self.fallback {
            flag::<F>(out, name!("fallback"), true);
        }
        text::<F>(out, name!("consumer"), self.consumer.map(str::as_bytes), NAME);
        text::<F>(out, name!("cache"), self.cache.map(str::as_bytes), NAME);
        text::<F>(out, name!("auth"), self.auth.map(str::as_bytes), NAME);
        text::<F>(out, name!("auth_detail"), self.auth_detail.map(str::as_bytes), FIELD);
        text::<F>(out, name!("would_refuse"), self.would_refuse.map(str::as_bytes), NAME);
        if !self.violations.is_empty() && self.violations.len() <= VIOLATIONS {
            value::<F>(out, name!("violations"), |out| F::value(out, self.violations));
        }
        if let Some(ai) = &self.ai {
            call::<F>(out, ai);
        }
        if let Some(tls) = self.tls {
            text::<F>(out, name!("tls_version"), Some(tls.version.as_bytes()), NAME);
            text::<F>(out, name!("tls_cipher"), Some(tls.cipher.as_bytes()), NAME);
            text::<F>(out, name!("tls_group"), tls.group.map(str::as_bytes), NAME);
            text::<F>(out, name!("sni"), tls.sni.as_deref().map(str::as_bytes), NAME);
            text::<F>(out, name!("alpn"), tls.alpn.map(tls::Alpn::id), NAME);
            flag::<F>(out, name!("tls_resumed"), tls.is_resumed);
            if let Some(peer) = &tls.peer {
                plain::<F>(out, name!("client_cert_sha256"), |out| display(out, format_args!("{}", Hex(&peer.sha256))));
            }
        }
        if let Some(received) = self.proxied {
            let proxy = received.proxy.map_or(ClientAddress::Unix, ClientAddress::Ip);
            plain::<F>(out, name!("proxy"), |out| json::address(out, proxy));
            text::<F>(out, name!("proxy_protocol"), Some(received.version.name().as_bytes()), NAME);
            text::<F>(out, name!("proxy_authority"), received.authority.as_deref(), NAME);
            text::<F>(out, name!("proxy_alpn"), received.alpn.as_deref(), NAME);
            text::<F>(out, name!("proxy_unique_id"), received.unique_id.as_deref(), FIELD);
        }
        if let Some(error) = self.error {
            text::<F>(out, name!("reason"), Some(error.reason.label().as_bytes()), NAME);
            text::<F>(out, name!("fault"), Some(error.reason.fault().label().as_bytes()), NAME);
            text::<F>(out, name!("detail"), Some(error.detail.as_bytes()).filter(|d| !d.is_empty()), NAME);
        }
        if let Some(sentence) = Sentence::of(self) {
            text::<F>(out, name!("why"), Some(sentence.text()), WHY);
        }
        if let Some((fields, buf)) = self.request_fields {
            for header in added {
                let name = header.name.as_bytes();
                if self.sensitive.is_some_and(|names| names.contains(Known::of(name), name)) {
                    continue;
                }
                let found = fields.iter().find(|field| field.name.of_buf(buf).eq_ignore_ascii_case(name));
                if let Some(field) = found {
                    F::added_key(out.bytes, &header.field);
                    // It may be a URL, as that of `Referer` or of a proxy before this one.
                    shown_url(self.redaction, field.value.of_buf(buf), |shown| F::text(out.bytes, shown, NAME));
                }
            }
        }
        out.bytes.extend_from_slice(F::CLOSE);
    }
}

/// The group of a call of an AI model.
fn call<F: Form>(out: &mut Out<'_>, ai: &Call<'_>) {
    let text = |out: &mut Out<'_>, name, value: Option<&str>, most| {
        text::<F>(out, name, value.map(str::as_bytes), most);
    };
    F::open_group(out.bytes, name!("ai"));
    text(out, name!("ai", "api"), Some(ai.api), NAME);
    text(out, name!("ai", "model"), Some(ai.model), NAME);
    text(out, name!("ai", "provider"), ai.provider, NAME);
    text(out, name!("ai", "served_model"), ai.provider.map(|_| ai.served_model), NAME);
    text(out, name!("ai", "key"), ai.key, NAME);
    flag::<F>(out, name!("ai", "stream"), ai.streams);
    if let Some(ns) = ai.first_token_ns {
        value::<F>(out, name!("ai", "ttft_ms"), |out| json::milliseconds(out, ns));
    }
    if let Some([input, output, cached]) = ai.tokens {
        count::<F>(out, name!("ai", "tokens_in"), input);
        count::<F>(out, name!("ai", "tokens_out"), output);
        count::<F>(out, name!("ai", "tokens_cached"), cached);
        flag::<F>(out, name!("ai", "estimated"), ai.estimated);
    }
    if let Some(cost) = ai.cost {
        let (whole, millionths) = (cost / 1_000_000, cost % 1_000_000);
        value::<F>(out, name!("ai", "cost"), |out| display(out, format_args!("{whole}.{millionths:06}")));
    }
    if let Some(reserved) = ai.reserved {
        count::<F>(out, name!("ai", "tokens_reserved"), reserved);
    }
    if ai.redacted > 0 {
        count::<F>(out, name!("ai", "redacted"), ai.redacted);
    }
    text(out, name!("ai", "recovered"), ai.recovered, NAME);
    text(out, name!("ai", "tried"), Some(ai.tried).filter(|tried| !tried.is_empty()), FIELD);
    text(out, name!("ai", "end"), Some(ai.end), NAME);
    F::close_group(out.bytes);
}

/// Where fields go.
struct Out<'a> {
    bytes: &'a mut Vec<u8>,
    dropped: FieldSet,
}

/// A field, unless it is dropped; `write` writes its value.
#[inline]
fn value<F: Form>(out: &mut Out<'_>, name: &Name, write: impl FnOnce(&mut Vec<u8>)) {
    if name.index.is_none_or(|index| !out.dropped.contains(index)) {
        F::key(out.bytes, name);
        write(out.bytes);
    }
}

fn text<F: Form>(out: &mut Out<'_>, name: &Name, text: Option<&[u8]>, most: usize) {
    if let Some(text) = text {
        value::<F>(out, name, |out| F::text(out, text, most));
    }
}

fn plain<F: Form>(out: &mut Out<'_>, name: &Name, write: impl FnOnce(&mut Vec<u8>)) {
    value::<F>(out, name, |out| F::plain(out, write));
}

fn display(out: &mut Vec<u8>, value: Arguments<'_>) {
    out.write_fmt(value).expect("a Vec takes what is written");
}

fn flag<F: Form>(out: &mut Out<'_>, name: &Name, flag: bool) {
    value::<F>(out, name, |out| out.extend_from_slice(if flag { b"true" } else { b"false" }));
}

fn count<F: Form>(out: &mut Out<'_>, name: &Name, count: u64) {
    value::<F>(out, name, |out| encode::decimal(out, count));
}

/// Hands on what may be shown of a query; takes memory only where something may not.
pub(super) fn shown_query(redaction: &Redaction, query: &[u8], then: impl FnOnce(&[u8])) {
    if redaction.has_secrets(query) {
        let mut shown = Vec::new();
        redaction.query(&mut shown, query);
        then(&shown);
    } else {
        then(query);
    }
}

/// The same of a URL.
pub(super) fn shown_url(redaction: &Redaction, url: &[u8], then: impl FnOnce(&[u8])) {
    if redaction.url_has_secrets(url) {
        let mut shown = Vec::new();
        redaction.url(&mut shown, url);
        then(&shown);
    } else {
        then(url);
    }
}

/// Bytes as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
