//! One line: which fields it has and how long each may become.

use std::io::Write;

use proxy_protocol::Received;

use super::json;
use crate::error::Error;
use crate::exchange::{ClientAddress, ai};
use crate::observe::clock::Rfc3339;
use crate::observe::redact;

/// Bytes after which a field is cut; see [`LONGEST`].
const METHOD: usize = 32;
const HOST: usize = 256;
const PATH: usize = 2048;
const FIELD: usize = 512;
const NAME: usize = 256;
const ID: usize = 128;
/// The longest list of violations: ten, with a pointer of 256 bytes each that may be escaped.
pub(super) const VIOLATIONS: usize = 10 * (6 * 256 + 128);

/// No line is longer: every byte of every field escaped as `\u00XX`, and 3 KiB for keys and numbers.
pub(super) const LONGEST: usize = 6 * (METHOD + HOST + 2 * PATH + 3 * FIELD + 21 * NAME + ID) + VIOLATIONS + 3072;

/// A finished request, as it is logged. Text may hold any bytes: it is escaped, and cut where it is too long.
///
/// Fields that are `None` do not appear in the line.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// End of the exchange in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// Who asked: the peer, or whom a trusted peer speaks for.
    pub client: ClientAddress,
    /// Protocol of the request: `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub protocol: &'static str,
    /// Method as sent.
    pub method: &'a [u8],
    /// Host that was asked for, port included.
    pub host: Option<&'a [u8]>,
    /// Path as sent, without the query; cut after 2 KiB.
    pub path: &'a [u8],
    /// Query as sent, without the question mark; values that carry credentials are blanked, then it is cut after 2 KiB.
    pub query: Option<&'a [u8]>,
    /// Status that was sent, or that would have been when the exchange broke off before one could.
    pub status: u16,
    /// Name of the route; none when no route matched.
    pub route: Option<&'a str>,
    /// Name of the upstream that answered or failed to; none when the gateway answered by itself.
    pub upstream: Option<&'a str>,
    /// Address of its target.
    pub target: Option<&'a str>,
    /// Bytes of the request, head included.
    pub request_bytes: u64,
    /// Bytes of the answer, head included.
    pub response_bytes: u64,
    /// Of the whole exchange, in nanoseconds; logged in milliseconds.
    pub duration_ns: u64,
    /// Of the last attempt at the upstream, in nanoseconds; logged in milliseconds.
    pub upstream_ns: Option<u64>,
    /// Id of the request.
    pub request_id: &'a [u8],
    /// `User-Agent`; cut after 512 bytes.
    pub user_agent: Option<&'a [u8]>,
    /// `Referer`, with its query as `query` is; cut after 512 bytes.
    pub referer: Option<&'a [u8]>,
    /// Why the request was not served as asked; logged as `reason`, `fault` and `detail`.
    pub error: Option<Error>,
    /// Consumer that was authenticated; none on open routes.
    pub consumer: Option<&'a str>,
    /// Attempts at upstreams; 0 when none was asked.
    pub attempts: u32,
    /// The upstream stood in for the one that the route names first.
    pub fallback: bool,
    /// State of the cache (`hit`, `miss`, ...); none when the route has no cache.
    pub cache: Option<&'static str>,
    /// What came of authentication (`ok`, `missing`, `expired`, ...); none on open routes.
    pub auth: Option<&'static str>,
    /// Why a credential does not hold; clients are not told.
    pub auth_detail: Option<&'static str>,
    /// Limit with `enforce: false` that would have refused the request.
    pub would_refuse: Option<&'a str>,
    /// Its span; none when no traces are configured.
    pub trace: Option<telemetry::Parent>,
    /// What is wrong with the request by the description of its route, as a JSON array; empty when nothing is.
    pub violations: &'a [u8],
    /// The call of an AI model, and how it ended.
    pub ai: Option<(&'a ai::Record, &'static str)>,
    /// What the client's connection negotiated; none in clear text.
    pub tls: Option<&'a tls::Session>,
    /// The PROXY header that the client's connection began with.
    pub proxied: Option<&'a Received>,
}

impl Line<'_> {
    /// Appends the line and its line feed.
    pub(super) fn render(&self, out: &mut Vec<u8>, clock: &mut Rfc3339) {
        out.extend_from_slice(b"{\"time\":\"");
        out.extend_from_slice(clock.render(self.time_ms).as_bytes());
        out.extend_from_slice(b"\",\"client\":\"");
        write!(out, "{}", self.client).expect("a Vec takes what is written");
        out.extend_from_slice(b"\",\"protocol\":\"");
        out.extend_from_slice(self.protocol.as_bytes());
        out.extend_from_slice(b"\",\"method\":");
        json::string(out, self.method, METHOD);
        text(out, "host", self.host, HOST);
        text(out, "path", Some(self.path), PATH);
        redacted(out, "query", self.query, 0, PATH);
        count(out, "status", u64::from(self.status));
        text(out, "route", self.route.map(str::as_bytes), NAME);
        text(out, "upstream", self.upstream.map(str::as_bytes), NAME);
        text(out, "target", self.target.map(str::as_bytes), NAME);
        count(out, "bytes_in", self.request_bytes);
        count(out, "bytes_out", self.response_bytes);
        key(out, "duration_ms");
        json::milliseconds(out, self.duration_ns);
        if let Some(ns) = self.upstream_ns {
            key(out, "upstream_ms");
            json::milliseconds(out, ns);
        }
        if self.attempts > 0 {
            count(out, "attempts", u64::from(self.attempts));
        }
        text(out, "request_id", Some(self.request_id), ID);
        if let Some(trace) = self.trace {
            key(out, "trace_id");
            hex(out, trace.trace.0, 32);
            key(out, "span_id");
            hex(out, trace.span.0.into(), 16);
        }
        text(out, "user_agent", self.user_agent, FIELD);
        let query = self.referer.and_then(|url| url.iter().position(|&byte| byte == b'?'));
        redacted(out, "referer", self.referer, query.map_or(0, |mark| mark + 1), FIELD);
        if self.fallback {
            out.extend_from_slice(b",\"fallback\":true");
        }
        text(out, "consumer", self.consumer.map(str::as_bytes), NAME);
        text(out, "cache", self.cache.map(str::as_bytes), NAME);
        text(out, "auth", self.auth.map(str::as_bytes), NAME);
        text(out, "auth_detail", self.auth_detail.map(str::as_bytes), FIELD);
        text(out, "would_refuse", self.would_refuse.map(str::as_bytes), NAME);
        if !self.violations.is_empty() && self.violations.len() <= VIOLATIONS {
            key(out, "violations");
            out.extend_from_slice(self.violations);
        }
        if let Some((ai, end)) = self.ai {
            call(out, ai, end);
        }
        if let Some(tls) = self.tls {
            text(out, "tls_version", Some(tls.version.as_bytes()), NAME);
            text(out, "tls_cipher", Some(tls.cipher.as_bytes()), NAME);
            text(out, "tls_group", tls.group.map(str::as_bytes), NAME);
            text(out, "sni", tls.sni.as_deref().map(str::as_bytes), NAME);
            text(out, "alpn", tls.alpn.map(tls::Alpn::id), NAME);
            key(out, "tls_resumed");
            out.extend_from_slice(if tls.is_resumed { b"true" } else { b"false" });
            if let Some(peer) = &tls.peer {
                key(out, "client_cert_sha256");
                out.push(b'"');
                for byte in peer.sha256 {
                    write!(out, "{byte:02x}").expect("a Vec takes what is written");
                }
                out.push(b'"');
            }
        }
        if let Some(received) = self.proxied {
            key(out, "proxy");
            let proxy = received.proxy.map_or(ClientAddress::Unix, ClientAddress::Ip);
            write!(out, "\"{proxy}\"").expect("a Vec takes what is written");
            text(out, "proxy_protocol", Some(received.version.name().as_bytes()), NAME);
            text(out, "proxy_authority", received.authority.as_deref(), NAME);
            text(out, "proxy_alpn", received.alpn.as_deref(), NAME);
            text(out, "proxy_unique_id", received.unique_id.as_deref(), FIELD);
        }
        if let Some(error) = self.error {
            text(out, "reason", Some(error.reason.label().as_bytes()), NAME);
            text(out, "fault", Some(error.reason.fault().label().as_bytes()), NAME);
            text(out, "detail", Some(error.detail.as_bytes()).filter(|d| !d.is_empty()), NAME);
        }
        out.extend_from_slice(b"}\n");
    }
}

/// The object of a call of an AI model.
fn call(out: &mut Vec<u8>, ai: &ai::Record, end: &str) {
    key(out, "ai");
    out.extend_from_slice(b"{\"api\":");
    json::string(out, ai::api_name(ai.api).as_bytes(), NAME);
    text(out, "model", Some(ai.model.as_bytes()), NAME);
    text(out, "provider", ai.provider.as_deref().map(str::as_bytes), NAME);
    text(out, "served_model", ai.provider.as_ref().map(|_| ai.served_model.as_bytes()), NAME);
    text(out, "key", ai.key.as_deref().map(str::as_bytes), NAME);
    out.extend_from_slice(if ai.streams { b",\"stream\":true" } else { b",\"stream\":false" });
    if let Some(ns) = ai.first_token_ns {
        key(out, "ttft_ms");
        json::milliseconds(out, ns);
    }
    if let Some([input, output, cached]) = ai.tokens {
        count(out, "tokens_in", input);
        count(out, "tokens_out", output);
        count(out, "tokens_cached", cached);
        out.extend_from_slice(if ai.estimated { b",\"estimated\":true" } else { b",\"estimated\":false" });
    }
    if let Some(cost) = ai.cost {
        key(out, "cost");
        write!(out, "{}.{:06}", cost / 1_000_000, cost % 1_000_000).expect("a Vec takes what is written");
    }
    if let Some(reserved) = ai.reserved {
        count(out, "tokens_reserved", reserved);
    }
    text(out, "tried", Some(ai.tried.as_bytes()).filter(|tried| !tried.is_empty()), FIELD);
    text(out, "end", Some(end.as_bytes()), NAME);
    out.push(b'}');
}

/// A comma, and a key that needs no escaping.
fn key(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn text(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>, most: usize) {
    if let Some(value) = value {
        key(out, name);
        json::string(out, value, most);
    }
}

/// Text with a query from `query` on, without values that carry credentials; takes memory only where there are some.
fn redacted(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>, query: usize, most: usize) {
    let Some((before, query)) = value.map(|value| value.split_at(query)) else { return };
    if redact::has_secrets(query) {
        let mut shown = before.to_vec();
        redact::query(&mut shown, query);
        text(out, name, Some(&shown), most);
    } else {
        text(out, name, value, most);
    }
}

fn hex(out: &mut Vec<u8>, number: u128, digits: u32) {
    out.push(b'"');
    telemetry::context::write_hex(out, number, digits);
    out.push(b'"');
}

fn count(out: &mut Vec<u8>, name: &str, value: u64) {
    key(out, name);
    json::number(out, value);
}
